/* SPDX-License-Identifier: MIT */
/*
 * The module that rdma-client and rdma-server share: a connection with all its state, and the
 * thread that runs its session.
 *
 * The main thread owns the connection manager: it creates connections, notifies them of events, and
 * destroys them (rdma-common/connection.h). Each connection has a thread, which polls its
 * completion queue and owns all state of its session while it runs. A helper (rdma-common/helper.h)
 * does the I/O that may block on a disk or a pipe; it knows no session. Sessions have no lock: the
 * main thread notifies a connection by connection_notify() alone.
 *
 * Threads: the connection's thread, unless a function says otherwise.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "rdma-common/clock.h"
#include "rdma-common/counters.h"
#include "rdma-common/helper.h"
#include "rdma-common/incoming.h"
#include "rdma-common/json.h"
#include "rdma-common/latency.h"
#include "rdma-common/log.h"
#include "rdma-common/negotiate.h"
#include "rdma-common/options.h"
#include "rdma-common/outgoing.h"
#include "rdma-common/payload.h"
#include "rdma-common/process.h"
#include "rdma-common/protocol.h"
#include "rdma-common/region.h"
#include "rdma-common/status.h"
#include "rdma-common/transfer.h"
#include "rdma-common/wire.h"

/* ---- The engine ---- */

/* The message after the connection manager reports that. */
#define DEVICE_REMOVED "the RDMA device was removed; look for it with 'rdma link'"

/*
 * The state of a program, owned by the main thread. The threads of connections read options and
 * payload, print, and read the number of connections.
 */
struct engine {
	const struct options *options;
	struct process process;
	struct console console;
	struct log log;           /* for lines that belong to no session */
	atomic_bool output_taken; /* for output_open() */
	struct helper *checker;   /* checks the place of --output; NULL: not started yet */
	struct payload payload;
	struct region_account regions;
	unsigned int processors; /* number on which threads may spin */
	unsigned int sessions;   /* number of connections so far */
	int stuck_helpers;       /* abandoned helpers whose call has not returned */
	TAILQ_HEAD(all_connections, connection) connections;
	atomic_uint connection_count;
};

/* ---- Connections ---- */

/* Measurements of this side's operation. Times are those of now_nanoseconds(). */
struct figures {
	int64_t started; /* before the first posting; without an operation, when the peer may begin
			    its own; 0: not yet */
	int64_t completed;       /* at the latest completion */
	int64_t pass_posted;     /* before the latest pass was posted; only for `latency` */
	uint64_t bytes;          /* completed by then */
	uint64_t passes_bytes;   /* the bytes of complete passes among them */
	uint64_t request_bytes;  /* of the largest work request */
	struct latency *latency; /* NULL: not measured */
};

/*
 * The counters of the port: at the beginning, when this side's MSG_VERDICT was sent, and at the
 * beginning of the current interval of --interval.
 */
struct counting {
	struct counters before, after, interval;
};

/* Notifications from the main thread to a connection's thread. Bits of a set. */
enum notification {
	NOTIFY_ESTABLISHED = 1 << 0,
	NOTIFY_NOT_ESTABLISHED = 1 << 1, /* reason in connection->establishment */
	NOTIFY_NOT_ACCEPTED = 1 << 2,    /* reason in connection->setup_error */
	NOTIFY_REJECTED = 1 << 3,
	NOTIFY_DISCONNECTED = 1 << 4,
	NOTIFY_DEVICE_REMOVED = 1 << 5,
	NOTIFY_DEVICE_EVENT = 1 << 6, /* event in connection->device_event */
	NOTIFY_INTERRUPTED = 1 << 7,
	NOTIFY_ABANDONED = 1 << 8, /* the main thread ends and sends nothing more */
};

/*
 * The rank of a cause. The state machine decides the status of a session (counts_as_reason()); the
 * cause is the text of its reason. record_cause() lets a cause replace one of a lower rank; of two
 * with the same rank the first one stays.
 */
enum cause_rank {
	CAUSE_NONE,
	CAUSE_STATUS,       /* the text of the status: no reason is known */
	CAUSE_REFUSED_POST, /* a refused post, which nothing else explains */
	CAUSE_FAILURE,      /* the first failure */
	CAUSE_BEFORE_LOSS,  /* a failure that preceded the loss of the peer, and is seen after it */
	CAUSE_VERIFICATION, /* the result of this side's verification, whatever the peer says */
	CAUSE_WITHDRAWN,    /* the peer withdrew, so that a call of the setup failed */
	CAUSE_RATE,         /* --min-rate was not reached */
	CAUSE_DEVICE_REMOVED, /* the local device went, so that the peer was lost */
};

/* Work requests of the operation that are posted with one doorbell. */
#define BATCH 32

/* A list of work requests; any number of them, from the first on, can be posted. */
struct batch {
	uint64_t local, remote; /* addresses of this side's region and of the peer's */
	struct ibv_send_wr requests[BATCH];
	struct ibv_sge sges[BATCH];
};

struct connection {
	/*
	 * 1. Set by the main thread. While the connection's thread runs, no thread changes
	 * these fields, except for the rings at the end (rdma-common/README.md); that thread may
	 * read them:
	 */
	struct engine *engine;
	const struct options *options; /* those of this session */
	struct options own_options;
	struct session_parameters parameters; /* those of this session; all zero without --check */
	struct rdma_cm_id *id;
	unsigned int number; /* number among the program's connections */
	struct endpoint peer;
	struct log log;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct region control; /* messages: receive slots, then send slots */
	struct region outgoing_ring;
	struct region incoming_ring; /* the thread deregisters it before verification */
	bool one_way;                /* only the client operates */
	struct limits limits;
	struct agreement agreement;
	enum refusal setup_refusal; /* server: the reason to send if the setup fails */
	int tos;                    /* type of service in use; -1: unknown */
	struct payload payload;     /* the outgoing payload */
	struct counting *counting;  /* NULL: neither side reports counters */
	pthread_t thread;
	/* The main thread alone reads and changes these fields, at any time: */
	bool resolved; /* client: address and route are resolved */
	int answer;    /* client: status of a rejection, or negative errno of rdma_connect(3) */
	bool rejected; /* client: the server rejected the connection, with this reason: */
	struct peer_hello rejection;
	enum status status;  /* result of the session, after connection_join() */
	bool running;        /* the thread was started and is not joined */
	bool device_removed; /* the device was removed while the connection stood */
	bool withdrawn;      /* the peer withdrew, so that the call of setup_error failed */
	TAILQ_ENTRY(connection) link;

	/*
	 * 2. Between both threads. The data of a bit is written once, before the bit is set; the
	 * atomic operations on `notifications` are sequentially consistent, so the thread that
	 * reads the bit also reads the data:
	 */
	atomic_uint notifications; /* enum notification, or-ed */
	int wake;                  /* eventfd(2): notifications are waiting */
	struct cm_failure {
		enum rdma_cm_event_type type;
		int status, library_error;
	} establishment;
	int setup_error; /* errno of a failed call of the setup; 0: none failed */
	struct device_event device_event;

	/*
	 * 3. Owned by the connection's thread while it runs; before and afterwards by the main
	 * thread:
	 */
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed: requested by steps of the state machine */
	bool stepped; /* a step of the state machine or a clock has not been followed up yet */
	bool rings_settled; /* are_rings_settled(), until the next step */
	struct transfer transfer;
	struct figures figures;
	enum cause_rank cause_rank;
	char cause[CAUSE_SIZE]; /* why the session failed; empty: no reason so far */
	/* A refused post; it is the cause if nothing else explains the end. */
	struct refused_post {
		const char *verb; /* NULL: no post was refused */
		int error;        /* an errno value */
	} refused_post;
	struct message peer_region;  /* the peer's MSG_MR */
	uint64_t peer_digest;        /* from the peer's MSG_DONE */
	struct message peer_verdict; /* the peer's MSG_VERDICT; its claims are only printed */
	int64_t verdict_time;        /* when that arrived, in nanoseconds; 0: not yet */
	struct outgoing outgoing;
	struct incoming incoming;

	/* Times in milliseconds, those of now_milliseconds(). */
	int64_t now; /* time of this turn; in nanoseconds: */
	int64_t now_nanoseconds;
	int64_t due;         /* no clock is due earlier; INT64_MIN: look at each clock */
	int64_t window_time; /* when MSG_WINDOW is due, as of the end of the latest turn */
	int64_t deadline;    /* when the wait for the next event of the session ends */
	int64_t wire_time;   /* of the latest completion that may extend the deadline; 0: none */
	int64_t probe_time; /* when the peer's adapter is probed, unless something happens before */
	int64_t probe_interval; /* interval that led to probe_time */
	int64_t source_time;    /* when a timed outgoing stream ends; INT64_MAX: never */
	int64_t operation_time; /* when this side's timed operation ends; INT64_MAX: never */
	int64_t progress_time;  /* when progress may be shown next */
	int64_t interval_time;  /* when the interval of --interval ends; INT64_MAX: there is none */
	/* Beginning of that interval in nanoseconds, and bytes completed before it. */
	int64_t interval_begin;
	uint64_t interval_bytes;

	bool operation_failed;   /* a work request of the operation failed or was flushed */
	bool window_outstanding; /* a MSG_WINDOW is posted and has not completed */
	bool armed;              /* the completion queue will generate an event */
	bool channel_lost;       /* the completion channel is unusable */
	unsigned int outstanding_messages; /* in the send queue, besides the operation */
	unsigned int outstanding_receives;
	unsigned int unacknowledged_events; /* completion events */
	unsigned int helpers_left;          /* stuck helpers when the thread ended */
	unsigned int turns;                 /* turns without a wait, with --busy-poll */
	struct pollfd ready[4];             /* completion events, the eventfd, then busy helpers */
	struct batch *batch;                /* NULL: the operation has not begun */
};

/*
 * Post all receives, once the control region is registered. Main thread, before the connection's
 * thread starts.
 */
enum status post_receives(struct connection *connection, struct failure *failure);

/* ---- The session ---- */

/*
 * Run the session of a connection (`argument`) to its end; the routine of its thread. Then notify
 * the main thread by process_notify_exit(). Return NULL.
 */
void *connection_run(void *argument);

/* Handle all notifications. The connection's thread; while that does not run, the main thread. */
void handle_notifications(struct connection *connection);

/*
 * End the session, or its closing, because the wait for --timeout is over, and record that cause.
 * As connection_fail().
 */
void connection_expire(struct connection *connection);

/*
 * Record the cause of the session's status, unless one of the same or of a higher rank is recorded.
 * As connection_fail(), or once the thread has ended.
 */
void record_cause(struct connection *connection, enum cause_rank rank, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Record why the session fails, and end it. Return `status`. The connection's thread; while that
 * does not run, the main thread. */
enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

/*
 * Read the counters of the connection's port; do nothing without a device, or without memory. This
 * may ask the device's firmware, so a session does it only twice. Main thread.
 */
void connection_begin_counting(struct connection *connection);

/*
 * Read the counters again, unless that has happened or none were read at the beginning. As
 * connection_handle().
 */
void connection_end_counting(struct connection *connection);

/* Return the growth of each counter; not `any` if nothing was counted. As connection_fail(). */
struct counters connection_growth(const struct connection *connection);

/* Return the number of outstanding work requests in the send queue. As connection_fail(). */
uint64_t outstanding_sends(const struct connection *connection);

/*
 * Return true if all of this side's operation has completed and all of its payload is sent. As
 * connection_handle(), or once the thread has ended.
 */
bool operation_completed(const struct connection *connection);

/* Return the rate of this side's operation in bit/s; 0: not measured. Once the thread has ended. */
double operation_rate(const struct connection *connection);

/*
 * Release the helper that reads the outgoing payload. Return false if it is stuck; it then keeps
 * the memory of the ring. As connection_fail().
 */
bool release_outgoing(struct connection *connection);

#endif
