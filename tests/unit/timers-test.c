// SPDX-License-Identifier: MIT
/*
 * Timers, next to a plain array that is searched for the first one.
 */
#include "rdma-common/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT 300
#define STEPS 200000

static struct timer all[COUNT];
static int64_t due[COUNT]; /* what each was set to */

static int64_t first_due(void)
{
	int64_t first = INT64_MAX;

	for (int i = 0; i < COUNT; i++) {
		if (all[i].link && due[i] < first)
			first = due[i];
	}
	return first;
}

/* The first one is due when timers_next() says, and not a moment before. */
static void check_first(const struct timers *timers)
{
	int64_t first = first_due();
	const struct timer *timer;

	assert_int_equal(timers_next(timers), first);
	if (first == INT64_MAX)
		return;
	assert_null(timers_due(timers, first - 1));
	timer = timers_due(timers, first);
	assert_non_null(timer);
	assert_int_equal(due[timer - all], first);
}

static void the_first_is_always_known(void **state)
{
	struct timers timers = { 0 };

	(void)state;
	srand(1);
	for (int i = 0; i < COUNT; i++)
		all[i] = (struct timer){ .owner = &all[i] };
	for (int step = 0; step < STEPS; step++) {
		int busy = step / (STEPS / 4) % 2 ? 10 : COUNT; /* many at a time, then few */
		struct timer *timer =
			rand() % 3 ? &all[rand() % busy] : timers_due(&timers, INT64_MAX - 1);

		if (timer && (rand() % 4 == 0 || timer >= &all[busy]))
			timers_remove(&timers, timer);
		else if (timer)
			timers_set(&timers, timer, due[timer - all] = rand() % 1000);
		check_first(&timers);
	}
	for (int i = 0; i < COUNT; i++) {
		timers_remove(&timers, &all[i]);
		check_first(&timers);
	}
	assert_null(timers.first);
}

static void they_come_in_order(void **state)
{
	struct timers timers = { 0 };
	int64_t last = 0;

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		all[i] = (struct timer){ .owner = &all[i] };
		timers_set(&timers, &all[i], due[i] = i * 7919 % 1009);
	}
	for (int i = 0; i < COUNT; i++) {
		struct timer *timer = timers_due(&timers, timers_next(&timers));

		assert_true(due[timer - all] >= last);
		last = due[timer - all];
		timers_remove(&timers, timer);
	}
	assert_int_equal(timers_next(&timers), INT64_MAX);
	assert_null(timers_due(&timers, INT64_MAX - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_is_always_known),
		cmocka_unit_test(they_come_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
