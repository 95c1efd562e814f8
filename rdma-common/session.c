// SPDX-License-Identifier: MIT
#include "session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

/*
 * Time that a connection may take to close after a failure, a missed deadline or the peer's
 * disconnection.
 */
#define CLOSING_MILLISECONDS 1000
/*
 * A side that waits for its own disk or pipe gives up before the peer, which cannot know the
 * reason. It gives up before --timeout ends, by --timeout divided by OWN_DELAYS_PER_TIMEOUT, plus
 * the delay of a MSG_WINDOW (TRANSFER_MILLISECONDS).
 */
#define OWN_DELAYS_PER_TIMEOUT 8

/* ---- Events ---- */

uint64_t outstanding_sends(const struct session *session)
{
	return transfer_outstanding(&session->transfer) + session->outstanding_messages;
}

bool operation_completed(const struct session *session)
{
	return session->protocol.local >= LOCAL_OPERATION_POSTED && !session->operation_failed &&
	       transfer_outstanding(&session->transfer) == 0 &&
	       transfer_done_is_due(&session->transfer);
}

/* Trace a step that has an effect. Restart the wait if the step is progress. */
static void follow_step(struct session *session, const struct protocol *before,
			enum event_type type, unsigned int actions)
{
	const struct protocol *now = &session->protocol;

	if (actions || before->phase != now->phase || before->local != now->local ||
	    before->remote != now->remote)
		print_trace(&session->setup->log, "%s: %s, %s, %s", event_name(type),
			    phase_name(now->phase), local_stage_name(now->local),
			    remote_stage_name(now->remote));
	/*
	 * Each step before closing restarts the wait. While closing, only the peer's disconnection
	 * and the first deadline do.
	 */
	if (before->phase < PHASE_CLOSING || before->overdue != now->overdue ||
	    before->disconnected != now->disconnected)
		begin_wait(session, now_milliseconds());
}

void session_feed(struct session *session, enum event_type type, enum status status,
		  unsigned int cause)
{
	const struct protocol before = session->protocol;
	const struct step step = protocol_step(before, (struct event){ type, status, cause });

	session->protocol = step.protocol;
	session->actions |= step.actions;
	session->stepped = true;
	session->clocks.quiet_until = INT64_MIN;
	follow_step(session, &before, type, step.actions);
}

void session_handle(struct session *session, enum event_type type)
{
	session_feed(session, type, STATUS_SUCCESS, 0);
}

/* ---- Events with a cause ---- */

void explain_event(struct session *session, enum event_type type, enum status status,
		   const char *format, ...)
{
	unsigned int cause = 1;
	va_list arguments;

	while (cause < CAUSES && needs_cause(&session->protocol, cause))
		cause++;
	va_start(arguments, format);
	vsnprintf(session->causes[cause - 1], CAUSE_SIZE, format, arguments);
	va_end(arguments);
	session_feed(session, type, status, cause);
}

void feed_failure(struct session *session, enum event_type type, const struct failure *failure)
{
	explain_event(session, type, failure->status, "%s", failure->cause);
}

struct failure session_result(const struct session *session)
{
	const struct result *result = &session->protocol.result;
	struct failure failure;

	failure_set(&failure, result->status, "%s",
		    result->cause > 0 ? session->causes[result->cause - 1]
				      : status_describe(result->status));
	return failure;
}

void feed_refused_post(struct session *session, enum event_type event, const char *verb, int error)
{
	print_trace(&session->setup->log, "%s failed: %s", verb, strerror(error));
	explain_event(session, event, STATUS_SUCCESS, "%s failed: %s", verb, strerror(error));
}

/* ---- When --timeout expires ---- */

/*
 * A session fails after a wait of --timeout. These events restart the wait:
 * - Each step of the state machine until closing.
 * - A MSG_WINDOW that reports progress.
 * - A completion of this side's operation, unless the peer's program owes something. The peer's
 *   adapter completes requests even if the program is stopped.
 * - A piece that this side fills, copies or stores, unless the peer or the wire owes something.
 *
 * A side that waits only for its own disk or pipe gives up earlier (OWN_DELAYS_PER_TIMEOUT) and
 * reports that reason, before the peer's wait ends.
 *
 * Closing may take CLOSING_MILLISECONDS, or --timeout after success. It may take
 * CLOSING_MILLISECONDS again after the peer's disconnection, and after the queue pair was forced
 * into the error state. expire() in protocol.c has the consequence of each deadline.
 */

void begin_wait(struct session *session, int64_t now)
{
	const struct protocol *protocol = &session->protocol;
	int64_t timeout = timeout_milliseconds(&session->setup->options);

	if (protocol->phase == PHASE_CLOSING && timeout > CLOSING_MILLISECONDS &&
	    (protocol->result.status != STATUS_SUCCESS || protocol->overdue ||
	     protocol->disconnected))
		timeout = CLOSING_MILLISECONDS;
	session->clocks.deadline = now + timeout;
	session->clocks.wire_time = 0;
	session->clocks.keepalive_interval = KEEPALIVE_MILLISECONDS;
	session->clocks.keepalive_time = now + session->clocks.keepalive_interval;
}

void count_progress(struct session *session, enum debtor mover, int64_t time)
{
	if (transfer_debtor(&session->transfer) <= mover)
		begin_wait(session, time);
}

void count_wire_progress(struct session *session)
{
	if (session->clocks.wire_time > 0)
		count_progress(session, DEBTOR_WIRE, session->clocks.wire_time);
	session->clocks.wire_time = 0;
}

/*
 * Return the deadline of a wait for this side's own disk or pipe. Without a helper it is the usual
 * deadline.
 */
static int64_t own_deadline(const struct session *session)
{
	if (!session->outgoing.helper && !session->incoming.helper)
		return session->clocks.deadline;
	return session->clocks.deadline - TRANSFER_MILLISECONDS -
	       timeout_milliseconds(&session->setup->options) / OWN_DELAYS_PER_TIMEOUT;
}

/*
 * Return the beginning of the cause if the session waits only for this side's own disk or pipe,
 * else NULL. The string is static.
 */
static const char *own_delay(const struct session *session)
{
	const struct protocol *protocol = &session->protocol;
	bool sends = protocol->local == LOCAL_OPERATION_POSTED;
	struct piece piece;

	if (protocol->phase != PHASE_EXCHANGING)
		return NULL;
	if (protocol->local == LOCAL_VERIFYING)
		return "received everything, but storing it made no progress";
	if ((!sends && protocol->local != LOCAL_DONE_SENT) ||
	    transfer_debtor(&session->transfer) != DEBTOR_NONE)
		return NULL;
	if (session->incoming.unstored > 0 || (!session->transfer.sink.stream.fits_ring &&
					       transfer_next_copy(&session->transfer, &piece)))
		return "storing the incoming payload made no progress";
	return sends && helper_busy(session->outgoing.helper)
		       ? "the source of the outgoing payload delivered no data"
		       : NULL;
}

enum status explain_timeout(const struct options *options, struct failure *failure)
{
	return failure_set(failure, STATUS_TIMED_OUT,
			   "no progress for %u s (--timeout): check that the peer is running",
			   options->timeout_seconds);
}

void enforce_deadline(struct session *session)
{
	const char *delay;
	struct failure failure;

	count_wire_progress(session);
	if (session->clocks.now < own_deadline(session))
		return;
	delay = own_delay(session);
	if (!delay && session->clocks.now < session->clocks.deadline)
		return;
	if (!delay) {
		explain_timeout(&session->setup->options, &failure);
		feed_failure(session, EVENT_DEADLINE, &failure);
		return;
	}
	failure_set(&failure, STATUS_TIMED_OUT,
		    "%s for most of the %u s of --timeout: check the disk, or the program at the "
		    "other end of the pipe",
		    delay, session->setup->options.timeout_seconds);
	feed_failure(session,
		     session->protocol.local == LOCAL_VERIFYING ? EVENT_FAILED : EVENT_GAVE_UP,
		     &failure);
}

/* ---- The next clock ---- */

int64_t session_due(struct session *session)
{
	int64_t due = session->clocks.deadline, own;

	if (session->clocks.now < session->clocks.quiet_until)
		return session->clocks.quiet_until;
	own = own_deadline(session);
	if (own > session->clocks.now) /* if `own` has passed, this side waits for the peer */
		due = earlier(due, own);
	if (session->protocol.phase == PHASE_EXCHANGING) {
		due = earlier(due, session->clocks.keepalive_time);
		due = earlier(due,
			      earlier(session->clocks.operation_end, session->clocks.source_end));
		due = earlier(due, session->measurement.interval.end);
	}
	if (!window_is_allowed(session))
		return due;
	return earlier(due, transfer_window_time(&session->transfer, session->clocks.now));
}
