/* SPDX-License-Identifier: MIT */
/*
 * What of struct protocol changes, in bytes, so that sides of a session can be compared; and what a
 * side posts after a step.
 */
#ifndef UNIT_PROTOCOL_BYTES_H
#define UNIT_PROTOCOL_BYTES_H

#include <stdint.h>

#include "rdma-common/protocol.h"

/* clang-format off */
#define PROTOCOL_MEMBERS(member) \
	member(phase) member(local) member(remote) member(gave_up) member(connected) member(disconnected) \
	member(drained) member(overdue) member(post_failed) member(check) member(verdict) member(status)
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

/* MSG_DONE, beside the bits of enum action. */
#define SENDS_DONE (1U << 7)

/*
 * Return the actions of a step from the stage `before`, and SENDS_DONE if MSG_DONE is due: behind a
 * WRITE, or when a READ has completed.
 */
static unsigned int actions_and_done(enum local_stage before, const struct step *step)
{
	bool completed = before < LOCAL_DONE_POSTED && step->protocol.local == LOCAL_DONE_POSTED;
	bool due = done_follows_at_once(&step->protocol) ? step->actions & ACTION_POST_OPERATION
							 : completed;

	return step->actions | (due ? SENDS_DONE : 0);
}

#endif
