// SPDX-License-Identifier: MIT
#include "sysfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Copy the first line that begins with `key` into `line`, an array of `size` bytes. Remove the
 * newline and blanks at the end of the line. Without such a line, store an empty string.
 */
static void copy_line(int folder, const char *path, const char *key, char *line, int size)
{
	int descriptor = openat(folder, path, O_RDONLY | O_CLOEXEC);
	FILE *file = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
	bool found = false;
	size_t length;

	while (file && !found && fgets(line, size, file))
		found = !strncmp(line, key, strlen(key));
	if (file)
		fclose(file);
	else if (descriptor >= 0)
		close(descriptor);
	length = found ? strlen(line) : 0;
	while (length > 0 && strchr(" \n", line[length - 1])) /* rdma.max has such blanks */
		length--;
	line[length] = '\0';
}

struct sysfs_line sysfs_find_line(const char *key, const char *format, ...)
{
	struct sysfs_line line = { "" };
	char path[PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	copy_line(AT_FDCWD, path, key, line.text, sizeof(line.text));
	return line;
}

bool sysfs_read_number(int folder, const char *name, uint64_t *number)
{
	char line[32], *end;
	uint64_t value;

	copy_line(folder, name, "", line, sizeof(line));
	value = strtoull(line, &end, 10);
	if (end == line)
		return false;
	*number = value;
	return true;
}
