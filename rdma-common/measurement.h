/* SPDX-License-Identifier: MIT */
/*
 * The measurement of this side's operation: time, bytes and latencies, in all and for each
 * --interval. The caller reads the clock and the counters. Times are values of now_nanoseconds(),
 * unless a comment says milliseconds.
 *
 * Threads: the connection's thread while it runs; afterwards the main thread.
 */
#ifndef RDMA_COMMON_MEASUREMENT_H
#define RDMA_COMMON_MEASUREMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "latency.h"
#include "wire.h"

/* The state of --interval. */
struct interval_clock {
	int64_t length;           /* milliseconds, or 0 without --interval */
	int64_t end;              /* end of the current interval in milliseconds, or INT64_MAX */
	int64_t begin;            /* start of the current interval */
	uint64_t bytes;           /* bytes completed before the current interval */
	struct counters counters; /* the port's counters at `begin` */
};

struct measurement {
	/*
	 * The time just before the first post. If this side does not operate, it is the time when
	 * the peer may begin. It is 0 until then.
	 */
	int64_t started;
	int64_t completed;     /* time of the latest completion that was counted */
	int64_t pass_posted;   /* time just before the latest pass was posted, only for `latency` */
	uint64_t bytes;        /* bytes completed at the time `completed` */
	uint64_t passes_bytes; /* the part of `bytes` in complete passes */
	uint64_t request_bytes;  /* bytes of the largest work request */
	struct latency *latency; /* counts of latencies, or NULL if they are not measured */
	struct interval_clock interval;
};

/* An interval of a session's operation. Times are in seconds since the operation began. */
struct interval {
	unsigned int session; /* number of the connection */
	double begin, end;
	uint64_t bytes; /* bytes completed in the interval */
	struct counters growth;
};

/*
 * Complete passes of the operation, their time and their rates. All are 0 if no pass has completed.
 * Without a measured time, `seconds` and the rates are 0.
 */
struct speed {
	uint64_t operations;
	double seconds, bytes_per_second, operations_per_second;
};

/*
 * Begin to measure an operation whose first requests are posted at `now`. If `interval_seconds` is
 * above 0, begin the first interval with the port's `counters`.
 */
void measurement_begin(struct measurement *measurement, int64_t now, unsigned int interval_seconds,
		       const struct counters *counters);

/*
 * Record that requests are posted at `now`, the first of them at `position` of the stream. Only the
 * start of a pass counts, and only if latencies are measured.
 */
static inline void measurement_post(struct measurement *measurement, uint64_t position, int64_t now)
{
	/* latencies need depth 1, where a pass begins once all bytes before it have completed */
	if (measurement->latency && position == measurement->bytes)
		measurement->pass_posted = now;
}

/*
 * Record that the first `bytes` of all passes had completed at `now`. They count only if another
 * pass of `pass` bytes is complete, or if `pass` is LENGTH_UNKNOWN.
 */
static inline void measurement_complete(struct measurement *measurement, uint64_t bytes,
					uint64_t pass, int64_t now)
{
	if (pass != LENGTH_UNKNOWN) {
		uint64_t since = bytes - measurement->passes_bytes;

		if (since < pass)
			return;
		measurement->passes_bytes += since == pass ? pass : since - since % pass;
	}
	if (measurement->latency)
		latency_count(measurement->latency, now - measurement->pass_posted);
	measurement->completed = now;
	measurement->bytes = bytes;
}

/*
 * End the current interval at `now`, and begin the next one. `bytes` have completed in all passes,
 * and the port has these `counters`. Store the interval in `interval`, except its session. If the
 * interval has no duration, return false and change nothing.
 */
bool measurement_end_interval(struct measurement *measurement, int64_t now, uint64_t bytes,
			      const struct counters *counters, struct interval *interval);

/* If the interval ends at `milliseconds` or earlier, let it end one length later. */
void measurement_postpone_interval(struct measurement *measurement, int64_t milliseconds);

/* Return the rate of the operation in bit/s, or 0 if no time was measured. */
double measurement_rate(const struct measurement *measurement);

/*
 * Return the speed of passes of `pass` bytes. A pass of unknown length is the only one. It counts
 * if it has bytes and the whole operation `is_complete`. A pass of 0 bytes does not count.
 */
struct speed measurement_speed(const struct measurement *measurement, uint64_t pass,
			       bool is_complete);

#endif
