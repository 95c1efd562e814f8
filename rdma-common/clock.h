/* SPDX-License-Identifier: MIT */
/*
 * The monotonic clock (clock_gettime(2)), which date(1) does not change.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CLOCK_H
#define RDMA_COMMON_CLOCK_H

#include <stdint.h>

int64_t now_nanoseconds(void);
int64_t now_milliseconds(void);

/*
 * Return the timeout for poll(2) until `deadline`, a time of now_milliseconds(); INT64_MAX: no
 * limit.
 */
int milliseconds_until(int64_t deadline);

#endif
