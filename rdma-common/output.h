/* SPDX-License-Identifier: MIT */
/*
 * Store an incoming payload as it arrives: in a file, which appears complete or not at all, or in a
 * pipe, a terminal or a device.
 *
 * Threads: owner and helper thread (helper.h). Only one of them at a time uses an output. The
 * functions block while a disk, a pipe or a terminal accepts nothing. `*cancelled` ends a wait for
 * a pipe or a terminal, not for a disk.
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
/* A value of errno that Linux does not have: another user owns the file (output_error()). */
#define OUTPUT_OTHER_OWNER 10000

/*
 * Check that a payload could be stored under `name` now. "-" is standard output. Return 0, or -1
 * with errno as output_open() sets it. Main thread.
 */
int output_check(const char *name);

/*
 * Replace a name of standard output, such as /dev/stdout, in --output by "-". Call this before the
 * program opens a file, which might get the number in a name such as /dev/fd/3. Main thread.
 *
 * Print a usage error and return PARSED_FAILED if the name is standard error, or a descriptor of
 * this process that is not open for writing. Otherwise return PARSED_RUN.
 */
enum parsed output_resolve(struct options *options);

/*
 * Return a text for the errno value of a failure to store. The string is static, or strerror(3)'s.
 */
const char *output_error(int error);

/*
 * Open the file, pipe or device `name` for `size` bytes, or OUTPUT_SIZE_UNKNOWN. Symbolic links are
 * followed. The bytes of a file go to a temporary file, which replaces `name` in output_commit(). A
 * pipe, a device, or the file of an open descriptor, such as /dev/fd/3, is written to in place.
 * Opening a FIFO blocks until it has a reader.
 *
 * A process writes to one pipe, terminal, open file or device at a time, because payloads would mix
 * there. Opening another one blocks until the first is released. Devices such as /dev/null
 * (null(4)) are excepted. All outputs of the process share `*taken`. It is false at first, and true
 * while one of them writes to such a place.
 *
 * Return NULL with errno on failure. Some errno values have a special meaning:
 *
 * - OUTPUT_OTHER_OWNER: another user owns the file. Or it is a link, pipe or device in a sticky
 *   folder to which others may write, and neither this user nor the folder's owner owns it.
 * - ENOSPC: the file system has no room for `size` bytes.
 * - EFBIG: `size` is above RLIMIT_FSIZE.
 * - ECANCELED: `*cancelled`, which any thread may set, became true during a wait.
 */
struct output *output_open(atomic_bool *taken, const char *name, uint64_t size,
			   const atomic_bool *cancelled);

/*
 * Write as many of `size` bytes as the output accepts at once, at least one. `size` is not 0.
 * Return the number of bytes written, or -1 with errno.
 *
 * Sync a disk after about as many bytes as it writes in a second. So progress shows on a slow disk,
 * too, and the last sync is short.
 */
ssize_t output_write(struct output *output, const uint8_t *bytes, size_t size);

/*
 * Complete the output, and free it in any case. A file is synced (fsync(2)) and gets its name. Then
 * its folder is synced, so that the name is durable.
 *
 * A file that replaces another one keeps the permission bits of the old one, but neither
 * set-user-ID nor set-group-ID. Group and others get no rights if the groups of the two files
 * differ, or the old one has an ACL.
 *
 * Return 0, or -1 with errno. After a failure there is no new file, and an existing one is
 * unchanged, with one exception: if only the folder cannot be synced, the new file keeps its name.
 */
int output_commit(struct output *output);

/* Free the output without leaving a file. NULL is allowed. */
void output_abandon(struct output *output);

#endif
