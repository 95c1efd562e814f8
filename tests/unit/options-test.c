// SPDX-License-Identifier: MIT
/*
 * Parsing of a command line.
 */
#include "rdma-common.h"

#include <sys/stat.h>

#include "unit.h"
#include "folder.h"

/* The text printed to a stream between capture() and release(). */
static struct {
	FILE **stream, *before;
	char *text;
	size_t size;
} captured;

static void capture(FILE **stream)
{
	captured.stream = stream;
	captured.before = *stream;
	*stream = open_memstream(&captured.text, &captured.size);
	assert_non_null(*stream);
}

/* Stop capturing, and check that the text contains `words`, or is empty for NULL. */
static void release(const char *words)
{
	fclose(*captured.stream);
	*captured.stream = captured.before;
	if (words ? !strstr(captured.text, words) : *captured.text != '\0')
		fail_msg("'%s' is not in '%s'", words ? words : "", captured.text);
	free(captured.text);
}

/* ---- Numbers and words ---- */

/* invalid_number_is_rejected() tries text that is not a number. */
TEST(number_beyond_64_bits_or_its_limits_is_rejected)
{
	uint64_t number;

	assert_true(parse_number("18446744073709551615", 0, UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
	assert_false(parse_number("18446744073709551616", 0, UINT64_MAX, &number));
	assert_false(parse_number("5K", 0, UINT64_MAX, &number));
	assert_false(parse_number("0", 1, 10, &number));
	assert_false(parse_number("11", 1, 10, &number));
	assert_true(parse_number("1", 1, 10, &number) && parse_number("10", 1, 10, &number));
	assert_int_equal(number, 10);
}

TEST(other_operations_than_read_and_write_are_rejected)
{
	static const char *const refused[] = { "READ", "reads", "rea", "copy", "" };
	enum operation operation = OPERATION_READ;
	char words[80];

	assert_string_equal(operation_name(OPERATION_READ), "read");
	assert_string_equal(operation_name(OPERATION_WRITE), "write");
	assert_null(operation_name(OPERATION_ANY));
	assert_true(parse_operation("write", &operation) && operation == OPERATION_WRITE);
	assert_true(parse_operation("read", &operation) && operation == OPERATION_READ);
	operation = OPERATION_WRITE;
	EACH_ROW (i, refused) {
		capture(&stderr);
		assert_false(parse_operation(refused[i], &operation));
		snprintf(words, sizeof(words),
			 "the operation is 'read' or 'write', not '%s'\nTry '", refused[i]);
		release(words);
		assert_int_equal(operation, OPERATION_WRITE);
	}
}

/* Figures are printed with several passes, a duration or --report. */
TEST(one_pass_is_the_default_and_repetition_or_report_prints_figures)
{
	static const struct {
		struct options options;
		uint64_t passes;
		bool figures;
	} cases[] = {
		{ { 0 }, 1, false },
		{ { .iterations = 1 }, 1, false },
		{ { .iterations = 2 }, 2, true },
		{ { .duration_seconds = 1 }, 0, true },
		{ { .report = true }, 1, true },
	};

	EACH_ROW (i, cases) {
		assert_int_equal(operation_passes(&cases[i].options), cases[i].passes);
		assert_int_equal(prints_figures(&cases[i].options), cases[i].figures);
	}
}

/* The client either writes its own payload or reads the server's. */
TEST(one_way_session_has_one_sender)
{
	for (enum operation operation = OPERATION_READ; operation <= OPERATION_WRITE; operation++) {
		bool writes = operation == OPERATION_WRITE;

		assert_int_equal(sends_payload(ROLE_CLIENT, operation, true), writes);
		assert_int_equal(sends_payload(ROLE_SERVER, operation, true), !writes);
		assert_true(sends_payload(ROLE_CLIENT, operation, false));
		assert_true(sends_payload(ROLE_SERVER, operation, false));
	}
	assert_int_equal(other_role(ROLE_CLIENT), ROLE_SERVER);
	assert_int_equal(other_role(ROLE_SERVER), ROLE_CLIENT);
}

/* ---- The options on a command line ---- */

/* Check the result and the message of parsing two words; the second may be NULL. */
static void assert_parsed(struct options *options, const char *first, const char *second,
			  enum parsed expected, const char *printed)
{
	const char *words[] = { "program", first, second, NULL };
	char *arguments[4]; /* getopt_long(3) reorders them, but does not write to them */
	enum parsed parsed;

	memcpy(arguments, words, sizeof(arguments));
	optind = 0;                                           /* getopt(3): start over */
	capture(expected == PARSED_EXIT ? &stdout : &stderr); /* help and version go to stdout */
	parsed = parse_options(options, "usage\n", second ? 3 : 2, arguments);
	release(printed);
	if (parsed != expected)
		fail_msg("%s '%s': %d, not %d", first, second ? second : "", parsed, expected);
}

/* Call assert_parsed() for the client, and return the options. */
static struct options client_parses(const char *first, const char *second, enum parsed expected,
				    const char *printed)
{
	struct options options = default_options(ROLE_CLIENT);

	assert_parsed(&options, first, second, expected, printed);
	return options;
}

TEST(missing_option_has_its_default)
{
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		struct options options = default_options(role);

		assert_int_equal(options.role, role);
		assert_int_equal(options.depth, 16);
		assert_int_equal(timeout_milliseconds(&options), 10000);
		assert_int_equal(options.maximum_payload, 1 << 30);
		assert_int_equal(options.maximum_sessions, 1024);
		assert_true(options.tos > UINT8_MAX);
		assert_int_equal(check_options(&options), PARSED_RUN);
	}
}

#define AT(field) offsetof(struct options, field)

/* Options, and the values of their fields: a number of `size` bytes, or the argument (size 0). */
static const struct given {
	const char *who;           /* c: an option of the client; s: of the server */
	const char *letter, *name; /* letter NULL: no short option */
	const char *argument;
	size_t field, size;
	uint64_t value;
} given[] = {
	/* clang-format off */
	{ "cs", "-B", "--bind",         "host",   AT(bind),             0, 0 },
	{ "cs", "-m", "--message",      "text",   AT(message),          0, 0 },
	{ "cs", "-f", "--file",         "-",      AT(file),             0, 0 },
	{ "cs", "-o", "--output",       "-",      AT(output),           0, 0 },
	{ "s",  "-p", "--port",         "0",      AT(port),             0, 0 },
	{ "s",  "-p", "--port",         "65535",  AT(port),             0, 0 },
	{ "cs", "-s", "--size",         "64K",    AT(pattern_size),     8, 65536 },
	{ "cs", NULL, "--max-size",     "1M",     AT(maximum_payload),  8, 1 << 20 },
	{ "cs", NULL, "--min-rate",     "90",     AT(minimum_rate),     8, 90 },
	{ "cs", NULL, "--tos",          "255",    AT(tos),              4, 255 },
	{ "cs", "-n", "--iters",        "1",      AT(iterations),       4, 1 },
	{ "cs", NULL, "--duration",     "1",      AT(duration_seconds), 4, 1 },
	{ "cs", NULL, "--interval",     "1s",     AT(interval_seconds), 4, 1 },
	{ "cs", NULL, "--depth",        "1",      AT(depth),            4, 1 },
	{ "cs", "-t", "--timeout",      "1",      AT(timeout_seconds),  4, 1 },
	{ "c",  NULL, "--connections",  "2",      AT(connections),      4, 2 },
	{ "s",  NULL, "--max-sessions", "1",      AT(maximum_sessions), 4, 1 },
	{ "s",  NULL, "--max-sessions", "1000000", AT(maximum_sessions), 4, 1000000 },
	{ "cs", NULL, "--busy-poll",    NULL,     AT(busy_poll),        1, true },
	{ "cs", NULL, "--report",       NULL,     AT(report),           1, true },
	{ "cs", "-J", "--json",         NULL,     AT(json),             1, true },
	{ "cs", "-v", "--verbose",      NULL,     AT(verbose),          1, true },
	{ "s",  "-1", "--one-off",      NULL,     AT(one_off),          1, true },
	{ "c",  NULL, "--one-way",      NULL,     AT(one_way),          1, true },
	{ "c",  NULL, "--check",        NULL,     AT(check),            1, true },
	/* clang-format on */
};

/* Arguments that are accepted besides those of given[]: units, and the limits. */
static const struct {
	const char *name, *argument;
	uint64_t value;
} amounts[] = {
	/* clang-format off */
	{ "--size", "010B", 10 }, /* not octal */
	{ "--size", "000000000000000000001", 1 },
	{ "--size", "64KiB", 65536 }, { "--size", "64KB", 64000 },
	{ "--size", "3MiB", 3145728 }, { "--size", "3MB", 3000000 },
	{ "--size", "5G", 5368709120 }, { "--size", "5GiB", 5368709120 }, { "--size", "5GB", 5000000000 }, /* more than 32 bits */
	{ "--size", "7T", 7696581394432 }, { "--size", "7TiB", 7696581394432 }, { "--size", "7TB", 7000000000000 },
	{ "--size", "9223372036854775807", INT64_MAX }, { "--size", "8388607T", 9223370937343148032 },
	{ "--min-rate", "90bit", 90 }, { "--min-rate", "90bit/s", 90 },
	{ "--min-rate", "90K", 90000 }, { "--min-rate", "90Kbit", 90000 }, { "--min-rate", "90Kbit/s", 90000 },
	{ "--min-rate", "90M", 90000000 }, { "--min-rate", "90Mbit", 90000000 }, { "--min-rate", "90Mbit/s", 90000000 },
	{ "--min-rate", "10G", 10000000000 }, { "--min-rate", "10Gbit", 10000000000 }, { "--min-rate", "10Gbit/s", 10000000000 },
	{ "--min-rate", "2T", 2000000000000 }, { "--min-rate", "2Tbit", 2000000000000 }, { "--min-rate", "2Tbit/s", 2000000000000 },
	{ "--min-rate", "18446744073G", 18446744073000000000U }, { "--min-rate", "18446744073709551615", UINT64_MAX },
	{ "--tos", "0", 0 }, { "--tos", "0x68", 104 }, { "--tos", "0xFf", 255 }, { "--tos", "010", 10 },
	{ "--iters", "1000000000", 1000000000 },
	{ "--duration", "60s", 60 }, { "--duration", "1000000", 1000000 }, { "--interval", "1000000", 1000000 },
	{ "--depth", "65536", 65536 },
	{ "--timeout", "5s", 5 }, { "--timeout", "1000000", 1000000 },
	{ "--connections", "128", MAX_CONNECTIONS },
	/* clang-format on */
};

static void set_field(struct options *options, const struct given *row, const char *argument,
		      uint64_t value)
{
	void *place = (char *)options + row->field;

	if (row->size == 8)
		*(uint64_t *)place = value;
	else if (row->size == 4)
		*(unsigned int *)place = (unsigned int)value;
	else if (row->size == 1)
		*(bool *)place = value;
	else
		*(const char **)place = argument;
}

/* Check that only this field changes and counts as given, and that a program without the option
 * rejects it. */
static void assert_given(const struct given *row, const char *option, const char *argument,
			 uint64_t value)
{
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		bool has = strchr(row->who, role == ROLE_SERVER ? 's' : 'c');
		struct options options = default_options(role), expected;

		memcpy(&expected, &options,
		       sizeof(options)); /* an assignment need not copy the padding */
		if (has)
			set_field(&expected, row, argument, value);
		if (expected.check) /* --check also sets a duration, which has its own test */
			expected.duration_seconds = 1;
		assert_parsed(&options, option, argument, has ? PARSED_RUN : PARSED_FAILED,
			      has ? NULL : "--help'.\n");
		assert_int_equal(is_given(&options, row->field), has);
		expected.given = options.given;
		assert_memory_equal(&options, &expected, sizeof(options));
	}
}

TEST(option_sets_only_its_own_field_and_only_in_its_own_program)
{
	for (const struct given *row = given; row < given + ENTRIES(given); row++) {
		assert_given(row, row->name, row->argument, row->value);
		if (row->letter)
			assert_given(row, row->letter, row->argument, row->value);
	}
	EACH_ROW (i, amounts) {
		const struct given *row = given;

		while (strcmp(row->name, amounts[i].name) != 0)
			row++;
		assert_given(row, row->name, amounts[i].argument, amounts[i].value);
	}
}

TEST(impossible_argument_is_rejected_with_a_reason)
{
	static const struct {
		const char *option, *argument, *words;
	} cases[] = {
		/* clang-format off */
		{ "-s", "0", "--size takes bytes, with an optional suffix K, M, G, T or KiB (powers of 1024) or KB (powers of 1000), from 1 to 9223372036854775807, not '0'" },
		{ "-s", "9223372036854775808", "807, not '9223372036854775808'" },
		{ "-s", "8388608T", "not '8388608T'" },
		{ "--max-size", "18446744073709551615", "--max-size takes bytes" },
		{ "--max-size", "16777216T", "--max-size takes bytes" }, /* would wrap to 0 */
		{ "--min-rate", "0", "--min-rate takes bit/s, with an optional suffix K, M, G or T (powers of 1000), as in 10G or 10Gbit/s, from 1 to 18446744073709551615, not '0'" },
		{ "--min-rate", "18446744074G", "--min-rate takes bit/s" },
		{ "--tos", "256", "--tos takes a whole number, decimal or hexadecimal (0x68), from 0 to 255, not '256'" },
		{ "--tos", "0x100", "not '0x100'" },
		{ "--tos", "0x", "not '0x'" },
		{ "--tos", "0x0x5", "not '0x0x5'" },
		{ "--tos", "1x5", "not '1x5'" },
		{ "--tos", "ff", "not 'ff'" },
		{ "-n", "0", "--iters takes a whole number from 1 to 1000000000, not '0'" },
		{ "-n", "1000000001", "--iters takes" },
		{ "--duration", "0", "--duration 0 is only for the client's --check, which then measures no rate: give 1 or more seconds" },
		{ "--duration", "1000001", "--duration takes whole seconds (5 or 5s) from 1 to 1000000, or 0 with the client's --check, not '1000001'" },
		{ "--interval", "0", "--interval takes whole seconds (5 or 5s) from 1 to 1000000" },
		{ "--duration", "500ms", "--duration takes whole seconds" },
		{ "--connections", "0", "--connections takes a whole number from 1 to 128, not" },
		{ "--connections", "129", "--connections takes" },
		{ "--depth", "0", "--depth takes a whole number from 1 to 65536, not '0'" },
		{ "--depth", "65537", "--depth takes" },
		{ "-t", "0", "--timeout takes whole seconds (5 or 5s) from 1 to 1000000, not" },
		{ "-t", "1000001", "--timeout takes" },
		{ "-t", NULL, "Try '" }, /* getopt_long(3) printed the reason */
		{ "--no-such-option", NULL, "Try '" },
		/* clang-format on */
	};

	EACH_ROW (i, cases)
		client_parses(cases[i].option, cases[i].argument, PARSED_FAILED, cases[i].words);
}

/*
 * First text that is almost a number, then numbers in a unit or notation that only other options
 * take.
 */
TEST(invalid_number_is_rejected)
{
	static const char *const options[] = { "-s", "--min-rate", "-t", "--tos", "-n" };
	/* clang-format off */
	static const char *const refused[] = {
		"", "K", "KK", "1KK", "1KM", "1k", "1m", "1iB", "1KiBs", "1 K", " 1K", "1K ",
		"-1", "+1K", "1e3", "one", "1.5M", "1K\n", "K1", "1Kb", "1S", "1 s", "5sec", "1Bit",
		"1Kibit", "1P", "1/s", "1x1", "0xfg", "1bps", "1iBs", "B", "1TiBT", "bit", "1Kbit/",
		"1s/s", "18446744073709551616bit", "999999999999999999999999999999999999999999G",
	};
	static const char *const others[][2] = {
		{ "-s", "1s" }, { "-s", "1bit" }, { "-s", "0x1" }, { "-n", "1K" }, { "-n", "0x1" }, { "-n", "1s" },
		{ "-t", "1B" }, { "-t", "1K" }, { "-t", "0x1" }, { "--tos", "1s" }, { "--tos", "1K" },
		{ "--min-rate", "1B" }, { "--min-rate", "1s" }, { "--min-rate", "1KiB" },
	};
	/* clang-format on */

	EACH_ROW (i, options) {
		for (size_t j = 0; j < ENTRIES(refused); j++)
			client_parses(options[i], refused[j], PARSED_FAILED, " from ");
	}
	EACH_ROW (i, others)
		client_parses(others[i][0], others[i][1], PARSED_FAILED, " from ");
}

/* The program ends at once: errors in later words do not matter. */
TEST(help_and_version_are_printed_and_end_the_program)
{
	static const char wrong[] = "--no-such-option";
	char version[64];

	client_parses("-h", wrong, PARSED_EXIT, "usage\nConnecting:\n");
	client_parses("--help", wrong, PARSED_EXIT, "  -B, --bind ADDRESS      connect from");
	snprintf(version, sizeof(version), " %s\n", program_version);
	client_parses("--version", wrong, PARSED_EXIT, version);
}

/* Each option is tried both before and after --check. */
TEST(check_accepts_only_its_own_options)
{
	/* clang-format off */
	static const char *const others[] = {
		/* only these eight are accepted */
		"-Bx", "-J", "-v", "-t1", "--duration=1", "--min-rate=1", "--tos=1", "--connections=2",
		"-mx", "-fx", "-s1", "-ox", "-n1", "--depth=1", "--report", "--one-way",
		"--busy-poll", "--max-size=1", "--interval=1",
	};
	/* clang-format on */

	for (size_t i = 0; i < 2 * ENTRIES(others); i++) {
		const char *other = others[i / 2];
		bool goes = i / 2 < 8;

		client_parses(i % 2 ? other : "--check", i % 2 ? "--check" : other,
			      goes ? PARSED_RUN : PARSED_FAILED,
			      goes ? NULL
				   : "--check accepts only --bind, --connections, --duration, "
				     "--json, --min-rate, --timeout, --tos and "
				     "--verbose");
	}
}

TEST(check_without_duration_measures_for_one_second)
{
	static const struct {
		const char *first, *second;
		unsigned int seconds;
	} cases[] = { { "--check", "-v", 1 },
		      { "--check", "--duration=0", 0 },
		      { "--duration=0", "--check", 0 },
		      { "--check", "--duration=7", 7 },
		      { "-v", "-v", 0 } };

	EACH_ROW (i, cases) {
		struct options options =
			client_parses(cases[i].first, cases[i].second, PARSED_RUN, NULL);

		assert_int_equal(options.duration_seconds, cases[i].seconds);
	}
}

/* ---- Combinations ---- */

#define WRITES .operation = OPERATION_WRITE

static const char one_payload[] = "--message, --file and --size exclude each other";
static const char one_pass[] = "is a pipe or a device, which can be sent only once";

/*
 * A WRITE that --iters or --duration repeats cannot send a pipe, which can be sent only once. A
 * READ fetches the peer's payload, so it may be repeated.
 */
TEST(conflicting_options_are_rejected_with_a_reason)
{
	static const struct {
		struct options options;
		const char *words; /* NULL: accepted */
	} cases[] = {
		/* clang-format off */
		{ { .message = "text", .file = "file" }, one_payload },
		{ { .message = "text", .pattern_size = 1 }, one_payload },
		{ { .file = "file", .pattern_size = 1 }, one_payload },
		{ { .file = "file", .output = "file", .iterations = 2, .json = true }, NULL },
		{ { .message = "text", .duration_seconds = 2, .output = "-" }, NULL },
		{ { .iterations = 1, .duration_seconds = 1 }, "--iters and --duration exclude" },
		{ { WRITES, .pattern_size = INT64_MAX / 7, .iterations = 7 }, NULL },
		{ { WRITES, .pattern_size = INT64_MAX / 7 + 1, .iterations = 7 }, "--size times --iters is more than 9223372036854775807 bytes" },
		{ { .pattern_size = INT64_MAX, .iterations = 7 }, NULL },
		{ { .operation = OPERATION_ANY, .pattern_size = INT64_MAX, .iterations = 7 }, "--size times --iters is more than" },
		{ { .output = "-", .json = true }, "'--json' and '--output -' both need" },
		{ { .one_way = true, .pattern_size = 1 }, "this side sends no payload: omit --message, --file and --size" },
		{ { .one_way = true, WRITES, .pattern_size = 1 }, NULL },
		{ { .one_way = true, WRITES, .output = "file" }, "this side receives no payload: omit --output and --max-size" },
		{ { .one_way = true, .output = "file" }, NULL },
		{ { WRITES, .file = "fifo", .iterations = 2 }, one_pass },
		{ { .file = "fifo", .iterations = 2 }, NULL },
		{ { WRITES, .file = "fifo", .duration_seconds = 1 }, one_pass },
		{ { WRITES, .file = "fifo", .iterations = 1 }, NULL },
		{ { WRITES, .file = "fifo" }, NULL },
		{ { WRITES, .file = "/dev/zero", .iterations = 2 }, one_pass },
		{ { WRITES, .file = "-", .iterations = 2 }, one_pass },
		{ { WRITES, .file = "/proc/self/exe", .iterations = 2 }, NULL },
		{ { WRITES, .file = "/", .iterations = 2 }, NULL }, /* payload_load() reports that it is a folder */
		{ { WRITES, .file = "missing", .iterations = 2 }, NULL },
		{ { WRITES, .file = "fifo", .iterations = 2, .role = ROLE_SERVER, .one_off = true }, one_pass },
		/* only a session that would repeat the pipe is refused */
		{ { .operation = OPERATION_ANY, .file = "fifo", .iterations = 2, .role = ROLE_SERVER, .one_off = true }, NULL },
		/* a server without --one-off copies the pipe */
		{ { WRITES, .file = "fifo", .iterations = 2, .role = ROLE_SERVER }, NULL },
		/* clang-format on */
	};
	int fifo = open("fifo", O_RDONLY | O_NONBLOCK);

	dup2(fifo, STDIN_FILENO);
	close(fifo);
	EACH_ROW (i, cases) {
		capture(&stderr);
		assert_int_equal(check_options(&cases[i].options),
				 cases[i].words ? PARSED_FAILED : PARSED_RUN);
		release(cases[i].words);
	}
}

static int set_up(void **state)
{
	return enter_folder(state) || mkfifo("fifo", 0600) ? -1 : 0;
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_int_equal(unlink("fifo"), 0);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(set_up, NULL)
