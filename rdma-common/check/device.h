/* SPDX-License-Identifier: MIT */
/*
 * The devices of this host that --check finds: their ports, the addresses that lead to them, and
 * the memory that can be registered.
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
	struct host_view view; /* this host's devices */
	int error;             /* of listing the devices, an errno value; 0: none */
	int view_error;        /* of finding its addresses, an errno value; 0: none */
	int memory_error;      /* of registering what a session needs; 0: none */
	bool memory_tried;     /* it was tried to register memory, */
	bool lock_limited;     /* and the locked-memory limit is in force */
};

/*
 * Check all devices and report their ports. With `with_memory`, also try to register memory on
 * each. Return true if a port can be used. devices_release() frees devices->view.
 */
bool devices_check(struct devices *devices, bool with_memory);
void devices_release(struct devices *devices);

/* Append the addresses at which other hosts reach this one, if there are any. */
void devices_describe_addresses(const struct devices *devices, struct strbuf *found);

/*
 * Find out by trying what can be registered: what the smallest session needs, and more than the
 * locked-memory limit, if there is memory for that: a driver may apply the limit where the kernel
 * does not, or not at all. What fails although it is below the limit does not fail because of it.
 */
void devices_try_memory(struct devices *devices, struct ibv_context *verbs);

/*
 * Report what may be locked. Where no device was tried, the kernel's limit alone is known. False:
 * there is not enough for a session.
 */
bool devices_check_memory(struct devices *devices);

#endif
