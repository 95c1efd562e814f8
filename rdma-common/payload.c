// SPDX-License-Identifier: MIT
#include "payload.h"

#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL /* one library less to load at every start */
#include <xxhash.h>

/* From this size on, memory is allocated in huge pages: the adapter has fewer addresses to keep. */
#define HUGE_PAGE       ((size_t)2 * 1024 * 1024)
#define HUGE_PAGE_FLAGS (MAP_HUGETLB | 21 << 26) /* 21: its logarithm, at MAP_HUGE_SHIFT */
/* The first allocation for a pipe; it is doubled as needed. */
#define PIPE_SIZE ((size_t)64 * 1024)

/* ---- Memory ---- */

/* The size to map for `size` bytes: whole huge pages, if it is large. 0: too much. */
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

void payload_extend_digest(struct payload *payload, uint64_t size)
{
	int64_t started;

	if (size > payload->size)
		size = payload->size;
	if (size <= payload->digested)
		return;
	started = now_nanoseconds();
	XXH3_64bits_update(payload->digest, payload->memory + payload->digested,
			   size - payload->digested);
	payload->digested = size;
	payload->digest_nanoseconds += now_nanoseconds() - started;
}

uint64_t payload_digest(struct payload *payload)
{
	payload_extend_digest(payload, payload->size);
	return XXH3_64bits_digest(payload->digest);
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

/* ---- The outgoing payload ---- */

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
	if (status == STATUS_SUCCESS)
		memcpy(loading->payload->memory, text, size);
	return status;
}

static enum status load_pattern(const struct loading *loading)
{
	enum status status = payload_allocate(loading, loading->process->options->pattern_size);

	if (status == STATUS_SUCCESS)
		pattern_fill(loading->payload->memory, loading->payload->size);
	loading->payload->is_pattern = true;
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

static enum status read_failed(const struct loading *loading, const char *reason)
{
	return process_fail(loading->process, STATUS_LOCAL_FAILURE, "cannot read '%s': %s",
			    loading->process->options->file, reason);
}

/* A file that knows its size. */
static enum status load_file(const struct loading *loading, int descriptor, size_t size)
{
	enum status status = payload_allocate(loading, size);
	ssize_t count;

	if (status != STATUS_SUCCESS)
		return status;
	count = read_fully(descriptor, loading->payload->memory, size);
	if (count < 0)
		return read_failed(loading, strerror(errno));
	if ((size_t)count < size)
		return read_failed(loading,
				   "it was cut short meanwhile; try again when it is whole");
	return STATUS_SUCCESS;
}

/* Grows or shrinks the payload, and keeps of its bytes what fits. 0 or -1 with errno. */
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

/* A pipe, whose size is known at its end. */
static enum status load_pipe(const struct loading *loading, int descriptor)
{
	struct payload *payload = loading->payload;
	enum status status = payload_allocate(loading, PIPE_SIZE);
	size_t size = 0;

	if (status != STATUS_SUCCESS)
		return status;
	for (;;) {
		ssize_t count =
			read_fully(descriptor, payload->memory + size, payload->size - size);

		if (count < 0)
			return read_failed(loading, strerror(errno));
		size += (size_t)count;
		if (size < payload->size)
			break;
		if (payload_resize(payload, 2 * size))
			return read_failed(loading, strerror(errno));
	}
	if (size == 0)
		return read_failed(loading, "it is empty; a payload has one byte at least");
	/* the payload is as long as its memory */
	return payload_resize(payload, size) ? read_failed(loading, strerror(errno))
					     : STATUS_SUCCESS;
}

static enum status load_stream(const struct loading *loading)
{
	const char *name = loading->process->options->file;
	int descriptor = strcmp(name, "-") ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	enum status status;
	struct stat about;

	if (descriptor < 0 || fstat(descriptor, &about))
		status = read_failed(loading, strerror(errno));
	else if (!S_ISREG(about.st_mode) || about.st_size == 0)
		status = load_pipe(loading, descriptor); /* files in /proc do not know their size */
	else
		status = load_file(loading, descriptor, (size_t)about.st_size);
	if (descriptor > STDIN_FILENO)
		close(descriptor);
	return status;
}

enum status payload_load(struct payload *payload, struct process *process)
{
	const struct options *options = process->options;
	const struct loading loading = { .payload = payload, .process = process };

	payload->digest = XXH3_createState();
	if (!payload->digest)
		return process_fail(process, STATUS_LOCAL_FAILURE,
				    "cannot allocate memory for a digest");
	XXH3_64bits_reset(payload->digest);
	if (options->file)
		return load_stream(&loading);
	return options->pattern_size ? load_pattern(&loading) : load_text(&loading);
}

void payload_free(struct payload *payload)
{
	XXH3_freeState(payload->digest);
	if (payload->memory && !payload->stays && memory_unmap(payload->memory, payload->size))
		warn("cannot unmap %zu bytes of memory", payload->size);
}
