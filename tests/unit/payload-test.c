// SPDX-License-Identifier: MIT
/*
 * The outgoing payload: what of it is in memory, and every byte of the rest, from files and pipes
 * that are small, large, slow, or change meanwhile.
 */
#include "rdma-common/payload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "rdma-common/digest.h"
#include "rdma-common/memory.h"
#include "rdma-common/transfer.h"

#define LARGE ((size_t)20 << 20)

static const size_t sizes[] = {
	1, PAYLOAD_WHOLE - 1, PAYLOAD_WHOLE, PAYLOAD_WHOLE + 1, PAYLOAD_WHOLE + 2, LARGE
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint8_t *bytes; /* LARGE of them, what files and pipes begin with */
static uint8_t *found; /* room for as many */
static char folder[] = "/tmp/payload-test.XXXXXX";
static char cause[CAUSE_SIZE]; /* of the load() that failed last */

/* ---- Files and pipes in the place of the C library's; feeds have the real ones ---- */

static pthread_t tester; /* the thread whose calls these are */
static struct {
	size_t most;        /* bytes at once, and every other call is interrupted; 0: neither */
	unsigned int count; /* calls so far */
	uint64_t bytes;     /* that they have moved */
	bool fails;         /* with `error`, or at the end of the file if that is 0, */
	bool ended;         /* there: somebody has cut it short */
	bool in_root;       /* a copy was to be made in the root */
	off_t claims;       /* so many bytes more a file says to have */
	int error;
	uint64_t later;             /* once so many bytes have moved */
	int nameless;               /* the error of O_TMPFILE, which no folder knows; 0: they do */
	int taken;                  /* the error of looking for a temporary name; 0: there is one */
	unsigned int interruptions; /* calls of poll(2) that a signal is still to end */
} calls;

static int reset(void **state)
{
	(void)state;
	memset(&calls, 0, sizeof(calls));
	tester = pthread_self();
	return 0;
}

/* Prepares a call for `*size` bytes. False: `*result` is what it comes to. */
static bool begin_call(size_t *size, int interruption, ssize_t *result)
{
	if (!pthread_equal(pthread_self(), tester))
		return true;
	calls.count++;
	if (calls.fails && calls.bytes >= calls.later) {
		errno = calls.error;
		*result = errno ? -1 : 0;
		calls.ended = !errno;
		return false;
	}
	if (!calls.most)
		return true;
	if (*size > calls.most)
		*size = calls.most;
	errno = interruption;
	*result = -1;
	return calls.count % 2;
}

static ssize_t end_call(ssize_t result)
{
	if (result > 0 && pthread_equal(pthread_self(), tester))
		calls.bytes += (uint64_t)result;
	return result;
}

ssize_t read(int descriptor, void *memory, size_t size)
{
	ssize_t result;

	if (!begin_call(&size, calls.count % 4 == 1 ? EAGAIN : EINTR, &result))
		return result;
	return end_call(syscall(SYS_read, descriptor, memory, size));
}

ssize_t pread(int descriptor, void *memory, size_t size, off_t position)
{
	struct iovec part = { .iov_base = memory };
	ssize_t result;

	if (!begin_call(&size, EINTR, &result))
		return result;
	part.iov_len = size;
	return end_call(preadv(descriptor, &part, 1, position));
}

ssize_t write(int descriptor, const void *memory, size_t size)
{
	ssize_t result;

	if (!begin_call(&size, EINTR, &result))
		return result;
	return end_call(syscall(SYS_write, descriptor, memory, size));
}

int fstat(int descriptor, struct stat *about)
{
	int result = fstatat(descriptor, "", about, AT_EMPTY_PATH);

	about->st_size += calls.claims - calls.ended;
	return result;
}

int poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	if (calls.interruptions > 0) {
		calls.interruptions--;
		errno = EINTR;
		return -1;
	}
	return ppoll(descriptors, count, milliseconds < 0 ? NULL : &time, NULL);
}

int open(const char *name, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (calls.nameless && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = calls.nameless;
		return -1;
	}
	return openat(AT_FDCWD, name, flags, mode);
}

static const char *created; /* by mkostemp(3), last */

int mkostemp(char *name, int flags)
{
	int descriptor;

	calls.in_root |= !strncmp(name, "/rdma-", 6);
	errno = calls.taken;
	if (errno)
		return -1;
	descriptor = mkostemps(name, 0, flags);
	created = name;
	raise(SIGUSR1); /* which is nothing, but in one test */
	return descriptor;
}

/* ---- Payloads ---- */

static int descriptors_before;

static int set_up(void **state)
{
	reset(state);
	descriptors_before = count_descriptors();
	bytes = malloc(LARGE);
	found = malloc(LARGE);
	if (!bytes || !found)
		return -1;
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + i / 65521);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	return enter_folder(folder) || setenv("TMPDIR", folder, 1) ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(bytes);
	free(found);
	return 0;
}

static enum status load_as(struct payload *payload, const struct options *options)
{
	struct console console;
	struct process process;
	enum status status;

	memset(payload, 0, sizeof(*payload));
	console_init(&console, options);
	process_init(&process, options, &console);
	status = payload_load(payload, &process);
	memcpy(cause, process.failure.cause, sizeof(cause));
	process_close(&process);
	return status;
}

static struct options options_for(enum role role, const char *file)
{
	struct options options = default_options(role);

	options.file = file;
	return options;
}

static enum status load(struct payload *payload, enum role role, const char *file)
{
	struct options options = options_for(role, file);

	return load_as(payload, &options);
}

static struct payload load_pattern(uint64_t size)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload;

	options.pattern_size = size;
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_int_equal(payload.length, size);
	assert_true(payload.is_pattern);
	return payload;
}

/* Reads from `position` to the end, in odd steps, into `found`; returns how many bytes. */
static size_t read_rest(const struct payload *payload, uint64_t position)
{
	const atomic_bool never = false;
	size_t size = 0, step = 1;
	ssize_t count;

	while (size < LARGE) {
		count = payload_read(payload, position + size, found + size,
				     step < LARGE - size ? step : LARGE - size, &never);
		assert_true(count >= 0);
		if (count == 0)
			break;
		size += (size_t)count;
		step = step * 3 % 1000003;
	}
	return size;
}

static void assert_has_bytes(const struct payload *payload, size_t size)
{
	assert_int_equal(read_rest(payload, 0), size);
	assert_memory_equal(found, bytes, size);
}

static void write_file(const char *name, size_t size)
{
	int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(descriptor >= 0);
	assert_int_equal(write(descriptor, bytes, size), size);
	close(descriptor);
}

/* ---- Text and patterns ---- */

/* Whether all of it is. */
static bool is_in_memory(const struct payload *payload)
{
	return payload->memory && payload->size == payload->length;
}

static void a_text_is_whole_and_zeros_follow_it(void **state)
{
	struct options options = default_options(ROLE_CLIENT);
	struct payload payload;

	(void)state;
	options.message = "hello";
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_true(is_in_memory(&payload));
	assert_int_equal(payload.length, DEFAULT_PAYLOAD);
	assert_string_equal((char *)payload.memory, "hello");
	assert_int_equal(payload.memory[DEFAULT_PAYLOAD - 1], 0);
	payload_free(&payload);
}

static void a_text_that_is_longer_has_one_zero(void **state)
{
	struct options options = default_options(ROLE_CLIENT);
	char text[2 * DEFAULT_PAYLOAD];
	struct payload payload;

	(void)state;
	options.message = text;
	for (size_t length = DEFAULT_PAYLOAD - 2; length <= DEFAULT_PAYLOAD; length++) {
		memset(text, 'x', sizeof(text));
		text[length] = '\0';
		assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
		assert_true(is_in_memory(&payload));
		assert_int_equal(payload.length,
				 length < DEFAULT_PAYLOAD ? DEFAULT_PAYLOAD : DEFAULT_PAYLOAD + 1);
		assert_string_equal((char *)payload.memory, text);
		payload_free(&payload);
	}
}

static void without_a_text_there_is_a_line_of_this_side(void **state)
{
	static const char *const sides[] = { "active/client", "passive/server" };
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;
	char line[80];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(load(&payload, roles[i], NULL), STATUS_SUCCESS);
		snprintf(line, sizeof(line), "message from %s side with pid %d", sides[i],
			 getpid());
		assert_string_equal((char *)payload.memory, line);
		assert_int_equal(payload.length, DEFAULT_PAYLOAD);
		payload_free(&payload);
	}
}

static void a_pattern_is_made_when_it_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct payload payload = load_pattern(sizes[i]);

		assert_null(payload.memory);
		assert_int_equal(read_rest(&payload, 0), sizes[i]);
		assert_int_equal(pattern_mismatch(found, 0, sizes[i]), sizes[i]);
		payload_free(&payload);
	}
}

/* ---- Files ---- */

/* On 32-bit machines, too: a file of 5 GiB, a hole but for its last bytes, and as long a pattern.
 */
static void what_is_longer_than_four_gibibytes_is_read_to_its_end(void **state)
{
	const uint64_t length = (uint64_t)5 << 30, tail = 1000;
	struct payload payload;
	int descriptor = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	(void)state;
	assert_int_equal(pwrite(descriptor, bytes, tail, (off_t)(length - tail)), tail);
	close(descriptor);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_true(payload.length == length);
	assert_int_equal(read_rest(&payload, length - tail), tail);
	assert_memory_equal(found, bytes, tail);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
	payload = load_pattern(length);
	assert_int_equal(read_rest(&payload, length - tail), tail);
	assert_int_equal(pattern_mismatch(found, length - tail, tail), tail);
	payload_free(&payload);
}

static void a_file_is_whole_or_read_at_any_position(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		write_file("file", sizes[i]);
		assert_int_equal(load(&payload, ROLE_SERVER, "file"), STATUS_SUCCESS);
		assert_int_equal(unlink("file"), 0);
		assert_int_equal(payload.length, sizes[i]);
		assert_int_equal(is_in_memory(&payload), sizes[i] <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, sizes[i]);
		assert_int_equal(read_rest(&payload, sizes[i] / 2), sizes[i] - sizes[i] / 2);
		assert_memory_equal(found, bytes + sizes[i] / 2, sizes[i] - sizes[i] / 2);
		payload_free(&payload);
	}
}

static void of_a_file_that_is_whole_no_descriptor_is_kept(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", 5);
	assert_int_equal(load(&payload, ROLE_SERVER, "file"), STATUS_SUCCESS);
	assert_int_equal(payload.descriptor, -1);
	assert_int_equal(count_descriptors(), descriptors_before);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void signals_and_short_reads_lose_no_byte_of_a_file(void **state)
{
	static const size_t lengths[] = { 100003, LARGE };
	const atomic_bool never = false;
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		write_file("file", lengths[i]);
		calls.most = 70001;
		assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
		assert_has_bytes(&payload, lengths[i]);
		found[100000] = 0xee; /* what is behind it is not to be written over */
		assert_int_equal(payload_read(&payload, 1, found, 100000, &never), 100000);
		assert_memory_equal(found, bytes + 1, 100000);
		assert_int_equal(found[100000], 0xee);
		payload_free(&payload);
		calls.most = 0;
	}
	assert_int_equal(unlink("file"), 0);
}

/* Of a small file while it is loaded, of a large one later. */
static void a_disk_that_fails_is_an_error_in_words(void **state)
{
	static const struct {
		int error; /* 0: the file is shorter than it was */
		const char *words;
	} cases[] = { { EIO, "cannot read 'file': Input/output error" },
		      { 0, "cannot read 'file': " PAYLOAD_CUT_SHORT } };
	const atomic_bool never = false;
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_file("file", 1000);
		calls.fails = true;
		calls.error = cases[i].error;
		assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_LOCAL_FAILURE);
		assert_string_equal(cause, cases[i].words);
		payload_free(&payload);
		calls.fails = false;
	}
	write_file("file", LARGE);
	calls.fails = true;
	calls.error = EIO;
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(payload_read(&payload, 0, found, 5, &never), -1);
	assert_int_equal(errno, EIO);
	payload_free(&payload);
	reset(NULL);
	assert_int_equal(unlink("file"), 0);
}

/* As a shell that has read a line of it leaves it. */
static void a_file_on_standard_input_begins_where_that_stands(void **state)
{
	static const size_t skipped[] = { 10, LARGE - 100 };
	struct payload payload;

	(void)state;
	write_file("file", LARGE);
	for (size_t i = 0; i < 2; i++) {
		int descriptor = open("file", O_RDONLY);

		assert_int_equal(lseek(descriptor, (off_t)skipped[i], SEEK_SET), skipped[i]);
		dup2(descriptor, STDIN_FILENO);
		close(descriptor);
		assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
		assert_int_equal(payload.length, LARGE - skipped[i]);
		assert_int_equal(read_rest(&payload, 0), LARGE - skipped[i]);
		assert_memory_equal(found, bytes + skipped[i], LARGE - skipped[i]);
		payload_free(&payload);
		assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* it stays open */
	}
	assert_int_equal(lseek(STDIN_FILENO, 0, SEEK_END), LARGE);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_LOCAL_FAILURE);
	assert_string_equal(cause, "cannot read '-': it is empty; a payload has one byte at least");
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void of_a_file_that_grows_what_it_had_is_sent(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", LARGE - 5);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	write_file("file", LARGE);
	assert_has_bytes(&payload, LARGE - 5);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void a_file_that_shrinks_ends_early(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", LARGE);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(truncate("file", LARGE - 1), 0);
	assert_has_bytes(&payload, LARGE - 1);
	assert_int_equal(payload.length, LARGE);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void holes_are_zeros(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", 1);
	assert_int_equal(truncate("file", LARGE), 0);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(read_rest(&payload, 1), LARGE - 1);
	for (size_t i = 0; i < LARGE - 1; i++)
		assert_int_equal(found[i], 0);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

static void a_file_that_does_not_know_its_size_is_read_to_its_end(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;
	char version[4096];
	FILE *file;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(load(&payload, roles[i], "/proc/version"), STATUS_SUCCESS);
		assert_true(is_in_memory(&payload));
		file = fopen("/proc/version", "r");
		assert_int_equal(fread(version, 1, sizeof(version), file), payload.size);
		fclose(file);
		assert_memory_equal(payload.memory, version, payload.size);
		payload_free(&payload);
	}
}

/* A page, whatever is in it. */
static void a_file_of_sysfs_has_what_reading_it_gives(void **state)
{
	static const char name[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;
	struct stat about;
	char text[4096];
	size_t size;
	FILE *file;

	(void)state;
	if (stat(name, &about) || about.st_size != 4096)
		skip();
	file = fopen(name, "r");
	size = fread(text, 1, sizeof(text), file);
	fclose(file);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(load(&payload, roles[i], name), STATUS_SUCCESS);
		assert_true(is_in_memory(&payload));
		assert_int_equal(payload.size, size);
		assert_memory_equal(payload.memory, text, size);
		payload_free(&payload);
	}
}

/* It has another size than what comes, and keeps it. */
static void a_file_that_only_claims_a_size_has_what_reading_it_gives(void **state)
{
	struct payload payload;

	(void)state;
	write_file("file", 1000);
	calls.claims = 500;
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	assert_int_equal(payload.length, 1000);
	assert_has_bytes(&payload, 1000);
	payload_free(&payload);
	write_file("file", 0);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_LOCAL_FAILURE);
	assert_string_equal(cause,
			    "cannot read 'file': it is empty; a payload has one byte at least");
	payload_free(&payload);
	calls.claims = 0;
	assert_int_equal(unlink("file"), 0);
}

static void what_cannot_be_read_is_named(void **state)
{
	static const struct {
		const char *name, *reason;
	} cases[] = {
		{ "missing", "No such file" },
		{ "/", "Is a directory" },
		{ "/dev/null", "it is empty" },
	};
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(load(&payload, ROLE_CLIENT, cases[i].name), STATUS_LOCAL_FAILURE);
		assert_non_null(strstr(cause, cases[i].name));
		assert_non_null(strstr(cause, cases[i].reason));
		payload_free(&payload);
	}
}

static void an_endless_device_is_sent_as_it_comes(void **state)
{
	struct payload payload;

	(void)state;
	assert_int_equal(load(&payload, ROLE_CLIENT, "/dev/zero"), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_int_equal(read_rest(&payload, 0), LARGE);
	payload_free(&payload);
}

/* ---- Pipes ---- */

/* What is written to a pipe. */
struct feed {
	const char *name; /* a FIFO; NULL: standard input */
	int descriptor;
	size_t size, step;  /* bytes in all and at once */
	useconds_t pause;   /* before each step but the first, in microseconds */
	useconds_t silence; /* before the end */
	bool held;          /* each step but the first, and the end, waits for `go` */
	sem_t go;
	pthread_t thread;
};

static void *run_feed(void *argument)
{
	struct feed *feed = argument;
	size_t done = 0;

	if (feed->name)
		feed->descriptor = open(feed->name, O_WRONLY);
	while (done < feed->size) {
		size_t left = feed->size - done;
		ssize_t count = write(feed->descriptor, bytes + done,
				      left < feed->step ? left : feed->step);

		if (count < 0 && errno == EPIPE)
			break;
		if (count > 0)
			done += (size_t)count;
		if (feed->pause && done < feed->size)
			usleep(feed->pause);
		if (feed->held)
			sem_wait(&feed->go);
	}
	usleep(feed->silence);
	close(feed->descriptor);
	return NULL;
}

/* Lets standard input be a pipe that is fed. */
static void feed_start(struct feed *feed)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	feed->descriptor = ends[1];
	sem_init(&feed->go, 0, 0);
	assert_int_equal(pthread_create(&feed->thread, NULL, run_feed, feed), 0);
}

static void feed_end(struct feed *feed)
{
	int nothing = open("/dev/null", O_RDONLY);

	dup2(nothing, STDIN_FILENO);
	close(nothing);
	pthread_join(feed->thread, NULL);
	sem_destroy(&feed->go);
}

/* What it is decides, and not how soon its end comes. */
static void a_pipe_is_sent_as_it_comes_however_soon_it_ends(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct feed feed = { .size = sizes[i], .step = LARGE };

		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
		assert_false(is_in_memory(&payload));
		assert_true(payload.length == TRANSFER_UNKNOWN);
		assert_in_range(payload.size, 1, PAYLOAD_WHOLE + 1);
		assert_has_bytes(&payload, sizes[i]);
		payload_free(&payload);
		feed_end(&feed);
	}
}

static void a_pipe_that_is_silent_is_not_waited_for(void **state)
{
	struct feed feed = { .size = 10, .step = 5, .held = true };
	struct payload payload;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_int_equal(payload.size, 5);
	sem_post(&feed.go);
	sem_post(&feed.go);
	assert_has_bytes(&payload, 10);
	payload_free(&payload);
	feed_end(&feed);
}

static void the_first_byte_is_waited_for(void **state)
{
	static const struct feed empty = { .size = 0, .silence = 300000 };
	struct payload payload;
	struct feed feed = empty;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_LOCAL_FAILURE);
	assert_non_null(strstr(cause, "cannot read '-': it is empty"));
	payload_free(&payload);
	feed_end(&feed);
}

static void a_pipe_that_does_not_block_is_waited_for(void **state)
{
	struct feed feed = { .size = 40, .step = 10, .pause = 250000 };
	struct payload payload;

	(void)state;
	feed_start(&feed);
	fcntl(STDIN_FILENO, F_SETFL, O_RDONLY | O_NONBLOCK);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_has_bytes(&payload, 40);
	payload_free(&payload);
	feed_end(&feed);
}

static void do_nothing(int signal_number)
{
	(void)signal_number;
}

static void signals_do_not_end_a_pipe(void **state)
{
	const struct sigaction action = { .sa_handler = do_nothing }; /* without SA_RESTART */
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { 0 };
	struct feed feed = { .size = 1000000, .step = 100000, .pause = 150000 };
	struct payload payload;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_has_bytes(&payload, 1000000);
	setitimer(ITIMER_REAL, &never, NULL);
	payload_free(&payload);
	feed_end(&feed);
}

static void *cancel(void *argument)
{
	atomic_bool *cancelled = argument;

	usleep(50000);
	atomic_store(cancelled, true);
	return NULL;
}

static void signals_and_short_reads_lose_no_byte_of_a_pipe(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct feed feed = { .size = LARGE, .step = LARGE };

		calls.most = 32768; /* one byte is left of PAYLOAD_WHOLE + 1 */
		feed_start(&feed);
		assert_int_equal(load(&payload, roles[i], "-"), STATUS_SUCCESS);
		assert_has_bytes(&payload, LARGE);
		payload_free(&payload);
		calls.most = 0;
		feed_end(&feed);
	}
}

/* A byte at a time. */
static void only_who_needs_it_all_waits_for_a_trickle(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct feed feed = { .size = 100, .step = 100 };

		calls.most = 1;
		feed_start(&feed);
		assert_int_equal(load(&payload, roles[i], "-"), STATUS_SUCCESS);
		if (roles[i] == ROLE_CLIENT)
			assert_int_equal(payload.size, 1);
		else
			assert_int_equal(payload.size, 100);
		assert_has_bytes(&payload, 100);
		payload_free(&payload);
		reset(NULL);
		feed_end(&feed);
	}
}

/* While it is loaded, while it is sent, and while it is copied. */
static void a_pipe_that_fails_is_an_error_in_words(void **state)
{
	struct feed feed = { .size = LARGE, .step = LARGE };
	const atomic_bool never = false;
	struct payload payload;

	(void)state;
	feed_start(&feed);
	calls.error = EIO;
	calls.fails = true;
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_LOCAL_FAILURE);
	assert_string_equal(cause, "cannot read '-': Input/output error");
	payload_free(&payload);
	calls.fails = false;
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	calls.fails = true;
	assert_int_equal(payload_read(&payload, payload.size, found, LARGE, &never), -1);
	assert_int_equal(errno, EIO);
	payload_free(&payload);
	feed_end(&feed);
	reset(NULL);
	feed_start(&feed);
	calls.fails = true;
	calls.error = EIO;
	calls.later = 2 * (PAYLOAD_WHOLE + 1); /* read, and written */
	assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_LOCAL_FAILURE);
	assert_string_equal(cause, "cannot read '-': Input/output error");
	payload_free(&payload);
	reset(NULL);
	feed_end(&feed);
}

/* By its name; and it is closed. */
static void a_fifo_is_a_pipe(void **state)
{
	static const enum role roles[] = { ROLE_CLIENT, ROLE_SERVER };
	struct payload payload;

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	for (size_t i = 0; i < 2; i++) {
		struct feed feed = { .name = "fifo", .size = LARGE, .step = LARGE };

		assert_int_equal(pthread_create(&feed.thread, NULL, run_feed, &feed), 0);
		assert_int_equal(load(&payload, roles[i], "fifo"), STATUS_SUCCESS);
		assert_has_bytes(&payload, LARGE);
		payload_free(&payload);
		pthread_join(feed.thread, NULL);
		assert_int_equal(count_descriptors(), descriptors_before);
	}
	assert_int_equal(unlink("fifo"), 0);
}

static void a_wait_for_a_pipe_can_be_cancelled(void **state)
{
	struct feed feed = { .size = 1, .step = 1, .held = true };
	atomic_bool cancelled = false;
	struct payload payload;
	pthread_t canceller;

	(void)state;
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &cancelled), 0);
	calls.interruptions = 1;
	assert_int_equal(payload_read(&payload, 1, found, LARGE, &cancelled), -1);
	assert_int_equal(errno, ECANCELED);
	pthread_join(canceller, NULL);
	sem_post(&feed.go);
	payload_free(&payload);
	feed_end(&feed);
}

/* ---- The copy that a server of many clients keeps ---- */

static void a_server_of_many_clients_keeps_a_copy_of_a_pipe(void **state)
{
	struct payload payload;

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct feed feed = { .size = sizes[i], .step = LARGE, .silence = 200000 };

		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_SUCCESS);
		assert_int_equal(payload.length, sizes[i]);
		assert_int_equal(is_in_memory(&payload), sizes[i] <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, sizes[i]);
		assert_has_bytes(&payload, sizes[i]); /* again, for another client */
		payload_free(&payload);
		feed_end(&feed);
	}
}

static void a_server_of_one_client_needs_no_copy(void **state)
{
	struct options options = options_for(ROLE_SERVER, "-");
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	(void)state;
	options.one_off = true;
	feed_start(&feed);
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_true(payload.length == TRANSFER_UNKNOWN);
	assert_has_bytes(&payload, LARGE);
	payload_free(&payload);
	feed_end(&feed);
}

/* A server keeps a copy, and sends it. */
static void assert_copied(void)
{
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_SUCCESS);
	assert_string_equal(cause, "");
	assert_null(payload.memory);
	assert_has_bytes(&payload, LARGE);
	payload_free(&payload);
	feed_end(&feed);
}

static void a_folder_that_takes_no_copy_is_passed_over(void **state)
{
	(void)state;
	setenv("TMPDIR", "/proc", 1);
	assert_copied();
	setenv("TMPDIR", "", 1); /* as if it was not set, and not the root of all */
	assert_copied();
	assert_false(calls.in_root);
	unsetenv("TMPDIR");
	assert_copied();
	setenv("TMPDIR", folder, 1);
}

static void a_folder_without_nameless_files_takes_a_copy_as_well(void **state)
{
	(void)state;
	calls.nameless = EOPNOTSUPP;
	assert_copied();
	calls.nameless = 0;
}

static volatile sig_atomic_t left;

static void look_for_file(int signal_number)
{
	(void)signal_number;
	left = !access(created, F_OK);
}

/* The copy has a name for a moment there. */
static void a_signal_that_ends_the_program_leaves_no_copy(void **state)
{
	(void)state;
	left = -1;
	signal(SIGUSR1, look_for_file);
	calls.nameless = EOPNOTSUPP;
	assert_copied();
	calls.nameless = 0;
	signal(SIGUSR1, SIG_IGN);
	assert_int_equal(left, 0);
}

static void a_copy_for_which_there_is_no_room_is_an_error_in_words(void **state)
{
	const struct rlimit small = { 10 << 20, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };
	struct feed feed = { .size = LARGE, .step = LARGE };
	struct payload payload;

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	feed_start(&feed);
	assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_LOCAL_FAILURE);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_non_null(strstr(cause, "cannot keep a copy of '-' in /tmp/payload-test."));
	assert_non_null(strstr(cause, "File too large; set TMPDIR"));
	payload_free(&payload);
	feed_end(&feed);
}

static void a_copy_that_cannot_be_kept_is_an_error_in_words(void **state)
{
	static const struct {
		int taken, error;
		const char *words;
	} cases[] = { { EROFS, 0, "in /tmp: Read-only file system; set TMPDIR to a folder" },
		      { 0, ENOSPC, ": No space left on device; set TMPDIR to a folder" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct feed feed = { .size = LARGE, .step = LARGE };
		struct payload payload;

		calls.nameless = EOPNOTSUPP;
		calls.taken = cases[i].taken;
		calls.fails = cases[i].error;
		calls.error = cases[i].error;
		calls.later = PAYLOAD_WHOLE + 1; /* read */
		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_SERVER, "-"), STATUS_LOCAL_FAILURE);
		assert_non_null(strstr(cause, "cannot keep a copy of '-' in /"));
		assert_non_null(strstr(cause, cases[i].words));
		payload_free(&payload);
		feed_end(&feed);
		reset(NULL);
	}
}

/* ---- The end ---- */

/* What warnings say when it is freed. */
static char *free_in_words(struct payload *payload)
{
	FILE *terminal = stderr;
	char *text = NULL;
	size_t size = 0;

	stderr = open_memstream(&text, &size);
	assert_non_null(stderr);
	payload_free(payload);
	fclose(stderr);
	stderr = terminal;
	return text;
}

static void memory_that_cannot_be_unmapped_is_reported(void **state)
{
	struct payload payload;
	uint8_t *memory;
	char *text;

	(void)state;
	write_file("file", 5000); /* a pattern has no memory */
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	memory = payload.memory;
	payload.memory++; /* where no page begins */
	text = free_in_words(&payload);
	assert_non_null(strstr(text, "cannot unmap 5000 bytes of memory: Invalid argument"));
	free(text);
	assert_int_equal(memory_unmap(memory, 5000), 0);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	text = free_in_words(&payload);
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(unlink("file"), 0);
}

static void nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(count_descriptors(), descriptors_before);
	assert_nothing_is_left(folder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_whole_and_zeros_follow_it),
		cmocka_unit_test(a_text_that_is_longer_has_one_zero),
		cmocka_unit_test(without_a_text_there_is_a_line_of_this_side),
		cmocka_unit_test(a_pattern_is_made_when_it_is_read),
		cmocka_unit_test(what_is_longer_than_four_gibibytes_is_read_to_its_end),
		cmocka_unit_test(a_file_is_whole_or_read_at_any_position),
		cmocka_unit_test(of_a_file_that_is_whole_no_descriptor_is_kept),
		cmocka_unit_test_setup(signals_and_short_reads_lose_no_byte_of_a_file, reset),
		cmocka_unit_test_setup(a_disk_that_fails_is_an_error_in_words, reset),
		cmocka_unit_test(a_file_on_standard_input_begins_where_that_stands),
		cmocka_unit_test(of_a_file_that_grows_what_it_had_is_sent),
		cmocka_unit_test(a_file_that_shrinks_ends_early),
		cmocka_unit_test(holes_are_zeros),
		cmocka_unit_test(a_file_that_does_not_know_its_size_is_read_to_its_end),
		cmocka_unit_test_setup(a_file_of_sysfs_has_what_reading_it_gives, reset),
		cmocka_unit_test_setup(a_file_that_only_claims_a_size_has_what_reading_it_gives,
				       reset),
		cmocka_unit_test(what_cannot_be_read_is_named),
		cmocka_unit_test(an_endless_device_is_sent_as_it_comes),
		cmocka_unit_test(a_pipe_is_sent_as_it_comes_however_soon_it_ends),
		cmocka_unit_test_setup(a_pipe_that_is_silent_is_not_waited_for, reset),
		cmocka_unit_test_setup(the_first_byte_is_waited_for, reset),
		cmocka_unit_test(a_pipe_that_does_not_block_is_waited_for),
		cmocka_unit_test(signals_do_not_end_a_pipe),
		cmocka_unit_test_setup(signals_and_short_reads_lose_no_byte_of_a_pipe, reset),
		cmocka_unit_test_setup(only_who_needs_it_all_waits_for_a_trickle, reset),
		cmocka_unit_test_setup(a_pipe_that_fails_is_an_error_in_words, reset),
		cmocka_unit_test(a_fifo_is_a_pipe),
		cmocka_unit_test(a_wait_for_a_pipe_can_be_cancelled),
		cmocka_unit_test(a_server_of_many_clients_keeps_a_copy_of_a_pipe),
		cmocka_unit_test(a_server_of_one_client_needs_no_copy),
		cmocka_unit_test(a_folder_that_takes_no_copy_is_passed_over),
		cmocka_unit_test_setup(a_folder_without_nameless_files_takes_a_copy_as_well, reset),
		cmocka_unit_test(a_signal_that_ends_the_program_leaves_no_copy),
		cmocka_unit_test(a_copy_for_which_there_is_no_room_is_an_error_in_words),
		cmocka_unit_test_setup(a_copy_that_cannot_be_kept_is_an_error_in_words, reset),
		cmocka_unit_test(memory_that_cannot_be_unmapped_is_reported),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests_name("payload", tests, set_up, tear_down);
}
