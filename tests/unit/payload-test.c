// SPDX-License-Identifier: MIT
/*
 * The outgoing payload: what of it is in memory, and every byte of the rest, from files and pipes
 * that are small, large, slow, or change meanwhile.
 */
#include "rdma-common/payload.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "rdma-common/digest.h"
#include "rdma-common/transfer.h"

#include "unit.h"
#include "folder.h"

#define LARGE ((size_t)20 << 20)

static const size_t sizes[] = {
	1, PAYLOAD_WHOLE - 1, PAYLOAD_WHOLE, PAYLOAD_WHOLE + 1, PAYLOAD_WHOLE + 2, LARGE
};

static uint8_t *bytes; /* LARGE of them, what files and pipes begin with */
static uint8_t *found; /* room for as many, and a byte behind them */
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

	if (about->st_nlink > 0) /* not of a copy */
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

static int set_up(void **state)
{
	reset(state);
	bytes = malloc(LARGE);
	found = malloc(LARGE + 1);
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
	struct failure failure = { 0 };
	enum status status;

	memset(payload, 0, sizeof(*payload));
	status = payload_load(payload, options, &failure);
	memcpy(cause, failure.cause, sizeof(cause));
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

/*
 * Reads from `position` to the end, in odd steps, into `found`; returns how many bytes. Nothing is
 * written behind what was asked for.
 */
static size_t read_rest(const struct payload *payload, uint64_t position)
{
	const atomic_bool never = false;
	size_t size = 0, step = 1;
	ssize_t count = 1;

	for (; size < LARGE && count > 0; size += (size_t)count) {
		size_t most = step < LARGE - size ? step : LARGE - size;

		found[size + most] = 0xee;
		count = payload_read(payload, position + size, found + size, most, &never);
		assert_in_range(count, 0, most);
		assert_int_equal(found[size + most], 0xee);
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

/* Whether all of it is. */
static bool is_in_memory(const struct payload *payload)
{
	return payload->memory && payload->size == payload->length;
}

/* ---- Pipes, and who feeds them ---- */

struct feed {
	int descriptor;
	const char *name; /* of a FIFO; NULL: the descriptor is a pipe's */
	size_t size;      /* bytes in all */
	useconds_t pause; /* before the second half, and before the end; in microseconds */
	pthread_t thread;
};

static void feed_bytes(int descriptor, size_t from, size_t to)
{
	while (from < to) {
		ssize_t count = write(descriptor, bytes + from, to - from);

		if (count < 0 && errno == EPIPE)
			return;
		from += count > 0 ? (size_t)count : 0;
	}
}

static void *run_feed(void *argument)
{
	struct feed *feed = argument;

	if (feed->name)
		feed->descriptor = open(feed->name, O_WRONLY);
	feed_bytes(feed->descriptor, 0, feed->size / 2);
	usleep(feed->pause);
	feed_bytes(feed->descriptor, feed->size / 2, feed->size);
	usleep(feed->pause);
	close(feed->descriptor);
	return NULL;
}

/* Has standard input be a pipe that is fed, unless a FIFO is. */
static void feed_start(struct feed *feed)
{
	int ends[2];

	if (!feed->name) {
		assert_int_equal(pipe(ends), 0);
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		feed->descriptor = ends[1];
	}
	assert_int_equal(pthread_create(&feed->thread, NULL, run_feed, feed), 0);
}

static void feed_end(struct feed *feed)
{
	int nothing = open("/dev/null", O_RDONLY);

	dup2(nothing, STDIN_FILENO);
	close(nothing);
	pthread_join(feed->thread, NULL);
}

/* ---- Text and patterns ---- */

/* It is whole, with zeros up to the smallest size, or with one. */
TEST(a_text_is_in_memory)
{
	static const struct {
		size_t length, size;
	} cases[] = { { 5, 1024 }, { 1022, 1024 }, { 1023, 1024 }, { 1024, 1025 }, { 2000, 2001 } };
	static const char *const sides[] = { "active/client", "passive/server" };
	char text[2 * DEFAULT_PAYLOAD], line[80];
	struct payload payload;

	assert_int_equal(DEFAULT_PAYLOAD, 1024);
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct options options = default_options(ROLE_CLIENT);

		options.message = text;
		memset(text, 'x', sizeof(text));
		text[cases[i].length] = '\0';
		assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
		assert_true(is_in_memory(&payload));
		assert_int_equal(payload.length, cases[i].size);
		assert_string_equal((char *)payload.memory, text);
		assert_int_equal(payload.memory[payload.size - 1], 0);
		payload_free(&payload);
	}
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) { /* without --message */
		assert_int_equal(load(&payload, role, NULL), STATUS_SUCCESS);
		snprintf(line, sizeof(line), "message from %s side with pid %d",
			 sides[role != ROLE_CLIENT], getpid());
		assert_string_equal((char *)payload.memory, line);
		assert_int_equal(payload.length, DEFAULT_PAYLOAD);
		payload_free(&payload);
	}
}

TEST(a_pattern_is_made_when_it_is_read)
{
	for (size_t i = 0; i < ENTRIES(sizes); i++) {
		struct payload payload = load_pattern(sizes[i]);

		assert_null(payload.memory);
		assert_int_equal(read_rest(&payload, 0), sizes[i]);
		assert_int_equal(pattern_mismatch(found, 0, sizes[i]), sizes[i]);
		payload_free(&payload);
	}
}

/* ---- Every byte of files and pipes ---- */

enum kind {
	A_FILE, /* and its name is removed before it is read */
	A_PIPE,
	A_FIFO,
};

struct source {
	enum kind kind;
	enum role role;
	bool one_off, nonblocking;
	bool says_nothing; /* of its size, as files in /proc; those of sysfs say that it is a page:
			    */
	off_t more;        /* bytes that a file says to have, and has not */
	useconds_t pause;
	size_t most;         /* bytes that a call moves; 0: whatever it can */
	size_t first_memory; /* bytes in memory of a pipe that is sent as it comes; 0: some */
};

static void send_source(const struct source *source, size_t size)
{
	static const char *const names[] = { "file", "-", "fifo" };
	struct options options = options_for(source->role, names[source->kind]);
	struct feed feed = { .name = source->kind == A_FIFO ? "fifo" : NULL,
			     .size = size,
			     .pause = source->pause };
	bool has_length;
	struct payload payload;

	options.one_off = source->one_off;
	has_length = serves_many(&options) ||
		     (source->kind == A_FILE && (!source->says_nothing || size <= PAYLOAD_WHOLE));
	if (source->kind == A_FILE)
		write_file("file", size);
	else
		feed_start(&feed);
	if (source->nonblocking)
		fcntl(STDIN_FILENO, F_SETFL, O_RDONLY | O_NONBLOCK);
	calls.most = source->most;
	calls.claims = source->says_nothing ? -(off_t)size : source->more;
	assert_int_equal(load_as(&payload, &options), STATUS_SUCCESS);
	assert_string_equal(cause, "");
	if (source->kind == A_FILE)
		assert_int_equal(unlink("file"), 0);
	if (has_length) {
		assert_int_equal(payload.length, size);
		assert_int_equal(is_in_memory(&payload), size <= PAYLOAD_WHOLE);
		assert_int_equal(payload.descriptor < 0, size <= PAYLOAD_WHOLE);
		assert_has_bytes(&payload, size); /* and again, for another client */
		assert_int_equal(read_rest(&payload, size / 2), size - size / 2);
		assert_memory_equal(found, bytes + size / 2, size - size / 2);
	} else {
		assert_true(payload.length == LENGTH_UNKNOWN);
		assert_in_range(payload.size, 1, PAYLOAD_WHOLE + 1);
		assert_true(!source->first_memory || payload.size == source->first_memory);
		assert_has_bytes(&payload, size);
	}
	calls.most = 0;
	calls.claims = 0;
	payload_free(&payload);
	if (source->kind != A_FILE)
		feed_end(&feed);
}

/*
 * What it is decides whether there is a length, and not how soon a pipe ends, or trickles. A server
 * of many clients alone has a copy of it.
 */
TEST(whatever_is_sent_arrives_byte_for_byte)
{
	static const struct source sources[] = {
		{ A_FILE, .role = ROLE_CLIENT },
		{ A_FILE, .role = ROLE_SERVER, .most = 70001 },
		{ A_FILE, .role = ROLE_CLIENT, .says_nothing = true, .most = 70001 },
		{ A_FILE, .role = ROLE_SERVER, .says_nothing = true },
		{ A_PIPE, .role = ROLE_CLIENT },
		{ A_PIPE, .role = ROLE_CLIENT, .most = 32768 },
		{ A_PIPE, .role = ROLE_SERVER },
		{ A_PIPE, .role = ROLE_SERVER, .most = 32768 },
		{ A_PIPE, .role = ROLE_SERVER, .one_off = true },
		{ A_FIFO, .role = ROLE_CLIENT },
		{ A_FIFO, .role = ROLE_SERVER },
	};
	static const struct source short_ones[] = {
		{ A_FILE, .role = ROLE_CLIENT, .more = 500 },
		{ A_FILE, .role = ROLE_SERVER, .more = 500 },
		{ A_PIPE, .role = ROLE_CLIENT, .pause = 250000, .most = 50, .first_memory = 50 },
		{ A_PIPE, .role = ROLE_CLIENT, .pause = 250000, .nonblocking = true },
		{ A_PIPE, .role = ROLE_SERVER, .pause = 250000 },
		{ A_PIPE, .role = ROLE_CLIENT, .most = 1, .first_memory = 1 },
		{ A_PIPE, .role = ROLE_SERVER, .most = 1 },
	};

	assert_int_equal(mkfifo("fifo", 0600), 0);
	for (size_t i = 0; i < ENTRIES(sources); i++) {
		for (size_t j = 0; j < ENTRIES(sizes); j++)
			send_source(&sources[i], sizes[j]);
	}
	for (size_t i = 0; i < ENTRIES(short_ones); i++)
		send_source(&short_ones[i], 100);
	assert_int_equal(unlink("fifo"), 0);
	assert_int_equal(count_descriptors(), descriptors_before);
}

/* On 32-bit machines, too: a file of 5 GiB, a hole but for its last bytes, and as long a pattern.
 */
TEST(what_is_longer_than_four_gibibytes_is_read_to_its_end)
{
	const uint64_t length = (uint64_t)5 << 30, tail = 1000;
	struct payload payload;
	int descriptor = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0600);

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

/* As a shell that has read a line of it leaves it. */
TEST(a_file_on_standard_input_begins_where_that_stands)
{
	static const size_t skipped[] = { 1, 10, LARGE - 100, LARGE };
	struct payload payload;

	write_file("file", LARGE);
	for (size_t i = 0; i < ENTRIES(skipped); i++) {
		int descriptor = open("file", O_RDONLY);
		bool empty = skipped[i] == LARGE;

		assert_int_equal(lseek(descriptor, (off_t)skipped[i], SEEK_SET), skipped[i]);
		dup2(descriptor, STDIN_FILENO);
		close(descriptor);
		assert_int_equal(load(&payload, ROLE_CLIENT, "-"),
				 empty ? STATUS_LOCAL_FAILURE : STATUS_SUCCESS);
		if (!empty) {
			assert_int_equal(payload.length, LARGE - skipped[i]);
			assert_int_equal(read_rest(&payload, 0), LARGE - skipped[i]);
			assert_memory_equal(found, bytes + skipped[i], LARGE - skipped[i]);
		}
		payload_free(&payload);
		assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* it stays open */
	}
	assert_string_equal(cause, "cannot read '-': it is empty; a payload has one byte at least");
	assert_int_equal(unlink("file"), 0);
}

TEST(a_file_that_changes_has_the_length_that_it_had)
{
	struct payload payload;

	write_file("file", LARGE - 5);
	assert_int_equal(load(&payload, ROLE_CLIENT, "file"), STATUS_SUCCESS);
	write_file("file", LARGE);
	assert_has_bytes(&payload, LARGE - 5);
	assert_int_equal(truncate("file", LARGE - 6), 0);
	assert_has_bytes(&payload, LARGE - 6); /* it ends early */
	assert_int_equal(payload.length, LARGE - 5);
	payload_free(&payload);
	assert_int_equal(unlink("file"), 0);
}

TEST(an_endless_device_is_sent_as_it_comes)
{
	struct payload payload;

	assert_int_equal(load(&payload, ROLE_CLIENT, "/dev/zero"), STATUS_SUCCESS);
	assert_true(payload.length == LENGTH_UNKNOWN);
	assert_int_equal(read_rest(&payload, 0), LARGE);
	payload_free(&payload);
}

static void *cancel(void *argument)
{
	atomic_bool *cancelled = argument;

	usleep(50000);
	atomic_store(cancelled, true);
	return NULL;
}

TEST(a_wait_for_a_pipe_can_be_cancelled)
{
	atomic_bool cancelled = false;
	struct payload payload;
	pthread_t canceller;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	assert_int_equal(write(ends[1], bytes, 1), 1);
	assert_int_equal(load(&payload, ROLE_CLIENT, "-"), STATUS_SUCCESS);
	assert_int_equal(pthread_create(&canceller, NULL, cancel, &cancelled), 0);
	calls.interruptions = 1;
	assert_int_equal(payload_read(&payload, 1, found, LARGE, &cancelled), -1);
	assert_int_equal(errno, ECANCELED);
	pthread_join(canceller, NULL);
	payload_free(&payload);
	close(ends[0]);
	close(ends[1]);
}

/* ---- What cannot be sent ---- */

/* Whatever the calls come to, it says so in words, and nothing stays open. */
static void assert_not_loaded(enum role role, const char *name, size_t size, const char *words)
{
	struct feed feed = { .size = size, .pause = 100000 };
	bool feeds = !strcmp(name, "-");
	struct payload payload;

	if (feeds)
		feed_start(&feed);
	assert_int_equal(load(&payload, role, name), STATUS_LOCAL_FAILURE);
	payload_free(&payload);
	reset(NULL);
	if (feeds)
		feed_end(&feed);
	if (!strstr(cause, words))
		fail_msg("'%s' does not say '%s'", cause, words);
	assert_int_equal(count_descriptors(), descriptors_before);
}

TEST(what_cannot_be_read_is_named)
{
	static const char empty[] = ": it is empty; a payload has one byte at least";
	static const struct {
		enum role role;
		const char *name;
		size_t size;
		off_t claims;
		bool fails; /* reading does, with this error; 0: it was cut short */
		int error;
		const char *words;
	} cases[] = {
		{ ROLE_CLIENT, "missing", 0, 0, false, 0, "'missing': No such file or directory" },
		{ ROLE_CLIENT, "/", 0, 0, false, 0, "cannot read '/': Is a directory" },
		{ ROLE_CLIENT, "/dev/null", 0, 0, false, 0, empty },
		{ ROLE_CLIENT, "file", 0, 0, false, 0, empty },
		{ ROLE_CLIENT, "file", 0, 500, false, 0, empty },
		{ ROLE_CLIENT, "-", 0, 0, false, 0, empty },
		{ ROLE_SERVER, "-", 0, 0, false, 0, empty },
		{ ROLE_CLIENT, "file", 9, 0, true, EIO, "read 'file': Input/output error" },
		{ ROLE_CLIENT, "file", 9, 0, true, 0, "read 'file': " PAYLOAD_CUT_SHORT },
		{ ROLE_CLIENT, "-", LARGE, 0, true, EIO, "cannot read '-': Input/output error" },
		{ ROLE_SERVER, "-", LARGE, 0, true, EIO, "cannot read '-': Input/output error" },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		write_file("file", cases[i].size);
		calls.claims = cases[i].claims;
		calls.fails = cases[i].fails;
		calls.error = cases[i].error;
		assert_not_loaded(cases[i].role, cases[i].name, cases[i].size, cases[i].words);
	}
	assert_int_equal(unlink("file"), 0);
}

TEST(a_copy_that_cannot_be_kept_is_an_error_in_words)
{
	static const struct {
		int taken, error; /* of looking for a name, and of writing */
		rlim_t limit;     /* of a file's size */
		const char *words;
	} cases[] = {
		{ EROFS, 0, RLIM_INFINITY, "keep a copy of '-' in /tmp: Read-only file system; " },
		{ 0, ENOSPC, RLIM_INFINITY, ": No space left on device; set TMPDIR to a folder " },
		{ 0, 0, 10 << 20, ": File too large; set TMPDIR to a folder with room, or serve " },
	};
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	char begin[64];

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct rlimit limit = { cases[i].limit, RLIM_INFINITY };

		calls.taken = cases[i].taken;
		calls.error = cases[i].error;
		calls.fails = calls.error != 0;
		calls.later = 1; /* byte that is read */
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_not_loaded(ROLE_SERVER, "-", LARGE, cases[i].words);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
		snprintf(begin, sizeof(begin),
			 "cannot keep a copy of '-' in %s: ", cases[i].taken ? "/tmp" : folder);
		assert_int_equal(strncmp(cause, begin, strlen(begin)), 0);
	}
}

TEST(what_cannot_be_read_on_is_an_error)
{
	static const char *const names[] = { "file", "-" };
	const atomic_bool never = false;

	write_file("file", LARGE);
	for (size_t i = 0; i < 2; i++) {
		struct feed feed = { .size = LARGE };
		struct payload payload;

		feed_start(&feed);
		assert_int_equal(load(&payload, ROLE_CLIENT, names[i]), STATUS_SUCCESS);
		calls.fails = true;
		calls.error = EIO;
		assert_int_equal(payload_read(&payload, payload.size, found, 5, &never), -1);
		assert_int_equal(errno, EIO);
		reset(NULL);
		payload_free(&payload);
		feed_end(&feed);
	}
	assert_int_equal(unlink("file"), 0);
}

/* ---- The copy that a server of many clients keeps ---- */

static volatile sig_atomic_t left;

static void look_for_file(int signal_number)
{
	(void)signal_number;
	left = !access(created, F_OK);
}

/* The copy has a name for a moment; a signal that would end the program then comes later. */
TEST(a_folder_that_takes_no_copy_is_passed_over_and_none_keeps_one)
{
	static const char *const folders[] = { folder, "/proc", "", NULL };
	static const struct source source = { A_PIPE, .role = ROLE_SERVER };

	signal(SIGUSR1, look_for_file);
	for (size_t i = 0; i < ENTRIES(folders); i++) {
		if (folders[i])
			setenv("TMPDIR", folders[i], 1);
		else
			unsetenv("TMPDIR");
		left = -1;
		send_source(&source, LARGE);
		assert_int_equal(left, 0);
		assert_false(calls.in_root); /* where an empty name would lead */
	}
	signal(SIGUSR1, SIG_IGN);
	setenv("TMPDIR", folder, 1);
}

TEST(nothing_is_left)
{
	assert_nothing_is_left(folder);
}

RUN_TESTS(set_up, reset, tear_down)
