// SPDX-License-Identifier: MIT
/*
 * The smallest correct client of rdma-server: this file, libibverbs and librdmacm, nothing else.
 *   cc smallest.c -o smallest -lrdmacm -libverbs && ./smallest read|write ADDRESS PORT
 *
 *   client                            server
 *     SEND MSG_MR: my region    -->
 *                               <--   SEND MSG_MR: my region
 *     RDMA READ or WRITE of 1024 bytes, each of the other's region
 *     SEND MSG_DONE             <->   SEND MSG_DONE
 *     disconnect                -->
 *
 * Prints what the server sent. Exit status: 0; 1 it failed, standard error says why; 2 wrong usage.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SECONDS      20   /* without an event; rdma_connect(3) over iWARP has TCP's deadline */
#define SIZE         1024 /* bytes of a region */
#define MESSAGE_SIZE sizeof(struct message)
#define MSG_MR       0
#define MSG_DONE     1

/* On the wire: 56 bytes, little-endian. What means nothing is zero. */
struct message {
	uint32_t type, unused[5];
	uint64_t address, length, handle; /* MSG_MR: of the region that the receiver may access */
	uint32_t rkey, padding;
};

struct client {
	/* Flags of what has happened; a work request has the address of its flag as wr_id. */
	bool happened[RDMA_CM_EVENT_TIMEWAIT_EXIT + 1], sent[2], received[2], operated, probed;
	bool reads;  /* or writes */
	int silence; /* seconds */
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *messages_mr, *outgoing_mr, *incoming_mr;
	struct message out[2], in[2]; /* MSG_MR and MSG_DONE; one memory region */
	char outgoing[SIZE], incoming[SIZE];
};

static bool failed(const char *what, const char *why, int status)
{
	warnx("cannot %s: %s (%d)", what, why, status);
	return false;
}

/* Two conventions meet here: librdmacm returns -1 and sets errno, libibverbs returns the errno. */
static bool succeeded(int result, const char *what)
{
	int error = result == -1 ? errno : result;

	return !result || failed(what, strerror(error), error);
}

static bool take_cm_event(struct client *client)
{
	struct rdma_cm_event *event;
	bool good;

	if (!succeeded(rdma_get_cm_event(client->events, &event), "get a connection event"))
		return false;
	/* a connection that stands may be called UNREACHABLE, and stands all the same */
	good = event->status == 0 || client->happened[RDMA_CM_EVENT_ESTABLISHED] ||
	       failed("connect", rdma_event_str(event->event), event->status);
	client->happened[event->event] = true;
	rdma_ack_cm_event(event); /* frees it; rdma_destroy_id(3) waits for this */
	return good;
}

/* Asks for the next event, then polls: what completes after the last poll causes that event. */
static bool take_cq_event(struct client *client)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int count;

	if (!succeeded(ibv_get_cq_event(client->channel, &cq, &context), "get a completion event"))
		return false;
	ibv_ack_cq_events(cq, 1); /* ibv_destroy_cq(3) waits for this */
	if (!succeeded(ibv_req_notify_cq(cq, 0), "ask for completion events"))
		return false;
	while ((count = ibv_poll_cq(cq, 1, &wc)) > 0) {
		unsigned int next = client->received[MSG_MR] ? MSG_DONE : MSG_MR;

		if (wc.status != IBV_WC_SUCCESS) /* then hardly another member means anything */
			return failed("complete a request", ibv_wc_status_str(wc.status),
				      (int)wc.status);
		if (wc.opcode & IBV_WC_RECV &&
		    (wc.byte_len != MESSAGE_SIZE || le32toh(client->in[next].type) != next))
			return succeeded(EPROTO, "use a message");
		*(bool *)(uintptr_t)wc.wr_id = true;
	}
	return succeeded(count ? EIO : 0, "poll for completions");
}

/* Waits for a flag that one of the functions above sets. */
static bool await(struct client *client, const bool *flag)
{
	struct pollfd ready[] = { { client->events->fd, POLLIN, 0 },
				  { client->cq ? client->channel->fd : -1, POLLIN, 0 } };

	while (!*flag) {
		int count = poll(ready, 2, 1000);

		if (count < 0 || (count == 0 && ++client->silence == SECONDS))
			return succeeded(count ? -1 : ETIMEDOUT, "wait");
		/* soft-iWARP may overlook what comes while a server accepts, until more comes */
		if (count == 0 && flag == &client->received[MSG_MR] &&
		    rdma_post_writev(client->id, &client->probed, NULL, 0, IBV_SEND_SIGNALED, 0, 0))
			return succeeded(-1, "probe");
		if ((ready[1].revents && !take_cq_event(client)) ||
		    (ready[0].revents && !take_cm_event(client)))
			return false;
		if (!*flag && client->happened[RDMA_CM_EVENT_DISCONNECTED])
			return succeeded(ECONNRESET, "complete the exchange");
	}
	return true;
}

/* All that needs the device. The receives are there before the peer can send; 32 sends: probes. */
static bool create(struct client *client)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC, .cap = { 32, 2, 1, 1, 0 } };
	unsigned int outgoing = client->reads ? IBV_ACCESS_REMOTE_READ : 0;
	unsigned int local = IBV_ACCESS_LOCAL_WRITE, incoming = local;

	if (!client->reads || client->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		incoming |= IBV_ACCESS_REMOTE_WRITE; /* iWARP answers a READ by a WRITE */
	if (!(client->pd = ibv_alloc_pd(client->id->verbs)) ||
	    !(client->channel = ibv_create_comp_channel(client->id->verbs)) ||
	    !(client->cq = ibv_create_cq(client->id->verbs, 34, NULL, client->channel, 0)) ||
	    !(client->messages_mr = ibv_reg_mr(client->pd, client->out, 4 * MESSAGE_SIZE, local)) ||
	    !(client->outgoing_mr = ibv_reg_mr(client->pd, client->outgoing, SIZE, outgoing)) ||
	    !(client->incoming_mr = ibv_reg_mr(client->pd, client->incoming, SIZE, incoming)))
		return succeeded(-1, "allocate a completion queue or register memory");
	attributes.send_cq = attributes.recv_cq = client->cq;
	if (!succeeded(rdma_create_qp(client->id, client->pd, &attributes), "create a queue pair"))
		return false;
	for (int type = MSG_MR; type <= MSG_DONE; type++)
		if (rdma_post_recv(client->id, &client->received[type], &client->in[type],
				   MESSAGE_SIZE, client->messages_mr))
			return succeeded(-1, "post a receive");
	return succeeded(ibv_req_notify_cq(client->cq, 0), "ask for completion events");
}

static bool connect_to(struct client *client, const char *address, const char *port)
{
	struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1 };
	struct addrinfo *found;
	int error = getaddrinfo(address, port, NULL, &found);
	bool good;

	if (error)
		return failed("resolve the name", gai_strerror(error), error);
	client->events = rdma_create_event_channel();
	good = succeeded(client->events ? 0 : -1, "open the connection manager") &&
	       succeeded(rdma_create_id(client->events, &client->id, NULL, RDMA_PS_TCP), "begin") &&
	       succeeded(rdma_resolve_addr(client->id, NULL, found->ai_addr, 5000), "resolve");
	freeaddrinfo(found);
	parameters.retry_count = parameters.rnr_retry_count = 7; /* of the latter: without end */
	return good && await(client, &client->happened[RDMA_CM_EVENT_ADDR_RESOLVED]) &&
	       create(client) &&
	       succeeded(rdma_resolve_route(client->id, 5000), "resolve the route") &&
	       await(client, &client->happened[RDMA_CM_EVENT_ROUTE_RESOLVED]) &&
	       succeeded(rdma_connect(client->id, &parameters), "connect") &&
	       await(client, &client->happened[RDMA_CM_EVENT_ESTABLISHED]);
}

static bool send_message(struct client *client, uint32_t type)
{
	client->out[type].type = htole32(type);
	return succeeded(rdma_post_send(client->id, &client->sent[type], &client->out[type],
					MESSAGE_SIZE, client->messages_mr, IBV_SEND_SIGNALED),
			 "post a send");
}

static bool exchange(struct client *client)
{
	const struct ibv_mr *region = client->reads ? client->outgoing_mr : client->incoming_mr;
	struct ibv_mr *local = client->reads ? client->incoming_mr : client->outgoing_mr;
	struct message *mine = &client->out[MSG_MR], *peer = &client->in[MSG_MR];
	int error;

	mine->address = htole64((uintptr_t)region->addr);
	mine->length = htole64(SIZE);
	mine->rkey = htole32(region->rkey);
	if (!send_message(client, MSG_MR) || !await(client, &client->received[MSG_MR]))
		return false;
	if (le64toh(peer->length) < SIZE)
		return succeeded(EMSGSIZE, "use the peer's region");
	error = (client->reads ? rdma_post_read : rdma_post_write)(
		client->id, &client->operated, local->addr, SIZE, local, IBV_SEND_SIGNALED,
		le64toh(peer->address), le32toh(peer->rkey));
	/* a SEND may overtake a READ, but no WRITE: only then MSG_DONE can follow at once */
	return succeeded(error, "post the operation") &&
	       (!client->reads || await(client, &client->operated)) &&
	       send_message(client, MSG_DONE) && await(client, &client->sent[MSG_DONE]) &&
	       await(client, &client->received[MSG_DONE]) &&
	       succeeded(rdma_disconnect(client->id), "disconnect") &&
	       await(client, &client->happened[RDMA_CM_EVENT_DISCONNECTED]);
}

/* In this order. Once the queue pair is gone, no adapter accesses what was posted. */
static bool tear_down(struct client *client)
{
	bool good = true;

	if (client->id && client->id->qp)
		rdma_destroy_qp(client->id);
	good &= !client->cq || succeeded(ibv_destroy_cq(client->cq), "destroy the CQ");
	good &= !client->channel || succeeded(ibv_destroy_comp_channel(client->channel), "close");
	good &= !client->incoming_mr || succeeded(ibv_dereg_mr(client->incoming_mr), "deregister");
	good &= !client->outgoing_mr || succeeded(ibv_dereg_mr(client->outgoing_mr), "deregister");
	good &= !client->messages_mr || succeeded(ibv_dereg_mr(client->messages_mr), "deregister");
	good &= !client->pd || succeeded(ibv_dealloc_pd(client->pd), "free the PD");
	good &= !client->id || succeeded(rdma_destroy_id(client->id), "destroy the id");
	if (client->events)
		rdma_destroy_event_channel(client->events);
	return good;
}

int main(int argc, char **argv)
{
	struct client client = { .outgoing = "message from the smallest client" };
	bool good;

	if (argc != 4 || (strcmp(argv[1], "read") && strcmp(argv[1], "write")))
		errx(2, "usage: smallest read|write ADDRESS PORT");
	client.reads = !strcmp(argv[1], "read");
	good = connect_to(&client, argv[2], argv[3]) && exchange(&client);
	if (!tear_down(&client) || !good)
		return 1;
	printf("remote buffer: "); /* which nobody else can change any more */
	for (const char *c = client.incoming; c < client.incoming + SIZE && *c; c++)
		putchar(*c >= ' ' && *c <= '~' ? *c : '?'); /* a terminal obeys others */
	return puts("") == EOF || !succeeded(fclose(stdout), "write the output");
}
