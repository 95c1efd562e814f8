/* SPDX-License-Identifier: MIT */
/*
 * Describe how a network interface prevents drops of RoCE packets under congestion, as far as Linux
 * reports it without a vendor's tools:
 *
 *   - priority flow control (PFC), by DCB netlink like 'dcb pfc show'
 *   - the priority of a DSCP, like 'dcb app show'
 *   - congestion notification (ECN), if the driver has files for it
 *
 * Threads: any; no lock. The driver may ask the adapter's firmware.
 */
#ifndef RDMA_COMMON_CONGESTION_H
#define RDMA_COMMON_CONGESTION_H

#include <net/if.h>
#include <stdbool.h>

#include "../netlink.h"
#include "../status.h"

/* UDP port of RoCE v2 */
#define ROCE_PORT 4791

/*
 * If a network interface is above another one, as a VLAN or bond is, replace its name by that of
 * the lowest one, and return true. Only the lowest one knows PFC and ECN. `root`: "", except in
 * tests.
 */
bool congestion_find_lower(const char *root, char name[IF_NAMESIZE]);

/*
 * Append the priority of packets with this type of service, and the priorities with PFC and ECN, if
 * known. Return true if PFC is reported, and is not on for these packets: they may be dropped.
 */
bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf);

/* Append what to set so that packets with this type of service are not dropped. */
void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice);

/* The state of an interface. `pfc` and `ecn` have a bit for each priority. They are -1 if not
 * known. */
struct congestion {
	unsigned int dscp; /* DSCP of the packets: type of service without its two ECN bits */
	int pfc;           /* priorities with PFC */
	int priority;      /* the priority of the DSCP, 0 to 7, or -1 */
	int ecn;           /* priorities with ECN */
};

/*
 * Store `priority` and, if reported, `pfc` from the kernel's answer in `congestion`, a struct
 * congestion whose `dscp` is set. Return NL_OK.
 */
int congestion_take_dcb(struct nl_msg *message, void *congestion);

/* Append the state to `buf`, and return the same as congestion_describe(). */
bool congestion_text(const struct congestion *congestion, struct strbuf *buf);

#endif
