// SPDX-License-Identifier: MIT
#include "source.h"

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "memory.h"
#include "process.h"

/* Bytes that are filled at once at most: the adapter goes on with them while more is filled. */
#define STEP ((uint64_t)256 << 10)
/* Bytes of the thread's stack: there may be a thread for each of many connections. */
#define STACK_SIZE ((size_t)128 << 10)

struct source {
	struct payload payload;   /* a copy, for the thread: the original may go before it */
	struct payload *original; /* main thread's */
	uint8_t *ring;
	size_t ring_size;
	uint64_t end; /* in bytes; TRANSFER_UNKNOWN: of a pipe, or none yet; thread's */
	struct source_calls calls;
	void *digest;                     /* thread's */
	atomic_int_least64_t nanoseconds; /* that it took */
	atomic_bool ring_stays;
	atomic_bool cancelled;
	atomic_bool ending; /* with the pass */
	atomic_bool woken;  /* `wake` was posted and the thread has not seen it yet */
	sem_t wake;
	pthread_mutex_t mutex; /* held while a call runs */
	/* `mutex` guards these: */
	bool ended;          /* no call comes any more */
	unsigned int owners; /* the thread and the main thread: the last one frees */
};

static void source_free(struct source *source)
{
	if (!atomic_load(&source->ring_stays) && memory_unmap(source->ring, source->ring_size))
		warn("cannot unmap %zu bytes of memory", source->ring_size);
	digest_free(source->digest);
	sem_destroy(&source->wake);
	pthread_mutex_destroy(&source->mutex);
	free(source);
}

/* Gives up one owner's share. Returns whether that was the last one: the source is freed. */
static bool drop_owner(struct source *source)
{
	bool last;

	pthread_mutex_lock(&source->mutex);
	last = --source->owners == 0;
	pthread_mutex_unlock(&source->mutex);
	if (last)
		source_free(source);
	return last;
}

/* ---- The thread ---- */

static bool call_next(struct source *source, struct piece *piece)
{
	bool found;

	pthread_mutex_lock(&source->mutex);
	found = !source->ended && source->calls.next(source->calls.context, piece);
	pthread_mutex_unlock(&source->mutex);
	return found;
}

static void call_filled(struct source *source, uint64_t size, bool end)
{
	uint64_t digest = digest_value(source->digest);

	pthread_mutex_lock(&source->mutex);
	if (!source->ended)
		source->calls.filled(source->calls.context, size, end, digest);
	pthread_mutex_unlock(&source->mutex);
}

static void call_failed(struct source *source, const char *reason)
{
	struct failure failure;

	failure_set(&failure, STATUS_LOCAL_FAILURE, "cannot read '%s': %s", source->payload.name,
		    reason);
	pthread_mutex_lock(&source->mutex);
	if (!source->ended)
		source->calls.failed(source->calls.context, &failure);
	pthread_mutex_unlock(&source->mutex);
}

/* Fills memory from `position` of the stream on. As payload_read(), but it crosses passes. */
static ssize_t read_stream(struct source *source, uint64_t position, uint8_t *memory, size_t size)
{
	const struct payload *payload = &source->payload;
	size_t done = 0;

	if (payload->length == TRANSFER_UNKNOWN)
		return payload_read(payload, position, memory, size, &source->cancelled);
	while (done < size) {
		ssize_t count = payload_read(payload, (position + done) % payload->length,
					     memory + done, size - done, &source->cancelled);

		if (count <= 0)
			return count;
		done += (size_t)count;
	}
	return (ssize_t)done;
}

static void add_to_digest(struct source *source, const uint8_t *bytes, size_t size)
{
	int64_t started = now_nanoseconds();

	digest_add(source->digest, bytes, size);
	atomic_fetch_add(&source->nanoseconds, now_nanoseconds() - started);
}

/*
 * The most that may be filled at `position`. Of a payload that is longer than the ring no piece
 * crosses the end of a pass: where passes repeat (transfer.h) the digest of one is wanted.
 */
static uint64_t step(const struct source *source, uint64_t position)
{
	uint64_t length = source->payload.length, left = source->end - position;

	if (length != TRANSFER_UNKNOWN && length > source->ring_size &&
	    left > length - position % length)
		left = length - position % length;
	return left < STEP ? left : STEP;
}

/* Once the time is up: the end of the pass that has begun, the first one at least. */
static void find_end(struct source *source, uint64_t position)
{
	uint64_t length = source->payload.length, begun = position > 0 ? position : 1;

	if (source->end == TRANSFER_UNKNOWN && length != TRANSFER_UNKNOWN &&
	    atomic_load(&source->ending))
		source->end = begun + (length - begun % length) % length;
}

/* Fills the beginning of the piece. False at the end, which was reported, or if cancelled. */
static bool fill(struct source *source, const struct piece *piece)
{
	uint8_t *memory = source->ring + piece->offset;
	uint64_t size, most;
	ssize_t count;
	bool end;

	find_end(source, piece->position);
	most = step(source, piece->position);
	size = piece->size < most ? piece->size : most;
	if (size == 0) {
		call_filled(source, 0, true);
		return false;
	}
	count = read_stream(source, piece->position, memory, (size_t)size);
	if (count < 0) {
		if (errno != ECANCELED)
			call_failed(source, strerror(errno));
		return false;
	}
	if (count == 0 && source->payload.length != TRANSFER_UNKNOWN) {
		call_failed(source, PAYLOAD_CUT_SHORT);
		return false;
	}
	add_to_digest(source, memory, (size_t)count);
	end = count == 0 || piece->position + (uint64_t)count == source->end;
	call_filled(source, (uint64_t)count, end);
	return !end;
}

/* Waits for source_wake(). */
static void sleep_until_woken(struct source *source)
{
	while (sem_wait(&source->wake) && errno == EINTR)
		;
	/* before next() is asked: what changes from now on posts the semaphore again */
	atomic_exchange(&source->woken, false);
}

static void *run(void *argument)
{
	struct source *source = argument;
	struct piece piece;
	bool more = true;

	while (more && !atomic_load(&source->cancelled)) {
		if (call_next(source, &piece))
			more = fill(source, &piece);
		else
			sleep_until_woken(source);
	}
	drop_owner(source);
	return NULL;
}

/* ---- Its owner ---- */

/* A detached thread: nobody waits for one that a disk or a pipe holds up. 0 or an errno value. */
static int start_thread(struct source *source)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	source->owners++;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE); /* the usual size does as well */
	error = pthread_create(&thread, &attributes, run, source);
	if (error)
		source->owners--;
	pthread_attr_destroy(&attributes);
	return error;
}

struct source *source_start(struct payload *payload, uint8_t *ring, size_t ring_size, uint64_t end,
			    const struct source_calls *calls)
{
	struct source *source = calloc(1, sizeof(*source));
	int error;

	if (!source) {
		memory_unmap(ring, ring_size);
		errno = ENOMEM;
		return NULL;
	}
	source->payload = *payload;
	source->original = payload;
	source->ring = ring;
	source->ring_size = ring_size;
	source->end = end;
	source->calls = *calls;
	source->digest = digest_new();
	sem_init(&source->wake, 0, 0);
	pthread_mutex_init(&source->mutex, NULL);
	source->owners = 1;
	error = source->digest ? start_thread(source) : ENOMEM;
	if (!error)
		return source;
	drop_owner(source);
	errno = error;
	return NULL;
}

void source_wake(struct source *source)
{
	if (!atomic_exchange(&source->woken, true))
		sem_post(&source->wake);
}

void source_end_pass(struct source *source)
{
	atomic_store(&source->ending, true);
	source_wake(source);
}

void source_stop(struct source *source)
{
	if (!source)
		return;
	atomic_store(&source->cancelled, true);
	source_wake(source);
	pthread_mutex_lock(&source->mutex);
	source->ended = true;
	pthread_mutex_unlock(&source->mutex);
}

void source_keep_ring(struct source *source)
{
	if (source)
		atomic_store(&source->ring_stays, true);
}

void source_release(struct source *source)
{
	struct payload *payload;

	if (!source)
		return;
	payload = source->original;
	if (!drop_owner(source))
		payload->stays = true; /* the thread may be reading it */
}

int64_t source_nanoseconds(const struct source *source)
{
	return atomic_load(&source->nanoseconds);
}
