/* SPDX-License-Identifier: MIT */
/*
 * Fill the ring with the outgoing payload piece by piece, and digest the bytes. A piece is copied
 * from memory, generated, or copied from a helper that reads a file or a pipe.
 *
 * Threads: the connection's thread while it runs; before and after that, the main thread.
 */
#ifndef RDMA_COMMON_OUTGOING_H
#define RDMA_COMMON_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "helper.h"
#include "payload.h"
#include "process.h"
#include "status.h"
#include "transfer.h"

struct outgoing {
	const struct payload *payload; /* NULL if this side sends nothing */
	uint8_t *ring;
	size_t ring_size;      /* bytes */
	bool ending;           /* --duration is over: end after the current pass */
	struct piece piece;    /* the piece that this side or the helper fills */
	struct helper *helper; /* reads a file or a pipe. NULL if the source cannot block. */
	/* Digest of the bytes filled so far. If the stream repeats, each pass has its own. */
	void *digest;
	/* Digest for MSG_DONE: of the whole stream, or of its first pass if the stream repeats. */
	uint64_t pass_digest;
	int64_t nanoseconds; /* time spent on the digest */
};

/*
 * Prepare to fill `ring` from `payload`. Both must outlive this object. outgoing_release_helper()
 * and outgoing_free() must follow, even after a failure. Main thread.
 */
enum status outgoing_open(struct outgoing *outgoing, const struct payload *payload, uint8_t *ring,
			  size_t ring_size, struct process *process, struct failure *failure);

/*
 * Fill a piece of the ring as far as `transfer` allows, and report the bytes to `transfer`. Let the
 * helper read those bytes of a file or a pipe that are not in memory: a later call fills them in.
 * Return true if bytes were filled or the helper has returned a result. If the payload cannot be
 * read, set `failure`. Do not call this again then.
 */
bool outgoing_fill(struct outgoing *outgoing, struct transfer *transfer, struct failure *failure);

/* Release the helper. Return false if the helper was abandoned (helper_release()). */
bool outgoing_release_helper(struct outgoing *outgoing);

/* Free the remaining memory. Main thread. */
void outgoing_free(struct outgoing *outgoing);

#endif
