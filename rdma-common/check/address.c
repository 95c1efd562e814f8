// SPDX-License-Identifier: MIT
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "../clock.h"
#include "../guid.h"
#include "../interfaces.h"
#include "../negotiate.h"
#include "../process.h"
#include "../reasons.h"
#include "congestion.h"
#include "reach.h"

/*
 * Report the source, the device and the GID of a resolved address. Set the facts about them, and
 * the transport of `path`.
 */
static void report_address(struct path *path, struct rdma_cm_id *id)
{
	const char *device = ibv_get_device_name(id->verbs->device);
	const struct endpoint own = endpoint_of(rdma_get_local_addr(id));
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct ibv_gid_entry gid;
	const char *note;

	path->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	path->infiniband = path->roce_v1 = false;
	strbuf_addf(&path->findings->found, "resolved: source %s, device %s port %u", own.address,
		    device, id->port_num);
	if (!path->iwarp && find_gid(id, &gid)) {
		bool named = gid.ndev_ifindex && if_indextoname(gid.ndev_ifindex, name);

		path->infiniband = gid.gid_type == IBV_GID_TYPE_IB;
		path->roce_v1 = gid.gid_type == IBV_GID_TYPE_ROCE_V1;
		note = path->infiniband ? NULL : host_gid_note(gid.gid.raw, !path->roce_v1);
		strbuf_addf(&path->findings->found, ", GID %u (%s, %s%s%s)%s%s", gid.gid_index,
			    inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)),
			    path->infiniband ? "InfiniBand"
			    : path->roce_v1  ? "RoCE v1"
					     : "RoCE v2",
			    named ? ", " : "", named ? name : "", note ? "; " : "",
			    note ? note : "");
	}
	evidence_set(path->evidence, FACT_source, own.address);
	evidence_set(path->evidence, FACT_device, device);
	evidence_set(path->evidence, FACT_transport,
		     path->iwarp        ? "iwarp"
		     : path->infiniband ? "infiniband"
					: "roce");
	if (evidence_is(path->evidence, FACT_transport, "roce"))
		evidence_set(path->evidence, FACT_roce_version, path->roce_v1 ? "1" : "2");
	findings_report(path->findings, "address", true);
}

/*
 * Report why an address or a route is not resolved. The finding is a failure only if no address is
 * left to try. Return false.
 */
static bool unresolved(struct path *path, const char *step, const char *reason, const char *advice)
{
	strbuf_addf(&path->findings->found, "not resolved: %s", reason);
	strbuf_addf(&path->findings->advice, "%s", advice ? advice : "");
	findings_report(path->findings, step, path->untried);
	return false;
}

/*
 * Return the reason why the last call on `id` failed with this errno value. If librdmacm itself
 * fails after the kernel has reported success, event->status is -1. Whatever the reason is,
 * ucma_complete() (cma.c) then sets errno to EPERM.
 */
static const char *reason_of(const struct rdma_cm_id *id, int error)
{
	return id->event && id->event->status == -1
		       ? "librdmacm failed and gives no reason (the kernel may deny access to "
			 "/dev/infiniband)"
		       : strerror(error);
}

/* Set the facts about a device with node GUID 0. */
static void describe_unfound(struct path *path, struct ibv_context *device)
{
	evidence_set(path->evidence, FACT_node_guid, "0");
	evidence_set(path->evidence, FACT_device, ibv_get_device_name(device->device));
	evidence_set(path->evidence, FACT_transport, host_transport(device->device->ibdev_path, 1));
}

void path_collect_evidence(struct path *path)
{
	const struct devices *devices = path->devices;

	if (devices->view.device_count > 0 && !devices->any_usable && !devices->any_broken) {
		evidence_set(path->evidence, FACT_unusable,
			     !devices->any_reliable ? "unreliable"
			     : devices->any_active  ? "unreached"
						    : "down");
		if (devices->unfound && devices->any_active)
			describe_unfound(path, devices->unfound);
	}
	if (evidence_is(path->evidence, FACT_drivers, "")) /* not collected yet */
		evidence_collect(path->evidence, devices->view_error ? NULL : &devices->view,
				 &path->flow);
}

/* If no address is left to try, collect facts, and return true if a rule explains the failure. */
static bool find_cause(struct path *path)
{
	if (path->untried)
		return false;
	path_collect_evidence(path);
	return reach_classify(path->evidence);
}

/* Report why the address is not resolved. Return false. */
static bool unresolved_address(struct path *path, const struct rdma_cm_id *id, int error)
{
	const struct sockaddr *source = path->flow.source;
	bool incomplete = error == EINVAL && source && lacks_interface(source);

	if (no_port_is_free(error))
		return unresolved(path, "address", NO_PORT_REASON, NO_PORT_ADVICE);
	if (!incomplete && find_cause(path)) /* the finding of step "reach" gives advice */
		return unresolved(path, "address", reason_of(id, error), NULL);
	return unresolved(path, "address", reason_of(id, error),
			  address_advice(error, source, path->flow.address).text);
}

/*
 * Resolve the address. If no neighbour answers, try again until `deadline`. Return 0 or an errno
 * value.
 */
static int resolve(struct path *path, struct rdma_cm_id *id, int64_t deadline)
{
	int error;

	do
		error = resolve_address(id, path->flow.source, path->address->ai_addr, deadline)
				? errno
				: 0;
	while (error == ETIMEDOUT);
	if (!error && !id->verbs) /* librdmacm found no device */
		error = ENODEV;
	return error == ETIME ? ETIMEDOUT : error;
}

/*
 * Over RoCE v2, report if the network interface protects packets from drops under congestion, by
 * their DSCP. RoCE v1 has none. Give advice only with --tos.
 */
static void report_congestion(struct path *path, struct rdma_cm_id *id)
{
	char name[IF_NAMESIZE];
	int tos = type_of_service(id);
	struct ibv_gid_entry gid;

	if (tos < 0 || path->roce_v1 || !find_gid(id, &gid) ||
	    !if_indextoname(gid.ndev_ifindex, name))
		return;
	strbuf_addf(&path->findings->found, "%s", name);
	if (congestion_find_lower("", name))
		strbuf_addf(&path->findings->found, " above %s", name);
	strbuf_addf(&path->findings->found, ": type of service %d; ", tos);
	if (congestion_describe(name, (unsigned int)tos, &path->findings->found) &&
	    path->options->tos != DEFAULT_TOS)
		congestion_advise(name, (unsigned int)tos, &path->findings->advice);
	findings_report(path->findings, "congestion", true);
}

/*
 * Resolve the address and then the route before `deadline` (now_milliseconds()), and report both.
 * Store the MTU of the path, or over iWARP that of the port. Return false if the address or the
 * route is not resolved.
 */
static bool check_route(struct path *path, struct rdma_cm_id *id, int64_t deadline)
{
	int error = resolve(path, id, deadline);
	struct ibv_port_attr port;
	int64_t remaining;

	evidence_set_error(path->evidence, FACT_error, error);
	if (error)
		return unresolved_address(path, id, error);
	report_address(path, id);
	remaining = deadline - now_milliseconds();
	if (rdma_resolve_route(id, remaining > 1 ? (int)remaining : 1))
		return unresolved(path, "route", reason_of(id, errno),
				  route_advice(path->flow.address));
	path->mtu = path_mtu(id);
	strbuf_addf(&path->findings->found, "resolved");
	if (path->mtu > 0)
		strbuf_addf(&path->findings->found, ", MTU of the path %u bytes", path->mtu);
	else if (!ibv_query_port(id->verbs, id->port_num, &port))
		path->mtu = mtu_bytes(port.active_mtu);
	findings_report(path->findings, "route", true);
	report_congestion(path, id);
	return true;
}

/*
 * Return false if this host drops RoCE v2 packets of a software device (evidence_try_send()). A
 * hardware adapter sends without the kernel, so no filter of this host drops its packets.
 */
static bool can_send(const struct path *path)
{
	return path->iwarp || path->infiniband || path->roce_v1 || !path->is_software ||
	       evidence_try_send(path->evidence, &path->flow);
}

static bool refuse_source(struct path *path, const char *reason, const char *advice)
{
	strbuf_addf(&path->findings->found, "not resolved: cannot connect from '%s': %s",
		    ellipsize(path->options->bind).text, reason);
	strbuf_addf(&path->findings->advice, "%s", advice);
	return findings_report(path->findings, "address", false);
}

/*
 * If the device of the route has node GUID 0, report that, and return true. Do not resolve such an
 * address: before release 56 librdmacm would end this process (guid.h).
 */
static bool has_unfound_device(struct path *path)
{
	struct ibv_context *device =
		guid_find_for(path->devices->view.devices, path->flow.source, path->flow.address);

	if (!device)
		return false;
	describe_unfound(path, device);
	evidence_set_error(path->evidence, FACT_error, ENODEV);
	unresolved(path, "address", "librdmacm cannot find the RDMA device of the route",
		   find_cause(path) ? NULL : guid_describe(device).text);
	return true;
}

/*
 * Find the route to path->address, describe it in `path`, and try to register memory with its
 * device. Return false if there is no route, or if can_send() returns false.
 */
static bool check_address(struct path *path)
{
	int64_t deadline = now_milliseconds() + timeout_milliseconds(path->options);
	struct strbuf reason = { 0 };
	struct rdma_cm_id *id;
	bool found;
	int error;

	if (path->sources && !path->flow.source)
		return refuse_source(path, "its address family differs from the server's",
				     "give --bind an address of this host ('ip address') of the "
				     "same family (IPv4 or IPv6) as the server's address");
	if (has_unfound_device(path))
		return false;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		error = errno;
		evidence_set_error(path->evidence, FACT_error, error);
		strbuf_addf(&reason, "cannot use the connection manager: %s", strerror(error));
		return unresolved(path, "address", reason.text, descriptor_advice(error));
	}
	if (set_type_of_service(id, path->options)) {
		strbuf_addf(&reason, "cannot set --tos: %s", strerror(errno));
		found = unresolved(path, "address", reason.text, NULL);
	} else {
		found = check_route(path, id, deadline);
	}
	if (found) {
		const char *device = id->verbs->device->ibdev_path;

		path->is_software = host_is_software(device);
		found = can_send(path);
		path->gid[0] = '\0';
		if (!path->iwarp)
			inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.dgid, path->gid,
				  sizeof(path->gid));
		devices_try_memory(path->devices, id->verbs);
		path->link_rate =
			path->is_software ? 0 : host_port_rate(device, id->port_num) * 1e9;
	}
	rdma_destroy_id(id);
	return found;
}

bool path_look_up(struct path *path)
{
	const struct options *options = path->options;
	int error = look_up_name(options->address, options->port, &path->addresses);

	if (error) {
		strbuf_addf(&path->findings->found, "'%s' not resolved: %s",
			    ellipsize(options->address).text, lookup_error(error));
		strbuf_addf(&path->findings->advice, "%s",
			    name_advice(error, options->address, false).text);
		return findings_report(path->findings, "name", false);
	}
	path->untried = path->addresses;
	error = options->bind ? look_up_name(options->bind, NULL, &path->sources) : 0;
	return !error || refuse_source(path, lookup_error(error),
				       name_advice(error, options->bind, true).text);
}

bool path_find_next(struct path *path)
{
	const struct evidence facts = *path->evidence;
	const struct path before = *path;
	bool found = false;

	while (path->untried && !found) {
		path->address = path->untried;
		path->untried = path->untried->ai_next;
		strbuf_addf(&path->findings->found, "'%s' is %s",
			    ellipsize(path->options->address).text,
			    endpoint_of(path->address->ai_addr).address);
		findings_report(path->findings, "name", true);
		path->flow.address = path->address->ai_addr;
		path->flow.source = choose_source(path->sources, path->address);
		path->flow.tos = path->options->tos == DEFAULT_TOS ? 0 : path->options->tos;
		memset(path->evidence, 0, sizeof(*path->evidence));
		evidence_set(path->evidence, FACT_address,
			     endpoint_of(path->address->ai_addr).address);
		evidence_set_number(path->evidence, FACT_tos, path->flow.tos);
		found = check_address(path);
	}
	if (!found && before.flow.address) { /* restore the address that had a route */
		*path = before;
		path->untried = NULL;
		*path->evidence = facts;
	}
	return found;
}

void path_release(struct path *path)
{
	if (path->addresses)
		freeaddrinfo(path->addresses);
	if (path->sources)
		freeaddrinfo(path->sources);
}
