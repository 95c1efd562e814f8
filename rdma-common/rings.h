/* SPDX-License-Identifier: MIT */
/*
 * The rings of a connection: how long each is, and that its memory is registered. A ring is as long
 * as its stream, if that is short, and as there is memory for, if that is little.
 *
 * All of it is the main thread's, without the lock of the sessions.
 */
#ifndef RDMA_COMMON_RINGS_H
#define RDMA_COMMON_RINGS_H

#include "../rdma-common.h"

/*
 * Once the peer's hello is known: a ring for each stream that is present, whose length it stores in
 * the plan. One of the outgoing stream is the payload itself where that can be. The connection owns
 * it. Anything but STATUS_SUCCESS: `*failure` says why there is no memory even for a page.
 * register_outgoing() leaves a ring that is there already as it is.
 */
enum status register_outgoing(struct connection *connection, struct stream_plan *plan,
			      struct failure *failure);
enum status register_incoming(struct connection *connection, struct stream_plan *plan,
			      struct failure *failure);

#endif
