// SPDX-License-Identifier: MIT
#include "host.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../sysfs.h"

/* Format of a port's folder in sysfs. Its arguments are the folder of the device, and the port. */
#define PORT "%s/ports/%u/"

struct host {
	const char *root;
	const struct host_view *view;
	struct findings *findings;
	char device[PATH_MAX]; /* folder of the current device */
	const char *name;      /* name of the current device */
	bool software;         /* the current device has no adapter */
	struct ibv_context *verbs;
	unsigned int port;
	bool counts;      /* the current port or adapter counts (host_examine()) */
	bool local;       /* a port that counts has a link-local GID */
	bool routable;    /* a port that counts has another GID, or is not of RoCE */
	bool limited;     /* the next finding shows a limit */
	bool any_limited; /* a finding has failed */
};

/* ---- Files and findings ---- */

/* Store the path of the device's folder in sysfs. */
static void find_folder(const struct host *host, const struct ibv_context *verbs,
			char folder[PATH_MAX])
{
	snprintf(folder, PATH_MAX, "%s/sys/class/infiniband/%s", host->root,
		 ibv_get_device_name(verbs->device));
}

/*
 * Read a file of the device's PCI function. With irdma and mana, "device" is an auxiliary device,
 * and its parent is the function.
 */
static struct sysfs_line read_pci(const struct host *host, const char *name)
{
	struct sysfs_line line = sysfs_read_line("%s/device/%s", host->device, name);

	return line.text[0] ? line : sysfs_read_line("%s/device/../%s", host->device, name);
}

/*
 * Report the finding, and reset `limited`. If the port or adapter does not count, the finding is
 * good, and has no advice.
 */
static void report_finding(struct host *host, const char *step)
{
	bool limited = host->limited && host->counts;

	if (!host->counts)
		host->findings->advice.length = 0;
	findings_report(host->findings, step, !limited);
	host->any_limited |= limited;
	host->limited = false;
}

/* ---- Rates, in Gbit/s ---- */

bool host_is_software(const char *device)
{
	/*
	 * A software device has no "device" in sysfs. Before Linux 5.11 Soft-RoCE had the "device"
	 * of its network interface, but only Soft-RoCE has a "parent".
	 */
	return !sysfs_read_line("%s/device/uevent", device).text[0] ||
	       sysfs_read_line("%s/parent", device).text[0];
}

const char *host_transport(const char *device, unsigned int port)
{
	struct sysfs_line type = sysfs_read_line("%s/node_type", device);
	struct sysfs_line layer = sysfs_read_line(PORT "link_layer", device, port);

	if (strtoul(type.text, NULL, 10) == IBV_NODE_RNIC)
		return "iwarp";
	if (!strcmp(layer.text, "InfiniBand"))
		return "infiniband";
	return strcmp(layer.text, "Ethernet") ? "" : "roce";
}

double host_port_rate(const char *device, unsigned int port)
{
	struct sysfs_line state = sysfs_read_line(PORT "state", device, port);

	if (!state.text[0])
		return -1;
	if (strtoul(state.text, NULL, 10) != IBV_PORT_ACTIVE)
		return 0;
	return strtod(sysfs_read_line(PORT "rate", device, port).text, NULL);
}

static double device_rate(const char *device)
{
	double sum = 0, rate;

	for (unsigned int port = 1; (rate = host_port_rate(device, port)) >= 0; port++)
		sum += rate;
	return sum;
}

/*
 * Store the path of the adapter: the folder of the device's PCI function, without the function's
 * number. Return false for a software device, and for a virtual function or subfunction: it shares
 * the ports of its adapter.
 */
static bool find_adapter(const char *device, char adapter[PATH_MAX])
{
	char path[PATH_MAX + 16], *name, *number;

	snprintf(path, sizeof(path), "%s/device/physfn", device);
	if (!access(path, F_OK) || host_is_software(device))
		return false;
	snprintf(path, sizeof(path), "%s/device", device);
	if (!realpath(path, adapter))
		return false;
	name = strrchr(adapter, '/');
	if (strstr(name, ".sf."))
		return false;
	if (!strchr(name, ':')) /* an auxiliary device has no ':' in its name: use its parent */
		*name = '\0';
	number = strrchr(adapter, '.');
	if (number > strrchr(adapter, '/'))
		*number = '\0';
	return true;
}

/*
 * Return the sum of the rates of the adapter's ports, which may belong to several devices. If
 * find_adapter() returns false, return the sum for this device's ports.
 */
static double adapter_rate(const struct host *host)
{
	char own[PATH_MAX], other[PATH_MAX], device[PATH_MAX];
	double sum = 0;

	if (!find_adapter(host->device, own))
		return device_rate(host->device);
	for (size_t i = 0; i < host->view->device_count; i++) {
		find_folder(host, host->view->devices[i], device);
		if (find_adapter(device, other) && !strcmp(other, own))
			sum += device_rate(device);
	}
	return sum;
}

/*
 * Return the data rate of a PCIe link. Up to 5 GT/s, 8 of 10 bits are data. Above, 128 of 130 bits
 * are. From 64 GT/s on, all are (PCI Express Base Specification 6.1, table 1-1).
 */
static double link_rate(double gigatransfers, double lanes)
{
	double share = gigatransfers < 8 ? 0.8 : gigatransfers < 64 ? 128.0 / 130 : 1;

	return gigatransfers * lanes * share;
}

/* ---- Adapters ---- */

/*
 * Describe the adapter's PCIe link. A link below its maximum is a limit only if it is slower than
 * the ports: a slot with fewer lanes may suffice. A virtual function reports no link.
 */
static void describe_link(struct host *host)
{
	double speed = strtod(read_pci(host, "current_link_speed").text, NULL);
	double lanes = strtod(read_pci(host, "current_link_width").text, NULL);
	double most_speed = strtod(read_pci(host, "max_link_speed").text, NULL);
	double most_lanes = strtod(read_pci(host, "max_link_width").text, NULL);
	double rate = link_rate(speed, lanes), ports;

	if (rate <= 0)
		return;
	strbuf_addf(&host->findings->found, ", PCIe %g GT/s x%g (%.0f Gbit/s), maximum %g GT/s x%g",
		    speed, lanes, rate, most_speed, most_lanes);
	if (rate >= link_rate(most_speed, most_lanes))
		return;
	ports = adapter_rate(host);
	host->limited = rate < ports;
	if (host->limited)
		strbuf_addf(&host->findings->advice,
			    "the adapter's PCIe link is below its maximum, too slow for the %g "
			    "Gbit/s of its ports: check the slot, the PCIe settings of the "
			    "firmware, and 'lspci -vv' (LnkSta)",
			    ports);
}

/* Take the next range of a list such as "0-3,8". Return false at its end. */
static bool next_range(const char **list, unsigned long *first, unsigned long *last)
{
	char *end;

	*first = *last = strtoul(*list, &end, 10);
	if (end == *list)
		return false;
	if (*end == '-')
		*last = strtoul(end + 1, &end, 10);
	*list = end + (*end == ',');
	return true;
}

static bool lists_overlap(const char *one, const char *other)
{
	unsigned long first, last, low, high;

	while (next_range(&one, &first, &last)) {
		for (const char *rest = other; next_range(&rest, &low, &high);) {
			if (first <= high && low <= last)
				return true;
		}
	}
	return false;
}

static void describe_node(struct host *host)
{
	struct sysfs_line node = read_pci(host, "numa_node");
	struct sysfs_line near = read_pci(host, "local_cpulist");
	struct sysfs_line status =
		sysfs_find_line("Cpus_allowed_list:", "%s/proc/self/status", host->root);
	const char *allowed = status.text + strcspn(status.text, "0123456789");

	if (node.text[0] < '0' || node.text[0] > '9') /* -1 means not known */
		return;
	strbuf_addf(&host->findings->found,
		    ", NUMA node %.9s (processors %.99s; this process may use %.99s)", node.text,
		    near.text, allowed);
	if (!near.text[0] || !*allowed || lists_overlap(near.text, allowed))
		return;
	host->limited = true;
	strbuf_addf(
		&host->findings->advice,
		"%sthis process is not allowed to run on the processors near the adapter: outside of "
		"containers run 'numactl --cpunodebind=%.9s --membind=%.9s rdma-client --check'; give a "
		"container these processors ('docker update --cpuset-cpus=%.99s CONTAINER')",
		host->findings->advice.length ? "; " : "", node.text, node.text, near.text);
}

static void examine_adapter(struct host *host)
{
	struct sysfs_line model = sysfs_read_line("%s/board_id", host->device);

	strbuf_addf(&host->findings->found, "%s: ", host->name);
	if (host->software) {
		strbuf_addf(&host->findings->found, "software device");
	} else {
		strbuf_addf(&host->findings->found, "firmware %.99s%s%.99s",
			    sysfs_read_line("%s/fw_ver", host->device).text,
			    model.text[0] ? " of " : "", model.text);
		describe_link(host);
		describe_node(host);
	}
	report_finding(host, "adapter");
}

/* ---- Ports ---- */

/* Describe the port's network interface in this namespace, and its bond. */
static void describe_interface(struct host *host)
{
	const struct host_address *address = host_find_address(host->view, host->verbs, host->port);
	struct sysfs_line bond, mtu;
	char folder[PATH_MAX];

	if (!address)
		return;
	snprintf(folder, sizeof(folder), "%s/sys/class/net/%s", host->root, address->interface);
	mtu = sysfs_read_line("%s/mtu", folder);
	strbuf_addf(&host->findings->found, ", %s%s%.9s", address->interface,
		    mtu.text[0] ? " with MTU " : "", mtu.text);
	bond = sysfs_read_line("%s/bonding/mode", folder);
	if (!bond.text[0])
		bond = sysfs_read_line("%s/master/bonding/mode", folder);
	if (bond.text[0]) /* the line has the name of the mode, then its number */
		strbuf_addf(&host->findings->found, ", bond %.*s", (int)strcspn(bond.text, " "),
			    bond.text);
}

/* Report a port. A low rate is no limit: an adapter may have ports of different speed. */
static void examine_port(struct host *host)
{
	struct sysfs_line state = sysfs_read_line(PORT "state", host->device, host->port);
	struct sysfs_line rate = sysfs_read_line(PORT "rate", host->device, host->port);

	strbuf_addf(&host->findings->found, "%s port %u: %.99s, %s%s%.99s", host->name, host->port,
		    sysfs_read_line(PORT "link_layer", host->device, host->port).text,
		    state.text + strcspn(state.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
		    host->software ? "" : ", ", host->software ? "" : rate.text);
	describe_interface(host);
	report_finding(host, "link");
}

/* ---- GIDs ---- */

/*
 * Return true for an IPv6 link-local address, fe80::/10 (RFC 4291, 2.5.6). IPv4's 169.254/16 does
 * not count: a pair of hosts uses it as any other subnet.
 */
static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

const char *host_gid_note(const uint8_t gid[16], bool version_2)
{
	if (!version_2)
		return "this GID is of RoCE v1, which routers do not forward";
	return is_link_local(gid) ? "routers do not forward packets of a link-local address" : NULL;
}

/*
 * Rank a GID for NCCL_IB_GID_INDEX: 4 is RoCE v2 with an IPv4 address, which NCCL prefers; 3 is v2
 * with another address that routers forward; 2 is v2 with a link-local address; 1 is v1.
 */
static int rank_gid(const struct in6_addr *gid, bool version_2)
{
	if (host_gid_note(gid->s6_addr, version_2))
		return version_2 ? 2 : 1;
	return IN6_IS_ADDR_V4MAPPED(gid) ? 4 : 3;
}

/*
 * Format of the path of the configfs file that has the RoCE version of connections. Its arguments
 * are the root, the device's name and the port.
 */
#define ROCE_MODE "%s/sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_mode"

/* Report the NCCL settings for the port. Over InfiniBand they name no GID, because any is right. */
static void report_setting(struct host *host, bool roce, unsigned int index, const char *note)
{
	/* the file exists once root has made the device's folder (ABI: configfs-rdma_cm) */
	struct sysfs_line mode = sysfs_read_line(ROCE_MODE, host->root, host->name, host->port);
	bool version_1 = !strcmp(mode.text, "IB/RoCE v1");

	strbuf_addf(&host->findings->found, "%s port %u: NCCL_IB_HCA==%s:%u", host->name,
		    host->port, host->name, host->port);
	if (roce)
		strbuf_addf(&host->findings->found, " NCCL_IB_GID_INDEX=%u%s%s", index,
			    note ? "; " : "", note ? note : "");
	host->limited = roce && version_1 && !note;
	if (host->limited)
		strbuf_addf(&host->findings->advice,
			    "connections use RoCE v1, which routers do not forward: select RoCE v2 "
			    "with 'echo RoCE v2 >" ROCE_MODE "'",
			    "", host->name, host->port);
	report_finding(host, "nccl");
}

/*
 * Return true if an entry of the port's GID table belongs to an address of this network namespace.
 * Compare the interface index, too: interfaces of two namespaces may have the same address and
 * name, and a VLAN may have the same link-local address as the interface below it.
 */
static bool is_own_gid(const struct host *host, unsigned int index)
{
	struct ibv_gid_entry entry;

	if (ibv_query_gid_ex(host->verbs, host->port, index, &entry, 0))
		return false;
	for (size_t i = 0; i < host->view->address_count; i++) {
		const struct host_address *address = &host->view->addresses[i];

		if (address->verbs == host->verbs && address->port == host->port &&
		    address->interface_index == entry.ndev_ifindex &&
		    !memcmp(&address->gid, &entry.gid, sizeof(entry.gid)))
			return true;
	}
	return false;
}

/*
 * Report the GIDs of a port, and the NCCL settings for the best one. Over RoCE, leave out the GIDs
 * of other network namespaces.
 */
static void examine_gids(struct host *host)
{
	const char *transport = host_transport(host->device, host->port);
	bool roce = !strcmp(transport, "roce");
	struct sysfs_line entry;
	unsigned int best = 0;
	struct in6_addr gid;
	const char *note = NULL;
	int most = 0;

	host->routable |= host->counts && !roce;
	if (!roce && strcmp(transport, "infiniband") != 0) /* only RoCE and InfiniBand use GIDs */
		return;
	for (unsigned int i = 0;; i++) {
		char text[INET6_ADDRSTRLEN];
		bool version_2;

		entry = sysfs_read_line(PORT "gids/%u", host->device, host->port, i);
		if (inet_pton(AF_INET6, entry.text, &gid) != 1)
			break;
		if (IN6_IS_ADDR_UNSPECIFIED(&gid) || (roce && !is_own_gid(host, i)))
			continue;
		entry = sysfs_read_line(PORT "gid_attrs/types/%u", host->device, host->port, i);
		version_2 = !strcmp(entry.text, "RoCE v2");
		strbuf_addf(&host->findings->found, "%s port %u: GID %u is %s, %.99s", host->name,
			    host->port, i, inet_ntop(AF_INET6, &gid, text, sizeof(text)),
			    entry.text);
		report_finding(host, "gid");
		host->local |= host->counts && is_link_local(gid.s6_addr);
		host->routable |= host->counts && !is_link_local(gid.s6_addr);
		if (rank_gid(&gid, version_2) <= most)
			continue;
		most = rank_gid(&gid, version_2);
		best = i;
		note = host_gid_note(gid.s6_addr, version_2);
	}
	if (most)
		report_setting(host, roce, best, note);
}

/* ---- All devices ---- */

bool host_port_lacks_gids(const char *device, unsigned int port)
{
	struct sysfs_line state = sysfs_read_line(PORT "state", device, port), gid;
	unsigned int index = 0;

	do /* the line is empty after the table's last entry */
		gid = sysfs_read_line(PORT "gids/%u", device, port, index++);
	while (gid.text[0] && !gid.text[strspn(gid.text, "0:")]);
	return strtoul(state.text, NULL, 10) == IBV_PORT_ACTIVE && !gid.text[0];
}

const struct host_address *host_find_address(const struct host_view *view,
					     const struct ibv_context *verbs, unsigned int port)
{
	for (size_t i = 0; i < view->address_count; i++) {
		if (view->addresses[i].verbs == verbs && view->addresses[i].port == port)
			return &view->addresses[i];
	}
	return NULL;
}

static bool port_counts(const struct host *host, unsigned int port)
{
	return !strcmp(host_transport(host->device, port), "infiniband") ||
	       host_find_address(host->view, host->verbs, port);
}

static void examine_device(struct host *host, struct ibv_context *verbs)
{
	double rate;

	host->verbs = verbs;
	host->name = ibv_get_device_name(verbs->device);
	find_folder(host, verbs, host->device);
	if (access(host->device, F_OK)) /* no sysfs */
		return;
	host->software = host_is_software(host->device);
	host->counts = false;
	for (unsigned int port = 1; host_port_rate(host->device, port) >= 0; port++)
		host->counts |= port_counts(host, port);
	examine_adapter(host);
	for (host->port = 1; (rate = host_port_rate(host->device, host->port)) >= 0; host->port++) {
		host->counts = port_counts(host, host->port);
		examine_port(host);
		if (rate > 0)
			examine_gids(host);
	}
}

/* Report a failure if this host can be reached only by link-local GIDs. */
static void require_routable_gid(struct host *host)
{
	if (!host->local || host->routable)
		return;
	strbuf_addf(&host->findings->found, "no port has a GID other than link-local ones");
	strbuf_addf(&host->findings->advice,
		    "give a network interface another address ('ip address add'), and use that "
		    "one: routers do not forward packets of a link-local address");
	host->counts = host->limited = true;
	report_finding(host, "gid");
}

bool host_examine(const char *root, const struct host_view *view, struct findings *findings)
{
	struct host host = { .root = root, .view = view, .findings = findings };

	for (size_t i = 0; i < view->device_count; i++)
		examine_device(&host, view->devices[i]);
	require_routable_gid(&host);
	return host.any_limited;
}
