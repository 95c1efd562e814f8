/* SPDX-License-Identifier: MIT */
/*
 * The operation of one side, as work requests: how a payload is cut into them, how many may be
 * posted now, which is next, what a completion means. Pure arithmetic: no verbs, no clock.
 */
#ifndef RDMA_COMMON_TRANSFER_H
#define RDMA_COMMON_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * All passes (--iters) of an operation. Work requests are numbered from 1; they are posted and
 * complete in that order. All zero: this side performs no operation.
 */
struct transfer {
	uint64_t length;       /* bytes of the payload */
	uint64_t request_size; /* bytes that one work request carries at most */
	uint64_t requests_per_pass, requests;
	uint64_t posted, completed; /* work requests */
	uint64_t next_offset;       /* in the payload, of the next work request */
	unsigned int depth;         /* work requests that are outstanding at most; at least 1 */
};

/* The part of the payload that one work request carries. */
struct piece {
	uint64_t number;
	uint64_t offset, size; /* bytes, in the payload */
	bool signaled;         /* it is to make a completion, for itself and all before it */
};

/* The transfer of `length` bytes in each of `passes`. */
struct transfer transfer_plan(uint64_t length, uint64_t request_size, uint64_t passes,
			      unsigned int depth);

/* The number of work requests that may be posted now, `limit` at most. */
unsigned int transfer_ready(const struct transfer *transfer, unsigned int limit);

/* The next work request, which counts as posted from now on. One must be ready. */
struct piece transfer_next(struct transfer *transfer);

/* Work request `number` and those behind it could not be posted; nothing may follow. */
void transfer_refused(struct transfer *transfer, uint64_t number);

bool transfer_all_posted(const struct transfer *transfer);

/* Bytes of the payload that have been posted at least once. */
uint64_t transfer_bytes_posted(const struct transfer *transfer);

/* Work requests that are posted and have not completed. */
uint64_t transfer_outstanding(const struct transfer *transfer);

/* Whole passes that have completed. */
uint64_t transfer_passes(const struct transfer *transfer);

#endif
