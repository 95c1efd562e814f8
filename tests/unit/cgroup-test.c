// SPDX-License-Identifier: MIT
/* The cgroups and their memory limit, read from folders like /proc and /sys/fs/cgroup. */
#include "rdma-common/cgroup.h"
#include "rdma-common/memory.h"

#include "unit.h"
#include "folder.h"

#define NONE UINT64_MAX

#define V2    "30 25 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1    "31 25 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
#define OTHER "32 25 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
#define DISK  "22 1 8:1 / / rw master:1 - ext4 /dev/memory rw,errors=remount-ro\n"

static const struct {
	const char *name;
	const char *cgroup,
		*mounts;         /* text of proc/self/cgroup and mountinfo. NULL makes no file. */
	const char *files[4][2]; /* other files: path and text */
	uint64_t limit;
} cases[] = {
	/* clang-format off */
	{ "no cgroups", NULL, NULL, { { "cg/memory.max", "1\n" } }, NONE },
	{ "no mount", "0::/a\n", DISK, { { "cg/a/memory.max", "1\n" } }, NONE },
	{ "no mountinfo", "0::/a\n", NULL, { { "cg/a/memory.max", "1\n" } }, NONE },
	{ "version 2", "0::/a\n", DISK V2, { { "cg/a/memory.max", "209715200\n" } }, 209715200 },
	{ "version 2, no limit", "0::/a\n", V2, { { "cg/a/memory.max", "max\n" } }, NONE },
	{ "an ancestor has the smallest limit", "0::/a/b/c\n", V2,
	  { { "cg/a/b/c/memory.max", "max\n" }, { "cg/a/b/memory.max", "5000\n" },
	    { "cg/a/memory.max", "4000\n" } }, 4000 },
	{ "the cgroup itself has the smallest limit", "0::/a/b/c\n", V2,
	  { { "cg/a/b/c/memory.max", "3000\n" }, { "cg/a/b/memory.max", "5000\n" },
	    { "cg/a/memory.max", "max\n" } }, 3000 },
	{ "the root is read, but nothing above it", "0::/a\n", V2,
	  { { "cg/memory.max", "3000\n" }, { "memory.max", "1\n" } }, 3000 },
	{ "no other branch is read", "0::/a\n", V2,
	  { { "cg/b/memory.max", "1\n" }, { "cg/a/b/memory.max", "1\n" },
	    { "cg/ab/memory.max", "1\n" } }, NONE },
	{ "a cgroup that was removed", "0::/a/b (deleted)\n", V2,
	  { { "cg/a/memory.max", "4000\n" } }, 4000 },
	{ "no number", "0::/a\n", V2, { { "cg/a/memory.max", "\n" }, { "cg/memory.max", "x\n" } }, NONE },
	{ "version 1", "5:cpu,cpuacct:/\n4:memory:/a/b\n", OTHER V1,
	  { { "cg/memory/a/memory.limit_in_bytes", "4000\n" },
	    { "cg/memory/memory.limit_in_bytes", "9223372036854771712\n" } }, 4000 },
	{ "version 1, several controllers in one hierarchy", "4:cpu,memory:/a\n",
	  "31 25 0:27 / /cg rw - cgroup cgroup rw,cpu,memory\n",
	  { { "cg/a/memory.limit_in_bytes", "4000\n" } }, 4000 },
	{ "another controller, or a hierarchy named like it",
	  "5:cpu:/a\n4:memoryx:/a\n3:xmemory:/a\n2:name=memory:/a\n", V1,
	  { { "cg/memory/a/memory.limit_in_bytes", "1\n" } }, NONE },
	{ "both versions, with memory in the first", "4:memory:/a\n0::/b\n", V1 V2,
	  { { "cg/memory/a/memory.limit_in_bytes", "4000\n" }, { "cg/b/cgroup.procs", "" } }, 4000 },
	{ "both versions, the smaller limit is used", "0::/b\n4:memory:/a\n", V2 V1,
	  { { "cg/memory/a/memory.limit_in_bytes", "4000\n" }, { "cg/b/memory.max", "3000\n" } }, 3000 },
	{ "a container that sees its cgroup as the root", "0::/\n", V2,
	  { { "cg/memory.max", "4000\n" } }, 4000 },
	{ "a container whose mount begins at its cgroup", "4:memory:/docker/x\n",
	  "31 25 0:27 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n",
	  { { "cg/memory/memory.limit_in_bytes", "4000\n" }, { "cg/memory/docker/x/memory.limit_in_bytes", "1\n" } }, 4000 },
	{ "a cgroup below where the mount begins", "4:memory:/docker/x/y\n",
	  "31 25 0:27 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n",
	  { { "cg/memory/y/memory.limit_in_bytes", "3000\n" }, { "cg/memory/memory.limit_in_bytes", "4000\n" } }, 3000 },
	{ "a mount that begins at another cgroup", "4:memory:/docker/xy\n",
	  "31 25 0:27 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n",
	  { { "cg/memory/memory.limit_in_bytes", "1\n" }, { "cg/memory/y/memory.limit_in_bytes", "1\n" } }, NONE },
	{ "a container that sees the path of its host", "0::/kubepods/x\n", V2,
	  { { "cg/memory.max", "4000\n" } }, 4000 },
	{ "a mount from outside the cgroup namespace", "0::/\n",
	  "30 25 0:26 /../.. /cg rw - cgroup2 cgroup2 rw\n",
	  { { "cg/memory.max", "4000\n" }, { "memory.max", "1\n" } }, 4000 },
	{ "a process that left its cgroup namespace", "0::/../b\n", V2,
	  { { "cg/memory.max", "1\n" }, { "b/memory.max", "1\n" } }, NONE },
	{ "a process that left its namespace, with a mount from outside", "0::/../b\n",
	  "30 25 0:26 /.. /cg rw - cgroup2 cgroup2 rw\n",
	  { { "cg/b/memory.max", "4000\n" }, { "b/memory.max", "1\n" } }, 4000 },
	{ "two mounts", "0::/a\n", "30 25 0:26 / /elsewhere rw - cgroup2 none rw\n" V2,
	  { { "cg/a/memory.max", "4000\n" } }, 4000 },
	{ "a mount point with a space and a backslash", "0::/a\n",
	  "30 25 0:26 / /c\\040g\\134 rw - cgroup2 cgroup2 rw\n", { { "c g\\/a/memory.max", "4000\n" } }, 4000 },
	{ "lines that are cut short", "0\n0:\n0::\n::\n\n", "30\n30 25 0:26 /\n30 25 0:26 / /cg rw\n\n-\n - \n",
	  { { "cg/memory.max", "1\n" } }, NONE },
	/* clang-format on */
};

/* Return the limit of which the budget is a quarter, or NONE. All limits above are multiples of 4.
 */
static uint64_t limit_of_cgroups(void)
{
	struct memory_budget budget = { .total = NONE / 4 };

	memory_apply_cgroups(&budget, folder);
	return budget.total == NONE / 4 ? NONE : budget.total * 4;
}

TEST(smallest_memory_limit_from_the_cgroup_to_the_root_is_used)
{
	EACH_ROW (i, cases) {
		uint64_t limit;

		empty_folder(NULL);
		if (cases[i].cgroup)
			put("proc/self/cgroup", cases[i].cgroup);
		if (cases[i].mounts)
			put("proc/self/mountinfo", cases[i].mounts);
		for (size_t j = 0; j < ENTRIES(cases[i].files) && cases[i].files[j][0]; j++)
			put(cases[i].files[j][0], cases[i].files[j][1]);
		limit = limit_of_cgroups();
		if (limit != cases[i].limit)
			fail_msg("%s: %ju, not %ju", cases[i].name, (uintmax_t)limit,
				 (uintmax_t)cases[i].limit);
	}
	empty_folder(NULL);
}

TEST(cgroup_with_too_long_a_path_has_no_limit)
{
	char text[8192];

	memset(text, 'x', sizeof(text));
	memcpy(text, "0::/", 4);
	strcpy(text + sizeof(text) - 2, "\n");
	put("proc/self/cgroup", text);
	put("proc/self/mountinfo", V2);
	put("cg/memory.max", "4000\n");
	assert_true(limit_of_cgroups() == NONE);
	empty_folder(NULL);
}

static void add_folder(void *list, const char *visited)
{
	strcat(strcat(list, visited + strlen(folder)), " ");
}

TEST(folders_of_the_controller_and_of_version_2_are_visited_up_to_the_root)
{
	char list[256] = "";

	put("proc/self/cgroup", "5:cpu:/c\n4:rdma:/a\n0::/b/d\n");
	put("proc/self/mountinfo", OTHER "31 25 0:27 / /cg/rdma rw - cgroup cgroup rw,rdma\n" V2);
	cgroup_visit(folder, "rdma", add_folder, list);
	assert_string_equal(list, "/cg/rdma/a /cg/rdma /cg/b/d /cg/b /cg ");
	empty_folder(NULL);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(enter_folder, NULL)
