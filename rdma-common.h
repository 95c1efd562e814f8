/* SPDX-License-Identifier: MIT */
/*
 * The part that rdma-client and rdma-server share: the connection with everything that belongs to
 * it, and the thread that leads its session.
 *
 * The main thread owns the connection manager: it makes connections, tells them what happened, and
 * unmakes them (rdma-common/connection.h). Every connection has a thread of its own, which polls
 * its completion queue and owns everything of its session while it runs. Whatever may wait for a
 * disk or a pipe is left to a helper (rdma-common/helper.h), which knows no session. No session has
 * a lock: what the main thread tells a connection goes through connection_notify().
 *
 * Threads: the connection's thread, unless a function says otherwise.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include <infiniband/verbs.h>
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

/* In messages, when the connection manager reports that. */
#define DEVICE_REMOVED "the RDMA device was removed; look for it with 'rdma link'"

/*
 * The state of a program. The main thread's; the connections' threads read options and payload,
 * print, and look how many they are.
 */
struct engine {
	const struct options *options;
	struct process process;
	struct console console;
	struct log log;           /* for what concerns no session */
	atomic_bool output_taken; /* for output_open() */
	struct helper *checker;   /* of the place of --output; NULL: not needed yet */
	struct payload payload;
	struct region_account regions;
	unsigned int processors; /* that threads may spin on */
	unsigned int sessions;   /* connections so far */
	int stuck_helpers;       /* helpers that nobody waits for any more, in a call that has not
				    returned */
	TAILQ_HEAD(all_connections, connection) connections;
	atomic_uint connection_count;
};

/* ---- Connections ---- */

/* Measurements of this side's operation. Times as now_nanoseconds() counts. */
struct figures {
	int64_t started;         /* before the first posting; without an operation: when the peer
				    may begin its own; 0: never */
	int64_t completed;       /* at the last completion so far */
	int64_t pass_posted;     /* before the latest pass was posted; for `latency` alone */
	uint64_t bytes;          /* have completed by then */
	uint64_t request_bytes;  /* of the longest work request */
	struct latency *latency; /* NULL: not measured */
};

/* What the port had counted: at the beginning; when this side's MSG_VERDICT was sent; and when the
 * interval of --interval began that runs now. */
struct counting {
	struct counters before, after, interval;
};

/* What the main thread tells a connection's thread. Bits of a set. */
enum notification {
	NOTIFY_ESTABLISHED = 1 << 0,
	NOTIFY_NOT_ESTABLISHED = 1 << 1, /* connection->establishment says why */
	NOTIFY_NOT_ACCEPTED = 1 << 2,    /* connection->setup_error says why */
	NOTIFY_REJECTED = 1 << 3,
	NOTIFY_DISCONNECTED = 1 << 4,
	NOTIFY_DEVICE_REMOVED = 1 << 5,
	NOTIFY_DEVICE_EVENT = 1 << 6, /* connection->device_event is what */
	NOTIFY_INTERRUPTED = 1 << 7,
	NOTIFY_ABANDONED = 1 << 8, /* no more will be told */
};

/*
 * The rank of a cause. The state machine decides the status of a session (counts_as_reason()); the
 * cause is its reason in words. record_cause() lets a cause replace one of a lower rank; of two
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

/* Work requests of the operation that are posted at a time, with one doorbell. */
#define BATCH 32

/* A list, to post as many of them as wanted. */
struct batch {
	uint64_t local, remote; /* addresses of this side's region, and of the peer's */
	struct ibv_send_wr requests[BATCH];
	struct ibv_sge sges[BATCH];
};

struct connection {
	/* 1. The main thread's. While the connection's thread runs nobody changes this, but for the
	 * rings at the end (rdma-common/README.md), and that thread reads it: */
	struct engine *engine;
	const struct options *options; /* of its session: those that follow */
	struct options own_options;
	struct session_parameters parameters; /* of its session; all zero without --check */
	struct rdma_cm_id *id;
	unsigned int number; /* of the program's connections */
	struct endpoint peer;
	struct log log;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct region control; /* messages: receive slots, then send slots */
	struct region outgoing_ring;
	struct region incoming_ring; /* which the thread deregisters before it is verified */
	bool one_way;                /* the client alone operates */
	struct limits limits;
	struct agreement agreement;
	enum refusal setup_refusal; /* server: the reason to send if the session cannot be set up */
	int tos;                    /* type of service in use; -1: not known */
	struct payload payload;     /* what this side sends */
	struct counting *counting;  /* NULL: neither side wants it */
	pthread_t thread;
	/* And this the main thread alone reads and changes, at any time: */
	bool resolved; /* client: the address and the route are */
	bool rejected; /* client: by the server, which said this: */
	struct peer_hello rejection;
	enum status status;  /* how the session ended, once it is joined */
	bool running;        /* the thread was started, and is not joined */
	bool device_removed; /* the device went while the connection was there */
	bool withdrawn;      /* the call of connection->setup_error failed because the peer had */
	TAILQ_ENTRY(connection) link;

	/* 2. Between the two. What belongs to a bit is written before that is set, and once: */
	atomic_uint notifications; /* enum news, or-ed */
	int wake;                  /* eventfd(2): there are some */
	struct cm_failure {
		enum rdma_cm_event_type type;
		int status, library_error;
	} establishment;
	int setup_error; /* errno of a call that sets up the connection; 0: none failed */
	struct device_event device_event;

	/* 3. The thread's while it runs; before and afterwards the main thread's: */
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed: what the steps have asked for */
	bool stepped; /* a step of the state machine, or of a clock, since all was looked at */
	struct transfer transfer;
	struct figures figures;
	enum cause_rank cause_rank;
	char cause[CAUSE_SIZE]; /* why the session failed; empty: no reason so far */
	/* A post that was refused; it is the cause if nothing else explains the end. */
	struct refused_post {
		const char *verb; /* NULL: none was */
		int error;        /* an errno value */
	} refused_post;
	struct message peer_region;  /* the peer's MSG_MR */
	uint64_t peer_digest;        /* from the peer's MSG_DONE */
	struct message peer_verdict; /* the peer's MSG_VERDICT; what it claims is printed at most */
	int64_t verdict_time;        /* when that came, in nanoseconds; 0: it has not */
	struct outgoing outgoing;
	struct incoming incoming;

	/* Times in milliseconds, as now_milliseconds() counts. */
	int64_t now; /* of this turn; also in nanoseconds: */
	int64_t now_nanoseconds;
	int64_t due;            /* no clock is due before; in the past: look at each */
	int64_t window_time;    /* MSG_WINDOW is due then, as of this turn's end */
	int64_t deadline;       /* the wait for an event of the session ends then */
	int64_t wire_time;      /* of the latest completion that may begin it anew; 0: none */
	int64_t probe_time;     /* the peer's adapter is probed if nothing happens before */
	int64_t probe_interval; /* that led to it */
	int64_t source_time;    /* a timed outgoing stream ends then; INT64_MAX: none does */
	int64_t operation_time; /* the same of this side's operation */
	int64_t progress_time;  /* how far it is may be shown then */
	int64_t interval_time;  /* an interval of --interval ends then; INT64_MAX: none does */
	/* That interval: when it began, in nanoseconds, and how much had completed. */
	int64_t interval_begin;
	uint64_t interval_bytes;

	bool operation_failed;             /* a work request of the operation did, or was flushed */
	bool window_outstanding;           /* a MSG_WINDOW has not completed yet */
	bool armed;                        /* the completion queue will make an event */
	bool channel_lost;                 /* it makes none any more */
	unsigned int outstanding_messages; /* in the send queue, besides the operation */
	unsigned int outstanding_receives;
	unsigned int unacknowledged_events; /* completion events */
	unsigned int helpers_left;          /* that a call held up when the thread ended */
	unsigned int turns;                 /* without a wait, with --busy-poll */
	struct batch *batch;                /* NULL: nothing is posted yet, or ever */
};

/* Posts all receives, once the control region is registered. Before the thread is started. */
enum status post_receives(struct connection *connection, struct failure *failure);

/* ---- The session ---- */

/*
 * Run the session of `argument`, a connection, to its end: the routine of its thread. At the end
 * notify the main thread by process_notify_exit(). Return NULL.
 */
void *connection_run(void *argument);

/*
 * Handle all notifications of connection_notify(). The connection's thread; while that does not
 * run, the main thread.
 */
void handle_notifications(struct connection *connection);

/*
 * Feeds an event to the state machine; what that asks for is done in the thread's next turn. The
 * thread's, or while it does not run the main thread's.
 */
void connection_handle(struct connection *connection, enum event_type type, enum status status);

/*
 * Record the cause of the session's status, in words, unless one of the same or of a higher rank is
 * recorded. As connection_handle(), or once the thread has ended.
 */
void record_cause(struct connection *connection, enum cause_rank rank, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Record why the session fails, and end it. Return `status`. As connection_handle(). */
enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

/*
 * Reads what the port that the connection uses has counted; nothing without a device, or without
 * memory for it. It may ask the device's firmware: a session does it twice. Main thread.
 */
void connection_begin_counting(struct connection *connection);

/*
 * Reads them once more where they were read at the beginning, and there are any, unless that has
 * happened. As connection_handle().
 */
void connection_end_counting(struct connection *connection);

/* By how much each has grown meanwhile; not `any` where nothing was counted. As above. */
struct counters connection_growth(const struct connection *connection);

/* Work requests in the send queue that have not completed. As connection_handle(). */
uint64_t outstanding_sends(const struct connection *connection);

/*
 * Return true if all of this side's operation has completed, and it has sent all that it sends. As
 * connection_handle(), or once the thread has ended.
 */
bool operation_completed(const struct connection *connection);

/* The rate of this side's operation in bit/s; 0: nothing was measured. The thread does not run. */
double operation_rate(const struct connection *connection);

/*
 * Release the helper that reads the outgoing payload. Return false if it is stuck; it then keeps
 * the memory of the ring. As connection_handle().
 */
bool release_outgoing(struct connection *connection);

#endif
