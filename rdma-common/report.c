// SPDX-License-Identifier: MIT
#include "report.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#define NANOSECONDS_PER_SECOND 1e9

/* ---- Figures ---- */

/* Rates of a session's operation; zero where nothing was measured. */
struct rates {
	double seconds, bytes_per_second, operations_per_second;
};

static struct rates calculate_rates(const struct report *report)
{
	struct rates rates = { 0 };

	if (!report->operations || report->nanoseconds <= 0)
		return rates;
	rates.seconds = (double)report->nanoseconds / NANOSECONDS_PER_SECOND;
	rates.bytes_per_second = (double)report->bytes / rates.seconds;
	rates.operations_per_second = (double)report->operations / rates.seconds;
	return rates;
}

static void print_figures(const struct log *log, const struct report *report)
{
	const struct rates rates = calculate_rates(report);
	const struct latency *latency = report->latency;

	if (report->operations)
		print_status(log,
			     "%s %" PRIu64 " bytes in %" PRIu64 " operations and %.6f s: "
			     "%.2f MB/s (%.2f MiB/s, %.3f Gbit/s), %.0f operations/s",
			     log->console->options->operation == OPERATION_WRITE ? "wrote" : "read",
			     report->bytes, report->operations, rates.seconds,
			     rates.bytes_per_second / 1e6, rates.bytes_per_second / 1048576,
			     rates.bytes_per_second * 8 / 1e9, rates.operations_per_second);
	if (report->operations)
		print_status(log,
			     "measured with one queue pair, work requests of at most %" PRIu64
			     " bytes, and at most %u of them outstanding",
			     report->request_bytes, report->depth);
	if (latency && latency->total)
		print_status(log,
			     "latency in us: minimum %.2f, median %.2f, 99th percentile %.2f, "
			     "99.9th %.2f, maximum %.2f",
			     (double)latency->minimum / 1e3,
			     (double)latency_quantile(latency, 0.5) / 1e3,
			     (double)latency_quantile(latency, 0.99) / 1e3,
			     (double)latency_quantile(latency, 0.999) / 1e3,
			     (double)latency->maximum / 1e3);
	print_status(log,
		     "digests took %.6f s for the outgoing payload, %.6f s for the incoming "
		     "payload",
		     (double)report->outgoing_digest_nanoseconds / NANOSECONDS_PER_SECOND,
		     (double)report->verification_nanoseconds / NANOSECONDS_PER_SECOND);
}

/* What the port's counters of errors say; nothing where it has none. */
static void print_counters(const struct log *log, const struct report *report)
{
	bool clean = true;

	if (!report->before || !report->before->any || !report->after->any)
		return;
	for (unsigned int i = 0; counter_name(i); i++) {
		uint64_t growth = counter_growth(report->before, report->after, i);

		if (growth == 0)
			continue;
		print_status(log, "counted by %s meanwhile: %s %" PRIu64, report->device,
			     counter_name(i), growth);
		clean = false;
	}
	if (clean)
		print_status(log, "no errors counted by %s", report->device);
}

/* ---- JSON ---- */

static void add_count(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

/* A number that is null where nothing was measured. */
static void add_number(struct json_object *object, const char *key, double value, bool known)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", value); /* more digits were not measured */
	json_object_object_add(object, key, known ? json_object_new_double_s(value, text) : NULL);
}

static void add_latency(struct json_object *object, const struct latency *latency)
{
	struct json_object *inner;

	if (!latency || !latency->total) {
		json_object_object_add(object, "latency_us", NULL);
		return;
	}
	inner = json_object_new_object();
	add_number(inner, "min", (double)latency->minimum / 1e3, true);
	add_number(inner, "p50", (double)latency_quantile(latency, 0.5) / 1e3, true);
	add_number(inner, "p99", (double)latency_quantile(latency, 0.99) / 1e3, true);
	add_number(inner, "p999", (double)latency_quantile(latency, 0.999) / 1e3, true);
	add_number(inner, "max", (double)latency->maximum / 1e3, true);
	json_object_object_add(object, "latency_us", inner);
}

/* The counters that have grown, by how much; null where the port has none. */
static void add_counters(struct json_object *object, const struct report *report)
{
	struct json_object *inner = NULL;

	if (report->before && report->before->any && report->after->any)
		inner = json_object_new_object();
	for (unsigned int i = 0; inner && counter_name(i); i++) {
		uint64_t growth = counter_growth(report->before, report->after, i);

		if (growth > 0)
			add_count(inner, counter_name(i), growth);
	}
	json_object_object_add(object, "errors_counted", inner);
}

void report_json(const struct log *log, const struct report *report)
{
	const struct options *options = log->console->options;
	const struct rates rates = calculate_rates(report);
	bool measured = rates.seconds > 0;
	struct json_object *object;

	if (!options->json)
		return;
	object = json_object_new_object();
	json_add_text(object, "role", options->role == ROLE_CLIENT ? "client" : "server");
	json_add_text(object, "operation", operation_name(options->operation));
	json_add_text(object, "transport", report->transport);
	json_add_text(object, "device", report->device);
	json_object_object_add(object, "tos",
			       report->tos >= 0 ? json_object_new_int(report->tos) : NULL);
	add_count(object, "bytes", report->bytes);
	add_count(object, "operations", report->operations);
	add_number(object, "seconds", rates.seconds, measured);
	add_number(object, "bytes_per_second", rates.bytes_per_second, measured);
	add_number(object, "bits_per_second", rates.bytes_per_second * 8, measured);
	add_number(object, "ops_per_second", rates.operations_per_second, measured);
	add_count(object, "request_bytes", report->request_bytes);
	add_count(object, "depth", report->depth);
	add_latency(object, report->latency);
	add_count(object, "received_bytes", report->received_bytes);
	json_object_object_add(object, "verified", json_object_new_boolean(report->verified));
	add_count(object, "verified_bytes", report->verified_bytes);
	add_counters(object, report);
	json_add_status(object, report->status, report->signal_number);
	json_add_text(object, "error", report->status == STATUS_SUCCESS ? NULL : report->cause);
	print_json(log->console, object);
	json_object_put(object);
}

/* ---- The end of a session ---- */

void report_session(const struct log *log, const struct report *report)
{
	const struct options *options = log->console->options;

	if (report->disconnected)
		print_status(log,
			     options->role == ROLE_CLIENT ? "disconnected." : "peer disconnected.");
	if (prints_figures(options) && report->connected) {
		print_figures(log, report);
		print_counters(log, report);
	}
	if (report->unfinished_sends || report->unfinished_receives)
		print_trace(log, "%" PRIu64 " sends and %u receives never completed",
			    report->unfinished_sends, report->unfinished_receives);
	console_draw(log->console, "");
	if (report->status != STATUS_SUCCESS)
		print_failure(log, report->peer, report->cause);
}
