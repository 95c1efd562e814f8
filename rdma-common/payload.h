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

#include "options.h"
#include "status.h"

/* A payload up to this size is whole in memory, in bytes. */
#define PAYLOAD_WHOLE ((size_t)8 << 20)

/* In messages: a file has fewer bytes than when it was opened. */
#define PAYLOAD_CUT_SHORT "it was cut short meanwhile; try again when it is whole"

/* The outgoing payload, the same for every peer. Once it is loaded it does not change. */
struct payload {
	uint8_t *memory;  /* the payload's: all of it, the beginning of a pipe, or NULL */
	size_t size;      /* bytes in memory */
	uint64_t length;  /* bytes; LENGTH_UNKNOWN: a pipe that is sent as it comes */
	bool is_pattern;  /* of --size */
	const char *name; /* in messages, of what is read; the options' */
	int descriptor;   /* what is not in memory is read from there; -1: nothing is */
	off_t start;      /* of a file: where the payload begins in it */
};

/*
 * Loads what the options name. Waits for the first byte of a pipe without limit, before
 * process_open(), so that signals end the program at once. The length of a pipe is never known: it
 * is sent as it comes. Only a server of many clients, which needs it for each, copies it to its end
 * into a temporary file, and sends that. On failure payload_free() is allowed, and leaves nothing.
 * Main thread.
 */
enum status payload_load(struct payload *payload, const struct options *options,
			 struct failure *failure);

/* The pattern of --size, of so many bytes. */
struct payload payload_pattern(uint64_t length);

/* Frees it. Main thread, once nobody reads it any more. */
void payload_free(struct payload *payload);

/*
 * Reads or makes bytes [position, position + size) of a pass; `size` is at least 1. Returns how
 * many: one at least, also if there are more, none at the end, -1 with errno. Waits
 * for a pipe until `*cancelled` (ECANCELED, within 100 ms), for a file as long as its disk takes;
 * for what is in memory, or is a pattern, it does not, and `cancelled` may be NULL. Any thread; a
 * pipe has one reader, which reads it in order, once.
 */
ssize_t payload_read(const struct payload *payload, uint64_t position, uint8_t *memory, size_t size,
		     const atomic_bool *cancelled);

#endif
