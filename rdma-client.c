// SPDX-License-Identifier: MIT
/*
 * The active side: resolves an address and a route, connects, lets the session run, reports.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "rdma-common/check.h"
#include "rdma-common/connection.h"
#include "rdma-common/output.h"
#include "rdma-common/report.h"

static const char usage[] =
	"Usage: rdma-client [OPTION]... read|write ADDRESS PORT\n"
	"  or:  rdma-client [OPTION]... --check [ADDRESS [PORT]]\n"
	"Connect to an rdma-server, read or write each other's memory with one-sided\n"
	"RDMA, verify what arrived, and print what the server sent.\n"
	"\n";

/* One attempt at a session with one address; with --connections there are several at once. */
struct client {
	struct engine *engine;
	const struct options *options; /* of the session */
	struct connection *connection; /* NULL: it did not come about */
	const struct addrinfo *address;
	const struct addrinfo *sources; /* what --bind gave; NULL: any address */
	int64_t resolve_deadline;       /* as now_milliseconds() counts; INT64_MAX once resolved */
	enum status status;             /* how the session ended */
	bool ended;                     /* its thread has */
	bool reached; /* the peer answered as a server of this project: no other address is tried */
};

/* read|write ADDRESS PORT, or with --check perhaps ADDRESS and PORT. */
static enum parsed parse_words(struct options *options, int count, char **words)
{
	uint64_t port;

	if (options->check && count > 2)
		return usage_error("--check takes ADDRESS, or ADDRESS and PORT, or neither");
	if (options->check && count == 0 && (options->bind || options->tos != DEFAULT_TOS))
		return usage_error("--bind and --tos are of a path: give --check an ADDRESS");
	if (options->check && count < 2 && (options->minimum_rate > 0 || options->connections > 1))
		return usage_error("--min-rate and --connections need a server: give --check "
				   "ADDRESS and PORT");
	if (!options->check && count != 3)
		return usage_error("three arguments are needed: read or write, ADDRESS and PORT");
	if (!options->check && !parse_operation(*words++, &options->operation))
		return PARSED_FAILED;
	options->address = words[0]; /* NULL behind the last word */
	options->port = words[0] ? words[1] : NULL;
	if (options->port && !parse_number(options->port, 1, 65535, &port))
		return usage_error("PORT is a number from 1 to 65535, not '%s'", options->port);
	if (output_resolve(options) != PARSED_RUN)
		return PARSED_FAILED;
	return check_options(options);
}

static enum parsed parse_arguments(struct options *options, int argc, char **argv)
{
	enum parsed parsed = parse_options(options, usage, argc, argv);

	return parsed == PARSED_RUN ? parse_words(options, argc - optind, argv + optind) : parsed;
}

static const char not_resolved[] = "the address or route was not resolved in time; is the host up?";

/* The address of --bind that fits the peer's; NULL: it gave none, or none of that family. */
static struct sockaddr *choose_source(const struct client *client)
{
	const struct addrinfo *source = client->sources;

	while (source && source->ai_family != client->address->ai_family)
		source = source->ai_next;
	return source ? source->ai_addr : NULL;
}

static void address_unresolved(struct client *client, int error)
{
	connection_fail(client->connection, STATUS_UNRESOLVED,
			"cannot resolve the address: %s; is the host up, and does a network "
			"interface with an RDMA device ('rdma link') lead there?",
			strerror(error));
}

/* Finds the RDMA device and the neighbour that lead to the address; answered by an event. */
static void start_resolving(struct client *client)
{
	struct connection *connection = client->connection;
	struct sockaddr *source = choose_source(client);

	if (client->sources && !source) {
		connection_fail(connection, STATUS_UNRESOLVED,
				"--bind '%s' is no %s address, as the one to connect to is; give "
				"both of one family",
				short_name(client->options->bind).text,
				client->address->ai_family == AF_INET6 ? "IPv6" : "IPv4");
		return;
	}
	print_trace(&connection->log, "rdma_resolve_addr");
	if (!resolve_address(connection->id, source, client->address->ai_addr,
			     client->resolve_deadline))
		return;
	if (errno == ETIME)
		connection_fail(connection, STATUS_UNRESOLVED, "%s", not_resolved);
	else if (source)
		connection_fail(connection, STATUS_UNRESOLVED,
				"cannot resolve the address from --bind '%s': %s; is that an "
				"address of this host ('ip address'), of a network interface with "
				"an RDMA device ('rdma link') that leads there?",
				short_name(client->options->bind).text, strerror(errno));
	else
		address_unresolved(client, errno);
}

static void address_failed(struct client *client, const struct cm_event *event)
{
	if (event->status == -ETIMEDOUT)
		start_resolving(client); /* the first packets to a new neighbour may be lost */
	else
		address_unresolved(client, -event->status);
}

/* The device is known now, so everything that belongs to it can be allocated. */
static void address_resolved(struct client *client)
{
	struct connection *connection = client->connection;
	int timeout = (int)(client->resolve_deadline - now_milliseconds());

	print_status(&connection->log, "address resolved.");
	if (connection_prepare(connection, client->options->one_way) != STATUS_SUCCESS)
		return;
	if (rdma_resolve_route(connection->id, timeout > 1 ? timeout : 1))
		connection_fail(connection, STATUS_UNRESOLVED, "cannot resolve the route: %s",
				strerror(errno));
}

/* rdma_connect() failed. Over iWARP it connects by TCP, and reports what the network says. */
static void connect_failed(struct connection *connection, int error)
{
	enum status status = STATUS_LOCAL_FAILURE;
	const char *advice = "";

	switch (error) {
	case EINTR: /* by a signal, which ends the session */
		return;
	case ETIMEDOUT:
		connection_fail(connection, STATUS_TIMED_OUT,
				"no answer to the connect request; is the host up, and the network "
				"between?");
		return;
	case EADDRNOTAVAIL:
	case EADDRINUSE:
		advice = "; an earlier connection still holds the port that this side was given: "
			 "try again";
		break;
	case ENOMEM: /* Linux's siw keeps few notes of what arrives while it connects */
		advice = "; is memory short here, or does a program listen there that is no "
			 "rdma-server, and sends at once?";
		break;
	case EINVAL:
	case ENODEV:
	case EMFILE:
	case ENFILE:
		break;
	default:
		status = STATUS_REFUSED;
		advice = "; is rdma-server running there, on that port?";
	}
	connection_fail(connection, status, "cannot connect: %s%s", strerror(error), advice);
}

/*
 * rdma_connect(3), which over iWARP may wait as long as --timeout. While others are still to be
 * called for: all of them wait that much longer than they may take to be resolved, and no more. 0
 * or an errno value.
 */
static int connect_in_time(const struct client *client, struct rdma_conn_param *parameters)
{
	unsigned int timeout = client->options->timeout_seconds;
	int64_t left = (client->resolve_deadline - now_milliseconds()) / 1000 + timeout;

	if (left < 1)
		return ETIMEDOUT;
	return connect_within(client->connection->id, parameters,
			      left < timeout ? (unsigned int)left : timeout);
}

static void route_resolved(struct client *client)
{
	struct connection *connection = client->connection;
	uint8_t hello[HELLO_SIZE];
	struct rdma_conn_param parameters = connection_parameters(connection, hello);
	int error;

	print_status(&connection->log, "route resolved.");
	if (client->options->connections > 1)
		print_trace(&connection->log, "source port %u", source_port(connection->id));
	connection_extend_deadline(connection);
	print_trace(&connection->log, "rdma_connect");
	error = connect_in_time(client, &parameters);
	client->resolve_deadline = INT64_MAX;
	if (error)
		connect_failed(connection, error);
}

/* The server rejected the request, or nobody listens. */
static void rejected(struct client *client, const struct cm_event *event)
{
	struct connection *connection = client->connection;
	struct failure failure;

	if (connection->running) { /* it has been established */
		connection_cm_event(connection, event);
		return;
	}
	connection->rejected = true;
	connection->rejection = peer_introduction(event);
	if (explain_rejection(&connection->rejection, event->status, &failure))
		client->reached = true;
	connection_fail(connection, failure.status, "%s", failure.cause);
}

static void established(struct client *client, const struct cm_event *event)
{
	client->reached = true;
	connection_negotiate(client->connection, event);
	connection_cm_event(client->connection, event);
	connection_start(client->connection); /* also to close it, if that has failed */
}

static void handle_cm_event(struct client *client, const struct cm_event *event)
{
	const struct connection *connection = client->connection;
	/* behind a signal say; once its thread runs the state is that one's, and all is resolved */
	bool too_late = !connection->running && connection_is_over(connection);

	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!too_late)
			address_resolved(client);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (!too_late)
			address_failed(client, event);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (!too_late)
			route_resolved(client);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (!too_late)
			connection_fail(
				client->connection, STATUS_UNRESOLVED,
				"cannot resolve the route: %s; is the subnet manager running?",
				strerror(-event->status));
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(client, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(client, event);
		break;
	default:
		connection_cm_event(client->connection, event);
	}
}

/* A time is up, of what the main thread waits for. */
static void check_time(struct client *client)
{
	struct connection *connection = client->connection;
	int64_t now = now_milliseconds();

	if (now >= client->resolve_deadline) {
		client->resolve_deadline = INT64_MAX;
		connection_fail(connection, STATUS_UNRESOLVED, "%s", not_resolved);
	} else if (!connection->running && now >= connection->deadline) {
		connection_handle(connection, EVENT_DEADLINE, STATUS_SUCCESS);
	}
}

/* ---- Sessions, one or several at once ---- */

/* True as long as the main thread has to do something for the session. */
static bool goes_on(const struct client *client)
{
	const struct connection *connection = client->connection;

	return connection && !client->ended &&
	       (connection->running || !connection_is_over(connection));
}

/* When the time of a session that has no thread yet is up. -1: no session goes on. */
static int64_t next_deadline(const struct client *clients, unsigned int count)
{
	int64_t deadline = -1, next;

	for (const struct client *client = clients; client < clients + count; client++) {
		if (!goes_on(client))
			continue;
		next = client->connection->running ? INT64_MAX : client->connection->deadline;
		if (deadline < 0 || next < deadline)
			deadline = next;
	}
	return deadline;
}

/* Whose the connection is; NULL: it is gone. */
static struct client *client_of(struct client *clients, unsigned int count,
				const struct connection *connection)
{
	for (unsigned int i = 0; i < count; i++) {
		if (clients[i].connection == connection)
			return &clients[i];
	}
	return NULL;
}

/* What concerns all of them: a signal, the end of all events, or nothing but the time. */
static void handle_wakeup(struct client *clients, unsigned int count, enum wakeup wakeup)
{
	for (unsigned int i = 0; i < count; i++) {
		struct client *client = &clients[i];

		if (wakeup == WAKEUP_SIGNAL || wakeup == WAKEUP_EXHAUSTED)
			client->reached = true; /* no other address is tried */
		if (!goes_on(client))
			continue;
		if (wakeup == WAKEUP_SIGNAL)
			connection_tell(client->connection, NEWS_INTERRUPTED);
		else if (wakeup == WAKEUP_EXHAUSTED)
			connection_tell(client->connection, NEWS_ABANDONED);
		else
			check_time(client);
	}
}

/* Runs until all sessions are over. */
static void run_events(struct client *clients, unsigned int count)
{
	struct client *client;
	struct connection *ended;
	struct cm_event event;
	int64_t deadline;

	while ((deadline = next_deadline(clients, count)) >= 0) {
		enum wakeup wakeup = engine_wait(clients->engine, deadline, &event, &ended);

		if (wakeup == WAKEUP_CM_EVENT) {
			client = client_of(clients, count, event.id->context);
			if (client)
				handle_cm_event(client, &event);
		} else if (wakeup == WAKEUP_ENDED) {
			client = client_of(clients, count, ended);
			if (client)
				client->ended = true;
		} else {
			handle_wakeup(clients, count, wakeup);
		}
	}
}

/* Begins a session with client->address. Where it does not come about a message is printed. */
static void start_session(struct client *client)
{
	struct engine *engine = client->engine;
	struct rdma_cm_id *id;

	client->status = STATUS_LOCAL_FAILURE;
	if (rdma_create_id(engine->process.event_channel, &id, NULL, RDMA_PS_TCP)) {
		process_fail(&engine->process, STATUS_LOCAL_FAILURE,
			     "cannot create a connection identifier: %s", strerror(errno));
		return;
	}
	client->resolve_deadline = now_milliseconds() + timeout_milliseconds(client->options);
	client->connection =
		connection_create(engine, id, client->options, client->address->ai_addr);
	if (client->connection && connection_set_tos(client->connection) == STATUS_SUCCESS)
		start_resolving(client);
}

/* How many there are at once: one at least. */
static unsigned int session_count(const struct options *options)
{
	return options->connections > 1 ? options->connections : 1;
}

/*
 * Runs a session for each client, a copy of `common`, all at once, and returns the worst status.
 * How they ended is in their connections, which the caller destroys.
 */
static enum status run_sessions(const struct client *common, struct client *clients,
				unsigned int count)
{
	enum status status = STATUS_SUCCESS;

	for (unsigned int i = 0; i < count; i++) {
		clients[i] = *common;
		start_session(&clients[i]);
	}
	run_events(clients, count);
	for (unsigned int i = 0; i < count; i++) {
		if (clients[i].connection)
			clients[i].status = connection_join(clients[i].connection);
		status = worse_status(status, clients[i].status);
	}
	return status;
}

/* Reports how the sessions ended, and if `last`, that is no other address is tried, outcomes. True:
 * one was. */
static bool report(struct client *clients, unsigned int count, enum status status, bool last)
{
	const struct engine *engine = clients->engine;
	struct sum sum = { 0 };
	bool reported = false;

	for (unsigned int i = 0; i < count; i++) {
		struct connection *connection = clients[i].connection;

		if (!connection)
			continue;
		report_session(connection);
		if (last)
			report_json(connection);
		if (count > 1)
			report_path(&sum, connection);
		connection_destroy(connection);
		reported = last;
	}
	if (last && count > 1)
		report_sum(engine, &sum, status);
	return reported;
}

/*
 * Tries the addresses of the host in turn, until a server of this project answers. Each client is a
 * copy of `common`. `*reported`: an outcome was.
 */
static enum status try_addresses(const struct client *common, const struct addrinfo *addresses,
				 bool *reported)
{
	const struct options *options = common->options;
	struct client clients[MOST_CONNECTIONS], client = *common;
	unsigned int count = session_count(options);
	enum status status = STATUS_UNRESOLVED;
	bool reached = false;

	for (const struct addrinfo *address = addresses; address && !reached;
	     address = address->ai_next) {
		client.address = address;
		status = run_sessions(&client, clients, count);
		for (unsigned int i = 0; i < count; i++)
			reached |= clients[i].reached;
		*reported = report(clients, count, status, reached || !address->ai_next);
		if (address->ai_next && !reached)
			print_warning(&common->engine->console, "trying the next address of '%s'",
				      short_name(options->address).text);
	}
	return status;
}

static enum status run_client(struct engine *engine)
{
	const struct options *options = engine->options;
	struct client client = { .engine = engine, .options = options };
	struct addrinfo *addresses, *sources = NULL;
	enum status status;
	bool reported = false;

	/* first: while names are resolved and files read, signals still end the program at once */
	status = resolve_name(&engine->process, "the host name", options->address, options->port,
			      &addresses);
	if (status == STATUS_SUCCESS && options->bind)
		status = resolve_name(&engine->process, "--bind", options->bind, NULL, &sources);
	client.sources = sources;
	if (status == STATUS_SUCCESS)
		status = engine_open(engine);
	if (status == STATUS_SUCCESS)
		status = try_addresses(&client, addresses, &reported);
	if (!reported)
		report_no_session(engine, status);
	if (addresses)
		freeaddrinfo(addresses);
	if (sources)
		freeaddrinfo(sources);
	return status;
}

/* Waits until then, as now_milliseconds() counts, or for a signal. */
static void wait_until(struct engine *engine, int64_t time)
{
	struct connection *ended;
	struct cm_event event;

	while (now_milliseconds() < time && !engine->process.signal_number &&
	       engine_wait(engine, time, &event, &ended) != WAKEUP_EXHAUSTED)
		;
}

/* Sessions of --check with PORT: as session_function says. */
static bool run_check_sessions(struct check *check, void *argument)
{
	struct engine *engine = argument;
	struct client client = { .engine = engine,
				 .options = &check->session,
				 .address = check->address,
				 .sources = check->sources,
				 .reached = check->reached };
	struct client clients[MOST_CONNECTIONS];
	unsigned int count = session_count(&check->session);
	bool complete = true;

	wait_until(engine, check->start);
	if (engine->process.signal_number)
		return false;
	engine->payload = payload_pattern(check->session.pattern_size);
	run_sessions(&client, clients, count);
	for (unsigned int i = 0; i < count; i++) {
		check->reached |= clients[i].reached;
		complete &= clients[i].connection != NULL;
		if (!clients[i].connection)
			continue;
		check_take(check, clients[i].connection);
		connection_destroy(clients[i].connection);
	}
	return complete;
}

static enum status run_check(struct engine *engine)
{
	struct check check;
	enum status status;

	check_init(&check, engine->options, &engine->process);
	status = check_path(&check);
	if (status == STATUS_SUCCESS && engine->options->port) {
		fflush(stdout); /* before the console has a thread that writes there, too */
		status = engine_open(engine);
		if (status == STATUS_SUCCESS)
			status = check_server(&check, run_check_sessions, engine);
	}
	return check_finish(&check, status);
}

int main(int argc, char **argv)
{
	struct options options = default_options(ROLE_CLIENT);
	enum status status = STATUS_SUCCESS;
	static struct engine engine; /* a helper that a disk holds up may outlive main() */
	enum parsed parsed;

	occupy_standard_descriptors();
	parsed = parse_arguments(&options, argc, argv);
	if (parsed == PARSED_FAILED)
		return STATUS_USAGE;
	engine_init(&engine, &options);
	if (parsed == PARSED_RUN)
		status = options.check ? run_check(&engine) : run_client(&engine);
	return engine_end(&engine, status);
}
