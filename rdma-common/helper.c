// SPDX-License-Identifier: MIT
#include "helper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"

/* Bytes of its stack. */
#define STACK_SIZE ((size_t)256 << 10)
/* The time that a call has to end when its session is over. */
#define PATIENCE_MILLISECONDS 500

enum call {
	CALL_READ,
	CALL_STORE,
	CALL_COMMIT,
};

struct helper {
	struct process *process;
	struct outputs *outputs;
	struct payload payload;
	const char *output_name;
	size_t ring_size; /* 0: it stores */
	sem_t asked; /* what the helper waits for: it costs no descriptor, as an eventfd(2) would */
	int ended;   /* eventfd(2): a call has, or the helper */
	bool asked_for; /* a call whose result is not taken; its owner's */
	atomic_bool busy, over, cancelled;
	atomic_bool parted; /* one of both has ended, or has let go of the other */
	/* Of the call; the helper's while it is busy: */
	enum call call;
	uint8_t *memory; /* what is read or stored lies in it: the ring, or the buffer */
	uint64_t position;
	size_t offset, size;
	ssize_t result;
	int error;
	struct output *output; /* the helper's; NULL: not open */
	uint8_t buffer[];      /* of one that stores */
};

/* ---- The thread ---- */

static bool open_output(struct helper *helper)
{
	if (!helper->output)
		helper->output =
			output_open(helper->outputs, helper->output_name, &helper->cancelled);
	return helper->output;
}

static ssize_t commit(struct helper *helper)
{
	struct output *output;

	if (!open_output(helper))
		return -1;
	output = helper->output;
	helper->output = NULL;
	return output_commit(output);
}

static ssize_t perform(struct helper *helper)
{
	switch (helper->call) {
	case CALL_READ:
		return payload_read(&helper->payload, helper->position,
				    helper->memory + helper->offset, helper->size,
				    &helper->cancelled);
	case CALL_STORE:
		return open_output(helper)
			       ? output_write(helper->output, helper->memory + helper->offset,
					      helper->size)
			       : -1;
	default:
		return commit(helper);
	}
}

static void destroy(struct helper *helper)
{
	if (helper->ended >= 0)
		close(helper->ended);
	sem_destroy(&helper->asked);
	free(helper);
}

static void *run(void *argument)
{
	struct helper *helper = argument;
	struct process *process = helper->process;

	for (;;) {
		while (sem_wait(&helper->asked) && errno == EINTR)
			;
		if (!atomic_load(&helper->busy))
			break;
		helper->result = perform(helper);
		helper->error = errno;
		atomic_store(&helper->busy, false);
		eventfd_write(helper->ended, 1);
	}
	output_abandon(helper->output);
	if (atomic_exchange(&helper->parted, true)) { /* its owner has gone */
		if (helper->ring_size > 0)
			memory_unmap(helper->memory, helper->ring_size);
		destroy(helper);
		process_report_ended(process, NULL);
	} else {
		eventfd_write(helper->ended, 1);
		atomic_store(&helper->over, true); /* and it is the owner's */
	}
	return NULL;
}

/* ---- Its owner ---- */

static int start_thread(struct helper *helper)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE); /* the usual size does as well */
	error = pthread_create(&thread, &attributes, run, helper);
	pthread_attr_destroy(&attributes);
	return error;
}

/* NULL: `helper` could not be allocated, or its thread not started; errno. */
static struct helper *start(struct helper *helper)
{
	int error;

	if (!helper)
		return NULL;
	sem_init(&helper->asked, 0, 0);
	helper->ended = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	error = helper->ended < 0 ? errno : start_thread(helper);
	if (!error)
		return helper;
	destroy(helper);
	errno = error;
	return NULL;
}

struct helper *helper_start_reading(struct process *process, const struct payload *payload,
				    uint8_t *ring, size_t ring_size)
{
	struct helper *helper = calloc(1, sizeof(*helper));

	if (helper) {
		helper->process = process;
		helper->payload = *payload;
		helper->memory = ring;
		helper->ring_size = ring_size;
	}
	return start(helper);
}

struct helper *helper_start_storing(struct process *process, struct outputs *outputs,
				    const char *output)
{
	struct helper *helper = calloc(1, sizeof(*helper) + HELPER_BUFFER);

	if (helper) {
		helper->process = process;
		helper->outputs = outputs;
		helper->output_name = output;
		helper->memory = helper->buffer;
	}
	return start(helper);
}

uint8_t *helper_buffer(struct helper *helper)
{
	return helper->buffer;
}

int helper_descriptor(const struct helper *helper)
{
	return helper->ended;
}

static void ask(struct helper *helper, enum call call)
{
	helper->call = call;
	helper->asked_for = true;
	atomic_store(&helper->busy, true);
	sem_post(&helper->asked);
}

void helper_read(struct helper *helper, size_t offset, uint64_t position, size_t size)
{
	helper->offset = offset;
	helper->position = position;
	helper->size = size;
	ask(helper, CALL_READ);
}

void helper_store(struct helper *helper, size_t offset, size_t size)
{
	helper->offset = offset;
	helper->size = size;
	ask(helper, CALL_STORE);
}

void helper_commit(struct helper *helper)
{
	ask(helper, CALL_COMMIT);
}

bool helper_is_asked(const struct helper *helper)
{
	return helper && helper->asked_for;
}

bool helper_result(struct helper *helper, ssize_t *result)
{
	eventfd_t count;

	/* first: this may be the end of a call before, whose result was taken ahead of it */
	eventfd_read(helper->ended, &count);
	if (atomic_load(&helper->busy))
		return false;
	helper->asked_for = false;
	*result = helper->result;
	errno = helper->error;
	return true;
}

bool helper_drop(struct helper *helper)
{
	ssize_t unwanted;

	return helper_is_asked(helper) && helper_result(helper, &unwanted);
}

void helper_cancel(struct helper *helper)
{
	if (helper)
		atomic_store(&helper->cancelled, true);
}

/* Waits a moment until the thread does nothing any more; that writes once more behind `parted`. */
static void wait_for_end(struct helper *helper)
{
	int64_t deadline = now_milliseconds() + PATIENCE_MILLISECONDS, left;
	struct pollfd ended = { .fd = helper->ended, .events = POLLIN };
	eventfd_t count;

	while (!atomic_load(&helper->parted) && (left = deadline - now_milliseconds()) > 0) {
		poll(&ended, 1, (int)left);
		eventfd_read(helper->ended, &count); /* of a call before, perhaps */
	}
}

bool helper_release(struct helper *helper)
{
	if (!helper)
		return true;
	helper_cancel(helper);
	sem_post(&helper->asked);
	wait_for_end(helper);
	if (!atomic_exchange(&helper->parted, true))
		return false;
	while (!atomic_load(&helper->over)) /* it has one line to go */
		sched_yield();
	destroy(helper);
	return true;
}
