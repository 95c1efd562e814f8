// SPDX-License-Identifier: MIT
/* The present name and folder of a device, and numbers in files. */
#include "rdma-common/sysfs.h"

#include "unit.h"

#include <fcntl.h>

#include "folder.h"

/* A device that libibverbs found as "rdma0" */
static struct ibv_device device = { .name = "rdma0",
				    .dev_path = "uverbs3",
				    .ibdev_path = "infiniband/rdma0" };

/* Check the name and folder if the file "ibdev" has this text, or is removed (NULL). */
static void assert_name_and_folder(const char *text, const char *name, const char *path)
{
	struct device_name present;

	put("uverbs3/ibdev", text);
	present = device_name(&device);
	assert_string_equal(present.text, name);
	assert_string_equal(device_folder(&device, &present).text, path);
}

TEST(a_renamed_device_has_the_name_and_folder_that_sysfs_shows)
{
	assert_name_and_folder("rdma0\n", "rdma0", "infiniband/rdma0");
	assert_name_and_folder("a-longer-name\n", "a-longer-name", "infiniband/a-longer-name");
}

TEST(without_a_name_in_sysfs_a_device_has_the_name_of_libibverbs)
{
	assert_name_and_folder("", "rdma0", "infiniband/rdma0");
	assert_name_and_folder(NULL, "rdma0", "infiniband/rdma0");
}

TEST(a_name_is_cut_to_its_array)
{
	char text[200];
	struct device_name present;

	memset(text, 'n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	put("uverbs3/ibdev", text);
	present = device_name(&device);
	assert_int_equal(strlen(present.text), IBV_SYSFS_NAME_MAX - 1);
	put("uverbs3/ibdev", NULL);
}

static bool read_number(const char *text, uint64_t *number)
{
	put("uverbs3/number", text);
	return sysfs_read_number(AT_FDCWD, "uverbs3/number", number);
}

TEST(a_number_at_the_beginning_of_a_file_is_read)
{
	uint64_t number = 7;

	assert_true(read_number("18446744073709551615\n", &number));
	assert_true(number == UINT64_MAX);
	assert_true(read_number("12 packets\n", &number));
	assert_int_equal(number, 12);
}

TEST(without_a_number_the_value_stays)
{
	uint64_t number = 7;

	assert_false(read_number("max\n", &number));
	assert_false(read_number("", &number));
	assert_false(read_number(NULL, &number));
	assert_int_equal(number, 7);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_int_equal(rmdir("uverbs3"), 0);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, NULL)
