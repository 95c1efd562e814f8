/* SPDX-License-Identifier: MIT */
/*
 * The monotonic clock (clock_gettime(2)): it goes on whatever date(1) is set to. Any thread.
 */
#ifndef RDMA_COMMON_CLOCK_H
#define RDMA_COMMON_CLOCK_H

#include <stdint.h>

int64_t now_nanoseconds(void);
int64_t now_milliseconds(void);

#endif
