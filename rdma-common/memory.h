/* SPDX-License-Identifier: MIT */
/*
 * Memory for rings.
 */
#ifndef RDMA_COMMON_MEMORY_H
#define RDMA_COMMON_MEMORY_H

#include <stdbool.h>
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
 * Give the pages back to the kernel, and keep the addresses: they read as zeros from then on. An
 * adapter keeps the pages that are registered until they are deregistered. Any thread.
 */
void memory_discard(void *memory, size_t size);

/*
 * Bytes of the whole pages in which `size` bytes of memory_map() lie: so many the kernel locks, and
 * counts (RLIMIT_MEMLOCK), for memory that is registered. Any thread.
 */
uint64_t memory_pages(size_t size);

/*
 * RLIMIT_MEMLOCK (getrlimit(2)). The kernel applies it to a process without CAP_IPC_LOCK
 * (capabilities(7)) in the first user namespace. Some drivers apply it to every process: siw.
 */
struct lock_limit {
	uint64_t bytes; /* UINT64_MAX: no limit */
	bool applies;   /* the kernel applies it to this process */
};

struct lock_limit memory_lock_limit(void);

/* Memory for all sessions of this process. */
struct memory_budget {
	uint64_t total;     /* bytes for sessions: a quarter of the memory of the machine, or of
			     * the least memory limit of a cgroup that this process is in */
	const char *source; /* names that memory in messages; static */
	uint64_t locked;    /* bytes that may be registered: struct lock_limit, where it applies */
};

/*
 * Read the budget. `root` is the folder in which /proc and the cgroup file systems are: "" for the
 * real ones. A file that cannot be read limits nothing.
 */
struct memory_budget memory_budget(const char *root);

#endif
