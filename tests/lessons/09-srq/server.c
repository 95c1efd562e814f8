// SPDX-License-Identifier: MIT
/*
 * Answer two clients, whose messages all arrive in the buffers of one shared receive queue (SRQ).
 *   cc server.c -o server -lrdmacm -libverbs && ./server
 *
 *   1. create an event channel, listen
 *   2. at the first request, on its device: create the SRQ, one completion queue, BUFFERS receives
 *   3. arm the limit of the SRQ: an event is due once fewer than LIMIT receives are left
 *   4. at each request: create a queue pair that uses the SRQ, accept
 *   5. sleep in poll(2) until a connection event, a completion or a device event arrives
 *   6. a message: find its connection by the queue pair's number, send it back from its own buffer
 *   7. a completed SEND: mark its buffer as free
 *   8. the limit event: post the free buffers, arm the limit again
 *   9. when CLIENTS clients have left: destroy
 *
 * alarm(30) bounds every wait: after 30 s SIGALRM ends the program. A call that fails ends it with
 * status 1, a device without SRQ with status 3. The kernel then frees everything that the program
 * had.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFERS 32
#define LIMIT   16
#define CLIENTS 2  /* each has at most one message without an answer */
#define SIZE    32 /* bytes of a message */

/* A buffer belongs to at most one work request, whose wr_id is the address of the buffer. */
struct buffer {
	char bytes[SIZE];
	enum {
		FREE,
		POSTED,
		SENDING
	} state;
};

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener, *ids[CLIENTS]; /* a client that has left keeps its place */
static int connected, left;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_srq *srq;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct buffer buffers[BUFFERS];
static int posted; /* number of posted receives whose completion is not polled yet */
static int messages, limits;

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

static void post_free_buffers(void)
{
	for (struct buffer *buffer = buffers; buffer < buffers + BUFFERS; buffer++) {
		struct ibv_sge part = { (uintptr_t)buffer->bytes, SIZE, mr->lkey };
		struct ibv_recv_wr request = { (uintptr_t)buffer, NULL, &part, 1 }, *bad;

		if (buffer->state != FREE)
			continue;
		check(ibv_post_srq_recv(srq, &request, &bad), "post a receive");
		buffer->state = POSTED;
		posted++;
	}
}

/* Arm the limit of the SRQ, which each limit event disarms. */
static void arm_limit(void)
{
	struct ibv_srq_attr attributes = { .srq_limit = LIMIT };

	check(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), "arm the limit");
}

/* Steps 2 and 3. */
static void create_shared(struct ibv_context *verbs)
{
	struct ibv_srq_init_attr attributes = { .attr = { .max_wr = BUFFERS, .max_sge = 1 } };

	pd = ibv_alloc_pd(verbs);
	check(pd ? 0 : -1, "allocate a protection domain");
	mr = ibv_reg_mr(pd, buffers, sizeof(buffers), IBV_ACCESS_LOCAL_WRITE);
	check(mr ? 0 : -1, "register memory");
	srq = ibv_create_srq(pd, &attributes); /* step 2 */
	if (!srq)
		errx(3, "the device has no shared receive queue: %s", strerror(errno));
	channel = ibv_create_comp_channel(verbs);
	check(channel ? 0 : -1, "create a completion channel");
	cq = ibv_create_cq(verbs, BUFFERS, NULL, channel, 0); /* one entry for each buffer */
	check(cq ? 0 : -1, "create a completion queue");
	check(ibv_req_notify_cq(cq, 0), "arm the completion queue");
	post_free_buffers();
	arm_limit();                              /* step 3 */
	if (ibv_query_srq(srq, &attributes.attr)) /* not every device can do this */
		return;
	printf("room for %u receives, limit %u\n", attributes.attr.max_wr,
	       attributes.attr.srq_limit);
}

/* Step 4. */
static void accept_client(struct rdma_cm_id *id)
{
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attributes = { .qp_type = IBV_QPT_RC,
					       .cap = { BUFFERS, 0, 1, 0, 0 } };

	if (!srq && id->verbs) /* id->verbs is NULL if the node GUID of the device is 0 */
		create_shared(id->verbs);
	if (connected == CLIENTS || !srq || id->verbs != pd->context) {
		check(rdma_reject(id, NULL, 0), "reject a client");
		check(rdma_destroy_id(id), "destroy an identifier");
		return;
	}
	attributes.srq = srq;
	attributes.send_cq = attributes.recv_cq = cq;
	check(rdma_create_qp(id, pd, &attributes), "create a queue pair");
	ids[connected++] = id;
	check(rdma_accept(id, &parameters), "accept a client");
}

static void handle_connection_event(void)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	check(rdma_get_cm_event(events, &event), "get a connection event");
	type = event->event;
	id = event->id;
	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		accept_client(id);
	left += type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_CONNECT_ERROR;
}

/*
 * Answer a message, or free the buffer of a completed SEND. wc->opcode is undefined after an error,
 * so the state of the buffer says which request has ended.
 *
 * The limit event can be late. So post the free buffers when no more than CLIENTS receives are
 * left. Do this before the answer, because the client sends again after the answer.
 */
static void handle_completion(const struct ibv_wc *wc)
{
	struct buffer *buffer = (struct buffer *)(uintptr_t)wc->wr_id;
	bool message = buffer->state == POSTED && wc->status == IBV_WC_SUCCESS;

	posted -= buffer->state == POSTED;
	buffer->state = message ? SENDING : FREE; /* FREE: step 7, or a failed receive */
	if (posted <= CLIENTS)
		post_free_buffers();
	for (int i = 0; message && i < connected; i++) /* step 6 */
		if (ids[i]->qp->qp_num == wc->qp_num &&
		    rdma_post_send(ids[i], buffer, buffer->bytes, wc->byte_len, mr,
				   IBV_SEND_SIGNALED))
			buffer->state = FREE; /* the client has disconnected */
	messages += message;
}

static void handle_completion_event(void)
{
	struct ibv_cq *source;
	struct ibv_wc wc;
	void *context;
	int count;

	check(ibv_get_cq_event(channel, &source, &context), "get a completion event");
	ibv_ack_cq_events(source, 1);
	check(ibv_req_notify_cq(source, 0), "arm the completion queue");
	while ((count = ibv_poll_cq(source, 1, &wc)) > 0)
		handle_completion(&wc);
	check(count < 0 ? EIO : 0, "poll the completion queue");
}

/* Step 8. */
static void handle_device_event(void)
{
	struct ibv_async_event event;

	check(ibv_get_async_event(pd->context, &event), "get a device event");
	ibv_ack_async_event(&event);
	if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED)
		return;
	limits++;
	post_free_buffers();
	arm_limit();
}

int main(int argc, char **argv)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	events = rdma_create_event_channel(); /* step 1 */
	check(events ? 0 : -1, "create an event channel");
	check(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP), "create an identifier");
	check(rdma_bind_addr(listener, (struct sockaddr *)&any), "bind to an address");
	check(rdma_listen(listener, CLIENTS), "listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(listener)));
	check(fflush(stdout) ? -1 : 0, "write the output");
	while (!srq)
		handle_connection_event();
	while (left < CLIENTS) { /* step 5 */
		struct pollfd ready[] = { { events->fd, POLLIN, 0 },
					  { channel->fd, POLLIN, 0 },
					  { pd->context->async_fd, POLLIN, 0 } };

		check(poll(ready, 3, -1) < 0 ? -1 : 0, "wait");
		if (ready[2].revents)
			handle_device_event();
		if (ready[1].revents)
			handle_completion_event();
		if (ready[0].revents)
			handle_connection_event();
	}
	for (int i = 0; i < connected; i++) { /* step 9 */
		rdma_destroy_qp(ids[i]);
		check(rdma_destroy_id(ids[i]), "destroy an identifier");
	}
	check(ibv_destroy_srq(srq), "destroy the SRQ"); /* after the queue pairs that use it */
	check(ibv_destroy_cq(cq), "destroy the completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	check(ibv_dereg_mr(mr), "deregister memory");
	check(ibv_dealloc_pd(pd), "free the protection domain");
	check(rdma_destroy_id(listener), "destroy an identifier");
	rdma_destroy_event_channel(events);
	printf("%d messages of %d clients in %d buffers, %d limit events.\n", messages, CLIENTS,
	       BUFFERS, limits);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
