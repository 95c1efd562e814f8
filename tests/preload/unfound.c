// SPDX-License-Identifier: MIT
/*
 * Preload this library (LD_PRELOAD) to run a program as on a device with node GUID 0, which no
 * software device has. librdmacm does not find the device of the first UNFOUND connect requests and
 * bound addresses, so their verbs is NULL (ucma_query_addr() in its cma.c). Before release 56 it
 * ends a process that resolves such an address. With UNFOUND_ADDRESS only the device of this
 * address of the host is missing.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int hidden; /* number of identifiers without a device */

static bool hides_next(void)
{
	const char *most = getenv("UNFOUND");

	return most && hidden < atoi(most);
}

static bool is_meant(struct rdma_cm_id *id)
{
	const struct sockaddr_in *own = (const void *)rdma_get_local_addr(id);
	const char *only = getenv("UNFOUND_ADDRESS");

	return id->verbs &&
	       (!only || (own->sin_family == AF_INET && own->sin_addr.s_addr == inet_addr(only)));
}

static void hide_device(struct rdma_cm_id *id)
{
	if (!is_meant(id) || !hides_next())
		return;
	hidden++;
	id->verbs = NULL;
	id->pd = NULL;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	union {
		void *symbol;
		__typeof__(rdma_get_cm_event) *call;
	} real = { dlsym(RTLD_NEXT, "rdma_get_cm_event") };
	int result = real.call(channel, event);

	if (!result && (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		hide_device((*event)->id);
	return result;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	union {
		void *symbol;
		__typeof__(rdma_bind_addr) *call;
	} real = { dlsym(RTLD_NEXT, "rdma_bind_addr") };
	int result = real.call(id, address);

	if (!result)
		hide_device(id);
	return result;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
		      int timeout)
{
	union {
		void *symbol;
		__typeof__(rdma_resolve_addr) *call;
	} real = { dlsym(RTLD_NEXT, "rdma_resolve_addr") };

	if (hides_next() && !getenv("UNFOUND_ADDRESS")) {
		fputs("rdma_resolve_addr: the device has node GUID 0\n", stderr);
		abort();
	}
	return real.call(id, source, address, timeout);
}
