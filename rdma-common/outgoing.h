/* SPDX-License-Identifier: MIT */
/*
 * The outgoing payload on its way into the ring, a piece at a time: text and pattern are made
 * there, a file or a pipe is read by a helper. What is filled is digested.
 *
 * Until the connection's thread starts it is the main thread's, then that one's.
 */
#ifndef RDMA_COMMON_OUTGOING_H
#define RDMA_COMMON_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "helper.h"
#include "payload.h"
#include "process.h"
#include "status.h"
#include "transfer.h"

struct outgoing {
	const struct payload *payload; /* NULL: this side sends nothing */
	uint8_t *ring;
	size_t ring_size;      /* bytes */
	bool ending;           /* its time is up: it ends with the pass that has begun */
	struct piece piece;    /* that the helper was asked for */
	struct helper *helper; /* reads a file or a pipe; NULL: nothing has to be waited for */
	void *digest;          /* of all that was filled */
	uint64_t pass_digest; /* what MSG_DONE says: of all passes, or of one where all are alike */
	int64_t nanoseconds;  /* that digesting took */
};

/*
 * Begins: `payload` goes into `ring`; both must outlive it. On failure, too, outgoing_release() and
 * outgoing_free() follow. Main thread.
 */
enum status outgoing_open(struct outgoing *outgoing, const struct payload *payload, uint8_t *ring,
			  size_t ring_size, struct process *process, struct failure *failure);

/*
 * Fills a piece of the ring, or has the helper read it, as far as `transfer` allows, and tells that
 * what was filled. True: bytes were filled; false also if the helper was just asked. `failure`,
 * which is STATUS_SUCCESS before, says what could not be read; nothing more is filled then.
 */
bool outgoing_fill(struct outgoing *outgoing, struct transfer *transfer, struct failure *failure);

/* Lets go of the helper; false: that is held up, and the ring is its own (helper_release()). */
bool outgoing_release(struct outgoing *outgoing);

/* Frees the rest. Main thread. */
void outgoing_free(struct outgoing *outgoing);

#endif
