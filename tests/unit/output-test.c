// SPDX-License-Identifier: MIT
/*
 * Tests of the output of an incoming payload: complete files or none, replaced files, other users'
 * files, stopped readers, and slow disks.
 */
#include "rdma-common/output.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "unit.h"
#include "folder.h"

#define SIZE       ((uint64_t)200000)
#define MEBIBYTE   ((uint64_t)1024 * 1024)
#define BLOCK      4096
#define BLOCKS     100 /* free blocks of the disk */
#define LINKS      40  /* maximum number of links that are followed: path_resolution(7) */
#define EVERYBODYS (S_ISVTX | S_IWOTH)
#define GROUPS     (S_ISVTX | S_IWGRP)
#define OTHER      12345       /* another user or group */
#define UNMAPPED   65534       /* id of each user that the user namespace does not map */
#define ROOT       ((uid_t)-2) /* root, because 0 stands for the real user */

static uint8_t bytes[SIZE];
static atomic_bool output_taken;
static atomic_bool cancelled;

/* ---- A fake disk and file system ---- */

enum call {
	TEMPORARY,
	AGAIN, /* open(2) of /proc/self/fd/N */
	READ_FOLDER,
	MODE,
	READ_ACL,
	REMOVE_ACL,
	RANDOM,
	SYNC,
	SYNC_FOLDER,
	RENAME_NEW, /* renameat2(2) with RENAME_NOREPLACE */
	CLOSE,      /* closes the descriptor even if it fails */
	CALLS
};

/* The properties of the fake disk. A property of 0 has no effect. */
struct disk {
	uid_t user;         /* effective user. ROOT is user 0, and 0 the real user. */
	uid_t owner;        /* owner of links, pipes and devices */
	uid_t file_owner;   /* owner of the regular files */
	uid_t folder_owner; /* owner of the folders */
	uid_t planter;      /* owner of a file planted before open(2), or during fsync(2) */
	uid_t late_planter; /* owner of a file planted just before renameat2(2) */
	bool foreign;       /* another user owns all files, whatever the number of the owner */
	const char *link;   /* target of a link that replaces the name before open(2) */
	gid_t group;        /* group of the old file */
	mode_t folder_mode; /* additional mode bits of folders */
	int errors[CALLS];  /* errno of each call. 0 lets it succeed. */
	uint64_t rate;      /* bytes that a sync writes in a second. 0 is no limit. */
	uint64_t reserve;   /* free blocks that are reserved for root */
	bool blockless, sizeless; /* the numbers of blocks, or their size, are unknown */
	bool is_block;            /* each file is a block device */
	bool cancels;             /* the output is canceled during fsync(2) */
	unsigned int stops;       /* number of initial write(2) calls that write nothing, 0 to 3 */
	const char *special;      /* name of the only file that has `attributes` */
	uint64_t attributes;      /* STATX_ATTR_*, or-ed */
};

static struct disk disk;
static struct {
	uint64_t synced, longest_sync; /* bytes, in total and at most in one sync */
	unsigned int syncs;            /* number of fdatasync(2) calls */
	unsigned int folders, systems; /* number of synced folders and file systems */
	uint64_t nanoseconds;          /* time spent in syncs */
	_Atomic uint64_t calls;        /* calls of open(2) and write(2) */
	unsigned int names;            /* number of temporary names that were chosen */
} done;

static bool fails(enum call call)
{
	errno = disk.errors[call];
	return errno != 0;
}

int clock_gettime(UNUSED clockid_t clock, struct timespec *time)
{
	time->tv_sec = (time_t)(done.nanoseconds / 1000000000);
	time->tv_nsec = (long)(done.nanoseconds % 1000000000);
	return 0;
}

static int fake_stat(int start, const char *name, struct stat *about, int flags)
{
	int result = fstatat(start, name, about, flags);
	bool is_folder = !result && S_ISDIR(about->st_mode);
	uid_t owner = is_folder ? disk.folder_owner : disk.owner;

	if (result)
		return result;
	if (S_ISREG(about->st_mode))
		owner = disk.file_owner;
	about->st_mode |= is_folder ? disk.folder_mode : 0;
	if (disk.is_block)
		about->st_mode = (about->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
	if (owner)
		about->st_uid = owner;
	return 0;
}

int fstat(int descriptor, struct stat *about)
{
	int result = fake_stat(descriptor, "", about, AT_EMPTY_PATH);

	if (disk.planter)
		about->st_uid = disk.planter;
	return result;
}

int lstat(const char *name, struct stat *about)
{
	int result = fake_stat(AT_FDCWD, name, about, AT_SYMLINK_NOFOLLOW);

	if (!result && disk.group)
		about->st_gid = disk.group;
	return result;
}

int stat(const char *name, struct stat *about)
{
	return fake_stat(AT_FDCWD, name, about, 0);
}

int statx(int start, const char *name, int flags, unsigned int mask, struct statx *about)
{
	struct stat seen;

	if (syscall(SYS_statx, start, name, flags, mask, about) ||
	    fake_stat(start, name, &seen, flags))
		return -1;
	about->stx_mode = (uint16_t)seen.st_mode;
	about->stx_uid = seen.st_uid;
	about->stx_attributes = 0; /* independent of the file system of /tmp */
	if (disk.special && !strcmp(name, disk.special))
		about->stx_attributes = disk.attributes;
	return 0;
}

int statvfs(UNUSED const char *name, struct statvfs *about)
{
	*about = (struct statvfs){ .f_frsize = disk.sizeless ? 0 : BLOCK,
				   .f_blocks = disk.blockless ? 0 : 10 * BLOCKS,
				   .f_bavail = disk.blockless ? 0 : BLOCKS,
				   .f_bfree = BLOCKS + disk.reserve };
	return 0;
}

uid_t geteuid(void)
{
	if (disk.user)
		return disk.user == ROOT ? 0 : disk.user;
	return (uid_t)syscall(SYS_geteuid);
}

static int sync_disk(int descriptor)
{
	struct stat about;
	uint64_t size;

	assert_int_equal(fstat(descriptor, &about), 0);
	if (S_ISDIR(about.st_mode)) {
		done.folders++;
		return fails(SYNC_FOLDER) ? -1 : 0;
	}
	size = (uint64_t)about.st_size - done.synced;
	done.synced += size;
	if (size > done.longest_sync)
		done.longest_sync = size;
	if (disk.rate)
		done.nanoseconds += size * 1000000000 / disk.rate;
	return fails(SYNC) ? -1 : 0;
}

int fdatasync(int descriptor)
{
	done.syncs++;
	return sync_disk(descriptor);
}

int fsync(int descriptor)
{
	atomic_store(&cancelled, disk.cancels);
	if (disk.planter) {
		write_file("new", "planted", 7);
		disk.file_owner = disk.planter;
	}
	return sync_disk(descriptor);
}

int syncfs(UNUSED int descriptor)
{
	done.systems++;
	return 0;
}

int open(const char *name, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	done.calls++;
	if (disk.link) {
		assert_int_equal(rename(name, disk.link), 0);
		assert_int_equal(symlink(disk.link, name), 0);
	}
	if ((flags & O_EXCL && fails(TEMPORARY)) || (flags & O_DIRECTORY && fails(READ_FOLDER)) ||
	    (!strncmp(name, "/proc/self/fd/", 14) && fails(AGAIN)))
		return -1;
	if (flags & O_NOATIME && disk.foreign) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

/* Return 0, 1, 2 ... as random numbers, from 0 again after reset(). */
ssize_t getrandom(void *number, size_t size, UNUSED unsigned int flags)
{
	assert_int_equal(size, sizeof(done.names));
	if (!fails(RANDOM))
		memcpy(number, &done.names, size);
	done.names++;
	return disk.errors[RANDOM] ? -1 : (ssize_t)size;
}

int renameat2(int start, const char *from, int end, const char *to, unsigned int flags)
{
	if (disk.late_planter) {
		write_file("new", "planted", 7);
		disk.file_owner = disk.late_planter;
	}
	return fails(RENAME_NEW) ? -1 : (int)syscall(SYS_renameat2, start, from, end, to, flags);
}

ssize_t lgetxattr(UNUSED const char *name, UNUSED const char *attribute, UNUSED void *value,
		  UNUSED size_t size)
{
	return fails(READ_ACL) ? -1 : 1;
}

int fremovexattr(UNUSED int descriptor, UNUSED const char *attribute)
{
	return fails(REMOVE_ACL) ? -1 : 0;
}

int fchmod(int descriptor, mode_t mode)
{
	return fails(MODE) ? -1 : (int)syscall(SYS_fchmod, descriptor, mode);
}

/*
 * Write nothing in the first `disk.stops` calls: a signal, a full pipe and a write of 0 bytes are
 * not failures.
 */
ssize_t write(int descriptor, const void *from, size_t size)
{
	static const int errors[] = { 0, EAGAIN, EINTR };

	done.calls++;
	if (!disk.stops)
		return syscall(SYS_write, descriptor, from, size);
	errno = errors[--disk.stops];
	return errno ? -1 : 0;
}

/* Leave an error in errno, as any successful function may. */
int close(int descriptor)
{
	int result = (int)syscall(SYS_close, descriptor);

	if (fails(CLOSE))
		return -1;
	errno = ENOTTY;
	return result;
}

/* ---- Common parts ---- */

static int reset(UNUSED void **state)
{
	memset(&disk, 0, sizeof(disk));
	memset(&done, 0, sizeof(done));
	disk.errors[READ_ACL] = ENODATA;
	atomic_store(&cancelled, false);
	return 0;
}

static int make_folder(void **state)
{
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	signal(SIGXFSZ, SIG_IGN); /* as the programs do */
	signal(SIGPIPE, SIG_IGN);
	umask(027);
	return enter_folder(state) || mkfifo("fifo", 0600) || mknod("socket", S_IFSOCK | 0600, 0)
		       ? -1
		       : 0;
}

/* Write all bytes, a few at a time. Return 0 or an errno value, as store() does. */
static int write_all(struct output *output, uint64_t size)
{
	for (uint64_t written = 0; written < size;) {
		uint64_t piece = size - written < 7001 ? size - written : 7001;
		ssize_t count = output_write(output, bytes + written, piece);

		if (count < 0)
			return errno;
		assert_between(count, 1, piece);
		written += (uint64_t)count;
	}
	return 0;
}

/* Return 0, or the errno value of a call that returned -1. */
static int error_of(int result)
{
	int error = result ? errno : 0;

	assert_true(result == 0 || result == -1);
	return error;
}

static int commit(struct output *output)
{
	return error_of(output_commit(output));
}

static struct output *opened(const char *name)
{
	struct output *output = output_open(&output_taken, name, OUTPUT_SIZE_UNKNOWN, &cancelled);

	assert_non_null(output);
	return output;
}

static int store(const char *name, uint64_t size)
{
	struct output *output = output_open(&output_taken, name, OUTPUT_SIZE_UNKNOWN, &cancelled);
	int error = output ? write_all(output, size) : errno;

	if (output && !error)
		return commit(output);
	output_abandon(output);
	return error;
}

static int check(const char *name)
{
	return error_of(output_check(name));
}

/* Open an output for `size` bytes, and abandon it. Return 0 or an errno value. */
static int open_for(const char *name, uint64_t size)
{
	struct output *output = output_open(&output_taken, name, size, &cancelled);
	int error = output ? 0 : errno;

	output_abandon(output);
	return error;
}

static struct stat about_file(const char *name)
{
	struct stat about = { 0 };

	assert_int_equal(lstat(name, &about), 0);
	return about;
}

/* Return a name of an open file: /dev/fd/1 is standard output, for example. */
static const char *name_of(int descriptor)
{
	static char name[32];

	snprintf(name, sizeof(name), "/dev/fd/%d", descriptor);
	return name;
}

/* Return the name of the only temporary file. */
static const char *temporary_name(void)
{
	static char name[32];
	DIR *here = opendir(".");
	struct dirent *entry;

	name[0] = '\0';
	while ((entry = readdir(here))) {
		if (strncmp(entry->d_name, "rdma-payload-", 13) != 0)
			continue;
		assert_string_equal(name, "");
		snprintf(name, sizeof(name), "%.31s", entry->d_name);
	}
	closedir(here);
	assert_string_not_equal(name, "");
	return name;
}

/* ---- Files ---- */

/* The folder is synced, too: otherwise a power failure could lose the name. */
TEST(replaced_file_keeps_its_mode_and_its_folder_is_synced)
{
	char longest[NAME_MAX + 1] = { 0 };
	int descriptor;

	memset(longest, 'x', NAME_MAX); /* the longest name possible; a temporary name is shorter */
	assert_int_equal(store(longest, 1), 0);
	assert_int_equal(about_file(longest).st_mode & 07777, 0640);
	assert_int_equal(chmod(longest, 0751), 0);
	descriptor = open(longest, O_RDONLY);
	assert_int_equal(store(longest, SIZE), 0);
	assert_int_equal(about_file(longest).st_mode & 07777, 0751);
	assert_stored(longest, bytes, SIZE);
	assert_int_equal(lseek(descriptor, 0, SEEK_END), 1); /* the old file is unchanged */
	close(descriptor);
	assert_int_equal(done.folders, 2);
	disk.errors[READ_FOLDER] = EACCES; /* then the whole file system is synced */
	assert_int_equal(store("new", SIZE), 0);
	assert_stored("new", bytes, SIZE);
	assert_int_equal(store("/dev/null", SIZE), 0); /* a character device needs no sync */
	assert_int_equal(done.systems, 1);
	assert_int_equal(done.folders, 2);
}

/* Otherwise another user could open the file, and read what is written later. */
TEST(file_is_private_until_it_is_complete)
{
	static const char *const names[] = { "new", "old" };

	assert_int_equal(store("old", 5), 0);
	assert_int_equal(chmod("old", 0666), 0);
	EACH_ROW (i, names) {
		struct output *output = opened(names[i]);

		assert_int_equal(about_file(temporary_name()).st_mode & 07777, 0600);
		assert_int_equal(write_all(output, SIZE), 0);
		assert_int_equal(about_file(temporary_name()).st_mode & 07777, 0600);
		assert_int_equal(commit(output), 0);
		assert_int_equal(about_file(names[i]).st_mode & 07777, i ? 0666 : 0640);
		assert_stored(names[i], bytes, SIZE);
	}
}

/* The folder's default ACL, not umask(2), determines the mode of a new file (acl(5)). */
TEST(new_file_gets_the_mode_of_the_default_acl_of_its_folder)
{
	static const struct {
		uint32_t version;
		struct {
			uint16_t tag, rights;
			uint32_t id;
		} entries[5];
	} acl = { 2,
		  { { 0x01, 7, UINT32_MAX }, /* the owner */
		    { 0x02, 6, OTHER },      /* another user */
		    { 0x04, 5, UINT32_MAX }, /* the group */
		    { 0x10, 7, UINT32_MAX }, /* the mask */
		    { 0x20, 4, UINT32_MAX } } /* others */ };

	assert_int_equal(mkdir("shared", 0700), 0);
	if (setxattr("shared", "system.posix_acl_default", &acl, sizeof(acl), 0)) {
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(rmdir("shared"), 0);
		skip();
	}
	assert_int_equal(store("shared/new", SIZE), 0);
	assert_int_equal(about_file("shared/new").st_mode & 07777, 0664);
	assert_stored("shared/new", bytes, SIZE);
	assert_int_equal(rmdir("shared"), 0);
}

TEST(uncommitted_or_cancelled_output_changes_no_file)
{
	struct output *output;

	for (int round = 0; round < 2; round++) {
		output = opened("new");
		assert_int_equal(write_all(output, SIZE), 0);
		assert_int_equal(access("new", F_OK), -1);
		if (round == 0) {
			output_abandon(output);
		} else {
			atomic_store(&cancelled, true);
			assert_int_equal(write_all(output, 1), ECANCELED);
			assert_int_equal(commit(output), ECANCELED);
			atomic_store(&cancelled, false);
		}
		assert_int_equal(access("new", F_OK), -1);
		assert_int_equal(store("old", 5), 0);
		disk.cancels = true; /* during the sync */
		assert_int_equal(store("old", SIZE), ECANCELED);
		reset(NULL);
		assert_stored("old", bytes, 5);
	}
	output_abandon(NULL);
}

/*
 * Some failures do not matter: the file system does not support the call, this user may not make
 * it, or the ACL cannot be read. Any other failure leaves the old file in place. After the file has
 * its new name, only a failed sync of the folder is reported; the file is complete, so it stays.
 */
TEST(file_is_stored_despite_harmless_failures_and_other_failures_tear_no_file)
{
	static const struct {
		enum call call;
		int harmless[6];    /* errors that do not matter; 0 ends the list */
		int failure, error; /* the failure, and the result of replacing a file of 5 bytes */
		uint64_t left;      /* size of the file afterwards */
		int new_error;      /* the result of storing a new file */
	} cases[] = {
		{ TEMPORARY, { 0 }, ENOSPC, ENOSPC, 5, ENOSPC },
		{ MODE, { EPERM, EACCES, EINVAL, ENOSYS, EOPNOTSUPP }, EIO, EIO, 5, EIO },
		{ READ_ACL, { ENODATA, EOPNOTSUPP, EIO }, EIO, 0, SIZE, 0 },
		{ REMOVE_ACL, { ENODATA, EOPNOTSUPP, EIO }, EIO, 0, SIZE, 0 },
		{ SYNC, { EINVAL, ENOSYS, EOPNOTSUPP }, EIO, EIO, 5, EIO },
		{ SYNC, { 0 }, EPERM, EPERM, 5, EPERM }, /* EPERM does not mean unsupported */
		/* NFS and some FUSE file systems do not support RENAME_NOREPLACE */
		{ RENAME_NEW, { EINVAL, ENOSYS, EOPNOTSUPP }, EIO, 0, SIZE, EIO },
		{ SYNC_FOLDER, { EINVAL, ENOSYS, EOPNOTSUPP }, EIO, EIO, SIZE, EIO },
		{ SYNC_FOLDER, { 0 }, EPERM, EPERM, SIZE, EPERM },
		{ CLOSE, { 0 }, EIO, 0, SIZE, 0 }, /* the file is synced and has its name */
	};

	EACH_ROW (i, cases) {
		int *error = &disk.errors[cases[i].call];

		for (const int *harmless = cases[i].harmless; *harmless; harmless++) {
			*error = *harmless;
			assert_int_equal(store("file", SIZE), 0);
			assert_int_equal(store("file", 7), 0);
			assert_stored("file", bytes, 7);
		}
		*error = 0;
		assert_int_equal(store("old", 5), 0);
		*error = cases[i].failure;
		assert_int_equal(store("old", SIZE), cases[i].error);
		assert_int_equal(store("new", SIZE), cases[i].new_error);
		*error = 0;
		assert_stored("old", bytes, cases[i].left);
		if (!cases[i].new_error || cases[i].call == SYNC_FOLDER)
			assert_stored("new", bytes, SIZE);
		else
			assert_int_equal(access("new", F_OK), -1);
	}
	disk.stops = 3;
	assert_int_equal(store("new", SIZE), 0);
	assert_int_equal(disk.stops, 0);
	assert_stored("new", bytes, SIZE);
	disk.errors[CLOSE] = EIO; /* a failed close(2) of a device is reported */
	assert_int_equal(store("/dev/null", SIZE), EIO);
}

/* The name is taken or becomes free during the transfer, or its folder is removed. */
TEST(name_taken_or_freed_during_the_transfer_is_handled_at_the_commit)
{
	struct output *output = opened("new");

	assert_int_equal(store("target", 5), 0);
	assert_int_equal(symlink("target", "new"), 0);
	assert_int_equal(write_all(output, SIZE), 0);
	assert_int_equal(commit(output), EEXIST);
	assert_true(S_ISLNK(about_file("new").st_mode));
	assert_int_equal(unlink("new"), 0);
	assert_stored("target", bytes, 5);
	output = opened("new");
	assert_int_equal(mkdir("new", 0700), 0);
	assert_int_equal(commit(output), EISDIR);
	assert_int_equal(rmdir("new"), 0);
	/* another session stores under the same name; the later payload stays */
	output = opened("new");
	assert_int_equal(store("new", 5), 0);
	assert_int_equal(chmod("new", 0606), 0);
	assert_int_equal(write_all(output, 7), 0);
	assert_int_equal(commit(output), 0);
	assert_int_equal(about_file("new").st_mode & 07777, 0606);
	assert_stored("new", bytes, 7);
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	output = opened("elsewhere/new");
	assert_int_equal(
		empty_folder(NULL) | mkfifo("fifo", 0600) | mknod("socket", S_IFSOCK | 0600, 0), 0);
	assert_int_equal(commit(output), ENOENT);
	/* the file to be replaced is removed: its mode is unknown, so the new one is private */
	assert_int_equal(store("old", 5), 0);
	output = opened("old");
	assert_int_equal(unlink("old"), 0);
	assert_int_equal(commit(output), 0);
	assert_int_equal(about_file("old").st_mode & 07777, 0600);
	assert_int_equal(unlink("old"), 0);
}

/* Without random numbers the names are numbered from 0. */
TEST(next_temporary_name_is_tried_if_one_is_taken)
{
	static const int errors[] = { 0, EAGAIN };

	EACH_ROW (i, errors) {
		assert_int_equal(store("old", 5), 0);
		write_file("rdma-payload-000000", bytes, 7);
		done.names = 0;
		disk.errors[RANDOM] = errors[i];
		assert_int_equal(store("old", SIZE), 0);
		assert_int_equal(done.names, 2);
		assert_stored("old", bytes, SIZE);
		assert_stored("rdma-payload-000000", bytes, 7);
	}
}

TEST(files_stay_if_every_temporary_name_is_in_use)
{
	char name[32];

	assert_int_equal(store("old", 5), 0);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "rdma-payload-%06x", i);
		write_file(name, bytes, 7);
	}
	done.names = 0;
	assert_int_equal(store("old", SIZE), EEXIST);
	assert_int_equal(done.names, 100);
	assert_stored("old", bytes, 5);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "rdma-payload-%06x", i);
		assert_stored(name, bytes, 7);
	}
}

/*
 * The rights of group and others would mean something else: with an ACL, the group bits are the
 * ACL's mask; another group has other members.
 */
TEST(rights_of_group_and_others_are_kept_only_without_acl_and_with_the_same_group)
{
	static const struct {
		mode_t before, after;
		int read_error, remove_error; /* read_error 0: the old file has an ACL */
		gid_t group;
	} cases[] = {
		{ 0664, 0664, ENODATA, 0, 0 },
		{ 0664, 0664, ENODATA, ENODATA, 0 },
		{ 0664, 0664, EOPNOTSUPP, EOPNOTSUPP, 0 },
		{ 06755, 0755, ENODATA, 0, 0 }, /* new contents must not get set-ID bits */
		{ 01764, 0764, ENODATA, 0, 0 },
		{ 0664, 0600, 0, 0, 0 },
		{ 0664, 0600, ERANGE, 0, 0 },
		{ 0664, 0600, ENODATA, EPERM, 0 }, /* the folder's ACL stays at the new file */
		{ 0664, 0600, ENODATA, 0, OTHER },
		{ 0755, 0700, ENODATA, 0, OTHER },
	};

	EACH_ROW (i, cases) {
		assert_int_equal(store("old", 5), 0);
		assert_int_equal(chmod("old", cases[i].before), 0);
		disk.errors[READ_ACL] = cases[i].read_error;
		disk.errors[REMOVE_ACL] = cases[i].remove_error;
		disk.group = cases[i].group;
		assert_int_equal(store("old", SIZE), 0);
		reset(NULL);
		assert_int_equal(about_file("old").st_mode & 07777, cases[i].after);
		assert_stored("old", bytes, SIZE);
	}
}

/* With the rights of a new file, others could read a file that replaces a private one. */
TEST(file_is_private_if_its_mode_cannot_be_set)
{
	assert_int_equal(store("old", 5), 0);
	disk.errors[MODE] = EACCES;
	assert_int_equal(store("old", SIZE), 0);
	reset(NULL);
	assert_int_equal(about_file("old").st_mode & 07777, 0600);
	assert_stored("old", bytes, SIZE);
}

/*
 * The superuser, too, replaces no file of another user. All unmapped users of a container have the
 * same id; the kernel knows better.
 */
TEST(only_a_file_of_this_user_is_replaced)
{
	static const struct {
		int error;
		struct disk disk;
	} cases[] = {
		{ 0, { 0 } },
		{ OUTPUT_OTHER_OWNER, { .file_owner = OTHER } },
		{ OUTPUT_OTHER_OWNER, { .file_owner = OTHER, .user = ROOT } },
		{ OUTPUT_OTHER_OWNER,
		  { .file_owner = OTHER, .user = ROOT, .folder_mode = S_ISVTX } },
		{ OUTPUT_OTHER_OWNER, { .file_owner = OTHER, .user = 7, .folder_owner = OTHER } },
		{ OUTPUT_OTHER_OWNER, { .file_owner = OTHER, .user = 7, .folder_owner = 7 } },
		{ 0, { .file_owner = OTHER, .user = OTHER, .folder_owner = 7 } },
		{ 0, { .file_owner = OTHER, .user = OTHER, .folder_mode = EVERYBODYS } },
		{ OUTPUT_OTHER_OWNER, { .file_owner = UNMAPPED, .user = ROOT } },
		{ 0, { .file_owner = UNMAPPED, .user = UNMAPPED } },
		{ 0, { .file_owner = UNMAPPED, .user = UNMAPPED, .folder_mode = EVERYBODYS } },
		{ OUTPUT_OTHER_OWNER,
		  { .file_owner = UNMAPPED, .user = UNMAPPED, .foreign = true } },
	};

	EACH_ROW (i, cases) {
		assert_int_equal(store("old", 5), 0);
		assert_int_equal(chmod("old", 0664), 0);
		disk = cases[i].disk;
		disk.errors[READ_ACL] = ENODATA;
		assert_int_equal(check("old"), cases[i].error);
		assert_int_equal(store("old", SIZE), cases[i].error);
		reset(NULL);
		assert_int_equal(about_file("old").st_mode & 07777, 0664);
		assert_stored("old", bytes, cases[i].error ? 5 : SIZE);
	}
}

/* ---- Names ---- */

/*
 * Follow at most 40 links, as the kernel does (path_resolution(7)). In a sticky folder that others
 * may write to, follow only links of this user and of the folder's owner (fs.protected_symlinks in
 * proc(5)); unlike the kernel, apply this rule also if only the folder's group may write there.
 */
TEST(symbolic_links_are_followed_except_those_of_untrusted_users)
{
	static const struct {
		const char *name;
		int error;
		struct disk disk;
	} cases[] = {
		{ "link", 0, { 0 } },
		{ "elsewhere/link", 0, { 0 } }, /* the target is relative to the link's folder */
		{ "1", 0, { 0 } },
		{ "40", 0, { 0 } },
		{ "41", ELOOP, { 0 } },
		{ "to-folder", EISDIR, { 0 } }, /* a file cannot replace a folder */
		{ "link", 0, { .owner = OTHER } },
		{ "link", 0, { .owner = OTHER, .folder_mode = S_ISVTX } },
		{ "link", OUTPUT_OTHER_OWNER, { .owner = OTHER, .folder_mode = EVERYBODYS } },
		{ "link", OUTPUT_OTHER_OWNER, { .owner = OTHER, .folder_mode = GROUPS } },
		{ "link", 0, { .folder_mode = EVERYBODYS } },
		{ "link", 0, { .owner = OTHER, .folder_mode = EVERYBODYS, .user = OTHER } },
		{ "link", 0, { .owner = OTHER, .folder_mode = EVERYBODYS, .folder_owner = OTHER } },
		/* all unmapped users have this id */
		{ "link",
		  OUTPUT_OTHER_OWNER,
		  { .owner = UNMAPPED, .folder_mode = EVERYBODYS, .user = UNMAPPED } },
		{ "link",
		  OUTPUT_OTHER_OWNER,
		  { .owner = UNMAPPED, .folder_mode = EVERYBODYS, .folder_owner = UNMAPPED } },
	};
	char name[8], target[sizeof(folder) + 32];

	assert_int_equal(mkdir("elsewhere", 0700), 0);
	assert_int_equal(symlink("elsewhere/target", "link"), 0);
	assert_int_equal(symlink("target", "elsewhere/link"), 0);
	assert_int_equal(symlink("elsewhere/target/", "to-folder"), 0);
	snprintf(target, sizeof(target), "%s/elsewhere/target", folder);
	for (int link = 1; link <= LINKS + 1; link++) {
		snprintf(name, sizeof(name), "%d", link);
		assert_int_equal(symlink(target, name), 0);
		memcpy(target, name, sizeof(name));
	}
	EACH_ROW (i, cases) {
		disk = cases[i].disk;
		disk.file_owner = disk.user;
		assert_int_equal(check(cases[i].name), cases[i].error);
		assert_int_equal(store(cases[i].name, 1), cases[i].error); /* a dangling link */
		assert_int_equal(store(cases[i].name, SIZE), cases[i].error);
		reset(NULL);
		assert_true(S_ISLNK(about_file(cases[i].name).st_mode));
		if (cases[i].error)
			assert_int_equal(access("elsewhere/target", F_OK), -1);
		else
			assert_stored("elsewhere/target", bytes, SIZE);
	}
	for (int link = 1; link <= LINKS + 1; link++) {
		snprintf(name, sizeof(name), "%d", link);
		assert_int_equal(unlink(name), 0);
	}
	assert_int_equal(unlink("link") | unlink("elsewhere/link") | unlink("to-folder"), 0);
	assert_int_equal(rmdir("elsewhere"), 0);
}

/* Otherwise the payload would reach another user. Unmapped users of a container have the same id.
 */
TEST(pipe_of_an_untrusted_user_in_a_shared_sticky_folder_is_rejected)
{
	static const struct {
		int error;
		struct disk disk;
	} cases[] = {
		{ OUTPUT_OTHER_OWNER, { .owner = OTHER, .folder_mode = EVERYBODYS } },
		{ OUTPUT_OTHER_OWNER, { .owner = OTHER, .folder_mode = GROUPS } },
		{ OUTPUT_OTHER_OWNER, { .owner = OTHER, .folder_mode = EVERYBODYS, .user = ROOT } },
		/* this user's folder, into which another user has put the file */
		{ OUTPUT_OTHER_OWNER,
		  { .owner = 7, .folder_mode = GROUPS, .user = OTHER, .folder_owner = OTHER } },
		{ 0, { .owner = OTHER, .folder_mode = S_ISVTX, .user = ROOT } },
		{ 0, { .owner = OTHER, .folder_mode = S_IWOTH | S_IWGRP, .user = ROOT } },
		{ 0, { .owner = OTHER, .folder_mode = EVERYBODYS, .user = OTHER } },
		{ 0, { .owner = 7, .folder_mode = GROUPS, .user = ROOT, .folder_owner = 7 } },
		{ OUTPUT_OTHER_OWNER,
		  { .owner = UNMAPPED,
		    .folder_mode = EVERYBODYS,
		    .folder_owner = UNMAPPED,
		    .user = ROOT } },
		{ 0, { .owner = UNMAPPED, .folder_mode = EVERYBODYS, .user = UNMAPPED } },
		{ 0, { .owner = UNMAPPED, .folder_mode = S_ISVTX, .foreign = true } },
	};
	int reader = open("fifo", O_RDONLY | O_NONBLOCK), writer = open("fifo", O_WRONLY);
	char found[8];

	EACH_ROW (i, cases) {
		reset(NULL);
		disk = cases[i].disk;
		assert_int_equal(check("fifo"), cases[i].error);
		assert_int_equal(check("new"), 0);
		assert_int_equal(check(name_of(writer)), 0); /* already open: accepted */
		assert_int_equal(done.calls, 0);
		assert_int_equal(store("fifo", 7), cases[i].error);
		assert_int_equal(read(reader, found, sizeof(found)), cases[i].error ? -1 : 7);
		assert_int_equal(cases[i].error ? done.calls : 0, 0);
	}
	/* only the kernel notices that another unmapped user owns the pipe */
	disk = (struct disk){
		.owner = UNMAPPED, .folder_mode = EVERYBODYS, .user = UNMAPPED, .foreign = true
	};
	assert_int_equal(store("fifo", 7), OUTPUT_OTHER_OWNER);
	assert_int_equal(read(reader, found, sizeof(found)), -1);
	close(writer);
	close(reader);
}

/* The file is planted before the open, while bytes arrive, during the sync, or before the rename.
 */
TEST(file_planted_after_the_check_is_rejected)
{
	int reader = open("fifo", O_RDONLY | O_NONBLOCK);
	struct output *output;
	char found;

	disk.folder_mode = EVERYBODYS;
	disk.planter = OTHER;
	assert_int_equal(store("fifo", 1), OUTPUT_OTHER_OWNER);
	reset(NULL);
	disk.link = "moved";
	assert_int_equal(store("fifo", 1), ELOOP);
	assert_int_equal(rename("moved", "fifo"), 0);
	assert_int_equal(read(reader, &found, 1), 0);
	close(reader);
	for (int round = 0; round < 3; round++) {
		reset(NULL);
		output = opened("new");
		assert_int_equal(write_all(output, 5), 0);
		if (round == 0) {
			write_file("new", "planted", 7);
			disk.file_owner = OTHER;
		} else if (round == 1) {
			disk.planter = OTHER;
		} else {
			disk.late_planter = OTHER;
		}
		assert_int_equal(commit(output), OUTPUT_OTHER_OWNER);
		assert_stored("new", "planted", 7);
	}
}

/* Return "./././new" or "././/new" with this length. */
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

/* The path with the temporary name must not be too long, either: output_check() detects that. */
TEST(too_long_name_is_rejected_and_not_shortened)
{
	const size_t longest = PATH_MAX - sizeof("/rdma-payload-XXXXXX") - 1;

	assert_int_equal(store(long_name(longest), SIZE), 0);
	for (size_t more = 1; more <= 22; more++) {
		assert_int_equal(check(long_name(longest + more)), ENAMETOOLONG);
		assert_int_equal(store(long_name(longest + more), 5), ENAMETOOLONG);
	}
	assert_stored("new", bytes, SIZE);
	assert_int_equal(symlink("longer", "new"), 0);
	assert_int_equal(store(long_name(longest), SIZE), ENAMETOOLONG);
	assert_int_equal(unlink("new"), 0);
}

/* ---- Outputs that cannot be opened ---- */

/* clang-format off */
#define ATTRIBUTE(of, attribute) { .special = (of), .attributes = STATX_ATTR_##attribute }
/* clang-format on */

/* EBUSY: a single file that is bound into a container as a volume is a mount point. */
TEST(impossible_output_is_rejected_when_it_is_opened)
{
	char too_long[NAME_MAX + 2] = { 0 };
	const struct {
		const char *name;
		uint64_t size;
		int error;
		struct disk disk;
	} cases[] = {
		{ "", 1, ENOENT, { 0 } },
		{ "new/", 1, EISDIR, { 0 } },
		{ "missing/file", 1, ENOENT, { 0 } },
		{ "missing/file", OUTPUT_SIZE_UNKNOWN, ENOENT, { 0 } },
		{ ".", 1, EISDIR, { 0 } },
		{ "./", 1, EISDIR, { 0 } },
		{ "/dev/null/file", 1, ENOTDIR, { 0 } },
		{ "socket", 1, ENXIO, { 0 } }, /* a socket cannot be opened by its name */
		{ too_long, 1, ENAMETOOLONG, { 0 } },
		{ "new", OUTPUT_SIZE_UNKNOWN, 0, { 0 } },
		{ "-", UINT64_MAX / 2, 0, { 0 } },
		{ "/dev/null", UINT64_MAX / 2, 0, { 0 } },
		/* only root may use reserved blocks */
		{ "new", BLOCKS * BLOCK, 0, { .user = OTHER } },
		{ "new", (BLOCKS + 1) * BLOCK, ENOSPC, { .user = OTHER, .reserve = 1 } },
		{ "new", (BLOCKS + 1) * BLOCK, 0, { .user = ROOT, .reserve = 1 } },
		{ "new", (BLOCKS + 2) * BLOCK, ENOSPC, { .user = ROOT, .reserve = 1 } },
		/* ramfs and FUSE may report no number of blocks, or no block size */
		{ "new", (BLOCKS + 1) * BLOCK, 0, { .user = OTHER, .blockless = true } },
		{ "new", (BLOCKS + 1) * BLOCK, 0, { .user = OTHER, .sizeless = true } },
		{ "old", 1, EBUSY, ATTRIBUTE("old", MOUNT_ROOT) },
		{ "old", 1, EPERM, ATTRIBUTE("old", IMMUTABLE) },
		{ "old", 1, EPERM, ATTRIBUTE("old", APPEND) },
		{ "old", 1, 0, ATTRIBUTE("old", COMPRESSED) },
		{ "old", 1, EPERM, ATTRIBUTE(".", IMMUTABLE) },
		{ "old", 1, EPERM, ATTRIBUTE(".", APPEND) },
		/* an append-only folder allows new files, but no file there can be renamed */
		{ "new", 1, EPERM, ATTRIBUTE(".", APPEND) },
		{ "new", 1, 0, ATTRIBUTE(".", MOUNT_ROOT) },
	};

	memset(too_long, 'x', NAME_MAX + 1);
	assert_int_equal(store("old", 5), 0);
	EACH_ROW (i, cases) {
		disk = cases[i].disk;
		assert_int_equal(open_for(cases[i].name, cases[i].size), cases[i].error);
		/* the check of a server knows no size, and leaves full disks to its sessions */
		if (cases[i].error != ENOSPC)
			assert_int_equal(check(cases[i].name), cases[i].error);
	}
	assert_stored("old", bytes, 5);
	assert_int_equal(store("socket", SIZE), ENXIO);
	assert_int_equal(store("/dev/full", SIZE), ENOSPC); /* only write(2) reports this */
	assert_string_equal(output_error(ENOSPC), strerror(ENOSPC));
	assert_non_null(strstr(output_error(EBUSY), "mount point"));
	assert_non_null(strstr(output_error(EPERM), "immutable"));
	assert_non_null(strstr(output_error(OUTPUT_OTHER_OWNER), "another user"));
}

/* access(2) checks the real user: as root, change the real user only. */
TEST(unwritable_folder_or_file_is_rejected_when_it_is_opened)
{
	bool is_root = geteuid() == 0;
	uid_t user = is_root ? OTHER : geteuid();

	assert_int_equal(store("old", 5), 0);
	assert_int_equal(chown("old", user, (gid_t)-1) | chown(".", user, (gid_t)-1), 0);
	assert_int_equal(chmod("old", 0400), 0);
	assert_int_equal(is_root ? setreuid(OTHER, 0) : 0, 0);
	disk.user = OTHER;
	disk.file_owner = OTHER;
	assert_int_equal(check("old"), EACCES);
	assert_int_equal(store("old", SIZE), EACCES);
	assert_int_equal(check("new"), 0);
	assert_int_equal(chmod(".", 0500), 0);
	assert_int_equal(check("new"), EACCES);
	assert_int_equal(store("new", SIZE), EACCES);
	assert_int_equal(is_root ? setreuid(0, 0) : 0, 0);
	assert_int_equal(chmod(".", 0700), 0);
	assert_stored("old", bytes, 5);
}

TEST(file_beyond_the_size_limit_fails_and_leaves_no_file)
{
	const struct rlimit small = { 1000, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(open_for("new", 1001), EFBIG);
	assert_int_equal(open_for("new", 1000), 0);
	assert_int_equal(store("new", SIZE), EFBIG);
	assert_int_equal(access("new", F_OK), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
}

/* ---- Disks ---- */

/* Write at least `size` bytes to a file, and abandon it. Return 0 or an errno value. */
static int write_much(uint64_t size)
{
	struct output *output = opened("new");
	ssize_t count = 1;
	int error;

	for (uint64_t total = 0; total < size && count > 0; total += (uint64_t)count)
		count = output_write(output, bytes, SIZE);
	error = count < 0 ? errno : 0;
	output_abandon(output);
	return error;
}

/* Bytes are synced in parts that take about a second each, of 256 KiB to 64 MiB. */
TEST(slow_disk_is_synced_in_small_parts_and_fast_disk_in_large_ones)
{
	static const struct {
		uint64_t rate, size;
		uint64_t least, most; /* limits of the longest sync, in bytes */
		unsigned int fewest_syncs, most_syncs;
	} cases[] = {
		{ MEBIBYTE, 12 * MEBIBYTE, MEBIBYTE, MEBIBYTE + SIZE, 10, 14 },
		/* the first sync takes 10 s, so later ones shrink to the minimum size */
		{ MEBIBYTE / 10, 4 * MEBIBYTE, MEBIBYTE, MEBIBYTE + SIZE, 8, 12 },
		{ 20 * MEBIBYTE, 100 * MEBIBYTE, 16 * MEBIBYTE, 21 * MEBIBYTE, 8, 10 },
		/* syncs of 1, 2, 4 ... 64 MiB, the maximum */
		{ 0, 256 * MEBIBYTE, 64 * MEBIBYTE, 64 * MEBIBYTE + SIZE, 8, 9 },
	};

	EACH_ROW (i, cases) {
		reset(NULL);
		disk.rate = cases[i].rate;
		assert_int_equal(write_much(cases[i].size), 0);
		assert_between(done.longest_sync, cases[i].least, cases[i].most);
		assert_between(done.syncs, cases[i].fewest_syncs, cases[i].most_syncs);
	}
	disk.errors[SYNC] = EIO; /* a failed sync is reported while writing */
	assert_int_equal(write_much(2 * MEBIBYTE), EIO);
	assert_int_equal(access("new", F_OK), -1);
}

/* ---- Outputs that are not files ---- */

static uint64_t calls_before_cancel;

/*
 * Handle the timer's signal, which comes every 100 ms: cancel after the expected calls, at the
 * latest after ten seconds.
 */
static void cancel(UNUSED int signal_number)
{
	static atomic_int signals;

	atomic_store(&cancelled, done.calls >= calls_before_cancel || ++signals % 100 == 0);
}

/*
 * Check that storing in `name`, whose reader has stopped, blocks until it is canceled after `calls`
 * calls of open(2) and write(2). Store repeatedly: a pipe must be full before a store blocks.
 */
static void assert_waits(const char *name, uint64_t calls)
{
	struct itimerval timer = { { 0, 100000 }, { 0, 100000 } };
	int error;

	calls_before_cancel = done.calls + calls;
	signal(SIGALRM, cancel);
	setitimer(ITIMER_REAL, &timer, NULL);
	do
		error = store(name, SIZE);
	while (!error);
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	atomic_store(&cancelled, false);
	assert_int_equal(error, ECANCELED);
}

/*
 * The last two outputs are a pipe and a socket of another user, as with sudo(8): they cannot be
 * opened again, and have less room than the next write needs.
 */
TEST(wait_for_a_missing_or_stopped_reader_can_be_cancelled)
{
	int reader, terminal = posix_openpt(O_RDWR | O_NOCTTY), ends[4];

	assert_waits("fifo", 1);            /* without a reader */
	assert_between(done.calls, 1, 200); /* the wait is not a busy loop */
	reset(NULL);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	assert_waits("fifo", 2);
	assert_between(done.calls, 2, 200);
	close(reader);

	assert_int_equal(grantpt(terminal) | unlockpt(terminal), 0);
	ends[0] = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_waits(name_of(ends[0]), 2);
	close(ends[0]);
	close(terminal);

	assert_int_equal(pipe(ends) | socketpair(AF_UNIX, SOCK_STREAM, 0, ends + 2), 0);
	disk.errors[AGAIN] = EACCES;
	for (int i = 1; i < 4; i += 2) {
		assert_int_equal(write(ends[i], bytes, 2000), 2000);
		assert_waits(name_of(ends[i]), 2);
		close(ends[i - 1]);
		close(ends[i]);
	}
}

static void *store_in_thread(void *result)
{
	*(int *)result = store("fifo", 7);
	return NULL;
}

/* A payload is written after the previous one has been committed or abandoned. */
TEST(payloads_for_one_pipe_are_written_one_after_the_other)
{
	int reader = open("fifo", O_RDONLY | O_NONBLOCK), result;
	uint8_t found[20];
	pthread_t other;

	for (int commits = 0; commits < 2; commits++) {
		struct output *first = opened("fifo");

		assert_int_equal(write_all(first, 5), 0);
		assert_waits("fifo", 0);
		assert_int_equal(store("new", 1), 0); /* another output does not wait */
		assert_stored("new", bytes, 1);
		assert_int_equal(store("/dev/null", SIZE), 0);
		assert_int_equal(pthread_create(&other, NULL, store_in_thread, &result), 0);
		usleep(20000); /* the second payload waits or begins later: both orders are right */
		if (commits)
			assert_int_equal(commit(first), 0);
		else
			output_abandon(first);
		assert_int_equal(pthread_join(other, NULL), 0);
		assert_int_equal(result, 0);
		assert_int_equal(read(reader, found, sizeof(found)), 12);
		assert_memory_equal(found, bytes, 5);
		assert_memory_equal(found + 5, bytes, 7);
	}
	close(reader);
	assert_waits("fifo", 0); /* without a reader, a canceled payload releases the FIFO */
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	assert_int_equal(store("fifo", 5), 0);
	close(reader);
}

/* The output is the FIFO's name, a descriptor that keeps its flags, or another user's pipe. */
TEST(pipe_receives_everything_once_it_has_a_reader)
{
	for (int round = 0; round < 3; round++) {
		FILE *reader = popen("cat fifo >copy", "r");
		int writer = round ? open("fifo", O_WRONLY) : -1;

		disk.errors[AGAIN] = round == 2 ? EACCES : 0;
		assert_int_equal(store(round ? name_of(writer) : "fifo", SIZE), 0);
		assert_int_equal(round ? fcntl(writer, F_GETFL) & O_NONBLOCK : 0, 0);
		close(writer);
		assert_int_equal(pclose(reader), 0);
		assert_stored("copy", bytes, SIZE);
	}
}

/* The output is a pipe without a name. */
TEST(output_opened_by_another_process_is_written_to)
{
	int ends[2];
	pid_t child;
	char name[64], found[8];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", child, ends[1]);
	assert_int_equal(check(name), 0);
	assert_int_equal(store(name, 5), 0);
	assert_int_equal(read(ends[0], found, sizeof(found)), 5);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(ends[1]);
}

/*
 * Opening a FIFO by its name waits for a reader; a pipe that is given as a descriptor fails at once
 * without one.
 */
TEST(write_to_a_pipe_fails_after_its_reader_exits)
{
	int reader = open("fifo", O_RDONLY | O_NONBLOCK), writer = open("fifo", O_WRONLY);
	struct output *output = opened("fifo");

	assert_int_equal(write_all(output, 1), 0);
	close(reader);
	assert_int_equal(write_all(output, 1), EPIPE);
	output_abandon(output);
	assert_int_equal(store(name_of(writer), SIZE), EPIPE);
	close(writer);
}

/* ---- Outputs that are already open ---- */

/* A verdict requires the data on the disk. A file that a shell has opened is not replaced. */
TEST(descriptor_of_a_file_is_written_in_place_and_synced)
{
	static const struct disk disks[] = { { 0 },
					     { .errors[SYNC] = EIO },
					     { .errors[SYNC] = EIO, .is_block = true } };

	EACH_ROW (i, disks) {
		int descriptor = open("file", O_WRONLY | O_CREAT, 0600);

		reset(NULL);
		disk = disks[i];
		assert_int_equal(store(name_of(descriptor), SIZE - 1), disk.errors[SYNC]);
		assert_int_equal(done.synced, SIZE - 1);
		assert_int_equal(write(descriptor, bytes + SIZE - 1, 1), 1); /* still open */
		close(descriptor);
		assert_stored("file", bytes, SIZE);
	}
}

/*
 * The output is a log that a shell has opened with >>, by any of its names, even after the file has
 * been removed. The last name is relative to the folder of descriptors.
 */
TEST(open_file_is_written_in_place_under_any_of_its_names)
{
	static const char *const names[] = { "/dev/fd/", "/proc/self/fd/", "link", "" };
	char name[64], link[64], *here = getcwd(NULL, 0), found[1008] = { 0 };

	for (size_t i = 0; i < 2 * ENTRIES(names); i++) {
		int descriptor = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
		bool is_gone = i % 2;

		assert_int_equal(write(descriptor, "old", 3), 3);
		snprintf(link, sizeof(link), "link%d", descriptor);
		assert_int_equal(symlink(name_of(descriptor), link), 0);
		snprintf(name, sizeof(name), "%s%d", names[i / 2], descriptor);
		if (is_gone)
			assert_int_equal(unlink("log"), 0);
		if (i / 2 == 3)
			assert_int_equal(chdir("/proc/self/fd"), 0);
		assert_int_equal(store(name, 1000), 0);
		assert_int_equal(chdir(here), 0);
		assert_int_equal(write(descriptor, "more", 4), 4); /* still open */
		assert_int_equal(pread(descriptor, found, sizeof(found), 0), 1007);
		assert_memory_equal(found, "old", 3);
		assert_memory_equal(found + 3, bytes, 1000);
		assert_memory_equal(found + 1003, "more", 4);
		close(descriptor);
		assert_int_equal(unlink("log"), is_gone ? -1 : 0);
		assert_int_equal(unlink(link), 0);
	}
	free(here);
	assert_int_equal(access("log (deleted)", F_OK), -1);
	assert_int_equal(check("/proc/missing"), ENOENT);
	assert_int_equal(store("/proc/self/fd/999", 1), EBADF);
	assert_int_equal(store("/proc/self/mem ", 1), ENOENT); /* no file can be created in /proc */
}

/* options.bats tests descriptors that are not writable, and standard error. */
TEST(each_name_of_standard_output_is_recognized)
{
	char again[32];
	int ends[2], before = dup(STDOUT_FILENO);
	const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1",
				      "/proc/thread-self/fd/1", "link", again,
				      /* these are other files: */
				      "new", "/dev/null", "missing/file", "/proc/self/fd",
				      "/proc/self/fd/x", "1", NULL };

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
	snprintf(again, sizeof(again), "/dev/fd/%d", ends[1]);
	assert_int_equal(symlink("/dev/stdout", "link"), 0);
	EACH_ROW (i, names) {
		struct options options = { .output = names[i] };

		assert_int_equal(output_resolve(&options), PARSED_RUN);
		if (i < 7)
			assert_string_equal(options.output, "-");
		else
			assert_ptr_equal(options.output, names[i]);
	}
	assert_int_equal(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
	close(before);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(unlink("link"), 0);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_int_equal(unlink("fifo"), 0);
	assert_int_equal(unlink("socket"), 0);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(make_folder, reset)
