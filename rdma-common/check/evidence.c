// SPDX-License-Identifier: MIT
#include "evidence.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/errqueue.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../cgroup.h"
#include "../negotiate.h"
#include "../netlink.h"
#include "../sysfs.h"

#define ROCE_PORT 4791
/* An unused UDP port. */
#define UNUSED_UDP_PORT 47891
/* A UDP datagram may be lost: number of tries, and time to wait for the answer to each. */
#define UDP_TRIES        2
#define UDP_MILLISECONDS 400
/*
 * Length of a datagram. Over IPv6 a datagram shorter than the base transport header, 12 bytes,
 * makes a receiving kernel with Soft-RoCE panic (rxe_rcv() of Linux 6.1 uses pkt->qp before it is
 * set). A longer datagram of zeros is for queue pair 0, and is dropped.
 */
#define DATAGRAM_SIZE 64
/* State of an identifier that listens (enum rdma_cm_state in the kernel's cma_priv.h). */
#define STATE_LISTEN 8

/* Source address failed the policy (RFC 4443, 3.1). */
#define ICMP6_POLICY_FAIL 5

#define DEVICES "/sys/class/infiniband/"

/* ---- Facts ---- */

const char *evidence_name(enum fact fact)
{
	static const char *const names[] = {
#define NAME(name) #name,
		FACTS(NAME)
#undef NAME
	};

	return names[fact];
}

const char *evidence_get(const struct evidence *evidence, enum fact fact)
{
	return evidence->facts[fact];
}

void evidence_set(struct evidence *evidence, enum fact fact, const char *format, ...)
{
	char *text = evidence->facts[fact];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(evidence->facts[fact]), format, arguments);
	va_end(arguments);
	for (size_t size = strlen(text); size > 0 && text[size - 1] == ' '; size--)
		text[size - 1] = '\0'; /* a blank ends each line of rdma.max */
}

void evidence_set_error(struct evidence *evidence, enum fact fact, int error)
{
	if (error)
		evidence_set(evidence, fact, "%s", strerrorname_np(error));
}

static bool is_known(const struct evidence *evidence, enum fact fact)
{
	return evidence_get(evidence, fact)[0];
}

/* ---- Addresses ---- */

/* Set a fact to an address of 4 or 16 bytes. */
static void set_address(struct evidence *evidence, enum fact fact, struct span raw)
{
	char text[INET6_ADDRSTRLEN];

	if ((raw.size == 4 || raw.size == 16) &&
	    inet_ntop(raw.size == 4 ? AF_INET : AF_INET6, raw.bytes, text, sizeof(text)))
		evidence_set(evidence, fact, "%s", text);
}

/* ---- Network interfaces, routes and neighbours ---- */

/* Set the facts about a network interface: its kind, such as "vlan" or "ipip", or a VRF. */
static void examine_link(void *evidence, struct netlink_message message)
{
	struct span link_info = netlink_find(message.attributes, IFLA_LINKINFO);
	struct span info = netlink_find(link_info, IFLA_INFO_KIND);
	const struct ifinfomsg *link = message.body;
	char name[IF_NAMESIZE], kind[IF_NAMESIZE] = "plain";

	if (!if_indextoname((unsigned int)link->ifi_index, name))
		return;
	if (info.size > 0)
		snprintf(kind, sizeof(kind), "%.*s", (int)info.size, (const char *)info.bytes);
	if (!strcmp(kind, "vrf"))
		evidence_set(evidence, FACT_vrf, "%s", name);
	if (!strcmp(name, evidence_get(evidence, FACT_gid_interface)))
		evidence_set(evidence, FACT_gid_kind, "%s", kind);
	if (strcmp(name, evidence_get(evidence, FACT_route_interface)) != 0)
		return;
	/* rdma_cm resolves addresses by ARP or by IPoIB */
	evidence_set(evidence, FACT_route_kind, "%s",
		     link->ifi_type == ARPHRD_ETHER        ? "ethernet"
		     : link->ifi_type == ARPHRD_INFINIBAND ? "infiniband"
		     : link->ifi_type == ARPHRD_LOOPBACK   ? "loopback"
							   : kind);
}

/* Find the kinds of the interfaces of the route and of the GID, and a VRF. */
static void describe_links(struct evidence *evidence)
{
	const struct ifinfomsg all = { 0 };
	struct netlink_request request =
		netlink_make_request(RTM_GETLINK, NLM_F_DUMP, &all, sizeof(all));

	netlink_ask(NETLINK_ROUTE, &request, RTM_NEWLINK, examine_link, evidence);
}

/* Set the facts of a route that the kernel has found. */
static void examine_route(void *evidence, struct netlink_message message)
{
	struct span gateway = netlink_find(message.attributes, RTA_GATEWAY);
	const struct rtmsg *route = message.body;
	char name[IF_NAMESIZE];
	uint32_t index;

	evidence_set(evidence, FACT_route, "found");
	evidence_set(evidence, FACT_own_address, route->rtm_type == RTN_LOCAL ? "yes" : "no");
	if (!is_known(evidence, FACT_source))
		set_address(evidence, FACT_source, netlink_find(message.attributes, RTA_PREFSRC));
	set_address(evidence, FACT_next_hop,
		    gateway.size ? gateway : netlink_find(message.attributes, RTA_DST));
	if (netlink_copy(netlink_find(message.attributes, RTA_OIF), &index, sizeof(index)) &&
	    if_indextoname(index, name))
		evidence_set(evidence, FACT_route_interface, "%s", name);
}

/* Ask the kernel for the route to `address`. */
static void find_route(struct evidence *evidence, const struct sockaddr *address,
		       const struct sockaddr *source)
{
	const struct rtmsg body = { .rtm_family = (uint8_t)address->sa_family };
	struct netlink_request request = netlink_make_request(RTM_GETROUTE, 0, &body, sizeof(body));

	netlink_add_address(&request, RTA_DST, address);
	if (source)
		netlink_add_address(&request, RTA_SRC, source);
	evidence_set_error(
		evidence, FACT_route,
		netlink_ask(NETLINK_ROUTE, &request, RTM_NEWROUTE, examine_route, evidence));
}

/* Set the fact about a hardware address. IPoIB and tunnels have other entries. */
static void examine_neighbour(void *evidence, struct netlink_message message)
{
	const struct ndmsg *neighbour = message.body;

	if (neighbour->ndm_state & (NUD_FAILED | NUD_INCOMPLETE))
		evidence_set(evidence, FACT_neighbour, "failed");
	else if (neighbour->ndm_state != NUD_NONE && neighbour->ndm_state != NUD_NOARP)
		evidence_set(evidence, FACT_neighbour, "resolved");
}

/* Find out if the hardware address of the next hop is known. */
static void find_neighbour(struct evidence *evidence)
{
	const char *hop = evidence_get(evidence, FACT_next_hop);
	const char *interface = evidence_get(evidence, FACT_route_interface);
	struct ndmsg body = { .ndm_family = strchr(hop, ':') ? AF_INET6 : AF_INET,
			      .ndm_ifindex = (int)if_nametoindex(interface) };
	struct netlink_request request;
	uint8_t raw[16];

	if (!body.ndm_ifindex || inet_pton(body.ndm_family, hop, raw) != 1)
		return;
	request = netlink_make_request(RTM_GETNEIGH, 0, &body, sizeof(body));
	netlink_add_attribute(&request, NDA_DST, raw, body.ndm_family == AF_INET ? 4 : 16);
	netlink_ask(NETLINK_ROUTE, &request, RTM_NEWNEIGH, examine_neighbour, evidence);
}

/* ---- RDMA devices ---- */

/* Return the entry of `view` for the source, whose scope ID may be missing; NULL: none. */
static const struct host_address *find_source(const struct evidence *evidence,
					      const struct host_view *view)
{
	const char *source = evidence_get(evidence, FACT_source);
	size_t size = strlen(source);

	for (size_t i = 0; view && size > 0 && i < view->address_count; i++) {
		const char *address = view->addresses[i].address;

		if (!strncmp(address, source, size) && (!address[size] || address[size] == '%'))
			return &view->addresses[i];
	}
	return NULL;
}

/* Set the facts about the device: transport, software or not, network interface. */
static void describe_device(struct evidence *evidence)
{
	char device[PATH_MAX];
	struct sysfs_line layer, node;

	snprintf(device, sizeof(device), DEVICES "%s", evidence_get(evidence, FACT_device));
	layer = sysfs_read_line("%s/ports/1/link_layer", device);
	node = sysfs_read_line("%s/node_type", device);
	if (is_known(evidence, FACT_transport))
		; /* from the connection manager */
	else if (strstr(node.text, "RNIC"))
		evidence_set(evidence, FACT_transport, "iwarp");
	else if (layer.text[0])
		evidence_set(evidence, FACT_transport, "%s",
			     strcmp(layer.text, "Ethernet") ? "infiniband" : "roce");
	evidence_set(evidence, FACT_software, host_is_software(device) ? "yes" : "no");
	evidence_set(evidence, FACT_device_interface, "%s",
		     sysfs_read_line("%s/parent", device).text);
}

/* Find the device that has the source address, and the network interface of that device. */
static void find_devices(struct evidence *evidence, const struct host_view *view)
{
	const struct host_address *own = find_source(evidence, view);
	glob_t all;

	if (access("/sys/class/net", F_OK)) /* no sysfs */
		return;
	evidence_set(evidence, FACT_kernel_device, "none");
	if (glob(DEVICES "*", 0, NULL, &all) == 0) {
		const char *first = all.gl_pathv[0] + strlen(DEVICES);

		evidence_set(evidence, FACT_kernel_device, "%s", first);
		if (own) {
			evidence_set(evidence, FACT_device, "%s",
				     ibv_get_device_name(own->verbs->device));
			evidence_set(evidence, FACT_gid_interface, "%s", own->interface);
		} else if (is_known(evidence, FACT_source) && view &&
			   view->device_count == all.gl_pathc) {
			evidence_set(evidence, FACT_gid_interface, "none");
		}
		if (!is_known(evidence, FACT_device))
			evidence_set(evidence, FACT_device, "%s", first);
		describe_device(evidence);
		evidence_set(evidence, FACT_gid_is_below, "no");
		for (size_t i = 0; own && i < all.gl_pathc; i++) {
			if (!strcmp(sysfs_read_line("%s/parent", all.gl_pathv[i]).text,
				    own->interface))
				evidence_set(evidence, FACT_gid_is_below, "yes");
		}
	}
	globfree(&all);
}

/* If a cgroup of this process limits the device's objects, set the facts about it. */
static void examine_cgroup(void *evidence, const char *folder)
{
	struct sysfs_line limit, use;
	char key[160];

	snprintf(key, sizeof(key), "%s ", evidence_get(evidence, FACT_device));
	limit = sysfs_find_line(key, "%s/rdma.max", folder);
	if (!limit.text[0] || strstr(limit.text, "hca_handle=max hca_object=max"))
		return;
	use = sysfs_find_line(key, "%s/rdma.current", folder);
	evidence_set(evidence, FACT_cgroup, "%s", folder);
	evidence_set(evidence, FACT_cgroup_limit, "%s", limit.text + strlen(key));
	evidence_set(evidence, FACT_cgroup_use, "%s", use.text[0] ? use.text + strlen(key) : "");
}

/* ---- The RDMA subsystem ---- */

/* Dump the answers to a command about a device; -1: about all devices. */
static void dump_rdma(struct evidence *evidence, unsigned int command, int64_t device,
		      netlink_function function)
{
	int type = (int)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	struct netlink_request request = netlink_make_request(type, NLM_F_DUMP, "", 0);
	uint32_t index = (uint32_t)device;

	if (device >= 0)
		netlink_add_attribute(&request, RDMA_NLDEV_ATTR_DEV_INDEX, &index, sizeof(index));
	netlink_ask(NETLINK_RDMA, &request, type, function, evidence);
}

/* Note that a port has a network interface in this namespace. */
static void note_interface(void *evidence, struct netlink_message port)
{
	if (netlink_find(port.attributes, RDMA_NLDEV_ATTR_NDEV_NAME).size > 0)
		evidence_set(evidence, FACT_interface_here, "yes");
}

/* If a program listens with this identifier, add program, state and address to the listeners. */
static void examine_cm_id(struct evidence *evidence, struct span id)
{
	struct span name = netlink_find(id, RDMA_NLDEV_ATTR_RES_SRC_ADDR);
	const char *known = evidence_get(evidence, FACT_listeners);
	struct strbuf entry = { 0 }, list = { 0 };
	struct sockaddr_storage address;
	struct endpoint own;
	uint32_t process;
	bool stopped, any;
	uint8_t state;

	if (!netlink_copy(netlink_find(id, RDMA_NLDEV_ATTR_RES_STATE), &state, sizeof(state)) ||
	    state != STATE_LISTEN || !netlink_copy(name, &address, sizeof(struct sockaddr_in6)) ||
	    !netlink_copy(netlink_find(id, RDMA_NLDEV_ATTR_RES_PID), &process, sizeof(process)))
		return;
	own = endpoint_of((struct sockaddr *)&address);
	any = !strcmp(own.address, "::") || !strcmp(own.address, "0.0.0.0");
	stopped = strstr(sysfs_find_line("State:", "/proc/%u/status", process).text, "T (");
	if (stopped)
		evidence_set(evidence, FACT_stopped, "%u", process);
	strbuf_addf(&entry, "%.20s (process %u%s) on port %s of %s",
		    sysfs_read_line("/proc/%u/comm", process).text, process,
		    stopped ? ", stopped" : "", own.port, any ? "every address" : own.address);
	if (strstr(known, entry.text)) /* a listener has an identifier for each device and family */
		return;
	if (strcmp(known, "none") != 0)
		strbuf_addf(&list, "%s, ", known);
	evidence_set(evidence, FACT_listeners, "%s%s", list.text, entry.text);
}

static void examine_resources(void *evidence, struct netlink_message resources)
{
	struct span table = netlink_find(resources.attributes, RDMA_NLDEV_ATTR_RES_CM_ID), entry;

	while ((entry = netlink_next(&table, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY)).size > 0)
		examine_cm_id(evidence, entry);
}

/* Find out whether a device has an interface in this namespace, and which programs listen. */
static void examine_rdma_device(void *evidence, struct netlink_message device)
{
	struct span number = netlink_find(device.attributes, RDMA_NLDEV_ATTR_DEV_INDEX);
	uint32_t index;

	if (!netlink_copy(number, &index, sizeof(index)))
		return;
	if (!is_known(evidence, FACT_interface_here))
		evidence_set(evidence, FACT_interface_here, "no");
	dump_rdma(evidence, RDMA_NLDEV_CMD_PORT_GET, index, note_interface);
	if (!is_known(evidence, FACT_listeners))
		evidence_set(evidence, FACT_listeners, "none");
	dump_rdma(evidence, RDMA_NLDEV_CMD_RES_CM_ID_GET, index, examine_resources);
}

/* Set a fact to the sum of the connection manager's counters in these files, if there are any. */
static void sum_counters(struct evidence *evidence, enum fact fact, const char *pattern)
{
	uint64_t sum = 0, number;
	glob_t files;

	if (glob(pattern, 0, NULL, &files) == 0) {
		for (size_t i = 0; i < files.gl_pathc; i++) {
			if (sysfs_read_number(AT_FDCWD, files.gl_pathv[i], &number)) {
				sum += number;
				evidence_set(evidence, fact, "%" PRIu64, sum);
			}
		}
	}
	globfree(&files);
}

static bool is_ipv4(const struct ifaddrs *one)
{
	return one->ifa_addr && one->ifa_addr->sa_family == AF_INET && one->ifa_netmask;
}

static in_addr_t ipv4_of(const struct sockaddr *address)
{
	return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
}

/* Name another interface that has an address in the IPv4 subnet of the source. */
static void find_same_subnet(struct evidence *evidence)
{
	const struct ifaddrs *own = NULL;
	struct in_addr source;
	struct ifaddrs *all;

	if (inet_pton(AF_INET, evidence_get(evidence, FACT_source), &source) != 1 ||
	    getifaddrs(&all))
		return;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (is_ipv4(one) && ipv4_of(one->ifa_addr) == source.s_addr)
			own = one;
	}
	for (const struct ifaddrs *one = all; own && one; one = one->ifa_next) {
		if (is_ipv4(one) && strcmp(one->ifa_name, own->ifa_name) != 0 &&
		    !((ipv4_of(one->ifa_addr) ^ source.s_addr) & ipv4_of(own->ifa_netmask)))
			evidence_set(evidence, FACT_same_subnet, "%s", one->ifa_name);
	}
	freeifaddrs(all);
}

void evidence_collect_listeners(struct evidence *evidence)
{
	sum_counters(evidence, FACT_requests_received, DEVICES "*/ports/*/cm_rx_msgs/req");
	/* "rep" accepts a request, "rej" rejects it */
	sum_counters(evidence, FACT_requests_answered, DEVICES "*/ports/*/cm_tx_msgs/re[pj]");
	find_same_subnet(evidence);
	if (!is_known(evidence, FACT_listeners)) /* evidence_collect() finds them, too */
		dump_rdma(evidence, RDMA_NLDEV_CMD_GET, -1, examine_rdma_device);
}

/* ---- All facts of this host ---- */

void evidence_collect(struct evidence *evidence, const struct host_view *view,
		      const struct sockaddr *address, const struct sockaddr *source)
{
	struct ibv_device **drivers;
	int count = 0;

	if (address)
		find_route(evidence, address, source);
	find_devices(evidence, view);
	describe_links(evidence);
	cgroup_visit("", "rdma", examine_cgroup, evidence); /* the topmost is last */
	if (netlink_rdma_is_exclusive())
		evidence_set(evidence, FACT_mode, "exclusive");
	if (!access("/proc/sys/net/core", F_OK))
		evidence_set(evidence, FACT_first_namespace, "%s",
			     access("/proc/sys/net/core/netdev_max_backlog", F_OK) ? "no" : "yes");
	dump_rdma(evidence, RDMA_NLDEV_CMD_GET, -1, examine_rdma_device);
	drivers = ibv_get_device_list(&count);
	if (drivers)
		ibv_free_device_list(drivers);
	evidence_set(evidence, FACT_drivers, "%s", count > 0 ? "some" : "none");
	find_neighbour(evidence);
}

/* ---- UDP ---- */

/* Open a UDP socket that receives errors of the network. Return -1 if that fails. */
static int open_udp(const struct sockaddr *address, const struct sockaddr *source, int tos)
{
	int on = 1, descriptor = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ipv6 = address->sa_family == AF_INET6;
	int level = ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;

	if (descriptor < 0)
		return -1;
	setsockopt(descriptor, level, ipv6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
	setsockopt(descriptor, level, ipv6 ? IPV6_TCLASS : IP_TOS, &tos, sizeof(tos));
	if (!source || !bind(descriptor, source, address_size(source)))
		return descriptor;
	close(descriptor);
	return -1;
}

/* Send a datagram of zeros. Return 0, or an errno value. */
static int send_udp(int descriptor, const struct sockaddr *address, uint16_t port)
{
	static const uint8_t zeros[DATAGRAM_SIZE];
	const socklen_t size = address_size(address);
	struct sockaddr_storage target = { 0 };

	memcpy(&target, address, size);
	/* struct sockaddr_in6 has the port at the same place */
	((struct sockaddr_in *)(void *)&target)->sin_port = htons(port);
	return sendto(descriptor, zeros, sizeof(zeros), 0, (void *)&target, size) < 0 ? errno : 0;
}

int evidence_send(const struct sockaddr *address, const struct sockaddr *source, int tos)
{
	int descriptor = open_udp(address, source, tos);
	int error;

	if (descriptor < 0)
		return 0;
	error = send_udp(descriptor, address, ROCE_PORT);
	close(descriptor);
	return error;
}

/* Return what an ICMP message says about the port; NULL: nothing. */
static const char *icmp_answer(const struct sock_extended_err *error)
{
	bool ipv6 = error->ee_origin == SO_EE_ORIGIN_ICMP6;
	uint8_t code = error->ee_code;

	if (error->ee_type != (ipv6 ? ICMP6_DST_UNREACH : ICMP_DEST_UNREACH))
		return NULL;
	if (code == (ipv6 ? ICMP6_DST_UNREACH_NOPORT : ICMP_PORT_UNREACH))
		return "refused";
	if (ipv6 ? code == ICMP6_DST_UNREACH_ADMIN || code == ICMP6_POLICY_FAIL
		 : code == ICMP_NET_ANO || code == ICMP_HOST_ANO || code == ICMP_PKT_FILTERED)
		return "prohibited";
	return "unreachable";
}

/* Return the answer of an ICMP message that has arrived; NULL: none. Note who answers for RoCE. */
static const char *take_icmp(struct evidence *evidence, int descriptor, enum fact fact)
{
	_Alignas(struct cmsghdr) uint8_t control[512];
	struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err *error;

	/* the socket has asked for no other control message than IP_RECVERR or IPV6_RECVERR */
	if (recvmsg(descriptor, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0 ||
	    !CMSG_FIRSTHDR(&message))
		return NULL;
	error = (void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
	if (error->ee_origin != SO_EE_ORIGIN_ICMP && error->ee_origin != SO_EE_ORIGIN_ICMP6)
		return NULL;
	if (fact == FACT_udp_roce)
		evidence_set(evidence, FACT_udp_from, "%s",
			     endpoint_of(SO_EE_OFFENDER(error)).address);
	return icmp_answer(error);
}

/* Find out how `address` answers a UDP port. */
static void probe_udp(struct evidence *evidence, enum fact fact, uint16_t port,
		      const struct sockaddr *address, const struct sockaddr *source)
{
	int descriptor = open_udp(address, source, 0);
	struct pollfd wait = { .fd = descriptor };
	const char *answer = NULL;
	int error = 0;

	if (descriptor < 0)
		return;
	for (int i = 0; i < UDP_TRIES && !answer && !error; i++) {
		error = send_udp(descriptor, address, port);
		if (!error && poll(&wait, 1, UDP_MILLISECONDS) > 0)
			answer = take_icmp(evidence, descriptor, fact);
	}
	close(descriptor);
	evidence_set(evidence, fact, "%s", answer ? answer : "silent");
	evidence_set_error(evidence, fact, error);
}

void evidence_probe(struct evidence *evidence, const struct sockaddr *address,
		    const struct sockaddr *source)
{
	probe_udp(evidence, FACT_udp_roce, ROCE_PORT, address, source);
	probe_udp(evidence, FACT_udp_other, UNUSED_UDP_PORT, address, source);
}
