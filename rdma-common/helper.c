// SPDX-License-Identifier: MIT
#include "helper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"

/* The time that a call has to end when its session is over; that a file system has to answer. */
#define PATIENCE_MILLISECONDS 500
#define ANSWER_MILLISECONDS   2000

enum state {
	STATE_IDLE,
	STATE_BUSY,  /* with a call */
	STATE_ENDED, /* that has ended, and its result is not taken */
};

struct helper {
	struct process *process;
	struct outputs *outputs;
	struct payload payload;
	const char *output_name;
	size_t ring_size; /* 0: it stores */
	pthread_t thread;
	sem_t asked; /* what the helper waits for: it costs no descriptor, as an eventfd(2) would */
	int ended;   /* eventfd(2): a call has, or the helper */
	_Atomic enum state state;
	atomic_bool cancelled;
	atomic_bool parted; /* one of both has ended, or has let go of the other */
	/* Of the call; the helper's while it is busy: */
	ssize_t (*call)(struct helper *helper);
	uint8_t *memory;   /* what is read or stored lies in it: the ring, or the buffer */
	uint64_t position; /* or the size of what is to be stored */
	size_t offset, size;
	ssize_t result;
	int error;
	struct output *output; /* the helper's; NULL: not open */
	uint8_t buffer[];      /* of one that stores */
};

/* ---- The thread ---- */

static ssize_t read_piece(struct helper *helper)
{
	return payload_read(&helper->payload, helper->position, helper->memory + helper->offset,
			    helper->size, &helper->cancelled);
}

static bool open_output(struct helper *helper)
{
	if (!helper->output)
		helper->output =
			output_open(helper->outputs, helper->output_name, &helper->cancelled);
	return helper->output;
}

static ssize_t store(struct helper *helper)
{
	if (!open_output(helper))
		return -1;
	return output_write(helper->output, helper->memory + helper->offset, helper->size);
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

static ssize_t check(struct helper *helper)
{
	return output_check(helper->output_name, helper->position);
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
		if (atomic_load(&helper->state) != STATE_BUSY)
			break;
		helper->result = helper->call(helper);
		helper->error = errno;
		atomic_store(&helper->state, STATE_ENDED);
		eventfd_write(helper->ended, 1);
	}
	output_abandon(helper->output);
	if (!atomic_exchange(&helper->parted, true)) {
		eventfd_write(helper->ended, 1); /* its owner joins it */
		return NULL;
	}
	if (helper->ring_size > 0)
		memory_unmap(helper->memory, helper->ring_size);
	destroy(helper);
	process_report_ended(process, NULL);
	return NULL;
}

/* ---- Its owner ---- */

/* Starts one with these values. NULL with errno. */
static struct helper *start(struct helper values, size_t buffer_size)
{
	struct helper *helper = calloc(1, sizeof(*helper) + buffer_size);
	int error;

	if (!helper)
		return NULL;
	*helper = values;
	if (buffer_size > 0)
		helper->memory = helper->buffer;
	sem_init(&helper->asked, 0, 0);
	helper->ended = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	error = helper->ended < 0 ? errno : start_thread(&helper->thread, run, helper);
	if (!error)
		return helper;
	destroy(helper);
	errno = error;
	return NULL;
}

struct helper *helper_start_reading(struct process *process, const struct payload *payload,
				    uint8_t *ring, size_t ring_size)
{
	return start((struct helper){ .process = process,
				      .payload = *payload,
				      .memory = ring,
				      .ring_size = ring_size },
		     0);
}

struct helper *helper_start_storing(struct process *process, struct outputs *outputs,
				    const char *output)
{
	return start(
		(struct helper){ .process = process, .outputs = outputs, .output_name = output },
		HELPER_BUFFER);
}

uint8_t *helper_buffer(struct helper *helper)
{
	return helper->buffer;
}

int helper_descriptor(const struct helper *helper)
{
	return helper->ended;
}

static void ask(struct helper *helper, ssize_t (*call)(struct helper *helper))
{
	helper->call = call;
	atomic_store(&helper->state, STATE_BUSY);
	sem_post(&helper->asked);
}

void helper_read(struct helper *helper, size_t offset, uint64_t position, size_t size)
{
	helper->offset = offset;
	helper->position = position;
	helper->size = size;
	ask(helper, read_piece);
}

void helper_store(struct helper *helper, size_t offset, size_t size)
{
	helper->offset = offset;
	helper->size = size;
	ask(helper, store);
}

void helper_commit(struct helper *helper)
{
	ask(helper, commit);
}

bool helper_is_asked(const struct helper *helper)
{
	return helper && atomic_load(&helper->state) != STATE_IDLE;
}

bool helper_result(struct helper *helper, ssize_t *result)
{
	eventfd_t count;

	/* first: this may be the end of a call before, whose result was taken ahead of it */
	eventfd_read(helper->ended, &count);
	if (atomic_load(&helper->state) == STATE_BUSY)
		return false;
	atomic_store(&helper->state, STATE_IDLE);
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

int helper_check(struct helper *helper, uint64_t size)
{
	int64_t deadline = now_milliseconds() + ANSWER_MILLISECONDS, left;
	struct pollfd ended = { .fd = helper->ended, .events = POLLIN };
	ssize_t result;

	if (helper_is_asked(helper) && !helper_drop(helper))
		return ETIMEDOUT;
	helper->position = size;
	ask(helper, check);
	while (!helper_result(helper, &result)) {
		left = deadline - now_milliseconds();
		if (left <= 0)
			return ETIMEDOUT;
		poll(&ended, 1, (int)left);
	}
	return result < 0 ? errno : 0;
}

/* Waits a moment until the thread has parted, which it tells behind that. */
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
	pthread_t thread;

	if (!helper)
		return true;
	thread = helper->thread;
	helper_cancel(helper);
	sem_post(&helper->asked);
	wait_for_end(helper);
	if (!atomic_exchange(&helper->parted, true)) {
		pthread_detach(thread);
		return false;
	}
	pthread_join(thread, NULL);
	destroy(helper);
	return true;
}
