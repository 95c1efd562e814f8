// SPDX-License-Identifier: MIT
/*
 * Explore every order of events in which two sides can exchange short streams through tiny rings.
 *
 * The exploration runs two sides against each other, with everything that verbs and helpers may do
 * in between. A helper fills the source's ring, or copies out of the sink's. That allows more than
 * the programs do, whose helpers never touch a ring. Each byte of each ring is modeled: it is
 * garbage while an adapter or a helper may be writing it.
 *
 * The model assumes this of the transport, and nothing more:
 * - WRITEs and messages are executed in the order of posting; READs in order among themselves, and
 *   messages among themselves, but a message may overtake a READ;
 * - the destination of a WRITE or READ holds garbage from the posting until the execution; a source
 *   in memory is read at the execution;
 * - a completion comes at any time after the execution; over iWARP, a WRITE may complete as soon as
 *   it is posted. Only signaled requests get a completion, which stands for all earlier requests;
 * - messages that arrived are handled in order, at any later time, in any order relative to
 *   completions and helpers;
 * - a helper takes a piece as soon as there is one, accesses it at any time until its report, and
 *   reports the whole piece or its first byte.
 *
 * The exploration also runs with deliberate mistakes, to show that it finds violations.
 */
#include "rdma-common/transfer.h"

#include "unit.h"
#include "transfer-side.h"

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
	uint8_t advertised;       /* MSG_MR was posted */
	uint8_t met;              /* the peer's MSG_MR was handled */
	uint8_t done;             /* MSG_DONE was posted */
	uint8_t filling, copying; /* bytes of the helpers' current pieces */
	uint8_t filled_late;      /* the source's helper has reported the end of a pipe */
	uint8_t entries;          /* number of entries in the queue */
	uint8_t out[RING],
		in[RING]; /* bytes of the rings: position in the pass + 1. 0 is garbage. */
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
	FAULTS
};

/* The settings of an exploration. Index 0 is the client, the source of stream 0. */
struct setting {
	bool writes;
	bool completes_early;
	bool both; /* both streams; else the one that the client operates on: WRITE 0, READ 1 */
	bool unknown[2]; /* the length of each stream is unknown in advance */
	bool partial;    /* helpers also report single bytes, and store later than they copy */
	uint8_t length[2], passes[2];
	uint8_t source_ring[2], sink_ring[2]; /* bytes, for streams 0 and 1 */
	uint8_t depth, request_size;
	uint8_t threshold; /* bytes of progress to report at once. 0: a quarter of a ring. */
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
 * Return the size of the advertised ring that side `number` operates on; with FAULT_ACROSS_END, one
 * byte more.
 */
static uint64_t advertised_ring(int number)
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
	print_message("%s%s, depth %u, requests of %u\n", setting.writes ? "WRITE" : "READ",
		      setting.completes_early ? " completing early" : "", setting.depth,
		      setting.request_size);
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
	peer->transfer.credits.reported -= windows;
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
	uint64_t moved = source->filled + source->reported_produced + source->consumed +
			 source->stored + sink->produced + sink->copied + sink->stored +
			 sink->reported_consumed + sink->reported_stored + operation->posted +
			 operation->completed;
	int distance = 10 * (int)(moved + source->reported_end + sink->done + side->advertised +
				  side->met + side->done + side->filled_late);

	/* learning the end is progress */
	distance += source->stream.length == LENGTH_UNKNOWN ? 0 : 10;
	distance += sink->stream.length == LENGTH_UNKNOWN ? 0 : 10;
	distance -= (side->filling > 0) + (side->copying > 0);
	distance -= 6 * (int)(credits->received - credits->reported);
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
	       transfer_take_run(&world->sides[number].transfer, 1, &request))
		post_request(world, number, &request);
}

static void post_window(struct world *world, int number, int64_t now)
{
	const struct side *side = &world->sides[number];
	struct transfer *transfer = &world->sides[number].transfer;
	struct window window;
	struct entry *entry;

	if (!side->advertised || (side->done && everything_is_stored(transfer)) ||
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
	bool due = transfer_done_is_due(transfer);

	if (setting.fault == FAULT_DONE_EARLY && transfer->sink.stream.plan.present)
		due = transfer->operation.posted == transfer->sink.stream.length;
	if (!side->met || side->done || !side->advertised || !due)
		return;
	side->done = 1;
	append_entry(world, number, ENTRY_DONE)->produced = (uint8_t)transfer_record_done(transfer);
}

/* Post everything that is due after an event. */
static void drive(struct world *world, int number)
{
	const struct side *side = &world->sides[number];

	if (side->met && side->advertised)
		post_requests(world, number);
	post_window(world, number, 0);
	post_done(world, number);
}

/* Give the source's helper the next piece, if there is one: its memory is garbage from now on. */
static void begin_to_fill(struct world *world, int number)
{
	struct side *side = &world->sides[number];
	struct transfer *transfer = &side->transfer;
	uint64_t left = total(number) - transfer->source.filled;
	struct piece piece;

	if (side->filling || !transfer_next_fill(transfer, &piece))
		return;
	if (piece.offset + piece.size > setting.source_ring[number])
		violate(VIOLATION_OUT_OF_BOUNDS);
	side->filling = (uint8_t)(piece.size < left ? piece.size : left); /* a pipe may end */
	memset(&side->out[piece.offset], 0, side->filling);
}

/* Give the sink's helper the next piece, if there is one: its bytes must be right from now on. */
static void begin_to_copy(struct world *world, int number)
{
	struct side *side = &world->sides[number];
	struct transfer *transfer = &side->transfer;
	struct piece piece;

	if (side->copying || !transfer_next_copy(transfer, &piece))
		return;
	if (piece.offset + piece.size > setting.sink_ring[!number])
		violate(VIOLATION_OUT_OF_BOUNDS);
	side->copying = (uint8_t)piece.size;
	if (!is_right(world, number, piece.position, piece.size))
		violate(VIOLATION_READ_EARLY);
	if (setting.fault == FAULT_TAKEN_EARLY) {
		transfer_record_copied(transfer, piece.size);
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
	if (!transfer_record_completed(&next.sides[number].transfer, queue[place].number, 0))
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

/* A quarter of such a short ring is a byte, so that any progress would be reported at once. */
static void set_threshold(struct transfer *transfer)
{
	if (!setting.threshold)
		return;
	transfer->source.stream.quarter = setting.threshold;
	transfer->sink.stream.quarter = setting.threshold;
}

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
		refusal =
			transfer_accept_region(transfer, advertised_ring(number), window.produced);
		set_threshold(transfer);
		transfer->operation.grows = false; /* the model has no clock to measure with */
		return refusal;
	case ENTRY_WINDOW:
		return transfer_accept_window(transfer, &window);
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

static void advertisements(const struct world *before, int number)
{
	const struct side *side = &before->sides[number];
	struct world next;

	/* the server posts MSG_MR after it has received the client's */
	if (side->advertised || (number == 1 && !side->met))
		return;
	next = *before;
	next.sides[number].advertised = 1;
	append_entry(&next, number, ENTRY_MR)->produced =
		(uint8_t)transfer_advertise(&next.sides[number].transfer);
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

/* ---- Possible events: helpers ---- */

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
	transfer_record_filled(transfer, size);
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
	transfer_record_copied(transfer, size - ahead);
	if (!setting.partial)
		transfer_record_stored(transfer, size - ahead);
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
	const struct transfer_sink *sink = &before->sides[number].transfer.sink;
	uint64_t copied = sink->copied;
	struct world next;

	if (sink->stored == copied)
		return;
	next = *before;
	transfer_record_stored(&next.sides[number].transfer, copied - sink->stored);
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
		advertisements, executions, completions, receptions,
		fillings,       copyings,   storings,    clock_ticks,
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
		set_threshold(&start.sides[number].transfer);
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
	setting = (struct setting){ .depth = 2, .request_size = 2, .passes = { 1, 1 } };
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

/* Vary the depth, the requests per completion, and the progress that is reported at once. */
TEST(streams_arrive_with_various_depths_and_report_thresholds)
{
	static const uint8_t depths[] = { 1, 3, 8 };

	for (int kind = 0; kind < 32 * 3; kind++) {
		int source = kind & 8 ? 4 : 3, sink = kind & 4 ? 4 : 2;
		int shorter = source < sink ? source : sink;

		set_alike(3 + 2 * (kind & 1), kind & 2, source, sink);
		setting.threshold = (uint8_t)(kind & 16 ? shorter : shorter / 2);
		setting.depth = depths[kind / 32];
		setting.request_size = setting.depth == 8 && !(kind & 1) ? 1 : 3;
		must_hold();
	}
	finish();
}

/* ---- Exploring: programs that use the module wrongly ---- */

enum {
	READS = 1,
	WRITES = 2,
	UNKNOWN = 4
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
	[FAULT_ACROSS_END] = { "the advertised ring is assumed to be too long", READS | WRITES, VIOLATION_OUT_OF_BOUNDS },
	[FAULT_READY_EARLY] = { "bytes are reported as filled before they are", READS | WRITES, VIOLATION_OVERWRITTEN },
	[FAULT_OVERTAKEN] = { "MSG_WINDOW overtakes the WRITEs that it counts", WRITES, VIOLATION_READ_EARLY },
	[FAULT_END_LOST] = { "the end of the stream is not marked", READS | WRITES | UNKNOWN, VIOLATION_REFUSED },
	[FAULT_NO_WAKE_COMPLETED] = { "nothing is posted after a completion", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_WINDOW] = { "nothing is posted after a MSG_WINDOW", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_FILLED] = { "nothing is posted after the source's helper reports", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_WAKE_COPIED] = { "nothing is posted after the sink's helper reports", READS | WRITES, VIOLATION_STUCK },
	[FAULT_NO_COMPLETIONS] = { "no request asks for a completion", READS | WRITES, VIOLATION_STUCK },
	[FAULT_REFILL_EARLY] = { "completions that come early are mistaken for delivery", WRITES, VIOLATION_OVERWRITTEN },
	[FAULT_DONE_EARLY] = { "MSG_DONE is posted before the operation has ended", READS, VIOLATION_AFTER_DONE },
};

/* clang-format on */

static void find_break(enum fault fault, bool writes)
{
	int sessions = breaks[fault].sessions;

	if (!(sessions & (writes ? WRITES : READS)))
		return;
	set_alike(5, sessions & UNKNOWN, 3, 2);
	setting.writes = writes;
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
