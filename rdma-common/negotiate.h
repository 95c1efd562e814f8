/* SPDX-License-Identifier: MIT */
/*
 * Connection establishment: the limits of the device, the queues, hellos and negotiation, and a
 * rejection.
 *
 * Threads: the main thread. The exception is accept_failed(), which the connection's thread calls.
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
 * A peer sends three messages in a session, and TRANSFER_CREDITS windows at most that are not
 * confirmed. Over iWARP a message without a receive ends the connection.
 */
#define RECEIVES (3 + TRANSFER_CREDITS)
/* Pages of locked memory that a session needs: for its messages, and for each ring one at least. */
#define SESSION_PAGES 3
/* In the send queue besides the operation: one message of each type, and a probe. */
#define MESSAGE_REQUESTS (MESSAGE_TYPES + 1)

/* Resources that one connection may use: of the device, and once negotiated of the peer. */
struct limits {
	const char *transport;    /* as transport_name() has it */
	bool iwarp;               /* which needs some things done differently */
	uint32_t maximum_message; /* bytes, of the port */
	enum ibv_mtu mtu;         /* of the port; 0: the driver does not say */
	uint64_t request_size;    /* bytes that one work request of the operation carries at most */
	unsigned int depth;       /* work requests of the operation that are outstanding at most */
	unsigned int inline_size; /* bytes that a work request may carry in itself */
	uint8_t responder_resources; /* outstanding READs of the peer that are served at most */
	uint8_t initiator_depth;     /* outstanding READs of this side at most */
};

/* The requests of a --check client to the server in one session; all zero in any other session. */
struct session_parameters {
	bool short_reply;             /* the server sends one byte */
	bool measured;                /* a rate or a latency is measured: HELLO_CHECK_RATE */
	unsigned int reverse_seconds; /* the server sends for this time; 0: once */
};

/* The peer's hello, from the private data of a connection manager event. */
struct peer_hello {
	enum hello_kind hello_kind;
	struct hello hello; /* meaningful with HELLO_CURRENT; `version` with HELLO_OTHER_VERSION */
};

/* The result of the negotiation: what both sides do in this session. */
struct agreement {
	bool verifying;           /* digests and verdicts are exchanged: the peer has a hello */
	struct hello peer;        /* that; else what a program without one does */
	uint64_t incoming_length; /* bytes of payload that the peer sends; 0: none; or
				     LENGTH_UNKNOWN */
	uint64_t wanted_length; /* server: bytes of pattern that --check asks for; 0: it does not */
};

/* An address and its port, as numbers. */
struct endpoint {
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE];   /* which may have a scope */
	char port[8];                                   /* empty: neither is known */
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16]; /* both, for messages */
};
struct endpoint endpoint_of(const struct sockaddr *address);

/*
 * getaddrinfo(3) of addresses to connect to, from or to listen on, each of them once: 0, or its
 * error, and no addresses. Any thread.
 */
int look_up_name(const char *name, const char *port, struct addrinfo **addresses);

/*
 * The first of the addresses of --bind (NULL: any) that is of the family of the one to connect to;
 * NULL: there is none. Any thread.
 */
struct sockaddr *choose_source(const struct addrinfo *sources, const struct addrinfo *address);

/*
 * Why getaddrinfo(3) or getnameinfo(3) returned `error`, in words: gai_strerror(3), or what errno
 * says where that is the reason (EAI_SYSTEM). To be asked before errno changes. Any thread.
 */
const char *lookup_error(int error);

/*
 * Resolves `name`, for messages `what`, and `port` (NULL: none) to `addresses`, which are to be
 * freed (freeaddrinfo(3)), or NULL. Without a name: the wildcards of IPv4 and IPv6. On failure a
 * message has been printed and recorded.
 */
enum status resolve_name(struct process *process, const char *what, const char *name,
			 const char *port, struct addrinfo **addresses);

/* The transport of a port of a device: "InfiniBand", "RoCE" or "iWARP". The string is static. */
const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port);

/*
 * Calls rdma_resolve_addr(3) once, from address `source` (NULL: from any). The first packets to a
 * new neighbour may be lost, so an attempt is short, and whoever calls this does so again when it
 * ends with ETIMEDOUT, until `deadline` (as now_milliseconds() counts). 0, or -1 with errno: ETIME
 * when what is left is less than a neighbour takes to answer.
 */
int resolve_address(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		    int64_t deadline);

/*
 * Return what to do where a loopback address, or the route to it, is not resolved; NULL: `address`
 * is none. Without --bind Linux 6.1 resolves none of them, even if 'lo' has an RDMA device: over
 * RoCE the route fails with ENODEV, over iWARP the address with EINVAL. Static. Any thread.
 */
const char *loopback_advice(const struct sockaddr *address);

/*
 * Sets the type of service of --tos, if it was given, before an id is resolved, listens or is
 * accepted (rdma_set_option(3)). 0 or -1 with errno.
 */
int set_type_of_service(struct rdma_cm_id *id, const struct options *options);

/*
 * The type of service of a connection whose path is known; -1: not known, since iWARP leaves it to
 * the driver, and soft-iWARP does without. Over RoCE the client's counts for both directions: its
 * connect request carries the path, and Linux accepts with that, whatever the server has set.
 */
int type_of_service(const struct rdma_cm_id *id);

/*
 * The UDP source port over RoCE v2 that goes with a flow label of 20 bits: how Linux folds that
 * (rdma_flow_label_to_udp_sport() in its ib_verbs.h). Of the label 0 a driver makes one of its own.
 */
unsigned int udp_source_port(uint32_t flow_label);

/*
 * The source port by which switches tell this connection's packets from others' with the same
 * addresses, once the route is resolved: over RoCE v2 of UDP, over iWARP of TCP. 0: not known.
 * rdma_cm makes the flow label of its own two ports, and the driver makes the UDP port of that: so
 * rxe (since Linux 5.18), mlx5, irdma, hns; not mlx4.
 */
unsigned int source_port(struct rdma_cm_id *id);

/* Converts an MTU of verbs to bytes. 0: it is none. */
unsigned int mtu_bytes(enum ibv_mtu mtu);

/* The MTU of a connection's path in bytes, once that is known; 0: not known, as over iWARP. */
unsigned int path_mtu(const struct rdma_cm_id *id);

/*
 * Finds the entry of the port's table of GIDs that the connection would use, once its address is
 * resolved. An adapter has one for each version of RoCE, and the connection manager takes version 2
 * where there is one; an administrator can change that (default_roce_mode in configfs). False:
 * there is none.
 */
bool find_gid(struct rdma_cm_id *id, struct ibv_gid_entry *used);

/*
 * Asks the device of `id` for its limits, within those of `options`. A driver may leave any of them
 * 0, or fill in nonsense: what is stored can be used all the same. Fails if the session needs
 * READs, and librdmacm accepts none for this device. `one_way`: the client alone operates.
 */
enum status query_limits(const struct rdma_cm_id *id, const struct options *options, bool one_way,
			 struct limits *limits, struct failure *failure);

/*
 * Creates the queue pair of `id` on `pd` and `cq`, with `context`, and sets limits->inline_size. If
 * the device takes none of limits->depth, that is reduced to what it takes. 0, or -1 with errno.
 */
int create_queue_pair(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, void *context,
		      struct limits *limits);

/* How to raise RLIMIT_MEMLOCK, for messages. */
#define RAISE_LOCK_LIMIT "('ulimit -l', or memlock in /etc/security/limits.conf)"

/*
 * Return what an error of ibv_reg_mr(3), or of a call that creates an object of the device, means;
 * NULL: no more than strerror(3) says. The rdma cgroup answers EAGAIN for every object
 * (rdmacg_try_charge() in the kernel), and so does mlx5 that has no more
 * (MLX5_CMD_STAT_NO_RES_ERR).
 */
const char *shortage_advice(int error);

/* Fill in why `call`, which creates an object of the device, a queue or another one, set errno. */
enum status creation_failed(struct failure *failure, const char *call, bool queue);

/*
 * Fill in why ibv_reg_mr(3) of `size` bytes set errno, and what helps. `registered` is what this
 * process has registered already, in whole pages.
 */
enum status registration_failed(size_t size, uint64_t registered, struct failure *failure);

/* The peer's hello in the private data of a connect request, its acceptance or its rejection. */
struct peer_hello decode_peer_hello(const struct cm_event *event);

/* Why a side with these options and so long a payload refuses a peer, if it does. */
enum refusal hello_refusal(const struct options *options, uint64_t outgoing_length,
			   const struct peer_hello *peer);

/* A refusal in words, for either side. The string is static. */
const char *refusal_describe(enum refusal refusal);

/*
 * Negotiates: compares both hellos, once the connect request (server) or its acceptance (client) is
 * here: fills in `agreement`, and reduces `limits` to what the peer supports. `outgoing_length` is
 * that of this side's payload. `parameters` are those in the hello of this side.
 */
enum status negotiate(const struct options *options, const struct session_parameters *parameters,
		      const struct cm_event *event, bool one_way, uint64_t outgoing_length,
		      struct limits *limits, struct agreement *agreement, struct failure *failure);

/*
 * The parameters with which a connection is requested or accepted. Encodes `hello` into `wire`,
 * which must live as long as they.
 */
struct rdma_conn_param connect_parameters(const struct limits *limits, const struct hello *hello,
					  uint8_t wire[HELLO_SIZE]);

/* Rejects a connect request, with a hello that says why. 0 or -1 with errno. */
int reject_request(struct rdma_cm_id *id, const struct options *options, enum refusal refusal);

/*
 * Return true if a call that sets up a connection may have failed with `error` because the peer has
 * withdrawn. Over InfiniBand and RoCE the kernel then answers EINVAL, as it does where a driver
 * cannot carry the call out: only rdma_reject(3), which succeeds unless the peer has withdrawn,
 * distinguishes the two. Over iWARP a failed rdma_accept(3) ends the request, but drivers report a
 * client that has left by the errno of its TCP connection.
 */
bool means_withdrawn(int error, bool iwarp);

/* Fill in why rdma_accept(3) failed on this host with `error`, with the MTUs that may be why. */
enum status accept_failed(const struct rdma_cm_id *id, const struct limits *limits,
			  const struct hello *client, int error, struct failure *failure);

/* Why a server rejected the client, as it said; REFUSAL_NONE: it did not say. */
enum refusal rejection_reason(const struct peer_hello *server);

/*
 * Fills in why a server rejected the client, by what it said and by the status of the event; true
 * if it is a server of this project's.
 */
bool explain_rejection(const struct peer_hello *server, int status, struct failure *failure);

#endif
