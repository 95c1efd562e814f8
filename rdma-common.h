/* SPDX-License-Identifier: MIT */
/*
 * What rdma-client and rdma-server share: the messages on the wire, the state machine of a
 * session, the connection with everything that belongs to it, and the thread that waits for
 * completions.
 *
 * Two threads. The main thread creates and destroys everything and handles connection manager
 * events, device events, signals and deadlines. The completion thread waits for completions, posts
 * what the state machine asks for, and wakes the main thread when there is something for it to do.
 * What both touch is marked below with what guards it.
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

#include "rdma-common/options.h"
#include "rdma-common/wire.h"

/* The role of the peer of a side with this role. */
enum role other_role(enum role role);

/* Whether a side hands over a payload; in a one-way session it flows in one direction only. */
bool hands_over(enum role role, enum operation operation, bool one_way);

/* Whether, and why, a side with this role and these options refuses a peer with this greeting. */
enum refusal hello_refusal(enum role role, const struct options *options, enum greeting greeting,
			   const struct hello *hello);

/* ---- The state machine of a session: pure, no verbs, no clock, no input or output ---- */

enum phase {
	PHASE_CONNECTING, /* not connected yet */
	PHASE_EXCHANGING, /* connected; messages and operations flow */
	PHASE_CLOSING,    /* nothing is posted any more; waits until everything came back */
	PHASE_FINISHED,   /* `status` is final; the connection may be destroyed */
};

/* How far this side's own work requests are. They complete in this order on one send queue. */
enum local_progress {
	LOCAL_IDLE,
	LOCAL_MR_POSTED,
	LOCAL_MR_SENT,
	LOCAL_OPERATION_POSTED,
	LOCAL_OPERATION_COMPLETED,
	LOCAL_DONE_POSTED,
	LOCAL_DONE_SENT,
	LOCAL_CHECKED, /* what the peer handed over has been compared with the digest */
	LOCAL_VERDICT_POSTED,
	LOCAL_VERDICT_SENT,
};

/* The last of these messages that the peer sent. It sends each once, in this order. */
enum remote_progress {
	REMOTE_SILENT,
	REMOTE_MR,
	REMOTE_DONE,
	REMOTE_VERDICT,
};

/* The state of a session. Initialise with protocol_start(). */
struct protocol {
	enum role role;
	enum operation operation;
	bool verifying; /* the peer has a hello: digests and verdicts are exchanged */
	bool operates;  /* this side performs the operation; not a server in a one-way session */
	enum phase phase;
	enum local_progress local;
	enum remote_progress remote;
	bool connected;      /* a connection stood, so DISCONNECTED will come */
	bool disconnected;   /* it came */
	bool drained;        /* closing, and no posted work request is outstanding */
	bool overdue;        /* closing, and the deadline passed once */
	enum status check;   /* what this side found in the peer's payload, once checked */
	enum status verdict; /* what the peer found in this side's, once received */
	enum status status;  /* why the session closes; final once finished */
};

enum event_type {
	EVENT_ESTABLISHED,
	EVENT_MR_RECEIVED,
	EVENT_DONE_RECEIVED,
	EVENT_VERDICT_RECEIVED, /* status: what the peer found */
	EVENT_MR_SENT,
	EVENT_OPERATION_COMPLETED,
	EVENT_DONE_SENT,
	EVENT_VERDICT_SENT,
	EVENT_CHECKED, /* status: what ACTION_CHECK found */
	EVENT_FAILED,  /* status: the reason; a post, a completion or the connection failed */
	EVENT_FLUSHED, /* a work request came back unexecuted: the connection goes down */
	EVENT_DISCONNECTED,
	EVENT_DRAINED, /* no posted work request is outstanding, and none will follow */
	EVENT_DEADLINE,
	EVENT_INTERRUPTED,
	EVENT_TYPES /* how many there are */
};

struct event {
	enum event_type type;
	enum status status;
};

/* What the caller has to do, in this order. Bits of a set. */
enum action {
	ACTION_SEND_MR = 1 << 0,
	ACTION_POST_OPERATION = 1 << 1,
	ACTION_SEND_DONE = 1 << 2,
	ACTION_CHECK = 1 << 3, /* show and check the payload, answer with EVENT_CHECKED */
	ACTION_SEND_VERDICT = 1 << 4,
	ACTION_DISCONNECT = 1 << 5,
	ACTION_FORCE_ERROR = 1 << 6, /* force the queue pair into the error state */
	ACTION_FINISH = 1 << 7,      /* the session is over; the connection may go */
};

struct step {
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed */
};

/*
 * The state in which a session begins. `verifying` is false and `operates` is true; where that is
 * not so they are set before the connection is established.
 */
struct protocol protocol_start(enum role role, enum operation operation);

/*
 * The whole protocol: the state after `event`, and what to do now. Every event is allowed in every
 * state; one that the peer should not have caused ends the session with STATUS_CONTENTS_WRONG.
 */
struct step protocol_step(struct protocol protocol, struct event event);

/* Names for traces and tests. The strings are static. */
const char *operation_name(enum operation operation);
const char *event_name(enum event_type type);
const char *phase_name(enum phase phase);
const char *local_progress_name(enum local_progress local);
const char *remote_progress_name(enum remote_progress remote);

/* ---- What is handed over (rdma-payload.c) ---- */

/* A digest that grows with what it covers. */
struct digest {
	void *state;         /* XXH3_state_t; a header that is inlined calls it differently */
	uint64_t bytes;      /* so many are covered */
	int64_t nanoseconds; /* so long did it take */
};

/* What this side hands over to every peer. */
struct payload {
	uint8_t *memory; /* page-aligned, from memory_map() */
	size_t size;     /* bytes */
	bool is_pattern; /* of --size */
	bool stays;      /* an adapter may still use the memory */
	struct digest digest;
};

struct process;

/*
 * Sets process->payload to what the options say, read to its end. On failure a message has been
 * printed; payload_free() is allowed.
 */
enum status payload_load(struct process *process);
void payload_free(struct payload *payload);

/* The offset of the first byte that is not as in the pattern of --size, or `size`. */
size_t pattern_mismatch(const uint8_t *memory, size_t size);

/* Covers `memory` from where the digest ends up to `size`. */
void digest_extend(struct digest *digest, const uint8_t *memory, uint64_t size);
/* The value of a digest: XXH3, 64 bits. */
uint64_t digest_value(const struct digest *digest);
/* The same of memory that is all there. */
uint64_t digest_memory(const uint8_t *memory, uint64_t size);

/*
 * Zeroed, page-aligned memory, of huge pages if it is large and there are any. NULL with errno.
 * memory_unmap() gives it back and takes the same size; -1 with errno.
 */
void *memory_map(size_t size);
int memory_unmap(void *memory, size_t size);

/* Whether --output means standard output. NULL: it was not given. */
bool is_standard_output(const char *name);

/*
 * Whether what the peer hands over, `size` bytes, can be stored under `name` ("-": standard output)
 * as far as can be told before. 0 or -1 with errno.
 */
int output_check(const char *name, uint64_t size);

/*
 * Stores it: under a temporary name first, so that a file is whole or not there. 0 or -1 with
 * errno.
 */
int output_store(const char *name, const uint8_t *bytes, uint64_t size);

/* ---- The process ---- */

/* Room for a failure in words. */
#define CAUSE_SIZE 512

/* An RDMA device that connections use, and the channel on which its completions are announced. */
struct device {
	struct process *process;
	struct ibv_context *verbs; /* librdmacm's; it opens and closes devices */
	struct ibv_comp_channel *completion_channel;
	bool broken; /* no completion is announced any more; the process's mutex guards it */
	SLIST_ENTRY(device) link;
};

/* What a program has once. The main thread's, but for what the completion thread only reads. */
struct process {
	const struct options *options;
	enum role role;
	struct payload payload;     /* `mutex` guards its digest */
	char error[CAUSE_SIZE];     /* what failed outside of a session; empty: nothing */
	atomic_bool progress_shown; /* the cursor stands behind a line of progress */
	int signal_number;          /* the last of SIGINT and SIGTERM that came; 0: none */
	struct rdma_event_channel *event_channel;
	SLIST_HEAD(device_list, device) devices;
	int signal_descriptor;     /* signalfd(2): SIGINT and SIGTERM */
	int wake_descriptor;       /* eventfd(2): the completion thread has news */
	int stop_descriptor;       /* eventfd(2): the completion thread shall return */
	int main_descriptor;       /* epoll(7): what the main thread waits for */
	int completion_descriptor; /* epoll(7): what the completion thread waits for */
	bool completion_thread_runs;
	pthread_t completion_thread;
	bool exhausted;           /* the completion thread had to give up; `mutex` guards it */
	pthread_mutex_t mutex;    /* guards the session of every connection */
	atomic_uint mutex_wanted; /* the main thread waits for it */
	/* --busy-poll: those whose sessions have begun; `mutex` guards it */
	TAILQ_HEAD(connection_spinners, connection) spinners;
};

/* What is kept of a connection manager event: rdma_ack_cm_event(3) frees the original. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status; /* 0, a negative errno, or a transport's own reason for a rejection */
	struct rdma_cm_id *id;
	struct rdma_cm_id *listener;
	enum greeting greeting; /* what the private data was */
	struct hello hello;
	/* In a connect request and in its acceptance (but see reads_served() for iWARP): */
	uint8_t responder_resources; /* reads that the peer will have outstanding at most */
	uint8_t initiator_depth;     /* reads that the peer can serve at a time */
};

/* What process_wait() returned for. */
enum wakeup {
	WAKEUP_CM_EVENT,  /* the event is stored */
	WAKEUP_SIGNAL,    /* SIGINT or SIGTERM */
	WAKEUP_OTHER,     /* a deadline, or news from the completion thread */
	WAKEUP_EXHAUSTED, /* one of the threads cannot wait any more; a message has been printed */
};

/* Initialises `process`, which may then be destroyed. `options` must outlive it. */
void process_init(struct process *process, const struct options *options, enum role role);

/*
 * Blocks SIGINT and SIGTERM, opens the event channel and starts the completion thread. On failure a
 * message has been printed.
 */
enum status process_open(struct process *process);

/* Stops the completion thread and frees everything. No connection and no id may be left. */
void process_destroy(struct process *process);

/* Says as warnx(3) does what failed outside of a session, and keeps it for --json. */
void process_complain(struct process *process, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Waits until there is something to do, at most until `deadline` (as now_milliseconds() counts,
 * INT64_MAX: for ever). Device events are logged. On WAKEUP_CM_EVENT `*event` is filled in, on
 * WAKEUP_SIGNAL process->signal_number.
 */
enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *event);

/* The monotonic clock. */
int64_t now_nanoseconds(void);
int64_t now_milliseconds(void);

/* Ends the process as `signal_number` does when nobody handles it, so that a shell can tell. */
void end_by_signal(int signal_number);

/* ---- Connections ---- */

/*
 * How long operations took, counted in buckets, so that the memory does not grow with the number of
 * operations. A bucket is no wider than a 128th of what it counts.
 */
#define LATENCY_BUCKETS (58 * 128)
struct latency {
	uint64_t counts[LATENCY_BUCKETS];
	uint64_t total;           /* operations */
	int64_t minimum, maximum; /* nanoseconds */
};

/* What is measured of the operation of this side. Times as now_nanoseconds() counts. */
struct figures {
	int64_t started;           /* before the first work request was posted; 0: never */
	int64_t completed;         /* when the last one that completed did */
	int64_t check_nanoseconds; /* it took so long to verify what the peer handed over */
	struct latency *latency;   /* NULL: not measured */
};

/* Memory that is registered with the adapter. */
struct region {
	uint8_t *memory;
	size_t size; /* bytes */
	struct ibv_mr *mr;
	bool owned; /* the memory goes with the region; the payload's does not */
};

/* Smallest payload of text, and what a program that follows the tutorial exchanges, in bytes. */
#define DEFAULT_PAYLOAD 1024

/* Work requests of the operation that are posted at a time, with one doorbell. */
#define BATCH 32

/*
 * A connection and all that belongs to it. Created, destroyed and serviced by the main thread. What
 * stands under "session" is touched by both threads while the process's mutex is held; all the rest
 * is written by the main thread alone, before the completion thread can see a completion of this
 * connection.
 */
struct connection {
	struct process *process;
	struct rdma_cm_id *id;
	char peer[NI_MAXHOST + NI_MAXSERV + 8]; /* "ADDRESS port PORT", for messages */
	unsigned int number;                    /* shown in front of each line; 0: not shown */
	struct device *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct region control;  /* messages: receive slots, then send slots */
	struct region outgoing; /* the payload that this side hands over */
	struct region incoming; /* where the peer's payload arrives */
	bool one_way;           /* the client alone operates */
	bool expects_pattern;   /* the peer hands over the pattern of --size */
	bool iwarp; /* the device's transport, which needs some things done differently */
	const char *transport;         /* its name; static */
	const struct region *operated; /* what this side's operation carries; NULL: it has none */
	uint64_t part_size;       /* bytes of the operation that one work request carries at most */
	unsigned int depth;       /* work requests of the operation that are outstanding at most */
	unsigned int inline_size; /* bytes that a work request may carry in itself */
	uint8_t responder_resources;  /* outstanding reads of the peer that are served at most */
	uint8_t initiator_depth;      /* outstanding reads of this side at most */
	bool device_removed;          /* the device went while the connection was there */
	TAILQ_ENTRY(connection) link; /* for the server's list */

	/* The session. */
	bool retired;        /* being destroyed: the completion thread must not poll any more */
	unsigned int events; /* completion events that are not acknowledged yet */
	struct protocol protocol;
	struct message peer_region; /* the peer's MSG_MR */
	uint64_t peer_digest;       /* from the peer's MSG_DONE */
	uint64_t peer_progress;     /* from the peer's last MSG_PROGRESS */
	/* Work requests of the operation, all iterations: a whole payload is `parts` of them. */
	uint64_t parts, requests, requests_posted, requests_completed;
	uint64_t next_offset;              /* in the payload, of the next of them */
	struct ibv_send_wr batch[BATCH];   /* a list, to post as many of them as wanted */
	struct ibv_sge elements[BATCH];    /* theirs */
	unsigned int outstanding_messages; /* work requests of any other kind in the send queue */
	unsigned int outstanding_receives;
	bool spinning; /* it is in the list of the process */
	TAILQ_ENTRY(connection) spinner;
	int64_t progress_sent;        /* when MSG_PROGRESS was, as now_milliseconds() counts */
	bool progress_outstanding;    /* it has not completed yet */
	bool done_waits;              /* MSG_DONE follows when the whole operation is posted */
	unsigned int pending_actions; /* what the main thread has to do */
	int64_t deadline;             /* as now_milliseconds() counts */
	int64_t probe_time;           /* when to probe, if nothing is heard before; likewise */
	char cause[CAUSE_SIZE];       /* the first failure in words; empty: none */
	struct figures figures;
};

/*
 * Makes a connection to `peer` out of `id`, which it owns from now on, also on failure. `number` is
 * shown in front of its lines unless it is 0. Returns NULL, with a message, when there is no
 * memory.
 */
struct connection *connection_create(struct process *process, struct rdma_cm_id *id,
				     const struct sockaddr *peer, unsigned int number);

/*
 * Once the device is known, and whether the client alone operates: protection domain, completion
 * queue, queue pair, the outgoing payload, and the receives, which must be posted before the peer
 * can send (iWARP has no retry). On failure the cause is recorded; connection_destroy() cleans up.
 */
enum status connection_prepare(struct connection *connection, bool one_way);

/*
 * Once the peer's hello and limits are known, from the connect request or its acceptance: makes
 * room for its payload, and keeps to the smaller of both sides' numbers of reads. Must come before
 * messages flow: for a server before it accepts, for a client when connected.
 */
enum status connection_meet(struct connection *connection, const struct cm_event *event);

/* The parameters with which this connection is asked for or accepted; `wire` becomes its hello. */
struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE]);

/* Feeds one event to the session and does what follows. Mutex not held. */
void connection_handle(struct connection *connection, struct event event);

/* Records why the session fails, in words, and ends it; returns `status`. Mutex not held. */
enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

/*
 * The same for a call of librdmacm's that set errno: a server may find that the client has gone.
 * `attempted` is the call's name.
 */
enum status connection_cm_failed(struct connection *connection, const char *attempted);

/* Handles the connection manager events that mean the same to both programs. */
void connection_cm_event(struct connection *connection, const struct cm_event *event);

/*
 * Does what is left to the main thread: disconnects, enforces the deadline. True when the session
 * is over and the connection may be destroyed; then `*status` says how it ended.
 */
bool connection_service(struct connection *connection, enum status *status);

/* When connection_service() has to be called again at the latest, as now_milliseconds() counts. */
int64_t connection_deadline(struct connection *connection);

/* Starts the wait for the next event of the session anew. */
void connection_extend_deadline(struct connection *connection);

/* Frees the connection, its id and all that belongs to it. NULL is allowed. */
void connection_destroy(struct connection *connection);

/* Why the session failed and what to do, in words. */
const char *connection_cause(const struct connection *connection, enum status status);

/* Work requests in the send queue that have not come back. */
uint64_t outstanding_sends(const struct connection *connection);

/* Bytes of an address, IPv4 or IPv6. */
socklen_t address_size(const struct sockaddr *address);

/* What a port of a device speaks: "InfiniBand", "RoCE" or "iWARP". The string is static. */
const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port);

/* Bytes in the operation of this side: what it writes, or reads. 0: it does not operate. */
uint64_t operation_length(const struct connection *connection);

/* ---- What the user is told (rdma-report.c) ---- */

/* Prints one line of narration, at once: on standard output, or on standard error if that is taken
 * by --json or --output. */
void say(struct process *process, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, of a connection. */
void connection_say(const struct connection *connection, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* With --verbose, prints one line of this connection's on standard error. */
void connection_trace(const struct connection *connection, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* STATUS_SUCCESS if everything said reached standard output, else a message and the failure. */
enum status flush_output(void);

/*
 * The bytes as text with nothing left in it that a terminal would obey. The caller frees it; NULL
 * means that there is no memory.
 */
char *escape(const uint8_t *bytes, size_t size);

/* Shows what the peer handed over, as much of it as is sensible on a terminal. */
void show_payload(const struct connection *connection);

/* Counts one operation. */
void latency_count(struct latency *latency, int64_t nanoseconds);
/* What `share` of the operations (0 to 1) did not exceed, in nanoseconds. */
int64_t latency_quantile(const struct latency *latency, double share);

/* On a terminal: how far the operation is, if it takes long. Mutex held. */
void show_progress(struct connection *connection);

/* Says that the connection is gone, what was measured and, if the session failed, why. */
void connection_report(struct connection *connection, enum status status);

/* With --json: one object for a session, or for a program that had none (NULL). */
void report_json(struct process *process, const struct connection *connection, enum status status);

/* ---- Diagnosis (rdma-check.c) ---- */

/*
 * Tells on standard output which devices there are, which way leads to options->address, and what
 * to change; connects to nobody. STATUS_SUCCESS if a connection could be tried, else
 * STATUS_UNRESOLVED.
 */
enum status check_path(const struct options *options);

#endif
