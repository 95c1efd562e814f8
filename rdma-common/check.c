// SPDX-License-Identifier: MIT
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "congestion.h"
#include "memory.h"

/* A limit of locked memory below this does not do for much: an ordinary user has 8 MiB on Debian.
 */
#define MODEST_LOCKED_MEMORY ((rlim_t)64 * 1024 * 1024)
/* The RDMA MTU of Ethernet's usual 1500 bytes: a limit on the path is below that or above. */
#define USUAL_MTU 1024
/* A busy server, where a session ends a little later than here, is asked again so soon. */
#define BUSY_MILLISECONDS 100
/* Bytes of the text of a finding. */
#define TEXT_SIZE 1024

/* ---- Findings ---- */

/* With --json: an object for the finding, in the array of its step. */
static struct json_object *add_object(struct check *check, const char *step, bool good,
				      const char *text, const char *advice)
{
	struct json_object *finding = json_object_new_object(), *all;

	json_add_text(finding, "status", good ? "ok" : "failed");
	json_add_text(finding, "text", text);
	json_add_text(finding, "advice", advice);
	if (!json_object_object_get_ex(check->findings, step, &all)) {
		all = json_object_new_array();
		json_object_object_add(check->findings, step, all);
	}
	json_object_array_add(all, finding);
	return finding;
}

/* One finding of a step, which with --json is returned (else NULL): whether it is `good`, what was
 * found, and what to change (NULL: nothing).
 */
__attribute__((format(printf, 5, 6))) static struct json_object *add_finding(
	struct check *check, const char *step, bool good, const char *advice, const char *format,
	...)
{
	char text[TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!good && !check->complaint[0])
		snprintf(check->complaint, sizeof(check->complaint), "%s: %.480s", step, text);
	if (check->findings)
		return add_object(check, step, good, text, advice);
	print_result(check->process->console, "%-9s %s", step, text);
	if (advice)
		print_result(check->process->console, "  -> %s", advice);
	return NULL;
}

/* ---- Devices ---- */

static const char few_descriptors[] =
	"more open files have to be allowed: raise the limit ('ulimit -n')";

/* True if that may be the reason of an error, which librdmacm hides. */
static bool lacks_descriptors(int error)
{
	struct rlimit limit;

	return error == EMFILE || error == ENFILE ||
	       (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < LOW_DESCRIPTOR_LIMIT);
}

/* Converts an MTU of verbs to bytes. */
static unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

/*
 * True if a port has a GID that is not zero: over RoCE it has one for each address of its network
 * interface, none without one. What cannot be queried is empty.
 */
static bool has_gid(struct ibv_context *verbs, uint8_t number, const struct ibv_port_attr *port)
{
	static const union ibv_gid none;
	struct ibv_gid_entry entry;

	for (int i = 0; i < port->gid_tbl_len; i++) {
		if (!ibv_query_gid_ex(verbs, number, (uint32_t)i, &entry, 0) &&
		    memcmp(&entry.gid, &none, sizeof(none)) != 0)
			return true;
	}
	return false;
}

/* One port of a device; whether it can be used. */
static bool check_port(struct check *check, struct ibv_context *verbs, uint8_t number)
{
	const char *name = ibv_get_device_name(verbs->device), *advice = NULL;
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP, usable;
	struct ibv_port_attr port;
	char mtu[64] = "";
	int error = ibv_query_port(verbs, number, &port);

	if (error) {
		add_finding(check, "device", false, NULL, "%s port %u: cannot be queried: %s", name,
			    number, strerror(error));
		return false;
	}
	usable = port.state == IBV_PORT_ACTIVE && (iwarp || has_gid(verbs, number, &port));
	if (port.state != IBV_PORT_ACTIVE)
		advice = "it carries nothing; plug the cable in, set the network interface up ('ip "
			 "link'), or start the subnet manager of InfiniBand";
	else if (!usable)
		advice =
			"all of its GIDs are zero: its network interface has no address, or is not "
			"in this container; give the container that interface, or the host's "
			"network ('rdma link', 'ip address')";
	else if (port.link_layer == IBV_LINK_LAYER_ETHERNET && port.active_mtu < port.max_mtu &&
		 !iwarp)
		advice = "larger packets are faster: raise the MTU of the network interface, as on "
			 "the other host and between ('ip link set ... mtu 4200')";
	if (!iwarp)
		snprintf(mtu, sizeof(mtu), ", MTU %u of %u bytes", mtu_bytes(port.active_mtu),
			 mtu_bytes(port.max_mtu));
	add_finding(check, "device", usable, advice, "%s port %u: %s, %s%s", name, number,
		    transport_name(verbs, &port), ibv_port_state_str(port.state), mtu);
	return usable;
}

/* What to change where there is no device: to most of them this user may have no access. */
static const char *advise_no_device(int error)
{
	if (lacks_descriptors(error))
		return few_descriptors;
	if (access("/dev/infiniband", X_OK))
		return "there is no /dev/infiniband: load the modules ib_uverbs and rdma_ucm; in a "
		       "container, give it the files of that folder ('--device'); without an "
		       "adapter, make a software device ('modprobe rdma_rxe', 'rdma link add rdma0 "
		       "type rxe netdev eth0')";
	if (access("/dev/infiniband/rdma_cm", R_OK | W_OK))
		return "this user may not open /dev/infiniband/rdma_cm, or it is not there: see "
		       "its mode, and load the module rdma_ucm";
	return "see 'rdma link'; load the driver's modules, or make a software device ('rdma link "
	       "add rdma0 type rxe netdev eth0'); may this user open /dev/infiniband/uverbs0?";
}

/* All ports of all devices; whether one can be used. */
static bool check_devices(struct check *check)
{
	struct ibv_context **devices;
	int count = 0, error;
	bool usable = false;

	errno = 0;
	devices = rdma_get_devices(&count);
	error = devices ? 0 : errno;
	for (int i = 0; devices && i < count; i++) {
		struct ibv_device_attr attributes;

		error = ibv_query_device(devices[i], &attributes);

		if (error)
			add_finding(check, "device", false, NULL, "%s: cannot be queried: %s",
				    ibv_get_device_name(devices[i]->device), strerror(error));
		/* as many as a uint8_t counts: it would be 0 behind the last one */
		for (unsigned int port = 1; !error && port <= attributes.phys_port_cnt; port++)
			usable = check_port(check, devices[i], (uint8_t)port) || usable;
	}
	if (devices)
		rdma_free_devices(devices);
	if (!devices || count == 0)
		add_finding(check, "device", false, advise_no_device(error), "none%s%s",
			    lacks_descriptors(error) ? ": " : "",
			    lacks_descriptors(error) ? strerror(error) : "");
	return usable;
}

/* ---- Memory ---- */

/* Registers so much with the device, for a moment. 0 or an errno value. */
static int try_to_register(struct ibv_context *verbs, size_t size)
{
	void *memory = memory_map(size);
	struct ibv_pd *pd = memory ? ibv_alloc_pd(verbs) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	int error = mr ? 0 : errno;

	if (mr)
		ibv_dereg_mr(mr);
	if (pd)
		ibv_dealloc_pd(pd);
	if (memory)
		memory_unmap(memory, size);
	return error;
}

/*
 * Finds out by trying what can be registered: what the smallest session needs, and more than the
 * limit, which does not count for everybody (CAP_IPC_LOCK), nor with every driver.
 */
static void try_memory(struct check *check, struct ibv_context *verbs)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit;

	check->memory_error = try_to_register(verbs, SESSION_PAGES * page);
	check->unlimited = !getrlimit(RLIMIT_MEMLOCK, &limit) &&
			   limit.rlim_cur < MODEST_LOCKED_MEMORY &&
			   !try_to_register(verbs, (size_t)limit.rlim_cur + page);
}

/* False: there is not enough for a session. */
static bool check_locked_memory(struct check *check)
{
	static const char raise[] =
		"raise it ('ulimit -l', or memlock in /etc/security/limits.conf)";
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	long needed = SESSION_PAGES * sysconf(_SC_PAGESIZE) / 1024;
	char advice[128], bound[64] = "";
	bool modest, limited;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	limited = limit.rlim_cur != RLIM_INFINITY && !check->unlimited;
	modest = limited && limit.rlim_cur < MODEST_LOCKED_MEMORY;
	snprintf(advice, sizeof(advice), "for more, %s", raise);
	if (limited)
		snprintf(bound, sizeof(bound), "; %ju KiB may be locked",
			 (uintmax_t)limit.rlim_cur / 1024);
	if (check->memory_error)
		add_finding(check, "memory", false, modest ? raise : NULL,
			    "%ld KiB, which a session needs, cannot be registered: %s%s", needed,
			    strerror(check->memory_error), bound);
	else if (!limited)
		add_finding(check, "memory", true, NULL, "may be locked without limit");
	else
		add_finding(check, "memory", true, modest ? advice : NULL,
			    "%ju KiB may be locked: the rings of longer payloads are made to fit",
			    (uintmax_t)limit.rlim_cur / 1024);
	return !check->memory_error;
}

/* ---- Address and route ---- */

/* The address of one end, as a number. */
static const char *print_address(const struct sockaddr *address, char *buffer, socklen_t size)
{
	if (getnameinfo(address, address_size(address), buffer, size, NULL, 0, NI_NUMERICHOST))
		return "an unknown address";
	return buffer;
}

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "InfiniBand";
	}
}

/* ", GID ..." of the address that `id` is bound to; nothing where it has none. */
static const char *describe_gid(struct rdma_cm_id *id, char *buffer, size_t size)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct ibv_gid_entry gid;
	bool named;

	buffer[0] = '\0';
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP || !find_gid(id, &gid))
		return buffer;
	named = gid.ndev_ifindex && if_indextoname(gid.ndev_ifindex, name);
	snprintf(buffer, size, ", GID %u (%s, %s%s%s)", gid.gid_index,
		 inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)), gid_type_name(gid.gid_type),
		 named ? ", " : "", named ? name : "");
	return buffer;
}

/* Resolves the address, in as many attempts as fit in before `deadline`; 0 or an errno value. */
static int resolve(struct check *check, struct rdma_cm_id *id, struct sockaddr *source,
		   struct sockaddr *address, int64_t deadline)
{
	for (;;) {
		int error = resolve_address(id, source, address, deadline) ? errno : 0;

		if (error != ETIMEDOUT)
			return error == ETIME ? ETIMEDOUT : error;
		if (check->options->verbose)
			add_finding(check, "address", true, NULL, "no answer; asked once more");
	}
}

/* How the network interface keeps RoCE's packets from being dropped where the network is full. */
static void report_congestion(struct check *check, struct rdma_cm_id *id)
{
	char name[IF_NAMESIZE], text[128];
	int tos = type_of_service(id);
	struct ibv_gid_entry gid;

	if (tos < 0 || !find_gid(id, &gid) || !if_indextoname(gid.ndev_ifindex, name))
		return;
	congestion_describe(name, text, sizeof(text));
	add_finding(check, "lossless", true, NULL, "%s: type of service %d; %s", name, tos, text);
}

/*
 * Resolves the address, from `source` unless that is NULL, and then the route, before `deadline` as
 * now_milliseconds() counts.
 */
static bool check_route(struct check *check, struct rdma_cm_id *id, struct sockaddr *source,
			struct sockaddr *address, int64_t deadline)
{
	int error = resolve(check, id, source, address, deadline);
	char text[NI_MAXHOST], gid[128], mtu[64] = "";
	int64_t remaining;

	if (error) {
		add_finding(check, "address", false,
			    error == EADDRNOTAVAIL
				    ? "give --bind an address of this host ('ip address')"
				    : "is the host up ('ping')? Does 'ip route get' lead over a "
				      "network interface that 'rdma link' names?",
			    "not resolved: %s", strerror(error));
		return false;
	}
	add_finding(check, "address", true, NULL, "resolved: from %s by %s port %u%s",
		    print_address(rdma_get_local_addr(id), text, sizeof(text)),
		    ibv_get_device_name(id->verbs->device), id->port_num,
		    describe_gid(id, gid, sizeof(gid)));
	remaining = deadline - now_milliseconds();
	if (rdma_resolve_route(id, remaining > 1 ? (int)remaining : 1)) {
		add_finding(
			check, "route", false,
			"use an address of the network interface of an RDMA device, not a loopback "
			"one; InfiniBand: is the subnet manager running?",
			"not resolved: %s", strerror(errno));
		return false;
	}
	if (id->route.num_paths > 0)
		snprintf(mtu, sizeof(mtu), ", MTU of the path %u bytes",
			 mtu_bytes((enum ibv_mtu)id->route.path_rec[0].mtu));
	add_finding(check, "route", true, NULL, "resolved%s", mtu);
	report_congestion(check, id);
	return true;
}

/* Keeps what the sessions are judged by. */
static void keep_route(struct check *check, struct rdma_cm_id *id, const struct sockaddr *address)
{
	struct ibv_port_attr port;

	memcpy(&check->address, address, address_size(address));
	check->gid[0] = '\0';
	check->mtu = 0;
	check->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	if (!check->iwarp)
		inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.dgid, check->gid,
			  sizeof(check->gid));
	if (id->route.num_paths > 0)
		check->mtu = mtu_bytes((enum ibv_mtu)id->route.path_rec[0].mtu);
	else if (!ibv_query_port(id->verbs, id->port_num, &port))
		check->mtu = mtu_bytes(port.active_mtu);
}

/*
 * The address of --bind that fits one of this family, to be freed; NULL without --bind. False if it
 * has none.
 */
static bool find_source(struct check *check, int family, struct addrinfo **source)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = family };
	const char *bind = check->options->bind;
	int error = 0;

	*source = NULL;
	if (bind)
		error = getaddrinfo(bind, NULL, &hints, source);
	if (error)
		add_finding(check, "address", false,
			    "give --bind an address of this host ('ip address') of the family of "
			    "the one to connect to",
			    "not resolved: cannot connect from '%s': %s", short_name(bind).text,
			    lookup_error(error));
	return !error;
}

/* Finds the route to one address. False: it has none, and the findings say why. */
static bool check_address(struct check *check, struct sockaddr *address)
{
	int64_t deadline = now_milliseconds() + timeout_milliseconds(check->options);
	struct addrinfo *source;
	struct rdma_cm_id *id;
	bool found;

	if (!find_source(check, address->sa_family, &source))
		return false;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		add_finding(check, "address", false,
			    lacks_descriptors(errno) ? few_descriptors
						     : "is the module rdma_ucm loaded?",
			    "not resolved: cannot use the connection manager: %s", strerror(errno));
		found = false;
	} else {
		found = check_route(check, id, source ? source->ai_addr : NULL, address, deadline);
		if (found) {
			keep_route(check, id, address);
			try_memory(check, id->verbs);
		}
		if (found && source)
			memcpy(&check->source, source->ai_addr, source->ai_addrlen);
		rdma_destroy_id(id);
	}
	if (source)
		freeaddrinfo(source);
	return found;
}

/* The addresses of the host. False: it has none. */
static bool look_up(struct check *check)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct options *options = check->options;
	int error = getaddrinfo(options->address, options->port, &hints, &check->addresses);

	if (error) {
		check->addresses = NULL;
		add_finding(check, "name", false, "give an address, or add the name to /etc/hosts",
			    "'%s' not resolved: %s", short_name(options->address).text,
			    lookup_error(error));
		return false;
	}
	check->untried = check->addresses;
	return true;
}

/* Each of them in turn, until a route to one is found. False: there is none to the rest. */
static bool find_next_address(struct check *check)
{
	char text[NI_MAXHOST];
	bool found = false;

	while (check->untried && !found) {
		struct addrinfo *address = check->untried;

		check->untried = address->ai_next;
		add_finding(check, "name", true, NULL, "'%s' is %s",
			    short_name(check->options->address).text,
			    print_address(address->ai_addr, text, sizeof(text)));
		found = check_address(check, address->ai_addr);
	}
	return found;
}

/* ---- Sessions ---- */

static const char *passage_name(enum passage passage)
{
	static const char *const names[] = { "not known", "failed", "arrived", "verified" };

	return names[passage];
}

static void add_size(struct check *check, uint64_t size)
{
	check->sizes[check->size_count++] = size;
}

/* Around the length of a packet, to which over iWARP messages do not keep, and of many packets. */
static void choose_sizes(struct check *check)
{
	const uint64_t mtu = check->mtu;

	add_size(check, 1);
	if (mtu > USUAL_MTU)
		add_size(check, USUAL_MTU);
	if (mtu > 0 && !check->iwarp) {
		add_size(check, mtu - 1);
		add_size(check, mtu);
	}
	if (mtu > 0)
		add_size(check, mtu + 1);
	add_size(check, (uint64_t)64 << 10);
	add_size(check, (uint64_t)1 << 20);
}

/* Nobody answered: as in an ordinary session the next address is tried. False: there is none. */
static bool go_on(struct check *check)
{
	sigset_t before;
	bool found;

	signals_unblock(&before);
	found = find_next_address(check);
	signals_restore(&before);
	if (!found)
		return false;
	check->size_count = check->next = 0;
	check->mode_is_known = false;
	check->before.any = check->after.any = false;
	memset(&check->failure, 0, sizeof(check->failure));
	return true;
}

/* The next size, perhaps of the next address. False: there is none. */
static bool choose_size(struct check *check, bool reached)
{
	if (check->failure.status != STATUS_SUCCESS && (reached || !go_on(check)))
		return false;
	if (check->size_count == 0)
		choose_sizes(check);
	if (check->next == check->size_count)
		return false;
	check->size = check->sizes[check->next++];
	return true;
}

bool check_next(struct check *check, bool reached)
{
	struct options *session = &check->session;

	if (check->retry_time > 0) { /* the same once more */
		check->retry_time = 0;
		return true;
	}
	check->busy_deadline = now_milliseconds() + timeout_milliseconds(check->options);
	if (check->wrong_mode) {
		check->wrong_mode = false;
		session->operation =
			session->operation == OPERATION_READ ? OPERATION_WRITE : OPERATION_READ;
	} else if (check->question == QUESTION_SIZE && !choose_size(check, reached)) {
		return false;
	}
	session->pattern_size = check->question == QUESTION_PRESENCE ? 1 : check->size;
	session->short_reply = check->question == QUESTION_DIRECTION;
	return true;
}

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
static bool may_be_accepted(struct check *check, const struct introduction *server)
{
	int64_t soon = now_milliseconds() + BUSY_MILLISECONDS;

	if (!check->mode_is_known)
		check->wrong_mode = server->greeting == GREETING_NONE ||
				    rejection_reason(server) == REFUSAL_OPERATION;
	check->mode_is_known = true;
	if (soon < check->busy_deadline && may_accept_soon(check, server))
		check->retry_time = soon;
	return check->wrong_mode || check->retry_time > 0;
}

/* True if packets may have been lost: the peer is silent, or its adapter. */
static bool is_silence(enum status status)
{
	return status == STATUS_TIMED_OUT || status == STATUS_PEER_LOST;
}

/* What to change where no connection stood. NULL: the cause says all. */
static const char *advise_connecting(const struct check *check, const struct connection *connection)
{
	bool told = rejection_reason(&connection->rejection) != REFUSAL_NONE;
	bool silent = is_silence(connection->status);

	if (check->next == 2 && !told && (silent || connection->status == STATUS_REFUSED))
		return "the server took a session, and no other behind it: start it without "
		       "--one-off";
	if (silent && check->iwarp)
		return "the host answers, but not this TCP port: open it in the firewalls of both "
		       "hosts and between ('nft list ruleset'); is the server running?";
	if (silent)
		return "the host answers, but not its RDMA connection manager: open UDP port 4791 "
		       "in the firewalls of both hosts and between ('nft list ruleset'); does the "
		       "address belong to the server's RDMA device?";
	return NULL;
}

/* What the server told of itself. */
static void report_server(struct check *check, const struct connection *connection)
{
	const char *name = connection->agreement.peer_device;
	unsigned int mtu = check->iwarp ? 0 : mtu_bytes(connection->agreement.peer_mtu);
	bool differs = mtu > 0 && check->mtu > 0 && mtu != check->mtu;
	char *device = escape((const uint8_t *)name, strlen(name));
	bool named = device && *device;
	char words[64] = "", advice[TEXT_SIZE];
	struct json_object *finding;

	if (mtu > 0)
		snprintf(words, sizeof(words), ", MTU of its port %u bytes", mtu);
	snprintf(advice, sizeof(advice),
		 "the MTU is %u bytes here and %u there: set it the same on both hosts and between "
		 "('ip link set ... mtu'), or packets above %u bytes may vanish",
		 check->mtu, mtu, mtu < check->mtu ? mtu : check->mtu);
	finding =
		add_finding(check, "server", true, differs ? advice : NULL,
			    "%s: rdma-server %s%s%s%s%s%s", connection->peer,
			    operation_name(check->session.operation), named ? ", device " : "",
			    named ? device : "", check->gid[0] ? ", GID " : "", check->gid, words);
	if (finding)
		json_add_text(finding, "device", *name ? name : NULL);
	free(device);
}

/*
 * The size for ping(8) that makes packets as long as an RDMA WRITE of the size in question. Behind
 * the IP header, RoCE v2 has 8 bytes of UDP, 12 of BTH, 16 of RETH, the payload in words of 4, and
 * 4 of ICRC; ping has 8 of ICMP. Over iWARP, TCP cuts as it likes.
 */
static uint64_t ping_size(const struct check *check)
{
	return check->iwarp ? check->size : (check->size + 3) / 4 * 4 + 8 + 12 + 16 + 4 - 8;
}

/* What to change where a connection stood, but packets of this size are lost. */
static void advise_size(const struct check *check, char *advice, size_t size)
{
	const char *direction = "in one direction at least";

	if (check->to_server == PASSAGE_FAILED)
		direction = "from client to server";
	else if (check->to_client == PASSAGE_FAILED)
		direction = "from server to client";
	if (check->verified == 0)
		snprintf(advice, size,
			 "not a byte passes %s, though the connection stands: let the firewalls "
			 "pass %s whatever the other port is",
			 direction, check->iwarp ? "the TCP port" : "UDP port 4791");
	else if (check->verified < check->mtu) /* else one of the largest packets has passed */
		snprintf(advice, size,
			 "packets above %" PRIu64 " bytes vanish %s, at %" PRIu64
			 " at the latest: a host or switch on the path has a smaller MTU than the "
			 "adapters use, %u bytes and headers; set it the same everywhere ('ip link "
			 "set ... mtu', and the ports of switches; 'ping -M do -s %" PRIu64
			 "' from both hosts tries it)",
			 check->verified, direction, check->size, check->mtu, ping_size(check));
	else
		snprintf(advice, size,
			 "packets of every size pass, but not so many of them %s: look at the "
			 "counters, at flow control (PFC, ECN), and at cables and switches",
			 direction);
}

/* The result of the session of a size: each direction, and what to change (NULL: nothing). */
static void report_transfer(struct check *check, const char *advice)
{
	bool good = check->failure.status == STATUS_SUCCESS;
	const char *to_server = passage_name(check->to_server);
	const char *to_client = passage_name(check->to_client);
	struct json_object *finding;

	finding = add_finding(check, "transfer", good, advice,
			      "%" PRIu64 " byte%s: client to server %s, server to client %s%s%s",
			      check->size, check->size > 1 ? "s" : "", to_server, to_client,
			      good ? "" : ": ", check->failure.cause);
	if (!finding)
		return;
	json_object_object_add(finding, "bytes", json_object_new_uint64(check->size));
	json_add_text(finding, "client_to_server", to_server);
	json_add_text(finding, "server_to_client", to_client);
}

/* The same after silence, with what to change about packets of that size. */
static void report_silence(struct check *check)
{
	bool passed = check->to_server >= PASSAGE_ARRIVED && check->to_client >= PASSAGE_ARRIVED;
	char advice[TEXT_SIZE];

	advise_size(check, advice, sizeof(advice));
	report_transfer(check, passed ? NULL : advice);
}

/* True if this side's operation has completed. */
static bool has_operated(const struct protocol *protocol)
{
	return protocol->local >= LOCAL_OPERATION_COMPLETED && !protocol->gave_up;
}

/* True if the peer's has: its MSG_DONE is here. */
static bool peer_has_operated(const struct protocol *protocol)
{
	return protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT;
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

static enum passage passage_to_server(const struct check *check,
				      const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;
	bool verified = protocol->remote == REMOTE_VERDICT && protocol->verdict == STATUS_SUCCESS;
	bool completed = peer_has_operated(protocol);

	/* over iWARP the completion of a WRITE says no more than that TCP has the bytes */
	if (check->session.operation == OPERATION_WRITE)
		completed = has_operated(protocol) && !connection->limits.iwarp;
	return judge_passage(verified, completed);
}

/*
 * There was silence, though the server is there. If one direction came that far, it is the other
 * that does not work.
 */
static void conclude(struct check *check)
{
	if (check->to_server && !check->to_client)
		check->to_client = PASSAGE_FAILED;
	else if (check->to_client && !check->to_server)
		check->to_server = PASSAGE_FAILED;
	report_silence(check);
}

/* How far both directions came with a size: what is seen of a session that connected. */
static void judge_size(struct check *check, const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;
	bool writes = check->session.operation == OPERATION_WRITE;

	check->to_server = passage_to_server(check, connection);
	check->to_client =
		judge_passage(protocol_verified(protocol),
			      writes ? peer_has_operated(protocol) : has_operated(protocol));
	if (connection->status == STATUS_SUCCESS)
		check->verified = check->size;
	if (!is_silence(connection->status))
		report_transfer(check, NULL);
	else if (check->verified == 0)
		conclude(check);
	else
		check->question = QUESTION_PRESENCE;
}

/* After silence, one byte each way: if that fails as well, no size is to blame. */
static void judge_presence(struct check *check, const struct connection *connection)
{
	enum status status = connection->status;
	bool present = status == STATUS_SUCCESS ||
		       rejection_reason(&connection->rejection) != REFUSAL_NONE;
	bool gone = is_silence(status) || status == STATUS_REFUSED || status == STATUS_UNRESOLVED;
	char advice[TEXT_SIZE];

	check->question = QUESTION_SIZE;
	if (present && !check->to_server && !check->to_client) {
		check->question = QUESTION_DIRECTION;
	} else if (present) {
		conclude(check);
	} else {
		snprintf(advice, sizeof(advice),
			 "not even 1 byte passes any more (%s): the server has ended, or the path "
			 "to it is down; see to that, and begin again",
			 connection->cause);
		report_transfer(check, gone ? advice : NULL);
	}
}

/* After silence in both directions, this size to the server, and one byte back. */
static void judge_direction(struct check *check, const struct connection *connection)
{
	bool connected = connection->protocol.connected;

	check->question = QUESTION_SIZE;
	check->to_server = passage_to_server(check, connection);
	if (check->to_server == PASSAGE_VERIFIED)
		check->to_client = PASSAGE_FAILED;
	else if (!check->to_server && connected && is_silence(connection->status))
		check->to_server = PASSAGE_FAILED;
	if (connected && is_silence(check->failure.status))
		report_silence(check);
	else
		report_transfer(check, NULL);
}

/* The server refused, or nobody did. */
static void report_refusal(struct check *check, const struct connection *connection)
{
	add_finding(check, "server", false, advise_connecting(check, connection),
		    "%s: with %" PRIu64 " byte%s: %s", connection->peer, check->size,
		    check->size > 1 ? "s" : "", connection->cause);
}

void check_session(struct check *check, const struct connection *connection)
{
	enum question question = check->question;
	enum status status = connection->status;
	bool connected = connection->protocol.connected;

	if (connection->rejected && may_be_accepted(check, &connection->rejection))
		return;
	if (!check->before.any)
		check->before = connection->counters_before;
	check->after = connection->counters_after;
	if (status != STATUS_SUCCESS && (question == QUESTION_SIZE || status == STATUS_INTERRUPTED))
		failure_set(&check->failure, status, "%s", connection->cause);
	if (connected && check->verified == 0)
		report_server(check, connection);
	if (connected)
		check->mode_is_known = true;
	if (question == QUESTION_PRESENCE)
		judge_presence(check, connection);
	else if (question == QUESTION_DIRECTION)
		judge_direction(check, connection);
	else if (connected)
		judge_size(check, connection);
	else
		report_refusal(check, connection);
}

/* The counters of errors that grew during the sessions; nothing where the port has none. */
static void report_counters(struct check *check)
{
	char text[TEXT_SIZE] = "";
	size_t length = 0;

	if (!check->before.any || !check->after.any)
		return;
	for (unsigned int i = 0; counter_name(i); i++) {
		uint64_t growth = counter_growth(&check->before, &check->after, i);

		if (growth > 0 && length < sizeof(text))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s%s %" PRIu64, length > 0 ? ", " : "",
						   counter_name(i), growth);
	}
	add_finding(check, "counters", length == 0, NULL, "%s",
		    length > 0 ? text : "no errors counted by this host's device meanwhile");
}

/* ---- All of it ---- */

void check_init(struct check *check, const struct process *process)
{
	memset(check, 0, sizeof(*check));
	check->options = process->options;
	check->session = *process->options;
	check->process = process;
	if (check->options->json)
		check->findings = json_object_new_object();
}

enum status check_path(struct check *check)
{
	bool usable = check_devices(check);

	usable = look_up(check) && find_next_address(check) && usable;
	if (!check_locked_memory(check) && usable)
		return STATUS_LOCAL_FAILURE;
	return usable ? STATUS_SUCCESS : STATUS_UNRESOLVED;
}

/* The last line, when all is right. */
static void print_ready(const struct check *check)
{
	struct console *console = check->process->console;

	if (check->options->port)
		print_result(console, "Ready. All sizes arrived in both directions, verified.");
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
	if (check->process->failure.cause[0])
		return check->process->failure.cause;
	return status != STATUS_INTERRUPTED && check->complaint[0] ? check->complaint
								   : status_in_words(status);
}

enum status check_finish(struct check *check, enum status status)
{
	if (check->question != QUESTION_SIZE) /* that session did not come about */
		report_transfer(check, NULL);
	if (check->failure.status != STATUS_SUCCESS && status != STATUS_INTERRUPTED)
		status = check->failure.status;
	report_counters(check);
	if (check->addresses)
		freeaddrinfo(check->addresses);
	if (!check->findings && status == STATUS_SUCCESS)
		print_ready(check);
	if (!check->findings)
		return status;
	json_add_status(check->findings, status, check->process->signal_number);
	json_add_text(check->findings, "error", cause_of(check, status));
	print_json(check->process->console, check->findings);
	json_object_put(check->findings);
	check->findings = NULL;
	return status;
}
