/* SPDX-License-Identifier: MIT */
/*
 * 'rdma-client --check [ADDRESS [PORT]]': this host, or the path to an address, step by step, and
 * what to change. With PORT, by sessions with the server there (server.h).
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "server.h"

/* What was found so far. The parts point to each other: it stays where it was initialized. */
struct check {
	const struct options *options; /* of the program */
	const struct process *process;
	struct findings findings;
	struct devices devices;
	struct evidence evidence; /* why no connection stands */
	bool explained;           /* a rule that holds was reported */
	struct path path;
	struct probe probe;
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

/*
 * Without PORT: send one connect request to a port that nobody uses, with `run` and `argument` as
 * probe_server() has them, and report if the address answers, and the listeners on this host. With
 * PORT: if no connection stood, report why. `status` is the result so far. Return the new one.
 */
enum status check_reach(struct check *check, enum status status, session_function run,
			void *argument);

/*
 * Reports what the sessions have in common. With --json: prints the findings, and how all ended, as
 * one object. Frees what the others made. Returns how it ended: `status`, which comes from them.
 */
enum status check_finish(struct check *check, enum status status);

#endif
