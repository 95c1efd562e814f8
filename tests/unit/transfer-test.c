// SPDX-License-Identifier: MIT
/*
 * The window: tables of single answers, simulated wires, and every order in which two sides can
 * exchange short streams through tiny rings.
 *
 * In the exploration two sides run against each other, with all that the verbs and the workers may
 * do in between, and every state of the two together is visited once, the nearest first, so that
 * the trace of a violation is a shortest one. Each byte of each ring is modelled, and is garbage
 * while anybody may be writing to it.
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

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

/* ---- The world: both sides and what is between them ---- */

#define RING       4  /* bytes at most */
#define QUEUE      14 /* what a side has posted and is not over */
#define SIDE_BYTES 28 /* numbers of struct transfer that change */

enum entry_kind {
	ENTRY_MR,
	ENTRY_WINDOW,
	ENTRY_DONE,
	ENTRY_REQUEST,
};

/* What has become of it. Bits of a set. */
enum fate {
	FATE_EXECUTED = 1 << 0,  /* bytes where they belong */
	FATE_COMPLETED = 1 << 1, /* its completion, or a later one, was handled */
	FATE_SIGNALED = 1 << 2,
	FATE_ASKED = 1 << 3, /* as the module has it: a broken program may not signal it */
};

/* One work request. What stands in `detail` depends on its kind. */
struct entry {
	uint8_t kind;
	uint8_t fate;
	uint8_t detail[6];
};

/* details of ENTRY_REQUEST: number since the last completed one, position, size, offsets */
enum {
	DETAIL_NUMBER,
	DETAIL_END,
	DETAIL_SIZE,
	DETAIL_LOCAL,
	DETAIL_REMOTE
};
/* details of the messages */
enum {
	DETAIL_READY,
	DETAIL_TAKEN,
	DETAIL_KEPT,
	DETAIL_RECEIVED,
	DETAIL_MARK
};

/* One side, in bytes, so that worlds can be compared. */
struct side {
	uint8_t numbers[SIDE_BYTES]; /* see fields[] */
	uint8_t announced;           /* MSG_MR was posted */
	uint8_t met;                 /* the peer's MSG_MR was handled */
	uint8_t done;                /* MSG_DONE was posted */
	uint8_t filling, copying;    /* bytes that the workers have in hand */
	uint8_t filled_late;         /* the source's worker has reported the last byte */
	uint8_t entries;             /* so many are in the queue */
	uint8_t out[RING], in[RING]; /* rings: position in the pass + 1; 0: garbage */
	uint8_t spare[5];
	struct entry queue[QUEUE];
};

struct world {
	struct side sides[2];
};

_Static_assert(sizeof(struct world) % 8 == 0, "is hashed by words");

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
	FAULTS
};

static const char *const fault_names[FAULTS] = {
	"none",
	"`taken` is sent before the copy",
	"`taken` is sent before the READ",
	"a work request crosses the end of a ring",
	"`ready` is sent before the source has filled the ring",
	"`ready` is sent before the WRITE",
	"the end mark is lost",
	"no wake-up by a completion",
	"no wake-up by MSG_WINDOW",
	"no wake-up by the source's worker",
	"no wake-up by the sink's worker",
	"requests are not signaled",
	"refilled by completion over iWARP",
	"MSG_DONE before the end of the operation",
	"no credit kept for an answer",
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

static const char *const occurrence_names[] = {
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

static const char *const kind_names[] = { "MSG_MR", "MSG_WINDOW", "MSG_DONE", "RDMA request" };

struct label {
	uint8_t side, occurrence, detail, kind;
};

/* ---- The set of worlds visited ---- */

struct node {
	struct world world;
	struct label label;
	uint32_t parent;
};

struct exploration {
	const struct setting *setting;
	struct node *nodes; /* in the order of discovery: also the queue of those to visit */
	size_t count, capacity;
	uint32_t *table; /* node number + 1, 0: empty */
	size_t table_size;
	size_t states, transitions, runs; /* of all explorations; settings */
	size_t current;
	int distance; /* of the current one from the start */
	bool fresh;   /* it has a successor */
	enum violation violation;
	const char *refusal;
	size_t violating;
};

static size_t hash(const struct world *world)
{
	uint64_t words[sizeof(*world) / 8], sum = 0;

	memcpy(words, world, sizeof(*world));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
	}
	return (size_t)sum;
}

static uint32_t *look_up(const struct exploration *exploration, const struct world *world)
{
	size_t mask = exploration->table_size - 1, place = hash(world) & mask;

	while (exploration->table[place] &&
	       memcmp(&exploration->nodes[exploration->table[place] - 1].world, world,
		      sizeof(*world)) != 0)
		place = (place + 1) & mask;
	return &exploration->table[place];
}

static void grow(struct exploration *exploration)
{
	exploration->capacity = exploration->capacity ? 2 * exploration->capacity : 1 << 10;
	exploration->nodes =
		realloc(exploration->nodes, exploration->capacity * sizeof(*exploration->nodes));
	free(exploration->table);
	exploration->table_size = 2 * exploration->capacity;
	exploration->table = calloc(exploration->table_size, sizeof(*exploration->table));
	assert_non_null(exploration->nodes);
	assert_non_null(exploration->table);
	for (size_t i = 0; i < exploration->count; i++)
		*look_up(exploration, &exploration->nodes[i].world) = (uint32_t)i + 1;
}

static void violate(struct exploration *exploration, enum violation violation)
{
	if (exploration->violation == VIOLATION_NONE)
		exploration->violation = violation;
}

/* ---- struct transfer as bytes ---- */

enum field_type {
	FIELD_NUMBER,
	FIELD_BOOL,
	FIELD_END, /* a number, and 0: unknown */
	FIELD_TIME
};

struct field {
	size_t offset;
	enum field_type type;
	uint8_t weight; /* in the distance from the start */
};

#define NUMBER(member, weight)                                          \
	{                                                               \
		offsetof(struct transfer, member), FIELD_NUMBER, weight \
	}
#define BOOLEAN(member, weight)                                       \
	{                                                             \
		offsetof(struct transfer, member), FIELD_BOOL, weight \
	}

/* All that changes but the measurement of time. */
static const struct field fields[] = {
	NUMBER(source.filled, 10),
	NUMBER(source.told_ready, 10),
	NUMBER(source.taken, 10),
	NUMBER(source.kept, 10),
	{ offsetof(struct transfer, source.stream.length), FIELD_END, 10 },
	BOOLEAN(source.told_end, 10),
	NUMBER(sink.ready, 10),
	NUMBER(sink.copied, 10),
	NUMBER(sink.kept, 10),
	NUMBER(sink.told_taken, 10),
	NUMBER(sink.told_kept, 10),
	{ offsetof(struct transfer, sink.stream.length), FIELD_END, 10 },
	BOOLEAN(sink.done, 10),
	NUMBER(operation.posted, 10),
	NUMBER(operation.completed, 10),
	NUMBER(operation.local, 0),
	NUMBER(operation.remote, 0),
	/* the following are made relative, so that more worlds are the same */
	NUMBER(operation.requests_posted, 0),
	NUMBER(operation.requests_completed, 0),
	NUMBER(operation.unsignaled, 0),
	NUMBER(credits.sent, 0),
	NUMBER(credits.confirmed, 0),
	NUMBER(credits.received, 0),
	NUMBER(credits.told, 0),
	{ offsetof(struct transfer, news), FIELD_TIME, 0 },
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))
_Static_assert(FIELDS <= SIDE_BYTES, "all have a byte");

/* Those that have not come, from number 0. */
static void unpack_signals(const struct side *side, struct transfer_operation *operation)
{
	for (int i = 0; i < side->entries; i++) {
		const struct entry *entry = &side->queue[i];

		if (entry->kind == ENTRY_REQUEST && entry->fate & FATE_ASKED &&
		    !(entry->fate & FATE_COMPLETED))
			operation->signals[operation->signals_posted++] =
				(struct transfer_signal){ entry->detail[DETAIL_NUMBER],
							  entry->detail[DETAIL_END] };
	}
}

static void unpack(const struct setting *setting, const struct side *side, int number,
		   struct transfer *transfer)
{
	*transfer = setting->templates[number][side->met];
	for (size_t i = 0; i < FIELDS; i++) {
		char *member = (char *)transfer + fields[i].offset;

		if (fields[i].type == FIELD_BOOL)
			*(bool *)(void *)member = side->numbers[i];
		else if (fields[i].type == FIELD_NUMBER)
			*(uint64_t *)(void *)member = side->numbers[i];
		else if (fields[i].type == FIELD_END)
			*(uint64_t *)(void *)member = side->numbers[i] - UINT64_C(1);
		else
			*(int64_t *)(void *)member = side->numbers[i] ? 0 : TRANSFER_NEVER;
	}
	unpack_signals(side, &transfer->operation);
}

static void pack(struct side *side, const struct transfer *transfer)
{
	for (size_t i = 0; i < FIELDS; i++) {
		const char *member = (const char *)transfer + fields[i].offset;

		if (fields[i].type == FIELD_BOOL)
			side->numbers[i] = *(const bool *)(const void *)member;
		else if (fields[i].type == FIELD_NUMBER)
			side->numbers[i] = (uint8_t) * (const uint64_t *)(const void *)member;
		else if (fields[i].type == FIELD_END)
			side->numbers[i] = (uint8_t)(*(const uint64_t *)(const void *)member + 1);
		else
			side->numbers[i] = *(const int64_t *)(const void *)member != TRANSFER_NEVER;
	}
}

static uint8_t *number_of(struct side *side, size_t offset)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].offset == offset)
			return &side->numbers[i];
	}
	abort();
}

/* Counts MSG_WINDOWs of side `number` from the last one that it knows to be received. */
static void count_windows_anew(struct world *world, int number)
{
	struct side *side = &world->sides[number], *peer = &world->sides[!number];
	uint8_t *confirmed = number_of(side, offsetof(struct transfer, credits.confirmed));
	uint8_t base = *confirmed;

	if (base == 0)
		return;
	*confirmed = 0;
	*number_of(side, offsetof(struct transfer, credits.sent)) -= base;
	*number_of(peer, offsetof(struct transfer, credits.received)) -= base;
	*number_of(peer, offsetof(struct transfer, credits.told)) -= base;
	for (int i = 0; i < peer->entries; i++) {
		if (peer->queue[i].kind == ENTRY_WINDOW)
			peer->queue[i].detail[DETAIL_RECEIVED] -= base;
	}
}

/* Counts requests of a side from the last one that completed. */
static void count_requests_anew(struct side *side)
{
	uint8_t *completed =
		number_of(side, offsetof(struct transfer, operation.requests_completed));
	uint8_t base = *completed;

	if (base == 0)
		return;
	*completed = 0;
	*number_of(side, offsetof(struct transfer, operation.requests_posted)) -= base;
	for (int i = 0; i < side->entries; i++) {
		struct entry *entry = &side->queue[i];

		if (entry->kind == ENTRY_REQUEST && !(entry->fate & FATE_COMPLETED))
			entry->detail[DETAIL_NUMBER] -= base;
	}
}

/*
 * Grows with everything that can happen, so that no run is endless. What a MSG_WINDOW moves weighs
 * more than the message; one that only confirms weighs less than the two that it confirms.
 */
static int distance_from_start(const struct world *world)
{
	int distance = 0;

	for (int number = 0; number < 2; number++) {
		const struct side *side = &world->sides[number];
		struct side *counted = (struct side *)(uintptr_t)side;

		for (size_t i = 0; i < FIELDS; i++)
			distance += side->numbers[i] * fields[i].weight;
		distance += 10 * (side->announced + side->met + side->done + side->filled_late);
		distance -= (side->filling > 0) + (side->copying > 0);
		distance -= 6 * (*number_of(counted, offsetof(struct transfer, credits.received)) -
				 *number_of(counted, offsetof(struct transfer, credits.told)));
		for (int i = 0; i < side->entries; i++) {
			const struct entry *entry = &side->queue[i];

			if (entry->kind == ENTRY_WINDOW)
				distance -= 9;
			else if (entry->kind == ENTRY_REQUEST)
				distance -= (entry->fate & FATE_EXECUTED ? 0 : 1) + 1;
			else
				distance -= 1;
		}
	}
	return distance;
}

/* A world that follows from the current one: it is added unless it is known. */
static void arrive(struct exploration *exploration, struct world *world, struct label label)
{
	uint32_t *place;

	for (int number = 0; number < 2; number++) {
		count_windows_anew(world, number);
		count_requests_anew(&world->sides[number]);
	}
	if (label.occurrence != OCCURRENCE_START) {
		exploration->transitions++;
		exploration->fresh = true;
		if (distance_from_start(world) <= exploration->distance)
			violate(exploration, VIOLATION_ENDLESS);
	}
	place = look_up(exploration, world);
	if (*place && exploration->violation == VIOLATION_NONE)
		return;
	if (exploration->violation != VIOLATION_NONE && exploration->violating == 0)
		exploration->violating = exploration->count;
	else if (*place)
		return;
	exploration->nodes[exploration->count] = (struct node){
		.world = *world, .label = label, .parent = (uint32_t)exploration->current
	};
	exploration->count++;
	if (!*place)
		*place = (uint32_t)exploration->count;
	if (exploration->count == exploration->capacity)
		grow(exploration);
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
		return world->sides[!number].in + entry->detail[DETAIL_REMOTE];
	return world->sides[number].in + entry->detail[DETAIL_LOCAL];
}

static const uint8_t *origin(const struct setting *setting, const struct world *world, int number,
			     const struct entry *entry)
{
	if (setting->writes)
		return world->sides[number].out + entry->detail[DETAIL_LOCAL];
	return world->sides[!number].out + entry->detail[DETAIL_REMOTE];
}

static bool crosses(const struct setting *setting, int number, const struct entry *entry)
{
	int stream = carried(setting, number);
	int local = setting->writes ? setting->source_ring[stream] : setting->sink_ring[stream];
	int remote = setting->writes ? setting->sink_ring[stream] : setting->source_ring[stream];

	return entry->detail[DETAIL_LOCAL] + entry->detail[DETAIL_SIZE] > local ||
	       entry->detail[DETAIL_REMOTE] + entry->detail[DETAIL_SIZE] > remote;
}

/* Posts one request: from now on its destination may be written to. */
static void post_request(struct exploration *exploration, struct world *world, int number,
			 const struct transfer *transfer, const struct transfer_run *request)
{
	const struct setting *setting = exploration->setting;
	struct side *side = &world->sides[number];
	struct entry *entry = append(exploration, side, ENTRY_REQUEST);

	entry->detail[DETAIL_NUMBER] = (uint8_t)transfer->operation.requests_posted;
	entry->detail[DETAIL_END] = (uint8_t)transfer->operation.posted;
	entry->detail[DETAIL_SIZE] = (uint8_t)request->size;
	entry->detail[DETAIL_LOCAL] = (uint8_t)request->local;
	entry->detail[DETAIL_REMOTE] = (uint8_t)request->remote;
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

	while (exploration->violation == VIOLATION_NONE &&
	       transfer_next(transfer, 1, 0, &request)) {
		struct transfer saved = *transfer;

		if (exploration->setting->fault == FAULT_ACROSS_END &&
		    transfer_next(transfer, 1, 0, &more)) {
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

	if (!side->announced || (side->done && transfer_all_kept(transfer)) ||
	    !transfer_window(transfer, now, &window))
		return;
	entry = append(exploration, side, ENTRY_WINDOW);
	entry->detail[DETAIL_READY] = (uint8_t)window.ready;
	entry->detail[DETAIL_TAKEN] = (uint8_t)window.taken;
	entry->detail[DETAIL_KEPT] = (uint8_t)window.kept;
	entry->detail[DETAIL_RECEIVED] = (uint8_t)window.received;
	entry->detail[DETAIL_MARK] = setting->fault != FAULT_END_LOST && window.end;
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
	append(exploration, side, ENTRY_DONE)->detail[DETAIL_READY] =
		(uint8_t)transfer_done(transfer, 0);
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
		transfer_filled(transfer, side->filling, false, 0);
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
		transfer_copied(transfer, piece.size, 0);
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
	arrive(exploration, world, label);
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
	uint64_t position = (uint64_t)entry->detail[DETAIL_END] - entry->detail[DETAIL_SIZE];
	const uint8_t *from = origin(setting, world, number, entry);
	uint8_t *to = destination(setting, world, number, entry);

	if (!setting->writes && world->sides[number].done)
		violate(exploration, VIOLATION_AFTER_DONE);
	for (int i = 0; i < entry->detail[DETAIL_SIZE]; i++) {
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
		struct label label = { (uint8_t)number, OCCURRENCE_EXECUTE,
				       entry->detail[DETAIL_END], entry->kind };

		if (entry->kind != ENTRY_REQUEST || !can_execute(exploration->setting, side, place))
			continue;
		entry->fate |= FATE_EXECUTED;
		carry(exploration, &next, number, entry);
		if (entry->fate & FATE_COMPLETED)
			drop(&next.sides[number], place);
		arrive(exploration, &next, label);
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
	label.detail = entry->detail[DETAIL_END];
	unpack(setting, changed, number, &transfer);
	if (!transfer_completed(&transfer, entry->detail[DETAIL_NUMBER], 0))
		violate(exploration, VIOLATION_MODULE);
	for (int i = place; i >= 0; i--) {
		if (changed->queue[i].kind != ENTRY_REQUEST)
			continue;
		changed->queue[i].fate |= FATE_COMPLETED;
		changed->queue[i].detail[DETAIL_NUMBER] = 0;
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
		.ready = entry->detail[DETAIL_READY],
		.taken = entry->detail[DETAIL_TAKEN],
		.kept = entry->detail[DETAIL_KEPT],
		.received = entry->detail[DETAIL_RECEIVED],
		.end = entry->detail[DETAIL_MARK],
	};

	switch (entry->kind) {
	case ENTRY_MR:
		world->sides[number].met = 1;
		return transfer_peer_region(transfer,
					    announced_ring(setting, carried(setting, number)),
					    window.ready, 0);
	case ENTRY_WINDOW:
		return transfer_accept(transfer, &window, 0);
	default:
		judge_done(exploration, world, number);
		return transfer_accept_done(transfer, window.ready, 0);
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
	label.detail = entry.detail[DETAIL_READY];
	drop(&next.sides[!number], place);
	unpack(exploration->setting, &world->sides[number], number, &transfer);
	refusal = handle(exploration, &next, number, &entry, &transfer);
	if (refusal) {
		violate(exploration, VIOLATION_REFUSED);
		exploration->refusal = refusal;
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
	append(exploration, side, ENTRY_MR)->detail[DETAIL_READY] =
		(uint8_t)transfer_announce(&transfer, 0);
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
	if (!transfer_filled(&transfer, size - early, end, 0))
		violate(exploration, VIOLATION_MODULE);
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
		transfer_copied(&transfer, size - early, 0);
		if (!setting->partial)
			transfer_kept(&transfer, transfer.sink.copied, 0);
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
	transfer_kept(&transfer, transfer.sink.copied, 0);
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
		if (!side->done || !transfer_all_kept(&transfer))
			violate(exploration, VIOLATION_STUCK);
		else if (has_stream(setting, !number) && transfer.sink.kept != expected)
			violate(exploration, VIOLATION_LOST);
	}
	exploration->violating = exploration->violation ? exploration->current : 0;
}

static void visit(struct exploration *exploration)
{
	struct world world = exploration->nodes[exploration->current].world;

	exploration->fresh = false;
	exploration->distance = distance_from_start(&world);
	for (int number = 0; number < 2; number++) {
		announcements(exploration, &world, number);
		executions(exploration, &world, number);
		completions(exploration, &world, number);
		receptions(exploration, &world, number);
		fillings(exploration, &world, number);
		copyings(exploration, &world, number);
		keepings(exploration, &world, number);
		clock_ticks(exploration, &world, number);
	}
	if (!exploration->fresh)
		judge_ending(exploration, &world);
}

static struct stream_plan plan_stream(const struct setting *setting, int stream, bool outgoing)
{
	struct stream_plan plan = {
		.present = has_stream(setting, stream),
		.every_pass = setting->every_pass,
		.length = setting->unknown[stream] ? TRANSFER_UNKNOWN : setting->length[stream],
		.passes = setting->passes[stream],
		.ring = outgoing ? setting->source_ring[stream] : setting->sink_ring[stream],
	};

	return plan;
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
				     announced_ring(setting, carried(setting, number)), 0, 0);
	}
}

/* Visits everything that can happen with this setting; false if there was a violation. */
static bool explore(struct exploration *exploration, struct setting *setting)
{
	struct world start;
	struct transfer transfer;

	make_templates(setting);
	memset(&start, 0, sizeof(start));
	exploration->setting = setting;
	exploration->count = 0;
	exploration->violation = VIOLATION_NONE;
	exploration->violating = 0;
	exploration->current = 0;
	for (int number = 0; number < 2; number++) {
		transfer = setting->templates[number][0];
		begin_to_fill(exploration, &start, number, &transfer);
		pack(&start.sides[number], &transfer);
	}
	if (exploration->capacity == 0)
		grow(exploration);
	memset(exploration->table, 0, exploration->table_size * sizeof(*exploration->table));
	arrive(exploration, &start, (struct label){ .occurrence = OCCURRENCE_START });
	while (exploration->current < exploration->count &&
	       exploration->violation == VIOLATION_NONE) {
		visit(exploration);
		exploration->current++;
	}
	exploration->states += exploration->count;
	exploration->runs++;
	return exploration->violation == VIOLATION_NONE;
}

static void print_setting(const struct setting *setting)
{
	print_message("%s%s, %s, depth %u, requests of %u, share %u\n",
		      setting->writes ? "WRITE" : "READ",
		      setting->completes_early ? " completing early" : "",
		      setting->both ? "both ways" : "one way", setting->depth,
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

/* How the violation comes about. */
static void print_trace(const struct exploration *exploration)
{
	uint32_t path[1024];
	size_t length = 0;

	print_message("%s%s%s\n", violation_names[exploration->violation],
		      exploration->violation == VIOLATION_REFUSED && exploration->refusal ? ": "
											  : "",
		      exploration->violation == VIOLATION_REFUSED && exploration->refusal
			      ? exploration->refusal
			      : "");
	print_setting(exploration->setting);
	for (size_t i = exploration->violating; i > 0 && length < 1024;
	     i = exploration->nodes[i].parent)
		path[length++] = (uint32_t)i;
	while (length > 0) {
		struct label label = exploration->nodes[path[--length]].label;
		bool kind = label.occurrence == OCCURRENCE_EXECUTE ||
			    label.occurrence == OCCURRENCE_HANDLE;

		print_message("  %s: %s %s %u\n", label.side ? "server" : "client",
			      occurrence_names[label.occurrence],
			      kind ? kind_names[label.kind] : "", label.detail);
	}
}

static void must_hold(struct exploration *exploration, struct setting setting)
{
	if (explore(exploration, &setting))
		return;
	print_trace(exploration);
	fail();
}

static void finish(struct exploration *exploration, const char *name, clock_t started)
{
	print_message("%s: %zu settings, %zu states, %zu transitions, %.1f s\n", name,
		      exploration->runs, exploration->states, exploration->transitions,
		      (double)(clock() - started) / CLOCKS_PER_SEC);
	free(exploration->nodes);
	free(exploration->table);
}

/* ---- Exploring: what must hold ---- */

static const struct setting plain = {
	.depth = 2,
	.request_size = 2,
	.share = 4,
	.passes = { 1, 1 },
};

static void set_rings(struct setting *setting, int stream, int source, int sink)
{
	setting->source_ring[stream] = (uint8_t)source;
	setting->sink_ring[stream] = (uint8_t)sink;
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

/* Single bytes and late keeping make many more worlds: not where there are many already. */
static bool is_small(const struct setting *setting, int stream)
{
	return setting->length[stream] <= 2 ||
	       setting->source_ring[stream] + setting->sink_ring[stream] <= 3;
}

static void explore_one_way(void **state)
{
	struct exploration exploration = { 0 };
	clock_t started = clock();

	(void)state;
	for (int rings = 0; rings < 16; rings++) {
		for (int length = 0; length < 10; length++) {
			struct setting setting = plain;

			for (int stream = 0; stream < 2; stream++) {
				set_rings(&setting, stream, 1 + rings / 4, 1 + rings % 4);
				setting.length[stream] = (uint8_t)length;
			}
			setting.partial = is_small(&setting, 0);
			must_hold_for_all(&exploration, setting);
			setting.unknown[0] = setting.unknown[1] = true;
			must_hold_for_all(&exploration, setting);
		}
	}
	finish(&exploration, "one way", started);
}

/* Two streams of these lengths, known and unknown, through rings that are not alike. */
static void explore_streams(struct exploration *exploration, int first, int second,
			    const uint8_t rings[4])
{
	for (int unknown = 0; unknown < 4; unknown++) {
		struct setting setting = plain;

		setting.both = true;
		setting.length[0] = (uint8_t)first;
		setting.length[1] = (uint8_t)second;
		setting.unknown[0] = unknown & 1;
		setting.unknown[1] = unknown & 2;
		set_rings(&setting, 0, rings[0], rings[1]);
		set_rings(&setting, 1, rings[2], rings[3]);
		must_hold_for_all(exploration, setting);
	}
}

static void explore_both_ways(void **state)
{
	static const uint8_t rings[][4] = {
		{ 1, 1, 2, 1 }, { 1, 2, 1, 1 }, { 3, 2, 1, 2 }, { 2, 4, 4, 1 }
	};
	static const uint8_t narrow[] = { 1, 1, 1, 2 };
	struct exploration exploration = { 0 };
	clock_t started = clock();

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		for (int lengths = 0; lengths < 9; lengths++)
			explore_streams(&exploration, lengths / 3, lengths % 3, rings[i]);
	}
	/* long enough to run out of credits */
	explore_streams(&exploration, 9, 1, narrow);
	explore_streams(&exploration, 4, 4, narrow);
	finish(&exploration, "both ways", started);
}

/* Payloads that repeat, through own rings of any length, and streams of verified passes. */
static void explore_passes(void **state)
{
	struct exploration exploration = { 0 };
	clock_t started = clock();

	(void)state;
	for (int kind = 0; kind < 3 * 2 * 16; kind++) {
		struct setting setting = plain;

		for (int stream = 0; stream < 2; stream++) {
			setting.length[stream] = (uint8_t)(1 + kind / 32);
			setting.passes[stream] = 3;
			set_rings(&setting, stream, 1 + kind / 4 % 4, 1 + kind % 4);
		}
		setting.every_pass = kind & 16;
		must_hold_for_all(&exploration, setting);
		setting.depth = 8; /* two requests for each completion */
		setting.request_size = 1;
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration, "passes", started);
}

/* Other numbers: selective signaling, depths between, moves too small to report. */
static void explore_numbers(void **state)
{
	struct exploration exploration = { 0 };
	clock_t started = clock();

	(void)state;
	for (int kind = 0; kind < 128; kind++) {
		struct setting setting = plain;

		for (int stream = 0; stream < 2; stream++) {
			setting.length[stream] = (uint8_t)(3 + 2 * (kind & 1));
			setting.unknown[stream] = kind & 2;
			set_rings(&setting, stream, kind & 32 ? 4 : 3, kind & 16 ? 4 : 2);
		}
		setting.depth = (uint8_t[]){ 1, 3, 8, 5 }[kind >> 2 & 3];
		setting.request_size = kind & 8 ? 1 : 3;
		setting.share = kind & 64 ? 1 : 2;
		must_hold_for_all(&exploration, setting);
	}
	finish(&exploration, "numbers", started);
}

/* ---- Exploring: programs that use it wrongly ---- */

struct broken {
	enum fault fault;
	bool writes;
	bool unknown;
	bool both;
	uint8_t length;
	enum violation violation; /* the shortest one */
};

static const struct broken broken[] = {
	{ FAULT_TAKEN_EARLY, true, false, false, 7, VIOLATION_READ_EARLY },
	{ FAULT_READ_EARLY, false, false, false, 7, VIOLATION_READ_EARLY },
	{ FAULT_ACROSS_END, true, false, false, 7, VIOLATION_OUT_OF_BOUNDS },
	{ FAULT_ACROSS_END, false, false, false, 7, VIOLATION_OUT_OF_BOUNDS },
	{ FAULT_READY_EARLY, true, false, false, 7, VIOLATION_OVERWRITTEN },
	{ FAULT_READY_EARLY, false, false, false, 7, VIOLATION_OVERWRITTEN },
	{ FAULT_WINDOW_BEFORE, true, false, false, 7, VIOLATION_READ_EARLY },
	{ FAULT_END_LOST, true, true, false, 7, VIOLATION_REFUSED },
	{ FAULT_END_LOST, false, true, false, 7, VIOLATION_REFUSED },
	{ FAULT_NO_WAKE_COMPLETED, true, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_COMPLETED, false, false, false, 2, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_WINDOW, true, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_WINDOW, false, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_FILLED, true, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_FILLED, false, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_COPIED, true, false, false, 7, VIOLATION_STUCK },
	{ FAULT_NO_WAKE_COPIED, false, false, false, 7, VIOLATION_STUCK },
	{ FAULT_UNSIGNALED, true, false, false, 7, VIOLATION_STUCK },
	{ FAULT_UNSIGNALED, false, false, false, 7, VIOLATION_STUCK },
	{ FAULT_REFILL_EARLY, true, false, false, 7, VIOLATION_OVERWRITTEN },
	{ FAULT_DONE_EARLY, false, false, false, 7, VIOLATION_AFTER_DONE },
	{ FAULT_NO_RESERVE, true, false, true, 5, VIOLATION_STUCK },
	{ FAULT_NO_RESERVE, false, false, true, 5, VIOLATION_STUCK },
};

static void every_break_is_found(void **state)
{
	struct exploration exploration = { 0 };
	clock_t started = clock();

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct setting setting = plain;

		setting.writes = broken[i].writes;
		setting.both = broken[i].both;
		setting.completes_early = broken[i].fault == FAULT_REFILL_EARLY;
		for (int stream = 0; stream < 2; stream++) {
			set_rings(&setting, stream, 3, 2);
			setting.length[stream] = broken[i].length;
			setting.unknown[stream] = broken[i].unknown;
		}
		if (!broken[i].both)
			must_hold(&exploration, setting);
		setting.fault = broken[i].fault;
		print_message("broken: %s\n", fault_names[setting.fault]);
		assert_false(explore(&exploration, &setting));
		print_trace(&exploration);
		assert_int_equal(exploration.violation, broken[i].violation);
	}
	finish(&exploration, "broken", started);
}

/* ---- Simulated: wires and disks of any speed, real numbers ---- */

#define SIMULATED_QUEUE 4096

/* MSG_VERDICT, which the explorations do without: there both sides may always go on. */
#define ITEM_VERDICT 100

/* What goes over a wire in one direction, in this order. */
struct item {
	int kind;  /* enum entry_kind, or ITEM_VERDICT */
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
	bool done, judged;          /* it has sent MSG_DONE, MSG_VERDICT */
	bool peer_judged;           /* the peer's MSG_VERDICT is here */
	int64_t extended;           /* its deadline was, then, as rdma-common.c does it */
};

struct simulation {
	struct simulated_side sides[2];
	uint64_t wire, disk;  /* bytes a millisecond */
	bool no_late_windows; /* a side is silent behind its MSG_VERDICT, as older releases are */
	int64_t now;
	int64_t longest; /* nothing extended a deadline, in milliseconds */
	unsigned int windows;
};

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

static void send_item(struct simulation *simulation, int number, struct item item)
{
	struct simulated_side *side = &simulation->sides[number];

	side->queue[side->behind++ % SIMULATED_QUEUE] = item;
	assert_true(side->behind - side->first < SIMULATED_QUEUE);
}

/* As window_may_be_sent() has it. */
static bool may_send_window(const struct simulation *simulation, const struct simulated_side *side)
{
	return !side->judged || (!side->peer_judged && !simulation->no_late_windows);
}

static void simulate_posts(struct simulation *simulation, int number)
{
	struct simulated_side *side = &simulation->sides[number];
	struct transfer *transfer = &side->transfer;
	struct item item = { .kind = ENTRY_REQUEST, .owner = number };
	struct transfer_run request;

	while (transfer_next(transfer, 1, simulation->now, &request)) {
		item.id = request.number;
		item.size = request.size;
		item.signaled = request.signaled;
		send_item(simulation, transfer->plan.writes ? number : !number, item);
	}
	item = (struct item){ .kind = ENTRY_WINDOW, .size = 100 };
	if (may_send_window(simulation, side) &&
	    transfer_window(transfer, simulation->now, &item.window)) {
		simulation->windows++;
		send_item(simulation, number, item);
	}
	if (!side->done && transfer_done_due(transfer)) {
		side->done = true;
		item = (struct item){ .kind = ENTRY_DONE, .size = 100 };
		item.id = transfer_done(transfer, simulation->now);
		send_item(simulation, number, item);
	}
	if (side->done && !side->judged && transfer_all_kept(transfer)) {
		side->judged = true;
		transfer_verdict(transfer, simulation->now);
		send_item(simulation, number, (struct item){ .kind = ITEM_VERDICT, .size = 100 });
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
		wrong = transfer_accept(&side->transfer, &item->window, simulation->now);
	else if (item->kind == ENTRY_DONE)
		wrong = transfer_accept_done(&side->transfer, item->id, simulation->now);
	else
		side->peer_judged = true;
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
		assert_true(transfer_filled(transfer, at_most(piece.size, 65536), false,
					    simulation->now));
		moved = true;
	}
	while (transfer_copy(transfer, &piece) && side->copied >= at_most(piece.size, 65536)) {
		side->copied -= at_most(piece.size, 65536);
		transfer_copied(transfer, at_most(piece.size, 65536), simulation->now);
		transfer_kept(transfer, transfer->sink.copied, simulation->now);
		moved = true;
	}
	if (moved && !owed)
		side->extended = simulation->now;
}

/* For how long nothing has extended the deadline of a side. */
static int64_t silence_of(const struct simulation *simulation, int number)
{
	const struct simulated_side *side = &simulation->sides[number];

	return side->peer_judged ? 0 : simulation->now - side->extended;
}

/* One millisecond. Returns whether both sides have both verdicts. */
static bool simulate(struct simulation *simulation)
{
	bool over = true;

	simulation->now++;
	for (int number = 0; number < 2; number++) {
		struct simulated_side *side = &simulation->sides[number];

		simulate_disks(simulation, number);
		simulate_posts(simulation, number);
		simulate_wire(simulation, number);
		if (silence_of(simulation, number) > simulation->longest)
			simulation->longest = silence_of(simulation, number);
		over = over && side->judged && side->peer_judged;
	}
	return over;
}

/* Runs until both sides have both verdicts; `plans` may differ in their own rings. */
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
						 transfer_announce(other, 0), 0));
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

static void print_silence(int kind, uint64_t ring, int64_t silence)
{
	print_message("%s, %s, ring %d KiB: %d ms of silence at most\n",
		      kind & 1 ? "WRITE" : "READ", kind & 2 ? "one way" : "both ways",
		      (int)(ring >> 10), (int)silence);
}

/* 4 Mbit/s carries 500 bytes in a millisecond: it moves within the usual --timeout. */
static void a_slow_wire_is_seen_to_move(void **state)
{
	(void)state;
	for (int kind = 0; kind < 12; kind++) {
		uint64_t ring = (uint64_t)65536 << kind / 4 * 4;
		int64_t silence = longest_silence(kind & 1, kind & 2, ring, 500, 1 << 20);

		print_silence(kind, ring, silence);
		assert_true(silence < 10000);
	}
}

static void a_slow_disk_is_seen_to_move(void **state)
{
	(void)state;
	for (int kind = 0; kind < 12; kind++) {
		uint64_t ring = (uint64_t)65536 << kind / 4 * 4;
		int64_t silence = longest_silence(kind & 1, kind & 2, ring, 1 << 20, 1000);

		print_silence(kind, ring, silence);
		assert_true(silence < 1000);
	}
}

/*
 * A disk of 200 kB/s behind a ring as long as the payload: MSG_DONE and the sender's MSG_VERDICT
 * come at once, and far more windows behind them than there are credits.
 */
static void a_sink_that_stores_behind_both_is_seen_to_move(void **state)
{
	struct simulation *simulation = calloc(1, sizeof(*simulation));
	struct transfer_plan plans[2];

	(void)state;
	assert_non_null(simulation);
	for (int kind = 0; kind < 4; kind++) {
		memset(simulation, 0, sizeof(*simulation));
		plans[0] = plans[1] = real_plan(kind & 1, 4 << 20, 4 << 20);
		plans[0].incoming.present = plans[1].outgoing.present = false;
		simulation->wire = 1 << 20;
		simulation->disk = 200;
		simulation->sides[0].filled = 4 << 20;
		simulation->no_late_windows = kind & 2;
		run(simulation, plans);
		if (simulation->no_late_windows) {
			assert_true(simulation->longest > 5000);
			continue;
		}
		assert_true(simulation->longest < 1000);
		assert_true(simulation->windows > 2 * TRANSFER_CREDITS);
	}
	free(simulation);
}

/* Own rings of any length on either side, verified passes, completions that say little. */
static void no_honest_side_is_refused(void **state)
{
	struct simulation *simulation = calloc(1, sizeof(*simulation));

	(void)state;
	assert_non_null(simulation);
	for (int kind = 0; kind < 512; kind++) {
		struct transfer_plan plans[2];
		uint64_t ring = (uint64_t)4096 << (kind >> 1 & 7);

		memset(simulation, 0, sizeof(*simulation));
		plans[0] = plans[1] = real_plan(kind & 1, 1000000, ring);
		plans[1].outgoing.ring = plans[1].incoming.ring = 65536;
		plans[0].outgoing.passes = plans[1].incoming.passes = kind & 16 ? 3 : 1;
		plans[0].outgoing.every_pass = plans[1].incoming.every_pass = kind & 32;
		plans[0].depth = kind & 64 ? 1 : 100;
		plans[0].completes_early = plans[1].completes_early = kind & 128;
		simulation->wire = kind & 256 ? 1 << 20 : 3000;
		simulation->disk = kind & 256 ? 50000 : 1 << 20;
		run(simulation, plans);
	}
	free(simulation);
}

/* ---- Tables: what is posted ---- */

static void connect_sides(struct transfer sides[2], const struct transfer_plan *plan)
{
	for (int number = 0; number < 2; number++)
		transfer_init(&sides[number], plan);
	for (int number = 0; number < 2; number++)
		assert_null(transfer_peer_region(
			&sides[number], plan->writes ? plan->incoming.ring : plan->outgoing.ring,
			transfer_announce(&sides[!number], 0), 0));
}

static void fill_all(struct transfer *transfer)
{
	struct piece piece;

	while (transfer_fill(transfer, &piece))
		assert_true(transfer_filled(transfer, piece.size, false, 0));
}

/* Posts all that may be posted, and completes it at once; returns the requests. */
static unsigned int operate(struct transfer *transfer, int64_t now)
{
	struct transfer_run request;
	unsigned int requests = 0;

	while (transfer_next(transfer, 1, now, &request)) {
		requests++;
		if (request.signaled)
			assert_true(transfer_completed(transfer, request.number, now));
	}
	return requests;
}

static void what_fits_needs_no_window(void **state)
{
	struct transfer_plan plan = real_plan(true, 8 << 20, 8 << 20);
	struct transfer sides[2];
	struct window window;
	struct piece piece;

	(void)state;
	connect_sides(sides, &plan);
	fill_all(&sides[0]);
	operate(&sides[0], 100);
	assert_true(transfer_operated(&sides[0]));
	assert_false(transfer_window(&sides[0], 249, &window));
	assert_true(transfer_done_due(&sides[0]));
	assert_int_equal(transfer_done(&sides[0], 249), 8 << 20);
	assert_false(transfer_window(&sides[0], 10000, &window));
	assert_true(transfer_is_whole(&sides[1]));
	assert_false(transfer_copy(&sides[1], &piece));
	assert_null(transfer_accept_done(&sides[1], 8 << 20, 300));
	assert_true(transfer_copy(&sides[1], &piece));
	assert_int_equal(piece.size, 8 << 20);
	assert_false(transfer_window(&sides[1], 549, &window));
	/* its verdict takes long: it says that it is alive */
	assert_true(transfer_window(&sides[1], 550, &window));
	assert_int_equal(window.taken, 8 << 20);
}

static void a_window_for_its_age(void **state)
{
	struct transfer_plan plan = real_plan(true, 8 << 20, 8 << 20);
	struct transfer sides[2];
	struct window window;

	(void)state;
	connect_sides(sides, &plan);
	assert_int_equal(transfer_window_time(&sides[0]), TRANSFER_NEVER);
	assert_true(transfer_filled(&sides[0], 5000, false, 0));
	assert_int_equal(operate(&sides[0], 1000), 1);
	assert_int_equal(transfer_window_time(&sides[0]), 1250);
	assert_false(transfer_window(&sides[0], 1249, &window));
	assert_true(transfer_window(&sides[0], 1250, &window));
	assert_int_equal(window.ready, 5000);
	assert_false(window.end);
	assert_int_equal(transfer_window_time(&sides[0]), TRANSFER_NEVER);
}

/* What is on the disk is news as well, when all that was copied has been told. */
static void what_is_kept_later_is_reported(void **state)
{
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);
	struct window window = { .ready = 32 << 10 };
	struct transfer transfer;

	(void)state;
	plan.outgoing.present = false;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 0, 0, 0));
	assert_null(transfer_accept(&transfer, &window, 100));
	transfer_copied(&transfer, 32 << 10, 200);
	assert_true(transfer_window(&transfer, 200, &window));
	assert_int_equal(transfer_window_time(&transfer), TRANSFER_NEVER);
	transfer_kept(&transfer, 1000, 1000);
	assert_int_equal(transfer_window_time(&transfer), 1250);
	assert_true(transfer_window(&transfer, 1250, &window));
	assert_int_equal(window.kept, 1000);
}

static void a_quarter_ring_is_reported_at_once(void **state)
{
	struct transfer_plan plan = real_plan(true, 4 << 20, 1 << 20);
	struct transfer sides[2];
	struct window window;

	(void)state;
	connect_sides(sides, &plan);
	assert_true(transfer_filled(&sides[0], (256 << 10) - 1, false, 0));
	operate(&sides[0], 0);
	assert_false(transfer_window(&sides[0], 0, &window));
	assert_true(transfer_filled(&sides[0], 1, false, 0));
	operate(&sides[0], 0);
	assert_true(transfer_window(&sides[0], 0, &window));
	assert_int_equal(window.ready, 256 << 10);
}

static void requests_end_where_a_ring_ends(void **state)
{
	static const struct transfer_run expected[] = {
		{ .local = 0, .remote = 0, .size = 40960 },
		{ .local = 40960, .remote = 0, .size = 20480 },
		{ .local = 0, .remote = 20480, .size = 20480 },
		{ .local = 20480, .remote = 0, .size = 40960 },
	};
	struct transfer_plan plan = real_plan(true, 1 << 20, 61440);
	struct transfer transfer;
	struct transfer_run request;

	(void)state;
	plan.depth = 1;
	plan.share = 1; /* requests may be as long as the ring */
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 40960, 0, 0));
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct window room = { .taken = transfer.source.told_ready };

		fill_all(&transfer);
		assert_true(transfer_next(&transfer, 1, 0, &request));
		assert_int_equal(request.local, expected[i].local);
		assert_int_equal(request.remote, expected[i].remote);
		assert_int_equal(request.size, expected[i].size);
		assert_true(transfer_completed(&transfer, request.number, 0));
		assert_true(transfer_window(&transfer, 250, &room));
		room.taken = room.ready;
		room.ready = 0;
		assert_null(transfer_accept(&transfer, &room, 0));
	}
}

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
	assert_int_equal(transfer_announce(&transfer, 0), 0); /* nothing is there to be read */
	assert_null(transfer_peer_region(&transfer, length, 0, 0));
	assert_true(transfer_filled(&transfer, first, false, 0));
	return transfer;
}

/* In the middle of a run, of which the last one would have had the completion. */
static void a_rejected_request_was_not_posted(void **state)
{
	struct transfer transfer = writing(16, 100, 1 << 20, 1 << 20);
	struct transfer_run run;

	(void)state;
	assert_true(transfer_next(&transfer, 8, 0, &run));
	assert_int_equal(run.count, 4);
	assert_true(run.signaled);
	assert_true(transfer_next(&transfer, 3, 0, &run));
	assert_int_equal(run.number, 5);
	transfer_rejected(&transfer, 6);
	assert_int_equal(transfer_outstanding(&transfer), 5);
	assert_false(transfer_completed(&transfer, 6, 0));
	assert_true(transfer_completed(&transfer, 4, 0));
	assert_int_equal(transfer.operation.completed, 400);
	/* flushed, with a completion of its own */
	assert_true(transfer_completed(&transfer, 5, 0));
	assert_int_equal(transfer_outstanding(&transfer), 0);
	assert_int_equal(transfer.operation.completed, 400);
}

/* One behind the other or, which is for the provider to say, the last one that asked for it. */
static void what_is_flushed_is_counted_once(void **state)
{
	(void)state;
	for (int each = 0; each < 2; each++) {
		struct transfer transfer = writing(16, 100, 1 << 20, 1 << 20);
		struct transfer_run run;

		assert_true(transfer_next(&transfer, 16, 0, &run));
		assert_true(transfer_next(&transfer, 16, 0, &run));
		for (uint64_t number = each ? 1 : 4; number < 5; number++) {
			assert_int_equal(transfer.operation.completed, 0);
			assert_true(transfer_completed(&transfer, number, 0));
			assert_int_equal(transfer_outstanding(&transfer), 8 - number);
		}
		assert_int_equal(transfer.operation.completed, 400);
		assert_true(transfer_completed(&transfer, 8, 0));
		assert_int_equal(transfer.operation.completed, 800);
		assert_int_equal(transfer_outstanding(&transfer), 0);
	}
}

/* A pipe of single bytes: each is the last one for now. */
static void no_more_completions_are_asked_for_than_are_remembered(void **state)
{
	struct transfer transfer = writing(128, 100, 1 << 20, 1);
	struct transfer_run run;

	(void)state;
	for (uint64_t number = 1; number <= TRANSFER_SIGNALS; number++) {
		assert_true(transfer_next(&transfer, 32, 0, &run));
		assert_int_equal(run.number, number);
		assert_true(run.signaled);
		assert_false(transfer_next(&transfer, 32, 0, &run));
		assert_true(transfer_filled(&transfer, 1, false, 0));
	}
	assert_false(transfer_next(&transfer, 32, 0, &run));
	assert_true(transfer_completed(&transfer, 2, 0));
	assert_int_equal(transfer.operation.completed, 2);
	assert_true(transfer_next(&transfer, 32, 0, &run));
	assert_true(transfer_completed(&transfer, TRANSFER_SIGNALS + 1, 0));
	assert_int_equal(transfer.operation.completed, TRANSFER_SIGNALS + 1);
	assert_int_equal(transfer_outstanding(&transfer), 0);
}

static void the_first_request_is_owed_and_reported(void **state)
{
	struct transfer transfer = writing(16, 16384, 1 << 20, 1 << 20);
	struct transfer_run request;

	(void)state;
	assert_null(transfer_accept_done(&transfer, 0, 0)); /* or that would be owed */
	assert_false(transfer_is_owed(&transfer));
	assert_int_equal(transfer_window_time(&transfer), TRANSFER_NEVER);
	for (int64_t now = 100; now <= 200; now += 100) {
		assert_true(transfer_next(&transfer, 1, now, &request));
		assert_true(transfer_is_owed(&transfer));
		assert_int_equal(transfer_window_time(&transfer), 350);
	}
}

/* Nobody asked for it, or it came before. */
static void a_completion_that_cannot_be_completes_nothing(void **state)
{
	struct transfer transfer = writing(16, 16384, 1 << 20, 1 << 20), before;
	struct transfer_run request;

	(void)state;
	assert_false(transfer_completed(&transfer, 1, 0));
	assert_true(transfer_next(&transfer, 1, 0, &request));
	before = transfer;
	assert_false(transfer_completed(&transfer, 0, 0));
	assert_false(transfer_completed(&transfer, 2, 0));
	assert_memory_equal(&transfer, &before, sizeof(before));
	assert_true(transfer_completed(&transfer, 1, 0));
	assert_false(transfer_completed(&transfer, 1, 0));
}

/* More requests, and more bytes, than a short number counts. */
static void a_stream_of_terabytes(void **state)
{
	struct transfer_plan plan = real_plan(true, (uint64_t)3 << 39, 8 << 20);
	struct transfer transfer;
	struct window room = { 0 }, told;
	int64_t now = 0;

	(void)state;
	plan.incoming.present = false;
	plan.request_size = 1 << 20;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 8 << 20, 0, 0));
	while (!transfer_operated(&transfer)) {
		fill_all(&transfer);
		operate(&transfer, now += 250);
		if (transfer_window(&transfer, now, &told)) {
			room.received++;
			room.taken = told.ready;
			assert_null(transfer_accept(&transfer, &room, now));
		}
	}
	assert_int_equal(transfer_done(&transfer, now), (uint64_t)3 << 39);
}

/* ---- Tables: how much is in flight ---- */

static void a_request_is_no_longer_than_a_move_that_is_reported(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer transfer = writing(100, cases[i].most, 1 << 20, 1 << 20);
		struct transfer_run run;

		assert_null(transfer_peer_region(&transfer, cases[i].ring, 0, 0));
		assert_true(transfer_next(&transfer, 1, 0, &run));
		assert_true(run.size == cases[i].size);
		assert_true(transfer.operation.depth == cases[i].depth);
	}
}

/* Carries 64 MiB over a wire of so many bytes a millisecond; what is in flight in the end. */
static void more_is_in_flight_where_that_takes_little_time(void **state)
{
	static const struct {
		unsigned int depth;
		uint64_t wire, size, expected; /* bytes of a request; requests that may be there */
	} cases[] = {
		{ 16, 250, 65536, 4 },       /* 2 Mbit/s: a second of it is in flight at first */
		{ 16, 1000, 1 << 17, 4 },    /* 8 Mbit/s: 256 KiB took less than a quarter */
		{ 16, 12000, 1 << 20, 4 },   /* about 100 Mbit/s */
		{ 16, 1250000, 1 << 20, 8 }, /* 10 Gbit/s: 8 MiB, and no more */
		{ 2, 1250000, 1 << 20, 2 },
		{ 1, 250, 1 << 20, 1 }, /* nothing else could be shorter */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer transfer = writing(cases[i].depth, 1 << 20, 1 << 26, 1 << 26);
		struct transfer_operation *operation = &transfer.operation;
		int64_t now = 0;

		while (!transfer_operated(&transfer)) {
			struct transfer_run run;
			struct transfer_signal next;

			while (transfer_next(&transfer, 32, now, &run))
				;
			next = operation->signals[operation->signals_completed % TRANSFER_SIGNALS];
			now += (int64_t)((next.position - operation->completed) / cases[i].wire);
			assert_true(transfer_completed(&transfer, next.request, now));
		}
		assert_true(operation->size == cases[i].size);
		assert_true(operation->depth == cases[i].expected);
	}
}

/* Passes of one request, all with the same bytes. */
static void as_many_are_outstanding_as_may_be(void **state)
{
	(void)state;
	for (unsigned int depth = 1; depth < 40; depth++) {
		struct transfer_plan plan = real_plan(true, 64, 64);
		struct transfer transfer;
		struct transfer_run run;
		uint64_t last = 0, count = 0;

		plan.outgoing.passes = 100;
		plan.depth = depth;
		transfer_init(&transfer, &plan);
		assert_null(transfer_peer_region(&transfer, 64, 0, 0));
		fill_all(&transfer);
		while (transfer_next(&transfer, 32, 0, &run)) {
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
static void a_completion_is_asked_for_now_and_then(void **state)
{
	static const struct {
		unsigned int depth, interval;
		uint64_t size;
	} cases[] = {
		{ 1, 1, 100 },    { 3, 1, 100 },     { 4, 1, 100 },
		{ 7, 1, 100 },    { 8, 2, 100 },     { 16, 4, 100 },
		{ 100, 25, 100 }, { 128, 16, 4096 }, { 128, 1, 65536 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer transfer = writing(cases[i].depth, cases[i].size, 1 << 30, 1 << 28);
		struct transfer_run request;

		for (unsigned int number = 1; transfer_next(&transfer, 1, 0, &request); number++)
			assert_int_equal(request.signaled, number % cases[i].interval == 0);
	}
}

/* And for the last that can be posted for now: what comes next may depend on it. */
static void the_last_request_for_now_is_signaled(void **state)
{
	struct transfer transfer = writing(16, 100, 1 << 20, 250);
	struct transfer_run request;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_true(transfer_next(&transfer, 1, 0, &request));
		assert_int_equal(request.signaled, i == 2);
	}
	assert_int_equal(request.size, 50);
	assert_false(transfer_next(&transfer, 1, 0, &request));
}

/* 1,050 bytes: ten requests and a short one. */
static void a_run_ends_with_a_completion(void **state)
{
	struct transfer transfer = writing(16, 100, 1 << 20, 1050);
	static const struct {
		unsigned int most, count;
		uint64_t size;
		bool signaled;
	} cases[] = {
		{ 0, 0, 0, false },  { 3, 3, 100, false },  { 32, 1, 100, true },
		{ 4, 4, 100, true }, { 32, 2, 100, false }, { 32, 1, 50, true },
		{ 32, 0, 0, false },
	};
	uint64_t number = 1, position = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer_run run = { .count = 0 };

		assert_int_equal(transfer_next(&transfer, cases[i].most, 0, &run),
				 cases[i].count > 0);
		assert_int_equal(run.count, cases[i].count);
		if (run.count == 0)
			continue;
		assert_int_equal(run.number, number);
		assert_int_equal(run.local, position);
		assert_int_equal(run.remote, position);
		assert_int_equal(run.size, cases[i].size);
		assert_int_equal(run.stride, cases[i].size);
		assert_int_equal(run.signaled, cases[i].signaled);
		number += run.count;
		position += run.count * run.size;
	}
}

/* ---- Property: requests one at a time and in runs are the same ---- */

#define BATCH 40

/* Two sides that everything happens to alike. */
struct twins {
	struct transfer one, many; /* that is asked for one request at a time, and for more */
	unsigned int most;         /* so many */
	uint64_t ids[4096];        /* of those that ask for a completion */
	unsigned int signaled, completed;
	int64_t now;
};

/* Request `i` of a run, alone. */
static void assert_request_equal(const struct transfer_run *one, const struct transfer_run *run,
				 unsigned int i)
{
	assert_int_equal(one->count, 1);
	assert_true(one->number == run->number + i);
	assert_true(one->local == run->local + i * run->stride);
	assert_true(one->remote == run->remote + i * run->stride);
	assert_true(one->size == run->size);
	assert_int_equal(one->signaled, run->signaled && i + 1 == run->count);
}

static void post_alike(struct twins *twins)
{
	struct transfer_run run, one;

	while (transfer_next(&twins->many, twins->most, twins->now, &run)) {
		assert_in_range(run.count, 1, twins->most);
		for (unsigned int i = 0; i < run.count; i++) {
			assert_true(transfer_next(&twins->one, 1, twins->now, &one));
			assert_request_equal(&one, &run, i);
			if (one.signaled)
				twins->ids[twins->signaled++ % 4096] = one.number;
		}
	}
	assert_false(transfer_next(&twins->one, 1, twins->now, &one));
	assert_memory_equal(&twins->one, &twins->many, sizeof(twins->one));
}

/* A worker moves most of a piece, the peer takes what it is told, and one completion comes. */
static void go_on(struct transfer *transfer, uint64_t id, struct window *room, int64_t now)
{
	struct piece piece;
	struct window told;

	if (transfer_fill(transfer, &piece))
		assert_true(transfer_filled(transfer, (2 * piece.size + 2) / 3, false, now));
	if (transfer_copy(transfer, &piece))
		transfer_copied(transfer, piece.size, now);
	if (id)
		assert_true(transfer_completed(transfer, id, now));
	if (transfer_window(transfer, now, &told)) {
		room->received = transfer->credits.sent;
		room->taken = told.ready;
		assert_null(transfer_accept(transfer, room, now));
	}
}

static void go_on_alike(struct twins *twins, uint64_t ready)
{
	struct window room = { .ready = ready }, same = room;
	uint64_t id = 0;

	if (twins->completed < twins->signaled)
		id = twins->ids[twins->completed++ % 4096];
	twins->now += 25;
	go_on(&twins->one, id, &room, twins->now);
	go_on(&twins->many, id, &same, twins->now);
}

static const struct batch_case {
	bool writes;
	unsigned int depth;
	uint64_t length, passes, ring, announced, size;
} batch_cases[] = {
	{ true, 128, 64, 5000, 64, 64, 1 << 20 }, /* a request is a whole pass */
	{ true, 100, 1 << 20, 1, 1 << 20, 1 << 20, 1000 },
	{ true, 16, 1 << 20, 1, 61440, 40960, 5000 },    /* the ends of both rings */
	{ true, 8, 100000, 3, 30000, 100000, 4096 },     /* passes by a short ring */
	{ true, 5, 100000, 1, 100000, 100000, 1 << 20 }, /* fewer than a request */
	{ true, 1, 100000, 2, 100000, 100000, 4096 },
	{ true, 16, 32 << 20, 1, 8 << 20, 8 << 20, 1 << 20 }, /* waits for bytes in flight */
	{ false, 16, 100000, 30, 100000, 100000, 777 },
	{ false, 7, 100000, 3, 30000, 100000, 1 << 20 },
	{ false, 64, 4096, 100, 4096, 4096, 4096 },
};

static void operate_alike(const struct batch_case *this, unsigned int most)
{
	struct transfer_plan plan = real_plan(this->writes, this->length, this->ring);
	struct stream_plan *stream = this->writes ? &plan.outgoing : &plan.incoming;
	uint64_t ready = this->writes ? 0 : this->announced;
	struct twins twins = { .most = most };

	plan.outgoing.present = this->writes;
	plan.incoming.present = !this->writes;
	stream->passes = this->passes;
	plan.depth = this->depth;
	plan.request_size = this->size;
	transfer_init(&twins.one, &plan);
	assert_null(transfer_peer_region(&twins.one, this->announced, ready, 0));
	twins.many = twins.one;
	for (; !transfer_operated(&twins.one); go_on_alike(&twins, ready))
		post_alike(&twins);
}

static void runs_are_the_same_requests(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(batch_cases) / sizeof(batch_cases[0]); i++)
		for (unsigned int most = 1; most <= BATCH; most++)
			operate_alike(&batch_cases[i], most);
}

/* ---- Tables: passes ---- */

static void passes_that_fit_repeat(void **state)
{
	struct transfer_plan plan = real_plan(true, 100000, 100000);
	struct transfer sides[2];
	struct window window;
	struct piece piece;

	(void)state;
	plan.outgoing.passes = plan.incoming.passes = 1000;
	connect_sides(sides, &plan);
	fill_all(&sides[0]);
	assert_int_equal(sides[0].source.filled, 100000);
	operate(&sides[0], 0);
	assert_true(transfer_operated(&sides[0]));
	assert_true(transfer_window(&sides[0], 250, &window));
	assert_int_equal(window.ready, 100000000);
	assert_null(transfer_accept(&sides[1], &window, 250));
	assert_int_equal(transfer_done(&sides[0], 250), 100000);
	assert_null(transfer_accept_done(&sides[1], 100000, 300));
	assert_true(transfer_copy(&sides[1], &piece));
	assert_int_equal(piece.size, 100000);
}

static void verified_passes_are_one_stream(void **state)
{
	struct transfer_plan plan = real_plan(true, 100000, 100000);
	struct transfer sides[2];

	(void)state;
	plan.outgoing.passes = plan.incoming.passes = 1000;
	plan.outgoing.every_pass = plan.incoming.every_pass = true;
	connect_sides(sides, &plan);
	fill_all(&sides[0]);
	operate(&sides[0], 0);
	assert_int_equal(sides[0].operation.posted, 100000);
	assert_false(transfer_is_whole(&sides[1]));
	assert_int_equal(sides[1].sink.stream.length, 100000000);
}

static void a_time_that_is_up_ends_with_the_pass(void **state)
{
	for (int writes = 0; writes < 2; writes++) {
		struct transfer_plan plan = real_plan(writes, 100000, 100000);
		struct transfer sides[2];
		struct transfer_run request;

		(void)state;
		plan.outgoing.passes = plan.incoming.passes = 0;
		transfer_init(&sides[0], &plan);
		assert_null(transfer_peer_region(&sides[0], 100000, 100000, 0));
		fill_all(&sides[0]);
		for (int i = 0; i < 1001; i++) {
			assert_true(transfer_next(&sides[0], 1, 0, &request));
			if (request.signaled)
				assert_true(transfer_completed(&sides[0], request.number, 0));
		}
		assert_false(transfer_operated(&sides[0]));
		transfer_stop(&sides[0]);
		operate(&sides[0], 0);
		assert_true(transfer_operated(&sides[0]));
		assert_int_equal(sides[0].operation.posted % 100000, 0);
		assert_true(transfer_done_due(&sides[0]));
		assert_int_equal(transfer_done(&sides[0], 0), 100000);
	}
}

/* A stream that is timed ends by its source, and one of counted passes by its length. */
static void only_passes_that_repeat_are_stopped(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct transfer_plan plan = real_plan(true, 100000, 100000);
		struct transfer transfer, before;

		plan.outgoing.passes = kind ? 3 : 0;
		plan.outgoing.every_pass = !kind;
		transfer_init(&transfer, &plan);
		assert_null(transfer_peer_region(&transfer, 100000, 0, 0));
		before = transfer;
		transfer_stop(&transfer);
		assert_memory_equal(&transfer, &before, sizeof(before));
	}
}

/* Through a ring of this side's that is shorter than a pass, the source is ahead of the wire. */
static void a_time_that_is_up_ends_with_the_pass_that_the_source_has_begun(void **state)
{
	struct transfer_plan plan = real_plan(true, 100000, 30000);
	struct transfer transfer;

	(void)state;
	plan.outgoing.passes = 0;
	plan.incoming.present = false;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 100000, 0, 0));
	while (transfer.source.filled < 90000) {
		assert_true(transfer_filled(&transfer, 30000, false, 0));
		operate(&transfer, 0);
	}
	assert_true(transfer_filled(&transfer, 30000, false, 0));
	transfer_stop(&transfer);
	assert_int_equal(transfer.source.stream.length, 200000);
	while (!transfer_operated(&transfer)) {
		operate(&transfer, 0);
		fill_all(&transfer);
	}
	transfer_stop(&transfer); /* once is enough */
	assert_int_equal(transfer.source.stream.length, 200000);
}

/* What is ready in MSG_MR is all that a timed READ of the same bytes needs: it has no other end. */
static void a_timed_read_that_repeats_marks_no_end_again(void **state)
{
	struct transfer_plan plan = real_plan(false, 100000, 100000);
	struct transfer source, reader;
	struct window window;
	uint64_t ready;

	(void)state;
	plan.outgoing.passes = plan.incoming.passes = 0;
	transfer_init(&source, &plan);
	transfer_init(&reader, &plan);
	assert_true(transfer_filled(&source, 100000, false, 0));
	ready = transfer_announce(&source, 0);
	assert_int_equal(ready, 100000);
	assert_null(transfer_peer_region(&reader, 100000, ready, 0));
	if (transfer_window(&source, 1000, &window))
		assert_null(transfer_accept(&reader, &window, 1000));
	assert_true(transfer_window_time(&source) == TRANSFER_NEVER);
}

static void a_file_that_shrank_is_no_stream(void **state)
{
	struct transfer_plan plan = real_plan(true, 100000, 4096);
	struct transfer transfer;

	(void)state;
	transfer_init(&transfer, &plan);
	assert_false(transfer_filled(&transfer, 4097, false, 0));
	assert_false(transfer_filled(&transfer, 1000, true, 0));
	assert_true(transfer_filled(&transfer, 1000, false, 0));
}

/* ---- Tables: lengths ---- */

static void a_product_that_overflows_is_no_unknown_length(void **state)
{
	struct stream_plan plan = { .present = true,
				    .every_pass = true,
				    .length = (uint64_t)1 << 40,
				    .passes = (uint64_t)1 << 40 };

	(void)state;
	assert_true(transfer_stream_length(&plan) == TRANSFER_UNKNOWN - 1);
	plan.passes = 0;
	assert_true(transfer_stream_length(&plan) == TRANSFER_UNKNOWN);
	plan.passes = 3;
	assert_true(transfer_stream_length(&plan) == (uint64_t)3 << 40);
	plan.every_pass = false;
	assert_true(transfer_stream_length(&plan) == (uint64_t)1 << 40);
	/* this product fits into 64 bits, and has them all set */
	plan = (struct stream_plan){
		.present = true, .every_pass = true, .length = 3, .passes = UINT64_MAX / 3
	};
	assert_true(transfer_stream_length(&plan) == TRANSFER_UNKNOWN - 1);
}

/* A quarter of a ring, and of the shortest ones a byte. */
static void every_move_in_a_tiny_ring_is_reported(void **state)
{
	struct transfer_plan plan = real_plan(false, 1 << 20, 1);

	(void)state;
	for (plan.outgoing.ring = 1; plan.outgoing.ring < 10; plan.outgoing.ring++) {
		struct transfer transfer;

		transfer_init(&transfer, &plan);
		assert_int_equal(transfer.source.stream.quarter, plan.outgoing.ring < 8 ? 1 : 2);
	}
}

/* ---- Tables: what a peer may say ---- */

/* READ: of its region no more can be ready than there is, nor than the stream has. */
static void a_region_that_is_ready_beyond_its_end(void **state)
{
	static const struct {
		uint64_t ring, ready;
		const char *error;
	} cases[] = {
		{ 1000, 1000, NULL },      { 1000, 1001, "is ready beyond its end" },
		{ 1 << 20, 100000, NULL }, { 1 << 20, 100001, "is ready beyond its end" },
		{ 0, 0, "has no memory" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer_plan plan = real_plan(false, 100000, 100000);
		struct transfer transfer;
		const char *error;

		transfer_init(&transfer, &plan);
		error = transfer_peer_region(&transfer, cases[i].ring, cases[i].ready, 0);
		if (cases[i].error)
			assert_string_equal(error, cases[i].error);
		else
			assert_null(error);
	}
}

/* Of a stream whose end nobody knows before, in READ, where the peer announces the ring. */
static void no_peer_says_the_number_that_means_unknown(void **state)
{
	struct transfer_plan plan = real_plan(false, TRANSFER_UNKNOWN, 64 << 10);
	struct window window = { .ready = UINT64_MAX };
	struct transfer transfer;

	(void)state;
	transfer_init(&transfer, &plan);
	assert_string_equal(transfer_peer_region(&transfer, UINT64_MAX, UINT64_MAX, 0),
			    "is ready beyond its end");
	assert_null(transfer_peer_region(&transfer, UINT64_MAX, 1000, 0));
	assert_true(transfer.sink.stream.length == TRANSFER_UNKNOWN);
	assert_false(transfer.sink.stream.quiet);
	assert_string_equal(transfer_accept(&transfer, &window, 0),
			    "is ready beyond what was agreed");
	window.end = true;
	assert_string_equal(transfer_accept(&transfer, &window, 0),
			    "is ready beyond what was agreed");
	window = (struct window){ .ready = UINT64_MAX - 1 };
	assert_null(transfer_accept(&transfer, &window, 0));
	assert_true(transfer.sink.stream.length == TRANSFER_UNKNOWN);
}

/* READ both ways, 1 MiB through 64 KiB; told: ready 50000, taken 40000; the peer's: the same. */
static struct transfer in_the_middle(void)
{
	struct transfer_plan plan = real_plan(false, 1 << 20, 64 << 10);
	struct transfer transfer;
	struct window window;

	transfer_init(&transfer, &plan);
	assert_int_equal(transfer_announce(&transfer, 0), 0);
	assert_null(transfer_peer_region(&transfer, 64 << 10, 40000, 0));
	assert_true(transfer_filled(&transfer, 50000, false, 0));
	operate(&transfer, 0);
	assert_true(transfer_window(&transfer, 0, &window));
	window = (struct window){ .received = 1, .ready = 50000, .taken = 40000, .kept = 30000 };
	assert_null(transfer_accept(&transfer, &window, 0));
	return transfer;
}

static void windows_that_break_a_rule(void **state)
{
	static const struct {
		struct window window;
		const char *error;
	} cases[] = {
		{ { 1, 50001, 40000, 30000, false }, NULL },
		{ { 1, 50000, 40001, 30000, false }, NULL },
		{ { 1, 50000, 40000, 30001, false }, NULL },
		{ { 1, 50000, 50000, 50000, false }, NULL },
		{ { 1, 40000 + 65536, 40000, 30000, false }, NULL },
		{ { 1, 49999, 40000, 30000, false }, "goes backwards in what is ready" },
		{ { 1, 50000, 39999, 30000, false }, "goes backwards in what is taken" },
		{ { 1, 50000, 40000, 29999, false }, "goes backwards in what is kept" },
		{ { 0, 50001, 40000, 30000, false }, "goes backwards in what it has received" },
		{ { 2, 50001, 40000, 30000, false }, "confirms more windows than were sent" },
		{ { 1, 40001 + 65536, 40000, 30000, false }, "is ready beyond the ring" },
		{ { 1, UINT64_MAX, 40000, 30000, false }, "is ready beyond what was agreed" },
		{ { 1, (1 << 20) + 1, 40000, 30000, false }, "is ready beyond what was agreed" },
		{ { 1, 50000, 50001, 30000, false }, "takes what was not ready" },
		{ { 1, 50000, 40000, 50001, false }, "keeps what was not ready" },
		{ { 1, 50001, 40000, 30000, true }, "ends before what was agreed" },
		{ { 1, 50000, 40000, 30000, false }, "moves nothing" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transfer transfer = in_the_middle(), before = transfer;
		const char *error = transfer_accept(&transfer, &cases[i].window, 0);

		if (cases[i].error) {
			assert_non_null(error);
			assert_string_equal(error, cases[i].error);
			assert_memory_equal(&transfer, &before, sizeof(before));
		} else {
			assert_null(error);
		}
	}
}

static void after_the_end_nothing_is_ready(void **state)
{
	struct transfer_plan plan = real_plan(true, TRANSFER_UNKNOWN, 64 << 10);
	struct transfer transfer;
	struct window window = { .ready = 1000, .end = true };

	(void)state;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 64 << 10, 0, 0));
	assert_string_equal(transfer_accept_done(&transfer, 1000, 0),
			    "is done before its end is marked");
	assert_null(transfer_accept(&transfer, &window, 0));
	assert_string_equal(transfer_accept(&transfer, &window, 0), "ends twice");
	window.ready = 1001;
	window.end = false;
	assert_string_equal(transfer_accept(&transfer, &window, 0), "goes on after the end");
	assert_string_equal(transfer_accept_done(&transfer, 999, 0),
			    "is done with other bytes than agreed");
	assert_null(transfer_accept_done(&transfer, 1000, 0));
	assert_string_equal(transfer_accept_done(&transfer, 1000, 0), "is done twice");
}

static void done_before_all_can_have_been_read(void **state)
{
	struct transfer transfer = in_the_middle();
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);

	(void)state;
	assert_string_equal(transfer_accept_done(&transfer, 1 << 20, 0),
			    "is done reading what was not ready");
	transfer_init(&transfer, &plan);
	assert_string_equal(transfer_accept_done(&transfer, 1 << 20, 0), "is done beyond the ring");
}

/* By one byte a message, as many as it has credits for: an answer gives them back. */
static void a_flood_is_bound_by_credits(void **state)
{
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);
	struct transfer transfer;
	struct window window = { 0 }, answer;

	(void)state;
	transfer_init(&transfer, &plan);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < TRANSFER_CREDITS; i++) {
			window.ready++;
			assert_null(transfer_accept(&transfer, &window, 0));
		}
		window.ready++;
		assert_string_equal(transfer_accept(&transfer, &window, 0),
				    "comes without a credit");
		window.ready--;
		assert_true(transfer_window(&transfer, 0, &answer));
		assert_int_equal(answer.received, round * TRANSFER_CREDITS);
		assert_string_equal(transfer_accept(&transfer, &window, 0), "moves nothing");
	}
}

static void credits_run_out_and_come_back(void **state)
{
	struct transfer_plan plan = real_plan(true, 8 << 20, 8 << 20);
	struct transfer transfer;
	struct window window, peer = { 0 };
	int64_t now = 0;

	(void)state;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 8 << 20, 0, 0));
	for (int i = 0; i < 31; i++) {
		assert_true(transfer_filled(&transfer, 1, false, 0));
		operate(&transfer, now);
		assert_true(transfer_window(&transfer, now += 250, &window));
	}
	assert_true(transfer_filled(&transfer, 1, false, 0));
	operate(&transfer, now);
	assert_int_equal(transfer_window_time(&transfer), TRANSFER_NEVER);
	assert_false(transfer_window(&transfer, now += 250, &window));
	for (int i = 0; i < 16; i++) {
		assert_false(transfer_window(&transfer, now, &window));
		peer.ready++;
		assert_null(transfer_accept(&transfer, &peer, now));
	}
	/* the 32nd: only because it answers */
	assert_true(transfer_window(&transfer, now, &window));
	assert_int_equal(window.received, 16);
	for (peer.received = 16; transfer.credits.received - transfer.credits.told < 15;) {
		peer.ready++;
		assert_null(transfer_accept(&transfer, &peer, now));
	}
	assert_true(transfer.credits.sent - transfer.credits.confirmed == 16);
}

/* ---- Tables: deadlines ---- */

static void a_peer_that_waits_for_this_side_owes_nothing(void **state)
{
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);
	struct transfer transfer;
	struct window window = { .ready = 64 << 10 };

	(void)state;
	plan.outgoing.present = false;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 0, 0, 10));
	assert_true(transfer_is_owed(&transfer));
	assert_null(transfer_accept(&transfer, &window, 20));
	/* the ring is full, and it is this side's worker that has to copy */
	assert_false(transfer_is_owed(&transfer));
	transfer_copied(&transfer, 32 << 10, 30);
	assert_false(transfer_is_owed(&transfer));
	assert_true(transfer_window(&transfer, 40, &window));
	assert_true(transfer_is_owed(&transfer));
}

/* Only what moves extends a deadline: a number, or the end. */
static void windows_that_move_nothing_are_not_counted_as_moves(void **state)
{
	struct transfer_plan plan = real_plan(true, TRANSFER_UNKNOWN, 64 << 10);
	struct transfer transfer;
	struct window told, window = { .ready = 1000 };

	(void)state;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 64 << 10, 0, 0));
	assert_true(transfer_filled(&transfer, 2000, false, 0));
	operate(&transfer, 0);
	assert_true(transfer_window(&transfer, 250, &told));
	assert_int_equal(transfer.moves, 0);
	assert_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 1);
	window.received = 1;
	assert_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 1);
	window.taken = 1000;
	assert_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 2);
	window.kept = 1000;
	assert_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 3);
	assert_non_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 3);
	window.end = true;
	assert_null(transfer_accept(&transfer, &window, 300));
	assert_int_equal(transfer.moves, 4);
}

/* How far it came may be told behind that, which is no move any more, nor an end. */
static void a_timed_write_that_is_done_owes_nothing(void **state)
{
	struct transfer_plan plan = real_plan(true, 100000, 100000);
	struct window told, window = { .ready = 100000 };
	struct transfer transfer;

	(void)state;
	plan.outgoing.present = false;
	plan.incoming.passes = 0;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 0, 0, 0));
	assert_null(transfer_accept(&transfer, &window, 0));
	assert_true(transfer_is_owed(&transfer));
	assert_null(transfer_accept_done(&transfer, 100000, 0));
	assert_false(transfer_is_owed(&transfer));
	assert_int_equal(transfer.moves, 1);
	assert_true(transfer_window(&transfer, 250, &told));
	window = (struct window){ .received = 1, .ready = 300000 };
	assert_null(transfer_accept(&transfer, &window, 0));
	assert_int_equal(transfer.moves, 1);
	window.end = true;
	assert_string_equal(transfer_accept(&transfer, &window, 0), "ends twice");
}

/* READ: what is ready is for the peer to read, and what it was not told is not. */
static void a_peer_owes_to_read_what_is_ready(void **state)
{
	struct transfer_plan plan = real_plan(false, 1 << 20, 64 << 10);
	struct window window = { .taken = 40000 };
	struct transfer transfer;

	(void)state;
	plan.incoming.present = false;
	transfer_init(&transfer, &plan);
	assert_true(transfer_filled(&transfer, 40000, false, 0));
	assert_int_equal(transfer_announce(&transfer, 0), 40000);
	assert_null(transfer_peer_region(&transfer, 0, 0, 10));
	assert_true(transfer_is_owed(&transfer));
	assert_null(transfer_accept(&transfer, &window, 20));
	assert_false(transfer_is_owed(&transfer));
	assert_true(transfer_filled(&transfer, 1000, false, 30));
	assert_false(transfer_is_owed(&transfer));
	assert_true(transfer_window(&transfer, 300, &window));
	assert_true(transfer_is_owed(&transfer));
}

/* WRITE: to take what it knows to be ready. That its adapter completes more does not count
 * meanwhile. */
static void a_peer_owes_to_take_what_is_ready(void **state)
{
	struct transfer_plan plan = real_plan(true, 1 << 20, 64 << 10);
	struct transfer_run request;
	struct transfer transfer;
	struct window window;

	(void)state;
	plan.incoming.present = false;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 64 << 10, 0, 0));
	assert_null(transfer_accept_done(&transfer, 0, 10));
	assert_true(transfer_filled(&transfer, 10000, false, 20));
	assert_int_equal(transfer_next(&transfer, 1, 20, &request), 1);
	assert_true(transfer_is_owed(&transfer)); /* the wire does */
	assert_false(transfer_waits_for_peer(&transfer));
	assert_true(transfer_completed(&transfer, request.number, 30));
	assert_false(transfer_is_owed(&transfer));
	assert_true(transfer_window(&transfer, 300, &window));
	assert_int_equal(window.ready, 10000);
	assert_true(transfer_waits_for_peer(&transfer));
	assert_true(transfer_filled(&transfer, 1000, false, 310));
	assert_int_equal(transfer_next(&transfer, 1, 310, &request), 1);
	assert_true(transfer_completed(&transfer, request.number, 320));
	assert_true(transfer_is_owed(&transfer));
	window = (struct window){ .received = 1, .taken = 9999 };
	assert_null(transfer_accept(&transfer, &window, 330));
	assert_true(transfer_is_owed(&transfer));
	window = (struct window){ .received = 1, .taken = 10000 };
	assert_null(transfer_accept(&transfer, &window, 340));
	assert_false(transfer_waits_for_peer(&transfer));
	assert_false(transfer_is_owed(&transfer));
}

/* MSG_DONE says that the peer has read all passes: it owes nothing more. */
static void who_is_done_has_read_everything(void **state)
{
	struct transfer_plan plan = real_plan(false, 100000, 100000);
	struct transfer transfer;

	(void)state;
	plan.incoming.present = false;
	for (plan.outgoing.passes = 1; plan.outgoing.passes < 4; plan.outgoing.passes++) {
		transfer_init(&transfer, &plan);
		fill_all(&transfer);
		transfer_announce(&transfer, 0);
		assert_null(transfer_peer_region(&transfer, 0, 0, 10));
		assert_true(transfer_is_owed(&transfer));
		assert_null(transfer_accept_done(&transfer, 0, 20));
		assert_false(transfer_is_owed(&transfer));
		assert_int_equal(transfer.source.taken, plan.outgoing.passes * 100000);
	}
}

/* Even where the peer's program has nothing left to do. */
static void the_wire_owes_what_is_in_flight(void **state)
{
	struct transfer_plan plan = real_plan(false, 100000, 100000);
	struct transfer_run request;
	struct transfer transfer;

	(void)state;
	plan.outgoing.present = false;
	transfer_init(&transfer, &plan);
	assert_null(transfer_peer_region(&transfer, 100000, 100000, 10));
	assert_true(transfer_is_owed(&transfer)); /* MSG_DONE at least */
	while (transfer_next(&transfer, 1, 20, &request))
		;
	assert_null(transfer_accept_done(&transfer, 100000, 30));
	assert_true(transfer_is_owed(&transfer));
	assert_true(transfer_completed(&transfer, request.number, 40));
	assert_true(transfer_operated(&transfer));
	assert_false(transfer_is_owed(&transfer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_needs_no_window),
		cmocka_unit_test(a_window_for_its_age),
		cmocka_unit_test(what_is_kept_later_is_reported),
		cmocka_unit_test(a_quarter_ring_is_reported_at_once),
		cmocka_unit_test(requests_end_where_a_ring_ends),
		cmocka_unit_test(a_rejected_request_was_not_posted),
		cmocka_unit_test(what_is_flushed_is_counted_once),
		cmocka_unit_test(no_more_completions_are_asked_for_than_are_remembered),
		cmocka_unit_test(the_first_request_is_owed_and_reported),
		cmocka_unit_test(a_completion_that_cannot_be_completes_nothing),
		cmocka_unit_test(a_stream_of_terabytes),
		cmocka_unit_test(a_request_is_no_longer_than_a_move_that_is_reported),
		cmocka_unit_test(more_is_in_flight_where_that_takes_little_time),
		cmocka_unit_test(as_many_are_outstanding_as_may_be),
		cmocka_unit_test(a_completion_is_asked_for_now_and_then),
		cmocka_unit_test(the_last_request_for_now_is_signaled),
		cmocka_unit_test(a_run_ends_with_a_completion),
		cmocka_unit_test(runs_are_the_same_requests),
		cmocka_unit_test(passes_that_fit_repeat),
		cmocka_unit_test(verified_passes_are_one_stream),
		cmocka_unit_test(a_time_that_is_up_ends_with_the_pass),
		cmocka_unit_test(a_time_that_is_up_ends_with_the_pass_that_the_source_has_begun),
		cmocka_unit_test(only_passes_that_repeat_are_stopped),
		cmocka_unit_test(a_product_that_overflows_is_no_unknown_length),
		cmocka_unit_test(every_move_in_a_tiny_ring_is_reported),
		cmocka_unit_test(a_region_that_is_ready_beyond_its_end),
		cmocka_unit_test(a_timed_read_that_repeats_marks_no_end_again),
		cmocka_unit_test(a_file_that_shrank_is_no_stream),
		cmocka_unit_test(no_peer_says_the_number_that_means_unknown),
		cmocka_unit_test(windows_that_break_a_rule),
		cmocka_unit_test(after_the_end_nothing_is_ready),
		cmocka_unit_test(done_before_all_can_have_been_read),
		cmocka_unit_test(a_flood_is_bound_by_credits),
		cmocka_unit_test(credits_run_out_and_come_back),
		cmocka_unit_test(a_peer_that_waits_for_this_side_owes_nothing),
		cmocka_unit_test(windows_that_move_nothing_are_not_counted_as_moves),
		cmocka_unit_test(a_timed_write_that_is_done_owes_nothing),
		cmocka_unit_test(a_peer_owes_to_read_what_is_ready),
		cmocka_unit_test(a_peer_owes_to_take_what_is_ready),
		cmocka_unit_test(who_is_done_has_read_everything),
		cmocka_unit_test(the_wire_owes_what_is_in_flight),
		cmocka_unit_test(a_slow_wire_is_seen_to_move),
		cmocka_unit_test(a_slow_disk_is_seen_to_move),
		cmocka_unit_test(a_sink_that_stores_behind_both_is_seen_to_move),
		cmocka_unit_test(no_honest_side_is_refused),
		cmocka_unit_test(explore_one_way),
		cmocka_unit_test(explore_both_ways),
		cmocka_unit_test(explore_passes),
		cmocka_unit_test(explore_numbers),
		cmocka_unit_test(every_break_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
