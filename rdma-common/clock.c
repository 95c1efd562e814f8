// SPDX-License-Identifier: MIT
#include "clock.h"

int64_t now_milliseconds(void)
{
	return now_nanoseconds() / 1000000;
}

int milliseconds_until(int64_t deadline)
{
	int64_t left = deadline - now_milliseconds();

	if (deadline == INT64_MAX)
		return -1;
	if (left < 0)
		return 0;
	return left > INT32_MAX ? INT32_MAX : (int)left;
}
