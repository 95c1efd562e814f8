// SPDX-License-Identifier: MIT
/*
 * Send a number to a server and receive its answer, three times.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. resolve the address
 *   2. create an endpoint (an identifier with a route), completion queues and a queue pair
 *   3. register memory
 *   4. connect
 *   5. post a receive for the answer, then the SEND of the number
 *   6. get the completions of both; go on with step 5
 *   7. disconnect, destroy
 *
 * rdma_create_ep(3), rdma_connect(3), rdma_get_recv_comp(3) and others block. alarm(30) bounds them
 * all: after 30 s SIGALRM ends the program. A call that fails ends it with status 1. The kernel
 * then frees everything that the program had.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3

static struct rdma_cm_id *id;
static uint32_t outgoing, incoming; /* in network byte order */
static struct ibv_mr *outgoing_mr, *incoming_mr;

/* Works around a fault of soft-iWARP; see the end of this file. */
static int get_first_answer(struct ibv_wc *wc);
#define NUDGES 30 /* writes of zero bytes that get_first_answer() may post */

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

static void connect_to(const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *server;
	/*
	 * RC is a reliable connection. `cap` has five maximums: outstanding sends, outstanding
	 * receives, pieces of memory in a send, pieces in a receive, and bytes of inline data.
	 */
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { 1 + NUDGES, 1, 1, 1, 0 } };
	/*
	 * Both adapters retransmit a packet at most 7 times. Soft-RoCE takes this 7 as no limit.
	 * An rnr_retry_count of 7 is no limit: the server's adapter repeats a message until this
	 * side has posted a receive.
	 */
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	int error = rdma_getaddrinfo(address, port, &hints, &server); /* step 1 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, server, NULL, NULL), "create an endpoint"); /* step 2 */
	rdma_freeaddrinfo(server);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	/* NULL: the protection domain that librdmacm keeps for the device */
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");

	outgoing_mr = rdma_reg_msgs(id, &outgoing, sizeof(outgoing)); /* step 3 */
	incoming_mr = rdma_reg_msgs(id, &incoming, sizeof(incoming));
	check(outgoing_mr && incoming_mr ? 0 : -1, "register memory");

	check(rdma_connect(id, &parameters), "connect"); /* step 4 */
}

static void ping(uint32_t number)
{
	bool first = number == 1 && id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_wc wc;

	/* The second argument becomes the completion's wr_id. A single receive needs none. */
	check(rdma_post_recv(id, NULL, &incoming, sizeof(incoming), incoming_mr),
	      "post a receive"); /* step 5 */
	outgoing = htonl(number);
	/* without IBV_SEND_SIGNALED only a failure would be reported */
	check(rdma_post_send(id, NULL, &outgoing, sizeof(outgoing), outgoing_mr, IBV_SEND_SIGNALED),
	      "post a send");
	printf("ping %u\n", number);

	check_completion(rdma_get_send_comp(id, &wc), &wc); /* step 6: then outgoing is free */
	check_completion(first ? get_first_answer(&wc) : rdma_get_recv_comp(id, &wc), &wc);
	/* the adapter has filled incoming */
	printf("pong %u\n", ntohl(incoming));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	connect_to(argv[1], argv[2]);
	for (uint32_t number = 1; number <= ROUNDS; number++)
		ping(number);
	check(rdma_disconnect(id), "disconnect"); /* step 7 */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses the memory */
	check(rdma_dereg_mr(incoming_mr), "deregister memory");
	check(rdma_dereg_mr(outgoing_mr), "deregister memory");
	rdma_destroy_ep(id);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}

/*
 * Work around a fault of the kernel's soft-iWARP (siw). A message that arrives while the server
 * accepts can stay unnoticed until more data arrives. So write zero bytes each second until the
 * first answer has arrived. Return what ibv_poll_cq(3) returns for it.
 */
static int get_first_answer(struct ibv_wc *wc)
{
	int count = 0;

	for (int time = 1; count == 0; time++) {
		count = ibv_poll_cq(id->recv_cq, 1, wc);
		usleep(1000);
		if (count == 0 && time % 1000 == 0)
			check(rdma_post_writev(id, NULL, NULL, 0, 0, 0, 0),
			      "post a write of zero bytes");
	}
	return count;
}
