/* SPDX-License-Identifier: MIT */
/*
 * The life of a connection as the main thread leads it: made, prepared, negotiated or rejected,
 * told what happens and joined; and the engine that all connections of a program share.
 *
 * Threads: the main thread. Unless it says otherwise, a function takes a connection whose thread
 * does not run.
 */
#ifndef RDMA_COMMON_CONNECTION_H
#define RDMA_COMMON_CONNECTION_H

#include "../rdma-common.h"

/* Initialises `engine`, which engine_end() then ends. `options` must outlive it. */
void engine_init(struct engine *engine, const struct options *options);

/* Loads the outgoing payload and opens the process's devices. On failure a message has been
 * printed. */
enum status engine_open(struct engine *engine);

/*
 * Gives helpers that a disk holds up a moment to end, waits for who reads the output, and frees
 * everything. No connection and no id may be left. Returns what main() does of a program with this
 * status; STATUS_INTERRUPTED ends it by the signal instead.
 */
int engine_end(struct engine *engine, enum status status);

/*
 * Waits as process_wait() does until `deadline`, and handles device events and the ends of helpers
 * itself: returns all other kinds of wakeups. With WAKEUP_ENDED the connection is stored whose
 * thread has ended; connection_join() is next.
 */
enum wakeup engine_wait(struct engine *engine, int64_t deadline, struct cm_event *event,
			struct connection **ended);

/*
 * Makes a connection to `peer` out of `id`, which it owns from now on, also on failure. `options`
 * are those of its session, which it copies. Its number is shown in front of its lines if there are
 * others. Returns NULL, with a message that is recorded, when there is no memory; a client's
 * request is rejected then.
 */
struct connection *connection_create(struct engine *engine, struct rdma_cm_id *id,
				     const struct options *options, const struct sockaddr *peer);

/*
 * Takes the connection down, in the one order in which that works, and frees it. The thread does
 * not run. Main thread.
 */
void connection_destroy(struct connection *connection);

/* Sets --tos, before the client resolves the address or the server accepts. */
enum status connection_set_tos(struct connection *connection);

/*
 * Once the device is known, and whether the client alone operates: allocates protection domain,
 * completion queue and queue pair, registers the memory of messages, and posts the receives, which
 * must be there before the peer can send (iWARP has no retry). On failure the cause is recorded,
 * and in connection->setup_refusal the reason for the peer; connection_destroy() cleans up.
 */
enum status connection_prepare(struct connection *connection, bool one_way);

/*
 * Once the peer's hello and limits are known, from the connect request or its acceptance: registers
 * a ring for each payload, starts what reads the outgoing one, and keeps to the smaller of both
 * sides' numbers of READs. Must come before messages flow: for a server before it accepts, for a
 * client when connected. On failure as connection_prepare().
 */
enum status connection_negotiate(struct connection *connection, const struct cm_event *event);

/* The parameters for rdma_connect(3) or rdma_accept(3); `wire` becomes the hello in them. */
struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE]);

/*
 * Start the connection's thread, once all is negotiated, or the session has failed and only closes.
 * The thread ends when the session is over. On failure the cause is recorded.
 */
enum status connection_start(struct connection *connection);

/* Rejects the client's request, and reports the reason on both sides. connection_join() is next. */
void connection_reject(struct connection *connection, enum refusal refusal);

/*
 * rdma_accept(3) failed with `error`: reject the client, and notify the connection's thread,
 * which runs.
 */
void connection_not_accepted(struct connection *connection, int error);

/* True if the session has failed or was interrupted: it only closes. */
bool connection_is_over(const struct connection *connection);

/* Tells the connection of an event that means the same to both programs. Its thread may run. */
void connection_cm_event(struct connection *connection, const struct cm_event *event);

/* Tells all connections something, as connection_notify() does. */
void engine_notify(struct engine *engine, enum notification notifications);

/* Starts the wait for the next event of the session anew. */
void connection_extend_deadline(struct connection *connection);

/*
 * The session is over, as engine_wait() has said, or it had no thread: completes what is reported
 * of it, and returns connection->status. It may be called again, and has to be where others ran on:
 * if the device went meanwhile, that is why the peer was lost. Then come report_session(), or what
 * --check makes of it, and connection_destroy().
 */
enum status connection_join(struct connection *connection);

#endif
