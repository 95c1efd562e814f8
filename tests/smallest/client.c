// SPDX-License-Identifier: MIT
/*
 * A whole RDMA client, on libibverbs and librdmacm alone, for server.c and 'rdma-server write'.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   client                               server
 *     SEND MSG_MR: address, rkey   -->                  of the memory that the other side
 *                                  <--   SEND MSG_MR    may write to
 *     RDMA WRITE                   <->   RDMA WRITE     1024 bytes; no program notices that,
 *     SEND MSG_DONE                <->   SEND MSG_DONE  so this says that they are there
 *     disconnect                   -->
 * Prints what the server wrote. A failed call ends it with status 1; the kernel frees what it had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SIZE     1024 /* bytes that each side writes */
#define MSG_MR   0
#define MSG_DONE 1

/* On the wire: 56 bytes, little-endian. What means nothing is zero. */
struct message {
	uint32_t type, unused[5];
	uint64_t address, length, reserved; /* MSG_MR: of the memory to write to, and its rkey */
	uint32_t rkey, padding;
};

/* Work requests. Each has its name as wr_id, which comes back in its completion. */
enum work {
	RECEIVE_MR,
	RECEIVE_DONE,
	SEND_MR,
	SEND_DONE,
	WRITE,
	PROBE /* for soft-iWARP alone: see await() */
};
#define WR_ID(work) ((void *)(uintptr_t)(work))

static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_mr *messages_mr, *outgoing_mr, *incoming_mr;
static struct ibv_cq *cq;
static struct message messages[SEND_DONE + 1]; /* of the first four of them */
static char outgoing[SIZE] = "message from the smallest client", incoming[SIZE];
static bool completed[PROBE + 1], disconnected;

/* Of two conventions: librdmacm returns -1 and sets errno, libibverbs returns the errno. */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(result == -1 ? errno : result));
}

/* Any event of a connection that stands is its end, but for UNREACHABLE, which can pass. */
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
	rdma_ack_cm_event(event); /* frees it */
}

/* Waits until a work request is complete; polls the completion queue each millisecond. */
static void await(enum work work)
{
	for (int time = 1; !completed[work]; time++) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(cq, 1, &wc);

		check(count < 0 ? EIO : 0, "poll the completion queue");
		if (count > 0 && wc.status != IBV_WC_SUCCESS)
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
		if (count > 0) {
			completed[wc.wr_id] = true;
			continue;
		}
		check(disconnected ? ECONNRESET : 0, "complete the exchange");
		check(time >= 20000 ? ETIMEDOUT : 0, "complete the exchange");
		/* soft-iWARP may overlook what comes while the server accepts, until more does */
		if (work == RECEIVE_MR && time % 1000 == 0)
			check(rdma_post_writev(id, WR_ID(PROBE), NULL, 0, IBV_SEND_SIGNALED, 0, 0),
			      "post a WRITE of nothing");
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

/* Makes what must be there before the server can send, on the device that leads to it. */
static void prepare(void)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC /* reliable connection */ };

	/* Protection domain (PD): only what belongs to the same one works together. */
	pd = ibv_alloc_pd(id->verbs);
	check(pd ? 0 : -1, "allocate a protection domain");

	/* Memory regions (MR): what the adapter may access, and how; the peer needs the rkey. */
	messages_mr = ibv_reg_mr(pd, messages, sizeof(messages), IBV_ACCESS_LOCAL_WRITE);
	outgoing_mr = ibv_reg_mr(pd, outgoing, SIZE, 0);
	incoming_mr =
		ibv_reg_mr(pd, incoming, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(messages_mr && outgoing_mr && incoming_mr ? 0 : -1, "register memory");

	/* Completion queue (CQ): gets an entry for each work request that is over. */
	cq = ibv_create_cq(id->verbs, 34, NULL, NULL, 0);
	check(cq ? 0 : -1, "create a completion queue");

	/* Queue pair (QP): this end of the connection, for 32 sends and 2 receives at a time. */
	attributes.send_cq = attributes.recv_cq = cq;
	attributes.cap = (struct ibv_qp_cap){ 32, 2, 1, 1, 0 };
	check(rdma_create_qp(id, pd, &attributes), "create a queue pair");

	/* Receives: a message goes to the first that is posted, before it can come. */
	for (enum work work = RECEIVE_MR; work <= RECEIVE_DONE; work++)
		check(rdma_post_recv(id, WR_ID(work), &messages[work], sizeof(struct message),
				     messages_mr),
		      "post a receive");
}

static void connect_to(const char *address, const char *port)
{
	/* a lost packet is sent again seven times; what finds no receive, without end */
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	struct addrinfo *found, *to;
	int error = getaddrinfo(address, port, NULL, &found);

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
	for (to = found; to->ai_next && to->ai_family != AF_INET; to = to->ai_next)
		; /* the first IPv4 address, if there is one: server.c listens on no IPv6 one */
	/* Identifier (id): the connection. Without an event channel each call waits for its end. */
	check(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "open the connection manager");
	check(rdma_resolve_addr(id, NULL, to->ai_addr, 5000), "resolve the address");
	freeaddrinfo(found);
	prepare();
	check(rdma_resolve_route(id, 5000), "resolve the route");
	check(rdma_connect(id, &parameters), "connect");
}

static void exchange(void)
{
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
	      "post a write");
	send_message(SEND_DONE, MSG_DONE); /* arrives behind the WRITE */
	await(SEND_DONE);                  /* and so the WRITE: a send queue completes in order */
	await(RECEIVE_DONE);
	check(le32toh(messages[RECEIVE_DONE].type) == MSG_DONE ? 0 : EPROTO, "use a message");
	check(disconnected ? 0 : rdma_disconnect(id), "disconnect");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: client ADDRESS PORT");
	connect_to(argv[1], argv[2]);
	exchange();
	rdma_destroy_qp(id); /* first: without it no adapter accesses what was posted */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_dereg_mr(incoming_mr), "deregister memory");
	check(ibv_dereg_mr(outgoing_mr), "deregister memory");
	check(ibv_dereg_mr(messages_mr), "deregister memory");
	check(ibv_dealloc_pd(pd), "free the protection domain");
	check(rdma_destroy_id(id), "destroy the identifier");
	printf("remote buffer: "); /* which nobody else can change any more */
	for (const char *c = incoming; c < incoming + SIZE && *c; c++)
		putchar(*c >= ' ' && *c <= '~' ? *c : '?'); /* a terminal obeys others */
	putchar('\n');
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
