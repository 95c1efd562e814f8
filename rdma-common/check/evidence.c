// SPDX-License-Identifier: MIT
#include "evidence.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cgroup.h"
#include "../interfaces.h"
#include "../negotiate.h"
#include "../netlink.h"
#include "../process.h"
#include "../sysfs.h"
#include "congestion.h"

/* UDP port that should be unused, to compare its answer with ROCE_PORT's. */
#define UNUSED_UDP_PORT 47891
/* Number of tries, because a UDP datagram may be lost, and time to wait for each answer. */
#define UDP_TRIES        2
#define UDP_MILLISECONDS 400
/*
 * Bytes of a datagram. A shorter datagram than the base transport header (12 bytes) makes a
 * receiving kernel with Soft-RoCE panic over IPv6: rxe_rcv() of Linux 6.1 uses pkt->qp before it is
 * set. A longer datagram of zeros is for queue pair 0, so it is dropped.
 */
#define DATAGRAM_SIZE 64
/* Objects of a session: protection domain, completion queue, queue pair, memory regions. */
#define SESSION_OBJECTS 8
/* State of an identifier that listens (enum rdma_cm_state in the kernel's cma_priv.h). */
#define STATE_LISTEN 8

/* ICMPv6 code: the source address failed the policy (RFC 4443, 3.1). */
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

bool evidence_is(const struct evidence *evidence, enum fact fact, const char *text)
{
	return !strcmp(evidence->facts[fact], text);
}

void evidence_set(struct evidence *evidence, enum fact fact, const char *text)
{
	const size_t size = sizeof(evidence->facts[fact]);

	snprintf(evidence->facts[fact], size, "%.*s", (int)size - 1, text);
}

void evidence_set_number(struct evidence *evidence, enum fact fact, uint64_t number)
{
	snprintf(evidence->facts[fact], sizeof(evidence->facts[fact]), "%" PRIu64, number);
}

/* The errors that rules name, and others of sending and of finding a route. */
static const struct {
	int error;
	const char *name;
} error_names[] = {
#define ERROR(name)         \
	{                   \
		name, #name \
	}
	ERROR(EACCES),    ERROR(EADDRNOTAVAIL), ERROR(EAGAIN),   ERROR(ECONNREFUSED),
	ERROR(EHOSTDOWN), ERROR(EHOSTUNREACH),  ERROR(EINVAL),   ERROR(EMSGSIZE),
	ERROR(EMFILE),    ERROR(ENFILE),        ERROR(ENETDOWN), ERROR(ENETUNREACH),
	ERROR(ENOBUFS),   ERROR(ENODEV),        ERROR(ENOENT),   ERROR(ENOMEM),
	ERROR(EPERM),     ERROR(ETIMEDOUT),
#undef ERROR
};

void evidence_set_error(struct evidence *evidence, enum fact fact, int error)
{
	char text[32];

	snprintf(text, sizeof(text), "errno %d", error);
	for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++) {
		if (error_names[i].error == error)
			snprintf(text, sizeof(text), "%s", error_names[i].name);
	}
	if (error)
		evidence_set(evidence, fact, text);
}

static bool is_known(const struct evidence *evidence, enum fact fact)
{
	return evidence->facts[fact][0];
}

/* ---- Network interfaces, routes and neighbours ---- */

/* Return the text of an attribute. Return `other` if it is missing. */
static const char *text_of(const struct nlattr *text, const char *other)
{
	return text ? nla_get_string(text) : other;
}

/* Return an address of 4 or 16 bytes as text, in `text`. Another size gives an empty text. */
static const char *address_of(const struct nlattr *raw, char text[INET6_ADDRSTRLEN])
{
	int size = raw ? nla_len(raw) : 0;

	text[0] = '\0';
	if (size == 4 || size == 16)
		inet_ntop(size == 4 ? AF_INET : AF_INET6, nla_data(raw), text, INET6_ADDRSTRLEN);
	return text;
}

/* Send a request of `size` bytes for all objects. Call `function` with the message about each. */
static void dump_all(struct evidence *evidence, int type, size_t size, nl_recvmsg_msg_cb_t function)
{
	const struct ifinfomsg all = { 0 }; /* no caller's request is longer */

	netlink_ask(NETLINK_ROUTE, netlink_make_request(type, NLM_F_DUMP, &all, size), function,
		    evidence);
}

/* Set the facts about this network interface: vrf, gid_kind, route_kind and bond_devices. */
static int examine_link(struct nl_msg *message, void *evidence)
{
	const struct ifinfomsg *link = nlmsg_data(nlmsg_hdr(message));
	const char *name = text_of(netlink_find(message, sizeof(*link), IFLA_IFNAME), "");
	struct nlattr *link_info = netlink_find(message, sizeof(*link), IFLA_LINKINFO);
	const char *kind = text_of(netlink_find_within(link_info, IFLA_INFO_KIND), "plain");

	if (!strcmp(kind, "vrf"))
		evidence_set(evidence, FACT_vrf, name);
	if (evidence_is(evidence, FACT_gid_interface, name))
		evidence_set(evidence, FACT_gid_kind, kind);
	if (!evidence_is(evidence, FACT_route_interface, name))
		return NL_OK;
	if (strcmp(kind, "bond") != 0) /* examine_ports() takes the members of a bridge, too */
		evidence_set(evidence, FACT_bond_devices, "");
	/* rdma_cm of Linux 6.1 resolves no address over another type, such as a tunnel */
	evidence_set(evidence, FACT_route_kind,
		     !strcmp(kind, "veth")                 ? kind
		     : link->ifi_type == ARPHRD_ETHER      ? "ethernet"
		     : link->ifi_type == ARPHRD_INFINIBAND ? "infiniband"
		     : link->ifi_type == ARPHRD_LOOPBACK   ? "loopback"
							   : kind);
	return NL_OK;
}

static int examine_route(struct nl_msg *message, void *evidence)
{
	const struct rtmsg *route = nlmsg_data(nlmsg_hdr(message));
	struct nlattr *gateway = netlink_find(message, sizeof(*route), RTA_GATEWAY);
	char name[IF_NAMESIZE], address[INET6_ADDRSTRLEN];
	uint32_t index;

	evidence_set(evidence, FACT_route, "found");
	evidence_set(evidence, FACT_own_address, route->rtm_type == RTN_LOCAL ? "yes" : "no");
	if (!is_known(evidence, FACT_source))
		evidence_set(
			evidence, FACT_source,
			address_of(netlink_find(message, sizeof(*route), RTA_PREFSRC), address));
	if (!gateway)
		gateway = netlink_find(message, sizeof(*route), RTA_DST);
	evidence_set(evidence, FACT_next_hop, address_of(gateway, address));
	if (netlink_copy(netlink_find(message, sizeof(*route), RTA_OIF), &index, sizeof(index)) &&
	    if_indextoname(index, name))
		evidence_set(evidence, FACT_route_interface, name);
	return NL_OK;
}

/* Add an attribute of this type with the bytes of an IPv4 or IPv6 address, without its port. */
static void add_address(struct nl_msg *request, int type, const struct sockaddr *address)
{
	const void *any = address;
	const struct sockaddr_in *ipv4 = any;
	const struct sockaddr_in6 *ipv6 = any;

	if (address->sa_family == AF_INET)
		netlink_add(request, type, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
	else
		netlink_add(request, type, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
}

/*
 * Return the entry of `view` for the source, or NULL. The scope ID of the source may be missing. A
 * VLAN has the link-local address of the interface below it, so prefer the route's interface.
 */
static const struct host_address *find_source(const struct evidence *evidence,
					      const struct host_view *view)
{
	const char *source = evidence->facts[FACT_source];
	const struct host_address *found = NULL;
	size_t size = strlen(source);

	for (size_t i = 0; view && size > 0 && i < view->address_count; i++) {
		const struct host_address *own = &view->addresses[i];

		if (strncmp(own->address, source, size) != 0 ||
		    (own->address[size] && own->address[size] != '%'))
			continue;
		if (!found || evidence_is(evidence, FACT_route_interface, own->interface))
			found = own;
	}
	return found;
}

/*
 * Return the index of the network interface to which rdma_cm restricts the route of a bound or
 * link-local address (rdma_translate_ip() sets bound_dev_if). Return 0 if it allows any interface.
 * Set FACT_source if `flow` has a source without a scope ID.
 */
static uint32_t find_bound(struct evidence *evidence, const struct host_view *view,
			   const struct flow *flow)
{
	const struct sockaddr *end = flow->source ? flow->source : flow->address;
	const struct sockaddr_in6 *ipv6 = (const void *)end;
	const struct host_address *own;

	if (end->sa_family == AF_INET6 && ipv6->sin6_scope_id)
		return ipv6->sin6_scope_id;
	if (!flow->source)
		return 0;
	evidence_set(evidence, FACT_source, endpoint_of(flow->source).address);
	own = find_source(evidence, view);
	return own ? own->interface_index : 0;
}

/* Ask the kernel for the route of `flow`. Set its facts, or FACT_route to the error. */
static void find_route(struct evidence *evidence, const struct host_view *view,
		       const struct flow *flow)
{
	const uint32_t interface = find_bound(evidence, view, flow);
	const struct rtmsg body = { .rtm_family = (uint8_t)flow->address->sa_family };
	struct nl_msg *request = netlink_make_request(RTM_GETROUTE, 0, &body, sizeof(body));

	add_address(request, RTA_DST, flow->address);
	if (flow->source)
		add_address(request, RTA_SRC, flow->source);
	if (interface)
		netlink_add(request, RTA_OIF, &interface, sizeof(interface));
	evidence_set_error(evidence, FACT_route,
			   netlink_ask(NETLINK_ROUTE, request, examine_route, evidence));
}

/*
 * If this is the entry of the next hop, set FACT_neighbour. Ignore the state NUD_NOARP: a tunnel
 * needs no hardware address.
 */
static int examine_neighbour(struct nl_msg *message, void *evidence)
{
	const struct ndmsg *neighbour = nlmsg_data(nlmsg_hdr(message));
	char name[IF_NAMESIZE] = "", address[INET6_ADDRSTRLEN];
	bool failed = neighbour->ndm_state & (NUD_FAILED | NUD_INCOMPLETE);
	bool unconfirmed = neighbour->ndm_state & (NUD_STALE | NUD_DELAY | NUD_PROBE);

	if_indextoname((unsigned int)neighbour->ndm_ifindex, name);
	address_of(netlink_find(message, sizeof(*neighbour), NDA_DST), address);
	if (evidence_is(evidence, FACT_route_interface, name) &&
	    evidence_is(evidence, FACT_next_hop, address) && neighbour->ndm_state & ~NUD_NOARP)
		evidence_set(evidence, FACT_neighbour,
			     failed        ? "failed"
			     : unconfirmed ? "unconfirmed"
					   : "resolved");
	return NL_OK;
}

/* ---- RDMA devices ---- */

/*
 * Return the port on the route's interface. Without a route, return the first port that has an
 * interface in this namespace. Return NULL if there is none.
 */
static const struct rdma_port *find_port(const struct evidence *evidence,
					 const struct rdma_ports *ports)
{
	for (const struct rdma_port *port = ports->list; *port->device; port++) {
		if (*port->interface &&
		    (!is_known(evidence, FACT_route_interface) ||
		     evidence_is(evidence, FACT_route_interface, port->interface)))
			return port;
	}
	return NULL;
}

/* Return the last part of the path to which a link in an interface's sysfs folder leads. */
static struct sysfs_line name_of_link(const char *interface, const char *link)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct sysfs_line name = { "" };

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, link);
	if (*interface && realpath(path, target))
		snprintf(name.text, sizeof(name.text), "%s", strrchr(target, '/') + 1);
	return name;
}

/* Set the facts about the network interfaces of FACT_device and of the other devices. */
static void examine_ports(struct evidence *evidence, const struct rdma_ports *ports)
{
	const struct rdma_port *member = NULL;
	struct strbuf members = { 0 };

	for (const struct rdma_port *port = ports->list; *port->device; port++) {
		bool same = evidence_is(evidence, FACT_device, port->device);
		bool has_gid = evidence_is(evidence, FACT_gid_interface, port->interface);

		if (*port->interface || !is_known(evidence, FACT_interface_here))
			evidence_set(evidence, FACT_interface_here,
				     *port->interface ? "yes" : "no");
		if (!*port->interface)
			continue;
		if (same && (has_gid || !is_known(evidence, FACT_device_interface)))
			evidence_set(evidence, FACT_device_interface, port->interface);
		else if (has_gid)
			evidence_set(evidence, FACT_gid_device, port->device);
		if (!is_known(evidence, FACT_route_interface) ||
		    !evidence_is(evidence, FACT_route_interface,
				 name_of_link(port->interface, "master").text))
			continue;
		if (member && strcmp(member->device, port->device) != 0 && members.length == 0)
			strbuf_addf(&members, "%s and %s", member->device, port->device);
		member = port;
	}
	evidence_set(evidence, FACT_bond_devices, members.text);
}

/*
 * Set FACT_device unless it is known: the device of FACT_source, else of the route, else the first
 * one. Set the facts about it, and those about all devices.
 */
static void find_devices(struct evidence *evidence, const struct host_view *view,
			 const struct rdma_port *of_route)
{
	const struct host_address *own = find_source(evidence, view);
	unsigned int port = own ? own->port : of_route ? of_route->number : 1;
	char folder[PATH_MAX];
	glob_t all;

	if (access("/sys/class/net", F_OK)) /* no sysfs */
		return;
	evidence_set(evidence, FACT_kernel_device, "none");
	if (view)
		evidence_set(evidence, FACT_gid_here, view->address_count > 0 ? "yes" : "no");
	if (glob(DEVICES "*", 0, NULL, &all) == 0) {
		const char *first = all.gl_pathv[0] + strlen(DEVICES);

		evidence_set(evidence, FACT_kernel_device, first);
		if (!is_known(evidence, FACT_device))
			evidence_set(evidence, FACT_device,
				     own        ? ibv_get_device_name(own->verbs->device)
				     : of_route ? of_route->device
						: first);
		if (own)
			evidence_set(evidence, FACT_gid_interface, own->interface);
		else if (is_known(evidence, FACT_source) && view &&
			 view->device_count == all.gl_pathc)
			evidence_set(evidence, FACT_gid_interface, "none");
		snprintf(folder, sizeof(folder), DEVICES "%s", evidence->facts[FACT_device]);
		evidence_set(evidence, FACT_software, host_is_software(folder) ? "yes" : "no");
		/* a value that rdma_cm has determined stays */
		if (!is_known(evidence, FACT_transport))
			evidence_set(evidence, FACT_transport, host_transport(folder, port));
		/* a device that the route does not use is no cause */
		if ((of_route || is_known(evidence, FACT_unusable)) &&
		    host_port_lacks_gids(folder, port))
			evidence_set(evidence, FACT_gids, "none");
	}
	globfree(&all);
}

/* Set the facts about a file that this process cannot open (closed_file_find()). */
static void examine_files(struct evidence *evidence, const char *device)
{
	struct closed_file file = closed_file_find(device);

	if (!file.error)
		return;
	evidence_set_error(evidence, FACT_file_error, file.error);
	evidence_set(evidence, FACT_file, file.path);
	evidence_set(evidence, FACT_file_owner, file.owner);
}

/*
 * Return how much an rdma cgroup leaves of a resource ("hca_object="). `limit` and `use` are the
 * device's lines of its rdma.max and rdma.current.
 */
static uint64_t left_of(const char *resource, const char *limit, const char *use)
{
	const char *most = strstr(limit, resource), *now = strstr(use, resource);
	uint64_t used = now ? strtoull(now + strlen(resource), NULL, 10) : 0, number;

	if (!most || most[strlen(resource)] == 'm') /* "max" */
		return UINT64_MAX;
	number = strtoull(most + strlen(resource), NULL, 10);
	return number > used ? number - used : 0;
}

/* The search for the cgroup that leaves the fewest objects. */
struct tightest {
	struct evidence *evidence;
	uint64_t left;
};

/* If this cgroup leaves less of the device than the tightest one so far, set its facts. */
static void examine_cgroup(void *context, const char *folder)
{
	struct tightest *tightest = context;
	struct evidence *evidence = tightest->evidence;
	struct sysfs_line limit, use;
	uint64_t left;
	char key[160];

	snprintf(key, sizeof(key), "%.127s ", evidence->facts[FACT_device]);
	limit = sysfs_find_line(key, "%s/rdma.max", folder);
	use = sysfs_find_line(key, "%s/rdma.current", folder);
	left = left_of("hca_object=", limit.text, use.text);
	if (left_of("hca_handle=", limit.text, use.text) == 0)
		left = 0;
	if (left >= tightest->left)
		return;
	tightest->left = left;
	evidence_set(evidence, FACT_cgroup, folder);
	evidence_set(evidence, FACT_cgroup_limit, limit.text + strlen(key));
	evidence_set(evidence, FACT_cgroup_use, use.text[0] ? use.text + strlen(key) : "");
}

void evidence_find_cgroup(struct evidence *evidence, const char *root)
{
	struct tightest tightest = { evidence, SESSION_OBJECTS };

	cgroup_visit(root, "rdma", examine_cgroup, &tightest);
}

/* ---- The RDMA subsystem ---- */

void evidence_add_listener(struct evidence *evidence, const char *entry)
{
	const char *known = evidence->facts[FACT_listeners];
	const size_t room = sizeof(evidence->facts[FACT_listeners]) - strlen(", ...");
	struct strbuf list = { 0 }, listed = { 0 };

	strbuf_addf(&list, "%s, ", known);
	strbuf_addf(&listed, "%s, ", entry);
	/* a listener has an identifier for each device and family */
	if (strstr(list.text, listed.text) || strstr(known, "..."))
		return;
	strbuf_addf(&list, "%s", list.length + strlen(entry) < room ? entry : "...");
	evidence_set(evidence, FACT_listeners,
		     strcmp(known, "none") ? list.text : list.text + strlen("none, "));
}

/* If a program listens with this identifier, add it to the listeners. */
static void examine_cm_id(struct evidence *evidence, const struct nlattr *id)
{
	struct nlattr *name = netlink_find_within(id, RDMA_NLDEV_ATTR_RES_SRC_ADDR);
	struct strbuf entry = { 0 };
	struct sockaddr_storage address;
	struct endpoint own;
	uint32_t process;
	bool stopped, any;
	uint8_t state;

	if (!netlink_copy(netlink_find_within(id, RDMA_NLDEV_ATTR_RES_STATE), &state,
			  sizeof(state)) ||
	    state != STATE_LISTEN || !netlink_copy(name, &address, sizeof(struct sockaddr_in6)) ||
	    !netlink_copy(netlink_find_within(id, RDMA_NLDEV_ATTR_RES_PID), &process,
			  sizeof(process)))
		return;
	own = endpoint_of((struct sockaddr *)&address);
	any = !strcmp(own.address, "::") || !strcmp(own.address, "0.0.0.0");
	stopped = strstr(sysfs_find_line("State:", "/proc/%u/status", process).text, "T (");
	if (stopped)
		evidence_set_number(evidence, FACT_stopped, process);
	strbuf_addf(&entry, "%.20s (process %u%s) on port %s of %s",
		    sysfs_read_line("/proc/%u/comm", process).text, process,
		    stopped ? ", stopped" : "", own.port, any ? "every address" : own.address);
	evidence_add_listener(evidence, entry.text);
}

static int examine_resources(struct nl_msg *resources, void *evidence)
{
	struct nlattr *table = netlink_find(resources, 0, RDMA_NLDEV_ATTR_RES_CM_ID), *id;
	int rest;

	if (!table)
		return NL_OK;
	nla_for_each_nested (id, table, rest)
		examine_cm_id(evidence, id);
	return NL_OK;
}

/* Add the programs that listen on a device to the listeners. */
static int examine_rdma_device(struct nl_msg *device, void *evidence)
{
	struct nlattr *index = netlink_find(device, 0, RDMA_NLDEV_ATTR_DEV_INDEX);

	if (!is_known(evidence, FACT_listeners))
		evidence_set(evidence, FACT_listeners, "none");
	netlink_ask_rdma(RDMA_NLDEV_CMD_RES_CM_ID_GET, index, examine_resources, evidence);
	return NL_OK;
}

/*
 * Return the sum of the counters in the files of `pattern`. If one can be read, set a fact to the
 * sum, or to `most` if that is less.
 */
static uint64_t sum_counters(struct evidence *evidence, enum fact fact, const char *pattern,
			     uint64_t most)
{
	uint64_t sum = 0, number;
	glob_t files = { 0 };

	glob(pattern, 0, NULL, &files);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		if (!sysfs_read_number(AT_FDCWD, files.gl_pathv[i], &number))
			continue;
		sum += number;
		evidence_set_number(evidence, fact, sum < most ? sum : most);
	}
	globfree(&files);
	return sum;
}

/* Set FACT_same_subnet if the IPv4 subnet of another interface contains FACT_source, too. */
static int examine_own_address(struct nl_msg *message, void *context)
{
	struct evidence *evidence = context;
	in_addr_t source = inet_addr(evidence->facts[FACT_source]), address;
	const struct ifaddrmsg *own = nlmsg_data(nlmsg_hdr(message));
	char name[IF_NAMESIZE];

	if (own->ifa_family == AF_INET && own->ifa_prefixlen > 0 &&
	    netlink_copy(netlink_find(message, sizeof(*own), IFA_LOCAL), &address,
			 sizeof(address)) &&
	    address != source && ntohl(address ^ source) >> (32 - own->ifa_prefixlen) == 0 &&
	    if_indextoname(own->ifa_index, name) &&
	    !evidence_is(evidence, FACT_route_interface, name))
		evidence_set(evidence, FACT_same_subnet, name);
	return NL_OK;
}

void evidence_collect_listeners(struct evidence *evidence, const struct flow *flow)
{
	uint64_t received = sum_counters(evidence, FACT_requests_received,
					 DEVICES "*/ports/*/cm_rx_msgs/req", UINT64_MAX);

	/* "rep" accepts a request; "rej" rejects one, or withdraws a request of this host */
	sum_counters(evidence, FACT_requests_answered, DEVICES "*/ports/*/cm_tx_msgs/re[pj]",
		     received);
	if (!is_known(evidence, FACT_route)) /* not set by evidence_collect() */
		find_route(evidence, NULL, flow);
	dump_all(evidence, RTM_GETADDR, sizeof(struct ifaddrmsg), examine_own_address);
	if (!is_known(evidence, FACT_listeners))
		netlink_ask_rdma(RDMA_NLDEV_CMD_GET, NULL, examine_rdma_device, evidence);
}

/* ---- The socket of Soft-RoCE ---- */

/*
 * Set FACT_roce_socket. Soft-RoCE has a UDP socket of the kernel in each network namespace that it
 * serves. A line of /proc/net/udp has "NUMBER: ADDRESS:PORT", the port in hexadecimal (proc(5)).
 */
static void find_roce_socket(struct evidence *evidence)
{
	FILE *file = fopen("/proc/net/udp", "re");
	unsigned long port = 0;
	char line[256];

	if (!file)
		return;
	while (port != ROCE_PORT && fgets(line, sizeof(line), file)) {
		const char *address = strchr(line, ':');
		const char *colon = address ? strchr(address + 1, ':') : NULL;

		port = colon ? strtoul(colon + 1, NULL, 16) : 0;
	}
	fclose(file);
	evidence_set(evidence, FACT_roce_socket, port == ROCE_PORT ? "yes" : "no");
}

/* ---- All facts of this host ---- */

void evidence_collect(struct evidence *evidence, const struct host_view *view,
		      const struct flow *flow)
{
	struct ibv_device **drivers = ibv_get_device_list(NULL);
	bool opened = view && view->device_count > 0;
	const struct rdma_ports ports = netlink_list_ports();
	const struct rdma_port *of_route;

	if (flow->address)
		find_route(evidence, view, flow);
	of_route = find_port(evidence, &ports);
	find_devices(evidence, view, of_route);
	examine_ports(evidence, &ports);
	evidence_set(evidence, FACT_route_driver,
		     name_of_link(evidence->facts[FACT_route_interface], "device/driver").text);
	if (!opened)
		examine_files(evidence, NULL);
	else if (!find_source(evidence, view) && of_route &&
		 is_known(evidence, FACT_route_interface))
		examine_files(evidence, of_route->device);
	dump_all(evidence, RTM_GETLINK, sizeof(struct ifinfomsg), examine_link);
	dump_all(evidence, RTM_GETNEIGH, sizeof(struct ndmsg), examine_neighbour);
	evidence_find_cgroup(evidence, "");
	if (netlink_rdma_is_exclusive())
		evidence_set(evidence, FACT_mode, "exclusive");
	if (!access("/proc/sys/net/core", F_OK))
		evidence_set(evidence, FACT_first_namespace,
			     access("/proc/sys/net/core/netdev_max_backlog", F_OK) ? "no" : "yes");
	find_roce_socket(evidence);
	netlink_ask_rdma(RDMA_NLDEV_CMD_GET, NULL, examine_rdma_device, evidence);
	evidence_set(evidence, FACT_drivers, (drivers && *drivers) || opened ? "some" : "none");
	if (drivers)
		ibv_free_device_list(drivers);
}

/* ---- UDP ---- */

/* Open a UDP socket for `flow` that receives ICMP errors. Return -1 if that fails. */
static int open_udp(const struct flow *flow)
{
	int on = 1, descriptor = socket(flow->address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ipv6 = flow->address->sa_family == AF_INET6;
	int level = ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;

	if (descriptor < 0)
		return -1;
	setsockopt(descriptor, level, ipv6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
	setsockopt(descriptor, level, ipv6 ? IPV6_TCLASS : IP_TOS, &flow->tos, sizeof(flow->tos));
	if (!flow->source || !bind(descriptor, flow->source, address_size(flow->source)))
		return descriptor;
	close(descriptor);
	return -1;
}

/* Return what an ICMP message says about the port. Return NULL for a message of another type. */
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

/*
 * Take an ICMP message that has arrived. Return icmp_answer(), or NULL if there is no message. Keep
 * the sender of the first answer in FACT_udp_from.
 */
static const char *take_icmp(struct evidence *evidence, int descriptor)
{
	_Alignas(struct cmsghdr) uint8_t control[512];
	struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err *error;
	const char *answer;

	if (recvmsg(descriptor, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0 ||
	    !CMSG_FIRSTHDR(&message))
		return NULL;
	/* the only control message: the socket has asked for IP_RECVERR or IPV6_RECVERR alone */
	error = (void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
	answer = icmp_answer(error);
	if (answer && !is_known(evidence, FACT_udp_from))
		evidence_set(evidence, FACT_udp_from, endpoint_of(SO_EE_OFFENDER(error)).address);
	return answer;
}

/*
 * Send a datagram of zeros to a UDP port. If that fails, set the fact to the error. If
 * `milliseconds` is 0, do not wait. Otherwise wait that time for an answer, try again if none
 * arrives, and set the fact to the answer or "silent".
 */
static void try_udp_port(struct evidence *evidence, enum fact fact, uint16_t port,
			 const struct flow *flow, int milliseconds)
{
	static const uint8_t zeros[DATAGRAM_SIZE];
	int udp = open_udp(flow), error, tries = milliseconds ? UDP_TRIES : 1;
	struct pollfd wait = { .fd = udp };
	const socklen_t size = address_size(flow->address);
	struct sockaddr_storage target = { 0 };
	const char *answer = NULL;

	if (udp < 0)
		return;
	memcpy(&target, flow->address, size);
	/* struct sockaddr_in6 has the port at the same place */
	((struct sockaddr_in *)(void *)&target)->sin_port = htons(port);
	do {
		error = sendto(udp, zeros, sizeof(zeros), 0, (void *)&target, size) < 0 ? errno : 0;
		if (!error && milliseconds && poll(&wait, 1, milliseconds) > 0)
			answer = take_icmp(evidence, udp);
	} while (!error && !answer && --tries);
	close(udp);
	evidence_set(evidence, fact, answer ? answer : milliseconds ? "silent" : "");
	evidence_set_error(evidence, fact, error);
}

bool evidence_try_send(struct evidence *evidence, const struct flow *flow)
{
	try_udp_port(evidence, FACT_send_error, ROCE_PORT, flow, 0);
	return !is_known(evidence, FACT_send_error);
}

void evidence_try_udp(struct evidence *evidence, const struct flow *flow)
{
	try_udp_port(evidence, FACT_udp_roce, ROCE_PORT, flow, UDP_MILLISECONDS);
	try_udp_port(evidence, FACT_udp_other, UNUSED_UDP_PORT, flow, UDP_MILLISECONDS);
}
