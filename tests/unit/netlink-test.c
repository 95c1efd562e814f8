// SPDX-License-Identifier: MIT
/*
 * The kernel's answers about a family of generic netlink and about pause frames: recorded, and, as
 * no adapter here counts such frames, as Linux lays them out (net/ethtool/pause.c).
 */
#include "rdma-common/netlink.h"

#include <endian.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>

#include "unit.h"
#include "folder.h"

#define FAMILY 0x15

/* The bytes below are those of a little-endian host: netlink's numbers are in the host's order. */
#define NEEDS_THESE_BYTES()          \
	do {                         \
		if (htole16(1) != 1) \
			skip();      \
	} while (0)

/* Recorded: the family "nlctrl", whose number is 16. */
static const uint8_t family_answer[] = {
	0x88, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbf, 0x7c,
	0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x0b, 0x00, 0x02, 0x00, 0x6e, 0x6c, 0x63, 0x74,
	0x72, 0x6c, 0x00, 0x00, 0x06, 0x00, 0x01, 0x00, 0x10, 0x00, 0x00, 0x00, 0x08, 0x00,
	0x03, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x08, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2c, 0x00, 0x06, 0x00, 0x14, 0x00,
	0x01, 0x00, 0x08, 0x00, 0x01, 0x00, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00,
	0x0e, 0x00, 0x00, 0x00, 0x14, 0x00, 0x02, 0x00, 0x08, 0x00, 0x01, 0x00, 0x0a, 0x00,
	0x00, 0x00, 0x08, 0x00, 0x02, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x1c, 0x00, 0x07, 0x00,
	0x18, 0x00, 0x01, 0x00, 0x08, 0x00, 0x02, 0x00, 0x10, 0x00, 0x00, 0x00, 0x0b, 0x00,
	0x01, 0x00, 0x6e, 0x6f, 0x74, 0x69, 0x66, 0x79, 0x00, 0x00,
};

/* Recorded: asked for an interface whose driver has no pause frames (EOPNOTSUPP). */
static const uint8_t unsupported_answer[] = {
	0x40, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbf,
	0x7c, 0x00, 0x00, 0xa1, 0xff, 0xff, 0xff, 0x2c, 0x00, 0x00, 0x00, 0x15, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x15, 0x01, 0x00,
	0x00, 0x18, 0x00, 0x01, 0x80, 0x08, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x00,
	0x09, 0x00, 0x02, 0x00, 0x65, 0x74, 0x68, 0x30, 0x00, 0x00, 0x00, 0x00,
};

/* Of an interface that counts them: header, three settings, and the frames sent and received. */
static const uint8_t pause_answer[] = {
	0x68, 0x00, 0x00, 0x00, FAMILY, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x16, 0x01, 0x00, 0x00,
	/* ETHTOOL_A_PAUSE_HEADER: the interface's number, and "eth0" */
	0x18, 0x00, 0x01, 0x80, 0x08, 0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x09, 0x00, 0x02,
	0x00, 0x65, 0x74, 0x68, 0x30, 0x00, 0x00, 0x00, 0x00,
	/* _AUTONEG, _RX, _TX */
	0x05, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00,
	0x00, 0x05, 0x00, 0x04, 0x00, 0x01, 0x00, 0x00, 0x00,
	/* _STATS: _TX_FRAMES, _RX_FRAMES, and one that is unknown */
	0x24, 0x00, 0x05, 0x80, 0x0c, 0x00, 0x02, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x0c, 0x00, 0x03, 0x00, 0x2a, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x08, 0x00,
	0x7f, 0x00, 0x00, 0x00, 0x00, 0x00
};

/* A copy with nothing behind its `size` bytes that a sanitizer would not see. To be freed. */
static uint8_t *exactly(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + !size);

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	return copy;
}

static bool decode_pause(const uint8_t *bytes, size_t size, struct pause_frames *frames)
{
	uint8_t *answer = exactly(bytes, size);
	bool decoded = netlink_decode_pause(answer, size, FAMILY, frames);

	free(answer);
	return decoded;
}

static int decode_family(const uint8_t *bytes, size_t size)
{
	uint8_t *answer = exactly(bytes, size);
	int family = netlink_decode_family(answer, size);

	free(answer);
	return family;
}

TEST(a_family_has_its_number_behind_its_name)
{
	NEEDS_THESE_BYTES();
	assert_int_equal(decode_family(family_answer, sizeof(family_answer)), 16);
	assert_int_equal(decode_family(unsupported_answer, sizeof(unsupported_answer)), -1);
}

TEST(pause_frames_are_found_behind_the_settings)
{
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	assert_true(decode_pause(pause_answer, sizeof(pause_answer), &frames));
	assert_true(frames.sent == 7);
	assert_true(frames.received == 0x10000002a); /* above 32 bits */
}

/* The length of the message says how much there should be; less has come. */
TEST(of_an_answer_that_is_cut_off_nothing_is_believed)
{
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	for (size_t size = 0; size < sizeof(pause_answer); size++)
		assert_false(decode_pause(pause_answer, size, &frames));
	for (size_t size = 0; size < sizeof(family_answer); size++)
		assert_int_equal(decode_family(family_answer, size), -1);
}

TEST(an_error_and_another_familys_message_have_no_pause_frames)
{
	uint8_t other[sizeof(pause_answer)];
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	memcpy(other, pause_answer, sizeof(other));
	other[4]++;
	assert_false(decode_pause(other, sizeof(other), &frames));
	assert_false(decode_pause(unsupported_answer, sizeof(unsupported_answer), &frames));
}

/* Where each attribute's type is changed in turn: without any one that is read, there are none. */
TEST(a_driver_that_does_not_count_both_counts_none)
{
	static const struct {
		size_t type; /* its place */
		bool needed;
	} attributes[] = { { 22, false }, { 46, false }, { 54, false }, { 62, false },
			   { 70, true },  { 74, true },  { 86, true },  { 98, false } };

	NEEDS_THESE_BYTES();
	for (size_t i = 0; i < ENTRIES(attributes); i++) {
		uint8_t other[sizeof(pause_answer)];
		struct pause_frames frames;

		memcpy(other, pause_answer, sizeof(other));
		other[attributes[i].type] = 0x7e;
		assert_int_equal(decode_pause(other, sizeof(other), &frames),
				 !attributes[i].needed);
	}
}

/* A length that is shorter than its own header, or longer than what is left, ends the search. */
TEST(a_length_that_cannot_be_is_no_endless_loop)
{
	static const uint8_t lengths[] = { 0, 1, 3, 0xff };
	struct pause_frames frames;

	NEEDS_THESE_BYTES();
	for (size_t i = 0; i < ENTRIES(lengths); i++) {
		uint8_t other[sizeof(pause_answer)];

		memcpy(other, pause_answer, sizeof(other));
		other[44] = lengths[i];
		assert_false(decode_pause(other, sizeof(other), &frames));
		memcpy(other, pause_answer, sizeof(other));
		other[72] = lengths[i];
		assert_false(decode_pause(other, sizeof(other), &frames));
		memcpy(other, pause_answer, sizeof(other));
		other[84] = 8; /* a number of 32 bits */
		assert_false(decode_pause(other, sizeof(other), &frames));
	}
}

/* This kernel is asked: it understands the question, and the loopback interface has none. */
TEST(an_interface_without_pause_frames_has_none_and_no_descriptor_is_left)
{
	int before = count_descriptors();
	struct pause_frames frames;

	assert_false(netlink_read_pause("lo", &frames));
	assert_false(netlink_read_pause("nosuch", &frames));
	assert_int_equal(count_descriptors(), before);
}

RUN_TESTS(NULL, NULL, NULL)
