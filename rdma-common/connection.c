// SPDX-License-Identifier: MIT
#include "connection.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "memory.h"
#include "thread.h"

/*
 * Time for stuck helpers to remove incomplete outputs when the program ends. A helper that is
 * blocked for longer ends with the process.
 */
#define HELPER_MILLISECONDS 3000

/* ---- Creating and destroying ---- */

struct connection *connection_create(struct engine *engine, struct rdma_cm_id *id,
				     const struct options *options, const struct sockaddr *peer)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	bool alone = atomic_load(&engine->connection_count) == 0 && options->connections <= 1;

	engine->sessions++;
	if (!connection) {
		process_fail(&engine->process, STATUS_LOCAL_FAILURE,
			     "cannot allocate memory for another connection: %s", strerror(errno));
		if (options->role == ROLE_SERVER)
			reject_request(id, options, REFUSAL_MEMORY);
		rdma_destroy_id(id);
		return NULL;
	}
	connection->engine = engine;
	connection->own_options = *options;
	connection->options = &connection->own_options;
	connection->id = id;
	connection->tos = -1;
	connection->wake = -1;
	connection->armed = true;
	/* a server sends a pattern in a --check, whatever its own payload is */
	connection->payload =
		options->check ? payload_pattern(options->pattern_size) : engine->payload;
	connection->setup_refusal = REFUSAL_SETUP; /* a later step may set a better reason */
	connection->number = engine->sessions;
	connection->log = engine->log;
	connection->log.options = connection->options; /* sessions of --check print less */
	if (!alone)
		snprintf(connection->log.prefix, sizeof(connection->log.prefix), "[%u] ",
			 connection->number);
	id->context = connection;
	connection->peer = endpoint_of(peer);
	connection->protocol = protocol_start(options->role, options->operation);
	connection->operation_time = INT64_MAX;
	connection->source_time = INT64_MAX;
	connection->interval_time = INT64_MAX;
	TAILQ_INSERT_TAIL(&engine->connections, connection, link);
	atomic_fetch_add(&engine->connection_count, 1);
	connection_extend_deadline(connection);
	return connection;
}

static struct region_owner region_owner(const struct connection *connection)
{
	struct engine *engine = connection->engine;

	return (struct region_owner){
		.account = &engine->regions,
		.sessions = atomic_load(&engine->connection_count),
		.stuck_helpers = engine->stuck_helpers,
		.options = connection->options,
		.limits = &connection->limits,
		.log = &connection->log,
		.pd = connection->pd,
		.one_way = connection->one_way,
	};
}

void connection_destroy(struct connection *connection)
{
	const struct region_owner owner = region_owner(connection);
	struct console *console = connection->log.console;
	bool stranded; /* the completion queue remains, and may still refer to this connection */
	int error;

	/* a connection whose thread never started still has its helper, which is idle */
	if (!outgoing_release(&connection->outgoing))
		connection->engine->stuck_helpers++;
	TAILQ_REMOVE(&connection->engine->connections, connection, link);
	atomic_fetch_sub(&connection->engine->connection_count, 1);
	if (connection->id->qp)
		rdma_destroy_qp(connection->id);
	error = connection->cq ? verb_error(ibv_destroy_cq(connection->cq)) : 0;
	stranded = error;
	if (error)
		print_warning(console, "cannot destroy a completion queue: %s", strerror(error));
	error = connection->channel && !stranded
			? verb_error(ibv_destroy_comp_channel(connection->channel))
			: 0;
	if (error)
		print_warning(console, "cannot destroy a completion channel: %s", strerror(error));
	region_destroy(&owner, &connection->incoming_ring);
	region_destroy(&owner, &connection->outgoing_ring);
	region_destroy(&owner, &connection->control);
	error = connection->pd ? verb_error(ibv_dealloc_pd(connection->pd)) : 0;
	if (error)
		print_warning(console, "cannot free a protection domain: %s", strerror(error));
	connection->id->context = NULL; /* if the id remains, its late events are ignored */
	if (rdma_destroy_id(connection->id))
		print_warning(console, "cannot destroy a connection identifier: %s",
			      strerror(errno));
	if (connection->wake >= 0)
		close(connection->wake);
	outgoing_free(&connection->outgoing);
	incoming_free(&connection->incoming);
	free(connection->figures.latency);
	free(connection->batch);
	free(connection->counting);
	if (!stranded)
		free(connection);
}

enum status connection_set_tos(struct connection *connection)
{
	if (!set_type_of_service(connection->id, connection->options))
		return STATUS_SUCCESS;
	return connection_fail(connection, STATUS_LOCAL_FAILURE, "cannot set --tos: %s",
			       strerror(errno));
}

/* ---- Preparing ---- */

static enum status create_channels(struct connection *connection, struct failure *failure)
{
	struct ibv_context *verbs = connection->id->verbs;

	connection->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (connection->wake < 0)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot open a descriptor for the session: %s (see 'ulimit -n')",
				   strerror(errno));
	connection->channel = ibv_create_comp_channel(verbs);
	if (!connection->channel)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "ibv_create_comp_channel failed: %s", strerror(errno));
	if (make_nonblocking(connection->channel->fd) ||
	    process_watch_device(&connection->engine->process, verbs))
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot wait for events of RDMA device %s: %s",
				   ibv_get_device_name(verbs->device), strerror(errno));
	return STATUS_SUCCESS;
}

static enum status create_queues(struct connection *connection, struct failure *failure)
{
	struct ibv_context *verbs = connection->id->verbs;
	unsigned int depth = connection->limits.depth;
	int completions = (int)depth + MESSAGE_REQUESTS + RECEIVES;
	enum status status = create_channels(connection, failure);
	int error;

	if (status != STATUS_SUCCESS)
		return status;
	connection->pd = ibv_alloc_pd(verbs);
	if (!connection->pd)
		return creation_failed(failure, "ibv_alloc_pd", false);
	errno = 0;
	connection->cq = ibv_create_cq(verbs, completions, connection, connection->channel, 0);
	if (!connection->cq && errno)
		return creation_failed(failure, "ibv_create_cq", true);
	if (!connection->cq)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "ibv_create_cq failed, and the driver gives no reason; perhaps "
				   "it has no more completion queues for this process: try fewer "
				   "sessions at a time");
	error = verb_error(ibv_req_notify_cq(connection->cq, 0));
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
				   strerror(error));
	if (create_queue_pair(connection->id, connection->pd, connection->cq, connection,
			      &connection->limits)) {
		connection->setup_error = errno;
		return creation_failed(failure, "rdma_create_qp", true);
	}
	if (connection->limits.depth < depth)
		print_trace(&connection->log,
			    "the device accepts no queue pair of depth %u: using depth %u", depth,
			    connection->limits.depth);
	print_trace(&connection->log, "rdma_create_qp: queue pair 0x%" PRIx32 ", %u bytes inline",
		    connection->id->qp->qp_num, connection->limits.inline_size);
	return STATUS_SUCCESS;
}

static enum status create_messages(struct connection *connection, struct failure *failure)
{
	const struct region_owner owner = region_owner(connection);
	enum status status = register_control(&owner, &connection->control, failure);

	if (status != STATUS_SUCCESS) {
		connection->setup_refusal = REFUSAL_MEMORY;
		return status;
	}
	return post_receives(connection, failure);
}

/* Return true if this side reports the counters of its port. */
static bool reports_counters(const struct options *options)
{
	return options->json || options->check || options->interval_seconds > 0 ||
	       prints_figures(options);
}

enum status connection_prepare(struct connection *connection, bool one_way)
{
	const struct options *options = connection->options;
	struct limits *limits = &connection->limits;
	struct rdma_cm_id *id = connection->id;
	struct failure failure;
	enum status status = query_limits(id, options, one_way, limits, &failure);

	connection->one_way = one_way;
	if (reports_counters(options))
		connection_begin_counting(connection);
	if (status == STATUS_SUCCESS) {
		print_trace(&connection->log, "device %s port %u: max_msg_sz %" PRIu32,
			    ibv_get_device_name(id->verbs->device), id->port_num,
			    limits->maximum_message);
		status = create_queues(connection, &failure);
	}
	if (status == STATUS_SUCCESS)
		status = create_messages(connection, &failure);
	if (status != STATUS_SUCCESS)
		connection_fail(connection, status, "%s", failure.cause);
	return status;
}

/* ---- Negotiating ---- */

/* Allocate the latency counts if they are reported. At a depth above 1 they would mean nothing. */
static enum status create_latency(struct connection *connection, struct failure *failure)
{
	const struct options *options = connection->options;
	struct latency **latency = &connection->figures.latency;

	if (connection->limits.depth > 1 || !(prints_figures(options) || options->json))
		return STATUS_SUCCESS;
	*latency = calloc(1, sizeof(**latency));
	if (!*latency)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate memory for latencies: %s", strerror(errno));
	return STATUS_SUCCESS;
}

/* Return the plan of both streams, without the rings: these are registered later. */
static struct transfer_plan plan_transfer(const struct connection *connection)
{
	const struct options *options = connection->options;
	const struct agreement *agreement = &connection->agreement;
	bool writes = options->operation == OPERATION_WRITE;
	struct transfer_plan plan = {
		.writes = writes,
		.completes_early = connection->limits.iwarp,
		.depth = connection->limits.depth,
		.request_size = connection->limits.request_size,
		.credits = agreement->verifying ? TRANSFER_CREDITS : 0,
		.answer = TRANSFER_ANSWER,
		.share = TRANSFER_SHARE,
		.outgoing = { .present = sends_payload(options->role, options->operation,
						       connection->one_way),
			      .length = connection->payload.length },
		.incoming = { .present = agreement->incoming_length > 0,
			      .length = agreement->incoming_length },
	};
	struct stream_plan *own = writes ? &plan.outgoing : &plan.incoming;
	struct stream_plan *other = writes ? &plan.incoming : &plan.outgoing;

	own->passes = operation_passes(options);
	other->passes = agreement->peer.passes;
	return plan;
}

/* Initialize protocol and transfer, after the agreement and the registration of the rings. */
static void plan_session(struct connection *connection, const struct transfer_plan *plan)
{
	const struct options *options = connection->options;

	connection->protocol.operates = options->role == ROLE_CLIENT || !connection->one_way;
	connection->protocol.verifying = connection->agreement.verifying;
	transfer_init(&connection->transfer, plan);
}

/* Return true if this side stores its incoming payload. */
static bool stores(const struct connection *connection)
{
	const struct agreement *agreement = &connection->agreement;

	return connection->options->output && agreement->incoming_length > 0;
}

static enum status open_payloads(struct connection *connection, struct failure *failure)
{
	const struct options *options = connection->options;
	const struct agreement *agreement = &connection->agreement;
	const struct region *outgoing = &connection->outgoing_ring;

	connection->incoming = (struct incoming){
		.ring = connection->incoming_ring.memory,
		.ring_size = connection->incoming_ring.size,
		.output_taken = &connection->engine->output_taken,
		.output = stores(connection) ? options->output : NULL,
		.limit = options->maximum_payload,
		.verification = { .is_pattern = agreement->peer.flags & HELLO_PATTERN,
				  .has_digest = agreement->verifying },
	};
	if (!outgoing->mr) /* this side sends no payload */
		return STATUS_SUCCESS;
	return outgoing_open(&connection->outgoing, &connection->payload, outgoing->memory,
			     outgoing->size, &connection->engine->process, failure);
}

static enum status allocate(struct connection *connection, struct transfer_plan *plan,
			    struct failure *failure)
{
	const struct region_owner owner = region_owner(connection);
	enum status status;

	*plan = plan_transfer(connection);
	status = register_outgoing(&owner, &connection->outgoing_ring, &plan->outgoing, failure);
	if (status == STATUS_SUCCESS)
		status = register_incoming(&owner, &connection->incoming_ring, &plan->incoming,
					   failure);
	if (status == STATUS_SUCCESS)
		status = create_latency(connection, failure);
	if (status != STATUS_SUCCESS)
		connection->setup_refusal = REFUSAL_MEMORY;
	return status;
}

enum status connection_negotiate(struct connection *connection, const struct cm_event *event)
{
	const struct options *options = connection->options;
	struct transfer_plan plan;
	struct failure failure;
	enum status status =
		negotiate(options, event, connection->one_way, connection->payload.length,
			  &connection->limits, &connection->agreement, &failure);

	connection->tos = type_of_service(connection->id);
	if (connection->tos >= 0)
		print_trace(&connection->log, "type of service %d", connection->tos);
	if (status == STATUS_SUCCESS && options->operation == OPERATION_READ)
		print_trace(&connection->log, "at most %u READs outstanding",
			    connection->limits.depth);
	if (status == STATUS_SUCCESS)
		status = allocate(connection, &plan, &failure);
	if (status == STATUS_SUCCESS)
		status = open_payloads(connection, &failure);
	if (status == STATUS_SUCCESS && connection->agreement.peer.flags & HELLO_COUNTS &&
	    !reports_counters(connection->options))
		connection_begin_counting(connection);
	if (status == STATUS_SUCCESS)
		plan_session(connection, &plan);
	else
		connection_fail(connection, status, "%s", failure.cause);
	return status;
}

static uint16_t hello_flags(const struct connection *connection, bool sends)
{
	const struct options *options = connection->options;
	const struct payload *payload = &connection->payload;
	unsigned int flags = 0;

	if (connection->one_way)
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
	const struct options *options = connection->options;
	const struct payload *payload = &connection->payload;
	bool sends = sends_payload(options->role, options->operation, connection->one_way);
	struct hello hello = {
		.version = HELLO_VERSION,
		.operation = (uint8_t)options->operation,
		.flags = hello_flags(connection, sends),
		.length = sends && payload->length != LENGTH_UNKNOWN ? payload->length : 0,
		.passes = operation_passes(options),
		.seconds = options->duration_seconds,
		.mtu = (uint8_t)connection->limits.mtu,
		.wanted = options->wanted,
		.wanted_seconds = options->wanted_seconds,
	};

	snprintf(hello.device, sizeof(hello.device), "%s",
		 ibv_get_device_name(connection->id->verbs->device));
	return connect_parameters(&connection->limits, &hello, wire);
}

/* ---- Starting, or rejecting ---- */

/* Notify the connection's thread. If it does not run, handle the notifications in this thread. */
static void connection_notify(struct connection *connection, enum notification notifications)
{
	atomic_fetch_or(&connection->notifications, notifications);
	if (connection->running)
		eventfd_write(connection->wake, 1);
	else if (connection->protocol.phase < PHASE_FINISHED) /* FINISHED: keep the result */
		handle_notifications(connection);
}

enum status connection_start(struct connection *connection)
{
	int error = start_thread(&connection->thread, connection_run, connection);

	connection->running = !error;
	if (error)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot start a thread for the session: %s",
				       strerror(error));
	return STATUS_SUCCESS;
}

/*
 * Reject the peer with a reason. If that fails, rdma_destroy_id(3) will reject it without a reason;
 * record whether setup_error means that the peer has withdrawn.
 */
static void reject(struct connection *connection, enum refusal refusal)
{
	if (!reject_request(connection->id, connection->options, refusal))
		return;
	print_trace(&connection->log, "rdma_reject: %s", strerror(errno));
	connection->withdrawn = means_withdrawn(connection->setup_error, connection->limits.iwarp);
}

static void setup_failed(struct connection *connection, int error)
{
	connection->setup_error = error;
	reject(connection, connection->setup_refusal);
}

void connection_not_accepted(struct connection *connection, int error)
{
	setup_failed(connection, error);
	connection_notify(connection, NOTIFY_NOT_ACCEPTED);
}

void connection_reject(struct connection *connection, enum refusal refusal)
{
	if (!connection_is_over(connection)) /* otherwise keep the recorded cause */
		connection_fail(connection, STATUS_REFUSED, "refused: %s",
				refusal_describe(refusal));
	reject(connection, refusal);
}

/* ---- Events ---- */

void connection_extend_deadline(struct connection *connection)
{
	connection->deadline = now_milliseconds() + timeout_milliseconds(connection->options);
}

bool connection_is_over(const struct connection *connection)
{
	return connection->protocol.phase >= PHASE_CLOSING;
}

void connection_cm_event(struct connection *connection, const struct cm_event *event)
{
	print_trace(&connection->log, "%s, status %d", rdma_event_str(event->type), event->status);
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		connection_notify(connection, NOTIFY_ESTABLISHED);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		connection_notify(connection, NOTIFY_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		connection->device_removed = true;
		connection_notify(connection, NOTIFY_DEVICE_REMOVED);
		break;
	case RDMA_CM_EVENT_REJECTED:
		connection_notify(connection, NOTIFY_REJECTED);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (connection->establishment.type) /* the first event counts */
			break;
		connection->establishment =
			(struct cm_failure){ .type = event->type,
					     .status = event->status,
					     .library_error = event->library_error };
		if (event->library_error)
			setup_failed(connection, event->library_error);
		connection_notify(connection, NOTIFY_NOT_ESTABLISHED);
		break;
	default: /* nothing to do, for example TIMEWAIT_EXIT */
		break;
	}
}

void engine_notify(struct engine *engine, enum notification notifications)
{
	struct connection *connection;

	TAILQ_FOREACH (connection, &engine->connections, link)
		connection_notify(connection, notifications);
}

static void notify_device_event(struct engine *engine, const struct device_event *event)
{
	struct connection *connection = event->context;

	print_trace(&engine->log, "device %s: %s", event->device, ibv_event_type_str(event->type));
	if (!connection)
		return;
	/* over iWARP every event means a broken connection; else only the first event counts */
	if (connection->device_event.device && !connection->limits.iwarp)
		return;
	if (!connection->device_event.device)
		connection->device_event = *event;
	connection_notify(connection, NOTIFY_DEVICE_EVENT);
}

/* ---- The end of a session ---- */

/*
 * Correct the outcome by what the main thread knows: a failed setup call is a lost peer if the peer
 * had withdrawn, and a lost peer is a local failure if the local device was removed.
 */
static void correct_loss(const struct connection *connection, struct failure *outcome)
{
	if (outcome->status == STATUS_LOCAL_FAILURE && connection->withdrawn)
		failure_set(outcome, STATUS_PEER_LOST, "%s", status_describe(STATUS_PEER_LOST));
	if (outcome->status == STATUS_PEER_LOST && connection->device_removed)
		failure_set(outcome, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
}

/* Turn a success that misses --min-rate into STATUS_TOO_SLOW. */
static void judge_rate(const struct connection *connection, struct failure *outcome)
{
	double wanted = (double)connection->options->minimum_rate;
	double rate = operation_rate(connection);

	if (outcome->status != STATUS_SUCCESS || wanted <= 0)
		return;
	if (!connection->protocol.operates)
		failure_set(outcome, STATUS_TOO_SLOW,
			    "--min-rate cannot be applied: with the client's --one-way this side "
			    "performs no operation; give --min-rate to the client");
	else if (rate < wanted)
		failure_set(outcome, STATUS_TOO_SLOW,
			    "slower than --min-rate: %s instead of %s; everything else succeeded",
			    rate_describe(rate).text, rate_describe(wanted).text);
}

enum status connection_join(struct connection *connection)
{
	const struct result *result = &connection->protocol.result;

	if (connection->running)
		pthread_join(connection->thread, NULL);
	connection->running = false;
	console_draw(connection->log.console, ""); /* remove the progress line */
	failure_set(&connection->outcome, result->status, "%s",
		    result->cause > 0 ? connection->causes[result->cause - 1]
				      : status_describe(result->status));
	correct_loss(connection, &connection->outcome);
	judge_rate(connection, &connection->outcome);
	connection_end_counting(connection); /* if send_verdict() has not */
	return connection->outcome.status;
}

/* ---- The engine ---- */

void engine_init(struct engine *engine, const struct options *options)
{
	memset(engine, 0, sizeof(*engine));
	engine->options = options;
	console_init(&engine->console, options->json);
	engine->log = (struct log){ .console = &engine->console, .options = options };
	process_init(&engine->process, &engine->console);
	TAILQ_INIT(&engine->connections);
}

enum status engine_open(struct engine *engine)
{
	struct failure failure;
	enum status status = payload_load(&engine->payload, engine->options, &failure);

	if (status != STATUS_SUCCESS)
		return process_fail(&engine->process, status, "%s", failure.cause);
	status = process_open(&engine->process);
	if (status != STATUS_SUCCESS)
		return status;
	engine->regions.budget = memory_budget();
	mallopt(M_ARENA_MAX, 1); /* the threads allocate too little for arenas of their own */
	engine->processors = usable_processors();
	return STATUS_SUCCESS;
}

enum wakeup engine_wait(struct engine *engine, int64_t deadline, struct cm_event *event,
			struct connection **ended)
{
	struct device_event device_event = { 0 };
	struct connection *connection;
	enum wakeup wakeup = process_wait(&engine->process, deadline, event, &device_event,
					  (void **)&connection);

	if (wakeup == WAKEUP_DEVICE_EVENT) {
		notify_device_event(engine, &device_event);
		return WAKEUP_OTHER;
	}
	if (wakeup == WAKEUP_ENDED && !connection) { /* a helper whose connection is gone */
		engine->stuck_helpers--;
		return WAKEUP_OTHER;
	}
	if (wakeup == WAKEUP_ENDED) {
		engine->stuck_helpers += (int)connection->helpers_left;
		*ended = connection;
	}
	return wakeup;
}

static void await_helpers(struct engine *engine)
{
	int64_t deadline = now_milliseconds() + HELPER_MILLISECONDS;
	struct connection *ended;
	struct cm_event event;

	while (engine->stuck_helpers > 0 && now_milliseconds() < deadline &&
	       engine_wait(engine, deadline, &event, &ended) != WAKEUP_EXHAUSTED)
		;
}

int engine_end(struct engine *engine, enum status status)
{
	enum status output;

	await_helpers(engine);
	if (engine->stuck_helpers > 0) /* leave the file or pipe open: a stuck helper may read it */
		engine->payload.descriptor = -1;
	payload_free(&engine->payload);
	output = flush_output(&engine->log, &engine->process);
	process_close(&engine->process, engine->stuck_helpers > 0);
	if (status == STATUS_INTERRUPTED)
		raise(engine->process.signal_number); /* the shell must see the signal */
	return (int)(status == STATUS_SUCCESS ? output : status);
}
