// SPDX-License-Identifier: MIT
/*
 * Encoding, byte by byte, and decoding of bytes that a peer chose. The expected
 * bytes are written out, so that both sides changing together is noticed too.
 */
#include "rdma-common.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
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

/* As the tutorial's struct message is in memory; its struct ibv_mr is that of verbs.h. */
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
	struct tutorial_message tutorial;
	uint8_t wire[MESSAGE_SIZE];

	(void)state;
	if (__BYTE_ORDER != __LITTLE_ENDIAN || sizeof(void *) != 8) {
		print_message("SKIP: the layout is that of 64-bit little-endian machines\n");
		skip();
	}
	assert_int_equal(sizeof(tutorial), MESSAGE_SIZE);
	encode_message(&message, wire);
	memcpy(&tutorial, wire, sizeof(tutorial));
	assert_int_equal(tutorial.type, TUTORIAL_MR);
	assert_true((uintptr_t)tutorial.data.mr.addr == message.value);
	assert_true(tutorial.data.mr.length == message.length);
	assert_true(tutorial.data.mr.rkey == message.rkey);
	message.type = MSG_DONE;
	encode_message(&message, wire);
	memcpy(&tutorial, wire, sizeof(tutorial));
	assert_int_equal(tutorial.type, TUTORIAL_DONE);
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
		cmocka_unit_test(a_hello_has_its_fields_at_the_documented_offsets),
		cmocka_unit_test(a_refusal_says_why_and_what_the_limit_is),
		cmocka_unit_test(a_hello_is_found_whatever_the_transport_pads),
		cmocka_unit_test(a_peer_without_hello_is_taken_for_the_tutorials_program),
		cmocka_unit_test(of_a_hello_of_another_version_only_the_version_is_read),
		cmocka_unit_test(the_flags_of_a_hello_are_little_endian),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
