/* SPDX-License-Identifier: MIT */
/*
 * Threads with a small stack, because there may be thousands.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_THREAD_H
#define RDMA_COMMON_THREAD_H

#include <pthread.h>

/* Create a thread that runs `routine` with `argument`. Return 0 or an errno value. */
int start_thread(pthread_t *thread, void *(*routine)(void *), void *argument);

#endif
