/* SPDX-License-Identifier: MIT */
/*
 * A thread that works for one connection, at one end of a stream: how it is started, woken, stopped
 * and freed, with the ring. source and sink have one each, and know what it does.
 *
 * It comes to the connection through calls, each between worker_begin_call() and worker_end_call().
 * It may be held up by a disk or a pipe for ever, so nobody waits for it, but for a moment when the
 * program ends: whoever lets go of it last, it or the main thread, frees it.
 */
#ifndef RDMA_COMMON_WORKER_H
#define RDMA_COMMON_WORKER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct worker {
	uint8_t *ring; /* from memory_map() */
	size_t ring_size;
	atomic_bool ring_stays; /* when the worker is freed */
	atomic_bool woken;      /* there is a post of `wake` that the thread has not seen yet */
	atomic_bool cancelled;  /* by worker_stop(), which then passes through `mutex` */
	atomic_uint owners;     /* the thread and the main thread */
	atomic_int_least64_t busy_since; /* in a call that may wait for a disk; 0: it is not */
	bool is_stopped;                 /* and in the list of those */
	LIST_ENTRY(worker) link;
	sem_t wake;
	pthread_mutex_t mutex; /* held during a call */
	void *(*run)(void *);
	void *argument;
};

/* Initialises a worker without a thread, which the main thread owns; the ring is its from now on.
 */
void worker_init(struct worker *worker, uint8_t *ring, size_t ring_size);

/* Starts its thread, which ends with worker_release(). 0, or an errno value. Main thread. */
int worker_start(struct worker *worker, void *(*run)(void *), void *argument);

/* False if it is stopped: then there is no call. */
bool worker_begin_call(struct worker *worker);
void worker_end_call(struct worker *worker);

/* Around what may wait for a disk for ever. The thread's. */
void worker_begin_disk(struct worker *worker);
void worker_end_disk(struct worker *worker);

/* Waits for worker_wake(). The thread's, before it looks whether there is work. */
void worker_wait(struct worker *worker);

/* There may be work. Any thread, also with the lock of the sessions held. */
void worker_wake(struct worker *worker);

/*
 * Lets no call begin any more and waits for one that runs; `cancelled` is for what the thread waits
 * for otherwise. May be repeated. Main thread, without the lock of the sessions.
 */
void worker_stop(struct worker *worker);

/* An adapter may still use the ring, so that it is not freed. Main thread. */
void worker_keep_ring(struct worker *worker);

/*
 * An owner lets go of it. True: the last one did, all of the worker is freed, and whatever contains
 * it may be.
 */
bool worker_release(struct worker *worker);

/*
 * How many threads a disk holds up, for longer than one usually takes, of workers that were
 * stopped. Those that merely have not got to run yet are not counted. Main thread.
 */
unsigned int workers_held_up(void);

/*
 * Waits until the threads of all workers have ended, which remove what they have begun to store;
 * for so long at most. False: one is held up. Main thread, once all of them are stopped, before the
 * process ends.
 */
bool workers_await(unsigned int seconds);

#endif
