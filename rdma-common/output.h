/* SPDX-License-Identifier: MIT */
/*
 * Store an incoming payload as it arrives: in a file, which appears complete or not at all, or in a
 * pipe, a terminal or a device.
 *
 * Threads: owner and helper thread; one thread at a time uses an output. The functions block while
 * a disk, a pipe or a terminal accepts nothing. A wait for a pipe or a terminal ends when
 * `*cancelled` becomes true.
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
 * Check in advance that a payload of `size` bytes can be stored under `name` ("-": standard
 * output), as far as that can be known. Return 0, or -1 with errno.
 */
int output_check(const char *name, uint64_t size);

/*
 * Resolve --output: replace each name of standard output, such as /dev/stdout, by "-". Print a
 * usage error, and return PARSED_FAILED, for a name of standard error, or of a descriptor of this
 * process that is not open for writing. Call this before any file is opened, because that file
 * might get the number in the name. Main thread.
 */
enum parsed output_resolve(struct options *options);

/*
 * Return a text for the errno value of a failure to store. The string is static, or strerror(3)'s.
 */
const char *output_error(int error);

/*
 * Open the file, pipe or device `name`. A file has no name until output_commit() (O_TMPFILE), or a
 * temporary name on file systems without O_TMPFILE. Symbolic links are followed. If the name is
 * that of an open descriptor, such as /dev/fd/3, its file is written to in place. Opening a FIFO
 * blocks until it has a reader. A process writes to one pipe, terminal or device at a time, because
 * payloads would mix there: opening another one blocks until the first is released (/dev/null is
 * exempt). All outputs of the process share `taken`: initially false, and true while such an output
 * is open.
 *
 * Return NULL with errno on failure. EPERM: the name is in a sticky folder that other users may
 * write to, and belongs neither to this user nor to the folder's owner. ECANCELED: the caller's
 * `cancelled`, which any thread may set, became true during a wait.
 */
struct output *output_open(atomic_bool *taken, const char *name, const atomic_bool *cancelled);

/*
 * Write as many of `size` bytes (not 0) as the output accepts at once, at least one. Sync a disk as
 * it fills, each time about as much as it writes in a second: progress of a slow disk becomes
 * visible, and the last sync is short. Return the number of bytes written, or -1 with errno.
 */
ssize_t output_write(struct output *output, const uint8_t *bytes, size_t size);

/*
 * Complete the output, and free it in any case. A file is synced (fsync(2)) and gets its name; then
 * its folder is synced, so that the name is durable. If the file replaces another one, it takes
 * over the owner, group, ACL and mode, as far as this user may set them and the user namespace maps
 * them; it never takes over set-user-ID, set-group-ID, or rights of a group that it could not get.
 *
 * Return 0, or -1 with errno. After a failure there is no new file, and a file that was to be
 * replaced is unchanged, unless only the folder could not be synced.
 */
int output_commit(struct output *output);

/* Free the output without leaving a file. NULL is allowed. */
void output_abandon(struct output *output);

#endif
