// SPDX-License-Identifier: MIT
/*
 * The kernel's answer about PFC and the priority of a DSCP, whole, cut off and wrong. There is no
 * adapter here that gives one: its bytes are those that Linux's dcbnl_ieee_fill() lays out.
 */

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>

#include "rdma-common/congestion.h"

#include "unit.h"

/* As Linux lays it out: headers, the interface's name, then all that is IEEE's: ETS, and PFC. */
struct answer {
	struct nlmsghdr header;
	struct dcbmsg dcb;
	struct nlattr name;
	char text[8]; /* "eth0", a zero, and padding */
	struct nlattr ieee, ets;
	uint8_t ets_bytes[60]; /* of 59 */
	struct nlattr pfc;
	struct ieee_pfc contents;
	struct nlattr table;
	struct entry {
		struct nlattr header;
		struct dcb_app app;
	} entries[6];
};

#define ENTRY(of, value, gives)                                                         \
	{                                                                               \
		{ .nla_len = sizeof(struct entry), .nla_type = DCB_ATTR_IEEE_APP },     \
			{ .selector = (of), .priority = (gives), .protocol = (value) }, \
	}

static struct answer make_answer(void)
{
	struct answer answer = {
		.header = { .nlmsg_len = sizeof(answer), .nlmsg_type = RTM_GETDCB },
		.dcb = { .cmd = DCB_CMD_IEEE_GET },
		.name = { .nla_len = sizeof(struct nlattr) + 5, .nla_type = DCB_ATTR_IFNAME },
		.text = "eth0",
		.ieee = { .nla_type = DCB_ATTR_IEEE | NLA_F_NESTED },
		.ets = { .nla_len = sizeof(struct nlattr) + 59, .nla_type = DCB_ATTR_IEEE_ETS },
		.pfc = { .nla_len = sizeof(struct nlattr) + sizeof(answer.contents),
			 .nla_type = DCB_ATTR_IEEE_PFC },
		.contents = { .pfc_cap = 8, .pfc_en = 1 << 3 | 1 << 7 },
		.table = { .nla_len = sizeof(struct nlattr) + sizeof(answer.entries),
			   .nla_type = DCB_ATTR_IEEE_APP_TABLE },
		.entries = { ENTRY(IEEE_8021QAZ_APP_SEL_ETHERTYPE, 26, 7),
			     ENTRY(IEEE_8021QAZ_APP_SEL_DSCP, 26, 3),
			     ENTRY(IEEE_8021QAZ_APP_SEL_DSCP, 48, 6),
			     ENTRY(IEEE_8021QAZ_APP_SEL_DSCP, 26, 2),
			     ENTRY(IEEE_8021QAZ_APP_SEL_DSCP, 10, 8),
			     ENTRY(IEEE_8021QAZ_APP_SEL_DSCP, 12, 0) },
	};

	answer.ieee.nla_len = sizeof(answer) - offsetof(struct answer, ieee);
	return answer;
}

/* What is decoded of an answer. */
struct decoded {
	int pfc, priority;
};

/* The first `size` bytes of an answer, with nothing behind them that a sanitizer would not see. */
static struct decoded decode(unsigned int dscp, const struct answer *answer, size_t size)
{
	uint8_t *exact = malloc(size + !size);
	struct decoded decoded;

	assert_non_null(exact);
	memcpy(exact, answer, size);
	decoded.pfc = congestion_decode_pfc(exact, size);
	decoded.priority = congestion_decode_priority(exact, size, dscp);
	free(exact);
	return decoded;
}

/* A member of the answer, and what it is instead. */
#define SET(member, value) \
	offsetof(struct answer, member), sizeof(((struct answer *)NULL)->member), (value)
#define AS_IT_IS 0, 0, 0

TEST(pfc_and_the_highest_priority_of_a_dscp_are_found_where_they_are)
{
	static const struct {
		size_t place, size;
		uint16_t value;
		unsigned int dscp;
		int pfc, priority; /* -1: nothing is said of it */
	} cases[] = {
		{ AS_IT_IS, 26, 0x88, 3 }, /* behind other attributes; of two entries */
		{ AS_IT_IS, 48, 0x88, 6 },
		{ AS_IT_IS, 12, 0x88, 0 },
		{ AS_IT_IS, 0, 0x88, -1 },
		{ AS_IT_IS, 10, 0x88, -1 }, /* a priority that cannot be */
		{ SET(entries[3].app.priority, 5), 26, 0x88, 5 },
		/* what the peer says of itself */
		{ SET(table.nla_type, DCB_ATTR_IEEE_PEER_APP), 26, 0x88, -1 },
		{ SET(pfc.nla_type, DCB_ATTR_IEEE_MAXRATE), 26, -1, 3 },
		{ SET(ieee.nla_type, DCB_ATTR_CEE), 26, -1, -1 },
		{ SET(header.nlmsg_type, NLMSG_ERROR), 26, -1, -1 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct answer answer = make_answer();
		uint8_t *place = (uint8_t *)&answer + cases[i].place;
		struct decoded decoded;

		if (cases[i].size == sizeof(uint16_t))
			memcpy(place, &cases[i].value, sizeof(uint16_t));
		else if (cases[i].size == sizeof(uint8_t))
			*place = (uint8_t)cases[i].value;
		decoded = decode(cases[i].dscp, &answer, sizeof(answer));
		assert_int_equal(decoded.pfc, cases[i].pfc);
		assert_int_equal(decoded.priority, cases[i].priority);
	}
}

static void assert_nothing_is_believed(const struct answer *answer, size_t size)
{
	const struct decoded decoded = decode(26, answer, size);

	assert_int_equal(decoded.pfc, -1);
	assert_int_equal(decoded.priority, -1);
}

/* Nor of one in which the length of an attribute before them cannot be. */
TEST(of_an_answer_that_is_cut_off_nothing_is_believed)
{
	static const uint16_t lengths[] = { 0, 1, sizeof(struct nlattr) - 1, 4096, UINT16_MAX };
	struct answer answer = make_answer();
	uint16_t *const members[] = { &answer.name.nla_len, &answer.ieee.nla_len,
				      &answer.ets.nla_len, &answer.pfc.nla_len };

	for (size_t size = 0; size < sizeof(answer); size++) {
		answer.header.nlmsg_len = sizeof(answer);
		assert_nothing_is_believed(&answer, size);
		answer.header.nlmsg_len = (uint32_t)size; /* as if that were all of it */
		assert_nothing_is_believed(&answer, size);
	}
	for (size_t i = 0; i < ENTRIES(members) * ENTRIES(lengths); i++) {
		answer = make_answer();
		*members[i / ENTRIES(lengths)] = lengths[i % ENTRIES(lengths)];
		assert_nothing_is_believed(&answer, sizeof(answer));
	}
}

/* What stands before it is believed, and what is behind is not looked at. */
TEST(an_entry_of_an_impossible_length_ends_the_table)
{
	static const uint16_t lengths[] = { 0, 3, 4, 7, 4096, UINT16_MAX };

	for (size_t i = 0; i < ENTRIES(lengths); i++) {
		struct answer answer = make_answer();

		answer.entries[2].header.nla_len = lengths[i];
		answer.entries[3].app.priority = 5;
		assert_int_equal(decode(26, &answer, sizeof(answer)).priority, 3);
		assert_int_equal(decode(48, &answer, sizeof(answer)).priority, -1);
	}
}

/* Its padding would be behind the end. */
TEST(the_last_entry_may_have_an_odd_length)
{
	struct answer answer = make_answer();

	answer.header.nlmsg_len--;
	answer.ieee.nla_len--;
	answer.table.nla_len--;
	answer.entries[5].header.nla_len--;
	assert_int_equal(decode(26, &answer, sizeof(answer)).priority, 3);
}

TEST(the_class_of_a_type_of_service_is_said_in_words)
{
	static const struct {
		unsigned int tos;
		int pfc, ecn; /* -1: nothing of PFC is in the answer */
		bool lossy;
		const char *words;
	} cases[] = {
		/* clang-format off */
		{ 104, 0x88, -1, false, "DSCP 26 -> priority 3: PFC on; PFC on for priority 3 7, ECN not known" },
		{ 107, 0x88, 8, false, "DSCP 26 -> priority 3: PFC on; PFC on for priority 3 7, ECN on for priority 3" },
		{ 104, 0x80, 0, true, "DSCP 26 -> priority 3: lossy; PFC on for priority 7, ECN off" },
		{ 192, 0, 0, true, "DSCP 48 -> priority 6: lossy; PFC off, ECN off" },
		{ 0, 1, -1, true, "DSCP 0 has no priority of its own; PFC on for priority 0, ECN not known" },
		{ 48, 1, 1, false, "DSCP 12 -> priority 0: PFC on; PFC on for priority 0, ECN on for priority 0" },
		{ 104, 0, -1, true, "DSCP 26 -> priority 3: lossy; PFC off, ECN not known" },
		{ 104, -1, 0, false, "PFC not known, ECN off" },
		{ 104, -1, 8, false, "PFC not known, ECN on for priority 3" },
		{ 104, -1, -1, false, "its driver tells nothing of PFC and ECN" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct answer answer = make_answer();
		struct words words = { 0 };

		answer.contents.pfc_en = (uint8_t)cases[i].pfc;
		if (cases[i].pfc < 0)
			answer.pfc.nla_type = DCB_ATTR_IEEE_MAXRATE;
		assert_int_equal(congestion_in_words((const uint8_t *)&answer, sizeof(answer),
						     cases[i].ecn, cases[i].tos, &words),
				 cases[i].lossy);
		assert_string_equal(words.text, cases[i].words);
	}
}

RUN_TESTS(NULL, NULL, NULL)
