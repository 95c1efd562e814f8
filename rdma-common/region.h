/* SPDX-License-Identifier: MIT */
/*
 * The memory of a connection that is registered with the adapter: the control region for messages,
 * and a ring for each stream; and the budget that all connections share. A region has only the
 * access that the operation needs.
 *
 * The main thread calls everything here, before the connection's thread starts or after it has
 * ended. The exception is region_deregister().
 */
#ifndef RDMA_COMMON_REGION_H
#define RDMA_COMMON_REGION_H

#include <infiniband/verbs.h>
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

/* Memory that is registered with the adapter. */
struct region {
	uint8_t *memory; /* from memory_map() */
	size_t size;     /* bytes */
	struct ibv_mr *mr;
};

/* Slots of the control region, one cache line each: receives, then one for each type of message. */
#define SLOT_SIZE ((size_t)64)
#define SEND_SLOT RECEIVES
#define SLOTS     (RECEIVES + MESSAGE_TYPES)
_Static_assert(SLOTS *SLOT_SIZE <= 4096, "SESSION_PAGES counts one page for all messages");

/* The memory of all regions of a program. */
struct region_account {
	struct memory_budget budget; /* for all sessions */
	/* Bytes of all regions, in whole pages. A region counts until its connection ends: what is
	 * deregistered before is being verified, and not freed yet. */
	uint64_t registered;
};

/* The part of a connection, and of its program, that its regions depend on. */
struct region_owner {
	struct region_account *account; /* the program's */
	unsigned int sessions;          /* the program's connections, with this one */
	int held_up;                    /* the program's stuck helpers */
	const struct options *options;
	const struct limits *limits;
	const struct log *log;
	struct ibv_pd *pd;
	bool one_way; /* the client alone operates */
};

/* Once the protection domain is there: the control region for messages. */
enum status register_control(const struct region_owner *owner, struct region *region,
			     struct failure *failure);

/*
 * Once the peer's hello is known: a ring for each stream that is present, whose length it stores in
 * the plan; `access` as its operation needs it. A ring is as long as its stream, if that is short,
 * and as there is memory for, if that is little. Anything but STATUS_SUCCESS: `*failure` says why
 * there is no memory even for a page.
 */
enum status register_outgoing(const struct region_owner *owner, struct region *region,
			      struct stream_plan *plan, struct failure *failure);
enum status register_incoming(const struct region_owner *owner, struct region *region,
			      struct stream_plan *plan, struct failure *failure);

/*
 * Deregister the memory. Return 0, or an errno value: then the adapter may still use the memory.
 * The connection's thread may call this, too, for the incoming ring before it verifies that.
 */
int region_deregister(struct region *region);

/* Frees it, unless the adapter may still use the memory, which then stays. */
void region_destroy(const struct region_owner *owner, struct region *region);

#endif
