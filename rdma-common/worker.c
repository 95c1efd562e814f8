// SPDX-License-Identifier: MIT
#include "worker.h"

#include <err.h>
#include <errno.h>
#include <time.h>

#include "memory.h"
#include "process.h"

/* Bytes of the thread's stack: there may be two for each of many connections. */
#define STACK_SIZE ((size_t)256 * 1024)

/* So long a disk takes for a call that is no sign of anything: it has much to write. */
#define HELD_UP_MILLISECONDS 500

/* The threads of all workers, and those of them that were stopped and have not ended. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	unsigned int count;
	LIST_HEAD(, worker) stopped;
} threads = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static void count_threads(int change)
{
	pthread_mutex_lock(&threads.mutex);
	threads.count += (unsigned int)change;
	pthread_cond_signal(&threads.ended);
	pthread_mutex_unlock(&threads.mutex);
}

void worker_init(struct worker *worker, uint8_t *ring, size_t ring_size)
{
	worker->ring = ring;
	worker->ring_size = ring_size;
	atomic_init(&worker->ring_stays, false);
	atomic_init(&worker->woken, false);
	atomic_init(&worker->cancelled, false);
	atomic_init(&worker->owners, 1);
	atomic_init(&worker->busy_since, 0);
	worker->is_stopped = false;
	sem_init(&worker->wake, 0, 0);
	pthread_mutex_init(&worker->mutex, NULL);
}

/* The worker may be freed when `run` returns. */
static void *run_thread(void *argument)
{
	const struct worker *worker = argument;

	worker->run(worker->argument);
	count_threads(-1);
	return NULL;
}

int worker_start(struct worker *worker, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	atomic_fetch_add(&worker->owners, 1);
	count_threads(1);
	worker->run = run;
	worker->argument = argument;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE); /* the usual size does as well */
	error = pthread_create(&thread, &attributes, run_thread, worker);
	if (error) {
		count_threads(-1);
		atomic_fetch_sub(&worker->owners, 1);
	}
	pthread_attr_destroy(&attributes);
	return error;
}

bool worker_begin_call(struct worker *worker)
{
	pthread_mutex_lock(&worker->mutex);
	if (!atomic_load(&worker->cancelled))
		return true;
	pthread_mutex_unlock(&worker->mutex);
	return false;
}

void worker_end_call(struct worker *worker)
{
	pthread_mutex_unlock(&worker->mutex);
}

void worker_begin_disk(struct worker *worker)
{
	atomic_store(&worker->busy_since, now_milliseconds());
}

void worker_end_disk(struct worker *worker)
{
	atomic_store(&worker->busy_since, 0);
}

void worker_wait(struct worker *worker)
{
	while (sem_wait(&worker->wake) && errno == EINTR)
		;
	/* before the work is looked for: who comes from now on posts again */
	atomic_exchange(&worker->woken, false);
}

void worker_wake(struct worker *worker)
{
	if (!atomic_exchange(&worker->woken, true))
		sem_post(&worker->wake);
}

void worker_stop(struct worker *worker)
{
	atomic_store(&worker->cancelled, true);
	worker_wake(worker);
	/* a call that is running ends first; each later one finds `cancelled` */
	pthread_mutex_lock(&worker->mutex);
	pthread_mutex_unlock(&worker->mutex);
	if (worker->is_stopped)
		return;
	worker->is_stopped = true;
	pthread_mutex_lock(&threads.mutex);
	LIST_INSERT_HEAD(&threads.stopped, worker, link);
	pthread_mutex_unlock(&threads.mutex);
}

void worker_keep_ring(struct worker *worker)
{
	atomic_store(&worker->ring_stays, true);
}

bool worker_release(struct worker *worker)
{
	if (atomic_fetch_sub(&worker->owners, 1) > 1)
		return false;
	pthread_mutex_lock(&threads.mutex);
	if (worker->is_stopped)
		LIST_REMOVE(worker, link);
	pthread_mutex_unlock(&threads.mutex);
	if (!atomic_load(&worker->ring_stays) && memory_unmap(worker->ring, worker->ring_size))
		warn("cannot unmap %zu bytes of memory", worker->ring_size);
	sem_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->mutex);
	return true;
}

unsigned int workers_held_up(void)
{
	int64_t now = now_milliseconds();
	const struct worker *worker;
	unsigned int count = 0;

	pthread_mutex_lock(&threads.mutex);
	LIST_FOREACH(worker, &threads.stopped, link)
	{
		int64_t since = atomic_load(&worker->busy_since);

		count += since > 0 && now - since >= HELD_UP_MILLISECONDS;
	}
	pthread_mutex_unlock(&threads.mutex);
	return count;
}

bool workers_await(unsigned int seconds)
{
	struct timespec end;
	int error = 0;
	bool none;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)seconds;
	pthread_mutex_lock(&threads.mutex);
	while (threads.count > 0 && !error)
		error = pthread_cond_clockwait(&threads.ended, &threads.mutex, CLOCK_MONOTONIC,
					       &end);
	none = threads.count == 0;
	pthread_mutex_unlock(&threads.mutex);
	return none;
}
