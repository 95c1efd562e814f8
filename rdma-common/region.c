// SPDX-License-Identifier: MIT
#include "region.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- Memory registration ---- */

static const char *access_names(unsigned int access)
{
	switch (access) {
	case IBV_ACCESS_LOCAL_WRITE:
		return "LOCAL_WRITE";
	case IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE:
		return "LOCAL_WRITE, REMOTE_WRITE";
	case IBV_ACCESS_REMOTE_READ:
		return "REMOTE_READ";
	default:
		return "none";
	}
}

void region_destroy(const struct region_owner *owner, struct region *region)
{
	int error = region->mr ? verb_error(ibv_dereg_mr(region->mr)) : 0;

	if (error)
		print_warning(owner->log->console,
			      "cannot deregister %zu bytes of memory: %s; they stay locked until "
			      "this program ends",
			      region->size, strerror(error));
	else if (region->memory && memory_unmap(region->memory, region->size))
		print_warning(owner->log->console, "cannot unmap %zu bytes of memory: %s",
			      region->size, strerror(errno));
	if (!error)
		owner->account->registered -= memory_pages(region->size);
	memset(region, 0, sizeof(*region));
}

/* Maximum length of a ring in bytes. If memory is scarce, a ring is halved down to a page. */
#define RING_SIZE ((uint64_t)8 << 20)
/*
 * Bytes of a session besides its regions: stack, state, and about 50 KiB in the kernel over
 * Soft-RoCE. A stuck helper counts as much as a session. The budget does not count the buffers of
 * helpers.
 */
#define SESSION_MEMORY ((uint64_t)64 << 10)

static uint64_t page_size(void)
{
	return memory_pages(1);
}

static uint64_t memory_taken(const struct region_account *account)
{
	uint64_t sessions = atomic_load(&account->sessions) + (uint64_t)account->stuck_helpers;

	return account->registered + sessions * SESSION_MEMORY;
}

static uint64_t subtract(uint64_t bytes, uint64_t taken)
{
	return bytes > taken ? bytes - taken : 0;
}

static uint64_t minimum(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t memory_left(const struct region_account *account)
{
	return subtract(account->budget.total, memory_taken(account));
}

static uint64_t locked_left(const struct region_account *account)
{
	return subtract(account->budget.locked, account->registered);
}

/* Explain that the budget has no `size` bytes left. */
static enum status budget_spent(const struct region_account *account, uint64_t size,
				struct failure *failure)
{
	if (memory_pages(size) > locked_left(account)) {
		errno = ENOMEM;
		return registration_failed((size_t)size, account->registered, failure);
	}
	return failure_set(failure, STATUS_LOCAL_FAILURE,
			   "cannot register %" PRIu64 " bytes of memory: the sessions use %" PRIu64
			   " KiB of the %" PRIu64
			   " KiB for all sessions, a quarter of %s; run fewer sessions at a time",
			   size, memory_taken(account) / 1024, account->budget.total / 1024,
			   account->budget.source);
}

/*
 * Map `size` zeroed bytes and register them (ibv_reg_mr(3)), if the budget permits.
 * region_destroy() frees them.
 */
static enum status region_create(const struct region_owner *owner, struct region *region,
				 size_t size, unsigned int access, struct failure *failure)
{
	uint8_t *memory;
	int error;

	if (memory_pages(size) > minimum(memory_left(owner->account), locked_left(owner->account)))
		return budget_spent(owner->account, size, failure);
	memory = memory_map(size);
	if (!memory)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate %zu bytes of memory: %s", size,
				   strerror(errno));
	*region = (struct region){ .memory = memory, .size = size };
	owner->account->registered += memory_pages(size);
	region->mr = ibv_reg_mr(owner->pd, region->memory, size, access);
	if (!region->mr) {
		error = errno;
		region_destroy(owner, region);
		errno = error;
		return registration_failed(size, owner->account->registered, failure);
	}
	print_trace(owner->log, "ibv_reg_mr: %zu byte%s at %p, rkey 0x%" PRIx32 ", access %s", size,
		    plural(size), (void *)region->memory, region->mr->rkey, access_names(access));
	return STATUS_SUCCESS;
}

/*
 * Respect the memory limits of the cgroups from now on. Skip this for the only session while its
 * ring of `length` bytes is at most a page: reading the limits takes longer than the rest of the
 * setup.
 */
static void consider_cgroups(struct region_account *account, uint64_t length)
{
	if (account->cgroups_read ||
	    (length <= page_size() && atomic_load(&account->sessions) <= 1))
		return;
	account->cgroups_read = true;
	memory_apply_cgroups(&account->budget, "");
}

enum status register_control(const struct region_owner *owner, struct region *region,
			     struct failure *failure)
{
	consider_cgroups(owner->account, 0);
	return region_create(owner, region, SLOTS * SLOT_SIZE, IBV_ACCESS_LOCAL_WRITE, failure);
}

/* ---- Rings ---- */

/*
 * A server sets memory aside for SESSIONS more sessions, each with SESSION_LEAST pages of regions.
 * That is at most half of the lockable memory. The rings of a session get half of the rest: with
 * the common limit of 8 MiB those of the first have 3.5 MiB.
 */
#define SESSIONS      64
#define SESSION_LEAST (SESSION_PAGES + 1)

/*
 * Return the number of bytes that rings may still lock. A limit that only the driver applies makes
 * rings shorter, but does not prevent a registration, because drivers of newer kernels ignore it.
 */
static uint64_t lockable(const struct region_owner *owner)
{
	uint64_t left = locked_left(owner->account);

	if (!owner->terms->limits.applies_lock_limit)
		return left;
	return minimum(left,
		       subtract(owner->account->budget.lock_limit, owner->account->registered));
}

/* Return the bytes of one session's rings on a server, which may lock `left_to_lock` more. */
static uint64_t share_of_client(const struct region_account *account, uint64_t left_to_lock)
{
	uint64_t least = page_size() * SESSION_LEAST, limit = account->registered + left_to_lock;
	uint64_t reserve = minimum(least * SESSIONS, limit / 2);
	uint64_t memory = subtract(memory_left(account), SESSIONS * (least + SESSION_MEMORY));

	return minimum(memory, subtract(left_to_lock, reserve)) / 2;
}

/*
 * Return the bytes of one session's rings in a client with `count` connections, which may lock
 * `left_to_lock` more. The connections begin together, so each gets the same.
 */
static uint64_t share_of_connection(const struct region_account *account, uint64_t left_to_lock,
				    unsigned int count)
{
	uint64_t limit = account->registered + left_to_lock;
	uint64_t memory = subtract(account->budget.total / count, SESSION_MEMORY);

	return subtract(minimum(memory, limit / count), page_size()); /* one page for messages */
}

/* Lengths in bytes of the rings of a session. A stream that is not present has length 0. */
struct ring_lengths {
	uint64_t outgoing, incoming;
};

static uint64_t *longer_ring(struct ring_lengths *lengths)
{
	return lengths->incoming > lengths->outgoing ? &lengths->incoming : &lengths->outgoing;
}

/* Return `length`, but at most the whole pages in `most` bytes. At least one page is allowed. */
static uint64_t at_most(uint64_t length, uint64_t most)
{
	most -= most % page_size();
	if (most < page_size())
		most = page_size();
	return minimum(length, most);
}

static uint64_t ring_length(const struct stream_plan *stream)
{
	return stream->present ? at_most(stream->length, RING_SIZE) : 0;
}

/*
 * Shorten the rings to the memory that is left, the longer one first. In a program with several
 * sessions, shorten them to the share of one session.
 */
static void fit_rings(const struct region_owner *owner, struct ring_lengths *lengths)
{
	const struct options *options = owner->terms->options;
	uint64_t left_to_lock = lockable(owner);
	uint64_t left = minimum(memory_left(owner->account), left_to_lock);
	uint64_t *longer = longer_ring(lengths);
	uint64_t *shorter = longer == &lengths->incoming ? &lengths->outgoing : &lengths->incoming;

	if (serves_multiple_clients(options))
		left = minimum(left, share_of_client(owner->account, left_to_lock));
	if (options->connections > 1)
		left = minimum(left, share_of_connection(owner->account, left_to_lock,
							 options->connections));
	*shorter = at_most(*shorter, left / 2);
	*longer = at_most(*longer, subtract(left, memory_pages((size_t)*shorter)));
}

static unsigned int outgoing_access(const struct region_owner *owner)
{
	/* no flag is needed for a WRITE: the adapter may always read local memory */
	return owner->terms->options->operation == OPERATION_READ ? IBV_ACCESS_REMOTE_READ : 0;
}

static unsigned int incoming_access(const struct region_owner *owner)
{
	/* over iWARP the peer's adapter writes to the sink of an RDMA READ */
	if (owner->terms->options->operation == OPERATION_WRITE || owner->terms->limits.iwarp)
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	return IBV_ACCESS_LOCAL_WRITE;
}

/* Register both rings with these lengths, or none. */
static enum status try_rings(const struct region_owner *owner, struct region *outgoing,
			     struct region *incoming, const struct ring_lengths *lengths,
			     struct failure *failure)
{
	enum status status = STATUS_SUCCESS;

	if (lengths->outgoing > 0)
		status = region_create(owner, outgoing, (size_t)lengths->outgoing,
				       outgoing_access(owner), failure);
	if (status == STATUS_SUCCESS && lengths->incoming > 0)
		status = region_create(owner, incoming, (size_t)lengths->incoming,
				       incoming_access(owner), failure);
	if (status != STATUS_SUCCESS)
		region_destroy(owner, outgoing);
	return status;
}

/*
 * If the registration fails, halve the longer ring, in whole pages, and try again. So both rings
 * shrink together, down to a page each.
 */
enum status register_rings(const struct region_owner *owner, struct region *outgoing,
			   struct region *incoming, struct transfer_plan *plan,
			   struct failure *failure)
{
	struct ring_lengths lengths = { .outgoing = ring_length(&plan->outgoing),
					.incoming = ring_length(&plan->incoming) };
	enum status status;
	uint64_t *longer;

	consider_cgroups(owner->account, *longer_ring(&lengths));
	for (;;) {
		fit_rings(owner, &lengths);
		longer = longer_ring(&lengths);
		status = try_rings(owner, outgoing, incoming, &lengths, failure);
		if (status == STATUS_SUCCESS || *longer <= page_size())
			break;
		*longer = memory_pages((size_t)*longer / 2);
	}
	plan->outgoing.ring = lengths.outgoing;
	plan->incoming.ring = lengths.incoming;
	return status;
}
