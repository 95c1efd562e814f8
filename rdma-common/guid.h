/* SPDX-License-Identifier: MIT */
/*
 * Find out if librdmacm misses the device of an address, because the device's node GUID is 0.
 * librdmacm then leaves id->verbs NULL (ucma_query_addr() in its cma.c). Before release 56 it also
 * ends the process when rdma_resolve_addr(3) has found such a device.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_GUID_H
#define RDMA_COMMON_GUID_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "status.h"

/* Return true if sysfs shows node GUID 0 for the device. */
bool guid_is_zero(struct ibv_device *device);

/*
 * Return the device with node GUID 0 that has the address of `id`. `id` is bound, or belongs to a
 * connect request. Return NULL if librdmacm has found the device of `id`, or if none of `devices`
 * is such a device. NULL ends the list `devices`, which may itself be NULL.
 */
struct ibv_context *guid_find(struct ibv_context *const *devices, struct rdma_cm_id *id);

/*
 * Return the device with node GUID 0, as guid_find() does, over which a connection from `source` to
 * `address` would lead. If `source` is NULL, the kernel chooses the source. Send no packet.
 */
struct ibv_context *guid_find_for(struct ibv_context *const *devices, struct sockaddr *source,
				  const struct sockaddr *address);

/* Return why librdmacm does not find a device with node GUID 0, and what to do. */
struct strbuf guid_describe(struct ibv_context *device);

#endif
