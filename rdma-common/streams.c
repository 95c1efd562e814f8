// SPDX-License-Identifier: MIT
#include "streams.h"

#include <errno.h>
#include <string.h>

/* ---- The calls of the source, in its thread ---- */

/* True if a worker has anything to do for the session. */
static NEEDS_LOCK bool is_open(const struct session *session)
{
	const struct protocol *protocol = &session->protocol;

	return protocol->phase < PHASE_CLOSING &&
	       (!protocol->gave_up || protocol->local == LOCAL_CHECKING);
}

static bool next_to_fill(void *context, struct piece *piece)
{
	struct connection *connection = context;
	struct session *session = &connection->session;
	bool any;

	lock_sessions(&connection->engine->lock);
	any = is_open(session) && transfer_fill(&session->transfer, piece);
	unlock_sessions(&connection->engine->lock);
	return any;
}

/*
 * The worker of this side has moved something at `now`. That extends what this side waits for from
 * its own end, and not what the peer, or the wire, owes.
 */
static NEEDS_LOCK void extend_own_deadline(struct connection *connection, int64_t now)
{
	if (transfer_owed_since(&connection->session.transfer) == TRANSFER_NEVER)
		session_set_deadline(connection, now);
}

static void piece_filled(void *context, uint64_t size, bool end, uint64_t digest)
{
	static const struct failure broken = {
		.status = STATUS_LOCAL_FAILURE,
		.cause = "what this side sends has another length than it had at the beginning",
	};
	struct connection *connection = context;
	struct session *session = &connection->session;
	const struct transfer_source *source = &session->transfer.source;
	int64_t now = now_milliseconds();

	lock_sessions(&connection->engine->lock);
	extend_own_deadline(connection, now);
	if (is_open(session) && !transfer_filled(&session->transfer, size, end, now)) {
		session_give_up(connection, &broken);
	} else if (is_open(session)) {
		/* of passes with the same bytes one is what MSG_DONE tells of */
		if (!source->stream.repeats || source->filled <= source->stream.plan.length)
			session->outgoing_digest = digest;
		session_advance(connection);
	}
	unlock_sessions(&connection->engine->lock);
}

static void source_failed(void *context, const struct failure *failure)
{
	struct connection *connection = context;

	lock_sessions(&connection->engine->lock);
	session_give_up(connection, failure);
	unlock_sessions(&connection->engine->lock);
}

/* ---- The calls of the sink, in its thread or in the main one ---- */

static bool next_to_copy(void *context, struct piece *piece)
{
	struct connection *connection = context;
	struct session *session = &connection->session;
	bool any;

	lock_sessions(&connection->engine->lock);
	any = is_open(session) && transfer_copy(&session->transfer, piece);
	unlock_sessions(&connection->engine->lock);
	return any;
}

static void piece_copied(void *context, uint64_t size)
{
	struct connection *connection = context;
	int64_t now = now_milliseconds();

	lock_sessions(&connection->engine->lock);
	extend_own_deadline(connection, now);
	transfer_copied(&connection->session.transfer, size, now);
	session_advance(connection);
	unlock_sessions(&connection->engine->lock);
}

static void kept_up_to(void *context, uint64_t position)
{
	struct connection *connection = context;
	int64_t now = now_milliseconds();

	lock_sessions(&connection->engine->lock);
	extend_own_deadline(connection, now);
	transfer_kept(&connection->session.transfer, position, now);
	session_advance(connection);
	unlock_sessions(&connection->engine->lock);
}

static void sink_finished(void *context, const struct verdict *verdict,
			  const struct excerpt *excerpt)
{
	struct connection *connection = context;
	struct session *session = &connection->session;
	bool complete = verdict->failure.status == STATUS_SUCCESS;

	lock_sessions(&connection->engine->lock);
	complete = complete || excerpt->size == session->transfer.sink.stream.plan.length;
	unlock_sessions(&connection->engine->lock);
	if (complete) /* first: the verdict may end the session */
		print_payload(&connection->log, excerpt);
	lock_sessions(&connection->engine->lock);
	if (session->protocol.local == LOCAL_CHECKING)
		session_checked(connection, verdict);
	else
		session_give_up(connection, &verdict->failure);
	unlock_sessions(&connection->engine->lock);
}

/* ---- Starting and ending them ---- */

enum status streams_open(struct connection *connection, struct failure *failure)
{
	const struct source_calls calls = { .context = connection,
					    .next = next_to_fill,
					    .filled = piece_filled,
					    .failed = source_failed };
	struct session *session = &connection->session;
	struct region *ring = &connection->outgoing;
	struct source *source;
	uint64_t end;

	if (!ring->mr || !ring->owned)
		return STATUS_SUCCESS;
	lock_sessions(&connection->engine->lock);
	end = session->transfer.source.stream.length;
	unlock_sessions(&connection->engine->lock);
	source = source_start(connection->payload, ring->memory, ring->size, end, &calls);
	if (!source)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot start a thread that reads what this side sends: %s",
				   strerror(errno));
	ring->owned = false;
	lock_sessions(&connection->engine->lock);
	session->source = source;
	unlock_sessions(&connection->engine->lock);
	source_wake(source);
	return STATUS_SUCCESS;
}

/* The sink gets the ring. NULL with errno: it does not. */
static struct sink *start_sink(struct connection *connection, bool is_whole)
{
	const struct options *options = connection->engine->options;
	const struct sink_calls calls = { .context = connection,
					  .next = next_to_copy,
					  .copied = piece_copied,
					  .kept = kept_up_to,
					  .finished = sink_finished };
	struct incoming incoming = { .ring = connection->incoming.memory,
				     .ring_size = connection->incoming.size,
				     .is_whole = is_whole,
				     .has_digest = connection->agreement.verifying,
				     .is_pattern = connection->agreement.expects_pattern,
				     .limit = options->maximum_payload,
				     .output = connection->agreement.wanted_length > 0
						       ? NULL
						       : options->output };
	struct session *session = &connection->session;
	struct sink *sink;

	lock_sessions(&connection->engine->lock);
	incoming.length = transfer_sink_end(&session->transfer);
	incoming.pass_length = session->transfer.sink.stream.plan.length;
	incoming.digest = session->peer_digest;
	incoming.repeats = !is_whole && session->transfer.sink.stream.repeats;
	unlock_sessions(&connection->engine->lock);
	sink = sink_start(&incoming, &calls);
	connection->incoming.owned = !sink;
	return sink;
}

/* True if the incoming stream needs a sink from now on. */
static NEEDS_LOCK bool wants_sink(const struct session *session)
{
	return session->protocol.phase == PHASE_EXCHANGING && !session->protocol.gave_up &&
	       session->protocol.local >= LOCAL_OPERATION_POSTED && !session->sink &&
	       session->transfer.sink.stream.plan.present && !transfer_is_whole(&session->transfer);
}

void streams_begin(struct connection *connection)
{
	struct session *session = &connection->session;
	struct failure failure;
	struct sink *sink;
	bool wanted;

	lock_sessions(&connection->engine->lock);
	wanted = wants_sink(session);
	unlock_sessions(&connection->engine->lock);
	if (!wanted)
		return;
	sink = start_sink(connection, false);
	if (!sink)
		failure_set(&failure, STATUS_LOCAL_FAILURE,
			    "cannot start a thread that keeps what is received: %s",
			    strerror(errno));
	lock_sessions(&connection->engine->lock);
	session->sink = sink;
	if (sink)
		sink_wake(sink);
	else
		session_give_up(connection, &failure);
	unlock_sessions(&connection->engine->lock);
}

static void tell_verdict(struct connection *connection, const struct verdict *verdict)
{
	lock_sessions(&connection->engine->lock);
	if (connection->session.protocol.local == LOCAL_CHECKING)
		session_checked(connection, verdict);
	unlock_sessions(&connection->engine->lock);
}

/* Withdraws the peer's right to the ring with the whole payload, and has that verified. */
static void check_whole(struct connection *connection)
{
	struct verdict verdict = { .failure.status = STATUS_SUCCESS };
	struct sink *sink;

	if (!connection->incoming.mr ||
	    withdraw_incoming(connection, &verdict.failure) != STATUS_SUCCESS) {
		tell_verdict(connection, &verdict);
		return;
	}
	sink = start_sink(connection, true);
	if (!sink) {
		failure_set(&verdict.failure, STATUS_LOCAL_FAILURE,
			    "cannot start to verify %zu bytes: %s", connection->incoming.size,
			    strerror(errno));
		tell_verdict(connection, &verdict);
		return;
	}
	lock_sessions(&connection->engine->lock);
	connection->session.sink = sink;
	unlock_sessions(&connection->engine->lock);
}

void streams_check(struct connection *connection)
{
	struct session *session = &connection->session;
	bool streamed;

	lock_sessions(&connection->engine->lock);
	streamed = session->sink;
	if (streamed)
		sink_finish(session->sink, transfer_sink_end(&session->transfer),
			    session->peer_digest);
	unlock_sessions(&connection->engine->lock);
	if (!streamed)
		check_whole(connection);
}

struct workers streams_stop(struct connection *connection)
{
	struct session *session = &connection->session;
	struct workers workers;

	lock_sessions(&connection->engine->lock);
	workers = (struct workers){ .source = session->source, .sink = session->sink };
	unlock_sessions(&connection->engine->lock);
	source_stop(workers.source);
	sink_stop(workers.sink);
	return workers;
}

void streams_interrupt(struct connection *connection)
{
	struct verdict verdict = { .failure.status = STATUS_SUCCESS };

	streams_stop(connection);
	failure_set(&verdict.failure, STATUS_INTERRUPTED, "%s",
		    status_in_words(STATUS_INTERRUPTED));
	tell_verdict(connection, &verdict);
}

void workers_release(struct workers workers, bool rings_free)
{
	if (!rings_free) {
		source_keep_ring(workers.source);
		sink_keep_ring(workers.sink);
	}
	source_release(workers.source);
	sink_release(workers.sink);
}
