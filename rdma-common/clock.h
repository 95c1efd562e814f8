/* SPDX-License-Identifier: MIT */
/*
 * The monotonic clock (clock_gettime(2)), which date(1) does not change.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CLOCK_H
#define RDMA_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_milliseconds(void);

/*
 * Return the timeout for poll(2) until `deadline`, a time of now_milliseconds(); INT64_MAX: no
 * limit.
 */
int milliseconds_until(int64_t deadline);

#endif
