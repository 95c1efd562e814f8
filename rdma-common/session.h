/* SPDX-License-Identifier: MIT */
/*
 * The state of a session: its parts, the events that change it, the texts of these events, and its
 * deadlines.
 *
 * Threads: the connection's thread, or the main thread while that thread does not run, unless a
 * function names another.
 */
#ifndef RDMA_COMMON_SESSION_H
#define RDMA_COMMON_SESSION_H

#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "incoming.h"
#include "log.h"
#include "measurement.h"
#include "negotiate.h"
#include "options.h"
#include "outgoing.h"
#include "payload.h"
#include "process.h"
#include "program.h"
#include "protocol.h"
#include "region.h"
#include "request.h"
#include "status.h"
#include "transfer.h"
#include "wire.h"

/*
 * Time after which an idle peer's adapter gets a keepalive. It doubles with each keepalive, up to
 * --timeout divided by KEEPALIVES_PER_TIMEOUT.
 */
#define KEEPALIVE_MILLISECONDS 250
#define KEEPALIVES_PER_TIMEOUT 4

/* Failure message for RDMA_CM_EVENT_DEVICE_REMOVAL. */
#define DEVICE_REMOVED "the RDMA device was removed; look for it with 'rdma link'"

/* Notifications from the main thread to a connection's thread. Bits of a set. */
enum notification {
	NOTIFY_ESTABLISHED = 1 << 0,
	NOTIFY_NOT_ESTABLISHED = 1 << 1, /* reason in shared->establishment */
	NOTIFY_NOT_ACCEPTED = 1 << 2,    /* reason in shared->setup_error */
	NOTIFY_REJECTED = 1 << 3,
	NOTIFY_DISCONNECTED = 1 << 4,
	NOTIFY_DEVICE_REMOVED = 1 << 5,
	NOTIFY_DEVICE_EVENT = 1 << 6, /* event in shared->device_event */
	NOTIFY_BROKEN = 1 << 7,       /* over iWARP the device reports a broken connection */
	NOTIFY_INTERRUPTED = 1 << 8,
	NOTIFY_ABANDONED = 1 << 9, /* no more events arrive: shared->channel_error */
};

/*
 * Number of texts that a session keeps: the state machine refers to at most four (needs_cause()),
 * and the next event may bring another one.
 */
#define CAUSES 5

/*
 * The setup of a connection. The main thread fills it in before the connection's thread starts;
 * that thread has a pointer to const. No thread changes it while the session runs.
 */
struct setup {
	struct program *program;
	struct options options; /* options of this session */
	struct rdma_cm_id *id;  /* its context is the struct connection */
	unsigned int number;    /* number of this connection in the program, from 1 */
	struct endpoint peer;
	struct log log;
	struct region_owner owner; /* also has the protection domain */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct region control; /* memory of messages: receive slots, then send slots */
	unsigned int receives; /* number of receives posted into the control region */
	struct region outgoing_ring;
	struct region incoming_ring;
	struct terms terms;
	struct device_name device; /* at the start of the session */
	int tos;                   /* type of service in use. -1 if unknown. */
	struct payload payload;    /* the outgoing payload */
	struct counters before;    /* counters of the port at the start, if they are needed */
	struct failure failure;    /* why the connection failed before its thread started */
};

/*
 * Data that the main thread passes to a connection's thread while it runs. The main thread writes
 * the data of a notification once, before it sets the notification's bit. The atomic operations on
 * `notifications` are sequentially consistent, so a thread that sees the bit also sees the data.
 */
struct shared {
	atomic_uint notifications; /* enum notification, or-ed */
	int wake;                  /* eventfd(2): notifications are waiting */
	struct cm_failure establishment;
	int setup_error;   /* errno of a failed setup call, or 0 */
	int channel_error; /* errno of the failed event channel */
	struct device_event device_event;
};

/*
 * The clocks of a session. Times are in milliseconds (now_milliseconds()), unless a comment says
 * nanoseconds.
 */
struct clocks {
	int64_t now;             /* time of this turn */
	int64_t now_nanoseconds; /* the same time in nanoseconds */
	int64_t window_time; /* when MSG_WINDOW is due, as computed at the end of the latest turn */
	/*
	 * Until this time a turn without a step only continues the operation: neither ring moves,
	 * and no clock is due. After each change it is INT64_MIN, so that the next turn looks at
	 * everything.
	 */
	int64_t quiet_until;
	int64_t deadline;  /* when the session's current wait expires */
	int64_t wire_time; /* time of the latest completion that may extend the deadline, or 0 */
	int64_t keepalive_time;     /* when to send a keepalive, unless the wait restarts before */
	int64_t keepalive_interval; /* current interval between keepalives */
	int64_t source_end;         /* when a timed outgoing stream ends, or INT64_MAX */
	int64_t operation_end;      /* when this side's timed operation ends, or INT64_MAX */
	int64_t next_progress;      /* when progress may be shown next */
};

/*
 * The state of a session, owned by its thread. The main thread touches it only before it starts the
 * thread and after it has joined it.
 */
struct session {
	const struct setup *setup;
	struct shared *shared;
	struct ibv_qp *qp; /* the setup's; each turn uses it and the completion queue */
	struct ibv_cq *cq;
	bool operates; /* this side performs the operation; false only for a server */
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed: requested, not executed yet */
	bool stepped; /* the state or a clock has changed: another turn must follow before a wait */
	struct transfer transfer;
	struct measurement measurement;
	struct counters after; /* the port's counters at the end, before this side's verdict */
	char causes[CAUSES][CAUSE_SIZE]; /* texts for `protocol`: number n is at index n - 1 */
	struct message peer_region;      /* the peer's MSG_MR */
	uint64_t peer_digest;            /* from the peer's MSG_DONE */
	struct message peer_verdict;     /* the peer's MSG_VERDICT; its figures are not verified */
	int64_t verdict_time; /* when the peer's MSG_VERDICT arrived, in nanoseconds. 0 before. */
	struct outgoing outgoing;
	struct incoming incoming;
	struct clocks clocks;

	bool operation_failed;   /* a work request of the operation failed or was flushed */
	bool window_outstanding; /* a MSG_WINDOW is posted and has not completed */
	bool armed;              /* the completion queue will generate an event */
	bool channel_lost;       /* the completion channel is unusable */
	unsigned int outstanding_messages; /* messages and keepalives in the send queue */
	unsigned int outstanding_receives;
	unsigned int unacknowledged_events; /* completion events to acknowledge */
	unsigned int helpers_left;          /* number of stuck helpers when the thread ended */
	unsigned int turns;                 /* with --busy-poll: number of turns without a wait */
	struct pollfd ready[4]; /* the completion channel, the eventfd, then busy helpers */
	struct batch *batch;    /* work requests of the operation. NULL before it begins. */
};

/* ---- Events ---- */

/*
 * Feed an event to the state machine. advance() executes the actions later. `cause` is the number
 * of a text.
 */
void session_feed(struct session *session, enum event_type type, enum status status,
		  unsigned int cause);

/* Feed an event that no text explains. */
void session_handle(struct session *session, enum event_type type);

/* Feed an event with the text that explains it. The state machine decides which text counts. */
void explain_event(struct session *session, enum event_type type, enum status status,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Feed an event that the failure's status and cause explain. */
void feed_failure(struct session *session, enum event_type type, const struct failure *failure);

/* Close the connection with this status, for this reason, unless an earlier reason counts. */
#define session_fail(session, status, ...) explain_event(session, EVENT_FAILED, status, __VA_ARGS__)

/* Feed the event of a refused post. */
void refuse_post(struct session *session, enum event_type event, const char *verb, int error);

/* Return the number of outstanding work requests in the send queue. */
uint64_t outstanding_sends(const struct session *session);

/*
 * Return true if this side's whole operation has completed without a failure, and the peer knows
 * the end of this side's payload (transfer_source_is_done()).
 */
bool operation_completed(const struct session *session);

/* Return how the session ended. Main thread, after it has joined the connection's thread. */
struct failure session_result(const struct session *session);

/* Describe in `failure` why a notification ends a connection. Any thread. */
void explain_notification(const struct shared *shared, enum notification notification,
			  struct failure *failure);

/* ---- Deadlines ---- */

/* Begin the wait at `now` (milliseconds): set the deadline and the time of the next keepalive. */
void begin_wait(struct session *session, int64_t now);

/*
 * Count progress that `mover` (DEBTOR_NONE: this side) made at `time`: restart the wait from then,
 * unless a debtor of a higher value owes something.
 */
void count_progress(struct session *session, enum debtor mover, int64_t time);

/*
 * Count the operation's latest completion as progress; its handler only recorded the time. Call
 * this before a deadline is checked, and before a MSG_WINDOW is sent. Every other message belongs
 * to a step of the state machine, which restarts the wait.
 */
void count_wire_progress(struct session *session);

/* End the session, or give up, if the deadline of the current wait has passed. */
void check_deadline(struct session *session);

/* Describe in `failure` that --timeout has expired. Any thread. */
enum status timeout_expired(const struct options *options, struct failure *failure);

/* Return true if a MSG_WINDOW may be posted: the session allows it, and its only slot is free. */
static inline bool window_is_allowed(const struct session *session)
{
	return window_may_be_sent(&session->protocol) && !session->window_outstanding;
}

/* Return the time until which the thread may wait if nothing happens. */
int64_t session_due(const struct session *session);

#endif
