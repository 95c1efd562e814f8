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
	const struct options *options; /* options of the program */
	struct findings *findings;
	struct devices *devices;
	struct evidence *evidence;            /* facts about the address tried last */
	struct addrinfo *addresses, *untried; /* list of the host's addresses; its untried part */
	struct addrinfo *address;             /* the address tried last */
	struct flow flow;                     /* a connection to `address` */
	struct addrinfo *sources;             /* addresses of --bind, or NULL */
	/* Valid if a route leads to `address`: */
	char gid[INET6_ADDRSTRLEN]; /* GID of the other host; empty over iWARP */
	unsigned int mtu;           /* RDMA payload bytes of a packet. 0 if not known. */
	bool iwarp, infiniband;     /* neither: RoCE */
	bool roce_v1;               /* RoCE version 1, which has no IP header */
	/* Rate of the port's link in bit/s. 0 if not known, or for a software device. */
	double link_rate;
	bool is_software;
};

/*
 * Look up the addresses of the host and of --bind. Return false, after a finding, if either has no
 * address. path_release() frees them.
 */
bool path_look_up(struct path *path);
void path_release(struct path *path);

/*
 * Try the host's remaining addresses in turn, until one has a route on which this host can send
 * packets. Try to register memory with the device of each route. If no address is left, return
 * false, and keep the facts of the last address that had a route.
 */
bool path_find_next(struct path *path);

/*
 * Collect the facts about this host and path->flow (evidence_collect()), unless path_find_next()
 * has collected them.
 */
void path_collect_evidence(struct path *path);

#endif
