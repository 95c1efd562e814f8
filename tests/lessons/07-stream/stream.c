// SPDX-License-Identifier: MIT
/*
 * Send standard input, of any length, through a ring of 64 KiB to standard output on another host.
 *   cc stream.c -o stream -lrdmacm -libverbs && ./stream >FILE
 * is the receiver. './stream ADDRESS PORT <FILE' on the other host is the sender.
 *
 *   1. sender: create an identifier, with a route; receiver: listen, wait for a connection request
 *   2. create completion channel, completion queue, queue pair; register the ring and the messages
 *   3. post a receive for each slot of the ring
 *   4. connect, or accept; the acceptance brings the address and the rkey of the receiver's ring
 *   5. sender: wait for a free slot, read input into it, RDMA WRITE it, SEND its length
 *   6. receiver: write the slot to the output, then SEND the answer: the slot is free
 *   7. length 0 is the end; its answer says that the receiver has written every byte
 *   8. the sender disconnects; destroy
 *
 * Message number n, from 0, is about slot n % SLOTS, and so is its answer. The receiver waits a
 * minute for a sender. All other waits end after at most SILENCE seconds. Exit status 0 means that
 * every byte is written. A call that fails ends the program with status 1.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS   4     /* each is a credit for one unanswered message */
#define SLOT    16384 /* bytes */
#define SENDS   32    /* a WRITE and a SEND for each slot, and a keepalive for each second */
#define SILENCE 10    /* maximum seconds without a message */

static char ring[SLOTS][SLOT];
static uint32_t messages[SLOTS]; /* received messages; little-endian, like everything on the wire */
static uint64_t place[2];        /* in the acceptance: address and rkey of the receiver's ring */

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener, *id;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *ring_mr, *messages_mr;
/* Numbers of messages: `sent` and `completed` of this side, `arrived` and `taken` of the peer. */
static uint64_t sent, completed, arrived, taken;
static int quiet; /* seconds without a message */

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

static void await(int descriptor, short direction, int seconds, const char *what)
{
	struct pollfd ready = { descriptor, direction, 0 };
	int count = poll(&ready, 1, seconds * 1000);

	check(count < 0 ? -1 : 0, what);
	check(count == 0 ? ETIMEDOUT : 0, what);
}

/*
 * Take the next connection event, and return its type. The sender also copies `place` from the
 * acceptance.
 */
static enum rdma_cm_event_type take_event(void)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	await(events->fd, POLLIN, SILENCE, "wait for a connection event");
	check(rdma_get_cm_event(events, &event), "get a connection event");
	type = event->event;
	if (type == RDMA_CM_EVENT_ESTABLISHED && !listener) {
		check(event->param.conn.private_data_len < sizeof(place) ? EPROTO : 0, "connect");
		memcpy(place, event->param.conn.private_data, sizeof(place));
	}
	rdma_ack_cm_event(event); /* frees the event */
	return type;
}

static void post_receive(uint64_t number)
{
	check(rdma_post_recv(id, NULL, &messages[number % SLOTS], sizeof(uint32_t), messages_mr),
	      "post a receive");
}

/* Step 1. Without an address this side is the receiver. Port 0 is any free port. */
static void find_peer(const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP }, *found;
	int error;

	hints.ai_flags = address ? 0 : RAI_PASSIVE;
	error = rdma_getaddrinfo(address, port, &hints, &found);
	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, found, NULL, NULL), "find an RDMA device");
	rdma_freeaddrinfo(found);
	if (address)
		return;
	listener = id;
	check(rdma_listen(listener, 1), "listen");
	fprintf(stderr, "listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	await(listener->channel->fd, POLLIN, 60, "wait for a sender");
	check(rdma_get_request(listener, &id), "get a connection request");
}

/* Steps 2 to 4. */
static void connect_queue_pair(void)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { SENDS, SLOTS, 1, 1, sizeof(uint32_t) } };
	struct rdma_conn_param parameters = { .private_data = place,
					      .private_data_len = listener ? sizeof(place) : 0,
					      .retry_count = 7,
					      .rnr_retry_count = 7 };

	events = rdma_create_event_channel(); /* with it rdma_connect(3) and others do not wait */
	check(events ? rdma_migrate_id(id, events) : -1, "create an event channel");
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	channel = ibv_create_comp_channel(id->verbs); /* step 2 */
	cq = channel ? ibv_create_cq(id->verbs, SENDS + SLOTS, NULL, channel, 0) : NULL;
	check(cq ? 0 : -1, "create a completion queue");
	attributes.send_cq = attributes.recv_cq = cq;
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	messages_mr = rdma_reg_msgs(id, messages, sizeof(messages)); /* the peer gets no access */
	ring_mr = listener ? rdma_reg_write(id, ring, sizeof(ring))
			   : rdma_reg_msgs(id, ring, sizeof(ring));
	check(messages_mr && ring_mr ? 0 : -1, "register memory");

	for (uint64_t slot = 0; slot < SLOTS; slot++) /* step 3 */
		post_receive(slot);

	place[0] = htole64((uintptr_t)ring); /* step 4 */
	place[1] = htole64(ring_mr->rkey);
	check(listener ? rdma_accept(id, &parameters) : rdma_connect(id, &parameters), "connect");
	check(take_event() == RDMA_CM_EVENT_ESTABLISHED ? 0 : ECONNREFUSED, "connect");
}

/*
 * Handle a completion. If there is none, wait up to a second for an event. Exit if the connection
 * ends, or after SILENCE seconds without a message.
 */
static void handle_completion(void)
{
	struct pollfd ready[] = { { channel->fd, POLLIN, 0 }, { events->fd, POLLIN, 0 } };
	struct ibv_cq *source;
	struct ibv_wc wc;
	void *context;
	int count;

	/* arm before polling, so that no completion is missed */
	check(ibv_req_notify_cq(cq, 0), "arm the completion queue");
	count = ibv_poll_cq(cq, 1, &wc);
	check(count < 0 ? EIO : 0, "poll the completion queue");
	if (count > 0 && wc.status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
	if (count > 0) {
		completed += wc.opcode == IBV_WC_SEND; /* the WRITE before it is complete, too */
		arrived += wc.opcode == IBV_WC_RECV;
		quiet = wc.opcode == IBV_WC_RDMA_WRITE ? quiet : 0; /* a keepalive is no progress */
		return;
	}
	count = poll(ready, 2, 1000);
	check(count < 0 ? -1 : 0, "get a message");
	quiet += count == 0;
	check(quiet == SILENCE ? ETIMEDOUT : 0, "get a message");
	if (ready[1].revents) /* UNREACHABLE can be temporary */
		check(take_event() == RDMA_CM_EVENT_UNREACHABLE ? 0 : ECONNRESET, "get a message");
	if (ready[0].revents) {
		check(ibv_get_cq_event(channel, &source, &context), "get a completion event");
		ibv_ack_cq_events(source, 1); /* ibv_destroy_cq(3) waits for this */
	}
	if (count == 0 && !listener) /* soft-iWARP may overlook a message until more data arrives */
		check(rdma_post_writev(id, NULL, NULL, 0, IBV_SEND_SIGNALED, 0, 0), "keepalive");
}

/*
 * Wait for the next message, and for room to send one more. Post its receive again. Return the
 * length in the message.
 */
static uint32_t receive_length(void)
{
	uint32_t length;

	while (arrived == taken || sent - completed == SLOTS)
		handle_completion();
	length = le32toh(messages[taken % SLOTS]);
	post_receive(taken++);
	return length;
}

/* Send a message inline, so that the adapter does not read `length` later. */
static void send_length(uint32_t length)
{
	length = htole32(length);
	check(rdma_post_send(id, NULL, &length, sizeof(length), NULL,
			     IBV_SEND_SIGNALED | IBV_SEND_INLINE),
	      "post a SEND");
	sent++;
}

/* Step 5. */
static void send_stream(void)
{
	ssize_t length;

	do {
		size_t slot = sent % SLOTS;

		if (sent >= SLOTS)
			receive_length(); /* the answer says that the slot is free */
		await(STDIN_FILENO, POLLIN, SILENCE / 2, "wait for input");
		length = read(STDIN_FILENO, ring[slot], SLOT);
		check(length < 0 ? -1 : 0, "read the input");
		check(rdma_post_write(id, NULL, ring[slot], (size_t)length, ring_mr, 0,
				      le64toh(place[0]) + slot * SLOT, (uint32_t)le64toh(place[1])),
		      "post a WRITE");
		send_length((uint32_t)length); /* arrives after the WRITE */
	} while (length > 0);
	while (taken < sent)
		receive_length(); /* step 7 */
	fprintf(stderr, "%ju messages, all answered.\n", (uintmax_t)sent);
	check(rdma_disconnect(id), "disconnect"); /* step 8 */
}

/* Write to the output. write(2) does not block, because a ready pipe accepts PIPE_BUF bytes. */
static void write_output(const char *bytes, size_t length)
{
	for (ssize_t written; length > 0; bytes += written, length -= (size_t)written) {
		await(STDOUT_FILENO, POLLOUT, SILENCE / 2, "wait for the output");
		written = write(STDOUT_FILENO, bytes, length < PIPE_BUF ? length : PIPE_BUF);
		check(written < 0 ? -1 : 0, "write the output");
	}
}

/* Step 6. */
static void receive_stream(void)
{
	uint32_t length;

	do {
		length = receive_length();
		check(length > SLOT ? EMSGSIZE : 0, "use a message");
		write_output(ring[sent % SLOTS], length);
		check(length ? 0 : close(STDOUT_FILENO), "write the output"); /* step 7 */
		send_length(length);
	} while (length > 0);
}

int main(int argc, char **argv)
{
	if (argc != 1 && argc != 3)
		errx(2, "usage: %s [ADDRESS PORT]", argv[0]);
	find_peer(argv[1], argc == 3 ? argv[2] : "0");
	connect_queue_pair();
	listener ? receive_stream() : send_stream();
	/* Step 8. Await this event: until then the last answer may still be on its way. */
	check(take_event() == RDMA_CM_EVENT_DISCONNECTED ? 0 : EPROTO, "disconnect");
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses CQ or memory */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	check(rdma_dereg_mr(ring_mr), "deregister memory");
	check(rdma_dereg_mr(messages_mr), "deregister memory");
	check(rdma_destroy_id(id), "destroy an identifier");
	rdma_destroy_event_channel(events);
	check(listener ? rdma_destroy_id(listener) : 0, "destroy an identifier");
	return 0;
}
