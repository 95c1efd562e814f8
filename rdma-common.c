// SPDX-License-Identifier: MIT
/*
 * The shared module, in the order of a session: the state machine; memory registration; receives
 * and what is posted; how events drive the session; completions and the thread that polls them;
 * deadlines and probes; teardown. The rooms in rdma-common/ hold the rest, connection the main
 * thread's part.
 *
 * Three error conventions are in use. librdmacm and ibv_get_cq_event(3) return -1 and set
 * errno. ibv_post_send(3), ibv_modify_qp(3), ibv_req_notify_cq(3) and the verbs that destroy return
 * an errno value. ibv_poll_cq(3) returns a negative number and says nothing more.
 */
#include "rdma-common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma-common/work.h"

/* MSG_PROGRESS is sent this often. */
#define PROGRESS_MILLISECONDS 250
/*
 * An idle peer's adapter is probed after this time, then after twice as long each time, up to this
 * part of --timeout.
 */
#define PROBE_MILLISECONDS 250
#define PROBES_PER_TIMEOUT 4
/* The time that a connection that has failed, or that is overdue, may take to close. */
#define CLOSING_MILLISECONDS 1000
/* Slots of the control region, one cache line each: receives, then one for each type of message. */
#define SLOT_SIZE ((size_t)64)
#define SEND_SLOT RECEIVES
#define SLOTS     (RECEIVES + MESSAGE_TYPES)
/* Completions that are taken off a completion queue at a time. */
#define POLL_SIZE 16
/* Completion events are acknowledged this many at a time: each acknowledgement takes a mutex. */
#define EVENTS_PER_ACKNOWLEDGEMENT 64
/*
 * In one hold of the lock the completion thread handles about so many completions at most, and
 * polls so often (which only --busy-poll comes to) before it looks for anything else.
 */
#define COMPLETIONS_PER_HOLD 64
#define POLLS_PER_HOLD       1000

/*
 * The messages of a session, and what each waits for:
 *
 *     client                                            server
 *     connect request, with a hello        ------->     hello_refusal(), or
 *                                          <-------     accepted, with a hello
 *     MSG_MR: address, length, rkey        ------->
 *                                          <-------     MSG_MR, once the client's is here
 *     RDMA WRITE or READ                   <=====>      RDMA WRITE or READ
 *     MSG_DONE: digest                     ------->     behind a WRITE, or when a READ completed
 *                                          <-------     MSG_DONE: digest
 *     both verify what they received, each once its own MSG_DONE is sent and the peer's is here
 *     MSG_VERDICT                          <------>     MSG_VERDICT
 *     disconnects, once it has both        ------->     waits for that
 *
 * The threads, and their ways to a session:
 *
 *     main thread                              completion thread
 *     engine_wait(): CM events, device         process_wait_channel(): completion
 *     events, signals, deadlines               events: handle_channel()
 *          |                                        |
 *     connection_handle(), connection_fail(),  poll_in_turn(),
 *     session_check_clocks()                   handle_completion()
 *          |                                        |
 *          `------> handle_event(), locked <--------'
 *                   protocol_step(), then run_actions(): posts at once, and leaves
 *                   the rest in pending_actions to the main thread, which it wakes
 *          |
 *     connection_service(): disconnects, forces the error state, finishes; starts the
 *     verification, whose own thread ends with connection_checked()
 */

/* ---- The state machine of a session ---- */

struct protocol protocol_start(enum role role, enum operation operation)
{
	struct protocol protocol = {
		.role = role,
		.operation = operation,
		.operates = true,
		.phase = PHASE_CONNECTING,
		.status = STATUS_SUCCESS,
	};

	return protocol;
}

/* The outcome of the session if it ends now, by all that was received and completed. */
static enum status conclusion(const struct protocol *protocol)
{
	if (protocol->local >= LOCAL_CHECKED && protocol->check != STATUS_SUCCESS)
		return protocol->check;
	if (protocol->remote == REMOTE_VERDICT && protocol->verdict != STATUS_SUCCESS)
		return protocol->verdict;
	if (protocol->local >= LOCAL_CHECKED &&
	    (protocol->verifying ? protocol->remote == REMOTE_VERDICT : protocol->disconnected))
		return STATUS_SUCCESS;
	return STATUS_PEER_LOST;
}

/*
 * True if `status` is why the session closes: the first reason counts. But a peer that is lost may
 * have broken the protocol before it went, and the completion that shows it comes only now.
 */
static bool counts_as_reason(const struct protocol *protocol, enum status status)
{
	return protocol->phase < PHASE_CLOSING ||
	       (status == STATUS_CONTENTS_WRONG && protocol->status == STATUS_PEER_LOST);
}

/* From now on nothing is posted. Once both directions have been verified, no reason counts. */
static void begin_closing(struct step *step, enum status status)
{
	struct protocol *protocol = &step->protocol;

	if (!counts_as_reason(protocol, status))
		return;
	protocol->status = conclusion(protocol) == STATUS_SUCCESS ? STATUS_SUCCESS : status;
	if (protocol->phase < PHASE_CLOSING)
		step->actions |= ACTION_DISCONNECT;
	protocol->phase = PHASE_CLOSING;
}

/* The connection stands. A message can overtake this news, so it comes from two sides. */
static void establish(struct protocol *protocol)
{
	if (protocol->phase != PHASE_CONNECTING)
		return;
	protocol->phase = PHASE_EXCHANGING;
	protocol->connected = true;
}

/*
 * True if MSG_DONE is posted together with the operation. It follows a WRITE in order. A SEND may
 * overtake a READ, and the peer would free what is still being read, so MSG_DONE waits for the READ
 * to complete.
 *
 * IBV_SEND_FENCE would let the adapter wait, but in Linux 6.1 neither software adapter can be left
 * to it: over Soft-RoCE a fenced SEND is now and then never sent, and soft-iWARP answers no READ
 * while a fenced SEND waits for one of its own.
 */
static bool done_follows_at_once(const struct protocol *protocol)
{
	return protocol->operates && protocol->operation == OPERATION_WRITE;
}

/* A message of the peer's: in its turn, or it breaks the protocol. */
static void receive(struct step *step, enum remote_stage message)
{
	struct protocol *protocol = &step->protocol;
	bool our_turn_first; /* what this side must have posted before the peer can send this */

	switch (message) {
	case REMOTE_MR: /* the client's comes first: an iWARP client must be the first to send */
		our_turn_first =
			protocol->role == ROLE_SERVER || protocol->local >= LOCAL_MR_POSTED;
		break;
	case REMOTE_DONE:
		our_turn_first = protocol->local >= LOCAL_MR_POSTED;
		break;
	default: /* judges what our MSG_DONE announced */
		our_turn_first =
			protocol->verifying &&
			protocol->local >= (done_follows_at_once(protocol) ? LOCAL_OPERATION_POSTED
									   : LOCAL_DONE_POSTED);
	}
	if (message != protocol->remote + 1 || !our_turn_first) {
		begin_closing(step, STATUS_CONTENTS_WRONG);
		return;
	}
	establish(protocol);
	protocol->remote = message;
}

/* Records one of this side's completions: they arrive in the order of posting. */
static void complete(struct step *step, enum local_stage before, enum local_stage after)
{
	if (step->protocol.local == before)
		step->protocol.local = after;
	else
		begin_closing(step, STATUS_LOCAL_FAILURE);
}

static void receive_verdict(struct step *step, enum status verdict)
{
	if (step->protocol.remote < REMOTE_VERDICT) /* the first one counts */
		step->protocol.verdict = verdict;
	receive(step, REMOTE_VERDICT);
}

/* The answer to ACTION_CHECK, or to nothing that was asked. */
static void conclude_check(struct step *step, enum status check)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->local != LOCAL_CHECKING) {
		begin_closing(step, STATUS_LOCAL_FAILURE);
		return;
	}
	protocol->local = LOCAL_CHECKED;
	protocol->check = check;
}

/* The deadline passed: for the exchange, then for closing, then for closing by force. */
static void expire(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->phase < PHASE_CLOSING) {
		begin_closing(step, STATUS_TIMED_OUT);
	} else if (!protocol->overdue && !protocol->drained) {
		protocol->overdue = true;
		step->actions |= ACTION_FORCE_ERROR;
	} else {
		protocol->phase = PHASE_FINISHED;
		step->actions |= ACTION_FINISH;
	}
}

/* Records what an event changes by itself. */
static void record(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;

	switch (event.type) {
	case EVENT_ESTABLISHED:
		establish(protocol);
		break;
	case EVENT_MR_RECEIVED:
		receive(step, REMOTE_MR);
		break;
	case EVENT_DONE_RECEIVED:
		receive(step, REMOTE_DONE);
		break;
	case EVENT_VERDICT_RECEIVED:
		receive_verdict(step, event.status);
		break;
	case EVENT_MR_SENT:
		complete(step, LOCAL_MR_POSTED, LOCAL_MR_SENT);
		break;
	case EVENT_OPERATION_COMPLETED:
		complete(step, LOCAL_OPERATION_POSTED,
			 done_follows_at_once(protocol) ? LOCAL_DONE_POSTED
							: LOCAL_OPERATION_COMPLETED);
		break;
	case EVENT_DONE_SENT:
		complete(step, LOCAL_DONE_POSTED, LOCAL_DONE_SENT);
		break;
	case EVENT_CHECKED:
		conclude_check(step, event.status);
		break;
	case EVENT_VERDICT_SENT:
		complete(step, LOCAL_VERDICT_POSTED, LOCAL_VERDICT_SENT);
		break;
	case EVENT_FAILED:
		begin_closing(step, event.status);
		break;
	case EVENT_DISCONNECTED:
		protocol->disconnected = true;
		begin_closing(step, STATUS_PEER_LOST);
		break;
	case EVENT_FLUSHED:
		/* while connecting, an event that says why the connection failed is on its way */
		if (protocol->phase == PHASE_EXCHANGING)
			begin_closing(step, STATUS_PEER_LOST);
		break;
	case EVENT_INTERRUPTED:
		begin_closing(step, STATUS_INTERRUPTED);
		break;
	case EVENT_DRAINED:
		protocol->drained = true;
		break;
	case EVENT_DEADLINE:
		expire(step);
		break;
	case EVENT_TYPES:
		break;
	}
}

/* True if this side has read or written all that it reads or writes: MSG_DONE is due. */
static bool has_operated(const struct protocol *protocol)
{
	if (protocol->operates)
		return protocol->local == LOCAL_OPERATION_COMPLETED;
	return protocol->local == LOCAL_MR_SENT && protocol->remote >= REMOTE_MR;
}

/* The next thing to do, once what it needs is there. */
static void proceed(struct step *step)
{
	struct protocol *protocol = &step->protocol;
	bool may_post = protocol->phase == PHASE_EXCHANGING;

	if (may_post && protocol->local == LOCAL_IDLE &&
	    (protocol->role == ROLE_CLIENT || protocol->remote == REMOTE_MR)) {
		protocol->local = LOCAL_MR_POSTED;
		step->actions |= ACTION_SEND_MR;
	} else if (may_post && protocol->local == LOCAL_MR_SENT && protocol->remote >= REMOTE_MR &&
		   protocol->operates) {
		protocol->local = LOCAL_OPERATION_POSTED;
		step->actions |= ACTION_POST_OPERATION;
		if (done_follows_at_once(protocol))
			step->actions |= ACTION_SEND_DONE;
	} else if (may_post && has_operated(protocol)) {
		protocol->local = LOCAL_DONE_POSTED;
		step->actions |= ACTION_SEND_DONE;
	} else if (protocol->local == LOCAL_DONE_SENT && protocol->remote >= REMOTE_DONE) {
		protocol->local = LOCAL_CHECKING;
		step->actions |= ACTION_CHECK;
	} else if (may_post && protocol->local == LOCAL_CHECKED && protocol->verifying) {
		protocol->local = LOCAL_VERDICT_POSTED;
		step->actions |= ACTION_SEND_VERDICT;
	} else if (may_post && protocol->local == LOCAL_VERDICT_SENT &&
		   protocol->remote == REMOTE_VERDICT && protocol->role == ROLE_CLIENT) {
		begin_closing(step, conclusion(protocol)); /* the server waits for this */
	}
}

/*
 * Finished when everything posted completed, the payload is verified if that has begun and, where a
 * connection stood, the disconnection was reported. What looked like a lost peer may have been the
 * regular end, overtaken on its way here: the disconnection and the last completions come by
 * different channels.
 */
static void settle(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->phase == PHASE_CLOSING && protocol->drained &&
	    protocol->local != LOCAL_CHECKING && (protocol->disconnected || !protocol->connected)) {
		protocol->phase = PHASE_FINISHED;
		step->actions |= ACTION_FINISH;
	}
	if (protocol->phase == PHASE_FINISHED && protocol->status == STATUS_PEER_LOST)
		protocol->status = conclusion(protocol);
}

struct step protocol_step(struct protocol protocol, struct event event)
{
	struct step step = { .protocol = protocol };

	if (protocol.phase == PHASE_FINISHED)
		return step;
	record(&step, event);
	proceed(&step);
	settle(&step);
	return step;
}

/* ---- Memory registration ---- */

static enum status region_register(struct connection *connection, struct region *region,
				   uint8_t *memory, size_t size, unsigned int access,
				   struct failure *failure)
{
	region->memory = memory;
	region->size = size;
	region->mr = ibv_reg_mr(connection->pd, memory, size, access);
	if (!region->mr)
		return registration_failed(size, failure);
	print_trace(&connection->log, "ibv_reg_mr: %zu bytes at %p, rkey 0x%" PRIx32 ", access %s",
		    size, (void *)memory, region->mr->rkey, access_names(access));
	return STATUS_SUCCESS;
}

/* Maps and registers `size` bytes of zeros; the connection owns them at once. */
static enum status region_create(struct connection *connection, struct region *region, size_t size,
				 unsigned int access, struct failure *failure)
{
	void *memory = memory_map(size);

	if (!memory)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate %zu bytes of memory: %s", size,
				   strerror(errno));
	region->owned = true;
	return region_register(connection, region, memory, size, access, failure);
}

/* False if the adapter may still use the memory, which then stays. */
static bool region_destroy(struct connection *connection, struct region *region)
{
	int error = region->mr ? ibv_dereg_mr(region->mr) : 0;

	if (error)
		print_warning(connection->log.console, "cannot deregister %zu bytes of memory: %s",
			      region->size, strerror(error));
	else if (region->owned && region->memory && memory_unmap(region->memory, region->size))
		print_warning(connection->log.console, "cannot unmap %zu bytes of memory: %s",
			      region->size, strerror(errno));
	memset(region, 0, sizeof(*region));
	return !error;
}

enum status register_outgoing(struct connection *connection, struct failure *failure)
{
	const struct options *options = connection->engine->options;
	const struct payload *payload = &connection->engine->payload;
	bool reading = options->operation == OPERATION_READ;
	enum status status = region_create(connection, &connection->control, SLOTS * SLOT_SIZE,
					   IBV_ACCESS_LOCAL_WRITE, failure);

	if (status != STATUS_SUCCESS ||
	    !sends_payload(options->role, options->operation, connection->one_way))
		return status;
	/* a payload that this side writes needs no access flag: the adapter may always read it */
	return region_register(connection, &connection->outgoing, payload->memory, payload->size,
			       reading ? IBV_ACCESS_REMOTE_READ : 0, failure);
}

enum status register_incoming(struct connection *connection, struct failure *failure)
{
	const struct options *options = connection->engine->options;
	uint64_t size = connection->agreement.incoming_length;
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;

	if (size == 0)
		return STATUS_SUCCESS;
	/* over iWARP the sink of an RDMA READ is written by the peer's adapter */
	if (options->operation == OPERATION_WRITE || connection->limits.iwarp)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return region_create(connection, &connection->incoming, size, access, failure);
}

enum status withdraw_incoming(struct connection *connection, struct failure *failure)
{
	struct region *incoming = &connection->incoming;
	int error = ibv_dereg_mr(incoming->mr);

	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot deregister %zu bytes of memory: %s; what the peer may "
				   "still change is not verified",
				   incoming->size, strerror(error));
	print_trace(&connection->log, "ibv_dereg_mr: %zu bytes", incoming->size);
	incoming->mr = NULL;
	return STATUS_SUCCESS;
}

/* A scatter/gather element for `size` bytes at `offset` of a region. */
static struct ibv_sge make_sge(const struct region *region, uint64_t offset, uint64_t size)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)region->memory + offset,
		.length = (uint32_t)size,
		.lkey = region->mr->lkey,
	};

	return sge;
}

/* ---- Receives ---- */

/* Posts a receive into `slot` and counts it. 0 or an errno value. */
static NEEDS_LOCK int post_receive(struct connection *connection, unsigned int slot)
{
	struct ibv_sge sge = make_sge(&connection->control, slot * SLOT_SIZE, MESSAGE_SIZE);
	struct ibv_recv_wr *rejected, request = {
		.wr_id = make_wr_id(WR_RECEIVE, slot),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int error = ibv_post_recv(connection->id->qp, &request, &rejected);

	if (!error)
		connection->session.outstanding_receives++;
	return error;
}

enum status post_receives(struct connection *connection, struct failure *failure)
{
	int error = 0;

	print_trace(&connection->log, "ibv_post_recv: %d receives", RECEIVES);
	lock_sessions(&connection->engine->lock);
	for (unsigned int slot = 0; slot < RECEIVES && !error; slot++)
		error = post_receive(connection, slot);
	unlock_sessions(&connection->engine->lock);
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_post_recv failed: %s",
				   strerror(error));
	return STATUS_SUCCESS;
}

/* ---- Posting ---- */

/* Posts one work request that is not of the operation, and counts it. 0 or an errno value. */
static NEEDS_LOCK int post_send(struct connection *connection, struct ibv_send_wr *request)
{
	struct ibv_send_wr *rejected;
	int error = ibv_post_send(connection->id->qp, request, &rejected);

	if (!error)
		connection->session.outstanding_messages++;
	return error;
}

/* IBV_SEND_INLINE if so many bytes fit into a work request. */
static unsigned int inline_flag(const struct connection *connection, uint64_t size)
{
	return size <= connection->limits.inline_size ? IBV_SEND_INLINE : 0;
}

/* Each type has a slot of its own and is in flight once at a time, so none is overwritten there. */
static NEEDS_LOCK int post_message(struct connection *connection, const struct message *message)
{
	uint64_t offset = (SEND_SLOT + (uint64_t)message->type) * SLOT_SIZE;
	struct ibv_sge sge = make_sge(&connection->control, offset, MESSAGE_SIZE);
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_MESSAGE, message->type),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | inline_flag(connection, MESSAGE_SIZE),
	};

	encode_message(message, connection->control.memory + offset);
	print_trace(&connection->log, "ibv_post_send: SEND %s", message_name(message->type));
	return post_send(connection, &request);
}

/* Sends address, length and rkey of the region that the peer may write to, or read from. */
static NEEDS_LOCK int send_mr(struct connection *connection)
{
	const struct region *exposed = connection->engine->options->operation == OPERATION_WRITE
					       ? &connection->incoming
					       : &connection->outgoing;
	const struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->memory,
		.length = exposed->size,
		.rkey = exposed->mr ? exposed->mr->rkey : 0, /* none in one way of --one-way */
	};

	return post_message(connection, &message);
}

/* Writes the common part of all work requests of the operation: once, it costs nothing later. */
static NEEDS_LOCK void prepare_batch(struct connection *connection)
{
	struct session *session = &connection->session;
	bool writes = session->protocol.operation == OPERATION_WRITE;

	for (unsigned int i = 0; i < BATCH; i++) {
		session->batch_sges[i] = make_sge(connection->transfer_region, 0, 0);
		session->batch[i] = (struct ibv_send_wr){
			.next = i + 1 < BATCH ? &session->batch[i + 1] : NULL,
			.sg_list = &session->batch_sges[i],
			.num_sge = 1,
			.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.wr.rdma.rkey = session->peer_region.rkey,
		};
	}
}

/* Makes `request` carry the next piece of the payload; its bytes. */
static NEEDS_LOCK uint64_t make_request(struct connection *connection, struct ibv_send_wr *request)
{
	struct session *session = &connection->session;
	const struct piece piece = transfer_next(&session->transfer);

	request->wr_id = make_wr_id(WR_OPERATION, piece.number);
	request->sg_list->addr = (uintptr_t)connection->transfer_region->memory + piece.offset;
	request->sg_list->length = (uint32_t)piece.size;
	request->wr.rdma.remote_addr = session->peer_region.value + piece.offset;
	request->send_flags = piece.signaled ? IBV_SEND_SIGNALED : 0;
	if (request->opcode == IBV_WR_RDMA_WRITE)
		request->send_flags |= inline_flag(connection, piece.size);
	return piece.size;
}

/* Posts `count` work requests of the operation, BATCH at most, as one list. 0 or an errno value. */
static NEEDS_LOCK int post_batch(struct connection *connection, unsigned int count)
{
	struct session *session = &connection->session;
	struct ibv_send_wr *rejected, *last = &session->batch[count - 1], *next = last->next;
	uint64_t bytes = 0;
	int error;

	for (unsigned int i = 0; i < count; i++)
		bytes += make_request(connection, &session->batch[i]);
	last->next = NULL;
	error = ibv_post_send(connection->id->qp, session->batch, &rejected);
	last->next = next;
	if (error) {
		transfer_refused(&session->transfer, wr_detail(rejected->wr_id));
		return error;
	}
	print_trace(&connection->log, "ibv_post_send: RDMA %s of %" PRIu64 " bytes in %u requests",
		    last->opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ", bytes, count);
	return 0;
}

/* True if the peer wants the digest of a payload that this side sends. */
static NEEDS_LOCK bool sends_digest(const struct connection *connection)
{
	return connection->session.protocol.verifying && connection->outgoing.mr;
}

/* Sends MSG_DONE, with the digest of the outgoing payload if there is one. */
static NEEDS_LOCK int send_done(struct connection *connection)
{
	struct message done = { .type = MSG_DONE };

	if (sends_digest(connection))
		done.value = payload_digest(&connection->engine->payload);
	return post_message(connection, &done);
}

/*
 * Posts what the send queue takes of the operation, and digests the same bytes while the wire is
 * busy. Behind the last request of a WRITE follows MSG_DONE. 0 or an errno value.
 */
static NEEDS_LOCK int continue_operation(struct connection *connection)
{
	struct session *session = &connection->session;
	unsigned int count;
	int error;

	if (transfer_all_posted(&session->transfer))
		return 0;
	while ((count = transfer_ready(&session->transfer, BATCH)) > 0) {
		error = post_batch(connection, count);
		if (error)
			return error;
		if (sends_digest(connection))
			payload_extend_digest(&connection->engine->payload,
					      transfer_bytes_posted(&session->transfer));
	}
	if (transfer_all_posted(&session->transfer) && done_follows_at_once(&session->protocol))
		return send_done(connection);
	return 0;
}

/* The peer's region is known: starts the clocks and the operation. */
static NEEDS_LOCK int begin_operation(struct connection *connection)
{
	struct session *session = &connection->session;

	print_status(&connection->log, "received MSG_MR. %s remote memory...",
		     session->protocol.operation == OPERATION_WRITE ? "writing message to"
								    : "reading message from");
	session->figures.started = now_nanoseconds();
	session->figures.completed = session->figures.started;
	session->progress_sent = session->figures.started / 1000000;
	prepare_batch(connection);
	return continue_operation(connection);
}

/*
 * Shows a peer that waits that this side moves: its operation until all of it is posted, since
 * MSG_DONE may be posted then, and the storing of the payload behind that. `done` only grows.
 */
static NEEDS_LOCK int send_progress(struct connection *connection, int64_t now, uint64_t done)
{
	struct session *session = &connection->session;
	const struct message message = { .type = MSG_PROGRESS, .value = done };

	if (!session->protocol.verifying || session->progress_outstanding ||
	    now - session->progress_sent < PROGRESS_MILLISECONDS)
		return 0;
	session->progress_sent = now;
	session->progress_outstanding = true;
	return post_message(connection, &message);
}

/* ---- Events drive the session, in either thread ---- */

/* The main thread takes all off the list before it waits, so that one wakeup is enough. */
void session_request_service(struct connection *connection)
{
	struct engine *engine = connection->engine;

	if (!queue_first(&engine->work))
		process_wake(&engine->process);
	queue_add(&engine->work, &connection->session.work);
}

/* Leaves actions to the main thread, which owns the connection. */
static NEEDS_LOCK void defer_actions(struct connection *connection, unsigned int actions)
{
	if (!actions)
		return;
	connection->session.pending_actions |= actions;
	session_request_service(connection);
}

/* Makes `type` the session's next event. */
static NEEDS_LOCK void raise_event(struct connection *connection, enum event_type type,
				   enum status status)
{
	connection->session.next_event = (struct event){ .type = type, .status = status };
	connection->session.event_waits = true;
}

/* A work request could not be posted: that is the next event. */
static NEEDS_LOCK void raise_post_failure(struct connection *connection, const char *verb,
					  int error)
{
	struct session *session = &connection->session;

	if (!session->cause[0])
		snprintf(session->cause, sizeof(session->cause), "%s failed: %s", verb,
			 strerror(error));
	raise_event(connection, EVENT_FAILED, STATUS_LOCAL_FAILURE);
}

/* Does what the state machine asks for; what that leads to becomes the next event. */
static NEEDS_LOCK void run_actions(struct connection *connection, unsigned int actions)
{
	const struct message verdict = { .type = MSG_VERDICT,
					 .value = connection->session.protocol.check };
	int error = 0;

	defer_actions(connection, actions & (ACTION_CHECK | ACTION_DISCONNECT | ACTION_FORCE_ERROR |
					     ACTION_FINISH));
	if (actions & ACTION_SEND_MR)
		error = send_mr(connection);
	else if (actions & ACTION_POST_OPERATION) /* with ACTION_SEND_DONE for a WRITE */
		error = begin_operation(connection);
	else if (actions & ACTION_SEND_DONE)
		error = send_done(connection);
	else if (actions & ACTION_SEND_VERDICT)
		error = post_message(connection, &verdict);
	if (error)
		raise_post_failure(connection, "ibv_post_send", error);
}

/* Work requests of the send queue that have not completed. */
uint64_t outstanding_sends(const struct session *session)
{
	return transfer_outstanding(&session->transfer) + session->outstanding_messages;
}

/* Takes the next event, if there is one: what an action led to, or that all has completed. */
static NEEDS_LOCK bool next_event(struct connection *connection, struct event *event)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;

	if (session->event_waits) {
		*event = session->next_event;
		session->event_waits = false;
		return true;
	}
	*event = (struct event){ .type = EVENT_DRAINED };
	return protocol->phase == PHASE_CLOSING && !protocol->drained &&
	       !outstanding_sends(session) && !session->outstanding_receives;
}

int64_t session_due(const struct session *session)
{
	if (session->protocol.phase == PHASE_EXCHANGING && session->probe_time < session->deadline)
		return session->probe_time;
	return session->deadline;
}

/* The main thread need not know of what becomes due later: its timer lets it look again. */
void session_set_deadline(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	int64_t timeout = timeout_milliseconds(connection->engine->options);

	if (protocol->phase == PHASE_CLOSING && timeout > CLOSING_MILLISECONDS &&
	    (protocol->status != STATUS_SUCCESS || protocol->overdue || protocol->disconnected))
		timeout = CLOSING_MILLISECONDS;
	session->deadline = now + timeout;
	session->probe_interval = PROBE_MILLISECONDS;
	session->probe_time = now + session->probe_interval;
	if (session_due(session) < session->serviced_by)
		session_request_service(connection);
}

/* Follows up a step, besides its actions: traces, clocks, and polling with --busy-poll. */
static NEEDS_LOCK void follow_step(struct connection *connection, const struct protocol *before,
				   const struct step *step, enum event_type type)
{
	const struct protocol *now = &step->protocol;

	if (step->actions || before->phase != now->phase || before->local != now->local ||
	    before->remote != now->remote)
		print_trace(&connection->log, "%s: %s, %s, %s", event_name(type),
			    phase_name(now->phase), local_stage_name(now->local),
			    remote_stage_name(now->remote));
	if (before->phase == PHASE_CONNECTING && now->phase == PHASE_EXCHANGING &&
	    connection->engine->options->busy_poll)
		queue_add(&connection->engine->polled, &connection->session.polling);
	/* closing is bounded as a whole, and again when the peer has left or it is forced */
	if (before->phase < PHASE_CLOSING || before->overdue != now->overdue ||
	    before->disconnected != now->disconnected)
		session_set_deadline(connection, now_milliseconds());
}

/* Feeds one event to the state machine, and those that follow from it at once. */
static NEEDS_LOCK void handle_event(struct connection *connection, enum event_type type,
				    enum status status)
{
	struct session *session = &connection->session;
	struct event event;

	raise_event(connection, type, status);
	while (next_event(connection, &event)) {
		const struct protocol before = session->protocol;
		const struct step step = protocol_step(before, event);

		session->protocol = step.protocol;
		follow_step(connection, &before, &step, event.type);
		run_actions(connection, step.actions);
	}
}

void connection_handle(struct connection *connection, enum event_type type)
{
	lock_sessions(&connection->engine->lock);
	handle_event(connection, type, STATUS_SUCCESS);
	unlock_sessions(&connection->engine->lock);
}

/* Keeps the first failure in words, and ends the session. */
__attribute__((format(printf, 3, 0))) static NEEDS_LOCK void fail_with(
	struct connection *connection, enum status status, const char *format, va_list arguments)
{
	struct session *session = &connection->session;

	if (!session->cause[0] && counts_as_reason(&session->protocol, status))
		vsnprintf(session->cause, sizeof(session->cause), format, arguments);
	handle_event(connection, EVENT_FAILED, status);
}

void session_fail(struct connection *connection, enum status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fail_with(connection, status, format, arguments);
	va_end(arguments);
}

enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...)
{
	va_list arguments;

	va_start(arguments, format);
	lock_sessions(&connection->engine->lock);
	fail_with(connection, status, format, arguments);
	unlock_sessions(&connection->engine->lock);
	va_end(arguments);
	return status;
}

void connection_checked(struct connection *connection, const struct verdict *verdict)
{
	struct session *session = &connection->session;
	enum status status = verdict->failure.status;

	lock_sessions(&connection->engine->lock);
	session->figures.verification_nanoseconds = verdict->nanoseconds;
	if (status != STATUS_SUCCESS && !session->cause[0])
		snprintf(session->cause, sizeof(session->cause), "%s", verdict->failure.cause);
	handle_event(connection, EVENT_CHECKED, status);
	unlock_sessions(&connection->engine->lock);
}

/* A work request could not be posted, outside of an action. */
static NEEDS_LOCK void fail_posting(struct connection *connection, const char *verb, int error)
{
	session_fail(connection, STATUS_LOCAL_FAILURE, "%s failed: %s", verb, strerror(error));
}

/* ---- Completions, in either thread ---- */

/* The peer's operation moves: waits on, if it does so indeed. */
static NEEDS_LOCK void handle_progress(struct connection *connection, unsigned int slot,
				       uint64_t done)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	int error;

	if (protocol->phase >= PHASE_CLOSING)
		return;
	if (!protocol->verifying || protocol->remote < REMOTE_MR ||
	    protocol->remote > REMOTE_DONE || done <= session->peer_progress) {
		session_fail(connection, STATUS_CONTENTS_WRONG,
			     "the peer reports progress that cannot be: %" PRIu64 " after %" PRIu64,
			     done, session->peer_progress);
		return;
	}
	session->peer_progress = done;
	session_set_deadline(connection, now_milliseconds());
	error = post_receive(connection, slot);
	if (error)
		fail_posting(connection, "ibv_post_recv", error);
}

/* The peer announced its region, which is looked at before it is used. */
static NEEDS_LOCK void handle_mr(struct connection *connection, const struct message *message)
{
	struct session *session = &connection->session;
	uint64_t needed = session->transfer.length;

	if (session->protocol.operates && !region_is_usable(message, needed)) {
		session_fail(connection, STATUS_CONTENTS_WRONG,
			     "the peer announced a memory region of %" PRIu64 " bytes that cannot "
			     "be used: %" PRIu64 " were agreed",
			     message->length, needed);
		return;
	}
	if (session->protocol.remote == REMOTE_SILENT)
		session->peer_region = *message;
	handle_event(connection, EVENT_MR_RECEIVED, STATUS_SUCCESS);
}

/* The peer's verdict on the outgoing payload. */
static NEEDS_LOCK void handle_verdict(struct connection *connection, uint64_t value)
{
	struct session *session = &connection->session;
	enum status status = value == STATUS_SUCCESS ? STATUS_SUCCESS : STATUS_CONTENTS_WRONG;

	if (value == STATUS_LOCAL_FAILURE) {
		status = STATUS_REFUSED;
		if (!session->cause[0])
			snprintf(session->cause, sizeof(session->cause),
				 "the peer received the payload and could not store it; its own "
				 "messages say why");
	}
	handle_event(connection, EVENT_VERDICT_RECEIVED, status);
}

/* A message has arrived in `slot`: `size` bytes. */
static NEEDS_LOCK void handle_message(struct connection *connection, unsigned int slot,
				      uint32_t size)
{
	const uint8_t *wire = connection->control.memory + (size_t)slot * SLOT_SIZE;
	struct session *session = &connection->session;
	struct message message;

	if (slot >= RECEIVES || !decode_message(wire, size, &message)) {
		session_fail(connection, STATUS_CONTENTS_WRONG,
			     "the peer sent %" PRIu32 " bytes that are no message of this protocol",
			     size);
		return;
	}
	print_trace(&connection->log, "received %s", message_name(message.type));
	switch (message.type) {
	case MSG_MR:
		handle_mr(connection, &message);
		break;
	case MSG_DONE:
		if (session->protocol.remote == REMOTE_MR)
			session->peer_digest = message.value;
		handle_event(connection, EVENT_DONE_RECEIVED, STATUS_SUCCESS);
		break;
	case MSG_VERDICT:
		handle_verdict(connection, message.value);
		break;
	default:
		handle_progress(connection, slot, message.value);
	}
}

/* Measures the operation: the work request of this `number` completed at `now`, in nanoseconds. */
static NEEDS_LOCK void measure(struct session *session, uint64_t number, int64_t now)
{
	struct figures *figures = &session->figures;

	if (number % session->transfer.requests_per_pass != 0)
		return;
	if (figures->latency)
		latency_count(figures->latency, now - figures->completed);
	figures->completed = now;
}

/* Work requests of the operation have completed, up to this `number`. */
static NEEDS_LOCK void handle_operation_completion(struct connection *connection, uint64_t number)
{
	struct session *session = &connection->session;
	int64_t now = now_nanoseconds();
	bool is_last = number == session->transfer.requests;
	bool goes_on = !is_last && session->protocol.phase < PHASE_CLOSING;
	/* first: all the rest is done while the wire is busy */
	int error = goes_on ? continue_operation(connection) : 0;

	measure(session, number, now);
	if (is_last) {
		print_status(&connection->log, "send completed successfully.");
		handle_event(connection, EVENT_OPERATION_COMPLETED, STATUS_SUCCESS);
	} else if (goes_on) {
		session_set_deadline(connection, now / 1000000);
		if (!error && !transfer_all_posted(&session->transfer))
			error = send_progress(connection, now / 1000000,
					      session->transfer.completed);
		if (error)
			fail_posting(connection, "ibv_post_send", error);
	}
}

/* A message has been sent. Of verdict and progress no status line is printed. */
static NEEDS_LOCK void handle_message_completion(struct connection *connection,
						 enum message_type type)
{
	static const enum event_type events[] = {
		[MSG_MR] = EVENT_MR_SENT,
		[MSG_DONE] = EVENT_DONE_SENT,
		[MSG_VERDICT] = EVENT_VERDICT_SENT,
	};

	if (type == MSG_PROGRESS) {
		connection->session.progress_outstanding = false;
		return;
	}
	if (type != MSG_VERDICT)
		print_status(&connection->log, "send completed successfully.");
	handle_event(connection, events[type], STATUS_SUCCESS);
}

/* Of a failed completion only wr_id, status, qp_num and vendor_err mean anything. */
static NEEDS_LOCK void handle_failed_completion(struct connection *connection,
						const struct ibv_wc *completion)
{
	const char *name = wr_name(completion->wr_id, connection->session.protocol.operation);
	bool receive = wr_kind(completion->wr_id) == WR_RECEIVE;
	enum status status = completion_status(completion);
	const char *meaning =
		status != STATUS_CONTENTS_WRONG
			? ""
			: "the peer sent something that is no message of this protocol: ";

	if (!receive) /* of receives there are too many */
		print_trace(&connection->log, "%s: %s", name,
			    ibv_wc_status_str(completion->status));
	if (connection_has_broken(completion, connection->limits.iwarp))
		handle_event(connection, EVENT_FLUSHED, STATUS_SUCCESS);
	else
		session_fail(connection, status,
			     "%s%s failed: %s (status %d, vendor error 0x%" PRIx32 ")", meaning,
			     name, ibv_wc_status_str(completion->status), completion->status,
			     completion->vendor_err);
}

/*
 * True if a MSG_DONE that failed counts as sent. The tutorial's program leaves as soon as it has
 * it, and soft-iWARP in Linux calls what it has sent failed when the connection is closed right
 * behind it. Over iWARP a completion says no more than that TCP has the message, anyway.
 */
static NEEDS_LOCK bool counts_as_sent(const struct connection *connection,
				      const struct ibv_wc *completion)
{
	const struct protocol *protocol = &connection->session.protocol;

	return connection->limits.iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR &&
	       completion->wr_id == make_wr_id(WR_MESSAGE, MSG_DONE) && !protocol->verifying &&
	       protocol->local == LOCAL_DONE_POSTED && protocol->remote == REMOTE_DONE;
}

/* One work request, or several of the operation, completed or were flushed. */
static NEEDS_LOCK void count_completion(struct session *session, uint64_t wr_id)
{
	switch (wr_kind(wr_id)) {
	case WR_RECEIVE:
		session->outstanding_receives--;
		break;
	case WR_OPERATION: /* in order: all before it have completed as well */
		session->transfer.completed = wr_detail(wr_id);
		break;
	default:
		session->outstanding_messages--;
	}
}

static NEEDS_LOCK void handle_completion(struct connection *connection,
					 const struct ibv_wc *completion)
{
	uint64_t detail = wr_detail(completion->wr_id);

	count_completion(&connection->session, completion->wr_id);
	if (completion->status != IBV_WC_SUCCESS && !counts_as_sent(connection, completion)) {
		handle_failed_completion(connection, completion);
		return;
	}
	switch (wr_kind(completion->wr_id)) {
	case WR_RECEIVE:
		handle_message(connection, (unsigned int)detail, completion->byte_len);
		break;
	case WR_MESSAGE:
		handle_message_completion(connection, (enum message_type)detail);
		break;
	case WR_OPERATION:
		handle_operation_completion(connection, detail);
		break;
	case WR_PROBE: /* the path and the adapter work; the deadline is for the program there */
		break;
	}
}

/* Handles what is on the completion queue, POLL_SIZE at most. How many there were. */
static NEEDS_LOCK unsigned int poll_completions(struct connection *connection)
{
	struct ibv_wc completions[POLL_SIZE];
	int count = ibv_poll_cq(connection->cq, POLL_SIZE, completions);

	for (int i = 0; i < count; i++)
		handle_completion(connection, &completions[i]);
	if (count < 0)
		session_fail(connection, STATUS_LOCAL_FAILURE, "ibv_poll_cq failed");
	return count > 0 ? (unsigned int)count : 0;
}

/*
 * The connection has a completion event: requests one for what comes later, and polls. With
 * --busy-poll no event is needed: the queue is polled from now on to the end.
 */
static NEEDS_LOCK void handle_completion_event(struct connection *connection)
{
	/* before polling: what completes later makes a new event (ibv_get_cq_event(3)) */
	int error =
		connection->engine->options->busy_poll ? 0 : ibv_req_notify_cq(connection->cq, 0);

	if (error)
		session_fail(connection, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
			     strerror(error));
	queue_add(&connection->engine->polled, &connection->session.polling);
}

/* ---- The thread that polls completion queues ---- */

/*
 * Once all events are acknowledged the main thread may free the connection: nothing of it is
 * touched behind this.
 */
static NEEDS_LOCK void acknowledge_events(struct connection *connection)
{
	unsigned int count = connection->session.unacknowledged_events;

	connection->session.unacknowledged_events = 0;
	ibv_ack_cq_events(connection->cq, count);
}

/*
 * Takes one completion event off a device's channel and lets its completion queue be polled.
 * ibv_destroy_cq(3) waits until the event is acknowledged, so the connection is there until then.
 */
static void handle_channel(struct engine *engine, struct device *device)
{
	struct connection *connection;
	struct session *session;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(device->completion_channel, &cq, &context)) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		print_warning(
			&engine->console,
			"cannot get completion events of a device, which was removed perhaps: %s",
			strerror(errno));
		process_lose_device(&engine->process, device);
		return;
	}
	connection = context;
	/* first: only then what the main thread has written into the connection is seen here */
	lock_sessions_in_turn(&engine->lock);
	session = &connection->session;
	session->unacknowledged_events++;
	if (!session->retired)
		handle_completion_event(connection);
	if (session->retired || session->unacknowledged_events == EVENTS_PER_ACKNOWLEDGEMENT)
		acknowledge_events(connection);
	unlock_sessions(&engine->lock);
}

/* Handles some completions of the connection that was polled least recently; how many. */
static NEEDS_LOCK unsigned int poll_next(struct engine *engine)
{
	struct connection *connection = queue_first(&engine->polled);
	struct place *place = &connection->session.polling;
	unsigned int count = poll_completions(connection);

	queue_remove(&engine->polled, place);
	if (count || engine->options->busy_poll)
		queue_add(&engine->polled, place);
	return count;
}

/*
 * Handles completions as long as there are some, but lets the main thread in soon, and new events.
 * Between two holds of the lock this thread knows no connection but by the list, so that the main
 * thread may free any. False if none is left to be polled.
 */
static bool poll_in_turn(struct engine *engine)
{
	unsigned int polls = 0, completions = 0;
	bool any;

	lock_sessions_in_turn(&engine->lock);
	while (queue_first(&engine->polled) && polls < POLLS_PER_HOLD &&
	       completions < COMPLETIONS_PER_HOLD) {
		completions += poll_next(engine);
		polls++;
		if (lock_is_wanted(&engine->lock))
			break;
	}
	any = queue_first(&engine->polled);
	unlock_sessions(&engine->lock);
	return any;
}

void *run_completion_thread(void *argument)
{
	struct engine *engine = argument;

	for (;;) {
		struct device *device;
		int patience = poll_in_turn(engine) ? 0 : -1;

		switch (process_wait_channel(&engine->process, patience, &device)) {
		case CHANNEL_READY:
			handle_channel(engine, device);
			break;
		case CHANNEL_QUIET:
			break;
		case CHANNEL_STOP:
			return NULL;
		}
	}
}

/* ---- Clocks, in the main thread ---- */

/*
 * A WRITE of nothing, which needs no rkey and which the peer's program does not see. Over
 * InfiniBand and RoCE the peer's adapter answers: if the host is gone it fails, after the
 * transport's own retries, where waiting for a message would show nothing. Over iWARP it shows
 * less, but soft-iWARP in Linux needs it: what a client sends just when its connect request is
 * answered may be overlooked there until more arrives.
 *
 * Not a READ of nothing: Soft-RoCE in Linux 6.1 looks for its rkey when it is repeated, and breaks
 * the connection, and so does soft-iWARP under load.
 */
static NEEDS_LOCK void probe(struct connection *connection)
{
	struct session *session = &connection->session;
	int64_t longest = timeout_milliseconds(connection->engine->options) / PROBES_PER_TIMEOUT;
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_PROBE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int error;

	session->probe_interval *= 2;
	if (session->probe_interval > longest)
		session->probe_interval = longest;
	session->probe_time = now_milliseconds() + session->probe_interval;
	if (outstanding_sends(session) ||
	    probe_disturbs(&session->protocol, connection->limits.iwarp))
		return;
	print_trace(&connection->log, "ibv_post_send: probe");
	error = post_send(connection, &request);
	if (error)
		fail_posting(connection, "ibv_post_send", error);
}

void session_verification_moved(struct connection *connection)
{
	struct session *session = &connection->session;
	int64_t now = now_milliseconds();
	int error;

	session_set_deadline(connection, now);
	if (session->protocol.phase != PHASE_EXCHANGING ||
	    session->protocol.local != LOCAL_CHECKING)
		return;
	session->verification_steps++;
	error = send_progress(connection, now,
			      session->transfer.completed + session->verification_steps);
	if (error)
		fail_posting(connection, "ibv_post_send", error);
}

void session_check_clocks(struct connection *connection)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;

	/* what has come is handled before the peer is called silent */
	if (connection->cq && now_milliseconds() >= session->deadline)
		poll_completions(connection);
	if (protocol->phase < PHASE_FINISHED && now_milliseconds() >= session->deadline) {
		if (protocol->phase < PHASE_CLOSING && protocol->local == LOCAL_CHECKING)
			session_fail(connection, STATUS_TIMED_OUT,
				     "all is received, but storing it did not move for the time of "
				     "--timeout; is there a reader, and does the disk answer?");
		else
			handle_event(connection, EVENT_DEADLINE, STATUS_SUCCESS);
	}
	if (protocol->phase == PHASE_EXCHANGING && now_milliseconds() >= session->probe_time)
		probe(connection);
}

/* ---- The end ---- */

/*
 * The completion thread may hold an event of this completion queue, and ibv_destroy_cq(3) waits
 * until that is acknowledged. But some providers take the queue's memory away before they wait:
 * from now on it is polled no more.
 */
static void retire(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct session *session = &connection->session;

	lock_sessions(&engine->lock);
	queue_remove(&engine->polled, &session->polling);
	queue_remove(&engine->work, &session->work);
	session->retired = true;
	if (connection->cq)
		acknowledge_events(connection);
	unlock_sessions(&engine->lock);
}

/* Frees the connection, in the one order in which that works. */
void connection_destroy(struct connection *connection)
{
	bool stranded; /* the completion queue lives on, and may yet name this connection */
	int error;

	retire(connection);
	TAILQ_REMOVE(&connection->engine->connections, connection, link);
	timers_remove(&connection->engine->timers, &connection->timer);
	if (connection->id->qp)
		rdma_destroy_qp(connection->id);
	error = connection->cq ? ibv_destroy_cq(connection->cq) : 0;
	stranded = error;
	if (error)
		print_warning(connection->log.console, "cannot destroy a completion queue: %s",
			      strerror(error));
	region_destroy(connection, &connection->incoming);
	if (!region_destroy(connection, &connection->outgoing))
		connection->engine->payload.stays = true;
	region_destroy(connection, &connection->control);
	error = connection->pd ? ibv_dealloc_pd(connection->pd) : 0;
	if (error)
		print_warning(connection->log.console, "cannot free a protection domain: %s",
			      strerror(error));
	if (connection->device)
		process_release_device(&connection->engine->process, connection->device);
	connection->id->context = NULL; /* if it stays, its events are nobody's */
	if (rdma_destroy_id(connection->id))
		print_warning(connection->log.console, "cannot destroy a connection identifier: %s",
			      strerror(errno));
	if (!stranded)
		free(connection);
}
