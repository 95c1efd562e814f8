// SPDX-License-Identifier: MIT
/*
 * Encoding, byte by byte, and decoding of bytes that a peer chose. The expected
 * bytes are written out, so that both sides changing together is noticed too.
 */
#include "rdma-common.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Messages ---- */

/* A message whose every field has a value of its own: what its type does not use must not be sent.
 */
static struct message full_message(enum message_type type)
{
	return (struct message){ .type = type,
				 .value = 0x1122334455667788,
				 .length = 0x0102030405060708,
				 .ready = 0x2122232425262728,
				 .received = 0x3132333435363738,
				 .kept = 0x4142434445464748,
				 .rkey = 0xdeadbeef,
				 .end = true };
}

#define VALUE_BYTES    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11
#define LENGTH_BYTES   0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01
#define READY_BYTES    0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21
#define RECEIVED_BYTES 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31
#define KEPT_BYTES     0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41
#define RKEY_BYTES     0xef, 0xbe, 0xad, 0xde

/* What each type is on the wire, and what of it arrives. */
static const struct {
	uint8_t wire[MESSAGE_SIZE];
	struct message decoded;
} layouts[MESSAGE_TYPES] = {
	[MSG_MR] = { { [8] = READY_BYTES, [24] = VALUE_BYTES, LENGTH_BYTES, [48] = RKEY_BYTES },
		     { .value = 0x1122334455667788,
		       .length = 0x0102030405060708,
		       .ready = 0x2122232425262728,
		       .rkey = 0xdeadbeef } },
	[MSG_DONE] = { { [0] = 1, [24] = VALUE_BYTES, LENGTH_BYTES },
		       { .value = 0x1122334455667788, .length = 0x0102030405060708 } },
	[MSG_VERDICT] = { { [0] = 2, [24] = VALUE_BYTES }, { .value = 0x1122334455667788 } },
	[MSG_WINDOW] = { { [0] = 3,
			   [8] = RECEIVED_BYTES,
			   KEPT_BYTES,
			   VALUE_BYTES,
			   LENGTH_BYTES,
			   [48] = 1 },
			 { .value = 0x1122334455667788,
			   .length = 0x0102030405060708,
			   .received = 0x3132333435363738,
			   .kept = 0x4142434445464748,
			   .end = true } },
};

static void assert_same_message(const struct message *message, const struct message *expected)
{
	assert_true(message->value == expected->value);
	assert_true(message->length == expected->length);
	assert_true(message->ready == expected->ready);
	assert_true(message->received == expected->received);
	assert_true(message->kept == expected->kept);
	assert_true(message->rkey == expected->rkey);
	assert_int_equal(message->end, expected->end);
}

static void each_type_has_its_fields_and_no_others_at_the_documented_offsets(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < MESSAGE_TYPES; type++) {
		struct message message = full_message((enum message_type)type);
		uint8_t wire[MESSAGE_SIZE];

		memset(wire, 0xaa, sizeof(wire)); /* old contents must not leak to the peer */
		encode_message(&message, wire);
		assert_memory_equal(wire, layouts[type].wire, MESSAGE_SIZE);
	}
}

static void each_type_is_decoded_into_its_fields_and_zeros(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < MESSAGE_TYPES; type++) {
		struct message message;

		memset(&message, 0xaa, sizeof(message));
		assert_true(decode_message(layouts[type].wire, MESSAGE_SIZE, &message));
		assert_int_equal(message.type, type);
		assert_same_message(&message, &layouts[type].decoded);
	}
}

/* The bytes that a type uses are those that are not zero in its layout; the type itself is one. */
static void reserved_bytes_of_a_peer_are_ignored(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < MESSAGE_TYPES; type++) {
		struct message message;
		uint8_t noisy[MESSAGE_SIZE];

		memcpy(noisy, layouts[type].wire, MESSAGE_SIZE);
		for (size_t i = 4; i < MESSAGE_SIZE; i++) {
			bool length = i >= 32 && i < 40; /* decoded, and not used, in MSG_VERDICT */
			bool flag = type == MSG_WINDOW && i >= 48 && i < 52;

			if (noisy[i] == 0 && !length && !flag)
				noisy[i] = 0xff;
		}
		assert_true(decode_message(noisy, sizeof(noisy), &message));
		assert_int_equal(message.type, type);
		assert_same_message(&message, &layouts[type].decoded);
	}
}

static void any_bit_of_the_end_of_a_window_is_its_end(void **state)
{
	uint8_t wire[MESSAGE_SIZE] = { MSG_WINDOW };
	struct message message;

	(void)state;
	assert_true(decode_message(wire, sizeof(wire), &message));
	assert_false(message.end);
	for (size_t byte = 48; byte < 52; byte++) {
		wire[byte] = 0x80;
		assert_true(decode_message(wire, sizeof(wire), &message));
		assert_true(message.end);
		wire[byte] = 0;
	}
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

/*
 * That program sends its struct ibv_mr as it is in memory, pointers to a context and to a
 * protection domain in front: what looks like `ready` there means nothing, and the caller has to
 * know it.
 */
static void a_message_of_the_tutorials_program_is_understood(void **state)
{
	struct tutorial_message tutorial = { .type = TUTORIAL_MR };
	struct message message;

	(void)state;
	if (__BYTE_ORDER != __LITTLE_ENDIAN || sizeof(void *) != 8) {
		print_message("SKIP: the layout is that of 64-bit little-endian machines\n");
		skip();
	}
	tutorial.data.mr.context = (struct ibv_context *)(uintptr_t)0x7f0000001000;
	tutorial.data.mr.addr = (void *)(uintptr_t)0x7f0012345000;
	tutorial.data.mr.length = 1024;
	tutorial.data.mr.rkey = 0xcafe;
	assert_true(decode_message((uint8_t *)&tutorial, sizeof(tutorial), &message));
	assert_int_equal(message.type, MSG_MR);
	assert_true(message.value == 0x7f0012345000);
	assert_true(message.length == 1024);
	assert_true(message.rkey == 0xcafe);
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
	for (unsigned int type = MSG_WINDOW + 1; type < 256; type++) {
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
	'R',  'W',  'H',  'O',  2,    1,    0x0b, 0x80, /* magic, version, write, flags */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* length */
	0,    3,    0,    0,    0x24, 0x23, 0x22, 0x21, /* no refusal, MTU, reserved, seconds */
	0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* passes */
	'm',  'l',  'x',  '5',  '_',  'b',  'o',  'n',  /* device */
	'd',  '_',  '0',  0,    0,    0,    0,    0,
};

static const uint8_t refusal_bytes[HELLO_SIZE] = {
	'R',  'W', 'H', 'O',  2, 0, 0, 0, /* magic, version, read, flags */
	0x00, 0,   0,   0x40, 0, 0, 0, 0, /* the limit: 1 GiB */
	3,    0,   0,   0,    0, 0, 0, 0, /* REFUSAL_LENGTH */
};

static const uint8_t lack_bytes[HELLO_SIZE] = {
	'R', 'W', 'H', 'O', 2, 1, 0, 0, /* magic, version, write, flags */
	1,   0,   0,   0,   0, 0, 0, 0, /* the limit: a byte */
	4,   0,   3,   0,   0, 0, 0, 0, /* REFUSAL_RESOURCES, of RESOURCE_STORAGE */
};

/* As releases that speak version 1 send it: 24 bytes, then nothing over iWARP, else zeros. */
static const uint8_t version_1_bytes[56] = { 'R', 'W', 'H', 'O', 1, 1, 1, 0, 0, 4 };
#define VERSION_1_SIZE 24

static void a_hello_has_its_fields_at_the_documented_offsets(void **state)
{
	struct hello hello = { .version = HELLO_VERSION,
			       .operation = OPERATION_WRITE,
			       .flags = 0x800b,
			       .length = 0x0102030405060708,
			       .mtu = 3,
			       .seconds = 0x21222324,
			       .passes = 0x1112131415161718,
			       .device = "mlx5_bond_0" };
	uint8_t wire[HELLO_SIZE];

	(void)state;
	memset(wire, 0xaa, sizeof(wire));
	encode_hello(&hello, wire);
	assert_memory_equal(wire, greeting_bytes, HELLO_SIZE);
	memset(hello.device, 'x', sizeof(hello.device)); /* too long: the last byte stays 0 */
	encode_hello(&hello, wire);
	assert_memory_equal(wire + 32, "xxxxxxxxxxxxxxx", 16);
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

/* Behind the reason that an older release knows, so that it says what it did before. */
static void a_server_that_is_out_of_resources_says_of_which(void **state)
{
	struct hello hello = { .version = HELLO_VERSION,
			       .operation = OPERATION_WRITE,
			       .refusal = REFUSAL_RESOURCES,
			       .lacking = RESOURCE_STORAGE,
			       .length = 1 };
	uint8_t wire[HELLO_SIZE];

	(void)state;
	memset(wire, 0xaa, sizeof(wire));
	encode_hello(&hello, wire);
	assert_memory_equal(wire, lack_bytes, HELLO_SIZE);
	memset(&hello, 0xaa, sizeof(hello));
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.refusal, REFUSAL_RESOURCES);
	assert_int_equal(hello.lacking, RESOURCE_STORAGE);
	assert_int_equal(decode_hello(refusal_bytes, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.lacking, RESOURCE_NOT_SAID);
}

/* InfiniBand pads private data to 56 bytes in a request, 196 in a reply, 148 in a rejection. */
static void a_hello_is_found_whatever_the_transport_pads(void **state)
{
	static const size_t sizes[] = { HELLO_SIZE, 56, 148, 196, 256 };
	uint8_t wire[256] = { 0 };
	struct hello hello;

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&hello, 0xaa, sizeof(hello));
		assert_int_equal(decode_hello(wire, sizes[i], &hello), GREETING_HELLO);
		assert_int_equal(hello.version, HELLO_VERSION);
		assert_int_equal(hello.operation, OPERATION_WRITE);
		assert_int_equal(hello.flags, 0x800b);
		assert_int_equal(hello.refusal, REFUSAL_NONE);
		assert_true(hello.length == 0x0102030405060708);
		assert_int_equal(hello.mtu, 3);
		assert_int_equal(hello.seconds, 0x21222324);
		assert_true(hello.passes == 0x1112131415161718);
		assert_string_equal(hello.device, "mlx5_bond_0");
	}
}

static void an_older_release_does_not_name_its_device(void **state)
{
	uint8_t *exact = malloc(HELLO_LEAST); /* so that a sanitizer sees what is read behind it */
	struct hello hello;

	(void)state;
	assert_non_null(exact);
	memcpy(exact, greeting_bytes, HELLO_LEAST);
	assert_int_equal(decode_hello(exact, HELLO_LEAST, &hello), GREETING_HELLO);
	free(exact);
	assert_true(hello.passes == 0x1112131415161718);
	assert_string_equal(hello.device, "");
	assert_int_equal(decode_hello(greeting_bytes, HELLO_SIZE - 1, &hello), GREETING_HELLO);
	assert_string_equal(hello.device, "");
}

static void the_name_of_a_device_ends_whatever_the_peer_sends(void **state)
{
	uint8_t wire[HELLO_SIZE];
	struct hello hello;

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	memset(wire + 32, 0xff, 16);
	memset(&hello, 0xaa, sizeof(hello));
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(strlen(hello.device), 15);
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
	for (size_t size = 0; size < HELLO_LEAST; size++)
		assert_int_equal(decode_hello(wire, size, &hello), GREETING_NONE);
	for (size_t byte = 0; byte < 4; byte++) { /* all of the magic counts */
		wire[byte] ^= 0x20;
		assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_NONE);
		wire[byte] ^= 0x20;
	}
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
}

/* Nothing of what is behind the version is read, and nothing has to be there. */
static void assert_version_alone(const uint8_t *wire, size_t size, uint8_t version)
{
	struct hello hello;

	memset(&hello, 0xaa, sizeof(hello));
	assert_int_equal(decode_hello(wire, size, &hello), GREETING_VERSION);
	assert_int_equal(hello.version, version);
	assert_int_equal(hello.operation, 0);
	assert_int_equal(hello.flags, 0);
	assert_int_equal(hello.refusal, 0);
	assert_true(hello.length == 0 && hello.passes == 0);
}

static void of_a_hello_of_another_version_only_the_version_is_read(void **state)
{
	uint8_t wire[HELLO_SIZE];

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	wire[4] = 3;
	assert_version_alone(wire, sizeof(wire), 3);
	wire[4] = 0;
	assert_version_alone(wire, sizeof(wire), 0);
}

static void a_hello_of_version_1_is_one_of_another_version_although_it_is_shorter(void **state)
{
	/* a smaller object, so that a sanitizer sees what is read behind the end */
	uint8_t *exact = malloc(VERSION_1_SIZE);
	struct hello hello;

	(void)state;
	for (size_t size = 5; size <= sizeof(version_1_bytes); size++)
		assert_version_alone(version_1_bytes, size, 1);
	assert_int_equal(decode_hello(version_1_bytes, 4, &hello), GREETING_NONE);
	assert_non_null(exact);
	memcpy(exact, version_1_bytes, VERSION_1_SIZE);
	assert_version_alone(exact, VERSION_1_SIZE, 1);
	free(exact);
}

static void reserved_bytes_of_a_hello_are_ignored(void **state)
{
	uint8_t wire[HELLO_SIZE];
	struct hello hello;

	(void)state;
	memcpy(wire, greeting_bytes, HELLO_SIZE);
	memset(wire + 17, 0xff, 7); /* a later version may use them */
	assert_int_equal(decode_hello(wire, sizeof(wire), &hello), GREETING_HELLO);
	assert_int_equal(hello.operation, OPERATION_WRITE);
	assert_int_equal(hello.refusal, REFUSAL_NONE);
	assert_true(hello.length == 0x0102030405060708);
	assert_true(hello.passes == 0x1112131415161718);
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

static void every_type_of_message_has_a_name(void **state)
{
	static const char *const names[] = { "MSG_MR", "MSG_DONE", "MSG_VERDICT", "MSG_WINDOW" };

	(void)state;
	for (unsigned int type = 0; type < MESSAGE_TYPES; type++)
		assert_string_equal(message_name((enum message_type)type), names[type]);
	assert_string_equal(message_name(MESSAGE_TYPES), "MSG_?");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_has_its_fields_and_no_others_at_the_documented_offsets),
		cmocka_unit_test(each_type_is_decoded_into_its_fields_and_zeros),
		cmocka_unit_test(reserved_bytes_of_a_peer_are_ignored),
		cmocka_unit_test(any_bit_of_the_end_of_a_window_is_its_end),
		cmocka_unit_test(the_tutorials_program_understands_a_message),
		cmocka_unit_test(a_message_of_the_tutorials_program_is_understood),
		cmocka_unit_test(a_message_of_another_size_is_refused),
		cmocka_unit_test(a_message_of_unknown_type_is_refused),
		cmocka_unit_test(a_hello_has_its_fields_at_the_documented_offsets),
		cmocka_unit_test(a_refusal_says_why_and_what_the_limit_is),
		cmocka_unit_test(a_server_that_is_out_of_resources_says_of_which),
		cmocka_unit_test(a_hello_is_found_whatever_the_transport_pads),
		cmocka_unit_test(an_older_release_does_not_name_its_device),
		cmocka_unit_test(the_name_of_a_device_ends_whatever_the_peer_sends),
		cmocka_unit_test(a_peer_without_hello_is_taken_for_the_tutorials_program),
		cmocka_unit_test(of_a_hello_of_another_version_only_the_version_is_read),
		cmocka_unit_test(
			a_hello_of_version_1_is_one_of_another_version_although_it_is_shorter),
		cmocka_unit_test(reserved_bytes_of_a_hello_are_ignored),
		cmocka_unit_test(the_flags_of_a_hello_are_little_endian),
		cmocka_unit_test(every_type_of_message_has_a_name),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
