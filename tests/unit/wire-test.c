// SPDX-License-Identifier: MIT
/*
 * Encoding byte by byte, and decoding of bytes that a peer chose. The expected bytes are literal,
 * so that a common mistake of encoder and decoder is found, too.
 */
#include "rdma-common.h"

#include <endian.h>

#include "unit.h"

/* ---- Messages ---- */

/*
 * Fields at different offsets have different values, so that the test fails if a message has a
 * field that its type does not use.
 */
static const struct message full = { .value = 0x1122334455667788,
				     .length = 0x0102030405060708,
				     .produced = 0x2122232425262728,
				     .counted = true,
				     .errors = 0x5152535455565757, /* one more on the wire */
				     .missing = 0x6162636465666768,
				     .retransmitted = 0x7172737475767778,
				     .rkey = 0xdeadbeef,
				     .window = { .received = 0x3132333435363738,
						 .produced = 0x1122334455667788,
						 .consumed = 0x0102030405060708,
						 .stored = 0x4142434445464748,
						 .end = true } };

#define VALUE_BYTES    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11
#define LENGTH_BYTES   0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01
#define PRODUCED_BYTES 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21
#define RECEIVED_BYTES 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31
#define STORED_BYTES   0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41
#define ERRORS_BYTES   0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51
#define MISSING_BYTES  0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61
#define RESENT_BYTES   0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71
#define RKEY_BYTES     0xef, 0xbe, 0xad, 0xde

/* The bytes of each type on the wire, and the decoded message. */
static const struct {
	uint8_t wire[MESSAGE_SIZE];
	struct message decoded;
} layouts[MESSAGE_TYPES] = {
	/* clang-format off */
	[MSG_MR] = { { [8] = PRODUCED_BYTES, [24] = VALUE_BYTES, LENGTH_BYTES, [48] = RKEY_BYTES },
		     { .value = 0x1122334455667788, .length = 0x0102030405060708, .produced = 0x2122232425262728, .rkey = 0xdeadbeef } },
	[MSG_DONE] = { { [0] = 1, [24] = VALUE_BYTES, LENGTH_BYTES },
		       { .value = 0x1122334455667788, .length = 0x0102030405060708 } },
	[MSG_VERDICT] = { { [0] = 2, [8] = ERRORS_BYTES, MISSING_BYTES, VALUE_BYTES, LENGTH_BYTES, RESENT_BYTES },
			  { .value = 0x1122334455667788, .length = 0x0102030405060708, .counted = true, .errors = 0x5152535455565757,
			    .missing = 0x6162636465666768, .retransmitted = 0x7172737475767778 } },
	[MSG_WINDOW] = { { [0] = 3, [8] = RECEIVED_BYTES, STORED_BYTES, VALUE_BYTES, LENGTH_BYTES, [48] = 1 },
			 { .window = { .produced = 0x1122334455667788, .consumed = 0x0102030405060708, .received = 0x3132333435363738,
				       .stored = 0x4142434445464748, .end = true } } },
	/* clang-format on */
};

static void assert_decoded(const uint8_t wire[MESSAGE_SIZE], unsigned int type)
{
	const struct message *expected = &layouts[type].decoded;
	struct message message;

	memset(&message, 0xaa, sizeof(message));
	assert_true(decode_message(wire, MESSAGE_SIZE, &message));
	assert_int_equal(message.type, type);
	assert_true(message.value == expected->value && message.length == expected->length);
	assert_true(message.produced == expected->produced);
	assert_true(message.counted == expected->counted && message.errors == expected->errors);
	assert_true(message.missing == expected->missing);
	assert_true(message.retransmitted == expected->retransmitted);
	assert_true(message.window.received == expected->window.received);
	assert_true(message.window.stored == expected->window.stored);
	assert_true(message.window.produced == expected->window.produced);
	assert_true(message.window.consumed == expected->window.consumed);
	assert_int_equal(message.window.end, expected->window.end);
	assert_int_equal(message.rkey, expected->rkey);
}

/*
 * Return true if messages of this type do not use the byte: it is zero in the layout, and outside
 * of the type field and the end mark.
 */
static bool is_reserved(unsigned int type, size_t byte)
{
	bool flag = type == MSG_WINDOW && byte >= 48 && byte < 52;

	return byte >= 4 && layouts[type].wire[byte] == 0 && !flag;
}

TEST(each_message_type_has_only_its_fields_at_the_documented_offsets)
{
	for (unsigned int type = 0; type < MESSAGE_TYPES; type++) {
		struct message message = full;
		uint8_t wire[MESSAGE_SIZE];

		message.type = (enum message_type)type;
		memset(wire, 0xaa, sizeof(wire)); /* old contents must not leak to the peer */
		encode_message(&message, wire);
		assert_memory_equal(wire, layouts[type].wire, MESSAGE_SIZE);
		assert_decoded(wire, type);
		for (size_t i = 0; i < MESSAGE_SIZE; i++)
			wire[i] = is_reserved(type, i) ? 0xff : wire[i];
		assert_decoded(wire, type); /* reserved bytes are ignored */
	}
}

TEST(any_nonzero_byte_of_the_end_field_marks_the_end)
{
	uint8_t wire[MESSAGE_SIZE] = { MSG_WINDOW };
	struct message message;

	assert_true(decode_message(wire, sizeof(wire), &message));
	assert_false(message.window.end);
	for (size_t byte = 48; byte < 52; byte++) {
		wire[byte] = 0x80;
		assert_true(decode_message(wire, sizeof(wire), &message));
		assert_true(message.window.end);
		wire[byte] = 0;
	}
}

/* The tutorial's struct message in memory. Its struct ibv_mr is the one of verbs.h. */
struct tutorial_message {
	enum {
		TUTORIAL_MR,
		TUTORIAL_DONE,
	} type;
	union {
		struct ibv_mr mr;
	} data;
};

/*
 * The tutorial's program sends its struct ibv_mr as it is in memory. That struct begins with two
 * pointers, which are decoded as `produced` and must be ignored. The other fields are at the
 * offsets of the layouts above.
 */
TEST(messages_have_the_layout_of_the_tutorials_program)
{
	struct tutorial_message tutorial;

	if (__BYTE_ORDER != __LITTLE_ENDIAN || sizeof(void *) != 8) {
		print_message("SKIP: the layout is that of 64-bit little-endian machines\n");
		skip();
	}
	assert_int_equal(sizeof(tutorial), MESSAGE_SIZE);
	memcpy(&tutorial, layouts[MSG_MR].wire, sizeof(tutorial));
	assert_int_equal(tutorial.type, TUTORIAL_MR);
	assert_true((uintptr_t)tutorial.data.mr.context == full.produced);
	assert_true((uintptr_t)tutorial.data.mr.addr == full.value);
	assert_true(tutorial.data.mr.length == full.length);
	assert_true(tutorial.data.mr.rkey == full.rkey);
	memcpy(&tutorial, layouts[MSG_DONE].wire, sizeof(tutorial));
	assert_int_equal(tutorial.type, TUTORIAL_DONE);
}

TEST(a_message_of_another_size_or_type_is_rejected)
{
	uint8_t wire[2 * MESSAGE_SIZE] = { 0 };
	struct message message;

	for (size_t size = 0; size <= sizeof(wire); size++)
		assert_int_equal(decode_message(wire, size, &message), size == MESSAGE_SIZE);
	for (size_t byte = 0; byte < 4; byte++) { /* all 32 bits of the type count */
		for (unsigned int value = byte ? 1 : MESSAGE_TYPES; value < 256; value++) {
			wire[byte] = (uint8_t)value;
			assert_false(decode_message(wire, MESSAGE_SIZE, &message));
		}
		wire[byte] = 0;
	}
}

/* ---- Hello ---- */

/* clang-format off */
static const struct {
	struct hello hello;
	uint8_t wire[HELLO_SIZE];
} hellos[] = {
	{ { .version = HELLO_VERSION, .operation = OPERATION_WRITE, .flags = 0x8103, /* a flag of a later version */
	    .length = 0x0102030405060708, .mtu = 3, .seconds = 0x21222324, .passes = 0x1112131415161718, .device = "mlx5_bond_0",
	    .wanted = 0x31323334, .wanted_seconds = 0x41424344 },
	  { 'R',  'W',  'H',  'O',  4,    1,    0x03, 0x81, /* magic, version, write, flags */
	    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* length */
	    0,    3,    0,    0,    0x24, 0x23, 0x22, 0x21, /* no refusal, MTU, seconds */
	    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* passes */
	    'm',  'l',  'x',  '5',  '_',  'b',  'o',  'n', 'd',  '_',  '0', 0, 0, 0, 0, 0, /* device */
	    0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41, /* wanted, wanted seconds */ } },
	/* a refusal with its reason and the limit: 1 GiB */
	{ { .version = HELLO_VERSION, .operation = OPERATION_READ, .refusal = REFUSAL_LENGTH, .length = (uint64_t)1 << 30 },
	  { 'R', 'W', 'H', 'O', 4, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 3 } },
};
/* clang-format on */

static const uint8_t *const hello_wire = hellos[0].wire;

static enum hello_kind decode(const uint8_t *wire, size_t size, struct hello *hello)
{
	uint8_t *exact = exactly(wire, size);
	enum hello_kind found;

	memset(hello, 0xaa, sizeof(*hello));
	found = decode_hello(exact, size, hello);
	free(exact);
	return found;
}

/* Check that `wire` decodes to a hello with the fields of `expected`, and to the right kind. */
static void assert_hello(const uint8_t *wire, size_t size, const struct hello *expected)
{
	uint8_t expected_wire[HELLO_SIZE], found_wire[HELLO_SIZE];
	struct hello found;

	assert_int_equal(decode(wire, size, &found),
			 expected->version == HELLO_VERSION && size >= HELLO_SIZE
				 ? HELLO_CURRENT
				 : HELLO_OTHER_VERSION);
	encode_hello(&found, found_wire);
	encode_hello(expected, expected_wire);
	assert_memory_equal(found_wire, expected_wire, HELLO_SIZE);
}

/*
 * InfiniBand pads private data to 56 bytes in a request, 196 in a reply, 148 in a rejection.
 * Reserved bytes are ignored.
 */
TEST(a_hello_has_its_fields_at_the_documented_offsets_with_any_padding)
{
	static const size_t sizes[] = { 56, 148, 196, 256 };

	EACH_ROW (i, hellos) {
		uint8_t wire[256];

		memset(wire, 0xaa, sizeof(wire));
		encode_hello(&hellos[i].hello, wire);
		assert_memory_equal(wire, hellos[i].wire, HELLO_SIZE);
		for (size_t j = 0; j < ENTRIES(sizes); j++)
			assert_hello(wire, sizes[j], &hellos[i].hello);
		wire[18] = wire[19] = 0xff;
		assert_hello(wire, HELLO_SIZE, &hellos[i].hello);
	}
}

TEST(a_device_name_is_always_terminated)
{
	struct hello hello = hellos[0].hello;
	uint8_t wire[HELLO_SIZE];

	memset(hello.device, 'x', sizeof(hello.device));
	encode_hello(&hello, wire);
	assert_memory_equal(wire + 32, "xxxxxxxxxxxxxxx", 16);
	memset(wire + 32, 0xff, 16);
	assert_int_equal(decode(wire, sizeof(wire), &hello), HELLO_CURRENT);
	assert_int_equal(strlen(hello.device), 15);
}

TEST(a_peer_without_the_magic_has_no_hello)
{
	uint8_t wire[196] = { 0 };
	struct hello hello;

	assert_int_equal(decode_hello(NULL, 0, &hello), HELLO_ABSENT);
	assert_int_equal(decode_hello(NULL, 196, &hello), HELLO_ABSENT);
	assert_int_equal(decode(wire, sizeof(wire), &hello), HELLO_ABSENT);
	memcpy(wire, hello_wire, HELLO_SIZE);
	for (size_t size = 0; size < 4; size++)
		assert_int_equal(decode(wire, size, &hello), HELLO_ABSENT);
	for (size_t byte = 0; byte < 4; byte++) { /* all bytes of the magic count */
		wire[byte] ^= 0x20;
		assert_int_equal(decode(wire, sizeof(wire), &hello), HELLO_ABSENT);
		wire[byte] ^= 0x20;
	}
	assert_int_equal(decode(wire, sizeof(wire), &hello), HELLO_CURRENT);
}

/*
 * A hello begins with the magic. The fields after the version are decoded only if the hello is
 * complete and of this version.
 */
TEST(only_the_version_is_decoded_from_a_short_hello_or_one_of_another_version)
{
	uint8_t wire[HELLO_SIZE];

	for (uint8_t version = 0; version <= HELLO_VERSION + 1; version++) {
		memcpy(wire, hello_wire, sizeof(wire));
		wire[4] = version;
		for (size_t size = 4; size <= HELLO_SIZE; size++) {
			const struct hello expected = { .version = size > 4 ? version : 0 };

			if (version != HELLO_VERSION || size < HELLO_SIZE)
				assert_hello(wire, size, &expected);
		}
	}
}

TEST(every_type_of_message_has_a_name)
{
	static const char *const names[] = { "MSG_MR", "MSG_DONE", "MSG_VERDICT", "MSG_WINDOW" };

	for (unsigned int type = 0; type < MESSAGE_TYPES; type++)
		assert_string_equal(message_name((enum message_type)type), names[type]);
	assert_string_equal(message_name(MESSAGE_TYPES), "MSG_?");
}

RUN_TESTS(NULL, NULL)
