// SPDX-License-Identifier: MIT
/*
 * The worker of a stream: no wake is lost, no call begins once it is stopped, the last owner frees.
 */
#include "rdma-common/worker.h"
#include "rdma-common/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mapped.h"

#define RING     ((size_t)10000)
#define PATIENCE 10 /* seconds for what comes at once */

/* ---- Threads and semaphores of which something is known, in the place of the C library's ---- */

static struct {
	int error;                  /* with which no thread begins; 0: it does */
	int detached;               /* PTHREAD_CREATE_DETACHED, of the last thread that began */
	size_t stack;               /* its bytes */
	unsigned int interruptions; /* signals that are still to come in sem_wait(3) */
	time_t seconds;             /* that have passed besides */
	time_t wrong;               /* by so many seconds the wall clock is */
} libc;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*get)(clockid_t, struct timespec *);
	int result;

	*(void **)&get = dlsym(RTLD_NEXT, "clock_gettime");
	result = get(clock, now);
	if (clock == CLOCK_MONOTONIC)
		now->tv_sec += libc.seconds;
	else
		now->tv_sec += libc.wrong;
	return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (libc.error)
		return libc.error;
	if (attributes) {
		pthread_attr_getdetachstate(attributes, &libc.detached);
		pthread_attr_getstacksize(attributes, &libc.stack);
	}
	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	return create(thread, attributes, run, argument);
}

int sem_wait(sem_t *semaphore)
{
	int (*wait)(sem_t *);

	if (libc.interruptions > 0) {
		libc.interruptions--;
		errno = EINTR;
		return -1;
	}
	*(void **)&wait = dlsym(RTLD_NEXT, "sem_wait");
	return wait(semaphore);
}

/* ---- A worker ---- */

static struct {
	struct worker worker;
	uint8_t *ring;
	sem_t inside, leave, over; /* the thread is at work; it may end; it has ended */
	atomic_uint woken;         /* how often */
	atomic_bool call_over;
	bool freed; /* the thread was the last owner */
} test;

static int set_up(void **state)
{
	(void)state;
	memset(&libc, 0, sizeof(libc));
	memset(&test, 0, sizeof(test));
	sem_init(&test.inside, 0, 0);
	sem_init(&test.leave, 0, 0);
	sem_init(&test.over, 0, 0);
	test.ring = memory_map(RING);
	watch_ring(test.ring);
	memset(&test.worker, 0xff, sizeof(test.worker));
	worker_init(&test.worker, test.ring, RING);
	return test.ring ? 0 : -1;
}

static bool is_unlocked(pthread_mutex_t *mutex)
{
	return !pthread_mutex_trylock(mutex) && !pthread_mutex_unlock(mutex);
}

/* Wakes that the worker has not seen yet. */
static int wakes(void)
{
	int count;

	assert_int_equal(sem_getvalue(&test.worker.wake, &count), 0);
	return count;
}

/* The thread, which has leave() to come, is the last owner. Waits for its end. */
static void let_go(void)
{
	worker_stop(&test.worker);
	assert_false(worker_release(&test.worker));
	sem_post(&test.leave);
	sem_wait(&test.over);
	assert_true(test.freed);
	assert_false(ring_is_mapped());
}

static void *leave(void *argument)
{
	sem_wait(&test.leave);
	test.freed = worker_release(argument);
	sem_post(&test.over);
	return NULL;
}

/* ---- Tests ---- */

static void a_worker_without_a_thread_is_freed_by_its_owner(void **state)
{
	(void)state;
	assert_true(worker_release(&test.worker));
	assert_false(ring_is_mapped());
}

static void a_ring_that_an_adapter_may_use_stays(void **state)
{
	(void)state;
	worker_keep_ring(&test.worker);
	assert_true(worker_release(&test.worker));
	assert_true(ring_is_mapped());
	assert_int_equal(memory_unmap(test.ring, RING), 0);
}

/* What warnings say while the worker is freed. */
static char *release_in_words(void)
{
	FILE *terminal = stderr;
	char *text = NULL;
	size_t size = 0;

	stderr = open_memstream(&text, &size);
	assert_non_null(stderr);
	assert_true(worker_release(&test.worker));
	fclose(stderr);
	stderr = terminal;
	return text;
}

static void a_ring_that_cannot_be_unmapped_is_reported(void **state)
{
	char *text = release_in_words();

	(void)state;
	assert_string_equal(text, "");
	free(text);
	set_up(NULL);
	test.worker.ring++; /* where no page begins */
	text = release_in_words();
	assert_non_null(strstr(text, "cannot unmap 10000 bytes of memory: Invalid argument"));
	free(text);
	assert_int_equal(memory_unmap(test.ring, RING), 0);
}

/* Detached, since nobody joins it. */
static void the_thread_or_its_owner_frees_whoever_is_last(void **state)
{
	(void)state;
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), 0);
	assert_int_equal(libc.detached, PTHREAD_CREATE_DETACHED);
	assert_int_equal(libc.stack, 256 * 1024);
	assert_true(ring_is_mapped());
	let_go();
	set_up(NULL);
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), 0);
	sem_post(&test.leave);
	sem_wait(&test.over);
	assert_false(test.freed);
	assert_true(worker_release(&test.worker));
	assert_false(ring_is_mapped());
}

static void a_thread_that_cannot_begin_owns_nothing(void **state)
{
	(void)state;
	libc.error = EAGAIN;
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), EAGAIN);
	assert_true(worker_release(&test.worker));
	assert_false(ring_is_mapped());
}

static void many_wakes_are_one_until_it_is_seen(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(wakes(), 0);
		worker_wake(&test.worker);
		worker_wake(&test.worker);
		assert_int_equal(wakes(), 1);
		worker_wait(&test.worker);
	}
	assert_true(worker_release(&test.worker));
}

static void a_signal_is_no_wake(void **state)
{
	(void)state;
	worker_wake(&test.worker);
	libc.interruptions = 3;
	worker_wait(&test.worker);
	assert_int_equal(libc.interruptions, 0);
	assert_int_equal(wakes(), 0);
	assert_true(worker_release(&test.worker));
}

static void *count_wakes(void *argument)
{
	while (!atomic_load(&test.worker.cancelled)) {
		worker_wait(argument);
		atomic_fetch_add(&test.woken, 1);
		sem_post(&test.inside);
	}
	return leave(argument);
}

static void no_wake_is_lost(void **state)
{
	(void)state;
	assert_int_equal(worker_start(&test.worker, count_wakes, &test.worker), 0);
	for (unsigned int i = 1; i <= 2000; i++) {
		worker_wake(&test.worker);
		sem_wait(&test.inside);
		assert_int_equal(atomic_load(&test.woken), i);
	}
	let_go(); /* a stop is a wake, too */
}

static void no_call_begins_once_it_is_stopped(void **state)
{
	(void)state;
	assert_true(worker_begin_call(&test.worker));
	assert_false(is_unlocked(&test.worker.mutex));
	worker_end_call(&test.worker);
	assert_true(is_unlocked(&test.worker.mutex));
	for (int round = 0; round < 2; round++) {
		worker_stop(&test.worker);
		assert_int_equal(wakes(), 1); /* the thread looks */
		assert_true(is_unlocked(&test.worker.mutex));
		assert_false(worker_begin_call(&test.worker));
		assert_true(is_unlocked(&test.worker.mutex));
	}
	assert_true(worker_release(&test.worker));
}

static void *call(void *argument)
{
	struct worker *worker = argument;

	if (worker_begin_call(worker)) {
		sem_post(&test.inside);
		while (!atomic_load(&worker->cancelled))
			sched_yield();
		usleep(20000); /* in which a stop that does not wait is over, most likely */
		atomic_store(&test.call_over, true);
		worker_end_call(worker);
	}
	sem_post(&test.over);
	return NULL;
}

static void a_stop_waits_for_a_call_that_runs(void **state)
{
	(void)state;
	assert_int_equal(worker_start(&test.worker, call, &test.worker), 0);
	sem_wait(&test.inside);
	worker_stop(&test.worker);
	assert_true(atomic_load(&test.call_over));
	sem_wait(&test.over);
	assert_false(worker_release(&test.worker)); /* for the thread */
	assert_true(worker_release(&test.worker));
}

/* The last thing that the thread does may be to remove a file. */
static void the_end_waits_for_the_threads_but_not_for_ever(void **state)
{
	(void)state;
	assert_true(workers_await(PATIENCE));
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), 0);
	assert_false(workers_await(0));
	worker_stop(&test.worker);
	assert_false(worker_release(&test.worker));
	sem_post(&test.leave);
	assert_true(workers_await(PATIENCE));
	assert_true(test.freed);
	assert_false(ring_is_mapped());
}

static void *let_leave_later(void *argument)
{
	(void)argument;
	usleep(20000); /* in which nobody waits any more who goes by the wall clock */
	sem_post(&test.leave);
	return NULL;
}

static void the_end_is_waited_for_whatever_the_wall_clock_says(void **state)
{
	pthread_t other;

	(void)state;
	libc.wrong = -86400;
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), 0);
	worker_stop(&test.worker);
	assert_false(worker_release(&test.worker));
	assert_int_equal(pthread_create(&other, NULL, let_leave_later, NULL), 0);
	assert_true(workers_await(PATIENCE));
	pthread_join(other, NULL);
}

/* Its thread is in a call that may wait for a disk. */
static void *wait_for_disk(void *argument)
{
	worker_begin_disk(argument);
	sem_post(&test.inside);
	sem_wait(&test.leave);
	worker_end_disk(argument);
	sem_post(&test.inside);
	return leave(argument);
}

static void a_disk_holds_up_who_waits_for_it_for_long(void **state)
{
	(void)state;
	assert_int_equal(worker_start(&test.worker, wait_for_disk, &test.worker), 0);
	sem_wait(&test.inside);
	libc.seconds = 1;
	assert_int_equal(workers_held_up(), 0); /* it is not stopped */
	libc.seconds = 0;
	worker_stop(&test.worker);
	assert_int_equal(workers_held_up(), 0);
	libc.seconds = 1;
	assert_int_equal(workers_held_up(), 1);
	worker_stop(&test.worker);
	assert_int_equal(workers_held_up(), 1);
	sem_post(&test.leave);
	sem_wait(&test.inside);
	assert_int_equal(workers_held_up(), 0);
	let_go();
	assert_int_equal(workers_held_up(), 0);
}

/* However many there are, and however late they get to run. */
static void who_is_merely_woken_is_not_held_up(void **state)
{
	(void)state;
	assert_int_equal(worker_start(&test.worker, leave, &test.worker), 0);
	worker_stop(&test.worker);
	libc.seconds = 1;
	assert_int_equal(workers_held_up(), 0);
	let_go();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_worker_without_a_thread_is_freed_by_its_owner, set_up),
		cmocka_unit_test_setup(a_ring_that_an_adapter_may_use_stays, set_up),
		cmocka_unit_test_setup(a_ring_that_cannot_be_unmapped_is_reported, set_up),
		cmocka_unit_test_setup(the_thread_or_its_owner_frees_whoever_is_last, set_up),
		cmocka_unit_test_setup(a_thread_that_cannot_begin_owns_nothing, set_up),
		cmocka_unit_test_setup(many_wakes_are_one_until_it_is_seen, set_up),
		cmocka_unit_test_setup(a_signal_is_no_wake, set_up),
		cmocka_unit_test_setup(no_wake_is_lost, set_up),
		cmocka_unit_test_setup(no_call_begins_once_it_is_stopped, set_up),
		cmocka_unit_test_setup(a_stop_waits_for_a_call_that_runs, set_up),
		cmocka_unit_test_setup(the_end_is_waited_for_whatever_the_wall_clock_says, set_up),
		cmocka_unit_test_setup(a_disk_holds_up_who_waits_for_it_for_long, set_up),
		cmocka_unit_test_setup(who_is_merely_woken_is_not_held_up, set_up),
		cmocka_unit_test_setup(the_end_waits_for_the_threads_but_not_for_ever, set_up),
	};

	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
