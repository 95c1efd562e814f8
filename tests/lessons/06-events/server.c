// SPDX-License-Identifier: MIT
/*
 * Send each message of one client back to it, print what the device reports, and sleep in between.
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. create an identifier, bind it, listen, wait for a client
 *   2. create a completion channel, and a completion queue (CQ) that reports to it
 *   3. create a queue pair (QP), register the buffers
 *   4. arm the completion queue, post a receive, accept the client
 *   5. sleep in poll(2) on three descriptors, one for each of the steps 6 to 8
 *   6. completion channel: take the event, acknowledge it, arm again, poll until the CQ is empty
 *   7. event channel: take a connection event; the client's disconnection ends the loop
 *   8. asynchronous event descriptor: take an event of the device, print it
 *   9. destroy everything, the queue pair first
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits: rdma_get_request(3) and
 * rdma_accept(3) have no timeout of their own. A call that fails ends it with status 1. The kernel
 * then frees everything that the program had.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 1024 /* bytes of the longest message */

enum work {
	RECEIVE,
	SEND
};
#define WR_ID(work) ((void *)(uintptr_t)(work))

static struct rdma_cm_id *listener, *id;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct {
	char incoming[SIZE], outgoing[SIZE];
} buffers;
static uint32_t received; /* bytes that wait to be sent back */
static bool sending;      /* the SEND is outstanding: the adapter may still read its buffer */
static bool disconnected;

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
static void accept_client(void)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in any = { .sin_family = AF_INET };

	check(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "open the connection manager");
	check(rdma_bind_addr(listener, (struct sockaddr *)&any), "bind to an address");
	check(rdma_listen(listener, 1), "listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(rdma_get_request(listener, &id), "get a connection request"); /* step 1 */
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");

	channel = ibv_create_comp_channel(id->verbs); /* step 2 */
	check(channel ? 0 : -1, "create a completion channel");
	cq = ibv_create_cq(id->verbs, 2, NULL, channel, 0);
	check(cq ? 0 : -1, "create a completion queue");

	attributes.send_cq = attributes.recv_cq = cq; /* step 3 */
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	mr = rdma_reg_msgs(id, &buffers, sizeof(buffers));
	check(mr ? 0 : -1, "register memory");

	check(ibv_req_notify_cq(cq, 0), "arm the completion queue"); /* step 4 */
	check(rdma_post_recv(id, WR_ID(RECEIVE), buffers.incoming, SIZE, mr), "post a receive");
	check(rdma_accept(id, &parameters), "accept the connection");
}

static void handle_completion(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return; /* a connection event reports the reason */
	if (wc->status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc->status));
	if (wc->wr_id == SEND)
		sending = false;
	else
		received = wc->byte_len;
}

/*
 * Send a received message back when the SEND of the previous answer is complete. Until then the
 * adapter may still read buffers.outgoing. Post the receive first, because the client sends again
 * after the answer.
 */
static void answer(void)
{
	if (received == 0 || sending || disconnected)
		return;
	memcpy(buffers.outgoing, buffers.incoming, received);
	check(rdma_post_recv(id, WR_ID(RECEIVE), buffers.incoming, SIZE, mr), "post a receive");
	check(rdma_post_send(id, WR_ID(SEND), buffers.outgoing, received, mr, IBV_SEND_SIGNALED),
	      "post a send");
	received = 0;
	sending = true;
}

/*
 * Step 6. An armed completion queue reports the next completion, once. So arm it first, then poll
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

/* Step 7. UNREACHABLE can be temporary. */
static void handle_connection_event(void)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(id->channel, &event), "get a connection event");
	disconnected |= event->event != RDMA_CM_EVENT_UNREACHABLE;
	rdma_ack_cm_event(event); /* frees the event */
}

/* Step 8. */
static void handle_device_event(void)
{
	struct ibv_async_event event;

	check(ibv_get_async_event(id->verbs, &event), "get a device event");
	printf("device event: %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event); /* destroying the object of the event waits for this */
}

/* Step 5. Sleep until an event arrives, handle it, and answer a message. */
static void handle_next(void)
{
	struct pollfd ready[] = {
		{ .fd = channel->fd, .events = POLLIN },
		{ .fd = id->channel->fd, .events = POLLIN },
		{ .fd = id->verbs->async_fd, .events = POLLIN },
	};

	check(poll(ready, 3, -1) < 0 ? -1 : 0, "wait");
	if (ready[0].revents)
		handle_completion_event();
	if (ready[1].revents)
		handle_connection_event();
	if (ready[2].revents)
		handle_device_event();
	answer();
}

int main(int argc, char **argv)
{
	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	setvbuf(stdout, NULL, _IOLBF, 0); /* show each line at once, also in a file */
	accept_client();
	while (!disconnected)
		handle_next();
	/* Step 9. The queue pair first, so that the adapter no longer uses CQ or buffers. */
	rdma_destroy_qp(id);
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	check(rdma_dereg_mr(mr), "deregister memory");
	check(rdma_destroy_id(id), "destroy an identifier");
	check(rdma_destroy_id(listener), "destroy an identifier");
	printf("the client has left.\n");
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
