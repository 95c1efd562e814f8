/* SPDX-License-Identifier: MIT */
/*
 * Flow control: streams of any length through rings of bounded memory, in each direction of a
 * session, by RDMA READ or RDMA WRITE. Arithmetic only: no verbs, no clock, no input or output, no
 * allocation. The caller passes in the time, posts the planned requests, and reports the results.
 *
 * Threads: the connection's thread; the main thread before and after that thread runs.
 *
 * A direction is a stream of bytes from a source to a sink. A position counts bytes from the
 * beginning of the stream. The advertised ring is the region of MSG_MR. The operating side moves
 * the stream between its own ring and the advertised one. Byte x is in each ring at offset x modulo
 * the ring's length, or modulo a shorter length (local_span, remote_span).
 *
 *     WRITE  source -fill-> own ring -RDMA WRITE-> advertised ring -copy-> sink
 *     READ   source -fill-> advertised ring -RDMA READ-> own ring -copy-> sink
 *
 * Each side reports three positions in MSG_WINDOW. They only grow:
 *
 *     produced  READ: bytes that the source has filled
 *               WRITE: bytes that are posted. They arrive before this MSG_WINDOW.
 *     consumed  READ: bytes that are read, so that the source may refill
 *               WRITE: bytes that the sink has copied out, so that the source may overwrite.
 *               Bytes that stay in the sink's ring (fits_ring) count when they arrive.
 *     stored    bytes that the sink has digested and, with --output, written. Before a good
 *               verdict they are synced, too.
 *
 * A stream "repeats" if it may have several passes, and a whole pass fits into the advertised ring.
 * Every pass then sends the same bytes, as with perftest. The operating side's position (WRITE:
 * produced, READ: consumed) counts all passes, to show progress. MSG_DONE counts one pass.
 *
 * Times are milliseconds of any monotonic clock.
 */
#ifndef RDMA_COMMON_TRANSFER_H
#define RDMA_COMMON_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* A time that never comes. */
#define TRANSFER_NEVER INT64_MAX

/* The values that the programs use. Tests use others, too. */
#define TRANSFER_CREDITS      32
#define TRANSFER_REQUEST_SIZE ((uint64_t)1 << 20)

/* Flow control reports progress of 1/TRANSFER_SHARE of a ring at once. */
#define TRANSFER_SHARE        4
#define TRANSFER_MILLISECONDS 250 /* age at which progress is reported */

/*
 * Initial and maximum bytes of requests in flight. The number doubles each time these bytes
 * complete within TRANSFER_MILLISECONDS. A wire of 2 Mbit/s carries the initial number in about a
 * second, so the number does not grow. With more bytes in flight a request would wait longer, and
 * the adapter would retransmit packets that are only slow.
 */
#define TRANSFER_IN_FLIGHT     ((uint64_t)256 << 10)
#define TRANSFER_MAX_IN_FLIGHT ((uint64_t)8 << 20)

/* Maximum number of outstanding requests that ask for a completion. */
#define TRANSFER_SIGNALS 16

/* One stream, as known before the peer's MSG_MR. */
struct stream_plan {
	bool present;    /* false if this direction has no payload: the other fields are invalid */
	uint64_t length; /* bytes of one pass. With LENGTH_UNKNOWN only one pass is possible. */
	uint64_t passes; /* number of passes. 0 means until the time is over. */
	uint64_t ring;   /* bytes of this side's ring, at least 1 */
};

struct transfer_plan {
	bool writes; /* the operation is RDMA WRITE, else RDMA READ */
	/*
	 * A WRITE may complete before the adapter has read the memory. Over iWARP the provider may
	 * send without copying. So the source overwrites only bytes that the sink has consumed. A
	 * source whose ring is shorter than the advertised one reports `produced` after each
	 * 1/TRANSFER_SHARE of its ring. The sink answers as soon as it has consumed these bytes.
	 */
	bool completes_early;
	unsigned int depth;    /* maximum number of outstanding requests, 1 to 65536 */
	uint64_t request_size; /* maximum bytes of a request */
	/*
	 * Maximum number of unconfirmed MSG_WINDOWs of each side, at least 3. It is 0 if the peer
	 * does not know MSG_WINDOW.
	 */
	unsigned int credits;
	struct stream_plan outgoing; /* this side is the source */
	struct stream_plan incoming; /* this side is the sink */
};

/* One stream, as known during the transfer. */
struct transfer_stream {
	struct stream_plan plan;
	uint64_t advertised_size; /* bytes of the advertised ring. 0 if not known yet. */
	uint64_t length;          /* bytes of all passes. LENGTH_UNKNOWN before the end is known. */
	bool agreed;      /* the length is known from the beginning, so the end needs no report */
	uint64_t quarter; /* bytes of progress that flow control reports at once */
	/*
	 * If this side operates on the stream: byte x is at offset x % local_span in this side's
	 * ring, and at x % remote_span in the peer's.
	 */
	uint64_t local_span, remote_span;
	bool fits_ring; /* this side's ring holds the whole stream, or one pass if it repeats */
	bool repeats;   /* every pass sends the same bytes, and may overwrite the pass before */
	/*
	 * The stream has flow control: it neither repeats nor fits into the advertised ring, or
	 * this side needs reports of consumed bytes.
	 */
	bool flow_controlled;
};

/* Positions of the outgoing stream, whose source is this side. */
struct transfer_source {
	struct transfer_stream stream;
	uint64_t filled;            /* end of the bytes filled into the ring */
	uint64_t reported_produced; /* last `produced` reported to the peer */
	uint64_t consumed;          /* last `consumed` reported by the peer */
	uint64_t stored;            /* last `stored` reported by the peer: a sign of progress */
	bool reported_end;          /* the end was reported to the peer */
};

/* Positions of the incoming stream, whose sink is this side. */
struct transfer_sink {
	struct transfer_stream stream;
	uint64_t produced; /* last `produced` reported by the peer */
	uint64_t copied;   /* end of the bytes copied out of the ring */
	uint64_t stored;   /* end of the bytes that are digested and, with --output, stored */
	uint64_t reported_consumed; /* last `consumed` reported to the peer */
	uint64_t reported_stored;   /* last `stored` reported to the peer */
	bool done;                  /* the peer's MSG_DONE has arrived */
};

/* A signal: an outstanding request that asks for a completion. */
struct transfer_signal {
	uint64_t request;  /* number of the request */
	uint64_t position; /* position in the stream after the request */
};

/* This side's operation: positions in its stream, and numbers of requests, which count from 1. */
struct transfer_operation {
	uint64_t posted, completed;
	uint64_t local, remote; /* offsets of `posted` in this side's ring and in the peer's */
	uint64_t requests_posted, requests_completed;
	uint64_t unsignaled; /* number of requests posted since the last signal */
	struct transfer_signal
		signals[TRANSFER_SIGNALS]; /* a queue: entry n is at n modulo TRANSFER_SIGNALS */
	uint64_t signals_posted, signals_completed;
	uint64_t size;      /* maximum bytes of a request */
	uint64_t depth;     /* maximum number of outstanding requests. 0 if not known yet. */
	uint64_t interval;  /* maximum number of requests per completion */
	uint64_t in_flight; /* maximum bytes of outstanding requests. One request may be longer. */
	bool grows;         /* a larger `in_flight` would allow longer or more requests */
	uint64_t round;     /* position at which the round ends (end_round()) */
	int64_t round_started; /* start of that round, or TRANSFER_NEVER if it is not measured */
};

/* Numbers of MSG_WINDOWs in both directions. */
struct transfer_credits {
	uint64_t sent, confirmed;    /* this side's MSG_WINDOWs: sent, and confirmed by the peer */
	uint64_t received, reported; /* the peer's MSG_WINDOWs: received, and confirmed */
};

/* One side of a session. The caller may read it. Only this module changes it. */
struct transfer {
	struct transfer_plan plan;
	struct transfer_source source;
	struct transfer_sink sink;
	struct transfer_operation operation;
	struct transfer_credits credits;
	uint64_t moves; /* number of the peer's MSG_WINDOWs that reported progress or an end */
	int64_t unreported_since; /* time of the first unreported progress, or TRANSFER_NEVER */
};

/* A part of this side's ring that does not cross the ring's end. */
struct piece {
	uint64_t offset;   /* bytes from the beginning of the ring */
	uint64_t position; /* position in the stream */
	uint64_t size;     /* bytes */
};

/* Work requests of equal size. */
struct transfer_run {
	uint64_t number; /* number of the first request, for transfer_record_completed() */
	uint64_t local;  /* offset of the first request in this side's ring */
	uint64_t remote; /* offset of the first request in the advertised ring */
	uint64_t size;   /* bytes of each request */
	/* Distance between requests in both rings. It is 0 if all move the same bytes. */
	uint64_t stride;
	unsigned int count;
	bool signaled; /* the last request asks for a completion, which covers all before it */
	bool more;     /* another run may be posted now */
};

void transfer_init(struct transfer *transfer, const struct transfer_plan *plan);

/* ---- Messages ---- */

/*
 * Return `produced` for this side's MSG_MR, and record that the peer knows it. For a WRITE it is 0.
 * Call this once, when MSG_MR is posted.
 */
uint64_t transfer_advertise(struct transfer *transfer);

/*
 * Handle the peer's MSG_MR, whose region has `ring` bytes and must not wrap around. A READ may read
 * `produced` of them. A WRITE ignores this number. Return NULL, or the broken rule: a static string
 * that follows "the peer's memory region ".
 */
const char *transfer_accept_region(struct transfer *transfer, uint64_t ring, uint64_t produced);

/*
 * Return when a MSG_WINDOW is due if nothing else happens. `now` or earlier means at once.
 * TRANSFER_NEVER means that there is nothing to report, or no credit. Call this after
 * transfer_take_run() and every other call that records progress: the age of that progress counts
 * from this call.
 */
int64_t transfer_window_time(struct transfer *transfer, int64_t now);

/* Return true if the age of progress alone decides when it is reported. */
bool transfer_is_reported_by_age(const struct transfer *transfer);

/*
 * Return the MSG_WINDOW to post now, and count it as sent. Call this only if one is due
 * (transfer_window_time()) and window_may_be_sent().
 */
struct window transfer_make_window(struct transfer *transfer);

/*
 * Handle the peer's MSG_WINDOW, and return NULL. If it breaks a rule, change nothing and return the
 * rule: a static string that follows "the peer's MSG_WINDOW ".
 */
const char *transfer_accept_window(struct transfer *transfer, const struct window *window);

/*
 * Return true if MSG_DONE follows the operation without a wait for its completion. A SEND never
 * overtakes a WRITE. A SEND may overtake a READ, and then the peer would free memory that is being
 * read.
 *
 * IBV_SEND_FENCE would make the adapter wait, but neither software adapter of Linux 6.1 supports it
 * reliably. Over Soft-RoCE a fenced SEND is sometimes never sent. Soft-iWARP answers no READ of the
 * peer while a fenced SEND waits for a READ of this side.
 */
static inline bool done_follows_at_once(bool writes)
{
	return writes;
}

/* Return the stream that this side's operation moves. */
static inline const struct transfer_stream *operated_stream(const struct transfer *transfer)
{
	return transfer->plan.writes ? &transfer->source.stream : &transfer->sink.stream;
}

/*
 * Return true if this side's whole operation is posted (WRITE) or has completed (READ). A side that
 * does not operate has nothing to post, so the result is true.
 */
static inline bool transfer_has_operated(const struct transfer *transfer)
{
	const struct transfer_operation *operation = &transfer->operation;
	bool posted = done_follows_at_once(transfer->plan.writes);
	uint64_t position = posted ? operation->posted : operation->completed;

	return position == operated_stream(transfer)->length;
}

/* Return true if the source has ended, and the peer knows the end. */
bool transfer_source_is_done(const struct transfer *transfer);

/*
 * Return true if nothing must be posted or complete before MSG_DONE. Post MSG_DONE then, if
 * operation_runs().
 */
static inline bool transfer_done_is_due(const struct transfer *transfer)
{
	return transfer_has_operated(transfer) && transfer_source_is_done(transfer);
}

/*
 * Record that MSG_DONE is posted. Return its byte count: one pass if the stream repeats, else all
 * bytes.
 */
uint64_t transfer_record_done(struct transfer *transfer);

/*
 * Handle the peer's MSG_DONE, which states `bytes`, and return NULL. If it breaks a rule, change
 * nothing and return the rule: a static string that follows "the peer ".
 */
const char *transfer_accept_done(struct transfer *transfer, uint64_t bytes);

/*
 * Record that MSG_VERDICT is posted, which reports all progress of the sink. MSG_WINDOWs sent later
 * only confirm MSG_WINDOWs of the peer.
 */
void transfer_record_verdict(struct transfer *transfer);

/* ---- The operation ---- */

static inline uint64_t transfer_outstanding(const struct transfer *transfer)
{
	return transfer->operation.requests_posted - transfer->operation.requests_completed;
}

/*
 * Store the next work requests in `run`, at most `most`, and count them as posted. Return false if
 * none may be posted now. Repeat the call until it returns false or `run->more` is false. If you
 * stop earlier, it can happen that no posted request asks for a completion. Then the operation
 * never continues.
 */
bool transfer_take_run(struct transfer *transfer, unsigned int most, struct transfer_run *run);

/* Record that ibv_post_send(3) rejected request `number` and all after it. Post nothing more. */
void transfer_record_rejected(struct transfer *transfer, uint64_t number);

/*
 * Record the completion of request `number` and of all before it. The request need not have asked
 * for a completion: some providers complete each request after the connection has broken. Return
 * false if the request is not outstanding.
 */
bool transfer_record_completed(struct transfer *transfer, uint64_t number, int64_t now);

/*
 * End a timed operation on a stream that repeats, after the pass that is being posted or filled. If
 * that pass is complete, end the operation after one more. Other operations are not affected.
 */
void transfer_stop(struct transfer *transfer);

/* Return the length in bytes of one pass of the operation, or LENGTH_UNKNOWN. */
static inline uint64_t transfer_pass_length(const struct transfer *transfer)
{
	return operated_stream(transfer)->plan.length;
}

/* ---- Filling and emptying the rings ---- */

/* Store the piece to fill next. Return false if there is none now. */
bool transfer_next_fill(const struct transfer *transfer, struct piece *piece);

/* Return true if nothing is left to fill, now or later. */
bool transfer_source_has_ended(const struct transfer *transfer);

/* Record that the first `size` bytes of the piece from transfer_next_fill() are filled. */
void transfer_record_filled(struct transfer *transfer, uint64_t size);

/*
 * End the source: a pipe has ended, or the time of a stream of passes is over. A stream of passes
 * has at least one pass, and ends with the last pass that has begun. Do not call this while a piece
 * is being filled. The call has no effect if the end is known or the stream repeats.
 */
void transfer_end_source(struct transfer *transfer);

/*
 * Store the piece to copy out next. Return false if there is none now.
 *
 * If the ring holds the whole stream, nothing is copied before the transfer has ended. The same
 * holds for one pass of a stream that repeats, because a later pass may overwrite the ring until
 * then. Otherwise pieces are copied as they arrive. If the stream repeats, only one pass is copied.
 */
bool transfer_next_copy(const struct transfer *transfer, struct piece *piece);

/*
 * Record that the first `size` bytes of the piece from transfer_next_copy() are copied. They may be
 * overwritten now.
 */
void transfer_record_copied(struct transfer *transfer, uint64_t size);

/* Record that `size` more bytes are digested and, with --output, stored. */
void transfer_record_stored(struct transfer *transfer, uint64_t size);

/*
 * Return the number of bytes that the sink will verify: one pass if the stream repeats. It is
 * LENGTH_UNKNOWN while the end is not known.
 */
uint64_t transfer_sink_end(const struct transfer *transfer);

/* ---- Deadlines ---- */

/* The party that the transfer waits for. */
enum debtor {
	DEBTOR_NONE, /* this side can or must continue */
	DEBTOR_WIRE, /* the wire owes completions */
	DEBTOR_PEER, /* the peer's program owes data, room in its ring, or MSG_DONE */
};

/*
 * Return the party that owes something: the peer's program if both do. A missing MSG_MR or
 * MSG_VERDICT does not count.
 */
enum debtor transfer_debtor(const struct transfer *transfer);

#endif
