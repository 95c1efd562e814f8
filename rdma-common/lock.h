/* SPDX-License-Identifier: MIT */
/*
 * The one lock of all sessions, which clang -Wthread-safety knows.
 */
#ifndef RDMA_COMMON_LOCK_H
#define RDMA_COMMON_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifdef __clang__
#define LOCK_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LOCK_ATTRIBUTE(attribute)
#endif

/*
 * Stands for the lock in the attributes below, since C cannot name a member of another structure
 * there. It is never defined.
 */
extern struct LOCK_ATTRIBUTE(capability("lock")) session_lock {
	char unused;
} session_lock;

#define GUARDED      LOCK_ATTRIBUTE(guarded_by(session_lock))
#define NEEDS_LOCK   LOCK_ATTRIBUTE(requires_capability(session_lock))
#define TAKES_LOCK   LOCK_ATTRIBUTE(acquire_capability(session_lock))
#define GIVES_LOCK   LOCK_ATTRIBUTE(release_capability(session_lock))
#define NOT_ANALYSED LOCK_ATTRIBUTE(no_thread_safety_analysis) /* the lock itself */

struct lock {
	pthread_mutex_t mutex;
	atomic_uint wanted; /* how many threads wait that go first */
};

void lock_init(struct lock *lock);
void lock_destroy(struct lock *lock);

/* Takes the lock. Nothing that takes long may be done until it is released. */
void lock_sessions(struct lock *lock) TAKES_LOCK;

/*
 * The same for the completion thread, which polls again and again: it lets others go first. A mutex
 * that is released and taken again at once is not fair.
 */
void lock_sessions_in_turn(struct lock *lock) TAKES_LOCK;

void unlock_sessions(struct lock *lock) GIVES_LOCK;

/* True if somebody waits in lock_sessions(). Any thread. */
bool lock_is_wanted(struct lock *lock);

#endif
