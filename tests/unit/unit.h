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

/* The row that a loop of EACH_ROW() has reached. Without such a loop `table` is NULL. */
static struct {
	const char *table, *file;
	size_t index;
	int line; /* of the loop */
} unit_row;

static inline bool reach_row(const char *table, size_t index, size_t count, const char *file,
			     int line)
{
	unit_row.table = index < count ? table : NULL;
	unit_row.file = file;
	unit_row.index = index;
	unit_row.line = line;
	return index < count;
}

/* Loop over the rows of a table. If the test fails meanwhile, the row is printed. */
#define EACH_ROW(i, table) \
	for (size_t i = 0; reach_row(#table, i, ENTRIES(table), __FILE__, __LINE__); i++)

/* Return the last character of the string or comment that begins at `at`, or `at` itself. */
static inline char *skip_text(char *at)
{
	char *end = at;

	if (*at == '"')
		while (*++end && *end != '"')
			end += *end == '\\' && end[1];
	else if (strncmp(at, "/*", 2) == 0)
		end = strstr(at, "*/") ? strstr(at, "*/") + 1 : at;
	return end;
}

/*
 * Return the text of unit_row from `source`, the lines before its loop, and end it there. Return
 * NULL if the table is not found.
 */
static inline char *row_text(char *source)
{
	char head[80], *text = NULL, *at = source;
	size_t index = 0;
	int depth = 0;

	snprintf(head, sizeof(head), " %s[] = {", unit_row.table);
	while ((at = strstr(at, head)) != NULL) /* the last table with this name */
		text = at += strlen(head);
	if (!text)
		return NULL;
	for (at = text; *at && depth >= 0; at++) {
		at = skip_text(at);
		depth += (*at == '{') - (*at == '}');
		if (depth == 0 && *at == ',' && index++ < unit_row.index)
			text = at + 1;
		if (index > unit_row.index)
			break;
	}
	*at = '\0';
	return text + strspn(text, " \t\n");
}

/* Print unit_row if a test has ended by a failure, which leaves it set. */
static inline int print_row(UNUSED void **state)
{
	FILE *file = unit_row.table ? fopen(unit_row.file, "r") : NULL;
	char *source = NULL, *text;
	size_t used = 0;

	if (!unit_row.table)
		return 0;
	for (int line = 1; file && line < unit_row.line; line++) {
		source = realloc(source, used + 1024);
		assert_non_null(source);
		used += fgets(source + used, 1024, file) ? strlen(source + used) : 0;
	}
	text = source ? row_text(source) : NULL;
	print_error("row %zu of %s: %s\n", unit_row.index, unit_row.table, text ? text : "?");
	unit_row.table = NULL;
	free(source);
	if (file)
		fclose(file);
	return 0;
}

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
	unit_tests[unit_count++] = (struct CMUnitTest){ .name = name,
							.test_func = function,
							.teardown_func = print_row };
}

#define TEST(name)                                                     \
	static void name(void **state);                                \
	static void run_##name(void **state)                           \
	{                                                              \
		name(state);                                           \
		unit_row.table = NULL; /* no failure */                \
	}                                                              \
	__attribute__((constructor)) static void register_##name(void) \
	{                                                              \
		register_test(#name, run_##name);                      \
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
