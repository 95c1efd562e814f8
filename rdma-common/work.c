// SPDX-License-Identifier: MIT
#include "work.h"

#include "wire.h"

const char *wr_name(uint64_t wr_id, enum operation operation)
{
	switch (wr_kind(wr_id)) {
	case WR_RECEIVE:
		return "receive";
	case WR_OPERATION:
		return operation == OPERATION_WRITE ? "RDMA WRITE" : "RDMA READ";
	case WR_PROBE:
		return "probe";
	default:
		return message_name((enum message_type)wr_detail(wr_id));
	}
}

bool connection_has_broken(const struct ibv_wc *completion, bool iwarp)
{
	return completion->status == IBV_WC_WR_FLUSH_ERR ||
	       /* the receive buffers of a program that is killed go before its queue pair */
	       completion->status == IBV_WC_REM_OP_ERR ||
	       /* how soft-iWARP reports that the TCP connection has broken */
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
	case IBV_WC_LOC_LEN_ERR:   /* a message larger than any of this protocol... */
	case IBV_WC_LOC_QP_OP_ERR: /* ...and what Soft-RoCE makes of it */
		return wr_kind(completion->wr_id) == WR_RECEIVE ? STATUS_CONTENTS_WRONG
								: STATUS_LOCAL_FAILURE;
	default:
		return STATUS_LOCAL_FAILURE;
	}
}

const char *access_names(unsigned int access)
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
