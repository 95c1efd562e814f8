// SPDX-License-Identifier: MIT
/*
 * What --check with PORT concludes from its sessions, and which it runs next. How each of them ends
 * is scripted: no server is needed.
 */

#include <fnmatch.h>
#include <json-c/json.h>

#include "rdma-common/check/check.h"

#include "unit.h"

#define MTU 4096

/* ---- Sessions that are scripted ---- */

/* What a session measures. Bits of a set. */
enum measured {
	NOTHING = 0,
	TO_SERVER = 1,
	TO_CLIENT = 2,
	LATENCY = 4
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
	enum measured measured;
	uint64_t to_server, to_client; /* bit/s that come of that, in half a second */
	uint64_t errors_there;
	uint16_t port; /* TCP's; 0: it is not known */
};

/* clang-format off */
#define ENDS(bytes, how, ours, theirs) { (bytes), .status = (how), .connected = true, .local = (ours), .remote = (theirs) }
#define PASSES(bytes) ENDS(bytes, STATUS_SUCCESS, LOCAL_VERDICT_SENT, REMOTE_VERDICT)
#define SILENT(bytes, ours, theirs) ENDS(bytes, STATUS_TIMED_OUT, ours, theirs)
#define ABSENT(bytes) { (bytes), .absent = true }
/* The same size to the server, and one byte back. */
#define NARROWED(bytes, how, ours, theirs) \
	{ (bytes), .short_reply = true, .status = (how), .connected = true, .local = (ours), .remote = (theirs) }
/* No connection came about; by a server that says why; by one that does not. */
#define FAILS(bytes, how) { (bytes), .status = (how) }
#define REFUSED(bytes, why) { (bytes), .status = STATUS_REFUSED, .rejected = true, .greeting = GREETING_HELLO, .refusal = (why) }
#define RESET(bytes) { (bytes), .status = STATUS_REFUSED, .rejected = true }
/* A second of WRITEs in a direction, and a byte in the other; and READs of 8 bytes. */
#define GOES(bytes, direction, speed) \
	{ (bytes), .short_reply = (direction) == TO_SERVER, .other = (direction) != LATENCY, .connected = true, \
	  .local = LOCAL_VERDICT_SENT, .remote = REMOTE_VERDICT, .measured = (direction), .to_server = (speed), .to_client = (speed) }
#define RATES(there, back) GOES(65536, TO_SERVER, there), GOES(1, TO_CLIENT, back)
#define READS GOES(8, LATENCY, 0)
/* After silence: one byte each way passes. */
#define THERE ENDS(1, STATUS_SUCCESS, LOCAL_IDLE, REMOTE_SILENT)
/* One of several at once, by a port: measured each way, or not. */
#define MEASURED(number, there, back) \
	{ 65536, .other = true, .connected = true, .measured = TO_SERVER | TO_CLIENT, .to_server = (there), .to_client = (back), .port = (number) }
#define FAILED(number, how) \
	{ 65536, .other = true, .status = (how), .connected = true, .measured = TO_SERVER | TO_CLIENT, .to_server = 1, .to_client = 1, .port = (number) }
#define VERIFIED(number, how) { 65536, .status = (how), .connected = true, .port = (number) }
#define LATER(number) { 65536, .later = true, .connected = true, .port = (number) }
/* clang-format on */

/* What a path is like. Bits of a set. */
enum kind {
	OVER_ROCE = 0,
	OVER_IWARP = 1,
	WRITES = 2,  /* the server does, not READs */
	UNKNOWN = 4, /* the length of packets is, so that three sizes are tried */
	RATED = 8,   /* the same, then it is measured for 2 s each way */
	OVER_INFINIBAND = 16,
	OVER_ROCE_V1 = 32,
};

/* A path with packets of MTU bytes, examined with --json. */
static struct {
	struct options options;
	struct console console;
	struct process process;
	struct check check;
	const struct turn *turns;
	struct counters counters[4]; /* before a session is one of them, after it the next */
	const char *device;          /* of the server, */
	enum ibv_mtu mtu;
	unsigned int reads;
	int64_t exchange; /* milliseconds of a session that measures no rate */
} path;

static struct addrinfo ipv4_address = { .ai_family = AF_INET };

/* The least rate and the time are for what is measured: a size is tried once, however slowly. */
static void start(unsigned int kind, const struct turn *turns)
{
	json_object_put(path.check.findings.all); /* of the last one, if any */
	memset(&path, 0, sizeof(path));
	path.options = default_options(ROLE_CLIENT);
	path.options.address = "host";
	path.options.check = true;
	path.options.json = true;
	path.options.minimum_rate = path.options.duration_seconds = 1;
	console_init(&path.console, path.options.json);
	process_init(&path.process, &path.console);
	check_init(&path.check, &path.options, &path.process);
	path.options.minimum_rate = 0;
	path.options.duration_seconds = kind & RATED ? 2 : 0;
	path.options.operation = kind & WRITES ? OPERATION_WRITE : OPERATION_READ;
	path.check.probe.session.operation = path.options.operation;
	path.check.path.mtu = kind & (UNKNOWN | RATED) ? 0 : MTU;
	path.check.path.iwarp = kind & OVER_IWARP;
	path.check.path.infiniband = kind & OVER_INFINIBAND;
	path.check.path.roce_v1 = kind & OVER_ROCE_V1;
	path.check.path.address = &ipv4_address;
	path.turns = turns;
	path.device = "";
	path.reads = 1000;
	path.exchange = 10;
}

/* A session has to be one that measures this, or none: of a byte nothing is wanted. */
static void assert_measures(const struct probe *probe, enum measured measured)
{
	const struct options *session = &probe->session;
	unsigned int seconds = path.options.duration_seconds;

	assert_int_equal(probe->parameters.measured, measured != NOTHING);
	assert_int_equal(session->duration_seconds, measured & TO_SERVER ? seconds : 0);
	assert_int_equal(probe->parameters.back_seconds, measured & TO_CLIENT ? seconds : 0);
	assert_int_equal(session->iterations, measured == LATENCY ? path.reads : 0);
	assert_int_equal(session->busy_poll, measured == LATENCY);
	assert_int_equal(session->depth, measured == LATENCY ? 1 : path.options.depth);
	assert_int_equal(session->minimum_rate, 0);
}

/* It has taken half a second until what was sent had arrived, though it completed at once. */
static void measure(struct connection *connection, const struct turn *turn)
{
	static struct latency latency;

	connection->figures = (struct figures){ .started = 1000, .completed = 2000 };
	connection->figures.bytes = turn->measured & TO_SERVER ? turn->to_server / 2 / 8 : 1;
	connection->peer_verdict.length = turn->measured & TO_CLIENT ? turn->to_client / 2 / 8 : 1;
	connection->verdict_time = 1000 + 500000000;
	if (turn->measured == NOTHING)
		connection->verdict_time = 1000 + path.exchange * 1000000;
	if (turn->measured != LATENCY)
		return;
	memset(&latency, 0, sizeof(latency));
	for (int i = 1; i <= 1000; i++)
		latency_count(&latency, i < 900 ? 2000 : 64000);
	connection->figures.latency = &latency;
}

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IWARP };
static struct ibv_context verbs = { .device = &device };

static void run_one(struct probe *probe)
{
	const struct turn *turn = path.turns++;
	struct rdma_cm_id id = { .verbs = turn->port ? &verbs : NULL };
	struct counting counting = { .before = path.counters[0], .after = path.counters[1] };
	struct connection connection = {
		.status = turn->status,
		.protocol = { .connected = turn->connected,
			      .verifying = true,
			      .local = turn->local,
			      .remote = turn->remote,
			      .verdict = turn->verdict },
		.rejected = turn->rejected,
		.rejection = { turn->greeting, { .refusal = (uint8_t)turn->refusal } },
		.agreement.peer.mtu = (uint8_t)path.mtu,
		.peer.text = "peer",
		.peer_verdict.errors = turn->errors_there,
		.counting = &counting,
		.id = &id,
	};

	assert_int_equal(probe->session.pattern_size, turn->size);
	assert_int_equal(probe->parameters.short_reply, turn->short_reply);
	assert_int_equal(probe->session.operation != path.options.operation, turn->other);
	assert_int_equal(probe->start > now_milliseconds(), turn->later);
	assert_measures(probe, turn->measured);
	if (turn->absent)
		return;
	id.route.addr.src_sin = (struct sockaddr_in){ AF_INET, .sin_port = htons(turn->port) };
	measure(&connection, turn);
	memmove(path.counters, path.counters + 1, 3 * sizeof(path.counters[0]));
	snprintf(connection.agreement.peer.device, HELLO_DEVICE_SIZE, "%s", path.device);
	snprintf(connection.cause, sizeof(connection.cause), "cause %d", turn->status);
	probe_take(probe, &connection);
	probe->reached |= turn->connected || turn->greeting != GREETING_NONE;
}

static void run(struct probe *probe, UNUSED void *argument)
{
	for (unsigned int i = 0; i < probe->session.connections; i++)
		run_one(probe);
}

/* Runs all that the script has, prints that to nobody, and keeps the findings. How it ended. */
static void play(enum status expected)
{
	int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct json_object *findings = json_object_get(path.check.findings.all);
	bool failed;

	assert_int_equal(probe_server(&path.check.probe, run, NULL), expected);
	assert_int_equal(path.turns->size, 0);
	assert_int_equal(console_open(&path.console, nobody, nobody), 0);
	assert_int_equal(check_finish(&path.check, expected), expected);
	assert_true(console_drain(&path.console, 10000, -1));
	assert_int_equal(console_close(&path.console, &failed), 0);
	close(nobody);
	assert_null(path.check.findings.all);
	path.check.findings.all = findings;
}

/* What is found by a name; NULL: it is not there, or null. */
static const char *value_of(struct json_object *object, const char *key)
{
	return json_object_get_string(json_object_object_get(object, key));
}

static struct json_object *findings_of(const char *step)
{
	return json_object_object_get(path.check.findings.all, step);
}

/* All of a step, each as "status: text", with " -> advice" if there is any, and " | " between. */
static void expect(const char *step, const char *pattern)
{
	struct json_object *all = findings_of(step);
	char text[8192] = "", *end = text;

	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *one = json_object_array_get_idx(all, i);
		const char *advice = value_of(one, "advice");

		end += sprintf(end, "%s%s: %s%s%s", i ? " | " : "", value_of(one, "status"),
			       value_of(one, "text"), advice ? " -> " : "", advice ? advice : "");
	}
	if (fnmatch(pattern, text, 0) != 0)
		fail_msg("'%s' is not '%s'", text, pattern);
}

/* What the last one has by another name, as it is printed; NULL: null. */
static void expect_key(const char *step, const char *key, const char *expected)
{
	struct json_object *all = findings_of(step);
	size_t count = json_object_array_length(all);
	const char *value = value_of(json_object_array_get_idx(all, count - 1), key);

	if (value != expected && (!value || !expected || strcmp(value, expected) != 0))
		fail_msg("%s is '%s', not '%s'", key, value, expected);
}

/* A script, how it ends, and what is found in a step, as expect() has it. */
struct example {
	unsigned int kind;
	struct turn turns[11];
	enum status status;
	const char *found;
	uint64_t minimum_rate;
	double link;
	bool is_software;
	unsigned int connections; /* 0: one */
};

#define EXAMINE(step, examples) examine(step, examples, ENTRIES(examples))

static void examine(const char *step, const struct example *examples, size_t count)
{
	for (const struct example *example = examples; example < examples + count; example++) {
		start(example->kind, example->turns);
		path.options.minimum_rate = example->minimum_rate;
		path.options.connections = example->connections ? example->connections : 1;
		path.check.path.link_rate = example->link;
		path.check.path.is_software = example->is_software;
		play(example->status);
		expect(step, example->found);
	}
}

/* ---- What they show ---- */

#define GOOD    STATUS_SUCCESS
#define LOST    STATUS_PEER_LOST
#define SILENCE STATUS_TIMED_OUT
#define REFUSAL STATUS_REFUSED
#define BROKEN  STATUS_LOCAL_FAILURE
#define STOPPED STATUS_INTERRUPTED
#define POSTED  LOCAL_OPERATION_POSTED
#define DONE    LOCAL_OPERATION_COMPLETED

/* clang-format off */
/* What passes before it is of interest, and what is found when all has. */
#define UP_TO_1024     PASSES(1), PASSES(1024)
#define UP_TO_A_PACKET UP_TO_1024, PASSES(MTU - 1), PASSES(MTU)
#define SIZES          PASSES(1), PASSES(65536), PASSES(1048576)
#define ALL_VERIFIED   "*ok: 1048576 bytes: client to server verified, server to client verified"

TEST(every_size_is_tried_around_the_length_of_a_packet)
{
	static const struct example examples[] = {
		{ OVER_ROCE, { UP_TO_A_PACKET, PASSES(MTU + 1), PASSES(65536), PASSES(1048576) }, GOOD, .found = ALL_VERIFIED },
		{ OVER_IWARP, { UP_TO_1024, PASSES(MTU + 1), PASSES(65536), PASSES(1048576) }, GOOD, .found = ALL_VERIFIED },
		{ OVER_ROCE | UNKNOWN, { SIZES }, GOOD, .found = ALL_VERIFIED },
		{ OVER_IWARP | UNKNOWN, { SIZES }, GOOD, .found = ALL_VERIFIED },
	};

	EXAMINE("transfer", examples);
	expect_key("transfer", "bytes", "1048576");
	expect_key("transfer", "client_to_server", "verified");
	expect_key("transfer", "server_to_client", "verified");
}

#define ENDED(to_server, to_client, why) "*failed: * byte*: client to server " to_server ", server to client " to_client ": cause " why
#define VANISH(from, to, above, at) \
	" -> packets above " above " bytes vanish from " from " to " to ", at " at " at the latest: a host or switch on the path " \
	"has a smaller MTU than the adapters use, 4096 bytes and headers; set it the same everywhere ('ip link set ... mtu', " \
	"and the ports of switches; 'ping -M do -s 4128' from both hosts tries it)"
#define GONE(why) \
	" -> not even 1 byte passes any more (cause " why "): the server has ended, or the path to it is down; see to that, and begin again"
#define MANY \
	" -> packets of every size pass, but not so many of them from client to server: look at the counters, at flow control " \
	"(PFC, ECN), and at cables and switches"
#define NO_BYTE(what) " -> not a byte passes in one direction at least, though the connection stands: " what
#define OF_THE_SUBNET \
	" -> though the connection stands, packets are lost in one direction at least: look at the path that the subnet manager has made, " \
	"at its MTU, and at the counters of its links ('ibdiagnet', 'ibtracert', 'perfquery')"
#define ONE_AT_LEAST " -> packets above 1 bytes vanish in one direction at least, at 1024 at the latest: *"

/* Of two sizes neither direction of the second is seen to arrive, or one is; then the server is asked for a byte. */
#define NEITHER PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_MR)
#define ONE     PASSES(1), ENDS(1024, LOST, POSTED, REMOTE_DONE)

/* How a size ends that does not pass in both directions, and what is concluded from that. */
TEST(a_size_that_does_not_pass_is_explained)
{
	static const struct example examples[] = {
		/* one direction arrived: it is the other */
		{ WRITES, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("arrived", "failed", "5") VANISH("server", "client", "1024", "4095") },
		{ WRITES, { UP_TO_1024, SILENT(MTU - 1, POSTED, REMOTE_DONE), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") VANISH("client", "server", "1024", "4095") },
		{ OVER_ROCE, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") VANISH("client", "server", "1024", "4095") },
		{ OVER_ROCE, { UP_TO_1024, SILENT(MTU - 1, POSTED, REMOTE_DONE), THERE }, SILENCE,
		  .found = ENDED("arrived", "failed", "5") VANISH("server", "client", "1024", "4095") },
		/* none did: another session tells */
		{ WRITES, { NEITHER, THERE, NARROWED(1024, GOOD, DONE, REMOTE_VERDICT) }, LOST,
		  .found = ENDED("verified", "failed", "6") " -> packets above 1 bytes vanish from server to client, at 1024 *" },
		{ WRITES, { NEITHER, THERE, NARROWED(1024, SILENCE, DONE, REMOTE_MR) }, LOST,
		  .found = ENDED("arrived", "not known", "6") ONE_AT_LEAST },
		/* RoCE v1 has a header of 40 bytes in place of IPv4's and UDP's */
		{ OVER_ROCE_V1, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") " -> packets above 1024 bytes vanish *'ping -M do -s 4140'*" },
		/* over iWARP its completion says only that TCP has it */
		{ WRITES | OVER_IWARP, { NEITHER, THERE, NARROWED(1024, SILENCE, DONE, REMOTE_MR) }, LOST,
		  .found = ENDED("failed", "not known", "6") " -> *'ping -M do -s 1024'*" },
		{ WRITES, { NEITHER, THERE, NARROWED(1024, SILENCE, POSTED, REMOTE_MR) }, LOST,
		  .found = ENDED("failed", "not known", "6") " -> packets above 1 bytes vanish from client to server, *" },
		{ WRITES, { NEITHER, THERE, NARROWED(1024, REFUSAL, POSTED, REMOTE_MR) }, LOST,
		  .found = ENDED("not known", "not known", "6") ONE_AT_LEAST },
		{ WRITES, { NEITHER, THERE, NARROWED(1024, STOPPED, POSTED, REMOTE_MR) }, STOPPED,
		  .found = ENDED("not known", "not known", "9") },
		{ WRITES, { NEITHER, THERE, { 1024, .short_reply = true, .status = SILENCE } }, LOST,
		  .found = ENDED("not known", "not known", "6") },
		{ WRITES, { NEITHER, THERE, { 1024, .short_reply = true, .absent = true } }, LOST,
		  .found = ENDED("not known", "not known", "6") },
		/* a server that refuses is there */
		{ WRITES, { PASSES(1), SILENT(1024, DONE, REMOTE_MR), REFUSED(1, REFUSAL_LENGTH) }, SILENCE,
		  .found = ENDED("arrived", "failed", "5") " -> packets above 1 bytes vanish from server to client, *" },
		/* of one that is gone no size is blamed, even if one direction arrived */
		{ OVER_ROCE, { NEITHER, FAILS(1, REFUSAL) }, LOST, .found = ENDED("not known", "not known", "6") GONE("4") },
		{ OVER_ROCE, { ONE, FAILS(1, REFUSAL) }, LOST, .found = ENDED("arrived", "not known", "6") GONE("4") },
		{ OVER_ROCE, { ONE, FAILS(1, LOST) }, LOST, .found = ENDED("arrived", "not known", "6") GONE("6") },
		{ OVER_ROCE, { ONE, FAILS(1, SILENCE) }, LOST, .found = ENDED("arrived", "not known", "6") GONE("5") },
		{ OVER_ROCE, { ONE, FAILS(1, STATUS_UNRESOLVED) }, LOST, .found = ENDED("arrived", "not known", "6") GONE("3") },
		/* what this host could not do says nothing of the server */
		{ OVER_ROCE, { ONE, FAILS(1, BROKEN) }, LOST, .found = ENDED("arrived", "not known", "6") },
		{ OVER_ROCE, { ONE, FAILS(1, STOPPED) }, STOPPED, .found = ENDED("arrived", "not known", "9") },
		{ OVER_ROCE, { ONE, ABSENT(1) }, LOST, .found = ENDED("arrived", "not known", "6") },
		/* what to change depends on what had passed */
		{ OVER_ROCE, { SILENT(1, POSTED, REMOTE_MR) }, SILENCE, .found = ENDED("not known", "not known", "5") NO_BYTE("let the firewalls pass UDP port 4791 whatever the other port is") },
		{ OVER_ROCE_V1, { SILENT(1, POSTED, REMOTE_MR) }, SILENCE,
		  .found = ENDED("not known", "not known", "5") NO_BYTE("let switches and bridges pass RoCE v1 (Ethernet type 0x8915)") },
		{ OVER_IWARP, { SILENT(1, POSTED, REMOTE_MR) }, SILENCE, .found = ENDED("not known", "not known", "5") NO_BYTE("let the firewalls pass the TCP port whatever the other port is") },
		{ OVER_INFINIBAND, { SILENT(1, POSTED, REMOTE_MR) }, SILENCE, .found = ENDED("not known", "not known", "5") OF_THE_SUBNET },
		{ OVER_INFINIBAND, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") " -> though the connection stands, packets are lost from client to server: *" },
		/* a packet of 4096 bytes was verified: 4097 travel as that, and one byte */
		{ OVER_ROCE, { UP_TO_1024, PASSES(MTU - 1), SILENT(MTU, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") VANISH("client", "server", "4095", "4096") },
		{ OVER_ROCE, { UP_TO_A_PACKET, SILENT(MTU + 1, DONE, REMOTE_MR), THERE }, SILENCE, .found = ENDED("failed", "arrived", "5") MANY },
		{ OVER_ROCE, { UP_TO_A_PACKET, PASSES(MTU + 1), SILENT(65536, DONE, REMOTE_MR), THERE }, SILENCE,
		  .found = ENDED("failed", "arrived", "5") MANY },
		/* all has arrived: packets are not to blame */
		{ OVER_ROCE, { UP_TO_1024, SILENT(MTU - 1, DONE, REMOTE_DONE), THERE }, SILENCE, .found = ENDED("arrived", "arrived", "5") },
		/* no silence, but contents that are wrong, in one direction */
		{ OVER_ROCE, { PASSES(1), { 1024, .status = STATUS_CONTENTS_WRONG, .connected = true, .local = LOCAL_VERDICT_SENT,
					    .remote = REMOTE_VERDICT, .verdict = STATUS_CONTENTS_WRONG } }, STATUS_CONTENTS_WRONG,
		  .found = ENDED("arrived", "verified", "7") },
	};

	EXAMINE("transfer", examples);
	expect_key("transfer", "bytes", "1024");
	expect_key("transfer", "client_to_server", "arrived");
	expect_key("transfer", "server_to_client", "verified");
}

#define AT_1_BYTE     "failed: peer: with 1 byte: cause "
#define AT(size)      "ok: * | failed: peer: with " size " bytes: cause "
#define ONE_OFF       " -> the server took a session, and no other behind it: start it without --one-off"
#define ROCE_SILENT   " -> is the server running, and not stopped? Else open UDP port 4791 *"
#define ROCE_V1_SILENT \
	" -> check that the server runs and is not stopped, that the address belongs to its RDMA device, and that no router is on the path: " \
	"RoCE v1 (Ethernet type 0x8915) passes none"
#define ENDED_SINCE   " -> it took sessions before: the server has ended or stands still, or the path to it is down; *"
#define IWARP_SILENT  " -> the host answers, but not this TCP port: *"

/* No session came about: what is reported of the server. */
TEST(a_connection_that_is_refused_is_explained)
{
	static const struct example examples[] = {
		{ OVER_ROCE, { FAILS(1, SILENCE) }, SILENCE, .found = AT_1_BYTE "5" ROCE_SILENT },
		{ OVER_ROCE, { FAILS(1, LOST) }, LOST, .found = AT_1_BYTE "6" ROCE_SILENT },
		{ OVER_ROCE_V1, { FAILS(1, SILENCE) }, SILENCE, .found = AT_1_BYTE "5" ROCE_V1_SILENT },
		{ OVER_IWARP, { FAILS(1, SILENCE) }, SILENCE, .found = AT_1_BYTE "5" IWARP_SILENT },
		{ OVER_INFINIBAND, { FAILS(1, SILENCE) }, SILENCE, .found = AT_1_BYTE "5 -> the RDMA connection manager there does not answer: *" },
		{ OVER_ROCE, { FAILS(1, REFUSAL) }, REFUSAL, .found = AT_1_BYTE "4" },
		{ OVER_IWARP, { FAILS(1, BROKEN) }, BROKEN, .found = AT_1_BYTE "1" },
		{ OVER_ROCE, { PASSES(1), FAILS(1024, SILENCE) }, SILENCE, .found = AT("1024") "5" ONE_OFF },
		{ OVER_IWARP, { PASSES(1), FAILS(1024, REFUSAL) }, REFUSAL, .found = AT("1024") "4" ONE_OFF },
		{ OVER_ROCE, { PASSES(1), FAILS(1024, BROKEN) }, BROKEN, .found = AT("1024") "1" },
		{ OVER_ROCE, { UP_TO_1024, FAILS(MTU - 1, REFUSAL) }, REFUSAL, .found = AT("4095") "4" },
		{ OVER_IWARP, { UP_TO_1024, FAILS(MTU + 1, LOST) }, LOST, .found = AT("4097") "6" ENDED_SINCE },
		/* the mode of the server is taken from its rejection, once; and tried out where that gives no reason */
		{ OVER_ROCE, { REFUSED(1, REFUSAL_OPERATION), { 1, .other = true, .status = REFUSAL, .rejected = true, .greeting = GREETING_HELLO,
								   .refusal = REFUSAL_OPERATION } }, REFUSAL, .found = AT_1_BYTE "4" },
		{ OVER_ROCE, { RESET(1), { 1, .other = true, .status = REFUSAL, .rejected = true } }, REFUSAL, .found = AT_1_BYTE "4" },
		{ OVER_ROCE, { PASSES(1), RESET(1024) }, REFUSAL, .found = AT("1024") "4" ONE_OFF },
		/* what the server refuses is not repeated */
		{ OVER_ROCE, { PASSES(1), REFUSED(1024, REFUSAL_LENGTH) }, REFUSAL, .found = AT("1024") "4" },
		{ OVER_ROCE, { PASSES(1), REFUSED(1024, (enum refusal)200) }, REFUSAL, .found = AT("1024") "4" },
		{ OVER_ROCE, { PASSES(1), { 1024, .status = REFUSAL, .rejected = true, .greeting = GREETING_VERSION } }, REFUSAL, .found = AT("1024") "4" },
		/* unless it may accept soon: of these it is out in a moment as well */
		{ OVER_ROCE, { REFUSED(1, REFUSAL_MEMORY) }, REFUSAL, .found = AT_1_BYTE "4" },
		{ OVER_ROCE, { REFUSED(1, REFUSAL_STORAGE) }, REFUSAL, .found = AT_1_BYTE "4" },
		{ OVER_ROCE, { PASSES(1), REFUSED(1024, REFUSAL_STORAGE) }, REFUSAL, .found = AT("1024") "4" },
		{ OVER_ROCE, { PASSES(1), REFUSED(1024, REFUSAL_SETUP) }, REFUSAL, .found = AT("1024") "4" },
	};

	EXAMINE("server", examples);
}
/* clang-format on */

/* A session ends a little later there than here. Over iWARP the reason may be lost. */
TEST(a_busy_server_is_asked_again_until_the_time_is_up)
{
	static const struct turn busy[] = {
		REFUSED(1, REFUSAL_SESSIONS),
		REFUSED(1024, REFUSAL_SESSIONS),
		REFUSED(1024, REFUSAL_MEMORY),
		RESET(1024),
	};

	for (size_t i = 0; i < ENTRIES(busy); i++) {
		unsigned int kind = busy[i].greeting == GREETING_NONE ? OVER_IWARP : OVER_ROCE;
		struct turn turns[] = {
			PASSES(1), busy[i], busy[i], FAILS(busy[i].size, BROKEN), { 0 }
		};
		const struct turn *first = busy[i].size == 1 ? turns + 1 : turns;

		turns[2].later = turns[3].later = true;
		start(kind, first);
		play(BROKEN);
		expect("server", "*failed: *: cause 1");
		turns[2].size = 0;
		start(kind, first);
		path.options.timeout_seconds = 0;
		play(REFUSAL);
		expect("server", "*failed: *: cause 4*");
	}
}

#define DIFFERS(here, there)                                                                     \
	" -> the MTU is " here " bytes here and " there " there: set it the same on both hosts " \
	"and between ('ip link set ... mtu'), or packets above " there " bytes may vanish"

/* What a server tells of itself in its hello and by its address; packets have `own` bytes. */
TEST(a_server_whose_mtu_differs_is_reported_with_both)
{
	static const struct {
		unsigned int kind;
		unsigned int own;
		enum ibv_mtu mtu;
		const char *gid, *device, *found;
		uint64_t next; /* size that is tried */
	} cases[] = {
		/* clang-format off */
		{ OVER_ROCE, MTU, IBV_MTU_4096, "::1", "rdma0", ", device rdma0, GID ::1, MTU of its port 4096 bytes", 1024 },
		{ OVER_ROCE, MTU, IBV_MTU_256, "", "", ", MTU of its port 256 bytes" DIFFERS("4096", "256"), 1024 },
		{ OVER_ROCE, 256, IBV_MTU_4096, "", "", ", MTU of its port 4096 bytes", 255 },
		{ OVER_ROCE, MTU, (enum ibv_mtu)0, "", "", "", 1024 },
		{ OVER_ROCE, MTU, (enum ibv_mtu)6, "", "", "", 1024 },
		{ OVER_ROCE, 0, IBV_MTU_256, "", "", ", MTU of its port 256 bytes", 65536 },
		{ OVER_IWARP, MTU, IBV_MTU_256, "", "x", ", device x", 1024 },
		{ OVER_INFINIBAND, 2048, IBV_MTU_4096, "fe80::1", "", ", GID fe80::1", 1024 },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct turn turns[] = { PASSES(1), ABSENT(cases[i].next), { 0 } };
		char pattern[512];

		start(cases[i].kind, turns);
		path.check.path.mtu = cases[i].own;
		path.mtu = cases[i].mtu;
		path.device = cases[i].device;
		snprintf(path.check.path.gid, sizeof(path.check.path.gid), "%s", cases[i].gid);
		play(BROKEN);
		snprintf(pattern, sizeof(pattern), "ok: peer: rdma-server read%s", cases[i].found);
		expect("server", pattern);
		expect_key("server", "device", *cases[i].device ? cases[i].device : NULL);
	}
}

/* ---- Rates ---- */

#define SLOW(factor)                                                                               \
	" is " factor " times as slow as the other way, measured twice: look at the queue of the " \
	"host that sends ('tc qdisc'), at the counters, *"
#define BELOW(direction)                         \
	"slower than --min-rate from " direction \
	": 0.199 Gbit/s instead of 0.2; the contents are right"
#define BOTH(to_server, to_client) \
	"client to server " to_server " Gbit/s, server to client " to_client " Gbit/s"

/* Numbers in Mbit/s. */
#define M *1000000ULL

/* clang-format off */
TEST(each_direction_is_measured_and_once_more_before_one_is_called_slow)
{
	static const struct example examples[] = {
		{ RATED, { SIZES, RATES(300 M, 300 M), READS }, GOOD, .found = "ok: " BOTH("0.300", "0.300") },
		{ RATED, { SIZES, RATES(299 M, 100 M), READS }, GOOD, .found = "ok: " BOTH("0.299", "0.100") },
		/* twice is said; once is not, and the second look counts */
		{ RATED, { SIZES, RATES(300 M, 100 M), RATES(400 M, 100 M), READS }, GOOD,
		  .found = "failed: " BOTH("0.400", "0.100") " -> server to client" SLOW("4.0") },
		{ RATED, { SIZES, RATES(100 M, 300 M), RATES(100 M, 350 M), READS }, GOOD,
		  .found = "failed: " BOTH("0.100", "0.350") " -> client to server" SLOW("3.5") },
		{ RATED, { SIZES, RATES(300 M, 100 M), RATES(250 M, 100 M), READS }, GOOD, .found = "ok: " BOTH("0.250", "0.100") },
		{ RATED, { SIZES, RATES(100 M, 0), RATES(100 M, 0), READS }, GOOD,
		  .found = "failed: " BOTH("0.100", "0.000") " -> server to client is *" },
		{ RATED, { SIZES, RATES(0, 0), READS }, GOOD, .found = "ok: " BOTH("0.000", "0.000") },
		/* so is a rate below the least that is wanted, of either direction */
		{ RATED, { SIZES, RATES(200 M, 200 M), READS }, GOOD, .found = "ok: " BOTH("0.200", "0.200"), .minimum_rate = 200 M },
		{ RATED, { SIZES, RATES(199 M, 200 M), RATES(200 M, 200 M), READS }, GOOD, .found = "ok: " BOTH("0.200", "0.200"), .minimum_rate = 200 M },
		{ RATED, { SIZES, RATES(199 M, 200 M), RATES(199 M, 200 M), READS }, STATUS_TOO_SLOW,
		  .found = "failed: " BOTH("0.199", "0.200") "; " BELOW("client to server"), .minimum_rate = 200 M },
		{ RATED, { SIZES, RATES(200 M, 199 M), RATES(200 M, 199 M), READS }, STATUS_TOO_SLOW,
		  .found = "failed: " BOTH("0.200", "0.199") "; " BELOW("server to client"), .minimum_rate = 200 M },
		/* there may be no link, or one whose rate is not known */
		{ RATED, { SIZES, RATES(300 M, 300 M), READS }, GOOD, .found = "ok: " BOTH("0.300", "0.300") "; the device is software, without a link's rate",
		  .is_software = true },
		{ RATED, { SIZES, RATES(90000 M, 93000 M), READS }, GOOD,
		  .found = "ok: client to server 90.000 Gbit/s (90 % of the link's 100), server to client 93.000 Gbit/s (93 % of the link's 100)", .link = 1e11 },
	};

	EXAMINE("rate", examples);
	expect_key("rate", "client_to_server_bits_per_second", "9e+10");
	expect_key("rate", "server_to_client_bits_per_second", "9.3e+10");
	expect_key("rate", "link_bits_per_second", "1e+11");
	examine("rate", examples, 1);
	expect_key("rate", "link_bits_per_second", NULL);
}

TEST(a_session_that_measures_and_fails_is_how_it_ends)
{
	static const struct example examples[] = {
		{ RATED, { SIZES, { 65536, .short_reply = true, .other = true, .measured = TO_SERVER, .status = LOST, .connected = true } }, LOST,
		  .found = "failed: not measured: cause 6" },
		{ RATED, { SIZES, GOES(65536, TO_SERVER, 1), { 1, .other = true, .measured = TO_CLIENT, .status = LOST } }, LOST,
		  .found = "failed: not measured: cause 6" },
		{ RATED, { SIZES, RATES(1, 1), { 8, .measured = LATENCY, .status = LOST } }, LOST, .found = "failed: not measured: cause 6" },
		/* and of more weight than a rate too low before it, with which the contents are right */
		{ RATED, { SIZES, RATES(199 M, 200 M), RATES(199 M, 200 M), { 8, .measured = LATENCY, .status = LOST } }, LOST,
		  .found = "failed: not measured: cause 6", .minimum_rate = 200 M },
	};

	examine("rate", examples, 2);
	examine("latency", examples + 2, 2);
}
/* clang-format on */

/* Of fewer where an exchange takes long. */
TEST(latency_is_that_of_reads_of_8_bytes)
{
	static const struct {
		int64_t exchange;
		unsigned int reads;
	} cases[] = { { 0, 1000 }, { 10, 1000 }, { 11, 909 }, { 999, 10 }, { 5000, 10 } };
	static const struct turn turns[] = { SIZES, RATES(1 M, 1 M), READS, { 0 } };

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start(RATED, turns);
		path.exchange = cases[i].exchange;
		path.reads = cases[i].reads;
		play(GOOD);
		expect("latency",
		       "ok: a READ of 8 bytes takes 2.00 us (median), 64.00 us (99th percentile of 1000)");
		expect_key("latency", "p50_us", "2.004"); /* as near as its buckets are */
		expect_key("latency", "p99_us", "64");
	}
}

TEST(nothing_is_measured_without_a_duration)
{
	static const struct turn turns[] = { SIZES, { 0 } };

	start(RATED, turns);
	path.options.duration_seconds = 0;
	play(GOOD);
	expect("rate", "");
	expect("latency", "");
}

/* clang-format off */
#define PORT(number) "source port " number ": "
#define SEVERAL_PATHS \
	"where several paths lead to the server, switches choose one by this port (ECMP): look at the links and switches of that"
#define SLOWER " -> half of the others, or more, are three times as fast; " SEVERAL_PATHS

TEST(of_several_at_once_those_that_fail_or_are_slow_are_named_by_their_ports)
{
	static const struct example examples[] = {
		{ RATED, { SIZES, RATES(1 M, 1 M), READS,
			   MEASURED(5, 300 M, 300 M), MEASURED(6, 101 M, 104 M), MEASURED(7, 290 M, 310 M), MEASURED(8, 900 M, 900 M) }, GOOD,
		  .found = "ok: " PORT("5") "* | ok: " PORT("6") BOTH("0.101", "0.104") " | ok: " PORT("7") "* | ok: " PORT("8") "*", .connections = 4 },
		{ RATED, { SIZES, RATES(1 M, 1 M), READS, MEASURED(5, 300 M, 300 M), MEASURED(6, 96 M, 300 M), MEASURED(7, 290 M, 310 M) }, GOOD,
		  .found = "ok: " PORT("5") "* | failed: " PORT("6") BOTH("0.096", "0.300") SLOWER " | ok: " PORT("7") "*", .connections = 3 },
		{ RATED, { SIZES, RATES(1 M, 1 M), READS, MEASURED(5, 300 M, 300 M), MEASURED(6, 300 M, 99 M) }, GOOD,
		  .found = "ok: " PORT("5") "* | failed: " PORT("6") BOTH("0.300", "0.099") SLOWER, .connections = 2 },
		/* of what has failed there is no rate */
		{ RATED, { SIZES, RATES(1 M, 1 M), READS,
			   MEASURED(5, 300 M, 300 M), FAILED(6, LOST), FAILED(7, SILENCE), MEASURED(8, 99 M, 99 M) }, LOST,
		  .found = "ok: " PORT("5") "* | failed: " PORT("6") "cause 6 -> " SEVERAL_PATHS " | failed: " PORT("7") "cause 5 -> * | failed: " PORT("8") "*",
		  .connections = 4 },
		/* nor without measuring */
		{ UNKNOWN, { SIZES, VERIFIED(5, GOOD), VERIFIED(6, BROKEN) }, BROKEN,
		  .found = "ok: " PORT("5") "verified in both directions | failed: " PORT("6") "cause 1", .connections = 2 },
		{ UNKNOWN, { SIZES, VERIFIED(5, GOOD), VERIFIED(0, GOOD) }, GOOD,
		  .found = "ok: * | ok: source port not known: verified in both directions", .connections = 2 },
		/* a server that is busy is asked again, with all of them */
		{ UNKNOWN, { SIZES, REFUSED(65536, REFUSAL_SESSIONS), VERIFIED(6, GOOD), LATER(5), LATER(6) }, GOOD,
		  .found = "ok: " PORT("5") "* | ok: " PORT("6") "*", .connections = 2 },
	};

	EXAMINE("path", examples);
	expect_key("path", "source_port", "6");
}
/* clang-format on */

/* ---- All of it ---- */

#define NO_ERRORS "ok: no errors counted by this host's device"

/* What both ports have counted in all sessions; the server's are summed, and only printed. */
TEST(errors_are_counted_here_and_there)
{
	static const struct {
		bool before, after;   /* the port has counters */
		uint64_t first, last; /* by how much two of them grow in each session */
		uint64_t waits;
		uint64_t there[2]; /* one more than there are; 0: it does not say */
		const char *found, *sum;
	} cases[] = {
		/* clang-format off */
		{ 1, 1, 0, 0, 0, { 0, 0 }, NO_ERRORS " meanwhile", NULL },
		{ 1, 1, 0, 3, 0, { 0, 0 }, "failed: VL15_dropped 6", NULL },
		{ 1, 1, 1, 2, 0, { 0, 0 }, "failed: duplicate_request 2, VL15_dropped 4", NULL },
		{ 0, 1, 3, 0, 0, { 0, 0 }, "", NULL },
		{ 1, 0, 3, 0, 0, { 0, 0 }, "", NULL },
		{ 1, 1, 0, 0, 0, { 1, 1 }, NO_ERRORS ", nor by the server's, meanwhile", "0" },
		{ 1, 1, 0, 0, 5, { 1, 1 }, NO_ERRORS ", nor by the server's, meanwhile; tx_pause_frames 5", "0" },
		{ 1, 1, 0, 0, 5, { 0, 0 }, NO_ERRORS " meanwhile; tx_pause_frames 5", NULL },
		{ 1, 1, 2, 0, 0, { 101, 21 }, "failed: errors counted: 4 here, 120 there; duplicate_request 4", "120" },
		{ 1, 1, 0, 0, 0, { 0, 121 }, "failed: errors counted: 0 here, 120 there", "120" },
		{ 1, 1, 2, 0, 0, { 1, 0 }, "failed: errors counted: 4 here, 0 there; duplicate_request 4", "0" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct turn turns[] = { PASSES(1), PASSES(1024), ABSENT(MTU - 1), { 0 } };

		turns[0].errors_there = cases[i].there[0];
		turns[1].errors_there = cases[i].there[1];
		start(OVER_ROCE, turns);
		for (unsigned int session = 0; session < 3; session++) {
			path.counters[session].any = session ? cases[i].after : cases[i].before;
			path.counters[session].values[0] = session * cases[i].first;
			path.counters[session].values[ERROR_COUNTERS - 1] = session * cases[i].last;
		}
		path.counters[1].any &= cases[i].before;
		path.counters[2].values[ERROR_COUNTERS + 2] = cases[i].waits;
		play(BROKEN);
		expect("counters", cases[i].found);
		if (*cases[i].found)
			expect_key("counters", "errors_counted_by_peer", cases[i].sum);
	}
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
		{ { SILENT(1, POSTED, REMOTE_MR) }, 0, "", SILENCE, "5", "cause 5" },
		{ { SILENT(1, POSTED, REMOTE_MR) }, 15, "", STOPPED, "143", "cause 5" },
		{ { ABSENT(1) }, 0, "no memory", BROKEN, "1", "no memory" },
		/* whether the server was still there could not be asked */
		{ { NEITHER, ABSENT(1) }, 0, "", LOST, "6", "cause 6" },
		/* when all was verified but for what comes next */
		{ { PASSES(1), ABSENT(1024) }, 2, "", STOPPED, "130", "interrupted before the session was complete" },
		/* clang-format on */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start(OVER_ROCE, cases[i].turns);
		path.process.signal_number = cases[i].signal_number;
		snprintf(path.process.failure, CAUSE_SIZE, "%s", cases[i].failure);
		play(cases[i].status);
		assert_string_equal(value_of(path.check.findings.all, "status"), cases[i].number);
		assert_string_equal(value_of(path.check.findings.all, "error"), cases[i].error);
	}
}

/* A connection manager that finds a route by that device to each address. */
static struct ibv_sa_path_rec route = { .mtu = IBV_MTU_4096 };
static struct rdma_cm_id identifier = { .verbs = &verbs,
					.route = { .path_rec = &route, .num_paths = 1 } };

int rdma_create_id(UNUSED struct rdma_event_channel *channel, struct rdma_cm_id **id,
		   UNUSED void *context, UNUSED enum rdma_port_space space)
{
	*id = &identifier;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, UNUSED struct sockaddr *source,
		      struct sockaddr *address, UNUSED int milliseconds)
{
	id->route.addr.src_addr.sa_family = address->sa_family;
	return 0;
}

int rdma_resolve_route(UNUSED struct rdma_cm_id *id, UNUSED int milliseconds)
{
	return 0;
}

int rdma_destroy_id(UNUSED struct rdma_cm_id *id)
{
	return 0;
}

struct ibv_pd *ibv_alloc_pd(UNUSED struct ibv_context *context)
{
	return NULL;
}

/* Errors counted while nobody answers at one address say nothing of the next; nor does its mode. */
TEST(the_next_address_is_examined_anew)
{
	static const struct turn turns[] = { RESET(1),
					     { 1, .other = true, .status = SILENCE },
					     { 1, .other = true, .status = REFUSAL,
					       .rejected = true },
					     UP_TO_1024,
					     ABSENT(MTU + 1),
					     { 0 } };
	static const struct turn refused[] = { REFUSED(1, REFUSAL_LENGTH), { 0 } };
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct addrinfo next = { .ai_addr = (struct sockaddr *)&address };

	start(OVER_INFINIBAND, turns);
	path.check.path.untried = &next;
	for (int i = 0; i < 4; i++)
		path.counters[i] = (struct counters){ .any = true, .values = { i > 1 ? 2 : 0 } };
	play(BROKEN);
	assert_null(path.check.path.untried);
	assert_false(path.check.path.infiniband); /* the next one is iWARP's */
	expect("counters", "ok: *");
	/* unless a server of this project answered */
	start(OVER_IWARP, refused);
	path.check.path.untried = &next;
	play(REFUSAL);
	assert_ptr_equal(path.check.path.untried, &next);
}

RUN_TESTS(NULL, NULL)
