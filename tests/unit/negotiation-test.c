// SPDX-License-Identifier: MIT
/*
 * Negotiation with a peer: regions that may be used, hellos that are accepted or refused, and the
 * agreement of both sides.
 */
#include "rdma-common.h"

#include "unit.h"

/* ---- Regions ---- */

TEST(a_region_that_is_too_small_or_wraps_is_rejected)
{
	static const struct {
		uint64_t address, length, needed;
		bool usable;
	} cases[] = {
		/* clang-format off */
		{ 0x1000, 1024, 1024, true }, { 0x1000, 1025, 1024, true }, { 0x1000, UINT64_MAX - 0x1000, 1, true },
		{ 0x1000, 1023, 1024, false }, { 0x1000, 0, 1, false }, { 0x1000, 0, 0, false }, { 0x1000, 1024, UINT64_MAX, false },
		/* address 0 is not usable */
		{ 0, 1024, 1024, false }, { 0, UINT64_MAX, 1, false }, { 1, 1024, 1024, true },
		/* a region may end at the end of the address space */
		{ UINT64_MAX, 1, 1, true }, { UINT64_MAX, 2, 1, false },
		{ UINT64_MAX - 4095, 4096, 4096, true }, { UINT64_MAX - 4095, 4097, 4096, false }, { UINT64_MAX - 4094, 4096, 4096, false },
		{ 1, UINT64_MAX, 1, true }, { 2, UINT64_MAX, 1, false },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct message region = { .type = MSG_MR,
					  .value = cases[i].address,
					  .length = cases[i].length,
					  .rkey = 1 };

		assert_int_equal(region_is_usable(&region, cases[i].needed), cases[i].usable);
	}
}

/* ---- Hello ---- */

#define READ  OPERATION_READ
#define WRITE OPERATION_WRITE
#define ANY   OPERATION_ANY
#define ONE   HELLO_ONE_WAY
#define PIPE  HELLO_UNKNOWN

/* --max-size is 9. A side without a payload must announce length 0, a side with one must not. */
TEST(an_incompatible_hello_is_refused)
{
	static const struct {
		enum role role; /* this side */
		enum operation operation;
		bool one_way;
		enum hello_kind hello_kind; /* the peer's hello */
		unsigned int operation_there, flags;
		uint64_t length;
		enum refusal refusal;
	} cases[] = {
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, 0, 9, REFUSAL_NONE },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, 0, 1, REFUSAL_NONE },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, 0, 10, REFUSAL_LENGTH },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, 0, UINT64_MAX, REFUSAL_LENGTH },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, 0, 0, REFUSAL_LENGTH },
		{ ROLE_SERVER, WRITE, false, HELLO_ABSENT, WRITE, 0, 0, REFUSAL_NONE },
		{ ROLE_SERVER, WRITE, false, HELLO_OTHER_VERSION, WRITE, 0, 0, REFUSAL_VERSION },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, READ, 0, 0, REFUSAL_OPERATION },
		{ ROLE_SERVER, READ, false, HELLO_CURRENT, READ, 0, 9, REFUSAL_NONE },
		{ ROLE_SERVER, READ, false, HELLO_CURRENT, 255, 0, 9, REFUSAL_OPERATION },
		/* a server without 'read' or 'write' refuses a client without a hello */
		{ ROLE_SERVER, ANY, false, HELLO_ABSENT, READ, 0, 0, REFUSAL_NO_MODE },
		{ ROLE_SERVER, ANY, false, HELLO_CURRENT, 2, 0, 9, REFUSAL_OPERATION },
		{ ROLE_SERVER, ANY, false, HELLO_OTHER_VERSION, READ, 0, 0, REFUSAL_VERSION },
		/* the server learns from the hello that the session is one way */
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, ONE, 9, REFUSAL_NONE },
		{ ROLE_SERVER, WRITE, false, HELLO_CURRENT, WRITE, ONE, 0, REFUSAL_LENGTH },
		{ ROLE_SERVER, READ, false, HELLO_CURRENT, READ, ONE, 0, REFUSAL_NONE },
		{ ROLE_SERVER, READ, false, HELLO_CURRENT, READ, ONE, 9, REFUSAL_LENGTH },
		{ ROLE_CLIENT, WRITE, true, HELLO_CURRENT, WRITE, ONE, 0, REFUSAL_NONE },
		{ ROLE_CLIENT, WRITE, true, HELLO_CURRENT, WRITE, ONE, 9, REFUSAL_LENGTH },
		{ ROLE_CLIENT, READ, true, HELLO_CURRENT, READ, ONE, 9, REFUSAL_NONE },
		{ ROLE_CLIENT, READ, true, HELLO_CURRENT, READ, ONE, 10, REFUSAL_LENGTH },
		{ ROLE_CLIENT, READ, false, HELLO_CURRENT, READ, 0, 0, REFUSAL_LENGTH },
		/* a server that ignores --one-way, or announces it without being asked */
		{ ROLE_CLIENT, WRITE, true, HELLO_CURRENT, WRITE, 0, 9, REFUSAL_OPERATION },
		{ ROLE_CLIENT, READ, true, HELLO_CURRENT, READ, 0, 9, REFUSAL_OPERATION },
		{ ROLE_CLIENT, READ, false, HELLO_CURRENT, READ, ONE, 9, REFUSAL_OPERATION },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct options options = { .role = cases[i].role,
					   .operation = cases[i].operation,
					   .one_way = cases[i].one_way,
					   .maximum_payload = 9 };
		const struct peer_hello peer = {
			.hello_kind = cases[i].hello_kind,
			.hello = { .operation = (uint8_t)cases[i].operation_there,
				   .flags = (uint16_t)cases[i].flags,
				   .length = cases[i].length }
		};

		assert_int_equal(hello_refusal(&options, 100, &peer), cases[i].refusal);
		/* a length above MAX_PAYLOAD is refused, even with a larger --max-size */
		options.maximum_payload = UINT64_MAX;
		if (cases[i].length == UINT64_MAX)
			assert_int_equal(hello_refusal(&options, 100, &peer), REFUSAL_LENGTH);
	}
}

#define MEASURES (HELLO_CHECK | HELLO_CHECK_RATE)
#define BACK     (MEASURES | HELLO_CHECK_BACK)

/*
 * A stream of unknown length has only one pass. The side that operates on a stream decides how many
 * passes it has.
 */
TEST(repeating_a_payload_of_unknown_length_is_refused)
{
	static const struct {
		const char *who; /* c: this side is a client, s: a server */
		enum operation operation;
		bool own_pipe;      /* this side's payload has an unknown length */
		unsigned int flags; /* the peer's flags; PIPE: its payload has an unknown length */
		unsigned int own, peers; /* passes of each side; 0: until --duration is over */
		enum refusal refusal;
	} cases[] = {
		{ "cs", READ, true, PIPE, 1, 1, REFUSAL_NONE },
		{ "cs", READ, false, 0, 5, 5, REFUSAL_NONE },
		{ "cs", READ, true, 0, 5, 1, REFUSAL_NONE },
		{ "cs", READ, true, 0, 1, 5, REFUSAL_PASSES },
		{ "cs", READ, true, 0, 1, 0, REFUSAL_PASSES },
		{ "cs", READ, false, PIPE, 5, 1, REFUSAL_PASSES },
		{ "cs", READ, false, PIPE, 0, 1, REFUSAL_PASSES },
		{ "cs", READ, false, PIPE, 1, 5, REFUSAL_NONE },
		{ "cs", WRITE, true, PIPE, 1, 1, REFUSAL_NONE },
		{ "cs", WRITE, true, 0, 5, 1, REFUSAL_PASSES },
		{ "cs", WRITE, true, 0, 1, 5, REFUSAL_NONE },
		{ "cs", WRITE, false, PIPE, 1, 5, REFUSAL_PASSES },
		{ "cs", WRITE, false, PIPE, 1, 0, REFUSAL_PASSES },
		{ "cs", WRITE, false, PIPE, 5, 1, REFUSAL_NONE },
		/* one way: the payload in the other direction does not matter */
		{ "s", WRITE, true, ONE | PIPE, 5, 1, REFUSAL_NONE },
		/* --check uses patterns, not the server's pipe */
		{ "s", READ, true, MEASURES, 0, 1000, REFUSAL_NONE },
		{ "s", WRITE, true, BACK, 0, 1000, REFUSAL_NONE },
		{ "c", WRITE, true, BACK, 0, 1000,
		  REFUSAL_PASSES }, /* the client would repeat its own pipe */
	};

	for (size_t i = 0; i < 2 * ENTRIES(cases); i++) {
		const struct options options = { .role = i % 2 ? ROLE_SERVER : ROLE_CLIENT,
						 .operation = cases[i / 2].operation,
						 .iterations = cases[i / 2].own,
						 .duration_seconds = cases[i / 2].own ? 0 : 1,
						 .maximum_payload = 4096 };
		const struct peer_hello peer = {
			.hello_kind = HELLO_CURRENT,
			.hello = { .operation = (uint8_t)cases[i / 2].operation,
				   .flags = (uint16_t)cases[i / 2].flags,
				   .length = cases[i / 2].flags & PIPE ? 0 : 100,
				   .passes = cases[i / 2].peers }
		};
		uint64_t length = cases[i / 2].own_pipe ? LENGTH_UNKNOWN : 100;

		if (strchr(cases[i / 2].who, i % 2 ? 's' : 'c'))
			assert_int_equal(hello_refusal(&options, length, &peer),
					 cases[i / 2].refusal);
	}
}

/* ---- The agreement, also with a --check client ---- */

#define EXAMINES (HELLO_CHECK | HELLO_PATTERN)

/* Options and parameters of this side, as bits of a set. */
enum {
	CHECKS = 1,
	SHORT = 2,
	ONE_WAY = 4,
	RATES = 8,
	GETS_BACK = 16
};

/*
 * The client ends the session unless the server's answer has all that --check requested. --max-size
 * is 64 KiB: a longer payload is refused. An impossible length, or a payload that --one-way
 * excludes, breaks the protocol. A client ends the session if the server would send a pipe more
 * than once. A server sends a pattern only if HELLO_CHECK is set, and BACK_SIZE bytes only with all
 * flags of BACK. A client ignores these flags of a server: it sends its own payload, and may store
 * the server's.
 */
TEST(the_agreement_has_the_requested_options_or_the_session_fails)
{
	static const struct {
		enum role role;
		unsigned int asks, flags; /* this side's options; flags of the peer's hello */
		uint64_t length; /* bytes of the peer's payload; this side's payload has 100 */
		uint32_t passes;
		enum status status;
		uint64_t wanted; /* bytes of pattern, sent instead of this side's payload */
		bool measures;   /* the peer's hello has HELLO_CHECK_RATE */
	} cases[] = {
		/* clang-format off */
		{ ROLE_CLIENT, CHECKS, EXAMINES, 100, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, CHECKS, EXAMINES, 1, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, CHECKS | RATES, EXAMINES, BACK_SIZE, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, CHECKS | SHORT, EXAMINES, 1, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, CHECKS | SHORT, EXAMINES, 100, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, CHECKS | SHORT, HELLO_CHECK, 1, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, CHECKS | SHORT, HELLO_PATTERN, 1, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, CHECKS | RATES | GETS_BACK, EXAMINES, BACK_SIZE, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, CHECKS | RATES | GETS_BACK, EXAMINES, 100, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, 0, 0, BACK_SIZE, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, 0, 0, BACK_SIZE + 1, 1, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, 0, 0, UINT64_MAX, 1, STATUS_CONTENTS_WRONG, 0, false },
		{ ROLE_CLIENT, 0, 0, 0, 1, STATUS_CONTENTS_WRONG, 0, false },
		{ ROLE_CLIENT, ONE_WAY, ONE, 0, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, ONE_WAY, ONE, BACK_SIZE + 1, 1, STATUS_CONTENTS_WRONG, 0, false },
		{ ROLE_CLIENT, 0, PIPE, 0, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, 0, PIPE, 0, 5, STATUS_REFUSED, 0, false },
		{ ROLE_CLIENT, 0, EXAMINES, 100, 1, STATUS_SUCCESS, 0, false },
		{ ROLE_CLIENT, 0, BACK, 100, 1, STATUS_SUCCESS, 0, true },
		{ ROLE_SERVER, 0, EXAMINES, 100, 1, STATUS_SUCCESS, 100, false },
		{ ROLE_SERVER, 0, MEASURES, 100, 1, STATUS_SUCCESS, 100, true },
		{ ROLE_SERVER, 0, MEASURES | HELLO_CHECK_SHORT, 100, 1, STATUS_SUCCESS, 1, true },
		{ ROLE_SERVER, 0, BACK, 100, 1, STATUS_SUCCESS, BACK_SIZE, true },
		{ ROLE_SERVER, 0, BACK | HELLO_CHECK_SHORT, 100, 1, STATUS_SUCCESS, BACK_SIZE, true },
		{ ROLE_SERVER, 0, BACK & ~HELLO_CHECK, 100, 1, STATUS_SUCCESS, 0, true },
		{ ROLE_SERVER, 0, BACK & ~HELLO_CHECK_RATE, 100, 1, STATUS_SUCCESS, 100, false },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct options options = { .role = cases[i].role,
						 .operation = WRITE,
						 .maximum_payload = BACK_SIZE,
						 .check = cases[i].asks & CHECKS,
						 .one_way = cases[i].asks & ONE_WAY };
		const struct session_parameters parameters = { .short_reply = cases[i].asks & SHORT,
							       .measured = cases[i].asks & RATES,
							       .reverse_seconds = !!(cases[i].asks &
										     GETS_BACK) };
		const struct hello hello = { .version = HELLO_VERSION,
					     .operation = WRITE,
					     .flags = (uint16_t)cases[i].flags,
					     .length = cases[i].length,
					     .seconds = 7,
					     .passes = cases[i].passes,
					     .device = "mlx5_0" };
		struct cm_event event = { .private_data_size = HELLO_SIZE,
					  .responder_resources = 16 };
		struct limits limits = { .depth = 1 };
		struct agreement agreement;
		struct failure failure;

		encode_hello(&hello, event.private_data);
		assert_int_equal(negotiate(&options, &parameters, &event, options.one_way, 100,
					   &limits, &agreement, &failure),
				 cases[i].status);
		if (cases[i].status != STATUS_SUCCESS)
			continue;
		assert_int_equal(agreement.wanted_length, cases[i].wanted);
		assert_int_equal(!!(agreement.peer.flags & HELLO_CHECK_RATE), cases[i].measures);
		assert_string_equal(agreement.peer.device, "mlx5_0");
	}
}

/* The upper 6 of 20 bits are folded into the lower 14; the port is in the dynamic range. */
TEST(a_udp_source_port_follows_from_the_flow_label)
{
	assert_int_equal(udp_source_port(0), 0xc000);
	assert_int_equal(udp_source_port(0x3fff), 0xffff);
	assert_int_equal(udp_source_port(0x4000), 0xc001);
	assert_int_equal(udp_source_port(0xfffff), 0xffff ^ 0x3f);
	assert_int_equal(udp_source_port(0x54321), 0xc000 | (0x0321 ^ 0x15));
}

TEST(the_worse_of_two_statuses_is_returned)
{
	static const enum status ascending[] = {
		STATUS_SUCCESS,        STATUS_TOO_SLOW,    STATUS_LOCAL_FAILURE, STATUS_USAGE,
		STATUS_UNRESOLVED,     STATUS_REFUSED,     STATUS_TIMED_OUT,     STATUS_PEER_LOST,
		STATUS_CONTENTS_WRONG, STATUS_INTERRUPTED,
	};

	for (size_t i = 0; i < ENTRIES(ascending) * ENTRIES(ascending); i++) {
		size_t one = i / ENTRIES(ascending), other = i % ENTRIES(ascending);

		assert_int_equal(worse_status(ascending[one], ascending[other]),
				 ascending[one > other ? one : other]);
	}
}

TEST(a_refusal_is_reported_with_its_reason_and_advice)
{
	/* clang-format off */
	static const struct {
		uint8_t refusal;
		const char *words;
	} cases[] = {
		{ REFUSAL_SESSIONS, "the server is busy or exiting, so it accepts no further "
				    "session; try again later" },
		{ REFUSAL_MEMORY, "the server could not get memory for another session; see its "
				  "messages, or try again when other sessions have ended" },
		{ REFUSAL_STORAGE, "the server cannot store the payload; see its messages, "
				   "remove the cause, and try again" },
		{ REFUSAL_SETUP, "the server could not set up the session; see its messages" },
		{ REFUSAL_LENGTH, "the client sends nothing, or more than the server's "
				  "--max-size; send one byte or more, or raise --max-size" },
		{ 99, "this release does not know the reason; see the server's messages" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct peer_hello server = { .hello_kind = HELLO_CURRENT,
						   .hello.refusal = cases[i].refusal };
		char words[CAUSE_SIZE];
		struct failure failure;

		snprintf(words, sizeof(words), "the server refused: %s", cases[i].words);
		assert_true(explain_rejection(&server, 0, &failure));
		assert_int_equal(failure.status, STATUS_REFUSED);
		assert_string_equal(failure.cause, words);
	}
}

RUN_TESTS(NULL, NULL)
