// SPDX-License-Identifier: MIT
/*
 * What --check with PORT concludes from its sessions, and which it runs next. How each of them ends
 * is scripted: no server is needed.
 */

#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rdma-common/check.h"

#include "unit.h"

#define MTU 4096

/* ---- Sessions that are scripted ---- */

/* One of them: which it has to be, and how it ends. Without bytes there is none. */
struct turn {
	uint64_t size;    /* it has to be of so many bytes, */
	bool short_reply; /* of one byte back, */
	bool other;       /* of the other operation than the first one, */
	bool later;       /* and to begin after a pause */
	bool absent;      /* it does not come about */
	enum status status;
	bool connected;
	enum local_stage local;
	enum remote_stage remote;
	enum status verdict; /* of the server */
	bool rejected;
	enum greeting greeting;
	enum refusal refusal;
	enum resource lacking;
};

/* clang-format off */
#define ENDS(bytes, how, ours, theirs) \
	{ (bytes), .status = (how), .connected = true, .local = (ours), .remote = (theirs) }
#define PASSES(bytes) ENDS(bytes, STATUS_SUCCESS, LOCAL_VERDICT_SENT, REMOTE_VERDICT)
#define SILENT(bytes, ours, theirs) ENDS(bytes, STATUS_TIMED_OUT, ours, theirs)
/* The same size to the server, and one byte back. */
#define NARROWED(bytes, how, ours, theirs) \
	{ (bytes), .short_reply = true, .status = (how), .connected = true, .local = (ours), .remote = (theirs) }
/* No connection came about. */
#define FAILS(bytes, how) { (bytes), .status = (how) }
#define REFUSED(bytes, why, out_of) \
	{ (bytes), .status = STATUS_REFUSED, .rejected = true, .greeting = GREETING_HELLO, .refusal = (why), .lacking = (out_of) }
/* Nothing says why. */
#define RESET(bytes) { (bytes), .status = STATUS_REFUSED, .rejected = true }
/* clang-format on */
/* After silence: one byte each way passes. */
#define THERE ENDS(1, STATUS_SUCCESS, LOCAL_IDLE, REMOTE_SILENT)

/* A path with a packet of MTU bytes, examined with --json. */
static struct {
	struct options options;
	struct console console;
	struct process process;
	struct check check;
	enum operation operation; /* of the first session */
	const struct turn *turns;
	struct counters counters[4]; /* before a session is one of them, after it the next */
	const char *device;
	enum ibv_mtu mtu; /* of the server */
} path;

static void start(bool iwarp, const struct turn *turns)
{
	json_object_put(path.check.findings); /* of the last one, if any */
	memset(&path, 0, sizeof(path));
	path.options = default_options(ROLE_CLIENT);
	path.options.address = "host";
	path.options.check = true;
	path.options.json = true;
	console_init(&path.console, path.options.json);
	process_init(&path.process, &path.console);
	check_init(&path.check, &path.options, &path.process);
	path.check.mtu = MTU;
	path.check.iwarp = iwarp;
	path.turns = turns;
	path.device = "";
}

static bool run(struct check *check, __attribute__((unused)) void *argument)
{
	const struct turn *turn = path.turns++;
	struct connection *outcome = &check->outcome;

	assert_int_equal(check->session.pattern_size, turn->size);
	assert_int_equal(check->session.short_reply, turn->short_reply);
	assert_int_equal(check->session.operation != path.operation, turn->other);
	assert_int_equal(check->start > now_milliseconds(), turn->later);
	if (turn->absent)
		return false;
	memset(outcome, 0, sizeof(*outcome));
	outcome->status = turn->status;
	outcome->protocol = (struct protocol){ .connected = turn->connected,
					       .verifying = true,
					       .local = turn->local,
					       .remote = turn->remote,
					       .verdict = turn->verdict };
	outcome->rejected = turn->rejected;
	outcome->rejection.greeting = turn->greeting;
	outcome->rejection.hello.refusal = (uint8_t)turn->refusal;
	outcome->rejection.hello.lacking = (uint8_t)turn->lacking;
	outcome->limits.iwarp = check->iwarp;
	outcome->agreement.peer_mtu = path.mtu;
	outcome->counters_before = path.counters[0];
	outcome->counters_after = path.counters[1];
	memmove(path.counters, path.counters + 1, 3 * sizeof(path.counters[0]));
	snprintf(outcome->agreement.peer_device, sizeof(outcome->agreement.peer_device), "%s",
		 path.device);
	snprintf(outcome->peer.text, sizeof(outcome->peer.text), "peer");
	snprintf(outcome->cause, sizeof(outcome->cause), "cause %d", turn->status);
	check->reached |= turn->connected || turn->greeting != GREETING_NONE;
	return true;
}

/* Runs all that the script has; how it ended. */
static void play(enum status expected)
{
	assert_int_equal(check_server(&path.check, run, NULL), expected);
	assert_int_equal(path.turns->size, 0);
}

/* A text of the last finding of a step. */
static const char *found(const char *step, const char *key)
{
	struct json_object *all, *value;

	assert_true(json_object_object_get_ex(path.check.findings, step, &all));
	all = json_object_array_get_idx(all, json_object_array_length(all) - 1);
	assert_true(json_object_object_get_ex(all, key, &value));
	return json_object_get_string(value);
}

/* It contains that; NULL: there is none. */
static void expect(const char *step, const char *key, const char *words)
{
	const char *text = found(step, key);

	if (words && (!text || !strstr(text, words)))
		fail_msg("'%s' is not in '%s'", words, text ? text : "null");
	if (!words && text)
		fail_msg("not null: '%s'", text);
}

/* ---- What they show ---- */

TEST(every_size_is_tried_around_the_length_of_a_packet)
{
	static const struct turn turns[] = { PASSES(1),       PASSES(1024),
					     PASSES(MTU - 1), PASSES(MTU),
					     PASSES(MTU + 1), PASSES(65536),
					     PASSES(1048576), { 0 } };
	static const struct turn iwarp[] = { PASSES(1),     PASSES(1024),    PASSES(MTU + 1),
					     PASSES(65536), PASSES(1048576), { 0 } };
	static const struct turn unknown[] = { PASSES(1), PASSES(65536), PASSES(1048576), { 0 } };
	const struct turn *const scripts[] = { turns, iwarp, unknown, unknown };

	for (int i = 0; i < 4; i++) {

		start(i % 2, scripts[i]);
		if (scripts[i] == unknown)
			path.check.mtu = 0;
		play(STATUS_SUCCESS);
		expect("transfer", "status", "ok");
		expect("transfer", "text",
		       "1048576 bytes: client to server verified, server to client verified");
	}
}

/* clang-format off */
#define VANISH(from, to, above, at) \
	"packets above " above " bytes vanish from " from " to " to ", at " at " at the latest: a host or switch on the path " \
	"has a smaller MTU than the adapters use, 4096 bytes and headers; set it the same everywhere ('ip link set ... mtu', " \
	"and the ports of switches; 'ping -M do -s 4128' from both hosts tries it)"
#define GONE "not even 1 byte passes any more (cause "
#define MANY \
	"packets of every size pass, but not so many of them from client to server: look at the counters, at flow control " \
	"(PFC, ECN), and at cables and switches"
#define NO_BYTE \
	"not a byte passes in one direction at least, though the connection stands: let the firewalls pass "
/* clang-format on */

#define POSTED   LOCAL_OPERATION_POSTED
#define DONE     LOCAL_OPERATION_COMPLETED
#define LOST     STATUS_PEER_LOST
#define TIME_OUT STATUS_TIMED_OUT
/* Of two sizes neither direction of the second is seen to arrive. */
#define NEITHER    PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_MR)
#define UP_TO_1024 PASSES(1), PASSES(1024)

/* How a size ends that does not pass in both directions, and what is concluded from that. */
TEST(a_size_that_does_not_pass_is_explained)
{
	static const struct {
		bool iwarp, writes;
		struct turn turns[8];
		enum status status;
		const char *to_server, *to_client;
		const char *advice; /* NULL: none */
	} cases[] = {
		/* clang-format off */
		/* one direction arrived: it is the other */
		{ 0, 1, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, TIME_OUT, "arrived", "failed", VANISH("server", "client", "1024", "4095") },
		{ 0, 1, { UP_TO_1024, SILENT(MTU - 1, POSTED, REMOTE_DONE), THERE }, TIME_OUT, "failed", "arrived", VANISH("client", "server", "1024", "4095") },
		{ 0, 0, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, TIME_OUT, "failed", "arrived", VANISH("client", "server", "1024", "4095") },
		{ 0, 0, { UP_TO_1024, SILENT(MTU - 1, POSTED, REMOTE_DONE), THERE }, TIME_OUT, "arrived", "failed", VANISH("server", "client", "1024", "4095") },
		/* none did: another session tells */
		{ 0, 1, { NEITHER, THERE, NARROWED(1024, STATUS_SUCCESS, DONE, REMOTE_VERDICT) }, LOST, "verified", "failed", "above 1 bytes vanish from server to client, at 1024" },
		{ 0, 1, { NEITHER, THERE, NARROWED(1024, TIME_OUT, DONE, REMOTE_MR) }, LOST, "arrived", "not known", "vanish in one direction at least" },
		/* over iWARP its completion says only that TCP has it */
		{ 1, 1, { NEITHER, THERE, NARROWED(1024, TIME_OUT, DONE, REMOTE_MR) }, LOST, "failed", "not known", "'ping -M do -s 1024'" },
		{ 0, 1, { NEITHER, THERE, NARROWED(1024, TIME_OUT, POSTED, REMOTE_MR) }, LOST, "failed", "not known", "vanish from client to server" },
		{ 0, 1, { NEITHER, THERE, NARROWED(1024, STATUS_REFUSED, POSTED, REMOTE_MR) }, LOST, "not known", "not known", "vanish in one direction at least" },
		{ 0, 1, { NEITHER, THERE, { 1024, .short_reply = true, .status = STATUS_TIMED_OUT } }, LOST, "not known", "not known", NULL },
		{ 0, 1, { NEITHER, THERE, NARROWED(1024, STATUS_INTERRUPTED, POSTED, REMOTE_MR) }, STATUS_INTERRUPTED, "not known", "not known", NULL },
		{ 0, 1, { NEITHER, THERE, { 1024, .short_reply = true, .absent = true } }, LOST, "not known", "not known", NULL },
		/* a server that refuses is there */
		{ 0, 1, { PASSES(1), SILENT(1024, DONE, REMOTE_MR), REFUSED(1, REFUSAL_LENGTH, 0) }, TIME_OUT, "arrived", "failed", "above 1 bytes vanish" },
		/* of one that is gone no size is blamed, even if one direction arrived */
		{ 0, 0, { NEITHER, FAILS(1, STATUS_REFUSED) }, LOST, "not known", "not known", GONE "4)" },
		{ 0, 0, { PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_DONE), FAILS(1, STATUS_REFUSED) }, LOST, "arrived", "not known", GONE "4)" },
		{ 0, 0, { PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_DONE), FAILS(1, LOST) }, LOST, "arrived", "not known", GONE "6)" },
		{ 0, 0, { PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_DONE), FAILS(1, STATUS_TIMED_OUT) }, LOST, "arrived", "not known", GONE "5)" },
		{ 0, 0, { PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_DONE), FAILS(1, STATUS_UNRESOLVED) }, LOST, "arrived", "not known", GONE "3)" },
		/* what this host could not do says nothing of the server */
		{ 0, 0, { PASSES(1), SILENT(1024, DONE, REMOTE_MR), FAILS(1, STATUS_LOCAL_FAILURE) }, TIME_OUT, "not known", "arrived", NULL },
		{ 0, 0, { PASSES(1), SILENT(1024, DONE, REMOTE_MR), FAILS(1, STATUS_INTERRUPTED) }, STATUS_INTERRUPTED, "not known", "arrived", NULL },
		{ 0, 0, { PASSES(1), SILENT(1024, DONE, REMOTE_MR), { 1, .absent = true } }, TIME_OUT, "not known", "arrived", NULL },
		/* what to change depends on what had passed */
		{ 0, 0, { SILENT(1, POSTED, REMOTE_MR) }, TIME_OUT, "not known", "not known", NO_BYTE "UDP port 4791 whatever" },
		{ 1, 0, { SILENT(1, POSTED, REMOTE_MR) }, TIME_OUT, "not known", "not known", NO_BYTE "the TCP port whatever" },
		/* a packet of 4096 bytes was verified: 4097 travel as that, and one byte */
		{ 0, 0, { PASSES(1), PASSES(1024), PASSES(MTU - 1), SILENT(MTU, DONE, REMOTE_MR), THERE }, TIME_OUT, "failed", "arrived", VANISH("client", "server", "4095", "4096") },
		{ 0, 0, { PASSES(1), PASSES(1024), PASSES(MTU - 1), PASSES(MTU), SILENT(MTU + 1, DONE, REMOTE_MR), THERE }, TIME_OUT, "failed", "arrived", MANY },
		{ 0, 0, { PASSES(1), PASSES(1024), PASSES(MTU - 1), PASSES(MTU), PASSES(MTU + 1), SILENT(65536, DONE, REMOTE_MR), THERE }, TIME_OUT, "failed", "arrived", MANY },
		/* all has arrived: packets are not to blame */
		{ 0, 0, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_DONE), THERE }, TIME_OUT, "arrived", "arrived", NULL },
		/* no silence, but contents that are wrong, in one direction */
		{ 0, 0, { PASSES(1), { 1024, .status = STATUS_CONTENTS_WRONG, .connected = true, .local = LOCAL_VERDICT_SENT, .remote = REMOTE_VERDICT, .verdict = STATUS_CONTENTS_WRONG } }, STATUS_CONTENTS_WRONG, "arrived", "verified", NULL },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		char cause[16];

		start(cases[i].iwarp, cases[i].turns);
		path.operation = cases[i].writes ? OPERATION_WRITE : OPERATION_READ;
		path.check.session.operation = path.operation;
		play(cases[i].status);
		expect("transfer", "status", "failed");
		expect("transfer", "client_to_server", cases[i].to_server);
		expect("transfer", "server_to_client", cases[i].to_client);
		expect("transfer", "advice", cases[i].advice);
		snprintf(cause, sizeof(cause), ": cause %d", cases[i].status);
		expect("transfer", "text", cause);
	}
}

static const char one_off[] = "took a session, and no other behind it";
static const char roce[] = "open UDP port 4791", tcp[] = "not this TCP port";

/* No session came about: what is reported of the server; `last` is the size of the last one. */
TEST(a_connection_that_is_refused_is_explained)
{
	static const struct {
		bool iwarp;
		struct turn turns[4];
		const char *last;
		const char *advice;
	} cases[] = {
		/* clang-format off */
		{ 0, { FAILS(1, STATUS_TIMED_OUT) }, "1 byte", roce },
		{ 0, { FAILS(1, LOST) }, "1 byte", roce },
		{ 1, { FAILS(1, STATUS_TIMED_OUT) }, "1 byte", tcp },
		{ 0, { FAILS(1, STATUS_REFUSED) }, "1 byte", NULL },
		{ 1, { FAILS(1, STATUS_LOCAL_FAILURE) }, "1 byte", NULL },
		{ 0, { PASSES(1), FAILS(1024, STATUS_TIMED_OUT) }, "1024 bytes", one_off },
		{ 1, { PASSES(1), FAILS(1024, STATUS_REFUSED) }, "1024 bytes", one_off },
		{ 0, { PASSES(1), FAILS(1024, STATUS_LOCAL_FAILURE) }, "1024 bytes", NULL },
		{ 0, { PASSES(1), PASSES(1024), FAILS(MTU - 1, STATUS_REFUSED) }, "4095 bytes", NULL },
		{ 1, { PASSES(1), PASSES(1024), FAILS(MTU + 1, LOST) }, "4097 bytes", tcp },
		/* the mode of the server is taken from its rejection, once */
		{ 0, { REFUSED(1, REFUSAL_OPERATION, 0), { 1, .other = true, .status = STATUS_REFUSED, .rejected = true, .greeting = GREETING_HELLO, .refusal = REFUSAL_OPERATION } }, "1 byte", NULL },
		/* and tried out where that gives no reason */
		{ 0, { RESET(1), { 1, .other = true, .status = STATUS_REFUSED, .rejected = true } }, "1 byte", NULL },
		{ 0, { PASSES(1), RESET(1024) }, "1024 bytes", one_off },
		/* what the server refuses is not repeated */
		{ 0, { PASSES(1), REFUSED(1024, REFUSAL_LENGTH, 0) }, "1024 bytes", NULL },
		{ 0, { PASSES(1), { 1024, .status = STATUS_REFUSED, .rejected = true, .greeting = GREETING_VERSION } }, "1024 bytes", NULL },
		/* but if it may accept soon: a session ends a little later there than here */
		{ 0, { REFUSED(1, REFUSAL_RESOURCES, RESOURCE_MEMORY) }, "1 byte", NULL },
		{ 0, { REFUSED(1, REFUSAL_RESOURCES, RESOURCE_STORAGE) }, "1 byte", NULL },
		{ 0, { PASSES(1), REFUSED(1024, REFUSAL_RESOURCES, RESOURCE_STORAGE) }, "1024 bytes", NULL },
		{ 0, { PASSES(1), REFUSED(1024, REFUSAL_RESOURCES, RESOURCE_OTHER) }, "1024 bytes", NULL },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		char text[64];
		int last = 0;

		while (cases[i].turns[last + 1].size > 0)
			last++;
		start(cases[i].iwarp, cases[i].turns);
		play(cases[i].turns[last].status);
		snprintf(text, sizeof(text), "peer: with %s: cause %d", cases[i].last,
			 cases[i].turns[last].status);
		assert_string_equal(found("server", "text"), text);
		expect("server", "status", "failed");
		expect("server", "advice", cases[i].advice);
	}
}

TEST(a_busy_server_is_asked_again_until_the_time_is_up)
{
	static const struct {
		bool iwarp, verified; /* a session before this one succeeded */
		enum greeting greeting;
		enum resource lacking;
	} cases[] = { { 0, 0, GREETING_HELLO, RESOURCE_NOT_SAID },
		      { 0, 0, GREETING_HELLO, RESOURCE_SESSION },
		      { 0, 1, GREETING_HELLO, RESOURCE_SESSION },
		      { 0, 1, GREETING_HELLO, RESOURCE_MEMORY },
		      { 0, 1, GREETING_HELLO, (enum resource)200 },
		      { 1, 1, GREETING_NONE, 0 } /* the reason may be lost */ };

	for (size_t i = 0; i < 2 * ENTRIES(cases); i++) {
		const bool patient = i % 2;
		const uint64_t size = cases[i / 2].verified ? 1024 : 1;
		const struct turn busy = { .size = size,
					   .status = STATUS_REFUSED,
					   .rejected = true,
					   .greeting = cases[i / 2].greeting,
					   .refusal = REFUSAL_RESOURCES,
					   .lacking = cases[i / 2].lacking };
		const struct turn enough = { size, .later = true, .status = STATUS_LOCAL_FAILURE };
		struct turn turns[5] = { PASSES(1) }, *next = turns + cases[i / 2].verified;

		*next++ = busy;
		if (patient) {
			*next = busy;
			next++->later = true;
			*next++ = enough;
		}
		memset(next, 0, sizeof(*next));
		start(cases[i / 2].iwarp, turns);
		path.options.timeout_seconds = patient ? 10 : 0;
		play(patient ? STATUS_LOCAL_FAILURE : STATUS_REFUSED);
		expect("server", "status", "failed");
	}
}

/* What a server tells of itself, in its hello and by its address, where packets have `own` bytes.
 */
TEST(a_server_whose_mtu_differs_is_reported_with_both)
{
	static const struct {
		bool iwarp;
		unsigned int own;
		enum ibv_mtu mtu;
		const char *gid, *device, *text, *advice;
	} cases[] = {
		{ false, MTU, IBV_MTU_4096, "::1", "rdma0",
		  ", device rdma0, GID ::1, MTU of its port 4096 bytes", NULL },
		{ false, MTU, IBV_MTU_256, "", "", ", MTU of its port 256 bytes",
		  "is 4096 bytes here and 256 there: set it the same on both hosts and between "
		  "('ip link set ... mtu'), or packets above 256 bytes" },
		{ false, 256, IBV_MTU_4096, "", "", ", MTU of its port 4096 bytes",
		  "is 256 bytes here and 4096 there: set it the same on both hosts and between "
		  "('ip link set ... mtu'), or packets above 256 bytes" },
		{ false, MTU, (enum ibv_mtu)0, "", "", "", NULL },
		{ false, MTU, (enum ibv_mtu)6, "", "", "", NULL },
		{ false, 0, IBV_MTU_256, "", "", ", MTU of its port 256 bytes", NULL },
		{ true, MTU, IBV_MTU_256, "", "x", ", device x", NULL },
	};
	static const struct turn turns[] = { PASSES(1), { .absent = true } };

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct turn script[2] = { turns[0], turns[1] };
		char text[128];

		script[1].size = cases[i].own > 1024 ? 1024 : cases[i].own ? 255 : 65536;
		start(cases[i].iwarp, script);
		path.check.mtu = cases[i].own;
		path.mtu = cases[i].mtu;
		path.device = cases[i].device;
		snprintf(path.check.gid, sizeof(path.check.gid), "%s", cases[i].gid);
		assert_int_equal(check_server(&path.check, run, NULL), STATUS_LOCAL_FAILURE);
		snprintf(text, sizeof(text), "peer: rdma-server read%s", cases[i].text);
		assert_string_equal(found("server", "text"), text);
		expect("server", "status", "ok");
		expect("server", "device", *cases[i].device ? cases[i].device : NULL);
		expect("server", "advice", cases[i].advice);
	}
}

/* ---- All of it ---- */

/* Ends it with `status`, and prints that to nobody: the findings, where found() looks for them. */
static void finish(enum status status)
{
	struct json_object *findings = json_object_get(path.check.findings);
	int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
	bool failed;

	assert_int_equal(console_open(&path.console, nobody, nobody), 0);
	assert_int_equal(check_finish(&path.check, status), status);
	assert_int_equal(console_drain(&path.console, 10000, -1), DRAINED_ALL);
	assert_int_equal(console_close(&path.console, &failed), 0);
	close(nobody);
	assert_null(path.check.findings);
	path.check.findings = findings;
}

TEST(counters_that_grew_during_all_sessions_are_reported)
{
	static const struct turn turns[] = {
		PASSES(1), PASSES(1024), { MTU - 1, .absent = true }, { 0 }
	};
	static const struct {
		bool before, after;   /* the port has counters */
		uint64_t first, last; /* by how much two of them grow in each session */
		const char *status, *text;
	} cases[] = {
		{ true, true, 0, 0, "ok", "no errors counted by this host's device meanwhile" },
		{ true, true, 0, 3, "failed", "VL15_dropped 6" },
		{ true, true, 1, 2, "failed", "duplicate_request 2, VL15_dropped 4" },
		{ false, true, 3, 0, NULL, NULL },
		{ true, false, 3, 0, NULL, NULL },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct json_object *all;

		start(false, turns);
		for (unsigned int session = 0; session < 3; session++) {
			path.counters[session].any =
				session == 0 ? cases[i].before : cases[i].after;
			path.counters[session].values[0] = session * cases[i].first;
			path.counters[session].values[ERROR_COUNTERS - 1] =
				session * cases[i].last;
		}
		path.counters[1].any &= cases[i].before;
		play(STATUS_LOCAL_FAILURE);
		finish(STATUS_LOCAL_FAILURE);
		assert_int_equal(json_object_object_get_ex(path.check.findings, "counters", &all),
				 cases[i].text != NULL);
		if (cases[i].text) {
			assert_string_equal(found("counters", "text"), cases[i].text);
			expect("counters", "status", cases[i].status);
		}
	}
}

/* A connection manager that finds a route by an iWARP device to each address. */
static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IWARP };
static struct ibv_context verbs = { .device = &device };
static struct ibv_sa_path_rec route = { .mtu = IBV_MTU_4096 };
static struct rdma_cm_id identifier = { .verbs = &verbs };

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space space)
{
	(void)channel, (void)context, (void)space;
	*id = &identifier;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		      int milliseconds)
{
	(void)source, (void)milliseconds;
	id->route.addr.src_addr.sa_family = address->sa_family;
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int milliseconds)
{
	(void)milliseconds;
	id->route.path_rec = &route;
	id->route.num_paths = 1;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	(void)context;
	return NULL;
}

/*
 * Errors that are counted while nobody answers at one address say nothing of the next one; nor does
 * its mode.
 */
TEST(the_next_address_is_examined_anew)
{
	static const struct turn turns[] = { RESET(1),
					     { 1, .other = true, .status = STATUS_TIMED_OUT },
					     { 1, .other = true, .status = STATUS_REFUSED,
					       .rejected = true },
					     PASSES(1),
					     PASSES(1024),
					     { MTU + 1, .absent = true },
					     { 0 } };
	static const struct turn refused[] = { REFUSED(1, REFUSAL_LENGTH, 0), { 0 } };
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct addrinfo next = { .ai_family = AF_INET,
				 .ai_addr = (struct sockaddr *)&address,
				 .ai_addrlen = sizeof(address) };

	start(true, turns);
	path.check.untried = &next;
	for (int i = 0; i < 4; i++)
		path.counters[i] = (struct counters){ .any = true, .values = { i > 1 ? 2 : 0 } };
	play(STATUS_LOCAL_FAILURE);
	assert_null(path.check.untried);
	finish(STATUS_LOCAL_FAILURE);
	expect("counters", "status", "ok");
	/* unless a server of this project answered */
	start(true, refused);
	path.check.untried = &next;
	play(STATUS_REFUSED);
	assert_ptr_equal(path.check.untried, &next);
}

TEST(the_first_failure_decides_how_it_ends_but_for_a_signal)
{
	static const struct {
		struct turn turns[4];
		int signal_number;
		const char *failure; /* of the process */
		enum status status;
		const char *number, *error;
	} cases[] = {
		/* clang-format off */
		{ { SILENT(1, POSTED, REMOTE_MR) }, 0, "", STATUS_TIMED_OUT, "5", "cause 5" },
		{ { SILENT(1, POSTED, REMOTE_MR) }, 15, "", STATUS_INTERRUPTED, "143", "cause 5" },
		{ { { 1, .absent = true } }, 0, "no memory", STATUS_LOCAL_FAILURE, "1", "no memory" },
		/* whether the server was still there could not be asked */
		{ { NEITHER, { 1, .absent = true } }, 0, "", LOST, "6", "cause 6" },
		/* when all was verified but for what comes next */
		{ { PASSES(1), { 1024, .absent = true } }, 2, "", STATUS_INTERRUPTED, "130", NULL },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct json_object *value;

		start(false, cases[i].turns);
		path.process.signal_number = cases[i].signal_number;
		snprintf(path.process.failure.cause, CAUSE_SIZE, "%s", cases[i].failure);
		play(cases[i].status);
		finish(cases[i].status);
		json_object_object_get_ex(path.check.findings, "status", &value);
		assert_string_equal(json_object_get_string(value), cases[i].number);
		assert_true(json_object_object_get_ex(path.check.findings, "error", &value));
		assert_string_equal(json_object_get_string(value),
				    cases[i].error ? cases[i].error
						   : status_in_words(cases[i].status));
	}
}

RUN_TESTS(NULL, NULL, NULL)
