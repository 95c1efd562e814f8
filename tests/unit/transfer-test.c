// SPDX-License-Identifier: MIT
/*
 * The window: sides that are told what happens, step by step, simulated wires, and every order in
 * which two sides can exchange short streams through tiny rings.
 *
 * In the exploration two sides run against each other, with all that the verbs and the disks may do
 * in between. Each byte of each ring is modelled, and is garbage while anybody may be writing to
 * it.
 *
 * What the model takes for granted of the transport, and nothing more:
 * - WRITEs and messages are executed in the order of posting; READs in order among themselves, and
 *   messages among themselves, but a message may overtake a READ;
 * - the destination of a WRITE or READ holds garbage from the posting on, until it is executed; a
 *   source in memory is read when it is executed;
 * - a completion comes at any time after the execution or, as over iWARP for a WRITE, after the
 *   posting; only for requests that asked for it, and for all before it;
 * - messages that arrived are handled in order, at any time later, in any order relative to
 *   completions and workers;
 * - a worker takes a piece as soon as there is one, reads or writes it at any time until it reports
 *   it, and reports the whole of it or its first byte.
 *
 * To see that it can find something, it is run with programs that use the module wrongly as well.
 */
#include "rdma-common/transfer.h"

#include <inttypes.h>

#include "unit.h"

/* ---- One side, whose wire takes no time ---- */

static struct transfer_plan real_plan(bool writes, uint64_t length, uint64_t ring)
{
	struct stream_plan stream = {
		.present = true, .length = length, .passes = 1, .ring = ring
	};
	struct transfer_plan plan = {
		.writes = writes,
		.depth = 16,
		.request_size = TRANSFER_REQUEST_SIZE,
		.credits = TRANSFER_CREDITS,
		.answer = TRANSFER_ANSWER,
		.share = TRANSFER_SHARE,
		.outgoing = stream,
		.incoming = stream,
	};

	return plan;
}

static void fill_all(struct transfer *transfer)
{
	struct piece piece;

	while (transfer_fill(transfer, &piece))
		transfer_filled(transfer, piece.size);
}

/* Posts all that may be posted, `most` at most, and completes it at once; returns the requests. */
static unsigned int operate(struct transfer *transfer, uint64_t most, int64_t now)
{
	struct transfer_run request;
	unsigned int requests = 0;

	while (requests < most && transfer_next(transfer, 1, &request)) {
		requests++;
		if (request.signaled)
			assert_true(transfer_completed(transfer, request.number, now));
	}
	return requests;
}

/* Whether MSG_WINDOW is due by now; then it is sent. */
static bool take_window(struct transfer *transfer, int64_t now, struct window *window)
{
	if (transfer_window_time(transfer, now) > now)
		return false;
	*window = transfer_window(transfer);
	return true;
}

/* The peer is done and all that it sent is kept: the verdict is due. */
static bool all_is_kept(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;

	return sink->done && sink->kept == transfer_sink_end(transfer);
}

/* ---- One side, told step by step ---- */

enum op {
	OP_NONE,
	OP_AT,          /* the time, until the next of these */
	OP_FILLS,       /* `size` bytes */
	OP_FILLS_ALL,   /* what may be filled */
	OP_SOURCE_ENDS, /* after `size` bytes */
	OP_ANNOUNCES,   /* `size` in MSG_MR */
	OP_REGION,      /* the peer's, of `size` bytes, of which `ready`: `error` */
	OP_POSTS, /* up to `size` requests, each of which completes at once: `count`, or ANY */
	OP_NEXT,  /* at most `most` requests: `count` of them, of `size` bytes, signaled or not */
	OP_REJECTED,  /* request `size`, and what is behind it */
	OP_COMPLETES, /* request `size`; with `flag` that changes nothing */
	OP_STOPS,     /* a timed operation; with `flag` that changes nothing */
	OP_COPIES,
	OP_KEEPS,
	OP_JUDGES,    /* sends its good MSG_VERDICT */
	OP_PIECE,     /* may be copied, of `size` bytes; 0: none */
	OP_SAYS,      /* MSG_WINDOW; with `flag` none */
	OP_DUE,       /* MSG_WINDOW is, at that time */
	OP_HEARS,     /* MSG_WINDOW: `error` */
	OP_PEER_DONE, /* MSG_DONE of `size` bytes: `error` */
	OP_DONE,      /* MSG_DONE is due, of `size` bytes */
	OP_IS,        /* a member of struct transfer: `size` */
	OP_OWED,      /* something is, or not, and by the peer's program, or not */
	OP_OPERATED,
	OP_SINK_ENDS, /* after `size` bytes */
	OP_IS_WHOLE,  /* what comes in stays in the ring */
};

struct step {
	enum op op;
	uint64_t size;
	const char *error; /* NULL: none */
	struct window window;
	unsigned int most, count;
	bool flag;
	size_t member, width; /* of OP_IS */
	uint64_t ready;
};

#define ANY   UINT32_MAX
#define KIB   ((uint64_t)1 << 10)
#define MIB   ((uint64_t)1 << 20)
#define NEVER ((uint64_t)TRANSFER_NEVER)

/* clang-format off */
#define AT(time)                       { OP_AT, .size = (time) }
#define FILLS(bytes)                   { OP_FILLS, .size = (bytes) }
#define FILLS_ALL                      { OP_FILLS_ALL, .size = 0 }
#define SOURCE_ENDS(bytes)             { OP_SOURCE_ENDS, .size = (bytes) }
#define ANNOUNCES(bytes)               { OP_ANNOUNCES, .size = (bytes) }
#define REGION(wrong, bytes, filled)   { OP_REGION, .size = (bytes), .ready = (filled), .error = (wrong) }
#define POSTS(requests)                { OP_POSTS, .size = MIB, .count = (requests) }
#define POSTS_SOME(requests)           { OP_POSTS, .size = (requests), .count = (requests) }
#define NEXT(at_most, requests, bytes, signals) \
	{ OP_NEXT, .size = (bytes), .most = (at_most), .count = (requests), .flag = (signals) }
#define NO_NEXT(at_most)               { OP_NEXT, .most = (at_most) }
#define REJECTED(number)               { OP_REJECTED, .size = (number) }
#define COMPLETES(number)              { OP_COMPLETES, .size = (number) }
#define IGNORES(number)                { OP_COMPLETES, .size = (number), .flag = true }
#define STOPS                          { OP_STOPS, .size = 0 }
#define GOES_ON                        { OP_STOPS, .flag = true }
#define COPIES(bytes)                  { OP_COPIES, .size = (bytes) }
#define KEEPS(position)                { OP_KEEPS, .size = (position) }
#define JUDGES                         { OP_JUDGES, .size = 0 }
#define PIECE(bytes)                   { OP_PIECE, .size = (bytes) }
#define SAYS(...)                      { OP_SAYS, .window = { __VA_ARGS__ } }
#define SILENT                         { OP_SAYS, .flag = true }
#define DUE(time)                      { OP_DUE, .size = (time) }
#define HEARS(wrong, ...)              { OP_HEARS, .error = (wrong), .window = { __VA_ARGS__ } }
#define HEARS_ALL(wrong, received, ready, taken, kept, end) \
	HEARS(wrong, (received), (ready), (taken), (kept), (end))
#define PEER_DONE(wrong, bytes)        { OP_PEER_DONE, .size = (bytes), .error = (wrong) }
#define DONE(bytes)                    { OP_DONE, .size = (bytes) }
#define OWED                           { OP_OWED, .size = 1, .flag = true }
#define WIRE_OWES                      { OP_OWED, .size = 1 }
#define NOTHING_OWED                   { OP_OWED, .size = 0 }
#define OPERATED(yes)                  { OP_OPERATED, .size = (yes) }
#define SINK_ENDS(bytes)               { OP_SINK_ENDS, .size = (bytes) }
#define IS_WHOLE(yes)                  { OP_IS_WHOLE, .size = (yes) }
#define IS(what, number) \
	{ OP_IS, .size = (number), .member = offsetof(struct transfer, what), .width = sizeof(((struct transfer *)NULL)->what) }

/* Told: ready 50000, taken 40000; by the peer the same. */
#define MIDDLE \
	ANNOUNCES(0), REGION(NULL, 64 * KIB, 40000), FILLS(50000), POSTS(ANY), SAYS(.ready = 50000, .taken = 40000), \
	HEARS_ALL(NULL, 1, 50000, 40000, 30000, false)

/* What a side does. Bits of a set. */
enum { OUT = 1, IN = 2, BOTH = OUT | IN, READ = 4, EVERY_PASS = 8, TIMED = 16 };

static const struct story {
	const char *promise;
	int kind;
	uint64_t length, ring, announced; /* bytes; by the peer: 0, none */
	struct step steps[28];
	unsigned int depth, passes; /* 0: 16, 1 */
	uint64_t request;           /* bytes at most; 0: as the programs have it */
	unsigned int share;         /* 0: so as well */
} stories[] = {
/* When windows are sent. */
{ "a source that fits into the ring needs no window before it is done", BOTH, 8 * MIB, 8 * MIB, 8 * MIB, .steps = {
	FILLS_ALL, AT(100), POSTS(ANY), OPERATED(true), AT(249), SILENT, DONE(8 * MIB), AT(10000), SILENT } },
{ "nor does its sink, unless its verdict takes long: it says that it is alive", BOTH, 8 * MIB, 8 * MIB, 8 * MIB, .steps = {
	IS_WHOLE(true), PIECE(0), AT(300), PEER_DONE(NULL, 8 * MIB), PIECE(8 * MIB), AT(549), SILENT, AT(550), SAYS(.taken = 8 * MIB) } },
{ "a move is reported when it is 250 ms old", BOTH, 8 * MIB, 8 * MIB, 8 * MIB, .steps = {
	DUE(NEVER), FILLS(5000), AT(1000), POSTS(1), DUE(1250), AT(1249), SILENT, AT(1250), SAYS(.ready = 5000), DUE(NEVER) } },
{ "what is on the disk is reported as well, when all that was copied has been told", IN, MIB, 64 * KIB, 0, .steps = {
	AT(100), HEARS(NULL, .ready = 32 * KIB), AT(200), COPIES(32 * KIB), SAYS(.received = 1, .taken = 32 * KIB), DUE(NEVER),
	AT(1000), KEEPS(1000), DUE(1250), AT(1250), SAYS(.received = 1, .taken = 32 * KIB, .kept = 1000) } },
{ "a good verdict tells all that was taken and kept: no window has to", IN, MIB, 64 * KIB, 0, .steps = {
	AT(100), HEARS(NULL, .ready = 8 * KIB), COPIES(8 * KIB), DUE(350), KEEPS(8 * KIB), DUE(350), JUDGES, DUE(NEVER), AT(350), SILENT,
	IS(sink.told_taken, 8 * KIB), IS(sink.told_kept, 8 * KIB) } },
{ "so does MSG_DONE, of all that was read", IN | READ, 100000, 100000, 0, .steps = {
	REGION(NULL, 100000, 100000), AT(100), POSTS(ANY), DUE(350), DONE(0), IS(sink.told_taken, 100000), DUE(NEVER) } },
{ "a quarter of the ring is reported at once", BOTH, 4 * MIB, MIB, MIB, .steps = {
	FILLS(256 * KIB - 1), POSTS(ANY), SILENT, FILLS(1), POSTS(ANY), SAYS(.ready = 256 * KIB) } },
{ "a timed READ that repeats marks no end behind MSG_MR", BOTH | READ | TIMED, 100000, 100000, 0, .steps = {
	FILLS(100000), ANNOUNCES(100000), AT(1000), SILENT, DUE(NEVER) } },
{ "the first request is owed, and reported by its time", OUT, MIB, MIB, MIB, .request = 16 * KIB, .steps = {
	FILLS(MIB), ANNOUNCES(0), PEER_DONE(NULL, 0), NOTHING_OWED, DUE(NEVER), AT(100), NEXT(1, 1, 16 * KIB, false), WIRE_OWES, DUE(350),
	AT(200), NEXT(1, 1, 16 * KIB, false), WIRE_OWES, DUE(350) } },
/* Requests, and their completions. */
{ "a request ends where a ring ends", BOTH, MIB, 61440, 40960, .depth = 1, .share = 1, .steps = {
	FILLS_ALL, NEXT(1, 1, 40960, true), COMPLETES(1), AT(250), SAYS(.ready = 40960), HEARS(NULL, .taken = 40960),
	FILLS_ALL, NEXT(1, 1, 20480, true), COMPLETES(2), AT(500), SAYS(.received = 1, .ready = 61440),
	HEARS_ALL(NULL, 1, 0, 61440, 0, false),
	FILLS_ALL, NEXT(1, 1, 20480, true), COMPLETES(3), AT(750), SAYS(.received = 2, .ready = 81920),
	HEARS_ALL(NULL, 2, 0, 81920, 0, false),
	FILLS_ALL, NEXT(1, 1, 40960, true) } },
{ "a request that was rejected, and all behind it, was not posted", OUT, MIB, MIB, MIB, .request = 100, .steps = {
	FILLS(MIB), NEXT(8, 4, 100, true), NEXT(3, 3, 100, false), REJECTED(6), IS(operation.requests_posted, 5), IGNORES(6),
	COMPLETES(4), IS(operation.completed, 400), COMPLETES(5), IS(operation.requests_completed, 5), IS(operation.completed, 400) } },
#define FLUSHED FILLS(MIB), NEXT(16, 4, 100, true), NEXT(16, 4, 100, true), IS(operation.completed, 0)
{ "what is flushed, each by itself, is counted once", OUT, MIB, MIB, MIB, .request = 100, .steps = {
	FLUSHED, COMPLETES(1), COMPLETES(2), COMPLETES(3), IS(operation.completed, 0), IS(operation.requests_completed, 3),
	COMPLETES(4), IS(operation.completed, 400), COMPLETES(8), IS(operation.completed, 800), IS(operation.requests_completed, 8) } },
{ "or by the last one that asked for it", OUT, MIB, MIB, MIB, .request = 100, .steps = {
	FLUSHED, COMPLETES(4), IS(operation.completed, 400), COMPLETES(8), IS(operation.completed, 800), IS(operation.requests_completed, 8) } },
{ "a completion that nobody asked for, or that came before, completes nothing", OUT, MIB, MIB, MIB, .steps = {
	FILLS(MIB), IGNORES(1), NEXT(1, 1, 64 * KIB, true), IGNORES(0), IGNORES(2), COMPLETES(1), IGNORES(1) } },
{ "a run ends with a completion, and so does what can be posted for now", OUT, MIB, MIB, MIB, .request = 100, .steps = {
	FILLS(1050), NO_NEXT(0), NEXT(3, 3, 100, false), NEXT(32, 1, 100, true), NEXT(4, 4, 100, true), NEXT(32, 2, 100, false),
	NEXT(32, 1, 50, true), NO_NEXT(32) } },
/* Passes. */
{ "passes that fit are posted from what was filled once", BOTH, 100000, 100000, 100000, .passes = 1000, .steps = {
	FILLS_ALL, IS(source.filled, 100000), POSTS(ANY), OPERATED(true), AT(250), SAYS(.ready = 100000000, .end = true), DONE(100000) } },
{ "and the last one is what is received", BOTH, 100000, 100000, 100000, .passes = 1000, .steps = {
	AT(250), HEARS(NULL, .ready = 100000000), AT(300), PEER_DONE(NULL, 100000), PIECE(100000) } },
{ "passes that are verified are one stream", BOTH | EVERY_PASS, 100000, 100000, 100000, .passes = 1000, .steps = {
	FILLS_ALL, POSTS(ANY), IS(operation.posted, 100000), SINK_ENDS(100000000), IS_WHOLE(false) } },
#define TIME_UP(bytes) \
	FILLS_ALL, POSTS_SOME(1001), OPERATED(false), STOPS, POSTS(ANY), OPERATED(true), IS(operation.posted, (bytes)), DONE(100000)
{ "a WRITE whose time is up ends with its pass", BOTH | TIMED, 100000, 100000, 100000, .steps = { TIME_UP(50100000) } },
{ "and so does a READ", BOTH | READ | TIMED, 100000, 100000, 0, .steps = { REGION(NULL, 100000, 100000), TIME_UP(50100000) } },
/* Through a ring of this side's that is shorter than a pass the source is ahead of the wire. */
{ "or with the pass that its source has begun", OUT | TIMED, 100000, 30000, 100000, .steps = {
	FILLS(30000), POSTS(ANY), FILLS(30000), POSTS(ANY), FILLS(30000), POSTS(ANY), IS(source.filled, 90000), FILLS(30000), STOPS,
	IS(source.stream.length, 200000), POSTS(ANY), FILLS_ALL, POSTS(ANY), FILLS_ALL, POSTS(ANY), FILLS_ALL, POSTS(ANY), OPERATED(true),
	GOES_ON } },
{ "a timed stream whose passes are verified is not stopped but by its source", BOTH | TIMED | EVERY_PASS, 100000, 100000, 100000, .steps = { GOES_ON } },
{ "nor are passes that are counted", BOTH, 100000, 100000, 100000, .steps = { GOES_ON }, .passes = 3 },
{ "a timed stream of passes ends with the pass that has begun, once", BOTH | TIMED | EVERY_PASS, 1000, 4096, 4096, .steps = {
	FILLS(1001), SOURCE_ENDS(2000), FILLS(999), SOURCE_ENDS(2000) } },
{ "which is the first one at least", BOTH | TIMED | EVERY_PASS, 1000, 4096, 4096, .steps = { SOURCE_ENDS(1000) } },
{ "a pass that is just full has ended", BOTH | TIMED | EVERY_PASS, 1000, 4096, 4096, .steps = { FILLS(2000), SOURCE_ENDS(2000) } },
{ "a pipe ends with what was filled", BOTH, LENGTH_UNKNOWN, 4096, 4096, .steps = { FILLS(1001), SOURCE_ENDS(1001) } },
{ "a length that was agreed stays", BOTH, 100000, 4096, 4096, .steps = { FILLS(1000), SOURCE_ENDS(100000) } },
/* What a peer may say. */
{ "of a region no more is ready than it has, nor than the stream", BOTH | READ, 100000, 100000, 0, .steps = {
	REGION(NULL, 1000, 1000), REGION("is ready beyond its end", 1000, 1001), REGION(NULL, MIB, 100000),
	REGION("is ready beyond its end", MIB, 100001), REGION("has no memory", 0, 0) } },
{ "no peer says the number that means unknown", BOTH | READ, LENGTH_UNKNOWN, 64 * KIB, 0, .steps = {
	REGION("is ready beyond its end", UINT64_MAX, UINT64_MAX), REGION(NULL, UINT64_MAX, 1000), SINK_ENDS(LENGTH_UNKNOWN),
	IS(sink.stream.quiet, false), HEARS("is ready beyond what was agreed", .ready = UINT64_MAX),
	HEARS("is ready beyond what was agreed", .ready = UINT64_MAX, .end = true), HEARS(NULL, .ready = UINT64_MAX - 1),
	SINK_ENDS(LENGTH_UNKNOWN) } },
{ "a window that breaks a rule is refused, and changes nothing", BOTH | READ, MIB, 64 * KIB, 0, .steps = {
	MIDDLE,
	HEARS_ALL("goes backwards in what is ready", 1, 49999, 40000, 30000, false),
	HEARS_ALL("goes backwards in what is taken", 1, 50000, 39999, 30000, false),
	HEARS_ALL("goes backwards in what is kept", 1, 50000, 40000, 29999, false),
	HEARS_ALL("goes backwards in what it has received", 0, 50001, 40000, 30000, false),
	HEARS_ALL("confirms more windows than were sent", 2, 50001, 40000, 30000, false),
	HEARS_ALL("is ready beyond the ring", 1, 40001 + 64 * KIB, 40000, 30000, false),
	HEARS_ALL("is ready beyond what was agreed", 1, UINT64_MAX, 40000, 30000, false),
	HEARS_ALL("is ready beyond what was agreed", 1, MIB + 1, 40000, 30000, false),
	HEARS_ALL("takes what was not ready", 1, 50000, 50001, 30000, false),
	HEARS_ALL("keeps what was not ready", 1, 50000, 40000, 50001, false),
	HEARS_ALL("ends before what was agreed", 1, 50001, 40000, 30000, true),
	HEARS_ALL("moves nothing", 1, 50000, 40000, 30000, false) } },
#define MOVED(what, ready, taken, kept) \
{ "a window that moves what is " what " is taken", BOTH | READ, MIB, 64 * KIB, 0, .steps = { \
	MIDDLE, HEARS_ALL(NULL, 1, ready, taken, kept, false) } }
MOVED("ready", 50001, 40000, 30000), MOVED("taken", 50000, 40001, 30000), MOVED("kept", 50000, 40000, 30001),
MOVED("all that is ready", 50000, 50000, 50000), MOVED("ready up to the ring", 40000 + 64 * KIB, 40000, 30000),
{ "after the end nothing is ready, and there is one MSG_DONE", BOTH, LENGTH_UNKNOWN, 64 * KIB, 64 * KIB, .steps = {
	PEER_DONE("is done before its end is marked", 1000), HEARS(NULL, .ready = 1000, .end = true), HEARS("ends twice", .ready = 1000, .end = true),
	HEARS("goes on after the end", .ready = 1001), PEER_DONE("is done with other bytes than agreed", 999), PEER_DONE(NULL, 1000),
	PEER_DONE("is done twice", 1000) } },
{ "nobody is done before all can have been read", BOTH | READ, MIB, 64 * KIB, 0, .steps = { MIDDLE, PEER_DONE("is done reading what was not ready", MIB) } },
{ "nor written", BOTH, MIB, 64 * KIB, 0, .steps = { PEER_DONE("is done beyond the ring", MIB) } },
/* Deadlines. */
/* When the ring is full it is this side that has to copy. */
{ "a peer that waits for this side owes nothing", IN, MIB, 64 * KIB, 0, .steps = {
	AT(10), OWED, AT(20), HEARS(NULL, .ready = 64 * KIB), NOTHING_OWED, AT(30), COPIES(32 * KIB), NOTHING_OWED,
	AT(40), SAYS(.received = 1, .taken = 32 * KIB), OWED } },
{ "a deadline is extended by a number that moves, or the end, and by nothing else", BOTH, LENGTH_UNKNOWN, 64 * KIB, 64 * KIB, .steps = {
	FILLS(2000), POSTS(ANY), AT(250), SAYS(.ready = 2000), IS(moves, 0), AT(300), HEARS(NULL, .ready = 1000), IS(moves, 1),
	HEARS_ALL(NULL, 1, 1000, 0, 0, false), IS(moves, 1), HEARS_ALL(NULL, 1, 1000, 1000, 0, false), IS(moves, 2), HEARS_ALL(NULL, 1, 1000, 1000, 1000, false), IS(moves, 3),
	HEARS_ALL("moves nothing", 1, 1000, 1000, 1000, false), IS(moves, 3), HEARS_ALL(NULL, 1, 1000, 1000, 1000, true), IS(moves, 4) } },
/* How far it came may be told behind that, which is no move any more, nor an end. */
{ "a timed WRITE that is done owes nothing", IN | TIMED, 100000, 100000, 0, .steps = {
	HEARS(NULL, .ready = 100000), OWED, PEER_DONE(NULL, 100000), NOTHING_OWED, IS(moves, 1), AT(250), SAYS(.received = 1, .taken = 100000),
	AT(0), HEARS_ALL(NULL, 1, 300000, 0, 0, false), IS(moves, 1), HEARS_ALL("ends twice", 1, 300000, 0, 0, true) } },
{ "a peer owes to read what it was told to be ready", OUT | READ, MIB, 64 * KIB, 0, .steps = {
	FILLS(40000), ANNOUNCES(40000), AT(10), OWED, AT(20), HEARS(NULL, .taken = 40000), NOTHING_OWED, AT(30), FILLS(1000), NOTHING_OWED,
	AT(300), SAYS(.received = 1, .ready = 41000), OWED } },
/* That its adapter completes more does not count meanwhile. */
{ "a peer owes to take what it was told to be ready", OUT, MIB, 64 * KIB, 64 * KIB, .steps = {
	AT(10), PEER_DONE(NULL, 0), AT(20), FILLS(10000), NEXT(1, 1, 10000, true), WIRE_OWES, AT(30), COMPLETES(1), NOTHING_OWED,
	AT(300), SAYS(.ready = 10000), OWED, AT(310), FILLS(1000), NEXT(1, 1, 1000, true), AT(320), COMPLETES(2), OWED,
	HEARS_ALL(NULL, 1, 0, 9999, 0, false), OWED, HEARS_ALL(NULL, 1, 0, 10000, 0, false), NOTHING_OWED } },
#define READ_ALL(times, bytes) { "who is done has read " #times " passes, and owes nothing", OUT | READ, 100000, 100000, 0, .steps = {\
	FILLS_ALL, ANNOUNCES(100000), AT(10), OWED, AT(20), PEER_DONE(NULL, 0), NOTHING_OWED, IS(source.taken, (bytes)) }, .passes = (times) }
READ_ALL(1, 100000), READ_ALL(2, 200000), READ_ALL(3, 300000),
{ "the wire owes what is in flight, even if the peer has nothing left to do", IN | READ, 100000, 100000, 0, .steps = {
	AT(10), REGION(NULL, 100000, 100000), OWED, AT(20), NEXT(1, 1, 64 * KIB, true), NEXT(1, 1, 100000 - 64 * KIB, true), NO_NEXT(1),
	AT(30), PEER_DONE(NULL, 100000), WIRE_OWES, AT(40), COMPLETES(2), OPERATED(true), NOTHING_OWED } },
};
/* clang-format on */

static struct transfer begin(const struct story *story)
{
	uint64_t passes = story->kind & TIMED ? 0 : story->passes ? story->passes : 1;
	struct transfer_plan plan = real_plan(!(story->kind & READ), story->length, story->ring);
	struct transfer side;

	plan.outgoing.present = story->kind & OUT;
	plan.incoming.present = story->kind & IN;
	plan.outgoing.passes = plan.incoming.passes = passes;
	plan.outgoing.every_pass = plan.incoming.every_pass = story->kind & EVERY_PASS;
	if (story->depth)
		plan.depth = story->depth;
	if (story->request)
		plan.request_size = story->request;
	if (story->share)
		plan.share = story->share;
	transfer_init(&side, &plan);
	if (story->announced)
		assert_null(transfer_peer_region(&side, story->announced, 0));
	transfer_window_time(&side, 0);
	return side;
}

static bool is_same(const char *error, const char *expected)
{
	return error && expected ? !strcmp(error, expected) : error == expected;
}

/* A run begins behind the last one, in both rings. */
static bool go_next(struct transfer *side, const struct step *step)
{
	const struct transfer_operation before = side->operation;
	const struct transfer_stream *stream =
		side->plan.writes ? &side->source.stream : &side->sink.stream;
	struct transfer_run run = { .count = 0 };

	if (!transfer_next(side, step->most, &run))
		return step->count == 0;
	return run.count == step->count && run.size == step->size && run.stride == run.size &&
	       run.signaled == step->flag && run.number == before.requests_posted + 1 &&
	       run.local == before.posted % stream->plan.ring &&
	       run.remote == before.posted % stream->announced;
}

static uint64_t member(const struct transfer *side, const struct step *step)
{
	const void *place = (const char *)side + step->member;

	return step->width == sizeof(bool) ? *(const bool *)place : *(const uint64_t *)place;
}

static bool hears(struct transfer *side, const struct step *step)
{
	const struct transfer before = *side;
	const char *error = step->op == OP_HEARS ? transfer_accept(side, &step->window)
						 : transfer_accept_done(side, step->size);

	return is_same(error, step->error) && (!error || !memcmp(side, &before, sizeof(before)));
}

/* Whether the window that is due, if one is, is this one. */
static bool says(struct transfer *side, const struct step *step, int64_t now)
{
	struct window window = { 0 };

	return take_window(side, now, &window) != step->flag &&
	       window.received == step->window.received && window.ready == step->window.ready &&
	       window.taken == step->window.taken && window.kept == step->window.kept &&
	       window.end == step->window.end;
}

/* What happens, and whether that comes to what was expected. */
static bool happens(struct transfer *side, const struct step *step, int64_t now)
{
	const struct transfer before = *side;

	switch (step->op) {
	case OP_FILLS:
		transfer_filled(side, step->size);
		return true;
	case OP_FILLS_ALL:
		fill_all(side);
		return true;
	case OP_SOURCE_ENDS:
		transfer_end_source(side);
		return side->source.stream.length == step->size;
	case OP_REGION:
		return is_same(transfer_peer_region(side, step->size, step->ready), step->error);
	case OP_POSTS:
		return operate(side, step->size, now) == step->count || step->count == ANY;
	case OP_NEXT:
		return go_next(side, step);
	case OP_REJECTED:
		transfer_rejected(side, step->size);
		return true;
	case OP_COMPLETES:
		return transfer_completed(side, step->size, now) != step->flag &&
		       (!step->flag || !memcmp(side, &before, sizeof(before)));
	case OP_STOPS:
		transfer_stop(side);
		return !step->flag || !memcmp(side, &before, sizeof(before));
	case OP_COPIES:
		transfer_copied(side, step->size);
		return true;
	case OP_KEEPS:
		transfer_kept(side, step->size);
		return true;
	case OP_JUDGES:
		transfer_verdict(side);
		return true;
	case OP_SAYS:
		return says(side, step, now);
	case OP_HEARS:
	case OP_PEER_DONE:
		return hears(side, step);
	default:
		return false;
	}
}

/* Whether it is so. */
static bool is_so(struct transfer *side, const struct step *step, int64_t now)
{
	struct piece piece = { .size = 0 };

	switch (step->op) {
	case OP_ANNOUNCES:
		return transfer_announce(side) == step->size;
	case OP_PIECE:
		return transfer_copy(side, &piece) == (step->size > 0) && piece.size == step->size;
	case OP_DUE:
		return transfer_window_time(side, now) == (int64_t)step->size;
	case OP_DONE:
		return transfer_done_due(side) && transfer_done(side) == step->size;
	case OP_IS:
		if (member(side, step) == step->size)
			return true;
		print_message("it is %" PRIu64 "\n", member(side, step));
		return false;
	case OP_OWED:
		return transfer_is_owed(side) == step->size &&
		       transfer_waits_for_peer(side) == step->flag;
	case OP_OPERATED:
		return transfer_operated(side) == step->size;
	case OP_IS_WHOLE:
		return transfer_is_whole(side) == step->size;
	case OP_SINK_ENDS:
		return transfer_sink_end(side) == step->size;
	default:
		return happens(side, step, now);
	}
}

TEST(every_story_goes_as_it_is_told)
{
	for (const struct story *story = stories; story < stories + ENTRIES(stories); story++) {
		struct transfer side = begin(story);
		int64_t now = 0;

		for (const struct step *step = story->steps; step->op; step++) {
			if (step->op == OP_AT)
				now = (int64_t)step->size;
			else if (!is_so(&side, step, now))
				fail_msg("%s: not so at step %d", story->promise,
					 (int)(step - story->steps) + 1);
			transfer_window_time(&side, now); /* as in every turn */
		}
	}
}

/* ---- What takes many steps ---- */

/* WRITE one way of `length` bytes into a ring as long; so many requests, of so many bytes; `first`
 * bytes are there.
 */
static struct transfer writing(unsigned int depth, uint64_t size, uint64_t length, uint64_t first)
{
	struct transfer_plan plan = real_plan(true, length, length);
	struct transfer transfer;

	plan.incoming.present = false;
	plan.depth = depth;
	plan.request_size = size;
	transfer_init(&transfer, &plan);
	assert_int_equal(transfer_announce(&transfer), 0); /* nothing is there to be read */
	assert_null(transfer_peer_region(&transfer, length, 0));
	transfer_filled(&transfer, first);
	return transfer;
}

/* That whose completion comes next. */
static struct transfer_signal next_signal(const struct transfer_operation *operation)
{
	return operation->signals[operation->signals_completed % TRANSFER_SIGNALS];
}

/* A pipe of single bytes: each is the last one for now. */
TEST(no_more_completions_are_asked_for_than_are_remembered)
{
	struct transfer transfer = writing(128, 100, 1 << 20, 1);
	struct transfer_run run;

	for (uint64_t number = 1; number <= TRANSFER_SIGNALS; number++) {
		assert_true(transfer_next(&transfer, 32, &run));
		assert_int_equal(run.number, number);
		assert_true(run.signaled);
		assert_false(transfer_next(&transfer, 32, &run));
		transfer_filled(&transfer, 1);
	}
	assert_false(transfer_next(&transfer, 32, &run));
	assert_true(transfer_completed(&transfer, 2, 0));
	assert_int_equal(transfer.operation.completed, 2);
	assert_true(transfer_next(&transfer, 32, &run));
	assert_true(transfer_completed(&transfer, TRANSFER_SIGNALS + 1, 0));
	assert_int_equal(transfer.operation.completed, TRANSFER_SIGNALS + 1);
	assert_int_equal(transfer_outstanding(&transfer), 0);
}

/* More requests, and more bytes, than a short number counts. */
TEST(a_stream_of_terabytes)
{
	struct transfer_plan plan = real_plan(true, (uint64_t)3 << 39, 8 << 20);
	struct transfer transfer;
	struct window room = { 0 }, told;
	int64_t now = 0;

	plan.incoming.present = false;
	plan.request_size = 1 << 20;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 8 << 20, 0));
	while (!transfer_operated(&transfer)) {
		fill_all(&transfer);
		operate(&transfer, ANY, now += 250);
		if (take_window(&transfer, now, &told)) {
			room.received++;
			room.taken = told.ready;
			assert_null(transfer_accept(&transfer, &room));
		}
	}
	assert_int_equal(transfer_done(&transfer), (uint64_t)3 << 39);
}

TEST(a_request_is_no_longer_than_a_move_that_is_reported)
{
	static const struct {
		uint64_t most; /* the device's */
		uint64_t ring; /* the peer's; the stream has 1 MiB */
		uint64_t size, depth;
	} cases[] = {
		{ 1 << 20, 1 << 20, 65536, 4 }, /* all fits; 256 KiB may be in flight */
		{ 65536, 1 << 20, 65536, 4 },
		{ 60000, 1 << 20, 60000, 4 },
		{ 1000, 1 << 20, 1000, 100 },   /* as many as the device takes */
		{ 1 << 20, 1 << 17, 32768, 8 }, /* a quarter of the ring, which is reported */
		{ 1 << 20, (1 << 17) - 4, 32767, 8 },
		{ 1 << 20, 5000, 4096, 64 }, /* a page at least */
		{ 1 << 20, 1000, 1000, 100 },
		{ 100, 5000, 100, 100 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct transfer transfer = writing(100, cases[i].most, 1 << 20, 1 << 20);
		struct transfer_run run;

		assert_null(transfer_peer_region(&transfer, cases[i].ring, 0));
		assert_true(transfer_next(&transfer, 1, &run));
		assert_true(run.size == cases[i].size);
		assert_true(transfer.operation.depth == cases[i].depth);
	}
}

/* Carries 64 MiB over a wire of so many bytes a millisecond; what is in flight in the end. */
TEST(more_is_in_flight_where_that_takes_little_time)
{
	static const struct {
		unsigned int depth;
		uint64_t wire, size, expected; /* bytes of a request; requests that may be there */
	} cases[] = {
		{ 16, 250, 65536, 4 },       /* 2 Mbit/s: a second of it is in flight at first */
		{ 16, 1000, 1 << 17, 4 },    /* 8 Mbit/s: 256 KiB took less than a quarter */
		{ 16, 12000, 1 << 20, 4 },   /* about 100 Mbit/s */
		{ 16, 1250000, 1 << 20, 8 }, /* 10 Gbit/s: 8 MiB, and no more */
		{ 2, 1250000, 1 << 20, 2 },  { 2, 250, 65536, 2 },
		{ 1, 250, 1 << 20, 1 }, /* nothing else could be shorter */
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct transfer transfer = writing(cases[i].depth, 1 << 20, 1 << 26, 1 << 26);
		struct transfer_operation *operation = &transfer.operation;
		int64_t now = 0;

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

/* Passes of one request, all with the same bytes. */
TEST(as_many_are_outstanding_as_may_be)
{
	for (unsigned int depth = 1; depth < 40; depth++) {
		struct transfer_plan plan = real_plan(true, 64, 64);
		struct transfer transfer;
		struct transfer_run run;
		uint64_t last = 0, count = 0;

		plan.outgoing.passes = 100;
		plan.depth = depth;
		transfer_init(&transfer, &plan);
		assert_null(transfer_peer_region(&transfer, 64, 0));
		fill_all(&transfer);
		while (transfer_next(&transfer, 32, &run)) {
			assert_int_equal(run.stride, 0);
			assert_int_equal(run.local, 0);
			assert_int_equal(run.remote, 0);
			count += run.count;
			if (run.signaled)
				last = count;
		}
		assert_int_equal(count, depth);
		assert_true(last > 0); /* else nothing would ever go on */
	}
}

/* The numbers of requests, from 1, whose completion is asked for: one of so many. */
TEST(a_completion_is_asked_for_now_and_then)
{
	static const struct {
		unsigned int depth, interval;
		uint64_t size;
	} cases[] = {
		{ 1, 1, 100 },    { 3, 1, 100 },     { 4, 1, 100 },
		{ 7, 1, 100 },    { 8, 2, 100 },     { 16, 4, 100 },
		{ 100, 25, 100 }, { 128, 16, 4096 }, { 128, 1, 65536 },
	};

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct transfer transfer = writing(cases[i].depth, cases[i].size, 1 << 30, 1 << 28);
		struct transfer_run request;

		for (unsigned int number = 1; transfer_next(&transfer, 1, &request); number++)
			assert_int_equal(request.signaled, number % cases[i].interval == 0);
	}
}

TEST(a_product_that_overflows_is_no_unknown_length)
{
	struct stream_plan plan = { .present = true,
				    .every_pass = true,
				    .length = (uint64_t)1 << 40,
				    .passes = (uint64_t)1 << 40 };

	assert_true(transfer_stream_length(&plan) == LENGTH_UNKNOWN - 1);
	plan.passes = 0;
	assert_true(transfer_stream_length(&plan) == LENGTH_UNKNOWN);
	plan.passes = 3;
	assert_true(transfer_stream_length(&plan) == (uint64_t)3 << 40);
	plan.every_pass = false;
	assert_true(transfer_stream_length(&plan) == (uint64_t)1 << 40);
	/* this product fits into 64 bits, and has them all set */
	plan = (struct stream_plan){
		.present = true, .every_pass = true, .length = 3, .passes = UINT64_MAX / 3
	};
	assert_true(transfer_stream_length(&plan) == LENGTH_UNKNOWN - 1);
}

/* A quarter of a ring, and of the shortest ones a byte. */
TEST(every_move_in_a_tiny_ring_is_reported)
{
	struct transfer_plan plan = real_plan(false, 1 << 20, 1);

	for (plan.outgoing.ring = 1; plan.outgoing.ring < 10; plan.outgoing.ring++) {
		struct transfer transfer;

		transfer_init(&transfer, &plan);
		assert_int_equal(transfer.source.stream.quarter, plan.outgoing.ring < 8 ? 1 : 2);
	}
}

/* By one byte a message, as many as it has credits for: an answer gives them back. */
TEST(a_flood_is_bound_by_credits)
{
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);
	struct transfer transfer;
	struct window window = { 0 }, answer;

	transfer_init(&transfer, &plan);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < TRANSFER_CREDITS; i++) {
			window.ready++;
			assert_null(transfer_accept(&transfer, &window));
		}
		window.ready++;
		assert_string_equal(transfer_accept(&transfer, &window), "comes without a credit");
		window.ready--;
		assert_true(take_window(&transfer, 0, &answer));
		assert_int_equal(answer.received, round * TRANSFER_CREDITS);
		assert_string_equal(transfer_accept(&transfer, &window), "moves nothing");
	}
}

TEST(credits_run_out_and_come_back)
{
	struct transfer_plan plan = real_plan(true, 8 << 20, 8 << 20);
	struct transfer transfer;
	struct window window, peer = { 0 };
	int64_t now = 0;

	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 8 << 20, 0));
	for (int i = 0; i < 31; i++) {
		transfer_filled(&transfer, 1);
		operate(&transfer, ANY, now);
		assert_false(take_window(&transfer, now, &window)); /* a byte can wait */
		assert_true(take_window(&transfer, now += 250, &window));
	}
	transfer_filled(&transfer, 1);
	operate(&transfer, ANY, now);
	assert_int_equal(transfer_window_time(&transfer, now), TRANSFER_NEVER);
	assert_false(take_window(&transfer, now += 250, &window));
	for (int i = 0; i < 16; i++) {
		assert_false(take_window(&transfer, now, &window));
		peer.ready++;
		assert_null(transfer_accept(&transfer, &peer));
	}
	/* the 32nd: only because it answers */
	assert_true(take_window(&transfer, now, &window));
	assert_int_equal(window.received, 16);
	for (peer.received = 16; transfer.credits.received - transfer.credits.told < 15;) {
		peer.ready++;
		assert_null(transfer_accept(&transfer, &peer));
	}
	assert_true(transfer.credits.sent - transfer.credits.confirmed == 16);
}

/* ---- Property: requests one at a time and in runs are the same ---- */

#define BATCH 40

/* Posts all that may be, alone and in runs of at most `most`. */
static void post_alike(struct transfer *one, struct transfer *many, unsigned int most)
{
	struct transfer_run run, alone;

	while (transfer_next(many, most, &run)) {
		assert_in_range(run.count, 1, most);
		for (unsigned int i = 0; i < run.count; i++) {
			assert_true(transfer_next(one, 1, &alone));
			assert_int_equal(alone.count, 1);
			assert_true(alone.number == run.number + i);
			assert_true(alone.local == run.local + i * run.stride);
			assert_true(alone.remote == run.remote + i * run.stride);
			assert_true(alone.size == run.size);
			assert_int_equal(alone.signaled, run.signaled && i + 1 == run.count);
		}
	}
	assert_false(transfer_next(one, 1, &alone));
	assert_memory_equal(one, many, sizeof(*one));
}

/* A disk moves most of a piece, the peer takes what it is told, and one completion comes. */
static void go_on(struct transfer *transfer, struct window *room, int64_t now)
{
	const struct transfer_operation *operation = &transfer->operation;
	struct piece piece;
	struct window told;

	if (transfer_fill(transfer, &piece))
		transfer_filled(transfer, (2 * piece.size + 2) / 3);
	if (transfer_copy(transfer, &piece))
		transfer_copied(transfer, piece.size);
	if (operation->signals_completed < operation->signals_posted)
		assert_true(transfer_completed(transfer, next_signal(operation).request, now));
	if (take_window(transfer, now, &told)) {
		room->received = transfer->credits.sent;
		room->taken = told.ready;
		assert_null(transfer_accept(transfer, room));
	}
}

TEST(runs_are_the_same_requests)
{
	static const struct {
		bool writes;
		unsigned int depth;
		uint64_t length, passes, ring, announced, size;
	} cases[] = {
		{ true, 128, 64, 5000, 64, 64, 1 << 20 }, /* a request is a whole pass */
		{ true, 100, 1 << 20, 1, 1 << 20, 1 << 20, 1000 },
		{ true, 16, 1 << 20, 1, 61440, 40960, 5000 },    /* the ends of both rings */
		{ true, 8, 100000, 3, 30000, 100000, 4096 },     /* passes by a short ring */
		{ true, 5, 100000, 1, 100000, 100000, 1 << 20 }, /* fewer than a request */
		{ true, 1, 100000, 2, 100000, 100000, 4096 },
		{ true, 16, 32 << 20, 1, 8 << 20, 8 << 20,
		  1 << 20 }, /* waits for bytes in flight */
		{ false, 16, 100000, 30, 100000, 100000, 777 },
		{ false, 7, 100000, 3, 30000, 100000, 1 << 20 },
		{ false, 64, 4096, 100, 4096, 4096, 4096 },
	};

	for (size_t i = 0; i < BATCH * ENTRIES(cases); i++) {
		bool writes = cases[i / BATCH].writes;
		uint64_t announced = cases[i / BATCH].announced;
		struct window room = { .ready = writes ? 0 : announced };
		struct transfer_plan plan =
			real_plan(writes, cases[i / BATCH].length, cases[i / BATCH].ring);
		struct transfer one, many;

		plan.outgoing.present = writes;
		plan.incoming.present = !writes;
		plan.outgoing.passes = plan.incoming.passes = cases[i / BATCH].passes;
		plan.depth = cases[i / BATCH].depth;
		plan.request_size = cases[i / BATCH].size;
		transfer_init(&one, &plan);
		assert_null(transfer_peer_region(&one, announced, room.ready));
		for (int64_t now = 0; !transfer_operated(&one); now += 25) {
			many = one;
			post_alike(&one, &many, 1 + (unsigned int)(i % BATCH));
			go_on(&one, &room, now + 25);
		}
	}
}

/* ---- Simulated: wires and disks of any speed, real numbers ---- */

#define SIMULATED_QUEUE 4096

enum entry_kind {
	ENTRY_MR,
	ENTRY_WINDOW,
	ENTRY_DONE,
	ENTRY_REQUEST,
};

/* What goes over a wire in one direction, in this order. */
struct item {
	enum entry_kind kind;
	int owner; /* ENTRY_REQUEST: whose it is */
	uint64_t id, size;
	bool signaled;
	struct window window;
};

struct simulated_side {
	struct transfer transfer;
	struct item queue[SIMULATED_QUEUE];
	unsigned int first, behind; /* of the queue, modulo its length */
	uint64_t sent;              /* bytes of its first item */
	uint64_t filled, copied;    /* bytes that its disk may still move in this millisecond */
	bool done;                  /* it has sent MSG_DONE */
	int64_t extended;           /* its deadline was, then, as rdma-common.c does it */
};

struct simulation {
	struct simulated_side sides[2];
	uint64_t wire, disk; /* bytes a millisecond */
	int64_t now;
	int64_t longest; /* nothing extended a deadline, in milliseconds */
};

static void send_item(struct simulation *simulation, int number, struct item item)
{
	struct simulated_side *side = &simulation->sides[number];

	side->queue[side->behind++ % SIMULATED_QUEUE] = item;
	assert_true(side->behind - side->first < SIMULATED_QUEUE);
}

static void simulate_posts(struct simulation *simulation, int number)
{
	struct simulated_side *side = &simulation->sides[number];
	struct transfer *transfer = &side->transfer;
	struct item item = { .kind = ENTRY_REQUEST, .owner = number };
	struct transfer_run request;

	while (transfer_next(transfer, 1, &request)) {
		item.id = request.number;
		item.size = request.size;
		item.signaled = request.signaled;
		send_item(simulation, transfer->plan.writes ? number : !number, item);
	}
	item = (struct item){ .kind = ENTRY_WINDOW, .size = 100 };
	if (take_window(transfer, simulation->now, &item.window))
		send_item(simulation, number, item);
	if (!side->done && transfer_done_due(transfer)) {
		side->done = true;
		item = (struct item){ .kind = ENTRY_DONE, .size = 100 };
		item.id = transfer_done(transfer);
		send_item(simulation, number, item);
	}
}

/* As handle_operation_completion(). */
static void simulate_completion(struct simulation *simulation, const struct item *item)
{
	struct simulated_side *side = &simulation->sides[item->owner];

	if (!item->signaled)
		return;
	assert_true(transfer_completed(&side->transfer, item->id, simulation->now));
	if (!transfer_waits_for_peer(&side->transfer))
		side->extended = simulation->now;
}

/* As handle_window(); the others are steps of the state machine, there and where they come from. */
static void simulate_arrival(struct simulation *simulation, int number, const struct item *item)
{
	struct simulated_side *side = &simulation->sides[!number];
	uint64_t moves = side->transfer.moves;
	const char *wrong = NULL;

	if (item->kind == ENTRY_REQUEST) {
		simulate_completion(simulation, item);
		return;
	}
	if (item->kind == ENTRY_WINDOW)
		wrong = transfer_accept(&side->transfer, &item->window);
	else
		wrong = transfer_accept_done(&side->transfer, item->id);
	if (wrong)
		print_message("%d ms: %s\n", (int)simulation->now, wrong);
	assert_null(wrong);
	if (item->kind != ENTRY_WINDOW)
		simulation->sides[number].extended = simulation->now;
	if (item->kind != ENTRY_WINDOW || side->transfer.moves != moves)
		side->extended = simulation->now;
}

static void simulate_wire(struct simulation *simulation, int number)
{
	struct simulated_side *side = &simulation->sides[number];
	uint64_t left = simulation->wire;

	while (left > 0 && side->first != side->behind) {
		struct item item = side->queue[side->first % SIMULATED_QUEUE];
		uint64_t rest = item.size - side->sent;

		if (rest > left) {
			side->sent += left;
			return;
		}
		left -= rest;
		side->sent = 0;
		side->first++;
		simulate_arrival(simulation, number, &item);
	}
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The workers: pieces of 64 KiB at most, which extend what is not waited for from the peer. */
static void simulate_disks(struct simulation *simulation, int number)
{
	struct simulated_side *side = &simulation->sides[number];
	struct transfer *transfer = &side->transfer;
	bool owed = transfer_is_owed(transfer), moved = false;
	struct piece piece;

	side->filled += simulation->disk;
	side->copied += simulation->disk;
	while (transfer_fill(transfer, &piece) && side->filled >= at_most(piece.size, 65536)) {
		side->filled -= at_most(piece.size, 65536);
		transfer_filled(transfer, at_most(piece.size, 65536));
		moved = true;
	}
	while (transfer_copy(transfer, &piece) && side->copied >= at_most(piece.size, 65536)) {
		side->copied -= at_most(piece.size, 65536);
		transfer_copied(transfer, at_most(piece.size, 65536));
		transfer_kept(transfer, transfer->sink.copied);
		moved = true;
	}
	if (moved && !owed)
		side->extended = simulation->now;
}

/* One millisecond. Returns whether both sides have all. */
static bool simulate(struct simulation *simulation)
{
	bool over = true;

	simulation->now++;
	for (int number = 0; number < 2; number++) {
		struct simulated_side *side = &simulation->sides[number];

		simulate_disks(simulation, number);
		simulate_posts(simulation, number);
		simulate_wire(simulation, number);
		if (simulation->now - side->extended > simulation->longest)
			simulation->longest = simulation->now - side->extended;
		over = over && side->done && all_is_kept(&side->transfer);
	}
	return over;
}

/* Runs until both sides have all. */
static void run(struct simulation *simulation, const struct transfer_plan *plans)
{
	simulation->now = 0;
	for (int number = 0; number < 2; number++)
		transfer_init(&simulation->sides[number].transfer, &plans[number]);
	for (int number = 0; number < 2; number++) {
		const struct transfer_plan *peer = &plans[!number];
		uint64_t ring = peer->writes ? peer->incoming.ring : peer->outgoing.ring;
		struct transfer *other = &simulation->sides[!number].transfer;

		assert_null(transfer_peer_region(&simulation->sides[number].transfer, ring,
						 transfer_announce(other)));
	}
	while (!simulate(simulation))
		assert_true(simulation->now < 1000000);
}

/* The longest silence for which a side would blame the peer, in milliseconds. */
static int64_t longest_silence(bool writes, bool one_way, uint64_t ring, uint64_t wire,
			       uint64_t disk)
{
	struct simulation *simulation = calloc(1, sizeof(*simulation));
	struct transfer_plan plans[2];
	int64_t longest;

	assert_non_null(simulation);
	plans[0] = plans[1] = real_plan(writes, 32 << 20, ring);
	plans[0].outgoing.present = plans[1].incoming.present = !one_way;
	simulation->wire = wire;
	simulation->disk = disk;
	run(simulation, plans);
	longest = simulation->longest;
	free(simulation);
	return longest;
}

/* 4 Mbit/s carries 500 bytes in a millisecond: it moves within the usual --timeout. */
TEST(a_slow_wire_and_a_slow_disk_are_seen_to_move)
{
	static const struct {
		uint64_t wire, disk; /* bytes a millisecond */
		int64_t most;        /* milliseconds of silence */
	} cases[] = { { 500, 1 << 20, 10000 }, { 1 << 20, 1000, 1000 } };

	for (size_t i = 0; i < 12 * ENTRIES(cases); i++) {
		int kind = (int)(i % 12);
		uint64_t ring = (uint64_t)65536 << kind / 4 * 4;
		int64_t silence = longest_silence(kind & 1, kind & 2, ring, cases[i / 12].wire,
						  cases[i / 12].disk);

		print_message("%s, %s, ring %d KiB: %d ms of silence at most\n",
			      kind & 1 ? "WRITE" : "READ", kind & 2 ? "one way" : "both ways",
			      (int)(ring >> 10), (int)silence);
		assert_true(silence < cases[i / 12].most);
	}
}

/*
 * Over iWARP a source refills its ring only below what the peer has taken. Where its own ring is
 * the shorter one, it says what it has written as often as that fills, and is answered at once:
 * waiting for the clock, 1,000,000 bytes through 16 KiB would take 15 seconds.
 */
TEST(a_short_ring_is_refilled_without_the_clock)
{
	static const uint64_t announced[] = { 65536, 1000000, 8 << 20 };
	struct simulation *simulation = calloc(1, sizeof(*simulation));

	assert_non_null(simulation);
	for (size_t kind = 0; kind < 4 * ENTRIES(announced); kind++) {
		struct transfer_plan plans[2];

		memset(simulation, 0, sizeof(*simulation));
		plans[0] = plans[1] = real_plan(true, 1000000, 16384);
		plans[1].incoming.ring = announced[kind / 4];
		plans[0].outgoing.passes = plans[1].incoming.passes = kind & 2 ? 3 : 1;
		plans[0].incoming.present = plans[1].outgoing.present = kind & 1;
		plans[0].completes_early = plans[1].completes_early = true;
		simulation->wire = simulation->disk = 1 << 20;
		run(simulation, plans);
		print_message("%s, %d passes, into %" PRIu64 " bytes: %d ms\n",
			      kind & 1 ? "both ways" : "one way", kind & 2 ? 3 : 1,
			      announced[kind / 4], (int)simulation->now);
		assert_true(simulation->now < 1500);
	}
	free(simulation);
}

/* ---- The world: both sides and what is between them ---- */

#define RING  4  /* bytes at most */
#define QUEUE 14 /* what a side has posted and is not over */

/* What has become of it. Bits of a set. */
enum fate {
	FATE_EXECUTED = 1 << 0,  /* bytes where they belong */
	FATE_COMPLETED = 1 << 1, /* its completion, or a later one, was handled */
	FATE_SIGNALED = 1 << 2,
	FATE_ASKED = 1 << 3, /* as the module has it: a broken program may not signal it */
};

/* One work request. */
struct entry {
	uint8_t kind;
	uint8_t fate;
	union {
		struct { /* ENTRY_REQUEST; its number since the last completed one */
			uint8_t number, end, size, local, remote;
		};
		struct { /* a message; MSG_MR and MSG_DONE have only the first */
			uint8_t ready, taken, kept, received, mark;
		};
	};
};

/* A member of struct transfer that changes: a number, or a bool. */
struct field {
	size_t offset, size;
	int weight; /* in the distance from the start */
};

#define FIELD(member, weight)                                                                 \
	{                                                                                     \
		offsetof(struct transfer, member), sizeof(((struct transfer *)NULL)->member), \
			weight                                                                \
	}

/* All but the measurement of time. */
static const struct field fields[] = {
	FIELD(source.filled, 10),
	FIELD(source.told_ready, 10),
	FIELD(source.taken, 10),
	FIELD(source.kept, 10),
	FIELD(source.stream.length, 10),
	FIELD(source.told_end, 10),
	FIELD(sink.ready, 10),
	FIELD(sink.copied, 10),
	FIELD(sink.kept, 10),
	FIELD(sink.told_taken, 10),
	FIELD(sink.told_kept, 10),
	FIELD(sink.stream.length, 10),
	FIELD(sink.done, 10),
	FIELD(operation.posted, 10),
	FIELD(operation.completed, 10),
	FIELD(operation.local, 0),
	FIELD(operation.remote, 0),
	/* the following are made relative, so that more worlds are the same */
	FIELD(operation.requests_posted, 0),
	FIELD(operation.requests_completed, 0),
	FIELD(operation.unsignaled, 0),
	FIELD(credits.sent, 0),
	FIELD(credits.confirmed, 0),
	FIELD(credits.received, 0),
	FIELD(credits.told, 0),
};

/* One side, in bytes, so that worlds can be compared. */
struct side {
	uint8_t numbers[ENTRIES(fields)]; /* plus 1: 0 is LENGTH_UNKNOWN */
	uint8_t news;                     /* there are some */
	uint8_t announced;                /* MSG_MR was posted */
	uint8_t met;                      /* the peer's MSG_MR was handled */
	uint8_t done;                     /* MSG_DONE was posted */
	uint8_t filling, copying;         /* bytes that the workers have in hand */
	uint8_t filled_late;              /* the source's worker has reported the last byte */
	uint8_t entries;                  /* so many are in the queue */
	uint8_t out[RING], in[RING];      /* rings: position in the pass + 1; 0: garbage */
	struct entry queue[QUEUE];
};

struct world {
	struct side sides[2];
};

/* How the program at both sides is broken. */
enum fault {
	FAULT_NONE,
	FAULT_TAKEN_EARLY,       /* WRITE: copied is reported when the copy begins */
	FAULT_READ_EARLY,        /* READ: a completion is reported before it came */
	FAULT_ACROSS_END,        /* two requests at the end of a ring are made one */
	FAULT_READY_EARLY,       /* filled is reported when the filling begins */
	FAULT_WINDOW_BEFORE,     /* WRITE: MSG_WINDOW is posted before the WRITEs that it counts */
	FAULT_END_LOST,          /* the end mark is left out */
	FAULT_NO_WAKE_COMPLETED, /* nothing is posted after a completion */
	FAULT_NO_WAKE_WINDOW,    /* after a MSG_WINDOW */
	FAULT_NO_WAKE_FILLED,    /* after the source's worker */
	FAULT_NO_WAKE_COPIED,    /* after the sink's worker */
	FAULT_UNSIGNALED,        /* no request asks for a completion, but where depth demands it */
	FAULT_REFILL_EARLY,      /* completions that say little are taken for delivery */
	FAULT_DONE_EARLY,        /* MSG_DONE is posted before the operation is at its end */
	FAULT_NO_RESERVE,        /* the last credit is not kept for an answer */
};

/* What does not change during an exploration. Index 0 is the client, whose stream is 0. */
struct setting {
	bool writes;
	bool completes_early;
	bool both; /* two streams; else WRITE: stream 0, READ: stream 1, the client operates */
	bool unknown[2]; /* stream's length */
	bool every_pass;
	bool partial; /* workers report single bytes, too, and what is kept later than copied */
	uint8_t length[2], passes[2];
	uint8_t source_ring[2], sink_ring[2]; /* of stream 0 and 1 */
	uint8_t depth, request_size, share;
	enum fault fault;
	/* made of it */
	struct transfer templates[2][2]; /* by side and whether it has met */
};

static bool has_stream(const struct setting *setting, int stream)
{
	return setting->both || stream == (setting->writes ? 0 : 1);
}

/* Bytes of the position in all. */
static uint64_t total(const struct setting *setting, int stream)
{
	return (uint64_t)setting->length[stream] * setting->passes[stream];
}

static uint64_t announced_ring(const struct setting *setting, int stream)
{
	return setting->writes ? setting->sink_ring[stream] : setting->source_ring[stream];
}

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
};

enum occurrence {
	OCCURRENCE_START,
	OCCURRENCE_ANNOUNCE,
	OCCURRENCE_EXECUTE,
	OCCURRENCE_COMPLETE,
	OCCURRENCE_HANDLE,
	OCCURRENCE_FILLED,
	OCCURRENCE_COPIED,
	OCCURRENCE_KEPT,
	OCCURRENCE_CLOCK,
};

struct label {
	uint8_t side, occurrence, detail, kind;
};

static const char *const violation_names[] = {
	"none",
	"stuck before the end",
	"no progress towards the end",
	"the adapter carries bytes that are not what they should be",
	"the sink copies bytes that are not what they should be",
	"a work request crosses the end of a ring",
	"the peer refuses a message",
	"more posted than depth or credits allow",
	"operated after MSG_DONE",
	"ended without all bytes",
	"the module refuses what happened",
};

#include "explorer.h"

static void print_setting(const struct setting *setting)
{
	print_message("%s%s, depth %u, requests of %u, share %u\n",
		      setting->writes ? "WRITE" : "READ",
		      setting->completes_early ? " completing early" : "", setting->depth,
		      setting->request_size, setting->share);
	for (int stream = 0; stream < 2; stream++) {
		if (has_stream(setting, stream))
			print_message("  stream %d: %u bytes%s, %u passes%s, rings %u to %u\n",
				      stream, setting->length[stream],
				      setting->unknown[stream] ? " (unknown)" : "",
				      setting->passes[stream],
				      setting->every_pass ? " verified" : "",
				      setting->source_ring[stream], setting->sink_ring[stream]);
	}
}

static void print_node(const struct exploration *exploration, const struct node *node)
{
	static const char *const occurrences[] = {
		"start",
		"posts MSG_MR",
		"adapter executes",
		"completion of request ending at",
		"handles",
		"source's worker has filled",
		"sink's worker has copied",
		"sink's worker has kept up to",
		"MSG_WINDOW for its age",
	};
	static const char *const kinds[] = { "MSG_MR", "MSG_WINDOW", "MSG_DONE", "RDMA request" };
	struct label label = node->label;
	bool kind = label.occurrence == OCCURRENCE_EXECUTE || label.occurrence == OCCURRENCE_HANDLE;

	(void)exploration;
	print_message("%s: %s %s %u", label.side ? "server" : "client",
		      occurrences[label.occurrence], kind ? kinds[label.kind] : "", label.detail);
}

/* ---- struct transfer as bytes ---- */

/* Those that have not come, from number 0. */
static void unpack_signals(const struct side *side, struct transfer_operation *operation)
{
	for (int i = 0; i < side->entries; i++) {
		const struct entry *entry = &side->queue[i];

		if (entry->kind == ENTRY_REQUEST && entry->fate & FATE_ASKED &&
		    !(entry->fate & FATE_COMPLETED))
			operation->signals[operation->signals_posted++] =
				(struct transfer_signal){ entry->number, entry->end };
	}
}

static void unpack(const struct setting *setting, const struct side *side, int number,
		   struct transfer *transfer)
{
	*transfer = setting->templates[number][side->met];
	for (size_t i = 0; i < ENTRIES(fields); i++) {
		void *member = (char *)transfer + fields[i].offset;

		if (fields[i].size == sizeof(bool))
			*(bool *)member = side->numbers[i] - 1;
		else
			*(uint64_t *)member = (uint64_t)side->numbers[i] - 1;
	}
	transfer->news = side->news ? 0 : TRANSFER_NEVER;
	unpack_signals(side, &transfer->operation);
}

static void pack(struct side *side, const struct transfer *transfer)
{
	for (size_t i = 0; i < ENTRIES(fields); i++) {
		const void *member = (const char *)transfer + fields[i].offset;

		if (fields[i].size == sizeof(bool))
			side->numbers[i] = (uint8_t)(*(const bool *)member + 1);
		else
			side->numbers[i] = (uint8_t)(*(const uint64_t *)member + 1);
	}
	side->news = transfer->news != TRANSFER_NEVER;
}

#define NUMBER_OF(side, member) (*number_of((side), offsetof(struct transfer, member)))

static uint8_t *number_of(struct side *side, size_t offset)
{
	for (size_t i = 0; i < ENTRIES(fields); i++) {
		if (fields[i].offset == offset)
			return &side->numbers[i];
	}
	abort();
}

/* Counts MSG_WINDOWs of side `number` from the last one that it knows to be received. */
static void count_windows_anew(struct world *world, int number)
{
	struct side *side = &world->sides[number], *peer = &world->sides[!number];
	uint8_t base = (uint8_t)(NUMBER_OF(side, credits.confirmed) - 1);

	if (base == 0)
		return;
	NUMBER_OF(side, credits.confirmed) -= base;
	NUMBER_OF(side, credits.sent) -= base;
	NUMBER_OF(peer, credits.received) -= base;
	NUMBER_OF(peer, credits.told) -= base;
	for (int i = 0; i < peer->entries; i++) {
		if (peer->queue[i].kind == ENTRY_WINDOW)
			peer->queue[i].received -= base;
	}
}

/* Counts requests of a side from the last one that completed. */
static void count_requests_anew(struct side *side)
{
	uint8_t base = (uint8_t)(NUMBER_OF(side, operation.requests_completed) - 1);

	if (base == 0)
		return;
	NUMBER_OF(side, operation.requests_completed) -= base;
	NUMBER_OF(side, operation.requests_posted) -= base;
	for (int i = 0; i < side->entries; i++) {
		struct entry *entry = &side->queue[i];

		if (entry->kind == ENTRY_REQUEST && !(entry->fate & FATE_COMPLETED))
			entry->number -= base;
	}
}

/*
 * What a MSG_WINDOW moves weighs more than the message; one that only confirms weighs less than the
 * two that it confirms.
 */
static int distance_of_side(struct side *side)
{
	int distance = 10 * (side->announced + side->met + side->done + side->filled_late);

	for (size_t i = 0; i < ENTRIES(fields); i++)
		distance += side->numbers[i] * fields[i].weight;
	distance -= (side->filling > 0) + (side->copying > 0);
	distance -= 6 * (NUMBER_OF(side, credits.received) - NUMBER_OF(side, credits.told));
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
	struct world counted = *world;

	return distance_of_side(&counted.sides[0]) + distance_of_side(&counted.sides[1]);
}

/* Something has happened. */
static void go_to(struct exploration *exploration, struct world *world, struct label label)
{
	for (int number = 0; number < 2; number++) {
		count_windows_anew(world, number);
		count_requests_anew(&world->sides[number]);
	}
	exploration->goes_on = true;
	arrive(exploration, world, label);
}

/* ---- The program of a side, as it should be, and as it should not ---- */

/* The stream that side `number` carries, and the value of a byte of it. */
static int carried(const struct setting *setting, int number)
{
	return setting->writes ? number : !number;
}

static uint8_t value_at(const struct setting *setting, int stream, uint64_t position)
{
	return (uint8_t)(position % setting->length[stream] + 1);
}

/* Whether the piece at `position` in the sink's ring is what it should be. */
static bool is_right(const struct setting *setting, const struct side *side, int number,
		     uint64_t position, uint64_t size)
{
	for (uint64_t i = position; i < position + size; i++) {
		if (side->in[i % setting->sink_ring[!number]] != value_at(setting, !number, i))
			return false;
	}
	return true;
}

static struct entry *append(struct exploration *exploration, struct side *side,
			    enum entry_kind kind)
{
	struct entry *entry = &side->queue[side->entries];

	if (side->entries == QUEUE) {
		violate(exploration, VIOLATION_TOO_MANY);
		return &side->queue[QUEUE - 1];
	}
	side->entries++;
	memset(entry, 0, sizeof(*entry));
	entry->kind = (uint8_t)kind;
	return entry;
}

static void drop(struct side *side, int place)
{
	side->entries--;
	memmove(&side->queue[place], &side->queue[place + 1],
		(size_t)(side->entries - place) * sizeof(side->queue[0]));
	memset(&side->queue[side->entries], 0, sizeof(side->queue[0]));
}

/* Where a request of `number` puts bytes: the peer's ring, or its own. */
static uint8_t *destination(const struct setting *setting, struct world *world, int number,
			    const struct entry *entry)
{
	if (setting->writes)
		return world->sides[!number].in + entry->remote;
	return world->sides[number].in + entry->local;
}

static const uint8_t *origin(const struct setting *setting, const struct world *world, int number,
			     const struct entry *entry)
{
	if (setting->writes)
		return world->sides[number].out + entry->local;
	return world->sides[!number].out + entry->remote;
}

static bool crosses(const struct setting *setting, int number, const struct entry *entry)
{
	int stream = carried(setting, number);
	int local = setting->writes ? setting->source_ring[stream] : setting->sink_ring[stream];
	int remote = setting->writes ? setting->sink_ring[stream] : setting->source_ring[stream];

	return entry->local + entry->size > local || entry->remote + entry->size > remote;
}

/* Posts one request: from now on its destination may be written to. */
static void post_request(struct exploration *exploration, struct world *world, int number,
			 const struct transfer *transfer, const struct transfer_run *request)
{
	const struct setting *setting = exploration->setting;
	struct side *side = &world->sides[number];
	struct entry *entry = append(exploration, side, ENTRY_REQUEST);

	entry->number = (uint8_t)transfer->operation.requests_posted;
	entry->end = (uint8_t)transfer->operation.posted;
	entry->size = (uint8_t)request->size;
	entry->local = (uint8_t)request->local;
	entry->remote = (uint8_t)request->remote;
	if (request->signaled)
		entry->fate = FATE_ASKED;
	if (request->signaled && setting->fault != FAULT_UNSIGNALED)
		entry->fate |= FATE_SIGNALED;
	if (side->done)
		violate(exploration, VIOLATION_AFTER_DONE);
	if (transfer->operation.requests_posted - transfer->operation.requests_completed >
	    setting->depth)
		violate(exploration, VIOLATION_TOO_MANY);
	if (crosses(setting, number, entry))
		violate(exploration, VIOLATION_OUT_OF_BOUNDS);
	else
		memset(destination(setting, world, number, entry), 0, request->size);
}

static void post_requests(struct exploration *exploration, struct world *world, int number,
			  struct transfer *transfer)
{
	struct transfer_run request, more;

	while (exploration->violation == VIOLATION_NONE && transfer_next(transfer, 1, &request)) {
		struct transfer saved = *transfer;

		if (exploration->setting->fault == FAULT_ACROSS_END &&
		    transfer_next(transfer, 1, &more)) {
			if (more.local == 0 || more.remote == 0)
				request.size += more.size;
			else
				*transfer = saved;
		}
		post_request(exploration, world, number, transfer, &request);
	}
}

static void post_window(struct exploration *exploration, struct side *side,
			struct transfer *transfer, int64_t now)
{
	const struct setting *setting = exploration->setting;
	struct window window;
	struct entry *entry;

	if (!side->announced || (side->done && all_is_kept(transfer)) ||
	    !take_window(transfer, now, &window))
		return;
	entry = append(exploration, side, ENTRY_WINDOW);
	entry->ready = (uint8_t)window.ready;
	entry->taken = (uint8_t)window.taken;
	entry->kept = (uint8_t)window.kept;
	entry->received = (uint8_t)window.received;
	entry->mark = setting->fault != FAULT_END_LOST && window.end;
	if (transfer->credits.sent - transfer->credits.confirmed > transfer->plan.credits)
		violate(exploration, VIOLATION_TOO_MANY);
}

static void post_done(struct exploration *exploration, struct side *side, struct transfer *transfer)
{
	bool due = transfer_done_due(transfer);

	if (exploration->setting->fault == FAULT_DONE_EARLY && transfer->sink.stream.plan.present)
		due = transfer->operation.posted == transfer->sink.stream.length;
	if (!side->met || side->done || !side->announced || !due)
		return;
	side->done = 1;
	append(exploration, side, ENTRY_DONE)->ready = (uint8_t)transfer_done(transfer);
}

/* What a side does after every event. */
static void drive(struct exploration *exploration, struct world *world, int number,
		  struct transfer *transfer)
{
	struct side *side = &world->sides[number];
	uint8_t before = side->entries;

	if (side->met && side->announced)
		post_requests(exploration, world, number, transfer);
	post_window(exploration, side, transfer, 0);
	if (exploration->setting->fault == FAULT_WINDOW_BEFORE && side->entries > before &&
	    side->queue[side->entries - 1].kind == ENTRY_WINDOW) {
		struct entry window = side->queue[side->entries - 1];

		memmove(&side->queue[before + 1], &side->queue[before],
			(size_t)(side->entries - 1 - before) * sizeof(window));
		side->queue[before] = window;
	}
	post_done(exploration, side, transfer);
}

/* The source's worker takes a piece as soon as there is one: its memory is garbage from now on. */
static void begin_to_fill(struct exploration *exploration, struct world *world, int number,
			  struct transfer *transfer)
{
	const struct setting *setting = exploration->setting;
	struct side *side = &world->sides[number];
	struct piece piece;
	uint64_t left = total(setting, number) - transfer->source.filled;

	if (side->filling || !transfer_fill(transfer, &piece))
		return;
	side->filling = (uint8_t)(piece.size < left ? piece.size : left); /* pipes do not know */
	memset(&side->out[piece.offset], 0, side->filling);
	if (setting->fault == FAULT_READY_EARLY && side->filling) {
		transfer_filled(transfer, side->filling);
		drive(exploration, world, number, transfer);
	}
}

/* So does the sink's, and what it takes must be right from now on. */
static void begin_to_copy(struct exploration *exploration, struct world *world, int number,
			  struct transfer *transfer)
{
	struct side *side = &world->sides[number];
	struct piece piece;

	if (side->copying || !transfer_copy(transfer, &piece))
		return;
	side->copying = (uint8_t)piece.size;
	if (!is_right(exploration->setting, side, number, piece.position, piece.size))
		violate(exploration, VIOLATION_READ_EARLY);
	if (exploration->setting->fault == FAULT_TAKEN_EARLY) {
		transfer_copied(transfer, piece.size);
		drive(exploration, world, number, transfer);
	}
}

/* After an event, which wakes the program up unless it is broken there. */
static void settle(struct exploration *exploration, struct world *world, int number,
		   struct transfer *transfer, enum fault unless, struct label label)
{
	if (unless == FAULT_NONE || exploration->setting->fault != unless) {
		drive(exploration, world, number, transfer);
		begin_to_fill(exploration, world, number, transfer);
		begin_to_copy(exploration, world, number, transfer);
	}
	pack(&world->sides[number], transfer);
	go_to(exploration, world, label);
}

/* ---- What can happen next: the adapter ---- */

/* Whether the adapter may execute the request at `place`, or deliver the message. */
static bool can_execute(const struct setting *setting, const struct side *side, int place)
{
	bool message = side->queue[place].kind != ENTRY_REQUEST;

	if (side->queue[place].fate & FATE_EXECUTED)
		return false;
	for (int i = 0; i < place; i++) {
		bool earlier_message = side->queue[i].kind != ENTRY_REQUEST;

		/* what follows a message may be executed before that one is handled */
		if (earlier_message ? message
				    : !(side->queue[i].fate & FATE_EXECUTED) &&
					      (setting->writes || !message))
			return false;
	}
	return true;
}

static void carry(struct exploration *exploration, struct world *world, int number,
		  const struct entry *entry)
{
	const struct setting *setting = exploration->setting;
	int stream = carried(setting, number);
	uint64_t position = (uint64_t)entry->end - entry->size;
	const uint8_t *from = origin(setting, world, number, entry);
	uint8_t *to = destination(setting, world, number, entry);

	if (!setting->writes && world->sides[number].done)
		violate(exploration, VIOLATION_AFTER_DONE);
	for (int i = 0; i < entry->size; i++) {
		to[i] = value_at(setting, stream, position + (uint64_t)i);
		if (from[i] != to[i])
			violate(exploration, VIOLATION_OVERWRITTEN);
	}
}

static void executions(struct exploration *exploration, const struct world *world, int number)
{
	const struct side *side = &world->sides[number];

	for (int place = 0; place < side->entries; place++) {
		struct world next = *world;
		struct entry *entry = &next.sides[number].queue[place];
		struct label label = { (uint8_t)number, OCCURRENCE_EXECUTE, entry->end,
				       entry->kind };

		if (entry->kind != ENTRY_REQUEST || !can_execute(exploration->setting, side, place))
			continue;
		entry->fate |= FATE_EXECUTED;
		carry(exploration, &next, number, entry);
		if (entry->fate & FATE_COMPLETED)
			drop(&next.sides[number], place);
		go_to(exploration, &next, label);
		return;
	}
}

/* Whether a completion of the request at `place` may come. */
static bool can_complete(const struct setting *setting, const struct side *side, int place)
{
	const struct entry *entry = &side->queue[place];
	bool early =
		(setting->completes_early && setting->writes) || setting->fault == FAULT_READ_EARLY;

	return entry->kind == ENTRY_REQUEST && entry->fate & FATE_SIGNALED &&
	       !(entry->fate & FATE_COMPLETED) && (early || entry->fate & FATE_EXECUTED);
}

/* The first completion that has not come stands for all requests before it. */
static void completions(struct exploration *exploration, const struct world *world, int number)
{
	const struct setting *setting = exploration->setting;
	const struct side *side = &world->sides[number];
	struct label label = { (uint8_t)number, OCCURRENCE_COMPLETE, 0, ENTRY_REQUEST };
	struct world next = *world;
	const struct entry *entry;
	struct transfer transfer;
	struct side *changed;
	int place = 0;

	while (place < side->entries && !(side->queue[place].kind == ENTRY_REQUEST &&
					  side->queue[place].fate & FATE_SIGNALED &&
					  !(side->queue[place].fate & FATE_COMPLETED)))
		place++;
	if (place == side->entries || !can_complete(setting, side, place))
		return;
	entry = &side->queue[place];
	changed = &next.sides[number];
	label.detail = entry->end;
	unpack(setting, changed, number, &transfer);
	if (!transfer_completed(&transfer, entry->number, 0))
		violate(exploration, VIOLATION_MODULE);
	for (int i = place; i >= 0; i--) {
		if (changed->queue[i].kind != ENTRY_REQUEST)
			continue;
		changed->queue[i].fate |= FATE_COMPLETED;
		changed->queue[i].number = 0;
		if (changed->queue[i].fate & FATE_EXECUTED)
			drop(changed, i);
	}
	settle(exploration, &next, number, &transfer, FAULT_NO_WAKE_COMPLETED, label);
}

/* ---- What can happen next: messages ---- */

static void judge_done(struct exploration *exploration, const struct world *world, int number)
{
	const struct setting *setting = exploration->setting;
	const struct side *peer = &world->sides[!number];

	if (!has_stream(setting, carried(setting, !number)))
		return;
	for (int i = 0; i < peer->entries; i++) {
		if (peer->queue[i].kind == ENTRY_REQUEST && !(peer->queue[i].fate & FATE_EXECUTED))
			violate(exploration, VIOLATION_AFTER_DONE);
	}
}

static const char *handle(struct exploration *exploration, struct world *world, int number,
			  const struct entry *entry, struct transfer *transfer)
{
	const struct setting *setting = exploration->setting;
	struct window window = {
		.ready = entry->ready,
		.taken = entry->taken,
		.kept = entry->kept,
		.received = entry->received,
		.end = entry->mark,
	};

	switch (entry->kind) {
	case ENTRY_MR:
		world->sides[number].met = 1;
		return transfer_peer_region(
			transfer, announced_ring(setting, carried(setting, number)), window.ready);
	case ENTRY_WINDOW:
		return transfer_accept(transfer, &window);
	default:
		judge_done(exploration, world, number);
		return transfer_accept_done(transfer, window.ready);
	}
}

static void receptions(struct exploration *exploration, const struct world *world, int number)
{
	const struct side *peer = &world->sides[!number];
	struct world next = *world;
	struct transfer transfer;
	struct entry entry;
	const char *refusal;
	struct label label = { (uint8_t)number, OCCURRENCE_HANDLE, 0, 0 };
	int place = 0;

	while (place < peer->entries && peer->queue[place].kind == ENTRY_REQUEST)
		place++;
	if (place == peer->entries || !can_execute(exploration->setting, peer, place))
		return;
	entry = peer->queue[place];
	label.kind = entry.kind;
	label.detail = entry.ready;
	drop(&next.sides[!number], place);
	unpack(exploration->setting, &world->sides[number], number, &transfer);
	refusal = handle(exploration, &next, number, &entry, &transfer);
	if (refusal) {
		violate(exploration, VIOLATION_REFUSED);
		print_message("refused, it %s\n", refusal);
	}
	settle(exploration, &next, number, &transfer,
	       entry.kind == ENTRY_WINDOW ? FAULT_NO_WAKE_WINDOW : FAULT_NONE, label);
}

static void announcements(struct exploration *exploration, const struct world *world, int number)
{
	struct world next = *world;
	struct side *side = &next.sides[number];
	struct transfer transfer;
	struct label label = { (uint8_t)number, OCCURRENCE_ANNOUNCE, 0, ENTRY_MR };

	/* the server's MSG_MR comes second */
	if (side->announced || (number == 1 && !side->met))
		return;
	unpack(exploration->setting, side, number, &transfer);
	side->announced = 1;
	append(exploration, side, ENTRY_MR)->ready = (uint8_t)transfer_announce(&transfer);
	settle(exploration, &next, number, &transfer, FAULT_NONE, label);
}

static void clock_ticks(struct exploration *exploration, const struct world *world, int number)
{
	struct world next = *world;
	struct side *side = &next.sides[number];
	struct transfer transfer;
	struct label label = { (uint8_t)number, OCCURRENCE_CLOCK, 0, ENTRY_WINDOW };

	/* a program that is not woken up does not set its timer */
	if (exploration->setting->fault >= FAULT_NO_WAKE_COMPLETED &&
	    exploration->setting->fault <= FAULT_NO_WAKE_COPIED)
		return;
	unpack(exploration->setting, side, number, &transfer);
	post_window(exploration, side, &transfer, TRANSFER_MILLISECONDS);
	if (side->entries > world->sides[number].entries)
		settle(exploration, &next, number, &transfer, FAULT_NONE, label);
}

/* ---- What can happen next: workers ---- */

/* What the worker has reported before its time. */
static uint64_t ahead(const struct setting *setting, enum fault fault, uint8_t size)
{
	return setting->fault == fault ? size : 0;
}

/* It reports `size` bytes, and the end with the last one or, if nobody knows the length, later. */
static void fill(struct exploration *exploration, const struct world *world, int number,
		 uint8_t size, bool end)
{
	const struct setting *setting = exploration->setting;
	struct world next = *world;
	struct side *side = &next.sides[number];
	uint64_t early = ahead(setting, FAULT_READY_EARLY, side->filling);
	struct label label = { (uint8_t)number, OCCURRENCE_FILLED, size, end };
	struct transfer transfer;

	unpack(setting, side, number, &transfer);
	for (uint64_t i = transfer.source.filled - early; i < transfer.source.filled - early + size;
	     i++)
		side->out[i % setting->source_ring[number]] = value_at(setting, number, i);
	side->filling = 0;
	side->filled_late = end;
	transfer_filled(&transfer, size - early);
	if (end)
		transfer_end_source(&transfer);
	settle(exploration, &next, number, &transfer, FAULT_NO_WAKE_FILLED, label);
}

static void fillings(struct exploration *exploration, const struct world *world, int number)
{
	const struct setting *setting = exploration->setting;
	const struct side *side = &world->sides[number];
	bool early = setting->fault == FAULT_READY_EARLY;
	uint8_t size = side->filling;
	struct transfer transfer;
	bool last;

	if (!has_stream(setting, number))
		return;
	unpack(setting, side, number, &transfer);
	last = setting->unknown[number] && !side->filled_late &&
	       transfer.source.filled + (early ? 0 : size) == total(setting, number);
	if (size > 0)
		fill(exploration, world, number, size, false);
	if (last)
		fill(exploration, world, number, size, true);
	if (size > 1 && setting->partial && !early)
		fill(exploration, world, number, 1, false);
}

static void copyings(struct exploration *exploration, const struct world *world, int number)
{
	const struct setting *setting = exploration->setting;
	uint8_t whole = world->sides[number].copying;
	uint64_t early = ahead(setting, FAULT_TAKEN_EARLY, whole);

	for (uint8_t size = whole; size > 0;
	     size = size > 1 && setting->partial && !early ? 1 : 0) {
		struct world next = *world;
		struct side *side = &next.sides[number];
		struct label label = { (uint8_t)number, OCCURRENCE_COPIED, size, 0 };
		struct transfer transfer;

		unpack(setting, side, number, &transfer);
		if (!is_right(setting, side, number, transfer.sink.copied - early, size))
			violate(exploration, VIOLATION_READ_EARLY);
		side->copying = 0;
		transfer_copied(&transfer, size - early);
		if (!setting->partial)
			transfer_kept(&transfer, transfer.sink.copied);
		settle(exploration, &next, number, &transfer, FAULT_NO_WAKE_COPIED, label);
	}
}

static void keepings(struct exploration *exploration, const struct world *world, int number)
{
	struct world next = *world;
	struct transfer transfer;
	struct label label = { (uint8_t)number, OCCURRENCE_KEPT, 0, 0 };

	unpack(exploration->setting, &world->sides[number], number, &transfer);
	if (transfer.sink.kept == transfer.sink.copied)
		return;
	label.detail = (uint8_t)transfer.sink.copied;
	transfer_kept(&transfer, transfer.sink.copied);
	settle(exploration, &next, number, &transfer, FAULT_NONE, label);
}

/* ---- Exploring ---- */

/* Nothing can happen any more: both sides must have all. */
static void judge_ending(struct exploration *exploration, const struct world *world)
{
	const struct setting *setting = exploration->setting;

	for (int number = 0; number < 2; number++) {
		const struct side *side = &world->sides[number];
		struct transfer transfer;
		uint64_t expected;

		unpack(setting, side, number, &transfer);
		expected = transfer.sink.stream.repeats ? setting->length[!number]
							: total(setting, !number);
		if (!side->done || !all_is_kept(&transfer))
			violate_here(exploration, VIOLATION_STUCK);
		else if (has_stream(setting, !number) && transfer.sink.kept != expected)
			violate_here(exploration, VIOLATION_LOST);
	}
}

static void make_successors(struct exploration *exploration, const struct world *world)
{
	for (int number = 0; number < 2; number++) {
		announcements(exploration, world, number);
		executions(exploration, world, number);
		completions(exploration, world, number);
		receptions(exploration, world, number);
		fillings(exploration, world, number);
		copyings(exploration, world, number);
		keepings(exploration, world, number);
		clock_ticks(exploration, world, number);
	}
	if (!exploration->goes_on)
		judge_ending(exploration, world);
}

static struct stream_plan plan_stream(const struct setting *setting, int stream, bool outgoing)
{
	return (struct stream_plan){
		.present = has_stream(setting, stream),
		.every_pass = setting->every_pass,
		.length = setting->unknown[stream] ? LENGTH_UNKNOWN : setting->length[stream],
		.passes = setting->passes[stream],
		.ring = outgoing ? setting->source_ring[stream] : setting->sink_ring[stream],
	};
}

static void make_templates(struct setting *setting)
{
	for (int number = 0; number < 2; number++) {
		struct transfer_plan plan = {
			.writes = setting->writes,
			.completes_early =
				setting->completes_early && setting->fault != FAULT_REFILL_EARLY,
			.depth = setting->depth,
			.request_size = setting->request_size,
			.credits = 3,
			.answer = setting->fault == FAULT_NO_RESERVE ? 3 : 2,
			.share = setting->share,
			.outgoing = plan_stream(setting, number, true),
			.incoming = plan_stream(setting, !number, false),
		};
		struct transfer *templates = setting->templates[number];

		transfer_init(&templates[0], &plan);
		templates[1] = templates[0];
		transfer_peer_region(&templates[1],
				     announced_ring(setting, carried(setting, number)), 0);
	}
}

/* Visits everything that can happen with this setting; false if there was a violation. */
static bool explore(struct exploration *exploration, struct setting *setting)
{
	struct world start;

	make_templates(setting);
	memset(&start, 0, sizeof(start));
	exploration->setting = setting;
	exploration->violation = VIOLATION_NONE;
	for (int number = 0; number < 2; number++) {
		struct transfer transfer = setting->templates[number][0];

		begin_to_fill(exploration, &start, number, &transfer);
		pack(&start.sides[number], &transfer);
	}
	return explore_from(exploration, setting, &start);
}

static void must_hold(struct exploration *exploration, struct setting setting)
{
	if (explore(exploration, &setting))
		return;
	print_history(exploration);
	fail();
}

/* Both operations with everything else the same, and WRITE with completions that say little. */
static void must_hold_for_all(struct exploration *exploration, struct setting setting)
{
	setting.writes = false;
	must_hold(exploration, setting);
	setting.writes = true;
	must_hold(exploration, setting);
	setting.completes_early = true;
	must_hold(exploration, setting);
}

/* ---- Exploring: what must hold ---- */

/* Both streams alike. */
static struct setting alike(int length, bool unknown, int source_ring, int sink_ring)
{
	struct setting setting = { .depth = 2, .request_size = 2, .share = 4, .passes = { 1, 1 } };

	for (int stream = 0; stream < 2; stream++) {
		setting.length[stream] = (uint8_t)length;
		setting.unknown[stream] = unknown;
		setting.source_ring[stream] = (uint8_t)source_ring;
		setting.sink_ring[stream] = (uint8_t)sink_ring;
	}
	return setting;
}

TEST(streams_one_way_arrive_in_every_order_of_events)
{
	struct exploration exploration = { 0 };

	for (int kind = 0; kind < 2 * 16 * 10; kind++) {
		int source = 1 + kind / 8 % 4, sink = 1 + kind / 2 % 4, length = kind / 32;
		struct setting setting = alike(length, kind % 2, source, sink);

		/* single bytes and late keeping make many more worlds: not where there are many */
		setting.partial = length <= 2 || source + sink <= 3;
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration);
}

/* Known and unknown, through rings that are not alike. */
TEST(streams_both_ways_arrive_in_every_order_of_events)
{
	static const uint8_t rings[][4] = {
		{ 1, 1, 2, 1 }, { 1, 2, 1, 1 }, { 3, 2, 1, 2 }, { 2, 4, 4, 1 }, { 1, 1, 1, 2 }
	};
	/* through the last ones streams that are long enough to run out of credits */
	static const uint8_t long_ones[][2] = { { 9, 1 }, { 4, 4 } };
	struct exploration exploration = { 0 };

	for (int kind = 0; kind < 4 * (4 * 9 + 2); kind++) {
		int number = kind / 4, ring = number < 36 ? number / 9 : 4;
		struct setting setting = alike(0, false, rings[ring][0], rings[ring][1]);

		setting.both = true;
		setting.length[0] =
			(uint8_t)(number < 36 ? number % 9 / 3 : long_ones[number - 36][0]);
		setting.length[1] = (uint8_t)(number < 36 ? number % 3 : long_ones[number - 36][1]);
		setting.unknown[0] = kind & 1;
		setting.unknown[1] = kind & 2;
		setting.source_ring[1] = rings[ring][2];
		setting.sink_ring[1] = rings[ring][3];
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration);
}

/* Payloads that repeat, through own rings of any length, and streams of verified passes. */
TEST(passes_arrive_in_every_order_of_events)
{
	struct exploration exploration = { 0 };

	for (int kind = 0; kind < 3 * 2 * 16; kind++) {
		struct setting setting =
			alike(1 + kind / 32, false, 1 + kind / 4 % 4, 1 + kind % 4);

		setting.passes[0] = setting.passes[1] = 3;
		setting.every_pass = kind & 16;
		must_hold_for_all(&exploration, setting);
		setting.depth = 8; /* two requests for each completion */
		setting.request_size = 1;
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration);
}

/* Selective signaling, depths between, moves too small to report. */
TEST(streams_arrive_with_other_numbers_too)
{
	static const uint8_t depths[] = { 1, 3, 8, 5 };
	struct exploration exploration = { 0 };

	for (int kind = 0; kind < 128; kind++) {
		struct setting setting =
			alike(3 + 2 * (kind & 1), kind & 2, kind & 32 ? 4 : 3, kind & 16 ? 4 : 2);

		setting.depth = depths[kind >> 2 & 3];
		setting.request_size = kind & 8 ? 1 : 3;
		setting.share = kind & 64 ? 1 : 2;
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration);
}

/* ---- Exploring: programs that use it wrongly ---- */

TEST(every_break_is_found)
{
	static const struct {
		const char *name;
		enum fault fault;
		bool writes, unknown, both;
		uint8_t length;
		enum violation violation; /* the shortest one */
	} cases[] = {
		/* clang-format off */
		{ "`taken` before the copy", FAULT_TAKEN_EARLY, 1, 0, 0, 7, VIOLATION_READ_EARLY },
		{ "`taken` before the READ", FAULT_READ_EARLY, 0, 0, 0, 7, VIOLATION_READ_EARLY },
		{ "a request across the end", FAULT_ACROSS_END, 1, 0, 0, 7, VIOLATION_OUT_OF_BOUNDS },
		{ "a request across the end", FAULT_ACROSS_END, 0, 0, 0, 7, VIOLATION_OUT_OF_BOUNDS },
		{ "`ready` before it is filled", FAULT_READY_EARLY, 1, 0, 0, 7, VIOLATION_OVERWRITTEN },
		{ "`ready` before it is filled", FAULT_READY_EARLY, 0, 0, 0, 7, VIOLATION_OVERWRITTEN },
		{ "`ready` before the WRITE", FAULT_WINDOW_BEFORE, 1, 0, 0, 7, VIOLATION_READ_EARLY },
		{ "the end mark is lost", FAULT_END_LOST, 1, 1, 0, 7, VIOLATION_REFUSED },
		{ "the end mark is lost", FAULT_END_LOST, 0, 1, 0, 7, VIOLATION_REFUSED },
		{ "no wake-up by a completion", FAULT_NO_WAKE_COMPLETED, 1, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by a completion", FAULT_NO_WAKE_COMPLETED, 0, 0, 0, 2, VIOLATION_STUCK },
		{ "no wake-up by MSG_WINDOW", FAULT_NO_WAKE_WINDOW, 1, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by MSG_WINDOW", FAULT_NO_WAKE_WINDOW, 0, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by the source", FAULT_NO_WAKE_FILLED, 1, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by the source", FAULT_NO_WAKE_FILLED, 0, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by the sink", FAULT_NO_WAKE_COPIED, 1, 0, 0, 7, VIOLATION_STUCK },
		{ "no wake-up by the sink", FAULT_NO_WAKE_COPIED, 0, 0, 0, 7, VIOLATION_STUCK },
		{ "requests are not signaled", FAULT_UNSIGNALED, 1, 0, 0, 7, VIOLATION_STUCK },
		{ "requests are not signaled", FAULT_UNSIGNALED, 0, 0, 0, 7, VIOLATION_STUCK },
		{ "refilled by completion, iWARP", FAULT_REFILL_EARLY, 1, 0, 0, 7, VIOLATION_OVERWRITTEN },
		{ "MSG_DONE before the end", FAULT_DONE_EARLY, 0, 0, 0, 7, VIOLATION_AFTER_DONE },
		{ "no credit for an answer", FAULT_NO_RESERVE, 1, 0, 1, 5, VIOLATION_STUCK },
		{ "no credit for an answer", FAULT_NO_RESERVE, 0, 0, 1, 5, VIOLATION_STUCK },
		/* clang-format on */
	};
	struct exploration exploration = { 0 };

	for (size_t i = 0; i < ENTRIES(cases); i++) {
		struct setting setting = alike(cases[i].length, cases[i].unknown, 3, 2);

		setting.writes = cases[i].writes;
		setting.both = cases[i].both;
		setting.completes_early = cases[i].fault == FAULT_REFILL_EARLY;
		if (!cases[i].both)
			must_hold(&exploration, setting);
		setting.fault = cases[i].fault;
		print_message("%s: ", cases[i].name);
		assert_false(explore(&exploration, &setting));
		print_history(&exploration);
		assert_int_equal(exploration.violation, cases[i].violation);
	}
	finish(&exploration);
}

RUN_TESTS(NULL, NULL, NULL)
