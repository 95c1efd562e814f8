// SPDX-License-Identifier: MIT
#include "protocol.h"

/* ---- Names ---- */

#define NAME(value) [value] = #value

const char *event_name(enum event_type type)
{
	static const char *const names[] = {
		NAME(EVENT_ESTABLISHED),   NAME(EVENT_MR_RECEIVED),
		NAME(EVENT_DONE_RECEIVED), NAME(EVENT_VERDICT_RECEIVED),
		NAME(EVENT_PEER_GAVE_UP),  NAME(EVENT_MR_SENT),
		NAME(EVENT_DONE_DUE),      NAME(EVENT_DONE_SENT),
		NAME(EVENT_VERDICT_SENT),  NAME(EVENT_VERIFIED),
		NAME(EVENT_GAVE_UP),       NAME(EVENT_FAILED),
		NAME(EVENT_SEND_REFUSED),  NAME(EVENT_RECEIVE_REFUSED),
		NAME(EVENT_FLUSHED),       NAME(EVENT_DISCONNECTED),
		NAME(EVENT_DRAINED),       NAME(EVENT_DEADLINE)
	};

	return names[type];
}

const char *phase_name(enum phase phase)
{
	static const char *const names[] = { NAME(PHASE_CONNECTING), NAME(PHASE_EXCHANGING),
					     NAME(PHASE_CLOSING), NAME(PHASE_FINISHED) };

	return names[phase];
}

const char *local_stage_name(enum local_stage local)
{
	static const char *const names[] = {
		NAME(LOCAL_IDLE),           NAME(LOCAL_MR_POSTED),
		NAME(LOCAL_MR_SENT),        NAME(LOCAL_OPERATION_POSTED),
		NAME(LOCAL_DONE_POSTED),    NAME(LOCAL_DONE_SENT),
		NAME(LOCAL_VERIFYING),      NAME(LOCAL_VERIFIED),
		NAME(LOCAL_VERDICT_POSTED), NAME(LOCAL_VERDICT_SENT)
	};

	return names[local];
}

const char *remote_stage_name(enum remote_stage remote)
{
	static const char *const names[] = { NAME(REMOTE_SILENT), NAME(REMOTE_MR),
					     NAME(REMOTE_DONE), NAME(REMOTE_VERDICT),
					     NAME(REMOTE_GAVE_UP) };

	return names[remote];
}

bool window_may_be_sent(const struct protocol *protocol)
{
	bool confirms = !protocol->gave_up && protocol->remote < REMOTE_VERDICT;

	return protocol->phase == PHASE_EXCHANGING && protocol->local >= LOCAL_MR_POSTED &&
	       (protocol->local < LOCAL_VERIFIED || confirms);
}

bool window_may_come(const struct protocol *protocol)
{
	return protocol->verifying && protocol->remote >= REMOTE_MR &&
	       protocol->remote <= REMOTE_VERDICT;
}

bool verification_ended(const struct protocol *protocol)
{
	return protocol->local >= LOCAL_VERIFIED && !protocol->gave_up;
}

bool digest_matched(const struct protocol *protocol)
{
	return verification_ended(protocol) && protocol->verifying &&
	       protocol->own_verdict.status == STATUS_SUCCESS;
}

/*
 * A keepalive could break the session once the peer may have left. Over InfiniBand and RoCE the
 * peer may leave when its last message has arrived here. Over iWARP it may leave when it has this
 * side's last message. TCP may then still retransmit the peer's last message, and a keepalive that
 * finds no queue pair would break the connection.
 *
 * Also, over iWARP a server must not send before its client (RFC 5044, section 7.1.2). If a lost
 * reply to the connect request is sent again together with a keepalive, the client gives up.
 */
bool keepalive_disturbs(const struct protocol *protocol, bool iwarp)
{
	bool all_sent =
		protocol->local >= (protocol->verifying ? LOCAL_VERDICT_SENT : LOCAL_DONE_SENT);
	bool too_early =
		iwarp && protocol->role == ROLE_SERVER && protocol->remote == REMOTE_SILENT;

	return too_early || (all_sent && (iwarp || protocol->remote == REMOTE_VERDICT));
}

/* ---- The state machine of a session ---- */

struct protocol protocol_start(enum role role)
{
	return (struct protocol){ .role = role, .phase = PHASE_CONNECTING };
}

bool needs_cause(const struct protocol *protocol, unsigned int cause)
{
	return cause == protocol->post_cause || cause == protocol->own_verdict.cause ||
	       cause == protocol->peer_verdict.cause || cause == protocol->result.cause;
}

/* Return the result that is certain so far, or STATUS_PEER_LOST if none is certain. */
static struct result conclusion(const struct protocol *protocol)
{
	bool checked = protocol->gave_up || protocol->local >= LOCAL_VERIFIED;

	if (checked && protocol->own_verdict.status != STATUS_SUCCESS)
		return protocol->own_verdict;
	if (protocol->remote >= REMOTE_VERDICT && protocol->peer_verdict.status != STATUS_SUCCESS)
		return protocol->peer_verdict;
	if (protocol->local >= LOCAL_VERIFIED &&
	    (protocol->verifying ? protocol->remote == REMOTE_VERDICT : protocol->disconnected))
		return (struct result){ STATUS_SUCCESS, 0 };
	return (struct result){ STATUS_PEER_LOST, 0 };
}

/* Return true while a refused post has no explanation. The wait ends at the first deadline. */
static bool waits_for_explanation(const struct protocol *protocol)
{
	return protocol->phase == PHASE_CLOSING && protocol->post_failed && !protocol->overdue;
}

bool flush_matters(const struct protocol *protocol)
{
	return protocol->phase == PHASE_EXCHANGING || protocol->lingers ||
	       waits_for_explanation(protocol);
}

/*
 * Return true if `status` counts as the reason to close. The first reason counts. Later only
 * STATUS_PEER_LOST is replaced:
 * - by STATUS_CONTENTS_WRONG, because a late completion may show that the peer broke the protocol
 * - by any status while a refused post has no explanation
 */
static bool counts_as_reason(const struct protocol *protocol, enum status status)
{
	if (protocol->phase < PHASE_CLOSING)
		return true;
	return protocol->result.status == STATUS_PEER_LOST &&
	       (status == STATUS_CONTENTS_WRONG || waits_for_explanation(protocol));
}

/*
 * Begin to close, if `reason` counts: disconnect, and post nothing more. A result that is certain
 * (conclusion()) outranks the reason. But if the peer broke the protocol, only success and this
 * side's own reason to give up outrank STATUS_CONTENTS_WRONG.
 */
static void begin_closing(struct step *step, struct result reason)
{
	struct protocol *protocol = &step->protocol;
	struct result found = conclusion(protocol);
	bool breaks = reason.status == STATUS_CONTENTS_WRONG && found.status != STATUS_SUCCESS &&
		      !protocol->gave_up;

	if (!counts_as_reason(protocol, reason.status))
		return;
	protocol->result = found.status == STATUS_PEER_LOST || breaks ? reason : found;
	if (protocol->phase < PHASE_CLOSING)
		step->actions |= ACTION_DISCONNECT;
	protocol->phase = PHASE_CLOSING;
}

/* Begin to close for a reason that no text explains. */
static void close_with(struct step *step, enum status status)
{
	begin_closing(step, (struct result){ status, 0 });
}

/* Enter the exchange. A message may overtake ESTABLISHED, so either may come first. */
static void establish(struct protocol *protocol)
{
	if (protocol->phase != PHASE_CONNECTING)
		return;
	protocol->phase = PHASE_EXCHANGING;
	protocol->connected = true;
}

/* Accept a message that the peer may send now. Any other message breaks the protocol. */
static void receive(struct step *step, enum remote_stage message)
{
	struct protocol *protocol = &step->protocol;
	bool may_come; /* this side has posted everything that must precede the message */

	switch (message) {
	case REMOTE_MR: /* over iWARP the client must send first */
		may_come = protocol->role == ROLE_SERVER || protocol->local >= LOCAL_MR_POSTED;
		break;
	case REMOTE_DONE:
		may_come = protocol->local >= LOCAL_MR_POSTED;
		break;
	default: /* a verdict follows this side's MSG_DONE */
		may_come = protocol->verifying && protocol->done_posted;
	}
	if (message != protocol->remote + 1 || !may_come) {
		close_with(step, STATUS_CONTENTS_WRONG);
		return;
	}
	establish(protocol);
	protocol->remote = message;
}

static void post_done(struct step *step)
{
	step->protocol.local = LOCAL_DONE_POSTED;
	step->protocol.done_posted = true;
	step->actions |= ACTION_SEND_DONE;
}

/*
 * Record that a message has completed: go from stage `before` to `after`. In another stage this is
 * a failure, unless this side gave up.
 */
static void complete(struct step *step, enum local_stage before, enum local_stage after)
{
	if (step->protocol.local == before)
		step->protocol.local = after;
	else if (!step->protocol.gave_up)
		close_with(step, STATUS_LOCAL_FAILURE);
}

static void receive_verdict(struct step *step, struct result verdict)
{
	if (step->protocol.remote < REMOTE_VERDICT) /* the first verdict counts */
		step->protocol.peer_verdict = verdict;
	receive(step, REMOTE_VERDICT);
}

/*
 * Record a bad verdict that followed MSG_MR or MSG_DONE, and begin to close: the peer waits for
 * this side to disconnect.
 */
static void receive_early_verdict(struct step *step, struct result verdict)
{
	struct protocol *protocol = &step->protocol;

	if (!protocol->verifying ||
	    (protocol->remote != REMOTE_MR && protocol->remote != REMOTE_DONE)) {
		close_with(step, STATUS_CONTENTS_WRONG);
		return;
	}
	protocol->remote = REMOTE_GAVE_UP;
	protocol->peer_verdict = verdict;
	begin_closing(step, verdict);
}

/*
 * Give up a payload that this side cannot read, verify or store. Send a bad verdict as soon as
 * possible, and let the peer disconnect. Without verdicts, disconnect. A verified payload cannot be
 * given up.
 */
static void fail_payload(struct step *step, struct result reason)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->gave_up || protocol->local >= LOCAL_VERIFIED)
		return;
	protocol->gave_up = true;
	protocol->own_verdict = reason;
	if (!protocol->verifying)
		begin_closing(step, reason);
}

/* End the verification. Its result is `verdict`, unless this side gave up. */
static void conclude_verification(struct step *step, struct result verdict)
{
	struct protocol *protocol = &step->protocol;

	protocol->local = LOCAL_VERIFIED;
	if (!protocol->gave_up)
		protocol->own_verdict = verdict;
}

/*
 * Return true if the session has a result that a refused post cannot change. Success counts only
 * once this side's verdict is sent, because the refused post may have been that verdict.
 */
static bool has_outcome(const struct protocol *protocol)
{
	enum status found = conclusion(protocol).status;

	return found != STATUS_PEER_LOST &&
	       (found != STATUS_SUCCESS || protocol->local == LOCAL_VERDICT_SENT);
}

/* Record a refused post. If no event explains the refusal, `cause` explains a local failure. */
static void note_refusal(struct protocol *protocol, unsigned int cause)
{
	protocol->post_failed = true;
	protocol->post_cause = cause;
}

/*
 * Handle a refused work request. Some providers refuse every post as soon as the kernel knows that
 * the peer has left, before the completion queue or the connection manager reports that departure.
 * So stop posting, and wait for an explanation until the deadline (explain_refusal()). Do not
 * disconnect yet: that would flush work requests, and a flush looks like the peer's departure
 * (shows_peer_left()). But a certain result needs no explanation, so disconnect at once.
 */
static void refuse_send(struct step *step, unsigned int cause)
{
	struct protocol *protocol = &step->protocol;

	note_refusal(protocol, cause);
	close_with(step, STATUS_PEER_LOST);
	if (has_outcome(protocol))
		return;
	protocol->result = (struct result){ STATUS_PEER_LOST, 0 };
	step->actions &= ~(unsigned int)ACTION_DISCONNECT;
}

/*
 * Handle the disconnection of the peer. The tutorial's program leaves as soon as it has MSG_DONE.
 * Soft-RoCE of Linux 6.12 may process the acknowledgment of that message after the disconnection,
 * and disconnecting then flushes the message. So wait until the message completes
 * (stop_lingering()). A peer of this project needs no wait: before it leaves, its verdict shows
 * that it has the message.
 */
static void lose_peer(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	protocol->disconnected = true;
	close_with(step, STATUS_PEER_LOST);
	if (protocol->verifying || protocol->local != LOCAL_DONE_POSTED || protocol->post_failed ||
	    !(step->actions & ACTION_DISCONNECT))
		return;
	protocol->lingers = true;
	step->actions &= ~(unsigned int)ACTION_DISCONNECT;
}

/* Disconnect once MSG_DONE has completed or failed, or the deadline has passed. */
static void stop_lingering(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;

	bool may_complete = protocol->local == LOCAL_DONE_POSTED && !protocol->drained &&
			    !protocol->overdue && event.type != EVENT_FLUSHED &&
			    event.type != EVENT_FAILED;

	if (!protocol->lingers || may_complete)
		return;
	protocol->lingers = false;
	step->actions |= ACTION_DISCONNECT;
}

/* Return true if `event` shows that the connection broke before this side disconnected. */
static bool shows_peer_left(struct event event)
{
	return event.type == EVENT_FLUSHED || event.type == EVENT_DISCONNECTED ||
	       (event.type == EVENT_FAILED && event.status == STATUS_PEER_LOST);
}

/*
 * Disconnect once a refused post is explained: `event` shows that the peer has left, or the session
 * has a result that needs no explanation.
 */
static void explain_refusal(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;

	if (!waits_for_explanation(protocol))
		return;
	if (!shows_peer_left(event) && protocol->result.status == STATUS_PEER_LOST &&
	    !has_outcome(protocol))
		return;
	protocol->post_failed = false;
	step->actions |= ACTION_DISCONNECT;
}

/* Return the result of a session in which a refused post stays unexplained. */
static struct result unexplained_refusal(const struct protocol *protocol)
{
	return (struct result){ STATUS_LOCAL_FAILURE, protocol->post_cause };
}

/*
 * Handle a deadline. If the session is not closing yet, begin to close. While it closes, the first
 * deadline ends the wait for an explanation, and flushes the posted work requests. The next
 * deadline finishes the session. So does the first, if there is no such wait and nothing to flush.
 */
static void expire(struct step *step, unsigned int cause)
{
	struct protocol *protocol = &step->protocol;
	bool waits = waits_for_explanation(protocol);

	if (protocol->phase < PHASE_CLOSING) {
		/* a refused receive explains the timeout: no message of the peer could arrive */
		begin_closing(step, protocol->post_failed
					    ? unexplained_refusal(protocol)
					    : (struct result){ STATUS_TIMED_OUT, cause });
	} else if (waits || (!protocol->overdue && !protocol->drained)) {
		protocol->overdue = true;
		if (waits)
			step->actions |= ACTION_DISCONNECT;
		if (!protocol->drained)
			step->actions |= ACTION_FORCE_ERROR;
	} else {
		protocol->phase = PHASE_FINISHED;
	}
}

static struct result result_of(struct event event)
{
	return (struct result){ event.status, event.cause };
}

static void record_exchange(struct step *step, struct event event)
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
		receive_verdict(step, result_of(event));
		break;
	case EVENT_PEER_GAVE_UP:
		receive_early_verdict(step, result_of(event));
		break;
	case EVENT_MR_SENT:
		complete(step, LOCAL_MR_POSTED, LOCAL_MR_SENT);
		break;
	case EVENT_DONE_DUE:
		post_done(step);
		break;
	case EVENT_DONE_SENT:
		complete(step, LOCAL_DONE_POSTED, LOCAL_DONE_SENT);
		break;
	case EVENT_VERIFIED:
		conclude_verification(step, result_of(event));
		break;
	case EVENT_VERDICT_SENT:
		complete(step, LOCAL_VERDICT_POSTED, LOCAL_VERDICT_SENT);
		break;
	default:
		break;
	}
}

/* Record the changes that an event causes directly. */
static void record(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;

	switch (event.type) {
	case EVENT_GAVE_UP:
		fail_payload(step, result_of(event));
		break;
	case EVENT_FAILED:
		begin_closing(step, result_of(event));
		break;
	case EVENT_SEND_REFUSED:
		refuse_send(step, event.cause);
		break;
	case EVENT_RECEIVE_REFUSED:
		note_refusal(protocol, event.cause);
		break;
	case EVENT_DISCONNECTED:
		lose_peer(step);
		break;
	case EVENT_FLUSHED:
		/* while connecting, an event with the reason follows */
		if (protocol->phase == PHASE_EXCHANGING)
			close_with(step, STATUS_PEER_LOST);
		break;
	case EVENT_DRAINED:
		protocol->drained = true;
		break;
	case EVENT_DEADLINE:
		expire(step, event.cause);
		break;
	default:
		record_exchange(step, event);
	}
}

/*
 * Return true if a verdict must be sent: the peer has a hello, and this side has verified, or gave
 * up between its MSG_MR and the verification.
 */
static bool verdict_is_due(const struct protocol *protocol)
{
	bool early = protocol->gave_up && protocol->local >= LOCAL_MR_POSTED &&
		     protocol->local < LOCAL_VERIFYING;

	return protocol->verifying && (early || protocol->local == LOCAL_VERIFIED);
}

static void proceed(struct step *step)
{
	struct protocol *protocol = &step->protocol;
	bool may_post = protocol->phase == PHASE_EXCHANGING;

	if (may_post && protocol->local == LOCAL_IDLE &&
	    (protocol->role == ROLE_CLIENT || protocol->remote == REMOTE_MR)) {
		protocol->local = LOCAL_MR_POSTED;
		step->actions |= ACTION_SEND_MR;
	} else if (may_post && verdict_is_due(protocol)) {
		protocol->local = LOCAL_VERDICT_POSTED;
		step->actions |= ACTION_SEND_VERDICT;
	} else if (may_post && protocol->local == LOCAL_MR_SENT && protocol->remote >= REMOTE_MR) {
		protocol->local = LOCAL_OPERATION_POSTED;
		step->actions |= ACTION_POST_OPERATION;
	} else if (protocol->local == LOCAL_DONE_SENT &&
		   (protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT)) {
		protocol->local = LOCAL_VERIFYING;
	} else if (may_post && protocol->role == ROLE_CLIENT &&
		   protocol->local == LOCAL_VERDICT_SENT && protocol->remote == REMOTE_VERDICT) {
		/* the server waits for the disconnection */
		begin_closing(step, conclusion(protocol));
	}
}

/* Return the result of a finished session whose peer seemed to be lost. */
static struct result final_result(const struct protocol *protocol)
{
	struct result found = conclusion(protocol);

	if (protocol->post_failed)
		return unexplained_refusal(protocol);
	return found.status == STATUS_PEER_LOST ? protocol->result : found;
}

/*
 * Finish when nothing is left to wait for. The loss of the peer may be the regular end, because the
 * disconnection and the last completions arrive on different channels.
 */
static void try_to_finish(struct protocol *protocol)
{
	if (protocol->phase == PHASE_CLOSING && protocol->drained &&
	    protocol->local != LOCAL_VERIFYING && !waits_for_explanation(protocol) &&
	    (protocol->disconnected || !protocol->connected))
		protocol->phase = PHASE_FINISHED;
	if (protocol->phase == PHASE_FINISHED && protocol->result.status == STATUS_PEER_LOST)
		protocol->result = final_result(protocol);
}

struct step protocol_step(struct protocol protocol, struct event event)
{
	struct step step = { .protocol = protocol };

	if (protocol.phase == PHASE_FINISHED)
		return step;
	record(&step, event);
	proceed(&step);
	explain_refusal(&step, event);
	stop_lingering(&step, event);
	try_to_finish(&step.protocol);
	return step;
}
