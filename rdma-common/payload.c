// SPDX-License-Identifier: MIT
#include "payload.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest.h"
#include "memory.h"
#include "transfer.h"

#define PAYLOAD_EMPTY "it is empty; a payload has one byte at least"
/* How often a wait for a pipe looks whether it is cancelled, in milliseconds. */
#define CANCEL_INTERVAL 100

/* ---- Reading ---- */

/* Reads up to `size` bytes of the file from `position` on; fewer at its end, -1 with errno. */
static ssize_t read_file(const struct payload *payload, uint64_t position, uint8_t *memory,
			 size_t size)
{
	off_t start = payload->start + (off_t)position;
	size_t done = 0;

	while (done < size) {
		ssize_t count =
			pread(payload->descriptor, memory + done, size - done, start + (off_t)done);

		if (count < 0 && errno != EINTR)
			return -1;
		if (count == 0)
			break;
		if (count > 0)
			done += (size_t)count;
	}
	return (ssize_t)done;
}

/* Whether read(2) would not wait; waits for that, at most `milliseconds` (-1: without limit). */
static bool wait_readable(int descriptor, int milliseconds)
{
	struct pollfd readable = { .fd = descriptor, .events = POLLIN };
	int count;

	do {
		count = poll(&readable, 1, milliseconds);
	} while (count < 0 && errno == EINTR);
	return count != 0; /* of an error read(2) reports what it is */
}

/* A read(2) that failed, but may be tried again. */
static bool may_retry(ssize_t count)
{
	return count < 0 && (errno == EINTR || errno == EAGAIN);
}

/* Reads what the pipe has. 0 at its end, -1 with errno. */
static ssize_t read_pipe(int descriptor, uint8_t *memory, size_t size, const atomic_bool *cancelled)
{
	while (!atomic_load(cancelled)) {
		ssize_t count = -1;

		if (!wait_readable(descriptor, CANCEL_INTERVAL))
			continue;
		count = read(descriptor, memory, size);
		if (!may_retry(count))
			return count;
	}
	errno = ECANCELED;
	return -1;
}

ssize_t payload_read(const struct payload *payload, uint64_t position, uint8_t *memory, size_t size,
		     const atomic_bool *cancelled)
{
	bool is_stored = position < payload->size;
	uint64_t end = is_stored ? payload->size : payload->length;

	if (size > end - position)
		size = (size_t)(end - position);
	if (is_stored)
		memcpy(memory, payload->memory + position, size);
	else if (payload->is_pattern)
		pattern_fill(memory, position, size);
	else if (payload->length == TRANSFER_UNKNOWN)
		return read_pipe(payload->descriptor, memory, size, cancelled);
	else
		return read_file(payload, position, memory, size);
	return (ssize_t)size;
}

/* ---- Loading ---- */

/* The payload that is being loaded, and the process whose options say from where. */
struct loading {
	struct payload *payload;
	struct process *process;
};

static enum status payload_allocate(const struct loading *loading, size_t size)
{
	loading->payload->memory = memory_map(size);
	if (!loading->payload->memory)
		return process_fail(loading->process, STATUS_LOCAL_FAILURE,
				    "cannot allocate %zu bytes for the outgoing payload: %s", size,
				    strerror(errno));
	loading->payload->size = size;
	return STATUS_SUCCESS;
}

/* Frees the memory. */
static void payload_deallocate(struct payload *payload)
{
	if (payload->memory && memory_unmap(payload->memory, payload->size))
		warn("cannot unmap %zu bytes of memory", payload->size);
	payload->memory = NULL;
	payload->size = 0;
}

/* Lets the payload's memory be as long as the `size` bytes of it that are used. 0 or -1, errno. */
static int payload_shrink(struct payload *payload, size_t size)
{
	uint8_t *memory = memory_map(size);

	if (!memory)
		return -1;
	memcpy(memory, payload->memory, size);
	payload_deallocate(payload);
	payload->memory = memory;
	payload->size = size;
	return 0;
}

/* The text of --message or a default line, with zeros up to the smallest size. */
static enum status load_text(const struct loading *loading)
{
	const struct options *options = loading->process->options;
	char line[80];
	const char *text = options->message ? options->message : line;
	enum status status;
	size_t size;

	snprintf(line, sizeof(line), "message from %s side with pid %d",
		 options->role == ROLE_CLIENT ? "active/client" : "passive/server", getpid());
	size = strlen(text) + 1;
	status = payload_allocate(loading, size < DEFAULT_PAYLOAD ? DEFAULT_PAYLOAD : size);
	if (status != STATUS_SUCCESS)
		return status;
	memcpy(loading->payload->memory, text, size);
	loading->payload->length = loading->payload->size;
	return STATUS_SUCCESS;
}

struct payload payload_pattern(uint64_t length)
{
	return (struct payload){ .is_pattern = true, .length = length, .descriptor = -1 };
}

static enum status read_failed(const struct loading *loading, const char *reason)
{
	return process_fail(loading->process, STATUS_LOCAL_FAILURE, "cannot read '%s': %s",
			    short_name(loading->payload->name).text, reason);
}

/*
 * Reading has come to the end before the size that the file had: it was cut short, or it has that
 * size whatever is in it, as files of sysfs have.
 */
static enum status load_less(const struct loading *loading, size_t size, off_t before)
{
	struct payload *payload = loading->payload;
	struct stat about;

	if (fstat(payload->descriptor, &about) || about.st_size != before)
		return read_failed(loading, PAYLOAD_CUT_SHORT);
	if (size == 0)
		return read_failed(loading, PAYLOAD_EMPTY);
	if (payload_shrink(payload, size))
		return read_failed(loading, strerror(errno));
	payload->length = size;
	return STATUS_SUCCESS;
}

/* A file that knows its size, from where its descriptor stands. */
static enum status load_file(const struct loading *loading, off_t start, off_t end)
{
	struct payload *payload = loading->payload;
	enum status status;
	ssize_t count;

	payload->start = start;
	payload->length = (uint64_t)(end - start);
	if (payload->length > PAYLOAD_WHOLE)
		return STATUS_SUCCESS;
	status = payload_allocate(loading, (size_t)payload->length);
	if (status != STATUS_SUCCESS)
		return status;
	count = read_file(payload, 0, payload->memory, payload->size);
	if (count < 0)
		return read_failed(loading, strerror(errno));
	return (size_t)count < payload->size ? load_less(loading, (size_t)count, end)
					     : STATUS_SUCCESS;
}

/* ---- Loading from a pipe ---- */

/* Creates a file and removes its name, between which no signal ends the program. -1 with errno. */
static int create_unnamed(char *template)
{
	sigset_t all, before;
	int descriptor;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	descriptor = mkostemp(template, O_CLOEXEC);
	if (descriptor >= 0)
		unlink(template);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return descriptor;
}

/* The copy that a server of many clients keeps of a pipe: a file without a name. -1 with errno. */
static int create_copy(const char *folder)
{
	int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char name[PATH_MAX];

	if (descriptor >= 0)
		return descriptor;
	if (snprintf(name, sizeof(name), "%s/rdma-payload-XXXXXX", folder) >= (int)sizeof(name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return create_unnamed(name); /* not every file system has O_TMPFILE */
}

/* The same in the first folder that takes it; `*folder` is that, or the last one. */
static int create_copy_somewhere(const char **folder)
{
	const char *const folders[] = { secure_getenv("TMPDIR"), "/var/tmp", "/tmp" };
	int descriptor = -1;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && descriptor < 0; i++) {
		if (!folders[i] || !*folders[i])
			continue;
		*folder = folders[i];
		descriptor = create_copy(folders[i]);
	}
	return descriptor;
}

/* Writes all of it; 0 or -1 with errno. */
static int write_fully(int descriptor, const uint8_t *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t count = write(descriptor, bytes + done, size - done);

		if (count < 0 && errno != EINTR)
			return -1;
		if (count > 0)
			done += (size_t)count;
	}
	return 0;
}

/*
 * Writes the `size` bytes in memory, and all that the pipe still has, to the copy. Returns 0 at the
 * end of the pipe, -1 with errno if it cannot be read; `*written` is false, with errno, if the copy
 * cannot be written.
 */
static ssize_t copy_pipe(struct payload *payload, size_t size, int copy, bool *written)
{
	const atomic_bool never = false;
	ssize_t count = (ssize_t)size;

	do {
		*written = !write_fully(copy, payload->memory, (size_t)count);
		payload->length += (uint64_t)count;
		if (*written)
			count = read_pipe(payload->descriptor, payload->memory, payload->size,
					  &never);
	} while (*written && count > 0);
	return count;
}

/* Moves a pipe, of which `size` bytes are in memory, into a file. */
static enum status load_copy(const struct loading *loading, size_t size)
{
	struct payload *payload = loading->payload;
	const char *folder = NULL;
	int copy = create_copy_somewhere(&folder);
	bool written = copy >= 0;
	ssize_t count = 0;

	signal(SIGXFSZ, SIG_IGN); /* as process_open() does: beyond 'ulimit -f' is an error */
	if (written)
		count = copy_pipe(payload, size, copy, &written);
	if (!written)
		process_fail(loading->process, STATUS_LOCAL_FAILURE,
			     "cannot keep a copy of '%s' in %s: %s; set TMPDIR to a folder with "
			     "room, or serve one client with --one-off",
			     short_name(payload->name).text, short_name(folder).text,
			     strerror(errno));
	else if (count < 0)
		read_failed(loading, strerror(errno));
	payload_deallocate(payload);
	if (payload->descriptor > STDIN_FILENO)
		close(payload->descriptor);
	payload->descriptor = copy;
	return written && count == 0 ? STATUS_SUCCESS : STATUS_LOCAL_FAILURE;
}

/*
 * Reads a pipe into the memory there is: what it has, once there is something, or `to_end`, however
 * long that takes. Returns how many bytes, or -1 with errno; `*ended` if there are no more.
 */
static ssize_t read_beginning(struct payload *payload, bool to_end, bool *ended)
{
	size_t size = 0;

	*ended = false;
	while (size == 0 || (to_end && size < payload->size)) {
		ssize_t count;

		wait_readable(payload->descriptor, -1);
		count = read(payload->descriptor, payload->memory + size, payload->size - size);
		if (may_retry(count))
			continue;
		if (count < 0)
			return -1;
		*ended = count == 0;
		if (*ended)
			break;
		size += (size_t)count;
	}
	return (ssize_t)size;
}

/*
 * A pipe, or anything else whose size is known at its end: devices, and files in /proc, which are
 * read `to_end` as nobody has to write there. How soon a pipe ends makes no difference: else the
 * peer would be told of a length now and then, and so of what can be sent again.
 */
static enum status load_pipe(const struct loading *loading, bool to_end)
{
	bool keeps_copy = serves_many(loading->process->options), ended;
	struct payload *payload = loading->payload;
	enum status status = payload_allocate(loading, PAYLOAD_WHOLE + 1); /* 1: one too many */
	ssize_t size;

	if (status != STATUS_SUCCESS)
		return status;
	size = read_beginning(payload, to_end || keeps_copy, &ended);
	if (size < 0)
		return read_failed(loading, strerror(errno));
	if (size == 0)
		return read_failed(loading, PAYLOAD_EMPTY);
	if (keeps_copy && !ended)
		return load_copy(loading, (size_t)size);
	payload->length = ended ? (uint64_t)size : TRANSFER_UNKNOWN;
	return payload_shrink(payload, (size_t)size) ? read_failed(loading, strerror(errno))
						     : STATUS_SUCCESS;
}

/* ---- All of them ---- */

static enum status load_descriptor(const struct loading *loading)
{
	struct payload *payload = loading->payload;
	struct stat about;
	off_t start;

	payload->descriptor = STDIN_FILENO;
	if (strcmp(payload->name, "-") != 0)
		payload->descriptor = open(payload->name, O_RDONLY | O_CLOEXEC);
	if (payload->descriptor < 0 || fstat(payload->descriptor, &about))
		return read_failed(loading, strerror(errno));
	start = S_ISREG(about.st_mode) ? lseek(payload->descriptor, 0, SEEK_CUR) : -1;
	if (start >= 0 && start < about.st_size)
		return load_file(loading, start, about.st_size);
	return load_pipe(loading, S_ISREG(about.st_mode));
}

static void close_descriptor(struct payload *payload)
{
	if (payload->descriptor > STDIN_FILENO)
		close(payload->descriptor);
	payload->descriptor = -1;
}

enum status payload_load(struct payload *payload, struct process *process)
{
	const struct options *options = process->options;
	const struct loading loading = { .payload = payload, .process = process };
	enum status status;

	*payload = payload_pattern(options->pattern_size);
	if (options->pattern_size || options->check) /* which has a size for each session */
		return STATUS_SUCCESS;
	payload->is_pattern = false;
	payload->name = options->file;
	if (!options->file)
		return load_text(&loading);
	status = load_descriptor(&loading);
	if (payload->size == payload->length) /* all of it is in memory */
		close_descriptor(payload);
	return status;
}

void payload_free(struct payload *payload)
{
	payload_deallocate(payload);
	close_descriptor(payload);
}
