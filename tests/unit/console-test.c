// SPDX-License-Identifier: MIT
/*
 * The queue in front of standard output and standard error: order, bounds, readers that do not
 * read.
 */
#include "rdma-common/console.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdma-common/process.h"

#define PATIENCE 10000 /* milliseconds for what comes at once */
#define PIPE     ((size_t)4096)

/* A console whose streams are pipes. */
struct fixture {
	struct options options;
	struct console console;
	int readers[STREAMS];
	int writers[STREAMS];
};

static void open_pipe(int *reader, int *writer)
{
	int descriptors[2];

	assert_int_equal(pipe2(descriptors, O_CLOEXEC), 0);
	assert_true(fcntl(descriptors[1], F_SETPIPE_SZ, PIPE) >= 0);
	*reader = descriptors[0];
	*writer = descriptors[1];
}

static void start(struct fixture *fixture, bool json)
{
	signal(SIGPIPE, SIG_IGN);
	fixture->options = default_options(ROLE_SERVER);
	fixture->options.json = json;
	for (int i = 0; i < STREAMS; i++)
		open_pipe(&fixture->readers[i], &fixture->writers[i]);
	console_init(&fixture->console, &fixture->options);
	assert_int_equal(console_open(&fixture->console, fixture->writers[0], fixture->writers[1]),
			 0);
}

/* Closes what start() has opened; how many lines were left. */
static uint64_t stop(struct fixture *fixture, bool *failed)
{
	uint64_t left = console_close(&fixture->console, failed);

	for (int i = 0; i < STREAMS; i++) {
		close(fixture->readers[i]);
		close(fixture->writers[i]);
	}
	return left;
}

__attribute__((format(printf, 3, 4))) static void print(struct fixture *fixture, enum stream stream,
							const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(&fixture->console, stream, "", format, arguments);
	va_end(arguments);
}

/* All that comes until `end`, which is part of it. The caller frees it. */
static char *read_until(int reader, const char *end)
{
	const size_t capacity = 1 << 20;
	char *text = calloc(1, capacity);
	size_t size = 0;

	assert_non_null(text);
	while (!strstr(text, end)) {
		struct pollfd ready = { .fd = reader, .events = POLLIN };
		ssize_t count;

		if (poll(&ready, 1, PATIENCE) != 1)
			fail_msg("'%s' does not come after: %s", end, text);
		count = read(reader, text + size, capacity - size - 1);
		assert_true(count > 0);
		size += (size_t)count;
	}
	return text;
}

static void assert_reads(int reader, const char *expected)
{
	char *text = read_until(reader, expected);

	assert_string_equal(text, expected);
	free(text);
}

/* Lets lines wait until more than the queue takes were printed. */
static int print_too_much(struct fixture *fixture, enum stream stream)
{
	const int lines = 20000;

	/* a short line may not slip in behind a long one that was dropped */
	for (int line = 0; line < lines; line++)
		print(fixture, stream, "line %d%*s", line, line % 2 ? 100 : 1, "");
	return lines;
}

/* Reads as many lines, the last of which were dropped, and the line that says so. */
static void read_with_gap(int reader, int lines)
{
	char *text = read_until(reader, "them)\n"), *at = text;
	int line = 0, number, size;
	uint64_t dropped;

	while (sscanf(at, "line %d\n%n", &number, &size) == 1) {
		assert_int_equal(number, line++);
		at += size;
	}
	assert_true(line > 500);
	assert_int_equal(sscanf(at, "(%" SCNu64 " lines were dropped here", &dropped), 1);
	assert_int_equal((int)dropped + line, lines);
	free(text);
}

static void lines_come_in_the_order_in_which_they_were_printed(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	assert_int_equal(console_close(&fixture.console, &failed), 0);
	/* both streams are one pipe */
	assert_int_equal(console_open(&fixture.console, fixture.writers[0], fixture.writers[0]), 0);
	for (int i = 0; i < 100; i += 2) {
		print(&fixture, STREAM_OUTPUT, "%d", i);
		print(&fixture, STREAM_ERROR, "%d", i + 1);
	}
	for (int i = 0; i < 100; i++) {
		char byte, line[16] = "";

		for (size_t size = 0; size < sizeof(line) && !strchr(line, '\n'); size++) {
			assert_int_equal(read(fixture.readers[0], &byte, 1), 1);
			line[size] = byte;
		}
		assert_int_equal(atoi(line), i);
	}
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_false(failed);
}

static void nobody_waits_for_a_reader_and_what_was_dropped_is_counted(void **state)
{
	int64_t started = now_milliseconds();
	struct fixture fixture;
	bool failed;
	int lines;

	(void)state;
	start(&fixture, false);
	lines = print_too_much(&fixture, STREAM_OUTPUT);
	assert_in_range(now_milliseconds() - started, 0, PATIENCE);
	read_with_gap(fixture.readers[0], lines);
	print(&fixture, STREAM_OUTPUT, "behind the gap");
	assert_reads(fixture.readers[0], "behind the gap\n");
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void between_objects_of_json_no_line_says_what_was_dropped(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, true);
	print_too_much(&fixture, STREAM_OUTPUT);
	fcntl(fixture.readers[0], F_SETFL, O_NONBLOCK);
	while (console_drain(&fixture.console, 1, -1) != DRAINED_ALL) {
		char buffer[PIPE];
		ssize_t count = read(fixture.readers[0], buffer, sizeof(buffer));

		assert_true(count <= 0 || !memchr(buffer, '(', (size_t)count));
	}
	free(read_until(fixture.readers[1], "lines were dropped here"));
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void the_other_stream_goes_on(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	print_too_much(&fixture, STREAM_OUTPUT);
	print(&fixture, STREAM_ERROR, "heard");
	assert_reads(fixture.readers[1], "heard\n");
	assert_true(stop(&fixture, &failed) > 500);
	assert_false(failed);
}

static void the_end_does_not_wait_for_ever(void **state)
{
	int interruption = eventfd(0, 0);
	int64_t started;
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	for (int i = 0; i < 3000; i++)
		print(&fixture, STREAM_OUTPUT, "line %d", i);
	started = now_milliseconds();
	assert_int_equal(console_drain(&fixture.console, 300, interruption), DRAINED_EXPIRED);
	assert_in_range(now_milliseconds() - started, 290, PATIENCE);
	eventfd_write(interruption, 1);
	assert_int_equal(console_drain(&fixture.console, INT32_MAX, interruption),
			 DRAINED_INTERRUPTED);
	assert_true(stop(&fixture, &failed) > 1000);
	close(interruption);
}

/* Half a megabyte, long lines among it, and a reader that takes it bit by bit: none is lost. */
static void a_slow_reader_gets_everything(void **state)
{
	char *text, *expected;
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	for (unsigned int round = 0; round < 100; round++) {
		assert_true(asprintf(&expected, "%0*d %u\n", 6000, 7, round) > 0);
		print(&fixture, STREAM_OUTPUT, "%0*d %u", 6000, 7, round);
		text = read_until(fixture.readers[0], "\n");
		assert_string_equal(text, expected);
		free(text);
		free(expected);
	}
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void a_reader_that_is_gone_is_an_error_once(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	close(fixture.readers[0]);
	fixture.readers[0] = -1;
	print(&fixture, STREAM_OUTPUT, "nobody gets this");
	print(&fixture, STREAM_ERROR, "heard");
	assert_reads(fixture.readers[1], "heard\n");
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_true(failed);
}

static void what_is_drawn_is_taken_away_before_a_line(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	console_draw(&fixture.console, ""); /* nothing is there to be taken away */
	console_draw(&fixture.console, "half of it");
	assert_reads(fixture.readers[1], "\rhalf of it\033[K");
	print(&fixture, STREAM_ERROR, "line");
	assert_reads(fixture.readers[1], "\r\033[Kline\n");
	console_draw(&fixture.console, "more of it");
	assert_reads(fixture.readers[1], "\rmore of it\033[K");
	console_draw(&fixture.console, "");
	assert_reads(fixture.readers[1], "\r\033[K");
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void only_the_latest_is_drawn(void **state)
{
	struct fixture fixture;
	bool failed;
	char *text;

	(void)state;
	start(&fixture, false);
	for (int i = 0; i < 1000; i++)
		print(&fixture, STREAM_ERROR, "line %d", i);
	for (int i = 0; i < 1000; i++) {
		char drawn[16];

		snprintf(drawn, sizeof(drawn), "drawn %d", i);
		console_draw(&fixture.console, drawn);
	}
	text = read_until(fixture.readers[1], "\033[K");
	assert_non_null(strstr(text, "line 999\n\rdrawn 999\033[K"));
	free(text);
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void without_a_queue_nothing_is_left(void **state)
{
	struct options options = default_options(ROLE_CLIENT);
	struct console console;
	bool failed;

	(void)state;
	console_init(&console, &options);
	console_draw(&console, "nothing");
	assert_int_equal(console_drain(&console, INT32_MAX, -1), DRAINED_ALL);
	assert_int_equal(console_close(&console, &failed), 0);
	assert_false(failed);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_come_in_the_order_in_which_they_were_printed),
		cmocka_unit_test(nobody_waits_for_a_reader_and_what_was_dropped_is_counted),
		cmocka_unit_test(between_objects_of_json_no_line_says_what_was_dropped),
		cmocka_unit_test(the_other_stream_goes_on),
		cmocka_unit_test(the_end_does_not_wait_for_ever),
		cmocka_unit_test(a_slow_reader_gets_everything),
		cmocka_unit_test(a_reader_that_is_gone_is_an_error_once),
		cmocka_unit_test(what_is_drawn_is_taken_away_before_a_line),
		cmocka_unit_test(only_the_latest_is_drawn),
		cmocka_unit_test(without_a_queue_nothing_is_left),
	};

	return cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
