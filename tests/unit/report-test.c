// SPDX-License-Identifier: MIT
/*
 * Output: bytes of a peer, escaped before they reach a terminal, and latencies.
 */
#include "rdma-common.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>

/* ---- What reaches the terminal ---- */

static void assert_escaped(const char *bytes, size_t size, const char *expected)
{
	char *text = escape((const uint8_t *)bytes, size);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

#define ASSERT_ESCAPED(bytes, expected) assert_escaped(bytes, sizeof(bytes) - 1, expected)

static void plain_text_is_shown_as_it_is(void **state)
{
	(void)state;
	ASSERT_ESCAPED("", "");
	ASSERT_ESCAPED("message from active/client side with pid 42",
		       "message from active/client side with pid 42");
	ASSERT_ESCAPED("~!@#$%^&*()[]{}\"'", "~!@#$%^&*()[]{}\"'");
}

static void what_a_terminal_would_obey_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("\033[2J", "\\x1b[2J");
	ASSERT_ESCAPED("\r\n\t\a\b", "\\x0d\\x0a\\x09\\x07\\x08");
	ASSERT_ESCAPED("a\0b\0", "a\\x00b\\x00");
	ASSERT_ESCAPED("\x7f", "\\x7f");
	ASSERT_ESCAPED("\x9b"
		       "31m",
		       "\\x9b31m"); /* the one-byte form of ESC [ */
}

static void a_backslash_is_told_from_an_escape(void **state)
{
	(void)state;
	ASSERT_ESCAPED("C:\\x1b", "C:\\\\x1b");
	ASSERT_ESCAPED("\\", "\\\\");
}

static void text_in_utf8_is_shown_where_the_locale_has_it(void **state)
{
	(void)state;
	ASSERT_ESCAPED("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	ASSERT_ESCAPED("\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80");
	assert_non_null(setlocale(LC_CTYPE, "C"));
	ASSERT_ESCAPED("gr\xc3\xbc", "gr\\xc3\\xbc");
}

static void invalid_utf8_is_escaped_and_what_follows_is_not_lost(void **state)
{
	(void)state;
	ASSERT_ESCAPED("a\xff\xfe z", "a\\xff\\xfe z");
	ASSERT_ESCAPED("\xc3(", "\\xc3(");                 /* no second byte */
	ASSERT_ESCAPED("x\xe2\x82", "x\\xe2\\x82");        /* cut off at the end */
	ASSERT_ESCAPED("\xc0\xaf", "\\xc0\\xaf");          /* overlong */
	ASSERT_ESCAPED("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half of a surrogate pair */
	ASSERT_ESCAPED("\xe2\x82\xc3\xbc", "\\xe2\\x82\xc3\xbc");
}

/* U+0080 to U+009F are control characters of two bytes in UTF-8: U+009B is ESC [. */
static void a_c1_control_in_utf8_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("\xc2\x9b"
		       "31m",
		       "\\xc2\\x9b31m");
	ASSERT_ESCAPED("\xc2\x85", "\\xc2\\x85");
	ASSERT_ESCAPED("\xc2\xa9", "\xc2\xa9"); /* the first above them that is none */
}

/* Printable by the locale, but invisible, or changing the direction of what follows. */
static void a_character_that_deceives_the_reader_is_escaped(void **state)
{
	(void)state;
	ASSERT_ESCAPED("a\xe2\x80\xae"
		       "b",
		       "a\\xe2\\x80\\xaeb");               /* U+202E, right-to-left override */
	ASSERT_ESCAPED("\xe2\x80\x8b", "\\xe2\\x80\\x8b"); /* U+200B, zero width space */
	ASSERT_ESCAPED("\xef\xbb\xbf", "\\xef\\xbb\\xbf"); /* U+FEFF, byte order mark */
	/* the first and the last of each range, and their neighbours that are shown */
	ASSERT_ESCAPED("\xe2\x80\x8f", "\\xe2\\x80\\x8f"); /* U+200F */
	ASSERT_ESCAPED("\xe2\x80\x90", "\xe2\x80\x90");    /* U+2010, hyphen */
	ASSERT_ESCAPED("\xe2\x80\xa7", "\xe2\x80\xa7");    /* U+2027, hyphenation point */
	ASSERT_ESCAPED("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* U+2028 */
	ASSERT_ESCAPED("\xe2\x80\xb0", "\xe2\x80\xb0");    /* U+2030, per mille sign */
	ASSERT_ESCAPED("\xe2\x81\xa0", "\\xe2\\x81\\xa0"); /* U+2060 */
	ASSERT_ESCAPED("\xe2\x81\xaf", "\\xe2\\x81\\xaf"); /* U+206F */
	ASSERT_ESCAPED("\xe2\x81\xb0", "\xe2\x81\xb0");    /* U+2070, superscript zero */
}

static int use_utf8(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* ---- Excerpts ---- */

/* What an excerpt says of a payload that comes in pieces of this size, against what is there. */
static void check_excerpt(const uint8_t *bytes, size_t size, size_t piece)
{
	struct excerpt excerpt = { .is_pattern = false };
	size_t length = size;

	for (size_t offset = 0; offset < size; offset += piece)
		excerpt_add(&excerpt, bytes + offset,
			    size - offset < piece ? size - offset : piece);
	while (length > 0 && !bytes[length - 1])
		length--;
	assert_int_equal(excerpt.size, size);
	assert_int_equal(excerpt.text_length, length);
	assert_int_equal(excerpt.head_size, size < SHOWN_PAYLOAD ? size : SHOWN_PAYLOAD);
	assert_memory_equal(excerpt.head, bytes, excerpt.head_size);
}

static void an_excerpt_is_the_same_in_whatever_pieces_the_payload_comes(void **state)
{
	static const size_t pieces[] = { 1, 7, 63, 64, 65, 1000, 4096 };
	uint8_t bytes[3000] = { 0 };

	(void)state;
	for (size_t size = 0; size <= sizeof(bytes); size = size * 5 / 4 + 1) {
		for (size_t last = 0; last < size; last = last * 3 / 2 + 1) {
			bytes[last] = 'x';
			for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
				check_excerpt(bytes, size, pieces[i]);
			memset(bytes, 0, sizeof(bytes));
		}
		check_excerpt(bytes, size, 100);
	}
}

/* ---- Latencies ---- */

/* Checks that `value` is `expected` but for the width of a bucket. */
static void assert_near(int64_t value, int64_t expected)
{
	assert_in_range(value, expected - expected / 128 - 1, expected + expected / 128 + 1);
}

static void quantiles_are_those_of_what_was_counted(void **state)
{
	struct latency *latency = calloc(1, sizeof(*latency));

	(void)state;
	assert_non_null(latency);
	for (int64_t number = 1; number <= 10000; number++)
		latency_count(latency, number * 1000);
	assert_int_equal(latency->total, 10000);
	assert_int_equal(latency->minimum, 1000);
	assert_int_equal(latency->maximum, 10000000);
	assert_near(latency_quantile(latency, 0.5), 5000000);
	assert_near(latency_quantile(latency, 0.99), 9900000);
	assert_near(latency_quantile(latency, 0.999), 9990000);
	assert_near(latency_quantile(latency, 0), 1000);
	free(latency);
}

static void every_time_has_a_bucket_near_it(void **state)
{
	(void)state;
	for (uint64_t time = 1; time < (uint64_t)1 << 59; time = time * 9 / 8 + 1) {
		struct latency *latency = calloc(1, sizeof(*latency));

		assert_non_null(latency);
		latency_count(latency, (int64_t)time);
		assert_near(latency_quantile(latency, 0.5), (int64_t)time);
		free(latency);
	}
}

/* True if a character is escaped: each of the same kind, and no other. */
static bool is_escaped(unsigned int character)
{
	char bytes[8], *text;
	mbstate_t state = { 0 };
	size_t size = wcrtomb(bytes, (wchar_t)character, &state);
	bool escaped;

	assert_in_range(size, 1, 4);
	text = escape((const uint8_t *)bytes, size);
	assert_non_null(text);
	escaped = !strncmp(text, "\\x", 2);
	free(text);
	return escaped;
}

static void every_character_that_formats_or_is_invisible_is_escaped(void **state)
{
	/* category Cf of Unicode 15, and the first and last of what is ignorable by default */
	static const unsigned int ranges[][2] = {
		{ 0xad, 0xad },       { 0x34f, 0x34f },     { 0x600, 0x605 },
		{ 0x61c, 0x61c },     { 0x6dd, 0x6dd },     { 0x70f, 0x70f },
		{ 0x890, 0x891 },     { 0x8e2, 0x8e2 },     { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfffb },   { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd },
		{ 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};
	static const unsigned int shown[] = { 0xa0,   0xac,   0xae,   0x34e,   0x350,   0x606,
					      0x61b,  0x61d,  0x6de,  0x8e3,   0x115e,  0x1161,
					      0x2010, 0x202f, 0x3163, 0x3165,  0xfdff,  0xfe10,
					      0xff9f, 0xffa1, 0xfffc, 0x1d172, 0x1d17b, 0x1f600 };

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		for (unsigned int c = ranges[i][0]; c <= ranges[i][1]; c++) {
			if (!is_escaped(c))
				fail_msg("U+%04X is shown", c);
		}
	}
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		if (is_escaped(shown[i]))
			fail_msg("U+%04X is escaped", shown[i]);
	}
}

/* The middle of a bucket may be beyond all that is in it. */
static void no_quantile_lies_outside_of_what_was_counted(void **state)
{
	static const int64_t times[] = { 256, 1025, 98304, 98305, 1000000, 999999999 };

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		for (int64_t width = 0; width < 3; width++) {
			struct latency *latency = calloc(1, sizeof(*latency));

			assert_non_null(latency);
			latency_count(latency, times[i]);
			latency_count(latency, times[i] + width);
			for (int share = 0; share <= 10; share++)
				assert_in_range(latency_quantile(latency, share / 10.0), times[i],
						times[i] + width);
			free(latency);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(plain_text_is_shown_as_it_is, use_utf8),
		cmocka_unit_test_setup(what_a_terminal_would_obey_is_escaped, use_utf8),
		cmocka_unit_test_setup(a_backslash_is_told_from_an_escape, use_utf8),
		cmocka_unit_test_setup(text_in_utf8_is_shown_where_the_locale_has_it, use_utf8),
		cmocka_unit_test_setup(invalid_utf8_is_escaped_and_what_follows_is_not_lost,
				       use_utf8),
		cmocka_unit_test_setup(a_c1_control_in_utf8_is_escaped, use_utf8),
		cmocka_unit_test_setup(a_character_that_deceives_the_reader_is_escaped, use_utf8),
		cmocka_unit_test_setup(every_character_that_formats_or_is_invisible_is_escaped,
				       use_utf8),
		cmocka_unit_test(an_excerpt_is_the_same_in_whatever_pieces_the_payload_comes),
		cmocka_unit_test(quantiles_are_those_of_what_was_counted),
		cmocka_unit_test(every_time_has_a_bucket_near_it),
		cmocka_unit_test(no_quantile_lies_outside_of_what_was_counted),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
