// SPDX-License-Identifier: MIT
/* The error counters of a port, read from folders like sysfs. */
#include "rdma-common/counters.h"

#include "unit.h"
#include "folder.h"

/* Number of the port's own counters; the network interface's three follow. */
#define OF_THE_PORT (COUNTERS - 3)

/* Write `text` to a counter's file in the folder `place` of port 2. NULL writes no file. */
static void set_counter(const char *place, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "device/ports/2/%s/%s", place, name);
	if (text)
		put(path, text);
}

/* Read the counters of a port. Old contents of the structure must not matter. */
static struct counters read_port(unsigned int port)
{
	struct counters counters;

	memset(&counters, 0xee, sizeof(counters));
	counters_read(&counters, "device", port);
	return counters;
}

TEST(every_counter_has_a_name)
{
	assert_string_equal(counter_name(0), "duplicate_request");
	for (unsigned int i = 0; i < COUNTERS; i++)
		assert_non_null(counter_name(i));
	assert_string_equal(counter_name(ERROR_COUNTERS - 1), "VL15_dropped");
	assert_string_equal(counter_name(ERROR_COUNTERS), "port_xmit_wait");
	assert_string_equal(counter_name(COUNTERS - 1), "rx_missed_errors");
	assert_null(counter_name(COUNTERS));
	assert_null(counter_name(UINT32_MAX));
}

/*
 * Drivers have counters in hw_counters of the port or, like cxgb4, of the device. The folder
 * "counters" has those that InfiniBand requires.
 */
TEST(counters_are_read_from_each_of_three_folders)
{
	static const char *const places[] = { "hw_counters", "counters", "../../hw_counters" };

	for (unsigned int i = 0; i < OF_THE_PORT; i++) {
		struct counters counters;

		empty_folder(NULL);
		set_counter(places[i % 3], counter_name(i),
			    "12345678901\n"); /* more than 32 bits */
		counters = read_port(2);
		assert_int_equal(read_port(1).any, i % 3 == 2);
		assert_true(counters.any);
		for (unsigned int other = 0; other < COUNTERS; other++)
			assert_int_equal(counters.values[other],
					 other == i ? UINT64_C(12345678901) : 0);
	}
}

/*
 * If both counters exist, the driver's is used, unless its file has no number because the driver
 * could not read it.
 */
TEST(drivers_counter_with_a_number_is_preferred_to_the_standard_one)
{
	static const struct {
		const char *own, *required; /* text in hw_counters, counters. NULL makes no file. */
		bool any;
		uint64_t value;
	} cases[] = {
		/* clang-format off */
		{ NULL, NULL, false, 0 },             { NULL, "1\n", true, 1 },
		{ "3\n", NULL, true, 3 },             { "3\n", "4\n", true, 3 },
		{ "", NULL, false, 0 },               { "", "7\n", true, 7 },
		{ "\n", NULL, false, 0 },             { "\n", "7\n", true, 7 },
		{ "N/A (no PMA)\n", NULL, false, 0 }, { "N/A (no PMA)\n", "7\n", true, 7 },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct counters counters;

		empty_folder(NULL);
		set_counter("hw_counters", counter_name(3), cases[i].own);
		set_counter("counters", counter_name(3), cases[i].required);
		counters = read_port(2);
		assert_int_equal(counters.any, cases[i].any);
		for (unsigned int other = 0; other < COUNTERS; other++)
			assert_int_equal(counters.values[other], other == 3 ? cases[i].value : 0);
	}
}

TEST(growth_is_the_difference_or_0_after_a_reset_or_without_counters)
{
	static const struct {
		uint64_t before, after, growth;
	} cases[] = {
		{ 0, 0, 0 }, { 5, 5, 0 }, { 5, 9, 4 }, { 9, 5, 0 }, { 0, UINT64_MAX, UINT64_MAX }
	};

	for (size_t i = 0; i < 4 * ENTRIES(cases); i++) {
		/* no growth if the port has no counters before or after */
		struct counters before = { .any = i % 2 }, after = { .any = i / 2 % 2 }, growth;
		bool any = before.any && after.any;

		before.values[0] = before.values[COUNTERS - 1] = cases[i / 4].before;
		after.values[0] = after.values[COUNTERS - 1] = cases[i / 4].after;
		growth = counters_growth(&before, &after);
		assert_int_equal(growth.any, any);
		assert_true(growth.values[0] == (any ? cases[i / 4].growth : 0));
		assert_true(growth.values[1] == 0);
		assert_true(growth.values[COUNTERS - 1] == growth.values[0]);
	}
}

/* Waits, pause frames and frames that the interface discards are not errors of the port. */
TEST(sum_of_errors_excludes_congestion_counters)
{
	struct counters growth = { .any = true };

	assert_true(counters_errors(&growth) == 0);
	growth.values[ERROR_COUNTERS] = 5;
	growth.values[COUNTERS - 1] = 7;
	assert_true(counters_errors(&growth) == 0);
	growth.values[0] = UINT32_MAX;
	growth.values[ERROR_COUNTERS - 1] = 3;
	assert_true(counters_errors(&growth) == (uint64_t)UINT32_MAX + 3);
}

TEST(sequence_errors_are_summed_as_gaps_naks_and_retransmissions)
{
	static const struct {
		const char *name;
		uint64_t missing, naks, retransmitted;
	} cases[] = {
		{ "out_of_seq_request", 1, 0, 0 },  { "out_of_sequence", 1, 0, 0 },
		{ "oos_drop_count", 1, 0, 0 },      { "rcvd_seq_err", 0, 1, 1 },
		{ "packet_seq_err", 0, 1, 1 },      { "seq_err_naks_rcvd", 0, 1, 1 },
		{ "completer_retry_err", 0, 0, 1 }, { "local_ack_timeout_err", 0, 0, 1 },
		{ "to_retransmits", 0, 0, 1 },      { "tcpRetransSegs", 0, 0, 1 },
		{ "duplicate_request", 0, 0, 0 },   { "np_cnp_sent", 0, 0, 0 },
	};

	EACH_ROW (i, cases) {
		struct counters growth = { .any = true };
		struct sequence_errors sequence;
		unsigned int number = 0;

		while (strcmp(counter_name(number), cases[i].name) != 0)
			number++;
		growth.values[number] = 1;
		sequence = counters_sequence_errors(&growth);
		assert_true(sequence.missing == cases[i].missing);
		assert_true(sequence.naks == cases[i].naks);
		assert_true(sequence.retransmitted == cases[i].retransmitted);
	}
}

/*
 * Each case: the name of the port's network interface, and its discarded frames. The last name
 * leads to the file of this test.
 */
TEST(discarded_frames_are_read_even_without_pause_frames)
{
	static const struct {
		const char *interface;
		uint64_t discarded;
	} cases[] = {
		{ "", 0 },
		{ "nosuch", 0 },
		{ "lo", 0 },
		{ "a name that is far too long", 0 },
		{ "../../../proc/self/cwd/eth0", 9 },
	};

	put("eth0/statistics/rx_missed_errors", "9\n");
	set_counter("counters", counter_name(1), "8\n");
	EACH_ROW (i, cases) {
		struct counters counters;

		set_counter("gid_attrs/ndevs", "0", cases[i].interface);
		counters = read_port(2);
		assert_int_equal(counters.values[1], 8);
		assert_int_equal(counters.values[COUNTERS - 3], 0);
		assert_int_equal(counters.values[COUNTERS - 2], 0);
		assert_int_equal(counters.values[COUNTERS - 1], cases[i].discarded);
	}
}

TEST(growth_is_listed_by_name_and_a_long_list_is_truncated)
{
	struct counters growth = { .any = true };
	struct strbuf words = counters_describe(&growth);

	assert_string_equal(words.text, "");
	growth.values[0] = 7;
	growth.values[2] = 1;
	words = counters_describe(&growth);
	assert_string_equal(words.text, "duplicate_request 7, rcvd_rnr_err 1");
	for (unsigned int i = 0; i < COUNTERS; i++)
		growth.values[i] = UINT64_MAX;
	words = counters_describe(&growth);
	assert_int_equal(words.length, sizeof(words.text) - 1);
	assert_memory_equal(words.text, "duplicate_request 18446744073709551615, out", 43);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, empty_folder)
