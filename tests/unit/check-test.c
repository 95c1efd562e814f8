// SPDX-License-Identifier: MIT
/*
 * What --check with PORT concludes from its sessions, and which it runs next. How each of them ends
 * is scripted: no server is needed.
 */

#include <json-c/json.h>

#include "rdma-common/check.h"

#include "unit.h"

#define MTU 4096

/* ---- Sessions that are scripted ---- */

/* What a session measures. */
enum measured {
	NOTHING,
	TO_SERVER,
	TO_CLIENT,
	LATENCY
};

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
	enum measured measured;
	uint64_t rate; /* bit/s that come of that, in a second */
	uint64_t errors_there;
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
/* A second of WRITEs in a direction, and a byte in the other; and READs of 8 bytes. */
#define GOES(bytes, direction, speed) \
	{ (bytes), .short_reply = (direction) == TO_SERVER, .other = (direction) != LATENCY, .connected = true, \
	  .local = LOCAL_VERDICT_SENT, .remote = REMOTE_VERDICT, .measured = (direction), .rate = (speed) }
#define RATES(there, back) GOES(65536, TO_SERVER, there), GOES(1, TO_CLIENT, back)
#define READS GOES(8, LATENCY, 0)
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
	bool measures;    /* the server can */
	unsigned int reads;
	int64_t exchange; /* milliseconds of a session that measures no rate */
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

/* A session has to be one that measures this, or none. */
static void assert_measures(const struct options *session, enum measured measured)
{
	unsigned int seconds = path.options.duration_seconds;

	assert_int_equal(session->measured, measured != NOTHING);
	assert_int_equal(session->duration_seconds, measured == TO_SERVER ? seconds : 0);
	assert_int_equal(session->iterations, measured == LATENCY ? path.reads : 0);
	assert_int_equal(session->back_seconds, measured == TO_CLIENT ? seconds : 0);
	assert_int_equal(session->busy_poll, measured == LATENCY);
	assert_int_equal(session->depth, measured == LATENCY ? 1 : path.options.depth);
	assert_int_equal(session->minimum_rate, 0); /* of a byte nothing is wanted */
}

/* It has taken half a second until what was sent had arrived, though it completed at once. */
static void measure(struct check *check, const struct turn *turn)
{
	struct connection *outcome = &check->outcome;
	uint64_t bytes = turn->rate / 2 / 8;

	outcome->figures.started = 1000;
	outcome->figures.completed = 2000;
	outcome->figures.bytes = turn->measured == TO_SERVER ? bytes : 1;
	outcome->peer_verdict.length = turn->measured == TO_CLIENT ? bytes : 1;
	outcome->peer_verdict.errors = turn->errors_there;
	outcome->verdict_time = 1000 + 500000000;
	if (turn->measured == NOTHING)
		outcome->verdict_time = 1000 + path.exchange * 1000000;
	if (turn->measured != LATENCY)
		return;
	for (int i = 1; i <= 1000; i++)
		latency_count(&check->latency, i < 900 ? 2000 : 64000);
}

static void run(struct check *check, __attribute__((unused)) void *argument)
{
	const struct turn *turn = path.turns++;
	struct connection *outcome = &check->outcome;
	struct counting counting;
	struct rdma_cm_id id = { .verbs = NULL };

	assert_int_equal(check->session.pattern_size, turn->size);
	assert_int_equal(check->session.short_reply, turn->short_reply);
	assert_int_equal(check->session.operation != path.operation, turn->other);
	assert_int_equal(check->start > now_milliseconds(), turn->later);
	assert_measures(&check->session, turn->measured);
	if (turn->absent)
		return;
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
	outcome->agreement.peer.flags = path.measures ? HELLO_CHECK_RATE : 0;
	measure(check, turn);
	outcome->agreement.peer.mtu = (uint8_t)path.mtu;
	counting = (struct counting){ .before = path.counters[0], .after = path.counters[1] };
	outcome->counting = &counting;
	memmove(path.counters, path.counters + 1, 3 * sizeof(path.counters[0]));
	snprintf(outcome->agreement.peer.device, sizeof(outcome->agreement.peer.device), "%s",
		 path.device);
	snprintf(outcome->peer.text, sizeof(outcome->peer.text), "peer");
	snprintf(outcome->cause, sizeof(outcome->cause), "cause %d", turn->status);
	outcome->id = &id;
	check_take(check, outcome);
	check->reached |= turn->connected || turn->greeting != GREETING_NONE;
}

/* Runs all that the script has; how it ended. */
static void play(enum status expected)
{
	assert_int_equal(check_server(&path.check, run, NULL), expected);
	assert_int_equal(path.turns->size, 0);
}

/* How many findings a step has. */
static size_t count_found(const char *step)
{
	struct json_object *all;

	assert_true(json_object_object_get_ex(path.check.findings, step, &all));
	return json_object_array_length(all);
}

/* A text of one of them. */
static const char *found_at(const char *step, size_t number, const char *key)
{
	struct json_object *all, *value;

	assert_true(number < count_found(step));
	json_object_object_get_ex(path.check.findings, step, &all);
	all = json_object_array_get_idx(all, number);
	assert_true(json_object_object_get_ex(all, key, &value));
	return json_object_get_string(value);
}

/* Of the last one. */
static const char *found(const char *step, const char *key)
{
	return found_at(step, count_found(step) - 1, key);
}

/* A number of it; null is 0. */
static double found_number(const char *step, const char *key)
{
	const char *text = found(step, key);

	return text ? strtod(text, NULL) : 0;
}

/* It contains that; NULL: there is none. */
static void expect_at(const char *step, size_t number, const char *key, const char *words)
{
	const char *text = found_at(step, number, key);

	if (words && (!text || !strstr(text, words)))
		fail_msg("'%s' is not in '%s'", words, text ? text : "null");
	if (!words && text)
		fail_msg("not null: '%s'", text);
}

static void expect(const char *step, const char *key, const char *words)
{
	expect_at(step, count_found(step) - 1, key, words);
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

/* ---- Rates ---- */

/* A path whose packets nobody knows the length of, so that three sizes are tried; then for 2 s. */
#define SIZES PASSES(1), PASSES(65536), PASSES(1048576)

static void start_measuring(const struct turn *turns)
{
	start(false, turns);
	path.check.mtu = 0;
	path.measures = true;
	path.reads = 1000;
	path.exchange = 10;
	path.options.duration_seconds = 2;
}

#define SLOW(factor)                                                                               \
	" is " factor " times as slow as the other way, measured twice: look at the queue of the " \
	"host that sends ('tc qdisc'), at the counters"

/* Numbers in Mbit/s. */
#define M *1000000ULL

TEST(each_direction_is_measured_and_once_more_before_one_is_called_slow)
{
	static const struct {
		struct turn turns[10];
		uint64_t wanted; /* --min-rate */
		double link;
		bool software;
		enum status status;
		const char *text, *advice, *cause;
		double to_server, to_client;
	} cases[] = {
		/* clang-format off */
		{ { SIZES, RATES(1000 M, 900 M), READS }, 0, 0, true, STATUS_SUCCESS, "client to server 1.000 Gbit/s, server to client 0.900 Gbit/s; the device is software, without a link's rate", NULL, NULL, 1000 M, 900 M },
		{ { SIZES, RATES(90000 M, 93000 M), READS }, 0, 1e11, false, STATUS_SUCCESS, "client to server 90.000 Gbit/s (90 % of the link's 100), server to client 93.000 Gbit/s (93 % of the link's 100)", NULL, NULL, 90000 M, 93000 M },
		/* there is an adapter, but its link's rate is not known */
		{ { SIZES, RATES(300 M, 300 M), READS }, 0, 0, false, STATUS_SUCCESS, "client to server 0.300 Gbit/s, server to client 0.300 Gbit/s", NULL, NULL, 300 M, 300 M },
		{ { SIZES, RATES(299 M, 100 M), READS }, 0, 0, false, STATUS_SUCCESS, "0.299", NULL, NULL, 299 M, 100 M },
		/* twice is said; once is not, and the second look counts */
		{ { SIZES, RATES(300 M, 100 M), RATES(400 M, 100 M), READS }, 0, 0, false, STATUS_SUCCESS, "0.400", "server to client" SLOW("4.0"), NULL, 400 M, 100 M },
		{ { SIZES, RATES(100 M, 300 M), RATES(100 M, 350 M), READS }, 0, 0, false, STATUS_SUCCESS, "0.350", "client to server" SLOW("3.5"), NULL, 100 M, 350 M },
		{ { SIZES, RATES(300 M, 100 M), RATES(250 M, 100 M), READS }, 0, 0, false, STATUS_SUCCESS, "0.250", NULL, NULL, 250 M, 100 M },
		{ { SIZES, RATES(100 M, 0), RATES(100 M, 0), READS }, 0, 0, false, STATUS_SUCCESS, "0.000", "server to client is ", NULL, 100 M, 0 },
		{ { SIZES, RATES(0, 0), READS }, 0, 0, false, STATUS_SUCCESS, "0.000", NULL, NULL, 0, 0 },
		/* so is a rate below the least that is wanted, of either direction */
		{ { SIZES, RATES(200 M, 200 M), READS }, 200 M, 0, false, STATUS_SUCCESS, "0.200", NULL, NULL, 200 M, 200 M },
		{ { SIZES, RATES(199 M, 200 M), RATES(200 M, 200 M), READS }, 200 M, 0, false, STATUS_SUCCESS, "0.200", NULL, NULL, 200 M, 200 M },
		{ { SIZES, RATES(199 M, 200 M), RATES(199 M, 200 M), READS }, 200 M, 0, false, STATUS_TOO_SLOW, "0.199", NULL, "slower than --min-rate from client to server: 0.199 Gbit/s instead of 0.2; the contents are right", 199 M, 200 M },
		{ { SIZES, RATES(200 M, 199 M), RATES(200 M, 199 M), READS }, 200 M, 0, false, STATUS_TOO_SLOW, "0.199", NULL, "slower than --min-rate from server to client: 0.199 Gbit/s instead of 0.2; the contents are right", 200 M, 199 M },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start_measuring(cases[i].turns);
		path.options.minimum_rate = cases[i].wanted;
		path.check.link_rate = cases[i].link;
		path.check.is_software = cases[i].software;
		play(cases[i].status);
		expect("rate", "status", cases[i].advice || cases[i].cause ? "failed" : "ok");
		expect("rate", "text", cases[i].text);
		expect("rate", "advice", cases[i].advice);
		if (cases[i].cause)
			assert_string_equal(path.check.failure.cause, cases[i].cause);
		assert_true(found_number("rate", "client_to_server_bits_per_second") ==
			    cases[i].to_server);
		assert_true(found_number("rate", "server_to_client_bits_per_second") ==
			    cases[i].to_client);
		assert_true(found_number("rate", "link_bits_per_second") == cases[i].link);
		expect("latency", "status", "ok");
	}
}

/* Of the options of --check, which are for what is measured. */
TEST(a_size_is_tried_once_and_however_slow_it_is)
{
	struct options options = default_options(ROLE_CLIENT);
	struct check check;

	options.minimum_rate = 1;
	options.duration_seconds = 1;
	check_init(&check, &options, &path.process);
	assert_true(check.session.minimum_rate == 0);
	assert_int_equal(check.session.duration_seconds, 0);
	json_object_put(check.findings);
}

/* Of fewer where an exchange takes long. */
TEST(latency_is_that_of_reads_of_8_bytes)
{
	static const struct {
		int64_t exchange;
		unsigned int reads;
	} cases[] = { { 0, 1000 }, { 10, 1000 }, { 11, 909 }, { 999, 10 }, { 5000, 10 } };
	static const struct turn turns[] = { SIZES, RATES(1 M, 1 M), READS, { 0 } };

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start_measuring(turns);
		path.exchange = cases[i].exchange;
		path.reads = cases[i].reads;
		play(STATUS_SUCCESS);
		expect("latency", "text",
		       "a READ of 8 bytes takes 2.00 us (median), 64.00 us (99th percentile of 1000)");
		/* as near as its buckets are */
		assert_float_equal(found_number("latency", "p50_us"), 2, 2.0 / 128);
		assert_float_equal(found_number("latency", "p99_us"), 64, 64.0 / 128);
	}
}

TEST(a_session_that_measures_and_fails_is_how_it_ends)
{
	static const struct {
		struct turn turns[8];
		const char *step;
	} cases[] = {
		/* clang-format off */
		{ { SIZES, { 65536, .short_reply = true, .other = true, .measured = TO_SERVER, .status = STATUS_PEER_LOST, .connected = true } }, "rate" },
		{ { SIZES, GOES(65536, TO_SERVER, 1), { 1, .other = true, .measured = TO_CLIENT, .status = STATUS_PEER_LOST } }, "rate" },
		{ { SIZES, RATES(1, 1), { 8, .measured = LATENCY, .status = STATUS_PEER_LOST } }, "latency" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start_measuring(cases[i].turns);
		play(STATUS_PEER_LOST);
		expect(cases[i].step, "status", "failed");
		expect(cases[i].step, "text", "not measured: cause 6");
	}
}

TEST(nothing_is_measured_where_nobody_wants_it_or_the_server_cannot)
{
	static const struct turn turns[] = { SIZES, { 0 } };
	struct json_object *all;

	start_measuring(turns);
	path.measures = false;
	play(STATUS_SUCCESS);
	expect("rate", "status", "ok");
	expect("rate", "text", "not measured: the server is of an older release, which cannot");
	start_measuring(turns);
	path.options.duration_seconds = 0;
	play(STATUS_SUCCESS);
	assert_false(json_object_object_get_ex(path.check.findings, "rate", &all));
	assert_false(json_object_object_get_ex(path.check.findings, "latency", &all));
}

/* ---- Several at once ---- */

/* How those end that run at once, each by a TCP port. */
struct member {
	uint16_t port;
	uint64_t to_server, to_client; /* bit/s */
	enum status status;
	bool busy; /* the server is; in the first attempt alone */
};

#define GOOD(port, to_server, to_client)                                \
	{                                                               \
		(port), (to_server), (to_client), STATUS_SUCCESS, false \
	}
/* It would be slow, too, if it counted. */
#define FAILED(port, how)                      \
	{                                      \
		(port), 1 M, 1 M, (how), false \
	}

static struct {
	const struct member *members;
	unsigned int count, attempts;
} crowd;

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IWARP };
static struct ibv_context verbs = { .device = &device };

/* What else is run goes by its turn. */
static void run_several(struct check *check, void *argument)
{
	const struct options *session = &check->session;

	if (session->connections == 1) {
		run(check, argument);
		return;
	}
	assert_int_equal(session->connections, crowd.count);
	assert_int_equal(session->pattern_size, 65536);
	assert_int_equal(session->depth, path.options.depth);
	assert_int_equal(session->duration_seconds, path.options.duration_seconds);
	assert_int_equal(session->back_seconds, path.options.duration_seconds);
	assert_true(path.options.duration_seconds == 0 || session->operation == OPERATION_WRITE);
	crowd.attempts++;
	for (const struct member *one = crowd.members; one < crowd.members + crowd.count; one++) {
		struct sockaddr_in address = { .sin_family = AF_INET,
					       .sin_port = htons(one->port) };
		struct rdma_cm_id id = { .verbs = &verbs };
		bool busy = one->busy && crowd.attempts == 1;
		struct connection connection = {
			.id = &id,
			.status = busy ? STATUS_REFUSED : one->status,
			.rejected = busy,
			.rejection = { .greeting = GREETING_HELLO,
				       .hello = { .refusal = REFUSAL_RESOURCES,
						  .lacking = RESOURCE_SESSION } },
			.protocol.connected = !busy,
			.figures = { .started = 1000, .bytes = one->to_server / 8 },
			.peer_verdict.length = one->to_client / 8,
			.verdict_time = 1000 + 1000000000,
		};

		memcpy(&id.route.addr.src_addr, &address, sizeof(address));
		snprintf(connection.cause, sizeof(connection.cause), "cause %d", connection.status);
		check_take(check, &connection);
	}
}

TEST(of_several_at_once_those_that_fail_or_are_slow_are_named_by_their_ports)
{
	static const struct turn turns[] = { SIZES, RATES(1 M, 1 M), READS, { 0 } };
	static const struct turn sizes[] = { SIZES, { 0 } };
	static const struct {
		struct member members[4];
		unsigned int count, seconds, attempts;
		enum status status;
		size_t bad;
		const char *text, *advice; /* of the second one, if any is not good */
	} cases[] = {
		/* clang-format off */
		{ { GOOD(5, 300 M, 300 M), GOOD(6, 101 M, 104 M), GOOD(7, 290 M, 310 M), GOOD(8, 900 M, 900 M) }, 4, 2, 1, STATUS_SUCCESS, 0, NULL, NULL },
		{ { GOOD(5, 300 M, 300 M), GOOD(6, 96 M, 300 M), GOOD(7, 290 M, 310 M) }, 3, 2, 1, STATUS_SUCCESS, 1,
		  "source port 6: client to server 0.096 Gbit/s, server to client 0.300 Gbit/s", "half of the others, or more, are three times as fast; where several paths" },
		{ { GOOD(5, 300 M, 300 M), GOOD(6, 300 M, 99 M) }, 2, 2, 1, STATUS_SUCCESS, 1,
		  "source port 6: client to server 0.300 Gbit/s, server to client 0.099 Gbit/s", "half of the others, or more, are three times as fast; where several paths" },
		/* of what has failed there is no rate */
		{ { GOOD(5, 300 M, 300 M), FAILED(6, LOST), FAILED(7, TIME_OUT), GOOD(8, 99 M, 99 M) }, 4, 2, 1, LOST, 3, "source port 6: cause 6", "where several paths" },
		{ { GOOD(5, 0, 0), FAILED(6, STATUS_LOCAL_FAILURE) }, 2, 0, 1, STATUS_LOCAL_FAILURE, 1, "source port 6: cause 1", NULL },
		{ { GOOD(5, 0, 0), GOOD(6, 0, 0) }, 2, 0, 1, STATUS_SUCCESS, 0, NULL, NULL },
		/* a server that is busy is asked again, with all of them */
		{ { { 5, 300 M, 300 M, STATUS_SUCCESS, true }, GOOD(6, 300 M, 300 M) }, 2, 2, 2, STATUS_SUCCESS, 0, NULL, NULL },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		size_t bad = 0;

		start_measuring(cases[i].seconds > 0 ? turns : sizes);
		path.options.duration_seconds = cases[i].seconds;
		path.options.connections = cases[i].count;
		crowd.members = cases[i].members;
		crowd.count = cases[i].count;
		crowd.attempts = 0;
		assert_int_equal(check_server(&path.check, run_several, NULL), cases[i].status);
		assert_int_equal(crowd.attempts, cases[i].attempts);
		assert_int_equal(count_found("path"), cases[i].count);
		for (size_t j = 0; j < cases[i].count; j++) {
			assert_int_equal(strtoul(found_at("path", j, "source_port"), NULL, 10),
					 cases[i].members[j].port);
			bad += strcmp(found_at("path", j, "status"), "failed") == 0;
		}
		assert_int_equal(bad, cases[i].bad);
		if (!bad)
			continue;
		assert_string_equal(found_at("path", 1, "text"), cases[i].text);
		expect_at("path", 1, "advice", cases[i].advice);
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
	assert_true(console_drain(&path.console, 10000, -1));
	assert_int_equal(console_close(&path.console, &failed), 0);
	close(nobody);
	assert_null(path.check.findings);
	path.check.findings = findings;
}

/* What both ports have counted in all sessions; the server's are summed, and only printed. */
TEST(errors_are_counted_here_and_there)
{
	static const struct {
		bool before, after;   /* the port has counters */
		uint64_t first, last; /* by how much two of them grow in each session */
		uint64_t waits;
		uint64_t there[2]; /* one more than there are; 0: it does not say */
		const char *status, *text, *sum;
	} cases[] = {
		/* clang-format off */
		{ 1, 1, 0, 0, 0, { 0, 0 }, "ok", "no errors counted by this host's device meanwhile", NULL },
		{ 1, 1, 0, 3, 0, { 0, 0 }, "failed", "VL15_dropped 6", NULL },
		{ 1, 1, 1, 2, 0, { 0, 0 }, "failed", "duplicate_request 2, VL15_dropped 4", NULL },
		{ 0, 1, 3, 0, 0, { 0, 0 }, NULL, NULL, NULL },
		{ 1, 0, 3, 0, 0, { 0, 0 }, NULL, NULL, NULL },
		{ 1, 1, 0, 0, 0, { 1, 1 }, "ok", "no errors counted by this host's device, nor by the server's, meanwhile", "0" },
		{ 1, 1, 0, 0, 5, { 1, 1 }, "ok", "no errors counted by this host's device, nor by the server's, meanwhile; tx_pause_frames 5", "0" },
		{ 1, 1, 0, 0, 5, { 0, 0 }, "ok", "no errors counted by this host's device meanwhile; tx_pause_frames 5", NULL },
		{ 1, 1, 2, 0, 0, { 101, 21 }, "failed", "errors counted: 4 here, 120 there; duplicate_request 4", "120" },
		{ 1, 1, 0, 0, 0, { 0, 121 }, "failed", "errors counted: 0 here, 120 there", "120" },
		{ 1, 1, 2, 0, 0, { 1, 0 }, "failed", "errors counted: 4 here, 0 there; duplicate_request 4", "0" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct turn turns[] = {
			PASSES(1), PASSES(1024), { MTU - 1, .absent = true }, { 0 }
		};
		struct json_object *all;

		turns[0].errors_there = cases[i].there[0];
		turns[1].errors_there = cases[i].there[1];
		start(false, turns);
		for (unsigned int session = 0; session < 3; session++) {
			path.counters[session].any = session ? cases[i].after : cases[i].before;
			path.counters[session].values[0] = session * cases[i].first;
			path.counters[session].values[ERROR_COUNTERS - 1] = session * cases[i].last;
		}
		path.counters[1].any &= cases[i].before;
		path.counters[2].values[COUNTERS - 1] = cases[i].waits;
		play(STATUS_LOCAL_FAILURE);
		finish(STATUS_LOCAL_FAILURE);
		assert_int_equal(json_object_object_get_ex(path.check.findings, "counters", &all),
				 cases[i].text != NULL);
		if (cases[i].text) {
			assert_string_equal(found("counters", "text"), cases[i].text);
			expect("counters", "status", cases[i].status);
			expect("counters", "errors_counted_by_peer", cases[i].sum);
		}
	}
}

/* A connection manager that finds a route by that device to each address. */
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
