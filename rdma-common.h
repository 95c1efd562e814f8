/* SPDX-License-Identifier: MIT */
/*
 * The thread of a session, which rdma-client and rdma-server share.
 *
 * The main thread owns the connection manager: it creates connections, notifies them of events, and
 * destroys them (rdma-common/connection.h). Each session has a thread. This thread polls the
 * completion queue, and owns the state of the session while it runs. A helper
 * (rdma-common/helper.h) does the I/O that may block on a disk or a pipe. Sessions need no lock:
 * the main thread reaches a running session only by notifications.
 *
 * The RDMA calls of the thread report errors in three ways:
 * - rdma_disconnect(3) and ibv_get_cq_event(3) return -1 and set errno.
 * - ibv_post_send(3), ibv_post_recv(3), ibv_modify_qp(3) and ibv_req_notify_cq(3) return an errno
 *   value. Some drivers return another number (verb_error()).
 * - ibv_poll_cq(3) returns a negative number and no reason.
 *
 * Only after a completion does the thread read memory that the adapter has written. The bytes of
 * the peer's WRITE are complete when a later message of the peer has arrived. ibv_poll_cq(3) orders
 * the adapter's writes before the thread's reads, on weakly ordered processors as well (rdma-core,
 * util/udma_barrier.h). ibv_post_send(3) orders the thread's writes before the adapter's reads.
 *
 * Threads: the connection's thread, or the main thread while that thread does not run, unless a
 * function names another.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include "rdma-common/session.h"

/*
 * Post a receive into each receive slot of the control region, which must be registered. Describe a
 * failure in `failure`. Main thread.
 */
enum status post_receives(const struct setup *setup, struct failure *failure);

/*
 * Run the session `argument` to its end, then notify the main thread by process_notify_exit().
 * Return NULL. Start routine of the connection's thread.
 */
void *session_run(void *argument);

/* Read the counters of the connection's port. Any thread. */
void read_counters(const struct setup *setup, struct counters *counters);

#endif
