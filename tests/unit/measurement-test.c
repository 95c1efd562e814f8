// SPDX-License-Identifier: MIT
/* Measure an operation: passes, latencies, rates, and the intervals of --interval. */
#include "rdma-common/measurement.h"

#include "unit.h"

#define SECOND ((int64_t)1000000000)

static const struct counters nothing = { .any = false };
static struct measurement measurement;
static struct latency latency;
static struct interval interval;

/* Begin to measure an operation that starts at 10 s, with intervals of `interval_seconds`. */
static void begin(unsigned int interval_seconds)
{
	const struct counters counters = { .any = true, .values = { 5 } };

	measurement = (struct measurement){ .interval = { .end = INT64_MAX } };
	measurement_begin(&measurement, 10 * SECOND, interval_seconds, &counters);
}

/* End the interval at `seconds`, when `bytes` have completed and the first counter is `count`. */
static bool end_at(double seconds, uint64_t bytes, uint64_t count)
{
	const struct counters counters = { .any = true, .values = { count } };

	return measurement_end_interval(&measurement, (int64_t)(seconds * 1e9), bytes, &counters,
					&interval);
}

/* ---- Passes ---- */

TEST(bytes_count_when_a_completion_reaches_the_end_of_a_pass)
{
	static const struct {
		uint64_t bytes, counted;
	} completions[] = { { 99, 0 },    { 100, 100 }, { 150, 100 }, { 199, 100 },
			    { 250, 250 }, { 299, 250 }, { 300, 300 }, { 700, 700 } };

	begin(0);
	for (size_t i = 0; i < ENTRIES(completions); i++) {
		int64_t now = (11 + (int64_t)i) * SECOND;
		bool counts = completions[i].counted == completions[i].bytes;
		int64_t before = measurement.completed;

		measurement_complete(&measurement, completions[i].bytes, 100, now);
		assert_int_equal(measurement.bytes, completions[i].counted);
		assert_int_equal(measurement.completed, counts ? now : before);
	}
}

TEST(every_completion_counts_if_the_length_of_a_pass_is_unknown)
{
	begin(0);
	measurement_complete(&measurement, 7, LENGTH_UNKNOWN, 11 * SECOND);
	assert_int_equal(measurement.bytes, 7);
	measurement_complete(&measurement, 9, LENGTH_UNKNOWN, 12 * SECOND);
	assert_int_equal(measurement.bytes, 9);
	assert_int_equal(measurement.completed, 12 * SECOND);
}

TEST(latency_of_a_pass_is_the_time_from_its_first_post_to_its_last_completion)
{
	begin(0);
	memset(&latency, 0, sizeof(latency));
	measurement.latency = &latency;
	for (uint64_t pass = 0; pass < 3; pass++) {
		int64_t posted = (20 + (int64_t)pass) * SECOND;

		measurement_post(&measurement, pass * 100, posted);
		measurement_post(&measurement, pass * 100 + 50, posted + 3); /* the second half */
		measurement_complete(&measurement, pass * 100 + 50, 100, posted + 4);
		measurement_complete(&measurement, pass * 100 + 100, 100, posted + 10);
	}
	assert_int_equal(latency.total, 3);
	assert_int_equal(latency.minimum, 10);
	assert_int_equal(latency.maximum, 10);
}

/* ---- Rates ---- */

TEST(rate_is_bits_per_second_from_the_first_post_to_the_last_counted_completion)
{
	begin(0);
	assert_true(measurement_rate(&measurement) == 0); /* nothing has completed */
	measurement_complete(&measurement, 1000, 1000, 12 * SECOND);
	measurement_complete(&measurement, 1500, 1000, 19 * SECOND); /* half a pass */
	assert_true(measurement_rate(&measurement) == 4000);
}

TEST(speed_counts_complete_passes)
{
	static const struct {
		uint64_t bytes, pass;
		bool is_complete;
		uint64_t operations;
	} cases[] = {
		{ 3000, 1000, false, 3 },          { 999, 1000, false, 0 },
		{ 3000, LENGTH_UNKNOWN, true, 1 }, { 3000, LENGTH_UNKNOWN, false, 0 },
		{ 0, LENGTH_UNKNOWN, true, 0 },    { 0, 0, true, 0 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct speed speed;

		begin(0);
		measurement.completed = 12 * SECOND;
		measurement.bytes = cases[i].bytes;
		speed = measurement_speed(&measurement, cases[i].pass, cases[i].is_complete);
		assert_int_equal(speed.operations, cases[i].operations);
		assert_true(speed.seconds == (cases[i].operations ? 2 : 0));
		assert_true(speed.bytes_per_second == (cases[i].operations ? 1500 : 0));
		assert_true(speed.operations_per_second == (double)cases[i].operations / 2);
	}
}

TEST(speed_has_no_rates_if_no_time_has_passed)
{
	struct speed speed;

	begin(0);
	measurement.bytes = 3000;
	speed = measurement_speed(&measurement, 1000, true);
	assert_int_equal(speed.operations, 3);
	assert_true(speed.seconds == 0 && speed.bytes_per_second == 0);
}

/* ---- Intervals ---- */

TEST(interval_reports_its_time_its_bytes_and_the_growth_of_the_counters)
{
	begin(2);
	assert_int_equal(measurement.interval.end, 12000);
	assert_true(end_at(12.5, 300, 8));
	assert_true(interval.begin == 0 && interval.end == 2.5);
	assert_int_equal(interval.bytes, 300);
	assert_int_equal(interval.growth.values[0], 3);
	assert_true(end_at(14, 1000, 8));
	assert_true(interval.begin == 2.5 && interval.end == 4);
	assert_int_equal(interval.bytes, 700);
	assert_true(interval.growth.any);
	assert_int_equal(interval.growth.values[0], 0);
}

TEST(interval_without_counters_has_no_growth)
{
	begin(1);
	assert_true(measurement_end_interval(&measurement, 11 * SECOND, 1, &nothing, &interval));
	assert_false(interval.growth.any);
}

TEST(interval_without_a_duration_is_not_reported)
{
	begin(1);
	assert_false(end_at(10, 300, 8));
	assert_true(end_at(11, 500, 8));
	assert_int_equal(interval.bytes, 500);
	assert_int_equal(interval.growth.values[0], 3);
}

TEST(interval_ends_on_time_after_one_that_ended_late)
{
	begin(2);
	assert_true(end_at(12.9, 1, 5));
	assert_int_equal(measurement.interval.end, 14000);
	assert_true(end_at(19, 2, 5)); /* the ends at 16 s and 18 s are skipped */
	assert_int_equal(measurement.interval.end, 20000);
	assert_true(end_at(20, 3, 5));
	assert_int_equal(measurement.interval.end, 22000);
}

TEST(only_an_interval_that_is_due_is_postponed)
{
	begin(2);
	measurement_postpone_interval(&measurement, 11999);
	assert_int_equal(measurement.interval.end, 12000);
	measurement_postpone_interval(&measurement, 12000);
	assert_int_equal(measurement.interval.end, 14000);
}

TEST(no_interval_ends_without_interval_seconds)
{
	begin(0);
	assert_int_equal(measurement.interval.end, INT64_MAX);
	measurement_postpone_interval(&measurement, INT64_MAX - 1);
	assert_int_equal(measurement.interval.end, INT64_MAX);
}

RUN_TESTS(NULL, NULL)
