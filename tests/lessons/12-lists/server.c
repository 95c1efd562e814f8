// SPDX-License-Identifier: MIT
/*
 * Receive messages in pieces, and wake up only for the messages that ask for it.
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. create an identifier, bind it, listen, wait for a client
 *   2. create a completion channel, and a completion queue that reports to it
 *   3. resize the completion queue: it needs an entry for each request that can be outstanding
 *   4. create a queue pair whose receives have three pieces; register memory, post the receives
 *   5. arm the completion queue for solicited completions alone; accept
 *   6. sleep in poll(2) until a completion, a connection event or a device event arrives
 *   7. once awake, arm, and take all completions
 *   8. when the client has left: take the remaining completions, destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1. The kernel then frees everything that the program had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES 4
#define PIECES   3
#define SIZE     8 /* bytes of a piece */

static struct rdma_cm_id *listener, *id;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct {
	char word[SIZE]; /* the client READs this */
	char pieces[PIECES][MESSAGES][SIZE];
} memory = { .word = "fetched" };
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

/* Step 1. */
static void await_client(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	check(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "open the connection manager");
	check(rdma_bind_addr(listener, (struct sockaddr *)&any), "bind to an address");
	check(rdma_listen(listener, 1), "listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(rdma_get_request(listener, &id), "get a connection request");
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
}

/* Steps 2 and 3. */
static void create_completion_queue(void)
{
	channel = ibv_create_comp_channel(id->verbs); /* step 2 */
	check(channel ? 0 : -1, "create a completion channel");
	cq = ibv_create_cq(id->verbs, 1, NULL, channel, 0); /* too small on purpose */
	check(cq ? 0 : -1, "create a completion queue");

	if (ibv_resize_cq(cq, MESSAGES)) { /* step 3 */
		printf("the device cannot resize a completion queue\n");
		check(ibv_destroy_cq(cq), "destroy a completion queue");
		cq = ibv_create_cq(id->verbs, MESSAGES, NULL, channel, 0);
		check(cq ? 0 : -1, "create a completion queue");
	}
	printf("the completion queue has %d entries\n", cq->cqe);
}

/* Step 4. */
static void create_queue_pair(void)
{
	/* MESSAGES receives of PIECES pieces each; the 1 send is not used */
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .send_cq = cq,
					       .recv_cq = cq,
					       .cap = { 1, MESSAGES, 1, PIECES, 0 } };

	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	mr = ibv_reg_mr(id->pd, &memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	check(mr ? 0 : -1, "register memory");
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge list[PIECES];
		struct ibv_recv_wr *bad, receive = { i, NULL, list, PIECES };

		for (int piece = 0; piece < PIECES; piece++)
			list[piece] = (struct ibv_sge){ (uintptr_t)memory.pieces[piece][i], SIZE,
							mr->lkey };
		check(ibv_post_recv(id->qp, &receive, &bad), "post a receive");
	}
}

/* Step 5. */
static void accept_client(void)
{
	uint64_t place[2] = { htobe64((uintptr_t)memory.word), htobe64(mr->rkey) };
	struct rdma_conn_param parameters = { .private_data = place,
					      .private_data_len = sizeof(place),
					      .responder_resources = 1,
					      .retry_count = 7,
					      .rnr_retry_count = 7 };

	/* 1 asks for an event only for a solicited message, or for a failure */
	check(ibv_req_notify_cq(cq, 1), "arm the completion queue");
	check(rdma_accept(id, &parameters), "accept the connection");
}

/* Print all messages that have arrived. Piece n of each message is in memory.pieces[n]. */
static void take_messages(void)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
		printf("%u bytes:", wc.byte_len);
		for (int piece = 0; piece < PIECES; piece++)
			printf(" %.*s", SIZE, memory.pieces[piece][wc.wr_id]);
		printf("\n");
	}
	check(count < 0 ? EIO : 0, "poll the completion queue");
}

/* Step 7. */
static void handle_completion_event(void)
{
	struct ibv_cq *source;
	void *context;

	check(ibv_get_cq_event(channel, &source, &context), "get a completion event");
	ibv_ack_cq_events(source, 1);
	printf("awake\n");
	check(ibv_req_notify_cq(source, 1), "arm the completion queue");
	take_messages();
}

static void handle_connection_event(void)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(id->channel, &event), "get a connection event");
	disconnected |= event->event != RDMA_CM_EVENT_UNREACHABLE;
	rdma_ack_cm_event(event); /* frees the event */
}

static void handle_device_event(void)
{
	struct ibv_async_event event;

	check(ibv_get_async_event(id->verbs, &event), "get a device event");
	printf("device event: %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

int main(int argc, char **argv)
{
	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	setvbuf(stdout, NULL, _IOLBF, 0); /* show each line at once, also in a file */
	await_client();
	create_completion_queue();
	create_queue_pair();
	accept_client();
	while (!disconnected) { /* step 6 */
		struct pollfd ready[] = { { channel->fd, POLLIN, 0 },
					  { id->channel->fd, POLLIN, 0 },
					  { id->verbs->async_fd, POLLIN, 0 } };

		check(poll(ready, 3, -1) < 0 ? -1 : 0, "wait");
		if (ready[2].revents)
			handle_device_event();
		if (ready[0].revents)
			handle_completion_event();
		if (ready[1].revents)
			handle_connection_event();
	}
	take_messages();     /* step 8: messages without an event */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses CQ or memory */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	check(ibv_dereg_mr(mr), "deregister memory");
	check(rdma_destroy_id(id), "destroy an identifier");
	check(rdma_destroy_id(listener), "destroy an identifier");
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
