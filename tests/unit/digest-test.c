// SPDX-License-Identifier: MIT
/* Compute the digest and the pattern of --size at any position, length and alignment. */
#include "rdma-common/digest.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "unit.h"

/* Number of bytes: more than two steps of the vectorized loops, and an odd remainder. */
#define SIZE 203

/* Return the byte of the pattern at this position, by the documented formula. */
static uint8_t expected_byte(uint64_t position)
{
	uint64_t word = (position / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint8_t)(word >> position % 8 * 8);
}

/* The byte after the requested size stays unchanged. */
TEST(pattern_depends_only_on_the_position_in_the_stream)
{
	static const uint64_t bases[] = { 0, 8, UINT64_C(1) << 32, UINT64_MAX - SIZE - 16 };
	uint8_t memory[SIZE + 8 + 1];

	for (uint64_t shift = 0; shift < 8 * ENTRIES(bases); shift++) {
		uint64_t position = bases[shift / 8] + shift % 8;
		uint8_t *start = memory + (shift * 5 + shift / 8) % 8;

		for (size_t size = 0; size <= SIZE; size++) {
			memset(memory, 0xee, sizeof(memory));
			pattern_fill(start, position, size);
			assert_int_equal(start[size], 0xee);
			assert_int_equal(pattern_mismatch(start, position, size), size);
		}
		for (size_t i = 0; i < SIZE; i++)
			assert_int_equal(start[i], expected_byte(position + i));
	}
}

TEST(offset_of_the_first_byte_that_differs_from_the_pattern_is_returned)
{
	uint8_t memory[SIZE];

	for (uint64_t position = 0; position < 9; position++) {
		pattern_fill(memory, position, SIZE);
		for (size_t offset = 0; offset < SIZE; offset++) {
			memory[offset] ^= 0x10;
			memory[SIZE - 1] ^= 1; /* a later difference does not matter */
			assert_int_equal(pattern_mismatch(memory, position, SIZE), offset);
			assert_int_equal(pattern_mismatch(memory, position, offset), offset);
			memory[offset] ^= 0x10;
			memory[SIZE - 1] ^= 1;
		}
	}
}

/* The pattern reveals misplaced bytes, and old bytes in a ring. */
TEST(pattern_at_another_position_differs_in_the_first_word)
{
	uint8_t memory[SIZE];

	pattern_fill(memory, 0, SIZE);
	for (uint64_t position = 1; position < 4096; position++)
		assert_true(pattern_mismatch(memory, position, SIZE) < 8);
}

/* The pages before and after the filled pages cannot be accessed. */
TEST(no_byte_outside_of_the_memory_is_accessed)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 2 * page;
	uint8_t *memory = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	memory += page;
	assert_int_equal(mprotect(memory, all, PROT_READ | PROT_WRITE), 0);
	for (uint64_t position = 0; position < 9; position++) {
		pattern_fill(memory, position, all);
		assert_int_equal(pattern_mismatch(memory, position, all), all);
		for (size_t size = 0; size <= SIZE; size++) {
			size_t start = all - size;

			assert_int_equal(pattern_mismatch(memory, position, size), size);
			assert_int_equal(pattern_mismatch(memory + start, position + start, size),
					 size);
		}
	}
}

/* All releases must agree on 64-bit XXH3, whose values are published. */
TEST(digest_is_xxh3_for_steps_of_any_size)
{
	static uint8_t memory[10007];
	void *whole = digest_new();

	assert_non_null(whole);
	assert_true(digest_value(whole) ==
		    UINT64_C(0x2d06800538d394c2)); /* the published digest of no bytes */
	pattern_fill(memory, 0, sizeof(memory));
	digest_add(whole, memory, sizeof(memory));
	for (size_t step = 1; step < sizeof(memory); step += 97) {
		void *other = digest_new();

		for (size_t done = 0; done < sizeof(memory); done += step)
			digest_add(other, memory + done,
				   step < sizeof(memory) - done ? step : sizeof(memory) - done);
		assert_true(digest_value(other) == digest_value(whole));
		digest_add(other, memory, 1);
		assert_true(digest_value(other) != digest_value(whole));
		digest_free(other);
	}
	digest_free(whole);
}

RUN_TESTS(NULL, NULL)
