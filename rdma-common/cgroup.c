// SPDX-License-Identifier: MIT
#include "cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A line of /proc/self/mountinfo (proc(5)); the strings point into the line. */
struct mount {
	char *root;    /* the cgroup at the top of the mount */
	char *point;   /* the mount point */
	char *type;    /* type of the file system */
	char *options; /* options of the file system; in version 1 they name the controllers */
};

/* Replace escape sequences in a field of mountinfo, such as "\040" for a space. */
static void unescape(char *field)
{
	char *end = field;

	while (*field) {
		if (*field == '\\' && strspn(field + 1, "01234567") >= 3) {
			const char digits[] = { field[1], field[2], field[3], '\0' };

			*end++ = (char)strtoul(digits, NULL, 8);
			field += 4;
		} else {
			*end++ = *field++;
		}
	}
	*end = '\0';
}

static bool parse_mount(char *line, struct mount *mount)
{
	const char *field;

	for (int skipped = 0; skipped < 3; skipped++)
		strsep(&line, " ");
	mount->root = strsep(&line, " ");
	mount->point = strsep(&line, " ");
	do /* skip any number of optional fields */
		field = strsep(&line, " ");
	while (field && strcmp(field, "-") != 0);
	mount->type = strsep(&line, " ");
	strsep(&line, " ");
	mount->options = strsep(&line, "\n");
	if (!mount->options)
		return false;
	unescape(mount->root);
	unescape(mount->point);
	return true;
}

/* Return true if "memory" is in a list such as "rw,memory". Overwrite the list's commas. */
static bool has_memory(char *list)
{
	const char *word;

	while ((word = strsep(&list, ",")))
		if (strcmp(word, "memory") == 0)
			return true;
	return false;
}

/* Count the leading "/.." of a path: each is a level above the root of the cgroup namespace. */
static size_t count_parents(const char *path)
{
	size_t count = 0;

	while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0')) {
		path += 3;
		count++;
	}
	return count;
}

/*
 * Return the path of a cgroup below the top of the mount; "" if it is the top. In a cgroup
 * namespace the top may be above the namespace's root; also return "" then, because the path
 * between them is unknown. Return NULL if the mount does not contain the cgroup.
 */
static const char *path_in_mount(const char *cgroup, const char *top)
{
	size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top), parents = count_parents(top);

	if (strncmp(cgroup, top, length) == 0) {
		const char *rest = cgroup + length;

		if ((*rest == '/' || *rest == '\0') && count_parents(rest) == 0)
			return rest;
	}
	return parents * strlen("/..") == length && parents > count_parents(cgroup) ? "" : NULL;
}

/* Read a number. Return UINT64_MAX if the file cannot be read or has no number ("max"). */
static uint64_t read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	char text[32] = "", *end;
	uint64_t number;

	if (!file)
		return UINT64_MAX;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	number = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : number;
}

/*
 * Return the smallest number in the files `name` of a cgroup and its parents in the mount;
 * UINT64_MAX if there is none.
 */
static uint64_t least_of_branch(const char *root, const struct mount *mount, const char *cgroup,
				const char *name)
{
	const char *rest = path_in_mount(cgroup, mount->root);
	size_t top = strlen(root) + strlen(mount->point), length;
	uint64_t least = UINT64_MAX;
	char path[PATH_MAX];

	if (!rest || top + strlen(rest) + strlen(name) + 2 > sizeof(path))
		return UINT64_MAX;
	length = (size_t)snprintf(path, sizeof(path), "%s%s%s", root, mount->point, rest);
	for (;;) {
		snprintf(path + length, sizeof(path) - length, "/%s", name);
		least = min_u64(least, read_number(path));
		if (length <= top)
			return least;
		do
			length--;
		while (length > top && path[length] != '/');
	}
}

/*
 * Return the smallest limit of the hierarchy in a line of /proc/self/cgroup, which has the form
 * "number:controllers:path". The line of version 2 names no controllers. Return UINT64_MAX if there
 * is no limit.
 */
static uint64_t limit_in_hierarchy(const char *root, char *line)
{
	const char *type = "cgroup", *name = "memory.limit_in_bytes", *cgroup;
	char path[PATH_MAX], *controllers, *text = NULL;
	uint64_t least = UINT64_MAX;
	struct mount mount;
	size_t size = 0;
	FILE *mounts;
	bool unified;

	strsep(&line, ":");
	controllers = strsep(&line, ":");
	cgroup = strsep(&line, "\n");
	unified = cgroup && *controllers == '\0';
	if (unified) {
		type = "cgroup2";
		name = "memory.max";
	}
	if (!cgroup || (!unified && !has_memory(controllers)))
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	mounts = fopen(path, "re");
	while (mounts && getline(&text, &size, mounts) >= 0)
		if (parse_mount(text, &mount) && strcmp(mount.type, type) == 0 &&
		    (unified || has_memory(mount.options)))
			least = min_u64(least, least_of_branch(root, &mount, cgroup, name));
	free(text);
	if (mounts)
		fclose(mounts);
	return least;
}

uint64_t cgroup_memory_limit(const char *root)
{
	uint64_t least = UINT64_MAX;
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	FILE *cgroups;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	cgroups = fopen(path, "re");
	while (cgroups && getline(&line, &size, cgroups) >= 0)
		least = min_u64(least, limit_in_hierarchy(root, line));
	free(line);
	if (cgroups)
		fclose(cgroups);
	return least;
}
