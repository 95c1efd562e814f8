// SPDX-License-Identifier: MIT
#include "memory.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* From this size on huge pages are worth while: the adapter has fewer addresses to keep. */
#define HUGE_PAGE ((size_t)2 << 20)

void *memory_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/*
	 * Advice: ordinary pages do as well. Not MAP_HUGETLB: beyond the limit of a hugetlb cgroup
	 * the first touch of memory that was mapped ends the process with SIGBUS.
	 */
	if (size >= HUGE_PAGE)
		madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

int memory_unmap(void *memory, size_t size)
{
	return munmap(memory, size);
}

uint64_t memory_pages(size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

/* Of /proc/self/ns/user in the first user namespace (Linux, include/linux/proc_ns.h). */
#define FIRST_NAMESPACE 0xEFFFFFFDU

/* True in the first user namespace (user_namespaces(7)), or where there are none. */
static bool is_in_first_namespace(void)
{
	struct stat about;

	return stat("/proc/self/ns/user", &about) || about.st_ino == FIRST_NAMESPACE;
}

/*
 * Whether the kernel counts what this process locks: not with CAP_IPC_LOCK (capabilities(7)), if
 * that is of the first user namespace.
 */
static bool is_limited(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) ||
	       !(data[0].effective & (uint32_t)1 << CAP_IPC_LOCK) || !is_in_first_namespace();
}

uint64_t memory_budget(void)
{
	uint64_t budget = UINT64_MAX;
	struct sysinfo about;
	struct rlimit limit;

	if (!sysinfo(&about))
		budget = (uint64_t)about.totalram * about.mem_unit / 4;
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur < budget && is_limited())
		budget = limit.rlim_cur;
	return budget;
}
