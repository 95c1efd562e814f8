// SPDX-License-Identifier: MIT
/*
 * The queue in front of standard output and standard error: order, bounds, readers that do not
 * read.
 */
#include "rdma-common/console.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "rdma-common/process.h"

#define PATIENCE 10000 /* milliseconds for what comes at once */
#define PIPE     ((size_t)4096)

/* ---- write(2), which only the thread calls, and poll(2), in the place of the C library's ---- */

static struct {
	atomic_bool held;   /* the next call waits for `go` */
	sem_t reached, go;  /* it does so */
	int error;          /* of the next call; 0: none */
	size_t most;        /* bytes that a call takes; 0: any number */
	unsigned int count; /* calls that took something */
	size_t largest;     /* bytes that one took */
	bool cut;           /* one took a part of a line */
	char text[1 << 16]; /* all of them, in their order */
	size_t size;
} writes;

static void note_write(const char *text, size_t size)
{
	writes.count++;
	if (size > writes.largest)
		writes.largest = size;
	writes.cut |= text[size - 1] != '\n';
	if (size > sizeof(writes.text) - writes.size)
		size = sizeof(writes.text) - writes.size;
	memcpy(writes.text + writes.size, text, size);
	writes.size += size;
}

ssize_t write(int descriptor, const void *from, size_t size)
{
	ssize_t count;

	if (atomic_exchange(&writes.held, false)) {
		sem_post(&writes.reached);
		sem_wait(&writes.go);
	}
	errno = writes.error;
	writes.error = 0;
	if (errno)
		return -1;
	count = syscall(SYS_write, descriptor, from,
			writes.most && size > writes.most ? writes.most : size);
	if (count > 0)
		note_write(from, (size_t)count);
	return count;
}

static unsigned int interruptions; /* calls of poll(2) that a signal is still to end */
static unsigned int expirations;   /* calls of poll(2) whose time is up at once */

int poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	if (expirations > 0) {
		expirations--;
		return 0;
	}
	if (interruptions > 0) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	return ppoll(descriptors, count, milliseconds < 0 ? NULL : &time, NULL);
}

/* ---- Consoles ---- */

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
	memset(&writes, 0, sizeof(writes));
	sem_init(&writes.reached, 0, 0);
	sem_init(&writes.go, 0, 0);
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

/* The thread is held up with a line, until writes.go is posted. */
static void hold(struct fixture *fixture)
{
	atomic_store(&writes.held, true);
	print(fixture, STREAM_ERROR, "held");
	sem_wait(&writes.reached);
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
	char held[5];
	bool failed;

	(void)state;
	start(&fixture, false);
	assert_int_equal(console_close(&fixture.console, &failed), 0);
	/* both streams are one pipe */
	assert_int_equal(console_open(&fixture.console, fixture.writers[0], fixture.writers[0]), 0);
	hold(&fixture);
	for (int i = 0; i < 100; i += 2) {
		print(&fixture, STREAM_OUTPUT, "%d", i);
		print(&fixture, STREAM_ERROR, "%d", i + 1);
	}
	sem_post(&writes.go);
	assert_int_equal(read(fixture.readers[0], held, strlen("held\n")), 5);
	for (int i = 0; i < 100; i++) {
		char byte, line[16] = "";

		for (size_t size = 0; size < sizeof(line) && !strchr(line, '\n'); size++) {
			assert_int_equal(read(fixture.readers[0], &byte, 1), 1);
			line[size] = byte;
		}
		assert_int_equal(atoi(line), i);
	}
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(writes.count, 2); /* at once, since it is one file */
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_false(failed);
}

static void lines_of_two_streams_leave_in_their_order_too(void **state)
{
	struct fixture fixture;
	char expected[1000] = "held\n";
	size_t size = strlen(expected);
	bool failed;

	(void)state;
	start(&fixture, false);
	hold(&fixture);
	for (int i = 0; i < 100; i++) {
		print(&fixture, i % 3 ? STREAM_OUTPUT : STREAM_ERROR, "%d", i);
		size += (size_t)snprintf(expected + size, sizeof(expected) - size, "%d\n", i);
	}
	sem_post(&writes.go);
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(writes.size, size);
	assert_memory_equal(writes.text, expected, size);
	assert_int_equal(stop(&fixture, &failed), 0);
}

/* 32 lines of 128 bytes fill a buffer. */
static void lines_are_written_as_many_as_fit_and_none_is_cut(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	hold(&fixture);
	for (int i = 0; i < 200; i++)
		print(&fixture, STREAM_OUTPUT, "%0127d", i);
	sem_post(&writes.go);
	free(read_until(fixture.readers[0], "199\n"));
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_false(writes.cut);
	assert_int_equal(writes.largest, 4096);
	assert_int_equal(writes.count, 1 + 7);
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void a_line_may_be_empty_and_have_something_in_front(void **state)
{
	struct fixture fixture;
	char expected[100];
	bool failed;

	(void)state;
	start(&fixture, false);
	print(&fixture, STREAM_OUTPUT, "%s", "");
	assert_reads(fixture.readers[0], "\n");
	print_warning(&fixture.console, "%d of %s", 5, "them");
	snprintf(expected, sizeof(expected), "%s: 5 of them\n", program_invocation_short_name);
	assert_reads(fixture.readers[1], expected);
	assert_int_equal(stop(&fixture, &failed), 0);
}

static void signals_and_short_writes_lose_nothing(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	writes.error = EINTR;
	writes.most = 3;
	print(&fixture, STREAM_OUTPUT, "a line in pieces");
	assert_reads(fixture.readers[0], "a line in pieces\n");
	interruptions = 2;
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_false(failed);
}

static void nobody_waits_for_a_reader_and_what_was_dropped_is_counted(void **state)
{
	static const enum stream streams[] = { STREAM_OUTPUT, STREAM_ERROR };
	int64_t started = now_milliseconds();
	struct fixture fixture;
	bool failed;
	int lines;

	(void)state;
	for (size_t i = 0; i < STREAMS; i++) {
		start(&fixture, false);
		lines = print_too_much(&fixture, streams[i]);
		assert_in_range(now_milliseconds() - started, 0, PATIENCE);
		read_with_gap(fixture.readers[i], lines);
		print(&fixture, streams[i], "behind the gap");
		assert_reads(fixture.readers[i], "behind the gap\n");
		assert_int_equal(stop(&fixture, &failed), 0);
	}
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

/* A socket blocks who writes to it, and cannot be opened once more. */
static void nobody_waits_for_the_reader_of_a_socket(void **state)
{
	const int size = 16384; /* less than the queue takes */
	struct fixture fixture;
	int ends[2], lines;
	bool failed;

	(void)state;
	start(&fixture, false);
	assert_int_equal(console_close(&fixture.console, &failed), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(console_open(&fixture.console, ends[0], fixture.writers[1]), 0);
	hold(&fixture);
	lines = print_too_much(&fixture, STREAM_OUTPUT);
	sem_post(&writes.go);
	assert_int_equal(console_drain(&fixture.console, 50, -1), DRAINED_EXPIRED);
	print(&fixture, STREAM_ERROR, "heard");
	assert_reads(fixture.readers[1], "held\nheard\n");
	read_with_gap(ends[1], lines);
	assert_int_equal(stop(&fixture, &failed), 0);
	close(ends[0]);
	close(ends[1]);
}

/* What a shell has opened is not opened once more: other programs write there, too. */
static void a_file_is_written_on_where_it_stands(void **state)
{
	FILE *file = tmpfile();
	struct fixture fixture;
	char text[100] = "";
	bool failed;

	(void)state;
	start(&fixture, false);
	assert_int_equal(console_close(&fixture.console, &failed), 0);
	assert_true(dprintf(fileno(file), "before\n") > 0);
	assert_int_equal(console_open(&fixture.console, fileno(file), fixture.writers[1]), 0);
	print(&fixture, STREAM_OUTPUT, "line");
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_true(dprintf(fileno(file), "behind\n") > 0);
	assert_true(pread(fileno(file), text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "before\nline\nbehind\n");
	fclose(file);
}

/* Whether dropped, waiting or written in part: what came and what was left are all of them. */
static void every_line_that_is_left_is_counted(void **state)
{
	for (int lines = 60; lines <= 60000; lines *= 10) {
		struct fixture fixture;
		uint64_t left, came = 0;
		char byte;
		bool failed;

		(void)state;
		start(&fixture, false);
		for (int i = 0; i < lines; i++)
			print(&fixture, STREAM_OUTPUT, "%0100d", i);
		console_drain(&fixture.console, 50, -1); /* the pipe is full */
		left = console_close(&fixture.console, &failed);
		fcntl(fixture.readers[0], F_SETFL, O_NONBLOCK);
		while (read(fixture.readers[0], &byte, 1) == 1)
			came += byte == '\n';
		assert_int_equal(came + left, lines);
		assert_true(left > 0);
		stop(&fixture, &failed);
	}
}

/* A machine with much to do lets the thread run late. */
static void what_is_written_is_not_lost_because_the_thread_ends_late(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	print(&fixture, STREAM_OUTPUT, "line");
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	expirations = 1;
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_false(failed);
	assert_int_equal(expirations, 0);
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
	interruptions = 1;
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
	for (int i = 0; i < 100; i++) {
		console_draw(&fixture.console, ""); /* nothing is there to be taken away */
		print(&fixture, STREAM_ERROR, "line");
		assert_reads(fixture.readers[1], "line\n");
	}
	assert_int_equal(console_drain(&fixture.console, PATIENCE, -1), DRAINED_ALL);
	assert_int_equal(writes.count, 100);
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

__attribute__((format(printf, 3, 4))) static void print_to(struct console *console,
							   enum stream stream, const char *format,
							   ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(console, stream, "prefix: ", format, arguments);
	va_end(arguments);
}

static void assert_prints_at_once(struct console *console, FILE **stream, enum stream number)
{
	FILE *before = *stream;
	char *text;
	size_t size;

	*stream = open_memstream(&text, &size);
	print_to(console, number, "%d", 5);
	assert_int_equal(size, strlen("prefix: 5\n")); /* without a flush of this test's */
	fclose(*stream);
	*stream = before;
	assert_string_equal(text, "prefix: 5\n");
	free(text);
}

static void without_a_queue_nothing_is_left(void **state)
{
	struct options options = default_options(ROLE_CLIENT);
	struct console console;
	bool failed;

	(void)state;
	console_init(&console, &options);
	console_draw(&console, "nothing");
	assert_prints_at_once(&console, &stdout, STREAM_OUTPUT);
	assert_prints_at_once(&console, &stderr, STREAM_ERROR);
	assert_int_equal(console_drain(&console, INT32_MAX, -1), DRAINED_ALL);
	assert_int_equal(console_close(&console, &failed), 0);
	assert_false(failed);
}

static void no_descriptor_is_left_open(void **state)
{
	int before = count_descriptors();
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	assert_int_equal(stop(&fixture, &failed), 0);
	assert_int_equal(count_descriptors(), before);
}

/* The thread, and what it works with, is left to the end of the process. */
static void a_thread_that_is_stuck_in_a_write_is_not_waited_for(void **state)
{
	struct fixture fixture;
	bool failed;

	(void)state;
	start(&fixture, false);
	hold(&fixture);
	print(&fixture, STREAM_OUTPUT, "one");
	print(&fixture, STREAM_ERROR, "other");
	assert_int_equal(stop(&fixture, &failed), 3);
	assert_false(failed);
	sem_post(&writes.go);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_come_in_the_order_in_which_they_were_printed),
		cmocka_unit_test(lines_of_two_streams_leave_in_their_order_too),
		cmocka_unit_test(lines_are_written_as_many_as_fit_and_none_is_cut),
		cmocka_unit_test(a_line_may_be_empty_and_have_something_in_front),
		cmocka_unit_test(signals_and_short_writes_lose_nothing),
		cmocka_unit_test(nobody_waits_for_a_reader_and_what_was_dropped_is_counted),
		cmocka_unit_test(between_objects_of_json_no_line_says_what_was_dropped),
		cmocka_unit_test(the_other_stream_goes_on),
		cmocka_unit_test(nobody_waits_for_the_reader_of_a_socket),
		cmocka_unit_test(a_file_is_written_on_where_it_stands),
		cmocka_unit_test(every_line_that_is_left_is_counted),
		cmocka_unit_test(what_is_written_is_not_lost_because_the_thread_ends_late),
		cmocka_unit_test(the_end_does_not_wait_for_ever),
		cmocka_unit_test(a_slow_reader_gets_everything),
		cmocka_unit_test(a_reader_that_is_gone_is_an_error_once),
		cmocka_unit_test(what_is_drawn_is_taken_away_before_a_line),
		cmocka_unit_test(only_the_latest_is_drawn),
		cmocka_unit_test(without_a_queue_nothing_is_left),
		cmocka_unit_test(no_descriptor_is_left_open),
		cmocka_unit_test(a_thread_that_is_stuck_in_a_write_is_not_waited_for),
	};

	return cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
