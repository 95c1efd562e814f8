// SPDX-License-Identifier: MIT
/* Verify an incoming payload: digests, patterns and passes, piece by piece. */
#include "rdma-common/verify.h"
#include "rdma-common/digest.h"
#include "rdma-common/transfer.h"

#include "unit.h"

#define PASS   ((size_t)1000)
#define PASSES 3

static uint8_t stream[PASSES * PASS];
static struct failure failure;

/* Fill the stream with the same pattern in each pass. */
static int reset(UNUSED void **state)
{
	for (size_t i = 0; i < PASSES; i++)
		pattern_fill(stream + i * PASS, 0, PASS);
	memset(&failure, 0, sizeof(failure));
	return 0;
}

static uint64_t digest_of_all(void)
{
	void *digest = digest_new();
	uint64_t value;

	digest_add(digest, stream, sizeof(stream));
	value = digest_value(digest);
	digest_free(digest);
	return value;
}

/* Verify `size` bytes in pieces of `step`. Return false at the first wrong piece. */
static bool verify_stream(struct verification *verification, size_t size, size_t step)
{
	assert_true(verify_begin(verification));
	for (size_t done = 0; done < size; done += step) {
		size_t piece = size - done < step ? size - done : step;

		if (!verify_next(verification, stream + done, piece, &failure))
			return false;
	}
	return true;
}

static struct verification all_passes(void)
{
	return (struct verification){ .is_pattern = true, .has_digest = true, .pass_length = PASS };
}

/* ---- Tests ---- */

/* A peer without a hello sends no digest; a stream of unknown length has one pass. */
TEST(wrong_digests_and_lengths_are_found_in_pieces_of_any_size)
{
	static const size_t steps[] = { 1, 7, PASS - 1, PASS, PASS + 1, sizeof(stream) };
	static const struct {
		bool is_pattern, has_digest;
		uint64_t pass;
		uint64_t fewer, flipped; /* missing bytes, and flipped bits of the digest */
		bool is_right;
	} cases[] = {
		{ true, true, PASS, 0, 0, true },    { true, true, PASS, 0, 1, false },
		{ true, true, PASS, 1, 0, false },   { false, false, PASS, 0, 1, true },
		{ false, false, PASS, 1, 0, false }, { false, true, LENGTH_UNKNOWN, 0, 0, true },
	};

	for (size_t i = 0; i < ENTRIES(cases) * ENTRIES(steps); i++) {
		size_t row = i / ENTRIES(steps);
		struct verification verification = { .is_pattern = cases[row].is_pattern,
						     .has_digest = cases[row].has_digest,
						     .pass_length = cases[row].pass };

		reset(NULL);
		assert_true(
			verify_stream(&verification, sizeof(stream), steps[i % ENTRIES(steps)]));
		assert_int_equal(verification.bytes, sizeof(stream));
		assert_int_equal(verification.excerpt.size,
				 cases[row].pass == PASS ? PASS : sizeof(stream));
		assert_int_equal(verification_matches(&verification,
						      sizeof(stream) - cases[row].fewer,
						      digest_of_all() ^ cases[row].flipped),
				 cases[row].is_right);
		verify_free(&verification);
	}
}

TEST(byte_that_differs_from_the_pattern_is_named)
{
	struct verification verification = all_passes();

	stream[2 * PASS + 5] ^= 0x10;
	assert_false(verify_stream(&verification, sizeof(stream), 64));
	assert_int_equal(failure.status, STATUS_CONTENTS_WRONG);
	assert_non_null(
		strstr(failure.cause, "offset 5 of 1000 in pass 3 differs from the pattern"));
	assert_int_equal(verification.bytes, 2 * PASS + 5);
	verify_free(&verification);
	verification = (struct verification){ .is_pattern = true, .pass_length = PASS };
	reset(NULL);
	stream[PASS - 1]++;
	assert_false(verify_stream(&verification, PASS, PASS));
	assert_non_null(strstr(failure.cause, "offset 999 of 1000 differs from the pattern"));
	verify_free(&verification);
}

TEST(only_the_first_pass_is_shown_and_stored)
{
	struct verification verification = all_passes();

	assert_true(verify_stream(&verification, sizeof(stream), 300));
	assert_int_equal(verification.excerpt.size, PASS);
	assert_true(verification.excerpt.is_pattern);
	assert_int_equal(bytes_in_first_pass(&verification, 0, 5 * PASS), PASS);
	assert_int_equal(bytes_in_first_pass(&verification, PASS - 1, 2), 1);
	assert_int_equal(bytes_in_first_pass(&verification, PASS, 2), 0);
	verify_free(&verification);
}

RUN_TESTS(NULL, reset)
