// SPDX-License-Identifier: MIT
#include "output.h"

#include <ctype.h>
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
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/magic.h>

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

/* What a name stands for, once symbolic links are followed. */
struct place {
	char folder[PATH_MAX];
	char name[PATH_MAX]; /* in that folder */
	bool in_place;  /* what is there is written to, whatever its name: the kernel alone knows it
			 */
	int descriptor; /* and is this one of the process's own; -1: it is not */
};

/* Somebody stores in what cannot be stored in twice at a time. A program has one such output. */
static atomic_bool taken;

struct output {
	const atomic_bool *cancelled;
	int descriptor;
	bool borrowed; /* it was open before, and stays so */
	bool alone;    /* it is the one that has taken it */
	bool blocks;   /* write(2) may, where poll(2) does not say that it is ready */
	bool syncs;    /* it has a disk */
	uint64_t unsynced, sync_size; /* bytes since the last sync, and how many may become */
	/* A file, which gets its name in the end; of anything else the rest means nothing. */
	bool is_file;
	bool named;  /* it has it */
	mode_t mode; /* unless it replaces one */
	struct place place;
	char temporary_name[PATH_MAX]; /* empty: it has none */
};

/* ---- Names ---- */

/*
 * True if a symbolic link may not be followed, by the kernel's rule, which does not guard
 * readlink(2): somebody else has put it where everybody may (fs.protected_symlinks in proc(5)).
 */
static bool is_planted(const struct stat *link, const char *folder)
{
	const mode_t shared = S_ISVTX | S_IWOTH;
	struct stat about;

	return !stat(folder, &about) && (about.st_mode & shared) == shared &&
	       link->st_uid != geteuid() && link->st_uid != about.st_uid;
}

/* Where the symbolic link leads: its length; 0: it is none, or not there. -1 with errno. */
static ssize_t read_link(const char *path, const char *folder, char target[PATH_MAX])
{
	int error, descriptor = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	ssize_t length = -1;
	struct stat about;

	if (descriptor < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(descriptor, &about)) {
		error = errno;
	} else if (!S_ISLNK(about.st_mode)) {
		length = 0;
		error = 0;
	} else if (is_planted(&about, folder)) {
		error = EACCES;
	} else {
		length = readlinkat(descriptor, "", target, PATH_MAX - 1);
		error = errno;
	}
	close(descriptor);
	errno = error;
	return length;
}

/* True if both are one folder. */
static bool is_same_folder(const char *one, const char *other)
{
	struct stat about_one, about_other;

	return !stat(one, &about_one) && !stat(other, &about_other) &&
	       about_one.st_dev == about_other.st_dev && about_one.st_ino == about_other.st_ino;
}

/*
 * The links below /proc/PID/fd lead to what is open there, whatever its name says (proc(5)): that
 * may be another's by now, or nobody's. /dev/stdout and /dev/fd lead there, too.
 */
static bool is_magic(struct place *place)
{
	const char *number = strrchr(place->name, '/');
	struct statfs about;
	long descriptor;
	char *end;

	number = number ? number + 1 : "";
	if (statfs(place->folder, &about) || about.f_type != PROC_SUPER_MAGIC)
		return false;
	place->in_place = true;
	descriptor = strtol(number, &end, 10);
	if (isdigit((unsigned char)*number) && !*end && descriptor <= INT_MAX &&
	    is_same_folder(place->folder, "/proc/self/fd"))
		place->descriptor = (int)descriptor;
	return true;
}

/* Follows symbolic links, also to what does not exist yet, into `place`. 0 or -1 with errno. */
static int follow_links(const char *name, struct place *place)
{
	char target[PATH_MAX], path[PATH_MAX];
	int used = snprintf(path, sizeof(path), "%s", name);

	place->in_place = false;
	place->descriptor = -1;
	for (int links = 0; links <= LINKS && used < PATH_MAX; links++) {
		ssize_t length;

		snprintf(place->name, sizeof(place->name), "%s", path);
		snprintf(place->folder, sizeof(place->folder), "%s", dirname(path));
		if (is_magic(place))
			return 0;
		length = read_link(place->name, place->folder, target);
		if (length <= 0)
			return (int)length;
		target[length] = '\0';
		if (target[0] == '/')
			used = snprintf(path, sizeof(path), "%s", target);
		else
			used = snprintf(path, sizeof(path), "%s/%s", place->folder, target);
	}
	errno = used < PATH_MAX ? ELOOP : ENAMETOOLONG;
	return -1;
}

enum parsed output_resolve(struct options *options)
{
	struct place place = { .descriptor = STDOUT_FILENO };
	const char *name = options->output;
	int flags;

	if (!name ||
	    (!is_standard_output(name) && (follow_links(name, &place) || place.descriptor < 0)))
		return PARSED_RUN;
	flags = fcntl(place.descriptor, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return usage_error(
			"--output '%s': descriptor %d is not open for writing; open it, or "
			"name a file",
			name, place.descriptor);
	if (place.descriptor == STDOUT_FILENO)
		options->output = "-";
	return PARSED_RUN;
}

const char *output_error(int error)
{
	switch (error) {
	case EBUSY:
		return "it is a mount point, which no file can replace; mount its folder instead";
	case EPERM:
		return "not permitted: it is somebody else's in a folder with the sticky bit, or it "
		       "or its folder is immutable ('lsattr')";
	default:
		return strerror(error);
	}
}

/* ---- Before the transfer ---- */

/* Checks that a file of `size` bytes, if that is known, can be created in `folder`. 0 or -1 with
 * errno. */
static int check_folder(const char *folder, uint64_t size)
{
	struct statvfs about;
	struct rlimit limit;
	fsblkcnt_t room;

	if (access(folder, W_OK | X_OK) || statvfs(folder, &about))
		return -1;
	if (size == OUTPUT_SIZE_UNKNOWN)
		return 0;
	/* root may have what is reserved as well */
	room = geteuid() == 0 ? about.f_bfree : about.f_bavail;
	/* some file systems in memory do not know how many blocks they have */
	if (about.f_blocks > 0 && about.f_frsize > 0 && room < size / about.f_frsize) {
		errno = ENOSPC;
		return -1;
	}
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size) {
		errno = EFBIG;
		return -1;
	}
	return 0;
}

static bool is_immutable(const struct statx *about)
{
	return about->stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND);
}

/*
 * Finds what would keep a file from having this name in the end, as far as that can be known
 * (statx(2)). 0 or -1 with errno.
 */
static int check_name(const struct place *place)
{
	struct statx file, folder;
	uid_t user = geteuid();

	errno = EPERM;
	if (statx(AT_FDCWD, place->folder, 0, STATX_BASIC_STATS, &folder))
		return 0;
	if (folder.stx_attributes & STATX_ATTR_IMMUTABLE)
		return -1;
	if (statx(AT_FDCWD, place->name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &file))
		return 0;
	errno = EBUSY;
	if (file.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return -1;
	errno = EPERM;
	if (is_immutable(&file) || is_immutable(&folder))
		return -1;
	/* the kernel's rule for sticky folders (unlink(2), EPERM) */
	return folder.stx_mode & S_ISVTX && user != 0 && file.stx_uid != user &&
			       folder.stx_uid != user
		       ? -1
		       : 0;
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
	if (follow_links(name, &place))
		return -1;
	if (place.in_place)
		return access(name, W_OK);
	return check_folder(place.folder, size) ? -1 : check_name(&place);
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
 * Standard output, or what else was open before. A pipe or a terminal is opened once more, so that
 * what does not take the bytes cannot hold up this thread in write(2), and nobody else finds it
 * non-blocking. Where this user may not do that, as with sudo(8), and where it is a socket, no more
 * is written at a time than a pipe or a socket that poll(2) has found ready takes (pipe(7)).
 */
static int open_again(struct output *output, int descriptor, const struct stat *about)
{
	char name[32];
	int own;

	output->borrowed = true;
	if (S_ISFIFO(about->st_mode) || isatty(descriptor)) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
		own = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		output->borrowed = own < 0;
		if (own < 0 && errno == ENXIO)
			errno = EPIPE; /* it had a reader, which does not come back */
		if (own >= 0 || errno == EPIPE)
			return own;
	} else if (!S_ISSOCK(about->st_mode)) {
		return descriptor;
	}
	output->blocks = true;
	return descriptor;
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
	int descriptor;

	if (access("/proc/self/fd", X_OK)) /* by which it gets its name */
		return create_temporary(output);
	descriptor = open(output->place.folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return descriptor;
	return create_temporary(output);
}

/*
 * True if a call that failed was only not allowed: to this user, in this user namespace (EINVAL),
 * or by a file system that does not have that.
 */
static bool is_refused(void)
{
	return errno == EPERM || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/*
 * Gives it owner and group of the file that it replaces, each if that may be, and returns that
 * file's mode; the rights of a group that it does not have go. -1 with errno.
 */
static int keep_owner(const struct output *output, const struct stat *before)
{
	const uid_t same_owner = (uid_t)-1;
	const gid_t same_group = (gid_t)-1;
	mode_t mode = before->st_mode & 0777; /* set-user-ID was for other contents */
	struct stat about;

	if (fchown(output->descriptor, same_owner, before->st_gid) && !is_refused())
		return -1;
	if (fchown(output->descriptor, before->st_uid, same_group) && !is_refused())
		return -1;
	if (fstat(output->descriptor, &about))
		return -1;
	if (about.st_gid != before->st_gid)
		mode &= ~(mode_t)S_IRWXG;
	return (int)mode;
}

/* Gives it the owner and mode of the file that it replaces, or else the mode of a new one. */
static int set_attributes(const struct output *output)
{
	int mode = (int)output->mode;
	struct stat before;

	if (!lstat(output->place.name, &before) && S_ISREG(before.st_mode))
		mode = keep_owner(output, &before);
	if (mode < 0)
		return -1;
	return fchmod(output->descriptor, (mode_t)mode) && !is_refused() ? -1 : 0;
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
	if (output->temporary_name[0] && rename(output->temporary_name, output->place.name))
		return -1;
	output->temporary_name[0] = '\0';
	output->named = true;
	return 0;
}

/* ---- Syncing ---- */

/* The result of fsync(2) or fdatasync(2), which some file systems do not have. */
static int sync_result(int result)
{
	bool unknown = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;

	return result && unknown ? 0 : result;
}

/* Lets the name last as well: it is on the disk when its folder is (fsync(2)). */
static int sync_folder(const struct output *output)
{
	int descriptor = open(output->place.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int result, error;

	if (descriptor < 0) /* who may write there need not be allowed to read */
		return sync_result(syncfs(output->descriptor));
	result = sync_result(fsync(descriptor));
	error = errno;
	close(descriptor);
	errno = error;
	return result;
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

/* Where the bytes go: what `name` stands for, without what is done for a file. 0 or -1 with errno.
 */
static int find_place(struct output *output, const char *name, struct stat *about)
{
	struct place *place = &output->place;
	int result;

	place->descriptor = STDOUT_FILENO;
	if (!is_standard_output(name) && follow_links(name, place))
		return -1;
	if (place->descriptor >= 0)
		return fstat(place->descriptor, about);
	result = stat(name, about);
	output->is_file = !place->in_place && (result ? errno == ENOENT : S_ISREG(about->st_mode));
	return output->is_file ? 0 : result;
}

static int open_descriptor(struct output *output, const char *name)
{
	struct stat about;

	if (find_place(output, name, &about))
		return -1;
	output->syncs = output->is_file || S_ISREG(about.st_mode) || S_ISBLK(about.st_mode);
	if (output->is_file)
		return create_file(output);
	if (is_shared(&about) && take_turn(output))
		return -1;
	if (output->place.descriptor >= 0)
		return open_again(output, output->place.descriptor, &about);
	return open_special(name, S_ISFIFO(about.st_mode), output->cancelled);
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
	return name_file(output) ? -1 : sync_folder(output);
}

/* Closes and frees it; a temporary name goes. 0 or -1 with errno. */
static int release(struct output *output)
{
	int result = 0, error;

	if (output->temporary_name[0])
		unlink(output->temporary_name);
	if (!output->borrowed)
		result = close(output->descriptor);
	if (output->named) /* and synced: there is nothing left to fail */
		result = 0;
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
