// SPDX-License-Identifier: MIT
/*
 * The other side of rdma-server or rdma-client in tests. It behaves as the tutorial's program or,
 * with --hello, as a program of this project, with exactly the faults of --at and --set. It shares
 * the layout of messages and hellos with the programs under test, but nothing that runs a session.
 *
 * A session is a sequence of steps. All connections take a step before any takes the next one, so
 * that a single thread can serve many of them.
 */
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "../../rdma-common/options.h"
#include "../../rdma-common/status.h"
#include "../../rdma-common/wire.h"
#include "deviation.h"

/* Time after which SIGALRM ends the process. */
#define DEADLINE_SECONDS 600
/* Maximum number of windows that --at STEP=flood sends. */
#define FLOOD_WINDOWS 1000
/*
 * Maximum milliseconds of a wait; each wait is a millisecond longer than the one before. If 256
 * peers polled every millisecond, their host would be busy.
 */
#define MAX_WAIT 20
/* Number of waits, together about a quarter of a second, until await() calls nudge(). */
#define NUDGE_AFTER          22
#define RESOLVE_MILLISECONDS 2000
/*
 * Numbers of slots in the control memory, and bytes of a slot: receives for three messages and all
 * windows in flight, then sends, which are reused in turn.
 */
#define RECEIVES  36
#define SENDS     16
#define SLOT_SIZE 256
/* Sizes of messages that are too short and too long, in bytes. */
#define SHORT_SIZE 20
#define LONG_SIZE  200

static const char help[] =
	"Usage: peer server OPERATION [OPTION]...\n"
	"       peer client OPERATION [OPTION]... ADDRESS PORT\n"
	"Hold a session with rdma-client or rdma-server, as a program that follows the well-known\n"
	"tutorial does. OPERATION is read or write. Ends with 0 if every session took all its steps.\n"
	"\n"
	"  --hello            be a program of this project: hello, digest, verdict\n"
	"  --length BYTES     number of bytes to send (default 1024)\n"
	"  --connections N    hold N sessions at once\n"
	"  --rounds N         repeat all sessions N times\n"
	"  --at STEP=ACTION   do ACTION before STEP; may be given several times\n"
	"  --set FIELD=VALUE  send VALUE in FIELD; +VALUE is added to the correct value\n"
	"\n"
	"STEP is ask (request a connection, or wait for a request), connect (wait, or accept), mr,\n"
	"operation, done, verdict or disconnect.\n"
	"ACTION is kill, stop, hang, disconnect, flow (wait until the other side's operation makes\n"
	"progress), flood (send windows that advance by a byte, without a pause), short or long\n"
	"(send a message of a wrong length).\n"
	"FIELD is mr.address, mr.rkey, done.digest, or another field of deviation.h.\n";

struct session;

/* A step of a session, or an action of --at, and its name on the command line. */
struct deed {
	const char *name;
	void (*run)(struct session *session);
};

/* The command line, and the channel that all connections share. */
struct peer {
	enum role role;
	enum operation operation;
	bool hello;
	uint64_t length;
	unsigned int connections;
	unsigned int rounds;
	char **words; /* the arguments after the operation, which also hold --at and --set;
			 NULL-terminated */
	const char *address;
	const char *port;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct session *sessions;
};

struct session {
	struct peer *peer;
	struct rdma_cm_id *id;
	struct ibv_mr *control, *outgoing, *incoming;
	uint64_t incoming_length;
	unsigned int resolved;     /* 1: address resolved, 2: route resolved */
	unsigned int established;  /* 0 or 1; a count, because await() waits for counts */
	unsigned int disconnected; /* 1: disconnected, by this or the other side */
	unsigned int received[4];  /* number of messages of each type */
	struct message messages[4];
	struct window window;           /* the last window that was sent */
	unsigned int posted, completed; /* send work requests */
	const char *over;               /* the reason why the session cannot continue, or NULL */
	bool reported;                  /* reported on standard output */
};

/* ---- Waiting ---- */

/*
 * If the other side has sent a hello, store how many bytes it will send. If the hello is a
 * rejection, print the reason.
 */
static void learn_length(struct session *session, const struct rdma_conn_param *parameters)
{
	struct hello hello;

	if (decode_hello(parameters->private_data, parameters->private_data_len, &hello) !=
	    HELLO_CURRENT)
		return;
	session->incoming_length = hello.length;
	if (hello.refusal)
		printf("rejected for reason %u\n", hello.refusal);
}

/* Take a connect request as the session of this server; reject it if there is a session already. */
static void take_request(struct peer *peer, const struct rdma_cm_event *event)
{
	struct session *session = &peer->sessions[0];

	if (session->id) {
		rdma_reject(event->id, NULL, 0);
		return;
	}
	session->id = event->id;
	event->id->context = session;
	learn_length(session, &event->param.conn);
}

static void handle_cm_event(struct peer *peer)
{
	struct rdma_cm_event *event;
	struct session *session;

	if (rdma_get_cm_event(peer->channel, &event))
		return;
	session = event->id->context;
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		take_request(peer, event);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		session->resolved++;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		session->established = 1;
		if (peer->role == ROLE_CLIENT)
			learn_length(session, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		session->over = "rejected";
		learn_length(session, &event->param.conn);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		session->disconnected = 1;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		if (session)
			session->over = rdma_event_str(event->event);
	}
	rdma_ack_cm_event(event);
}

static void post_receive(struct session *session, uint64_t slot)
{
	uint8_t *address = (uint8_t *)session->control->addr + slot * SLOT_SIZE;

	if (rdma_post_recv(session->id, (void *)(uintptr_t)slot, address, SLOT_SIZE,
			   session->control))
		session->over = "ibv_post_recv failed";
}

static void handle_completion(struct session *session, const struct ibv_wc *completion)
{
	const uint8_t *slots = session->control->addr;
	struct message message;

	/* the request was flushed, and an event reports the cause; soft-iWARP uses either status */
	if (completion->status == IBV_WC_WR_FLUSH_ERR || completion->status == IBV_WC_LOC_QP_OP_ERR)
		return;
	if (completion->status != IBV_WC_SUCCESS) {
		session->over = ibv_wc_status_str(completion->status);
	} else if (!(completion->opcode & IBV_WC_RECV)) {
		session->completed++;
	} else if (decode_message(slots + completion->wr_id * SLOT_SIZE, completion->byte_len,
				  &message)) {
		session->messages[message.type] = message;
		session->received[message.type]++;
		post_receive(session, completion->wr_id);
	} else {
		session->over = "received bytes that are not a message";
	}
}

static void poll_completions(struct session *session)
{
	const struct rdma_cm_id *id = session->id;
	struct ibv_wc completion;

	while (id && id->qp &&
	       (ibv_poll_cq(id->recv_cq, 1, &completion) > 0 ||
		ibv_poll_cq(id->send_cq, 1, &completion) > 0))
		handle_completion(session, &completion);
}

/*
 * Handle an event of the connection manager, if there is one, then all completions of `session`: a
 * message that the peer sent before this session's event has arrived by then.
 */
static void pump(struct session *session)
{
	struct pollfd ready = { .fd = session->peer->channel->fd, .events = POLLIN };

	if (poll(&ready, 1, 0) > 0)
		handle_cm_event(session->peer);
	poll_completions(session);
}

/*
 * Post an empty WRITE if this client waits for MSG_MR over iWARP. With soft-iWARP in Linux a
 * server's host may miss a message that the client sends just when its request is accepted, until
 * more bytes arrive. The programs under test do the same.
 */
static void nudge(const struct session *session)
{
	if (session->peer->role == ROLE_CLIENT && session->posted && !session->received[MSG_MR] &&
	    session->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		rdma_post_writev(session->id, NULL, NULL, 0, 0, 0, 0);
}

/* Wait until `*counter` is at least `value`. Return false if the session ends earlier. */
static bool await(struct session *session, const unsigned int *counter, unsigned int value)
{
	struct pollfd ready = { .fd = session->peer->channel->fd, .events = POLLIN };

	for (unsigned int waited = 1;; waited++) {
		if (waited == NUDGE_AFTER)
			nudge(session);
		pump(session);
		if (*counter >= value)
			return true;
		if (session->disconnected)
			session->over = "disconnected";
		if (session->over)
			return false;
		poll(&ready, 1, waited < MAX_WAIT ? (int)waited : MAX_WAIT);
	}
}

/* ---- Setup and cleanup ---- */

static struct ibv_mr *make_region(struct session *session, uint64_t size)
{
	void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	struct ibv_mr *mr;

	if (!memory)
		err(1, "cannot allocate %ju bytes", (uintmax_t)size);
	memset(memory, 0, size);
	mr = ibv_reg_mr(session->id->pd, memory, size,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		err(1, "cannot register %ju bytes", (uintmax_t)size);
	return mr;
}

static void free_region(struct ibv_mr *mr)
{
	void *memory = mr ? mr->addr : NULL;

	if (mr)
		ibv_dereg_mr(mr);
	free(memory);
}

/* Create everything that a connection needs before the other side can send. */
static void prepare(struct session *session)
{
	const struct peer *peer = session->peer;
	struct rdma_cm_id *id = session->id;
	bool iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SENDS,
			 .max_recv_wr = RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	if (rdma_create_qp(id, NULL, &attributes))
		err(1, "cannot create a queue pair");
	session->control = make_region(session, (RECEIVES + SENDS) * SLOT_SIZE);
	session->outgoing = make_region(session, peer->length);
	snprintf(session->outgoing->addr, peer->length, "message from %s side",
		 peer->hello ? "peer" : "legacy");
	/*
	 * the tutorial's program posts one receive at a time, which is not always enough over iWARP
	 */
	for (uint64_t slot = 0; slot < (peer->hello || iwarp ? RECEIVES : 1); slot++)
		post_receive(session, slot);
}

static void free_session(struct session *session)
{
	if (!session->id)
		return;
	if (session->id->qp)
		rdma_destroy_qp(session->id);
	free_region(session->incoming);
	free_region(session->outgoing);
	free_region(session->control);
	rdma_destroy_id(session->id);
}

/* ---- Sending ---- */

/* Count a posted work request. If posting failed with `error`, end the session. */
static void count_posted(struct session *session, int error)
{
	if (error)
		session->over = "ibv_post_send failed";
	else
		session->posted++;
}

/* Copy the message `wire` to the next send slot, and send the first `size` bytes of the slot. */
static void send_bytes(struct session *session, const uint8_t wire[MESSAGE_SIZE], uint32_t size)
{
	uint8_t *slot = session->control->addr;

	slot += (RECEIVES + session->posted % SENDS) * SLOT_SIZE;
	memcpy(slot, wire, MESSAGE_SIZE);
	count_posted(session, rdma_post_send(session->id, NULL, slot, size, session->control,
					     IBV_SEND_SIGNALED));
}

static void send_message(struct session *session, const struct message *message)
{
	struct message sent = *message;
	uint8_t wire[MESSAGE_SIZE];

	for (char **word = session->peer->words; *word; word++) {
		if (!strcmp(word[-1], "--set"))
			deviate(&sent, *word);
	}
	encode_message(&sent, wire);
	send_bytes(session, wire, MESSAGE_SIZE);
}

static void send_mr(struct session *session)
{
	const struct peer *peer = session->peer;
	bool writing = peer->operation == OPERATION_WRITE;
	/* the region that the other side may write to, or read from */
	const struct ibv_mr *exposed = writing ? session->incoming : session->outgoing;
	uint64_t produced = writing || !peer->hello ? 0 : exposed->length;
	const struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->addr,
		.length = exposed->length,
		.produced = produced,
		.rkey = exposed->rkey,
	};

	session->window.produced = produced;
	send_message(session, &message);
}

static void send_done(struct session *session)
{
	const struct ibv_mr *outgoing = session->outgoing;
	struct message message = { .type = MSG_DONE };

	if (session->peer->hello) {
		message.value = XXH3_64bits(outgoing->addr, outgoing->length);
		message.length = outgoing->length;
	}
	send_message(session, &message);
}

static void send_verdict(struct session *session)
{
	const struct ibv_mr *incoming = session->incoming;
	bool good =
		XXH3_64bits(incoming->addr, incoming->length) == session->messages[MSG_DONE].value;
	const struct message message = {
		.type = MSG_VERDICT,
		.value = good ? STATUS_SUCCESS : STATUS_CONTENTS_WRONG,
	};

	send_message(session, &message);
}

/* Send a window that advances by a byte, which is correct during the operation. */
static void send_window(struct session *session)
{
	struct message message = { .type = MSG_WINDOW };

	if (session->peer->operation == OPERATION_WRITE)
		session->window.produced++;
	else
		session->window.consumed++;
	session->window.received = session->received[MSG_WINDOW];
	message.window = session->window;
	send_message(session, &message);
}

static void send_short(struct session *session)
{
	send_bytes(session, (const uint8_t[MESSAGE_SIZE]){ MSG_DONE }, SHORT_SIZE);
}

static void send_long(struct session *session)
{
	send_bytes(session, (const uint8_t[MESSAGE_SIZE]){ MSG_DONE }, LONG_SIZE);
}

/* ---- The steps of a session ---- */

/* Connect or accept (`call`); with --hello, send a hello. */
static void open_connection(struct session *session,
			    int (*call)(struct rdma_cm_id *id, struct rdma_conn_param *parameters))
{
	const struct peer *peer = session->peer;
	const struct hello hello = {
		.version = HELLO_VERSION,
		.operation = (uint8_t)peer->operation,
		.length = peer->length,
		.passes = 1,
	};
	uint8_t wire[HELLO_SIZE];
	struct rdma_conn_param parameters = {
		.private_data = peer->hello ? wire : NULL,
		.private_data_len = peer->hello ? HELLO_SIZE : 0,
		.responder_resources = 1,
		.initiator_depth = 1,
		/*
		 * the tutorial's 0 ends the session after a lost packet; Soft-RoCE in Linux 6.12
		 * loses some
		 */
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	encode_hello(&hello, wire);
	prepare(session);
	if (call(session->id, &parameters))
		session->over = strerror(errno);
}

/* Resolve the address, and request a connection; a server waits for a connect request. */
static void ask(struct session *session)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	const struct peer *peer = session->peer;
	struct addrinfo *address;

	if (peer->role == ROLE_SERVER) {
		while (!session->id)
			handle_cm_event(session->peer);
		return;
	}
	if (getaddrinfo(peer->address, peer->port, &hints, &address))
		errx(1, "cannot resolve %s", peer->address);
	if (rdma_create_id(peer->channel, &session->id, session, RDMA_PS_TCP) ||
	    rdma_resolve_addr(session->id, NULL, address->ai_addr, RESOLVE_MILLISECONDS))
		err(1, "cannot resolve an address");
	freeaddrinfo(address);
	if (!await(session, &session->resolved, 1))
		return;
	if (rdma_resolve_route(session->id, RESOLVE_MILLISECONDS))
		err(1, "cannot resolve a route");
	if (await(session, &session->resolved, 2))
		open_connection(session, rdma_connect);
}

static void connect_session(struct session *session)
{
	if (session->peer->role == ROLE_SERVER)
		open_connection(session, rdma_accept);
	if (await(session, &session->established, 1))
		session->incoming = make_region(session, session->incoming_length);
}

/* Exchange MSG_MR; the client sends first. */
static void exchange_regions(struct session *session)
{
	if (session->peer->role == ROLE_SERVER && !await(session, &session->received[MSG_MR], 1))
		return;
	send_mr(session);
	await(session, &session->received[MSG_MR], 1);
}

static void post_operation(struct session *session)
{
	const struct message *remote = &session->messages[MSG_MR];
	bool writing = session->peer->operation == OPERATION_WRITE;
	struct ibv_mr *local = writing ? session->outgoing : session->incoming;

	count_posted(session, (writing ? rdma_post_write : rdma_post_read)(
				      session->id, NULL, local->addr, local->length, local,
				      IBV_SEND_SIGNALED, remote->value, remote->rkey));
}

/*
 * Return true if the other side disconnected after its last message had arrived here: it then has
 * everything, and only completions of this side may be missing. With --hello only a client
 * disconnects first. If two tutorial programs WRITE, either may disconnect first.
 */
static bool has_all(const struct session *session)
{
	const struct peer *peer = session->peer;
	bool all = peer->hello ? session->received[MSG_VERDICT]
			       : peer->operation == OPERATION_WRITE && session->received[MSG_DONE];

	return (peer->role == ROLE_SERVER || !peer->hello) && session->over &&
	       !strcmp(session->over, "disconnected") && all;
}

/* Wait for all completions. A disconnection is no failure if the other side has everything. */
static void await_completions(struct session *session)
{
	await(session, &session->completed, session->posted);
	if (has_all(session))
		session->over = NULL;
}

/*
 * Exchange MSG_DONE, and print the received payload. The tutorial's program does not wait for its
 * READ before it sends MSG_DONE.
 */
static void exchange_done(struct session *session)
{
	if (session->peer->hello && !await(session, &session->completed, session->posted))
		return;
	send_done(session);
	await_completions(session);
	if (!session->over && await(session, &session->received[MSG_DONE], 1))
		printf("remote buffer: %.*s\n", (int)session->incoming->length,
		       (const char *)session->incoming->addr);
}

static void exchange_verdicts(struct session *session)
{
	if (!session->peer->hello)
		return;
	send_verdict(session);
	await_completions(session);
	if (!session->over && await(session, &session->received[MSG_VERDICT], 1) &&
	    session->messages[MSG_VERDICT].value != STATUS_SUCCESS)
		session->over = "bad verdict";
}

/* Disconnect. A server of this project first waits until the client has disconnected. */
static void disconnect(struct session *session)
{
	const struct peer *peer = session->peer;

	if (peer->role == ROLE_SERVER && peer->hello && !await(session, &session->disconnected, 1))
		return;
	rdma_disconnect(session->id);
	await(session, &session->disconnected, 1);
}

static const struct deed steps[] = {
	{ "ask", ask },
	{ "connect", connect_session },
	{ "mr", exchange_regions },
	{ "operation", post_operation },
	{ "done", exchange_done },
	{ "verdict", exchange_verdicts },
	{ "disconnect", disconnect },
	{ NULL, NULL },
};

/* ---- Faults ---- */

static void kill_peer(struct session *session __attribute__((unused)))
{
	raise(SIGKILL);
}

static void stop_peer(struct session *session __attribute__((unused)))
{
	raise(SIGSTOP);
}

static void hang(struct session *session __attribute__((unused)))
{
	printf("hanging\n");
	for (;;)
		pause();
}

static void leave(struct session *session)
{
	rdma_disconnect(session->id);
	await(session, &session->disconnected, 1);
	session->over = "left";
}

/*
 * Wait until the other side's operation makes progress: its first byte, a MSG_WINDOW or MSG_DONE
 * has arrived; or until the session has ended.
 */
static void await_flow(struct session *session)
{
	const volatile uint8_t *first = session->incoming->addr;
	const unsigned int *received = session->received;

	while (!*first && !received[MSG_WINDOW] && !received[MSG_DONE] && !session->disconnected &&
	       !session->over)
		pump(session);
	printf("flowing\n");
}

/* Send FLOOD_WINDOWS windows without a pause, each advanced by a byte, unless the session ends. */
static void flood(struct session *session)
{
	unsigned int sent;

	for (sent = 0; sent < FLOOD_WINDOWS && !session->over; sent++) {
		send_window(session);
		await(session, &session->completed, session->posted);
	}
	printf("flooded with %u windows\n", sent);
}

static const struct deed actions[] = {
	{ "kill", kill_peer },   { "stop", stop_peer },  { "hang", hang },
	{ "disconnect", leave }, { "flow", await_flow }, { "flood", flood },
	{ "short", send_short }, { "long", send_long },  { NULL, NULL },
};

static void misbehave(struct session *session, const char *name)
{
	for (const struct deed *action = actions; action->name; action++) {
		if (!strcmp(action->name, name)) {
			action->run(session);
			return;
		}
	}
	errx(2, "no such action: %s", name);
}

/*
 * Take one step of a session, after the actions of --at for this step. Report the end of the
 * session once. It may have ended earlier: its events are also handled while another session waits.
 */
static void run_step(struct session *session, const struct deed *step)
{
	size_t length = strlen(step->name);

	for (char **word = session->peer->words; *word && !session->over; word++) {
		if (!strcmp(word[-1], "--at") && !strncmp(*word, step->name, length) &&
		    (*word)[length] == '=')
			misbehave(session, *word + length + 1);
	}
	if (!session->over)
		step->run(session);
	if (session->over && !session->reported) {
		printf("over at %s: %s\n", step->name, session->over);
		session->reported = true;
	}
}

/* Take each step in all sessions before the next one. Return true if all sessions succeeded. */
static bool run_round(struct peer *peer)
{
	bool good = true;

	peer->sessions = calloc(peer->connections, sizeof(*peer->sessions));
	if (!peer->sessions)
		err(1, "too many connections");
	for (unsigned int i = 0; i < peer->connections; i++) {
		peer->sessions[i].peer = peer;
		peer->sessions[i].incoming_length = DEFAULT_PAYLOAD;
	}
	for (const struct deed *step = steps; step->name; step++) {
		for (unsigned int i = 0; i < peer->connections; i++)
			run_step(&peer->sessions[i], step);
	}
	for (unsigned int i = 0; i < peer->connections; i++) {
		good = good && !peer->sessions[i].over;
		free_session(&peer->sessions[i]);
	}
	free(peer->sessions);
	return good;
}

/* ---- The command line ---- */

static _Noreturn void refuse_arguments(void)
{
	fputs(help, stderr);
	exit(2);
}

/* Read the options; each but --hello has a value. Return the words after the options. */
static char **read_options(struct peer *peer, char **words)
{
	for (; *words && !strncmp(*words, "--", 2); words++) {
		const char *option = *words;

		if (!strcmp(option, "--hello")) {
			peer->hello = true;
			continue;
		}
		if (!*++words)
			refuse_arguments();
		if (!strcmp(option, "--length"))
			peer->length = strtoull(*words, NULL, 0);
		else if (!strcmp(option, "--connections"))
			peer->connections = (unsigned int)strtoul(*words, NULL, 0);
		else if (!strcmp(option, "--rounds"))
			peer->rounds = (unsigned int)strtoul(*words, NULL, 0);
		else if (strcmp(option, "--at") != 0 && strcmp(option, "--set") != 0)
			refuse_arguments();
	}
	return words;
}

static void read_arguments(struct peer *peer, int argc, char **argv)
{
	if (argc < 3 || !parse_operation(argv[2], &peer->operation))
		refuse_arguments();
	peer->role = !strcmp(argv[1], "client") ? ROLE_CLIENT : ROLE_SERVER;
	peer->words = argv + 3;
	argv = read_options(peer, peer->words);
	if (peer->role == ROLE_SERVER ? argv[0] != NULL : !argv[0] || !argv[1] || argv[2])
		refuse_arguments();
	peer->address = argv[0];
	peer->port = argv[0] ? argv[1] : NULL;
}

static void listen_for_clients(struct peer *peer)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	if (rdma_create_id(peer->channel, &peer->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(peer->listener, (struct sockaddr *)&any) ||
	    rdma_listen(peer->listener, 16))
		err(1, "cannot listen");
	printf("listening on port %u.\n", ntohs(rdma_get_src_port(peer->listener)));
}

int main(int argc, char **argv)
{
	struct peer peer = { .length = DEFAULT_PAYLOAD, .connections = 1, .rounds = 1 };
	bool good = true;

	alarm(DEADLINE_SECONDS);
	signal(SIGPIPE, SIG_IGN); /* soft-iWARP raises it when the other side has closed */
	setvbuf(stdout, NULL, _IOLBF, 0);
	read_arguments(&peer, argc, argv);
	peer.channel = rdma_create_event_channel();
	if (!peer.channel)
		err(1, "cannot open the RDMA connection manager");
	if (peer.role == ROLE_SERVER)
		listen_for_clients(&peer);
	for (unsigned int round = 0; round < peer.rounds; round++)
		good = run_round(&peer) && good;
	if (peer.listener)
		rdma_destroy_id(peer.listener);
	rdma_destroy_event_channel(peer.channel);
	return good ? 0 : 1;
}
