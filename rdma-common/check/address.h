/* SPDX-License-Identifier: MIT */
/*
 * Find the path to the address of --check: the addresses of the name, the device and the GID that
 * lead to one, and the route.
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
	const struct options *options; /* of the program */
	struct findings *findings;
	struct devices *devices;
	struct evidence *evidence;            /* about the latest address */
	struct addrinfo *addresses, *untried; /* of the host; those not tried yet */
	struct addrinfo *address;             /* address tried last; if a route leads there: */
	struct addrinfo *sources;             /* addresses of --bind; NULL: any */
	char gid[INET6_ADDRSTRLEN];           /* empty: iWARP has none */
	unsigned int mtu;                     /* payload bytes of a packet; 0: not known */
	bool iwarp, infiniband;               /* neither: RoCE */
	bool roce_v1;                         /* RoCE version 1, which has no IP header */
	/* bit/s of the port's link, by width and speed; 0: not known, or software */
	double link_rate;
	bool is_software;
};

/*
 * Look up the addresses of the host and of --bind. Return false after a finding if one has none.
 * path_release() frees them.
 */
bool path_look_up(struct path *path);
void path_release(struct path *path);

/*
 * Try the remaining addresses of the host in turn until a route to one is found, and register
 * memory with its device. Return false after findings if no address is left.
 */
bool path_find_next(struct path *path);

#endif
