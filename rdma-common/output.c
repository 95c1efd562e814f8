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
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "clock.h"

/* ---- Functions and constants of Linux that musl lacks ---- */

#ifndef STATX_BASIC_STATS /* musl before 1.2.5 */
#include <linux/stat.h>

static int statx(int folder, const char *name, int flags, unsigned int mask, struct statx *about)
{
	return (int)syscall(SYS_statx, folder, name, flags, mask, about);
}
#endif

#ifndef STATX_ATTR_MOUNT_ROOT /* musl 1.2.5, which has the rest of statx(2) */
#define STATX_ATTR_IMMUTABLE  0x10
#define STATX_ATTR_APPEND     0x20
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

#ifndef RENAME_NOREPLACE /* musl before 1.2.5 */
#include <linux/fs.h>

static int renameat2(int folder, const char *from, int to_folder, const char *to,
		     unsigned int flags)
{
	return (int)syscall(SYS_renameat2, folder, from, to_folder, to, flags);
}
#endif

/* ---- Limits ---- */

/* Maximum time, in milliseconds, until a wait for a reader notices a cancellation. */
#define PATIENCE_MILLISECONDS 50
/* Maximum bytes of one write(2): small enough to show progress. */
#define PIECE_SIZE ((size_t)256 * 1024)
/* Bytes between two syncs: initial, minimum and maximum value. */
#define FIRST_SYNC ((uint64_t)1024 * 1024)
#define MIN_SYNC   ((uint64_t)256 * 1024)
#define MAX_SYNC   ((uint64_t)64 * 1024 * 1024) /* limits a sync if the disk becomes slow */
/* Maximum number of symbolic links that the kernel follows (path_resolution(7)). */
#define LINKS 40
/* A temporary name. It does not contain the file's own name, which may have the maximum length. */
#define TEMPORARY_NAME "/rdma-payload-%06x"
#define MAX_NAMES      100
/* Bytes for a path. The rest of PATH_MAX is room for a temporary name. */
#define PATH_SIZE (PATH_MAX - (int)sizeof("/rdma-payload-000000"))
/* The id that stands for each user that the user namespace does not map (user_namespaces(7)). */
#define OVERFLOW_ID 65534
/* Attributes of files that cannot be replaced, and of folders in which nothing can be renamed. */
#define UNCHANGEABLE ((uint64_t)(STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
/* The extended attribute with the ACL of a file (acl(5)). */
#define ACL "system.posix_acl_access"

/* The place that a name stands for, after symbolic links are followed. */
struct place {
	char path[PATH_SIZE];
	char folder[PATH_SIZE]; /* the folder of `path` */
	struct stat folder_about;
	bool is_open;      /* the name stands for a file that a process has open */
	int descriptor;    /* the descriptor of this process that the name stands for, or -1 */
	bool is_file;      /* a new file, or a regular one that is not open */
	struct stat about; /* attributes of the place, if it exists */
};

struct output {
	const atomic_bool *cancelled;
	atomic_bool *taken; /* shared by all outputs. NULL unless this output has set it. */
	int descriptor;
	bool borrowed;      /* the descriptor was open before, and stays open */
	bool blocks;        /* write(2) may block although poll(2) reports POLLOUT */
	bool syncs;         /* the output is on a disk */
	uint64_t unsynced;  /* bytes since the last sync */
	uint64_t sync_size; /* number of unsynced bytes that causes a sync */
	struct place place;
	mode_t mode;                   /* the mode that a file gets if its final name is free */
	char temporary_name[PATH_MAX]; /* the file's name until it gets its final name, or empty */
};

/* Set errno, and return -1. Other functions here that return int do the same on failure. */
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

/* ---- Owners ---- */

/*
 * Return true if the folder is sticky (inode(7)) and others may write to it, as in /tmp: they may
 * plant files there that only they and the folder's owner can remove.
 */
static bool others_may_plant(const struct place *place)
{
	mode_t mode = place->folder_about.st_mode;

	return mode & S_ISVTX && mode & (S_IWGRP | S_IWOTH);
}

/*
 * Check that no other user, except the folder's owner, has planted this link, pipe or device: that
 * user would get the payload. The checks of the kernel do not suffice: protected_symlinks (proc(5))
 * does not cover readlink(2), and protected_fifos does not cover open(2) without O_CREAT.
 *
 * All unmapped users have the overflow id, so do not trust a link with that owner. open_special()
 * checks the owner of a pipe or a device with this id.
 */
static int check_owner(const struct place *place, const struct stat *about)
{
	bool is_own = about->st_uid == geteuid(), trusted;

	if (!others_may_plant(place))
		return 0;
	if (about->st_uid == OVERFLOW_ID)
		trusted = is_own && !S_ISLNK(about->st_mode);
	else
		trusted = is_own || about->st_uid == place->folder_about.st_uid;
	return trusted ? 0 : fail(OUTPUT_OTHER_OWNER);
}

/*
 * Check that this user owns the file `path`, which has the overflow id. Only the owner may use
 * O_NOATIME (open(2)).
 */
static int check_unmapped_owner(const char *path)
{
	int descriptor = open(path, O_RDONLY | O_NOATIME | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (descriptor < 0)
		return errno == EPERM ? fail(OUTPUT_OTHER_OWNER) : -1;
	close(descriptor);
	return 0;
}

/* Return the attributes of a file or a folder (statx(2)), or 0 if they are unknown. */
static uint64_t attributes_of(const char *name)
{
	struct statx about;

	return statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &about) ? 0 : about.stx_attributes;
}

/* Check that this user may replace the file in `place`, whose attributes are `about`. */
static int check_replaceable(const struct place *place, const struct stat *about)
{
	uint64_t attributes;

	if (!S_ISREG(about->st_mode))
		return fail(S_ISDIR(about->st_mode) ? EISDIR : EEXIST);
	if (about->st_uid != geteuid())
		return fail(OUTPUT_OTHER_OWNER);
	if (about->st_uid == OVERFLOW_ID && check_unmapped_owner(place->path))
		return -1;
	if (access(place->path, W_OK))
		return -1;
	attributes = attributes_of(place->path);
	if (attributes & STATX_ATTR_MOUNT_ROOT)
		return fail(EBUSY);
	return attributes & UNCHANGEABLE ? fail(EPERM) : 0;
}

/* ---- Names ---- */

/*
 * Return true for a name in procfs, and set `is_open`. For a descriptor of this process also set
 * `descriptor`.
 *
 * A link in /proc/PID/fd leads to an open file (proc(5)), although its text may name another file,
 * or none. /dev/stdout and /dev/fd lead there, too.
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
 * Unless the place is open, set `about`. If the name does not exist, st_mode is 0.
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
		if (stat(place->folder, &place->folder_about))
			return -1;
		if (lstat(place->path, &place->about))
			return errno == ENOENT ? 0 : -1;
		if (!S_ISLNK(place->about.st_mode))
			return 0;
		if (check_owner(place, &place->about))
			return -1;
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

/* Find the place that the name stands for. Fail if nothing can be stored there. */
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
	return is_there && !place->is_file && !place->is_open ? check_owner(place, &place->about)
							      : 0;
}

/*
 * Return true if simultaneous payloads would mix in the pipe, device or file. Devices such as
 * /dev/null, whose major number is 1 (null(4)), are not shared.
 */
static bool is_shared(const struct stat *about)
{
	return !S_ISCHR(about->st_mode) || major(about->st_rdev) != 1;
}

/*
 * Return true if `descriptor` is the descriptor of this place, or leads to the same pipe, socket or
 * shared device. The same regular file does not count, because its descriptors may have different
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
		return "not permitted: the file or its folder may be immutable or append-only "
		       "('lsattr'), or the file sealed; store in another folder";
	case OUTPUT_OTHER_OWNER:
		return "another user owns this file, pipe, device or symbolic link; store under "
		       "another name";
	default:
		return strerror(error);
	}
}

/* ---- Before anything is opened ---- */

/* Check that a file of `size` bytes can be created in `folder`, and renamed. */
static int check_folder(const char *folder, uint64_t size)
{
	struct statvfs about;
	struct rlimit limit;
	fsblkcnt_t room;

	if (access(folder, W_OK | X_OK))
		return -1;
	if (attributes_of(folder) & UNCHANGEABLE)
		return fail(EPERM);
	if (size == OUTPUT_SIZE_UNKNOWN)
		return 0;
	if (statvfs(folder, &about))
		return -1;
	/* root may use the reserved blocks */
	room = geteuid() == 0 ? about.f_bfree : about.f_bavail;
	/* a file system in memory without a size limit has 0 blocks, so its room is unknown */
	if (about.f_blocks > 0 && about.f_frsize > 0 && room < size / about.f_frsize)
		return fail(ENOSPC);
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size)
		return fail(EFBIG);
	return 0;
}

/* Check that a file of `size` bytes can be stored under the name of `place`. */
static int check_file(const struct place *place, uint64_t size)
{
	if (check_folder(place->folder, size))
		return -1;
	return place->about.st_mode ? check_replaceable(place, &place->about) : 0;
}

int output_check(const char *name)
{
	struct place place;

	if (find_place(name, &place))
		return -1;
	if (place.is_file)
		return check_file(&place, OUTPUT_SIZE_UNKNOWN);
	return place.descriptor >= 0 ? 0 : access(place.path, W_OK);
}

/* ---- Pipes, terminals and devices ---- */

static int check_cancelled(const atomic_bool *cancelled)
{
	return atomic_load(cancelled) ? fail(ECANCELED) : 0;
}

/*
 * Wait until `descriptor` is ready for write(2), at most PATIENCE_MILLISECONDS. Return true if it
 * is ready. A descriptor of -1 is never ready.
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
		if (check_cancelled(output->cancelled))
			return -1;
		wait_for_reader(-1);
	}
	output->taken = taken;
	return 0;
}

/*
 * Open a device, or a pipe once it has a reader. Check the owner of the opened file, because
 * another file may have got the name.
 *
 * If others may plant files here, and the owner has the overflow id, add O_NOATIME: open(2) fails
 * unless this user is the owner. fstat(2) does not suffice, because it shows the same id for all
 * unmapped users.
 */
static int open_special(const struct place *place, const atomic_bool *cancelled)
{
	bool is_unmapped = !place->is_open && place->about.st_uid == OVERFLOW_ID;
	int proof = is_unmapped && others_may_plant(place) ? O_NOATIME : 0;
	/* follow no link but one below /proc/PID/fd: follow_links() has resolved the others */
	int flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | (place->is_open ? 0 : O_NOFOLLOW);
	int descriptor, error;
	struct stat about;

	while ((descriptor = open(place->path, flags | proof)) < 0) {
		if (errno == EPERM && proof)
			return fail(OUTPUT_OTHER_OWNER);
		/* ENXIO: a pipe has no reader yet, and a socket never has one (open(2)) */
		if (errno != ENXIO || !S_ISFIFO(place->about.st_mode) || check_cancelled(cancelled))
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
 * Return the descriptor to write to, in place of the open `descriptor`. Open a pipe or a terminal
 * again, without blocking: O_NONBLOCK on the old descriptor would affect other processes.
 *
 * A socket cannot be opened again, nor a pipe in some cases after sudo(8). Then write only PIPE_BUF
 * bytes at a time: a pipe or a socket accepts these after POLLOUT (pipe(7)).
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
 * Create a file with a random name in the folder. Fail with EEXIST after MAX_NAMES names that are
 * taken. After a failure temporary_name is empty.
 */
static int create_temporary(struct output *output, mode_t mode)
{
	int descriptor = -1;

	for (int i = 0; i < MAX_NAMES; i++) {
		unsigned int number;

		if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
			number = (unsigned int)i;
		snprintf(output->temporary_name, sizeof(output->temporary_name),
			 "%s" TEMPORARY_NAME, output->place.folder, number & 0xffffff);
		descriptor =
			open(output->temporary_name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
		if (descriptor >= 0 || errno != EEXIST)
			break;
	}
	if (descriptor < 0)
		output->temporary_name[0] = '\0';
	return descriptor;
}

/*
 * Find the mode that umask(2) or the folder's default ACL (acl(5)) gives to a new file: create an
 * empty file, and remove it. The output itself must be private until the end, because a process
 * that has opened it could read bytes that are written later.
 */
static int find_new_mode(struct output *output)
{
	int descriptor = create_temporary(output, 0666), error;
	struct stat about = { 0 };

	if (descriptor < 0)
		return -1;
	error = fstat(descriptor, &about) ? errno : 0;
	close(descriptor);
	unlink(output->temporary_name);
	output->temporary_name[0] = '\0';
	output->mode = about.st_mode & 0777;
	return error ? fail(error) : 0;
}

static int create_file(struct output *output)
{
	output->mode = 0600;
	if (!output->place.about.st_mode && find_new_mode(output))
		return -1;
	return create_temporary(output, 0600);
}

/* Return true if a call on an ACL failed because there is none. */
static bool lacks_acl(ssize_t result)
{
	return result < 0 && (errno == ENODATA || errno == EOPNOTSUPP);
}

/*
 * Return the mode of the new file that replaces an old one, whose attributes are `old`. Drop
 * set-user-ID and set-group-ID, because the contents differ.
 *
 * Keep the rights of group and others only if both files have the same group and no ACL. Remove the
 * ACL that the new file may have got from its folder.
 */
static mode_t kept_mode(const struct output *output, const struct stat *old)
{
	struct stat made;
	bool same_group = !fstat(output->descriptor, &made) && made.st_gid == old->st_gid;
	bool has_acl = !lacks_acl(lgetxattr(output->place.path, ACL, NULL, 0));
	bool removed = !fremovexattr(output->descriptor, ACL) || lacks_acl(-1);

	return old->st_mode & (same_group && !has_acl && removed ? 0777 : S_IRWXU);
}

/*
 * Look again at the final name, and set `about`. If the name is free, set st_mode to 0. Fail if a
 * file has the name and may not be replaced.
 */
static int look_again(const struct output *output, struct stat *about)
{
	about->st_mode = 0;
	if (lstat(output->place.path, about))
		return errno == ENOENT ? 0 : -1;
	return check_replaceable(&output->place, about);
}

/* Set the final mode. If that is not permitted or not supported, leave the file private. */
static int set_mode(const struct output *output)
{
	struct stat old;
	mode_t mode;

	if (look_again(output, &old))
		return -1;
	mode = old.st_mode ? kept_mode(output, &old) : output->mode;
	if (!fchmod(output->descriptor, mode) || errno == EPERM || errno == EACCES)
		return 0;
	return unless_unsupported(-1);
}

/*
 * Give the complete file its final name. RENAME_NOREPLACE fails if another file has just got the
 * name: look again before replacing that file. Some file systems, such as NFS, do not support the
 * flag.
 */
static int name_file(struct output *output)
{
	const char *from = output->temporary_name, *to = output->place.path;
	struct stat about;
	bool named;

	if (look_again(output, &about))
		return -1;
	named = !about.st_mode && !renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
	if (!named && !about.st_mode) {
		if (errno != EEXIST && unless_unsupported(-1))
			return -1;
		if (look_again(output, &about))
			return -1;
	}
	if (!named && rename(from, to))
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

	if (descriptor < 0) /* sync the file system instead: the folder may not be readable */
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

static int open_descriptor(struct output *output, atomic_bool *taken, const char *name,
			   uint64_t size)
{
	struct place *place = &output->place;
	mode_t mode;

	if (find_place(name, place))
		return -1;
	mode = place->about.st_mode;
	output->syncs = place->is_file || S_ISREG(mode) || S_ISBLK(mode);
	if (place->is_file)
		return check_file(place, size) ? -1 : create_file(output);
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

struct output *output_open(atomic_bool *taken, const char *name, uint64_t size,
			   const atomic_bool *cancelled)
{
	struct output *output = calloc(1, sizeof(*output));
	int error;

	if (!output)
		return NULL;
	output->cancelled = cancelled;
	output->sync_size = FIRST_SYNC;
	output->descriptor = open_descriptor(output, taken, name, size);
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
		if (check_cancelled(output->cancelled))
			return -1;
		/* wait with a time limit first: a write(2) that blocks cannot be cancelled */
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

/*
 * Sync the output. Give a file its name only afterwards, so that no reader sees an incomplete file.
 */
static int finish_output(struct output *output)
{
	if (!output->place.is_file)
		return output->syncs ? unless_unsupported(fsync(output->descriptor)) : 0;
	return check_cancelled(output->cancelled) || set_mode(output) ||
			       unless_unsupported(fsync(output->descriptor)) ||
			       check_cancelled(output->cancelled) || name_file(output) ||
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
