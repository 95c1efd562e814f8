// SPDX-License-Identifier: MIT
#include "findings.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../json.h"
#include "../process.h"

/* ---- The object of an interrupted check ---- */

/* Maximum time, in milliseconds, until a signal's handler can write the next piece. */
#define LAST_WORDS_MILLISECONDS 1000

/* The line that a signal's handler prints. */
struct last_words {
	size_t size;
	char *status; /* three digits in `text`, which the handler sets */
	char text[];
};

/* Static, because a handler uses it. NULL if no findings are held. */
static struct last_words *_Atomic last_words;

/* Write the last words. Give up if nothing reads standard output. Async-signal-safe. */
static void write_last_words(int signal_number)
{
	struct last_words *words = atomic_load(&last_words);
	struct pollfd ready = { .fd = STDOUT_FILENO, .events = POLLOUT };
	const int status = 128 + signal_number;
	size_t done = 0;

	if (!words)
		return;
	words->status[0] = (char)('0' + status / 100);
	words->status[1] = (char)('0' + status / 10 % 10);
	words->status[2] = (char)('0' + status % 10);
	while (done < words->size && poll(&ready, 1, LAST_WORDS_MILLISECONDS) > 0) {
		size_t rest = words->size - done;
		/* after POLLOUT a pipe takes PIPE_BUF bytes without blocking (pipe(7)) */
		ssize_t count =
			write(STDOUT_FILENO, words->text + done, rest < PIPE_BUF ? rest : PIPE_BUF);

		if (count < 0)
			return;
		done += (size_t)count;
	}
}

/* Let the last words be findings->all with a status. If memory runs out, keep the earlier ones. */
static void keep_last_words(struct findings *findings)
{
	static const char key[] = "\"status\": 128"; /* the status of a finding is a text */
	struct last_words *words;
	const char *line;

	json_add_status(findings->all, STATUS_INTERRUPTED, 0);
	json_add_text(findings->all, "error", status_describe(STATUS_INTERRUPTED));
	line = json_line(findings->all);
	words = line && strstr(line, key) ? malloc(sizeof(*words) + strlen(line) + 2) : NULL;
	if (words) {
		words->size = strlen(line) + 1;
		words->status = words->text + (strstr(line, key) - line) + sizeof(key) - 4;
		memcpy(words->text, line, words->size - 1);
		words->text[words->size - 1] = '\n';
		/* a handler of this thread sees either the old words or the new ones */
		free(atomic_exchange(&last_words, words));
	}
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

/* Note the first failure: its cause without a list of causes, and the first thing to do. */
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
