// SPDX-License-Identifier: MIT
#include "negotiate.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "interfaces.h"
#include "memory.h"
#include "reasons.h"

/* Bytes of inline data to request. A message fits. The adapter does not read it from memory. */
#define INLINE_SIZE 64
/* Maximum number of READs at a time, by each side. Software adapters are not faster with more. */
#define READ_DEPTH 128
/*
 * Values assumed if a driver reports an impossible one. mana, for example, leaves max_msg_sz 0.
 * Every device with reliable connections supports these values.
 */
#define ASSUMED_MESSAGE_SIZE  ((uint32_t)64 * 1024)
#define ASSUMED_QUEUE_ENTRIES 128
/*
 * The vendor_id of Linux's siw. In Linux 6.1 siw applies RLIMIT_MEMLOCK even to a process with
 * CAP_IPC_LOCK (siw_umem_get()). Linux 7.3's siw does not.
 */
#define SIW_VENDOR 0x626d74
/* Entries, of 32 bytes each, of the completion queue of reserve_siw_offset(). */
#define SIW_ENTRIES (0x90000 / 32 + 1)
/* Maximum and minimum time of an attempt to resolve a neighbor. */
#define RESOLVE_MILLISECONDS          2000
#define SHORTEST_RESOLVE_MILLISECONDS 200

/* ---- The path ---- */

struct endpoint endpoint_of(const struct sockaddr *address)
{
	struct endpoint end;

	if (getnameinfo(address, address_size(address), end.address, sizeof(end.address), end.port,
			sizeof(end.port), NI_NUMERICHOST | NI_NUMERICSERV))
		return (struct endpoint){ .address = "an unknown address", .text = "unknown peer" };
	snprintf(end.text, sizeof(end.text), "%s port %s", end.address, end.port);
	return end;
}

const char *lookup_error(int error)
{
	return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
}

/* Free later duplicates of `address`: two lines of /etc/hosts may map a name to one address. */
static void drop_duplicates(struct addrinfo *address)
{
	struct addrinfo **link = &address->ai_next, *other;

	while ((other = *link)) {
		if (other->ai_addrlen != address->ai_addrlen ||
		    memcmp(other->ai_addr, address->ai_addr, address->ai_addrlen) != 0) {
			link = &other->ai_next;
			continue;
		}
		*link = other->ai_next;
		other->ai_next = NULL;
		freeaddrinfo(other);
	}
}

int look_up_name(const char *name, const char *port, struct addrinfo **addresses)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	int error = getaddrinfo(name, port, &hints, addresses);

	if (error)
		*addresses = NULL;
	for (struct addrinfo *address = *addresses; address; address = address->ai_next)
		drop_duplicates(address);
	return error;
}

struct sockaddr *choose_source(const struct addrinfo *sources, const struct addrinfo *address)
{
	while (sources && sources->ai_family != address->ai_family)
		sources = sources->ai_next;
	return sources ? sources->ai_addr : NULL;
}

enum status resolve_name(struct process *process, bool own, const char *name, const char *port,
			 struct addrinfo **addresses)
{
	int error = look_up_name(name, port, addresses);
	const char *reason = lookup_error(error);
	struct strbuf advice = { 0 };

	if (!error)
		return STATUS_SUCCESS;
	if (name)
		advice = name_advice(error, name, own);
	return process_fail(process, STATUS_UNRESOLVED, "cannot resolve %s '%s': %s%s%s",
			    own ? "--bind" : "the host name", ellipsize(name ? name : "any").text,
			    reason, advice.length > 0 ? "; " : "", advice.text);
}

const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port)
{
	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	return port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

int resolve_address(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		    int64_t deadline)
{
	int64_t remaining = deadline - now_milliseconds();

	if (remaining < SHORTEST_RESOLVE_MILLISECONDS) {
		errno = ETIME;
		return -1;
	}
	return rdma_resolve_addr(id, source, address,
				 remaining < RESOLVE_MILLISECONDS ? (int)remaining
								  : RESOLVE_MILLISECONDS);
}

static bool denies_port(int error)
{
	return error == EADDRNOTAVAIL || error == EADDRINUSE;
}

bool no_port_is_free(int error)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *id;
	bool denied;

	if (!denies_port(error) || rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	denied = rdma_bind_addr(id, (struct sockaddr *)&any) && denies_port(errno);
	rdma_destroy_id(id);
	return denied;
}

/*
 * Return advice for a loopback, wildcard or multicast address that could not be resolved, or that
 * has no route. Return NULL for the address of a host.
 *
 * Without --bind, Linux 6.1 resolves no loopback and no wildcard address, even if 'lo' has an RDMA
 * device. Over RoCE resolving the route fails with ENODEV, over iWARP resolving the address fails
 * with EINVAL.
 */
static const char *kind_advice(const struct sockaddr *address)
{
	bool is_ipv6 = address->sa_family == AF_INET6;
	const struct in6_addr *ipv6 =
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	in_addr_t ipv4 =
		ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);

	if (is_ipv6 ? IN6_IS_ADDR_UNSPECIFIED(ipv6) : ipv4 == INADDR_ANY)
		return "give an address of the server's host, not the wildcard address";
	if (is_ipv6 ? IN6_IS_ADDR_MULTICAST(ipv6) : IN_MULTICAST(ipv4))
		return "give an address of the server's host, not a multicast address";
	if (is_ipv6 ? IN6_IS_ADDR_LOOPBACK(ipv6) : ipv4 >> 24 == IN_LOOPBACKNET)
		return "give the address of a network interface that has an RDMA device "
		       "('rdma link', 'ip address'), not a loopback address";
	return NULL;
}

struct strbuf address_advice(int error, const struct sockaddr *source,
			     const struct sockaddr *address)
{
	bool foreign = source && error == EADDRNOTAVAIL;
	const char *kind = foreign ? NULL : kind_advice(address);
	struct strbuf advice = { 0 };

	if (error == EINVAL && source && lacks_interface(source))
		return own_interface_advice(source);
	if (source && !kind && error != ETIMEDOUT && error != EHOSTUNREACH)
		strbuf_addf(&advice,
			    "give --bind an address of this host ('ip address') whose network "
			    "interface has an RDMA device ('rdma link') and a route to the server");
	else
		strbuf_addf(
			&advice, "%s",
			kind ? kind
			     : "check that the host is up, and that the route leads over a network "
			       "interface with an RDMA device ('ip route get', 'rdma link')");
	return advice;
}

const char *route_advice(const struct sockaddr *address)
{
	const char *kind = kind_advice(address);

	return kind ? kind : "over InfiniBand, check that the subnet manager runs";
}

int set_type_of_service(struct rdma_cm_id *id, const struct options *options)
{
	uint8_t tos = (uint8_t)options->tos;

	if (options->tos == DEFAULT_TOS)
		return 0;
	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
}

int type_of_service(const struct rdma_cm_id *id)
{
	bool iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;

	return iwarp || id->route.num_paths < 1 ? -1 : id->route.path_rec[0].traffic_class;
}

unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

unsigned int path_mtu(const struct rdma_cm_id *id)
{
	return id->route.num_paths < 1 ? 0 : mtu_bytes((enum ibv_mtu)id->route.path_rec[0].mtu);
}

/* Return true if a GID table entry belongs to the address that `id` is bound to. */
static bool is_local(const struct ibv_gid_entry *entry, struct rdma_cm_id *id)
{
	const struct sockaddr_in6 *address = (const void *)rdma_get_local_addr(id);
	/* nonzero only for a link-local address, which several network interfaces may have */
	uint32_t scope = address->sin6_family == AF_INET6 ? address->sin6_scope_id : 0;

	/* only over RoCE an entry belongs to a network interface */
	return !memcmp(&entry->gid, &id->route.addr.addr.ibaddr.sgid, sizeof(entry->gid)) &&
	       (!scope || entry->gid_type == IBV_GID_TYPE_IB || entry->ndev_ifindex == scope);
}

bool find_gid_of_port(struct rdma_cm_id *id, struct ibv_context *verbs, uint8_t number,
		      struct ibv_gid_entry *used)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	bool found = false;

	if (ibv_query_port(verbs, number, &port))
		return false;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(verbs, number, (uint32_t)i, &entry, 0) ||
		    !is_local(&entry, id))
			continue;
		if (!found || entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			*used = entry;
		found = true;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			break;
	}
	return found;
}

bool find_gid(struct rdma_cm_id *id, struct ibv_gid_entry *used)
{
	return find_gid_of_port(id, id->verbs, id->port_num, used);
}

unsigned int udp_source_port(uint32_t flow_label)
{
	return 0xc000 | ((flow_label ^ flow_label >> 14) & 0x3fff);
}

unsigned int source_port(struct rdma_cm_id *id)
{
	struct ibv_gid_entry entry;
	uint32_t label;

	if (!id->verbs)
		return 0;
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return ntohs(rdma_get_src_port(id));
	if (id->route.num_paths < 1 || !find_gid(id, &entry) ||
	    entry.gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	label = be32toh(id->route.path_rec[0].flow_label);
	return label ? udp_source_port(label) : 0;
}

struct strbuf source_port_describe(unsigned int port)
{
	struct strbuf text = { 0 };

	if (port > 0)
		strbuf_addf(&text, "source port %u", port);
	else
		strbuf_addf(&text, "source port not known");
	return text;
}

/* ---- Shortages ---- */

/*
 * Describe in `failure` why `attempt` failed with `error`. `exceeds` is true if the attempt needs
 * more than is left of the locked-memory limit. `charged` is true if the driver may count the
 * memory of this object, or of earlier ones, against the limit.
 */
static enum status shortage(struct failure *failure, const char *attempt, int error, bool exceeds,
			    bool charged)
{
	const char *advice = shortage_advice(error);
	struct lock_limit lock = memory_lock_limit();
	struct strbuf limit = { 0 };

	/* ib_umem_get() in the kernel fails with EPERM if the limit is 0, else with ENOMEM */
	if (lock.applies && ((error == ENOMEM && exceeds) || (error == EPERM && lock.bytes == 0)))
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "%s: it would exceed the locked-memory limit of %" PRIu64
				   " KiB; raise it " RAISE_LOCK_LIMIT,
				   attempt, lock.bytes / 1024);
	if (error == ENOMEM && charged)
		strbuf_addf(&limit,
			    ", or the driver counts registered memory and queues against the "
			    "locked-memory limit of %" PRIu64 " KiB: raise it " RAISE_LOCK_LIMIT,
			    lock.bytes / 1024);
	return failure_set(failure, STATUS_LOCAL_FAILURE, "%s: %s%s%s%s", attempt, strerror(error),
			   advice ? "; " : "", advice ? advice : "", limit.text);
}

enum status creation_failed(struct failure *failure, const char *call, bool queue)
{
	int error = errno;
	struct strbuf attempt = { 0 };

	strbuf_addf(&attempt, "%s failed", call);
	/* mlx5 counts the memory of queues */
	return shortage(failure, attempt.text, error, false, queue && memory_lock_limit().applies);
}

enum status registration_failed(size_t size, uint64_t registered, struct failure *failure)
{
	int error = errno;
	struct lock_limit lock = memory_lock_limit();
	bool exceeds = registered > lock.bytes || memory_pages(size) > lock.bytes - registered;
	struct strbuf attempt = { 0 };

	strbuf_addf(&attempt, "cannot register %zu bytes of memory", size);
	/*
	 * siw applies the limit even to root, for which lock.applies is false. mlx5 also counts the
	 * memory of queues, which `registered` lacks, so `exceeds` may be false.
	 */
	return shortage(failure, attempt.text, error, exceeds, exceeds || lock.applies);
}

/* ---- Limits and queues of the device ---- */

/*
 * Return the number of simultaneous READs, at most READ_DEPTH, that librdmacm accepts if the driver
 * reports `stated`. librdmacm keeps only the low byte. If more READs are requested, rdma_connect(3)
 * and rdma_accept(3) fail with EINVAL.
 */
static uint8_t accepted_reads(int stated)
{
	uint8_t kept = (uint8_t)stated;

	return kept < READ_DEPTH ? kept : READ_DEPTH;
}

static enum status no_reads(const struct rdma_cm_id *id, const char *verb, const char *name,
			    int stated, struct failure *failure)
{
	return failure_set(failure, STATUS_LOCAL_FAILURE,
			   "RDMA device %s cannot %s RDMA READs: its driver reports %s %d%s; use "
			   "'write'",
			   device_name(id->verbs->device).text, verb, name, stated,
			   stated ? ", of which librdmacm keeps the low byte, 0" : "");
}

static int queue_limit(int stated)
{
	return stated < 1 ? ASSUMED_QUEUE_ENTRIES : stated;
}

/*
 * Return the number of the operation's work requests that fit into the device's queues besides
 * messages, keepalives and receives. It is at most `wanted`, and at least 1.
 */
static unsigned int at_most_requests(unsigned int wanted, const struct ibv_device_attr *attributes)
{
	int requests = queue_limit(attributes->max_qp_wr) - MESSAGE_REQUESTS;
	int completions = queue_limit(attributes->max_cqe) - MESSAGE_REQUESTS - RECEIVES;
	int limit = requests < completions ? requests : completions;

	if (limit < 1)
		return 1;
	return wanted < (unsigned int)limit ? wanted : (unsigned int)limit;
}

enum status query_limits(const struct rdma_cm_id *id, const struct options *options, bool one_way,
			 struct limits *limits, struct failure *failure)
{
	bool read = options->operation == OPERATION_READ;
	bool client = options->role == ROLE_CLIENT;
	struct ibv_device_attr attributes;
	struct ibv_port_attr port;
	int error = verb_error(ibv_query_device(id->verbs, &attributes));

	if (!error)
		error = verb_error(ibv_query_port(id->verbs, id->port_num, &port));
	if (error)
		return failure_set(
			failure, STATUS_LOCAL_FAILURE, "cannot query RDMA device %s port %u: %s",
			device_name(id->verbs->device).text, id->port_num, strerror(error));
	limits->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	limits->transport = transport_name(id->verbs, &port);
	limits->maximum_message =
		port.max_msg_sz < MESSAGE_SIZE ? ASSUMED_MESSAGE_SIZE : port.max_msg_sz;
	limits->mtu = port.active_mtu;
	limits->applies_lock_limit = attributes.vendor_id == SIW_VENDOR;
	limits->depth = at_most_requests(options->depth, &attributes);
	limits->request_size = limits->maximum_message < TRANSFER_REQUEST_SIZE
				       ? limits->maximum_message
				       : TRANSFER_REQUEST_SIZE;
	limits->responder_resources = accepted_reads(attributes.max_qp_rd_atom);
	limits->initiator_depth = accepted_reads(attributes.max_qp_init_rd_atom);
	if (read && limits->initiator_depth == 0 && (client || !one_way))
		return no_reads(id, "perform", "max_qp_init_rd_atom",
				attributes.max_qp_init_rd_atom, failure);
	if (read && limits->responder_resources == 0 && (!client || !one_way))
		return no_reads(id, "serve", "max_qp_rd_atom", attributes.max_qp_rd_atom, failure);
	return STATUS_SUCCESS;
}

/*
 * Return the number of connections for which the device has queues, or UINT_MAX if it is unknown.
 * Ignore a limit below 1.
 */
static unsigned int most_connections(struct ibv_context *device)
{
	struct ibv_device_attr attributes;
	unsigned int pairs, queues;

	if (ibv_query_device(device, &attributes))
		return UINT_MAX;
	pairs = attributes.max_qp < 1 ? UINT_MAX : (unsigned int)attributes.max_qp;
	queues = attributes.max_cq < 1 ? UINT_MAX : (unsigned int)attributes.max_cq;
	return pairs < queues ? pairs : queues;
}

enum status check_connections(struct process *process, unsigned int connections)
{
	unsigned int most = 0;
	struct device_name best = { "" };

	for (struct ibv_context **device = process->devices; *device; device++) {
		unsigned int limit = most_connections(*device);

		if (limit <= most)
			continue;
		most = limit;
		best = device_name((*device)->device);
	}
	if (connections <= most)
		return STATUS_SUCCESS;
	return process_fail(
		process, STATUS_LOCAL_FAILURE,
		"cannot have %u connections: RDMA device %s can have at most %u (max_qp, "
		"max_cq of 'ibv_devinfo -v'); lower --connections",
		connections, best.text, most);
}

static bool is_siw(struct ibv_context *device)
{
	struct ibv_device_attr attributes;

	return device->device->transport_type == IBV_TRANSPORT_IWARP &&
	       !ibv_query_device(device, &attributes) && attributes.vendor_id == SIW_VENDOR;
}

void reserve_siw_offset(struct process *process)
{
	struct ibv_cq **reserved = process->reserved;
	struct ibv_cq **const end = reserved + MAX_RESERVED;

	for (struct ibv_context **device = process->devices; *device && reserved < end; device++) {
		if (is_siw(*device))
			*reserved++ = ibv_create_cq(*device, SIW_ENTRIES, NULL, NULL, 0);
	}
}

/*
 * Create a queue pair within `limits`, without inline data if the device refuses it. Set
 * limits->inline_size. Return 0, or -1 with errno.
 */
static int try_queue_pair(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq,
			  void *context, struct limits *limits)
{
	struct ibv_qp_init_attr attributes = {
		.qp_context = context,
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap.max_send_wr = limits->depth + MESSAGE_REQUESTS,
		.cap.max_recv_wr = RECEIVES,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.cap.max_inline_data = INLINE_SIZE,
	};
	int error = rdma_create_qp(id, pd, &attributes);

	if (error && errno == EINVAL) { /* no device reports its limit of inline data in advance */
		attributes.cap.max_inline_data = 0;
		error = rdma_create_qp(id, pd, &attributes);
	}
	if (!error)
		limits->inline_size = attributes.cap.max_inline_data;
	return error;
}

/*
 * The device may accept fewer work requests than max_qp_wr: the size of a request in a queue pair
 * depends on its contents, and mlx5 reports the number of the smallest requests.
 */
int create_queue_pair(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, void *context,
		      struct limits *limits)
{
	while (try_queue_pair(id, pd, cq, context, limits)) {
		bool too_large = errno == EINVAL || errno == ENOMEM;

		if (!too_large || limits->depth == 1)
			return -1;
		limits->depth /= 2;
	}
	return 0;
}

/* ---- Hellos ---- */

struct peer_hello decode_peer_hello(const struct cm_event *event)
{
	struct peer_hello peer;

	peer.hello_kind = decode_hello(event->private_data, event->private_data_size, &peer.hello);
	return peer;
}

/*
 * Return true if a payload of unknown length, such as a pipe, would be sent repeatedly: by WRITEs
 * of its sender, or by READs of the other side.
 */
static bool repeats_unknown(const struct options *options, uint64_t outgoing_length,
			    const struct hello *hello)
{
	bool sends =
		sends_payload(options->role, options->operation, hello->flags & HELLO_ONE_WAY) &&
		outgoing_length == LENGTH_UNKNOWN;
	bool receives = hello->flags & HELLO_UNKNOWN;
	bool writes = options->operation == OPERATION_WRITE;

	if (operation_passes(options) != 1 && (writes ? sends : receives))
		return true;
	return hello->passes != 1 && (writes ? receives : sends);
}

enum refusal hello_refusal(const struct options *options, uint64_t outgoing_length,
			   const struct peer_hello *peer)
{
	const struct hello *hello = &peer->hello;
	bool one_way = hello->flags & HELLO_ONE_WAY;

	if (peer->hello_kind == HELLO_ABSENT)
		return options->operation == OPERATION_ANY ? REFUSAL_NO_MODE : REFUSAL_NONE;
	if (peer->hello_kind == HELLO_OTHER_VERSION || hello->wanted > MAX_WANTED)
		return REFUSAL_VERSION;
	if (hello->operation != options->operation ||
	    (options->role == ROLE_CLIENT && one_way != options->one_way))
		return REFUSAL_OPERATION;
	if (sends_payload(other_role(options->role), options->operation, one_way) !=
		    (hello->length > 0 || hello->flags & HELLO_UNKNOWN) ||
	    hello->length > options->maximum_payload || hello->length > MAX_PAYLOAD)
		return REFUSAL_LENGTH;
	if (repeats_unknown(options, outgoing_length, hello))
		return REFUSAL_PASSES;
	return REFUSAL_NONE;
}

const char *refusal_describe(enum refusal refusal)
{
	switch (refusal) {
	case REFUSAL_VERSION:
		return "client and server speak different versions of the protocol; use the same "
		       "release on both hosts";
	case REFUSAL_OPERATION:
		return "the modes differ, one side reads and the other writes; start both with "
		       "read, or both with write";
	case REFUSAL_LENGTH:
		return "the client sends nothing, or more than the server's --max-size; send one "
		       "byte or more, or raise --max-size";
	case REFUSAL_SESSIONS:
		return "the server is busy or exiting, so it accepts no further session; try again "
		       "later";
	case REFUSAL_PASSES:
		return "a pipe can be sent only once, but --iters or --duration of a side repeats "
		       "it; omit that option on both hosts, or send a regular file";
	case REFUSAL_NO_MODE:
		return "the client is no program of this project, so its mode is not known; start "
		       "the server with read or write";
	case REFUSAL_MEMORY:
		return "the server could not get memory for another session; see its messages, or "
		       "try again when other sessions have ended";
	case REFUSAL_SETUP:
		return "the server could not set up the session; see its messages";
	default:
		return "this release does not know the reason; see the server's messages";
	}
}

/*
 * Return the number of READs that the peer serves at a time.
 *
 * In an acceptance over iWARP, either field may have this number: cxgb4 reports the server's two
 * numbers as InfiniBand does, but siw, irdma and qedr swap them. The smaller one is safe. Ignore 0:
 * it only means that the server does not read.
 */
static uint8_t reads_served(enum role role, bool iwarp, const struct cm_event *event)
{
	uint8_t number = event->initiator_depth, other = event->responder_resources;

	if (role == ROLE_SERVER || !iwarp)
		return number;
	return number == 0 || (other > 0 && other < number) ? other : number;
}

/*
 * Limit this side's outstanding READs to the number that the peer serves. Limit the READs served
 * here to the number that the peer will have outstanding (rdma_accept(3)).
 *
 * Do not even post more READs: soft-iWARP in Linux would delay everything posted after them, even
 * its responses to the peer's READs. If both sides did so, they would wait for each other.
 */
static enum status limit_reads(enum role role, const struct cm_event *event, bool reads,
			       struct limits *limits, struct failure *failure)
{
	uint8_t served = reads_served(role, limits->iwarp, event);
	uint8_t asked = event->responder_resources;
	bool known = asked > 0 || !limits->iwarp; /* irdma leaves the number out of a request */

	if (limits->initiator_depth > served)
		limits->initiator_depth = served;
	if (known && limits->responder_resources > asked)
		limits->responder_resources = asked;
	if (!reads)
		return STATUS_SUCCESS;
	if (served == 0)
		return failure_set(
			failure, STATUS_REFUSED,
			"the peer serves no RDMA READ: its responder_resources are 0; use "
			"'write', or raise that limit on the peer");
	if (limits->depth > limits->initiator_depth)
		limits->depth = limits->initiator_depth;
	return STATUS_SUCCESS;
}

/* Store the peer's terms, or without a hello those of the tutorial's program. */
static void agree(struct terms *terms, const struct peer_hello *peer)
{
	const struct hello *hello = &peer->hello;

	terms->verifying = peer->hello_kind == HELLO_CURRENT;
	terms->peer = terms->verifying ? *hello : (struct hello){ .passes = 1 };
	if (!terms->verifying)
		terms->incoming_length = DEFAULT_PAYLOAD;
	else
		terms->incoming_length =
			hello->flags & HELLO_UNKNOWN ? LENGTH_UNKNOWN : hello->length;
}

/*
 * Return true if the server's acceptance repeats this side's `wanted`. If that is not 0, the server
 * must also send a pattern of that length.
 */
static bool repeats_wanted(const struct options *options, const struct hello *hello)
{
	bool pattern = hello->flags & HELLO_PATTERN && hello->length == hello->wanted;

	return hello->wanted == options->wanted && (hello->wanted == 0 || pattern);
}

/* Fail if this client cannot use the server's acceptance. */
static enum status check_acceptance(const struct terms *terms, const struct peer_hello *server,
				    struct failure *failure)
{
	const struct options *options = terms->options;
	const struct hello *hello = &server->hello;
	enum refusal refusal = hello_refusal(options, terms->outgoing_length, server);

	if (refusal == REFUSAL_LENGTH && hello->length > options->maximum_payload &&
	    hello->length <= MAX_PAYLOAD &&
	    sends_payload(ROLE_SERVER, options->operation, terms->one_way) && !options->check)
		return failure_set(failure, STATUS_REFUSED,
				   "the server sends %" PRIu64 " bytes, more than the %" PRIu64
				   " that --max-size allows here; raise --max-size",
				   hello->length, options->maximum_payload);
	if (refusal == REFUSAL_PASSES || refusal == REFUSAL_VERSION)
		return failure_set(failure, STATUS_REFUSED, "%s", refusal_describe(refusal));
	if (refusal != REFUSAL_NONE ||
	    (server->hello_kind == HELLO_CURRENT && !repeats_wanted(options, hello)))
		return failure_set(
			failure, STATUS_CONTENTS_WRONG,
			"the server's acceptance does not match the request: it names operation "
			"%u and %" PRIu64 " bytes; use the same release on both hosts",
			hello->operation, hello->length);
	if (server->hello_kind == HELLO_ABSENT && options->wanted > 0)
		return failure_set(failure, STATUS_REFUSED,
				   "the server does not support --check with PORT; start this "
				   "project's rdma-server on that host");
	return STATUS_SUCCESS;
}

/* Fail if the session needs a peer with a hello. */
static enum status check_absent_hello(const struct terms *terms, struct failure *failure)
{
	if (terms->outgoing_length != DEFAULT_PAYLOAD || terms->one_way)
		return failure_set(
			failure, STATUS_REFUSED,
			"the peer is no program of this project, so it exchanges %d bytes "
			"in each direction and nothing else; shorten --message and omit "
			"--file, --size and --one-way, or start this project's program "
			"on that host",
			DEFAULT_PAYLOAD);
	if (terms->options->output)
		return failure_set(
			failure, STATUS_REFUSED,
			"the peer is no program of this project, so its payload cannot be "
			"verified, and --output stores only verified payloads; omit --output, or "
			"start this project's program on that host");
	return STATUS_SUCCESS;
}

enum status negotiate(struct terms *terms, const struct peer_hello *peer,
		      const struct cm_event *event, struct failure *failure)
{
	const struct options *options = terms->options;
	bool operates = options->role == ROLE_CLIENT || !terms->one_way;
	enum status status = STATUS_SUCCESS;

	if (options->role == ROLE_CLIENT)
		status = check_acceptance(terms, peer, failure);
	if (status == STATUS_SUCCESS && peer->hello_kind == HELLO_ABSENT)
		status = check_absent_hello(terms, failure);
	if (status != STATUS_SUCCESS)
		return status;
	agree(terms, peer);
	return limit_reads(options->role, event, operates && options->operation == OPERATION_READ,
			   &terms->limits, failure);
}

struct rdma_conn_param connect_parameters(const struct limits *limits, const struct hello *hello,
					  uint8_t wire[HELLO_SIZE])
{
	struct rdma_conn_param parameters = {
		.private_data = wire,
		.private_data_len = HELLO_SIZE,
		.responder_resources = limits->responder_resources,
		.initiator_depth = limits->initiator_depth,
		.flow_control = 1,
		/* the maximum: with 0, one lost packet would break the connection */
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	encode_hello(hello, wire);
	return parameters;
}

enum status explain_not_established(const struct cm_event *event, struct failure *failure)
{
	if (event->library_error)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "the server accepted, but this host cannot set up the "
				   "connection: %s",
				   strerror(event->library_error));
	return failure_set(
		failure, event->status == -ETIMEDOUT ? STATUS_TIMED_OUT : STATUS_PEER_LOST,
		"cannot connect: %s, status %d (%s); check that the peer is up and that the "
		"network passes the packets",
		rdma_event_str(event->type), event->status,
		event->status < 0 ? strerror(-event->status)
				  : "a code of the RDMA transport, not an errno value");
}

/* ---- Rejection ---- */

int reject_request(struct rdma_cm_id *id, const struct options *options, enum refusal refusal)
{
	const struct hello hello = {
		.version = HELLO_VERSION,
		.refusal = (uint8_t)refusal,
		.length = options->maximum_payload,
	};
	uint8_t wire[HELLO_SIZE];

	encode_hello(&hello, wire);
	return rdma_reject(id, wire, sizeof(wire));
}

bool may_mean_withdrawn(int error, bool iwarp)
{
	return iwarp ? error == ECONNRESET || error == EPIPE : error == EINVAL;
}

enum status accept_failed(const struct rdma_cm_id *id, const struct limits *limits,
			  const struct hello *client, int error, struct failure *failure)
{
	unsigned int path = path_mtu(id), own = mtu_bytes(limits->mtu);
	unsigned int peer = mtu_bytes((enum ibv_mtu)client->mtu);
	struct strbuf buf = { .length = 0 };

	strbuf_addf(&buf, "rdma_accept failed: %s", strerror(error));
	if (error == EINVAL && path > 0 && own > 0) {
		strbuf_addf(&buf, " (MTU of ");
		if (peer > 0)
			strbuf_addf(&buf, "the client's port %u bytes, of ", peer);
		strbuf_addf(&buf, "the path %u%s, of this port %u)", path, peer > 0 ? "" : " bytes",
			    own);
		if (path > own)
			strbuf_addf(&buf, "; some adapters reject a path whose MTU is larger than "
					  "their port's: set both hosts to the same MTU");
	}
	return failure_set(failure, STATUS_LOCAL_FAILURE, "%s", buf.text);
}

/*
 * Describe a rejection without a hello. The usual reasons are:
 *
 * - No program listens.
 * - The program speaks another protocol, has failed or was killed.
 * - Over iWARP, the end of the connection overtook the hello.
 */
static void explain_silent_rejection(int status, struct failure *failure)
{
	const char *name = status < 0 ? strerror(-status) : rejection_describe(status);
	const char *advice = rejection_advice(status);

	if (status == REJECTION_INVALID_SERVICE_ID)
		failure_set(failure, STATUS_REFUSED,
			    "connection rejected: no program listens on that port; %s", advice);
	else if (status == -ECONNREFUSED) /* over iWARP, TCP or the program refused */
		failure_set(failure, STATUS_REFUSED,
			    "connection rejected: no program listens on that port, or the "
			    "program is not this project's rdma-server; %s",
			    advice);
	else
		failure_set(failure, STATUS_REFUSED,
			    "connection rejected (status %d%s%s), no reason from the server "
			    "arrived; %s",
			    status, name ? ": " : "", name ? name : "", advice);
}

enum refusal refusal_of(const struct peer_hello *server)
{
	return server->hello_kind == HELLO_OTHER_VERSION ? REFUSAL_VERSION
							 : (enum refusal)server->hello.refusal;
}

bool explain_rejection(const struct peer_hello *server, int status, struct failure *failure)
{
	enum refusal refusal = refusal_of(server);
	uint64_t most = server->hello.length;

	if (server->hello_kind == HELLO_ABSENT) {
		explain_silent_rejection(status, failure);
		return false;
	}
	if (refusal == REFUSAL_LENGTH && most > 0)
		failure_set(failure, STATUS_REFUSED,
			    "the server refused: it accepts at most %" PRIu64
			    " byte%s (--max-size of the server); send fewer, or raise that limit",
			    most, plural(most));
	else
		failure_set(failure, STATUS_REFUSED, "the server refused: %s",
			    refusal_describe(refusal));
	return true;
}
