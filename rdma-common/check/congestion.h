/* SPDX-License-Identifier: MIT */
/*
 * Describe how a network interface prevents drops of RoCE packets under congestion, as far as Linux
 * reports it without a vendor's tools:
 *
 *   - priority flow control (PFC), by DCB netlink like 'dcb pfc show'
 *   - the priority of a DSCP, like 'dcb app show'
 *   - congestion notification (ECN), if the driver has files for it
 *
 * Threads: any. A call may take long, because the driver may ask the adapter's firmware.
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
 * Replace the name of a network interface that is above others, such as a VLAN or a bond, by that
 * of the lowest one: only the lowest interface knows PFC and ECN. Take the first member of a bond.
 * Return true if the name was replaced. `root` is "", except in tests.
 */
bool congestion_find_lower(const char *root, char name[IF_NAMESIZE]);

/*
 * Append the priority of packets with this type of service, and the priorities with PFC and ECN, if
 * known. Return true if these packets may be dropped, because PFC is known to be off for them.
 */
bool congestion_describe(const char *interface, unsigned int tos, struct strbuf *buf);

/* Append what to set so that packets with this type of service are not dropped. */
void congestion_advise(const char *interface, unsigned int tos, struct strbuf *advice);

/*
 * The state of an interface. `pfc` and `ecn` have a bit for each priority, or are -1 if not known.
 */
struct congestion {
	unsigned int dscp; /* DSCP of the packets: type of service without its two ECN bits */
	int pfc;           /* priorities with PFC */
	int priority;      /* priority of the DSCP, 0 to 7. -1 if no rule gives it one. */
	int ecn;           /* priorities with ECN */
};

/*
 * Take the kernel's answer to DCB_CMD_IEEE_GET. Store `priority`, and `pfc` if it is reported, in
 * `congestion`, a struct congestion whose `dscp` is set. Return NL_OK.
 */
int congestion_take_dcb(struct nl_msg *message, void *congestion);

/* Append the state to `buf`. Return the same as congestion_describe(). */
bool congestion_text(const struct congestion *congestion, struct strbuf *buf);

#endif
