/* SPDX-License-Identifier: MIT */
/*
 * Ask the kernel by netlink(7), with libnl. Read pause frames as 'ethtool --include-statistics
 * --show-pause' does (Linux, Documentation/networking/ethtool-netlink.rst, PAUSE_GET).
 *
 * Threads: any. The kernel answers within send(2) and recv(2), so no function waits for an answer.
 */
#ifndef RDMA_COMMON_NETLINK_H
#define RDMA_COMMON_NETLINK_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Return a request with a body of `size` bytes, such as struct rtmsg. It has no attributes. Return
 * NULL if memory is short; netlink_add() and netlink_ask() accept that.
 */
struct nl_msg *netlink_make_request(int type, int flags, const void *body, size_t size);

/* Add an attribute of this type, with the first `size` bytes of `value`. */
void netlink_add(struct nl_msg *request, int type, const void *value, size_t size);

/*
 * Send a request to a netlink protocol such as NETLINK_ROUTE, and free it. Call `function`, which
 * returns NL_OK, for each message of the answer. Return the errno value of the answer. Return 0 if
 * the kernel reports no error, or does not answer.
 */
int netlink_ask(int protocol, struct nl_msg *request, nl_recvmsg_msg_cb_t function, void *context);

/*
 * Return the message's first attribute of this type, or NULL. The attributes follow a body of
 * `size` bytes, such as struct rtmsg.
 */
struct nlattr *netlink_find(struct nl_msg *message, size_t size, int type);

/* Return the first attribute of a type within `outer`, or NULL. `outer` may be NULL. */
struct nlattr *netlink_find_within(const struct nlattr *outer, int type);

/* Copy the first `size` bytes of an attribute. Return false if it is NULL or has fewer. */
bool netlink_copy(const struct nlattr *attribute, void *value, size_t size);

/*
 * Send a command (enum rdma_nldev_command) to the RDMA subsystem. `device` is the attribute
 * RDMA_NLDEV_ATTR_DEV_INDEX of a device, or NULL for all devices. Call `function` as netlink_ask()
 * does. Ignore errors.
 */
void netlink_ask_rdma(unsigned int command, const struct nlattr *device,
		      nl_recvmsg_msg_cb_t function, void *context);

/* A port of a device. `interface` is empty without an interface in this network namespace. */
struct rdma_port {
	char device[IBV_SYSFS_NAME_MAX], interface[IF_NAMESIZE];
	uint32_t number;
};

/* The ports of all devices, at most 127. A port without a device ends the list. */
struct rdma_ports {
	struct rdma_port list[128];
};

struct rdma_ports netlink_list_ports(void);

/*
 * Return true if the RDMA subsystem is in exclusive mode: each device belongs to one network
 * namespace. Return false if the kernel does not answer.
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

/*
 * Store the family ID from an answer to CTRL_CMD_GETFAMILY in `*family`, a uint16_t. Return NL_OK.
 */
int netlink_take_family(struct nl_msg *message, void *family);

/* Store the counts of an ethtool message in `*frames`, a struct pause_frames. Return NL_OK. */
int netlink_take_pause(struct nl_msg *message, void *frames);

#endif
