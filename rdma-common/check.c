// SPDX-License-Identifier: MIT
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "connect.h"
#include "process.h"

/* A limit of locked memory below this does not do for much: an ordinary user has 8 MiB on Debian.
 */
#define MODEST_LOCKED_MEMORY ((rlim_t)64 * 1024 * 1024)

/* Converts an MTU of verbs to bytes. */
static unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

/* One port of a device; whether it can be used. */
static bool check_port(struct ibv_context *verbs, uint8_t number)
{
	const char *name = ibv_get_device_name(verbs->device);
	struct ibv_port_attr port;
	int error = ibv_query_port(verbs, number, &port);

	if (error) {
		printf("device    %s port %u: cannot be queried: %s\n", name, number,
		       strerror(error));
		return false;
	}
	printf("device    %s port %u: %s, %s", name, number, transport_name(verbs, &port),
	       ibv_port_state_str(port.state));
	if (verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		printf(", MTU %u of %u bytes", mtu_bytes(port.active_mtu), mtu_bytes(port.max_mtu));
	printf("\n");
	if (port.state != IBV_PORT_ACTIVE) {
		printf("  -> it carries nothing; plug the cable in, set the network interface up "
		       "('ip link'), or start the subnet manager of InfiniBand\n");
		return false;
	}
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET && port.active_mtu < port.max_mtu &&
	    verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		printf("  -> larger packets are faster: raise the MTU of the network interface, as on "
		       "the other host and between ('ip link set ... mtu 4200')\n");
	return true;
}

/* All ports of all devices; whether one can be used. */
static bool check_devices(void)
{
	int count = 0;
	struct ibv_context **devices = rdma_get_devices(&count);
	bool usable = false;

	for (int i = 0; devices && i < count; i++) {
		struct ibv_device_attr attributes;

		if (ibv_query_device(devices[i], &attributes))
			continue;
		for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
			usable = check_port(devices[i], port) || usable;
	}
	if (devices)
		rdma_free_devices(devices);
	if (!devices || count == 0)
		printf("device    none\n  -> see 'rdma link'; load the driver's modules and rdma_ucm, "
		       "or make a software device ('rdma link add rdma0 type rxe netdev eth0'); may "
		       "this user open the files in /dev/infiniband?\n");
	return usable;
}

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

static void print_gid(struct rdma_cm_id *id)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct ibv_gid_entry gid;

	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP || !find_gid(id, &gid))
		return;
	printf(", GID %u (%s, %s", gid.gid_index, inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)),
	       gid_type_name(gid.gid_type));
	if (gid.ndev_ifindex && if_indextoname(gid.ndev_ifindex, name))
		printf(", %s", name);
	printf(")");
}

/* Resolves the address, in as many attempts as fit in before `deadline`; 0 or an errno value. */
static int resolve(struct rdma_cm_id *id, struct sockaddr *address, int64_t deadline, bool verbose)
{
	for (;;) {
		int error = resolve_address(id, NULL, address, deadline) ? errno : 0;

		if (error != ETIMEDOUT)
			return error == ETIME ? ETIMEDOUT : error;
		if (verbose)
			printf("address   no answer; asked once more\n");
	}
}

/* Resolves the address and then the route, before `deadline` as now_milliseconds() counts. */
static bool check_route(struct rdma_cm_id *id, struct sockaddr *address, int64_t deadline,
			bool verbose)
{
	int error = resolve(id, address, deadline, verbose);
	char text[NI_MAXHOST];
	int64_t remaining;

	if (error) {
		printf("address   not resolved: %s\n  -> is the host up ('ping')? Does 'ip route get' "
		       "lead over a network interface that 'rdma link' names?\n",
		       strerror(error));
		return false;
	}
	printf("address   resolved: from %s by %s port %u",
	       print_address(rdma_get_local_addr(id), text, sizeof(text)),
	       ibv_get_device_name(id->verbs->device), id->port_num);
	print_gid(id);
	printf("\n");
	remaining = deadline - now_milliseconds();
	if (rdma_resolve_route(id, remaining > 1 ? (int)remaining : 1)) {
		printf("route     not resolved: %s\n  -> use an address of the network interface of an "
		       "RDMA device, not a loopback one; InfiniBand: is the subnet manager running?\n",
		       strerror(errno));
		return false;
	}
	printf("route     resolved");
	if (id->route.num_paths > 0)
		printf(", MTU of the path %u bytes",
		       mtu_bytes((enum ibv_mtu)id->route.path_rec[0].mtu));
	printf("\n");
	return true;
}

/* Each address of the host in turn, until a route to one is found. */
static bool check_addresses(const struct options *options)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const int64_t timeout_seconds = options->timeout_seconds;
	struct addrinfo *addresses, *address;
	struct rdma_cm_id *id;
	char text[NI_MAXHOST];
	bool found = false;
	int error = getaddrinfo(options->address, NULL, &hints, &addresses);

	if (error) {
		printf("name      '%s' not resolved: %s\n  -> give an address, or add the name to "
		       "/etc/hosts\n",
		       options->address, gai_strerror(error));
		return false;
	}
	for (address = addresses; address && !found; address = address->ai_next) {
		printf("name      '%s' is %s\n", options->address,
		       print_address(address->ai_addr, text, sizeof(text)));
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
			printf("address   not resolved: cannot use the connection manager: %s\n  -> is "
			       "the module rdma_ucm loaded?\n",
			       strerror(errno));
			break;
		}
		found = check_route(id, address->ai_addr,
				    now_milliseconds() + timeout_seconds * 1000, options->verbose);
		rdma_destroy_id(id);
	}
	freeaddrinfo(addresses);
	return found;
}

static void check_locked_memory(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		printf("memory    may be locked without limit\n");
	else
		printf("memory    %ju KiB may be locked: the rings of longer payloads are made to fit\n",
		       (uintmax_t)limit.rlim_cur / 1024);
	if (limit.rlim_cur < MODEST_LOCKED_MEMORY)
		printf("  -> for more, raise it ('ulimit -l', or memlock in "
		       "/etc/security/limits.conf)\n");
}

enum status check_path(const struct options *options)
{
	bool usable = check_devices();

	usable = check_addresses(options) && usable;
	check_locked_memory();
	if (usable)
		printf("Ready. Start 'rdma-server read' on the other host, then here:\n"
		       "  rdma-client read %s PORT\n",
		       options->address);
	return usable ? STATUS_SUCCESS : STATUS_UNRESOLVED;
}
