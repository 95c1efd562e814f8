// SPDX-License-Identifier: MIT
/* Devices whose node GUID is 0, in sysfs. fake-connecting.bats has the calls that find one. */
#include "rdma-common/guid.h"

#include "unit.h"

#include "folder.h"

static bool zero(const char *text)
{
	struct ibv_device device = { .ibdev_path = "rdma0" };

	put("rdma0/node_guid", text);
	return guid_is_zero(&device);
}

TEST(only_a_node_guid_of_zeros_is_zero)
{
	assert_true(zero("0000:0000:0000:0000\n"));
	assert_false(zero("0200:00ff:fe00:0001\n"));
	assert_false(zero("0000:0000:0000:0001\n"));
	assert_false(zero("1000:0000:0000:0000\n"));
}

TEST(an_unknown_node_guid_is_not_zero)
{
	assert_false(zero(""));
	assert_false(zero(NULL));
}

TEST(no_device_is_found_in_a_missing_list)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id id = { .route.addr.addr.ibaddr.sgid.raw = { 0xfe, 0x80 } };

	assert_null(guid_find(NULL, &id));
	assert_null(guid_find_for(NULL, NULL, (struct sockaddr *)&any));
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_int_equal(rmdir("rdma0"), 0);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, NULL)
