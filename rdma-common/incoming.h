/* SPDX-License-Identifier: MIT */
/*
 * The incoming payload on its way out of the ring, a piece at a time: verified, and with --output
 * stored by a helper. What the peer may still write to is copied first, and the copy is what is
 * verified and stored. What lies whole in the ring is verified there, once nobody else can write to
 * it any more, and then stored.
 *
 * Until the connection's thread starts it is the main thread's, then that one's.
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
	/* From the main thread: */
	const uint8_t *ring;
	size_t ring_size; /* bytes */
	struct outputs *outputs;
	const char *output;               /* the one of them that stores it; NULL: none does */
	uint64_t limit;                   /* bytes of a payload of unknown length, at most */
	struct verification verification; /* its first two; the rest is the thread's, as follows: */
	bool begun;                       /* what it needs is there */
	bool whole;    /* it lies in the ring, and nobody writes to that any more: see transfer.h */
	bool verified; /* all of it */
	bool failed;   /* nothing more is done with it */
	bool committing;       /* the helper is to give the output its name */
	struct helper *helper; /* stores it; NULL: nobody does */
	uint8_t *buffer;       /* a copy of a piece of a streamed one: the helper's, or own */
	size_t buffer_size;
	size_t offset, unstored; /* what of the buffer is verified and not stored yet */
	uint64_t skipped; /* bytes behind that, of a later pass: verified, and not to be stored */
};

/* What a step came to. */
enum incoming_step {
	INCOMING_WAITS,    /* nothing: for the peer, or for the helper */
	INCOMING_MOVED,    /* a piece went on */
	INCOMING_COMPLETE, /* all is verified and, with --output, stored */
	INCOMING_FAILED,   /* `failure` says why */
};

/*
 * Begins, once the first bytes have come; where transfer_is_whole(), once the ring is withdrawn
 * from the peer. On failure incoming_release() and incoming_free() follow.
 */
enum status incoming_begin(struct incoming *incoming, const struct transfer *transfer,
			   struct process *process, struct failure *failure);

/*
 * Goes on with a piece, and tells `transfer`. With `all`, which needs no incoming_begin() where
 * nothing is received, the peer is done, and so said `digest`: what is left comes to an end.
 */
enum incoming_step incoming_step(struct incoming *incoming, struct transfer *transfer, bool all,
				 uint64_t digest, struct failure *failure);

/* Lets go of the helper; false: that is held up (helper_release()). */
bool incoming_release(struct incoming *incoming);

/* Frees the rest. Main thread. */
void incoming_free(struct incoming *incoming);

#endif
