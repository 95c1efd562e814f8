// SPDX-License-Identifier: MIT
/*
 * Tests of the rules that name a cause. Facts recorded between two hosts select their rule, but not
 * if one of the facts in its condition is missing.
 */
#include <errno.h>
#include <json-c/json.h>

#include "rdma-common/check/reach.h"

#include "unit.h"
#include "folder.h"

/* Return the facts of these words, each name=value. */
static struct evidence facts(const char *words)
{
	struct evidence evidence = { 0 };
	char copy[1024], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word; (word = strsep(&rest, " "));) {
		char *name = strsep(&word, "=");
		enum fact fact = 0;

		if (!*name)
			continue;
		while (fact < FACT_COUNT && strcmp(evidence_name(fact), name) != 0)
			fact++;
		assert_true(fact < FACT_COUNT);
		evidence_set(&evidence, fact, word);
	}
	return evidence;
}

/* Facts of the client's host if all is well: ROCE and ON_ETH0 over Soft-RoCE, IWARP over iWARP. */
#define ROCE                                                                                          \
	"address=192.0.2.1 source=192.0.2.2 transport=roce roce_version=2 device=rdma0 software=yes " \
	"drivers=some kernel_device=rdma0 first_namespace=yes interface_here=yes "                    \
	"device_interface=eth0 route=found own_address=no next_hop=192.0.2.1 tos=0 "
#define ON_ETH0  "route_interface=eth0 route_kind=ethernet gid_interface=eth0 gid_kind=plain "
#define HARDWARE ROCE ON_ETH0 "software=no device=mlx5_0 "
#define INFINIBAND                                                                           \
	"address=192.0.2.1 source=192.0.2.2 transport=infiniband device=mlx5_0 software=no " \
	"interface_here=no gid_here=yes route=found own_address=no route_interface=ib0 "     \
	"route_kind=infiniband gid_interface=ib0 next_hop=192.0.2.1 tos=0 "
#define IWARP                                                                           \
	"address=192.0.2.1 source=192.0.2.2 transport=iwarp device=rdma0 software=yes " \
	"first_namespace=yes interface_here=yes device_interface=eth0 route=found "     \
	"own_address=no route_interface=eth0 route_kind=ethernet next_hop=192.0.2.1 tos=0 "

struct row {
	const char *facts;
	const char *rule; /* NULL: none holds */
};

static const struct row rows[] = {
	/* this host */
	{ "kernel_device=none drivers=none mode=exclusive", "L1" },
	{ "kernel_device=none drivers=none", "L1" },
	{ "kernel_device=mlx5_0 drivers=none", "L2" },
	{ "kernel_device=mlx5_0 drivers=some error=ENODEV", NULL },
	/* libibverbs leaves out a device without a file, so it seems to have no driver */
	{ "kernel_device=rdma0 drivers=none file_error=ENOENT file=/dev/infiniband/uverbs0 file_owner=rdma0",
	  "L11" },
	{ "kernel_device=rdma0 drivers=some file_error=EACCES file=/dev/infiniband/uverbs0 file_owner=rdma0",
	  "L11" },
	/* without its node GUID the device would seem to lack the address (L9) */
	{ ROCE "node_guid=0 error=ENODEV route_interface=eth0 gid_interface=none", "L10" },
	{ "transport=infiniband device=ib0 node_guid=0 error=ENODEV", "L10" },
	{ "kernel_device=rdma0 drivers=some error=ENODEV cgroup=/x", "L3" },
	{ ROCE ON_ETH0 "error=EAGAIN cgroup=/sys/fs/cgroup/x", "L3" },
	{ ROCE ON_ETH0 "error=EPERM cgroup=/sys/fs/cgroup/x", "L3" },
	{ ROCE ON_ETH0 "error=ENOMEM cgroup=/sys/fs/cgroup/x", NULL },
	{ ROCE ON_ETH0 "cgroup=/sys/fs/cgroup/x", NULL },
	{ "transport=roce software=yes first_namespace=no roce_socket=no", "L4" },
	/* newer kernels serve each network namespace that has a device */
	{ "address=192.0.2.1 transport=roce software=yes first_namespace=no roce_socket=yes request=8 port=1",
	  "B1" },
	{ "transport=roce software=yes first_namespace=no", NULL },
	{ "transport=roce software=no first_namespace=no interface_here=no gid_here=no device=mlx5_0",
	  "L5" },
	{ "transport=iwarp software=yes first_namespace=no interface_here=no gid_here=no device=siw0",
	  "L5" },
	{ "transport=infiniband interface_here=no gid_here=no", NULL },
	/* a macvlan above the interface of a device in another namespace has GIDs of the device */
	{ "transport=roce software=no first_namespace=no interface_here=no gid_here=yes", NULL },
	{ "address=192.0.2.1 transport=roce interface_here=no gid_here=no route=found route_interface=eth0 route_kind=veth",
	  "L13" },
	/* a host that is short of descriptors or memory lists no device */
	{ "kernel_device=none drivers=none error=EMFILE", NULL },
	{ "kernel_device=none drivers=none error=ENOMEM", NULL },
	{ "kernel_device=rdma0 drivers=some unusable=unreliable error=ENFILE", NULL },
	/* no rule but L3 explains that memory cannot be registered */
	{ "transport=roce software=yes first_namespace=no roce_socket=no memory=failed error=ENOMEM",
	  NULL },
	{ "transport=roce software=no interface_here=no gid_here=no memory=failed error=ENOMEM",
	  NULL },
	{ ROCE
	  "route_interface=br0 route_kind=ethernet gid_interface=br0 gid_kind=bridge memory=failed",
	  NULL },
	{ ROCE ON_ETH0 "error=EAGAIN memory=failed cgroup=/sys/fs/cgroup/x", "L3" },
	/* without a link there is no route either */
	{ "address=192.0.2.1 kernel_device=rdma0 unusable=down error=ENETUNREACH route=ENETUNREACH",
	  "L16" },
	{ "kernel_device=rdma0 drivers=some unusable=unreached", "L17" },
	{ "transport=roce software=no device=mlx5_0 gids=none unusable=unreached", "L12" },
	{ "kernel_device=efa_0 drivers=some unusable=unreliable", "L17" },
	/* the causes why no address leads to the port come first */
	{ "kernel_device=none drivers=none unusable=unreliable", "L1" },
	{ "transport=roce interface_here=no gid_here=no device=mlx5_0 unusable=unreached", "L5" },
	{ "transport=roce software=no interface_here=yes", NULL },
	{ "transport=roce route=ENETUNREACH error=ENETUNREACH vrf=red", "L6" },
	{ "transport=roce route=ENETUNREACH error=ENETUNREACH", "L6" },
	{ "transport=iwarp route=EHOSTUNREACH error=EHOSTUNREACH", "L6" },
	/* --bind is not an address of this host */
	{ "transport=roce route=ENETUNREACH error=EADDRNOTAVAIL", NULL },
	{ ROCE "route_interface=t0 route_kind=ipip gid_interface=none error=ENODEV", "L7" },
	/* newer kernels resolve addresses for iWARP over a tunnel */
	{ "transport=iwarp route=found route_interface=t0 route_kind=ipip", NULL },
	{ ROCE "route_interface=br0 route_kind=ethernet gid_interface=br0 gid_kind=bridge", "L8" },
	/* rdma_cm uses the device below the bridge, although another one is on the bridge */
	{ ROCE
	  "route_interface=br0 route_kind=ethernet gid_interface=br0 gid_kind=bridge gid_device=rdma1 request=answered",
	  "L8" },
	/* no rule holds if one of two compared facts is unknown */
	{ ROCE
	  "route_interface=br0 route_kind=ethernet gid_interface=br0 gid_kind=bridge device_interface=",
	  NULL },
	{ ROCE "route_interface=v0 route_kind=ethernet gid_interface=v0 gid_kind=macvlan", "L8" },
	{ ROCE "route_interface=v5 route_kind=ethernet gid_interface=v5 gid_kind=vlan", NULL },
	/* the bridge itself has a Soft-RoCE device */
	{ ROCE
	  "route_interface=br0 route_kind=ethernet gid_interface=br0 gid_kind=bridge device_interface=br0",
	  NULL },
	/* the GID of a hardware adapter may belong to any interface */
	{ ROCE
	  "software=no route_interface=bond0 route_kind=ethernet gid_interface=bond0 gid_kind=bond",
	  NULL },
	{ ROCE "route_interface=mgmt route_kind=ethernet gid_interface=eth0 gid_kind=plain", "L9" },
	{ ROCE "route_interface=mgmt route_kind=ethernet gid_interface=none", "L9" },
	/* in switchdev mode the function of the route has no GID */
	{ ROCE
	  "software=no device=mlx5_0 route_interface=eth0 route_kind=ethernet gid_interface=none gids=none",
	  "L12" },
	{ ROCE
	  "software=no route_interface=eth0 route_kind=ethernet route_driver=hv_netvsc gid_interface=none error=ENODEV",
	  "L14" },
	{ ROCE
	  "software=no route_interface=bond0 route_kind=ethernet gid_interface=bond0 bond_devices=mlx5_0,mlx5_1 request=silent",
	  "L15" },
	{ ROCE
	  "own_address=yes route_interface=lo route_kind=loopback gid_interface=eth0 gid_kind=plain",
	  NULL },
	{ IWARP "gid_interface=none", NULL },
	/* this host's filters */
	{ ROCE ON_ETH0 "send_error=EPERM", "C5" },
	{ ROCE ON_ETH0 "send_error=ENOBUFS", "C5" },
	/* the host answers */
	{ ROCE ON_ETH0 "port=4711 request=8 udp_roce=silent udp_other=refused", "B1" },
	{ ROCE ON_ETH0 "port=4711 request=28 udp_roce=silent udp_other=refused udp_from=192.0.2.1",
	  "B2" },
	{ ROCE ON_ETH0 "port=4711 request=28 udp_roce=silent udp_other=silent", "B3" },
	{ ROCE ON_ETH0 "port=4711 request=28 udp_other=prohibited udp_from=192.0.2.1", "B2" },
	{ ROCE ON_ETH0 "port=4711 request=28", "B2" },
	{ ROCE ON_ETH0 "port=4711 request=4 reason=timeout", "B6" },
	{ ROCE ON_ETH0 "port=4711 request=10 udp_other=refused", "B4" },
	{ IWARP "port=4711 request=refused udp_roce=refused udp_other=refused", "B5" },
	{ IWARP "port=4711 request=refused udp_roce=silent udp_other=refused", "B5" },
	/* the host is silent */
	{ ROCE ON_ETH0 "tos=104 request=silent control=silent plain=8", "C1" },
	{ ROCE ON_ETH0 "tos=0 request=silent control=silent plain=8", NULL },
	{ ROCE ON_ETH0
	  "port=4711 request=silent control=8 again=silent neighbour=resolved udp_other=refused udp_roce=silent",
	  "C2" },
	{ ROCE ON_ETH0 "port=4711 tos=104 request=silent control=8 again=silent plain=8", "C2" },
	{ INFINIBAND "port=4711 request=silent control=8 again=silent", "C2" },
	{ IWARP "port=4711 request=silent control=refused again=silent", "C2" },
	/* the second request to the port is answered */
	{ ROCE ON_ETH0 "port=4711 request=silent control=8 again=answered", "C15" },
	{ IWARP "port=4711 request=silent control=refused again=refused", "C15" },
	/* a connection that transfers nothing */
	{ ROCE ON_ETH0 "request=answered", "C16" },
	{ ROCE ON_ETH0 "roce_version=1 request=answered", "C16" },
	{ HARDWARE "request=answered", "C16" },
	{ INFINIBAND "request=answered", "C16" },
	{ IWARP "port=4711 request=answered", "C16" },
	{ ROCE ON_ETH0 "neighbour=failed error=ETIMEDOUT", "C3" },
	{ ROCE ON_ETH0 "request=silent udp_roce=silent udp_other=silent neighbour=failed", "C3" },
	{ ROCE ON_ETH0 "request=silent udp_roce=prohibited udp_from=192.0.2.1 udp_other=refused",
	  "C6" },
	{ ROCE ON_ETH0 "request=silent udp_roce=refused udp_from=192.0.2.254 udp_other=refused",
	  "C6" },
	{ ROCE ON_ETH0 "request=silent udp_roce=refused udp_from=192.0.2.1 udp_other=refused",
	  "C7" },
	{ ROCE ON_ETH0
	  "request=silent neighbour=resolved udp_roce=silent udp_other=refused udp_from=192.0.2.1",
	  "C9" },
	{ ROCE ON_ETH0 "request=silent udp_roce=silent udp_other=prohibited udp_from=192.0.2.1",
	  "C9" },
	{ IWARP
	  "port=4711 request=silent control=silent neighbour=resolved udp_other=refused udp_from=192.0.2.1",
	  "C9" },
	{ ROCE ON_ETH0 "request=silent neighbour=unconfirmed udp_roce=silent udp_other=silent",
	  "C10" },
	/* UDP proves nothing about InfiniBand, about RoCE v1, or about a hardware adapter */
	{ INFINIBAND "request=silent neighbour=resolved udp_other=silent", "C12" },
	{ INFINIBAND "request=silent neighbour=resolved udp_other=refused udp_from=192.0.2.1",
	  "C12" },
	{ ROCE ON_ETH0
	  "software=no roce_version=1 request=silent neighbour=resolved udp_roce=silent udp_other=refused udp_from=192.0.2.1",
	  "C13" },
	{ HARDWARE
	  "request=silent neighbour=resolved udp_roce=silent udp_other=refused udp_from=192.0.2.1",
	  "C14" },
	{ HARDWARE
	  "request=silent neighbour=resolved udp_roce=prohibited udp_other=prohibited udp_from=192.0.2.1",
	  "C14" },
	{ HARDWARE "request=silent neighbour=resolved udp_roce=silent udp_other=silent", "C14" },
	{ ROCE ON_ETH0 "request=silent neighbour=resolved udp_roce=silent udp_other=silent",
	  "C10" },
	{ IWARP "port=4711 request=silent control=silent neighbour=resolved udp_other=silent",
	  "C10" },
	/* a router answers "unreachable"; second row: only to the later packet, when its search for
	   a neighbor had failed */
	{ ROCE ON_ETH0
	  "request=silent neighbour=resolved udp_roce=unreachable udp_from=192.0.2.254 udp_other=unreachable",
	  "C11" },
	{ ROCE ON_ETH0
	  "request=silent neighbour=resolved udp_roce=silent udp_from=192.0.2.254 udp_other=unreachable",
	  "C11" },
	{ IWARP
	  "port=4711 request=failed udp_roce=unreachable udp_from=192.0.2.254 udp_other=silent",
	  "C11" },
	/* these answers come from this host's kernel and from the address itself, not a router */
	{ ROCE ON_ETH0
	  "request=silent udp_roce=unreachable udp_from=192.0.2.2 udp_other=unreachable",
	  NULL },
	{ ROCE ON_ETH0
	  "request=silent udp_roce=unreachable udp_from=192.0.2.1 udp_other=unreachable",
	  NULL },
	/* another host refuses the unused port: the address may be down */
	{ ROCE ON_ETH0
	  "request=silent neighbour=resolved udp_roce=silent udp_from=192.0.2.254 udp_other=refused",
	  NULL },
	{ ROCE ON_ETH0 "request=silent udp_roce=silent", NULL },
	{ ROCE ON_ETH0 "request=failed udp_roce=silent udp_other=refused", NULL },
	/* too few facts for any rule */
	{ "address=192.0.2.1", NULL },
	{ "address=192.0.2.1 request=silent", NULL },
};

TEST(recorded_facts_select_the_rule_for_their_cause)
{
	EACH_ROW (i, rows) {
		const struct evidence evidence = facts(rows[i].facts);
		const struct rule *rule = reach_classify(&evidence);

		if (!rule != !rows[i].rule || (rule && strcmp(rule->name, rows[i].rule) != 0))
			fail_msg("%s: %s instead of %s", rows[i].facts, rule ? rule->name : "none",
				 rows[i].rule ? rows[i].rule : "none");
	}
}

/* Facts of healthy hosts, each of which an earlier table of rules found fault with. */
static const char *const healthy[] = {
	ROCE ON_ETH0,
	IWARP,
	HARDWARE,
	INFINIBAND,
	ROCE ON_ETH0 "software=no roce_version=1 ",
	ROCE "route_interface=v5 route_kind=ethernet gid_interface=v5 gid_kind=vlan ",
	/* a pod with a macvlan */
	ROCE ON_ETH0
	"software=no first_namespace=no interface_here=no gid_here=yes device_interface= ",
	IWARP "first_namespace=no interface_here=no gid_here=yes device_interface= ",
	/* if these get no answer, a rule L may hold: several adapters are in one subnet, */
	ROCE
	"software=no route_interface=eth1 route_kind=ethernet gid_interface=eth0 gid_kind=plain ",
	/* the network of a virtual machine may carry RDMA, and a bond may have RoCE LAG */
	HARDWARE "route_driver=hv_netvsc ",
	HARDWARE "bond_devices=mlx5_0,mlx5_1 ",
};

#define SUSPECTS 3 /* the last ones of them, about which silence says more */

/* Possible answers of the other side to a request to a port, and to UDP. */
static const char *const answers[] = {
	"request=8",
	"request=10",
	"request=28",
	"request=4",
	"request=refused",
	"request=silent control=8 again=silent",
	"request=silent control=28 again=silent",
	"request=silent control=refused again=silent",
	"request=silent control=answered again=failed",
	"request=silent control=8 again=answered",
	"request=silent control=silent tos=104 plain=8",
};
static const char *const udp_answers[] = {
	"",
	"udp_roce=silent udp_other=silent",
	"udp_roce=silent udp_other=refused udp_from=192.0.2.1",
	"udp_roce=prohibited udp_other=prohibited udp_from=192.0.2.1",
	"udp_roce=unreachable udp_other=unreachable udp_from=192.0.2.254",
	"udp_roce=EPERM udp_other=EPERM",
};

TEST(an_answer_of_the_other_side_selects_no_rule_about_this_host)
{
	for (size_t i = 0; i < ENTRIES(healthy) * ENTRIES(answers) * ENTRIES(udp_answers); i++) {
		const char *host = healthy[i % ENTRIES(healthy)];
		const char *answer = answers[i / ENTRIES(healthy) % ENTRIES(answers)];
		char words[1024];
		struct evidence evidence;
		const struct rule *rule;

		/* iWARP has no reasons to reject, and RoCE and InfiniBand are never refused */
		if (!strstr(answer, "answered") &&
		    !strstr(answer, "refused") == !!strstr(host, "transport=iwarp"))
			continue;
		snprintf(words, sizeof(words), "%sport=4711 neighbour=resolved %s %s", host, answer,
			 udp_answers[i / ENTRIES(healthy) / ENTRIES(answers)]);
		evidence = facts(words);
		rule = reach_classify(&evidence);
		if (!rule || (*rule->name != 'B' && !strstr("C1 C2 C15", rule->name)))
			fail_msg("%s: %s", words, rule ? rule->name : "none");
	}
}

TEST(silence_of_the_other_side_selects_no_rule_about_a_healthy_host)
{
	const size_t count = ENTRIES(healthy) - SUSPECTS;

	for (size_t i = 0; i < count * ENTRIES(udp_answers); i++) {
		char words[1024];
		struct evidence evidence;
		const struct rule *rule;

		snprintf(words, sizeof(words),
			 "%sport=4711 request=silent control=silent neighbour=resolved %s",
			 healthy[i % count], udp_answers[i / count]);
		evidence = facts(words);
		rule = reach_classify(&evidence);
		if (rule && *rule->name != 'C')
			fail_msg("%s: %s", words, rule->name);
	}
}

TEST(every_rule_is_selected_by_a_row)
{
	for (size_t i = 0; reach_rule(i); i++) {
		bool found = !reach_rule(i)->name; /* a row without a name selects no rule */

		for (size_t j = 0; j < ENTRIES(rows) && !found; j++) {
			const struct evidence evidence = facts(rows[j].facts);

			found = reach_classify(&evidence) == reach_rule(i);
		}
		if (!found)
			fail_msg("no row has rule %s: %s", reach_rule(i)->name,
				 reach_rule(i)->condition);
	}
}

TEST(rule_needs_every_fact_of_its_condition)
{
	EACH_ROW (i, rows) {
		struct evidence evidence = facts(rows[i].facts);
		const struct rule *rule = reach_classify(&evidence);

		for (const char *word = rule ? rule->condition : ""; *word;) {
			size_t name = strcspn(word, "!=");

			evidence = facts(rows[i].facts);
			for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
				if (strlen(evidence_name(fact)) == name &&
				    !strncmp(evidence_name(fact), word, name))
					evidence_set(&evidence, fact, "");
			}
			assert_ptr_not_equal(reach_classify(&evidence), rule);
			word += strcspn(word, " ");
			word += strspn(word, " ");
		}
	}
}

/* Return the finding of these facts, as an object that the caller frees. */
static struct json_object *report(const char *words)
{
	static struct console console;
	const struct evidence evidence = facts(words);
	struct findings findings;

	console_init(&console, true);
	findings_init(&findings, &console, true);
	reach_report(&findings, &evidence);
	json_object_get(findings.latest);
	json_object_put(findings.all);
	return findings.latest;
}

static void assert_text(struct json_object *finding, const char *key, const char *text)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(finding, key, &value));
	if (text)
		assert_string_equal(json_object_get_string(value), text);
	else
		assert_null(value);
}

TEST(a_finding_has_the_facts_and_at_most_three_causes)
{
	struct json_object *finding = report(
		ROCE ON_ETH0
		"request=silent neighbour=resolved udp_roce=silent udp_other=refused udp_from=192.0.2.1");
	struct json_object *value, *fact;

	assert_text(finding, "rule", "C9");
	assert_text(
		finding, "advice",
		"run 'rdma-client --check 192.0.2.2' on 192.0.2.1; if both print this line, look at both firewalls");
	assert_true(json_object_object_get_ex(finding, "causes", &value));
	assert_int_equal(json_object_array_length(value), 3);
	assert_true(json_object_object_get_ex(finding, "evidence", &value));
	assert_true(json_object_object_get_ex(value, "udp_other", &fact));
	assert_string_equal(json_object_get_string(fact), "refused");
	assert_false(json_object_object_get_ex(value, "vrf", &fact));
	json_object_put(finding);
	finding = report("address=192.0.2.1 source=192.0.2.2");
	assert_text(finding, "rule", NULL);
	assert_text(finding, "text",
		    "the connect request to 192.0.2.1 failed, and no rule of rdma-pair(7) "
		    "explains it");
	assert_true(json_object_object_get_ex(finding, "causes", &value));
	assert_int_equal(json_object_array_length(value), 0);
	json_object_put(finding);
}

/* The conditions of the rules and the rows above contain names of errors. */
TEST(error_has_its_name_or_its_number)
{
	static const struct {
		int error;
		const char *text;
	} errors[] = { { EADDRNOTAVAIL, "EADDRNOTAVAIL" },
		       { EAGAIN, "EAGAIN" },
		       { EPERM, "EPERM" },
		       { ENODEV, "ENODEV" },
		       { ENETUNREACH, "ENETUNREACH" },
		       { EHOSTUNREACH, "EHOSTUNREACH" },
		       { EPROTO, "errno 71" } };

	for (size_t i = 0; i < ENTRIES(errors); i++) {
		struct evidence evidence = { 0 };

		evidence_set_error(&evidence, FACT_error, 0);
		assert_true(evidence_is(&evidence, FACT_error, ""));
		evidence_set_error(&evidence, FACT_error, errors[i].error);
		assert_true(evidence_is(&evidence, FACT_error, errors[i].text));
	}
}

/* Return true if some errno value has the name in `text`, of `length` bytes. */
static bool is_error_name(const char *text, size_t length)
{
	for (int error = 1; error < 134; error++) {
		struct evidence evidence = { 0 };
		const char *name = evidence.facts[FACT_error];

		evidence_set_error(&evidence, FACT_error, error);
		if (strlen(name) == length && !strncmp(name, text, length))
			return true;
	}
	return false;
}

TEST(each_error_in_a_condition_has_a_name)
{
	size_t found = 0;

	for (size_t i = 0; reach_rule(i); i++) {
		const char *word = reach_rule(i)->condition;

		for (; *word; word++) {
			size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

			if (length < 4)
				continue;
			if (!is_error_name(word, length))
				fail_msg("no error has the name in '%s'", word);
			found++;
			word += length - 1;
		}
	}
	assert_true(found > 3);
}

/* A semicolon separates the causes of a finding. */
TEST(cause_contains_no_semicolon)
{
	for (size_t i = 0; reach_rule(i); i++) {
		const struct rule *rule = reach_rule(i);

		for (size_t j = 0; j < MAX_CAUSES && rule->causes[j]; j++) {
			if (strchr(rule->causes[j], ';'))
				fail_msg("%s: %s", rule->name, rule->causes[j]);
		}
	}
}

/*
 * A text has '?' for a fact that is not known: only the rows of L3 to L6 have too few facts. No
 * placeholder {name} remains.
 */
TEST(every_placeholder_of_a_text_is_filled)
{
	EACH_ROW (i, rows) {
		struct json_object *finding, *value;

		if (!rows[i].rule)
			continue;
		finding = report(rows[i].facts);
		assert_true(json_object_object_get_ex(finding, "text", &value));
		if (strchr(json_object_get_string(value), '?') &&
		    !strstr("L3 L4 L5 L6 C16", rows[i].rule))
			fail_msg("%s: %s", rows[i].facts, json_object_get_string(value));
		assert_null(strchr(json_object_get_string(value), '{'));
		assert_true(json_object_object_get_ex(finding, "advice", &value));
		assert_null(strchr(json_object_get_string(value), '{'));
		json_object_put(finding);
	}
}

/* ---- Facts ---- */

TEST(list_of_listeners_is_complete_or_ends_with_an_ellipsis)
{
	struct evidence evidence = { 0 };
	char long_name[200];

	evidence_set(&evidence, FACT_listeners, "none");
	evidence_add_listener(&evidence, "server on port 1 of 10.0.0.10");
	evidence_add_listener(&evidence, "server on port 1 of 10.0.0.1");
	evidence_add_listener(&evidence, "server on port 1 of 10.0.0.10");
	assert_string_equal(evidence.facts[FACT_listeners],
			    "server on port 1 of 10.0.0.10, server on port 1 of 10.0.0.1");
	memset(long_name, 'x', sizeof(long_name));
	for (int i = 0; i < 6; i++) {
		snprintf(long_name, sizeof(long_name), "server %d%150s", i, "on port 1");
		evidence_add_listener(&evidence, long_name);
	}
	assert_non_null(strstr(evidence.facts[FACT_listeners], "server 1 "));
	assert_null(strstr(evidence.facts[FACT_listeners], "server 2 "));
	assert_string_equal(strrchr(evidence.facts[FACT_listeners], ','), ", ...");
}

/* A session needs a handle and 8 objects. */
TEST(rdma_cgroup_is_a_cause_only_if_it_leaves_too_few_objects)
{
	static const struct {
		const char *limit, *use, *limit_above, *use_above;
		const char *cgroup; /* NULL: no cause */
	} cases[] = {
		/* clang-format off */
		{ "hca_handle=max hca_object=max", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=max", "hca_handle=1 hca_object=5", NULL },
		{ "hca_handle=1000 hca_object=max", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=max", "hca_handle=1 hca_object=5", NULL },
		{ "hca_handle=1 hca_object=max", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=max", "hca_handle=9 hca_object=5", "/cg/a/b" },
		{ "hca_handle=9 hca_object=0", "hca_handle=1 hca_object=0", "hca_handle=max hca_object=max", "hca_handle=1 hca_object=0", "/cg/a/b" },
		{ "hca_handle=9 hca_object=13", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=100", "hca_handle=1 hca_object=93", "/cg/a" },
		{ "hca_handle=9 hca_object=12", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=100", "hca_handle=1 hca_object=99", "/cg/a" },
		{ "hca_handle=9 hca_object=5", "hca_handle=1 hca_object=5", "hca_handle=max hca_object=100", "hca_handle=1 hca_object=99", "/cg/a/b" },
		/* clang-format on */
	};

	put("proc/self/cgroup", "0::/a/b\n");
	put("proc/self/mountinfo", "30 25 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const char *const files[][2] = { { "cg/a/b/rdma.max", cases[i].limit },
						 { "cg/a/b/rdma.current", cases[i].use },
						 { "cg/a/rdma.max", cases[i].limit_above },
						 { "cg/a/rdma.current", cases[i].use_above } };
		struct evidence evidence = facts("device=mlx5_0");
		char text[256];

		for (size_t j = 0; j < ENTRIES(files); j++) {
			snprintf(text, sizeof(text),
				 "mlx5_1 hca_handle=0 hca_object=0\nmlx5_0 %s\n", files[j][1]);
			put(files[j][0], text);
		}
		evidence_find_cgroup(&evidence, folder);
		if (cases[i].cgroup)
			assert_string_equal(evidence.facts[FACT_cgroup] + strlen(folder),
					    cases[i].cgroup);
		else
			assert_string_equal(evidence.facts[FACT_cgroup], "");
	}
	empty_folder(NULL);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, NULL)
