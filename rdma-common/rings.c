// SPDX-License-Identifier: MIT
#include "rings.h"

#include "memory.h"

/* A ring is as long as its stream, but no longer than this; it is halved down to a page. */
#define RING_SIZE PAYLOAD_WHOLE
#define RING_PAGE ((uint64_t)4096)
/*
 * A server that takes many clients gives one ring this part of the memory that is left, but for
 * what as many sessions more need at least, with rings of a page each. That is half of what is left
 * at most.
 */
#define RING_SHARES      16
#define SESSIONS_TO_COME 64
#define SESSION_LEAST    ((SESSION_PAGES + 1) * RING_PAGE)

static uint64_t server_share(uint64_t left)
{
	uint64_t reserve = SESSIONS_TO_COME * SESSION_LEAST;

	return (left - (reserve < left / 2 ? reserve : left / 2)) / RING_SHARES;
}

/* The longest ring that this connection may have, one of `rings` that are still to be made. */
static uint64_t ring_share(const struct engine *engine, unsigned int rings)
{
	uint64_t left = budget_left(engine);
	uint64_t share = serves_many(engine->options) ? server_share(left) : left / rings;

	share -= share % RING_PAGE;
	if (share > RING_SIZE)
		return RING_SIZE;
	return share < RING_PAGE ? RING_PAGE : share;
}

/*
 * Creates a ring for the stream of `plan`, as long as that or as long as there is memory for it.
 * Half of that is tried, again and again, when the kernel locks no more.
 */
static enum status ring_create(struct connection *connection, struct region *region,
			       struct stream_plan *plan, unsigned int rings, unsigned int access,
			       struct failure *failure)
{
	uint64_t length = transfer_stream_length(plan),
		 size = ring_share(connection->engine, rings);
	enum status status;

	if (size > length)
		size = length;
	for (;;) {
		status = region_create(connection, region, (size_t)size, access, failure);
		if (status == STATUS_SUCCESS || size <= RING_PAGE)
			break;
		size = (size / 2 + RING_PAGE - 1) & ~(RING_PAGE - 1);
	}
	plan->ring = size;
	return status;
}

/*
 * The payload itself is the ring if it may be locked as a whole, and if its bytes stay what they
 * are: a stream of several passes may have to fill the ring anew.
 */
static bool register_payload(struct connection *connection, const struct stream_plan *plan,
			     unsigned int access)
{
	const struct payload *payload = connection->payload;
	bool fixed = plan->passes == 1 || (access && !plan->every_pass);
	struct region region = { .memory = payload->memory, .size = payload->size };

	if (!payload_is_whole(payload) || !fixed ||
	    payload->size > ring_share(connection->engine, 1) ||
	    memory_pages(payload->memory, payload->size) > budget_left(connection->engine) ||
	    region_register(connection, &region, access))
		return false;
	connection->outgoing = region;
	return true;
}

enum status register_outgoing(struct connection *connection, struct stream_plan *plan,
			      struct failure *failure)
{
	bool reading = connection->engine->options->operation == OPERATION_READ;
	/* what this side writes needs no access flag: the adapter may always read it */
	unsigned int access = reading ? IBV_ACCESS_REMOTE_READ : 0;

	if (!plan->present)
		return STATUS_SUCCESS;
	if (connection->outgoing.mr) {
		plan->ring = connection->outgoing.size;
		return STATUS_SUCCESS;
	}
	plan->ring = plan->length;
	if (register_payload(connection, plan, access))
		return STATUS_SUCCESS;
	return ring_create(connection, &connection->outgoing, plan, connection->one_way ? 1 : 2,
			   access, failure);
}

enum status register_incoming(struct connection *connection, struct stream_plan *plan,
			      struct failure *failure)
{
	bool writing = connection->engine->options->operation == OPERATION_WRITE;
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;

	if (!plan->present)
		return STATUS_SUCCESS;
	/* over iWARP the sink of an RDMA READ is written by the peer's adapter */
	if (writing || connection->limits.iwarp)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return ring_create(connection, &connection->incoming, plan, 1, access, failure);
}
