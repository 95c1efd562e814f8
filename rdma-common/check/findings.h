/* SPDX-License-Identifier: MIT */
/*
 * The findings of --check: for each a line, with --json an object, and the first that is not good.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_FINDINGS_H
#define RDMA_COMMON_FINDINGS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "../console.h"
#include "../status.h"

struct findings {
	struct console *console;
	bool json;                   /* print no lines */
	struct json_object *all;     /* an array for each step */
	struct json_object *latest;  /* the latest finding in it */
	struct strbuf found, advice; /* of the next one: findings_report() takes both */
	struct strbuf
		first_failure; /* the first finding that is not good, with its advice; empty: none
				*/
};

/* Begin without findings. The caller frees `all`. */
void findings_init(struct findings *findings, struct console *console, bool json);

/*
 * Reports what findings->found says of a step, and what to change. Returns whether that is `good`;
 * findings->latest is its object of JSON, be that wanted or not.
 */
bool findings_report(struct findings *findings, const char *step, bool good);

#endif
