// SPDX-License-Identifier: MIT
#include "reasons.h"

#include <errno.h>
#include <stddef.h>

const char *rejection_describe(int status)
{
	static const char *const names[] = {
		[1] = "no queue pair",
		[2] = "no end-to-end context",
		[3] = "no resources",
		[4] = "timeout",
		[5] = "unsupported request",
		[6] = "invalid communication ID",
		[7] = "invalid communication instance",
		[REJECTION_INVALID_SERVICE_ID] = "invalid service ID",
		[9] = "invalid transport service type",
		[REJECTION_STALE_CONNECTION] = "stale connection",
		[11] = "no such reliable datagram channel",
		[12] = "invalid GID",
		[13] = "invalid LID",
		[14] = "invalid service level",
		[15] = "invalid traffic class",
		[16] = "invalid hop limit",
		[17] = "invalid packet rate",
		[18] = "invalid alternate GID",
		[19] = "invalid alternate LID",
		[20] = "invalid alternate service level",
		[21] = "invalid alternate traffic class",
		[22] = "invalid alternate hop limit",
		[23] = "invalid alternate packet rate",
		[24] = "connection manager and port are redirected",
		[25] = "port is redirected",
		[26] = "invalid path MTU",
		[27] = "insufficient responder resources",
		[REJECTION_CONSUMER_DEFINED] = "consumer defined",
		[29] = "invalid RNR retry count",
		[30] = "duplicate local communication ID",
		[31] = "invalid class version",
		[32] = "invalid flow label",
		[33] = "invalid alternate flow label",
	};

	if (status <= 0 || (size_t)status >= sizeof(names) / sizeof(names[0]))
		return NULL;
	return names[status];
}

const char *rejection_advice(int status)
{
	switch (status) {
	case -ECONNREFUSED: /* iWARP: TCP or the program refused */
	case REJECTION_INVALID_SERVICE_ID:
		return "check that rdma-server runs on that host and listens on that port";
	case REJECTION_STALE_CONNECTION:
		return "that host still has an earlier connection with this queue pair number: try "
		       "again in a minute";
	case REJECTION_CONSUMER_DEFINED:
		return "either the server listens on another address of that host (--bind) or "
		       "ended before it answered, or that host has no route back to this one, or "
		       "a program other than this project's rdma-server refused; see 'rdma "
		       "resource show cm_id' on that host";
	case 3:
	case 27:
		return "that host, or its adapter, has no resources left: end other sessions on "
		       "that host";
	case 12:
	case 13:
		return "that host does not accept the address of the request: check that the "
		       "address belongs to its RDMA device ('rdma link' and 'ip address' on that "
		       "host)";
	case 26:
		return "set the same MTU on both hosts and on the path between them";
	default:
		return "read the messages of the server";
	}
}

const char *shortage_advice(int error)
{
	if (error == EAGAIN)
		return "either the rdma cgroup of this process is at its limit (compare rdma.current "
		       "with rdma.max in that cgroup and its parents), or the adapter has no free objects";
	return error == ENOMEM ? "memory is short on this host, in this cgroup or on the adapter"
			       : NULL;
}

const char *cgroup_advice(int error)
{
	if (error != EAGAIN && error != EPERM)
		return NULL;
	return "the rdma cgroup of this process may be at its limit: compare rdma.current with "
	       "rdma.max in that cgroup and its parents";
}

const char *missing_device_advice(bool present, bool openable, bool exclusive)
{
	if (present && openable)
		return "the kernel has an RDMA device ('rdma link'), but libibverbs has no driver "
		       "for it, or the rdma cgroup allows no handle: install ibverbs-providers of "
		       "the same release as libibverbs, run 'IBV_SHOW_WARNINGS=1 ibv_devices', or raise "
		       "rdma.max of this cgroup";
	if (present)
		return "the kernel has an RDMA device ('rdma link'), but this process cannot open "
		       "its file /dev/infiniband/uverbs*: check the mode of the file, or give a "
		       "container the files ('--device /dev/infiniband')";
	if (exclusive)
		return "the RDMA subsystem is in exclusive mode ('rdma system'), so each device "
		       "belongs to one network namespace, and none to this one: move one here "
		       "('rdma dev set DEVICE netns NAME')";
	return NO_DEVICE_ADVICE;
}
