// SPDX-License-Identifier: MIT
#include "timers.h"

#include <stddef.h>

/* Points `*link` to the timer, which may be NULL. */
static void link_to(struct timer **link, struct timer *timer)
{
	*link = timer;
	if (timer)
		timer->link = link;
}

/* One heap out of two, either of which may be empty. */
static struct timer *merge(struct timer *one, struct timer *other)
{
	struct timer *earlier, *later;

	if (!one || !other)
		return one ? one : other;
	earlier = other->due < one->due ? other : one;
	later = earlier == one ? other : one;
	link_to(&later->next, earlier->child);
	link_to(&earlier->child, later);
	return earlier;
}

/* Merges heaps in a list: in pairs from front to back, then those from back to front. */
static struct timer *merge_all(struct timer *list)
{
	struct timer *pairs = NULL, *heap = NULL, *one, *other;

	while ((one = list)) {
		other = one->next;
		list = other ? other->next : NULL;
		one = merge(one, other);
		one->next = pairs;
		pairs = one;
	}
	while ((one = pairs)) {
		pairs = one->next;
		heap = merge(heap, one);
	}
	return heap;
}

/* Adds a heap, which may be empty. */
static void add(struct timers *timers, struct timer *heap)
{
	link_to(&timers->first, merge(timers->first, heap));
	if (timers->first)
		timers->first->next = NULL;
}

void timers_remove(struct timers *timers, struct timer *timer)
{
	if (!timer->link)
		return;
	link_to(timer->link, timer->next);
	timer->link = NULL;
	add(timers, merge_all(timer->child));
	timer->child = NULL;
}

void timers_set(struct timers *timers, struct timer *timer, int64_t due)
{
	timers_remove(timers, timer);
	timer->due = due;
	add(timers, timer);
}

int64_t timers_next(const struct timers *timers)
{
	return timers->first ? timers->first->due : INT64_MAX;
}

void *timers_due(const struct timers *timers, int64_t now)
{
	return timers->first && timers->first->due <= now ? timers->first->owner : NULL;
}
