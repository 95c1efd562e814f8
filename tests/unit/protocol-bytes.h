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
	member(phase) member(local) member(remote) member(done_posted) member(gave_up) member(connected) member(disconnected) \
	member(drained) member(overdue) member(post_failed) member(lingers) member(check) member(verdict) member(status)
/* clang-format on */

struct protocol_bytes {
#define PROTOCOL_BYTE(name) uint8_t name;
	PROTOCOL_MEMBERS(PROTOCOL_BYTE)
};

static void protocol_pack(struct protocol_bytes *bytes, const struct protocol *protocol)
{
#define PROTOCOL_PACK(name) bytes->name = (uint8_t)protocol->name;
	PROTOCOL_MEMBERS(PROTOCOL_PACK)
}

static void protocol_unpack(const struct protocol_bytes *bytes, struct protocol *protocol)
{
#define PROTOCOL_UNPACK(name) protocol->name = bytes->name;
	PROTOCOL_MEMBERS(PROTOCOL_UNPACK)
}

#endif
