// SPDX-License-Identifier: MIT
/*
 * Receive as many datagrams of one client as there are receives, and answer each.
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. end if no adapter of this host has datagrams; iWARP has none
 *   2. create an endpoint that listens; get a request: an identifier with a queue pair
 *   3. register memory, post receives, each with room for a header of 40 bytes
 *   4. accept: the client learns the queue pair's number and QKEY, but no connection exists
 *   5. get the completion of a receive; the header has the sender's address
 *   6. create an address handle from the header, and send the number back; go on with step 5
 *   7. destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1, a host without datagrams with status 3. The kernel then frees everything that the
 * program had.
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

#define RECEIVES 4

static struct rdma_cm_id *listener, *id;
static struct ibv_mr *incoming_mr;
static struct {
	struct ibv_grh header; /* 40 bytes before the data of each datagram */
	uint32_t number;       /* in network byte order */
} incoming[RECEIVES];

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

/* Step 1. */
static void find_device(void)
{
	int count, usable = 0;
	struct ibv_context **devices = rdma_get_devices(&count);

	check(devices ? 0 : -1, "list the devices");
	for (int i = 0; i < count; i++)
		usable += devices[i]->device->transport_type != IBV_TRANSPORT_IWARP;
	rdma_free_devices(devices);
	if (usable == 0)
		errx(3, "no device here has datagrams; iWARP has none");
}

/* Steps 2 to 4. */
static void accept_client(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_UDP };
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_UD,
					       .cap = { 1, RECEIVES, 1, 1, sizeof(uint32_t) } };
	struct rdma_conn_param parameters = { 0 };
	struct rdma_addrinfo *own;
	int error = rdma_getaddrinfo("0.0.0.0", "0", &hints, &own); /* step 2 */

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&listener, own, NULL, NULL), "create an endpoint");
	rdma_freeaddrinfo(own);
	check(rdma_listen(listener, 1), "listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(fflush(stdout) ? -1 : 0, "write the output");
	check(rdma_get_request(listener, &id), "get a request");
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the request");
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");

	incoming_mr = rdma_reg_msgs(id, incoming, sizeof(incoming)); /* step 3 */
	check(incoming_mr ? 0 : -1, "register memory");
	for (int i = 0; i < RECEIVES; i++)
		check(rdma_post_recv(id, (void *)(uintptr_t)i, &incoming[i], sizeof(incoming[i]),
				     incoming_mr),
		      "post a receive");

	check(rdma_accept(id, &parameters), "accept the request"); /* step 4 */
}

/*
 * Step 5. Over InfiniBand and RoCE v1 the header is a global route header (GRH). Over RoCE v2 it is
 * an IPv6 header, which has the addresses in the same place, or an IPv4 header in the last 20
 * bytes. Within an InfiniBand subnet the header can be absent. Then only the sender's LID is known.
 */
static void print_sender(const struct ibv_wc *wc)
{
	const struct ibv_grh *header = &incoming[wc->wr_id].header;
	const unsigned char *ipv4 = (const unsigned char *)header + 20;
	char sender[INET6_ADDRSTRLEN];

	if (!(wc->wc_flags & IBV_WC_GRH))
		snprintf(sender, sizeof(sender), "LID %u", wc->slid);
	else if (ntohl(header->version_tclass_flow) >> 28 == 6)
		inet_ntop(AF_INET6, &header->sgid, sender, sizeof(sender));
	else
		inet_ntop(AF_INET, ipv4 + 12, sender, sizeof(sender));
	printf("datagram %u: %u bytes, %zu of them header, from %s\n",
	       ntohl(incoming[wc->wr_id].number), wc->byte_len, sizeof(*header), sender);
}

/* Step 6. */
static void answer(struct ibv_wc *wc)
{
	struct ibv_ah *client =
		ibv_create_ah_from_wc(id->pd, wc, &incoming[wc->wr_id].header, id->port_num);
	struct ibv_sge piece = { (uintptr_t)&incoming[wc->wr_id].number, sizeof(uint32_t), 0 };
	struct ibv_send_wr *bad, request = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		/* the connection manager gives this QKEY to each UD queue pair */
		.wr.ud = { client, wc->src_qp, RDMA_UDP_QKEY },
	};

	check(client ? 0 : -1, "create an address handle");
	check(ibv_post_send(id->qp, &request, &bad), "post a send");
	check_completion(rdma_get_send_comp(id, wc), wc);
	check(ibv_destroy_ah(client), "destroy an address handle");
}

int main(int argc, char **argv)
{
	struct ibv_wc wc;

	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	find_device();
	accept_client();
	for (int i = 0; i < RECEIVES; i++) {
		check_completion(rdma_get_recv_comp(id, &wc), &wc);
		print_sender(&wc);
		answer(&wc);
	}
	rdma_destroy_qp(id); /* step 7: first, so that the adapter no longer uses the memory */
	check(rdma_dereg_mr(incoming_mr), "deregister memory");
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
