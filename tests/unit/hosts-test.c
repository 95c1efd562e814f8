// SPDX-License-Identifier: MIT
/*
 * Run --check on the recorded hosts of tests/hosts/, one row for each. The rules and the steps are
 * those of the program. The host's files, the kernel and the RDMA libraries are recorded.
 *
 * 'build/unit/hosts-test FILE...' runs it on other recorded hosts.
 */
#include <ctype.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <sys/mman.h>

#include "rdma-common/check/check.h"

#include "unit.h"
#include "folder.h"
#include "host-record.h"
#include "host-kernel.h"
#include "host-verbs.h"

/* Maximum share of fields that the source of a host lacks: one of this number. */
#define ASSUMED_SHARE 4

/* Name of the row with all healthy hosts. */
#define ANSWERS_ROW "each_answer_to_a_healthy_host_has_a_rule_of_B_or_C"

/* File with the names of the rows that must fail, because the program is still wrong. */
static char disagreements[PATH_MAX];

/* A run of --check. */
static struct {
	struct options options;
	struct console console;
	struct process process;
	struct check check;
	const struct record *answers; /* "request=8", ... of the other side */
	char output[1 << 16], lines[1 << 16];
} run;

/* ---- The other side ---- */

/* Return the fact that a connect request to this port determines. */
static const char *fact_of_request(const struct probe *probe, uint16_t port)
{
	if (run.options.port && port == strtoul(run.options.port, NULL, 10))
		return "request";
	if (probe->session.tos != run.options.tos)
		return "plain";
	return run.options.port ? "control" : "request";
}

static struct connection answer_of_request(const char *text)
{
	struct connection connection = { .connect_status = (int)strtol(text, NULL, 10) };
	enum status status = STATUS_REFUSED;

	if (!strcmp(text, "silent"))
		status = STATUS_TIMED_OUT;
	else if (!strcmp(text, "failed"))
		status = STATUS_LOCAL_FAILURE;
	else if (!strcmp(text, "refused"))
		connection.connect_status = -ECONNREFUSED;
	connection.rejected = connection.connect_status > 0;
	failure_set(&connection.outcome, status, "the answer is %s", text);
	return connection;
}

/* Answer a connect request as recorded. Without a record no program listens. */
static void answer_request(struct probe *probe, UNUSED void *argument)
{
	const struct sockaddr_in *address = (void *)probe->path->address->ai_addr;
	const char *fact = fact_of_request(probe, ntohs(address->sin_port));
	const char *text = value_in(run.answers, fact);
	struct rdma_cm_id id = { 0 };
	struct session session = { 0 };
	struct connection connection;

	if (!text)
		text = probe->path->iwarp ? "refused" : "8";
	connection = answer_of_request(text);
	connection.session = &session;
	connection.setup.id = &id;
	probe_take(probe, &connection);
}

static void set_udp_answers(const struct record *answers)
{
	memset(&udp, 0, sizeof(udp));
	udp.roce = value_in(answers, "udp_roce");
	udp.other = value_in(answers, "udp_other");
	udp.from = value_in(answers, "udp_from");
	udp.send_error = value_in(answers, "send_error");
}

/* ---- One run ---- */

static void set_arguments(const struct record *arguments)
{
	run.options = default_options(ROLE_CLIENT);
	run.options.check = true;
	run.options.timeout_seconds = 1;
	run.options.bind = value_in(arguments, "bind");
	for (size_t i = 1; arguments->words[i]; i++) {
		if (strchr(arguments->words[i], '='))
			continue;
		if (run.options.address)
			run.options.port = arguments->words[i];
		else
			run.options.address = arguments->words[i];
	}
}

/* Run the steps of --check in the order of rdma-client. Return its exit status. */
static enum status run_steps(void)
{
	enum status status;

	check_init(&run.check, &run.options, &run.process);
	status = check_path(&run.check);
	if (status == STATUS_SUCCESS && run.options.address) {
		if (run.options.port)
			status = probe_server(&run.check.probe, answer_request, NULL);
		if (status == STATUS_SUCCESS || run.options.port)
			status = check_reach(&run.check, status, answer_request, NULL);
	}
	return check_finish(&run.check, status);
}

/* Copy the output to run.lines, with one blank in place of several. */
static void join_blanks(void)
{
	char *to = run.lines;

	for (const char *from = run.output; *from; from++) {
		if (*from != ' ' || (to > run.lines && !strchr(" \n", to[-1])))
			*to++ = *from;
	}
	*to = '\0';
}

/* Run --check with these arguments and answers. Return its exit status. */
static enum status check_host(const struct record *arguments, const struct record *answers)
{
	int output = memfd_create("output", MFD_CLOEXEC);
	enum status status;
	bool failed;

	set_arguments(arguments);
	set_udp_answers(answers);
	run.answers = answers;
	console_init(&run.console, false);
	process_init(&run.process, &run.console);
	assert_int_equal(console_open(&run.console, output, output), 0);
	status = run_steps();
	assert_true(console_drain(&run.console, 10000, -1));
	assert_int_equal(console_close(&run.console, &failed), 0);
	memset(run.output, 0, sizeof(run.output));
	assert_true(pread(output, run.output, sizeof(run.output) - 1, 0) >= 0);
	close(output);
	join_blanks();
	return status;
}

/* ---- The expected result ---- */

static bool matches(const char *pattern, const char *line)
{
	return fnmatch(pattern, line, 0) == 0;
}

/* Return the pattern of an expected line, without the word that makes the line optional. */
static const char *pattern_of(const char *expected, bool *optional)
{
	*optional = !strncmp(expected, "may ", 4);
	return expected + (*optional ? 4 : 0);
}

/* Return true if a pattern of the trial matches the line. */
static bool is_expected(const struct trial *trial, const char *line)
{
	bool optional;

	for (size_t i = 0; i < trial->line_count; i++) {
		if (matches(pattern_of(trial->lines[i], &optional), line))
			return true;
	}
	return false;
}

static bool is_printed(const char *pattern, const char *lines)
{
	char copy[sizeof(run.lines)], *rest = copy;

	strcpy(copy, lines);
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (matches(pattern, line))
			return true;
	}
	return false;
}

/* Describe the first difference from the expected result; an empty text: none. */
static struct strbuf compare(const struct trial *trial, enum status status)
{
	char copy[sizeof(run.lines)], *rest = copy;
	struct strbuf text = { 0 };

	if ((long)status != trial->status) {
		strbuf_addf(&text, "status %d instead of %ld", status, trial->status);
		return text;
	}
	for (size_t i = 0; i < trial->line_count; i++) {
		bool optional;
		const char *pattern = pattern_of(trial->lines[i], &optional);

		if (!optional && !is_printed(pattern, run.lines)) {
			strbuf_addf(&text, "no line is '%s'", pattern);
			return text;
		}
	}
	strcpy(copy, run.lines);
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (!strncmp(line, "-> ", 3) && !is_expected(trial, line)) {
			strbuf_addf(&text, "an arrow that is not expected: %s", line);
			return text;
		}
	}
	return text;
}

static void print_words(const struct record *record, struct strbuf *text)
{
	for (size_t i = 0; record->words[i]; i++)
		strbuf_addf(text, "%s%s", i ? " " : "", record->words[i]);
}

/* Describe the first trial with another result than the expected one; an empty text: none. */
static struct strbuf compare_trials(void)
{
	struct strbuf text = { 0 };

	for (size_t i = 0; i < host.trial_count && text.length == 0; i++) {
		const struct trial *trial = &host.trials[i];
		enum status status = check_host(&trial->arguments, &trial->arguments);
		struct strbuf difference = compare(trial, status);

		if (difference.length == 0)
			continue;
		print_words(&trial->arguments, &text);
		strbuf_addf(&text, ": %s", difference.text);
	}
	return text;
}

/* ---- Healthy hosts ---- */

/*
 * Possible answers of the other side. No cause on a healthy host explains them, so each leads to a
 * rule that begins with B or C.
 */
static const char *const answers[] = {
	/* clang-format off */
	"roce ib request=8",
	"roce ib request=10",
	"roce ib request=28 udp_other=refused",
	"roce ib request=28 udp_other=prohibited",
	"roce ib request=28 udp_other=silent",
	"roce ib request=silent control=8",
	"roce request=silent control=silent udp_roce=silent udp_other=refused",
	"roce request=silent control=silent udp_roce=silent udp_other=silent",
	"roce request=silent control=silent udp_roce=silent udp_other=prohibited",
	"ib request=silent control=silent udp_roce=silent udp_other=refused",
	"ib request=silent control=silent udp_roce=silent udp_other=silent",
	"iwarp request=refused udp_roce=refused udp_other=refused",
	"iwarp request=silent control=refused",
	"iwarp request=silent control=silent udp_other=refused",
	"iwarp request=silent control=silent udp_other=silent",
	/* clang-format on */
};

/* Return true if the answer is possible over the transport of the last run. */
static bool is_possible(const struct record *answer)
{
	const char *transport = run.check.path.iwarp        ? "iwarp"
				: run.check.path.infiniband ? "ib"
							    : "roce";

	for (size_t i = 0; !strchr(answer->words[i], '='); i++) {
		if (!strcmp(answer->words[i], transport))
			return true;
	}
	return false;
}

/* Return true if a rule B or C is printed, or one that an optional line of the trial names. */
static bool is_explained(const struct trial *trial)
{
	bool optional, explained = is_printed("reach *([BC][0-9]*)", run.lines);

	for (size_t i = 0; i < trial->line_count && !explained; i++) {
		const char *pattern = pattern_of(trial->lines[i], &optional);

		explained = optional && is_printed(pattern, run.lines);
	}
	return explained;
}

/* Run --check with PORT and each possible answer. Describe the first wrong rule. */
static struct strbuf try_answers(const struct trial *trial)
{
	char port[] = "4711", copy[128];
	struct strbuf text = { 0 };
	struct record with_port = trial->arguments, answer;
	size_t count = 0;

	while (with_port.words[count])
		count++;
	assert_true(count < MAX_WORDS);
	with_port.words[count] = port;
	with_port.words[count + 1] = NULL;
	for (size_t i = 0; i < ENTRIES(answers); i++) {
		snprintf(copy, sizeof(copy), "%s", answers[i]);
		split_words(copy, &answer);
		if (!is_possible(&answer))
			continue;
		check_host(&with_port, &answer);
		if (is_explained(trial))
			continue;
		print_words(&trial->arguments, &text);
		strbuf_addf(&text, ": no rule begins with B or C for '%s'", answers[i]);
		return text;
	}
	return text;
}

/* ---- Rows ---- */

static void assert_complete(const char *path)
{
	if (!host.source || !host.machine || host.trial_count == 0)
		fail_msg("%s: a head has 'source', 'machine' and 'check'", path);
	if (host.assumed * ASSUMED_SHARE > host.fields)
		fail_msg("%s: %u of %u fields are assumed", path, host.assumed, host.fields);
}

static void begin_host(const char *path)
{
	host.loaded = false;
	assert_int_equal(empty_folder(NULL), 0);
	load_host(path);
	assert_complete(path);
}

/* Return true if the row is in the list of rows that must fail: the program is still wrong. */
static bool is_known_to_disagree(const char *name)
{
	FILE *file;
	char line[256];
	bool found = false;

	host.loaded = false;
	file = fopen(disagreements, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, name, strlen(name)) && isspace(line[strlen(name)]);
	if (file)
		fclose(file);
	return found;
}

/* End a row. A row that is known to disagree must do so, and counts as skipped. */
static void end_row(const char *name, const struct strbuf *difference)
{
	bool known = is_known_to_disagree(name);

	if (difference->length > 0)
		print_message("# %s: %s\n", name, difference->text);
	if (!known && difference->length > 0)
		fail_msg("%s", run.output);
	if (known && difference->length == 0)
		fail_msg("%s agrees now: remove it from %s", name, disagreements);
	if (known)
		skip();
}

static void check_row(void **state)
{
	const char *path = *state;
	struct strbuf difference;

	begin_host(path);
	difference = compare_trials();
	end_row(strrchr(path, '/') + 1, &difference);
}

/* Return true if the host can connect to the address of the trial. */
static bool connects(const struct trial *trial)
{
	bool address = false;

	for (size_t i = 1; trial->arguments.words[i]; i++)
		address |= !strchr(trial->arguments.words[i], '=');
	return address && trial->status == STATUS_SUCCESS;
}

/* Try each answer on each healthy host. */
static void check_answers(void **state)
{
	const glob_t *paths = *state;
	struct strbuf difference = { 0 };
	unsigned int count = 0;

	for (size_t i = 0; i < paths->gl_pathc && difference.length == 0; i++) {
		begin_host(paths->gl_pathv[i]);
		for (size_t j = 0; j < host.trial_count && difference.length == 0; j++) {
			if (!connects(&host.trials[j]))
				continue;
			check_host(&host.trials[j].arguments, &host.trials[j].arguments);
			difference = try_answers(&host.trials[j]);
			count++;
		}
	}
	if (count == 0)
		skip();
	end_row(ANSWERS_ROW, &difference);
}

static void assert_empty(UNUSED void **state)
{
	host.loaded = false;
	empty_folder(NULL);
	assert_no_files_or_descriptors_are_left();
}

/* Add files to the recorded hosts, with absolute paths: the tests change to another folder. */
static void find_hosts(glob_t *found, const char *here, const char *pattern)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", *pattern == '/' ? "" : here,
		 *pattern == '/' ? "" : "/", pattern);
	glob(path, found->gl_pathc ? GLOB_APPEND : 0, NULL, found);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[TESTS];
	char *here = get_current_dir_name();
	glob_t found = { 0 };
	size_t count = 0;

	snprintf(disagreements, sizeof(disagreements), "%s/tests/hosts/disagreements", here);
	if (argc < 2)
		find_hosts(&found, here, "tests/hosts/*.host");
	for (int i = 1; i < argc; i++)
		find_hosts(&found, here, argv[i]);
	free(here);
	for (; count < found.gl_pathc && count < TESTS - 2; count++)
		tests[count] = (struct CMUnitTest){ .name = strrchr(found.gl_pathv[count], '/') + 1,
						    .test_func = check_row,
						    .initial_state = found.gl_pathv[count] };
	if (count < found.gl_pathc || count == 0) {
		fprintf(stderr, "%zu recorded hosts; at most %d have a row\n", found.gl_pathc,
			TESTS - 2);
		return EXIT_FAILURE;
	}
	tests[count++] = (struct CMUnitTest){ .name = ANSWERS_ROW,
					      .test_func = check_answers,
					      .initial_state = &found };
	tests[count++] = (struct CMUnitTest){ .name = "no_files_or_descriptors_are_left",
					      .test_func = assert_empty };
	return _cmocka_run_group_tests("hosts-test", tests, count, enter_folder, NULL);
}
