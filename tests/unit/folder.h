/* SPDX-License-Identifier: MIT */
/*
 * The folder that a test of files works in, and what it may leave behind: nothing. To be included
 * behind unit.h.
 */
#ifndef UNIT_FOLDER_H
#define UNIT_FOLDER_H

#include <dirent.h>

/* How many descriptors are open. */
static inline int count_descriptors(void)
{
	DIR *open_ones = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(open_ones))
		count++;
	closedir(open_ones);
	return count;
}

static int descriptors_before; /* enter_folder() */

/* Makes a folder of `template`, as mkdtemp(3) does, and works there from now on. 0 or -1. */
static inline int enter_folder(char *template)
{
	descriptors_before = count_descriptors();
	return mkdtemp(template) && !chdir(template) ? 0 : -1;
}

/* Makes a file of these bytes, or lets one be of them. */
static inline void write_file(const char *name, const void *bytes, size_t size)
{
	int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(descriptor, bytes, size), size);
	close(descriptor);
}

/* The file has these bytes, and is removed. */
static inline void assert_stored(const char *name, const void *bytes, size_t size)
{
	uint8_t *found = malloc(size + 1);
	int descriptor = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(found && descriptor >= 0);
	assert_int_equal(read(descriptor, found, size + 1), size);
	assert_memory_equal(found, bytes, size);
	close(descriptor);
	free(found);
	assert_int_equal(unlink(name), 0);
}

/* For a last test: in a group's teardown a failure would not be one of the program. */
static inline void assert_nothing_is_left(const char *folder)
{
	assert_int_equal(count_descriptors(), descriptors_before);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(folder), 0);
}

#endif
