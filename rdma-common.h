/* SPDX-License-Identifier: MIT */
/*
 * The module that rdma-client and rdma-server share: the thread that runs a session.
 *
 * The main thread owns the connection manager: it creates connections, notifies them of events, and
 * destroys them (rdma-common/connection.h). Each session has a thread, which polls its completion
 * queue and owns all state of the session while it runs. A helper (rdma-common/helper.h) does the
 * I/O that may block on a disk or a pipe. Sessions need no lock: the main thread reaches a running
 * session only by connection_notify().
 *
 * Threads: the connection's thread, or the main thread while that thread does not run, unless a
 * function names another.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include "rdma-common/session.h"

/*
 * Post a receive into each receive slot of the control region, which must be registered. Main
 * thread.
 */
enum status post_receives(struct setup *setup, struct failure *failure);

/*
 * Run the session `argument` to its end, then notify the main thread by process_notify_exit().
 * Return NULL. Start routine of the connection's thread.
 */
void *session_run(void *argument);

/* Read the counters of the connection's port. Any thread. */
void read_counters(const struct setup *setup, struct counters *counters);

#endif
