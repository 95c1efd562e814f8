// SPDX-License-Identifier: MIT
/*
 * The outgoing payload: the pattern, digests, memory.
 */
#include "rdma-common.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The pattern of --size. */
static struct payload load_pattern(uint64_t size)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload = { 0 };
	struct console console;
	struct process process;

	options.pattern_size = size;
	console_init(&console, &options);
	process_init(&process, &options, &console);
	assert_int_equal(payload_load(&payload, &process), STATUS_SUCCESS);
	process_close(&process);
	assert_int_equal(payload.size, size);
	assert_true(payload.is_pattern);
	return payload;
}

static void a_pattern_fits_itself_at_every_length(void **state)
{
	struct payload payload;

	(void)state;
	for (uint64_t size = 1; size <= 100; size++) {
		payload = load_pattern(size);
		assert_int_equal(pattern_mismatch(payload.memory, size), size);
		payload_free(&payload);
	}
}

static void a_pattern_tells_the_first_byte_that_differs(void **state)
{
	struct payload payload;
	uint8_t *memory;

	(void)state;
	payload = load_pattern(37);
	memory = payload.memory;
	for (size_t offset = 0; offset < 37; offset++) {
		memory[offset] ^= 0x10;
		memory[36] ^= 1; /* a later one does not matter */
		assert_int_equal(pattern_mismatch(memory, 37), offset);
		memory[offset] ^= 0x10;
		memory[36] ^= 1;
	}
	payload_free(&payload);
}

/* So that a part in another part's place, or an old one, is seen. */
static void no_two_words_of_a_pattern_are_alike(void **state)
{
	struct payload payload;
	const uint8_t *memory;

	(void)state;
	payload = load_pattern(4096);
	memory = payload.memory;
	for (size_t one = 0; one < 4096; one += 8)
		for (size_t other = one + 8; other < 4096; other += 8)
			assert_memory_not_equal(memory + one, memory + other, 8);
	payload_free(&payload);
}

static void a_digest_does_not_depend_on_its_steps(void **state)
{
	struct payload one, other;
	uint64_t whole;

	(void)state;
	one = load_pattern(10000);
	other = load_pattern(10000);
	whole = payload_digest(&one);
	for (uint64_t size = 0; size <= 10000; size += 625)
		payload_extend_digest(&other, size);
	payload_extend_digest(&other, 5); /* is covered already */
	assert_true(payload_digest(&other) == whole);
	assert_int_equal(other.digested, 10000);
	payload_free(&one);
	payload_free(&other);
}

static void memory_is_zeroed_and_page_aligned_and_its_size_cannot_wrap(void **state)
{
	static const size_t sizes[] = { 1, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1 };
	static const size_t impossible[] = { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *memory = memory_map(sizes[i]);

		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % 4096, 0);
		assert_int_equal(memory[0] | memory[sizes[i] - 1], 0);
		memory[sizes[i] - 1] = 1;
		assert_int_equal(memory_unmap(memory, sizes[i]), 0);
	}
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		assert_null(memory_map(impossible[i]));
		assert_int_equal(errno, ENOMEM);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_fits_itself_at_every_length),
		cmocka_unit_test(a_pattern_tells_the_first_byte_that_differs),
		cmocka_unit_test(no_two_words_of_a_pattern_are_alike),
		cmocka_unit_test(a_digest_does_not_depend_on_its_steps),
		cmocka_unit_test(memory_is_zeroed_and_page_aligned_and_its_size_cannot_wrap),
	};

	return cmocka_run_group_tests_name("payload", tests, NULL, NULL);
}
