/* SPDX-License-Identifier: MIT */
/*
 * Tests with cmocka: TEST() registers a test, and tests run in the order of the file. Include this
 * header after those of the program.
 */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ENTRIES(array) (sizeof(array) / sizeof((array)[0]))
#define UNUSED         __attribute__((unused))

/*
 * Return a copy of exactly `size` bytes, so that a sanitizer finds any access beyond them. The
 * caller frees it.
 */
static inline uint8_t *exactly(const void *bytes, size_t size)
{
	uint8_t *copy = malloc(size + !size);

	assert_non_null(copy);
	return memcpy(copy, bytes, size);
}

static inline bool is_between(uintmax_t value, uintmax_t least, uintmax_t most)
{
	if (value >= least && value <= most)
		return true;
	print_error("%ju is not between %ju and %ju\n", value, least, most);
	return false;
}

/* cmocka 2 deprecates assert_in_range(), and older releases lack the replacements. */
#define assert_between(value, least, most) \
	assert_true(is_between((uintmax_t)(value), (uintmax_t)(least), (uintmax_t)(most)))

#define TESTS 64 /* maximum number of tests in one program */

static struct CMUnitTest unit_tests[TESTS];
static size_t unit_count;

static inline void register_test(const char *name, CMUnitTestFunction function)
{
	unit_tests[unit_count++] = (struct CMUnitTest){ .name = name, .test_func = function };
}

#define TEST(name)                                                     \
	static void name(void **state);                                \
	__attribute__((constructor)) static void register_##name(void) \
	{                                                              \
		register_test(#name, name);                            \
	}                                                              \
	static void name(UNUSED void **state)

/* Define main(). `set_up` runs before all tests, `reset` before each one; either may be NULL. */
#define RUN_TESTS(set_up, reset)                                                          \
	int main(void)                                                                    \
	{                                                                                 \
		for (size_t i = 0; i < unit_count; i++)                                   \
			unit_tests[i].setup_func = (reset);                               \
		return _cmocka_run_group_tests(program_invocation_short_name, unit_tests, \
					       unit_count, (set_up), NULL);               \
	}

#endif
