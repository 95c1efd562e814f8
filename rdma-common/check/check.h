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

/* The state of a check. The parts point to each other, so it must not be moved. */
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

/* Begin without findings. `options` and `process` must outlive `check`. */
void check_init(struct check *check, const struct options *options, const struct process *process);

/*
 * Report the devices, the route to options->address, or without an address the limits of this
 * host, and the memory for a session. Return STATUS_SUCCESS if a session could be tried,
 * STATUS_TOO_SLOW if the host is limited, STATUS_LOCAL_FAILURE without the memory, else
 * STATUS_UNRESOLVED.
 */
enum status check_path(struct check *check);

/*
 * Without PORT: send one connect request to an unused port, with `run` and `argument` as
 * probe_server() has them, and report if the address answers, and the listeners on this host. With
 * PORT: if no connection stood, report why. `status` is the result so far. Return the new one.
 */
enum status check_reach(struct check *check, enum status status, session_function run,
			void *argument);

/*
 * Report the counters of all sessions, and the result. With --json: print the findings as one
 * object. Free the path and the devices. Return `status`, the result of the other functions.
 */
enum status check_finish(struct check *check, enum status status);

#endif
