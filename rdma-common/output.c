// SPDX-License-Identifier: MIT
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "clock.h"

/* Maximum time, in milliseconds, until a wait for a reader notices a cancellation. */
#define PATIENCE_MILLISECONDS 50
/* Maximum bytes of one write(2): small enough to show progress. */
#define PIECE_SIZE ((size_t)256 * 1024)
/* Bytes between two syncs: initial, minimum and maximum value. */
#define FIRST_SYNC ((uint64_t)1024 * 1024)
#define MIN_SYNC   ((uint64_t)256 * 1024)
#define MAX_SYNC   ((uint64_t)64 * 1024 * 1024) /* a disk may become slow suddenly */
/* Maximum number of symbolic links that the kernel follows (path_resolution(7)). */
#define LINKS 40
/* A temporary name, independent of the file's own, which may have the maximum length. */
#define TEMPORARY_NAME "/rdma-payload-%06x"
#define MAX_NAMES      100
/* Bytes for a path; the rest of PATH_MAX is room for a temporary name. */
#define PATH_SIZE (PATH_MAX - (int)sizeof("/rdma-payload-000000"))
/* The number of possible user or group ids: (uid_t)-1 is not an id. */
#define ALL_IDS     UINT32_MAX
#define OVERFLOW_ID 65534 /* the default overflow id (proc(5)) */
/* The extended attribute with the ACL of a file (acl(5)). */
#define ACL "system.posix_acl_access"

/* The place that a name stands for, after symbolic links are followed. */
struct place {
	char path[PATH_SIZE];
	char folder[PATH_SIZE]; /* the folder of `path` */
	bool is_open;   /* it is open already and is written to in place: only the kernel knows its
			   name */
	int descriptor; /* the descriptor of this process that the name stands for; -1: none */
	bool is_file;   /* a new file, or a regular one that is not open */
	struct stat about; /* attributes of the place, if it exists */
};

struct output {
	const atomic_bool *cancelled;
	atomic_bool *taken; /* shared by all outputs; NULL unless this output has set it */
	int descriptor;
	bool borrowed;                /* the descriptor was open before, and stays open */
	bool blocks;                  /* write(2) may block although poll(2) reports POLLOUT */
	bool syncs;                   /* the output is on a disk */
	uint64_t unsynced, sync_size; /* bytes since the last sync; limit that causes a sync */
	struct place place;
	char temporary_name[PATH_MAX]; /* name until the file gets its final name; empty: none */
};

/*
 * Set errno, and return -1. Functions of this file that return int do the same on failure, and
 * return 0 or a descriptor on success, unless their comment says otherwise.
 */
static int fail(int error)
{
	errno = error;
	return -1;
}

/* Return 0 if the file system does not support the call that returned `result`, else `result`. */
static int unless_unsupported(int result)
{
	bool unsupported = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;

	return result && unsupported ? 0 : result;
}

/*
 * Return 0 as unless_unsupported() does, and also if the call was denied: to this user (EPERM;
 * EACCES from NFSv4 and security modules), or for an id that this user namespace (EINVAL) or the
 * mount (EOVERFLOW) does not map.
 */
static int unless_refused(int result)
{
	bool refused = errno == EPERM || errno == EACCES || errno == EOVERFLOW;

	return result && refused ? 0 : unless_unsupported(result);
}

/* ---- Owners ---- */

/* Return the sum of the last numbers of a file's lines; `otherwise` if it cannot be read. */
static uint64_t add_last_numbers(const char *name, uint64_t otherwise)
{
	FILE *file = fopen(name, "re");
	uint64_t sum = 0;
	char line[64];

	if (!file)
		return otherwise;
	while (fgets(line, sizeof(line), file)) {
		const char *space = strrchr(line, ' ');

		sum += strtoull(space ? space + 1 : line, NULL, 10);
	}
	fclose(file);
	return sum;
}

/*
 * Return true if this id is the overflow id, and may stand for ids that this user namespace does
 * not map (user_namespaces(7)). Each line of `map` ends with the number of ids in a range. Where
 * all ids are mapped, the overflow id is an ordinary one.
 */
static bool is_unmapped(uint64_t id, const char *overflow, const char *map)
{
	return id == add_last_numbers(overflow, OVERFLOW_ID) && add_last_numbers(map, 0) < ALL_IDS;
}

static bool is_unmapped_user(uid_t user)
{
	return is_unmapped(user, "/proc/sys/kernel/overflowuid", "/proc/self/uid_map");
}

static bool is_unmapped_group(gid_t group)
{
	return is_unmapped(group, "/proc/sys/kernel/overflowgid", "/proc/self/gid_map");
}

/* ---- Names ---- */

/*
 * Check that no other user, except the folder's owner, has planted this file in a sticky folder
 * that others may write to: that user would get the payload through a FIFO or a link, or as the
 * owner of a replaced file. The kernel's rules leave gaps: protected_symlinks (proc(5)) does not
 * cover readlink(2), protected_fifos does not cover open(2) without O_CREAT, and the sticky bit
 * does not stop root's rename(2). Unmapped owners may differ although their numbers are equal.
 */
static int check_owner(const struct place *place, const struct stat *about)
{
	struct stat folder;

	if (stat(place->folder, &folder))
		return -1;
	if (!(folder.st_mode & S_ISVTX) || !(folder.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	if ((about->st_uid == geteuid() || about->st_uid == folder.st_uid) &&
	    !is_unmapped_user(about->st_uid))
		return 0;
	return fail(EPERM);
}

/*
 * Get the attributes of the name; do not follow a symbolic link. In a sticky folder the result
 * stays valid: only root, this user and the folder's owner can remove a file that check_owner()
 * allows. ENOENT: the name does not exist.
 */
static int inspect(const struct place *place, struct stat *about)
{
	return lstat(place->path, about) ? -1 : check_owner(place, about);
}

/*
 * Return true for a name in procfs, and set `is_open`; for a descriptor of this process also set
 * `descriptor`. A link in /proc/PID/fd leads to an open file (proc(5)), even if its text names
 * another file by now, or none. /dev/stdout and /dev/fd lead there, too.
 */
static bool is_proc_fd(struct place *place)
{
	const char *slash = strrchr(place->path, '/');
	char folder[PATH_MAX], own[PATH_MAX], of_thread[PATH_MAX];
	struct statfs about;
	uint64_t number;

	/* procfs may be mounted anywhere */
	if (statfs(place->folder, &about) || about.f_type != PROC_SUPER_MAGIC)
		return false;
	place->is_open = true;
	if (realpath(place->folder, folder) && realpath("/proc/self/fd", own) &&
	    realpath("/proc/thread-self/fd", of_thread) &&
	    (!strcmp(folder, own) || !strcmp(folder, of_thread)) &&
	    parse_number(slash ? slash + 1 : place->path, 0, INT_MAX, &number))
		place->descriptor = (int)number;
	return true;
}

/*
 * Follow symbolic links from `name`, even to a name that does not exist yet, and set `place`.
 * Unless the place is open, set `about`; its st_mode is 0 if the name does not exist.
 */
static int follow_links(const char *name, struct place *place)
{
	char target[PATH_MAX], path[PATH_SIZE];
	int used = snprintf(path, sizeof(path), "%s", name);

	place->is_open = is_standard_output(name);
	place->descriptor = place->is_open ? STDOUT_FILENO : -1;
	if (place->is_open)
		return 0;
	for (int links = 0; links <= LINKS && used < PATH_SIZE; links++) {
		ssize_t length;

		place->about.st_mode = 0;
		memcpy(place->path, path, sizeof(path));
		snprintf(place->folder, sizeof(place->folder), "%s", dirname(path));
		if (is_proc_fd(place))
			return 0;
		if (inspect(place, &place->about))
			return errno == ENOENT ? 0 : -1;
		if (!S_ISLNK(place->about.st_mode))
			return 0;
		length = readlink(place->path, target, PATH_MAX - 1);
		if (length < 0)
			return -1;
		target[length] = '\0';
		used = target[0] == '/'
			       ? snprintf(path, sizeof(path), "%s", target)
			       : snprintf(path, sizeof(path), "%s/%s", place->folder, target);
	}
	return fail(used < PATH_SIZE ? ELOOP : ENAMETOOLONG);
}

/* Find the place that the name stands for; fail if nothing can be stored there. */
static int find_place(const char *name, struct place *place)
{
	bool is_there;

	if (follow_links(name, place))
		return -1;
	if (place->is_open && (place->descriptor >= 0 ? fstat(place->descriptor, &place->about)
						      : stat(place->path, &place->about)))
		return -1;
	is_there = place->about.st_mode != 0;
	if (!is_there && !*name)
		return fail(ENOENT);
	/* no file can have the name of a folder, or a name that ends with '/' */
	if (is_there ? S_ISDIR(place->about.st_mode) : place->path[strlen(place->path) - 1] == '/')
		return fail(EISDIR);
	if (is_there && place->descriptor < 0 && S_ISSOCK(place->about.st_mode))
		return fail(ENXIO); /* the error of open(2) for a socket */
	place->is_file = !place->is_open && (!is_there || S_ISREG(place->about.st_mode));
	return 0;
}

/*
 * Return true if simultaneous payloads would mix. Devices such as /dev/null, whose major number is
 * 1 (null(4)), are not shared.
 */
static bool is_shared(const struct stat *about)
{
	return !S_ISCHR(about->st_mode) || major(about->st_rdev) != 1;
}

/*
 * Return true if `descriptor` is open on this place: by number, or as the same pipe, socket or
 * device (except /dev/null). A file counts only by number: its descriptors may have different
 * positions.
 */
static bool is_open_as(int descriptor, const struct place *place, const struct stat *file)
{
	struct stat about;

	if (place->descriptor == descriptor)
		return true;
	return !S_ISREG(file->st_mode) && is_shared(file) && !fstat(descriptor, &about) &&
	       about.st_dev == file->st_dev && about.st_ino == file->st_ino;
}

enum parsed output_resolve(struct options *options)
{
	const char *name = options->output;
	struct stat file;
	struct place place;
	int flags;

	if (!name || follow_links(name, &place) || !place.is_open)
		return PARSED_RUN;
	flags = place.descriptor >= 0 ? fcntl(place.descriptor, F_GETFL) : O_WRONLY;
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return usage_error(
			"--output '%s': descriptor %d is not open for writing; open it, or "
			"name a file",
			name, place.descriptor);
	if (is_standard_output(name) || stat(name, &file))
		return PARSED_RUN;
	if (is_open_as(STDOUT_FILENO, &place, &file))
		options->output = "-";
	else if (is_open_as(STDERR_FILENO, &place, &file))
		return usage_error(
			"--output '%s' is standard error, which carries the messages; name a "
			"file, or '-' for standard output",
			name);
	return PARSED_RUN;
}

const char *output_error(int error)
{
	switch (error) {
	case EBUSY:
		return "busy: it is a mount point, which no file can replace (mount its folder "
		       "instead), or a terminal in exclusive use";
	case EPERM:
		return "not permitted: the folder has the sticky bit and another user owns the file, "
		       "or the file or its folder is immutable or append-only ('lsattr'), or the "
		       "file is sealed; store in another folder";
	default:
		return strerror(error);
	}
}

/* ---- Before the transfer ---- */

/*
 * Check that a file of `size` bytes can be created in `folder`. access(2) also notices an immutable
 * folder.
 */
static int check_folder(const char *folder, uint64_t size)
{
	struct statvfs about;
	struct rlimit limit;
	fsblkcnt_t room;

	if (access(folder, W_OK | X_OK) || statvfs(folder, &about))
		return -1;
	if (size == OUTPUT_SIZE_UNKNOWN)
		return 0;
	/* root may use the reserved blocks */
	room = geteuid() == 0 ? about.f_bfree : about.f_bavail;
	/* some file systems in memory do not know their number of blocks */
	if (about.f_blocks > 0 && about.f_frsize > 0 && room < size / about.f_frsize)
		return fail(ENOSPC);
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size)
		return fail(EFBIG);
	return 0;
}

/* Fail if statx(2) shows that output_commit() could not give the file this name. */
static int check_name(const struct place *place)
{
	const uint64_t immutable = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND;
	struct statx file, folder;
	uid_t user = geteuid();

	if (statx(AT_FDCWD, place->folder, 0, STATX_BASIC_STATS, &folder) ||
	    statx(AT_FDCWD, place->path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &file))
		return 0;
	if (file.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return fail(EBUSY);
	if ((file.stx_attributes | folder.stx_attributes) & immutable)
		return fail(EPERM);
	/* the kernel's rule for sticky folders (unlink(2), EPERM) */
	if (folder.stx_mode & S_ISVTX && user != 0 && file.stx_uid != user &&
	    folder.stx_uid != user)
		return fail(EPERM);
	return 0;
}

int output_check(const char *name, uint64_t size)
{
	struct place place;

	if (find_place(name, &place))
		return -1;
	if (place.is_file)
		return check_folder(place.folder, size) ? -1 : check_name(&place);
	return place.descriptor >= 0 ? 0 : access(place.path, W_OK);
}

/* ---- Pipes, terminals and devices ---- */

static bool is_cancelled(const atomic_bool *cancelled)
{
	if (!atomic_load(cancelled))
		return false;
	errno = ECANCELED;
	return true;
}

/*
 * Wait up to PATIENCE_MILLISECONDS until `descriptor` is ready for write(2); return true if it is.
 * If `descriptor` is -1, wait for the whole time.
 */
static bool wait_for_reader(int descriptor)
{
	struct pollfd ready = { .fd = descriptor, .events = POLLOUT };

	return poll(&ready, 1, PATIENCE_MILLISECONDS) > 0;
}

/* Wait until no other output of this process writes to a shared place, and set `*taken`. */
static int lock_output(struct output *output, atomic_bool *taken)
{
	while (atomic_exchange(taken, true)) {
		if (is_cancelled(output->cancelled))
			return -1;
		wait_for_reader(-1);
	}
	output->taken = taken;
	return 0;
}

/*
 * Open a device, or a pipe once it has a reader. Check the opened file, because another one may
 * have the name by now.
 */
static int open_special(const struct place *place, const atomic_bool *cancelled)
{
	/* links are resolved, except a link below /proc/PID/fd to an open file */
	int flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | (place->is_open ? 0 : O_NOFOLLOW);
	int descriptor, error;
	struct stat about;

	while ((descriptor = open(place->path, flags)) < 0) {
		/* ENXIO: a pipe has no reader yet; a socket never has one (open(2)) */
		if (errno != ENXIO || !S_ISFIFO(place->about.st_mode) || is_cancelled(cancelled))
			return -1;
		wait_for_reader(-1);
	}
	if (place->is_open || (!fstat(descriptor, &about) && !check_owner(place, &about)))
		return descriptor;
	error = errno;
	close(descriptor);
	return fail(error);
}

/*
 * Use an open descriptor, and return the one to write to. Open a pipe or a terminal again, so that
 * write(2) cannot block and no other process finds the descriptor non-blocking. If that is denied,
 * as after sudo(8), or for a socket, write only PIPE_BUF bytes at a time, which a pipe or a socket
 * accepts after POLLOUT (pipe(7)).
 */
static int open_again(struct output *output, int descriptor)
{
	mode_t mode = output->place.about.st_mode;
	char name[32];
	int own;

	output->borrowed = true;
	if (!S_ISSOCK(mode) && !S_ISFIFO(mode) && !isatty(descriptor))
		return descriptor;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
	own = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	output->borrowed = output->blocks = own < 0;
	return output->blocks ? descriptor : own;
}

/* ---- A file ---- */

/*
 * Call `claim` with random names in output->temporary_name until one is free, at most MAX_NAMES
 * times. On failure temporary_name is empty.
 */
static int claim_temporary_name(struct output *output, int (*claim)(const struct output *output))
{
	int result = -1;

	for (int i = 0; i < MAX_NAMES; i++) {
		unsigned int number = (unsigned int)i; /* used if getrandom(2) fails */

		getrandom(&number, sizeof(number), GRND_NONBLOCK);
		snprintf(output->temporary_name, sizeof(output->temporary_name),
			 "%s" TEMPORARY_NAME, output->place.folder, number & 0xffffff);
		result = claim(output);
		if (result >= 0 || errno != EEXIST)
			break;
	}
	if (result < 0)
		output->temporary_name[0] = '\0';
	return result;
}

/*
 * Return the mode of a new file, which umask(2) or the folder's ACL restricts. A file that replaces
 * another one is private until it gets that file's mode, which may be denied.
 */
static mode_t new_mode(const struct output *output)
{
	return output->place.about.st_mode ? 0600 : 0666;
}

static int create_temporary(const struct output *output)
{
	return open(output->temporary_name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
		    new_mode(output));
}

/*
 * Create a file without a name, so that nothing is left however this process ends; if that is
 * impossible, with a temporary name.
 */
static int create_file(struct output *output)
{
	int flags = O_TMPFILE | O_WRONLY | O_CLOEXEC, descriptor;

	if (!access("/proc/self/fd", X_OK)) { /* link_as() needs it to give the file a name */
		descriptor = open(output->place.folder, flags, new_mode(output));
		if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
			return descriptor;
	}
	return claim_temporary_name(output, create_temporary);
}

/*
 * Copy the ACL of the replaced file; if it has none, remove that of the new one. Return false if
 * that fails: the mode's group bits may then be a mask (acl(5)), not the rights of the group.
 */
static bool copy_acl(const struct output *output)
{
	char acl[PATH_MAX];
	ssize_t size = lgetxattr(output->place.path, ACL, acl, sizeof(acl));

	if (size >= 0)
		return !fsetxattr(output->descriptor, ACL, acl, (size_t)size, 0);
	if (errno == ENODATA && !fremovexattr(output->descriptor, ACL))
		return true;
	return errno == ENODATA || errno == EOPNOTSUPP;
}

/*
 * Copy the attributes of a replaced regular file, as output_commit() promises. Set the owner last:
 * a file of another user cannot be changed.
 */
static int set_attributes(const struct output *output)
{
	const uid_t same_owner = (uid_t)-1;
	const gid_t same_group = (gid_t)-1;
	int descriptor = output->descriptor;
	struct stat before, about;
	uid_t owner;
	gid_t group;
	mode_t mode;

	if (inspect(&output->place, &before))
		return errno == ENOENT ? 0 : -1;
	if (!S_ISREG(before.st_mode))
		return 0;
	owner = is_unmapped_user(before.st_uid) ? same_owner : before.st_uid;
	group = is_unmapped_group(before.st_gid) ? same_group : before.st_gid;
	if (unless_refused(fchown(descriptor, same_owner, group)) || fstat(descriptor, &about))
		return -1;
	mode = before.st_mode & 0777; /* not set-user-ID or set-group-ID: the contents differ */
	if (!copy_acl(output) || about.st_gid != group)
		mode &= ~(mode_t)S_IRWXG;
	return unless_refused(fchmod(descriptor, mode)) ||
			       unless_refused(fchown(descriptor, owner, same_group))
		       ? -1
		       : 0;
}

/* Give the unnamed file the name `name`; linkat(2) never replaces a file. */
static int link_as(const struct output *output, const char *name)
{
	char source[32];

	snprintf(source, sizeof(source), "/proc/self/fd/%d", output->descriptor);
	return linkat(AT_FDCWD, source, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static int link_temporary(const struct output *output)
{
	return link_as(output, output->temporary_name);
}

/* Give the unnamed file its final name, or a temporary one if the final name is taken. */
static int link_file(struct output *output)
{
	if (!link_as(output, output->place.path))
		return 0;
	return errno == EEXIST ? claim_temporary_name(output, link_temporary) : -1;
}

/*
 * Give the complete file its final name. Replace a file of that name, unless another user has
 * planted it.
 */
static int name_file(struct output *output)
{
	const struct place *place = &output->place;
	struct stat about;

	if (!output->temporary_name[0] && link_file(output))
		return -1;
	if (!output->temporary_name[0])
		return 0;
	if ((inspect(place, &about) && errno != ENOENT) ||
	    rename(output->temporary_name, place->path))
		return -1;
	output->temporary_name[0] = '\0';
	return 0;
}

/* ---- Syncing ---- */

/* Sync the folder, so that the name is durable, too (fsync(2)). */
static int sync_folder(const struct output *output)
{
	int descriptor = open(output->place.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error;

	if (descriptor < 0) /* write access does not imply read access */
		return unless_unsupported(syncfs(output->descriptor));
	error = unless_unsupported(fsync(descriptor)) ? errno : 0;
	close(descriptor);
	return error ? fail(error) : 0;
}

/* Count written bytes. Sync after as many bytes as the disk writes in about a second. */
static int sync_as_it_goes(struct output *output, size_t written)
{
	int64_t started, milliseconds;

	output->unsynced += written;
	if (output->unsynced < output->sync_size)
		return 0;
	started = now_milliseconds();
	if (unless_unsupported(fdatasync(output->descriptor)))
		return -1;
	milliseconds = now_milliseconds() - started;
	if (milliseconds <= 500 && output->sync_size < MAX_SYNC)
		output->sync_size *= 2;
	else if (milliseconds > 1500 && output->sync_size > MIN_SYNC)
		output->sync_size /= 2;
	output->unsynced = 0;
	return 0;
}

/* ---- From the first byte to the last ---- */

static int open_descriptor(struct output *output, atomic_bool *taken, const char *name)
{
	struct place *place = &output->place;
	mode_t mode;

	if (find_place(name, place))
		return -1;
	mode = place->about.st_mode;
	output->syncs = place->is_file || S_ISREG(mode) || S_ISBLK(mode);
	if (place->is_file)
		return create_file(output);
	if (is_shared(&place->about) && lock_output(output, taken))
		return -1;
	if (place->descriptor >= 0)
		return open_again(output, place->descriptor);
	return open_special(place, output->cancelled);
}

/*
 * Close and free the output, and remove a temporary name. Return 0, or the errno value of close(2).
 */
static int release(struct output *output)
{
	int error = 0;

	if (output->temporary_name[0])
		unlink(output->temporary_name);
	if (output->descriptor >= 0 && !output->borrowed && close(output->descriptor))
		error = errno;
	if (output->taken)
		atomic_store(output->taken, false);
	free(output);
	return error;
}

struct output *output_open(atomic_bool *taken, const char *name, const atomic_bool *cancelled)
{
	struct output *output = calloc(1, sizeof(*output));
	int error;

	if (!output)
		return NULL;
	output->cancelled = cancelled;
	output->sync_size = FIRST_SYNC;
	output->descriptor = open_descriptor(output, taken, name);
	if (output->descriptor >= 0)
		return output;
	error = errno;
	release(output);
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
		/* ask first: a write(2) that blocks cannot be cancelled */
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

/* Sync the output. Give a file its name only afterwards, so that no reader sees a part. */
static int finish_output(struct output *output)
{
	if (!output->place.is_file)
		return output->syncs ? unless_unsupported(fsync(output->descriptor)) : 0;
	return is_cancelled(output->cancelled) || set_attributes(output) ||
			       unless_unsupported(fsync(output->descriptor)) ||
			       is_cancelled(output->cancelled) || name_file(output) ||
			       sync_folder(output)
		       ? -1
		       : 0;
}

int output_commit(struct output *output)
{
	bool is_file = output->place.is_file;
	int error = finish_output(output) ? errno : 0;
	int closing = release(output);

	/* a file has its name and is synced: close(2) cannot lose anything now */
	if (!error && !is_file)
		error = closing;
	return error ? fail(error) : 0;
}

void output_abandon(struct output *output)
{
	if (output)
		release(output);
}
