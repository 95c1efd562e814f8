// SPDX-License-Identifier: MIT
/*
 * What is handed over: the pattern, digests, memory.
 */
#include "rdma-common.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A process with the pattern of --size. */
static void load_pattern(struct process *process, struct options *options, uint64_t size)
{
	*options = default_options();
	options->pattern_size = size;
	process_init(process, options, ROLE_CLIENT);
	assert_int_equal(payload_load(process), STATUS_SUCCESS);
	assert_int_equal(process->payload.size, size);
	assert_true(process->payload.is_pattern);
}

static void a_pattern_fits_itself_at_every_length(void **state)
{
	struct process process;
	struct options options;

	(void)state;
	for (uint64_t size = 1; size <= 100; size++) {
		load_pattern(&process, &options, size);
		assert_int_equal(pattern_mismatch(process.payload.memory, size), size);
		process_destroy(&process);
	}
}

static void a_pattern_tells_the_first_byte_that_differs(void **state)
{
	struct process process;
	struct options options;
	uint8_t *memory;

	(void)state;
	load_pattern(&process, &options, 37);
	memory = process.payload.memory;
	for (size_t offset = 0; offset < 37; offset++) {
		memory[offset] ^= 0x10;
		memory[36] ^= 1; /* a later one does not matter */
		assert_int_equal(pattern_mismatch(memory, 37), offset);
		memory[offset] ^= 0x10;
		memory[36] ^= 1;
	}
	process_destroy(&process);
}

/* So that a part in another part's place, or an old one, is seen. */
static void no_two_words_of_a_pattern_are_alike(void **state)
{
	struct process process;
	struct options options;
	const uint8_t *memory;

	(void)state;
	load_pattern(&process, &options, 4096);
	memory = process.payload.memory;
	for (size_t one = 0; one < 4096; one += 8)
		for (size_t other = one + 8; other < 4096; other += 8)
			assert_memory_not_equal(memory + one, memory + other, 8);
	process_destroy(&process);
}

static void a_digest_does_not_depend_on_its_steps(void **state)
{
	struct process one, other;
	struct options options;
	uint64_t whole;

	(void)state;
	load_pattern(&one, &options, 10000);
	load_pattern(&other, &options, 10000);
	digest_extend(&one.payload.digest, one.payload.memory, 10000);
	whole = digest_value(&one.payload.digest);
	for (uint64_t size = 0; size <= 10000; size += 625)
		digest_extend(&other.payload.digest, other.payload.memory, size);
	digest_extend(&other.payload.digest, other.payload.memory, 5); /* is covered already */
	assert_true(digest_value(&other.payload.digest) == whole);
	assert_int_equal(other.payload.digest.bytes, 10000);
	process_destroy(&one);
	process_destroy(&other);
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
