// SPDX-License-Identifier: MIT
/*
 * Decode the kernel's answer about PFC and the priority of a DSCP, complete or malformed. The
 * drivers of the lab give no such answer, so the bytes are laid out as Linux's
 * dcbnl_ieee_fill() does.
 */

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>

#include "rdma-common/check/congestion.h"

#include "unit.h"

/*
 * The answer: headers, the interface's name, then the IEEE attributes ETS, PFC and the table of
 * priorities.
 */
struct answer {
	struct nlmsghdr header;
	struct dcbmsg dcb;
	struct nlattr name;
	char text[8]; /* "eth0", a zero, and padding */
	struct nlattr ieee, ets;
	uint8_t ets_bytes[60]; /* 59 bytes, and padding */
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

/*
 * Describe the answer. Set `lossy` if PFC is reported, but not for packets with this `tos`.
 */
static struct strbuf describe(struct answer answer, int ecn, unsigned int tos, bool *lossy)
{
	struct nl_msg *message = nlmsg_convert(&answer.header);
	struct congestion congestion = { tos >> 2, -1, -1, ecn };
	struct strbuf words = { 0 };

	assert_non_null(message);
	assert_int_equal(congestion_take_dcb(message, &congestion), NL_OK);
	*lossy = congestion_text(&congestion, &words);
	nlmsg_free(message);
	return words;
}

/* Offset and size of a changed member of the answer, and its new value. */
#define SET(member, value) \
	offsetof(struct answer, member), sizeof(((struct answer *)NULL)->member), (value)
#define AS_IT_IS  0, 0, 0
#define PFC(bits) SET(contents.pfc_en, bits)
#define NO_PFC    SET(pfc.nla_type, DCB_ATTR_IEEE_MAXRATE)
#define NOTHING   "the driver does not report PFC or ECN"
#define LOSSLESS  "DSCP 26 -> priority 3: PFC on; PFC on for priority 3 7, ECN not known"

TEST(pfc_and_ecn_are_described_with_the_highest_priority_of_the_dscp)
{
	static const struct {
		size_t place, size; /* the changed member, SET() */
		uint16_t value;
		unsigned int tos;
		int ecn; /* priorities with ECN, as bits, or -1 if they are not known */
		bool lossy;
		const char *words;
	} cases[] = {
		/* clang-format off */
		/* DSCP 26 has two entries: the higher priority counts */
		{ AS_IT_IS, 104, -1, false, LOSSLESS },
		{ AS_IT_IS, 107, 8, false, "DSCP 26 -> priority 3: PFC on; PFC on for priority 3 7, ECN on for priority 3" },
		{ AS_IT_IS, 0, 0, true, "DSCP 0 has no priority of its own; PFC on for priority 3 7, ECN off" },
		/* priority 8 of DSCP 10 is invalid */
		{ AS_IT_IS, 40, 0, true, "DSCP 10 has no priority of its own; PFC on for priority 3 7, ECN off" },
		{ SET(entries[3].app.priority, 5), 104, -1, true, "DSCP 26 -> priority 5: lossy; PFC on for priority 3 7, ECN not known" },
		/* a table of the peer's priorities is ignored */
		{ SET(table.nla_type, DCB_ATTR_IEEE_PEER_APP), 104, 0, true,
		  "DSCP 26 has no priority of its own; PFC on for priority 3 7, ECN off" },
		{ PFC(0x80), 104, 0, true, "DSCP 26 -> priority 3: lossy; PFC on for priority 7, ECN off" },
		{ PFC(0), 192, 0, true, "DSCP 48 -> priority 6: lossy; PFC off, ECN off" },
		{ PFC(0), 104, -1, true, "DSCP 26 -> priority 3: lossy; PFC off, ECN not known" },
		{ PFC(1), 48, 1, false, "DSCP 12 -> priority 0: PFC on; PFC on for priority 0, ECN on for priority 0" },
		{ PFC(0xff), 0, 0, false, "DSCP 0 has no priority of its own; PFC on for priority 0 1 2 3 4 5 6 7, ECN off" },
		{ NO_PFC, 104, 0, false, "PFC not known, ECN off" },
		{ NO_PFC, 104, 8, false, "PFC not known, ECN on for priority 3" },
		{ NO_PFC, 104, -1, false, NOTHING },
		{ SET(ieee.nla_type, DCB_ATTR_CEE), 104, -1, false, NOTHING },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct answer answer = make_answer();
		uint8_t *place = (uint8_t *)&answer + cases[i].place;
		struct strbuf words;
		bool lossy;

		if (cases[i].size == sizeof(uint16_t))
			memcpy(place, &cases[i].value, sizeof(uint16_t));
		else if (cases[i].size == sizeof(uint8_t))
			*place = (uint8_t)cases[i].value;
		words = describe(answer, cases[i].ecn, cases[i].tos, &lossy);
		assert_string_equal(words.text, cases[i].words);
		assert_int_equal(lossy, cases[i].lossy);
	}
}

/*
 * Each round but the first adds a rule, which applies: the default rule, then rules for port 4791
 * and UDP port 4791.
 */
TEST(rule_for_the_port_or_default_rule_applies_if_the_dscp_has_none)
{
	static const struct dcb_app rules[] = {
		{ .selector = IEEE_8021QAZ_APP_SEL_ETHERTYPE, .priority = 7, .protocol = 0 },
		{ .selector = IEEE_8021QAZ_APP_SEL_ANY, .priority = 4, .protocol = 4791 },
		{ .selector = IEEE_8021QAZ_APP_SEL_DGRAM, .priority = 3, .protocol = 4791 },
	};
	static const char *const words[] = {
		"DSCP 26 has no priority of its own; PFC on for priority 3 7, ECN not known",
		"DSCP 26 -> priority 7: PFC on; PFC on for priority 3 7, ECN not known",
		"DSCP 26 -> priority 4: lossy; PFC on for priority 3 7, ECN not known",
		LOSSLESS,
	};
	struct answer answer = make_answer();
	bool lossy;

	answer.entries[1].app.selector = IEEE_8021QAZ_APP_SEL_STREAM;
	answer.entries[3].app.protocol = 27;
	for (size_t i = 0; i <= ENTRIES(rules); i++) {
		if (i > 0)
			answer.entries[2 + i].app = rules[i - 1];
		assert_string_equal(describe(answer, -1, 104, &lossy).text, words[i]);
		assert_int_equal(lossy, i % 2 == 0);
	}
}

static void assert_description(unsigned int dscp, struct answer answer, const char *expected)
{
	bool lossy;

	assert_string_equal(describe(answer, -1, dscp << 2, &lossy).text, expected);
}

TEST(answer_with_an_impossible_length_before_the_table_is_rejected)
{
	static const uint16_t lengths[] = { 0, 1, sizeof(struct nlattr) - 1, 4096, UINT16_MAX };
	struct answer answer;
	uint16_t *const members[] = { &answer.name.nla_len, &answer.ieee.nla_len,
				      &answer.ets.nla_len, &answer.pfc.nla_len };

	for (size_t i = 0; i < ENTRIES(members) * ENTRIES(lengths); i++) {
		answer = make_answer();
		*members[i / ENTRIES(lengths)] = lengths[i % ENTRIES(lengths)];
		assert_description(26, answer, NOTHING);
	}
}

/* The entry of impossible length and all later ones are ignored. */
TEST(priorities_before_an_entry_of_impossible_length_are_used)
{
	static const uint16_t lengths[] = { 0, 3, 4096, UINT16_MAX };

	EACH_ROW (i, lengths) {
		struct answer answer = make_answer();

		answer.entries[2].header.nla_len = lengths[i];
		answer.entries[3].app.priority = 5;
		assert_description(26, answer, LOSSLESS);
		assert_description(
			48, answer,
			"DSCP 48 has no priority of its own; PFC on for priority 3 7, ECN not known");
	}
}

/* The padding of the last entry would lie beyond the answer. */
TEST(last_priority_entry_may_have_an_odd_length)
{
	struct answer answer = make_answer();

	answer.header.nlmsg_len--;
	answer.ieee.nla_len--;
	answer.table.nla_len--;
	answer.entries[5].header.nla_len--;
	assert_description(26, answer, LOSSLESS);
}

/* By default all traffic has DSCP 0, so the advice is to use another DSCP. */
TEST(advice_names_dcb_settings_except_for_dscp_0)
{
	struct strbuf words = { 0 };

	congestion_advise("eth0", 104, &words);
	assert_non_null(strstr(
		words.text, "'dcb app replace dev eth0 dscp-prio 26:3', 'dcb pfc set dev eth0 "));
	words = (struct strbuf){ 0 };
	congestion_advise("eth0", 3, &words);
	assert_null(strstr(words.text, "dcb"));
	assert_non_null(strstr(words.text, "of their own ('--tos 104')"));
}

RUN_TESTS(NULL, NULL)
