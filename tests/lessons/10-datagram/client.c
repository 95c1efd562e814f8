// SPDX-License-Identifier: MIT
/*
 * Send numbered datagrams to a server without a connection. Print which of them are answered.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. resolve address and route; end if the adapter uses iWARP
 *   2. create an unreliable datagram (UD) queue pair and its completion queues, register memory
 *   3. post a receive for each answer, with room for a header of 40 bytes
 *   4. ask the server for its queue pair's number and QKEY; rdma_connect(3) connects nothing here
 *   5. create an address handle: the path to the server's port
 *   6. post all SENDs; each completes when its datagram has left this host
 *   7. receive answers until all have arrived, or none arrives for two seconds
 *   8. destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1, an iWARP adapter with status 3. The kernel then frees everything that the program
 * had.
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

#define DATAGRAMS 6

static struct rdma_cm_id *id;
static struct ibv_ah *server;
static struct ibv_mr *outgoing_mr, *incoming_mr;
static uint32_t outgoing[DATAGRAMS]; /* in network byte order */
static struct {
	struct ibv_grh header; /* 40 bytes before the data of each datagram */
	uint32_t number;
} incoming[DATAGRAMS];

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/* Steps 1 to 3. */
static void prepare(const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *found;
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_UD,
					       .cap = { DATAGRAMS, DATAGRAMS, 1, 1, 0 } };
	int error = rdma_getaddrinfo(address, port, &hints, &found); /* step 1 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, found, NULL, NULL), "create an endpoint");
	rdma_freeaddrinfo(found);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the address");
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		errx(3, "iWARP has no datagrams");

	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair"); /* step 2 */
	outgoing_mr = rdma_reg_msgs(id, outgoing, sizeof(outgoing));
	incoming_mr = rdma_reg_msgs(id, incoming, sizeof(incoming));
	check(outgoing_mr && incoming_mr ? 0 : -1, "register memory");

	for (int i = 0; i < DATAGRAMS; i++) /* step 3 */
		check(rdma_post_recv(id, (void *)(uintptr_t)i, &incoming[i], sizeof(incoming[i]),
				     incoming_mr),
		      "post a receive");
}

static void send_datagrams(void)
{
	struct rdma_conn_param parameters = { 0 };
	struct rdma_ud_param *remote;
	struct ibv_wc wc;

	check(rdma_connect(id, &parameters), "find the queue pair"); /* step 4 */
	remote = &id->event->param.ud;

	server = ibv_create_ah(id->pd, &remote->ah_attr); /* step 5 */
	check(server ? 0 : -1, "create an address handle");

	for (uint32_t i = 0; i < DATAGRAMS; i++) { /* step 6 */
		struct ibv_sge piece = { (uintptr_t)&outgoing[i], sizeof(outgoing[i]),
					 outgoing_mr->lkey };
		struct ibv_send_wr *bad, request = {
			.sg_list = &piece,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { server, remote->qp_num, remote->qkey },
		};

		outgoing[i] = htonl(i + 1);
		check(ibv_post_send(id->qp, &request, &bad), "post a send");
	}
	for (int i = 0; i < DATAGRAMS; i++) {
		check(rdma_get_send_comp(id, &wc) < 0 ? -1 : 0, "get a completion");
		if (wc.status != IBV_WC_SUCCESS)
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
	}
	printf("%d datagrams sent\n", DATAGRAMS);
}

/* Step 7. Return false if no answer arrives in two seconds. */
static bool receive_answer(void)
{
	struct ibv_wc wc;
	int count = 0;

	for (int time = 0; count == 0 && time < 2000; time++) {
		count = ibv_poll_cq(id->recv_cq, 1, &wc);
		check(count < 0 ? EIO : 0, "poll the completion queue");
		if (count == 0)
			usleep(1000);
	}
	if (count == 0)
		return false;
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
	printf("datagram %u is answered\n", ntohl(incoming[wc.wr_id].number));
	return true;
}

int main(int argc, char **argv)
{
	int answers = 0;

	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	prepare(argv[1], argv[2]);
	send_datagrams();
	while (answers < DATAGRAMS && receive_answer())
		answers++;
	printf("%d without an answer\n", DATAGRAMS - answers);
	check(ibv_destroy_ah(server), "destroy the address handle"); /* step 8 */
	rdma_destroy_qp(id); /* from now on the adapter does not use the memory */
	check(rdma_dereg_mr(incoming_mr), "deregister memory");
	check(rdma_dereg_mr(outgoing_mr), "deregister memory");
	rdma_destroy_ep(id);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
