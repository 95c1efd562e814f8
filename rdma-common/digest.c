// SPDX-License-Identifier: MIT
#include "digest.h"

#include <endian.h>
#include <string.h>
#define XXH_INLINE_ALL /* one library fewer to load */
#include <xxhash.h>

/* Number of words in one step. A constant lets the compiler use vector instructions. */
#define WORDS     8
#define WORD_SIZE sizeof(uint64_t)
#define STEP      (WORDS * WORD_SIZE) /* bytes */
/* Maximum bytes compared at a time. They and the pattern fit into the first-level cache. */
#define PIECE ((size_t)4096)

/* Word n of the pattern, counted from 1, is n times this number modulo 2^64: every bit varies. */
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)
/* A word minus the word one step before. An addition of this number replaces a multiplication. */
#define STEP_MULTIPLIER (WORDS * MULTIPLIER)

/* ---- Digest ---- */

void *digest_new(void)
{
	XXH3_state_t *state = XXH3_createState();

	if (state)
		digest_restart(state);
	return state;
}

void digest_restart(void *digest)
{
	XXH3_64bits_reset(digest);
}

void digest_free(void *digest)
{
	XXH3_freeState(digest);
}

void digest_add(void *digest, const uint8_t *bytes, size_t size)
{
	XXH3_64bits_update(digest, bytes, size);
}

uint64_t digest_value(const void *digest)
{
	return XXH3_64bits_digest(digest);
}

/* ---- The pattern of --size ---- */

static uint8_t pattern_byte(uint64_t position)
{
	return (uint8_t)((position / WORD_SIZE + 1) * MULTIPLIER >> position % WORD_SIZE * 8);
}

/* Fill whole steps from `position`, a multiple of WORD_SIZE. Return the number of bytes filled. */
static size_t fill_steps(uint8_t *memory, uint64_t position, size_t size)
{
	uint64_t words[WORDS], step[WORDS];
	size_t done = 0;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = (position / WORD_SIZE + 1 + i) * MULTIPLIER;
	for (; size - done >= STEP; done += STEP) {
		for (size_t i = 0; i < WORDS; i++) {
			step[i] = htole64(words[i]);
			words[i] += STEP_MULTIPLIER;
		}
		memcpy(memory + done, step, STEP);
	}
	return done;
}

void pattern_fill(uint8_t *memory, uint64_t position, size_t size)
{
	size_t done = 0;

	for (; done < size && (position + done) % WORD_SIZE != 0; done++)
		memory[done] = pattern_byte(position + done);
	done += fill_steps(memory + done, position + done, size - done);
	for (; done < size; done++)
		memory[done] = pattern_byte(position + done);
}

size_t pattern_mismatch(const uint8_t *memory, uint64_t position, size_t size)
{
	uint8_t pattern[PIECE];
	size_t done = 0, piece;

	for (; done < size; done += piece) {
		piece = size - done < PIECE ? size - done : PIECE;
		pattern_fill(pattern, position + done, piece);
		if (memcmp(memory + done, pattern, piece) != 0)
			break;
	}
	while (done < size && memory[done] == pattern_byte(position + done))
		done++;
	return done;
}
