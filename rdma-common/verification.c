// SPDX-License-Identifier: MIT
#include "verification.h"

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "payload.h"
#include "process.h"

/* A payload up to this is verified where it is received: a thread would take longer. */
#define SMALL_PAYLOAD ((size_t)64 * 1024)

struct verification {
	struct received received;
	mode_t mode; /* of a new file */
	struct output_control control;
	uint64_t seen; /* the progress, when it was asked for last; main thread */
	pthread_mutex_t mutex;
	/* `mutex` guards these: */
	bool ended;          /* nobody waits for the report any more */
	unsigned int owners; /* the thread and the main thread: the last one frees */
	void (*report)(void *context, const struct received *, const struct verdict *);
	void *context;
};

static void release(struct verification *verification)
{
	bool last;

	pthread_mutex_lock(&verification->mutex);
	last = --verification->owners == 0;
	pthread_mutex_unlock(&verification->mutex);
	if (!last)
		return;
	if (memory_unmap(verification->received.memory, verification->received.size))
		warn("cannot unmap %zu bytes of memory", verification->received.size);
	pthread_mutex_destroy(&verification->mutex);
	free(verification);
}

/* Compares the payload with the digest and the pattern that it should have. */
static void verify(const struct received *received, struct failure *failure)
{
	size_t offset = received->size;

	failure->status = STATUS_SUCCESS;
	if (received->is_pattern)
		offset = pattern_mismatch(received->memory, received->size);
	if (offset < received->size)
		failure_set(failure, STATUS_CONTENTS_WRONG,
			    "the contents are wrong: byte %zu of %zu is not as in the pattern; do "
			    "not trust this path",
			    offset, received->size);
	else if (received->has_digest &&
		 digest_memory(received->memory, received->size) != received->digest)
		failure_set(failure, STATUS_CONTENTS_WRONG, "%s",
			    status_in_words(STATUS_CONTENTS_WRONG));
}

static void store(struct verification *verification, struct failure *failure)
{
	const struct received *received = &verification->received;

	if (output_store(received->output, verification->mode, received->memory, received->size,
			 &verification->control))
		failure_set(failure, STATUS_LOCAL_FAILURE,
			    "all is received and verified, but cannot be stored in '%s': %s",
			    received->output, strerror(errno));
}

/* Verifies, stores and reports. */
static void run(struct verification *verification)
{
	const struct received *received = &verification->received;
	int64_t started = now_nanoseconds();
	struct verdict verdict;

	verify(received, &verdict.failure);
	verdict.nanoseconds = now_nanoseconds() - started;
	if (verdict.failure.status == STATUS_SUCCESS && received->output)
		store(verification, &verdict.failure);
	pthread_mutex_lock(&verification->mutex);
	if (!verification->ended)
		verification->report(verification->context, received, &verdict);
	pthread_mutex_unlock(&verification->mutex);
}

static void *run_thread(void *argument)
{
	run(argument);
	release(argument);
	return NULL;
}

/* A detached thread: nobody waits for one that a disk or a reader holds up. */
static int start_thread(struct verification *verification)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	verification->owners++;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attributes, run_thread, verification);
	if (error)
		verification->owners--;
	pthread_attr_destroy(&attributes);
	return error;
}

struct verification *verification_start(const struct received *received,
					void (*report)(void *context, const struct received *,
						       const struct verdict *),
					void *context)
{
	struct verification *verification = calloc(1, sizeof(*verification));
	int error = 0;

	if (!verification) {
		error = errno;
		memory_unmap(received->memory, received->size);
		errno = error;
		return NULL;
	}
	verification->received = *received;
	verification->report = report;
	verification->context = context;
	pthread_mutex_init(&verification->mutex, NULL);
	verification->owners = 1;
	if (received->output)
		verification->mode = output_mode();
	if (!received->output && received->size <= SMALL_PAYLOAD) {
		run(verification);
		return verification;
	}
	error = start_thread(verification);
	if (!error)
		return verification;
	release(verification);
	errno = error;
	return NULL;
}

bool verification_moved(struct verification *verification)
{
	uint64_t progress = atomic_load(&verification->control.progress);
	bool moved = progress != verification->seen;

	verification->seen = progress;
	return moved;
}

void verification_end(struct verification *verification)
{
	if (!verification)
		return;
	atomic_store(&verification->control.cancelled, true);
	pthread_mutex_lock(&verification->mutex);
	verification->ended = true;
	pthread_mutex_unlock(&verification->mutex);
	release(verification);
}
