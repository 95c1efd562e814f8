// SPDX-License-Identifier: MIT
/*
 * Storing an incoming payload: files that are whole or not there, what they replace, and readers
 * that do not read.
 */
#include "rdma-common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE ((uint64_t)200000)

static uint8_t bytes[SIZE];
static char folder[] = "/tmp/output-test.XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	signal(SIGXFSZ, SIG_IGN); /* as the programs do */
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return chdir("/") || rmdir(folder); /* fails if anything is left in it */
}

static int store(const char *name, uint64_t size)
{
	struct output_control control = { 0 };

	return output_store(name, 0640, bytes, size, &control);
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
	(void)state;
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	assert_int_equal(symlink("elsewhere/target", "link"), 0);
	assert_int_equal(output_check("link", SIZE), 0);
	assert_int_equal(store("link", 1), 0); /* dangling */
	assert_int_equal(store("link", SIZE), 0);
	assert_int_equal(unlink("link"), 0); /* still a link */
	assert_stored("elsewhere/target", SIZE);
	assert_int_equal(rmdir("elsewhere"), 0);
	assert_int_equal(symlink("round", "round"), 0);
	assert_fails("round", ELOOP);
	assert_int_equal(unlink("round"), 0);
}

static void what_cannot_be_stored_is_found_before(void **state)
{
	static const char *const names[] = { "", "new/", "missing/file", ".", "./" };
	char long_name[300];

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(output_check(names[i], 1), -1);
	assert_int_equal(output_check(long_name, 1), -1);
	assert_int_equal(errno, ENAMETOOLONG);
	assert_int_equal(output_check("new", UINT64_MAX / 2), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(output_check("new", SIZE), 0);
	assert_int_equal(output_check("-", SIZE), 0);
	assert_int_equal(output_check("/dev/null", SIZE), 0);
}

static void a_file_beyond_the_limit_is_an_error_and_leaves_nothing(void **state)
{
	const struct rlimit small = { 1000, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(output_check("new", SIZE), -1);
	assert_int_equal(errno, EFBIG);
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

static void *cancel(void *argument)
{
	struct output_control *control = argument;

	atomic_store(&control->cancelled, true);
	return NULL;
}

static void a_reader_that_does_not_read_can_be_cancelled(void **state)
{
	struct output_control control = { 0 };
	pthread_t canceller;
	int reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &control), 0);
	assert_int_equal(output_store("fifo", 0600, bytes, SIZE, &control), -1); /* no reader */
	assert_int_equal(errno, ECANCELED);
	pthread_join(canceller, NULL);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	atomic_store(&control.cancelled, false);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &control), 0);
	assert_int_equal(output_store("fifo", 0600, bytes, SIZE, &control), -1); /* a full pipe */
	assert_int_equal(errno, ECANCELED);
	pthread_join(canceller, NULL);
	close(reader);
	assert_int_equal(unlink("fifo"), 0);
}

/* A cancelled file leaves nothing. */
static void a_cancelled_file_is_not_there(void **state)
{
	struct output_control control = { .cancelled = true };

	(void)state;
	assert_int_equal(output_store("new", 0600, bytes, SIZE, &control), -1);
	assert_int_equal(errno, ECANCELED);
	assert_int_equal(access("new", F_OK), -1);
}

static void a_standard_output_that_does_not_block_gets_all(void **state)
{
	int kept = dup(STDOUT_FILENO), result, ends[2];
	struct output_control control = { 0 };
	uint64_t size = 0;
	pthread_t reader;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &size), 0);
	ends[1] = open("fifo", O_WRONLY);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[1]);
	fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK);
	result = output_store("-", 0600, bytes, SIZE, &control);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	pthread_join(reader, NULL);
	assert_int_equal(result, 0);
	assert_int_equal(size, SIZE);
	assert_int_equal(atomic_load(&control.progress), SIZE);
	assert_int_equal(unlink("fifo"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_has_the_bytes_and_the_mode),
		cmocka_unit_test(a_file_that_is_replaced_leaves_its_mode),
		cmocka_unit_test(a_symbolic_link_is_followed),
		cmocka_unit_test(what_cannot_be_stored_is_found_before),
		cmocka_unit_test(a_file_beyond_the_limit_is_an_error_and_leaves_nothing),
		cmocka_unit_test(a_full_device_is_an_error),
		cmocka_unit_test(a_pipe_gets_all_once_it_has_a_reader),
		cmocka_unit_test(a_reader_that_does_not_read_can_be_cancelled),
		cmocka_unit_test(a_cancelled_file_is_not_there),
		cmocka_unit_test(a_standard_output_that_does_not_block_gets_all),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
