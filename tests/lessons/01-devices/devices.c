// SPDX-License-Identifier: MIT
/*
 * List the RDMA devices of this host, and create on each of them the objects that every connection
 * needs. No peer is involved.
 *   cc devices.c -o devices -libverbs && ./devices
 *
 *   1. list the devices, open each
 *   2. query the device, its ports, and the first address (GID) of each port
 *   3. allocate a protection domain
 *   4. register memory three times, each time with different permissions
 *   5. create a completion channel, a completion queue with it, and one without
 *   6. destroy everything in the reverse order
 *
 * alarm(30) ends the program by SIGALRM after 30 s if a driver does not answer. A failed call ends
 * the program with status 1. The kernel then frees everything that the program had.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The accesses that each region permits. Local reads need no flag. */
static const struct {
	const char *name;
	unsigned int access;
} permissions[] = {
	{ "local read", 0 },
	{ "local write", IBV_ACCESS_LOCAL_WRITE },
	{ "remote write", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
};
#define REGIONS (sizeof(permissions) / sizeof(permissions[0]))

static char memory[REGIONS][4096];

/*
 * Exit if a call failed. A failed call returns -1 and sets errno, or it returns the errno value.
 * Some drivers negate that value.
 */
static void check(int result, const char *what)
{
	if (result != 0)
		errx(1, "cannot %s: %s", what, strerror(abs(result == -1 ? errno : result)));
}

/* Step 2. A GID has 128 bits, and is written like an IPv6 address. */
static void show_ports(struct ibv_context *context)
{
	struct ibv_device_attr attributes;
	char text[INET6_ADDRSTRLEN];
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	check(ibv_query_device(context, &attributes), "query the device");
	/* the first port is 1 */
	for (int number = 1; number <= attributes.phys_port_cnt; number++) {
		check(ibv_query_port(context, (uint8_t)number, &port), "query a port");
		check(ibv_query_gid(context, (uint8_t)number, 0, &gid), "query a GID");
		check(inet_ntop(AF_INET6, &gid, text, sizeof(text)) ? 0 : -1, "print a GID");
		printf("  port %d is %s, its GID 0 is %s\n", number, ibv_port_state_str(port.state),
		       text);
		if (context->device->transport_type == IBV_TRANSPORT_IWARP)
			continue; /* iWARP has no P_Key */
		check(ibv_query_pkey(context, (uint8_t)number, 0, &pkey), "query a P_Key");
		printf("  port %d has the P_Key 0x%04x at index 0\n", number, be16toh(pkey));
	}
}

/* Steps 3 to 6. */
static void create_and_destroy(struct ibv_context *context)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *polled, *notified;
	struct ibv_mr *regions[REGIONS];
	struct ibv_pd *pd;

	pd = ibv_alloc_pd(context); /* step 3: a queue pair uses only memory of its domain */
	check(pd ? 0 : -1, "allocate a protection domain");

	for (size_t i = 0; i < REGIONS; i++) { /* step 4 */
		regions[i] = ibv_reg_mr(pd, memory[i], sizeof(memory[i]), permissions[i].access);
		check(regions[i] ? 0 : -1, "register memory");
	}

	channel = ibv_create_comp_channel(context); /* step 5: a descriptor to sleep on */
	check(channel ? 0 : -1, "create a completion channel");
	/*
	 * The queue has room for at least 1 completion. NULL is the context that
	 * ibv_get_cq_event(3) would return. 0 is the first completion vector, usually an interrupt.
	 */
	notified = ibv_create_cq(context, 1, NULL, channel, 0);
	check(notified ? 0 : -1, "create a completion queue");
	polled = ibv_create_cq(context, 1, NULL, NULL, 0);
	check(polled ? 0 : -1, "create a completion queue");
	printf("  memory regions: %s, %s, %s\n", permissions[0].name, permissions[1].name,
	       permissions[2].name);
	printf("  completion queues: with a channel, without a channel\n");

	check(ibv_destroy_cq(polled), "destroy a completion queue"); /* step 6 */
	check(ibv_destroy_cq(notified), "destroy a completion queue");
	check(ibv_destroy_comp_channel(channel), "destroy the completion channel");
	for (size_t i = REGIONS; i-- > 0;)
		check(ibv_dereg_mr(regions[i]), "deregister memory");
	check(ibv_dealloc_pd(pd), "free the protection domain");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices;
	int count;

	if (argc != 1)
		errx(2, "usage: %s", argv[0]);
	alarm(30);
	devices = ibv_get_device_list(&count); /* step 1 */
	check(devices ? 0 : -1, "list the devices");
	if (count == 0)
		errx(1, "this host has no RDMA device");
	for (int i = 0; i < count; i++) {
		struct ibv_context *context = ibv_open_device(devices[i]);

		check(context ? 0 : -1, "open a device");
		printf("%s: %s, node GUID %016" PRIx64 "\n", ibv_get_device_name(devices[i]),
		       ibv_node_type_str(devices[i]->node_type),
		       be64toh(ibv_get_device_guid(devices[i])));
		show_ports(context);
		create_and_destroy(context);
		check(ibv_close_device(context) ? -1 : 0, "close a device");
	}
	ibv_free_device_list(devices);
	check(ferror(stdout) || fclose(stdout) ? -1 : 0, "write the output");
	return 0;
}
