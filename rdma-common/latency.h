/* SPDX-License-Identifier: MIT */
/*
 * Latencies of operations, counted in buckets, so that the memory does not grow with the number of
 * operations. A bucket is no wider than a 128th of what it counts.
 */
#ifndef RDMA_COMMON_LATENCY_H
#define RDMA_COMMON_LATENCY_H

#include <stdint.h>

#define LATENCY_BUCKETS (58 * 128)
struct latency {
	uint64_t counts[LATENCY_BUCKETS];
	uint64_t total;           /* operations */
	int64_t minimum, maximum; /* nanoseconds */
};

/* Counts one operation. */
void latency_count(struct latency *latency, int64_t nanoseconds);

/* The latency that `share` of the operations (0 to 1) did not exceed, in nanoseconds. */
int64_t latency_quantile(const struct latency *latency, double share);

#endif
