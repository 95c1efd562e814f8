// SPDX-License-Identifier: MIT
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "options.h"

/* The time after which a wait for a reader notices that it is cancelled. */
#define PATIENCE_MILLISECONDS 50
/* Bytes that are written at a time, so that the writing is seen to move. */
#define PIECE_SIZE ((uint64_t)1024 * 1024)
/* As many symbolic links as the kernel follows (path_resolution(7)). */
#define LINKS 40

/* A file that is being written: it has no name yet, or a temporary one. */
struct new_file {
	char folder[PATH_MAX];
	char name[PATH_MAX];           /* the final one, in that folder */
	char temporary_name[PATH_MAX]; /* empty: none */
	int descriptor;
};

/* Follows symbolic links, also to what does not exist yet, into `file`. 0 or -1 with errno. */
static int follow_links(const char *name, struct new_file *file)
{
	char target[PATH_MAX], path[PATH_MAX];
	int used = snprintf(path, sizeof(path), "%s", name);

	for (int links = 0; links < LINKS && used < PATH_MAX; links++) {
		ssize_t length = readlink(path, target, sizeof(target) - 1);

		snprintf(file->name, sizeof(file->name), "%s", path);
		snprintf(file->folder, sizeof(file->folder), "%s", dirname(path));
		if (length < 0) /* no link */
			return 0;
		target[length] = '\0';
		if (target[0] == '/')
			used = snprintf(path, sizeof(path), "%s", target);
		else
			used = snprintf(path, sizeof(path), "%s/%s", file->folder, target);
	}
	errno = used < PATH_MAX ? ELOOP : ENAMETOOLONG;
	return -1;
}

/* ---- Before the transfer ---- */

/* Checks that a file of `size` bytes can be created in `folder`. 0 or -1 with errno. */
static int check_folder(const char *folder, uint64_t size)
{
	struct rlimit limit;
	struct statvfs about;

	if (access(folder, W_OK | X_OK) || statvfs(folder, &about))
		return -1;
	if (about.f_bavail < size / about.f_frsize) {
		errno = ENOSPC;
		return -1;
	}
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size) {
		errno = EFBIG;
		return -1;
	}
	return 0;
}

int output_check(const char *name, uint64_t size)
{
	size_t length = strlen(name);
	struct new_file file;
	struct stat about;
	bool exists;

	if (is_standard_output(name))
		return 0;
	exists = !stat(name, &about);
	if (exists && !S_ISREG(about.st_mode)) {
		errno = EISDIR;
		return S_ISDIR(about.st_mode) ? -1 : access(name, W_OK);
	}
	if ((!exists && errno != ENOENT) || length == 0)
		return -1;
	if (name[length - 1] == '/') {
		errno = EISDIR;
		return -1;
	}
	return follow_links(name, &file) ? -1 : check_folder(file.folder, size);
}

mode_t output_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/* ---- Writing ---- */

/*
 * Lets a little time pass, or less if `descriptor` (-1: none) can be written to. 0, or -1 with
 * errno ECANCELED.
 */
static int wait_for_reader(int descriptor, struct output_control *control)
{
	struct pollfd ready = { .fd = descriptor, .events = POLLOUT };

	if (atomic_load(&control->cancelled)) {
		errno = ECANCELED;
		return -1;
	}
	poll(&ready, 1, PATIENCE_MILLISECONDS);
	return 0;
}

static int write_fully(int descriptor, const uint8_t *bytes, uint64_t size,
		       struct output_control *control)
{
	while (size > 0) {
		ssize_t count;

		/* first: a terminal or a pipe that blocks cannot be cancelled in write(2) */
		if (wait_for_reader(descriptor, control))
			return -1;
		count = write(descriptor, bytes, size < PIECE_SIZE ? size : PIECE_SIZE);
		if (count < 0 && errno != EINTR && errno != EAGAIN)
			return -1;
		if (count > 0) {
			bytes += count;
			size -= (uint64_t)count;
			atomic_fetch_add(&control->progress, (uint64_t)count);
		}
	}
	return 0;
}

/* Writes to what stands there already and is no file: a device, or a pipe once it has a reader. */
static int write_to_special(const char *name, const uint8_t *bytes, uint64_t size,
			    struct output_control *control)
{
	int descriptor, result;

	while ((descriptor = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
		if (errno != ENXIO || wait_for_reader(-1, control)) /* ENXIO: no reader yet */
			return -1;
	}
	result = write_fully(descriptor, bytes, size, control);
	return close(descriptor) ? -1 : result;
}

/*
 * Writes to standard output. A pipe or a terminal is opened once more, so that what does not take
 * the bytes cannot hold up this thread in write(2), and nobody else finds it non-blocking.
 */
static int write_to_standard_output(const uint8_t *bytes, uint64_t size,
				    struct output_control *control)
{
	struct stat about;

	if (!fstat(STDOUT_FILENO, &about) && (S_ISFIFO(about.st_mode) || isatty(STDOUT_FILENO)))
		return write_to_special("/proc/self/fd/1", bytes, size, control);
	return write_fully(STDOUT_FILENO, bytes, size, control);
}

/* ---- A file ---- */

/* A temporary name beside the final one; what mkostemp(3) makes of it is unique. */
static int name_temporarily(struct new_file *file)
{
	if (snprintf(file->temporary_name, sizeof(file->temporary_name), "%s.XXXXXX", file->name) <
	    (int)sizeof(file->temporary_name))
		return 0;
	file->temporary_name[0] = '\0';
	errno = ENAMETOOLONG;
	return -1;
}

/* Opens it without a name, or under a temporary one where the file system cannot do that. */
static int create_file(struct new_file *file)
{
	file->temporary_name[0] = '\0';
	file->descriptor = open(file->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (file->descriptor >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -1;
	if (name_temporarily(file))
		return -1;
	file->descriptor = mkostemp(file->temporary_name, O_CLOEXEC);
	return file->descriptor < 0 ? -1 : 0;
}

/* Gives it the mode and owner of the file that it replaces, or else the mode of a new one. */
static int set_attributes(const struct new_file *file, mode_t mode)
{
	struct stat about;

	if (!stat(file->name, &about)) {
		mode = about.st_mode & 07777;
		if (fchown(file->descriptor, about.st_uid, about.st_gid) && errno != EPERM)
			return -1;
	}
	return fchmod(file->descriptor, mode);
}

/* Gives a file without a name one: the final one, or a temporary one if that is taken. */
static int link_file(struct new_file *file)
{
	char source[64];
	int placeholder;

	snprintf(source, sizeof(source), "/proc/self/fd/%d", file->descriptor);
	if (!linkat(AT_FDCWD, source, AT_FDCWD, file->name, AT_SYMLINK_FOLLOW))
		return 0;
	if (errno != EEXIST || name_temporarily(file))
		return -1;
	placeholder = mkostemp(file->temporary_name, O_CLOEXEC); /* finds a name that is free */
	if (placeholder < 0) {
		file->temporary_name[0] = '\0';
		return -1;
	}
	close(placeholder);
	if (unlink(file->temporary_name))
		return -1;
	return linkat(AT_FDCWD, source, AT_FDCWD, file->temporary_name, AT_SYMLINK_FOLLOW);
}

/* Makes it the file of its name, once it is whole and on the disk. */
static int name_file(struct new_file *file)
{
	if (fsync(file->descriptor) && errno != EINVAL) /* of a file system that cannot */
		return -1;
	if (!file->temporary_name[0] && link_file(file))
		return -1;
	if (!file->temporary_name[0])
		return 0;
	if (rename(file->temporary_name, file->name))
		return -1;
	file->temporary_name[0] = '\0';
	return 0;
}

/* Writes a file; if anything fails, none is left. */
static int write_file(const char *name, mode_t mode, const uint8_t *bytes, uint64_t size,
		      struct output_control *control)
{
	struct new_file file;
	int result, error;

	if (follow_links(name, &file) || create_file(&file))
		return -1;
	result = write_fully(file.descriptor, bytes, size, control);
	if (!result)
		result = set_attributes(&file, mode);
	if (!result)
		result = name_file(&file);
	error = errno;
	if (file.temporary_name[0])
		unlink(file.temporary_name);
	if (close(file.descriptor) && !result) {
		result = -1;
		error = errno;
	}
	errno = error;
	return result;
}

int output_store(const char *name, mode_t mode, const uint8_t *bytes, uint64_t size,
		 struct output_control *control)
{
	struct stat about;

	if (is_standard_output(name))
		return write_to_standard_output(bytes, size, control);
	if (!stat(name, &about) && !S_ISREG(about.st_mode))
		return write_to_special(name, bytes, size, control);
	return write_file(name, mode, bytes, size, control);
}
