// SPDX-License-Identifier: MIT
/*
 * Memory of rings and its budget; length and access flags of the rings of a connection. The length
 * depends on stream, budget and kernel.
 */
#include "rdma-common/region.h"

#include <dlfcn.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "unit.h"
#include "folder.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE      ((uint64_t)4096)
#define MEBIBYTE  ((uint64_t)1 << 20)
#define LONGEST   (8 * MEBIBYTE)
/* Bytes of memory that a session uses besides its regions. */
#define SESSION_TAKES ((uint64_t)64 << 10)

/* ---- A fake of the C library's kernel calls ---- */

static size_t advised; /* bytes for which huge pages were requested */
static bool hides_its_memory;
static long large_page; /* bytes of a page on another machine. 0 is as on this one. */

int madvise(void *memory, size_t size, int advice)
{
	if (advice == MADV_HUGEPAGE)
		advised += size;
	return (int)syscall(SYS_madvise, memory, size, advice);
}

long sysconf(int name)
{
	static long (*real)(int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	return name == _SC_PAGESIZE && large_page ? large_page : real(name);
}

int sysinfo(struct sysinfo *about)
{
	errno = EPERM;
	return hides_its_memory ? -1 : (int)syscall(SYS_sysinfo, about);
}

/* ---- Memory and its budget ---- */

TEST(mapped_memory_is_zeroed_and_large_memory_uses_huge_pages)
{
	static const size_t sizes[] = { 1, 4096, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1 };
	static const size_t impossible[] = { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 16 * 15 };

	EACH_ROW (i, sizes) {
		uint8_t *memory = memory_map(sizes[i]);

		assert_non_null(memory);
		assert_int_equal(advised, sizes[i] < HUGE_PAGE ? 0 : sizes[i]);
		advised = 0;
		assert_int_equal((uintptr_t)memory % 4096, 0);
		assert_int_equal(memory[0] | memory[sizes[i] - 1], 0);
		memory[sizes[i] - 1] = 1;
		assert_int_equal(memory_unmap(memory, sizes[i]), 0);
	}
	EACH_ROW (i, impossible) {
		assert_null(memory_map(impossible[i]));
		assert_int_equal(errno, ENOMEM);
	}
}

/*
 * Allow or forbid this process to lock memory beyond its limit. Return false if the kernel refuses.
 */
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

/* If sysinfo(2) fails, the size of the machine's memory sets no limit. */
TEST(the_budget_is_a_quarter_of_the_memory_and_obeys_the_locked_memory_limit)
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
		if (allow_locking(true)) { /* fails for an ordinary user */
			assert_true(memory_budget().locked == UINT64_MAX);
			assert_int_equal(memory_lock_limit().bytes, 4096);
			assert_false(memory_lock_limit().applies);
		}
		assert_true(allow_locking(false));
		budget = memory_budget();
		assert_true(budget.total == (hides ? UINT64_MAX / 4 : quarter));
		assert_string_equal(budget.source, "this machine's memory");
		assert_int_equal(budget.locked, 4096);
		assert_int_equal(budget.lock_limit, 4096);
		assert_int_equal(memory_lock_limit().bytes, 4096);
		assert_true(memory_lock_limit().applies);
		limit.rlim_cur = limit.rlim_max;
		assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		assert_true(memory_budget().locked == limit.rlim_max);
		assert_int_equal(memory_lock_limit().applies, limit.rlim_max != RLIM_INFINITY);
	}
	hides_its_memory = false;
	allow_locking(true);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST(the_budget_is_a_quarter_of_a_smaller_cgroup_limit)
{
	struct memory_budget machine = memory_budget(), budget = machine;
	char text[32];

	put("proc/self/cgroup", "0::/a\n");
	put("proc/self/mountinfo", "30 25 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
	put("cg/a/memory.max", "209715200\n");
	memory_apply_cgroups(&budget, folder);
	assert_int_equal(budget.total, 209715200 / 4);
	assert_string_equal(budget.source, "the memory limit of this cgroup");
	budget = machine;
	snprintf(text, sizeof(text), "%ju\n", (uintmax_t)machine.total * 4 + 4096);
	put("cg/a/memory.max", text);
	memory_apply_cgroups(&budget, folder);
	assert_true(budget.total == machine.total);
	assert_string_equal(budget.source, "this machine's memory");
	empty_folder(NULL);
}

/*
 * In a user namespace a process has every capability, but the kernel exempts only a process with
 * CAP_IPC_LOCK in the initial namespace.
 */
TEST(the_locked_memory_limit_applies_in_a_user_namespace)
{
	struct rlimit limit = { 4096, 0 }, before;
	int status;
	pid_t child;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	child = fork();
	if (child == 0)
		_exit(unshare(CLONE_NEWUSER) ? 77 : memory_budget().locked != 4096);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) /* this user may not create a namespace */
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(locked_memory_is_rounded_up_to_whole_pages)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	assert_int_equal(memory_pages(0), 0);
	assert_int_equal(memory_pages(1), page);
	assert_int_equal(memory_pages(page), page);
	assert_int_equal(memory_pages(page + 1), 2 * page);
}

/* ---- A fake of libibverbs, with a kernel that limits locked memory ---- */

static struct {
	size_t most;      /* maximum bytes of one registration */
	size_t limit;     /* maximum bytes of all registrations */
	size_t locked;    /* bytes of all registrations */
	size_t tried[16]; /* sizes, in the order of the calls */
	unsigned int calls;
	unsigned int access; /* access flags of the last call */
	int keeps;           /* errno value with which deregistration fails. 0 is success. */
	unsigned int deregistered;
	struct ibv_mr regions[16];
} kernel;

struct ibv_mr *ibv_reg_mr_iova2(UNUSED struct ibv_pd *pd, UNUSED void *memory, size_t size,
				UNUSED uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr;

	assert_between(kernel.calls, 0, 15);
	mr = &kernel.regions[kernel.calls];
	kernel.tried[kernel.calls++] = size;
	kernel.access = access;
	if (size > kernel.most || memory_pages(size) > kernel.limit - kernel.locked) {
		errno = ENOMEM;
		return NULL;
	}
	kernel.locked += memory_pages(size);
	mr->length = size;
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t size, int access)
{
	return ibv_reg_mr_iova2(pd, memory, size, 0, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	kernel.deregistered++;
	kernel.locked -= memory_pages(mr->length);
	return kernel.keeps;
}

/* ---- The owner of the regions ---- */

static struct options options;
static struct console console;
static struct log session_log;
static struct terms terms;
static struct region_account account;
static struct region_owner owner;
static struct region control, outgoing, incoming;
static struct failure failure;

static const struct memory_budget without_limit = { UINT64_MAX, "this machine's memory", UINT64_MAX,
						    UINT64_MAX };

/* Reset everything to a client of a two-way session of READs, with unlimited memory. */
static int reset(UNUSED void **state)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.most = kernel.limit = SIZE_MAX;
	large_page = 0;
	options = default_options(ROLE_CLIENT);
	options.operation = OPERATION_READ;
	console_init(&console, options.json);
	session_log = (struct log){ .console = &console, .options = &options };
	terms = (struct terms){ .options = &options };
	account = (struct region_account){ .budget = without_limit, .cgroups_read = true };
	owner = (struct region_owner){
		.account = &account,
		.terms = &terms,
		.log = &session_log,
	};
	memset(&control, 0, sizeof(control));
	memset(&outgoing, 0, sizeof(outgoing));
	memset(&incoming, 0, sizeof(incoming));
	memset(&failure, 0, sizeof(failure));
	return 0;
}

static struct stream_plan plan_of(uint64_t length, uint64_t passes)
{
	return (struct stream_plan){ .present = true, .length = length, .passes = passes };
}

static struct transfer_plan sending(struct stream_plan stream)
{
	return (struct transfer_plan){ .outgoing = stream };
}

static struct transfer_plan receiving(struct stream_plan stream)
{
	return (struct transfer_plan){ .incoming = stream };
}

static struct transfer_plan both_ways(uint64_t outgoing_length, uint64_t incoming_length)
{
	return (struct transfer_plan){ .outgoing = plan_of(outgoing_length, 1),
				       .incoming = plan_of(incoming_length, 1) };
}

static enum status register_plan(struct transfer_plan plan)
{
	enum status status = register_rings(&owner, &outgoing, &incoming, &plan, &failure);

	if (status == STATUS_SUCCESS) {
		assert_int_equal(plan.outgoing.ring, outgoing.size);
		assert_int_equal(plan.incoming.ring, incoming.size);
	}
	return status;
}

/* Unmap the memory of a region that the kernel keeps. */
static void forget(struct region *region)
{
	if (region->memory)
		assert_int_equal(memory_unmap(region->memory, region->size), 0);
	memset(region, 0, sizeof(*region));
}

/*
 * Register the ring of a stream, check its length in whole pages in `account`, and release the
 * ring. Return its length.
 */
static uint64_t ring_of(struct stream_plan stream, bool sends)
{
	struct region *region = sends ? &outgoing : &incoming;
	uint64_t size;

	assert_int_equal(register_plan(sends ? sending(stream) : receiving(stream)),
			 STATUS_SUCCESS);
	size = region->size;
	assert_non_null(region->mr);
	assert_int_equal(account.registered,
			 (size + PAGE - 1) / PAGE * PAGE); /* each region starts on its own page */
	region_destroy(&owner, region);
	return size;
}

static uint64_t incoming_ring(uint64_t length)
{
	return ring_of(plan_of(length, 1), false);
}

static uint64_t outgoing_ring(uint64_t length)
{
	return ring_of(plan_of(length, 1), true);
}

/* ---- Rings ---- */

TEST(a_ring_has_the_length_of_one_pass_and_at_most_8_mib)
{
	struct stream_plan passes = plan_of(1000, 5), none = { .length = 1000, .passes = 1 };

	assert_int_equal(incoming_ring(1), 1);
	assert_int_equal(incoming_ring(5000), 5000);
	assert_int_equal(incoming_ring(LONGEST - 1), LONGEST - 1);
	assert_int_equal(incoming_ring(LONGEST + 1), LONGEST);
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), LONGEST);
	assert_int_equal(outgoing_ring(5000), 5000);
	assert_int_equal(ring_of(passes, true), 1000);
	reset(NULL);
	assert_int_equal(
		register_plan((struct transfer_plan){ .outgoing = none, .incoming = none }),
		STATUS_SUCCESS);
	assert_int_equal(kernel.calls, 0); /* a stream that is not present has no ring */
	assert_null(outgoing.memory);
	assert_null(incoming.memory);
}

TEST(cgroups_are_read_only_if_a_session_needs_more_than_a_page_or_is_not_alone)
{
	static const struct {
		unsigned int sessions;
		uint64_t length;
		bool read;
	} cases[] = { { 1, 1, false }, { 1, PAGE, false }, { 1, PAGE + 1, true }, { 2, 1, true } };

	EACH_ROW (i, cases) {
		account.cgroups_read = false;
		account.sessions = cases[i].sessions;
		assert_int_equal(register_control(&owner, &control, &failure), STATUS_SUCCESS);
		assert_int_equal(register_plan(receiving(plan_of(cases[i].length, 1))),
				 STATUS_SUCCESS);
		assert_int_equal(account.cgroups_read, cases[i].read);
		region_destroy(&owner, &incoming);
		region_destroy(&owner, &control);
	}
}

TEST(a_ring_is_halved_in_whole_pages_until_the_kernel_locks_it)
{
	static const size_t tried[] = { 9 * PAGE, 5 * PAGE, 3 * PAGE, 2 * PAGE, PAGE };

	kernel.most = PAGE;
	assert_int_equal(incoming_ring(9 * PAGE), PAGE);
	assert_int_equal(kernel.calls, ENTRIES(tried));
	assert_memory_equal(kernel.tried, tried, sizeof(tried));
	reset(NULL);
	kernel.most = 5 * PAGE;
	assert_int_equal(incoming_ring(8 * PAGE + 2), 5 * PAGE);
	reset(NULL);
	kernel.most = MEBIBYTE + 1;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE);
	assert_int_equal(kernel.calls, 4);
}

/* The longer ring is halved first: 15 and 14 pages do not fit in 16 with that of the messages. */
TEST(both_rings_shrink_together_until_the_kernel_locks_them)
{
	static const size_t tried[] = { PAGE,      15 * PAGE, 14 * PAGE, 8 * PAGE,
					14 * PAGE, 8 * PAGE,  7 * PAGE };

	kernel.limit = 16 * PAGE;
	assert_int_equal(register_control(&owner, &control, &failure), STATUS_SUCCESS);
	kernel.tried[0] = PAGE;
	assert_int_equal(register_plan(both_ways(15 * PAGE, 14 * PAGE)), STATUS_SUCCESS);
	assert_int_equal(kernel.calls, ENTRIES(tried));
	assert_memory_equal(kernel.tried, tried, sizeof(tried));
	assert_int_equal(account.registered, kernel.locked);
	region_destroy(&owner, &control);
	region_destroy(&owner, &outgoing);
	region_destroy(&owner, &incoming);
	assert_int_equal(account.registered, 0);
}

/* After the failure no memory stays registered or mapped. */
TEST(less_memory_than_a_page_is_a_failure_with_its_reason)
{
	struct stream_plan plan = plan_of(LENGTH_UNKNOWN, 1);

	kernel.most = PAGE - 1;
	assert_int_equal(register_plan(receiving(plan)), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(failure.cause, "cannot register 4096 bytes of memory"));
	assert_int_equal(kernel.tried[kernel.calls - 1], PAGE);
	assert_null(incoming.memory);
	assert_int_equal(account.registered, 0);
	reset(NULL);
	kernel.limit = 2 * PAGE - 1;
	assert_int_equal(register_plan(both_ways(PAGE, 1)), STATUS_LOCAL_FAILURE);
	assert_null(outgoing.memory);
	assert_int_equal(kernel.locked, 0);
	assert_int_equal(account.registered, 0);
	reset(NULL);
	account.budget.locked = PAGE - 1;
	assert_int_equal(register_plan(sending(plan)), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(failure.cause, "cannot register 4096 bytes of memory"));
	assert_int_equal(kernel.calls, 0);
	reset(NULL);
	account.budget =
		(struct memory_budget){ SESSION_TAKES + PAGE - 1, "a pie", UINT64_MAX, UINT64_MAX };
	account.sessions = 1;
	assert_int_equal(register_plan(sending(plan)), STATUS_LOCAL_FAILURE);
	assert_string_equal(failure.cause,
			    "cannot register 4096 bytes of memory: the sessions use 64 "
			    "KiB of the 67 KiB for all sessions, a quarter of a pie; run fewer "
			    "sessions at a time");
	assert_int_equal(kernel.calls, 0);
}

/*
 * Two long rings get half of the budget each; a short one leaves the rest to the other. A server
 * with many clients reserves four pages for each of 64 other sessions, but at most half of the
 * budget, and gives half of the rest to the rings of a session.
 */
TEST(a_ring_has_its_share_of_the_budget_in_whole_pages)
{
	static const struct {
		enum role role;
		bool one_off;
		uint64_t budget, sent, received; /* given, in bytes */
		uint64_t outgoing, incoming;     /* expected lengths of the rings */
	} cases[] = {
		{ ROLE_CLIENT, false, 10 * PAGE - 1, LONGEST, LONGEST, 5 * PAGE, 4 * PAGE },
		{ ROLE_CLIENT, false, 10 * PAGE - 1, 1, LONGEST, 1, 8 * PAGE },
		{ ROLE_CLIENT, false, 10 * PAGE - 1, LONGEST, PAGE + 1, 7 * PAGE, PAGE + 1 },
		{ ROLE_CLIENT, false, 10 * PAGE - 1, 0, LONGEST, 0, 9 * PAGE },
		{ ROLE_CLIENT, false, PAGE, 0, LONGEST, 0, PAGE },
		{ ROLE_CLIENT, false, 2 * PAGE, LONGEST, LONGEST, PAGE, PAGE },
		{ ROLE_SERVER, false, 5 * MEBIBYTE, LONGEST, LONGEST, MEBIBYTE, MEBIBYTE },
		{ ROLE_SERVER, false, 5 * MEBIBYTE, 1, LONGEST, 1, 2 * MEBIBYTE - PAGE },
		{ ROLE_SERVER, false, 5 * MEBIBYTE, 0, LONGEST, 0, 2 * MEBIBYTE },
		{ ROLE_SERVER, false, 2 * MEBIBYTE, LONGEST, LONGEST, 64 * PAGE, 64 * PAGE },
		{ ROLE_SERVER, false, MEBIBYTE, LONGEST, LONGEST, 32 * PAGE, 32 * PAGE },
		{ ROLE_SERVER, true, 16 * MEBIBYTE, LONGEST, LONGEST, LONGEST, LONGEST },
		{ ROLE_SERVER, true, 4 * MEBIBYTE, LONGEST, LONGEST, 2 * MEBIBYTE, 2 * MEBIBYTE },
	};

	EACH_ROW (i, cases) {
		struct transfer_plan plan = both_ways(cases[i].sent, cases[i].received);

		plan.outgoing.present = cases[i].sent > 0;
		options.role = cases[i].role;
		options.one_off = cases[i].one_off;
		account.budget.locked = cases[i].budget;
		kernel.calls = 0;
		assert_int_equal(register_plan(plan), STATUS_SUCCESS);
		assert_int_equal(outgoing.size, cases[i].outgoing);
		assert_int_equal(incoming.size, cases[i].incoming);
		region_destroy(&owner, &outgoing);
		region_destroy(&owner, &incoming);
	}
	reset(NULL);
	options.connections = 2; /* a client with several connections shares the budget, too */
	account.budget.locked = 2 * MEBIBYTE + 2 * PAGE;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE);
}

/* siw applies the limit to every process. If the kernel does not, the limit refuses no region. */
TEST(a_ring_has_its_share_of_the_locked_memory_limit_if_the_driver_applies_it)
{
	account.budget.lock_limit = MEBIBYTE;
	options.role = ROLE_SERVER;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), LONGEST);
	terms.limits.applies_lock_limit = true;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), 64 * PAGE);
	options.one_off = true;
	assert_int_equal(incoming_ring(LENGTH_UNKNOWN), MEBIBYTE);
	account.registered = 2 * MEBIBYTE;
	assert_int_equal(register_plan(receiving(plan_of(LENGTH_UNKNOWN, 1))), STATUS_SUCCESS);
	assert_int_equal(incoming.size, PAGE);
	forget(&incoming);
}

/*
 * Each session counts as SESSION_TAKES, and so does each stuck helper of an ended session. A server
 * leaves memory for 64 more sessions.
 */
TEST(threads_and_state_of_a_session_count_towards_the_budget)
{
	static const struct {
		enum role role;
		unsigned int sessions, stuck;
		uint64_t total, locked, incoming;
	} cases[] = {
		{ ROLE_CLIENT, 1, 0, SESSION_TAKES + 9 * PAGE, UINT64_MAX, 9 * PAGE },
		{ ROLE_CLIENT, 2, 0, 2 * SESSION_TAKES + 9 * PAGE, UINT64_MAX, 9 * PAGE },
		{ ROLE_CLIENT, 1, 3, 4 * SESSION_TAKES + 9 * PAGE, UINT64_MAX, 9 * PAGE },
		{ ROLE_CLIENT, 1, 0, SESSION_TAKES + 9 * PAGE, 8 * PAGE, 8 * PAGE },
		{ ROLE_CLIENT, 1, 0, SESSION_TAKES + 7 * PAGE, 8 * PAGE, 7 * PAGE },
		{ ROLE_SERVER, 1, 0, 65 * SESSION_TAKES + 3 * MEBIBYTE, UINT64_MAX, MEBIBYTE },
		{ ROLE_SERVER, 1, 0, 65 * SESSION_TAKES + MEBIBYTE, UINT64_MAX, PAGE },
		{ ROLE_SERVER, 1, 0, 65 * SESSION_TAKES + 3 * MEBIBYTE, 2 * MEBIBYTE, 128 * PAGE },
	};

	EACH_ROW (i, cases) {
		options.role = cases[i].role;
		account.sessions = cases[i].sessions;
		account.stuck_helpers = (int)cases[i].stuck;
		account.budget.total = cases[i].total;
		account.budget.locked = cases[i].locked;
		assert_int_equal(incoming_ring(LENGTH_UNKNOWN), cases[i].incoming);
	}
}

/* Register the control region and both rings of a session. */
static void begin_session(void)
{
	kernel.calls = 0;
	assert_int_equal(register_control(&owner, &control, &failure), STATUS_SUCCESS);
	assert_int_equal(register_plan(both_ways(LENGTH_UNKNOWN, LENGTH_UNKNOWN)), STATUS_SUCCESS);
}

/* Forget the regions of that session, which still use the budget. */
static void forget_regions(void)
{
	forget(&control);
	forget(&outgoing);
	forget(&incoming);
}

/* The budget is a quarter of 200 MiB. The first rings are long, the last ones have a page. */
TEST(a_server_with_200_mib_has_memory_for_64_sessions_both_ways)
{
	options.role = ROLE_SERVER;
	account.budget.total = 50 * MEBIBYTE;
	for (unsigned int count = 1; count <= 64; count++) {
		account.sessions = count;
		begin_session();
		assert_between(account.registered + count * SESSION_TAKES, 0, 50 * MEBIBYTE);
		forget_regions();
	}
}

/* Pages of 64 KiB, as on some machines with arm64 or ppc64, need a reserve 16 times as large. */
TEST(the_reserve_for_64_sessions_counts_pages_of_this_machines_size)
{
	large_page = 64 << 10;
	options.role = ROLE_SERVER;
	account.budget.locked = 128 * MEBIBYTE;
	for (unsigned int count = 1; count <= 64; count++) {
		account.sessions = count;
		begin_session();
		assert_int_equal(incoming.size % (size_t)large_page, 0);
		forget_regions();
	}
}

/* All exist before the first one registers its rings. */
TEST(connections_that_begin_together_get_the_same)
{
	options.connections = 64;
	account.sessions = 64;
	account.budget.locked = 8 * MEBIBYTE;
	for (unsigned int count = 1; count <= 64; count++) {
		kernel.calls = 0;
		assert_int_equal(register_control(&owner, &control, &failure), STATUS_SUCCESS);
		forget(&control);
	}
	for (unsigned int count = 1; count <= 64; count++) {
		kernel.calls = 0;
		assert_int_equal(register_plan(both_ways(LENGTH_UNKNOWN, LENGTH_UNKNOWN)),
				 STATUS_SUCCESS);
		assert_int_equal(outgoing.size, 16 * PAGE);
		assert_int_equal(incoming.size, 15 * PAGE);
		forget(&outgoing);
		forget(&incoming);
	}
}

static bool is_mapped(void *memory)
{
	unsigned char resident;

	return !mincore(memory, 1, &resident);
}

TEST(a_region_is_freed_after_it_is_deregistered)
{
	uint8_t *memory;

	assert_int_equal(register_plan(receiving(plan_of(5000, 1))), STATUS_SUCCESS);
	memory = incoming.memory;
	assert_true(is_mapped(memory));
	region_destroy(&owner, &incoming);
	assert_int_equal(kernel.deregistered, 1);
	assert_false(is_mapped(memory));
	assert_int_equal(account.registered, 0);
	assert_null(incoming.memory);
	region_destroy(&owner, &incoming); /* nothing is left to release */
	assert_int_equal(account.registered, 0);
}

TEST(a_region_that_cannot_be_deregistered_stays_mapped_and_uses_the_budget)
{
	uint8_t *memory;

	kernel.keeps = EBUSY;
	assert_int_equal(register_plan(receiving(plan_of(5000, 1))), STATUS_SUCCESS);
	memory = incoming.memory;
	region_destroy(&owner, &incoming);
	assert_int_equal(kernel.deregistered, 1);
	assert_true(is_mapped(memory));
	assert_int_equal(account.registered, 2 * PAGE);
	assert_int_equal(memory_unmap(memory, 5000), 0);
}

TEST(a_region_has_only_the_access_that_the_operation_needs)
{
	const unsigned int both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const struct {
		enum operation operation;
		bool iwarp;
		unsigned int outgoing, incoming;
	} cases[] = {
		{ OPERATION_READ, false, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE },
		{ OPERATION_READ, true, IBV_ACCESS_REMOTE_READ, both },
		{ OPERATION_WRITE, false, 0, both },
		{ OPERATION_WRITE, true, 0, both },
	};

	EACH_ROW (i, cases) {
		options.operation = cases[i].operation;
		terms.limits.iwarp = cases[i].iwarp;
		outgoing_ring(5000);
		assert_int_equal(kernel.access, cases[i].outgoing);
		incoming_ring(5000);
		assert_int_equal(kernel.access, cases[i].incoming);
	}
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, reset)
