// SPDX-License-Identifier: MIT
#include "verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "digest.h"

bool verify_begin(struct verification *verification)
{
	verification->digest = digest_new();
	verification->excerpt.is_pattern = verification->is_pattern;
	return verification->digest;
}

void verify_free(struct verification *verification)
{
	digest_free(verification->digest);
	verification->digest = NULL;
}

size_t bytes_in_first_pass(const struct verification *verification, uint64_t position, size_t size)
{
	uint64_t pass = verification->pass_length;

	if (position >= pass)
		return 0;
	return size < pass - position ? size : (size_t)(pass - position);
}

static void fail_at_position(const struct verification *verification, uint64_t position,
			     struct failure *failure)
{
	uint64_t pass = verification->pass_length;
	char which[64] = "";

	if (position >= pass)
		snprintf(which, sizeof(which), " in pass %" PRIu64, position / pass + 1);
	failure_set(failure, STATUS_CONTENTS_WRONG,
		    "the contents are wrong: the byte at offset %" PRIu64 " of %" PRIu64
		    "%s differs from the pattern; do not trust this network path",
		    position % pass, pass, which);
}

/*
 * Return the number of bytes, across passes, before the first byte that differs from the pattern.
 * If all bytes match, return `size`.
 */
static size_t match_pattern(const struct verification *verification, const uint8_t *bytes,
			    size_t size)
{
	uint64_t pass = verification->pass_length;
	size_t done = 0, part, same;

	do {
		uint64_t position = (verification->bytes + done) % pass;

		part = size - done < pass - position ? size - done : (size_t)(pass - position);
		same = pattern_mismatch(bytes + done, position, part);
		done += same;
	} while (same == part && done < size);
	return done;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return size == 0 || (bytes[0] == 0 && !memcmp(bytes, bytes + 1, size - 1));
}

void excerpt_add(struct excerpt *excerpt, const uint8_t *bytes, size_t size)
{
	size_t room = SHOWN_PAYLOAD - excerpt->head_size;

	if (room > size)
		room = size;
	if (room > 0)
		memcpy(excerpt->head + excerpt->head_size, bytes, room);
	excerpt->head_size += room;
	excerpt->size += size;
	if (!excerpt->goes_on)
		excerpt->goes_on = !is_zero(bytes + room, size - room);
}

bool verify_next(struct verification *verification, const uint8_t *bytes, size_t size,
		 struct failure *failure)
{
	int64_t started = now_nanoseconds();
	size_t same = size;

	if (verification->is_pattern)
		same = match_pattern(verification, bytes, size);
	if (same == size && verification->has_digest)
		digest_add(verification->digest, bytes, size);
	excerpt_add(&verification->excerpt, bytes,
		    bytes_in_first_pass(verification, verification->bytes, same));
	verification->bytes += same;
	verification->nanoseconds += now_nanoseconds() - started;
	if (same < size)
		fail_at_position(verification, verification->bytes, failure);
	return same == size;
}

bool verification_matches(const struct verification *verification, uint64_t length, uint64_t digest)
{
	return verification->bytes == length &&
	       (!verification->has_digest || digest_value(verification->digest) == digest);
}
