// SPDX-License-Identifier: MIT
/*
 * The state machine of a session against a table: from every state that a session can be in, every
 * event leads where the table and the rules below it state. Then single sessions as a user would
 * describe them.
 *
 * The states are found by following the table from the start, not by asking the code that is
 * tested.
 */
#include "rdma-common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ENTRIES(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The table: what the right event does, while the connection stands ---- */

/*
 * `who`: c, the client; s, the server; v, with a peer that verifies; l, with one that does not (the
 * tutorial's program); a, where MSG_DONE follows the operation at once, a WRITE; w, where it waits
 * until nothing is left of the operation, a READ, or none at all. At least one letter of each group
 * stands there.
 */
struct row {
	const char *who;
	enum local_stage local;
	enum remote_stage remote;
	enum event_type event;
	enum local_stage next_local;
	enum remote_stage next_remote;
	unsigned int actions;
};

#define OPERATE (ACTION_POST_OPERATION | ACTION_SEND_DONE)

/* clang-format off */
static const struct row rows[] = {
/* who       this side                  the peer         event                      this side then             the peer then    actions */
/* MSG_MR first: from the client when it is connected, from the server when it has the client's. */
{ "csvla",   LOCAL_MR_POSTED,           REMOTE_MR,       EVENT_MR_SENT,             LOCAL_OPERATION_POSTED,    REMOTE_MR,       OPERATE },
{ "csvlw",   LOCAL_MR_POSTED,           REMOTE_MR,       EVENT_MR_SENT,             LOCAL_OPERATION_POSTED,    REMOTE_MR,       ACTION_POST_OPERATION },
{ "cvlaw",   LOCAL_MR_POSTED,           REMOTE_SILENT,   EVENT_MR_SENT,             LOCAL_MR_SENT,             REMOTE_SILENT,   0 },
{ "cvlaw",   LOCAL_MR_POSTED,           REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_MR_POSTED,           REMOTE_MR,       0 },
{ "cvla",    LOCAL_MR_SENT,             REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_OPERATION_POSTED,    REMOTE_MR,       OPERATE },
{ "cvlw",    LOCAL_MR_SENT,             REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_OPERATION_POSTED,    REMOTE_MR,       ACTION_POST_OPERATION },
{ "svlaw",   LOCAL_IDLE,                REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_MR_POSTED,           REMOTE_MR,       ACTION_SEND_MR },
/* The peer may be done before this side knows that its own MSG_MR has left. */
{ "csvlaw",  LOCAL_MR_POSTED,           REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_MR_POSTED,           REMOTE_DONE,     0 },
{ "csvla",   LOCAL_MR_POSTED,           REMOTE_DONE,     EVENT_MR_SENT,             LOCAL_OPERATION_POSTED,    REMOTE_DONE,     OPERATE },
{ "csvlw",   LOCAL_MR_POSTED,           REMOTE_DONE,     EVENT_MR_SENT,             LOCAL_OPERATION_POSTED,    REMOTE_DONE,     ACTION_POST_OPERATION },
/* Own completions come one by one, whatever the peer has sent meanwhile: a verdict only after MSG_DONE. */
{ "csvla",   LOCAL_OPERATION_POSTED,    REMOTE_MR,       EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_MR,       0 },
{ "csvlw",   LOCAL_OPERATION_POSTED,    REMOTE_MR,       EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_MR,       ACTION_SEND_DONE },
{ "csvla",   LOCAL_OPERATION_POSTED,    REMOTE_DONE,     EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_DONE,     0 },
{ "csvlw",   LOCAL_OPERATION_POSTED,    REMOTE_DONE,     EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_DONE,     ACTION_SEND_DONE },
{ "csva",    LOCAL_OPERATION_POSTED,    REMOTE_VERDICT,  EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_VERDICT,  0 },
{ "csvlaw",  LOCAL_OPERATION_POSTED,    REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_OPERATION_POSTED,    REMOTE_DONE,     0 },
{ "csvlaw",  LOCAL_DONE_POSTED,         REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_DONE_POSTED,         REMOTE_DONE,     0 },
/* Both have their payload: it is checked. */
{ "csvlaw",  LOCAL_DONE_POSTED,         REMOTE_MR,       EVENT_DONE_SENT,           LOCAL_DONE_SENT,           REMOTE_MR,       0 },
{ "csvlaw",  LOCAL_DONE_POSTED,         REMOTE_DONE,     EVENT_DONE_SENT,           LOCAL_CHECKING,          REMOTE_DONE,     ACTION_CHECK },
{ "csvaw",   LOCAL_DONE_POSTED,         REMOTE_VERDICT,  EVENT_DONE_SENT,           LOCAL_CHECKING,          REMOTE_VERDICT,  ACTION_CHECK },
{ "csvlaw",  LOCAL_DONE_SENT,           REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_CHECKING,          REMOTE_DONE,     ACTION_CHECK },
{ "cslaw",   LOCAL_CHECKING,            REMOTE_DONE,     EVENT_CHECKED,             LOCAL_CHECKED,             REMOTE_DONE,     0 },
{ "csvaw",   LOCAL_CHECKING,            REMOTE_DONE,     EVENT_CHECKED,             LOCAL_VERDICT_POSTED,      REMOTE_DONE,     ACTION_SEND_VERDICT },
{ "csvaw",   LOCAL_CHECKING,            REMOTE_VERDICT,  EVENT_CHECKED,             LOCAL_VERDICT_POSTED,      REMOTE_VERDICT,  ACTION_SEND_VERDICT },
/* Verdicts, in either order. The client disconnects when it has both (rule below). */
{ "csva",    LOCAL_OPERATION_POSTED,    REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_OPERATION_POSTED,    REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_DONE_POSTED,         REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_DONE_POSTED,         REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_CHECKING,            REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_CHECKING,            REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_VERDICT_POSTED,      REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_VERDICT_POSTED,      REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_VERDICT_POSTED,      REMOTE_DONE,     EVENT_VERDICT_SENT,        LOCAL_VERDICT_SENT,        REMOTE_DONE,     0 },
{ "csvaw",   LOCAL_VERDICT_POSTED,      REMOTE_VERDICT,  EVENT_VERDICT_SENT,        LOCAL_VERDICT_SENT,        REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_VERDICT_SENT,        REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_VERDICT_SENT,        REMOTE_VERDICT,  0 },
/* A side that gave up sent its verdict before all the rest, and still receives what the peer sends. */
{ "cvaw",   LOCAL_VERDICT_POSTED,      REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_VERDICT_POSTED,      REMOTE_MR,       0 },
{ "csvaw",  LOCAL_VERDICT_POSTED,      REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_VERDICT_POSTED,      REMOTE_DONE,     0 },
{ "cvaw",   LOCAL_VERDICT_SENT,        REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_VERDICT_SENT,        REMOTE_MR,       0 },
{ "csvaw",  LOCAL_VERDICT_SENT,        REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_VERDICT_SENT,        REMOTE_DONE,     0 },
{ "cvaw",   LOCAL_VERDICT_POSTED,      REMOTE_SILENT,   EVENT_VERDICT_SENT,        LOCAL_VERDICT_SENT,        REMOTE_SILENT,   0 },
{ "csvaw",  LOCAL_VERDICT_POSTED,      REMOTE_MR,       EVENT_VERDICT_SENT,        LOCAL_VERDICT_SENT,        REMOTE_MR,       0 },
};

/* Before the connection stands: a message of the client's may be the first news of it. */
static const struct row first_rows[] = {
{ "cvlaw",   LOCAL_IDLE,                REMOTE_SILENT,   EVENT_ESTABLISHED,         LOCAL_MR_POSTED,           REMOTE_SILENT,   ACTION_SEND_MR },
{ "svlaw",   LOCAL_IDLE,                REMOTE_SILENT,   EVENT_ESTABLISHED,         LOCAL_IDLE,                REMOTE_SILENT,   0 },
{ "svlaw",   LOCAL_IDLE,                REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_MR_POSTED,           REMOTE_MR,       ACTION_SEND_MR },
};

/*
 * While closing, what was under way still comes in and counts, but nothing is posted. Besides the
 * states above there are these, where the next post was not made any more.
 */
static const struct row late_rows[] = {
{ "svlaw",   LOCAL_IDLE,                REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_IDLE,                REMOTE_MR,       0 },
{ "cvlaw",   LOCAL_MR_SENT,             REMOTE_SILENT,   EVENT_MR_RECEIVED,         LOCAL_MR_SENT,             REMOTE_MR,       0 },
{ "csvlaw",  LOCAL_MR_POSTED,           REMOTE_MR,       EVENT_MR_SENT,             LOCAL_MR_SENT,             REMOTE_MR,       0 },
{ "csvlaw",  LOCAL_MR_POSTED,           REMOTE_DONE,     EVENT_MR_SENT,             LOCAL_MR_SENT,             REMOTE_DONE,     0 },
{ "csvlaw",  LOCAL_MR_SENT,             REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_MR_SENT,             REMOTE_DONE,     0 },
{ "csvlw",   LOCAL_OPERATION_POSTED,    REMOTE_MR,       EVENT_OPERATION_COMPLETED, LOCAL_OPERATION_COMPLETED, REMOTE_MR,       0 },
{ "csvlw",   LOCAL_OPERATION_POSTED,    REMOTE_DONE,     EVENT_OPERATION_COMPLETED, LOCAL_OPERATION_COMPLETED, REMOTE_DONE,     0 },
{ "csvlw",   LOCAL_OPERATION_COMPLETED, REMOTE_MR,       EVENT_DONE_RECEIVED,       LOCAL_OPERATION_COMPLETED, REMOTE_DONE,     0 },
{ "csvaw",   LOCAL_CHECKING,            REMOTE_DONE,     EVENT_CHECKED,             LOCAL_CHECKED,             REMOTE_DONE,     0 },
{ "csvaw",   LOCAL_CHECKING,            REMOTE_VERDICT,  EVENT_CHECKED,             LOCAL_CHECKED,             REMOTE_VERDICT,  0 },
{ "csvaw",   LOCAL_CHECKED,             REMOTE_DONE,     EVENT_VERDICT_RECEIVED,    LOCAL_CHECKED,             REMOTE_VERDICT,  0 },
/* The peer gave up: what it has not announced by MSG_DONE is not checked. */
{ "csvaw",  LOCAL_MR_POSTED,           REMOTE_GAVE_UP,  EVENT_MR_SENT,             LOCAL_MR_SENT,             REMOTE_GAVE_UP,  0 },
{ "csva",   LOCAL_OPERATION_POSTED,    REMOTE_GAVE_UP,  EVENT_OPERATION_COMPLETED, LOCAL_DONE_POSTED,         REMOTE_GAVE_UP,  0 },
{ "csvw",   LOCAL_OPERATION_POSTED,    REMOTE_GAVE_UP,  EVENT_OPERATION_COMPLETED, LOCAL_OPERATION_COMPLETED, REMOTE_GAVE_UP,  0 },
{ "csvaw",  LOCAL_DONE_POSTED,         REMOTE_GAVE_UP,  EVENT_DONE_SENT,           LOCAL_DONE_SENT,           REMOTE_GAVE_UP,  0 },
{ "csvaw",  LOCAL_CHECKING,            REMOTE_GAVE_UP,  EVENT_CHECKED,             LOCAL_CHECKED,             REMOTE_GAVE_UP,  0 },
{ "csvaw",  LOCAL_VERDICT_POSTED,      REMOTE_GAVE_UP,  EVENT_VERDICT_SENT,        LOCAL_VERDICT_SENT,        REMOTE_GAVE_UP,  0 },
};

/*
 * The rules for all other events. An event that is in no row ends the session for this reason; where
 * it says IGNORED nothing happens, and PEER_LOST is looked into again: at the end, or when
 * CONTENTS_WRONG turns up. The reason of EVENT_FAILED comes with it.
 */
#define IGNORED     (-1)
#define WITH_EVENT  (-2)
static const int reasons[EVENT_TYPES] = {
	[EVENT_ESTABLISHED]         = IGNORED,
	[EVENT_MR_RECEIVED]         = STATUS_CONTENTS_WRONG, /* the peer breaks the protocol */
	[EVENT_DONE_RECEIVED]       = STATUS_CONTENTS_WRONG,
	[EVENT_VERDICT_RECEIVED]    = STATUS_CONTENTS_WRONG,
	[EVENT_PEER_GAVE_UP]        = STATUS_CONTENTS_WRONG, /* where no verdict may come */
	[EVENT_MR_SENT]             = STATUS_LOCAL_FAILURE, /* this side is confused */
	[EVENT_OPERATION_COMPLETED] = STATUS_LOCAL_FAILURE,
	[EVENT_DONE_SENT]           = STATUS_LOCAL_FAILURE,
	[EVENT_VERDICT_SENT]        = STATUS_LOCAL_FAILURE,
	[EVENT_CHECKED]             = STATUS_LOCAL_FAILURE,
	[EVENT_GAVE_UP]             = WITH_EVENT, /* where no bad verdict says it */
	[EVENT_FAILED]              = WITH_EVENT,
	[EVENT_FLUSHED]             = STATUS_PEER_LOST,
	[EVENT_DISCONNECTED]        = STATUS_PEER_LOST,
	[EVENT_DRAINED]             = IGNORED,
	[EVENT_DEADLINE]            = STATUS_TIMED_OUT,
	[EVENT_INTERRUPTED]         = STATUS_INTERRUPTED,
};
/* clang-format on */

/* Every event, with each status that makes a difference. */
static const struct event events[] = {
	{ EVENT_ESTABLISHED, STATUS_SUCCESS },
	{ EVENT_MR_RECEIVED, STATUS_SUCCESS },
	{ EVENT_DONE_RECEIVED, STATUS_SUCCESS },
	{ EVENT_VERDICT_RECEIVED, STATUS_SUCCESS },
	{ EVENT_VERDICT_RECEIVED, STATUS_CONTENTS_WRONG },
	{ EVENT_VERDICT_RECEIVED, STATUS_REFUSED },
	{ EVENT_PEER_GAVE_UP, STATUS_CONTENTS_WRONG },
	{ EVENT_PEER_GAVE_UP, STATUS_REFUSED },
	{ EVENT_MR_SENT, STATUS_SUCCESS },
	{ EVENT_OPERATION_COMPLETED, STATUS_SUCCESS },
	{ EVENT_DONE_SENT, STATUS_SUCCESS },
	{ EVENT_VERDICT_SENT, STATUS_SUCCESS },
	{ EVENT_CHECKED, STATUS_SUCCESS },
	{ EVENT_CHECKED, STATUS_CONTENTS_WRONG },
	{ EVENT_GAVE_UP, STATUS_LOCAL_FAILURE },
	{ EVENT_GAVE_UP, STATUS_CONTENTS_WRONG },
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
};

/* ---- Reading the table ---- */

static const struct row *find_row(const struct row *table, size_t size,
				  const struct protocol *protocol, enum event_type event)
{
	char role = protocol->role == ROLE_CLIENT ? 'c' : 's';
	char peer = protocol->verifying ? 'v' : 'l';
	char order = protocol->operates && protocol->operation == OPERATION_WRITE ? 'a' : 'w';

	for (size_t i = 0; i < size; i++) {
		const struct row *row = &table[i];

		if (row->local == protocol->local && row->remote == protocol->remote &&
		    row->event == event && strchr(row->who, role) && strchr(row->who, peer) &&
		    strchr(row->who, order))
			return row;
	}
	return NULL;
}

static const struct row *find(const struct protocol *protocol, enum event_type event)
{
	const struct row *late;

	if (protocol->phase == PHASE_CONNECTING)
		return find_row(first_rows, ENTRIES(first_rows), protocol, event);
	if (protocol->phase == PHASE_EXCHANGING)
		return find_row(rows, ENTRIES(rows), protocol, event);
	late = find_row(late_rows, ENTRIES(late_rows), protocol, event);
	return late ? late : find_row(rows, ENTRIES(rows), protocol, event);
}

/*
 * Both directions are known to be good. The tutorial's program shows it only by disconnecting,
 * which it does when it has all.
 */
static bool verified(const struct protocol *protocol)
{
	if (protocol->gave_up || protocol->local < LOCAL_CHECKED ||
	    protocol->check != STATUS_SUCCESS)
		return false;
	if (protocol->verifying)
		return protocol->remote == REMOTE_VERDICT && protocol->verdict == STATUS_SUCCESS;
	return protocol->disconnected;
}

/* What one of the sides has found wrong, this side first; success: nothing so far. */
static enum status finding(const struct protocol *protocol)
{
	if (protocol->gave_up ||
	    (protocol->local >= LOCAL_CHECKED && protocol->check != STATUS_SUCCESS))
		return protocol->check;
	return protocol->remote >= REMOTE_VERDICT ? protocol->verdict : STATUS_SUCCESS;
}

static void expect_closing(struct step *step, enum status reason)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->phase < PHASE_CLOSING) {
		protocol->phase = PHASE_CLOSING;
		step->actions |= ACTION_DISCONNECT;
	} else if (protocol->status != STATUS_PEER_LOST || reason != STATUS_CONTENTS_WRONG) {
		return; /* the first reason counts, unless it may follow from this one */
	}
	protocol->status = verified(protocol) ? STATUS_SUCCESS : reason;
	if (protocol->gave_up)
		protocol->status = protocol->check; /* the rest follows from that */
}

/* Expects what the table's row states, and a client with both verdicts to disconnect. */
static void expect_row(struct step *step, const struct row *row, struct event event)
{
	struct protocol *protocol = &step->protocol;

	if (event.type == EVENT_CHECKED && !protocol->gave_up)
		protocol->check = event.status;
	if (event.type == EVENT_VERDICT_RECEIVED)
		protocol->verdict = event.status;
	protocol->local = row->next_local;
	protocol->remote = row->next_remote;
	if (protocol->phase == PHASE_CONNECTING) {
		protocol->phase = PHASE_EXCHANGING;
		protocol->connected = true;
	}
	if (protocol->phase == PHASE_EXCHANGING)
		step->actions |= row->actions;
	else
		step->actions |= row->actions & ACTION_CHECK;
	if (protocol->phase == PHASE_EXCHANGING && protocol->role == ROLE_CLIENT &&
	    protocol->local == LOCAL_VERDICT_SENT && protocol->remote == REMOTE_VERDICT)
		expect_closing(step, finding(protocol));
}

/* Expects the deadline of closing to pass: the first time force may help. */
static void expect_deadline(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->overdue || protocol->drained) { /* waiting or force would not help */
		protocol->phase = PHASE_FINISHED;
		step->actions |= ACTION_FINISH;
	} else {
		protocol->overdue = true;
		step->actions |= ACTION_FORCE_ERROR;
	}
}

/* A worker failed: false if that is nothing new, or is said by a verdict. */
static bool expect_giving_up(struct protocol *protocol, enum status status)
{
	if (protocol->gave_up)
		return false;
	if (protocol->local >= LOCAL_CHECKED)
		return true; /* this side's verdict is on its way, or there is none */
	protocol->gave_up = true;
	protocol->check = status;
	return !protocol->verifying;
}

/* A peer that gave up: false if it must not say so now. */
static bool expect_peer_to_give_up(struct protocol *protocol, enum status status)
{
	if (!protocol->verifying ||
	    (protocol->remote != REMOTE_MR && protocol->remote != REMOTE_DONE))
		return false;
	protocol->remote = REMOTE_GAVE_UP;
	protocol->verdict = status;
	return true;
}

/* The reason for which an event that is in no row ends the session, or IGNORED. */
static int find_reason(struct protocol *protocol, struct event event)
{
	int reason = reasons[event.type];

	switch (event.type) {
	case EVENT_MR_SENT:
	case EVENT_OPERATION_COMPLETED:
	case EVENT_DONE_SENT:
	case EVENT_VERDICT_SENT:
		return protocol->gave_up ? IGNORED : reason; /* posted before that */
	case EVENT_FLUSHED:
		/* while connecting, an event with the reason of the failure follows */
		return protocol->phase == PHASE_CONNECTING ? IGNORED : reason;
	case EVENT_GAVE_UP:
		return expect_giving_up(protocol, event.status) ? (int)event.status : IGNORED;
	case EVENT_PEER_GAVE_UP:
		return expect_peer_to_give_up(protocol, event.status) ? (int)event.status : reason;
	default:
		return reason == WITH_EVENT ? (int)event.status : reason;
	}
}

/* The rules, for an event that is in no row. */
static void expect_rule(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;
	int reason = find_reason(protocol, event);

	if (event.type == EVENT_DISCONNECTED)
		protocol->disconnected = true;
	if (event.type == EVENT_DRAINED)
		protocol->drained = true;
	if (event.type == EVENT_DEADLINE && protocol->phase == PHASE_CLOSING)
		expect_deadline(step);
	if (reason != IGNORED)
		expect_closing(step, (enum status)reason);
}

/* A side that gave up posts nothing but its verdict, behind MSG_MR; a check is waited for. */
static void expect_early_verdict(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (!protocol->gave_up || protocol->phase != PHASE_EXCHANGING ||
	    protocol->local < LOCAL_MR_POSTED || protocol->local >= LOCAL_CHECKING ||
	    step->actions & ACTION_SEND_MR)
		return;
	protocol->local = LOCAL_VERDICT_POSTED;
	step->actions = ACTION_SEND_VERDICT;
}

static struct step expected_step(struct protocol protocol, struct event event)
{
	struct step step = { .protocol = protocol };
	const struct row *row;

	if (protocol.phase == PHASE_FINISHED)
		return step;
	row = find(&protocol, event.type);
	if (row)
		expect_row(&step, row, event);
	else
		expect_rule(&step, event);
	expect_early_verdict(&step);
	if (step.protocol.phase == PHASE_CLOSING && step.protocol.drained &&
	    step.protocol.local != LOCAL_CHECKING && /* the answer is awaited */
	    (step.protocol.disconnected || !step.protocol.connected)) {
		step.protocol.phase = PHASE_FINISHED;
		step.actions |= ACTION_FINISH;
	}
	if (step.protocol.phase == PHASE_FINISHED && step.protocol.status == STATUS_PEER_LOST) {
		if (verified(&step.protocol))
			step.protocol.status = STATUS_SUCCESS;
		else if (finding(&step.protocol) != STATUS_SUCCESS)
			step.protocol.status = finding(&step.protocol);
	}
	return step;
}

/* ---- All states, all events ---- */

/* Good, damaged, or any other failure: one of the two sides knows no more than one such. */
static size_t number_finding(enum status status)
{
	if (status == STATUS_SUCCESS)
		return 0;
	return status == STATUS_CONTENTS_WRONG ? 1 : 2;
}

/* A number for each state of one kind of session; what has no meaning yet is left out. */
static size_t state_number(const struct protocol *protocol)
{
	bool checked = protocol->gave_up || protocol->local >= LOCAL_CHECKED;
	bool judged = protocol->remote >= REMOTE_VERDICT;
	size_t number = protocol->phase;

	number = number << 4 | protocol->local;
	number = number << 3 | protocol->remote;
	number = number << 1 | protocol->connected;
	number = number << 1 | protocol->disconnected;
	number = number << 1 | protocol->drained;
	number = number << 1 | protocol->overdue;
	number = number << 1 | protocol->gave_up;
	number = number << 2 | (checked ? number_finding(protocol->check) : 0);
	number = number << 2 | (judged ? number_finding(protocol->verdict) : 0);
	return number << 4 | protocol->status;
}

#define STATE_NUMBERS ((size_t)1 << 22)

static bool same(const struct step *one, const struct step *other)
{
	return one->actions == other->actions && one->protocol.role == other->protocol.role &&
	       one->protocol.operation == other->protocol.operation &&
	       one->protocol.verifying == other->protocol.verifying &&
	       one->protocol.operates == other->protocol.operates &&
	       state_number(&one->protocol) == state_number(&other->protocol);
}

static void print_state(const char *title, const struct protocol *protocol, unsigned int actions)
{
	print_message("%s%s %s %s, %s, %s, %s, %s%s%s%s%s%s, check %d, verdict %d, status %d, "
		      "actions 0x%x\n",
		      title, protocol->role == ROLE_CLIENT ? "client" : "server",
		      operation_name(protocol->operation),
		      protocol->verifying ? "verifying" : "not verifying",
		      protocol->operates ? "operating" : "not operating",
		      phase_name(protocol->phase), local_stage_name(protocol->local),
		      remote_stage_name(protocol->remote), protocol->gave_up ? ", gave up" : "",
		      protocol->connected ? ", connected" : "",
		      protocol->disconnected ? ", disconnected" : "",
		      protocol->drained ? ", drained" : "", protocol->overdue ? ", overdue" : "",
		      protocol->check, protocol->verdict, protocol->status, actions);
}

struct tally {
	unsigned int pairs, states, wrong;
	bool row_used[ENTRIES(rows)];
	bool late_row_used[ENTRIES(late_rows)];
};

static void count_row(struct tally *tally, const struct protocol *protocol, enum event_type event)
{
	const struct row *row = find(protocol, event);

	if (protocol->phase == PHASE_FINISHED || !row)
		return;
	if (row >= rows && row < rows + ENTRIES(rows))
		tally->row_used[row - rows] = true;
	else if (row >= late_rows && row < late_rows + ENTRIES(late_rows))
		tally->late_row_used[row - late_rows] = true;
}

/* One state with all events; the states that should follow and are new go to the end of `queue`. */
static void try_state(struct tally *tally, struct protocol state, bool *seen,
		      struct protocol *queue, size_t *queued)
{
	for (size_t i = 0; i < ENTRIES(events); i++) {
		struct step expected = expected_step(state, events[i]);
		struct step found = protocol_step(state, events[i]);

		tally->pairs++;
		count_row(tally, &state, events[i].type);
		if (!same(&expected, &found) && tally->wrong++ < 8) {
			print_message("%s, status %d\n", event_name(events[i].type),
				      events[i].status);
			print_state("  in:       ", &state, 0);
			print_state("  expected: ", &expected.protocol, expected.actions);
			print_state("  found:    ", &found.protocol, found.actions);
		}
		if (!seen[state_number(&expected.protocol)]) {
			seen[state_number(&expected.protocol)] = true;
			queue[(*queued)++] = expected.protocol;
		}
	}
}

/* All states that follow from `start`. */
static void try_session(struct tally *tally, struct protocol start)
{
	struct protocol *queue = calloc(STATE_NUMBERS, sizeof(*queue));
	bool *seen = calloc(STATE_NUMBERS, sizeof(*seen));
	size_t queued = 1;

	assert_non_null(queue);
	assert_non_null(seen);
	queue[0] = start;
	seen[state_number(&queue[0])] = true;
	for (size_t next = 0; next < queued; next++)
		try_state(tally, queue[next], seen, queue, &queued);
	tally->states += (unsigned int)queued;
	free(queue);
	free(seen);
}

static void every_event_in_every_state_leads_where_the_table_says(void **state)
{
	struct tally tally = { .pairs = 0 };

	(void)state;
	for (unsigned int kind = 0; kind < 16; kind++) {
		struct protocol start = protocol_start(kind & 1 ? ROLE_SERVER : ROLE_CLIENT,
						       kind & 2 ? OPERATION_WRITE : OPERATION_READ);

		start.verifying = kind & 4;
		start.operates = kind & 8;
		try_session(&tally, start);
	}
	print_message("%u pairs of state and event checked, of %u states; %u not as expected\n",
		      tally.pairs, tally.states, tally.wrong);
	for (size_t i = 0; i < ENTRIES(rows); i++)
		assert_true(tally.row_used[i]); /* a row that is never used is wrong itself */
	for (size_t i = 0; i < ENTRIES(late_rows); i++)
		assert_true(tally.late_row_used[i]);
	assert_true(tally.states > 1000);
	assert_int_equal(tally.pairs, tally.states * ENTRIES(events));
	assert_int_equal(tally.wrong, 0);
}

static void a_session_begins_with_nothing_done(void **state)
{
	struct protocol protocol = protocol_start(ROLE_SERVER, OPERATION_WRITE);

	(void)state;
	assert_int_equal(protocol.role, ROLE_SERVER);
	assert_int_equal(protocol.operation, OPERATION_WRITE);
	assert_int_equal(protocol.phase, PHASE_CONNECTING);
	assert_int_equal(protocol.local, LOCAL_IDLE);
	assert_int_equal(protocol.remote, REMOTE_SILENT);
	assert_int_equal(protocol.status, STATUS_SUCCESS);
	assert_true(protocol.operates);
	assert_false(protocol.verifying || protocol.connected || protocol.disconnected ||
		     protocol.drained || protocol.overdue || protocol.gave_up);
}

static void every_value_has_a_name_of_its_own(void **state)
{
	(void)state;
	assert_string_equal(event_name(EVENT_INTERRUPTED), "EVENT_INTERRUPTED");
	assert_string_equal(phase_name(PHASE_FINISHED), "PHASE_FINISHED");
	assert_string_equal(local_stage_name(LOCAL_VERDICT_SENT), "LOCAL_VERDICT_SENT");
	assert_string_equal(remote_stage_name(REMOTE_GAVE_UP), "REMOTE_GAVE_UP");
	assert_string_equal(operation_name(OPERATION_READ), "read");
	assert_string_equal(operation_name(OPERATION_WRITE), "write");
	for (enum event_type one = EVENT_ESTABLISHED; one < EVENT_TYPES; one++) {
		assert_non_null(event_name(one));
		for (enum event_type other = EVENT_ESTABLISHED; other < one; other++)
			assert_string_not_equal(event_name(one), event_name(other));
	}
	for (enum phase phase = PHASE_CONNECTING; phase <= PHASE_FINISHED; phase++)
		assert_non_null(phase_name(phase));
	for (enum local_stage local = LOCAL_IDLE; local <= LOCAL_VERDICT_SENT; local++)
		assert_non_null(local_stage_name(local));
	for (enum remote_stage remote = REMOTE_SILENT; remote <= REMOTE_GAVE_UP; remote++)
		assert_non_null(remote_stage_name(remote));
}

/* ---- Single sessions ---- */

/* An event, and what this side has to do then. */
struct moment {
	enum event_type event;
	unsigned int actions;
	enum status status;
};

static void play(struct protocol *protocol, const struct moment *moments, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct event event = { .type = moments[i].event, .status = moments[i].status };
		struct step step = protocol_step(*protocol, event);

		*protocol = step.protocol;
		if (step.actions != moments[i].actions) {
			print_state("  after: ", protocol, step.actions);
			fail_msg("moment %zu, %s: expected actions 0x%x", i + 1,
				 event_name(event.type), moments[i].actions);
		}
	}
}

#define PLAY(protocol, ...)                                    \
	play(protocol, (const struct moment[]){ __VA_ARGS__ }, \
	     ENTRIES(((const struct moment[]){ __VA_ARGS__ })))

/* Beginnings that several sessions share. */
static struct protocol connected(enum role role, enum operation operation, bool verifying)
{
	struct protocol protocol = protocol_start(role, operation);

	protocol.verifying = verifying;
	if (role == ROLE_CLIENT)
		PLAY(&protocol, { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 }, { EVENT_MR_SENT, 0, 0 });
	else
		PLAY(&protocol, { EVENT_ESTABLISHED, 0, 0 });
	return protocol;
}

/* A session up to the operation, which has been posted, a WRITE with MSG_DONE behind it. */
static struct protocol operating(enum role role, enum operation operation, bool verifying)
{
	unsigned int post = operation == OPERATION_WRITE ? OPERATE : ACTION_POST_OPERATION;
	struct protocol protocol = connected(role, operation, verifying);

	if (role == ROLE_CLIENT)
		PLAY(&protocol, { EVENT_MR_RECEIVED, post, 0 });
	else
		PLAY(&protocol, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 },
		     { EVENT_MR_SENT, post, 0 });
	return protocol;
}

/* A session up to where this side waits for MSG_DONE. */
static struct protocol done(enum role role, enum operation operation, bool verifying)
{
	unsigned int post = operation == OPERATION_WRITE ? 0 : ACTION_SEND_DONE;
	struct protocol protocol = operating(role, operation, verifying);

	PLAY(&protocol, { EVENT_OPERATION_COMPLETED, post, 0 }, { EVENT_DONE_SENT, 0, 0 });
	return protocol;
}

static void assert_finished(const struct protocol *protocol, enum status status)
{
	assert_string_equal(phase_name(protocol->phase), phase_name(PHASE_FINISHED));
	assert_int_equal(protocol->status, status);
}

static void a_client_delivers_verifies_and_disconnects(void **state)
{
	(void)state;
	for (enum operation operation = OPERATION_READ; operation <= OPERATION_WRITE; operation++) {
		struct protocol client = done(ROLE_CLIENT, operation, true);

		PLAY(&client, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
		     { EVENT_VERDICT_SENT, 0, 0 },
		     { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, STATUS_SUCCESS },
		     { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 },
		     { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
		assert_finished(&client, STATUS_SUCCESS);
	}
}

static void a_server_delivers_verifies_and_waits_for_the_client_to_go(void **state)
{
	(void)state;
	for (enum operation operation = OPERATION_READ; operation <= OPERATION_WRITE; operation++) {
		struct protocol server = done(ROLE_SERVER, operation, true);

		PLAY(&server, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
		     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS }, { EVENT_VERDICT_SENT, 0, 0 },
		     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 },
		     { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&server, STATUS_SUCCESS);
	}
}

static void done_waits_for_a_read_but_not_for_a_write(void **state)
{
	struct protocol reader = connected(ROLE_CLIENT, OPERATION_READ, true);
	struct protocol writer = connected(ROLE_CLIENT, OPERATION_WRITE, true);

	(void)state;
	PLAY(&reader, { EVENT_MR_RECEIVED, ACTION_POST_OPERATION, 0 },
	     { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_OPERATION_COMPLETED, ACTION_SEND_DONE, 0 });
	PLAY(&writer, { EVENT_MR_RECEIVED, OPERATE, 0 }, { EVENT_DONE_RECEIVED, 0, 0 },
	     { EVENT_OPERATION_COMPLETED, 0, 0 });
}

static void a_server_that_does_not_operate_is_done_without_it(void **state)
{
	(void)state;
	for (enum operation operation = OPERATION_READ; operation <= OPERATION_WRITE; operation++) {
		struct protocol server = connected(ROLE_SERVER, operation, true);

		server.operates = false;
		PLAY(&server, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 },
		     { EVENT_MR_SENT, ACTION_POST_OPERATION, 0 },
		     { EVENT_OPERATION_COMPLETED, ACTION_SEND_DONE, 0 }, { EVENT_DONE_SENT, 0, 0 },
		     { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
		     { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS },
		     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 },
		     { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&server, STATUS_SUCCESS);
	}
}

/* The data that was read is not lost, but the peer gets no more messages. */
static void a_read_that_completes_while_closing_says_no_done(void **state)
{
	struct protocol server = operating(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&server, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 },
	     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 });
	assert_string_equal(local_stage_name(server.local), "LOCAL_OPERATION_COMPLETED");
	PLAY(&server, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 },
	     { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_INTERRUPTED);
}

/* A peer verifies what it received once MSG_DONE is here. */
static void a_verdict_before_our_done_breaks_the_protocol(void **state)
{
	struct protocol client = operating(ROLE_CLIENT, OPERATION_READ, true);

	(void)state;
	PLAY(&client, { EVENT_DONE_RECEIVED, 0, 0 },
	     { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, STATUS_SUCCESS });
	assert_int_equal(client.status, STATUS_CONTENTS_WRONG);
}

static void the_tutorials_program_gets_no_verdict_and_disconnects_itself(void **state)
{
	(void)state;
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		struct protocol protocol = done(role, OPERATION_READ, false);

		PLAY(&protocol, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, 0, STATUS_SUCCESS },
		     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 },
		     { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&protocol, STATUS_SUCCESS);
	}
}

static void the_tutorials_program_that_stays_is_not_waited_for_for_ever(void **state)
{
	struct protocol protocol = done(ROLE_CLIENT, OPERATION_READ, false);

	(void)state;
	PLAY(&protocol, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, 0, STATUS_SUCCESS }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 },
	     { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
	assert_finished(&protocol, STATUS_TIMED_OUT);
}

static void a_verdict_of_the_tutorials_program_breaks_the_protocol(void **state)
{
	struct protocol protocol = done(ROLE_CLIENT, OPERATION_WRITE, false);

	(void)state;
	PLAY(&protocol, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, 0, STATUS_SUCCESS },
	     { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, STATUS_SUCCESS });
	assert_int_equal(protocol.status, STATUS_CONTENTS_WRONG);
}

static void a_message_may_overtake_the_news_of_the_connection(void **state)
{
	struct protocol server = protocol_start(ROLE_SERVER, OPERATION_WRITE);

	(void)state;
	server.verifying = true;
	PLAY(&server, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_ESTABLISHED, 0, 0 },
	     { EVENT_MR_SENT, OPERATE, 0 });
	assert_true(server.connected);
}

static void a_server_that_speaks_first_breaks_the_protocol(void **state)
{
	struct protocol client = protocol_start(ROLE_CLIENT, OPERATION_WRITE);

	(void)state;
	PLAY(&client, { EVENT_MR_RECEIVED, ACTION_DISCONNECT, 0 }, { EVENT_ESTABLISHED, 0, 0 },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&client, STATUS_CONTENTS_WRONG);
}

static void a_disconnection_may_overtake_the_last_completions(void **state)
{
	struct protocol server = operating(ROLE_SERVER, OPERATION_WRITE, true);

	(void)state;
	PLAY(&server, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 },
	     { EVENT_DONE_SENT, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
	     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 },
	     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS }, { EVENT_VERDICT_SENT, 0, 0 },
	     { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_SUCCESS);
}

static void the_tutorials_disconnection_may_overtake_the_payload(void **state)
{
	struct protocol server = operating(ROLE_SERVER, OPERATION_READ, false);

	(void)state;
	PLAY(&server, { EVENT_OPERATION_COMPLETED, ACTION_SEND_DONE, 0 },
	     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DONE_RECEIVED, 0, 0 },
	     { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_CHECKED, 0, STATUS_SUCCESS },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_SUCCESS);
}

static void a_flush_may_come_before_the_disconnection(void **state)
{
	struct protocol server = done(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&server, { EVENT_FLUSHED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 },
	     { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_PEER_LOST);
}

static void a_flush_while_connecting_waits_for_the_reason(void **state)
{
	struct protocol client = protocol_start(ROLE_CLIENT, OPERATION_READ);

	(void)state;
	PLAY(&client, { EVENT_FLUSHED, 0, 0 }, { EVENT_FAILED, ACTION_DISCONNECT, STATUS_REFUSED },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&client, STATUS_REFUSED);
}

static void damaged_payload_is_reported_by_both_sides(void **state)
{
	struct protocol finder = done(ROLE_CLIENT, OPERATION_WRITE, true);
	struct protocol sender = done(ROLE_SERVER, OPERATION_WRITE, true);

	(void)state;
	PLAY(&finder, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_CONTENTS_WRONG },
	     { EVENT_VERDICT_SENT, 0, 0 },
	     { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, STATUS_SUCCESS },
	     { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&finder, STATUS_CONTENTS_WRONG);
	PLAY(&sender, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
	     { EVENT_VERDICT_RECEIVED, 0, STATUS_CONTENTS_WRONG }, { EVENT_VERDICT_SENT, 0, 0 },
	     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&sender, STATUS_CONTENTS_WRONG);
}

/* A second verdict is one too many, and it takes nothing back. */
static void a_bad_verdict_cannot_be_taken_back(void **state)
{
	struct protocol client = done(ROLE_CLIENT, OPERATION_WRITE, true);

	(void)state;
	PLAY(&client, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
	     { EVENT_VERDICT_RECEIVED, 0, STATUS_CONTENTS_WRONG },
	     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 },
	     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&client, STATUS_CONTENTS_WRONG);
}

/* Nothing has been checked before the peer's MSG_DONE is here. */
static void an_answer_without_a_question_is_no_check(void **state)
{
	struct protocol client = done(ROLE_CLIENT, OPERATION_WRITE, false);

	(void)state;
	PLAY(&client, { EVENT_CHECKED, ACTION_DISCONNECT, STATUS_SUCCESS },
	     { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&client, STATUS_LOCAL_FAILURE);
}

static void a_repeated_message_breaks_the_protocol(void **state)
{
	static const enum event_type repeated[] = { EVENT_MR_RECEIVED, EVENT_DONE_RECEIVED };

	(void)state;
	for (size_t i = 0; i < ENTRIES(repeated); i++) {
		struct protocol client = operating(ROLE_CLIENT, OPERATION_WRITE, true);

		if (repeated[i] == EVENT_DONE_RECEIVED)
			PLAY(&client, { EVENT_DONE_RECEIVED, 0, 0 });
		PLAY(&client, { repeated[i], ACTION_DISCONNECT, 0 });
		assert_int_equal(client.status, STATUS_CONTENTS_WRONG);
	}
}

/* The verdict behind a repeated MSG_DONE, or behind worse, proves nothing. */
static void what_breaks_the_protocol_counts_after_the_peer_has_gone(void **state)
{
	static const struct event breaches[] = { { EVENT_DONE_RECEIVED, STATUS_SUCCESS },
						 { EVENT_FAILED, STATUS_CONTENTS_WRONG } };

	(void)state;
	for (size_t i = 0; i < ENTRIES(breaches); i++) {
		struct protocol server = done(ROLE_SERVER, OPERATION_WRITE, true);

		PLAY(&server, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
		     { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 },
		     { breaches[i].type, 0, breaches[i].status },
		     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS },
		     { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&server, STATUS_CONTENTS_WRONG);
	}
}

/* Each phase has its deadline, and the third one is the last. */
static void a_silent_peer_does_not_hold_a_session(void **state)
{
	struct protocol connecting = protocol_start(ROLE_CLIENT, OPERATION_READ);
	struct protocol exchanging = operating(ROLE_CLIENT, OPERATION_READ, true);
	struct protocol drained = operating(ROLE_CLIENT, OPERATION_READ, true);

	(void)state;
	PLAY(&connecting, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&connecting, STATUS_TIMED_OUT);
	PLAY(&exchanging, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 },
	     { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 });
	assert_finished(&exchanging, STATUS_TIMED_OUT);
	PLAY(&drained, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 },
	     { EVENT_DRAINED, 0, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 });
	assert_finished(&drained, STATUS_TIMED_OUT);
}

static void a_verified_session_stays_one_however_it_closes(void **state)
{
	static const struct event closings[] = { { EVENT_DEADLINE, STATUS_SUCCESS },
						 { EVENT_INTERRUPTED, STATUS_SUCCESS },
						 { EVENT_FLUSHED, STATUS_SUCCESS },
						 { EVENT_DISCONNECTED, STATUS_SUCCESS },
						 { EVENT_FAILED, STATUS_PEER_LOST } };

	(void)state;
	for (size_t i = 0; i < ENTRIES(closings); i++) {
		struct protocol server = done(ROLE_SERVER, OPERATION_READ, true);

		PLAY(&server, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
		     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
		     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS },
		     { closings[i].type, ACTION_DISCONNECT, closings[i].status },
		     { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 },
		     { EVENT_DEADLINE, ACTION_FINISH, 0 });
		assert_finished(&server, STATUS_SUCCESS);
	}
}

static void a_signal_ends_a_session_in_good_order(void **state)
{
	struct protocol connecting = protocol_start(ROLE_SERVER, OPERATION_READ);
	struct protocol exchanging = operating(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&connecting, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&connecting, STATUS_INTERRUPTED);
	PLAY(&exchanging, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 }, { EVENT_INTERRUPTED, 0, 0 },
	     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 },
	     { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
	assert_finished(&exchanging, STATUS_INTERRUPTED);
}

static void the_first_failure_is_the_one_reported(void **state)
{
	struct protocol client = operating(ROLE_CLIENT, OPERATION_WRITE, true);

	(void)state;
	PLAY(&client, { EVENT_FAILED, ACTION_DISCONNECT, STATUS_REFUSED }, { EVENT_FLUSHED, 0, 0 },
	     { EVENT_FAILED, 0, STATUS_LOCAL_FAILURE }, { EVENT_DRAINED, 0, 0 },
	     { EVENT_DISCONNECTED, ACTION_FINISH, 0 });
	assert_finished(&client, STATUS_REFUSED);
}

/* Its file shrank, or its disk is full; what was posted before completes behind that. */
static void a_side_that_gives_up_says_so_and_waits_for_the_peer_to_go(void **state)
{
	(void)state;
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		struct protocol protocol = operating(role, OPERATION_WRITE, true);

		PLAY(&protocol, { EVENT_GAVE_UP, ACTION_SEND_VERDICT, STATUS_LOCAL_FAILURE },
		     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, 0, 0 },
		     { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
		     { EVENT_GAVE_UP, 0, STATUS_CONTENTS_WRONG }, /* its other worker */
		     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 },
		     { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&protocol, STATUS_LOCAL_FAILURE);
	}
}

static void a_peer_that_gives_up_is_left_at_once(void **state)
{
	(void)state;
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		struct protocol protocol = operating(role, OPERATION_READ, true);

		PLAY(&protocol, { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, STATUS_REFUSED },
		     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 },
		     { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&protocol, STATUS_REFUSED);
	}
}

/* The disconnection may overtake the verdict that says why. */
static void why_a_peer_gave_up_counts_after_it_has_gone(void **state)
{
	struct protocol server = connected(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&server, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_MR_RECEIVED, 0, 0 },
	     { EVENT_PEER_GAVE_UP, 0, STATUS_REFUSED }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_REFUSED);
}

static void two_that_give_up_at_once_keep_their_reasons(void **state)
{
	static const enum event_type verdicts[] = { EVENT_PEER_GAVE_UP, EVENT_VERDICT_RECEIVED };

	(void)state;
	for (size_t i = 0; i < ENTRIES(verdicts); i++) {
		struct protocol client = operating(ROLE_CLIENT, OPERATION_WRITE, true);

		PLAY(&client, { EVENT_DONE_RECEIVED, 0, 0 },
		     { EVENT_GAVE_UP, ACTION_SEND_VERDICT, STATUS_LOCAL_FAILURE },
		     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, 0, 0 },
		     { EVENT_VERDICT_SENT, 0, 0 },
		     { verdicts[i], ACTION_DISCONNECT, STATUS_REFUSED },
		     { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
		assert_finished(&client, STATUS_LOCAL_FAILURE);
	}
}

static void a_server_that_gives_up_before_it_may_speak_does_so_behind_its_mr(void **state)
{
	struct protocol server = connected(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&server, { EVENT_GAVE_UP, 0, STATUS_LOCAL_FAILURE },
	     { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_MR_SENT, ACTION_SEND_VERDICT, 0 },
	     { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 },
	     { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_LOCAL_FAILURE);
}

static void who_gives_up_while_checking_waits_for_the_answer(void **state)
{
	struct protocol server = done(ROLE_SERVER, OPERATION_READ, true);

	(void)state;
	PLAY(&server, { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 },
	     { EVENT_GAVE_UP, 0, STATUS_LOCAL_FAILURE },
	     { EVENT_CHECKED, ACTION_SEND_VERDICT, STATUS_SUCCESS },
	     { EVENT_VERDICT_RECEIVED, 0, STATUS_SUCCESS }, { EVENT_VERDICT_SENT, 0, 0 },
	     { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_LOCAL_FAILURE);
}

/* The tutorial's program knows no verdict, and to whom a client connects it does not know yet. */
static void a_peer_without_verdicts_is_left_by_whom_gives_up(void **state)
{
	struct protocol connecting = protocol_start(ROLE_CLIENT, OPERATION_READ);
	struct protocol server = operating(ROLE_SERVER, OPERATION_READ, false);

	(void)state;
	PLAY(&connecting, { EVENT_GAVE_UP, ACTION_DISCONNECT, STATUS_LOCAL_FAILURE },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&connecting, STATUS_LOCAL_FAILURE);
	PLAY(&server, { EVENT_GAVE_UP, ACTION_DISCONNECT, STATUS_LOCAL_FAILURE },
	     { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 },
	     { EVENT_DRAINED, ACTION_FINISH, 0 });
	assert_finished(&server, STATUS_LOCAL_FAILURE);
}

static void after_the_end_nothing_happens_any_more(void **state)
{
	struct protocol finished = operating(ROLE_CLIENT, OPERATION_READ, true);

	(void)state;
	PLAY(&finished, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 },
	     { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 });
	for (size_t i = 0; i < ENTRIES(events); i++) {
		struct step before = { .protocol = finished };
		struct step after = protocol_step(finished, events[i]);

		assert_true(same(&before, &after));
	}
	assert_finished(&finished, STATUS_INTERRUPTED);
}

/* ---- Probes ---- */

/* Each stage at which a probe begins, or ceases, to be in the way, and the one beside it. */
static void a_probe_disturbs_a_silent_client_and_a_peer_that_may_have_left(void **state)
{
	static const struct {
		enum role role;
		bool iwarp, verifying;
		enum local_stage local;
		enum remote_stage remote;
		bool disturbs;
	} cases[] = {
		/* over InfiniBand and RoCE the peer stays until its last message is here */
		{ ROLE_SERVER, false, true, LOCAL_IDLE, REMOTE_SILENT, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_POSTED, REMOTE_VERDICT, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_SENT, REMOTE_DONE, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_SENT, REMOTE_VERDICT, true },
		{ ROLE_SERVER, false, true, LOCAL_VERDICT_SENT, REMOTE_VERDICT, true },
		/* over iWARP it may leave when it has this side's, */
		{ ROLE_CLIENT, true, true, LOCAL_VERDICT_POSTED, REMOTE_VERDICT, false },
		{ ROLE_CLIENT, true, true, LOCAL_VERDICT_SENT, REMOTE_DONE, true },
		{ ROLE_SERVER, true, true, LOCAL_DONE_SENT, REMOTE_DONE, false },
		/* which is MSG_DONE where there are no verdicts, */
		{ ROLE_CLIENT, true, false, LOCAL_DONE_POSTED, REMOTE_DONE, false },
		{ ROLE_CLIENT, true, false, LOCAL_DONE_SENT, REMOTE_MR, true },
		/* and the client is the first to send */
		{ ROLE_SERVER, true, true, LOCAL_IDLE, REMOTE_SILENT, true },
		{ ROLE_SERVER, true, true, LOCAL_MR_SENT, REMOTE_MR, false },
		{ ROLE_CLIENT, true, true, LOCAL_MR_SENT, REMOTE_SILENT, false },
	};

	(void)state;
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct protocol protocol = protocol_start(cases[i].role, OPERATION_READ);

		protocol.phase = PHASE_EXCHANGING;
		protocol.verifying = cases[i].verifying;
		protocol.local = cases[i].local;
		protocol.remote = cases[i].remote;
		assert_int_equal(probe_disturbs(&protocol, cases[i].iwarp), cases[i].disturbs);
	}
}

/* ---- MSG_WINDOW ---- */

/* Each stage at which a window may be sent, or may come, for the first or the last time. */
static void windows_flow_from_msg_mr_until_both_verdicts_are_there(void **state)
{
	static const struct {
		bool late_windows;
		enum local_stage local;
		enum remote_stage remote;
		bool may_be_sent, may_come;
	} cases[] = {
		{ true, LOCAL_IDLE, REMOTE_SILENT, false, false },
		{ true, LOCAL_MR_POSTED, REMOTE_SILENT, true, false },
		{ true, LOCAL_MR_POSTED, REMOTE_MR, true, true },
		/* this side stores on, and the peer does */
		{ true, LOCAL_CHECKING, REMOTE_VERDICT, true, true },
		{ true, LOCAL_VERDICT_SENT, REMOTE_DONE, true, true },
		{ true, LOCAL_CHECKED, REMOTE_VERDICT, false, true },
		/* to an older peer, which does not take what comes behind a verdict */
		{ false, LOCAL_CHECKING, REMOTE_DONE, true, true },
		{ false, LOCAL_CHECKED, REMOTE_DONE, false, true },
		{ false, LOCAL_CHECKING, REMOTE_VERDICT, true, true },
		/* who gave up sends nothing more */
		{ true, LOCAL_DONE_SENT, REMOTE_GAVE_UP, true, false },
	};
	struct protocol protocol = protocol_start(ROLE_SERVER, OPERATION_READ);

	(void)state;
	protocol.verifying = true;
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		protocol.phase = PHASE_EXCHANGING;
		protocol.late_windows = cases[i].late_windows;
		protocol.local = cases[i].local;
		protocol.remote = cases[i].remote;
		assert_int_equal(window_may_be_sent(&protocol), cases[i].may_be_sent);
		assert_int_equal(window_may_come(&protocol), cases[i].may_come);
		protocol.phase = PHASE_CLOSING;
		assert_false(window_may_be_sent(&protocol));
	}
}

static void who_gave_up_confirms_nothing_behind_its_verdict(void **state)
{
	struct protocol protocol = protocol_start(ROLE_SERVER, OPERATION_READ);

	(void)state;
	protocol.verifying = protocol.late_windows = protocol.gave_up = true;
	protocol.phase = PHASE_EXCHANGING;
	protocol.local = LOCAL_VERDICT_POSTED;
	protocol.remote = REMOTE_MR;
	assert_false(window_may_be_sent(&protocol));
	protocol.gave_up = false;
	assert_true(window_may_be_sent(&protocol));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_flow_from_msg_mr_until_both_verdicts_are_there),
		cmocka_unit_test(who_gave_up_confirms_nothing_behind_its_verdict),
		cmocka_unit_test(a_session_begins_with_nothing_done),
		cmocka_unit_test(every_value_has_a_name_of_its_own),
		cmocka_unit_test(every_event_in_every_state_leads_where_the_table_says),
		cmocka_unit_test(a_client_delivers_verifies_and_disconnects),
		cmocka_unit_test(a_server_delivers_verifies_and_waits_for_the_client_to_go),
		cmocka_unit_test(done_waits_for_a_read_but_not_for_a_write),
		cmocka_unit_test(a_server_that_does_not_operate_is_done_without_it),
		cmocka_unit_test(a_read_that_completes_while_closing_says_no_done),
		cmocka_unit_test(a_verdict_before_our_done_breaks_the_protocol),
		cmocka_unit_test(the_tutorials_program_gets_no_verdict_and_disconnects_itself),
		cmocka_unit_test(the_tutorials_program_that_stays_is_not_waited_for_for_ever),
		cmocka_unit_test(a_verdict_of_the_tutorials_program_breaks_the_protocol),
		cmocka_unit_test(a_message_may_overtake_the_news_of_the_connection),
		cmocka_unit_test(a_server_that_speaks_first_breaks_the_protocol),
		cmocka_unit_test(a_disconnection_may_overtake_the_last_completions),
		cmocka_unit_test(the_tutorials_disconnection_may_overtake_the_payload),
		cmocka_unit_test(a_flush_may_come_before_the_disconnection),
		cmocka_unit_test(a_flush_while_connecting_waits_for_the_reason),
		cmocka_unit_test(damaged_payload_is_reported_by_both_sides),
		cmocka_unit_test(a_bad_verdict_cannot_be_taken_back),
		cmocka_unit_test(an_answer_without_a_question_is_no_check),
		cmocka_unit_test(a_repeated_message_breaks_the_protocol),
		cmocka_unit_test(what_breaks_the_protocol_counts_after_the_peer_has_gone),
		cmocka_unit_test(a_silent_peer_does_not_hold_a_session),
		cmocka_unit_test(a_verified_session_stays_one_however_it_closes),
		cmocka_unit_test(a_signal_ends_a_session_in_good_order),
		cmocka_unit_test(the_first_failure_is_the_one_reported),
		cmocka_unit_test(a_side_that_gives_up_says_so_and_waits_for_the_peer_to_go),
		cmocka_unit_test(a_peer_that_gives_up_is_left_at_once),
		cmocka_unit_test(why_a_peer_gave_up_counts_after_it_has_gone),
		cmocka_unit_test(two_that_give_up_at_once_keep_their_reasons),
		cmocka_unit_test(a_server_that_gives_up_before_it_may_speak_does_so_behind_its_mr),
		cmocka_unit_test(who_gives_up_while_checking_waits_for_the_answer),
		cmocka_unit_test(a_peer_without_verdicts_is_left_by_whom_gives_up),
		cmocka_unit_test(after_the_end_nothing_happens_any_more),
		cmocka_unit_test(a_probe_disturbs_a_silent_client_and_a_peer_that_may_have_left),
	};

	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
