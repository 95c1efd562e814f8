/* SPDX-License-Identifier: MIT */
/*
 * Names and advice for errors of the connection manager, the kernel and the libraries that prevent
 * a connection. The functions depend on their arguments alone. Every string is static.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_REASONS_H
#define RDMA_COMMON_REASONS_H

#include <stdbool.h>

/*
 * Reasons to reject a connect request over InfiniBand and RoCE, as the status of the event
 * RDMA_CM_EVENT_REJECTED (InfiniBand Architecture Specification, volume 1, 12.6.7.2). Over iWARP
 * the status is a negative errno value.
 */
enum rejection {
	REJECTION_INVALID_SERVICE_ID = 8,
	REJECTION_STALE_CONNECTION = 10,
	REJECTION_CONSUMER_DEFINED = 28,
};

/* Return the name of a rejection reason, or NULL if it is unknown. */
const char *rejection_describe(int status);

/* Return what to check or to change after a rejection without a hello. */
const char *rejection_advice(int status);

/*
 * Return the likely causes of an error of ibv_reg_mr(3), or of a call that creates an object of the
 * device. Return NULL if strerror(3) says it all.
 *
 * EAGAIN comes from the rdma cgroup (rdmacg_try_charge() in the kernel), or from an mlx5 adapter
 * that is full (MLX5_CMD_STAT_NO_RES_ERR).
 */
const char *shortage_advice(int error);

/*
 * Return advice for an error of librdmacm while it opens the device of an address. Return NULL if
 * the rdma cgroup does not cause that error.
 */
const char *cgroup_advice(int error);

/* Reason and advice if each port that the kernel may choose is in use. */
#define NO_PORT_REASON "no local port is free (net.ipv4.ip_local_port_range)"
#define NO_PORT_ADVICE \
	"widen that range, or end programs that use its ports ('rdma resource show cm_id')"

/* Advice if the kernel has no RDMA device. */
#define NO_DEVICE_ADVICE                                                                       \
	"load the modules of the adapter's driver ('rdma link' lists the devices), or create " \
	"a software device ('rdma link add rdma0 type rxe netdev eth0')"

/* Advice if librdmacm finds no device for an address, and no message can name the device. */
#define UNFOUND_ADVICE \
	"; check that no RDMA device has node GUID 0 (/sys/class/infiniband/*/node_guid)"

/* Why librdmacm does not find the device of that name (ucma_query_addr() in its cma.c). */
#define ZERO_GUID(device) "RDMA device " device " has node GUID 0, so librdmacm cannot find it"

/* Advice for such a device. It is usually a virtual function that is not configured. */
#define ZERO_GUID_ADVICE                                                                     \
	"on the host that has the physical function set the virtual function's MAC address " \
	"('ip link set PF vf N mac ADDRESS') or, over InfiniBand, its node GUID "            \
	"('ip link set PF vf N node_guid GUID'), then write its PCI address to 'unbind' "    \
	"and 'bind' of its driver in /sys/bus/pci/drivers"

/*
 * Return what to change if librdmacm finds no device. Each parameter states a fact:
 *
 * - present: sysfs has a device.
 * - openable: this process may open the files of all devices.
 * - exclusive: the RDMA subsystem gives each device to one network namespace.
 */
const char *missing_device_advice(bool present, bool openable, bool exclusive);

#endif
