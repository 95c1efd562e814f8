/* SPDX-License-Identifier: MIT */
/*
 * The monotonic clock (clock_gettime(2)), which does not change when the time of day is set.
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

static inline int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Return the timeout of poll(2) for a wait of `milliseconds`: at least 0, at most INT32_MAX. */
static inline int poll_timeout(int64_t milliseconds)
{
	if (milliseconds < 0)
		return 0;
	return (int)earlier(milliseconds, INT32_MAX);
}

/*
 * Return the timeout of poll(2) until `deadline`, a value of now_milliseconds(). INT64_MAX means no
 * deadline, so the timeout is -1.
 */
int milliseconds_until(int64_t deadline);

#endif
