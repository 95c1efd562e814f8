/* SPDX-License-Identifier: MIT */
/*
 * Memory for rings.
 */
#ifndef RDMA_COMMON_MEMORY_H
#define RDMA_COMMON_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * `size` bytes, at least one, of zeroed, page-aligned memory, which the caller owns; transparent
 * huge pages if it is large. NULL with errno. Any thread.
 */
void *memory_map(size_t size);

/* Frees it; `size` as it was mapped. 0, or -1 with errno. Any thread. */
int memory_unmap(void *memory, size_t size);

/*
 * Bytes of the whole pages in which `size` bytes of memory_map() lie: so many the kernel locks, and
 * counts (RLIMIT_MEMLOCK), for memory that is registered. Any thread.
 */
uint64_t memory_pages(size_t size);

/*
 * The memory that this process may have locked with the adapters, in bytes: a quarter of the
 * machine's, less where the locked-memory limit (RLIMIT_MEMLOCK, getrlimit(2)) is in force.
 */
uint64_t memory_budget(void);

#endif
