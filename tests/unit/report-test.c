// SPDX-License-Identifier: MIT
/*
 * Output: bytes of a peer, escaped before they reach a terminal, latencies, and each line, figure
 * and JSON object as it is printed.
 */
#include "rdma-common.h"
#include "rdma-common/report.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <locale.h>
#include <wchar.h>
#include <time.h>

#include "unit.h"

/* ---- What reaches the terminal, and JSON ---- */

static void assert_escaped(const char *bytes, size_t size, const char *expected)
{
	char *text = escape((const uint8_t *)bytes, size);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void assert_in_json(const char *value, const char *expected)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "text", value);
	assert_string_equal(json_object_get_string(json_object_object_get(object, "text")),
			    expected);
	json_object_put(object);
}

/* The user's locale is another one, or there is none: all but ASCII is escaped. */
static void assert_escaped_elsewhere(const char *bytes)
{
	static const char *const locales[] = { "C", "no such locale" };
	char expected[256], *end = expected;

	*end = '\0';
	for (const char *byte = bytes; *byte; byte++)
		end += sprintf(end, *byte & 0x80 ? "\\x%02x" : "%c", (uint8_t)*byte);
	for (size_t i = 0; i < ENTRIES(locales); i++) {
		setenv("LC_ALL", locales[i], 1);
		assert_escaped(bytes, strlen(bytes), expected);
		assert_in_json(bytes, bytes); /* which does not depend on it */
	}
	setenv("LC_ALL", "C.UTF-8", 1);
}

/* Of each length of UTF-8 the first and the last, and what is just no such character (RFC 3629). */
TEST(text_is_shown_and_what_is_no_character_is_escaped)
{
	static const char *const shown[] = {
		"",
		"message from active/client side with pid 42",
		"~!@#$%^&*()[]{}\"'",
		"gr\xc3\xbc\xc3\x9f, \xe2\x82\xac \xf0\x9f\x98\x80",
		"\xc2\xa0\xdf\xbf",
		"e\xcc\x81 \xe0\xb8\x97\xe0\xb8\xb5\xe0\xb9\x88", /* marks on what is before them */
		"\xe0\xa0\x80\xe1\xbf\xbe\xec\x80\x80\xee\x80\x80\xef\xbf\xbd",
		"\xf0\x90\x80\x80\xf4\x8f\xbf\xbd",
	};
	static const char *const escaped[][2] = {
		{ "a\xff\xfe z", "a\\xff\\xfe z" },
		{ "\x9b[31m", "\\x9b[31m" }, /* the one-byte form of ESC [ */
		{ "\x80\xbf", "\\x80\\xbf" },
		{ "\xc2", "\\xc2" },
		{ "\xc0\xaf", "\\xc0\\xaf" }, /* overlong */
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

	for (size_t i = 0; i < ENTRIES(shown); i++) {
		assert_escaped(shown[i], strlen(shown[i]), shown[i]);
		assert_in_json(shown[i], shown[i]);
		assert_escaped_elsewhere(shown[i]);
	}
	for (size_t i = 0; i < ENTRIES(escaped); i++) {
		assert_escaped(escaped[i][0], strlen(escaped[i][0]), escaped[i][1]);
		assert_in_json(escaped[i][0], escaped[i][1]);
	}
	assert_escaped("a\0b\0", 4, "a\\x00b\\x00");
	assert_escaped("C:\\x1b \\", 8, "C:\\\\x1b \\\\"); /* told from an escape */
	assert_in_json("C:\\x1b \\", "C:\\x1b \\");
}

/* What it would obey, and what is invisible or changes how other characters are shown. */
TEST(what_a_terminal_would_not_show_in_its_place_is_escaped)
{
	static const unsigned int ranges[][2] = {
		{ 0x01, 0x1f },       { 0x7f, 0x9f },       { 0xad, 0xad },
		{ 0x34f, 0x34f },     { 0x61c, 0x61c },     { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};
	char bytes[8], expected[40], *end;

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	for (size_t i = 0; i < ENTRIES(ranges); i++) {
		for (unsigned int c = ranges[i][0]; c <= ranges[i][1]; c++) {
			mbstate_t fresh = { 0 };
			size_t size = wcrtomb(bytes, (wchar_t)c, &fresh);

			assert_in_range(size, 1, 4);
			bytes[size] = '\0';
			end = expected;
			for (size_t at = 0; at < size; at++)
				end += sprintf(end, "\\x%02x", (uint8_t)bytes[at]);
			assert_escaped(bytes, size, expected);
			assert_in_json(bytes, bytes);
		}
	}
	assert_non_null(setlocale(LC_CTYPE, "C"));
	/* their neighbours: no-break space, hyphen, hyphenation point, per mille sign, exponent */
	assert_escaped_elsewhere("\xc2\xa0\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xb0\xe2\x81\xb0");
	assert_escaped("\xc2\xa0\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xb0\xe2\x81\xb0", 14,
		       "\xc2\xa0\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xb0\xe2\x81\xb0");
}

/* ---- Excerpts ---- */

/* What an excerpt says of a payload that comes in pieces of this size, against what is there. */
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

TEST(an_excerpt_is_the_same_in_whatever_pieces_the_payload_comes)
{
	static const size_t pieces[] = { 1, 7, 63, 64, 65, 1000, 4096 };
	static const size_t last[] = { 0, 5, 1022, 1023, 1024, 1025, 2000, 2998, 2999 };
	uint8_t bytes[3000] = { 0 };

	assert_int_equal(SHOWN_PAYLOAD, 1024);
	for (size_t i = 0; i < ENTRIES(last); i++) {
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

/* Checks that `value` is `expected` but for the width of a bucket. */
static void assert_near(int64_t value, int64_t expected)
{
	assert_in_range(value, expected - expected / 128 - 1, expected + expected / 128 + 1);
}

static struct latency latency;

/* Begins anew, with these times. */
static void count_anew(const int64_t *times, size_t count)
{
	memset(&latency, 0, sizeof(latency));
	for (size_t i = 0; i < count; i++)
		latency_count(&latency, times[i]);
}

TEST(quantiles_are_those_of_what_was_counted)
{
	count_anew(NULL, 0);
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

TEST(every_time_has_a_bucket_near_it)
{
	for (int64_t time = 1; time < (int64_t)1 << 59; time += time / 8 + 1) {
		count_anew(&time, 1);
		assert_near(latency_quantile(&latency, 0.5), time);
	}
}

/* The middle of a bucket may be beyond all that is in it. */
TEST(no_quantile_lies_outside_of_what_was_counted)
{
	static const int64_t lowest[] = { 256, 1025, 98304, 98305, 1000000, 999999999 };

	for (size_t i = 0; i < 3 * ENTRIES(lowest); i++) {
		const int64_t times[] = { lowest[i / 3], lowest[i / 3] + (int64_t)(i % 3) };

		count_anew(times, 2);
		for (int share = 0; share <= 10; share++)
			assert_in_range(latency_quantile(&latency, share / 10.0), times[0],
					times[1]);
	}
}

/* ---- What is printed ---- */

/* A program whose standard output and standard error are pipes. */
struct program {
	struct options options;
	struct console console;
	int readers[STREAMS], writers[STREAMS];
};

static void start(struct program *program, enum role role)
{
	program->options = default_options(role);
	for (int i = 0; i < STREAMS; i++) {
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		program->readers[i] = ends[0];
		program->writers[i] = ends[1];
	}
	console_init(&program->console, program->options.json);
	assert_int_equal(console_open(&program->console, program->writers[0], program->writers[1]),
			 0);
}

/* Ends it, and takes all that it has printed. */
static void take_printed(struct program *program, char texts[STREAMS][8192])
{
	bool failed;

	assert_true(console_drain(&program->console, 10000, -1));
	assert_int_equal(console_close(&program->console, &failed), 0);
	for (int i = 0; i < STREAMS; i++) {
		FILE *reader = fdopen(program->readers[i], "r");

		close(program->writers[i]);
		texts[i][fread(texts[i], 1, 8191, reader)] = '\0';
		fclose(reader);
	}
}

/* All that it has printed is this. */
static void assert_printed(struct program *program, const char *output, const char *error)
{
	char texts[STREAMS][8192];

	take_printed(program, texts);
	assert_string_equal(texts[STREAM_OUTPUT], output);
	assert_string_equal(texts[STREAM_ERROR], error);
}

/* This is in what it has printed on standard output. */
static void assert_printed_among(struct program *program, const char *part)
{
	char texts[STREAMS][8192];

	take_printed(program, texts);
	if (!strstr(texts[STREAM_OUTPUT], part))
		fail_msg("'%s' is not in '%s'", part, texts[STREAM_OUTPUT]);
}

/* All that it has printed is an object of that kind, made now and here, with this behind that. */
static void assert_object(struct program *program, const char *kind, const char *rest,
			  const char *error)
{
	char texts[STREAMS][8192], begin[80], host[64], expected[64];
	struct tm made = { 0 };
	int milliseconds, end = 0;

	take_printed(program, texts);
	snprintf(begin, sizeof(begin), "{ \"kind\": \"%s\", \"version\": \"%s\", \"time\": \"",
		 kind, PROGRAM_VERSION);
	assert_memory_equal(texts[STREAM_OUTPUT], begin, strlen(begin));
	assert_int_equal(sscanf(texts[STREAM_OUTPUT] + strlen(begin),
				"%4d-%2d-%2dT%2d:%2d:%2d.%3dZ\", \"host\": \"%63[^\"]\", %n",
				&made.tm_year, &made.tm_mon, &made.tm_mday, &made.tm_hour,
				&made.tm_min, &made.tm_sec, &milliseconds, host, &end),
			 8);
	made.tm_year -= 1900;
	made.tm_mon--;
	assert_in_range(time(NULL) - timegm(&made), 0, 60);
	gethostname(expected, sizeof(expected));
	assert_string_equal(host, expected);
	assert_string_equal(texts[STREAM_OUTPUT] + strlen(begin) + end, rest);
	assert_string_equal(texts[STREAM_ERROR], error);
}

TEST(status_lines_go_where_standard_output_is_not_taken)
{
	static const struct {
		bool json, check, verbose;
		const char *output_file, *output, *error;
	} cases[] = {
		{ .output = "[7] line 1\n", .error = "" },
		{ .verbose = true, .output = "[7] line 1\n", .error = "[7] trace 2\n" },
		{ .output_file = "file", .output = "[7] line 1\n", .error = "" },
		{ .output_file = "-", .output = "", .error = "[7] line 1\n" },
		{ .json = true, .output = "", .error = "[7] line 1\n" },
		{ .check = true, .output = "", .error = "" },
		{ .check = true,
		  .verbose = true,
		  .output = "",
		  .error = "[7] line 1\n[7] trace 2\n" },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct program program;
		const struct log log = { .console = &program.console,
					 .options = &program.options,
					 .prefix = "[7] " };

		start(&program, ROLE_CLIENT);
		program.options.json = cases[i].json;
		program.options.check = cases[i].check;
		program.options.verbose = cases[i].verbose;
		program.options.output = cases[i].output_file;
		print_status(&log, "line %d", 1);
		print_trace(&log, "trace %d", 2);
		assert_printed(&program, cases[i].output, cases[i].error);
	}
}

TEST(a_payload_is_shown_up_to_a_screen_of_text)
{
	struct excerpt excerpt = { .head = "three\0", .head_size = 100, .size = 100 };
	char expected[4 * SHOWN_PAYLOAD], rest[SHOWN_PAYLOAD];
	struct program program;
	const struct log log = { .console = &program.console, .options = &program.options };

	start(&program, ROLE_CLIENT);
	print_payload(&log, &excerpt);
	memset(excerpt.head, 0, SHOWN_PAYLOAD);
	print_payload(&log, &excerpt);
	memset(excerpt.head, 'x', SHOWN_PAYLOAD);
	memset(rest, 'x', SHOWN_PAYLOAD);
	memcpy(excerpt.head, "gr\xc3\xbcn \033", 7);
	excerpt.head_size = SHOWN_PAYLOAD;
	excerpt.size = 12345678901;
	print_payload(&log, &excerpt);
	excerpt.head[SHOWN_PAYLOAD - 1] = 0;
	print_payload(&log, &excerpt);
	excerpt.goes_on = true;
	print_payload(&log, &excerpt);
	excerpt.is_pattern = true;
	print_payload(&log, &excerpt);
	snprintf(
		expected, sizeof(expected),
		"remote buffer: three\nremote buffer: \n"
		"remote buffer: gr\xc3\xbcn \\x1b%.1017s\nremote buffer: gr\xc3\xbcn \\x1b%.1016s\n"
		"remote buffer: gr\xc3\xbcn \\x1b%.1016s\\x00... (1024 of 12345678901 bytes)\n"
		"remote buffer: a pattern of 12345678901 bytes\n",
		rest, rest, rest);
	assert_printed(&program, expected, "");
}

/* A program, and a connection of it that is joined. */
struct session {
	struct program program;
	struct engine engine;
	struct ibv_device device;
	struct ibv_context verbs;
	struct rdma_cm_id id;
	struct connection connection;
};

/* A session in which nothing was measured, and nothing happened. */
static void begin(struct session *session, enum role role, unsigned int number)
{
	memset(session, 0, sizeof(*session));
	start(&session->program, role);
	session->engine.options = &session->program.options;
	session->engine.log = (struct log){ .console = &session->program.console,
					    .options = &session->program.options };
	session->connection.engine = &session->engine;
	session->connection.options = &session->program.options;
	session->connection.log = (struct log){ .console = &session->program.console,
						.options = &session->program.options };
	if (number)
		snprintf(session->connection.log.prefix, sizeof(session->connection.log.prefix),
			 "[%u] ", number);
	session->connection.tos = -1;
}

/* Each number of it is another one: 2000 operations on 1.5 MiB each, in 2 s. */
static void measure(struct session *session)
{
	struct connection *connection = &session->connection;
	struct transfer *transfer = &connection->transfer;

	snprintf(session->device.name, sizeof(session->device.name), "rxe0");
	session->verbs.device = &session->device;
	session->id.verbs = &session->verbs;
	connection->id = &session->id;
	connection->number = 42;
	connection->peer = (struct endpoint){ .address = "192.0.2.1",
					      .port = "7",
					      .text = "192.0.2.1 port 7" };
	connection->one_way = true;
	snprintf(connection->cause, sizeof(connection->cause), "it \"failed\"");
	connection->limits.transport = "RoCE";
	connection->limits.depth = 3;
	connection->tos = 104;
	connection->protocol = (struct protocol){
		.connected = true, .disconnected = true, .verifying = true, .local = LOCAL_CHECKED
	};
	transfer->source.stream.plan.length = 1572864;
	transfer->sink.stream.plan.length = 1572864;
	transfer->sink.kept = 77;
	connection->figures = (struct figures){ .started = 1000000000,
						.completed = 3000000000,
						.bytes = 3145728000,
						.request_bytes = 131072 };
	connection->outgoing.nanoseconds = 250000000;
	connection->incoming.verification.nanoseconds = 1125000000;
	connection->incoming.verification.bytes = 154;
	connection->outstanding_messages = 5;
}

/* 2000 latencies, in buckets that are no wider than a nanosecond. */
static void count_latencies(void)
{
	static const struct {
		int count, nanoseconds;
	} counted[] = { { 1, 50 }, { 1199, 100 }, { 790, 150 }, { 9, 200 }, { 1, 250 } };

	count_anew(NULL, 0);
	for (size_t i = 0; i < ENTRIES(counted); i++) {
		for (int number = 0; number < counted[i].count; number++)
			latency_count(&latency, counted[i].nanoseconds);
	}
}

/* The first counter grows by 3, the second has been reset, the third grows by 1; a wait, by 5. */
static const struct counters counted_before = { .any = true, .values = { 4, 9, 0 } };
static const struct counters counted_after = { .any = true,
					       .values = { 7, 2, 1, [ERROR_COUNTERS + 1] = 5 } };

static struct counting counting;

/* The same with latencies and counters. */
static void measure_all(struct session *session)
{
	measure(session);
	count_latencies();
	session->connection.figures.latency = &latency;
	counting = (struct counting){ .before = counted_before, .after = counted_after };
	session->connection.counting = &counting;
	session->connection.peer_verdict.errors = 121; /* one more than there are */
}

TEST(figures_are_printed_of_a_session_that_stood)
{
	struct session session;
	struct connection *connection = &session.connection;

	begin(&session, ROLE_CLIENT, 0);
	measure_all(&session);
	report_session(connection); /* nobody asks for figures */
	session.program.options.report = true;
	report_session(connection);
	session.program.options.operation = OPERATION_WRITE;
	connection->transfer.plan.writes = true;
	connection->figures.completed = connection->figures.started;
	connection->figures.latency = NULL;
	counting.before.any = false;
	report_session(connection);
	counting.before.any = true;
	connection->figures.bytes = 0; /* the peer alone has an operation */
	counting.after = counted_before;
	counting.after.values[COUNTERS - 1] = 9; /* waits are no errors */
	connection->peer_verdict.errors = 0;     /* it has not told */
	connection->protocol.disconnected = false;
	report_session(connection);
	connection->protocol.connected = false;
	report_session(connection);
	assert_printed(
		&session.program,
		"disconnected.\n"
		"disconnected.\n"
		"read 3145728000 bytes in 2000 operations and 2.000000 s: 1572.86 MB/s (1500.00 "
		"MiB/s, 12.583 Gbit/s), 1000 operations/s\n"
		"measured with one queue pair, work requests of at most 131072 bytes, and at most "
		"3 of them outstanding\n"
		"latency in us: minimum 0.05, median 0.10, 99th percentile 0.15, 99.9th 0.20, "
		"maximum 0.25\n"
		"digests took 0.250000 s for the outgoing payload, 1.125000 s for the incoming "
		"payload\n"
		"counted by rxe0 meanwhile: duplicate_request 3\n"
		"counted by rxe0 meanwhile: rcvd_rnr_err 1\n"
		"counted by rxe0 meanwhile: rx_pause_frames 5\n"
		"errors counted: 4 here, 120 there\n"
		"disconnected.\n"
		"wrote 3145728000 bytes in 2000 operations and 0.000000 s: 0.00 MB/s (0.00 MiB/s, "
		"0.000 Gbit/s), 0 operations/s\n"
		"measured with one queue pair, work requests of at most 131072 bytes, and at most "
		"3 of them outstanding\n"
		"digests took 0.250000 s for the outgoing payload, 1.125000 s for the incoming "
		"payload\n"
		"digests took 0.250000 s for the outgoing payload, 1.125000 s for the incoming "
		"payload\n"
		"counted by rxe0 meanwhile: tx_pause_frames 9\n"
		"no errors counted by rxe0\n",
		"");
}

TEST(the_end_of_a_session_is_reported_by_who_left_and_why)
{
	struct session session;
	struct connection *connection = &session.connection;

	begin(&session, ROLE_SERVER, 42);
	measure(&session);
	session.program.options.verbose = true;
	report_session(connection);
	connection->protocol.disconnected = false;
	connection->outstanding_messages = 0;
	connection->outstanding_receives = 6;
	connection->status = STATUS_TOO_SLOW;
	report_session(connection);
	connection->outstanding_receives = 0;
	connection->status = STATUS_SUCCESS;
	report_session(connection);
	assert_printed(&session.program, "[42] peer disconnected.\n",
		       "[42] 5 sends and 0 receives never completed\n"
		       "[42] 0 sends and 6 receives never completed\n"
		       "report-test: [42] 192.0.2.1 port 7: it \"failed\"\n");
}

TEST(an_outcome_in_json_has_all_that_was_measured)
{
	static struct ibv_sa_path_rec path = { .mtu = IBV_MTU_2048 };
	struct session session;

	begin(&session, ROLE_CLIENT, 42);
	measure_all(&session);
	session.id.route.addr.src_sin6 = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	inet_pton(AF_INET6, "fd00::2", &session.id.route.addr.src_sin6.sin6_addr);
	session.id.route.num_paths = 1;
	session.id.route.path_rec = &path;
	session.program.options.pattern_size = 1572864;
	session.program.options.duration_seconds = 2;
	session.program.options.every_pass = true;
	session.program.options.minimum_rate = 9;
	report_json(&session.connection); /* nobody asks for it */
	session.program.options.json = true;
	report_json(&session.connection);
	assert_object(
		&session.program, "session",
		"\"role\": \"client\", \"session\": 42, \"operation\": \"read\", "
		"\"peer\": \"192.0.2.1\", \"peer_port\": 7, \"local_address\": \"fd00::2\", "
		"\"transport\": \"RoCE\", \"device\": \"rxe0\", \"path_mtu\": 2048, \"tos\": 104, "
		"\"size\": 1572864, \"iters\": null, \"duration\": 2, \"one_way\": true, "
		"\"verify_all\": true, \"min_rate\": 9, \"timeout\": 10, "
		"\"bytes\": 3145728000, \"operations\": 2000, "
		"\"seconds\": 2, \"bytes_per_second\": 1.572864e+09, "
		"\"bits_per_second\": 1.2582912e+10, \"ops_per_second\": 1000, "
		"\"request_bytes\": 131072, \"depth\": 3, "
		"\"latency_us\": { \"min\": 0.05, \"p50\": 0.1, \"p99\": 0.15, \"p999\": 0.2, "
		"\"max\": 0.25 }, \"received_bytes\": 77, \"verified\": true, "
		"\"verified_bytes\": 154, "
		"\"errors_counted\": { \"duplicate_request\": 3, \"rcvd_rnr_err\": 1 }, "
		"\"waits_counted\": { \"rx_pause_frames\": 5 }, \"errors_counted_by_peer\": 120, "
		"\"status\": 0, \"error\": null }\n",
		"");
}

/* So much of the incoming payload is here, of one pass; what of it is not right is not verified. */
TEST(what_was_received_is_told_from_what_was_verified)
{
	static const struct {
		struct protocol protocol;
		uint64_t kept;
		const char *expected;
	} cases[] = {
		{ { .local = LOCAL_CHECKED, .verifying = true },
		  1572865,
		  "\"received_bytes\": 1572864, \"verified\": true, \"verified_bytes\": 154," },
		{ { .local = LOCAL_CHECKED, .verifying = true, .check = STATUS_CONTENTS_WRONG },
		  77,
		  "\"received_bytes\": 77, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_CHECKED },
		  77,
		  "\"received_bytes\": 77, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_CHECKED, .verifying = true, .gave_up = true },
		  77,
		  "\"received_bytes\": 0, \"verified\": false, \"verified_bytes\": 0," },
		{ { .local = LOCAL_CHECKING, .verifying = true },
		  77,
		  "\"received_bytes\": 0, \"verified\": false, \"verified_bytes\": 0," },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct session session;

		begin(&session, ROLE_SERVER, 0);
		measure(&session);
		session.program.options.json = true;
		session.connection.protocol = cases[i].protocol;
		session.connection.transfer.sink.kept = cases[i].kept;
		report_json(&session.connection);
		assert_printed_among(&session.program, cases[i].expected);
	}
}

/* Of a stream whose length nobody knew there is one operation. */
TEST(what_was_not_measured_is_null_in_json)
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
		{ 3, LENGTH_UNKNOWN, 0, 1, none },
		{ 0, LENGTH_UNKNOWN, 0, 0, none },
		{ 3, 0, 0, 1, none },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct session session;
		struct connection *connection = &session.connection;
		char expected[512];

		begin(&session, ROLE_SERVER, 0);
		session.program.options.json = true;
		connection->transfer.plan.writes = true;
		connection->transfer.source.stream.plan.length = cases[i].pass;
		connection->figures.completed = cases[i].nanoseconds;
		connection->figures.bytes = cases[i].bytes;
		report_json(connection);
		snprintf(expected, sizeof(expected), "\"operations\": %d, %s \"request_bytes\"",
			 cases[i].operations, cases[i].rates);
		assert_printed_among(&session.program, expected);
	}
}

TEST(a_program_without_a_session_has_its_object_in_json_too)
{
	struct session session;

	begin(&session, ROLE_CLIENT, 0);
	session.program.options.json = true;
	session.program.options.address = "host-a";
	session.program.options.port = "8";
	session.engine.process.signal_number = 15;
	failure_set(&session.engine.process.failure, STATUS_UNRESOLVED, "no /dev \xff");
	report_no_session(&session.engine, STATUS_INTERRUPTED);
	assert_object(
		&session.program, "session",
		"\"role\": \"client\", \"session\": null, \"operation\": \"read\", "
		"\"peer\": \"host-a\", \"peer_port\": 8, \"local_address\": null, "
		"\"transport\": null, \"device\": null, \"path_mtu\": null, \"tos\": null, "
		"\"size\": null, \"iters\": 1, \"duration\": null, \"one_way\": false, "
		"\"verify_all\": false, \"min_rate\": null, \"timeout\": 10, "
		"\"bytes\": 0, \"operations\": 0, "
		"\"seconds\": null, \"bytes_per_second\": null, "
		"\"bits_per_second\": null, \"ops_per_second\": null, "
		"\"request_bytes\": 0, \"depth\": 0, \"latency_us\": null, "
		"\"received_bytes\": 0, \"verified\": false, \"verified_bytes\": 0, "
		"\"errors_counted\": null, \"waits_counted\": null, "
		"\"errors_counted_by_peer\": null, \"status\": 143, \"error\": \"no /dev \\\\xff\" }\n",
		"");
}

TEST(a_server_says_where_it_listens_in_json_too)
{
	struct session session;

	begin(&session, ROLE_SERVER, 0);
	report_listening(&session.engine, 47881);
	assert_printed(&session.program, "listening on port 47881.\n", "");
	begin(&session, ROLE_SERVER, 0);
	session.program.options.json = true;
	session.program.options.port = "8"; /* which is no peer's */
	report_no_session(&session.engine, STATUS_LOCAL_FAILURE);
	assert_printed_among(&session.program, "\"peer\": null, \"peer_port\": null");
	begin(&session, ROLE_SERVER, 0);
	session.program.options.json = true;
	report_listening(&session.engine, 47881);
	assert_object(&session.program, "listening", "\"role\": \"server\", \"port\": 47881 }\n",
		      "listening on port 47881.\n");
}

/* ---- Intervals ---- */

TEST(an_interval_has_its_own_rate_and_errors)
{
	const struct interval interval = {
		.session = 42,
		.begin = 2,
		.end = 2.5,
		.bytes = 6250000,
		.growth = { .any = true, .values = { 3, 0, 1, [ERROR_COUNTERS + 1] = 5 } }
	};
	struct program program;
	const struct log log = { .console = &program.console,
				 .options = &program.options,
				 .prefix = "[42] " };

	start(&program, ROLE_SERVER);
	print_interval(&log, &(struct interval){ .end = 1 });
	print_interval(&log, &interval);
	assert_printed(&program,
		       "[42] 0.000 to 1.000 s: 0 bytes, 0.00 MB/s (0.000 Gbit/s)\n"
		       "[42] 2.000 to 2.500 s: 6250000 bytes, 12.50 MB/s (0.100 Gbit/s), counted "
		       "meanwhile: duplicate_request 3, rcvd_rnr_err 1, rx_pause_frames 5\n",
		       "");
	start(&program, ROLE_SERVER);
	program.options.json = true;
	print_interval(&log, &interval);
	assert_object(&program, "interval",
		      "\"role\": \"server\", \"session\": 42, \"begin\": 2, \"end\": 2.5, "
		      "\"bytes\": 6250000, \"bytes_per_second\": 12500000, "
		      "\"bits_per_second\": 100000000, "
		      "\"errors_counted\": { \"duplicate_request\": 3, \"rcvd_rnr_err\": 1 }, "
		      "\"waits_counted\": { \"rx_pause_frames\": 5 } }\n",
		      "[42] 2.000 to 2.500 s: 6250000 bytes, 12.50 MB/s (0.100 Gbit/s), counted "
		      "meanwhile: duplicate_request 3, rcvd_rnr_err 1, rx_pause_frames 5\n");
}

/* ---- Progress ---- */

/* What a terminal gets when so much is done. */
static void assert_drawn(bool verbose, uint64_t done, uint64_t all, int64_t nanoseconds,
			 const char *expected)
{
	const int before = dup(STDERR_FILENO), terminal = posix_openpt(O_RDWR | O_NOCTTY);
	struct program program = { .options = default_options(ROLE_CLIENT) };
	const struct log log = { .console = &program.console, .options = &program.options };
	char text[256] = "", *end = text;
	bool failed;
	int line;

	assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	line = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(line >= 0);
	dup2(line, STDERR_FILENO);
	program.options.verbose = verbose;
	console_init(&program.console, program.options.json);
	assert_int_equal(console_open(&program.console, before, line), 0);
	print_progress(&log, done, all, nanoseconds);
	assert_true(console_drain(&program.console, 10000, -1));
	dup2(before, STDERR_FILENO);
	console_close(&program.console, &failed);
	assert_int_equal(write(line, "|", 1), 1);
	while (!strchr(text, '|')) {
		ssize_t count = read(terminal, end, (size_t)(text + sizeof(text) - 1 - end));

		assert_true(count > 0);
		end += count;
	}
	assert_string_equal(text, expected);
	close(terminal);
	close(line);
	close(before);
}

TEST(progress_is_drawn_after_a_second_with_what_is_left)
{
	static const int64_t second = 1000000000;
	static const uint64_t mib = 1 << 20, tib = (uint64_t)1 << 40;

	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "", 1);
	assert_drawn(false, 1023, 2046, second,
		     "\r1023 bytes of 2.0 KiB, 1023 bytes/s, 1 s left\033[K|");
	assert_drawn(false, 1024, UINT64_MAX, 2 * second, "\r1.0 KiB, 512 bytes/s\033[K|");
	assert_drawn(false, 3 * mib, 13 * mib, 3 * second / 2,
		     "\r3.0 MiB of 13.0 MiB, 2.0 MiB/s, 5 s left\033[K|");
	assert_drawn(false, tib, 3072 * tib, 1024 * second,
		     "\r1.0 TiB of 3072.0 TiB, 1.0 GiB/s, 3144704 s left\033[K|");
	assert_drawn(false, 1024, 2048, second - 1, "|");
	assert_drawn(false, 0, 2048, 2 * second, "|");
	assert_drawn(true, 1024, 2048, 2 * second, "|");
	/* and where it is wanted */
	setenv("NO_COLOR", "1", 1);
	assert_drawn(false, 1024, 2048, 2 * second, "|");
	unsetenv("NO_COLOR");
	assert_drawn(false, 1024, 2048, 2 * second,
		     "\r1.0 KiB of 2.0 KiB, 512 bytes/s, 2 s left\033[K|");
	setenv("TERM", "dumb", 1);
	assert_drawn(false, 1024, 2048, 2 * second, "|");
	unsetenv("TERM");
	assert_drawn(false, 1024, 2048, 2 * second, "|");
}

static int set_up(void **state)
{
	(void)state;
	return setenv("LC_ALL", "C.UTF-8", 1);
}

RUN_TESTS(set_up, NULL, NULL)
