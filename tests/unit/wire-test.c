// SPDX-License-Identifier: MIT
/*
 * What goes over the wire, byte by byte, and what is made of bytes that a peer, or a user, chose.
 * The expected bytes are written out, so that both sides changing together is noticed too.
 */
#include "rdma-common.h"

#include <endian.h>
#include <limits.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- Messages ---- */

static void a_message_has_its_fields_at_the_documented_offsets(void **state)
{
	static const uint8_t expected[MESSAGE_SIZE] = {
		[24] = 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* address */
		[32] = 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* length */
		[48] = 0xef, 0xbe, 0xad, 0xde,                         /* rkey */
	};
	struct message message = { .type = MSG_MR,
				   .value = 0x1122334455667788,
				   .length = 0x0102030405060708,
				   .rkey = 0xdeadbeef };
	uint8_t wire[MESSAGE_SIZE];

	(void)state;
	memset(wire, 0xaa, sizeof(wire)); /* what was there before must not leak to the peer */
	encode_message(&message, wire);
	assert_memory_equal(wire, expected, MESSAGE_SIZE);
}

/* The types that carry nothing but a value send nothing but that. */
static void assert_value_message(enum message_type type, uint8_t number)
{
	uint8_t expected[MESSAGE_SIZE] = { [0] = number, [24] = 0xf8, 0xf7, 0xf6, 0xf5,
					   0xf4,         0xf3,        0xf2, 0xf1 };
	struct message message = { .type = type,
				   .value = 0xf1f2f3f4f5f6f7f8,
				   .length = 0x5555555555555555,
				   .rkey = 0x77777777 };
	uint8_t wire[MESSAGE_SIZE];

	memset(wire, 0xaa, sizeof(wire));
	encode_message(&message, wire);
	assert_memory_equal(wire, expected, MESSAGE_SIZE);
}

static void done_verdict_and_progress_carry_their_value_alone(void **state)
{
	(void)state;
	assert_value_message(MSG_DONE, 1);
	assert_value_message(MSG_VERDICT, 2);
	assert_value_message(MSG_PROGRESS, 3);
}

static void a_peers_message_is_understood(void **state)
{
	uint8_t wire[MESSAGE_SIZE] = {
		[24] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,        0x88, [32] = 0x00, 0x04,
		0x00,        0x00, 0x00, 0x00, 0x00, 0xf0, [48] = 0x0a, 0x0b, 0x0c,        0xfd
	};
	struct message message;

	(void)state;
	assert_true(decode_message(wire, sizeof(wire), &message));
	assert_int_equal(message.type, MSG_MR);
	assert_true(message.value == 0x8807060504030201);
	assert_true(message.length == 0xf000000000000400);
	assert_true(message.rkey == 0xfd0c0b0a);
	for (unsigned int type = MSG_MR; type <= MSG_PROGRESS; type++) {
		wire[0] = (uint8_t)type;
		assert_true(decode_message(wire, sizeof(wire), &message));
		assert_int_equal(message.type, type);
		assert_true(message.value == 0x8807060504030201);
	}
}

static void reserved_bytes_of_a_peer_are_ignored(void **state)
{
	uint8_t clean[MESSAGE_SIZE] = { [24] = 0x10, [32] = 0x20, [48] = 0x30 };
	uint8_t noisy[MESSAGE_SIZE];
	struct message expected, message;

	(void)state;
	memset(noisy, 0xff, sizeof(noisy));
	memcpy(noisy, clean, 4);
	memcpy(noisy + 24, clean + 24, 16);
	memcpy(noisy + 48, clean + 48, 4);
	assert_true(decode_message(clean, sizeof(clean), &expected));
	assert_true(decode_message(noisy, sizeof(noisy), &message));
	assert_int_equal(message.type, expected.type);
	assert_true(message.value == expected.value);
	assert_true(message.length == expected.length);
	assert_true(message.rkey == expected.rkey);
}

/* As the tutorial's struct message lies in memory; its struct ibv_mr is that of verbs.h. */
struct tutorial_message {
	enum {
		TUTORIAL_MR,
		TUTORIAL_DONE,
	} type;
	union {
		struct ibv_mr mr;
	} data;
};

static void the_tutorials_program_understands_a_message(void **state)
{
	struct message message = {
		.type = MSG_MR, .value = 0x7f0012345000, .length = 1024, .rkey = 0xcafe
	};
	struct tutorial_message theirs;
	uint8_t wire[MESSAGE_SIZE];

	(void)state;
	if (__BYTE_ORDER != __LITTLE_ENDIAN || sizeof(void *) != 8) {
		print_message("SKIP: the layout is that of 64-bit little-endian machines\n");
		skip();
	}
	assert_int_equal(sizeof(theirs), MESSAGE_SIZE);
	encode_message(&message, wire);
	memcpy(&theirs, wire, sizeof(theirs));
	assert_int_equal(theirs.type, TUTORIAL_MR);
	assert_true((uintptr_t)theirs.data.mr.addr == message.value);
	assert_true(theirs.data.mr.length == message.length);
	assert_true(theirs.data.mr.rkey == message.rkey);
	message.type = MSG_DONE;
	encode_message(&message, wire);
	memcpy(&theirs, wire, sizeof(theirs));
	assert_int_equal(theirs.type, TUTORIAL_DONE);
}

static void a_message_of_another_size_is_refused(void **state)
{
	uint8_t wire[2 * MESSAGE_SIZE] = { 0 };
	struct message message;

	(void)state;
	for (size_t size = 0; size <= sizeof(wire); size++)
		assert_int_equal(decode_message(wire, size, &message), size == MESSAGE_SIZE);
}

static void a_message_of_unknown_type_is_refused(void **state)
{
	uint8_t wire[MESSAGE_SIZE] = { 0 };
	struct message message;

	(void)state;
	for (unsigned int type = MSG_PROGRESS + 1; type < 256; type++) {
		wire[0] = (uint8_t)type;
		assert_false(decode_message(wire, sizeof(wire), &message));
	}
	wire[0] = MSG_DONE;
	for (size_t byte = 1; byte < 4; byte++) { /* all 32 bits of the type count */
		wire[byte] = 1;
		assert_false(decode_message(wire, sizeof(wire), &message));
		wire[byte] = 0;
	}
	assert_true(decode_message(wire, sizeof(wire), &message));
}

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

static const uint8_t greeting_bytes[HELLO_SIZE] = {
	'R',  'W',  'H',  'O',  1,    1,    0,    0,    /* magic, version, write, flags */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* length */
	0,    0,    0,    0,    0,    0,    0,    0,    /* no refusal, reserved */
};

static const uint8_t refusal_bytes[HELLO_SIZE] = {
	'R',  'W', 'H', 'O',  1, 0, 0, 0, /* magic, version, read, flags */
	0x00, 0,   0,   0x40, 0, 0, 0, 0, /* the limit: 1 GiB */
	3,    0,   0,   0,    0, 0, 0, 0, /* REFUSAL_LENGTH */
};

static void a_hello_has_its_fields_at_the_documented_offsets(void **state)
{
	struct hello hello = { .version = HELLO_VERSION,
			       .operation = OPERATION_WRITE,
			       .length = 0x0102030405060708 };
	uint8_t wire[HELLO_SIZE];

	(void)state;
	memset(wire, 0xaa, sizeof(wire));
	encode_hello(&hello, wire);
	assert_memory_equal(wire, greeting_bytes, HELLO_SIZE);
}

static void a_refusal_says_why_and_what_the_limit_is(void **state)
{
	struct hello hello = { .version = HELLO_VERSION,
			       .operation = OPERATION_READ,
			       .refusal = REFUSAL_LENGTH,
			       .length = (uint64_t)1 << 30 };
	uint8_t wire[HELLO_SIZE];

	(void)state;
	memset(wire, 0xaa, sizeof(wire));
	encode_hello(&hello, wire);
	assert_memory_equal(wire, refusal_bytes, HELLO_SIZE);
	memset(&hello, 0xaa, sizeof(hello));
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.refusal, REFUSAL_LENGTH);
	assert_true(hello.length == (uint64_t)1 << 30);
	assert_int_equal(hello.operation, OPERATION_READ);
}

/* InfiniBand pads private data to 56 bytes in a request, 196 in a reply, 148 in a rejection. */
static void a_hello_is_found_whatever_the_transport_pads(void **state)
{
	static const size_t sizes[] = { HELLO_SIZE, 32, 56, 148, 196, 256 };
	uint8_t wire[256] = { 0 };
	struct hello hello;

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&hello, 0xaa, sizeof(hello));
		assert_int_equal(decode_hello(wire, sizes[i], &hello), GREETING_HELLO);
		assert_int_equal(hello.version, HELLO_VERSION);
		assert_int_equal(hello.operation, OPERATION_WRITE);
		assert_int_equal(hello.refusal, REFUSAL_NONE);
		assert_true(hello.length == 0x0102030405060708);
	}
}

static void a_peer_without_hello_is_taken_for_the_tutorials_program(void **state)
{
	uint8_t wire[196] = { 0 };
	struct hello hello;

	(void)state;
	assert_int_equal(decode_hello(NULL, 0, &hello), GREETING_NONE);
	assert_int_equal(decode_hello(NULL, 196, &hello), GREETING_NONE);
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_NONE);
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	for (size_t size = 0; size < HELLO_SIZE; size++)
		assert_int_equal(decode_hello(wire, size, &hello), GREETING_NONE);
	for (size_t byte = 0; byte < 4; byte++) { /* all of the magic counts */
		wire[byte] ^= 0x20;
		assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_NONE);
		wire[byte] ^= 0x20;
	}
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
}

static void of_a_hello_of_another_version_only_the_version_is_read(void **state)
{
	uint8_t wire[HELLO_SIZE];
	struct hello hello;

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	wire[4] = 2;
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_VERSION);
	assert_int_equal(hello.version, 2);
	assert_true(hello.length == 0);
	wire[4] = 0;
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_VERSION);
	wire[4] = HELLO_VERSION;
	memset(wire + 17, 0xff, HELLO_SIZE - 17); /* reserved: a later version may use it */
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.operation, OPERATION_WRITE);
}

static void the_flags_of_a_hello_are_little_endian(void **state)
{
	struct hello hello = { .version = HELLO_VERSION, .flags = HELLO_PATTERN | 0x8000 };
	uint8_t wire[HELLO_SIZE];

	(void)state;
	encode_hello(&hello, wire);
	assert_int_equal(wire[6], 2);
	assert_int_equal(wire[7], 0x80); /* a flag of a later version is kept, and means nothing */
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.flags, 0x8002);
}

/* Who hands over nothing must say so, and nobody else may. */
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

		assert_int_equal(hello_refusal(cases[i].role, &options, GREETING_HELLO, &hello),
				 cases[i].refusal);
		hello.flags ^= HELLO_ONE_WAY; /* a server that takes no notice of --one-way */
		if (cases[i].role == ROLE_CLIENT)
			assert_int_equal(
				hello_refusal(ROLE_CLIENT, &options, GREETING_HELLO, &hello),
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
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_NONE);
	hello.length = 1;
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_NONE);
	hello.length = 4097;
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_LENGTH);
	hello.length = UINT64_MAX;
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_LENGTH);
	hello.length = 0;
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_LENGTH);
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_NONE, &hello), REFUSAL_NONE);
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_VERSION, &hello),
			 REFUSAL_VERSION);
	hello.operation = OPERATION_READ; /* is said before the length */
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_OPERATION);
	options.operation = OPERATION_READ;
	hello.length = 64;
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_NONE);
	hello.operation = 255; /* an operation that nobody knows yet */
	assert_int_equal(hello_refusal(ROLE_SERVER, &options, GREETING_HELLO, &hello),
			 REFUSAL_OPERATION);
}

/* ---- What reaches the terminal ---- */

static void assert_escaped(const char *bytes, size_t size, const char *expected)
{
	char *text = escape((const uint8_t *)bytes, size);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

#define ASSERT_ESCAPED(bytes, expected) assert_escaped(bytes, sizeof(bytes) - 1, expected)

static void plain_text_is_shown_as_it_is(void **state)
{
	(void)state;
	ASSERT_ESCAPED("", "");
	ASSERT_ESCAPED("message from active/client side with pid 42",
		       "message from active/client side with pid 42");
	ASSERT_ESCAPED("~!@#$%^&*()[]{}\"'", "~!@#$%^&*()[]{}\"'");
}

static void what_a_terminal_would_obey_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("\033[2J", "\\x1b[2J");
	ASSERT_ESCAPED("\r\n\t\a\b", "\\x0d\\x0a\\x09\\x07\\x08");
	ASSERT_ESCAPED("a\0b\0", "a\\x00b\\x00");
	ASSERT_ESCAPED("\x7f", "\\x7f");
	ASSERT_ESCAPED("\x9b"
		       "31m",
		       "\\x9b31m"); /* the one-byte form of ESC [ */
}

static void a_backslash_is_told_from_an_escape(void **state)
{
	(void)state;
	ASSERT_ESCAPED("C:\\x1b", "C:\\\\x1b");
	ASSERT_ESCAPED("\\", "\\\\");
}

static void text_in_utf8_is_shown_where_the_locale_has_it(void **state)
{
	(void)state;
	ASSERT_ESCAPED("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	ASSERT_ESCAPED("\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80");
	assert_non_null(setlocale(LC_CTYPE, "C"));
	ASSERT_ESCAPED("gr\xc3\xbc", "gr\\xc3\\xbc");
}

static void invalid_utf8_is_escaped_and_what_follows_is_not_lost(void **state)
{
	(void)state;
	ASSERT_ESCAPED("a\xff\xfe z", "a\\xff\\xfe z");
	ASSERT_ESCAPED("\xc3(", "\\xc3(");                 /* no second byte */
	ASSERT_ESCAPED("x\xe2\x82", "x\\xe2\\x82");        /* cut off at the end */
	ASSERT_ESCAPED("\xc0\xaf", "\\xc0\\xaf");          /* overlong */
	ASSERT_ESCAPED("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half of a surrogate pair */
	ASSERT_ESCAPED("\xe2\x82\xc3\xbc", "\\xe2\\x82\xc3\xbc");
}

/* U+0080 to U+009F are control characters of two bytes in UTF-8: U+009B is ESC [. */
static void a_c1_control_in_utf8_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("\xc2\x9b"
		       "31m",
		       "\\xc2\\x9b31m");
	ASSERT_ESCAPED("\xc2\x85", "\\xc2\\x85");
	ASSERT_ESCAPED("\xc2\xa9", "\xc2\xa9"); /* the first above them that is none */
}

/* Printable by the locale, but invisible, or changing the direction of what follows. */
static void a_character_that_deceives_the_reader_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("a\xe2\x80\xae"
		       "b",
		       "a\\xe2\\x80\\xaeb");               /* U+202E, right-to-left override */
	ASSERT_ESCAPED("\xe2\x80\x8b", "\\xe2\\x80\\x8b"); /* U+200B, zero width space */
	ASSERT_ESCAPED("\xef\xbb\xbf", "\\xef\\xbb\\xbf"); /* U+FEFF, byte order mark */
	/* the first and the last of each range, and their neighbours that are shown */
	ASSERT_ESCAPED("\xe2\x80\x8f", "\\xe2\\x80\\x8f"); /* U+200F */
	ASSERT_ESCAPED("\xe2\x80\x90", "\xe2\x80\x90");    /* U+2010, hyphen */
	ASSERT_ESCAPED("\xe2\x80\xa7", "\xe2\x80\xa7");    /* U+2027, hyphenation point */
	ASSERT_ESCAPED("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* U+2028 */
	ASSERT_ESCAPED("\xe2\x80\xb0", "\xe2\x80\xb0");    /* U+2030, per mille sign */
	ASSERT_ESCAPED("\xe2\x81\xa0", "\\xe2\\x81\\xa0"); /* U+2060 */
	ASSERT_ESCAPED("\xe2\x81\xaf", "\\xe2\\x81\\xaf"); /* U+206F */
	ASSERT_ESCAPED("\xe2\x81\xb0", "\xe2\x81\xb0");    /* U+2070, superscript zero */
}

static int use_utf8(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* ---- The command line ---- */

static void a_number_is_decimal_and_within_its_bounds(void **state)
{
	static const char *const refused[] = { "",
					       " 5",
					       "5 ",
					       "+5",
					       "-5",
					       "0x10",
					       "5s",
					       "five",
					       "1.5",
					       "18446744073709551616",
					       "99999999999999999999999" };
	unsigned long number = 0;

	(void)state;
	assert_true(parse_number("1", 1, 10, &number));
	assert_int_equal(number, 1);
	assert_true(parse_number("10", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("007", 1, 10, &number)); /* not octal, nor is 010 eight */
	assert_int_equal(number, 7);
	assert_true(parse_number("010", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("0", 0, 0, &number));
	assert_true(parse_number("18446744073709551615", 0, ULONG_MAX, &number));
	assert_true(number == ULONG_MAX);
	assert_false(parse_number("0", 1, 10, &number));
	assert_false(parse_number("11", 1, 10, &number));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_number(refused[i], 0, ULONG_MAX, &number));
}

/* Whether `text` is taken for `expected` bytes. */
static bool is_size(const char *text, uint64_t expected)
{
	uint64_t size = ~expected;

	return parse_size(text, &size) && size == expected;
}

static void a_size_may_have_a_unit(void **state)
{
	(void)state;
	assert_true(is_size("1", 1));
	assert_true(is_size("1000", 1000));
	assert_true(is_size("010", 10)); /* not octal */
	assert_true(is_size("1K", 1024));
	assert_true(is_size("64K", 65536));
	assert_true(is_size("8M", 8388608));
	assert_true(is_size("1G", 1073741824));
	assert_true(is_size("5G", 5368709120)); /* more than 32 bits */
}

static void a_size_has_at_most_64_bits(void **state)
{
	uint64_t size;

	(void)state;
	assert_true(is_size("18446744073709551615", UINT64_MAX));
	assert_false(parse_size("18446744073709551616", &size));
	assert_true(is_size("18014398509481983K", UINT64_MAX - 1023));
	assert_false(parse_size("18014398509481984K", &size));
	assert_true(is_size("17592186044415M", UINT64_MAX - 1048575));
	assert_false(parse_size("17592186044416M", &size));
	assert_true(is_size("17179869183G", UINT64_MAX - 1073741823));
	assert_false(parse_size("17179869184G", &size));
	assert_false(parse_size("18446744073709551615G", &size));
	assert_false(parse_size("99999999999999999999", &size));
	assert_false(parse_size("100000000000000000000", &size)); /* a digit too many */
	assert_false(parse_size("999999999999999999999999999999999999999999G", &size));
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const refused[] = { "",    "0",    "0K",  "00",   "K",   "KK",
					       "1KK", "1KB",  "1KM", "1k",   "1m",  "1T",
					       "1B",  "1 K",  " 1K", "1K ",  "-1",  "+1K",
					       "0x1", "1.5M", "1e3", "1K\n", "one", "K1" };
	uint64_t size = 4711;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_size(refused[i], &size));
	assert_true(size == 4711);
}

static void the_operation_is_read_or_write(void **state)
{
	enum operation operation = OPERATION_READ;

	(void)state;
	assert_true(parse_operation("write", &operation));
	assert_int_equal(operation, OPERATION_WRITE);
	assert_true(parse_operation("read", &operation));
	assert_int_equal(operation, OPERATION_READ);
}

/* Whether `word` is refused with a message that repeats it. */
static bool refused_with_a_message(const char *word)
{
	FILE *terminal = stderr;
	char *text = NULL;
	size_t size = 0;
	enum operation operation = OPERATION_WRITE;
	bool refused, said;

	stderr = open_memstream(&text, &size);
	assert_non_null(stderr);
	refused = !parse_operation(word, &operation);
	fclose(stderr);
	stderr = terminal;
	said = strstr(text, word) && strstr(text, "'read' or 'write'") && strstr(text, "--help");
	free(text);
	return refused && said && operation == OPERATION_WRITE;
}

static void another_word_for_the_operation_is_refused_with_a_message(void **state)
{
	(void)state;
	assert_true(refused_with_a_message("READ"));
	assert_true(refused_with_a_message("reads"));
	assert_true(refused_with_a_message("rea"));
	assert_true(refused_with_a_message("copy"));
	assert_true(refused_with_a_message(""));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_has_its_fields_at_the_documented_offsets),
		cmocka_unit_test(done_verdict_and_progress_carry_their_value_alone),
		cmocka_unit_test(a_peers_message_is_understood),
		cmocka_unit_test(reserved_bytes_of_a_peer_are_ignored),
		cmocka_unit_test(the_tutorials_program_understands_a_message),
		cmocka_unit_test(a_message_of_another_size_is_refused),
		cmocka_unit_test(a_message_of_unknown_type_is_refused),
		cmocka_unit_test(a_region_has_to_hold_what_was_agreed),
		cmocka_unit_test(a_region_at_address_zero_is_refused),
		cmocka_unit_test(a_region_may_end_with_the_address_space_but_not_wrap),
		cmocka_unit_test(a_hello_has_its_fields_at_the_documented_offsets),
		cmocka_unit_test(a_refusal_says_why_and_what_the_limit_is),
		cmocka_unit_test(a_hello_is_found_whatever_the_transport_pads),
		cmocka_unit_test(a_peer_without_hello_is_taken_for_the_tutorials_program),
		cmocka_unit_test(of_a_hello_of_another_version_only_the_version_is_read),
		cmocka_unit_test(the_flags_of_a_hello_are_little_endian),
		cmocka_unit_test(one_way_a_payload_flows_in_one_direction),
		cmocka_unit_test(a_server_says_which_clients_it_refuses),
		cmocka_unit_test_setup(plain_text_is_shown_as_it_is, use_utf8),
		cmocka_unit_test_setup(what_a_terminal_would_obey_is_escaped, use_utf8),
		cmocka_unit_test_setup(a_backslash_is_told_from_an_escape, use_utf8),
		cmocka_unit_test_setup(text_in_utf8_is_shown_where_the_locale_has_it, use_utf8),
		cmocka_unit_test_setup(invalid_utf8_is_escaped_and_what_follows_is_not_lost,
				       use_utf8),
		cmocka_unit_test_setup(a_c1_control_in_utf8_is_escaped, use_utf8),
		cmocka_unit_test_setup(a_character_that_deceives_the_reader_is_escaped, use_utf8),
		cmocka_unit_test(a_number_is_decimal_and_within_its_bounds),
		cmocka_unit_test(a_size_may_have_a_unit),
		cmocka_unit_test(a_size_has_at_most_64_bits),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(the_operation_is_read_or_write),
		cmocka_unit_test(another_word_for_the_operation_is_refused_with_a_message),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
