// SPDX-License-Identifier: MIT
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "connect.h"
#include "process.h"
#include "report.h"

/* A limit of locked memory below this does not do for much: an ordinary user has 8 MiB on Debian.
 */
#define MODEST_LOCKED_MEMORY ((rlim_t)64 * 1024 * 1024)
/* Bytes of the text of a finding. */
#define TEXT_SIZE 1024

/* ---- Findings ---- */

/* With --json: an object for the finding, in the array of its step. */
static void add_object(struct check *check, const char *step, bool good, const char *text,
		       const char *advice)
{
	struct json_object *finding = json_object_new_object(), *all;

	json_add_text(finding, "status", good ? "ok" : "failed");
	json_add_text(finding, "text", text);
	json_add_text(finding, "advice", advice);
	if (!json_object_object_get_ex(check->findings, step, &all)) {
		all = json_object_new_array();
		json_object_object_add(check->findings, step, all);
	}
	json_object_array_add(all, finding);
}

/* One finding of a step: whether it is `good`, what was found, and what to change (NULL: nothing).
 */
__attribute__((format(printf, 5, 6))) static void add_finding(struct check *check, const char *step,
							      bool good, const char *advice,
							      const char *format, ...)
{
	char text[TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (check->findings) {
		add_object(check, step, good, text, advice);
		return;
	}
	print_result(check->console, "%-9s %s", step, text);
	if (advice)
		print_result(check->console, "  -> %s", advice);
}

/* ---- Devices ---- */

/* Converts an MTU of verbs to bytes. */
static unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

/* One port of a device; whether it can be used. */
static bool check_port(struct check *check, struct ibv_context *verbs, uint8_t number)
{
	const char *name = ibv_get_device_name(verbs->device), *advice = NULL;
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_port_attr port;
	char mtu[64] = "";
	int error = ibv_query_port(verbs, number, &port);

	if (error) {
		add_finding(check, "device", false, NULL, "%s port %u: cannot be queried: %s", name,
			    number, strerror(error));
		return false;
	}
	if (port.state != IBV_PORT_ACTIVE)
		advice = "it carries nothing; plug the cable in, set the network interface up ('ip "
			 "link'), or start the subnet manager of InfiniBand";
	else if (port.link_layer == IBV_LINK_LAYER_ETHERNET && port.active_mtu < port.max_mtu &&
		 !iwarp)
		advice = "larger packets are faster: raise the MTU of the network interface, as on "
			 "the other host and between ('ip link set ... mtu 4200')";
	if (!iwarp)
		snprintf(mtu, sizeof(mtu), ", MTU %u of %u bytes", mtu_bytes(port.active_mtu),
			 mtu_bytes(port.max_mtu));
	add_finding(check, "device", port.state == IBV_PORT_ACTIVE, advice, "%s port %u: %s, %s%s",
		    name, number, transport_name(verbs, &port), ibv_port_state_str(port.state),
		    mtu);
	return port.state == IBV_PORT_ACTIVE;
}

/* All ports of all devices; whether one can be used. */
static bool check_devices(struct check *check)
{
	int count = 0;
	struct ibv_context **devices = rdma_get_devices(&count);
	bool usable = false;

	for (int i = 0; devices && i < count; i++) {
		struct ibv_device_attr attributes;

		if (ibv_query_device(devices[i], &attributes))
			continue;
		for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
			usable = check_port(check, devices[i], port) || usable;
	}
	if (devices)
		rdma_free_devices(devices);
	if (!devices || count == 0)
		add_finding(
			check, "device", false,
			"see 'rdma link'; load the driver's modules and rdma_ucm, or make a "
			"software device ('rdma link add rdma0 type rxe netdev eth0'); may this "
			"user open the files in /dev/infiniband?",
			"none");
	return usable;
}

/* ---- Address and route ---- */

/* The address of one end, as a number. */
static const char *print_address(const struct sockaddr *address, char *buffer, socklen_t size)
{
	if (getnameinfo(address, address_size(address), buffer, size, NULL, 0, NI_NUMERICHOST))
		return "an unknown address";
	return buffer;
}

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "InfiniBand";
	}
}

/* True if an entry of the table of GIDs stands for the address that `id` is bound to. */
static bool is_local(const struct ibv_gid_entry *entry, struct rdma_cm_id *id)
{
	const struct sockaddr_in6 *address = (const void *)rdma_get_local_addr(id);
	/* of a link-local address alone, which several network interfaces may have */
	uint32_t scope = address->sin6_family == AF_INET6 ? address->sin6_scope_id : 0;

	return !memcmp(&entry->gid, &id->route.addr.addr.ibaddr.sgid, sizeof(entry->gid)) &&
	       (!scope || entry->ndev_ifindex == scope);
}

/*
 * Finds the entry of the port's table of GIDs that the connection would use. An adapter has one for
 * each version of RoCE, and the connection manager takes version 2 where there is one; an
 * administrator can change that (default_roce_mode in configfs).
 */
static bool find_gid(struct rdma_cm_id *id, struct ibv_gid_entry *used)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	bool found = false;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return false;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &entry, 0) ||
		    !is_local(&entry, id))
			continue;
		if (!found || entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			*used = entry;
		found = true;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			break;
	}
	return found;
}

/* ", GID ..." of the address that `id` is bound to; nothing where it has none. */
static const char *describe_gid(struct rdma_cm_id *id, char *buffer, size_t size)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct ibv_gid_entry gid;
	bool named;

	buffer[0] = '\0';
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP || !find_gid(id, &gid))
		return buffer;
	named = gid.ndev_ifindex && if_indextoname(gid.ndev_ifindex, name);
	snprintf(buffer, size, ", GID %u (%s, %s%s%s)", gid.gid_index,
		 inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)), gid_type_name(gid.gid_type),
		 named ? ", " : "", named ? name : "");
	return buffer;
}

/* Resolves the address, in as many attempts as fit in before `deadline`; 0 or an errno value. */
static int resolve(struct check *check, struct rdma_cm_id *id, struct sockaddr *address,
		   int64_t deadline)
{
	for (;;) {
		int error = resolve_address(id, NULL, address, deadline) ? errno : 0;

		if (error != ETIMEDOUT)
			return error == ETIME ? ETIMEDOUT : error;
		if (check->options->verbose)
			add_finding(check, "address", true, NULL, "no answer; asked once more");
	}
}

/* Resolves the address and then the route, before `deadline` as now_milliseconds() counts. */
static bool check_route(struct check *check, struct rdma_cm_id *id, struct sockaddr *address,
			int64_t deadline)
{
	int error = resolve(check, id, address, deadline);
	char text[NI_MAXHOST], gid[128], mtu[64] = "";
	int64_t remaining;

	if (error) {
		add_finding(
			check, "address", false,
			"is the host up ('ping')? Does 'ip route get' lead over a network interface "
			"that 'rdma link' names?",
			"not resolved: %s", strerror(error));
		return false;
	}
	add_finding(check, "address", true, NULL, "resolved: from %s by %s port %u%s",
		    print_address(rdma_get_local_addr(id), text, sizeof(text)),
		    ibv_get_device_name(id->verbs->device), id->port_num,
		    describe_gid(id, gid, sizeof(gid)));
	remaining = deadline - now_milliseconds();
	if (rdma_resolve_route(id, remaining > 1 ? (int)remaining : 1)) {
		add_finding(
			check, "route", false,
			"use an address of the network interface of an RDMA device, not a loopback "
			"one; InfiniBand: is the subnet manager running?",
			"not resolved: %s", strerror(errno));
		return false;
	}
	if (id->route.num_paths > 0)
		snprintf(mtu, sizeof(mtu), ", MTU of the path %u bytes",
			 mtu_bytes((enum ibv_mtu)id->route.path_rec[0].mtu));
	add_finding(check, "route", true, NULL, "resolved%s", mtu);
	return true;
}

/* Each address of the host in turn, until a route to one is found. */
static bool check_addresses(struct check *check)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct options *options = check->options;
	struct addrinfo *addresses, *address;
	struct rdma_cm_id *id;
	char text[NI_MAXHOST];
	bool found = false;
	int error = getaddrinfo(options->address, NULL, &hints, &addresses);

	if (error) {
		add_finding(check, "name", false, "give an address, or add the name to /etc/hosts",
			    "'%s' not resolved: %s", options->address, gai_strerror(error));
		return false;
	}
	for (address = addresses; address && !found; address = address->ai_next) {
		add_finding(check, "name", true, NULL, "'%s' is %s", options->address,
			    print_address(address->ai_addr, text, sizeof(text)));
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
			add_finding(check, "address", false, "is the module rdma_ucm loaded?",
				    "not resolved: cannot use the connection manager: %s",
				    strerror(errno));
			break;
		}
		found = check_route(check, id, address->ai_addr,
				    now_milliseconds() + timeout_milliseconds(options));
		rdma_destroy_id(id);
	}
	freeaddrinfo(addresses);
	return found;
}

/* ---- Memory ---- */

static void check_locked_memory(struct check *check)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		add_finding(check, "memory", true, NULL, "may be locked without limit");
	else
		add_finding(check, "memory", true,
			    limit.rlim_cur < MODEST_LOCKED_MEMORY
				    ? "for more, raise it ('ulimit -l', or memlock in "
				      "/etc/security/limits.conf)"
				    : NULL,
			    "%ju KiB may be locked: the rings of longer payloads are made to fit",
			    (uintmax_t)limit.rlim_cur / 1024);
}

/* ---- All of it ---- */

void check_init(struct check *check, const struct options *options, struct console *console)
{
	memset(check, 0, sizeof(*check));
	check->options = options;
	check->console = console;
	if (options->json)
		check->findings = json_object_new_object();
}

enum status check_path(struct check *check)
{
	bool usable = check_devices(check);

	usable = check_addresses(check) && usable;
	check_locked_memory(check);
	if (usable && !check->findings)
		print_result(check->console,
			     "Ready. Start 'rdma-server read' on the other host, then here:\n"
			     "  rdma-client read %s PORT",
			     check->options->address);
	return usable ? STATUS_SUCCESS : STATUS_UNRESOLVED;
}

void check_finish(struct check *check, enum status status)
{
	if (!check->findings)
		return;
	json_object_object_add(check->findings, "status", json_object_new_int((int)status));
	print_json(check->console, check->findings);
	json_object_put(check->findings);
	check->findings = NULL;
}
