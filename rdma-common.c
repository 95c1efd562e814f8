// SPDX-License-Identifier: MIT
/*
 * The shared module, in the order of a session: memory registration; receives and what is posted;
 * how events drive the state machine (rdma-common/protocol.c); completions and the thread that
 * polls them; deadlines and probes; teardown. The rooms in rdma-common/ hold the rest, connection
 * the main thread's part.
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
#include <sys/resource.h>

#include "rdma-common/memory.h"
#include "rdma-common/work.h"

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
_Static_assert(SLOTS *SLOT_SIZE <= 4096, "SESSION_PAGES counts one page for all messages");
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
 *     meanwhile each tells the other by MSG_WINDOW how far the streams are (transfer.h), and
 *     behind its MSG_VERDICT, until the other's is here, that it has received those
 *     both verify what they received, each once its own MSG_DONE is sent and the peer's is here
 *     MSG_VERDICT                          <------>     MSG_VERDICT
 *     (or a bad one at any time behind MSG_MR, from a side that gives up)
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
 *     connection_service(): disconnects, forces the error state, finishes
 *
 *     workers, a thread each, where a stream needs one: the source fills the outgoing ring, the
 *     sink empties the incoming one; both come here through the calls in rdma-common/streams.c
 */

/* ---- Memory registration ---- */

int region_register(struct connection *connection, struct region *region, unsigned int access)
{
	region->mr = ibv_reg_mr(connection->pd, region->memory, region->size, access);
	if (!region->mr)
		return errno;
	region->counted = memory_pages(region->memory, region->size);
	connection->engine->registered += region->counted;
	print_trace(&connection->log, "ibv_reg_mr: %zu bytes at %p, rkey 0x%" PRIx32 ", access %s",
		    region->size, (void *)region->memory, region->mr->rkey, access_names(access));
	return 0;
}

/* 0, or an errno value: then the adapter may still use the memory. */
static int region_deregister(struct region *region)
{
	int error = region->mr ? ibv_dereg_mr(region->mr) : 0;

	if (!error)
		region->mr = NULL;
	return error;
}

/* False if the adapter may still use the memory, which then stays. */
static bool region_destroy(struct connection *connection, struct region *region)
{
	int error = region_deregister(region);

	if (error)
		print_warning(connection->log.console, "cannot deregister %zu bytes of memory: %s",
			      region->size, strerror(error));
	else if (region->owned && region->memory && memory_unmap(region->memory, region->size))
		print_warning(connection->log.console, "cannot unmap %zu bytes of memory: %s",
			      region->size, strerror(errno));
	if (!error)
		connection->engine->registered -= region->counted;
	memset(region, 0, sizeof(*region));
	return !error;
}

uint64_t budget_left(const struct engine *engine)
{
	return engine->budget > engine->registered ? engine->budget - engine->registered : 0;
}

/* Fewer than `size` bytes of the budget are left. */
static enum status budget_spent(const struct engine *engine, uint64_t size, struct failure *failure)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur == engine->budget) {
		errno = ENOMEM;
		return registration_failed((size_t)size, failure);
	}
	return failure_set(
		failure, STATUS_LOCAL_FAILURE,
		"cannot register %" PRIu64 " bytes of memory: %u sessions have %" PRIu64
		" KiB, and all may have %" PRIu64 " KiB, a quarter of this machine's memory",
		size, engine->connection_count, engine->registered / 1024, engine->budget / 1024);
}

enum status region_create(struct connection *connection, struct region *region, size_t size,
			  unsigned int access, struct failure *failure)
{
	int error;

	if (memory_pages(NULL, size) > budget_left(connection->engine))
		return budget_spent(connection->engine, size, failure);
	*region = (struct region){ .memory = memory_map(size), .size = size, .owned = true };
	if (!region->memory)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate %zu bytes of memory: %s", size,
				   strerror(errno));
	error = region_register(connection, region, access);
	if (!error)
		return STATUS_SUCCESS;
	region_destroy(connection, region);
	errno = error;
	return registration_failed(size, failure);
}

enum status register_control(struct connection *connection, struct failure *failure)
{
	return region_create(connection, &connection->control, SLOTS * SLOT_SIZE,
			     IBV_ACCESS_LOCAL_WRITE, failure);
}

enum status withdraw_incoming(struct connection *connection, struct failure *failure)
{
	struct region *incoming = &connection->incoming;
	int error = region_deregister(incoming);

	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot deregister %zu bytes of memory: %s; what the peer may "
				   "still change is not verified",
				   incoming->size, strerror(error));
	print_trace(&connection->log, "ibv_dereg_mr: %zu bytes", incoming->size);
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
	struct session *session = &connection->session;
	uint64_t ready = transfer_announce(&session->transfer, now_milliseconds());
	const struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->memory,
		.length = exposed->size,
		.ready = session->protocol.verifying ? ready : 0,
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

/* True if what this side sends is the payload in memory, and the peer wants its digest. */
static NEEDS_LOCK bool digests_payload(const struct connection *connection)
{
	return connection->session.protocol.verifying && !connection->session.source &&
	       connection->outgoing.mr;
}

/* Makes `request` carry what `next` says. */
static NEEDS_LOCK void make_request(const struct connection *connection,
				    struct ibv_send_wr *request,
				    const struct transfer_request *next)
{
	request->wr_id = make_wr_id(WR_OPERATION, next->id);
	request->sg_list->addr = (uintptr_t)connection->transfer_region->memory + next->local;
	request->sg_list->length = (uint32_t)next->size;
	request->wr.rdma.remote_addr = connection->session.peer_region.value + next->remote;
	request->send_flags = next->signaled ? IBV_SEND_SIGNALED : 0;
	if (request->opcode == IBV_WR_RDMA_WRITE)
		request->send_flags |= inline_flag(connection, next->size);
}

/* Makes a list of the work requests that may be posted now, BATCH at most; how many. */
static NEEDS_LOCK unsigned int make_batch(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;
	struct transfer_request next[BATCH];
	unsigned int more, count = 0;

	while ((more = transfer_next(&session->transfer, next + count, BATCH - count, now)) > 0)
		count += more;
	for (unsigned int i = 0; i < count; i++) {
		make_request(connection, &session->batch[i], &next[i]);
		if (next[i].size > session->figures.request_bytes)
			session->figures.request_bytes = next[i].size;
	}
	return count;
}

/* Posts the first `count` work requests of the list, of `bytes` in all. 0 or an errno value. */
static NEEDS_LOCK int post_batch(struct connection *connection, unsigned int count, uint64_t bytes)
{
	struct session *session = &connection->session;
	struct ibv_send_wr *rejected, *last = &session->batch[count - 1], *next = last->next;
	int error;

	last->next = NULL;
	error = ibv_post_send(connection->id->qp, session->batch, &rejected);
	last->next = next;
	if (error) {
		const struct transfer_request first = { .id = wr_detail(rejected->wr_id),
							.size = rejected->sg_list->length };

		transfer_rejected(&session->transfer, &first);
		return error;
	}
	print_trace(&connection->log, "ibv_post_send: RDMA %s of %" PRIu64 " bytes in %u requests",
		    last->opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ", bytes, count);
	return 0;
}

/*
 * Posts what may be posted of the operation, and digests a payload that is in memory while the wire
 * is busy. 0 or an errno value.
 */
static NEEDS_LOCK int continue_operation(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;
	const uint64_t *posted = &session->transfer.operation.posted;
	uint64_t before = *posted;
	unsigned int count;

	if (session->protocol.phase != PHASE_EXCHANGING ||
	    session->protocol.local != LOCAL_OPERATION_POSTED || !session->protocol.operates)
		return 0;
	while ((count = make_batch(connection, now)) > 0) {
		int error = post_batch(connection, count, *posted - before);

		if (error)
			return error;
		if (digests_payload(connection))
			payload_extend_digest(connection->payload, *posted);
		before = *posted;
	}
	return 0;
}

/* There is one slot for it. */
static NEEDS_LOCK bool window_is_allowed(const struct session *session)
{
	return window_may_be_sent(&session->protocol) && !session->window_outstanding;
}

/* The peer is told how far this side is, if that is due. */
static NEEDS_LOCK int send_window(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;
	struct message message = { .type = MSG_WINDOW };
	struct window window;

	if (!window_is_allowed(session) || !transfer_window(&session->transfer, now, &window))
		return 0;
	message.received = window.received;
	message.kept = window.kept;
	message.value = window.ready;
	message.length = window.taken;
	message.end = window.end;
	session->window_outstanding = true;
	return post_message(connection, &message);
}

/* Sends MSG_DONE, with the digest of the outgoing payload and its length if the peer wants them. */
static NEEDS_LOCK int send_done(struct connection *connection)
{
	struct session *session = &connection->session;
	struct message done = { .type = MSG_DONE };
	uint64_t bytes = transfer_done(&session->transfer, now_milliseconds());

	if (session->protocol.verifying)
		done.length = bytes;
	if (digests_payload(connection))
		done.value = payload_digest(connection->payload);
	else if (session->protocol.verifying)
		done.value = session->outgoing_digest;
	session->done_posted = true;
	return post_message(connection, &done);
}

/*
 * Posts what is due behind the operation: MSG_WINDOW, whose `ready` counts what is posted of a
 * WRITE, and behind the last WRITE MSG_DONE. 0 or an errno value.
 */
static NEEDS_LOCK int send_what_is_due(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	int error = send_window(connection, now);

	if (!error && protocol->phase == PHASE_EXCHANGING &&
	    protocol->local == LOCAL_OPERATION_POSTED && done_follows_at_once(protocol) &&
	    !session->done_posted && transfer_done_due(&session->transfer))
		error = send_done(connection);
	return error;
}

/* Posts what is due of the operation and behind it. 0 or an errno value. */
static NEEDS_LOCK int post_what_is_due(struct connection *connection)
{
	int64_t now = now_milliseconds();
	int error = continue_operation(connection, now);

	return error ? error : send_what_is_due(connection, now);
}

/* True if EVENT_OPERATION_COMPLETED is due, also when the disconnection has overtaken it. */
static NEEDS_LOCK bool is_operation_over(const struct session *session)
{
	const struct protocol *protocol = &session->protocol;

	return protocol->phase < PHASE_FINISHED && protocol->local == LOCAL_OPERATION_POSTED &&
	       !session->operation_failed && transfer_outstanding(&session->transfer) == 0 &&
	       (done_follows_at_once(protocol) ? session->done_posted
					       : transfer_done_due(&session->transfer));
}

/* What this side found in the incoming payload; STATUS_LOCAL_FAILURE: it cannot go on, or keep it.
 */
static NEEDS_LOCK int send_verdict(struct connection *connection)
{
	enum status check = connection->session.protocol.check;
	bool in_words = check == STATUS_SUCCESS || check == STATUS_CONTENTS_WRONG;
	const struct message verdict = { .type = MSG_VERDICT,
					 .value = in_words ? check : STATUS_LOCAL_FAILURE };

	transfer_verdict(&connection->session.transfer, now_milliseconds());
	return post_message(connection, &verdict);
}

/* The time that is so many seconds after `now`, where there are no passes to count. */
static int64_t end_of_passes(uint64_t passes, uint32_t seconds, int64_t now)
{
	return passes == 0 ? now + (int64_t)seconds * 1000 : INT64_MAX;
}

/*
 * How long a timed operation takes is for the side that performs it to say. Where it is a READ of a
 * stream, the peer's source ends that; its time is in the hello.
 */
static NEEDS_LOCK void start_durations(struct connection *connection, int64_t now)
{
	const struct options *options = connection->engine->options;
	const struct agreement *agreement = &connection->agreement;
	struct session *session = &connection->session;

	session->operation_time =
		end_of_passes(operation_passes(options), options->duration_seconds, now);
	session->source_time = session->operation_time;
	if (session->protocol.operation == OPERATION_READ)
		session->source_time =
			end_of_passes(agreement->peer_passes, agreement->peer_seconds, now);
}

/* The peer's region is known: starts the clocks and the operation. */
static NEEDS_LOCK int begin_operation(struct connection *connection)
{
	struct session *session = &connection->session;

	session->figures.started = now_nanoseconds();
	session->figures.completed = session->figures.started;
	start_durations(connection, session->figures.started / 1000000);
	if (connection->incoming.mr && !transfer_is_whole(&session->transfer))
		session_request_service(connection); /* the main thread starts a sink */
	if (!session->protocol.operates)
		return post_what_is_due(connection);
	print_status(&connection->log, "received MSG_MR. %s remote memory...",
		     session->protocol.operation == OPERATION_WRITE ? "writing message to"
								    : "reading message from");
	prepare_batch(connection);
	return post_what_is_due(connection);
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
	struct session *session = &connection->session;
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
		error = send_verdict(connection);
	if (error)
		raise_post_failure(connection, "ibv_post_send", error);
	else if (is_operation_over(session))
		raise_event(connection, EVENT_OPERATION_COMPLETED, STATUS_SUCCESS);
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

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t session_due(const struct session *session)
{
	int64_t due = session->deadline, window = INT64_MAX;

	if (window_is_allowed(session))
		window = transfer_window_time(&session->transfer);
	if (session->protocol.phase == PHASE_EXCHANGING) {
		due = earlier(due, session->probe_time);
		due = earlier(due, earlier(session->operation_time, session->source_time));
	}
	return earlier(window, due);
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
	if (type == EVENT_OPERATION_COMPLETED && now->operates)
		print_status(&connection->log, "send completed successfully.");
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

/* Keeps the cause of what becomes an event. */
static NEEDS_LOCK void keep_cause(struct session *session, const struct failure *failure)
{
	if (failure->status != STATUS_SUCCESS && !session->cause[0])
		snprintf(session->cause, sizeof(session->cause), "%s", failure->cause);
}

void session_checked(struct connection *connection, const struct verdict *verdict)
{
	struct session *session = &connection->session;

	session->figures.verification_nanoseconds = verdict->nanoseconds;
	session->verified_bytes = verdict->verified_bytes;
	keep_cause(session, &verdict->failure);
	handle_event(connection, EVENT_CHECKED, verdict->failure.status);
}

void session_give_up(struct connection *connection, const struct failure *failure)
{
	keep_cause(&connection->session, failure);
	handle_event(connection, EVENT_GAVE_UP, failure->status);
}

/* A work request could not be posted, outside of an action. */
static NEEDS_LOCK void fail_posting(struct connection *connection, const char *verb, int error)
{
	session_fail(connection, STATUS_LOCAL_FAILURE, "%s failed: %s", verb, strerror(error));
}

/* A worker has nothing to do if the streams have nothing for it, which it finds out by itself. */
static NEEDS_LOCK void wake_workers(const struct session *session)
{
	struct piece piece;

	if (session->source && transfer_fill(&session->transfer, &piece))
		source_wake(session->source);
	if (session->sink && transfer_copy(&session->transfer, &piece))
		sink_wake(session->sink);
}

/* Follows up what was posted, or could not be: `error` is 0 or an errno value. */
static NEEDS_LOCK void follow_posting(struct connection *connection, int error)
{
	struct session *session = &connection->session;

	if (error)
		fail_posting(connection, "ibv_post_send", error);
	else if (is_operation_over(session))
		handle_event(connection, EVENT_OPERATION_COMPLETED, STATUS_SUCCESS);
	wake_workers(session);
	if (session_due(session) < session->serviced_by)
		session_request_service(connection);
}

void session_advance(struct connection *connection)
{
	follow_posting(connection, post_what_is_due(connection));
}

/* ---- Completions, in either thread ---- */

/* How far the peer is. Only what moves extends the deadline. */
static NEEDS_LOCK void handle_window(struct connection *connection, unsigned int slot,
				     const struct message *message)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	const struct window window = { .received = message->received,
				       .ready = message->value,
				       .taken = message->length,
				       .kept = message->kept,
				       .end = message->end };
	int64_t now = now_milliseconds(), heard = transfer_heard(&session->transfer);
	const char *wrong = "is out of turn";
	int error;

	if (protocol->gave_up)
		return;
	if (window_may_come(protocol))
		wrong = transfer_accept(&session->transfer, &window, now);
	if (wrong) {
		session_fail(connection, STATUS_CONTENTS_WRONG, "the peer's window %s", wrong);
		return;
	}
	if (protocol->phase >= PHASE_CLOSING) /* overtaken by the disconnection */
		return;
	if (transfer_heard(&session->transfer) != heard)
		session_set_deadline(connection, now);
	error = post_receive(connection, slot);
	if (error)
		fail_posting(connection, "ibv_post_recv", error);
	else
		session_advance(connection);
}

/* The peer announced its region, which is looked at before it is used. */
static NEEDS_LOCK void handle_mr(struct connection *connection, const struct message *message)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	uint64_t length = session->transfer.plan.incoming.length;
	/* a program without a hello has all of it there, and does not say so */
	uint64_t needed = protocol->verifying ? 1 : DEFAULT_PAYLOAD;
	uint64_t ready = protocol->verifying ? message->ready : length;
	const char *wrong = NULL;

	if (protocol->remote == REMOTE_SILENT) {
		if (protocol->operates && !region_is_usable(message, needed))
			wrong = "cannot be used";
		else
			wrong = transfer_peer_region(&session->transfer, message->length, ready,
						     now_milliseconds());
		session->peer_region = *message;
	}
	if (wrong)
		session_fail(connection, STATUS_CONTENTS_WRONG,
			     "the peer's memory region %s: it has %" PRIu64 " bytes, of which "
			     "%" PRIu64 " are ready",
			     wrong, message->length, ready);
	else
		handle_event(connection, EVENT_MR_RECEIVED, STATUS_SUCCESS);
}

/* The peer has operated to the end, and so says how much it has sent. */
static NEEDS_LOCK void handle_done(struct connection *connection, const struct message *message)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	const struct stream_plan *incoming = &session->transfer.plan.incoming;
	uint64_t bytes = message->length;
	const char *wrong = NULL;

	if (!protocol->verifying) /* a program without a hello does not say */
		bytes = incoming->present ? incoming->length : 0;
	/* a side that gave up does not know the peer's numbers any more */
	if (protocol->remote == REMOTE_MR && !protocol->gave_up) {
		session->peer_digest = message->value;
		wrong = transfer_accept_done(&session->transfer, bytes, now_milliseconds());
	}
	if (wrong) {
		session_fail(connection, STATUS_CONTENTS_WRONG, "the peer %s", wrong);
		return;
	}
	handle_event(connection, EVENT_DONE_RECEIVED, STATUS_SUCCESS);
	/* it may be the first to say that the rest is ready to be read */
	session_advance(connection);
}

/* The peer's verdict on the outgoing payload, or that it gave up before it could have one. */
static NEEDS_LOCK void handle_verdict(struct connection *connection, uint64_t value)
{
	struct session *session = &connection->session;
	bool early = value != STATUS_SUCCESS &&
		     (!session->done_posted || session->protocol.remote < REMOTE_DONE);
	struct failure failure = { .status = STATUS_SUCCESS };

	/* of a WRITE the state machine does not know when MSG_DONE is posted */
	if (value == STATUS_SUCCESS && session->protocol.remote == REMOTE_DONE &&
	    session->protocol.verifying && !session->done_posted) {
		session_fail(connection, STATUS_CONTENTS_WRONG,
			     "the peer judged what this side had not sent yet: its MSG_VERDICT is "
			     "good, and MSG_DONE was not posted");
		return;
	}
	if (value == STATUS_LOCAL_FAILURE && early)
		failure_set(&failure, STATUS_REFUSED,
			    "the peer gave up: it could not read what it sends, or keep what it "
			    "receives; its own messages say why");
	else if (value == STATUS_LOCAL_FAILURE)
		failure_set(&failure, STATUS_REFUSED,
			    "the peer received the payload and could not store it; its own "
			    "messages say why");
	else if (value != STATUS_SUCCESS)
		failure_set(&failure, STATUS_CONTENTS_WRONG, "%s",
			    status_in_words(STATUS_CONTENTS_WRONG));
	if (counts_as_reason(&session->protocol, failure.status))
		keep_cause(session, &failure);
	handle_event(connection, early ? EVENT_PEER_GAVE_UP : EVENT_VERDICT_RECEIVED,
		     failure.status);
}

/* A message has arrived in `slot`: `size` bytes. */
static NEEDS_LOCK void handle_message(struct connection *connection, unsigned int slot,
				      uint32_t size)
{
	const uint8_t *wire = connection->control.memory + (size_t)slot * SLOT_SIZE;
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
		handle_done(connection, &message);
		break;
	case MSG_VERDICT:
		handle_verdict(connection, message.value);
		break;
	default:
		handle_window(connection, slot, &message);
	}
}

/* Measures the operation: bytes have completed at `now`, in nanoseconds. */
static NEEDS_LOCK void measure(struct session *session, int64_t now)
{
	const struct transfer *transfer = &session->transfer;
	struct figures *figures = &session->figures;
	uint64_t pass = transfer_pass(transfer), bytes = transfer->operation.completed;

	if (pass != TRANSFER_UNKNOWN && bytes / pass == figures->bytes / pass)
		return;
	if (figures->latency)
		latency_count(figures->latency, now - figures->completed);
	figures->completed = now;
	figures->bytes = bytes;
}

/* Work requests of the operation have completed, up to the one with this id. */
static NEEDS_LOCK void handle_operation_completion(struct connection *connection)
{
	struct session *session = &connection->session;
	int64_t now = now_nanoseconds();
	/* first: all the rest is done while the wire is busy */
	int error = continue_operation(connection, now / 1000000);

	measure(session, now);
	if (!transfer_waits_for_peer(&session->transfer))
		session_set_deadline(connection, now / 1000000);
	if (!error)
		error = send_what_is_due(connection, now / 1000000);
	follow_posting(connection, error);
}

/* A message has been sent. Of verdict and window no status line is printed. */
static NEEDS_LOCK void handle_message_completion(struct connection *connection,
						 enum message_type type)
{
	static const enum event_type events[] = {
		[MSG_MR] = EVENT_MR_SENT,
		[MSG_DONE] = EVENT_DONE_SENT,
		[MSG_VERDICT] = EVENT_VERDICT_SENT,
	};

	if (type == MSG_WINDOW) {
		connection->session.window_outstanding = false;
		session_advance(connection);
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

	if (wr_kind(completion->wr_id) == WR_OPERATION)
		connection->session.operation_failed = true;
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
		transfer_completed(&session->transfer, wr_detail(wr_id), now_milliseconds());
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
		handle_operation_completion(connection);
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

/* What this side waits for if the peer owes nothing, in words; NULL: it waits for the peer. */
static NEEDS_LOCK const char *own_delay(const struct connection *connection)
{
	const struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;
	bool sends = protocol->local == LOCAL_OPERATION_POSTED;
	struct piece piece;

	if (protocol->phase != PHASE_EXCHANGING)
		return NULL;
	if (protocol->local == LOCAL_CHECKING)
		return "all is received, but storing it did not move";
	if ((!sends && protocol->local != LOCAL_DONE_SENT) ||
	    transfer_owed_since(&session->transfer) != TRANSFER_NEVER)
		return NULL;
	if (session->sink && transfer_copy(&session->transfer, &piece))
		return "storing what is received did not move";
	return sends && session->source ? "nothing more came of what this side sends" : NULL;
}

/* The time for the next event of the session is over. */
static NEEDS_LOCK void expire_session(struct connection *connection)
{
	const char *delay = own_delay(connection);
	struct failure failure;

	if (!delay) {
		handle_event(connection, EVENT_DEADLINE, STATUS_SUCCESS);
		return;
	}
	failure_set(&failure, STATUS_TIMED_OUT,
		    "%s for the time of --timeout; is the disk all right, does the program at the "
		    "other end of the pipe run, and does no other payload go there?",
		    delay);
	if (connection->session.protocol.local == LOCAL_CHECKING)
		session_fail(connection, failure.status, "%s", failure.cause);
	else
		session_give_up(connection, &failure);
}

/*
 * Ends what is timed with the pass that has begun. Passes with the same bytes end by the operation;
 * a stream by its source, whose end the peer is told.
 */
static NEEDS_LOCK void end_durations(struct connection *connection, int64_t now)
{
	struct session *session = &connection->session;

	if (now >= session->source_time) {
		session->source_time = INT64_MAX;
		if (session->source && !session->transfer.source.stream.repeats)
			source_end_pass(session->source);
	}
	if (now >= session->operation_time) {
		session->operation_time = INT64_MAX;
		transfer_stop(&session->transfer);
		session_advance(connection);
	}
}

void session_check_clocks(struct connection *connection)
{
	struct session *session = &connection->session;
	const struct protocol *protocol = &session->protocol;

	/* what has come is handled before the peer is called silent */
	if (connection->cq && now_milliseconds() >= session->deadline)
		poll_completions(connection);
	if (protocol->phase < PHASE_FINISHED && now_milliseconds() >= session->deadline)
		expire_session(connection);
	if (protocol->phase == PHASE_EXCHANGING)
		end_durations(connection, now_milliseconds());
	if (window_is_allowed(session) &&
	    now_milliseconds() >= transfer_window_time(&session->transfer))
		session_advance(connection);
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
bool connection_destroy(struct connection *connection)
{
	bool rings_free; /* of any adapter */
	bool stranded;   /* the completion queue lives on, and may yet name this connection */
	int error;

	retire(connection);
	TAILQ_REMOVE(&connection->engine->connections, connection, link);
	connection->engine->connection_count--;
	timers_remove(&connection->engine->timers, &connection->timer);
	if (connection->id->qp)
		rdma_destroy_qp(connection->id);
	error = connection->cq ? ibv_destroy_cq(connection->cq) : 0;
	stranded = error;
	if (error)
		print_warning(connection->log.console, "cannot destroy a completion queue: %s",
			      strerror(error));
	rings_free = region_destroy(connection, &connection->incoming);
	rings_free = region_destroy(connection, &connection->outgoing) && rings_free;
	if (!rings_free)
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
	return rings_free;
}
