/* SPDX-License-Identifier: MIT */
/*
 * The life of a connection: create, prepare, negotiate, start or reject, notify, join, destroy.
 *
 * Threads: the main thread. Unless a function says otherwise, the connection's thread must not run.
 */
#ifndef RDMA_COMMON_CONNECTION_H
#define RDMA_COMMON_CONNECTION_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "../rdma-common.h"

/*
 * A connection, from its creation to its end. The main thread alone reads and changes these fields.
 * While the connection's thread runs, it owns `session`, shares `shared`, and reads `setup`.
 */
struct connection {
	struct setup setup;
	struct shared shared;
	/*
	 * From connection_negotiate(). NULL before, without memory, and after connection_join() if
	 * the thread never ran.
	 */
	struct session *session;
	pthread_t thread;
	bool running; /* the thread was started and is not joined yet */
	bool ended;   /* the thread was joined: `session` has the result */

	/* Before the thread starts: */
	int64_t deadline; /* when the current wait expires, in milliseconds */
	bool resolved;    /* client: address and route are resolved */
	/* Client: status of a rejection, or the negative errno of rdma_connect(3). */
	int connect_status;
	bool rejected;               /* client: the server rejected the connection */
	struct peer_hello rejection; /* valid if `rejected` */
	int setup_error;             /* errno of the setup call that failed, or 0 */
	enum refusal setup_refusal; /* server: the reason that the client gets if the setup fails */

	/* Reasons of the end: */
	bool device_removed;    /* RDMA_CM_EVENT_DEVICE_REMOVAL was reported */
	bool withdrawn;         /* the setup call failed because the peer had withdrawn */
	struct counters after;  /* the port's counters at the end, after connection_join() */
	struct failure outcome; /* how the session ended, after connection_join() */
	struct connection *previous, *next; /* in program->connections */
};

/*
 * Create a connection to `peer`, with a copy of the session's `options`. Take ownership of `id`,
 * even on failure. If memory runs out, print and record a message, reject a client's request, and
 * return NULL.
 *
 * If there are other connections, or --connections is above 1, the output lines of the new
 * connection start with its number.
 */
struct connection *connection_create(struct program *program, struct rdma_cm_id *id,
				     const struct options *options, const struct sockaddr *peer);

/*
 * Destroy the connection's resources, in the one order that works. Print a warning for each
 * resource that remains. Free the connection, unless its completion queue remains. A connection
 * with a session must be joined first.
 */
void connection_destroy(struct connection *connection);

/*
 * Apply --tos. Call this before the client resolves the address, or the server accepts. On failure
 * record the cause.
 */
enum status connection_set_tos(struct connection *connection);

/*
 * Create the protection domain, the completion queue and the queue pair. Register the memory of
 * messages. Post the receives: they must precede the peer's first SEND, because iWARP has no retry.
 * The id must have a device. With `one_way` only the client operates.
 *
 * On failure record the cause, and the reason for the peer in connection->setup_refusal.
 * connection_destroy() cleans up.
 */
enum status connection_prepare(struct connection *connection, bool one_way);

/*
 * Negotiate with the peer's hello and limits, from the connect request or its acceptance:
 * - create the session
 * - register a ring for each payload, and start the helper that reads
 * - limit READs to the number that both sides support
 *
 * Call this before any message is sent: in a server before it accepts, in a client when it is
 * connected. Failures are recorded as in connection_prepare().
 */
enum status connection_negotiate(struct connection *connection, const struct peer_hello *peer,
				 const struct cm_event *event);

/*
 * Return the parameters for rdma_connect(3) or rdma_accept(3). Encode the hello into `wire`, to
 * which the parameters refer.
 */
struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE]);

/*
 * Start the connection's thread, which runs the session to its end. If the connection has failed,
 * the thread only closes it. Without a session no thread starts. On failure record the cause.
 */
enum status connection_start(struct connection *connection);

/*
 * Reject the client's request with this reason. Record the reason as the cause, unless the
 * connection has failed before. Call connection_join() next.
 */
void connection_reject(struct connection *connection, enum refusal refusal);

/*
 * Reject the client because rdma_accept(3) failed with `error`, and stop the session. The
 * connection's thread may run.
 */
void connection_fail_accept(struct connection *connection, int error);

/*
 * Record why the connection failed, unless it is over. Return `status`. A thread that is started
 * later closes the connection for this reason.
 */
enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

/* Fail the connection because its deadline has passed. */
void connection_expire(struct connection *connection);

/* Return true if a failure is recorded, or the connection's thread was joined. */
bool connection_is_over(const struct connection *connection);

/* Handle an event that means the same in both programs. The connection's thread may run. */
void connection_cm_event(struct connection *connection, const struct cm_event *event);

/*
 * Stop all connections, because the event channel has failed or the program was interrupted. Their
 * threads may run.
 */
void connection_stop_all(struct program *program);

/*
 * Wait as program_wait() does, but handle device events, and return WAKEUP_OTHER for them. After
 * WAKEUP_ENDED call connection_join() next.
 */
enum wakeup connection_wait(struct program *program, int64_t deadline, struct cm_event *event,
			    struct connection **ended);

/* Set the connection's deadline to --timeout from now. */
void connection_extend_deadline(struct connection *connection);

/*
 * Join the thread of a session that connection_wait() has reported as ended, or complete a
 * connection that never had a thread, and free its session. Return connection->outcome.status.
 *
 * A caller that reports several sessions at the end may call this again, because a device that was
 * removed meanwhile explains a lost peer. Call report_session() or probe_take() next, then
 * connection_destroy().
 */
enum status connection_join(struct connection *connection);

/* Return the session, or a zeroed one if there is none. Call this after connection_join(). */
const struct session *connection_session(const struct connection *connection);

/*
 * Return the growth of each counter during the session. Call this after connection_join(). `any` is
 * false if nothing was counted.
 */
struct counters connection_growth(const struct connection *connection);

#endif
