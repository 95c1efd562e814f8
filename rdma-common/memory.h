/* SPDX-License-Identifier: MIT */
/*
 * Memory for messages and rings, and the budget for it.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_MEMORY_H
#define RDMA_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Map `size` (at least 1) bytes of zeroed, page-aligned memory, which the caller owns. Return NULL
 * with errno on failure.
 */
void *memory_map(size_t size);

/* Unmap memory of memory_map() with its `size`. Return 0, or -1 with errno. */
int memory_unmap(void *memory, size_t size);

/*
 * Return the size of the pages that hold `size` bytes of memory_map(). If they are registered, the
 * kernel locks that many bytes, and counts them against RLIMIT_MEMLOCK.
 */
uint64_t memory_pages(size_t size);

/*
 * RLIMIT_MEMLOCK (getrlimit(2)). The kernel exempts a process that has CAP_IPC_LOCK
 * (capabilities(7)) in the first user namespace. Some drivers, such as siw, apply the limit to
 * every process.
 */
struct lock_limit {
	uint64_t bytes; /* UINT64_MAX without a limit */
	bool applies;   /* the kernel applies it to this process */
};

struct lock_limit memory_lock_limit(void);

/* Memory for all sessions of this process. */
struct memory_budget {
	uint64_t total; /* bytes for sessions: a quarter of the memory that this process may use */
	const char *source; /* name of that memory for messages: a static string */
	uint64_t locked; /* bytes that may be registered. UINT64_MAX if the limit does not apply. */
	/* RLIMIT_MEMLOCK, which some drivers apply to every process. UINT64_MAX if unlimited. */
	uint64_t lock_limit;
};

/* Read the budget that the machine's memory and RLIMIT_MEMLOCK allow. */
struct memory_budget memory_budget(void);

/*
 * Lower the budget to a quarter of the smallest memory limit of the process's cgroup and its
 * parents: the kernel kills a process of a cgroup that exceeds its limit. This takes dozens of
 * system calls. A file that cannot be read imposes no limit. For `root` see cgroup_visit().
 */
void memory_apply_cgroups(struct memory_budget *budget, const char *root);

#endif
