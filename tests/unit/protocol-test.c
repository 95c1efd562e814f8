// SPDX-License-Identifier: MIT
/*
 * The state machine of a session. First single sessions: the steps of both sides, and steps that a
 * peer must not take. Then any events in any order, with independent rules that must hold after
 * each one. explore-test.c proves that two honest sides end well in every order of events.
 */
#include "rdma-common.h"

#include "unit.h"
#include "protocol-bytes.h"

/* ---- Single sessions ---- */

/* An event, and the actions that it requires of this side. */
struct moment {
	enum event_type event;
	unsigned int actions;
	enum status status; /* status that the event carries */
};

/* The state in which a session of the table begins. */
enum beginning {
	NEW,
	CONNECTED, /* connected; a client has also sent its MSG_MR */
	OPERATING, /* the operation is posted; after a WRITE also MSG_DONE */
	DONE,      /* MSG_DONE is sent, the peer's is expected */
};

struct course {
	const char *what;
	enum beginning beginning;
	const char *who;       /* c: client, s: server */
	const char *operation; /* r: READ, w: WRITE */
	bool tutorial;         /* the peer is the tutorial's program, which sends no verdict */
	/*
	 * Unused elements are EVENT_ESTABLISHED, which changes nothing once the session has ended.
	 */
	struct moment moments[12];
	enum status status; /* expected status at the end */
};

#define GOOD    STATUS_SUCCESS
#define WRONG   STATUS_CONTENTS_WRONG
#define FAILED  STATUS_LOCAL_FAILURE
#define REFUSED STATUS_REFUSED
#define LOST    STATUS_PEER_LOST

/* clang-format off */
#define CHECKS     { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERIFIED, ACTION_SEND_VERDICT, GOOD }
#define LEAVES     { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 }
#define IS_LEFT    { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_FLUSHED, 0, 0 }, { EVENT_DRAINED, 0, 0 }

static const struct course sessions[] = {
{ "a client delivers, verifies and disconnects", DONE, "c", "rw", false,
  { CHECKS, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, GOOD },
{ "a server delivers, verifies and waits for the client to disconnect", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, GOOD },
{ "MSG_DONE waits for a READ", OPERATING, "cs", "r", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DONE_SENT, 0, 0 }, { EVENT_VERIFIED, ACTION_SEND_VERDICT, GOOD }, IS_LEFT }, LOST },
{ "the peer's MSG_DONE may come before the completion of this side's MSG_MR", NEW, "s", "w", false,
  { { EVENT_ESTABLISHED, 0, 0 }, { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_MR_SENT, ACTION_POST_OPERATION, 0 }, { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DONE_SENT, 0, 0 }, { EVENT_VERIFIED, ACTION_SEND_VERDICT, WRONG }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, IS_LEFT }, WRONG },
{ "a message may overtake ESTABLISHED", NEW, "s", "w", false,
  { { EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 }, { EVENT_ESTABLISHED, 0, 0 }, { EVENT_MR_SENT, ACTION_POST_OPERATION, 0 }, { EVENT_FAILED, ACTION_DISCONNECT, STATUS_INTERRUPTED }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 } }, STATUS_INTERRUPTED },
{ "the server's MSG_MR may come before the completion of the client's", NEW, "c", "w", false,
  { { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 }, { EVENT_MR_RECEIVED, 0, 0 }, { EVENT_MR_SENT, ACTION_POST_OPERATION, 0 }, { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DONE_SENT, 0, 0 }, IS_LEFT }, LOST },
/* The tutorial's program disconnects after its last completion and message. */
{ "the tutorial's program gets no verdict and disconnects itself", DONE, "cs", "rw", true,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERIFIED, 0, GOOD }, IS_LEFT }, GOOD },
{ "the disconnect of the tutorial's program may overtake the payload", OPERATING, "s", "r", true,
  { { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DONE_SENT, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_VERIFIED, 0, GOOD } }, GOOD },
{ "the wait for MSG_DONE after the peer's disconnect ends when MSG_DONE fails", OPERATING, "s", "r", true,
  { { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_FAILED, ACTION_DISCONNECT, LOST }, { EVENT_DRAINED, 0, 0 } }, LOST },
{ "the wait for MSG_DONE after the peer's disconnect ends at the deadline", OPERATING, "s", "r", true,
  { { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DEADLINE, ACTION_DISCONNECT | ACTION_FORCE_ERROR, 0 }, { EVENT_DRAINED, 0, 0 } }, LOST },
{ "a tutorial's program that stays connected is disconnected at the deadline", DONE, "c", "r", true,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERIFIED, 0, GOOD }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 } }, STATUS_TIMED_OUT },
/* Sessions that fail. */
{ "the receiver of a damaged payload reports it", DONE, "c", "rw", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERIFIED, ACTION_SEND_VERDICT, WRONG }, { EVENT_VERDICT_SENT, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "the sender of a damaged payload reports it", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, WRONG }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, WRONG },
{ "giving up after the verdict breaks the protocol", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, LOST }, { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, WRONG },
{ "an unexpected completion is a local failure", CONNECTED, "cs", "rw", false, { { EVENT_DONE_SENT, ACTION_DISCONNECT, 0 }, LEAVES }, FAILED },
/* How sessions end. */
{ "connecting to a silent host ends at the deadline", NEW, "cs", "rw", false,
  { { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 } }, STATUS_TIMED_OUT },
{ "a session with a silent peer ends at the third deadline", OPERATING, "cs", "rw", false,
  { { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, 0, 0 } }, STATUS_TIMED_OUT },
{ "a session ends after the verification that has begun", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_FAILED, ACTION_DISCONNECT, STATUS_INTERRUPTED }, { EVENT_DISCONNECTED, 0, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_VERIFIED, 0, GOOD } }, STATUS_INTERRUPTED },
{ "a good verdict on a payload that was not sent breaks the protocol", CONNECTED, "c", "rw", false,
  { { EVENT_MR_RECEIVED, ACTION_POST_OPERATION, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, ACTION_DISCONNECT, GOOD }, LEAVES }, WRONG },
{ "one good verdict is not enough", OPERATING, "s", "w", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_RECEIVED, 0, GOOD }, IS_LEFT }, LOST },
{ "the first failure is reported", OPERATING, "c", "w", false,
  { { EVENT_FAILED, ACTION_DISCONNECT, REFUSED }, { EVENT_FAILED, 0, FAILED }, { EVENT_FAILED, 0, WRONG }, LEAVES }, REFUSED },
#define VERIFIED(end, how) { "a verified session succeeds, whatever ends it", DONE, "s", "r", false, \
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { end, ACTION_DISCONNECT, how }, { EVENT_DEADLINE, ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, 0, 0 } }, GOOD }
VERIFIED(EVENT_DEADLINE, GOOD), VERIFIED(EVENT_FAILED, STATUS_INTERRUPTED), VERIFIED(EVENT_FLUSHED, GOOD),
VERIFIED(EVENT_DISCONNECTED, GOOD), VERIFIED(EVENT_FAILED, LOST),
/* Posting a request fails, possibly because the peer has disconnected. */
#define REFUSED_SEND { EVENT_SEND_REFUSED, 0, 0 }
{ "a rejected request means that the peer disconnected if a flush follows", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_FLUSHED, ACTION_DISCONNECT, 0 }, { EVENT_DRAINED, 0, 0 }, { EVENT_DISCONNECTED, 0, 0 } }, LOST },
{ "a rejected request means that the peer disconnected if DISCONNECTED follows", CONNECTED, "cs", "rw", false, { REFUSED_SEND, IS_LEFT }, LOST },
{ "a rejected request means that the peer is lost if its adapter did not answer", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_FAILED, ACTION_DISCONNECT, LOST }, LEAVES }, LOST },
{ "a rejected request does not matter if both verdicts arrive", DONE, "s", "rw", false,
  { CHECKS, REFUSED_SEND, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_VERDICT_SENT, ACTION_DISCONNECT, 0 }, LEAVES }, GOOD },
{ "a rejected verdict is a local failure", DONE, "s", "rw", false,
  { CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, REFUSED_SEND, { EVENT_DEADLINE, ACTION_DISCONNECT | ACTION_FORCE_ERROR, 0 }, LEAVES }, FAILED },
{ "a rejected request without an explanation is a local failure", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_DEADLINE, ACTION_DISCONNECT | ACTION_FORCE_ERROR, 0 }, LEAVES }, FAILED },
{ "a rejected request without any completion is a local failure", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_DEADLINE, ACTION_DISCONNECT | ACTION_FORCE_ERROR, 0 }, { EVENT_DEADLINE, 0, 0 } }, FAILED },
{ "a failed work request explains the rejected one", OPERATING, "cs", "rw", false, { REFUSED_SEND, { EVENT_FAILED, ACTION_DISCONNECT, REFUSED }, LEAVES }, REFUSED },
{ "a local failure explains a rejected request", OPERATING, "cs", "rw", false, { REFUSED_SEND, { EVENT_FAILED, ACTION_DISCONNECT, FAILED }, LEAVES }, FAILED },
{ "a message that breaks the protocol explains a rejected request", OPERATING, "cs", "rw", false, { REFUSED_SEND, { EVENT_FAILED, ACTION_DISCONNECT, WRONG }, LEAVES }, WRONG },
{ "a signal ends the wait for an explanation", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_FAILED, ACTION_DISCONNECT, STATUS_INTERRUPTED }, LEAVES }, STATUS_INTERRUPTED },
{ "a failure after this side's disconnect does not explain a rejected request", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_DEADLINE, ACTION_DISCONNECT | ACTION_FORCE_ERROR, 0 }, { EVENT_FAILED, 0, REFUSED }, LEAVES }, FAILED },
{ "a drained session still disconnects at the deadline", OPERATING, "cs", "rw", false,
  { REFUSED_SEND, { EVENT_DRAINED, 0, 0 }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, { EVENT_DISCONNECTED, 0, 0 } }, FAILED },
{ "a rejected receive does not matter if all messages arrive", DONE, "s", "rw", false,
  { { EVENT_RECEIVE_REFUSED, 0, 0 }, CHECKS, { EVENT_VERDICT_RECEIVED, 0, GOOD }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, GOOD },
{ "a rejected receive is a local failure if a message is missing", DONE, "cs", "rw", false,
  { { EVENT_RECEIVE_REFUSED, 0, 0 }, { EVENT_DEADLINE, ACTION_DISCONNECT, 0 }, LEAVES }, FAILED },
{ "a rejected receive is not the reason if the peer disconnected", DONE, "cs", "rw", false, { { EVENT_RECEIVE_REFUSED, 0, 0 }, IS_LEFT }, LOST },
/*
 * Giving up: a file has shrunk, or a disk is full. Requests that were posted earlier still
 * complete.
 */
{ "a side that gives up reports it and waits for the peer to disconnect", OPERATING, "cs", "w", false,
  { { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_DONE_SENT, 0, 0 }, { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 },
    { EVENT_GAVE_UP, 0, WRONG }, IS_LEFT }, FAILED },
{ "the verdict of a side that gave up is its last request", OPERATING, "cs", "r", false,
  { { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, FAILED },
{ "a side disconnects at once when the peer gives up", OPERATING, "cs", "r", false,
  { { EVENT_PEER_GAVE_UP, ACTION_DISCONNECT, REFUSED }, LEAVES }, REFUSED },
{ "the peer's reason to give up counts after it has disconnected", CONNECTED, "s", "r", false,
  { { EVENT_DISCONNECTED, ACTION_DISCONNECT, 0 }, { EVENT_MR_RECEIVED, 0, 0 }, { EVENT_PEER_GAVE_UP, 0, REFUSED }, { EVENT_DRAINED, 0, 0 } }, REFUSED },
{ "a side that gives up while it verifies waits for the result", DONE, "s", "r", false,
  { { EVENT_DONE_RECEIVED, 0, 0 }, { EVENT_GAVE_UP, 0, FAILED }, { EVENT_VERIFIED, ACTION_SEND_VERDICT, GOOD }, { EVENT_VERDICT_RECEIVED, 0, GOOD },
    { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, FAILED },
{ "a client may give up as soon as its MSG_MR is posted", NEW, "c", "rw", false,
  { { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 }, { EVENT_GAVE_UP, ACTION_SEND_VERDICT, FAILED }, { EVENT_MR_SENT, 0, 0 }, { EVENT_VERDICT_SENT, 0, 0 }, IS_LEFT }, FAILED },
};
/* clang-format on */

static void play(const char *what, struct protocol *protocol, const struct moment *moments,
		 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum event_type type = moments[i].event;
		struct event event = { type, moments[i].status, cause_of(type, moments[i].status) };
		struct step step = protocol_step(*protocol, event);

		*protocol = step.protocol;
		if (step.actions != moments[i].actions)
			fail_msg("%s: moment %zu, %s: actions 0x%x, not 0x%x; %s, %s", what, i + 1,
				 event_name(event.type), step.actions, moments[i].actions,
				 local_stage_name(protocol->local),
				 remote_stage_name(protocol->remote));
	}
}

/* Return a session in the state in which it begins. */
static struct protocol begin(const struct course *session, enum role role, char operation)
{
	bool writes = operation == 'w', client = role == ROLE_CLIENT;
	const struct moment client_begins[] = { { EVENT_ESTABLISHED, ACTION_SEND_MR, 0 },
						{ EVENT_MR_SENT, 0, 0 },
						{ EVENT_MR_RECEIVED, ACTION_POST_OPERATION, 0 } };
	const struct moment server_begins[] = { { EVENT_ESTABLISHED, 0, 0 },
						{ EVENT_MR_RECEIVED, ACTION_SEND_MR, 0 },
						{ EVENT_MR_SENT, ACTION_POST_OPERATION, 0 } };
	const struct moment ends[] = { { EVENT_DONE_DUE, ACTION_SEND_DONE, 0 },
				       { EVENT_DONE_SENT, 0, 0 } };
	size_t connected = client ? 2 : 1;
	struct protocol protocol = protocol_start(role);

	protocol.verifying = !session->tutorial;
	if (session->beginning >= CONNECTED)
		play(session->what, &protocol, client ? client_begins : server_begins,
		     session->beginning > CONNECTED ? 3 : connected);
	if (session->beginning == OPERATING && writes)
		play(session->what, &protocol, ends, 1);
	if (session->beginning == DONE)
		play(session->what, &protocol, ends, 2);
	return protocol;
}

static void check_session(const struct course *session, enum role role, char operation)
{
	struct protocol protocol = begin(session, role, operation);

	play(session->what, &protocol, session->moments, ENTRIES(session->moments));
	if (protocol.phase != PHASE_FINISHED || protocol.result.status != session->status)
		fail_msg("%s: %s, status %d", session->what, phase_name(protocol.phase),
			 protocol.result.status);
}

TEST(each_listed_session_performs_exactly_the_listed_actions)
{
	EACH_ROW (i, sessions) {
		for (const char *who = sessions[i].who; *who; who++) {
			for (const char *how = sessions[i].operation; *how; how++)
				check_session(&sessions[i], *who == 'c' ? ROLE_CLIENT : ROLE_SERVER,
					      *how);
		}
	}
}

TEST(a_payload_is_verified_only_with_a_digest_and_without_a_failure)
{
	static const struct {
		struct protocol protocol;
		bool ended, matched;
	} cases[] = {
		/* clang-format off */
		{ { .local = LOCAL_VERIFIED, .verifying = true }, true, true },
		{ { .local = LOCAL_VERIFYING, .verifying = true }, false, false },
		{ { .local = LOCAL_VERIFIED, .verifying = true, .gave_up = true }, false, false },
		{ { .local = LOCAL_VERIFIED }, true, false },
		{ { .local = LOCAL_VERIFIED, .verifying = true, .own_verdict.status = WRONG }, true, false },
		/* clang-format on */
	};

	EACH_ROW (i, cases) {
		assert_int_equal(verification_ended(&cases[i].protocol), cases[i].ended);
		assert_int_equal(digest_matched(&cases[i].protocol), cases[i].matched);
	}
}

TEST(new_session_is_connecting_and_has_sent_nothing)
{
	const struct protocol protocol = protocol_start(ROLE_SERVER);
	struct protocol_bytes begun, nothing = { .phase = PHASE_CONNECTING };

	protocol_pack(&begun, &protocol);
	assert_memory_equal(&begun, &nothing, sizeof(nothing));
	assert_true(!protocol.verifying);
}

TEST(every_event_and_stage_has_a_name)
{
	assert_string_equal(event_name(EVENT_DEADLINE), "EVENT_DEADLINE");
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

/* ---- Keepalives ---- */

/* Each stage at which a keepalive begins or ceases to disturb, and the stage next to it. */
TEST(a_keepalive_disturbs_a_silent_iwarp_client_and_a_peer_that_may_have_disconnected)
{
	static const struct {
		enum role role;
		bool iwarp, verifying;
		enum local_stage local;
		enum remote_stage remote;
		bool disturbs;
	} cases[] = {
		/* over InfiniBand and RoCE the peer stays until its last message has arrived */
		{ ROLE_SERVER, false, true, LOCAL_IDLE, REMOTE_SILENT, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_POSTED, REMOTE_VERDICT, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_SENT, REMOTE_DONE, false },
		{ ROLE_CLIENT, false, true, LOCAL_VERDICT_SENT, REMOTE_VERDICT, true },
		{ ROLE_SERVER, false, true, LOCAL_VERDICT_SENT, REMOTE_VERDICT, true },
		/* over iWARP the peer may disconnect as soon as it has this side's last message */
		{ ROLE_CLIENT, true, true, LOCAL_VERDICT_POSTED, REMOTE_VERDICT, false },
		{ ROLE_CLIENT, true, true, LOCAL_VERDICT_SENT, REMOTE_DONE, true },
		{ ROLE_SERVER, true, true, LOCAL_DONE_SENT, REMOTE_DONE, false },
		/* without verdicts, MSG_DONE is the last message */
		{ ROLE_CLIENT, true, false, LOCAL_DONE_POSTED, REMOTE_DONE, false },
		{ ROLE_CLIENT, true, false, LOCAL_DONE_SENT, REMOTE_MR, true },
		/* over iWARP the client must send first */
		{ ROLE_SERVER, true, true, LOCAL_IDLE, REMOTE_SILENT, true },
		{ ROLE_SERVER, true, true, LOCAL_MR_SENT, REMOTE_MR, false },
		{ ROLE_CLIENT, true, true, LOCAL_MR_SENT, REMOTE_SILENT, false },
	};

	EACH_ROW (i, cases) {
		struct protocol protocol = protocol_start(cases[i].role);

		protocol.phase = PHASE_EXCHANGING;
		protocol.verifying = cases[i].verifying;
		protocol.local = cases[i].local;
		protocol.remote = cases[i].remote;
		assert_int_equal(keepalive_disturbs(&protocol, cases[i].iwarp), cases[i].disturbs);
	}
}

/* ---- MSG_WINDOW ---- */

/* Each stage at which a window may be sent, or may come, for the first or the last time. */
TEST(a_side_sends_windows_from_its_msg_mr_until_all_is_stored_or_it_gives_up)
{
	static const struct {
		bool gave_up;
		enum local_stage local;
		enum remote_stage remote;
		bool may_be_sent, may_come;
	} cases[] = {
		{ false, LOCAL_IDLE, REMOTE_SILENT, false, false },
		{ false, LOCAL_MR_POSTED, REMOTE_SILENT, true, false },
		{ false, LOCAL_MR_POSTED, REMOTE_MR, true, true },
		/* windows continue while either side still stores */
		{ false, LOCAL_VERIFYING, REMOTE_VERDICT, true, true },
		{ false, LOCAL_VERDICT_POSTED, REMOTE_MR, true, true },
		{ false, LOCAL_VERDICT_SENT, REMOTE_DONE, true, true },
		{ false, LOCAL_VERIFIED, REMOTE_VERDICT, false, true },
		{ false, LOCAL_VERIFIED, REMOTE_DONE, true, true },
		/*
		 * a side that gave up sends no more windows: below, first the peer gave up, then
		 * this side
		 */
		{ false, LOCAL_DONE_SENT, REMOTE_GAVE_UP, true, false },
		{ true, LOCAL_VERDICT_POSTED, REMOTE_MR, false, true },
	};
	struct protocol protocol = protocol_start(ROLE_SERVER);

	protocol.verifying = true;
	EACH_ROW (i, cases) {
		protocol.phase = PHASE_EXCHANGING;
		protocol.gave_up = cases[i].gave_up;
		protocol.local = cases[i].local;
		protocol.remote = cases[i].remote;
		assert_int_equal(window_may_be_sent(&protocol), cases[i].may_be_sent);
		assert_int_equal(window_may_come(&protocol), cases[i].may_come);
		protocol.phase = PHASE_CLOSING;
		assert_false(window_may_be_sent(&protocol));
	}
}

/* ---- Any events in any order ---- */

/* A side, and the events and actions that were observed from outside. */
struct world {
	struct protocol_bytes side;
	uint8_t posted;               /* posted actions: enum action, or-ed */
	uint8_t asked;                /* verification was requested */
	uint8_t checked, check_good;  /* verification has ended; its result was good */
	uint8_t judged, verdict_good; /* the peer's first verdict has arrived; it was good */
	uint8_t deadlines;            /* number of consecutive deadlines */
};

struct label {
	uint8_t event;
};

struct setting {
	enum role role;
	bool verifying;
};

enum violation {
	VIOLATION_NONE,
	VIOLATION_ENDLESS,
	VIOLATION_FOUND,
};

static const char *const violation_names[] = { "none", "no progress", "a rule is broken" };

#include "explorer.h"

#define POSTING_ACTIONS \
	(ACTION_SEND_MR | ACTION_POST_OPERATION | ACTION_SEND_DONE | ACTION_SEND_VERDICT)

/* Every event, with each status that makes a difference. */
static const struct {
	enum event_type type;
	enum status status;
} events[] = {
	/* clang-format off */
	{ EVENT_ESTABLISHED, GOOD }, { EVENT_MR_RECEIVED, GOOD }, { EVENT_DONE_RECEIVED, GOOD },
	{ EVENT_VERDICT_RECEIVED, GOOD }, { EVENT_VERDICT_RECEIVED, WRONG },
	{ EVENT_MR_SENT, GOOD }, { EVENT_DONE_DUE, GOOD }, { EVENT_DONE_SENT, GOOD }, { EVENT_VERDICT_SENT, GOOD },
	{ EVENT_VERIFIED, GOOD }, { EVENT_VERIFIED, WRONG },
	{ EVENT_FAILED, FAILED }, { EVENT_FAILED, STATUS_UNRESOLVED }, { EVENT_FAILED, REFUSED },
	{ EVENT_FAILED, STATUS_TIMED_OUT }, { EVENT_FAILED, LOST }, { EVENT_FAILED, WRONG },
	{ EVENT_SEND_REFUSED, GOOD }, { EVENT_RECEIVE_REFUSED, GOOD },
	{ EVENT_FLUSHED, GOOD }, { EVENT_DISCONNECTED, GOOD }, { EVENT_DRAINED, GOOD }, { EVENT_DEADLINE, GOOD }, { EVENT_FAILED, STATUS_INTERRUPTED },
	{ EVENT_PEER_GAVE_UP, WRONG }, { EVENT_PEER_GAVE_UP, REFUSED }, { EVENT_GAVE_UP, FAILED },
	/* clang-format on */
};

/* Return -1: a run may be endless, because a peer may repeat itself. */
static int distance_from_start(UNUSED const struct world *world)
{
	return -1;
}

static void print_setting(void)
{
	print_message("%s, verifying %d\n", setting.role == ROLE_CLIENT ? "client" : "server",
		      setting.verifying);
}

static void print_node(const struct node *node)
{
	enum event_type type = events[node->label.event].type;

	print_message("%s, status %d: %s, %s, %s, status %d", event_name(type),
		      events[node->label.event].status,
		      phase_name((enum phase)node->world.side.phase),
		      local_stage_name((enum local_stage)node->world.side.local),
		      remote_stage_name((enum remote_stage)node->world.side.remote),
		      node->world.side.status);
}

/* An event at a side, and the state before and after it. */
struct occasion {
	struct world *world;
	struct protocol before, after;
	struct event event;
	unsigned int actions;
};

#define REQUIRE(condition) require(condition, #condition)

static void require(bool condition, const char *words)
{
	if (condition)
		return;
	print_message("broken rule: %s\n", words);
	violate(VIOLATION_FOUND);
}

/* Check that the operation is posted only after both MSG_MRs, and MSG_DONE only when it is due. */
static void watch_done(const struct occasion *occasion)
{
	const struct protocol *after = &occasion->after;
	bool operation = occasion->actions & ACTION_POST_OPERATION;
	bool done = occasion->actions & ACTION_SEND_DONE;

	if (operation) {
		REQUIRE(after->remote >= REMOTE_MR);
		REQUIRE(occasion->event.type == EVENT_MR_SENT ||
			occasion->event.type == EVENT_MR_RECEIVED);
	}
	if (done)
		REQUIRE(occasion->event.type == EVENT_DONE_DUE);
}

/*
 * Check that each request is posted at most once, in the order below, and only while the connection
 * stands. A side that gave up may skip the requests between MSG_MR and its verdict.
 */
static void watch_posts(const struct occasion *occasion)
{
	static const unsigned int order[] = { ACTION_SEND_MR, ACTION_POST_OPERATION,
					      ACTION_SEND_DONE, ACTION_SEND_VERDICT };
	const struct protocol *before = &occasion->before, *after = &occasion->after;
	unsigned int earlier = 0;

	EACH_ROW (i, order) {
		if (occasion->actions & order[i]) {
			bool early = order[i] == ACTION_SEND_VERDICT && after->gave_up;

			REQUIRE(!(occasion->world->posted & (order[i] | ACTION_SEND_VERDICT)));
			REQUIRE(early ? occasion->world->posted & ACTION_SEND_MR
				      : (occasion->world->posted & earlier) == earlier);
			occasion->world->posted |= (uint8_t)order[i];
		}
		earlier |= order[i];
	}
	if (occasion->actions & POSTING_ACTIONS) {
		REQUIRE(after->phase == PHASE_EXCHANGING);
		REQUIRE(before->phase <= PHASE_EXCHANGING);
		REQUIRE(!(occasion->actions & ACTION_DISCONNECT));
	}
}

/*
 * Check that a message counts only if this side has posted everything that must precede the
 * message. Any other message breaks the protocol, even if the peer has disconnected since, unless
 * the session already has a result.
 */
static void watch_messages(const struct occasion *occasion)
{
	const struct protocol *before = &occasion->before, *after = &occasion->after;
	bool counts = after->remote != before->remote || before->phase == PHASE_FINISHED;
	bool verified = before->verifying ? before->remote == REMOTE_VERDICT : before->disconnected;
	bool settled =
		(before->phase == PHASE_CLOSING && before->result.status != STATUS_PEER_LOST) ||
		(before->local >= LOCAL_VERIFIED && verified) || before->gave_up;

	if (occasion->event.type >= EVENT_MR_RECEIVED &&
	    occasion->event.type <= EVENT_PEER_GAVE_UP && !counts) {
		REQUIRE(after->result.status != STATUS_PEER_LOST && after->phase >= PHASE_CLOSING);
		REQUIRE(settled || after->result.status == STATUS_CONTENTS_WRONG);
	}
	if (after->remote >= REMOTE_MR)
		REQUIRE(after->role == ROLE_SERVER || occasion->world->posted & ACTION_SEND_MR);
	if (after->remote == REMOTE_DONE || after->remote == REMOTE_VERDICT)
		REQUIRE(occasion->world->posted & ACTION_SEND_MR);
	if (after->remote >= REMOTE_VERDICT)
		REQUIRE(after->verifying);
	if (after->remote >= REMOTE_VERDICT && before->remote < REMOTE_VERDICT)
		REQUIRE(occasion->event.type == EVENT_PEER_GAVE_UP || before->gave_up ||
			occasion->world->posted & ACTION_SEND_DONE);
}

/* Record this side's result and the peer's first verdict, which success depends on. */
static void watch_findings(const struct occasion *occasion)
{
	const struct protocol *before = &occasion->before;

	if (before->phase == PHASE_FINISHED)
		return;
	if (occasion->event.type == EVENT_VERIFIED && occasion->world->asked &&
	    !occasion->world->checked) {
		occasion->world->checked = true;
		occasion->world->check_good = occasion->event.status == STATUS_SUCCESS;
	}
	if (occasion->event.type == EVENT_VERDICT_RECEIVED && before->remote == REMOTE_DONE &&
	    !occasion->world->judged) {
		occasion->world->judged = true;
		occasion->world->verdict_good = occasion->event.status == STATUS_SUCCESS;
	}
}

/*
 * Return true until this side disconnects. Until its deadline it waits for the reason after a post
 * has failed, and, if it lingers, for the completion of its MSG_DONE.
 */
static bool is_before_disconnect(const struct protocol *protocol)
{
	return protocol->phase < PHASE_CLOSING ||
	       (protocol->phase < PHASE_FINISHED && (protocol->post_failed || protocol->lingers) &&
		!protocol->overdue);
}

static void watch_phases(const struct occasion *occasion)
{
	const struct protocol *before = &occasion->before, *after = &occasion->after;

	REQUIRE(after->role == before->role && after->verifying == before->verifying);
	REQUIRE(after->phase >= before->phase && after->local >= before->local &&
		after->remote >= before->remote);
	REQUIRE(after->connected >= before->connected &&
		after->disconnected >= before->disconnected && after->drained >= before->drained &&
		after->overdue >= before->overdue);
	if (before->phase == PHASE_FINISHED)
		REQUIRE(occasion->actions == 0 && after->result.status == before->result.status &&
			after->remote == before->remote);
	REQUIRE(!(occasion->actions & ACTION_DISCONNECT) ==
		!(is_before_disconnect(after) < is_before_disconnect(before)));
	if (after->phase == PHASE_FINISHED && after->post_failed)
		REQUIRE(after->result.status != STATUS_PEER_LOST);
	if (before->phase == PHASE_CLOSING && before->result.status != STATUS_PEER_LOST)
		REQUIRE(after->result.status == before->result.status);
	if (occasion->actions & ACTION_FORCE_ERROR)
		REQUIRE(before->phase == PHASE_CLOSING && after->phase == PHASE_CLOSING);
}

static void watch_outcome(const struct occasion *occasion)
{
	const struct protocol *after = &occasion->after;

	if (after->phase != PHASE_FINISHED || after->result.status != STATUS_SUCCESS)
		return;
	REQUIRE(!after->gave_up);
	REQUIRE(occasion->world->checked && occasion->world->check_good);
	if (after->verifying)
		REQUIRE(occasion->world->judged && occasion->world->verdict_good);
	else
		REQUIRE(after->disconnected);
}

/*
 * Check that the cause of a result explains its status, and that the text of an event that sets the
 * status of the session is kept. A verdict that comes out of turn sets it without a text.
 */
static void watch_causes(const struct occasion *occasion)
{
	const struct protocol *before = &occasion->before, *after = &occasion->after;
	bool verdict = occasion->event.type == EVENT_VERDICT_RECEIVED ||
		       occasion->event.type == EVENT_PEER_GAVE_UP;
	struct protocol_bytes bytes;

	protocol_pack(&bytes, after);
	REQUIRE(causes_fit(&bytes));
	REQUIRE(needs_cause(after, after->result.cause));
	if (occasion->event.status != STATUS_SUCCESS &&
	    after->result.status == occasion->event.status &&
	    after->result.status != before->result.status &&
	    (!verdict || after->remote != before->remote))
		REQUIRE(after->result.cause == occasion->event.cause);
	if (after->phase == PHASE_FINISHED && after->post_failed &&
	    after->result.status == STATUS_LOCAL_FAILURE)
		REQUIRE(after->result.cause == STATUS_LOCAL_FAILURE);
}

/* Check that a flush that does not matter changes nothing. */
static void watch_flushes(const struct occasion *occasion)
{
	struct protocol_bytes before, after;

	if (occasion->event.type != EVENT_FLUSHED || flush_matters(&occasion->before))
		return;
	protocol_pack(&before, &occasion->before);
	protocol_pack(&after, &occasion->after);
	REQUIRE(occasion->actions == 0 && !memcmp(&before, &after, sizeof(before)));
}

static void watch(const struct occasion *occasion)
{
	struct world *world = occasion->world;

	watch_phases(occasion);
	watch_done(occasion);
	watch_posts(occasion);
	watch_messages(occasion);
	watch_findings(occasion);
	watch_outcome(occasion);
	watch_causes(occasion);
	watch_flushes(occasion);
	world->asked |= occasion->after.local == LOCAL_VERIFYING;
	world->deadlines = occasion->event.type == EVENT_DEADLINE ? world->deadlines + 1 : 0;
	if (world->deadlines >= 3)
		REQUIRE(occasion->after.phase == PHASE_FINISHED);
	if (world->deadlines > 3)
		world->deadlines = 3;
}

/* Return false for an event that the caller must not feed in this state (protocol.h). */
static bool may_happen(const struct protocol *protocol, enum event_type type)
{
	switch (type) {
	case EVENT_DONE_DUE:
		return operation_runs(protocol);
	case EVENT_VERIFIED:
		return protocol->local == LOCAL_VERIFYING;
	case EVENT_SEND_REFUSED:
	case EVENT_RECEIVE_REFUSED:
		return protocol->phase < PHASE_CLOSING;
	default:
		return true;
	}
}

static void try_event(const struct world *world, struct protocol protocol, uint8_t number)
{
	enum event_type type = events[number].type;
	enum status status = events[number].status;
	struct event event = { type, status, cause_of(type, status) };
	struct step step = protocol_step(protocol, event);
	struct world next = *world;
	const struct occasion occasion = { &next, protocol, step.protocol, event, step.actions };

	watch(&occasion);
	protocol_pack(&next.side, &step.protocol);
	arrive(&next, (struct label){ number });
}

static void make_successors(const struct world *world)
{
	struct protocol protocol = protocol_start(setting.role);

	protocol.verifying = setting.verifying;
	protocol_unpack(&world->side, &protocol);
	EACH_ROW (i, events) {
		if (may_happen(&protocol, events[i].type))
			try_event(world, protocol, (uint8_t)i);
	}
}

TEST(the_rules_of_a_session_hold_for_any_events_in_any_order)
{
	for (int kind = 0; kind < 4; kind++) {
		struct protocol beginning;
		struct world start;

		setting = (struct setting){ kind & 1 ? ROLE_SERVER : ROLE_CLIENT, kind & 2 };
		beginning = protocol_start(setting.role);
		memset(&start, 0, sizeof(start));
		protocol_pack(&start.side, &beginning);
		if (!explore_from(&start)) {
			print_history();
			fail();
		}
	}
	finish();
}

RUN_TESTS(NULL, NULL)
