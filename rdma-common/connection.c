// SPDX-License-Identifier: MIT
#include "connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "thread.h"

/* ---- Creating and destroying ---- */

static void setup_init(struct setup *setup, struct program *program, struct rdma_cm_id *id,
		       const struct options *options)
{
	bool alone = atomic_load(&program->regions.sessions) == 0 && options->connections <= 1;

	setup->program = program;
	setup->options = *options;
	setup->id = id;
	setup->number = program->created;
	setup->tos = -1;
	/* in a session of --check a server sends a pattern instead of its own payload */
	setup->payload = options->check ? payload_pattern(options->pattern_size) : program->payload;
	setup->terms.options = &setup->options;
	setup->terms.outgoing_length = setup->payload.length;
	setup->log = program->log;
	setup->log.options = &setup->options; /* sessions of --check print less */
	if (!alone)
		snprintf(setup->log.prefix, sizeof(setup->log.prefix), "[%u] ", setup->number);
	setup->owner = (struct region_owner){ .account = &program->regions,
					      .terms = &setup->terms,
					      .log = &setup->log };
}

static void link_connection(struct program *program, struct connection *connection)
{
	struct connection *last = program->connections.last;

	connection->previous = last;
	if (last)
		last->next = connection;
	else
		program->connections.first = connection;
	program->connections.last = connection;
}

static void unlink_connection(struct program *program, const struct connection *connection)
{
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		program->connections.first = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	else
		program->connections.last = connection->previous;
}

struct connection *connection_create(struct program *program, struct rdma_cm_id *id,
				     const struct options *options, const struct sockaddr *peer)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	program->created++;
	if (!connection) {
		process_fail(&program->process, STATUS_LOCAL_FAILURE,
			     "cannot allocate memory for another connection: %s", strerror(errno));
		if (options->role == ROLE_SERVER)
			reject_request(id, options, REFUSAL_MEMORY);
		rdma_destroy_id(id);
		return NULL;
	}
	setup_init(&connection->setup, program, id, options);
	connection->setup.peer = endpoint_of(peer);
	connection->shared.wake = -1;
	connection->setup_refusal = REFUSAL_SETUP; /* a later step may set a more exact reason */
	id->context = connection;
	link_connection(program, connection);
	atomic_fetch_add(&program->regions.sessions, 1);
	connection_extend_deadline(connection);
	return connection;
}

/* Free a session whose thread does not run. */
static void session_destroy(struct session *session)
{
	outgoing_free(&session->outgoing);
	incoming_free(&session->incoming);
	free(session->measurement.latency);
	free(session->batch);
	free(session);
}

void connection_destroy(struct connection *connection)
{
	struct setup *setup = &connection->setup;
	struct console *console = setup->log.console;
	bool stranded; /* the completion queue remains and may refer to this connection */
	int error;

	unlink_connection(setup->program, connection);
	atomic_fetch_sub(&setup->program->regions.sessions, 1);
	if (setup->id->qp)
		rdma_destroy_qp(setup->id);
	error = setup->cq ? verb_error(ibv_destroy_cq(setup->cq)) : 0;
	stranded = error;
	if (error)
		print_warning(console, "cannot destroy a completion queue: %s", strerror(error));
	error = setup->channel && !stranded ? verb_error(ibv_destroy_comp_channel(setup->channel))
					    : 0;
	if (error)
		print_warning(console, "cannot destroy a completion channel: %s", strerror(error));
	region_destroy(&setup->owner, &setup->incoming_ring);
	region_destroy(&setup->owner, &setup->outgoing_ring);
	region_destroy(&setup->owner, &setup->control);
	error = setup->owner.pd ? verb_error(ibv_dealloc_pd(setup->owner.pd)) : 0;
	if (error)
		print_warning(console, "cannot free a protection domain: %s", strerror(error));
	setup->id->context = NULL; /* if the id remains, its late events are ignored */
	if (rdma_destroy_id(setup->id))
		print_warning(console, "cannot destroy a connection identifier: %s",
			      strerror(errno));
	if (connection->shared.wake >= 0)
		close(connection->shared.wake);
	if (connection->session)
		session_destroy(connection->session);
	if (!stranded)
		free(connection);
}

enum status connection_set_tos(struct connection *connection)
{
	if (!set_type_of_service(connection->setup.id, &connection->setup.options))
		return STATUS_SUCCESS;
	return connection_fail(connection, STATUS_LOCAL_FAILURE, "cannot set --tos: %s",
			       strerror(errno));
}

/* ---- Preparing ---- */

static enum status create_channels(struct connection *connection, struct failure *failure)
{
	struct setup *setup = &connection->setup;
	struct ibv_context *verbs = setup->id->verbs;

	connection->shared.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (connection->shared.wake < 0)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot open a descriptor for the session: %s",
				   descriptor_error(errno).text);
	setup->channel = ibv_create_comp_channel(verbs);
	if (!setup->channel)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "ibv_create_comp_channel failed: %s",
				   descriptor_error(errno).text);
	if (make_nonblocking(setup->channel->fd) ||
	    process_watch_device(&setup->program->process, verbs))
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot wait for events of RDMA device %s: %s",
				   device_name(verbs->device).text, strerror(errno));
	return STATUS_SUCCESS;
}

static enum status create_queues(struct connection *connection, struct failure *failure)
{
	struct setup *setup = &connection->setup;
	struct ibv_context *verbs = setup->id->verbs;
	unsigned int depth = setup->terms.limits.depth;
	int completions = (int)depth + MESSAGE_REQUESTS + RECEIVES;
	enum status status = create_channels(connection, failure);
	int error;

	if (status != STATUS_SUCCESS)
		return status;
	setup->owner.pd = ibv_alloc_pd(verbs);
	if (!setup->owner.pd)
		return creation_failed(failure, "ibv_alloc_pd", false);
	errno = 0;
	setup->cq = ibv_create_cq(verbs, completions, connection, setup->channel, 0);
	if (!setup->cq && errno)
		return creation_failed(failure, "ibv_create_cq", true);
	if (!setup->cq)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "ibv_create_cq failed, and the driver gives no reason; perhaps "
				   "the device has no completion queue left for this process: try "
				   "fewer sessions at a time");
	error = verb_error(ibv_req_notify_cq(setup->cq, 0));
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
				   strerror(error));
	if (create_queue_pair(setup->id, setup->owner.pd, setup->cq, connection,
			      &setup->terms.limits)) {
		connection->setup_error = errno;
		return creation_failed(failure, "rdma_create_qp", true);
	}
	if (setup->terms.limits.depth < depth)
		print_trace(&setup->log,
			    "the device accepts no queue pair of depth %u: using depth %u", depth,
			    setup->terms.limits.depth);
	print_trace(&setup->log, "rdma_create_qp: queue pair 0x%" PRIx32 ", %u bytes inline",
		    setup->id->qp->qp_num, setup->terms.limits.inline_size);
	return STATUS_SUCCESS;
}

static enum status create_messages(struct connection *connection, struct failure *failure)
{
	enum status status =
		register_control(&connection->setup.owner, &connection->setup.control, failure);

	if (status != STATUS_SUCCESS) {
		connection->setup_refusal = REFUSAL_MEMORY;
		return status;
	}
	return post_receives(&connection->setup, failure);
}

/* Return true if this side reports the counters of its port. */
static bool reports_counters(const struct options *options)
{
	return options->json || options->check || options->interval_seconds > 0 ||
	       prints_figures(options);
}

enum status connection_prepare(struct connection *connection, bool one_way)
{
	struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	struct limits *limits = &setup->terms.limits;
	struct rdma_cm_id *id = setup->id;
	struct failure failure;
	enum status status = query_limits(id, options, one_way, limits, &failure);

	setup->terms.one_way = one_way;
	setup->device = device_name(id->verbs->device);
	if (reports_counters(options))
		read_counters(setup, &setup->before);
	if (status == STATUS_SUCCESS) {
		print_trace(&setup->log, "device %s port %u: max_msg_sz %" PRIu32,
			    setup->device.text, id->port_num, limits->maximum_message);
		status = create_queues(connection, &failure);
	}
	if (status == STATUS_SUCCESS)
		status = create_messages(connection, &failure);
	if (status != STATUS_SUCCESS)
		connection_fail(connection, status, "%s", failure.cause);
	return status;
}

/* ---- Negotiating ---- */

/* Create the session, which the connection's thread owns later. */
static enum status create_session(struct connection *connection, struct failure *failure)
{
	const struct setup *setup = &connection->setup;
	struct session *session = calloc(1, sizeof(*session));

	if (!session) {
		connection->setup_refusal = REFUSAL_MEMORY;
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate memory for the session: %s", strerror(errno));
	}
	session->setup = setup;
	session->shared = &connection->shared;
	session->qp = setup->id->qp;
	session->cq = setup->cq;
	session->operates = setup->options.role == ROLE_CLIENT || !setup->terms.one_way;
	session->protocol = protocol_start(setup->options.role);
	session->clocks.operation_end = INT64_MAX;
	session->clocks.source_end = INT64_MAX;
	session->measurement.interval.end = INT64_MAX;
	session->armed = true;
	session->outstanding_receives = RECEIVES;
	connection->session = session;
	return STATUS_SUCCESS;
}

/*
 * Allocate the latency counts if they are reported. At a depth above 1 passes overlap, so no
 * latency is measured.
 */
static enum status create_latency(struct connection *connection, struct failure *failure)
{
	const struct options *options = &connection->setup.options;
	struct latency **latency = &connection->session->measurement.latency;

	if (connection->setup.terms.limits.depth > 1 || !(prints_figures(options) || options->json))
		return STATUS_SUCCESS;
	*latency = calloc(1, sizeof(**latency));
	if (!*latency)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate memory for latencies: %s", strerror(errno));
	return STATUS_SUCCESS;
}

/* Return the plan of both streams, without the sizes of the rings, which register_rings() sets. */
static struct transfer_plan plan_transfer(const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	const struct terms *terms = &setup->terms;
	bool writes = options->operation == OPERATION_WRITE;
	struct transfer_plan plan = {
		.writes = writes,
		.completes_early = terms->limits.iwarp,
		.depth = terms->limits.depth,
		.request_size = terms->limits.request_size,
		.credits = terms->verifying ? TRANSFER_CREDITS : 0,
		.outgoing = { .present = sends_payload(options->role, options->operation,
						       terms->one_way),
			      .length = setup->payload.length },
		.incoming = { .present = terms->incoming_length > 0,
			      .length = terms->incoming_length },
	};
	struct stream_plan *own = writes ? &plan.outgoing : &plan.incoming;
	struct stream_plan *other = writes ? &plan.incoming : &plan.outgoing;

	own->passes = operation_passes(options);
	other->passes = terms->peer.passes;
	return plan;
}

static enum status open_payloads(struct connection *connection, struct failure *failure)
{
	struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	const struct terms *terms = &setup->terms;
	const struct region *outgoing = &setup->outgoing_ring;

	connection->session->incoming = (struct incoming){
		.ring = setup->incoming_ring.memory,
		.ring_size = setup->incoming_ring.size,
		.output_taken = &setup->program->output_taken,
		.output = options->output,
		.limit = options->maximum_payload,
		.verification = { .is_pattern = terms->peer.flags & HELLO_PATTERN,
				  .has_digest = terms->verifying },
	};
	if (!outgoing->mr) /* this side sends no payload */
		return STATUS_SUCCESS;
	return outgoing_open(&connection->session->outgoing, &setup->payload, outgoing->memory,
			     outgoing->size, &setup->program->process, failure);
}

static enum status allocate(struct connection *connection, struct transfer_plan *plan,
			    struct failure *failure)
{
	struct setup *setup = &connection->setup;
	const struct region_owner *owner = &setup->owner;
	enum status status;

	*plan = plan_transfer(connection);
	status = register_rings(owner, &setup->outgoing_ring, &setup->incoming_ring, plan, failure);
	if (status == STATUS_SUCCESS)
		status = create_latency(connection, failure);
	if (status != STATUS_SUCCESS)
		connection->setup_refusal = REFUSAL_MEMORY;
	return status;
}

enum status connection_negotiate(struct connection *connection, const struct peer_hello *peer,
				 const struct cm_event *event)
{
	struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	struct transfer_plan plan;
	struct failure failure;
	enum status status = create_session(connection, &failure);

	if (status == STATUS_SUCCESS)
		status = negotiate(&setup->terms, peer, event, &failure);
	setup->tos = type_of_service(setup->id);
	if (setup->tos >= 0)
		print_trace(&setup->log, "type of service %d", setup->tos);
	if (status == STATUS_SUCCESS && options->operation == OPERATION_READ)
		print_trace(&setup->log, "at most %u READs outstanding", setup->terms.limits.depth);
	if (status == STATUS_SUCCESS)
		status = allocate(connection, &plan, &failure);
	if (status == STATUS_SUCCESS)
		status = open_payloads(connection, &failure);
	if (status == STATUS_SUCCESS && setup->terms.peer.flags & HELLO_COUNTS &&
	    !reports_counters(options))
		read_counters(setup, &setup->before);
	if (status != STATUS_SUCCESS)
		return connection_fail(connection, status, "%s", failure.cause);
	connection->session->protocol.verifying = setup->terms.verifying;
	transfer_init(&connection->session->transfer, &plan);
	return STATUS_SUCCESS;
}

static uint16_t hello_flags(const struct connection *connection, bool sends)
{
	const struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	const struct payload *payload = &setup->payload;
	unsigned int flags = 0;

	if (setup->terms.one_way)
		flags |= HELLO_ONE_WAY;
	if (payload->is_pattern)
		flags |= HELLO_PATTERN;
	if (sends && payload->length == LENGTH_UNKNOWN)
		flags |= HELLO_UNKNOWN;
	if (reports_counters(options))
		flags |= HELLO_COUNTS;
	return (uint16_t)flags;
}

struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE])
{
	const struct setup *setup = &connection->setup;
	const struct options *options = &setup->options;
	const struct payload *payload = &setup->payload;
	bool sends = sends_payload(options->role, options->operation, setup->terms.one_way);
	struct hello hello = {
		.version = HELLO_VERSION,
		.operation = (uint8_t)options->operation,
		.flags = hello_flags(connection, sends),
		.length = sends && payload->length != LENGTH_UNKNOWN ? payload->length : 0,
		.passes = operation_passes(options),
		.seconds = options->duration_seconds,
		.mtu = (uint8_t)setup->terms.limits.mtu,
		.wanted = options->wanted,
		.wanted_seconds = options->wanted_seconds,
	};

	snprintf(hello.device, sizeof(hello.device), "%.*s", (int)sizeof(hello.device) - 1,
		 setup->device.text);
	return connect_parameters(&setup->terms.limits, &hello, wire);
}

/* ---- Starting, or rejecting ---- */

enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...)
{
	struct failure *failure = &connection->setup.failure;
	va_list arguments;

	if (connection_is_over(connection)) /* the first reason counts */
		return status;
	failure->status = status;
	va_start(arguments, format);
	vsnprintf(failure->cause, sizeof(failure->cause), format, arguments);
	va_end(arguments);
	return status;
}

/* A thread that has not started yet finds the notification when it begins. */
static void notify_thread(struct connection *connection, enum notification notification)
{
	atomic_fetch_or(&connection->shared.notifications, notification);
	if (connection->running)
		eventfd_write(connection->shared.wake, 1);
}

/* Notify the connection's thread that the peer is lost. Without a thread, record the loss. */
static void notify_end(struct connection *connection, enum notification notification)
{
	if (connection->running)
		notify_thread(connection, notification);
	else
		connection_fail(connection, STATUS_PEER_LOST, "%s",
				status_describe(STATUS_PEER_LOST));
}

/*
 * Notify the connection's thread of a failure, unless it had the same notification before. Without
 * a thread, record the failure.
 */
static void notify_failure(struct connection *connection, enum notification notification,
			   const struct failure *failure)
{
	struct failure *shared = notification == NOTIFY_FAILED
					 ? &connection->shared.failure
					 : &connection->shared.not_established;

	if (!connection->running) {
		connection_fail(connection, failure->status, "%s", failure->cause);
	} else if (shared->status == STATUS_SUCCESS) {
		*shared = *failure;
		notify_thread(connection, notification);
	}
}

enum status connection_start(struct connection *connection)
{
	int error;

	if (!connection->session) /* create_session() has failed */
		return connection->setup.failure.status;
	error = start_thread(&connection->thread, session_run, connection->session);
	connection->running = !error;
	if (error)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot start a thread for the session: %s",
				       strerror(error));
	return STATUS_SUCCESS;
}

/*
 * Reject the peer with a reason. If that fails, the peer may have withdrawn. Record if this may
 * explain the failed setup call. Otherwise rdma_destroy_id(3) later rejects the peer without a
 * reason.
 */
static void reject(struct connection *connection, enum refusal refusal)
{
	struct setup *setup = &connection->setup;

	if (!reject_request(setup->id, &setup->options, refusal))
		return;
	print_trace(&setup->log, "rdma_reject: %s", strerror(errno));
	connection->withdrawn =
		may_mean_withdrawn(connection->setup_error, setup->terms.limits.iwarp);
}

static void fail_setup(struct connection *connection, int error)
{
	connection->setup_error = error;
	reject(connection, connection->setup_refusal);
}

void connection_fail_accept(struct connection *connection, int error)
{
	const struct terms *terms = &connection->setup.terms;
	struct failure failure;

	fail_setup(connection, error);
	accept_failed(connection->setup.id, &terms->limits, &terms->peer, error, &failure);
	notify_failure(connection, NOTIFY_FAILED, &failure);
}

void connection_reject(struct connection *connection, enum refusal refusal)
{
	connection_fail(connection, STATUS_REFUSED, "refused: %s", refusal_describe(refusal));
	reject(connection, refusal);
}

/* ---- Events ---- */

void connection_extend_deadline(struct connection *connection)
{
	connection->deadline =
		now_milliseconds() + timeout_milliseconds(&connection->setup.options);
}

void connection_expire(struct connection *connection)
{
	struct failure failure;

	explain_timeout(&connection->setup.options, &failure);
	connection_fail(connection, failure.status, "%s", failure.cause);
}

bool connection_is_over(const struct connection *connection)
{
	return connection->ended || connection->setup.failure.status != STATUS_SUCCESS;
}

static void handle_removal(struct connection *connection)
{
	struct failure failure;

	connection->device_removed = true;
	failure_set(&failure, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
	notify_failure(connection, NOTIFY_FAILED, &failure);
}

static void handle_unreachable(struct connection *connection, const struct cm_event *event)
{
	struct failure failure;

	if (event->library_error && !connection->setup_error) /* the first event counts */
		fail_setup(connection, event->library_error);
	explain_not_established(event, &failure);
	notify_failure(connection, NOTIFY_NOT_ESTABLISHED, &failure);
}

void connection_cm_event(struct connection *connection, const struct cm_event *event)
{
	print_trace(&connection->setup.log, "%s, status %d", rdma_event_str(event->type),
		    event->status);
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		notify_thread(connection, NOTIFY_ESTABLISHED);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		notify_end(connection, NOTIFY_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_REJECTED:
		notify_end(connection, NOTIFY_REJECTED);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		handle_removal(connection);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		handle_unreachable(connection, event);
		break;
	default: /* nothing to do, for example TIMEWAIT_EXIT */
		break;
	}
}

void connection_stop_all(struct program *program)
{
	int error = program->process.channel_error;
	struct connection *connection;
	struct failure failure;

	if (error)
		failure_set(&failure, STATUS_LOCAL_FAILURE, CHANNEL_FAILED, strerror(error));
	else
		failure_set(&failure, STATUS_INTERRUPTED, "%s",
			    status_describe(STATUS_INTERRUPTED));
	for (connection = program->connections.first; connection; connection = connection->next)
		notify_failure(connection, NOTIFY_FAILED, &failure);
}

/*
 * Return true if the peer caused the event: by a wrong opcode or key, or by more READs than agreed
 * (InfiniBand Architecture Specification, affiliated asynchronous errors).
 */
static bool is_peers_fault(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR;
}

static void explain_device_event(const struct device_event *event, struct failure *failure)
{
	if (is_peers_fault(event->type))
		failure_set(failure, STATUS_CONTENTS_WRONG,
			    "the peer sent a request that RDMA device %s cannot accept: %s",
			    event->device.text, ibv_event_type_str(event->type));
	else
		failure_set(failure, STATUS_LOCAL_FAILURE,
			    "RDMA device %s reports: %s; see the driver's messages ('dmesg')",
			    event->device.text, ibv_event_type_str(event->type));
}

static void handle_device_event(struct program *program, const struct device_event *event)
{
	struct connection *connection = event->context;
	struct failure failure;

	print_trace(&program->log, "device %s: %s", event->device.text,
		    ibv_event_type_str(event->type));
	if (!connection)
		return;
	/* over iWARP each event of a queue pair means that the TCP connection broke */
	if (connection->setup.terms.limits.iwarp && event->type != IBV_EVENT_CQ_ERR) {
		if (connection->running) /* otherwise an event with the reason follows */
			notify_thread(connection, NOTIFY_BROKEN);
		return;
	}
	explain_device_event(event, &failure);
	notify_failure(connection, NOTIFY_FAILED, &failure);
}

enum wakeup connection_wait(struct program *program, int64_t deadline, struct cm_event *event,
			    struct connection **ended)
{
	struct device_event device_event = { 0 };
	enum wakeup wakeup = program_wait(program, deadline, event, &device_event, ended);

	if (wakeup != WAKEUP_DEVICE_EVENT)
		return wakeup;
	handle_device_event(program, &device_event);
	return WAKEUP_OTHER;
}

/* ---- The end of a session ---- */

/*
 * Correct the outcome by what the main thread knows:
 * - A failed setup call is a lost peer if the peer had withdrawn.
 * - A lost peer is a local failure if the local device was removed.
 */
static void correct_loss(const struct connection *connection, struct failure *outcome)
{
	if (outcome->status == STATUS_LOCAL_FAILURE && connection->withdrawn)
		failure_set(outcome, STATUS_PEER_LOST, "%s", status_describe(STATUS_PEER_LOST));
	if (outcome->status == STATUS_PEER_LOST && connection->device_removed)
		failure_set(outcome, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
}

/* Turn a success that misses --min-rate into STATUS_TOO_SLOW. */
static void classify_rate(const struct connection *connection, struct failure *outcome)
{
	const struct session *session = connection_session(connection);
	double wanted = (double)connection->setup.options.minimum_rate;
	double rate = measurement_rate(&session->measurement);

	if (outcome->status != STATUS_SUCCESS || wanted <= 0)
		return;
	if (!session->operates)
		failure_set(outcome, STATUS_TOO_SLOW,
			    "--min-rate cannot be applied: with the client's --one-way this side "
			    "performs no operation; give --min-rate to the client");
	else if (rate < wanted)
		failure_set(outcome, STATUS_TOO_SLOW,
			    "slower than --min-rate: %s instead of %s; everything else succeeded",
			    rate_describe(rate).text, rate_describe(wanted).text);
}

/* Free the session of a connection whose thread never started. Its helper is idle. */
static void discard_session(struct connection *connection)
{
	if (!connection->session)
		return;
	if (!outgoing_release_helper(&connection->session->outgoing))
		connection->setup.program->regions.stuck_helpers++;
	session_destroy(connection->session);
	connection->session = NULL;
}

/* Join the thread, and take over its counters and its abandoned helpers. */
static void join_thread(struct connection *connection)
{
	pthread_join(connection->thread, NULL);
	connection->running = false;
	connection->ended = true;
	connection->after = connection->session->after;
	connection->setup.program->regions.stuck_helpers += (int)connection->session->helpers_left;
}

enum status connection_join(struct connection *connection)
{
	const struct setup *setup = &connection->setup;

	if (connection->running)
		join_thread(connection);
	else if (!connection->ended)
		discard_session(connection);
	console_draw(setup->log.console, ""); /* remove the progress line */
	connection->outcome =
		connection->ended ? session_result(connection->session) : setup->failure;
	correct_loss(connection, &connection->outcome);
	classify_rate(connection, &connection->outcome);
	if (setup->before.any && !connection->after.any) /* the session sent no verdict */
		read_counters(setup, &connection->after);
	return connection->outcome.status;
}

const struct session *connection_session(const struct connection *connection)
{
	static const struct session none;

	return connection->session ? connection->session : &none;
}

struct counters connection_growth(const struct connection *connection)
{
	return counters_growth(&connection->setup.before, &connection->after);
}
