/* SPDX-License-Identifier: MIT */
/*
 * Choose and classify the sessions of --check with a server. They run in this order until one
 * fails:
 *
 *   - sessions that transfer growing sizes
 *   - the rate of each direction
 *   - latency
 *   - with --connections, several sessions at once
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_SERVER_H
#define RDMA_COMMON_SERVER_H

#include "../connection.h"
#include "address.h"
#include "loss.h"

/* The result of one direction of a session. */
enum direction_result {
	DIRECTION_UNKNOWN,
	DIRECTION_FAILED,
	DIRECTION_ARRIVED, /* delivered, as the adapters report, but not verified */
	DIRECTION_VERIFIED,
};

/* Rates in bit/s. */
struct rates {
	double to_server, to_client;
};

/* The result of a session that has ended. */
struct outcome {
	struct failure end; /* status and cause */
	bool rejected;
	struct peer_hello rejection; /* valid if `rejected` */
	int connect_status; /* answer to the connect request (connection->connect_status) */
	bool connected;
	struct hello hello; /* the server's hello. Its version is 0 if there is no valid one. */
	char peer[sizeof(((struct endpoint *)NULL)->text)];
	unsigned int port; /* source port (source_port()). 0 if not known. */
	enum direction_result to_server, to_client;
	int64_t elapsed;    /* ns from the operation's start to the server's verdict */
	struct rates rates; /* valid if the session measured rates */
};

struct probe;

/*
 * Wait until probe->start. Then run probe->session.connections sessions at once with the server at
 * probe->path->address, with the options probe->session. Interrupt them at probe->stop_time. Update
 * probe->reached. Call probe_take() for each session that ran. After a signal, run none.
 */
typedef void (*session_function)(struct probe *probe, void *argument);

struct probe {
	const struct options *options;
	const struct process *process;
	struct findings *findings;
	struct path *path;
	session_function run;
	void *argument;
	struct options session; /* options of the next session */
	int64_t start;          /* earliest start of the next session (now_milliseconds()) */
	int64_t stop_time;      /* time to interrupt the next session, or INT64_MAX */
	int64_t begun;          /* start of the first session (now_milliseconds()), or 0 */
	bool connected;         /* a session was established */
	int64_t measuring;      /* planned milliseconds of all rate measurements so far */
	const char *step;       /* step of the next session's finding */
	bool lacked_bytes;      /* before any size was verified, a session moved no bytes one way */
	bool stopped;          /* a session was left out or interrupted, because packets are lost */
	bool patient;          /* late packets no longer limit the time of a transfer */
	bool needs_explaining; /* a session failed that had no time limit (may_begin()) */
	bool mtu_named;        /* the failure was explained by a smaller MTU on the path */
	struct outcome outcomes[MAX_CONNECTIONS]; /* of the latest sessions, run at once */
	unsigned int outcome_count;               /* number of valid outcomes */
	const struct outcome *outcome;            /* the worst of them */
	/* A connection was established, an rdma-server rejected one, or the program must end. */
	bool reached;
	uint64_t size; /* latest size of step "transfer": bytes in each direction */
	enum direction_result to_server, to_client; /* results of `size` */
	int64_t exchange;  /* smallest `elapsed` of the good sessions of step "transfer", in ns */
	uint64_t verified; /* largest size that was verified in both directions, or 0 */
	bool all_verified; /* every size was verified in both directions */
	struct counters before, after; /* of this host's port, over all sessions */
	/* approximate packets of all sessions, with SESSION_PACKETS in each */
	uint64_t packets_to_server, packets_to_client;
	struct loss loss;
	struct peer_counts peer;   /* counts of the server's port */
	struct peer_counts latest; /* of the latest sessions alone */
	struct latency latency;    /* from the last session that measured it */
	/* The first failure. A signal replaces it. Any failure replaces STATUS_TOO_SLOW. */
	struct failure failure;
};

/*
 * Return true if the first session got no connection, because its request was rejected without a
 * hello, or was not answered.
 */
bool probe_is_unreached(const struct probe *probe);

/*
 * Return true if the first size failed without an answer: a connection was established, but no
 * payload arrived in one direction at least.
 */
bool probe_lacks_bytes(const struct probe *probe);

/* Initialize `probe`. All other arguments must outlive it. */
void probe_init(struct probe *probe, const struct options *options, const struct process *process,
		struct findings *findings, struct path *path);

/* Store the outcome of a session that has ended. */
void probe_take(struct probe *probe, const struct connection *connection);

/*
 * Run sessions with the server, by `run` with `argument`, and report the findings. After a failure,
 * try the host's next address, unless probe->reached is true. Return the first of these that
 * applies:
 *
 *   STATUS_INTERRUPTED    a signal arrived
 *   the status of the first failed session
 *   STATUS_TIMED_OUT      the sessions took too long, and the loss is not excessive
 *   STATUS_TOO_SLOW       a rate is below --min-rate
 *   STATUS_LOCAL_FAILURE  a session could not start
 *   STATUS_SUCCESS
 */
enum status probe_server(struct probe *probe, session_function run, void *argument);

/*
 * Report the counters that grew during the sessions, and the lost packets. Return `status`, or
 * STATUS_TOO_SLOW instead of STATUS_SUCCESS if more packets are lost than MAX_LOSS allows.
 */
enum status probe_report_counters(struct probe *probe, enum status status);

/*
 * After STATUS_SUCCESS, or STATUS_TOO_SLOW with excessive loss, print the result as the last line,
 * and return true. Otherwise return false.
 */
bool probe_print_end(const struct probe *probe, enum status status);

#endif
