// SPDX-License-Identifier: MIT
/*
 * Send a number to a group of receivers. Each receiver answers with the next number, and gets the
 * number after that.
 *   cc multicast.c -o multicast -lrdmacm -libverbs && ./multicast ADDRESS
 * is a receiver, and ADDRESS an address of its own adapter. './multicast ADDRESS NUMBER' is the
 * sender, and ADDRESS the address of a receiver. The sender uses the adapter that leads to it.
 *
 *   1. choose the adapter; receiver: bind to the address; sender: resolve it
 *   2. create an unreliable datagram (UD) queue pair, register memory, post receives
 *   3. join the group: librdmacm attaches the queue pair; the event brings the path to the group
 *   4. sender: send the number to the group
 *   5. receiver: take the datagram; answer on the path to the group, with another destination
 *   6. sender: take each answer; make a path from its completion; answer on that path
 *   7. end after two seconds without another datagram, the receiver also after its second datagram:
 *      leave the group, destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1, an iWARP adapter with status 3. The kernel then frees everything that the program
 * had.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP    "233.252.0.1" /* an address for documentation */
#define RECEIVES 4
#define QUIET    2000 /* milliseconds without a datagram */

static struct rdma_cm_id *id;
static struct sockaddr_in group = { .sin_family = AF_INET };
static struct ibv_mr *mr;
static struct rdma_ud_param joined; /* path, queue pair number and QKEY of the group */
static struct {
	uint32_t outgoing; /* in network byte order */
	struct {
		struct ibv_grh header; /* 40 bytes before the data of each datagram */
		uint32_t number;
	} incoming[RECEIVES];
} memory;

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
static void find_adapter(const char *text, bool sender)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	check(inet_pton(AF_INET, text, &address.sin_addr) == 1 ? 0 : EINVAL, "use the address");
	check(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP), "open the connection manager");
	if (sender)
		check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 5000),
		      "resolve the address");
	else
		check(rdma_bind_addr(id, (struct sockaddr *)&address), "bind to the address");
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the address");
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		errx(3, "iWARP has no datagrams");
}

/* Step 2. */
static void create_queue_pair(void)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_UD,
					       .cap = { 1, RECEIVES, 1, 1, 0 } };

	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	mr = rdma_reg_msgs(id, &memory, sizeof(memory));
	check(mr ? 0 : -1, "register memory");
	for (uintptr_t i = 0; i < RECEIVES; i++)
		check(rdma_post_recv(id, (void *)i, &memory.incoming[i], sizeof(memory.incoming[i]),
				     mr),
		      "post a receive");
}

/* Step 3. */
static void join(void)
{
	check(inet_pton(AF_INET, GROUP, &group.sin_addr) == 1 ? 0 : EINVAL, "use the group");
	check(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), "join the group");
	joined = id->event->param.ud;
	rdma_ack_cm_event(id->event); /* rdma_leave_multicast(3) waits for this */
	id->event = NULL;
	printf("joined %s\n", GROUP);
	check(fflush(stdout) ? -1 : 0, "write the output");
}

/* Poll each millisecond, `limit` times at most. Return true if a request has completed. */
static bool get_completion(struct ibv_cq *cq, int limit, struct ibv_wc *wc)
{
	int count = 0;

	for (int time = 0; count == 0 && time < limit; time++) {
		count = ibv_poll_cq(cq, 1, wc);
		check(count < 0 ? EIO : 0, "poll a completion queue");
		if (count == 0)
			usleep(1000);
	}
	if (count > 0 && wc->status != IBV_WC_SUCCESS)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc->status));
	return count > 0;
}

/*
 * Send a number to the queue pair `qpn`, and wait until the SEND is complete. The path leads to the
 * port of the queue pair, or to the group.
 */
static void send_number(uint32_t number, struct ibv_ah_attr *path, uint32_t qpn, uint32_t qkey)
{
	struct ibv_ah *handle = ibv_create_ah(id->pd, path);
	struct ibv_sge piece = { (uintptr_t)&memory.outgoing, sizeof(uint32_t), mr->lkey };
	struct ibv_send_wr *bad, request = { .sg_list = &piece,
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.ud = { handle, qpn, qkey } };
	struct ibv_wc wc;

	check(handle ? 0 : -1, "create an address handle");
	memory.outgoing = htonl(number);
	check(ibv_post_send(id->qp, &request, &bad), "post a SEND");
	while (!get_completion(id->send_cq, QUIET, &wc))
		;
	check(ibv_destroy_ah(handle), "destroy an address handle");
}

/*
 * Return the source of a received datagram if `which` is 0, and its destination if it is 1. Over
 * RoCE v2 with IPv4 the last 20 bytes of the header are an IPv4 header. Its last 8 bytes are the
 * two addresses.
 */
static struct in_addr address_of(const struct ibv_wc *wc, size_t which)
{
	const char *end = (const char *)&memory.incoming[wc->wr_id].number;
	struct in_addr address;

	memcpy(&address, end - 8 + 4 * which, sizeof(address));
	return address;
}

/* Print a datagram that arrives within two seconds. Return false if none arrives. */
static bool take_datagram(struct ibv_wc *wc)
{
	char source[INET_ADDRSTRLEN], destination[INET_ADDRSTRLEN];
	struct in_addr from, to;

	if (!get_completion(id->recv_cq, QUIET, wc))
		return false;
	from = address_of(wc, 0);
	to = address_of(wc, 1);
	inet_ntop(AF_INET, &from, source, sizeof(source));
	inet_ntop(AF_INET, &to, destination, sizeof(destination));
	printf("%u from %s to %s\n", ntohl(memory.incoming[wc->wr_id].number), source, destination);
	return true;
}

/*
 * Steps 5 and 7. ibv_init_ah_from_wc(3) looks for the datagram's destination among the GIDs of this
 * port. It would fail, because the destination is the group. So set the GID of the sender, which is
 * ::ffff:ADDRESS over RoCE.
 */
static void receive(void)
{
	struct ibv_ah_attr path = joined.ah_attr;
	struct in_addr sender;
	struct ibv_wc wc;

	while (!take_datagram(&wc)) /* step 5 */
		;
	sender = address_of(&wc, 0);
	path.grh.dgid = (union ibv_gid){ .raw = { [10] = 0xff, [11] = 0xff } };
	memcpy(path.grh.dgid.raw + 12, &sender, sizeof(sender));
	send_number(ntohl(memory.incoming[wc.wr_id].number) + 1, &path, wc.src_qp, RDMA_UDP_QKEY);
	take_datagram(&wc); /* step 7 */
}

/* Steps 4, 6 and 7. The sender is a member of the group, so skip its own datagram. */
static void send_to_group(uint32_t number)
{
	struct ibv_ah_attr path;
	struct ibv_wc wc;

	send_number(number, &joined.ah_attr, joined.qp_num, joined.qkey); /* step 4 */
	while (take_datagram(&wc)) {                                      /* step 6 */
		if (address_of(&wc, 1).s_addr == group.sin_addr.s_addr)
			continue;
		check(ibv_init_ah_from_wc(id->verbs, id->port_num, &wc,
					  &memory.incoming[wc.wr_id].header, &path),
		      "find the path to a receiver");
		send_number(number + 2, &path, wc.src_qp, RDMA_UDP_QKEY);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 3)
		errx(2, "usage: %s ADDRESS [NUMBER]", argv[0]);
	alarm(30);
	find_adapter(argv[1], argc == 3);
	create_queue_pair();
	join();
	if (argc == 3)
		send_to_group((uint32_t)strtoul(argv[2], NULL, 10));
	else
		receive();
	check(rdma_leave_multicast(id, (struct sockaddr *)&group), "leave the group"); /* step 7 */
	rdma_destroy_qp(id); /* from now on the adapter does not use the memory */
	check(rdma_dereg_mr(mr), "deregister memory");
	check(rdma_destroy_id(id), "destroy the identifier");
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
