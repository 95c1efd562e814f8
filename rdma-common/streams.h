/* SPDX-License-Identifier: MIT */
/*
 * The workers of a session: the source that fills the ring of the outgoing stream, the sink that
 * empties the ring of the incoming stream, verifies it and stores it. Both come to the session
 * through the calls here, and take its lock for that.
 *
 * All of it is the main thread's, without the lock of the sessions.
 */
#ifndef RDMA_COMMON_STREAMS_H
#define RDMA_COMMON_STREAMS_H

#include "../rdma-common.h"

/*
 * Once the rings are registered and the transfer is planned: starts the source, unless the payload
 * itself is the ring.
 */
enum status streams_open(struct connection *connection, struct failure *failure);

/*
 * Once both regions are known, and before that without effect: starts the sink of a stream that is
 * longer than its ring.
 */
void streams_begin(struct connection *connection);

/* ACTION_CHECK: the peer is done. What comes of it is told to the session. */
void streams_check(struct connection *connection);

/* An interrupted session does not wait for a disk, or for a reader. */
void streams_interrupt(struct connection *connection);

/* The workers of a connection that are to go. */
struct workers {
	struct source *source;
	struct sink *sink;
};

/*
 * No worker comes to the session any more when this returns. Once the connection is destroyed they
 * are released, and with them the memory of the rings, unless an adapter may still use it.
 */
struct workers streams_stop(struct connection *connection);
void workers_release(struct workers workers, bool rings_free);

#endif
