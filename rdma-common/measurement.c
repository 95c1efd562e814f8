// SPDX-License-Identifier: MIT
#include "measurement.h"

#define NANOSECONDS_PER_SECOND      1e9
#define NANOSECONDS_PER_MILLISECOND 1000000
#define MILLISECONDS_PER_SECOND     1000

void measurement_begin(struct measurement *measurement, int64_t now, unsigned int interval_seconds,
		       const struct counters *counters)
{
	struct interval_clock *interval = &measurement->interval;

	measurement->started = now;
	measurement->completed = now;
	interval->length = (int64_t)interval_seconds * MILLISECONDS_PER_SECOND;
	if (interval->length == 0)
		return;
	interval->end = now / NANOSECONDS_PER_MILLISECOND + interval->length;
	interval->begin = now;
	interval->counters = *counters;
}

bool measurement_end_interval(struct measurement *measurement, int64_t now, uint64_t bytes,
			      const struct counters *counters, struct interval *interval)
{
	struct interval_clock *current = &measurement->interval;
	int64_t started = measurement->started;

	if (now <= current->begin)
		return false;
	*interval = (struct interval){
		.begin = (double)(current->begin - started) / NANOSECONDS_PER_SECOND,
		.end = (double)(now - started) / NANOSECONDS_PER_SECOND,
		.bytes = bytes - current->bytes,
		.growth = counters_growth(&current->counters, counters),
	};
	current->begin = now;
	current->bytes = bytes;
	current->counters = *counters;
	while (current->end <= now / NANOSECONDS_PER_MILLISECOND) /* skip ends that have passed */
		current->end += current->length;
	return true;
}

void measurement_postpone_interval(struct measurement *measurement, int64_t milliseconds)
{
	if (measurement->interval.end <= milliseconds)
		measurement->interval.end += measurement->interval.length;
}

double measurement_rate(const struct measurement *measurement)
{
	int64_t nanoseconds = measurement->completed - measurement->started;

	return nanoseconds > 0 ? (double)measurement->bytes * 8e9 / (double)nanoseconds : 0;
}

struct speed measurement_speed(const struct measurement *measurement, uint64_t pass,
			       bool is_complete)
{
	int64_t nanoseconds = measurement->completed - measurement->started;
	struct speed speed = { 0 };

	if (pass == LENGTH_UNKNOWN || !pass)
		speed.operations = measurement->bytes > 0 && is_complete;
	else
		speed.operations = measurement->bytes / pass;
	if (!speed.operations || nanoseconds <= 0)
		return speed;
	speed.seconds = (double)nanoseconds / NANOSECONDS_PER_SECOND;
	speed.bytes_per_second = measurement_rate(measurement) / 8;
	speed.operations_per_second = (double)speed.operations / speed.seconds;
	return speed;
}
