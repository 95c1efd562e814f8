/* SPDX-License-Identifier: MIT */
/*
 * The sessions of --check with a server: of growing size, in both directions, until one fails; then
 * how fast each direction is; then, with --connections, several at once. The caller runs them.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_SERVER_H
#define RDMA_COMMON_SERVER_H

#include "../../rdma-common.h"
#include "address.h"

/* What is known of one direction of a session. */
enum direction_result {
	PASSAGE_UNKNOWN,
	PASSAGE_FAILED,
	PASSAGE_ARRIVED, /* by what the adapters say; the session ended before it was verified */
	PASSAGE_VERIFIED,
};

/* Measured in bit/s, each way. */
struct rates {
	double to_server, to_client;
};

/* The result of a session, once its connection is joined. */
struct outcome {
	struct failure end; /* its status, and the cause */
	bool rejected;      /* by the server, which said this: */
	struct peer_hello rejection;
	int answer;         /* as connection->answer */
	bool connected;     /* a connection stood */
	struct hello hello; /* the server's, if so */
	char peer[sizeof(((struct endpoint *)NULL)->text)];
	unsigned int port; /* source_port() */
	/* Each side's operation has completed, by what the adapters say: */
	bool operated, peer_operated;
	/* This side has verified what it received; the server accepted what it received: */
	bool verified, accepted;
	int64_t elapsed;    /* ns until the server's verdict */
	struct rates rates; /* where they were measured */
};

struct probe;

/*
 * Waits until probe->start, then runs a session with probe->session, its options,
 * probe->parameters, and probe->path->address, or as many at once as the options say; they are
 * constant meanwhile. Sets probe->reached, and calls probe_take() for each that came about: for
 * none if the program was interrupted before.
 */
typedef void (*session_function)(struct probe *probe, void *argument);

struct probe {
	const struct options *options; /* of the program */
	const struct process *process;
	struct findings *findings;
	struct path *path; /* to the server */
	session_function run;
	void *argument;
	struct options session;               /* of the next session */
	struct session_parameters parameters; /* of the same session */
	int64_t start;                        /* it may begin then, as now_milliseconds() counts */
	struct outcome outcomes[MAX_CONNECTIONS]; /* of the latest sessions that ran at once, */
	unsigned int outcome_count;               /* so many, */
	const struct outcome *outcome;            /* and the one that ended worst */
	bool reached;                             /* a server of this project answered */
	bool mode_is_known; /* the server's operation is, or both were tried */
	uint64_t size;      /* bytes each way that are in question, and how far they came: */
	enum direction_result to_server, to_client;
	int64_t exchange;  /* ns that the quickest of these sessions took to exchange all */
	uint64_t verified; /* the largest size that was, in both directions; 0: none */
	struct counters before, after; /* of the device's port */
	uint64_t peer_errors; /* that the server's ports counted, as it says, and 1; 0: not known */
	uint64_t advertised_errors; /* the same, of the latest session, or those that ran at once */
	struct latency latency;     /* of the last session that has measured it */
	struct failure failure;     /* the first */
};

/* Begin without sessions. All that is passed must outlive `probe`. */
void probe_init(struct probe *probe, const struct options *options, const struct process *process,
		struct findings *findings, struct path *path);

/* Keeps how a session ended that `run` has run, and that is joined. */
void probe_take(struct probe *probe, const struct connection *connection);

/*
 * Has `run` run sessions with the server, with `argument`, as many as it takes, and reports what
 * they show. Where no server of this project answers at an address, the next one of the host is
 * tried. How the first that failed ended.
 */
enum status probe_server(struct probe *probe, session_function run, void *argument);

/* Report the error counters that grew during the sessions; nothing where the port has none. */
void probe_report_counters(struct probe *probe);

#endif
