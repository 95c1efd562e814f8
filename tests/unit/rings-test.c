// SPDX-License-Identifier: MIT
/* The rings of a connection: their length, by stream, budget and kernel, and their access flags. */
#include "rdma-common.h"
#include "rdma-common/memory.h"

#include "unit.h"

#define PAGE     ((uint64_t)4096)
#define MEBIBYTE ((uint64_t)1 << 20)
#define LONGEST  (8 * MEBIBYTE)

/* ---- A kernel that locks no more than it is told, in the place of libibverbs ---- */

static struct {
	size_t most;      /* bytes that it locks at a time */
	size_t tried[16]; /* sizes, in the order of the calls */
	unsigned int calls;
	unsigned int access; /* of the last call */
	struct ibv_mr mr;
} kernel;

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *memory, size_t size, uint64_t iova,
				unsigned int access)
{
	(void)pd;
	(void)memory;
	(void)iova;
	assert_in_range(kernel.calls, 0, 15);
	kernel.tried[kernel.calls++] = size;
	kernel.access = access;
	if (size <= kernel.most)
		return &kernel.mr;
	errno = ENOMEM;
	return NULL;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t size, int access)
{
	return ibv_reg_mr_iova2(pd, memory, size, 0, (unsigned int)access);
}

/* ---- A connection ---- */

static struct options options;
static struct engine engine;
static struct connection connection;
static struct failure failure;

/* A client that reads, both ways, with memory for everything. */
static int reset(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.most = SIZE_MAX;
	options = default_options(ROLE_CLIENT);
	options.operation = OPERATION_READ;
	memset(&engine, 0, sizeof(engine));
	engine.options = &options;
	engine.budget = UINT64_MAX;
	console_init(&engine.console, options.json);
	memset(&connection, 0, sizeof(connection));
	connection.engine = &engine;
	connection.log = (struct log){ .console = &engine.console, .options = &options };
	memset(&failure, 0, sizeof(failure));
	connection.options = &options;
	return 0;
}

static struct stream_plan plan_of(uint64_t length, uint64_t passes)
{
	return (struct stream_plan){ .present = true, .length = length, .passes = passes };
}

/* What was made, and what the connection would do with it in the end. */
static uint64_t give_back(struct region *region, enum status status)
{
	uint64_t size = region->size;

	assert_int_equal(status, STATUS_SUCCESS);
	assert_ptr_equal(region->mr, &kernel.mr);
	assert_int_equal(engine.registered, (size + PAGE - 1) / PAGE * PAGE); /* all begin a page */
	engine.registered = 0;
	assert_int_equal(memory_unmap(region->memory, region->size), 0);
	memset(region, 0, sizeof(*region));
	return size;
}

/* The length of the ring of a stream of one pass, which the plan has then, too. */
static uint64_t incoming_ring(uint64_t length)
{
	struct stream_plan plan = plan_of(length, 1);
	uint64_t size = give_back(&connection.incoming_ring,
				  register_incoming(&connection, &plan, &failure));

	assert_int_equal(plan.ring, size);
	return size;
}

static uint64_t outgoing_ring(struct stream_plan plan)
{
	uint64_t size = give_back(&connection.outgoing_ring,
				  register_outgoing(&connection, &plan, &failure));

	assert_int_equal(plan.ring, size);
	return size;
}

/* ---- Tests ---- */

TEST(a_ring_is_as_long_as_its_stream_and_no_longer_than_8_mib)
{
	struct stream_plan passes = plan_of(1000, 5);

	assert_int_equal(incoming_ring(1), 1);
	assert_int_equal(incoming_ring(5000), 5000);
	assert_int_equal(incoming_ring(LONGEST - 1), LONGEST - 1);
	assert_int_equal(incoming_ring(LONGEST + 1), LONGEST);
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), LONGEST);
	assert_int_equal(outgoing_ring(plan_of(5000, 1)), 5000);
	assert_int_equal(outgoing_ring(passes), 1000);
	passes.every_pass = true; /* then they are one stream */
	assert_int_equal(outgoing_ring(passes), 5000);
}

TEST(a_stream_that_is_not_there_has_no_ring)
{
	struct stream_plan none = { .length = 1000, .passes = 1 };

	assert_int_equal(register_outgoing(&connection, &none, &failure), STATUS_SUCCESS);
	assert_int_equal(register_incoming(&connection, &none, &failure), STATUS_SUCCESS);
	assert_int_equal(kernel.calls, 0);
	assert_null(connection.outgoing_ring.memory);
	assert_null(connection.incoming_ring.memory);
}

TEST(a_ring_is_halved_in_whole_pages_until_the_kernel_locks_it)
{
	static const size_t tried[] = { 9 * PAGE, 5 * PAGE, 3 * PAGE, 2 * PAGE, PAGE };

	kernel.most = PAGE;
	assert_int_equal(incoming_ring(9 * PAGE), PAGE);
	assert_int_equal(kernel.calls, ENTRIES(tried));
	assert_memory_equal(kernel.tried, tried, sizeof(tried));
	reset(NULL);
	kernel.most = 5 * PAGE;
	assert_int_equal(incoming_ring(8 * PAGE + 2), 5 * PAGE);
	reset(NULL);
	kernel.most = MEBIBYTE + 1;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE);
	assert_int_equal(kernel.calls, 4);
}

/* And nothing of it is left. */
TEST(not_even_a_page_is_a_failure_in_words)
{
	struct stream_plan plan = plan_of(LENGTH_UNKNOWN, 1);

	kernel.most = PAGE - 1;
	assert_int_equal(register_incoming(&connection, &plan, &failure), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(failure.cause, "cannot register 4096 bytes of memory"));
	assert_int_equal(kernel.tried[kernel.calls - 1], PAGE);
	assert_null(connection.incoming_ring.memory);
	assert_int_equal(engine.registered, 0);
	reset(NULL);
	engine.budget = PAGE - 1;
	assert_int_equal(register_outgoing(&connection, &plan, &failure), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(failure.cause, "cannot register 4096 bytes of memory"));
	assert_int_equal(kernel.calls, 0);
}

/* What is left of it is for both rings of a connection, the outgoing one first, or for one. */
TEST(a_ring_has_its_share_of_the_budget_in_whole_pages)
{
	engine.budget = 10 * PAGE - 1;
	assert_int_equal(incoming_ring(MEBIBYTE), 9 * PAGE);
	assert_int_equal(outgoing_ring(plan_of(MEBIBYTE, 1)), 4 * PAGE);
	connection.one_way = true;
	assert_int_equal(outgoing_ring(plan_of(MEBIBYTE, 1)), 9 * PAGE);
	engine.budget = PAGE;
	assert_int_equal(incoming_ring(MEBIBYTE), PAGE);
}

/* What 64 others need at least, four pages each, is left aside, or half of all. */
TEST(a_server_of_many_clients_gives_one_a_sixteenth)
{
	options.role = ROLE_SERVER;
	engine.budget = 17 * MEBIBYTE;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE);
	assert_int_equal(outgoing_ring(plan_of(LENGTH_UNKNOWN, 1)), MEBIBYTE);
	engine.budget = 2 * MEBIBYTE;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE / 16);
	engine.budget = MEBIBYTE;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE / 32);
	engine.budget = 16 * MEBIBYTE;
	options.one_off = true;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), LONGEST);
	engine.budget = 4 * MEBIBYTE;
	assert_int_equal(outgoing_ring(plan_of(LENGTH_UNKNOWN, 1)), 2 * MEBIBYTE);
}

TEST(no_side_gives_more_access_than_the_operation_needs)
{
	static const struct {
		enum operation operation;
		bool iwarp;
		unsigned int outgoing, incoming;
	} cases[] = {
		{ OPERATION_READ, false, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE },
		{ OPERATION_READ, true, IBV_ACCESS_REMOTE_READ,
		  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
		{ OPERATION_WRITE, false, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
		{ OPERATION_WRITE, true, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		options.operation = cases[i].operation;
		connection.limits.iwarp = cases[i].iwarp;
		outgoing_ring(plan_of(5000, 1));
		assert_int_equal(kernel.access, cases[i].outgoing);
		incoming_ring(5000);
		assert_int_equal(kernel.access, cases[i].incoming);
	}
}

RUN_TESTS(NULL, reset, NULL)
