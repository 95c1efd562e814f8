// SPDX-License-Identifier: MIT
/*
 * Tests of flow control: stories of one side, step by step, and simulated wires.
 * transfer-explore-test.c has both sides, in every order of events.
 */
#include "rdma-common/transfer.h"

#include <inttypes.h>

#include "unit.h"
#include "transfer-side.h"

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
	uint64_t length, ring,
		advertised;         /* bytes. `advertised` is the peer's ring, 0 without MSG_MR. */
	unsigned int depth, passes; /* defaults: 16, 1 */
	uint64_t request;           /* maximum bytes of a request */
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
	if (kind.advertised)
		assert_null(transfer_accept_region(&side, kind.advertised, 0));
	transfer_window_time(&side, 0);
	return side;
}

static void fill_all(struct transfer *side)
{
	struct piece piece;

	while (transfer_next_fill(side, &piece))
		transfer_record_filled(side, piece.size);
}

/*
 * Post as many requests as allowed, up to `most`, and complete them at once. Return their number.
 */
static unsigned int operate(struct transfer *side, uint64_t most, int64_t now)
{
	struct transfer_run request;
	unsigned int requests = 0;

	while (requests < most && transfer_take_run(side, 1, &request)) {
		requests++;
		if (request.signaled)
			assert_true(transfer_record_completed(side, request.number, now));
	}
	return requests;
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

static void tell(const char *promise, int flows, uint64_t length, uint64_t ring,
		 uint64_t advertised)
{
	tell_of(promise,
		(struct kind){
			.flows = flows, .length = length, .ring = ring, .advertised = advertised });
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
	transfer_record_filled(&it.side, bytes);
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
	transfer_record_copied(&it.side, bytes);
	turn();
}

static void stores_up_to(uint64_t position)
{
	transfer_record_stored(&it.side, position - it.side.sink.stored);
	turn();
}

static void sends_verdict(void)
{
	transfer_record_verdict(&it.side);
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

	expect(transfer_take_run(&it.side, most, &run) && run.count == count && run.size == size &&
		       run.stride == size && run.signaled == signaled &&
		       run.number == before.requests_posted + 1 &&
		       run.local == before.posted % stream->plan.ring &&
		       run.remote == before.posted % stream->advertised_size,
	       __func__);
}

static void posts_no_run(unsigned int most)
{
	struct transfer_run run;

	expect(!transfer_take_run(&it.side, most, &run), __func__);
}

static void rejected(uint64_t request)
{
	transfer_record_rejected(&it.side, request);
	turn();
}

static void completes(uint64_t request)
{
	expect(transfer_record_completed(&it.side, request, it.now), __func__);
}

/* Complete a request that is not outstanding, and check that nothing changes. */
static void ignores(uint64_t request)
{
	const struct transfer before = it.side;

	expect(!transfer_record_completed(&it.side, request, 0) &&
		       !memcmp(&it.side, &before, sizeof(before)),
	       __func__);
}

/*
 * Steps: the peer's messages. `wrong` is the rule that the message breaks, or NULL. A rejected
 * MSG_WINDOW or MSG_DONE changes nothing.
 */

static bool answer_is_expected(const char *error, const char *wrong, const struct transfer *before)
{
	if (!error || !wrong)
		return error == wrong;
	return !strcmp(error, wrong) && !memcmp(before, &it.side, sizeof(*before));
}

static void region(const char *wrong, uint64_t bytes, uint64_t produced)
{
	const char *error = transfer_accept_region(&it.side, bytes, produced);

	expect(answer_is_expected(error, wrong, &it.side), __func__);
}

static void hears(const char *wrong, struct window window)
{
	const struct transfer before = it.side;

	expect(answer_is_expected(transfer_accept_window(&it.side, &window), wrong, &before),
	       __func__);
}

static void peer_done(const char *wrong, uint64_t bytes)
{
	const struct transfer before = it.side;

	expect(answer_is_expected(transfer_accept_done(&it.side, bytes), wrong, &before), __func__);
}

/* Steps: this side's MSG_MR, MSG_WINDOW (and when it is due) and MSG_DONE. */

static void advertises(uint64_t produced)
{
	expect(transfer_advertise(&it.side) == produced, __func__);
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
	expect(transfer_done_is_due(&it.side) && transfer_record_done(&it.side) == bytes, __func__);
}

/* Steps: the state of the side. */

static void operated(bool yes)
{
	expect(transfer_has_operated(&it.side) == yes, __func__);
}

static void may_copy(uint64_t size)
{
	struct piece piece = { .size = 0 };

	expect(transfer_next_copy(&it.side, &piece) == (size > 0) && piece.size == size, __func__);
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

TEST(progress_is_reported_when_it_is_large_or_old_as_far_as_credits_allow)
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
	is(it.side.sink.reported_consumed, 8 * KIB); is(it.side.sink.reported_stored, 8 * KIB);

	tell("MSG_DONE reports all bytes that were read", IN | READ, 100000, 100000, 0);
	region(NULL, 100000, 100000); at(100); posts_all(); due(350); done(0); is(it.side.sink.reported_consumed, 100000);
	due(NEVER);

	tell("a quarter of the ring is reported at once", BOTH, 4 * MIB, MIB, MIB);
	fills(256 * KIB - 1); posts_all(); silent(); fills(1); posts_all(); says((struct window){ .produced = 256 * KIB });
	/* a quarter of a tiny ring is at least one byte */
	for (uint64_t ring = 1; ring < 10; ring++) {
		tell("every byte of a tiny ring is reported", BOTH | READ, MIB, ring, 0);
		is(it.side.source.stream.quarter, ring < 8 ? 1 : 2);
	}
	/* EARLY: the source may refill only consumed bytes, so it does not wait for 250 ms */
	for (uint64_t advertised = 32 * KIB; advertised <= 8 * MIB; advertised *= 16) {
		tell("a quarter of a short ring of this side is reported at once", BOTH | EARLY, MIB, 16 * KIB, advertised);
		region(NULL, advertised, 0);
		fills(4 * KIB - 1); posts_all(); silent(); fills(1); posts_all();
		says((struct window){ .produced = 4 * KIB });
	}

	tell("a quarter of a shorter advertised ring is reported at once", BOTH | EARLY, 8 * MIB, MIB, 64 * KIB);
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
	fills(100000); advertises(100000); at(1000); silent(); due(NEVER);

	tell_of("the first posted request is reported when it is 250 ms old",
		(struct kind){ OUT, MIB, MIB, MIB, .request = 16 * KIB });
	fills(MIB); advertises(0); peer_done(NULL, 0); nothing_owed(); due(NEVER); at(100);
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
		hears("came before enough earlier ones were confirmed", (struct window){ .produced = produced + 1 });
		says((struct window){ .received = produced }); hears("reports no progress", (struct window){ .produced = produced });
	}
}

TEST(requests_are_split_at_ring_ends_limited_by_depth_and_counted_once)
{
	/* a quarter of the advertised ring is 10240 bytes; the rings end after 25000 and 40960 bytes */
	tell_of("a request ends where a ring ends", (struct kind){ BOTH, MIB, 25000, 40960, .depth = 1 });
	fills_all(); posts_run(1, 1, 10240, true); completes(1); posts_run(1, 1, 10240, true); completes(2); fills_all();
	posts_run(1, 1, 4520, true); completes(3); fills_all(); posts_run(1, 1, 10240, true); completes(4); fills_all();
	at(250); says((struct window){ .produced = 35240 }); hears(NULL, (struct window){ .consumed = 35240 });
	posts_run(1, 1, 5720, true);

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
		while (transfer_take_run(&it.side, 32, &run)) {
			is(run.stride + run.local + run.remote, 0);
			count += run.count;
			last = run.signaled ? count : last;
		}
		is(count, depth);
		is(last > 0, true); /* without a completion the operation would never continue */
	}

	tell("a stream may have more than 2^32 bytes", OUT, (uint64_t)3 << 39, 8 * MIB, 8 * MIB);
	while (!transfer_has_operated(&it.side)) {
		struct window reported;

		fills_all(); posts_all(); it.now += 250;
		if (take_window(&it.side, it.now, &reported))
			hears(NULL, (struct window){ .received = it.side.credits.sent, .consumed = reported.produced });
	}
	done((uint64_t)3 << 39);
}

TEST(requests_share_a_completion_if_they_are_many_and_small)
{
	static const struct {
		unsigned int interval, depth;
		uint64_t request;
	} rows[] = {
		{ 1, 1, 100 }, { 1, 3, 100 }, { 1, 4, 100 }, { 1, 7, 100 }, { 2, 8, 100 }, { 4, 16, 100 },
		{ 25, 100, 100 }, { 16, 128, 4096 }, { 1, 128, 65536 },
	};

	EACH_ROW (i, rows) {
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
TEST(size_and_number_of_requests_are_limited_by_ring_and_device)
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

	EACH_ROW (i, rows) {
		struct transfer_run run = { .size = 0 };
		char promise[64];

		snprintf(promise, sizeof(promise), "%" PRIu64 " bytes in a ring of %" PRIu64,
			rows[i].bytes, rows[i].ring);
		tell_of(promise, (struct kind){ OUT, MIB, MIB, rows[i].ring, .depth = 100, .request = rows[i].device });
		fills(MIB); is(transfer_take_run(&it.side, 1, &run), true); is(run.size, rows[i].bytes);
		is(it.side.operation.depth, rows[i].outstanding);
	}
}

static void ends_with_its_pass(void)
{
	fills_all(); posts(1001); operated(false); stops(); posts_all(); operated(true);
	is(it.side.operation.posted, 50100000); done(100000);
}

TEST(timed_and_counted_passes_end_whole_and_a_pipe_ends_after_its_bytes)
{
	tell_of("passes that fit into the ring are filled once and posted many times",
		(struct kind){ BOTH, 100000, 100000, 100000, .passes = 1000 });
	fills_all(); is(it.side.source.filled, 100000); posts_all(); operated(true); at(250);
	says((struct window){ .produced = 100000000, .end = true }); done(100000);

	tell_of("the sink copies the last pass", (struct kind){ BOTH, 100000, 100000, 100000, .passes = 1000 });
	at(250); hears(NULL, (struct window){ .produced = 100000000 }); at(300); peer_done(NULL, 100000); may_copy(100000);

	tell_of("passes that exceed the advertised ring are one stream",
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
	advertises(0); region(NULL, 64 * KIB, 40000); fills(50000); posts_all();
	says((struct window){ .produced = 50000, .consumed = 40000 });
	hears(NULL, (struct window){ 1, 50000, 40000, 30000, false });
}

TEST(messages_that_break_a_rule_are_rejected)
{
	tell("MSG_MR produces at most the size of its region and the length of the stream", BOTH | READ, 100000, 100000, 0);
	region(NULL, 1000, 1000); region("has fewer bytes than are ready", 1000, 1001); region(NULL, MIB, 100000);
	region("has more ready bytes than the payload", MIB, 100001); region("has no memory", 0, 0);

	tell("a peer never reports the number that means unknown", BOTH | READ, LENGTH_UNKNOWN, 64 * KIB, 0);
	region("has more ready bytes than the payload", UINT64_MAX, UINT64_MAX); region(NULL, UINT64_MAX, 1000);
	sink_ends(LENGTH_UNKNOWN);
	is(it.side.sink.stream.flow_controlled, true);
	hears("reports more produced bytes than agreed", (struct window){ .produced = UINT64_MAX });
	hears("reports more produced bytes than agreed", (struct window){ .produced = UINT64_MAX, .end = true });
	hears(NULL, (struct window){ .produced = UINT64_MAX - 1 });
	sink_ends(LENGTH_UNKNOWN);

	tell_middle("a window that breaks a rule is rejected");
	hears("reports fewer produced bytes than before", (struct window){ 1, 49999, 40000, 30000, false });
	hears("reports fewer consumed bytes than before", (struct window){ 1, 50000, 39999, 30000, false });
	hears("reports fewer stored bytes than before", (struct window){ 1, 50000, 40000, 29999, false });
	hears("confirms fewer MSG_WINDOWs than before", (struct window){ 0, 50001, 40000, 30000, false });
	hears("confirms more MSG_WINDOWs than were sent", (struct window){ 2, 50001, 40000, 30000, false });
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
	peer_done("sent MSG_DONE with a wrong length of its payload", 999); peer_done(NULL, 1000);
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

	tell("the transfer waits until the peer has read the bytes reported as produced", OUT | READ, MIB, 64 * KIB, 0);
	fills(40000); advertises(40000); at(10); peer_owes(); at(20); hears(NULL, (struct window){ .consumed = 40000 });
	nothing_owed(); at(30); fills(1000); nothing_owed();
	at(300); says((struct window){ .received = 1, .produced = 41000 }); peer_owes();

	/* further completions change nothing until the peer reports consumed bytes */
	tell("the transfer waits until the peer has consumed the bytes reported as produced", OUT, MIB, 64 * KIB, 64 * KIB);
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
		fills_all(); advertises(100000); at(10); peer_owes(); at(20); peer_done(NULL, 0); nothing_owed();
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

	EACH_ROW (i, cases) {
		const struct transfer_plan plan = {
			.depth = 1,
			.request_size = 1,
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

	EACH_ROW (i, cases) {
		struct transfer transfer = begin((struct kind){ OUT, 64 * MIB, 64 * MIB, 64 * MIB,
								.depth = cases[i].depth });
		struct transfer_operation *operation = &transfer.operation;
		int64_t now = 0;

		fill_all(&transfer);
		while (!transfer_has_operated(&transfer)) {
			struct transfer_run run;
			struct transfer_signal next;

			while (transfer_take_run(&transfer, 32, &run))
				;
			next = next_signal(operation);
			now += (int64_t)((next.position - operation->completed) / cases[i].wire);
			assert_true(transfer_record_completed(&transfer, next.request, now));
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

	for (; transfer_take_run(many, most, &run); posted = true) {
		assert_true(more);
		more = run.more;
		assert_between(run.count, 1, most);
		for (unsigned int i = 0; i < run.count; i++) {
			assert_true(transfer_take_run(one, 1, &alone));
			assert_true(alone.count == 1 && alone.number == run.number + i);
			assert_true(alone.local == run.local + i * run.stride);
			assert_true(alone.remote == run.remote + i * run.stride);
			assert_true(alone.size == run.size);
			assert_int_equal(alone.signaled, run.signaled && i + 1 == run.count);
		}
	}
	assert_false(posted && more);
	assert_false(transfer_take_run(one, 1, &alone));
	assert_same_bytes(one, many, sizeof(*one));
}

/*
 * Let time pass: helpers fill most of a piece and copy a whole one, the peer consumes all produced
 * bytes, and one completion comes.
 */
static void go_on(struct transfer *side, int64_t now)
{
	const struct transfer_operation *operation = &side->operation;
	struct piece piece;
	struct window reported, room = { .produced = side->sink.produced };

	if (transfer_next_fill(side, &piece))
		transfer_record_filled(side, (2 * piece.size + 2) / 3);
	if (transfer_next_copy(side, &piece))
		transfer_record_copied(side, piece.size);
	if (operation->signals_completed < operation->signals_posted)
		assert_true(transfer_record_completed(side, next_signal(operation).request, now));
	if (take_window(side, now, &reported)) {
		room.received = side->credits.sent;
		room.consumed = reported.produced;
		assert_null(transfer_accept_window(side, &room));
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

	EACH_ROW (i, kinds) {
		for (unsigned int most = 1; most <= 40; most++) {
			struct transfer one = begin(kinds[i]), many;
			uint64_t produced = kinds[i].flows & READ ? kinds[i].advertised : 0;

			assert_null(transfer_accept_region(&one, kinds[i].advertised, produced));
			for (int64_t now = 0; !transfer_has_operated(&one); now += 25) {
				many = one;
				post_alike(&one, &many, most);
				go_on(&one, now + 25);
			}
		}
	}
}

RUN_TESTS(NULL, NULL)
