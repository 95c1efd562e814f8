/* SPDX-License-Identifier: MIT */
/*
 * 'rdma-client --check [ADDRESS [PORT]]': this host, or the path to an address, step by step, and
 * what to change. With PORT, by sessions with the server there, which whoever calls this runs: of
 * growing size, in both directions, until one fails; then how fast each direction is; then, with
 * --connections, several at once.
 *
 * All of it is the main thread's.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "../../rdma-common.h"
#include "host.h"

/* What is known of one direction of a session. */
enum passage {
	PASSAGE_UNKNOWN,
	PASSAGE_FAILED,
	PASSAGE_ARRIVED, /* by what the adapters say; the session ended before it was verified */
	PASSAGE_VERIFIED,
};

struct check;

/* Measured in bit/s, each way. */
struct rates {
	double to_server, to_client;
};

/* One of the sessions that --connections has at once. */
struct path {
	unsigned int port;      /* source_port() */
	struct rates rates;     /* where they were measured */
	struct failure failure; /* how it ended */
};

/*
 * Waits until check->start, then runs a session with check->session, its options, and
 * check->address, or as many at once as the options say; both are constant meanwhile. Sets
 * check->reached, and calls check_take() for each that came about: for none if the program was
 * interrupted before.
 */
typedef void (*session_function)(struct check *check, void *argument);

/* What was found so far. */
struct check {
	const struct options *options; /* of the program */
	const struct process *process;
	struct json_object *findings; /* an array for each step; without --json there are lines */
	struct json_object *finding;  /* the latest in it */
	struct words found, advice;   /* of the next one: report() takes both */
	struct words complaint; /* the first finding that is not good, with its advice; empty: none
				 */
	struct host_view view;  /* this host's devices */
	int view_error;         /* of finding its addresses, an errno value; 0: none */
	struct addrinfo *addresses, *untried; /* of the host; those behind the one below */
	struct addrinfo *address;   /* the latest that was tried, and if a route leads there: */
	struct addrinfo *sources;   /* those of --bind; NULL: any */
	char gid[INET6_ADDRSTRLEN]; /* empty: iWARP has none */
	unsigned int mtu;           /* bytes of payload in a packet; 0: not known */
	bool iwarp, infiniband;     /* or RoCE, */
	bool roce_v1;               /* if so: version 1, which is not in IP packets */
	int memory_error;           /* of registering what a session needs; 0: none */
	bool memory_tried;          /* it was tried to register memory, */
	bool lock_limited;          /* and the locked-memory limit is in force */
	bool limited;               /* this host can be used, but not as its hardware could */
	/* Of the sessions with it: */
	session_function run;
	void *argument;
	struct options session;    /* those of the next one */
	int64_t start;             /* it may begin then, as now_milliseconds() counts */
	struct connection outcome; /* a copy, once it is joined: what it points to is gone. Of
				      several at once, the one that ended worst */
	struct path paths[MOST_CONNECTIONS]; /* of the latest sessions that ran at once, */
	unsigned int path_count;             /* so many */
	bool reached;                        /* a server of this project answered */
	bool mode_is_known;                  /* the server's operation is, or both were tried */
	uint64_t size; /* bytes each way that are in question, and how far they came: */
	enum passage to_server, to_client;
	int64_t exchange;  /* ns that the quickest of these sessions took to exchange all */
	uint64_t verified; /* the largest size that was, in both directions; 0: none */
	struct counters before, after; /* of the device's port */
	uint64_t peer_errors; /* that the server's ports counted, as it says, and 1; 0: not known */
	uint64_t told_errors; /* the same, of the latest session, or those that ran at once */
	/* Bit/s of the port's link, by width and speed; 0: not known, or the device is software: */
	double link_rate;
	bool is_software;
	struct latency latency; /* of the last session that has measured it */
	struct failure failure; /* the first */
};

/* Begins without findings. `options` and `process` must outlive `check`. */
void check_init(struct check *check, const struct options *options, const struct process *process);

/*
 * Finds out which devices there are, how options->address is reached, or without one what limits
 * this host, whether there is memory for a session, and what to change. STATUS_SUCCESS if one could
 * be tried, STATUS_TOO_SLOW if the host is limited; STATUS_LOCAL_FAILURE without the memory, else
 * STATUS_UNRESOLVED.
 */
enum status check_path(struct check *check);

/* Keeps how a session ended that `run` has run, and that is joined. */
void check_take(struct check *check, const struct connection *connection);

/*
 * Has `run` run sessions with the server, with `argument`, as many as it takes, and reports what
 * they show. Where no server of this project answers at an address, the next one of the host is
 * tried. How the first that failed ended.
 */
enum status check_server(struct check *check, session_function run, void *argument);

/*
 * Reports what the sessions have in common. With --json: prints the findings, and how all ended, as
 * one object. Frees what the others made. Returns how it ended: `status`, which comes from them.
 */
enum status check_finish(struct check *check, enum status status);

#endif
