// SPDX-License-Identifier: MIT
/*
 * Tests of --check with PORT: its conclusions from the sessions, and its choice of the next
 * session. A script decides how each session ends, so no server is needed.
 */

#include <fnmatch.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <sys/mman.h>

#include "rdma-common/check/check.h"
#include "rdma-common/clock.h"

#include "unit.h"

#define MTU  4096
#define MBIT UINT64_C(1000000) /* bit/s */

/* ---- Scripted sessions ---- */

/* the measurements of a session, as bit flags */
enum measured {
	NOTHING = 0,
	TO_SERVER = 1,
	TO_CLIENT = 2,
	LATENCY = 4
};

/*
 * A session of a script: the parameters that it must have, and how it ends. `size` 0 ends the
 * script.
 */
struct turn {
	uint64_t size;   /* bytes */
	uint32_t wanted; /* bytes that the server sends; 0 means `size` */
	bool later;      /* begins after a pause */
	bool absent;     /* the session cannot start */
	enum status status;
	bool connected;
	bool gave_up; /* this side sent an early bad verdict */
	enum local_stage local;
	enum remote_stage remote;
	enum status verdict; /* the server's verdict */
	bool rejected;
	enum hello_kind hello_kind;
	enum refusal refusal;
	enum measured measured;
	uint64_t to_server, to_client;        /* measured rates in bit/s */
	uint64_t errors_there;                /* the server's errors plus 1. 0 means not counted. */
	uint64_t missing_there, resent_there; /* the server's gaps and retransmissions */
	uint16_t port;                        /* TCP source port, or 0 if it is not known */
	int64_t milliseconds;                 /* duration, for the time limit of a lossy path */
};

/* Return a connected session that ends with status `how` in these stages. */
static struct turn ends(uint64_t size, enum status how, enum local_stage ours,
			enum remote_stage theirs)
{
	return (struct turn){
		.size = size, .status = how, .connected = true, .local = ours, .remote = theirs
	};
}

static struct turn passes(uint64_t size)
{
	return ends(size, STATUS_SUCCESS, LOCAL_VERDICT_SENT, REMOTE_VERDICT);
}

static struct turn silent(uint64_t size, enum local_stage ours, enum remote_stage theirs)
{
	return ends(size, STATUS_TIMED_OUT, ours, theirs);
}

/* Return a session that this side gives up with an early bad verdict. */
static struct turn gives_up(uint64_t size, enum remote_stage theirs)
{
	struct turn turn = silent(size, LOCAL_VERDICT_SENT, theirs);

	turn.gave_up = true;
	return turn;
}

static struct turn absent(uint64_t size)
{
	return (struct turn){ .size = size, .absent = true };
}

/* Return a session in which a size that was verified passes again, after a larger one failed. */
static struct turn still_there(uint64_t size)
{
	return ends(size, STATUS_SUCCESS, LOCAL_IDLE, REMOTE_SILENT);
}

/* Return a session that sends `size` bytes to the server, for an answer of one byte. */
static struct turn narrowed(uint64_t size, enum status how, enum local_stage ours,
			    enum remote_stage theirs)
{
	struct turn turn = ends(size, how, ours, theirs);

	turn.wanted = 1;
	return turn;
}

/* Return a session that gets no connection. */
static struct turn fails(uint64_t size, enum status how)
{
	return (struct turn){ .size = size, .status = how };
}

/* Return a session that the server rejects without a reason. */
static struct turn refused_silently(uint64_t size)
{
	return (struct turn){ .size = size, .status = STATUS_REFUSED, .rejected = true };
}

static struct turn refused(uint64_t size, enum refusal why)
{
	struct turn turn = refused_silently(size);

	turn.hello_kind = HELLO_CURRENT;
	turn.refusal = why;
	return turn;
}

static struct turn measures(uint64_t size, enum measured measured, enum status how)
{
	return (struct turn){
		.size = size,
		.wanted = measured == TO_SERVER   ? 1
			  : measured == TO_CLIENT ? 65536
						  : 0,
		.status = how,
		.connected = how == STATUS_SUCCESS,
		.measured = measured,
	};
}

/* Return a session that measures `rate`, in Mbit/s, to the server. */
static struct turn to_server(uint64_t rate)
{
	struct turn turn = measures(65536, TO_SERVER, STATUS_SUCCESS);

	turn.to_server = rate * MBIT;
	return turn;
}

static struct turn to_client(uint64_t rate)
{
	struct turn turn = measures(1, TO_CLIENT, STATUS_SUCCESS);

	turn.to_client = rate * MBIT;
	return turn;
}

/* Return a session that measures the latency of READs of 8 bytes. */
static struct turn reads(void)
{
	return measures(8, LATENCY, STATUS_SUCCESS);
}

/* Return one of several simultaneous sessions, with its source port. */
static struct turn port_verified(uint16_t port, enum status how)
{
	return (struct turn){ .size = 65536, .status = how, .connected = true, .port = port };
}

/* Return a successful simultaneous session that begins after a pause. */
static struct turn port_later(uint16_t port)
{
	struct turn turn = port_verified(port, STATUS_SUCCESS);

	turn.later = true;
	return turn;
}

/* Return a simultaneous session that measures `rate` to the server and `back`, in Mbit/s. */
static struct turn port_measured(uint16_t port, uint64_t rate, uint64_t back)
{
	struct turn turn = port_verified(port, STATUS_SUCCESS);

	turn.measured = TO_SERVER | TO_CLIENT;
	turn.to_server = rate * MBIT;
	turn.to_client = back * MBIT;
	return turn;
}

static struct turn port_failed(uint16_t port, enum status how)
{
	struct turn turn = port_measured(port, 1, 1);

	turn.status = how;
	return turn;
}

/* the kind of a path, as bit flags */
enum kind {
	OVER_ROCE = 0,
	OVER_IWARP = 1,
	UNKNOWN = 2, /* the packet length is unknown, so three sizes are tried */
	RATED = 4,   /* like UNKNOWN, then rates are measured for 2 s each way */
	OVER_INFINIBAND = 8,
	OVER_ROCE_V1 = 16,
};

/* Lists of sizes that pass before a script begins; each list ends with 0. */
static const uint64_t no_size[] = { 0 };
static const uint64_t one_byte[] = { 1, 0 };
static const uint64_t up_to_1024[] = { 1, 1024, 0 };
static const uint64_t below_a_packet[] = { 1, 1024, MTU - 1, 0 };
static const uint64_t up_to_a_packet[] = { 1, 1024, MTU - 1, MTU, 0 };
static const uint64_t beyond_a_packet[] = { 1, 1024, MTU - 1, MTU, MTU + 1, 0 };
static const uint64_t all_sizes[] = { 1, 65536, 1048576, 0 }; /* for an unknown packet length */

/* The check under test, with --json, and the script of its sessions. */
static struct {
	struct options options;
	struct console console;
	struct process process;
	struct check check;
	struct turn script[16];
	const struct turn *turns;    /* the rest of the script */
	struct counters counters[4]; /* [0]: before the next session; [1]: after it, and so on */
	const char *row;             /* the expected findings, for failure messages */
	const char *device;          /* the server's device */
	enum ibv_mtu mtu;
	unsigned int reads; /* number of READs that must measure latency */
	int64_t exchange;   /* shortest duration of a session that measures nothing, in ms */
	bool lines;         /* print the last line as text, without --json */
	char printed[256];
} path;

static struct addrinfo ipv4_address = { .ai_family = AF_INET };

/*
 * Start a script: the sizes in `passed` pass, then `turns` follow. check_init() gets --min-rate and
 * --duration, which sessions that test a size must ignore.
 */
static void start(unsigned int kind, const uint64_t *passed, const struct turn *turns)
{
	struct turn *turn;

	json_object_put(path.check.findings.all); /* the previous findings */
	memset(&path, 0, sizeof(path));
	path.options = default_options(ROLE_CLIENT);
	path.options.address = "host";
	path.options.port = "20000";
	path.options.check = true;
	path.options.json = true;
	path.options.minimum_rate = path.options.duration_seconds = 1;
	console_init(&path.console, path.options.json);
	process_init(&path.process, &path.console);
	check_init(&path.check, &path.options, &path.process);
	path.options.minimum_rate = 0;
	path.options.duration_seconds = kind & RATED ? 2 : 0;
	path.check.path.mtu = kind & (UNKNOWN | RATED) ? 0 : MTU;
	path.check.path.iwarp = kind & OVER_IWARP;
	path.check.path.infiniband = kind & OVER_INFINIBAND;
	path.check.path.roce_v1 = kind & OVER_ROCE_V1;
	path.check.path.address = &ipv4_address;
	path.turns = turn = path.script;
	while (*passed)
		*turn++ = passes(*passed++);
	while (turns->size) {
		assert_true(turn + 1 < path.script + ENTRIES(path.script));
		*turn++ = *turns++;
	}
	path.row = path.device = "";
	path.reads = 1000;
	path.exchange = 10;
}

/* Check that the session measures `measured` and nothing else, and has no minimum rate. */
static void assert_measures(const struct probe *probe, enum measured measured)
{
	const struct options *session = &probe->session;
	bool both = measured == (TO_SERVER | TO_CLIENT);
	unsigned int seconds = path.options.duration_seconds;

	if (both && seconds == 0) /* see written() */
		seconds = 1;
	/* rates are those of WRITEs */
	assert_int_equal(session->operation,
			 measured & (TO_SERVER | TO_CLIENT) ? OPERATION_WRITE : OPERATION_READ);
	assert_int_equal(session->duration_seconds, measured & TO_SERVER ? seconds : 0);
	assert_int_equal(session->wanted_seconds, measured & TO_CLIENT ? seconds : 0);
	assert_int_equal(session->iterations, measured == LATENCY ? path.reads : 0);
	assert_int_equal(session->busy_poll, measured == LATENCY);
	assert_int_equal(session->depth, measured == LATENCY ? 1 : path.options.depth);
	assert_int_equal(session->minimum_rate, 0);
}

/*
 * Set the figures of a session. Its requests complete at once. Its verdict arrives half a second
 * after the start, or after a multiple of path.exchange if nothing is measured.
 */
static void set_measurement(struct session *session, const struct turn *turn)
{
	static struct latency latency;
	/* the second of the three sizes takes the shortest time */
	int64_t factor = turn->size == 1 ? 2 : turn->size < 1048576 ? 1 : 3;

	session->measurement = (struct measurement){ .started = 1000, .completed = 2000 };
	session->measurement.bytes = turn->measured & TO_SERVER ? turn->to_server / 2 / 8 : 1;
	session->peer_verdict.length = turn->measured & TO_CLIENT ? turn->to_client / 2 / 8 : 1;
	session->verdict_time = 1000 + 500000000;
	if (turn->measured == NOTHING)
		session->verdict_time += path.exchange * 1000000 * factor - 500000000;
	if (turn->measured != LATENCY)
		return;
	memset(&latency, 0, sizeof(latency));
	for (int i = 1; i <= 1000; i++)
		latency_count(&latency, i < 900 ? 2000 : 64000);
	session->measurement.latency = &latency;
}

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IWARP };
static struct ibv_context verbs = { .device = &device };

static void run_one(struct probe *probe)
{
	const struct turn *turn = path.turns++;
	struct rdma_cm_id id = { .verbs = turn->port ? &verbs : NULL };
	struct session session = {
		.protocol = { .connected = turn->connected,
			      .verifying = true,
			      .gave_up = turn->gave_up,
			      .local = turn->local,
			      .remote = turn->remote,
			      .peer_verdict.status = turn->verdict },
		.transfer = { .source.reported_end = true,
			      .operation.requests_posted = turn->local == LOCAL_OPERATION_POSTED },
		.peer_verdict = { .counted = turn->errors_there > 0,
				  .errors = turn->errors_there - (turn->errors_there > 0),
				  .missing = turn->missing_there,
				  .retransmitted = turn->resent_there },
	};
	struct connection connection = {
		.setup = { .terms.peer = { .version = HELLO_VERSION, .mtu = (uint8_t)path.mtu },
			   .peer.text = "peer",
			   .before = path.counters[0],
			   .id = &id },
		.session = &session,
		.rejected = turn->rejected,
		.rejection = { turn->hello_kind, { .refusal = (uint8_t)turn->refusal } },
		.after = path.counters[1],
	};

	if (probe->session.pattern_size != turn->size)
		fail_msg("'%s': a session of %" PRIu64 " bytes instead of %" PRIu64, path.row,
			 probe->session.pattern_size, turn->size);
	assert_int_equal(probe->session.wanted, turn->wanted ? turn->wanted : turn->size);
	assert_int_equal(probe->start > now_milliseconds(), turn->later);
	assert_measures(probe, turn->measured);
	if (turn->absent)
		return;
	id.route.addr.src_sin = (struct sockaddr_in){ AF_INET, .sin_port = htons(turn->port) };
	set_measurement(&session, turn);
	probe->begun -= turn->milliseconds;
	probe->stop_time -= probe->stop_time < INT64_MAX ? turn->milliseconds : 0;
	memmove(path.counters, path.counters + 1, 3 * sizeof(path.counters[0]));
	snprintf(connection.setup.terms.peer.device, HELLO_DEVICE_SIZE, "%s", path.device);
	failure_set(&connection.outcome, turn->status, "cause %d", turn->status);
	probe_take(probe, &connection);
	probe->reached |= turn->connected || turn->hello_kind != HELLO_ABSENT;
}

static void run(struct probe *probe, UNUSED void *argument)
{
	for (unsigned int i = 0; i < probe->session.connections; i++)
		run_one(probe);
}

/* Run the whole script. Keep the findings and the output, and check the status. */
static void play(enum status expected)
{
	int output = memfd_create("output", MFD_CLOEXEC);
	struct json_object *findings = json_object_get(path.check.findings.all);
	enum status status = probe_server(&path.check.probe, run, NULL);
	bool failed;

	/* lost packets change the status later, in check_finish() */
	if (status != STATUS_SUCCESS || expected != STATUS_TOO_SLOW)
		assert_int_equal(status, expected);
	assert_int_equal(path.turns->size, 0);
	path.options.json = !path.lines;
	assert_int_equal(console_open(&path.console, output, output), 0);
	assert_int_equal(check_finish(&path.check, status), expected);
	assert_true(console_drain(&path.console, 10000, -1));
	assert_int_equal(console_close(&path.console, &failed), 0);
	assert_true(pread(output, path.printed, sizeof(path.printed) - 1, 0) >= 0);
	close(output);
	assert_null(path.check.findings.all);
	path.check.findings.all = findings;
}

/* Return the value of `key` as text, or NULL if it is absent or null. */
static const char *value_of(struct json_object *object, const char *key)
{
	return json_object_get_string(json_object_object_get(object, key));
}

static struct json_object *findings_of(const char *step)
{
	return json_object_object_get(path.check.findings.all, step);
}

/*
 * Check that `pattern` matches the findings of a step: each is "status: text" or "status: text ->
 * advice", joined by " | ".
 */
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

/*
 * Check the text of `key` in the last finding of a step. For NULL, the key must be absent or null.
 */
static void expect_key(const char *step, const char *key, const char *expected)
{
	struct json_object *all = findings_of(step);
	size_t count = json_object_array_length(all);
	const char *value = value_of(json_object_array_get_idx(all, count - 1), key);

	if (value != expected && (!value || !expected || strcmp(value, expected) != 0))
		fail_msg("%s is '%s', not '%s'", key, value, expected);
}

/* Return formatted text that stays valid, so that tables may hold it. */
__attribute__((format(printf, 1, 2))) static const char *text_of(const char *format, ...)
{
	static char texts[1 << 16];
	static size_t used;
	const char *text = texts + used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(texts + used, sizeof(texts) - used, format, arguments);
	va_end(arguments);
	assert_between(length, 0, sizeof(texts) - used - 1);
	used += (size_t)length + 1;
	return text;
}

/* A script, its final status, and the findings of a step, as in expect(). */
struct example {
	unsigned int kind;
	const uint64_t *passed;
	struct turn turns[8]; /* an empty turn ends the list */
	enum status status;
	const char *found;
	uint64_t minimum_rate;
	double link;
	bool is_software;
	unsigned int connections; /* 0 means one */
};

static void examine(const char *step, const struct example *examples, size_t count)
{
	for (const struct example *example = examples; example < examples + count; example++) {
		start(example->kind, example->passed, example->turns);
		path.row = example->found;
		path.options.minimum_rate = example->minimum_rate;
		path.options.connections = example->connections ? example->connections : 1;
		path.check.path.link_rate = example->link;
		path.check.path.is_software = example->is_software;
		play(example->status);
		expect(step, example->found);
	}
}

/* ---- The conclusions ---- */

static const enum status GOOD = STATUS_SUCCESS;
static const enum status LOST = STATUS_PEER_LOST;
static const enum status SILENCE = STATUS_TIMED_OUT;
static const enum status REFUSAL = STATUS_REFUSED;
static const enum status BROKEN = STATUS_LOCAL_FAILURE;
static const enum status STOPPED = STATUS_INTERRUPTED;
static const enum local_stage POSTED = LOCAL_OPERATION_POSTED;
static const enum local_stage DONE = LOCAL_DONE_POSTED;

static const char all_verified[] =
	"*ok: 1048576 bytes: client to server verified, server to client verified";

/* clang-format off */
TEST(tried_sizes_depend_on_the_packet_length_and_the_transport)
{
	const struct example examples[] = {
		{ OVER_ROCE, up_to_a_packet, { passes(MTU + 1), passes(65536), passes(1048576) }, GOOD,
		  .found = all_verified },
		{ OVER_IWARP, up_to_1024, { passes(MTU + 1), passes(65536), passes(1048576) }, GOOD,
		  .found = all_verified },
		{ OVER_ROCE | UNKNOWN, all_sizes, { { 0 } }, GOOD, .found = all_verified },
		{ OVER_IWARP | UNKNOWN, all_sizes, { { 0 } }, GOOD, .found = all_verified },
	};

	examine("transfer", examples, ENTRIES(examples));
	expect_key("transfer", "bytes", "1048576");
	expect_key("transfer", "client_to_server", "verified");
	expect_key("transfer", "server_to_client", "verified");
}

/* clang-format on */

/* Return a pattern for the finding about a size that does not pass. `advice`: "" or " -> ...". */
static const char *ended(const char *to_server, const char *to_client, enum status cause,
			 const char *advice)
{
	return text_of("*failed: * byte*: client to server %s, server to client %s: cause %d%s",
		       to_server, to_client, cause, advice);
}

static const char *vanish(const char *from, const char *to, int above, int at)
{
	return text_of(
		"; large packets vanish from %s to %s: size %d passes, size %d fails "
		"repeatedly -> set the same MTU everywhere ('ip link set ... mtu', and the ports of "
		"switches): a host or switch on the path has a smaller one than the adapters use (4096 "
		"bytes and headers); 'ping -M do -s 4128' from both hosts tests the path",
		from, to, above, at);
}

static const char *server_gone(enum status cause)
{
	return text_of(" -> a session of 1 byte fails now as well (cause %d): check that the "
		       "server still runs and that the path to it is up; then run this again",
		       cause);
}

static const char *not_this_many(unsigned int size)
{
	return text_of("; packets of every size arrive, but not %u bytes at a time from client to "
		       "server -> see the line 'counters', 'ethtool -S' on both hosts, and the "
		       "counters of the switches; check flow control (PFC, ECN) and cables",
		       size);
}

static const char passes_when_repeated[] =
	"; each direction delivered this size in at least one of two sessions, so packets are lost or "
	"late -> run this again; see the line 'counters', and the load of both hosts";
static const char one_direction_at_least[] =
	"; large packets vanish in one direction at least: size 1 passes, size 1024 fails repeatedly *";

/* Return a session whose connection is lost before a payload has arrived. */
static struct turn none_arrived(void)
{
	return ends(1024, LOST, POSTED, REMOTE_MR);
}

/* Return a session whose connection is lost after one payload has arrived. */
static struct turn one_arrived(void)
{
	return ends(1024, LOST, POSTED, REMOTE_DONE);
}

/* clang-format off */

TEST(failed_size_is_reported_with_the_state_of_each_direction_and_any_advice)
{
	const struct example examples[] = {
		/* one payload has arrived: the other direction is blamed */
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), silent(MTU - 1, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, vanish("client", "server", 1024, 4095)) },
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, POSTED, REMOTE_DONE), still_there(1024), silent(MTU - 1, POSTED, REMOTE_DONE) }, SILENCE,
		  .found = ended("arrived", "failed", SILENCE, vanish("server", "client", 1024, 4095)) },
		/* no payload has arrived: a session with a short reply tests which direction fails */
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, GOOD, DONE, REMOTE_VERDICT) }, LOST,
		  .found = ended("verified", "failed", LOST, "; large packets vanish from server to client: size 1 passes, size 1024 *") },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, SILENCE, DONE, REMOTE_DONE) }, LOST,
		  .found = ended("arrived", "not known", LOST, one_direction_at_least) },
		/* RoCE v1 has one header of 40 bytes instead of the IPv4 and UDP headers */
		{ OVER_ROCE_V1, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), silent(MTU - 1, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, "; large packets vanish from client to server: size 1024 passes, *'ping -M do -s 4140'*") },
		/* over iWARP TCP chooses the length of packets */
		{ OVER_IWARP, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, SILENCE, DONE, REMOTE_MR) }, LOST,
		  .found = ended("failed", "not known", LOST, "; *'ping -M do -s 1024'*") },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, SILENCE, POSTED, REMOTE_MR) }, LOST,
		  .found = ended("failed", "not known", LOST, "; large packets vanish from client to server: size 1 passes, *") },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, REFUSAL, POSTED, REMOTE_MR) }, LOST,
		  .found = ended("not known", "not known", LOST, one_direction_at_least) },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), narrowed(1024, STOPPED, POSTED, REMOTE_MR) }, STOPPED,
		  .found = ended("not known", "not known", STOPPED, "") },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), { 1024, .wanted = 1, .status = SILENCE } }, LOST,
		  .found = ended("not known", "not known", LOST, "") },
		{ OVER_ROCE, one_byte, { none_arrived(), still_there(1), none_arrived(), { 1024, .wanted = 1, .absent = true } }, LOST,
		  .found = ended("not known", "not known", LOST, "") },
		/* a server that rejects a session still runs */
		{ OVER_ROCE, one_byte, { silent(1024, DONE, REMOTE_MR), refused(1, REFUSAL_LENGTH), silent(1024, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, "; large packets vanish from client to server: size 1 passes, *") },
		/* if the server has ended, no size is blamed, even if one payload has arrived */
		{ OVER_ROCE, one_byte, { none_arrived(), fails(1, REFUSAL) }, LOST,
		  .found = ended("not known", "not known", LOST, server_gone(REFUSAL)) },
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, REFUSAL) }, LOST,
		  .found = ended("arrived", "not known", LOST, server_gone(REFUSAL)) },
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, LOST) }, LOST,
		  .found = ended("arrived", "not known", LOST, server_gone(LOST)) },
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, SILENCE) }, LOST,
		  .found = ended("arrived", "not known", LOST, server_gone(SILENCE)) },
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, STATUS_UNRESOLVED) }, LOST,
		  .found = ended("arrived", "not known", LOST, server_gone(STATUS_UNRESOLVED)) },
		/* a failure of this host is not blamed on the server */
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, BROKEN) }, LOST,
		  .found = ended("arrived", "not known", LOST, "") },
		{ OVER_ROCE, one_byte, { one_arrived(), fails(1, STOPPED) }, STOPPED,
		  .found = ended("arrived", "not known", STOPPED, "") },
		{ OVER_ROCE, one_byte, { one_arrived(), absent(1) }, LOST, .found = ended("arrived", "not known", LOST, "") },
		/* if no byte arrives, a rule explains it (reach-test) */
		{ OVER_ROCE, no_size, { silent(1, POSTED, REMOTE_MR) }, SILENCE,
		  .found = ended("not known", "not known", SILENCE, "") },
		/* a direction is named after two failures */
		{ OVER_ROCE, no_size, { silent(1, DONE, REMOTE_MR), silent(1, DONE, REMOTE_MR) }, SILENCE,
		  .found = "failed: 1 byte: client to server failed, server to client arrived: cause 5" },
		{ OVER_ROCE, no_size, { silent(1, POSTED, REMOTE_DONE), silent(1, POSTED, REMOTE_DONE) }, SILENCE,
		  .found = "failed: 1 byte: client to server arrived, server to client failed: cause 5" },
		{ OVER_ROCE, no_size, { silent(1, DONE, REMOTE_MR), passes(1) }, SILENCE,
		  .found = ended("not known", "arrived", SILENCE, passes_when_repeated) },
		{ OVER_INFINIBAND, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), silent(MTU - 1, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, "; packets are lost from client to server -> look at the path that the subnet manager has set up, *") },
		/* one failure is no evidence: the size, or each direction of it, passes when it is repeated */
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), passes(MTU - 1) }, SILENCE,
		  .found = ended("not known", "arrived", SILENCE, passes_when_repeated) },
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), silent(MTU - 1, POSTED, REMOTE_DONE) }, SILENCE,
		  .found = ended("not known", "arrived", SILENCE, passes_when_repeated) },
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), still_there(1024), fails(MTU - 1, REFUSAL) }, SILENCE,
		  .found = ended("not known", "arrived", SILENCE, "") },
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_MR), fails(1024, SILENCE) }, SILENCE,
		  .found = ended("not known", "arrived", SILENCE, " -> a session of 1024 bytes fails now as well (cause 5): *") },
		/* the number of packets is blamed only if a packet of 4096 bytes has passed */
		{ OVER_ROCE, below_a_packet, { silent(MTU, DONE, REMOTE_MR), still_there(MTU - 1), silent(MTU, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, vanish("client", "server", 4095, 4096)) },
		{ OVER_ROCE, up_to_a_packet, { silent(MTU + 1, DONE, REMOTE_MR), still_there(MTU), silent(MTU + 1, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, not_this_many(4097)) },
		{ OVER_ROCE, beyond_a_packet, { silent(65536, DONE, REMOTE_MR), still_there(MTU + 1), silent(65536, DONE, REMOTE_MR) }, SILENCE,
		  .found = ended("failed", "arrived", SILENCE, not_this_many(65536)) },
		/* this side gave up: its READ did not end */
		{ OVER_ROCE, up_to_1024, { gives_up(MTU - 1, REMOTE_DONE), still_there(1024), gives_up(MTU - 1, REMOTE_DONE) }, SILENCE,
		  .found = ended("arrived", "failed", SILENCE, vanish("server", "client", 1024, 4095)) },
		/* everything has arrived: packets are not blamed */
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, LOCAL_VERDICT_SENT, REMOTE_DONE), still_there(1024) }, SILENCE,
		  .found = ended("arrived", "verified", SILENCE, "") },
		{ OVER_ROCE, up_to_1024, { silent(MTU - 1, DONE, REMOTE_DONE), still_there(1024) }, SILENCE,
		  .found = ended("arrived", "arrived", SILENCE, "") },
		/* no timeout, but wrong contents in one direction */
		{ OVER_ROCE, one_byte, { { 1024, .status = STATUS_CONTENTS_WRONG, .connected = true, .local = LOCAL_VERDICT_SENT,
					    .remote = REMOTE_VERDICT, .verdict = STATUS_CONTENTS_WRONG } }, STATUS_CONTENTS_WRONG,
		  .found = ended("arrived", "verified", STATUS_CONTENTS_WRONG, "") },
	};

	examine("transfer", examples, ENTRIES(examples));
	expect_key("transfer", "bytes", "1024");
	expect_key("transfer", "client_to_server", "arrived");
	expect_key("transfer", "server_to_client", "verified");
}

/* clang-format on */

/* The program hangs after its first session, which moved no bytes in one direction. */
TEST(missing_bytes_are_remembered_if_the_next_session_is_not_established)
{
	const struct turn turns[] = { silent(1, LOCAL_DONE_POSTED, REMOTE_MR),
				      fails(1, SILENCE),
				      { 0 } };

	start(OVER_ROCE, no_size, turns);
	play(SILENCE);
	assert_true(probe_lacks_bytes(&path.check.probe));
}

/* Return a pattern for the finding about a session that is not established, like ended(). */
static const char *no_session(unsigned int size, enum status cause, const char *advice)
{
	return text_of("%sfailed: peer: session of %u byte%s: cause %d%s",
		       size == 1 ? "" : "ok: * | ", size, size == 1 ? "" : "s", cause, advice);
}

static const char ended_since[] =
	" -> the server accepted an earlier session: check that it still runs and does not hang, *";

/* clang-format off */

/* Each case: a session that is not established, and the finding about the server. */
TEST(failed_connection_is_reported_with_its_cause_and_any_advice)
{
	const struct example examples[] = {
		{ OVER_ROCE, no_size, { fails(1, SILENCE) }, SILENCE, .found = no_session(1, SILENCE, "") },
		{ OVER_ROCE, no_size, { fails(1, LOST) }, LOST, .found = no_session(1, LOST, "") },
		{ OVER_ROCE_V1, no_size, { fails(1, SILENCE) }, SILENCE,
		  .found = no_session(1, SILENCE, "") },
		{ OVER_IWARP, no_size, { fails(1, SILENCE) }, SILENCE, .found = no_session(1, SILENCE, "") },
		{ OVER_INFINIBAND, no_size, { fails(1, SILENCE) }, SILENCE,
		  .found = no_session(1, SILENCE, "") },
		{ OVER_ROCE, no_size, { fails(1, REFUSAL) }, REFUSAL, .found = no_session(1, REFUSAL, "") },
		{ OVER_IWARP, no_size, { fails(1, BROKEN) }, BROKEN, .found = no_session(1, BROKEN, "") },
		{ OVER_ROCE, one_byte, { fails(1024, SILENCE) }, SILENCE, .found = no_session(1024, SILENCE, ended_since) },
		{ OVER_IWARP, one_byte, { fails(1024, REFUSAL) }, REFUSAL,
		  .found = no_session(1024, REFUSAL, ended_since) },
		{ OVER_ROCE, one_byte, { fails(1024, BROKEN) }, BROKEN, .found = no_session(1024, BROKEN, "") },
		{ OVER_ROCE, up_to_1024, { fails(MTU - 1, REFUSAL) }, REFUSAL, .found = no_session(4095, REFUSAL, ended_since) },
		{ OVER_IWARP, up_to_1024, { fails(MTU + 1, LOST) }, LOST,
		  .found = no_session(4097, LOST, ended_since) },
		/* the other operation is not tried: a server performs either one for a check */
		{ OVER_ROCE, no_size, { refused(1, REFUSAL_OPERATION) }, REFUSAL,
		  .found = no_session(1, REFUSAL, "") },
		{ OVER_ROCE, no_size, { refused_silently(1) }, REFUSAL,
		  .found = no_session(1, REFUSAL, "") },
		{ OVER_ROCE, one_byte, { refused_silently(1024) }, REFUSAL, .found = no_session(1024, REFUSAL, ended_since) },
		/* any other rejection ends the check */
		{ OVER_ROCE, one_byte, { refused(1024, REFUSAL_LENGTH) }, REFUSAL,
		  .found = no_session(1024, REFUSAL, "") },
		{ OVER_ROCE, one_byte, { refused(1024, (enum refusal)200) }, REFUSAL,
		  .found = no_session(1024, REFUSAL, "") },
		{ OVER_ROCE, one_byte, { { 1024, .status = REFUSAL, .rejected = true, .hello_kind = HELLO_OTHER_VERSION } }, REFUSAL,
		  .found = no_session(1024, REFUSAL, "") },
		/* no retry: no earlier session can free memory, or memory is not the reason */
		{ OVER_ROCE, no_size, { refused(1, REFUSAL_MEMORY) }, REFUSAL,
		  .found = no_session(1, REFUSAL, "") },
		{ OVER_ROCE, no_size, { refused(1, REFUSAL_SETUP) }, REFUSAL,
		  .found = no_session(1, REFUSAL, "") },
		{ OVER_ROCE, one_byte, { refused(1024, REFUSAL_SETUP) }, REFUSAL,
		  .found = no_session(1024, REFUSAL, "") },
	};

	examine("server", examples, ENTRIES(examples));
}
/* clang-format on */

/*
 * The server ends the previous session a little later than the client. Over iWARP the reason of a
 * rejection may be lost.
 */
TEST(busy_server_is_tried_again_until_the_timeout)
{
	const struct turn busy[] = {
		refused(1, REFUSAL_SESSIONS),
		refused(1024, REFUSAL_SESSIONS),
		refused(1024, REFUSAL_MEMORY),
		refused_silently(1024),
	};

	EACH_ROW (i, busy) {
		unsigned int kind = busy[i].hello_kind == HELLO_ABSENT ? OVER_IWARP : OVER_ROCE;
		const uint64_t *passed = busy[i].size == 1 ? no_size : one_byte;
		struct turn turns[] = { busy[i], busy[i], fails(busy[i].size, BROKEN), { 0 } };

		turns[1].later = turns[2].later = true;
		start(kind, passed, turns);
		play(BROKEN);
		expect("server", "*failed: *: cause 1");
		turns[1].size = 0;
		start(kind, passed, turns);
		path.options.timeout_seconds = 0;
		play(REFUSAL);
		expect("server", "*failed: *: cause 4*");
	}
}

/* Each case: the server's MTU, GID and device, and `own`, this host's packet size. */
TEST(server_is_described_with_advice_on_a_smaller_mtu_over_roce)
{
	static const struct {
		unsigned int kind;
		unsigned int own;
		enum ibv_mtu mtu;
		const char *gid, *device, *found;
		uint64_t next; /* size of the next session */
	} cases[] = {
		/* clang-format off */
		{ OVER_ROCE, MTU, IBV_MTU_4096, "::1", "rdma0", ", device rdma0, GID ::1, MTU of its port 4096 bytes", 1024 },
		{ OVER_ROCE, MTU, IBV_MTU_256, "", "", ", MTU of its port 256 bytes -> the MTU is 4096 bytes on this host and 256 on the server's: set the same MTU on both hosts "
		  "and the switches between them ('ip link set ... mtu'), or packets above 256 bytes may vanish", 1024 },
		{ OVER_ROCE, 256, IBV_MTU_4096, "", "", ", MTU of its port 4096 bytes", 255 },
		{ OVER_ROCE, MTU, (enum ibv_mtu)0, "", "", "", 1024 },
		{ OVER_ROCE, MTU, (enum ibv_mtu)6, "", "", "", 1024 },
		{ OVER_ROCE, 0, IBV_MTU_256, "", "", ", MTU of its port 256 bytes", 65536 },
		{ OVER_IWARP, MTU, IBV_MTU_256, "", "x", ", device x", 1024 },
		{ OVER_INFINIBAND, 2048, IBV_MTU_4096, "fe80::1", "", ", GID fe80::1", 1024 },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		const struct turn turns[] = { absent(cases[i].next), { 0 } };
		char pattern[512];

		start(cases[i].kind, one_byte, turns);
		path.check.path.mtu = cases[i].own;
		path.mtu = cases[i].mtu;
		path.device = cases[i].device;
		snprintf(path.check.path.gid, sizeof(path.check.path.gid), "%s", cases[i].gid);
		play(BROKEN);
		snprintf(pattern, sizeof(pattern), "ok: peer: rdma-server%s", cases[i].found);
		expect("server", pattern);
		expect_key("server", "device", *cases[i].device ? cases[i].device : NULL);
	}
}

/* ---- Rates ---- */

static const char *rates(const char *to_server, const char *to_client)
{
	return text_of("client to server %s Mbit/s, server to client %s Mbit/s", to_server,
		       to_client);
}

static const char *found_slow(const char *rates, const char *direction, const char *factor)
{
	return text_of("ok: %s -> %s is %s times as slow as the other direction, measured twice: "
		       "look at the queue of the host that sends ('tc -s qdisc'), the line "
		       "'counters', *",
		       rates, direction, factor);
}

static const char *found_below(const char *rates, const char *direction)
{
	return text_of(
		"failed: %s; slower than --min-rate from %s: 199 Mbit/s instead of 200 "
		"Mbit/s; the contents are right -> run 'rdma-client --check', which reports *",
		rates, direction);
}

/* clang-format off */
TEST(rates_are_reported_and_a_slow_direction_is_measured_twice)
{
	const struct example examples[] = {
		{ RATED, all_sizes, { to_server(300), to_client(300), reads() }, GOOD,
		  .found = text_of("ok: %s", rates("300", "300")) },
		{ RATED, all_sizes, { to_server(299), to_client(100), reads() }, GOOD,
		  .found = text_of("ok: %s", rates("299", "100")) },
		/* a direction is slow if both measurements agree; the second one is reported */
		{ RATED, all_sizes, { to_server(300), to_client(100), to_server(400), to_client(100), reads() }, GOOD,
		  .found = found_slow(rates("400", "100"), "server to client", "4.0") },
		{ RATED, all_sizes, { to_server(100), to_client(300), to_server(100), to_client(350), reads() }, GOOD,
		  .found = found_slow(rates("100", "350"), "client to server", "3.5") },
		{ RATED, all_sizes, { to_server(300), to_client(100), to_server(250), to_client(100), reads() }, GOOD,
		  .found = text_of("ok: %s", rates("250", "100")) },
		{ RATED, all_sizes, { to_server(100), to_client(0), to_server(100), to_client(0), reads() }, GOOD,
		  .found = "ok: client to server 100 Mbit/s, server to client 0 bit/s -> server to client is *" },
		{ RATED, all_sizes, { to_server(0), to_client(0), reads() }, GOOD,
		  .found = "ok: client to server 0 bit/s, server to client 0 bit/s" },
		/* a rate below --min-rate is also measured twice, in either direction */
		{ RATED, all_sizes, { to_server(200), to_client(200), reads() }, GOOD,
		  .found = text_of("ok: %s", rates("200", "200")), .minimum_rate = 200 * MBIT },
		{ RATED, all_sizes, { to_server(199), to_client(200), to_server(200), to_client(200), reads() }, GOOD,
		  .found = text_of("ok: %s", rates("200", "200")), .minimum_rate = 200 * MBIT },
		{ RATED, all_sizes, { to_server(199), to_client(200), to_server(199), to_client(200), reads() }, STATUS_TOO_SLOW,
		  .found = found_below(rates("199", "200"), "client to server"), .minimum_rate = 200 * MBIT },
		{ RATED, all_sizes, { to_server(200), to_client(199), to_server(200), to_client(199), reads() }, STATUS_TOO_SLOW,
		  .found = found_below(rates("200", "199"), "server to client"), .minimum_rate = 200 * MBIT },
		{ RATED, all_sizes, { to_server(199), to_client(198), to_server(199), to_client(198), reads() }, STATUS_TOO_SLOW,
		  .found = "failed: *; slower than --min-rate in both directions: 198 Mbit/s instead of 200 Mbit/s; the contents are right -> *",
		  .minimum_rate = 200 * MBIT },
		/* rates are compared with the link's rate, if the device has a link */
		{ RATED, all_sizes, { to_server(300), to_client(300), reads() }, GOOD,
		  .found = text_of("ok: %s; a software device has no link rate to compare with", rates("300", "300")),
		  .is_software = true },
		{ RATED, all_sizes, { to_server(90000), to_client(93000), reads() }, GOOD,
		  .found = "ok: client to server 90 Gbit/s (90 % of the link's 100 Gbit/s), server to client 93 Gbit/s (93 % of the link's 100 Gbit/s)",
		  .link = 1e11 },
	};

	examine("rate", examples, ENTRIES(examples));
	expect_key("rate", "client_to_server_bits_per_second", "9e+10");
	expect_key("rate", "server_to_client_bits_per_second", "9.3e+10");
	expect_key("rate", "link_bits_per_second", "1e+11");
	examine("rate", examples, 1);
	expect_key("rate", "link_bits_per_second", NULL);
}

TEST(a_failed_measurement_determines_the_status)
{
	const struct example examples[] = {
		{ RATED, all_sizes, { { 65536, .wanted = 1, .measured = TO_SERVER, .status = LOST, .connected = true } }, LOST,
		  .found = "failed: not measured: cause 6" },
		/* a session that cannot start has no finding */
		{ RATED, all_sizes, { { 65536, .wanted = 1, .measured = TO_SERVER, .absent = true } }, BROKEN,
		  .found = "" },
		{ RATED, all_sizes, { to_server(1), measures(1, TO_CLIENT, LOST) }, LOST,
		  .found = "failed: not measured: cause 6" },
		{ RATED, all_sizes, { to_server(1), to_client(1), measures(8, LATENCY, LOST) }, LOST,
		  .found = "failed: not measured: cause 6" },
		/* a failure outranks a rate that is too low */
		{ RATED, all_sizes, { to_server(199), to_client(200), to_server(199), to_client(200), measures(8, LATENCY, LOST) }, LOST,
		  .found = "failed: not measured: cause 6", .minimum_rate = 200 * MBIT },
	};

	examine("rate", examples, 3);
	examine("latency", examples + 3, 2);
}
/* clang-format on */

/* The longer an exchange takes, the fewer READs are measured: 1000 at most, 10 at least. */
TEST(latency_is_measured_with_10_to_1000_reads_of_8_bytes)
{
	static const struct {
		int64_t exchange;
		unsigned int reads;
	} cases[] = { { 0, 1000 }, { 10, 1000 }, { 11, 909 }, { 999, 10 }, { 5000, 10 } };
	const struct turn turns[] = { to_server(1), to_client(1), reads(), { 0 } };

	EACH_ROW (i, cases) {
		start(RATED, all_sizes, turns);
		path.exchange = cases[i].exchange;
		path.reads = cases[i].reads;
		play(GOOD);
		expect("latency",
		       "ok: a READ of 8 bytes takes 2.00 us (median), 64.00 us (99th percentile of 1000)");
		expect_key("latency", "p50_us", "2.004"); /* rounded to a bucket */
		expect_key("latency", "p99_us", "64");
	}
}

TEST(duration_0_measures_nothing)
{
	const struct turn turns[] = { { 0 } };

	start(RATED, all_sizes, turns);
	path.options.duration_seconds = 0;
	play(GOOD);
	expect("rate", "");
	expect("latency", "");
}

static const char several_paths[] =
	"where several paths lead to the server, switches choose one by "
	"the source port (ECMP): look at the links and switches of that path";

static const char *slower(const char *rates)
{
	return text_of("%s -> at least half of the successful sessions are three times as fast; %s",
		       rates, several_paths);
}

/* clang-format off */
TEST(each_simultaneous_session_is_reported_with_its_source_port_and_any_advice)
{
	const struct example examples[] = {
		{ RATED, all_sizes, { to_server(1), to_client(1), reads(),
			   port_measured(5, 300, 300), port_measured(6, 101, 104), port_measured(7, 290, 310), port_measured(8, 900, 900) }, GOOD,
		  .found = text_of("ok: source port 5: * | ok: source port 6: %s | ok: source port 7: * | ok: source port 8: *", rates("101", "104")),
		  .connections = 4 },
		{ RATED, all_sizes, { to_server(1), to_client(1), reads(), port_measured(5, 300, 300), port_measured(6, 96, 300), port_measured(7, 290, 310) }, GOOD,
		  .found = text_of("ok: source port 5: * | ok: source port 6: %s | ok: source port 7: *", slower(rates("96", "300"))),
		  .connections = 3 },
		{ RATED, all_sizes, { to_server(1), to_client(1), reads(), port_measured(5, 300, 300), port_measured(6, 300, 99) }, GOOD,
		  .found = text_of("ok: source port 5: * | ok: source port 6: %s", slower(rates("300", "99"))),
		  .connections = 2 },
		/* over InfiniBand and RoCE v1 there is no source port */
		{ RATED, all_sizes, { to_server(1), to_client(1), reads(), port_measured(5, 300, 300), port_failed(0, SILENCE) }, SILENCE,
		  .found = "ok: source port 5: * | failed: source port not known: cause 5",
		  .connections = 2 },
		/* a failed session has no rate to compare */
		{ RATED, all_sizes, { to_server(1), to_client(1), reads(),
			   port_measured(5, 300, 300), port_failed(6, LOST), port_failed(7, SILENCE), port_measured(8, 99, 99) }, LOST,
		  .found = text_of("ok: source port 5: * | failed: source port 6: cause 6 -> %s | failed: source port 7: cause 5 -> * | "
				   "ok: source port 8: *", several_paths),
		  .connections = 4 },
		/* with --duration 0, no rates are measured */
		{ UNKNOWN, all_sizes, { port_verified(5, GOOD), port_verified(6, BROKEN) }, BROKEN,
		  .found = "ok: source port 5: verified in both directions | failed: source port 6: cause 1",
		  .connections = 2 },
		{ UNKNOWN, all_sizes, { port_verified(5, GOOD), port_verified(0, GOOD) }, GOOD,
		  .found = "ok: * | ok: source port not known: verified in both directions", .connections = 2 },
		/* a busy server is tried again, with all sessions */
		{ UNKNOWN, all_sizes, { refused(65536, REFUSAL_SESSIONS), port_verified(6, GOOD), port_later(5), port_later(6) }, GOOD,
		  .found = "ok: source port 5: * | ok: source port 6: *", .connections = 2 },
	};

	examine("path", examples, ENTRIES(examples));
	expect_key("path", "source_port", "6");
}
/* clang-format on */

/* ---- Whole runs ---- */

/*
 * Each case: growth of the counters in two sessions, and the finding. The server's errors are
 * summed up.
 */
TEST(errors_of_both_hosts_are_reported)
{
	static const struct {
		bool before, after;   /* the port has counters before and after the sessions */
		uint64_t first, last; /* growth of two counters in each session */
		uint64_t waits;       /* growth of a congestion counter */
		uint64_t there[2]; /* the server's errors per session, plus 1. 0 means not counted.
				    */
		const char *found, *sum;
	} cases[] = {
		/* clang-format off */
		{ 1, 1, 0, 0, 0, { 0, 0 }, "ok: this host's device counted no errors", NULL },
		{ 1, 1, 0, 3, 0, { 0, 0 }, "ok: VL15_dropped 6", NULL },
		{ 1, 1, 1, 2, 0, { 0, 0 }, "ok: duplicate_request 2, VL15_dropped 4", NULL },
		{ 0, 1, 3, 0, 0, { 0, 0 }, "ok: this host's device has no error counters, which would show lost packets", NULL },
		{ 1, 0, 3, 0, 0, { 0, 0 }, "ok: this host's device has no error counters, which would show lost packets", NULL },
		{ 1, 1, 0, 0, 0, { 1, 1 }, "ok: neither device counted errors", "0" },
		{ 1, 1, 0, 0, 5, { 1, 1 }, "ok: neither device counted errors; tx_pause_frames 5", "0" },
		{ 1, 1, 0, 0, 5, { 0, 0 }, "ok: this host's device counted no errors; tx_pause_frames 5", NULL },
		{ 1, 1, 2, 0, 0, { 101, 21 }, "ok: errors counted: 4 by this side, 120 by the peer; duplicate_request 4", "120" },
		{ 1, 1, 0, 0, 0, { 0, 121 }, "ok: errors counted: 0 by this side, 120 by the peer", "120" },
		{ 1, 1, 2, 0, 0, { 1, 0 }, "ok: errors counted: 4 by this side, 0 by the peer; duplicate_request 4", "0" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct turn turns[] = { passes(1), passes(1024), absent(MTU - 1), { 0 } };

		turns[0].errors_there = cases[i].there[0];
		turns[1].errors_there = cases[i].there[1];
		start(OVER_ROCE, no_size, turns);
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
			expect_key("counters", "peer_error_count", cases[i].sum);
	}
}

static unsigned int counter_number(const char *name)
{
	unsigned int number = 0;

	while (strcmp(counter_name(number), name) != 0)
		number++;
	return number;
}

/* A counter of an InfiniBand port stops at its maximum, so it does not grow any more. */
TEST(counter_at_its_maximum_is_reported)
{
	const struct {
		const char *name;
		uint64_t value;
		const char *found;
	} cases[] = {
		/* clang-format off */
		{ "symbol_error", 65535, "ok: * counted no errors; at its maximum, so it counts no more: symbol_error 65535 ('perfquery -R' resets it)" },
		{ "link_error_recovery", 255, "ok: * counted no errors; at its maximum, so it counts no more: link_error_recovery 255 (*" },
		{ "symbol_error", 65534, "ok: this host's device counted no errors" },
		/* a driver's own counter has more bits */
		{ "out_of_sequence", 65535, "ok: this host's device counted no errors" },
		/* clang-format on */
	};
	const struct turn turns[] = { { 0 } };

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		start(UNKNOWN, all_sizes, turns);
		for (unsigned int session = 0; session < 4; session++) {
			path.counters[session].any = true;
			path.counters[session].values[counter_number(cases[i].name)] =
				cases[i].value;
		}
		play(GOOD);
		expect("counters", cases[i].found);
	}
}

static const char of_software[] = " -> one of: a rate limit or a full queue on the way *";

/* The three sessions send 36 packets in each direction. */
TEST(gaps_and_retransmissions_of_both_sides_tell_lost_from_late_and_reordered_packets)
{
	const struct {
		const char *counter, *other; /* both grow by `count` in the last session */
		uint64_t count, missing_there, resent_there;
		const char *found, *share, *direction;
	} cases[] = {
		/* clang-format off */
		{ "rcvd_seq_err", "completer_retry_err", 2, 2, 0, "failed: packets are lost from client to server, about 5.6 % of them; rcvd_seq_err 2, completer_retry_err 2", "0.0555555556", "client to server" },
		/* Soft-RoCE does not count each NAK */
		{ "completer_retry_err", NULL, 9, 9, 0, "failed: packets are lost from client to server, about 25 % of them; *", "0.25", "client to server" },
		{ "completer_retry_err", NULL, 9, 2, 0, "failed: packets are lost from client to server, about 5.6 % of them; *", "0.0555555556", "client to server" },
		{ "out_of_seq_request", NULL, 2, 0, 2, "failed: packets are lost from server to client, about 5.6 % of them; out_of_seq_request 2", "0.0555555556", "server to client" },
		{ "out_of_sequence", NULL, 9, 0, 2, "failed: packets are lost from server to client, about 5.6 % of them; *", "0.0555555556", "server to client" },
		{ "oos_drop_count", NULL, 9, 0, 9, "failed: packets are lost from server to client, *", "0.25", "server to client" },
		{ "rcvd_seq_err", "out_of_seq_request", 9, 9, 9, "failed: packets are lost in both directions, about 25 % of them; out_of_seq_request 9, rcvd_seq_err 9", "0.25", "both" },
		{ "packet_seq_err", "out_of_sequence", 48, 48, 48, "failed: packets are lost in both directions, about 100 % of them; out_of_sequence 48, packet_seq_err 48", "1", "both" },
		{ "packet_seq_err", "out_of_sequence", 1, 1, 1, "failed: packets are lost in both directions, about 2.8 % of them; *", "0.0277777778", "both" },
		/* a NAK shows a gap at a server that does not count */
		{ "packet_seq_err", NULL, 9, 0, 0, "failed: packets are lost from client to server, *", "0.25", "client to server" },
		{ "seq_err_naks_rcvd", NULL, 9, 0, 0, "failed: packets are lost from client to server, *", "0.25", "client to server" },
		/* a single lost packet is not a failure */
		{ "out_of_seq_request", NULL, 1, 0, 1, "ok: packets are lost from server to client, about 2.8 % of them; out_of_seq_request 1", "0.0277777778", "server to client" },
		{ "rcvd_seq_err", "completer_retry_err", 1, 1, 0, "ok: packets are lost from client to server, about 2.8 % of them; rcvd_seq_err 1, completer_retry_err 1", "0.0277777778", "client to server" },
		/* one side alone */
		{ "completer_retry_err", NULL, 48, 0, 0, "ok: packets are late; completer_retry_err 48", "0", NULL },
		{ "local_ack_timeout_err", "to_retransmits", 48, 0, 0, "ok: packets are late; local_ack_timeout_err 48, to_retransmits 48", "0", NULL },
		{ "tcpRetransSegs", NULL, 48, 0, 0, "ok: packets are late; tcpRetransSegs 48", "0", NULL },
		{ "completer_retry_err", NULL, 48, 0, 48, "ok: packets are late; completer_retry_err 48", "0", NULL },
		{ "duplicate_request", NULL, 48, 0, 48, "ok: packets are late; duplicate_request 48", "0", NULL },
		{ "out_of_sequence", NULL, 48, 0, 0, "ok: packets are reordered; out_of_sequence 48", "0", NULL },
		{ "out_of_sequence", NULL, 48, 48, 0, "ok: packets are reordered; out_of_sequence 48", "0", NULL },
		{ "duplicate_request", NULL, 48, 48, 0, "ok: packets are reordered; duplicate_request 48", "0", NULL },
		{ "out_of_sequence", "local_ack_timeout_err", 48, 0, 0, "ok: packets are late and reordered; *", "0", NULL },
		/* duplicate requests and congestion marks are neither */
		{ "duplicate_request", "np_ecn_marked_roce_packets", 9, 0, 0, "ok: duplicate_request 9, np_ecn_marked_roce_packets 9", "0", NULL },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		const struct turn none[] = { { 0 } };
		bool failed = !strncmp(cases[i].found, "failed", 6);
		struct counters *after = &path.counters[3];

		start(UNKNOWN, all_sizes, none);
		path.check.path.is_software = true;
		path.script[1].missing_there = cases[i].missing_there;
		path.script[2].resent_there = cases[i].resent_there;
		for (unsigned int session = 0; session < 4; session++)
			path.counters[session].any = true;
		after->values[counter_number(cases[i].counter)] = cases[i].count;
		if (cases[i].other)
			after->values[counter_number(cases[i].other)] = cases[i].count;
		play(failed ? STATUS_TOO_SLOW : GOOD);
		expect("counters", text_of("%s%s", cases[i].found, failed ? of_software : ""));
		expect_key("counters", "lost_share", cases[i].share);
		expect_key("counters", "lost_direction", cases[i].direction);
	}
}

TEST(a_loss_of_two_packets_or_more_is_excessive_above_one_in_a_thousand)
{
	const struct peer_counts peer = { .retransmitted = 2 };
	struct counters growth = { .any = true };
	uint64_t *missing = &growth.values[counter_number("out_of_sequence")];

	*missing = 2;
	assert_false(loss_classify(&growth, &peer, 0, 2000).excessive);
	assert_true(loss_classify(&growth, &peer, 0, 1999).excessive);
	*missing = 1;
	assert_false(loss_classify(&growth, &peer, 0, 10).excessive);
}

/* Return a session in which the server counts this number of retransmissions. */
static struct turn resent(uint64_t count, struct turn turn)
{
	turn.errors_there = count + 1;
	turn.resent_there = count;
	return turn;
}

static struct turn takes(int64_t milliseconds, struct turn turn)
{
	turn.milliseconds = milliseconds;
	return turn;
}

/* The three sessions send 36 packets in each direction. */
TEST(last_line_says_ready_or_not_ready_and_reports_lost_packets)
{
	const struct {
		struct turn turns[6];
		const char *counter;
		uint64_t count;
		enum status status;
		const char *line;
	} cases[] = {
		/* clang-format off */
		{ { passes(1), passes(65536), passes(1048576) }, "out_of_sequence", 0, GOOD, "Ready. All sizes arrived in both directions, verified.\n" },
		{ { passes(1), passes(65536), passes(1048576) }, "out_of_sequence", 9, GOOD, "Ready. All sizes arrived in both directions, verified.\n" },
		{ { passes(1), passes(65536), passes(1048576) }, "to_retransmits", 9, GOOD, "Ready. All sizes arrived in both directions, verified.\n" },
		{ { resent(1, passes(1)), passes(65536), passes(1048576) }, "out_of_sequence", 1, GOOD, "Ready. All sizes arrived in both directions, verified; packets are lost from server to client, about 2.8 % of them.\n" },
		{ { resent(1, passes(1)), resent(1, passes(65536)), passes(1048576) }, "out_of_sequence", 2, STATUS_TOO_SLOW, "Ready, but packets are lost from server to client, about 5.6 % of them.\n" },
		{ { passes(1), passes(65536), passes(1048576) }, "packet_seq_err", 2, STATUS_TOO_SLOW, "Ready, but packets are lost from client to server, about 5.6 % of them.\n" },
		/* not ready if sizes were left out, or a session failed */
		{ { resent(2, passes(1)), takes(11000, passes(65536)) }, "out_of_sequence", 2, STATUS_TOO_SLOW, "Not ready: packets are lost from server to client, about 8.3 % of them.\n" },
		{ { resent(2, passes(1)), passes(65536), { 1048576, .status = BROKEN, .connected = true } }, "out_of_sequence", 2, BROKEN, "Not ready: cause 1\n" },
		{ { passes(1), passes(65536), resent(9, silent(1048576, DONE, REMOTE_MR)), still_there(65536), silent(1048576, DONE, REMOTE_MR) }, "out_of_sequence", 0, SILENCE,
		  "Not ready: cause 5; packets of every size arrive, but not 1048576 bytes at a time from client to server; next: see the line 'counters', 'ethtool -S' on both hosts, and the counters of the switches\n" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		start(UNKNOWN, no_size, cases[i].turns);
		path.row = cases[i].line;
		path.options.port = "7";
		path.lines = true;
		for (unsigned int session = 0; session < 4; session++)
			path.counters[session].any = true;
		for (unsigned int session = 2; session < 4; session++)
			path.counters[session].values[counter_number(cases[i].counter)] =
				cases[i].count;
		play(cases[i].status);
		assert_string_equal(path.printed, cases[i].line);
	}
}

TEST(smaller_mtu_on_the_path_explains_lost_packets)
{
	const struct turn turns[] = {
		resent(9, silent(1024, DONE, REMOTE_MR)),
		still_there(1),
		resent(9, silent(1024, DONE, REMOTE_MR)),
		{ 0 },
	};

	start(OVER_ROCE, one_byte, turns);
	for (unsigned int session = 0; session < 4; session++)
		path.counters[session] = (struct counters){ .any = true };
	for (unsigned int session = 2; session < 4; session++)
		path.counters[session].values[counter_number("out_of_sequence")] = 9;
	play(SILENCE);
	expect("counters", "ok: errors counted: 9 by this side, 18 by the peer; out_of_sequence 9");
	expect_key("counters", "lost_share", NULL);
}

/* Return the session of WRITEs, for one second, after a transfer that was stopped. */
static struct turn written(enum status how)
{
	return measures(65536, TO_SERVER | TO_CLIENT, how);
}

static struct turn writes(void)
{
	return written(STATUS_SUCCESS);
}

static struct turn interrupted(uint64_t size)
{
	return ends(size, STOPPED, POSTED, REMOTE_MR);
}

/* The time limit starts with the first session. The planned duration of measurements extends it. */
TEST(lost_packets_limit_the_time_for_further_sizes_and_measurements)
{
	static const char left_out[] =
		"*failed: 1024 bytes: not verified: packets are lost, and the sessions have taken *";
	const struct {
		struct turn turns[8];
		unsigned int kind;
		int64_t milliseconds; /* since the start of the first session */
		unsigned int lossy;   /* number of the session that loses packets, from 1 */
		uint64_t gaps;        /* growth of out_of_sequence in that session */
		enum status status;
		const char *step, *found, *error;
	} cases[] = {
		/* clang-format off */
		{ { resent(2, passes(1)), { 0 } }, OVER_ROCE, 10000, 1, 2, GOOD, "transfer", left_out, "packets are lost from server to client, *: the limit is 0.1 %" },
		{ { resent(2, passes(1)), absent(1024) }, OVER_ROCE, 9000, 1, 2, BROKEN, "transfer", "ok: 1 byte: *", "counters: packets are lost from server to client, *" },
		{ { passes(1), absent(1024) }, OVER_ROCE, 60000, 1, 2, BROKEN, "transfer", "ok: 1 byte: *", "unexpected failure" },
		/* if late packets delay a transfer, WRITEs show if packets are lost; late packets alone do not limit the time */
		{ { resent(2, passes(1)), writes(), { 0 } }, OVER_ROCE, 10000, 2, 2, GOOD, "transfer", left_out, "packets are lost from server to client, *: the limit is 0.1 %" },
		{ { resent(2, passes(1)), takes(1000, interrupted(1024)), writes(), { 0 } }, OVER_ROCE, 9500, 3, 2, GOOD, "transfer", left_out, "packets are lost from server to client, *: the limit is 0.1 %" },
		{ { resent(2, passes(1)), takes(1000, interrupted(1024)), writes(), passes(1024), absent(MTU - 1) }, OVER_ROCE, 9500, 3, 1, BROKEN, "transfer", "ok: 1 byte: * | ok: 1024 bytes: *", "unexpected failure" },
		{ { resent(2, passes(1)), writes(), passes(1024), takes(20000, passes(MTU - 1)), interrupted(MTU) }, OVER_ROCE, 10000, 3, 0, STOPPED, "transfer", "ok: 1 byte: * | ok: 1024 bytes: * | ok: 4095 bytes: * | failed: 4096 bytes: *", "cause 9" },
		{ { resent(2, passes(1)), written(SILENCE), { 0 } }, OVER_ROCE, 10000, 3, 0, SILENCE, "rate", "failed: not measured: cause 5", "cause 5" },
		/* if the failed session had no time limit, the sessions that explain it have none */
		{ { passes(1), resent(9, silent(1024, DONE, REMOTE_MR)), still_there(1), silent(1024, DONE, REMOTE_MR) }, OVER_ROCE, 11000, 2, 9, SILENCE, "transfer", "ok: 1 byte: * | failed: 1024 bytes: *; large packets vanish from client to server: size 1 passes, *", "cause 5; large packets vanish *" },
		/* the time limit also applies to the sessions that would explain a failure after lost packets */
		{ { resent(9, passes(1)), passes(65536), takes(11000, silent(1048576, DONE, REMOTE_MR)), { 0 } }, UNKNOWN, 0, 1, 9, SILENCE, "transfer", "ok: 1 byte: * | ok: 65536 *| failed: 1048576 bytes: client to server not known, server to client arrived: cause 5", "cause 5" },
		{ { passes(1), interrupted(1024) }, OVER_ROCE, 15000, 1, 0, STOPPED, "transfer", "ok: 1 byte: * | failed: 1024 bytes: *", "cause 9" },
		{ { passes(1), passes(65536), resent(200, passes(1048576)), { 0 } }, RATED, 12000, 3, 200, GOOD, "rate", "failed: not measured: packets are lost, and the sessions have taken 12 s", "packets are lost *" },
		{ { passes(1), passes(65536), resent(200, passes(1048576)), to_server(300), to_client(300), reads() }, RATED, 11000, 3, 200, GOOD, "rate", "ok: client to server 300 *", "packets are lost *" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		enum status status = cases[i].status == GOOD ? STATUS_TOO_SLOW : cases[i].status;
		const char *error;

		start(cases[i].kind, no_size, cases[i].turns);
		path.row = cases[i].found;
		path.check.probe.begun = now_milliseconds() - cases[i].milliseconds;
		for (unsigned int session = 0; session < 4; session++)
			path.counters[session].any = true;
		for (unsigned int session = cases[i].lossy; session < 4; session++)
			path.counters[session].values[counter_number("out_of_sequence")] =
				cases[i].gaps;
		play(status);
		expect(cases[i].step, cases[i].found);
		error = value_of(path.check.findings.all, "error");
		if (fnmatch(cases[i].error, error, 0) != 0)
			fail_msg("'%s' is not '%s'", error, cases[i].error);
	}
}

TEST(first_failure_determines_the_status_unless_a_signal_arrives)
{
	const struct {
		struct turn turns[4];
		int signal_number;
		const char *failure; /* failure message of the process */
		enum status status;
		const char *number, *error;
	} cases[] = {
		/* clang-format off */
		{ { silent(1, POSTED, REMOTE_MR) }, 0, "", SILENCE, "5", "cause 5" },
		{ { silent(1, POSTED, REMOTE_MR) }, 15, "", STOPPED, "143", "cause 5" },
		{ { absent(1) }, 0, "no memory", BROKEN, "1", "no memory" },
		/* the session that tests if the server still runs cannot start */
		{ { passes(1), none_arrived(), absent(1) }, 0, "", LOST, "6", "cause 6" },
		/* interrupted before the second session; the first was verified */
		{ { passes(1), absent(1024) }, 2, "", STOPPED, "130", "interrupted before the session was complete" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		start(OVER_ROCE, no_size, cases[i].turns);
		path.process.signal_number = cases[i].signal_number;
		snprintf(path.process.failure, CAUSE_SIZE, "%s", cases[i].failure);
		play(cases[i].status);
		assert_string_equal(value_of(path.check.findings.all, "status"), cases[i].number);
		assert_string_equal(value_of(path.check.findings.all, "error"), cases[i].error);
	}
}

/* Fakes of the connection manager's functions: every address has a route over `verbs`. */
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

/* The next address does not inherit the errors counted before. */
TEST(next_address_is_checked_from_the_beginning_unless_an_rdma_server_has_answered)
{
	const struct turn turns[] = {
		refused_silently(1), passes(1), passes(1024), absent(MTU + 1), { 0 },
	};
	const struct turn refusals[] = { refused(1, REFUSAL_LENGTH), { 0 } };
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct addrinfo next = { .ai_addr = (struct sockaddr *)&address };

	start(OVER_INFINIBAND, no_size, turns);
	path.check.path.untried = &next;
	for (int i = 0; i < 4; i++)
		path.counters[i] = (struct counters){ .any = true, .values = { i > 0 ? 2 : 0 } };
	play(BROKEN);
	assert_null(path.check.path.untried);
	assert_false(path.check.path.infiniband); /* the next address belongs to an iWARP device */
	expect("counters", "ok: *");
	/* the next address is not tried after a server of this project has answered */
	start(OVER_IWARP, no_size, refusals);
	path.check.path.untried = &next;
	play(REFUSAL);
	assert_ptr_equal(path.check.path.untried, &next);
}

RUN_TESTS(NULL, NULL)
