// SPDX-License-Identifier: MIT
/* Work requests: their identifiers, the meaning of failed completions, the list of an operation. */
#include "rdma-common/request.h"

#include "unit.h"

TEST(a_wr_id_keeps_kind_and_detail)
{
	static const enum wr_kind kinds[] = { WR_RECEIVE, WR_MESSAGE, WR_OPERATION, WR_KEEPALIVE };
	static const uint64_t details[] = { 0, 1, ((uint64_t)1 << WR_KIND_SHIFT) - 1 };

	for (size_t i = 0; i < ENTRIES(kinds) * ENTRIES(details); i++) {
		enum wr_kind kind = kinds[i / ENTRIES(details)];
		uint64_t detail = details[i % ENTRIES(details)];
		uint64_t wr_id = make_wr_id(kind, detail);

		assert_int_equal(wr_kind(wr_id), kind);
		assert_int_equal(wr_detail(wr_id), detail);
	}
}

TEST(each_kind_of_work_request_has_its_name)
{
	assert_string_equal(wr_name(make_wr_id(WR_RECEIVE, 3), OPERATION_READ), "receive");
	assert_string_equal(wr_name(make_wr_id(WR_MESSAGE, MSG_DONE), OPERATION_READ), "MSG_DONE");
	assert_string_equal(wr_name(make_wr_id(WR_OPERATION, 9), OPERATION_READ), "RDMA READ");
	assert_string_equal(wr_name(make_wr_id(WR_OPERATION, 9), OPERATION_WRITE), "RDMA WRITE");
	assert_string_equal(wr_name(make_wr_id(WR_KEEPALIVE, 0), OPERATION_READ), "keepalive");
}

TEST(each_failed_completion_has_its_status_or_shows_a_lost_connection)
{
	static const struct {
		enum ibv_wc_status status;
		enum wr_kind kind;
		bool broken, broken_over_iwarp; /* wc_shows_lost_connection() */
		enum status expected;           /* completion_status(), unless `broken` */
	} rows[] = {
		{ IBV_WC_WR_FLUSH_ERR, WR_RECEIVE, true, true, STATUS_SUCCESS },
		{ IBV_WC_REM_OP_ERR, WR_MESSAGE, true, true, STATUS_SUCCESS },
		{ IBV_WC_REM_ACCESS_ERR, WR_OPERATION, false, false, STATUS_REFUSED },
		{ IBV_WC_REM_INV_REQ_ERR, WR_OPERATION, false, false, STATUS_REFUSED },
		{ IBV_WC_RETRY_EXC_ERR, WR_KEEPALIVE, false, false, STATUS_PEER_LOST },
		{ IBV_WC_RNR_RETRY_EXC_ERR, WR_MESSAGE, false, false, STATUS_PEER_LOST },
		{ IBV_WC_RESP_TIMEOUT_ERR, WR_OPERATION, false, false, STATUS_PEER_LOST },
		{ IBV_WC_REM_ABORT_ERR, WR_OPERATION, false, false, STATUS_PEER_LOST },
		{ IBV_WC_LOC_LEN_ERR, WR_RECEIVE, false, false, STATUS_CONTENTS_WRONG },
		{ IBV_WC_LOC_LEN_ERR, WR_OPERATION, false, false, STATUS_LOCAL_FAILURE },
		{ IBV_WC_LOC_QP_OP_ERR, WR_RECEIVE, false, false, STATUS_CONTENTS_WRONG },
		{ IBV_WC_LOC_QP_OP_ERR, WR_MESSAGE, false, true, STATUS_LOCAL_FAILURE },
		{ IBV_WC_LOC_PROT_ERR, WR_OPERATION, false, false, STATUS_LOCAL_FAILURE },
		{ IBV_WC_GENERAL_ERR, WR_RECEIVE, false, false, STATUS_LOCAL_FAILURE },
	};

	EACH_ROW (i, rows) {
		const struct ibv_wc completion = { .wr_id = make_wr_id(rows[i].kind, 1),
						   .status = rows[i].status };

		assert_int_equal(wc_shows_lost_connection(&completion, false), rows[i].broken);
		assert_int_equal(wc_shows_lost_connection(&completion, true),
				 rows[i].broken_over_iwarp);
		if (!rows[i].broken)
			assert_int_equal(completion_status(&completion), rows[i].expected);
	}
}

/* ---- The list of an operation, between 400 bytes here and a region of the peer at 70000 ---- */

static uint8_t memory[400];
static struct ibv_mr mr = { .lkey = 11 };
static const struct region local = { .memory = memory, .size = sizeof(memory), .mr = &mr };
static const struct message remote = { .type = MSG_MR, .value = 70000, .rkey = 22 };

/* Check a request of the list: its number, offset in both regions, size and flags. */
static void assert_request(const struct ibv_send_wr *request, uint64_t number, uint64_t offset,
			   uint32_t size, unsigned int flags)
{
	assert_int_equal(request->wr_id, make_wr_id(WR_OPERATION, number));
	assert_int_equal(request->num_sge, 1);
	assert_int_equal(request->sg_list->addr, (uintptr_t)memory + offset);
	assert_int_equal(request->sg_list->length, size);
	assert_int_equal(request->sg_list->lkey, mr.lkey);
	assert_int_equal(request->wr.rdma.remote_addr, remote.value + offset);
	assert_int_equal(request->wr.rdma.rkey, remote.rkey);
	assert_int_equal(request->send_flags, flags);
}

TEST(a_batch_has_the_requests_of_its_runs)
{
	/* requests 7 to 9 side by side from offset 100, and 10 and 11 both at offset 0 */
	static const struct transfer_run first = { .number = 7,
						   .local = 100,
						   .remote = 100,
						   .size = 50,
						   .stride = 50,
						   .count = 3,
						   .signaled = true };
	static const struct transfer_run second = { .number = 10, .size = 60, .count = 2 };
	struct batch *batch = batch_create(OPERATION_WRITE, &local, &remote, 50);

	assert_non_null(batch);
	batch_fill(batch, 0, &first);
	batch_fill(batch, 3, &second);
	assert_request(&batch->requests[0], 7, 100, 50, IBV_SEND_INLINE);
	assert_request(&batch->requests[1], 8, 150, 50, IBV_SEND_INLINE);
	assert_request(&batch->requests[2], 9, 200, 50, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
	assert_request(&batch->requests[3], 10, 0, 60, 0);
	assert_request(&batch->requests[4], 11, 0, 60, 0);
	assert_int_equal(batch->requests[5].wr_id, 0); /* not part of a run */
	for (unsigned int i = 0; i < BATCH; i++) {
		assert_int_equal(batch->requests[i].opcode, IBV_WR_RDMA_WRITE);
		assert_ptr_equal(batch->requests[i].next,
				 i + 1 < BATCH ? &batch->requests[i + 1] : NULL);
	}
	free(batch);
}

TEST(a_read_is_never_inline)
{
	static const struct transfer_run run = { .size = 1, .count = 1, .signaled = true };
	struct batch *batch = batch_create(OPERATION_READ, &local, &remote, 50);

	assert_non_null(batch);
	batch_fill(batch, 0, &run);
	assert_int_equal(batch->requests[0].opcode, IBV_WR_RDMA_READ);
	assert_request(&batch->requests[0], 0, 0, 1, IBV_SEND_SIGNALED);
	free(batch);
}

RUN_TESTS(NULL, NULL)
