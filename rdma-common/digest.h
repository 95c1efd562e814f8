/* SPDX-License-Identifier: MIT */
/*
 * The digest of a payload, and the pattern of --size. Both process several GB/s on one core.
 *
 * Threads: any. A position is an offset in one pass of the payload.
 */
#ifndef RDMA_COMMON_DIGEST_H
#define RDMA_COMMON_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * The digest of a sequence of bytes: XXH3, 64 bits. digest_new() returns NULL if memory runs out.
 * digest_restart() begins another sequence. digest_value() returns the digest of the bytes that
 * were added so far. More bytes may be added afterwards.
 */
void *digest_new(void);
void digest_free(void *digest);
void digest_restart(void *digest);
void digest_add(void *digest, const uint8_t *bytes, size_t size);
uint64_t digest_value(const void *digest);

/* Fill `memory` with `size` bytes of the pattern of --size, from `position` on. */
void pattern_fill(uint8_t *memory, uint64_t position, size_t size);

/*
 * Compare `size` bytes with the pattern from `position` on. Return the offset in `memory` of the
 * first byte that differs, or `size`.
 */
size_t pattern_mismatch(const uint8_t *memory, uint64_t position, size_t size);

#endif
