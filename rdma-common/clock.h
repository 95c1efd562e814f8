/* SPDX-License-Identifier: MIT */
/*
 * The monotonic clock (clock_gettime(2)): it goes on whatever date(1) is set to. Any thread.
 */
#ifndef RDMA_COMMON_CLOCK_H
#define RDMA_COMMON_CLOCK_H

#include <stdint.h>

int64_t now_nanoseconds(void);
int64_t now_milliseconds(void);

/* The timeout for poll(2) to a time that now_milliseconds() tells; INT64_MAX: without limit. */
int milliseconds_until(int64_t deadline);

#endif
