// SPDX-License-Identifier: MIT
#include "guid.h"

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "interfaces.h"
#include "negotiate.h"
#include "reasons.h"
#include "sysfs.h"

bool guid_is_zero(struct ibv_device *device)
{
	const struct device_name name = device_name(device);
	struct sysfs_line guid = sysfs_read_line("%s/node_guid", device_folder(device, &name).text);

	return guid.text[0] && !guid.text[strspn(guid.text, "0:")];
}

/* Return true if a port of the device has the GID of the address that `id` is bound to. */
static bool has_gid_of(struct ibv_context *device, struct rdma_cm_id *id)
{
	struct ibv_device_attr attributes;
	struct ibv_gid_entry entry;

	if (ibv_query_device(device, &attributes))
		return false;
	for (unsigned int port = 1; port <= attributes.phys_port_cnt; port++) {
		if (find_gid_of_port(id, device, (uint8_t)port, &entry))
			return true;
	}
	return false;
}

struct ibv_context *guid_find(struct ibv_context *const *devices, struct rdma_cm_id *id)
{
	/* GID of an id that is bound to no device, as with a wildcard or loopback address */
	static const union ibv_gid unbound;

	if (id->verbs || !memcmp(&id->route.addr.addr.ibaddr.sgid, &unbound, sizeof(unbound)))
		return NULL;
	for (; devices && *devices; devices++) {
		if (guid_is_zero((*devices)->device) && has_gid_of(*devices, id))
			return *devices;
	}
	return NULL;
}

static bool any_is_zero(struct ibv_context *const *devices)
{
	for (; devices && *devices; devices++) {
		if (guid_is_zero((*devices)->device))
			return true;
	}
	return false;
}

/* Store the address from which the kernel would send to `address`. Return false if none exists. */
static bool choose_own_address(const struct sockaddr *address, struct sockaddr_storage *own)
{
	int udp = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*own);
	bool found;

	if (udp < 0)
		return false;
	found = !connect(udp, address, address_size(address)) &&
		!getsockname(udp, (struct sockaddr *)own, &size);
	close(udp);
	return found;
}

struct ibv_context *guid_find_for(struct ibv_context *const *devices, struct sockaddr *source,
				  const struct sockaddr *address)
{
	struct ibv_context *device = NULL;
	struct sockaddr_storage own = { 0 };
	struct rdma_cm_id *id;

	if (!any_is_zero(devices)) /* ask for a route only if the answer matters */
		return NULL;
	if (source)
		memcpy(&own, source, address_size(source));
	else if (!choose_own_address(address, &own))
		return NULL;
	/* struct sockaddr_in6 has the port at the same place */
	((struct sockaddr_in *)(void *)&own)->sin_port = 0;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return NULL;
	if (!rdma_bind_addr(id, (struct sockaddr *)&own))
		device = guid_find(devices, id);
	rdma_destroy_id(id);
	return device;
}

struct strbuf guid_describe(struct ibv_context *device)
{
	struct strbuf text = { 0 };

	strbuf_addf(&text, ZERO_GUID("%s") ": " ZERO_GUID_ADVICE, device_name(device->device).text);
	return text;
}
