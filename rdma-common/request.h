/* SPDX-License-Identifier: MIT */
/*
 * Work requests: the kind and the detail in a wr_id, the meaning of a failed completion, and the
 * batch of an operation's requests.
 *
 * Threads: the connection's thread; the main thread before and after that thread runs.
 */
#ifndef RDMA_COMMON_REQUEST_H
#define RDMA_COMMON_REQUEST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "region.h"
#include "status.h"
#include "transfer.h"
#include "wire.h"

/* The kind of a work request, in the upper bits of its wr_id. The lower bits are its detail. */
enum wr_kind {
	WR_RECEIVE,   /* detail: the receive slot */
	WR_MESSAGE,   /* detail: the message type */
	WR_OPERATION, /* detail: the number of the request (transfer_take_run()) */
	WR_KEEPALIVE, /* detail: 0 */
};

#define WR_KIND_SHIFT 56

static inline uint64_t make_wr_id(enum wr_kind kind, uint64_t detail)
{
	return (uint64_t)kind << WR_KIND_SHIFT | detail;
}

static inline enum wr_kind wr_kind(uint64_t wr_id)
{
	return (enum wr_kind)(wr_id >> WR_KIND_SHIFT);
}

static inline uint64_t wr_detail(uint64_t wr_id)
{
	return wr_id & (((uint64_t)1 << WR_KIND_SHIFT) - 1);
}

/* Return a name of the work request, for causes and traces. The string is static. */
const char *wr_name(uint64_t wr_id, enum operation operation);

/* Return true if a failed completion only shows that the connection has broken. */
bool wc_shows_lost_connection(const struct ibv_wc *completion, bool iwarp);

/* Return the status for a failed completion (ibv_poll_cq(3)), unless wc_shows_lost_connection(). */
enum status completion_status(const struct ibv_wc *completion);

/* Return a scatter/gather entry for `size` bytes of a registered region, from `offset` on. */
struct ibv_sge make_sge(const struct region *region, uint64_t offset, uint64_t size);

/*
 * Return IBV_SEND_INLINE if `size` is at most `most`, the maximum bytes of an inline request.
 * Return 0 otherwise.
 */
static inline unsigned int inline_flag(uint64_t size, unsigned int most)
{
	return size <= most ? IBV_SEND_INLINE : 0;
}

/* Maximum number of work requests in one call of ibv_post_send(3). */
#define BATCH 32

/* A linked list of work requests. Each post takes one or more, from the first on. */
struct batch {
	uint64_t local, remote;   /* start addresses of this side's and the peer's region */
	unsigned int inline_size; /* maximum bytes of an inline work request */
	struct ibv_send_wr requests[BATCH];
	struct ibv_sge sges[BATCH];
};

/*
 * Allocate a batch for an operation between `local` and the region of the peer's MSG_MR `remote`,
 * and set its constant fields. Return NULL with errno if memory runs out. The caller frees the
 * batch with free(3).
 */
struct batch *batch_create(enum operation operation, const struct region *local,
			   const struct message *remote, unsigned int inline_size);

/* Set the requests from `first` on to those of `run`. They must fit into the batch. */
void batch_fill(struct batch *batch, unsigned int first, const struct transfer_run *run);

#endif
