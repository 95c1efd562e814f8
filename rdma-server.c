// SPDX-License-Identifier: MIT
/*
 * The passive side: listen, accept or reject clients, let their sessions run, report.
 *
 * Threads: the main thread.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <string.h>

#include "rdma-common/connection.h"
#include "rdma-common/guid.h"
#include "rdma-common/interfaces.h"
#include "rdma-common/output.h"
#include "rdma-common/reasons.h"
#include "rdma-common/report.h"

/* Maximum number of connect requests that wait for this program. */
#define BACKLOG 1024
/* Maximum number of addresses to listen on: the wildcards of IPv4 and IPv6, or those of --bind. */
#define LISTENERS 16
/* Number of attempts to find a port that is free on every address. */
#define PORT_ATTEMPTS 20
/* Number of stuck helpers of ended sessions at which the server rejects further clients. */
#define MAX_STUCK_HELPERS 32

static const char usage[] =
	"Usage: rdma-server [OPTION]... [read|write]\n"
	"Serve rdma-clients until SIGINT, SIGTERM or SIGHUP: both sides read or write\n"
	"the other's memory with one-sided RDMA. Verify what arrived, and print what the\n"
	"client sent. Without read or write, each client chooses.\n"
	"\n";

struct server {
	struct program program;
	struct rdma_cm_id *listeners[LISTENERS];
	unsigned int listener_count;
	bool stopping;      /* accept no more sessions; exit after the last one */
	bool warned;        /* warn_unfound() has printed its warning */
	enum status status; /* result of the program */
	/* the RDMA device with node GUID 0 that has an address of --bind, or NULL */
	struct ibv_context *unfound;
};

static enum parsed parse_server_arguments(struct options *options, int argc, char **argv)
{
	enum parsed parsed = parse_options(options, usage, argc, argv);

	if (parsed != PARSED_RUN)
		return parsed;
	if (argc - optind > 1)
		return usage_error("at most one argument is allowed: read or write; --port takes a "
				   "port, --bind an address");
	if (optind < argc && looks_like_endpoint(argv[optind]))
		return usage_error("the argument is 'read' or 'write', not '%s'; --port takes a "
				   "port, --bind an address",
				   argv[optind]);
	options->operation = OPERATION_ANY;
	if ((optind < argc && !parse_operation(argv[optind], &options->operation)) ||
	    output_resolve(options) != PARSED_RUN)
		return PARSED_FAILED;
	return check_options(options);
}

/* Warn if no payload can be stored in --output now, for example because its folder is missing. */
static void check_output(struct server *server)
{
	const char *output = server->program.options->output;

	if (output && output_check(output))
		print_warning(&server->program.console,
			      "cannot store payloads in '%s': %s; mend this, or a session whose "
			      "client sends a payload will fail",
			      ellipsize(output).text, output_error(errno));
}

/* ---- Listening ---- */

static void set_port(struct sockaddr *address, uint16_t port)
{
	/* struct sockaddr_in6 has the port at the same place */
	((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
}

static void stop_listening(struct server *server)
{
	while (server->listener_count > 0) {
		if (rdma_destroy_id(server->listeners[--server->listener_count]))
			print_warning(&server->program.console, "cannot destroy a listener: %s",
				      strerror(errno));
	}
}

/*
 * After EADDRNOTAVAIL, return true if another port of the address is free: then this host has the
 * address, and `port` is in use. Return false for port 0. The port of `address` may become 0.
 */
static bool is_port_taken(struct server *server, struct sockaddr *address, uint16_t port)
{
	struct rdma_cm_id *id;
	bool taken;

	if (port == 0 ||
	    rdma_create_id(server->program.process.event_channel, &id, NULL, RDMA_PS_TCP))
		return false;
	set_port(address, 0);
	taken = !rdma_bind_addr(id, address);
	rdma_destroy_id(id);
	return taken;
}

/*
 * Return true, with errno ENODEV, if the device of the bound address has node GUID 0. A listener on
 * that address would reject every request.
 */
static bool misses_device(struct server *server, struct rdma_cm_id *id)
{
	struct ibv_context *device = guid_find(server->program.process.devices, id);

	if (!device)
		return false;
	server->unfound = device;
	errno = ENODEV;
	return true;
}

/* Add a listener on `address`. Return 0 or an errno value. */
static int listen_on(struct server *server, struct sockaddr *address)
{
	struct rdma_cm_id *id;
	int on = 1, error;

	if (rdma_create_id(server->program.process.event_channel, &id, server, RDMA_PS_TCP))
		return errno;
	/* IPv4 has its own listener: over iWARP a listener for IPv6 refuses IPv4 clients */
	if ((address->sa_family == AF_INET6 &&
	     rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on))) ||
	    set_type_of_service(id, server->program.options) || rdma_bind_addr(id, address) ||
	    misses_device(server, id) || rdma_listen(id, BACKLOG)) {
		error = errno;
		rdma_destroy_id(id);
		return error;
	}
	server->listeners[server->listener_count++] = id;
	return 0;
}

/* Return true if `error` means that this host lacks the address, its family, or an RDMA device. */
static bool is_unusable(int error)
{
	return error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == ENODEV;
}

/*
 * Listen on each address that this host has, at most LISTENERS. All have the same port: `port`, or
 * if that is 0, the port that the first listener gets. Return 0 or an errno value. After an error
 * some listeners may exist.
 */
static int listen_on_all(struct server *server, const struct addrinfo *addresses, uint16_t port)
{
	int error = 0;

	for (const struct addrinfo *address = addresses;
	     address && server->listener_count < LISTENERS; address = address->ai_next) {
		set_port(address->ai_addr, port);
		error = listen_on(server, address->ai_addr);
		/* Linux gives EADDRNOTAVAIL for a wildcard address whose port is in use */
		if (error == EADDRNOTAVAIL && is_port_taken(server, address->ai_addr, port))
			error = EADDRINUSE;
		if (error && !is_unusable(error))
			return error;
		if (!error && port == 0)
			port = ntohs(rdma_get_src_port(server->listeners[0]));
	}
	return server->listener_count > 0 ? 0 : error;
}

/* Describe that no address can be used. After ENODEV, the file of a device may be missing. */
static struct strbuf describe_no_device(int error)
{
	struct closed_file file = { .error = 0 };
	struct strbuf text = { 0 };

	if (error == ENODEV)
		file = closed_file_find(NULL);
	strbuf_addf(&text,
		    "%s; give --bind an address of a network interface that has an RDMA device "
		    "('rdma link')",
		    strerror(error));
	if (file.error)
		strbuf_addf(&text, "; %s", closed_file_describe(&file).text);
	return text;
}

/* Return the first address that must name its network interface but does not, or NULL. */
static const struct sockaddr *find_without_interface(const struct addrinfo *addresses)
{
	while (addresses && !lacks_interface(addresses->ai_addr))
		addresses = addresses->ai_next;
	return addresses ? addresses->ai_addr : NULL;
}

/* Explain why the server cannot listen on `port` of the addresses. 0 means any port. */
static enum status explain_listening(struct server *server, const struct addrinfo *addresses,
				     uint64_t port, int error)
{
	const struct options *options = server->program.options;
	const struct sockaddr *incomplete = find_without_interface(addresses);
	bool unusable = is_unusable(error), lacks_ports = no_port_is_free(error);
	enum status status = unusable && !lacks_ports ? STATUS_UNRESOLVED : STATUS_LOCAL_FAILURE;
	struct strbuf reason = { 0 };

	if (lacks_ports && port == 0) {
		strbuf_addf(&reason, NO_PORT_REASON "; " NO_PORT_ADVICE);
	} else if (error == EADDRINUSE) {
		strbuf_addf(&reason, "the port is in use; choose another --port");
	} else if (lacks_ports) { /* is_port_taken() finds no other free port */
		strbuf_addf(&reason,
			    "%s; either the port is in use, or this host does not have the "
			    "address: choose another --port, or see 'ip address'",
			    strerror(error));
	} else if (unusable && server->unfound) {
		reason = guid_describe(server->unfound);
	} else if (error == EACCES && port > 0) {
		strbuf_addf(&reason,
			    "%s; choose a --port of net.ipv4.ip_unprivileged_port_start or more, "
			    "or grant CAP_NET_BIND_SERVICE",
			    strerror(error));
	} else if (error == EINVAL && incomplete) {
		status = STATUS_UNRESOLVED;
		strbuf_addf(&reason, "%s; %s", strerror(error),
			    own_interface_advice(incomplete).text);
	} else if (unusable) {
		reason = describe_no_device(error);
	} else {
		strbuf_addf(&reason, "%s", strerror(error));
	}
	return process_fail(&server->program.process, status, "cannot listen on %s%s%s: %s",
			    ellipsize(options->bind ? options->bind : "all addresses").text,
			    options->port ? " port " : ", any port",
			    ellipsize(options->port ? options->port : "").text, reason.text);
}

static enum status start_listening(struct server *server, const struct addrinfo *addresses)
{
	const struct options *options = server->program.options;
	uint64_t port = 0;
	int error;

	if (options->port)
		parse_number(options->port, 0, 65535, &port);
	for (int attempt = 1;; attempt++) {
		error = listen_on_all(server, addresses, (uint16_t)port);
		if (error != EADDRINUSE || port != 0 || attempt == PORT_ATTEMPTS)
			break;
		stop_listening(server);
	}
	if (error)
		return explain_listening(server, addresses, port, error);
	if (server->unfound)
		print_warning(&server->program.console,
			      "cannot listen on every address of --bind '%s': %s",
			      ellipsize(options->bind).text, guid_describe(server->unfound).text);
	report_listening(&server->program, ntohs(rdma_get_src_port(server->listeners[0])));
	return STATUS_SUCCESS;
}

/*
 * Stop the server, because the device of a listener was removed. Linux reports this only for a
 * listener that is bound to an address. A wildcard listener uses each device that appears.
 */
static void lose_listener(struct server *server)
{
	server->stopping = true;
	server->status = process_fail(
		&server->program.process, STATUS_LOCAL_FAILURE,
		"cannot listen on an address of --bind '%s' any more: its RDMA device was "
		"removed; start the server again when the device is back ('rdma link')",
		ellipsize(server->program.options->bind).text);
}

/* ---- Sessions ---- */

/* Report and destroy a session that is over or was rejected. Return its status. */
static enum status finish(struct connection *connection)
{
	enum status status = connection_join(connection);

	report_session(connection);
	report_json(connection);
	connection_destroy(connection);
	return status;
}

static void end_session(struct server *server, struct connection *connection)
{
	enum status status = finish(connection);

	if (server->program.options->one_off) {
		server->status = status;
		server->stopping = true;
	}
}

/*
 * Set up a session and accept the client. Return false if the setup failed. The caller then rejects
 * the client. If only rdma_accept(3) fails, reject the client here, and return true: the thread
 * ends the session.
 */
static bool accept_client(struct connection *connection, const struct cm_event *event,
			  const struct peer_hello *client)
{
	bool one_way = client->hello_kind == HELLO_CURRENT && client->hello.flags & HELLO_ONE_WAY;
	struct rdma_conn_param parameters;
	uint8_t hello[HELLO_SIZE];

	if (connection_set_tos(connection) != STATUS_SUCCESS ||
	    connection_prepare(connection, one_way) != STATUS_SUCCESS ||
	    connection_negotiate(connection, client, event) != STATUS_SUCCESS ||
	    connection_start(connection) != STATUS_SUCCESS)
		return false;
	parameters = connection_parameters(connection, hello);
	print_trace(&connection->setup.log, "rdma_accept");
	if (rdma_accept(connection->setup.id, &parameters))
		connection_fail_accept(connection, errno);
	return true;
}

/*
 * Return true if no further client can be served. Then connection->setup_refusal is the reason for
 * the client. The server's message is recorded here, or by connection_reject().
 */
static bool over_session_limit(const struct server *server, struct connection *connection)
{
	const struct options *options = server->program.options;
	unsigned int count = atomic_load(&server->program.regions.sessions);
	int stuck_helpers = server->program.regions.stuck_helpers;
	unsigned int most = options->one_off ? 1 : options->maximum_sessions;

	if (server->stopping || count > most) /* `count` includes this connection */
		connection->setup_refusal = REFUSAL_SESSIONS;
	if (server->stopping || (options->one_off && count > 1))
		return true;
	if (count > most)
		connection_fail(
			connection, STATUS_REFUSED,
			"refused: the limit of --max-sessions, %u, is reached: raise it, or wait "
			"until a session ends",
			most);
	else if (stuck_helpers >= MAX_STUCK_HELPERS)
		connection_fail(connection, STATUS_REFUSED,
				"refused: %d threads of ended sessions still wait for a disk or a "
				"pipe: find the disk or the pipe that hangs",
				stuck_helpers);
	else
		return false;
	return true;
}

/*
 * Return the options of a session: the program's, changed as the client's hello requests. In a
 * session of --check the client chooses the operation, its duration and the payload.
 */
static struct options options_for(const struct server *server, const struct peer_hello *client)
{
	struct options options = *server->program.options;
	const struct hello *hello = &client->hello;

	if (client->hello_kind != HELLO_CURRENT || hello->operation > OPERATION_WRITE)
		return options;
	if (hello->wanted > 0 || options.operation == OPERATION_ANY)
		options.operation = (enum operation)hello->operation;
	if (hello->wanted == 0)
		return options;
	options.check = true;
	options.pattern_size = options.wanted = hello->wanted;
	options.output = NULL;
	options.iterations = options.interval_seconds = 0;
	options.duration_seconds = hello->wanted_seconds;
	options.minimum_rate = 0;
	return options;
}

/* Reject a request for which no session can be set up, and destroy its identifier. */
static void turn_away(struct server *server, struct rdma_cm_id *id, const struct options *options)
{
	reject_request(id, options, REFUSAL_SETUP);
	id->context = NULL; /* if the id remains, its late events are ignored */
	if (rdma_destroy_id(id))
		print_warning(&server->program.console,
			      "cannot destroy a connection identifier: %s", strerror(errno));
}

/*
 * Warn that librdmacm has not found the device of a request. Do so only once, because a peer can
 * send any number of such requests.
 */
static void warn_unfound(struct server *server, struct rdma_cm_id *id)
{
	const struct endpoint own = endpoint_of(rdma_get_local_addr(id));
	const char *rest = "later requests of this kind are rejected without a message";
	struct ibv_context *device;

	if (server->warned)
		return;
	server->warned = true;
	device = guid_find(server->program.process.devices, id);
	if (device)
		print_warning(&server->program.console, "rejected a connect request to %s: %s; %s",
			      own.address, guid_describe(device).text, rest);
	else
		print_warning(&server->program.console,
			      "rejected a connect request to %s: librdmacm finds no RDMA device "
			      "for this address" UNFOUND_ADVICE "; %s",
			      own.address, rest);
}

static void handle_connect_request(struct server *server, const struct cm_event *event)
{
	const struct peer_hello client = decode_peer_hello(event);
	const struct options options = options_for(server, &client);
	struct connection *connection;
	enum refusal refusal;

	/* NULL if the device has node GUID 0 (ucma_query_addr() in librdmacm's cma.c) */
	if (!event->id->verbs) {
		warn_unfound(server, event->id);
		turn_away(server, event->id, &options);
		return;
	}
	connection = connection_create(&server->program, event->id, &options,
				       rdma_get_peer_addr(event->id));
	if (!connection)
		return;
	print_status(&connection->setup.log, "received connection request.");
	refusal = hello_refusal(&options, connection->setup.payload.length, &client);
	if (refusal == REFUSAL_NONE &&
	    (over_session_limit(server, connection) || !accept_client(connection, event, &client)))
		refusal = connection->setup_refusal;
	if (refusal == REFUSAL_NONE)
		return;
	connection_reject(connection, refusal);
	finish(connection);
}

static void handle_server_event(struct server *server, const struct cm_event *event)
{
	void *context = event->id->context; /* NULL: the connection was destroyed */

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		handle_connect_request(server, event);
	else if (context == server && event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		lose_listener(server);
	else if (context == server)
		print_warning(&server->program.console,
			      "the connection manager reports %s for a listener",
			      rdma_event_str(event->type));
	else if (context)
		connection_cm_event(context, event);
}

static enum status serve_clients(struct server *server)
{
	struct connection *ended;
	struct cm_event event;

	for (;;) {
		if (server->stopping) {
			stop_listening(server);
			if (!server->program.connections.first)
				return server->status;
		}
		switch (connection_wait(&server->program, INT64_MAX, &event, &ended)) {
		case WAKEUP_CM_EVENT:
			handle_server_event(server, &event);
			break;
		case WAKEUP_ENDED:
			end_session(server, ended);
			break;
		case WAKEUP_SIGNAL:
			server->stopping = true;
			connection_stop_all(&server->program);
			break;
		case WAKEUP_EXHAUSTED:
			server->stopping = true;
			server->status = STATUS_LOCAL_FAILURE;
			connection_stop_all(&server->program);
			break;
		default:
			break;
		}
	}
}

static enum status run_server(struct server *server)
{
	const struct options *options = server->program.options;
	struct addrinfo *addresses;
	/* resolve the name before program_open(): until then a signal ends the program at once */
	enum status status = resolve_name(&server->program.process, true, options->bind,
					  options->port ? options->port : "0", &addresses);

	if (status == STATUS_SUCCESS)
		status = program_open(&server->program);
	if (status == STATUS_SUCCESS) {
		check_output(server);
		status = start_listening(server, addresses);
	}
	if (addresses)
		freeaddrinfo(addresses);
	if (status == STATUS_SUCCESS)
		status = serve_clients(server);
	else
		report_no_session(&server->program, status);
	stop_listening(server);
	return status;
}

int main(int argc, char **argv)
{
	struct options options = default_options(ROLE_SERVER);
	static struct server server; /* static: an abandoned helper may outlive main() */
	enum status status = STATUS_SUCCESS;
	enum parsed parsed;

	reserve_std_fds();
	parsed = parse_server_arguments(&options, argc, argv);
	if (parsed == PARSED_FAILED)
		return STATUS_USAGE;
	program_init(&server.program, &options);
	/* the result if a signal ends the program before its only session */
	if (options.one_off)
		server.status = STATUS_INTERRUPTED;
	if (parsed == PARSED_RUN)
		status = run_server(&server);
	/* with --one-off, STATUS_INTERRUPTED ends the process by the signal */
	return program_end(&server.program, status);
}
