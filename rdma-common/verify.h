/* SPDX-License-Identifier: MIT */
/*
 * Verify an incoming payload by its digest, and byte for byte if it is the pattern of --size. Each
 * pass that the caller adds is verified. Only the first pass is shown and stored.
 *
 * The caller passes bytes that the peer cannot change any more. No verbs, no input or output.
 *
 * Threads: the connection's thread while it runs; afterwards the main thread.
 */
#ifndef RDMA_COMMON_VERIFY_H
#define RDMA_COMMON_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Maximum bytes of a payload that are shown: a screen of text. */
#define SHOWN_PAYLOAD 1024

/* The part of an incoming payload that is shown. */
struct excerpt {
	uint8_t head[SHOWN_PAYLOAD]; /* the first bytes */
	size_t head_size;            /* bytes in `head` */
	uint64_t size;               /* bytes added so far */
	bool goes_on;                /* a byte after `head` is not zero */
	bool is_pattern;
};

void excerpt_add(struct excerpt *excerpt, const uint8_t *bytes, size_t size);

struct verification {
	/* The expectation, set by the caller of verify_begin(): */
	bool is_pattern;      /* the payload is the pattern of --size */
	bool has_digest;      /* the peer sends a digest */
	uint64_t pass_length; /* bytes of one pass, or LENGTH_UNKNOWN */
	/* The result: */
	uint64_t bytes;      /* bytes verified so far. The digest is compared at the end. */
	int64_t nanoseconds; /* time spent on verification */
	void *digest;
	struct excerpt excerpt;
};

/*
 * Begin a verification. The caller has set the expectation, and the rest to zero. Return false if
 * memory runs out.
 */
bool verify_begin(struct verification *verification);
void verify_free(struct verification *verification);

/*
 * Compare the next bytes with the pattern, if any, and add them to the digest and the excerpt. If a
 * byte differs, return false and describe the byte in `failure`.
 */
bool verify_next(struct verification *verification, const uint8_t *bytes, size_t size,
		 struct failure *failure);

/*
 * Return true if exactly `length` bytes were verified and, with has_digest, have the digest
 * `digest`.
 */
bool verification_matches(const struct verification *verification, uint64_t length,
			  uint64_t digest);

/* Return how many of the `size` bytes at `position` belong to the first pass. */
size_t bytes_in_first_pass(const struct verification *verification, uint64_t position, size_t size);

#endif
