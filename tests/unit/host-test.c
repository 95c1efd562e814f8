// SPDX-License-Identifier: MIT
/*
 * What is found of a host's devices, in a folder with the files that Linux has in sysfs and proc.
 */
#include "rdma-common/host.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <sys/stat.h>

#include "unit.h"
#include "folder.h"

#define DEVICES "sys/class/infiniband/"

static char folder[] = "/tmp/host-test.XXXXXX";

/* What was found last time, a line for each: "step text", then "-> advice" or "!> advice". */
static char found[16384];
static bool limited;

static int remove_entry(const char *path, __attribute__((unused)) const struct stat *about,
			__attribute__((unused)) int type, struct FTW *walk)
{
	return walk->level > 0 ? remove(path) : 0;
}

static int empty_folder(__attribute__((unused)) void **state)
{
	return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static int make_folder(__attribute__((unused)) void **state)
{
	return enter_folder(folder);
}

/* Makes the folders above a path. */
static void make_folders(const char *path)
{
	char above[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		mkdir(above, 0700);
	}
}

/* A file with this line; NULL: there is none any more. */
static void put(const char *path, const char *text)
{
	FILE *file;

	if (!text) {
		assert_int_equal(remove(path), 0);
		return;
	}
	make_folders(path);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

/* A file of a device. */
static void put_device(const char *device, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), DEVICES "%s/%s", device, name);
	put(path, text);
}

/* An entry of port 1's table of GIDs. */
static void put_gid(const char *device, unsigned int index, const char *gid, const char *type)
{
	char name[64];

	snprintf(name, sizeof(name), "ports/1/gids/%u", index);
	put_device(device, name, gid);
	snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", index);
	put_device(device, name, type);
}

#define EMPTY  "0000:0000:0000:0000:0000:0000:0000:0000"
#define LOCAL  "fe80:0000:0000:0000:0ac0:ebff:fe12:3456"
#define ROUTED "2001:0db8:0000:0000:0000:0000:0000:0001"
#define IPV4   "0000:0000:0000:0000:0000:ffff:c000:0201"

/* An adapter of 100 Gbit/s at which nothing is wrong, on node 1 of a machine of two. */
static void put_adapter(const char *device)
{
	static const char *const files[][2] = {
		{ "node_type", "1: CA" },
		{ "fw_ver", "22.39.1002" },
		{ "board_id", "MT_0000000359" },
		{ "device/uevent", "DRIVER=mlx5_core" },
		{ "device/current_link_speed", "16.0 GT/s PCIe" },
		{ "device/current_link_width", "16" },
		{ "device/max_link_speed", "16.0 GT/s PCIe" },
		{ "device/max_link_width", "16" },
		{ "device/numa_node", "1" },
		{ "device/local_cpulist", "8-15,24-31" },
		{ "ports/1/state", "4: ACTIVE" },
		{ "ports/1/link_layer", "Ethernet" },
		{ "ports/1/rate", "100 Gb/sec (4X EDR)" },
		{ "ports/1/gid_attrs/ndevs/0", "eth2" },
	};

	for (size_t i = 0; i < ENTRIES(files); i++)
		put_device(device, files[i][0], files[i][1]);
	put("sys/class/net/eth2/mtu", "9000");
	put("proc/self/status", "Name:\trdma-client\nCpus_allowed:\tff\nCpus_allowed_list:\t0-31");
	put_gid(device, 0, LOCAL, "IB/RoCE v1");
	put_gid(device, 1, LOCAL, "RoCE v2");
	put_gid(device, 2, IPV4, "IB/RoCE v1");
	put_gid(device, 3, IPV4, "RoCE v2");
	put_gid(device, 4, EMPTY, "");
}

static void take(__attribute__((unused)) void *argument, const struct host_finding *finding)
{
	size_t length = strlen(found);

	snprintf(found + length, sizeof(found) - length, "%s %s\n", finding->step,
		 finding->text.text);
	length = strlen(found);
	if (finding->advice.length)
		snprintf(found + length, sizeof(found) - length, "%s %s\n",
			 finding->limited ? "!>" : "->", finding->advice.text);
	else
		assert_false(finding->limited);
	limited |= finding->limited;
}

/* Whether the host is limited, and these words stand in what is found, of which there is some. */
static void expect(bool expected, const char *words)
{
	found[0] = '\0';
	limited = false;
	host_examine(folder, take, NULL);
	if (!strstr(found, words) || limited != expected)
		fail_msg("limited %d, or without '%s': %s", limited, words, found);
}

/* ---- Adapters ---- */

TEST(a_host_without_devices_has_no_finding)
{
	expect(false, "");
	assert_string_equal(found, "");
	make_folders(DEVICES);
	expect(false, "");
	assert_string_equal(found, "");
	host_examine("/no/such/folder", take, NULL);
	assert_string_equal(found, "");
}

TEST(an_adapter_at_which_nothing_is_wrong_is_described_without_advice)
{
	put_adapter("mlx5_0");
	expect(false, "");
	assert_string_equal(
		found,
		"adapter mlx5_0: firmware 22.39.1002 of MT_0000000359, PCIe 16 GT/s x16 of 16 GT/s "
		"x16 (252 Gbit/s), NUMA node 1 (processors 8-15,24-31; this process may use 0-31)\n"
		"link mlx5_0 port 1: Ethernet, ACTIVE, 100 Gb/sec (4X EDR), eth2 with MTU 9000\n"
		"gid mlx5_0 port 1: GID 0 is fe80::ac0:ebff:fe12:3456, IB/RoCE v1\n"
		"gid mlx5_0 port 1: GID 1 is fe80::ac0:ebff:fe12:3456, RoCE v2\n"
		"gid mlx5_0 port 1: GID 2 is ::ffff:192.0.2.1, IB/RoCE v1\n"
		"gid mlx5_0 port 1: GID 3 is ::ffff:192.0.2.1, RoCE v2\n"
		"setting mlx5_0 port 1: NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=3\n");
}

TEST(a_software_device_has_no_pci_parent_and_no_rate)
{
	put_adapter("rdma0");
	put_device("rdma0", "device/uevent", NULL);
	put_device("rdma0", "board_id", NULL);
	expect(false, "adapter rdma0: software device\n"
		      "link rdma0 port 1: Ethernet, ACTIVE, eth2 with MTU 9000\n");
}

TEST(a_slow_pcie_link_is_a_limit_where_the_ports_are_faster)
{
	static const struct {
		const char *speed, *lanes, *most_speed, *most_lanes;
		bool limited;
		const char *words;
	} cases[] = {
		/* clang-format off */
		{ "8.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16", false, "8 GT/s x16 of 16 GT/s x16 (126 Gbit/s)" },
		{ "8.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16", false, "\n-> its PCIe link is below its maximum, but fast enough for the 100 Gbit/s" },
		{ "16.0 GT/s PCIe", "4", "16.0 GT/s PCIe", "16", true, "16 GT/s x4 of 16 GT/s x16 (63 Gbit/s)" },
		{ "8 GT/s", "8", "8 GT/s", "16", true, "\n!> its PCIe link is below its maximum, too slow for the 100 Gbit/s" },
		{ "5.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16", true, "(64 Gbit/s)" },
		/* at its maximum, with which the adapter was made, there is nothing to change */
		{ "8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "8", false, "(63 Gbit/s), NUMA" },
		/* a virtual function */
		{ "Unknown", "0", "Unknown", "0", false, "of MT_0000000359, NUMA" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		put_adapter("mlx5_0");
		put_device("mlx5_0", "device/current_link_speed", cases[i].speed);
		put_device("mlx5_0", "device/current_link_width", cases[i].lanes);
		put_device("mlx5_0", "device/max_link_speed", cases[i].most_speed);
		put_device("mlx5_0", "device/max_link_width", cases[i].most_lanes);
		expect(cases[i].limited, cases[i].words);
	}
}

TEST(all_active_ports_share_the_pcie_link)
{
	put_adapter("mlx4_0");
	put_device("mlx4_0", "device/current_link_speed", "8.0 GT/s PCIe");
	put_device("mlx4_0", "ports/2/state", "1: DOWN");
	put_device("mlx4_0", "ports/2/rate", "100 Gb/sec (4X EDR)");
	expect(false, "but fast enough for the 100 Gbit/s");
	put_device("mlx4_0", "ports/2/state", "4: ACTIVE");
	expect(true, "too slow for the 200 Gbit/s");
	put_device("mlx4_0", "ports/1/state", "1: DOWN");
	expect(false, "but fast enough for the 100 Gbit/s");
}

/* As that of irdma. */
TEST(an_auxiliary_devices_pci_function_is_its_parent)
{
	put_adapter("irdma0");
	make_folders("pci/irdma.roce.0/");
	put("pci/irdma.roce.0/uevent", "DRIVER=irdma");
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = { "current", "max" };
		char path[64];

		snprintf(path, sizeof(path), "pci/%s_link_speed", names[i]);
		put(path, "8.0 GT/s PCIe");
		snprintf(path, sizeof(path), "pci/%s_link_width", names[i]);
		put(path, "8");
	}
	assert_int_equal(nftw(DEVICES "irdma0/device", remove_entry, 8, FTW_DEPTH), 0);
	assert_int_equal(rmdir(DEVICES "irdma0/device"), 0);
	assert_int_equal(symlink("../../../../pci/irdma.roce.0", DEVICES "irdma0/device"), 0);
	expect(false, "PCIe 8 GT/s x8 of 8 GT/s x8 (63 Gbit/s)\n");
}

TEST(a_process_that_may_only_run_far_from_the_adapter_is_told)
{
	static const struct {
		const char *allowed, *near;
		bool limited;
	} cases[] = {
		{ "0-7", "8-15,24-31", true },  { "0-7,16-23", "8-15,24-31", true },
		{ "0-8", "8-15,24-31", false }, { "16-24", "8-15,24-31", false },
		{ "31", "8-15,24-31", false },  { "32", "8-15,24-31", true },
		{ "9", "0-31", false },         { "7", "", false },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		char text[256];

		put_adapter("mlx5_0");
		snprintf(text, sizeof(text), "Cpus_allowed_list:\t%s\nMems_allowed:\t1",
			 cases[i].allowed);
		put("proc/self/status", text);
		put_device("mlx5_0", "device/local_cpulist", cases[i].near);
		snprintf(text, sizeof(text), "node 1 (processors %s; this process may use %s)",
			 cases[i].near, cases[i].allowed);
		expect(cases[i].limited, text);
		assert_int_equal(!!strstr(found, "\n!> this process may only run far"),
				 cases[i].limited);
		expect(cases[i].limited, cases[i].limited ? "--cpunodebind=1 --membind=1" : "");
	}
	put_device("mlx5_0", "device/numa_node", "-1");
	put_device("mlx5_0", "device/local_cpulist", "40");
	expect(false, "(252 Gbit/s)\n");
	put_device("mlx5_0", "device/numa_node", "0");
	put("proc/self/status", "Name:\trdma-client\nThreads:\t1");
	expect(false, "may use )\n");
}

TEST(two_limits_of_an_adapter_are_both_advised)
{
	put_adapter("mlx5_0");
	put_device("mlx5_0", "device/current_link_width", "4");
	put_device("mlx5_0", "device/local_cpulist", "40");
	expect(true, "(LnkSta); this process may only run far");
}

/* ---- Ports ---- */

TEST(a_port_that_is_slower_than_another_of_its_model_is_told)
{
	put_adapter("mlx5_0");
	put_adapter("mlx5_1");
	put_device("mlx5_1", "ports/1/rate", "25 Gb/sec (1X EDR)");
	expect(true,
	       "link mlx5_1 port 1: Ethernet, ACTIVE, 25 Gb/sec (1X EDR), eth2 with MTU 9000\n"
	       "!> a port of the same model has 100 Gbit/s");
	put_device("mlx5_1", "board_id", "MT_0000000008");
	expect(false, "25 Gb/sec");
	put_device("mlx5_0", "board_id", NULL);
	put_device("mlx5_1", "board_id", NULL);
	expect(false, "25 Gb/sec");
}

TEST(of_a_port_that_is_down_no_more_is_said_than_that)
{
	put_adapter("mlx5_0");
	put_adapter("mlx5_1");
	put_device("mlx5_1", "ports/1/state", "1: DOWN");
	put_device("mlx5_1", "ports/1/rate", "10 Gb/sec (4X SDR)");
	expect(false, "link mlx5_1 port 1: Ethernet, DOWN, 10 Gb/sec (4X SDR)");
	assert_null(strstr(found, "mlx5_1 port 1: GID"));
	assert_null(strstr(found, "HCA==mlx5_1"));
}

TEST(a_bond_is_named_by_itself_and_by_its_members)
{
	put_adapter("mlx5_bond_0");
	put("sys/class/net/eth2/master/bonding/mode", "802.3ad 4");
	expect(false, "eth2 with MTU 9000, bond 802.3ad\n");
	put("sys/class/net/bond0/bonding/mode", "active-backup 1");
	put("sys/class/net/bond0/mtu", "4200");
	put_device("mlx5_bond_0", "ports/1/gid_attrs/ndevs/0", "bond0");
	expect(false, "bond0 with MTU 4200, bond active-backup\n");
}

/* ---- GIDs ---- */

TEST(the_best_gid_is_of_roce_v2_and_routed)
{
	static const struct {
		const char *gids[3][2];
		bool limited;
		const char *words;
	} cases[] = {
		/* clang-format off */
		{ { { ROUTED, "RoCE v2" }, { IPV4, "RoCE v2" }, { IPV4, "IB/RoCE v1" } }, false, "NCCL_IB_GID_INDEX=1\n" },
		{ { { LOCAL, "RoCE v2" }, { EMPTY, "" }, { ROUTED, "RoCE v2" } }, false, "NCCL_IB_GID_INDEX=2\n" },
		{ { { IPV4, "IB/RoCE v1" }, { LOCAL, "IB/RoCE v1" }, { LOCAL, "RoCE v2" } }, true, "NCCL_IB_GID_INDEX=2\n!> a link-local address passes no router" },
		{ { { IPV4, "IB/RoCE v1" }, { ROUTED, "IB/RoCE v1" }, { EMPTY, "" } }, true, "NCCL_IB_GID_INDEX=0\n!> RoCE v1 passes no router" },
		{ { { EMPTY, "" }, { EMPTY, "" }, { EMPTY, "" } }, false, "with MTU 9000\n" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		put_adapter("mlx5_0");
		put_gid("mlx5_0", 3, EMPTY, "");
		for (unsigned int j = 0; j < 3; j++)
			put_gid("mlx5_0", j, cases[i].gids[j][0], cases[i].gids[j][1]);
		expect(cases[i].limited, cases[i].words);
	}
	assert_null(strstr(found, "setting"));
}

TEST(over_infiniband_any_gid_is_right_and_iwarp_has_none)
{
	put_adapter("mlx5_0");
	put_device("mlx5_0", "ports/1/link_layer", "InfiniBand");
	for (unsigned int i = 1; i <= 3; i++)
		put_gid("mlx5_0", i, EMPTY, "");
	expect(false, "setting mlx5_0 port 1: NCCL_IB_HCA==mlx5_0:1\n");
	put_adapter("siw0");
	put_device("siw0", "node_type", "4: RNIC");
	expect(false, "link siw0 port 1: ");
	assert_null(strstr(found, "siw0 port 1: GID"));
	assert_null(strstr(found, "HCA==siw0"));
}

TEST(a_connections_gid_has_advice_unless_it_is_routed)
{
	static const struct {
		const char *gid;
		bool version_2;
		const char *words; /* NULL: no advice */
	} cases[] = {
		{ "fe80::1", true, "link-local" },   { "::ffff:192.0.2.1", true, NULL },
		{ "2001:db8::1", true, NULL },       { "fe80::1", false, "RoCE v1" },
		{ "2001:db8::1", false, "RoCE v1" }, { "febf::1", true, "link-local" },
		{ "fec0::1", true, NULL },           { "fe40::1", true, NULL },
		{ "fc80::1", true, NULL },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct in6_addr gid;
		const char *advice;

		assert_int_equal(inet_pton(AF_INET6, cases[i].gid, &gid), 1);
		advice = host_gid_advice(gid.s6_addr, cases[i].version_2);
		assert_int_equal(!advice, !cases[i].words);
		assert_true(!advice || strstr(advice, cases[i].words));
	}
}

/* ---- All of it ---- */

TEST(no_text_is_longer_than_there_is_room_and_no_descriptor_is_left_open)
{
	char lengthy[3000];
	int before = count_descriptors();

	memset(lengthy, 'x', sizeof(lengthy));
	lengthy[sizeof(lengthy) - 1] = '\0';
	put_adapter("mlx5_0");
	put_device("mlx5_0", "fw_ver", lengthy);
	put_device("mlx5_0", "board_id", lengthy);
	put_device("mlx5_0", "device/local_cpulist", lengthy);
	put_device("mlx5_0", "ports/1/rate", lengthy);
	put_device("mlx5_0", "ports/1/gid_attrs/ndevs/0", lengthy);
	put_device("mlx5_0", "ports/1/gid_attrs/types/3", lengthy);
	expect(true, "xxx");
	assert_int_equal(count_descriptors(), before);
}

TEST(nothing_is_left)
{
	assert_nothing_is_left(folder);
}

RUN_TESTS(make_folder, empty_folder, NULL)
