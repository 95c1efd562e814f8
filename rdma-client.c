// SPDX-License-Identifier: MIT
/*
 * The active side: resolves an address and a route, connects, lets the session run, reports.
 */
#include "rdma-common.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
	"Usage: rdma-client [OPTION]... read|write ADDRESS PORT\n"
	"       rdma-client --check ADDRESS\n"
	"Connect to an rdma-server, read or write each other's memory with one-sided\n"
	"RDMA, verify what arrived, and print what the server handed over.\n"
	"\n" PAYLOAD_OPTIONS_HELP "The operation:\n" OPERATION_OPTIONS_HELP
	"      --one-way          the server reads or writes nothing\n" TELLING_OPTIONS_HELP
	"Limits:\n" LIMIT_OPTIONS_HELP
	"      --check            tell step by step what lies between here and ADDRESS\n\n" EXIT_STATUS_HELP;

/* One attempt to hold a session with one address. */
struct client {
	struct process *process;
	struct connection *connection;
	const struct addrinfo *address;
	int64_t resolve_deadline; /* as now_milliseconds() counts; INT64_MAX once resolved */
	bool reported;            /* an outcome has been told, with --json too */
	bool reached; /* the peer answered as a server of ours: no other address is tried */
};

static enum parsed parse_arguments(struct options *options, int argc, char **argv)
{
	/* clang-format off */
	static const struct option long_options[] = {
		{ "one-way", no_argument, NULL, OPTION_ONE_WAY },
		{ "check", no_argument, NULL, OPTION_CHECK },
		COMMON_LONG_OPTIONS
	};
	/* clang-format on */
	unsigned long port;
	int letter;

	while ((letter = getopt_long(argc, argv, COMMON_SHORT_OPTIONS, long_options, NULL)) != -1) {
		enum parsed parsed = PARSED_RUN;

		if (letter == OPTION_ONE_WAY)
			options->one_way = true;
		else if (letter == OPTION_CHECK)
			options->check = true;
		else
			parsed = parse_common_option(options, letter, optarg, help);
		if (parsed != PARSED_RUN)
			return parsed;
	}
	if (options->check) {
		if (argc - optind != 1)
			return usage_error("--check needs one argument: ADDRESS");
		options->address = argv[optind];
		return PARSED_RUN;
	}
	if (argc - optind != 3)
		return usage_error("three arguments are needed: read or write, ADDRESS and PORT");
	if (!parse_operation(argv[optind], &options->operation))
		return PARSED_FAILED;
	options->address = argv[optind + 1];
	options->port = argv[optind + 2];
	if (!parse_number(options->port, 1, 65535, &port))
		return usage_error("PORT is a number from 1 to 65535, not '%s'", options->port);
	return check_options(options, ROLE_CLIENT);
}

/* Asks for the RDMA device and the neighbour that lead to the address; answered by an event. */
static void resolve_address(struct client *client)
{
	struct connection *connection = client->connection;
	int64_t remaining = client->resolve_deadline - now_milliseconds();
	int timeout = remaining > RESOLVE_MILLISECONDS ? RESOLVE_MILLISECONDS : (int)remaining;

	connection_trace(connection, "rdma_resolve_addr: %d ms", timeout);
	if (rdma_resolve_addr(connection->id, NULL, client->address->ai_addr, timeout))
		connection_fail(connection, STATUS_UNRESOLVED,
				"cannot resolve the address: %s; does a network interface with an "
				"RDMA device ('rdma link') lead there?",
				strerror(errno));
}

static const char not_resolved[] = "the address or route was not resolved in time; is the host up?";

static void address_failed(struct client *client, const struct cm_event *event)
{
	int64_t remaining = client->resolve_deadline - now_milliseconds();

	if (event->status != -ETIMEDOUT)
		connection_fail(
			client->connection, STATUS_UNRESOLVED,
			"cannot resolve the address: %s; is the host up, and does a network "
			"interface with an RDMA device ('rdma link') lead there?",
			strerror(-event->status));
	else if (remaining > RESOLVE_MILLISECONDS / 10)
		resolve_address(client);
	else /* less than what a neighbour takes to answer is not worth another try */
		connection_fail(client->connection, STATUS_UNRESOLVED, "%s", not_resolved);
}

/* The device is known now, so everything that belongs to it can be made. */
static void address_resolved(struct client *client)
{
	struct connection *connection = client->connection;
	int timeout = (int)(client->resolve_deadline - now_milliseconds());

	connection_say(connection, "address resolved.");
	if (connection_prepare(connection, client->process->options->one_way) != STATUS_SUCCESS)
		return;
	if (rdma_resolve_route(connection->id, timeout > 1 ? timeout : 1))
		connection_fail(connection, STATUS_UNRESOLVED, "cannot resolve the route: %s",
				strerror(errno));
}

/* The last signal that interrupted rdma_connect(3). A handler can reach nothing else. */
static volatile sig_atomic_t interruption;

static void note_interruption(int signal_number)
{
	interruption = signal_number;
}

/*
 * rdma_connect(3), for `seconds` at most: over soft-iWARP in Linux it waits for the TCP connection
 * itself, which can take two minutes, and only a signal ends that. The signals that a user sends
 * are let through as well, and left pending for process_wait(). 0 or an errno value; EINTR when
 * the time was up.
 */
static int connect_within(struct rdma_cm_id *id, struct rdma_conn_param *parameters,
			  unsigned int seconds)
{
	const struct sigaction action = { .sa_handler = note_interruption };
	const int signals[] = { SIGALRM, SIGINT, SIGTERM };
	sigset_t let_through, before;
	int error;

	sigemptyset(&let_through);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaction(signals[i], &action, NULL);
		sigaddset(&let_through, signals[i]);
	}
	interruption = 0;
	alarm(seconds);
	pthread_sigmask(SIG_UNBLOCK, &let_through, &before);
	error = rdma_connect(id, parameters) ? errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	alarm(0);
	if (interruption == SIGINT || interruption == SIGTERM)
		raise(interruption);
	return error;
}

static void route_resolved(struct client *client)
{
	struct connection *connection = client->connection;
	uint8_t hello[HELLO_SIZE];
	struct rdma_conn_param parameters = connection_parameters(connection, hello);
	int error;

	connection_say(connection, "route resolved.");
	client->resolve_deadline = INT64_MAX;
	connection_extend_deadline(connection);
	connection_trace(connection, "rdma_connect");
	error = connect_within(connection->id, &parameters,
			       client->process->options->timeout_seconds);
	if (error == ETIMEDOUT || (error == EINTR && interruption == SIGALRM))
		connection_fail(connection, STATUS_TIMED_OUT,
				"no answer to the connect request; is the host up, and the network "
				"between?");
	else if (error == EADDRNOTAVAIL || error == EADDRINUSE) /* of TCP, so over iWARP alone */
		connection_fail(
			connection, STATUS_LOCAL_FAILURE,
			"cannot connect: %s; an earlier connection still holds the port that "
			"this side got: try again",
			strerror(error));
	else if (error && error != EINTR) /* iWARP says at once when nobody listens */
		connection_fail(connection, STATUS_REFUSED,
				"cannot connect: %s; is rdma-server running there, on that port?",
				strerror(error));
}

/* What a refusal by a server of ours means, and what to do. */
static const char *refusal_reason(const struct cm_event *event)
{
	if (event->greeting == GREETING_VERSION)
		return "it speaks another version of this protocol; use one release on both hosts";
	switch ((enum refusal)event->hello.refusal) {
	case REFUSAL_VERSION:
		return "it does not speak this version of the protocol; use one release on both hosts";
	case REFUSAL_OPERATION:
		return event->hello.operation == OPERATION_WRITE
			       ? "it was started to write; start both sides with one operation"
			       : "it was started to read; start both sides with one operation";
	case REFUSAL_LENGTH:
		return "it does not take that much; hand over less, or raise its --max-size";
	case REFUSAL_BUSY:
		return "it has no room for another session; try again later";
	default:
		return "for a reason that this release does not know; its own messages say more";
	}
}

/* The peer answers no, or nobody listens: the rejection says which. */
static void rejected(struct client *client, const struct cm_event *event)
{
	struct connection *connection = client->connection;
	const char *reason = refusal_reason(event);

	client->reached = event->greeting != GREETING_NONE;
	if (client->reached)
		connection_fail(connection, STATUS_REFUSED, "the server refused: %s", reason);
	else
		connection_fail(
			connection, STATUS_REFUSED,
			"connection rejected (%s); is rdma-server running there, on that port?",
			event->status == -ECONNREFUSED || event->status == 8
				? "nobody listens"
				: "no reason arrived, its own messages may say more");
}

static void established(struct client *client, const struct cm_event *event)
{
	struct connection *connection = client->connection;
	struct event established = { .type = EVENT_ESTABLISHED };

	client->reached = true;
	if (hello_refusal(ROLE_CLIENT, client->process->options, event->greeting, &event->hello) !=
	    REFUSAL_NONE)
		connection_fail(connection, STATUS_CONTENTS_WRONG,
				"the server accepted with a hello that does not fit: version %u, "
				"operation %u, %ju bytes",
				event->hello.version, event->hello.operation,
				(uintmax_t)event->hello.length);
	else if (connection_meet(connection, event) == STATUS_SUCCESS)
		connection_handle(connection, established);
}

static void handle_cm_event(struct client *client, const struct cm_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		address_resolved(client);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		address_failed(client, event);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(client);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		connection_fail(client->connection, STATUS_UNRESOLVED,
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
		break;
	}
}

/* Runs until the session is over; returns how it ended. */
static enum status run_events(struct client *client)
{
	struct connection *connection = client->connection;
	struct event interrupted = { .type = EVENT_INTERRUPTED };
	struct cm_event event;
	enum status status;

	while (!connection_service(connection, &status)) {
		int64_t deadline = connection_deadline(connection);

		switch (process_wait(client->process, deadline, &event)) {
		case WAKEUP_CM_EVENT:
			handle_cm_event(client, &event);
			break;
		case WAKEUP_SIGNAL:
			client->reached = true;
			connection_handle(connection, interrupted);
			break;
		case WAKEUP_OTHER:
			if (now_milliseconds() >= client->resolve_deadline) {
				client->resolve_deadline = INT64_MAX;
				connection_fail(connection, STATUS_UNRESOLVED, "%s", not_resolved);
			}
			break;
		case WAKEUP_EXHAUSTED:
			return STATUS_LOCAL_FAILURE;
		}
	}
	return status;
}

/* Holds one session with one address. */
static enum status run_session(struct client *client)
{
	struct process *process = client->process;
	struct rdma_cm_id *id;
	enum status status;

	if (rdma_create_id(process->event_channel, &id, NULL, RDMA_PS_TCP)) {
		process_complain(process, "cannot create a connection identifier: %s",
				 strerror(errno));
		return STATUS_LOCAL_FAILURE;
	}
	client->connection = connection_create(process, id, client->address->ai_addr, 0);
	if (!client->connection)
		return STATUS_LOCAL_FAILURE;
	client->resolve_deadline = connection_deadline(client->connection);
	resolve_address(client);
	status = run_events(client);
	connection_report(client->connection, status);
	if (client->reached || !client->address->ai_next)
		report_json(process, client->connection, status);
	client->reported = true;
	connection_destroy(client->connection);
	return status;
}

/* Tries the addresses of the host in turn, until a server of ours answers. */
static enum status try_addresses(struct client *client, const struct addrinfo *addresses)
{
	enum status status = STATUS_UNRESOLVED;

	for (client->address = addresses; client->address && !client->reached;
	     client->address = client->address->ai_next) {
		status = run_session(client);
		if (client->address->ai_next && !client->reached)
			warnx("trying the next address of '%s'", client->process->options->address);
	}
	return status;
}

static enum status run_client(struct process *process)
{
	const struct options *options = process->options;
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct client client = { .process = process };
	struct addrinfo *addresses;
	enum status status;
	int error;

	/* first: while names are resolved and files read, signals still end the program at once */
	error = getaddrinfo(options->address, options->port, &hints, &addresses);
	if (error) {
		process_complain(process, "cannot resolve the host name '%s': %s", options->address,
				 gai_strerror(error));
		report_json(process, NULL, STATUS_UNRESOLVED);
		return STATUS_UNRESOLVED;
	}
	status = payload_load(process);
	if (status == STATUS_SUCCESS)
		status = process_open(process);
	if (status == STATUS_SUCCESS)
		status = try_addresses(&client, addresses);
	if (!client.reported)
		report_json(process, NULL, status);
	freeaddrinfo(addresses);
	return status;
}

int main(int argc, char **argv)
{
	struct options options = default_options();
	struct process process;
	enum parsed parsed;
	enum status status = STATUS_SUCCESS, output;

	parsed = parse_arguments(&options, argc, argv);
	if (parsed == PARSED_FAILED)
		return STATUS_USAGE;
	process_init(&process, &options, ROLE_CLIENT);
	if (parsed == PARSED_RUN)
		status = options.check ? check_path(&options) : run_client(&process);
	process_destroy(&process);
	output = flush_output();
	if (status == STATUS_INTERRUPTED)
		end_by_signal(process.signal_number);
	return (int)(status == STATUS_SUCCESS ? output : status);
}
