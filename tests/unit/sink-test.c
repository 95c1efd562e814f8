// SPDX-License-Identifier: MIT
/*
 * The sink of the incoming stream: whole payloads and streams through small rings, good and bad, to
 * every kind of output, and stopped at any time.
 */
#include "rdma-common/sink.h"
#include "rdma-common/digest.h"
#include "rdma-common/memory.h"
#include "rdma-common/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "mapped.h"

/* What the sink copies or verifies at a time, and what is verified without a thread. */
#define PIECE ((uint64_t)256 * 1024)
#define SMALL ((uint64_t)64 * 1024)

/* The largest payload of these tests, and all of their bytes. */
#define LARGEST (4 * PIECE + 5)
static uint8_t bytes[LARGEST];
static char folder[] = "/tmp/sink-test.XXXXXX";

/* ---- Threads, of which there may be no more, in the place of the C library's ---- */

static int no_thread; /* the error of pthread_create(3); 0: none */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	return no_thread ? no_thread : create(thread, attributes, run, argument);
}

/* ---- Sinks ---- */

/* The owner of a sink, and the peer that fills its ring. */
struct owner {
	pthread_mutex_t lock; /* the sessions' */
	pthread_cond_t moved;
	struct incoming incoming;
	struct sink *sink;
	uint8_t *ring;
	int64_t started; /* as now_nanoseconds() counts */
	/* `lock` guards these: */
	uint64_t filled, copied, kept; /* positions */
	bool finished, stopped;
	unsigned int violations; /* of the rules for calls */
	unsigned int kept_calls, next_calls;
	struct verdict verdict;
	struct excerpt excerpt;
};

/* ---- Calls of the sink ---- */

/* A call that is allowed: before the last one, and before sink_stop() has returned. */
static struct owner *enter(void *context)
{
	struct owner *owner = context;

	pthread_mutex_lock(&owner->lock);
	if (owner->finished || owner->stopped)
		owner->violations++;
	return owner;
}

static void leave(struct owner *owner)
{
	pthread_cond_broadcast(&owner->moved);
	pthread_mutex_unlock(&owner->lock);
}

static bool next(void *context, struct piece *piece)
{
	struct owner *owner = enter(context);
	uint64_t ring_size = owner->incoming.ring_size;

	owner->next_calls++;
	piece->position = owner->copied;
	piece->offset = owner->copied % ring_size;
	piece->size = owner->filled - owner->copied;
	if (piece->size > ring_size - piece->offset)
		piece->size = ring_size - piece->offset;
	leave(owner);
	return piece->size > 0;
}

/* What is copied may be written over, and is. */
static void copied(void *context, uint64_t size)
{
	struct owner *owner = enter(context);

	if (size == 0 || size > owner->filled - owner->copied || size > PIECE)
		owner->violations++;
	memset(owner->ring + owner->copied % owner->incoming.ring_size, 0xdd, size);
	owner->copied += size;
	leave(owner);
}

static void kept(void *context, uint64_t position)
{
	struct owner *owner = enter(context);

	if (position <= owner->kept || position > owner->copied)
		owner->violations++;
	owner->kept = position;
	owner->kept_calls++;
	leave(owner);
}

static void finished(void *context, const struct verdict *verdict, const struct excerpt *excerpt)
{
	struct owner *owner = enter(context);

	owner->finished = true;
	owner->verdict = *verdict;
	owner->excerpt = *excerpt;
	leave(owner);
}

/* ---- The owner ---- */

/* The digest of the first `size` bytes, in each of so many passes. */
static uint64_t digest_of(uint64_t size, unsigned int passes)
{
	void *digest = digest_new();
	uint64_t value;

	while (passes-- > 0)
		digest_add(digest, bytes, size);
	value = digest_value(digest);
	digest_free(digest);
	return value;
}

/* A sink of a stream of `length` bytes through a ring of `ring_size`. */
static struct owner *owner_new(uint64_t ring_size, uint64_t length)
{
	struct owner *owner = calloc(1, sizeof(*owner));

	assert_non_null(owner);
	pthread_mutex_init(&owner->lock, NULL);
	pthread_cond_init(&owner->moved, NULL);
	owner->ring = memory_map(ring_size);
	assert_non_null(owner->ring);
	watch_ring(owner->ring);
	owner->incoming = (struct incoming){
		.ring = owner->ring,
		.ring_size = ring_size,
		.length = length,
		.has_digest = true,
		.limit = UINT64_MAX,
	};
	return owner;
}

/* One of the first `size` bytes, which lie in its memory. */
static struct owner *whole_new(uint64_t size)
{
	struct owner *owner = owner_new(size, size);

	owner->incoming.is_whole = true;
	owner->incoming.digest = digest_of(size, 1);
	memcpy(owner->ring, bytes, size);
	owner->filled = owner->copied = size;
	return owner;
}

/* False, with errno: there is no sink. */
static bool try_start(struct owner *owner)
{
	const struct sink_calls calls = {
		.context = owner,
		.next = next,
		.copied = copied,
		.kept = kept,
		.finished = finished,
	};

	owner->started = now_nanoseconds();
	owner->sink = sink_start(&owner->incoming, &calls);
	return owner->sink;
}

static void start(struct owner *owner)
{
	assert_true(try_start(owner));
}

/* The peer fills the ring up to `end` in steps, with the bytes of passes of `pass` bytes. */
static void feed(struct owner *owner, uint64_t end, uint64_t pass, uint64_t step)
{
	pthread_mutex_lock(&owner->lock);
	while (owner->filled < end && !owner->finished) {
		uint64_t ring_size = owner->incoming.ring_size, room;

		room = owner->copied + ring_size - owner->filled;
		for (uint64_t i = 0; i < step && i < room && owner->filled < end; i++) {
			owner->ring[owner->filled % ring_size] = bytes[owner->filled % pass];
			owner->filled++;
		}
		sink_wake(owner->sink);
		if (owner->filled - owner->copied == ring_size)
			pthread_cond_wait(&owner->moved, &owner->lock);
	}
	pthread_mutex_unlock(&owner->lock);
}

static void await_copied(struct owner *owner, uint64_t position)
{
	pthread_mutex_lock(&owner->lock);
	while (owner->copied < position && !owner->finished)
		pthread_cond_wait(&owner->moved, &owner->lock);
	pthread_mutex_unlock(&owner->lock);
}

/* The peer is done. */
static void finish(struct owner *owner, uint64_t length, uint64_t digest)
{
	pthread_mutex_lock(&owner->lock);
	sink_finish(owner->sink, length, digest);
	pthread_mutex_unlock(&owner->lock);
}

/* Waits for the last call. False: it did not come within `milliseconds`. */
static bool wait_for_end(struct owner *owner, int milliseconds)
{
	struct timespec end;
	bool result;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += milliseconds % 1000 * 1000000L;
	end.tv_sec += milliseconds / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&owner->lock);
	while (!owner->finished && !pthread_cond_timedwait(&owner->moved, &owner->lock, &end))
		;
	result = owner->finished;
	pthread_mutex_unlock(&owner->lock);
	return result;
}

static void stop(struct owner *owner)
{
	sink_stop(owner->sink);
	pthread_mutex_lock(&owner->lock);
	owner->stopped = true;
	pthread_mutex_unlock(&owner->lock);
}

/* Waits until the sink's thread has ended, too, and the ring is unmapped. */
static void wait_for_release(void)
{
	for (int i = 0; i < 5000 && ring_is_mapped(); i++)
		usleep(1000);
	assert_false(ring_is_mapped());
}

/* Stops and frees it; all rules were kept. */
static void owner_free(struct owner *owner)
{
	stop(owner);
	stop(owner);
	if (owner->sink)
		sink_wake(owner->sink);
	sink_release(owner->sink);
	wait_for_release();
	assert_int_equal(owner->violations, 0);
	pthread_cond_destroy(&owner->moved);
	pthread_mutex_destroy(&owner->lock);
	free(owner);
}

static void assert_good(struct owner *owner, uint64_t size)
{
	assert_true(wait_for_end(owner, 20000));
	assert_string_equal(owner->verdict.failure.cause, "");
	assert_int_equal(owner->verdict.failure.status, STATUS_SUCCESS);
	assert_int_equal(owner->verdict.verified_bytes, size);
	assert_in_range(owner->verdict.nanoseconds, size > PIECE,
			now_nanoseconds() - owner->started);
	assert_int_equal(owner->kept, size);
}

static void assert_bad(struct owner *owner, enum status status, const char *cause)
{
	assert_true(wait_for_end(owner, 20000));
	assert_int_equal(owner->verdict.failure.status, status);
	assert_string_equal(owner->verdict.failure.cause, cause);
}

static void assert_excerpt(const struct owner *owner, uint64_t size, uint64_t text)
{
	const struct excerpt *excerpt = &owner->excerpt;

	assert_int_equal(excerpt->size, size);
	assert_int_equal(excerpt->text_length, text);
	assert_int_equal(excerpt->head_size, size < SHOWN_PAYLOAD ? size : SHOWN_PAYLOAD);
	assert_memory_equal(excerpt->head, bytes, excerpt->head_size);
}

/* The file has the first `size` bytes, and is removed. */
static void assert_stored(const char *name, uint64_t size)
{
	static uint8_t found[LARGEST + 1];
	int descriptor = open(name, O_RDONLY);

	assert_true(descriptor >= 0);
	assert_int_equal(read(descriptor, found, sizeof(found)), size);
	assert_memory_equal(found, bytes, size);
	close(descriptor);
	assert_int_equal(unlink(name), 0);
}

/* ---- Good payloads ---- */

static void a_stream_fits_through_any_ring(void **state)
{
	static const uint64_t rings[] = { 1, 7, 4096, PIECE - 1, PIECE, PIECE + 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		const uint64_t sizes[] = { 1, rings[i], rings[i] + 1, 3 * rings[i] + 5 };

		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			for (int known = 0; known < 2; known++) {
				struct owner *owner =
					owner_new(rings[i], known ? sizes[j] : TRANSFER_UNKNOWN);

				owner->incoming.is_pattern = known;
				owner->incoming.pass_length = known ? sizes[j] : 0;
				start(owner);
				feed(owner, sizes[j], LARGEST, 1 + sizes[j] / 3);
				finish(owner, sizes[j], digest_of(sizes[j], 1));
				assert_good(owner, sizes[j]);
				assert_excerpt(owner, sizes[j], sizes[j]);
				owner_free(owner);
			}
		}
	}
}

static void a_whole_payload_is_verified_in_place(void **state)
{
	static const uint64_t sizes[] = { 1,     1024,      SMALL,     SMALL + 1,    PIECE - 1,
					  PIECE, PIECE + 1, 2 * PIECE, 4 * PIECE + 5 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct owner *owner = whole_new(sizes[i]);

		owner->incoming.is_pattern = i & 1;
		start(owner);
		if (sizes[i] <= SMALL)
			assert_true(owner->finished); /* before sink_start() returned */
		assert_good(owner, sizes[i]);
		assert_excerpt(owner, sizes[i], sizes[i]);
		assert_int_equal(owner->excerpt.is_pattern, i & 1);
		owner_free(owner);
	}
}

static void the_end_may_be_known_before_the_last_bytes(void **state)
{
	struct owner *owner = owner_new(100, TRANSFER_UNKNOWN);

	(void)state;
	start(owner);
	feed(owner, 450, LARGEST, 50);
	finish(owner, 1000, digest_of(1000, 1));
	assert_false(wait_for_end(owner, 50));
	feed(owner, 1000, LARGEST, 50);
	assert_good(owner, 1000);
	owner_free(owner);
}

static void a_stream_may_be_empty(void **state)
{
	struct owner *owner = owner_new(100, TRANSFER_UNKNOWN);

	(void)state;
	owner->incoming.output = "new";
	start(owner);
	finish(owner, 0, digest_of(0, 1));
	assert_good(owner, 0);
	owner_free(owner);
	assert_stored("new", 0);
}

static void every_pass_is_verified_and_the_first_is_shown_and_stored(void **state)
{
	static const uint64_t rings[] = { 64, 1000, 1001, 5000 };

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct owner *owner = owner_new(rings[i], i & 1 ? 5000 : TRANSFER_UNKNOWN);

		owner->incoming.is_pattern = true;
		owner->incoming.pass_length = 1000;
		owner->incoming.limit = 1000; /* of the payload, not of all passes */
		owner->incoming.output = "new";
		start(owner);
		feed(owner, 5000, 1000, 77);
		finish(owner, 5000, digest_of(1000, 5));
		assert_good(owner, 5000);
		assert_excerpt(owner, 1000, 1000);
		owner_free(owner);
		assert_stored("new", 1000);
	}
}

/* Whole, where all passes fit into the ring. */
static void of_whole_passes_the_first_is_shown_and_stored(void **state)
{
	struct owner *owner = whole_new(5000);

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		owner->ring[i] = bytes[i % 1000];
	owner->incoming.digest = digest_of(1000, 5);
	owner->incoming.pass_length = 1000;
	owner->incoming.output = "new";
	start(owner);
	assert_good(owner, 5000);
	assert_excerpt(owner, 1000, 1000);
	owner_free(owner);
	assert_stored("new", 1000);
}

/* Behind it in the sink's copy are old bytes, with which the pattern goes on. */
static void a_piece_may_end_in_another_pass(void **state)
{
	static const uint64_t ends[] = { 500, 3500, 5900, 6000 };

	(void)state;
	for (int repeats = 0; repeats < 2; repeats++) {
		struct owner *owner = owner_new(8000, 6000);

		owner->incoming.is_pattern = true;
		owner->incoming.pass_length = 1000;
		owner->incoming.repeats = repeats;
		start(owner);
		for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
			feed(owner, ends[i], 1000, ends[i]);
			await_copied(owner, ends[i]);
		}
		finish(owner, 6000, digest_of(1000, repeats ? 1 : 6));
		assert_good(owner, 6000);
		owner_free(owner);
	}
}

/* The digest is that of one pass, and each has to have it. */
static void each_pass_that_repeats_is_verified(void **state)
{
	for (int damaged = -1; damaged < 3; damaged++) {
		struct owner *owner = owner_new(700, 3000);

		(void)state;
		owner->incoming.repeats = true;
		owner->incoming.pass_length = 1000;
		start(owner);
		for (int pass = 0; pass < 3; pass++) {
			bytes[5] ^= pass == damaged ? 0x40 : 0;
			feed(owner, 1000 * (uint64_t)(pass + 1), 1000, 77);
			bytes[5] ^= pass == damaged ? 0x40 : 0;
		}
		finish(owner, 3000, digest_of(1000, 1));
		if (damaged < 0)
			assert_good(owner, 3000);
		else
			assert_bad(owner, STATUS_CONTENTS_WRONG,
				   status_in_words(STATUS_CONTENTS_WRONG));
		owner_free(owner);
	}
}

/* ---- Bad ones ---- */

/* Feeds a pattern with one wrong byte, and never the end. */
static void assert_wrong_byte_found(uint64_t size, uint64_t wrong, uint64_t ring)
{
	struct owner *owner = owner_new(ring, size);
	char cause[200];

	owner->incoming.is_pattern = true;
	owner->incoming.output = "new";
	start(owner);
	bytes[wrong] ^= 0x40;
	feed(owner, size, LARGEST, 1 + ring / 2);
	snprintf(cause, sizeof(cause),
		 "the contents are wrong: byte %" PRIu64 " of %" PRIu64
		 " is not as in the pattern; do not trust "
		 "this path",
		 wrong, size);
	assert_bad(owner, STATUS_CONTENTS_WRONG, cause);
	bytes[wrong] ^= 0x40;
	assert_int_equal(owner->verdict.verified_bytes, wrong);
	assert_true(owner->kept <= wrong);
	owner_free(owner);
	assert_int_equal(access("new", F_OK), -1);
}

static void a_wrong_byte_ends_a_stream_at_once(void **state)
{
	(void)state;
	for (uint64_t wrong = 0; wrong < 150; wrong += 3)
		assert_wrong_byte_found(150, wrong, 64);
	assert_wrong_byte_found(LARGEST, PIECE - 1, 2 * PIECE);
	assert_wrong_byte_found(LARGEST, PIECE, 2 * PIECE);
	assert_wrong_byte_found(LARGEST, LARGEST - 1, 2 * PIECE);
}

static void a_wrong_byte_in_a_later_pass_is_found(void **state)
{
	struct owner *owner = owner_new(64, 300);

	(void)state;
	owner->incoming.is_pattern = true;
	owner->incoming.pass_length = 100;
	start(owner);
	feed(owner, 200, 100, 10);
	bytes[99] ^= 1;
	feed(owner, 300, 100, 10);
	assert_bad(owner, STATUS_CONTENTS_WRONG,
		   "the contents are wrong: byte 99 of 100 in pass 3 is not as in the pattern; do "
		   "not trust this path");
	bytes[99] ^= 1;
	owner_free(owner);
}

static void a_wrong_byte_in_a_whole_payload_is_found(void **state)
{
	static const uint64_t offsets[] = { 0, 1000, PIECE - 1, PIECE, 2 * PIECE };
	char cause[200];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		struct owner *owner = whole_new(2 * PIECE + 1);

		owner->incoming.is_pattern = i & 1;
		owner->incoming.output = "new";
		owner->ring[offsets[i / 2]] ^= 1;
		start(owner);
		snprintf(cause, sizeof(cause),
			 "the contents are wrong: byte %" PRIu64 " of %" PRIu64
			 " is not as in the pattern; do not "
			 "trust this path",
			 offsets[i / 2], 2 * PIECE + 1);
		assert_bad(owner, STATUS_CONTENTS_WRONG,
			   i & 1 ? cause : status_in_words(STATUS_CONTENTS_WRONG));
		assert_int_equal(owner->kept, 0); /* nothing was stored */
		owner_free(owner);
		assert_int_equal(access("new", F_OK), -1);
	}
}

static void a_wrong_digest_leaves_no_file(void **state)
{
	struct owner *owner;

	(void)state;
	for (uint64_t length = 299; length <= 300; length++) {
		owner = owner_new(64, TRANSFER_UNKNOWN);
		owner->incoming.output = "new";
		start(owner);
		feed(owner, 300, LARGEST, 10);
		finish(owner, length, length == 300 ? digest_of(300, 1) + 1 : digest_of(300, 1));
		assert_bad(owner, STATUS_CONTENTS_WRONG, status_in_words(STATUS_CONTENTS_WRONG));
		owner_free(owner);
		assert_int_equal(access("new", F_OK), -1);
	}
}

/* What a peer without a digest sent is printed as it came. */
static void without_a_digest_nothing_is_compared(void **state)
{
	struct owner *owner = whole_new(1000);

	(void)state;
	owner->incoming.has_digest = false;
	owner->incoming.digest++;
	start(owner);
	assert_good(owner, 1000);
	owner_free(owner);
}

static void a_stream_that_passes_max_size_is_refused(void **state)
{
	struct owner *owner;

	(void)state;
	for (uint64_t size = 1000; size <= 1001; size++) {
		owner = owner_new(64, TRANSFER_UNKNOWN);
		owner->incoming.limit = 1000;
		owner->incoming.output = "new";
		start(owner);
		feed(owner, size, LARGEST, 40);
		if (size == 1001) {
			assert_bad(owner, STATUS_REFUSED,
				   "the peer sends more than the 1000 bytes that --max-size allows "
				   "here; send less, or raise that");
			assert_true(owner->copied <= 1000);
		} else {
			finish(owner, size, digest_of(size, 1));
			assert_good(owner, size);
			assert_int_equal(unlink("new"), 0);
		}
		owner_free(owner);
		assert_int_equal(access("new", F_OK), -1);
	}
}

/* It was over before a sink could be started, and lies whole in its ring. */
static void a_whole_stream_that_passes_max_size_is_refused(void **state)
{
	struct owner *owner;

	(void)state;
	for (uint64_t size = 1000; size <= 1001; size++) {
		owner = whole_new(size);
		owner->incoming.pass_length = TRANSFER_UNKNOWN;
		owner->incoming.limit = 1000;
		start(owner);
		if (size == 1001)
			assert_bad(owner, STATUS_REFUSED,
				   "the peer sends more than the 1000 bytes that --max-size allows "
				   "here; send less, or raise that");
		else
			assert_good(owner, size);
		owner_free(owner);
	}
}

/* ---- Outputs ---- */

static void a_file_gets_the_stream_and_replaces_an_old_one(void **state)
{
	int descriptor = open("old", O_WRONLY | O_CREAT, 0600);
	struct stat before, after;
	struct owner *owner;

	(void)state;
	assert_int_equal(fchmod(descriptor, 0751), 0);
	assert_int_equal(fstat(descriptor, &before), 0);
	assert_int_equal(symlink("old", "link"), 0);
	for (int whole = 0; whole < 2; whole++) {
		owner = whole ? whole_new(LARGEST) : owner_new(3 * PIECE, LARGEST);
		owner->incoming.output = "link";
		start(owner);
		if (!whole) {
			feed(owner, LARGEST, LARGEST, PIECE);
			assert_int_equal(stat("old", &after), 0);
			assert_int_equal(after.st_ino, before.st_ino); /* until all is there */
			finish(owner, LARGEST, digest_of(LARGEST, 1));
		}
		assert_good(owner, LARGEST);
		assert_in_range(owner->kept_calls, LARGEST / PIECE, 1000);
		owner_free(owner);
		assert_int_equal(stat("old", &after), 0);
		assert_int_equal(after.st_mode & 07777, 0751);
		assert_int_not_equal(after.st_ino, before.st_ino);
	}
	close(descriptor);
	assert_int_equal(unlink("link"), 0);
	assert_stored("old", LARGEST);
	umask(027);
	owner = whole_new(100);
	owner->incoming.output = "new";
	start(owner);
	assert_good(owner, 100);
	owner_free(owner);
	umask(022);
	assert_int_equal(stat("new", &after), 0);
	assert_int_equal(after.st_mode & 07777, 0640);
	assert_stored("new", 100);
}

static void a_single_byte_is_stored(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct owner *owner = whole ? whole_new(1) : owner_new(1, 3);
		uint64_t size = owner->incoming.length;

		owner->incoming.output = "new";
		start(owner);
		feed(owner, size, LARGEST, 1);
		if (!whole)
			finish(owner, size, digest_of(size, 1));
		assert_good(owner, size);
		owner_free(owner);
		assert_stored("new", size);
	}
}

/* As in /proc, where no file can be created. */
static void without_an_output_none_is_opened(void **state)
{
	struct owner *owner = owner_new(100, 250);

	(void)state;
	assert_int_equal(chdir("/proc"), 0);
	start(owner);
	feed(owner, 250, LARGEST, 50);
	finish(owner, 250, digest_of(250, 1));
	assert_good(owner, 250);
	owner_free(owner);
	assert_int_equal(chdir(folder), 0);
}

/* Reads a FIFO slowly, to its end. */
static void *read_fifo(void *argument)
{
	static uint8_t found[LARGEST + 1];
	uint64_t *size = argument;
	int descriptor = open("fifo", O_RDONLY);
	ssize_t count;

	while ((count = read(descriptor, found + *size, 20000)) > 0) {
		*size += (uint64_t)count;
		usleep(100);
	}
	close(descriptor);
	if (memcmp(found, bytes, *size) != 0)
		*size = 0;
	return NULL;
}

static void a_pipe_gets_the_stream_and_is_seen_to_move(void **state)
{
	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	for (int round = 0; round < 4; round++) {
		bool whole = round & 1, standard = round & 2;
		struct owner *owner = whole ? whole_new(LARGEST) : owner_new(PIECE, LARGEST);
		int before = dup(STDOUT_FILENO), descriptor;
		uint64_t size = 0;
		pthread_t reader;

		fflush(stdout);
		assert_int_equal(pthread_create(&reader, NULL, read_fifo, &size), 0);
		owner->incoming.output = standard ? "-" : "fifo";
		if (standard) {
			descriptor = open("fifo", O_WRONLY);
			dup2(descriptor, STDOUT_FILENO);
			close(descriptor);
		}
		start(owner);
		if (!whole) {
			feed(owner, LARGEST, LARGEST, 5000);
			finish(owner, LARGEST, digest_of(LARGEST, 1));
		}
		wait_for_end(owner, 20000);
		dup2(before, STDOUT_FILENO);
		close(before);
		assert_good(owner, LARGEST);
		pthread_join(reader, NULL);
		assert_int_equal(size, LARGEST);
		assert_true(owner->kept_calls >= LARGEST / 65536);
		owner_free(owner);
	}
	assert_int_equal(unlink("fifo"), 0);
}

static void assert_cannot_store(const char *name, const char *reason)
{
	struct owner *owner;
	char cause[200];

	for (int whole = 0; whole < 2; whole++) {
		owner = whole ? whole_new(5000) : owner_new(100, LARGEST);
		owner->incoming.output = name;
		start(owner);
		if (!whole)
			feed(owner, 5000, LARGEST, 50); /* and no end */
		snprintf(cause, sizeof(cause), "%s in '%s': %s",
			 whole ? "all is received and verified, but cannot be stored"
			       : "cannot store",
			 name, reason);
		assert_bad(owner, STATUS_LOCAL_FAILURE, cause);
		owner_free(owner);
	}
}

static void what_cannot_be_stored_ends_a_stream_at_once(void **state)
{
	const struct rlimit small = { 1000, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };

	(void)state;
	assert_cannot_store("/dev/full", "No space left on device");
	assert_cannot_store("missing/file", "No such file or directory");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_cannot_store("new", "File too large");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(access("new", F_OK), -1);
}

/* What fails when all is there, the name, is told as such. */
static void a_name_that_cannot_be_given_is_an_error(void **state)
{
	struct owner *owner = owner_new(100, TRANSFER_UNKNOWN);

	(void)state;
	owner->incoming.output = "new";
	start(owner);
	feed(owner, 150, LARGEST, 50);
	pthread_mutex_lock(&owner->lock);
	while (owner->kept < 150)
		pthread_cond_wait(&owner->moved, &owner->lock);
	pthread_mutex_unlock(&owner->lock);
	assert_int_equal(mkdir("new", 0700), 0);
	finish(owner, 150, digest_of(150, 1));
	assert_bad(owner, STATUS_LOCAL_FAILURE,
		   "all is received and verified, but cannot be stored in 'new': Is a directory");
	owner_free(owner);
	assert_int_equal(rmdir("new"), 0);
}

/* ---- Stopped ---- */

static void a_fifo_without_a_reader_does_not_hold_up_a_stop(void **state)
{
	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	for (int whole = 0; whole < 2; whole++) {
		struct owner *owner = whole ? whole_new(5000) : owner_new(5000, LARGEST);

		owner->incoming.output = "fifo";
		start(owner);
		if (!whole)
			feed(owner, 4000, LARGEST, 500);
		assert_false(wait_for_end(owner, 100));
		owner_free(owner);
	}
	assert_int_equal(unlink("fifo"), 0);
}

static void a_sink_that_waits_can_be_stopped(void **state)
{
	struct owner *owner = owner_new(100, LARGEST);

	(void)state;
	start(owner);
	owner_free(owner);
	owner = owner_new(100, LARGEST);
	start(owner);
	feed(owner, 150, LARGEST, 50);
	assert_false(wait_for_end(owner, 20));
	assert_in_range(owner->next_calls, 1, 20); /* it waits, rather than ask again and again */
	owner_free(owner);
	sink_stop(NULL);
	sink_release(NULL);
}

static void without_a_thread_there_is_no_sink_and_the_ring_stays(void **state)
{
	struct owner *owner = owner_new(5000, LARGEST);

	(void)state;
	no_thread = EAGAIN;
	assert_false(try_start(owner));
	assert_int_equal(errno, EAGAIN);
	no_thread = 0;
	assert_true(ring_is_mapped());
	assert_int_equal(memory_unmap(owner->ring, owner->incoming.ring_size), 0);
	owner_free(owner);
}

static void a_ring_that_an_adapter_may_still_use_stays(void **state)
{
	struct owner *owner = whole_new(1000);

	(void)state;
	start(owner); /* verified at once, without a thread */
	stop(owner);
	sink_keep_ring(owner->sink);
	sink_keep_ring(NULL);
	sink_release(owner->sink);
	assert_memory_equal(owner->ring, bytes, 1000);
	assert_int_equal(memory_unmap(owner->ring, 1000), 0);
	owner->sink = NULL;
	owner_free(owner);
}

/* At whatever time: no call afterwards, and a file is whole or not there. */
static void a_sink_can_be_stopped_at_any_time(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 200; round++) {
		bool whole = round & 1;
		struct owner *owner = whole ? whole_new(LARGEST) : owner_new(PIECE, LARGEST);

		if (round & 2)
			owner->incoming.output = "new";
		start(owner);
		if (!whole) {
			feed(owner, round * LARGEST / 100, LARGEST, PIECE);
			if (owner->filled == LARGEST)
				finish(owner, LARGEST, digest_of(LARGEST, 1));
		}
		usleep(round * 10);
		owner_free(owner);
		if (!access("new", F_OK))
			assert_stored("new", LARGEST);
	}
}

/* ---- All of them ---- */

static int descriptors_before;

static int make_folder(void **state)
{
	(void)state;
	descriptors_before = count_descriptors();
	pattern_fill(bytes, 0, sizeof(bytes));
	umask(022);
	signal(SIGXFSZ, SIG_IGN); /* as the programs do */
	signal(SIGPIPE, SIG_IGN);
	return enter_folder(folder);
}

static void nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(count_descriptors(), descriptors_before);
	assert_nothing_is_left(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_fits_through_any_ring),
		cmocka_unit_test(a_whole_payload_is_verified_in_place),
		cmocka_unit_test(the_end_may_be_known_before_the_last_bytes),
		cmocka_unit_test(a_stream_may_be_empty),
		cmocka_unit_test(every_pass_is_verified_and_the_first_is_shown_and_stored),
		cmocka_unit_test(of_whole_passes_the_first_is_shown_and_stored),
		cmocka_unit_test(a_piece_may_end_in_another_pass),
		cmocka_unit_test(a_wrong_byte_ends_a_stream_at_once),
		cmocka_unit_test(a_wrong_byte_in_a_later_pass_is_found),
		cmocka_unit_test(a_wrong_byte_in_a_whole_payload_is_found),
		cmocka_unit_test(a_wrong_digest_leaves_no_file),
		cmocka_unit_test(without_a_digest_nothing_is_compared),
		cmocka_unit_test(each_pass_that_repeats_is_verified),
		cmocka_unit_test(a_stream_that_passes_max_size_is_refused),
		cmocka_unit_test(a_whole_stream_that_passes_max_size_is_refused),
		cmocka_unit_test(a_file_gets_the_stream_and_replaces_an_old_one),
		cmocka_unit_test(a_single_byte_is_stored),
		cmocka_unit_test(without_an_output_none_is_opened),
		cmocka_unit_test(a_pipe_gets_the_stream_and_is_seen_to_move),
		cmocka_unit_test(what_cannot_be_stored_ends_a_stream_at_once),
		cmocka_unit_test(a_name_that_cannot_be_given_is_an_error),
		cmocka_unit_test(a_fifo_without_a_reader_does_not_hold_up_a_stop),
		cmocka_unit_test(a_sink_that_waits_can_be_stopped),
		cmocka_unit_test(without_a_thread_there_is_no_sink_and_the_ring_stays),
		cmocka_unit_test(a_ring_that_an_adapter_may_still_use_stays),
		cmocka_unit_test(a_sink_can_be_stopped_at_any_time),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, make_folder, NULL);
}
