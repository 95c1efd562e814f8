// SPDX-License-Identifier: MIT
#include "device.h"

#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../guid.h"
#include "../negotiate.h"
#include "../memory.h"
#include "../process.h"
#include "../reasons.h"

/* A locked-memory limit below this many bytes may cause failures. Debian sets 8 MiB. */
#define MODEST_LOCKED_MEMORY ((uint64_t)64 * 1024 * 1024)

/* ---- Addresses of this host that lead to a device ---- */

/*
 * Add an address to `view` if the connection manager finds a device for it. The kernel finds one
 * only if this network namespace has the device's network interface (cma_acquire_dev_by_src_ip() of
 * its cma.c), whatever GIDs the device shows here. librdmacm finds only devices that it can open.
 * Return 0, EADDRNOTAVAIL if no port is free, or the errno value of rdma_create_id(3).
 */
static int bind_address(struct host_view *view, const struct ifaddrs *one)
{
	struct host_address *found = &view->addresses[view->address_count];
	struct rdma_cm_id *id;
	int error = 0;

	if (!one->ifa_addr ||
	    (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
		return 0;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return errno;
	if (rdma_bind_addr(id, one->ifa_addr))
		error = no_port_is_free(errno) ? EADDRNOTAVAIL : 0;
	else if (id->verbs) { /* a loopback address is accepted, but leads to no device */
		*found = (struct host_address){ .verbs = id->verbs,
						.port = id->port_num,
						.gid = id->route.addr.addr.ibaddr.sgid };
		/* an IPv4 address may have a label: "eth0:1" */
		snprintf(found->interface, sizeof(found->interface), "%.*s",
			 (int)strcspn(one->ifa_name, ":"), one->ifa_name);
		found->interface_index = if_nametoindex(found->interface);
		snprintf(found->address, sizeof(found->address), "%s",
			 endpoint_of(one->ifa_addr).address);
		view->address_count++;
	}
	rdma_destroy_id(id);
	return error;
}

/* Store all addresses of this namespace that lead to a device. Return 0 or an errno value. */
static int find_own_addresses(struct host_view *view)
{
	struct ifaddrs *all;
	size_t count = 0;
	int error = 0;

	if (getifaddrs(&all))
		return errno;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		count++;
	view->addresses = calloc(count + 1, sizeof(*view->addresses));
	if (!view->addresses)
		error = ENOMEM;
	for (const struct ifaddrs *one = all; one && !error; one = one->ifa_next)
		error = bind_address(view, one);
	freeifaddrs(all);
	return error;
}

/* ---- Devices ---- */

static void describe_port(const struct devices *devices, struct ibv_context *verbs, uint8_t number,
			  const struct ibv_port_attr *port)
{
	struct strbuf *found = &devices->findings->found;
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET && !iwarp;

	strbuf_addf(found, ": %s, %s", transport_name(verbs, port),
		    ibv_port_state_str(port->state));
	if (!iwarp)
		strbuf_addf(found, ", MTU %u bytes (maximum %u%s)", mtu_bytes(port->active_mtu),
			    mtu_bytes(port->max_mtu),
			    ethernet && port->active_mtu < port->max_mtu
				    ? ": raise the MTU of hosts and switches for faster transfers"
				    : "");
	if (ethernet && host_port_lacks_gids(verbs->device->ibdev_path, number))
		strbuf_addf(found, ", no GID: RoCE is off");
}

/* Note if sessions can use a port, and if librdmacm cannot find its device. */
static void note_port(struct devices *devices, struct ibv_context *verbs, uint8_t number,
		      const struct ibv_port_attr *port)
{
	enum ibv_transport_type transport = verbs->device->transport_type;
	bool reliable = transport == IBV_TRANSPORT_IWARP || transport == IBV_TRANSPORT_IB;
	bool active = port->state == IBV_PORT_ACTIVE;
	bool reached = devices->view_error || host_find_address(&devices->view, verbs, number);

	devices->any_reliable |= reliable;
	devices->any_active |= active;
	devices->any_usable |= reliable && active && reached;
	/* node GUID 0 is normal for efa, and for mana's device for raw packets, which has no GID */
	if (reached || !reliable || !active ||
	    host_port_lacks_gids(verbs->device->ibdev_path, number) || !guid_is_zero(verbs->device))
		return;
	devices->unfound = verbs;
	strbuf_addf(&devices->findings->advice, "%s", guid_describe(verbs).text);
}

/* Report a device or port. `error` is the errno value of the query, or 0. */
static void report_device(struct devices *devices, int error)
{
	if (error) {
		strbuf_addf(&devices->findings->found, ": cannot be queried: %s", strerror(error));
		strbuf_addf(&devices->findings->advice, "see 'dmesg', or use another device");
	}
	devices->any_broken |= error;
	findings_report(devices->findings, "device", !error);
}

/* Report the ports of a device, or that the device cannot be queried. */
static void check_device(struct devices *devices, struct ibv_context *verbs)
{
	const char *name = ibv_get_device_name(verbs->device);
	struct ibv_device_attr attributes = { 0 };
	int error = verb_error(ibv_query_device(verbs, &attributes));

	if (error) {
		strbuf_addf(&devices->findings->found, "%s", name);
		report_device(devices, error);
		return;
	}
	/* a uint8_t would become 0 after port 255 */
	for (unsigned int number = 1; number <= attributes.phys_port_cnt; number++) {
		struct ibv_port_attr port;

		strbuf_addf(&devices->findings->found, "%s port %u", name, number);
		error = verb_error(ibv_query_port(verbs, (uint8_t)number, &port));
		if (!error) {
			describe_port(devices, verbs, (uint8_t)number, &port);
			note_port(devices, verbs, (uint8_t)number, &port);
		}
		report_device(devices, error);
	}
}

/* ---- Memory ---- */

/* Register `size` bytes with the device, then release them. Return 0 or an errno value. */
static int try_to_register(const struct devices *devices, struct ibv_context *verbs, size_t size)
{
	void *memory = memory_map(size);
	struct ibv_pd *pd = memory ? ibv_alloc_pd(verbs) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct console *console = devices->findings->console;
	int error = mr ? 0 : errno, stays;

	stays = mr ? verb_error(ibv_dereg_mr(mr)) : 0;
	if (stays)
		print_warning(console, "%s cannot deregister %zu bytes of memory: %s",
			      device_name(verbs->device).text, size, strerror(stays));
	else if (memory)
		memory_unmap(memory, size);
	stays = pd ? verb_error(ibv_dealloc_pd(pd)) : 0;
	if (stays)
		print_warning(console, "%s cannot free a protection domain: %s",
			      device_name(verbs->device).text, strerror(stays));
	return error;
}

/* Return true if the limit is modest, and below the memory budget of a program's sessions. */
static bool is_below_budget(const struct lock_limit *lock)
{
	struct memory_budget budget = memory_budget();

	if (lock->bytes >= MODEST_LOCKED_MEMORY)
		return false;
	memory_apply_cgroups(&budget, "");
	return lock->bytes < budget.total;
}

void devices_try_memory(struct devices *devices, struct ibv_context *verbs)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), needed = SESSION_PAGES * page;
	struct lock_limit lock = memory_lock_limit();

	devices->memory_error = try_to_register(devices, verbs, needed);
	devices->memory_tried = true;
	if (devices->memory_error)
		devices->lock_limited = lock.bytes < needed && (devices->memory_error == ENOMEM ||
								devices->memory_error == EPERM);
	else if (is_below_budget(&lock))
		devices->lock_limited =
			try_to_register(devices, verbs, (size_t)lock.bytes + page) != 0;
	else
		devices->lock_limited = lock.bytes != UINT64_MAX;
}

/* ---- All devices ---- */

/*
 * Report that no device or address of this host is found. `error` is the errno value of the search,
 * or 0 if it did not fail. Return false.
 */
static bool report_none(struct devices *devices, const char *text, int error)
{
	bool exhausted = error == EADDRNOTAVAIL;
	const char *advice = exhausted ? NO_PORT_ADVICE : descriptor_advice(error);

	strbuf_addf(&devices->findings->found, "%s%s%s", text, error ? ": " : "",
		    exhausted ? NO_PORT_REASON
		    : error   ? strerror(error)
			      : "");
	strbuf_addf(&devices->findings->advice, "%s", advice ? advice : "");
	return findings_report(devices->findings, "device", false);
}

bool devices_check(struct devices *devices, bool with_memory)
{
	struct host_view *view = &devices->view;
	int count = 0;

	errno = 0;
	view->devices = rdma_get_devices(&count);
	devices->error = view->devices ? 0 : errno;
	view->device_count = view->devices ? (size_t)count : 0;
	if (view->device_count > 0)
		devices->view_error = find_own_addresses(view);
	for (size_t i = 0; i < view->device_count; i++) {
		check_device(devices, view->devices[i]);
		if (with_memory && !devices->memory_error)
			devices_try_memory(devices, view->devices[i]);
	}
	if (devices->view_error)
		return report_none(
			devices,
			"cannot find out which addresses of this host lead to an RDMA port",
			devices->view_error);
	return view->device_count > 0 ? devices->any_usable
				      : report_none(devices, "none",
						    devices->error == ENODEV ? 0 : devices->error);
}

void devices_describe_addresses(const struct devices *devices, struct strbuf *found)
{
	const struct host_view *view = &devices->view;

	for (size_t i = 0; i < view->address_count; i++) {
		const struct host_address *one = &view->addresses[i];

		if (strncmp(one->address, "fe80:", 5) != 0)
			strbuf_addf(found, "%s%s (%s, %s)",
				    found->length ? ", " : "addresses with an RDMA device: ",
				    one->address, ibv_get_device_name(one->verbs->device),
				    one->interface);
	}
}

void devices_release(struct devices *devices)
{
	if (devices->view.devices)
		rdma_free_devices(devices->view.devices);
	free(devices->view.addresses);
	devices->view = (struct host_view){ 0 };
}

bool devices_check_memory(struct devices *devices)
{
	struct lock_limit lock = memory_lock_limit();
	bool good = !devices->memory_error;
	bool limited = devices->memory_tried ? devices->lock_limited : lock.applies;
	const char *advice = shortage_advice(devices->memory_error);

	if (!devices->memory_tried && !limited)
		return true;
	if (!good)
		strbuf_addf(&devices->findings->found,
			    "cannot register the %ld KiB that a session needs: %s%s",
			    SESSION_PAGES * sysconf(_SC_PAGESIZE) / 1024,
			    strerror(devices->memory_error), limited ? "; " : "");
	if (limited)
		strbuf_addf(&devices->findings->found, "%" PRIu64 " KiB may be locked",
			    lock.bytes / 1024);
	if (good)
		strbuf_addf(&devices->findings->found,
			    limited ? ": longer payloads are transferred in pieces"
				    : "may be locked without limit");
	if (!good && limited && lock.bytes < MODEST_LOCKED_MEMORY)
		advice = "raise the locked-memory limit " RAISE_LOCK_LIMIT;
	strbuf_addf(&devices->findings->advice, "%s", advice ? advice : "");
	return findings_report(devices->findings, "memory", good);
}
