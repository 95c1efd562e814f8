// SPDX-License-Identifier: MIT
/* The connection manager: the objects of librdmacm, their rules, and their events. */
#include "fake-verbs.h"

#include <fcntl.h>

REDIRECTED(fcntl);

#define PORT         20000
#define REQUEST_SIZE 56 /* bytes of private data over InfiniBand and RoCE */
#define REPLY_SIZE   196
#define REJECT_SIZE  148

struct channel {
	struct rdma_event_channel channel;
	struct object object;
	TAILQ_HEAD(, pending_event) events;
};

struct pending_event {
	struct rdma_cm_event event;
	uint8_t private_data[256];
	TAILQ_ENTRY(pending_event) link;
};

static SLIST_HEAD(, fake_id) ids = SLIST_HEAD_INITIALIZER(ids);
static unsigned int clients_came, next_peer_port = 40000, next_flow_label = 0x54321;

#define EVENT(name) [RDMA_CM_EVENT_##name] = #name
static const char *const event_names[] = { EVENT(ADDR_RESOLVED),   EVENT(ADDR_ERROR),
					   EVENT(ROUTE_RESOLVED),  EVENT(ROUTE_ERROR),
					   EVENT(CONNECT_REQUEST), EVENT(CONNECT_RESPONSE),
					   EVENT(CONNECT_ERROR),   EVENT(UNREACHABLE),
					   EVENT(REJECTED),        EVENT(ESTABLISHED),
					   EVENT(DISCONNECTED),    EVENT(DEVICE_REMOVAL),
					   EVENT(MULTICAST_JOIN),  EVENT(MULTICAST_ERROR),
					   EVENT(ADDR_CHANGE),     EVENT(TIMEWAIT_EXIT) };

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	return event_names[event];
}

static enum rdma_cm_event_type event_type(const char *name)
{
	for (int i = 0; i <= RDMA_CM_EVENT_TIMEWAIT_EXIT; i++) {
		if (!strcmp(event_names[i], name))
			return (enum rdma_cm_event_type)i;
	}
	violation("script: there is no event %s", name);
}

/* ---- Channels, devices, ids ---- */

static struct rdma_event_channel *new_channel(void)
{
	struct channel *channel = allocate(sizeof(*channel));

	channel->channel.fd = open_counter();
	TAILQ_INIT(&channel->events);
	object_add(&channel->object, "an event channel");
	return &channel->channel;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel;

	if (!begin("rdma_create_event_channel"))
		return NULL;
	channel = new_channel();
	unlock();
	return channel;
}

static void free_channel(struct channel *channel)
{
	if (object_remove(&channel->object))
		return;
	close(channel->channel.fd);
	free(channel);
}

void rdma_destroy_event_channel(struct rdma_event_channel *base)
{
	lock();
	free_channel((struct channel *)base);
	unlock();
}

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **devices;

	if (!begin("rdma_get_devices"))
		return NULL;
	synchronize_devices();
	devices = allocate(2 * sizeof(*devices));
	devices[0] = scripted("no-device") || device_is_away() ? NULL : adapter();
	if (devices[0])
		use_context(devices[0]);
	if (count)
		*count = devices[0] ? 1 : 0;
	unlock();
	return devices;
}

void rdma_free_devices(struct ibv_context **devices)
{
	lock();
	release_context(devices[0]);
	unlock();
	free(devices);
}

static struct fake_id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = allocate(sizeof(*id));

	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = RDMA_PS_TCP;
	((struct channel *)channel)->object.users++;
	object_add(&id->object, "a connection identifier");
	SLIST_INSERT_HEAD(&ids, id, link);
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	int error = enter("rdma_create_id");

	forbid(ps != RDMA_PS_TCP, "the TCP port space is expected");
	if (!error)
		*id = &new_id(channel ? channel : new_channel(), context)->id;
	if (!error && !channel)
		((struct fake_id *)*id)->synchronous = true;
	return leave(error);
}

/* Drop the unfetched events of an id, as the kernel does. */
static void discard_events(struct fake_id *id)
{
	struct channel *channel = (struct channel *)id->id.channel;
	struct pending_event *pending, *next;

	for (pending = TAILQ_FIRST(&channel->events); pending; pending = next) {
		next = TAILQ_NEXT(pending, link);
		if (pending->event.id != &id->id && pending->event.listen_id != &id->id)
			continue;
		TAILQ_REMOVE(&channel->events, pending, link);
		lower_counter(channel->channel.fd);
	}
}

int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct fake_id *id = (struct fake_id *)base;
	int error;

	if (base->event)
		rdma_ack_cm_event(base->event); /* a synchronous call has waited for this event */
	error = enter("rdma_destroy_id");
	forbid(id->id.qp, "an id is destroyed before its queue pair");
	forbid(id->taken, "an id is destroyed before %u of its events were acknowledged",
	       id->taken);
	if (!error) {
		discard_events(id);
		discard_stimuli(id, NULL);
		peer_stop(&id->peer);
		release_context(id->id.verbs);
		((struct channel *)id->id.channel)->object.users--;
		if (id->synchronous)
			free_channel((struct channel *)id->id.channel);
		SLIST_REMOVE(&ids, id, fake_id, link);
		object_remove(&id->object);
		free(id);
	}
	return leave(error);
}

struct fake_id *any_id(void)
{
	struct fake_id *id;

	SLIST_FOREACH (id, &ids, link) {
		if (!id->listening)
			return id;
	}
	return SLIST_FIRST(&ids);
}

/*
 * Bind an id to the device. librdmacm does not find the device of the first ids (unfound:N), and
 * reports no error (ucma_query_addr() in its cma.c).
 */
static void bind_to_device(struct rdma_cm_id *id)
{
	static unsigned int unfound;

	if (unfound < scripted_number("unfound", 0)) {
		unfound++;
		return;
	}
	synchronize_devices();
	if (!id->verbs)
		use_context(adapter());
	id->verbs = adapter();
	id->port_num = 1;
}

/* ---- Events ---- */

static uint8_t peer_serves_reads(void)
{
	return (uint8_t)scripted_number("reads", 8);
}

static uint8_t peer_asks_reads(void)
{
	return (uint8_t)scripted_number("asks", 4);
}

static void deliver_event(struct stimulus *stimulus)
{
	struct fake_id *id = stimulus->id;
	struct pending_event *pending;

	if (!id)
		return;
	pending = keep(sizeof(*pending));
	pending->event.id = &id->id;
	pending->event.event = event_type(stimulus->name);
	pending->event.status = stimulus->code;
	if (stimulus->size) {
		copy_bytes(pending->private_data, stimulus->bytes, stimulus->size);
		pending->event.param.conn.private_data = pending->private_data;
		pending->event.param.conn.private_data_len = (uint8_t)stimulus->size;
	}
	if (pending->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		pending->event.listen_id = &id->id;
		pending->event.id = NULL; /* set when the program fetches the event */
	}
	if (pending->event.event == RDMA_CM_EVENT_CONNECT_REQUEST || !is_iwarp()) {
		pending->event.param.conn.responder_resources = peer_asks_reads();
		pending->event.param.conn.initiator_depth = peer_serves_reads();
	} else { /* soft-iWARP swaps the server's two numbers in an acceptance */
		pending->event.param.conn.responder_resources = peer_serves_reads();
		pending->event.param.conn.initiator_depth = peer_asks_reads();
	}
	if (pending->event.event == RDMA_CM_EVENT_ESTABLISHED && id->id.qp)
		id->id.qp->state = IBV_QPS_RTS;
	if (pending->event.event == RDMA_CM_EVENT_DISCONNECTED && is_iwarp() && id->id.qp)
		break_qp((struct fake_qp *)id->id.qp);
	TAILQ_INSERT_TAIL(&((struct channel *)id->id.channel)->events, pending, link);
	raise_counter(id->id.channel->fd);
}

/* Set the size of private data. Only InfiniBand and RoCE pad it, with zeros to `padded` bytes. */
static void add_private_data(struct stimulus *stimulus, uint32_t size, uint32_t padded)
{
	stimulus->size = is_iwarp() ? size : padded;
}

static struct stimulus *new_event(struct fake_id *id, const char *name, int status)
{
	struct stimulus *stimulus = new_stimulus(event_names[event_type(name)], deliver_event);

	stimulus->id = id;
	stimulus->code = status;
	return stimulus;
}

enum rdma_cm_event_type produce_cm_event(struct fake_id *id, const char *name, int status)
{
	const char *instead = take_order(name, '=');
	struct stimulus *stimulus;
	char other[NAME_SIZE];

	if (take_order(name, '!') || !id)
		return event_type(name);
	if (instead && sscanf(instead, "%40[^:]:%d", other, &status) >= 1)
		name = other;
	stimulus = new_event(id, name, status);
	if (event_type(name) == RDMA_CM_EVENT_ESTABLISHED && !id->passive)
		add_private_data(stimulus, peer_hello(&id->peer, false, 0, stimulus->bytes),
				 REPLY_SIZE);
	/* a resolution without an answer fails when the program's timeout is over */
	if (status == -ETIMEDOUT && !id->asked)
		stimulus->due = simulated_milliseconds() + id->resolve_timeout;
	produce(stimulus);
	return event_type(name);
}

void peer_disconnects(struct fake_id *id)
{
	if (id->peer_gone)
		return;
	id->peer_gone = true;
	produce_cm_event(id, "DISCONNECTED", 0);
}

/* Over RoCE fill in the path to the peer: MTU, flow label, and the GID of its IPv4 address. */
static void show_path(struct fake_id *id)
{
	struct rdma_addr *ends = &id->id.route.addr;

	if (is_iwarp())
		return;
	local_gid(&ends->addr.ibaddr.dgid);
	copy_bytes(ends->addr.ibaddr.dgid.raw + 12, &ends->dst_sin.sin_addr, 4);
	id->path.flow_label = htobe32(next_flow_label++); /* a different label for each id */
	id->path.mtu = (uint8_t)port_mtu();
	if (id->passive) /* the client's port decides the MTU */
		id->path.mtu = (uint8_t)scripted_number("peer-mtu", id->path.mtu);
	id->id.route.path_rec = &id->path;
	id->id.route.num_paths = 1;
}

/* Show this host's address, on which a request arrived. */
static void show_own_address(struct rdma_cm_id *id)
{
	id->route.addr.src_sin.sin_family = AF_INET;
	id->route.addr.src_sin.sin_addr.s_addr = htonl(0xc0000202);
	local_gid(&id->route.addr.addr.ibaddr.sgid);
}

int rdma_get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **event)
{
	struct channel *channel = (struct channel *)base;
	struct pending_event *pending, *copy;
	struct fake_id *id;

	if (!begin("rdma_get_cm_event"))
		return -1;
	if (!lower_counter(channel->channel.fd))
		return leave(EAGAIN);
	pending = TAILQ_FIRST(&channel->events);
	TAILQ_REMOVE(&channel->events, pending, link);
	if (pending->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		const struct rdma_cm_id *listener = pending->event.listen_id;

		id = new_id(base, listener->context);
		id->passive = true;
		id->path.traffic_class = (uint8_t)scripted_number("tos", 0);
		show_path(id);
		bind_to_device(&id->id);
		if (!id->id.verbs) /* tests/recorded has sessions without this address */
			show_own_address(&id->id);
		id->id.route.addr.dst_sin.sin_family = AF_INET;
		id->id.route.addr.dst_sin.sin_port = htons((uint16_t)next_peer_port++);
		id->id.route.addr.dst_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		peer_start(&id->peer, id);
		pending->event.id = &id->id;
	}
	id = (struct fake_id *)pending->event.id;
	id->taken++;
	id->half_made = pending->event.event == RDMA_CM_EVENT_CONNECT_ERROR;
	/* the program's copy lasts until the event is acknowledged */
	copy = allocate(sizeof(*copy));
	copy_bytes(copy, pending, sizeof(*copy));
	if (copy->event.param.conn.private_data)
		copy->event.param.conn.private_data = copy->private_data;
	*event = &copy->event;
	leave(0);
	if (copy->event.status == -1)
		errno = (int)scripted_number("library", EINVAL);
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	lock();
	((struct fake_id *)event->id)->taken--;
	unlock();
	free(event);
	return 0;
}

/*
 * Move events that the program has not fetched to the new channel, as the kernel does. An event
 * that is fetched but not acknowledged is a violation: the real library would wait for its
 * acknowledgment.
 */
int rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *target)
{
	struct channel *from = (struct channel *)base->channel, *to = (struct channel *)target;
	struct fake_id *id = (struct fake_id *)base;
	struct pending_event *pending, *next;
	int error = enter("rdma_migrate_id");

	if (error)
		return leave(error);
	id->taken -= base->event != NULL;
	free(base->event);
	base->event = NULL;
	forbid(id->taken, "%u events of the id are not acknowledged", id->taken);
	for (pending = TAILQ_FIRST(&from->events); pending; pending = next) {
		next = TAILQ_NEXT(pending, link);
		if (pending->event.id != base)
			continue;
		TAILQ_REMOVE(&from->events, pending, link);
		lower_counter(from->channel.fd);
		TAILQ_INSERT_TAIL(&to->events, pending, link);
		raise_counter(to->channel.fd);
	}
	from->object.users--;
	to->object.users++;
	base->channel = target;
	if (id->synchronous)
		free_channel(from);
	id->synchronous = false;
	return leave(0);
}

/* ---- Synchronous calls, of an id without an event channel ---- */

static int next_event(struct rdma_cm_id *id, struct rdma_cm_event **event)
{
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
	if (!(__real_fcntl(id->channel->fd, F_GETFL) & O_NONBLOCK))
		wait_for_descriptor(id->channel->fd);
	return rdma_get_cm_event(id->channel, event);
}

/*
 * Wait until a synchronous call is done, unless `result` shows its failure. Return 0, or -1 with
 * errno. The event belongs to the library until the next call or rdma_destroy_id(3).
 */
static int wait_until_done(struct rdma_cm_id *id, int result)
{
	if (result || !((struct fake_id *)id)->synchronous)
		return result;
	if (next_event(id, &id->event))
		return -1;
	if (id->event->status == 0)
		return 0;
	errno = id->event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : -id->event->status;
	return -1;
}

/* ---- Addresses ---- */

static void set_address(struct sockaddr_storage *target, const struct sockaddr *address)
{
	copy_bytes(target, address,
		   address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in));
}

/* Return a pointer to the port of an id's own address, IPv4 or IPv6. */
static in_port_t *port_of(struct rdma_cm_id *id)
{
	return id->route.addr.src_addr.sa_family == AF_INET6 ? &id->route.addr.src_sin6.sin6_port
							     : &id->route.addr.src_sin.sin_port;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
	struct fake_id *fake = (struct fake_id *)id;

	if (level == RDMA_OPTION_ID && option == RDMA_OPTION_ID_AFONLY && size == sizeof(int))
		fake->family_only = *(int *)value;
	else if (level == RDMA_OPTION_ID && option == RDMA_OPTION_ID_TOS && size == 1 &&
		 (fake->passive || !id->verbs) && !fake->asked)
		fake->path.traffic_class =
			fake->passive ? fake->path.traffic_class : *(uint8_t *)value;
	else
		violation("an unexpected option, or at the wrong time");
	return leave(enter("rdma_set_option"));
}

/*
 * Return true if the id's source address is an IPv4 address that must belong to a device. A
 * wildcard or loopback address binds the id to no device, as in Linux (cma_any_addr() in cma.c).
 */
static bool has_address(const struct rdma_cm_id *id)
{
	in_addr_t address = ntohl(id->route.addr.src_sin.sin_addr.s_addr);

	return id->route.addr.src_addr.sa_family == AF_INET && address != INADDR_ANY &&
	       address >> IN_CLASSA_NSHIFT != IN_LOOPBACKNET;
}

/*
 * Return true if the device's GID table has the id's address, on an interface of this network
 * namespace. Linux checks both (cma_validate_port()); iWARP has no GIDs. The address of "eth9",
 * 198.51.100.2, is missing.
 */
static bool is_of_device(const struct rdma_cm_id *id)
{
	in_addr_t other = htonl(0xc6336402);

	return !scripted("no-device") && !scripted("elsewhere") &&
	       (!scripted("no-gids") || is_iwarp()) &&
	       id->route.addr.src_sin.sin_addr.s_addr != other;
}

/* Return a free port: a different one for each listener. */
static uint16_t free_port(void)
{
	const struct fake_id *id;
	uint16_t port = PORT;

	SLIST_FOREACH (id, &ids, link)
		port += id->listening;
	return port;
}

/* Return true if another id has the address and the port: the kernel then returns EADDRINUSE. */
static bool is_bound(const struct rdma_cm_id *base)
{
	const struct sockaddr_storage *address = &base->route.addr.src_storage;
	const struct fake_id *id;

	SLIST_FOREACH (id, &ids, link) {
		if (&id->id != base &&
		    !memcmp(&id->id.route.addr.src_storage, address, sizeof(*address)))
			return true;
	}
	return false;
}

int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *address)
{
	int error = enter("rdma_bind_addr");

	if (error)
		return leave(error);
	set_address(&base->route.addr.src_storage, address);
	if (*port_of(base) == 0 && scripted_text("no-ports"))
		return leave((int)scripted_number("no-ports", 0));
	if (*port_of(base) == 0)
		*port_of(base) = htons(free_port());
	if (is_bound(base))
		return leave(EADDRINUSE);
	if (has_address(base) && !is_of_device(base))
		return leave(ENODEV);
	if (has_address(base)) {
		bind_to_device(base);
		local_gid(&base->route.addr.addr.ibaddr.sgid);
		copy_bytes(base->route.addr.addr.ibaddr.sgid.raw + 12,
			   &base->route.addr.src_sin.sin_addr, 4);
	}
	return leave(0);
}

void remove_device_of_ids(const struct ibv_context *context)
{
	struct fake_id *id;

	SLIST_FOREACH (id, &ids, link) {
		if (id->id.verbs != context)
			continue;
		id->listening = false;
		produce_cm_event(id, "DEVICE_REMOVAL", 0);
	}
}

int rdma_listen(struct rdma_cm_id *base, int backlog)
{
	struct fake_id *id = (struct fake_id *)base, *other;
	int error = enter("rdma_listen");

	forbid(backlog < 1 || base->route.addr.src_addr.sa_family == AF_UNSPEC,
	       "no backlog or no address");
	forbid(base->route.addr.src_addr.sa_family == AF_INET6 && !id->family_only,
	       "a listener on IPv6 accepts IPv4, too, unless AFONLY is set");
	SLIST_FOREACH (other, &ids, link)
		forbid(other->listening && *port_of(&other->id) != *port_of(base),
		       "the program listens on two ports");
	if (!error) {
		id->listening = true;
		id->peer.outgoing_length = scripted_number("payload", 1024);
	}
	return leave(error);
}

uint16_t rdma_get_src_port(struct rdma_cm_id *id)
{
	return *port_of(id);
}

bool next_client(void)
{
	struct stimulus *stimulus;
	struct fake_id *id;

	SLIST_FOREACH (id, &ids, link) {
		if (id->listening)
			break;
	}
	if (!id || device_is_away() || clients_came == scripted_number("clients", 1))
		return false;
	clients_came++;
	stimulus = new_event(id, "CONNECT_REQUEST", 0);
	add_private_data(stimulus, peer_hello(&id->peer, true, 0, stimulus->bytes), REQUEST_SIZE);
	produce(stimulus);
	return true;
}

void local_gid(union ibv_gid *gid)
{
	static const uint8_t mapped[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2 };

	copy_bytes(gid->raw, mapped, sizeof(mapped));
}

/* Bind an id to the device, and to this host's address on it. */
static void find_device(struct rdma_cm_id *id)
{
	bind_to_device(id);
	id->route.addr.src_sin.sin_family = AF_INET;
	id->route.addr.src_sin.sin_addr.s_addr = htonl(0xc0000202);
	if (IN6_IS_ADDR_LINKLOCAL(&id->route.addr.dst_sin6.sin6_addr))
		id->route.addr.src_sin6 = id->route.addr.dst_sin6;
	local_gid(&id->route.addr.addr.ibaddr.sgid);
}

/* Return true for 127.0.0.0/8, ::1 and the wildcards. Linux treats them in the same way. */
static bool is_loopback(const struct sockaddr *address)
{
	const struct in6_addr *ipv6 =
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	in_addr_t ipv4 =
		ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);

	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(ipv6) || IN6_IS_ADDR_UNSPECIFIED(ipv6);
	return ipv4 == INADDR_ANY || ipv4 >> 24 == IN_LOOPBACKNET;
}

int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *source, struct sockaddr *address,
		      int timeout)
{
	struct fake_id *id = (struct fake_id *)base;
	int error = enter("rdma_resolve_addr");

	forbid(timeout < 1, "the timeout is less than 1 ms");
	forbid(source && source->sa_family != address->sa_family,
	       "source and destination have different address families");
	/* Linux 6.1 rejects loopback: over iWARP here, over RoCE in rdma_resolve_route(3) */
	if (is_loopback(address) && is_iwarp())
		error = EINVAL;
	if (scripted_text("no-ports")) /* the kernel binds the id to a port first */
		error = (int)scripted_number("no-ports", 0);
	if (!error) {
		id->leads_nowhere = is_loopback(address);
		set_address(&base->route.addr.dst_storage, address);
		id->resolve_timeout = timeout;
		find_device(base);
		produce_cm_event(id, "ADDR_RESOLVED", 0);
	}
	return wait_until_done(base, leave(error));
}

int rdma_resolve_route(struct rdma_cm_id *base, int timeout)
{
	struct fake_id *id = (struct fake_id *)base;
	int error = enter("rdma_resolve_route");

	forbid(!base->verbs || timeout < 1,
	       "the address is not resolved, or the timeout is less than 1 ms");
	if (id->leads_nowhere)
		error = ENODEV;
	if (!error) {
		id->resolve_timeout = timeout;
		show_path(id);
		produce_cm_event(id, "ROUTE_RESOLVED", 0);
	}
	return wait_until_done(base, leave(error));
}

int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	struct fake_id *fake;

	if (leave(enter("rdma_get_request")) || next_event(listener, &event))
		return -1;
	forbid(event->event != RDMA_CM_EVENT_CONNECT_REQUEST, "no request, but another event");
	lock();
	fake = (struct fake_id *)event->id;
	((struct channel *)fake->id.channel)->object.users--;
	fake->id.channel = new_channel();
	((struct channel *)fake->id.channel)->object.users++;
	fake->synchronous = true;
	fake->id.event = event;
	*id = &fake->id;
	return leave(0);
}

/* ---- Connecting ---- */

/*
 * Return true if a queue pair exceeds blocks:N. mlx5 counts blocks of 64 bytes: four for a work
 * request, five with inline data, and rounds the sum up to a power of two.
 */
static bool exceeds_blocks(const struct ibv_qp_cap *cap)
{
	uint32_t limit = scripted_number("blocks", UINT32_MAX / 2);
	uint32_t blocks = cap->max_send_wr * (cap->max_inline_data ? 5 : 4), size = 1;

	while (size < blocks)
		size *= 2;
	return size > limit;
}

int rdma_create_qp(struct rdma_cm_id *base, struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	int error = enter("rdma_create_qp");

	forbid(!base->verbs || base->qp, "no device yet, or a second queue pair");
	forbid(!holds_requests(&attributes->cap),
	       "more work requests than the device has for a queue");
	if (attributes->cap.max_inline_data > scripted_number("inline", 64))
		error = EINVAL;
	if (exceeds_blocks(&attributes->cap))
		error = scripted("enomem") ? ENOMEM : EINVAL;
	if (scripted("withdrawn"))
		error = EINVAL;
	if (!error) {
		struct fake_qp *qp = create_fake_qp(pd, attributes);

		qp->id = (struct fake_id *)base;
		base->qp = &qp->qp;
		base->pd = pd;
	}
	return leave(error);
}

void rdma_destroy_qp(struct rdma_cm_id *base)
{
	lock();
	forbid(!base->qp, "there is no queue pair");
	destroy_fake_qp((struct fake_qp *)base->qp);
	base->qp = NULL;
	unlock();
}

/*
 * Return true if librdmacm itself rejects this number of READs. It stores the driver's number in a
 * byte, and 255 stands for that number (ucma_valid_param() in its cma.c).
 */
static bool exceeds_reads(uint8_t asked, uint32_t stated)
{
	return asked != UINT8_MAX && asked > (uint8_t)stated;
}

static bool is_valid(const struct rdma_conn_param *parameters)
{
	return !exceeds_reads(parameters->responder_resources, stated_reads()) &&
	       !exceeds_reads(parameters->initiator_depth, stated_own_reads());
}

/* Check the rules for both sides of a new connection, and set the depth of the program's READs. */
static void check_parameters(const struct fake_id *id, const struct rdma_conn_param *parameters,
			     uint8_t limit)
{
	struct fake_qp *qp = (struct fake_qp *)id->id.qp;

	forbid(!qp, "a connection without a queue pair");
	forbid(TAILQ_EMPTY(&qp->receives), "no receive is posted before the peer can send");
	forbid(parameters->private_data_len > limit ||
		       (parameters->private_data_len && !parameters->private_data),
	       "%u bytes of private data are too many", parameters->private_data_len);
	forbid(!scripted("write") && (id->passive || !scripted("one-way")) &&
		       parameters->responder_resources == 0,
	       "the peer's RDMA READs are not served");
	forbid(parameters->retry_count != 7 || parameters->rnr_retry_count != 7,
	       "retry counts below 7: a short interruption of the network would end the connection");
	qp->read_depth = parameters->initiator_depth;
	if (qp->read_depth > peer_serves_reads())
		qp->read_depth = peer_serves_reads();
}

/* Return true if the destination is a port that --check expects to be unused. */
static bool is_unused_port(const struct rdma_cm_id *id)
{
	uint16_t port = ntohs(id->route.addr.dst_sin.sin_port);

	return port >= 47893 && port < 47897;
}

/*
 * Reject a request to an unused port, with the reason of unused:N (iWARP: ECONNREFUSED). If N is 0,
 * or for unused!, do not answer.
 */
static int reject_unused(struct fake_id *id)
{
	int reason = (int)scripted_number("unused", 8);

	if (reason && !take_order("unused", '!'))
		produce(new_event(id, "REJECTED", is_iwarp() ? -ECONNREFUSED : reason));
	return leave(0);
}

int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *parameters)
{
	struct fake_id *id = (struct fake_id *)base;
	unsigned int refusal =
		take_order("accept", '=') ? REFUSAL_SESSIONS : scripted_number("refuse", 0);
	int early = (int)scripted_number("connect-early", 0);
	int late = (int)scripted_number("connect-signal", 0);
	int error = enter("rdma_connect");
	struct stimulus *stimulus;

	if (early || late) {
		sleep_until_signal(early, late);
		error = EINTR;
	}
	if (!error && !is_valid(parameters))
		error = EINVAL;
	if (error)
		return leave(error);
	check_parameters(id, parameters, REQUEST_SIZE);
	id->asked = true;
	if (is_unused_port(base) && !scripted("answers-everywhere"))
		return reject_unused(id);
	peer_start(&id->peer, id);
	peer_reads_hello(&id->peer, false, parameters->private_data, parameters->private_data_len);
	if (!refusal) {
		produce_cm_event(id, "ESTABLISHED", 0);
		return wait_until_done(base, leave(0));
	}
	stimulus = new_event(id, "REJECTED", is_iwarp() ? -ECONNREFUSED : refusal == 255 ? 8 : 28);
	if (refusal != 255)
		add_private_data(stimulus, peer_hello(&id->peer, false, refusal, stimulus->bytes),
				 REJECT_SIZE);
	produce(stimulus);
	return wait_until_done(base, leave(0));
}

int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *parameters)
{
	struct fake_id *id = (struct fake_id *)base;
	int error = enter("rdma_accept");

	if (!error &&
	    (!is_valid(parameters) || (scripted("strict-mtu") && id->path.mtu > port_mtu())))
		error = EINVAL;
	if (!error)
		error = (int)scripted_number("withdrawn", 0);
	if (error)
		return leave(error);
	check_parameters(id, parameters, REPLY_SIZE);
	forbid(parameters->initiator_depth > peer_serves_reads() ||
		       (peer_asks_reads() > 0 &&
			parameters->responder_resources > peer_asks_reads()),
	       "read depths beyond what the client can do");
	id->asked = true;
	peer_reads_hello(&id->peer, true, parameters->private_data, parameters->private_data_len);
	base->qp->state = IBV_QPS_RTS;
	if (produce_cm_event(id, "ESTABLISHED", 0) == RDMA_CM_EVENT_ESTABLISHED)
		peer_established(&id->peer);
	return wait_until_done(base, leave(0));
}

int rdma_reject(struct rdma_cm_id *base, const void *private_data, uint8_t size)
{
	const struct fake_id *id = (struct fake_id *)base;
	int error = enter("rdma_reject");

	forbid((id->passive ? id->asked : !id->half_made) || size > REJECT_SIZE ||
		       (size && !private_data),
	       "at the wrong time, or with %u bytes of private data", size);
	peer_reads_rejection(private_data, size);
	if (scripted("withdrawn") || scripted_text("withdrawn"))
		error = EINVAL;
	return leave(error);
}

int rdma_disconnect(struct rdma_cm_id *base)
{
	struct fake_id *id = (struct fake_id *)base;
	int error = enter("rdma_disconnect");

	if (!error && (!id->asked || !base->qp))
		error = EINVAL;
	if (!error) {
		((struct fake_qp *)base->qp)->closing = true;
		if (!scripted("lazy-flush"))
			break_qp((struct fake_qp *)base->qp);
		peer_disconnects(id);
	}
	return wait_until_done(base, leave(error));
}
