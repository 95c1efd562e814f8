/* SPDX-License-Identifier: MIT */
/*
 * Report this host's RDMA devices, and the limits of paths, from sysfs (Documentation/ABI:
 * stable/sysfs-class-infiniband, testing/sysfs-bus-pci): adapters and their PCIe link, ports and
 * their rate, GIDs. No file that needs a privilege is opened, and no setting is changed.
 *
 * A container may see the adapters and GIDs of all network namespaces in sysfs. Adapters that it
 * cannot open are left out (struct host_view).
 *
 * Threads: the main thread, but not during a session: a driver may ask the firmware for a file's
 * contents.
 */
#ifndef RDMA_COMMON_HOST_H
#define RDMA_COMMON_HOST_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "findings.h"

/* An address of this network namespace, with the device and port that rdma_bind_addr(3) finds. */
struct host_address {
	struct ibv_context *verbs;
	uint8_t port;
	union ibv_gid gid; /* the address in the form of a GID */
	char interface[IF_NAMESIZE];
	unsigned int interface_index;
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE]; /* as text */
};

/* The devices in sysfs that this process can use, and the addresses that lead to them. */
struct host_view {
	struct ibv_context **devices;   /* the devices that rdma_get_devices(3) opened */
	struct host_address *addresses; /* their `verbs` are in `devices` */
	size_t device_count, address_count;
};

/* Return the first address that leads to a port of a device, or NULL. */
const struct host_address *host_find_address(const struct host_view *view,
					     const struct ibv_context *verbs, unsigned int port);

/*
 * Examine the devices of `view`, and report adapters, links, GIDs and settings to `findings`.
 * `root`: the folder that has sys and proc; "" for this host. A file that cannot be read is left
 * out. Return true if a finding has failed: a path is slower than the hardware could be, or packets
 * stop at a router.
 *
 * A port is judged if an address of `view` leads to it, or if it is InfiniBand, where a program
 * without rdma_cm needs no address. An adapter is judged if one of its ports is. Other findings
 * never fail. Over RoCE only the GIDs of these addresses are reported.
 */
bool host_examine(const char *root, const struct host_view *view, struct findings *findings);

/* Return true if the device with this folder in sysfs (ibdev_path) has no adapter. */
bool host_is_software(const char *device);

/* Return the transport of a port: "iwarp", "roce", "infiniband", or "" for another or unknown one.
 */
const char *host_transport(const char *device, unsigned int port);

/*
 * Return the link rate of a port in Gbit/s. Return 0 if the port is not active, -1 if there is no
 * such port. The rate of a software device means nothing.
 */
double host_port_rate(const char *device, unsigned int port);

/* Return a note on a GID of RoCE v2 (`version_2`) or v1, a static string. NULL means none. */
const char *host_gid_note(const uint8_t gid[16], bool version_2);

/*
 * Return true if a port is active and has no GID. Such a port of RoCE has at least a link-local
 * GID, unless RoCE is off.
 */
bool host_port_lacks_gids(const char *device, unsigned int port);

#endif
