/* SPDX-License-Identifier: MIT */
/*
 * The outgoing payload: text, pattern, file or pipe. A small one is in memory, of a larger one each
 * part is read or made when it is needed.
 */
#ifndef RDMA_COMMON_PAYLOAD_H
#define RDMA_COMMON_PAYLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process.h"
#include "status.h"

/* A payload up to this size is whole in memory, in bytes. */
#define PAYLOAD_WHOLE ((size_t)8 << 20)

/* In messages: a file has fewer bytes than when it was opened. */
#define PAYLOAD_CUT_SHORT "it was cut short meanwhile; try again when it is whole"

/* The outgoing payload, the same for every peer. Once it is loaded only its digest changes. */
struct payload {
	uint8_t *memory;  /* from memory_map(): all of it, the beginning of a pipe, or NULL */
	size_t size;      /* bytes in memory */
	uint64_t length;  /* bytes; TRANSFER_UNKNOWN: a pipe that is sent as it comes */
	bool is_pattern;  /* of --size */
	bool stays;       /* an adapter or a worker may still use it: payload_free() leaves it */
	const char *name; /* in messages, of what is read; the options' */
	int descriptor;   /* what is not in memory is read from there; -1: nothing is */
	off_t start;      /* of a file: where the payload begins in it */
	/* The digest of a payload that is whole in memory, which grows while it is on the wire: */
	void *digest;               /* from digest_new() */
	uint64_t digested;          /* bytes that it covers */
	int64_t digest_nanoseconds; /* time that it took */
};

/* Whether all of it is in memory. Any thread. */
bool payload_is_whole(const struct payload *payload);

/*
 * Loads what the options name. Waits for the first byte of a pipe without limit, before
 * process_open(), so that signals end the program at once. A pipe has a length that its end tells,
 * and is sent as it comes, except by a server of many clients, which needs a copy for each: it
 * reads the pipe to its end, into memory or a temporary file. On failure a message has been
 * printed; payload_free() is allowed, and leaves nothing. Main thread.
 */
enum status payload_load(struct payload *payload, struct process *process);

/* Frees what is not marked as `stays`. Main thread, once no connection is left. */
void payload_free(struct payload *payload);

/*
 * Reads or makes bytes [position, position + size) of a pass; `size` is at least 1. Returns how
 * many: fewer at the end and if a pipe has no more for now, none at the end, -1 with errno. Waits
 * for a pipe until `*cancelled` (ECANCELED, within 100 ms), for a file as long as its disk takes.
 * Any thread; a pipe has one reader, which reads it in order, once.
 */
ssize_t payload_read(const struct payload *payload, uint64_t position, uint8_t *memory, size_t size,
		     const atomic_bool *cancelled);

/* Lets the digest cover the payload up to `size`, or up to its end. */
void payload_extend_digest(struct payload *payload, uint64_t size);
/* The digest of the whole payload: XXH3, 64 bits. */
uint64_t payload_digest(struct payload *payload);

#endif
