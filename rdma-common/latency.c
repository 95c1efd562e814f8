// SPDX-License-Identifier: MIT
#include "latency.h"

/*
 * Return the bucket of a latency. Each nanosecond below 256 has a bucket of its own. From 256 on,
 * there are 128 buckets from each power of two to the next.
 */
static unsigned int bucket_of(uint64_t nanoseconds)
{
	unsigned int shift = 0;

	if (nanoseconds >= 256)
		shift = 56 - (unsigned int)__builtin_clzll(nanoseconds);
	return shift * 128 + (unsigned int)(nanoseconds >> shift);
}

/*
 * Return the middle of a bucket in nanoseconds. It may be below the minimum or above the maximum of
 * the counted latencies.
 */
static int64_t bucket_value(unsigned int bucket)
{
	unsigned int shift = bucket < 256 ? 0 : bucket / 128 - 1;
	int64_t width = (int64_t)1 << shift;

	return (int64_t)(bucket - shift * 128) * width + width / 2;
}

void latency_count(struct latency *latency, int64_t nanoseconds)
{
	latency->counts[bucket_of((uint64_t)nanoseconds)]++;
	if (!latency->total || nanoseconds < latency->minimum)
		latency->minimum = nanoseconds;
	if (nanoseconds > latency->maximum)
		latency->maximum = nanoseconds;
	latency->total++;
}

static int64_t clamp(int64_t value, int64_t minimum, int64_t maximum)
{
	if (value < minimum)
		return minimum;
	return value > maximum ? maximum : value;
}

int64_t latency_quantile(const struct latency *latency, double share)
{
	double wanted = share * (double)latency->total;
	uint64_t passed = 0;

	for (unsigned int bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
		passed += latency->counts[bucket];
		if (passed && (double)passed >= wanted)
			return clamp(bucket_value(bucket), latency->minimum, latency->maximum);
	}
	return latency->maximum;
}
