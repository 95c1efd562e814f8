/* SPDX-License-Identifier: MIT */
/*
 * The memory limit of this process's control group (cgroups(7), cgroup_namespaces(7)), such as a
 * container's. The kernel kills a process of a group that exceeds the limit.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CGROUP_H
#define RDMA_COMMON_CGROUP_H

#include <stdint.h>

/*
 * Return the smallest memory limit, in bytes, of the cgroups from the process's own to the root, as
 * far as they can be read: memory.max of version 2, memory.limit_in_bytes of version 1. UINT64_MAX:
 * no limit is known. `root` is the folder of /proc and the cgroup file systems, "" for the real
 * ones.
 */
uint64_t cgroup_memory_limit(const char *root);

#endif
