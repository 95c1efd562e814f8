/* SPDX-License-Identifier: MIT */
/*
 * The life of a connection as the main thread leads it: made, prepared, negotiated or rejected,
 * serviced, reported and finished; and the engine that all connections of a program share.
 *
 * All of it is the main thread's, without the lock of the sessions.
 */
#ifndef RDMA_COMMON_CONNECTION_H
#define RDMA_COMMON_CONNECTION_H

#include "../rdma-common.h"

/* Initialises `engine`, which may then be closed. `options` must outlive it. */
void engine_init(struct engine *engine, const struct options *options);

/*
 * Loads the outgoing payload, opens the process's devices and starts the completion thread. On
 * failure a message has been printed.
 */
enum status engine_open(struct engine *engine);

/*
 * Loads the outgoing payload anew, as the options say by now. No connection may be left. On failure
 * a message has been printed.
 */
enum status engine_reload(struct engine *engine);

/* Stops the completion thread and frees everything. No connection and no id may be left. */
void engine_close(struct engine *engine);

/*
 * Waits as process_wait() does, until `deadline` or until the first connection is due before, and
 * handles device events itself: returns all other kinds of wakeups.
 */
enum wakeup engine_wait(struct engine *engine, int64_t deadline, struct cm_event *event);

/* A connection that connection_service() has to be called for now; NULL if there is none. */
struct connection *engine_next_connection(struct engine *engine);

/* With --json: prints the object of a program that had no session. */
void engine_report_json(struct engine *engine, enum status status);

/*
 * Makes a connection to `peer` out of `id`, which it owns from now on, also on failure. `number` is
 * shown in front of its lines unless it is 0. Returns NULL, with a message that is recorded, when
 * there is no memory; a client's request is rejected then.
 */
struct connection *connection_create(struct engine *engine, struct rdma_cm_id *id,
				     const struct sockaddr *peer, unsigned int number);

/* Sets --tos, before the client resolves the address or the server accepts. */
enum status connection_set_tos(struct connection *connection);

/*
 * Once the device is known, and whether the client alone operates: allocates protection domain,
 * completion queue and queue pair, registers the memory of messages, and posts the receives, which
 * must be there before the peer can send (iWARP has no retry). On failure the cause is recorded,
 * and in connection->lacking what was not to be had; connection_finish() cleans up.
 */
enum status connection_prepare(struct connection *connection, bool one_way);

/*
 * For a client, while the server registers what it needs before it answers the connect request:
 * registers the ring of a payload that is not whole in memory, which no answer changes. If that
 * fails connection_negotiate() tries again, and reports: a client that leaves before it is answered
 * can close a listener of soft-iWARP.
 */
void connection_register_ahead(struct connection *connection);

/*
 * Once the peer's hello and limits are known, from the connect request or its acceptance: registers
 * both payloads or their rings, starts the source, and keeps to the smaller of both sides' numbers
 * of READs. Must come before messages flow: for a server before it accepts, for a client when
 * connected. On failure as connection_prepare().
 */
enum status connection_negotiate(struct connection *connection, const struct cm_event *event);

/* The parameters for rdma_connect(3) or rdma_accept(3); `wire` becomes the hello in them. */
struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE]);

/*
 * Rejects the client's request, with the reason in words on both sides, which with
 * REFUSAL_RESOURCES is connection->lacking; how the session ends.
 */
enum status connection_reject(struct connection *connection, enum refusal refusal);

/* True once it is established, also when it is over. Main thread, without the lock. */
bool connection_stands(struct connection *connection);

/* True if the session has failed or was interrupted: it only closes. Main thread, without the lock.
 */
bool connection_is_over(struct connection *connection);

/* Handles the connection manager events that mean the same to both programs. */
void connection_cm_event(struct connection *connection, const struct cm_event *event);

/*
 * Does what is left to the main thread: disconnects, enforces the deadline. True when the session
 * is over and the connection may be finished; then `*status` says how it ended.
 */
bool connection_service(struct connection *connection, enum status *status);

/* Starts the wait for the next event of the session anew. */
void connection_extend_deadline(struct connection *connection);

/*
 * Reports how the session ended, to engine->check or to the user, also with --json if it is an
 * `outcome` (another address of the peer may yet be tried), and frees the connection, its id and
 * all that belongs to it.
 */
void connection_finish(struct connection *connection, enum status status, bool outcome);

#endif
