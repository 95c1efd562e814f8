/* SPDX-License-Identifier: MIT */
#include "request.h"

#include <stdlib.h>

const char *wr_name(uint64_t wr_id, enum operation operation)
{
	switch (wr_kind(wr_id)) {
	case WR_RECEIVE:
		return "receive";
	case WR_OPERATION:
		return operation == OPERATION_WRITE ? "RDMA WRITE" : "RDMA READ";
	case WR_KEEPALIVE:
		return "keepalive";
	default:
		return message_name((enum message_type)wr_detail(wr_id));
	}
}

bool wc_shows_lost_connection(const struct ibv_wc *completion, bool iwarp)
{
	return completion->status == IBV_WC_WR_FLUSH_ERR ||
	       /* a killed peer loses its receive buffers before its queue pair */
	       completion->status == IBV_WC_REM_OP_ERR ||
	       /* soft-iWARP reports a broken TCP connection in this way */
	       (iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR &&
		wr_kind(completion->wr_id) != WR_RECEIVE);
}

enum status completion_status(const struct ibv_wc *completion)
{
	switch (completion->status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return STATUS_REFUSED;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return STATUS_PEER_LOST;
	case IBV_WC_LOC_LEN_ERR:   /* a received message is too long */
	case IBV_WC_LOC_QP_OP_ERR: /* Soft-RoCE: a received message is too long */
		return wr_kind(completion->wr_id) == WR_RECEIVE ? STATUS_CONTENTS_WRONG
								: STATUS_LOCAL_FAILURE;
	default:
		return STATUS_LOCAL_FAILURE;
	}
}

struct ibv_sge make_sge(const struct region *region, uint64_t offset, uint64_t size)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)region->memory + offset,
		.length = (uint32_t)size,
		.lkey = region->mr->lkey,
	};

	return sge;
}

struct batch *batch_create(enum operation operation, const struct region *local,
			   const struct message *remote, unsigned int inline_size)
{
	bool writes = operation == OPERATION_WRITE;
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->local = (uintptr_t)local->memory;
	batch->remote = remote->value;
	batch->inline_size = inline_size;
	for (unsigned int i = 0; i < BATCH; i++) {
		batch->sges[i] = make_sge(local, 0, 0);
		batch->requests[i] = (struct ibv_send_wr){
			.next = i + 1 < BATCH ? &batch->requests[i + 1] : NULL,
			.sg_list = &batch->sges[i],
			.num_sge = 1,
			.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.wr.rdma.rkey = remote->rkey,
		};
	}
	return batch;
}

void batch_fill(struct batch *batch, unsigned int first, const struct transfer_run *run)
{
	struct ibv_send_wr *request = &batch->requests[first], *end = request + run->count;
	uint64_t id = make_wr_id(WR_OPERATION, run->number);
	uint64_t local = batch->local + run->local;
	uint64_t remote = batch->remote + run->remote;
	uint64_t size = run->size, stride = run->stride;
	unsigned int flags =
		request->opcode == IBV_WR_RDMA_WRITE ? inline_flag(size, batch->inline_size) : 0;

	for (; request < end; request++) {
		request->wr_id = id++;
		request->sg_list->addr = local;
		request->sg_list->length = (uint32_t)size;
		request->wr.rdma.remote_addr = remote;
		request->send_flags = flags;
		local += stride;
		remote += stride;
	}
	if (run->signaled)
		end[-1].send_flags |= IBV_SEND_SIGNALED;
}
