// SPDX-License-Identifier: MIT
/* The findings about a host's devices, from a folder with files like those in sysfs and proc. */
#include "rdma-common/check/host.h"

#include <arpa/inet.h>

#include "rdma-common/check/congestion.h"

#include "unit.h"
#include "folder.h"

#define DEVICES "sys/class/infiniband/"

/* Findings of examine_host(), one per line: "step text", "-> advice", "!> advice" (a limit). */
static char found[16384];
static bool limited;

static void put_line(const char *path, const char *line)
{
	char text[256];

	snprintf(text, sizeof(text), "%s\n", line ? line : "");
	put(path, line ? text : NULL);
}

static void put_device(const char *device, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), DEVICES "%s/%s", device, name);
	put_line(path, text);
}

#define EMPTY     "0000:0000:0000:0000:0000:0000:0000:0000"
#define LOCAL     "fe80:0000:0000:0000:0ac0:ebff:fe12:3456"
#define ROUTED    "2001:0db8:0000:0000:0000:0000:0000:0001"
#define AUTOMATIC "0000:0000:0000:0000:0000:ffff:a9fe:0102" /* 169.254.1.2 */
#define IPV4      "0000:0000:0000:0000:0000:ffff:c000:0201"

#define ADAPTERS  8
#define ADDRESSES 4

/* The adapters that can be opened, each with the addresses that lead to its port 1. */
static struct ibv_device adapters[ADAPTERS];
static struct ibv_context contexts[ADAPTERS], *opened[ADAPTERS];
static struct host_address addresses[ADAPTERS * ADDRESSES];
static struct host_view view;

/* Return the index of a network interface, such as 2 for eth2, or 0 without a number. */
static unsigned int number_of(const char *interface)
{
	return (unsigned int)strtoul(interface + strcspn(interface, "0123456789"), NULL, 10);
}

/* Read an entry of the GID table from its files. Return ENODATA if there is none. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, UNUSED uint32_t flags, UNUSED size_t size)
{
	char path[256], text[256] = "", interface[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), DEVICES "%s/ports/%u/gids/%u", context->device->name, port,
		 index);
	file = fopen(path, "re");
	if (!file)
		return ENODATA;
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	snprintf(path, sizeof(path), DEVICES "%s/ports/%u/gid_attrs/ndevs/%u",
		 context->device->name, port, index);
	file = fopen(path, "re");
	if (file) {
		assert_non_null(fgets(interface, sizeof(interface), file));
		fclose(file);
	}
	*entry = (struct ibv_gid_entry){ .ndev_ifindex = number_of(interface) };
	return inet_pton(AF_INET6, text, &entry->gid) == 1 ? 0 : ENODATA;
}

/* Add an adapter that can be opened, with the addresses of a network interface. */
static void open_adapter(const char *name, const char *interface)
{
	static const char *const gids[ADDRESSES] = { "fe80::ac0:ebff:fe12:3456", "2001:db8::1",
						     "::ffff:169.254.1.2", "::ffff:192.0.2.1" };
	size_t number = view.device_count++;

	assert_true(number < ADAPTERS);
	snprintf(adapters[number].name, sizeof(adapters[number].name), "%s", name);
	contexts[number].device = &adapters[number];
	opened[number] = &contexts[number];
	for (size_t i = 0; i < ADDRESSES; i++) {
		struct host_address *one = &addresses[view.address_count++];

		*one = (struct host_address){ .verbs = &contexts[number],
					      .port = 1,
					      .interface_index = number_of(interface) };
		assert_int_equal(inet_pton(AF_INET6, gids[i], &one->gid), 1);
		snprintf(one->interface, sizeof(one->interface), "%s", interface);
	}
}

/* Begin with an empty folder and no adapters. */
static int begin(void **state)
{
	view = (struct host_view){ .devices = opened, .addresses = addresses };
	return empty_folder(state);
}

/* Add a healthy adapter of 100 Gbit/s on node 1 of a machine with two nodes. */
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
		{ "ports/1/gid_attrs/ndevs/1", "eth2" },
		{ "ports/1/gid_attrs/ndevs/2", "eth2" },
		{ "ports/1/gid_attrs/ndevs/3", "eth2" },
		{ "ports/1/gids/0", LOCAL },
		{ "ports/1/gids/1", LOCAL },
		{ "ports/1/gids/2", IPV4 },
		{ "ports/1/gids/3", IPV4 },
		{ "ports/1/gids/4", EMPTY },
		{ "ports/1/gid_attrs/types/0", "IB/RoCE v1" },
		{ "ports/1/gid_attrs/types/1", "RoCE v2" },
		{ "ports/1/gid_attrs/types/2", "IB/RoCE v1" },
		{ "ports/1/gid_attrs/types/3", "RoCE v2" },
		{ "ports/1/gid_attrs/types/4", "" },
	};

	EACH_ROW (i, files)
		put_device(device, files[i][0], files[i][1]);
	put_line("sys/class/net/eth2/mtu", "9000");
	put_line("proc/self/status",
		 "Name:\trdma-client\nCpus_allowed:\tff\nCpus_allowed_list:\t0-31");
	open_adapter(device, "eth2");
}

static void add_line(const char *begin, struct json_object *finding, const char *key)
{
	size_t length = strlen(found);
	const char *text = json_object_get_string(json_object_object_get(finding, key));

	snprintf(found + length, sizeof(found) - length, "%s %s\n", begin, text);
}

static void add_lines(const char *step, struct json_object *all)
{
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *finding = json_object_array_get_idx(all, i), *advice;
		struct json_object *status = json_object_object_get(finding, "status");
		bool good = !strcmp(json_object_get_string(status), "ok");

		add_line(step, finding, "text");
		json_object_object_get_ex(finding, "advice", &advice);
		assert_true(good || advice);
		if (advice)
			add_line(good ? "->" : "!>", finding, "advice");
	}
}

/* Examine the host below `root`. Set `found` and `limited`. */
static void examine_host(const char *root)
{
	struct json_object_iterator at, end;
	struct findings findings;

	found[0] = '\0';
	findings_init(&findings, NULL, true);
	limited = host_examine(root, &view, &findings);
	assert_int_equal(limited, findings.first_failure.length > 0);
	at = json_object_iter_begin(findings.all);
	end = json_object_iter_end(findings.all);
	for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
		struct json_object *all = json_object_iter_peek_value(&at);

		if (json_object_is_type(all, json_type_array))
			add_lines(json_object_iter_peek_name(&at), all);
	}
	json_object_put(findings.all);
}

/* Check that the host is limited as expected, and that the findings contain these words. */
static void expect(bool expected, const char *words)
{
	examine_host(folder);
	if (!strstr(found, words) || limited != expected)
		fail_msg("limited %d, or without '%s': %s", limited, words, found);
}

/*
 * Apply changes, separated by '|':
 *
 *   +name       add an adapter, to which the later changes apply
 *   path=text   write a file of the adapter
 *   -path       remove a file of the adapter
 *   /path=text  write the file /path of the host
 *   @=name      move the adapter's addresses to another network interface
 *   @           move the adapter's addresses to another network namespace
 *   !           the adapter cannot be opened
 */
static void change(const char *changes)
{
	char texts[1024], device[16] = "mlx5_0", *rest = texts, *change;

	snprintf(texts, sizeof(texts), "%s", changes);
	while ((change = strsep(&rest, "|"))) {
		char *text = strchr(change, '=');

		if (text)
			*text++ = '\0';
		if (*change == '/') {
			put_line(change + 1, text);
		} else if (*change == '+') {
			snprintf(device, sizeof(device), "%s", change + 1);
			put_adapter(device);
		} else if (*change == '!') {
			view.device_count--;
		} else if (*change == '@') {
			view.device_count--;
			view.address_count -= ADDRESSES;
			open_adapter(device, text ? text : "");
			view.address_count -= text ? 0 : ADDRESSES;
		} else if (*change) {
			put_device(device, change + (*change == '-'), text);
		}
	}
}

/* A host with one healthy adapter and some changes, and the expected findings, as in expect(). */
struct example {
	const char *changes;
	bool limited;
	const char *found;
	const char *not_found; /* words that must be missing, or NULL */
};

#define EXAMINE(examples) examine(examples, ENTRIES(examples))

static void examine(const struct example *examples, size_t count)
{
	for (const struct example *example = examples; example < examples + count; example++) {
		begin(NULL);
		put_adapter("mlx5_0");
		change(example->changes);
		expect(example->limited, example->found);
		if (example->not_found && strstr(found, example->not_found))
			fail_msg("'%s' is in %s", example->not_found, found);
	}
}

/* ---- Adapters ---- */

TEST(host_without_devices_has_no_finding)
{
	expect(false, "");
	assert_string_equal(found, "");
	make_folders(DEVICES);
	expect(false, "");
	assert_string_equal(found, "");
	examine_host("/no/such/folder");
	assert_string_equal(found, "");
}

TEST(healthy_adapter_has_no_advice)
{
	put_adapter("mlx5_0");
	expect(false, "");
	assert_string_equal(
		found,
		"adapter mlx5_0: firmware 22.39.1002 of MT_0000000359, PCIe 16 GT/s x16 (252 "
		"Gbit/s), maximum 16 GT/s x16, NUMA node 1 (processors 8-15,24-31; this process may use 0-31)\n"
		"link mlx5_0 port 1: Ethernet, ACTIVE, 100 Gb/sec (4X EDR), eth2 with MTU 9000\n"
		"gid mlx5_0 port 1: GID 0 is fe80::ac0:ebff:fe12:3456, IB/RoCE v1\n"
		"gid mlx5_0 port 1: GID 1 is fe80::ac0:ebff:fe12:3456, RoCE v2\n"
		"gid mlx5_0 port 1: GID 2 is ::ffff:192.0.2.1, IB/RoCE v1\n"
		"gid mlx5_0 port 1: GID 3 is ::ffff:192.0.2.1, RoCE v2\n"
		"nccl mlx5_0 port 1: NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=3\n");
}

/* clang-format off */
#define PCIE(speed, lanes) "device/current_link_speed=" speed "|device/current_link_width=" lanes
#define BUILT(speed, lanes) "|device/max_link_speed=" speed "|device/max_link_width=" lanes

/* The link is compared with the total rate of the active ports. */
TEST(pcie_link_below_its_maximum_has_advice_only_if_it_is_too_slow)
{
	static const struct example examples[] = {
		{ PCIE("8.0 GT/s PCIe", "16"), false, "8 GT/s x16 (126 Gbit/s), maximum 16 GT/s x16", NULL },
		{ PCIE("8.0 GT/s PCIe", "16"), false, "", "->" },
		{ PCIE("16.0 GT/s PCIe", "4"), true, "16 GT/s x4 (63 Gbit/s), maximum 16 GT/s x16", NULL },
		{ PCIE("8 GT/s", "8") BUILT("8 GT/s", "16"), true, "\n!> the adapter's PCIe link is below its maximum, too slow for the 100 Gbit/s", NULL },
		{ PCIE("5.0 GT/s PCIe", "16"), true, "(64 Gbit/s)", NULL },
		{ PCIE("32.0 GT/s PCIe", "16"), false, "(504 Gbit/s)", NULL },
		{ PCIE("64.0 GT/s PCIe", "16"), false, "(1024 Gbit/s)", NULL },
		/* a link at the adapter's maximum needs no change */
		{ PCIE("8.0 GT/s PCIe", "8") BUILT("8.0 GT/s PCIe", "8"), false, "(63 Gbit/s), maximum 8 GT/s x8, NUMA", NULL },
		/* a virtual function reports no link */
		{ PCIE("Unknown", "0") BUILT("Unknown", "0"), false, "of MT_0000000359, NUMA", NULL },
		/* two ports: only active ones count */
		{ PCIE("8.0 GT/s PCIe", "16") "|ports/2/state=1: DOWN|ports/2/rate=100 Gb/sec (4X EDR)", false, "", "->" },
		{ PCIE("8.0 GT/s PCIe", "16") "|ports/2/state=4: ACTIVE|ports/2/rate=100 Gb/sec (4X EDR)", true, "too slow for the 200 Gbit/s", NULL },
		{ PCIE("8.0 GT/s PCIe", "16") "|ports/2/state=4: ACTIVE|ports/2/rate=100 Gb/sec (4X EDR)|ports/1/state=1: DOWN", false,
		  "", "->" },
		{ PCIE("8.0 GT/s PCIe", "16") "|ports/1/state=1: DOWN", false, "", "->" },
		/*
		 * A software device has no PCIe link and no rate. Before Linux 5.11 Soft-RoCE shows
		 * those of the adapter below it: the file 'parent' distinguishes it.
		 */
		{ "-device/uevent|-board_id", false, "adapter mlx5_0: software device\nlink mlx5_0 port 1: Ethernet, ACTIVE, eth2 with MTU 9000\n", NULL },
		{ "parent=eth2|-board_id", false, "adapter mlx5_0: software device\n", NULL },
	};

	EXAMINE(examples);
}
/* clang-format on */

/* Add an adapter whose 'device' in sysfs is a link to a PCI function. */
static void put_function(const char *device, const char *function)
{
	char path[256], link[256], target[256];

	put_adapter(device);
	snprintf(link, sizeof(link), DEVICES "%s/device", device);
	snprintf(path, sizeof(path), "pci/%s", function);
	snprintf(target, sizeof(target), "../../../../pci/%s", function);
	make_folders("pci/");
	assert_int_equal(rename(link, path), 0);
	assert_int_equal(symlink(target, link), 0);
	put_device(device, "device/current_link_speed", "8.0 GT/s PCIe");
}

/*
 * Two functions of one adapter share a link. A virtual function, a subfunction and a software
 * device have no port of their own.
 */
TEST(pcie_link_is_compared_with_the_ports_of_all_functions)
{
	put_function("mlx5_0", "0000:3b:00.0");
	put_function("mlx5_1", "0000:3b:00.1");
	expect(true, "too slow for the 200 Gbit/s");
	put_line("pci/0000:3b:00.1/physfn/uevent", "DRIVER=mlx5_core");
	expect(false, "");
	put_function("mlx5_2", "0000:3c:00.0");
	make_folders("pci/0000:3b:00.0/");
	put_function("mlx5_3", "0000:3b:00.0/mlx5_core.sf.2");
	put_function("rxe0", "0000:3b:00.3");
	put_device("rxe0", "parent", "eth2");
	expect(false, "");
	assert_null(strstr(found, "->"));
}

/* The parent of an auxiliary device (irdma has one) is the PCI function. */
TEST(auxiliary_device_uses_the_pci_function_of_its_parent)
{
	put_adapter("irdma0");
	make_folders("pci/irdma.roce.0/");
	put_line("pci/irdma.roce.0/uevent", "DRIVER=irdma");
	put_line("pci/current_link_speed", "8.0 GT/s PCIe");
	put_line("pci/current_link_width", "8");
	put_line("pci/max_link_speed", "8.0 GT/s PCIe");
	put_line("pci/max_link_width", "8");
	assert_int_equal(nftw(DEVICES "irdma0/device", remove_entry, 8, FTW_DEPTH), 0);
	assert_int_equal(rmdir(DEVICES "irdma0/device"), 0);
	assert_int_equal(symlink("../../../../pci/irdma.roce.0", DEVICES "irdma0/device"), 0);
	expect(false, "PCIe 8 GT/s x8 (63 Gbit/s), maximum 8 GT/s x8\n");
}

/* clang-format off */
#define MAY_USE(processors) "/proc/self/status=Cpus_allowed_list:\t" processors "\nMems_allowed:\t1"
#define NEAR(processors) "|device/local_cpulist=" processors
#define SAID(near, may_use) "node 1 (processors " near "; this process may use " may_use ")"
#define FAR \
	"\n!> this process is not allowed to run on the processors near the adapter: outside of containers " \
	"run 'numactl --cpunodebind=1 --membind=1 rdma-client --check'; give a container these processors " \
	"('docker update --cpuset-cpus=8-15,24-31 CONTAINER')"

TEST(process_far_from_the_adapter_is_reported)
{
	static const struct example examples[] = {
		{ MAY_USE("0-7"), true, SAID("8-15,24-31", "0-7") FAR, NULL },
		{ MAY_USE("0-7,16-23"), true, SAID("8-15,24-31", "0-7,16-23") FAR, NULL },
		{ MAY_USE("0-8"), false, SAID("8-15,24-31", "0-8"), "not allowed to run" },
		{ MAY_USE("16-24"), false, SAID("8-15,24-31", "16-24"), "not allowed to run" },
		{ MAY_USE("31"), false, SAID("8-15,24-31", "31"), "not allowed to run" },
		{ MAY_USE("32"), true, SAID("8-15,24-31", "32") FAR, NULL },
		{ MAY_USE("9") NEAR("0-31"), false, SAID("0-31", "9"), "not allowed to run" },
		{ MAY_USE("7") NEAR(""), false, SAID("", "7"), "not allowed to run" },
		/* the node, or the processors that the process may use, are not known */
		{ "device/numa_node=-1" NEAR("40"), false, "(252 Gbit/s), maximum 16 GT/s x16\n", NULL },
		{ "device/numa_node=0|/proc/self/status=Name:\trdma-client\nThreads:\t1" NEAR("40"), false, "may use )\n", NULL },
		/* two limits are reported together */
		{ "device/current_link_width=4" NEAR("40"), true, "(LnkSta); this process is not allowed to run on the processors near", NULL },
	};

	EXAMINE(examples);
}

/* ---- Ports ---- */

/* A card may have ports of different speed, or an Ethernet and an InfiniBand port. */
TEST(ports_are_described_with_state_rate_interface_and_bond)
{
	static const struct example examples[] = {
		{ "+mlx5_1|ports/1/rate=25 Gb/sec (1X EDR)", false,
		  "link mlx5_1 port 1: Ethernet, ACTIVE, 25 Gb/sec (1X EDR), eth2 with MTU 9000\n", "->" },
		/* a port that is down has no findings about GIDs and NCCL */
		{ "+mlx5_1|ports/1/state=1: DOWN|ports/1/rate=10 Gb/sec (4X SDR)", false,
		  "link mlx5_1 port 1: Ethernet, DOWN, 10 Gb/sec (4X SDR)", "mlx5_1 port 1: GID" },
		{ "+mlx5_1|ports/1/state=1: DOWN", false, "link mlx5_1 port 1: Ethernet, DOWN", "HCA==mlx5_1" },
		/* a bond: the interface is a member, or the bond itself */
		{ "/sys/class/net/eth2/master/bonding/mode=802.3ad 4", false, "eth2 with MTU 9000, bond 802.3ad\n", NULL },
		{ "/sys/class/net/bond0/bonding/mode=active-backup 1|/sys/class/net/bond0/mtu=4200|@=bond0", false,
		  "bond0 with MTU 4200, bond active-backup\n", NULL },
	};

	EXAMINE(examples);
}

/* ---- In a container, which sees the devices of all network namespaces ---- */

#define SLOW_PCIE "|device/current_link_width=1"
#define SLOW_PORT "+mlx5_1|ports/1/rate=25 Gb/sec (1X EDR)"

TEST(only_devices_that_can_be_opened_are_examined)
{
	static const struct example examples[] = {
		{ "+mlx5_1|!" SLOW_PCIE "|device/local_cpulist=40", false, "HCA==mlx5_0:1", "mlx5_1" },
		{ SLOW_PORT "|!", false, "link mlx5_0 port 1: ", "mlx5_1" },
		{ "!", false, "", "mlx5_0" },
	};

	EXAMINE(examples);
}

TEST(ethernet_port_without_an_address_in_this_namespace_has_neither_gids_nor_advice)
{
	static const struct example examples[] = {
		{ "+mlx5_1" SLOW_PCIE "|@", false, "adapter mlx5_1: firmware 22.39.1002 of MT_0000000359, PCIe 16 GT/s x1 (", "->" },
		{ "+mlx5_1|device/local_cpulist=40|@", false, "link mlx5_1 port 1: Ethernet, ACTIVE, 100 Gb/sec (4X EDR)\n", "HCA==mlx5_1" },
		{ SLOW_PORT "|@", false, "link mlx5_1 port 1: Ethernet, ACTIVE, 25 Gb/sec (1X EDR)\n", "mlx5_1 port 1: GID" },
		/*
		 * an address of one port does not lead to the other port, but both share the
		 * adapter's PCIe link
		 */
		{ "ports/2/state=4: ACTIVE|ports/2/link_layer=Ethernet|ports/2/rate=25 Gb/sec (1X EDR)|+mlx5_1|ports/2/state=4: ACTIVE|"
		  "ports/2/rate=100 Gb/sec (4X EDR)", false, "link mlx5_0 port 2: Ethernet, ACTIVE, 25 Gb/sec (1X EDR)\n", "mlx5_0 port 2: GID" },
		{ "ports/2/state=1: DOWN" SLOW_PCIE, true, "too slow for the 100 Gbit/s", NULL },
		/* over InfiniBand NCCL needs no address */
		{ "ports/1/link_layer=InfiniBand|@" SLOW_PCIE, true, "NCCL_IB_HCA==mlx5_0:1\n", "eth2" },
	};

	EXAMINE(examples);
}

TEST(interface_is_named_even_if_its_mtu_is_unreadable)
{
	static const struct example examples[] = {
		{ "@=eth7", false, "100 Gb/sec (4X EDR), eth7\n", "MTU" },
	};

	EXAMINE(examples);
}

/* ---- GIDs ---- */

#define GID(index, gid, type) "|ports/1/gids/" index "=" gid "|ports/1/gid_attrs/types/" index "=" type
#define NO_GID(index) GID(index, EMPTY, "")

/* Over InfiniBand any GID works; iWARP connections use none. */
TEST(routable_gid_of_roce_v2_is_preferred_and_its_absence_is_noted)
{
	static const struct example examples[] = {
		{ GID("0", ROUTED, "RoCE v2") GID("1", IPV4, "RoCE v2") GID("2", IPV4, "IB/RoCE v1") NO_GID("3"), false, "NCCL_IB_GID_INDEX=1\n", NULL },
		{ GID("0", LOCAL, "RoCE v2") NO_GID("1") GID("2", ROUTED, "RoCE v2") NO_GID("3"), false, "NCCL_IB_GID_INDEX=2\n", NULL },
		{ GID("0", IPV4, "IB/RoCE v1") GID("1", LOCAL, "IB/RoCE v1") GID("2", LOCAL, "RoCE v2") NO_GID("3"), false,
		  "NCCL_IB_GID_INDEX=2; routers do not forward packets of a link-local address\n", "->" },
		/* ConnectX-3 has nothing but RoCE v1 */
		{ GID("0", IPV4, "IB/RoCE v1") GID("1", ROUTED, "IB/RoCE v1") NO_GID("2") NO_GID("3"), false,
		  "NCCL_IB_GID_INDEX=0; this GID is of RoCE v1, which routers do not forward\n", "->" },
		{ GID("0", AUTOMATIC, "RoCE v2") NO_GID("1") GID("2", ROUTED, "RoCE v2") NO_GID("3"), false, "NCCL_IB_GID_INDEX=0\n", NULL },
		{ GID("0", AUTOMATIC, "RoCE v2") NO_GID("1") NO_GID("2") NO_GID("3"), false, "NCCL_IB_GID_INDEX=0\n", "->" },
		/* only link-local GIDs, at every usable port */
		{ NO_GID("2") NO_GID("3"), true, "\ngid no port has a GID other than link-local ones\n!> give a network interface another address", NULL },
		{ NO_GID("2") NO_GID("3") "|+mlx5_1", false, "HCA==mlx5_0:1 NCCL_IB_GID_INDEX=1; routers do not forward packets of a link-local address\n", "->" },
		{ NO_GID("2") NO_GID("3") "|+siw0|node_type=4: RNIC", false, "HCA==mlx5_0:1 NCCL_IB_GID_INDEX=1", "->" },
		{ NO_GID("2") NO_GID("3") "|+mlx5_1|@", true, "HCA==mlx5_0:1 NCCL_IB_GID_INDEX=1", NULL },
		/* root has chosen the RoCE version of rdma_cm */
		{ "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode=RoCE v2", false, "GID_INDEX=3\n", NULL },
		{ "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode=IB/RoCE v1", true,
		  "GID_INDEX=3\n!> connections use RoCE v1, which routers do not forward: select RoCE v2 with 'echo RoCE v2 >/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode'\n", NULL },
		/*
		 * GIDs of another network namespace: recognized by the address, or by the network
		 * interface
		 */
		{ GID("4", "2001:0db8:0000:0000:0000:0000:0000:0002", "RoCE v2"), false, "NCCL_IB_GID_INDEX=3\n", "GID 4" },
		{ "ports/1/gid_attrs/ndevs/3=eth0", false, "NCCL_IB_GID_INDEX=1; ", "GID 3" },
		{ "@", false, "100 Gb/sec (4X EDR)\n", "nccl" },
		/* the GIDs of EFA belong to another kind of network */
		{ "ports/1/link_layer=Unknown", false, "link mlx5_0 port 1: Unknown, ACTIVE", "GID" },
		{ NO_GID("0") NO_GID("1") NO_GID("2") NO_GID("3"), false, "with MTU 9000\n", "nccl" },
		{ "ports/1/link_layer=InfiniBand" NO_GID("1") NO_GID("2") NO_GID("3"), false, "nccl mlx5_0 port 1: NCCL_IB_HCA==mlx5_0:1\n", NULL },
		{ "+siw0|node_type=4: RNIC", false, "link siw0 port 1: ", "siw0 port 1: GID" },
		{ "+siw0|node_type=4: RNIC", false, "link siw0 port 1: ", "HCA==siw0" },
	};

	EXAMINE(examples);
}
/* clang-format on */

TEST(gid_that_cannot_be_routed_has_a_note)
{
	static const struct {
		const char *gid;
		bool version_2;
		const char *words; /* NULL: no note */
	} cases[] = {
		/* clang-format off */
		{ "::ffff:192.0.2.1", true, NULL }, { "2001:db8::1", true, NULL },
		{ "fec0::1", true, NULL }, { "fe40::1", true, NULL }, { "fc80::1", true, NULL },
		{ "fe80::1", true, "link-local" }, { "febf::1", true, "link-local" },
		{ "::ffff:169.254.255.1", true, NULL },
		{ "fe80::1", false, "RoCE v1" }, { "2001:db8::1", false, "RoCE v1" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct in6_addr gid;
		const char *note;

		assert_int_equal(inet_pton(AF_INET6, cases[i].gid, &gid), 1);
		note = host_gid_note(gid.s6_addr, cases[i].version_2);
		assert_int_equal(!note, !cases[i].words);
		assert_true(!note || strstr(note, cases[i].words));
	}
}

/* ---- Congestion ---- */

/* A VLAN above a bond has no settings of PFC, and its members have. */
TEST(settings_of_pfc_are_those_of_the_lowest_interface)
{
	char name[IF_NAMESIZE] = "bond0.7";

	make_folders("sys/class/net/bond0.7/lower_bond0/");
	make_folders("sys/class/net/bond0/lower_eth2/");
	make_folders("sys/class/net/bond0/lower_eth3/");
	make_folders("sys/class/net/eth2/upper_bond0/");
	assert_true(congestion_find_lower(folder, name));
	assert_string_equal(name, "eth2");
	assert_false(congestion_find_lower(folder, name));
	assert_string_equal(name, "eth2");
}

/* An active port of RoCE in switchdev mode has no GIDs. */
TEST(active_port_without_gids_is_recognized)
{
	put_adapter("mlx5_0");
	assert_false(host_port_lacks_gids(DEVICES "mlx5_0", 1));
	for (unsigned int i = 0; i < 4; i++) {
		assert_false(host_port_lacks_gids(DEVICES "mlx5_0", 1));
		change(i == 0   ? "ports/1/gids/0=" EMPTY
		       : i == 1 ? "ports/1/gids/1=" EMPTY
		       : i == 2 ? "ports/1/gids/2=" EMPTY
				: "ports/1/gids/3=" EMPTY);
	}
	assert_true(host_port_lacks_gids(DEVICES "mlx5_0", 1));
	change("-ports/1/gids/0"); /* a table of length 0 */
	assert_true(host_port_lacks_gids(DEVICES "mlx5_0", 1));
	change("ports/1/state=1: DOWN");
	assert_false(host_port_lacks_gids(DEVICES "mlx5_0", 1));
	assert_false(host_port_lacks_gids(DEVICES "mlx5_0", 2));
}

/* ---- Long texts ---- */

TEST(long_texts_in_sysfs_are_shown_and_no_descriptor_stays_open)
{
	char lengthy[3000];
	int before = count_descriptors();
	static const char *const files[] = { "fw_ver", "board_id", "device/local_cpulist",
					     "ports/1/rate", "ports/1/gid_attrs/types/3" };

	memset(lengthy, 'x', sizeof(lengthy));
	lengthy[sizeof(lengthy) - 1] = '\0';
	put_adapter("mlx5_0");
	EACH_ROW (i, files)
		put_device("mlx5_0", files[i], lengthy);
	expect(true, "xxx");
	assert_int_equal(count_descriptors(), before);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, begin)
