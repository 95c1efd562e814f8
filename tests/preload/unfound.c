// SPDX-License-Identifier: MIT
/*
 * Preload this library into a server (LD_PRELOAD): the first UNFOUND connect requests have no
 * device, as librdmacm delivers them if the device's node GUID is 0 (ucma_query_addr() in its
 * cma.c). No software device has that node GUID.
 */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>

static void hide_device(struct rdma_cm_id *id)
{
	static int hidden;
	const char *most = getenv("UNFOUND");

	if (hidden < (most ? atoi(most) : 0)) {
		hidden++;
		id->verbs = NULL;
		id->pd = NULL;
	}
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
