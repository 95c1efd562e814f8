// SPDX-License-Identifier: MIT
#include "clock.h"

#include <time.h>

int64_t now_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_milliseconds(void)
{
	return now_nanoseconds() / 1000000;
}
