// SPDX-License-Identifier: MIT
/*
 * The scripted peer behaves correctly, unless the script says otherwise. A copy of the programs'
 * own arithmetic (transfer.c), which other tests verify, decides what the peer may send, read and
 * write, and when. The peer also checks everything that the program sends and accesses.
 */
#include "fake-verbs.h"

#include "../../rdma-common/status.h"
#include "../peer/deviation.h"

#include <xxhash.h>

#define RKEY 0x4242
#define TEXT "text of the scripted peer"
/* Bytes of payload in each direction of a session without a hello. */
#define TUTORIAL_PAYLOAD 1024
/* Maximum bytes of a ring, as in the programs. */
#define MAX_RING (8U << 20)
/* Maximum bytes that the peer stores of a stream, which may be longer than a ring. */
#define MAX_STORED (2 * MAX_RING)
/* Maximum bytes stored of a stream of unknown length, and bytes of its ring. */
#define MAX_UNKNOWN     (1U << 20)
#define RING_OF_UNKNOWN (16U << 10)
#define DEVICE          "double0"
#define PEER_DEVICE     "peer0"
/* The reserved flags of a hello (rdma-pair(7)). */
#define RESERVED_FLAGS (0x78 | 0xfe00)
/* Number of passes of a timed stream or a timed operation of the peer. */
#define TIMED_PASSES 3

/* Time, in milliseconds, between two stores of a peer with stores:N. */
#define STORE_MILLISECONDS 250

static unsigned int served;

unsigned int peers_served(void)
{
	return served;
}

/* The operation of the latest client if it runs --check. If it is -1, the script decides. */
static int checked_operation = -1;

static bool writes(void)
{
	return checked_operation < 0 ? scripted("write")
				     : checked_operation == 1; /* OPERATION_WRITE */
}

/* Return true if the peer sends no hello, like the tutorial's program. */
static bool is_tutorial(void)
{
	return scripted("tutorial") || scripted("no-hello");
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Return the stream that the program's operation carries. */
static const struct transfer_stream *program_stream(const struct peer *peer)
{
	return writes() ? &peer->transfer.sink.stream : &peer->transfer.source.stream;
}

/* ---- Hellos, and the plan of a session ---- */

REDIRECTED(fclose);
static void read_outgoing(struct peer *peer, const char *name)
{
	FILE *file = fopen(name, "r");

	forbid(!file || fread(peer->outgoing, 1, peer->outgoing_length, file) <
				peer->outgoing_length,
	       "the script needs payload:N, and as many bytes in '%s'", name);
	__real_fclose(file);
}

/* Set the payload to the pattern of --size. */
static void fill_pattern(struct peer *peer)
{
	for (uint64_t i = 0; i < peer->outgoing_length; i++)
		peer->outgoing[i] =
			(uint8_t)((i / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) >> i % 8 * 8);
}

/*
 * Initialize the peer, with one pass of its payload: file:NAME, the pattern for wanted:N, or TEXT
 * and zeros. Bytes beyond the tutorial's payload vary with their position.
 */
void peer_start(struct peer *peer, struct fake_id *id)
{
	const char *file = scripted_text("file");

	peer->id = id;
	peer->outgoing_length = scripted_number("payload", TUTORIAL_PAYLOAD);
	peer->outgoing = allocate(peer->outgoing_length + sizeof(TEXT));
	peer->wanted = scripted_number("wanted", 0);
	if (peer->wanted > 0) {
		fill_pattern(peer);
		return;
	}
	if (file) {
		read_outgoing(peer, file);
		return;
	}
	for (uint64_t i = TUTORIAL_PAYLOAD; i < peer->outgoing_length; i++)
		peer->outgoing[i] = (uint8_t)(i * 2654435761U >> 16);
	copy_bytes(peer->outgoing, TEXT, sizeof(TEXT));
}

void peer_stop(struct peer *peer)
{
	free(peer->outgoing);
	free(peer->incoming);
	free(peer->source);
	free(peer->sink);
}

/*
 * Return true if the peer has a payload: in a one-way session one side has none. `passive`: the
 * peer is the client.
 */
static bool peer_sends(bool passive)
{
	return !scripted("one-way") || passive == writes();
}

static struct hello own_hello(const struct peer *peer, bool passive)
{
	bool unknown = scripted("unknown") && peer_sends(passive);
	unsigned int flags = (scripted("one-way") ? HELLO_ONE_WAY : 0) |
			     (unknown ? HELLO_UNKNOWN : 0) |
			     (peer->wanted > 0 && !scripted("no-pattern") ? HELLO_PATTERN : 0) |
			     (scripted("counts") ? HELLO_COUNTS : 0);
	const char *device = scripted_text("device");
	struct hello hello = {
		.version = (uint8_t)scripted_number("version", HELLO_VERSION),
		.operation = writes(),
		.flags = (uint16_t)flags,
		.length = unknown || !peer_sends(passive) ? 0 : peer->outgoing_length,
		.seconds = scripted_number("seconds", peer->wanted_seconds),
		.passes = scripted_number("passes", peer->wanted_seconds == 0),
		.mtu = (uint8_t)scripted_number("peer-mtu", 0),
		.wanted = scripted_number("wanted", peer->wanted),
		.wanted_seconds = scripted_number("wanted-seconds", 0),
	};

	snprintf(hello.device, sizeof(hello.device), "%s", device ? device : PEER_DEVICE);
	return hello;
}

uint32_t peer_hello(const struct peer *peer, bool passive, unsigned int refusal, uint8_t *wire)
{
	struct hello hello = own_hello(peer, passive);
	uint32_t size = scripted_number("hello-size", HELLO_SIZE);

	if (is_tutorial())
		return 0;
	forbid(size > HELLO_SIZE, "the script needs a shorter hello-size:N");
	hello.refusal = (uint8_t)refusal;
	encode_hello(&hello, wire);
	memset(wire + size, 0, HELLO_SIZE - size);
	return size;
}

/*
 * Plan a stream. The hello of its sender has the length, that of the operating side the number of
 * passes.
 */
static struct stream_plan plan_stream(bool present, const struct hello *sender,
				      const struct hello *operator)
{
	bool unknown = sender->flags & HELLO_UNKNOWN;
	uint64_t ring = unknown ? RING_OF_UNKNOWN : sender->length;
	struct stream_plan plan = {
		.present = present,
		.length = unknown ? LENGTH_UNKNOWN : sender->length,
		.passes = unknown ? 1 : operator->passes,
		.ring = smaller(ring, scripted_number("ring", MAX_RING)),
	};

	plan.ring += plan.ring == 0;
	return plan;
}

/* Return the size of the memory that stores the program's stream. */
static uint64_t incoming_size(const struct transfer_stream *stream)
{
	uint64_t size = stream->length;

	if (!stream->plan.present)
		return 1;
	if (stream->plan.length == LENGTH_UNKNOWN)
		size = MAX_UNKNOWN;
	return smaller(size, MAX_STORED);
}

static void plan_transfer(struct peer *peer, const struct hello *program, bool passive)
{
	const struct hello own = own_hello(peer, passive);
	const struct hello *moves_outgoing = writes() ? &own : program,
			   *moves_incoming = writes() ? program : &own;
	bool present = !scripted("one-way") || !peer_sends(passive);
	struct transfer_plan plan = {
		.writes = writes(),
		.depth = PEER_DEPTH,
		.request_size = scripted_number("request", TRANSFER_REQUEST_SIZE),
		.credits = is_tutorial() ? 0 : TRANSFER_CREDITS,
		.outgoing = plan_stream(peer_sends(passive), &own, moves_outgoing),
		.incoming = plan_stream(present, program, moves_incoming),
	};

	transfer_init(&peer->transfer, &plan);
	peer->source = allocate(plan.outgoing.ring);
	peer->sink = allocate(plan.incoming.ring);
	peer->incoming_size = incoming_size(&peer->transfer.sink.stream);
	peer->incoming = allocate(peer->incoming_size);
}

/* Send the pattern that the client wants; with payload:N, one of another length. */
static void send_pattern(struct peer *peer, const struct hello *client)
{
	forbid(client->wanted > MAX_WANTED || !(client->flags & HELLO_PATTERN),
	       "the program wants too much, or sends no pattern itself");
	peer->wanted = client->wanted;
	peer->wanted_seconds = client->wanted_seconds;
	peer->outgoing_length = scripted_number("payload", client->wanted);
	free(peer->outgoing);
	peer->outgoing = allocate(peer->outgoing_length);
	fill_pattern(peer);
}

/* Check the acceptance of the program, a server: it sends the pattern that the script wants. */
static void check_wanted(const struct hello *server)
{
	uint32_t wanted = scripted_number("wanted", 0);
	uint32_t seconds = scripted_number("wanted-seconds", 0);

	forbid(server->wanted != wanted || server->wanted_seconds > 0,
	       "the program does not repeat how many bytes the peer wants");
	if (wanted == 0)
		return;
	forbid(!(server->flags & HELLO_PATTERN) || server->length != wanted,
	       "the program sends no pattern, or one of another length");
	forbid(server->seconds != seconds || server->passes != (seconds == 0),
	       "the program repeats its operation in another way than the peer wants");
}

/* Return true if the program has a payload. `passive`: the program is the server. */
static bool sends_something(const struct hello *hello, bool passive)
{
	return !(hello->flags & HELLO_ONE_WAY) || passive == !hello->operation;
}

void peer_reads_hello(struct peer *peer, bool passive, const uint8_t *wire, uint32_t size)
{
	/* assumed by a peer that knows no hellos; the number of passes does not matter */
	static const struct hello tutorial = { .length = TUTORIAL_PAYLOAD };
	bool refused = scripted_number("refuse", 0);
	struct hello hello;

	if (scripted("no-hello")) {
		forbid(size > 0, "the program sends a hello, which it must not");
		plan_transfer(peer, &tutorial, passive);
		return;
	}
	forbid(size != HELLO_SIZE || decode_hello(wire, size, &hello) != HELLO_CURRENT,
	       "the program's private data is not a hello");
	if (!passive)
		checked_operation = hello.wanted > 0 ? hello.operation : -1;
	forbid(hello.operation != writes() && !refused,
	       "the program's hello has another operation");
	forbid(hello.mtu != port_mtu(), "the program's hello has another MTU than its port");
	forbid(hello.refusal || (hello.passes > 0 && hello.seconds > 0),
	       "the program's hello has a refusal, or passes and seconds");
	forbid(hello.flags & RESERVED_FLAGS, "the program's hello has a reserved flag");
	forbid(hello.length > 0 &&
		       (hello.flags & HELLO_UNKNOWN || !sends_something(&hello, passive)),
	       "the program's hello has a length for a payload that has none");
	peer->may_count = hello.flags & HELLO_COUNTS;
	forbid(strcmp(hello.device, DEVICE) != 0, "the program's hello does not name its device");
	if (passive)
		check_wanted(&hello);
	else if (hello.wanted > 0 && !is_tutorial())
		send_pattern(peer, &hello);
	plan_transfer(peer, is_tutorial() ? &tutorial : &hello, passive);
}

void peer_reads_rejection(const uint8_t *wire, uint32_t size)
{
	struct hello hello;

	forbid(decode_hello(wire, size, &hello) != HELLO_CURRENT || !hello.refusal,
	       "the program rejects the peer without a reason");
	forbid(hello.refusal != scripted_number("refused", hello.refusal),
	       "the program rejects the peer for reason %u", hello.refusal);
}

/* ---- Sending ---- */

static struct fake_qp *qp_of(const struct peer *peer)
{
	return (struct fake_qp *)peer->id->id.qp;
}

void peer_sends_message(struct peer *peer, const struct message *message)
{
	static const char *const names[] = { "received-MR", "received-DONE", "received-VERDICT",
					     "received-WINDOW" };
	const char *deviation = scripted_text("set");
	struct message sent = *message;
	uint8_t wire[MESSAGE_SIZE];

	peer->lied = (deviation && deviate(&sent, deviation)) || peer->lied;
	forbid(sent.counted && !peer->may_count,
	       "the script counts errors, but the program does not request them");
	encode_message(&sent, wire);
	message_arrives(qp_of(peer), names[message->type], wire, MESSAGE_SIZE);
}

void peer_sends_window(struct peer *peer, const struct window *window)
{
	const struct message message = { .type = MSG_WINDOW, .window = *window };

	peer->reported = *window;
	peer_sends_message(peer, &message);
}

static bool fill(struct peer *peer);

static void send_region(struct peer *peer)
{
	const struct stream_plan *plan = &program_stream(peer)->plan;
	struct message message = { .type = MSG_MR };

	peer_lies(peer, MOMENT_BEFORE_MR);
	while (!scripted("late-source") && fill(peer))
		;
	peer->reported.produced = transfer_advertise(&peer->transfer);
	if (plan->present) {
		message.value = (uintptr_t)(writes() ? peer->sink : peer->source);
		message.length = plan->ring;
		message.rkey = RKEY;
	}
	if (!is_tutorial())
		message.produced = peer->reported.produced;
	peer->mr_sent = true;
	peer_sends_message(peer, &message);
}

/* Return the digest of the first `size` bytes of the outgoing stream. */
static uint64_t outgoing_digest(const struct peer *peer, uint64_t size)
{
	uint8_t *bytes = allocate(size + 1);
	uint64_t digest;

	for (uint64_t i = 0; i < size; i++)
		bytes[i] = peer->outgoing[i % peer->outgoing_length];
	digest = XXH3_64bits(bytes, size);
	free(bytes);
	return digest;
}

void peer_sends_done(struct peer *peer, uint64_t bytes)
{
	const struct message message = { .type = MSG_DONE,
					 .value = outgoing_digest(peer, bytes),
					 .length = bytes };

	peer_sends_message(peer, &message);
}

void peer_sends_verdict(struct peer *peer, uint64_t status)
{
	const struct message message = { .type = MSG_VERDICT,
					 .value = status,
					 .length = peer->transfer.operation.posted };

	peer->verdict_sent = true;
	transfer_record_verdict(&peer->transfer);
	peer_sends_message(peer, &message);
}

/* ---- The peer's source and sink ---- */

/*
 * Return the end of an outgoing stream whose length the program does not know in advance: its only
 * pass, or TIMED_PASSES passes.
 */
static uint64_t source_end(const struct peer *peer)
{
	const struct stream_plan *plan = &peer->transfer.source.stream.plan;

	return plan->length == LENGTH_UNKNOWN ? peer->outgoing_length
					      : peer->outgoing_length * TIMED_PASSES;
}

static bool fill(struct peer *peer)
{
	struct transfer *transfer = &peer->transfer;
	struct piece piece;
	bool end = false;

	if (!transfer_next_fill(transfer, &piece))
		return false;
	if (transfer->source.stream.length == LENGTH_UNKNOWN && !transfer->source.stream.repeats) {
		uint64_t left = source_end(peer) - piece.position;

		end = piece.size >= left;
		piece.size = smaller(piece.size, left);
	}
	for (uint64_t i = 0; i < piece.size; i++)
		copy_bytes(peer->source + piece.offset + i,
			   peer->outgoing + (piece.position + i) % peer->outgoing_length, 1);
	transfer_record_filled(transfer, piece.size);
	if (end)
		transfer_end_source(transfer);
	return true;
}

/*
 * Copy a piece out of the sink; return false if there is none. Each pass of a repeating stream
 * overwrites the one before.
 */
static bool copy(struct peer *peer)
{
	struct transfer *transfer = &peer->transfer;
	const struct transfer_stream *stream = &transfer->sink.stream;
	struct piece piece;

	if (!transfer_next_copy(transfer, &piece))
		return false;
	for (uint64_t i = 0; i < piece.size; i++) {
		uint64_t position = piece.position + i;

		if (stream->repeats)
			position %= stream->plan.length;
		forbid(position >= peer->incoming_size,
		       "the program's payload is longer than the peer can store");
		copy_bytes(peer->incoming + position, peer->sink + piece.offset + i, 1);
	}
	transfer_record_copied(transfer, piece.size);
	return true;
}

/* Store all copied bytes, or at most stores:N at a time. Return false if none can be stored now. */
static bool store(struct peer *peer)
{
	struct transfer *transfer = &peer->transfer;
	uint64_t stored = transfer->sink.stored, copied = transfer->sink.copied;
	uint64_t most = scripted_number("stores", 0);
	int64_t now = simulated_milliseconds();

	if (stored == copied)
		return false;
	/* an earlier wake-up may have replaced the one that the last store requested */
	if (now < peer->stores_at) {
		peer_wakes_at(peer, peer->stores_at);
		return false;
	}
	if (most > 0) {
		copied = stored + smaller(most, copied - stored);
		peer->stores_at = now + STORE_MILLISECONDS;
		peer_wakes_at(peer, peer->stores_at);
	}
	transfer_record_stored(transfer, copied - stored);
	return true;
}

/* ---- The peer's operation ---- */

static void pump(struct peer *peer);

/* Copy the bytes of one of the peer's work requests between its ring and the program's. */
static void copy_peer_request(const struct peer *peer, const struct transfer_run *request)
{
	unsigned int access = writes() ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE
				       : IBV_ACCESS_REMOTE_READ;
	uint64_t address = peer->region_address + request->remote;
	uint8_t *memory = (uint8_t *)(uintptr_t)address;
	struct fake_mr *mr = mr_of_rkey(qp_of(peer), peer->region_rkey, address, request->size);

	forbid(!mr, "the program's region is not registered");
	forbid(access & ~mr->access, "the region has access flags 0x%x", mr->access);
	mr->needed |= access;
	if (writes()) {
		copy_bytes(memory, peer->source + request->local, request->size);
		memory[request->size / 2] ^= take_order("corrupt-in", '\0') != NULL;
	} else {
		copy_bytes(peer->sink + request->local, memory, request->size);
		peer->sink[request->local + request->size / 2] ^=
			take_order("corrupt-out", '\0') != NULL;
	}
}

static void land(struct peer *peer, uint64_t posted)
{
	for (; peer->landed < posted; peer->landed++) {
		if (!qp_of(peer)->broken)
			copy_peer_request(peer, &peer->requests[peer->landed % PEER_DEPTH]);
	}
}

static void deliver_peer_operation(struct stimulus *stimulus)
{
	struct peer *peer;

	if (!stimulus->id || !stimulus->id->id.qp)
		return;
	peer = &stimulus->id->peer;
	land(peer, stimulus->position);
	if (qp_of(peer)->broken)
		return;
	forbid(!transfer_record_completed(&peer->transfer, stimulus->request,
					  simulated_milliseconds()),
	       "the scripted peer has not posted it");
	pump(peer);
}

/*
 * Post a work request; return false if none is possible. Its bytes move when it completes or, for a
 * WRITE, before a later message arrives.
 */
static bool operate(struct peer *peer)
{
	struct transfer_run *request = &peer->requests[peer->posted % PEER_DEPTH];
	struct stimulus *stimulus;

	if (peer->transfer.operation.posted >= peer->outgoing_length * TIMED_PASSES)
		transfer_stop(&peer->transfer); /* ends only a timed operation */
	if (!peer->mr_sent || !transfer_take_run(&peer->transfer, 1, request))
		return false;
	peer->posted++;
	if (!request->signaled || take_order("peer-operation", '!'))
		return true;
	stimulus = new_stimulus("peer-operation", deliver_peer_operation);
	stimulus->id = peer->id;
	stimulus->sequence = peer->requests;
	stimulus->position = peer->posted;
	stimulus->request = request->number;
	produce(stimulus);
	return true;
}

/* ---- The peer's steps ---- */

static void deliver_peer_clock(struct stimulus *stimulus)
{
	if (!stimulus->id || !stimulus->id->id.qp)
		return;
	stimulus->id->peer.clock = 0;
	pump(&stimulus->id->peer);
}

void peer_wakes_at(struct peer *peer, int64_t time)
{
	struct stimulus *stimulus;

	if (peer->clock && peer->clock <= time)
		return;
	peer->clock = time;
	stimulus = new_stimulus("peer-clock", deliver_peer_clock);
	stimulus->id = peer->id;
	stimulus->due = time;
	produce(stimulus);
}

static bool send_due_window(struct peer *peer)
{
	int64_t now = simulated_milliseconds(), time;
	struct window window;

	if (!peer->mr_sent || (peer->verdict_sent && peer->received == RECEIVED_VERDICT))
		return false;
	/* as if the only slot for a MSG_WINDOW were still in use: MSG_DONE then marks the end */
	if (scripted("DONE-first") && !peer->done_sent && transfer_done_is_due(&peer->transfer))
		return false;
	time = transfer_window_time(&peer->transfer, now);
	if (time <= now) {
		window = transfer_make_window(&peer->transfer);
		peer_sends_window(peer, &window);
		return true;
	}
	if (time != TRANSFER_NEVER)
		peer_wakes_at(peer, time);
	return false;
}

static bool finish_operation(struct peer *peer)
{
	uint64_t bytes;

	if (!peer->mr_sent || peer->received < RECEIVED_MR || peer->done_sent ||
	    !transfer_done_is_due(&peer->transfer))
		return false;
	if (peer_lies(peer, MOMENT_BEFORE_DONE))
		return false;
	peer->done_sent = true;
	bytes = transfer_record_done(&peer->transfer);
	for (unsigned int i = scripted("repeat-DONE") ? 2 : 1; i > 0; i--)
		peer_sends_done(peer, bytes);
	return true;
}

/*
 * End a session in which both verdicts are known, and count it if both are good. A peer that is the
 * client disconnects.
 */
static void finish_peer_session(struct peer *peer)
{
	if (peer->good && peer->program_is_content) {
		((struct fake_pd *)peer->id->id.qp->pd)->session_complete = true;
		served++;
	}
	if (peer->id->passive)
		peer_disconnects(peer->id);
}

/* Return true if the verdict is due: the program is done, and its whole payload is stored. */
static bool whole_payload_is_stored(const struct transfer *transfer)
{
	const struct transfer_sink *sink = &transfer->sink;

	return sink->done && sink->stored == transfer_sink_end(transfer);
}

/* If the script says `same`, check that the program has sent the same payload as the peer. */
static void check_same_payload(const struct peer *peer)
{
	uint64_t size = smaller(peer->done_bytes, peer->incoming_size);

	if (!scripted("same"))
		return;
	for (uint64_t i = 0; i < size; i++)
		forbid(peer->incoming[i] != peer->outgoing[i % peer->outgoing_length],
		       "byte %llu of the program's payload is wrong", (unsigned long long)i);
}

/*
 * Send the verdict if it is due, and return true if it was sent. Without hellos end the session
 * instead.
 */
static bool send_due_verdict(struct peer *peer)
{
	if (!peer->done_sent || peer->verdict_sent || !whole_payload_is_stored(&peer->transfer))
		return false;
	if (is_tutorial()) {
		peer->verdict_sent = true;
		peer->good = true;
		served++;
		if (scripted("tutorial")) /* with no-hello the program disconnects */
			peer_disconnects(peer->id);
		return false;
	}
	peer->good = !peer->transfer.sink.stream.plan.present ||
		     XXH3_64bits(peer->incoming, peer->done_bytes) == peer->digest;
	check_same_payload(peer);
	peer_sends_verdict(peer, peer->good ? 0 : STATUS_CONTENTS_WRONG);
	if (peer->received == RECEIVED_VERDICT)
		finish_peer_session(peer);
	return true;
}

/* With gives-up:N, send a bad verdict at step N. Return true if the peer gave up. */
static bool gives_up(struct peer *peer)
{
	if (!peer->mr_sent || peer->verdict_sent)
		return false;
	peer->steps++;
	if (peer->steps == scripted_number("gives-up", 0))
		peer_sends_verdict(peer, STATUS_LOCAL_FAILURE);
	peer->silent = peer->lied = peer->verdict_sent;
	return peer->silent;
}

/*
 * Let the peer do everything that it can do now. A delivery may call this function again: the
 * nested call only makes the outer one repeat.
 */
static void pump(struct peer *peer)
{
	peer->again = true;
	if (peer->pumping)
		return;
	peer->pumping = true;
	while (peer->again && !peer->silent) {
		peer->again = false;
		if (peer->mr_sent && peer->received >= RECEIVED_MR &&
		    peer_lies(peer, MOMENT_REGIONS_KNOWN))
			break;
		while (!gives_up(peer) && !peer->silent &&
		       (fill(peer) || copy(peer) || store(peer) || operate(peer) ||
			send_due_window(peer) || finish_operation(peer) || send_due_verdict(peer)))
			;
	}
	peer->pumping = false;
}

void peer_established(struct peer *peer)
{
	send_region(peer);
	pump(peer);
}

/* ---- Messages to the program, and its operation ---- */

/* Record that a session with no-hello is complete, once both MSG_DONEs have arrived. */
static void complete_without_hello(const struct peer *peer)
{
	if (scripted("no-hello") && peer->transfer.sink.done && peer->done_delivered)
		((struct fake_pd *)peer->id->id.qp->pd)->session_complete = true;
}

void peer_delivers(struct peer *peer, const uint8_t *bytes, uint64_t posted)
{
	struct message message;

	if (writes())
		land(peer, posted);
	decode_message(bytes, MESSAGE_SIZE, &message);
	if (message.type == MSG_MR) {
		peer->known_produced = is_tutorial() ? TUTORIAL_PAYLOAD : message.produced;
	} else if (message.type == MSG_WINDOW) {
		peer->known_produced = message.window.produced;
		peer->known_consumed = message.window.consumed;
	} else if (message.type == MSG_DONE) {
		peer->done_delivered = true;
		peer->known_produced = peer->transfer.source.reported_produced;
		complete_without_hello(peer);
	} else {
		peer->verdict_delivered = true;
	}
}

void peer_scribbles(const struct peer *peer)
{
	const struct fake_qp *qp = qp_of(peer);
	const struct fake_mr *mr = mr_of_rkey(qp, peer->region_rkey, peer->region_address, 1);

	forbid(!mr || !(mr->access & IBV_ACCESS_REMOTE_WRITE),
	       "the peer cannot write to the program's region any more");
	fill_bytes((uint8_t *)(uintptr_t)peer->region_address, '!', 4);
}

/*
 * Return the position up to which the program may operate, according to the messages that it has
 * received.
 */
static uint64_t program_limit(const struct peer *peer)
{
	const struct transfer *transfer = &peer->transfer;
	const struct transfer_sink *sink = &transfer->sink;
	const struct transfer_source *source = &transfer->source;

	if (writes())
		return sink->stream.repeats ? sink->stream.length
					    : peer->known_consumed + sink->stream.advertised_size;
	if (source->stream.repeats && peer->known_produced == source->stream.plan.length)
		return source->stream.length;
	return peer->known_produced;
}

void peer_is_asked(struct peer *peer, const struct work *work)
{
	const struct transfer_stream *stream = program_stream(peer);
	uint64_t ring = (uintptr_t)(writes() ? peer->sink : peer->source);
	uint64_t span = stream->repeats ? stream->plan.length : stream->advertised_size;
	uint64_t offset = work->remote_address - ring;

	if (work->length == 0) /* a keepalive */
		return;
	forbid((work->opcode == IBV_WR_RDMA_READ) == writes() || !stream->plan.present,
	       "the program performs the other operation");
	forbid(work->rkey != RKEY || offset > span || work->length > span - offset,
	       "the program accesses what was not advertised");
	forbid(offset != peer->accessed % span,
	       "the program accesses byte %lu of the ring for byte %lu of the stream",
	       (unsigned long)offset, (unsigned long)peer->accessed);
	peer->accessed += work->length;
	forbid(peer->accessed > program_limit(peer),
	       "the program accesses byte %lu of the stream, but only %lu were reported",
	       (unsigned long)peer->accessed, (unsigned long)program_limit(peer));
}

void peer_is_accessed(const struct work *work)
{
	uint8_t *remote = (uint8_t *)(uintptr_t)work->remote_address;

	if (work->length == 0) /* a keepalive */
		return;
	if (work->opcode == IBV_WR_RDMA_READ) {
		copy_bytes(work->buffer, remote, work->length);
		*work->buffer ^= take_order("corrupt-in", '\0') != NULL;
	} else {
		copy_bytes(remote, work->buffer, work->length);
		*remote ^= take_order("corrupt-out", '\0') != NULL;
	}
}

/* ---- Messages from the program ---- */

static void receive_region(struct peer *peer, const struct message *region)
{
	const struct transfer_stream *stream =
		writes() ? &peer->transfer.source.stream : &peer->transfer.sink.stream;
	uint64_t produced = region->produced;
	const char *wrong;

	peer->region_address = region->value;
	peer->region_rkey = region->rkey;
	forbid(stream->plan.present &&
		       !mr_of_rkey(qp_of(peer), region->rkey, region->value, region->length),
	       "the program's region is not registered");
	if (is_tutorial())
		produced = writes() ? 0 : region->length;
	wrong = transfer_accept_region(&peer->transfer, region->length, produced);
	forbid(wrong, "the program's memory region %s", wrong);
	if (!peer->id->passive)
		send_region(peer);
}

/*
 * Check that the program has started everything that it reports as done: the known length, complete
 * passes of a timed operation, or a stream of unknown length up to its marked end.
 */
static void check_operation(const struct peer *peer)
{
	const struct transfer *transfer = &peer->transfer;
	const struct transfer_stream *stream = program_stream(peer);
	uint64_t marked = writes() ? transfer->sink.produced : transfer->source.filled;
	uint64_t end = stream->length;

	if (!stream->plan.present || peer->lied)
		return;
	if (end == LENGTH_UNKNOWN)
		end = stream->repeats ? peer->accessed - peer->accessed % stream->plan.length
				      : marked;
	forbid(peer->accessed != end || end == 0,
	       "the program is done, but has accessed %lu bytes of the stream, not %lu",
	       (unsigned long)peer->accessed, (unsigned long)end);
}

static void receive_done(struct peer *peer, const struct message *done)
{
	const char *wrong;

	check_operation(peer);
	peer->digest = done->value;
	peer->done_bytes = is_tutorial() ? TUTORIAL_PAYLOAD : done->length;
	wrong = transfer_accept_done(&peer->transfer, peer->done_bytes);
	forbid(wrong, "the program %s", wrong);
	complete_without_hello(peer);
}

static void receive_window(struct peer *peer, const struct window *window)
{
	const char *wrong;

	forbid(is_tutorial(), "MSG_WINDOW for a peer without a hello");
	peer->windows_received++;
	if (peer->lied)
		return;
	wrong = transfer_accept_window(&peer->transfer, window);
	forbid(wrong, "the program's window %s", wrong);
}

/*
 * Handle the program's verdict. A bad verdict before both MSG_DONEs means that the program gave up:
 * the peer then disconnects without a verdict.
 */
static void receive_verdict(struct peer *peer, const struct message *message)
{
	uint64_t status = message->value;

	forbid((scripted("counts") && !message->counted) ||
		       (scripted("uncounted") && message->counted),
	       "the script does not allow %llu as the error count in MSG_VERDICT",
	       (unsigned long long)message->errors);
	peer->program_is_content = status == 0;
	if (status != 0 && (!peer->done_sent || !peer->transfer.sink.done)) {
		peer->silent = true;
		peer_disconnects(peer->id);
	} else if (peer->verdict_sent) {
		finish_peer_session(peer);
	}
}

/*
 * Check the order: MSG_MR, MSG_DONE and MSG_VERDICT come once each; only a bad MSG_VERDICT may come
 * without MSG_DONE. MSG_WINDOW may come after MSG_MR, until both verdicts have arrived.
 */
static void check_order(struct peer *peer, const struct message *message)
{
	enum received before = peer->received;
	bool early = message->type == MSG_VERDICT && message->value != 0 && before == RECEIVED_MR;

	if (message->type == MSG_WINDOW) {
		forbid(before == RECEIVED_NOTHING, "MSG_WINDOW before MSG_MR");
		forbid(before == RECEIVED_VERDICT && peer->verdict_delivered,
		       "MSG_WINDOW after both MSG_VERDICT");
		return;
	}
	forbid((unsigned int)message->type != before && !early,
	       "message %u, but %u of the three have arrived", message->type, before);
	peer->received = (enum received)(message->type + 1);
}

void peer_receives(struct peer *peer, const uint8_t *bytes, uint32_t size)
{
	struct message message;
	uint8_t again[MESSAGE_SIZE];

	forbid(!decode_message(bytes, size, &message), "%u bytes that are no message", size);
	encode_message(&message, again);
	forbid(memcmp(again, bytes, sizeof(again)) != 0, "reserved bytes that are not 0");
	check_order(peer, &message);
	if (message.type == MSG_MR)
		receive_region(peer, &message);
	else if (message.type == MSG_DONE)
		receive_done(peer, &message);
	else if (message.type == MSG_VERDICT)
		receive_verdict(peer, &message);
	else
		receive_window(peer, &message.window);
	pump(peer);
}
