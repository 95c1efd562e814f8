/* SPDX-License-Identifier: MIT */
/*
 * Examine this host, or the path to an address, step by step, and advise what to change:
 * 'rdma-client --check [ADDRESS [PORT]]'. With PORT, run sessions with the server (server.h).
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "server.h"

/* The state of a check. Do not move it: its parts point to each other. */
struct check {
	const struct options *options; /* options of the program */
	const struct process *process;
	struct findings findings;
	struct devices devices;
	struct evidence evidence;
	bool explained; /* a rule of reach.h holds, and was reported */
	struct path path;
	struct probe probe;
};

/* Initialize `check` without findings. `options` and `process` must outlive `check`. */
void check_init(struct check *check, const struct options *options, const struct process *process);

/*
 * Report the devices, the route to options->address (without one: the limits of this host), and the
 * memory for a session. Return STATUS_SUCCESS if a session can be tried, STATUS_TOO_SLOW if
 * host_examine() found a limit, STATUS_LOCAL_FAILURE if the memory cannot be registered, or else
 * STATUS_UNRESOLVED.
 */
enum status check_path(struct check *check);

/*
 * Without PORT: send connect requests to unused ports with `run` (session_function). Report whether
 * the address answers, and which programs listen on this host. With PORT: if no connection was
 * established, report why. `status`: the result so far. Return the new result.
 */
enum status check_reach(struct check *check, enum status status, session_function run,
			void *argument);

/*
 * With PORT: report the counters of all sessions. Print the end of the report, or with --json all
 * findings as one object. Free the path and the devices. `status`: the result so far. Return it, or
 * with PORT probe_report_counters()'s result.
 */
enum status check_finish(struct check *check, enum status status);

#endif
