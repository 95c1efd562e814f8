/* SPDX-License-Identifier: MIT */
/*
 * Find the path to the ADDRESS of --check: look up the name, find the device and the GID that lead
 * to one of its addresses, and resolve the route.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_ADDRESS_H
#define RDMA_COMMON_ADDRESS_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "../options.h"
#include "device.h"
#include "evidence.h"

struct path {
	const struct options *options;
	struct findings *findings;
	struct devices *devices;
	struct evidence *evidence;  /* facts about `address` */
	struct addrinfo *addresses; /* the host's addresses */
	struct addrinfo *untried;   /* the first address not yet tried, or NULL */
	struct addrinfo *address;   /* the latest address tried */
	struct flow flow;           /* of a connection to `address` */
	struct addrinfo *sources;   /* addresses of --bind, or NULL */
	/* Valid if a route leads to `address`: */
	char gid[INET6_ADDRSTRLEN]; /* GID of the other host. Empty over iWARP. */
	unsigned int mtu;           /* RDMA payload bytes of a packet. 0 if not known. */
	bool iwarp, infiniband;     /* the transport. RoCE if both are false. */
	bool roce_v1;               /* RoCE version 1, which has no IP header */
	/* Rate of the port's link in bit/s. At most 0 if not known, or for a software device. */
	double link_rate;
	bool is_software;
};

/*
 * Look up the addresses of the host and, if it is set, of --bind. If a lookup fails, report that,
 * and return false. path_release() frees the addresses.
 */
bool path_look_up(struct path *path);
void path_release(struct path *path);

/*
 * Try the host's remaining addresses in turn, until one has a route on which this host can send
 * packets. Try to register memory with the device of each route. Return false if no address is
 * left. `path` then describes the address that an earlier call found, or else the last address.
 */
bool path_find_next(struct path *path);

/*
 * Set FACT_unusable if no port can be used. Collect the facts about this host and path->flow
 * (evidence_collect()), unless an earlier call has collected them.
 */
void path_collect_evidence(struct path *path);

#endif
