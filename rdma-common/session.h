/* SPDX-License-Identifier: MIT */
/*
 * The state of a session, the events that change it, the texts of these events, and the deadlines.
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
 * Time without progress after which a keepalive is due. Each one doubles the time to the next one,
 * up to --timeout divided by KEEPALIVES_PER_TIMEOUT.
 */
#define KEEPALIVE_MILLISECONDS 250
#define KEEPALIVES_PER_TIMEOUT 4

/* Failure message for RDMA_CM_EVENT_DEVICE_REMOVAL. */
#define DEVICE_REMOVED "the RDMA device was removed; look for it with 'rdma link'"

/* Notifications from the main thread to a connection's thread: bits of a set. */
enum notification {
	NOTIFY_ESTABLISHED = 1 << 0,
	NOTIFY_NOT_ESTABLISHED = 1 << 1, /* reason in shared->not_established */
	NOTIFY_REJECTED = 1 << 2,
	NOTIFY_DISCONNECTED = 1 << 3,
	NOTIFY_BROKEN = 1 << 4, /* over iWARP: the device reports that the connection broke */
	NOTIFY_FAILED = 1 << 5, /* reason in shared->failure */
};

/*
 * Number of texts that a session keeps to explain events. The state machine refers to at most four
 * (needs_cause()). One must be free for the next event.
 */
#define CAUSES 5

/*
 * The setup of a connection. The main thread fills it in before it starts the connection's thread.
 * No thread changes it while that thread runs.
 */
struct setup {
	struct program *program;
	struct options options; /* options of this session */
	struct rdma_cm_id *id;  /* its context is the struct connection */
	unsigned int number;    /* number of this connection in the program, from 1 */
	struct endpoint peer;
	struct log log;
	struct region_owner owner; /* has the protection domain */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct region control; /* memory of messages: receive slots, then send slots */
	struct region outgoing_ring;
	struct region incoming_ring;
	struct terms terms;
	struct device_name device; /* the device's name at the start of the session */
	int tos;                   /* type of service in use. -1 if unknown. */
	struct payload payload;    /* the outgoing payload */
	struct counters before;    /* the port's counters at the start, if they are needed */
	struct failure failure;    /* why the connection failed before its thread started */
};

/*
 * Data that the main thread passes to a connection's running thread. The main thread writes
 * the data of a notification once, then sets the bit in `notifications`. This atomic operation is
 * sequentially consistent, so a thread that sees the bit also sees the data.
 */
struct shared {
	atomic_uint notifications;      /* enum notification, or-ed */
	int wake;                       /* eventfd(2) that wakes the connection's thread */
	struct failure not_established; /* for NOTIFY_NOT_ESTABLISHED */
	struct failure failure;         /* for NOTIFY_FAILED */
};

/*
 * The clocks of a session, in milliseconds (now_milliseconds()) unless the name says nanoseconds.
 */
struct clocks {
	int64_t now;             /* time of this turn */
	int64_t now_nanoseconds; /* the same time */
	/*
	 * Before this time neither ring moves and no clock is due, so a turn only executes actions
	 * and posts. Each step and each MSG_WINDOW sets it to INT64_MIN, so that the next turn
	 * looks at everything.
	 */
	int64_t quiet_until;
	int64_t deadline; /* when the session's current wait expires */
	/*
	 * Time of the operation's latest completion. It is 0 if none has come since the last
	 * begin_wait() or count_wire_progress().
	 */
	int64_t wire_time;
	int64_t keepalive_time;     /* when a keepalive is due, unless the wait restarts first */
	int64_t keepalive_interval; /* current interval between keepalives */
	int64_t source_end;         /* when a timed outgoing stream ends, or INT64_MAX */
	int64_t operation_end;      /* when this side's timed operation ends, or INT64_MAX */
	int64_t next_progress;      /* when the progress line may be drawn again */
};

/*
 * The state of a session, owned by the connection's thread. The main thread touches it only before
 * that thread starts and after that thread is joined.
 */
struct session {
	const struct setup *setup;
	struct shared *shared;
	struct ibv_qp *qp; /* `qp` and `cq` save each turn a look-up in the setup */
	struct ibv_cq *cq;
	bool operates; /* this side performs an operation. False for a server with --one-way. */
	struct protocol protocol;
	unsigned int actions; /* requested and not executed yet: enum action, or-ed */
	bool stepped;         /* another turn must follow before a wait */
	struct transfer transfer;
	struct measurement measurement;
	struct counters after;           /* the port's counters just before this side's verdict */
	char causes[CAUSES][CAUSE_SIZE]; /* text number n is at index n - 1 */
	struct message peer_region;      /* the peer's MSG_MR */
	uint64_t peer_digest;            /* from the peer's MSG_DONE */
	struct message peer_verdict;     /* the peer's MSG_VERDICT. Its counts are not verified. */
	int64_t verdict_time; /* arrival of `peer_verdict`, in nanoseconds. 0 before that. */
	struct outgoing outgoing;
	struct incoming incoming;
	struct clocks clocks;

	bool operation_failed;   /* a work request of the operation failed or was flushed */
	bool window_outstanding; /* a MSG_WINDOW is posted and not complete */
	bool armed;              /* the completion queue will generate an event */
	bool channel_lost;       /* the completion channel is unusable */
	unsigned int outstanding_messages; /* messages and keepalives in the send queue */
	unsigned int outstanding_receives;
	unsigned int unacknowledged_events; /* number of unacknowledged completion events */
	unsigned int helpers_left;          /* number of abandoned helpers when the thread ended */
	unsigned int turns;                 /* number of idle turns with --busy-poll */
	struct pollfd ready[4]; /* the completion channel, the eventfd, then busy helpers */
	struct batch *batch;    /* work requests of the operation. NULL before it begins. */
};

/* ---- Events ---- */

/*
 * Feed an event to the state machine. The next advance() executes the actions. `cause` is the
 * number of the text that explains the event. It is 0 if no text does.
 */
void session_feed(struct session *session, enum event_type type, enum status status,
		  unsigned int cause);

/* Feed an event that no text explains. */
void session_handle(struct session *session, enum event_type type);

/*
 * Feed an event with a text that explains it. The state machine decides which event's text explains
 * the result of the session.
 */
void explain_event(struct session *session, enum event_type type, enum status status,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Feed an event with the status and the cause of `failure`. */
void feed_failure(struct session *session, enum event_type type, const struct failure *failure);

/* Close the connection with this status and text, unless an earlier reason counts. */
#define session_fail(session, status, ...) explain_event(session, EVENT_FAILED, status, __VA_ARGS__)

/*
 * Feed EVENT_SEND_REFUSED or EVENT_RECEIVE_REFUSED, because `verb` failed with `error`, an errno
 * value.
 */
void feed_refused_post(struct session *session, enum event_type event, const char *verb, int error);

/* Return the number of outstanding work requests in the send queue. */
uint64_t outstanding_sends(const struct session *session);

/*
 * Return true if this side's whole operation has completed without a failure, and the peer knows
 * the end of this side's payload (transfer_source_is_done()).
 */
bool operation_completed(const struct session *session);

/* Return how the session ended. Main thread, after the connection's thread was joined. */
struct failure session_result(const struct session *session);

/* ---- Deadlines ---- */

/* Begin a wait at `now`, in milliseconds: set the deadline and the time of the next keepalive. */
void begin_wait(struct session *session, int64_t now);

/*
 * Count progress that `mover` made at `time`: restart the wait at that time, unless the transfer
 * waits for a debtor of a higher value. DEBTOR_NONE means this side.
 */
void count_progress(struct session *session, enum debtor mover, int64_t time);

/*
 * Count the operation's latest completion as progress. The handler of a completion only records the
 * time. Call this before a deadline is checked, and before transfer_make_window(), after which the
 * peer may owe something. Other messages need no call: the state machine takes a step, which
 * restarts the wait.
 */
void count_wire_progress(struct session *session);

/*
 * If the deadline of the wait has passed, feed EVENT_DEADLINE. If this side's own disk or pipe
 * causes the delay, feed EVENT_GAVE_UP or EVENT_FAILED earlier, with that reason.
 */
void enforce_deadline(struct session *session);

/* Describe in `failure` that --timeout has expired. Return its status. Any thread. */
enum status explain_timeout(const struct options *options, struct failure *failure);

/* Return true if a MSG_WINDOW may be posted now. Only one may be in flight (post_message()). */
static inline bool window_is_allowed(const struct session *session)
{
	return window_may_be_sent(&session->protocol) && !session->window_outstanding;
}

/*
 * Return when the next clock is due: until then the thread may wait. The age of unreported progress
 * may count from this call (transfer_window_time()).
 */
int64_t session_due(struct session *session);

#endif
