// SPDX-License-Identifier: MIT
#include "memory.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "cgroup.h"
#include "sysfs.h"

/* Ask for huge pages from this size on, in bytes. The adapter then stores fewer addresses. */
#define HUGE_PAGE ((size_t)2 << 20)

void *memory_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/*
	 * Only advise the kernel, because ordinary pages work, too. Do not use MAP_HUGETLB: beyond
	 * the limit of a hugetlb cgroup, the first access ends the process with SIGBUS.
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

/* Inode of /proc/self/ns/user in the first user namespace (Linux, include/linux/proc_ns.h). */
#define FIRST_NAMESPACE 0xEFFFFFFDU

/* Return true in the first user namespace (user_namespaces(7)), or if the namespace is unknown. */
static bool is_in_first_namespace(void)
{
	struct stat about;

	return stat("/proc/self/ns/user", &about) || about.st_ino == FIRST_NAMESPACE;
}

/* Return true if the kernel limits the memory that this process locks (struct lock_limit). */
static bool is_limited(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) ||
	       !(data[0].effective & (uint32_t)1 << CAP_IPC_LOCK) || !is_in_first_namespace();
}

struct lock_limit memory_lock_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return (struct lock_limit){ .bytes = UINT64_MAX };
	return (struct lock_limit){ .bytes = limit.rlim_cur, .applies = is_limited() };
}

/*
 * Lower `*least`, a uint64_t, to the memory limit of the cgroup in `path`, of either version. A
 * limit of "max" is not a number, and so has no effect.
 */
static void take_memory_limit(void *least, const char *path)
{
	static const char *const names[] = { "memory.max", "memory.limit_in_bytes" };
	int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t limit, *lowest = least;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (sysfs_read_number(folder, names[i], &limit) && limit < *lowest)
			*lowest = limit;
	}
	if (folder >= 0)
		close(folder);
}

/* All sessions together may use 1/MEMORY_PARTS of the memory. */
#define MEMORY_PARTS 4

struct memory_budget memory_budget(void)
{
	struct lock_limit lock = memory_lock_limit();
	uint64_t machine = UINT64_MAX;
	struct sysinfo about;

	if (!sysinfo(&about))
		machine = (uint64_t)about.totalram * about.mem_unit;
	return (struct memory_budget){
		.total = machine / MEMORY_PARTS,
		.source = "this machine's memory",
		.locked = lock.applies ? lock.bytes : UINT64_MAX,
		.lock_limit = lock.bytes,
	};
}

void memory_apply_cgroups(struct memory_budget *budget, const char *root)
{
	uint64_t least = UINT64_MAX;

	cgroup_visit(root, "memory", take_memory_limit, &least);
	if (least / MEMORY_PARTS >= budget->total)
		return;
	budget->total = least / MEMORY_PARTS;
	budget->source = "the memory limit of this cgroup";
}
