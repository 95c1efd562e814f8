/* SPDX-License-Identifier: MIT */
/*
 * Payloads: the outgoing one (text, pattern, file or pipe), the digest and the pattern with which
 * an incoming one is verified, and where it is stored.
 */
#ifndef RDMA_COMMON_PAYLOAD_H
#define RDMA_COMMON_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process.h"
#include "status.h"

/* The outgoing payload, the same for every peer. */
struct payload {
	uint8_t *memory; /* page-aligned, from memory_map() */
	size_t size;     /* bytes */
	bool is_pattern; /* of --size */
	bool stays;      /* an adapter may still use the memory */
	/* The digest, which grows while the payload is on the wire: */
	void *digest;      /* XXH3_state_t; a header that is inlined names it differently */
	uint64_t digested; /* bytes that it covers */
	int64_t digest_nanoseconds; /* time that it took */
};

/*
 * Loads what the options name, to its end. On failure a message has been printed; payload_free() is
 * allowed.
 */
enum status payload_load(struct payload *payload, struct process *process);
void payload_free(struct payload *payload);

/* Lets the digest cover the payload up to `size`, or its end. */
void payload_extend_digest(struct payload *payload, uint64_t size);
/* The digest of the whole payload: XXH3, 64 bits. */
uint64_t payload_digest(struct payload *payload);

/* The same of any memory. */
uint64_t digest_memory(const uint8_t *memory, uint64_t size);

/* The offset of the first byte that differs from the pattern of --size, or `size`. */
size_t pattern_mismatch(const uint8_t *memory, size_t size);

/*
 * Zeroed, page-aligned memory, of huge pages if it is large and there are any. NULL with errno.
 * memory_unmap() frees it and takes the same size; -1 with errno.
 */
void *memory_map(size_t size);
int memory_unmap(void *memory, size_t size);

#endif
