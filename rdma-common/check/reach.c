// SPDX-License-Identifier: MIT
#include "reach.h"

#include <string.h>

#include "../json.h"
#include "../reasons.h"

#define ROCE_SILENT "transport=roce request=silent "

#define ASK_THERE "run 'rdma-client --check {source}' on that host"

/* clang-format off */
static const struct rule rules[] = {
	/* ---- This host: no packet was sent ---- */
	{ "L1", "kernel_device=none drivers=none mode=exclusive",
	  "the RDMA subsystem is in exclusive mode: each device belongs to one network namespace, and none belongs to this one",
	  { 0 }, "move a device here: 'rdma dev set DEVICE netns NAME' in the namespace that has it ('rdma system' shows the mode)" },
	{ "L1", "kernel_device=none drivers=none",
	  "this host, or this network namespace, has no RDMA device",
	  { 0 }, NO_DEVICE_ADVICE },
	{ "L2", "kernel_device!=none drivers=none",
	  "the kernel has the RDMA device {kernel_device}, but libibverbs has no driver for it",
	  { 0 }, "install ibverbs-providers of the same release as libibverbs, look into /etc/libibverbs.d, and run 'IBV_SHOW_WARNINGS=1 ibv_devices'" },
	{ "L10", "node_guid=0 transport=infiniband",
	  ZERO_GUID("{device}"),
	  { 0 }, ZERO_GUID_INFINIBAND_ADVICE },
	{ "L10", "node_guid=0",
	  ZERO_GUID("{device}"),
	  { 0 }, ZERO_GUID_ADVICE },
	{ "L3", "cgroup=* error=EAGAIN|EPERM|ENODEV",
	  "the rdma cgroup {cgroup} allows {device} {cgroup_limit}; in use: {cgroup_use}",
	  { 0 }, "raise rdma.max of this cgroup" },
	{ "L4", "software=yes transport=roce first_namespace=no roce_socket=no",
	  "this is not the first network namespace, and Soft-RoCE does not serve it: its UDP port 4791 is closed",
	  { 0 }, "run this on the host itself ('--network host' of a container), or give the container a virtual function of an adapter" },
	{ "L5", "interface_here=no transport=roce|iwarp",
	  "no RDMA device has its network interface in this network namespace",
	  { 0 }, "move the interface of {device}, or a virtual function, into this namespace" },
	{ "L6", "route!=found error!=EADDRNOTAVAIL vrf=*",
	  "there is no route to {address} in the main table ({route}); the VRF {vrf} has a table of its own",
	  { 0 }, "see 'ip route get {address}', and use an interface outside of the VRF, at least with Soft-RoCE: it ignores packets that arrive through a VRF" },
	{ "L6", "route!=found error!=EADDRNOTAVAIL",
	  "there is no route to {address} ({route})",
	  { 0 }, "see 'ip route get {address}'; give a network interface an address in the network of {address}, or add a route" },
	{ "L7", "error=* route_kind!=ethernet|infiniband|loopback",
	  "the route to {address} leads over {route_interface} ({route_kind}), a tunnel, over which the RDMA connection manager of many kernels cannot resolve addresses",
	  { 0 }, "use the address of an Ethernet interface of that host" },
	{ "L8", "transport=roce software=yes gid_interface!=none gid_interface!={device_interface} gid_kind!=vlan",
	  "{source} is an address of {gid_interface} ({gid_kind}), and Soft-RoCE {device} is on {device_interface}: it drops packets that arrive through {gid_interface}",
	  { 0 }, "put the device on that interface: 'rdma link del {device}', 'rdma link add {device} type rxe netdev {gid_interface}'" },
	{ "L9", "transport=roce own_address=no gid_interface!=none route_interface!={gid_interface}",
	  "the route to {address} leads over {route_interface}, and {source} belongs to the RDMA device on {gid_interface}",
	  { 0 }, "see 'ip route get {address}'; add a route over {gid_interface}, or give '--bind' an address of the interface that leads there" },
	{ "L9", "transport=roce own_address=no gid_interface=none",
	  "the route to {address} leads over {route_interface} from {source}, which is not an address of an RDMA device",
	  { 0 }, "see 'ip route get {address}' and 'rdma link'; add a route over the interface of {device}, or give '--bind' an address of that interface" },
	/* ---- This host's firewall: sendto(2) failed, and no request was made ---- */
	{ "C5", "send_error=EPERM",
	  "this host forbids packets to UDP port 4791 of {address} (EPERM)",
	  { "its firewall drops the packet", "a BPF filter of this program's cgroup drops it (IPAddressDeny= of systemd)", "an IPsec policy blocks it" },
	  "see 'nft list ruleset' and 'ip xfrm policy' on this host, and open UDP port 4791" },
	{ "C5", "send_error=*",
	  "this host cannot send to UDP port 4791 of {address}: {send_error}",
	  { "an egress filter of this host drops the packet", "a rule of 'ip rule' rejects the packet" },
	  "see 'tc filter show dev {route_interface} egress', 'ip rule' and 'nft list ruleset' on this host" },
	/* ---- The host answers ---- */
	{ "B1", "transport!=iwarp request=8 port=*",
	  "{address} answers, but no program listens on port {port}",
	  { 0 }, "start rdma-server on that host, and use the port that it prints" },
	{ "B2", "request=28 udp_other=refused udp_from={address}",
	  "{address} rejects the request (reason 28, consumer defined), and answers UDP to {source}",
	  { "the program on port {port} listens on another address of that host (--bind)", "the program on port {port} is not an rdma-server of this project", "the program on port {port} ended before it answered the request" },
	  "see 'rdma resource show cm_id' on that host, and start rdma-server without --bind" },
	{ "B3", "request=28 udp_other=silent",
	  "{address} rejects the request (reason 28, consumer defined), and no UDP packet comes back to {source}",
	  { "that host has no route to {source} over the interface that has {address}", "the program on port {port} listens on another address of that host (--bind)", "the program on port {port} is not an rdma-server of this project" },
	  "see 'ip route get {source} from {address}' on that host; " ASK_THERE },
	{ "B4", "request=10",
	  "{address} has rejected two requests as stale connections (reason 10)",
	  { 0 }, "try again in a minute" },
	{ "B5", "transport=iwarp request=refused udp_roce=refused",
	  "{address} answers TCP, but no program listens on port {port}",
	  { 0 }, "start rdma-server on that host, and use the port that it prints" },
	{ "B5", "transport=iwarp request=refused",
	  "{address} answers TCP, but no program accepts iWARP on port {port}",
	  { "no program listens on this port", "that host uses RoCE, and this one iWARP" },
	  "see 'rdma link' on that host, start rdma-server, and use the port that it prints" },
	/* ---- The host is silent ---- */
	{ "C2", "transport=roce request=silent control=8",
	  "{address} answers connect requests, but the program on port {port} does not",
	  { 0 }, "see 'rdma resource show cm_id' and 'ps -o stat PROCESS' on that host: in state T the program is stopped ('kill -CONT PROCESS' continues it)" },
	{ "C2", "transport=iwarp request=silent control=refused",
	  "{address} answers TCP, but nothing answers on port {port}",
	  { "the program on this port is stopped or busy", "a firewall drops this port" },
	  "see 'rdma resource show cm_id', 'ps -o stat PROCESS' (state T: stopped) and 'nft list ruleset' on that host" },
	{ "C1", "request=silent tos!=0 plain=8|refused|28",
	  "{address} answers packets with type of service 0, but none with {tos}",
	  { 0 }, "see how the network treats this class (QoS, access lists), or omit --tos" },
	{ "C3", "neighbour=failed",
	  "no host on the network of {route_interface} answers for {next_hop}",
	  { "that host is down, or its link is", "no host has this address", "that host has no route back to {source}" },
	  "see 'ip neighbour show {next_hop}'; " ASK_THERE },
	{ "C6", ROCE_SILENT "udp_roce=prohibited",
	  "the firewall of {udp_from} forbids UDP port 4791 of {address}",
	  { 0 }, "see 'nft list ruleset' on {udp_from}, and open UDP port 4791" },
	{ "C6", ROCE_SILENT "udp_roce=refused udp_from!={address}",
	  "{udp_from}, which is not {address}, answers that UDP port 4791 of {address} is closed",
	  { "a firewall of {udp_from} rejects UDP port 4791", "addresses are translated on the way (NAT)" },
	  "see 'nft list ruleset' on {udp_from}, and open UDP port 4791" },
	{ "C11", "request=silent|failed udp_roce=silent|unreachable udp_other=silent|unreachable udp_from!={address} udp_from!={source}",
	  "{udp_from} answers that {address} cannot be reached",
	  { "that host is down, or no host has this address", "{udp_from} has no route to {address}", "a firewall of {udp_from} rejects the packets" },
	  "see 'ip route get {address}', 'ip neighbour show {address}' and 'nft list ruleset' on {udp_from}" },
	{ "C7", ROCE_SILENT "udp_roce=refused",
	  "{address} is up, but accepts no RoCE packets: its UDP port 4791 is closed",
	  { "it has no RDMA device, or only an iWARP device", "the interface of its Soft-RoCE device belongs to a VRF, or is outside of the first network namespace", "its firewall rejects UDP port 4791" },
	  "see 'rdma link' on that host; " ASK_THERE },
	{ "C9", ROCE_SILENT "udp_roce=silent udp_other=refused udp_from={address}",
	  "UDP port 4791 of {address} does not answer, and another port is refused: the host is up, but RoCE packets vanish",
	  { "a firewall of one of the hosts, or between them, drops UDP port 4791", "no RoCE device is on the interface of that host that receives the packets (bridge, bond, two interfaces in one subnet)", "addresses are translated on the way (NAT)" },
	  ASK_THERE "; if both print this line, look at both firewalls" },
	{ "C9", "transport=iwarp request=silent control=silent udp_other=refused udp_from={address}",
	  "TCP port {port} of {address} does not answer, and a UDP port is refused: the host is up, but TCP packets vanish",
	  { "a firewall of one of the hosts, or between them, drops TCP", "addresses are translated on the way (NAT)" },
	  ASK_THERE },
	{ "C10", "request=silent neighbour=resolved udp_other=silent",
	  "the hardware address of {next_hop} is known, but no packet comes back from {address}",
	  { "a firewall drops every packet that no rule allows", "that host has no route back to {source}, or the route leads over another interface", "that host is down, or another host has the same address or hardware address" },
	  "see 'ip neighbour show {next_hop}'; " ASK_THERE },
};

/* Statements about this host, for a user of the other host; all that hold form one finding. */
static const struct rule listening[] = {
	{ "", "listeners=none", "found no RDMA program that listens on this host", { 0 }, "" },
	{ "", "listeners!=none", "listening on this host: {listeners}", { 0 }, "" },
	{ "", "requests_received=*", "; connect requests received: {requests_received}", { 0 }, "" },
	{ "", "requests_answered!={requests_received}", ", answered: {requests_answered}", { 0 }, "" },
	{ "", "same_subnet=*", "; {source} is in the subnet of {same_subnet}, too, so either interface may answer ARP requests for it", { 0 }, "" },
	{ "", "stopped=*", "", { 0 }, "continue the stopped process: 'kill -CONT {stopped}'" },
};
/* clang-format on */

const struct rule *reach_rule(size_t index)
{
	return index < sizeof(rules) / sizeof(rules[0]) ? &rules[index] : NULL;
}

/* Return the text of the fact with this name; "?" if it is not known. */
static const char *find_fact(const struct evidence *evidence, const char *name)
{
	for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
		if (evidence->facts[fact][0] && !strcmp(evidence_name(fact), name))
			return evidence->facts[fact];
	}
	return "?";
}

/* Append `text`, with the fact (or "?") in place of each {name}. */
static void expand(const struct evidence *evidence, const char *text, struct strbuf *buf)
{
	struct strbuf copy = { 0 };
	char *rest = copy.text;
	bool is_name = false;

	strbuf_addf(&copy, "%s", text);
	for (const char *part; (part = strsep(&rest, "{}")); is_name = !is_name)
		strbuf_addf(buf, "%s", is_name ? find_fact(evidence, part) : part);
}

/* Return true if a word of a condition, with facts in place of each {name}, holds. */
static bool word_holds(const struct evidence *evidence, char *word)
{
	const char *fact = find_fact(evidence, strsep(&word, "!="));
	bool equal = *word != '=';
	char *values = equal ? word : word + 1;

	if (*fact == '?' || *values == '?')
		return false;
	for (const char *value; (value = strsep(&values, "|"));) {
		if (*value == '*' || !strcmp(fact, value))
			return equal;
	}
	return !equal;
}

static bool rule_holds(const struct evidence *evidence, const struct rule *rule)
{
	struct strbuf condition = { 0 };
	char *rest = condition.text;

	expand(evidence, rule->condition, &condition);
	for (char *word; (word = strsep(&rest, " "));) {
		if (!word_holds(evidence, word))
			return false;
	}
	return true;
}

const struct rule *reach_classify(const struct evidence *evidence)
{
	size_t i = 0;

	while (reach_rule(i) && !rule_holds(evidence, reach_rule(i)))
		i++;
	return reach_rule(i);
}

/* ---- Findings ---- */

void reach_report_facts(struct findings *findings, const struct evidence *evidence,
			const struct rule *rule, bool good)
{
	struct json_object *facts = json_object_new_object(), *causes = json_object_new_array();

	for (size_t i = 0; rule && i < MAX_CAUSES && rule->causes[i]; i++) {
		struct strbuf cause = { 0 };

		expand(evidence, rule->causes[i], &cause);
		strbuf_addf(&findings->found, "%s%s", i ? "; " : "; one of: ", cause.text);
		json_object_array_add(causes, json_object_new_string(cause.text));
	}
	if (rule)
		strbuf_addf(&findings->found, " (%s)", rule->name);
	findings_report(findings, "reach", good);
	for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
		if (evidence->facts[fact][0])
			json_add_text(facts, evidence_name(fact), evidence->facts[fact]);
	}
	json_add_text(findings->latest, "rule", rule ? rule->name : NULL);
	json_object_object_add(findings->latest, "evidence", facts);
	json_object_object_add(findings->latest, "causes", causes);
}

bool reach_report(struct findings *findings, const struct evidence *evidence)
{
	const struct rule *rule = reach_classify(evidence);

	expand(evidence,
	       rule ? rule->text
		    : "the connect request to {address} failed, and no rule of rdma-pair(7) explains it",
	       &findings->found);
	expand(evidence, rule ? rule->advice : ASK_THERE, &findings->advice);
	if (rule) /* report the cause instead of the symptom */
		findings->first_failure.length = 0;
	reach_report_facts(findings, evidence, rule, false);
	return rule;
}

void reach_report_good(struct findings *findings, const struct evidence *evidence)
{
	expand(evidence,
	       evidence_is(evidence, FACT_transport, "iwarp")
		       ? "{address} answers TCP (port {control_port}), possibly without iWARP"
		       : "{address} answers connect requests (port {control_port}): "
			 "packets pass in both directions",
	       &findings->found);
	reach_report_facts(findings, evidence, NULL, true);
}

void reach_report_listeners(struct findings *findings, const struct evidence *evidence)
{
	if (!*evidence->facts[FACT_listeners])
		return;
	for (size_t i = 0; i < sizeof(listening) / sizeof(listening[0]); i++) {
		if (rule_holds(evidence, &listening[i])) {
			expand(evidence, listening[i].text, &findings->found);
			expand(evidence, listening[i].advice, &findings->advice);
		}
	}
	reach_report_facts(findings, evidence, NULL, true);
}
