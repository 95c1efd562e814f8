// SPDX-License-Identifier: MIT
/*
 * The thread of a connection, in the order of a session: posting; events and the state machine
 * (rdma-common/protocol.c); the deadline; messages and completions; notifications; both payloads;
 * clocks; the loop. connection.c has the main thread's part.
 *
 * The thread's RDMA calls have three error conventions. rdma_disconnect(3) and ibv_get_cq_event(3)
 * return -1 and set errno. ibv_post_send(3), ibv_post_recv(3), ibv_modify_qp(3) and
 * ibv_req_notify_cq(3) return an errno value, or in some drivers another number: see verb_error().
 * ibv_poll_cq(3) returns a negative number and no reason.
 *
 * The thread waits for a completion before it reads memory that the adapter has written.
 * ibv_poll_cq(3) orders the write before the read, on a weakly ordered processor as well. A
 * provider for hardware has a barrier after it finds a valid entry in the completion queue
 * (rdma-core, util/udma_barrier.h, udma_from_device_barrier()). The providers of Soft-RoCE and
 * soft-iWARP find the entry by an atomic acquire load. A message is read after its receive
 * completes; the bytes of a READ, after the READ completes; the bytes of the peer's WRITE, after
 * the receive of a message that the peer posted later.
 *
 * The thread writes memory that the adapter reads before ibv_post_send(3) posts the operation, or
 * the message that announces the bytes to the peer; posting orders the write before the read.
 *
 * One thread at a time owns memory that threads share. A sequentially consistent atomic variable
 * (`notifications`, and variables of helper.c and console.c), a pipe, or the start or end of a
 * thread hands the memory over.
 */
#include "rdma-common.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/*
 * Time after which the adapter of an idle peer is probed. It doubles with each probe, up to
 * --timeout divided by PROBES_PER_TIMEOUT.
 */
#define PROBE_MILLISECONDS 250
#define PROBES_PER_TIMEOUT 4
/*
 * Time that a connection may take to close after a failure, a missed deadline or the peer's
 * disconnection.
 */
#define CLOSING_MILLISECONDS 1000
/*
 * A side that is blocked on its own disk or pipe gives up before its peer, which cannot know the
 * reason: earlier by --timeout divided by OWN_DELAYS_PER_TIMEOUT, plus TRANSFER_MILLISECONDS, the
 * delay of a MSG_WINDOW.
 */
#define OWN_DELAYS_PER_TIMEOUT 8
/* Interval between two updates of the progress line. */
#define PROGRESS_MILLISECONDS 250
/*
 * Limits of one turn, so that no task waits for long: maximum number of completions per poll, and
 * per turn. A turn also fills or empties at most one piece (HELPER_BUFFER bytes) of each ring.
 */
#define POLL_SIZE            16
#define COMPLETIONS_PER_TURN 64
/* With --busy-poll: number of turns between two checks of the descriptors. */
#define TURNS_PER_LOOK 1000

/*
 * The messages of a session, and the conditions for some of them:
 *
 *     client                                            server
 *     connect request, with a hello        ------->     the server decides (hello_refusal())
 *                                          <-------     rejection or acceptance, with a hello
 *     MSG_MR: address, length, rkey        ------->
 *                                          <-------     MSG_MR, after the client's
 *     RDMA WRITE or READ                   <=====>      RDMA WRITE or READ
 *     MSG_DONE: digest                     ------->     after the sender's WRITE or completed READ
 *                                          <-------     MSG_DONE: digest
 *     from its MSG_MR on, each side reports the progress of both streams by MSG_WINDOW; after its
 *     MSG_VERDICT it only confirms the peer's MSG_WINDOWs, until the peer's MSG_VERDICT arrives;
 *     after both MSG_DONEs each side verifies its incoming payload
 *     MSG_VERDICT                          <------>     MSG_VERDICT
 *     (a side that gives up sends a bad MSG_VERDICT at any time after its MSG_MR)
 *     disconnects after both MSG_VERDICTs  ------->     waits for the disconnection
 *
 * The thread of a connection runs one loop (run_session()):
 *
 *     wait      for a completion, a notification, a helper, or the next clock
 *     take      completions and notifications: feed them to the state machine and the transfer
 *     fill      a piece of the outgoing ring
 *     empty     a piece of the incoming ring: copy it, verify the copy, let a helper store it
 *     clocks    the deadline, the end of a timed operation or an interval, a probe, progress
 *     advance   post everything that is due: MSG_MR, the operation, MSG_WINDOW, MSG_DONE,
 *               MSG_VERDICT; disconnect
 *
 * Only the first step waits, and only after a turn that found nothing to do. Other slow calls occur
 * at most once in a session (rdma_disconnect), or once per --interval (counters).
 */

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void begin_wait(struct connection *connection, int64_t now);
static void count_wire_progress(struct connection *connection);

/* ---- Posting ---- */

/*
 * If a post fails, bad_wr is the first request of its list that was not posted (ibv_post_send(3)).
 * If bad_wr is NULL, the provider did not say what it posted: count the whole list as outstanding.
 * libsiw leaves it NULL when its doorbell fails, although all requests are in the queue. The second
 * deadline of PHASE_CLOSING ends the wait for a request that never completes.
 */

/* Set the time of this turn. A poll that finds nothing does not call this, and so stays fast. */
static inline void read_clock(struct connection *connection)
{
	connection->now_nanoseconds = now_nanoseconds();
	connection->now = connection->now_nanoseconds / 1000000;
}

/* Post a receive into `slot`, and count it. Return 0 or an errno value. */
static int post_receive(struct connection *connection, unsigned int slot)
{
	struct ibv_sge sge = make_sge(&connection->control, slot * SLOT_SIZE, MESSAGE_SIZE);
	struct ibv_recv_wr *bad_wr = NULL, request = {
		.wr_id = make_wr_id(WR_RECEIVE, slot),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int error = verb_error(ibv_post_recv(connection->id->qp, &request, &bad_wr));

	if (!error || !bad_wr)
		connection->outstanding_receives++;
	return error;
}

enum status post_receives(struct connection *connection, struct failure *failure)
{
	int error = 0;

	print_trace(&connection->log, "ibv_post_recv: %d receives", RECEIVES);
	for (unsigned int slot = 0; slot < RECEIVES && !error; slot++)
		error = post_receive(connection, slot);
	if (error)
		return failure_set(failure, STATUS_LOCAL_FAILURE, "ibv_post_recv failed: %s",
				   strerror(error));
	return STATUS_SUCCESS;
}

/* Post a message or a probe, and count it. Return 0 or an errno value. */
static int post_send(struct connection *connection, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad_wr = NULL;
	int error = verb_error(ibv_post_send(connection->id->qp, request, &bad_wr));

	if (!error || !bad_wr)
		connection->outstanding_messages++;
	return error;
}

/*
 * Post a message. Return 0 or an errno value. Each type has its own slot and at most one message in
 * flight, so the message in a slot is not overwritten before it is sent.
 */
static int post_message(struct connection *connection, const struct message *message)
{
	uint64_t offset = (SEND_SLOT + (uint64_t)message->type) * SLOT_SIZE;
	struct ibv_sge sge = make_sge(&connection->control, offset, MESSAGE_SIZE);
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_MESSAGE, message->type),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      inline_flag(MESSAGE_SIZE, connection->limits.inline_size),
	};

	encode_message(message, connection->control.memory + offset);
	print_trace(&connection->log, "ibv_post_send: SEND %s", message_name(message->type));
	return post_send(connection, &request);
}

/*
 * Post MSG_MR: the region that the peer may write to or read from, and `produced`. Return 0 or an
 * errno value.
 */
static int send_mr(struct connection *connection)
{
	const struct region *exposed = connection->options->operation == OPERATION_WRITE
					       ? &connection->incoming_ring
					       : &connection->outgoing_ring;
	uint64_t produced = transfer_announce(&connection->transfer);
	const struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->memory,
		.length = exposed->size,
		.produced = connection->protocol.verifying ? produced : 0,
		.rkey = exposed->mr ? exposed->mr->rkey : 0, /* --one-way: no region */
	};

	return post_message(connection, &message);
}

/*
 * Allocate the list of work requests; on failure end the session. A client that never sends MSG_MR
 * does not cause this allocation.
 */
static void prepare_batch(struct connection *connection)
{
	enum operation operation = connection->protocol.operation;
	const struct region *local = operation == OPERATION_WRITE ? &connection->outgoing_ring
								  : &connection->incoming_ring;

	connection->batch = batch_create(operation, local, &connection->peer_region);
	if (!connection->batch)
		connection_fail(connection, STATUS_LOCAL_FAILURE,
				"cannot allocate memory for work requests: %s", strerror(errno));
}

/*
 * Fill the list with the work requests that may be posted now. Return their number, at most BATCH.
 * Set `more` to true if other requests may be posted after these, else to false.
 */
static unsigned int make_batch(struct connection *connection, bool *more)
{
	struct figures *figures = &connection->figures;
	struct transfer_run run;
	unsigned int count = 0;

	do {
		*more = transfer_next(&connection->transfer, BATCH - count, &run);
		if (!*more)
			break;
		batch_fill(connection->batch, count, &run, connection->limits.inline_size);
		count += run.count;
		if (run.size > figures->request_bytes)
			figures->request_bytes = run.size;
		*more = run.more;
	} while (*more && count < BATCH);
	return count;
}

/*
 * Post the first `count` work requests of the list, which carry `bytes`; report rejected ones to
 * `transfer`. Return 0 or an errno value.
 */
static int post_batch(struct connection *connection, unsigned int count, uint64_t bytes)
{
	struct ibv_send_wr *requests = connection->batch->requests;
	struct ibv_send_wr *bad_wr = NULL, *last = &requests[count - 1], *next = last->next;
	int error;

	last->next = NULL;
	error = verb_error(ibv_post_send(connection->id->qp, requests, &bad_wr));
	last->next = next;
	if (error && bad_wr)
		transfer_rejected(&connection->transfer, wr_detail(bad_wr->wr_id));
	if (error)
		return error;
	print_trace(&connection->log,
		    "ibv_post_send: RDMA %s of %" PRIu64 " byte%s in %u request%s",
		    last->opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ", bytes, plural(bytes),
		    count, plural(count));
	return 0;
}

/*
 * Return the time, in milliseconds, at which an operation ends: `seconds` after `now` if `passes`
 * is 0; otherwise INT64_MAX.
 */
static int64_t end_of_passes(uint64_t passes, uint32_t seconds, int64_t now)
{
	return passes == 0 ? now + (int64_t)seconds * 1000 : INT64_MAX;
}

/* Return --interval in milliseconds; 0: no intervals are reported. */
static int64_t interval_length(const struct connection *connection)
{
	return (int64_t)connection->options->interval_seconds * 1000;
}

static void start_intervals(struct connection *connection)
{
	if (interval_length(connection) == 0)
		return;
	connection->interval_time = connection->now + interval_length(connection);
	connection->interval_begin = connection->figures.started;
	if (connection->counting)
		connection->counting->interval = connection->counting->before;
}

/*
 * Start the clocks of this side's operation just before its first work requests are posted. The
 * time before, in which the operation may have waited for its source, does not count.
 */
static void start_clocks(struct connection *connection)
{
	const struct options *options = connection->options;

	read_clock(connection);
	connection->figures.started = connection->now_nanoseconds;
	connection->figures.completed = connection->figures.started;
	connection->operation_time = end_of_passes(operation_passes(options),
						   options->duration_seconds, connection->now);
	if (connection->protocol.operation == OPERATION_WRITE)
		connection->source_time = connection->operation_time;
	start_intervals(connection);
}

/* Start the clock of a timed READ by the peer: this side ends the stream, unless it repeats. */
static void start_source_clock(struct connection *connection)
{
	const struct hello *peer = &connection->agreement.peer;

	if (connection->protocol.operation == OPERATION_READ)
		connection->source_time =
			end_of_passes(peer->passes, peer->seconds, connection->now);
}

/*
 * Start the clocks if `position` is 0; record the time if latencies are measured and a pass begins.
 * Call this just before the work requests from `position` on are posted.
 */
static void note_posting(struct connection *connection, uint64_t position)
{
	struct figures *figures = &connection->figures;

	if (position == 0)
		start_clocks(connection);
	/*
	 * latencies are measured only at depth 1: a pass begins where the last measured one ended
	 */
	if (figures->latency && position == figures->bytes)
		figures->pass_posted = connection->now_nanoseconds;
}

/* Post all work requests of the operation that may be posted now. Return 0 or an errno value. */
static int continue_operation(struct connection *connection)
{
	const uint64_t *posted = &connection->transfer.operation.posted;
	bool more = connection->protocol.operates && operation_runs(&connection->protocol);
	int error = 0;

	while (more && !error) {
		uint64_t before = *posted;
		unsigned int count = make_batch(connection, &more);

		if (count == 0)
			break;
		note_posting(connection, before);
		error = post_batch(connection, count, *posted - before);
	}
	return error;
}

/* Return true if a MSG_WINDOW may be posted: the session allows it, and its only slot is free. */
static bool window_is_allowed(const struct connection *connection)
{
	return window_may_be_sent(&connection->protocol) && !connection->window_outstanding;
}

/* Post a MSG_WINDOW if it is due and allowed. Return 0 or an errno value. */
static int send_window(struct connection *connection)
{
	struct message message;

	if (connection->now < connection->quiet_until)
		return 0;
	connection->window_time = transfer_window_time(&connection->transfer, connection->now);
	if (connection->window_time > connection->now || !window_is_allowed(connection))
		return 0;
	count_wire_progress(connection); /* first: MSG_WINDOW may make the peer owe more */
	message = (struct message){ .type = MSG_WINDOW };
	message.window = transfer_window(&connection->transfer);
	connection->window_outstanding = true;
	return post_message(connection, &message);
}

/*
 * Post MSG_DONE; if the peer has a hello, with the digest and length of the outgoing payload.
 * Return 0 or an errno value.
 */
static int send_done(struct connection *connection)
{
	struct message done = { .type = MSG_DONE };
	uint64_t bytes = transfer_done(&connection->transfer);

	if (connection->protocol.verifying) {
		done.length = bytes;
		done.value = connection->outgoing.pass_digest;
	}
	return post_message(connection, &done);
}

bool operation_completed(const struct connection *connection)
{
	return connection->protocol.local >= LOCAL_OPERATION_POSTED &&
	       !connection->operation_failed && transfer_outstanding(&connection->transfer) == 0 &&
	       transfer_done_due(&connection->transfer);
}

static void read_counters(const struct connection *connection, struct counters *counters)
{
	const struct rdma_cm_id *id = connection->id;

	counters_read(counters, id->verbs->device->ibdev_path, id->port_num);
}

void connection_begin_counting(struct connection *connection)
{
	connection->counting = calloc(1, sizeof(*connection->counting));
	if (connection->counting)
		read_counters(connection, &connection->counting->before);
}

void connection_end_counting(struct connection *connection)
{
	struct counting *counting = connection->counting;

	if (counting && counting->before.any && !counting->after.any)
		read_counters(connection, &counting->after);
}

struct counters connection_growth(const struct connection *connection)
{
	const struct counting *counting = connection->counting;

	if (!counting)
		return (struct counters){ .any = false };
	return counters_growth(&counting->before, &counting->after);
}

/* End counting, and add the counts of the port, if it has any, to the verdict. */
static void add_counts(struct connection *connection, struct message *verdict)
{
	struct sequence_errors sequence;
	struct counters growth;

	connection_end_counting(connection);
	growth = connection_growth(connection);
	if (!growth.any)
		return;
	sequence = counters_sequence_errors(&growth);
	verdict->errors = counters_errors(&growth) + 1;
	verdict->missing = sequence.missing;
	verdict->retransmitted = sequence.retransmitted;
}

/*
 * Post this side's verdict. STATUS_LOCAL_FAILURE stands for all failures but wrong contents. Return
 * 0 or an errno value.
 */
static int send_verdict(struct connection *connection)
{
	enum status check = connection->protocol.check.status;
	bool in_words = check == STATUS_SUCCESS || check == STATUS_CONTENTS_WRONG;
	struct message verdict = { .type = MSG_VERDICT,
				   .value = in_words ? check : STATUS_LOCAL_FAILURE,
				   .length = connection->figures.bytes };

	add_counts(connection, &verdict);
	transfer_verdict(&connection->transfer);
	return post_message(connection, &verdict);
}

/* Report the interval that ends now, unless it has no duration, and begin the next one. */
static void end_interval(struct connection *connection)
{
	int64_t started = connection->figures.started, now = connection->now_nanoseconds;
	uint64_t completed = connection->transfer.operation.completed;
	struct interval interval = {
		.session = connection->number,
		.begin = (double)(connection->interval_begin - started) / 1e9,
		.end = (double)(now - started) / 1e9,
		.bytes = completed - connection->interval_bytes,
	};
	struct counting *counting = connection->counting;
	struct counters counters;

	if (now <= connection->interval_begin)
		return;
	if (counting) {
		read_counters(connection, &counters);
		interval.growth = counters_growth(&counting->interval, &counters);
		counting->interval = counters;
	}
	print_interval(&connection->log, &interval);
	connection->interval_begin = now;
	connection->interval_bytes = completed;
}

/* End the last interval, however short, because the operation has ended. */
static void end_intervals(struct connection *connection)
{
	if (connection->interval_time != INT64_MAX)
		end_interval(connection);
	connection->interval_time = INT64_MAX;
}

static void end_operation(struct connection *connection)
{
	end_intervals(connection);
	if (connection->protocol.operates)
		print_status(&connection->log, "send completed successfully.");
}

/* Start the clock of the peer's READ, and prepare this side's operation, if any. */
static void begin_operation(struct connection *connection)
{
	read_clock(connection);
	start_source_clock(connection);
	if (!connection->protocol.operates) {
		connection->figures.started =
			connection->now_nanoseconds; /* for the progress line */
		return;
	}
	print_status(&connection->log, "received MSG_MR. %s remote memory...",
		     connection->protocol.operation == OPERATION_WRITE ? "writing message to"
								       : "reading message from");
	prepare_batch(connection);
}

/* ---- Events drive the session ---- */

uint64_t outstanding_sends(const struct connection *connection)
{
	return transfer_outstanding(&connection->transfer) + connection->outstanding_messages;
}

/*
 * Trace a step of the state machine, report the end of the operation, and restart the wait.
 * advance() executes the actions.
 */
static void follow_step(struct connection *connection, const struct protocol *before,
			enum event_type type, unsigned int actions)
{
	const struct protocol *now = &connection->protocol;

	if (actions || before->phase != now->phase || before->local != now->local ||
	    before->remote != now->remote)
		print_trace(&connection->log, "%s: %s, %s, %s", event_name(type),
			    phase_name(now->phase), local_stage_name(now->local),
			    remote_stage_name(now->remote));
	if (type == EVENT_DONE_DUE && operation_completed(connection))
		end_operation(connection);
	/*
	 * Each step before closing restarts the wait. Afterwards only the peer's disconnection and
	 * the first deadline of closing do.
	 */
	if (before->phase < PHASE_CLOSING || before->overdue != now->overdue ||
	    before->disconnected != now->disconnected)
		begin_wait(connection, now_milliseconds());
}

/*
 * Feed an event to the state machine. advance() executes the actions later. `cause` is the number
 * of a text. Either thread.
 */
static void feed(struct connection *connection, enum event_type type, enum status status,
		 unsigned int cause)
{
	const struct protocol before = connection->protocol;
	const struct step step = protocol_step(before, (struct event){ type, status, cause });

	connection->protocol = step.protocol;
	connection->actions |= step.actions;
	connection->stepped = true;
	connection->quiet_until = INT64_MIN;
	follow_step(connection, &before, type, step.actions);
}

/* Feed an event that no text explains. Either thread. */
static void connection_handle(struct connection *connection, enum event_type type,
			      enum status status)
{
	feed(connection, type, status, 0);
}

/* ---- Events with a cause ---- */

/* Feed an event with the text that explains it. The state machine decides which text counts. */
__attribute__((format(printf, 4, 0))) static void explain_event_list(struct connection *connection,
								     enum event_type type,
								     enum status status,
								     const char *format,
								     va_list arguments)
{
	unsigned int cause = 1;

	while (cause < CAUSES && needs_cause(&connection->protocol, cause))
		cause++;
	vsnprintf(connection->causes[cause - 1], CAUSE_SIZE, format, arguments);
	feed(connection, type, status, cause);
}

__attribute__((format(printf, 4, 5))) static void explain_event(struct connection *connection,
								enum event_type type,
								enum status status,
								const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	explain_event_list(connection, type, status, format, arguments);
	va_end(arguments);
}

enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...)
{
	va_list arguments;

	va_start(arguments, format);
	explain_event_list(connection, EVENT_FAILED, status, format, arguments);
	va_end(arguments);
	return status;
}

/* Feed the event of a refused post. */
static void refuse_post(struct connection *connection, enum event_type event, const char *verb,
			int error)
{
	print_trace(&connection->log, "%s failed: %s", verb, strerror(error));
	explain_event(connection, event, STATUS_SUCCESS, "%s failed: %s", verb, strerror(error));
}

/* Give up a payload that cannot be read, verified or stored: send a bad verdict, if possible. */
static void give_up(struct connection *connection, const struct failure *failure)
{
	explain_event(connection, EVENT_GAVE_UP, failure->status, "%s", failure->cause);
}

/* ---- When --timeout expires ---- */

/*
 * The rule: a session fails after a wait of --timeout. The wait restarts
 * - with each step of the state machine until closing, and with a MSG_WINDOW that reports progress;
 * - with a completion of this side's operation, unless the peer's program owes something: its
 *   adapter completes requests even if the program is stopped;
 * - with a piece that this side fills, copies or stores, unless the peer or the wire owes
 *   something.
 * A side that waits only for its own disk or pipe gives up earlier (OWN_DELAYS_PER_TIMEOUT) and
 * reports that reason, before the peer's wait ends. Closing may take CLOSING_MILLISECONDS (after
 * success, --timeout), and CLOSING_MILLISECONDS again after the peer's disconnection, or after the
 * queue pair was forced into the error state. expire() in protocol.c decides what each deadline
 * leads to.
 */

/* Begin the wait at `now` (milliseconds): set the deadline and the time of the next probe. */
static void begin_wait(struct connection *connection, int64_t now)
{
	const struct protocol *protocol = &connection->protocol;
	int64_t timeout = timeout_milliseconds(connection->options);

	if (protocol->phase == PHASE_CLOSING && timeout > CLOSING_MILLISECONDS &&
	    (protocol->result.status != STATUS_SUCCESS || protocol->overdue ||
	     protocol->disconnected))
		timeout = CLOSING_MILLISECONDS;
	connection->deadline = now + timeout;
	connection->wire_time = 0;
	connection->probe_interval = PROBE_MILLISECONDS;
	connection->probe_time = now + connection->probe_interval;
}

/*
 * Count progress that `mover` (DEBTOR_NONE: this side) made at `time`: restart the wait from then,
 * unless a debtor of a higher value owes something.
 */
static void count_progress(struct connection *connection, enum debtor mover, int64_t time)
{
	if (transfer_debtor(&connection->transfer) <= mover)
		begin_wait(connection, time);
}

/*
 * Count the operation's latest completion as progress; its handler only recorded the time. Call
 * this before a deadline is checked, and before a MSG_WINDOW is sent. Every other message belongs
 * to a step of the state machine, which restarts the wait.
 */
static void count_wire_progress(struct connection *connection)
{
	if (connection->wire_time > 0)
		count_progress(connection, DEBTOR_WIRE, connection->wire_time);
	connection->wire_time = 0;
}

/*
 * Return the deadline of a wait for this side's own disk or pipe; without a helper, the usual
 * deadline.
 */
static int64_t own_deadline(const struct connection *connection)
{
	if (!connection->outgoing.helper && !connection->incoming.helper)
		return connection->deadline;
	return connection->deadline - TRANSFER_MILLISECONDS -
	       timeout_milliseconds(connection->options) / OWN_DELAYS_PER_TIMEOUT;
}

/*
 * Return the beginning of the cause, a static string, if the session waits only for this side's own
 * disk or pipe; otherwise NULL.
 */
static const char *own_delay(const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;
	bool sends = protocol->local == LOCAL_OPERATION_POSTED;
	struct piece piece;

	if (protocol->phase != PHASE_EXCHANGING)
		return NULL;
	if (protocol->local == LOCAL_VERIFYING)
		return "received everything, but storing it made no progress";
	if ((!sends && protocol->local != LOCAL_DONE_SENT) ||
	    transfer_debtor(&connection->transfer) != DEBTOR_NONE)
		return NULL;
	if (connection->incoming.unstored > 0 || (!connection->transfer.sink.stream.fits_ring &&
						  transfer_copy(&connection->transfer, &piece)))
		return "storing the incoming payload made no progress";
	return sends && helper_busy(connection->outgoing.helper)
		       ? "the source of the outgoing payload delivered no data"
		       : NULL;
}

void connection_expire(struct connection *connection)
{
	explain_event(connection, EVENT_DEADLINE, STATUS_SUCCESS,
		      "no progress for %u s (--timeout): check that the peer is running",
		      connection->options->timeout_seconds);
}

static void check_deadline(struct connection *connection)
{
	const char *delay;
	struct failure failure;

	count_wire_progress(connection);
	if (connection->now < own_deadline(connection))
		return;
	delay = own_delay(connection);
	if (!delay && connection->now < connection->deadline)
		return;
	if (!delay) {
		connection_expire(connection);
		return;
	}
	failure_set(&failure, STATUS_TIMED_OUT,
		    "%s for %u s (--timeout): check the disk, or the program at the other end of "
		    "the pipe",
		    delay, connection->options->timeout_seconds);
	if (connection->protocol.local == LOCAL_VERIFYING)
		connection_fail(connection, failure.status, "%s", failure.cause);
	else
		give_up(connection, &failure);
}

/* ---- The next clock ---- */

/* Return the time until which the thread may wait if nothing happens. */
static int64_t session_due(const struct connection *connection)
{
	int64_t due = connection->deadline, own;

	if (connection->now < connection->quiet_until)
		return connection->quiet_until;
	own = own_deadline(connection);
	if (own > connection->now) /* otherwise this side waits for the peer, not for a disk */
		due = earlier(due, own);
	if (connection->protocol.phase == PHASE_EXCHANGING) {
		due = earlier(due, connection->probe_time);
		due = earlier(due, earlier(connection->operation_time, connection->source_time));
		due = earlier(due, connection->interval_time);
	}
	return window_is_allowed(connection) ? earlier(due, connection->window_time) : due;
}

/* ---- What arrives ---- */

/* Handle the peer's MSG_WINDOW. It extends the deadline only if it reports progress. */
static void handle_window(struct connection *connection, unsigned int slot,
			  const struct window *window)
{
	const struct protocol *protocol = &connection->protocol;
	uint64_t moves = connection->transfer.moves;
	const char *wrong = "arrived out of turn";
	int error;

	connection->quiet_until = INT64_MIN;
	if (protocol->gave_up)
		return;
	if (window_may_come(protocol))
		wrong = transfer_accept(&connection->transfer, window);
	if (wrong) {
		connection_fail(connection, STATUS_CONTENTS_WRONG, "the peer's MSG_WINDOW %s",
				wrong);
		return;
	}
	if (protocol->phase >= PHASE_CLOSING) /* nothing more is posted */
		return;
	if (connection->transfer.moves != moves)
		begin_wait(connection, connection->now);
	error = post_receive(connection, slot);
	if (error && !connection->outstanding_receives) /* else receives are left */
		refuse_post(connection, EVENT_RECEIVE_REFUSED, "ibv_post_recv", error);
}

/* Handle the peer's MSG_MR: validate its region. */
static void handle_mr(struct connection *connection, const struct message *message)
{
	const struct protocol *protocol = &connection->protocol;
	uint64_t length = connection->transfer.plan.incoming.length;
	/* a peer without a hello has filled its whole region, but its MSG_MR does not say so */
	uint64_t needed = protocol->verifying ? 1 : DEFAULT_PAYLOAD;
	uint64_t produced = protocol->verifying ? message->produced : length;
	const char *wrong = NULL;

	if (protocol->remote == REMOTE_SILENT) {
		if (protocol->operates && !region_is_usable(message, needed))
			wrong = "has no valid address or is too short";
		else
			wrong = transfer_peer_region(&connection->transfer, message->length,
						     produced);
		connection->peer_region = *message;
	}
	if (wrong)
		connection_fail(connection, STATUS_CONTENTS_WRONG,
				"the peer's memory region %s: it has %" PRIu64 " bytes, of which "
				"%" PRIu64 " are ready",
				wrong, message->length, produced);
	else
		connection_handle(connection, EVENT_MR_RECEIVED, STATUS_SUCCESS);
}

/* Handle the peer's MSG_DONE, which states the number of digested bytes. */
static void handle_done(struct connection *connection, const struct message *message)
{
	const struct protocol *protocol = &connection->protocol;
	const struct stream_plan *incoming = &connection->transfer.plan.incoming;
	uint64_t bytes = message->length;
	const char *wrong = NULL;

	if (!protocol->verifying) /* a peer without a hello does not state that number */
		bytes = incoming->present ? incoming->length : 0;
	/* after giving up, this side no longer tracks the peer's positions */
	if (protocol->remote == REMOTE_MR && !protocol->gave_up) {
		connection->peer_digest = message->value;
		wrong = transfer_accept_done(&connection->transfer, bytes);
	}
	if (wrong) {
		connection_fail(connection, STATUS_CONTENTS_WRONG, "the peer %s", wrong);
		return;
	}
	connection_handle(connection, EVENT_DONE_RECEIVED, STATUS_SUCCESS);
}

/*
 * Handle the peer's verdict. A bad one is early if the peer gave up: it does not follow both
 * MSG_DONEs.
 */
static void handle_verdict(struct connection *connection, uint64_t value)
{
	const struct protocol *protocol = &connection->protocol;
	bool early = !protocol->done_posted || protocol->remote < REMOTE_DONE;
	enum event_type type = early ? EVENT_PEER_GAVE_UP : EVENT_VERDICT_RECEIVED;

	if (value == STATUS_SUCCESS && protocol->remote == REMOTE_DONE && protocol->verifying &&
	    !protocol->done_posted)
		connection_fail(
			connection, STATUS_CONTENTS_WRONG,
			"the peer sent a good MSG_VERDICT before this side posted its MSG_DONE");
	else if (value == STATUS_SUCCESS)
		connection_handle(connection, EVENT_VERDICT_RECEIVED, STATUS_SUCCESS);
	else if (value != STATUS_LOCAL_FAILURE)
		explain_event(connection, type, STATUS_CONTENTS_WRONG, "%s",
			      status_describe(STATUS_CONTENTS_WRONG));
	else if (early)
		explain_event(
			connection, type, STATUS_REFUSED,
			"the peer gave up: it could not read its outgoing payload, or could not "
			"receive, verify or store the incoming one; see its messages");
	else
		explain_event(connection, type, STATUS_REFUSED,
			      "the peer could not receive, verify or store the payload; see its "
			      "messages");
}

static void handle_message(struct connection *connection, unsigned int slot, uint32_t size)
{
	const uint8_t *wire = connection->control.memory + (size_t)slot * SLOT_SIZE;
	struct message message;

	if (slot >= RECEIVES || !decode_message(wire, size, &message)) {
		connection_fail(connection, STATUS_CONTENTS_WRONG,
				"the peer sent %" PRIu32
				" bytes that are not a message of this protocol",
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
		connection->peer_verdict = message;
		connection->verdict_time = connection->now_nanoseconds;
		handle_verdict(connection, message.value);
		break;
	default:
		handle_window(connection, slot, &message.window);
	}
}

/*
 * Update the figures after a completion of the operation, if it ends a pass or the length of a pass
 * is unknown.
 */
static void measure(struct connection *connection)
{
	struct figures *figures = &connection->figures;
	uint64_t pass = transfer_pass(&connection->transfer);
	uint64_t bytes = connection->transfer.operation.completed;

	if (pass != LENGTH_UNKNOWN) {
		uint64_t since = bytes - figures->passes_bytes;

		if (since < pass)
			return;
		figures->passes_bytes += since == pass ? pass : since - since % pass;
	}
	if (figures->latency)
		latency_count(figures->latency, connection->now_nanoseconds - figures->pass_posted);
	figures->completed = connection->now_nanoseconds;
	figures->bytes = bytes;
}

double operation_rate(const struct connection *connection)
{
	const struct figures *figures = &connection->figures;
	int64_t nanoseconds = figures->completed - figures->started;

	return nanoseconds > 0 ? (double)figures->bytes * 8e9 / (double)nanoseconds : 0;
}

static void handle_operation_completion(struct connection *connection)
{
	measure(connection);
	if (connection->interval_time != INT64_MAX &&
	    transfer_outstanding(&connection->transfer) == 0 &&
	    transfer_operated(&connection->transfer))
		end_intervals(connection);
	connection->wire_time = connection->now;
	/* progress is reported and drawn when it is this old */
	connection->quiet_until =
		earlier(connection->quiet_until, connection->now + TRANSFER_MILLISECONDS);
	if (connection->protocol.local == LOCAL_DONE_POSTED && operation_completed(connection))
		end_operation(connection);
}

/* Handle the completion of a sent message. MSG_VERDICT and MSG_WINDOW print no status line. */
static void handle_message_completion(struct connection *connection, enum message_type type)
{
	static const enum event_type events[] = {
		[MSG_MR] = EVENT_MR_SENT,
		[MSG_DONE] = EVENT_DONE_SENT,
		[MSG_VERDICT] = EVENT_VERDICT_SENT,
	};

	if (type == MSG_WINDOW) {
		connection->window_outstanding = false;
		connection->quiet_until = INT64_MIN;
		return;
	}
	if (type != MSG_VERDICT)
		print_status(&connection->log, "send completed successfully.");
	connection_handle(connection, events[type], STATUS_SUCCESS);
}

/*
 * Handle a failed completion. If the status is an error, only wr_id, status, qp_num and vendor_err
 * are valid.
 */
static void handle_failed_completion(struct connection *connection, const struct ibv_wc *completion)
{
	const char *name = wr_name(completion->wr_id, connection->protocol.operation);
	bool receive = wr_kind(completion->wr_id) == WR_RECEIVE;
	enum status status = completion_status(completion);
	const char *meaning =
		status != STATUS_CONTENTS_WRONG
			? ""
			: "the peer sent something that is not a message of this protocol: ";

	if (wr_kind(completion->wr_id) == WR_OPERATION)
		connection->operation_failed = true;
	if (!receive) /* flushed receives are too many to trace */
		print_trace(&connection->log, "%s: %s", name,
			    ibv_wc_status_str(completion->status));
	if (!connection_has_broken(completion, connection->limits.iwarp))
		connection_fail(connection, status,
				"%s%s failed: %s (status %d, vendor error 0x%" PRIx32 ")", meaning,
				name, ibv_wc_status_str(completion->status), completion->status,
				completion->vendor_err);
	else if (flush_matters(&connection->protocol))
		connection_handle(connection, EVENT_FLUSHED, STATUS_SUCCESS);
}

/*
 * Return true if a MSG_DONE that failed counts as sent. The tutorial's program disconnects as soon
 * as it has this message, and soft-iWARP in Linux then reports the send as failed. Over iWARP even
 * a successful completion shows only that TCP has the message.
 */
static bool counts_as_sent(const struct connection *connection, const struct ibv_wc *completion)
{
	const struct protocol *protocol = &connection->protocol;

	return connection->limits.iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR &&
	       completion->wr_id == make_wr_id(WR_MESSAGE, MSG_DONE) && !protocol->verifying &&
	       protocol->local == LOCAL_DONE_POSTED && protocol->remote == REMOTE_DONE &&
	       !connection->operation_failed;
}

/* Count a completed or flushed work request; if it belongs to the operation, also all before it. */
static void count_completion(struct connection *connection, uint64_t wr_id)
{
	enum wr_kind kind = wr_kind(wr_id);

	if (kind == WR_OPERATION) /* requests complete in order, and not all ask for a completion */
		transfer_completed(&connection->transfer, wr_detail(wr_id), connection->now);
	else if (kind == WR_RECEIVE)
		connection->outstanding_receives--;
	else
		connection->outstanding_messages--;
}

static void handle_completion(struct connection *connection, const struct ibv_wc *completion)
{
	uint64_t detail = wr_detail(completion->wr_id);

	count_completion(connection, completion->wr_id);
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
	case WR_PROBE: /* shows at most that the peer's adapter works, not its program */
		break;
	}
}

/* ---- Notifications from the main thread ---- */

/*
 * Handle a failed establishment. Ignore it if the connection is already established: Linux since
 * 6.0 reports UNREACHABLE to a RoCE client when its host loses the peer's MAC address, even for a
 * moment. The transport's retries and the deadline decide.
 */
static void handle_not_established(struct connection *connection)
{
	const struct cm_failure *failure = &connection->establishment;

	if (connection->protocol.phase != PHASE_CONNECTING)
		return;
	if (failure->library_error) {
		connection_fail(connection, STATUS_LOCAL_FAILURE,
				"the server accepted, but this host cannot set up the connection: "
				"%s",
				strerror(failure->library_error));
		return;
	}
	connection_fail(connection,
			failure->status == -ETIMEDOUT ? STATUS_TIMED_OUT : STATUS_PEER_LOST,
			"cannot connect: %s, status %d (%s); check that the peer is up and that "
			"the network passes the packets",
			rdma_event_str(failure->type), failure->status,
			failure->status < 0 ? strerror(-failure->status) : "set by the transport");
}

static void handle_not_accepted(struct connection *connection)
{
	struct failure failure;

	accept_failed(connection->id, &connection->limits, &connection->agreement.peer,
		      connection->setup_error, &failure);
	connection_fail(connection, failure.status, "%s", failure.cause);
}

/*
 * Handle RDMA_CM_EVENT_REJECTED: the client has withdrawn its request. After ESTABLISHED, over
 * InfiniBand and RoCE, the event means that the peer's end was destroyed before it could
 * disconnect.
 */
static void handle_rejected(struct connection *connection)
{
	if (connection->protocol.connected)
		connection_handle(connection, EVENT_DISCONNECTED, STATUS_SUCCESS);
	else
		connection_fail(connection, STATUS_PEER_LOST, "%s",
				status_describe(STATUS_PEER_LOST));
}

/*
 * Return true if the peer caused the event: by an unknown or unexpected opcode, a wrong key, or
 * more READs than were agreed (InfiniBand Architecture Specification, affiliated asynchronous
 * errors).
 */
static bool is_peers_fault(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR;
}

static void handle_device_event(struct connection *connection)
{
	const struct device_event *event = &connection->device_event;

	if (connection->limits.iwarp) /* over TCP, every event means a broken connection */
		connection_handle(connection, EVENT_FLUSHED, STATUS_SUCCESS);
	else if (is_peers_fault(event->type))
		connection_fail(connection, STATUS_CONTENTS_WRONG,
				"the peer sent a request that RDMA device %s cannot accept: %s",
				event->device, ibv_event_type_str(event->type));
	else
		connection_fail(connection, STATUS_LOCAL_FAILURE, "RDMA device %s reports: %s",
				event->device, ibv_event_type_str(event->type));
}

void handle_notifications(struct connection *connection)
{
	unsigned int notifications = atomic_exchange(&connection->notifications, 0);

	if (notifications & NOTIFY_ESTABLISHED)
		connection_handle(connection, EVENT_ESTABLISHED, STATUS_SUCCESS);
	if (notifications & NOTIFY_NOT_ESTABLISHED)
		handle_not_established(connection);
	if (notifications & NOTIFY_NOT_ACCEPTED)
		handle_not_accepted(connection);
	if (notifications & NOTIFY_DEVICE_REMOVED)
		connection_fail(connection, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
	if (notifications & NOTIFY_DEVICE_EVENT)
		handle_device_event(connection);
	if (notifications & NOTIFY_REJECTED)
		handle_rejected(connection);
	if (notifications & NOTIFY_DISCONNECTED)
		connection_handle(connection, EVENT_DISCONNECTED, STATUS_SUCCESS);
	if (notifications & NOTIFY_INTERRUPTED)
		connection_handle(connection, EVENT_INTERRUPTED, STATUS_SUCCESS);
	if (notifications & NOTIFY_ABANDONED)
		connection_handle(connection, EVENT_FAILED, STATUS_LOCAL_FAILURE);
}

/* ---- Both payloads ---- */

/*
 * Fill a piece of the outgoing ring, or let the helper fill it; while closing or after giving up,
 * only discard the helper's result. Return true if there was progress.
 */
static bool fill_ring(struct connection *connection)
{
	struct failure failure; /* not initialized: clearing 512 bytes in each turn is slow */
	bool moved;

	if (transfer_source_ended(&connection->transfer))
		return false; /* a repeated operation sends the same bytes again */
	failure.status = STATUS_SUCCESS;
	if (connection->protocol.phase >= PHASE_CLOSING || connection->protocol.gave_up)
		return helper_discard(connection->outgoing.helper);
	moved = outgoing_fill(&connection->outgoing, &connection->transfer, &failure);
	if (failure.status != STATUS_SUCCESS)
		give_up(connection, &failure);
	else if (moved)
		count_progress(connection, DEBTOR_NONE, connection->now);
	return moved;
}

/* End the incoming payload, which is complete or has failed: print it, and feed the event. */
static void end_incoming(struct connection *connection, const struct failure *failure)
{
	struct incoming *incoming = &connection->incoming;
	const struct excerpt *excerpt = &incoming->verification.excerpt;
	bool good = failure->status == STATUS_SUCCESS;

	incoming->failed = !good;
	/* before the verdict, which may end the session; a failed payload only if it is complete */
	if (incoming->begun &&
	    (good || excerpt->size == connection->transfer.sink.stream.plan.length))
		print_payload(&connection->log, excerpt);
	if (good)
		connection_handle(connection, EVENT_VERIFIED, STATUS_SUCCESS);
	else if (connection->protocol.local == LOCAL_VERIFYING)
		explain_event(connection, EVENT_VERIFIED, failure->status, "%s", failure->cause);
	else
		give_up(connection, failure);
}

/* Prepare to empty the incoming ring. Return false if that failed, which ends the session. */
static bool begin_incoming(struct connection *connection)
{
	struct failure failure = { .status = STATUS_SUCCESS };

	if (incoming_begin(&connection->incoming, &connection->transfer, &failure) ==
	    STATUS_SUCCESS)
		return true;
	end_incoming(connection, &failure);
	return false;
}

/* Let a helper open the output. The session goes on; if that fails, it gives up at once. */
static void begin_output(struct connection *connection)
{
	struct failure failure;

	if (connection->transfer.sink.stream.plan.present &&
	    incoming_open(&connection->incoming, &connection->transfer,
			  &connection->engine->process, &failure) != STATUS_SUCCESS)
		end_incoming(connection, &failure);
}

/*
 * Return true if the result of opening the output may be fetched, or the incoming ring emptied.
 * After a failure, neither may. In LOCAL_VERIFYING both may, and the result also as long as the
 * session goes on. Before LOCAL_VERIFYING, the ring may be emptied only while exchanging, once the
 * operation is posted, unless this side has given up, or the ring holds the whole stream.
 */
static bool may_empty(const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;

	if (connection->incoming.failed)
		return false;
	if (protocol->local == LOCAL_VERIFYING)
		return true;
	if (connection->incoming.opening)
		return protocol->phase < PHASE_CLOSING && !protocol->gave_up;
	return protocol->phase == PHASE_EXCHANGING && !protocol->gave_up &&
	       protocol->local >= LOCAL_OPERATION_POSTED && protocol->local < LOCAL_VERIFYING &&
	       connection->transfer.sink.stream.plan.present &&
	       !connection->transfer.sink.stream.fits_ring;
}

/*
 * Return true if verification cannot save the session: a failure other than a lost peer has ended
 * it. If only the peer was lost, the whole payload may have arrived.
 */
static bool is_check_in_vain(const struct protocol *protocol)
{
	return protocol->phase == PHASE_CLOSING && protocol->result.status != STATUS_SUCCESS &&
	       protocol->result.status != STATUS_PEER_LOST;
}

/*
 * Empty a piece of the incoming ring, or continue with the current piece. Return true if there was
 * progress.
 */
static bool empty_ring(struct connection *connection)
{
	const struct result *result = &connection->protocol.result;
	bool checking = connection->protocol.local == LOCAL_VERIFYING;
	struct incoming *incoming = &connection->incoming;
	struct failure failure; /* not initialized, as in fill_ring() */

	failure.status = STATUS_SUCCESS;
	if (checking && is_check_in_vain(&connection->protocol)) {
		helper_cancel(incoming->helper); /* do not wait for a disk or a reader */
		feed(connection, EVENT_VERIFIED, result->status, result->cause);
		return true;
	}
	if (!may_empty(connection))
		return helper_discard(incoming->helper);
	if (connection->transfer.sink.stream.plan.present && !incoming->begun &&
	    !incoming->opening && !begin_incoming(connection))
		return true;
	switch (incoming_step(incoming, &connection->transfer, checking, connection->peer_digest,
			      &failure)) {
	case INCOMING_WAITS:
		return false;
	case INCOMING_MOVED:
		count_progress(connection, DEBTOR_NONE, connection->now);
		return true;
	default:
		end_incoming(connection, &failure);
		return true;
	}
}

/* ---- Clocks ---- */

/*
 * Probe the peer's adapter, unless sends are outstanding or probe_disturbs(), by a WRITE of zero
 * bytes, which needs no rkey and which the peer's program does not notice. Over InfiniBand and RoCE
 * the adapter answers; if the host is gone, the transport's retries fail, but a wait for a message
 * never would. Over iWARP a probe shows less, but soft-iWARP in Linux needs it: the server's host
 * may overlook data that the client sends just as its connect request is answered, until more data
 * arrives.
 *
 * A READ of zero bytes does not work: Soft-RoCE in Linux 6.1 checks the rkey of a repeated READ and
 * breaks the connection; soft-iWARP breaks it under load.
 */
static void probe(struct connection *connection)
{
	int64_t longest = timeout_milliseconds(connection->options) / PROBES_PER_TIMEOUT;
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WR_PROBE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int error;

	connection->probe_interval *= 2;
	if (connection->probe_interval > longest)
		connection->probe_interval = longest;
	connection->probe_time = connection->now + connection->probe_interval;
	if (outstanding_sends(connection) ||
	    probe_disturbs(&connection->protocol, connection->limits.iwarp))
		return;
	print_trace(&connection->log, "ibv_post_send: probe");
	error = post_send(connection, &request);
	if (error)
		refuse_post(connection, EVENT_SEND_REFUSED, "ibv_post_send", error);
}

/*
 * End a stream or an operation whose time is over, after the current pass. A stream ends at its
 * source; an operation that repeats the same bytes ends at the side that performs it.
 */
static void end_durations(struct connection *connection)
{
	int64_t now = connection->now;

	if (now >= connection->source_time) {
		connection->source_time = INT64_MAX;
		connection->outgoing.ending = true;
		connection->stepped = true; /* the operation may have reached its end already */
	}
	if (now >= connection->operation_time) {
		connection->operation_time = INT64_MAX;
		/* postpone an interval that is due now: the operation may end soon */
		if (connection->interval_time <= now)
			connection->interval_time += interval_length(connection);
		transfer_stop(&connection->transfer);
	}
}

static void check_exchange_clocks(struct connection *connection)
{
	end_durations(connection);
	if (connection->now >= connection->probe_time)
		probe(connection);
	if (connection->now >= connection->interval_time) {
		end_interval(connection);
		/* skip intervals that a late turn has missed */
		while (connection->interval_time <= connection->now)
			connection->interval_time += interval_length(connection);
	}
}

/* Show the progress of the operation on a terminal, if this is the only session. */
static void show_progress(const struct connection *connection)
{
	const struct transfer *transfer = &connection->transfer;
	const struct transfer_source *source = &transfer->source;
	const struct transfer_sink *sink = &transfer->sink;
	uint64_t done, all;

	if (connection->protocol.phase != PHASE_EXCHANGING ||
	    connection->protocol.local < LOCAL_OPERATION_POSTED ||
	    atomic_load(&connection->engine->connection_count) > 1)
		return;
	if (connection->protocol.operates) {
		done = transfer->operation.completed;
		all = transfer->plan.writes ? source->stream.length : sink->stream.length;
	} else {
		done = transfer->plan.writes ? sink->produced : source->consumed;
		all = transfer->plan.writes ? sink->stream.length : source->stream.length;
	}
	if (done < all)
		print_progress(&connection->log, done, all,
			       connection->now_nanoseconds - connection->figures.started);
}

/* Handle every due clock but window_time. */
static void check_clocks(struct connection *connection)
{
	if (connection->now >= connection->progress_time) {
		show_progress(connection);
		connection->progress_time = connection->now + PROGRESS_MILLISECONDS;
	}
	check_deadline(connection);
	if (connection->protocol.phase == PHASE_EXCHANGING)
		check_exchange_clocks(connection);
}

/* ---- The loop ---- */

/* Flush all posted work requests: move the queue pair to the error state. */
static void force_error(struct connection *connection)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	int error = verb_error(ibv_modify_qp(connection->id->qp, &attributes, IBV_QP_STATE));

	print_trace(&connection->log, "ibv_modify_qp to the error state: %s", strerror(error));
}

/*
 * Disconnect, even if the peer has: some providers flush the receives only after both sides have.
 * If that is not possible, force the error state.
 */
static void disconnect(struct connection *connection)
{
	if (connection->protocol.connected && !rdma_disconnect(connection->id))
		print_trace(&connection->log, "rdma_disconnect");
	else
		force_error(connection);
}

/*
 * Execute the actions that the state machine has requested; once closing has begun, post nothing.
 * Return 0 or an errno value.
 */
static int run_actions(struct connection *connection)
{
	bool exchanging = connection->protocol.phase == PHASE_EXCHANGING;
	unsigned int actions = connection->actions;
	int error = 0;

	connection->actions = 0;
	if (actions & ACTION_SEND_MR && exchanging)
		error = send_mr(connection);
	if (actions & ACTION_POST_OPERATION && exchanging)
		begin_operation(connection);
	if (actions & ACTION_SEND_DONE && exchanging && !error)
		error = send_done(connection);
	if (actions & ACTION_SEND_VERDICT && exchanging && !error)
		error = send_verdict(connection);
	if (actions & ACTION_DISCONNECT)
		disconnect(connection);
	if (actions & ACTION_FORCE_ERROR)
		force_error(connection);
	if (actions & (ACTION_DISCONNECT | ACTION_FORCE_ERROR))
		read_clock(connection); /* the calls may have taken long */
	return error;
}

/*
 * Post the work requests of the operation that are due, then MSG_WINDOW if it is due. Return 0 or
 * an errno value.
 */
static int post_what_is_due(struct connection *connection)
{
	int error = continue_operation(connection);

	return error ? error : send_window(connection);
}

/*
 * Return true if EVENT_DRAINED is due: nothing more will be posted, and every posted work request
 * has completed.
 */
static bool is_drained(const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;

	return protocol->phase == PHASE_CLOSING && !protocol->drained &&
	       !outstanding_sends(connection) && !connection->outstanding_receives;
}

/*
 * Run the requested actions, post what is due, and feed the events that the state makes due, until
 * nothing is left to do.
 */
static void advance(struct connection *connection)
{
	do {
		int error = connection->actions ? run_actions(connection) : 0;

		if (!error)
			error = post_what_is_due(connection);
		if (error)
			refuse_post(connection, EVENT_SEND_REFUSED, "ibv_post_send", error);
		else if (operation_runs(&connection->protocol) &&
			 transfer_done_due(&connection->transfer))
			connection_handle(connection, EVENT_DONE_DUE, STATUS_SUCCESS);
		if (is_drained(connection))
			connection_handle(connection, EVENT_DRAINED, STATUS_SUCCESS);
	} while (connection->actions && connection->protocol.phase < PHASE_FINISHED);
}

/*
 * Poll the completion queue for up to POLL_SIZE completions. Return their number; after an error
 * end the session, and return 0.
 */
static inline int poll_completions(struct connection *connection, struct ibv_wc *completions)
{
	int count = 0;

	if (!connection->channel_lost)
		count = ibv_poll_cq(connection->cq, POLL_SIZE, completions);
	if (count >= 0)
		return count;
	if (connection->protocol.phase < PHASE_CLOSING)
		connection_fail(connection, STATUS_LOCAL_FAILURE,
				"ibv_poll_cq failed, and the driver gives no reason");
	return 0;
}

/*
 * Handle `count` completions, and more from the queue, up to COMPLETIONS_PER_TURN in all. Post the
 * messages that a completion makes due before the next completion is handled.
 */
static void take_completions(struct connection *connection, struct ibv_wc *completions, int count)
{
	int all = 0;

	while (count > 0) {
		read_clock(connection);
		for (int i = 0; i < count; i++) {
			handle_completion(connection, &completions[i]);
			if (connection->stepped)
				advance(connection);
		}
		all += count;
		if (count < POLL_SIZE || all >= COMPLETIONS_PER_TURN)
			break;
		count = poll_completions(connection, completions);
	}
}

/*
 * End the session, because reading the completion channel failed with `error`. The kernel closes
 * the channel of a removed device, and reading it then fails with EIO.
 */
static void channel_failed(struct connection *connection, int error)
{
	connection->channel_lost = true;
	connection->ready[0].fd = -1;
	if (error == EIO)
		connection_fail(connection, STATUS_LOCAL_FAILURE, DEVICE_REMOVED);
	else
		connection_fail(connection, STATUS_LOCAL_FAILURE,
				"cannot get completion events: %s", strerror(error));
}

/*
 * Take one completion event; connection_run() acknowledges all at the end. On failure end the
 * session.
 */
static void take_event(struct connection *connection)
{
	struct ibv_cq *cq;
	void *context;

	if (!ibv_get_cq_event(connection->channel, &cq, &context)) {
		connection->unacknowledged_events++;
		connection->armed = false;
	} else if (errno != EAGAIN && errno != EINTR) {
		channel_failed(connection, errno);
	}
}

/*
 * Request an event for the next completion. The caller must then poll the queue once more, because
 * a completion may have come before. On failure end the session.
 */
static void arm(struct connection *connection)
{
	int error = verb_error(ibv_req_notify_cq(connection->cq, 0));

	connection->armed = true;
	if (error)
		connection_fail(connection, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
				strerror(error));
}

/*
 * Set `ready` to wait for the result of a busy helper, and return 1; return 0 if the helper is
 * idle.
 */
static nfds_t await_result(struct pollfd *ready, const struct helper *helper)
{
	if (!helper_busy(helper))
		return 0;
	*ready = (struct pollfd){ .fd = helper_fd(helper), .events = POLLIN };
	return 1;
}

static int milliseconds_left(const struct connection *connection)
{
	int64_t left = session_due(connection) - connection->now;

	if (left <= 0)
		return 0;
	return left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Wait at most `milliseconds` for a completion event, a notification, or a helper's result. */
static void wait_for_descriptors(struct connection *connection, int milliseconds)
{
	struct pollfd *ready = connection->ready;
	nfds_t count = 2;
	eventfd_t notified;

	if (connection->outgoing.helper)
		count += await_result(&ready[count], connection->outgoing.helper);
	if (connection->incoming.helper)
		count += await_result(&ready[count], connection->incoming.helper);
	if (poll(ready, count, milliseconds) < 0) {
		if (errno != EINTR)
			connection_fail(connection, STATUS_LOCAL_FAILURE,
					"cannot wait for completion events: %s", strerror(errno));
		return;
	}
	if (ready[0].revents)
		take_event(connection);
	if (ready[1].revents)
		eventfd_read(connection->wake, &notified);
}

/*
 * Wait until something happens or a clock is due; with --busy-poll only check the descriptors from
 * time to time. Return true if the next turn must look at everything, false if it need only poll
 * the completion queue.
 */
static bool wait_for_work(struct connection *connection)
{
	const struct engine *engine = connection->engine;
	/* more spinning threads than processors would delay each other */
	bool spins = connection->options->busy_poll &&
		     connection->protocol.phase != PHASE_CONNECTING &&
		     atomic_load(&engine->connection_count) <= engine->processors;

	if (spins && ++connection->turns % TURNS_PER_LOOK > 0)
		return helper_busy(connection->outgoing.helper) ||
		       helper_busy(connection->incoming.helper); /* a helper may have finished */
	if (!spins && !connection->armed && !connection->channel_lost) {
		arm(connection);
		return false;
	}
	wait_for_descriptors(connection, spins ? 0 : milliseconds_left(connection));
	return true;
}

/*
 * Return true if nothing but a completion, a message or a clock can cause work: neither ring can be
 * filled or emptied, and progress is reported by its age alone. An operation that repeats the same
 * bytes, as perftest does, becomes quiet when its first pass is in the ring.
 */
static bool is_quiet(const struct connection *connection)
{
	return transfer_source_ended(&connection->transfer) && !may_empty(connection) &&
	       !helper_busy(connection->outgoing.helper) &&
	       !helper_busy(connection->incoming.helper) &&
	       transfer_reports_by_age(&connection->transfer);
}

/*
 * Move both rings, check every clock, and post what is due. Return true if a ring has moved. Set
 * quiet_until if nothing is left to do.
 */
static bool look_at_everything(struct connection *connection)
{
	bool moved = fill_ring(connection);

	moved |= empty_ring(connection);
	check_clocks(connection); /* after the arrivals, which may extend the deadline */
	advance(connection);
	if (!moved && !connection->stepped && is_quiet(connection))
		connection->quiet_until = session_due(connection);
	return moved;
}

/*
 * Run one turn with `count` polled completions: do everything that is due. Return true if more may
 * be left to do: the next turn must then follow without a wait.
 */
static bool run_turn(struct connection *connection, struct ibv_wc *completions, int count)
{
	if (count > 0)
		take_completions(connection, completions, count);
	else
		read_clock(connection);
	if (atomic_load(&connection->notifications))
		handle_notifications(connection);
	connection->stepped = false;
	if (connection->now < connection->quiet_until) {
		advance(connection);
		return false;
	}
	connection->quiet_until = INT64_MIN;
	return look_at_everything(connection);
}

static void run_session(struct connection *connection)
{
	struct ibv_wc completions[POLL_SIZE];
	bool look = true; /* look at everything in the next turn: more may be due */

	connection->ready[0] = (struct pollfd){ .fd = connection->channel->fd, .events = POLLIN };
	connection->ready[1] = (struct pollfd){ .fd = connection->wake, .events = POLLIN };
	read_clock(connection);
	begin_wait(connection, connection->now);
	begin_output(connection);
	/* fill the ring before MSG_MR announces it, as far as that needs no helper */
	while (fill_ring(connection))
		;
	while (connection->protocol.phase < PHASE_FINISHED) {
		int count = poll_completions(connection, completions);

		if (count > 0 || look || connection->stepped ||
		    atomic_load(&connection->notifications))
			look = run_turn(connection, completions, count);
		else
			look = wait_for_work(connection);
	}
}

void *connection_run(void *argument)
{
	struct connection *connection = argument;

	run_session(connection);
	connection->helpers_left += !outgoing_release(&connection->outgoing);
	connection->helpers_left += !incoming_release(&connection->incoming);
	ibv_ack_cq_events(connection->cq, connection->unacknowledged_events);
	process_notify_exit(&connection->engine->process, connection);
	return NULL;
}
