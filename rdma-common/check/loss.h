/* SPDX-License-Identifier: MIT */
/*
 * Judge lost packets: how many, in which direction, and where to look for the cause.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_LOSS_H
#define RDMA_COMMON_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "../counters.h"
#include "../status.h"

/* Percentage of lost packets above which a loss is excessive */
#define MAX_LOSS 0.1

struct loss {
	double share; /* lost packets per packet sent in `direction` ("both": the larger share;
			 NULL: of all packets), 0 to 1 */
	/* "client to server", "server to client" or "both"; NULL: none lost, or not known. */
	const char *direction;
	bool excessive; /* the share is above MAX_LOSS, and at least two packets are lost */
};

/*
 * Judge the loss by the growth of this host's port counters and the approximate number of packets
 * in each direction. The port counts missing packets from the server, the
 * server's NAKs for missing packets from this host, and other retransmissions, without a direction.
 * The server's sum of errors is no evidence: it includes congestion marks and duplicates.
 */
struct loss loss_judge(const struct counters *growth, uint64_t to_server, uint64_t to_client);

/* Describe a loss, as in "packets are lost from client to server". */
struct strbuf loss_describe(const struct loss *loss);

/* Describe a share of packets, 0 to 1, as in "about 1.2 %". */
struct strbuf loss_describe_share(double share);

/* Return where packets are lost most often on this medium. The string is static. */
const char *loss_advice(bool is_software, bool infiniband);

#endif
