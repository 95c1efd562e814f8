// SPDX-License-Identifier: MIT
/*
 * Write 1024 bytes into the memory of another host with RDMA WRITE. That host writes 1024 bytes
 * into the memory of this program. Then print the received bytes.
 *   cc write.c -o write -lrdmacm -libverbs && ./write [ADDRESS]
 * is the server of one client, on ADDRESS or on any IPv4 address. './write ADDRESS PORT' is the
 * client. The other side may also be 'rdma-client write' or 'rdma-server write'.
 *
 *   1. create an identifier; client: resolve the address; server: listen, get a request
 *   2. allocate a protection domain, register memory
 *   3. create a completion queue and a queue pair
 *   4. post a receive for each message
 *   5. client: resolve the route, connect; server: accept
 *   6. SEND MSG_MR, await the peer's MSG_MR: each side learns where it may write
 *   7. RDMA WRITE; SEND MSG_DONE, which arrives after the WRITE; await the peer's MSG_DONE
 *   8. disconnect, destroy in the reverse order, print
 *
 * The connection manager's calls wait for their events. alarm(30) bounds these and all other waits:
 * after 30 s SIGALRM ends the program. A call that fails ends it with status 1. The kernel then
 * frees everything that the program had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE     1024 /* bytes that each side writes */
#define MSG_MR   0
#define MSG_DONE 1

/* A message: 56 bytes, little-endian. Fields that a message does not use are zero. */
struct message {
	uint32_t type, unused[5];
	uint64_t address, length, reserved; /* MSG_MR: the memory to write to */
	uint32_t rkey, padding;             /* MSG_MR: the key of that memory */
};

/* The work requests. The number of a request is its wr_id, which the completion returns. */
enum work {
	RECEIVE_MR,
	RECEIVE_DONE,
	SEND_MR,
	SEND_DONE,
	WRITE,
	NUDGE /* works around a fault of soft-iWARP */
};
#define WR_ID(work) ((void *)(uintptr_t)(work))

static struct rdma_cm_id *listener, *id; /* the client has no listener */
static struct ibv_pd *pd;
static struct ibv_mr *messages_mr, *outgoing_mr, *incoming_mr;
static struct ibv_cq *cq;
static struct message messages[SEND_DONE + 1]; /* indexed by enum work */
static char outgoing[SIZE], incoming[SIZE];
static bool completed[NUDGE + 1], disconnected, iwarp;

/* Work around faults of soft-iWARP; see the end of this file. */
static bool forgive_soft_iwarp(const struct ibv_wc *wc);
static void nudge_soft_iwarp(int milliseconds);

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/*
 * Wait up to `milliseconds` for a connection event. Treat any event as the end of the connection,
 * except UNREACHABLE, which can be temporary.
 */
static void wait_for_event(int milliseconds)
{
	struct pollfd ready = { .fd = id->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int count = poll(&ready, 1, milliseconds);

	check(count < 0 ? -1 : 0, "wait");
	if (count == 0)
		return;
	check(rdma_get_cm_event(id->channel, &event), "get a connection event");
	disconnected |= event->event != RDMA_CM_EVENT_UNREACHABLE;
	rdma_ack_cm_event(event); /* frees the event */
}

/*
 * Poll the completion queue each millisecond until `work` is complete. Exit if a request fails, or
 * if the connection ends.
 */
static void await(enum work work)
{
	for (int time = 1; !completed[work]; time++) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(cq, 1, &wc);

		check(count < 0 ? EIO : 0, "poll the completion queue");
		if (count > 0 && wc.status != IBV_WC_SUCCESS && !forgive_soft_iwarp(&wc))
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
		if (count > 0) {
			completed[wc.wr_id] = true;
			continue;
		}
		check(disconnected ? ECONNRESET : 0, "complete the exchange");
		if (work == RECEIVE_MR && !listener)
			nudge_soft_iwarp(time);
		wait_for_event(1);
	}
}

static void send_message(enum work work, uint32_t type)
{
	messages[work].type = htole32(type);
	check(rdma_post_send(id, WR_ID(work), &messages[work], sizeof(struct message), messages_mr,
			     IBV_SEND_SIGNALED),
	      "post a send");
}

/* Steps 2 to 4, on the device that leads to the peer. */
static void prepare(void)
{
	/*
	 * RC is a reliable connection. It has at most 34 sends at a time: 2 messages, the WRITE,
	 * one nudge for each second of alarm(30), and one nudge to spare. It has 2 receives. Each
	 * send and each receive has 1 piece of memory.
	 */
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC, .cap = { 34, 2, 1, 1, 0 } };

	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	/* Step 2. A queue pair can use only memory regions of its protection domain (PD). */
	pd = ibv_alloc_pd(id->verbs);
	check(pd ? 0 : -1, "allocate a protection domain");

	/* A memory region (MR) is memory that the adapter may use, with the permitted accesses. */
	messages_mr = ibv_reg_mr(pd, messages, sizeof(messages), IBV_ACCESS_LOCAL_WRITE);
	outgoing_mr = ibv_reg_mr(pd, outgoing, SIZE, 0);
	incoming_mr =
		ibv_reg_mr(pd, incoming, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(messages_mr && outgoing_mr && incoming_mr ? 0 : -1, "register memory");

	/*
	 * Step 3. The completion queue (CQ) gets an entry when a work request has ended. It needs
	 * room for all requests, here 34 + 2. A full queue loses completions.
	 */
	cq = ibv_create_cq(id->verbs, 36, NULL, NULL, 0);
	check(cq ? 0 : -1, "create a completion queue");

	/* The queue pair (QP) is this end of the connection. */
	attributes.send_cq = attributes.recv_cq = cq;
	check(rdma_create_qp(id, pd, &attributes), "create a queue pair");

	/* Step 4. A message fills the oldest posted receive. It cannot arrive without a receive. */
	for (enum work work = RECEIVE_MR; work <= RECEIVE_DONE; work++)
		check(rdma_post_recv(id, WR_ID(work), &messages[work], sizeof(struct message),
				     messages_mr),
		      "post a receive");
}

static struct addrinfo *find(const char *address, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int error = getaddrinfo(address, port, &hints, &found);

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
	return found;
}

/*
 * The client's retry_count limits the retransmissions of both adapters. Soft-RoCE takes 7 as no
 * limit. An rnr_retry_count of 7 is no limit: the peer's adapter repeats a message until this side
 * has posted a receive.
 */
static struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };

static void connect_to(const char *address, const char *port)
{
	struct addrinfo *server = find(address, port);

	/* Step 1. Without an event channel, calls with this identifier wait for their events. */
	check(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "open the connection manager");
	check(rdma_resolve_addr(id, NULL, server->ai_addr, 5000), "resolve the address");
	freeaddrinfo(server);
	prepare();
	check(rdma_resolve_route(id, 5000), "resolve the route"); /* step 5 */
	check(rdma_connect(id, &parameters), "connect");
}

/* Listen on a free port, and accept the first client. */
static void accept_client(const char *address)
{
	struct addrinfo *own = find(address, "0");

	check(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "open the connection manager");
	check(rdma_bind_addr(listener, own->ai_addr), "bind to an address");
	freeaddrinfo(own);
	check(rdma_listen(listener, 1), "listen"); /* one client may wait */
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(fflush(stdout) ? -1 : 0, "write the output");
	/* The request brings a new identifier, for the connection. */
	check(rdma_get_request(listener, &id), "get a connection request");
	prepare();
	check(rdma_accept(id, &parameters), "accept the connection");
}

static void exchange(void)
{
	if (listener)
		await(RECEIVE_MR); /* step 6: over iWARP the client must send first */
	messages[SEND_MR].address = htole64((uintptr_t)incoming);
	messages[SEND_MR].length = htole64(SIZE);
	messages[SEND_MR].rkey = htole32(incoming_mr->rkey);
	send_message(SEND_MR, MSG_MR);
	await(RECEIVE_MR);
	check(le32toh(messages[RECEIVE_MR].type) == MSG_MR ? 0 : EPROTO, "use a message");
	check(le64toh(messages[RECEIVE_MR].length) < SIZE ? EMSGSIZE : 0, "use a memory region");

	check(rdma_post_write(id, WR_ID(WRITE), outgoing, SIZE, outgoing_mr, IBV_SEND_SIGNALED,
			      le64toh(messages[RECEIVE_MR].address),
			      le32toh(messages[RECEIVE_MR].rkey)),
	      "post a write"); /* step 7 */
	send_message(SEND_DONE, MSG_DONE);
	await(RECEIVE_DONE);
	check(le32toh(messages[RECEIVE_DONE].type) == MSG_DONE ? 0 : EPROTO, "use a message");
}

/* Step 8. The client disconnects. Unless it does so within a second, the server does. */
static void disconnect(void)
{
	if (listener && !disconnected)
		wait_for_event(1000);
	if (!disconnected)
		await(SEND_DONE); /* also awaits the WRITE: a send queue completes in order */
	if (!disconnected)
		check(rdma_disconnect(id), "disconnect");
}

int main(int argc, char **argv)
{
	bool client = argc == 3;

	if (argc > 3)
		errx(2, "usage: %s [ADDRESS [PORT]]", argv[0]);
	alarm(30);
	snprintf(outgoing, SIZE, "written by the %s", client ? "client" : "server");
	client ? connect_to(argv[1], argv[2]) : accept_client(argc == 2 ? argv[1] : "0.0.0.0");
	exchange();
	disconnect();
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses CQ or memory */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_dereg_mr(incoming_mr), "deregister memory");
	check(ibv_dereg_mr(outgoing_mr), "deregister memory");
	check(ibv_dereg_mr(messages_mr), "deregister memory");
	check(ibv_dealloc_pd(pd), "free the protection domain");
	check(rdma_destroy_id(id), "destroy an identifier");
	check(listener ? rdma_destroy_id(listener) : 0, "destroy an identifier");
	printf("remote buffer: "); /* the peer can no longer change incoming */
	for (const char *c = incoming; c < incoming + SIZE && *c; c++)
		putchar(*c >= ' ' && *c <= '~' ? *c : '?'); /* print no escape sequences */
	putchar('\n');
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}

/*
 * Work around a fault of the kernel's soft-iWARP (siw). If the peer disconnects as soon as it has
 * MSG_DONE, this side's SEND may complete with an error. Return true for this error, because the
 * message has arrived.
 */
static bool forgive_soft_iwarp(const struct ibv_wc *wc)
{
	return iwarp && wc->wr_id == SEND_DONE && wc->status == IBV_WC_LOC_QP_OP_ERR;
}

/*
 * Work around another fault of soft-iWARP. A message that arrives while the server accepts can stay
 * unnoticed until more data arrives. So write zero bytes each second.
 */
static void nudge_soft_iwarp(int milliseconds)
{
	if (milliseconds % 1000 == 0)
		check(rdma_post_writev(id, WR_ID(NUDGE), NULL, 0, IBV_SEND_SIGNALED, 0, 0),
		      "post a write of zero bytes");
}
