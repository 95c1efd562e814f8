/* SPDX-License-Identifier: MIT */
/*
 * Packets that were lost: how many, in which direction, and where to look for the place.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_LOSS_H
#define RDMA_COMMON_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "../counters.h"
#include "../status.h"

struct loss {
	double share; /* of the packets of that direction, 0 to 1 */
	/* "client to server", "server to client" or "both"; NULL: none lost, or not known. */
	const char *direction;
	bool excessive; /* more than the limit */
};

/*
 * Judge by what this host's port has counted, and by about how many packets were sent in each
 * direction. `limit` is in percent. The port counts gaps on the way to this host, and the server's
 * answers about gaps on the way to it. The sum of errors that the server reports is no evidence: it
 * includes congestion marks and duplicates.
 */
struct loss loss_judge(const struct counters *growth, uint64_t to_server, uint64_t to_client,
		       double limit);

/* Describe a loss, as in "packets are lost from client to server". */
struct strbuf loss_describe(const struct loss *loss);

/* Describe a share of packets, as in "about 1.2 %". */
struct strbuf loss_describe_share(double share);

/* Return the places where packets are lost most often, by medium. The string is static. */
const char *loss_advice(bool is_software, bool infiniband);

#endif
