/* SPDX-License-Identifier: MIT */
/*
 * Flow control: streams of any length through rings of bounded memory, in either direction of a
 * session, by RDMA READ or RDMA WRITE. Arithmetic only: no verbs, no clock, no input or output, no
 * allocation. The caller passes in the time, executes the answers, and reports the results.
 *
 * Threads: the connection's thread; the main thread before that one starts and after it has ended.
 *
 * A direction is a stream of bytes from a source to a sink. A position is a number of bytes from
 * the beginning of the stream; byte x is at offset x modulo the ring's length, in the rings of both
 * sides. The announced ring is the region of MSG_MR: the sink's for WRITE, the source's for READ.
 * The operating side moves the stream between its own ring and the announced one.
 *
 *   WRITE  source -fill-> own ring -RDMA WRITE-> announced ring -copy-> sink
 *   READ   source -fill-> announced ring -RDMA READ-> own ring -copy-> sink
 *
 * Each side reports three positions in MSG_WINDOW; they only grow:
 *
 *   produced  by the source; READ: filled. WRITE: posted, because a SEND follows earlier WRITEs
 *   consumed  by the sink; READ: read, the source may refill. WRITE: copied out, the source may
 *             overwrite
 *   stored    by the sink; digested and, with --output, written; a good verdict says: synced
 *
 * If a whole pass fits into the announced ring, every pass sends the same bytes, as perftest does,
 * unless each pass must be verified: the stream "repeats". The position of the operating side
 * (WRITE: produced, READ: consumed) then counts the bytes of all passes, only for progress; the
 * byte count in MSG_DONE is that of one pass.
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

/* The values that the programs use; tests use smaller ones. */
#define TRANSFER_CREDITS      32 /* maximum number of unconfirmed MSG_WINDOWs */
#define TRANSFER_ANSWER       16 /* number of unconfirmed ones that obliges an answer */
#define TRANSFER_SHARE        4  /* report at once after a quarter of the ring */
#define TRANSFER_REQUEST_SIZE ((uint64_t)1 << 20) /* maximum bytes of a work request */
#define TRANSFER_MILLISECONDS 250                 /* age at which any progress is reported */

/*
 * Bytes of requests in flight: the initial number, doubled each time that all of them complete
 * within TRANSFER_MILLISECONDS, and the maximum. A wire of 2 Mbit/s stays at the initial number:
 * what is posted after those requests arrives within a second, and no adapter retransmits packets
 * that are only on their way.
 */
#define TRANSFER_IN_FLIGHT     ((uint64_t)256 << 10)
#define TRANSFER_MAX_IN_FLIGHT ((uint64_t)8 << 20)

/* Maximum number of outstanding requests that ask for a completion. */
#define TRANSFER_SIGNALS 16

/* A direction, as known before the peer's MSG_MR. */
struct stream_plan {
	bool present; /* false: no payload in this direction (one way); the other fields are invalid
		       */
	bool verify_all; /* each pass is verified, so the stream never repeats */
	uint64_t length; /* bytes of one pass; or LENGTH_UNKNOWN, with one pass */
	uint64_t passes; /* number of passes; 0: until the time is over */
	uint64_t ring;   /* bytes of this side's ring, at least 1 */
};

struct transfer_plan {
	bool writes; /* RDMA WRITE, else RDMA READ */
	/*
	 * A completed WRITE does not mean that the memory has been read (iWARP, if the provider
	 * sends without copying): the source refills only consumed bytes. If its own ring is the
	 * shorter one, it reports `produced` whenever that is full, and the peer answers at once.
	 */
	bool completes_early;
	unsigned int depth;          /* maximum number of outstanding requests, 1 to 65536 */
	uint64_t request_size;       /* maximum bytes of a request */
	unsigned int credits;        /* 0: the peer does not know MSG_WINDOW */
	unsigned int answer;         /* at least 2, less than `credits` */
	unsigned int share;          /* progress of 1/share of the ring is reported at once */
	struct stream_plan outgoing; /* this side is the source */
	struct stream_plan incoming; /* this side is the sink */
};

/* A direction, as both sides know it. */
struct transfer_stream {
	struct stream_plan plan;
	uint64_t announced; /* bytes of the announced ring; 0: not known yet */
	uint64_t length;    /* bytes of all passes; LENGTH_UNKNOWN until the end is known */
	bool agreed; /* the length was known from the beginning; else the source marks the end */
	uint64_t quarter;                 /* progress in bytes that is reported at once */
	uint64_t local_span, remote_span; /* a byte is at its position modulo this, in each ring */
	bool fits_ring;                   /* this side's ring holds all different bytes */
	bool repeats;                     /* passes send the same bytes, without flow control */
	bool fits_peer_ring; /* fits into the announced ring, and the peer does not wait for
				reports: progress is reported by age alone */
};

/* The source of the outgoing stream. Positions. */
struct transfer_source {
	struct transfer_stream stream;
	uint64_t filled;              /* filled into the ring */
	uint64_t advertised_produced; /* reported to the peer */
	uint64_t consumed;            /* reported by the peer */
	uint64_t stored;              /* reported by the peer, for progress only */
	bool advertised_end;          /* the end was reported to the peer, once */
};

/* The sink of the incoming stream. Positions. */
struct transfer_sink {
	struct transfer_stream stream;
	uint64_t produced;            /* reported by the peer */
	uint64_t copied;              /* copied out of the ring */
	uint64_t stored;              /* digested and stored */
	uint64_t advertised_consumed; /* reported to the peer */
	uint64_t advertised_stored;   /* reported to the peer */
	bool done;                    /* the peer's MSG_DONE is here */
};

/* A request that asks for a completion, while it is outstanding. */
struct transfer_signal {
	uint64_t request;  /* number of the request */
	uint64_t position; /* the position after it */
};

/* The operation of this side: positions, and numbers of requests from 1. */
struct transfer_operation {
	uint64_t posted, completed;
	uint64_t local, remote; /* offsets of `posted` in this side's ring and in the other one */
	uint64_t requests_posted, requests_completed;
	uint64_t unsignaled;       /* number of latest requests without a completion */
	bool steady;               /* each further request is a complete pass: is_steady() */
	unsigned int steady_count; /* requests of the latest run, if steady; else 0 */
	struct transfer_signal signals[TRANSFER_SIGNALS]; /* number n, from 0, is at index n modulo
							     TRANSFER_SIGNALS */
	uint64_t signals_posted, signals_completed;
	uint64_t size;      /* maximum bytes of a request */
	uint64_t depth;     /* maximum number of outstanding requests; 0: unknown so far */
	uint64_t interval;  /* number of requests per completion */
	uint64_t in_flight; /* maximum bytes of outstanding requests, unless one request has more */
	bool grows;         /* with more bytes in flight, requests would be longer or more */
	uint64_t round;     /* the measured round ends when this position completes; its start: */
	int64_t round_started; /* TRANSFER_NEVER: too few bytes to measure */
};

/* MSG_WINDOWs in both directions. */
struct transfer_credits {
	uint64_t sent, confirmed;      /* this side's: sent, and confirmed by the peer */
	uint64_t received, advertised; /* the peer's: received, and confirmed to it */
};

/* Return the bytes of all passes with different bytes; LENGTH_UNKNOWN: unknown. */
uint64_t transfer_stream_length(const struct stream_plan *plan);

/* One side of a session. The caller may read it; only this module changes it. */
struct transfer {
	struct transfer_plan plan;
	struct transfer_source source;
	struct transfer_sink sink;
	struct transfer_operation operation;
	struct transfer_credits credits;
	uint64_t moves; /* MSG_WINDOWs that advanced a position of the peer, or marked its end */
	int64_t unreported_since; /* time of the first progress that the peer does not know */
	/*
	 * The remembered answer of transfer_window_time(). It is valid before that time, and until
	 * the next message of either side, because it exists only where the age of a move decides.
	 * INT64_MIN: there is none.
	 */
	int64_t window_time;
};

/* A part of a ring of this side that does not cross the ring's end. */
struct piece {
	uint64_t offset;   /* bytes from the beginning of the ring */
	uint64_t position; /* in the stream */
	uint64_t size;     /* bytes */
};

/* Similar work requests of the operation, adjacent in both rings. */
struct transfer_run {
	uint64_t number; /* number of the first one; transfer_completed() takes it */
	uint64_t local;  /* offset of the first one in this side's ring */
	uint64_t remote; /* offset of the first one in the announced ring */
	uint64_t size;   /* bytes of each */
	uint64_t stride; /* from one request's offsets to the next one's; 0: all have the same bytes
			  */
	unsigned int count;
	bool signaled; /* the last one asks for a completion, which also stands for those before it
			*/
	bool more;     /* another run may be posted after it now */
};

/* Initialize `transfer`. */
void transfer_init(struct transfer *transfer, const struct transfer_plan *plan);

/* ---- Messages ---- */

/* Return `produced` for this side's MSG_MR. Call this once, when MSG_MR is posted. */
uint64_t transfer_announce(struct transfer *transfer);

/*
 * Take the peer's MSG_MR: its region has `ring` bytes, of which `produced` may be read (only for
 * READ; a peer without a hello: all). The caller has checked that the region does not wrap. Return
 * NULL, or the broken rule as a static string.
 */
const char *transfer_peer_region(struct transfer *transfer, uint64_t ring, uint64_t produced);

/* Compute the answer of transfer_window_time(), and remember it. */
int64_t transfer_find_window_time(struct transfer *transfer, int64_t now);

/*
 * Return when a MSG_WINDOW is due if nothing else happens: `now` or earlier means at once;
 * TRANSFER_NEVER: there is nothing to report, or no credit. Call this after every report to this
 * module, after transfer_next(): the age of progress counts from the first such call.
 */
static inline int64_t transfer_window_time(struct transfer *transfer, int64_t now)
{
	return now < transfer->window_time ? transfer->window_time
					   : transfer_find_window_time(transfer, now);
}

/*
 * Return the MSG_WINDOW that is posted now. It must be due, after this side's MSG_MR and before
 * both MSG_VERDICTs are there.
 */
struct window transfer_window(struct transfer *transfer);

/*
 * Take the peer's MSG_WINDOW. Return NULL, or the broken rule, without a change: a static string
 * that follows "the peer's window ".
 */
const char *transfer_accept(struct transfer *transfer, const struct window *window);

/*
 * Return true if MSG_DONE follows the operation at once, without a wait for its completion. It
 * follows a WRITE in order. A SEND may overtake a READ, and the peer would free memory that is
 * being read, so MSG_DONE waits for the READ to complete.
 *
 * IBV_SEND_FENCE would make the adapter wait, but neither software adapter of Linux 6.1 supports it
 * reliably: over Soft-RoCE a fenced SEND is sometimes never sent, and soft-iWARP answers no READ
 * while a fenced SEND waits for one of its own.
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
 * Return true if the operation has ended; a READ must have completed. True for a side that does not
 * operate.
 */
static inline bool transfer_operated(const struct transfer *transfer)
{
	const struct transfer_operation *operation = &transfer->operation;
	bool posted = done_follows_at_once(transfer->plan.writes);
	uint64_t position = posted ? operation->posted : operation->completed;

	return position == operated_stream(transfer)->length;
}

/* Return true if the source is at the end, and the peer knows that end if it was not agreed. */
bool transfer_source_done(const struct transfer *transfer);

/*
 * Return true if MSG_DONE is due while the operation runs (operation_runs()): this side has
 * operated to the end, as done_follows_at_once() says; its source is at the end; and the peer knows
 * that end, if the length was not agreed. A side that does not operate waits for nothing.
 */
static inline bool transfer_done_due(const struct transfer *transfer)
{
	return transfer_operated(transfer) && transfer_source_done(transfer);
}

/* Record that MSG_DONE is posted. Return its byte count: the number of digested bytes. */
uint64_t transfer_done(struct transfer *transfer);

/*
 * Take the peer's MSG_DONE with this byte count. Return NULL or the broken rule, as
 * transfer_accept().
 */
const char *transfer_accept_done(struct transfer *transfer, uint64_t bytes);

/*
 * Record that MSG_VERDICT is posted: it reports all progress of the sink, and later windows only
 * confirm.
 */
void transfer_verdict(struct transfer *transfer);

/* ---- The operation ---- */

/* Return the number of outstanding work requests of the operation. */
static inline uint64_t transfer_outstanding(const struct transfer *transfer)
{
	return transfer->operation.requests_posted - transfer->operation.requests_completed;
}

/* Return true if another request may ask for a completion. */
static inline bool transfer_has_signal(const struct transfer_operation *operation)
{
	return operation->signals_posted - operation->signals_completed < TRANSFER_SIGNALS;
}

/* Note that the last request that was posted asks for a completion. */
static inline void transfer_note_signal(struct transfer_operation *operation)
{
	operation->signals[operation->signals_posted++ % TRANSFER_SIGNALS] =
		(struct transfer_signal){ operation->requests_posted, operation->posted };
}

/*
 * Repeat the last run with new numbers if transfer_plan_next() would plan the same: the operation
 * is steady, and exactly as many requests as that run had may be posted. Return false otherwise.
 */
static inline bool transfer_repeat(struct transfer *transfer, unsigned int most,
				   struct transfer_run *run)
{
	struct transfer_operation *operation = &transfer->operation;
	unsigned int count = operation->steady_count;
	uint64_t bytes = operation->size * count;

	if (count == 0 || count > most ||
	    count != operation->depth - transfer_outstanding(transfer) ||
	    operation->unsignaled > 0 || !transfer_has_signal(operation) ||
	    operated_stream(transfer)->length - operation->posted < bytes)
		return false;
	*run = (struct transfer_run){
		.number = operation->requests_posted + 1,
		.size = operation->size,
		.count = count,
		.signaled = true,
	};
	operation->posted += bytes;
	operation->requests_posted += count;
	transfer_note_signal(operation);
	return true;
}

/* Plan the run of transfer_next() where the last one cannot be repeated. */
bool transfer_plan_next(struct transfer *transfer, unsigned int most, struct transfer_run *run);

/*
 * Return the next work requests that may be posted now, at most `most`, and count them as posted.
 * Return false if there are none. Repeat the call until it returns false, or a run without `more`:
 * only the last request of all is certain to have the completion that continues the operation.
 */
static inline bool transfer_next(struct transfer *transfer, unsigned int most,
				 struct transfer_run *run)
{
	return transfer_repeat(transfer, most, run) || transfer_plan_next(transfer, most, run);
}

/*
 * Record that ibv_post_send(3) rejected this request and all after it: they are not outstanding.
 * Nothing more may be posted.
 */
void transfer_rejected(struct transfer *transfer, uint64_t number);

/*
 * Record the completion of request `number`, and of all before it. It may be a request that asked
 * for none: some providers complete each request after the connection has broken. Return false if
 * it is not outstanding.
 */
bool transfer_completed(struct transfer *transfer, uint64_t number, int64_t now);

/* End a repeating operation whose time is over, with the pass that has begun. */
void transfer_stop(struct transfer *transfer);

/* Return the bytes of one pass of the operation; LENGTH_UNKNOWN: unknown. */
static inline uint64_t transfer_pass(const struct transfer *transfer)
{
	return operated_stream(transfer)->plan.length;
}

/* ---- Filling and emptying the rings ---- */

/* Get the piece to fill next. Return false if there is none now. */
bool transfer_fill(const struct transfer *transfer, struct piece *piece);

/* Return true if nothing is left to fill, now or later. */
bool transfer_source_ended(const struct transfer *transfer);

/* Record that the first `size` bytes of that piece are filled. */
void transfer_filled(struct transfer *transfer, uint64_t size);

/*
 * End the source: a pipe has ended, or the time of a stream of passes is over; that stream ends
 * with the pass that has begun, at least the first. Do not call this while a piece is being filled.
 * No effect if the end is known, or the stream repeats.
 */
void transfer_end_source(struct transfer *transfer);

/*
 * Return true if the incoming stream (of a repeating one, the last pass) stays in this side's ring
 * until the peer can no longer reach it. transfer_copy() waits for that; the caller deregisters the
 * ring before the first piece. Otherwise pieces are copied out as they arrive (of a repeating
 * stream, the first pass).
 */
bool transfer_verified_in_place(const struct transfer *transfer);

/* Get the piece to copy out next. Return false if there is none now. */
bool transfer_copy(const struct transfer *transfer, struct piece *piece);

/*
 * Record that the first `size` bytes of that piece are copied, so that the ring may be overwritten.
 */
void transfer_copied(struct transfer *transfer, uint64_t size);

/* Record that everything up to `position` is digested and, with --output, stored. */
void transfer_stored(struct transfer *transfer, uint64_t position);

/* Return the bytes that the sink stores in all; LENGTH_UNKNOWN until the end is marked. */
uint64_t transfer_sink_end(const struct transfer *transfer);

/* ---- Deadlines ---- */

/* The side that owes something; each value assumes that the later ones owe nothing. */
enum debtor {
	DEBTOR_NONE, /* this side can or must continue */
	DEBTOR_WIRE, /* completions */
	DEBTOR_PEER, /* the peer's program: data, room in its ring, MSG_DONE */
};

/* Return the last debtor that owes something. MSG_MR and MSG_VERDICT do not count. */
enum debtor transfer_debtor(const struct transfer *transfer);

#endif
