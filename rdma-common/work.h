/* SPDX-License-Identifier: MIT */
/*
 * Work requests by their wr_id, and what the failure of one means.
 */
#ifndef RDMA_COMMON_WORK_H
#define RDMA_COMMON_WORK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "status.h"

/* The kind of a work request, in the upper bits of its wr_id. The lower bits are its detail: */
enum wr_kind {
	WR_RECEIVE,   /* the slot */
	WR_MESSAGE,   /* the type */
	WR_OPERATION, /* the request's id, from transfer_next() */
	WR_PROBE,     /* nothing */
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

/* A name for messages. The string is static. */
const char *wr_name(uint64_t wr_id, enum operation operation);

/* True if a completion that failed shows no more than that. */
bool connection_has_broken(const struct ibv_wc *completion, bool iwarp);

/* Whose failure another completion that failed is (ibv_poll_cq(3)). */
enum status completion_status(const struct ibv_wc *completion);

/* Access flags in words, for traces. The string is static. */
const char *access_names(unsigned int access);

#endif
