/* SPDX-License-Identifier: MIT */
/*
 * The kernel of a recorded host: its files, its network interfaces, and its answers by netlink.
 * These functions replace those of the C library and of libnl. Include this after host-record.h.
 */
#ifndef UNIT_HOST_KERNEL_H
#define UNIT_HOST_KERNEL_H

#include <dlfcn.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* ---- Files ---- */

/* Return the path in the temporary folder of a path below /sys, /proc or /dev/infiniband. */
static const char *in_tree(const char *path, char place[PATH_MAX])
{
	static const char *const tops[] = { "/sys/", "/proc/", "/dev/infiniband" };

	for (size_t i = 0; host.loaded && i < ENTRIES(tops); i++) {
		if (!strncmp(path, tops[i], strlen(tops[i]))) {
			snprintf(place, PATH_MAX, "%s%s", folder, path);
			return place;
		}
	}
	return path;
}

int openat(int parent, const char *path, int flags, ...)
{
	char place[PATH_MAX];

	return (int)syscall(SYS_openat, parent, in_tree(path, place), flags, 0600);
}

int open(const char *path, int flags, ...)
{
	char place[PATH_MAX];

	return (int)syscall(SYS_openat, AT_FDCWD, in_tree(path, place), flags, 0600);
}

FILE *fopen(const char *path, const char *mode)
{
	bool writes = *mode == 'w';
	int descriptor = open(path, writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY | O_CLOEXEC);

	return descriptor < 0 ? NULL : fdopen(descriptor, writes ? "w" : "r");
}

int access(const char *path, int mode)
{
	char place[PATH_MAX];

	return (int)syscall(SYS_faccessat, AT_FDCWD, in_tree(path, place), mode);
}

/* Remove the temporary folder from the beginning of a path. */
static void leave_tree(char *path)
{
	size_t size = strlen(folder);

	if (!strncmp(path, folder, size))
		memmove(path, path + size, strlen(path + size) + 1);
}

char *realpath(const char *path, char *resolved)
{
	static char *(*real)(const char *, char *);
	char place[PATH_MAX];

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "realpath");
	resolved = real(in_tree(path, place), resolved);
	if (resolved)
		leave_tree(resolved);
	return resolved;
}

int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)
{
	static int (*real)(const char *, int, int (*)(const char *, int), glob_t *);
	char place[PATH_MAX];
	int result;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "glob64");
	result = real(in_tree(pattern, place), flags, failed, found);
	for (size_t i = 0; !result && i < found->gl_pathc; i++)
		leave_tree(found->gl_pathv[i]);
	return result;
}

/* ---- Memory ---- */

/* Return the size of a page of the host, if it is recorded. */
long sysconf(int name)
{
	static long (*real)(int);
	const char *page = host.loaded ? value_of("process", "memory", "page") : NULL;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	return name == _SC_PAGESIZE && page ? strtol(page, NULL, 10) : real(name);
}

/* ---- Network interfaces and addresses ---- */

unsigned int if_nametoindex(const char *name)
{
	return link_index(name);
}

char *if_indextoname(unsigned int index, char name[IF_NAMESIZE])
{
	const char *found = link_name(index);

	return found ? strcpy(name, found) : NULL;
}

/* Fill in the socket address of "ADDRESS" or "ADDRESS/LENGTH" on this interface. */
static void set_address(struct sockaddr_in6 *address, const char *text, const char *interface)
{
	const struct in6_addr gid = gid_of(text);
	struct sockaddr_in *ipv4 = (void *)address;

	memset(address, 0, sizeof(*address));
	if (!strchr(text, ':')) {
		ipv4->sin_family = AF_INET;
		memcpy(&ipv4->sin_addr, gid.s6_addr + 12, 4);
		return;
	}
	address->sin6_family = AF_INET6;
	address->sin6_addr = gid;
	if (IN6_IS_ADDR_LINKLOCAL(&gid))
		address->sin6_scope_id = link_index(interface);
}

static void set_address_of_gid(struct sockaddr_in6 *address, const struct in6_addr *gid,
			       const char *interface)
{
	bool ipv4 = IN6_IS_ADDR_V4MAPPED(gid);
	char text[INET6_ADDRSTRLEN];

	inet_ntop(ipv4 ? AF_INET : AF_INET6, gid->s6_addr + (ipv4 ? 12 : 0), text, sizeof(text));
	set_address(address, text, interface);
}

static struct in6_addr gid_of_address(const void *address)
{
	const struct sockaddr_in *ipv4 = address;
	const struct sockaddr_in6 *ipv6 = address;
	char text[INET6_ADDRSTRLEN];

	inet_ntop(ipv4->sin_family,
		  ipv4->sin_family == AF_INET ? (const void *)&ipv4->sin_addr : &ipv6->sin6_addr,
		  text, sizeof(text));
	return gid_of(text);
}

struct own_address {
	struct ifaddrs list;
	struct sockaddr_in6 address;
};

int getifaddrs(struct ifaddrs **list)
{
	struct own_address *all = calloc(MAX_RECORDS, sizeof(*all)), *next = all;

	assert_non_null(all);
	for (const struct record *one = NULL; (one = next_record("address", one)); next++) {
		set_address(&next->address, one->words[1], one->words[2]);
		next->list = (struct ifaddrs){ .ifa_name = one->words[2],
					       .ifa_addr = (void *)&next->address };
		if (next > all)
			next[-1].list.ifa_next = &next->list;
	}
	*list = &all->list;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	free(list);
}

/* ---- Routes ---- */

/* The next hop to an address. */
struct hop {
	int error; /* errno value of the kernel's answer */
	bool own;  /* the destination is an address of this host */
	const char *interface;
	struct in6_addr source, gateway; /* `gateway` is the destination if none is needed */
};

static bool has_address(const char *interface, const struct in6_addr *wanted)
{
	for (const struct record *one = NULL; (one = next_record("address", one));) {
		const struct in6_addr own = gid_of(one->words[1]);

		if (!memcmp(&own, wanted, sizeof(own)) &&
		    (!interface || !strcmp(one->words[2], interface)))
			return true;
	}
	return false;
}

/* Return the length of a prefix "ADDRESS/LENGTH". An address alone has all its bits. */
static unsigned long prefix_length(const char *prefix)
{
	const char *length = strchr(prefix, '/');

	if (length)
		return strtoul(length + 1, NULL, 10);
	return strchr(prefix, ':') ? 128 : 32;
}

/* Return the bits of a prefix "ADDRESS/LENGTH" or "default" that match, or -1 if they differ. */
static int match_prefix(const char *prefix, const struct in6_addr *address)
{
	bool any = !strcmp(prefix, "default"), ipv4 = any || !strchr(prefix, ':');
	struct in6_addr network = gid_of(any ? "0.0.0.0" : prefix);
	int length = any ? 0 : (int)prefix_length(prefix);

	if (ipv4 != (bool)IN6_IS_ADDR_V4MAPPED(address))
		return -1;
	length += ipv4 ? 96 : 0;
	for (int i = 0; i < length; i++) {
		if ((network.s6_addr[i / 8] ^ address->s6_addr[i / 8]) & 0x80 >> i % 8)
			return -1;
	}
	return length;
}

/* Return true if a route over this interface may be used: not if a VRF has a table for it. */
static bool is_in_table(const char *interface, unsigned int index)
{
	const char *master = value_of("link", interface, "master");
	bool vrf = master && has_value("link", master, "kind", "vrf");

	if (has_value("link", interface, "state", "down"))
		return false;
	if (!index)
		return !vrf;
	return index == link_index(interface) || (vrf && index == link_index(master));
}

/* Choose the source on an interface: the first address of the destination's kind. */
static void choose_source_address(struct hop *hop, const struct in6_addr *to)
{
	for (const struct record *one = NULL; (one = next_record("address", one));) {
		const struct in6_addr own = gid_of(one->words[1]);

		if (strcmp(one->words[2], hop->interface) != 0 ||
		    IN6_IS_ADDR_V4MAPPED(&own) != IN6_IS_ADDR_V4MAPPED(to) ||
		    IN6_IS_ADDR_LINKLOCAL(&own) != IN6_IS_ADDR_LINKLOCAL(to))
			continue;
		hop->source = own;
		return;
	}
}

/* Use a route if its prefix is longer than that of the best one so far. */
static void try_route(struct hop *hop, const struct record *route, const struct in6_addr *to,
		      const struct in6_addr *from, unsigned int index, int *best)
{
	bool connected = !strcmp(route->words[0], "address");
	int length = match_prefix(route->words[1], to);
	const char *via = value_in(route, "via"), *source = value_in(route, "src");
	const char *rule = value_in(route, "from");

	if (rule) { /* a rule of 'ip rule' outranks the main table */
		struct in6_addr only = gid_of(rule);

		length = from && !memcmp(&only, from, sizeof(only)) ? length + 1000 : -1;
	}
	if (length <= *best || !is_in_table(route->words[2], index))
		return;
	*best = length;
	*hop = (struct hop){ .interface = route->words[2], .gateway = via ? gid_of(via) : *to };
	if (connected && IN6_IS_ADDR_LINKLOCAL(to) == 0)
		hop->source = gid_of(route->words[1]);
	else if (source)
		hop->source = gid_of(source);
	else
		choose_source_address(hop, to);
	if (from)
		hop->source = *from;
}

/* Find the route to `to`, from `from` (NULL: any), over the interface `index` (0: any). */
static struct hop find_hop(const struct in6_addr *to, const struct in6_addr *from,
			   unsigned int index)
{
	static const char *const kinds[] = { "address", "route" };
	struct hop hop = { .error = ENETUNREACH };
	int best = -1;

	if (has_address(NULL, to))
		return (struct hop){
			.own = true, .interface = "lo", .source = *to, .gateway = *to
		};
	for (size_t i = 0; i < ENTRIES(kinds); i++) {
		for (const struct record *one = NULL; (one = next_record(kinds[i], one));) {
			if (strcmp(one->words[2], "lo") != 0)
				try_route(&hop, one, to, from, index, &best);
		}
	}
	return hop;
}

/* The next hop that rdma_resolve_addr() found last: its hardware address is known. */
static struct hop resolved;

/* Return the state of a neighbour entry, or NULL if none is recorded. */
static const char *neighbour_state(const struct in6_addr *address)
{
	for (const struct record *one = NULL; (one = next_record("neighbour", one));) {
		const struct in6_addr known = gid_of(one->words[1]);

		if (!memcmp(&known, address, sizeof(known)))
			return one->words[3];
	}
	return NULL;
}

/* ---- netlink: the conversation ---- */

struct conversation {
	int protocol;
	nl_recvmsg_msg_cb_t function;
	nl_recvmsg_err_cb_t failed;
	void *context, *failed_context;
	struct nlmsghdr *request;
};

static struct conversation conversation;

int nl_connect(struct nl_sock *socket, int protocol)
{
	(void)socket;
	conversation.protocol = protocol;
	return 0;
}

int nl_socket_set_nonblocking(const struct nl_sock *socket)
{
	(void)socket;
	return 0;
}

int nl_socket_modify_cb(struct nl_sock *socket, enum nl_cb_type type, enum nl_cb_kind kind,
			nl_recvmsg_msg_cb_t function, void *context)
{
	(void)socket;
	(void)type;
	(void)kind;
	conversation.function = function;
	conversation.context = context;
	return 0;
}

int nl_socket_modify_err_cb(struct nl_sock *socket, enum nl_cb_kind kind,
			    nl_recvmsg_err_cb_t function, void *context)
{
	(void)socket;
	(void)kind;
	conversation.failed = function;
	conversation.failed_context = context;
	return 0;
}

int nl_send_auto(struct nl_sock *socket, struct nl_msg *request)
{
	(void)socket;
	conversation.request = nlmsg_hdr(request);
	return 0;
}

/* ---- netlink: the answers ---- */

static struct nl_msg *begin_answer(const void *body, size_t size)
{
	struct nl_msg *answer = nlmsg_alloc_simple(0, 0);

	assert_non_null(answer);
	memcpy(nlmsg_reserve(answer, size, NLMSG_ALIGNTO), body, size);
	return answer;
}

static void finish_answer(const struct conversation *with, struct nl_msg *answer)
{
	with->function(answer, with->context);
	nlmsg_free(answer);
}

/* Add an address: four bytes if it is an IPv4 address. */
static void put_address(struct nl_msg *answer, int type, const struct in6_addr *address)
{
	if (IN6_IS_ADDR_V4MAPPED(address))
		nla_put(answer, type, 4, address->s6_addr + 12);
	else
		nla_put(answer, type, 16, address);
}

static unsigned short hardware_type(const char *name)
{
	const char *type = value_of("link", name, "type");

	if (!type || !strcmp(type, "ether"))
		return ARPHRD_ETHER;
	if (!strcmp(type, "infiniband"))
		return ARPHRD_INFINIBAND;
	return strcmp(type, "loopback") ? ARPHRD_NONE : ARPHRD_LOOPBACK;
}

/* Add the index of the interface that `key` names. */
static void put_index(struct nl_msg *answer, int type, const char *name, const char *key)
{
	const char *other = value_of("link", name, key);

	if (other && link_index(other))
		nla_put_u32(answer, type, link_index(other));
}

static void answer_link(const struct conversation *with, const char *name)
{
	bool down = has_value("link", name, "state", "down");
	const struct ifinfomsg body = { .ifi_type = hardware_type(name),
					.ifi_index = (int)link_index(name),
					.ifi_flags = down ? 0 : IFF_UP | IFF_RUNNING };
	const char *kind = value_of("link", name, "kind"), *mtu = value_of("link", name, "mtu");
	struct nl_msg *answer = begin_answer(&body, sizeof(body));
	struct nlattr *info;

	nla_put_string(answer, IFLA_IFNAME, name);
	if (mtu)
		nla_put_u32(answer, IFLA_MTU, (uint32_t)strtoul(mtu, NULL, 10));
	put_index(answer, IFLA_LINK, name, "lower");
	put_index(answer, IFLA_MASTER, name, "master");
	if (kind) {
		info = nla_nest_start(answer, IFLA_LINKINFO);
		nla_put_string(answer, IFLA_INFO_KIND, kind);
		nla_nest_end(answer, info);
	}
	finish_answer(with, answer);
}

static void answer_links(const struct conversation *with)
{
	const struct ifinfomsg *asked = nlmsg_data(with->request);

	for (const struct record *one = NULL; (one = next_record("link", one));) {
		int index = (int)link_index(one->words[1]);

		if (is_first_of_its_name(one) && (!asked->ifi_index || asked->ifi_index == index))
			answer_link(with, one->words[1]);
	}
}

static void answer_addresses(const struct conversation *with)
{
	for (const struct record *one = NULL; (one = next_record("address", one));) {
		const struct in6_addr address = gid_of(one->words[1]);
		bool ipv4 = IN6_IS_ADDR_V4MAPPED(&address);
		const struct ifaddrmsg body = { .ifa_family = ipv4 ? AF_INET : AF_INET6,
						.ifa_prefixlen =
							(uint8_t)prefix_length(one->words[1]),
						.ifa_index = link_index(one->words[2]) };
		struct nl_msg *answer = begin_answer(&body, sizeof(body));

		if (ipv4)
			put_address(answer, IFA_LOCAL, &address);
		put_address(answer, IFA_ADDRESS, &address);
		finish_answer(with, answer);
	}
}

static void answer_neighbour(const struct conversation *with, const struct in6_addr *address,
			     const char *interface, const char *state)
{
	static const char *const names[] = { "FAILED", "INCOMPLETE", "STALE", "DELAY" };
	static const uint16_t states[] = { NUD_FAILED, NUD_INCOMPLETE, NUD_STALE, NUD_DELAY };
	struct ndmsg body = { .ndm_family = IN6_IS_ADDR_V4MAPPED(address) ? AF_INET : AF_INET6,
			      .ndm_ifindex = (int)link_index(interface),
			      .ndm_state = NUD_REACHABLE };
	struct nl_msg *answer;

	for (size_t i = 0; i < ENTRIES(names); i++) {
		if (!strcmp(state, names[i]))
			body.ndm_state = states[i];
	}
	answer = begin_answer(&body, sizeof(body));
	put_address(answer, NDA_DST, address);
	finish_answer(with, answer);
}

static void answer_neighbours(const struct conversation *with)
{
	for (const struct record *one = NULL; (one = next_record("neighbour", one));) {
		const struct in6_addr address = gid_of(one->words[1]);

		answer_neighbour(with, &address, one->words[2], one->words[3]);
	}
	if (resolved.interface && !neighbour_state(&resolved.gateway))
		answer_neighbour(with, &resolved.gateway, resolved.interface, "REACHABLE");
}

/* Copy the address of a request's attribute to `address`. Return false if there is none. */
static bool asked_address(const struct conversation *with, int type, struct in6_addr *address)
{
	struct nlattr *raw = nlmsg_find_attr(with->request, sizeof(struct rtmsg), type);
	char text[INET6_ADDRSTRLEN];

	if (!raw)
		return false;
	inet_ntop(nla_len(raw) == 4 ? AF_INET : AF_INET6, nla_data(raw), text, sizeof(text));
	*address = gid_of(text);
	return true;
}

static void answer_route(const struct conversation *with)
{
	struct nlattr *interface = nlmsg_find_attr(with->request, sizeof(struct rtmsg), RTA_OIF);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nlmsgerr failure = { 0 };
	struct in6_addr to = IN6ADDR_ANY_INIT, from;
	bool bound;
	struct nl_msg *answer;
	struct rtmsg body = { 0 };
	struct hop hop;

	assert_true(asked_address(with, RTA_DST, &to));
	bound = asked_address(with, RTA_SRC, &from);
	hop = find_hop(&to, bound ? &from : NULL, interface ? nla_get_u32(interface) : 0);
	if (hop.error) {
		failure.error = -hop.error;
		with->failed(&kernel, &failure, with->failed_context);
		return;
	}
	body.rtm_type = hop.own ? RTN_LOCAL : RTN_UNICAST;
	answer = begin_answer(&body, sizeof(body));
	put_address(answer, RTA_DST, &to);
	put_address(answer, RTA_PREFSRC, &hop.source);
	if (memcmp(&hop.gateway, &to, sizeof(to)) != 0)
		put_address(answer, RTA_GATEWAY, &hop.gateway);
	nla_put_u32(answer, RTA_OIF, link_index(hop.interface));
	finish_answer(with, answer);
}

static struct nl_msg *begin_device(size_t number)
{
	struct nl_msg *answer = begin_answer("", 0);

	nla_put_u32(answer, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)number);
	nla_put_string(answer, RDMA_NLDEV_ATTR_DEV_NAME, host.devices[number].device.name);
	return answer;
}

/* Describe a port. Only the namespace of its network interface learns the interface. */
static void answer_port(const struct conversation *with, size_t number, unsigned int port)
{
	struct nl_msg *answer = begin_device(number);
	char name[128];
	const char *interface;

	snprintf(name, sizeof(name), "%s/%u", host.devices[number].device.name, port);
	interface = value_of("port", name, "netdev");
	nla_put_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	if (interface && link_index(interface)) {
		nla_put_u32(answer, RDMA_NLDEV_ATTR_NDEV_INDEX, link_index(interface));
		nla_put_string(answer, RDMA_NLDEV_ATTR_NDEV_NAME, interface);
	}
	finish_answer(with, answer);
}

static unsigned int count_ports(const char *device)
{
	unsigned int count = 0;

	while (*line_in("sys/class/infiniband/%s/ports/%u/state", device, count + 1))
		count++;
	return count;
}

static void answer_rdma(const struct conversation *with)
{
	unsigned int command = RDMA_NL_GET_OP(with->request->nlmsg_type);
	struct nlattr *asked = nlmsg_find_attr(with->request, 0, RDMA_NLDEV_ATTR_DEV_INDEX);
	struct nl_msg *answer;

	if (command == RDMA_NLDEV_CMD_SYS_GET) {
		answer = begin_answer("", 0);
		nla_put_u8(answer, RDMA_NLDEV_SYS_ATTR_NETNS_MODE,
			   !has_value("namespace", "rdma", "mode", "exclusive"));
		finish_answer(with, answer);
	}
	for (size_t i = 0; i < host.device_count; i++) {
		if (asked && nla_get_u32(asked) != i)
			continue;
		if (command == RDMA_NLDEV_CMD_GET)
			finish_answer(with, begin_device(i));
		for (unsigned int port = 1; command == RDMA_NLDEV_CMD_PORT_GET &&
					    port <= count_ports(host.devices[i].device.name);
		     port++)
			answer_port(with, i, port);
	}
}

/* Answer the request. The program may ask again while it takes an answer. */
int nl_recvmsgs_default(struct nl_sock *socket)
{
	const struct conversation with = conversation;

	(void)socket;
	if (with.protocol == NETLINK_RDMA)
		answer_rdma(&with);
	else if (with.protocol != NETLINK_ROUTE)
		return 0;
	else if (with.request->nlmsg_type == RTM_GETLINK)
		answer_links(&with);
	else if (with.request->nlmsg_type == RTM_GETADDR)
		answer_addresses(&with);
	else if (with.request->nlmsg_type == RTM_GETNEIGH)
		answer_neighbours(&with);
	else if (with.request->nlmsg_type == RTM_GETROUTE)
		answer_route(&with);
	return 0;
}

/* ---- UDP ---- */

/* The datagram that was sent last, and the answers of the other host: "refused", "silent", ... */
static struct {
	const char *roce, *other; /* for port 4791, and for another port */
	const char *from;         /* the host that answers, or NULL: the host of the address */
	const char *answer;
	int descriptor;
	struct sockaddr_in6 target;
	const char *send_error; /* "EPERM": sendto() fails */
} udp;

int bind(int descriptor, __CONST_SOCKADDR_ARG address, socklen_t size)
{
	(void)descriptor;
	(void)address;
	(void)size;
	return 0;
}

/* Choose the source of a UDP socket. */
int connect(int descriptor, __CONST_SOCKADDR_ARG address, socklen_t size)
{
	(void)descriptor;
	memcpy(&udp.target, address.__sockaddr__, size);
	return 0;
}

int getsockname(int descriptor, __SOCKADDR_ARG address, socklen_t *restrict size)
{
	const struct in6_addr to = gid_of_address(&udp.target);
	const struct hop hop = find_hop(&to, NULL, 0);

	(void)descriptor;
	*size = sizeof(udp.target);
	set_address_of_gid(address.__sockaddr_in6__, &hop.source, hop.interface);
	return 0;
}

ssize_t sendto(int descriptor, const void *bytes, size_t size, int flags,
	       __CONST_SOCKADDR_ARG address, socklen_t address_size)
{
	(void)bytes;
	(void)flags;
	udp.descriptor = descriptor;
	memcpy(&udp.target, address.__sockaddr__, address_size);
	/* struct sockaddr_in has the port at the same place */
	udp.answer = udp.target.sin6_port == htons(4791) ? udp.roce : udp.other;
	if (!udp.answer)
		udp.answer = "silent"; /* without a real wait */
	if (!udp.send_error)
		return (ssize_t)size;
	errno = EPERM;
	return -1;
}

/* Another descriptor is one of the program's own. */
int poll(struct pollfd *wait, nfds_t count, int milliseconds)
{
	const struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
	const struct pollfd *volatile first = wait; /* the header says that poll() only writes */

	if (!udp.answer || first->fd != udp.descriptor)
		return ppoll(wait, count, milliseconds < 0 ? NULL : &time, NULL);
	return strcmp(udp.answer, "silent") != 0;
}

/* Store the ICMP message that answers the last datagram. */
ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
	static const char *const names[] = { "refused", "prohibited", "unreachable" };
	static const uint8_t codes[] = { ICMP_PORT_UNREACH, ICMP_PKT_FILTERED, ICMP_HOST_UNREACH };
	static const uint8_t codes6[] = { ICMPV6_PORT_UNREACH, ICMPV6_ADM_PROHIBITED,
					  ICMPV6_ADDR_UNREACH };
	bool ipv6 = udp.target.sin6_family == AF_INET6;
	struct {
		struct sock_extended_err error;
		struct sockaddr_in6 from;
	} * icmp;
	struct cmsghdr *part = CMSG_FIRSTHDR(message);

	(void)descriptor;
	(void)flags;
	part->cmsg_level = ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
	part->cmsg_type = ipv6 ? IPV6_RECVERR : IP_RECVERR;
	part->cmsg_len = CMSG_LEN(sizeof(*icmp));
	icmp = (void *)CMSG_DATA(part);
	memset(icmp, 0, sizeof(*icmp));
	icmp->error.ee_origin = ipv6 ? SO_EE_ORIGIN_ICMP6 : SO_EE_ORIGIN_ICMP;
	icmp->error.ee_type = ipv6 ? ICMPV6_DEST_UNREACH : ICMP_DEST_UNREACH;
	for (size_t i = 0; i < ENTRIES(names); i++) {
		if (!strcmp(udp.answer, names[i]))
			icmp->error.ee_code = ipv6 ? codes6[i] : codes[i];
	}
	icmp->from = udp.target;
	if (udp.from)
		set_address(&icmp->from, udp.from, "");
	return 0;
}

#endif
