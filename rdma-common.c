// SPDX-License-Identifier: MIT
/*
 * The thread of a session: posting, messages and completions, notifications, both payloads, clocks,
 * the loop. protocol.h lists the messages. rdma-common.h has the rules for errors and memory.
 */
#include "rdma-common.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "rdma-common/clock.h"
#include "rdma-common/json.h"

#define PROGRESS_MILLISECONDS 250 /* between two updates of the progress line */
/* Maximum numbers of completions: in one poll, and in one turn, so that clocks are not late. */
#define POLL_SIZE            16
#define COMPLETIONS_PER_TURN 64
/* With --busy-poll, number of idle turns per check of the descriptors. */
#define TURNS_PER_LOOK 1000

/*
 * The thread runs one loop (run_session()). Only the first step waits, if the turn before found
 * nothing to do:
 * - Wait for a completion, a notification, a helper, or the next clock.
 * - Take completions and notifications.
 * - Fill a piece of the outgoing ring. Empty a piece of the incoming ring.
 * - Check the clocks.
 * - Post everything that is due (advance()).
 */

/* ---- Posting ---- */

/*
 * Except post_receives(), a function that posts returns 0 or an errno value. After a failure bad_wr
 * is the first request that was not posted. If bad_wr is NULL, the whole list counts as
 * outstanding: libsiw leaves it NULL if the doorbell fails after all requests are in the queue.
 * Such requests may never complete. The second deadline of PHASE_CLOSING ends the wait for them.
 */

static inline void read_clock(struct session *session)
{
	session->clocks.now_nanoseconds = now_nanoseconds();
	session->clocks.now = session->clocks.now_nanoseconds / 1000000;
}

static int post_receive(const struct setup *setup, unsigned int slot, unsigned int *count)
{
	struct ibv_sge sge = make_sge(&setup->control, slot * SLOT_SIZE, MESSAGE_SIZE);
	struct ibv_recv_wr *bad_wr = NULL, request = {
		.wr_id = make_wr_id(WR_RECEIVE, slot),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int error = verb_error(ibv_post_recv(setup->id->qp, &request, &bad_wr));

	if (!error || !bad_wr)
		(*count)++;
	return error;
}

enum status post_receives(const struct setup *setup, struct failure *failure)
{
	unsigned int posted = 0;
	int error = 0;

	print_trace(&setup->log, "ibv_post_recv: %d receives", RECEIVES);
	while (posted < RECEIVES && !error)
		error = post_receive(setup, posted, &posted);
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_post_recv failed: %s",
				   strerror(error));
	return STATUS_SUCCESS;
}

static int post_send(struct session *session, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad_wr = NULL;
	int error = verb_error(ibv_post_send(session->qp, request, &bad_wr));

	if (!error || !bad_wr)
		session->outstanding_messages++;
	return error;
}

/*
 * Each type of message has its own slot and at most one message in flight, so no message is
 * overwritten before it is sent.
 */
static int post_message(struct session *session, const struct message *message)
{
	uint64_t offset = (SEND_SLOT + (uint64_t)message->type) * SLOT_SIZE;
	struct ibv_sge sge = make_sge(&session->setup->control, offset, MESSAGE_SIZE);
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_MESSAGE, message->type),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      inline_flag(MESSAGE_SIZE, session->setup->terms.limits.inline_size),
	};

	encode_message(message, session->setup->control.memory + offset);
	print_trace(&session->setup->log, "ibv_post_send: SEND %s", message_name(message->type));
	return post_send(session, &request);
}

static int send_mr(struct session *session)
{
	const struct setup *setup = session->setup;
	const struct region *exposed =
		session->transfer.plan.writes ? &setup->incoming_ring : &setup->outgoing_ring;
	uint64_t produced = transfer_advertise(&session->transfer);
	const struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->memory,
		.length = exposed->size,
		.produced = session->protocol.verifying ? produced : 0,
		.rkey = exposed->mr ? exposed->mr->rkey : 0, /* a client with --one-way has none */
	};

	return post_message(session, &message);
}

/* Allocate the batch only after the peer's MSG_MR, so that a silent client occupies no memory. */
static void prepare_batch(struct session *session)
{
	const struct setup *setup = session->setup;
	const struct region *local =
		session->transfer.plan.writes ? &setup->outgoing_ring : &setup->incoming_ring;

	session->batch = batch_create(setup->options.operation, local, &session->peer_region,
				      setup->terms.limits.inline_size);
	if (!session->batch)
		session_fail(session, STATUS_LOCAL_FAILURE,
			     "cannot allocate memory for work requests: %s", strerror(errno));
}

/* Fill the batch, and return the number of its requests. `*more` is true if others may follow. */
static unsigned int make_batch(struct session *session, bool *more)
{
	uint64_t *request_bytes = &session->measurement.request_bytes;
	struct transfer_run run;
	unsigned int count = 0;

	do {
		*more = transfer_take_run(&session->transfer, BATCH - count, &run);
		if (!*more)
			break;
		batch_fill(session->batch, count, &run);
		count += run.count;
		if (run.size > *request_bytes)
			*request_bytes = run.size;
		*more = run.more;
	} while (*more && count < BATCH);
	return count;
}

static int post_batch(struct session *session, unsigned int count, uint64_t bytes)
{
	struct ibv_send_wr *requests = session->batch->requests;
	struct ibv_send_wr *bad_wr = NULL, *last = &requests[count - 1], *next = last->next;
	int error;

	last->next = NULL;
	error = verb_error(ibv_post_send(session->qp, requests, &bad_wr));
	last->next = next;
	if (error && bad_wr)
		transfer_record_rejected(&session->transfer, wr_detail(bad_wr->wr_id));
	if (error)
		return error;
	print_trace(&session->setup->log,
		    "ibv_post_send: RDMA %s of %" PRIu64 " byte%s in %u request%s",
		    last->opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ", bytes, plural(bytes),
		    count, plural(count));
	return 0;
}

/* Return when an operation of `seconds` ends, in milliseconds, or INT64_MAX if `passes` end it. */
static int64_t end_of_passes(uint64_t passes, uint32_t seconds, int64_t now)
{
	return passes == 0 ? now + (int64_t)seconds * 1000 : INT64_MAX;
}

/*
 * Start the clocks just before the first requests are posted, so that a wait for the source does
 * not count.
 */
static void start_clocks(struct session *session)
{
	const struct options *options = &session->setup->options;

	read_clock(session);
	measurement_begin(&session->measurement, session->clocks.now_nanoseconds,
			  options->interval_seconds, &session->setup->before);
	session->clocks.operation_end = end_of_passes(
		operation_passes(options), options->duration_seconds, session->clocks.now);
	if (session->transfer.plan.writes)
		session->clocks.source_end = session->clocks.operation_end;
}

static int continue_operation(struct session *session)
{
	const uint64_t *posted = &session->transfer.operation.posted;
	bool more = operation_runs(&session->protocol);
	int error = 0;

	while (more && !error) {
		uint64_t before = *posted;
		unsigned int count = make_batch(session, &more);

		if (count == 0)
			break;
		if (before == 0)
			start_clocks(session);
		measurement_post(&session->measurement, before, session->clocks.now_nanoseconds);
		error = post_batch(session, count, *posted - before);
	}
	return error;
}

static int send_window(struct session *session)
{
	struct message message;

	if (session->clocks.now < session->clocks.quiet_until)
		return 0;
	if (transfer_window_time(&session->transfer, session->clocks.now) > session->clocks.now ||
	    !window_is_allowed(session))
		return 0;
	/* now: once MSG_WINDOW makes the peer owe an answer, completions are no progress */
	count_wire_progress(session);
	message = (struct message){ .type = MSG_WINDOW };
	message.window = transfer_make_window(&session->transfer);
	session->window_outstanding = true;
	return post_message(session, &message);
}

/* For a peer with a hello, add the number of digested bytes, and their digest. */
static int send_done(struct session *session)
{
	struct message done = { .type = MSG_DONE };
	uint64_t bytes = transfer_record_done(&session->transfer);

	if (session->protocol.verifying) {
		done.length = bytes;
		done.value = session->outgoing.pass_digest;
	}
	return post_message(session, &done);
}

void read_counters(const struct setup *setup, struct counters *counters)
{
	const struct rdma_cm_id *id = setup->id;

	counters_read(counters, device_folder(id->verbs->device, &setup->device).text,
		      id->port_num);
}

static void add_counts(struct session *session, struct message *verdict)
{
	const struct counters *before = &session->setup->before;
	struct sequence_errors sequence;
	struct counters growth;

	if (!before->any)
		return;
	read_counters(session->setup, &session->after);
	growth = counters_growth(before, &session->after);
	if (!growth.any)
		return;
	sequence = counters_sequence_errors(&growth);
	verdict->counted = true;
	verdict->errors = counters_errors(&growth);
	verdict->missing = sequence.missing;
	verdict->retransmitted = sequence.retransmitted;
}

/* In MSG_VERDICT STATUS_LOCAL_FAILURE stands for each failure except STATUS_CONTENTS_WRONG. */
static int send_verdict(struct session *session)
{
	enum status status = session->protocol.own_verdict.status;
	bool carried = status == STATUS_SUCCESS || status == STATUS_CONTENTS_WRONG;
	struct message verdict = { .type = MSG_VERDICT,
				   .value = carried ? status : STATUS_LOCAL_FAILURE,
				   .length = session->measurement.bytes };

	add_counts(session, &verdict);
	transfer_record_verdict(&session->transfer);
	return post_message(session, &verdict);
}

static void end_interval(struct session *session)
{
	struct measurement *measurement = &session->measurement;
	struct counters counters = { .any = false };
	struct interval interval;

	if (measurement->interval.counters.any)
		read_counters(session->setup, &counters);
	if (!measurement_end_interval(measurement, session->clocks.now_nanoseconds,
				      session->transfer.operation.completed, &counters, &interval))
		return;
	interval.session = session->setup->number;
	print_interval(&session->setup->log, &interval);
}

static void end_intervals(struct session *session)
{
	if (session->measurement.interval.end != INT64_MAX)
		end_interval(session);
	session->measurement.interval.end = INT64_MAX;
}

static void end_operation(struct session *session)
{
	end_intervals(session);
	if (session->operates)
		print_status(&session->setup->log, "send completed successfully.");
}

static void begin_operation(struct session *session)
{
	const struct hello *peer = &session->setup->terms.peer;

	read_clock(session);
	if (!session->transfer.plan.writes) /* the source ends the stream of a timed READ */
		session->clocks.source_end =
			end_of_passes(peer->passes, peer->seconds, session->clocks.now);
	if (!session->operates) {
		session->measurement.started =
			session->clocks.now_nanoseconds; /* for the progress line */
		return;
	}
	print_status(&session->setup->log, "received MSG_MR. %s remote memory...",
		     session->transfer.plan.writes ? "writing message to" : "reading message from");
	prepare_batch(session);
}

/* ---- What arrives ---- */

static void handle_window(struct session *session, unsigned int slot, const struct window *window)
{
	const struct protocol *protocol = &session->protocol;
	uint64_t moves = session->transfer.moves;
	const char *wrong = "arrived out of turn";
	int error;

	session->clocks.quiet_until = INT64_MIN;
	if (protocol->gave_up)
		return;
	if (window_may_come(protocol))
		wrong = transfer_accept_window(&session->transfer, window);
	if (wrong) {
		session_fail(session, STATUS_CONTENTS_WRONG, "the peer's MSG_WINDOW %s", wrong);
		return;
	}
	if (protocol->phase >= PHASE_CLOSING) /* nothing more is posted */
		return;
	/* a MSG_WINDOW that only confirms others must not postpone the timeout */
	if (session->transfer.moves != moves)
		begin_wait(session, session->clocks.now);
	error = post_receive(session->setup, slot, &session->outstanding_receives);
	if (error && !session->outstanding_receives) /* otherwise other receives remain */
		feed_refused_post(session, EVENT_RECEIVE_REFUSED, "ibv_post_recv", error);
}

/* Fail the session with the condition of region_is_usable() that the region violates. */
static void refuse_region(struct session *session, const struct message *region, uint64_t needed)
{
	if (!region->value)
		session_fail(session, STATUS_CONTENTS_WRONG,
			     "the peer's memory region has address 0");
	else if (region->length < needed)
		session_fail(session, STATUS_CONTENTS_WRONG,
			     "the peer's memory region has %" PRIu64
			     " byte%s, but this session needs at least %" PRIu64,
			     region->length, plural(region->length), needed);
	else
		session_fail(session, STATUS_CONTENTS_WRONG,
			     "the peer's memory region goes beyond the last address: it has "
			     "%" PRIu64 " bytes from address 0x%" PRIx64 " on",
			     region->length, region->value);
}

static void handle_mr(struct session *session, const struct message *message)
{
	const struct protocol *protocol = &session->protocol;
	uint64_t length = session->transfer.plan.incoming.length;
	uint64_t needed = protocol->verifying ? 1 : DEFAULT_PAYLOAD;
	/* a peer without a hello has filled its whole region, but its MSG_MR does not say so */
	uint64_t produced = protocol->verifying ? message->produced : length;
	const char *wrong = NULL;

	if (protocol->remote == REMOTE_SILENT) {
		if (session->operates && !region_is_usable(message, needed)) {
			refuse_region(session, message, needed);
			return;
		}
		wrong = transfer_accept_region(&session->transfer, message->length, produced);
		session->peer_region = *message;
	}
	if (wrong)
		session_fail(session, STATUS_CONTENTS_WRONG,
			     "the peer's memory region %s: it has %" PRIu64
			     " bytes, of which MSG_MR reports %" PRIu64 " as ready",
			     wrong, message->length, produced);
	else
		session_handle(session, EVENT_MR_RECEIVED);
}

static void handle_done(struct session *session, const struct message *message)
{
	const struct protocol *protocol = &session->protocol;
	const struct stream_plan *incoming = &session->transfer.plan.incoming;
	uint64_t bytes = message->length;
	const char *wrong = NULL;

	if (!protocol->verifying) /* a peer without a hello does not state its bytes */
		bytes = incoming->present ? incoming->length : 0;
	/* after giving up, this side no longer tracks the peer's positions */
	if (protocol->remote == REMOTE_MR && !protocol->gave_up) {
		session->peer_digest = message->value;
		wrong = transfer_accept_done(&session->transfer, bytes);
	}
	if (wrong) {
		session_fail(session, STATUS_CONTENTS_WRONG, "the peer %s", wrong);
		return;
	}
	session_handle(session, EVENT_DONE_RECEIVED);
}

/* A bad verdict that does not follow both MSG_DONEs is early: the peer gave up. */
static void handle_verdict(struct session *session, uint64_t value)
{
	const struct protocol *protocol = &session->protocol;
	bool early = !protocol->done_posted || protocol->remote < REMOTE_DONE;
	enum event_type type = early ? EVENT_PEER_GAVE_UP : EVENT_VERDICT_RECEIVED;

	if (value == STATUS_SUCCESS && protocol->remote == REMOTE_DONE && protocol->verifying &&
	    !protocol->done_posted)
		session_fail(
			session, STATUS_CONTENTS_WRONG,
			"the peer sent a good MSG_VERDICT before this side posted its MSG_DONE");
	else if (value == STATUS_SUCCESS)
		session_handle(session, EVENT_VERDICT_RECEIVED);
	else if (value != STATUS_LOCAL_FAILURE)
		explain_event(session, type, STATUS_CONTENTS_WRONG, "%s",
			      status_describe(STATUS_CONTENTS_WRONG));
	else if (early)
		explain_event(
			session, type, STATUS_REFUSED,
			"the peer gave up: it could not read its outgoing payload, or could not "
			"receive, verify or store the incoming one; see its messages");
	else
		explain_event(
			session, type, STATUS_REFUSED,
			"the peer could not receive, verify or store this side's payload; see "
			"its messages");
}

static void handle_message(struct session *session, unsigned int slot, uint32_t size)
{
	const uint8_t *wire = session->setup->control.memory + (size_t)slot * SLOT_SIZE;
	struct message message;

	if (slot >= RECEIVES || !decode_message(wire, size, &message)) {
		session_fail(session, STATUS_CONTENTS_WRONG,
			     "the peer sent %" PRIu32
			     " bytes that are not a message of this protocol",
			     size);
		return;
	}
	print_trace(&session->setup->log, "received %s", message_name(message.type));
	switch (message.type) {
	case MSG_MR:
		handle_mr(session, &message);
		break;
	case MSG_DONE:
		handle_done(session, &message);
		break;
	case MSG_VERDICT:
		session->peer_verdict = message;
		session->verdict_time = session->clocks.now_nanoseconds;
		handle_verdict(session, message.value);
		break;
	default:
		handle_window(session, slot, &message.window);
	}
}

static void handle_operation_completion(struct session *session)
{
	measurement_complete(&session->measurement, session->transfer.operation.completed,
			     transfer_pass_length(&session->transfer),
			     session->clocks.now_nanoseconds);
	if (session->measurement.interval.end != INT64_MAX &&
	    transfer_outstanding(&session->transfer) == 0 &&
	    transfer_has_operated(&session->transfer))
		end_intervals(session);
	session->clocks.wire_time = session->clocks.now;
	/* look at everything when this progress must be reported or drawn */
	session->clocks.quiet_until =
		earlier(session->clocks.quiet_until, session->clocks.now + TRANSFER_MILLISECONDS);
	if (session->protocol.local == LOCAL_DONE_POSTED && operation_completed(session))
		end_operation(session);
}

/* Print a status line only for the messages of the tutorial's protocol. */
static void handle_message_completion(struct session *session, enum message_type type)
{
	static const enum event_type events[] = {
		[MSG_MR] = EVENT_MR_SENT,
		[MSG_DONE] = EVENT_DONE_SENT,
		[MSG_VERDICT] = EVENT_VERDICT_SENT,
	};

	if (type == MSG_WINDOW) {
		session->window_outstanding = false;
		session->clocks.quiet_until = INT64_MIN;
		return;
	}
	if (type != MSG_VERDICT)
		print_status(&session->setup->log, "send completed successfully.");
	session_handle(session, events[type]);
}

/* If the status is an error, only wr_id, status, qp_num and vendor_err are valid. */
static void handle_failed_completion(struct session *session, const struct ibv_wc *completion)
{
	const char *name = wr_name(completion->wr_id, session->setup->options.operation);
	bool receive = wr_kind(completion->wr_id) == WR_RECEIVE;
	enum status status = completion_status(completion);
	const char *meaning =
		status != STATUS_CONTENTS_WRONG
			? ""
			: "the peer sent something that is not a message of this protocol: ";

	if (wr_kind(completion->wr_id) == WR_OPERATION)
		session->operation_failed = true;
	if (!receive) /* a disconnection flushes too many receives to trace */
		print_trace(&session->setup->log, "%s: %s", name,
			    ibv_wc_status_str(completion->status));
	if (!wc_shows_lost_connection(completion, session->setup->terms.limits.iwarp))
		session_fail(session, status,
			     "%s%s failed: %s (status %d, vendor error 0x%" PRIx32 ")", meaning,
			     name, ibv_wc_status_str(completion->status), completion->status,
			     completion->vendor_err);
	else if (flush_matters(&session->protocol))
		session_handle(session, EVENT_FLUSHED);
}

/*
 * Return true if a MSG_DONE that failed counts as sent. The tutorial's program disconnects as soon
 * as it has this message, and soft-iWARP in Linux then reports the send as failed. Over iWARP even
 * a successful completion shows only that TCP has the message.
 */
static bool counts_as_sent(const struct session *session, const struct ibv_wc *completion)
{
	const struct protocol *protocol = &session->protocol;

	return session->setup->terms.limits.iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR &&
	       completion->wr_id == make_wr_id(WR_MESSAGE, MSG_DONE) && !protocol->verifying &&
	       protocol->local == LOCAL_DONE_POSTED && protocol->remote == REMOTE_DONE &&
	       !session->operation_failed;
}

static void count_completion(struct session *session, uint64_t wr_id)
{
	enum wr_kind kind = wr_kind(wr_id);

	if (kind == WR_OPERATION) /* also counts earlier requests without a completion */
		transfer_record_completed(&session->transfer, wr_detail(wr_id),
					  session->clocks.now);
	else if (kind == WR_RECEIVE)
		session->outstanding_receives--;
	else
		session->outstanding_messages--;
}

static void handle_completion(struct session *session, const struct ibv_wc *completion)
{
	uint64_t detail = wr_detail(completion->wr_id);

	count_completion(session, completion->wr_id);
	if (completion->status != IBV_WC_SUCCESS && !counts_as_sent(session, completion)) {
		handle_failed_completion(session, completion);
		return;
	}
	switch (wr_kind(completion->wr_id)) {
	case WR_RECEIVE:
		handle_message(session, (unsigned int)detail, completion->byte_len);
		break;
	case WR_MESSAGE:
		handle_message_completion(session, (enum message_type)detail);
		break;
	case WR_OPERATION:
		handle_operation_completion(session);
		break;
	case WR_KEEPALIVE: /* no progress: it completes even if the peer's program hangs */
		break;
	}
}

/* ---- Notifications from the main thread ---- */

/*
 * Ignore the notification once the connection is established: Linux since 6.0 reports UNREACHABLE
 * to a RoCE client when its host loses the peer's MAC address, even for a moment.
 */
static void handle_not_established(struct session *session)
{
	if (session->protocol.phase == PHASE_CONNECTING)
		feed_failure(session, EVENT_FAILED, &session->shared->not_established);
}

/*
 * Handle REJECTED. Before the connection is established, the client has withdrawn its request.
 * Later, over InfiniBand and RoCE, the peer has destroyed its end without disconnecting.
 */
static void handle_rejected(struct session *session)
{
	if (session->protocol.connected)
		session_handle(session, EVENT_DISCONNECTED);
	else
		session_feed(session, EVENT_FAILED, STATUS_PEER_LOST, 0);
}

static void handle_notifications(struct session *session)
{
	unsigned int notifications = atomic_exchange(&session->shared->notifications, 0);

	if (notifications & NOTIFY_ESTABLISHED)
		session_handle(session, EVENT_ESTABLISHED);
	if (notifications & NOTIFY_NOT_ESTABLISHED)
		handle_not_established(session);
	if (notifications & NOTIFY_FAILED)
		feed_failure(session, EVENT_FAILED, &session->shared->failure);
	if (notifications & NOTIFY_BROKEN)
		session_handle(session, EVENT_FLUSHED);
	if (notifications & NOTIFY_REJECTED)
		handle_rejected(session);
	if (notifications & NOTIFY_DISCONNECTED)
		session_handle(session, EVENT_DISCONNECTED);
}

/* ---- Both payloads ---- */

/*
 * Fill a piece of the outgoing ring. While closing or after giving up, only discard the helper's
 * result. Return true after progress.
 */
static bool fill_ring(struct session *session)
{
	struct failure failure; /* not initialized: clearing 512 bytes in each turn is slow */
	bool moved;

	if (transfer_source_has_ended(&session->transfer))
		return false;
	failure.status = STATUS_SUCCESS;
	if (session->protocol.phase >= PHASE_CLOSING || session->protocol.gave_up)
		return helper_discard_result(session->outgoing.helper);
	moved = outgoing_fill(&session->outgoing, &session->transfer, &failure);
	if (failure.status != STATUS_SUCCESS)
		feed_failure(session, EVENT_GAVE_UP, &failure);
	else if (moved)
		count_progress(session, DEBTOR_NONE, session->clocks.now);
	return moved;
}

static void end_incoming(struct session *session, const struct failure *failure)
{
	struct incoming *incoming = &session->incoming;
	const struct excerpt *excerpt = &incoming->verification.excerpt;
	bool good = failure->status == STATUS_SUCCESS;

	incoming->failed = !good;
	/*
	 * Print before the verdict, which may end the session. Print a failed payload only if it is
	 * complete.
	 */
	if (incoming->begun && (good || excerpt->size == session->transfer.sink.stream.plan.length))
		print_payload(&session->setup->log, excerpt);
	if (good)
		session_handle(session, EVENT_VERIFIED);
	else
		feed_failure(session,
			     session->protocol.local == LOCAL_VERIFYING ? EVENT_VERIFIED
									: EVENT_GAVE_UP,
			     failure);
}

/* Prepare to empty the incoming ring. Do not wait until the output is open. */
static void begin_incoming(struct session *session)
{
	struct failure failure;

	if (session->transfer.sink.stream.plan.present &&
	    incoming_open(&session->incoming, &session->transfer, &session->setup->program->process,
			  &failure) != STATUS_SUCCESS)
		end_incoming(session, &failure);
}

/*
 * Return true if empty_ring() may take a step, for one of these reasons:
 * - The whole payload has arrived, and is being verified.
 * - The output is being opened.
 * - The operation has begun, and the ring does not hold the whole stream.
 *
 * The last two end when this side gives up or closes.
 */
static bool may_empty(const struct session *session)
{
	const struct protocol *protocol = &session->protocol;

	if (session->incoming.failed)
		return false;
	if (protocol->local == LOCAL_VERIFYING)
		return true;
	if (session->incoming.opening)
		return protocol->phase < PHASE_CLOSING && !protocol->gave_up;
	return protocol->phase == PHASE_EXCHANGING && !protocol->gave_up &&
	       protocol->local >= LOCAL_OPERATION_POSTED && protocol->local < LOCAL_VERIFYING &&
	       session->transfer.sink.stream.plan.present &&
	       !session->transfer.sink.stream.fits_ring;
}

/*
 * Return true if the session has failed, whatever the verification finds. After the loss of the
 * peer, a payload that arrived whole may still make the session succeed.
 */
static bool verification_is_in_vain(const struct protocol *protocol)
{
	return protocol->phase == PHASE_CLOSING && protocol->result.status != STATUS_SUCCESS &&
	       protocol->result.status != STATUS_PEER_LOST;
}

/* Empty a piece of the incoming ring. Return true after progress. */
static bool empty_ring(struct session *session)
{
	const struct result *result = &session->protocol.result;
	bool verifying = session->protocol.local == LOCAL_VERIFYING;
	struct incoming *incoming = &session->incoming;
	struct failure failure;

	failure.status = STATUS_SUCCESS;
	if (verifying && verification_is_in_vain(&session->protocol)) {
		helper_cancel(incoming->helper); /* do not wait for a disk or a reader */
		session_feed(session, EVENT_VERIFIED, result->status, result->cause);
		return true;
	}
	if (!may_empty(session))
		return helper_discard_result(incoming->helper);
	switch (incoming_step(incoming, &session->transfer, verifying, session->peer_digest,
			      &failure)) {
	case INCOMING_WAITS:
		return false;
	case INCOMING_MOVED:
		count_progress(session, DEBTOR_NONE, session->clocks.now);
		return true;
	default:
		end_incoming(session, &failure);
		return true;
	}
}

/* ---- Clocks ---- */

/*
 * Send a keepalive: a WRITE of zero bytes. An outstanding request serves as well. The WRITE needs
 * no rkey, and the peer's program does not notice it. Over InfiniBand and RoCE the peer's adapter
 * answers. If the peer's host is gone, the transport's retries fail. Over iWARP no adapter answers,
 * but soft-iWARP needs keepalives: a server's host may overlook data that arrives just as the
 * connect request is answered, until more data arrives.
 *
 * A READ of zero bytes does not work. Soft-RoCE in Linux 6.1 checks the rkey of a repeated READ and
 * breaks the connection. Soft-iWARP breaks the connection under load.
 */
static void send_keepalive(struct session *session)
{
	int64_t longest = timeout_milliseconds(&session->setup->options) / KEEPALIVES_PER_TIMEOUT;
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_KEEPALIVE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int error;

	session->clocks.keepalive_interval *= 2;
	if (session->clocks.keepalive_interval > longest)
		session->clocks.keepalive_interval = longest;
	session->clocks.keepalive_time = session->clocks.now + session->clocks.keepalive_interval;
	if (outstanding_sends(session) ||
	    keepalive_disturbs(&session->protocol, session->setup->terms.limits.iwarp))
		return;
	print_trace(&session->setup->log, "ibv_post_send: keepalive");
	error = post_send(session, &request);
	if (error)
		feed_refused_post(session, EVENT_SEND_REFUSED, "ibv_post_send", error);
}

/*
 * End a stream or an operation whose time is over, after the current pass. The source ends its
 * stream. If each pass sends the same bytes, the side that operates ends its operation.
 */
static void end_durations(struct session *session)
{
	int64_t now = session->clocks.now;

	if (now >= session->clocks.source_end) {
		session->clocks.source_end = INT64_MAX;
		session->outgoing.ending = true;
		session->stepped = true; /* the operation may have reached its end already */
	}
	if (now >= session->clocks.operation_end) {
		session->clocks.operation_end = INT64_MAX;
		/* let the interval end with the operation, not just before it */
		measurement_postpone_interval(&session->measurement, now);
		transfer_stop(&session->transfer);
	}
}

static void check_exchange_clocks(struct session *session)
{
	end_durations(session);
	if (session->clocks.now >= session->clocks.keepalive_time)
		send_keepalive(session);
	if (session->clocks.now >= session->measurement.interval.end)
		end_interval(session);
}

static void show_progress(const struct session *session)
{
	const struct transfer *transfer = &session->transfer;
	const struct transfer_source *source = &transfer->source;
	const struct transfer_sink *sink = &transfer->sink;
	uint64_t done, all;

	if (session->protocol.phase != PHASE_EXCHANGING ||
	    session->protocol.local < LOCAL_OPERATION_POSTED ||
	    atomic_load(&session->setup->program->regions.sessions) > 1)
		return;
	if (session->operates) {
		done = transfer->operation.completed;
		all = transfer->plan.writes ? source->stream.length : sink->stream.length;
	} else {
		done = transfer->plan.writes ? sink->produced : source->consumed;
		all = transfer->plan.writes ? sink->stream.length : source->stream.length;
	}
	if (done < all)
		print_progress(&session->setup->log, done, all,
			       session->clocks.now_nanoseconds - session->measurement.started);
}

/* Handle every due clock except that of MSG_WINDOW (send_window()). */
static void check_clocks(struct session *session)
{
	if (session->clocks.now >= session->clocks.next_progress) {
		show_progress(session);
		session->clocks.next_progress = session->clocks.now + PROGRESS_MILLISECONDS;
	}
	enforce_deadline(session);
	if (session->protocol.phase == PHASE_EXCHANGING)
		check_exchange_clocks(session);
}

/* ---- The loop ---- */

static void force_error(struct session *session)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	int error = verb_error(ibv_modify_qp(session->qp, &attributes, IBV_QP_STATE));

	print_trace(&session->setup->log, "ibv_modify_qp to the error state: %s", strerror(error));
}

/* Disconnect even after the peer: some providers flush receives only after both have done so. */
static void disconnect(struct session *session)
{
	if (session->protocol.connected && !rdma_disconnect(session->setup->id))
		print_trace(&session->setup->log, "rdma_disconnect");
	else
		force_error(session);
}

/* Once closing has begun, post nothing. */
static int run_actions(struct session *session)
{
	bool exchanging = session->protocol.phase == PHASE_EXCHANGING;
	unsigned int actions = session->actions;
	int error = 0;

	session->actions = 0;
	if (actions & ACTION_SEND_MR && exchanging)
		error = send_mr(session);
	if (actions & ACTION_POST_OPERATION && exchanging)
		begin_operation(session);
	if (actions & ACTION_SEND_DONE && exchanging && !error)
		error = send_done(session);
	if (actions & ACTION_SEND_VERDICT && exchanging && !error)
		error = send_verdict(session);
	if (actions & ACTION_DISCONNECT)
		disconnect(session);
	if (actions & ACTION_FORCE_ERROR)
		force_error(session);
	if (actions & (ACTION_DISCONNECT | ACTION_FORCE_ERROR))
		read_clock(session); /* the calls may have taken long */
	return error;
}

static bool is_drained(const struct session *session)
{
	const struct protocol *protocol = &session->protocol;

	return protocol->phase == PHASE_CLOSING && !protocol->drained &&
	       !outstanding_sends(session) && !session->outstanding_receives;
}

static void handle_done_due(struct session *session)
{
	session_handle(session, EVENT_DONE_DUE);
	if (operation_completed(session))
		end_operation(session);
}

/* Execute actions and post what is due, until no action is left. */
static void advance(struct session *session)
{
	do {
		int error = session->actions ? run_actions(session) : 0;

		if (!error)
			error = continue_operation(session);
		if (!error)
			error = send_window(session);
		if (error)
			feed_refused_post(session, EVENT_SEND_REFUSED, "ibv_post_send", error);
		else if (operation_runs(&session->protocol) &&
			 transfer_done_is_due(&session->transfer))
			handle_done_due(session);
		if (is_drained(session))
			session_handle(session, EVENT_DRAINED);
	} while (session->actions && session->protocol.phase < PHASE_FINISHED);
}

/* Return the number of completions. After a failure, close the session and return 0. */
static inline int poll_completions(struct session *session, struct ibv_wc *completions)
{
	int count = 0;

	if (!session->channel_lost)
		count = ibv_poll_cq(session->cq, POLL_SIZE, completions);
	if (count >= 0)
		return count;
	if (session->protocol.phase < PHASE_CLOSING)
		session_fail(session, STATUS_LOCAL_FAILURE,
			     "ibv_poll_cq failed, and the driver gives no reason; see its "
			     "messages ('dmesg')");
	return 0;
}

/* Post what a completion makes due before the next completion is handled. */
static void take_completions(struct session *session, struct ibv_wc *completions, int count)
{
	int all = 0;

	while (count > 0) {
		read_clock(session);
		for (int i = 0; i < count; i++) {
			handle_completion(session, &completions[i]);
			if (session->stepped)
				advance(session);
		}
		all += count;
		if (count < POLL_SIZE || all >= COMPLETIONS_PER_TURN)
			break;
		count = poll_completions(session, completions);
	}
}

/* After the removal of a device, reading its channel fails with EIO. */
static void channel_failed(struct session *session, int error)
{
	session->channel_lost = true;
	session->ready[0].fd = -1;
	if (error == EIO)
		session_fail(session, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
	else
		session_fail(session, STATUS_LOCAL_FAILURE, "cannot get completion events: %s",
			     strerror(error));
}

/* session_run() acknowledges all events at the end. */
static void take_event(struct session *session)
{
	struct ibv_cq *cq;
	void *context;

	if (!ibv_get_cq_event(session->setup->channel, &cq, &context)) {
		session->unacknowledged_events++;
		session->armed = false;
	} else if (errno != EAGAIN && errno != EINTR) {
		channel_failed(session, errno);
	}
}

/*
 * The caller must poll once more, because a completion may have come before the event was
 * requested.
 */
static void arm(struct session *session)
{
	int error = verb_error(ibv_req_notify_cq(session->cq, 0));

	session->armed = true;
	if (error)
		session_fail(session, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
			     strerror(error));
}

/* Add the descriptor of a busy helper. Return the number of added descriptors. */
static nfds_t add_descriptor(struct pollfd *ready, const struct helper *helper)
{
	if (!helper_busy(helper))
		return 0;
	*ready = (struct pollfd){ .fd = helper_fd(helper), .events = POLLIN };
	return 1;
}

static void wait_for_descriptors(struct session *session, int milliseconds)
{
	struct pollfd *ready = session->ready;
	nfds_t count = 2;
	eventfd_t notified;

	if (session->outgoing.helper)
		count += add_descriptor(&ready[count], session->outgoing.helper);
	if (session->incoming.helper)
		count += add_descriptor(&ready[count], session->incoming.helper);
	if (poll(ready, count, milliseconds) < 0) {
		if (errno != EINTR)
			session_fail(session, STATUS_LOCAL_FAILURE,
				     "cannot wait for completion events: %s", strerror(errno));
		return;
	}
	if (ready[0].revents)
		take_event(session);
	if (ready[1].revents)
		eventfd_read(session->shared->wake, &notified);
}

/*
 * If this thread spins, check the descriptors in one of TURNS_PER_LOOK calls, without a wait.
 * Otherwise arm the completion queue, or if it is armed, wait for a descriptor or the next clock.
 * Return true if the next turn must follow even without completions.
 */
static bool wait_for_work(struct session *session)
{
	const struct program *program = session->setup->program;
	/* more spinning threads than processors would delay each other */
	bool spins = session->setup->options.busy_poll &&
		     session->protocol.phase != PHASE_CONNECTING &&
		     atomic_load(&program->regions.sessions) <= program->processors;

	if (spins && ++session->turns % TURNS_PER_LOOK > 0)
		return helper_busy(session->outgoing.helper) ||
		       helper_busy(session->incoming.helper); /* a helper may have finished */
	if (!spins && !session->armed && !session->channel_lost) {
		arm(session);
		return false;
	}
	wait_for_descriptors(session,
			     spins ? 0 : poll_timeout(session_due(session) - session->clocks.now));
	return true;
}

/*
 * Return true if only a completion, a notification or a clock can cause work. An operation that
 * repeats the same bytes is quiet once its first pass is in the ring.
 */
static bool is_quiet(const struct session *session)
{
	return transfer_source_has_ended(&session->transfer) && !may_empty(session) &&
	       !helper_busy(session->outgoing.helper) && !helper_busy(session->incoming.helper) &&
	       transfer_is_reported_by_age(&session->transfer);
}

/* Return true if a ring has moved. */
static bool look_at_everything(struct session *session)
{
	bool moved = fill_ring(session);

	moved |= empty_ring(session);
	check_clocks(session); /* after the arrivals, which may extend the deadline */
	advance(session);
	if (!moved && !session->stepped && is_quiet(session))
		session->clocks.quiet_until = session_due(session);
	return moved;
}

/*
 * Run one turn with `count` polled completions. Return true if the next turn must follow without a
 * wait.
 */
static bool run_turn(struct session *session, struct ibv_wc *completions, int count)
{
	if (count > 0)
		take_completions(session, completions, count);
	else
		read_clock(session);
	if (atomic_load(&session->shared->notifications))
		handle_notifications(session);
	session->stepped = false;
	if (session->clocks.now < session->clocks.quiet_until) {
		advance(session);
		return false;
	}
	session->clocks.quiet_until = INT64_MIN;
	return look_at_everything(session);
}

/*
 * If the setup failed, close the connection. Handle ESTABLISHED first, because only a connected
 * side disconnects.
 */
static void feed_setup_failure(struct session *session)
{
	const struct failure *failure = &session->setup->failure;

	handle_notifications(session);
	if (failure->status != STATUS_SUCCESS)
		feed_failure(session, EVENT_FAILED, failure);
}

static void run_session(struct session *session)
{
	struct ibv_wc completions[POLL_SIZE];
	bool look = true; /* take a turn even without a completion: other work may be due */

	session->ready[0] = (struct pollfd){ .fd = session->setup->channel->fd, .events = POLLIN };
	session->ready[1] = (struct pollfd){ .fd = session->shared->wake, .events = POLLIN };
	read_clock(session);
	begin_wait(session, session->clocks.now);
	feed_setup_failure(session);
	begin_incoming(session);
	/* fill the ring before MSG_MR advertises it, as far as that needs no helper */
	while (fill_ring(session))
		;
	while (session->protocol.phase < PHASE_FINISHED) {
		int count = poll_completions(session, completions);

		if (count > 0 || look || session->stepped ||
		    atomic_load(&session->shared->notifications))
			look = run_turn(session, completions, count);
		else
			look = wait_for_work(session);
	}
}

void *session_run(void *argument)
{
	struct session *session = argument;
	const struct setup *setup = session->setup;

	run_session(session);
	session->helpers_left += !outgoing_release_helper(&session->outgoing);
	session->helpers_left += !incoming_release_helper(&session->incoming);
	ibv_ack_cq_events(setup->cq, session->unacknowledged_events);
	process_notify_exit(&setup->program->process, setup->id->context);
	return NULL;
}
