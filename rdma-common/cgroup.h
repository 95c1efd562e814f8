/* SPDX-License-Identifier: MIT */
/*
 * The memory limit of the control group of this process (cgroups(7), cgroup_namespaces(7)), as a
 * container has it. The kernel kills a process of a group that exceeds it.
 */
#ifndef RDMA_COMMON_CGROUP_H
#define RDMA_COMMON_CGROUP_H

#include <stdint.h>

/*
 * Return the least memory limit, in bytes, of the cgroups from that of this process to the root, as
 * far as they can be read: memory.max of version 2, memory.limit_in_bytes of version 1. UINT64_MAX:
 * no limit is known. `root` is the folder in which /proc and the cgroup file systems are: "" for
 * the real ones. Any thread.
 */
uint64_t cgroup_memory_limit(const char *root);

#endif
