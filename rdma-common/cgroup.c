// SPDX-License-Identifier: MIT
#include "cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct visit {
	const char *root, *controller;
	cgroup_function function;
	void *context;
};

/* A line of /proc/self/mountinfo (proc(5)). The strings point into the line. */
struct mount {
	char *root;    /* the cgroup at the top of the mount */
	char *point;   /* the mount point */
	char *type;    /* type of the file system */
	char *options; /* options of the file system: in version 1, its controllers */
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

/* Return true if a name is in a list such as "rw,memory". Overwrite commas in the list. */
static bool has_name(char *list, const char *name)
{
	const char *word;

	while ((word = strsep(&list, ",")))
		if (strcmp(word, name) == 0)
			return true;
	return false;
}

/* Count the "/.." at the start of a path. Each is a level above the root of the namespace. */
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
 * Return the path of a cgroup below the top of the mount, or NULL if the mount does not contain it.
 *
 * A top such as "/../.." is above the root of the cgroup namespace. If the cgroup is not as far up,
 * the mount contains it, but the path between the two is unknown. Return "" then.
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

/* Visit the folders of a cgroup and its parents in the mount, the lowest first. */
static void visit_branch(const struct visit *visit, const struct mount *mount, const char *cgroup)
{
	const char *rest = path_in_mount(cgroup, mount->root);
	size_t top = strlen(visit->root) + strlen(mount->point), length;
	char path[PATH_MAX];

	if (!rest || top + strlen(rest) >= sizeof(path))
		return;
	length = (size_t)snprintf(path, sizeof(path), "%s%s%s", visit->root, mount->point, rest);
	for (;;) {
		visit->function(visit->context, path);
		if (length <= top)
			return;
		do
			length--;
		while (length > top && path[length] != '/');
		path[length] = '\0';
	}
}

/*
 * Visit the hierarchy in a line of /proc/self/cgroup, "number:controllers:path", if it has the
 * controller. Version 2 names no controllers. Visit its hierarchy in any case.
 */
static void visit_hierarchy(const struct visit *visit, char *line)
{
	char path[PATH_MAX], *controllers, *text = NULL;
	const char *cgroup;
	struct mount mount;
	size_t size = 0;
	FILE *mounts;
	bool unified;

	strsep(&line, ":");
	controllers = strsep(&line, ":");
	cgroup = strsep(&line, "\n");
	unified = cgroup && *controllers == '\0';
	if (!cgroup || (!unified && !has_name(controllers, visit->controller)))
		return;
	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", visit->root);
	mounts = fopen(path, "re");
	while (mounts && getline(&text, &size, mounts) >= 0)
		if (parse_mount(text, &mount) &&
		    strcmp(mount.type, unified ? "cgroup2" : "cgroup") == 0 &&
		    (unified || has_name(mount.options, visit->controller)))
			visit_branch(visit, &mount, cgroup);
	free(text);
	if (mounts)
		fclose(mounts);
}

void cgroup_visit(const char *root, const char *controller, cgroup_function function, void *context)
{
	const struct visit visit = { root, controller, function, context };
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	FILE *cgroups;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	cgroups = fopen(path, "re");
	while (cgroups && getline(&line, &size, cgroups) >= 0)
		visit_hierarchy(&visit, line);
	free(line);
	if (cgroups)
		fclose(cgroups);
}
