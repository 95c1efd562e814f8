/* SPDX-License-Identifier: MIT */
/*
 * Rules that explain why no connection is established, or why one transfers nothing in one
 * direction. The first rule whose condition holds is the finding. The functions are pure, except
 * for the reports.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_REACH_H
#define RDMA_COMMON_REACH_H

#include "evidence.h"
#include "findings.h"

#define MAX_CAUSES 3

/*
 * A rule. Its name is the one in rdma-pair(7), so it never changes. In all texts {name} stands for
 * a fact. The likeliest cause is first. Without causes, the text is the cause. If the first row
 * that holds has no name, no rule explains the failure.
 */
struct rule {
	const char *name;
	const char *condition; /* for reach_holds() */
	const char *text;
	const char *causes[MAX_CAUSES];
	const char *advice;
};

/*
 * Return true if all words of a condition hold: name=value or name!=value. '|' separates values,
 * '*' is any value, and {name} is the value of another fact. A word about an unknown fact does not
 * hold.
 */
bool reach_holds(const struct evidence *evidence, const char *condition);

/* Return row `index` of the table of rules, or NULL after the last one. */
const struct rule *reach_rule(size_t index);

/* Return the rule that explains the failure, or NULL. */
const struct rule *reach_classify(const struct evidence *evidence);

/*
 * Report reach_classify()'s rule as a failed finding, in place of the first failure so far, and
 * return true. If there is no rule, report that as a failed finding, and return false.
 */
bool reach_report(struct findings *findings, const struct evidence *evidence);

/*
 * Report findings->found as a finding of step "reach", with all known facts. If `rule` is not NULL,
 * add its name and its causes.
 */
void reach_report_facts(struct findings *findings, const struct evidence *evidence,
			const struct rule *rule, bool good);

/* Report that the address answers, and the facts that show it. */
void reach_report_good(struct findings *findings, const struct evidence *evidence);

/*
 * If the programs that listen on this host are known, report them and related facts, for the user
 * of the other host.
 */
void reach_report_listeners(struct findings *findings, const struct evidence *evidence);

#endif
