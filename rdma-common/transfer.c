// SPDX-License-Identifier: MIT
#include "transfer.h"

#include <stddef.h>

#define PAGE ((uint64_t)4096)

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Return the sum, or LENGTH_UNKNOWN if it overflows: the peer may have sent any number. */
static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? LENGTH_UNKNOWN : sum;
}

/* ---- Streams ---- */

/*
 * Return the length of all passes, or LENGTH_UNKNOWN. An absent stream has length 0, so it counts
 * as ended.
 */
static uint64_t all_passes(const struct stream_plan *plan)
{
	uint64_t product;

	if (!plan->present)
		return 0;
	if (plan->length == LENGTH_UNKNOWN || plan->passes == 0)
		return LENGTH_UNKNOWN;
	if (__builtin_mul_overflow(plan->length, plan->passes, &product) ||
	    product == LENGTH_UNKNOWN)
		return LENGTH_UNKNOWN - 1; /* a known length that is never reached */
	return product;
}

/* Return true if a WRITE's source refills its ring only when the sink has consumed bytes. */
static bool refills_when_consumed(const struct transfer *transfer)
{
	return transfer->plan.writes && transfer->plan.completes_early;
}

/* Set the fields that depend on the size of the advertised ring. */
static void settle(const struct transfer *transfer, struct transfer_stream *stream, uint64_t size)
{
	const struct stream_plan *plan = &stream->plan;
	bool fits = plan->present && plan->length != LENGTH_UNKNOWN && plan->length <= size;
	uint64_t shorter = size;

	stream->advertised_size = size;
	stream->repeats = fits && plan->passes != 1;
	stream->flow_controlled = !stream->repeats && (!stream->agreed || stream->length > size);
	stream->fits_ring = (stream->repeats ? plan->length : stream->length) <= plan->ring;
	if (stream == &transfer->source.stream && refills_when_consumed(transfer) &&
	    !stream->fits_ring) {
		stream->flow_controlled = true; /* this side needs reports of consumed bytes */
		shorter = smaller(size, plan->ring);
	}
	stream->quarter = larger(shorter / TRANSFER_SHARE, 1);
	stream->local_span = stream->repeats && stream->fits_ring ? plan->length : plan->ring;
	stream->remote_span = stream->repeats ? plan->length : size;
}

/*
 * Set size, depth, interval and `grows` of the requests. With flow control a request is at most as
 * long as the larger of `quarter` and a page, so that both sides always have work.
 */
static void size_requests(struct transfer *transfer)
{
	const struct transfer_plan *plan = &transfer->plan;
	const struct transfer_stream *stream = operated_stream(transfer);
	struct transfer_operation *operation = &transfer->operation;
	uint64_t part = larger(stream->quarter, PAGE);
	uint64_t longest =
		smaller(plan->request_size, smaller(stream->local_span, stream->remote_span));

	if (stream->flow_controlled)
		longest = smaller(longest, part);
	operation->size = longest;
	operation->depth = plan->depth;
	if (plan->depth > 1) {
		operation->size = smaller(longest, operation->in_flight / 4);
		operation->depth =
			smaller(plan->depth,
				operation->in_flight / (operation->size ? operation->size : 1));
	}
	operation->interval = larger(operation->depth / 4, 1);
	operation->grows = operation->in_flight < TRANSFER_MAX_IN_FLIGHT &&
			   (operation->size < longest || operation->depth < plan->depth);
}

/*
 * If the bytes of the round have completed, begin the next round with the bytes that are in flight
 * now. Measure only a round that begins with at least half of the possible requests.
 */
static void end_round(struct transfer *transfer, int64_t now)
{
	struct transfer_operation *operation = &transfer->operation;
	bool full = 2 * transfer_outstanding(transfer) >= operation->depth;

	if (operation->completed < operation->round)
		return;
	operation->round = operation->posted;
	if (operation->round_started != TRANSFER_NEVER &&
	    now - operation->round_started <= TRANSFER_MILLISECONDS) {
		operation->in_flight *= 2;
		size_requests(transfer);
		full = false; /* not yet: the additional bytes are not posted */
	}
	operation->round_started = full ? now : TRANSFER_NEVER;
}

/* ---- Where everything ends ---- */

/* Return the final value of `produced`. For a READ that repeats, that is one pass. */
static uint64_t produced_end(const struct transfer *transfer, const struct transfer_stream *stream)
{
	return stream->repeats && !transfer->plan.writes ? stream->plan.length : stream->length;
}

/* Return the final value of `filled`. It is one pass if the ring holds the pass that repeats. */
static uint64_t source_end(const struct transfer *transfer)
{
	const struct transfer_stream *stream = &transfer->source.stream;

	if (stream->repeats && stream->fits_ring)
		return stream->plan.length;
	return produced_end(transfer, stream);
}

bool transfer_source_has_ended(const struct transfer *transfer)
{
	return transfer->source.filled >= source_end(transfer);
}

uint64_t transfer_sink_end(const struct transfer *transfer)
{
	const struct transfer_stream *stream = &transfer->sink.stream;

	return stream->repeats ? stream->plan.length : stream->length;
}

/* Return true if the peer has produced the whole incoming stream. */
static bool sink_ended(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;

	return sink->done || sink->produced == produced_end(transfer, &sink->stream);
}

/* ---- Positions that the peer learns ---- */

static uint64_t produced(const struct transfer *transfer)
{
	return transfer->plan.writes ? transfer->operation.posted : transfer->source.filled;
}

static bool is_end_to_mark(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;

	if (source->reported_end)
		return false;
	return transfer->plan.writes ? transfer_has_operated(transfer)
				     : transfer_source_has_ended(transfer);
}

/*
 * Return the sink's `consumed`. For a WRITE, bytes that stay in the ring count as consumed when
 * they arrive, because the source may need the report to refill its own ring.
 */
static uint64_t consumed(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;

	if (!transfer->plan.writes)
		return transfer->operation.completed;
	return sink->stream.fits_ring ? sink->produced : sink->copied;
}

static bool sink_moved(const struct transfer *transfer, uint64_t bytes)
{
	const struct transfer_sink *sink = &transfer->sink;

	return consumed(transfer) - sink->reported_consumed >= bytes ||
	       sink->stored - sink->reported_stored >= bytes;
}

static bool source_moved(const struct transfer *transfer, uint64_t bytes)
{
	return produced(transfer) - transfer->source.reported_produced >= bytes;
}

static bool has_unreported_progress(const struct transfer *transfer)
{
	return is_end_to_mark(transfer) || source_moved(transfer, 1) || sink_moved(transfer, 1);
}

/* Reset the age of progress if all of it has been reported. */
static void forget_reported(struct transfer *transfer)
{
	if (!has_unreported_progress(transfer))
		transfer->unreported_since = TRANSFER_NEVER;
}

/*
 * Return true if the peer may be waiting for an answer before it refills its ring
 * (completes_early): this side has consumed all bytes that the peer has reported, and has not said
 * so.
 */
static bool may_wait_for_answer(const struct transfer *transfer)
{
	return refills_when_consumed(transfer) &&
	       transfer->credits.received > transfer->credits.reported &&
	       consumed(transfer) == transfer->sink.produced && sink_moved(transfer, 1);
}

/*
 * Return true if progress must be reported at once. This is one of these:
 * - with flow control, a large step
 * - with flow control, the end of the stream
 * - progress for which the peer may be waiting
 */
static bool has_urgent_progress(const struct transfer *transfer)
{
	const struct transfer_stream *out = &transfer->source.stream, *in = &transfer->sink.stream;

	if (out->flow_controlled &&
	    (is_end_to_mark(transfer) || source_moved(transfer, out->quarter)))
		return true;
	return (in->flow_controlled && sink_moved(transfer, in->quarter)) ||
	       may_wait_for_answer(transfer);
}

/* ---- Deadlines ---- */

/*
 * Return true if the peer must still consume bytes that this side's source has reported. A WRITE
 * that repeats or is posted completely needs no more room, so the peer owes nothing.
 */
static bool owes_source(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;

	if (transfer->plan.writes && (source->stream.repeats || transfer_has_operated(transfer)))
		return false;
	return source->reported_produced > source->consumed;
}

/*
 * Return true if the peer owes this side's sink more bytes. Unless the stream repeats, it owes them
 * only while the advertised ring has room.
 */
static bool owes_sink(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;
	const struct transfer_stream *stream = &sink->stream;

	if (sink_ended(transfer))
		return false;
	return stream->repeats ||
	       sink->produced < add_saturating(sink->reported_consumed, stream->advertised_size);
}

/* Return true if the peer learns the end of the outgoing stream without another MSG_WINDOW. */
static bool is_marked(const struct transfer_source *source)
{
	const struct transfer_stream *stream = &source->stream;

	return stream->repeats || stream->agreed || source->reported_end;
}

/* Return true if the peer's READ may have read the whole outgoing stream. */
static bool may_have_read(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;

	return transfer_source_has_ended(transfer) && source->reported_produced == source->filled &&
	       is_marked(source);
}

/*
 * Return true if the peer owes MSG_DONE. It owes none before its READ could have read everything.
 */
static bool owes_done(const struct transfer *transfer)
{
	if (transfer->sink.done || !sink_ended(transfer))
		return false;
	return transfer->plan.writes || may_have_read(transfer);
}

enum debtor transfer_debtor(const struct transfer *transfer)
{
	if (owes_source(transfer) || owes_sink(transfer) || owes_done(transfer))
		return DEBTOR_PEER;
	return transfer_outstanding(transfer) > 0 ? DEBTOR_WIRE : DEBTOR_NONE;
}

/* ---- Beginning ---- */

void transfer_init(struct transfer *transfer, const struct transfer_plan *plan)
{
	*transfer = (struct transfer){
		.plan = *plan,
		.source.stream = { .plan = plan->outgoing, .length = all_passes(&plan->outgoing) },
		.sink.stream = { .plan = plan->incoming, .length = all_passes(&plan->incoming) },
		.operation.in_flight = TRANSFER_IN_FLIGHT,
		.operation.round_started = TRANSFER_NEVER,
		.unreported_since = TRANSFER_NEVER,
	};
	transfer->source.stream.agreed = transfer->source.stream.length != LENGTH_UNKNOWN;
	transfer->sink.stream.agreed = transfer->sink.stream.length != LENGTH_UNKNOWN;
	/* without bytes there is no end to report */
	transfer->source.reported_end = transfer->source.stream.length == 0;
	settle(transfer, &transfer->sink.stream, plan->writes ? plan->incoming.ring : 0);
	settle(transfer, &transfer->source.stream, plan->writes ? 0 : plan->outgoing.ring);
}

uint64_t transfer_advertise(struct transfer *transfer)
{
	struct transfer_source *source = &transfer->source;

	if (transfer->plan.writes || !source->stream.plan.present)
		return 0;
	source->reported_produced = source->filled;
	source->reported_end = is_marked(source) && transfer_source_has_ended(transfer);
	forget_reported(transfer);
	return source->reported_produced;
}

const char *transfer_accept_region(struct transfer *transfer, uint64_t ring, uint64_t produced)
{
	bool writes = transfer->plan.writes;
	struct transfer_sink *sink = &transfer->sink;
	struct transfer_stream *stream = writes ? &transfer->source.stream : &sink->stream;

	if (stream->plan.present && ring == 0 && stream->length > 0)
		return "has no memory";
	if (stream->plan.present) {
		settle(transfer, stream, ring);
		size_requests(transfer);
	}
	if (!writes && stream->plan.present) {
		if (produced > ring)
			return "has fewer bytes than are ready";
		if (produced > produced_end(transfer, stream) || produced == LENGTH_UNKNOWN)
			return "has more ready bytes than the payload";
		sink->produced = produced;
	}
	return NULL;
}

/* ---- MSG_WINDOW: sending ---- */

/* Return true if half of the peer's MSG_WINDOWs, rounded up, are unconfirmed: then answer. */
static bool is_obliged(const struct transfer_credits *credits, const struct transfer_plan *plan)
{
	return credits->received - credits->reported >= (plan->credits + 1) / 2;
}

/*
 * Return true if a MSG_WINDOW may be sent. The last credit is kept for an answer, because two sides
 * could otherwise wait for each other.
 */
static bool has_credit(const struct transfer *transfer)
{
	const struct transfer_credits *credits = &transfer->credits;
	uint64_t unconfirmed = credits->sent - credits->confirmed;
	uint64_t reserve = is_obliged(credits, &transfer->plan) ? 0 : 1;

	return unconfirmed + reserve < transfer->plan.credits;
}

bool transfer_is_reported_by_age(const struct transfer *transfer)
{
	const struct transfer_stream *out = &transfer->source.stream, *in = &transfer->sink.stream;

	return !out->flow_controlled && !in->flow_controlled &&
	       (!refills_when_consumed(transfer) || in->fits_ring);
}

int64_t transfer_window_time(struct transfer *transfer, int64_t now)
{
	if (transfer->unreported_since == TRANSFER_NEVER && has_unreported_progress(transfer))
		transfer->unreported_since = now;
	if (!has_credit(transfer))
		return TRANSFER_NEVER;
	if (is_obliged(&transfer->credits, &transfer->plan))
		return now;
	if (transfer->unreported_since == TRANSFER_NEVER)
		return TRANSFER_NEVER;
	return has_urgent_progress(transfer) ? now
					     : transfer->unreported_since + TRANSFER_MILLISECONDS;
}

struct window transfer_make_window(struct transfer *transfer)
{
	struct transfer_source *source = &transfer->source;
	struct transfer_sink *sink = &transfer->sink;
	struct transfer_credits *credits = &transfer->credits;
	const struct window window = {
		.received = credits->received,
		.produced = produced(transfer),
		.consumed = consumed(transfer),
		.stored = sink->stored,
		.end = is_end_to_mark(transfer),
	};

	credits->reported = credits->received;
	credits->sent++;
	source->reported_produced = window.produced;
	source->reported_end = source->reported_end || window.end;
	sink->reported_consumed = window.consumed;
	sink->reported_stored = window.stored;
	transfer->unreported_since = TRANSFER_NEVER;
	return window;
}

/* ---- MSG_WINDOW: receiving ---- */

static const char *validate_credits(const struct transfer *transfer, const struct window *window)
{
	const struct transfer_credits *credits = &transfer->credits;

	if (window->received < credits->confirmed)
		return "confirms fewer MSG_WINDOWs than before";
	if (window->received > credits->sent)
		return "confirms more MSG_WINDOWs than were sent";
	if (credits->received - credits->reported >= transfer->plan.credits)
		return "came before enough earlier ones were confirmed";
	return NULL;
}

/* Return the rule that `produced` or `end` breaks, or NULL. */
static const char *validate_produced(const struct transfer *transfer, uint64_t produced, bool end)
{
	const struct transfer_sink *sink = &transfer->sink;
	const struct transfer_stream *stream = &sink->stream;
	uint64_t last = produced_end(transfer, stream);

	if (produced < sink->produced)
		return "reports fewer produced bytes than before";
	/* while the end is not known, `last` is LENGTH_UNKNOWN, which is no position */
	if (produced > last || produced == LENGTH_UNKNOWN)
		return sink->produced == last ? "reports produced bytes after the end of the "
						"payload"
					      : "reports more produced bytes than agreed";
	if (!stream->repeats &&
	    produced > add_saturating(sink->reported_consumed, stream->advertised_size))
		return "reports more produced bytes than fit into the ring";
	if (end && sink_ended(transfer))
		return "marks the end of the payload twice";
	if (end && last != LENGTH_UNKNOWN && produced != last)
		return "marks the end of the payload before the agreed length";
	return NULL;
}

/* Return true if the peer cannot have consumed or stored bytes up to `position`. */
static bool is_beyond(const struct transfer *transfer, uint64_t position)
{
	const struct transfer_source *source = &transfer->source;

	if (source->stream.repeats && !transfer->plan.writes)
		return position > source->stream.length;
	return position > source->reported_produced;
}

static const char *validate_consumed(const struct transfer *transfer, const struct window *window)
{
	const struct transfer_source *source = &transfer->source;

	if (window->consumed < source->consumed)
		return "reports fewer consumed bytes than before";
	if (window->stored < source->stored)
		return "reports fewer stored bytes than before";
	if (is_beyond(transfer, window->consumed))
		return "reports more consumed bytes than were produced";
	if (is_beyond(transfer, window->stored))
		return "reports more stored bytes than were produced";
	return NULL;
}

const char *transfer_accept_window(struct transfer *transfer, const struct window *window)
{
	struct transfer_source *source = &transfer->source;
	struct transfer_sink *sink = &transfer->sink;
	struct transfer_credits *credits = &transfer->credits;
	bool moved = (window->produced > sink->produced && !sink_ended(transfer)) ||
		     window->consumed > source->consumed || window->stored > source->stored ||
		     window->end;
	const char *wrong = validate_credits(transfer, window);

	if (!wrong)
		wrong = validate_produced(transfer, window->produced, window->end);
	if (!wrong)
		wrong = validate_consumed(transfer, window);
	if (!wrong && !moved && window->received == credits->confirmed)
		wrong = "reports no progress";
	if (wrong)
		return wrong;
	transfer->moves += moved;
	credits->received++;
	credits->confirmed = window->received;
	sink->produced = window->produced;
	if (window->end && !sink->stream.agreed && !sink_ended(transfer))
		sink->stream.length = window->produced;
	source->consumed = window->consumed;
	source->stored = window->stored;
	return NULL;
}

/* ---- MSG_DONE ---- */

bool transfer_source_is_done(const struct transfer *transfer)
{
	return transfer_source_has_ended(transfer) && is_marked(&transfer->source);
}

uint64_t transfer_record_done(struct transfer *transfer)
{
	struct transfer_source *source = &transfer->source;
	const struct transfer_stream *stream = &source->stream;

	source->reported_produced = produced(transfer);
	source->reported_end = true;
	if (!transfer->plan.writes)
		transfer->sink.reported_consumed = transfer->operation.completed;
	forget_reported(transfer);
	return stream->repeats ? stream->plan.length : source->reported_produced;
}

/*
 * Return the position at which the peer's READ has ended. If that is not known, return the last one
 * that the peer reported: a MSG_DONE does not state the number of passes.
 */
static uint64_t read_end(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;

	if (!source->stream.repeats)
		return source->reported_produced;
	return source->stream.length != LENGTH_UNKNOWN ? source->stream.length : source->consumed;
}

const char *transfer_accept_done(struct transfer *transfer, uint64_t bytes)
{
	struct transfer_sink *sink = &transfer->sink;
	uint64_t expected = transfer_sink_end(transfer);
	uint64_t last = produced_end(transfer, &sink->stream);

	if (sink->done)
		return "sent MSG_DONE twice";
	if (expected == LENGTH_UNKNOWN)
		return "sent MSG_DONE without marking the end of its payload";
	if (bytes != expected)
		return "sent MSG_DONE with a wrong length of its payload";
	if (!transfer->plan.writes && !may_have_read(transfer))
		return "sent MSG_DONE before it could have read everything";
	if (last != LENGTH_UNKNOWN && validate_produced(transfer, last, false))
		return "sent MSG_DONE for more bytes than fit into the ring";
	if (last != LENGTH_UNKNOWN)
		sink->produced = last;
	if (!transfer->plan.writes)
		transfer->source.consumed = read_end(transfer);
	sink->done = true;
	return NULL;
}

void transfer_record_verdict(struct transfer *transfer)
{
	struct transfer_sink *sink = &transfer->sink;

	sink->reported_consumed = consumed(transfer);
	sink->reported_stored = sink->stored;
	forget_reported(transfer);
}

/* ---- The operation ---- */

/* Return the position up to which both rings allow a WRITE. LENGTH_UNKNOWN means no limit. */
static uint64_t write_limit(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;
	const struct transfer_stream *stream = &source->stream;

	if (!stream->repeats)
		return smaller(source->filled,
			       add_saturating(source->consumed, stream->advertised_size));
	if (stream->fits_ring && source->filled == stream->plan.length)
		return LENGTH_UNKNOWN;
	return source->filled;
}

static uint64_t read_limit(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;
	const struct transfer_stream *stream = &sink->stream;
	bool all = stream->repeats && sink->produced == stream->plan.length;
	uint64_t remote = all ? LENGTH_UNKNOWN : sink->produced;

	/*
	 * Only the first pass of a stream that repeats is copied. Once it is copied, READs may
	 * overwrite the ring. If the ring holds a whole pass, they always may: later passes write
	 * the same bytes to the same places.
	 */
	if (stream->repeats && (stream->fits_ring || sink->copied == stream->plan.length))
		return remote;
	return smaller(remote, add_saturating(sink->copied, stream->plan.ring));
}

static uint64_t operation_limit(const struct transfer *transfer)
{
	return transfer->plan.writes ? write_limit(transfer) : read_limit(transfer);
}

/* Return the number of bytes that may be posted now. */
static uint64_t operable_bytes(const struct transfer *transfer)
{
	uint64_t posted = transfer->operation.posted;
	uint64_t limit = smaller(operated_stream(transfer)->length, operation_limit(transfer));

	return limit > posted ? limit - posted : 0;
}

/* Return the number of bytes to the nearest end of a ring or a pass. No request crosses these. */
static uint64_t to_the_end(const struct transfer_operation *operation,
			   const struct transfer_stream *stream)
{
	const struct stream_plan *plan = &stream->plan;
	uint64_t straight = smaller(stream->local_span - operation->local,
				    stream->remote_span - operation->remote);

	if (stream->repeats || plan->passes == 1 || plan->length == LENGTH_UNKNOWN)
		return straight;
	return smaller(straight, plan->length - operation->posted % plan->length);
}

/* Plan a run of up to `most` requests in the next `bytes`. Return the number of requests. */
static uint64_t plan_run(const struct transfer *transfer, uint64_t bytes, uint64_t most,
			 struct transfer_run *run)
{
	const struct transfer_operation *operation = &transfer->operation;
	const struct transfer_stream *stream = operated_stream(transfer);
	uint64_t straight = to_the_end(operation, stream);
	uint64_t size = smaller(smaller(operation->size, bytes), straight), stride = 0;

	if (size != stream->local_span || size != stream->remote_span) {
		stride = size;
		bytes = smaller(bytes, straight);
	}
	run->number = operation->requests_posted + 1;
	run->local = operation->local;
	run->remote = operation->remote;
	run->size = size;
	run->stride = stride;
	return most * size <= bytes ? most : bytes / size; /* avoid a slow division */
}

/* Return `offset` + `size`, or 0 at the end of the ring. A division would be slower. */
static uint64_t advance_offset(uint64_t offset, uint64_t size, uint64_t span)
{
	return offset + size == span ? 0 : offset + size;
}

static void count_run(struct transfer *transfer, const struct transfer_run *run, uint64_t bytes)
{
	struct transfer_operation *operation = &transfer->operation;

	operation->posted += bytes;
	operation->requests_posted += run->count;
	if (run->stride > 0) {
		const struct transfer_stream *stream = operated_stream(transfer);

		operation->local = advance_offset(operation->local, bytes, stream->local_span);
		operation->remote = advance_offset(operation->remote, bytes, stream->remote_span);
	}
	if (!run->signaled) {
		operation->unsignaled += run->count;
		return;
	}
	operation->unsignaled = 0;
	operation->signals[operation->signals_posted++ % TRANSFER_SIGNALS] =
		(struct transfer_signal){ operation->requests_posted, operation->posted };
}

static bool has_signal(const struct transfer_operation *operation)
{
	return operation->signals_posted - operation->signals_completed < TRANSFER_SIGNALS;
}

/*
 * Ask for a completion once per depth/4 requests, and always with the last request that bytes and
 * depth allow now. Later requests, or the end of the session, may depend on that completion.
 */
bool transfer_take_run(struct transfer *transfer, unsigned int most, struct transfer_run *run)
{
	struct transfer_operation *operation = &transfer->operation;
	uint64_t left = operation->depth - transfer_outstanding(transfer);
	uint64_t room = smaller(most, left);
	uint64_t until_signal, bytes, count, planned;

	if (room == 0 || !has_signal(operation))
		return false;
	bytes = operable_bytes(transfer);
	if (bytes == 0)
		return false;
	until_signal = operation->interval - operation->unsignaled;
	count = plan_run(transfer, bytes, smaller(room, until_signal), run);
	planned = count * run->size;
	run->count = (unsigned int)count;
	run->signaled = count == until_signal || count == left || planned == bytes;
	count_run(transfer, run, planned);
	run->more = left > count && bytes > planned && has_signal(operation);
	return true;
}

void transfer_record_rejected(struct transfer *transfer, uint64_t number)
{
	transfer->operation.requests_posted = number - 1;
}

bool transfer_record_completed(struct transfer *transfer, uint64_t number, int64_t now)
{
	struct transfer_operation *operation = &transfer->operation;

	if (number <= operation->requests_completed || number > operation->requests_posted)
		return false;
	operation->requests_completed = number;
	while (operation->signals_completed < operation->signals_posted) {
		const struct transfer_signal *signal =
			&operation->signals[operation->signals_completed % TRANSFER_SIGNALS];

		if (signal->request > number)
			break;
		operation->completed = signal->position;
		operation->signals_completed++;
	}
	if (operation->grows)
		end_round(transfer, now);
	return true;
}

void transfer_stop(struct transfer *transfer)
{
	bool writes = transfer->plan.writes;
	struct transfer_stream *stream = writes ? &transfer->source.stream : &transfer->sink.stream;
	uint64_t pass = stream->plan.length, begun = transfer->operation.posted;

	if (!stream->repeats || stream->length != LENGTH_UNKNOWN || pass == 0)
		return;
	if (writes && !stream->fits_ring && transfer->source.filled > begun)
		begun = transfer->source.filled;
	/* at least one more request is posted, and its completion marks the end */
	stream->length = (begun / pass + 1) * pass;
}

/* ---- Filling and emptying the rings ---- */

static uint64_t fill_limit(const struct transfer *transfer)
{
	const struct transfer_source *source = &transfer->source;
	const struct transfer_stream *stream = &source->stream;
	bool by_completion = transfer->plan.writes && !transfer->plan.completes_early;
	uint64_t freed = by_completion ? transfer->operation.completed : source->consumed;
	uint64_t limit = smaller(add_saturating(freed, stream->plan.ring), source_end(transfer));

	/* until the peer's MSG_MR, fill only the first pass: later passes may only repeat it */
	if (stream->advertised_size == 0)
		return smaller(limit, stream->plan.length);
	return limit;
}

/* Make the piece from `position` to `limit` or the end of the ring. Return false if it is empty. */
static bool make_piece(uint64_t position, uint64_t limit, uint64_t ring, struct piece *piece)
{
	if (position >= limit)
		return false;
	piece->position = position;
	piece->offset = position % ring;
	piece->size = smaller(limit - position, ring - piece->offset);
	return true;
}

bool transfer_next_fill(const struct transfer *transfer, struct piece *piece)
{
	const struct transfer_source *source = &transfer->source;

	return make_piece(source->filled, fill_limit(transfer), source->stream.plan.ring, piece);
}

void transfer_record_filled(struct transfer *transfer, uint64_t size)
{
	transfer->source.filled += size;
}

void transfer_end_source(struct transfer *transfer)
{
	struct transfer_stream *stream = &transfer->source.stream;
	uint64_t pass = stream->plan.length, filled = transfer->source.filled;

	if (stream->repeats || stream->length != LENGTH_UNKNOWN)
		return;
	stream->length =
		pass == LENGTH_UNKNOWN ? filled : (larger(filled, 1) + pass - 1) / pass * pass;
}

/* Return the position up to which the bytes in the sink's ring have arrived and are final. */
static uint64_t copy_limit(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;

	if (sink->stream.fits_ring) {
		bool over = transfer->plan.writes ? sink->done : transfer_has_operated(transfer);

		return over ? transfer_sink_end(transfer) : 0;
	}
	if (transfer->plan.writes)
		return sink->produced;
	return smaller(transfer->operation.completed, transfer_sink_end(transfer));
}

bool transfer_next_copy(const struct transfer *transfer, struct piece *piece)
{
	const struct transfer_sink *sink = &transfer->sink;

	return make_piece(sink->copied, copy_limit(transfer), sink->stream.plan.ring, piece);
}

void transfer_record_copied(struct transfer *transfer, uint64_t size)
{
	transfer->sink.copied += size;
}

void transfer_record_stored(struct transfer *transfer, uint64_t size)
{
	transfer->sink.stored += size;
}
