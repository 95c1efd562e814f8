// SPDX-License-Identifier: MIT
/* The adapter: the objects of libibverbs, their rules, and the execution of work requests. */
#include "fake-verbs.h"

#include <sys/mman.h>

#define DEVICE_NAME "double0"
#define POISON      0xa5
#define SIW_VENDOR  0x626d74 /* SIW_VENDOR_ID in Linux */
#define PAGE        4096
#define GIDS        8
#define CONTEXTS    8
/* Maximum number of empty polls between two calls of poll(2) by a thread that does not spin. */
#define MAX_EMPTY_POLLS 100

struct fake_channel {
	struct ibv_comp_channel channel;
	struct object object;
	struct fake_cq *cq; /* its completion queue */
	SLIST_ENTRY(fake_channel) link;
};

/* A context of the device. The device gets a new context each time it comes back. */
struct fake_context {
	struct ibv_context context;
	unsigned int users; /* number of ids bound to it, and of device lists that contain it */
	bool gone, closed;
};

static struct {
	struct ibv_device device;
	struct fake_context contexts[CONTEXTS];
	unsigned int generation; /* number of times that the device has returned */
	SLIST_HEAD(, fake_channel) channels;
	SLIST_HEAD(, fake_mr) regions;
	SLIST_HEAD(, fake_cq) queues;
	uint32_t next_number;
	uint64_t registered;           /* registered bytes, in whole pages */
	struct stimulus *device_event; /* the last event that was delivered */
} adapter_state = { .next_number = 0x11 };

bool is_iwarp(void)
{
	return scripted("iwarp");
}

/* ---- The device disappears and returns ---- */

bool device_is_away(void)
{
	return ((struct fake_context *)adapter())->gone;
}

/* Close the context of a removed device when its last user is gone, as librdmacm does. */
static void close_if_unused(struct fake_context *context)
{
	if (!context->gone || context->closed || context->users)
		return;
	context->closed = true;
	close(context->context.async_fd);
}

void use_context(struct ibv_context *context)
{
	((struct fake_context *)context)->users++;
}

void release_context(struct ibv_context *context)
{
	if (!context)
		return;
	((struct fake_context *)context)->users--;
	close_if_unused((struct fake_context *)context);
}

void synchronize_devices(void)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		close_if_unused(&adapter_state.contexts[i]);
}

/* Return true unless the context's device was removed. Using a closed context is a violation. */
static bool is_there(struct ibv_context *base)
{
	const struct fake_context *context = (struct fake_context *)base;

	forbid(context->closed, "the context of a removed device is closed");
	return !context->gone;
}

void deliver_leaving(struct stimulus *stimulus UNUSED)
{
	const struct fake_channel *channel;

	((struct fake_context *)adapter())->gone = true;
	SLIST_FOREACH (channel, &adapter_state.channels, link) {
		forbid(channel->channel.context != adapter(),
		       "a completion channel is left from an earlier removal");
		raise_counter(channel->channel.fd); /* wake its thread, which gets an error */
	}
	remove_device_of_ids(adapter());
}

void deliver_return(struct stimulus *stimulus UNUSED)
{
	forbid(++adapter_state.generation == CONTEXTS, "script: the device comes back too often");
}

/* ---- Queries and names ---- */

/* The device's limits, unless the script replaces them. */
#define TRUE_MESSAGE_SIZE (8 << 20)
#define TRUE_ENTRIES      4096
#define TRUE_REQUESTS     1024

static uint32_t limit(const char *word, uint32_t truth)
{
	int stated = (int)scripted_number(word, truth);

	return stated < 1 ? truth : (uint32_t)stated;
}

bool holds_requests(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr <= limit("max_wr", TRUE_REQUESTS) &&
	       cap->max_recv_wr <= limit("max_wr", TRUE_REQUESTS);
}

uint32_t port_mtu(void)
{
	return scripted_number("mtu", IBV_MTU_4096);
}

uint32_t stated_reads(void)
{
	return scripted_number("max_reads", 128);
}

uint32_t stated_own_reads(void)
{
	return scripted_number("max_own_reads", stated_reads());
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context UNUSED, struct ibv_device_attr *attributes)
{
	int error = enter("ibv_query_device");

	if (!error) {
		memset(attributes, 0, sizeof(*attributes));
		attributes->max_qp_rd_atom = (int)stated_reads();
		attributes->max_qp_init_rd_atom = (int)stated_own_reads();
		attributes->max_qp_wr = (int)scripted_number("max_wr", TRUE_REQUESTS);
		attributes->max_cqe = (int)scripted_number("max_cqe", TRUE_ENTRIES);
		attributes->max_qp = (int)scripted_number("max_qp", 0);
		attributes->max_cq = (int)scripted_number("max_cq", 0);
		attributes->vendor_id = scripted("siw") ? SIW_VENDOR : 0;
		attributes->phys_port_cnt = (uint8_t)scripted_number("ports", 1);
	}
	return leave_with(error);
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context UNUSED, uint8_t port,
		   struct _compat_ibv_port_attr *compat)
{
	int error = enter("ibv_query_port");
	struct ibv_port_attr *attributes = (void *)compat;

	forbid(port < 1 || port > scripted_number("ports", 1), "there is no port %u", port);
	if (!error) {
		attributes->state = scripted("down") ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
		attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
		attributes->gid_tbl_len = GIDS;
		attributes->active_mtu = (enum ibv_mtu)port_mtu();
		attributes->max_mtu = IBV_MTU_4096;
		attributes->max_msg_sz = scripted_number("max_msg", TRUE_MESSAGE_SIZE);
	}
	return leave_with(error);
}

/*
 * Fill in an entry of the GID table. As on real adapters, an address appears more than once, and
 * some entries are empty.
 */
int _ibv_query_gid_ex(struct ibv_context *context UNUSED, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	int error = enter("ibv_query_gid_ex");

	forbid(port < 1 || port > scripted_number("ports", 1) || index >= GIDS || flags ||
		       size != sizeof(*entry),
	       "there is no entry %u of port %u", index, port);
	if (!error && index < 2)
		error = ENODATA;
	if (!error) {
		*entry = (struct ibv_gid_entry){ .gid_index = index, .port_num = port };
		local_gid(&entry->gid);
		entry->gid.raw[0] = index < 4 ? 0xfe : 0; /* entries 2 and 3 have another address */
		if (scripted("no-gids"))
			fill_bytes(&entry->gid, 0, sizeof(entry->gid));
		entry->gid_type = index % 2 && !scripted("roce-v1") ? IBV_GID_TYPE_ROCE_V2
								    : IBV_GID_TYPE_ROCE_V1;
		entry->ndev_ifindex = index % 2; /* index of "lo", or 0: unknown */
	}
	return leave_with(error);
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
	return state == IBV_PORT_ACTIVE ? "active" : "not active";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static char text[32];

	snprintf(text, sizeof(text), "completion status %d", status);
	return text;
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	static char text[32];

	snprintf(text, sizeof(text), "device event %d", event);
	return text;
}

/* ---- Protection domains and memory regions ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct fake_pd *pd;

	if (!begin("ibv_alloc_pd"))
		return NULL;
	pd = allocate(sizeof(*pd));
	pd->pd.context = context;
	object_add(&pd->object, "a protection domain");
	unlock();
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *base)
{
	struct fake_pd *pd = (struct fake_pd *)base;
	int error = enter("ibv_dealloc_pd");

	if (!error)
		error = object_remove(&pd->object);
	if (!error)
		free(pd);
	return leave_with(error);
}

/* Return the bytes that the adapter locks for a region: whole pages. */
static uint64_t locked_bytes(const void *address, size_t length)
{
	uintptr_t first = (uintptr_t)address / PAGE,
		  last = ((uintptr_t)address + length - 1) / PAGE;

	return (last - first + 1) * PAGE;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
				uint64_t iova UNUSED, unsigned int access)
{
	struct fake_mr *mr;

	if (!begin("ibv_reg_mr"))
		return NULL;
	forbid(length == 0, "nothing to register");
	forbid(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
		       !(access & IBV_ACCESS_LOCAL_WRITE),
	       "REMOTE_WRITE needs LOCAL_WRITE");
	if (!scripted("unbound") && adapter_state.registered + locked_bytes(address, length) >
					    scripted_number("memory", UINT_MAX)) {
		leave(ENOMEM);
		return NULL;
	}
	adapter_state.registered += locked_bytes(address, length);
	mr = allocate(sizeof(*mr));
	mr->mr = (struct ibv_mr){ .context = pd->context,
				  .pd = pd,
				  .addr = address,
				  .length = length,
				  .lkey = adapter_state.next_number++ << 8,
				  .rkey = adapter_state.next_number++ << 8 };
	mr->access = access;
	((struct fake_pd *)pd)->object.users++;
	object_add(&mr->object, "a memory region");
	SLIST_INSERT_HEAD(&adapter_state.regions, mr, link);
	unlock();
	return &mr->mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *base)
{
	struct fake_mr *mr = (struct fake_mr *)base;
	struct fake_pd *pd = (struct fake_pd *)base->pd;
	int error = enter("ibv_dereg_mr");

	if (!error) {
		*(volatile uint8_t *)mr->mr.addr; /* the memory must still be mapped */
		forbid(mr->posted, "%u posted work requests use it", mr->posted);
		forbid(pd->session_complete && mr->access & ~mr->needed,
		       "its access flags are 0x%x, needed were 0x%x", mr->access, mr->needed);
		adapter_state.registered -= locked_bytes(mr->mr.addr, mr->mr.length);
		pd->object.users--;
		SLIST_REMOVE(&adapter_state.regions, mr, fake_mr, link);
		object_remove(&mr->object);
		free(mr);
	}
	return leave_with(error);
}

/* Check that memory is not unmapped while it is registered. */
REDIRECTED(munmap);
int __wrap_munmap(void *address, size_t size)
{
	const struct fake_mr *mr;
	int error = enter("munmap");

	SLIST_FOREACH (mr, &adapter_state.regions, link)
		forbid((uint8_t *)mr->mr.addr < (uint8_t *)address + size &&
			       (uint8_t *)mr->mr.addr + mr->mr.length > (uint8_t *)address,
		       "memory is unmapped while it is registered");
	return leave(error) ? -1 : __real_munmap(address, size);
}

static bool covers(const struct fake_mr *mr, uint64_t address, uint64_t length)
{
	uint64_t start = (uintptr_t)mr->mr.addr;

	return address >= start && length <= mr->mr.length &&
	       address - start <= mr->mr.length - length;
}

struct fake_mr *mr_of_rkey(const struct fake_qp *qp, uint32_t rkey, uint64_t address,
			   uint64_t length)
{
	struct fake_mr *mr;

	SLIST_FOREACH (mr, &adapter_state.regions, link) {
		if (mr->mr.rkey == rkey && mr->mr.pd == qp->qp.pd && covers(mr, address, length))
			return mr;
	}
	return NULL;
}

/* ---- Completion channels and queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel;

	if (!begin("ibv_create_comp_channel"))
		return NULL;
	is_there(context);
	channel = allocate(sizeof(*channel));
	channel->channel.context = context;
	channel->channel.fd = open_counter();
	object_add(&channel->object, "a completion channel");
	SLIST_INSERT_HEAD(&adapter_state.channels, channel, link);
	unlock();
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct fake_channel *channel = (struct fake_channel *)base;
	int error = enter("ibv_destroy_comp_channel");

	is_there(base->context);
	if (!error)
		error = object_remove(&channel->object);
	if (!error) {
		SLIST_REMOVE(&adapter_state.channels, channel, fake_channel, link);
		close(channel->channel.fd);
		free(channel);
	}
	return leave_with(error);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	if (!begin("ibv_create_cq"))
		return NULL;
	if (scripted("no-cq") || entries < 1 ||
	    (uint32_t)entries > limit("max_cqe", TRUE_ENTRIES)) {
		leave(EINVAL);
		if (scripted("no-cq"))
			errno = 0;
		return NULL;
	}
	forbid(vector < 0 || vector >= context->num_comp_vectors, "no such completion vector");
	cq = allocate(sizeof(*cq));
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = entries;
	TAILQ_INIT(&cq->completions);
	forbid(channel && ((struct fake_channel *)channel)->object.users++,
	       "a channel of two completion queues");
	if (channel)
		((struct fake_channel *)channel)->cq = cq;
	object_add(&cq->object, "a completion queue");
	SLIST_INSERT_HEAD(&adapter_state.queues, cq, link);
	unlock();
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
	struct fake_cq *cq = (struct fake_cq *)base;
	int error = enter("ibv_destroy_cq");

	if (!error)
		error = object_remove(&cq->object);
	if (!error) {
		/* the real library would wait for the acknowledgment for ever */
		forbid(cq->taken, "%u completion events were not acknowledged", cq->taken);
		while (cq->events-- > 0) /* the kernel removes the events from the channel */
			lower_counter(cq->cq.channel->fd);
		if (cq->cq.channel)
			((struct fake_channel *)cq->cq.channel)->object.users--;
		SLIST_REMOVE(&adapter_state.queues, cq, fake_cq, link);
		free(cq);
	}
	return leave_with(error);
}

static int req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct fake_cq *cq = (struct fake_cq *)base;
	int error = enter("ibv_req_notify_cq");

	if (!error) {
		forbid(!cq->cq.channel || solicited_only,
		       "without a channel, or for solicited events only");
		cq->armed = true;
		cq->polled_since_armed = false;
	}
	return leave_with(error);
}

static struct fake_cq *cq_of(const struct fake_qp *qp)
{
	return (struct fake_cq *)qp->qp.send_cq;
}

/* If the completion queue is armed, disarm it and put an event into its channel. */
static void notify(struct fake_cq *cq)
{
	if (!cq->armed)
		return;
	cq->armed = false;
	cq->events++;
	raise_counter(cq->cq.channel->fd);
}

void deliver_spurious(struct stimulus *stimulus)
{
	if (stimulus->qp)
		notify(cq_of(stimulus->qp));
}

bool spins_on(int channel, int timeout)
{
	struct fake_cq *cq;

	if (channel < 0) /* the device has left: no completion queue counts the polls */
		return timeout == 0;
	SLIST_FOREACH (cq, &adapter_state.queues, link) {
		if (!cq->cq.channel || cq->cq.channel->fd != channel)
			continue;
		cq->spun = timeout == 0 && cq->empty_polls > MAX_EMPTY_POLLS;
		cq->empty_polls = 0;
		return cq->spun;
	}
	return false;
}

void check_notification(void)
{
	const struct fake_cq *cq;

	SLIST_FOREACH (cq, &adapter_state.queues, link) {
		if (fault_happened() || cq->events || cq->spun || !cq->cq.channel ||
		    !is_there(cq->cq.context))
			continue;
		forbid(!cq->armed && cq->posted,
		       "the program waits, but the completion queue is not armed");
		forbid(!TAILQ_EMPTY(&cq->completions),
		       "the program waits, but no event reports the completions on the queue");
		forbid(cq->notified && !cq->polled_since_armed,
		       "the queue is armed after polling: a completion in between causes no event");
	}
}

/* Let other threads overtake the one that handles completion events (slow-events). */
static void delay_handling(void)
{
	if (scripted("slow-events"))
		usleep(10000);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **base, void **context)
{
	struct fake_cq *cq;

	if (!begin("ibv_get_cq_event"))
		return -1;
	if (!is_there(channel->context))
		return leave(EIO);
	if (!lower_counter(channel->fd))
		return leave(EAGAIN);
	cq = ((struct fake_channel *)channel)->cq;
	cq->events--;
	cq->taken++;
	cq->notified = true;
	*base = &cq->cq;
	*context = cq->cq.cq_context;
	unlock();
	delay_handling();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *base, unsigned int count)
{
	struct fake_cq *cq = (struct fake_cq *)base;

	lock();
	forbid(count > cq->taken, "more events are acknowledged than were fetched");
	cq->taken -= count;
	unlock();
	delay_handling();
}

static struct work_queue *queue_of(const struct work *work)
{
	return work->receive ? &work->qp->receives : &work->qp->sends;
}

/* Remove a work request from its queue, and free its slot. */
static void retire(struct work *work)
{
	struct fake_qp *qp = work->qp;

	cq_of(qp)->posted--;
	TAILQ_REMOVE(queue_of(work), work, link);
	qp->receive_count -= work->receive;
	qp->send_count -= !work->receive;
	if (work->mr)
		work->mr->posted--;
}

/* Return true if the work request has no completion when it succeeds. */
static bool is_silent(const struct work *work)
{
	return !work->receive && !(work->flags & IBV_SEND_SIGNALED);
}

/* Retire the complete unsignaled requests before the send `work`, whose completion covers them. */
static void retire_silent(struct work *work)
{
	struct work_queue *sends = &work->qp->sends;
	struct work *earlier, *next;

	for (earlier = TAILQ_FIRST(sends); !work->receive && earlier != work; earlier = next) {
		next = TAILQ_NEXT(earlier, link);
		if (is_silent(earlier) && earlier->complete)
			retire(earlier);
	}
}

/* Let the threads of other sessions overtake a thread that has just started (slow-start). */
static void start_slowly(struct fake_cq *cq)
{
	const struct fake_cq *other;
	bool beside_others = false;

	if (cq->polled || !scripted("slow-start"))
		return;
	lock();
	SLIST_FOREACH (other, &adapter_state.queues, link)
		beside_others |= other->polled;
	cq->polled = true;
	unlock();
	if (beside_others)
		usleep(300000);
}

static int poll_cq(struct ibv_cq *base, int maximum, struct ibv_wc *completions)
{
	struct fake_cq *cq = (struct fake_cq *)base;
	int error, count = 0;
	struct work *work;

	start_slowly(cq);
	error = enter("ibv_poll_cq");
	while (!error && count < maximum && (work = TAILQ_FIRST(&cq->completions))) {
		TAILQ_REMOVE(&cq->completions, work, completion_link);
		copy_bytes(&completions[count++], &work->completion, sizeof(work->completion));
		retire_silent(work);
		retire(work);
	}
	cq->polled_since_armed = true;
	cq->empty_polls += count == 0;
	leave(0);
	return error ? -1 : count;
}

/*
 * Complete a work request. Fill the fields that are invalid in a failed completion with nonsense.
 */
static void complete(struct work *work, enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = { [IBV_WR_SEND] = IBV_WC_SEND,
						      [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
						      [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE };
	struct fake_cq *cq = cq_of(work->qp);
	struct ibv_wc *completion = &work->completion;

	if (work->complete)
		return;
	work->complete = true;
	if (is_silent(work) && status == IBV_WC_SUCCESS)
		return; /* its slot is freed when a later completion is polled */
	fill_bytes(completion, POISON, sizeof(*completion));
	completion->wr_id = work->wr_id;
	completion->status = status;
	completion->qp_num = work->qp->qp.qp_num;
	completion->vendor_err = 0x5a;
	if (status == IBV_WC_SUCCESS) {
		completion->opcode = work->receive ? IBV_WC_RECV : opcodes[work->opcode];
		completion->byte_len = work->length;
		completion->wc_flags = 0;
	}
	TAILQ_INSERT_TAIL(&cq->completions, work, completion_link);
	notify(cq);
}

/* ---- Queue pairs ---- */

struct fake_qp *create_fake_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	struct fake_qp *qp = allocate(sizeof(*qp));

	forbid(attributes->qp_type != IBV_QPT_RC || !attributes->send_cq ||
		       attributes->recv_cq != attributes->send_cq,
	       "not a reliable connection with one completion queue");
	qp->qp = (struct ibv_qp){ .context = pd->context,
				  .qp_context = attributes->qp_context,
				  .pd = pd,
				  .send_cq = attributes->send_cq,
				  .recv_cq = attributes->recv_cq,
				  .qp_num = adapter_state.next_number++,
				  .state = IBV_QPS_INIT,
				  .qp_type = attributes->qp_type };
	qp->cap = attributes->cap;
	TAILQ_INIT(&qp->sends);
	TAILQ_INIT(&qp->receives);
	TAILQ_INIT(&qp->landing);
	((struct fake_pd *)pd)->object.users++;
	forbid(cq_of(qp)->object.users++, "a completion queue of two queue pairs");
	object_add(&qp->object, "a queue pair");
	return qp;
}

void destroy_fake_qp(struct fake_qp *qp)
{
	struct work *work;

	forbid(qp->unread, "a queue pair is destroyed before its device event was acknowledged");
	discard_stimuli(NULL, qp);
	TAILQ_INIT(&cq_of(qp)->completions);
	cq_of(qp)->object.users--;
	while ((work = TAILQ_FIRST(&qp->sends)) || (work = TAILQ_FIRST(&qp->receives)))
		retire(work);
	((struct fake_pd *)qp->qp.pd)->object.users--;
	object_remove(&qp->object);
	free(qp);
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attributes, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)base;
	int error = enter("ibv_modify_qp");

	if (!error) {
		forbid(mask != IBV_QP_STATE || attributes->qp_state != IBV_QPS_ERR,
		       "only the error state is expected here");
		qp->closing = true;
		break_qp(qp);
	}
	return leave_with(error);
}

/* ---- Executing ---- */

static void deliver_flush(struct stimulus *stimulus)
{
	struct fake_qp *qp = stimulus->qp;
	struct work *work, *next;

	if (!qp)
		return;
	deliver_sequence(&qp->sends);
	deliver_sequence(&qp->receives);
	for (work = TAILQ_FIRST(&qp->sends); work; work = next) {
		next = TAILQ_NEXT(work, link);
		if (!work->stuck)
			complete(work, IBV_WC_WR_FLUSH_ERR);
	}
	TAILQ_FOREACH (work, &qp->receives, link)
		complete(work, IBV_WC_WR_FLUSH_ERR);
}

void break_qp(struct fake_qp *qp)
{
	qp->broken = true;
	if (qp->qp.state == IBV_QPS_ERR)
		return;
	qp->qp.state = IBV_QPS_ERR;
	queue_stimulus("flush", deliver_flush, qp, 0);
}

/*
 * Let the executed WRITEs up to `last` (NULL: all) arrive in order. They arrive as late as allowed:
 * when `last` completes (except over iWARP), or when a SEND or an inline request is executed.
 */
static void land(struct fake_qp *qp, const struct work *last)
{
	struct work *work;

	if (last && last->landed)
		return;
	while ((work = TAILQ_FIRST(&qp->landing))) {
		TAILQ_REMOVE(&qp->landing, work, landing_link);
		work->landed = true;
		peer_is_accessed(work);
		if (work == last)
			return;
	}
}

/* Move the bytes of a work request, and complete it. A failed request breaks the queue pair. */
static void deliver_completion(struct stimulus *stimulus)
{
	bool good = stimulus->code == IBV_WC_SUCCESS;
	struct work *work = stimulus->work;
	struct fake_qp *qp = stimulus->qp;

	if (!qp)
		return;
	if (good && work->receive) {
		work->length = stimulus->size;
		qp->has_received = true;
		peer_delivers(&qp->id->peer, stimulus->bytes, stimulus->position);
		copy_bytes(work->buffer, stimulus->bytes, stimulus->size);
	} else if (good && work->opcode == IBV_WR_RDMA_READ) {
		peer_is_accessed(work);
	} else if (good && work->opcode == IBV_WR_RDMA_WRITE && !is_iwarp()) {
		land(qp, work);
	}
	complete(work, (enum ibv_wc_status)stimulus->code);
	if (!good)
		break_qp(qp);
}

/*
 * Return a stimulus that completes the work request as the script says. Return NULL if the send
 * never completes, or the message is lost.
 */
static struct stimulus *new_completion(struct work *work, const char *name)
{
	struct stimulus *stimulus;
	const char *status;

	if (take_order(name, '!')) {
		work->executed = work->stuck =
			!work->receive; /* a lost message leaves its receive unused */
		return NULL;
	}
	work->executed = true;
	stimulus = new_stimulus(name, deliver_completion);
	stimulus->qp = work->qp;
	stimulus->work = work;
	stimulus->sequence = queue_of(work);
	status = take_order(name, '=');
	if (status) {
		stimulus->code = atoi(status);
		*(work->receive ? &work->qp->deaf : &work->qp->broken) = true;
	}
	return stimulus;
}

static const char *send_name(const struct work *work)
{
	static const char *const names[] = { "sent-MR", "sent-DONE", "sent-VERDICT",
					     "sent-WINDOW" };

	if (work->opcode != IBV_WR_SEND)
		return work->length ? "operation" : "keepalive";
	return names[*work->buffer & 3];
}

/* Execute a work request. Return false if it is stuck: no later request is executed. */
static bool execute(struct fake_qp *qp, struct work *work)
{
	struct stimulus *stimulus = new_completion(work, send_name(work));
	bool sends = work->opcode == IBV_WR_SEND, good;
	uint8_t bytes[256];

	if (!stimulus)
		return false;
	good = stimulus->code == IBV_WC_SUCCESS;
	if (sends)
		copy_bytes(bytes, work->buffer, work->length);
	if (good && !sends)
		peer_is_asked(&qp->id->peer, work);
	if (good && work->opcode == IBV_WR_RDMA_WRITE)
		TAILQ_INSERT_TAIL(&qp->landing, work, landing_link);
	if (sends || work->flags & IBV_SEND_INLINE)
		land(qp, NULL); /* memory of inline data may be reused at once */
	produce(stimulus);
	/* if the peer leaves at once, soft-iWARP reports a failure although the message was sent */
	if (sends && (good || (is_iwarp() && stimulus->code == IBV_WC_LOC_QP_OP_ERR)))
		peer_receives(&qp->id->peer, bytes, work->length);
	return true;
}

static void run_send_queue(struct fake_qp *qp)
{
	struct work *work, *next;

	for (work = TAILQ_FIRST(&qp->sends); work && !qp->broken; work = next) {
		next = TAILQ_NEXT(work, link);
		if (work->stuck || (!work->executed && !execute(qp, work)))
			return;
	}
}

void message_arrives(struct fake_qp *qp, const char *name, const uint8_t *bytes, uint32_t size)
{
	struct stimulus *stimulus;
	struct work *work;

	if (qp->broken || qp->deaf)
		return;
	TAILQ_FOREACH (work, &qp->receives, link) {
		if (!work->executed)
			break;
	}
	forbid(!work, "%s, but no receive is posted", name);
	forbid(work->length < size, "%s does not fit into its receive", name);
	stimulus = new_completion(work, name);
	if (!stimulus)
		return;
	stimulus->size = size;
	stimulus->position = qp->id->peer.posted;
	copy_bytes(stimulus->bytes, bytes, size);
	produce(stimulus);
}

/* ---- Posting ---- */

/* Check that the buffer, if any, is in registered memory with this access, and record its use. */
static void take_buffer(struct work *work, const struct ibv_sge *sge, int count,
			unsigned int access)
{
	const struct ibv_qp_cap *cap = &work->qp->cap;
	struct fake_mr *mr;

	forbid(count < 0 || count > 1 || cap->max_recv_sge < 1 || cap->max_send_sge < 1,
	       "one buffer is expected here, or none");
	if (count == 0)
		return;
	SLIST_FOREACH (mr, &adapter_state.regions, link) {
		if (mr->mr.lkey == sge->lkey)
			break;
	}
	forbid(!mr || mr->mr.pd != work->qp->qp.pd, "no such lkey");
	forbid(!covers(mr, sge->addr, sge->length), "the buffer lies outside of its region");
	forbid(access & ~mr->access, "its region has access flags 0x%x, 0x%x is needed", mr->access,
	       access);
	mr->needed |= access;
	mr->posted++;
	work->mr = mr;
	work->buffer = (uint8_t *)(uintptr_t)sge->addr;
	work->length = sge->length;
	if (access) /* the contents are invalid until the completion */
		fill_bytes(work->buffer, POISON, work->length);
}

/* Take a slot of a queue, and set the fields that receives and sends share. */
static struct work *new_work(struct fake_qp *qp, bool receive, uint64_t wr_id)
{
	uint32_t limit = receive ? qp->cap.max_recv_wr : qp->cap.max_send_wr;
	struct work *work;

	forbid(qp->closing, "a work request is posted after the program began to disconnect");
	forbid((receive ? ++qp->receive_count : ++qp->send_count) > limit, "the %s queue overflows",
	       receive ? "receive" : "send");
	forbid(qp->receive_count + qp->send_count > (uint32_t)qp->qp.send_cq->cqe,
	       "more is posted than the completion queue has room for");
	cq_of(qp)->posted++;
	work = keep(sizeof(*work));
	work->qp = qp;
	work->receive = receive;
	work->wr_id = wr_id;
	TAILQ_INSERT_TAIL(queue_of(work), work, link);
	return work;
}

/* Return N of no-bad-wr:N, the requests that a failing post posts nevertheless; 0 without it. */
static unsigned int posted_unreported(void)
{
	return scripted_number("no-bad-wr", 0);
}

/*
 * Reject `request`: report it in bad_wr, except with no-bad-wr:N; with peer-left the peer
 * disconnects.
 */
static void reject(struct fake_qp *qp, void **bad_wr, void *request)
{
	if (!scripted_text("no-bad-wr"))
		*bad_wr = request;
	if (!scripted("peer-left") || qp->qp.state != IBV_QPS_RTS)
		return;
	peer_disconnects(qp->id);
	break_qp(qp);
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *request,
		     struct ibv_recv_wr **rejected)
{
	struct fake_qp *qp = (struct fake_qp *)base;
	int error = enter("ibv_post_recv");
	bool posted = !error || posted_unreported() > 0;

	forbid(request->next, "lists are not expected here");
	if (error)
		reject(qp, (void **)rejected, request);
	if (posted)
		take_buffer(new_work(qp, true, request->wr_id), request->sg_list, request->num_sge,
			    IBV_ACCESS_LOCAL_WRITE);
	if (posted && qp->qp.state == IBV_QPS_ERR)
		queue_stimulus("flush", deliver_flush, qp, 0);
	return leave_with(error);
}

static unsigned int reads_outstanding(const struct fake_qp *qp)
{
	const struct work *work;
	unsigned int count = 0;

	TAILQ_FOREACH (work, &qp->sends, link)
		count += work->opcode == IBV_WR_RDMA_READ && !work->complete;
	return count;
}

static void check_send(const struct work *work)
{
	const struct fake_qp *qp = work->qp;
	const struct work *other;

	forbid(qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR,
	       "ibv_post_send before the connection is established");
	forbid(is_iwarp() && qp->id->passive && !qp->has_received,
	       "over iWARP a server sends before its client has");
	forbid(work->flags & IBV_SEND_INLINE && work->length > qp->cap.max_inline_data,
	       "%u bytes are too many for inline", work->length);
	forbid(work->opcode == IBV_WR_RDMA_READ && work->flags & IBV_SEND_INLINE,
	       "a READ has nothing to carry inline");
	forbid(work->opcode == IBV_WR_RDMA_READ && work->length == 0,
	       "a READ of nothing: Soft-RoCE breaks the connection if it is repeated");
	forbid(work->opcode == IBV_WR_RDMA_READ && reads_outstanding(qp) > qp->read_depth,
	       "more READs than were agreed: soft-iWARP holds back what follows");
	forbid(work->opcode != IBV_WR_RDMA_READ &&
		       work->length > limit("max_msg", TRUE_MESSAGE_SIZE),
	       "larger than max_msg_sz");
	TAILQ_FOREACH (other, &qp->sends, link) {
		forbid(work->opcode == IBV_WR_SEND && other->opcode == IBV_WR_RDMA_READ &&
			       other->length && !other->complete && *work->buffer == 1,
		       "MSG_DONE may overtake the RDMA READ before it");
		forbid(work->opcode == IBV_WR_SEND && other != work &&
			       other->opcode == IBV_WR_SEND && !other->complete &&
			       !(other->flags & IBV_SEND_INLINE) && other->buffer == work->buffer,
		       "a message is written over before it was sent");
	}
}

static void post_one_send(struct fake_qp *qp, const struct ibv_send_wr *request)
{
	unsigned int access = 0;
	struct work *work;

	forbid(request->send_flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_INLINE) ||
		       (request->opcode != IBV_WR_SEND && request->opcode != IBV_WR_RDMA_READ &&
			request->opcode != IBV_WR_RDMA_WRITE),
	       "this is not expected here");
	work = new_work(qp, false, request->wr_id);
	work->opcode = request->opcode;
	work->flags = request->send_flags;
	work->remote_address = request->wr.rdma.remote_addr;
	work->rkey = request->wr.rdma.rkey;
	/* over iWARP the answer to a READ writes into this memory */
	if (work->opcode == IBV_WR_RDMA_READ)
		access = is_iwarp() ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
				    : IBV_ACCESS_LOCAL_WRITE;
	take_buffer(work, request->sg_list, request->num_sge, access);
	check_send(work);
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *request,
		     struct ibv_send_wr **rejected)
{
	struct fake_qp *qp = (struct fake_qp *)base;
	int error = enter("ibv_post_send");
	unsigned int count = 0;

	/* the adapter has taken the first half of a rejected list; with no-bad-wr:N, N requests */
	for (struct ibv_send_wr *next = request; error && next; next = next->next)
		count++;
	count = scripted_text("no-bad-wr") ? posted_unreported() : count / 2;
	for (; request && (!error || count > 0); request = request->next, count--)
		post_one_send(qp, request);
	if (error)
		reject(qp, (void **)rejected, request);
	if (qp->qp.state == IBV_QPS_ERR)
		queue_stimulus("flush", deliver_flush, qp, 0);
	else
		run_send_queue(qp);
	return leave_with(error);
}

/* ---- Device events ---- */

void deliver_device_event(struct stimulus *stimulus)
{
	if (!stimulus->qp)
		return;
	adapter_state.device_event = stimulus;
	raise_counter(adapter()->async_fd);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct stimulus *stimulus;

	if (!begin("ibv_get_async_event"))
		return -1;
	is_there(context);
	if (!lower_counter(context->async_fd))
		return leave(EAGAIN);
	stimulus = adapter_state.device_event;
	event->event_type = (enum ibv_event_type)stimulus->code;
	if (stimulus->code == IBV_EVENT_CQ_ERR)
		event->element.cq = stimulus->qp->qp.recv_cq;
	else if (stimulus->code < IBV_EVENT_DEVICE_FATAL)
		event->element.qp = &stimulus->qp->qp;
	else
		event->element.port_num = 1;
	stimulus->qp->unread++;
	return leave(0);
}

void ibv_ack_async_event(struct ibv_async_event *event UNUSED)
{
	lock();
	adapter_state.device_event->qp->unread--;
	unlock();
}

/* ---- The device itself ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
	if (count)
		*count = 0;
	return NULL;
}

void ibv_free_device_list(struct ibv_device **list UNUSED)
{
}

struct ibv_context *adapter(void)
{
	struct ibv_context *context = &adapter_state.contexts[adapter_state.generation].context;
	struct ibv_device *device = &adapter_state.device;
	const char *folder = getenv("FAKE_VERBS_DEVICE");

	if (context->device)
		return context;
	strcpy(device->name, DEVICE_NAME);
	/* one folder for the device and its character device, or none */
	snprintf(device->ibdev_path, sizeof(device->ibdev_path), "%s",
		 folder ? folder : "/dev/null");
	strcpy(device->dev_path, device->ibdev_path);
	device->node_type = is_iwarp() ? IBV_NODE_RNIC : IBV_NODE_CA;
	device->transport_type = is_iwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	context->device = device;
	context->async_fd = open_counter();
	context->num_comp_vectors = 1;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	return context;
}
