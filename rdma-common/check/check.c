// SPDX-License-Identifier: MIT
#include "check.h"

#include <string.h>

#include "../json.h"
#include "../log.h"
#include "host.h"

void check_init(struct check *check, const struct options *options, const struct process *process)
{
	memset(check, 0, sizeof(*check));
	check->options = options;
	check->process = process;
	findings_init(&check->findings, process->console, options->json);
	json_add_peer(check->findings.all, options->address, options->port);
	check->devices.findings = &check->findings;
	check->path.options = options;
	check->path.findings = &check->findings;
	check->path.devices = &check->devices;
	probe_init(&check->probe, options, process, &check->findings, &check->path);
}

/* Whether a step is `good` in all: what is not good in it can be done without then. */
static bool forgive(struct check *check, bool good)
{
	if (good)
		check->findings.first_failure.length = 0;
	return good;
}

enum status check_path(struct check *check)
{
	const bool to_address = check->options->address;
	bool usable = forgive(check, devices_check(&check->devices, !to_address));
	bool limited = false;

	if (to_address)
		usable = forgive(check, path_look_up(&check->path) &&
						path_find_next(&check->path) && usable);
	else
		limited = host_examine("", &check->devices.view, &check->findings);
	devices_release(&check->devices);
	if (usable && check->devices.memory_error) /* counts for more than what limits this host */
		check->findings.first_failure.length = 0;
	if (!devices_check_memory(&check->devices) && usable)
		return STATUS_LOCAL_FAILURE;
	if (!usable)
		return STATUS_UNRESOLVED;
	return limited ? STATUS_TOO_SLOW : STATUS_SUCCESS;
}

/* The last line, when all is right. */
static void print_ready(const struct check *check)
{
	struct console *console = check->process->console;

	if (check->options->port)
		print_result(console, "Ready. All sizes arrived in both directions, verified.");
	else if (!check->options->address)
		print_result(console, "Ready. Examine the path to another host next:\n"
				      "  rdma-client --check ADDRESS");
	else
		print_result(console,
			     "Ready. Start 'rdma-server read' on the other host, then here:\n"
			     "  rdma-client read %s PORT",
			     check->options->address);
}

/* Why it ends with this status: what a message or a finding says; NULL: all is right. */
static const char *cause_of(const struct check *check, enum status status)
{
	if (status == STATUS_SUCCESS)
		return NULL;
	if (check->probe.failure.cause[0])
		return check->probe.failure.cause;
	if (check->process->failure[0])
		return check->process->failure;
	return status != STATUS_INTERRUPTED && check->findings.first_failure.length > 0
		       ? check->findings.first_failure.text
		       : status_describe(status);
}

enum status check_finish(struct check *check, enum status status)
{
	struct json_object *findings = check->findings.all;

	probe_report_counters(&check->probe);
	path_release(&check->path);
	json_add_status(findings, status, check->process->signal_number);
	json_add_text(findings, "error", cause_of(check, status));
	if (check->options->json) {
		print_json(check->process->console, findings);
	} else {
		if (status == STATUS_SUCCESS)
			print_ready(check);
		json_object_put(findings);
	}
	check->findings.all = NULL;
	return status;
}
