// SPDX-License-Identifier: MIT
/*
 * Memory for payloads and rings.
 */
#include "rdma-common/memory.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "unit.h"
#include "folder.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* ---- A kernel of which advice and answers are known, in the place of the C library ---- */

static size_t advised; /* bytes that were to be of huge pages */
static bool hides_its_memory;

int madvise(void *memory, size_t size, int advice)
{
	if (advice == MADV_HUGEPAGE)
		advised += size;
	return (int)syscall(SYS_madvise, memory, size, advice);
}

int sysinfo(struct sysinfo *about)
{
	errno = EPERM;
	return hides_its_memory ? -1 : (int)syscall(SYS_sysinfo, about);
}

/* ---- Tests ---- */

TEST(memory_is_zeroed_and_large_from_the_size_of_a_huge_page_on_and_its_size_cannot_wrap)
{
	static const size_t sizes[] = { 1, 4096, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1 };
	static const size_t impossible[] = { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 16 * 15 };

	for (size_t i = 0; i < ENTRIES(sizes); i++) {
		uint8_t *memory = memory_map(sizes[i]);

		assert_non_null(memory);
		assert_int_equal(advised, sizes[i] < HUGE_PAGE ? 0 : sizes[i]);
		advised = 0;
		assert_int_equal((uintptr_t)memory % 4096, 0);
		assert_int_equal(memory[0] | memory[sizes[i] - 1], 0);
		memory[sizes[i] - 1] = 1;
		assert_int_equal(memory_unmap(memory, sizes[i]), 0);
	}
	for (size_t i = 0; i < ENTRIES(impossible); i++) {
		assert_null(memory_map(impossible[i]));
		assert_int_equal(errno, ENOMEM);
	}
}

/* Whether this process may lock memory beyond its limit; false if it cannot be allowed to. */
static bool allow_locking(bool allowed)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t capability = (uint32_t)1 << CAP_IPC_LOCK;

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective =
		allowed ? data[0].effective | capability : data[0].effective & ~capability;
	return !syscall(SYS_capset, &header, data);
}

/* What the kernel does not say limits nothing. */
TEST(the_budget_is_a_quarter_of_the_memory_and_what_may_be_locked)
{
	struct memory_budget budget;
	struct rlimit before, limit;
	struct sysinfo about;
	uint64_t quarter;

	assert_int_equal(sysinfo(&about), 0);
	quarter = (uint64_t)about.totalram * about.mem_unit / 4;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	for (int hides = 0; hides < 2; hides++) {
		hides_its_memory = hides;
		limit = (struct rlimit){ 4096, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		if (allow_locking(true)) { /* else it is an ordinary user's */
			assert_true(memory_budget(folder).locked == UINT64_MAX);
			assert_int_equal(memory_lock_limit().bytes, 4096);
			assert_false(memory_lock_limit().applies);
		}
		assert_true(allow_locking(false));
		budget = memory_budget(folder);
		assert_true(budget.total == (hides ? UINT64_MAX / 4 : quarter));
		assert_string_equal(budget.source, "this machine's memory");
		assert_int_equal(budget.locked, 4096);
		assert_int_equal(memory_lock_limit().bytes, 4096);
		assert_true(memory_lock_limit().applies);
		limit.rlim_cur = limit.rlim_max;
		assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		assert_true(memory_budget(folder).locked == limit.rlim_max);
		assert_int_equal(memory_lock_limit().applies, limit.rlim_max != RLIM_INFINITY);
	}
	hides_its_memory = false;
	allow_locking(true);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST(the_budget_is_a_quarter_of_the_limit_of_the_cgroup_if_that_is_less)
{
	struct memory_budget machine = memory_budget(folder), budget;
	char text[32];

	put("proc/self/cgroup", "0::/a\n");
	put("proc/self/mountinfo", "30 25 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
	put("cg/a/memory.max", "209715200\n");
	budget = memory_budget(folder);
	assert_int_equal(budget.total, 209715200 / 4);
	assert_string_equal(budget.source, "the memory limit of this cgroup");
	snprintf(text, sizeof(text), "%ju\n", (uintmax_t)machine.total * 4 + 4096);
	put("cg/a/memory.max", text);
	budget = memory_budget(folder);
	assert_true(budget.total == machine.total);
	assert_string_equal(budget.source, "this machine's memory");
	empty_folder(NULL);
}

/* There a process has every capability, and the kernel wants that of the first one. */
TEST(in_a_user_namespace_of_its_own_what_may_be_locked_is_limited)
{
	struct rlimit limit = { 4096, 0 }, before;
	int status;
	pid_t child;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	child = fork();
	if (child == 0)
		_exit(unshare(CLONE_NEWUSER) ? 77 : memory_budget("").locked != 4096);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) /* this system has none for this user */
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(what_is_locked_are_whole_pages)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	assert_int_equal(memory_pages(0), 0);
	assert_int_equal(memory_pages(1), page);
	assert_int_equal(memory_pages(page), page);
	assert_int_equal(memory_pages(page + 1), 2 * page);
}

TEST(nothing_is_left)
{
	assert_nothing_is_left();
}

RUN_TESTS(enter_folder, NULL)
