/* SPDX-License-Identifier: MIT */
/*
 * The findings of --check. Each is kept as a JSON object, and printed unless --json is given.
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
	bool json;                   /* --json: print no lines */
	struct json_object *all;     /* object with an array for each step */
	struct json_object *latest;  /* the latest finding, in an array of `all` */
	struct strbuf found, advice; /* texts of the next finding, until findings_report() */
	struct strbuf first_failure; /* the first failure since this was emptied, with its advice */
	struct strbuf cause;         /* the first failure, without its causes and advice */
	struct strbuf next;          /* the first part of its advice */
};

/* Initialize `findings`. The caller frees findings->all. */
void findings_init(struct findings *findings, struct console *console, bool json);

/*
 * From now on, if a signal ends the process at once, first print findings->all, with the status of
 * the signal. After findings_release(), the caller prints findings->all itself.
 */
void findings_hold(struct findings *findings);
void findings_release(void);

/*
 * Report findings->found and findings->advice for a step, and clear both. Set findings->latest to
 * the JSON object of the finding, also without --json. Return `good`.
 */
bool findings_report(struct findings *findings, const char *step, bool good);

#endif
