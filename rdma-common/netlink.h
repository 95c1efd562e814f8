/* SPDX-License-Identifier: MIT */
/*
 * Ask the kernel by netlink(7), and find attributes in its answer. Read pause frames as 'ethtool
 * --include-statistics --show-pause' does (Linux, Documentation/networking/ethtool-netlink.rst,
 * PAUSE_GET).
 *
 * Threads: any. The kernel answers within send(2) and recv(2), so nothing waits for an answer.
 */
#ifndef RDMA_COMMON_NETLINK_H
#define RDMA_COMMON_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * A request: netlink's header, a body such as struct rtmsg, and attributes. Each body in its answer
 * has the same size.
 */
struct netlink_request {
	struct nlmsghdr header;
	uint8_t rest[112];
	size_t body_size;
};

/* Return a request with this body of `size` bytes, and without attributes. */
struct netlink_request netlink_make_request(int type, int flags, const void *body, size_t size);

/* Add an attribute of this type: the bytes of an IPv4 or IPv6 address, without its port. */
void netlink_add_address(struct netlink_request *request, int type, const struct sockaddr *address);

/* Add an attribute of this type: a text of fewer than IF_NAMESIZE bytes. */
void netlink_add_name(struct netlink_request *request, int type, const char *name);

/* A list of attributes, or the contents of one; empty if that is missing or cut off. */
struct span {
	const uint8_t *bytes; /* points into the answer */
	size_t size;
};

/* A message of an answer, without netlink's header. */
struct netlink_message {
	const void *body;
	struct span attributes;
};

typedef void (*netlink_function)(void *context, struct netlink_message message);

/*
 * Send a request to a netlink protocol such as NETLINK_ROUTE. Call `function` for each message of
 * this type in the answer. Return the answer's errno value; 0: no error, or no answer.
 */
int netlink_ask(int protocol, const struct netlink_request *request, int type,
		netlink_function function, void *context);

/* Decode an answer, or a part of one, as netlink_ask() does. Each body has `body_size` bytes. */
int netlink_decode(struct span answer, int type, size_t body_size, netlink_function function,
		   void *context);

/* Return the contents of the first attribute of a type; an empty span if there is none. */
struct span netlink_find(struct span attributes, uint16_t type);

/*
 * Return the contents of the next attribute of a type, and let `attributes` begin after it. If
 * there is none, both are empty.
 */
struct span netlink_next(struct span *attributes, uint16_t type);

/* Copy the first `size` bytes of an attribute. Return false if it has fewer. */
bool netlink_copy(struct span attribute, void *value, size_t size);

/*
 * Send a command (enum rdma_nldev_command) to the RDMA subsystem. `device`: contents of
 * RDMA_NLDEV_ATTR_DEV_INDEX, or NETLINK_ALL_DEVICES. Call `function` as netlink_ask() does; ignore
 * errors.
 */
#define NETLINK_ALL_DEVICES ((struct span){ NULL, 0 })
void netlink_ask_rdma(unsigned int command, struct span device, netlink_function function,
		      void *context);

/*
 * Return true if the RDMA subsystem is in exclusive mode, in which each device belongs to one
 * network namespace; false also if the kernel does not answer.
 */
bool netlink_rdma_is_exclusive(void);

/* Pause frames (IEEE 802.3, annex 31B) that a network interface has received and sent. */
struct pause_frames {
	uint64_t received, sent;
	bool known; /* the driver counts both */
};

/*
 * Read the pause frames of an interface. Return false if the kernel or driver does not report them.
 */
bool netlink_read_pause(const char *interface, struct pause_frames *frames);

/* Store in `*number`, a uint16_t, the number of the generic netlink family in the message. */
void netlink_take_family(void *number, struct netlink_message message);

/* Store in `*frames`, a struct pause_frames, the counts in an ethtool message. */
void netlink_take_pause(void *frames, struct netlink_message message);

#endif
