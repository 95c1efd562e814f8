/* SPDX-License-Identifier: MIT */
/*
 * 'rdma-client --check ADDRESS': the path to an address, step by step, and what to change. It
 * connects to nobody.
 */
#ifndef RDMA_COMMON_CHECK_H
#define RDMA_COMMON_CHECK_H

#include "options.h"
#include "status.h"

/*
 * Prints on standard output which devices there are, how options->address is reached, and what to
 * change. STATUS_SUCCESS if a connection could be tried, else STATUS_UNRESOLVED.
 */
enum status check_path(const struct options *options);

#endif
