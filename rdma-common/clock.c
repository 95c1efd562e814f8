// SPDX-License-Identifier: MIT
#include "clock.h"

int64_t now_milliseconds(void)
{
	return now_nanoseconds() / 1000000;
}

int milliseconds_until(int64_t deadline)
{
	return deadline == INT64_MAX ? -1 : poll_timeout(deadline - now_milliseconds());
}
