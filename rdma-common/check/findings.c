// SPDX-License-Identifier: MIT
#include "findings.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "../json.h"
#include "../process.h"

/* ---- The object of an interrupted check ---- */

/* Time, in ms, that the signal's handler waits until standard output takes the next piece. */
#define LAST_WORDS_MILLISECONDS 1000

/*
 * Key of the check's status in the last words. A finding's status has the same key, but its value
 * begins with a quotation mark, not a digit.
 */
#define STATUS_KEY "\"status\": "

/*
 * The line that a signal's handler prints, with a status of three digits. NULL if no findings are
 * held. Static, because a signal's handler gets no pointer.
 */
static char *_Atomic last_words;

/*
 * Write the last words with the status of the signal. Give up if nothing reads standard output.
 * Async-signal-safe.
 */
static void write_last_words(int signal_number)
{
	struct pollfd ready = { .fd = STDOUT_FILENO, .events = POLLOUT };
	char *words = atomic_load(&last_words);
	char *status = words ? strstr(words, STATUS_KEY "1") : NULL;
	int number = 128 + signal_number;

	if (!status)
		return;
	for (size_t end = strlen(STATUS_KEY) + 3; end > strlen(STATUS_KEY); number /= 10)
		status[--end] = (char)('0' + number % 10);
	for (ssize_t count; *words && poll(&ready, 1, LAST_WORDS_MILLISECONDS) > 0;
	     words += count) {
		/* after POLLOUT a pipe takes PIPE_BUF bytes without blocking (pipe(7)) */
		count = write(STDOUT_FILENO, words, MIN(strlen(words), PIPE_BUF));
		if (count < 0)
			return;
	}
}

/* Make findings->all, with a status, the last words. If memory runs out, keep the earlier ones. */
static void keep_last_words(struct findings *findings)
{
	const char *line;
	char *words;

	json_add_status(findings->all, STATUS_INTERRUPTED, 0);
	json_add_text(findings->all, "error", status_describe(STATUS_INTERRUPTED));
	line = json_line(findings->all);
	/* a handler of this thread sees either the old words or the new ones */
	if (line && asprintf(&words, "%s\n", line) > 0)
		free(atomic_exchange(&last_words, words));
	json_object_object_del(findings->all, "status");
	json_object_object_del(findings->all, "error");
}

/* ---- Findings ---- */

void findings_init(struct findings *findings, struct console *console, bool json)
{
	memset(findings, 0, sizeof(*findings));
	findings->console = console;
	findings->json = json;
	findings->all = json_begin("check");
}

void findings_hold(struct findings *findings)
{
	keep_last_words(findings);
	process_before_end(write_last_words);
}

void findings_release(void)
{
	free(atomic_exchange(&last_words, NULL));
}

static struct json_object *add_object(struct findings *findings, const char *step, bool good)
{
	struct json_object *finding = json_object_new_object(), *all;

	json_add_text(finding, "status", good ? "ok" : "failed");
	json_add_text(finding, "text", findings->found.text);
	json_add_text(finding, "advice",
		      findings->advice.length > 0 ? findings->advice.text : NULL);
	if (!json_object_object_get_ex(findings->all, step, &all)) {
		all = json_object_new_array();
		json_object_object_add(findings->all, step, all);
	}
	json_object_array_add(all, finding);
	return finding;
}

/*
 * Keep the first failure: the whole text, the finding up to "; one of: ", and the advice up to the
 * first "; ".
 */
static void note_failure(struct findings *findings, const char *step)
{
	const char *found = findings->found.text, *advice = findings->advice.text;
	const char *list = strstr(found, "; one of: "), *more = strstr(advice, "; ");

	strbuf_addf(&findings->first_failure, "%s: %s%s%s", step, found, *advice ? "; " : "",
		    advice);
	findings->cause = findings->next = (struct strbuf){ 0 };
	if (strcmp(step, "reach") != 0)
		strbuf_addf(&findings->cause, "%s: ", step);
	strbuf_addf(&findings->cause, "%.*s", list ? (int)(list - found) : INT_MAX, found);
	strbuf_addf(&findings->next, "%.*s", more ? (int)(more - advice) : INT_MAX, advice);
}

bool findings_report(struct findings *findings, const char *step, bool good)
{
	if (!good && findings->first_failure.length == 0)
		note_failure(findings, step);
	findings->latest = add_object(findings, step, good);
	if (atomic_load(&last_words))
		keep_last_words(findings);
	if (!findings->json)
		print_result(findings->console, "%-11s %s", step, findings->found.text);
	if (!findings->json && findings->advice.length > 0)
		print_result(findings->console, "  -> %s", findings->advice.text);
	findings->found = findings->advice = (struct strbuf){ 0 };
	return good;
}
