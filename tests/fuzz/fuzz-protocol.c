// SPDX-License-Identifier: MIT
/*
 * Any events in any order: the first byte says what kind of session it is, each of the others is an
 * event. What must hold after each of them is written here once more, in other words than in the
 * state machine.
 */
#include "rdma-common.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define POSTING_ACTIONS \
	(ACTION_SEND_MR | ACTION_POST_OPERATION | ACTION_SEND_DONE | ACTION_SEND_VERDICT)

/* Every event, with each status that makes a difference. */
static const struct event events[] = {
	{ EVENT_ESTABLISHED, STATUS_SUCCESS },
	{ EVENT_MR_RECEIVED, STATUS_SUCCESS },
	{ EVENT_DONE_RECEIVED, STATUS_SUCCESS },
	{ EVENT_VERDICT_RECEIVED, STATUS_SUCCESS },
	{ EVENT_VERDICT_RECEIVED, STATUS_CONTENTS_WRONG },
	{ EVENT_MR_SENT, STATUS_SUCCESS },
	{ EVENT_OPERATION_COMPLETED, STATUS_SUCCESS },
	{ EVENT_DONE_SENT, STATUS_SUCCESS },
	{ EVENT_VERDICT_SENT, STATUS_SUCCESS },
	{ EVENT_CHECKED, STATUS_SUCCESS },
	{ EVENT_CHECKED, STATUS_CONTENTS_WRONG },
	{ EVENT_FAILED, STATUS_LOCAL_FAILURE },
	{ EVENT_FAILED, STATUS_UNRESOLVED },
	{ EVENT_FAILED, STATUS_REFUSED },
	{ EVENT_FAILED, STATUS_TIMED_OUT },
	{ EVENT_FAILED, STATUS_PEER_LOST },
	{ EVENT_FAILED, STATUS_CONTENTS_WRONG },
	{ EVENT_FLUSHED, STATUS_SUCCESS },
	{ EVENT_DISCONNECTED, STATUS_SUCCESS },
	{ EVENT_DRAINED, STATUS_SUCCESS },
	{ EVENT_DEADLINE, STATUS_SUCCESS },
	{ EVENT_INTERRUPTED, STATUS_SUCCESS },
	{ EVENT_PEER_GAVE_UP, STATUS_CONTENTS_WRONG },
	{ EVENT_PEER_GAVE_UP, STATUS_REFUSED },
	{ EVENT_GAVE_UP, STATUS_LOCAL_FAILURE },
};

/* Observations of a session from outside. */
struct witness {
	unsigned int posted; /* enum action, or-ed */
	bool asked;          /* ACTION_CHECK, and no answer yet */
	bool checked, check_good;
	bool judged, verdict_good;
	unsigned int deadlines; /* in a row */
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

/*
 * MSG_DONE is posted behind a WRITE, which it cannot overtake, or when a READ has completed. The
 * operation of a side that does not operate is nothing, and completes as well.
 */
static void watch_done(struct event event, const struct step *step)
{
	bool operation = step->actions & ACTION_POST_OPERATION;
	bool done = step->actions & ACTION_SEND_DONE;

	if (operation) {
		require(step->protocol.remote >= REMOTE_MR);
		require(event.type == EVENT_MR_SENT || event.type == EVENT_MR_RECEIVED);
	}
	if (done)
		require(operation || event.type == EVENT_OPERATION_COMPLETED);
}

/*
 * Posts come once each, in this order, and only while the connection stands. Whoever gives up sends
 * its verdict at once, and nothing behind it.
 */
static void watch_posts(struct witness *witness, const struct protocol *before,
			const struct step *step)
{
	static const unsigned int order[] = { ACTION_SEND_MR, ACTION_POST_OPERATION,
					      ACTION_SEND_DONE, ACTION_SEND_VERDICT };
	unsigned int earlier = 0;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (step->actions & order[i]) {
			bool early = order[i] == ACTION_SEND_VERDICT && step->protocol.gave_up;

			require(!(witness->posted & (order[i] | ACTION_SEND_VERDICT)));
			require(early ? witness->posted & ACTION_SEND_MR
				      : (witness->posted & earlier) == earlier);
			witness->posted |= order[i];
		}
		if (order[i] != ACTION_POST_OPERATION || before->operates)
			earlier |= order[i];
	}
	if (step->actions & POSTING_ACTIONS) {
		require(step->protocol.phase == PHASE_EXCHANGING);
		require(before->phase <= PHASE_EXCHANGING);
		require(!(step->actions & (ACTION_DISCONNECT | ACTION_FINISH)));
	}
}

/*
 * A message counts only if this side has posted what the peer needs to send it. One that does not
 * count is not forgotten because the peer has gone.
 */
static void watch_messages(const struct witness *witness, const struct protocol *before,
			   struct event event, const struct protocol *after)
{
	if (event.type >= EVENT_MR_RECEIVED && event.type <= EVENT_VERDICT_RECEIVED &&
	    before->phase != PHASE_FINISHED && after->remote == before->remote)
		require(after->status != STATUS_PEER_LOST);
	if (after->remote >= REMOTE_MR)
		require(after->role == ROLE_SERVER || witness->posted & ACTION_SEND_MR);
	if (after->remote == REMOTE_DONE || after->remote == REMOTE_VERDICT)
		require(witness->posted & ACTION_SEND_MR);
	if (after->remote >= REMOTE_VERDICT)
		require(after->verifying);
	if (after->remote >= REMOTE_VERDICT && before->remote < REMOTE_VERDICT)
		require(event.type == EVENT_PEER_GAVE_UP || before->gave_up ||
			witness->posted & ACTION_SEND_DONE);
}

/* Watches this side's findings and the peer's first verdict: the bases of success. */
static void watch_findings(struct witness *witness, const struct protocol *before,
			   struct event event)
{
	if (before->phase == PHASE_FINISHED)
		return;
	if (event.type == EVENT_CHECKED && witness->asked && !witness->checked) {
		witness->checked = true;
		witness->check_good = event.status == STATUS_SUCCESS;
	}
	if (event.type == EVENT_VERDICT_RECEIVED && before->remote == REMOTE_DONE &&
	    !witness->judged) {
		witness->judged = true;
		witness->verdict_good = event.status == STATUS_SUCCESS;
	}
}

static void watch_phases(const struct protocol *before, const struct step *step)
{
	const struct protocol *after = &step->protocol;

	require(after->role == before->role && after->operation == before->operation &&
		after->verifying == before->verifying && after->operates == before->operates);
	require(after->phase >= before->phase && after->local >= before->local &&
		after->remote >= before->remote);
	require(after->connected >= before->connected &&
		after->disconnected >= before->disconnected && after->drained >= before->drained &&
		after->overdue >= before->overdue);
	if (before->phase == PHASE_FINISHED)
		require(step->actions == 0 && after->status == before->status);
	else
		require(!(step->actions & ACTION_FINISH) == (after->phase != PHASE_FINISHED));
	require(!(step->actions & ACTION_DISCONNECT) ==
		!(before->phase < PHASE_CLOSING && after->phase >= PHASE_CLOSING));
	if (before->phase == PHASE_CLOSING && before->status != STATUS_PEER_LOST)
		require(after->status == before->status);
	if (step->actions & ACTION_FORCE_ERROR)
		require(before->phase == PHASE_CLOSING && after->phase == PHASE_CLOSING);
}

static void watch_outcome(const struct witness *witness, const struct protocol *after)
{
	if (after->phase != PHASE_FINISHED || after->status != STATUS_SUCCESS)
		return;
	require(!after->gave_up);
	require(witness->checked && witness->check_good);
	if (after->verifying)
		require(witness->judged && witness->verdict_good);
	else
		require(after->disconnected);
}

static void watch(struct witness *witness, const struct protocol *before, struct event event,
		  const struct step *step)
{
	watch_phases(before, step);
	watch_done(event, step);
	watch_posts(witness, before, step);
	watch_messages(witness, before, event, &step->protocol);
	watch_findings(witness, before, event);
	watch_outcome(witness, &step->protocol);
	if (step->actions & ACTION_CHECK)
		witness->asked = true;
	witness->deadlines = event.type == EVENT_DEADLINE ? witness->deadlines + 1 : 0;
	if (witness->deadlines >= 3)
		require(step->protocol.phase == PHASE_FINISHED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct witness witness;
	struct protocol protocol;

	if (size == 0)
		return 0;
	memset(&witness, 0, sizeof(witness));
	protocol = protocol_start(data[0] & 1 ? ROLE_SERVER : ROLE_CLIENT,
				  data[0] & 2 ? OPERATION_WRITE : OPERATION_READ);
	protocol.verifying = data[0] & 4;
	protocol.operates = !(data[0] & 8);
	for (size_t i = 1; i < size; i++) {
		struct event event = events[data[i] % (sizeof(events) / sizeof(events[0]))];
		struct step step = protocol_step(protocol, event);

		watch(&witness, &protocol, event, &step);
		protocol = step.protocol;
	}
	return 0;
}
