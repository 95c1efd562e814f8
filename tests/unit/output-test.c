// SPDX-License-Identifier: MIT
/*
 * Storing an incoming payload: files that are whole or not there, what they replace, readers that
 * do not read, and slow disks.
 */
#include "rdma-common/output.h"
#include "rdma-common/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

#define SIZE           ((uint64_t)200000)
#define ENTRIES(array) (sizeof(array) / sizeof((array)[0]))

static uint8_t bytes[SIZE];
static char folder[] = "/tmp/output-test.XXXXXX";

/* ---- A disk and a file system in the place of the C library's ---- */

static struct {
	uint64_t rate;          /* bytes that a sync writes in a second; 0: any number */
	uint64_t synced;        /* bytes */
	uint64_t most;          /* bytes that one sync wrote */
	unsigned int syncs;     /* with fdatasync(2) */
	int error;              /* that syncs have; 0: none */
	int64_t time;           /* nanoseconds that it has taken so far */
	int nameless;           /* the error of O_TMPFILE, which it does not know; 0: it does */
	int taken;              /* the error of looking for a temporary name; 0: there is one */
	int owner;              /* the error of fchown(2); 0: it gives the file away */
	int end;                /* the error of close(2), which closes all the same; 0: none */
	uint64_t room;          /* blocks of 4 KiB that are free; 0: as many as there are */
	bool blockless;         /* it does not know how many blocks it has */
	bool sizeless;          /* nor of what size they are */
	bool is_block;          /* there is no file system: it is the disk itself */
	int again;              /* the error of opening standard output once more; 0: none */
	_Atomic uint64_t calls; /* of open(2) and write(2) */
	unsigned int stops;     /* calls of write(2) that are still to come to nothing */
	unsigned int folders;   /* that were synced */
	int folder;             /* the error of that; 0: none */
	bool unreadable;        /* a folder cannot be opened to be synced */
	unsigned int systems;   /* that were synced instead */
	uint64_t reserve;       /* blocks that root may have besides `room` */
	int group, mode;        /* the errors of fchown(2) of a group, of fchmod(2) */
	bool no_proc;           /* there is no /proc */
	uint64_t attributes;    /* STATX_ATTR_*, of what has the name `special` */
	const char *special;
	uid_t user;         /* who runs this, if that is asked */
	uid_t link_owner;   /* of symbolic links; 0: as it is */
	mode_t folder_mode; /* of folders, besides what they have */
} disk;
static atomic_bool cancelled;
static bool cancels_at_sync; /* fsync(2) comes back to somebody who has cancelled */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += disk.time / 1000000000;
	return result;
}

int fstat(int descriptor, struct stat *about)
{
	int result = fstatat(descriptor, "", about, AT_EMPTY_PATH);

	if (disk.link_owner && S_ISLNK(about->st_mode))
		about->st_uid = disk.link_owner;
	if (disk.is_block)
		about->st_mode = (about->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
	return result;
}

int stat(const char *name, struct stat *about)
{
	int result = fstatat(AT_FDCWD, name, about, 0);

	if (!result && S_ISDIR(about->st_mode))
		about->st_mode |= disk.folder_mode;
	return result;
}

uid_t geteuid(void)
{
	return disk.user ? disk.user : (uid_t)syscall(SYS_geteuid);
}

int access(const char *name, int mode)
{
	if (disk.no_proc && !strncmp(name, "/proc/", 6)) {
		errno = ENOENT;
		return -1;
	}
	return faccessat(AT_FDCWD, name, mode, 0);
}

int statx(int start, const char *name, int flags, unsigned int mask, struct statx *about)
{
	int result = (int)syscall(SYS_statx, start, name, flags, mask, about);

	if (disk.special && !strcmp(name, disk.special))
		about->stx_attributes |= disk.attributes;
	if (S_ISDIR(about->stx_mode))
		about->stx_mode = (uint16_t)(about->stx_mode | disk.folder_mode);
	return result;
}

static int sync_disk(int descriptor)
{
	struct stat about;
	uint64_t size;

	assert_int_equal(fstat(descriptor, &about), 0);
	size = (uint64_t)about.st_size - disk.synced;
	disk.synced += size;
	if (size > disk.most)
		disk.most = size;
	if (disk.rate)
		disk.time += (int64_t)(size * 1000000000 / disk.rate);
	errno = disk.error;
	return errno ? -1 : 0;
}

int fdatasync(int descriptor)
{
	disk.syncs++;
	return sync_disk(descriptor);
}

int syncfs(int descriptor)
{
	(void)descriptor;
	disk.systems++;
	return 0;
}

int fsync(int descriptor)
{
	struct stat about;

	if (!fstat(descriptor, &about) && S_ISDIR(about.st_mode)) {
		disk.folders++;
		errno = disk.folder;
		return errno ? -1 : 0;
	}
	if (cancels_at_sync)
		atomic_store(&cancelled, true);
	return sync_disk(descriptor);
}

int open(const char *name, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	disk.calls++;
	if (disk.nameless && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = disk.nameless;
		return -1;
	}
	if (disk.unreadable && (flags & O_DIRECTORY) && (flags & O_TMPFILE) != O_TMPFILE) {
		errno = EACCES;
		return -1;
	}
	if (disk.again && !strcmp(name, "/proc/self/fd/1")) {
		errno = disk.again;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

int mkostemp(char *name, int flags)
{
	errno = disk.taken;
	return errno ? -1 : mkostemps(name, 0, flags);
}

int fchown(int descriptor, uid_t owner, gid_t group)
{
	errno = group == (gid_t)-1 ? disk.owner : disk.group;
	return errno ? -1 : fchownat(descriptor, "", owner, group, AT_EMPTY_PATH);
}

int fchmod(int descriptor, mode_t mode)
{
	errno = disk.mode;
	return errno ? -1 : (int)syscall(SYS_fchmod, descriptor, mode);
}

int statvfs(const char *name, struct statvfs *about)
{
	int descriptor = open(name, O_PATH), result = fstatvfs(descriptor, about);

	close(descriptor);
	if (disk.room) {
		about->f_frsize = 4096;
		about->f_bavail = disk.room;
		about->f_bfree = disk.room + disk.reserve;
	}
	if (disk.blockless)
		about->f_blocks = about->f_bavail = 0;
	if (disk.sizeless)
		about->f_frsize = 0;
	return result;
}

/* A signal, a pipe that is full again, and no byte at all are no failures. */
ssize_t write(int descriptor, const void *from, size_t size)
{
	static const int errors[] = { 0, EAGAIN, EINTR };

	disk.calls++;
	if (!disk.stops)
		return syscall(SYS_write, descriptor, from, size);
	errno = errors[--disk.stops];
	return errno ? -1 : 0;
}

/* Leaves something in errno, as any function may that succeeds. */
int close(int descriptor)
{
	int result = (int)syscall(SYS_close, descriptor);

	errno = disk.end ? disk.end : ENOTTY;
	return disk.end ? -1 : result;
}

/* ---- Tests ---- */

static int reset(void **state)
{
	(void)state;
	memset(&disk, 0, sizeof(disk));
	atomic_store(&cancelled, false);
	cancels_at_sync = false;
	return 0;
}

static int descriptors_before;

static int make_folder(void **state)
{
	(void)state;
	descriptors_before = count_descriptors();
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	signal(SIGXFSZ, SIG_IGN); /* as the programs do */
	signal(SIGPIPE, SIG_IGN);
	return enter_folder(folder);
}

/* All bytes, a few at a time; the number of them that were written is kept. */
static _Atomic uint64_t written;

static int write_all(struct output *output, uint64_t size)
{
	for (written = 0; written < size;) {
		uint64_t piece = size - written < 7001 ? size - written : 7001;
		ssize_t count = output_write(output, bytes + written, piece);

		if (count < 0)
			return -1;
		assert_in_range(count, 1, piece);
		written += (uint64_t)count;
	}
	return 0;
}

static int store(const char *name, uint64_t size)
{
	struct output *output = output_open(name, 0640, &cancelled);
	int error;

	if (!output)
		return -1;
	if (!write_all(output, size))
		return output_commit(output);
	error = errno;
	output_abandon(output);
	errno = error;
	return -1;
}

/* The file has the first `size` of the bytes, and is removed. */
static void assert_stored(const char *name, uint64_t size)
{
	static uint8_t found[SIZE + 1];
	int descriptor = open(name, O_RDONLY);

	assert_true(descriptor >= 0);
	assert_int_equal(read(descriptor, found, sizeof(found)), size);
	assert_memory_equal(found, bytes, size);
	close(descriptor);
	assert_int_equal(unlink(name), 0);
}

static void assert_fails(const char *name, int error)
{
	assert_int_equal(store(name, SIZE), -1);
	assert_int_equal(errno, error);
}

static void a_new_file_has_the_bytes_and_the_mode(void **state)
{
	struct stat about;

	(void)state;
	assert_int_equal(store("new", SIZE), 0);
	assert_int_equal(stat("new", &about), 0);
	assert_int_equal(about.st_mode & 07777, 0640);
	assert_stored("new", SIZE);
	assert_int_equal(store("one", 1), 0);
	assert_stored("one", 1);
}

static void a_file_that_is_replaced_leaves_its_mode(void **state)
{
	int descriptor = open("old", O_WRONLY | O_CREAT, 0600);
	struct stat before, after;

	(void)state;
	assert_int_equal(write(descriptor, "old", 3), 3);
	assert_int_equal(fchmod(descriptor, 0751), 0);
	assert_int_equal(fstat(descriptor, &before), 0);
	assert_int_equal(store("old", SIZE), 0);
	assert_int_equal(stat("old", &after), 0);
	assert_int_equal(after.st_mode & 07777, 0751);
	assert_int_not_equal(after.st_ino,
			     before.st_ino); /* not written over: whole or not there */
	close(descriptor);
	assert_stored("old", SIZE);
}

static void a_symbolic_link_is_followed(void **state)
{
	char target[sizeof(folder) + 32];

	(void)state;
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	assert_int_equal(symlink("elsewhere/target", "link"), 0);
	assert_int_equal(output_check("link", SIZE), 0);
	assert_int_equal(store("link", 1), 0); /* dangling */
	assert_int_equal(store("link", SIZE), 0);
	assert_int_equal(unlink("link"), 0); /* still a link */
	assert_stored("elsewhere/target", SIZE);
	/* from the folder that it is in, or from the root */
	assert_int_equal(symlink("target", "elsewhere/link"), 0);
	assert_int_equal(store("elsewhere/link", SIZE), 0);
	assert_stored("elsewhere/target", SIZE);
	assert_int_equal(unlink("elsewhere/link"), 0);
	snprintf(target, sizeof(target), "%s/elsewhere/target", folder);
	assert_int_equal(symlink(target, "link"), 0);
	assert_int_equal(store("link", SIZE), 0);
	assert_int_equal(unlink("link"), 0);
	assert_stored("elsewhere/target", SIZE);
	assert_int_equal(rmdir("elsewhere"), 0);
	assert_int_equal(symlink("round", "round"), 0);
	assert_fails("round", ELOOP);
	assert_int_equal(unlink("round"), 0);
}

/* fs.protected_symlinks in proc(5): by its own, or by the folder's owner. */
static void a_symbolic_link_that_somebody_has_planted_is_not_followed(void **state)
{
	const mode_t shared = S_ISVTX | S_IWOTH;

	(void)state;
	assert_int_equal(store("target", 5), 0);
	assert_int_equal(symlink("target", "link"), 0);
	disk.link_owner = 12345;
	assert_int_equal(store("link", 6), 0); /* in a folder that is not everybody's */
	disk.folder_mode = S_ISVTX;
	assert_int_equal(store("link", 6), 0);
	disk.folder_mode = shared;
	assert_fails("link", EACCES);
	assert_int_equal(output_check("link", SIZE), -1);
	assert_int_equal(errno, EACCES);
	disk.user = 12345;
	assert_int_equal(store("link", 7), 0);
	disk.user = disk.link_owner = 0;
	assert_int_equal(store("link", 8), 0);
	assert_stored("target", 8);
	disk.link_owner = 12345; /* dangling */
	assert_fails("link", EACCES);
	assert_int_equal(access("target", F_OK), -1);
	assert_int_equal(unlink("link"), 0);
}

/* Between the look and the end: it is replaced, not followed. */
static void a_symbolic_link_that_is_planted_meanwhile_is_replaced(void **state)
{
	struct output *output;
	struct stat about;

	(void)state;
	assert_int_equal(store("target", 5), 0);
	for (int round = 0; round < 2; round++) {
		disk.nameless = round ? EOPNOTSUPP : 0;
		output = output_open("new", 0600, &cancelled);
		assert_non_null(output);
		assert_int_equal(symlink("target", "new"), 0);
		assert_int_equal(write_all(output, SIZE), 0);
		assert_int_equal(output_commit(output), 0);
		assert_int_equal(lstat("new", &about), 0);
		assert_true(S_ISREG(about.st_mode));
		assert_int_equal(about.st_mode & 0777, 0600);
		assert_stored("new", SIZE);
	}
	assert_stored("target", 5);
}

/* path_resolution(7): 40. */
static void as_many_symbolic_links_are_followed_as_by_the_kernel(void **state)
{
	char name[16], target[16] = "target";

	(void)state;
	for (int number = 1; number <= 41; number++) {
		snprintf(name, sizeof(name), "link%d", number);
		assert_int_equal(symlink(target, name), 0);
		memcpy(target, name, sizeof(target));
	}
	assert_int_equal(output_check("link40", SIZE), 0);
	assert_int_equal(store("link40", SIZE), 0);
	assert_stored("target", SIZE);
	assert_int_equal(output_check("link41", SIZE), -1);
	assert_int_equal(errno, ELOOP);
	assert_fails("link41", ELOOP);
	for (int number = 1; number <= 41; number++) {
		snprintf(name, sizeof(name), "link%d", number);
		assert_int_equal(unlink(name), 0);
	}
}

/* "./././new" or "././/new", of so many characters. */
static const char *long_name(size_t length)
{
	static char name[2 * PATH_MAX];
	size_t prefix = length - strlen("new");

	for (size_t i = 0; i < prefix; i++)
		name[i] = i % 2 ? '/' : '.';
	name[prefix - 1] = '/';
	memcpy(name + prefix, "new", sizeof("new"));
	return name;
}

static void a_name_that_is_too_long_is_no_other_name(void **state)
{
	const size_t with_suffix = PATH_MAX - sizeof("/rdma-payload-XXXXXX") + strlen("/new");

	(void)state;
	assert_int_equal(output_check(long_name(PATH_MAX), SIZE), -1);
	assert_int_equal(errno, ENAMETOOLONG);
	assert_fails(long_name(PATH_MAX), ENAMETOOLONG);
	assert_int_equal(store(long_name(PATH_MAX - 1), SIZE), 0);
	assert_int_equal(store("rdma-payload-XXXX", 7), 0); /* another's, with a name that is cut */
	assert_fails(long_name(with_suffix + 2), ENAMETOOLONG);
	assert_stored("rdma-payload-XXXX", 7);
	assert_stored("new", SIZE);
	disk.nameless = EOPNOTSUPP;
	assert_fails(long_name(with_suffix + 2), ENAMETOOLONG);
	assert_int_equal(store(long_name(with_suffix), SIZE), 0);
	assert_stored("new", SIZE);
	assert_int_equal(symlink("longer", "new"), 0);
	assert_fails(long_name(PATH_MAX - 1), ENAMETOOLONG);
	assert_int_equal(unlink("new"), 0);
}

/* A temporary name is no longer than any other. */
static void a_file_with_the_longest_name_is_replaced(void **state)
{
	char name[NAME_MAX + 1];

	(void)state;
	memset(name, 'x', NAME_MAX);
	name[NAME_MAX] = '\0';
	for (int round = 0; round < 2; round++) {
		disk.nameless = round ? EOPNOTSUPP : 0;
		assert_int_equal(store(name, 5), 0);
		assert_int_equal(store(name, SIZE), 0);
		assert_stored(name, SIZE);
	}
}

static void what_cannot_be_stored_is_found_before(void **state)
{
	static const struct {
		const char *name;
		int error;
	} cases[] = { { "", ENOENT },  { "new/", EISDIR }, { "missing/file", ENOENT },
		      { ".", EISDIR }, { "./", EISDIR },   { "/dev/null/file", ENOTDIR } };
	char long_name[300];

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(output_check(cases[i].name, 1), -1);
		assert_int_equal(errno, cases[i].error);
	}
	assert_int_equal(output_check(long_name, 1), -1);
	assert_int_equal(errno, ENAMETOOLONG);
	assert_int_equal(output_check("new", UINT64_MAX / 2), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(output_check("new", SIZE), 0);
	assert_int_equal(output_check("new", OUTPUT_SIZE_UNKNOWN), 0);
	assert_int_equal(output_check("missing/file", OUTPUT_SIZE_UNKNOWN), -1);
	assert_int_equal(output_check("-", SIZE), 0);
	assert_int_equal(output_check("/dev/null", SIZE), 0);
	disk.room = 100;
	assert_int_equal(output_check("new", 100 * 4096), 0);
	assert_int_equal(output_check("new", 101 * 4096), -1);
	assert_int_equal(errno, ENOSPC);
	disk.reserve = 1; /* which root alone may have */
	assert_int_equal(output_check("new", 101 * 4096), geteuid() == 0 ? 0 : -1);
	disk.user = 12345;
	assert_int_equal(output_check("new", 101 * 4096), -1);
	assert_int_equal(errno, ENOSPC);
	disk.user = 0;
	disk.reserve = 0;
	disk.blockless = true; /* ramfs */
	assert_int_equal(output_check("new", 101 * 4096), 0);
	disk.sizeless = true; /* what FUSE makes of nothing */
	assert_int_equal(output_check("new", 101 * 4096), 0);
	disk.blockless = false;
	assert_int_equal(output_check("new", 101 * 4096), 0);
}

/* Which is what is bound into a container as a volume of one file. */
static void what_cannot_be_replaced_is_found_before(void **state)
{
	static const struct {
		const char *special;
		uint64_t attributes;
		int error;
	} cases[] = {
		{ "old", STATX_ATTR_MOUNT_ROOT, EBUSY }, { "old", STATX_ATTR_IMMUTABLE, EPERM },
		{ "old", STATX_ATTR_APPEND, EPERM },     { ".", STATX_ATTR_IMMUTABLE, EPERM },
		{ ".", STATX_ATTR_APPEND, EPERM },       { "old", STATX_ATTR_COMPRESSED, 0 }
	};

	(void)state;
	assert_int_equal(store("old", 5), 0);
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		disk.special = cases[i].special;
		disk.attributes = cases[i].attributes;
		assert_int_equal(output_check("old", SIZE), cases[i].error ? -1 : 0);
		if (cases[i].error)
			assert_int_equal(errno, cases[i].error);
	}
	disk.special = ".";
	disk.attributes = STATX_ATTR_APPEND; /* where a new file may be created */
	assert_int_equal(output_check("new", SIZE), 0);
	disk.attributes = STATX_ATTR_IMMUTABLE;
	assert_int_equal(output_check("new", SIZE), -1);
	disk.special = NULL;
	disk.folder_mode = S_ISVTX;
	assert_int_equal(output_check("old", SIZE), 0);
	disk.user = 12345; /* whose neither the file nor the folder is */
	assert_int_equal(output_check("old", SIZE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(output_check("new", SIZE), 0);
	assert_stored("old", 5);
	assert_string_equal(output_error(ENOSPC), strerror(ENOSPC));
	assert_non_null(strstr(output_error(EBUSY), "mount point"));
	assert_non_null(strstr(output_error(EPERM), "sticky"));
}

/* In a process of its own, which gives up what root may. */
static void a_folder_that_others_own_is_found_before(void **state)
{
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(mkdir("locked", 0555), 0);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0 && setuid(65534))
			_exit(2);
		_exit(output_check("locked/new", 1) != -1 || errno != EACCES);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir("locked"), 0);
}

static void a_new_file_has_the_mode_that_the_mask_leaves(void **state)
{
	mode_t before = umask(027);

	(void)state;
	assert_int_equal(output_mode(), 0640);
	assert_int_equal(umask(before), 027); /* as it was */
}

/* Nobody reads from a socket by its name: it is not to be waited for. */
static void a_socket_is_an_error(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(output_check("socket", 1), -1);
	assert_int_equal(errno, ENXIO);
	assert_fails("socket", ENXIO);
	close(descriptor);
	assert_int_equal(unlink("socket"), 0);
}

static void a_file_beyond_the_limit_is_an_error_and_leaves_nothing(void **state)
{
	const struct rlimit small = { 1000, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(output_check("new", SIZE), -1);
	assert_int_equal(errno, EFBIG);
	assert_int_equal(output_check("new", 1000), 0);
	assert_fails("new", EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(access("new", F_OK), -1);
}

static void a_full_device_is_an_error(void **state)
{
	(void)state;
	assert_fails("/dev/full", ENOSPC);
}

/* Reads all that comes, slowly. */
static void *read_all(void *argument)
{
	static uint8_t found[SIZE + 1];
	uint64_t *size = argument;
	int descriptor = open("fifo", O_RDONLY);
	ssize_t count;

	while ((count = read(descriptor, found + *size, 5000)) > 0)
		*size += (uint64_t)count;
	close(descriptor);
	if (memcmp(found, bytes, SIZE) != 0)
		*size = 0;
	return NULL;
}

static void a_pipe_gets_all_once_it_has_a_reader(void **state)
{
	uint64_t size = 0;
	pthread_t reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &size), 0);
	assert_int_equal(store("fifo", SIZE), 0);
	pthread_join(reader, NULL);
	assert_int_equal(size, SIZE);
	assert_int_equal(unlink("fifo"), 0);
}

/* Whatever write(2) and close(2) come to. */
static void only_what_is_a_failure_fails(void **state)
{
	struct output *output = output_open("new", 0600, &cancelled);

	(void)state;
	disk.stops = 3;
	assert_int_equal(output_write(output, bytes, 5), 5);
	assert_int_equal(disk.stops, 0);
	assert_int_equal(output_write(output, bytes + 5, 1), 1);
	assert_int_equal(output_commit(output), 0);
	assert_stored("new", 6);
	disk.end = EIO;
	assert_fails("/dev/null", EIO);
}

/* A little later, and once this number (NULL: none) is not 0; for ten seconds at most. */
static void *cancel(void *argument)
{
	const _Atomic uint64_t *number = argument;

	for (int i = 0; number && *number == 0 && i < 1000; i++)
		usleep(10000);
	usleep(20000);
	atomic_store(&cancelled, true);
	return NULL;
}

static void a_reader_that_does_not_read_can_be_cancelled(void **state)
{
	pthread_t canceller;
	int reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &disk.calls), 0);
	assert_fails("fifo", ECANCELED);     /* no reader */
	assert_in_range(disk.calls, 1, 200); /* it waits, rather than ask again and again */
	pthread_join(canceller, NULL);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	atomic_store(&cancelled, false);
	disk.calls = written = 0;
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &written), 0);
	assert_fails("fifo", ECANCELED); /* a full pipe */
	assert_in_range(disk.calls, 1, 200);
	assert_in_range(written, 1, SIZE - 1);
	pthread_join(canceller, NULL);
	close(reader);
	assert_int_equal(unlink("fifo"), 0);
}

static void a_reader_that_goes_away_is_an_error(void **state)
{
	struct output *output;
	int reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	output = output_open("fifo", 0600, &cancelled);
	assert_non_null(output);
	assert_int_equal(output_write(output, bytes, 1), 1);
	close(reader);
	assert_int_equal(output_write(output, bytes, 1), -1);
	assert_int_equal(errno, EPIPE);
	output_abandon(output);
	assert_int_equal(unlink("fifo"), 0);
}

/* Nothing has the name before the commit, nor after an end without one. */
static void a_file_that_is_not_committed_is_not_there(void **state)
{
	struct output *output;

	(void)state;
	for (int round = 0; round < 4; round++) {
		disk.nameless = round & 1 ? EOPNOTSUPP : 0;
		output = output_open("new", 0600, &cancelled);
		assert_non_null(output);
		assert_int_equal(write_all(output, SIZE), 0);
		assert_int_equal(access("new", F_OK), -1);
		if (round < 2) {
			output_abandon(output);
		} else {
			atomic_store(&cancelled, true);
			assert_int_equal(output_write(output, bytes, 1), -1);
			assert_int_equal(errno, ECANCELED);
			assert_int_equal(output_commit(output), -1);
			assert_int_equal(errno, ECANCELED);
			atomic_store(&cancelled, false);
		}
		assert_int_equal(access("new", F_OK), -1);
	}
	output_abandon(NULL);
}

static void a_commit_that_is_cancelled_leaves_the_old_file(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		disk.nameless = round ? EOPNOTSUPP : 0;
		cancels_at_sync = false;
		assert_int_equal(store("old", 5), 0);
		cancels_at_sync = true;
		assert_fails("old", ECANCELED);
		atomic_store(&cancelled, false);
		assert_stored("old", 5);
	}
}

static void a_file_system_without_nameless_files_does_as_well(void **state)
{
	static const int errors[] = { EOPNOTSUPP, EISDIR, ENOENT };
	struct stat about;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		disk.nameless = errors[i];
		assert_int_equal(store("new", SIZE), 0);
		assert_int_equal(stat("new", &about), 0);
		assert_int_equal(about.st_mode & 07777, 0640);
		assert_int_equal(store("new", 3), 0);
		assert_stored("new", 3);
	}
	disk.nameless = EIO; /* it knows them, but something is wrong */
	assert_fails("new", EIO);
}

/* To this user, in this user namespace, by file systems that do not have that. */
static const int refused[] = { EPERM, EINVAL, ENOSYS, EOPNOTSUPP };

/* The owner stays if this user may give a file away, which is no failure otherwise. */
static void a_file_that_is_replaced_leaves_its_owner(void **state)
{
	struct stat about;

	(void)state;
	assert_int_equal(store("old", 5), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown("old", 12345, 54321), 0);
		assert_int_equal(store("old", SIZE), 0);
		assert_int_equal(stat("old", &about), 0);
		assert_int_equal(about.st_uid, 12345);
		assert_int_equal(about.st_gid, 54321);
	}
	assert_int_equal(chmod("old", 06755), 0);
	assert_int_equal(store("old", SIZE), 0);
	assert_int_equal(stat("old", &about), 0);
	assert_int_equal(about.st_mode & 07777, 0755); /* it has other contents now */
	for (size_t i = 0; i < ENTRIES(refused); i++) {
		disk.owner = refused[i];
		assert_int_equal(store("old", 7), 0);
		assert_int_equal(stat("old", &about), 0);
		assert_int_equal(about.st_mode & 07777, 0755);
	}
	disk.owner = EIO;
	assert_fails("old", EIO);
	assert_stored("old", 7);
}

/* An ordinary user may give a file one of its own groups, though not another owner. */
static void a_file_that_is_replaced_leaves_its_group_or_the_groups_rights_go(void **state)
{
	struct stat about;

	(void)state;
	assert_int_equal(store("old", 5), 0);
	assert_int_equal(chmod("old", 0764), 0);
	disk.owner = EPERM;
	if (geteuid() == 0) {
		assert_int_equal(chown("old", 12345, 54321), 0);
		assert_int_equal(store("old", 6), 0);
		assert_int_equal(stat("old", &about), 0);
		assert_int_equal(about.st_uid, 0);
		assert_int_equal(about.st_gid, 54321);
		assert_int_equal(about.st_mode & 07777, 0764);
		for (size_t i = 0; i < ENTRIES(refused); i++) {
			assert_int_equal(chown("old", 12345, 54321), 0);
			assert_int_equal(chmod("old", 0764), 0);
			disk.group = refused[i];
			assert_int_equal(store("old", 6), 0);
			assert_int_equal(stat("old", &about), 0);
			assert_int_equal(about.st_gid, 0);
			assert_int_equal(about.st_mode & 07777, 0704);
		}
	}
	disk.group = EIO;
	assert_fails("old", EIO);
	assert_int_equal(unlink("old"), 0);
}

/* All of it is there, and verified: that would be a pity. */
static void a_file_system_without_modes_does_as_well(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENTRIES(refused); i++) {
		disk.mode = disk.owner = disk.group = refused[i];
		assert_int_equal(store("new", SIZE), 0);
		assert_int_equal(store("new", SIZE), 0);
		assert_stored("new", SIZE);
	}
	disk.mode = EIO;
	assert_fails("new", EIO);
}

/* Else it may be gone after a loss of power, though the sender was told that it is stored. */
static void a_name_is_on_the_disk_when_it_is_committed(void **state)
{
	static const int unknown[] = { EINVAL, ENOSYS, EOPNOTSUPP };

	(void)state;
	for (int round = 0; round < 4; round++) { /* a new one, and one that is replaced */
		disk.nameless = round & 1 ? EOPNOTSUPP : 0;
		assert_int_equal(store("new", SIZE), 0);
		assert_int_equal(disk.folders, round + 1);
	}
	for (size_t i = 0; i < ENTRIES(unknown); i++) {
		disk.folder = unknown[i]; /* the file system cannot sync a folder */
		assert_int_equal(store("new", SIZE), 0);
	}
	disk.folder = EIO;
	assert_fails("new", EIO);
	disk.unreadable = true;
	assert_int_equal(store("new", SIZE), 0);
	assert_int_equal(disk.systems, 1);
	assert_stored("new", SIZE);
	assert_int_equal(store("/dev/null", SIZE), 0);
	assert_int_equal(disk.systems, 1);
}

static void a_file_that_has_its_name_is_stored_whatever_closing_it_says(void **state)
{
	struct output *output = output_open("new", 0600, &cancelled);

	(void)state;
	assert_int_equal(output_write(output, bytes, 5), 5);
	disk.end = EIO;
	assert_int_equal(output_commit(output), 0);
	disk.end = 0;
	assert_stored("new", 5);
}

/* Without which a file that has no name would get none in the end. */
static void without_proc_a_temporary_name_does_as_well(void **state)
{
	(void)state;
	disk.no_proc = true;
	assert_int_equal(store("new", SIZE), 0);
	assert_stored("new", SIZE);
	disk.taken = ENOSPC; /* so a temporary name it was */
	assert_fails("new", ENOSPC);
}

static void a_disk_that_fails_leaves_nothing(void **state)
{
	(void)state;
	disk.error = EIO;
	assert_fails("new", EIO);
	assert_int_equal(access("new", F_OK), -1);
	disk.error = EINVAL; /* a file system that cannot sync */
	assert_int_equal(store("new", SIZE), 0);
	assert_stored("new", SIZE);
}

/* While it is still being written, too. */
static void a_disk_that_fails_is_noticed_early(void **state)
{
	struct output *output = output_open("new", 0600, &cancelled);
	ssize_t count = 1;

	(void)state;
	disk.error = EIO;
	for (uint64_t done = 0; done < 2 * 1024 * 1024 && count > 0; done += (uint64_t)count)
		count = output_write(output, bytes, SIZE);
	assert_int_equal(count, -1);
	assert_int_equal(errno, EIO);
	output_abandon(output);
	assert_int_equal(access("new", F_OK), -1);
}

/* Nor takes it anything away: a file that has the template for a temporary name is another's. */
static void a_name_that_cannot_be_given_leaves_nothing(void **state)
{
	struct output *output;

	(void)state;
	for (int round = 0; round < 2; round++) {
		disk.nameless = round ? EOPNOTSUPP : 0;
		output = output_open("new", 0600, &cancelled);
		assert_int_equal(mkdir("new", 0700), 0);
		assert_int_equal(output_commit(output), -1);
		assert_int_equal(errno, EISDIR);
		assert_int_equal(rmdir("new"), 0);
	}
	disk.nameless = 0;
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	output = output_open("elsewhere/new", 0600, &cancelled);
	assert_int_equal(rmdir("elsewhere"), 0);
	assert_int_equal(output_commit(output), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(store("new", 5), 0);
	assert_int_equal(store("rdma-payload-XXXXXX", 7), 0);
	disk.taken = ENOSPC;
	assert_fails("new", ENOSPC);
	assert_stored("new", 5);
	assert_stored("rdma-payload-XXXXXX", 7);
}

/* Writes `size` bytes of no importance to a file that is not kept. */
static void write_much(uint64_t size)
{
	struct output *output = output_open("new", 0600, &cancelled);

	assert_non_null(output);
	for (uint64_t done = 0; done < size;) {
		ssize_t count = output_write(output, bytes, SIZE);

		assert_true(count > 0);
		done += (uint64_t)count;
	}
	output_abandon(output);
}

/* What has been written and not synced is about a second's, and so is the last sync. */
static void a_slow_disk_is_seen_to_move(void **state)
{
	const uint64_t mebibyte = 1024 * 1024;

	(void)state;
	disk.rate = mebibyte;
	write_much(12 * mebibyte);
	assert_in_range(disk.most, mebibyte, mebibyte + SIZE);
	assert_in_range(disk.syncs, 10, 14);
	reset(NULL);
	disk.rate = mebibyte / 10; /* 10 s for the first: then as little as is worth a sync */
	write_much(4 * mebibyte);
	assert_in_range(disk.most, mebibyte, mebibyte + SIZE);
	assert_in_range(disk.syncs, 6, 12);
}

static void a_fast_disk_is_not_held_up(void **state)
{
	const uint64_t mebibyte = 1024 * 1024;

	(void)state;
	write_much(256 * mebibyte);
	assert_in_range(disk.syncs, 8, 9); /* 1, 2, 4 ... 64, 64 MiB */
	assert_in_range(disk.most, 64 * mebibyte, 64 * mebibyte + SIZE); /* and never more */
	reset(NULL);
	disk.rate = 20 * mebibyte;
	write_much(100 * mebibyte);
	assert_in_range(disk.most, 16 * mebibyte, 21 * mebibyte);
}

/* Lets standard output be `descriptor`, which is closed; returns what it was. */
static int redirect(int descriptor)
{
	int before = dup(STDOUT_FILENO);

	fflush(stdout);
	dup2(descriptor, STDOUT_FILENO);
	close(descriptor);
	return before;
}

static void restore(int before)
{
	dup2(before, STDOUT_FILENO);
	close(before);
}

/* That its reader has stopped holds up nobody for good; and it blocks whoever else has it. */
static void a_terminal_that_takes_nothing_can_be_cancelled(void **state)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY), before, error, flags;
	pthread_t canceller;

	(void)state;
	assert_int_equal(grantpt(terminal) | unlockpt(terminal), 0);
	before = redirect(open(ptsname(terminal), O_RDWR | O_NOCTTY));
	written = 0;
	pthread_create(&canceller, NULL, cancel, &written);
	store("-", SIZE);
	error = errno;
	flags = fcntl(STDOUT_FILENO, F_GETFL);
	restore(before);
	assert_int_equal(error, ECANCELED);
	pthread_join(canceller, NULL);
	assert_in_range(written, 1, SIZE - 1);
	assert_int_equal(flags & O_NONBLOCK, 0);
	close(terminal);
}

static void a_standard_output_that_is_closed_is_an_error(void **state)
{
	int before = dup(STDOUT_FILENO), result, error;

	(void)state;
	fflush(stdout);
	close(STDOUT_FILENO);
	result = store("-", SIZE);
	error = errno;
	restore(before);
	assert_int_equal(result, -1);
	assert_int_equal(error, EBADF);
}

static void a_standard_output_that_does_not_block_gets_all(void **state)
{
	int before, result;
	uint64_t size = 0;
	pthread_t reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &size), 0);
	before = redirect(open("fifo", O_WRONLY));
	fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK);
	result = store("-", SIZE);
	restore(before);
	pthread_join(reader, NULL);
	assert_int_equal(result, 0);
	assert_int_equal(size, SIZE);
	assert_int_equal(written, SIZE);
	assert_int_equal(unlink("fifo"), 0);
}

/* What a shell has opened is not replaced. */
static void a_standard_output_that_is_a_file_stays_that_file(void **state)
{
	int before, result;

	(void)state;
	before = redirect(open("file", O_WRONLY | O_CREAT, 0600));
	result = store("-", SIZE - 1);
	if (!result && write(STDOUT_FILENO, bytes + SIZE - 1, 1) != 1) /* others may write on */
		result = -1;
	restore(before);
	assert_int_equal(result, 0);
	assert_int_equal(disk.synced, SIZE - 1);
	assert_stored("file", SIZE);
}

/* Like a log that a shell has opened with >>: by any of its names, also when its own is gone. */
static void what_is_open_already_is_written_to_in_place(void **state)
{
	static const char *const names[] = { "/dev/fd", "/proc/self/fd", "link" };
	static uint8_t found[SIZE];
	char name[64];

	(void)state;
	for (size_t i = 0; i < 2 * ENTRIES(names); i++) {
		int descriptor = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
		bool is_link = i / 2 == 2, is_gone = i % 2;

		assert_int_equal(write(descriptor, "old", 3), 3);
		snprintf(name, sizeof(name), "%s/%d", names[is_link ? 0 : i / 2], descriptor);
		if (is_link)
			assert_int_equal(symlink(name, "link"), 0);
		if (is_gone)
			assert_int_equal(unlink("log"), 0);
		assert_int_equal(output_check(is_link ? "link" : name, SIZE), 0);
		assert_int_equal(store(is_link ? "link" : name, 1000), 0);
		assert_int_equal(write(descriptor, "more", 4), 4); /* it is still open */
		assert_int_equal(pread(descriptor, found, sizeof(found), 0), 1007);
		assert_memory_equal(found, "old", 3);
		assert_memory_equal(found + 3, bytes, 1000);
		assert_memory_equal(found + 1003, "more", 4);
		close(descriptor);
		assert_int_equal(unlink("log"), is_gone ? -1 : 0);
		assert_int_equal(unlink("link"), is_link ? 0 : -1);
	}
	assert_int_equal(access("log (deleted)", F_OK), -1);
}

/* In options: what is said on standard error. */
static enum parsed resolve(const char *name, const char **meant)
{
	struct options options = { .output = name };
	FILE *terminal = stderr;
	enum parsed parsed;
	char *text = NULL;
	size_t size = 0;

	stderr = open_memstream(&text, &size); /* which needs no descriptor */
	parsed = output_resolve(&options);
	fclose(stderr);
	stderr = terminal;
	free(text);
	*meant = options.output;
	return parsed;
}

static void standard_output_has_many_names(void **state)
{
	static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1",
					     "link" };
	static const char *const others[] = {
		"new",           "/dev/stderr",     "/dev/null", "missing/file",
		"/proc/self/fd", "/proc/self/fd/x", "1"
	};
	const char *meant;

	(void)state;
	assert_int_equal(symlink("/dev/stdout", "link"), 0);
	for (size_t i = 0; i < ENTRIES(names); i++) {
		assert_int_equal(resolve(names[i], &meant), PARSED_RUN);
		assert_string_equal(meant, "-");
	}
	for (size_t i = 0; i < ENTRIES(others); i++) {
		assert_int_equal(resolve(others[i], &meant), PARSED_RUN);
		assert_string_equal(meant, others[i]);
	}
	assert_int_equal(resolve(NULL, &meant), PARSED_RUN);
	assert_null(meant);
	assert_int_equal(unlink("link"), 0);
}

/* Before anything is opened that might get its number. */
static void a_descriptor_that_cannot_be_written_to_is_a_usage_error(void **state)
{
	int before = dup(STDOUT_FILENO);
	const char *meant;
	enum parsed closed, read_only;

	(void)state;
	assert_int_equal(resolve("/dev/fd/999", &meant), PARSED_FAILED);
	fflush(stdout);
	close(STDOUT_FILENO);
	closed = resolve("-", &meant);
	assert_int_equal(open("/dev/null", O_RDONLY), STDOUT_FILENO);
	read_only = resolve("/dev/stdout", &meant);
	restore(before);
	assert_int_equal(closed, PARSED_FAILED);
	assert_int_equal(read_only, PARSED_FAILED);
}

/* A verdict is no better than what is on the disk. */
static void a_standard_output_on_a_disk_that_fails_is_an_error(void **state)
{
	int before, result, error;

	(void)state;
	disk.error = EIO;
	for (int round = 0; round < 2; round++) {
		before = redirect(open("file", O_WRONLY | O_CREAT, 0600));
		disk.is_block = round;
		result = store("-", SIZE);
		error = errno;
		disk.is_block = false;
		restore(before);
		assert_int_equal(result, -1);
		assert_int_equal(error, EIO);
		assert_stored("file", SIZE);
	}
}

/* Another user's pipe, as with sudo(8): it gets all, and cannot hold anybody up. */
static void a_standard_output_that_cannot_be_opened_again_gets_all(void **state)
{
	int ends[2], before, result, error;
	uint64_t size = 0;
	pthread_t other;

	(void)state;
	disk.again = EACCES;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&other, NULL, read_all, &size), 0);
	before = redirect(open("fifo", O_WRONLY));
	result = store("-", SIZE);
	restore(before);
	pthread_join(other, NULL);
	assert_int_equal(result, 0);
	assert_int_equal(size, SIZE);
	assert_int_equal(unlink("fifo"), 0);
	for (int is_socket = 0; is_socket < 2; is_socket++) {
		assert_int_equal(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends),
				 0);
		/* so that a pipe has room for less than what is stored next */
		assert_int_equal(write(ends[1], bytes, 2000), 2000);
		atomic_store(&cancelled, false);
		before = redirect(ends[1]);
		pthread_create(&other, NULL, cancel, NULL);
		result = 0;
		while (!result) /* until it is full, however much that takes */
			result = store("-", SIZE);
		error = errno;
		restore(before);
		pthread_join(other, NULL);
		assert_int_equal(error, ECANCELED);
		close(ends[0]);
	}
}

/* Not to be waited for, as the reader of a FIFO that is named on the command line is. */
static void a_standard_output_without_a_reader_is_an_error(void **state)
{
	int reader, before, result, error;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	before = redirect(open("fifo", O_WRONLY));
	close(reader);
	result = store("-", SIZE);
	error = errno;
	restore(before);
	assert_int_equal(result, -1);
	assert_int_equal(error, EPIPE);
	assert_int_equal(unlink("fifo"), 0);
}

/* NULL: it went well. */
static void *store_behind(void *argument)
{
	(void)argument;
	return store("fifo", 7) ? bytes : NULL;
}

/* As in a file of their own, but one behind the other; what only the first would have is let go. */
static void payloads_for_one_pipe_follow_one_another(void **state)
{
	struct output *first, *second;
	pthread_t canceller;
	uint8_t found[20];
	void *result;
	int reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	for (int commits = 0; commits < 2; commits++) {
		first = output_open("fifo", 0600, &cancelled);
		assert_non_null(first);
		pthread_create(&canceller, NULL, cancel, NULL);
		second = output_open("fifo", 0600, &cancelled);
		assert_null(second);
		assert_int_equal(errno, ECANCELED);
		pthread_join(canceller, NULL);
		atomic_store(&cancelled, false);
		assert_int_equal(store("new", 1), 0); /* has nothing to do with it */
		assert_stored("new", 1);
		assert_int_equal(store("/dev/null", SIZE), 0);
		if (commits)
			assert_int_equal(output_commit(first), 0);
		else
			output_abandon(first);
	}
	first = output_open("fifo", 0600, &cancelled);
	assert_non_null(first);
	pthread_create(&canceller, NULL, store_behind, NULL);
	usleep(20000); /* it waits, or comes later: either way it is the second */
	assert_int_equal(output_write(first, bytes, 5), 5);
	assert_int_equal(output_commit(first), 0);
	pthread_join(canceller, &result);
	assert_null(result);
	assert_int_equal(read(reader, found, sizeof(found)), 12);
	assert_memory_equal(found, bytes, 5);
	assert_memory_equal(found + 5, bytes, 7);
	close(reader);
	pthread_create(&canceller, NULL, cancel, NULL);
	assert_null(output_open("fifo", 0600, &cancelled)); /* no reader: another one may try */
	pthread_join(canceller, NULL);
	atomic_store(&cancelled, false);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	assert_int_equal(store("fifo", 5), 0);
	close(reader);
	assert_int_equal(unlink("fifo"), 0);
}

static void nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(count_descriptors(), descriptors_before);
	assert_nothing_is_left(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_new_file_has_the_bytes_and_the_mode, reset),
		cmocka_unit_test_setup(a_file_that_is_replaced_leaves_its_mode, reset),
		cmocka_unit_test_setup(a_symbolic_link_is_followed, reset),
		cmocka_unit_test_setup(a_symbolic_link_that_somebody_has_planted_is_not_followed,
				       reset),
		cmocka_unit_test_setup(a_symbolic_link_that_is_planted_meanwhile_is_replaced,
				       reset),
		cmocka_unit_test_setup(as_many_symbolic_links_are_followed_as_by_the_kernel, reset),
		cmocka_unit_test_setup(a_name_that_is_too_long_is_no_other_name, reset),
		cmocka_unit_test_setup(a_file_with_the_longest_name_is_replaced, reset),
		cmocka_unit_test_setup(what_cannot_be_stored_is_found_before, reset),
		cmocka_unit_test_setup(what_cannot_be_replaced_is_found_before, reset),
		cmocka_unit_test_setup(a_folder_that_others_own_is_found_before, reset),
		cmocka_unit_test_setup(a_new_file_has_the_mode_that_the_mask_leaves, reset),
		cmocka_unit_test_setup(a_socket_is_an_error, reset),
		cmocka_unit_test_setup(a_file_beyond_the_limit_is_an_error_and_leaves_nothing,
				       reset),
		cmocka_unit_test_setup(a_full_device_is_an_error, reset),
		cmocka_unit_test_setup(only_what_is_a_failure_fails, reset),
		cmocka_unit_test_setup(a_pipe_gets_all_once_it_has_a_reader, reset),
		cmocka_unit_test_setup(a_reader_that_does_not_read_can_be_cancelled, reset),
		cmocka_unit_test_setup(a_reader_that_goes_away_is_an_error, reset),
		cmocka_unit_test_setup(a_file_that_is_not_committed_is_not_there, reset),
		cmocka_unit_test_setup(a_commit_that_is_cancelled_leaves_the_old_file, reset),
		cmocka_unit_test_setup(a_file_system_without_nameless_files_does_as_well, reset),
		cmocka_unit_test_setup(a_file_that_is_replaced_leaves_its_owner, reset),
		cmocka_unit_test_setup(
			a_file_that_is_replaced_leaves_its_group_or_the_groups_rights_go, reset),
		cmocka_unit_test_setup(a_file_system_without_modes_does_as_well, reset),
		cmocka_unit_test_setup(a_name_is_on_the_disk_when_it_is_committed, reset),
		cmocka_unit_test_setup(a_file_that_has_its_name_is_stored_whatever_closing_it_says,
				       reset),
		cmocka_unit_test_setup(without_proc_a_temporary_name_does_as_well, reset),
		cmocka_unit_test_setup(a_disk_that_fails_leaves_nothing, reset),
		cmocka_unit_test_setup(a_disk_that_fails_is_noticed_early, reset),
		cmocka_unit_test_setup(a_name_that_cannot_be_given_leaves_nothing, reset),
		cmocka_unit_test_setup(a_slow_disk_is_seen_to_move, reset),
		cmocka_unit_test_setup(a_fast_disk_is_not_held_up, reset),
		cmocka_unit_test_setup(a_standard_output_that_does_not_block_gets_all, reset),
		cmocka_unit_test_setup(a_standard_output_that_is_a_file_stays_that_file, reset),
		cmocka_unit_test_setup(what_is_open_already_is_written_to_in_place, reset),
		cmocka_unit_test_setup(standard_output_has_many_names, reset),
		cmocka_unit_test_setup(a_descriptor_that_cannot_be_written_to_is_a_usage_error,
				       reset),
		cmocka_unit_test_setup(a_standard_output_on_a_disk_that_fails_is_an_error, reset),
		cmocka_unit_test_setup(a_standard_output_that_cannot_be_opened_again_gets_all,
				       reset),
		cmocka_unit_test_setup(a_standard_output_without_a_reader_is_an_error, reset),
		cmocka_unit_test_setup(a_standard_output_that_is_closed_is_an_error, reset),
		cmocka_unit_test_setup(a_terminal_that_takes_nothing_can_be_cancelled, reset),
		cmocka_unit_test_setup(payloads_for_one_pipe_follow_one_another, reset),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, make_folder, NULL);
}
