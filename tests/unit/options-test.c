// SPDX-License-Identifier: MIT
/*
 * Parsing of a command line.
 */
#include "rdma-common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_number_is_decimal_and_within_its_bounds(void **state)
{
	static const char *const refused[] = { "",
					       " 5",
					       "5 ",
					       "+5",
					       "-5",
					       "0x10",
					       "5s",
					       "five",
					       "1.5",
					       "18446744073709551616",
					       "99999999999999999999999" };
	uint64_t number = 0;

	(void)state;
	assert_true(parse_number("1", 1, 10, &number));
	assert_int_equal(number, 1);
	assert_true(parse_number("10", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("007", 1, 10, &number)); /* not octal, nor is 010 eight */
	assert_int_equal(number, 7);
	assert_true(parse_number("010", 1, 10, &number));
	assert_int_equal(number, 10);
	assert_true(parse_number("0", 0, 0, &number));
	assert_true(parse_number("18446744073709551615", 0, UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
	assert_false(parse_number("0", 1, 10, &number));
	assert_false(parse_number("11", 1, 10, &number));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_number(refused[i], 0, UINT64_MAX, &number));
}

/* True if `text` is taken for `expected` bytes. */
static bool is_size(const char *text, uint64_t expected)
{
	uint64_t size = ~expected;

	return parse_size(text, &size) && size == expected;
}

static void a_size_may_have_a_unit(void **state)
{
	(void)state;
	assert_true(is_size("1", 1));
	assert_true(is_size("1000", 1000));
	assert_true(is_size("010", 10)); /* not octal */
	assert_true(is_size("1K", 1024));
	assert_true(is_size("64K", 65536));
	assert_true(is_size("8M", 8388608));
	assert_true(is_size("1G", 1073741824));
	assert_true(is_size("5G", 5368709120)); /* more than 32 bits */
}

/* True if `text` is taken for `expected` bit/s. */
static bool is_rate(const char *text, uint64_t expected)
{
	uint64_t rate = ~expected;

	return parse_rate(text, &rate) && rate == expected;
}

static void a_rate_has_decimal_units(void **state)
{
	uint64_t rate;

	(void)state;
	assert_true(is_rate("1", 1));
	assert_true(is_rate("64K", 64000));
	assert_true(is_rate("100M", 100000000));
	assert_true(is_rate("90G", 90000000000));
	assert_true(is_rate("18446744073G", 18446744073000000000U));
	assert_false(parse_rate("18446744074G", &rate));
	assert_false(parse_rate("0", &rate));
	assert_false(parse_rate("1T", &rate));
}

static void a_size_has_at_most_64_bits(void **state)
{
	uint64_t size;

	(void)state;
	assert_true(is_size("18446744073709551615", UINT64_MAX));
	assert_false(parse_size("18446744073709551616", &size));
	assert_true(is_size("18014398509481983K", UINT64_MAX - 1023));
	assert_false(parse_size("18014398509481984K", &size));
	assert_true(is_size("17592186044415M", UINT64_MAX - 1048575));
	assert_false(parse_size("17592186044416M", &size));
	assert_true(is_size("17179869183G", UINT64_MAX - 1073741823));
	assert_false(parse_size("17179869184G", &size));
	assert_false(parse_size("18446744073709551615G", &size));
	assert_false(parse_size("99999999999999999999", &size));
	assert_false(parse_size("100000000000000000000", &size)); /* a digit too many */
	assert_false(parse_size("999999999999999999999999999999999999999999G", &size));
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const refused[] = { "",    "0",    "0K",  "00",   "K",   "KK",
					       "1KK", "1KB",  "1KM", "1k",   "1m",  "1T",
					       "1B",  "1 K",  " 1K", "1K ",  "-1",  "+1K",
					       "0x1", "1.5M", "1e3", "1K\n", "one", "K1" };
	uint64_t size = 4711;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(parse_size(refused[i], &size));
	assert_true(size == 4711);
}

static void the_operation_is_read_or_write(void **state)
{
	enum operation operation = OPERATION_READ;

	(void)state;
	assert_true(parse_operation("write", &operation));
	assert_int_equal(operation, OPERATION_WRITE);
	assert_true(parse_operation("read", &operation));
	assert_int_equal(operation, OPERATION_READ);
}

/* True if `word` is refused with a message that repeats it. */
static bool refused_with_a_message(const char *word)
{
	FILE *terminal = stderr;
	char *text = NULL;
	size_t size = 0;
	enum operation operation = OPERATION_WRITE;
	bool refused, said;

	stderr = open_memstream(&text, &size);
	assert_non_null(stderr);
	refused = !parse_operation(word, &operation);
	fclose(stderr);
	stderr = terminal;
	said = strstr(text, word) && strstr(text, "'read' or 'write'") && strstr(text, "--help");
	free(text);
	return refused && said && operation == OPERATION_WRITE;
}

static void another_word_for_the_operation_is_refused_with_a_message(void **state)
{
	(void)state;
	assert_true(refused_with_a_message("READ"));
	assert_true(refused_with_a_message("reads"));
	assert_true(refused_with_a_message("rea"));
	assert_true(refused_with_a_message("copy"));
	assert_true(refused_with_a_message(""));
}

/* One pass, unless there are more or a time: then there are figures to be printed, too. */
static void passes_are_counted_or_timed(void **state)
{
	struct options options = default_options(ROLE_CLIENT);

	(void)state;
	assert_int_equal(operation_passes(&options), 1);
	assert_false(prints_figures(&options));
	options.iterations = 1;
	assert_int_equal(operation_passes(&options), 1);
	assert_false(prints_figures(&options));
	options.iterations = 2;
	assert_int_equal(operation_passes(&options), 2);
	assert_true(prints_figures(&options));
	options.iterations = 0;
	options.duration_seconds = 1;
	assert_int_equal(operation_passes(&options), 0);
	assert_true(prints_figures(&options));
	options = default_options(ROLE_CLIENT);
	options.report = true;
	assert_true(prints_figures(&options));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_decimal_and_within_its_bounds),
		cmocka_unit_test(a_size_may_have_a_unit),
		cmocka_unit_test(a_rate_has_decimal_units),
		cmocka_unit_test(a_size_has_at_most_64_bits),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(the_operation_is_read_or_write),
		cmocka_unit_test(another_word_for_the_operation_is_refused_with_a_message),
		cmocka_unit_test(passes_are_counted_or_timed),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
