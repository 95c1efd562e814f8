// SPDX-License-Identifier: MIT
/*
 * Standard output and standard error: order and number of lines, readers that do not read, and the
 * end of the program.
 */
#include "rdma-common/console.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "unit.h"
#include "folder.h"

#define PATIENCE 10000 /* maximum time, in milliseconds, until an event that is due at once */
/* A number of lines that no queue holds, and the last line that a full queue holds. */
#define TOO_MANY        (10 * CONSOLE_CAPACITY)
#define LAST_THAT_WAITS "> 2047\n"

/* ---- write(2) and poll(2) that replace the C library's ---- */

static struct {
	int descriptors[STREAMS]; /* descriptors of the outputs */
	atomic_bool held;         /* the next write() waits for `go` */
	sem_t reached, go;        /* posted by a write() that waits; posted to end its wait */
	int errors[3];            /* errno of the next writes, or 0 for success */
	size_t most;              /* maximum bytes of a write(), or 0 for no limit */
} writes;

ssize_t write(int descriptor, const void *from, size_t size)
{
	if (descriptor != writes.descriptors[0] && descriptor != writes.descriptors[1])
		return syscall(SYS_write, descriptor, from, size);
	if (atomic_exchange(&writes.held, false)) {
		sem_post(&writes.reached);
		sem_wait(&writes.go);
	}
	errno = writes.errors[0];
	memmove(writes.errors, writes.errors + 1, sizeof(writes.errors) - sizeof(writes.errors[0]));
	writes.errors[2] = 0;
	if (errno)
		return -1;
	if (writes.most && size > writes.most)
		size = writes.most;
	return syscall(SYS_write, descriptor, from, size);
}

static atomic_int interruptions; /* number of calls of poll() that will fail with EINTR */

int poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	if (interruptions > 0) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	return ppoll(descriptors, count, milliseconds < 0 ? NULL : &time, NULL);
}

/* ---- A console whose outputs are pipes that hold one page, unless a test uses others ---- */

static struct console *console;
static int readers[STREAMS] = { -1, -1 }, writers[STREAMS] = { -1, -1 };
static bool failed; /* set by console_close(): a write to standard output failed */

/* Each test has its own console: a thread that is stuck in write(2) keeps using the old one. */
static int reset(UNUSED void **state)
{
	static struct console consoles[64];
	static size_t count;

	assert_between(count, 0, ENTRIES(consoles) - 1);
	console = &consoles[count++];
	console_init(console, false);
	memset(&writes, 0, sizeof(writes));
	sem_init(&writes.reached, 0, 0);
	sem_init(&writes.go, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < STREAMS; i++) {
		int ends[2];

		close(readers[i]);
		close(writers[i]);
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
		readers[i] = ends[0];
		writers[i] = ends[1];
	}
	return 0;
}

static void start(int output, int error)
{
	writes.descriptors[0] = output;
	writes.descriptors[1] = error;
	assert_int_equal(console_open(console, output, error), 0);
}

static void start_on_pipes(void)
{
	start(writers[0], writers[1]);
}

/* Close the console, and check that no line is left in a queue. */
static void stop_console(void)
{
	assert_true(console_drain(console, PATIENCE, -1));
	assert_int_equal(console_close(console, &failed), 0);
}

__attribute__((format(printf, 2, 3))) static void print(enum stream stream, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(console, stream, "> ", format, arguments);
	va_end(arguments);
}

static void print_numbers(enum stream stream, int count)
{
	for (int i = 0; i < count; i++)
		print(stream, "%d", i);
}

/* Block the thread of standard error in a write, until writes.go is posted. */
static void hold(void)
{
	atomic_store(&writes.held, true);
	print(STREAM_ERROR, "held");
	sem_wait(&writes.reached);
}

/*
 * Read until `end` arrives; fail if nothing arrives for PATIENCE. Return the text, which
 * is valid until the next call.
 */
static const char *read_until(int reader, const char *end)
{
	static char text[1 << 20];
	struct pollfd ready = { .fd = reader, .events = POLLIN };
	size_t size = 0;

	for (text[0] = '\0'; !strstr(text, end); text[size] = '\0') {
		ssize_t count = poll(&ready, 1, PATIENCE);

		if (count == 1)
			count = read(reader, text + size, sizeof(text) - size - 1);
		if (count <= 0)
			fail_msg("'%s' did not arrive after: %s", end, text);
		size += (size_t)count;
	}
	return text;
}

static void assert_reads(int reader, const char *expected)
{
	assert_string_equal(read_until(reader, expected), expected);
}

/* The default stack has the size of RLIMIT_STACK, often 8 MiB. */
TEST(threads_of_the_console_have_small_stacks)
{
	start_on_pipes();
	for (int i = 0; i < STREAMS; i++) {
		pthread_attr_t attributes;
		size_t size = 0;

		assert_int_equal(pthread_getattr_np(console->outlets[i].thread, &attributes), 0);
		pthread_attr_getstacksize(&attributes, &size);
		pthread_attr_destroy(&attributes);
		assert_between(size, 1, 1 << 20);
	}
	stop_console();
}

/* ---- Lines ---- */

TEST(lines_of_both_streams_keep_their_order_in_one_file)
{
	char expected[2000] = "> held\n";
	size_t size = strlen(expected);

	start(writers[0], dup(writers[0]));
	hold();
	for (int i = 0; i < 200; i++) {
		print(i % 3 ? STREAM_OUTPUT : STREAM_ERROR, "%d", i);
		size += (size_t)snprintf(expected + size, sizeof(expected) - size, "> %d\n", i);
	}
	sem_post(&writes.go);
	assert_reads(readers[0], expected);
	stop_console();
	close(writes.descriptors[1]);
}

TEST(line_has_a_prefix_and_may_be_empty)
{
	char expected[100];

	start_on_pipes();
	print(STREAM_OUTPUT, "%s", "");
	assert_reads(readers[0], "> \n");
	print_warning(console, "%d of %s", 5, "them");
	snprintf(expected, sizeof(expected), "%s: 5 of them\n", program_invocation_short_name);
	assert_reads(readers[1], expected);
	stop_console();
}

/* JSON objects may be long: a line of 60 KB needs many calls of write(2). */
TEST(long_line_is_written_completely)
{
	char expected[60100];

	start_on_pipes();
	writes.most = 1000;
	for (int round = 0; round < 10; round++) {
		snprintf(expected, sizeof(expected), "> %0*d %d\n", 60000, 7, round);
		print(STREAM_OUTPUT, "%0*d %d", 60000, 7, round);
		assert_reads(readers[0], expected);
	}
	stop_console();
}

#define THREADS 8
#define LINES   250 /* lines of each thread: few enough to queue those of all threads */

static void *print_lines(void *thread)
{
	for (int line = 0; line < LINES; line++)
		print(STREAM_OUTPUT, "%d %d", (int)(intptr_t)thread, line);
	return NULL;
}

TEST(lines_stay_whole_and_in_order_within_each_thread)
{
	int next[THREADS] = { 0 }, thread, line, size;
	pthread_t threads[THREADS];
	const char *text;

	start_on_pipes();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, print_lines, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	print(STREAM_OUTPUT, "end");
	text = read_until(readers[0], "> end\n");
	for (int i = 0; i < THREADS * LINES; i++, text += size) {
		assert_int_equal(sscanf(text, "> %d %d\n%n", &thread, &line, &size), 2);
		assert_between(thread, 0, THREADS - 1);
		assert_int_equal(line, next[thread]++);
	}
	assert_string_equal(text, "> end\n");
	stop_console();
}

/* ---- Readers that do not read ---- */

/*
 * Skip lines numbered from `*line`, and notices of dropped lines; advance `*line` past them. Return
 * the remaining text.
 */
static const char *skip_lines(const char *text, int *line)
{
	static const char lost[] =
		"(%d %*[^:]: the output was not read in time, or memory was short)\n%n";
	int number, size = 0;

	for (;; text += size) {
		if (sscanf(text, "> %d\n%n", &number, &size) == 1)
			assert_int_equal(number, (*line)++);
		else if (sscanf(text, lost, &number, &size) == 1)
			*line += number;
		else
			return text;
	}
}

/* Check that lines are dropped only beyond the queue, are reported, and delay no other stream. */
static void assert_dropped_lines_are_reported(enum stream stream, int reader)
{
	const int other = STREAMS - 1 - (int)stream;
	int line = 0;

	print_numbers(stream, TOO_MANY);
	print((enum stream)other, "the other stream goes on");
	assert_reads(readers[other], "> the other stream goes on\n");
	assert_string_equal(skip_lines(read_until(reader, LAST_THAT_WAITS), &line), "");
	assert_between(line, CONSOLE_CAPACITY, TOO_MANY);
	print(stream, "behind");
	assert_string_equal(skip_lines(read_until(reader, "> behind\n"), &line), "> behind\n");
	assert_int_equal(line, TOO_MANY);
}

/*
 * The outputs are pipes. Then standard output is a non-blocking socket, like a terminal that a
 * parent program has made non-blocking.
 */
TEST(no_thread_waits_for_a_reader_and_dropped_lines_are_reported)
{
	int ends[2];

	start_on_pipes();
	assert_dropped_lines_are_reported(STREAM_OUTPUT, readers[0]);
	assert_dropped_lines_are_reported(STREAM_ERROR, readers[1]);
	stop_console();
	assert_false(failed);
	reset(NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	start(ends[0], writers[1]);
	assert_dropped_lines_are_reported(STREAM_OUTPUT, ends[1]);
	stop_console();
	assert_false(failed);
	close(ends[0]);
	close(ends[1]);
}

TEST(lines_beyond_the_queue_are_dropped_and_counted)
{
	if (sysconf(_SC_PAGESIZE) > 4096)
		skip();
	start_on_pipes();
	hold();
	print_numbers(STREAM_ERROR, CONSOLE_CAPACITY + 1);
	sem_post(&writes.go);
	read_until(readers[1], LAST_THAT_WAITS);
	print(STREAM_ERROR, "behind");
	assert_reads(
		readers[1],
		"(1 line was dropped here: the output was not read in time, or memory was short)\n> behind\n");
	stop_console();
}

TEST(dropped_json_objects_are_reported_on_standard_error)
{
	start_on_pipes();
	console->json = true;
	print_numbers(STREAM_OUTPUT, TOO_MANY);
	print(STREAM_ERROR, "status");
	assert_non_null(strstr(
		read_until(readers[1], "> status\n"),
		"lines were dropped here: the output was not read in time, or memory was short)\n> status\n"));
	read_until(readers[0], LAST_THAT_WAITS);
	print(STREAM_OUTPUT, "end");
	assert_null(strchr(read_until(readers[0], "> end\n"), '('));
	stop_console();
}

/* Last case: a write that a signal interrupts is repeated. */
TEST(missing_reader_is_an_error_only_on_standard_output)
{
	static const struct {
		enum stream stream;
		int error; /* errno of the first write() */
		const char *text;
		bool failed;
	} cases[] = {
		{ STREAM_OUTPUT, EPIPE, "> here again\n", true },
		{ STREAM_ERROR, EPIPE, "> here again\n", false },
		{ STREAM_OUTPUT, EINTR, "> gone\n> here again\n", false },
	};

	EACH_ROW (i, cases) {
		reset(NULL);
		start_on_pipes();
		writes.errors[0] = cases[i].error;
		print(cases[i].stream, "gone");
		print(cases[i].stream, "here again");
		assert_reads(readers[cases[i].stream], cases[i].text);
		stop_console();
		assert_int_equal(failed, cases[i].failed);
	}
}

/* A disk is full for a moment: the first write takes 5 bytes, the next two fail. */
TEST(torn_line_is_ended_before_the_next_one_and_reported_once)
{
	static const char warning[] =
		": cannot write to standard output: No space left on device; lines are lost until "
		"this is mended\n";
	const char *text;

	console->json = true;
	start_on_pipes();
	writes.most = 5;
	writes.errors[1] = writes.errors[2] = ENOSPC;
	print(STREAM_OUTPUT, "torn");
	print(STREAM_OUTPUT, "lost");
	print(STREAM_OUTPUT, "whole");
	assert_reads(readers[STREAM_OUTPUT], "> tor\n> whole\n");
	text = read_until(readers[STREAM_ERROR], warning);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	print(STREAM_ERROR, "end");
	assert_reads(readers[STREAM_ERROR], "> end\n");
	stop_console();
	assert_true(failed);
	assert_true(console->warned);
}

/* ---- The end ---- */

TEST(draining_waits_for_a_slow_reader_until_a_deadline_or_interruption)
{
	const int interruption = eventfd(1, EFD_CLOEXEC);

	start_on_pipes();
	hold();
	assert_false(console_drain(console, 1, -1));
	interruptions = 1; /* EINTR does not end the wait; `interruption` does */
	assert_false(console_drain(console, PATIENCE, interruption));
	sem_post(&writes.go);
	assert_reads(readers[1], "> held\n");
	stop_console();
	close(interruption);
}

/* A thread that is stuck in write(2) is left running, with its descriptors. */
TEST(closing_returns_the_number_of_unwritten_lines)
{
	for (int lines = 1; lines < 10 * CONSOLE_CAPACITY; lines *= 100) {
		reset(NULL);
		start_on_pipes();
		print(STREAM_ERROR, "written");
		assert_reads(readers[1], "> written\n");
		hold();
		print_numbers(STREAM_ERROR, lines);
		console_draw(console, "no line");
		assert_int_equal(console_close(console, &failed), 1 + lines);
		assert_false(failed);
		sem_post(&writes.go);
		assert_reads(readers[1], "> held\n");
	}
}

TEST(console_that_runs_out_of_descriptors_does_not_open_and_closes_its_own)
{
	int before = count_descriptors(), result = EMFILE;
	struct rlimit limit, low;

	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	for (low.rlim_cur = 3; result; low.rlim_cur++) {
		setrlimit(RLIMIT_NOFILE, &low);
		result = console_open(console, writers[0], writers[1]);
		setrlimit(RLIMIT_NOFILE, &limit);
		assert_int_equal(count_descriptors() - before, result ? 0 : 5);
		assert_true(result == 0 || result == EMFILE);
	}
	stop_console();
	assert_int_equal(count_descriptors(), before);
}

/* ---- Terminals ---- */

#define TWO   "\rdrawn\033[K\rdrawn\033[K"
#define EIGHT TWO TWO TWO TWO

TEST(drawn_text_is_removed_before_a_line)
{
	start_on_pipes();
	console_draw(console, ""); /* no text to remove */
	console_draw(console, "half of it");
	assert_reads(readers[1], "\rhalf of it\033[K");
	console_draw(console, "more of it");
	assert_reads(readers[1], "\rmore of it\033[K");
	print(STREAM_ERROR, "line");
	print(STREAM_ERROR, "another");
	assert_reads(readers[1], "\r\033[K> line\n> another\n");
	console_draw(console, "all of it");
	console_draw(console, "");
	assert_reads(readers[1], "\rall of it\033[K\r\033[K");
	/* while the terminal is stopped, only a few drawn texts are queued */
	hold();
	for (int i = 0; i < TOO_MANY; i++)
		console_draw(console, "drawn");
	print(STREAM_ERROR, "line");
	sem_post(&writes.go);
	assert_reads(readers[1], "> held\n" EIGHT "\r\033[K> line\n");
	console_draw(console, "again");
	assert_reads(readers[1], "\ragain\033[K");
	stop_console();
}

/*
 * A text as wide as the terminal would move the cursor to the next line, where '\r' cannot remove
 * it.
 */
TEST(drawn_text_fits_the_terminal_even_after_a_resize)
{
	static const struct {
		unsigned short columns; /* 0: unknown */
		const char *expected;
	} cases[] = {
		{ 80, "\r0123456789\033[K" },
		{ 11, "\r0123456789\033[K" },
		{ 10, "\r012345678\033[K" },
		{ 4, "\r012\033[K" },
		{ 1, "\r\033[K" },
		{ 0, "\r0123456789\033[K" },
		{ 10, "\r012345678\033[K" },
	};
	int screen = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal;
	struct winsize size = { .ws_row = 24 };

	assert_true(screen >= 0);
	assert_int_equal(unlockpt(screen), 0);
	terminal = open(ptsname(screen), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	start(writers[0], terminal);
	EACH_ROW (i, cases) {
		size.ws_col = cases[i].columns;
		assert_int_equal(ioctl(screen, TIOCSWINSZ, &size), 0);
		console_draw(console, "0123456789");
		assert_reads(screen, cases[i].expected);
	}
	print(STREAM_ERROR, "a line is never cut");
	assert_reads(screen, "\r\033[K> a line is never cut\r\n");
	stop_console();
	close(terminal);
	close(screen);
}

/* ---- Without threads ---- */

TEST(without_threads_each_line_is_flushed_at_once)
{
	FILE **const streams[] = { &stdout, &stderr };

	console_draw(console, "nothing");
	for (int i = 0; i < STREAMS; i++) {
		FILE *before = *streams[i];
		char *text;
		size_t size;

		*streams[i] = open_memstream(&text, &size);
		print((enum stream)i, "%d", 5);
		assert_int_equal(size, strlen("> 5\n")); /* the console has flushed the stream */
		fclose(*streams[i]);
		*streams[i] = before;
		assert_string_equal(text, "> 5\n");
		free(text);
	}
	assert_true(console_drain(console, INT32_MAX, -1));
	assert_int_equal(console_close(console, &failed), 0);
	assert_false(failed);
}

RUN_TESTS(NULL, reset)
