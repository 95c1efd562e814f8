/* SPDX-License-Identifier: MIT */
/*
 * Facts about this host and about the path to an address, which show why no connection stands. No
 * fact needs a privilege. A fact that cannot be found out stays empty.
 *
 * Threads: the main thread. Only evidence_send() and evidence_probe() send packets.
 */
#ifndef RDMA_COMMON_EVIDENCE_H
#define RDMA_COMMON_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "host.h"

/* Each fact, and what it says. Rules, texts and the objects of --json use these names. */
#define FACTS(X)                                                                              \
	X(address)           /* the address of --check */                                     \
	X(port)              /* PORT; empty: none was given */                                \
	X(source)            /* the address of this host that leads there */                  \
	X(transport)         /* "roce", "iwarp" or "infiniband" */                            \
	X(device)            /* RDMA device of the source, else the first one */              \
	X(software)          /* "yes": the device is software; "no" */                        \
	X(error)             /* errno name of the call that failed on this host */            \
	X(devices)           /* "none": librdmacm has no device; "some" */                    \
	X(drivers)           /* "none": libibverbs has a driver for no device; "some" */      \
	X(kernel_device)     /* first device in sysfs; "none" */                              \
	X(mode)              /* "exclusive": a device belongs to one namespace */             \
	X(first_namespace)   /* "yes": this is the first network namespace; "no" */           \
	X(device_interface)  /* network interface below a software device */                  \
	X(interface_here)    /* "no": no device has an interface in this namespace */         \
	X(cgroup)            /* cgroup with a limit in rdma.max */                            \
	X(cgroup_limit)      /* this limit, as rdma.max has it */                             \
	X(cgroup_use)        /* rdma.current of the same cgroup */                            \
	X(route)             /* "found", or the errno name of the kernel's answer */          \
	X(route_interface)   /* network interface of the route */                             \
	X(route_kind)        /* "ethernet", "infiniband", "loopback", else its kind */        \
	X(own_address)       /* "yes": the address is one of this host's; "no" */             \
	X(vrf)               /* a VRF of this host */                                         \
	X(gid_interface)     /* network interface of the source's GID; "none" */              \
	X(gid_kind)          /* its kind: "vlan", "bridge"; "plain": none */                  \
	X(gid_is_below)      /* "yes": a software device is on this interface itself */       \
	X(next_hop)          /* gateway, or the address */                                    \
	X(neighbour)         /* "resolved" or "failed": the next hop's hardware address */    \
	X(send_error)        /* errno name of a failed sendto(2) to UDP port 4791 */          \
	X(request)           /* answer to the connect request: a rejection reason, */         \
	X(control)           /* "refused" or "silent"; the same on an unused port; */         \
	X(control_port)      /* this port; */                                                 \
	X(plain)             /* and the same without --tos */                                 \
	X(tos)               /* type of service of --tos */                                   \
	X(udp_roce)          /* answer to UDP port 4791: "refused", "prohibited", "silent" */ \
	X(udp_from)          /* address of the host that sent this answer */                  \
	X(udp_other)         /* answer to an unused UDP port */                               \
	X(listeners)         /* programs of this host that listen; "none" */                  \
	X(stopped)           /* one that is stopped, its process */                           \
	X(requests_received) /* connect requests that this host's devices have received */    \
	X(requests_answered) /* those that were answered */                                   \
	X(same_subnet)       /* other interfaces with an address in the source's subnet */

enum fact {
#define NAME(name) FACT_##name,
	FACTS(NAME)
#undef NAME
	FACT_COUNT
};

struct evidence {
	char facts[FACT_COUNT][128];
};

/* Return the name of a fact; static. */
const char *evidence_name(enum fact fact);

/* Set a fact to formatted text (printf(3)). */
void evidence_set(struct evidence *evidence, enum fact fact, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Return the text of a fact; empty: it is not known. */
const char *evidence_get(const struct evidence *evidence, enum fact fact);

/* Set a fact to the name of an errno value; leave it alone for 0. */
void evidence_set_error(struct evidence *evidence, enum fact fact, int error);

/*
 * Send one UDP datagram to port 4791 of `address` from `source` (NULL: any) with the type of
 * service `tos`, and do not wait for an answer. Return 0, or the errno value of sendto(2). A kernel
 * that drops the datagram of this program would also drop a connect request, and then never ends
 * the call that withdraws it.
 */
int evidence_send(const struct sockaddr *address, const struct sockaddr *source, int tos);

/*
 * Find facts about this host, and about the route to `address` (NULL: none) from `source` (NULL:
 * any). `view`: the addresses of this host that lead to a device; NULL: they are not known.
 */
void evidence_collect(struct evidence *evidence, const struct host_view *view,
		      const struct sockaddr *address, const struct sockaddr *source);

/*
 * Find out how `address` answers UDP port 4791 and an unused port, and whether the next
 * hop has a hardware address. Takes 1.6 s if nothing answers.
 */
void evidence_probe(struct evidence *evidence, const struct sockaddr *address,
		    const struct sockaddr *source);

/* Find facts for the check on the other host: listeners here, and requests that have arrived. */
void evidence_collect_listeners(struct evidence *evidence);

#endif
