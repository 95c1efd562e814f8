// SPDX-License-Identifier: MIT
/*
 * Ask the kernel of this machine, and decode its answers about a generic netlink family and about
 * pause frames. The answer about a family is recorded. The answer with pause frames is built as
 * Linux builds it (net/ethtool/pause.c), because no adapter of the lab counts pause frames.
 */
#include "rdma-common/netlink.h"

#include <endian.h>
#include <errno.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>

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

/* Call `function` with a message of these bytes. */
static void decode(const uint8_t *bytes, nl_recvmsg_msg_cb_t function, void *context)
{
	const void *header = bytes;
	struct nl_msg *message = nlmsg_convert((struct nlmsghdr *)(uintptr_t)header);

	assert_non_null(message);
	assert_int_equal(function(message, context), NL_OK);
	nlmsg_free(message);
}

TEST(family_number_is_decoded)
{
	uint16_t family = 0;

	NEEDS_THESE_BYTES();
	decode(family_answer, netlink_take_family, &family);
	assert_int_equal(family, 16);
}

TEST(pause_frames_are_decoded)
{
	struct pause_frames frames = { 0 };

	NEEDS_THESE_BYTES();
	decode(pause_answer, netlink_take_pause, &frames);
	assert_true(frames.known);
	assert_true(frames.sent == 7);
	assert_true(frames.received == 0x10000002a); /* more than 32 bits */
}

/* Some drivers count only one direction. A counter has 64 bits. */
TEST(pause_frames_are_unknown_unless_both_directions_are_counted)
{
	static const struct {
		size_t place; /* offset of the changed byte */
		uint8_t byte; /* its new value */
	} cases[] = {
		{ 70, 0x7e }, /* the type of the attribute with both counters */
		{ 74, 0x7e }, /* the type of each counter */
		{ 86, 0x7e },
		{ 84, 8 }, /* the length of a counter */
	};

	NEEDS_THESE_BYTES();
	EACH_ROW (i, cases) {
		struct pause_frames frames = { .known = true };
		uint8_t other[sizeof(pause_answer)];

		memcpy(other, pause_answer, sizeof(other));
		other[cases[i].place] = cases[i].byte;
		decode(other, netlink_take_pause, &frames);
		assert_false(frames.known);
	}
}

static int count_interface(struct nl_msg *message, void *count)
{
	struct nlattr *name = netlink_find(message, sizeof(struct ifinfomsg), IFLA_IFNAME);

	*(int *)count += name && !strcmp(nla_get_string(name), "lo");
	return NL_OK;
}

/*
 * Ask the kernel for the interface `name`, or for all. Return its errno value. Add the number of
 * answers about lo to `count`.
 */
static int ask_interfaces(int flags, const char *name, int *count)
{
	const struct ifinfomsg body = { 0 };
	struct nl_msg *request = netlink_make_request(RTM_GETLINK, flags, &body, sizeof(body));

	if (name)
		netlink_add(request, IFLA_IFNAME, name, strlen(name) + 1);
	return netlink_ask(NETLINK_ROUTE, request, count_interface, count);
}

TEST(kernel_answers_about_one_interface_and_about_all)
{
	int count = 0;

	assert_int_equal(ask_interfaces(0, "lo", &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(ask_interfaces(NLM_F_DUMP, NULL, &count), 0);
	assert_int_equal(count, 2);
}

TEST(errno_value_of_the_kernel_is_returned)
{
	int count = 0;

	assert_int_equal(ask_interfaces(0, "nosuch", &count), ENODEV);
	assert_int_equal(count, 0);
}

/* The kernel does not answer NLMSG_NOOP. */
TEST(request_without_an_answer_does_not_wait)
{
	struct nl_msg *request = netlink_make_request(NLMSG_NOOP, 0, "", 0);
	int count = 0;

	alarm(10); /* SIGALRM ends a test that waits */
	assert_int_equal(netlink_ask(NETLINK_ROUTE, request, count_interface, &count), 0);
	alarm(0);
}

TEST(added_attribute_has_all_bytes)
{
	const struct rtmsg body = { .rtm_family = AF_INET };
	struct nl_msg *request = netlink_make_request(RTM_GETROUTE, 0, &body, sizeof(body));
	const uint32_t address = 0x01020304;
	uint32_t found;

	netlink_add(request, RTA_DST, &address, sizeof(address));
	assert_true(
		netlink_copy(netlink_find(request, sizeof(body), RTA_DST), &found, sizeof(found)));
	assert_int_equal(found, address);
	nlmsg_free(request);
}

TEST(null_request_is_accepted_and_not_sent)
{
	int count = 0;

	netlink_add(NULL, IFLA_IFNAME, "lo", sizeof("lo"));
	assert_int_equal(netlink_ask(NETLINK_ROUTE, NULL, count_interface, &count), 0);
	assert_int_equal(count, 0);
}

TEST(pause_frames_of_lo_and_of_a_missing_interface_are_unknown)
{
	struct pause_frames frames;

	assert_false(netlink_read_pause("lo", &frames));
	assert_false(netlink_read_pause("nosuch", &frames));
}

RUN_TESTS(NULL, NULL)
