/* SPDX-License-Identifier: MIT */
/*
 * The source of a connection's outgoing stream: a thread that fills a ring with the payload, pass
 * after pass, as far as it is told that it may. It alone waits for files and pipes.
 */
#ifndef RDMA_COMMON_SOURCE_H
#define RDMA_COMMON_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "payload.h"
#include "status.h"
#include "transfer.h"

struct source;

/*
 * Calls to the owner, by the source's thread, one at a time, the first perhaps before
 * source_start() has returned. They may take the lock of the sessions. None comes after the one
 * that marks the end, or failed().
 */
struct source_calls {
	void *context; /* their first argument */
	/* What of the ring may be filled next. False: nothing, until source_wake(). */
	bool (*next)(void *context, struct piece *piece);
	/*
	 * The first `size` bytes of that piece are filled. `end`: there is no more; `size` may be 0
	 * then. `digest` (XXH3, 64 bits) is that of all that was filled so far.
	 */
	void (*filled)(void *context, uint64_t size, bool end, uint64_t digest);
	/* The payload cannot be read, for this reason. */
	void (*failed)(void *context, const struct failure *failure);
};

/*
 * Starts to fill `ring`, which is from memory_map() and belongs to the source from now on. The
 * stream ends behind `end` bytes, all passes counted; TRANSFER_UNKNOWN: with the end of a pipe, or,
 * of a payload of known length, never. NULL with errno when there is no memory or no thread; the
 * ring stays the caller's then. The payload must outlive source_release(), unless it is a pattern
 * that is not in memory. Main thread.
 */
struct source *source_start(struct payload *payload, uint8_t *ring, size_t ring_size, uint64_t end,
			    const struct source_calls *calls);

/*
 * What next() answers may have changed. Until source_release(), any thread, also with the lock of
 * the sessions held: takes no lock.
 */
void source_wake(struct source *source);

/*
 * The time of a stream that has no other end is up: it ends with the pass that has begun, the first
 * one at least. Any thread, as source_wake(). May be repeated.
 */
void source_end_pass(struct source *source);

/*
 * No call comes any more once this has returned. Waits for a call that runs, so the lock of the
 * sessions may not be held, but not for a file or a pipe. May be repeated, NULL is allowed. Main
 * thread.
 */
void source_stop(struct source *source);

/* Before source_release(): an adapter may still use the ring, so it is not freed. Main thread. */
void source_keep_ring(struct source *source);

/*
 * Frees the source and its ring, once its thread, too, has nothing to do with them any more: the
 * ring is deregistered before. If an adapter may still use the ring, it is left out. After
 * source_stop(). NULL is allowed. Main thread.
 */
void source_release(struct source *source);

/* How long digesting took. Any thread, until source_release(). */
int64_t source_nanoseconds(const struct source *source);

#endif
