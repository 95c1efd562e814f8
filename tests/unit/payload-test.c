// SPDX-License-Identifier: MIT
/*
 * The outgoing payload: what of it is in memory, and every byte of the rest, from files and pipes
 * that are small, large, slow, or change meanwhile.
 */
#include "rdma-common/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdma-common/digest.h"
#include "rdma-common/memory.h"
#include "rdma-common/transfer.h"

#define LARGE ((size_t)20 << 20)

static const size_t sizes[] = { 1, PAYLOAD_WHOLE - 1, PAYLOAD_WHOLE, PAYLOAD_WHOLE + 1, LARGE };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint8_t *bytes; /* LARGE of them, what files and pipes begin with */
static uint8_t *found; /* room for as many */
static char folder[] = "/tmp/payload-test.XXXXXX";
static char cause[CAUSE_SIZE]; /* of the load() that failed last */

static int set_up(void **state)
{
	(void)state;
	bytes = malloc(LARGE);
	found = malloc(LARGE);
	if (!bytes || !found)
		return -1;
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + i / 65521);
	signal(SIGPIPE, SIG_IGN);
	return mkdtemp(folder) && !chdir(folder) && !setenv("TMPDIR", folder, 1) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	free(bytes);
	free(found);
	return chdir("/") || rmdir(folder); /* fails if anything is left in it */
}

static enum status load_as(struct payload *payload, const struct options *options)
{
	struct console console;
	struct process process;
	enum status status;

	memset(payload, 0, sizeof(*payload));
	console_init(&console, options);
	process_init(&process, options, &console);
	status = payload_load(payload, &process);
	memcpy(cause, process.failure.cause, sizeof(cause));
	process_close(&process);
	return status;
}

static struct options options_for(enum role role, const char *file)
{
	struct options options = default_options(role);

	options.file = file;
	return options;
}

static enum status load(struct payload *payload, enum role role, const char *file)
{
	struct options options = options_for(role, file);

	return load_as(payload, &options);
}

static struct payload load_pattern(uint64_t size)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload;

	options.pattern_size = size;
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_int_equal(payload.length, size);
	assert_true(payload.is_pattern);
	return payload;
}

/* Reads from `position` to the end, in odd steps, into `found`; returns how many bytes. */
static size_t read_rest(const struct payload *payload, uint64_t position)
{
	const atomic_bool never = false;
	size_t size = 0, step = 1;
	ssize_t count;

	while (size < LARGE) {
		count = payload_read(payload, position + size, found + size,
				     step < LARGE - size ? step : LARGE - size, &never);
		assert_true(count >= 0);
		if (count == 0)
			break;
		size += (size_t)count;
		step = step * 3 % 1000003;
	}
	return size;
}

static void assert_has_bytes(const struct payload *payload, size_t size)
{
	assert_int_equal(read_rest(payload, 0), size);
	assert_memory_equal(found, bytes, size);
}

static void write_file(const char *name, size_t size)
{
	int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(descriptor >= 0);
	assert_int_equal(write(descriptor, bytes, size), size);
	close(descriptor);
}

/* ---- Text and patterns ---- */

static void a_text_is_whole_and_zeros_follow_it(void **state)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload;

	(void)state;
	options.message = "hello";
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_true(payload_is_whole(&payload));
	assert_int_equal(payload.length, DEFAULT_PAYLOAD);
	assert_string_equal((char *)payload.memory, "hello");
	assert_int_equal(payload.memory[DEFAULT_PAYLOAD - 1], 0);
	payload_free(&payload);
}

static void a_pattern_is_whole_or_made_when_it_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct payload payload = load_pattern(sizes[i]);

		assert_int_equal(payload_is_whole(&payload), sizes[i] <= PAYLOAD_WHOLE);
		assert_int_equal(payload.size, payload_is_whole(&payload) ? sizes[i] : 0);
		assert_int_equal(read_rest(&payload, 0), sizes[i]);
		assert_int_equal(pattern_mismatch(found, 0, sizes[i]), sizes[i]);
		payload_free(&payload);
	}
}

static void a_digest_does_not_depend_on_its_steps(void **state)
{
	struct payload one, other;
	uint64_t whole;

	(void)state;
	one = load_pattern(10000);
	other = load_pattern(10000);
	whole = payload_digest(&one);
	for (uint64_t size = 0; size <= 10000; size += 625)
		payload_extend_digest(&other, size);
	payload_extend_digest(&other, 5); /* is covered already */
	assert_true(payload_digest(&other) == whole);
	assert_int_equal(other.digested, 10000);
	payload_free(&one);
	payload_free(&other);
}

/* ---- Files ---- */

/* On 32-bit machines, too: a file of 5 GiB, a hole but for its last bytes, and as long a pattern.
 */
static void what_is_longer_than_four_gibibytes_is_read_to_its_end(void **state)
{
	const uint64_t length = (uint64_t)5 << 30, tail = 1000;
	struct payload payload;
	int descriptor = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	(void)state;
	assert_int_equal(pwrite(descriptor, bytes, tail, (off_t)(length - tail)), tail);
	close(descriptor);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_true(payload.length == length);
	assert_int_equal(read_rest(&payload, length - tail), tail);
	assert_memory_equal(found, bytes, tail);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
	payload = load_pattern(length);
	assert_int_equal(read_rest(&payload, length - tail), tail);
	assert_int_equal(pattern_mismatch(found, length - tail, tail), tail);
	payload_free(&payload);
}

static void a_file_is_whole_or_read_at_any_position(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		write_file("file", sizes[i]);
		assert_int_equal(load(&payload, ROLE_SERVER, "file"), STATUS_SUCCESS);
		assert_int_equal(unlink("file"), 0);
		assert_int_equal(payload.length, sizes[i]);
		assert_int_equal(payload_is_whole(&payload), sizes[i] <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, sizes[i]);
		assert_int_equal(read_rest(&payload, sizes[i] / 2), sizes[i] - sizes[i] / 2);
		assert_memory_equal(found, bytes + sizes[i] / 2, sizes[i] - sizes[i] / 2);
		payload_free(&payload);
	}
}

/* As a shell that has read a line of it leaves it. */
static void a_file_on_standard_input_begins_where_that_stands(void **state)
{
	static const size_t skipped[] = { 10, LARGE - 100 };
	struct payload payload;

	(void)state;
	write_file("file", LARGE);
	for (size_t i = 0; i < 2; i++) {
		int descriptor = open("file", O_RDONLY);

		assert_int_equal(lseek(descriptor, (off_t)skipped[i], SEEK_SET), skipped[i]);
		dup2(descriptor, STDIN_FILENO);
		close(descriptor);
		assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
		assert_int_equal(payload.length, LARGE - skipped[i]);
		assert_int_equal(read_rest(&payload, 0), LARGE - skipped[i]);
		assert_memory_equal(found, bytes + skipped[i], LARGE - skipped[i]);
		payload_free(&payload);
	}
	assert_int_equal(unlink("file"), 0);
}

static void of_a_file_that_grows_what_it_had_is_sent(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", LARGE - 5);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	write_file("file", LARGE);
	assert_has_bytes(&payload, LARGE - 5);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void a_file_that_shrinks_ends_early(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", LARGE);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(truncate("file", LARGE - 1), 0);
	assert_has_bytes(&payload, LARGE - 1);
	assert_int_equal(payload.length, LARGE);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void holes_are_zeros(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", 1);
	assert_int_equal(truncate("file", LARGE), 0);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(read_rest(&payload, 1), LARGE - 1);
	for (size_t i = 0; i < LARGE - 1; i++)
		assert_int_equal(found[i], 0);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void a_file_that_does_not_know_its_size_is_read_to_its_end(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;
	char version[4096];
	FILE *file;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(load(&payload, roles[i], "/proc/version"), STATUS_SUCCESS);
		assert_true(payload_is_whole(&payload));
		file = fopen("/proc/version", "r");
		assert_int_equal(fread(version, 1, sizeof(version), file), payload.size);
		fclose(file);
		assert_memory_equal(payload.memory, version, payload.size);
		payload_free(&payload);
	}
}

static void what_cannot_be_read_is_named(void **state)
{
	static const struct {
		const char *name, *reason;
	} cases[] = {
		{ "missing", "No such file" },
		{ "/", "Is a directory" },
		{ "/dev/null", "it is empty" },
	};
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(load(&payload, ROLE_CLIENT, cases[i].name), STATUS_LOCAL_FAILURE);
		assert_non_null(strstr(cause, cases[i].name));
		assert_non_null(strstr(cause, cases[i].reason));
		payload_free(&payload);
	}
}

static void an_endless_device_is_sent_as_it_comes(void **state)
{
	struct payload payload;

	(void)state;
	assert_int_equal(load(&payload, ROLE_CLIENT, "/dev/zero"), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_int_equal(read_rest(&payload, 0), LARGE);
	payload_free(&payload);
}

/* ---- Pipes ---- */

/* What is written to a pipe. */
struct feed {
	int descriptor;
	size_t size, step;  /* bytes in all and at once */
	useconds_t pause;   /* before each step but the first, in microseconds */
	useconds_t silence; /* before the end */
	pthread_t thread;
};

static void *run_feed(void *argument)
{
	const struct feed *feed = argument;
	size_t done = 0;

	while (done < feed->size) {
		size_t left = feed->size - done;
		ssize_t count = write(feed->descriptor, bytes + done,
				      left < feed->step ? left : feed->step);

		if (count < 0 && errno == EPIPE)
			break;
		if (count > 0)
			done += (size_t)count;
		if (feed->pause && done < feed->size)
			usleep(feed->pause);
	}
	usleep(feed->silence);
	close(feed->descriptor);
	return NULL;
}

/* Lets standard input be a pipe that is fed. */
static void feed_start(struct feed *feed)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	feed->descriptor = ends[1];
	assert_int_equal(pthread_create(&feed->thread, NULL, run_feed, feed), 0);
}

static void feed_end(const struct feed *feed)
{
	int nothing = open("/dev/null", O_RDONLY);

	dup2(nothing, STDIN_FILENO);
	close(nothing);
	pthread_join(feed->thread, NULL);
}

static void a_pipe_that_ends_soon_is_whole_any_other_is_sent_as_it_comes(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct feed feed = { .size = sizes[i], .step = LARGE };
		bool whole = sizes[i] <= PAYLOAD_WHOLE;

		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
		assert_int_equal(payload_is_whole(&payload), whole);
		assert_true(payload.length == (whole ? sizes[i] : TRANSFER_UNKNOWN));
		assert_has_bytes(&payload, sizes[i]);
		payload_free(&payload);
		feed_end(&feed);
	}
}

static void a_pipe_that_is_silent_is_not_waited_for(void **state)
{
	struct feed feed = { .size = 10, .step = 5, .pause = 400000 };
	struct payload payload;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_int_equal(payload.size, 5);
	assert_has_bytes(&payload, 10);
	payload_free(&payload);
	feed_end(&feed);
}

static void a_trickle_is_waited_for_a_second(void **state)
{
	struct feed feed = { .size = 75, .step = 1, .pause = 20000 };
	struct payload payload;
	int64_t started;

	(void)state;
	feed_start(&feed);
	started = now_milliseconds();
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_true(now_milliseconds() - started >= 900);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_has_bytes(&payload, 75);
	payload_free(&payload);
	feed_end(&feed);
}

static void the_first_byte_is_waited_for(void **state)
{
	static const struct feed empty = { .size = 0, .silence = 300000 };
	struct payload payload;
	struct feed feed = empty;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(cause, "cannot read '-': it is empty"));
	payload_free(&payload);
	feed_end(&feed);
}

static void a_pipe_that_does_not_block_is_waited_for(void **state)
{
	struct feed feed = { .size = 40, .step = 10, .pause = 250000 };
	struct payload payload;

	(void)state;
	feed_start(&feed);
	fcntl(STDIN_FILENO, F_SETFL, O_RDONLY | O_NONBLOCK);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_has_bytes(&payload, 40);
	payload_free(&payload);
	feed_end(&feed);
}

static void do_nothing(int signal_number)
{
	(void)signal_number;
}

static void signals_do_not_end_a_pipe(void **state)
{
	const struct sigaction action = { .sa_handler = do_nothing }; /* without SA_RESTART */
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { 0 };
	struct feed feed = { .size = 1000000, .step = 100000, .pause = 150000 };
	struct payload payload;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_has_bytes(&payload, 1000000);
	setitimer(ITIMER_REAL, &never, NULL);
	payload_free(&payload);
	feed_end(&feed);
}

static void *cancel(void *argument)
{
	atomic_bool *cancelled = argument;

	usleep(50000);
	atomic_store(cancelled, true);
	return NULL;
}

static void a_wait_for_a_pipe_can_be_cancelled(void **state)
{
	struct feed feed = { .size = 1, .step = 1, .silence = 1000000 };
	atomic_bool cancelled = false;
	struct payload payload;
	pthread_t canceller;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &cancelled), 0);
	assert_int_equal(payload_read(&payload, 1, found, LARGE, &cancelled), -1);
	assert_int_equal(errno, ECANCELED);
	pthread_join(canceller, NULL);
	payload_free(&payload);
	feed_end(&feed);
}

/* ---- The copy that a server of many clients keeps ---- */

static void a_server_of_many_clients_keeps_a_copy_of_a_pipe(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct feed feed = { .size = sizes[i], .step = LARGE, .silence = 200000 };

		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_SUCCESS);
		assert_int_equal(payload.length, sizes[i]);
		assert_int_equal(payload_is_whole(&payload), sizes[i] <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, sizes[i]);
		assert_has_bytes(&payload, sizes[i]); /* again, for another client */
		payload_free(&payload);
		feed_end(&feed);
	}
}

static void a_server_of_one_client_needs_no_copy(void **state)
{
	struct options options = options_for(ROLE_SERVER, "-");
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	(void)state;
	options.one_off = true;
	feed_start(&feed);
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_has_bytes(&payload, LARGE);
	payload_free(&payload);
	feed_end(&feed);
}

static void a_folder_that_takes_no_copy_is_passed_over(void **state)
{
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	(void)state;
	setenv("TMPDIR", "/proc", 1);
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_SUCCESS);
	assert_has_bytes(&payload, LARGE);
	payload_free(&payload);
	feed_end(&feed);
	setenv("TMPDIR", folder, 1);
}

static void a_copy_for_which_there_is_no_room_is_an_error_in_words(void **state)
{
	const struct rlimit small = { 10 << 20, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_LOCAL_FAILURE);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_non_null(strstr(cause, "cannot keep a copy of '-' in /tmp/payload-test."));
	assert_non_null(strstr(cause, "File too large; set TMPDIR"));
	payload_free(&payload);
	feed_end(&feed);
}

/* ---- The end ---- */

static void what_is_in_use_is_left(void **state)
{
	struct payload payload = load_pattern(5000);

	(void)state;
	payload.stays = true;
	payload_free(&payload);
	assert_int_equal(pattern_mismatch(payload.memory, 0, 5000), 5000);
	assert_int_equal(memory_unmap(payload.memory, payload.size), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_whole_and_zeros_follow_it),
		cmocka_unit_test(a_pattern_is_whole_or_made_when_it_is_read),
		cmocka_unit_test(a_digest_does_not_depend_on_its_steps),
		cmocka_unit_test(what_is_longer_than_four_gibibytes_is_read_to_its_end),
		cmocka_unit_test(a_file_is_whole_or_read_at_any_position),
		cmocka_unit_test(a_file_on_standard_input_begins_where_that_stands),
		cmocka_unit_test(of_a_file_that_grows_what_it_had_is_sent),
		cmocka_unit_test(a_file_that_shrinks_ends_early),
		cmocka_unit_test(holes_are_zeros),
		cmocka_unit_test(a_file_that_does_not_know_its_size_is_read_to_its_end),
		cmocka_unit_test(what_cannot_be_read_is_named),
		cmocka_unit_test(an_endless_device_is_sent_as_it_comes),
		cmocka_unit_test(a_pipe_that_ends_soon_is_whole_any_other_is_sent_as_it_comes),
		cmocka_unit_test(a_pipe_that_is_silent_is_not_waited_for),
		cmocka_unit_test(a_trickle_is_waited_for_a_second),
		cmocka_unit_test(the_first_byte_is_waited_for),
		cmocka_unit_test(a_pipe_that_does_not_block_is_waited_for),
		cmocka_unit_test(signals_do_not_end_a_pipe),
		cmocka_unit_test(a_wait_for_a_pipe_can_be_cancelled),
		cmocka_unit_test(a_server_of_many_clients_keeps_a_copy_of_a_pipe),
		cmocka_unit_test(a_server_of_one_client_needs_no_copy),
		cmocka_unit_test(a_folder_that_takes_no_copy_is_passed_over),
		cmocka_unit_test(a_copy_for_which_there_is_no_room_is_an_error_in_words),
		cmocka_unit_test(what_is_in_use_is_left),
	};

	return cmocka_run_group_tests_name("payload", tests, set_up, tear_down);
}
