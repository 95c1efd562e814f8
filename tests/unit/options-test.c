// SPDX-License-Identifier: MIT
/*
 * Parsing of a command line.
 */
#include "rdma-common.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

static void a_number_is_decimal_and_within_its_bounds(void **state)
{
	static const char *const refused[] = { "",
					       " 5",
					       "5 ",
					       "+5",
					       "-5",
					       "0x10",
					       "5s",
					       "5K",
					       "five",
					       "1.5",
					       "18446744073709551616",
					       "99999999999999999999999" };
	uint64_t number = 0;

	(void)state;
	assert_true(parse_number("1", 1, 10, &number));
	assert_int_equal(number, 1);
	assert_true(parse_number("10", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("007", 1, 10, &number)); /* not octal, nor is 010 eight */
	assert_int_equal(number, 7);
	assert_true(parse_number("010", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("0", 0, 0, &number));
	assert_true(parse_number("18446744073709551615", 0, UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
	assert_false(parse_number("0", 1, 10, &number));
	assert_false(parse_number("11", 1, 10, &number));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_number(refused[i], 0, UINT64_MAX, &number));
}

/* True if `text` is taken for `expected`, with units of which each is `factor` times the last. */
static bool is_scaled(const char *text, unsigned int factor, uint64_t expected)
{
	uint64_t number = ~expected;

	return parse_scaled(text, factor, &number) && number == expected;
}

static void a_size_has_binary_units(void **state)
{
	(void)state;
	assert_true(is_scaled("0", 1024, 0));
	assert_true(is_scaled("1", 1024, 1));
	assert_true(is_scaled("1000", 1024, 1000));
	assert_true(is_scaled("010", 1024, 10)); /* not octal */
	assert_true(is_scaled("1K", 1024, 1024));
	assert_true(is_scaled("64K", 1024, 65536));
	assert_true(is_scaled("8M", 1024, 8388608));
	assert_true(is_scaled("1G", 1024, 1073741824));
	assert_true(is_scaled("5G", 1024, 5368709120)); /* more than 32 bits */
}

static void a_rate_has_decimal_units(void **state)
{
	uint64_t rate;

	(void)state;
	assert_true(is_scaled("1", 1000, 1));
	assert_true(is_scaled("64K", 1000, 64000));
	assert_true(is_scaled("100M", 1000, 100000000));
	assert_true(is_scaled("90G", 1000, 90000000000));
	assert_true(is_scaled("18446744073G", 1000, 18446744073000000000U));
	assert_false(parse_scaled("18446744074G", 1000, &rate));
	assert_false(parse_scaled("1T", 1000, &rate));
}

static void a_size_has_at_most_64_bits(void **state)
{
	static const char *const refused[] = {
		"18446744073709551616",  "18014398509481984K",
		"17592186044416M",       "17179869184G",
		"18446744073709551615G", "99999999999999999999",
		"100000000000000000000", "999999999999999999999999999999999999999999G"
	};
	uint64_t size;

	(void)state;
	assert_true(is_scaled("18446744073709551615", 1024, UINT64_MAX));
	assert_true(is_scaled("18014398509481983K", 1024, UINT64_MAX - 1023));
	assert_true(is_scaled("17592186044415M", 1024, UINT64_MAX - 1048575));
	assert_true(is_scaled("17179869183G", 1024, UINT64_MAX - 1073741823));
	assert_true(is_scaled("000000000000000000001", 1024, 1));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_scaled(refused[i], 1024, &size));
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const refused[] = { "",    "K",   "KK",   "1KK", "1KB",  "1KM", "1k",
					       "1m",  "1T",  "1B",   "1 K", " 1K",  "1K ", "-1",
					       "+1K", "0x1", "1.5M", "1e3", "1K\n", "one", "K1" };
	uint64_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_scaled(refused[i], 1024, &size));
}

static void the_operation_is_read_or_write(void **state)
{
	enum operation operation = OPERATION_READ;

	(void)state;
	assert_true(parse_operation("write", &operation));
	assert_int_equal(operation, OPERATION_WRITE);
	assert_true(parse_operation("read", &operation));
	assert_int_equal(operation, OPERATION_READ);
}

/* What is printed on a stream from capture() to release(). */
struct printed {
	FILE **stream, *before;
	char *text;
	size_t size;
};

static void capture(struct printed *printed, FILE **stream)
{
	printed->stream = stream;
	printed->before = *stream;
	*stream = open_memstream(&printed->text, &printed->size);
	assert_non_null(*stream);
}

/* The caller frees the text. */
static char *release(struct printed *printed)
{
	fclose(*printed->stream);
	*printed->stream = printed->before;
	return printed->text;
}

/* True if `word` is refused with a message that repeats it. */
static bool refused_with_a_message(const char *word)
{
	enum operation operation = OPERATION_WRITE;
	struct printed printed;
	bool refused, said;
	char *text;

	capture(&printed, &stderr);
	refused = !parse_operation(word, &operation);
	text = release(&printed);
	said = strstr(text, word) && strstr(text, "'read' or 'write'") && strstr(text, "--help");
	free(text);
	return refused && said && operation == OPERATION_WRITE;
}

static void another_word_for_the_operation_is_refused_with_a_message(void **state)
{
	(void)state;
	assert_true(refused_with_a_message("READ"));
	assert_true(refused_with_a_message("reads"));
	assert_true(refused_with_a_message("rea"));
	assert_true(refused_with_a_message("copy"));
	assert_true(refused_with_a_message(""));
}

/* One pass, unless there are more or a time: then there are figures to be printed, too. */
static void passes_are_counted_or_timed(void **state)
{
	struct options options = default_options(ROLE_CLIENT);

	(void)state;
	assert_int_equal(operation_passes(&options), 1);
	assert_false(prints_figures(&options));
	options.iterations = 1;
	assert_int_equal(operation_passes(&options), 1);
	assert_false(prints_figures(&options));
	options.iterations = 2;
	assert_int_equal(operation_passes(&options), 2);
	assert_true(prints_figures(&options));
	options.iterations = 0;
	options.duration_seconds = 1;
	assert_int_equal(operation_passes(&options), 0);
	assert_true(prints_figures(&options));
	options = default_options(ROLE_CLIENT);
	options.report = true;
	assert_true(prints_figures(&options));
}

/* ---- The options on a command line ---- */

/* What a program begins with, and what an option should make of that. */
static struct options options, expected;

static void reset_to(enum role role)
{
	options = default_options(role);
	memcpy(&expected, &options, sizeof(options)); /* what lies between its fields, too */
}

static int reset(void **state)
{
	(void)state;
	reset_to(ROLE_CLIENT);
	return 0;
}

/* Parses two words, of which the second may be NULL. */
static enum parsed parse_words(const char *first, const char *second)
{
	const char *words[] = { "program", first, second, NULL };
	char *arguments[4]; /* getopt_long(3) puts them in order, but does not write to them */

	memcpy(arguments, words, sizeof(arguments));
	optind = 0; /* getopt(3): from the beginning */
	return parse_options(&options, "usage\n", second ? 3 : 2, arguments);
}

/* Parses an option that sets what was expected, and nothing else. */
static void parse(const char *option, const char *argument)
{
	assert_int_equal(parse_words(option, argument), PARSED_RUN);
	assert_memory_equal(&options, &expected, sizeof(options));
}

/* The same; `*text` is what that prints on the stream, to be freed. */
static enum parsed parse_captured(const char *option, const char *argument, FILE **stream,
				  char **text)
{
	struct printed printed;
	enum parsed parsed;

	capture(&printed, stream);
	parsed = parse_words(option, argument);
	*text = release(&printed);
	return parsed;
}

static void what_is_not_given_has_its_default(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		options = default_options(roles[i]);
		assert_int_equal(options.role, roles[i]);
		assert_int_equal(options.depth, 16);
		assert_int_equal(timeout_milliseconds(&options), 10000);
		assert_int_equal(options.maximum_payload, 1 << 30);
		assert_int_equal(options.maximum_sessions, 1024);
		assert_true(options.tos > UINT8_MAX);
		assert_int_equal(check_options(&options), PARSED_RUN);
	}
}

static void an_option_sets_its_field_and_no_other(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		reset_to(roles[i]);
		parse("-B", expected.bind = "host");
		parse("--bind", expected.bind = "another");
		parse("-m", expected.message = "text");
		parse("--message", expected.message = "more");
		parse("-f", expected.file = "file");
		parse("--file", expected.file = "-");
		parse("-o", expected.output = "output");
		parse("--output", expected.output = "-");
		expected.pattern_size = 65536;
		parse("-s", "64K");
		expected.pattern_size = INT64_MAX;
		parse("--size", "9223372036854775807");
		expected.maximum_payload = 1 << 20;
		parse("--max-size", "1M");
		expected.minimum_rate = 90000;
		parse("--min-rate", "90K");
		expected.tos = 0;
		parse("--tos", "0");
		expected.tos = 255;
		parse("--tos", "255");
		expected.every_pass = true;
		parse("--verify-all", NULL);
		expected.busy_poll = true;
		parse("--busy-poll", NULL);
		expected.report = true;
		parse("--report", NULL);
		expected.json = true;
		parse("-J", NULL);
		parse("--json", NULL);
		expected.verbose = true;
		parse("-v", NULL);
		parse("--verbose", NULL);
	}
}

static void each_program_has_options_of_its_own(void **state)
{
	static const struct {
		enum role role;
		const char *option, *argument;
	} others[] = {
		{ ROLE_CLIENT, "--port", "1" },         { ROLE_CLIENT, "-p", "1" },
		{ ROLE_CLIENT, "--one-off", NULL },     { ROLE_CLIENT, "-1", NULL },
		{ ROLE_CLIENT, "--max-sessions", "1" }, { ROLE_SERVER, "--one-way", NULL },
		{ ROLE_SERVER, "--check", NULL },
	};

	(void)state;
	reset_to(ROLE_SERVER);
	parse("-p", expected.port = "0");
	parse("--port", expected.port = "65535");
	expected.one_off = true;
	parse("-1", NULL);
	parse("--one-off", NULL);
	expected.maximum_sessions = 1;
	parse("--max-sessions", "1");
	expected.maximum_sessions = 1000000;
	parse("--max-sessions", "1000000");
	reset_to(ROLE_CLIENT);
	expected.one_way = true;
	parse("--one-way", NULL);
	reset_to(ROLE_CLIENT);
	expected.check = true;
	parse("--check", NULL);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char *text;

		reset_to(others[i].role);
		assert_int_equal(
			parse_captured(others[i].option, others[i].argument, &stderr, &text),
			PARSED_FAILED);
		assert_memory_equal(&options, &expected, sizeof(options));
		free(text);
	}
}

static void a_count_begins_with_1_and_has_a_bound(void **state)
{
	(void)state;
	expected.iterations = 1;
	parse("-n", "1");
	expected.iterations = 1000000000;
	parse("--iters", "1000000000");
	expected.duration_seconds = 1;
	parse("--duration", "1");
	expected.duration_seconds = 1000000;
	parse("--duration", "1000000");
	expected.depth = 1;
	parse("--depth", "1");
	expected.depth = 65536;
	parse("--depth", "65536");
	expected.timeout_seconds = 1;
	parse("-t", "1");
	expected.timeout_seconds = 1000000;
	parse("--timeout", "1000000");
}

static void an_argument_that_cannot_be_is_refused_in_words(void **state)
{
	static const struct {
		const char *option, *argument, *words;
	} cases[] = {
		{ "-s", "0", "--size takes bytes, or a number with K, M or G, not '0'" },
		{ "-s", "9223372036854775808",
		  "--size takes at most 9223372036854775807 bytes, not '9223372036854775808'" },
		{ "-s", "18446744073709551615", "--size takes at most 9223372036854775807 bytes" },
		{ "-s", "8589934592G", "--size takes at most" },
		{ "--max-size", "18446744073709551615", "--max-size takes at most" },
		{ "--max-size", "1T", "--max-size takes bytes" },
		{ "--min-rate", "x", "--min-rate takes bit/s, or a number with K, M or G, not" },
		{ "--min-rate", "0", "--min-rate takes bit/s, or a number with K, M or G, not" },
		{ "--tos", "256", "--tos takes a whole number from 0 to 255, not '256'" },
		{ "-n", "0", "--iters takes a whole number from 1 to 1000000000, not '0'" },
		{ "-n", "1000000001", "--iters takes" },
		{ "--duration", "0", "--duration takes a whole number from 1 to 1000000, not" },
		{ "--duration", "1000001", "--duration takes" },
		{ "--depth", "0", "--depth takes a whole number from 1 to 65536, not '0'" },
		{ "--depth", "65537", "--depth takes" },
		{ "-t", "0", "--timeout takes a whole number from 1 to 1000000, not '0'" },
		{ "-t", "1000001", "--timeout takes" },
		{ "-t", NULL, "Try '" }, /* getopt_long(3) has said what is wrong */
		{ "--no-such-option", NULL, "Try '" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text;
		enum parsed parsed =
			parse_captured(cases[i].option, cases[i].argument, &stderr, &text);

		assert_int_equal(parsed, PARSED_FAILED);
		assert_non_null(strstr(text, cases[i].words));
		assert_non_null(strstr(text, "--help'.\n"));
		free(text);
	}
}

/* At once: what is wrong with the words behind them is of no interest. */
static void help_and_version_are_printed_and_end_the_program(void **state)
{
	static const struct {
		const char *option, *words;
	} cases[] = { { "-h", "usage\nConnecting:\n" },
		      { "--help", "  -B, --bind ADDRESS     connect from" },
		      { "--version", " " PROGRAM_VERSION "\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text;
		enum parsed parsed =
			parse_captured(cases[i].option, "--no-such-option", &stdout, &text);

		assert_int_equal(parsed, PARSED_EXIT);
		assert_non_null(strstr(text, cases[i].words));
		free(text);
	}
}

/* Whichever comes first. */
static void what_is_of_sessions_alone_does_not_go_with_check(void **state)
{
	static const char *const allowed[] = { "-Bx", "-J", "-v", "-t1" };
	static const char *const refused[] = { "-mx",          "-fx",         "-s1",
					       "-ox",          "-n1",         "--duration=1",
					       "--depth=1",    "--tos=1",     "--report",
					       "--verify-all", "--one-way",   "--busy-poll",
					       "--min-rate=1", "--max-size=1" };
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		reset_to(ROLE_CLIENT);
		assert_int_equal(parse_words(allowed[i], "--check"), PARSED_RUN);
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		for (int check_first = 0; check_first < 2; check_first++) {
			reset_to(ROLE_CLIENT);
			assert_int_equal(parse_captured(check_first ? "--check" : refused[i],
							check_first ? refused[i] : "--check",
							&stderr, &text),
					 PARSED_FAILED);
			assert_non_null(strstr(text, "--check goes with --bind, --json, --timeout "
						     "and --verbose alone"));
			free(text);
		}
	}
}

/* The client writes its payload, or reads the server's. */
static void in_a_one_way_session_one_side_sends_a_payload(void **state)
{
	(void)state;
	assert_int_equal(other_role(ROLE_CLIENT), ROLE_SERVER);
	assert_int_equal(other_role(ROLE_SERVER), ROLE_CLIENT);
	assert_true(sends_payload(ROLE_CLIENT, OPERATION_WRITE, true));
	assert_false(sends_payload(ROLE_CLIENT, OPERATION_READ, true));
	assert_false(sends_payload(ROLE_SERVER, OPERATION_WRITE, true));
	assert_true(sends_payload(ROLE_SERVER, OPERATION_READ, true));
	assert_true(sends_payload(ROLE_CLIENT, OPERATION_READ, false));
	assert_true(sends_payload(ROLE_SERVER, OPERATION_WRITE, false));
}

static void options_that_do_not_go_together_are_refused_in_words(void **state)
{
	static const struct {
		struct options options;
		const char *words; /* NULL: they do */
	} cases[] = {
		{ { .message = "text", .file = "file" }, "--message, --file and --size exclude" },
		{ { .message = "text", .pattern_size = 1 }, "--message, --file and --size" },
		{ { .file = "file", .pattern_size = 1 }, "--message, --file and --size exclude" },
		{ { .file = "file", .output = "file", .iterations = 2, .json = true }, NULL },
		{ { .message = "text", .duration_seconds = 2, .output = "-" }, NULL },
		{ { .iterations = 1, .duration_seconds = 1 }, "--iters and --duration exclude" },
		{ { .operation = OPERATION_WRITE, .pattern_size = INT64_MAX / 7, .iterations = 7 },
		  NULL },
		{ { .operation = OPERATION_WRITE,
		    .pattern_size = INT64_MAX / 7 + 1,
		    .iterations = 7 },
		  "--size times --iters is more than 9223372036854775807 bytes" },
		{ { .pattern_size = INT64_MAX, .iterations = 7 }, NULL }, /* of what the peer has */
		{ { .output = "-", .json = true }, "--json and --output - both need" },
		{ { .one_way = true, .pattern_size = 1 }, "this side sends no payload" },
		{ { .one_way = true, .operation = OPERATION_WRITE, .pattern_size = 1 }, NULL },
		{ { .one_way = true, .operation = OPERATION_WRITE, .output = "file" },
		  "nothing is received that --output could store" },
		{ { .one_way = true, .output = "file" }, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct printed printed;
		enum parsed parsed;
		char *text;

		capture(&printed, &stderr);
		parsed = check_options(&cases[i].options);
		text = release(&printed);
		assert_int_equal(parsed, cases[i].words ? PARSED_FAILED : PARSED_RUN);
		if (cases[i].words)
			assert_non_null(strstr(text, cases[i].words));
		else
			assert_string_equal(text, "");
		free(text);
	}
}

static char folder[] = "/tmp/options-test.XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return enter_folder(folder) || mkfifo("fifo", 0600) ? -1 : 0;
}

static void nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(unlink("fifo"), 0);
	assert_nothing_is_left(folder);
}

/* What the operation carries, not what it is given, counts: a pipe has one pass. */
static void a_pipe_cannot_be_repeated(void **state)
{
	static const struct {
		struct options options;
		bool refused;
	} cases[] = {
		{ { .file = "fifo", .iterations = 2 }, true },
		{ { .file = "fifo", .duration_seconds = 1 }, true },
		{ { .file = "fifo", .iterations = 1 }, false },
		{ { .file = "fifo" }, false },
		{ { .file = "/dev/zero", .iterations = 2 }, true },
		{ { .file = "-", .iterations = 2 }, true },
		{ { .file = "/proc/self/exe", .iterations = 2 }, false },
		{ { .file = "/", .iterations = 2 }, false }, /* loading says what is wrong */
		{ { .file = "missing", .iterations = 2 }, false },
		{ { .file = "fifo", .iterations = 2, .role = ROLE_SERVER, .one_off = true }, true },
		{ { .file = "fifo", .iterations = 2, .role = ROLE_SERVER }, false }, /* a copy */
	};
	int fifo = open("fifo", O_RDONLY | O_NONBLOCK);

	(void)state;
	dup2(fifo, STDIN_FILENO);
	close(fifo);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options given = cases[i].options;
		struct printed printed;
		enum parsed parsed;
		char *text;

		given.operation = OPERATION_WRITE;
		capture(&printed, &stderr);
		parsed = check_options(&given);
		text = release(&printed);
		assert_int_equal(parsed, cases[i].refused ? PARSED_FAILED : PARSED_RUN);
		if (cases[i].refused)
			assert_non_null(
				strstr(text, "is a pipe or a device, which can be sent once"));
		free(text);
		given.operation = OPERATION_READ; /* then the passes are of the peer's payload */
		assert_int_equal(check_options(&given), PARSED_RUN);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_decimal_and_within_its_bounds),
		cmocka_unit_test(a_size_has_binary_units),
		cmocka_unit_test(a_rate_has_decimal_units),
		cmocka_unit_test(a_size_has_at_most_64_bits),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(the_operation_is_read_or_write),
		cmocka_unit_test(another_word_for_the_operation_is_refused_with_a_message),
		cmocka_unit_test(passes_are_counted_or_timed),
		cmocka_unit_test(what_is_not_given_has_its_default),
		cmocka_unit_test(an_option_sets_its_field_and_no_other),
		cmocka_unit_test(each_program_has_options_of_its_own),
		cmocka_unit_test_setup(a_count_begins_with_1_and_has_a_bound, reset),
		cmocka_unit_test_setup(an_argument_that_cannot_be_is_refused_in_words, reset),
		cmocka_unit_test_setup(help_and_version_are_printed_and_end_the_program, reset),
		cmocka_unit_test(what_is_of_sessions_alone_does_not_go_with_check),
		cmocka_unit_test(in_a_one_way_session_one_side_sends_a_payload),
		cmocka_unit_test(options_that_do_not_go_together_are_refused_in_words),
		cmocka_unit_test(a_pipe_cannot_be_repeated),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests_name("options", tests, set_up, NULL);
}
