// SPDX-License-Identifier: MIT
/*
 * Tests of flow control: stories of one side, step by step; simulated wires; and an exploration of
 * every order of events in which two sides can exchange short streams through tiny rings.
 *
 * The exploration runs two sides against each other, with everything that verbs and workers may do
 * in between. A worker fills the source's ring, or copies out of the sink's. Each byte of each ring
 * is modeled: it is garbage while an adapter or a worker may be writing it.
 *
 * The model assumes this of the transport, and nothing more:
 * - WRITEs and messages are executed in the order of posting; READs in order among themselves, and
 *   messages among themselves, but a message may overtake a READ;
 * - the destination of a WRITE or READ holds garbage from the posting until the execution; a source
 *   in memory is read at the execution;
 * - a completion comes at any time after the execution; over iWARP, a WRITE may complete as soon as
 *   it is posted. Only signaled requests get a completion, which stands for all earlier requests;
 * - messages that arrived are handled in order, at any later time, in any order relative to
 *   completions and workers;
 * - a worker takes a piece as soon as there is one, accesses it at any time until its report, and
 *   reports the whole piece or its first byte.
 *
 * The exploration also runs with deliberate mistakes, to show that it finds violations.
 */
#include "rdma-common/transfer.h"

#include <inttypes.h>

#include "unit.h"

/* ---- One side ---- */

#define KIB   ((uint64_t)1 << 10)
#define MIB   ((uint64_t)1 << 20)
#define GIB   ((uint64_t)1 << 30)
#define NEVER TRANSFER_NEVER

/* the streams, the operation and its options, as bits of `flows` */
enum {
	OUT = 1,
	IN = 2,
	BOTH = OUT | IN,
	READ = 4,
	TIMED = 8,
	EARLY = 16
};

/* A side's plan in short; a field that is 0 has the default. */
struct kind {
	int flows;
	uint64_t length, ring, announced; /* bytes; `announced`: the peer's ring; 0: no MSG_MR */
	unsigned int depth, passes;       /* defaults: 16, 1 */
	uint64_t request;                 /* maximum bytes of a request */
	unsigned int share;               /* progress of 1/share of the ring is reported at once */
};

static struct transfer_plan plan_of(const struct kind *kind)
{
	struct stream_plan stream = {
		.length = kind->length,
		.passes = kind->flows & TIMED ? 0
			  : kind->passes      ? kind->passes
					      : 1,
		.ring = kind->ring,
	};
	struct transfer_plan plan = {
		.writes = !(kind->flows & READ),
		.completes_early = kind->flows & EARLY,
		.depth = kind->depth ? kind->depth : 16,
		.request_size = kind->request ? kind->request : TRANSFER_REQUEST_SIZE,
		.credits = TRANSFER_CREDITS,
		.answer = TRANSFER_ANSWER,
		.share = kind->share ? kind->share : TRANSFER_SHARE,
		.outgoing = stream,
		.incoming = stream,
	};

	plan.outgoing.present = kind->flows & OUT;
	plan.incoming.present = kind->flows & IN;
	return plan;
}

static struct transfer begin(struct kind kind)
{
	struct transfer_plan plan = plan_of(&kind);
	struct transfer side;

	transfer_init(&side, &plan);
	if (kind.announced)
		assert_null(transfer_peer_region(&side, kind.announced, 0));
	transfer_window_time(&side, 0);
	return side;
}

static void fill_all(struct transfer *side)
{
	struct piece piece;

	while (transfer_fill(side, &piece))
		transfer_filled(side, piece.size);
}

/*
 * Post as many requests as allowed, up to `most`, and complete them at once. Return their number.
 */
static unsigned int operate(struct transfer *side, uint64_t most, int64_t now)
{
	struct transfer_run request;
	unsigned int requests = 0;

	while (requests < most && transfer_next(side, 1, &request)) {
		requests++;
		if (request.signaled)
			assert_true(transfer_completed(side, request.number, now));
	}
	return requests;
}

/* Get the MSG_WINDOW that is due now. Return false if none is due. */
static bool take_window(struct transfer *side, int64_t now, struct window *window)
{
	if (transfer_window_time(side, now) > now)
		return false;
	*window = transfer_window(side);
	return true;
}

/* Return true if the peer is done and everything that it sent is stored: the verdict is due. */
static bool everything_is_stored(const struct transfer *side)
{
	return side->sink.done && side->sink.stored == transfer_sink_end(side);
}

/* ---- Stories: one side, step by step ---- */

/* The current story. */
static struct {
	char promise[128];
	struct transfer side;
	int64_t now;
	unsigned int steps; /* number of steps so far */
} it;

/* Begin a story about a side of this kind. `promise` is the behavior that its steps must show. */
static void tell_of(const char *promise, struct kind kind)
{
	snprintf(it.promise, sizeof(it.promise), "%s", promise);
	it.side = begin(kind);
	it.now = 0;
	it.steps = 0;
}

static void tell(const char *promise, int flows, uint64_t length, uint64_t ring, uint64_t announced)
{
	tell_of(promise,
		(struct kind){
			.flows = flows, .length = length, .ring = ring, .announced = announced });
}

/* End a step: ask when MSG_WINDOW is due, as the programs do in every turn of their loop. */
static void turn(void)
{
	it.steps++;
	transfer_window_time(&it.side, it.now);
}

/* End a step. If `holds` is false, fail with the promise and the number of the step. */
static void expect(bool holds, const char *step)
{
	if (!holds)
		fail_msg("%s: step %u, %s(), does not hold", it.promise, it.steps + 1, step);
	turn();
}

static void is(uint64_t value, uint64_t expected)
{
	if (value != expected)
		fail_msg("%s: step %u: %" PRIu64 " instead of %" PRIu64, it.promise, it.steps + 1,
			 value, expected);
	turn();
}

/* Steps: this side's events. */

static void at(int64_t now)
{
	it.now = now;
	turn();
}

static void fills(uint64_t bytes)
{
	transfer_filled(&it.side, bytes);
	turn();
}

static void fills_all(void)
{
	fill_all(&it.side);
	turn();
}

static void source_ends(uint64_t bytes)
{
	transfer_end_source(&it.side);
	is(it.side.source.stream.length, bytes);
}

static void stops(void)
{
	transfer_stop(&it.side);
	turn();
}

/* Check that transfer_stop() changes nothing. */
static void ignores_stop(void)
{
	const struct transfer before = it.side;

	transfer_stop(&it.side);
	expect(!memcmp(&it.side, &before, sizeof(before)), __func__);
}

static void copies(uint64_t bytes)
{
	transfer_copied(&it.side, bytes);
	turn();
}

static void stores_up_to(uint64_t position)
{
	transfer_stored(&it.side, position);
	turn();
}

static void sends_verdict(void)
{
	transfer_verdict(&it.side);
	turn();
}

/* Steps: this side's work requests. */

static void posts_all(void)
{
	operate(&it.side, UINT64_MAX, it.now);
	turn();
}

static void posts(unsigned int requests)
{
	expect(operate(&it.side, requests, it.now) == requests, __func__);
}

/* Post and check a run of at most `most` requests, which follows the last run in the rings. */
static void posts_run(unsigned int most, unsigned int count, uint64_t size, bool signaled)
{
	const struct transfer_operation before = it.side.operation;
	const struct transfer_stream *stream =
		it.side.plan.writes ? &it.side.source.stream : &it.side.sink.stream;
	struct transfer_run run = { .count = 0 };

	expect(transfer_next(&it.side, most, &run) && run.count == count && run.size == size &&
		       run.stride == size && run.signaled == signaled &&
		       run.number == before.requests_posted + 1 &&
		       run.local == before.posted % stream->plan.ring &&
		       run.remote == before.posted % stream->announced,
	       __func__);
}

static void posts_no_run(unsigned int most)
{
	struct transfer_run run;

	expect(!transfer_next(&it.side, most, &run), __func__);
}

static void rejected(uint64_t request)
{
	transfer_rejected(&it.side, request);
	turn();
}

static void completes(uint64_t request)
{
	expect(transfer_completed(&it.side, request, it.now), __func__);
}

/* Complete a request that is not outstanding, and check that nothing changes. */
static void ignores(uint64_t request)
{
	const struct transfer before = it.side;

	expect(!transfer_completed(&it.side, request, 0) &&
		       !memcmp(&it.side, &before, sizeof(before)),
	       __func__);
}

/*
 * Steps: the peer's messages. `wrong` is the rule that the message breaks; NULL: it is accepted. A
 * rejected MSG_WINDOW or MSG_DONE changes nothing.
 */

static bool answer_is_expected(const char *error, const char *wrong, const struct transfer *before)
{
	if (!error || !wrong)
		return error == wrong;
	return !strcmp(error, wrong) && !memcmp(before, &it.side, sizeof(*before));
}

static void region(const char *wrong, uint64_t bytes, uint64_t produced)
{
	const char *error = transfer_peer_region(&it.side, bytes, produced);

	expect(answer_is_expected(error, wrong, &it.side), __func__);
}

static void hears(const char *wrong, struct window window)
{
	const struct transfer before = it.side;

	expect(answer_is_expected(transfer_accept(&it.side, &window), wrong, &before), __func__);
}

static void peer_done(const char *wrong, uint64_t bytes)
{
	const struct transfer before = it.side;

	expect(answer_is_expected(transfer_accept_done(&it.side, bytes), wrong, &before), __func__);
}

/* Steps: this side's MSG_MR, MSG_WINDOW (and when it is due) and MSG_DONE. */

static void announces(uint64_t produced)
{
	expect(transfer_announce(&it.side) == produced, __func__);
}

static void says(struct window expected)
{
	struct window window;

	expect(take_window(&it.side, it.now, &window) && window.received == expected.received &&
		       window.produced == expected.produced &&
		       window.consumed == expected.consumed && window.stored == expected.stored &&
		       window.end == expected.end,
	       __func__);
}

static void due(int64_t time)
{
	expect(transfer_window_time(&it.side, it.now) == time, __func__);
}

/* Check that no MSG_WINDOW is due now. */
static void silent(void)
{
	expect(transfer_window_time(&it.side, it.now) > it.now, __func__);
}

static void done(uint64_t bytes)
{
	expect(transfer_done_due(&it.side) && transfer_done(&it.side) == bytes, __func__);
}

/* Steps: the state of the side. */

static void operated(bool yes)
{
	expect(transfer_operated(&it.side) == yes, __func__);
}

static void may_copy(uint64_t size)
{
	struct piece piece = { .size = 0 };

	expect(transfer_copy(&it.side, &piece) == (size > 0) && piece.size == size, __func__);
}

static void sink_ends(uint64_t bytes)
{
	expect(transfer_sink_end(&it.side) == bytes, __func__);
}

/* Check that the transfer waits for the peer's program. */
static void peer_owes(void)
{
	expect(transfer_debtor(&it.side) == DEBTOR_PEER, __func__);
}

static void wire_owes(void)
{
	expect(transfer_debtor(&it.side) == DEBTOR_WIRE, __func__);
}

static void nothing_owed(void)
{
	expect(transfer_debtor(&it.side) == DEBTOR_NONE, __func__);
}

/* clang-format off */

TEST(progress_is_reported_when_it_is_large_or_old)
{
	tell("a source that fits into the ring needs no window before MSG_DONE", BOTH, 8 * MIB, 8 * MIB, 8 * MIB);
	fills_all(); at(100); posts_all(); operated(true); at(249); silent(); done(8 * MIB); at(10000); silent();

	tell("a sink whose ring holds the stream needs no window either, unless it verifies for more than 250 ms",
		BOTH, 8 * MIB, 8 * MIB, 8 * MIB);
	may_copy(0); at(300); peer_done(NULL, 8 * MIB); may_copy(8 * MIB); at(549); silent(); at(550);
	says((struct window){ .consumed = 8 * MIB });

	tell("progress is reported when it is 250 ms old", BOTH, 8 * MIB, 8 * MIB, 8 * MIB);
	due(NEVER); fills(5000); at(1000); posts(1); due(1250); at(1249); silent(); at(1250);
	says((struct window){ .produced = 5000 }); due(NEVER);

	tell("newly stored bytes are reported, even if no more bytes were consumed", IN, MIB, 64 * KIB, 0);
	at(100); hears(NULL, (struct window){ .produced = 32 * KIB }); at(200); copies(32 * KIB);
	says((struct window){ .received = 1, .consumed = 32 * KIB }); due(NEVER);
	at(1000); stores_up_to(1000); due(1250); at(1250);
	says((struct window){ .received = 1, .consumed = 32 * KIB, .stored = 1000 });

	tell("a good verdict reports all consumed and stored bytes, without a window", IN, MIB, 64 * KIB, 0);
	at(100); hears(NULL, (struct window){ .produced = 8 * KIB }); copies(8 * KIB); due(350); stores_up_to(8 * KIB);
	due(350); sends_verdict(); due(NEVER); at(350); silent();
	is(it.side.sink.advertised_consumed, 8 * KIB); is(it.side.sink.advertised_stored, 8 * KIB);

	tell("MSG_DONE reports all bytes that were read", IN | READ, 100000, 100000, 0);
	region(NULL, 100000, 100000); at(100); posts_all(); due(350); done(0); is(it.side.sink.advertised_consumed, 100000);
	due(NEVER);

	tell("a quarter of the ring is reported at once", BOTH, 4 * MIB, MIB, MIB);
	fills(256 * KIB - 1); posts_all(); silent(); fills(1); posts_all(); says((struct window){ .produced = 256 * KIB });
	/* a quarter of a tiny ring is at least one byte */
	for (uint64_t ring = 1; ring < 10; ring++) {
		tell("every byte of a tiny ring is reported", BOTH | READ, MIB, ring, 0);
		is(it.side.source.stream.quarter, ring < 8 ? 1 : 2);
	}
	/* EARLY: the source may refill only consumed bytes, so it does not wait for 250 ms */
	for (uint64_t announced = 32 * KIB; announced <= 8 * MIB; announced *= 16) {
		tell("a quarter of a short ring of this side is reported at once", BOTH | EARLY, MIB, 16 * KIB, announced);
		region(NULL, announced, 0);
		fills(4 * KIB - 1); posts_all(); silent(); fills(1); posts_all();
		says((struct window){ .produced = 4 * KIB });
	}

	tell("a quarter of a shorter announced ring is reported at once", BOTH | EARLY, 8 * MIB, MIB, 64 * KIB);
	fills(16 * KIB - 1); posts_all(); silent(); fills(1); posts_all(); says((struct window){ .produced = 16 * KIB });

	tell("a ring that holds the whole stream is reported by age alone", BOTH | EARLY, 16 * KIB, 16 * KIB, MIB);
	fills(8 * KIB); posts_all(); silent();

	tell("progress is reported by age if WRITEs complete after delivery", BOTH, MIB, 16 * KIB, 8 * MIB);
	fills(8 * KIB); posts_all(); silent();

	tell("a sink that has consumed all produced bytes reports it at once", BOTH | EARLY, 64 * MIB, 8 * MIB, 8 * MIB);
	hears(NULL, (struct window){ .produced = 16 * KIB }); copies(16 * KIB - 1); silent(); copies(1);
	says((struct window){ .received = 1, .consumed = 16 * KIB }); due(NEVER);

	tell("a sink whose ring is never overwritten reports arrived bytes as consumed", BOTH | EARLY, MIB, 8 * MIB, 8 * MIB);
	hears(NULL, (struct window){ .produced = 16 * KIB }); says((struct window){ .received = 1, .consumed = 16 * KIB });
	due(NEVER);

	tell("a sink reports by age if WRITEs complete after delivery", BOTH, MIB, 8 * MIB, 8 * MIB);
	hears(NULL, (struct window){ .produced = 16 * KIB }); due(250); silent();

	tell("a timed READ that repeats needs no window after MSG_MR", BOTH | READ | TIMED, 100000, 100000, 0);
	fills(100000); announces(100000); at(1000); silent(); due(NEVER);

	tell_of("the first posted request is reported when it is 250 ms old",
		(struct kind){ OUT, MIB, MIB, MIB, .request = 16 * KIB });
	fills(MIB); announces(0); peer_done(NULL, 0); nothing_owed(); due(NEVER); at(100);
	posts_run(1, 1, 16 * KIB, false); wire_owes(); due(350);
	at(200); posts_run(1, 1, 16 * KIB, false); wire_owes(); due(350);

	tell("all credits are used and returned, except the last one, which is reserved for an answer",
		BOTH, 8 * MIB, 8 * MIB, 8 * MIB);
	for (uint64_t window = 1; window <= 31; window++) {
		fills(1); posts_all(); silent(); at(it.now + 250); says((struct window){ .produced = window });
	}
	fills(1); posts_all(); due(NEVER); at(it.now + 250); silent();
	for (uint64_t window = 1; window <= 16; window++) {
		silent(); hears(NULL, (struct window){ .produced = window });
	}
	says((struct window){ .received = 16, .produced = 32, .consumed = 16 });
	hears(NULL, (struct window){ .received = 16, .produced = 17 }); is(it.side.credits.sent, 32);
	is(it.side.credits.confirmed, 16);

	tell("credits limit a flood of windows of one byte each; an answer returns them", BOTH, MIB, 64 * KIB, 0);
	for (uint64_t produced = 32; produced <= 3 * 32; produced += 32) {
		for (uint64_t window = 31; window < 32; window--)
			hears(NULL, (struct window){ .produced = produced - window });
		hears("exceeds its credits", (struct window){ .produced = produced + 1 });
		says((struct window){ .received = produced }); hears("reports no progress", (struct window){ .produced = produced });
	}
}

TEST(requests_are_split_at_ring_ends_limited_by_depth_and_counted_once)
{
	tell_of("a request ends where a ring ends", (struct kind){ BOTH, MIB, 61440, 40960, .depth = 1, .share = 1 });
	fills_all(); posts_run(1, 1, 40960, true); completes(1); at(250); says((struct window){ .produced = 40960 });
	hears(NULL, (struct window){ .consumed = 40960 });
	fills_all(); posts_run(1, 1, 20480, true); completes(2); at(500);
	says((struct window){ .received = 1, .produced = 61440 }); hears(NULL, (struct window){ 1, 0, 61440, 0, false });
	fills_all(); posts_run(1, 1, 20480, true); completes(3); at(750);
	says((struct window){ .received = 2, .produced = 81920 }); hears(NULL, (struct window){ 2, 0, 81920, 0, false });
	fills_all(); posts_run(1, 1, 40960, true);

	tell_of("a rejected request and all later ones are not outstanding",
		(struct kind){ OUT, MIB, MIB, MIB, .request = 100 });
	fills(MIB); posts_run(8, 4, 100, true); posts_run(3, 3, 100, false); rejected(6);
	is(it.side.operation.requests_posted, 5); ignores(6);
	completes(4); is(it.side.operation.completed, 400); completes(5); is(it.side.operation.requests_completed, 5);
	is(it.side.operation.completed, 400);

	tell_of("requests that are flushed one by one are counted once",
		(struct kind){ OUT, MIB, MIB, MIB, .request = 100 });
	fills(MIB); posts_run(16, 4, 100, true); posts_run(16, 4, 100, true); is(it.side.operation.completed, 0);
	completes(1); completes(2); completes(3); is(it.side.operation.completed, 0);
	is(it.side.operation.requests_completed, 3);
	completes(4); is(it.side.operation.completed, 400); completes(8); is(it.side.operation.completed, 800);
	is(it.side.operation.requests_completed, 8);

	tell_of("one completion stands for all requests before it", (struct kind){ OUT, MIB, MIB, MIB, .request = 100 });
	fills(MIB); posts_run(16, 4, 100, true); posts_run(16, 4, 100, true); completes(4);
	is(it.side.operation.completed, 400);
	completes(8); is(it.side.operation.completed, 800); is(it.side.operation.requests_completed, 8);

	tell("a completion of an unknown or completed request completes nothing", OUT, MIB, MIB, MIB);
	fills(MIB); ignores(1); posts_run(1, 1, 64 * KIB, true); ignores(0); ignores(2); completes(1); ignores(1);

	tell_of("the last request of an interval is signaled, and so is the last one for now",
		(struct kind){ OUT, MIB, MIB, MIB, .request = 100 });
	fills(1050); posts_no_run(0); posts_run(3, 3, 100, false); posts_run(32, 1, 100, true);
	posts_run(4, 4, 100, true); posts_run(32, 2, 100, false);
	posts_run(32, 1, 50, true); posts_no_run(32);

	tell_of("the last request that the depth allows asks for a completion",
		(struct kind){ OUT, MIB, MIB, MIB, .depth = 9, .request = 100 });
	fills(MIB); posts_run(16, 2, 100, true); posts_run(16, 2, 100, true); posts_run(16, 2, 100, true);
	posts_run(16, 2, 100, true);
	posts_run(16, 1, 100, true); posts_no_run(16);

	tell_of("a request ends where a pass of a stream ends",
		(struct kind){ OUT, 1000, 4096, 999, .passes = 10 });
	fills(3500); posts_run(16, 1, 999, true); posts_no_run(16); completes(1); at(250);
	says((struct window){ .produced = 999 }); hears(NULL, (struct window){ .received = 1, .consumed = 999 }); posts_run(16, 1, 1, false); posts_run(16, 1, 998, true);

	/* each request sends the only byte that is filled, so it asks for a completion */
	tell_of("at most TRANSFER_SIGNALS completions are outstanding",
		(struct kind){ OUT, MIB, MIB, MIB, .depth = 128, .request = 100 });
	for (int signal = 0; signal < TRANSFER_SIGNALS; signal++) {
		fills(1); posts_run(32, 1, 1, true); posts_no_run(32);
	}
	fills(1); posts_no_run(32); completes(2); is(it.side.operation.completed, 2); posts_run(32, 1, 1, true);
	completes(TRANSFER_SIGNALS + 1);
	is(it.side.operation.completed, TRANSFER_SIGNALS + 1);
	is(it.side.operation.requests_completed, TRANSFER_SIGNALS + 1);

	for (unsigned int depth = 1; depth < 40; depth++) {
		unsigned int count = 0, last = 0;
		struct transfer_run run;

		tell_of("as many requests are outstanding as the depth allows",
			(struct kind){ OUT, 64, 64, 64, .depth = depth, .passes = 100 });
		fills_all();
		while (transfer_next(&it.side, 32, &run)) {
			is(run.stride + run.local + run.remote, 0);
			count += run.count;
			last = run.signaled ? count : last;
		}
		is(count, depth);
		is(last > 0, true); /* without a completion the operation would never continue */
	}

	tell("a stream may have more than 2^32 bytes", OUT, (uint64_t)3 << 39, 8 * MIB, 8 * MIB);
	while (!transfer_operated(&it.side)) {
		struct window advertised;

		fills_all(); posts_all(); it.now += 250;
		if (take_window(&it.side, it.now, &advertised))
			hears(NULL, (struct window){ .received = it.side.credits.sent, .consumed = advertised.produced });
	}
	done((uint64_t)3 << 39);
}

TEST(one_completion_is_requested_per_interval)
{
	static const struct {
		unsigned int interval, depth;
		uint64_t request;
	} rows[] = {
		{ 1, 1, 100 }, { 1, 3, 100 }, { 1, 4, 100 }, { 1, 7, 100 }, { 2, 8, 100 }, { 4, 16, 100 },
		{ 25, 100, 100 }, { 16, 128, 4096 }, { 1, 128, 65536 },
	};

	for (size_t i = 0; i < ENTRIES(rows); i++) {
		char promise[64];

		snprintf(promise, sizeof(promise), "one completion for %u requests, depth %u",
			rows[i].interval, rows[i].depth);
		tell_of(promise,
			(struct kind){ OUT, GIB, GIB, GIB, .depth = rows[i].depth, .request = rows[i].request });
		fills(256 * MIB); posts_run(32, rows[i].interval, rows[i].request, true);
		if (rows[i].depth > 1)
			posts_run(32, rows[i].interval, rows[i].request, true);
	}
}

/*
 * Each row: the expected size of a request and number of requests in flight; then the bytes of the
 * peer's ring, and the device's limit for a request.
 */
TEST(request_size_is_limited_by_ring_and_device)
{
	static const struct {
		uint64_t bytes, outstanding, ring, device;
	} rows[] = {
		/* the ring holds the whole stream: at first, at most 256 KiB are in flight */
		{ 65536, 4, MIB, MIB }, { 65536, 4, MIB, 65536 }, { 60000, 4, MIB, 60000 },
		/* the device limits the size */
		{ 1000, 100, MIB, 1000 },
		/* the limit is a quarter of the ring: progress is reported in such steps */
		{ 32768, 8, 128 * KIB, MIB }, { 32767, 8, 128 * KIB - 4, MIB },
		/*
		 * this limit is at least a page, unless the ring or the device's limit is smaller
		 */
		{ 4096, 64, 5000, MIB }, { 1000, 100, 1000, MIB }, { 100, 100, 5000, 100 },
	};

	for (size_t i = 0; i < ENTRIES(rows); i++) {
		struct transfer_run run = { .size = 0 };
		char promise[64];

		snprintf(promise, sizeof(promise), "%" PRIu64 " bytes in a ring of %" PRIu64,
			rows[i].bytes, rows[i].ring);
		tell_of(promise, (struct kind){ OUT, MIB, MIB, rows[i].ring, .depth = 100, .request = rows[i].device });
		fills(MIB); is(transfer_next(&it.side, 1, &run), true); is(run.size, rows[i].bytes);
		is(it.side.operation.depth, rows[i].outstanding);
	}
}

static void ends_with_its_pass(void)
{
	fills_all(); posts(1001); operated(false); stops(); posts_all(); operated(true);
	is(it.side.operation.posted, 50100000); done(100000);
}

TEST(passes_end_at_the_planned_position)
{
	tell_of("passes that fit into the ring are filled once and posted many times",
		(struct kind){ BOTH, 100000, 100000, 100000, .passes = 1000 });
	fills_all(); is(it.side.source.filled, 100000); posts_all(); operated(true); at(250);
	says((struct window){ .produced = 100000000, .end = true }); done(100000);

	tell_of("the sink copies the last pass", (struct kind){ BOTH, 100000, 100000, 100000, .passes = 1000 });
	at(250); hears(NULL, (struct window){ .produced = 100000000 }); at(300); peer_done(NULL, 100000); may_copy(100000);

	tell_of("passes that exceed the announced ring are one stream",
		(struct kind){ BOTH, 100000, 99999, 99999, .passes = 1000 });
	fills_all(); posts_all(); is(it.side.operation.posted, 99999); sink_ends(100000000);

	tell("a timed WRITE ends with the pass that has begun", BOTH | TIMED, 100000, 100000, 100000);
	ends_with_its_pass();

	tell("a timed READ ends with the pass that has begun", BOTH | READ | TIMED, 100000, 100000, 0);
	region(NULL, 100000, 100000); ends_with_its_pass();

	/* this side's ring is shorter than a pass: the source is ahead of the wire */
	tell("a timed WRITE ends with the pass that its source has begun", OUT | TIMED, 100000, 30000, 100000);
	fills(30000); posts_all(); fills(30000); posts_all(); fills(30000); posts_all();
	is(it.side.source.filled, 90000); fills(30000); stops();
	is(it.side.source.stream.length, 200000); posts_all(); fills_all(); posts_all(); fills_all(); posts_all();
	fills_all(); posts_all(); operated(true); ignores_stop();

	tell("only its source ends a timed stream of passes that exceed the ring",
		BOTH | TIMED, 100000, 100000, 99999);
	ignores_stop();

	tell_of("a counted number of passes is not cut short", (struct kind){ BOTH, 100000, 100000, 100000, .passes = 3 });
	ignores_stop();

	tell("a timed stream of passes ends once, with the pass that has begun", BOTH | TIMED, 1000, 4096, 999);
	fills(1001); source_ends(2000); fills(999); source_ends(2000);

	tell("a timed stream has at least one pass", BOTH | TIMED, 1000, 4096, 999);
	source_ends(1000);

	tell("a timed stream ends at once after a full pass", BOTH | TIMED, 1000, 4096, 999);
	fills(2000); source_ends(2000);

	tell("a pipe ends after the filled bytes", BOTH, LENGTH_UNKNOWN, 4096, 4096);
	fills(1001); source_ends(1001);

	tell("an agreed length does not change", BOTH, 100000, 4096, 4096);
	fills(1000); source_ends(100000);
}

/*
 * Begin a story in the middle: both sides have reported 50000 produced and 40000 consumed bytes, and
 * the peer has reported 30000 stored bytes.
 */
static void tell_middle(const char *promise)
{
	tell(promise, BOTH | READ, MIB, 64 * KIB, 0);
	announces(0); region(NULL, 64 * KIB, 40000); fills(50000); posts_all();
	says((struct window){ .produced = 50000, .consumed = 40000 });
	hears(NULL, (struct window){ 1, 50000, 40000, 30000, false });
}

TEST(messages_that_break_a_rule_are_rejected)
{
	tell("MSG_MR produces at most the size of its region and the length of the stream", BOTH | READ, 100000, 100000, 0);
	region(NULL, 1000, 1000); region("announces too many ready bytes", 1000, 1001); region(NULL, MIB, 100000);
	region("announces too many ready bytes", MIB, 100001); region("has no memory", 0, 0);

	tell("a peer never reports the number that means unknown", BOTH | READ, LENGTH_UNKNOWN, 64 * KIB, 0);
	region("announces too many ready bytes", UINT64_MAX, UINT64_MAX); region(NULL, UINT64_MAX, 1000);
	sink_ends(LENGTH_UNKNOWN);
	is(it.side.sink.stream.fits_peer_ring, false);
	hears("reports more produced bytes than agreed", (struct window){ .produced = UINT64_MAX });
	hears("reports more produced bytes than agreed", (struct window){ .produced = UINT64_MAX, .end = true });
	hears(NULL, (struct window){ .produced = UINT64_MAX - 1 });
	sink_ends(LENGTH_UNKNOWN);

	tell_middle("a window that breaks a rule is rejected");
	hears("reports fewer produced bytes than before", (struct window){ 1, 49999, 40000, 30000, false });
	hears("reports fewer consumed bytes than before", (struct window){ 1, 50000, 39999, 30000, false });
	hears("reports fewer stored bytes than before", (struct window){ 1, 50000, 40000, 29999, false });
	hears("confirms fewer windows than before", (struct window){ 0, 50001, 40000, 30000, false });
	hears("confirms more windows than were sent", (struct window){ 2, 50001, 40000, 30000, false });
	hears("reports more produced bytes than fit into the ring", (struct window){ 1, 40001 + 64 * KIB, 40000, 30000, false });
	hears("reports more produced bytes than agreed", (struct window){ 1, UINT64_MAX, 40000, 30000, false });
	hears("reports more produced bytes than agreed", (struct window){ 1, MIB + 1, 40000, 30000, false });
	hears("reports more consumed bytes than were produced", (struct window){ 1, 50000, 50001, 30000, false });
	hears("reports more stored bytes than were produced", (struct window){ 1, 50000, 40000, 50001, false });
	hears("marks the end of the payload before the agreed length", (struct window){ 1, 50001, 40000, 30000, true });
	hears("reports no progress", (struct window){ 1, 50000, 40000, 30000, false });
	tell_middle("MSG_DONE before all bytes can have been read is rejected");
	peer_done("sent MSG_DONE before it could have read everything", MIB);
	tell_middle("a window may advance the produced bytes"); hears(NULL, (struct window){ 1, 50001, 40000, 30000, false });
	tell_middle("a window may produce as much as fits into the ring");
	hears(NULL, (struct window){ 1, 40000 + 64 * KIB, 40000, 30000, false });
	tell_middle("a window may advance the consumed bytes"); hears(NULL, (struct window){ 1, 50000, 40001, 30000, false });
	tell_middle("a window may advance the stored bytes"); hears(NULL, (struct window){ 1, 50000, 40000, 30001, false });
	tell_middle("a window may consume and store all produced bytes");
	hears(NULL, (struct window){ 1, 50000, 50000, 50000, false });

	tell("nothing is produced after the end, and MSG_DONE comes once", BOTH, LENGTH_UNKNOWN, 64 * KIB, 64 * KIB);
	peer_done("sent MSG_DONE without marking the end of its payload", 1000); hears(NULL, (struct window){ .produced = 1000, .end = true });
	hears("marks the end of the payload twice", (struct window){ .produced = 1000, .end = true });
	hears("reports produced bytes after the end of the payload", (struct window){ .produced = 1001 });
	peer_done("sent MSG_DONE with another length than agreed", 999); peer_done(NULL, 1000);
	peer_done("sent MSG_DONE twice", 1000);

	tell("MSG_DONE before all bytes can have been written is rejected", BOTH, MIB, 64 * KIB, 0);
	peer_done("sent MSG_DONE for more bytes than fit into the ring", MIB);
}

TEST(transfer_names_the_party_that_it_waits_for)
{
	/* the ring is full until this side copies bytes and reports them */
	tell("the transfer does not wait for a peer that waits for this side", IN, MIB, 64 * KIB, 0);
	at(10); peer_owes(); at(20); hears(NULL, (struct window){ .produced = 64 * KIB }); nothing_owed(); at(30);
	copies(32 * KIB); nothing_owed();
	at(40); says((struct window){ .received = 1, .consumed = 32 * KIB }); peer_owes();

	tell("only an advanced position or the end extends a deadline",
		BOTH, LENGTH_UNKNOWN, 64 * KIB, 64 * KIB);
	fills(2000); posts_all(); at(250); says((struct window){ .produced = 2000 }); is(it.side.moves, 0); at(300);
	hears(NULL, (struct window){ .produced = 1000 }); is(it.side.moves, 1);
	hears(NULL, (struct window){ 1, 1000, 0, 0, false }); is(it.side.moves, 1);
	hears(NULL, (struct window){ 1, 1000, 1000, 0, false }); is(it.side.moves, 2);
	hears(NULL, (struct window){ 1, 1000, 1000, 1000, false }); is(it.side.moves, 3);
	hears("reports no progress", (struct window){ 1, 1000, 1000, 1000, false }); is(it.side.moves, 3);
	hears(NULL, (struct window){ 1, 1000, 1000, 1000, true }); is(it.side.moves, 4);

	/* after MSG_DONE, MSG_WINDOW does not add to `moves`, and cannot mark the end again */
	tell("the transfer does not wait for a peer that is done with a timed WRITE", IN | TIMED, 100000, 100000, 0);
	hears(NULL, (struct window){ .produced = 100000 }); peer_owes(); peer_done(NULL, 100000); nothing_owed();
	is(it.side.moves, 1); at(250); says((struct window){ .received = 1, .consumed = 100000 });
	at(0); hears(NULL, (struct window){ 1, 300000, 0, 0, false }); is(it.side.moves, 1);
	hears("marks the end of the payload twice", (struct window){ 1, 300000, 0, 0, true });

	tell("the transfer waits until the peer has read the bytes advertised as produced", OUT | READ, MIB, 64 * KIB, 0);
	fills(40000); announces(40000); at(10); peer_owes(); at(20); hears(NULL, (struct window){ .consumed = 40000 });
	nothing_owed(); at(30); fills(1000); nothing_owed();
	at(300); says((struct window){ .received = 1, .produced = 41000 }); peer_owes();

	/* further completions change nothing until the peer reports consumed bytes */
	tell("the transfer waits until the peer has consumed the bytes advertised as produced", OUT, MIB, 64 * KIB, 64 * KIB);
	at(10); peer_done(NULL, 0); at(20); fills(10000); posts_run(1, 1, 10000, true); wire_owes(); at(30);
	completes(1); nothing_owed();
	at(300); says((struct window){ .produced = 10000 }); peer_owes(); at(310); fills(1000); posts_run(1, 1, 1000, true);
	at(320); completes(2); peer_owes();
	hears(NULL, (struct window){ 1, 0, 9999, 0, false }); peer_owes();
	hears(NULL, (struct window){ 1, 0, 10000, 0, false }); nothing_owed();

	tell("a peer that has received a whole WRITE need not report consumed bytes", OUT, MIB, MIB, MIB);
	peer_done(NULL, 0); fills_all(); posts_all(); operated(true); done(MIB); nothing_owed();

	tell_of("a peer need not report consumed bytes of repeated passes",
		(struct kind){ OUT, 100000, 100000, 100000, .passes = 1000 });
	peer_done(NULL, 0); fills_all(); posts(100); at(250); says((struct window){ .produced = 5000000 });
	operated(false); nothing_owed();
	for (unsigned int times = 1; times <= 3; times++) {
		tell_of("a peer that is done has read all passes: the transfer does not wait for it",
			(struct kind){ OUT | READ, 100000, 100000, .passes = times });
		fills_all(); announces(100000); at(10); peer_owes(); at(20); peer_done(NULL, 0); nothing_owed();
		is(it.side.source.consumed, times * 100000);
	}

	tell("the transfer waits for the bytes in flight, even if the peer is done", IN | READ, 100000, 100000, 0);
	at(10); region(NULL, 100000, 100000); peer_owes(); at(20); posts_run(1, 1, 64 * KIB, true);
	posts_run(1, 1, 100000 - 64 * KIB, true); posts_no_run(1);
	at(30); peer_done(NULL, 100000); wire_owes(); at(40); completes(2); operated(true); nothing_owed();
}
/* clang-format on */

/* ---- Sizes ---- */

TEST(length_that_overflows_is_not_taken_for_unknown)
{
	static const struct {
		uint64_t length, passes, bytes;
	} cases[] = {
		{ (uint64_t)1 << 40, (uint64_t)1 << 40, LENGTH_UNKNOWN - 1 },
		{ 3, UINT64_MAX / 3, LENGTH_UNKNOWN - 1 }, /* the product is LENGTH_UNKNOWN */
		{ (uint64_t)1 << 40, 0, LENGTH_UNKNOWN },
		{ (uint64_t)1 << 40, 3, (uint64_t)3 << 40 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		const struct transfer_plan plan = {
			.depth = 1,
			.request_size = 1,
			.share = 1,
			.outgoing = { true, cases[i].length, cases[i].passes, 1 },
		};
		struct transfer side;

		transfer_init(&side, &plan);
		assert_true(side.source.stream.length == cases[i].bytes);
	}
}

static struct transfer_signal next_signal(const struct transfer_operation *operation)
{
	return operation->signals[operation->signals_completed % TRANSFER_SIGNALS];
}

/*
 * Send 64 MiB over a simulated wire. At the end, check the maximum size and number of the requests
 * in flight.
 */
TEST(fast_wires_get_more_bytes_in_flight)
{
	static const struct {
		unsigned int depth;
		uint64_t wire;           /* bytes per millisecond */
		uint64_t size, expected; /* bytes of a request; number of requests */
	} cases[] = {
		{ 16, 250, 65536, 4 },       /* 2 Mbit/s: the initial 256 KiB take a second */
		{ 16, 1000, 1 << 17, 4 },    /* 8 Mbit/s: the first round took less than 250 ms */
		{ 16, 12000, 1 << 20, 4 },   /* about 100 Mbit/s */
		{ 16, 1250000, 1 << 20, 8 }, /* 10 Gbit/s: the maximum of 8 MiB */
		{ 2, 1250000, 1 << 20, 2 },  { 2, 250, 65536, 2 },
		{ 1, 250, 1 << 20, 1 }, /* depth 1: the maximum size at once */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct transfer transfer = begin((struct kind){ OUT, 64 * MIB, 64 * MIB, 64 * MIB,
								.depth = cases[i].depth });
		struct transfer_operation *operation = &transfer.operation;
		int64_t now = 0;

		fill_all(&transfer);
		while (!transfer_operated(&transfer)) {
			struct transfer_run run;
			struct transfer_signal next;

			while (transfer_next(&transfer, 32, &run))
				;
			next = next_signal(operation);
			now += (int64_t)((next.position - operation->completed) / cases[i].wire);
			assert_true(transfer_completed(&transfer, next.request, now));
		}
		assert_true(operation->size == cases[i].size);
		assert_true(operation->depth == cases[i].expected);
	}
}

/* Call assert_memory_equal(), which is slow, only if the bytes differ. */
static void assert_same_bytes(const void *found, const void *expected, size_t size)
{
	if (memcmp(found, expected, size) != 0)
		assert_memory_equal(found, expected, size);
}

/*
 * Post everything: one request at a time for the side `one`, in runs of at most `most` for `many`.
 * Check that the requests are the same.
 */
static void post_alike(struct transfer *one, struct transfer *many, unsigned int most)
{
	struct transfer_run run, alone;
	bool posted = false, more = true;

	for (; transfer_next(many, most, &run); posted = true) {
		assert_true(more);
		more = run.more;
		assert_between(run.count, 1, most);
		for (unsigned int i = 0; i < run.count; i++) {
			assert_true(transfer_next(one, 1, &alone));
			assert_true(alone.count == 1 && alone.number == run.number + i);
			assert_true(alone.local == run.local + i * run.stride);
			assert_true(alone.remote == run.remote + i * run.stride);
			assert_true(alone.size == run.size);
			assert_int_equal(alone.signaled, run.signaled && i + 1 == run.count);
		}
	}
	assert_false(posted && more);
	assert_false(transfer_next(one, 1, &alone));
	assert_same_bytes(one, many, sizeof(*one));
}

/*
 * Let time pass: workers fill most of a piece and copy a whole one, the peer consumes all produced
 * bytes, and one completion comes.
 */
static void go_on(struct transfer *side, int64_t now)
{
	const struct transfer_operation *operation = &side->operation;
	struct piece piece;
	struct window advertised, room = { .produced = side->sink.produced };

	if (transfer_fill(side, &piece))
		transfer_filled(side, (2 * piece.size + 2) / 3);
	if (transfer_copy(side, &piece))
		transfer_copied(side, piece.size);
	if (operation->signals_completed < operation->signals_posted)
		assert_true(transfer_completed(side, next_signal(operation).request, now));
	if (take_window(side, now, &advertised)) {
		room.received = side->credits.sent;
		room.consumed = advertised.produced;
		assert_null(transfer_accept(side, &room));
	}
}

TEST(runs_contain_the_same_requests_as_single_calls)
{
	static const struct kind kinds[] = {
		{ OUT, 64, 64, 64, 128, 5000, .request = 0 }, /* a request holds a whole pass */
		{ OUT, 1 << 20, 1 << 20, 1 << 20, 100, 1, .request = 1000 },
		{ OUT, 1 << 20, 61440, 40960, 16, 1, .request = 5000 }, /* ring ends cut requests */
		{ OUT, 100000, 30000, 100000, 8, 3, .request = 4096 },  /* a pass exceeds a ring */
		{ OUT, 100000, 100000, 100000, 5, 1, .request = 0 },    /* only two requests */
		{ OUT, 100000, 100000, 100000, 1, 2, .request = 4096 },
		{ OUT, 32 << 20, 8 << 20, 8 << 20, 16, 1,
		  .request = 0 }, /* limited by bytes in flight */
		{ IN | READ, 100000, 100000, 100000, 16, 30, .request = 777 },
		{ IN | READ, 100000, 30000, 100000, 7, 3, .request = 0 },
		{ IN | READ, 4096, 4096, 4096, 64, 100, .request = 4096 },
	};

	for (size_t i = 0; i < ENTRIES(kinds); i++) {
		for (unsigned int most = 1; most <= 40; most++) {
			struct transfer one = begin(kinds[i]), many;
			uint64_t produced = kinds[i].flows & READ ? kinds[i].announced : 0;

			assert_null(transfer_peer_region(&one, kinds[i].announced, produced));
			for (int64_t now = 0; !transfer_operated(&one); now += 25) {
				many = one;
				post_alike(&one, &many, most);
				go_on(&one, now + 25);
			}
		}
	}
}

/* ---- The world: both sides, and everything between them ---- */

#define RING  4  /* maximum bytes of a ring */
#define QUEUE 14 /* maximum number of unfinished entries of a side */

enum entry_kind {
	ENTRY_MR,
	ENTRY_WINDOW,
	ENTRY_DONE,
	ENTRY_REQUEST,
};

/* the progress of a work request, as bits of `fate` */
enum fate {
	FATE_EXECUTED = 1 << 0,  /* its bytes are at the destination */
	FATE_COMPLETED = 1 << 1, /* its completion, or a later one, was handled */
	FATE_SIGNALED = 1 << 2,
};

/* A work request: a message, or a request of the operation. */
struct entry {
	uint8_t kind;
	uint8_t fate;
	union {
		struct { /* ENTRY_REQUEST: `number` counts from the last completed request */
			uint8_t number, end, size, source, sink;
		};
		struct { /* a message; MSG_MR and MSG_DONE use only `produced` */
			uint8_t produced, consumed, stored, received, mark;
		};
	};
};

/* One side. Worlds are compared byte by byte, so values that no longer matter are 0. */
struct side {
	struct transfer transfer;
	uint8_t announced;           /* MSG_MR was posted */
	uint8_t met;                 /* the peer's MSG_MR was handled */
	uint8_t done;                /* MSG_DONE was posted */
	uint8_t filling, copying;    /* bytes of the workers' current pieces */
	uint8_t filled_late;         /* the source's worker has reported the end of a pipe */
	uint8_t entries;             /* number of entries in the queue */
	uint8_t out[RING], in[RING]; /* bytes of the rings: position in the pass + 1; 0: garbage */
	struct entry queue[QUEUE];
};

struct world {
	struct side sides[2];
};

enum violation {
	VIOLATION_NONE,
	VIOLATION_STUCK,
	VIOLATION_ENDLESS,
	VIOLATION_OVERWRITTEN,
	VIOLATION_READ_EARLY,
	VIOLATION_OUT_OF_BOUNDS,
	VIOLATION_REFUSED,
	VIOLATION_TOO_MANY,
	VIOLATION_AFTER_DONE,
	VIOLATION_LOST,
	VIOLATION_MODULE,
	VIOLATIONS
};

static const char *const violation_names[VIOLATIONS] = {
	[VIOLATION_NONE] = "none",
	[VIOLATION_STUCK] = "stuck before the end",
	[VIOLATION_ENDLESS] = "no progress towards the end",
	[VIOLATION_OVERWRITTEN] = "the adapter transfers wrong bytes",
	[VIOLATION_READ_EARLY] = "the sink copies wrong bytes",
	[VIOLATION_OUT_OF_BOUNDS] = "a work request or a piece crosses the end of a ring",
	[VIOLATION_REFUSED] = "the peer rejects a message",
	[VIOLATION_TOO_MANY] = "more entries are posted than depth or credits allow",
	[VIOLATION_AFTER_DONE] = "a request is posted or executed after MSG_DONE",
	[VIOLATION_LOST] = "the session ends before all bytes are stored",
	[VIOLATION_MODULE] = "the module rejects a valid event",
};

/* Mistakes of the program at both sides, or of the adapter; breaks[] describes each. */
enum fault {
	FAULT_NONE,
	FAULT_TAKEN_EARLY,
	FAULT_READ_EARLY,
	FAULT_ACROSS_END,
	FAULT_READY_EARLY,
	FAULT_OVERTAKEN,
	FAULT_END_LOST,
	FAULT_NO_WAKE_COMPLETED,
	FAULT_NO_WAKE_WINDOW,
	FAULT_NO_WAKE_FILLED,
	FAULT_NO_WAKE_COPIED,
	FAULT_NO_COMPLETIONS,
	FAULT_REFILL_EARLY,
	FAULT_DONE_EARLY,
	FAULT_NO_RESERVE,
	FAULTS
};

/* The settings of an exploration. Index 0 is the client, the source of stream 0. */
struct setting {
	bool writes;
	bool completes_early;
	bool both; /* both streams; else the one that the client operates on: WRITE 0, READ 1 */
	bool unknown[2]; /* the length of each stream is unknown in advance */
	bool partial;    /* workers also report single bytes, and store later than they copy */
	uint8_t length[2], passes[2];
	uint8_t source_ring[2], sink_ring[2]; /* bytes, for streams 0 and 1 */
	uint8_t depth, request_size, share;
	enum fault fault;
};

struct label {
	const char *what;
	uint8_t detail, side;
};

#include "explorer.h"

static bool has_stream(int stream)
{
	return setting.both || stream == (setting.writes ? 0 : 1);
}

/* Return the number of bytes of all passes of the stream. */
static uint64_t total(int stream)
{
	return (uint64_t)setting.length[stream] * setting.passes[stream];
}

static int stream_operated_by(int number)
{
	return setting.writes ? number : !number;
}

/*
 * Return the size of the announced ring that side `number` operates on; with FAULT_ACROSS_END, one
 * byte more.
 */
static uint64_t announced_ring(int number)
{
	uint64_t ring = setting.writes ? setting.sink_ring[number] : setting.source_ring[!number];

	return setting.fault == FAULT_ACROSS_END ? ring + 1 : ring;
}

static uint8_t value_at(int stream, uint64_t position)
{
	return (uint8_t)(position % setting.length[stream] + 1);
}

static void print_setting(void)
{
	print_message("%s%s, depth %u, requests of %u, share %u\n",
		      setting.writes ? "WRITE" : "READ",
		      setting.completes_early ? " completing early" : "", setting.depth,
		      setting.request_size, setting.share);
	for (int stream = 0; stream < 2; stream++) {
		if (has_stream(stream))
			print_message("  stream %d: %u bytes%s, %u passes, rings %u to %u\n",
				      stream, setting.length[stream],
				      setting.unknown[stream] ? " (unknown)" : "",
				      setting.passes[stream], setting.source_ring[stream],
				      setting.sink_ring[stream]);
	}
}

static void print_node(const struct node *node)
{
	print_message("%s%s %u", node->label.side ? "server" : "client", node->label.what,
		      node->label.detail);
}

/* ---- Events ---- */

/*
 * Restart the counters of a side, so that worlds that differ only in counters become equal. Count
 * MSG_WINDOWs from the last confirmed one, and requests from the last completed one.
 */
static void restart_counters(struct world *world, int number)
{
	struct side *side = &world->sides[number], *peer = &world->sides[!number];
	struct transfer_operation *operation = &side->transfer.operation;
	struct transfer_credits *credits = &side->transfer.credits;
	uint64_t windows = credits->confirmed, requests = operation->requests_completed;
	struct transfer_signal *signals = operation->signals;

	side->transfer.moves = 0;
	credits->confirmed -= windows;
	credits->sent -= windows;
	peer->transfer.credits.received -= windows;
	peer->transfer.credits.advertised -= windows;
	operation->requests_completed -= requests;
	operation->requests_posted -= requests;
	for (uint64_t i = 0; i < TRANSFER_SIGNALS; i++) {
		uint64_t place = i + operation->signals_completed;

		signals[i] = place < operation->signals_posted ? signals[place]
							       : (struct transfer_signal){ 0 };
		signals[i].request -= signals[i].request ? requests : 0;
	}
	operation->signals_posted -= operation->signals_completed;
	operation->signals_completed = 0;
	for (int i = 0; i < QUEUE; i++) {
		if (peer->queue[i].kind == ENTRY_WINDOW)
			peer->queue[i].received = (uint8_t)(peer->queue[i].received - windows);
		if (side->queue[i].kind == ENTRY_REQUEST && side->queue[i].number)
			side->queue[i].number = (uint8_t)(side->queue[i].number - requests);
	}
}

/*
 * Return this side's part of the distance from the start. Every event increases the sum of both
 * sides: a queued MSG_WINDOW subtracts 9, but a position that it reports adds 10, or the two
 * windows that it confirms add 12.
 */
static int distance_of_side(const struct side *side)
{
	const struct transfer_source *source = &side->transfer.source;
	const struct transfer_sink *sink = &side->transfer.sink;
	const struct transfer_operation *operation = &side->transfer.operation;
	const struct transfer_credits *credits = &side->transfer.credits;
	uint64_t moved = source->filled + source->advertised_produced + source->consumed +
			 source->stored + sink->produced + sink->copied + sink->stored +
			 sink->advertised_consumed + sink->advertised_stored + operation->posted +
			 operation->completed;
	int distance = 10 * (int)(moved + source->advertised_end + sink->done + side->announced +
				  side->met + side->done + side->filled_late);

	/* learning the end is progress */
	distance += source->stream.length == LENGTH_UNKNOWN ? 0 : 10;
	distance += sink->stream.length == LENGTH_UNKNOWN ? 0 : 10;
	distance -= (side->filling > 0) + (side->copying > 0);
	distance -= 6 * (int)(credits->received - credits->advertised);
	for (int i = 0; i < side->entries; i++) {
		const struct entry *entry = &side->queue[i];

		if (entry->kind == ENTRY_WINDOW)
			distance -= 9;
		else if (entry->kind == ENTRY_REQUEST)
			distance -= (entry->fate & FATE_EXECUTED ? 0 : 1) + 1;
		else
			distance -= 1;
	}
	return distance;
}

static int distance_from_start(const struct world *world)
{
	return distance_of_side(&world->sides[0]) + distance_of_side(&world->sides[1]);
}

/* Add the world that follows from an event of side `number`. */
static void go_to(struct world *world, int number, struct label label)
{
	label.side = (uint8_t)number;
	restart_counters(world, 0);
	restart_counters(world, 1);
	exploration.goes_on = true;
	arrive(world, label);
}

/* ---- The program of a side, correct and with mistakes ---- */

/* Return true if the sink's ring holds the bytes of the stream at `position`. */
static bool is_right(const struct world *world, int number, uint64_t position, uint64_t size)
{
	const uint8_t *in = world->sides[number].in;

	for (uint64_t i = position; i < position + size; i++) {
		if (in[i % setting.sink_ring[!number]] != value_at(!number, i))
			return false;
	}
	return true;
}

static struct entry *append_entry(struct world *world, int number, enum entry_kind kind)
{
	struct side *side = &world->sides[number];

	if (side->entries == QUEUE) {
		violate(VIOLATION_TOO_MANY);
		side->entries--;
	}
	side->queue[side->entries] = (struct entry){ .kind = (uint8_t)kind };
	return &side->queue[side->entries++];
}

static void unqueue(struct side *side, int place)
{
	side->entries--;
	memmove(&side->queue[place], &side->queue[place + 1],
		(size_t)(side->entries - place) * sizeof(side->queue[0]));
	memset(&side->queue[side->entries], 0, sizeof(side->queue[0]));
}

/* Post one request: from now on its destination is garbage. */
static void post_request(struct world *world, int number, const struct transfer_run *request)
{
	const struct transfer *transfer = &world->sides[number].transfer;
	int stream = stream_operated_by(number);
	struct entry *entry = append_entry(world, number, ENTRY_REQUEST);

	entry->fate = request->signaled ? FATE_SIGNALED : 0;
	entry->number = (uint8_t)transfer->operation.requests_posted;
	entry->end = (uint8_t)transfer->operation.posted;
	entry->size = (uint8_t)request->size;
	entry->source = (uint8_t)(setting.writes ? request->local : request->remote);
	entry->sink = (uint8_t)(setting.writes ? request->remote : request->local);
	if (world->sides[number].done)
		violate(VIOLATION_AFTER_DONE);
	if (transfer_outstanding(transfer) > setting.depth)
		violate(VIOLATION_TOO_MANY);
	if (entry->source + entry->size > setting.source_ring[stream] ||
	    entry->sink + entry->size > setting.sink_ring[stream])
		violate(VIOLATION_OUT_OF_BOUNDS);
	else
		memset(&world->sides[!stream].in[entry->sink], 0, entry->size);
}

static void post_requests(struct world *world, int number)
{
	struct transfer_run request;

	while (exploration.violation == VIOLATION_NONE &&
	       transfer_next(&world->sides[number].transfer, 1, &request))
		post_request(world, number, &request);
}

static void post_window(struct world *world, int number, int64_t now)
{
	const struct side *side = &world->sides[number];
	struct transfer *transfer = &world->sides[number].transfer;
	struct window window;
	struct entry *entry;

	if (!side->announced || (side->done && everything_is_stored(transfer)) ||
	    !take_window(transfer, now, &window))
		return;
	entry = append_entry(world, number, ENTRY_WINDOW);
	entry->produced = (uint8_t)window.produced;
	entry->consumed = (uint8_t)window.consumed;
	entry->stored = (uint8_t)window.stored;
	entry->received = (uint8_t)window.received;
	entry->mark = setting.fault != FAULT_END_LOST && window.end;
	if (transfer->credits.sent - transfer->credits.confirmed > transfer->plan.credits)
		violate(VIOLATION_TOO_MANY);
}

static void post_done(struct world *world, int number)
{
	struct side *side = &world->sides[number];
	struct transfer *transfer = &side->transfer;
	bool due = transfer_done_due(transfer);

	if (setting.fault == FAULT_DONE_EARLY && transfer->sink.stream.plan.present)
		due = transfer->operation.posted == transfer->sink.stream.length;
	if (!side->met || side->done || !side->announced || !due)
		return;
	side->done = 1;
	append_entry(world, number, ENTRY_DONE)->produced = (uint8_t)transfer_done(transfer);
}

/* Post everything that is due after an event. */
static void drive(struct world *world, int number)
{
	const struct side *side = &world->sides[number];

	if (side->met && side->announced)
		post_requests(world, number);
	post_window(world, number, 0);
	post_done(world, number);
}

/* Give the source's worker the next piece, if there is one: its memory is garbage from now on. */
static void begin_to_fill(struct world *world, int number)
{
	struct side *side = &world->sides[number];
	struct transfer *transfer = &side->transfer;
	uint64_t left = total(number) - transfer->source.filled;
	struct piece piece;

	if (side->filling || !transfer_fill(transfer, &piece))
		return;
	if (piece.offset + piece.size > setting.source_ring[number])
		violate(VIOLATION_OUT_OF_BOUNDS);
	side->filling = (uint8_t)(piece.size < left ? piece.size : left); /* a pipe may end */
	memset(&side->out[piece.offset], 0, side->filling);
}

/* Give the sink's worker the next piece, if there is one: its bytes must be right from now on. */
static void begin_to_copy(struct world *world, int number)
{
	struct side *side = &world->sides[number];
	struct transfer *transfer = &side->transfer;
	struct piece piece;

	if (side->copying || !transfer_copy(transfer, &piece))
		return;
	if (piece.offset + piece.size > setting.sink_ring[!number])
		violate(VIOLATION_OUT_OF_BOUNDS);
	side->copying = (uint8_t)piece.size;
	if (!is_right(world, number, piece.position, piece.size))
		violate(VIOLATION_READ_EARLY);
	if (setting.fault == FAULT_TAKEN_EARLY) {
		transfer_copied(transfer, piece.size);
		drive(world, number);
	}
}

/*
 * Run the program after an event, unless the setting has the fault `unless` (FAULT_NONE: always
 * run). Add the next world.
 */
static void run_program(struct world *world, int number, enum fault unless, struct label label)
{
	if (unless == FAULT_NONE || setting.fault != unless) {
		drive(world, number);
		begin_to_fill(world, number);
		begin_to_copy(world, number);
	}
	go_to(world, number, label);
}

/* ---- Possible events: the adapter ---- */

/* Return true if the adapter may execute the request, or deliver the message, at `place`. */
static bool can_execute(const struct side *side, int place)
{
	bool message = side->queue[place].kind != ENTRY_REQUEST;

	if (side->queue[place].fate & FATE_EXECUTED)
		return false;
	for (int i = 0; i < place; i++) {
		bool earlier_message = side->queue[i].kind != ENTRY_REQUEST;

		/* a later request may be executed before an earlier message is handled */
		if (earlier_message
			    ? message
			    : !(side->queue[i].fate & FATE_EXECUTED) &&
				      ((setting.writes && setting.fault != FAULT_OVERTAKEN) ||
				       !message))
			return false;
	}
	return true;
}

static void move_bytes(struct world *world, int number, const struct entry *entry)
{
	int stream = stream_operated_by(number);
	const uint8_t *from = &world->sides[stream].out[entry->source];
	uint8_t *to = &world->sides[!stream].in[entry->sink];

	if (!setting.writes && world->sides[number].done)
		violate(VIOLATION_AFTER_DONE);
	for (int i = 0; i < entry->size; i++) {
		to[i] = value_at(stream, (uint64_t)(entry->end - entry->size + i));
		if (from[i] != to[i])
			violate(VIOLATION_OVERWRITTEN);
	}
}

static void executions(const struct world *before, int number)
{
	const struct side *side = &before->sides[number];
	struct world next;
	struct entry *entry;
	int place = 0;

	while (place < side->entries &&
	       (side->queue[place].kind != ENTRY_REQUEST || !can_execute(side, place)))
		place++;
	if (place == side->entries)
		return;
	next = *before;
	entry = &next.sides[number].queue[place];
	entry->fate |= FATE_EXECUTED;
	move_bytes(&next, number, entry);
	if (entry->fate & FATE_COMPLETED)
		unqueue(&next.sides[number], place);
	go_to(&next, number,
	      (struct label){ "'s adapter executes up to", side->queue[place].end, 0 });
}

/*
 * Complete the first signaled request that has no completion, and all requests before it.
 */
static void completions(const struct world *before, int number)
{
	const struct entry *queue = before->sides[number].queue;
	bool early =
		(setting.completes_early && setting.writes) || setting.fault == FAULT_READ_EARLY;
	struct world next;
	struct side *side = &next.sides[number];
	int place = 0, entries = before->sides[number].entries;

	while (place < entries &&
	       !(queue[place].kind == ENTRY_REQUEST && queue[place].fate & FATE_SIGNALED &&
		 !(queue[place].fate & FATE_COMPLETED)))
		place++;
	if (place == entries || setting.fault == FAULT_NO_COMPLETIONS ||
	    !(early || queue[place].fate & FATE_EXECUTED))
		return;
	next = *before;
	if (!transfer_completed(&next.sides[number].transfer, queue[place].number, 0))
		violate(VIOLATION_MODULE);
	for (int i = place; i >= 0; i--) {
		if (side->queue[i].kind != ENTRY_REQUEST)
			continue;
		side->queue[i].fate |= FATE_COMPLETED;
		side->queue[i].number = 0;
		if (side->queue[i].fate & FATE_EXECUTED)
			unqueue(side, i);
	}
	run_program(&next, number, FAULT_NO_WAKE_COMPLETED,
		    (struct label){ " gets a completion up to", queue[place].end, 0 });
}

/* ---- Possible events: messages ---- */

static const char *handle(struct world *world, int number, const struct entry *entry)
{
	const struct side *peer = &world->sides[!number];
	struct transfer *transfer = &world->sides[number].transfer;
	struct window window = { entry->received, entry->produced, entry->consumed, entry->stored,
				 entry->mark };
	const char *refusal;

	switch (entry->kind) {
	case ENTRY_MR:
		world->sides[number].met = 1;
		refusal = transfer_peer_region(transfer, announced_ring(number), window.produced);
		transfer->operation.grows = false; /* the model has no clock to measure with */
		return refusal;
	case ENTRY_WINDOW:
		return transfer_accept(transfer, &window);
	default:
		for (int i = 0; i < peer->entries; i++) {
			if (peer->queue[i].kind == ENTRY_REQUEST &&
			    !(peer->queue[i].fate & FATE_EXECUTED))
				violate(VIOLATION_AFTER_DONE);
		}
		return transfer_accept_done(transfer, window.produced);
	}
}

static void receptions(const struct world *before, int number)
{
	static const char *const handled[] = { " handles MSG_MR", " handles MSG_WINDOW",
					       " handles MSG_DONE" };
	const struct side *peer = &before->sides[!number];
	struct world next;
	struct entry entry;
	const char *refusal;
	int place = 0;

	while (place < peer->entries && peer->queue[place].kind == ENTRY_REQUEST)
		place++;
	if (place == peer->entries || !can_execute(peer, place))
		return;
	entry = peer->queue[place];
	next = *before;
	unqueue(&next.sides[!number], place);
	refusal = handle(&next, number, &entry);
	if (refusal) {
		violate(VIOLATION_REFUSED);
		print_message("rejected, because it %s\n", refusal);
	}
	run_program(&next, number, entry.kind == ENTRY_WINDOW ? FAULT_NO_WAKE_WINDOW : FAULT_NONE,
		    (struct label){ handled[entry.kind], entry.produced, 0 });
}

static void announcements(const struct world *before, int number)
{
	const struct side *side = &before->sides[number];
	struct world next;

	/* the server posts MSG_MR after it has received the client's */
	if (side->announced || (number == 1 && !side->met))
		return;
	next = *before;
	next.sides[number].announced = 1;
	append_entry(&next, number, ENTRY_MR)->produced =
		(uint8_t)transfer_announce(&next.sides[number].transfer);
	run_program(&next, number, FAULT_NONE, (struct label){ " posts MSG_MR", 0, 0 });
}

static void clock_ticks(const struct world *before, int number)
{
	struct world next;

	/* a program that is not woken up sets no timer */
	if (setting.fault >= FAULT_NO_WAKE_COMPLETED && setting.fault <= FAULT_NO_WAKE_COPIED)
		return;
	next = *before;
	post_window(&next, number, TRANSFER_MILLISECONDS);
	if (next.sides[number].entries > before->sides[number].entries)
		run_program(&next, number, FAULT_NONE,
			    (struct label){ " posts MSG_WINDOW for its age", 0, 0 });
}

/* ---- Possible events: workers ---- */

/*
 * Report `size` filled bytes and, if `end` is true, the end of a pipe, which may come after the
 * last byte.
 */
static void fill(const struct world *before, int number, uint8_t size, bool end)
{
	struct world next = *before;
	struct side *side = &next.sides[number];
	struct transfer *transfer = &side->transfer;
	uint64_t first = transfer->source.filled;

	for (uint64_t i = first; i < first + size && setting.fault != FAULT_READY_EARLY; i++)
		side->out[i % setting.source_ring[number]] = value_at(number, i);
	side->filling = 0;
	side->filled_late = end;
	transfer_filled(transfer, size);
	if (end)
		transfer_end_source(transfer);
	run_program(&next, number, FAULT_NO_WAKE_FILLED,
		    (struct label){ end ? "'s source ends after" : "'s source fills", size, 0 });
}

static void fillings(const struct world *before, int number)
{
	const struct side *side = &before->sides[number];
	uint64_t behind = side->transfer.source.filled + side->filling;

	if (!has_stream(number))
		return;
	if (side->filling > 0)
		fill(before, number, side->filling, false);
	if (setting.unknown[number] && !side->filled_late && behind == total(number))
		fill(before, number, side->filling, true);
	if (side->filling > 1 && setting.partial)
		fill(before, number, 1, false);
}

static void copy(const struct world *before, int number, uint8_t size)
{
	struct world next = *before;
	struct side *side = &next.sides[number];
	struct transfer *transfer = &side->transfer;
	uint64_t ahead = setting.fault == FAULT_TAKEN_EARLY ? side->copying : 0;

	if (!is_right(before, number, transfer->sink.copied - ahead, size))
		violate(VIOLATION_READ_EARLY);
	side->copying = 0;
	transfer_copied(transfer, size - ahead);
	if (!setting.partial)
		transfer_stored(transfer, transfer->sink.copied);
	run_program(&next, number, FAULT_NO_WAKE_COPIED,
		    (struct label){ "'s sink copies", size, 0 });
}

static void copyings(const struct world *before, int number)
{
	uint8_t whole = before->sides[number].copying;

	if (whole > 0)
		copy(before, number, whole);
	if (whole > 1 && setting.partial && setting.fault != FAULT_TAKEN_EARLY)
		copy(before, number, 1);
}

static void storings(const struct world *before, int number)
{
	uint64_t copied = before->sides[number].transfer.sink.copied;
	struct world next;

	if (before->sides[number].transfer.sink.stored == copied)
		return;
	next = *before;
	transfer_stored(&next.sides[number].transfer, copied);
	run_program(&next, number, FAULT_NONE,
		    (struct label){ "'s sink has stored up to", (uint8_t)copied, 0 });
}

/* ---- Exploring ---- */

/* Check that both sides are done and have every byte: no event is possible any more. */
static void judge_ending(const struct world *world)
{
	for (int number = 0; number < 2; number++) {
		const struct transfer_sink *sink = &world->sides[number].transfer.sink;
		uint64_t expected = sink->stream.repeats ? setting.length[!number] : total(!number);

		if (!world->sides[number].done ||
		    !everything_is_stored(&world->sides[number].transfer))
			violate_here(VIOLATION_STUCK);
		else if (has_stream(!number) && sink->stored != expected)
			violate_here(VIOLATION_LOST);
	}
}

static void make_successors(const struct world *world)
{
	static void (*const happenings[])(const struct world *before, int number) = {
		announcements, executions, completions, receptions,
		fillings,      copyings,   storings,    clock_ticks,
	};

	for (size_t i = 0; i < 2 * ENTRIES(happenings); i++)
		happenings[i / 2](world, (int)(i % 2));
	if (!exploration.goes_on)
		judge_ending(world);
}

static struct stream_plan plan_stream(int stream, bool outgoing)
{
	return (struct stream_plan){
		.present = has_stream(stream),
		.length = setting.unknown[stream] ? LENGTH_UNKNOWN : setting.length[stream],
		.passes = setting.passes[stream],
		.ring = outgoing ? setting.source_ring[stream] : setting.sink_ring[stream],
	};
}

static struct transfer_plan plan_side(int number)
{
	return (struct transfer_plan){
		.writes = setting.writes,
		.completes_early = setting.completes_early && setting.fault != FAULT_REFILL_EARLY,
		.depth = setting.depth,
		.request_size = setting.request_size,
		.credits = 3,
		.answer = setting.fault == FAULT_NO_RESERVE ? 3 : 2,
		.share = setting.share,
		.outgoing = plan_stream(number, true),
		.incoming = plan_stream(!number, false),
	};
}

/* Explore everything that can happen with this setting. Return false if there was a violation. */
static bool explore(void)
{
	struct world start;

	memset(&start, 0, sizeof(start));
	for (int number = 0; number < 2; number++) {
		struct transfer_plan plan = plan_side(number);

		transfer_init(&start.sides[number].transfer, &plan);
		begin_to_fill(&start, number);
	}
	return explore_from(&start);
}

/* Explore the setting for READ, WRITE, and WRITE that completes early. Fail on a violation. */
static void must_hold(void)
{
	for (int kind = 0; kind < 3; kind++) {
		setting.writes = kind > 0;
		setting.completes_early = kind == 2;
		if (!explore()) {
			print_history();
			fail();
		}
	}
}

/* ---- Exploring: correct programs ---- */

/* Reset the setting, and give both streams the same length and rings. */
static void set_alike(int length, bool unknown, int source_ring, int sink_ring)
{
	setting = (struct setting){ .depth = 2, .request_size = 2, .share = 4, .passes = { 1, 1 } };
	for (int stream = 0; stream < 2; stream++) {
		setting.length[stream] = (uint8_t)length;
		setting.unknown[stream] = unknown;
		setting.source_ring[stream] = (uint8_t)source_ring;
		setting.sink_ring[stream] = (uint8_t)sink_ring;
	}
}

TEST(one_way_streams_arrive_in_every_order_of_events)
{
	for (int kind = 0; kind < 2 * 16 * 7; kind++) {
		int source = 1 + kind / 8 % 4, sink = 1 + kind / 2 % 4, length = kind / 32;

		set_alike(length, kind % 2, source, sink);
		/* `partial` multiplies the number of worlds: only with short streams or rings */
		setting.partial = length <= 2 || source + sink <= 3;
		must_hold();
	}
	finish();
}

/*
 * Explore two streams, each with a known and an unknown length. `rings`: source and sink of each.
 */
static void must_hold_both_ways(int out, int in, const uint8_t rings[4])
{
	for (int kind = 0; kind < 4; kind++) {
		set_alike(out, kind & 1, rings[0], rings[1]);
		setting.both = true;
		setting.length[1] = (uint8_t)in;
		setting.unknown[1] = kind & 2;
		setting.source_ring[1] = rings[2];
		setting.sink_ring[1] = rings[3];
		must_hold();
	}
}

TEST(two_way_streams_arrive_in_every_order_of_events)
{
	static const uint8_t rings[][4] = { { 3, 2, 1, 2 }, { 2, 4, 4, 1 }, { 1, 1, 1, 2 } };

	for (int kind = 0; kind < 2 * 9; kind++)
		must_hold_both_ways(kind % 9 / 3, kind % 3, rings[kind / 9]);
	/* long enough to run out of credits */
	must_hold_both_ways(6, 1, rings[2]);
	must_hold_both_ways(4, 4, rings[2]);
	finish();
}

/* Explore passes through rings of every length: longer ones than a pass, and shorter ones. */
TEST(passes_arrive_in_every_order_of_events)
{
	for (int kind = 0; kind < 3 * 16; kind++) {
		int length = 1 + kind / 16;

		set_alike(length, false, 1 + kind / 4 % 4, 1 + kind % 4);
		setting.passes[0] = setting.passes[1] = 3;
		must_hold();
		setting.depth = 8; /* two requests per completion */
		setting.request_size = 1;
		must_hold();
	}
	finish();
}

/* Vary the depth, the requests per completion, and the share of a ring that is reported at once. */
TEST(streams_arrive_with_other_depths_and_report_thresholds)
{
	static const uint8_t depths[] = { 1, 3, 8 };

	for (int kind = 0; kind < 32 * 3; kind++) {
		set_alike(3 + 2 * (kind & 1), kind & 2, kind & 8 ? 4 : 3, kind & 4 ? 4 : 2);
		setting.depth = depths[kind / 32];
		setting.request_size = setting.depth == 8 && !(kind & 1) ? 1 : 3;
		setting.share = kind & 16 ? 1 : 2;
		must_hold();
	}
	finish();
}

/* ---- Exploring: programs that use the module wrongly ---- */

enum {
	READS = 1,
	WRITES = 2,
	UNKNOWN = 4,
	BOTH_WAYS = 8
};

/* clang-format off */

/* Each mistake: the sessions that show it, and the violation that it causes first. */
static const struct {
	const char *text;
	int sessions;
	enum violation violation;
} breaks[FAULTS] = {
	[FAULT_TAKEN_EARLY] = { "bytes are reported as copied when the copy begins", WRITES, VIOLATION_READ_EARLY },
	[FAULT_READ_EARLY] = { "a completion is reported before it came", READS, VIOLATION_READ_EARLY },
	[FAULT_ACROSS_END] = { "the announced ring is assumed to be too long", READS | WRITES, VIOLATION_OUT_OF_BOUNDS },
	[FAULT_READY_EARLY] = { "bytes are reported as filled before they are", READS | WRITES, VIOLATION_OVERWRITTEN },
	[FAULT_OVERTAKEN] = { "MSG_WINDOW overtakes the WRITEs that it counts", WRITES, VIOLATION_READ_EARLY },
	[FAULT_END_LOST] = { "the end of the stream is not marked", READS | WRITES | UNKNOWN, VIOLATION_REFUSED },
	[FAULT_NO_WAKE_COMPLETED] = { "nothing is posted after a completion", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_WINDOW] = { "nothing is posted after a MSG_WINDOW", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_FILLED] = { "nothing is posted after the source's worker reports", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_COPIED] = { "nothing is posted after the sink's worker reports", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_COMPLETIONS] = { "no request asks for a completion", READS | WRITES, VIOLATION_STUCK },
	[FAULT_REFILL_EARLY] = { "completions that come early are mistaken for delivery", WRITES, VIOLATION_OVERWRITTEN },
	[FAULT_DONE_EARLY] = { "MSG_DONE is posted before the operation has ended", READS, VIOLATION_AFTER_DONE },
	[FAULT_NO_RESERVE] = { "the last credit is not reserved for an answer", READS | WRITES | BOTH_WAYS, VIOLATION_STUCK },
};

/* clang-format on */

static void find_break(enum fault fault, bool writes)
{
	int sessions = breaks[fault].sessions;

	if (!(sessions & (writes ? WRITES : READS)))
		return;
	set_alike(5, sessions & UNKNOWN, 3, 2);
	setting.writes = writes;
	setting.both = sessions & BOTH_WAYS;
	setting.completes_early = fault == FAULT_REFILL_EARLY;
	setting.fault = fault;
	print_message("%s: ", breaks[fault].text);
	assert_false(explore());
	print_history();
	assert_int_equal(exploration.violation, breaks[fault].violation);
}

TEST(exploration_finds_every_deliberate_mistake)
{
	for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
		assert_true(breaks[fault].sessions & (READS | WRITES));
		find_break(fault, false);
		find_break(fault, true);
	}
	finish();
}

RUN_TESTS(NULL, NULL)
