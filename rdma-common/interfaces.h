/* SPDX-License-Identifier: MIT */
/*
 * Advice for an address or a name that cannot be used here. It depends on the network interfaces
 * and the RDMA devices of this host.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_INTERFACES_H
#define RDMA_COMMON_INTERFACES_H

#include <stdbool.h>
#include <sys/socket.h>

#include "status.h"

/* Return the size of an IPv4 or IPv6 address. Any thread. */
socklen_t address_size(const struct sockaddr *address);

/*
 * Return what to write instead of `name` after this error of getaddrinfo(3). The text is empty if
 * the name did not cause the error. If `own` is true, the address must be one of this host
 * (--bind), else one of the server's host.
 */
struct strbuf name_advice(int error, const char *name, bool own);

/*
 * Return true for an IPv6 link-local address that does not name its network interface. Linux
 * refuses to bind to it with EINVAL, and soft-iWARP does not connect to it.
 */
bool lacks_interface(const struct sockaddr *address);

#define INTERFACE_ADVICE "name the network interface of the link-local address, as in fe80::1%eth0"

/*
 * Return advice for a link-local address of this host that lacks_interface(): how to write it, or
 * that this host does not have it.
 */
struct strbuf own_interface_advice(const struct sockaddr *address);

#endif
