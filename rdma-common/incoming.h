/* SPDX-License-Identifier: MIT */
/*
 * Empty the ring of the incoming payload piece by piece: copy a piece, verify the copy, and with
 * --output let a helper store the copy. The peer can write to the ring until the connection is
 * destroyed, so each byte is read from the ring only once.
 *
 * Threads: the connection's thread while it runs; before and after that, the main thread.
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
	size_t ring_size;          /* bytes */
	atomic_bool *output_taken; /* passed to output_open() */
	const char *output;        /* the file to store the payload in, or NULL */
	uint64_t limit;            /* maximum bytes of a payload of unknown length */
	/*
	 * The main thread sets is_pattern and has_digest. The other fields of `verification`, and
	 * all fields below, belong to the connection's thread.
	 */
	struct verification verification;
	bool begun;            /* incoming_open() has succeeded */
	bool verified;         /* the whole payload is verified */
	bool opening;          /* the helper is opening the output */
	bool failed;           /* the payload is not processed any further */
	bool committing;       /* the helper is committing the output */
	struct helper *helper; /* stores the payload. NULL without --output. */
	uint8_t *buffer;       /* the copy of a piece. With a helper it is the helper's. */
	size_t buffer_size;
	size_t offset, unstored; /* part of the buffer that is still to be stored */
	uint64_t skipped;        /* bytes after that part: they belong to later passes */
};

enum incoming_step {
	INCOMING_WAITS,    /* nothing to do until the peer or the helper makes progress */
	INCOMING_MOVED,    /* the call made progress */
	INCOMING_COMPLETE, /* with `all`: every byte is verified and, with --output, stored */
	INCOMING_FAILED,   /* `failure` states the reason */
};

/*
 * Prepare to process pieces. With --output, start the helper, which opens the output, and do not
 * wait for it. incoming_release_helper() and incoming_free() must follow, even after a failure.
 */
enum status incoming_open(struct incoming *incoming, const struct transfer *transfer,
			  struct process *process, struct failure *failure);

/*
 * Fetch a result of the helper, or process one piece and report it to `transfer`.
 *
 * If `all`, the peer has sent everything and has reported `digest`. After the last piece, verify
 * the digest and commit the output. A session without an incoming payload need not call
 * incoming_open() first.
 */
enum incoming_step incoming_step(struct incoming *incoming, struct transfer *transfer, bool all,
				 uint64_t digest, struct failure *failure);

/* Release the helper. Return false if the helper was abandoned (helper_release()). */
bool incoming_release_helper(struct incoming *incoming);

/* Free the remaining memory. Main thread. */
void incoming_free(struct incoming *incoming);

#endif
