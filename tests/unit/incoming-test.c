// SPDX-License-Identifier: MIT
/* Empty the ring of the incoming payload while the peer goes on to write to it. */
#include "rdma-common/digest.h"
#include "rdma-common/incoming.h"

#include <poll.h>
#include <time.h>

#include "unit.h"

#include "folder.h"

/* One piece, so that the peer cannot overwrite a byte that is still to be copied. */
#define SIZE ((size_t)200000)

_Static_assert(SIZE <= HELPER_BUFFER, "the payload is one piece");

static uint8_t sent[SIZE], ring[SIZE];
static struct process process;
static atomic_bool output_taken;

/* Overwrite the ring. The program reads the clock after it has copied, before it verifies. */
int clock_gettime(UNUSED clockid_t id, struct timespec *now)
{
	memset(ring, '!', sizeof(ring));
	*now = (struct timespec){ 0 };
	return 0;
}

static int set_up(void **state)
{
	for (size_t i = 0; i < SIZE; i++)
		sent[i] = (uint8_t)(i * 7 / 5);
	return enter_folder(state) || pipe2(process.ended, O_CLOEXEC | O_NONBLOCK);
}

static uint64_t digest_of_sent(void)
{
	void *digest = digest_new();
	uint64_t value;

	digest_add(digest, sent, SIZE);
	value = digest_value(digest);
	digest_free(digest);
	return value;
}

/* Return a transfer whose sink has received everything, MSG_DONE included. */
static struct transfer received(void)
{
	const struct transfer_plan plan = {
		.writes = true,
		.depth = 1,
		.request_size = TRANSFER_REQUEST_SIZE,
		.credits = TRANSFER_CREDITS,
		.incoming = { .present = true, .length = SIZE, .passes = 1, .ring = SIZE },
	};
	struct transfer transfer;

	transfer_init(&transfer, &plan);
	assert_null(transfer_accept_region(&transfer, 0, 0));
	assert_null(transfer_accept_done(&transfer, SIZE));
	memcpy(ring, sent, SIZE);
	return transfer;
}

/* Take steps until one neither waits nor moves, and return its result. */
static enum incoming_step take_all(struct incoming *incoming, struct transfer *transfer)
{
	struct failure failure = { .status = STATUS_SUCCESS };
	struct pollfd ended = { .events = POLLIN };
	enum incoming_step step;

	do {
		step = incoming_step(incoming, transfer, true, digest_of_sent(), &failure);
		if (step == INCOMING_WAITS) {
			ended.fd = helper_fd(incoming->helper);
			assert_int_equal(poll(&ended, 1, 60000), 1);
		}
	} while (step == INCOMING_WAITS || step == INCOMING_MOVED);
	return step;
}

static struct incoming stores_in(const char *output)
{
	return (struct incoming){
		.ring = ring,
		.ring_size = SIZE,
		.output_taken = &output_taken,
		.output = output,
		.verification = { .has_digest = true },
	};
}

/* ---- Tests ---- */

TEST(copy_of_the_ring_is_verified_shown_and_stored)
{
	struct transfer transfer = received();
	struct incoming incoming = stores_in("stored");
	struct failure failure;

	assert_int_equal(incoming_open(&incoming, &transfer, &process, &failure), STATUS_SUCCESS);
	memcpy(ring, sent, SIZE);
	assert_int_equal(take_all(&incoming, &transfer), INCOMING_COMPLETE);
	assert_int_equal(transfer.sink.stored, SIZE);
	assert_int_equal(ring[0], '!');
	assert_memory_equal(incoming.verification.excerpt.head, sent, SHOWN_PAYLOAD);
	assert_true(incoming_release_helper(&incoming));
	incoming_free(&incoming);
	assert_stored("stored", sent, SIZE);
}

/* The ring is not emptied before the output is open, and never if it cannot be opened. */
TEST(failure_to_open_the_output_is_reported_before_a_byte_is_copied)
{
	struct transfer transfer = received();
	struct incoming incoming = stores_in("none/stored");
	struct failure failure;
	struct pollfd ended = { .events = POLLIN };
	enum incoming_step step;

	assert_int_equal(incoming_open(&incoming, &transfer, &process, &failure), STATUS_SUCCESS);
	ended.fd = helper_fd(incoming.helper);
	do
		assert_int_equal(poll(&ended, 1, 60000), 1);
	while ((step = incoming_step(&incoming, &transfer, false, 0, &failure)) == INCOMING_WAITS);
	assert_int_equal(step, INCOMING_FAILED);
	assert_int_equal(failure.status, STATUS_LOCAL_FAILURE);
	assert_string_equal(failure.cause, "cannot store the incoming payload in 'none/stored': "
					   "No such file or directory");
	assert_int_equal(incoming.verification.bytes, 0);
	assert_true(incoming_release_helper(&incoming));
	incoming_free(&incoming);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	close(process.ended[0]);
	close(process.ended[1]);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(set_up, NULL)
