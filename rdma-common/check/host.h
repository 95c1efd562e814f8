/* SPDX-License-Identifier: MIT */
/*
 * Report this host's RDMA devices from sysfs (Documentation/ABI: stable/sysfs-class-infiniband,
 * testing/sysfs-bus-pci): adapters and their PCIe links, ports and their rates, GIDs. Open no file
 * that needs a privilege, and change no setting.
 *
 * A finding may show a limit of this host: a path is slower than the hardware could be, or packets
 * stop at a router.
 *
 * In a container, sysfs may show the adapters and GIDs of all network namespaces. Report only the
 * devices that this process can open (struct host_view), and over RoCE only the GIDs of this
 * namespace's addresses.
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

/* An address of this network namespace, and the device and port that rdma_bind_addr(3) finds. */
struct host_address {
	struct ibv_context *verbs;
	uint8_t port;
	union ibv_gid gid; /* the address in the form of a GID */
	char interface[IF_NAMESIZE];
	unsigned int interface_index;
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE]; /* as text */
};

/* The devices that this process can open, and the addresses that lead to them. */
struct host_view {
	struct ibv_context **devices;   /* the devices that rdma_get_devices(3) opened */
	struct host_address *addresses; /* their `verbs` are in `devices` */
	size_t device_count, address_count;
};

/* Return the first address that leads to a port of a device, or NULL. */
const struct host_address *host_find_address(const struct host_view *view,
					     const struct ibv_context *verbs, unsigned int port);

/*
 * Report the adapters, links, GIDs and NCCL settings of the devices of `view` to `findings`. Leave
 * out files that cannot be read. `root` is the folder that has sys and proc. It is "" except in
 * tests.
 *
 * A port counts if an address of `view` leads to it. An InfiniBand port always counts, because a
 * program without rdma_cm needs no address. An adapter counts if one of its ports does. A finding
 * fails if it shows a limit of a port or an adapter that counts. Return true if one has failed.
 */
bool host_examine(const char *root, const struct host_view *view, struct findings *findings);

/* Return true if the device with this folder in sysfs (ibdev_path) has no adapter. */
bool host_is_software(const char *device);

/* Return the transport of a port: "iwarp", "roce" or "infiniband". Return "" if it is not known. */
const char *host_transport(const char *device, unsigned int port);

/*
 * Return the link rate of a port in Gbit/s. Return 0 if the port is not active, -1 if there is no
 * such port. The rate of a software device means nothing.
 */
double host_port_rate(const char *device, unsigned int port);

/*
 * Return why routers do not forward packets of this GID, a static string. Return NULL if they do.
 * The GID is of RoCE v2 if `version_2` is true, and of RoCE v1 otherwise.
 */
const char *host_gid_note(const uint8_t gid[16], bool version_2);

/*
 * Return true if a port is active and has no GID. An active RoCE port has at least a link-local
 * GID, unless RoCE is off.
 */
bool host_port_lacks_gids(const char *device, unsigned int port);

#endif
