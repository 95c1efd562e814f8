/* SPDX-License-Identifier: MIT */
/*
 * Storing an incoming payload: in a file, which is whole or not there, or in something else that
 * can be written to.
 */
#ifndef RDMA_COMMON_OUTPUT_H
#define RDMA_COMMON_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Progress and cancellation of the storing, for somebody else. Any thread. */
struct output_control {
	atomic_bool cancelled;          /* store no more: fail with ECANCELED soon */
	atomic_uint_least64_t progress; /* grows as long as the storing moves */
};

/*
 * Checks that a payload of `size` bytes can be stored under `name` ("-": standard output), as far
 * as that is known before. 0 or -1 with errno.
 */
int output_check(const char *name, uint64_t size);

/* The mode of a new file, by umask(2). Main thread: it sets the mask for a moment. */
mode_t output_mode(void);

/*
 * Stores it. A file gets its name when it is whole and synced (fsync(2)): it has none before where
 * the file system can do that (O_TMPFILE), else a temporary one. A symbolic link is followed, and a
 * file that is replaced leaves its mode and, if this user may, its owner. Waits as long as a pipe
 * or a terminal takes nothing, unless it is cancelled. 0 or -1 with errno. Any thread.
 */
int output_store(const char *name, mode_t mode, const uint8_t *bytes, uint64_t size,
		 struct output_control *control);

#endif
