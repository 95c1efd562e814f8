// SPDX-License-Identifier: MIT
#include "source.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "process.h"
#include "worker.h"

/* Bytes that are filled at once at most: the adapter goes on with them while more is filled. */
#define STEP ((uint64_t)256 << 10)

struct source {
	struct worker worker;
	struct payload payload;   /* a copy, for the thread: the original may go before it */
	struct payload *original; /* main thread's; NULL: the thread reads nothing of it */
	uint64_t end;             /* in bytes; TRANSFER_UNKNOWN: of a pipe, or none yet; thread's */
	struct source_calls calls;
	void *digest;                     /* thread's */
	atomic_int_least64_t nanoseconds; /* that it took */
	atomic_bool ending;               /* with the pass */
};

/* Gives up one owner's share. Returns whether that was the last one: the source is freed. */
static bool drop_owner(struct source *source)
{
	if (!worker_release(&source->worker))
		return false;
	digest_free(source->digest);
	free(source);
	return true;
}

/* ---- The thread ---- */

static bool call_next(struct source *source, struct piece *piece)
{
	bool found;

	if (!worker_begin_call(&source->worker))
		return false;
	found = source->calls.next(source->calls.context, piece);
	worker_end_call(&source->worker);
	return found;
}

static void call_filled(struct source *source, uint64_t size, bool end)
{
	uint64_t digest = digest_value(source->digest);

	if (!worker_begin_call(&source->worker))
		return;
	source->calls.filled(source->calls.context, size, end, digest);
	worker_end_call(&source->worker);
}

static void call_failed(struct source *source, const char *reason)
{
	struct failure failure;

	failure_set(&failure, STATUS_LOCAL_FAILURE, "cannot read '%s': %s",
		    short_name(source->payload.name).text, reason);
	if (!worker_begin_call(&source->worker))
		return;
	source->calls.failed(source->calls.context, &failure);
	worker_end_call(&source->worker);
}

/* Fills memory from `position` of the stream on. As payload_read(), but it crosses passes. */
static ssize_t read_stream(struct source *source, uint64_t position, uint8_t *memory, size_t size)
{
	const struct payload *payload = &source->payload;
	size_t done = 0;

	if (payload->length == TRANSFER_UNKNOWN)
		return payload_read(payload, position, memory, size, &source->worker.cancelled);
	while (done < size) {
		ssize_t count = payload_read(payload, (position + done) % payload->length,
					     memory + done, size - done, &source->worker.cancelled);

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

	if (length != TRANSFER_UNKNOWN && length > source->worker.ring_size &&
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
	uint8_t *memory = source->worker.ring + piece->offset;
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
	worker_begin_disk(&source->worker);
	count = read_stream(source, piece->position, memory, (size_t)size);
	worker_end_disk(&source->worker);
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

static void *run(void *argument)
{
	struct source *source = argument;
	struct piece piece;
	bool more = true;

	while (more && !atomic_load(&source->worker.cancelled)) {
		if (call_next(source, &piece))
			more = fill(source, &piece);
		else
			worker_wait(&source->worker);
	}
	drop_owner(source);
	return NULL;
}

/* ---- Its owner ---- */

struct source *source_start(struct payload *payload, uint8_t *ring, size_t ring_size, uint64_t end,
			    const struct source_calls *calls)
{
	struct source *source = calloc(1, sizeof(*source));
	int error;

	if (!source)
		return NULL;
	source->payload = *payload;
	source->original = payload->memory || payload->descriptor >= 0 ? payload : NULL;
	worker_init(&source->worker, ring, ring_size);
	source->end = end;
	source->calls = *calls;
	source->digest = digest_new();
	error = source->digest ? worker_start(&source->worker, run, source) : ENOMEM;
	if (!error)
		return source;
	source_keep_ring(source);
	drop_owner(source);
	errno = error;
	return NULL;
}

void source_wake(struct source *source)
{
	worker_wake(&source->worker);
}

void source_end_pass(struct source *source)
{
	atomic_store(&source->ending, true);
	source_wake(source);
}

void source_stop(struct source *source)
{
	if (source)
		worker_stop(&source->worker);
}

void source_keep_ring(struct source *source)
{
	if (source)
		worker_keep_ring(&source->worker);
}

void source_release(struct source *source)
{
	struct payload *payload;

	if (!source)
		return;
	payload = source->original;
	if (!drop_owner(source) && payload)
		payload->stays = true; /* the thread may be reading it */
}

int64_t source_nanoseconds(const struct source *source)
{
	return atomic_load(&source->nanoseconds);
}
