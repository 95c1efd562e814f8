// SPDX-License-Identifier: MIT
/*
 * The kernel's answer about PFC, whole, cut off and wrong. There is no adapter here that gives one.
 */

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

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
};

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
	};

	answer.ieee.nla_len = sizeof(answer) - offsetof(struct answer, ieee);
	return answer;
}

/* The first `size` bytes of an answer, with nothing behind them that a sanitizer would not see. */
static int decode(const struct answer *answer, size_t size)
{
	uint8_t *exact = malloc(size + !size);
	int decoded;

	assert_non_null(exact);
	memcpy(exact, answer, size);
	decoded = congestion_decode_pfc(exact, size);
	free(exact);
	return decoded;
}

TEST(the_priorities_are_found_behind_other_attributes)
{
	const struct answer answer = make_answer();

	assert_int_equal(decode(&answer, sizeof(answer)), 0x88);
}

TEST(of_an_answer_that_is_cut_off_nothing_is_believed)
{
	struct answer answer = make_answer();

	for (size_t size = 0; size < sizeof(answer); size++) {
		answer.header.nlmsg_len = sizeof(answer);
		assert_int_equal(decode(&answer, size), -1);
		answer.header.nlmsg_len = (uint32_t)size; /* as if that were all of it */
		assert_int_equal(decode(&answer, size), -1);
	}
}

TEST(attributes_of_impossible_lengths_end_the_search)
{
	static const uint16_t lengths[] = { 0, 1, sizeof(struct nlattr) - 1, 4096, UINT16_MAX };

	for (size_t i = 0; i < ENTRIES(lengths); i++) {
		struct answer answer[] = { make_answer(), make_answer(), make_answer(),
					   make_answer() };

		answer[0].name.nla_len = answer[1].ieee.nla_len = lengths[i];
		answer[2].ets.nla_len = answer[3].pfc.nla_len = lengths[i];
		for (size_t j = 0; j < 4; j++)
			assert_int_equal(decode(&answer[j], sizeof(answer[j])), -1);
	}
}

TEST(an_error_and_an_answer_without_pfc_tell_nothing)
{
	struct answer answer = make_answer();

	answer.pfc.nla_type = DCB_ATTR_IEEE_MAXRATE;
	assert_int_equal(decode(&answer, sizeof(answer)), -1);
	answer = make_answer();
	answer.ieee.nla_type = DCB_ATTR_CEE;
	assert_int_equal(decode(&answer, sizeof(answer)), -1);
	answer = make_answer();
	answer.header.nlmsg_type = NLMSG_ERROR;
	assert_int_equal(decode(&answer, sizeof(answer)), -1);
}

RUN_TESTS(NULL, NULL, NULL)
