// SPDX-License-Identifier: MIT
/*
 * Let one client change a number in the memory of this program. Print the messages that arrive.
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. create an endpoint that listens, get a connection request
 *   2. register the number with the access flags for each operation of the client
 *   3. post receives: for a SEND, and for each operation with immediate data
 *   4. accept, with address and rkey of the number as private data
 *   5. get completions of receives until a SEND without immediate data arrives
 *   6. wait until the client disconnects, destroy, print the number
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1. The kernel then frees everything that the program had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECEIVES 3

static struct rdma_cm_id *listener, *id;
static uint64_t number = 100, incoming[RECEIVES];
static struct ibv_mr *number_mr, *incoming_mr;

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
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { 1, RECEIVES, 1, 1, 0 } };
	struct rdma_addrinfo *own;
	int error = rdma_getaddrinfo("0.0.0.0", "0", &hints, &own);

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&listener, own, NULL, NULL), "create an endpoint");
	rdma_freeaddrinfo(own);
	check(rdma_listen(listener, 1), "listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(fflush(stdout) ? -1 : 0, "write the output");
	check(rdma_get_request(listener, &id), "get a connection request");
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
}

/* Steps 2 to 4. */
static void accept_client(void)
{
	unsigned int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_device_attr attributes;
	struct { /* big-endian */
		uint64_t address;
		uint32_t rkey, padding;
	} place = { .address = htobe64((uintptr_t)&number) };
	struct rdma_conn_param parameters = { .private_data = &place,
					      .private_data_len = sizeof(place),
					      .responder_resources = 1, /* for READ and atomics */
					      .retry_count = 7,
					      .rnr_retry_count = 7 };

	check(ibv_query_device(id->verbs, &attributes), "query the device"); /* step 2 */
	if (attributes.atomic_cap != IBV_ATOMIC_NONE)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	number_mr = ibv_reg_mr(id->pd, &number, sizeof(number), access);
	incoming_mr = rdma_reg_msgs(id, incoming, sizeof(incoming));
	check(number_mr && incoming_mr ? 0 : -1, "register memory");

	for (int i = 0; i < RECEIVES; i++) { /* step 3: one call could also post a list */
		struct ibv_sge piece = { (uintptr_t)&incoming[i], sizeof(incoming[i]),
					 incoming_mr->lkey };
		struct ibv_recv_wr receive = { .sg_list = &piece, .num_sge = 1 }, *bad;

		check(ibv_post_recv(id->qp, &receive, &bad), "post a receive");
	}

	place.rkey = htobe32(number_mr->rkey); /* step 4 */
	check(rdma_accept(id, &parameters), "accept the connection");
}

/* Step 5. Return false after the last message, a SEND without immediate data. */
static bool receive(void)
{
	struct ibv_wc wc;

	check(rdma_get_recv_comp(id, &wc) < 0 ? -1 : 0, "get a completion");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
	printf(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "WRITE" : "SEND");
	if (wc.wc_flags & IBV_WC_WITH_IMM)
		printf(" with immediate data %" PRIu32, be32toh(wc.imm_data));
	printf("\n");
	return wc.wc_flags & IBV_WC_WITH_IMM;
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
	await_client();
	accept_client();
	while (receive())
		;
	await_disconnection(); /* step 6 */
	rdma_destroy_qp(id);   /* first, so that the adapter no longer uses the memory */
	check(ibv_dereg_mr(number_mr), "deregister memory");
	check(ibv_dereg_mr(incoming_mr), "deregister memory");
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	printf("the number is %" PRIu64 " now\n", number);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
