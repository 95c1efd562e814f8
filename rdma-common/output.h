/* SPDX-License-Identifier: MIT */
/*
 * Storing an incoming payload as it comes: in a file, which is whole or not there, or in something
 * else that can be written to.
 *
 * Threads: owner and helper thread, an output by one thread at a time. Its functions wait as long
 * as a disk, a pipe or a terminal takes nothing; for a pipe or a terminal only until `*cancelled`
 * is true.
 */
#ifndef RDMA_COMMON_OUTPUT_H
#define RDMA_COMMON_OUTPUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "options.h"

struct output;

#define OUTPUT_SIZE_UNKNOWN UINT64_MAX

/*
 * Checks that a payload of `size` bytes can be stored under `name` ("-": standard output), as far
 * as that is known before. 0 or -1 with errno.
 */
int output_check(const char *name, uint64_t size);

/*
 * Looks what --output means: each name of standard output, like /dev/stdout, becomes "-". One of
 * standard error, or of a descriptor of this process that is not open for writing, is a usage
 * error, whose message has been printed. Before anything is opened, which might get the number that
 * a name says. Main thread.
 */
enum parsed output_resolve(struct options *options);

/* Why storing failed, in words, from errno. The string is static, or strerror(3)'s. */
const char *output_error(int error);

/*
 * Opens what `name` stands for. A file has no name until it is committed where the file system can
 * do that (O_TMPFILE), else a temporary one. A symbolic link is followed, and a name of what is
 * open already, like /dev/fd/3, is written to in place. EPERM: it is in a sticky folder that others
 * may write to, and neither this user's nor that of the folder's owner. A FIFO waits for its
 * reader. What is no file, nor /dev/null, waits until no other output of this process is open that
 * is none either: a program has one such place, and payloads would be mixed up there. All outputs
 * of the process share `taken`, false at first, which is true while that place is in use.
 * `cancelled` belongs to the caller, and any thread may set it: what waits then fails with
 * ECANCELED soon. NULL with errno.
 */
struct output *output_open(atomic_bool *taken, const char *name, const atomic_bool *cancelled);

/*
 * Writes as many of `size` bytes (not 0) as are taken at once, and one at least. A disk is synced
 * as it fills, by about as much as it takes in a second: so a slow one is seen to move, and
 * the last sync is short. The bytes that were written, or -1 with errno.
 */
ssize_t output_write(struct output *output, const uint8_t *bytes, size_t size);

/*
 * There is no more. A disk is synced (fsync(2)), then a file gets its name, and then its folder is
 * synced as well, so that the name lasts. A file that is replaced leaves its owner and its group,
 * if the user namespace maps them and this user may give them, its ACL and its mode, but for
 * set-user-ID and set-group-ID, and for the rights of a group, or by an ACL, that it could not
 * leave. 0, or -1 with errno: no file is left then, unless it is the folder that could not be
 * synced. Frees the output in any case.
 */
int output_commit(struct output *output);

/* Frees it and leaves no file. NULL is allowed. */
void output_abandon(struct output *output);

#endif
