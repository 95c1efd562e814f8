/* SPDX-License-Identifier: MIT */
/*
 * What Linux tells, without a vendor's tools, of how a network interface keeps RoCE's packets from
 * being dropped where the network is full: priority flow control (PFC) by DCB netlink, as 'dcb pfc
 * show' asks, and congestion notification (ECN) where the driver has files for it. Nothing is set.
 *
 * No lock, any thread. The kernel answers at once; nothing here waits.
 */
#ifndef RDMA_COMMON_CONGESTION_H
#define RDMA_COMMON_CONGESTION_H

#include <stddef.h>
#include <stdint.h>

/* Writes both in words: for which priorities they are on, or that the driver tells nothing. */
void congestion_describe(const char *interface, char *text, size_t size);

/*
 * Reads the kernel's answer about PFC, `size` bytes: the priorities for which it is on, a bit each.
 * -1: the answer is an error or cut off, or nothing of that is in it.
 */
int congestion_decode_pfc(const uint8_t *answer, size_t size);

#endif
