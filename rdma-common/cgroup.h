/* SPDX-License-Identifier: MIT */
/*
 * The control groups of this process (cgroups(7), cgroup_namespaces(7)), for example of a
 * container, and their memory limit. The kernel kills a process of a group that exceeds the limit.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CGROUP_H
#define RDMA_COMMON_CGROUP_H

#include <stdint.h>

typedef void (*cgroup_function)(void *context, const char *folder);

/*
 * Call `function` with the folders of the process's cgroup and its parents, the lowest first, of
 * version 2 and of each hierarchy of version 1 with this controller. `root` is put before the paths
 * of /proc and of the cgroup file systems: "", except in tests.
 */
void cgroup_visit(const char *root, const char *controller, cgroup_function function,
		  void *context);

/*
 * Return the smallest memory limit, in bytes, of the process's cgroup and its parents, as far as
 * they can be read: memory.max of version 2, memory.limit_in_bytes of version 1. Return UINT64_MAX
 * if no limit is known. For `root` see cgroup_visit().
 */
uint64_t cgroup_memory_limit(const char *root);

#endif
