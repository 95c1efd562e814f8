// SPDX-License-Identifier: MIT
/*
 * Tests of the output: the escaping of a peer's bytes before they reach a terminal; latencies; and
 * each printed line, figure and JSON object.
 */
#include "rdma-common/report.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <locale.h>
#include <wchar.h>

#include "rdma-common/json.h"

#include "unit.h"

/* ---- Text for the terminal and for JSON ---- */

/* Check that `size` bytes are shown as `terminal`, and in JSON as `json` unless that is NULL. */
static void assert_shown(const char *bytes, size_t size, const char *terminal, const char *json)
{
	struct json_object *object = json_object_new_object();
	char *text = escape((const uint8_t *)bytes, size);

	assert_non_null(text);
	assert_string_equal(text, terminal);
	free(text);
	if (json) {
		json_add_text(object, "text", bytes);
		assert_string_equal(json_object_get_string(json_object_object_get(object, "text")),
				    json);
	}
	json_object_put(object);
}

/* Check that everything but ASCII is escaped in a locale without UTF-8, but not in JSON. */
static void assert_escaped_elsewhere(const char *bytes)
{
	static const char *const locales[] = { "C", "no such locale" };
	char expected[256] = "", *end = expected;

	for (const char *byte = bytes; *byte; byte++)
		end += sprintf(end, *byte & 0x80 ? "\\x%02x" : "%c", (uint8_t)*byte);
	EACH_ROW (i, locales) {
		setenv("LC_ALL", locales[i], 1);
		assert_shown(bytes, strlen(bytes), expected, bytes);
	}
	setenv("LC_ALL", "C.UTF-8", 1);
}

/*
 * The cases include the first and last printable character of each length in UTF-8, and the nearest
 * invalid sequences (RFC 3629).
 */
TEST(text_is_shown_and_invalid_characters_are_escaped)
{
	static const char *const shown[] = {
		"",
		"message from active/client side with pid 42",
		"~!@#$%^&*()[]{}\"'",
		"gr\xc3\xbc\xc3\x9f, \xe2\x82\xac \xf0\x9f\x98\x80",
		"\xc2\xa0\xdf\xbf",
		"e\xcc\x81 \xe0\xb8\x97\xe0\xb8\xb5\xe0\xb9\x88", /* combining marks */
		"\xe0\xa0\x80\xe1\xbf\xbe\xec\x80\x80\xee\x80\x80\xef\xbf\xbd",
		"\xf0\x90\x80\x80\xf4\x8f\xbf\xbd",
	};
	static const char *const escaped[][2] = {
		{ "a\xff\xfe z", "a\\xff\\xfe z" },
		{ "\x9b[31m", "\\x9b[31m" }, /* the one-byte form of ESC [ */
		{ "\x80\xbf", "\\x80\\xbf" },
		{ "\xc2", "\\xc2" },
		{ "\xc0\xaf", "\\xc0\\xaf" }, /* an overlong encoding */
		{ "\xc1\xbf", "\\xc1\\xbf" },
		{ "\xc3(", "\\xc3(" }, /* no second byte */
		{ "\xc3\xc0", "\\xc3\\xc0" },
		{ "x\xe2\x82", "x\\xe2\\x82" }, /* cut off at the end */
		{ "\xe2\x82\xc3\xbc", "\\xe2\\x82\xc3\xbc" },
		{ "\xe0\x9f\xbf", "\\xe0\\x9f\\xbf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* half of a surrogate pair */
		{ "\xed\xbf\xbf", "\\xed\\xbf\\xbf" },
		{ "\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* beyond U+10FFFF */
		{ "\xf8\x84\x80\x80\x80", "\\xf8\\x84\\x80\\x80\\x80" },
	};

	EACH_ROW (i, shown) {
		assert_shown(shown[i], strlen(shown[i]), shown[i], shown[i]);
		assert_escaped_elsewhere(shown[i]);
	}
	EACH_ROW (i, escaped)
		assert_shown(escaped[i][0], strlen(escaped[i][0]), escaped[i][1], escaped[i][1]);
	assert_shown("a\0b\0", 4, "a\\x00b\\x00", NULL);
	/* a backslash is doubled, so that it does not look like an escape */
	assert_shown("C:\\x1b \\", 8, "C:\\\\x1b \\\\", "C:\\x1b \\");
}

TEST(invisible_and_control_characters_are_escaped)
{
	/* clang-format off */
	static const unsigned int ranges[][2] = {
		{ 0x01, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x34f, 0x34f }, { 0x61c, 0x61c }, { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	/* clang-format on */
	static const char neighbours[] = "\xc2\xa0\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xb0\xe2\x81\xb0";
	char bytes[8], expected[40], *end;

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	EACH_ROW (i, ranges) {
		for (unsigned int c = ranges[i][0]; c <= ranges[i][1]; c++) {
			mbstate_t fresh = { 0 };
			size_t size = wcrtomb(bytes, (wchar_t)c, &fresh);

			assert_between(size, 1, 4);
			bytes[size] = '\0';
			end = expected;
			for (size_t at = 0; at < size; at++)
				end += sprintf(end, "\\x%02x", (uint8_t)bytes[at]);
			assert_shown(bytes, size, expected, bytes);
		}
	}
	assert_non_null(setlocale(LC_CTYPE, "C"));
	/* no-break space, hyphen, hyphenation point, per mille sign, superscript zero */
	assert_escaped_elsewhere(neighbours);
	assert_shown(neighbours, 14, neighbours, neighbours);
}

/* ---- Excerpts ---- */

/* Check the excerpt of a payload that arrives in pieces of `piece` bytes. */
static void check_excerpt(const uint8_t *bytes, size_t size, size_t piece)
{
	struct excerpt excerpt = { .is_pattern = false };
	bool goes_on = false;

	for (size_t offset = 0; offset < size; offset += piece)
		excerpt_add(&excerpt, bytes + offset,
			    size - offset < piece ? size - offset : piece);
	for (size_t i = SHOWN_PAYLOAD; i < size; i++)
		goes_on |= bytes[i] != 0;
	assert_int_equal(excerpt.size, size);
	assert_int_equal(excerpt.goes_on, goes_on);
	assert_int_equal(excerpt.head_size, size < SHOWN_PAYLOAD ? size : SHOWN_PAYLOAD);
	assert_memory_equal(excerpt.head, bytes, excerpt.head_size);
}

TEST(excerpt_is_the_same_for_every_piece_size)
{
	static const size_t pieces[] = { 1, 7, 63, 64, 65, 1000, 4096 };
	static const size_t last[] = { 0, 5, 1022, 1023, 1024, 1025, 2000, 2998, 2999 };
	uint8_t bytes[3000] = { 0 };

	assert_int_equal(SHOWN_PAYLOAD, 1024);
	EACH_ROW (i, last) {
		bytes[last[i]] = 'x';
		for (size_t size = last[i] + 1; size <= sizeof(bytes); size = size * 5 / 4 + 1) {
			for (size_t j = 0; j < ENTRIES(pieces); j++)
				check_excerpt(bytes, size, pieces[j]);
		}
		bytes[last[i]] = 0;
	}
	check_excerpt(bytes, 0, 1);
	check_excerpt(bytes, sizeof(bytes), 100);
}

/* ---- Latencies ---- */

/* Check that `value` is `expected` within the width of a bucket. */
static void assert_near(int64_t value, int64_t expected)
{
	assert_between(value, expected - expected / 128 - 1, expected + expected / 128 + 1);
}

static struct latency latency;

/* Reset the latencies, and count these times. */
static void count_only(const int64_t *times, size_t count)
{
	memset(&latency, 0, sizeof(latency));
	for (size_t i = 0; i < count; i++)
		latency_count(&latency, times[i]);
}

TEST(quantiles_match_the_counted_latencies)
{
	count_only(NULL, 0);
	for (int64_t number = 1; number <= 10000; number++)
		latency_count(&latency, number * 1000);
	assert_int_equal(latency.total, 10000);
	assert_int_equal(latency.minimum, 1000);
	assert_int_equal(latency.maximum, 10000000);
	assert_near(latency_quantile(&latency, 0.5), 5000000);
	assert_near(latency_quantile(&latency, 0.99), 9900000);
	assert_near(latency_quantile(&latency, 0.999), 9990000);
	assert_near(latency_quantile(&latency, 0), 1000);
}

TEST(each_latency_is_counted_in_a_bucket_near_its_value)
{
	for (int64_t time = 1; time < (int64_t)1 << 59; time += time / 8 + 1) {
		count_only(&time, 1);
		assert_near(latency_quantile(&latency, 0.5), time);
	}
}

/* The middle of a bucket may lie outside the range of the values counted in it. */
TEST(quantiles_lie_within_the_counted_latencies)
{
	static const int64_t lowest[] = { 256, 1025, 98304, 98305, 1000000, 999999999 };

	for (size_t i = 0; i < 3 * ENTRIES(lowest); i++) {
		const int64_t times[] = { lowest[i / 3], lowest[i / 3] + (int64_t)(i % 3) };

		count_only(times, 2);
		for (int share = 0; share <= 10; share++)
			assert_between(latency_quantile(&latency, share / 10.0), times[0],
				       times[1]);
	}
}

/* ---- Printed text ---- */

/* A program whose standard output and standard error are pipes, and a connection that has ended. */
static struct {
	struct console console;
	int readers[STREAMS], writers[STREAMS];
	struct program program;
	struct ibv_context verbs;
	struct rdma_cm_id id;
	struct connection connection;
	struct session thread;
	char printed[STREAMS][8192]; /* set by end() */
} session;

/* Begin a session in which nothing was measured; number 0: the session has no number. */
static void begin(enum role role, unsigned int number)
{
	struct log *log = &session.connection.setup.log;

	memset(&session, 0, sizeof(session));
	session.connection.setup.options = default_options(role);
	for (int i = 0; i < STREAMS; i++) {
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		session.readers[i] = ends[0];
		session.writers[i] = ends[1];
	}
	console_init(&session.console, false);
	assert_int_equal(console_open(&session.console, session.writers[0], session.writers[1]), 0);
	log->console = session.program.log.console = &session.console;
	log->options = session.program.log.options = &session.connection.setup.options;
	if (number)
		snprintf(log->prefix, sizeof(log->prefix), "[%u] ", number);
	session.program.options = &session.connection.setup.options;
	session.connection.setup.program = &session.program;
	session.connection.setup.tos = -1;
	session.connection.session = &session.thread;
}

/* End the session, and collect its output in `printed`. */
static void end(void)
{
	bool failed;

	assert_true(console_drain(&session.console, 10000, -1));
	assert_int_equal(console_close(&session.console, &failed), 0);
	for (int i = 0; i < STREAMS; i++) {
		FILE *reader = fdopen(session.readers[i], "r");

		close(session.writers[i]);
		fread(session.printed[i], 1, sizeof(session.printed[i]) - 1, reader);
		fclose(reader);
	}
}

/* End the session, and check its whole output. */
static void assert_printed(const char *output, const char *error)
{
	end();
	assert_string_equal(session.printed[STREAM_OUTPUT], output);
	assert_string_equal(session.printed[STREAM_ERROR], error);
}

/* End the session, and check that `part` is in standard output. */
static void assert_printed_among(const char *part)
{
	end();
	if (!strstr(session.printed[STREAM_OUTPUT], part))
		fail_msg("'%s' is not in '%s'", part, session.printed[STREAM_OUTPUT]);
}

/*
 * End the session. Check its JSON object (`kind`, version, time, this host, then `rest`) and its
 * standard error.
 */
static void assert_object(const char *kind, const char *rest, const char *error)
{
	const char *text = session.printed[STREAM_OUTPUT];
	char host[64], begins[256];

	end();
	gethostname(host, sizeof(host));
	snprintf(
		begins, sizeof(begins),
		"{ \"kind\": \"%s\", \"schema\": 1, \"version\": \"%s\", \"time\": \"20\?\?-\?\?-\?\?T\?\?:\?\?:\?\?.\?\?\?Z\", "
		"\"host\": \"%s\", ",
		kind, program_version, host);
	assert_string_equal(text + strlen(begins), rest);
	strcat(begins, "*");
	assert_int_equal(fnmatch(begins, text, 0), 0);
	assert_string_equal(session.printed[STREAM_ERROR], error);
}

TEST(status_lines_and_traces_go_to_the_stream_that_the_options_select)
{
	static const struct {
		struct options options;
		const char *output, *error;
	} cases[] = {
		{ { 0 }, "[7] line 1\n", "" },
		{ { .verbose = true }, "[7] line 1\n", "[7] trace 2\n" },
		{ { .output = "file" }, "[7] line 1\n", "" },
		{ { .output = "-" }, "", "[7] line 1\n" },
		{ { .json = true }, "", "[7] line 1\n" },
		{ { .check = true }, "", "" },
		{ { .check = true, .verbose = true }, "", "[7] line 1\n[7] trace 2\n" },
	};

	EACH_ROW (i, cases) {
		begin(ROLE_CLIENT, 7);
		session.connection.setup.options = cases[i].options;
		print_status(&session.connection.setup.log, "line %d", 1);
		print_trace(&session.connection.setup.log, "trace %d", 2);
		assert_printed(cases[i].output, cases[i].error);
	}
}

TEST(long_payload_is_shown_up_to_1024_bytes)
{
	struct excerpt excerpt = { .head = "three\0", .head_size = 100, .size = 100 };
	char expected[4 * SHOWN_PAYLOAD], rest[SHOWN_PAYLOAD];
	const struct log *log = &session.connection.setup.log;

	begin(ROLE_CLIENT, 0);
	print_payload(log, &excerpt);
	memset(excerpt.head, 0, SHOWN_PAYLOAD);
	print_payload(log, &excerpt);
	memset(excerpt.head, 'x', SHOWN_PAYLOAD);
	memset(rest, 'x', SHOWN_PAYLOAD);
	memcpy(excerpt.head, "gr\xc3\xbcn \033", 7);
	excerpt.head_size = SHOWN_PAYLOAD;
	excerpt.size = 12345678901;
	print_payload(log, &excerpt);
	excerpt.head[SHOWN_PAYLOAD - 1] = 0;
	print_payload(log, &excerpt);
	excerpt.goes_on = true;
	print_payload(log, &excerpt);
	excerpt.is_pattern = true;
	print_payload(log, &excerpt);
	snprintf(
		expected, sizeof(expected),
		"remote buffer: three\nremote buffer: \n"
		"remote buffer: gr\xc3\xbcn \\x1b%.1017s\nremote buffer: gr\xc3\xbcn \\x1b%.1016s\n"
		"remote buffer: gr\xc3\xbcn \\x1b%.1016s\\x00... (1024 of 12345678901 bytes)\n"
		"remote buffer: a pattern of 12345678901 bytes\n",
		rest, rest, rest);
	assert_printed(expected, "");
}

/* Set a different value for each measurement: 2000 operations of 1.5 MiB each, in 2 s. */
static void set_measurements(void)
{
	struct connection *connection = &session.connection;
	struct transfer *transfer = &session.thread.transfer;

	session.id.verbs = &session.verbs;
	snprintf(connection->setup.device.text, sizeof(connection->setup.device.text), "rxe0");
	connection->setup.id = &session.id;
	connection->setup.number = 42;
	connection->setup.peer = (struct endpoint){ .address = "192.0.2.1",
						    .port = "7",
						    .text = "192.0.2.1 port 7" };
	connection->setup.terms.one_way = true;
	snprintf(connection->outcome.cause, sizeof(connection->outcome.cause), "it \"failed\"");
	connection->setup.terms.limits.transport = "RoCE";
	connection->setup.terms.limits.depth = 3;
	connection->setup.tos = 104;
	session.thread.protocol = (struct protocol){
		.connected = true, .disconnected = true, .verifying = true, .local = LOCAL_VERIFIED
	};
	transfer->source.stream.plan.length = 1572864;
	transfer->sink.stream.plan.length = 1572864;
	transfer->sink.stored = 77;
	session.thread.measurement = (struct measurement){ .started = 1000000000,
							   .completed = 3000000000,
							   .bytes = 3145728000,
							   .request_bytes = 131072 };
	session.thread.outgoing.nanoseconds = 250000000;
	session.thread.incoming.verification.nanoseconds = 1125000000;
	session.thread.incoming.verification.bytes = 154;
	session.thread.outstanding_messages = 5;
}

/* Count 2000 latencies below 256 ns, where each nanosecond has a bucket of its own. */
static void count_latencies(void)
{
	static const struct {
		int count, nanoseconds;
	} counted[] = { { 1, 50 }, { 1199, 100 }, { 790, 150 }, { 9, 200 }, { 1, 250 } };

	count_only(NULL, 0);
	EACH_ROW (i, counted) {
		for (int number = 0; number < counted[i].count; number++)
			latency_count(&latency, counted[i].nanoseconds);
	}
}

/*
 * The first counter grows by 3, the second was reset, the third grows by 1; a congestion counter
 * grows by 5.
 */
static const struct counters counted_before = { .any = true, .values = { 4, 9, 0 } };
static const struct counters counted_after = { .any = true,
					       .values = { 7, 2, 1, [ERROR_COUNTERS + 1] = 5 } };

/* Set the values of set_measurements(), with latencies and counters. */
static void set_all_measurements(void)
{
	set_measurements();
	count_latencies();
	session.thread.measurement.latency = &latency;
	session.connection.setup.before = counted_before;
	session.connection.after = counted_after;
	session.thread.peer_verdict.counted = true;
	session.thread.peer_verdict.errors = 120;
}

/* clang-format off */
TEST(figures_are_printed_only_if_requested_and_if_the_session_was_established)
{
	struct connection *connection = &session.connection;

	begin(ROLE_CLIENT, 0);
	set_all_measurements();
	report_session(connection); /* figures are not requested */
	session.connection.setup.options.report = true;
	report_session(connection);
	session.connection.setup.options.operation = OPERATION_WRITE;
	session.thread.transfer.plan.writes = true;
	session.thread.measurement.completed = session.thread.measurement.started;
	session.thread.measurement.latency = NULL;
	connection->setup.before.any = false;
	report_session(connection);
	connection->setup.before.any = true;
	session.thread.measurement.bytes = 0; /* only the peer operates */
	connection->after = counted_before;
	connection->after.values[ERROR_COUNTERS + 2] = 9; /* congestion is not an error */
	session.thread.peer_verdict.counted = false;
	session.thread.protocol.disconnected = false;
	report_session(connection);
	session.thread.protocol.connected = false;
	report_session(connection);
	assert_printed(
		"disconnected.\n"
		"disconnected.\n"
		"read 3145728000 bytes in 2000 operations and 2.000000 s: 1572.86 MB/s (1500.00 MiB/s, "
		"12.583 Gbit/s), 1000 operations/s\n"
		"measured with one queue pair, work requests of at most 131072 bytes, "
		"and at most 3 of them outstanding\n"
		"latency in us: minimum 0.05, median 0.10, 99th percentile 0.15, 99.9th 0.20, maximum 0.25\n"
		"the digest of the outgoing payload took 0.250000 s, the verification of the incoming one 1.125000 s\n"
		"counted by rxe0 during the session: duplicate_request 3\n"
		"counted by rxe0 during the session: rcvd_rnr_err 1\n"
		"counted by rxe0 during the session: rx_pause_frames 5\n"
		"errors counted: 4 by this side, 120 by the peer\n"
		"disconnected.\n"
		"wrote 3145728000 bytes in 2000 operations and 0.000000 s: 0.00 MB/s (0.00 MiB/s, 0.000 Gbit/s), "
		"0 operations/s\n"
		"measured with one queue pair, work requests of at most 131072 bytes, "
		"and at most 3 of them outstanding\n"
		"the digest of the outgoing payload took 0.250000 s, the verification of the incoming one 1.125000 s\n"
		"the digest of the outgoing payload took 0.250000 s, the verification of the incoming one 1.125000 s\n"
		"counted by rxe0 during the session: tx_pause_frames 9\n"
		"this host's device counted no errors\n",
		"");
}
/* clang-format on */

TEST(end_of_a_session_reports_disconnect_unfinished_requests_and_failure)
{
	struct connection *connection = &session.connection;

	begin(ROLE_SERVER, 42);
	set_measurements();
	session.connection.setup.options.verbose = true;
	report_session(connection);
	session.thread.protocol.disconnected = false;
	session.thread.outstanding_messages = 0;
	session.thread.outstanding_receives = 6;
	connection->outcome.status = STATUS_TOO_SLOW;
	report_session(connection);
	session.thread.outstanding_receives = 0;
	connection->outcome.status = STATUS_SUCCESS;
	report_session(connection);
	assert_printed("[42] peer disconnected.\n",
		       "[42] 5 sends and 0 receives never completed\n"
		       "[42] 0 sends and 6 receives never completed\n"
		       "report-test: [42] 192.0.2.1 port 7: it \"failed\"\n");
}

TEST(server_prints_one_status_line_for_a_successful_session_of_a_check)
{
	static const struct {
		struct hello client;
		enum operation operation;
		bool verbose;
		enum status status;
		const char *expected, *error;
	} cases[] = {
		/* clang-format off */
		{ { .length = 1, .passes = 1 }, OPERATION_READ, false, STATUS_SUCCESS, "1 byte, verified in both directions\n", "" },
		{ { .length = 4096, .passes = 1 }, OPERATION_WRITE, false, STATUS_SUCCESS, "4096 bytes, verified in both directions\n", "" },
		{ { .length = 65536, .seconds = 1 }, OPERATION_WRITE, false, STATUS_SUCCESS, "rate measured, verified in both directions\n", "" },
		{ { .length = 1, .passes = 1, .wanted_seconds = 1 }, OPERATION_WRITE, false, STATUS_SUCCESS, "rate measured, verified in both directions\n", "" },
		{ { .length = 8, .passes = 1000 }, OPERATION_READ, false, STATUS_SUCCESS, "latency measured, verified in both directions\n", "" },
		{ { .length = 8, .passes = 1 }, OPERATION_READ, true, STATUS_SUCCESS, "8 bytes, verified in both directions\n", "[3] peer disconnected.\n" },
		{ { .length = 8, .passes = 1 }, OPERATION_READ, false, STATUS_PEER_LOST, NULL, "report-test: [3] 192.0.2.1 port 7: it \"failed\"\n" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct connection *connection = &session.connection;
		struct options *own = &session.connection.setup.options;
		struct options program;
		char expected[128] = "";

		begin(ROLE_SERVER, 3);
		set_measurements();
		own->verbose = cases[i].verbose;
		program = *own;
		session.program.options = &program;
		own->check = true;
		own->operation = cases[i].operation;
		connection->setup.terms.peer = cases[i].client;
		session.thread.outstanding_messages = 0;
		connection->outcome.status = cases[i].status;
		report_session(connection);
		if (cases[i].expected)
			snprintf(expected, sizeof(expected), "[3] check from 192.0.2.1: %s",
				 cases[i].expected);
		assert_printed(expected, cases[i].error);
	}
}

TEST(json_result_has_each_measured_value)
{
	static struct ibv_sa_path_rec path = { .mtu = IBV_MTU_2048 };

	begin(ROLE_CLIENT, 42);
	set_all_measurements();
	session.id.route.addr.src_sin6 = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	inet_pton(AF_INET6, "fd00::2", &session.id.route.addr.src_sin6.sin6_addr);
	session.id.route.num_paths = 1;
	session.id.route.path_rec = &path;
	session.connection.setup.options.pattern_size = 1572864;
	session.connection.setup.options.duration_seconds = 2;
	session.connection.setup.options.minimum_rate = 9;
	report_json(&session.connection); /* prints nothing: JSON is not requested */
	session.connection.setup.options.json = session.connection.setup.options.check = true;
	report_json(&session.connection);
	/* clang-format off */
	assert_object("session",
		"\"role\": \"client\", \"session\": 42, \"operation\": \"read\", \"peer\": \"192.0.2.1\", "
		"\"peer_port\": 7, "
		"\"local_address\": \"fd00::2\", \"transport\": \"RoCE\", \"device\": \"rxe0\", \"path_mtu\": 2048, "
		"\"tos\": 104, "
		"\"size\": 1572864, \"iters\": null, \"duration\": 2, \"one_way\": true, \"check\": true, "
		"\"min_rate\": 9, \"timeout\": 10, "
		"\"bytes\": 3145728000, \"operations\": 2000, \"seconds\": 2, \"bytes_per_second\": 1.572864e+09, "
		"\"bits_per_second\": 1.2582912e+10, \"ops_per_second\": 1000, \"request_bytes\": 131072, "
		"\"depth\": 3, "
		"\"latency_us\": { \"min\": 0.05, \"p50\": 0.1, \"p99\": 0.15, \"p999\": 0.2, \"max\": 0.25 }, "
		"\"received_bytes\": 77, "
		"\"verified\": true, \"verified_bytes\": 154, \"error_counters\": { \"duplicate_request\": 3, "
		"\"rcvd_rnr_err\": 1 }, "
		"\"congestion_counters\": { \"rx_pause_frames\": 5 }, \"peer_error_count\": 120, \"status\": 0, "
		"\"error\": null }\n",
		"");
	/* clang-format on */
}

/* At most one pass is reported as received. Wrong contents are not reported as verified. */
TEST(json_distinguishes_received_from_verified_bytes)
{
	static const struct {
		struct protocol protocol;
		uint64_t stored;
		const char *expected;
	} cases[] = {
		/* clang-format off */
		{ { .local = LOCAL_VERIFIED, .verifying = true }, 1572865, "1572864, \"verified\": true, \"verified_bytes\": 154," },
		{ { .local = LOCAL_VERIFIED, .verifying = true, .own_verdict.status = STATUS_CONTENTS_WRONG }, 77, "77, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_VERIFIED }, 77, "77, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_VERIFIED, .verifying = true, .gave_up = true }, 77, "0, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_VERIFYING, .verifying = true }, 77, "0, \"verified\": false, \"verified_bytes\": 0," },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		char expected[128];

		begin(ROLE_SERVER, 0);
		set_measurements();
		session.connection.setup.options.json = true;
		session.connection.setup.terms.one_way = false; /* the client sends a payload */
		session.thread.protocol = cases[i].protocol;
		session.thread.transfer.sink.stored = cases[i].stored;
		report_json(&session.connection);
		snprintf(expected, sizeof(expected), "\"received_bytes\": %s", cases[i].expected);
		assert_printed_among(expected);
	}
}

TEST(json_has_null_for_values_that_were_not_measured)
{
	static const char none[] = "\"seconds\": null, \"bytes_per_second\": null, "
				   "\"bits_per_second\": null, \"ops_per_second\": null,";
	static const struct {
		uint64_t bytes, pass;
		int64_t nanoseconds;
		int operations;
		const char *rates;
	} cases[] = {
		{ 3, 4, 1, 0, none },
		{ 3, 3, 0, 1, none },
		{ 3, 3, 1, 1,
		  "\"seconds\": 1e-09, \"bytes_per_second\": 3e+09, "
		  "\"bits_per_second\": 2.4e+10, \"ops_per_second\": 1e+09," },
	};

	EACH_ROW (i, cases) {
		struct connection *connection = &session.connection;
		char expected[512];

		begin(ROLE_SERVER, 0);
		session.connection.setup.options.json = true;
		session.thread.transfer.plan.writes = true;
		session.thread.transfer.source.stream.plan.length = cases[i].pass;
		session.thread.measurement.completed = cases[i].nanoseconds;
		session.thread.measurement.bytes = cases[i].bytes;
		report_json(connection);
		snprintf(expected, sizeof(expected), "\"operations\": %d, %s \"request_bytes\"",
			 cases[i].operations, cases[i].rates);
		assert_printed_among(expected);
	}
}

TEST(program_without_a_session_prints_its_json_object)
{
	begin(ROLE_CLIENT, 0);
	session.connection.setup.options.json = true;
	session.connection.setup.options.address = "host-a";
	session.connection.setup.options.port = "8";
	session.program.process.signal_number = 15;
	strcpy(session.program.process.failure, "no /dev \xff");
	report_no_session(&session.program, STATUS_INTERRUPTED);
	/* clang-format off */
	assert_object("session",
		"\"role\": \"client\", \"session\": null, \"operation\": \"read\", \"peer\": \"host-a\", "
		"\"peer_port\": 8, "
		"\"local_address\": null, \"transport\": null, \"device\": null, \"path_mtu\": null, \"tos\": null, "
		"\"size\": null, "
		"\"iters\": 1, \"duration\": null, \"one_way\": false, \"check\": false, \"min_rate\": null, "
		"\"timeout\": 10, \"bytes\": 0, "
		"\"operations\": 0, \"seconds\": null, \"bytes_per_second\": null, \"bits_per_second\": null, "
		"\"ops_per_second\": null, "
		"\"request_bytes\": 0, \"depth\": 0, \"latency_us\": null, \"received_bytes\": 0, "
		"\"verified\": false, \"verified_bytes\": 0, "
		"\"error_counters\": null, \"congestion_counters\": null, \"peer_error_count\": null, \"status\": 143, "
		"\"error\": \"no /dev \\\\xff\" }\n",
		"");
	/* clang-format on */
}

TEST(server_reports_its_listening_port)
{
	begin(ROLE_SERVER, 0);
	report_listening(&session.program, 47881);
	assert_printed("listening on port 47881.\n", "");
	begin(ROLE_SERVER, 0);
	session.connection.setup.options.json = true;
	session.connection.setup.options.port = "8"; /* this side's port, not the peer's */
	report_no_session(&session.program, STATUS_LOCAL_FAILURE);
	assert_printed_among("\"peer\": null, \"peer_port\": null");
	begin(ROLE_SERVER, 0);
	session.connection.setup.options.json = true;
	report_listening(&session.program, 47881);
	assert_object("listening", "\"role\": \"server\", \"port\": 47881 }\n",
		      "listening on port 47881.\n");
}

/* ---- Intervals ---- */

TEST(interval_has_its_own_rate_and_errors)
{
	/* clang-format off */
	static const char line[] = "[42] 2.000 to 2.500 s: 6250000 bytes, 12.50 MB/s (0.100 Gbit/s), "
				   "counted in this interval: "
				   "duplicate_request 3, rcvd_rnr_err 1, rx_pause_frames 5\n";
	/* clang-format on */
	const struct interval interval = {
		.session = 42,
		.begin = 2,
		.end = 2.5,
		.bytes = 6250000,
		.growth = { .any = true, .values = { 3, 0, 1, [ERROR_COUNTERS + 1] = 5 } }
	};

	begin(ROLE_SERVER, 42);
	print_interval(&session.connection.setup.log, &(struct interval){ .end = 1 });
	assert_printed("[42] 0.000 to 1.000 s: 0 bytes, 0.00 MB/s (0.000 Gbit/s)\n", "");
	begin(ROLE_SERVER, 42);
	print_interval(&session.connection.setup.log, &interval);
	assert_printed(line, "");
	begin(ROLE_SERVER, 42);
	session.connection.setup.options.json = true;
	print_interval(&session.connection.setup.log, &interval);
	/* clang-format off */
	assert_object("interval",
		      "\"role\": \"server\", \"session\": 42, \"begin\": 2, \"end\": 2.5, \"bytes\": 6250000, "
		      "\"bytes_per_second\": 12500000, "
		      "\"bits_per_second\": 100000000, \"error_counters\": { \"duplicate_request\": 3, "
		      "\"rcvd_rnr_err\": 1 }, "
		      "\"congestion_counters\": { \"rx_pause_frames\": 5 } }\n", line);
	/* clang-format on */
}

/* ---- Progress ---- */

/*
 * Check the text that is drawn on a terminal after `done` of `all` bytes. This function writes the
 * "|" at the end of `expected`.
 */
static void assert_drawn(bool verbose, uint64_t done, uint64_t all, int64_t nanoseconds,
			 const char *expected)
{
	const int before = dup(STDERR_FILENO), terminal = posix_openpt(O_RDWR | O_NOCTTY);
	const struct options options = { .verbose = verbose };
	struct console console;
	const struct log log = { .console = &console, .options = &options };
	char text[256] = "";
	bool failed;
	int line;

	assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	line = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(line >= 0);
	dup2(line, STDERR_FILENO);
	console_init(&console, false);
	assert_int_equal(console_open(&console, before, line), 0);
	print_progress(&log, done, all, nanoseconds);
	assert_true(console_drain(&console, 10000, -1));
	dup2(before, STDERR_FILENO);
	console_close(&console, &failed);
	assert_int_equal(write(line, "|", 1), 1);
	for (size_t size = 0; !strchr(text, '|');) {
		ssize_t count = read(terminal, text + size, sizeof(text) - 1 - size);

		assert_true(count > 0);
		size += (size_t)count;
	}
	assert_string_equal(text, expected);
	close(terminal);
	close(line);
	close(before);
}

#define SECOND INT64_C(1000000000)
#define MIB    ((uint64_t)1 << 20)
#define TIB    ((uint64_t)1 << 40)

TEST(progress_is_drawn_only_after_a_second_on_a_suitable_terminal)
{
	static const struct {
		const char *terminal, *no_color; /* TERM and NO_COLOR. NULL is not set. */
		bool verbose;
		uint64_t done, all;
		int64_t nanoseconds;
		const char *drawn;
	} cases[] = {
		/* clang-format off */
		{ "xterm", "", false, 1023, 2046, SECOND, "\r1023 bytes of 2.0 KiB, 1023 bytes/s, 1 s left\033[K|" },
		{ "xterm", "", false, 1024, UINT64_MAX, 2 * SECOND, "\r1.0 KiB, 512 bytes/s\033[K|" },
		{ "xterm", "", false, 3 * MIB, 13 * MIB, 3 * SECOND / 2, "\r3.0 MiB of 13.0 MiB, 2.0 MiB/s, 5 s left\033[K|" },
		{ "xterm", "", false, TIB, 3072 * TIB, 1024 * SECOND, "\r1.0 TiB of 3072.0 TiB, 1.0 GiB/s, 3144704 s left\033[K|" },
		{ "xterm", "", false, 1024, 2048, SECOND - 1, "|" },
		{ "xterm", "", false, 0, 2048, 2 * SECOND, "|" },
		{ "xterm", "", true, 1024, 2048, 2 * SECOND, "|" },
		{ "xterm", NULL, false, 1024, 2048, 2 * SECOND, "\r1.0 KiB of 2.0 KiB, 512 bytes/s, 2 s left\033[K|" },
		{ "xterm", "1", false, 1024, 2048, 2 * SECOND, "|" },
		{ "dumb", NULL, false, 1024, 2048, 2 * SECOND, "|" },
		{ NULL, NULL, false, 1024, 2048, 2 * SECOND, "|" },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		clearenv();
		if (cases[i].terminal)
			setenv("TERM", cases[i].terminal, 1);
		if (cases[i].no_color)
			setenv("NO_COLOR", cases[i].no_color, 1);
		assert_drawn(cases[i].verbose, cases[i].done, cases[i].all, cases[i].nanoseconds,
			     cases[i].drawn);
	}
}

static int set_up(UNUSED void **state)
{
	return setenv("LC_ALL", "C.UTF-8", 1);
}

RUN_TESTS(set_up, NULL)
