// SPDX-License-Identifier: MIT
#include "reach.h"

#include <string.h>

#include "../json.h"
#include "../reasons.h"

#define ROCE_SILENT "transport=roce roce_version=2 request=silent "
#define UP_BY_UDP   "udp_other=refused|prohibited udp_from={address}"

#define ASK_THERE    "run 'rdma-client --check {source}' on {address}"
#define PRINTED_PORT "start rdma-server on {address}, and use the port that it prints"

#define NO_BYTE \
	"the connection to {address} is established, but one direction at least transfers nothing"

/* clang-format off */
static const struct rule rules[] = {
	/* ---- The host answers, so there are a route and an interface. Only L8 needs no answer. ---- */
	{ "B1", "transport!=iwarp request=8 port=*",
	  "{address} answers, but no program listens on port {port} of the device that has {address}",
	  { "rdma-server does not run on that host, or listens on another port", "it listens on an address of another device of that host (--bind)" },
	  PRINTED_PORT "; 'rdma resource show cm_id' lists the listeners there" },
	{ "B2", "request=28 " UP_BY_UDP,
	  "{address} rejects the request (reason 28, consumer defined), and answers UDP to {source}",
	  { "the program on port {port} listens on another address of that host (--bind)", "the program on port {port} is not an rdma-server of this project", "the program on port {port} ended before it answered the request" },
	  "see 'rdma resource show cm_id' on {address}, and start rdma-server without --bind" },
	{ "B3", "request=28 udp_other=silent",
	  "{address} rejects the request (reason 28, consumer defined), and no UDP packet comes back to {source}",
	  { "that host has no route to {source} over the interface that has {address}", "the program on port {port} listens on another address of that host (--bind)", "the program on port {port} is not an rdma-server of this project" },
	  "see 'ip route get {source} from {address}' on {address}; " ASK_THERE },
	{ "B2", "request=28",
	  "{address} rejects the request (reason 28, consumer defined)",
	  { "that host has no route to {source} over the interface that has {address}", "the program on port {port} listens on another address of that host (--bind)", "the program on port {port} is not an rdma-server of this project" },
	  "see 'rdma resource show cm_id' on {address}; " ASK_THERE },
	{ "B4", "request=10",
	  "{address} has rejected two requests as stale connections (reason 10)",
	  { 0 }, "try again in a minute" },
	{ "B5", "transport=iwarp request=refused udp_roce=refused",
	  "{address} answers TCP, but no program listens on port {port}",
	  { 0 }, PRINTED_PORT },
	{ "B5", "transport=iwarp request=refused",
	  "{address} answers TCP, but no program accepts iWARP on port {port}",
	  { "no program listens on this port", "that host uses RoCE, and this one iWARP" },
	  "see 'rdma link' on {address}; " PRINTED_PORT },
	{ "B6", "transport!=iwarp request!=silent|failed|answered|refused",
	  "{address} rejects the request with reason {request} ({reason})",
	  { 0 }, "read the messages of the program there; " ASK_THERE },
	{ "C15", "request=silent again!=silent|failed",
	  "{address} did not answer a request to port {port}, and has answered the next one",
	  { "a link or switch on the way was down for a moment", "the program on port {port} was stopped or busy for a moment" },
	  "run this again; if it happens again, see 'ip -s link' and 'dmesg' on both hosts" },
	{ "C2", "transport!=iwarp request=silent control!=silent|failed again=*",
	  "{address} answers connect requests, but the program on port {port} does not",
	  { 0 }, "see 'rdma resource show cm_id' and 'ps -o stat PROCESS' on {address}: in state T the program is stopped ('kill -CONT PROCESS' continues it)" },
	{ "C2", "transport=iwarp request=silent control!=silent|failed again=*",
	  "{address} answers TCP, but nothing answers on port {port}",
	  { "the program on this port is stopped or busy", "a firewall drops packets to this port" },
	  "see 'rdma resource show cm_id', 'ps -o stat PROCESS' (state T: stopped) and 'nft list ruleset' on {address}" },
	{ "C1", "request=silent tos!=0 plain!=silent|failed",
	  "{address} answers packets with type of service 0, but none with {tos}",
	  { 0 }, "see how the network treats this class (QoS, access lists), or omit --tos" },
	{ "L8", "transport=roce software=yes request=* gid_interface!=none gid_interface!={device_interface} gid_kind!=vlan gid_device=*",
	  "{source} is an address of {gid_interface} ({gid_kind}), which {gid_device} serves, and connections use {device} on {device_interface}: it drops packets that arrive through {gid_interface}",
	  { 0 }, "delete {device}: 'rdma link del {device}'" },
	{ "C16", "request=answered transport=infiniband",
	  NO_BYTE,
	  { "the path that the subnet manager has set up drops packets", "the program on port {port} is stopped or hangs" },
	  "see the path, its MTU, and the counters of its links ('ibdiagnet', 'ibtracert', 'perfquery'), and 'ps -o stat' on {address}" },
	{ "C16", "request=answered",
	  NO_BYTE,
	  { "a firewall or switch drops packets other than the connect request", "the program on port {port} is stopped or hangs" },
	  "let firewalls and switches pass UDP from any port to port 4791 (RoCE v1: Ethernet type 0x8915, iWARP: TCP port {port}), and see 'ps -o stat' on {address}" },
	/* ---- This host: no packet was sent, or none was answered ---- */
	/* a host that is short of descriptors or memory hides its devices */
	{ NULL, "error=EMFILE|ENFILE|ENOMEM", "", { 0 }, "" },
	{ "L1", "kernel_device=none drivers=none mode=exclusive",
	  "the RDMA subsystem is in exclusive mode: each device belongs to one network namespace, and none belongs to this one",
	  { 0 }, "move a device here: 'rdma dev set DEVICE netns NAME' in the namespace that has it ('rdma system' shows the mode)" },
	{ "L1", "kernel_device=none drivers=none",
	  "this host, or this network namespace, has no RDMA device",
	  { 0 }, NO_DEVICE_ADVICE },
	{ "L11", "file_error=ENOENT",
	  "the file {file} of {file_owner} is missing",
	  { 0 }, "give the container its files ('--device /dev/infiniband'), or load the modules that make them ('modprobe -a ib_uverbs rdma_ucm')" },
	{ "L11", "file_error=*",
	  "this process cannot open {file} of {file_owner} ({file_error})",
	  { 0 }, "see 'ls -l {file}', and let this user open the file; give a container the file ('--device {file}')" },
	{ "L2", "kernel_device!=none drivers=none",
	  "the kernel has the RDMA device {kernel_device}, but libibverbs has no driver for it",
	  { 0 }, "install ibverbs-providers of the same release as libibverbs, look into /etc/libibverbs.d, and run 'IBV_SHOW_WARNINGS=1 ibv_devices'" },
	{ "L10", "node_guid=0",
	  ZERO_GUID("{device}"),
	  { 0 }, ZERO_GUID_ADVICE },
	{ "L3", "cgroup=* error=EAGAIN|EPERM|ENODEV",
	  "the rdma cgroup {cgroup} allows {device} {cgroup_limit}; in use: {cgroup_use}",
	  { 0 }, "raise the limit: 'echo {device} hca_handle=max hca_object=max >{cgroup}/rdma.max'" },
	/* the rows below do not explain memory that cannot be registered */
	{ NULL, "memory=failed", "", { 0 }, "" },
	{ "L4", "software=yes transport=roce first_namespace=no roce_socket=no",
	  "this is not the first network namespace, and Soft-RoCE does not serve it: its UDP port 4791 is closed",
	  { 0 }, "run this on the host itself ('--network host' of a container), or give the container a virtual function of an adapter" },
	{ "L13", "gid_here=no route_kind=veth",
	  "the route to {address} leads over {route_interface}, a veth, and no address of this network namespace belongs to an RDMA device",
	  { 0 }, "give the container a macvlan, or a virtual function of the adapter, or the host's network ('--network host')" },
	{ "L5", "interface_here=no gid_here=no transport=roce|iwarp",
	  "no RDMA device has its network interface in this network namespace",
	  { 0 }, "run this where the interface of {device} is ('--network host' of a container), or give this namespace a virtual function of the adapter, or over RoCE a macvlan above that interface" },
	{ "L16", "unusable=down",
	  "no port of an RDMA device of this host is active",
	  { 0 }, "plug in the cable, set the network interface up ('ip link set ... up'), or start the subnet manager of InfiniBand" },
	{ "L12", "transport=roce software=no gids=none",
	  "{device} has no GID, so RoCE is off on its PCI function",
	  { "its adapter is in switchdev mode, in which only virtual functions and subfunctions have RoCE", "the device parameter enable_roce is off" },
	  "see 'devlink dev eswitch show' and 'devlink dev param show'; use a virtual function or subfunction in switchdev mode, or set enable_roce" },
	{ "L17", "unusable=unreliable",
	  "no device of this host has reliable connections, which every session needs",
	  { 0 }, "use another device: this one has no reliable connections, as EFA has none" },
	{ "L17", "unusable=*",
	  "no address of this network namespace leads to an active port of an RDMA device",
	  { 0 }, "give its network interface ('rdma link', IPoIB for InfiniBand) an address ('ip address add'); give a container that interface, or the host's network" },
	{ "L6", "route!=found error!=EADDRNOTAVAIL vrf=*",
	  "there is no route to {address} in the main table ({route}); the VRF {vrf} has a table of its own",
	  { 0 }, "see 'ip route get {address}', and use an interface outside of the VRF, at least with Soft-RoCE: it ignores packets that arrive through a VRF" },
	{ "L6", "route!=found error!=EADDRNOTAVAIL",
	  "there is no route to {address} ({route})",
	  { 0 }, "see 'ip route get {address}'; give a network interface an address in the network of {address}, or add a route" },
	{ "L7", "error=* route_kind!=ethernet|infiniband|loopback|veth",
	  "the route to {address} leads over {route_interface} ({route_kind}), a tunnel, over which the RDMA connection manager of many kernels cannot resolve addresses",
	  { 0 }, "use the address of an Ethernet interface of that host" },
	{ "L8", "transport=roce software=yes gid_interface!=none gid_interface!={device_interface} gid_kind!=vlan",
	  "{source} is an address of {gid_interface} ({gid_kind}), and Soft-RoCE {device} is on {device_interface}: it drops packets that arrive through {gid_interface}",
	  { 0 }, "put the device on that interface: 'rdma link del {device}', 'rdma link add {device} type rxe netdev {gid_interface}'" },
	{ "C3", "neighbour=failed",
	  "no host on the network of {route_interface} answers for {next_hop}",
	  { "that host is down, or its link is", "no host has this address", "that host has no route back to {source}" },
	  "see 'ip neighbour show {next_hop}'; " ASK_THERE },
	{ "L14", "route_driver=hv_netvsc software=no own_address=no",
	  "the route to {address} leads over {route_interface} (hv_netvsc), the accelerated network of a virtual machine, over which nothing answers RDMA",
	  { "that network carries no RDMA packets", "no RDMA program or device is at {address}" },
	  "see 'ip address' on both hosts; if they have an InfiniBand interface (ib0), use its address" },
	{ "L15", "transport=roce software=no own_address=no bond_devices=*",
	  "{bond_devices} are on members of {route_interface}, so they have no RoCE LAG: packets may arrive at the other device",
	  { 0 }, "use an interface outside of the bond, or make the driver merge the devices (RoCE LAG): mlx5 does that if the bond has all ports of one adapter and no others, its mode is active-backup, balance-xor or 802.3ad, and the ports have no virtual functions and are not in switchdev mode ('devlink dev eswitch show')" },
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
	/* ---- The host is silent ---- */
	{ "C6", ROCE_SILENT "udp_roce=prohibited software=yes",
	  "a firewall on {udp_from} rejects packets to UDP port 4791 of {address}",
	  { 0 }, "see 'nft list ruleset' on {udp_from}, and open UDP port 4791" },
	{ "C6", ROCE_SILENT "udp_roce=prohibited|refused udp_from!={address}",
	  "{udp_from}, which is not {address}, answers that UDP port 4791 of {address} is closed",
	  { "a firewall on {udp_from} rejects packets to UDP port 4791", "addresses are translated on the way (NAT)" },
	  "see 'nft list ruleset' on {udp_from}, and open UDP port 4791" },
	{ "C11", "transport!=infiniband request=silent|failed udp_roce=silent|unreachable udp_other=silent|unreachable udp_from!={address} udp_from!={source}",
	  "{udp_from} answers that {address} cannot be reached",
	  { "that host is down, or no host has this address", "{udp_from} has no route to {address}", "a firewall on {udp_from} rejects the packets" },
	  "see 'ip route get {address}', 'ip neighbour show {address}' and 'nft list ruleset' on {udp_from}" },
	{ "C7", ROCE_SILENT "udp_roce=refused",
	  "{address} is up, but accepts no RoCE packets: its UDP port 4791 is closed",
	  { "it has no RDMA device, or only an iWARP device", "the interface of its Soft-RoCE device belongs to a VRF, or is outside of the first network namespace", "its firewall rejects packets to UDP port 4791" },
	  "see 'rdma link' on {address}; " ASK_THERE },
	{ "C9", ROCE_SILENT "software=yes udp_roce=silent " UP_BY_UDP,
	  "UDP port 4791 of {address} does not answer, and another port is refused: the host is up, but RoCE packets vanish",
	  { "a firewall on one of the hosts, or between them, drops packets to UDP port 4791", "the packets arrive at an interface of that host that has no RoCE device (a bridge, a bond, or another interface in the same subnet)", "addresses are translated on the way (NAT)" },
	  ASK_THERE "; if both print this line, look at both firewalls" },
	{ "C9", "transport=iwarp software=yes request=silent " UP_BY_UDP,
	  "TCP port {port} of {address} does not answer, and a UDP port is refused: the host is up, but TCP packets vanish",
	  { "a firewall on one of the hosts, or between them, drops TCP packets", "addresses are translated on the way (NAT)" },
	  ASK_THERE },
	{ "C12", "transport=infiniband request=silent",
	  "{address} does not answer over InfiniBand (answer of an unused UDP port: {udp_other})",
	  { "the hosts have no partition in common (P_Key), or the subnet manager has set up no path", "the server's program, or RDMA on that host, is stopped", "that host or its link is down (ruled out if the unused UDP port answers)" },
	  ASK_THERE "; see 'ibdiagnet', and compare 'pkeys' of both ports in /sys/class/infiniband" },
	{ "C13", "transport=roce roce_version=1 request=silent",
	  "{address} does not answer RoCE v1 (Ethernet type 0x8915)",
	  { "a router is on the path: routers do not forward RoCE v1", "no device with RoCE v1 is on the interface that has {address}", "a switch or bridge drops this Ethernet type" },
	  ASK_THERE "; connect within one network, or use RoCE v2" },
	{ "C10", "software=yes request=silent neighbour=resolved|unconfirmed udp_other=silent",
	  "the hardware address of {next_hop} is known ({neighbour}), but no packet comes back from {address}",
	  { "a firewall drops every packet that no rule allows", "that host has no route back to {source}, or the route leads over another interface", "that host is down, another host has the same address, or this host's neighbour entry of {next_hop} is old" },
	  "run 'ip neighbour flush {next_hop}' on this host, and this check again; " ASK_THERE },
	{ "C14", "software=no request=silent",
	  "{address} answers no packet of {device}, a hardware adapter (answer of an unused UDP port: {udp_other})",
	  /* no host's firewall sees the packets of a hardware adapter */
	  { "no RDMA device of this kind is on the interface that has {address}", "a switch or firewall between the hosts (access list, priority, VLAN), or a network without RDMA, drops the packets", "that host is down, or has no route back to {source} (ruled out if the unused UDP port answers)" },
	  ASK_THERE "; see 'ip neighbour show {next_hop}' and the counters of the switches" },
};

/* Statements about this host, for a user of the other host. All that hold form one finding. */
static const struct rule listening[] = {
	{ "", "listeners=none", "found no RDMA program that listens on this host, {source}", { 0 }, "" },
	{ "", "listeners!=none", "listening on this host, {source}: {listeners}", { 0 }, "" },
	{ "", "requests_received=*", "; connect requests received: {requests_received}", { 0 }, "" },
	{ "", "requests_answered!={requests_received}", ", answered: {requests_answered}", { 0 }, "" },
	{ "", "same_subnet=*", "; {same_subnet} has an address in the subnet of {source} as well, so it may answer ARP requests for {source}, unless 'sysctl net.ipv4.conf.all.arp_ignore' is 1", { 0 }, "" },
	{ "", "stopped=*", "", { 0 }, "continue the stopped process: 'kill -CONT {stopped}'" },
};
/* clang-format on */

const struct rule *reach_rule(size_t index)
{
	return index < sizeof(rules) / sizeof(rules[0]) ? &rules[index] : NULL;
}

/* Return the text of the fact with this name, or "?" if it is not known. */
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

/* Return true if a word of an expanded condition holds. Modify the word. */
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

bool reach_holds(const struct evidence *evidence, const char *words)
{
	struct strbuf condition = { 0 };
	char *rest = condition.text;

	expand(evidence, words, &condition);
	for (char *word; (word = strsep(&rest, " "));) {
		if (!word_holds(evidence, word))
			return false;
	}
	return true;
}

const struct rule *reach_classify(const struct evidence *evidence)
{
	size_t i = 0;

	while (reach_rule(i) && !reach_holds(evidence, reach_rule(i)->condition))
		i++;
	return reach_rule(i) && reach_rule(i)->name ? reach_rule(i) : NULL;
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
		if (reach_holds(evidence, listening[i].condition)) {
			expand(evidence, listening[i].text, &findings->found);
			expand(evidence, listening[i].advice, &findings->advice);
		}
	}
	reach_report_facts(findings, evidence, NULL, true);
}
