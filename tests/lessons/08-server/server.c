// SPDX-License-Identifier: MIT
/*
 * Serve the client of lesson 03, and 'rdma-client write': many clients at the same time.
 *   cc server.c -o server -pthread -lrdmacm -libverbs && ./server
 *
 *   1. main thread: block the signals that end the server, so that poll(2) can wait for them
 *   2. main thread: listen, start THREADS threads, wait until they have ended
 *   3. each thread: wait for a connection request, serve it by steps 4 to 8, and wait again
 *   4. create protection domain, memory regions, completion channel, completion queue, queue pair
 *   5. give the connection an event channel of its own: no other thread sees its events
 *   6. post the receives, accept, wait until the connection is established
 *   7. exchange keys, RDMA WRITE, exchange DONE, as in lesson 03; disconnect
 *   8. destroy everything, each object before those that it uses
 *
 * A client that is silent for SILENCE seconds loses its connection. A failure in steps 4 to 8 ends
 * only that connection, and is printed. Ctrl-C or SIGTERM ends the server when all connections have
 * ended. Exit status 1 means that the server itself failed.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SIZE     1024 /* bytes that each side writes */
#define THREADS  16   /* connections at a time; further clients wait */
#define SILENCE  10   /* seconds after which a silent client loses its connection */
#define MSG_MR   0
#define MSG_DONE 1

/* On the wire: 56 bytes, little-endian. Unused bytes are zero. */
struct message {
	uint32_t type, unused[5];
	uint64_t address, length, reserved; /* MSG_MR: the memory to write to */
	uint32_t rkey, padding;             /* MSG_MR: the key of that memory */
};

/* One connection. Only its thread uses it. */
struct connection {
	struct rdma_cm_id *id;
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_mr *local_mr, *incoming_mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct message receive[2], send[2]; /* indexed by MSG_MR and MSG_DONE */
	/* set by completions: the wr_id of a request is the address of its flag */
	bool received[2], sent[2], written;
	bool established, disconnected; /* set by events */
	char outgoing[SIZE], incoming[SIZE + 1];
};

/* Shared by all threads, which do not change these variables. */
static struct rdma_cm_id *listener;
static int stop; /* readable after a signal to end the server */

/*
 * Return true if the `result` of a call is 0. Otherwise print the reason. A failed call returns -1
 * and sets errno, or it returns the errno value. Some drivers negate that value.
 */
static bool good(int result, const char *what)
{
	if (result != 0)
		warnx("cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
	return result == 0;
}

/*
 * Steps 4 and 5. Each client has its own protection domain, so that no client can use an rkey of
 * another client.
 */
static bool create_resources(struct connection *c)
{
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC, .cap = { 3, 2, 1, 1, 0 } };
	const int local = IBV_ACCESS_LOCAL_WRITE, remote = local | IBV_ACCESS_REMOTE_WRITE;

	c->pd = ibv_alloc_pd(c->id->verbs); /* step 4 */
	if (!good(c->pd ? 0 : -1, "allocate a protection domain"))
		return false;
	c->local_mr = ibv_reg_mr(c->pd, c, sizeof(*c), local);
	if (!good(c->local_mr ? 0 : -1, "register memory"))
		return false;
	c->incoming_mr = ibv_reg_mr(c->pd, c->incoming, SIZE, remote);
	if (!good(c->incoming_mr ? 0 : -1, "register memory"))
		return false;
	c->channel = ibv_create_comp_channel(c->id->verbs);
	if (!good(c->channel ? 0 : -1, "create a completion channel"))
		return false;
	c->cq = ibv_create_cq(c->id->verbs, 5, NULL, c->channel, 0);
	if (!good(c->cq ? 0 : -1, "create a completion queue"))
		return false;
	c->events = rdma_create_event_channel(); /* step 5 */
	if (!good(c->events ? rdma_migrate_id(c->id, c->events) : -1, "move events"))
		return false;
	attributes.send_cq = attributes.recv_cq = c->cq;
	return good(rdma_create_qp(c->id, c->pd, &attributes), "create a queue pair");
}

/*
 * Sleep until a completion or connection event arrives, for `seconds` at most, and take the event.
 * Return 0, ETIMEDOUT, or -1 with errno.
 */
static int take_event(struct connection *c, int seconds)
{
	struct pollfd ready[] = { { c->channel->fd, POLLIN, 0 }, { c->events->fd, POLLIN, 0 } };
	int count = poll(ready, 2, seconds * 1000);
	struct rdma_cm_event *event;
	struct ibv_cq *cq;
	void *context;

	if (count <= 0)
		return count == 0 ? ETIMEDOUT : -1;
	if (ready[0].revents) {
		if (ibv_get_cq_event(c->channel, &cq, &context))
			return -1;
		ibv_ack_cq_events(cq, 1); /* ibv_destroy_cq(3) waits for this */
		return 0;
	}
	if (rdma_get_cm_event(c->events, &event))
		return -1;
	if (event->event == RDMA_CM_EVENT_ESTABLISHED)
		c->established = true;
	else if (event->event != RDMA_CM_EVENT_UNREACHABLE) /* can be temporary */
		c->disconnected = true;
	return rdma_ack_cm_event(event); /* rdma_destroy_id(3) waits for this */
}

/*
 * Sleep until `*condition` is true, but at most `seconds` from one event to the next. Return 0, an
 * errno value, or -1 with errno.
 */
static int await(struct connection *c, const bool *condition, int seconds)
{
	bool iwarp = c->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_wc wc;
	int count, error = 0;

	while (!*condition && !error) {
		error = ibv_req_notify_cq(c->cq, 0); /* before polling: no completion is missed */
		count = error ? 0 : ibv_poll_cq(c->cq, 1, &wc);
		if (count > 0 && wc.status == IBV_WC_SUCCESS)
			*(bool *)(uintptr_t)wc.wr_id = true;
		else if (count > 0 && wc.status != IBV_WC_WR_FLUSH_ERR && /* an event reports why */
			 !(iwarp && wc.status == IBV_WC_LOC_QP_OP_ERR))   /* soft-iWARP's flush */
			error = EIO, warnx("a request failed: %s", ibv_wc_status_str(wc.status));
		else if (count < 0)
			error = EIO;
		else if (count == 0 && !error)
			error = c->disconnected ? ECONNRESET : take_event(c, seconds);
	}
	return error;
}

static bool receives(struct connection *c, uint32_t type)
{
	return good(await(c, &c->received[type], SILENCE), "receive a message") &&
	       good(le32toh(c->receive[type].type) == type ? 0 : EPROTO, "use a message");
}

static bool sends(struct connection *c, uint32_t type)
{
	c->send[type].type = htole32(type);
	return good(rdma_post_send(c->id, &c->sent[type], &c->send[type], sizeof(struct message),
				   c->local_mr, IBV_SEND_SIGNALED),
		    "post a SEND");
}

/* Steps 6 and 7. */
static bool exchange(struct connection *c)
{
	struct message *own = c->send, *peer = c->receive; /* each side's MSG_MR */
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	int ret = 0;

	for (int i = MSG_MR; i <= MSG_DONE && !ret; i++) /* step 6 */
		ret = rdma_post_recv(c->id, &c->received[i], &peer[i], sizeof(*own), c->local_mr);
	own->address = htole64((uintptr_t)c->incoming); /* step 7 */
	own->length = htole64(SIZE);
	own->rkey = htole32(c->incoming_mr->rkey);
	if (!good(ret, "post a receive") ||
	    !good(rdma_accept(c->id, &parameters), "accept a client"))
		return false;
	if (!good(await(c, &c->established, SILENCE), "accept a client"))
		return false;
	if (!receives(c, MSG_MR)) /* over iWARP the client must send first */
		return false;
	if (!good(le64toh(peer->length) < SIZE ? EMSGSIZE : 0, "use a memory region"))
		return false;
	if (!sends(c, MSG_MR))
		return false;
	ret = rdma_post_write(c->id, &c->written, c->outgoing, SIZE, c->local_mr, IBV_SEND_SIGNALED,
			      le64toh(peer->address), le32toh(peer->rkey));
	if (!good(ret, "post a WRITE") || !sends(c, MSG_DONE))
		return false;
	if (!receives(c, MSG_DONE))
		return false;
	/* give the client a second to disconnect first */
	await(c, &c->disconnected, 1);
	return c->disconnected || good(await(c, &c->sent[MSG_DONE], SILENCE), "send");
}

/* Step 8. Destroy the queue pair first, so that the adapter no longer uses the rest. */
static void destroy(struct connection *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	good(c->cq ? ibv_destroy_cq(c->cq) : 0, "destroy a completion queue");
	good(c->channel ? ibv_destroy_comp_channel(c->channel) : 0, "destroy a completion channel");
	good(c->incoming_mr ? ibv_dereg_mr(c->incoming_mr) : 0, "deregister memory");
	good(c->local_mr ? ibv_dereg_mr(c->local_mr) : 0, "deregister memory");
	good(c->pd ? ibv_dealloc_pd(c->pd) : 0, "free a protection domain");
	good(rdma_destroy_id(c->id), "destroy an identifier"); /* rejects an unaccepted client */
	if (c->events)
		rdma_destroy_event_channel(c->events);
}

static void serve(struct rdma_cm_id *id)
{
	struct connection c = { .id = id, .outgoing = "message from the server" };
	/* id->verbs is NULL if the node GUID of the device is 0 */
	bool done = id->verbs && create_resources(&c) && exchange(&c);

	if (c.established && !c.disconnected)
		good(rdma_disconnect(id), "disconnect");
	destroy(&c);
	/*
	 * Replace all but printable characters, because a terminal would obey control characters.
	 * The client can no longer change c.incoming.
	 */
	for (char *character = c.incoming; *character; character++)
		*character = (char)(*character < ' ' || *character > '~' ? '?' : *character);
	printf(done ? "remote buffer: %s\n" : "a client failed.\n", c.incoming);
}

/*
 * Step 3. All threads wait for the same requests. EAGAIN means that another thread has taken the
 * request.
 */
static void *run(void *unused)
{
	struct pollfd ready[] = { { stop, POLLIN, 0 }, { listener->channel->fd, POLLIN, 0 } };
	struct rdma_cm_id *id;

	while (good(poll(ready, 2, -1) < 0 ? -1 : 0, "wait") && !ready[0].revents) {
		if (rdma_get_request(listener, &id) == 0)
			serve(id);
		else if (!good(errno == EAGAIN ? 0 : -1, "get a connection request"))
			break;
	}
	return unused;
}

int main(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	pthread_t threads[THREADS];
	sigset_t signals;

	setvbuf(stdout, NULL, _IOLBF, 0); /* show each line at once, also in a file */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	stop = sigprocmask(SIG_BLOCK, &signals, NULL) ? -1 : signalfd(-1, &signals, 0); /* step 1 */
	if (!good(stop < 0 ? -1 : 0, "wait for signals") ||
	    !good(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "create a listener") ||
	    !good(rdma_bind_addr(listener, (struct sockaddr *)&any), "bind to an address") ||
	    !good(fcntl(listener->channel->fd, F_SETFL, O_NONBLOCK), "create a listener") ||
	    !good(rdma_listen(listener, THREADS), "listen")) /* step 2 */
		return 1;
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	for (int i = 0; i < THREADS; i++)
		if (!good(pthread_create(&threads[i], NULL, run, NULL), "start a thread"))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	good(rdma_destroy_id(listener), "destroy an identifier");
	return !good(fclose(stdout), "write the output") ||
	       poll(&(struct pollfd){ stop, POLLIN, 0 }, 1, 0) == 0 || close(stop);
}
