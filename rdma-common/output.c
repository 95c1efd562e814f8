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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "options.h"
#include "process.h"

/* The time after which a wait for a reader notices that it is cancelled. */
#define PATIENCE_MILLISECONDS 50
/* Bytes that are written at a time, so that the writing is seen to move. */
#define PIECE_SIZE ((size_t)256 * 1024)
/* Bytes that are written before they are synced: at first, at least, and at most. */
#define FIRST_SYNC    ((uint64_t)1024 * 1024)
#define SMALLEST_SYNC ((uint64_t)256 * 1024)
#define LARGEST_SYNC  ((uint64_t)64 * 1024 * 1024) /* a disk may become slow all of a sudden */
/* As many symbolic links as the kernel follows (path_resolution(7)). */
#define LINKS 40

/* Where a file shall stand. */
struct place {
	char folder[PATH_MAX];
	char name[PATH_MAX]; /* in that folder */
};

/* Somebody stores in what cannot be stored in twice at a time. A program has one such output. */
static atomic_bool taken;

struct output {
	const atomic_bool *cancelled;
	int descriptor;
	bool alone;  /* it is the one that has taken it */
	bool blocks; /* write(2) may, where poll(2) does not say that it is ready */
	bool syncs;  /* it has a disk */
	uint64_t unsynced, sync_size; /* bytes since the last sync, and how many may become */
	/* A file, which gets its name in the end; of anything else the rest means nothing. */
	bool is_file;
	mode_t mode; /* unless it replaces one */
	struct place place;
	char temporary_name[PATH_MAX]; /* empty: it has none */
};

/* Follows symbolic links, also to what does not exist yet, into `place`. 0 or -1 with errno. */
static int follow_links(const char *name, struct place *place)
{
	char target[PATH_MAX], path[PATH_MAX];
	int used = snprintf(path, sizeof(path), "%s", name);

	for (int links = 0; links <= LINKS && used < PATH_MAX; links++) {
		ssize_t length = readlink(path, target, sizeof(target) - 1);

		snprintf(place->name, sizeof(place->name), "%s", path);
		snprintf(place->folder, sizeof(place->folder), "%s", dirname(path));
		if (length < 0) /* no link */
			return 0;
		target[length] = '\0';
		if (target[0] == '/')
			used = snprintf(path, sizeof(path), "%s", target);
		else
			used = snprintf(path, sizeof(path), "%s/%s", place->folder, target);
	}
	errno = used < PATH_MAX ? ELOOP : ENAMETOOLONG;
	return -1;
}

/* ---- Before the transfer ---- */

/* Checks that a file of `size` bytes, if that is known, can be created in `folder`. 0 or -1 with
 * errno. */
static int check_folder(const char *folder, uint64_t size)
{
	struct rlimit limit;
	struct statvfs about;

	if (access(folder, W_OK | X_OK) || statvfs(folder, &about))
		return -1;
	if (size == OUTPUT_SIZE_UNKNOWN)
		return 0;
	/* some file systems in memory do not know how many blocks they have */
	if (about.f_blocks > 0 && about.f_frsize > 0 && about.f_bavail < size / about.f_frsize) {
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
	struct place place;
	struct stat about;
	bool exists;

	if (is_standard_output(name))
		return 0;
	exists = !stat(name, &about);
	if (exists && !S_ISREG(about.st_mode)) {
		errno = S_ISDIR(about.st_mode) ? EISDIR : ENXIO;
		return S_ISDIR(about.st_mode) || S_ISSOCK(about.st_mode) ? -1 : access(name, W_OK);
	}
	if ((!exists && errno != ENOENT) || length == 0)
		return -1;
	if (name[length - 1] == '/') {
		errno = EISDIR;
		return -1;
	}
	return follow_links(name, &place) ? -1 : check_folder(place.folder, size);
}

mode_t output_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/* ---- What is no file ---- */

static bool is_cancelled(const atomic_bool *cancelled)
{
	if (!atomic_load(cancelled))
		return false;
	errno = ECANCELED;
	return true;
}

/* Lets a little time pass, or less and true if `descriptor` (-1: none) can be written to. */
static bool wait_for_reader(int descriptor)
{
	struct pollfd ready = { .fd = descriptor, .events = POLLOUT };

	return poll(&ready, 1, PATIENCE_MILLISECONDS) > 0;
}

/* Several payloads at a time would be mixed up in it. Devices like /dev/null, whose major number is
 * 1 (null(4)), do not mind. */
static bool is_shared(const struct stat *about)
{
	return !S_ISCHR(about->st_mode) || major(about->st_rdev) != 1;
}

/* Waits until nobody else stores there. 0 or -1 with errno. */
static int take_turn(struct output *output)
{
	while (atomic_exchange(&taken, true)) {
		if (is_cancelled(output->cancelled))
			return -1;
		wait_for_reader(-1);
	}
	output->alone = true;
	return 0;
}

/* A device, or a pipe once it has a reader. The descriptor, or -1 with errno. */
static int open_special(const char *name, bool is_pipe, const atomic_bool *cancelled)
{
	int descriptor;

	while ((descriptor = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
		/* ENXIO: a pipe has no reader yet; a socket has none ever (open(2)) */
		if (errno != ENXIO || !is_pipe || is_cancelled(cancelled))
			return -1;
		wait_for_reader(-1);
	}
	return descriptor;
}

/*
 * Standard output. A pipe or a terminal is opened once more, so that what does not take the bytes
 * cannot hold up this thread in write(2), and nobody else finds it non-blocking. Where this user
 * may not do that, as with sudo(8), and where it is a socket, no more is written at a time than a
 * pipe or a socket that poll(2) has found ready takes (pipe(7)).
 */
static int open_standard_output(struct output *output, const struct stat *about)
{
	int descriptor;

	if (S_ISFIFO(about->st_mode) || isatty(STDOUT_FILENO)) {
		descriptor = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (descriptor < 0 && errno == ENXIO)
			errno = EPIPE; /* it had a reader, which does not come back */
		if (descriptor >= 0 || errno == EPIPE)
			return descriptor;
	} else if (!S_ISSOCK(about->st_mode)) {
		return STDOUT_FILENO;
	}
	output->blocks = true;
	return STDOUT_FILENO;
}

/* ---- A file ---- */

/* A temporary name beside the final one, which may be as long as a name can be; what mkostemp(3)
 * makes of it is unique. */
static int name_temporarily(struct output *output)
{
	if (snprintf(output->temporary_name, sizeof(output->temporary_name),
		     "%s/rdma-payload-XXXXXX",
		     output->place.folder) < (int)sizeof(output->temporary_name))
		return 0;
	output->temporary_name[0] = '\0';
	errno = ENAMETOOLONG;
	return -1;
}

/* Creates a file under a temporary name. Its descriptor, or -1 with errno and without a name. */
static int create_temporary(struct output *output)
{
	int descriptor;

	if (name_temporarily(output))
		return -1;
	descriptor = mkostemp(output->temporary_name, O_CLOEXEC);
	if (descriptor < 0)
		output->temporary_name[0] = '\0';
	return descriptor;
}

/* Opens it without a name, or under a temporary one where the file system cannot do that. */
static int create_file(struct output *output)
{
	int descriptor = open(output->place.folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return descriptor;
	return create_temporary(output);
}

/* Gives it the mode and owner of the file that it replaces, or else the mode of a new one. */
static int set_attributes(const struct output *output)
{
	mode_t mode = output->mode;
	struct stat about;

	if (!stat(output->place.name, &about)) {
		mode = about.st_mode & 07777;
		if (fchown(output->descriptor, about.st_uid, about.st_gid)) {
			/* EINVAL: this user namespace does not know the owner */
			if (errno != EPERM && errno != EINVAL)
				return -1;
			mode &= ~(mode_t)(S_ISUID | S_ISGID); /* they were the owner's to give */
		}
	}
	return fchmod(output->descriptor, mode);
}

/* Gives a file without a name one: the final one, or a temporary one if that is taken. */
static int link_file(struct output *output)
{
	char source[64];
	int placeholder;

	snprintf(source, sizeof(source), "/proc/self/fd/%d", output->descriptor);
	if (!linkat(AT_FDCWD, source, AT_FDCWD, output->place.name, AT_SYMLINK_FOLLOW))
		return 0;
	if (errno != EEXIST)
		return -1;
	placeholder = create_temporary(output); /* finds a name that is free */
	if (placeholder < 0)
		return -1;
	close(placeholder);
	if (unlink(output->temporary_name))
		return -1;
	return linkat(AT_FDCWD, source, AT_FDCWD, output->temporary_name, AT_SYMLINK_FOLLOW);
}

/* Makes it the file of its name. */
static int name_file(struct output *output)
{
	if (!output->temporary_name[0] && link_file(output))
		return -1;
	if (!output->temporary_name[0])
		return 0;
	if (rename(output->temporary_name, output->place.name))
		return -1;
	output->temporary_name[0] = '\0';
	return 0;
}

/* ---- Syncing ---- */

/* The result of fsync(2) or fdatasync(2), which some file systems do not have. */
static int sync_result(int result)
{
	return result && errno == EINVAL ? 0 : result;
}

/*
 * How many bytes take about a second to sync, if `bytes` took so long. No more than twice as many:
 * the first ones of a disk may have gone into its cache.
 */
static uint64_t next_sync(uint64_t bytes, int64_t milliseconds)
{
	uint64_t next = bytes / (uint64_t)(milliseconds + 1) * 1000;

	if (next > 2 * bytes)
		next = 2 * bytes;
	if (next > LARGEST_SYNC)
		return LARGEST_SYNC;
	return next < SMALLEST_SYNC ? SMALLEST_SYNC : next;
}

/* Counts bytes that were written, and syncs them when there are enough. 0 or -1 with errno. */
static int sync_as_it_goes(struct output *output, size_t written)
{
	int64_t started;

	output->unsynced += written;
	if (output->unsynced < output->sync_size)
		return 0;
	started = now_milliseconds();
	if (sync_result(fdatasync(output->descriptor)))
		return -1;
	output->sync_size = next_sync(output->unsynced, now_milliseconds() - started);
	output->unsynced = 0;
	return 0;
}

/* ---- From the first byte to the last ---- */

static int open_descriptor(struct output *output, const char *name)
{
	bool standard = is_standard_output(name);
	struct stat about;
	bool exists = !(standard ? fstat(STDOUT_FILENO, &about) : stat(name, &about));

	if (!standard && (!exists || S_ISREG(about.st_mode))) {
		output->is_file = output->syncs = true;
		return follow_links(name, &output->place) ? -1 : create_file(output);
	}
	output->syncs = exists && (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode));
	if (exists && is_shared(&about) && take_turn(output))
		return -1;
	if (!standard)
		return open_special(name, S_ISFIFO(about.st_mode), output->cancelled);
	return exists ? open_standard_output(output, &about) : STDOUT_FILENO;
}

/* Somebody else may store there. */
static void end_turn(const struct output *output)
{
	if (output->alone)
		atomic_store(&taken, false);
}

struct output *output_open(const char *name, mode_t mode, const atomic_bool *cancelled)
{
	struct output *output = calloc(1, sizeof(*output));
	int error;

	if (!output)
		return NULL;
	output->mode = mode;
	output->cancelled = cancelled;
	output->sync_size = FIRST_SYNC;
	output->descriptor = open_descriptor(output, name);
	if (output->descriptor >= 0)
		return output;
	error = errno;
	end_turn(output);
	free(output);
	errno = error;
	return NULL;
}

ssize_t output_write(struct output *output, const uint8_t *bytes, size_t size)
{
	size_t most = output->blocks ? PIPE_BUF : PIECE_SIZE;
	ssize_t count = 0;

	if (size > most)
		size = most;
	do {
		if (is_cancelled(output->cancelled))
			return -1;
		/* first: a terminal or a pipe that blocks cannot be cancelled in write(2) */
		if (!wait_for_reader(output->descriptor) && output->blocks)
			continue;
		count = write(output->descriptor, bytes, size);
		if (count < 0 && errno != EINTR && errno != EAGAIN)
			return -1;
	} while (count <= 0);
	if (output->syncs && sync_as_it_goes(output, (size_t)count))
		return -1;
	return count;
}

/* A file: whole and on the disk, then its name; nobody sees less. */
static int finish(struct output *output)
{
	if (!output->is_file)
		return output->syncs ? sync_result(fsync(output->descriptor)) : 0;
	if (is_cancelled(output->cancelled) || set_attributes(output) ||
	    sync_result(fsync(output->descriptor)) || is_cancelled(output->cancelled))
		return -1;
	return name_file(output);
}

/* Closes and frees it; a temporary name goes. 0 or -1 with errno. */
static int release(struct output *output)
{
	int result = 0, error;

	if (output->temporary_name[0])
		unlink(output->temporary_name);
	if (output->descriptor != STDOUT_FILENO)
		result = close(output->descriptor);
	error = errno;
	end_turn(output);
	free(output);
	errno = error;
	return result;
}

int output_commit(struct output *output)
{
	int error;

	if (!finish(output))
		return release(output);
	error = errno;
	release(output);
	errno = error;
	return -1;
}

void output_abandon(struct output *output)
{
	if (output)
		release(output);
}
