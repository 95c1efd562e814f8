// SPDX-License-Identifier: MIT
/*
 * Decode the kernel's answers about a generic netlink family and about pause frames. Two answers
 * are recorded. The answer with pause frames is built as Linux builds it (net/ethtool/pause.c),
 * because no adapter of the lab counts pause frames.
 */
#include "rdma-common/netlink.h"

#include <endian.h>
#include <errno.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>

#include "unit.h"

#define FAMILY 0x15

/* Skip on a big-endian host: netlink uses the host's byte order. */
#define NEEDS_THESE_BYTES()          \
	do {                         \
		if (htole16(1) != 1) \
			skip();      \
	} while (0)

/* clang-format off */
/* Recorded: the family "nlctrl", number 16. */
static const uint8_t family_answer[] = {
	0x88, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbf, 0x7c, 0x00, 0x00,
	0x01, 0x02, 0x00, 0x00, 0x0b, 0x00, 0x02, 0x00, 0x6e, 0x6c, 0x63, 0x74, 0x72, 0x6c, 0x00, 0x00,
	0x06, 0x00, 0x01, 0x00, 0x10, 0x00, 0x00, 0x00, 0x08, 0x00, 0x03, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x08, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x2c, 0x00, 0x06, 0x00, 0x14, 0x00, 0x01, 0x00, 0x08, 0x00, 0x01, 0x00, 0x03, 0x00, 0x00, 0x00,
	0x08, 0x00, 0x02, 0x00, 0x0e, 0x00, 0x00, 0x00, 0x14, 0x00, 0x02, 0x00, 0x08, 0x00, 0x01, 0x00,
	0x0a, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x1c, 0x00, 0x07, 0x00,
	0x18, 0x00, 0x01, 0x00, 0x08, 0x00, 0x02, 0x00, 0x10, 0x00, 0x00, 0x00, 0x0b, 0x00, 0x01, 0x00,
	0x6e, 0x6f, 0x74, 0x69, 0x66, 0x79, 0x00, 0x00,
};

/* Recorded: the answer for an interface whose driver has no pause frames (EOPNOTSUPP). */
static const uint8_t unsupported_answer[] = {
	0x40, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbf, 0x7c, 0x00, 0x00,
	0xa1, 0xff, 0xff, 0xff, 0x2c, 0x00, 0x00, 0x00, 0x15, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x15, 0x01, 0x00, 0x00, 0x18, 0x00, 0x01, 0x80, 0x08, 0x00, 0x03, 0x00,
	0x04, 0x00, 0x00, 0x00, 0x09, 0x00, 0x02, 0x00, 0x65, 0x74, 0x68, 0x30, 0x00, 0x00, 0x00, 0x00,
};

/*
 * Built: the answer for an interface that counts pause frames: a header, three settings, and the
 * frames sent and received.
 */
static const uint8_t pause_answer[] = {
	0x68, 0, 0, 0, FAMILY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16, 0x01, 0, 0,
	/* ETHTOOL_A_PAUSE_HEADER: the interface's number, and "eth0" */
	0x18, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, 0x02, 0, 0, 0, 0x09, 0, 0x02, 0, 0x65, 0x74, 0x68, 0x30, 0, 0, 0, 0,
	/* _AUTONEG, _RX, _TX */
	0x05, 0, 0x02, 0, 0, 0, 0, 0, 0x05, 0, 0x03, 0, 0x01, 0, 0, 0, 0x05, 0, 0x04, 0, 0x01, 0, 0, 0,
	/* _STATS: _TX_FRAMES, _RX_FRAMES, and an unknown attribute */
	0x24, 0, 0x05, 0x80, 0x0c, 0, 0x02, 0, 0x07, 0, 0, 0, 0, 0, 0, 0,
	0x0c, 0, 0x03, 0, 0x2a, 0, 0, 0, 0x01, 0, 0, 0, 0x08, 0, 0x7f, 0, 0, 0, 0, 0,
};
/* clang-format on */

/* Decode these bytes as an answer of this type. Return the errno value in the answer, or 0. */
static int decode(const void *bytes, size_t size, int type, netlink_function function,
		  void *context)
{
	uint8_t *answer = exactly(bytes, size);
	int error = netlink_decode((struct span){ answer, size }, type, sizeof(struct genlmsghdr),
				   function, context);

	free(answer);
	return error;
}

static bool decode_pause(const uint8_t *bytes, size_t size, struct pause_frames *frames)
{
	frames->known = false;
	decode(bytes, size, FAMILY, netlink_take_pause, frames);
	return frames->known;
}

/* Return the number of the family; 0: it was not decoded. */
static int decode_family(const uint8_t *bytes, size_t size)
{
	uint16_t family = 0;

	decode(bytes, size, GENL_ID_CTRL, netlink_take_family, &family);
	return family;
}

TEST(family_number_is_decoded)
{
	NEEDS_THESE_BYTES();
	assert_int_equal(decode_family(family_answer, sizeof(family_answer)), 16);
	assert_int_equal(decode_family(unsupported_answer, sizeof(unsupported_answer)), 0);
}

TEST(pause_frames_are_decoded)
{
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	assert_true(decode_pause(pause_answer, sizeof(pause_answer), &frames));
	assert_true(frames.sent == 7);
	assert_true(frames.received == 0x10000002a); /* more than 32 bits */
}

/* The message states its length, but fewer bytes have arrived. */
TEST(truncated_answer_is_rejected)
{
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	for (size_t size = 0; size < sizeof(pause_answer); size++)
		assert_false(decode_pause(pause_answer, size, &frames));
	for (size_t size = 0; size < sizeof(family_answer); size++)
		assert_int_equal(decode_family(family_answer, size), 0);
}

/*
 * Each case changes one byte. Without one of the two counters the frames are unknown: some drivers
 * count only one direction. An attribute that is shorter than its header, or ends beyond the
 * answer, ends the search.
 */
TEST(malformed_answer_is_rejected_and_unknown_attributes_are_ignored)
{
	static const struct {
		size_t place;  /* offset of the changed byte */
		uint8_t byte;  /* its new value */
		bool believed; /* the answer is decoded */
	} cases[] = {
		/* clang-format off */
		{ 4, FAMILY + 1, false }, /* another family */
		/* the type of each attribute */
		{ 22, 0x7e, true }, { 46, 0x7e, true }, { 54, 0x7e, true }, { 62, 0x7e, true },
		{ 70, 0x7e, false }, { 74, 0x7e, false }, { 86, 0x7e, false }, { 98, 0x7e, true },
		/* the length of a setting, and of a counter, which needs 64 bits */
		{ 44, 0, false }, { 44, 1, false }, { 44, 3, false }, { 44, 0xff, false },
		{ 72, 0, false }, { 72, 1, false }, { 72, 3, false }, { 72, 0xff, false }, { 84, 8, false },
		/* clang-format on */
	};
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		uint8_t other[sizeof(pause_answer)];

		memcpy(other, pause_answer, sizeof(other));
		other[cases[i].place] = cases[i].byte;
		assert_int_equal(decode_pause(other, sizeof(other), &frames), cases[i].believed);
	}
	assert_false(decode_pause(unsupported_answer, sizeof(unsupported_answer), &frames));
}

static void count_message(void *count, struct netlink_message message)
{
	assert_int_equal(message.attributes.size, sizeof(family_answer) - 20);
	++*(int *)count;
}

/* Four messages: the second is too short for its body, and padded; the third is an error. */
TEST(messages_of_the_type_are_decoded_and_an_error_is_returned)
{
	const size_t size = sizeof(family_answer), end = 2 * size + 20 + sizeof(unsupported_answer);
	uint8_t answer[sizeof(family_answer) * 2 + 20 + sizeof(unsupported_answer)] = { 0 };

	NEEDS_THESE_BYTES();
	memcpy(answer, family_answer, size);
	answer[size] = 18;
	answer[size + 4] = GENL_ID_CTRL;
	memcpy(answer + size + 20, unsupported_answer, sizeof(unsupported_answer));
	memcpy(answer + end - size, family_answer, size);
	for (size_t part = 0; part <= end; part++) {
		int count = 0, error = decode(answer, part, GENL_ID_CTRL, count_message, &count);

		assert_int_equal(count, (part >= size) + (part >= end));
		assert_int_equal(error, part >= end - size ? EOPNOTSUPP : 0);
	}
}

/* Ask the kernel of this machine. */
TEST(pause_frames_of_lo_and_of_a_missing_interface_are_unknown)
{
	struct pause_frames frames;

	assert_false(netlink_read_pause("lo", &frames));
	assert_false(netlink_read_pause("nosuch", &frames));
}

RUN_TESTS(NULL, NULL)
