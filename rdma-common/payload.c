// SPDX-License-Identifier: MIT
/*
 * What is handed over, and what is kept of it: memory, files, the pattern, digests.
 */
#include "../rdma-common.h"

#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#define XXH_INLINE_ALL /* one library less to load at every start */
#include <xxhash.h>

/* From this size on, memory is asked for in huge pages: the adapter has fewer addresses to keep. */
#define HUGE_PAGE       ((size_t)2 * 1024 * 1024)
#define HUGE_PAGE_FLAGS (MAP_HUGETLB | 21 << 26) /* 21: its logarithm, at MAP_HUGE_SHIFT */
/* First room for what comes by a pipe; it is doubled as needed. */
#define PIPE_SIZE ((size_t)64 * 1024)

/* ---- Memory ---- */

/* What is mapped for `size` bytes: whole huge pages, if it is large. 0: too much. */
static size_t mapped_size(size_t size)
{
	if (size < HUGE_PAGE)
		return size;
	if (size > SIZE_MAX - HUGE_PAGE)
		return 0;
	return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

void *memory_map(size_t size)
{
	const int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t mapped = mapped_size(size);
	void *memory = MAP_FAILED;

	if (!mapped) {
		errno = ENOMEM;
		return NULL;
	}
	if (mapped >= HUGE_PAGE)
		memory = mmap(NULL, mapped, access, flags | HUGE_PAGE_FLAGS, -1, 0);
	if (memory != MAP_FAILED)
		return memory;
	memory = mmap(NULL, mapped, access, flags, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (mapped >= HUGE_PAGE)
		madvise(memory, mapped, MADV_HUGEPAGE); /* advice: ordinary pages do as well */
	return memory;
}

int memory_unmap(void *memory, size_t size)
{
	return munmap(memory, mapped_size(size));
}

/* ---- Digests ---- */

void digest_extend(struct digest *digest, const uint8_t *memory, uint64_t size)
{
	int64_t started;

	if (size <= digest->bytes)
		return;
	started = now_nanoseconds();
	XXH3_64bits_update(digest->state, memory + digest->bytes, size - digest->bytes);
	digest->bytes = size;
	digest->nanoseconds += now_nanoseconds() - started;
}

uint64_t digest_value(const struct digest *digest)
{
	return XXH3_64bits_digest(digest->state);
}

uint64_t digest_memory(const uint8_t *memory, uint64_t size)
{
	return XXH3_64bits(memory, size);
}

/* ---- The pattern of --size ---- */

/* Each eight bytes of the pattern are their number, multiplied so that every bit varies. */
static uint64_t pattern_word(size_t offset)
{
	return htole64((offset / sizeof(uint64_t) + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static void pattern_fill(uint8_t *memory, size_t size)
{
	for (size_t offset = 0; offset < size; offset += sizeof(uint64_t)) {
		uint64_t word = pattern_word(offset);
		size_t left = size - offset;

		memcpy(memory + offset, &word, left < sizeof(word) ? left : sizeof(word));
	}
}

size_t pattern_mismatch(const uint8_t *memory, size_t size)
{
	for (size_t offset = 0; offset < size; offset += sizeof(uint64_t)) {
		uint64_t word = pattern_word(offset);
		size_t left = size - offset < sizeof(word) ? size - offset : sizeof(word);
		const uint8_t *expected = (const uint8_t *)&word;

		if (!memcmp(memory + offset, expected, left))
			continue;
		while (memory[offset] == *expected) {
			offset++;
			expected++;
		}
		return offset;
	}
	return size;
}

/* ---- What this side hands over ---- */

/* Room for `size` bytes in the payload. */
static enum status payload_allocate(struct process *process, size_t size)
{
	struct payload *payload = &process->payload;

	payload->memory = memory_map(size);
	if (!payload->memory) {
		process_complain(process, "cannot allocate %zu bytes for what is handed over: %s",
				 size, strerror(errno));
		return STATUS_LOCAL_FAILURE;
	}
	payload->size = size;
	return STATUS_SUCCESS;
}

/* The text of --message or a default line, with zeros up to the smallest size. */
static enum status load_text(struct process *process)
{
	char line[80];
	const char *text = process->options->message ? process->options->message : line;
	enum status status;
	size_t size;

	snprintf(line, sizeof(line), "message from %s side with pid %d",
		 process->role == ROLE_CLIENT ? "active/client" : "passive/server", getpid());
	size = strlen(text) + 1;
	status = payload_allocate(process, size < DEFAULT_PAYLOAD ? DEFAULT_PAYLOAD : size);
	if (status == STATUS_SUCCESS)
		memcpy(process->payload.memory, text, size);
	return status;
}

static enum status load_pattern(struct process *process)
{
	enum status status = payload_allocate(process, process->options->pattern_size);

	if (status == STATUS_SUCCESS)
		pattern_fill(process->payload.memory, process->payload.size);
	process->payload.is_pattern = true;
	return status;
}

/* Reads `size` bytes, or up to the end of the file; how many, or -1 with errno. */
static ssize_t read_fully(int descriptor, uint8_t *memory, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t count = read(descriptor, memory + done, size - done);

		if (count < 0 && errno != EINTR)
			return -1;
		if (count == 0)
			break;
		if (count > 0)
			done += (size_t)count;
	}
	return (ssize_t)done;
}

static enum status read_failed(struct process *process, const char *reason)
{
	process_complain(process, "cannot read '%s': %s", process->options->file, reason);
	return STATUS_LOCAL_FAILURE;
}

/* A file that knows its size. */
static enum status load_file(struct process *process, int descriptor, size_t size)
{
	enum status status = payload_allocate(process, size);
	ssize_t count;

	if (status != STATUS_SUCCESS)
		return status;
	count = read_fully(descriptor, process->payload.memory, size);
	if (count < 0)
		return read_failed(process, strerror(errno));
	if ((size_t)count < size)
		return read_failed(process,
				   "it was cut short meanwhile; try again when it is whole");
	return STATUS_SUCCESS;
}

/* More room or less, with what is there as far as it fits. 0 or -1 with errno. */
static int payload_resize(struct payload *payload, size_t size)
{
	uint8_t *memory = memory_map(size);

	if (!memory)
		return -1;
	memcpy(memory, payload->memory, size < payload->size ? size : payload->size);
	memory_unmap(payload->memory, payload->size);
	payload->memory = memory;
	payload->size = size;
	return 0;
}

/* What comes by a pipe ends when it ends. */
static enum status load_pipe(struct process *process, int descriptor)
{
	struct payload *payload = &process->payload;
	enum status status = payload_allocate(process, PIPE_SIZE);
	size_t size = 0;

	if (status != STATUS_SUCCESS)
		return status;
	for (;;) {
		ssize_t count =
			read_fully(descriptor, payload->memory + size, payload->size - size);

		if (count < 0)
			return read_failed(process, strerror(errno));
		size += (size_t)count;
		if (size < payload->size)
			break;
		if (payload_resize(payload, 2 * size))
			return read_failed(process, strerror(errno));
	}
	if (size == 0)
		return read_failed(process, "it is empty; one byte at least must be handed over");
	/* the payload is as long as its memory */
	return payload_resize(payload, size) ? read_failed(process, strerror(errno))
					     : STATUS_SUCCESS;
}

static enum status load_stream(struct process *process)
{
	const char *name = process->options->file;
	int descriptor = strcmp(name, "-") ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	enum status status;
	struct stat about;

	if (descriptor < 0 || fstat(descriptor, &about))
		status = read_failed(process, strerror(errno));
	else if (!S_ISREG(about.st_mode) || about.st_size == 0)
		status = load_pipe(process, descriptor); /* files in /proc do not know their size */
	else
		status = load_file(process, descriptor, (size_t)about.st_size);
	if (descriptor > STDIN_FILENO)
		close(descriptor);
	return status;
}

enum status payload_load(struct process *process)
{
	const struct options *options = process->options;
	struct payload *payload = &process->payload;

	payload->digest.state = XXH3_createState();
	if (!payload->digest.state) {
		process_complain(process, "cannot allocate memory for a digest");
		return STATUS_LOCAL_FAILURE;
	}
	XXH3_64bits_reset(payload->digest.state);
	if (options->file)
		return load_stream(process);
	return options->pattern_size ? load_pattern(process) : load_text(process);
}

void payload_free(struct payload *payload)
{
	XXH3_freeState(payload->digest.state);
	if (payload->memory && !payload->stays && memory_unmap(payload->memory, payload->size))
		warn("cannot unmap %zu bytes of memory", payload->size);
}

/* ---- What is kept of what the peer hands over ---- */

bool is_standard_output(const char *name)
{
	return name && !strcmp(name, "-");
}

/* Whether a file of `size` bytes can be made in the folder of `name`. 0 or -1 with errno. */
static int check_folder(const char *name, uint64_t size)
{
	struct statvfs about;
	char *copy = strdup(name);
	const char *folder = copy ? dirname(copy) : NULL;
	int result = -1;

	if (folder && !access(folder, W_OK | X_OK) && !statvfs(folder, &about)) {
		result = about.f_bavail < size / about.f_frsize ? -1 : 0;
		errno = ENOSPC;
	}
	free(copy);
	return result;
}

int output_check(const char *name, uint64_t size)
{
	struct stat about;

	if (is_standard_output(name))
		return 0;
	if (stat(name, &about) || S_ISREG(about.st_mode))
		return check_folder(name, size);
	errno = EISDIR;
	return S_ISDIR(about.st_mode) ? -1 : access(name, W_OK);
}

static int write_fully(int descriptor, const uint8_t *bytes, uint64_t size)
{
	while (size > 0) {
		ssize_t count = write(descriptor, bytes, size);

		if (count < 0 && errno != EINTR)
			return -1;
		if (count > 0) {
			bytes += count;
			size -= (uint64_t)count;
		}
	}
	return 0;
}

/* Writes to what stands there already and is no file: a device, a pipe. */
static int write_to_special(const char *name, const uint8_t *bytes, uint64_t size)
{
	int descriptor = open(name, O_WRONLY | O_CLOEXEC);
	int result = descriptor < 0 ? -1 : write_fully(descriptor, bytes, size);

	if (descriptor >= 0 && close(descriptor))
		return -1;
	return result;
}

/* Writes a file under a temporary name and changes that; if anything fails, no file is left. */
static int write_and_rename(const char *name, char *temporary_name, const uint8_t *bytes,
			    uint64_t size)
{
	int descriptor = mkostemp(temporary_name, O_CLOEXEC);
	mode_t mask = umask(0);
	int error;

	umask(mask);
	if (descriptor < 0)
		return -1;
	error = write_fully(descriptor, bytes, size) || fchmod(descriptor, 0666 & ~mask) ? errno
											 : 0;
	if (close(descriptor) && !error)
		error = errno;
	if (!error && !rename(temporary_name, name))
		return 0;
	if (!error)
		error = errno;
	unlink(temporary_name);
	errno = error;
	return -1;
}

int output_store(const char *name, const uint8_t *bytes, uint64_t size)
{
	struct stat about;
	char *temporary_name;
	int result;

	if (is_standard_output(name))
		return write_fully(STDOUT_FILENO, bytes, size);
	if (!stat(name, &about) && !S_ISREG(about.st_mode))
		return write_to_special(name, bytes, size);
	if (asprintf(&temporary_name, "%s.XXXXXX", name) < 0)
		return -1;
	result = write_and_rename(name, temporary_name, bytes, size);
	free(temporary_name);
	return result;
}
