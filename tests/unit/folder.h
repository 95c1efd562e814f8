/* SPDX-License-Identifier: MIT */
/*
 * The temporary folder of the tests that use files. The tests must leave it empty. Include this
 * after unit.h.
 */
#ifndef UNIT_FOLDER_H
#define UNIT_FOLDER_H

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>

static char folder[] = "/tmp/unit-test.XXXXXX"; /* the path, after enter_folder() */
static int descriptors_before;                  /* count_descriptors() before the tests */

/* Return the number of open descriptors plus a constant, to compare with another count. */
static inline int count_descriptors(void)
{
	DIR *open_ones = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(open_ones))
		count++;
	closedir(open_ones);
	return count;
}

/* Make the temporary folder and change to it. Return 0 or -1. */
static inline int enter_folder(UNUSED void **state)
{
	descriptors_before = count_descriptors();
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static inline int remove_entry(const char *path, UNUSED const struct stat *about, UNUSED int type,
			       struct FTW *walk)
{
	return walk->level > 0 ? remove(path) : 0;
}

static inline int empty_folder(UNUSED void **state)
{
	return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Create the parent folders of `path`. */
static inline void make_folders(const char *path)
{
	char above[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		mkdir(above, 0700);
	}
}

/*
 * Create or replace the file `path` with this text, in folders that need not exist. If `text` is
 * NULL, remove the file.
 */
static inline void put(const char *path, const char *text)
{
	FILE *file;

	if (!text) {
		assert_int_equal(remove(path), 0);
		return;
	}
	make_folders(path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static inline void write_file(const char *name, const void *bytes, size_t size)
{
	int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(descriptor, bytes, size), size);
	close(descriptor);
}

/* Check that the file has exactly these bytes, and remove it. */
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

/*
 * Check that no open descriptor and no file is left, and remove the folder. Call this in the last
 * test: the program does not fail if a group teardown of cmocka fails.
 */
static inline void assert_no_files_or_descriptors_are_left(void)
{
	assert_int_equal(count_descriptors(), descriptors_before);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(folder), 0);
}

#endif
