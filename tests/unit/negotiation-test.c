// SPDX-License-Identifier: MIT
/*
 * Negotiation with a peer: regions that may be used, hellos that are accepted or refused, and the
 * terms of both sides.
 */
#include "rdma-common.h"

#include "unit.h"

/* ---- Regions ---- */

TEST(a_region_is_usable_if_it_has_an_address_is_long_enough_and_does_not_wrap)
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

	EACH_ROW (i, cases) {
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

/*
 * --max-size is 9. The hello of a side without a payload must have length 0, that of a side with
 * one must not.
 */
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
		/* a server that ignores --one-way, or sets it without being asked */
		{ ROLE_CLIENT, WRITE, true, HELLO_CURRENT, WRITE, 0, 9, REFUSAL_OPERATION },
		{ ROLE_CLIENT, READ, true, HELLO_CURRENT, READ, 0, 9, REFUSAL_OPERATION },
		{ ROLE_CLIENT, READ, false, HELLO_CURRENT, READ, ONE, 9, REFUSAL_OPERATION },
	};

	EACH_ROW (i, cases) {
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

/* No program of this version wants more than MAX_WANTED bytes. */
TEST(a_hello_that_wants_too_many_bytes_counts_as_another_version)
{
	const struct options options = { .role = ROLE_SERVER, .maximum_payload = 9 };
	struct peer_hello peer = { HELLO_CURRENT,
				   { .length = 9, .passes = 1, .wanted = MAX_WANTED } };

	assert_int_equal(hello_refusal(&options, 9, &peer), REFUSAL_NONE);
	peer.hello.wanted++;
	assert_int_equal(hello_refusal(&options, 9, &peer), REFUSAL_VERSION);
}

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
		unsigned int own, peers; /* passes of each side. 0 lasts for --duration. */
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

/* ---- The terms, also with a --check client ---- */

/*
 * --max-size is 64 KiB: a longer payload is refused. An impossible length, or a payload that
 * --one-way excludes, breaks the protocol. A client ends the session if the server would send a
 * pipe more than once, or answers with other bytes than the client wants. A client that wants none
 * may store the server's pattern.
 */
TEST(negotiation_fails_if_the_peers_hello_breaks_the_request_a_limit_or_the_protocol)
{
	static const struct {
		enum role role;
		bool one_way;
		uint32_t wanted, repeated; /* by this side; by the peer's hello */
		unsigned int flags;        /* of the peer's hello */
		uint64_t length; /* bytes of the peer's payload; this side's payload has 100 */
		uint32_t passes;
		enum status status;
	} cases[] = {
		/* clang-format off */
		{ ROLE_CLIENT, false, 100, 100, HELLO_PATTERN, 100, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 1, 1, HELLO_PATTERN, 1, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 1, 1, HELLO_PATTERN, 1, 0, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 100, 0, HELLO_PATTERN, 100, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 100, 99, HELLO_PATTERN, 99, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 100, 100, HELLO_PATTERN, 99, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 100, 100, 0, 100, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 0, 100, HELLO_PATTERN, 100, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 0, 0, HELLO_PATTERN, 100, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 0, 0, 0, 65536, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 0, 0, 0, 65537, 1, STATUS_REFUSED },
		{ ROLE_CLIENT, false, 0, 0, 0, UINT64_MAX, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 0, 0, 0, 0, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, true, 0, 0, ONE, 0, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, true, 0, 0, ONE, 65537, 1, STATUS_CONTENTS_WRONG },
		{ ROLE_CLIENT, false, 0, 0, PIPE, 0, 1, STATUS_SUCCESS },
		{ ROLE_CLIENT, false, 0, 0, PIPE, 0, 5, STATUS_REFUSED },
		/* a client's payload may have another length than it wants, and need not be a pattern */
		{ ROLE_SERVER, false, 100, 100, HELLO_PATTERN, 7, 1, STATUS_SUCCESS },
		{ ROLE_SERVER, false, 100, 100, 0, 7, 1, STATUS_SUCCESS },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		const struct options options = { .role = cases[i].role,
						 .operation = WRITE,
						 .maximum_payload = 65536,
						 .check = cases[i].wanted > 0,
						 .wanted = cases[i].wanted,
						 .one_way = cases[i].one_way };
		const struct peer_hello peer = { .hello_kind = HELLO_CURRENT,
						 .hello = { .operation = WRITE,
							    .flags = (uint16_t)cases[i].flags,
							    .length = cases[i].length,
							    .passes = cases[i].passes,
							    .wanted = cases[i].repeated,
							    .device = "mlx5_0" } };
		const struct cm_event event = { .responder_resources = 16 };
		struct terms terms = { .options = &options,
				       .one_way = options.one_way,
				       .outgoing_length = 100,
				       .limits.depth = 1 };
		struct failure failure;

		assert_int_equal(negotiate(&terms, &peer, &event, &failure), cases[i].status);
		if (cases[i].status == STATUS_SUCCESS)
			assert_string_equal(terms.peer.device, "mlx5_0");
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
		uint64_t length; /* in the rejection */
		const char *words;
	} cases[] = {
		{ REFUSAL_SESSIONS, 0, "the server is busy or exiting, so it accepts no further "
				    "session; try again later" },
		{ REFUSAL_MEMORY, 0, "the server could not get memory for another session; see its "
				  "messages, or try again when other sessions have ended" },
		{ REFUSAL_SETUP, 0, "the server could not set up the session; see its messages" },
		{ REFUSAL_LENGTH, 0, "the client sends nothing, or more than the server's "
				  "--max-size; send one byte or more, or raise --max-size" },
		{ REFUSAL_LENGTH, 1, "it accepts at most 1 byte (--max-size of the server); send "
				  "fewer, or raise that limit" },
		{ REFUSAL_LENGTH, UINT64_MAX, "it accepts at most 18446744073709551615 bytes (--max-size of "
				  "the server); send fewer, or raise that limit" },
		{ REFUSAL_SETUP, 1, "the server could not set up the session; see its messages" },
		{ 99, 0, "this release does not know the reason; see the server's messages" },
	};
	/* clang-format on */

	EACH_ROW (i, cases) {
		const struct peer_hello server = { .hello_kind = HELLO_CURRENT,
						   .hello.refusal = cases[i].refusal,
						   .hello.length = cases[i].length };
		char words[CAUSE_SIZE];
		struct failure failure;

		snprintf(words, sizeof(words), "the server refused: %s", cases[i].words);
		assert_true(explain_rejection(&server, 0, &failure));
		assert_int_equal(failure.status, STATUS_REFUSED);
		assert_string_equal(failure.cause, words);
	}
}

RUN_TESTS(NULL, NULL)
