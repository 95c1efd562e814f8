// SPDX-License-Identifier: MIT
/* Tests of a helper thread: reading, storing, and its release. */
#include "rdma-common/helper.h"
#include "rdma-common/transfer.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "unit.h"
#include "folder.h"

static struct process process;
static atomic_bool output_taken;
static uint8_t bytes[2 * HELPER_BUFFER];

/* ---- A disk that may hang: functions that replace the C library's ---- */

/* A pipe: each byte in it lets one call on the disk return. -1: calls return at once. */
static int answer[2] = { -1, -1 };

static bool answers(void)
{
	char byte;

	return answer[0] < 0 || read(answer[0], &byte, 1) == 1;
}

ssize_t pread(int descriptor, void *memory, size_t size, off_t offset)
{
	if (!answers() || lseek(descriptor, offset, SEEK_SET) < 0)
		return -1;
	return read(descriptor, memory, size);
}

/* Report a full disk. */
int statvfs(UNUSED const char *name, struct statvfs *about)
{
	*about = (struct statvfs){ .f_frsize = 1, .f_blocks = 1 };
	return answers() ? 0 : -1;
}

/* ---- Common parts ---- */

static int set_up(void **state)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 >> 3);
	umask(027);
	return enter_folder(state) || pipe2(process.ended, O_CLOEXEC | O_NONBLOCK);
}

static ssize_t result_of(struct helper *helper)
{
	struct pollfd ended = { .fd = helper_fd(helper), .events = POLLIN };
	ssize_t result;

	while (!helper_result(helper, &result))
		assert_int_equal(poll(&ended, 1, 60000), 1);
	assert_false(helper_busy(helper));
	return result;
}

/* Create a file of this size, and open it as a payload. remove_payload() closes and removes it. */
static struct payload make_payload(size_t length)
{
	write_file("file", bytes, length);
	return (struct payload){ .name = "file",
				 .length = length,
				 .descriptor = open("file", O_RDONLY | O_CLOEXEC) };
}

static void remove_payload(const struct payload *payload)
{
	close(payload->descriptor);
	assert_int_equal(unlink(payload->name), 0);
}

/* Fetch the argument of process_notify_exit(). Return false if it was not called. */
static bool read_exit_notification(void **what)
{
	return read(process.ended[0], what, sizeof(*what)) == sizeof(*what);
}

/* Wait for process_notify_exit(), and fetch its argument. */
static bool await_exit_notification(void **what)
{
	struct pollfd ended = { .fd = process.ended[0], .events = POLLIN };

	return poll(&ended, 1, -1) == 1 && read_exit_notification(what);
}

/* ---- Tests ---- */

TEST(file_is_read_from_the_requested_position)
{
	struct payload payload = make_payload(sizeof(bytes));
	struct helper *helper = helper_start_reading(&process, &payload, 1000);

	helper_read(helper, 1000, 900);
	assert_int_equal(result_of(helper), 900);
	assert_memory_equal(helper_buffer(helper), bytes + 1000, 900);
	helper_read(helper, sizeof(bytes) - 10, 20);
	assert_int_equal(result_of(helper), 10);
	assert_memory_equal(helper_buffer(helper), bytes + sizeof(bytes) - 10, 10);
	assert_int_equal(truncate("file", 0), 0);
	helper_read(helper, 0, 10);
	assert_int_equal(result_of(helper), 0);
	assert_true(helper_release(helper));
	remove_payload(&payload);
}

TEST(failed_call_reports_its_errno)
{
	struct payload payload = { .name = "closed", .length = 10, .descriptor = 12345 };
	struct helper *helper = helper_start_reading(&process, &payload, 10);

	helper_read(helper, 0, 10);
	assert_int_equal(result_of(helper), -1);
	assert_int_equal(errno, EBADF);
	assert_true(helper_release(helper));
	helper = helper_start_storing(&process, &output_taken, "none/file", 10, HELPER_BUFFER);
	helper_open(helper);
	assert_int_equal(result_of(helper), -1);
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_int_equal(result_of(helper), -1); /* the same result again */
	assert_int_equal(errno, ENOENT);
	assert_true(helper_release(helper));
	assert_true(helper_release(NULL));
}

/* A commit without bytes works, too: an empty payload of unknown length must leave a file. */
TEST(stored_file_gets_its_name_at_the_commit)
{
	for (int pieces = 0; pieces <= 2; pieces++) {
		struct helper *helper = helper_start_storing(&process, &output_taken, "stored",
							     OUTPUT_SIZE_UNKNOWN, HELPER_BUFFER);
		struct stat about;

		helper_open(helper);
		assert_int_equal(result_of(helper), 0);
		memcpy(helper_buffer(helper), bytes, 1000);
		for (int piece = 0; piece < pieces; piece++) {
			helper_store(helper, (size_t)piece * 30, 30);
			assert_int_equal(result_of(helper), 30);
		}
		assert_int_equal(access("stored", F_OK), -1);
		helper_commit(helper);
		assert_int_equal(result_of(helper), 0);
		assert_int_equal(stat("stored", &about), 0);
		assert_int_equal(about.st_mode & 0777, 0640);
		assert_stored("stored", bytes, (size_t)pieces * 30);
		helper_open(helper); /* another file, which is not committed */
		assert_int_equal(result_of(helper), 0);
		helper_store(helper, 0, 1000);
		assert_int_equal(result_of(helper), 1000);
		assert_true(helper_release(helper));
		assert_int_equal(access("stored", F_OK), -1);
	}
}

TEST(release_ends_a_helpers_wait_for_a_pipe)
{
	struct payload payload = { .name = "-", .length = LENGTH_UNKNOWN };
	struct helper *helper;
	void *what;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	payload.descriptor = ends[0];
	helper = helper_start_reading(&process, &payload, 10);
	helper_read(helper, 0, 10);
	assert_true(helper_busy(helper));
	/* the release ends the wait for the pipe; on a busy machine it may abandon the helper */
	assert_true(helper_release(helper) || await_exit_notification(&what));
	close(ends[0]);
	close(ends[1]);
}

/* The helper frees itself when the call returns, and notifies the process. */
TEST(helper_on_a_hung_disk_is_abandoned)
{
	struct payload payload = make_payload(10);
	struct helper *helper;
	void *what = &payload;

	assert_int_equal(pipe2(answer, O_CLOEXEC), 0);
	helper = helper_start_reading(&process, &payload, 10);
	helper_read(helper, 0, 10);
	assert_false(helper_release(helper));
	assert_false(read_exit_notification(&what));
	assert_int_equal(write(answer[1], "", 1), 1);
	assert_true(await_exit_notification(&what));
	assert_null(what);
	close(answer[0]);
	close(answer[1]);
	answer[0] = -1;
	remove_payload(&payload);
}

TEST(output_for_which_the_disk_has_no_room_is_not_opened)
{
	struct helper *helper =
		helper_start_storing(&process, &output_taken, "file", 2, HELPER_BUFFER);

	helper_open(helper);
	assert_int_equal(result_of(helper), -1);
	assert_int_equal(errno, ENOSPC);
	assert_true(helper_release(helper));
	assert_int_equal(access("file", F_OK), -1);
}

TEST(no_files_or_descriptors_are_left_behind)
{
	close(process.ended[0]);
	close(process.ended[1]);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(set_up, NULL)
