// SPDX-License-Identifier: MIT
/* The scripted peer: does everything right, unless the script says otherwise. */
#include "fake-verbs.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MESSAGE_SIZE 56
#define HELLO_SIZE   24
#define RKEY         0x4242
#define TEXT         "text of the scripted peer"

enum {
	MR,
	DONE,
	VERDICT
};

static unsigned int served;

unsigned int peers_served(void)
{
	return served;
}

static bool writes(void)
{
	return scripted("write");
}

static uint64_t digest(const uint8_t *bytes, uint64_t size)
{
	return XXH3_64bits(bytes, size);
}

/* Numbers go over the wire in little-endian order; so do those of the machines that run this. */
static uint64_t get(const uint8_t *wire, size_t size)
{
	uint64_t value = 0;

	copy_bytes(&value, wire, size);
	return value;
}

void peer_start(struct peer *peer, struct fake_id *id)
{
	peer->id = id;
	peer->outgoing_length = scripted_number("payload", 1024);
	peer->outgoing = allocate(peer->outgoing_length + sizeof(TEXT));
	copy_bytes(peer->outgoing, TEXT, sizeof(TEXT));
	peer->incoming_length = 1024; /* as long as there is no hello */
}

void peer_stop(struct peer *peer)
{
	free(peer->outgoing);
	free(peer->incoming);
}

uint32_t peer_hello(const struct peer *peer, unsigned int refusal, uint8_t *wire)
{
	static const uint8_t magic[] = { 0x52, 0x57, 0x48, 0x4f, 1 };

	fill_bytes(wire, 0, HELLO_SIZE);
	if (scripted("tutorial") || scripted("no-hello"))
		return 0;
	copy_bytes(wire, magic, sizeof(magic));
	wire[4] = (uint8_t)scripted_number("version", 1);
	wire[5] = writes();
	copy_bytes(wire + 8, &peer->outgoing_length, sizeof(peer->outgoing_length));
	wire[16] = (uint8_t)refusal;
	return HELLO_SIZE;
}

void peer_reads_hello(struct peer *peer, const uint8_t *wire, uint32_t size)
{
	const bool hello = !scripted("no-hello");

	if (size != (hello ? HELLO_SIZE : 0) ||
	    (hello && wire[5] != writes() && !scripted_number("refuse", 0)))
		violation("the program's hello is not what the peer expects");
	if (hello && !scripted("tutorial"))
		peer->incoming_length = get(wire + 8, 8);
	peer->incoming = allocate(peer->incoming_length);
}

static void send_message(struct peer *peer, unsigned int type, uint64_t value, uint64_t length)
{
	static const char *const names[] = { "received-MR", "received-DONE", "received-VERDICT" };
	uint8_t wire[MESSAGE_SIZE] = { (uint8_t)type };
	const uint32_t rkey = type == MR ? RKEY : 0;

	copy_bytes(wire + 24, &value, sizeof(value));
	copy_bytes(wire + 32, &length, sizeof(length));
	copy_bytes(wire + 48, &rkey, sizeof(rkey));
	message_arrives((struct fake_qp *)peer->id->id.qp, names[type], wire, MESSAGE_SIZE);
}

static void send_region(struct peer *peer)
{
	uint8_t *memory = writes() ? peer->incoming : peer->outgoing;

	send_message(peer, MR, (uintptr_t)memory,
		     writes() ? peer->incoming_length : peer->outgoing_length);
}

void peer_established(struct peer *peer)
{
	if (peer->id->passive)
		send_region(peer);
}

/* Sends the verdict, once the program's payload and its digest are here. */
static void judge(struct peer *peer)
{
	if (!peer->transferred || !peer->done_received || peer->verdict_sent)
		return;
	peer->verdict_sent = true;
	if (scripted("no-hello")) { /* no verdict: the program disconnects */
		((struct fake_pd *)peer->id->id.qp->pd)->session_complete = true;
		served++;
		return;
	}
	if (scripted("tutorial")) {
		peer_disconnects(peer->id);
		peer->good = true;
		served++;
		return;
	}
	peer->good = digest(peer->incoming, peer->incoming_length) == peer->digest;
	send_message(peer, VERDICT, peer->good ? 0 : 7, 0);
}

void peer_operates(struct peer *peer)
{
	struct fake_qp *qp = (struct fake_qp *)peer->id->id.qp;
	uint64_t length = writes() ? peer->outgoing_length : peer->incoming_length;
	uint8_t *memory = (uint8_t *)(uintptr_t)peer->region_address;
	unsigned int access = IBV_ACCESS_REMOTE_READ;
	struct fake_mr *mr;

	if (peer->transferred || !peer->has_region)
		return;
	peer->transferred = true;
	if (writes())
		access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	mr = mr_of_rkey(qp, peer->region_rkey, peer->region_address, length);
	if (!mr || peer->region_length != length)
		violation("the region that MSG_MR announced is not there");
	if (access & ~mr->access)
		violation("the region that MSG_MR announced has access flags 0x%x", mr->access);
	mr->needed |= access;
	if (writes()) {
		copy_bytes(memory, peer->outgoing, length);
		memory[length / 2] ^= scripted("corrupt-in");
	} else {
		copy_bytes(peer->incoming, memory, length);
		peer->incoming[length / 2] ^= scripted("corrupt-out");
	}
	judge(peer);
}

void peer_scribbles(const struct peer *peer)
{
	const struct fake_qp *qp = (const struct fake_qp *)peer->id->id.qp;
	const struct fake_mr *mr = mr_of_rkey(qp, peer->region_rkey, peer->region_address, 1);

	if (mr && mr->access & IBV_ACCESS_REMOTE_WRITE)
		fill_bytes((uint8_t *)(uintptr_t)peer->region_address, '!', 4);
}

void peer_is_accessed(struct peer *peer, const struct work *work, bool read)
{
	uint8_t *memory = read ? peer->outgoing : peer->incoming;
	uint64_t length = read ? peer->outgoing_length : peer->incoming_length;
	uint64_t offset = work->remote_address - (uintptr_t)memory;

	if (work->length == 0) /* a probe: is the adapter there? */
		return;
	if (read == writes())
		violation("the program performs the other operation");
	if (work->rkey != RKEY || offset > length || work->length > length - offset)
		violation("the program accesses what the peer did not announce");
	for (int i = 0; i < work->sge_count; i++) {
		uint8_t *local = (uint8_t *)(uintptr_t)work->sge[i].addr;

		if (read)
			copy_bytes(local, memory + offset, work->sge[i].length);
		else
			copy_bytes(memory + offset, local, work->sge[i].length);
		offset += work->sge[i].length;
		if (read && take_order("corrupt-in", '\0'))
			local[0] ^= 1;
	}
	if (!read && scripted("corrupt-out"))
		memory[length / 2] ^= 1;
}

void peer_receives(struct peer *peer, const uint8_t *bytes, uint32_t size)
{
	if (size != MESSAGE_SIZE)
		violation("the program sent %u bytes that are no message", size);
	switch (bytes[0]) {
	case MR:
		peer->has_region = true;
		peer->region_address = get(bytes + 24, 8);
		peer->region_length = get(bytes + 32, 8);
		peer->region_rkey = (uint32_t)get(bytes + 48, 4);
		if (!peer->id->passive)
			send_region(peer);
		for (unsigned int i = scripted("repeat-DONE") ? 2 : 1; i > 0; i--)
			send_message(peer, DONE, digest(peer->outgoing, peer->outgoing_length), 0);
		break;
	case DONE:
		peer->done_received = true;
		peer->digest = get(bytes + 24, 8);
		judge(peer);
		break;
	case VERDICT:
		if (get(bytes + 24, 8) == 0 && peer->good) {
			struct ibv_pd *pd = peer->id->id.qp->pd;

			((struct fake_pd *)pd)->session_complete = true;
			served++;
		}
		if (peer->id->passive)
			peer_disconnects(peer->id);
		break;
	default: /* progress */
		if (peer->done_received)
			violation("MSG_PROGRESS behind MSG_DONE");
		break;
	}
}
