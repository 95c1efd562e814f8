// SPDX-License-Identifier: MIT
/*
 * The active side. Resolve an address and a route, connect, run the session, and report. With
 * --check run the check instead.
 *
 * Threads: the main thread.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "rdma-common/check/check.h"
#include "rdma-common/clock.h"
#include "rdma-common/connection.h"
#include "rdma-common/guid.h"
#include "rdma-common/interfaces.h"
#include "rdma-common/output.h"
#include "rdma-common/reasons.h"
#include "rdma-common/report.h"

static const char usage[] =
	"Usage: rdma-client [OPTION]... read|write ADDRESS PORT\n"
	"  or:  rdma-client [OPTION]... --check [ADDRESS [PORT]]\n"
	"Connect to an rdma-server: both sides read or write the other's memory with\n"
	"one-sided RDMA. Verify what arrived, and print what the server sent.\n"
	"\n";

/* One session, or with --connections several at once. All connect to `address`. */
struct client {
	struct program *program;
	const struct options *options; /* options of each session */
	const struct addrinfo *address;
	const struct addrinfo *sources; /* addresses of --bind. NULL means any address. */
	enum status status;   /* STATUS_LOCAL_FAILURE if a connection could not be created */
	unsigned int retries; /* number of stale connections that may still be replaced */
	/*
	 * Try no other address: a connection was established, an rdma-server has rejected one, or
	 * the program must end.
	 */
	bool settled;
	/* Time (now_milliseconds()) at which sessions are interrupted. INT64_MAX means never. */
	int64_t stop_time;
};

/* Parse read|write ADDRESS PORT. With --check the words are [ADDRESS [PORT]]. */
static enum parsed parse_words(struct options *options, int count, char **words)
{
	uint64_t port;

	if (options->check && count > 2)
		return usage_error("--check takes at most two arguments: [ADDRESS [PORT]]");
	if (options->check && count == 0 && (options->bind || options->tos != DEFAULT_TOS))
		return usage_error("--bind and --tos apply to a path: give --check an ADDRESS");
	if (options->check && count < 2 &&
	    (options->minimum_rate > 0 || options->connections > 1 ||
	     (OPTION_GIVEN(options, duration_seconds) && options->duration_seconds > 0)))
		return usage_error("--duration, --min-rate and --connections need a server: give "
				   "--check ADDRESS and PORT");
	if (options->check && options->minimum_rate > 0 && options->duration_seconds == 0)
		return usage_error("--min-rate needs a measured rate: omit --duration 0");
	if (!options->check && count != 3)
		return usage_error("three arguments are needed: read or write, ADDRESS and PORT");
	if (!options->check && looks_like_endpoint(words[0]))
		return usage_error(
			"the first argument is read or write, not '%s'; ADDRESS and PORT "
			"follow",
			words[0]);
	if (!options->check && !parse_operation(*words++, &options->operation))
		return PARSED_FAILED;
	options->address = words[0]; /* NULL if the word is missing */
	options->port = words[0] ? words[1] : NULL;
	if (options->address && !*options->address)
		return usage_error("ADDRESS is empty: give the name or the address of a host");
	if (options->address && is_decimal(options->address))
		return usage_error("ADDRESS is an address or a name, not the number '%s'; PORT is "
				   "the last argument",
				   options->address);
	if (options->port && !parse_number(options->port, 1, 65535, &port))
		return usage_error("PORT is a number from 1 to 65535, not '%s'", options->port);
	if (output_resolve(options) != PARSED_RUN)
		return PARSED_FAILED;
	return check_options(options);
}

static enum parsed parse_client_arguments(struct options *options, int argc, char **argv)
{
	enum parsed parsed = parse_options(options, usage, argc, argv);

	return parsed == PARSED_RUN ? parse_words(options, argc - optind, argv + optind) : parsed;
}

static void resolution_timed_out(struct connection *connection)
{
	connection_fail(connection, STATUS_UNRESOLVED,
			"the address or route was not resolved within %u s (--timeout): check that "
			"the host is up",
			connection->setup.options.timeout_seconds);
}

static void address_unresolved(const struct client *client, struct connection *connection,
			       int error)
{
	connection_fail(connection, STATUS_UNRESOLVED, "cannot resolve the address: %s; %s",
			strerror(error),
			address_advice(error, NULL, client->address->ai_addr).text);
}

static void route_unresolved(const struct client *client, struct connection *connection, int error)
{
	connection_fail(connection, STATUS_UNRESOLVED, "cannot resolve the route: %s; %s",
			strerror(error), route_advice(client->address->ai_addr));
}

/* Fail the session and return true if the device of the route has node GUID 0. */
static bool has_zero_guid(const struct client *client, struct connection *connection,
			  struct sockaddr *source)
{
	struct ibv_context *device =
		guid_find_for(client->program->process.devices, source, client->address->ai_addr);

	if (!device)
		return false;
	connection_fail(connection, STATUS_UNRESOLVED, "cannot resolve the address: %s",
			guid_describe(device).text);
	return true;
}

/*
 * Fail the session, because the lookup from `source` cannot start. Without --bind `source` is NULL.
 */
static void not_resolving(const struct client *client, struct connection *connection,
			  const struct sockaddr *source, int error)
{
	const char *bind = client->options->bind;

	if (error == ETIME)
		resolution_timed_out(connection);
	else if (no_port_is_free(error))
		connection_fail(connection, STATUS_LOCAL_FAILURE,
				"cannot resolve the address: " NO_PORT_REASON "; " NO_PORT_ADVICE);
	else if (!source)
		address_unresolved(client, connection, error);
	else
		connection_fail(connection, STATUS_UNRESOLVED,
				"cannot resolve the address with --bind '%s' as the source: %s; %s",
				ellipsize(bind).text, strerror(error),
				address_advice(error, source, client->address->ai_addr).text);
}

/*
 * Start to look up the RDMA device and the neighbor of the address. An event reports the result. If
 * the lookup cannot start, fail the session.
 */
static void start_resolving(const struct client *client, struct connection *connection)
{
	struct sockaddr *source = choose_source(client->sources, client->address);

	if (client->sources && !source) {
		connection_fail(connection, STATUS_UNRESOLVED,
				"--bind '%s' is not an %s address, but the server's is: give two "
				"addresses of the same family",
				ellipsize(client->options->bind).text,
				client->address->ai_family == AF_INET6 ? "IPv6" : "IPv4");
		return;
	}
	if (has_zero_guid(client, connection, source))
		return;
	print_trace(&connection->setup.log, "rdma_resolve_addr");
	if (resolve_address(connection->setup.id, source, client->address->ai_addr,
			    connection->deadline))
		not_resolving(client, connection, source, errno);
}

static void address_failed(const struct client *client, struct connection *connection,
			   const struct cm_event *event)
{
	const char *advice = cgroup_advice(event->library_error);

	if (event->library_error)
		connection_fail(connection, STATUS_UNRESOLVED,
				"the address was resolved to an RDMA device, but librdmacm "
				"cannot use this device: %s; %s",
				strerror(event->library_error),
				advice ? advice
				       : "check that 'ibv_devices' lists the device and that this "
					 "user may open the files in /dev/infiniband");
	else if (event->status == -ETIMEDOUT) /* the first packets to a new neighbor may be lost */
		start_resolving(client, connection);
	else
		address_unresolved(client, connection, -event->status);
}

/*
 * Prepare the connection on the device that was found, and start to resolve the route. Fail the
 * session if librdmacm found no device.
 */
static void address_resolved(const struct client *client, struct connection *connection)
{
	int timeout = (int)(connection->deadline - now_milliseconds());

	if (!connection->setup.id->verbs) {
		connection_fail(connection, STATUS_UNRESOLVED,
				"the address is resolved, but librdmacm finds no RDMA device for "
				"it" UNFOUND_ADVICE);
		return;
	}
	print_status(&connection->setup.log, "address resolved.");
	if (connection_prepare(connection, connection->setup.options.one_way) != STATUS_SUCCESS)
		return;
	if (rdma_resolve_route(connection->setup.id, timeout > 1 ? timeout : 1))
		route_unresolved(client, connection, errno);
}

/*
 * Fail the session, unless a signal interrupted rdma_connect(3). Over iWARP the call connects by
 * TCP, and returns the network's error.
 */
static void connect_failed(struct connection *connection, int error)
{
	enum status status = STATUS_LOCAL_FAILURE;
	const char *advice = "";

	connection->connect_status = -error;
	switch (error) {
	case EINTR: /* an ending signal: process_wait() will report it */
		return;
	case ETIMEDOUT:
		connection_fail(connection, STATUS_TIMED_OUT,
				"no answer to the connect request; check that the host is up and "
				"that the network passes the packets");
		return;
	case EADDRNOTAVAIL:
	case EADDRINUSE:
		advice = "; an earlier connection may still use the local port: try again";
		break;
	case ENOMEM: /* Linux's siw has little room for messages that arrive while it connects */
		advice = "; check that this host has free memory, and that the program on that "
			 "port is an rdma-server: early data from another program can cause this "
			 "error, too";
		break;
	case EINVAL:
		if (lacks_interface(rdma_get_peer_addr(connection->setup.id)))
			advice = "; " INTERFACE_ADVICE;
		break;
	case ECONNREFUSED:
	case ECONNRESET:
		status = STATUS_REFUSED;
		advice = "; check that rdma-server runs on that host and listens on that port";
		break;
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
		status = STATUS_REFUSED;
		advice = "; check that the host is up, and that routes and firewalls let the "
			 "packets pass";
		break;
	default:
		break;
	}
	connection_fail(connection, status, "cannot connect: %s%s", strerror(error), advice);
}

/*
 * Return the time limit, in seconds, of rdma_connect(3), which blocks over iWARP. 0 means that no
 * time is left. Each call may take --timeout. With --connections the calls follow each other, and
 * all must end within --timeout after the deadline for resolving.
 */
static unsigned int seconds_to_connect(const struct connection *connection)
{
	unsigned int timeout = connection->setup.options.timeout_seconds;
	int64_t left = (connection->deadline - now_milliseconds()) / 1000 + timeout;

	if (left < 1)
		return 0;
	return left < timeout ? (unsigned int)left : timeout;
}

/* Trace the source port, if it is known. Call this only if needed: it queries all GIDs. */
static void trace_source_port(const struct connection *connection)
{
	unsigned int port = source_port(connection->setup.id);

	if (port > 0)
		print_trace(&connection->setup.log, "%s", source_port_describe(port).text);
}

static void route_resolved(struct connection *connection)
{
	uint8_t hello[HELLO_SIZE];
	struct rdma_conn_param parameters = connection_parameters(connection, hello);
	unsigned int seconds = seconds_to_connect(connection); /* before the deadline moves */
	int error;

	print_status(&connection->setup.log, "route resolved.");
	if (connection->setup.options.connections > 1 && connection->setup.options.verbose)
		trace_source_port(connection);
	connection_extend_deadline(connection);
	connection->resolved = true;
	if (seconds == 0) {
		connection_fail(connection, STATUS_TIMED_OUT,
				"no time was left for the connect request (--timeout): see the "
				"messages of other connections, if any, or raise --timeout");
		return;
	}
	print_trace(&connection->setup.log, "rdma_connect");
	error = connect_with_timeout(connection->setup.id, &parameters, seconds);
	if (error)
		connect_failed(connection, error);
}

static bool is_starting(const struct connection *connection)
{
	return !connection->running && !connection_is_over(connection);
}

static void start_session(struct client *client);

/*
 * Handle a rejection: by the server, or because no program listens. Replace a connection that is
 * rejected as stale, because a new queue pair has another number. client->retries limits the number
 * of replacements.
 */
static void rejected(struct client *client, struct connection *connection,
		     const struct cm_event *event)
{
	struct failure failure;

	if (connection->session) { /* ESTABLISHED came first */
		connection_cm_event(connection, event);
		return;
	}
	if (event->status == REJECTION_STALE_CONNECTION && client->retries > 0 &&
	    is_starting(connection)) {
		client->retries--;
		print_trace(&connection->setup.log, "the server rejected the request as a stale "
						    "connection: trying again");
		connection_destroy(connection);
		start_session(client);
		return;
	}
	connection->connect_status = event->status;
	connection->rejected = true;
	connection->rejection = decode_peer_hello(event);
	if (explain_rejection(&connection->rejection, event->status, &failure))
		client->settled = true;
	connection_fail(connection, failure.status, "%s", failure.cause);
}

static void established(struct client *client, struct connection *connection,
			const struct cm_event *event)
{
	const struct peer_hello server = decode_peer_hello(event);

	client->settled = true;
	if (connection_is_over(connection)) { /* already failed or interrupted */
		print_trace(&connection->setup.log, "rdma_disconnect");
		rdma_disconnect(connection->setup.id);
		return;
	}
	connection_cm_event(connection, event);
	connection_negotiate(connection, &server, event);
	connection_start(connection); /* the thread also closes a connection that failed */
}

static void take_step(const struct client *client, struct connection *connection,
		      const struct cm_event *event)
{
	if (!is_starting(connection))
		return;
	if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED)
		address_resolved(client, connection);
	else if (event->type == RDMA_CM_EVENT_ADDR_ERROR)
		address_failed(client, connection, event);
	else if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED)
		route_resolved(connection);
	else if (event->library_error)
		connection_fail(connection, STATUS_UNRESOLVED,
				"the route is resolved, but librdmacm cannot read it from the "
				"kernel: %s; try again, and see 'dmesg' if it happens again",
				strerror(event->library_error));
	else
		route_unresolved(client, connection, -event->status);
}

static void handle_client_event(struct client *client, const struct cm_event *event)
{
	struct connection *connection = event->id->context; /* NULL: the connection was destroyed */

	if (!connection)
		return;
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		take_step(client, connection, event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(client, connection, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(client, connection, event);
		break;
	default:
		connection_cm_event(connection, event);
	}
}

/* ---- Sessions, one or several at once ---- */

/*
 * Return the earliest deadline of a session without a thread. INT64_MAX means that every open
 * session has a thread, -1 that all are over.
 */
static int64_t next_deadline(const struct program *program)
{
	const struct connection *connection;
	int64_t deadline = -1;

	for (connection = program->connections.first; connection; connection = connection->next) {
		if (is_starting(connection) && (deadline < 0 || connection->deadline < deadline))
			deadline = connection->deadline;
		else if (connection->running && deadline < 0)
			deadline = INT64_MAX;
	}
	return deadline;
}

/* Fail each session whose deadline has passed before its thread was started. */
static void check_time(struct program *program)
{
	struct connection *connection;
	int64_t now = now_milliseconds();

	for (connection = program->connections.first; connection; connection = connection->next) {
		if (!is_starting(connection) || now < connection->deadline)
			continue;
		if (connection->resolved)
			connection_expire(connection);
		else
			resolution_timed_out(connection);
	}
}

/* Handle events and deadlines until all sessions are over. */
static void wait_for_sessions(struct client *client)
{
	struct program *program = client->program;
	struct connection *ended;
	struct cm_event event;
	int64_t deadline;

	while ((deadline = next_deadline(program)) >= 0) {
		if (now_milliseconds() >= client->stop_time) {
			client->stop_time = INT64_MAX; /* interrupt only once */
			connection_stop_all(program);
		}
		if (deadline > client->stop_time)
			deadline = client->stop_time;
		switch (connection_wait(program, deadline, &event, &ended)) {
		case WAKEUP_CM_EVENT:
			handle_client_event(client, &event);
			break;
		case WAKEUP_ENDED:
			connection_join(ended);
			break;
		case WAKEUP_SIGNAL:
		case WAKEUP_EXHAUSTED:
			client->settled = true;
			connection_stop_all(program);
			break;
		default:
			check_time(program);
		}
	}
}

/*
 * Begin a session with client->address. If no connection can be created, print a message and set
 * client->status.
 */
static void start_session(struct client *client)
{
	struct program *program = client->program;
	struct connection *connection;
	struct rdma_cm_id *id;

	if (rdma_create_id(program->process.event_channel, &id, NULL, RDMA_PS_TCP)) {
		process_fail(&program->process, STATUS_LOCAL_FAILURE,
			     "cannot create a connection identifier: %s", strerror(errno));
		client->status = STATUS_LOCAL_FAILURE;
		return;
	}
	connection = connection_create(program, id, client->options, client->address->ai_addr);
	if (!connection) {
		client->status = STATUS_LOCAL_FAILURE;
		return;
	}
	if (connection_set_tos(connection) == STATUS_SUCCESS)
		start_resolving(client, connection);
}

/*
 * Run the sessions, all at once. Return the worst status. The caller destroys the connections,
 * which hold the results.
 */
static enum status run_sessions(struct client *client)
{
	struct connection *connection;
	enum status status;

	client->status = STATUS_SUCCESS;
	client->retries = client->options->connections;
	for (unsigned int i = 0; i < client->options->connections; i++)
		start_session(client);
	wait_for_sessions(client);
	status = client->status;
	for (connection = client->program->connections.first; connection;
	     connection = connection->next)
		status = worse_status(status, connection_join(connection));
	return status;
}

/*
 * Report how the sessions ended, and destroy the connections. `counts` is true if no other address
 * will be tried. Then also report the results of --json, and the sum of several sessions.
 */
static void report(const struct client *client, enum status status, bool counts)
{
	bool several = client->options->connections > 1;
	struct program *program = client->program;
	struct connection *connection;

	for (connection = program->connections.first; connection; connection = connection->next) {
		report_session(connection);
		if (counts)
			report_json(connection);
		if (several)
			report_path(connection);
	}
	if (counts && several)
		report_sum(program, status);
	if (counts && !program->connections.first)
		report_no_session(program, status);
	while ((connection = program->connections.first))
		connection_destroy(connection);
}

/* Try the host's addresses in turn until client->settled. Return the last attempt's status. */
static enum status try_addresses(struct client *client, const struct addrinfo *addresses)
{
	enum status status = STATUS_UNRESOLVED;
	bool last = false;

	for (const struct addrinfo *address = addresses; !last; address = address->ai_next) {
		client->address = address;
		status = run_sessions(client);
		last = client->settled || !address->ai_next;
		report(client, status, last);
		if (!last)
			print_warning(&client->program->console, "trying the next address of '%s'",
				      ellipsize(client->options->address).text);
	}
	return status;
}

/* Open the program. Fail if no device can have as many queues as --connections needs. */
static enum status open_client(struct program *program)
{
	unsigned int connections = program->options->connections;
	enum status status = program_open(program);

	return status == STATUS_SUCCESS && connections > 1
		       ? check_connections(&program->process, connections)
		       : status;
}

static enum status run_client(struct program *program)
{
	const struct options *options = program->options;
	struct client client = { .program = program, .options = options, .stop_time = INT64_MAX };
	struct addrinfo *addresses, *sources = NULL;
	enum status status;

	/* resolve names before program_open(): until then a signal ends the program at once */
	status =
		resolve_name(&program->process, false, options->address, options->port, &addresses);
	if (status == STATUS_SUCCESS && options->bind)
		status = resolve_name(&program->process, true, options->bind, NULL, &sources);
	client.sources = sources;
	if (status == STATUS_SUCCESS)
		status = open_client(program);
	if (status == STATUS_SUCCESS)
		status = try_addresses(&client, addresses);
	else
		report_no_session(program, status);
	if (addresses)
		freeaddrinfo(addresses);
	if (sources)
		freeaddrinfo(sources);
	return status;
}

/* Wait until `time` (now_milliseconds()), or until a signal arrives or the event channel fails. */
static void wait_until(struct program *program, int64_t time)
{
	struct connection *ended;
	struct cm_event event;

	while (now_milliseconds() < time && !program->process.signal_number &&
	       connection_wait(program, time, &event, &ended) != WAKEUP_EXHAUSTED)
		;
}

/* A session_function of --check: run one set of sessions, and pass the results to `probe`. */
static void run_check_sessions(struct probe *probe, void *argument)
{
	struct program *program = argument;
	struct client client = { .program = program,
				 .options = &probe->session,
				 .address = probe->path->address,
				 .sources = probe->path->sources,
				 .stop_time = probe->stop_time };
	struct connection *connection;

	wait_until(program, probe->start);
	if (program->process.signal_number || program->process.channel_error)
		return;
	run_sessions(&client);
	probe->reached |= client.settled;
	while ((connection = program->connections.first)) {
		probe_take(probe, connection);
		connection_destroy(connection);
	}
}

static enum status run_check(struct program *program)
{
	struct check check;
	enum status status;

	check_init(&check, program->options, &program->process);
	status = check_path(&check);
	if (status == STATUS_SUCCESS && program->options->address) {
		fflush(stdout); /* before the console's thread writes to the same file */
		status = open_client(program);
		if (status == STATUS_SUCCESS && program->options->port)
			status = probe_server(&check.probe, run_check_sessions, program);
		if (status == STATUS_SUCCESS || program->options->port)
			status = check_reach(&check, status, run_check_sessions, program);
	}
	return check_finish(&check, status);
}

int main(int argc, char **argv)
{
	struct options options = default_options(ROLE_CLIENT);
	enum status status = STATUS_SUCCESS;
	static struct program program; /* static: an abandoned helper may outlive main() */
	enum parsed parsed;

	reserve_std_fds();
	parsed = parse_client_arguments(&options, argc, argv);
	if (parsed == PARSED_FAILED)
		return STATUS_USAGE;
	program_init(&program, &options);
	if (parsed == PARSED_RUN)
		status = options.check ? run_check(&program) : run_client(&program);
	return program_end(&program, status);
}
