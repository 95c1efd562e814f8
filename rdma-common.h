/* SPDX-License-Identifier: MIT */
/*
 * The part that rdma-client and rdma-server share: the state machine of a session, the connection
 * with everything that belongs to it, and the engine that drives all connections of a program.
 *
 * Two threads. The main thread creates and destroys everything and handles connection manager
 * events, device events, signals and deadlines. The completion thread takes completions, posts what
 * the state machine asks for, and wakes the main thread when there is something for it to do. Both
 * touch `struct session`, and nothing else of a connection that changes; whoever does holds the
 * lock of the sessions. clang -Wthread-safety proves that. What takes time in proportion to a
 * payload, or waits for a disk or a pipe, is done by workers, threads that come to the session
 * through the calls in rdma-common/streams.c.
 * Whatever any of them prints is written by the console's thread.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include <infiniband/verbs.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rdma-common/connect.h"
#include "rdma-common/counters.h"
#include "rdma-common/lock.h"
#include "rdma-common/options.h"
#include "rdma-common/payload.h"
#include "rdma-common/process.h"
#include "rdma-common/protocol.h"
#include "rdma-common/queue.h"
#include "rdma-common/report.h"
#include "rdma-common/sink.h"
#include "rdma-common/source.h"
#include "rdma-common/status.h"
#include "rdma-common/timers.h"
#include "rdma-common/transfer.h"
#include "rdma-common/wire.h"

/* ---- The engine ---- */

struct check; /* rdma-common/check.h */

/* The state of a program. The main thread's, but for what the completion thread only reads. */
struct engine {
	const struct options *options;
	struct process process;
	struct console console;
	struct log log;      /* for what concerns no session */
	struct check *check; /* what reports of sessions go to; NULL: they are printed */
	struct payload payload;
	/* Bytes that regions may have in all, and those they have, in whole pages. A region counts
	 * until its connection ends: what is deregistered before is being verified, and not freed
	 * yet. */
	uint64_t budget, registered;
	bool completion_thread_runs;
	pthread_t completion_thread;
	struct lock lock; /* of every session, and of the payload's digest */
	TAILQ_HEAD(all_connections, connection) connections;
	unsigned int connection_count;
	/* Connections that the main thread services: those with something to do for it, and all in
	 * time. An event costs the same, however many connections it does not concern. */
	struct queue work GUARDED;
	struct timers timers;
	/* Connections that the completion thread polls without waiting: those that may have
	 * completions, in turn; with --busy-poll all whose sessions have begun */
	struct queue polled GUARDED;
};

/* The completion thread, until process_stop_channels(): `argument` is the engine. */
void *run_completion_thread(void *argument);

/* ---- Connections ---- */

/* Memory that is registered with the adapter. */
struct region {
	uint8_t *memory;
	size_t size; /* bytes */
	struct ibv_mr *mr;
	bool owned; /* the memory is freed with the region; the payload's and a worker's is not */
	uint64_t counted; /* bytes in engine->registered, until the end of the connection */
};

/* Measurements of this side's operation. Times as now_nanoseconds() counts. */
struct figures {
	int64_t started;                  /* before the first posting; 0: never */
	int64_t completed;                /* at the last completion so far */
	uint64_t bytes;                   /* have completed by then */
	uint64_t request_bytes;           /* of the longest work request */
	int64_t verification_nanoseconds; /* time that it took to verify the incoming payload */
	struct latency *latency;          /* NULL: not measured */
};

/* Work requests of the operation that are posted at a time, with one doorbell. */
#define BATCH 32

/* The part of a connection that both threads touch. */
struct session {
	struct protocol protocol;
	struct transfer transfer;
	struct figures figures;
	struct event next_event; /* what an action led to, if event_waits */
	bool event_waits;
	unsigned int pending_actions; /* what the main thread has to do: enum action, or-ed */
	struct place work;            /* in the engine's queue */
	char cause[CAUSE_SIZE];       /* the first failure in words; empty: none */

	struct message peer_region; /* the peer's MSG_MR */
	uint64_t peer_digest;       /* from the peer's MSG_DONE */
	struct source *source;      /* fills the ring of the outgoing stream; NULL: it is filled */
	struct sink *sink;          /* verifies and keeps the incoming stream; NULL: not begun */
	uint64_t outgoing_digest;   /* of what the source has filled */
	uint64_t verified_bytes;    /* of the incoming stream */

	/* Times as now_milliseconds() counts. */
	int64_t deadline;       /* the session fails if nothing happens before */
	int64_t probe_time;     /* the peer's adapter is probed if nothing happens before */
	int64_t probe_interval; /* that led to it */
	int64_t source_time;    /* a timed outgoing stream ends then; INT64_MAX: none does */
	int64_t operation_time; /* the same of this side's operation */
	int64_t serviced_by;    /* the main thread does so then without being woken */

	bool done_posted;                  /* MSG_DONE */
	bool operation_failed;             /* a work request of the operation did, or was flushed */
	bool window_outstanding;           /* a MSG_WINDOW has not completed yet */
	unsigned int outstanding_messages; /* in the send queue, besides the operation */
	unsigned int outstanding_receives;
	struct ibv_send_wr batch[BATCH]; /* a list, to post as many of them as wanted */
	struct ibv_sge batch_sges[BATCH];

	bool retired; /* being destroyed: the completion queue must not be polled any more */
	unsigned int unacknowledged_events; /* completion events */
	struct place polling;               /* in the engine's queue */
};

/*
 * A connection and all that belongs to it. Created, destroyed and serviced by the main thread,
 * which alone writes what stands before the session, and does so before the completion thread can
 * get a completion of this connection.
 */
struct connection {
	struct engine *engine;
	struct rdma_cm_id *id;
	char peer[NI_MAXHOST + NI_MAXSERV + 8]; /* "ADDRESS port PORT", for messages */
	struct log log;
	struct device *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct region control;                /* messages: receive slots, then send slots */
	struct region outgoing;               /* the payload that this side sends, or its ring */
	struct region incoming;               /* the ring of the payload that the peer sends */
	const struct region *transfer_region; /* this side's operation's; NULL: it has none */
	bool one_way;                         /* the client alone operates */
	struct limits limits;
	struct agreement agreement;
	enum resource lacking;    /* server: what it is out of, if it refuses for that */
	struct counters counters; /* of the port, when the session began, if wanted */
	int tos;                  /* type of service in use; -1: not known */
	struct payload *payload;  /* what this side sends: the engine's, or the pattern: */
	struct payload pattern;   /* for a client that examines the path */
	bool device_removed;      /* the device went while the connection was there */
	struct timer timer;       /* of connection_service() */
	TAILQ_ENTRY(connection) link;

	struct session session GUARDED;
};

/* ---- Memory registration, in the main thread, each with only the access that is needed ---- */

/* Bytes of the engine's budget that no session has. */
uint64_t budget_left(const struct engine *engine);

/*
 * Registers memory that stands in the region: ibv_reg_mr(3) with `access`. 0, or an errno value.
 * The connection deregisters it when it is destroyed.
 */
int region_register(struct connection *connection, struct region *region, unsigned int access);

/* Maps `size` bytes of zeros, which the connection owns, and registers them, if the budget has
 * them. */
enum status region_create(struct connection *connection, struct region *region, size_t size,
			  unsigned int access, struct failure *failure);

/* Once the protection domain is there: the control region for messages. */
enum status register_control(struct connection *connection, struct failure *failure);

/*
 * Deregisters the incoming payload, so that the peer can change nothing of what is verified. Main
 * thread, lock not held.
 */
enum status withdraw_incoming(struct connection *connection, struct failure *failure);

/* Posts all receives, once the control region is registered. Main thread, lock not held. */
enum status post_receives(struct connection *connection, struct failure *failure);

/* Feeds one event to the session and does what follows. Lock not held. */
void connection_handle(struct connection *connection, enum event_type type);

/* Records why the session fails, in words, and ends it; returns `status`. Lock not held. */
enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

/* The same for who holds the lock. */
void session_fail(struct connection *connection, enum status status, const char *format,
		  ...) NEEDS_LOCK __attribute__((format(printf, 3, 4)));

/* Has the main thread service the connection soon. */
void session_request_service(struct connection *connection) NEEDS_LOCK;

/* When the main thread has to service the connection if nothing happens, in milliseconds. */
int64_t session_due(const struct session *session) NEEDS_LOCK;

/* Starts the wait for the next event of the session anew, at `now`, in milliseconds. */
void session_set_deadline(struct connection *connection, int64_t now) NEEDS_LOCK;

/*
 * Goes on as far as it may: posts what the rings, the peer and the wire allow of the operation, and
 * MSG_WINDOW and MSG_DONE if they are due, and wakes the workers. After all that changes that.
 */
void session_advance(struct connection *connection) NEEDS_LOCK;

/* The payload of a direction cannot be had, or be kept: tells the peer, and ends the session. */
void session_give_up(struct connection *connection, const struct failure *failure) NEEDS_LOCK;

/* The incoming payload is verified and stored, or that has failed. */
void session_checked(struct connection *connection, const struct verdict *verdict) NEEDS_LOCK;

/* Does what is due by now: the deadline, a probe of the peer's adapter. Main thread. */
void session_check_clocks(struct connection *connection) NEEDS_LOCK;

/* Work requests in the send queue that have not completed. */
uint64_t outstanding_sends(const struct session *session) NEEDS_LOCK;

/*
 * Takes the connection down, in the one order in which that works, and frees it. False if an
 * adapter may still use the memory of the rings, which then has to stay. Main thread.
 */
bool connection_destroy(struct connection *connection);

#endif
