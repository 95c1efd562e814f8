// SPDX-License-Identifier: MIT
/*
 * Tests of the outgoing payload, byte for byte: text, patterns, and files and pipes that are small,
 * large, slow, or change while they are read.
 */
#include "rdma-common/payload.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "rdma-common/digest.h"
#include "rdma-common/transfer.h"

#include "unit.h"
#include "folder.h"

#define LARGE ((size_t)10 << 20)

static const size_t sizes[] = {
	1, PAYLOAD_WHOLE - 1, PAYLOAD_WHOLE, PAYLOAD_WHOLE + 1, PAYLOAD_WHOLE + 2, LARGE
};

static uint8_t bytes[LARGE]; /* the contents of files and pipes */
static uint8_t found[LARGE + 1];
static char cause[CAUSE_SIZE]; /* the reason if the last load() failed; else empty */
static atomic_bool cancelled;

/* ---- Functions that replace the C library's ---- */

/* The behavior of these functions. All zero: they behave as the C library's. */
struct calls {
	size_t most;  /* maximum bytes of a call, and every other call fails with EAGAIN or EINTR.
			 0 does neither. */
	bool fail;    /* calls fail after `later` bytes */
	int error;    /* errno of the failure. 0 is the end of the file. */
	size_t later; /* bytes that are moved before the failure */
	off_t claims; /* bytes that fstat() adds to the size of a file */
	int taken;    /* errno of mkostemp(). 0 is success. */
	rlim_t limit; /* maximum size of a file. 0 is no limit. */
};

static struct calls calls;
static struct {
	unsigned int count; /* number of calls */
	size_t bytes;       /* bytes moved by these calls */
	bool ended;         /* the end of a shortened file was reached */
	bool in_root;       /* a copy was attempted in the root folder */
} done;

static int reset(UNUSED void **state)
{
	memset(&calls, 0, sizeof(calls));
	memset(&done, 0, sizeof(done));
	return 0;
}

/* Make a system call, at `position` unless that is -1, or fail as `calls` says. */
static ssize_t move(long number, int descriptor, void *memory, size_t size, off_t position)
{
	struct iovec part = { .iov_base = memory, .iov_len = size };
	ssize_t result;

	done.count++;
	errno = calls.error;
	if (calls.fail && done.bytes >= calls.later) {
		done.ended = errno == 0;
		return errno ? -1 : 0;
	}
	errno = done.count % 4 == 1 ? EAGAIN : EINTR;
	if (calls.most && done.count % 2)
		return -1;
	if (calls.most && size > calls.most)
		part.iov_len = calls.most;
	result = position < 0 ? syscall(number, descriptor, memory, part.iov_len)
			      : preadv(descriptor, &part, 1, position);
	done.bytes += result > 0 ? (size_t)result : 0;
	return result;
}

ssize_t read(int descriptor, void *memory, size_t size)
{
	return move(SYS_read, descriptor, memory, size, -1);
}

ssize_t pread(int descriptor, void *memory, size_t size, off_t position)
{
	return move(SYS_read, descriptor, memory, size, position);
}

ssize_t write(int descriptor, const void *memory, size_t size)
{
	return move(SYS_write, descriptor, (void *)(uintptr_t)memory, size, -1);
}

int fstat(int descriptor, struct stat *about)
{
	int result = fstatat(descriptor, "", about, AT_EMPTY_PATH);

	if (about->st_nlink > 0) /* not the program's copy, which has no name */
		about->st_size += calls.claims - done.ended;
	return result;
}

static const char *created; /* the last name that mkostemp(3) chose */

int mkostemp(char *name, int flags)
{
	int descriptor;

	done.in_root |= !strncmp(name, "/rdma-", 6);
	errno = calls.taken;
	if (errno)
		return -1;
	descriptor = mkostemps(name, 0, flags);
	created = name;
	raise(SIGUSR1); /* ignored, except by the test that looks for the copy */
	return descriptor;
}

/* ---- Payloads ---- */

static int set_up(void **state)
{
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + i / 65521);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	setenv("TMPDIR", ".", 1);
	return enter_folder(state) || mkfifo("fifo", 0600) ? -1 : 0;
}

static enum status load(struct payload *payload, struct options options)
{
	struct failure failure = { 0 };
	enum status status = payload_load(payload, &options, &failure);

	memcpy(cause, failure.cause, sizeof(cause));
	return status;
}

static struct payload loaded(struct options options)
{
	struct payload payload;

	assert_int_equal(load(&payload, options), STATUS_SUCCESS);
	assert_string_equal(cause, "");
	return payload;
}

static struct options options_for(enum role role, const char *file)
{
	struct options options = default_options(role);

	options.file = file;
	return options;
}

/*
 * Read from `position` to the end, or LARGE bytes, in steps of many sizes. Check that `size` bytes
 * are read in total, and that no step writes a byte beyond its memory.
 */
static void read_rest(const struct payload *payload, uint64_t position, size_t size)
{
	size_t total = 0, step = 1;
	ssize_t count = 1;

	while (total < LARGE && count > 0) {
		size_t most = step < LARGE - total ? step : LARGE - total;

		found[total + most] = 0xee;
		count = payload_read(payload, position + total, found + total, most, &cancelled);
		assert_between(count, 0, most);
		assert_int_equal(found[total + most], 0xee);
		total += (size_t)count;
		step = step * 3 % 1000003;
	}
	assert_int_equal(total, size);
}

static void assert_has_bytes(const struct payload *payload, size_t from, size_t size)
{
	read_rest(payload, from, size);
	assert_memory_equal(found, bytes + from, size);
}

static void assert_rest_cannot_be_read(const struct payload *payload, int error)
{
	assert_int_equal(payload_read(payload, payload->size, found, LARGE, &cancelled), -1);
	assert_int_equal(errno, error);
}

/* ---- Pipes and their writers ---- */

struct feed {
	size_t size;
	useconds_t pause; /* microseconds before the second half, and before the end */
	pthread_t thread; /* the writer; its system calls are not replaced */
};

static void *run_feed(void *argument)
{
	struct feed *feed = argument;
	size_t half = feed->size / 2;
	int fifo = open("fifo", O_WRONLY);

	syscall(SYS_write, fifo, bytes, half);
	usleep(feed->pause);
	syscall(SYS_write, fifo, bytes + half, feed->size - half);
	usleep(feed->pause);
	close(fifo);
	return NULL;
}

static void start_feed(struct feed *feed)
{
	assert_int_equal(pthread_create(&feed->thread, NULL, run_feed, feed), 0);
}

static void set_input(const char *name, int flags)
{
	int descriptor = open(name, O_RDONLY);

	dup2(descriptor, STDIN_FILENO);
	fcntl(STDIN_FILENO, F_SETFL, flags);
	close(descriptor);
}

static void end_feed(const struct feed *feed)
{
	set_input("/dev/null", 0);
	assert_int_equal(pthread_join(feed->thread, NULL), 0);
}

/* ---- Text and patterns ---- */

/* The text is complete. Zeros pad a short one to 1024 bytes; a long one ends with a single zero. */
TEST(text_ends_with_a_zero_and_is_padded_to_at_least_1024_bytes)
{
	static const size_t lengths[] = { 5, 1022, 1023, 1024, 2000 };
	static const char *const sides[] = { "active/client", "passive/server" };
	char text[2 * DEFAULT_PAYLOAD], line[80];
	struct payload payload;

	EACH_ROW (i, lengths) {
		struct options options = { .message = text };

		memset(text, 'x', sizeof(text));
		text[lengths[i]] = '\0';
		payload = loaded(options);
		assert_int_equal(payload.size, payload.length);
		assert_int_equal(payload.length, i < 3 ? 1024 : lengths[i] + 1);
		assert_string_equal((char *)payload.memory, text);
		assert_int_equal(payload.memory[payload.size - 1], 0);
		payload_free(&payload);
	}
	for (int i = 0; i < 2; i++) { /* without --message */
		payload = loaded(default_options(i ? ROLE_SERVER : ROLE_CLIENT));
		snprintf(line, sizeof(line), "message from %s side with pid %d", sides[i],
			 getpid());
		assert_string_equal((char *)payload.memory, line);
		assert_int_equal(payload.length, 1024);
		payload_free(&payload);
	}
}

/* ---- Each byte of files and pipes ---- */

struct source {
	const char *file; /* "file" is removed once it is loaded; "-" and "fifo" are pipes */
	enum role role;
	bool one_off, nonblocking;
	bool says_nothing; /* fstat(2) reports size 0, as for files in /proc */
	off_t more;        /* bytes that fstat(2) reports in excess, as for files in sysfs */
	useconds_t pause;
	size_t most;         /* maximum bytes of a call. 0 is no limit. */
	size_t first_memory; /* bytes of a pipe in memory after loading. 0 is any. */
};

static void send_source(const struct source *source, size_t size)
{
	struct options options = options_for(source->role, source->file);
	bool is_file = !strcmp(source->file, "file"), has_length;
	struct feed feed = { .size = size, .pause = source->pause };
	struct payload payload;

	options.one_off = source->one_off;
	has_length = serves_multiple_clients(&options) ||
		     (is_file && (!source->says_nothing || size <= PAYLOAD_WHOLE));
	if (is_file)
		write_file("file", bytes, size);
	else
		start_feed(&feed);
	if (!strcmp(source->file, "-"))
		set_input("fifo", source->nonblocking ? O_NONBLOCK : 0);
	calls.most = source->most;
	calls.claims = source->says_nothing ? -(off_t)size : source->more;
	payload = loaded(options);
	assert_int_equal(unlink("file"), is_file ? 0 : -1);
	if (has_length) {
		assert_int_equal(payload.length, size);
		assert_int_equal(payload.size, size <= PAYLOAD_WHOLE ? size : 0);
		assert_int_equal(payload.descriptor < 0, size <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, 0, size);
		/* another client reads a part again */
		assert_has_bytes(&payload, size / 2, size - size / 2);
	} else {
		assert_true(payload.length == LENGTH_UNKNOWN);
		assert_between(payload.size, 1, PAYLOAD_WHOLE + 1);
		assert_true(!source->first_memory || payload.size == source->first_memory);
		assert_has_bytes(&payload, 0, size);
	}
	calls.most = 0;
	calls.claims = 0;
	payload_free(&payload);
	if (!is_file)
		end_feed(&feed);
}

/*
 * The type of the source decides whether the length is known; the timing of a pipe does not matter.
 * Only a server with many clients copies a pipe, and so knows its length.
 */
TEST(each_source_is_read_byte_for_byte)
{
	static const struct source sources[] = {
		{ "file", .role = ROLE_CLIENT },
		{ "file", .role = ROLE_SERVER, .most = 70001 },
		{ "file", .role = ROLE_CLIENT, .says_nothing = true, .most = 70001 },
		{ "file", .role = ROLE_SERVER, .says_nothing = true },
		{ "-", .role = ROLE_CLIENT },
		{ "-", .role = ROLE_CLIENT, .most = 32768 },
		{ "-", .role = ROLE_SERVER },
		{ "-", .role = ROLE_SERVER, .most = 32768 },
		{ "-", .role = ROLE_SERVER, .one_off = true },
		{ "fifo", .role = ROLE_CLIENT },
		{ "fifo", .role = ROLE_SERVER },
	};
	static const struct source short_ones[] = {
		{ "file", .role = ROLE_CLIENT, .more = 500 },
		{ "file", .role = ROLE_SERVER, .more = 500 },
		{ "-", .role = ROLE_CLIENT, .pause = 250000, .most = 50, .first_memory = 50 },
		{ "-", .role = ROLE_CLIENT, .pause = 250000, .nonblocking = true },
		{ "-", .role = ROLE_SERVER, .pause = 250000 },
		{ "-", .role = ROLE_CLIENT, .most = 1, .first_memory = 1 },
		{ "-", .role = ROLE_SERVER, .most = 1 },
	};

	EACH_ROW (i, sources) {
		for (size_t j = 0; j < ENTRIES(sizes); j++)
			send_source(&sources[i], sizes[j]);
	}
	EACH_ROW (i, short_ones)
		send_source(&short_ones[i], 100);
	assert_int_equal(count_descriptors(), descriptors_before);
}

/* A file and a pattern of 5 GiB are read on 32-bit machines, too. The file is sparse. */
TEST(long_files_and_patterns_are_read_to_the_end)
{
	const uint64_t length = (uint64_t)5 << 30, tail = 1000;
	struct payload payload;
	int descriptor;

	write_file("file", "", 0);
	descriptor = open("file", O_WRONLY);
	assert_int_equal(pwrite(descriptor, bytes, tail, (off_t)(length - tail)), tail);
	close(descriptor);
	payload = loaded(options_for(ROLE_CLIENT, "file"));
	assert_true(payload.length == length);
	read_rest(&payload, length - tail, tail);
	assert_memory_equal(found, bytes, tail);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
	for (size_t i = 0; i <= ENTRIES(sizes); i++) {
		uint64_t size = i < ENTRIES(sizes) ? sizes[i] : length;
		uint64_t from = i < ENTRIES(sizes) ? 0 : length - tail;

		payload = loaded((struct options){ .pattern_size = size });
		assert_true(payload.is_pattern && !payload.memory && payload.length == size);
		read_rest(&payload, from, size - from);
		assert_int_equal(pattern_mismatch(found, from, size - from), size - from);
		payload_free(&payload);
	}
}

/* A shell may have read the first lines of the file. Standard input stays open. */
TEST(file_on_standard_input_begins_at_its_offset)
{
	static const size_t skipped[] = { 1, 10, LARGE - 100 };
	struct payload payload;

	write_file("file", bytes, LARGE);
	EACH_ROW (i, skipped) {
		set_input("file", 0);
		assert_int_equal(lseek(STDIN_FILENO, (off_t)skipped[i], SEEK_SET), skipped[i]);
		payload = loaded(options_for(ROLE_CLIENT, "-"));
		assert_int_equal(payload.length, LARGE - skipped[i]);
		read_rest(&payload, 0, LARGE - skipped[i]);
		assert_memory_equal(found, bytes + skipped[i], LARGE - skipped[i]);
		payload_free(&payload);
	}
	assert_int_equal(lseek(STDIN_FILENO, 0, SEEK_END), LARGE);
	assert_int_equal(load(&payload, options_for(ROLE_CLIENT, "-")), STATUS_LOCAL_FAILURE);
	assert_string_equal(cause, "cannot read '-': it is empty; a payload has at least one byte");
	payload_free(&payload);
	set_input("/dev/null", 0);
	assert_int_equal(unlink("file"), 0);
}

TEST(changed_file_keeps_its_first_length)
{
	struct payload payload;

	write_file("file", bytes, LARGE - 5);
	payload = loaded(options_for(ROLE_CLIENT, "file"));
	write_file("file", bytes, LARGE);
	assert_has_bytes(&payload, 0, LARGE - 5);
	assert_int_equal(truncate("file", LARGE - 6), 0);
	assert_has_bytes(&payload, 0, LARGE - 6); /* the shortened file ends early */
	assert_int_equal(payload.length, LARGE - 5);
	calls = (struct calls){ .fail = true, .error = EIO };
	assert_rest_cannot_be_read(&payload, EIO);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

TEST(endless_device_is_read_without_a_known_length)
{
	struct payload payload = loaded(options_for(ROLE_CLIENT, "/dev/zero"));

	assert_true(payload.length == LENGTH_UNKNOWN);
	read_rest(&payload, 0, LARGE);
	payload_free(&payload);
}

/*
 * Cancel at the third signal. Neither an earlier signal nor a timeout of poll(2) may end the wait.
 */
static void cancel(UNUSED int signal_number)
{
	static atomic_int signals;

	atomic_store(&cancelled, ++signals >= 3);
}

TEST(failing_pipe_is_an_error_and_waiting_for_a_pipe_can_be_cancelled)
{
	const struct itimerval often = { { 0, 150000 }, { 0, 150000 } }, never = { 0 };
	int fifo = open("fifo", O_RDWR); /* both ends */
	struct payload payload;

	assert_int_equal(write(fifo, bytes, 1), 1);
	dup2(fifo, STDIN_FILENO);
	payload = loaded(options_for(ROLE_CLIENT, "-"));
	assert_int_equal(write(fifo, bytes, 1), 1);
	close(fifo);
	calls = (struct calls){ .fail = true, .error = EIO };
	assert_rest_cannot_be_read(&payload, EIO);
	reset(NULL);
	assert_int_equal(payload_read(&payload, 1, found, LARGE, &cancelled), 1);
	signal(SIGALRM, cancel);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_rest_cannot_be_read(&payload, ECANCELED);
	setitimer(ITIMER_REAL, &never, NULL);
	atomic_store(&cancelled, false);
	payload_free(&payload);
	set_input("/dev/null", 0);
}

/* ---- Payloads that cannot be sent ---- */

/* clang-format off */
#define COPY "cannot copy '-' to "
#define FAIL(with) { .fail = true, .error = (with) }
/* clang-format on */

/* Each failing call gives a reason, and no descriptor stays open. */
TEST(failure_to_read_or_copy_a_payload_states_its_reason)
{
	static const char empty[] = ": it is empty; a payload has at least one byte";
	static const struct {
		enum role role;
		const char *name;
		size_t size;
		struct calls calls;
		const char *words;
	} cases[] = {
		/* clang-format off */
		{ ROLE_CLIENT, "missing", 0, { 0 }, "'missing': No such file or directory" },
		{ ROLE_CLIENT, "/", 0, { 0 }, "cannot read '/': Is a directory" },
		{ ROLE_CLIENT, "/dev/null", 0, { 0 }, empty },
		{ ROLE_CLIENT, "file", 0, { 0 }, empty },
		{ ROLE_CLIENT, "file", 0, { .claims = 500 }, empty },
		{ ROLE_CLIENT, "-", 0, { 0 }, empty },
		{ ROLE_SERVER, "-", 0, { 0 }, empty },
		{ ROLE_CLIENT, "file", 9, FAIL(0), "read 'file': " PAYLOAD_CUT_SHORT },
		{ ROLE_CLIENT, "file", 9, FAIL(EIO), "read 'file': Input/output error" },
		{ ROLE_CLIENT, "-", LARGE, FAIL(EIO), "cannot read '-': Input/output error" },
		{ ROLE_SERVER, "-", LARGE, FAIL(EIO), "cannot read '-': Input/output error" },
		{ ROLE_SERVER, "-", LARGE, { .taken = EROFS }, COPY "/tmp: Read-only file system; set " },
		{ ROLE_SERVER, "-", LARGE, { .limit = 9 << 20 }, COPY ".: File too large; set TMPDIR " },
		/* the disk is full at the first write(2) */
		{ ROLE_SERVER, "-", LARGE, { .later = 1, .fail = true, .error = ENOSPC },
		  COPY ".: No space left on device; set TMPDIR to a writable folder with room, or serve " },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		struct rlimit limit = { cases[i].calls.limit, RLIM_INFINITY };
		bool feeds = !strcmp(cases[i].name, "-");
		struct feed feed = { .size = cases[i].size, .pause = 100000 };
		struct payload payload;

		if (feeds)
			start_feed(&feed);
		write_file("file", bytes, cases[i].size);
		set_input(feeds ? "fifo" : "/dev/null", 0);
		reset(NULL);
		calls = cases[i].calls;
		if (limit.rlim_cur)
			assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_int_equal(load(&payload, options_for(cases[i].role, cases[i].name)),
				 STATUS_LOCAL_FAILURE);
		limit.rlim_cur = RLIM_INFINITY;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		reset(NULL);
		payload_free(&payload);
		if (feeds)
			end_feed(&feed);
		if (!strstr(cause, cases[i].words))
			fail_msg("'%s' does not say '%s'", cause, cases[i].words);
		assert_int_equal(count_descriptors(), descriptors_before);
	}
	assert_int_equal(unlink("file"), 0);
}

/* ---- A server with many clients copies a pipe ---- */

static volatile sig_atomic_t left;

static void look_for_file(UNUSED int signal_number)
{
	left = !access(created, F_OK);
}

/* Signals wait until the copy has lost its name, so that no signal can leave the file behind. */
TEST(copy_of_a_pipe_uses_the_next_writable_folder_and_leaves_no_file)
{
	static const char *const folders[] = { ".", "/proc", "", NULL };
	static const struct source source = { "-", .role = ROLE_SERVER };

	signal(SIGUSR1, look_for_file);
	EACH_ROW (i, folders) {
		if (folders[i])
			setenv("TMPDIR", folders[i], 1);
		else
			unsetenv("TMPDIR");
		left = -1;
		send_source(&source, LARGE);
		assert_int_equal(left, 0);
		assert_false(done.in_root); /* an empty TMPDIR must not mean the root folder */
	}
}

TEST(no_files_or_descriptors_are_left_behind)
{
	assert_int_equal(unlink("fifo"), 0);
	assert_no_files_or_descriptors_are_left();
}

RUN_TESTS(set_up, reset)
