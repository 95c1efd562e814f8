// SPDX-License-Identifier: MIT
#include "connection.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "memory.h"
#include "output.h"
#include "rings.h"
#include "streams.h"
#include "worker.h"

/*
 * The time that workers have to remove what they have begun to store when the program ends. One
 * that a disk or a pipe holds up for longer ends with the process.
 */
#define WORKER_SECONDS 3

static const char device_removed[] = "the RDMA device was removed; look for it with 'rdma link'";

/* ---- Making one ---- */

/* Keeps "ADDRESS port PORT" of the peer, for messages. */
static void name_peer(struct connection *connection, const struct sockaddr *address)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, address_size(address), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(connection->peer, sizeof(connection->peer), "unknown peer");
	else
		snprintf(connection->peer, sizeof(connection->peer), "%s port %s", host, port);
}

struct connection *connection_create(struct engine *engine, struct rdma_cm_id *id,
				     const struct sockaddr *peer, unsigned int number)
{
	const struct options *options = engine->options;
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection) {
		process_fail(&engine->process, STATUS_LOCAL_FAILURE,
			     "cannot allocate another connection: %s", strerror(errno));
		if (options->role == ROLE_SERVER)
			reject_request(id, options, REFUSAL_RESOURCES, RESOURCE_MEMORY);
		rdma_destroy_id(id);
		return NULL;
	}
	connection->engine = engine;
	connection->id = id;
	connection->tos = -1;
	connection->payload = &engine->payload;
	connection->lacking = RESOURCE_OTHER; /* unless more is known */
	connection->log = (struct log){ .console = &engine->console, .session = number };
	id->context = connection;
	name_peer(connection, peer);
	lock_sessions(&engine->lock);
	connection->session.protocol = protocol_start(options->role, options->operation);
	connection->session.serviced_by = INT64_MAX;
	connection->session.operation_time = INT64_MAX;
	connection->session.source_time = INT64_MAX;
	connection->session.work.owner = connection;
	connection->session.polling.owner = connection;
	unlock_sessions(&engine->lock);
	connection->timer.owner = connection;
	TAILQ_INSERT_TAIL(&engine->connections, connection, link);
	engine->connection_count++;
	connection_extend_deadline(connection);
	return connection;
}

enum status connection_set_tos(struct connection *connection)
{
	if (!set_type_of_service(connection->id, connection->engine->options))
		return STATUS_SUCCESS;
	return connection_fail(connection, STATUS_LOCAL_FAILURE, "cannot set --tos: %s",
			       strerror(errno));
}

/* A step of making the connection, which needs that, ended with `status`, which is returned. */
static enum status needs(struct connection *connection, enum resource resource, enum status status)
{
	if (status != STATUS_SUCCESS)
		connection->lacking = resource;
	return status;
}

/* ---- Preparing it ---- */

/* Protection domain, completion queue and queue pair, each for this connection alone. */
static enum status create_queues(struct connection *connection, struct failure *failure)
{
	struct engine *engine = connection->engine;
	struct ibv_context *verbs = connection->id->verbs;
	unsigned int depth = connection->limits.depth;
	enum status status;
	int error;

	connection->device = process_use_device(&engine->process, verbs);
	if (!connection->device)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "ibv_create_comp_channel failed: %s", strerror(errno));
	connection->pd = ibv_alloc_pd(verbs);
	if (!connection->pd)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_alloc_pd failed: %s",
				   strerror(errno));
	errno = 0;
	connection->cq = ibv_create_cq(verbs, completion_queue_size(&connection->limits),
				       connection, connection->device->completion_channel, 0);
	if (!connection->cq)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_create_cq failed: %s",
				   errno ? strerror(errno)
					 : "the driver gives no reason; it may have no more for "
					   "this process: try fewer sessions at a time");
	error = ibv_req_notify_cq(connection->cq, 0);
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
				   strerror(error));
	status = create_queue_pair(connection->id, connection->pd, connection->cq, connection,
				   engine->options->role, &connection->limits, failure);
	if (status != STATUS_SUCCESS)
		return status;
	if (connection->limits.depth < depth)
		print_trace(&connection->log,
			    "the device takes no queue pair of depth %u, only one of %u", depth,
			    connection->limits.depth);
	print_trace(&connection->log, "rdma_create_qp: queue pair 0x%" PRIx32 ", %u bytes inline",
		    connection->id->qp->qp_num, connection->limits.inline_size);
	return STATUS_SUCCESS;
}

/* The counters of the port that the connection uses, where a report wants them. */
static void read_counters(const struct connection *connection, struct counters *counters)
{
	const struct options *options = connection->engine->options;
	const struct rdma_cm_id *id = connection->id;

	memset(counters, 0, sizeof(*counters));
	if (id->verbs && (options->json || options->check || prints_figures(options)))
		counters_read(counters, id->verbs->device->ibdev_path, id->port_num);
}

enum status connection_prepare(struct connection *connection, bool one_way)
{
	const struct options *options = connection->engine->options;
	struct limits *limits = &connection->limits;
	struct rdma_cm_id *id = connection->id;
	struct failure failure;
	enum status status = query_limits(id, options, limits, &failure);

	connection->one_way = one_way;
	read_counters(connection, &connection->counters);
	if (status == STATUS_SUCCESS) {
		print_trace(&connection->log, "device %s port %u: max_msg_sz %" PRIu32,
			    ibv_get_device_name(id->verbs->device), id->port_num,
			    limits->maximum_message);
		status = create_queues(connection, &failure);
	}
	if (status == STATUS_SUCCESS)
		status = needs(connection, RESOURCE_MEMORY, register_control(connection, &failure));
	if (status == STATUS_SUCCESS)
		status = post_receives(connection, &failure);
	if (status != STATUS_SUCCESS)
		connection_fail(connection, status, "%s", failure.cause);
	return status;
}

/* ---- Negotiating ---- */

/* Allocates latencies, where one operation at a time makes them mean something. */
static enum status create_latency(struct connection *connection, struct latency **latency,
				  struct failure *failure)
{
	const struct options *options = connection->engine->options;

	*latency = NULL;
	if (connection->limits.depth > 1 || !(prints_figures(options) || options->json))
		return STATUS_SUCCESS;
	*latency = calloc(1, sizeof(**latency));
	if (!*latency)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate memory for latencies: %s", strerror(errno));
	return STATUS_SUCCESS;
}

/* The outgoing stream, as far as this side alone knows it. */
static struct stream_plan plan_outgoing(const struct connection *connection)
{
	const struct options *options = connection->engine->options;

	return (struct stream_plan){
		.present = sends_payload(options->role, options->operation, connection->one_way),
		.length = connection->payload->length,
	};
}

/* The streams of both directions, as far as the hellos tell; rings come later. */
static struct transfer_plan plan_transfer(const struct connection *connection)
{
	const struct options *options = connection->engine->options;
	const struct agreement *agreement = &connection->agreement;
	bool writes = options->operation == OPERATION_WRITE;
	struct transfer_plan plan = {
		.writes = writes,
		.completes_early = connection->limits.iwarp,
		.depth = connection->limits.depth,
		.request_size = connection->limits.request_size,
		.in_flight = TRANSFER_IN_FLIGHT,
		.credits = agreement->verifying ? TRANSFER_CREDITS : 0,
		.answer = TRANSFER_ANSWER,
		.share = TRANSFER_SHARE,
		.outgoing = plan_outgoing(connection),
		.incoming = { .present = agreement->incoming_length > 0,
			      .length = agreement->incoming_length },
	};
	struct stream_plan *own = writes ? &plan.outgoing : &plan.incoming;
	struct stream_plan *other = writes ? &plan.incoming : &plan.outgoing;

	own->passes = operation_passes(options);
	own->every_pass = agreement->verifying && options->every_pass;
	other->passes = agreement->peer_passes;
	other->every_pass = agreement->peer_every_pass;
	return plan;
}

/* All is agreed, and the rings are there: from now on the session may begin. */
static void plan_session(struct connection *connection, const struct transfer_plan *plan,
			 struct latency *latency)
{
	const struct options *options = connection->engine->options;
	struct session *session = &connection->session;
	bool operates = options->role == ROLE_CLIENT || !connection->one_way;
	const struct region *region = options->operation == OPERATION_WRITE ? &connection->outgoing
									    : &connection->incoming;
	int64_t now = now_milliseconds();

	connection->transfer_region = operates ? region : NULL;
	lock_sessions(&connection->engine->lock);
	session->protocol.operates = operates;
	session->protocol.verifying = connection->agreement.verifying;
	session->protocol.late_windows = connection->agreement.late_windows;
	transfer_init(&session->transfer, plan, now);
	if (plan->outgoing.present && !connection->outgoing.owned) /* the payload itself */
		transfer_filled(&session->transfer, connection->outgoing.size, false, now);
	session->figures.latency = latency;
	unlock_sessions(&connection->engine->lock);
}

/* Finds out before anything is transferred if --output cannot store the incoming payload. */
static enum status check_output(const struct connection *connection, struct failure *failure)
{
	const char *output = connection->engine->options->output;
	uint64_t size = connection->agreement.incoming_length;

	if (!output || size == 0 || connection->agreement.wanted_length > 0 ||
	    !output_check(output, size))
		return STATUS_SUCCESS;
	if (size == OUTPUT_SIZE_UNKNOWN)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot store the incoming payload in '%s': %s",
				   short_name(output).text, output_error(errno));
	return failure_set(failure, STATUS_LOCAL_FAILURE,
			   "cannot store %" PRIu64 " bytes in '%s': %s", size,
			   short_name(output).text, output_error(errno));
}

/*
 * The client examines the path: the server sends a pattern as long as it asks for, which is made as
 * the ring empties.
 */
static void send_pattern(struct connection *connection)
{
	connection->pattern = (struct payload){ .is_pattern = true,
						.length = connection->agreement.wanted_length,
						.descriptor = -1 };
	connection->payload = &connection->pattern;
}

void connection_register_ahead(struct connection *connection)
{
	struct stream_plan plan = plan_outgoing(connection);
	struct failure failure;

	/* longer than any ring, so that the number of passes does not count */
	if (!payload_is_whole(connection->payload))
		register_outgoing(connection, &plan, &failure);
}

/* Plans the transfer, and allocates what it needs. */
static enum status allocate(struct connection *connection, struct transfer_plan *plan,
			    struct latency **latency, struct failure *failure)
{
	enum status status;

	*plan = plan_transfer(connection);
	status = register_outgoing(connection, &plan->outgoing, failure);
	if (status == STATUS_SUCCESS)
		status = register_incoming(connection, &plan->incoming, failure);
	if (status == STATUS_SUCCESS)
		status = create_latency(connection, latency, failure);
	return status;
}

enum status connection_negotiate(struct connection *connection, const struct cm_event *event)
{
	const struct options *options = connection->engine->options;
	struct latency *latency = NULL;
	struct transfer_plan plan;
	struct failure failure;
	enum status status =
		negotiate(options, event, connection->one_way, connection->payload->length,
			  &connection->limits, &connection->agreement, &failure);

	connection->tos = type_of_service(connection->id);
	if (connection->tos >= 0)
		print_trace(&connection->log, "type of service %d", connection->tos);
	if (status == STATUS_SUCCESS && options->operation == OPERATION_READ)
		print_trace(&connection->log, "%u READs outstanding at most",
			    connection->limits.depth);
	if (status == STATUS_SUCCESS && options->role == ROLE_SERVER &&
	    connection->agreement.wanted_length > 0)
		send_pattern(connection);
	if (status == STATUS_SUCCESS)
		status = needs(connection, RESOURCE_STORAGE, check_output(connection, &failure));
	if (status == STATUS_SUCCESS)
		status = needs(connection, RESOURCE_MEMORY,
			       allocate(connection, &plan, &latency, &failure));
	if (status == STATUS_SUCCESS) {
		plan_session(connection, &plan, latency);
		status = streams_open(connection, &failure);
	}
	if (status != STATUS_SUCCESS)
		connection_fail(connection, status, "%s", failure.cause);
	return status;
}

/* What the hello of this side, which `sends` a payload or not, says besides numbers. */
static uint16_t hello_flags(const struct connection *connection, bool sends)
{
	const struct options *options = connection->engine->options;
	const struct payload *payload = connection->payload;
	unsigned int flags = HELLO_LATE_WINDOWS;

	if (connection->one_way)
		flags |= HELLO_ONE_WAY;
	if (payload->is_pattern)
		flags |= HELLO_PATTERN;
	if (sends && payload->length == TRANSFER_UNKNOWN)
		flags |= HELLO_UNKNOWN;
	if (options->every_pass)
		flags |= HELLO_EVERY_PASS;
	if (options->check || connection->agreement.wanted_length > 0)
		flags |= HELLO_CHECK;
	if (options->short_reply)
		flags |= HELLO_CHECK_SHORT;
	return (uint16_t)flags;
}

struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE])
{
	const struct options *options = connection->engine->options;
	const struct payload *payload = connection->payload;
	bool sends = sends_payload(options->role, options->operation, connection->one_way);
	struct hello hello = {
		.version = HELLO_VERSION,
		.operation = (uint8_t)options->operation,
		.flags = hello_flags(connection, sends),
		.length = sends && payload->length != TRANSFER_UNKNOWN ? payload->length : 0,
		.passes = operation_passes(options),
		.seconds = options->duration_seconds,
		.mtu = (uint8_t)connection->limits.mtu,
	};

	snprintf(hello.device, sizeof(hello.device), "%s",
		 ibv_get_device_name(connection->id->verbs->device));
	return connect_parameters(&connection->limits, &hello, wire);
}

enum status connection_reject(struct connection *connection, enum refusal refusal)
{
	enum status status;
	bool failed;

	lock_sessions(&connection->engine->lock);
	failed = connection->session.protocol.phase >= PHASE_CLOSING;
	status = connection->session.protocol.status;
	unlock_sessions(&connection->engine->lock);
	if (!failed) /* else the cause of that is the reason */
		status = connection_fail(connection, STATUS_REFUSED, "refused: %s",
					 refusal_in_words(refusal));
	/* when this fails, destroying the id rejects the request without a reason */
	if (reject_request(connection->id, connection->engine->options, refusal,
			   connection->lacking))
		print_trace(&connection->log, "rdma_reject: %s", strerror(errno));
	return status;
}

/* ---- Events ---- */

/*
 * Connection establishment failed. If the connection stands already, nothing has happened to it:
 * Linux since 6.0 reports UNREACHABLE to a RoCE client when its host loses the peer's MAC address,
 * be it for a moment. Whether the peer can be reached is for the transport's retries and the
 * deadline to find out.
 */
static void establishment_failed(struct connection *connection, const struct cm_event *event)
{
	lock_sessions(&connection->engine->lock);
	if (connection->session.protocol.phase == PHASE_CONNECTING)
		session_fail(connection,
			     event->status == -ETIMEDOUT ? STATUS_TIMED_OUT : STATUS_PEER_LOST,
			     "cannot connect: %s, status %d (%s); is the peer up, and the network "
			     "between?",
			     rdma_event_str(event->type), event->status,
			     event->status < 0 ? strerror(-event->status) : "of the transport");
	unlock_sessions(&connection->engine->lock);
}

bool connection_stands(struct connection *connection)
{
	bool connected;

	lock_sessions(&connection->engine->lock);
	connected = connection->session.protocol.connected;
	unlock_sessions(&connection->engine->lock);
	return connected;
}

bool connection_is_over(struct connection *connection)
{
	bool over;

	lock_sessions(&connection->engine->lock);
	over = connection->session.protocol.phase >= PHASE_CLOSING;
	unlock_sessions(&connection->engine->lock);
	return over;
}

/*
 * A server sees this when the client takes its request back. Behind ESTABLISHED, over InfiniBand
 * and RoCE, it says that the peer's end was gone before it could disconnect.
 */
static void rejected(struct connection *connection)
{
	if (connection_stands(connection))
		connection_handle(connection, EVENT_DISCONNECTED);
	else
		connection_fail(connection, STATUS_PEER_LOST, "%s",
				status_in_words(STATUS_PEER_LOST));
}

void connection_cm_event(struct connection *connection, const struct cm_event *event)
{
	print_trace(&connection->log, "%s, status %d", rdma_event_str(event->type), event->status);
	switch (event->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
		connection_handle(connection, EVENT_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		connection->device_removed = true;
		connection_fail(connection, STATUS_LOCAL_FAILURE, "%s", device_removed);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(connection);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		establishment_failed(connection, event);
		break;
	default: /* TIMEWAIT_EXIT and the like: nothing to do, and nothing waits for them */
		break;
	}
}

/*
 * What a responder reports (InfiniBand Architecture Specification, affiliated asynchronous errors):
 * an opcode that is unknown or out of turn, a key that is wrong, more READs than were agreed.
 */
static bool is_peers_fault(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR;
}

/* Ends the session that a device's event concerns, if it concerns one. */
static void handle_device_event(struct engine *engine, const struct device_event *event)
{
	struct connection *connection = event->context;

	print_trace(&engine->log, "device %s: %s", event->device, ibv_event_type_str(event->type));
	if (connection && connection->limits.iwarp) /* over TCP, a broken connection is one */
		connection_handle(connection, EVENT_FLUSHED);
	else if (connection && is_peers_fault(event->type))
		connection_fail(connection, STATUS_CONTENTS_WRONG,
				"the peer sent RDMA device %s a request that it cannot accept: %s",
				event->device, ibv_event_type_str(event->type));
	else if (connection)
		connection_fail(connection, STATUS_LOCAL_FAILURE, "RDMA device %s reports: %s",
				event->device, ibv_event_type_str(event->type));
}

/* A device makes no completions any more: its connections find out when they are serviced. */
static void service_lost_devices(struct engine *engine)
{
	struct connection *connection;

	lock_sessions(&engine->lock);
	TAILQ_FOREACH (connection, &engine->connections, link) {
		if (connection->device && atomic_load(&connection->device->broken))
			session_request_service(connection);
	}
	unlock_sessions(&engine->lock);
}

enum wakeup engine_wait(struct engine *engine, int64_t deadline, struct cm_event *event)
{
	int64_t due = timers_next(&engine->timers);
	struct device_event device_event = { 0 };
	enum wakeup wakeup = process_wait(&engine->process, due < deadline ? due : deadline, event,
					  &device_event);

	if (atomic_exchange(&engine->process.device_lost, false))
		service_lost_devices(engine);
	if (wakeup != WAKEUP_DEVICE_EVENT)
		return wakeup;
	handle_device_event(engine, &device_event);
	return WAKEUP_OTHER;
}

/* ---- Servicing ---- */

/* Lets every posted work request be flushed. */
static void force_error(struct connection *connection)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	int error;

	if (!connection->id->qp)
		return;
	error = ibv_modify_qp(connection->id->qp, &attributes, IBV_QP_STATE);
	print_trace(&connection->log, "ibv_modify_qp to the error state: %s", strerror(error));
}

/*
 * Ends the connection, whoever began that: after the peer has disconnected, too, some providers
 * flush the receives only when this side does so as well.
 */
static void disconnect(struct connection *connection, bool connected)
{
	if (connected && !rdma_disconnect(connection->id)) {
		print_trace(&connection->log, "rdma_disconnect");
		return;
	}
	force_error(connection);
}

/* True if no other connection is there. */
static bool is_alone(const struct connection *connection)
{
	return TAILQ_FIRST(&connection->engine->connections) == connection &&
	       !TAILQ_NEXT(connection, link);
}

/* On a terminal, how far the session is, if there is one alone. */
static NEEDS_LOCK void show_progress(const struct connection *connection)
{
	const struct session *session = &connection->session;
	const struct transfer *transfer = &session->transfer;
	const struct transfer_source *source = &transfer->source;
	const struct transfer_sink *sink = &transfer->sink;
	uint64_t done, all;

	if (session->protocol.local < LOCAL_OPERATION_POSTED || !is_alone(connection))
		return;
	if (session->protocol.operates) {
		done = transfer->operation.completed;
		all = transfer->plan.writes ? source->stream.length : sink->stream.length;
	} else {
		done = transfer->plan.writes ? sink->ready : source->taken;
		all = transfer->plan.writes ? sink->stream.length : source->stream.length;
	}
	if (done < all)
		print_progress(connection->log.console, done, all,
			       now_nanoseconds() - session->figures.started);
}

/* A connection can be seen to go before the reason is reported: the removal of the device here. */
static enum status explain_loss(struct connection *connection, enum status status)
{
	if (status != STATUS_PEER_LOST || !connection->device_removed)
		return status;
	lock_sessions(&connection->engine->lock);
	snprintf(connection->session.cause, sizeof(connection->session.cause), "%s",
		 device_removed);
	unlock_sessions(&connection->engine->lock);
	return STATUS_LOCAL_FAILURE;
}

/* Turns success into STATUS_TOO_SLOW where this side's operation did not reach --min-rate. */
static enum status judge_rate(struct connection *connection, enum status status)
{
	double wanted = (double)connection->engine->options->minimum_rate, rate = 0;
	struct session *session = &connection->session;
	const struct figures *figures = &session->figures;

	if (status != STATUS_SUCCESS || wanted <= 0)
		return status;
	lock_sessions(&connection->engine->lock);
	if (figures->completed > figures->started)
		rate = (double)figures->bytes * 8e9 /
		       (double)(figures->completed - figures->started);
	if (!session->protocol.operates)
		snprintf(
			session->cause, sizeof(session->cause),
			"--min-rate cannot be judged: with the client's --one-way this side has no "
			"operation; give it to the client");
	else if (rate < wanted)
		snprintf(session->cause, sizeof(session->cause),
			 "slower than --min-rate: %.6g Gbit/s instead of %.6g; the contents are "
			 "right",
			 rate / 1e9, wanted / 1e9);
	else
		wanted = 0;
	unlock_sessions(&connection->engine->lock);
	return wanted > 0 ? STATUS_TOO_SLOW : STATUS_SUCCESS;
}

/* Takes what is left to the main thread, and sets the connection's timer to when it looks again. */
static NEEDS_LOCK unsigned int take_work(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct session *session = &connection->session;
	unsigned int actions = session->pending_actions;

	session->pending_actions = 0;
	queue_remove(&engine->work, &session->work);
	session->serviced_by = session_due(session);
	timers_set(&engine->timers, &connection->timer, session->serviced_by);
	return actions;
}

struct connection *engine_next_connection(struct engine *engine)
{
	struct connection *connection;

	lock_sessions(&engine->lock);
	connection = queue_first(&engine->work);
	unlock_sessions(&engine->lock);
	return connection ? connection : timers_due(&engine->timers, now_milliseconds());
}

bool connection_service(struct connection *connection, enum status *status)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	unsigned int actions;
	bool connected, finished, checking;

	lock_sessions(&connection->engine->lock);
	if (connection->device && atomic_load(&connection->device->broken) &&
	    protocol->phase < PHASE_CLOSING)
		session_fail(connection, STATUS_LOCAL_FAILURE,
			     "the RDMA device is gone; look for it with 'rdma link'");
	session_check_clocks(connection);
	if (protocol->phase == PHASE_EXCHANGING)
		show_progress(connection); /* the time of a probe comes that often */
	actions = take_work(connection);
	connected = protocol->connected;
	checking = protocol->local == LOCAL_CHECKING;
	finished = protocol->phase == PHASE_FINISHED;
	*status = protocol->status;
	unlock_sessions(&connection->engine->lock);
	if (finished) {
		*status = judge_rate(connection, explain_loss(connection, *status));
		return true;
	}
	streams_begin(connection);
	if (actions & ACTION_CHECK)
		streams_check(connection);
	else if (checking && *status == STATUS_INTERRUPTED)
		streams_interrupt(connection);
	if (actions & ACTION_DISCONNECT)
		disconnect(connection, connected);
	if (actions & ACTION_FORCE_ERROR)
		force_error(connection);
	return false;
}

void connection_extend_deadline(struct connection *connection)
{
	lock_sessions(&connection->engine->lock);
	session_set_deadline(connection, now_milliseconds());
	unlock_sessions(&connection->engine->lock);
}

/* ---- The end ---- */

/* Collects what is reported of a session. */
static NEEDS_LOCK struct report make_report(const struct connection *connection, enum status status)
{
	const struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	const struct device *device = connection->device;
	bool checked = protocol->local >= LOCAL_CHECKED && !protocol->gave_up;
	bool verified = checked && protocol->verifying && protocol->check == STATUS_SUCCESS;
	uint64_t pass = transfer_pass(&session->transfer), bytes = session->figures.bytes;
	const struct transfer_sink *sink = &session->transfer.sink;
	uint64_t length = sink->stream.plan.length, kept = checked ? sink->kept : 0;

	return (struct report){
		.status = status,
		.cause = session->cause[0] ? session->cause : status_in_words(status),
		.signal_number = connection->engine->process.signal_number,
		.peer = connection->peer,
		.transport = connection->limits.transport,
		.device = device ? ibv_get_device_name(device->verbs->device) : NULL,
		.tos = connection->tos,
		.connected = protocol->connected,
		.disconnected = protocol->disconnected,
		/* of a WRITE over iWARP a completion says no more than that TCP has it */
		.operated = protocol->local >= LOCAL_OPERATION_COMPLETED && !protocol->gave_up &&
			    !(connection->limits.iwarp && session->transfer.plan.writes),
		.peer_operated =
			protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT,
		.delivered =
			protocol->remote == REMOTE_VERDICT && protocol->verdict == STATUS_SUCCESS,
		.peer_mtu = connection->agreement.peer_mtu,
		.peer_device = connection->agreement.peer_device,
		.operations = pass == TRANSFER_UNKNOWN || !pass ? bytes > 0 : bytes / pass,
		.bytes = bytes,
		.request_bytes = session->figures.request_bytes,
		.depth = connection->limits.depth,
		.nanoseconds = session->figures.completed - session->figures.started,
		.latency = session->figures.latency,
		.outgoing_digest_nanoseconds = session->source
						       ? source_nanoseconds(session->source)
						       : connection->payload->digest_nanoseconds,
		.verification_nanoseconds = session->figures.verification_nanoseconds,
		.received_bytes = kept < length ? kept : length, /* of one pass */
		.verified = verified,
		.verified_bytes = verified ? session->verified_bytes : 0,
		.unfinished_sends = outstanding_sends(session),
		.unfinished_receives = session->outstanding_receives,
	};
}

void connection_finish(struct connection *connection, enum status status, bool outcome)
{
	struct workers workers = streams_stop(connection);
	struct latency *latency;
	struct counters counters;
	struct report report;

	read_counters(connection, &counters);
	lock_sessions(&connection->engine->lock);
	report = make_report(connection, status);
	latency = connection->session.figures.latency;
	unlock_sessions(&connection->engine->lock);
	report.before = &connection->counters;
	report.after = &counters;
	if (connection->engine->check)
		check_session(connection->engine->check, &report);
	else
		report_session(&connection->log, &report);
	if (outcome && !connection->engine->check)
		report_json(&connection->log, &report);
	workers_release(workers, connection_destroy(connection));
	free(latency);
}

/* ---- The engine ---- */

void engine_init(struct engine *engine, const struct options *options)
{
	memset(engine, 0, sizeof(*engine));
	engine->options = options;
	console_init(&engine->console, options);
	engine->log.console = &engine->console;
	process_init(&engine->process, options, &engine->console);
	lock_init(&engine->lock);
	lock_sessions(&engine->lock);
	TAILQ_INIT(&engine->connections);
	queue_init(&engine->work);
	queue_init(&engine->polled);
	unlock_sessions(&engine->lock);
}

enum status engine_open(struct engine *engine)
{
	enum status status = payload_load(&engine->payload, &engine->process);
	int error;

	if (status == STATUS_SUCCESS)
		status = process_open(&engine->process);
	if (status != STATUS_SUCCESS)
		return status;
	engine->budget = memory_budget();
	mallopt(M_ARENA_MAX, 1); /* the second thread allocates too little to map one of its own */
	error = pthread_create(&engine->completion_thread, NULL, run_completion_thread, engine);
	if (error)
		return process_fail(&engine->process, STATUS_LOCAL_FAILURE,
				    "cannot start the completion thread: %s", strerror(error));
	engine->completion_thread_runs = true;
	return STATUS_SUCCESS;
}

enum status engine_reload(struct engine *engine)
{
	payload_free(&engine->payload);
	memset(&engine->payload, 0, sizeof(engine->payload));
	return payload_load(&engine->payload, &engine->process);
}

void engine_close(struct engine *engine)
{
	if (engine->completion_thread_runs) {
		process_stop_channels(&engine->process);
		pthread_join(engine->completion_thread, NULL);
	}
	workers_await(WORKER_SECONDS);
	process_close(&engine->process);
	payload_free(&engine->payload);
	lock_destroy(&engine->lock);
}

void engine_report_json(struct engine *engine, enum status status)
{
	const struct report report = {
		.status = status,
		.cause = engine->process.failure.cause,
		.signal_number = engine->process.signal_number,
		.tos = -1,
	};

	report_json(&engine->log, &report);
}
