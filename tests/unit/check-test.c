// SPDX-License-Identifier: MIT
/*
 * What --check with PORT concludes from its sessions, and which it asks for next.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rdma-common/check.h"

#define MTU 4096

/* A path of this MTU, examined with --json. */
struct path {
	struct options options;
	struct console console;
	struct process process;
	struct check check;
};

static void start(struct path *path, bool iwarp)
{
	memset(path, 0, sizeof(*path));
	path->options = default_options(ROLE_CLIENT);
	path->options.address = "host";
	path->options.check = true;
	path->options.json = true;
	console_init(&path->console, &path->options);
	process_init(&path->process, &path->options, &path->console);
	check_init(&path->check, &path->process);
	path->check.mtu = MTU;
	path->check.iwarp = iwarp;
}

/* A session in which both directions were verified. */
static const struct connection verified = { .status = STATUS_SUCCESS,
					    .protocol = { .connected = true,
							  .verifying = true,
							  .local = LOCAL_VERDICT_SENT,
							  .remote = REMOTE_VERDICT } };

/* A session that succeeds; `size` is what it is expected to be of. */
static void succeed(struct path *path, uint64_t size)
{
	assert_true(check_next(&path->check, true));
	assert_int_equal(path->check.session.pattern_size, size);
	assert_false(path->check.session.short_reply);
	check_session(&path->check, &verified);
}

/* After silence: the session of one byte each way ends like this. */
static void answer(struct path *path, enum status status)
{
	const struct connection connection = { .status = status,
					       .cause = "no answer",
					       .protocol.connected = status == STATUS_SUCCESS };

	assert_true(check_next(&path->check, true));
	assert_int_equal(path->check.session.pattern_size, 1);
	assert_false(path->check.session.short_reply);
	check_session(&path->check, &connection);
}

static void end(struct path *path, enum status expected)
{
	assert_false(check_next(&path->check, true));
	assert_int_equal(path->check.failure.status, expected);
	json_object_put(path->check.findings);
}

/* A text of the last finding of a step. */
static const char *found(const struct path *path, const char *step, const char *key)
{
	struct json_object *all, *value;

	assert_true(json_object_object_get_ex(path->check.findings, step, &all));
	all = json_object_array_get_idx(all, json_object_array_length(all) - 1);
	assert_true(json_object_object_get_ex(all, key, &value));
	return json_object_get_string(value);
}

static void expect_directions(const struct path *path, const char *to_server, const char *to_client)
{
	assert_string_equal(found(path, "transfer", "status"), "failed");
	assert_string_equal(found(path, "transfer", "client_to_server"), to_server);
	assert_string_equal(found(path, "transfer", "server_to_client"), to_client);
}

static void every_size_is_tried_around_the_length_of_a_packet(void **state)
{
	static const uint64_t sizes[] = { 1, 1024, MTU - 1, MTU, MTU + 1, 65536, 1048576 };
	struct path path;

	(void)state;
	start(&path, false);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		succeed(&path, sizes[i]);
	end(&path, STATUS_SUCCESS);
	start(&path, true);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] + 1 != MTU && sizes[i] != MTU)
			succeed(&path, sizes[i]);
	}
	end(&path, STATUS_SUCCESS);
}

/* What of a session that nothing came of in time was seen, and what that says. */
static void a_direction_that_works_shows_which_one_does_not(void **state)
{
	static const struct {
		enum operation operation;
		enum local_stage local;
		enum remote_stage remote;
		const char *to_server, *to_client, *advice;
	} cases[] = {
		{ OPERATION_WRITE, LOCAL_OPERATION_COMPLETED, REMOTE_MR, "arrived", "failed",
		  "from server to client" },
		{ OPERATION_WRITE, LOCAL_OPERATION_POSTED, REMOTE_DONE, "failed", "arrived",
		  "from client to server" },
		{ OPERATION_READ, LOCAL_OPERATION_COMPLETED, REMOTE_MR, "failed", "arrived",
		  "from client to server" },
		{ OPERATION_READ, LOCAL_OPERATION_POSTED, REMOTE_DONE, "arrived", "failed",
		  "from server to client" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct connection connection = { .status = STATUS_TIMED_OUT,
						       .cause = "silence",
						       .protocol = { .connected = true,
								     .local = cases[i].local,
								     .remote = cases[i].remote } };
		struct path path;

		start(&path, false);
		path.check.session.operation = cases[i].operation;
		succeed(&path, 1);
		succeed(&path, 1024);
		assert_true(check_next(&path.check, true));
		check_session(&path.check, &connection);
		answer(&path, STATUS_SUCCESS);
		expect_directions(&path, cases[i].to_server, cases[i].to_client);
		assert_non_null(strstr(found(&path, "transfer", "advice"), cases[i].advice));
		assert_non_null(strstr(found(&path, "transfer", "advice"), "above 1024 bytes"));
		end(&path, STATUS_TIMED_OUT);
	}
}

static void where_neither_direction_is_seen_to_work_another_session_tells(void **state)
{
	static const struct {
		bool iwarp;
		enum status status;
		struct protocol protocol;
		const char *to_server, *to_client;
	} cases[] = {
		{ false,
		  STATUS_SUCCESS,
		  { .local = LOCAL_OPERATION_COMPLETED, .remote = REMOTE_VERDICT },
		  "verified",
		  "failed" },
		{ false,
		  STATUS_CONTENTS_WRONG,
		  { .local = LOCAL_OPERATION_COMPLETED,
		    .remote = REMOTE_VERDICT,
		    .verdict = STATUS_CONTENTS_WRONG },
		  "arrived",
		  "not known" },
		{ false,
		  STATUS_TIMED_OUT,
		  { .local = LOCAL_OPERATION_COMPLETED },
		  "arrived",
		  "not known" },
		/* over iWARP its completion says only that TCP has it */
		{ true,
		  STATUS_TIMED_OUT,
		  { .local = LOCAL_OPERATION_COMPLETED },
		  "failed",
		  "not known" },
		{ false, STATUS_TIMED_OUT, { .local = LOCAL_IDLE }, "failed", "not known" },
		{ false, STATUS_REFUSED, { .local = LOCAL_IDLE }, "not known", "not known" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct connection nothing = { .status = STATUS_PEER_LOST,
						    .cause = "lost",
						    .protocol.connected = true };
		struct connection narrowed = { .status = cases[i].status,
					       .cause = "silence",
					       .limits.iwarp = cases[i].iwarp,
					       .protocol = cases[i].protocol };
		struct path path;

		narrowed.protocol.connected = true;
		start(&path, cases[i].iwarp);
		path.check.session.operation = OPERATION_WRITE;
		succeed(&path, 1);
		assert_true(check_next(&path.check, true));
		check_session(&path.check, &nothing);
		answer(&path, STATUS_SUCCESS);
		assert_true(check_next(&path.check, true));
		assert_true(path.check.session.short_reply);
		assert_int_equal(path.check.session.pattern_size, 1024);
		check_session(&path.check, &narrowed);
		expect_directions(&path, cases[i].to_server, cases[i].to_client);
		assert_non_null(strstr(found(&path, "transfer", "text"), "1024 bytes: "));
		assert_non_null(strstr(found(&path, "transfer", "text"), ": lost"));
		end(&path, STATUS_PEER_LOST);
	}
}

/* Nothing is concluded from sizes where there is nobody any more, even if one direction arrived. */
static void of_a_server_that_is_gone_no_size_is_blamed(void **state)
{
	static const struct {
		enum status status;
		enum remote_stage remote;
		const char *to_server;
	} cases[] = {
		{ STATUS_REFUSED, REMOTE_MR, "not known" },
		{ STATUS_REFUSED, REMOTE_DONE, "arrived" },
		{ STATUS_TIMED_OUT, REMOTE_DONE, "arrived" },
		{ STATUS_PEER_LOST, REMOTE_DONE, "arrived" },
		{ STATUS_UNRESOLVED, REMOTE_DONE, "arrived" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct connection lost = { .status = STATUS_PEER_LOST,
						 .cause = "lost",
						 .protocol = { .connected = true,
							       .remote = cases[i].remote } };
		struct path path;

		start(&path, false);
		succeed(&path, 1);
		assert_true(check_next(&path.check, true));
		check_session(&path.check, &lost);
		answer(&path, cases[i].status);
		expect_directions(&path, cases[i].to_server, "not known");
		assert_non_null(strstr(found(&path, "transfer", "text"), ": lost"));
		assert_non_null(
			strstr(found(&path, "transfer", "advice"), "1 byte passes any more (no"));
		end(&path, STATUS_PEER_LOST);
	}
}

/* What this host could not do says nothing of the server. */
static void a_question_that_could_not_be_asked_has_no_answer(void **state)
{
	static const enum status statuses[] = { STATUS_LOCAL_FAILURE, STATUS_INTERRUPTED };
	const struct connection lost = { .status = STATUS_TIMED_OUT,
					 .cause = "silence",
					 .protocol = { .connected = true,
						       .local = LOCAL_OPERATION_COMPLETED } };

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct path path;

		start(&path, false);
		succeed(&path, 1);
		assert_true(check_next(&path.check, true));
		check_session(&path.check, &lost);
		answer(&path, statuses[i]);
		expect_directions(&path, "not known", "arrived");
		assert_null(found(&path, "transfer", "advice"));
		end(&path, statuses[i] == STATUS_INTERRUPTED ? statuses[i] : STATUS_TIMED_OUT);
	}
}

/* The server rejects the connection, with this hello. */
static void reject_lacking(struct path *path, enum refusal refusal, enum resource lacking,
			   enum operation operation)
{
	const struct connection connection = {
		.status = STATUS_REFUSED,
		.cause = "no",
		.rejected = true,
		.rejection = { .greeting = GREETING_HELLO,
			       .hello = { .operation = (uint8_t)operation,
					  .refusal = (uint8_t)refusal,
					  .lacking = (uint8_t)lacking } },
	};

	check_session(&path->check, &connection);
}

static void reject(struct path *path, enum refusal refusal, enum operation operation)
{
	reject_lacking(path, refusal, RESOURCE_NOT_SAID, operation);
}

static void the_mode_of_the_server_is_taken_from_its_rejection_once(void **state)
{
	struct path path;

	(void)state;
	start(&path, false);
	assert_true(check_next(&path.check, true));
	assert_int_equal(path.check.session.operation, OPERATION_READ);
	reject(&path, REFUSAL_OPERATION, OPERATION_WRITE);
	assert_int_equal(json_object_object_length(path.check.findings), 0);
	assert_true(check_next(&path.check, true));
	assert_int_equal(path.check.session.operation, OPERATION_WRITE);
	assert_int_equal(path.check.session.pattern_size, 1);
	reject(&path, REFUSAL_OPERATION, OPERATION_READ);
	assert_string_equal(found(&path, "server", "status"), "failed");
	end(&path, STATUS_REFUSED);
}

/* The server rejects the connection, and nothing says why. */
static void reset(struct path *path)
{
	const struct connection connection = { .status = STATUS_REFUSED,
					       .cause = "no reason",
					       .peer = "x",
					       .rejected = true,
					       .rejection.greeting = GREETING_NONE };

	check_session(&path->check, &connection);
}

static void the_mode_is_tried_out_where_the_rejection_gives_no_reason(void **state)
{
	struct path path;

	(void)state;
	start(&path, false);
	assert_true(check_next(&path.check, true));
	reset(&path);
	assert_int_equal(json_object_object_length(path.check.findings), 0);
	assert_true(check_next(&path.check, true));
	assert_int_equal(path.check.session.operation, OPERATION_WRITE);
	reset(&path);
	assert_non_null(strstr(found(&path, "server", "text"), "with 1 byte: no reason"));
	end(&path, STATUS_REFUSED);
	start(&path, false);
	succeed(&path, 1);
	assert_true(check_next(&path.check, true));
	reset(&path);
	end(&path, STATUS_REFUSED);
}

static void what_the_server_refuses_is_not_repeated(void **state)
{
	struct path path;

	(void)state;
	start(&path, false);
	succeed(&path, 1);
	assert_true(check_next(&path.check, true));
	reject(&path, REFUSAL_LENGTH, OPERATION_READ);
	assert_null(found(&path, "server", "advice"));
	end(&path, STATUS_REFUSED);
}

/* Of one session behind which there is no other it is said that the server takes no second. */
static void a_server_of_another_version_has_refused(void **state)
{
	const struct connection connection = { .status = STATUS_REFUSED,
					       .cause = "no",
					       .rejected = true,
					       .rejection.greeting = GREETING_VERSION };
	struct path path;

	(void)state;
	start(&path, false);
	succeed(&path, 1);
	assert_true(check_next(&path.check, true));
	check_session(&path.check, &connection);
	assert_null(found(&path, "server", "advice"));
	end(&path, STATUS_REFUSED);
}

static void a_busy_server_is_asked_again_until_the_time_is_up(void **state)
{
	struct path path;

	(void)state;
	start(&path, false);
	assert_true(check_next(&path.check, true));
	reject(&path, REFUSAL_RESOURCES, OPERATION_READ);
	assert_true(path.check.retry_time > 0);
	assert_int_equal(json_object_object_length(path.check.findings), 0);
	succeed(&path, 1);
	path.options.timeout_seconds = 0;
	assert_true(check_next(&path.check, true));
	reject(&path, REFUSAL_RESOURCES, OPERATION_READ);
	assert_int_equal(path.check.retry_time, 0);
	assert_string_equal(found(&path, "server", "status"), "failed");
	assert_null(found(&path, "server", "advice"));
	end(&path, STATUS_REFUSED);
	start(&path, true); /* the reason may be lost here */
	succeed(&path, 1);
	assert_true(check_next(&path.check, true));
	reset(&path);
	succeed(&path, 1024);
	json_object_put(path.check.findings);
}

/*
 * Another session may end, and one of these a little later there than here, with its memory. What
 * else is missing will be so in a moment.
 */
static void only_a_server_that_may_accept_soon_is_asked_again(void **state)
{
	static const struct {
		enum resource lacking;
		bool verified, busy; /* a session before this one succeeded */
	} cases[] = {
		{ RESOURCE_NOT_SAID, false, true }, { RESOURCE_SESSION, false, true },
		{ RESOURCE_SESSION, true, true },   { RESOURCE_MEMORY, false, false },
		{ RESOURCE_MEMORY, true, true },    { RESOURCE_STORAGE, false, false },
		{ RESOURCE_STORAGE, true, false },  { RESOURCE_OTHER, true, false },
		{ (enum resource)200, true, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct path path;

		start(&path, false);
		if (cases[i].verified)
			succeed(&path, 1);
		assert_true(check_next(&path.check, true));
		reject_lacking(&path, REFUSAL_RESOURCES, cases[i].lacking, OPERATION_READ);
		assert_int_equal(path.check.retry_time > 0, cases[i].busy);
		if (cases[i].busy)
			json_object_put(path.check.findings);
		else
			end(&path, STATUS_REFUSED);
	}
}

/* What is advised of the server contains that; NULL: nothing is. */
static void expect_advice(struct path *path, const char *advice)
{
	if (advice)
		assert_non_null(strstr(found(path, "server", "advice"), advice));
	else
		assert_null(found(path, "server", "advice"));
}

/* What a server tells of itself, in its hello and by its address, where packets have `own` bytes.
 */
static void expect_server(bool iwarp, unsigned int own, enum ibv_mtu mtu, const char *gid,
			  const char *device, const char *text, const char *advice)
{
	struct connection connection = verified;
	struct path path;

	start(&path, iwarp);
	path.check.mtu = own;
	snprintf(path.check.gid, sizeof(path.check.gid), "%s", gid);
	snprintf(connection.peer, sizeof(connection.peer), "peer");
	connection.agreement.peer_mtu = mtu;
	snprintf(connection.agreement.peer_device, sizeof(connection.agreement.peer_device), "%s",
		 device);
	assert_true(check_next(&path.check, true));
	check_session(&path.check, &connection);
	assert_string_equal(found(&path, "server", "status"), "ok");
	assert_string_equal(found(&path, "server", "text"), text);
	expect_advice(&path, advice);
	json_object_put(path.check.findings);
}

static void a_server_whose_mtu_differs_is_reported_with_both(void **state)
{
	(void)state;
	expect_server(false, MTU, IBV_MTU_4096, "::1", "rdma0",
		      "peer: rdma-server read, device rdma0, GID ::1, MTU of its port 4096 bytes",
		      NULL);
	expect_server(false, MTU, IBV_MTU_256, "", "",
		      "peer: rdma-server read, MTU of its port 256 bytes",
		      "is 4096 bytes here and 256 there: set it the same on both hosts and between "
		      "('ip link set ... mtu'), or packets above 256 bytes");
	expect_server(false, MTU, (enum ibv_mtu)0, "", "", "peer: rdma-server read", NULL);
	expect_server(false, MTU, (enum ibv_mtu)6, "", "", "peer: rdma-server read", NULL);
	expect_server(false, 0, IBV_MTU_256, "", "",
		      "peer: rdma-server read, MTU of its port 256 bytes", NULL);
	expect_server(true, MTU, IBV_MTU_256, "", "x", "peer: rdma-server read, device x", NULL);
}

/* After as many sizes that were verified, silence: neither direction is seen to work, or both are.
 */
static void be_silent(struct path *path, size_t passed, bool arrived)
{
	static const uint64_t sizes[] = { 1, 1024, MTU - 1, MTU, MTU + 1, 65536, 1048576 };
	const struct connection silence = {
		.status = STATUS_TIMED_OUT,
		.cause = "silence",
		.protocol = { .connected = true,
			      .local = arrived ? LOCAL_OPERATION_COMPLETED : LOCAL_OPERATION_POSTED,
			      .remote = arrived ? REMOTE_DONE : REMOTE_MR },
	};

	for (size_t i = 0; i < passed; i++)
		succeed(path, sizes[i]);
	assert_true(check_next(&path->check, true));
	assert_int_equal(path->check.session.pattern_size, sizes[passed]);
	check_session(&path->check, &silence);
	if (passed == 0)
		return;
	answer(path, STATUS_SUCCESS);
	if (arrived)
		return;
	assert_true(check_next(&path->check, true));
	assert_true(path->check.session.short_reply);
	check_session(&path->check, &silence);
}

static void what_to_change_depends_on_what_had_passed(void **state)
{
	static const struct {
		size_t passed;
		const char *advice;
	} cases[] = {
		{ 0, "not a byte passes in one direction at least, though the connection stands: "
		     "let the firewalls pass UDP port 4791 whatever the other port is" },
		/* with the headers of a WRITE, and its payload in whole words */
		{ 2, "packets above 1024 bytes vanish from client to server, at 4095 at the "
		     "latest: a host or switch on the path has a smaller MTU than the adapters "
		     "use, 4096 bytes and headers; set it the same everywhere ('ip link set ... "
		     "mtu', and the ports of switches; 'ping -M do -s 4128' from both hosts tries "
		     "it)" },
		{ 3, "packets above 4095 bytes vanish from client to server, at 4096 at the "
		     "latest: a host or switch on the path has a smaller MTU than the adapters "
		     "use, 4096 bytes and headers; set it the same everywhere ('ip link set ... "
		     "mtu', and the ports of switches; 'ping -M do -s 4128' from both hosts tries "
		     "it)" },
		/* a packet of 4096 bytes was verified: 4097 travel as that, and one byte */
		{ 4, "packets of every size pass, but not so many of them from client to server: "
		     "look at the counters, at flow control (PFC, ECN), and at cables and "
		     "switches" },
		{ 5, "packets of every size pass, but not so many of them from client to server: "
		     "look at the counters, at flow control (PFC, ECN), and at cables and "
		     "switches" },
	};
	struct path path;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start(&path, false);
		be_silent(&path, cases[i].passed, false);
		assert_string_equal(found(&path, "transfer", "advice"), cases[i].advice);
		end(&path, STATUS_TIMED_OUT);
	}
	start(&path, true);
	be_silent(&path, 0, false);
	assert_non_null(strstr(found(&path, "transfer", "advice"), "pass the TCP port whatever"));
	end(&path, STATUS_TIMED_OUT);
	start(&path, false); /* all has arrived: packets are not to blame */
	be_silent(&path, 2, true);
	expect_directions(&path, "arrived", "arrived");
	assert_null(found(&path, "transfer", "advice"));
	end(&path, STATUS_TIMED_OUT);
}

/* No connection came about for so many bytes, after as many sizes that were verified. */
static void expect_refusal(bool iwarp, size_t passed, const char *bytes, enum status status,
			   const char *advice)
{
	static const uint64_t sizes[] = { 1, 1024 };
	const struct connection connection = { .status = status, .cause = "no", .peer = "peer" };
	struct path path;
	char text[64];

	snprintf(text, sizeof(text), "peer: with %s: no", bytes);
	start(&path, iwarp);
	for (size_t i = 0; i < passed; i++)
		succeed(&path, sizes[i]);
	assert_true(check_next(&path.check, true));
	check_session(&path.check, &connection);
	assert_string_equal(found(&path, "server", "status"), "failed");
	assert_string_equal(found(&path, "server", "text"), text);
	expect_advice(&path, advice);
	end(&path, status);
}

static void what_to_change_where_no_connection_stood(void **state)
{
	static const char one_off[] = "took a session, and no other behind it";
	static const char roce[] = "open UDP port 4791", tcp[] = "not this TCP port";

	(void)state;
	expect_refusal(false, 0, "1 byte", STATUS_TIMED_OUT, roce);
	expect_refusal(false, 0, "1 byte", STATUS_PEER_LOST, roce);
	expect_refusal(true, 0, "1 byte", STATUS_TIMED_OUT, tcp);
	expect_refusal(false, 0, "1 byte", STATUS_REFUSED, NULL);
	expect_refusal(true, 0, "1 byte", STATUS_LOCAL_FAILURE, NULL);
	expect_refusal(false, 1, "1024 bytes", STATUS_TIMED_OUT, one_off);
	expect_refusal(true, 1, "1024 bytes", STATUS_REFUSED, one_off);
	expect_refusal(false, 1, "1024 bytes", STATUS_LOCAL_FAILURE, NULL);
	expect_refusal(false, 2, "4095 bytes", STATUS_REFUSED, NULL);
	expect_refusal(true, 2, "4097 bytes", STATUS_PEER_LOST, tcp);
}

/* Ends it with `status`, and prints that to nobody: the findings, where found() looks for them. */
static struct json_object *finish(struct path *path, enum status status, enum status expected)
{
	struct json_object *findings = json_object_get(path->check.findings);
	int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
	bool failed;

	assert_int_equal(console_open(&path->console, nobody, nobody), 0);
	assert_int_equal(check_finish(&path->check, status), expected);
	assert_int_equal(console_drain(&path->console, 10000, -1), DRAINED_ALL);
	assert_int_equal(console_close(&path->console, &failed), 0);
	close(nobody);
	assert_null(path->check.findings);
	path->check.findings = findings;
	return findings;
}

/* A session that succeeds, with the counters from before it and after it. */
static struct connection verified_between(const struct counters *before,
					  const struct counters *after)
{
	struct connection connection = verified;

	connection.counters_before = *before;
	connection.counters_after = *after;
	return connection;
}

static void counters_that_grew_during_all_sessions_are_reported(void **state)
{
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

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct counters before = { .any = cases[i].before }, after;
		struct json_object *findings, *all;
		struct path path;

		start(&path, false);
		for (unsigned int session = 0; session < 2; session++) {
			struct connection connection;

			after = before;
			after.any = cases[i].after;
			after.values[0] += cases[i].first;
			after.values[COUNTERS - 1] += cases[i].last;
			connection = verified_between(&before, &after);
			assert_true(check_next(&path.check, true));
			check_session(&path.check, &connection);
			before.values[0] = after.values[0];
			before.values[COUNTERS - 1] = after.values[COUNTERS - 1];
		}
		findings = finish(&path, STATUS_SUCCESS, STATUS_SUCCESS);
		assert_int_equal(json_object_object_get_ex(findings, "counters", &all),
				 cases[i].text != NULL);
		if (cases[i].text) {
			assert_string_equal(found(&path, "counters", "text"), cases[i].text);
			assert_string_equal(found(&path, "counters", "status"), cases[i].status);
		}
		json_object_put(findings);
	}
}

/* A connection manager that finds a route by an iWARP device to each address. */
static struct {
	struct rdma_cm_id id;
	struct ibv_context verbs;
	struct ibv_device device;
	struct ibv_sa_path_rec path;
} route_to;

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static struct ibv_pd pd;

	(void)context;
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t size, int access)
{
	static struct ibv_mr mr;

	(void)pd;
	(void)memory;
	(void)size;
	(void)access;
	return &mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space space)
{
	(void)channel, (void)context, (void)space;
	route_to.device.transport_type = IBV_TRANSPORT_IWARP;
	route_to.verbs.device = &route_to.device;
	route_to.path.mtu = IBV_MTU_4096;
	route_to.id.verbs = &route_to.verbs;
	*id = &route_to.id;
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
	id->route.path_rec = &route_to.path;
	id->route.num_paths = 1;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

/* Errors that are counted while nobody answers at one address say nothing of the next one. */
static void the_next_address_is_examined_anew(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct addrinfo next = { .ai_family = AF_INET,
				 .ai_addr = (struct sockaddr *)&address,
				 .ai_addrlen = sizeof(address) };
	const struct counters after = { .any = true, .values = { 2 } };
	const struct connection nobody = { .status = STATUS_TIMED_OUT,
					   .cause = "no answer",
					   .counters_before.any = true,
					   .counters_after = after };
	const struct connection answered = verified_between(&after, &after);
	struct json_object *findings;
	struct path path;

	(void)state;
	start(&path, true);
	path.check.untried = &next;
	assert_true(check_next(&path.check, false));
	check_session(&path.check, &nobody);
	assert_true(check_next(&path.check, false));
	assert_null(path.check.untried);
	assert_int_equal(path.check.session.pattern_size, 1);
	check_session(&path.check, &answered);
	findings = finish(&path, STATUS_SUCCESS, STATUS_SUCCESS);
	assert_string_equal(found(&path, "counters", "status"), "ok");
	json_object_put(findings);
}

/* The same, with the object's own words. */
static void expect_end(struct path *path, enum status status, enum status expected,
		       const char *number, const char *error)
{
	struct json_object *findings = finish(path, status, expected), *value;

	assert_true(json_object_object_get_ex(findings, "status", &value));
	assert_string_equal(json_object_get_string(value), number);
	assert_true(json_object_object_get_ex(findings, "error", &value));
	if (error)
		assert_string_equal(json_object_get_string(value), error);
	else
		assert_null(value);
}

static void the_first_failure_decides_how_it_ends_but_for_a_signal(void **state)
{
	const struct connection lost = { .status = STATUS_PEER_LOST,
					 .cause = "lost",
					 .protocol.connected = true };
	struct path path;

	(void)state;
	start(&path, false);
	succeed(&path, 1);
	expect_end(&path, STATUS_SUCCESS, STATUS_SUCCESS, "0", NULL);
	json_object_put(path.check.findings);
	start(&path, false);
	be_silent(&path, 0, false);
	expect_end(&path, STATUS_SUCCESS, STATUS_TIMED_OUT, "5", "silence");
	json_object_put(path.check.findings);
	start(&path, false);
	be_silent(&path, 0, false);
	path.process.signal_number = 15;
	expect_end(&path, STATUS_INTERRUPTED, STATUS_INTERRUPTED, "143", "silence");
	json_object_put(path.check.findings);
	start(&path, false);
	failure_set(&path.process.failure, STATUS_LOCAL_FAILURE, "no memory");
	expect_end(&path, STATUS_LOCAL_FAILURE, STATUS_LOCAL_FAILURE, "1", "no memory");
	json_object_put(path.check.findings);
	start(&path, false); /* whether the server was still there could not be asked */
	succeed(&path, 1);
	assert_true(check_next(&path.check, true));
	check_session(&path.check, &lost);
	expect_end(&path, STATUS_LOCAL_FAILURE, STATUS_PEER_LOST, "6", "lost");
	expect_directions(&path, "not known", "not known");
	assert_string_equal(found(&path, "transfer", "bytes"), "1024");
	json_object_put(path.check.findings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_is_tried_around_the_length_of_a_packet),
		cmocka_unit_test(a_direction_that_works_shows_which_one_does_not),
		cmocka_unit_test(where_neither_direction_is_seen_to_work_another_session_tells),
		cmocka_unit_test(of_a_server_that_is_gone_no_size_is_blamed),
		cmocka_unit_test(a_question_that_could_not_be_asked_has_no_answer),
		cmocka_unit_test(the_mode_of_the_server_is_taken_from_its_rejection_once),
		cmocka_unit_test(the_mode_is_tried_out_where_the_rejection_gives_no_reason),
		cmocka_unit_test(what_the_server_refuses_is_not_repeated),
		cmocka_unit_test(a_server_of_another_version_has_refused),
		cmocka_unit_test(a_busy_server_is_asked_again_until_the_time_is_up),
		cmocka_unit_test(only_a_server_that_may_accept_soon_is_asked_again),
		cmocka_unit_test(a_server_whose_mtu_differs_is_reported_with_both),
		cmocka_unit_test(what_to_change_depends_on_what_had_passed),
		cmocka_unit_test(what_to_change_where_no_connection_stood),
		cmocka_unit_test(counters_that_grew_during_all_sessions_are_reported),
		cmocka_unit_test(the_next_address_is_examined_anew),
		cmocka_unit_test(the_first_failure_decides_how_it_ends_but_for_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
