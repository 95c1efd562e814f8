// SPDX-License-Identifier: MIT
/*
 * Explore every order of events in a session of two programs. Two state machines, each with a send
 * queue, run against each other, with everything that verbs and the connection manager may do in
 * between.
 *
 * The model assumes this of the transport, and nothing more:
 * - messages arrive in the order of posting; a WRITE is placed before a later message arrives; a
 *   READ is not ordered with a later message;
 * - completions come in the order of posting, at any time after delivery; soft-iWARP may complete
 *   every request but a READ as soon as it is posted;
 * - received messages, this side's completions and connection manager events come in any order
 *   relative to each other; ESTABLISHED comes before DISCONNECTED; a server may get only
 *   DISCONNECTED;
 * - messages that are on their way when a side disconnects arrive before the peer is notified;
 *   requests left in the queue pair are flushed, receives after every message that arrives;
 * - acknowledgments are lost only after a fault or, over Soft-RoCE, this side's disconnection;
 * - soft-iWARP never completes a READ that is outstanding when the connection ends.
 *
 * It assumes this of the rest of the program:
 * - a helper, which reads or stores a payload, may fail at any time until the incoming payload is
 *   verified (EVENT_GAVE_UP); a second helper may fail after the first one;
 * - a source ends sooner or later, so MSG_DONE is due at any time after the operation is posted or,
 *   unless done_follows_at_once(), after it has completed.
 *
 * The exploration also runs with broken state machines, to show that it finds violations.
 * protocol-test.c proves what a single state machine may post, and when.
 */
#include "rdma-common.h"

#include "unit.h"
#include "protocol-bytes.h"

/* ---- The world: both sides, and everything between them ---- */

/* The work requests of a side, in the order of posting. */
enum request {
	REQUEST_MR,
	REQUEST_OPERATION,
	REQUEST_DONE,
	REQUEST_VERDICT,
	REQUESTS
};

/* the progress of a work request, as bit flags */
enum fate {
	FATE_POSTED = 1 << 0,
	FATE_EXECUTED = 1 << 1, /* message delivered, or payload at its destination */
	FATE_RETURNED = 1 << 2, /* its completion was handled */
	FATE_DEAD = 1 << 3,     /* will never be executed */
};

/* The progress of the notification that the connection has ended. It grows until destroy(). */
enum notice {
	NOTICE_NONE,
	NOTICE_COMING,
	NOTICE_LOST,
	NOTICE_HANDLED,
};

/* The progress of ACTION_DISCONNECT. It grows until destroy(). */
enum disconnection {
	DISCONNECTION_NONE,
	DISCONNECTION_ASKED,
	DISCONNECTION_DONE,
};

/* the time and effect of EVENT_GAVE_UP at a side */
enum giving_up {
	GIVING_UP_NONE,
	GIVING_UP_LATE, /* the side was already closing */
	/* no verdict is sent: the client is not connected, or the peer is the tutorial's program */
	GIVING_UP_UNHEARD,
	GIVING_UP_HEARD, /* the peer gets a verdict */
};

/* One side. Every field is a byte, so that worlds can be compared byte by byte. */
struct side {
	/* for the tutorial's program, `local` counts completions and `remote` messages */
	struct protocol_bytes protocol;
	/* progress of this side's work requests, and of the events on their way to it */
	uint8_t requests[REQUESTS]; /* enum fate */
	uint8_t received;           /* number of the peer's messages that were handled */
	uint8_t established;        /* EVENT_ESTABLISHED was handled */
	uint8_t notice;             /* enum notice */
	uint8_t disconnection;      /* enum disconnection */
	uint8_t broken;             /* the queue pair is in the error state */
	uint8_t receives_returned;  /* the receives were flushed */
	uint8_t verified;           /* EVENT_VERIFIED was handled */
	uint8_t giving_up;          /* enum giving_up */
};

struct world {
	struct side sides[2];    /* by enum role */
	uint8_t lost;            /* the network has failed */
	uint8_t faults;          /* faults so far, including premature deadlines and signals */
	uint8_t helper_failures; /* number of EVENT_GAVE_UP at both sides; not faults */
};

/* clang-format off */

/* Mistakes of the state machine at both sides; broken[] describes each. */
enum fault {
	FAULT_NONE, FAULT_DONE_WITH_READ, FAULT_IMPATIENT_CLIENT, FAULT_DISCONNECTS_DONE, FAULT_HOPES,
	FAULT_WAITS_FOR_NOTHING, FAULT_NEVER_DISCONNECTS, FAULT_NO_DEADLINE,
	/* mistakes in giving up */
	FAULT_IGNORES, FAULT_FORGIVES, FAULT_WITHOUT_A_WORD, FAULT_TWICE,
};

#define VIOLATIONS(violation) \
	violation(VIOLATION_NONE, "none") \
	violation(VIOLATION_STUCK, "stuck without a fault: only a deadline ends the session") \
	violation(VIOLATION_ENDLESS, "an event made no progress towards the end") \
	violation(VIOLATION_FALSE_SUCCESS, "success is reported for a wrong or missing payload") \
	violation(VIOLATION_FALSE_FAILURE, "the outcome is wrong, without a fault") \
	violation(VIOLATION_OTHER_CAUSE, "the text explains another status") \
	violation(VIOLATION_DISCONNECTED_EARLY, "disconnected while the peer was operating") \
	violation(VIOLATION_DONE_EARLY, "MSG_DONE arrived before the end of the operation")
#define NAME(name, text) name,
#define TEXT(name, text) text,

enum violation { VIOLATIONS(NAME) };
static const char *const violation_names[] = { VIOLATIONS(TEXT) };

/* The events that lead from one world to the next one, and the meaning of `detail`. */
#define OCCURRENCES(occurrence) \
	occurrence(OCCURRENCE_START, "starts") \
	occurrence(OCCURRENCE_EVENT, "gets")                                            /* the event's type */ \
	occurrence(OCCURRENCE_EXECUTED, "has its request executed:")                    /* work request */ \
	occurrence(OCCURRENCE_COMPLETED, "gets the completion of its operation") \
	occurrence(OCCURRENCE_DISCONNECT, "disconnects") \
	occurrence(OCCURRENCE_FLUSH, "has its queue pair flushed by the disconnect")    /* before the program is notified */ \
	occurrence(OCCURRENCE_LOSS, "loses the network; notified:")                     /* the notified sides, as bit flags */

enum occurrence { OCCURRENCES(NAME) };
static const char *const occurrence_names[] = { OCCURRENCES(TEXT) };

/* clang-format on */

struct setting {
	enum fault fault;
	enum operation operation;
	bool completes_early;   /* completions may come before delivery, as over soft-iWARP */
	bool flushes_at_notice; /* an adapter may flush when the peer disconnects */
	bool refuses;           /* an adapter rejects requests in the error state, as cxgb4 does */
	bool one_way;           /* the server does not operate */
	bool tutorial[2];       /* this side is the tutorial's program */
	bool corrupted[2]; /* the payload that this side sends, if any, is damaged on the way */
};

struct label {
	uint8_t side;
	uint8_t occurrence;
	uint8_t detail;
	uint8_t status;
};

#include "explorer.h"

/* Return true if both sides are programs of this project. */
static bool verifying(void)
{
	return !setting.tutorial[ROLE_CLIENT] && !setting.tutorial[ROLE_SERVER];
}

static bool damages(void)
{
	return setting.corrupted[ROLE_CLIENT] || setting.corrupted[ROLE_SERVER];
}

static bool operates(enum role role)
{
	return role == ROLE_CLIENT || !setting.one_way;
}

/* Return the side that operates on the payload that `role` sends. */
static enum role active_side(enum role role)
{
	return setting.operation == OPERATION_WRITE ? role : (enum role) !role;
}

static bool side_sends_payload(enum role role)
{
	return operates(active_side(role));
}

/*
 * Return the maximum number of faults in a run: 2 for the settings with few worlds, otherwise 1. A
 * deadline that passes because nothing else can happen is not a fault.
 */
static unsigned int fault_limit(void)
{
	if (setting.flushes_at_notice || damages() || setting.fault != FAULT_NONE)
		return 1;
	return verifying() && (setting.one_way || setting.completes_early) ? 1 : 2;
}

/*
 * Maximum number of failing helpers in a run: both helpers of one side, or one of each side. In a
 * run with a fault, fault_limit() limits faults and failing helpers together.
 */
#define HELPER_FAILURES 2

static bool fault_possible(const struct world *world)
{
	return (unsigned int)world->faults + world->helper_failures < fault_limit();
}

static void print_setting(void)
{
	static const char *const programs[] = { "ours", "the tutorial's" };

	print_message("%s%s, client %s%s, server %s%s, %s, %s\n", operation_name(setting.operation),
		      setting.one_way ? ", one way" : "", programs[setting.tutorial[ROLE_CLIENT]],
		      setting.corrupted[ROLE_CLIENT] ? " (its payload gets damaged)" : "",
		      programs[setting.tutorial[ROLE_SERVER]],
		      setting.corrupted[ROLE_SERVER] ? " (its payload gets damaged)" : "",
		      setting.completes_early ? "soft-iWARP" : "other adapters",
		      setting.refuses             ? "posts rejected after the peer's disconnect"
		      : setting.flushes_at_notice ? "flush at the peer's disconnect"
						  : "flush at this side's disconnect");
}

static void print_side(const struct side *side, enum role role)
{
	const struct protocol_bytes *protocol = &side->protocol;
	const char *phase = phase_name((enum phase)protocol->phase);

	if (protocol->phase == PHASE_FINISHED)
		print_message("  [%s, status %d]", phase, protocol->status);
	else if (setting.tutorial[role])
		print_message("  [%s, %d completions, %d messages]", phase, protocol->local,
			      protocol->remote);
	else
		print_message("  [%s, %s, %s, status %d]", phase,
			      local_stage_name((enum local_stage)protocol->local),
			      remote_stage_name((enum remote_stage)protocol->remote),
			      protocol->status);
}

static void print_node(const struct node *node)
{
	static const char *const requests[] = { "MSG_MR", "operation", "MSG_DONE", "MSG_VERDICT" };
	static const char *const noticing[] = { "neither", "the client", "the server", "both" };
	const struct label *label = &node->label;
	const char *what = "";

	if (label->occurrence == OCCURRENCE_EVENT)
		what = event_name((enum event_type)label->detail);
	else if (label->occurrence == OCCURRENCE_EXECUTED)
		what = requests[label->detail];
	else if (label->occurrence == OCCURRENCE_LOSS)
		what = noticing[label->detail];
	print_message("%s %s %s, status %d", label->side ? "server" : "client",
		      occurrence_names[label->occurrence], what, label->status);
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++)
		print_side(&node->world.sides[role], role);
}

#define FINISHED_DISTANCE 100 /* more than the sum of all other terms */

/* Return a sum that grows with every event but EVENT_DRAINED, which comes with another event. */
static int distance_from_start(const struct world *world)
{
	int distance = world->lost + world->faults + world->helper_failures;

	for (int i = 0; i < 2; i++) {
		const struct side *side = &world->sides[i];
		uint32_t fates;

		_Static_assert(sizeof(fates) == sizeof(side->requests), "a byte for each request");
		if (side->protocol.phase == PHASE_FINISHED)
			distance += FINISHED_DISTANCE;
		else
			distance += side->protocol.phase + side->protocol.overdue + side->received +
				    side->established + side->notice + side->disconnection +
				    side->broken + side->receives_returned + side->verified;
		memcpy(&fates, side->requests, sizeof(fates));
		distance += __builtin_popcount(fates);
	}
	return distance;
}

/* ---- The transport ---- */

static bool has_fate(const struct side *side, enum request request, unsigned int fate)
{
	return (side->requests[request] & fate) == fate;
}

static void add_fate(struct side *side, enum request request, unsigned int fate)
{
	side->requests[request] = (uint8_t)(side->requests[request] | fate);
}

/* Return true if the request is posted and not executed. */
static bool is_open(const struct side *side, enum request request)
{
	return has_fate(side, request, FATE_POSTED) && !has_fate(side, request, FATE_EXECUTED);
}

/* Return true if the transport may execute this request of `role` now. */
static bool can_execute(const struct world *world, enum role role, enum request request)
{
	const struct side *side = &world->sides[role];
	bool reading = setting.operation == OPERATION_READ;

	if (!is_open(side, request) || has_fate(side, request, FATE_DEAD) || world->lost ||
	    world->sides[!role].broken)
		return false;
	/* TCP still delivers the bytes that it accepted, but a READ needs both queue pairs */
	if (side->broken && (!setting.completes_early || (reading && request == REQUEST_OPERATION)))
		return false;
	for (enum request earlier = REQUEST_MR; earlier < request; earlier++) {
		if (is_open(side, earlier) && !(reading && earlier == REQUEST_OPERATION))
			return false; /* messages may overtake a READ */
	}
	return true;
}

static bool can_execute_any(const struct world *world, enum role role)
{
	for (enum request request = REQUEST_MR; request < REQUESTS; request++) {
		if (can_execute(world, role, request))
			return true;
	}
	return false;
}

static void send_notice(struct world *world, enum role role)
{
	if (!world->lost && world->sides[role].notice == NOTICE_NONE &&
	    world->sides[role].protocol.phase != PHASE_FINISHED)
		world->sides[role].notice = NOTICE_COMING;
}

/* Mark as dead `request` and all later requests that are posted and not executed. */
static void kill_after(struct side *side, enum request request)
{
	for (; request < REQUESTS; request++) {
		if (is_open(side, request))
			add_fate(side, request, FATE_DEAD);
	}
}

static void post(struct side *side, enum request request)
{
	add_fate(side, request, FATE_POSTED | (side->broken ? FATE_DEAD : 0));
}

static bool outstanding(const struct side *side)
{
	for (enum request request = REQUEST_MR; request < REQUESTS; request++) {
		if (has_fate(side, request, FATE_POSTED) && !has_fate(side, request, FATE_RETURNED))
			return true;
	}
	return !side->receives_returned;
}

/*
 * Destroy the connection of `role`. Reset state that can no longer be observed, so that there are
 * fewer worlds. Keep the requests: TCP still delivers the bytes that it accepted.
 */
static void destroy(struct world *world, enum role role)
{
	struct side *side = &world->sides[role], gone;

	memset(&gone, 0, sizeof(gone));
	gone.protocol.phase = PHASE_FINISHED;
	gone.protocol.status = side->protocol.status;
	gone.protocol.own_verdict = side->protocol.own_verdict;
	gone.giving_up = side->giving_up;
	gone.broken = 1;
	memcpy(gone.requests, side->requests, sizeof(gone.requests));
	for (enum request request = REQUEST_MR; request < REQUESTS; request++)
		gone.requests[request] = (uint8_t)(gone.requests[request] | FATE_RETURNED);
	*side = gone;
	send_notice(world, !role);
}

/* Return true if the payload that `role` sends, if any, has arrived, damaged or not. */
static bool delivered(const struct world *world, enum role role)
{
	return !side_sends_payload(role) ||
	       has_fate(&world->sides[active_side(role)], REQUEST_OPERATION, FATE_EXECUTED);
}

/* ---- The sides ---- */

static struct protocol unpack(const struct side *side, enum role role)
{
	struct protocol protocol = protocol_start(role);

	/* a client does not know the peer's program until the connection is established */
	protocol.verifying =
		!setting.tutorial[!role] && (role == ROLE_SERVER || side->protocol.connected);
	protocol_unpack(&side->protocol, &protocol);
	return protocol;
}

/*
 * Check that `role` does not disconnect while the peer operates. After a fault, or after a side
 * gave up, it may disconnect at any time.
 */
static void judge_disconnect(const struct world *world, enum role role)
{
	if (!world->faults && !world->helper_failures &&
	    is_open(&world->sides[!role], REQUEST_OPERATION))
		violate(VIOLATION_DISCONNECTED_EARLY);
}

/*
 * Return true if both payloads have arrived, as far as `role` can know. The tutorial's program does
 * not report the payload that it received: then judge the payload that arrived at `role` and, if a
 * completion means delivery, the payload that `role` wrote.
 */
static bool complete(const struct world *world, enum role role)
{
	bool unknown =
		!verifying() && (setting.operation == OPERATION_READ || setting.completes_early);

	return delivered(world, !role) && (delivered(world, role) || unknown);
}

/* Return the status for the peer's verdict: a local failure of the peer is a refusal here. */
static enum status as_received(enum status verdict)
{
	return verdict == STATUS_LOCAL_FAILURE ? STATUS_REFUSED : verdict;
}

/*
 * Return true if a side may end with this status when there is no fault. After a side gave up,
 * damage may remain unnoticed.
 */
static bool is_due(const struct world *world, enum role role, enum status status)
{
	if (world->sides[role].giving_up >= GIVING_UP_UNHEARD)
		return status == STATUS_LOCAL_FAILURE;
	if (world->sides[!role].giving_up == GIVING_UP_HEARD &&
	    world->sides[role].giving_up == GIVING_UP_NONE)
		return status == as_received(STATUS_LOCAL_FAILURE) ||
		       (damages() && status == STATUS_CONTENTS_WRONG);
	return world->helper_failures ||
	       status == (damages() ? STATUS_CONTENTS_WRONG : STATUS_SUCCESS);
}

/* Check the status with which a program of this project ends. */
static void judge_ending(const struct world *world, enum role role)
{
	enum status status = world->sides[role].protocol.status;

	if (status == STATUS_SUCCESS &&
	    (damages() || world->helper_failures || !complete(world, role)))
		violate(VIOLATION_FALSE_SUCCESS);
	else if (!world->faults && !is_due(world, role, status))
		violate(VIOLATION_FALSE_FAILURE);
	else if (!causes_fit(&world->sides[role].protocol))
		violate(VIOLATION_OTHER_CAUSE);
}

#define POSTS (ACTION_SEND_MR | ACTION_POST_OPERATION | ACTION_SEND_DONE | ACTION_SEND_VERDICT)

static bool is_refused(const struct side *side, unsigned int actions)
{
	return setting.refuses && side->broken && actions & POSTS;
}

static void perform(struct world *world, enum role role, unsigned int actions)
{
	struct side *side = &world->sides[role];

	if (is_refused(side, actions))
		actions &= ~(unsigned int)POSTS;
	if (actions & ACTION_SEND_MR)
		post(side, REQUEST_MR);
	if (actions & ACTION_POST_OPERATION)
		post(side, REQUEST_OPERATION);
	if (actions & ACTION_POST_OPERATION && !operates(role)) /* no operation to execute */
		add_fate(side, REQUEST_OPERATION, FATE_EXECUTED | FATE_RETURNED);
	if (actions & ACTION_SEND_DONE)
		post(side, REQUEST_DONE);
	if (actions & ACTION_SEND_VERDICT)
		post(side, REQUEST_VERDICT);
	if (actions & ACTION_DISCONNECT) {
		side->disconnection = DISCONNECTION_ASKED;
		if (!side->protocol.disconnected)
			judge_disconnect(world, role);
	}
	if (actions & ACTION_FORCE_ERROR)
		side->broken = 1;
	if (side->protocol.phase == PHASE_FINISHED) {
		judge_ending(world, role);
		destroy(world, role);
	}
}

/* Return the step that protocol_step() takes, changed by the mistake `fault`. */
static struct step take_step(enum fault fault, struct protocol protocol, struct event event);

/* Return true if EVENT_DRAINED is due: all posted requests have completed, and none will follow. */
static bool is_drained(const struct side *side)
{
	return side->protocol.phase == PHASE_CLOSING && !side->protocol.drained &&
	       !outstanding(side);
}

/* Pass an event to a program of this project, then the events that follow from it at once. */
static void feed(struct world *world, enum role role, struct event event)
{
	struct side *side = &world->sides[role];
	bool again;

	do {
		struct step step = take_step(setting.fault, unpack(side, role), event);
		bool refused = is_refused(side, step.actions);

		protocol_pack(&side->protocol, &step.protocol);
		perform(world, role, step.actions);
		again = refused || is_drained(side);
		event.type = refused ? EVENT_SEND_REFUSED : EVENT_DRAINED;
		event.status = STATUS_SUCCESS;
		event.cause = cause_of(event.type, event.status);
	} while (again && exploration.violation == VIOLATION_NONE);
}

/*
 * Pass an event to the tutorial's program: it counts completions and messages, posts MSG_DONE
 * together with its operation, disconnects at once after three completions and two messages, and
 * exits on an error, a signal or a disconnection. EVENT_DONE_DUE stands for the completion of its
 * operation.
 */
static void feed_tutorial(struct world *world, enum role role, struct event event)
{
	struct side *side = &world->sides[role];
	bool begins = role == ROLE_CLIENT && event.type == EVENT_ESTABLISHED;

	if (event.type == EVENT_MR_RECEIVED || event.type == EVENT_DONE_RECEIVED) {
		side->protocol.remote++;
		begins = !has_fate(side, REQUEST_MR, FATE_POSTED);
	} else if (event.type == EVENT_MR_SENT || event.type == EVENT_DONE_DUE ||
		   event.type == EVENT_DONE_SENT) {
		side->protocol.local++;
	} else if (event.type != EVENT_ESTABLISHED) {
		side->protocol.phase = PHASE_FINISHED;
		destroy(world, role);
		return;
	}
	if (begins)
		post(side, REQUEST_MR);
	if (side->protocol.local >= 1 && side->protocol.remote >= 1 &&
	    !has_fate(side, REQUEST_OPERATION, FATE_POSTED)) {
		post(side, REQUEST_OPERATION);
		post(side, REQUEST_DONE);
	}
	if (side->protocol.phase == PHASE_CONNECTING && side->protocol.local == 3 &&
	    side->protocol.remote == 2) {
		side->protocol.phase = PHASE_CLOSING;
		judge_disconnect(world, role);
		side->disconnection = DISCONNECTION_ASKED;
	}
}

/* Apply an event of one side to `world`, a copy of the current world, and add the result. */
static void happen(struct world *world, enum role role, enum event_type type, enum status status)
{
	struct event event = { type, status, cause_of(type, status) };

	if (setting.tutorial[role])
		feed_tutorial(world, role, event);
	else
		feed(world, role, event);
	arrive(world,
	       (struct label){ (uint8_t)role, OCCURRENCE_EVENT, (uint8_t)type, (uint8_t)status });
}

/* Do what happen() does, for an event that needs no fault. */
static void proceed(struct world *world, enum role role, enum event_type type, enum status status)
{
	exploration.goes_on = true;
	happen(world, role, type, status);
}

/* ---- Possible events ---- */

static void executions(const struct world *world, enum role role)
{
	for (enum request request = REQUEST_MR; request < REQUESTS; request++) {
		struct world next = *world;

		if (!can_execute(world, role, request))
			continue;
		add_fate(&next.sides[role], request, FATE_EXECUTED);
		exploration.goes_on = true;
		arrive(&next,
		       (struct label){ (uint8_t)role, OCCURRENCE_EXECUTED, (uint8_t)request, 0 });
	}
}

static const enum event_type completion_events[REQUESTS] = {
	[REQUEST_MR] = EVENT_MR_SENT,
	[REQUEST_OPERATION] = EVENT_DONE_DUE, /* only in the tutorial's program; see succeed() */
	[REQUEST_DONE] = EVENT_DONE_SENT,
	[REQUEST_VERDICT] = EVENT_VERDICT_SENT,
};

/* Complete a request with an error, which moves the queue pair to the error state. */
static void failures(const struct world *world, enum role role, enum request request)
{
	static const enum status reasons[] = { STATUS_PEER_LOST, STATUS_REFUSED };

	if (world->sides[role].broken || !fault_possible(world))
		return;
	for (size_t i = 0; i < 2; i++) {
		struct world next = *world;
		struct side *side = &next.sides[role];

		if (reasons[i] == STATUS_REFUSED &&
		    (request != REQUEST_OPERATION || has_fate(side, request, FATE_EXECUTED)))
			continue;
		next.faults++;
		side->broken = 1;
		kill_after(side, request);
		add_fate(side, request, FATE_RETURNED);
		happen(&next, role, EVENT_FAILED, reasons[i]);
	}
}

/* Complete a request of this side successfully in `world`, a copy of the current world. */
static void succeed(struct world *world, enum role role, enum request request)
{
	if (request != REQUEST_OPERATION || setting.tutorial[role]) {
		proceed(world, role, completion_events[request], STATUS_SUCCESS);
		return;
	}
	if (is_drained(&world->sides[role]))
		feed(world, role, (struct event){ .type = EVENT_DRAINED });
	exploration.goes_on = true;
	arrive(world, (struct label){ (uint8_t)role, OCCURRENCE_COMPLETED, 0, 0 });
}

/* Let the next completion of this side's send queue arrive: a success, a flush or an error. */
static void completions(const struct world *world, enum role role)
{
	const struct side *side = &world->sides[role];
	bool reading = setting.operation == OPERATION_READ;
	bool early = setting.completes_early, missing = false;

	for (enum request request = REQUEST_MR; request < REQUESTS; request++) {
		bool executed = has_fate(side, request, FATE_EXECUTED);
		bool read = reading && request == REQUEST_OPERATION;
		/* Soft-RoCE of Linux 6.12 may handle the acknowledgment after the peer's
		 * disconnection; this side's disconnection then flushes an executed request */
		bool late = !early && !setting.flushes_at_notice &&
			    side->disconnection == DISCONNECTION_DONE;
		struct world next = *world;

		if (!has_fate(side, request, FATE_POSTED) || has_fate(side, request, FATE_RETURNED))
			continue;
		if (early && read && side->broken && !executed) {
			missing = true; /* soft-iWARP does not even flush a READ */
			continue;
		}
		add_fate(&next.sides[role], request, FATE_RETURNED);
		if (!missing &&
		    (executed || (early && !read && !has_fate(side, request, FATE_DEAD))))
			succeed(&next, role, request);
		next = *world;
		if (side->broken && (!executed || late || world->faults)) {
			kill_after(&next.sides[role], request);
			add_fate(&next.sides[role], request, FATE_RETURNED);
			proceed(&next, role, EVENT_FLUSHED, STATUS_SUCCESS);
		}
		if (!missing)
			failures(world, role, request);
		return; /* later requests complete after this one */
	}
}

/*
 * Return the peer's next message; REQUESTS: it has not arrived. A peer that gave up may skip
 * MSG_DONE.
 */
static enum request next_message(const struct side *side, const struct side *peer)
{
	static const enum request messages[] = { REQUEST_MR, REQUEST_DONE, REQUEST_VERDICT };

	for (unsigned int next = side->received; next < 3; next++) {
		if (has_fate(peer, messages[next], FATE_POSTED))
			return has_fate(peer, messages[next], FATE_EXECUTED) ? messages[next]
									     : REQUESTS;
	}
	return REQUESTS;
}

/*
 * Receive the peer's verdict in `world`, a copy of the current world. A failure means that the peer
 * gave up, unless both MSG_DONEs came before it.
 */
static void receive_verdict(struct world *world, enum role role, bool after_done)
{
	enum status verdict = as_received((enum status)world->sides[!role].protocol.own_verdict);
	bool early = verdict != STATUS_SUCCESS &&
		     (!after_done || !world->sides[role].protocol.done_posted);

	happen(world, role, early ? EVENT_PEER_GAVE_UP : EVENT_VERDICT_RECEIVED, verdict);
}

/* Receive the next message that has arrived; if none has, flush the receives of a broken side. */
static void receptions(const struct world *world, enum role role)
{
	const struct side *side = &world->sides[role], *peer = &world->sides[!role];
	enum request message = next_message(side, peer);
	struct world next = *world;

	exploration.goes_on |= message != REQUESTS || (side->broken && !side->receives_returned);
	if (message == REQUEST_MR) {
		next.sides[role].received = 1;
		happen(&next, role, EVENT_MR_RECEIVED, STATUS_SUCCESS);
	} else if (message == REQUEST_DONE) {
		if (verifying() && operates(!role) &&
		    !has_fate(peer, REQUEST_OPERATION, FATE_EXECUTED))
			violate(VIOLATION_DONE_EARLY);
		next.sides[role].received = 2;
		happen(&next, role, EVENT_DONE_RECEIVED, STATUS_SUCCESS);
	} else if (message == REQUEST_VERDICT) {
		next.sides[role].received = 3;
		receive_verdict(&next, role, side->received == 2);
	} else if (side->broken && !side->receives_returned) {
		next.sides[role].receives_returned = 1;
		happen(&next, role, EVENT_FLUSHED, STATUS_SUCCESS);
	}
}

/* Let MSG_DONE become due: at any time after a WRITE is posted, or after a READ has completed. */
static void dues(const struct world *world, enum role role)
{
	const struct side *side = &world->sides[role];
	bool early = done_follows_at_once(setting.operation == OPERATION_WRITE) ||
		     setting.fault == FAULT_DONE_WITH_READ;
	const struct protocol protocol = unpack(side, role);
	struct world next = *world;

	if (!setting.tutorial[role] && operation_runs(&protocol) &&
	    (early || has_fate(side, REQUEST_OPERATION, FATE_RETURNED)))
		proceed(&next, role, EVENT_DONE_DUE, STATUS_SUCCESS);
}

/* End the verification that this side has begun. */
static void verifications(const struct world *world, enum role role)
{
	bool good = delivered(world, !role) && !setting.corrupted[!role];
	struct world next = *world;

	if (setting.tutorial[role] || world->sides[role].protocol.local != LOCAL_VERIFYING)
		return;
	/* without a digest, or without a payload, every verification succeeds */
	good = good || setting.tutorial[!role] || !side_sends_payload(!role);
	next.sides[role].verified = 1;
	proceed(&next, role, EVENT_VERIFIED, good ? STATUS_SUCCESS : STATUS_CONTENTS_WRONG);
}

/* Disconnect after ACTION_DISCONNECT. */
static void disconnections(const struct world *world, enum role role)
{
	struct world next = *world;
	struct side *side = &next.sides[role];

	if (side->disconnection != DISCONNECTION_ASKED)
		return;
	side->disconnection = DISCONNECTION_DONE;
	side->broken = 1;
	if (side->protocol.connected || setting.tutorial[role]) {
		send_notice(&next, role);
		send_notice(&next, !role);
	}
	exploration.goes_on = true;
	arrive(&next, (struct label){ (uint8_t)role, OCCURRENCE_DISCONNECT, 0, 0 });
}

static void manager_events(const struct world *world, enum role role)
{
	const struct side *side = &world->sides[role];
	struct world next = *world;

	if (!side->established && side->notice != NOTICE_HANDLED) {
		next.sides[role].established = 1;
		proceed(&next, role, EVENT_ESTABLISHED, STATUS_SUCCESS);
	}
	if (side->notice != NOTICE_COMING || can_execute_any(world, !role))
		return;
	next = *world;
	if (setting.flushes_at_notice && !side->broken) {
		next.sides[role].broken = 1;
		exploration.goes_on = true;
		arrive(&next, (struct label){ (uint8_t)role, OCCURRENCE_FLUSH, 0, 0 });
	}
	next = *world;
	if (side->established || role == ROLE_SERVER) {
		next.sides[role].notice = NOTICE_HANDLED;
		proceed(&next, role, EVENT_DISCONNECTED, STATUS_SUCCESS);
	}
}

static void disturbances(const struct world *world, enum role role)
{
	struct world next = *world;

	if (!fault_possible(world))
		return;
	next.faults++;
	happen(&next, role, EVENT_FAILED, STATUS_INTERRUPTED);
	if (setting.tutorial[role])
		return; /* the tutorial's program has no deadlines */
	next = *world;
	next.faults++;
	happen(&next, role, EVENT_DEADLINE, STATUS_SUCCESS);
}

static enum giving_up way_of_giving_up(const struct side *side, enum role role)
{
	if (side->protocol.phase >= PHASE_CLOSING)
		return GIVING_UP_LATE;
	if (setting.tutorial[!role] ||
	    (role == ROLE_CLIENT && side->protocol.phase == PHASE_CONNECTING))
		return GIVING_UP_UNHEARD;
	return GIVING_UP_HEARD;
}

/* Let a helper fail. The failure of a second helper must not replace the first reason. */
static void helper_failures(const struct world *world, enum role role)
{
	const struct side *side = &world->sides[role];
	enum status reason = side->giving_up ? STATUS_CONTENTS_WRONG : STATUS_LOCAL_FAILURE;
	struct world next = *world;

	if (setting.tutorial[role] || world->helper_failures == HELPER_FAILURES ||
	    (world->faults && !fault_possible(world)) ||
	    (side->protocol.local >= LOCAL_VERIFIED && !side->giving_up))
		return;
	next.helper_failures++;
	if (!side->giving_up)
		next.sides[role].giving_up = (uint8_t)way_of_giving_up(side, role);
	happen(&next, role, EVENT_GAVE_UP, reason);
}

/* Lose the network with everything on its way; only the sides in `noticed` are notified. */
static void losses(const struct world *world)
{
	if (world->lost || !fault_possible(world))
		return;
	for (uint8_t noticed = 0; noticed < 4; noticed++) {
		struct world next = *world;

		next.lost = 1;
		next.faults++;
		for (int role = 0; role < 2; role++) {
			if (next.sides[role].notice < NOTICE_LOST)
				next.sides[role].notice =
					noticed & 1 << role ? NOTICE_COMING : NOTICE_LOST;
		}
		arrive(&next, (struct label){ 0, OCCURRENCE_LOSS, noticed, 0 });
	}
}

/* Return true if this side waits for its own READ, which will never complete. */
static bool read_is_lost(const struct side *side)
{
	return setting.completes_early && setting.operation == OPERATION_READ && side->broken &&
	       is_open(side, REQUEST_OPERATION) &&
	       !has_fate(side, REQUEST_OPERATION, FATE_RETURNED);
}

/*
 * Continue when no event is possible. If both sides have finished, the run is over. After a fault,
 * let deadlines pass; without a fault, only the deadline of a READ that soft-iWARP has lost: any
 * other wait is a violation.
 */
static void successors_when_stuck(const struct world *world)
{
	bool over = true, stuck = false, excused = false;

	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		const struct side *side = &world->sides[role];
		bool lost = side->protocol.phase != PHASE_FINISHED && read_is_lost(side);
		struct world next = *world;

		if (side->protocol.phase == PHASE_FINISHED)
			continue;
		stuck = true;
		excused = excused || world->faults || lost;
		if (setting.tutorial[role] || (!world->faults && !lost))
			continue; /* the tutorial's program has no deadlines: it hangs */
		over = false;
		happen(&next, role, EVENT_DEADLINE, STATUS_SUCCESS);
	}
	if (stuck && !excused) {
		violate_here(VIOLATION_STUCK);
		return;
	}
	exploration.endings += over;
}

static void make_successors(const struct world *world)
{
	bool finished = true;

	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		executions(world, role); /* TCP delivers even after a side has ended */
		if (world->sides[role].protocol.phase == PHASE_FINISHED)
			continue;
		finished = false;
		completions(world, role);
		receptions(world, role);
		dues(world, role);
		verifications(world, role);
		disconnections(world, role);
		manager_events(world, role);
	}
	if (!exploration.goes_on)
		successors_when_stuck(world);
	if (finished)
		return;
	losses(world);
	for (enum role role = ROLE_CLIENT; role <= ROLE_SERVER; role++) {
		if (world->sides[role].protocol.phase == PHASE_FINISHED)
			continue;
		disturbances(world, role);
		helper_failures(world, role);
	}
}

/* ---- Exploring ---- */

static const struct world beginning; /* the start of each exploration */

/*
 * Set the operation, the adapters and the damage in `setting` to combination `number`, from 0.
 * Return false after the last one. A damaged payload only affects the verification, so no
 * combination has both a damaged payload and `flushes_at_notice`.
 */
static bool make_setting(unsigned int number)
{
	unsigned int variant = number / 4;

	setting.operation = number & 1 ? OPERATION_WRITE : OPERATION_READ;
	setting.completes_early = number & 2;
	setting.flushes_at_notice = variant == 1 || variant == 2;
	setting.refuses = variant == 2;
	setting.corrupted[ROLE_CLIENT] = variant == 3 || variant == 4;
	setting.corrupted[ROLE_SERVER] = variant == 3 || variant == 5;
	if (setting.one_way) /* only one side sends: the other variants are duplicates */
		return variant < 4;
	return variant < (verifying() ? 6 : 3);
}

/* ---- The correct protocol ---- */

static void assert_no_violation(struct setting programs)
{
	setting = programs;
	for (unsigned int number = 0; make_setting(number); number++) {
		size_t endings = exploration.endings;

		if (!explore_from(&beginning)) {
			print_history();
			fail();
		}
		assert_true(exploration.endings > endings);
	}
	finish();
}

TEST(two_programs_of_this_project_end_with_the_right_status)
{
	assert_no_violation((struct setting){ .one_way = false });
}

TEST(a_one_way_session_ends_with_the_right_status)
{
	assert_no_violation((struct setting){ .one_way = true });
}

TEST(a_session_with_the_tutorials_client_ends_with_the_right_status)
{
	assert_no_violation((struct setting){ .tutorial = { [ROLE_CLIENT] = true } });
}

TEST(a_session_with_the_tutorials_server_ends_with_the_right_status)
{
	assert_no_violation((struct setting){ .tutorial = { [ROLE_SERVER] = true } });
}

/* ---- Broken protocols ---- */

static bool is_overlooked(enum fault fault, const struct protocol *protocol, enum event_type type)
{
	switch (fault) {
	case FAULT_WAITS_FOR_NOTHING:
		return type == EVENT_DONE_DUE && !operates(protocol->role);
	case FAULT_NO_DEADLINE:
		return type == EVENT_DEADLINE;
	case FAULT_IGNORES:
		return type == EVENT_PEER_GAVE_UP;
	default:
		return false;
	}
}

/* Change the event as the faulty state machine misreads it. */
static void mistake(enum fault fault, struct protocol *protocol, struct event *event)
{
	if (event->type == EVENT_GAVE_UP &&
	    (fault == FAULT_WITHOUT_A_WORD || (fault == FAULT_TWICE && protocol->gave_up)))
		event->type = EVENT_FAILED;
}

static void disconnect_early(struct step *step)
{
	step->protocol.phase = PHASE_CLOSING;
	step->protocol.result.status = STATUS_PEER_LOST; /* replaced when the session ends */
	step->actions |= ACTION_DISCONNECT;
}

/* Change the step as the faulty state machine does. `before` is the state before the step. */
static void spoil(enum fault fault, const struct protocol *before, struct step *step)
{
	struct protocol *after = &step->protocol;
	bool exchanging = after->phase == PHASE_EXCHANGING;
	bool finished = after->phase == PHASE_FINISHED;

	if (fault == FAULT_IMPATIENT_CLIENT && after->role == ROLE_CLIENT && exchanging &&
	    after->local == LOCAL_VERDICT_SENT)
		disconnect_early(step);
	if (fault == FAULT_DISCONNECTS_DONE && exchanging && after->local == LOCAL_DONE_SENT)
		disconnect_early(step);
	if (fault == FAULT_HOPES && finished && after->result.status == STATUS_PEER_LOST &&
	    after->local >= LOCAL_DONE_SENT)
		after->result.status = STATUS_SUCCESS;
	if (fault == FAULT_NEVER_DISCONNECTS)
		step->actions &= ~(unsigned int)ACTION_DISCONNECT;
	if (fault == FAULT_FORGIVES && finished && before->gave_up)
		after->result.status = STATUS_SUCCESS;
}

static struct step take_step(enum fault fault, struct protocol protocol, struct event event)
{
	const struct protocol before = protocol;
	struct step step = { .protocol = protocol };

	if (is_overlooked(fault, &protocol, event.type))
		return step;
	mistake(fault, &protocol, &event);
	step = protocol_step(protocol, event);
	spoil(fault, &before, &step);
	return step;
}

/* The broken protocols. `last` is the event that causes the violation; EVENT_TYPES: not checked. */
static const struct {
	const char *name;
	unsigned int number; /* argument of make_setting() */
	struct setting setting;
	enum violation violation;
	enum event_type last;
} broken[] = {
	/* clang-format off */
	{ "MSG_DONE overtakes its READ", 0, { .fault = FAULT_DONE_WITH_READ }, VIOLATION_DONE_EARLY, EVENT_DONE_RECEIVED },
	{ "MSG_DONE overtakes its READ over iWARP", 2, { .fault = FAULT_DONE_WITH_READ }, VIOLATION_DONE_EARLY, EVENT_DONE_RECEIVED },
	{ "MSG_DONE overtakes its READ, one way", 0, { .fault = FAULT_DONE_WITH_READ, .one_way = true }, VIOLATION_DONE_EARLY,
	  EVENT_DONE_RECEIVED },
	{ "MSG_DONE overtakes its READ, one way over iWARP", 2, { .fault = FAULT_DONE_WITH_READ, .one_way = true },
	  VIOLATION_DONE_EARLY, EVENT_DONE_RECEIVED },
	/* the client believes the premature MSG_DONE and disconnects */
	{ "the peer disconnects during this side's READ", 0, { .fault = FAULT_DONE_WITH_READ, .tutorial = { [ROLE_CLIENT] = true } },
	  VIOLATION_DISCONNECTED_EARLY, EVENT_TYPES },
	{ "a client does not wait for the verdict", 0, { .fault = FAULT_IMPATIENT_CLIENT }, VIOLATION_FALSE_FAILURE, EVENT_TYPES },
	{ "a side disconnects while the peer operates", 0, { .fault = FAULT_DISCONNECTS_DONE }, VIOLATION_DISCONNECTED_EARLY, EVENT_DONE_SENT },
	{ "a side reports success without the peer's verdict", 0, { .fault = FAULT_HOPES }, VIOLATION_FALSE_SUCCESS, EVENT_TYPES },
	{ "a side that does not operate waits for an operation", 0, { .fault = FAULT_WAITS_FOR_NOTHING, .one_way = true },
	  VIOLATION_ENDLESS, EVENT_DONE_DUE },
	{ "a side never disconnects", 0, { .fault = FAULT_NEVER_DISCONNECTS }, VIOLATION_STUCK, EVENT_TYPES },
	{ "a side ignores its deadline", 0, { .fault = FAULT_NO_DEADLINE }, VIOLATION_ENDLESS, EVENT_DEADLINE },
	{ "a side ignores an early verdict", 0, { .fault = FAULT_IGNORES }, VIOLATION_STUCK, EVENT_TYPES },
	{ "a side reports success after it gave up", 0, { .fault = FAULT_FORGIVES }, VIOLATION_FALSE_SUCCESS, EVENT_TYPES },
	{ "a side gives up without a verdict", 0, { .fault = FAULT_WITHOUT_A_WORD }, VIOLATION_FALSE_FAILURE, EVENT_TYPES },
	{ "a second failure prevents the verdict", 0, { .fault = FAULT_TWICE }, VIOLATION_FALSE_FAILURE, EVENT_TYPES },
	/* clang-format on */
};

TEST(exploration_finds_every_broken_protocol)
{
	EACH_ROW (i, broken) {
		struct label last;

		print_message("%s: ", broken[i].name);
		setting = broken[i].setting;
		make_setting(broken[i].number);
		assert_false(explore_from(&beginning));
		assert_between(print_history(), 2, 1023);
		last = exploration.nodes[exploration.violating].label;
		assert_int_equal(exploration.violation, broken[i].violation);
		if (broken[i].last != EVENT_TYPES)
			assert_true(last.occurrence == OCCURRENCE_EVENT &&
				    last.detail == broken[i].last);
	}
	finish();
}

RUN_TESTS(NULL, NULL)
