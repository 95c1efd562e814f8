// SPDX-License-Identifier: MIT
/*
 * Storing an incoming payload: files that are whole or not there, what they replace, readers that
 * do not read, and slow disks.
 */
#include "rdma-common/output.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "unit.h"
#include "folder.h"

#define SIZE     ((uint64_t)200000)
#define MEBIBYTE ((uint64_t)1024 * 1024)

static uint8_t bytes[SIZE];
static char folder[] = "/tmp/output-test.XXXXXX";
static struct outputs outputs;
static atomic_bool cancelled;

/* ---- A disk and a file system in the place of the C library's ---- */

enum call {
	NAMELESS, /* open(2) with O_TMPFILE */
	TEMPORARY,
	AGAIN, /* open(2) of standard output */
	READ_FOLDER,
	OWNER,
	GROUP,
	MODE,
	SYNC,
	SYNC_FOLDER,
	CLOSE, /* which closes all the same */
	CALLS
};

static struct {
	int errors[CALLS];      /* that these calls have; 0: none */
	uint64_t rate;          /* bytes that a sync writes in a second; 0: any number */
	uint64_t synced;        /* bytes */
	uint64_t most;          /* bytes that one sync wrote */
	unsigned int syncs;     /* with fdatasync(2) */
	unsigned int folders;   /* that were synced */
	unsigned int systems;   /* that were synced instead */
	int64_t time;           /* nanoseconds that it has taken so far */
	bool cancels;           /* fsync(2) comes back to somebody who has cancelled */
	uint64_t room, reserve; /* blocks of 4 KiB that are free, and for root; 0: what there is */
	bool blockless, sizeless; /* does not know how many blocks it has, nor of what size */
	bool is_block;            /* there is no file system: it is the disk itself */
	bool no_proc;             /* there is no /proc */
	_Atomic uint64_t calls;   /* of open(2) and write(2) */
	unsigned int stops;       /* calls of write(2) that are still to come to nothing */
	const char *special;      /* has these attributes, STATX_ATTR_* */
	uint64_t attributes;
	uid_t user;         /* who runs this, if that is asked */
	uid_t link_owner;   /* of symbolic links; 0: as it is */
	mode_t folder_mode; /* of folders, besides what they have */
	uid_t folder_owner; /* added to it */
} disk;

static bool fails(enum call call)
{
	errno = disk.errors[call];
	return errno != 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_nsec += disk.time;
	time->tv_sec += time->tv_nsec / 1000000000;
	time->tv_nsec %= 1000000000;
	return result;
}

int fstat(int descriptor, struct stat *about)
{
	int result = fstatat(descriptor, "", about, AT_EMPTY_PATH);

	if (disk.is_block)
		about->st_mode = (about->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
	return result;
}

int lstat(const char *name, struct stat *about)
{
	int result = fstatat(AT_FDCWD, name, about, AT_SYMLINK_NOFOLLOW);

	if (!result && disk.link_owner && S_ISLNK(about->st_mode))
		about->st_uid = disk.link_owner;
	return result;
}

int stat(const char *name, struct stat *about)
{
	int result = fstatat(AT_FDCWD, name, about, 0);

	if (!result && S_ISDIR(about->st_mode)) {
		about->st_mode |= disk.folder_mode;
		about->st_uid += disk.folder_owner;
	}
	return result;
}

uid_t geteuid(void)
{
	return disk.user ? disk.user : (uid_t)syscall(SYS_geteuid);
}

/* Nobody may write to what is immutable. */
int access(const char *name, int mode)
{
	errno = disk.no_proc && !strncmp(name, "/proc/", 6) ? ENOENT : EPERM;
	if (errno == ENOENT || (mode & W_OK && disk.special && !strcmp(name, disk.special) &&
				disk.attributes & STATX_ATTR_IMMUTABLE))
		return -1;
	return faccessat(AT_FDCWD, name, mode, 0);
}

int statx(int start, const char *name, int flags, unsigned int mask, struct statx *about)
{
	int result = (int)syscall(SYS_statx, start, name, flags, mask, about);

	if (disk.special && !strcmp(name, disk.special))
		about->stx_attributes |= disk.attributes;
	if (S_ISDIR(about->stx_mode)) {
		about->stx_mode = (uint16_t)(about->stx_mode | disk.folder_mode);
		about->stx_uid += disk.folder_owner;
	}
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
	return fails(SYNC) ? -1 : 0;
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
		return fails(SYNC_FOLDER) ? -1 : 0;
	}
	if (disk.cancels)
		atomic_store(&cancelled, true);
	return sync_disk(descriptor);
}

int open(const char *name, int flags, ...)
{
	bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	disk.calls++;
	if ((nameless && fails(NAMELESS)) ||
	    (!nameless && flags & O_DIRECTORY && fails(READ_FOLDER)) ||
	    (!strcmp(name, "/proc/self/fd/1") && fails(AGAIN)))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

int mkostemp(char *name, int flags)
{
	return fails(TEMPORARY) ? -1 : mkostemps(name, 0, flags);
}

int fchown(int descriptor, uid_t owner, gid_t group)
{
	return fails(group == (gid_t)-1 ? OWNER : GROUP)
		       ? -1
		       : fchownat(descriptor, "", owner, group, AT_EMPTY_PATH);
}

int fchmod(int descriptor, mode_t mode)
{
	return fails(MODE) ? -1 : (int)syscall(SYS_fchmod, descriptor, mode);
}

int statvfs(const char *name, struct statvfs *about)
{
	int descriptor = open(name, O_PATH), result = fstatvfs(descriptor, about);

	close(descriptor);
	if (disk.room) {
		about->f_frsize = disk.sizeless ? 0 : 4096;
		about->f_bavail = disk.room;
		about->f_bfree = disk.room + disk.reserve;
	}
	if (disk.blockless)
		about->f_blocks = about->f_bavail = 0;
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

	if (fails(CLOSE))
		return -1;
	errno = ENOTTY;
	return result;
}

/* ---- What all tests do ---- */

static int reset(void **state)
{
	(void)state;
	memset(&disk, 0, sizeof(disk));
	outputs.file_mode = 0640;
	atomic_store(&cancelled, false);
	return 0;
}

static int make_folder(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	signal(SIGXFSZ, SIG_IGN); /* as the programs do */
	signal(SIGPIPE, SIG_IGN);
	return enter_folder(folder) || mkfifo("fifo", 0600) ? -1 : 0;
}

/* All bytes, a few at a time; the number of them that were written is kept. */
static _Atomic uint64_t written;

static bool write_all(struct output *output, uint64_t size)
{
	for (written = 0; written < size;) {
		uint64_t piece = size - written < 7001 ? size - written : 7001;
		ssize_t count = output_write(output, bytes + written, piece);

		if (count < 0)
			return false;
		assert_in_range(count, 1, piece);
		written += (uint64_t)count;
	}
	return true;
}

static struct output *opened(const char *name)
{
	struct output *output = output_open(&outputs, name, &cancelled);

	assert_non_null(output);
	return output;
}

/* 0 or an errno value; so are those below. */
static int store(const char *name, uint64_t size)
{
	struct output *output = output_open(&outputs, name, &cancelled);
	int error;

	if (!output)
		return errno;
	if (write_all(output, size))
		return output_commit(output) ? errno : 0;
	error = errno;
	output_abandon(output);
	return error;
}

static int check(const char *name, uint64_t size)
{
	return output_check(name, size) ? errno : 0;
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

static bool is_there(const char *name)
{
	struct stat about;

	return !lstat(name, &about);
}

static struct stat about_file(const char *name)
{
	struct stat about = { 0 };

	assert_int_equal(lstat(name, &about), 0);
	return about;
}

/* A file without a name until the end, or one with a temporary one. */
static void choose_way(int round)
{
	disk.errors[NAMELESS] = round & 1 ? EOPNOTSUPP : 0;
}

/* ---- Files ---- */

TEST(a_file_has_the_bytes_and_the_mode_and_is_not_written_over)
{
	char longest[NAME_MAX + 1] = { 0 };
	int descriptor;

	memset(longest, 'x', NAME_MAX); /* a temporary name is no longer */
	for (int round = 0; round < 2; round++) {
		choose_way(round);
		assert_int_equal(store(longest, 1), 0);
		assert_int_equal(about_file(longest).st_mode & 07777, 0640);
		assert_int_equal(chmod(longest, 0751), 0);
		descriptor = open(longest, O_RDONLY);
		assert_int_equal(store(longest, SIZE), 0);
		assert_int_equal(about_file(longest).st_mode & 07777, 0751);
		assert_stored(longest, SIZE);
		assert_int_equal(lseek(descriptor, 0, SEEK_END), 1); /* the old one */
		close(descriptor);
	}
}

/* Nothing has the name before the commit, nor after an end without one. */
TEST(a_file_that_is_not_committed_is_not_there)
{
	struct output *output;

	for (int round = 0; round < 4; round++) {
		choose_way(round);
		output = opened("new");
		assert_true(write_all(output, SIZE));
		assert_false(is_there("new"));
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
		assert_false(is_there("new"));
		assert_int_equal(store("old", 5), 0);
		disk.cancels = true; /* while it is synced */
		assert_int_equal(store("old", SIZE), ECANCELED);
		reset(NULL);
		assert_stored("old", 5);
	}
	output_abandon(NULL);
}

/*
 * Which failures of which call are none: what a file system, or this user, cannot do. Anything else
 * leaves the file that there was; but for its folder's sync, behind which there is no way back. All
 * of it is there, and verified: to lose it without need would be a pity.
 */
TEST(only_what_is_a_failure_fails_a_file)
{
	static const struct {
		enum call call;
		int harmless[5];
		int error;
		uint64_t left; /* bytes of the file, then */
		int new_error; /* of a new file */
	} cases[] = {
		{ NAMELESS, { EOPNOTSUPP, EISDIR, ENOENT }, EIO, 5, EIO },
		{ OWNER, { EPERM, EINVAL, ENOSYS, EOPNOTSUPP }, EIO, 5, 0 },
		{ GROUP, { EPERM, EINVAL, ENOSYS, EOPNOTSUPP }, EIO, 5, 0 },
		{ MODE, { EPERM, EINVAL, ENOSYS, EOPNOTSUPP }, EIO, 5, EIO },
		{ SYNC, { EINVAL, ENOSYS, EOPNOTSUPP }, EIO, 5, EIO },
		{ SYNC, { 0 }, EPERM, 5, EPERM }, /* no file system is without it so */
		{ SYNC_FOLDER, { EINVAL, ENOSYS, EOPNOTSUPP }, EIO, SIZE, EIO },
		{ SYNC_FOLDER, { 0 }, EPERM, SIZE, EPERM },
		{ READ_FOLDER, { EACCES }, 0, SIZE, 0 }, /* the file system is synced instead */
		{ CLOSE, { 0 }, 0, SIZE, 0 },            /* it has its name, and is synced */
		{ TEMPORARY, { 0 }, ENOSPC, 5, ENOSPC },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		int *error = &disk.errors[cases[i].call];

		for (const int *harmless = cases[i].harmless; *harmless; harmless++) {
			*error = *harmless;
			assert_int_equal(store("file", SIZE), 0);
			assert_int_equal(store("file", 7), 0);
			assert_stored("file", 7);
		}
		*error = 0;
		assert_int_equal(store("file", 5), 0);
		*error = cases[i].error ? cases[i].error : EIO;
		assert_int_equal(store("file", SIZE), cases[i].error);
		*error = 0;
		assert_stored("file", cases[i].left);
		*error = cases[i].error ? cases[i].error : EIO;
		assert_int_equal(store("file", SIZE), cases[i].new_error);
		*error = 0;
		assert_int_equal(unlink("file"), cases[i].left == 5 && cases[i].new_error ? -1 : 0);
	}
	disk.no_proc = true; /* by which a file without a name gets one: so it is not opened */
	disk.errors[NAMELESS] = EIO;
	assert_int_equal(store("new", SIZE), 0);
	assert_stored("new", SIZE);
}

/* Else it may be gone after a loss of power, though the sender was told that it is stored. */
TEST(a_name_is_on_the_disk_when_it_is_committed)
{
	for (unsigned int round = 0; round < 4; round++) { /* a new one, and one that is replaced */
		choose_way((int)round);
		assert_int_equal(store("new", SIZE), 0);
		assert_int_equal(disk.folders, round + 1);
	}
	assert_stored("new", SIZE);
	disk.errors[READ_FOLDER] = EACCES;
	assert_int_equal(store("new", SIZE), 0);
	assert_int_equal(disk.systems, 1);
	assert_stored("new", SIZE);
	assert_int_equal(store("/dev/null", SIZE), 0);
	assert_int_equal(disk.folders + disk.systems, 5);
}

/* A name that is taken meanwhile by what no file can replace, or whose folder is gone. */
TEST(a_name_that_cannot_be_given_leaves_nothing)
{
	struct output *output;

	for (int round = 0; round < 2; round++) {
		choose_way(round);
		output = opened("new");
		assert_int_equal(mkdir("new", 0700), 0);
		assert_int_equal(output_commit(output), -1);
		assert_int_equal(errno, EISDIR);
		assert_int_equal(rmdir("new"), 0);
	}
	choose_way(0);
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	output = opened("elsewhere/new");
	assert_int_equal(rmdir("elsewhere"), 0);
	assert_int_equal(output_commit(output), -1);
	assert_int_equal(errno, ENOENT);
	/* a file that has the template for a temporary name is another's */
	assert_int_equal(store("rdma-payload-XXXXXX", 7), 0);
	disk.errors[TEMPORARY] = ENOSPC;
	assert_int_equal(store("new", SIZE), ENOSPC);
	assert_stored("rdma-payload-XXXXXX", 7);
}

/* An ordinary user may give a file one of its own groups, though not another owner. */
TEST(a_file_that_is_replaced_leaves_owner_group_and_mode_each_by_itself)
{
	static const struct {
		mode_t before;
		int owner_error, group_error;
		mode_t after; /* where the group could not be left, so far as root may give it */
	} cases[] = {
		{ 06755, 0, 0, 0755 }, /* it has other contents now */
		{ 01764, EPERM, 0, 0764 }, { 0764, EPERM, EPERM, 0704 },
		{ 0764, 0, EINVAL, 0704 }, { 0600, EOPNOTSUPP, ENOSYS, 0600 },
	};
	bool is_root = geteuid() == 0;
	struct stat about;

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		assert_int_equal(store("old", 5), 0);
		if (is_root)
			assert_int_equal(chown("old", 12345, 54321), 0);
		assert_int_equal(chmod("old", cases[i].before), 0);
		disk.errors[OWNER] = cases[i].owner_error;
		disk.errors[GROUP] = cases[i].group_error;
		assert_int_equal(store("old", SIZE), 0);
		reset(NULL);
		about = about_file("old");
		if (is_root) {
			assert_int_equal(about.st_uid, cases[i].owner_error ? 0 : 12345);
			assert_int_equal(about.st_gid, cases[i].group_error ? 0 : 54321);
			assert_int_equal(about.st_mode & 07777, cases[i].after);
		}
		assert_stored("old", SIZE);
	}
}

TEST(a_new_file_has_the_mode_that_the_mask_leaves)
{
	mode_t before = umask(027);

	outputs_init(&outputs);
	assert_int_equal(outputs.file_mode, 0640);
	assert_int_equal(umask(before), 027); /* as it was */
}

/* ---- Names ---- */

TEST(a_symbolic_link_is_followed)
{
	char absolute[sizeof(folder) + 32];
	const struct {
		const char *target, *link;
	} cases[] = { { "elsewhere/target", "link" },
		      { "target", "elsewhere/link" }, /* from the folder that it is in */
		      { absolute, "link" } };

	snprintf(absolute, sizeof(absolute), "%s/elsewhere/target", folder);
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		assert_int_equal(symlink(cases[i].target, cases[i].link), 0);
		assert_int_equal(check(cases[i].link, SIZE), 0);
		assert_int_equal(store(cases[i].link, 1), 0); /* dangling */
		assert_int_equal(store(cases[i].link, SIZE), 0);
		assert_true(S_ISLNK(about_file(cases[i].link).st_mode));
		assert_int_equal(unlink(cases[i].link), 0);
		assert_stored("elsewhere/target", SIZE);
	}
	assert_int_equal(rmdir("elsewhere"), 0);
}

/* fs.protected_symlinks in proc(5): only by its own, or by the folder's owner. */
TEST(a_symbolic_link_that_somebody_has_planted_is_not_followed)
{
	static const struct {
		mode_t folder_mode;
		uid_t link_owner, user, folder_owner;
		int error;
	} cases[] = {
		{ 0, 12345, 0, 0, 0 }, /* in a folder that is not everybody's */
		{ S_ISVTX, 12345, 0, 0, 0 },
		{ S_ISVTX | S_IWOTH, 12345, 0, 0, EACCES },
		{ S_ISVTX | S_IWOTH, 12345, 12345, 0, 0 },
		{ S_ISVTX | S_IWOTH, 12345, 0, 12345, 0 },
		{ S_ISVTX | S_IWOTH, 0, 0, 0, 0 },
	};

	uid_t folder_owner = about_file(".").st_uid;

	assert_int_equal(symlink("target", "link"), 0);
	for (size_t i = 0; i < 2 * ENTRIES(cases); i++) { /* dangling first */
		disk.folder_mode = cases[i / 2].folder_mode;
		disk.link_owner = cases[i / 2].link_owner;
		disk.user = cases[i / 2].user;
		if (cases[i / 2].folder_owner)
			disk.folder_owner = cases[i / 2].folder_owner - folder_owner;
		if (cases[i / 2].error)
			assert_int_equal(check("link", 7), cases[i / 2].error);
		assert_int_equal(store("link", 7), cases[i / 2].error);
		reset(NULL);
		if (i % 2 || !cases[i / 2].error)
			assert_stored("target", cases[i / 2].error ? 6 : 7);
		assert_false(is_there("target"));
		if (i % 2 == 0)
			assert_int_equal(store("target", 6), 0);
	}
	assert_int_equal(unlink("link"), 0);
}

/* Between the look and the end: it is replaced, not followed. */
TEST(a_symbolic_link_that_is_planted_meanwhile_is_replaced)
{
	struct output *output;
	struct stat about;

	assert_int_equal(store("target", 5), 0);
	assert_int_equal(chmod("target", 0777), 0);
	for (int round = 0; round < 2; round++) {
		choose_way(round);
		output = opened("new");
		assert_int_equal(symlink("target", "new"), 0);
		assert_true(write_all(output, SIZE));
		assert_int_equal(output_commit(output), 0);
		about = about_file("new");
		assert_true(S_ISREG(about.st_mode));
		assert_int_equal(about.st_mode & 0777, 0640);
		assert_stored("new", SIZE);
	}
	assert_stored("target", 5);
}

/* path_resolution(7): 40. */
TEST(as_many_symbolic_links_are_followed_as_by_the_kernel)
{
	char name[16], target[16] = "target";

	for (int number = 1; number <= 41; number++) {
		snprintf(name, sizeof(name), "link%d", number);
		assert_int_equal(symlink(target, name), 0);
		memcpy(target, name, sizeof(target));
	}
	assert_int_equal(check("link40", SIZE), 0);
	assert_int_equal(store("link40", SIZE), 0);
	assert_stored("target", SIZE);
	assert_int_equal(check("link41", SIZE), ELOOP);
	assert_int_equal(store("link41", SIZE), ELOOP);
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

/* Beside which a temporary name fits: that is found before. */
TEST(a_name_that_is_too_long_is_no_other_name)
{
	const size_t longest = PATH_MAX - sizeof("/rdma-payload-XXXXXX") - 1;

	for (int round = 0; round < 2; round++) {
		choose_way(round);
		assert_int_equal(check(long_name(longest), SIZE), 0);
		assert_int_equal(store(long_name(longest), 5), 0);
		assert_int_equal(store(long_name(longest), SIZE), 0);
		for (size_t more = 1; more <= 22; more++) {
			assert_int_equal(check(long_name(longest + more), SIZE), ENAMETOOLONG);
			assert_int_equal(store(long_name(longest + more), SIZE), ENAMETOOLONG);
		}
		assert_stored("new", SIZE);
	}
	assert_int_equal(symlink("longer", "new"), 0);
	assert_int_equal(store(long_name(longest), SIZE), ENAMETOOLONG);
	assert_int_equal(unlink("new"), 0);
}

/* ---- Before the transfer ---- */

TEST(a_name_that_cannot_be_stored_in_is_found_before)
{
	char too_long[300];
	const struct {
		const char *name;
		uint64_t size;
		int error;
	} cases[] = {
		{ "", 1, ENOENT },
		{ "new/", 1, EISDIR },
		{ "missing/file", 1, ENOENT },
		{ "missing/file", OUTPUT_SIZE_UNKNOWN, ENOENT },
		{ ".", 1, EISDIR },
		{ "./", 1, EISDIR },
		{ "/dev/null/file", 1, ENOTDIR },
		{ too_long, 1, ENAMETOOLONG },
		{ "new", UINT64_MAX / 2, ENOSPC },
		{ "new", SIZE, 0 },
		{ "new", OUTPUT_SIZE_UNKNOWN, 0 },
		{ "-", SIZE, 0 },
		{ "/dev/null", SIZE, 0 },
	};

	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	for (size_t i = 0; i < ENTRIES(cases); i++)
		assert_int_equal(check(cases[i].name, cases[i].size), cases[i].error);
}

/* What is reserved root alone may have. Some file systems do not know how much they have. */
TEST(too_little_room_is_found_before)
{
	static const struct {
		uint64_t blocks, reserve;
		bool blockless, sizeless; /* ramfs; what FUSE makes of nothing */
		int error, users_error;
	} cases[] = {
		{ 100, 0, false, false, 0, 0 },      { 101, 0, false, false, ENOSPC, ENOSPC },
		{ 101, 1, false, false, 0, ENOSPC }, { 102, 1, false, false, ENOSPC, ENOSPC },
		{ 101, 0, true, false, 0, 0 },       { 101, 0, false, true, 0, 0 },
	};
	bool is_root = geteuid() == 0;

	disk.room = 100;
	for (size_t i = 0; i < 2 * ENTRIES(cases); i++) {
		disk.user = i % 2 ? 12345 : 0;
		disk.reserve = cases[i / 2].reserve;
		disk.blockless = cases[i / 2].blockless;
		disk.sizeless = cases[i / 2].sizeless;
		assert_int_equal(check("new", cases[i / 2].blocks * 4096),
				 is_root && !disk.user ? cases[i / 2].error
						       : cases[i / 2].users_error);
	}
}

#define FOREIGN S_IWOTH /* with it: a folder that is another user's */

/* A mount point is what is bound into a container as a volume of one file. */
TEST(what_cannot_be_replaced_is_found_before)
{
	static const struct {
		const char *name, *special;
		uint64_t attributes;
		mode_t folder_mode;
		uid_t user; /* whose neither the file nor the folder is */
		int error;
	} cases[] = {
		{ "old", "old", STATX_ATTR_MOUNT_ROOT, 0, 0, EBUSY },
		{ "old", "old", STATX_ATTR_IMMUTABLE, 0, 0, EPERM },
		{ "old", "old", STATX_ATTR_APPEND, 0, 0, EPERM },
		{ "old", "old", STATX_ATTR_COMPRESSED, 0, 0, 0 },
		{ "old", ".", STATX_ATTR_IMMUTABLE, 0, 0, EPERM },
		{ "new", ".", STATX_ATTR_IMMUTABLE, 0, 0, EPERM },
		{ "old", ".", STATX_ATTR_APPEND, 0, 0, EPERM },
		{ "new", ".", STATX_ATTR_APPEND, 0, 0, 0 }, /* where one may be created */
		{ "old", NULL, 0, S_ISVTX, 0, 0 },
		{ "old", NULL, 0, 0, 12345, 0 },
		{ "old", NULL, 0, S_ISVTX, 12345, EPERM },
		{ "new", NULL, 0, S_ISVTX, 12345, 0 },
		{ "others", NULL, 0, S_ISVTX, 12345, 0 }, /* whose the file is, if that can be */
		{ "others", NULL, 0, S_ISVTX | FOREIGN, 0, 0 },
		{ "others", NULL, 0, S_ISVTX | FOREIGN, 54321, 0 }, /* whose the folder is */
	};

	assert_int_equal(store("old", 5), 0);
	assert_int_equal(store("others", 5), 0);
	if (geteuid() == 0)
		assert_int_equal(chown("others", 12345, 12345), 0);
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		disk.special = cases[i].special;
		disk.attributes = cases[i].attributes;
		disk.folder_mode = cases[i].folder_mode & S_ISVTX;
		disk.folder_owner = cases[i].folder_mode & FOREIGN ? 54321 : 0;
		disk.user = cases[i].user;
		if (!strcmp(cases[i].name, "others") && syscall(SYS_geteuid) != 0)
			continue; /* it is this user's */
		assert_int_equal(check(cases[i].name, SIZE), cases[i].error);
	}
	assert_stored("old", 5);
	assert_stored("others", 5);
	assert_string_equal(output_error(ENOSPC), strerror(ENOSPC));
	assert_non_null(strstr(output_error(EBUSY), "mount point"));
	assert_non_null(strstr(output_error(EPERM), "sticky"));
}

/* In a process of its own, which gives up what root may. */
TEST(a_folder_that_others_own_is_found_before)
{
	int status;
	pid_t child;

	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(mkdir("locked", 0555), 0);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0 && setuid(65534))
			_exit(2);
		_exit(check("locked/new", 1) != EACCES);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir("locked"), 0);
}

TEST(a_file_beyond_the_limit_is_an_error_and_leaves_nothing)
{
	const struct rlimit small = { 1000, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(check("new", SIZE), EFBIG);
	assert_int_equal(check("new", 1000), 0);
	assert_int_equal(store("new", SIZE), EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_false(is_there("new"));
}

/* ---- Disks ---- */

/* Writes so many bytes to a file that is not kept. */
static int write_much(uint64_t size)
{
	struct output *output = opened("new");
	ssize_t count = 1;
	int error;

	for (uint64_t done = 0; done < size && count > 0; done += (uint64_t)count)
		count = output_write(output, bytes, SIZE);
	error = count < 0 ? errno : 0;
	output_abandon(output);
	return error;
}

/* What has been written and not synced is about a second's, and so is the last sync. */
TEST(a_slow_disk_is_seen_to_move_and_a_fast_one_is_not_held_up)
{
	static const struct {
		uint64_t rate, size;
		uint64_t least, most; /* bytes of the longest sync */
		unsigned int fewest_syncs, most_syncs;
	} cases[] = {
		{ MEBIBYTE, 12 * MEBIBYTE, MEBIBYTE, MEBIBYTE + SIZE, 10, 14 },
		/* 10 s for the first: then as little as is worth a sync */
		{ MEBIBYTE / 10, 4 * MEBIBYTE, MEBIBYTE, MEBIBYTE + SIZE, 8, 12 },
		{ 20 * MEBIBYTE, 100 * MEBIBYTE, 16 * MEBIBYTE, 21 * MEBIBYTE, 8, 10 },
		/* 1, 2, 4 ... 64, 64 MiB, and never more */
		{ 0, 256 * MEBIBYTE, 64 * MEBIBYTE, 64 * MEBIBYTE + SIZE, 8, 9 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		reset(NULL);
		disk.rate = cases[i].rate;
		assert_int_equal(write_much(cases[i].size), 0);
		assert_in_range(disk.most, cases[i].least, cases[i].most);
		assert_in_range(disk.syncs, cases[i].fewest_syncs, cases[i].most_syncs);
	}
	disk.errors[SYNC] = EIO; /* is noticed early */
	assert_int_equal(write_much(2 * MEBIBYTE), EIO);
	assert_false(is_there("new"));
}

/* ---- What is no file ---- */

/* Nobody reads from a socket by its name: it is not to be waited for. */
TEST(a_socket_and_a_full_device_are_errors)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(check("socket", 1), ENXIO);
	assert_int_equal(store("socket", SIZE), ENXIO);
	close(descriptor);
	assert_int_equal(unlink("socket"), 0);
	assert_int_equal(store("/dev/full", SIZE), ENOSPC);
}

/* Whatever write(2) and close(2) come to. */
TEST(only_what_is_a_failure_fails)
{
	struct output *output = opened("new");

	disk.stops = 3;
	assert_int_equal(output_write(output, bytes, 5), 5);
	assert_int_equal(disk.stops, 0);
	assert_int_equal(output_commit(output), 0);
	assert_stored("new", 5);
	disk.errors[CLOSE] = EIO;
	assert_int_equal(store("/dev/null", SIZE), EIO);
}

/* Stores in a standard output that is `descriptor`, which is closed. */
static int store_in(int descriptor, uint64_t size)
{
	int before = dup(STDOUT_FILENO), error, flags;

	fflush(stdout);
	dup2(descriptor, STDOUT_FILENO);
	close(descriptor);
	flags = fcntl(STDOUT_FILENO, F_GETFL);
	error = store("-", size);
	assert_int_equal(fcntl(STDOUT_FILENO, F_GETFL), flags); /* whoever else has it */
	dup2(before, STDOUT_FILENO);
	close(before);
	return error;
}

static pthread_t begin(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
	return thread;
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

/*
 * What is stored in the FIFO, or in a standard output that is `descriptor` (-1: not there), waits
 * until it is cancelled, once `number` is not 0. What takes the bytes, before it is full, is
 * filled.
 */
static void assert_waits(int descriptor, _Atomic uint64_t *number)
{
	pthread_t canceller = begin(cancel, number);
	int error;

	do
		error = descriptor < 0 ? store("fifo", SIZE) : store_in(dup(descriptor), SIZE);
	while (!error);
	assert_int_equal(error, ECANCELED);
	pthread_join(canceller, NULL);
	atomic_store(&cancelled, false);
}

/* Whose reader has stopped: nobody is held up for good. */
enum stopped {
	FIFO_WITHOUT_READER,
	FULL_FIFO,
	TERMINAL,
	PIPE, /* and socket: of another user, as with sudo(8), so that it cannot be opened again */
	SOCKET,
};

/* The writer's end, and the reader's, each -1 if there is none. */
static void make_ends(enum stopped stopped, int ends[2])
{
	ends[0] = ends[1] = -1;
	if (stopped == FULL_FIFO)
		ends[0] = open("fifo", O_RDONLY | O_NONBLOCK);
	if (stopped == PIPE)
		assert_int_equal(pipe(ends), 0);
	if (stopped == SOCKET)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	if (stopped != TERMINAL)
		return;
	ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
	assert_int_equal(grantpt(ends[0]) | unlockpt(ends[0]), 0);
	ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
}

TEST(a_reader_that_does_not_read_can_be_cancelled)
{
	for (enum stopped stopped = FIFO_WITHOUT_READER; stopped <= SOCKET; stopped++) {
		bool again = stopped<PIPE, opens = stopped> FIFO_WITHOUT_READER;
		int ends[2];

		make_ends(stopped, ends);
		if (!again) /* there is room for less than what is stored next */
			assert_int_equal(write(ends[1], bytes, 2000), 2000);
		reset(NULL);
		disk.errors[AGAIN] = again ? 0 : EACCES;
		written = 0;
		assert_waits(ends[1], opens ? &written : &disk.calls);
		if (stopped <= TERMINAL)
			assert_in_range(written, opens, opens ? SIZE - 1 : 0);
		if (stopped <= FULL_FIFO) /* rather than ask again and again */
			assert_in_range(disk.calls, 1, 200);
		close(ends[0]);
		close(ends[1]);
	}
}

static void *store_behind(void *result)
{
	*(int *)result = store("fifo", 7);
	return NULL;
}

/* As in a file of their own, but one behind the other; what only the first would have is let go. */
TEST(payloads_for_one_pipe_follow_one_another)
{
	int reader = open("fifo", O_RDONLY | O_NONBLOCK), result = -1;
	struct output *first;
	pthread_t other;
	uint8_t found[20];

	for (int commits = 0; commits < 2; commits++) {
		first = opened("fifo");
		assert_waits(-1, NULL);
		assert_int_equal(store("new", 1), 0); /* has nothing to do with it */
		assert_stored("new", 1);
		assert_int_equal(store("/dev/null", SIZE), 0);
		if (commits)
			assert_int_equal(output_commit(first), 0);
		else
			output_abandon(first);
	}
	first = opened("fifo");
	other = begin(store_behind, &result);
	usleep(20000); /* it waits, or comes later: either way it is the second */
	assert_int_equal(output_write(first, bytes, 5), 5);
	assert_int_equal(output_commit(first), 0);
	pthread_join(other, NULL);
	assert_int_equal(result, 0);
	assert_int_equal(read(reader, found, sizeof(found)), 12);
	assert_memory_equal(found, bytes, 5);
	assert_memory_equal(found + 5, bytes, 7);
	close(reader);
	assert_waits(-1, NULL); /* no reader: another one may try */
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	assert_int_equal(store("fifo", 5), 0);
	close(reader);
}

/* Reads all that comes, slowly. */
static void *read_all(void *argument)
{
	static uint8_t found[SIZE + 1];
	uint64_t *size = argument;
	int descriptor = open("fifo", O_RDONLY);
	ssize_t count;

	*size = 0;
	while ((count = read(descriptor, found + *size, 5000)) > 0)
		*size += (uint64_t)count;
	close(descriptor);
	if (memcmp(found, bytes, SIZE) != 0)
		*size = 0;
	return NULL;
}

/* A FIFO that is named; a standard output that is one, and does not block, or is another user's. */
TEST(a_pipe_gets_all_once_it_has_a_reader)
{
	static const int flags[] = { 0, O_NONBLOCK, 0 };

	for (size_t i = 0; i < ENTRIES(flags); i++) {
		uint64_t size;
		pthread_t reader = begin(read_all, &size);

		disk.errors[AGAIN] = i == 2 ? EACCES : 0;
		if (i == 0) {
			assert_int_equal(store("fifo", SIZE), 0);
		} else {
			int writer = open("fifo", O_WRONLY);

			fcntl(writer, F_SETFL, O_WRONLY | flags[i]);
			assert_int_equal(store_in(writer, SIZE), 0);
		}
		pthread_join(reader, NULL);
		assert_int_equal(size, SIZE);
	}
}

/* That of a standard output is not waited for, as one of a FIFO on the command line is. */
TEST(a_reader_that_goes_away_is_an_error)
{
	int reader = open("fifo", O_RDONLY | O_NONBLOCK), writer = open("fifo", O_WRONLY);
	struct output *output = opened("fifo");

	assert_int_equal(output_write(output, bytes, 1), 1);
	close(reader);
	assert_int_equal(output_write(output, bytes, 1), -1);
	assert_int_equal(errno, EPIPE);
	output_abandon(output);
	assert_int_equal(store_in(writer, SIZE), EPIPE);
}

/* ---- What is open already ---- */

/* A verdict is no better than what is on the disk. What a shell has opened is not replaced. */
TEST(a_standard_output_on_a_disk_is_written_to_in_place_and_synced)
{
	for (int round = 0; round < 3; round++) {
		int descriptor = open("file", O_WRONLY | O_CREAT, 0600);

		reset(NULL);
		disk.errors[SYNC] = round ? EIO : 0;
		disk.is_block = round == 2;
		assert_int_equal(store_in(dup(descriptor), SIZE - 1), disk.errors[SYNC]);
		disk.is_block = false;
		assert_int_equal(write(descriptor, bytes + SIZE - 1, 1), 1); /* others write on */
		close(descriptor);
		assert_stored("file", SIZE);
		if (round == 0)
			assert_int_equal(disk.synced, SIZE - 1);
	}
}

/*
 * Like a log that a shell has opened with >>: by any of its names, also when its own is gone; the
 * last one in a process that works in the folder of its descriptors.
 */
TEST(what_is_open_already_is_written_to_in_place)
{
	static const char *const names[] = { "/dev/fd", "/proc/self/fd", "link", "" };
	static uint8_t found[SIZE];
	char name[64], *here = getcwd(NULL, 0);

	for (size_t i = 0; i < 2 * ENTRIES(names); i++) {
		int descriptor = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
		bool is_link = i / 2 == 2, is_here = i / 2 == 3, is_gone = i % 2;

		assert_int_equal(write(descriptor, "old", 3), 3);
		snprintf(name, sizeof(name), "%s/%d", names[is_link ? 0 : i / 2], descriptor);
		if (is_link)
			assert_int_equal(symlink(name, "link"), 0);
		if (is_gone)
			assert_int_equal(unlink("log"), 0);
		if (is_here)
			assert_int_equal(chdir("/proc/self/fd"), 0);
		assert_int_equal(check(is_link ? "link" : name + is_here, SIZE), 0);
		assert_int_equal(store(is_link ? "link" : name + is_here, 1000), 0);
		assert_int_equal(chdir(here), 0);
		assert_int_equal(write(descriptor, "more", 4), 4); /* it is still open */
		assert_int_equal(pread(descriptor, found, sizeof(found), 0), 1007);
		assert_memory_equal(found, "old", 3);
		assert_memory_equal(found + 3, bytes, 1000);
		assert_memory_equal(found + 1003, "more", 4);
		close(descriptor);
		assert_int_equal(unlink("log"), is_gone ? -1 : 0);
		assert_int_equal(unlink("link"), is_link ? 0 : -1);
	}
	free(here);
	assert_false(is_there("log (deleted)"));
	assert_int_equal(check("/proc/missing", 1), ENOENT);
	assert_int_equal(store("/proc/self/fd/999", 1), EBADF);
	assert_int_equal(store("/proc/self/mem ", 1), ENOENT); /* a name there can be no file's */
}

/* What --output is then; what cannot be written to is a row of options.bats. */
TEST(standard_output_has_many_names)
{
	static char parents[32];
	static const char *const names[][2] = {
		{ "-", "-" },
		{ "/dev/stdout", "-" },
		{ "/dev/fd/1", "-" },
		{ "/proc/self/fd/1", "-" },
		{ "link", "-" },
		{ parents, parents },
		{ "new", "new" },
		{ "/dev/stderr", "/dev/stderr" },
		{ "/dev/null", "/dev/null" },
		{ "missing/file", "missing/file" },
		{ "/proc/self/fd", "/proc/self/fd" },
		{ "/proc/self/fd/x", "/proc/self/fd/x" },
		{ "1", "1" },
	};

	snprintf(parents, sizeof(parents), "/proc/%d/fd/1", (int)getppid());
	assert_int_equal(symlink("/dev/stdout", "link"), 0);
	for (size_t i = 0; i < ENTRIES(names); i++) {
		struct options options = { .output = names[i][0] };

		assert_int_equal(output_resolve(&options), PARSED_RUN);
		assert_string_equal(options.output, names[i][1]);
	}
	assert_int_equal(output_resolve(&(struct options){ .output = NULL }), PARSED_RUN);
	assert_int_equal(unlink("link"), 0);
}

TEST(nothing_is_left)
{
	assert_int_equal(unlink("fifo"), 0);
	assert_nothing_is_left(folder);
}

RUN_TESTS(make_folder, reset, NULL)
