// SPDX-License-Identifier: MIT
/*
 * Connect two queue pairs without the connection manager. A TCP socket carries the values that each
 * side must know. Then the client writes to the server's memory, and sends a message.
 *   cc by-hand.c -o by-hand -libverbs && ./by-hand
 * is the server; './by-hand ADDRESS PORT' on the other host is the client.
 *
 *   1. open the first device, query the GID that is its address
 *   2. connect a TCP socket
 *   3. allocate a protection domain, register memory, create a completion queue
 *   4. create the queue pair, move it from RESET to INIT, post the receives
 *   5. exchange GID, queue pair number, first PSN, and the key of the memory by the socket
 *   6. move the queue pair to RTR (ready to receive) with the peer's values; report
 *      that by the socket
 *   7. move the queue pair to RTS (ready to send) with this side's values
 *   8. client: in each round a WRITE and a SEND; await the completion; then report the end
 *   9. server: take the completions of the receives until all have come, or none for a second
 *  10. server: move the queue pair to ERR, which flushes the other receives; both: destroy
 *
 * alarm(30) ends the program by SIGALRM after 30 s, wherever it waits. A call that fails ends it
 * with status 1, an iWARP adapter with status 3. The kernel then frees everything that the program
 * had.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PORT      1
#define GID_INDEX 1  /* for both hosts; 'rdma-client --check' prints the best index */
#define TIMEOUT   14 /* wait 4.096 us * 2^14 = 67 ms for an acknowledgment, then send again */
#define ROUNDS    1

/* The values that one side sends by the socket. All numbers are big-endian. */
struct side {
	union ibv_gid gid;
	uint64_t address; /* of memory.written */
	uint32_t qpn, psn, rkey, padding;
};

static const enum ibv_qp_type type = IBV_QPT_RC; /* or IBV_QPT_UC, an unreliable connection */
static struct side own, peer;
static int connection; /* the socket */
static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct { /* numbers of rounds, 4 bytes each, big-endian */
	uint32_t outgoing, written, incoming[ROUNDS];
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
static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	check(devices ? 0 : -1, "list the devices");
	device = devices[0] ? ibv_open_device(devices[0]) : NULL;
	check(device ? 0 : ENODEV, "open the first device");
	if (devices[0]->transport_type == IBV_TRANSPORT_IWARP)
		errx(3, "iWARP connects queue pairs by its connection manager alone");
	ibv_free_device_list(devices);
	check(ibv_query_gid(device, PORT, GID_INDEX, &own.gid), "query the GID");
}

/* Step 2. */
static void connect_to(const char *address, const char *port)
{
	struct sockaddr_in server = { .sin_family = AF_INET };

	server.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	check(inet_pton(AF_INET, address, &server.sin_addr) == 1 ? 0 : EINVAL, "use the address");
	connection = socket(AF_INET, SOCK_STREAM, 0);
	check(connection < 0 ? -1 : connect(connection, (struct sockaddr *)&server, sizeof(server)),
	      "connect the socket");
}

/* Step 2. */
static void accept_client(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { 0 };
	socklen_t length = sizeof(address);

	check(listener < 0 ? -1 : listen(listener, 1), "listen"); /* on a free port */
	check(getsockname(listener, (struct sockaddr *)&address, &length), "find the port");
	printf("listening on port %u.\n", ntohs(address.sin_port));
	check(fflush(stdout) ? -1 : 0, "write the output");
	connection = accept(listener, NULL, NULL);
	check(connection < 0 ? -1 : close(listener), "accept the client");
}

/* Modify the queue pair, and print the state that it reports then. */
static void move(struct ibv_qp_attr *attributes, int mask, const char *what)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_init_attr created;

	check(ibv_modify_qp(qp, attributes, IBV_QP_STATE | mask), what);
	check(ibv_query_qp(qp, attributes, IBV_QP_STATE, &created), "query the queue pair");
	printf("state %s\n", names[attributes->qp_state]);
}

/* Steps 3 and 4. */
static void create_queue_pair(void)
{
	/* At most 2 sends, a WRITE and a SEND, and all receives. Each has 1 piece of memory. */
	struct ibv_qp_init_attr created = { .qp_type = type, .cap = { 2, ROUNDS, 1, 1, 0 } };
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT,
					  .pkey_index = 0, /* RoCE has only the default P_Key */
					  .port_num = PORT,
					  /* what the peer may do; SEND needs no flag */
					  .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	pd = ibv_alloc_pd(device); /* step 3 */
	check(pd ? 0 : -1, "allocate a protection domain");
	mr = ibv_reg_mr(pd, &memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(mr ? 0 : -1, "register memory");
	cq = ibv_create_cq(device, 2 + ROUNDS, NULL, NULL, 0); /* an entry for each request */
	check(cq ? 0 : -1, "create a completion queue");

	created.send_cq = created.recv_cq = cq;
	qp = ibv_create_qp(pd, &created); /* step 4 */
	check(qp ? 0 : -1, "create a queue pair");
	move(&attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	     "move the queue pair to INIT");
	for (int i = 0; i < ROUNDS; i++) { /* possible from INIT on */
		struct ibv_sge piece = { (uintptr_t)&memory.incoming[i], 4, mr->lkey };
		struct ibv_recv_wr *bad, receive = { .sg_list = &piece, .num_sge = 1 };

		check(ibv_post_recv(qp, &receive, &bad), "post a receive");
	}
}

/* Step 5. */
static void exchange_values(void)
{
	/* A random first PSN, so that late packets of an earlier queue pair do not fit. */
	check(getrandom(&own.psn, sizeof(own.psn), 0) < 0 ? -1 : 0, "get a random number");
	own.psn = htobe32(own.psn & 0xffffff); /* 24 bits */
	own.qpn = htobe32(qp->qp_num);
	own.address = htobe64((uintptr_t)&memory.written);
	own.rkey = htobe32(mr->rkey);
	check(send(connection, &own, sizeof(own), 0) < 0 ? -1 : 0, "send the values");
	check(recv(connection, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer) ? 0 : ECONNRESET,
	      "receive the values");
}

/* Report to the peer that this side has reached this step, and wait until the peer has, too. */
static void meet_peer(void)
{
	char ready = 0;

	check(send(connection, &ready, 1, 0) < 0 ? -1 : 0, "report to the peer");
	check(recv(connection, &ready, 1, 0) == 1 ? 0 : ECONNRESET, "wait for the peer");
}

/* Step 6. Only a reliable connection needs the last two attributes. */
static void become_ready_to_receive(void)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		/* the path: from this GID of this port to the peer's GID */
		.ah_attr = { .is_global = 1,
			     .grh = { .dgid = peer.gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
			     .port_num = PORT },
		/* the same on both sides; 1024 bytes fit into an Ethernet frame */
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = be32toh(peer.qpn), /* drop packets of other queue pairs */
		.rq_psn = be32toh(peer.psn),      /* the number of the first packet */
		.max_dest_rd_atomic = 0,          /* READs and atomics that are served at a time */
		.min_rnr_timer = 12, /* the peer repeats a SEND without a receive after 0.64 ms */
	};
	int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	move(&attributes, mask, "move the queue pair to RTR");
}

/* Step 7. An unreliable connection needs only sq_psn. */
static void become_ready_to_send(void)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = be32toh(own.psn), /* the peer's rq_psn */
		.timeout = TIMEOUT,
		.retry_cnt = 6,     /* repetitions of a packet. Soft-RoCE takes 7 as no limit. */
		.rnr_retry = 7,     /* no limit to repetitions while the peer has no receive */
		.max_rd_atomic = 0, /* own READs and atomics at a time */
	};
	int mask = IBV_QP_SQ_PSN;

	if (type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	move(&attributes, mask, "move the queue pair to RTS");
}

/*
 * Take a completion, and return its status. If there is none, wait a millisecond, and return -1.
 * Exit if a request has failed for another reason than a flush.
 */
static int take_completion(void)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(cq, 1, &wc);

	check(count < 0 ? EIO : 0, "poll the completion queue");
	if (count == 0)
		usleep(1000);
	else if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
		errx(1, "cannot complete a request: %s", ibv_wc_status_str(wc.status));
	return count == 0 ? -1 : (int)wc.status;
}

/* Step 8. The SEND is the last request, so its completion is enough. */
static void send_round(uint32_t round)
{
	struct ibv_sge piece = { (uintptr_t)&memory.outgoing, 4, mr->lkey };
	struct ibv_send_wr *bad, message = { .sg_list = &piece, .num_sge = 1 }, write = message;

	write.opcode = IBV_WR_RDMA_WRITE;
	write.wr.rdma.remote_addr = be64toh(peer.address);
	write.wr.rdma.rkey = be32toh(peer.rkey);
	write.next = &message;
	message.opcode = IBV_WR_SEND;
	message.send_flags = IBV_SEND_SIGNALED;
	memory.outgoing = htobe32(round);
	check(ibv_post_send(qp, &write, &bad), "post a WRITE and a SEND");
	while (take_completion() != IBV_WC_SUCCESS)
		;
}

/* Step 9, and the move to ERR of step 10. */
static void receive_rounds(void)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	int received = 0, flushed = 0;

	for (int quiet = 0; received < ROUNDS && quiet < 1000; quiet++) /* ms without a message */
		if (take_completion() == IBV_WC_SUCCESS)
			received++, quiet = 0;
	move(&attributes, 0, "move the queue pair to ERR");
	while (received + flushed < ROUNDS) /* an outstanding receive uses its memory */
		flushed += take_completion() == IBV_WC_WR_FLUSH_ERR;
	printf("%d messages received, %d receives flushed, %u written\n", received, flushed,
	       be32toh(memory.written));
}

int main(int argc, char **argv)
{
	bool client = argc == 3;

	if (argc != 1 && argc != 3)
		errx(2, "usage: %s [ADDRESS PORT]", argv[0]);
	alarm(30);
	open_device();
	client ? connect_to(argv[1], argv[2]) : accept_client();
	create_queue_pair();
	exchange_values();
	become_ready_to_receive();
	meet_peer(); /* do not send before the peer is in RTR */
	become_ready_to_send();
	for (uint32_t round = 1; client && round <= ROUNDS; round++)
		send_round(round);
	meet_peer(); /* the client has sent everything */
	if (!client)
		receive_rounds();
	check(ibv_destroy_qp(qp), "destroy the queue pair"); /* step 10 */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_dereg_mr(mr), "deregister memory");
	check(ibv_dealloc_pd(pd), "free the protection domain");
	check(ibv_close_device(device) ? -1 : 0, "close the device");
	check(close(connection), "close the socket");
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
