/* SPDX-License-Identifier: MIT */
/*
 * The path to the address of --check: the addresses of the name, the device and the GID that lead
 * to one, and the route.
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
	struct addrinfo *addresses, *untried; /* of the host; those behind the one below */
	struct addrinfo *address;   /* the latest that was tried, and if a route leads there: */
	struct addrinfo *sources;   /* those of --bind; NULL: any */
	char gid[INET6_ADDRSTRLEN]; /* empty: iWARP has none */
	unsigned int mtu;           /* bytes of payload in a packet; 0: not known */
	bool iwarp, infiniband;     /* or RoCE, */
	bool roce_v1;               /* if so: version 1, which is not in IP packets */
	/* Bit/s of the port's link, by width and speed; 0: not known, or the device is software: */
	double link_rate;
	bool is_software;
};

/*
 * Look up the addresses of the host and of --bind. Return false if one has none: the findings say
 * why. path_release() frees them.
 */
bool path_look_up(struct path *path);
void path_release(struct path *path);

/*
 * Try the addresses of the host that are left, in turn, until a route to one is found, and register
 * memory there. Return false if no address is left: the findings say why.
 */
bool path_find_next(struct path *path);

#endif
