/* SPDX-License-Identifier: MIT */
/*
 * Facts about this host, and about the path to an address, that show why no connection is
 * established. They need no privilege. The text of an unknown fact is empty.
 *
 * Threads: the main thread. Only evidence_try_send() and evidence_try_udp() send packets.
 */
#ifndef RDMA_COMMON_EVIDENCE_H
#define RDMA_COMMON_EVIDENCE_H

#include <sys/socket.h>

#include "host.h"

/*
 * All facts. Rules, texts and --json use these names. The answer to a connect request is the number
 * of a rejection reason, "refused" (over iWARP), "answered", "silent" or "failed".
 */
#define FACTS(X)                                                                                   \
	X(address)          /* the address of --check */                                           \
	X(port)             /* PORT, or without it the unused port */                              \
	X(source)           /* address of this host that the route uses */                         \
	X(transport)        /* "roce", "iwarp" or "infiniband" */                                  \
	X(roce_version)     /* "1" or "2": version of the GID that a connection uses */            \
	X(device)           /* RDMA device of `source`, or of the route, or the first one */       \
	X(software)         /* "yes" or "no": the device is software */                            \
	X(error)            /* errno name of the call that failed on this host */                  \
	X(memory)           /* "failed": the memory of a session cannot be registered */           \
	X(unusable)         /* why no port can be used: "unreliable", "down", "unreached" */       \
	X(drivers)          /* "some" or "none": devices that libibverbs has a driver for */       \
	X(kernel_device)    /* the first device in sysfs, or "none" */                             \
	X(file)             /* a file in /dev/infiniband that this process cannot open */          \
	X(file_error)       /* errno name of opening it */                                         \
	X(file_owner)       /* device of this file, or "the connection manager" */                 \
	X(node_guid)        /* "0": librdmacm cannot find the device (guid.h) */                   \
	X(gids)             /* "none": all GIDs of an active RoCE port of the device are empty */  \
	X(gid_here)         /* "yes" or "no": an address of this namespace leads to a device */    \
	X(mode)             /* "exclusive": each device belongs to one namespace */                \
	X(first_namespace)  /* "yes" or "no": this is the first network namespace */               \
	X(device_interface) /* network interface of the device */                                  \
	X(bond_devices)     /* two devices whose interfaces are members of route_interface */      \
	X(roce_socket)      /* "yes" or "no": a socket of this namespace has UDP port 4791 */      \
	X(interface_here)   /* "yes" or "no": a device has an interface in this namespace */       \
	X(cgroup)           /* cgroup of this process that leaves too little for a session */      \
	X(cgroup_limit)     /* the limits of the device in its rdma.max */                         \
	X(cgroup_use)       /* the use of the device in its rdma.current */                        \
	X(route)            /* "found", or the errno name of the kernel's answer */                \
	X(route_interface)  /* network interface of the route */                                   \
	X(route_kind)       /* "ethernet", "infiniband", "loopback", or a kind such as "veth" */   \
	X(route_driver)     /* driver of route_interface */                                        \
	X(own_address)      /* "yes" or "no": the address is one of this host's */                 \
	X(vrf)              /* a VRF of this host */                                               \
	X(gid_interface)    /* interface of an RDMA device that has `source`, or "none" */         \
	X(gid_kind)         /* kind of gid_interface, such as "vlan", or "plain" */                \
	X(gid_device)       /* another device, on the network interface gid_interface */           \
	X(next_hop)         /* gateway of the route, or the address */                             \
	X(neighbour)        /* next hop's hardware address: "resolved", "unconfirmed", "failed" */ \
	X(send_error)       /* errno name of a failed sendto(2) to UDP port 4791 */                \
	X(request)          /* answer to the connect request */                                    \
	X(reason)           /* name of the rejection reason in `request`, or "unknown" */          \
	X(again)            /* answer to a later connect request to the same port */               \
	X(control)          /* answer to a connect request to an unused port */                    \
	X(control_port)     /* the unused port */                                                  \
	X(plain)            /* answer to a connect request to an unused port, without --tos */     \
	X(tos)              /* type of service of --tos, or 0 */                                   \
	X(udp_roce)         /* answer for UDP port 4791: icmp_answer(), "silent", errno name */    \
	X(udp_other)        /* answer for an unused UDP port, like udp_roce */                     \
	X(udp_from)         /* address that sent the first ICMP answer to either UDP port */       \
	X(listeners)        /* programs of this host that listen, or "none" */                     \
	X(stopped)          /* process ID of a stopped listener */                                 \
	X(requests_received) /* connect requests that this host's devices received */              \
	X(requests_answered) /* replies and rejections, at most requests_received */               \
	X(same_subnet)       /* another interface whose IPv4 subnet contains the source */

enum fact {
#define NAME(name) FACT_##name,
	FACTS(NAME)
#undef NAME
	FACT_COUNT
};

struct evidence {
	char facts[FACT_COUNT][512];
};

/* Return the name of a fact, a static string. */
const char *evidence_name(enum fact fact);

/* Return true if `text` is the text of the fact. */
bool evidence_is(const struct evidence *evidence, enum fact fact, const char *text);

/* Set a fact to a text, cut to 511 bytes, or to a number. */
void evidence_set(struct evidence *evidence, enum fact fact, const char *text);
void evidence_set_number(struct evidence *evidence, enum fact fact, uint64_t number);

/*
 * Set a fact to the name of an errno value, for example EPERM, or to its number, for example "errno
 * 71". Leave it unchanged if `error` is 0. (Not every libc has strerrorname_np(3).)
 */
void evidence_set_error(struct evidence *evidence, enum fact fact, int error);

/*
 * Add a program to FACT_listeners, unless it is listed already. If it does not fit, add an
 * ellipsis.
 */
void evidence_add_listener(struct evidence *evidence, const char *entry);

/*
 * Find the cgroup of this process that leaves the fewest RDMA objects of FACT_device. If these are
 * too few for a session, set FACT_cgroup, FACT_cgroup_limit and FACT_cgroup_use. `root` is "",
 * except in tests.
 */
void evidence_find_cgroup(struct evidence *evidence, const char *root);

/* Addresses and type of service of a connection. */
struct flow {
	const struct sockaddr *address;
	struct sockaddr *source; /* or NULL for any */
	unsigned int tos;
};

/*
 * Send one UDP datagram to port 4791 without waiting for an answer. If sendto(2) fails, set the
 * fact send_error and return false: the kernel would also drop a connect request, and the call that
 * withdraws the request would never return.
 */
bool evidence_try_send(struct evidence *evidence, const struct flow *flow);

/*
 * Find facts about this host and, if flow->address is set, about the route. `view` has this host's
 * addresses that lead to a device, or is NULL if they are not known.
 */
void evidence_collect(struct evidence *evidence, const struct host_view *view,
		      const struct flow *flow);

/*
 * Send datagrams to UDP port 4791 of the address and to an unused port, and keep the answers as
 * facts. This takes at most 1.6 s.
 */
void evidence_try_udp(struct evidence *evidence, const struct flow *flow);

/* Find facts for the user of the other host (reach_report_listeners()), and the route. */
void evidence_collect_listeners(struct evidence *evidence, const struct flow *flow);

#endif
