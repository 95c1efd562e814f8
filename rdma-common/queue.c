// SPDX-License-Identifier: MIT
#include "queue.h"

#include <stddef.h>

void queue_init(struct queue *queue)
{
	TAILQ_INIT(queue);
}

void queue_add(struct queue *queue, struct place *place)
{
	if (place->taken)
		return;
	TAILQ_INSERT_TAIL(queue, place, link);
	place->taken = true;
}

void queue_remove(struct queue *queue, struct place *place)
{
	if (!place->taken)
		return;
	TAILQ_REMOVE(queue, place, link);
	place->taken = false;
}

void *queue_first(const struct queue *queue)
{
	const struct place *first = TAILQ_FIRST(queue);

	return first ? first->owner : NULL;
}
