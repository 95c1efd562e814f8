// SPDX-License-Identifier: MIT
/*
 * The state machine of a session: single sessions, told as a user would describe them. That every
 * order of events ends well is for explore-test.c; here stands who does what, and what a peer may
 * not do.
 */
#include "rdma-common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ENTRIES(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Single sessions ---- */

/* An event, and what this side has to do then. */
struct moment {
	enum event_type event;
	unsigned int actions;
	enum status status; /* that comes with it */
};

/* Where a session begins. */
enum beginning {
	NEW,
	CONNECTED, /* a client has sent its MSG_MR */
	OPERATING, /* the operation is posted, a WRITE with MSG_DONE behind it */
	DONE,      /* MSG_DONE is sent, and the peer's awaited */
};

struct session {
	const char *what;
	enum beginning beginning;
	const char *who;       /* c, a client; s, a server */
	const char *operation; /* r, READ; w, WRITE; n, none of a server's in a one-way session */
	bool tutorial;         /* the peer is the tutorial's program: it knows no verdict */
	/* The rest, as many as there are, are EVENT_ESTABLISHED: that changes nothing any more. */
	struct moment moments[12];
	enum status status; /* how it ends */
};

#define OPERATE (ACTION_POST_OPERATION | ACTION_SEND_DONE)
#define GOOD    STATUS_SUCCESS
#define WRONG   STATUS_CONTENTS_WRONG
#define FAILED  STATUS_LOCAL_FAILURE
#define REFUSED STATUS_REFUSED
#define LOST    STATUS_PEER_LOST

/* clang-format off */
#define CHECKS     { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, GOOD }
#define LEAVES     { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, ACTION_FINISH, 0 }
#define IS_LEFT    { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 }

static const struct session sessions[] = {
{ "a client delivers, verifies and disconnects", DONE, "c", "rw", false,
  { CHECKS, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, GOOD },
{ "a server delivers, verifies and waits for the client to go", DONE, "s", "rwn", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, GOOD },
{ "done waits for a read", OPERATING, "cs", "r", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_OPERATION_COMPLETED, ACTION_SEND_DONE, 0 }, { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, GOOD }, IS_LEFT }, LOST },
{ "a verdict may come while a write is under way", OPERATING, "s", "w", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, GOOD }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, GOOD },
{ "the peer may be done before this side's MSG_MR is known to have left", NEW, "s", "w", false,
  { { EVENT_ESTABLISHED, 0, 0 }, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_MR_SENT, OPERATE, 0 }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, WRONG }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, IS_LEFT }, WRONG },
{ "a message may overtake the news of the connection", NEW, "s", "w", false,
  { { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_ESTABLISHED, 0, 0 }, { EVENT_MR_SENT, OPERATE, 0 }, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, ACTION_FINISH, 0 } }, STATUS_INTERRUPTED },
{ "a server's MSG_MR may come before the client's is known to have left", NEW, "c", "w", false,
  { { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 }, { EVENT_MR_RECEIVED, 0, 0 }, { EVENT_MR_SENT, OPERATE, 0 }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, 0, 0 }, IS_LEFT }, LOST },
{ "a disconnection may overtake the last completions", OPERATING, "s", "w", false,
  { { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, GOOD }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, GOOD },
/* The tutorial's program disconnects when it has all. */
{ "the tutorial's program gets no verdict and disconnects itself", DONE, "cs", "rw", true,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_CHECKED, 0, GOOD }, IS_LEFT }, GOOD },
{ "its disconnection may overtake the payload", OPERATING, "s", "r", true,
  { { EVENT_OPERATION_COMPLETED, ACTION_SEND_DONE, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DONE_SENT, ACTION_CHECK, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_CHECKED, ACTION_FINISH, GOOD } }, GOOD },
{ "if it stays it is not waited for for ever", DONE, "c", "r", true,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_CHECKED, 0, GOOD }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, ACTION_FINISH, 0 } }, STATUS_TIMED_OUT },
{ "a verdict of its breaks the protocol", DONE, "c", "w", true,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_CHECKED, 0, GOOD }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "so does its giving up", DONE, "c", "w", true, { { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, WRONG },
/* What is wrong. */
{ "damaged payload is reported by who finds it", DONE, "c", "rw", false,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_CHECKED, ACTION_SEND_VERDICT, WRONG }, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "and by who sent it", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, WRONG }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, WRONG },
{ "a bad verdict cannot be taken back", DONE, "c", "w", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, REFUSED }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, WRONG },
{ "what breaks the protocol counts after the peer has gone", DONE, "s", "w", false,
  { CHECKS, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, WRONG },
{ "by a failure as well", DONE, "s", "w", false,
  { CHECKS, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FAILED, 0, WRONG }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, WRONG },
{ "a server that speaks first breaks the protocol", NEW, "c", "w", false,
  { { EVENT_MR_RECEIVED, ACTION_DISCONNECT, 0 }, { EVENT_ESTABLISHED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, WRONG },
{ "a verdict before our MSG_DONE breaks the protocol", OPERATING, "c", "r", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "a verdict without MSG_DONE does", DONE, "cs", "rw", false, { { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "MSG_DONE without MSG_MR does", CONNECTED, "cs", "rw", false, { { EVENT_DONE_RECEIVED, ACTION_DISCONNECT, 0 }, LEAVES }, WRONG },
{ "giving up before MSG_MR does", CONNECTED, "cs", "rw", false, { { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, WRONG },
{ "a repeated MSG_MR does", OPERATING, "cs", "rw", false, { { EVENT_MR_RECEIVED, ACTION_DISCONNECT, 0 }, LEAVES }, WRONG },
{ "a repeated MSG_DONE does", OPERATING, "cs", "rw", false, { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DONE_RECEIVED, ACTION_DISCONNECT, 0 }, LEAVES }, WRONG },
{ "giving up behind the verdict does", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, LOST }, { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, WRONG },
{ "an answer without a question is no check", DONE, "c", "w", false, { { EVENT_CHECKED, ACTION_DISCONNECT, GOOD }, LEAVES }, FAILED },
{ "a completion out of turn is a failure of this side's", OPERATING, "cs", "rw", false, { { EVENT_DONE_SENT, ACTION_DISCONNECT, 0 }, LEAVES }, FAILED },
{ "MSG_DONE before this side's MSG_MR does, even late", CONNECTED, "s", "rw", false,
  { { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_MR_RECEIVED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, WRONG },
/* How sessions close. */
{ "a read that completes while closing says no MSG_DONE", OPERATING, "s", "r", false,
  { { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 }, { EVENT_INTERRUPTED, 0, 0 }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, LEAVES }, STATUS_INTERRUPTED },
{ "a flush may come before the disconnection", DONE, "s", "r", false, { { EVENT_FLUSHED, ACTION_DISCONNECT, 0 }, LEAVES }, LOST },
{ "a flush while connecting waits for the reason", NEW, "c", "r", false,
  { { EVENT_FLUSHED, 0, 0 }, { EVENT_FAILED, ACTION_DISCONNECT, REFUSED }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, REFUSED },
{ "a silent host does not hold who connects", NEW, "cs", "rw", false,
  { { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, STATUS_TIMED_OUT },
{ "nor a silent peer a session: the third deadline is the last", OPERATING, "cs", "rw", false,
  { { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 } }, STATUS_TIMED_OUT },
{ "nor one whose work requests are all back: force would not help", OPERATING, "cs", "rw", false,
  { { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 } }, STATUS_TIMED_OUT },
{ "a check that has begun is waited for", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_INTERRUPTED, ACTION_DISCONNECT, 0 }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_CHECKED, ACTION_FINISH, GOOD } }, STATUS_INTERRUPTED },
{ "what it finds counts", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_CHECKED, ACTION_FINISH, WRONG } }, WRONG },
{ "a good verdict is one of two", OPERATING, "s", "w", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, IS_LEFT }, LOST },
{ "the first failure is the one reported", OPERATING, "c", "w", false,
  { { EVENT_FAILED, ACTION_DISCONNECT, REFUSED }, { EVENT_FAILED, 0, FAILED }, { EVENT_FAILED, 0, WRONG }, LEAVES }, REFUSED },
#define VERIFIED(end, how) { "a verified session stays one however it closes", DONE, "s", "r", false, \
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { end, ACTION_DISCONNECT, how }, { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, ACTION_FINISH, 0 } }, GOOD }
VERIFIED(EVENT_DEADLINE, GOOD), VERIFIED(EVENT_INTERRUPTED, GOOD), VERIFIED(EVENT_FLUSHED, GOOD),
VERIFIED(EVENT_DISCONNECTED, GOOD), VERIFIED(EVENT_FAILED, LOST),
/* Giving up: a file has shrunk, or a disk is full; what was posted before completes behind that. */
{ "a side that gives up says so and waits for the peer to go", OPERATING, "cs", "w", false,
  { { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_DONE_SENT, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
    { EVENT_GAVE_UP, 0, WRONG }, IS_LEFT }, FAILED },
{ "a peer that gives up is left at once", OPERATING, "cs", "r", false,
  { { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, { EVENT_OPERATION_COMPLETED, 0, 0 }, LEAVES }, REFUSED },
{ "why a peer gave up counts after it has gone", CONNECTED, "s", "r", false,
  { { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_MR_RECEIVED, 0, 0 }, { EVENT_PEER_GAVE_UP, 0, REFUSED }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, REFUSED },
{ "two that give up at once keep their reasons", OPERATING, "c", "w", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
    { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, FAILED },
{ "also if the peer had all", OPERATING, "c", "w", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_OPERATION_COMPLETED, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
    { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, REFUSED }, LEAVES }, FAILED },
{ "a server that gives up before it may speak does so behind its MSG_MR", CONNECTED, "s", "r", false,
  { { EVENT_GAVE_UP, 0, FAILED }, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_MR_SENT, ACTION_SEND_VERDICT, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
    { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, FAILED },
{ "who gives up while checking waits for the answer", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_GAVE_UP, 0, FAILED }, { EVENT_CHECKED, ACTION_SEND_VERDICT, GOOD }, { EVENT_VERDICT_RECEIVED, 0, GOOD },
    { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, FAILED },
{ "who has checked all while closing has nothing to give up", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, ACTION_CHECK, 0 }, { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_CHECKED, 0, GOOD }, { EVENT_GAVE_UP, 0, FAILED },
    { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, GOOD },
{ "a client may give up as soon as its MSG_MR is posted", NEW, "c", "rw", false,
  { { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 }, { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_MR_SENT, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, FAILED },
{ "who gives up behind its good verdict ends the connection", DONE, "s", "r", false, { CHECKS, { EVENT_GAVE_UP, ACTION_DISCONNECT, FAILED }, LEAVES }, FAILED },
{ "a peer without verdicts is left by whom gives up", OPERATING, "cs", "rw", true, { { EVENT_GAVE_UP, ACTION_DISCONNECT, FAILED }, { EVENT_OPERATION_COMPLETED, 0, 0 }, LEAVES }, FAILED },
{ "a client that connects does not know its peer yet", NEW, "c", "r", true, { { EVENT_GAVE_UP, ACTION_DISCONNECT, FAILED }, { EVENT_DRAINED, ACTION_FINISH, 0 } }, FAILED },
};
/* clang-format on */

static void play(const char *what, struct protocol *protocol, const struct moment *moments,
		 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct event event = { .type = moments[i].event, .status = moments[i].status };
		struct step step = protocol_step(*protocol, event);

		*protocol = step.protocol;
		if (step.actions != moments[i].actions)
			fail_msg("%s: moment %zu, %s: actions 0x%x, not 0x%x; %s, %s", what, i + 1,
				 event_name(event.type), step.actions, moments[i].actions,
				 local_stage_name(protocol->local),
				 remote_stage_name(protocol->remote));
	}
}

/* Plays a session up to its beginning. */
static struct protocol begin(const struct session *session, enum role role, char operation)
{
	bool writes = operation == 'w', client = role == ROLE_CLIENT;
	unsigned int post = writes ? OPERATE : ACTION_POST_OPERATION;
	const struct moment client_begins[] = {
		{ EVENT_ESTABLISHED, ACTION_SEND_MR, 0 },
		{ EVENT_MR_SENT, 0, 0 },
		{ EVENT_MR_RECEIVED, post, 0 },
	};
	const struct moment server_begins[] = {
		{ EVENT_ESTABLISHED, 0, 0 },
		{ EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 },
		{ EVENT_MR_SENT, post, 0 },
	};
	const struct moment ends[] = {
		{ EVENT_OPERATION_COMPLETED, writes ? 0 : ACTION_SEND_DONE, 0 },
		{ EVENT_DONE_SENT, 0, 0 },
	};
	struct protocol protocol = protocol_start(role, writes ? OPERATION_WRITE : OPERATION_READ);

	protocol.verifying = !session->tutorial;
	protocol.operates = operation != 'n';
	if (session->beginning >= CONNECTED)
		play(session->what, &protocol, client ? client_begins : server_begins,
		     session->beginning > CONNECTED ? 3
		     : client                       ? 2
						    : 1);
	if (session->beginning == DONE)
		play(session->what, &protocol, ends, 2);
	return protocol;
}

static void sessions_go_as_described(void **state)
{
	(void)state;
	for (const struct session *session = sessions; session < sessions + ENTRIES(sessions);
	     session++) {
		for (size_t i = 0; i < strlen(session->who) * strlen(session->operation); i++) {
			enum role role = session->who[i % strlen(session->who)] == 'c'
						 ? ROLE_CLIENT
						 : ROLE_SERVER;
			struct protocol protocol =
				begin(session, role, session->operation[i / strlen(session->who)]);

			play(session->what, &protocol, session->moments, ENTRIES(session->moments));
			if (protocol.phase != PHASE_FINISHED || protocol.status != session->status)
				fail_msg("%s: %s, status %d", session->what,
					 phase_name(protocol.phase), protocol.status);
		}
	}
}

static void all_that_came_is_checked_and_perhaps_verified(void **state)
{
	static const struct {
		enum local_stage local;
		bool gave_up, verifying;
		enum status check;
		bool checked, verified;
	} cases[] = {
		{ LOCAL_CHECKED, false, true, GOOD, true, true },
		{ LOCAL_CHECKING, false, true, GOOD, false, false },
		{ LOCAL_CHECKED, true, true, GOOD, false, false },
		{ LOCAL_CHECKED, false, false, GOOD, true, false },
		{ LOCAL_CHECKED, false, true, WRONG, true, false },
	};

	(void)state;
	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct protocol protocol = { .local = cases[i].local,
						   .gave_up = cases[i].gave_up,
						   .verifying = cases[i].verifying,
						   .check = cases[i].check };

		assert_int_equal(protocol_checked(&protocol), cases[i].checked);
		assert_int_equal(protocol_verified(&protocol), cases[i].verified);
	}
}

static void after_the_end_nothing_happens_any_more(void **state)
{
	const struct protocol finished = { .phase = PHASE_FINISHED, .status = STATUS_PEER_LOST };

	(void)state;
	for (enum event_type type = EVENT_ESTABLISHED; type < EVENT_TYPES; type++) {
		struct step step = protocol_step(finished, (struct event){ type, WRONG });

		assert_int_equal(step.actions, 0);
		assert_int_equal(step.protocol.phase, PHASE_FINISHED);
		assert_int_equal(step.protocol.status, STATUS_PEER_LOST);
		assert_int_equal(step.protocol.remote, REMOTE_SILENT);
	}
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
	for (enum event_type type = EVENT_ESTABLISHED; type < EVENT_TYPES; type++)
		assert_non_null(event_name(type));
	for (enum local_stage local = LOCAL_IDLE; local <= LOCAL_VERDICT_SENT; local++)
		assert_non_null(local_stage_name(local));
	for (enum remote_stage remote = REMOTE_SILENT; remote <= REMOTE_GAVE_UP; remote++)
		assert_non_null(remote_stage_name(remote));
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
		cmocka_unit_test(sessions_go_as_described),
		cmocka_unit_test(all_that_came_is_checked_and_perhaps_verified),
		cmocka_unit_test(after_the_end_nothing_happens_any_more),
		cmocka_unit_test(a_session_begins_with_nothing_done),
		cmocka_unit_test(every_value_has_a_name_of_its_own),
		cmocka_unit_test(a_probe_disturbs_a_silent_client_and_a_peer_that_may_have_left),
		cmocka_unit_test(windows_flow_from_msg_mr_until_both_verdicts_are_there),
		cmocka_unit_test(who_gave_up_confirms_nothing_behind_its_verdict),
	};

	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
