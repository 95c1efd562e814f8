/* SPDX-License-Identifier: MIT */
/*
 * Explore every world that can follow a first one. Visit each world once, the nearest first, so
 * that no shorter trace leads to the violation. Before including this header, define struct world,
 * which is compared byte by byte; struct label, the step into a world; struct setting; enum
 * violation with VIOLATION_NONE (0) and VIOLATION_ENDLESS; and violation_names[].
 */
#ifndef UNIT_EXPLORER_H
#define UNIT_EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct node {
	struct world world;
	struct label label;
	uint32_t parent;
};

/* An entry of the hash table of nodes. */
struct slot {
	uint32_t number; /* index of the node, plus 1. 0 is empty. */
	uint32_t hash;   /* the upper half of its world's hash */
};

static struct setting setting;

/* The current exploration, and sums of all explorations since the last finish(). */
static struct {
	struct node *nodes; /* in the order of discovery; also the queue of the nodes to visit */
	size_t count, capacity;
	struct slot *table;
	size_t table_size; /* number of entries, a power of 2 */
	size_t current;    /* the node whose successors are being made */
	int distance;      /* distance of that node from the start */
	bool goes_on;      /* an event that needs no fault is possible there */
	enum violation violation;
	size_t violating;                          /* the node with the violation */
	size_t runs, states, transitions, endings; /* sums */
} exploration;

/* ---- Functions of the model ---- */

/*
 * Return a distance that grows with every event, so that every run ends; -1: a run may be endless.
 */
static int distance_from_start(const struct world *world);
/* Call arrive() for each world that can follow this one. */
static void make_successors(const struct world *world);
static void print_setting(void);
static void print_node(const struct node *node);

/* ---- The set of worlds ---- */

/*
 * Return the entry of a world, or the empty one where it belongs. Only a node with the same hash is
 * read, because most nodes are not in a cache of the processor.
 */
static struct slot *look_up(const struct world *world)
{
	XXH64_hash_t hash = XXH3_64bits(world, sizeof(*world));
	uint32_t upper = (uint32_t)(hash >> 32);
	size_t mask = exploration.table_size - 1, place = (size_t)hash & mask;
	struct slot *slot;

	for (; (slot = &exploration.table[place])->number; place = (place + 1) & mask) {
		if (slot->hash == upper &&
		    memcmp(&exploration.nodes[slot->number - 1].world, world, sizeof(*world)) == 0)
			return slot;
	}
	slot->hash = upper;
	return slot;
}

static void grow(void)
{
	exploration.capacity = exploration.capacity ? 2 * exploration.capacity : 1 << 10;
	exploration.nodes =
		realloc(exploration.nodes, exploration.capacity * sizeof(*exploration.nodes));
	free(exploration.table);
	exploration.table_size = 2 * exploration.capacity;
	exploration.table = calloc(exploration.table_size, sizeof(*exploration.table));
	assert_non_null(exploration.nodes);
	assert_non_null(exploration.table);
	for (size_t i = 0; i < exploration.count; i++)
		look_up(&exploration.nodes[i].world)->number = (uint32_t)i + 1;
}

/* Record a violation in the step to the next world; arrive() ends the trace with that step. */
static void violate(enum violation violation)
{
	if (exploration.violation == VIOLATION_NONE)
		exploration.violation = violation;
}

/* Record a violation in the current world. */
static inline void violate_here(enum violation violation)
{
	violate(violation);
	exploration.violating = exploration.current;
}

/* Add a successor of the current world, unless it is known. It must be farther from the start. */
static void arrive(const struct world *world, struct label label)
{
	struct slot *slot = look_up(world);

	if (exploration.count > 0)
		exploration.transitions++;
	if (exploration.count > 0 && exploration.distance >= 0 &&
	    distance_from_start(world) <= exploration.distance)
		violate(VIOLATION_ENDLESS);
	/* after a violation, add even a known world: the trace ends with the step into it */
	if (exploration.violation == VIOLATION_NONE ? slot->number : exploration.violating)
		return;
	if (exploration.violation != VIOLATION_NONE)
		exploration.violating = exploration.count;
	exploration.nodes[exploration.count] = (struct node){
		.world = *world, .label = label, .parent = (uint32_t)exploration.current
	};
	exploration.count++;
	if (!slot->number)
		slot->number = (uint32_t)exploration.count;
	if (exploration.count == exploration.capacity)
		grow();
}

/* Explore everything that can follow `start`. Return false if there was a violation. */
static bool explore_from(const struct world *start)
{
	exploration.count = exploration.current = exploration.violating = 0;
	exploration.violation = VIOLATION_NONE;
	if (exploration.capacity == 0)
		grow();
	memset(exploration.table, 0, exploration.table_size * sizeof(*exploration.table));
	arrive(start, (struct label){ 0 });
	while (exploration.current < exploration.count && exploration.violation == VIOLATION_NONE) {
		struct world world = exploration.nodes[exploration.current].world;

		exploration.distance = distance_from_start(&world);
		exploration.goes_on = false;
		make_successors(&world);
		exploration.current++;
	}
	exploration.states += exploration.count;
	exploration.runs++;
	return exploration.violation == VIOLATION_NONE;
}

/* Print up to 1024 steps that lead to the violation. Return their number. */
static unsigned int print_history(void)
{
	size_t path[1024];
	unsigned int length = 0;

	print_message("%s\n", violation_names[exploration.violation]);
	print_setting();
	for (size_t node = exploration.violating; node && length < 1024;
	     node = exploration.nodes[node].parent)
		path[length++] = node;
	for (unsigned int i = length; i-- > 0;) {
		print_message("%3u. ", length - i);
		print_node(&exploration.nodes[path[i]]);
		print_message("\n");
	}
	return length;
}

/* Print the sums of all explorations, and reset everything. */
static void finish(void)
{
	print_message("%zu settings, %zu states, %zu transitions\n", exploration.runs,
		      exploration.states, exploration.transitions);
	free(exploration.nodes);
	free(exploration.table);
	memset(&exploration, 0, sizeof(exploration));
}

#endif
