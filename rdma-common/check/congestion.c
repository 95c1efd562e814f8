// SPDX-License-Identifier: MIT
#include "congestion.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../netlink.h"
#include "../sysfs.h"

/* Bytes before the attributes of the question and of the answer. */
#define HEADERS_SIZE (sizeof(struct nlmsghdr) + sizeof(struct dcbmsg))
/* UDP port of RoCE v2 */
#define ROCE_PORT 4791

/* Return the contents of an attribute that IEEE defines. */
static struct span find_ieee(const uint8_t *answer, size_t size, uint16_t type)
{
	struct span dcb = netlink_attributes(answer, size, RTM_GETDCB, HEADERS_SIZE);

	return netlink_find(netlink_find(dcb, DCB_ATTR_IEEE), type);
}

/* Return a bit for each priority with PFC; -1: the answer does not say. */
static int decode_pfc(const uint8_t *answer, size_t size)
{
	struct ieee_pfc pfc;

	return netlink_copy(find_ieee(answer, size, DCB_ATTR_IEEE_PFC), &pfc, sizeof(pfc))
		       ? pfc.pfc_en
		       : -1;
}

/*
 * Return the highest priority, 0 to 7, that the application table (IEEE 802.1Qaz, D.2.11.3) gives
 * to a protocol of this selector; -1: none.
 */
static int decode_rule(const uint8_t *answer, size_t size, uint8_t selector, unsigned int protocol)
{
	struct span table = find_ieee(answer, size, DCB_ATTR_IEEE_APP_TABLE);
	struct dcb_app app;
	int priority = -1;

	while (netlink_copy(netlink_next(&table, DCB_ATTR_IEEE_APP), &app, sizeof(app))) {
		if (app.selector == selector && app.protocol == protocol &&
		    app.priority < IEEE_8021QAZ_MAX_TCS && app.priority > priority)
			priority = app.priority;
	}
	return priority;
}

/*
 * Return the priority of RoCE's packets with a DSCP. If no rule names the DSCP, the rules for
 * RoCE's UDP port apply (bnxt_re uses them), and then the default rule (dcb-app(8)).
 */
static int decode_priority(const uint8_t *answer, size_t size, unsigned int dscp)
{
	int priority = decode_rule(answer, size, IEEE_8021QAZ_APP_SEL_DSCP, dscp);

	if (priority < 0)
		priority = decode_rule(answer, size, IEEE_8021QAZ_APP_SEL_DGRAM, ROCE_PORT);
	if (priority < 0)
		priority = decode_rule(answer, size, IEEE_8021QAZ_APP_SEL_ANY, ROCE_PORT);
	return priority < 0 ? decode_rule(answer, size, IEEE_8021QAZ_APP_SEL_ETHERTYPE, 0)
			    : priority;
}

/* Ask the kernel for the DCB state of an interface. Return the size of the answer; 0: none. */
static size_t ask_dcb(const char *interface, uint8_t answer[NETLINK_ANSWER_SIZE])
{
	struct {
		struct nlmsghdr header;
		struct dcbmsg dcb;
		struct nlattr attribute;
		char name[IF_NAMESIZE];
	} question = {
		.header = { .nlmsg_len = sizeof(question),
			    .nlmsg_type = RTM_GETDCB,
			    .nlmsg_flags = NLM_F_REQUEST },
		.dcb = { .cmd = DCB_CMD_IEEE_GET },
		.attribute = { .nla_len = sizeof(struct nlattr) + IF_NAMESIZE,
			       .nla_type = DCB_ATTR_IFNAME },
	};

	snprintf(question.name, sizeof(question.name), "%s", interface);
	return netlink_ask(NETLINK_ROUTE, &question, sizeof(question), answer);
}

/*
 * Return a bit for each priority with ECN at both the notification point and the reaction point;
 * -1: the driver does not report ECN.
 */
static int read_ecn(const char *interface)
{
	static const char *const points[] = { "roce_np", "roce_rp" };
	unsigned int priorities = UINT8_MAX;
	bool known = false;

	for (unsigned int i = 0; i < 2 * IEEE_8021QAZ_MAX_TCS; i++) {
		unsigned int priority = i % IEEE_8021QAZ_MAX_TCS;
		struct sysfs_line line =
			sysfs_read_line("/sys/class/net/%s/ecn/%s/enable/%u", interface,
					points[i / IEEE_8021QAZ_MAX_TCS], priority);

		if (line.text[0] != '1')
			priorities &= ~(1U << priority);
		known = known || line.text[0];
	}
	return known ? (int)priorities : -1;
}

/* Append the priorities for which a feature is on. */
static void describe(const char *name, int priorities, struct strbuf *buf)
{
	const char *known = priorities ? "on for priority" : "off";

	strbuf_addf(buf, "%s %s", name, priorities < 0 ? "not known" : known);
	for (int i = 0; priorities > 0 && i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (priorities >> i & 1)
			strbuf_addf(buf, " %d", i);
	}
}

/* Append the priority of packets with this DSCP. Return true if PFC is off for it. */
static bool describe_class(unsigned int dscp, int priority, int pfc, struct strbuf *buf)
{
	bool lossless = pfc == UINT8_MAX || (priority >= 0 && pfc >> priority & 1);

	if (priority < 0)
		strbuf_addf(buf, "DSCP %u has no priority of its own; ", dscp);
	else
		strbuf_addf(buf, "DSCP %u -> priority %d: %s; ", dscp, priority,
			    lossless ? "PFC on" : "lossy");
	return !lossless;
}

bool congestion_text(const uint8_t *answer, size_t answer_size, int ecn, unsigned int tos,
		     struct strbuf *buf)
{
	int pfc = decode_pfc(answer, answer_size);
	unsigned int dscp = tos >> 2; /* the two lowest bits are ECN */
	bool lossy = false;

	if (pfc < 0 && ecn < 0) {
		strbuf_addf(buf, "the driver does not report PFC or ECN");
		return false;
	}
	if (pfc >= 0)
		lossy = describe_class(dscp, decode_priority(answer, answer_size, dscp), pfc, buf);
	describe("PFC", pfc, buf);
	describe(", ECN", ecn, buf);
	return lossy;
}

bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf)
{
	uint8_t answer[NETLINK_ANSWER_SIZE];
	size_t answer_size = ask_dcb(interface, answer);

	return congestion_text(answer, answer_size, read_ecn(interface), tos, buf);
}

void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice)
{
	unsigned int dscp = tos >> 2;

	if (dscp == 0)
		strbuf_addf(advice,
			    "all other traffic has DSCP 0, too: give packets that must not be lost "
			    "a DSCP of their own ('--tos 104')");
	else
		strbuf_addf(
			advice,
			"if packets of this class must not be lost, give DSCP %u a priority with "
			"PFC, on both hosts and the switches between ('dcb app replace dev %s dscp-prio "
			"%u:3', 'dcb pfc set dev %s prio-pfc 3:on', or mlnx_qos)",
			dscp, interface, dscp, interface);
}
