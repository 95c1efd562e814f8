// SPDX-License-Identifier: MIT
/*
 * Receive a number from one client and send it back, three times.
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. resolve the local address: any address of this host
 *   2. create an endpoint that listens
 *   3. get a request (an identifier), create its completion queues and its queue pair
 *   4. register memory, post a receive, accept
 *   5. get the completion of the receive
 *   6. post the next receive, then the SEND of the answer; get its completion; go on with step 5
 *   7. wait until the client disconnects, destroy
 *
 * rdma_get_request(3), rdma_accept(3), rdma_get_recv_comp(3) and others block. alarm(30) bounds
 * them all: after 30 s SIGALRM ends the program. A call that fails ends it with status 1. The
 * kernel then frees everything that the program had.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3

static struct rdma_cm_id *listener, *id;
static uint32_t outgoing, incoming; /* in network byte order */
static struct ibv_mr *outgoing_mr, *incoming_mr;

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/* Exit unless a request has completed successfully. */
static void check_completion(int count, const struct ibv_wc *wc)
{
	check(count < 0 ? -1 : 0, "get a completion");
	if (wc->status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc->status));
}

static void post_receive(void)
{
	/* The second argument becomes the completion's wr_id. A single receive needs none. */
	check(rdma_post_recv(id, NULL, &incoming, sizeof(incoming), incoming_mr), "post a receive");
}

static void accept_client(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *own;
	/* RC is a reliable connection. It has 1 send and 1 receive at a time, of 1 piece each. */
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	int error = rdma_getaddrinfo("0.0.0.0", "0", &hints, &own); /* step 1 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&listener, own, NULL, NULL), "create an endpoint"); /* step 2 */
	rdma_freeaddrinfo(own);
	check(rdma_listen(listener, 1), "listen"); /* one client may wait */
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(fflush(stdout) ? -1 : 0, "write the output");

	check(rdma_get_request(listener, &id), "get a connection request"); /* step 3 */
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	/* NULL: the protection domain that librdmacm keeps for the device */
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");

	outgoing_mr = rdma_reg_msgs(id, &outgoing, sizeof(outgoing)); /* step 4 */
	incoming_mr = rdma_reg_msgs(id, &incoming, sizeof(incoming));
	check(outgoing_mr && incoming_mr ? 0 : -1, "register memory");
	post_receive(); /* before the client can send, because a message needs a receive */
	check(rdma_accept(id, &parameters), "accept the connection");
}

static void pong(void)
{
	struct ibv_wc wc;

	check_completion(rdma_get_recv_comp(id, &wc), &wc); /* step 5 */
	outgoing = incoming;
	printf("ping %u\n", ntohl(incoming));

	post_receive(); /* step 6: before the answer, because the client then sends again */
	check(rdma_post_send(id, NULL, &outgoing, sizeof(outgoing), outgoing_mr, IBV_SEND_SIGNALED),
	      "post a send");
	printf("pong %u\n", ntohl(outgoing));
	check_completion(rdma_get_send_comp(id, &wc), &wc);
}

static void await_disconnection(void)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(id->channel, &event), "get a connection event");
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		errx(1, "unexpected event: %s", rdma_event_str(event->event));
	rdma_ack_cm_event(event); /* frees the event */
}

int main(int argc, char **argv)
{
	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	accept_client();
	for (int round = 0; round < ROUNDS; round++)
		pong();
	await_disconnection(); /* step 7 */
	rdma_destroy_qp(id);   /* first, so that the adapter no longer uses the memory */
	check(rdma_dereg_mr(incoming_mr), "deregister memory");
	check(rdma_dereg_mr(outgoing_mr), "deregister memory");
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
