// SPDX-License-Identifier: MIT
#include "payload.h"

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
#include "wire.h"

#define PAYLOAD_EMPTY "it is empty; a payload has at least one byte"
/* Milliseconds between two checks for cancellation during the wait for a pipe. */
#define CANCEL_INTERVAL 100
/* Bytes of a pipe that are copied at a time: Linux's default size of a pipe. */
#define COPY_SIZE ((size_t)64 << 10)

/* ---- Reading ---- */

/* Return true if a signal interrupted the call, or the pipe was not ready: repeat the call. */
static bool may_retry(ssize_t result)
{
	return result < 0 && (errno == EINTR || errno == EAGAIN);
}

static ssize_t read_file(const struct payload *payload, uint64_t position, uint8_t *memory,
			 size_t size)
{
	ssize_t count;

	do
		count = pread(payload->descriptor, memory, size, payload->start + (off_t)position);
	while (may_retry(count));
	return count;
}

/* Read from a pipe, a device or a file once it is ready. Return the same as payload_read(). */
static ssize_t read_pipe(int descriptor, uint8_t *memory, size_t size, const atomic_bool *cancelled)
{
	struct pollfd readable = { .fd = descriptor, .events = POLLIN };

	while (!atomic_load(cancelled)) {
		int ready = poll(&readable, 1, CANCEL_INTERVAL);
		ssize_t count = ready > 0 ? read(descriptor, memory, size) : ready;

		if (ready != 0 && !may_retry(count))
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
	if (size == 0)
		return 0;
	if (is_stored)
		memcpy(memory, payload->memory + position, size);
	else if (payload->is_pattern)
		pattern_fill(memory, position, size);
	else if (payload->length == LENGTH_UNKNOWN)
		return read_pipe(payload->descriptor, memory, size, cancelled);
	else
		return read_file(payload, position, memory, size);
	return (ssize_t)size;
}

/* ---- Loading ---- */

static void close_file(int descriptor)
{
	if (descriptor > STDIN_FILENO)
		close(descriptor);
}

enum status payload_read_failed(const struct payload *payload, const char *reason,
				struct failure *failure)
{
	return failure_set(failure, STATUS_LOCAL_FAILURE, "cannot read '%s': %s",
			   ellipsize(payload->name).text, reason);
}

static enum status allocate_payload(struct payload *payload, struct failure *failure, size_t size)
{
	payload->memory = calloc(1, size);
	if (!payload->memory)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate %zu bytes for the outgoing payload: %s", size,
				   strerror(errno));
	payload->size = size;
	return STATUS_SUCCESS;
}

/* Load the text of --message or the default line. Pad it with zeros to at least DEFAULT_PAYLOAD. */
static enum status load_text(struct payload *payload, const struct options *options,
			     struct failure *failure)
{
	char line[80];
	const char *text = options->message ? options->message : line;
	enum status status;
	size_t size;

	snprintf(line, sizeof(line), "message from %s side with pid %d",
		 options->role == ROLE_CLIENT ? "active/client" : "passive/server", getpid());
	size = strlen(text) + 1;
	status =
		allocate_payload(payload, failure, size < DEFAULT_PAYLOAD ? DEFAULT_PAYLOAD : size);
	if (status != STATUS_SUCCESS)
		return status;
	memcpy(payload->memory, text, size);
	payload->length = payload->size;
	return STATUS_SUCCESS;
}

struct payload payload_pattern(uint64_t length)
{
	return (struct payload){ .is_pattern = true, .length = length, .descriptor = -1 };
}

/* ---- Loading a file or a pipe ---- */

/*
 * Return the length of a file from payload->start on. Return 0 if no byte is left, or if the file
 * system does not know the size, as in /proc. Return -1 for a pipe, a device or an error.
 */
static off_t claimed_length(const struct payload *payload)
{
	struct stat about;

	if (fstat(payload->descriptor, &about) || !S_ISREG(about.st_mode))
		return -1;
	return about.st_size > payload->start ? about.st_size - payload->start : 0;
}

/*
 * Load a file into memory, at most PAYLOAD_WHOLE + 1 bytes. Load only the beginning of a pipe or a
 * device, and keep its length unknown even if it ends early. Otherwise timing would decide which
 * length the peer sees, and whether the payload can be sent again.
 */
static enum status load_beginning(struct payload *payload, struct failure *failure, off_t claimed)
{
	size_t most = claimed > 0 ? (size_t)claimed : PAYLOAD_WHOLE + 1, size = 0;
	enum status status = allocate_payload(payload, failure, most);
	const atomic_bool never = false;
	ssize_t count;

	if (status != STATUS_SUCCESS)
		return status;
	do {
		count = read_pipe(payload->descriptor, payload->memory + size, most - size, &never);
		if (count < 0)
			return payload_read_failed(payload, strerror(errno), failure);
		size += (size_t)count;
	} while (claimed >= 0 && count > 0 && size < most);
	if (claimed_length(payload) < claimed)
		return payload_read_failed(payload, PAYLOAD_CUT_SHORT, failure);
	if (size == 0)
		return payload_read_failed(payload, PAYLOAD_EMPTY, failure);
	payload->size = size;
	payload->length = claimed >= 0 && size <= PAYLOAD_WHOLE ? size : LENGTH_UNKNOWN;
	return STATUS_SUCCESS;
}

/*
 * Create a file in the first folder that permits it, and remove its name. `*folder` becomes the
 * last folder tried. Return the descriptor, or -1 with errno.
 *
 * Signals are blocked, so that none ends the program before the name is removed. O_TMPFILE needs no
 * name, but some file systems do not support it.
 */
static int create_copy(const char **folder)
{
	const char *const folders[] = { secure_getenv("TMPDIR"), "/var/tmp", "/tmp" };
	char name[PATH_MAX];
	sigset_t all, before;
	int descriptor = -1;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && descriptor < 0; i++) {
		if (!folders[i] || !*folders[i])
			continue;
		*folder = folders[i];
		snprintf(name, sizeof(name), "%s/rdma-payload-XXXXXX", folders[i]);
		descriptor = mkostemp(name, O_CLOEXEC);
	}
	if (descriptor >= 0)
		unlink(name);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return descriptor;
}

/* Write all bytes. Return false with errno on failure. */
static bool write_fully(int descriptor, const uint8_t *bytes, ssize_t size)
{
	while (size > 0) {
		ssize_t count = write(descriptor, bytes, (size_t)size);

		if (count < 0 && !may_retry(count))
			return false;
		if (count > 0) {
			bytes += count;
			size -= count;
		}
	}
	return true;
}

/* Copy the whole pipe into a file. The file replaces the pipe, and can be read again. */
static enum status copy_pipe(struct payload *payload, struct failure *failure)
{
	const atomic_bool never = false;
	const char *folder = NULL;
	int copy = create_copy(&folder);
	bool written = copy >= 0;
	uint8_t piece[COPY_SIZE];
	ssize_t count = 1;

	signal(SIGXFSZ, SIG_IGN); /* beyond 'ulimit -f' write(2) fails, as after process_open() */
	while (written && count > 0) {
		count = read_pipe(payload->descriptor, piece, sizeof(piece), &never);
		written = write_fully(copy, piece, count);
	}
	if (!written)
		failure_set(failure, STATUS_LOCAL_FAILURE,
			    "cannot copy '%s' to %s: %s; set TMPDIR to a writable folder with "
			    "room, or serve one client with --one-off",
			    ellipsize(payload->name).text, ellipsize(folder).text, strerror(errno));
	else if (count < 0)
		payload_read_failed(payload, strerror(errno), failure);
	close_file(payload->descriptor);
	payload->descriptor = copy;
	payload->start = lseek(copy, 0, SEEK_SET);
	return written && count == 0 ? STATUS_SUCCESS : STATUS_LOCAL_FAILURE;
}

static enum status load_file(struct payload *payload, const struct options *options,
			     struct failure *failure)
{
	enum status status = STATUS_SUCCESS;
	off_t start, claimed;

	payload->descriptor = STDIN_FILENO;
	if (strcmp(payload->name, "-") != 0)
		payload->descriptor = open(payload->name, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (payload->descriptor < 0)
		return payload_read_failed(payload, strerror(errno), failure);
	start = lseek(payload->descriptor, 0, SEEK_CUR);
	payload->start = start > 0 ? start : 0; /* a pipe has no position */
	if (serves_multiple_clients(options) && claimed_length(payload) <= 0)
		status = copy_pipe(payload, failure);
	if (status != STATUS_SUCCESS)
		return status;
	claimed = claimed_length(payload);
	if (claimed <= (off_t)PAYLOAD_WHOLE)
		return load_beginning(payload, failure, claimed);
	payload->length = (uint64_t)claimed;
	return STATUS_SUCCESS;
}

/* ---- Every source ---- */

enum status payload_load(struct payload *payload, const struct options *options,
			 struct failure *failure)
{
	enum status status;

	*payload = payload_pattern(options->pattern_size);
	if (options->pattern_size)
		return STATUS_SUCCESS;
	payload->is_pattern = false;
	payload->name = options->file;
	status = options->file ? load_file(payload, options, failure)
			       : load_text(payload, options, failure);
	if (payload->size == payload->length) { /* the whole payload is in memory */
		close_file(payload->descriptor);
		payload->descriptor = -1;
	}
	return status;
}

void payload_free(struct payload *payload)
{
	free(payload->memory);
	close_file(payload->descriptor);
}
