/* SPDX-License-Identifier: MIT */
/*
 * A helper: a thread that reads what a connection sends, or stores what it receives, where that may
 * be held up by a disk or by whoever is at the other end of a pipe, for ever. It does one call at a
 * time, and knows no session.
 *
 * It belongs to one thread. That of a connection never waits for it: it asks, and when
 * helper_descriptor() can be read it looks for the result; the main thread has one for
 * helper_check(). A call that does not return holds up
 * nobody: what it may use, the helper's buffer and output or the ring that it reads into, is freed
 * when it has returned.
 */
#ifndef RDMA_COMMON_HELPER_H
#define RDMA_COMMON_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "output.h"
#include "payload.h"
#include "process.h"

/* Bytes of the buffer of one that stores, and of a piece of a ring at most. */
#define HELPER_BUFFER ((size_t)256 << 10)

struct helper;

/*
 * Starts a helper that reads `payload`, whose memory and descriptor must outlive it, into `ring` of
 * `ring_size` bytes (memory_map()). NULL with errno.
 */
struct helper *helper_start_reading(struct process *process, const struct payload *payload,
				    uint8_t *ring, size_t ring_size);

/*
 * Starts a helper that stores in `output`, one of `outputs` (output_open()), which it opens for the
 * first bytes. NULL with errno.
 */
struct helper *helper_start_storing(struct process *process, struct outputs *outputs,
				    const char *output);

/* Of a helper that stores. */
uint8_t *helper_buffer(struct helper *helper);

/*
 * Can be read when a call has ended, as poll(2) tells, and perhaps once more later: helper_result()
 * is false then.
 */
int helper_descriptor(const struct helper *helper);

/*
 * Asks for a call; the one before must have ended, and its result been taken. The bytes are the
 * helper's meanwhile. helper_read(): up to `size` bytes of the payload from `position` of a pass on
 * go to `offset` of the ring (payload_read()). helper_store(): some of the `size` bytes at `offset`
 * of the buffer are stored (output_write()). helper_commit(): there are no more (output_commit()).
 */
void helper_read(struct helper *helper, size_t offset, uint64_t position, size_t size);
void helper_store(struct helper *helper, size_t offset, size_t size);
void helper_commit(struct helper *helper);

/*
 * Asks a helper that stores whether `size` bytes could be (output_check()), and waits so long for
 * the answer. 0 or an errno value: ETIMEDOUT if there is no answer, and from then on, without a
 * wait, until there is.
 */
int helper_check(struct helper *helper, uint64_t size, int64_t milliseconds);

/* True from a call on until its result is taken. NULL: it is not. */
bool helper_is_asked(const struct helper *helper);

/* Takes the result of the call, once that has ended: then true, and -1 comes with errno. */
bool helper_result(struct helper *helper, ssize_t *result);

/* The same where nobody wants the result any more. NULL, and none that is asked: false. */
bool helper_drop(struct helper *helper);

/* What waits for a pipe ends soon, and what is not committed yet will not be. NULL is allowed. */
void helper_cancel(struct helper *helper);

/*
 * Lets go of it. What waits for a pipe is cancelled; a call that runs has a moment to end, and what
 * it has begun to store is removed, unless it is just getting its name. False: it is held up, and
 * process_report_ended() will tell that it has ended all the same; the ring is the helper's from
 * now on, which unmaps it (memory_unmap()), also before that is deregistered: until then its pages
 * stay. NULL is allowed.
 */
bool helper_release(struct helper *helper);

#endif
