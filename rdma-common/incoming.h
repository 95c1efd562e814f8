/* SPDX-License-Identifier: MIT */
/*
 * Empty the ring of the incoming payload piece by piece: verify it, and with --output let a helper
 * store it. A piece to which the peer can still write is copied first, and the copy is verified and
 * stored. A payload that fits into the ring is verified in place, once the peer cannot write to the
 * ring any more, and then stored.
 *
 * Threads: the connection's thread; the main thread before that one starts and after it ended.
 */
#ifndef RDMA_COMMON_INCOMING_H
#define RDMA_COMMON_INCOMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "helper.h"
#include "process.h"
#include "status.h"
#include "transfer.h"
#include "verify.h"

struct incoming {
	/* Set by the main thread: */
	const uint8_t *ring;
	size_t ring_size;                 /* bytes */
	atomic_bool *output_taken;        /* for output_open() */
	const char *output;               /* the output that stores the payload; NULL: none */
	uint64_t limit;                   /* the most bytes of a payload of unknown length */
	struct verification verification; /* the first two fields; the thread sets the rest, and all
					     that follows: */
	bool begun;                       /* buffer and helper exist */
	bool whole; /* verified in place: the peer cannot write to the ring any more (transfer.h) */
	bool verified;         /* the whole payload is verified */
	bool failed;           /* the payload is not processed any further */
	bool committing;       /* the helper is committing the output */
	struct helper *helper; /* stores the payload; NULL: it is not stored */
	uint8_t *buffer;       /* a copy of a piece: the helper's buffer, or an own one */
	size_t buffer_size;
	size_t offset, unstored; /* part of the buffer that is verified and not stored */
	uint64_t skipped;        /* bytes after that of a later pass: verified, not to be stored */
};

/* The result of a step. */
enum incoming_step {
	INCOMING_WAITS,    /* nothing to do until the peer or the helper moves */
	INCOMING_MOVED,    /* a piece was processed */
	INCOMING_COMPLETE, /* all bytes are verified and, with --output, stored */
	INCOMING_FAILED,   /* `failure` states the reason */
};

/*
 * Begin after the first bytes have arrived; if transfer_verified_in_place(), after the ring was
 * deregistered. On failure, too, incoming_release() and incoming_free() follow.
 */
enum status incoming_begin(struct incoming *incoming, const struct transfer *transfer,
			   struct process *process, struct failure *failure);

/*
 * Process one piece, and report it to `transfer`. With `all`, the peer has sent everything, with
 * `digest`: process the rest. Where nothing is received, incoming_begin() is not needed.
 */
enum incoming_step incoming_step(struct incoming *incoming, struct transfer *transfer, bool all,
				 uint64_t digest, struct failure *failure);

/* Release the helper. Return false if it was abandoned (helper_release()). */
bool incoming_release(struct incoming *incoming);

/* Free the rest. Main thread. */
void incoming_free(struct incoming *incoming);

#endif
