// SPDX-License-Identifier: MIT
/*
 * Send standard input to server.c, print what comes back, and sleep while nothing happens.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. create an identifier, resolve the address and the route
 *   2. create a completion channel, and a completion queue (CQ) that reports to it
 *   3. create a queue pair (QP), register the buffers
 *   4. arm the completion queue, post a receive, connect
 *   5. send a piece of standard input as a message
 *   6. sleep in poll(2) on two descriptors until the answer has come
 *   7. completion channel: take the event, acknowledge it, arm again, poll until the CQ is empty
 *   8. event channel: take a connection event; any but UNREACHABLE ends the program
 *   9. at the end of the input disconnect, and destroy everything
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits: rdma_connect(3) and
 * rdma_disconnect(3) have no timeout of their own. A call that fails ends it with status 1. The
 * kernel then frees everything that the program had.
 */
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

#define SIZE  1024 /* bytes of the longest message */
#define SENDS 32   /* one message, and a keepalive for each second */

enum work {
	RECEIVE,
	SEND,
	KEEPALIVE
};
#define WR_ID(work) ((void *)(uintptr_t)(work))

static struct rdma_cm_id *id;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct {
	char incoming[SIZE], outgoing[SIZE];
} buffers;
static bool sending; /* the SEND is outstanding: the adapter may still read its buffer */
static bool waiting; /* the answer has not arrived */

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/* Steps 1 to 4. */
static void connect_to(char *address, char *port)
{
	struct rdma_addrinfo hints = { .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP }, *found;
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { SENDS, 1, 1, 1, 0 } };
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	int error = rdma_getaddrinfo(address, port, &hints, &found); /* step 1 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, found, NULL, NULL), "resolve the address");
	rdma_freeaddrinfo(found);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");

	channel = ibv_create_comp_channel(id->verbs); /* step 2 */
	check(channel ? 0 : -1, "create a completion channel");
	cq = ibv_create_cq(id->verbs, SENDS + 1, NULL, channel, 0);
	check(cq ? 0 : -1, "create a completion queue");

	attributes.send_cq = attributes.recv_cq = cq; /* step 3 */
	/* NULL: the protection domain that librdmacm keeps for the device */
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	mr = rdma_reg_msgs(id, &buffers, sizeof(buffers));
	check(mr ? 0 : -1, "register memory");

	/* Step 4. 0 asks for an event for any completion, not only a solicited one (lesson 12). */
	check(ibv_req_notify_cq(cq, 0), "arm the completion queue");
	check(rdma_post_recv(id, WR_ID(RECEIVE), buffers.incoming, SIZE, mr), "post a receive");
	check(rdma_connect(id, &parameters), "connect");
}

static void handle_completion(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc->status));
	if (wc->wr_id == SEND) {
		sending = false;
	} else if (wc->wr_id == RECEIVE) {
		waiting = false;
		fwrite(buffers.incoming, 1, wc->byte_len, stdout);
		check(fflush(stdout) ? -1 : 0, "write the output");
		check(rdma_post_recv(id, WR_ID(RECEIVE), buffers.incoming, SIZE, mr),
		      "post a receive"); /* for the answer to the next message */
	}
}

/*
 * Step 7. An armed completion queue reports the next completion, once. So arm it first, then poll
 * it. In the other order a completion in between would not be reported.
 */
static void handle_completion_event(void)
{
	struct ibv_cq *source;
	struct ibv_wc wc;
	void *context;
	int count;

	check(ibv_get_cq_event(channel, &source, &context), "get a completion event");
	ibv_ack_cq_events(source, 1); /* ibv_destroy_cq(3) waits for this */
	check(ibv_req_notify_cq(source, 0), "arm the completion queue");
	while ((count = ibv_poll_cq(source, 1, &wc)) > 0)
		handle_completion(&wc);
	check(count < 0 ? EIO : 0, "poll the completion queue");
}

/* Step 8. UNREACHABLE can be temporary. */
static void handle_connection_event(void)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(id->channel, &event), "get a connection event");
	if (event->event != RDMA_CM_EVENT_UNREACHABLE)
		errx(1, "the connection has ended: %s", rdma_event_str(event->event));
	rdma_ack_cm_event(event); /* frees the event */
}

/*
 * Step 6. Sleep until an event arrives, and handle it. After a second without an event send a
 * keepalive.
 */
static void handle_next(void)
{
	struct pollfd ready[] = { { channel->fd, POLLIN, 0 }, { id->channel->fd, POLLIN, 0 } };
	int count = poll(ready, 2, 1000);

	check(count < 0 ? -1 : 0, "wait");
	if (count == 0) /* soft-iWARP may overlook a first message until more data arrives */
		check(rdma_post_writev(id, WR_ID(KEEPALIVE), NULL, 0, IBV_SEND_SIGNALED, 0, 0),
		      "post an empty WRITE");
	if (ready[1].revents) /* first: this event explains flushed requests */
		handle_connection_event();
	if (ready[0].revents)
		handle_completion_event();
}

int main(int argc, char **argv)
{
	ssize_t length;

	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	connect_to(argv[1], argv[2]);
	while ((length = read(STDIN_FILENO, buffers.outgoing, SIZE)) > 0) { /* step 5 */
		check(rdma_post_send(id, WR_ID(SEND), buffers.outgoing, (size_t)length, mr,
				     IBV_SEND_SIGNALED),
		      "post a send");
		sending = waiting = true;
		while (sending || waiting)
			handle_next();
	}
	check(length < 0 ? -1 : 0, "read the input");
	check(rdma_disconnect(id), "disconnect"); /* step 9 */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses CQ or buffers */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	check(rdma_dereg_mr(mr), "deregister memory");
	check(rdma_destroy_id(id), "destroy the identifier");
	return 0;
}
