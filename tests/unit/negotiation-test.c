// SPDX-License-Identifier: MIT
/*
 * Negotiation with a peer: a hello that does or does not fit, a region that may or may not be used.
 */
#include "rdma-common.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- Regions ---- */

static bool usable(uint64_t address, uint64_t length, uint64_t needed)
{
	struct message region = { .type = MSG_MR, .value = address, .length = length, .rkey = 1 };

	return region_is_usable(&region, needed);
}

static void a_region_has_to_hold_what_was_agreed(void **state)
{
	(void)state;
	assert_true(usable(0x1000, 1024, 1024));
	assert_true(usable(0x1000, 1025, 1024));
	assert_true(usable(0x1000, UINT64_MAX - 0x1000, 1));
	assert_false(usable(0x1000, 1023, 1024));
	assert_false(usable(0x1000, 0, 1));
	assert_false(usable(0x1000, 0, 0));
	assert_false(usable(0x1000, 1024, UINT64_MAX));
}

static void a_region_at_address_zero_is_refused(void **state)
{
	(void)state;
	assert_false(usable(0, 1024, 1024));
	assert_false(usable(0, UINT64_MAX, 1));
	assert_true(usable(1, 1024, 1024));
}

static void a_region_may_end_with_the_address_space_but_not_wrap(void **state)
{
	(void)state;
	assert_true(usable(UINT64_MAX, 1, 1));
	assert_false(usable(UINT64_MAX, 2, 1));
	assert_true(usable(UINT64_MAX - 4095, 4096, 4096));
	assert_false(usable(UINT64_MAX - 4095, 4097, 4096));
	assert_false(usable(UINT64_MAX - 4094, 4096, 4096));
	assert_true(usable(1, UINT64_MAX, 1));
	assert_false(usable(2, UINT64_MAX, 1));
}

/* ---- Hello ---- */

/* hello_refusal() of a side with this role. */
static enum refusal judge(enum role role, struct options *options, enum greeting greeting,
			  const struct hello *hello)
{
	const struct introduction peer = { .greeting = greeting, .hello = *hello };

	options->role = role;
	return hello_refusal(options, 100, &peer);
}

/* A side that sends no payload must state that, and no other may. */
static void one_way_a_payload_flows_in_one_direction(void **state)
{
	static const struct {
		enum role role; /* ours */
		enum operation operation;
		bool one_way;
		uint64_t length; /* the peer's */
		enum refusal refusal;
	} cases[] = {
		{ ROLE_SERVER, OPERATION_WRITE, true, 9, REFUSAL_NONE },
		{ ROLE_SERVER, OPERATION_WRITE, true, 0, REFUSAL_LENGTH },
		{ ROLE_SERVER, OPERATION_READ, true, 0, REFUSAL_NONE },
		{ ROLE_SERVER, OPERATION_READ, true, 9, REFUSAL_LENGTH },
		{ ROLE_CLIENT, OPERATION_WRITE, true, 0, REFUSAL_NONE },
		{ ROLE_CLIENT, OPERATION_WRITE, true, 9, REFUSAL_LENGTH },
		{ ROLE_CLIENT, OPERATION_READ, true, 9, REFUSAL_NONE },
		{ ROLE_CLIENT, OPERATION_READ, true, 10,
		  REFUSAL_LENGTH }, /* more than --max-size */
		{ ROLE_CLIENT, OPERATION_READ, false, 0, REFUSAL_LENGTH },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options options = { .operation = cases[i].operation,
					   .one_way = cases[i].one_way,
					   .maximum_payload = 9 };
		struct hello hello = { .operation = (uint8_t)cases[i].operation,
				       .flags = cases[i].one_way ? HELLO_ONE_WAY : 0,
				       .length = cases[i].length };

		assert_int_equal(judge(cases[i].role, &options, GREETING_HELLO, &hello),
				 cases[i].refusal);
		hello.flags ^= HELLO_ONE_WAY; /* a server that takes no notice of --one-way */
		if (cases[i].role == ROLE_CLIENT)
			assert_int_equal(judge(ROLE_CLIENT, &options, GREETING_HELLO, &hello),
					 REFUSAL_OPERATION);
	}
}

static void a_server_says_which_clients_it_refuses(void **state)
{
	struct options options = { .operation = OPERATION_WRITE, .maximum_payload = 4096 };
	struct hello hello = { .version = HELLO_VERSION,
			       .operation = OPERATION_WRITE,
			       .length = 4096 };

	(void)state;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_NONE);
	hello.length = 1;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_NONE);
	hello.length = 4097;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_LENGTH);
	hello.length = UINT64_MAX;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_LENGTH);
	/* the number that this side takes for a length that is not known, whatever it accepts */
	options.maximum_payload = UINT64_MAX;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_LENGTH);
	options.maximum_payload = 4096;
	hello.length = 0;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_LENGTH);
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_NONE, &hello), REFUSAL_NONE);
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_VERSION, &hello), REFUSAL_VERSION);
	hello.operation = OPERATION_READ; /* is reported before the length */
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_OPERATION);
	options.operation = OPERATION_READ;
	hello.length = 64;
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_NONE);
	hello.operation = 255; /* an operation that nobody knows yet */
	assert_int_equal(judge(ROLE_SERVER, &options, GREETING_HELLO, &hello), REFUSAL_OPERATION);
}

/*
 * A stream of unknown length flows in the direction of the operation that has more than one pass:
 * this side's, or the peer's.
 */
static void what_has_no_length_has_one_pass(void **state)
{
	static const struct {
		enum operation operation;
		bool own_pipe, peers_pipe; /* what they send has no length */
		unsigned int own, peers;   /* passes; 0: until a time is up */
		enum refusal refusal;
	} cases[] = {
		{ OPERATION_READ, true, true, 1, 1, REFUSAL_NONE },
		{ OPERATION_READ, false, false, 5, 5, REFUSAL_NONE },
		{ OPERATION_READ, true, false, 5, 1, REFUSAL_NONE },
		{ OPERATION_READ, true, false, 1, 5, REFUSAL_PASSES },
		{ OPERATION_READ, true, false, 1, 0, REFUSAL_PASSES },
		{ OPERATION_READ, false, true, 5, 1, REFUSAL_PASSES },
		{ OPERATION_READ, false, true, 0, 1, REFUSAL_PASSES },
		{ OPERATION_READ, false, true, 1, 5, REFUSAL_NONE },
		{ OPERATION_WRITE, true, true, 1, 1, REFUSAL_NONE },
		{ OPERATION_WRITE, true, false, 5, 1, REFUSAL_PASSES },
		{ OPERATION_WRITE, true, false, 1, 5, REFUSAL_NONE },
		{ OPERATION_WRITE, false, true, 1, 5, REFUSAL_PASSES },
		{ OPERATION_WRITE, false, true, 1, 0, REFUSAL_PASSES },
		{ OPERATION_WRITE, false, true, 5, 1, REFUSAL_NONE },
	};
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const struct options options = { .role = roles[i % 2],
						 .operation = cases[i / 2].operation,
						 .iterations = cases[i / 2].own,
						 .duration_seconds = cases[i / 2].own ? 0 : 1,
						 .maximum_payload = 4096 };
		const struct introduction peer = {
			.greeting = GREETING_HELLO,
			.hello = { .operation = (uint8_t)cases[i / 2].operation,
				   .flags = cases[i / 2].peers_pipe ? HELLO_UNKNOWN : 0,
				   .length = cases[i / 2].peers_pipe ? 0 : 100,
				   .passes = cases[i / 2].peers }
		};

		assert_int_equal(hello_refusal(&options,
					       cases[i / 2].own_pipe ? TRANSFER_UNKNOWN : 100,
					       &peer),
				 cases[i / 2].refusal);
	}
}

/* One way: what a side would send otherwise, and how often, does not matter. */
static void a_pipe_that_is_not_sent_is_not_repeated(void **state)
{
	const struct options options = { .role = ROLE_SERVER,
					 .operation = OPERATION_WRITE,
					 .iterations = 5,
					 .maximum_payload = 4096 };
	const struct introduction peer = { .greeting = GREETING_HELLO,
					   .hello = { .operation = OPERATION_WRITE,
						      .flags = HELLO_ONE_WAY | HELLO_UNKNOWN,
						      .passes = 1 } };

	(void)state;
	assert_int_equal(hello_refusal(&options, TRANSFER_UNKNOWN, &peer), REFUSAL_NONE);
}

/* A peer asks for a pattern, or says that it sends the one that was asked for. */
static const struct hello check_hello = { .version = HELLO_VERSION,
					  .operation = OPERATION_WRITE,
					  .flags = HELLO_CHECK | HELLO_PATTERN,
					  .length = 100,
					  .passes = 1,
					  .device = "mlx5_0" };

/* What negotiate() makes of a peer's hello; `*agreement` is what was agreed. */
static enum status agreed(const struct options *options, const struct hello *hello,
			  struct agreement *agreement)
{
	struct cm_event event = { .private_data_size = HELLO_SIZE, .responder_resources = 16 };
	struct limits limits = { .depth = 1 };
	struct failure failure;

	encode_hello(hello, event.private_data);
	return negotiate(options, &event, options->one_way, 100, &limits, agreement, &failure);
}

static void what_check_asks_for_is_sent_or_the_client_ends(void **state)
{
	struct options options = { .role = ROLE_CLIENT,
				   .operation = OPERATION_WRITE,
				   .maximum_payload = 4096,
				   .check = true };
	struct hello hello = check_hello;
	struct agreement agreement;

	(void)state;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_SUCCESS);
	hello.length = 1;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_REFUSED);
	options.short_reply = true;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_SUCCESS);
	hello.flags = HELLO_CHECK;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_REFUSED);
	hello.flags = HELLO_PATTERN;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_REFUSED);
}

/* More than --max-size is the user's to allow; nothing at all is no payload. */
static void what_a_server_may_send_is_told_from_what_does_not_fit(void **state)
{
	struct options options = { .role = ROLE_CLIENT,
				   .operation = OPERATION_WRITE,
				   .maximum_payload = 100 };
	struct hello hello = check_hello;
	struct agreement agreement;

	(void)state;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_SUCCESS);
	hello.length = 101;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_REFUSED);
	hello.length = UINT64_MAX; /* no --max-size allows that */
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_CONTENTS_WRONG);
	hello.length = 0;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_CONTENTS_WRONG);
	/* only the client sends: then the server may not, be it little or much */
	options.one_way = true;
	hello.flags |= HELLO_ONE_WAY;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_SUCCESS);
	hello.length = 101;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_CONTENTS_WRONG);
}

/* An older release's server accepts it, and would send its pipe once. */
static void a_client_that_repeats_a_pipe_ends_in_words(void **state)
{
	const struct options options = { .role = ROLE_CLIENT,
					 .operation = OPERATION_WRITE,
					 .maximum_payload = 100 };
	struct hello hello = check_hello;
	struct agreement agreement;

	(void)state;
	hello.flags = HELLO_UNKNOWN;
	hello.length = 0;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_SUCCESS);
	hello.passes = 5;
	assert_int_equal(agreed(&options, &hello, &agreement), STATUS_REFUSED);
}

/* A server that says so of itself must not keep a client from storing what it receives. */
static void only_a_server_is_asked_for_a_pattern(void **state)
{
	struct options options = { .role = ROLE_SERVER,
				   .operation = OPERATION_WRITE,
				   .maximum_payload = 4096 };
	struct agreement agreement;

	(void)state;
	assert_int_equal(agreed(&options, &check_hello, &agreement), STATUS_SUCCESS);
	assert_int_equal(agreement.wanted_length, 100);
	assert_string_equal(agreement.peer_device, "mlx5_0");
	options.role = ROLE_CLIENT;
	assert_int_equal(agreed(&options, &check_hello, &agreement), STATUS_SUCCESS);
	assert_int_equal(agreement.wanted_length, 0);
}

/* What a client says of a rejection with these two bytes. */
static void expect_words(uint8_t refusal, uint8_t lacking, const char *words)
{
	const struct hello hello = { .version = HELLO_VERSION,
				     .refusal = refusal,
				     .lacking = lacking };
	struct cm_event event = { .private_data_size = HELLO_SIZE };
	struct introduction server;
	struct failure failure;

	encode_hello(&hello, event.private_data);
	server = peer_introduction(&event);
	assert_true(explain_rejection(&server, event.status, &failure));
	assert_int_equal(failure.status, STATUS_REFUSED);
	assert_string_equal(failure.cause, words);
}

/* With the right advice: what is full does not mend itself. An older server does not say which. */
static void what_a_server_is_out_of_is_told_in_words(void **state)
{
	static const char older[] = "the server refused: the server is out of resources for "
				    "another session; try again later";

	(void)state;
	expect_words(REFUSAL_RESOURCES, RESOURCE_NOT_SAID, older);
	expect_words(REFUSAL_RESOURCES, 255, older); /* nor is a later one understood */
	expect_words(REFUSAL_RESOURCES, RESOURCE_SESSION,
		     "the server refused: the server is busy: it has as many sessions as it takes; "
		     "try again later");
	expect_words(REFUSAL_RESOURCES, RESOURCE_MEMORY,
		     "the server refused: the server is out of memory for another session; raise "
		     "its locked-memory limit ('ulimit -l'), or try again when others have ended");
	expect_words(REFUSAL_RESOURCES, RESOURCE_STORAGE,
		     "the server refused: the server cannot store what it would receive; its own "
		     "messages say why, and no other try helps before that is mended");
	expect_words(REFUSAL_RESOURCES, RESOURCE_OTHER,
		     "the server refused: the server is out of resources for another session; its "
		     "own messages say which");
	expect_words(REFUSAL_LENGTH, RESOURCE_STORAGE,
		     "the server refused: the client sends nothing, or more than the server's "
		     "--max-size; send less, or raise that");
	expect_words(99, RESOURCE_STORAGE,
		     "the server refused: for a reason that this release does not know; the "
		     "server's own messages say more");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_has_to_hold_what_was_agreed),
		cmocka_unit_test(a_region_at_address_zero_is_refused),
		cmocka_unit_test(a_region_may_end_with_the_address_space_but_not_wrap),
		cmocka_unit_test(one_way_a_payload_flows_in_one_direction),
		cmocka_unit_test(a_server_says_which_clients_it_refuses),
		cmocka_unit_test(what_has_no_length_has_one_pass),
		cmocka_unit_test(a_pipe_that_is_not_sent_is_not_repeated),
		cmocka_unit_test(a_client_that_repeats_a_pipe_ends_in_words),
		cmocka_unit_test(what_check_asks_for_is_sent_or_the_client_ends),
		cmocka_unit_test(what_a_server_may_send_is_told_from_what_does_not_fit),
		cmocka_unit_test(only_a_server_is_asked_for_a_pattern),
		cmocka_unit_test(what_a_server_is_out_of_is_told_in_words),
	};

	return cmocka_run_group_tests_name("negotiation", tests, NULL, NULL);
}
