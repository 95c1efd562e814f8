/* SPDX-License-Identifier: MIT */
/*
 * Describe how a network interface keeps RoCE packets from being dropped under congestion, as far
 * as Linux reports it without a vendor's tools: priority flow control (PFC) and the priority of a
 * DSCP, by DCB netlink like 'dcb pfc show' and 'dcb app show', and congestion notification (ECN) if
 * the driver has files for it. No setting is changed.
 *
 * Threads: any; no lock. The kernel answers at once; nothing here waits.
 */
#ifndef RDMA_COMMON_CONGESTION_H
#define RDMA_COMMON_CONGESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../status.h"

/*
 * Append the priority of packets with this type of service, and the priorities for which PFC and
 * ECN are on; or that the driver does not report them. Return true if PFC is off for these packets,
 * so that they may be dropped; false if it is on, or not known.
 */
bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf);

/* Append what to set so that these packets are not dropped. */
void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice);

/*
 * Do the work of congestion_describe() on the kernel's answer of `answer_size` bytes. An answer
 * that is an error or cut off is ignored. `ecn`: a bit for each priority with ECN; -1: not known.
 */
bool congestion_text(const uint8_t *answer, size_t answer_size, int ecn, unsigned int tos,
		     struct strbuf *buf);

#endif
