// SPDX-License-Identifier: MIT
/*
 * The pipes in front of standard output and standard error: order, bounds, readers that do not
 * read, the end.
 */
#include "rdma-common/console.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "unit.h"
#include "folder.h"

#define PATIENCE 10000 /* milliseconds for what comes at once */
/* Lines; when this one of them is written there is room again. */
#define TOO_MANY        (10 * CONSOLE_CAPACITY)
#define LAST_THAT_WAITS "> 2047\n"

/* ---- write(2) to the outputs, and poll(2), in the place of the C library's ---- */

static struct {
	int descriptors[STREAMS]; /* the outputs */
	atomic_bool held;         /* the next call waits for `go` */
	sem_t reached, go;        /* it does so */
	int error;                /* of the next call; 0: none */
	size_t most;              /* bytes that a call takes; 0: any number */
} writes;

ssize_t write(int descriptor, const void *from, size_t size)
{
	if (descriptor != writes.descriptors[0] && descriptor != writes.descriptors[1])
		return syscall(SYS_write, descriptor, from, size);
	if (atomic_exchange(&writes.held, false)) {
		sem_post(&writes.reached);
		sem_wait(&writes.go);
	}
	errno = writes.error;
	writes.error = 0;
	if (errno)
		return -1;
	return syscall(SYS_write, descriptor, from,
		       writes.most && size > writes.most ? writes.most : size);
}

static atomic_int interruptions; /* calls of poll(2) that a signal is to end */

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

/* ---- Consoles ---- */

/* A console whose outputs are pipes of a page, unless a test has others. */
static struct {
	struct console *console; /* each test has another: a stuck thread goes on using its own */
	int readers[STREAMS];
	int writers[STREAMS];
	bool failed; /* as console_close() says */
} fixture;

static void open_pipes(void)
{
	for (int i = 0; i < STREAMS; i++) {
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
		fixture.readers[i] = ends[0];
		fixture.writers[i] = ends[1];
	}
}

static void create_console(void)
{
	static struct console consoles[64];
	static size_t count;

	assert_in_range(count, 0, ENTRIES(consoles) - 1);
	fixture.console = &consoles[count++];
	console_init(fixture.console, false);
}

static void start_on(int output, int error)
{
	memset(&writes, 0, sizeof(writes));
	sem_init(&writes.reached, 0, 0);
	sem_init(&writes.go, 0, 0);
	writes.descriptors[0] = output;
	writes.descriptors[1] = error;
	signal(SIGPIPE, SIG_IGN);
	create_console();
	assert_int_equal(console_open(fixture.console, output, error), 0);
}

static void start(void)
{
	open_pipes();
	start_on(fixture.writers[0], fixture.writers[1]);
}

static void close_pipes(void)
{
	for (int i = 0; i < STREAMS; i++) {
		close(fixture.readers[i]);
		close(fixture.writers[i]);
	}
}

/* All is written, and nothing is left. */
static void stop(void)
{
	assert_true(console_drain(fixture.console, PATIENCE, -1));
	assert_int_equal(console_close(fixture.console, &fixture.failed), 0);
	close_pipes();
}

__attribute__((format(printf, 2, 3))) static void print(enum stream stream, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(fixture.console, stream, "> ", format, arguments);
	va_end(arguments);
}

/* The thread of standard error is held up with a line, until writes.go is posted. */
static void hold(void)
{
	atomic_store(&writes.held, true);
	print(STREAM_ERROR, "held");
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

/* ---- Lines ---- */

TEST(lines_of_both_streams_keep_their_order_in_one_file)
{
	char expected[2000] = "> held\n";
	size_t size = strlen(expected);

	open_pipes();
	start_on(fixture.writers[0], dup(fixture.writers[0]));
	hold();
	for (int i = 0; i < 200; i++) {
		print(i % 3 ? STREAM_OUTPUT : STREAM_ERROR, "%d", i);
		size += (size_t)snprintf(expected + size, sizeof(expected) - size, "> %d\n", i);
	}
	sem_post(&writes.go);
	assert_reads(fixture.readers[0], expected);
	close(writes.descriptors[1]);
	stop();
}

TEST(a_line_has_something_in_front_and_may_be_empty_behind_that)
{
	char expected[100];

	start();
	print(STREAM_OUTPUT, "%s", "");
	assert_reads(fixture.readers[0], "> \n");
	print_warning(fixture.console, "%d of %s", 5, "them");
	snprintf(expected, sizeof(expected), "%s: 5 of them\n", program_invocation_short_name);
	assert_reads(fixture.readers[1], expected);
	stop();
}

/* As an object of JSON may have it. The output takes a page, and that in pieces. */
TEST(a_line_that_is_longer_than_pipes_take_at_once_is_whole)
{
	char *text, *expected;

	start();
	writes.most = 1000;
	for (unsigned int round = 0; round < 10; round++) {
		assert_true(asprintf(&expected, "> %0*d %u\n", 60000, 7, round) > 0);
		print(STREAM_OUTPUT, "%0*d %u", 60000, 7, round);
		text = read_until(fixture.readers[0], "\n");
		assert_string_equal(text, expected);
		free(text);
		free(expected);
	}
	stop();
}

#define THREADS 8
#define LINES   250 /* of each */

static void *print_lines(__attribute__((unused)) void *argument)
{
	static atomic_int threads;
	int thread = threads++;

	for (int line = 0; line < LINES; line++)
		print(STREAM_OUTPUT, "%d %d", thread, line);
	return NULL;
}

TEST(lines_of_many_threads_are_whole_and_each_ones_in_order)
{
	int next[THREADS] = { 0 }, thread, line;
	pthread_t threads[THREADS];
	FILE *reader;

	start();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, print_lines, NULL);
	reader = fdopen(dup(fixture.readers[0]), "r");
	for (int i = 0; i < THREADS * LINES; i++) {
		assert_int_equal(fscanf(reader, "> %d %d\n", &thread, &line), 2);
		assert_in_range(thread, 0, THREADS - 1);
		assert_int_equal(line, next[thread]++);
		if (i == THREADS * LINES - 2) /* fscanf(3) waits for what is behind the newline */
			print(STREAM_OUTPUT, "end");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fclose(reader);
	stop();
}

/* ---- Readers that do not read ---- */

/* Lines with a number, as they are expected from `*line` on, or the word that some are missing. */
static const char *skip_lines(const char *text, int *line)
{
	int number, size = 0;

	for (;; text += size) {
		if (sscanf(text, "> %d\n%n", &number, &size) == 1)
			assert_int_equal(number, (*line)++);
		else if (sscanf(text, "(%d lines were dropped here: nobody read them)\n%n", &number,
				&size) == 1)
			*line += number;
		else
			return text;
	}
}

/* The first of more lines than may wait all come, and no gap is silent. */
static void assert_says_what_was_dropped(enum stream stream, int reader)
{
	const int other = STREAMS - 1 - (int)stream;
	int line = 0;
	char *text;

	for (int i = 0; i < TOO_MANY; i++)
		print(stream, "%d", i);
	print((enum stream)other, "the other stream goes on");
	assert_reads(fixture.readers[other], "> the other stream goes on\n");
	text = read_until(reader, LAST_THAT_WAITS);
	print(stream, "behind");
	assert_string_equal(skip_lines(text, &line), "");
	assert_in_range(line, CONSOLE_CAPACITY, TOO_MANY);
	free(text);
	text = read_until(reader, "> behind\n");
	assert_string_equal(skip_lines(text, &line), "> behind\n");
	assert_int_equal(line, TOO_MANY);
	free(text);
}

TEST(nobody_waits_for_a_reader_and_what_was_dropped_is_said)
{
	start();
	assert_says_what_was_dropped(STREAM_OUTPUT, fixture.readers[0]);
	assert_says_what_was_dropped(STREAM_ERROR, fixture.readers[1]);
	stop();
	assert_false(fixture.failed);
}

TEST(so_many_lines_wait_and_no_more)
{
	if (sysconf(_SC_PAGESIZE) > 4096)
		skip();
	start();
	hold();
	for (int i = 0; i <= CONSOLE_CAPACITY; i++)
		print(STREAM_ERROR, "%d", i);
	sem_post(&writes.go);
	free(read_until(fixture.readers[1], LAST_THAT_WAITS));
	print(STREAM_ERROR, "behind");
	assert_reads(fixture.readers[1],
		     "(1 lines were dropped here: nobody read them)\n> behind\n");
	stop();
}

/* Such as a program left it that has both ends of a socket, or started this one from a terminal. */
TEST(an_output_may_be_one_that_never_blocks)
{
	int ends[2];

	open_pipes();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	start_on(ends[0], fixture.writers[1]);
	assert_says_what_was_dropped(STREAM_OUTPUT, ends[1]);
	stop();
	assert_false(fixture.failed);
	close(ends[0]);
	close(ends[1]);
}

TEST(between_objects_of_json_no_line_says_what_was_dropped)
{
	char *text;

	start();
	fixture.console->json = true;
	for (int i = 0; i < TOO_MANY; i++)
		print(STREAM_OUTPUT, "%d", i);
	print(STREAM_ERROR, "status");
	text = read_until(fixture.readers[1], "> status\n");
	assert_non_null(strstr(text, "lines were dropped here: nobody read them)\n> status\n"));
	free(text);
	free(read_until(fixture.readers[0], LAST_THAT_WAITS));
	print(STREAM_OUTPUT, "end");
	text = read_until(fixture.readers[0], "> end\n");
	assert_null(strchr(text, '('));
	free(text);
	stop();
}

/* A signal is none. */
TEST(a_reader_that_is_gone_is_an_error_of_standard_output_alone)
{
	static const struct {
		enum stream stream;
		int error; /* of the first write(2) */
		const char *text;
		bool failed;
	} cases[] = {
		{ STREAM_OUTPUT, EPIPE, "> here again\n", true },
		{ STREAM_ERROR, EPIPE, "> here again\n", false },
		{ STREAM_OUTPUT, EINTR, "> gone\n> here again\n", false },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {

		start();
		writes.error = cases[i].error;
		print(cases[i].stream, "gone");
		print(cases[i].stream, "here again");
		assert_reads(fixture.readers[cases[i].stream], cases[i].text);
		stop();
		assert_int_equal(fixture.failed, cases[i].failed);
	}
}

/* ---- The end ---- */

TEST(the_end_waits_for_a_slow_reader_but_not_for_ever)
{
	const int interruption = eventfd(1, EFD_CLOEXEC);

	start();
	hold();
	assert_false(console_drain(fixture.console, 1, -1));
	interruptions = 1; /* by a signal that is no reason to end */
	assert_false(console_drain(fixture.console, PATIENCE, interruption));
	sem_post(&writes.go);
	assert_reads(fixture.readers[1], "> held\n");
	stop();
	close(interruption);
}

/* The thread is stuck in write(2): it is left, with its descriptors, to the end of the process. */
TEST(every_line_that_is_left_is_counted)
{
	for (int lines = 1; lines < 10 * CONSOLE_CAPACITY; lines *= 100) {

		start();
		print(STREAM_ERROR, "written");
		assert_reads(fixture.readers[1], "> written\n");
		hold();
		for (int i = 0; i < lines; i++)
			print(STREAM_ERROR, "%d", i);
		console_draw(fixture.console, "no line");
		assert_int_equal(console_close(fixture.console, &fixture.failed), 1 + lines);
		assert_false(fixture.failed);
		sem_post(&writes.go);
		assert_reads(fixture.readers[1], "> held\n");
		close_pipes();
	}
}

TEST(without_descriptors_for_it_a_console_does_not_open)
{
	int before = count_descriptors(), result = EMFILE;
	struct rlimit limit, low;

	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	create_console();
	open_pipes();
	for (low.rlim_cur = 3; result; low.rlim_cur++) {
		setrlimit(RLIMIT_NOFILE, &low);
		result = console_open(fixture.console, fixture.writers[0], fixture.writers[1]);
		setrlimit(RLIMIT_NOFILE, &limit);
		assert_int_equal(count_descriptors() - before, result ? 4 : 9);
		assert_true(result == 0 || result == EMFILE);
	}
	stop();
	assert_int_equal(count_descriptors(), before);
}

/* ---- Terminals ---- */

#define TWO   "\rdrawn\033[K\rdrawn\033[K"
#define EIGHT TWO TWO TWO TWO

TEST(what_is_drawn_is_taken_away_before_a_line)
{
	start();
	console_draw(fixture.console, ""); /* nothing to take away */
	console_draw(fixture.console, "half of it");
	assert_reads(fixture.readers[1], "\rhalf of it\033[K");
	console_draw(fixture.console, "more of it");
	assert_reads(fixture.readers[1], "\rmore of it\033[K");
	print(STREAM_ERROR, "line");
	print(STREAM_ERROR, "another");
	assert_reads(fixture.readers[1], "\r\033[K> line\n> another\n");
	console_draw(fixture.console, "all of it");
	console_draw(fixture.console, "");
	assert_reads(fixture.readers[1], "\rall of it\033[K\r\033[K");
	/* behind a stopped terminal a few of them wait */
	hold();
	for (int i = 0; i < TOO_MANY; i++)
		console_draw(fixture.console, "drawn");
	print(STREAM_ERROR, "line");
	sem_post(&writes.go);
	assert_reads(fixture.readers[1], "> held\n" EIGHT "\r\033[K> line\n");
	console_draw(fixture.console, "again");
	assert_reads(fixture.readers[1], "\ragain\033[K");
	stop();
}

/* ---- Without threads ---- */

static void assert_prints_at_once(FILE **stream, enum stream number)
{
	FILE *before = *stream;
	char *text;
	size_t size;

	*stream = open_memstream(&text, &size);
	print(number, "%d", 5);
	assert_int_equal(size, strlen("> 5\n")); /* without a flush of this test's */
	fclose(*stream);
	*stream = before;
	assert_string_equal(text, "> 5\n");
	free(text);
}

TEST(without_threads_nothing_is_left)
{
	create_console();
	console_draw(fixture.console, "nothing");
	assert_prints_at_once(&stdout, STREAM_OUTPUT);
	assert_prints_at_once(&stderr, STREAM_ERROR);
	assert_true(console_drain(fixture.console, INT32_MAX, -1));
	assert_int_equal(console_close(fixture.console, &fixture.failed), 0);
	assert_false(fixture.failed);
}

RUN_TESTS(NULL, NULL, NULL)
