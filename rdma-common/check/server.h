/* SPDX-License-Identifier: MIT */
/*
 * The sessions of --check with a server: growing sizes in both directions until one fails; then the
 * rate of each direction, and latency; then, with --connections, several sessions at once. The
 * caller runs the sessions.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_SERVER_H
#define RDMA_COMMON_SERVER_H

#include "../../rdma-common.h"
#include "address.h"
#include "loss.h"

/* The result of one direction of a session. */
enum direction_result {
	PASSAGE_UNKNOWN,
	PASSAGE_FAILED,
	PASSAGE_ARRIVED, /* the adapters report it; the session ended before it was verified */
	PASSAGE_VERIFIED,
};

/* Rates in bit/s. */
struct rates {
	double to_server, to_client;
};

/* The result of a session, once its connection is joined. */
struct outcome {
	struct failure end; /* status and cause */
	bool rejected;      /* the server rejected the connection, with: */
	struct peer_hello rejection;
	int answer;         /* as connection->answer */
	bool connected;     /* the connection was established */
	struct hello hello; /* the server's, if connected */
	char peer[sizeof(((struct endpoint *)NULL)->text)];
	unsigned int port; /* source_port() */
	/* Each side's operation completed, as the adapters report: */
	bool operated, peer_operated;
	/* Each side verified what it received: */
	bool verified, accepted;
	int64_t elapsed;    /* ns until the server's verdict */
	struct rates rates; /* if they were measured */
};

struct probe;

/*
 * Wait until probe->start, then run a session with the options probe->session, probe->parameters
 * and probe->path->address, or as many at once as the options say. These stay constant meanwhile.
 * Interrupt the sessions at probe->stop_time. Set probe->reached, and call probe_take() for each
 * session that ran: for none if a signal interrupted the program before.
 */
typedef void (*session_function)(struct probe *probe, void *argument);

struct probe {
	const struct options *options; /* of the program */
	const struct process *process;
	struct findings *findings;
	struct path *path; /* to the server */
	session_function run;
	void *argument;
	struct options session;               /* options of the next session */
	struct session_parameters parameters; /* parameters of the next session */
	int64_t start;                        /* it may begin then, as now_milliseconds() counts */
	int64_t stop_time;                    /* interrupt it then; INT64_MAX: never */
	int64_t begun;         /* start of the first session (now_milliseconds()); 0: none */
	int64_t measuring;     /* milliseconds that sessions were to measure so far */
	const char *step;      /* step of the next session's finding */
	bool stopped;          /* no further session runs, because packets are lost */
	bool needs_explaining; /* a session failed, though no packet was lost before */
	struct outcome outcomes[MAX_CONNECTIONS]; /* of the latest sessions that ran at once */
	unsigned int outcome_count;               /* number of these */
	const struct outcome *outcome;            /* the worst of these */
	bool reached;                             /* a server of this project answered */
	bool mode_is_known; /* the server's operation is known, or both were tried */
	uint64_t size;      /* bytes each way of the latest size, and its results: */
	enum direction_result to_server, to_client;
	int64_t exchange;  /* ns of the quickest session of a size */
	uint64_t verified; /* the largest size that was verified in both directions; 0: none */
	bool all_verified; /* every size is verified in both directions */
	struct counters before, after; /* of the device's port */
	/* Packets of all sessions, about: those of the operations, and some for each session. */
	uint64_t packets_to_server, packets_to_client;
	struct loss loss;
	uint64_t peer_errors; /* errors that the server's port counted, plus 1; 0: not known */
	uint64_t advertised_errors; /* the same for the latest sessions */
	struct latency latency;     /* from the last session that measured it */
	struct failure failure;     /* the first failure */
};

/* Initialize `probe`. All arguments must outlive it. */
void probe_init(struct probe *probe, const struct options *options, const struct process *process,
		struct findings *findings, struct path *path);

/* Keep the outcome of a session that `run` has run, and whose thread is joined. */
void probe_take(struct probe *probe, const struct connection *connection);

/*
 * Run sessions with the server by `run`, with `argument`, as many as needed, and report the
 * findings. If no server of this project answers at an address, try the next one of the host.
 * Return the status of the first session that failed.
 */
enum status probe_server(struct probe *probe, session_function run, void *argument);

/*
 * Report the counters that grew during the sessions, and the packets that were lost. Return
 * `status`, or STATUS_TOO_SLOW if that is success and more are lost than options->max_loss allows.
 */
enum status probe_report_counters(struct probe *probe, enum status status);

/* Print the last line for sessions that ended with `status`; nothing if a finding says all. */
void probe_print_end(const struct probe *probe, enum status status);

#endif
