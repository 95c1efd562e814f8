/* SPDX-License-Identifier: MIT */
/*
 * Report the devices of this host: their ports, the addresses that lead to them, and the memory
 * that can be registered.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_DEVICE_H
#define RDMA_COMMON_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "findings.h"
#include "host.h"

struct devices {
	struct findings *findings;
	struct host_view view; /* this host's devices and their addresses */
	int error;             /* errno value of listing the devices, or 0 */
	int view_error;        /* errno value of finding the addresses, or 0 */
	int memory_error;      /* errno value of registering memory for a session, or 0 */
	bool any_usable;       /* an address leads to an active port with reliable connections */
	bool any_reliable;     /* a device has reliable connections */
	bool any_active;       /* a port is active */
	bool any_broken;       /* a device or port cannot be queried */
	struct ibv_context *unfound; /* a device that librdmacm does not find (guid.h), or NULL */
	bool memory_tried;           /* devices_try_memory() was called */
	bool lock_limited;           /* the locked-memory limit applies to the latest device */
};

/*
 * Report the ports of all devices. With `with_memory`, also try to register memory on each until an
 * attempt fails. Return true if a port can be used. devices_release() frees devices->view.
 */
bool devices_check(struct devices *devices, bool with_memory);
void devices_release(struct devices *devices);

/* Append the addresses of this host that lead to an RDMA device. Omit link-local IPv6 addresses. */
void devices_describe_addresses(const struct devices *devices, struct strbuf *found);

/*
 * Try to register the memory of the smallest session. Set memory_error, memory_tried and
 * lock_limited. If that works, and the locked-memory limit is below both 64 MiB and the memory
 * budget, try to exceed the limit. Some drivers ignore it, and others apply it to processes that
 * the kernel exempts, so only an attempt shows if it applies.
 */
void devices_try_memory(struct devices *devices, struct ibv_context *verbs);

/*
 * Report how much memory may be locked. If devices_try_memory() was not called, report only a limit
 * that the kernel applies. Return false if the memory of a session could not be registered.
 */
bool devices_check_memory(struct devices *devices);

#endif
