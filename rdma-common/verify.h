/* SPDX-License-Identifier: MIT */
/*
 * Whether an incoming payload is what the peer has sent: by its digest, and byte for byte where it
 * is the pattern of --size. Of the passes of a stream all are verified; the first one is what is
 * shown and stored.
 *
 * What comes here is out of the peer's reach. One thread at a time; no verbs, no input or output.
 */
#ifndef RDMA_COMMON_VERIFY_H
#define RDMA_COMMON_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Bytes of a payload that are shown at most: a screen of text. */
#define SHOWN_PAYLOAD 1024

/* What is shown of an incoming payload. All zero: nothing of it has come yet. */
struct excerpt {
	uint8_t head[SHOWN_PAYLOAD]; /* its first bytes */
	size_t head_size;            /* how many of those have come */
	uint64_t size;               /* all bytes */
	bool goes_on;                /* behind those not all are zero */
	bool is_pattern;
};

/* Takes note of the payload's next bytes. */
void excerpt_add(struct excerpt *excerpt, const uint8_t *bytes, size_t size);

struct verification {
	/* What is expected, from who begins it: */
	bool is_pattern;      /* that of --size */
	bool has_digest;      /* the peer sends one */
	uint64_t length;      /* bytes of all passes, or LENGTH_UNKNOWN */
	uint64_t pass_length; /* the payload begins again there, or LENGTH_UNKNOWN */
	/* What came of it: */
	uint64_t bytes;      /* that were verified as far as can be before the end */
	int64_t nanoseconds; /* that it took */
	void *digest;
	struct excerpt excerpt;
};

/* Begins, once the upper part is filled in and the rest is zero. False: there is no memory. */
bool verify_begin(struct verification *verification);
void verify_free(struct verification *verification);

/* Verifies the next bytes. False: they are wrong, `failure` says where. */
bool verify_next(struct verification *verification, const uint8_t *bytes, size_t size,
		 struct failure *failure);

/* The end: there should be `length` bytes with this digest. False: there are not. */
bool verify_end(const struct verification *verification, uint64_t length, uint64_t digest,
		struct failure *failure);

/* How many of `size` bytes at `position` are the first pass's. */
size_t verify_in_first_pass(const struct verification *verification, uint64_t position,
			    size_t size);

#endif
