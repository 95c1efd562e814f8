/* SPDX-License-Identifier: MIT */
/*
 * 'rdma-client --check ADDRESS': the path to an address, step by step, and what to change. It
 * connects to nobody.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "console.h"
#include "options.h"
#include "status.h"

struct json_object;

/* What was found so far. The main thread's. */
struct check {
	const struct options *options;
	struct console *console;
	struct json_object *findings; /* with --json: an array for each step; NULL: lines instead */
};

/* Begins without findings. `options` and `console` must outlive `check`. */
void check_init(struct check *check, const struct options *options, struct console *console);

/*
 * Finds out which devices there are, how options->address is reached, and what to change.
 * STATUS_SUCCESS if a connection could be tried, else STATUS_UNRESOLVED.
 */
enum status check_path(struct check *check);

/* With --json: prints the findings, and `status`, as one object. Frees what check_init() made. */
void check_finish(struct check *check, enum status status);

#endif
