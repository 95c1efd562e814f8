/* SPDX-License-Identifier: MIT */
/*
 * The variable members of struct protocol as bytes, so that states can be compared byte by byte.
 */
#ifndef UNIT_PROTOCOL_BYTES_H
#define UNIT_PROTOCOL_BYTES_H

#include <stdint.h>

#include "rdma-common/protocol.h"

/* clang-format off */
#define PROTOCOL_MEMBERS(member) \
	member(phase, phase) member(local, local) member(remote, remote) member(done_posted, done_posted) \
	member(gave_up, gave_up) member(connected, connected) member(disconnected, disconnected) member(drained, drained) \
	member(overdue, overdue) member(post_failed, post_failed) member(lingers, lingers) member(post_cause, post_cause) \
	member(own_verdict, own_verdict.status) member(own_cause, own_verdict.cause) \
	member(peer_verdict, peer_verdict.status) member(peer_cause, peer_verdict.cause) \
	member(status, result.status) member(cause, result.cause)
/* clang-format on */

struct protocol_bytes {
#define PROTOCOL_BYTE(name, member) uint8_t name;
	PROTOCOL_MEMBERS(PROTOCOL_BYTE)
};

static void protocol_pack(struct protocol_bytes *bytes, const struct protocol *protocol)
{
#define PROTOCOL_PACK(name, member) bytes->name = (uint8_t)protocol->member;
	PROTOCOL_MEMBERS(PROTOCOL_PACK)
}

static void protocol_unpack(const struct protocol_bytes *bytes, struct protocol *protocol)
{
#define PROTOCOL_UNPACK(name, member) protocol->member = bytes->name;
	PROTOCOL_MEMBERS(PROTOCOL_UNPACK)
}

/*
 * Return the cause of an event in the tests: the number of the status that the cause explains. So a
 * result whose cause is another number has lost the text that explains it.
 */
static inline unsigned int cause_of(enum event_type type, enum status status)
{
	if (type == EVENT_SEND_REFUSED || type == EVENT_RECEIVE_REFUSED)
		return STATUS_LOCAL_FAILURE;
	return type == EVENT_DEADLINE ? STATUS_TIMED_OUT : status;
}

/* Return true if the cause of each result explains the status of that result, or there is none. */
static inline bool causes_fit(const struct protocol_bytes *bytes)
{
	return (bytes->cause == 0 || bytes->cause == bytes->status) &&
	       (bytes->own_cause == 0 || bytes->own_cause == bytes->own_verdict) &&
	       (bytes->peer_cause == 0 || bytes->peer_cause == bytes->peer_verdict);
}

#endif
