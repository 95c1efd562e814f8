/* SPDX-License-Identifier: MIT */
/*
 * This host's RDMA devices, by what Linux has of them in sysfs (Documentation/ABI:
 * stable/sysfs-class-infiniband, testing/sysfs-bus-pci): adapters and their PCIe link, ports and
 * their rate, GIDs. It finds what makes a path slower than the hardware is, or lets it end at a
 * router. Nothing is opened that needs a permission, and nothing is set.
 *
 * No lock, any thread. A driver may ask the adapter's firmware for what is read: not to be done
 * beside a session.
 */
#ifndef RDMA_COMMON_HOST_H
#define RDMA_COMMON_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

struct host_finding {
	const char *step;          /* static: "adapter", "link", "gid" or "setting" */
	bool limited;              /* slower than the hardware could be, or not beyond a router */
	struct words text, advice; /* what was found; what to change, or empty */
};

/* Takes a finding, which is gone when it returns. */
typedef void (*host_report_function)(void *argument, const struct host_finding *finding);

/*
 * Examines all devices in the order of their names, below the folder `root`, in which sys and proc
 * are: "" for this host. Calls `report` with `argument` for each finding. What cannot be read is
 * left out; without devices there is no finding.
 */
void host_examine(const char *root, host_report_function report, void *argument);

/* Of the device with this folder in sysfs (ibv_device's ibdev_path): true if it is no adapter's. */
bool host_is_software(const char *device);

/*
 * The rate of its port's link in Gbit/s, by width and speed; 0: the port is not active; -1: there
 * is no such port. What software says is none.
 */
double host_port_rate(const char *device, unsigned int port);

/* What to change where RoCE, of version 2 or 1, uses this GID; NULL: nothing. Static. */
const char *host_gid_advice(const uint8_t gid[16], bool version_2);

#endif
