/* SPDX-License-Identifier: MIT */
/*
 * The window: any number of bytes through rings of bounded memory, in either direction of a
 * session, in RDMA READ and in RDMA WRITE. Arithmetic only: no verbs, no clock, no input or output,
 * no allocation. The caller gives the time, does what the answers say, and reports what came of it.
 *
 * Threads: the connection's thread; the main thread before that one starts and after it has ended.
 *
 * A direction is a stream of bytes from a source to a sink. A position is a number of bytes from
 * the beginning of the stream; byte x lies at x modulo the ring's length, in the rings of both
 * sides. The announced ring is the region of MSG_MR: the sink's in WRITE, the source's in READ. The
 * side that operates carries the stream between its own ring and the announced one.
 *
 *   WRITE  source -fill-> own ring -RDMA WRITE-> announced ring -copy-> sink
 *   READ   source -fill-> announced ring -RDMA READ-> own ring -copy-> sink
 *
 * Three numbers of bytes, which only grow, go to the peer in MSG_WINDOW:
 *
 *   ready  source's; READ: filled. WRITE: posted, because a SEND follows the WRITEs before it
 *   taken  sink's; READ: read, the source may refill. WRITE: copied out, the source may write over
 *   kept   sink's; digested and, with --output, written; the good verdict says that it is synced
 *
 * A payload whose every pass fits into the announced ring is sent pass after pass with the same
 * bytes, as perftest does, unless each pass is to be verified: the stream "repeats". The number
 * of the side that operates (WRITE: ready, READ: taken) then counts the bytes of all passes, for
 * progress alone; the byte count in MSG_DONE is that of one pass.
 *
 * Times are milliseconds of any clock that does not run backwards.
 */
#ifndef RDMA_COMMON_TRANSFER_H
#define RDMA_COMMON_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* A time that does not come. */
#define TRANSFER_NEVER INT64_MAX

/* The numbers that programs use; tests use smaller ones. */
#define TRANSFER_CREDITS      32                  /* MSG_WINDOWs that are unconfirmed at most */
#define TRANSFER_ANSWER       16                  /* so many unconfirmed oblige an answer */
#define TRANSFER_SHARE        4                   /* a quarter of the ring is worth reporting */
#define TRANSFER_REQUEST_SIZE ((uint64_t)1 << 20) /* bytes of a work request at most */
#define TRANSFER_MILLISECONDS 250                 /* age at which any move is reported */

/*
 * Bytes of requests in flight: so many at first, and twice as many each time that all of them
 * complete within TRANSFER_MILLISECONDS, up to the second number. A wire of 2 Mbit/s keeps to the
 * first: what is posted behind them arrives within a second, and no adapter sends again what is
 * only on its way.
 */
#define TRANSFER_IN_FLIGHT     ((uint64_t)256 << 10)
#define TRANSFER_MAX_IN_FLIGHT ((uint64_t)8 << 20)

/* Requests that ask for a completion and are outstanding at most. */
#define TRANSFER_SIGNALS 16

/* What is known of a direction before the peer's MSG_MR. */
struct stream_plan {
	bool present;    /* false: nothing flows this way (one way), and the rest means nothing */
	bool verify_all; /* each pass is verified: never repeat */
	uint64_t length; /* bytes of one pass, or LENGTH_UNKNOWN, which has one pass */
	uint64_t passes; /* 0: until a time is up */
	uint64_t ring;   /* bytes of this side's ring, at least 1 */
};

struct transfer_plan {
	bool writes; /* RDMA WRITE, else RDMA READ */
	/*
	 * A completion of a WRITE does not say that the memory has been read (iWARP, where the
	 * provider may send without copying): the source refills only what the peer has taken. If
	 * its own ring is the shorter one it tells `ready` as often as that fills, and the peer
	 * answers at once.
	 */
	bool completes_early;
	unsigned int depth;    /* requests of the operation that are outstanding, 1 to 65536 */
	uint64_t request_size; /* bytes of a request at most */
	unsigned int credits;  /* 0: the peer knows no MSG_WINDOW */
	unsigned int answer;   /* at least 2, less than `credits` */
	unsigned int share;    /* a move of so great a part of the ring is reported */
	struct stream_plan outgoing; /* this side is the source */
	struct stream_plan incoming; /* this side is the sink */
};

/* A direction, as far as both sides know it. */
struct transfer_stream {
	struct stream_plan plan;
	uint64_t announced; /* bytes of the announced ring; 0: not known yet */
	uint64_t length;    /* bytes in all, all passes; LENGTH_UNKNOWN until the end is known */
	bool agreed;        /* it was known from the beginning; else the source marks its end */
	uint64_t quarter;   /* bytes of a move that is reported at once */
	uint64_t local_span, remote_span; /* in the rings: a byte is at its position modulo this */
	bool fits_ring;                   /* this side's ring holds all the bytes that differ */
	bool repeats;        /* passes are sent with the same bytes, without flow control */
	bool fits_peer_ring; /* fits into the announced ring, and nobody waits to hear: by the clock
				alone */
};

/* The source of the outgoing stream: positions. */
struct transfer_source {
	struct transfer_stream stream;
	uint64_t filled;              /* so much has been put into the ring */
	uint64_t advertised_produced; /* the peer was told */
	uint64_t consumed;            /* the peer told */
	uint64_t stored;              /* the peer told; for progress alone */
	bool advertised_end;          /* the peer was told: once */
};

/* The sink of the incoming stream: positions. */
struct transfer_sink {
	struct transfer_stream stream;
	uint64_t produced;            /* the peer told */
	uint64_t copied;              /* so much has been copied out of the ring */
	uint64_t stored;              /* so much is digested and stored */
	uint64_t advertised_consumed; /* the peer was told */
	uint64_t advertised_stored;   /* the peer was told */
	bool done;                    /* the peer's MSG_DONE came */
};

/* A request that asks for a completion, until that comes. */
struct transfer_signal {
	uint64_t request;  /* its number */
	uint64_t position; /* behind it */
};

/* The operation of this side: positions, and the requests' numbers from 1. */
struct transfer_operation {
	uint64_t posted, completed;
	uint64_t local, remote; /* where `posted` lies: offsets in this side's ring, in the other */
	uint64_t requests_posted, requests_completed;
	uint64_t unsignaled; /* so many of the last ones ask for no completion */
	struct transfer_signal signals[TRANSFER_SIGNALS]; /* number n, from 0, at n modulo that */
	uint64_t signals_posted, signals_completed;
	uint64_t size;      /* bytes of a request at most */
	uint64_t depth;     /* requests that are outstanding at most; 0: not known yet */
	uint64_t in_flight; /* bytes that are, at most, unless one request has more */
	bool grows;         /* with more in flight, requests would be longer, or more of them */
	uint64_t round; /* what was in flight once, up to this position, is waited for, since: */
	int64_t round_started; /* TRANSFER_NEVER: it was too little to go by */
};

/* MSG_WINDOWs, both ways. */
struct transfer_credits {
	uint64_t sent, confirmed;      /* of this side's, the peer has confirmed so many */
	uint64_t received, advertised; /* of the peer's, it was told so many */
};

/* Bytes of a stream in all passes that need different bytes; LENGTH_UNKNOWN: not known. */
uint64_t transfer_stream_length(const struct stream_plan *plan);

/* One side of a session. To be read by the caller, and changed by this module alone. */
struct transfer {
	struct transfer_plan plan;
	struct transfer_source source;
	struct transfer_sink sink;
	struct transfer_operation operation;
	struct transfer_credits credits;
	uint64_t moves; /* MSG_WINDOWs that moved a number of the peer's, or marked its end */
	int64_t unreported_since; /* since when something has moved that the peer was not told */
};

/* A part of a ring of this side, which does not cross its end. */
struct piece {
	uint64_t offset;   /* bytes from the beginning of the ring */
	uint64_t position; /* in the stream */
	uint64_t size;     /* bytes */
};

/* Work requests of the operation, alike: one behind the other, in both rings. */
struct transfer_run {
	uint64_t number; /* of the first one; transfer_completed() takes it back */
	uint64_t local;  /* its offset in this side's ring */
	uint64_t remote; /* its offset in the announced ring */
	uint64_t size;   /* bytes of each */
	uint64_t stride; /* from one's offsets to the next one's; 0: each has the same bytes */
	unsigned int count;
	bool signaled; /* the last one asks for a completion, which stands for all before it, too */
	bool more;     /* another run may be posted behind it now */
};

/* Begins. */
void transfer_init(struct transfer *transfer, const struct transfer_plan *plan);

/* ---- Messages ---- */

/* What `ready` is in this side's MSG_MR; to be asked once, when that is posted. */
uint64_t transfer_announce(struct transfer *transfer);

/*
 * The peer's MSG_MR: its region has `ring` bytes, of which `ready` may be read (only in READ; of a
 * peer without a hello, all). The caller has checked that the region does not wrap. NULL, or what
 * is wrong with it: a static string.
 */
const char *transfer_peer_region(struct transfer *transfer, uint64_t ring, uint64_t produced);

/*
 * When a MSG_WINDOW is due if nothing else happens: `now` or earlier, at once; TRANSFER_NEVER if
 * none is, or no credit left. To be asked after everything that is reported here, behind the
 * requests of transfer_next(): what has moved is as old as the first time that this was asked.
 */
int64_t transfer_window_time(struct transfer *transfer, int64_t now);

/*
 * MSG_WINDOW is posted, and says this: when it is due, from this side's MSG_MR until both sides'
 * MSG_VERDICT are there.
 */
struct window transfer_window(struct transfer *transfer);

/*
 * The peer's MSG_WINDOW. NULL, or which rule it breaks: a static string that follows "the peer's
 * window ". Nothing is changed then.
 */
const char *transfer_accept(struct transfer *transfer, const struct window *window);

/*
 * Return true if MSG_DONE follows the operation at once, which need not have completed. It follows
 * a WRITE in order. A SEND may overtake a READ, and the peer would free what is still being read,
 * so MSG_DONE waits for the READ to complete.
 *
 * IBV_SEND_FENCE would let the adapter wait, but in Linux 6.1 neither software adapter can be left
 * to it: over Soft-RoCE a fenced SEND is now and then never sent, and soft-iWARP answers no READ
 * while a fenced SEND waits for one of its own.
 */
bool done_follows_at_once(bool writes);

/*
 * Return true if MSG_DONE is due while the operation runs (operation_runs()): this side has
 * operated to the end, as done_follows_at_once() says; its source is at the end; and the peer knows
 * that end if the length was not agreed. A side that does not operate has nothing to wait for.
 */
bool transfer_done_due(const struct transfer *transfer);

/* MSG_DONE is posted. Returns its byte count: what the digest in it covers. */
uint64_t transfer_done(struct transfer *transfer);

/* The peer's MSG_DONE with this byte count. NULL, or what is wrong, as in transfer_accept(). */
const char *transfer_accept_done(struct transfer *transfer, uint64_t bytes);

/* MSG_VERDICT is posted: it stands for all news of the sink, and from now on windows only confirm.
 */
void transfer_verdict(struct transfer *transfer);

/* ---- The operation ---- */

/*
 * The next work requests that may be posted now, `most` at most. False: there are none. They count
 * as posted. Ask until false, or until a run has no `more` behind it: only the last one of all
 * those is sure to have the completion that goes on with the rest.
 */
bool transfer_next(struct transfer *transfer, unsigned int most, struct transfer_run *run);

/*
 * ibv_post_send(3) rejected this request and so all after it: they are not outstanding. Nothing
 * more may be posted.
 */
void transfer_rejected(struct transfer *transfer, uint64_t number);

/*
 * The completion of request `number`, and so of all before it. It need not have asked for one:
 * where the connection has broken, some providers complete each. False if it is not outstanding.
 */
bool transfer_completed(struct transfer *transfer, uint64_t number, int64_t now);

/* The time of a repeating operation is up: it ends with the pass that has begun. */
void transfer_stop(struct transfer *transfer);

/* Bytes of one pass of the operation; LENGTH_UNKNOWN: not known. */
uint64_t transfer_pass(const struct transfer *transfer);

/* Work requests of the operation that are posted and have not completed. */
uint64_t transfer_outstanding(const struct transfer *transfer);

/* Whether the operation is at its end; READ: completed. True if this side does not operate. */
bool transfer_operated(const struct transfer *transfer);

/* ---- Filling and emptying the rings ---- */

/* What may be filled next. False: nothing for now. */
bool transfer_fill(const struct transfer *transfer, struct piece *piece);

/* Return true if nothing is left to be filled, now or later. */
bool transfer_source_ended(const struct transfer *transfer);

/* It filled the first `size` bytes of that piece. */
void transfer_filled(struct transfer *transfer, uint64_t size);

/*
 * There is no more to fill: a pipe has ended, or the time of a stream of passes is up, which ends
 * with the pass that has begun, the first one at least. Not while a piece is being filled, and
 * without effect where the end is known, or the stream repeats.
 */
void transfer_end_source(struct transfer *transfer);

/*
 * Whether the incoming stream (of a repeating one: the last pass) stays in this side's ring until
 * the peer has nothing to do with it any more. transfer_copy() waits for that; the caller
 * deregisters the ring before the first piece. Else pieces are copied out as they come (of a
 * repeating one: the first pass).
 */
bool transfer_verified_in_place(const struct transfer *transfer);

/* What may be copied out next. False: nothing for now. */
bool transfer_copy(const struct transfer *transfer, struct piece *piece);

/* It copied the first `size` bytes of that piece, and the ring may be written over there. */
void transfer_copied(struct transfer *transfer, uint64_t size);

/* It has digested and, with --output, stored everything up to `position`. */
void transfer_stored(struct transfer *transfer, uint64_t position);

/* Bytes that the sink keeps in all; LENGTH_UNKNOWN until the end is marked. */
uint64_t transfer_sink_end(const struct transfer *transfer);

/* ---- Deadlines ---- */

/* The one that owes something; each owes what those before it do not. */
enum debtor {
	DEBTOR_NONE, /* this side can go on, or has to */
	DEBTOR_WIRE, /* completions */
	DEBTOR_PEER, /* the peer's program: data, room in its ring, MSG_DONE */
};

/* Return the last of them that owes something. MSG_MR and MSG_VERDICT are not counted here. */
enum debtor transfer_debtor(const struct transfer *transfer);

#endif
