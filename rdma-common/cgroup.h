/* SPDX-License-Identifier: MIT */
/*
 * The control groups of this process (cgroups(7), cgroup_namespaces(7)).
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_CGROUP_H
#define RDMA_COMMON_CGROUP_H

typedef void (*cgroup_function)(void *context, const char *folder);

/*
 * Call `function` with the folder of the process's cgroup, then with each parent's, upwards. Visit
 * the hierarchy of version 2, and each one of version 1 that has `controller`. Put `root` in front
 * of all paths. It is "" except in tests.
 */
void cgroup_visit(const char *root, const char *controller, cgroup_function function,
		  void *context);

#endif
