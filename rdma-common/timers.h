/* SPDX-License-Identifier: MIT */
/*
 * When something is due next, of many things: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan,
 * 1986). Setting a timer takes constant time, removing one logarithmic time on the average, and
 * neither needs memory, so none can fail. Pure data: no clock, no threads.
 */
#ifndef RDMA_COMMON_TIMERS_H
#define RDMA_COMMON_TIMERS_H

#include <stdint.h>

/* Belongs to what it is a timer of. All zero but for the owner: it is not set. */
struct timer {
	void *owner; /* what is due */
	int64_t due;
	/* In the heap: */
	struct timer *child; /* the first of those behind this one; none is due before it */
	struct timer *next;  /* behind the same one */
	struct timer **link; /* what points to this one; NULL: it is not set */
};

/* All zero: none is set. */
struct timers {
	struct timer *first;
};

/* Sets the timer, or sets it anew. It must stay where it is until it is removed. */
void timers_set(struct timers *timers, struct timer *timer, int64_t due);

/* Removes the timer, if it is set. */
void timers_remove(struct timers *timers, struct timer *timer);

/* When the first one is due; INT64_MAX if none is set. */
int64_t timers_next(const struct timers *timers);

/* The owner of the first one, if that is due at `now`, or NULL. It remains set. */
void *timers_due(const struct timers *timers, int64_t now);

#endif
