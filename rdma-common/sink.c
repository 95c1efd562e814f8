// SPDX-License-Identifier: MIT
#include "sink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "memory.h"
#include "output.h"
#include "process.h"
#include "worker.h"

/* A whole payload up to this is verified where it is received: a thread would take longer. */
#define SMALL_PAYLOAD ((uint64_t)64 * 1024)
/* Bytes that are copied out, or verified, at a time: they stay in a cache meanwhile. */
#define PIECE_SIZE ((size_t)256 * 1024)

struct sink {
	struct worker worker;
	struct incoming incoming;
	struct sink_calls calls;
	mode_t mode; /* of a new file */
	/* The thread's, or sink_start()'s: */
	uint8_t *buffer; /* a copy of a piece */
	size_t buffer_size;
	void *digest;
	uint64_t pass_digest; /* of the first pass, of a stream that repeats */
	struct excerpt excerpt;
	struct verdict verdict;
	struct output *output; /* NULL: not open */
	uint64_t kept;         /* position */
	bool passes_differ;    /* a later one has another digest than the first */
	bool verified;         /* all of it */
	/* Set by sink_finish(), before `finishing`: */
	uint64_t final_length, final_digest;
	atomic_bool finishing;
};

static void release(struct sink *sink)
{
	if (!worker_release(&sink->worker))
		return;
	digest_free(sink->digest);
	free(sink->buffer);
	free(sink);
}

static bool has_failed(const struct sink *sink)
{
	return sink->verdict.failure.status != STATUS_SUCCESS;
}

/* ---- Calls ---- */

static bool call_next(struct sink *sink, struct piece *piece)
{
	bool found;

	if (!worker_begin_call(&sink->worker))
		return false;
	found = sink->calls.next(sink->calls.context, piece);
	worker_end_call(&sink->worker);
	return found;
}

static void call_copied(struct sink *sink, size_t size)
{
	if (!worker_begin_call(&sink->worker))
		return;
	sink->calls.copied(sink->calls.context, size);
	worker_end_call(&sink->worker);
}

static void call_kept(struct sink *sink, size_t size)
{
	sink->kept += size;
	if (!worker_begin_call(&sink->worker))
		return;
	sink->calls.kept(sink->calls.context, sink->kept);
	worker_end_call(&sink->worker);
}

static void call_finished(struct sink *sink)
{
	if (!worker_begin_call(&sink->worker))
		return;
	sink->calls.finished(sink->calls.context, &sink->verdict, &sink->excerpt);
	worker_end_call(&sink->worker);
}

/* ---- Verifying ---- */

/* How many of `size` bytes are the first pass's, which alone is printed and stored. */
static size_t in_first_pass(const struct sink *sink, uint64_t position, size_t size)
{
	uint64_t pass = sink->incoming.pass_length;

	if (position >= pass)
		return 0;
	return size < pass - position ? size : (size_t)(pass - position);
}

static void fail_at_position(struct sink *sink, uint64_t position)
{
	uint64_t pass = sink->incoming.pass_length;
	char which[64] = "";

	if (sink->incoming.length != pass)
		snprintf(which, sizeof(which), " in pass %" PRIu64, position / pass + 1);
	failure_set(&sink->verdict.failure, STATUS_CONTENTS_WRONG,
		    "the contents are wrong: byte %" PRIu64 " of %" PRIu64
		    "%s is not as in the pattern; do not trust this path",
		    position % pass, pass, which);
}

/* The number of bytes up to the first that differs from the pattern, in whichever pass. */
static size_t match_pattern(const struct sink *sink, const uint8_t *bytes, size_t size)
{
	uint64_t pass = sink->incoming.pass_length;
	size_t done = 0, part, same;

	do {
		uint64_t position = (sink->verdict.verified_bytes + done) % pass;

		part = size - done < pass - position ? size - done : (size_t)(pass - position);
		same = pattern_mismatch(bytes + done, position, part);
		done += same;
	} while (same == part && done < size);
	return done;
}

/* A pass of a stream that repeats is over: its digest is that of all the others. */
static void end_pass(struct sink *sink, bool first)
{
	uint64_t digest = digest_value(sink->digest);

	if (first)
		sink->pass_digest = digest;
	else if (digest != sink->pass_digest)
		sink->passes_differ = true;
	digest_restart(sink->digest);
}

/* Digests the next bytes: all of the stream's, or pass for pass. */
static void digest_next(struct sink *sink, const uint8_t *bytes, size_t size)
{
	uint64_t pass = sink->incoming.pass_length, position = sink->verdict.verified_bytes;

	while (sink->incoming.repeats && size >= pass - position % pass) {
		size_t part = (size_t)(pass - position % pass);

		digest_add(sink->digest, bytes, part);
		bytes += part;
		size -= part;
		position += part;
		end_pass(sink, position == pass);
	}
	digest_add(sink->digest, bytes, size);
}

/* The digest that the peer should have sent. */
static uint64_t own_digest(const struct sink *sink)
{
	return sink->incoming.repeats ? sink->pass_digest : digest_value(sink->digest);
}

/* Verifies the next bytes, as far as that is possible before the end. False: they are wrong. */
static bool verify(struct sink *sink, const uint8_t *bytes, size_t size)
{
	int64_t started = now_nanoseconds();
	size_t same = size;

	if (sink->incoming.is_pattern)
		same = match_pattern(sink, bytes, size);
	if (same == size && sink->incoming.has_digest)
		digest_next(sink, bytes, size);
	excerpt_add(&sink->excerpt, bytes, in_first_pass(sink, sink->verdict.verified_bytes, same));
	sink->verdict.verified_bytes += same;
	sink->verdict.nanoseconds += now_nanoseconds() - started;
	if (same < size)
		fail_at_position(sink, sink->verdict.verified_bytes);
	return same == size;
}

/* At the end: there should be so many bytes with this digest. */
static bool verify_end(struct sink *sink, uint64_t length, uint64_t digest)
{
	sink->verified = sink->verdict.verified_bytes == length && !sink->passes_differ &&
			 (!sink->incoming.has_digest || own_digest(sink) == digest);
	if (!sink->verified)
		failure_set(&sink->verdict.failure, STATUS_CONTENTS_WRONG, "%s",
			    status_in_words(STATUS_CONTENTS_WRONG));
	return sink->verified;
}

/* ---- Storing ---- */

/* Takes the reason from errno; returns false. */
static bool fail_to_store(struct sink *sink)
{
	failure_set(&sink->verdict.failure, STATUS_LOCAL_FAILURE, "%s in '%s': %s",
		    sink->verified ? "all is received and verified, but cannot be stored"
				   : "cannot store",
		    short_name(sink->incoming.output).text, output_error(errno));
	return false;
}

/* Opens the output when there is something to write, or at the end. */
static bool open_output(struct sink *sink)
{
	if (sink->output)
		return true;
	worker_begin_disk(&sink->worker);
	sink->output = output_open(sink->incoming.output, sink->mode, &sink->worker.cancelled);
	worker_end_disk(&sink->worker);
	return sink->output || fail_to_store(sink);
}

static bool store(struct sink *sink, const uint8_t *bytes, size_t size)
{
	if (!open_output(sink))
		return false;
	while (size > 0) {
		ssize_t count;

		worker_begin_disk(&sink->worker);
		count = output_write(sink->output, bytes, size);
		worker_end_disk(&sink->worker);
		if (count < 0)
			return fail_to_store(sink);
		bytes += count;
		size -= (size_t)count;
		call_kept(sink, (size_t)count);
	}
	return true;
}

/* Gives the output its name. Nothing to do where there is none. */
static void commit(struct sink *sink)
{
	struct output *output;
	int error;

	if (!sink->incoming.output || !open_output(sink))
		return;
	output = sink->output;
	sink->output = NULL;
	worker_begin_disk(&sink->worker);
	error = output_commit(output);
	worker_end_disk(&sink->worker);
	if (error)
		fail_to_store(sink);
}

/* A payload of unknown length may not exceed --max-size; a known one was agreed to. */
static bool is_within_limit(struct sink *sink, uint64_t size)
{
	const struct incoming *incoming = &sink->incoming;

	if (incoming->pass_length != TRANSFER_UNKNOWN ||
	    size <= incoming->limit - sink->verdict.verified_bytes)
		return true;
	failure_set(&sink->verdict.failure, STATUS_REFUSED,
		    "the peer sends more than the %" PRIu64
		    " bytes that --max-size allows here; send less, or raise that",
		    incoming->limit);
	return false;
}

/* ---- A whole payload ---- */

static bool verify_whole(struct sink *sink)
{
	const struct incoming *incoming = &sink->incoming;

	for (uint64_t done = 0; done < incoming->length; done += PIECE_SIZE) {
		uint64_t left = incoming->length - done;
		size_t size = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;

		if (atomic_load(&sink->worker.cancelled) ||
		    !verify(sink, incoming->ring + done, size))
			return false;
		if (!incoming->output)
			call_kept(sink, size);
	}
	return verify_end(sink, incoming->length, incoming->digest);
}

/* Of several passes the first is stored. */
static bool store_whole(struct sink *sink)
{
	const struct incoming *incoming = &sink->incoming;
	size_t length = (size_t)incoming->length, stored = in_first_pass(sink, 0, length);

	if (!store(sink, incoming->ring, stored))
		return false;
	if (stored < length)
		call_kept(sink, length - stored);
	return true;
}

static void run_whole(struct sink *sink)
{
	if (!is_within_limit(sink, sink->incoming.length) || !verify_whole(sink) ||
	    (sink->incoming.output && !store_whole(sink)))
		return;
	commit(sink);
}

/* ---- A stream ---- */

/* Copies the next bytes out of the ring, and keeps the copy. False: there are none for now. */
static bool take_piece(struct sink *sink)
{
	struct piece piece;
	size_t size, stored = 0;

	if (!call_next(sink, &piece))
		return false;
	size = piece.size < sink->buffer_size ? (size_t)piece.size : sink->buffer_size;
	if (!is_within_limit(sink, size))
		return true;
	memcpy(sink->buffer, sink->incoming.ring + piece.offset, size);
	call_copied(sink, size);
	if (sink->incoming.output)
		stored = in_first_pass(sink, sink->verdict.verified_bytes, size);
	if (verify(sink, sink->buffer, size) &&
	    (stored == 0 || store(sink, sink->buffer, stored)) && stored < size)
		call_kept(sink, size - stored);
	return true;
}

/* All that the peer says it sent is kept. */
static bool is_complete(struct sink *sink)
{
	return atomic_load(&sink->finishing) && sink->verdict.verified_bytes >= sink->final_length;
}

static void run_streamed(struct sink *sink)
{
	while (!is_complete(sink)) {
		if (!take_piece(sink))
			worker_wait(&sink->worker);
		if (has_failed(sink) || atomic_load(&sink->worker.cancelled))
			return;
	}
	if (verify_end(sink, sink->final_length, sink->final_digest))
		commit(sink);
}

/* ---- From the start to the end ---- */

static void run(struct sink *sink)
{
	if (sink->incoming.is_whole)
		run_whole(sink);
	else
		run_streamed(sink);
	worker_begin_disk(&sink->worker);
	output_abandon(sink->output);
	worker_end_disk(&sink->worker);
	call_finished(sink);
}

static void *run_thread(void *argument)
{
	run(argument);
	release(argument);
	return NULL;
}

/* Allocates what the sink works with. 0 or an errno value. */
static int allocate(struct sink *sink)
{
	size_t ring_size = sink->incoming.ring_size;

	sink->digest = digest_new();
	if (!sink->digest)
		return ENOMEM;
	if (sink->incoming.is_whole)
		return 0;
	sink->buffer_size = ring_size < PIECE_SIZE ? ring_size : PIECE_SIZE;
	sink->buffer = malloc(sink->buffer_size);
	return sink->buffer ? 0 : ENOMEM;
}

static struct sink *sink_new(const struct incoming *incoming, const struct sink_calls *calls)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->incoming = *incoming;
	sink->calls = *calls;
	if (incoming->pass_length == 0)
		sink->incoming.pass_length = incoming->length;
	sink->excerpt.is_pattern = incoming->is_pattern;
	if (incoming->output)
		sink->mode = output_mode();
	worker_init(&sink->worker, incoming->ring, incoming->ring_size);
	return sink;
}

/* Worth no thread, and nothing to wait for. */
static bool is_small(const struct incoming *incoming)
{
	return incoming->is_whole && !incoming->output && incoming->length <= SMALL_PAYLOAD;
}

struct sink *sink_start(const struct incoming *incoming, const struct sink_calls *calls)
{
	struct sink *sink = sink_new(incoming, calls);
	int error = sink ? allocate(sink) : ENOMEM;

	if (!error && is_small(incoming))
		run(sink);
	else if (!error)
		error = worker_start(&sink->worker, run_thread, sink);
	if (!error)
		return sink;
	if (sink) {
		sink_keep_ring(sink);
		release(sink);
	}
	errno = error;
	return NULL;
}

void sink_wake(struct sink *sink)
{
	worker_wake(&sink->worker);
}

void sink_finish(struct sink *sink, uint64_t length, uint64_t digest)
{
	sink->final_length = length;
	sink->final_digest = digest;
	atomic_store(&sink->finishing, true);
	sink_wake(sink);
}

void sink_stop(struct sink *sink)
{
	if (sink)
		worker_stop(&sink->worker);
}

void sink_keep_ring(struct sink *sink)
{
	if (sink)
		worker_keep_ring(&sink->worker);
}

void sink_release(struct sink *sink)
{
	if (sink)
		release(sink);
}
