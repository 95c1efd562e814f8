/* SPDX-License-Identifier: MIT */
/*
 * A queue of things that wait for their turn: each at most once, whoever came first at the front.
 * Nothing here needs memory, so nothing can fail. Pure data: no threads.
 */
#ifndef RDMA_COMMON_QUEUE_H
#define RDMA_COMMON_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

/* Belongs to what may wait in one queue. All zero but for the owner: it does not. */
struct place {
	void *owner; /* what waits */
	bool taken;  /* it does */
	TAILQ_ENTRY(place) link;
};

TAILQ_HEAD(queue, place);

/* Initialises the queue; none waits. */
void queue_init(struct queue *queue);

/* Lets the owner of the place wait behind all others, unless it waits already. */
void queue_add(struct queue *queue, struct place *place);

/* Lets it wait no more, if it does. */
void queue_remove(struct queue *queue, struct place *place);

/* The owner of the place at the front, which waits on; NULL: none waits. */
void *queue_first(const struct queue *queue);

#endif
