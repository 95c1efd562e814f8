/* SPDX-License-Identifier: MIT */
/*
 * Ask the kernel by netlink(7), and find attributes in its answer. Read the pause frames of a
 * network interface from ethtool's family, as 'ethtool --include-statistics --show-pause' does
 * (Linux, Documentation/networking/ethtool-netlink.rst, PAUSE_GET).
 *
 * Threads: any; no lock. The kernel answers at once, so nothing here waits.
 */
#ifndef RDMA_COMMON_NETLINK_H
#define RDMA_COMMON_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of the largest answer: the DCB state of an interface, or the description of a family. */
#define NETLINK_ANSWER_SIZE 8192

/*
 * Send a question, which begins with its header, to a netlink protocol such as NETLINK_ROUTE.
 * Return the size of the answer; 0: no answer.
 */
size_t netlink_ask(int protocol, const void *question, size_t size,
		   uint8_t answer[NETLINK_ANSWER_SIZE]);

/*
 * A list of attributes, or the contents of one. Empty if there is none, if it is cut off, or if the
 * answer is an error.
 */
struct span {
	const uint8_t *bytes; /* points into the answer */
	size_t size;
};

/*
 * Return the attributes of an answer of this type. They follow `headers` bytes: netlink's header
 * and the protocol's.
 */
struct span netlink_attributes(const uint8_t *answer, size_t size, int type, size_t headers);

/* Return the contents of the first attribute of a type; an empty span if there is none. */
struct span netlink_find(struct span attributes, uint16_t type);

/*
 * Return the contents of the next attribute of a type, and let `attributes` begin after that one.
 * If there is none, both are empty.
 */
struct span netlink_next(struct span *attributes, uint16_t type);

/* Copy the first `size` bytes of an attribute. Return false if it has fewer. */
bool netlink_copy(struct span attribute, void *value, size_t size);

/*
 * Return true if the RDMA subsystem is in exclusive mode, in which each device belongs to one
 * network namespace; false if it is not, or if the kernel does not answer.
 */
bool netlink_rdma_is_exclusive(void);

/* Pause frames (IEEE 802.3, annex 31B) that a network interface has received and sent. */
struct pause_frames {
	uint64_t received, sent;
};

/*
 * Read the pause frames of an interface. Return false if the kernel or the driver does not report
 * them, or if there is no such interface.
 */
bool netlink_read_pause(const char *interface, struct pause_frames *frames);

/*
 * Return the message type of a generic netlink family from the kernel's description of it; -1 if
 * the answer is an error or cut off.
 */
int netlink_decode_family(const uint8_t *answer, size_t size);

/*
 * Decode the answer about pause frames from the family with this number. Return false if it is an
 * error or cut off, or if the driver does not count both directions.
 */
bool netlink_decode_pause(const uint8_t *answer, size_t size, int family,
			  struct pause_frames *frames);

#endif
