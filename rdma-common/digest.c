// SPDX-License-Identifier: MIT
#include "digest.h"

#include <endian.h>
#include <string.h>
#define XXH_INLINE_ALL /* one library less to load at every start */
#include <xxhash.h>

/* The words of one step: their number is fixed, so that a compiler makes vectors of them. */
#define WORDS     8
#define WORD_SIZE sizeof(uint64_t)
#define STEP      (WORDS * WORD_SIZE) /* bytes */

/* Each eight bytes of the pattern are their number times this, so that every bit varies. */
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)
/* What a word of one step is more than that of the step before: no multiplication a word. */
#define STEP_MULTIPLIER (WORDS * MULTIPLIER)

/* ---- Digest ---- */

void *digest_new(void)
{
	XXH3_state_t *state = XXH3_createState();

	if (state)
		XXH3_64bits_reset(state);
	return state;
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

/* The byte at `position`. */
static uint8_t pattern_byte(uint64_t position)
{
	return (uint8_t)((position / WORD_SIZE + 1) * MULTIPLIER >> position % WORD_SIZE * 8);
}

/* Bytes up to the first word that begins at or behind `position`, `size` at most. */
static size_t bytes_before_word(uint64_t position, size_t size)
{
	size_t before = -position % WORD_SIZE;

	return before < size ? before : size;
}

/* The words of the step at `position`, where a word begins. */
static void pattern_step(uint64_t words[WORDS], uint64_t position)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = (position / WORD_SIZE + 1 + i) * MULTIPLIER;
}

/* Fills whole steps from a `position` where a word begins; returns the bytes that it filled. */
static size_t fill_steps(uint8_t *memory, uint64_t position, size_t size)
{
	uint64_t words[WORDS], step[WORDS];
	size_t done = 0;

	pattern_step(words, position);
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
	size_t done = bytes_before_word(position, size);

	for (size_t i = 0; i < done; i++)
		memory[i] = pattern_byte(position + i);
	done += fill_steps(memory + done, position + done, size - done);
	for (; done < size; done++)
		memory[done] = pattern_byte(position + done);
}

/* The same for comparing: returns the bytes of the steps before the first one that differs. */
static size_t match_steps(const uint8_t *memory, uint64_t position, size_t size)
{
	uint64_t words[WORDS], step[WORDS];
	size_t done = 0;

	pattern_step(words, position);
	for (; size - done >= STEP; done += STEP) {
		uint64_t difference = 0;

		memcpy(step, memory + done, STEP);
		for (size_t i = 0; i < WORDS; i++) {
			difference |= step[i] ^ htole64(words[i]);
			words[i] += STEP_MULTIPLIER;
		}
		if (difference)
			break;
	}
	return done;
}

size_t pattern_mismatch(const uint8_t *memory, uint64_t position, size_t size)
{
	size_t before = bytes_before_word(position, size), done = 0;

	while (done < before && memory[done] == pattern_byte(position + done))
		done++;
	if (done < before)
		return done;
	done += match_steps(memory + done, position + done, size - done);
	while (done < size && memory[done] == pattern_byte(position + done))
		done++;
	return done;
}
