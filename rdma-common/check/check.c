// SPDX-License-Identifier: MIT
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../memory.h"
#include "congestion.h"
#include "host.h"

/* A limit of locked memory below this does not do for much: an ordinary user has 8 MiB on Debian.
 */
#define MODEST_LOCKED_MEMORY ((uint64_t)64 * 1024 * 1024)
/* The RDMA MTU of Ethernet's usual 1500 bytes: a limit on the path is below that or above. */
#define USUAL_MTU 1024
/* A busy server, where a session ends a little later than here, is asked again so soon. */
#define BUSY_MILLISECONDS 100
/*
 * How many times as fast as the other a direction has to be to be called slow: emulated hosts, and
 * those that share processors, differ by less. Each is measured twice before that is said.
 * And how many times as fast others have to be of the sessions that run at once.
 */
#define MUCH_SLOWER 3
/*
 * To measure latency so many bytes are read so often; where that takes long, less often, but not
 * less than so often.
 */
#define READ_SIZE   8
#define MOST_READS  1000
#define LEAST_READS 10

/* ---- Findings ---- */

/* An object for the finding, in the array of its step. */
static struct json_object *add_object(struct check *check, const char *step, bool good)
{
	struct json_object *finding = json_object_new_object(), *all;

	json_add_text(finding, "status", good ? "ok" : "failed");
	json_add_text(finding, "text", check->found.text);
	json_add_text(finding, "advice", check->advice.length > 0 ? check->advice.text : NULL);
	if (!json_object_object_get_ex(check->findings, step, &all)) {
		all = json_object_new_array();
		json_object_object_add(check->findings, step, all);
	}
	json_object_array_add(all, finding);
	return finding;
}

/*
 * Reports what check->found says of a step, and what to change. Returns whether that is `good`;
 * check->finding is its object of JSON, be that wanted or not.
 */
static bool report(struct check *check, const char *step, bool good)
{
	if (!good && check->complaint.length == 0)
		append(&check->complaint, "%s: %s%s%s", step, check->found.text,
		       check->advice.length > 0 ? "; " : "", check->advice.text);
	check->finding = add_object(check, step, good);
	if (!check->options->json)
		print_result(check->process->console, "%-9s %s", step, check->found.text);
	if (!check->options->json && check->advice.length > 0)
		print_result(check->process->console, "  -> %s", check->advice.text);
	check->found = check->advice = (struct words){ 0 };
	return good;
}

/* ---- Devices ---- */

/*
 * Ask the connection manager which port of which device an address leads to, and keep the answer if
 * it names one. The kernel finds a device only if this network namespace has the network interface
 * (cma_acquire_dev_by_src_ip() of its cma.c), whatever GIDs the device shows here; librdmacm only
 * if it can open the device. Return 0, or an errno value if the connection manager cannot be asked.
 */
static int bind_address(struct host_view *view, const struct ifaddrs *one)
{
	struct host_address *found = &view->addresses[view->address_count];
	struct rdma_cm_id *id;

	if (!one->ifa_addr ||
	    (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
		return 0;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return errno;
	/* a loopback address is accepted, but leads to no device */
	if (!rdma_bind_addr(id, one->ifa_addr) && id->verbs) {
		*found = (struct host_address){ .verbs = id->verbs,
						.port = id->port_num,
						.gid = id->route.addr.addr.ibaddr.sgid };
		/* an IPv4 address may have a label: "eth0:1" */
		snprintf(found->interface, sizeof(found->interface), "%.*s",
			 (int)strcspn(one->ifa_name, ":"), one->ifa_name);
		found->interface_index = if_nametoindex(found->interface);
		view->address_count++;
	}
	rdma_destroy_id(id);
	return 0;
}

/* Find all addresses of this network namespace that lead to a device. 0 or an errno value. */
static int find_own_addresses(struct host_view *view)
{
	struct ifaddrs *all;
	size_t count = 0;
	int error = 0;

	if (getifaddrs(&all))
		return errno;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		count++;
	view->addresses = calloc(count + 1, sizeof(*view->addresses));
	if (!view->addresses)
		error = ENOMEM;
	for (const struct ifaddrs *one = all; one && !error; one = one->ifa_next)
		error = bind_address(view, one);
	freeifaddrs(all);
	return error;
}

/* One port of a device; whether it can be used. */
static bool check_port(struct check *check, struct ibv_context *verbs, uint8_t number)
{
	enum ibv_transport_type transport = verbs->device->transport_type;
	bool iwarp = transport == IBV_TRANSPORT_IWARP, reliable, active, reached;
	struct ibv_port_attr port;
	int error = verb_error(ibv_query_port(verbs, number, &port));

	append(&check->found, "%s port %u: ", ibv_get_device_name(verbs->device), number);
	if (error) {
		append(&check->found, "cannot be queried: %s", strerror(error));
		return report(check, "device", false);
	}
	append(&check->found, "%s, %s", transport_name(verbs, &port),
	       ibv_port_state_str(port.state));
	if (!iwarp)
		append(&check->found, ", MTU %u of %u bytes", mtu_bytes(port.active_mtu),
		       mtu_bytes(port.max_mtu));
	reliable = iwarp || transport == IBV_TRANSPORT_IB;
	active = port.state == IBV_PORT_ACTIVE;
	reached = check->view_error || host_find_address(&check->view, verbs, number);
	if (!reliable) /* EFA */
		append(&check->advice, "it has no reliable connections, which all sessions need");
	else if (!active)
		append(&check->advice,
		       "it carries nothing; plug the cable in, set the network interface up ('ip "
		       "link'), or start the subnet manager of InfiniBand");
	else if (!reached)
		append(&check->advice,
		       "no address of this network namespace leads to it: give its network "
		       "interface one ('rdma link', 'ip address', IPoIB for InfiniBand); give a "
		       "container that interface, or the host's network");
	else if (port.link_layer == IBV_LINK_LAYER_ETHERNET && port.active_mtu < port.max_mtu &&
		 !iwarp)
		append(&check->advice,
		       "larger packets are faster: raise the MTU of the network interface, as on "
		       "the other host and between ('ip link set ... mtu 4200')");
	return report(check, "device", reliable && active && reached);
}

/* Return what to change if this user cannot open the connection manager; NULL: nothing. */
static const char *advise_rdma_cm(void)
{
	if (!access("/dev/infiniband/rdma_cm", R_OK | W_OK))
		return NULL;
	return "this user may not open /dev/infiniband/rdma_cm, or it is not there: see its mode, "
	       "and load the module rdma_ucm";
}

/* What to change where there is no device: to most of them this user may have no access. */
static const char *advise_no_device(int error)
{
	const char *advice = descriptor_advice(error);

	if (advice)
		return advice;
	if (access("/dev/infiniband", X_OK))
		return "there is no /dev/infiniband: load the modules ib_uverbs and rdma_ucm; in a "
		       "container, give it the files of that folder ('--device'); without an "
		       "adapter, make a software device ('modprobe rdma_rxe', 'rdma link add rdma0 "
		       "type rxe netdev eth0')";
	advice = advise_rdma_cm();
	if (advice)
		return advice;
	return "see 'rdma link'; load the driver's modules, or make a software device ('rdma link "
	       "add rdma0 type rxe netdev eth0'); may this user open /dev/infiniband/uverbs0?";
}

/* The ports of a device; whether one can be used. */
static bool check_device(struct check *check, struct ibv_context *verbs)
{
	struct ibv_device_attr attributes;
	int error = verb_error(ibv_query_device(verbs, &attributes));
	bool usable = false;

	if (error) {
		append(&check->found, "%s: cannot be queried: %s",
		       ibv_get_device_name(verbs->device), strerror(error));
		return report(check, "device", false);
	}
	/* as many as a uint8_t counts: it would be 0 behind the last one */
	for (unsigned int port = 1; port <= attributes.phys_port_cnt; port++)
		usable |= check_port(check, verbs, (uint8_t)port);
	return usable;
}

/* Registers so much with the device, for a moment. 0 or an errno value. */
static int try_to_register(const struct check *check, struct ibv_context *verbs, size_t size)
{
	void *memory = memory_map(size);
	struct ibv_pd *pd = memory ? ibv_alloc_pd(verbs) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct console *console = check->process->console;
	int error = mr ? 0 : errno, stays;

	stays = mr ? verb_error(ibv_dereg_mr(mr)) : 0;
	if (stays)
		print_warning(console, "cannot deregister %zu bytes of memory: %s", size,
			      strerror(stays));
	else if (memory)
		memory_unmap(memory, size);
	stays = pd ? verb_error(ibv_dealloc_pd(pd)) : 0;
	if (stays)
		print_warning(console, "cannot free a protection domain: %s", strerror(stays));
	return error;
}

/*
 * Find out by trying what can be registered: what the smallest session needs, and more than the
 * locked-memory limit, if there is memory for that: a driver may apply the limit where the kernel
 * does not, or not at all. What fails although it is below the limit does not fail because of it.
 */
static void try_memory(struct check *check, struct ibv_context *verbs)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), needed = SESSION_PAGES * page;
	struct lock_limit lock = memory_lock_limit();

	check->memory_error = try_to_register(check, verbs, needed);
	check->memory_tried = true;
	if (check->memory_error)
		check->lock_limited = lock.bytes < needed && (check->memory_error == ENOMEM ||
							      check->memory_error == EPERM);
	else if (lock.bytes < MODEST_LOCKED_MEMORY && lock.bytes < memory_budget("").total)
		check->lock_limited = try_to_register(check, verbs, (size_t)lock.bytes + page) != 0;
	else
		check->lock_limited = lock.bytes != UINT64_MAX;
}

/* Report that no address of this host could be bound, so that no port is known to be usable. */
static bool report_unbound(struct check *check)
{
	const char *advice = descriptor_advice(check->view_error);

	if (!advice)
		advice = advise_rdma_cm();
	append(&check->found, "not known which port an address of this host leads to: %s",
	       strerror(check->view_error));
	append(&check->advice, "%s", advice ? advice : "");
	return report(check, "device", false);
}

/* Those of all devices; without an address, memory is tried with each, else with the route's. */
static bool check_devices(struct check *check)
{
	struct host_view *view = &check->view;
	bool usable = false;
	int count = 0, error;

	errno = 0;
	view->devices = rdma_get_devices(&count);
	error = view->devices ? 0 : errno;
	view->device_count = view->devices ? (size_t)count : 0;
	if (view->device_count > 0)
		check->view_error = find_own_addresses(view);
	for (size_t i = 0; i < view->device_count; i++) {
		usable |= check_device(check, view->devices[i]);
		if (!check->options->address && !check->memory_error)
			try_memory(check, view->devices[i]);
	}
	if (check->view_error)
		return report_unbound(check);
	if (view->device_count > 0)
		return usable;
	append(&check->found, "none");
	if (descriptor_advice(error))
		append(&check->found, ": %s", strerror(error));
	append(&check->advice, "%s", advise_no_device(error));
	return report(check, "device", false);
}

/* One of sysfs: as host_report_function says. */
static void report_host(void *argument, const struct host_finding *finding)
{
	struct check *check = argument;

	check->found = finding->text;
	check->advice = finding->advice;
	check->limited |= finding->limited;
	report(check, finding->step, !finding->limited);
}

/* ---- Memory ---- */

/*
 * Report what may be locked. Where no device was tried, the kernel's limit alone is known. False:
 * there is not enough for a session.
 */
static bool check_locked_memory(struct check *check)
{
	struct lock_limit lock = memory_lock_limit();
	bool good = !check->memory_error;
	bool limited = check->memory_tried ? check->lock_limited : lock.applies;
	const char *advice = shortage_advice(check->memory_error);

	if (!check->memory_tried && !limited)
		return true;
	if (!good)
		append(&check->found, "%ld KiB, which a session needs, cannot be registered: %s%s",
		       SESSION_PAGES * sysconf(_SC_PAGESIZE) / 1024, strerror(check->memory_error),
		       limited ? "; " : "");
	if (limited)
		append(&check->found, "%" PRIu64 " KiB may be locked", lock.bytes / 1024);
	if (good)
		append(&check->found, limited ? ": the rings of longer payloads are made to fit"
					      : "may be locked without limit");
	if (!good && limited && lock.bytes < MODEST_LOCKED_MEMORY)
		append(&check->advice, "raise it " RAISE_LOCK_LIMIT);
	else if (advice)
		append(&check->advice, "%s", advice);
	return report(check, "memory", good);
}

/* ---- Address and route ---- */

static const char *gid_type_name(uint32_t type)
{
	if (type == IBV_GID_TYPE_ROCE_V1)
		return "RoCE v1";
	return type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "InfiniBand";
}

/* Reports from where the address is reached: the GID is the one that a connection would use. */
static void report_address(struct check *check, struct rdma_cm_id *id)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct ibv_gid_entry gid;
	const char *advice = NULL;

	check->infiniband = check->roce_v1 = false;
	append(&check->found, "resolved: from %s by %s port %u",
	       endpoint_of(rdma_get_local_addr(id)).address, ibv_get_device_name(id->verbs->device),
	       id->port_num);
	if (id->verbs->device->transport_type != IBV_TRANSPORT_IWARP && find_gid(id, &gid)) {
		bool named = gid.ndev_ifindex && if_indextoname(gid.ndev_ifindex, name);

		check->infiniband = gid.gid_type == IBV_GID_TYPE_IB;
		check->roce_v1 = gid.gid_type == IBV_GID_TYPE_ROCE_V1;
		if (!check->infiniband)
			advice = host_gid_advice(gid.gid.raw, !check->roce_v1);
		append(&check->found, ", GID %u (%s, %s%s%s)", gid.gid_index,
		       inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)),
		       gid_type_name(gid.gid_type), named ? ", " : "", named ? name : "");
	}
	append(&check->advice, "%s", advice ? advice : "");
	report(check, "address", true);
}

/* Why an address or a route is not: what failed, if that is not the resolving itself. False. */
static bool unresolved(struct check *check, const char *step, const char *attempt,
		       const char *reason, const char *advice)
{
	append(&check->found, "not resolved: %s%s", attempt, reason);
	append(&check->advice, "%s", advice);
	return report(check, step, false);
}

/*
 * Return true if the last call on `id` may have failed in librdmacm, after a good event of the
 * kernel. The call's errno is EPERM then, whatever the reason was (ucma_complete() in its cma.c).
 */
static bool hides_reason(const struct rdma_cm_id *id)
{
	return id->event && id->event->status == -1;
}

static const char *reason_of(const struct rdma_cm_id *id, int error)
{
	return hides_reason(id)
		       ? "librdmacm failed and does not say why, or the kernel does not permit it"
		       : strerror(error);
}

/* Return what helps if the address of `id` is not resolved. */
static const char *address_advice(const struct check *check, const struct rdma_cm_id *id, int error)
{
	const char *loopback = loopback_advice(check->address->ai_addr);

	if (hides_reason(id))
		return "look for the RDMA device that leads there with 'ibv_devices', and check "
		       "that this user may open the files in /dev/infiniband";
	if (error == EADDRNOTAVAIL && check->sources)
		return "give --bind an address of this host ('ip address')";
	if (loopback)
		return loopback;
	return "is the host up ('ping')? Does 'ip route get' lead over a network interface that "
	       "'rdma link' names?";
}

/*
 * Resolves the address, from that of --bind if there is one, in as many attempts as fit in before
 * `deadline`. 0 or an errno value.
 */
static int resolve(struct check *check, struct rdma_cm_id *id, int64_t deadline)
{
	struct sockaddr *source = choose_source(check->sources, check->address);
	int error;

	do
		error = resolve_address(id, source, check->address->ai_addr, deadline) ? errno : 0;
	while (error == ETIMEDOUT);
	return error == ETIME ? ETIMEDOUT : error;
}

/*
 * How the network interface keeps RoCE's packets from being dropped where the network is full. RoCE
 * v1 has no IP header, and so no DSCP.
 */
static void report_congestion(struct check *check, struct rdma_cm_id *id)
{
	char name[IF_NAMESIZE];
	int tos = type_of_service(id);
	struct ibv_gid_entry gid;

	if (tos < 0 || check->roce_v1 || !find_gid(id, &gid) ||
	    !if_indextoname(gid.ndev_ifindex, name))
		return;
	append(&check->found, "%s: type of service %d; ", name, tos);
	if (congestion_describe(name, (unsigned int)tos, &check->found) &&
	    check->options->tos != DEFAULT_TOS)
		congestion_advise(name, (unsigned int)tos, &check->advice);
	report(check, "lossless", true);
}

/*
 * Resolves the address and then the route, before `deadline` as now_milliseconds() counts, and
 * keeps what sessions are judged by. False: the findings say why not.
 */
static bool check_route(struct check *check, struct rdma_cm_id *id, int64_t deadline)
{
	const char *loopback = loopback_advice(check->address->ai_addr);
	int error = resolve(check, id, deadline);
	struct ibv_port_attr port;
	int64_t remaining;

	if (error)
		return unresolved(check, "address", "", reason_of(id, error),
				  address_advice(check, id, error));
	report_address(check, id);
	remaining = deadline - now_milliseconds();
	if (rdma_resolve_route(id, remaining > 1 ? (int)remaining : 1))
		return unresolved(check, "route", "", reason_of(id, errno),
				  loopback ? loopback
					   : "InfiniBand: is the subnet manager running?");
	check->mtu = path_mtu(id);
	append(&check->found, "resolved");
	if (check->mtu > 0)
		append(&check->found, ", MTU of the path %u bytes", check->mtu);
	else if (!ibv_query_port(id->verbs, id->port_num, &port))
		check->mtu = mtu_bytes(port.active_mtu);
	report(check, "route", true);
	report_congestion(check, id);
	return true;
}

/* Reports why no connection can be made from the address of --bind. False. */
static bool refuse_source(struct check *check, const char *reason)
{
	append(&check->found, "not resolved: cannot connect from '%s': %s",
	       short_name(check->options->bind).text, reason);
	append(&check->advice, "give --bind an address of this host ('ip address') of the family "
			       "of the one to connect to");
	return report(check, "address", false);
}

/* Finds the route to check->address. False: it has none, and the findings say why. */
static bool check_address(struct check *check)
{
	int64_t deadline = now_milliseconds() + timeout_milliseconds(check->options);
	struct rdma_cm_id *id;
	bool found;

	if (check->sources && !choose_source(check->sources, check->address))
		return refuse_source(check, "it is of another family");
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		int error = errno;
		const char *advice = descriptor_advice(error);

		return unresolved(check, "address",
				  "cannot use the connection manager: ", strerror(error),
				  advice ? advice : "is the module rdma_ucm loaded?");
	}
	if (set_type_of_service(id, check->options))
		found = unresolved(check, "address", "cannot set --tos: ", strerror(errno), "");
	else
		found = check_route(check, id, deadline);
	if (found) {
		const char *device = id->verbs->device->ibdev_path;

		check->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
		check->gid[0] = '\0';
		if (!check->iwarp)
			inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.dgid, check->gid,
				  sizeof(check->gid));
		try_memory(check, id->verbs);
		check->is_software = host_is_software(device);
		check->link_rate =
			check->is_software ? 0 : host_port_rate(device, id->port_num) * 1e9;
	}
	rdma_destroy_id(id);
	return found;
}

/* The addresses of the host, and of --bind. False: one has none. */
static bool find_addresses(struct check *check)
{
	const struct options *options = check->options;
	int error = look_up_name(options->address, options->port, &check->addresses);

	if (error) {
		append(&check->found, "'%s' not resolved: %s", short_name(options->address).text,
		       lookup_error(error));
		append(&check->advice, "give an address, or add the name to /etc/hosts");
		return report(check, "name", false);
	}
	check->untried = check->addresses;
	error = options->bind ? look_up_name(options->bind, NULL, &check->sources) : 0;
	return !error || refuse_source(check, lookup_error(error));
}

/* Each of them in turn, until a route to one is found. False: there is none to the rest. */
static bool find_next_address(struct check *check)
{
	bool found = false;

	while (check->untried && !found) {
		check->address = check->untried;
		check->untried = check->untried->ai_next;
		append(&check->found, "'%s' is %s", short_name(check->options->address).text,
		       endpoint_of(check->address->ai_addr).address);
		report(check, "name", true);
		found = check_address(check);
	}
	return found;
}

/* ---- What a session shows ---- */

/* True if packets may have been lost: the peer is silent, or its adapter. */
static bool is_silence(enum status status)
{
	return status == STATUS_TIMED_OUT || status == STATUS_PEER_LOST;
}

/*
 * How far one direction came. Digests are compared once both operations are done; of one alone the
 * adapters say that it has completed.
 */
static enum passage judge_passage(bool verified, bool completed)
{
	if (verified)
		return PASSAGE_VERIFIED;
	return completed ? PASSAGE_ARRIVED : PASSAGE_UNKNOWN;
}

/* How far both directions of the session came. */
static void judge(struct check *check)
{
	const struct protocol *protocol = &check->outcome.protocol;
	bool peer_operated = protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT;
	bool operated = protocol->local >= LOCAL_OPERATION_COMPLETED && !protocol->gave_up;
	bool writes = check->session.operation == OPERATION_WRITE;
	bool taken = protocol->remote == REMOTE_VERDICT && protocol->verdict == STATUS_SUCCESS;

	check->to_client =
		judge_passage(protocol_verified(protocol), writes ? peer_operated : operated);
	/* over iWARP the completion of a WRITE says no more than that TCP has the bytes */
	check->to_server = judge_passage(taken, writes ? operated && !check->iwarp : peer_operated);
}

/* What to change where no connection stood, unless the cause says all. */
static void advise_connecting(struct check *check)
{
	const struct connection *connection = &check->outcome;
	bool told = rejection_reason(&connection->rejection) != REFUSAL_NONE;
	bool silent = is_silence(connection->status);

	if (check->verified == 1 && !told && (silent || connection->status == STATUS_REFUSED))
		append(&check->advice, "the server took a session, and no other behind it: start "
				       "it without --one-off");
	else if (silent && check->verified > 0)
		append(&check->advice, "it took sessions before: the server has ended or stands "
				       "still, or the path to it is down; see to that, and begin "
				       "again");
	else if (silent && check->iwarp)
		append(&check->advice, "the host answers, but not this TCP port: open it in the "
				       "firewalls of both hosts and between ('nft list ruleset'); "
				       "is the server running?");
	else if (silent && check->infiniband)
		append(&check->advice,
		       "the RDMA connection manager there does not answer: does the address belong "
		       "to the server's RDMA device, is the server running, and are both hosts in "
		       "one partition ('ibdiagnet')?");
	else if (silent && check->roce_v1)
		append(&check->advice,
		       "check that the server runs and is not stopped, that the address belongs to "
		       "its RDMA device, and that no router is on the path: RoCE v1 (Ethernet type "
		       "0x8915) passes none");
	else if (silent)
		append(&check->advice,
		       "is the server running, and not stopped? Else open UDP port 4791 in the "
		       "firewalls of both hosts and between ('nft list ruleset'); does the "
		       "address belong to the server's RDMA device?");
}

/* What the server told of itself. */
static void report_server(struct check *check)
{
	const struct connection *connection = &check->outcome;
	const char *name = connection->agreement.peer.device;
	/* over InfiniBand the subnet manager has seen to that of the path */
	unsigned int mtu = check->iwarp || check->infiniband
				   ? 0
				   : mtu_bytes((enum ibv_mtu)connection->agreement.peer.mtu);
	char *device = escape((const uint8_t *)name, strlen(name));

	append(&check->found, "%s: rdma-server %s", connection->peer.text,
	       connection->agreement.peer.flags & HELLO_ANY_OPERATION
		       ? "for both modes"
		       : operation_name(check->session.operation));
	if (device && *device)
		append(&check->found, ", device %s", device);
	if (check->gid[0])
		append(&check->found, ", GID %s", check->gid);
	if (mtu > 0)
		append(&check->found, ", MTU of its port %u bytes", mtu);
	/* both sides send packets of the client's MTU: its request carries that */
	if (mtu > 0 && mtu < check->mtu)
		append(&check->advice,
		       "the MTU is %u bytes here and %u there: set it the same on both hosts and "
		       "between ('ip link set ... mtu'), or packets above %u bytes may vanish",
		       check->mtu, mtu, mtu);
	report(check, "server", true);
	json_add_text(check->finding, "device", *name ? name : NULL);
	free(device);
}

/*
 * The size for ping(8) that makes packets as long as an RDMA WRITE of the size in question. Behind
 * the IP header, RoCE v2 has 8 bytes of UDP, 12 of BTH, 16 of RETH, the payload in words of 4, and
 * 4 of ICRC; ping has 8 of ICMP. RoCE v1 has 40 bytes of GRH in place of IP and UDP. Over iWARP,
 * TCP cuts as it likes.
 */
static uint64_t ping_size(const struct check *check)
{
	unsigned int ip = check->address->ai_family == AF_INET6 ? 40 : 20;

	if (check->iwarp)
		return check->size;
	return (check->size + 3) / 4 * 4 + (check->roce_v1 ? 40 - ip : 8) + 12 + 16 + 4 - 8;
}

/* Return what to open so that the packets of a connection pass. */
static const char *advise_opening(const struct check *check)
{
	if (check->iwarp)
		return "let the firewalls pass the TCP port whatever the other port is";
	return check->roce_v1 ? "let switches and bridges pass RoCE v1 (Ethernet type 0x8915)"
			      : "let the firewalls pass UDP port 4791 whatever the other port is";
}

/* What to change where a connection stood, but packets of this size are lost. */
static void advise_size(struct check *check)
{
	const char *direction = "in one direction at least";

	if (check->to_server >= PASSAGE_ARRIVED && check->to_client >= PASSAGE_ARRIVED)
		return;
	if (check->to_server == PASSAGE_FAILED)
		direction = "from client to server";
	else if (check->to_client == PASSAGE_FAILED)
		direction = "from server to client";
	if (check->infiniband)
		append(&check->advice,
		       "though the connection stands, packets are lost %s: look at the path that "
		       "the subnet manager has made, at its MTU, and at the counters of its links "
		       "('ibdiagnet', 'ibtracert', 'perfquery')",
		       direction);
	else if (check->verified == 0)
		append(&check->advice, "not a byte passes %s, though the connection stands: %s",
		       direction, advise_opening(check));
	else if (check->verified < check->mtu) /* else one of the largest packets has passed */
		append(&check->advice,
		       "packets above %" PRIu64 " bytes vanish %s, at %" PRIu64
		       " at the latest: a host or switch on the path has a smaller MTU than the "
		       "adapters use, %u bytes and headers; set it the same everywhere ('ip link "
		       "set ... mtu', and the ports of switches; 'ping -M do -s %" PRIu64
		       "' from both hosts tries it)",
		       check->verified, direction, check->size, check->mtu, ping_size(check));
	else
		append(&check->advice,
		       "packets of every size pass, but not so many of them %s: look at the "
		       "counters, at flow control (PFC, ECN), and at cables and switches",
		       direction);
}

/* The result of a size, in each direction. */
static void report_transfer(struct check *check)
{
	static const char *const names[] = { "not known", "failed", "arrived", "verified" };
	const char *to_server = names[check->to_server], *to_client = names[check->to_client];
	bool good = check->failure.status == STATUS_SUCCESS;

	append(&check->found, "%" PRIu64 " byte%s: client to server %s, server to client %s%s%s",
	       check->size, check->size > 1 ? "s" : "", to_server, to_client, good ? "" : ": ",
	       check->failure.cause);
	report(check, "transfer", good);
	json_add_count(check->finding, "bytes", check->size);
	json_add_text(check->finding, "client_to_server", to_server);
	json_add_text(check->finding, "server_to_client", to_client);
}

/* ---- Sessions ---- */

/*
 * True if a server that rejected the connection may accept one in a moment: a session ends, and the
 * memory of one of these, which ends a little later there than here. An older server does not say
 * what it is out of. Over iWARP the reason may be lost: the reset of the connection overtakes it.
 */
static bool may_accept_soon(const struct check *check, const struct introduction *server)
{
	enum resource lacking = (enum resource)server->hello.lacking;

	if (server->greeting == GREETING_NONE)
		return check->iwarp && check->verified > 0;
	if (rejection_reason(server) != REFUSAL_RESOURCES)
		return false;
	if (lacking == RESOURCE_MEMORY)
		return check->verified > 0;
	return lacking != RESOURCE_STORAGE && lacking != RESOURCE_OTHER;
}

/* True if the rejection shows nothing yet: the server does the other operation, or is busy. */
static bool may_be_accepted(struct check *check, const struct introduction *server,
			    int64_t busy_deadline)
{
	bool other_mode =
		server->greeting == GREETING_NONE || rejection_reason(server) == REFUSAL_OPERATION;

	if (!check->mode_is_known && other_mode) {
		check->mode_is_known = true;
		check->session.operation = check->session.operation == OPERATION_READ
						   ? OPERATION_WRITE
						   : OPERATION_READ;
		return true;
	}
	check->mode_is_known = true;
	check->start = now_milliseconds() + BUSY_MILLISECONDS;
	return check->start < busy_deadline && may_accept_soon(check, server);
}

/*
 * A session in which the client sends so many bytes, and the server as many or one. False: it did
 * not come about.
 */
static bool try_session(struct check *check, uint64_t size, bool short_reply)
{
	const struct connection *connection = &check->outcome;
	int64_t busy_deadline = now_milliseconds() + timeout_milliseconds(check->options);
	bool complete;

	check->session.pattern_size = size;
	check->session.short_reply = short_reply;
	do {
		check->path_count = 0;
		check->run(check, check->argument);
		complete = check->path_count == check->session.connections;
		if (check->path_count == 0)
			return false;
	} while (complete && connection->rejected &&
		 may_be_accepted(check, &connection->rejection, busy_deadline));
	if (connection->protocol.connected)
		check->mode_is_known = true;
	if (check->told_errors > 0) /* one more than there are: that counts once */
		check->peer_errors += check->told_errors - (check->peer_errors > 0);
	if (connection->status != STATUS_SUCCESS &&
	    (check->failure.status == STATUS_SUCCESS || check->failure.status == STATUS_TOO_SLOW ||
	     connection->status == STATUS_INTERRUPTED))
		failure_set(&check->failure, connection->status, "%s", connection->cause);
	return complete;
}

/*
 * After silence in both directions, this size to the server, and one byte back. True: what is known
 * now shows what to change.
 */
static bool find_direction(struct check *check)
{
	if (!try_session(check, check->size, true))
		return false;
	judge(check);
	check->to_client = check->to_server == PASSAGE_VERIFIED ? PASSAGE_FAILED : PASSAGE_UNKNOWN;
	if (!check->outcome.protocol.connected)
		return false;
	if (!check->to_server && is_silence(check->outcome.status))
		check->to_server = PASSAGE_FAILED;
	return is_silence(check->failure.status);
}

/*
 * After silence, one byte each way: if that fails as well, no size is to blame. True: what is known
 * now shows what to change.
 */
static bool find_server(struct check *check)
{
	const struct connection *connection = &check->outcome;
	enum status status;

	if (!try_session(check, 1, false))
		return false;
	status = connection->status;
	if (status == STATUS_SUCCESS || rejection_reason(&connection->rejection) != REFUSAL_NONE)
		return true;
	if (is_silence(status) || status == STATUS_REFUSED || status == STATUS_UNRESOLVED)
		append(&check->advice,
		       "not even 1 byte passes any more (%s): the server has ended, or the path to "
		       "it is down; see to that, and begin again",
		       connection->cause);
	return false;
}

/*
 * A size to the server is silent: finds out by other sessions which direction fails, and what to
 * change. If one direction came that far, it is the other that does not work.
 */
static void explain_silence(struct check *check)
{
	if (check->verified > 0 && !find_server(check))
		return;
	if (check->to_server && !check->to_client)
		check->to_client = PASSAGE_FAILED;
	else if (check->to_client && !check->to_server)
		check->to_server = PASSAGE_FAILED;
	else if (check->verified > 0 && !check->to_server && !find_direction(check))
		return;
	advise_size(check);
}

/* Nanoseconds until the server's verdict had come, which is behind all that either side sent. */
static int64_t elapsed(const struct connection *connection)
{
	int64_t time = connection->verdict_time - connection->figures.started;

	return time > 0 ? time : 1;
}

/* So many bytes in both directions. False: that failed, and the findings say so. */
static bool try_size(struct check *check, uint64_t size)
{
	const struct connection *connection = &check->outcome;
	bool good;

	check->size = size;
	if (!try_session(check, size, false))
		return false;
	if (!connection->protocol.connected) {
		append(&check->found, "%s: with %" PRIu64 " byte%s: %s", connection->peer.text,
		       size, size > 1 ? "s" : "", connection->cause);
		advise_connecting(check);
		return report(check, "server", false);
	}
	if (check->verified == 0)
		report_server(check);
	judge(check);
	good = connection->status == STATUS_SUCCESS;
	if (good && (check->verified == 0 || elapsed(connection) < check->exchange))
		check->exchange = elapsed(connection);
	if (good)
		check->verified = size;
	else if (is_silence(connection->status))
		explain_silence(check);
	report_transfer(check);
	return good;
}

/*
 * Sizes around the length of a packet, to which over iWARP messages do not keep, and of many
 * packets. False: one has failed.
 */
static bool try_sizes(struct check *check)
{
	const uint64_t mtu = check->mtu, packet = check->iwarp ? 0 : mtu;
	const uint64_t sizes[] = { 1,
				   mtu > USUAL_MTU ? USUAL_MTU : 0,
				   packet ? packet - 1 : 0,
				   packet,
				   mtu ? mtu + 1 : 0,
				   (uint64_t)64 << 10,
				   (uint64_t)1 << 20 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] && !try_size(check, sizes[i]))
			return false;
	}
	return true;
}

/* ---- Rates ---- */

/*
 * Of a session of WRITEs. Bytes that have arrived are counted, by this side's clock: until the
 * server's verdict comes, which is behind them, since over iWARP a completion does not say that
 * they have.
 */
static struct rates rates_of(const struct connection *connection)
{
	double scale = 8e9 / (double)elapsed(connection);

	return (struct rates){ (double)connection->figures.bytes * scale,
			       (double)connection->peer_verdict.length * scale };
}

/* The direction that is slower, and how many times as fast the other one is. */
static double skew(const struct rates *rates, const char **slower)
{
	bool server = rates->to_server < rates->to_client;
	double least = server ? rates->to_server : rates->to_client;
	double most = server ? rates->to_client : rates->to_server;

	*slower = server ? "client to server" : "server to client";
	return most > 0 ? most / (least > 1 ? least : 1) : 1;
}

/* True if that would be said of them: then they are measured once more, and that counts. */
static bool look_slow(const struct check *check, const struct rates *rates)
{
	double wanted = (double)check->options->minimum_rate;
	const char *slower;

	return skew(rates, &slower) >= MUCH_SLOWER || rates->to_server < wanted ||
	       rates->to_client < wanted;
}

/*
 * Runs a session that measures, with the options that are in check->session. False: it failed, and
 * the findings of `step` say why.
 */
static bool measure(struct check *check, const char *step, uint64_t size, bool short_reply)
{
	check->session.measured = true;
	if (!try_session(check, size, short_reply))
		return false;
	if (check->outcome.status == STATUS_SUCCESS)
		return true;
	append(&check->found, "not measured: %s", check->outcome.cause);
	return report(check, step, false);
}

/* WRITEs in one direction, and of the other a byte. False: it failed. */
static bool measure_rate(struct check *check, bool back, double *rate)
{
	unsigned int seconds = check->options->duration_seconds;
	struct rates arrived;

	check->session.operation = OPERATION_WRITE;
	check->session.duration_seconds = back ? 0 : seconds;
	check->session.back_seconds = back ? seconds : 0;
	if (!measure(check, "rate", back ? 1 : BACK_SIZE, !back))
		return false;
	arrived = rates_of(&check->outcome);
	*rate = back ? arrived.to_client : arrived.to_server;
	return true;
}

/* One direction in words; where it is slower than --min-rate, that is how --check fails. */
static void append_rate(struct check *check, const char *direction, double rate)
{
	double wanted = (double)check->options->minimum_rate;

	append(&check->found, "%s%s %.3f Gbit/s", check->found.length > 0 ? ", " : "", direction,
	       rate / 1e9);
	if (check->link_rate > 0)
		append(&check->found, " (%.0f %% of the link's %.6g)",
		       rate * 100 / check->link_rate, check->link_rate / 1e9);
	if (rate < wanted && check->failure.status == STATUS_SUCCESS)
		failure_set(&check->failure, STATUS_TOO_SLOW,
			    "slower than --min-rate from %s: %.6g Gbit/s instead of %.6g; the "
			    "contents are right",
			    direction, rate / 1e9, wanted / 1e9);
}

/* Adds both to the finding. */
static void add_rates(struct check *check, const struct rates *rates)
{
	json_add_number(check->finding, "client_to_server_bits_per_second", rates->to_server, true);
	json_add_number(check->finding, "server_to_client_bits_per_second", rates->to_client, true);
}

/* Both rates, what share of the link they are, and which is too slow. */
static void report_rates(struct check *check, const struct rates *rates)
{
	const char *slower;
	double factor = skew(rates, &slower);
	bool skewed = factor >= MUCH_SLOWER;

	append_rate(check, "client to server", rates->to_server);
	append_rate(check, "server to client", rates->to_client);
	if (check->is_software)
		append(&check->found, "; the device is software, without a link's rate");
	if (check->failure.status == STATUS_TOO_SLOW)
		append(&check->found, "; %s", check->failure.cause);
	if (skewed)
		append(&check->advice,
		       "%s is %.1f times as slow as the other way, measured twice: look at the "
		       "queue of the host that sends ('tc qdisc'), at the counters, at flow control "
		       "(PFC), and at cables, switches and PCIe on both sides",
		       slower, factor);
	report(check, "rate", !skewed && check->failure.status == STATUS_SUCCESS);
	add_rates(check, rates);
	json_add_number(check->finding, "link_bits_per_second", check->link_rate,
			check->link_rate > 0);
}

/* READs that take no more than some seconds: an exchange is several times as long as one of them.
 */
static unsigned int count_reads(const struct check *check)
{
	int64_t fit = INT64_C(10000000000) / check->exchange;

	if (fit > MOST_READS)
		return MOST_READS;
	return fit < LEAST_READS ? LEAST_READS : (unsigned int)fit;
}

/* How long a READ takes: one after the other, spinning for completions, as such tools do. */
static bool try_latency(struct check *check)
{
	const struct latency *latency = &check->latency;
	double median, late;

	check->session.operation = OPERATION_READ;
	check->session.iterations = count_reads(check);
	check->session.duration_seconds = 0;
	check->session.back_seconds = 0;
	check->session.depth = 1;
	check->session.busy_poll = true;
	if (!measure(check, "latency", READ_SIZE, false))
		return false;
	median = (double)latency_quantile(latency, 0.5) / 1e3;
	late = (double)latency_quantile(latency, 0.99) / 1e3;
	append(&check->found,
	       "a READ of %d bytes takes %.2f us (median), %.2f us (99th percentile of %" PRIu64
	       ")",
	       READ_SIZE, median, late, latency->total);
	report(check, "latency", true);
	json_add_number(check->finding, "p50_us", median, true);
	json_add_number(check->finding, "p99_us", late, true);
	return true;
}

/* How fast each direction is, and how late; not with a server of an older release. */
static bool try_rates(struct check *check)
{
	struct rates rates = { 0 };

	if (check->options->duration_seconds == 0)
		return true;
	if (!(check->outcome.agreement.peer.flags & HELLO_CHECK_RATE)) {
		append(&check->found,
		       "not measured: the server is of an older release, which cannot");
		if (check->options->minimum_rate > 0)
			failure_set(&check->failure, STATUS_TOO_SLOW,
				    "--min-rate cannot be judged: the rate was %s",
				    check->found.text);
		report(check, "rate", check->options->minimum_rate == 0);
		return true; /* the paths are examined all the same */
	}
	for (int look = 1; look == 1 || (look == 2 && look_slow(check, &rates)); look++) {
		if (!measure_rate(check, false, &rates.to_server) ||
		    !measure_rate(check, true, &rates.to_client))
			return false;
	}
	report_rates(check, &rates);
	return try_latency(check);
}

/* ---- Several connections at once ---- */

void check_take(struct check *check, const struct connection *connection)
{
	struct path *path = &check->paths[check->path_count++];
	enum status worst = check->outcome.status;

	path->port = source_port(connection->id);
	path->rates = rates_of(connection);
	failure_set(&path->failure, connection->status, "%s", connection->cause);
	if (connection->figures.latency)
		check->latency = *connection->figures.latency;
	if (connection->counting) {
		if (!check->before.any)
			check->before = connection->counting->before;
		counters_keep_latest(&check->after, &connection->counting->after);
	}
	/* of sessions at once each port counts the errors of all */
	if (check->path_count == 1 || connection->peer_verdict.errors > check->told_errors)
		check->told_errors = connection->peer_verdict.errors;
	if (check->path_count > 1 && worse_status(worst, connection->status) == worst)
		return;
	check->outcome = *connection;
	check->outcome.options = NULL; /* these go with the connection */
	check->outcome.counting = NULL;
}

/* True if half of the sessions that delivered all, or more, are much faster in one direction. */
static bool is_slow(const struct check *check, const struct path *path)
{
	unsigned int good = 0, to_server = 0, to_client = 0;

	for (const struct path *other = check->paths; other < check->paths + check->path_count;
	     other++) {
		if (other->failure.status != STATUS_SUCCESS)
			continue;
		good++;
		to_server += other->rates.to_server > MUCH_SLOWER * path->rates.to_server;
		to_client += other->rates.to_client > MUCH_SLOWER * path->rates.to_client;
	}
	return to_server * 2 >= good || to_client * 2 >= good;
}

/* One of the sessions, by the port that names its path. */
static bool report_path(struct check *check, const struct path *path)
{
	bool good = path->failure.status == STATUS_SUCCESS;
	bool measured = good && check->session.measured;
	bool slow = measured && is_slow(check, path);

	if (path->port > 0)
		append(&check->found, "source port %u: ", path->port);
	else
		append(&check->found, "source port not known: ");
	if (measured)
		append(&check->found, "client to server %.3f Gbit/s, server to client %.3f Gbit/s",
		       path->rates.to_server / 1e9, path->rates.to_client / 1e9);
	else
		append(&check->found, "%s",
		       good ? "verified in both directions" : path->failure.cause);
	if (slow || is_silence(path->failure.status))
		append(&check->advice,
		       "%swhere several paths lead to the server, switches choose one by this port "
		       "(ECMP): look at the links and switches of that",
		       slow ? "half of the others, or more, are three times as fast; " : "");
	report(check, "path", good && !slow);
	json_add_known(check->finding, "source_port", path->port);
	if (measured)
		add_rates(check, &path->rates);
	return good;
}

/*
 * Sessions at once, by different paths perhaps, in which both sides write as in those that measured
 * the rates, if there were any. False: one has failed.
 */
static bool try_paths(struct check *check)
{
	struct options *session = &check->session;
	bool good;

	session->connections = check->options->connections;
	if (session->connections == 1)
		return true;
	if (session->measured) {
		session->operation = OPERATION_WRITE;
		session->iterations = 0;
		session->duration_seconds = check->options->duration_seconds;
		session->back_seconds = check->options->duration_seconds;
		session->depth = check->options->depth;
		session->busy_poll = false;
	}
	/* where one did not come about the others are reported all the same */
	good = try_session(check, BACK_SIZE, false);
	for (unsigned int i = 0; i < check->path_count && !check->process->signal_number; i++)
		good &= report_path(check, &check->paths[i]);
	return good;
}

/* ---- All with the server ---- */

/* Nobody answered: as in an ordinary session the next address is tried. False: there is none. */
static bool go_on(struct check *check)
{
	bool found;

	change_ending_signals(SIG_UNBLOCK);
	found = find_next_address(check);
	change_ending_signals(SIG_BLOCK);
	if (!found)
		return false;
	check->mode_is_known = false;
	check->before.any = check->after.any = false;
	memset(&check->failure, 0, sizeof(check->failure));
	return true;
}

enum status check_server(struct check *check, session_function run, void *argument)
{
	bool good;

	check->run = run;
	check->argument = argument;
	do
		good = try_sizes(check) && try_rates(check) && try_paths(check);
	while (check->failure.status != STATUS_SUCCESS && !check->reached &&
	       !check->process->signal_number && go_on(check));
	if (check->process->signal_number) /* perhaps when the session had succeeded */
		return STATUS_INTERRUPTED;
	if (check->failure.status != STATUS_SUCCESS)
		return check->failure.status;
	return good ? STATUS_SUCCESS : STATUS_LOCAL_FAILURE;
}

/* The counters of errors that grew during the sessions; nothing where the port has none. */
static void report_counters(struct check *check)
{
	const struct counters growth = counters_growth(&check->before, &check->after);
	uint64_t here = counters_errors(&growth), there = check->peer_errors;
	const struct words grown = counters_in_words(&growth);

	if (!growth.any)
		return;
	if (there > 0 && (here > 0 || there > 1))
		append(&check->found, "errors counted: %" PRIu64 " here, %" PRIu64 " there", here,
		       there - 1);
	else if (here == 0)
		append(&check->found, "no errors counted by this host's device%s meanwhile",
		       there > 0 ? ", nor by the server's," : "");
	if (grown.length > 0)
		append(&check->found, "%s%s", check->found.length > 0 ? "; " : "", grown.text);
	report(check, "counters", here == 0 && there <= 1);
	json_add_counters(check->finding, &growth);
	json_add_peer_errors(check->finding, there);
}

/* ---- All of it ---- */

void check_init(struct check *check, const struct options *options, const struct process *process)
{
	memset(check, 0, sizeof(*check));
	check->options = options;
	check->session = *options;
	check->session.minimum_rate = 0; /* of rates alone, which are judged here */
	check->session.duration_seconds = 0;
	check->session.connections = 1; /* but at the end */
	check->process = process;
	check->findings = json_begin("check");
	json_add_peer(check->findings, check->options->address, check->options->port);
}

/* Whether a step is `good` in all: what is not good in it can be done without then. */
static bool forgive(struct check *check, bool good)
{
	if (good)
		check->complaint.length = 0;
	return good;
}

enum status check_path(struct check *check)
{
	bool usable = forgive(check, check_devices(check));

	if (check->options->address)
		usable =
			forgive(check, find_addresses(check) && find_next_address(check) && usable);
	if (!check->options->address)
		host_examine("", &check->view, report_host, check);
	if (check->view.devices)
		rdma_free_devices(check->view.devices);
	free(check->view.addresses);
	check->view = (struct host_view){ 0 };
	if (usable && check->memory_error) /* counts for more than what limits this host */
		check->complaint.length = 0;
	if (!check_locked_memory(check) && usable)
		return STATUS_LOCAL_FAILURE;
	if (!usable)
		return STATUS_UNRESOLVED;
	return check->limited ? STATUS_TOO_SLOW : STATUS_SUCCESS;
}

/* The last line, when all is right. */
static void print_ready(const struct check *check)
{
	struct console *console = check->process->console;

	if (check->options->port)
		print_result(console, "Ready. All sizes arrived in both directions, verified.");
	else if (!check->options->address)
		print_result(console, "Ready. Examine the path to another host next:\n"
				      "  rdma-client --check ADDRESS");
	else
		print_result(console,
			     "Ready. Start 'rdma-server read' on the other host, then here:\n"
			     "  rdma-client read %s PORT",
			     check->options->address);
}

/* Why it ends with this status: what a message or a finding says; NULL: all is right. */
static const char *cause_of(const struct check *check, enum status status)
{
	if (status == STATUS_SUCCESS)
		return NULL;
	if (check->failure.cause[0])
		return check->failure.cause;
	if (check->process->failure[0])
		return check->process->failure;
	return status != STATUS_INTERRUPTED && check->complaint.length > 0
		       ? check->complaint.text
		       : status_in_words(status);
}

enum status check_finish(struct check *check, enum status status)
{
	report_counters(check);
	if (check->addresses)
		freeaddrinfo(check->addresses);
	if (check->sources)
		freeaddrinfo(check->sources);
	json_add_status(check->findings, status, check->process->signal_number);
	json_add_text(check->findings, "error", cause_of(check, status));
	if (check->options->json) {
		print_json(check->process->console, check->findings);
	} else {
		if (status == STATUS_SUCCESS)
			print_ready(check);
		json_object_put(check->findings);
	}
	check->findings = NULL;
	return status;
}
