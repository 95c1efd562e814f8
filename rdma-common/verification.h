/* SPDX-License-Identifier: MIT */
/*
 * Verifying an incoming payload, and storing it: in a thread of its own, since it takes time in
 * proportion to the payload, or as long as a disk or a pipe takes. The memory belongs to the
 * verification alone: no adapter may write to it any more.
 */
#ifndef RDMA_COMMON_VERIFICATION_H
#define RDMA_COMMON_VERIFICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* A payload and what is to be done with it. */
struct received {
	uint8_t *memory; /* from memory_map() */
	size_t size;     /* bytes */
	bool has_digest;
	uint64_t digest;    /* the peer's */
	bool is_pattern;    /* it should be the pattern of --size */
	const char *output; /* store it here; NULL: do not. Must outlive the verification */
};

/* The result. */
struct verdict {
	struct failure failure; /* STATUS_SUCCESS: it is good and, if wanted, stored */
	int64_t nanoseconds;    /* time that the verifying took */
};

struct verification;

/*
 * Starts to verify what was received, and frees its memory in the end. `report` is called once with
 * the result and `context`, by any thread, before verification_end() returns or not at all; the
 * memory is there while it runs. A small payload is verified at once, before this returns. NULL
 * when there is no memory or thread, with errno; the memory is freed then too. Main thread.
 */
struct verification *verification_start(const struct received *received,
					void (*report)(void *context, const struct received *,
						       const struct verdict *),
					void *context);

/* True if the verification has made progress since the last call. */
bool verification_moved(struct verification *verification);

/*
 * No report comes any more; a storing that is not over soon ends without leaving a file. Does not
 * wait for it. NULL is allowed. Main thread.
 */
void verification_end(struct verification *verification);

#endif
