/* SPDX-License-Identifier: MIT */
/*
 * Latencies of operations, counted in buckets, so that the memory does not grow with the number of
 * operations. A bucket is 1 ns wide, or at most 1/128 of its value.
 *
 * Threads: the connection's thread while it runs; afterwards the main thread.
 */
#ifndef RDMA_COMMON_LATENCY_H
#define RDMA_COMMON_LATENCY_H

#include <stdint.h>

#define LATENCY_BUCKETS (58 * 128)
struct latency {
	uint64_t counts[LATENCY_BUCKETS];
	uint64_t total;           /* number of operations */
	int64_t minimum, maximum; /* nanoseconds */
};

void latency_count(struct latency *latency, int64_t nanoseconds);

/*
 * Return the latency in nanoseconds that a `share` (0 to 1) of the operations did not exceed.
 * Return 0 if no operation was counted.
 */
int64_t latency_quantile(const struct latency *latency, double share);

#endif
