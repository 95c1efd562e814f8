// SPDX-License-Identifier: MIT
#include "report.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"

#define NANOSECONDS_PER_SECOND 1e9

/* ---- Figures ---- */

static struct speed speed_of(const struct session *session)
{
	return measurement_speed(&session->measurement, transfer_pass_length(&session->transfer),
				 transfer_has_operated(&session->transfer));
}

/* Return the name of the device, or NULL before query_limits(). */
static const char *known_device(const struct connection *connection)
{
	return connection->setup.terms.limits.transport ? connection->setup.device.text : NULL;
}

static void print_figures(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct session *session = connection_session(connection);
	const struct speed speed = speed_of(session);
	const struct measurement *measurement = &session->measurement;
	const struct latency *latency = measurement->latency;
	const struct log *log = &setup->log;
	bool writes = setup->options.operation == OPERATION_WRITE;

	if (speed.operations)
		print_status(log,
			     "%s %" PRIu64 " byte%s in %" PRIu64 " operation%s and %.6f s: "
			     "%.2f MB/s (%.2f MiB/s, %.3f Gbit/s), %.0f operations/s",
			     writes ? "wrote" : "read", measurement->bytes,
			     plural(measurement->bytes), speed.operations, plural(speed.operations),
			     speed.seconds, speed.bytes_per_second / 1e6,
			     speed.bytes_per_second / 1048576, speed.bytes_per_second * 8 / 1e9,
			     speed.operations_per_second);
	if (speed.operations)
		print_status(log,
			     "measured with one queue pair, work requests of at most %" PRIu64
			     " byte%s, and at most %u of them outstanding",
			     measurement->request_bytes, plural(measurement->request_bytes),
			     setup->terms.limits.depth);
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
		     "the digest of the outgoing payload took %.6f s, the verification of the "
		     "incoming one %.6f s",
		     (double)session->outgoing.nanoseconds / NANOSECONDS_PER_SECOND,
		     (double)session->incoming.verification.nanoseconds / NANOSECONDS_PER_SECOND);
}

static void print_counters(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct session *session = connection_session(connection);
	const struct counters growth = connection_growth(connection);
	const char *device = known_device(connection);
	const struct message *verdict = &session->peer_verdict;
	const struct strbuf errors = counters_compare(&growth, verdict->counted, verdict->errors);

	for (unsigned int i = 0; counter_name(i); i++) {
		if (growth.values[i] == 0)
			continue;
		print_status(&setup->log, "counted by %s during the session: %s %" PRIu64, device,
			     counter_name(i), growth.values[i]);
	}
	if (growth.any && errors.length > 0)
		print_status(&setup->log, "%s", errors.text);
}

/* ---- JSON ---- */

static void add_latency(struct json_object *object, const struct latency *latency)
{
	struct json_object *inner;

	if (!latency || !latency->total) {
		json_object_object_add(object, "latency_us", NULL);
		return;
	}
	inner = json_object_new_object();
	json_add_number(inner, "min", (double)latency->minimum / 1e3, true);
	json_add_number(inner, "p50", (double)latency_quantile(latency, 0.5) / 1e3, true);
	json_add_number(inner, "p99", (double)latency_quantile(latency, 0.99) / 1e3, true);
	json_add_number(inner, "p999", (double)latency_quantile(latency, 0.999) / 1e3, true);
	json_add_number(inner, "max", (double)latency->maximum / 1e3, true);
	json_object_object_add(object, "latency_us", inner);
}

/* Return true if only the client operates. Before connection_prepare(), only the option is set. */
static bool is_one_way(const struct setup *setup)
{
	return setup->options.one_way || setup->terms.one_way;
}

/* Return true if the peer sends a payload in this session. */
static bool expects_payload(const struct setup *setup)
{
	const struct options *options = &setup->options;

	return sends_payload(other_role(options->role), options->operation, is_one_way(setup));
}

static void add_incoming(struct json_object *object, const struct connection *connection)
{
	const struct session *session = connection_session(connection);
	const struct transfer_sink *sink = &session->transfer.sink;
	uint64_t length = sink->stream.plan.length, received = 0;
	bool verified = digest_matched(&session->protocol);

	if (verification_ended(&session->protocol))
		received = sink->stored < length ? sink->stored : length; /* count one pass only */
	json_add_count(object, "received_bytes", received);
	if (expects_payload(&connection->setup))
		json_add_flag(object, "verified", verified);
	else
		json_object_object_add(object, "verified", NULL);
	json_add_count(object, "verified_bytes",
		       verified ? session->incoming.verification.bytes : 0);
}

static void add_path(struct json_object *object, const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	struct endpoint local = { .port = "" };
	struct rdma_cm_id *id = setup->id;
	const char *device = NULL;
	unsigned int mtu = 0;

	if (id) {
		local = endpoint_of(rdma_get_local_addr(id));
		device = known_device(connection);
		mtu = path_mtu(id);
	}
	if (setup->peer.port[0])
		json_add_peer(object, setup->peer.address, setup->peer.port);
	else /* no session: use the client's command line */
		json_add_peer(object, options->address, options->address ? options->port : NULL);
	json_add_text(object, "local_address", local.port[0] ? local.address : NULL);
	json_add_text(object, "transport", setup->terms.limits.transport);
	json_add_text(object, "device", device);
	json_add_known(object, "path_mtu", mtu);
	json_add_number(object, "tos", setup->tos, setup->tos >= 0);
}

static void add_session_options(struct json_object *object, const struct connection *connection)
{
	const struct options *options = &connection->setup.options;

	json_add_known(object, "size", options->pattern_size);
	json_add_known(object, "iters", operation_passes(options));
	json_add_known(object, "duration", options->duration_seconds);
	json_add_flag(object, "one_way", is_one_way(&connection->setup));
	json_add_flag(object, "check", options->check);
	json_add_known(object, "min_rate", options->minimum_rate);
	json_add_known(object, "timeout", options->timeout_seconds);
}

static uint32_t queue_pair_number(const struct connection *connection)
{
	return connection->setup.id->qp ? connection->setup.id->qp->qp_num : 0;
}

void report_json(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct session *session = connection_session(connection);
	const struct options *options = &setup->options;
	const struct measurement *measurement = &session->measurement;
	const struct speed speed = speed_of(session);
	const struct counters growth = connection_growth(connection);
	bool measured = speed.seconds > 0, good = connection->outcome.status == STATUS_SUCCESS;
	struct json_object *object;

	if (!options->json)
		return;
	object = json_begin("session");
	json_add_text(object, "role", role_name(options->role));
	json_add_known(object, "session", setup->number);
	json_add_text(object, "operation", operation_name(options->operation));
	add_path(object, connection);
	add_session_options(object, connection);
	json_add_count(object, "bytes", measurement->bytes);
	json_add_count(object, "operations", speed.operations);
	json_add_number(object, "seconds", speed.seconds, measured);
	json_add_number(object, "bytes_per_second", speed.bytes_per_second, measured);
	json_add_number(object, "bits_per_second", speed.bytes_per_second * 8, measured);
	json_add_number(object, "ops_per_second", speed.operations_per_second, measured);
	json_add_count(object, "request_bytes", measurement->request_bytes);
	json_add_count(object, "depth", setup->terms.limits.depth);
	add_latency(object, measurement->latency);
	add_incoming(object, connection);
	json_add_counters(object, &growth);
	json_add_peer_errors(object, session->peer_verdict.counted, session->peer_verdict.errors);
	json_add_status(object, connection->outcome.status, setup->program->process.signal_number);
	json_add_text(object, "error", good ? NULL : connection->outcome.cause);
	if (options->connections > 1 && setup->id) {
		json_add_known(object, "source_port", source_port(setup->id));
		json_add_known(object, "queue_pair", queue_pair_number(connection));
	}
	print_json(setup->log.console, object);
}

void report_no_session(struct program *program, enum status status)
{
	struct connection none = {
		.setup = { .program = program,
			   .options = *program->options,
			   .log = program->log,
			   .tos = -1 },
	};

	failure_set(&none.outcome, status, "%s", program->process.failure);
	report_json(&none);
}

void report_listening(const struct program *program, uint16_t port)
{
	struct json_object *object;

	print_status(&program->log, "listening on port %u.", port);
	if (!program->options->json)
		return;
	object = json_begin("listening");
	json_add_text(object, "role", "server");
	json_add_count(object, "port", port);
	print_json(program->log.console, object);
}

/* ---- Several sessions at once ---- */

static struct strbuf describe_source_port(const struct connection *connection)
{
	return source_port_describe(source_port(connection->setup.id));
}

static double rate_of(const struct connection *connection)
{
	return measurement_rate(&connection_session(connection)->measurement);
}

void report_path(const struct connection *connection)
{
	print_status(&connection->setup.log, "%s, queue pair 0x%" PRIx32 ": %.3f Gbit/s, %s",
		     describe_source_port(connection).text, queue_pair_number(connection),
		     rate_of(connection) / 1e9,
		     connection->outcome.status == STATUS_SUCCESS ? "good" : "failed");
}

struct sum {
	unsigned int succeeded;
	uint64_t bytes; /* bytes of the operations, also of failed sessions */
	double seconds; /* time from the first start to the last completion. 0 if not measured. */
	/* among the sessions that succeeded or were too slow, or NULL */
	const struct connection *slowest, *fastest;
};

static struct sum add_up(const struct program *program)
{
	const struct connection *connection;
	int64_t started = INT64_MAX, completed = 0;
	struct sum sum = { 0 };

	for (connection = program->connections.first; connection; connection = connection->next) {
		const struct session *session = connection_session(connection);
		const struct measurement *measurement = &session->measurement;
		double rate = rate_of(connection);

		sum.succeeded += connection->outcome.status == STATUS_SUCCESS;
		sum.bytes += measurement->bytes;
		if (measurement->started && measurement->started < started)
			started = measurement->started;
		if (measurement->completed > completed)
			completed = measurement->completed;
		if (connection->outcome.status != STATUS_SUCCESS &&
		    connection->outcome.status != STATUS_TOO_SLOW)
			continue;
		if (!sum.slowest || rate < rate_of(sum.slowest))
			sum.slowest = connection;
		if (!sum.fastest || rate > rate_of(sum.fastest))
			sum.fastest = connection;
	}
	if (completed > started)
		sum.seconds = (double)(completed - started) / NANOSECONDS_PER_SECOND;
	return sum;
}

void report_sum(const struct program *program, enum status status)
{
	const struct sum sum = add_up(program);
	const struct connection *slowest = sum.slowest, *fastest = sum.fastest;
	const struct options *options = program->options;
	double rate = sum.seconds > 0 ? (double)sum.bytes * 8 / sum.seconds : 0;
	struct json_object *object;
	char text[128];

	snprintf(text, sizeof(text), "%u of %u sessions succeeded", sum.succeeded,
		 options->connections);
	print_status(&program->log, "%s: %" PRIu64 " byte%s in %.6f s, %.3f Gbit/s", text,
		     sum.bytes, plural(sum.bytes), sum.seconds, rate / 1e9);
	if (slowest)
		print_status(&program->log,
			     "slowest: [%u] %s, %.3f Gbit/s; fastest: [%u] %s, %.3f Gbit/s",
			     slowest->setup.number, describe_source_port(slowest).text,
			     rate_of(slowest) / 1e9, fastest->setup.number,
			     describe_source_port(fastest).text, rate_of(fastest) / 1e9);
	if (!options->json)
		return;
	object = json_begin("sum");
	json_add_text(object, "operation", operation_name(options->operation));
	json_add_known(object, "connections", options->connections);
	json_add_count(object, "succeeded", sum.succeeded);
	json_add_count(object, "bytes", sum.bytes);
	json_add_number(object, "seconds", sum.seconds, sum.seconds > 0);
	json_add_number(object, "bits_per_second", rate, sum.seconds > 0);
	json_add_known(object, "slowest", slowest ? slowest->setup.number : 0);
	json_add_known(object, "fastest", fastest ? fastest->setup.number : 0);
	json_add_status(object, status, program->process.signal_number);
	json_add_text(object, "error", status == STATUS_SUCCESS ? NULL : text);
	print_json(program->log.console, object);
}

/* ---- The end of a session ---- */

static void print_check(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct hello *client = &setup->terms.peer;
	bool writes = setup->options.operation == OPERATION_WRITE;
	struct log log = setup->log;
	char text[64];

	log.options = setup->program->options; /* print this without --verbose, too */
	if (client->passes != 1 || client->wanted_seconds > 0)
		snprintf(text, sizeof(text), "%s measured", writes ? "rate" : "latency");
	else
		snprintf(text, sizeof(text), "%" PRIu64 " byte%s", client->length,
			 plural(client->length));
	print_status(&log, "check from %s: %s, verified in both directions", setup->peer.address,
		     text);
}

void report_session(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct session *session = connection_session(connection);
	const struct options *options = &setup->options;
	const struct protocol *protocol = &session->protocol;
	const struct log *log = &setup->log;
	uint64_t sends = outstanding_sends(session);

	if (protocol->disconnected)
		print_status(log,
			     options->role == ROLE_CLIENT ? "disconnected." : "peer disconnected.");
	if (prints_figures(options) && protocol->connected) {
		print_figures(connection);
		print_counters(connection);
	}
	if (sends || session->outstanding_receives)
		print_trace(log, "%" PRIu64 " sends and %u receives never completed", sends,
			    session->outstanding_receives);
	if (connection->outcome.status == STATUS_SUCCESS && options->check &&
	    options->role == ROLE_SERVER)
		print_check(connection);
	if (connection->outcome.status != STATUS_SUCCESS)
		print_warning(log->console, "%s%s: %s", log->prefix, setup->peer.text,
			      connection->outcome.cause);
}
