/* SPDX-License-Identifier: MIT */
/*
 * Answers of the kernel by netlink: their attributes (netlink(7)), and of ethtool's family, which
 * 'ethtool --include-statistics --show-pause' asks as well, the pause frames of a network interface
 * (Linux, Documentation/networking/ethtool-netlink.rst, PAUSE_GET).
 *
 * No lock, any thread. The kernel answers at once; nothing here waits.
 */
#ifndef RDMA_COMMON_NETLINK_H
#define RDMA_COMMON_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of an answer at most: all that the kernel knows of an interface's DCB, or of a family. */
#define NETLINK_ANSWER_SIZE 8192

/*
 * Asks the kernel by a netlink protocol (NETLINK_ROUTE, say), with a question that begins with its
 * header. The bytes of the answer; 0: there is none.
 */
size_t netlink_ask(int protocol, const void *question, size_t size,
		   uint8_t answer[NETLINK_ANSWER_SIZE]);

/* Attributes, or the contents of one. No bytes: it is missing, or cut off, or an error came. */
struct span {
	const uint8_t *bytes; /* of the answer */
	size_t size;
};

/*
 * The attributes of an answer with this type, behind its header and the protocol's own, `headers`
 * bytes together.
 */
struct span netlink_attributes(const uint8_t *answer, size_t size, int type, size_t headers);

/* The contents of the first attribute of a type among attributes. */
struct span netlink_find(struct span attributes, uint16_t type);

/*
 * The same, of several: `attributes` are then those behind it; none if there is no such attribute.
 */
struct span netlink_next(struct span *attributes, uint16_t type);

/* Copies what an attribute begins with. False: it has fewer bytes. */
bool netlink_copy(struct span attribute, void *value, size_t size);

/* Pause frames of IEEE 802.3 (annex 31B) that a network interface has received and sent. */
struct pause_frames {
	uint64_t received, sent;
};

/* Asks for those of an interface. False: its driver counts none, or there is no such interface. */
bool netlink_read_pause(const char *interface, struct pause_frames *frames);

/*
 * Reads the kernel's answer about a family of generic netlink, `size` bytes: its number, which is
 * the type of the family's messages. -1: the answer is an error or cut off.
 */
int netlink_decode_family(const uint8_t *answer, size_t size);

/*
 * Reads the answer about pause frames, of the family with that number. False: it is an error or cut
 * off, or the driver does not count both.
 */
bool netlink_decode_pause(const uint8_t *answer, size_t size, int family,
			  struct pause_frames *frames);

#endif
