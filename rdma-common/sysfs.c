// SPDX-License-Identifier: MIT
#include "sysfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sysfs_line sysfs_find_line(const char *key, const char *format, ...)
{
	struct sysfs_line line; /* not initialized: clearing 4 KiB for each file is slow */
	char path[PATH_MAX];
	va_list arguments;
	bool found = false;
	size_t length;
	FILE *file;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	file = fopen(path, "re");
	while (file && !found && fgets(line.text, sizeof(line.text), file))
		found = !strncmp(line.text, key, strlen(key));
	if (file)
		fclose(file);
	length = found ? strlen(line.text) : 0;
	while (length > 0 && strchr(" \n", line.text[length - 1])) /* rdma.max has such blanks */
		length--;
	line.text[length] = '\0';
	return line;
}

/* Do not use stdio, because a session reads up to 60 counters. */
bool sysfs_read_number(int folder, const char *name, uint64_t *number)
{
	int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC);
	char text[32] = "", *end = text;
	uint64_t value = 0;

	if (descriptor < 0)
		return false;
	if (read(descriptor, text, sizeof(text) - 1) > 0)
		value = strtoull(text, &end, 10);
	close(descriptor);
	if (end == text)
		return false;
	*number = value;
	return true;
}

struct device_name device_name(struct ibv_device *device)
{
	struct sysfs_line present = sysfs_read_line("%s/ibdev", device->dev_path);
	struct device_name name;

	snprintf(name.text, sizeof(name.text), "%.*s", (int)sizeof(name.text) - 1,
		 present.text[0] ? present.text : ibv_get_device_name(device));
	return name;
}

struct device_folder device_folder(struct ibv_device *device, const struct device_name *name)
{
	struct device_folder folder;
	char *last;

	snprintf(folder.text, sizeof(folder.text), "%s", device->ibdev_path);
	last = strrchr(folder.text, '/');
	if (last && strcmp(name->text, ibv_get_device_name(device)) != 0)
		snprintf(last + 1, sizeof(folder.text) - (size_t)(last + 1 - folder.text), "%s",
			 name->text);
	return folder;
}
