/* SPDX-License-Identifier: MIT */
/*
 * The sink of the incoming stream: verifies a payload, keeps the part of it that is printed, and
 * stores it. In a thread of its own, since that takes time in proportion to the payload, or as long
 * as a disk or a pipe takes.
 *
 * What the peer can still write to is not verified. A payload that lay whole in the ring comes here
 * when its region is deregistered, and is verified in place before any of it is stored. A longer
 * one is streamed: each piece is copied out, and what is digested, printed and stored is the copy.
 * Of several passes all are verified, and the first one is printed and stored.
 */
#ifndef RDMA_COMMON_SINK_H
#define RDMA_COMMON_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"
#include "status.h"
#include "transfer.h"

/* An incoming stream and what is to be done with it. Positions and lengths are in bytes. */
struct incoming {
	uint8_t *ring;    /* from memory_map() */
	size_t ring_size; /* of that */
	bool is_whole;   /* `length` bytes lie at its beginning, and nobody writes to it any more */
	uint64_t length; /* of all passes; a streamed one may be TRANSFER_UNKNOWN */
	bool is_pattern; /* it should be the pattern of --size */
	uint64_t pass_length; /* the payload begins again there; 0: there is one pass */
	bool has_digest;      /* the peer's is to be compared: */
	uint64_t digest;      /* of a whole one; sink_finish() has that of a streamed one */
	bool repeats;   /* streamed: every pass has the same bytes, and the digest is of one of them
			 */
	uint64_t limit; /* --max-size, for a payload whose length is unknown */
	const char *output; /* store it here; NULL: do not. Must outlive the sink */
};

/* The result. */
struct verdict {
	struct failure failure;  /* STATUS_SUCCESS: it is good and, if wanted, stored */
	int64_t nanoseconds;     /* time that the verifying took, without any waiting */
	uint64_t verified_bytes; /* that were digested and compared */
};

/*
 * What the owner is asked and told: by the sink's thread, or by sink_start(), one call at a time,
 * and with a lock of the sink held that only sink_stop() takes. So a call may take the lock of the
 * sessions, and may call sink_wake() and sink_finish(), but none of the others.
 */
struct sink_calls {
	void *context;
	/* Stores what is to be copied out next; false: nothing for now. Streamed only. */
	bool (*next)(void *context, struct piece *piece);
	/* The first `size` bytes of that piece are copied. Streamed only. */
	void (*copied)(void *context, uint64_t size);
	/* All up to `position` is verified as far as can be before the end and, with an output,
	 * written. It only grows, and does as long as the sink moves. */
	void (*kept)(void *context, uint64_t position);
	/* The last call; after a failure it does not wait for the end of the stream. */
	void (*finished)(void *context, const struct verdict *verdict,
			 const struct excerpt *excerpt);
};

struct sink;

/*
 * Starts. The ring belongs to the sink from now on, and no adapter may use it when the sink is
 * released. A whole payload that is small and goes to no output is verified at once: the last call
 * is over when this returns. NULL when there is no memory or thread, with errno; the ring stays the
 * caller's then. Main thread, without the lock of the sessions.
 */
struct sink *sink_start(const struct incoming *incoming, const struct sink_calls *calls);

/* There may be something to copy. Any thread, also with the lock of the sessions held. */
void sink_wake(struct sink *sink);

/*
 * Streamed: the peer is done; it sent `length` bytes with this digest. Once all of them are kept
 * the digest is compared and the output gets its name. At most once; as sink_wake() else.
 */
void sink_finish(struct sink *sink, uint64_t length, uint64_t digest);

/*
 * No call comes any more, and a storing that is not over soon ends without leaving a file. Waits
 * for a call that is running, but for no disk and no reader. May be repeated; NULL is allowed. Main
 * thread, without the lock of the sessions.
 */
void sink_stop(struct sink *sink);

/* Before sink_release(): an adapter may still use the ring, so it is not freed. Main thread. */
void sink_keep_ring(struct sink *sink);

/*
 * The owner lets go of a sink that is stopped; the ring is unmapped when its thread has ended, too.
 * NULL is allowed. Main thread.
 */
void sink_release(struct sink *sink);

#endif
