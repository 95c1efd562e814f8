// SPDX-License-Identifier: MIT
/*
 * Counters of errors of a port, in folders like those of sysfs.
 */
#include "rdma-common/counters.h"

#include <sys/stat.h>

#include "unit.h"
#include "folder.h"

static char folder[] = "/tmp/counters-test.XXXXXX";

/* The folders of port 2 of a device, in the order in which they are made. */
static const char *const folders[] = { "device",
				       "device/ports",
				       "device/ports/2",
				       "device/ports/2/counters",
				       "device/ports/2/hw_counters",
				       "device/ports/2/gid_attrs",
				       "device/ports/2/gid_attrs/ndevs" };
#define FOLDERS ENTRIES(folders)

static int make_folders(void **state)
{
	(void)state;
	if (enter_folder(folder))
		return -1;
	for (size_t i = 0; i < FOLDERS; i++) {
		if (mkdir(folders[i], 0700))
			return -1;
	}
	return 0;
}

/* The rest are pause frames, which the kernel tells by netlink. */
#define IN_SYSFS (COUNTERS - 2)

/* What a counter says, in `place`; NULL: it is not there. */
static void set_counter(const char *place, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "device/ports/2/%s/%s", place, name);
	if (!text) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* What is read replaces whatever stood there. */
static struct counters read_port(unsigned int port)
{
	struct counters counters;

	memset(&counters, 0xee, sizeof(counters));
	counters_read(&counters, "device", port);
	return counters;
}

TEST(each_counter_has_a_name_and_no_other_number_has)
{
	assert_string_equal(counter_name(0), "duplicate_request");
	for (unsigned int i = 0; i < COUNTERS; i++)
		assert_non_null(counter_name(i));
	assert_string_equal(counter_name(ERROR_COUNTERS - 1), "VL15_dropped");
	assert_string_equal(counter_name(ERROR_COUNTERS), "port_xmit_wait");
	assert_string_equal(counter_name(COUNTERS - 1), "tx_pause_frames");
	assert_null(counter_name(COUNTERS));
	assert_null(counter_name(UINT32_MAX));
}

/* Wherever it stands: a driver's own (hw_counters), or one that InfiniBand requires (counters). */
TEST(every_counter_is_read_in_either_folder)
{
	static const char *const places[] = { "hw_counters", "counters" };

	for (unsigned int i = 0; i < IN_SYSFS; i++) {
		struct counters counters;

		set_counter(places[i % 2], counter_name(i), "12345678901\n"); /* above 32 bits */
		counters = read_port(2);
		set_counter(places[i % 2], counter_name(i), NULL);
		assert_true(counters.any);
		for (unsigned int other = 0; other < COUNTERS; other++)
			assert_int_equal(counters.values[other],
					 other == i ? UINT64_C(12345678901) : 0);
	}
}

TEST(where_both_have_a_counter_the_drivers_own_counts)
{
	set_counter("hw_counters", counter_name(3), "3\n");
	set_counter("counters", counter_name(3), "4\n");
	assert_int_equal(read_port(2).values[3], 3);
	set_counter("hw_counters", counter_name(3), NULL);
	set_counter("counters", counter_name(3), NULL);
}

TEST(a_port_without_counters_has_none)
{
	static const struct counters none;
	struct counters counters = read_port(2);

	assert_false(counters.any);
	assert_memory_equal(counters.values, none.values, sizeof(none.values));
	set_counter("counters", counter_name(0), "1\n");
	assert_true(read_port(2).any);
	assert_false(read_port(1).any);
	set_counter("counters", counter_name(0), NULL);
}

/* As of a driver that cannot read it. */
TEST(what_is_no_number_does_not_count)
{
	static const char *const texts[] = { "", "\n", "N/A (no PMA)\n" };

	for (size_t i = 0; i < ENTRIES(texts); i++) {
		set_counter("hw_counters", counter_name(5), texts[i]);
		assert_false(read_port(2).any);
		set_counter("counters", counter_name(5), "7\n"); /* then the other one does */
		assert_int_equal(read_port(2).values[5], 7);
		set_counter("counters", counter_name(5), NULL);
	}
	set_counter("hw_counters", counter_name(5), NULL);
}

TEST(a_counter_that_was_reset_has_not_grown)
{
	static const struct {
		uint64_t before, after, growth;
	} cases[] = {
		{ 0, 0, 0 }, { 5, 5, 0 }, { 5, 9, 4 }, { 9, 5, 0 }, { 0, UINT64_MAX, UINT64_MAX }
	};

	for (size_t i = 0; i < 4 * ENTRIES(cases); i++) {
		/* where the port had none before, or has none any more, nothing has grown */
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

/* A port that waits has not lost anything. */
TEST(errors_are_summed_and_waits_are_none)
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

/* Of an interface that there is not, and of one that has no such frames. */
TEST(an_interface_without_pause_frames_leaves_the_other_counters)
{
	static const char *const interfaces[] = { "", "nosuch", "lo",
						  "a name that is far too long" };

	for (size_t i = 0; i < ENTRIES(interfaces); i++) {
		struct counters counters;

		set_counter("gid_attrs/ndevs", "0", interfaces[i]);
		set_counter("counters", counter_name(1), "8\n");
		counters = read_port(2);
		set_counter("counters", counter_name(1), NULL);
		set_counter("gid_attrs/ndevs", "0", NULL);
		assert_true(counters.any);
		assert_int_equal(counters.values[1], 8);
		assert_int_equal(counters.values[COUNTERS - 1], 0);
	}
}

TEST(what_has_grown_is_described_as_far_as_there_is_room)
{
	struct counters growth = { .any = true };
	struct words words = counters_in_words(&growth);

	assert_string_equal(words.text, "");
	growth.values[0] = 7;
	growth.values[2] = 1;
	words = counters_in_words(&growth);
	assert_string_equal(words.text, "duplicate_request 7, rcvd_rnr_err 1");
	for (unsigned int i = 0; i < COUNTERS; i++)
		growth.values[i] = UINT64_MAX;
	words = counters_in_words(&growth);
	assert_int_equal(words.length, sizeof(words.text) - 1);
	assert_memory_equal(words.text, "duplicate_request 18446744073709551615, out", 43);
}

TEST(nothing_is_left)
{
	for (size_t i = FOLDERS; i-- > 0;)
		assert_int_equal(rmdir(folders[i]), 0);
	assert_nothing_is_left(folder);
}

RUN_TESTS(make_folders, NULL, NULL)
