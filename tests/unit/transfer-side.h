/* SPDX-License-Identifier: MIT */
/* Short questions to one side of a transfer. Include this after unit.h. */
#ifndef UNIT_TRANSFER_SIDE_H
#define UNIT_TRANSFER_SIDE_H

#include "rdma-common/transfer.h"

/* Get the MSG_WINDOW that is due now. Return false if none is due. */
static inline bool take_window(struct transfer *side, int64_t now, struct window *window)
{
	if (transfer_window_time(side, now) > now)
		return false;
	*window = transfer_make_window(side);
	return true;
}

/* Return true if the peer is done and everything that it sent is stored: the verdict is due. */
static inline bool everything_is_stored(const struct transfer *side)
{
	return side->sink.done && side->sink.stored == transfer_sink_end(side);
}

#endif
