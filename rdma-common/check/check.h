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
	const struct options *options;
	const struct process *process;
	struct findings findings;
	struct devices devices;
	struct evidence evidence;
	bool explained; /* a rule of reach.h was reported as the cause */
	struct path path;
	struct probe probe;
};

/* Initialize `check`. `options` and `process` must outlive `check`. */
void check_init(struct check *check, const struct options *options, const struct process *process);

/*
 * Report the devices, and the memory for a session. With options->address, report the route to that
 * address. Without one, report the limits of this host (host_examine()). Return the first of these
 * that applies:
 *
 *   STATUS_UNRESOLVED     no device, or no route, can be used
 *   STATUS_LOCAL_FAILURE  the memory of a session cannot be registered
 *   STATUS_TOO_SLOW       this host has a limit
 *   STATUS_SUCCESS        a session can be tried
 */
enum status check_path(struct check *check);

/*
 * Without PORT, send connect requests to unused ports by `run`. Report if the address answers, and
 * which programs listen on this host. Return the result.
 *
 * With PORT, report why no connection was established, or why one transferred nothing in at least
 * one direction. Return `status`, the result so far.
 *
 * After a signal, return STATUS_INTERRUPTED instead.
 */
enum status check_reach(struct check *check, enum status status, session_function run,
			void *argument);

/*
 * With PORT, report the counters of all sessions. Print the end of the report, or with --json all
 * findings as one object. Free the path and the devices. `status` is the result so far. Return the
 * final result: with PORT, that of probe_report_counters().
 */
enum status check_finish(struct check *check, enum status status);

#endif
