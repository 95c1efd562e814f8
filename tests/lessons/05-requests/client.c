// SPDX-License-Identifier: MIT
/*
 * Perform the operations of a reliable connection, most of them on a number in a server's memory.
 *   cc client.c -o client -lrdmacm -libverbs && ./client ADDRESS PORT
 *
 *   1. create an endpoint, register memory
 *   2. connect; the acceptance brings address and rkey of the server's number
 *   3. READ and WRITE the number: a request is an ibv_send_wr, its local memory an ibv_sge
 *   4. compare-and-swap, fetch-and-add, if the device has them
 *   5. WRITE and SEND with immediate data, if the device supports them
 *   6. post a list of three requests: inline data, and one completion for all of them
 *   7. disconnect, destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1. The kernel then frees everything that the program had.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rdma_cm_id *id;
static struct ibv_mr *mr;
static uint64_t local;       /* the number to send, or the number that arrives */
static struct ibv_sge piece; /* describes `local` to the adapter */

/* The private data of the acceptance, big-endian. */
static struct {
	uint64_t address;
	uint32_t rkey, padding;
} remote;

/* Works around a fault of soft-iWARP; see the end of this file. */
static void nudge_soft_iwarp(void);

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
static void prepare(const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *server;
	/*
	 * At most 33 sends are outstanding: a list of 3, and 30 of nudge_soft_iwarp(). Each has 1
	 * piece of memory, or 8 bytes of inline data. The 1 receive is not used.
	 */
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { 33, 1, 1, 1, sizeof(local) } };
	int error = rdma_getaddrinfo(address, port, &hints, &server);
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;

	if (error)
		errx(1, "cannot resolve the name: %s",
		     error == -1 ? strerror(errno) : gai_strerror(error));
	check(rdma_create_ep(&id, server, NULL, NULL), "create an endpoint");
	rdma_freeaddrinfo(server);
	/* id->verbs is NULL if the node GUID of the device is 0 */
	check(id->verbs ? 0 : ENODEV, "find the device of the connection");
	check(rdma_create_qp(id, NULL, &attributes), "create a queue pair");
	/* iWARP answers a READ with a WRITE into `local` */
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	mr = ibv_reg_mr(id->pd, &local, sizeof(local), access);
	check(mr ? 0 : -1, "register memory");
	piece = (struct ibv_sge){ (uintptr_t)&local, sizeof(local), mr->lkey };
}

/* Step 2. */
static void connect_to_server(void)
{
	struct rdma_conn_param parameters = { .initiator_depth = 1,
					      .retry_count = 7,
					      .rnr_retry_count = 7 };

	/* nudge_soft_iwarp() waits for the event. 0 asks for an event for any completion. */
	check(ibv_req_notify_cq(id->send_cq, 0), "arm a queue");
	check(rdma_connect(id, &parameters), "connect");
	/* rdma_connect(3) has waited for this event. The next call that waits for one frees it. */
	if (id->event->param.conn.private_data_len < sizeof(remote))
		errx(1, "the acceptance brings no address and rkey");
	memcpy(&remote, id->event->param.conn.private_data, sizeof(remote));
}

/* Return a request that sends `local` to the server, or fills `local` with the server's number. */
static struct ibv_send_wr request_for(enum ibv_wr_opcode opcode)
{
	return (struct ibv_send_wr){
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, /* without it only a failure is reported */
		.wr.rdma = { be64toh(remote.address), be32toh(remote.rkey) },
	};
}

/*
 * Post a list, await one completion, print `local`. If the device refuses immediate data, print
 * this instead.
 */
static void perform(const char *name, struct ibv_send_wr *list)
{
	struct ibv_send_wr *bad; /* the first request that was not posted */
	struct ibv_wc wc;
	int error = ibv_post_send(id->qp, list, &bad);

	if (error &&
	    (list->opcode == IBV_WR_SEND_WITH_IMM || list->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)) {
		printf("%s: the device refuses it\n", name);
		return;
	}
	check(error, "post a request");
	if (list->opcode == IBV_WR_RDMA_READ)
		nudge_soft_iwarp(); /* only the first request can stay unnoticed */
	check(rdma_get_send_comp(id, &wc) < 0 ? -1 : 0, "get a completion");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "cannot complete %s: %s", name, ibv_wc_status_str(wc.status));
	printf("%s: %" PRIu64 "\n", name, local);
}

/* Step 3. */
static void read_and_write(void)
{
	struct ibv_send_wr request = request_for(IBV_WR_RDMA_READ);

	perform("READ", &request);
	local = 200;
	request.opcode = IBV_WR_RDMA_WRITE;
	perform("WRITE", &request);
}

/*
 * Step 4. Each operation fills `local` with the old number. Between its read and its write no other
 * atomic operation of the server's device can change the number.
 */
static void change_atomically(void)
{
	struct ibv_send_wr request = request_for(IBV_WR_ATOMIC_CMP_AND_SWP);
	struct ibv_device_attr attributes;

	check(ibv_query_device(id->verbs, &attributes), "query the device");
	if (attributes.atomic_cap == IBV_ATOMIC_NONE) {
		printf("the device has no atomic operations\n");
		return;
	}
	request.wr.atomic.remote_addr = be64toh(remote.address);
	request.wr.atomic.rkey = be32toh(remote.rkey);
	request.wr.atomic.compare_add = 200; /* if the number is 200 ... */
	request.wr.atomic.swap = 300;        /* ... replace it by 300 */
	perform("compare-and-swap", &request);
	request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	request.wr.atomic.compare_add = 5;
	perform("fetch-and-add", &request);
}

/* Step 5. Immediate data are 32 bits for the peer's program, in the completion of a receive. */
static void send_immediate(const char *name, enum ibv_wr_opcode opcode, uint32_t data)
{
	struct ibv_send_wr request = request_for(opcode);

	local = 400;
	request.imm_data = htobe32(data);
	perform(name, &request);
}

/*
 * Step 6. ibv_post_send(3) copies inline data. They need no region, and their memory is free at
 * once. A send queue completes in order, so the completion of the last request is enough.
 */
static void post_list(void)
{
	uint64_t numbers[] = { 500, 501, 502 };
	struct ibv_send_wr requests[3];
	struct ibv_sge pieces[3];

	for (int i = 0; i < 3; i++) {
		pieces[i] = (struct ibv_sge){ (uintptr_t)&numbers[i], sizeof(numbers[i]), 0 };
		requests[i] = request_for(i < 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
		requests[i].sg_list = &pieces[i];
		requests[i].send_flags = IBV_SEND_INLINE | (i == 2 ? IBV_SEND_SIGNALED : 0);
		requests[i].next = i < 2 ? &requests[i + 1] : NULL;
	}
	local = numbers[2]; /* perform() prints it */
	perform("WRITE, WRITE, SEND", requests);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: %s ADDRESS PORT", argv[0]);
	alarm(30);
	prepare(argv[1], argv[2]);
	connect_to_server();
	read_and_write();
	change_atomically();
	send_immediate("WRITE with immediate data", IBV_WR_RDMA_WRITE_WITH_IMM, 7);
	send_immediate("SEND with immediate data", IBV_WR_SEND_WITH_IMM, 8);
	post_list();
	check(rdma_disconnect(id), "disconnect"); /* step 7 */
	rdma_destroy_qp(id); /* first, so that the adapter no longer uses the memory */
	check(ibv_dereg_mr(mr), "deregister memory");
	rdma_destroy_ep(id);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}

/*
 * Work around a fault of the kernel's soft-iWARP (siw). A request that arrives while the server
 * accepts can stay unnoticed until more data arrives. So write zero bytes each second until the
 * first completion is reported. The completion queue was armed before the connection existed, so
 * it also reports an early completion.
 */
static void nudge_soft_iwarp(void)
{
	struct pollfd completion = { .fd = id->send_cq_channel->fd, .events = POLLIN };
	int count;

	while ((count = poll(&completion, 1, 1000)) == 0)
		check(rdma_post_writev(id, NULL, NULL, 0, 0, 0, 0), "post a write of zero bytes");
	check(count < 0 ? -1 : 0, "wait");
}
