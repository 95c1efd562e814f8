/* SPDX-License-Identifier: MIT */
/*
 * libibverbs and librdmacm on a recorded host. An address leads to a device as in the kernel's
 * cma.c. These functions replace those of the libraries. Include this after host-kernel.h.
 */
#ifndef UNIT_HOST_VERBS_H
#define UNIT_HOST_VERBS_H

#include <rdma/rdma_cma.h>

/* ---- libibverbs ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(MAX_DEVICES + 1, sizeof(struct ibv_device *));
	int listed = 0;

	assert_non_null(list);
	for (size_t i = 0; i < host.device_count; i++) {
		if (host.devices[i].listed)
			list[listed++] = &host.devices[i].device;
	}
	if (count)
		*count = listed;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->phys_port_cnt = (uint8_t)count_ports(context->device->name);
	return 0;
}

/* Return the number of entries in the GID table of a port. */
static int count_gids(const char *device, unsigned int port)
{
	int count = 0;

	while (*line_in("sys/class/infiniband/%s/ports/%u/gids/%d", device, port, count))
		count++;
	return count;
}

static enum ibv_mtu mtu_of(const char *device, unsigned int port, const char *key)
{
	static const char *const bytes[] = { "256", "512", "1024", "2048", "4096" };
	char name[128];
	const char *mtu;

	snprintf(name, sizeof(name), "%s/%u", device, port);
	mtu = value_of("port", name, key);
	for (size_t i = 0; mtu && i < ENTRIES(bytes); i++) {
		if (!strcmp(mtu, bytes[i]))
			return (enum ibv_mtu)(i + 1);
	}
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *about)
{
	struct ibv_port_attr *attributes = (void *)about;
	const char *name = context->device->name;
	const char *layer;

	attributes->state = (enum ibv_port_state)strtoul(
		line_in("sys/class/infiniband/%s/ports/%u/state", name, port), NULL, 10);
	layer = line_in("sys/class/infiniband/%s/ports/%u/link_layer", name, port);
	attributes->link_layer = !strcmp(layer, "InfiniBand") ? IBV_LINK_LAYER_INFINIBAND
				 : !strcmp(layer, "Ethernet") ? IBV_LINK_LAYER_ETHERNET
							      : IBV_LINK_LAYER_UNSPECIFIED;
	attributes->max_mtu = mtu_of(name, port, "max_mtu");
	attributes->active_mtu = mtu_of(name, port, "active_mtu");
	attributes->gid_tbl_len = count_gids(name, port);
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	const char *name = context->device->name, *text, *interface;
	struct in6_addr gid;

	(void)flags;
	(void)size;
	text = line_in("sys/class/infiniband/%s/ports/%u/gids/%u", name, port, index);
	if (!*text)
		return EINVAL;
	gid = gid_of(text);
	if (IN6_IS_ADDR_UNSPECIFIED(&gid))
		return ENODATA;
	*entry = (struct ibv_gid_entry){ .gid_index = index, .port_num = port };
	memcpy(&entry->gid, &gid, sizeof(gid));
	text = line_in("sys/class/infiniband/%s/ports/%u/link_layer", name, port);
	if (!strcmp(text, "InfiniBand")) {
		entry->gid_type = IBV_GID_TYPE_IB;
		return 0;
	}
	text = line_in("sys/class/infiniband/%s/ports/%u/gid_attrs/types/%u", name, port, index);
	entry->gid_type = strcmp(text, "RoCE v2") ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	interface =
		line_in("sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%u", name, port, index);
	entry->ndev_ifindex = link_index(interface) ? link_index(interface) : FOREIGN_INDEX + index;
	return 0;
}

/* Any object serves: the program passes it back. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return (void *)context;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t size, int rights)
{
	(void)pd;
	(void)size;
	(void)rights;
	return memory;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

/* ---- The device of an address ---- */

struct found_port {
	struct recorded_device *device;
	uint8_t number;
	struct in6_addr gid;
};

/* Return the last 16 bytes of the hardware address of IPoIB, which are a GID. */
static bool ipoib_gid(const char *interface, struct in6_addr *gid)
{
	const char *address = value_of("link", interface, "address");

	for (size_t i = 0; address && i < 20; i++) {
		if (i >= 4)
			gid->s6_addr[i - 4] = (uint8_t)strtoul(address, NULL, 16);
		address = strlen(address) > 3 ? address + 3 : address;
	}
	return address;
}

/* Return true if the port sends from an address of this interface: the kernel asks for a GID. */
static bool serves(const char *device, unsigned int port, bool iwarp, const struct in6_addr *gid,
		   const char *interface)
{
	char name[128], text[INET6_ADDRSTRLEN];

	snprintf(name, sizeof(name), "%s/%u", device, port);
	if (iwarp)
		return has_value("port", name, "netdev", interface);
	inet_ntop(AF_INET6, gid, text, sizeof(text));
	for (int i = 0; i < count_gids(device, port); i++) {
		const struct in6_addr own = gid_of(
			line_in("sys/class/infiniband/%s/ports/%u/gids/%d", device, port, i));

		if (memcmp(&own, gid, sizeof(own)) != 0)
			continue;
		if (hardware_type(interface) == ARPHRD_INFINIBAND ||
		    !strcmp(line_in("sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%d", device,
				    port, i),
			    interface))
			return true;
	}
	return false;
}

/* Find the port that sends from an address of an interface. Return false if none does. */
static bool find_port(const struct in6_addr *address, const char *interface,
		      struct found_port *found)
{
	found->gid = *address;
	if (hardware_type(interface) == ARPHRD_INFINIBAND && !ipoib_gid(interface, &found->gid))
		return false;
	for (size_t i = 0; i < host.device_count; i++) {
		struct recorded_device *one = &host.devices[i];
		bool iwarp = one->device.transport_type == IBV_TRANSPORT_IWARP;

		for (unsigned int port = 1; port <= count_ports(one->device.name); port++) {
			if (!serves(one->device.name, port, iwarp, &found->gid, interface))
				continue;
			found->device = one;
			found->number = (uint8_t)port;
			return true;
		}
	}
	return false;
}

/* ---- librdmacm ---- */

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = calloc(MAX_DEVICES + 1, sizeof(struct ibv_context *));
	int opened = 0;

	assert_non_null(list);
	for (size_t i = 0; i < host.device_count; i++) {
		if (host.devices[i].listed)
			list[opened++] = &host.devices[i].context;
	}
	if (count)
		*count = opened;
	if (opened > 0)
		return list;
	free(list);
	errno = ENODEV;
	return NULL;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space space)
{
	*id = calloc(1, sizeof(**id));
	assert_non_null(*id);
	(*id)->channel = channel;
	(*id)->context = context;
	(*id)->ps = space;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id->route.path_rec);
	free(id);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
	(void)id;
	(void)level;
	(void)option;
	(void)value;
	(void)size;
	return 0;
}

/* Return the interface that has an address of this host, or NULL if none has it. */
static const char *interface_of(const struct sockaddr *address)
{
	const struct in6_addr wanted = gid_of_address(address);
	const struct sockaddr_in6 *ipv6 = (const void *)address;

	if (address->sa_family == AF_INET6 && ipv6->sin6_scope_id)
		return link_name(ipv6->sin6_scope_id);
	for (const struct record *one = NULL; (one = next_record("address", one));) {
		const struct in6_addr own = gid_of(one->words[1]);

		if (!memcmp(&own, &wanted, sizeof(own)))
			return one->words[2];
	}
	return NULL;
}

/* Bind `id` to the device of an address. Return false if no device has the address. */
static bool bind_to_device(struct rdma_cm_id *id, const struct in6_addr *address,
			   const char *interface)
{
	struct found_port found;
	const char *guid;

	if (!find_port(address, interface, &found))
		return false;
	/* librdmacm finds a device by its node GUID */
	guid = line_in("sys/class/infiniband/%s/node_guid", found.device->device.name);
	if (found.device->listed && (!*guid || guid[strspn(guid, "0:")]))
		id->verbs = &found.device->context;
	id->port_num = found.number;
	memcpy(&id->route.addr.addr.ibaddr.sgid, &found.gid, sizeof(found.gid));
	return true;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	const struct in6_addr own = gid_of_address(address);
	const char *interface = interface_of(address);

	memcpy(&id->route.addr.src_storage, address,
	       address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6));
	if (interface && (!strcmp(interface, "lo") || bind_to_device(id, &own, interface)))
		return 0;
	errno = interface ? ENODEV : EADDRNOTAVAIL;
	return -1;
}

/* Resolve as the kernel does: it asks for a route with the interface of the bound address. */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		      int milliseconds)
{
	const struct in6_addr to = gid_of_address(address);
	struct in6_addr from = IN6ADDR_ANY_INIT;
	const struct sockaddr_in6 *ipv6 = (void *)address;
	unsigned int index = address->sa_family == AF_INET6 ? ipv6->sin6_scope_id : 0;
	const char *state;
	struct hop hop;

	(void)milliseconds;
	if (source) {
		if (rdma_bind_addr(id, source))
			return -1;
		from = gid_of_address(source);
		index = link_index(interface_of(source));
	}
	resolved.interface = NULL;
	hop = find_hop(&to, source ? &from : NULL, index);
	errno = hop.error;
	if (errno)
		return -1;
	state = neighbour_state(&hop.gateway);
	errno = ETIMEDOUT;
	if (!hop.own && state && !strcmp(state, "FAILED"))
		return -1;
	resolved = hop;
	set_address_of_gid(&id->route.addr.src_sin6, &hop.source, hop.interface);
	if (hop.own)
		hop.interface = interface_of(&id->route.addr.src_addr);
	memcpy(&id->route.addr.dst_storage, address,
	       address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(*ipv6));
	if (bind_to_device(id, &hop.source, hop.interface))
		return 0;
	errno = ENODEV;
	return -1;
}

int rdma_resolve_route(struct rdma_cm_id *id, int milliseconds)
{
	(void)milliseconds;
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return 0;
	id->route.path_rec = calloc(1, sizeof(*id->route.path_rec));
	assert_non_null(id->route.path_rec);
	id->route.path_rec->mtu =
		(uint8_t)mtu_of(id->verbs->device->name, id->port_num, "active_mtu");
	id->route.num_paths = 1;
	return 0;
}

#endif
