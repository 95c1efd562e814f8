// SPDX-License-Identifier: MIT
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/param.h>

#include <arpa/inet.h>

#include "../json.h"
#include "../log.h"
#include "../reasons.h"
#include "host.h"
#include "reach.h"

/*
 * First of UNUSED_PORTS ports that are probably unused: no service is registered for them. Some
 * systems choose source ports from this range, so one of them may be in use.
 */
#define UNUSED_PORT  47893
#define UNUSED_PORTS 4
/*
 * Maximum timeout, in seconds, of a request that explains a failed one. The kernel repeats a lost
 * request after 4 s, so one repetition is in time.
 */
#define CONTROL_SECONDS 6

void check_init(struct check *check, const struct options *options, const struct process *process)
{
	memset(check, 0, sizeof(*check));
	check->options = options;
	check->process = process;
	findings_init(&check->findings, process->console, options->json);
	json_add_peer(check->findings.all, options->address, options->port);
	if (options->json)
		findings_hold(&check->findings);
	check->devices.findings = &check->findings;
	check->path.options = options;
	check->path.findings = &check->findings;
	check->path.devices = &check->devices;
	check->path.evidence = &check->evidence;
	probe_init(&check->probe, options, process, &check->findings, &check->path);
}

/* If a step was good, forget the first failure before it. Return `good`. */
static bool forgive(struct check *check, bool good)
{
	if (good)
		check->findings.first_failure.length = 0;
	return good;
}

/* Collect facts, and report the rule that holds. If none does, report that if `required`. */
static void explain(struct check *check, bool required)
{
	evidence_set(&check->evidence, FACT_port,
		     check->options->port ? check->options->port
					  : check->evidence.facts[FACT_control_port]);
	path_collect_evidence(&check->path);
	if (!required && !reach_classify(&check->evidence))
		return;
	check->explained = reach_report(&check->findings, &check->evidence);
}

/* Explain why no session can be tried. If a path is usable, the memory was not registered. */
static void explain_path(struct check *check, bool usable)
{
	if (usable) {
		evidence_set(&check->evidence, FACT_memory, "failed");
		evidence_set_error(&check->evidence, FACT_error, check->devices.memory_error);
	}
	if (check->devices.view.device_count == 0)
		evidence_set_error(&check->evidence, FACT_error,
				   check->devices.error ? check->devices.error : ENODEV);
	explain(check, false);
}

enum status check_path(struct check *check)
{
	const bool to_address = check->options->address;
	bool usable = forgive(check, devices_check(&check->devices, !to_address));
	bool limited = false, enough;

	if (to_address)
		usable = forgive(check, path_look_up(&check->path) &&
						path_find_next(&check->path) && usable);
	else
		limited = host_examine("", &check->devices.view, &check->findings);
	if (usable && check->devices.memory_error) /* a memory error outranks this host's limits */
		check->findings.first_failure.length = 0;
	enough = devices_check_memory(&check->devices);
	if (!to_address && usable) {
		devices_describe_addresses(&check->devices, &check->findings.found);
		if (check->findings.found.length > 0)
			reach_report_facts(&check->findings, &check->evidence, NULL, true);
	}
	if (!usable || !enough) {
		explain_path(check, usable);
		return usable ? STATUS_LOCAL_FAILURE : STATUS_UNRESOLVED;
	}
	return limited ? STATUS_TOO_SLOW : STATUS_SUCCESS;
}

/* ---- One request ---- */

/*
 * Set a fact to the answer to the latest connect request. If FACT_request becomes a rejection
 * reason, set FACT_reason, too.
 */
static void set_answer(struct check *check, enum fact fact)
{
	const struct outcome *outcome = check->probe.outcome;
	const char *reason = rejection_describe(outcome->connect_status);
	bool answered = outcome->connected || outcome->rejection.hello_kind != HELLO_ABSENT;

	evidence_set(&check->evidence, fact,
		     answered                                   ? "answered"
		     : outcome->end.status == STATUS_TIMED_OUT  ? "silent"
		     : outcome->connect_status == -ECONNREFUSED ? "refused"
								: "failed");
	if (answered || outcome->connect_status <= 0)
		return;
	evidence_set_number(&check->evidence, fact, (uint64_t)outcome->connect_status);
	if (fact == FACT_request)
		evidence_set(&check->evidence, FACT_reason, reason ? reason : "unknown");
}

/*
 * Send a connect request to a port, and set a fact to the answer. Return false if no session ran,
 * or a signal arrived.
 */
static bool send_request(struct check *check, enum fact fact, uint16_t port)
{
	struct probe *probe = &check->probe;
	/* struct sockaddr_in6 has the port at the same place */
	struct sockaddr_in *address = (void *)check->path.address->ai_addr;
	in_port_t before = address->sin_port;

	address->sin_port = htons(port);
	probe->session.pattern_size = probe->session.wanted = 1;
	probe->session.connections = 1;
	probe->start = 0;
	probe->outcome_count = 0;
	probe->run(probe, probe->argument);
	address->sin_port = before;
	if (probe->outcome_count == 0 || check->process->signal_number)
		return false;
	set_answer(check, fact);
	return true;
}

/*
 * Call send_request() for UNUSED_PORTS ports, until no program answers on one. Set
 * FACT_control_port to the last port. Return false like send_request().
 */
static bool send_to_unused(struct check *check, enum fact fact)
{
	for (unsigned int i = 0; i < UNUSED_PORTS; i++) {
		uint16_t port = (uint16_t)(UNUSED_PORT + i);

		if (!send_request(check, fact, port))
			return false;
		evidence_set_number(&check->evidence, FACT_control_port, port);
		if (!evidence_is(&check->evidence, fact, "answered"))
			return true;
	}
	return true;
}

/*
 * If no request with --tos was answered, send one without it. If that is answered, repeat one with
 * it: the path may have been down during the earlier ones. Return false like send_request().
 */
static bool try_other_class(struct check *check)
{
	const enum fact repeated = check->options->port ? FACT_control : FACT_again;
	struct options *session = &check->probe.session;

	if (reach_holds(&check->evidence, "control!=silent|failed") ||
	    check->options->tos == DEFAULT_TOS)
		return true;
	session->tos = DEFAULT_TOS;
	if (!send_to_unused(check, FACT_plain))
		return false;
	session->tos = check->options->tos;
	return !reach_holds(&check->evidence, "plain!=silent|failed") ||
	       send_to_unused(check, repeated);
}

/* Find out by more requests and UDP datagrams why a request failed, and report the reason. */
static void explain_request(struct check *check)
{
	const struct sockaddr_in *address = (void *)check->path.address->ai_addr;
	bool silent = evidence_is(&check->evidence, FACT_request, "silent");
	struct options *session = &check->probe.session;

	session->timeout_seconds = MIN(session->timeout_seconds, CONTROL_SECONDS);
	if (check->options->port && silent && !send_to_unused(check, FACT_control))
		return;
	if (silent && !try_other_class(check))
		return;
	/* the path may have been down only during the first request */
	if (reach_holds(&check->evidence, "control!=silent|failed") &&
	    !send_request(check, FACT_again, ntohs(address->sin_port)))
		return;
	unblock_ending_signals();
	evidence_try_udp(&check->evidence, &check->path.flow);
	explain(check, true);
	block_ending_signals();
}

/*
 * Send requests to unused ports of the host's addresses in turn. Return STATUS_SUCCESS if one is
 * answered. Otherwise report why, and return the status of the last request.
 */
static enum status reach_address(struct check *check)
{
	enum status status;
	bool more;

	do {
		if (!send_to_unused(check, FACT_request))
			return check->process->signal_number ? STATUS_INTERRUPTED
							     : STATUS_LOCAL_FAILURE;
		if (reach_holds(&check->evidence, "request=8|refused|answered")) {
			reach_report_good(&check->findings, &check->evidence);
			return STATUS_SUCCESS;
		}
		status = check->probe.outcome->end.status;
		unblock_ending_signals();
		more = check->path.untried && path_find_next(&check->path);
		block_ending_signals();
	} while (more);
	if (status == STATUS_REFUSED || status == STATUS_TIMED_OUT || status == STATUS_PEER_LOST) {
		explain_request(check);
	} else {
		strbuf_addf(&check->findings.found, "the connect request failed: %s",
			    check->probe.outcome->end.cause);
		reach_report_facts(&check->findings, &check->evidence, NULL, false);
	}
	return status;
}

enum status check_reach(struct check *check, enum status status, session_function run,
			void *argument)
{
	struct probe *probe = &check->probe;

	probe->run = run;
	probe->argument = argument;
	if (!check->options->port) {
		status = reach_address(check);
		if (status != STATUS_INTERRUPTED) {
			evidence_collect_listeners(&check->evidence, &check->path.flow);
			reach_report_listeners(&check->findings, &check->evidence);
		}
	} else if (probe_is_unreached(probe)) {
		set_answer(check, FACT_request);
		explain_request(check);
	} else if (probe_lacks_bytes(probe)) {
		evidence_set(&check->evidence, FACT_request, "answered");
		explain(check, false);
	}
	return check->process->signal_number ? STATUS_INTERRUPTED : status;
}

/* ---- The end ---- */

static void print_ready(const struct check *check)
{
	struct console *console = check->process->console;
	bool own = evidence_is(&check->evidence, FACT_own_address, "yes");

	if (!check->options->address)
		print_result(console, "Ready. Examine the path to another host next:\n"
				      "  rdma-client --check ADDRESS");
	else
		print_result(console,
			     "Ready. If no rdma-server runs on %s yet, start one. Go on here with "
			     "the PORT that it prints:\n"
			     "  rdma-client --check %s PORT",
			     own ? "this host" : check->options->address, check->options->address);
}

/* Return the reason for the status, from a message or a finding. Return NULL for success. */
static const char *cause_of(const struct check *check, enum status status)
{
	if (status == STATUS_SUCCESS)
		return NULL;
	if (check->explained && status != STATUS_INTERRUPTED)
		return check->findings.first_failure.text;
	if (check->probe.failure.cause[0])
		return check->probe.failure.cause;
	if (check->process->failure[0])
		return check->process->failure;
	return status != STATUS_INTERRUPTED && check->findings.first_failure.length > 0
		       ? check->findings.first_failure.text
		       : status_describe(status);
}

static void print_failure(const struct check *check, enum status status)
{
	const struct findings *findings = &check->findings;
	const char *cause = cause_of(check, status);
	bool found = findings->first_failure.length > 0;

	print_result(check->process->console, "Not ready: %s%s%s",
		     cause == findings->first_failure.text ? findings->cause.text : cause,
		     found && findings->next.length > 0 ? "; next: " : "",
		     found ? findings->next.text : "");
}

enum status check_finish(struct check *check, enum status status)
{
	struct json_object *findings = check->findings.all;

	if (check->options->port)
		status = probe_report_counters(&check->probe, status);
	path_release(&check->path);
	devices_release(&check->devices);
	json_add_status(findings, status, check->process->signal_number);
	json_add_text(findings, "error", cause_of(check, status));
	if (check->options->json) {
		findings_release();
		print_json(check->process->console, findings);
	} else {
		if (check->options->port && probe_print_end(&check->probe, status))
			;
		else if (status == STATUS_SUCCESS)
			print_ready(check);
		else if (status != STATUS_INTERRUPTED)
			print_failure(check, status);
		json_object_put(findings);
	}
	check->findings.all = NULL;
	return status;
}
