/* SPDX-License-Identifier: MIT */
/*
 * Storing an incoming payload as it comes: in a file, which is whole or not there, or in something
 * else that can be written to.
 *
 * An output belongs to one thread at a time, any thread. Its functions wait as long as a disk, a
 * pipe or a terminal takes nothing; for a pipe or a terminal only until `*cancelled` is true.
 */
#ifndef RDMA_COMMON_OUTPUT_H
#define RDMA_COMMON_OUTPUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct output;

#define OUTPUT_SIZE_UNKNOWN UINT64_MAX

/*
 * Checks that a payload of `size` bytes can be stored under `name` ("-": standard output), as far
 * as that is known before. 0 or -1 with errno.
 */
int output_check(const char *name, uint64_t size);

/* The mode of a new file, by umask(2). Main thread: it sets the mask for a moment. */
mode_t output_mode(void);

/*
 * Opens what `name` stands for. A file has no name until it is committed where the file system can
 * do that (O_TMPFILE), else a temporary one. A symbolic link is followed. A FIFO waits for its
 * reader. What is no file, nor /dev/null, waits until no other output of this process is open that
 * is none either: a program has one such place, and payloads would be mixed up there. `cancelled`
 * belongs to the caller, and any thread may set it: what waits then fails with ECANCELED soon. NULL
 * with errno.
 */
struct output *output_open(const char *name, mode_t mode, const atomic_bool *cancelled);

/*
 * Writes as many of `size` bytes (not 0) as are taken at once, and one at least. A disk is synced
 * as it fills, by about as much as it takes in a second: so a slow one is seen to move, and
 * the last sync is short. The bytes that were written, or -1 with errno.
 */
ssize_t output_write(struct output *output, const uint8_t *bytes, size_t size);

/*
 * There is no more. A disk is synced (fsync(2)), and then a file gets its name; one that is
 * replaced leaves its owner, if this user may, and its mode, but for set-user-ID and set-group-ID
 * of an owner that it could not leave. 0, or -1 with errno: no file is left then. Frees the output
 * in any case.
 */
int output_commit(struct output *output);

/* Frees it and leaves no file. NULL is allowed. */
void output_abandon(struct output *output);

#endif
