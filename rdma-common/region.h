/* SPDX-License-Identifier: MIT */
/*
 * Registered memory of a connection: the control region for messages, and a ring for each stream.
 * All connections share a budget. A region has only the access flags that the operation needs.
 *
 * Threads: the main thread, before the connection's thread starts or after it has ended.
 */
#ifndef RDMA_COMMON_REGION_H
#define RDMA_COMMON_REGION_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"
#include "memory.h"
#include "negotiate.h"
#include "options.h"
#include "status.h"
#include "transfer.h"
#include "wire.h"

/* A memory region that is registered with the adapter. */
struct region {
	uint8_t *memory;   /* from memory_map() */
	size_t size;       /* bytes */
	struct ibv_mr *mr; /* NULL if the memory is not registered */
};

/*
 * The slots of the control region: one for each receive, then one for each message type to send. A
 * slot has the size of a cache line.
 */
#define SLOT_SIZE ((size_t)64)
#define SEND_SLOT RECEIVES
#define SLOTS     (RECEIVES + MESSAGE_TYPES)
_Static_assert(SLOTS *SLOT_SIZE <= 4096,
	       "the slots must fit in the one page that SESSION_PAGES counts for them");

/* The memory of all regions of a program. */
struct region_account {
	struct memory_budget budget;
	bool cgroups_read; /* the budget respects the memory limits of the cgroups */
	/*
	 * Bytes of all regions, in whole pages. A region that cannot be deregistered counts
	 * forever.
	 */
	uint64_t registered;
	/* Sessions and stuck helpers use memory besides the regions. */
	atomic_uint sessions; /* number of connections of the program. Any thread may read it. */
	int stuck_helpers;    /* number of abandoned helpers whose call has not returned */
};

/* The state of a connection and of the program on which its regions depend. */
struct region_owner {
	struct region_account *account; /* owned by the program */
	const struct terms *terms;
	const struct log *log;
	struct ibv_pd *pd;
};

/* Register the control region for messages. owner->pd must exist. */
enum status register_control(const struct region_owner *owner, struct region *region,
			     struct failure *failure);

/*
 * Register the rings of the streams that `plan` has. The peer's hello must be known. A ring has the
 * length of one pass, but at most 8 MiB. If memory is scarce, a ring is shorter, down to a page.
 * Store the lengths in the plan. Fail if not even a page for each stream can be registered.
 */
enum status register_rings(const struct region_owner *owner, struct region *outgoing,
			   struct region *incoming, struct transfer_plan *plan,
			   struct failure *failure);

/*
 * Deregister and free the region. If it cannot be deregistered, warn, and leave the memory mapped,
 * because the adapter may still use it.
 */
void region_destroy(const struct region_owner *owner, struct region *region);

#endif
