/* SPDX-License-Identifier: MIT */
/*
 * What Linux tells, without a vendor's tools, of how a network interface keeps RoCE's packets from
 * being dropped where the network is full: priority flow control (PFC) and the priority of a DSCP
 * by DCB netlink, as 'dcb pfc show' and 'dcb app show' ask, and congestion notification (ECN) where
 * the driver has files for it. Nothing is set.
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
 * Appends in words which priority packets with this type of service have, whether PFC is on for it,
 * and for which priorities PFC and ECN are on; or that the driver tells nothing. True: these
 * packets are lossy, since PFC is off for them; false: it is on, or the driver does not say.
 */
bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf);

/* Appends what to set so that packets which are lossy are not. */
void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice);

/*
 * The same as congestion_describe(), of the kernel's answer, `answer_size` bytes, of which none is
 * believed if it is an error or cut off; and of a bit for each priority with ECN (-1: not known).
 */
bool congestion_text(const uint8_t *answer, size_t answer_size, int ecn, unsigned int tos,
		     struct strbuf *buf);

#endif
