// SPDX-License-Identifier: MIT
#include "lock.h"

#include <sched.h>

void lock_init(struct lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	atomic_init(&lock->wanted, 0);
}

void lock_destroy(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

NOT_ANALYSED void lock_sessions(struct lock *lock)
{
	atomic_fetch_add(&lock->wanted, 1);
	pthread_mutex_lock(&lock->mutex);
	atomic_fetch_sub(&lock->wanted, 1);
}

NOT_ANALYSED void lock_sessions_in_turn(struct lock *lock)
{
	while (lock_is_wanted(lock))
		sched_yield();
	pthread_mutex_lock(&lock->mutex);
}

NOT_ANALYSED void unlock_sessions(struct lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

bool lock_is_wanted(struct lock *lock)
{
	return atomic_load(&lock->wanted);
}
