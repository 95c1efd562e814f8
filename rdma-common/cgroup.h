/* SPDX-License-Identifier: MIT */
/*
 * The memory limit of this process's control group (cgroups(7), cgroup_namespaces(7)), for example
 * of a container. The kernel kills a process of a group that exceeds the limit.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CGROUP_H
#define RDMA_COMMON_CGROUP_H

#include <stdint.h>

/*
 * Return the smallest memory limit, in bytes, of the process's cgroup and its parents, as far as
 * they can be read: memory.max of version 2, memory.limit_in_bytes of version 1. Return UINT64_MAX
 * if no limit is known. `root` is put before the paths of /proc and of the cgroup file systems: "",
 * except in tests.
 */
uint64_t cgroup_memory_limit(const char *root);

#endif
