// SPDX-License-Identifier: MIT
/*
 * Send messages that are gathered from three pieces of memory. The last message wakes the server.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. create an endpoint (an identifier with a route) and a queue pair, register memory
 *   2. connect; the acceptance brings address and rkey of a word in the server's memory
 *   3. READ the word
 *   4. SEND messages; the adapter makes one message of a list of pieces
 *   5. mark the last message as solicited
 *   6. disconnect, destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1. The kernel then frees everything that the program had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES 4
#define PIECES   3
#define SIZE     8  /* bytes of a piece */
#define SENDS    36 /* READ, messages, and a write of zero bytes for each second */

/* If true, the adapter delays the SEND until the READ is complete. */
static const bool fence = false;
static struct rdma_cm_id *id;
static struct ibv_mr *mr;
static struct {
	char greeting[SIZE], number[SIZE], word[SIZE];
} memory = { .greeting = "message" };
static uint64_t place[2]; /* address and rkey of the server's word, big-endian */

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/* Steps 1 and 2. */
static void connect_to(const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *server;
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { SENDS, 1, PIECES, 1, 0 } };
	struct rdma_conn_param parameters = { .initiator_depth = 1,
					      .retry_count = 7,
					      .rnr_retry_count = 7 };
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;
	int error = rdma_getaddrinfo(address, port, &hints, &server); /* step 1 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, server, NULL, NULL), "resolve the address");
	rdma_freeaddrinfo(server);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	/* iWARP answers a READ with a WRITE into `memory` */
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	mr = ibv_reg_mr(id->pd, &memory, sizeof(memory), access);
	check(mr ? 0 : -1, "register memory");

	check(rdma_connect(id, &parameters), "connect"); /* step 2 */
	if (id->event->param.conn.private_data_len < sizeof(place))
		errx(1, "the acceptance brings no address and rkey");
	memcpy(place, id->event->param.conn.private_data, sizeof(place));
}

/* Poll each millisecond until the request with this wr_id is complete. */
static void await(uint64_t request)
{
	struct ibv_wc wc = { .wr_id = request + 1 };

	for (int time = 1; wc.wr_id != request; time++) {
		int count = ibv_poll_cq(id->send_cq, 1, &wc);

		check(count < 0 ? EIO : 0, "poll the completion queue");
		if (count > 0 && wc.status != IBV_WC_SUCCESS)
			errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
		if (count == 0)
			usleep(1000);
		/* soft-iWARP may overlook a message until more data arrives */
		if (time % 1000 == 0)
			check(rdma_post_writev(id, NULL, NULL, 0, 0, 0, 0),
			      "post a write of zero bytes");
	}
}

/* Step 3. The adapter fills the third piece of the messages. */
static void read_word(void)
{
	check(rdma_post_read(id, (void *)(uintptr_t)MESSAGES, memory.word, SIZE, mr,
			     IBV_SEND_SIGNALED, be64toh(place[0]), (uint32_t)be64toh(place[1])),
	      "post a READ");
	if (!fence)
		await(MESSAGES);
}

/* Step 4, with step 5 for the last message. */
static void send_message(uint64_t number)
{
	struct ibv_sge list[PIECES] = {
		{ (uintptr_t)memory.greeting, SIZE, mr->lkey },
		{ (uintptr_t)memory.number, SIZE, mr->lkey },
		{ (uintptr_t)memory.word, SIZE, mr->lkey },
	};
	struct ibv_send_wr *bad, request = { .wr_id = number, .sg_list = list };

	request.num_sge = PIECES;
	request.opcode = IBV_WR_SEND;
	snprintf(memory.number, SIZE, "%u", (unsigned int)number + 1);
	request.send_flags = IBV_SEND_SIGNALED | (fence ? IBV_SEND_FENCE : 0);
	if (number == MESSAGES - 1)
		request.send_flags |= IBV_SEND_SOLICITED; /* step 5 */
	check(ibv_post_send(id->qp, &request, &bad), "post a SEND");
	await(number);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	connect_to(argv[1], argv[2]);
	read_word();
	for (uint64_t number = 0; number < MESSAGES; number++)
		send_message(number);
	printf("%d messages sent\n", MESSAGES);
	check(rdma_disconnect(id), "disconnect"); /* step 6 */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses the memory */
	check(ibv_dereg_mr(mr), "deregister memory");
	rdma_destroy_ep(id);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
