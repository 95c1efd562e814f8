// SPDX-License-Identifier: MIT
/*
 * The queue of things that wait for their turn.
 */
#include "rdma-common/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int owners[3];
static struct place places[] = { { .owner = &owners[0] },
				 { .owner = &owners[1] },
				 { .owner = &owners[2] } };
static struct queue queue;

/* The number of the one at the front, which waits no more; -1: none waits. */
static int take_first(void)
{
	const int *first = queue_first(&queue);

	if (!first)
		return -1;
	queue_remove(&queue, &places[first - owners]);
	return (int)(first - owners);
}

static int set_up(void **state)
{
	(void)state;
	queue_init(&queue);
	for (size_t i = 0; i < 3; i++)
		queue_add(&queue, &places[i]);
	return 0;
}

static void who_came_first_is_at_the_front(void **state)
{
	(void)state;
	assert_ptr_equal(queue_first(&queue), &owners[0]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(take_first(), i);
	assert_int_equal(take_first(), -1);
}

static void who_waits_already_keeps_the_place(void **state)
{
	(void)state;
	queue_add(&queue, &places[0]);
	assert_int_equal(take_first(), 0);
	queue_add(&queue, &places[0]); /* again, behind all others */
	assert_int_equal(take_first(), 1);
	assert_int_equal(take_first(), 2);
	assert_int_equal(take_first(), 0);
	assert_int_equal(take_first(), -1);
}

static void any_of_them_may_leave_and_more_than_once(void **state)
{
	(void)state;
	queue_remove(&queue, &places[1]);
	queue_remove(&queue, &places[1]);
	assert_int_equal(take_first(), 0);
	assert_int_equal(take_first(), 2);
	assert_int_equal(take_first(), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_came_first_is_at_the_front, set_up),
		cmocka_unit_test_setup(who_waits_already_keeps_the_place, set_up),
		cmocka_unit_test_setup(any_of_them_may_leave_and_more_than_once, set_up),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
