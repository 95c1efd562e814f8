/* SPDX-License-Identifier: MIT */
/*
 * Work on every byte of a payload: its digest, and the pattern of --size. Each is fast enough for
 * the fastest adapters: several GB/s on one core.
 *
 * Any thread. Positions are those of bytes in the payload; nothing needs to be aligned.
 */
#ifndef RDMA_COMMON_DIGEST_H
#define RDMA_COMMON_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * The digest of bytes that come in pieces: XXH3, 64 bits. digest_new() is NULL when there is no
 * memory; void, since a header that is inlined names the structure differently. digest_value() is
 * that of all bytes so far; more may follow.
 */
void *digest_new(void);
void digest_free(void *digest);
void digest_add(void *digest, const uint8_t *bytes, size_t size);
uint64_t digest_value(const void *digest);

/* Fills `memory` with the pattern of --size from `position` on. */
void pattern_fill(uint8_t *memory, uint64_t position, size_t size);

/* The offset in `memory` of the first byte that differs from that, or `size`. */
size_t pattern_mismatch(const uint8_t *memory, uint64_t position, size_t size);

#endif
