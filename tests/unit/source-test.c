// SPDX-License-Identifier: MIT
/*
 * The source of an outgoing stream: every byte in its place in rings of any length, its digest, and
 * that nothing is heard of it once it was stopped.
 */
#include "rdma-common/source.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "mapped.h"
#include "rdma-common/digest.h"
#include "rdma-common/memory.h"

#define LARGE ((size_t)20 << 20)

/* What is filled at once at most. */
#define STEP ((uint64_t)256 << 10)

static const size_t sizes[] = { 1, PAYLOAD_WHOLE - 1, PAYLOAD_WHOLE, PAYLOAD_WHOLE + 1, LARGE };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* ---- Threads, of which there may be no more, in the place of the C library's ---- */

static int no_thread; /* the error of pthread_create(3); 0: none */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	return no_thread ? no_thread : create(thread, attributes, run, argument);
}

/* A thread that asks for the time waits here, if it is not the tests' own. */
static pthread_t tester;
static atomic_bool is_gate_closed;
static sem_t at_gate, gate;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (is_gate_closed && !pthread_equal(pthread_self(), tester)) {
		sem_post(&at_gate);
		sem_wait(&gate);
	}
	return (int)syscall(SYS_clock_gettime, clock, time);
}

/* ---- Payloads ---- */

static uint8_t *bytes; /* LARGE of them, what files and pipes begin with */
static char folder[] = "/tmp/source-test.XXXXXX";

static void *do_nothing(void *argument)
{
	return argument;
}

static int set_up(void **state)
{
	pthread_t first; /* with which a sanitizer may start one of its own, for await_threads() */

	(void)state;
	tester = pthread_self();
	sem_init(&at_gate, 0, 0);
	sem_init(&gate, 0, 0);
	if (!pthread_create(&first, NULL, do_nothing, NULL))
		pthread_join(first, NULL);
	bytes = malloc(LARGE);
	if (!bytes)
		return -1;
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + i / 65521);
	signal(SIGPIPE, SIG_IGN);
	return enter_folder(folder);
}

static int tear_down(void **state)
{
	(void)state;
	free(bytes);
	return 0;
}

static struct payload load(const char *file, uint64_t pattern_size)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload = { 0 };
	struct console console;
	struct process process;

	options.file = file;
	options.pattern_size = pattern_size;
	console_init(&console, &options);
	process_init(&process, &options, &console);
	assert_int_equal(payload_load(&payload, &process), STATUS_SUCCESS);
	process_close(&process);
	return payload;
}

static void write_file(const char *name, size_t size)
{
	int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(descriptor >= 0);
	assert_int_equal(write(descriptor, bytes, size), size);
	close(descriptor);
}

/* The threads of this process. */
static int count_threads(void)
{
	char line[256];
	int count = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), file))
		sscanf(line, "Threads: %d", &count);
	fclose(file);
	return count;
}

/* Waits until there are no more than `count`. */
static void await_threads(int count)
{
	for (int i = 0; i < 1000 && count_threads() > count; i++)
		usleep(10000);
	assert_true(count_threads() <= count);
}

/* ---- Who uses the source ---- */

/* Does what a connection does: takes what is filled, under a lock that wakes come with, too. */
struct user {
	struct source *source;
	struct payload *payload;
	uint8_t *ring;
	size_t ring_size;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* `lock` guards these: */
	uint64_t filled, taken;
	uint64_t largest; /* piece that was filled */
	unsigned int calls;
	bool wrong; /* a byte, or a call that may not come */
	bool ended;
	uint64_t digest;
	struct failure failure;
};

/* Whether these are the payload's bytes from a position in a pass on. */
static bool is_right(const struct payload *payload, uint64_t position, const uint8_t *memory,
		     size_t size)
{
	return payload->is_pattern ? pattern_mismatch(memory, position, size) == size
				   : !memcmp(memory, bytes + position, size);
}

static bool stream_is_right(const struct payload *payload, uint64_t position, const uint8_t *memory,
			    size_t size)
{
	for (size_t done = 0; done < size;) {
		uint64_t from = (position + done) % payload->length;
		uint64_t left = payload->length - from;
		size_t part = size - done < left ? size - done : (size_t)left;

		if (!is_right(payload, from, memory + done, part))
			return false;
		done += part;
	}
	return true;
}

static bool next(void *context, struct piece *piece)
{
	struct user *user = context;
	uint64_t room;

	pthread_mutex_lock(&user->lock);
	user->calls++;
	user->wrong |= user->ended;
	room = user->ring_size - (user->filled - user->taken);
	piece->position = user->filled;
	piece->offset = user->filled % user->ring_size;
	piece->size = user->ring_size - piece->offset;
	if (piece->size > room)
		piece->size = room;
	pthread_mutex_unlock(&user->lock);
	return room > 0;
}

/* Of a payload that is longer than the ring, where passes may repeat. */
static bool crosses_passes(const struct user *user, uint64_t size)
{
	uint64_t length = user->payload->length;

	return length > user->ring_size && user->filled % length + size > length;
}

static void filled(void *context, uint64_t size, bool end, uint64_t digest)
{
	struct user *user = context;

	pthread_mutex_lock(&user->lock);
	user->calls++;
	user->wrong |= user->ended || (size == 0 && !end) || crosses_passes(user, size) ||
		       !stream_is_right(user->payload, user->filled,
					user->ring + user->filled % user->ring_size, size);
	if (size > user->largest)
		user->largest = size;
	user->filled += size;
	user->ended = end;
	user->digest = digest;
	pthread_cond_signal(&user->changed);
	pthread_mutex_unlock(&user->lock);
}

static void failed(void *context, const struct failure *failure)
{
	struct user *user = context;

	pthread_mutex_lock(&user->lock);
	user->calls++;
	user->wrong |= user->ended;
	user->ended = true;
	user->failure = *failure;
	pthread_cond_signal(&user->changed);
	pthread_mutex_unlock(&user->lock);
}

/* False, with errno: there is no source. */
static bool user_try(struct user *user, struct payload *payload, size_t ring_size, uint64_t end)
{
	const struct source_calls calls = {
		.context = user, .next = next, .filled = filled, .failed = failed
	};

	memset(user, 0, sizeof(*user));
	user->payload = payload;
	user->ring_size = ring_size;
	user->ring = memory_map(ring_size);
	assert_non_null(user->ring);
	watch_ring(user->ring);
	pthread_mutex_init(&user->lock, NULL);
	pthread_cond_init(&user->changed, NULL);
	user->source = source_start(payload, user->ring, ring_size, end, &calls);
	return user->source;
}

static void user_start(struct user *user, struct payload *payload, size_t ring_size, uint64_t end)
{
	assert_true(user_try(user, payload, ring_size, end));
}

static void user_end(struct user *user)
{
	source_stop(user->source);
	source_release(user->source);
	pthread_mutex_destroy(&user->lock);
	pthread_cond_destroy(&user->changed);
	assert_false(user->wrong);
}

/* Waits until the thread, too, has let go of the source: its ring is unmapped. */
static void await_release(void)
{
	for (int i = 0; i < 1000 && ring_is_mapped(); i++)
		usleep(10000);
	assert_false(ring_is_mapped());
}

/* Takes what is filled, at most `step` bytes at once, until `until` or the end. */
static void take(struct user *user, uint64_t step, uint64_t until)
{
	pthread_mutex_lock(&user->lock);
	while (user->taken < until && !(user->ended && user->taken == user->filled)) {
		uint64_t size = user->filled - user->taken;

		if (size == 0) {
			pthread_cond_wait(&user->changed, &user->lock);
			continue;
		}
		user->taken += size < step ? size : step;
		source_wake(user->source);
	}
	pthread_mutex_unlock(&user->lock);
}

/* The digest of a stream of the payload's bytes. */
static uint64_t digest_of(const struct payload *payload, uint64_t length, uint64_t end)
{
	uint8_t *made = malloc(LARGE);
	void *digest = digest_new();
	uint64_t value;

	if (payload->is_pattern)
		pattern_fill(made, 0, length);
	for (uint64_t done = 0; done < end; done += length)
		digest_add(digest, payload->is_pattern ? made : bytes,
			   end - done < length ? end - done : length);
	value = digest_value(digest);
	digest_free(digest);
	free(made);
	return value;
}

/* What is filled first: as much as there may be. */
static uint64_t first_piece(const struct payload *payload, size_t ring_size, uint64_t end)
{
	uint64_t size = ring_size < STEP ? ring_size : STEP;

	if (payload->length > ring_size && size > payload->length)
		size = payload->length;
	return size < end ? size : end;
}

/* Runs a stream of `end` bytes, of a payload of `length`, through a ring. */
static void run_stream(struct payload *payload, uint64_t length, size_t ring_size, uint64_t end)
{
	bool is_pipe = payload->length == TRANSFER_UNKNOWN;
	int threads = count_threads();
	int64_t started = now_nanoseconds();
	struct user user;

	user_start(&user, payload, ring_size, is_pipe ? TRANSFER_UNKNOWN : end);
	take(&user, ring_size / 3 + 1, UINT64_MAX);
	assert_int_equal(user.failure.status, STATUS_SUCCESS);
	assert_int_equal(user.filled, end);
	assert_true(user.digest == digest_of(payload, length, end));
	assert_in_range(user.largest, is_pipe ? 1 : first_piece(payload, ring_size, end), STEP);
	assert_in_range(source_nanoseconds(user.source), 1, now_nanoseconds() - started);
	user_end(&user);
	await_threads(threads);
	await_release();
}

static const size_t rings[] = { 4096, 1000003, PAYLOAD_WHOLE };

static void a_file_goes_through_any_ring(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		for (size_t j = 0; j < sizeof(rings) / sizeof(rings[0]); j++) {
			struct payload payload;

			write_file("file", sizes[i]);
			payload = load("file", 0);
			assert_int_equal(unlink("file"), 0);
			run_stream(&payload, sizes[i], rings[j], sizes[i]);
			payload_free(&payload);
		}
	}
}

static void a_pattern_goes_through_any_ring(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		for (size_t j = 0; j < sizeof(rings) / sizeof(rings[0]); j++) {
			struct payload payload = load(NULL, sizes[i]);

			run_stream(&payload, sizes[i], rings[j], sizes[i]);
			payload_free(&payload);
		}
	}
}

/* Whether it is called when `taken` bytes of it are taken, or at once: 0. */
static void a_timed_stream_ends_with_the_pass_that_has_begun(void **state)
{
	static const struct {
		size_t length, ring;
		uint64_t taken;
	} cases[] = {
		{ 5, 4096, 0 },    { 1000, 1000, 0 },      { 1000, 1000, 3000 },
		{ 1000, 4096, 1 }, { 1000, 4096, 100001 }, { 100003, 65536, 250000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct payload payload = load(NULL, cases[i].length);
		struct user user;
		uint64_t most;

		user_start(&user, &payload, cases[i].ring, TRANSFER_UNKNOWN);
		take(&user, cases[i].ring / 3 + 1, cases[i].taken);
		source_end_pass(user.source);
		most = user.taken + cases[i].ring + cases[i].length;
		take(&user, cases[i].ring / 3 + 1, UINT64_MAX);
		assert_true(user.ended);
		assert_int_equal(user.filled % cases[i].length, 0);
		assert_in_range(user.filled, cases[i].length, most);
		assert_true(user.digest == digest_of(&payload, cases[i].length, user.filled));
		user_end(&user);
		payload_free(&payload);
	}
}

static void every_pass_begins_again(void **state)
{
	static const struct {
		size_t length, ring;
		uint64_t end;
	} cases[] = {
		{ 1, 10, 100000 },
		{ 5, 4096, 100003 },
		{ 100003, 65536, 1000030 },
		{ PAYLOAD_WHOLE + 1, 1000003, 3 * (PAYLOAD_WHOLE + 1) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct payload payload = load(NULL, cases[i].length);

		run_stream(&payload, cases[i].length, cases[i].ring, cases[i].end);
		payload_free(&payload);
		write_file("file", cases[i].length);
		payload = load("file", 0);
		run_stream(&payload, cases[i].length, cases[i].ring, cases[i].end);
		payload_free(&payload);
		assert_int_equal(unlink("file"), 0);
	}
}

/* Without an end the source goes on until it is stopped. */
static void a_stream_without_an_end_can_be_stopped(void **state)
{
	struct payload payload = load(NULL, 1000);
	int threads = count_threads();
	struct user user;

	(void)state;
	user_start(&user, &payload, 4096, TRANSFER_UNKNOWN);
	take(&user, 4096, 100000);
	assert_false(user.ended);
	user_end(&user);
	payload_free(&payload);
	await_threads(threads);
}

/* ---- Pipes ---- */

/* Lets standard input be a pipe; returns the end to write to. */
static int open_pipe(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	return ends[1];
}

static void close_pipe(void)
{
	int nothing = open("/dev/null", O_RDONLY);

	dup2(nothing, STDIN_FILENO);
	close(nothing);
}

struct feed {
	int descriptor;
	size_t size, step;
	useconds_t pause; /* after each step, in microseconds */
};

static void *run_feed(void *argument)
{
	const struct feed *feed = argument;

	for (size_t done = 0; done < feed->size;) {
		size_t left = feed->size - done;
		ssize_t count = write(feed->descriptor, bytes + done,
				      left < feed->step ? left : feed->step);

		if (count < 0)
			break;
		done += (size_t)count;
		if (feed->pause)
			usleep(feed->pause);
	}
	close(feed->descriptor);
	return NULL;
}

static void a_pipe_goes_through_any_ring(void **state)
{
	static const struct feed feeds[] = {
		{ .size = LARGE, .step = LARGE },
		{ .size = PAYLOAD_WHOLE + 1, .step = 100000 },
		{ .size = 3, .step = 1, .pause = 200000 },
		{ .size = 400000, .step = 100000, .pause = 200000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(feeds) / sizeof(feeds[0]); i++) {
		for (size_t j = 0; j < sizeof(rings) / sizeof(rings[0]); j++) {
			struct feed feed = feeds[i];
			struct payload payload;
			pthread_t writer;

			feed.descriptor = open_pipe();
			assert_int_equal(pthread_create(&writer, NULL, run_feed, &feed), 0);
			payload = load("-", 0);
			assert_true(payload.length == TRANSFER_UNKNOWN);
			run_stream(&payload, feed.size, rings[j], feed.size);
			pthread_join(writer, NULL);
			close_pipe();
			payload_free(&payload);
		}
	}
}

static void a_source_that_waits_for_a_pipe_is_stopped_without_waiting(void **state)
{
	int writer = open_pipe(), threads = count_threads();
	struct payload payload;
	struct user user;

	(void)state;
	assert_int_equal(write(writer, bytes, 5), 5);
	payload = load("-", 0);
	user_start(&user, &payload, 4096, TRANSFER_UNKNOWN);
	take(&user, 4096, 5);
	usleep(20000); /* it waits for more */
	user_end(&user);
	assert_int_equal(user.failure.status, STATUS_SUCCESS); /* stopped is not failed */
	assert_true(payload.stays);                            /* the thread was not waited for */
	payload_free(&payload);
	await_threads(threads);
	assert_int_equal(memory_unmap(payload.memory, payload.size), 0);
	close(writer);
	close_pipe();
}

/* The thread is between two calls when it is stopped: so it is not waited for. */
static void a_payload_that_the_thread_may_read_on_stays(void **state)
{
	static const struct {
		size_t size;
		bool is_file, stays; /* a pattern that is not in memory is the thread's own */
	} cases[] = { { LARGE, true, true }, { LARGE, false, false }, { 1000, false, true } };
	int threads = count_threads();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct payload payload;
		struct user user;

		if (cases[i].is_file) {
			int descriptor;

			write_file("file", cases[i].size);
			descriptor = open("file", O_RDONLY);
			dup2(descriptor, STDIN_FILENO);
			close(descriptor);
			assert_int_equal(unlink("file"), 0);
		}
		payload = load(cases[i].is_file ? "-" : NULL, cases[i].size);
		is_gate_closed = true;
		user_start(&user, &payload, 4096, cases[i].size);
		sem_wait(&at_gate);
		user_end(&user);
		assert_int_equal(payload.stays, cases[i].stays);
		is_gate_closed = false;
		sem_post(&gate);
		await_threads(threads);
		payload.stays = false;
		payload_free(&payload);
	}
	close_pipe();
}

/* ---- Failures ---- */

static void a_file_that_shrinks_is_a_failure_in_words(void **state)
{
	int threads = count_threads();
	struct payload payload;
	struct user user;

	(void)state;
	write_file("file", LARGE);
	payload = load("file", 0);
	user_start(&user, &payload, 1 << 20, LARGE);
	take(&user, 65536, 1 << 20);
	assert_int_equal(truncate("file", 5 << 20), 0);
	take(&user, 65536, UINT64_MAX);
	await_threads(threads); /* it asks for nothing more */
	assert_true(user.ended);
	assert_int_equal(user.failure.status, STATUS_LOCAL_FAILURE);
	assert_string_equal(user.failure.cause, "cannot read 'file': it was cut short meanwhile; "
						"try again when it is whole");
	assert_true(user.filled <= 5 << 20);
	user_end(&user);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void a_file_that_cannot_be_read_any_more_is_a_failure_in_words(void **state)
{
	int threads = count_threads();
	struct payload payload;
	struct user user;

	(void)state;
	write_file("file", LARGE);
	payload = load("file", 0);
	assert_int_equal(close(payload.descriptor), 0);
	user_start(&user, &payload, 1 << 20, LARGE);
	take(&user, 65536, UINT64_MAX);
	await_threads(threads); /* it asks for nothing more */
	assert_string_equal(user.failure.cause, "cannot read 'file': Bad file descriptor");
	user_end(&user);
	payload.descriptor = -1;
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void without_a_thread_there_is_no_source_and_the_ring_stays(void **state)
{
	struct payload payload = load(NULL, 1000);
	struct user user;

	(void)state;
	no_thread = EAGAIN;
	assert_false(user_try(&user, &payload, 4096, 1000));
	assert_int_equal(errno, EAGAIN);
	no_thread = 0;
	assert_true(ring_is_mapped());
	assert_int_equal(memory_unmap(user.ring, 4096), 0);
	user_end(&user);
	assert_false(payload.stays);
	payload_free(&payload);
}

/* ---- Stopping ---- */

static void a_ring_that_an_adapter_may_still_use_stays(void **state)
{
	struct payload payload = load(NULL, 1000);
	int threads = count_threads();
	struct user user;

	(void)state;
	user_start(&user, &payload, 4096, 1000);
	take(&user, 1000, UINT64_MAX);
	await_threads(threads);
	source_keep_ring(user.source);
	source_keep_ring(NULL);
	user_end(&user);
	assert_false(payload.stays); /* the thread has ended */
	assert_int_equal(pattern_mismatch(user.ring, 0, 1000), 1000);
	assert_int_equal(memory_unmap(user.ring, 4096), 0);
	payload_free(&payload);
}

/* At any moment: before the first call, between two, while one runs, after the last one. */
static void nothing_comes_from_a_source_that_was_stopped(void **state)
{
	struct payload payload = load(NULL, PAYLOAD_WHOLE + 1);
	int threads = count_threads();

	(void)state;
	for (useconds_t delay = 0; delay < 200; delay++) {
		struct user user;
		unsigned int calls;

		user_start(&user, &payload, 1 << 20, PAYLOAD_WHOLE + 1);
		usleep(delay * 10);
		source_stop(user.source);
		calls = user.calls; /* without the lock: nobody writes it any more */
		source_stop(user.source);
		source_wake(user.source);
		usleep(100);
		assert_int_equal(user.calls, calls);
		assert_int_equal(user.failure.status, STATUS_SUCCESS);
		user_end(&user);
	}
	await_threads(threads);
	payload_free(&payload);
	source_stop(NULL);
	source_release(NULL);
}

/* For ten seconds at most. */
static void await_calls(struct user *user, unsigned int calls)
{
	for (int i = 0; i < 1000; i++) {
		bool enough;

		pthread_mutex_lock(&user->lock);
		enough = user->calls >= calls;
		pthread_mutex_unlock(&user->lock);
		if (enough)
			break;
		usleep(10000);
	}
}

/* It does not ask again and again. */
static void a_source_without_room_waits_for_a_wake(void **state)
{
	struct payload payload = load(NULL, 50000);
	struct user user;

	(void)state;
	user_start(&user, &payload, 1000, 50000);
	take(&user, 1000, 1000);
	await_calls(&user, 5); /* it has found that there is no room */
	usleep(20000);         /* nothing is taken */
	source_stop(user.source);
	assert_in_range(user.calls, 5, 10);
	user_end(&user);
	payload_free(&payload);
}

/* Each byte needs a wake of its own. */
static void no_wake_is_lost(void **state)
{
	struct payload payload = load(NULL, 50000);
	int threads = count_threads();
	struct user user;

	(void)state;
	user_start(&user, &payload, 1, 50000);
	take(&user, 1, UINT64_MAX);
	assert_int_equal(user.filled, 50000);
	user_end(&user);
	payload_free(&payload);
	await_threads(threads);
}

static void nothing_is_left(void **state)
{
	(void)state;
	assert_nothing_is_left(folder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_goes_through_any_ring),
		cmocka_unit_test(a_pattern_goes_through_any_ring),
		cmocka_unit_test(every_pass_begins_again),
		cmocka_unit_test(a_timed_stream_ends_with_the_pass_that_has_begun),
		cmocka_unit_test(a_stream_without_an_end_can_be_stopped),
		cmocka_unit_test(a_pipe_goes_through_any_ring),
		cmocka_unit_test(a_source_that_waits_for_a_pipe_is_stopped_without_waiting),
		cmocka_unit_test(a_payload_that_the_thread_may_read_on_stays),
		cmocka_unit_test(a_file_that_shrinks_is_a_failure_in_words),
		cmocka_unit_test(a_file_that_cannot_be_read_any_more_is_a_failure_in_words),
		cmocka_unit_test(without_a_thread_there_is_no_source_and_the_ring_stays),
		cmocka_unit_test(a_ring_that_an_adapter_may_still_use_stays),
		cmocka_unit_test(nothing_comes_from_a_source_that_was_stopped),
		cmocka_unit_test(a_source_without_room_waits_for_a_wake),
		cmocka_unit_test(no_wake_is_lost),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests_name("source", tests, set_up, tear_down);
}
