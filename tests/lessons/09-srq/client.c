// SPDX-License-Identifier: MIT
/*
 * Send MESSAGES messages to server.c, one after the other, and compare each answer.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. create an endpoint (an identifier with a route), two completion queues and a queue pair
 *   2. register the buffers, post a receive, connect
 *   3. send a message, wait until the SEND is complete and the answer has arrived
 *   4. compare the answer, post the receive again; go on with step 3
 *   5. disconnect, destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1. The kernel then frees everything that the program had.
 */
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES 40
#define SIZE     32 /* bytes of a message */
#define SENDS    32 /* one message, and a keepalive for each second */

static struct rdma_cm_id *id;
static struct ibv_mr *mr;
static struct {
	char incoming[SIZE], outgoing[SIZE];
} buffers;

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
 * Poll a completion queue each millisecond until the request with this wr_id is complete. Exit if a
 * request fails, or at a connection event.
 */
static void await(struct ibv_cq *cq, const void *wr_id)
{
	struct pollfd ready = { id->channel->fd, POLLIN, 0 };
	struct ibv_wc wc = { 0 };
	int count = 0;

	for (int time = 1; count == 0 || wc.wr_id != (uintptr_t)wr_id; time++) {
		count = ibv_poll_cq(cq, 1, &wc);
		check(count < 0 ? EIO : 0, "poll a completion queue");
		if (count > 0 && wc.status != IBV_WC_SUCCESS)
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
		if (count == 0 && poll(&ready, 1, 1) > 0) /* wait up to 1 ms */
			errx(1, "the server has disconnected");
		/* soft-iWARP may overlook a message until more data arrives */
		if (time % 1000 == 0)
			check(rdma_post_writev(id, NULL, NULL, 0, IBV_SEND_SIGNALED, 0, 0),
			      "post a write of zero bytes");
	}
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP }, *found;
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { SENDS, 1, 1, 1, 0 } };
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	int error;

	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	error = rdma_getaddrinfo(argv[1], argv[2], &hints, &found); /* step 1 */
	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, found, NULL, NULL), "create an endpoint");
	rdma_freeaddrinfo(found);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	mr = rdma_reg_msgs(id, &buffers, sizeof(buffers)); /* step 2 */
	check(mr ? 0 : -1, "register memory");
	check(rdma_post_recv(id, buffers.incoming, buffers.incoming, SIZE, mr), "post a receive");
	check(rdma_connect(id, &parameters), "connect");
	for (int i = 1; i <= MESSAGES; i++) {
		snprintf(buffers.outgoing, SIZE, "message %d of process %d", i,
			 getpid()); /* step 3 */
		check(rdma_post_send(id, buffers.outgoing, buffers.outgoing, SIZE, mr,
				     IBV_SEND_SIGNALED),
		      "post a send");
		await(id->send_cq, buffers.outgoing);
		await(id->recv_cq, buffers.incoming);
		if (memcmp(buffers.incoming, buffers.outgoing, SIZE) != 0) /* step 4 */
			errx(1, "the answer to message %d differs from it", i);
		check(rdma_post_recv(id, buffers.incoming, buffers.incoming, SIZE, mr),
		      "post a receive");
	}
	check(rdma_disconnect(id), "disconnect"); /* step 5 */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses the memory */
	check(rdma_dereg_mr(mr), "deregister memory");
	rdma_destroy_ep(id);
	printf("%d messages, all answered.\n", MESSAGES);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
