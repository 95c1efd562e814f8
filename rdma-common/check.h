/* SPDX-License-Identifier: MIT */
/*
 * 'rdma-client --check ADDRESS [PORT]': the path to an address, step by step, and what to change.
 * With PORT, by sessions with the server there, which whoever calls this runs: of growing size, in
 * both directions, until one fails.
 *
 * All of it is the main thread's.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "../rdma-common.h"

/* Sizes of sessions, at most. */
#define CHECK_SIZES 7

/* What is known of one direction of a session. */
enum passage {
	PASSAGE_UNKNOWN,
	PASSAGE_FAILED,
	PASSAGE_ARRIVED, /* by what the adapters say; the session ended before it was verified */
	PASSAGE_VERIFIED,
};

/* What a session is to find out. */
enum question {
	QUESTION_SIZE,      /* whether the next size passes in both directions */
	QUESTION_PRESENCE,  /* after silence: one byte each way, is the server still there? */
	QUESTION_DIRECTION, /* in which direction it was: the same size, but one byte back */
};

/* What was found so far. */
struct check {
	const struct options *options; /* of the program */
	struct options session;        /* those of the session that check_next() asks for */
	const struct process *process;
	struct json_object *findings; /* with --json: an array for each step; NULL: lines instead */
	struct addrinfo *addresses, *untried; /* of the host; those behind the one below */
	/* Of the address to which a route leads: */
	struct sockaddr_storage address; /* with PORT */
	struct sockaddr_storage source;  /* of --bind; of no family without it */
	char gid[INET6_ADDRSTRLEN];      /* empty: iWARP has none */
	unsigned int mtu;                /* bytes of payload in a packet; 0: not known */
	bool iwarp;
	int memory_error; /* of registering what a session needs; 0: none */
	bool unlimited;   /* more can be registered than the limit of locked memory */
	/* Of the sessions with it: */
	uint64_t sizes[CHECK_SIZES]; /* bytes each way, growing */
	unsigned int size_count, next;
	enum question question;
	uint64_t size; /* that is in question, and how far it came: */
	enum passage to_server, to_client;
	uint64_t verified;              /* the largest size that was, in both directions; 0: none */
	bool wrong_mode, mode_is_known; /* the server refused the operation; its is known, or both
					   were tried */
	int64_t retry_time;    /* it is busy, and may take the same session then; 0: it is not */
	int64_t busy_deadline; /* until when it may be; both as now_milliseconds() counts */
	struct counters before, after; /* of the device's port */
	struct failure failure;        /* the first */
	char complaint[CAUSE_SIZE];    /* the first finding that is not good; empty: none */
};

/* Begins without findings. `process` and its options must outlive `check`. */
void check_init(struct check *check, const struct process *process);

/*
 * Finds out which devices there are, how options->address is reached, whether there is memory for a
 * session, and what to change. STATUS_SUCCESS if one could be tried; STATUS_LOCAL_FAILURE without
 * the memory, else STATUS_UNRESOLVED.
 */
enum status check_path(struct check *check);

/*
 * Sets operation and size of the next session in check->session, and its address in
 * check->address. No session may be left: they are its options, which are constant while it lives.
 * Where no server of this project was `reached` at an address, the next one of the host is resolved
 * for that, each within --timeout. False: there is none.
 */
bool check_next(struct check *check, bool reached);

/*
 * The session that was asked for is over, and joined: reports what it shows. It may show nothing
 * yet, where the server does the other operation, or is busy: the next session is to begin at
 * check->retry_time, if that is set.
 */
void check_session(struct check *check, const struct connection *connection);

/*
 * Reports what the sessions have in common. With --json: prints the findings, and how all ended, as
 * one object. Frees what the others made. Returns how it ended: as the first session that failed
 * with the last address, or with `status`, which comes from what went before.
 */
enum status check_finish(struct check *check, enum status status);

#endif
