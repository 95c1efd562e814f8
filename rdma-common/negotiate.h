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
 * Number of posted receives: a peer sends three messages in a session, and at most TRANSFER_CREDITS
 * unconfirmed MSG_WINDOWs. Over iWARP a message without a receive ends the connection.
 */
#define RECEIVES (3 + TRANSFER_CREDITS)
/* Minimum pages of locked memory in a session: one for messages, one for each ring. */
#define SESSION_PAGES 3
/* Number of send queue entries besides the operation's: a message of each type, and a keepalive. */
#define MESSAGE_REQUESTS (MESSAGE_TYPES + 1)

/* Limits of one connection: those of the device and, after the negotiation, of the peer. */
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
	struct hello hello; /* valid with HELLO_CURRENT; only `version` with HELLO_OTHER_VERSION */
};

/* The terms of a connection: first this side's, then those that negotiate() fills in. */
struct terms {
	const struct options *options;
	bool one_way;             /* only the client operates (--one-way) */
	uint64_t outgoing_length; /* bytes of this side's payload, or LENGTH_UNKNOWN */
	struct limits limits;     /* from query_limits() */

	/* From negotiate(): */
	bool verifying;    /* digests and verdicts are exchanged, because the peer has a hello */
	struct hello peer; /* without a hello: values for the tutorial's program */
	/* Bytes of the peer's payload, or LENGTH_UNKNOWN. 0 if the peer sends none. */
	uint64_t incoming_length;
};

/* An event that reports a failed establishment. */
struct cm_failure {
	enum rdma_cm_event_type type;
	int status, library_error;
};

/* An address and a port in numeric form. */
struct endpoint {
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE];   /* with the scope ID, if any */
	char port[8];                                   /* empty: address and port are unknown */
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16]; /* address and port, for messages */
};
struct endpoint endpoint_of(const struct sockaddr *address);

/*
 * Look up the addresses of `name` (getaddrinfo(3)), without duplicates; the caller frees them
 * (freeaddrinfo(3)). Return 0, or the error of getaddrinfo(3) and no addresses. Any thread.
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
 * Resolve `name` (NULL: the wildcards of IPv4 and IPv6) and `port` (NULL: none) to `addresses`,
 * which the caller frees (freeaddrinfo(3)). `own`: the name is that of --bind, else the server's.
 * On failure print and record a message, and set `*addresses` to NULL.
 */
enum status resolve_name(struct process *process, bool own, const char *name, const char *port,
			 struct addrinfo **addresses);

/* Return the transport of a port: "InfiniBand", "RoCE" or "iWARP". The string is static. */
const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port);

/*
 * Call rdma_resolve_addr(3) once, from `source` (NULL: any). The first packets to a new neighbor
 * may be lost, so an attempt is short: repeat it after ETIMEDOUT until `deadline`
 * (now_milliseconds()). Return 0, or -1 with errno; ETIME: too little time is left.
 */
int resolve_address(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		    int64_t deadline);

/*
 * Return true if a call failed with `error` because every local port is in use: even the wildcard
 * address gets no port then.
 */
bool no_port_is_free(int error);

/*
 * Return advice for an address that is not resolved from `source`, because of the errno value
 * `error`. If `source` is NULL, the kernel chooses the source.
 */
struct strbuf address_advice(int error, const struct sockaddr *source,
			     const struct sockaddr *address);

/* Return advice for an address without a route, a static string. Any thread. */
const char *route_advice(const struct sockaddr *address);

/*
 * Apply --tos, if given, to `id` (rdma_set_option(3)). Call this before `id` is resolved, listens
 * or is accepted. Return 0, or -1 with errno.
 */
int set_type_of_service(struct rdma_cm_id *id, const struct options *options);

/*
 * Return the type of service of a connection whose path is known. Return -1 over iWARP, which
 * leaves it to the driver. Over RoCE the client's value applies to both directions: Linux accepts
 * with the path of the connect request, whatever the server has set.
 */
int type_of_service(const struct rdma_cm_id *id);

/*
 * Return the UDP source port over RoCE v2 for a flow label of 20 bits, as Linux folds it
 * (rdma_flow_label_to_udp_sport()). For label 0 the driver chooses a port.
 */
unsigned int udp_source_port(uint32_t flow_label);

/*
 * Return the source port by which switches distinguish connections between the same addresses, once
 * the route is resolved: the UDP port over RoCE v2, the TCP port over iWARP, or 0 if it is unknown.
 * rdma_cm derives the flow label from its two ports. rxe (since Linux 5.18), mlx5, irdma and hns
 * derive the UDP port from the label, mlx4 does not.
 */
unsigned int source_port(struct rdma_cm_id *id);

/* Return "source port N", or that the port is not known (0). */
struct strbuf source_port_describe(unsigned int port);

/* Convert an MTU of verbs to bytes. An invalid MTU becomes 0. */
unsigned int mtu_bytes(enum ibv_mtu mtu);

/* Return the MTU of a connection's path in bytes, or 0 if it is unknown, as over iWARP. */
unsigned int path_mtu(const struct rdma_cm_id *id);

/*
 * Store in `used` the GID table entry that the connection would use, once its address is resolved.
 * An adapter has an entry for each RoCE version; the connection manager prefers version 2, unless
 * default_roce_mode in configfs was changed. Return false if there is no entry, or the port cannot
 * be queried.
 */
bool find_gid(struct rdma_cm_id *id, struct ibv_gid_entry *used);

/* Search a port of any device for the GID of the address that `id` is bound to, as find_gid() does.
 */
bool find_gid_of_port(struct rdma_cm_id *id, struct ibv_context *verbs, uint8_t number,
		      struct ibv_gid_entry *used);

/*
 * Query the limits of the device of `id`, and reduce them as `options` demands. The result is
 * usable even if a driver reports 0 or nonsense. Fail if a query fails, or the session needs READs
 * and librdmacm accepts none for this device. `one_way`: only the client operates.
 */
enum status query_limits(const struct rdma_cm_id *id, const struct options *options, bool one_way,
			 struct limits *limits, struct failure *failure);

/*
 * Fail, after a message, if no device can have queue pairs and completion queues for as many
 * connections. Other programs may use some of them, so success promises nothing.
 */
enum status check_connections(struct process *process, unsigned int connections);

/*
 * Let each soft-iWARP device of the process have any number of sessions at a time. Call this before
 * the first session. libsiw takes the offset 0x90000 for an error (SIW_INVAL_UOBJ_KEY), although it
 * is a valid offset for mmap(2) of a queue. The kernel gives each queue the lowest pages that are
 * free, so when the queues of 36 sessions fill the 144 pages below this offset, no queue can be
 * created any more. A completion queue that begins below the offset and ends above it keeps every
 * other queue from this offset. process_close() destroys it.
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
 * Describe in `failure` why `call` failed with errno. `queue`: the call creates a queue, whose
 * memory may count against the locked-memory limit.
 */
enum status creation_failed(struct failure *failure, const char *call, bool queue);

/*
 * Describe in `failure` why ibv_reg_mr(3) of `size` bytes failed with errno. `registered`: bytes
 * that this process has registered already, in whole pages.
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
 * Agree with the hello of a connect request (server) or its acceptance (client): fill in the terms,
 * and reduce the limits to those of the peer. In a server, call this only if
 * hello_refusal() returns REFUSAL_NONE.
 */
enum status negotiate(struct terms *terms, const struct peer_hello *peer,
		      const struct cm_event *event, struct failure *failure);

/* Describe in `failure` why the connection was not established. Any thread. */
enum status not_established(const struct cm_failure *event, struct failure *failure);

/*
 * Return the parameters of a connect request or its acceptance. Encode `hello` into `wire`, which
 * must live as long as the parameters.
 */
struct rdma_conn_param connect_parameters(const struct limits *limits, const struct hello *hello,
					  uint8_t wire[HELLO_SIZE]);

/* Reject a connect request, with the reason in a hello. Return 0, or -1 with errno. */
int reject_request(struct rdma_cm_id *id, const struct options *options, enum refusal refusal);

/*
 * Return true if a setup call may have failed with `error` because the peer has withdrawn. Over
 * InfiniBand and RoCE, EINVAL may also mean that a driver cannot execute the call; rdma_reject(3)
 * shows which: it succeeds unless the peer has withdrawn. Over iWARP a failed rdma_accept(3) has
 * ended the request, so rdma_reject(3) shows nothing, but drivers return the error of the client's
 * TCP connection.
 */
bool means_withdrawn(int error, bool iwarp);

/*
 * Describe in `failure` why rdma_accept(3) failed with `error`; for EINVAL, name the MTUs, a
 * possible cause. Any thread.
 */
enum status accept_failed(const struct rdma_cm_id *id, const struct limits *limits,
			  const struct hello *client, int error, struct failure *failure);

/* Return why a server rejected the client; REFUSAL_NONE: it gave no reason. */
enum refusal rejection_reason(const struct peer_hello *server);

/* Describe in `failure` why a server rejected the client. Return true if it is an rdma-server. */
bool explain_rejection(const struct peer_hello *server, int status, struct failure *failure);

#endif
