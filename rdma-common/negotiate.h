/* SPDX-License-Identifier: MIT */
/*
 * Connection establishment: the limits of the device, queue pairs, hellos, the negotiation, and
 * rejections.
 *
 * Threads: the main thread, unless a function is marked "Any thread".
 */
#ifndef RDMA_COMMON_NEGOTIATE_H
#define RDMA_COMMON_NEGOTIATE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "options.h"
#include "process.h"
#include "status.h"
#include "transfer.h"
#include "wire.h"

/*
 * Number of posted receives. A peer sends three messages in a session, and at most TRANSFER_CREDITS
 * unconfirmed MSG_WINDOWs. Over iWARP a message without a receive ends the connection.
 */
#define RECEIVES (3 + TRANSFER_CREDITS)
/* Minimum pages of locked memory in a session: one for messages, one for each ring. */
#define SESSION_PAGES 3
/* Number of send queue entries besides the operation's: a message of each type, and a keepalive. */
#define MESSAGE_REQUESTS (MESSAGE_TYPES + 1)

/* Limits of one connection: those of the device, which negotiate() lowers to the peer's. */
struct limits {
	const char *transport;    /* from transport_name(). NULL if not queried yet. */
	bool iwarp;               /* the transport is iWARP */
	uint32_t maximum_message; /* maximum bytes of a message, as the port allows */
	enum ibv_mtu mtu;         /* MTU of the port. 0 if the driver does not report it. */
	bool applies_lock_limit;  /* the driver may apply RLIMIT_MEMLOCK to root as well (siw) */
	uint64_t request_size;    /* maximum bytes of one work request of the operation */
	unsigned int depth;       /* maximum number of outstanding work requests of the operation */
	unsigned int inline_size; /* maximum bytes of an inline work request */
	uint8_t responder_resources; /* maximum number of the peer's READs served at a time */
	uint8_t initiator_depth;     /* maximum number of this side's outstanding READs */
};

/* The peer's hello, from the private data of a connection manager event. */
struct peer_hello {
	enum hello_kind hello_kind;
	struct hello hello; /* All 0 if absent. Of another version, only `version` is set. */
};

/* The terms of a connection: first those of this side, then those of the peer. */
struct terms {
	const struct options *options;
	bool one_way;             /* only the client operates (--one-way) */
	uint64_t outgoing_length; /* bytes of this side's payload, or LENGTH_UNKNOWN */
	struct limits limits;     /* from query_limits() */

	/* Filled in by negotiate(): */
	bool verifying;    /* digests and verdicts are exchanged, because the peer has a hello */
	struct hello peer; /* the peer's hello, or values for the tutorial's program */
	/* Bytes of the peer's payload, or LENGTH_UNKNOWN. 0 if the peer sends none. */
	uint64_t incoming_length;
};

/* An address and a port in numeric form. */
struct endpoint {
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE];   /* with the scope ID, if any */
	char port[8];                                   /* empty if address and port are unknown */
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16]; /* address and port, for messages */
};
struct endpoint endpoint_of(const struct sockaddr *address);

/*
 * Look up the addresses of `name` (getaddrinfo(3)), without duplicates. The caller frees them
 * (freeaddrinfo(3)). Return 0 or the error of getaddrinfo(3). After an error `*addresses` is NULL.
 * Any thread.
 */
int look_up_name(const char *name, const char *port, struct addrinfo **addresses);

/*
 * Return the first of `sources` with the family of `address`, or NULL. `sources` has the addresses
 * of --bind, or is NULL. Any thread.
 */
struct sockaddr *choose_source(const struct addrinfo *sources, const struct addrinfo *address);

/*
 * Return a text for `error` of getaddrinfo(3) or getnameinfo(3). EAI_SYSTEM refers to errno, so
 * call this before errno changes. Any thread.
 */
const char *lookup_error(int error);

/*
 * Look up `name` and `port`, as look_up_name() does. If `name` is NULL, store the wildcards of IPv4
 * and IPv6. `port` may be NULL. If `own` is true, the name is that of --bind, else the server's.
 * After an error print and record a message.
 */
enum status resolve_name(struct process *process, bool own, const char *name, const char *port,
			 struct addrinfo **addresses);

/* Return the transport of a port: "InfiniBand", "RoCE" or "iWARP". The string is static. */
const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port);

/*
 * Call rdma_resolve_addr(3) once, from `source`, or from any address if that is NULL. Return 0, or
 * -1 with errno. ETIME means that too little time is left before `deadline` (now_milliseconds()).
 *
 * The first packets to a new neighbor may be lost, so an attempt is short. If the event reports
 * ETIMEDOUT, the caller must call this again.
 */
int resolve_address(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		    int64_t deadline);

/*
 * Return true if a call failed with `error` because every local port is in use: then binding to the
 * wildcard address, without a port, fails too.
 */
bool no_port_is_free(int error);

/*
 * Return advice for an address that is not resolved from `source`, because of the errno value
 * `error`. If `source` is NULL, the kernel chooses the source.
 */
struct strbuf address_advice(int error, const struct sockaddr *source,
			     const struct sockaddr *address);

/* Return advice for an address whose route is not resolved. The string is static. Any thread. */
const char *route_advice(const struct sockaddr *address);

/*
 * Apply --tos, if given, to `id` (rdma_set_option(3)). Call this before `id` is resolved, listens
 * or is accepted. Return 0, or -1 with errno.
 */
int set_type_of_service(struct rdma_cm_id *id, const struct options *options);

/*
 * Return the type of service of a connection. Return -1 if the path is not known yet, and over
 * iWARP, where the driver chooses it. Over RoCE the client's value applies to both directions,
 * because Linux accepts with the path of the connect request.
 */
int type_of_service(const struct rdma_cm_id *id);

/*
 * Fold a flow label of 20 bits to the UDP source port of RoCE v2, as Linux does
 * (rdma_flow_label_to_udp_sport()). For label 0 the driver chooses a port.
 */
unsigned int udp_source_port(uint32_t flow_label);

/*
 * Return the source port by which switches distinguish connections between the same addresses. It
 * is the UDP port over RoCE v2, and the TCP port over iWARP. It is 0 if unknown, for example before
 * the route is resolved.
 *
 * rdma_cm derives the flow label from its two ports. rxe (since Linux 5.18), mlx5, irdma and hns
 * derive the UDP port from the label, mlx4 does not.
 */
unsigned int source_port(struct rdma_cm_id *id);

/* Describe a source port: "source port N", or for 0 "source port not known". */
struct strbuf source_port_describe(unsigned int port);

/* Convert an MTU of verbs to bytes. An invalid MTU becomes 0. */
unsigned int mtu_bytes(enum ibv_mtu mtu);

/* Return the MTU of a connection's path in bytes, or 0 if it is unknown, as over iWARP. */
unsigned int path_mtu(const struct rdma_cm_id *id);

/*
 * Store in `used` the GID table entry that the connection would use. Its address must be resolved.
 * An adapter has an entry for each RoCE version. The connection manager prefers version 2, unless
 * default_roce_mode in configfs was changed. Return false if there is no entry, or the port cannot
 * be queried.
 */
bool find_gid(struct rdma_cm_id *id, struct ibv_gid_entry *used);

/*
 * Like find_gid(), but search port `number` of the device `verbs`. `id` must be bound to an
 * address, and may have no device yet.
 */
bool find_gid_of_port(struct rdma_cm_id *id, struct ibv_context *verbs, uint8_t number,
		      struct ibv_gid_entry *used);

/*
 * Query the limits of the device of `id`, and reduce them as `options` demands. If `one_way` is
 * true, only the client operates. The result is usable even if a driver reports 0 or nonsense. Fail
 * if a query fails, or if the session needs READs and librdmacm accepts none for this device.
 */
enum status query_limits(const struct rdma_cm_id *id, const struct options *options, bool one_way,
			 struct limits *limits, struct failure *failure);

/*
 * Fail, after a message, if no device can have queue pairs and completion queues for that many
 * connections. Other programs may use some of them, so success promises nothing.
 */
enum status check_connections(struct process *process, unsigned int connections);

/*
 * Let each soft-iWARP device of the process, at most MAX_RESERVED, have any number of sessions at a
 * time. Call this before the first session.
 *
 * libsiw takes the offset 0x90000 for an error (SIW_INVAL_UOBJ_KEY), although it is a valid offset
 * for mmap(2) of a queue. The kernel gives each queue the lowest free pages. When the queues of 36
 * sessions fill the 144 pages below this offset, no queue can be created any more. So create a
 * completion queue that begins below the offset and ends above it: no other queue can then begin at
 * the offset. process_close() destroys the completion queue.
 */
void reserve_siw_offset(struct process *process);

/*
 * Create the queue pair of `id` on `pd` and `cq`, with `context`, and set limits->inline_size.
 * Reduce limits->depth if the device does not accept it. Return 0, or -1 with errno.
 */
int create_queue_pair(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, void *context,
		      struct limits *limits);

/* Advice for messages: how to raise RLIMIT_MEMLOCK. */
#define RAISE_LOCK_LIMIT                                                                        \
	"('ulimit -l', memlock in /etc/security/limits.conf, LimitMEMLOCK= of a systemd unit, " \
	"'--ulimit memlock=-1' of a container, PropagateResourceLimitsExcept=MEMLOCK of Slurm)"

/*
 * Describe in `failure` why `call` failed with errno. `queue` is true if the call creates a queue,
 * whose memory may count against the locked-memory limit.
 */
enum status creation_failed(struct failure *failure, const char *call, bool queue);

/*
 * Describe in `failure` why ibv_reg_mr(3) of `size` bytes failed with errno. Before, this process
 * had registered `registered` bytes, in whole pages.
 */
enum status registration_failed(size_t size, uint64_t registered, struct failure *failure);

/* Decode the peer's hello from a connect request, its acceptance or its rejection. */
struct peer_hello decode_peer_hello(const struct cm_event *event);

/* Return why a side with these options and payload length refuses the peer, or REFUSAL_NONE. */
enum refusal hello_refusal(const struct options *options, uint64_t outgoing_length,
			   const struct peer_hello *peer);

/* Return a text for a refusal, for either side. The string is static. */
const char *refusal_describe(enum refusal refusal);

/*
 * Fill in the terms from the peer's hello, and reduce the limits to those of the peer. A server has
 * the hello from the connect request, a client from the acceptance. In a server, call this only if
 * hello_refusal() returns REFUSAL_NONE.
 */
enum status negotiate(struct terms *terms, const struct peer_hello *peer,
		      const struct cm_event *event, struct failure *failure);

/* Describe in `failure` why the event reports that the connection was not established. */
enum status explain_not_established(const struct cm_event *event, struct failure *failure);

/*
 * Return the parameters of a connect request or its acceptance. Encode `hello` into `wire`, which
 * must live as long as the parameters.
 */
struct rdma_conn_param connect_parameters(const struct limits *limits, const struct hello *hello,
					  uint8_t wire[HELLO_SIZE]);

/* Reject a connect request, with the reason in a hello. Return 0, or -1 with errno. */
int reject_request(struct rdma_cm_id *id, const struct options *options, enum refusal refusal);

/*
 * Return true if a setup call may have failed with `error` because the peer has withdrawn.
 *
 * Over InfiniBand and RoCE, EINVAL may also mean that a driver cannot execute the call.
 * rdma_reject(3) distinguishes the two: it fails if the peer has withdrawn.
 *
 * Over iWARP a failed rdma_accept(3) has ended the request, so rdma_reject(3) fails in both cases.
 * Drivers return the error of the client's TCP connection.
 */
bool may_mean_withdrawn(int error, bool iwarp);

/*
 * Describe in `failure` why rdma_accept(3) failed with `error`. For EINVAL name the MTUs, because
 * they are a possible cause. Any thread.
 */
enum status accept_failed(const struct rdma_cm_id *id, const struct limits *limits,
			  const struct hello *client, int error, struct failure *failure);

/* Return why a server rejected the client, or REFUSAL_NONE if it gave no reason. */
enum refusal refusal_of(const struct peer_hello *server);

/*
 * Describe in `failure` why a server rejected the client with the event's `status`. Return true if
 * the server is an rdma-server.
 */
bool explain_rejection(const struct peer_hello *server, int status, struct failure *failure);

#endif
