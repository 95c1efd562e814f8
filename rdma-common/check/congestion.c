// SPDX-License-Identifier: MIT
#include "congestion.h"

#include <glob.h>
#include <limits.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "../sysfs.h"

/*
 * Return the highest priority, 0 to 7, that the application table (IEEE 802.1Qaz, D.2.11.3) gives
 * to a protocol of this selector. Return -1 if it gives none.
 */
static int decode_rule(const struct nlattr *table, uint8_t selector, unsigned int protocol)
{
	const struct nlattr *entry;
	struct dcb_app app;
	int priority = -1, rest;

	if (!table)
		return -1;
	nla_for_each_nested (entry, table, rest) {
		if (nla_type(entry) == DCB_ATTR_IEEE_APP &&
		    netlink_copy(entry, &app, sizeof(app)) && app.selector == selector &&
		    app.protocol == protocol && app.priority < IEEE_8021QAZ_MAX_TCS &&
		    app.priority > priority)
			priority = app.priority;
	}
	return priority;
}

/*
 * Return the priority of RoCE packets with this DSCP, or -1 if no rule gives one. If no rule names
 * the DSCP, the rules for RoCE's UDP port apply (bnxt_re uses them), and then the default rule
 * (dcb-app(8)).
 */
static int decode_priority(const struct nlattr *table, unsigned int dscp)
{
	int priority = decode_rule(table, IEEE_8021QAZ_APP_SEL_DSCP, dscp);

	if (priority < 0)
		priority = decode_rule(table, IEEE_8021QAZ_APP_SEL_DGRAM, ROCE_PORT);
	if (priority < 0)
		priority = decode_rule(table, IEEE_8021QAZ_APP_SEL_ANY, ROCE_PORT);
	return priority < 0 ? decode_rule(table, IEEE_8021QAZ_APP_SEL_ETHERTYPE, 0) : priority;
}

int congestion_take_dcb(struct nl_msg *message, void *context)
{
	struct nlattr *ieee = netlink_find(message, sizeof(struct dcbmsg), DCB_ATTR_IEEE);
	struct congestion *congestion = context;
	struct ieee_pfc pfc;

	if (netlink_copy(netlink_find_within(ieee, DCB_ATTR_IEEE_PFC), &pfc, sizeof(pfc)))
		congestion->pfc = pfc.pfc_en;
	congestion->priority = decode_priority(netlink_find_within(ieee, DCB_ATTR_IEEE_APP_TABLE),
					       congestion->dscp);
	return NL_OK;
}

bool congestion_find_lower(const char *root, char name[IF_NAMESIZE])
{
	char pattern[PATH_MAX];
	bool found = false;
	glob_t lower;

	do {
		snprintf(pattern, sizeof(pattern), "%s/sys/class/net/%s/lower_*", root, name);
		if (glob(pattern, 0, NULL, &lower))
			lower.gl_pathc = 0;
		else
			snprintf(name, IF_NAMESIZE, "%s",
				 strrchr(lower.gl_pathv[0], '/') + strlen("/lower_"));
		found |= lower.gl_pathc > 0;
		globfree(&lower);
	} while (lower.gl_pathc > 0);
	return found;
}

/*
 * Return a bit for each priority with ECN at both the notification point and the reaction point.
 * Return -1 if the driver does not report ECN.
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

/* Append the name of a feature, and its priorities. `priorities` is like congestion->pfc. */
static void describe(const char *name, int priorities, struct strbuf *buf)
{
	const char *known = priorities ? "on for priority" : "off";

	strbuf_addf(buf, "%s %s", name, priorities < 0 ? "not known" : known);
	for (int i = 0; priorities > 0 && i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (priorities >> i & 1)
			strbuf_addf(buf, " %d", i);
	}
}

bool congestion_text(const struct congestion *congestion, struct strbuf *buf)
{
	int priority = congestion->priority, pfc = congestion->pfc;
	bool lossy = pfc >= 0 && pfc != UINT8_MAX && (priority < 0 || !(pfc >> priority & 1));

	if (pfc < 0 && congestion->ecn < 0) {
		strbuf_addf(buf, "the driver does not report PFC or ECN");
		return false;
	}
	if (pfc >= 0 && priority < 0)
		strbuf_addf(buf, "DSCP %u has no priority of its own; ", congestion->dscp);
	else if (pfc >= 0)
		strbuf_addf(buf, "DSCP %u -> priority %d: %s; ", congestion->dscp, priority,
			    lossy ? "lossy" : "PFC on");
	describe("PFC", pfc, buf);
	describe(", ECN", congestion->ecn, buf);
	return lossy;
}

bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf)
{
	const struct dcbmsg body = { .cmd = DCB_CMD_IEEE_GET };
	struct nl_msg *request = netlink_make_request(RTM_GETDCB, 0, &body, sizeof(body));
	struct congestion congestion = { tos >> 2, -1, -1, read_ecn(interface) };

	netlink_add(request, DCB_ATTR_IFNAME, interface, strlen(interface) + 1);
	netlink_ask(NETLINK_ROUTE, request, congestion_take_dcb, &congestion);
	return congestion_text(&congestion, buf);
}

void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice)
{
	unsigned int dscp = tos >> 2;

	if (dscp == 0)
		strbuf_addf(advice,
			    "DSCP 0 is the default of all traffic: give packets that must not be "
			    "lost a DSCP of their own ('--tos 104')");
	else
		strbuf_addf(
			advice,
			"if packets of this class must not be lost, give DSCP %u a priority with "
			"PFC, on both hosts and the switches between ('dcb app replace dev %s dscp-prio "
			"%u:3', 'dcb pfc set dev %s prio-pfc 3:on', or mlnx_qos)",
			dscp, interface, dscp, interface);
}
