// SPDX-License-Identifier: MIT
/* Whether an incoming payload is what was sent: digests, patterns and passes, piece by piece. */
#include "rdma-common/verify.h"
#include "rdma-common/digest.h"
#include "rdma-common/transfer.h"

#include "unit.h"

#define PASS   ((size_t)1000)
#define PASSES 3

static uint8_t stream[PASSES * PASS];
static struct failure failure;

/* A pattern, again and again. */
static int reset(void **state)
{
	(void)state;
	for (size_t i = 0; i < PASSES; i++)
		pattern_fill(stream + i * PASS, 0, PASS);
	memset(&failure, 0, sizeof(failure));
	return 0;
}

static uint64_t digest_of(size_t size)
{
	void *digest = digest_new();
	uint64_t value;

	digest_add(digest, stream, size);
	value = digest_value(digest);
	digest_free(digest);
	return value;
}

/* Verifies `size` bytes in pieces of `step`; stops at the first that is wrong. */
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
	return (struct verification){ .is_pattern = true,
				      .has_digest = true,
				      .length = sizeof(stream),
				      .pass_length = PASS };
}

/* ---- Tests ---- */

TEST(what_was_sent_is_right_whatever_the_pieces)
{
	static const size_t steps[] = { 1, 7, PASS - 1, PASS, PASS + 1, sizeof(stream) };

	for (size_t i = 0; i < ENTRIES(steps); i++) {
		struct verification verification = all_passes();

		assert_true(verify_stream(&verification, sizeof(stream), steps[i]));
		assert_int_equal(verification.bytes, sizeof(stream));
		assert_true(verify_end(&verification, sizeof(stream), digest_of(sizeof(stream)),
				       &failure));
		verify_free(&verification);
	}
}

TEST(another_digest_or_length_is_wrong)
{
	struct verification verification = all_passes();
	uint64_t digest = digest_of(sizeof(stream));

	assert_true(verify_stream(&verification, sizeof(stream), PASS));
	assert_false(verify_end(&verification, sizeof(stream), digest ^ 1, &failure));
	assert_int_equal(failure.status, STATUS_CONTENTS_WRONG);
	assert_string_equal(failure.cause, status_in_words(STATUS_CONTENTS_WRONG));
	assert_false(verify_end(&verification, sizeof(stream) - 1, digest, &failure));
	verify_free(&verification);
}

/* A program without a hello sends none. */
TEST(without_a_digest_the_length_alone_is_compared)
{
	struct verification verification = { .length = PASS, .pass_length = PASS };

	assert_true(verify_stream(&verification, PASS, PASS));
	assert_true(verify_end(&verification, PASS, 12345, &failure));
	assert_false(verify_end(&verification, PASS + 1, 12345, &failure));
	verify_free(&verification);
}

TEST(a_byte_that_differs_from_the_pattern_is_named)
{
	struct verification verification = all_passes();

	stream[2 * PASS + 5] ^= 0x10;
	assert_false(verify_stream(&verification, sizeof(stream), 64));
	assert_int_equal(failure.status, STATUS_CONTENTS_WRONG);
	assert_non_null(strstr(failure.cause, "byte 5 of 1000 in pass 3 is not as in the pattern"));
	assert_int_equal(verification.bytes, 2 * PASS + 5);
	verify_free(&verification);
	verification =
		(struct verification){ .is_pattern = true, .length = PASS, .pass_length = PASS };
	reset(NULL);
	stream[PASS - 1]++;
	assert_false(verify_stream(&verification, PASS, PASS));
	assert_non_null(strstr(failure.cause, "byte 999 of 1000 is not as in the pattern"));
	verify_free(&verification);
}

TEST(the_first_pass_alone_is_shown_and_stored)
{
	struct verification verification = all_passes();

	assert_true(verify_stream(&verification, sizeof(stream), 300));
	assert_int_equal(verification.excerpt.size, PASS);
	assert_true(verification.excerpt.is_pattern);
	assert_int_equal(verify_in_first_pass(&verification, 0, 5 * PASS), PASS);
	assert_int_equal(verify_in_first_pass(&verification, PASS - 1, 2), 1);
	assert_int_equal(verify_in_first_pass(&verification, PASS, 2), 0);
	verify_free(&verification);
}

TEST(a_stream_whose_length_is_not_known_has_one_pass)
{
	struct verification verification = { .has_digest = true,
					     .length = LENGTH_UNKNOWN,
					     .pass_length = LENGTH_UNKNOWN };

	assert_true(verify_stream(&verification, sizeof(stream), 77));
	assert_int_equal(verification.excerpt.size, sizeof(stream));
	assert_true(verify_end(&verification, sizeof(stream), digest_of(sizeof(stream)), &failure));
	verify_free(&verification);
}

RUN_TESTS(NULL, reset, NULL)
