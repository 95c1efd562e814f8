// SPDX-License-Identifier: MIT
/*
 * The shared module, in the order in which things build on each other: wire format, state machine,
 * the process and its completion thread, connections.
 *
 * Three conventions for errors meet here. librdmacm and ibv_get_cq_event(3) return -1 and set
 * errno. ibv_post_send(3), ibv_modify_qp(3), ibv_req_notify_cq(3) and the verbs that destroy return
 * an errno value. ibv_poll_cq(3) returns a negative number and says nothing more.
 */
#include "rdma-common.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/*
 * A peer sends three messages in a session, and MSG_PROGRESS four times a second while its
 * operation takes long. Over iWARP a message without a receive ends the connection, so there are
 * receives for as long as this program may be held up.
 */
#define RECEIVES              64
#define PROGRESS_MILLISECONDS 250
/* Without news for this long, and with nothing outstanding, the peer's adapter is probed. */
#define PROBE_MILLISECONDS 250
/* In the send queue besides the operation: one message of each type, and a probe. */
#define MESSAGE_TYPES    4
#define MESSAGE_REQUESTS (MESSAGE_TYPES + 1)
/* A message, or a small payload, travels in its work request: the adapter reads no memory for it.
 */
#define INLINE_SIZE 64
/* Completion events are acknowledged this many at a time: each acknowledgement takes a mutex. */
#define EVENTS_PER_ACKNOWLEDGEMENT 64
/* Rounds in which --busy-poll looks for completions before it looks for anything else. */
#define SPINS 1000
/* Completions that are taken off a completion queue at a time. */
#define POLL_SIZE 16
/* Slots of the control region, one cache line each: receives, then one for each type of message. */
#define SLOT_SIZE ((size_t)64)
#define SEND_SLOT RECEIVES
#define SLOTS     (RECEIVES + MESSAGE_TYPES)
/* One work request carries no more than this, so that a slow transfer is seen to move. */
#define PART_SIZE ((uint64_t)1024 * 1024)
/* Reads outstanding at a time are limited by the devices too; the software adapters gain up to
 * this. */
#define READ_DEPTH 128
/* How long a connection that has failed, or that is overdue, may take to close. */
#define CLOSING_MILLISECONDS 1000
/* With fewer open files allowed than this, a failure to open RDMA devices is put down to it. */
#define LOW_DESCRIPTOR_LIMIT 32

int64_t now_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_milliseconds(void)
{
	return now_nanoseconds() / 1000000;
}

/* ---- Who sends what ---- */

enum role other_role(enum role role)
{
	return role == ROLE_CLIENT ? ROLE_SERVER : ROLE_CLIENT;
}

bool hands_over(enum role role, enum operation operation, bool one_way)
{
	/* the client writes what it has, or reads what the server has */
	return !one_way || (role == ROLE_CLIENT) == (operation == OPERATION_WRITE);
}

enum refusal hello_refusal(enum role role, const struct options *options, enum greeting greeting,
			   const struct hello *hello)
{
	enum role peer = other_role(role);
	bool one_way = hello->flags & HELLO_ONE_WAY;

	if (greeting == GREETING_NONE)
		return REFUSAL_NONE;
	if (greeting == GREETING_VERSION)
		return REFUSAL_VERSION;
	if (hello->operation != options->operation ||
	    (role == ROLE_CLIENT && one_way != options->one_way))
		return REFUSAL_OPERATION;
	if (hands_over(peer, options->operation, one_way) != (hello->length > 0) ||
	    hello->length > options->maximum_payload)
		return REFUSAL_LENGTH;
	return REFUSAL_NONE;
}

/* ---- The state machine of a session ---- */

#define NAME(value) \
	case value: \
		return #value

const char *operation_name(enum operation operation)
{
	return operation == OPERATION_READ ? "read" : "write";
}

const char *event_name(enum event_type type)
{
	switch (type) {
		NAME(EVENT_ESTABLISHED);
		NAME(EVENT_MR_RECEIVED);
		NAME(EVENT_DONE_RECEIVED);
		NAME(EVENT_VERDICT_RECEIVED);
		NAME(EVENT_MR_SENT);
		NAME(EVENT_OPERATION_COMPLETED);
		NAME(EVENT_DONE_SENT);
		NAME(EVENT_VERDICT_SENT);
		NAME(EVENT_CHECKED);
		NAME(EVENT_FAILED);
		NAME(EVENT_FLUSHED);
		NAME(EVENT_DISCONNECTED);
		NAME(EVENT_DRAINED);
		NAME(EVENT_DEADLINE);
		NAME(EVENT_INTERRUPTED);
		NAME(EVENT_TYPES);
	}
	return "EVENT_?";
}

const char *phase_name(enum phase phase)
{
	switch (phase) {
		NAME(PHASE_CONNECTING);
		NAME(PHASE_EXCHANGING);
		NAME(PHASE_CLOSING);
		NAME(PHASE_FINISHED);
	}
	return "PHASE_?";
}

const char *local_progress_name(enum local_progress local)
{
	switch (local) {
		NAME(LOCAL_IDLE);
		NAME(LOCAL_MR_POSTED);
		NAME(LOCAL_MR_SENT);
		NAME(LOCAL_OPERATION_POSTED);
		NAME(LOCAL_OPERATION_COMPLETED);
		NAME(LOCAL_DONE_POSTED);
		NAME(LOCAL_DONE_SENT);
		NAME(LOCAL_CHECKED);
		NAME(LOCAL_VERDICT_POSTED);
		NAME(LOCAL_VERDICT_SENT);
	}
	return "LOCAL_?";
}

const char *remote_progress_name(enum remote_progress remote)
{
	switch (remote) {
		NAME(REMOTE_SILENT);
		NAME(REMOTE_MR);
		NAME(REMOTE_DONE);
		NAME(REMOTE_VERDICT);
	}
	return "REMOTE_?";
}

struct protocol protocol_start(enum role role, enum operation operation)
{
	struct protocol protocol = {
		.role = role,
		.operation = operation,
		.operates = true,
		.phase = PHASE_CONNECTING,
		.status = STATUS_SUCCESS,
	};

	return protocol;
}

/* How the session has gone if it ends now, by all that was received and completed. */
static enum status conclusion(const struct protocol *protocol)
{
	if (protocol->local >= LOCAL_CHECKED && protocol->check != STATUS_SUCCESS)
		return protocol->check;
	if (protocol->remote == REMOTE_VERDICT && protocol->verdict != STATUS_SUCCESS)
		return protocol->verdict;
	if (protocol->local >= LOCAL_CHECKED &&
	    (protocol->verifying ? protocol->remote == REMOTE_VERDICT : protocol->disconnected))
		return STATUS_SUCCESS;
	return STATUS_PEER_LOST;
}

/*
 * Whether `status` is why the session closes: the first reason counts. But a peer that is lost may
 * have broken the protocol before it went, which is heard of only now.
 */
static bool is_reason(const struct protocol *protocol, enum status status)
{
	return protocol->phase < PHASE_CLOSING ||
	       (status == STATUS_CONTENTS_WRONG && protocol->status == STATUS_PEER_LOST);
}

/* From now on nothing is posted. Once both directions have been verified, no reason counts. */
static void begin_closing(struct step *step, enum status status)
{
	struct protocol *protocol = &step->protocol;

	if (!is_reason(protocol, status))
		return;
	protocol->status = conclusion(protocol) == STATUS_SUCCESS ? STATUS_SUCCESS : status;
	if (protocol->phase < PHASE_CLOSING)
		step->actions |= ACTION_DISCONNECT;
	protocol->phase = PHASE_CLOSING;
}

/* The connection stands. A message can overtake this news, so it comes from two sides. */
static void establish(struct protocol *protocol)
{
	if (protocol->phase != PHASE_CONNECTING)
		return;
	protocol->phase = PHASE_EXCHANGING;
	protocol->connected = true;
}

/*
 * Whether MSG_DONE is posted together with the operation. It follows a WRITE in order. A SEND may
 * overtake a READ, and the peer would let go of what is still being read, so MSG_DONE waits for the
 * READ to complete.
 *
 * IBV_SEND_FENCE would let the adapter wait, but in Linux 6.1 neither software adapter can be left
 * to it: over Soft-RoCE a fenced SEND is now and then never sent, and soft-iWARP answers no READ
 * while a fenced SEND waits for one of its own.
 */
static bool done_follows_at_once(const struct protocol *protocol)
{
	return protocol->operates && protocol->operation == OPERATION_WRITE;
}

/* A message of the peer's: in its turn, or it breaks the protocol. */
static void receive(struct step *step, enum remote_progress message)
{
	struct protocol *protocol = &step->protocol;
	bool our_turn_first; /* what this side must have posted before the peer can send this */

	switch (message) {
	case REMOTE_MR: /* the client's comes first: an iWARP client must be the first to send */
		our_turn_first =
			protocol->role == ROLE_SERVER || protocol->local >= LOCAL_MR_POSTED;
		break;
	case REMOTE_DONE:
		our_turn_first = protocol->local >= LOCAL_MR_POSTED;
		break;
	default: /* judges what our MSG_DONE announced */
		our_turn_first =
			protocol->verifying &&
			protocol->local >= (done_follows_at_once(protocol) ? LOCAL_OPERATION_POSTED
									   : LOCAL_DONE_POSTED);
	}
	if (message != protocol->remote + 1 || !our_turn_first) {
		begin_closing(step, STATUS_CONTENTS_WRONG);
		return;
	}
	establish(protocol);
	protocol->remote = message;
}

/* A completion of this side's own: they arrive in the order of posting. */
static void complete(struct step *step, enum local_progress before, enum local_progress after)
{
	if (step->protocol.local == before)
		step->protocol.local = after;
	else
		begin_closing(step, STATUS_LOCAL_FAILURE);
}

static void receive_verdict(struct step *step, enum status verdict)
{
	if (step->protocol.remote < REMOTE_VERDICT) /* the first one counts */
		step->protocol.verdict = verdict;
	receive(step, REMOTE_VERDICT);
}

/* The answer to ACTION_CHECK, or to nothing that was asked. */
static void conclude_check(struct step *step, enum status check)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->local != LOCAL_DONE_SENT || protocol->remote < REMOTE_DONE) {
		begin_closing(step, STATUS_LOCAL_FAILURE);
		return;
	}
	protocol->local = LOCAL_CHECKED;
	protocol->check = check;
}

/* The deadline passed: for the exchange, then for closing, then for closing by force. */
static void expire(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->phase < PHASE_CLOSING) {
		begin_closing(step, STATUS_TIMED_OUT);
	} else if (!protocol->overdue && !protocol->drained) {
		protocol->overdue = true;
		step->actions |= ACTION_FORCE_ERROR;
	} else {
		protocol->phase = PHASE_FINISHED;
		step->actions |= ACTION_FINISH;
	}
}

/* What an event changes by itself. */
static void record(struct step *step, struct event event)
{
	struct protocol *protocol = &step->protocol;

	switch (event.type) {
	case EVENT_ESTABLISHED:
		establish(protocol);
		break;
	case EVENT_MR_RECEIVED:
		receive(step, REMOTE_MR);
		break;
	case EVENT_DONE_RECEIVED:
		receive(step, REMOTE_DONE);
		break;
	case EVENT_VERDICT_RECEIVED:
		receive_verdict(step, event.status);
		break;
	case EVENT_MR_SENT:
		complete(step, LOCAL_MR_POSTED, LOCAL_MR_SENT);
		break;
	case EVENT_OPERATION_COMPLETED:
		complete(step, LOCAL_OPERATION_POSTED,
			 done_follows_at_once(protocol) ? LOCAL_DONE_POSTED
							: LOCAL_OPERATION_COMPLETED);
		break;
	case EVENT_DONE_SENT:
		complete(step, LOCAL_DONE_POSTED, LOCAL_DONE_SENT);
		break;
	case EVENT_CHECKED:
		conclude_check(step, event.status);
		break;
	case EVENT_VERDICT_SENT:
		complete(step, LOCAL_VERDICT_POSTED, LOCAL_VERDICT_SENT);
		break;
	case EVENT_FAILED:
		begin_closing(step, event.status);
		break;
	case EVENT_DISCONNECTED:
		protocol->disconnected = true;
		begin_closing(step, STATUS_PEER_LOST);
		break;
	case EVENT_FLUSHED:
		/* while connecting, an event that says why the connection failed is on its way */
		if (protocol->phase == PHASE_EXCHANGING)
			begin_closing(step, STATUS_PEER_LOST);
		break;
	case EVENT_INTERRUPTED:
		begin_closing(step, STATUS_INTERRUPTED);
		break;
	case EVENT_DRAINED:
		protocol->drained = true;
		break;
	case EVENT_DEADLINE:
		expire(step);
		break;
	case EVENT_TYPES:
		break;
	}
}

/* Whether all is done to the peer's memory that this side does, and MSG_DONE is due. */
static bool has_operated(const struct protocol *protocol)
{
	if (protocol->operates)
		return protocol->local == LOCAL_OPERATION_COMPLETED;
	return protocol->local == LOCAL_MR_SENT && protocol->remote >= REMOTE_MR;
}

/* The next thing to do, once what it needs is there. */
static void proceed(struct step *step)
{
	struct protocol *protocol = &step->protocol;
	bool may_post = protocol->phase == PHASE_EXCHANGING;

	if (may_post && protocol->local == LOCAL_IDLE &&
	    (protocol->role == ROLE_CLIENT || protocol->remote == REMOTE_MR)) {
		protocol->local = LOCAL_MR_POSTED;
		step->actions |= ACTION_SEND_MR;
	} else if (may_post && protocol->local == LOCAL_MR_SENT && protocol->remote >= REMOTE_MR &&
		   protocol->operates) {
		protocol->local = LOCAL_OPERATION_POSTED;
		step->actions |= ACTION_POST_OPERATION;
		if (done_follows_at_once(protocol))
			step->actions |= ACTION_SEND_DONE;
	} else if (may_post && has_operated(protocol)) {
		protocol->local = LOCAL_DONE_POSTED;
		step->actions |= ACTION_SEND_DONE;
	} else if (protocol->local == LOCAL_DONE_SENT && protocol->remote >= REMOTE_DONE) {
		step->actions |= ACTION_CHECK;
	} else if (may_post && protocol->local == LOCAL_CHECKED && protocol->verifying) {
		protocol->local = LOCAL_VERDICT_POSTED;
		step->actions |= ACTION_SEND_VERDICT;
	} else if (may_post && protocol->local == LOCAL_VERDICT_SENT &&
		   protocol->remote == REMOTE_VERDICT && protocol->role == ROLE_CLIENT) {
		begin_closing(step, conclusion(protocol)); /* the server waits for this */
	}
}

/*
 * Over when everything posted came back and, where a connection stood, the disconnection was seen.
 * What looked like a lost peer may have been the regular end, overtaken on its way here: the
 * disconnection and the last completions come by different channels.
 */
static void settle(struct step *step)
{
	struct protocol *protocol = &step->protocol;

	if (protocol->phase == PHASE_CLOSING && protocol->drained &&
	    (protocol->disconnected || !protocol->connected)) {
		protocol->phase = PHASE_FINISHED;
		step->actions |= ACTION_FINISH;
	}
	if (protocol->phase == PHASE_FINISHED && protocol->status == STATUS_PEER_LOST)
		protocol->status = conclusion(protocol);
}

struct step protocol_step(struct protocol protocol, struct event event)
{
	struct step step = { .protocol = protocol };

	if (protocol.phase == PHASE_FINISHED)
		return step;
	record(&step, event);
	proceed(&step);
	settle(&step);
	return step;
}

/* ---- The process ---- */

/* What the session is told when work requests come back unexecuted. */
static const struct event connection_goes_down = { .type = EVENT_FLUSHED };

/* Lets `epoll` report that `descriptor` can be read, as `subject`; 0 or -1 with errno. */
static int watch(int epoll, int descriptor, void *subject)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = subject };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

static int make_nonblocking(int descriptor)
{
	int flags = fcntl(descriptor, F_GETFL);

	return flags < 0 ? -1 : fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

/* The entry of `verbs` in the process's devices, made when it is new. NULL with errno. */
static struct device *find_device(struct process *process, struct ibv_context *verbs)
{
	struct device *device;

	SLIST_FOREACH (device, &process->devices, link) {
		if (device->verbs == verbs)
			return device;
	}
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	device->process = process;
	device->verbs = verbs;
	device->completion_channel = ibv_create_comp_channel(verbs);
	if (!device->completion_channel)
		goto free_device;
	if (make_nonblocking(device->completion_channel->fd) || make_nonblocking(verbs->async_fd) ||
	    watch(process->completion_descriptor, device->completion_channel->fd, device) ||
	    watch(process->main_descriptor, verbs->async_fd, device))
		goto destroy_channel;
	SLIST_INSERT_HEAD(&process->devices, device, link);
	return device;

destroy_channel: /* closing a descriptor takes it out of the epoll as well */
	ibv_destroy_comp_channel(device->completion_channel);
free_device:
	free(device);
	return NULL;
}

/*
 * How the main thread takes the mutex. A completion thread that spins lets it through: a mutex that
 * is given back and taken again at once is not fair.
 */
static void lock_sessions(struct process *process)
{
	atomic_fetch_add(&process->mutex_wanted, 1);
	pthread_mutex_lock(&process->mutex);
	atomic_fetch_sub(&process->mutex_wanted, 1);
}

static void handle_completions(struct connection *connection);
static bool spin(struct process *process);

/* Tells the main thread that the completion thread cannot do its work, or not for a device. */
static void give_up(struct process *process, bool *what)
{
	pthread_mutex_lock(&process->mutex);
	*what = true;
	pthread_mutex_unlock(&process->mutex);
	eventfd_write(process->wake_descriptor, 1);
}

/*
 * Takes one completion event off a device's channel and handles what is on its completion queue.
 * ibv_destroy_cq(3) waits until the event is acknowledged, so the connection is there until then.
 */
static void handle_channel(struct device *device)
{
	struct ibv_comp_channel *channel = device->completion_channel;
	struct process *process = device->process;
	struct connection *connection;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context)) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		warn("cannot hear of completions on a device, which was removed perhaps");
		epoll_ctl(process->completion_descriptor, EPOLL_CTL_DEL, channel->fd, NULL);
		give_up(process, &device->broken);
		return;
	}
	connection = context;
	/* first: only then what the main thread has written into the connection is seen here */
	pthread_mutex_lock(&process->mutex);
	connection->events++;
	if (!connection->retired && !connection->spinning)
		handle_completions(connection);
	if (connection->retired || connection->events == EVENTS_PER_ACKNOWLEDGEMENT) {
		ibv_ack_cq_events(cq, connection->events);
		connection->events = 0;
	}
	pthread_mutex_unlock(&process->mutex);
}

static void *run_completion_thread(void *argument)
{
	struct process *process = argument;

	for (;;) {
		struct epoll_event ready;
		int patience = spin(process) ? 0 : -1;
		int count = epoll_wait(process->completion_descriptor, &ready, 1, patience);

		if (count < 0 && errno != EINTR) {
			warn("cannot wait for completions");
			give_up(process, &process->exhausted);
			return NULL;
		}
		if (count == 1 && !ready.data.ptr)
			return NULL;
		if (count == 1)
			handle_channel(ready.data.ptr);
	}
}

/* Signals become readable on a descriptor, in all threads; a closed pipe becomes an error. */
static int open_signals(struct process *process)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGALRM); /* whoever sets an alarm lets it through */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || sigprocmask(SIG_BLOCK, &signals, NULL))
		return -1;
	sigdelset(&signals, SIGALRM);
	process->signal_descriptor = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return process->signal_descriptor < 0 ? -1 : 0;
}

/* No descriptor that is opened may become standard output because that was closed. */
static void occupy_standard_descriptors(void)
{
	for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
		/* it gets the lowest free number, and cannot be written to */
		if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			return;
	}
}

/* What the two threads wait on and wake each other with. */
static enum status open_descriptors(struct process *process)
{
	process->main_descriptor = epoll_create1(EPOLL_CLOEXEC);
	process->completion_descriptor = epoll_create1(EPOLL_CLOEXEC);
	process->wake_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	process->stop_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (open_signals(process) || process->main_descriptor < 0 ||
	    process->completion_descriptor < 0 || process->wake_descriptor < 0 ||
	    process->stop_descriptor < 0 ||
	    watch(process->main_descriptor, process->signal_descriptor,
		  &process->signal_descriptor) ||
	    watch(process->main_descriptor, process->wake_descriptor, &process->wake_descriptor) ||
	    watch(process->completion_descriptor, process->stop_descriptor, NULL)) {
		process_complain(process,
				 "cannot open the descriptors that the threads wait on: %s (see "
				 "'ulimit -n')",
				 strerror(errno));
		return STATUS_LOCAL_FAILURE;
	}
	return STATUS_SUCCESS;
}

/* What the user can do about librdmacm not starting; it hides that descriptors ran out. */
static enum status explain_missing_rdma(struct process *process, const char *attempted)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	int error = errno;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (error == EMFILE || error == ENFILE || limit.rlim_cur < LOW_DESCRIPTOR_LIMIT) {
		process_complain(process,
				 "%s: %s; only %ju open files are allowed: raise that ('ulimit "
				 "-n')",
				 attempted, strerror(error), (uintmax_t)limit.rlim_cur);
		return STATUS_LOCAL_FAILURE;
	}
	process_complain(process, "%s: %s; %s", attempted, strerror(error),
			 error == EACCES || error == EPERM
				 ? "may this user open the files in /dev/infiniband?"
				 : "is there an RDMA device ('rdma link'), and the module rdma_ucm "
				   "loaded?");
	return error == ENOMEM ? STATUS_LOCAL_FAILURE : STATUS_UNRESOLVED;
}

/* The event channel, and every device that there is, to hear of its events. */
static enum status open_devices(struct process *process)
{
	struct ibv_context **devices;
	int count = 0;

	process->event_channel = rdma_create_event_channel();
	if (!process->event_channel)
		return explain_missing_rdma(process, "cannot open the RDMA connection manager");
	if (make_nonblocking(process->event_channel->fd) ||
	    watch(process->main_descriptor, process->event_channel->fd, process->event_channel)) {
		process_complain(process, "cannot wait for connection manager events: %s",
				 strerror(errno));
		return STATUS_LOCAL_FAILURE;
	}
	devices = rdma_get_devices(&count);
	if (!devices || count == 0) {
		if (!devices)
			return explain_missing_rdma(process, "cannot list the RDMA devices");
		rdma_free_devices(devices);
		errno = ENODEV;
		return explain_missing_rdma(process, "cannot find an RDMA device");
	}
	for (int i = 0; i < count; i++) {
		if (!find_device(process, devices[i])) {
			process_complain(process, "cannot use RDMA device %s: %s",
					 ibv_get_device_name(devices[i]->device), strerror(errno));
			rdma_free_devices(devices);
			return STATUS_LOCAL_FAILURE;
		}
	}
	rdma_free_devices(devices);
	return STATUS_SUCCESS;
}

void process_init(struct process *process, const struct options *options, enum role role)
{
	memset(process, 0, sizeof(*process));
	process->options = options;
	process->role = role;
	process->signal_descriptor = -1;
	process->wake_descriptor = -1;
	process->stop_descriptor = -1;
	process->main_descriptor = -1;
	process->completion_descriptor = -1;
	SLIST_INIT(&process->devices);
	TAILQ_INIT(&process->spinners);
	pthread_mutex_init(&process->mutex, NULL);
}

enum status process_open(struct process *process)
{
	enum status status;
	int error;

	occupy_standard_descriptors();
	status = open_descriptors(process);
	if (status == STATUS_SUCCESS)
		status = open_devices(process);
	if (status != STATUS_SUCCESS)
		return status;
	mallopt(M_ARENA_MAX, 1); /* the second thread allocates too little to map one of its own */
	error = pthread_create(&process->completion_thread, NULL, run_completion_thread, process);
	if (error) {
		process_complain(process, "cannot start the completion thread: %s",
				 strerror(error));
		return STATUS_LOCAL_FAILURE;
	}
	process->completion_thread_runs = true;
	return STATUS_SUCCESS;
}

static void close_descriptor(int descriptor)
{
	if (descriptor >= 0)
		close(descriptor);
}

void process_destroy(struct process *process)
{
	struct device *device;

	if (process->completion_thread_runs) {
		eventfd_write(process->stop_descriptor, 1);
		pthread_join(process->completion_thread, NULL);
	}
	while ((device = SLIST_FIRST(&process->devices))) {
		int error = ibv_destroy_comp_channel(device->completion_channel);

		if (error)
			warnx("cannot destroy a completion channel: %s", strerror(error));
		SLIST_REMOVE_HEAD(&process->devices, link);
		free(device);
	}
	if (process->event_channel)
		rdma_destroy_event_channel(process->event_channel);
	close_descriptor(process->signal_descriptor);
	close_descriptor(process->wake_descriptor);
	close_descriptor(process->stop_descriptor);
	close_descriptor(process->main_descriptor);
	close_descriptor(process->completion_descriptor);
	payload_free(&process->payload);
	pthread_mutex_destroy(&process->mutex);
}

/* Takes one event off the channel, acknowledges it and keeps what is needed of it. */
static enum wakeup get_cm_event(struct process *process, struct cm_event *copy)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(process->event_channel, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return WAKEUP_OTHER;
		warn("cannot get an event of the connection manager");
		return WAKEUP_EXHAUSTED;
	}
	memset(copy, 0, sizeof(*copy));
	copy->type = event->event;
	copy->status = event->status;
	copy->id = event->id;
	copy->listener = event->listen_id;
	copy->greeting = decode_hello(event->param.conn.private_data,
				      event->param.conn.private_data_len, &copy->hello);
	copy->responder_resources = event->param.conn.responder_resources;
	copy->initiator_depth = event->param.conn.initiator_depth;
	rdma_ack_cm_event(event);
	return WAKEUP_CM_EVENT;
}

/* Logs a device's event by its name, and ends the session that it concerns. */
static void handle_device_event(struct process *process, struct device *device)
{
	const char *name = ibv_get_device_name(device->verbs->device);
	struct connection *concerned = NULL;
	struct ibv_async_event event;

	if (ibv_get_async_event(device->verbs, &event)) {
		if (errno != EAGAIN && errno != EINTR)
			epoll_ctl(process->main_descriptor, EPOLL_CTL_DEL, device->verbs->async_fd,
				  NULL);
		return;
	}
	if (process->options->verbose)
		warnx("device %s: %s", name, ibv_event_type_str(event.event_type));
	switch (event.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		concerned = event.element.qp->qp_context;
		break;
	case IBV_EVENT_CQ_ERR:
		concerned = event.element.cq->cq_context;
		break;
	default: /* of the rest the connection manager or a completion tells what must be known */
		break;
	}
	/* first: destroying what the event is about waits for this (ibv_get_async_event(3)) */
	ibv_ack_async_event(&event);
	if (concerned && concerned->iwarp) /* over TCP, a broken connection is such an event */
		connection_handle(concerned, connection_goes_down);
	else if (concerned)
		connection_fail(concerned, STATUS_LOCAL_FAILURE, "RDMA device %s reports: %s", name,
				ibv_event_type_str(event.event_type));
}

/* The completion thread woke this one up: for a connection, or because it had to give up. */
static enum wakeup take_news(struct process *process)
{
	eventfd_t news;
	bool exhausted;

	eventfd_read(process->wake_descriptor, &news);
	lock_sessions(process);
	exhausted = process->exhausted;
	pthread_mutex_unlock(&process->mutex);
	return exhausted ? WAKEUP_EXHAUSTED : WAKEUP_OTHER;
}

/* How long epoll_wait(2) may wait. */
static int milliseconds_until(int64_t deadline)
{
	int64_t remaining = deadline - now_milliseconds();

	if (deadline == INT64_MAX)
		return -1;
	if (remaining < 0)
		return 0;
	return remaining > INT32_MAX ? INT32_MAX : (int)remaining;
}

enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *event)
{
	struct signalfd_siginfo information;
	struct epoll_event ready;
	int count = epoll_wait(process->main_descriptor, &ready, 1, milliseconds_until(deadline));

	if (count < 0 && errno != EINTR) {
		warn("cannot wait for events");
		return WAKEUP_EXHAUSTED;
	}
	if (count < 1)
		return WAKEUP_OTHER;
	if (ready.data.ptr == process->event_channel)
		return get_cm_event(process, event);
	if (ready.data.ptr == &process->signal_descriptor) {
		if (read(process->signal_descriptor, &information, sizeof(information)) !=
		    sizeof(information))
			return WAKEUP_OTHER;
		process->signal_number = (int)information.ssi_signo;
		return WAKEUP_SIGNAL;
	}
	if (ready.data.ptr == &process->wake_descriptor)
		return take_news(process);
	handle_device_event(process, ready.data.ptr);
	return WAKEUP_OTHER;
}

void end_by_signal(int signal_number)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, signal_number);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

/* ---- Connections: making one ---- */

/* What a work request is, in the upper bits of its wr_id. What the lower bits say of it: */
enum work {
	WORK_RECEIVE,   /* the slot */
	WORK_MESSAGE,   /* the type */
	WORK_OPERATION, /* how many work requests of the operation were posted up to this one */
	WORK_PROBE,
};

#define WORK_SHIFT 56
#define WORK_MASK  (((uint64_t)1 << WORK_SHIFT) - 1)

static uint64_t make_wr_id(enum work work, uint64_t detail)
{
	return (uint64_t)work << WORK_SHIFT | detail;
}

static enum work work_of(uint64_t wr_id)
{
	return (enum work)(wr_id >> WORK_SHIFT);
}

/* What to say about a session when nothing more particular was recorded. */
static const char *default_cause(enum status status)
{
	switch (status) {
	case STATUS_REFUSED:
		return "the peer refused; its own messages say why";
	case STATUS_TIMED_OUT:
		return "nothing was heard for the time of --timeout; is the peer still running?";
	case STATUS_PEER_LOST:
		return "the peer went away before the session was complete; look at its messages";
	case STATUS_CONTENTS_WRONG:
		return "the contents are wrong: what arrived is not what was handed over, or the peer "
		       "broke the protocol; do not trust this path";
	case STATUS_INTERRUPTED:
		return "interrupted before the session was complete";
	default:
		return "unexpected failure";
	}
}

const char *connection_cause(const struct connection *connection, enum status status)
{
	return connection->cause[0] ? connection->cause : default_cause(status);
}

enum status connection_cm_failed(struct connection *connection, const char *attempted)
{
	/* what the kernel answers about a request that is no more; the last two over TCP */
	bool gone = errno == EINVAL || errno == ECONNRESET || errno == EPIPE;

	if (gone && connection->process->role == ROLE_SERVER)
		return connection_fail(connection, STATUS_PEER_LOST, "%s",
				       default_cause(STATUS_PEER_LOST));
	return connection_fail(connection, STATUS_LOCAL_FAILURE, "%s failed: %s", attempted,
			       strerror(errno));
}

socklen_t address_size(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

/* Keeps "ADDRESS port PORT" of the peer, for messages. */
static void name_peer(struct connection *connection, const struct sockaddr *address)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, address_size(address), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(connection->peer, sizeof(connection->peer), "unknown peer");
	else
		snprintf(connection->peer, sizeof(connection->peer), "%s port %s", host, port);
}

struct connection *connection_create(struct process *process, struct rdma_cm_id *id,
				     const struct sockaddr *peer, unsigned int number)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection) {
		warn("cannot keep another connection");
		rdma_destroy_id(id);
		return NULL;
	}
	connection->process = process;
	connection->id = id;
	connection->number = number;
	connection->protocol = protocol_start(process->role, process->options->operation);
	id->context = connection;
	name_peer(connection, peer);
	connection_extend_deadline(connection);
	return connection;
}

/* The names of access flags, for traces; "none" is what a source of our own needs. */
static const char *access_names(unsigned int access)
{
	switch (access) {
	case IBV_ACCESS_LOCAL_WRITE:
		return "LOCAL_WRITE";
	case IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE:
		return "LOCAL_WRITE, REMOTE_WRITE";
	case IBV_ACCESS_REMOTE_READ:
		return "REMOTE_READ";
	default:
		return "none";
	}
}

/* Why memory could not be registered, and what helps. errno is that of ibv_reg_mr(3). */
static enum status explain_registration(struct connection *connection, size_t size)
{
	struct rlimit limit = { 0 };
	int error = errno;

	/* EPERM is what a limit of 0 answers */
	if ((error == ENOMEM || error == EPERM) && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot register %zu bytes of memory: it would exceed the "
				       "locked-memory limit of %ju KiB; raise it ('ulimit -l', or "
				       "memlock in /etc/security/limits.conf)",
				       size, (uintmax_t)limit.rlim_cur / 1024);
	return connection_fail(connection, STATUS_LOCAL_FAILURE,
			       "cannot register %zu bytes of memory: %s", size, strerror(error));
}

/* Registers memory. */
static enum status region_register(struct connection *connection, struct region *region,
				   uint8_t *memory, size_t size, unsigned int access)
{
	region->memory = memory;
	region->size = size;
	region->mr = ibv_reg_mr(connection->pd, memory, size, access);
	if (!region->mr)
		return explain_registration(connection, size);
	connection_trace(connection, "ibv_reg_mr: %zu bytes at %p, rkey 0x%" PRIx32 ", access %s",
			 size, (void *)memory, region->mr->rkey, access_names(access));
	return STATUS_SUCCESS;
}

/* Maps and registers `size` bytes of zeros; the connection owns them at once. */
static enum status region_create(struct connection *connection, struct region *region, size_t size,
				 unsigned int access)
{
	void *memory = memory_map(size);

	if (!memory)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot allocate %zu bytes of memory: %s", size,
				       strerror(errno));
	region->owned = true;
	return region_register(connection, region, memory, size, access);
}

/* False if the adapter may still use the memory, which then stays. */
static bool region_destroy(struct region *region)
{
	int error = region->mr ? ibv_dereg_mr(region->mr) : 0;

	if (error)
		warnx("cannot deregister %zu bytes of memory: %s", region->size, strerror(error));
	else if (region->owned && memory_unmap(region->memory, region->size))
		warn("cannot unmap %zu bytes of memory", region->size);
	memset(region, 0, sizeof(*region));
	return !error;
}

static uint8_t at_most(int value, uint8_t limit)
{
	return value > limit ? limit : (uint8_t)(value < 0 ? 0 : value);
}

/* As many work requests of the operation as fit into the device's queues with all the others. */
static unsigned int at_most_requests(unsigned int wanted, const struct ibv_device_attr *device)
{
	int requests = device->max_qp_wr - MESSAGE_REQUESTS;
	int completions = device->max_cqe - MESSAGE_REQUESTS - RECEIVES;
	int limit = requests < completions ? requests : completions;

	if (limit < 1)
		return 1;
	return wanted < (unsigned int)limit ? wanted : (unsigned int)limit;
}

const char *transport_name(const struct ibv_context *verbs, const struct ibv_port_attr *port)
{
	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	return port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

/* What the device and its port allow. */
static enum status query_limits(struct connection *connection)
{
	struct rdma_cm_id *id = connection->id;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int error = ibv_query_device(id->verbs, &device);

	if (!error)
		error = ibv_query_port(id->verbs, id->port_num, &port);
	if (error)
		return connection_fail(
			connection, STATUS_LOCAL_FAILURE, "cannot query RDMA device %s port %u: %s",
			ibv_get_device_name(id->verbs->device), id->port_num, strerror(error));
	connection->iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	connection->transport = transport_name(id->verbs, &port);
	connection->part_size = port.max_msg_sz < PART_SIZE ? port.max_msg_sz : PART_SIZE;
	connection->depth = at_most_requests(connection->process->options->depth, &device);
	connection->responder_resources = at_most(device.max_qp_rd_atom, READ_DEPTH);
	connection->initiator_depth = at_most(device.max_qp_init_rd_atom, READ_DEPTH);
	connection_trace(connection, "device %s port %u: max_msg_sz %" PRIu32,
			 ibv_get_device_name(id->verbs->device), id->port_num, port.max_msg_sz);
	return STATUS_SUCCESS;
}

/* The queue pair, with work requests that carry small payloads if the device has such. */
static enum status create_queue_pair(struct connection *connection)
{
	struct rdma_cm_id *id = connection->id;
	struct ibv_qp_init_attr attributes = {
		.qp_context = connection,
		.qp_type = IBV_QPT_RC,
		.send_cq = connection->cq,
		.recv_cq = connection->cq,
		.cap.max_send_wr = connection->depth + MESSAGE_REQUESTS,
		.cap.max_recv_wr = RECEIVES,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.cap.max_inline_data = INLINE_SIZE,
	};
	int error = rdma_create_qp(id, connection->pd, &attributes);

	if (error && errno == EINVAL) { /* no device says before what it can carry inline */
		attributes.cap.max_inline_data = 0;
		error = rdma_create_qp(id, connection->pd, &attributes);
	}
	if (error)
		return connection_cm_failed(connection, "rdma_create_qp");
	connection->inline_size = attributes.cap.max_inline_data;
	connection_trace(connection, "rdma_create_qp: queue pair 0x%" PRIx32 ", %u bytes inline",
			 id->qp->qp_num, connection->inline_size);
	return STATUS_SUCCESS;
}

/* Protection domain, completion queue and queue pair, each for this connection alone. */
static enum status create_queues(struct connection *connection)
{
	struct ibv_context *verbs = connection->id->verbs;
	int size = (int)connection->depth + MESSAGE_REQUESTS + RECEIVES;
	int error;

	connection->device = find_device(connection->process, verbs);
	if (!connection->device)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "ibv_create_comp_channel failed: %s", strerror(errno));
	connection->pd = ibv_alloc_pd(verbs);
	if (!connection->pd)
		return connection_fail(connection, STATUS_LOCAL_FAILURE, "ibv_alloc_pd failed: %s",
				       strerror(errno));
	connection->cq =
		ibv_create_cq(verbs, size, connection, connection->device->completion_channel, 0);
	if (!connection->cq)
		return connection_fail(connection, STATUS_LOCAL_FAILURE, "ibv_create_cq failed: %s",
				       strerror(errno));
	error = ibv_req_notify_cq(connection->cq, 0);
	if (error)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "ibv_req_notify_cq failed: %s", strerror(error));
	return create_queue_pair(connection);
}

/* Registers the payload of this side, if it hands one over. */
static enum status register_outgoing(struct connection *connection)
{
	const struct process *process = connection->process;
	bool reading = process->options->operation == OPERATION_READ;

	if (!hands_over(process->role, process->options->operation, connection->one_way))
		return STATUS_SUCCESS;
	/* a payload that this side writes needs no right at all: the adapter may always read it */
	return region_register(connection, &connection->outgoing, process->payload.memory,
			       process->payload.size, reading ? IBV_ACCESS_REMOTE_READ : 0);
}

/* A scatter/gather element for `size` bytes at `offset` of a region. */
static struct ibv_sge element(const struct region *region, uint64_t offset, uint64_t size)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)region->memory + offset,
		.length = (uint32_t)size,
		.lkey = region->mr->lkey,
	};

	return sge;
}

/* What the session is told when a work request could not be posted. */
static const struct event post_failure = { .type = EVENT_FAILED, .status = STATUS_LOCAL_FAILURE };

/* Keeps why a work request could not be posted. Mutex held. Returns `error`. */
static int post_failed(struct connection *connection, const char *verb, int error)
{
	snprintf(connection->cause, sizeof(connection->cause), "%s failed: %s", verb,
		 strerror(error));
	return error;
}

/* Makes `slot` ready for a message and counts it. Mutex held. 0 or an errno value. */
static int post_receive(struct connection *connection, unsigned int slot)
{
	struct ibv_sge sge = element(&connection->control, slot * SLOT_SIZE, MESSAGE_SIZE);
	struct ibv_recv_wr *rejected, request = {
		.wr_id = make_wr_id(WORK_RECEIVE, slot),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int error = ibv_post_recv(connection->id->qp, &request, &rejected);

	if (error)
		return post_failed(connection, "ibv_post_recv", error);
	connection->outstanding_receives++;
	return 0;
}

static enum status post_receives(struct connection *connection)
{
	int error = 0;

	connection_trace(connection, "ibv_post_recv: %d receives", RECEIVES);
	lock_sessions(connection->process);
	for (unsigned int slot = 0; slot < RECEIVES && !error; slot++)
		error = post_receive(connection, slot);
	pthread_mutex_unlock(&connection->process->mutex);
	return error ? connection_fail(connection, STATUS_LOCAL_FAILURE, "%s", connection->cause)
		     : STATUS_SUCCESS;
}

enum status connection_prepare(struct connection *connection, bool one_way)
{
	enum status status;

	connection->one_way = one_way;
	connection->protocol.operates = connection->process->role == ROLE_CLIENT || !one_way;
	status = query_limits(connection);
	if (status == STATUS_SUCCESS)
		status = create_queues(connection);
	if (status == STATUS_SUCCESS)
		status = region_create(connection, &connection->control, SLOTS * SLOT_SIZE,
				       IBV_ACCESS_LOCAL_WRITE);
	if (status == STATUS_SUCCESS)
		status = register_outgoing(connection);
	if (status == STATUS_SUCCESS)
		status = post_receives(connection);
	return status;
}

/* Makes room for what the peer hands over: `size` bytes, with the right that it needs. */
static enum status create_incoming(struct connection *connection, uint64_t size)
{
	const struct options *options = connection->process->options;
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;

	/* over iWARP what a read brings home is written by the peer's adapter */
	if (options->operation == OPERATION_WRITE || connection->iwarp)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (options->output && output_check(options->output, size))
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot store %" PRIu64 " bytes in '%s': %s", size,
				       options->output, strerror(errno));
	return region_create(connection, &connection->incoming, size, access);
}

/* What the operation of this side carries, and how many work requests it takes. */
static void plan_operation(struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;
	uint64_t length;

	if (protocol->operates)
		connection->operated = protocol->operation == OPERATION_WRITE
					       ? &connection->outgoing
					       : &connection->incoming;
	length = operation_length(connection);
	connection->parts = (length + connection->part_size - 1) / connection->part_size;
	connection->requests = connection->parts * connection->process->options->iterations;
}

/* Room for latencies, where one operation at a time makes them mean something. */
static enum status create_latency(struct connection *connection)
{
	const struct options *options = connection->process->options;
	struct figures *figures = &connection->figures;

	if (connection->depth > 1 || !(options->report || options->json || options->iterations > 1))
		return STATUS_SUCCESS;
	figures->latency = calloc(1, sizeof(*figures->latency));
	if (!figures->latency)
		return connection_fail(connection, STATUS_LOCAL_FAILURE,
				       "cannot allocate memory for latencies: %s", strerror(errno));
	return STATUS_SUCCESS;
}

/*
 * How many reads the peer serves at a time. What a client is told of that when it is accepted over
 * iWARP depends on the driver: cxgb4 tells the server's two numbers as InfiniBand does; siw, irdma
 * and qedr tell them crosswise. The smaller one is safe, but a 0 only says that the server does not
 * read.
 */
static uint8_t reads_served(const struct connection *connection, const struct cm_event *event)
{
	uint8_t number = event->initiator_depth, other = event->responder_resources;

	if (connection->protocol.role == ROLE_SERVER || !connection->iwarp)
		return number;
	return number == 0 || (other > 0 && other < number) ? other : number;
}

/*
 * No more reads than the peer serves, and serves no more than the peer will ask for
 * (rdma_accept(3)). Reads above that are not even posted: soft-iWARP in Linux holds everything
 * behind them back, what it owes to the peer's reads too, and two sides would wait for each other.
 */
static enum status limit_reads(struct connection *connection, const struct cm_event *event)
{
	uint8_t served = reads_served(connection, event), asked = event->responder_resources;
	bool told = asked > 0 || !connection->iwarp; /* irdma leaves it out of a request */

	if (connection->initiator_depth > served)
		connection->initiator_depth = served;
	if (told && connection->responder_resources > asked)
		connection->responder_resources = asked;
	if (connection->protocol.operation == OPERATION_WRITE || !connection->protocol.operates)
		return STATUS_SUCCESS;
	if (served == 0)
		return connection_fail(connection, STATUS_REFUSED,
				       "the peer serves no RDMA READ: its responder_resources are "
				       "0; use write, or give it some");
	if (connection->depth > connection->initiator_depth)
		connection->depth = connection->initiator_depth;
	connection_trace(connection, "%u reads outstanding at most", connection->depth);
	return STATUS_SUCCESS;
}

enum status connection_meet(struct connection *connection, const struct cm_event *event)
{
	enum greeting greeting = event->greeting;
	const struct hello *hello = &event->hello;
	uint64_t length = greeting == GREETING_HELLO ? hello->length : DEFAULT_PAYLOAD;
	enum status status;

	if (greeting == GREETING_NONE &&
	    (connection->outgoing.size != DEFAULT_PAYLOAD || connection->one_way))
		return connection_fail(connection, STATUS_REFUSED,
				       "the peer exchanges %d bytes both ways and nothing else: it "
				       "sent no hello; shorten --message and leave --file, --size "
				       "and --one-way out, or start this program's like there",
				       DEFAULT_PAYLOAD);
	connection->expects_pattern = greeting == GREETING_HELLO && hello->flags & HELLO_PATTERN;
	status = limit_reads(connection, event);
	if (status == STATUS_SUCCESS)
		status = create_latency(connection);
	if (status == STATUS_SUCCESS && length > 0)
		status = create_incoming(connection, length);
	if (status != STATUS_SUCCESS)
		return status;
	lock_sessions(connection->process);
	connection->protocol.verifying = greeting == GREETING_HELLO;
	plan_operation(connection);
	pthread_mutex_unlock(&connection->process->mutex);
	return STATUS_SUCCESS;
}

struct rdma_conn_param connection_parameters(const struct connection *connection,
					     uint8_t wire[HELLO_SIZE])
{
	const struct process *process = connection->process;
	const struct hello hello = {
		.version = HELLO_VERSION,
		.operation = (uint8_t)process->options->operation,
		.flags = (uint16_t)((connection->one_way ? HELLO_ONE_WAY : 0) |
				    (process->payload.is_pattern ? HELLO_PATTERN : 0)),
		.length = connection->outgoing.size,
	};
	struct rdma_conn_param parameters = {
		.private_data = wire,
		.private_data_len = HELLO_SIZE,
		.responder_resources = connection->responder_resources,
		.initiator_depth = connection->initiator_depth,
		.flow_control = 1,
		/* the most there is: 0 would turn one lost packet into a failure */
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	encode_hello(&hello, wire);
	return parameters;
}

/* ---- Connections: posting ---- */

static const char *message_name(enum message_type type)
{
	switch (type) {
		NAME(MSG_MR);
		NAME(MSG_DONE);
		NAME(MSG_VERDICT);
		NAME(MSG_PROGRESS);
	}
	return "MSG_?";
}

/* Posts one work request that is not of the operation, and counts it. Mutex held. 0 or errno. */
static int post_send(struct connection *connection, struct ibv_send_wr *request)
{
	struct ibv_send_wr *rejected;
	int error = ibv_post_send(connection->id->qp, request, &rejected);

	if (error)
		return post_failed(connection, "ibv_post_send", error);
	connection->outstanding_messages++;
	return 0;
}

/* IBV_SEND_INLINE if so many bytes fit into a work request. */
static unsigned int inline_flag(const struct connection *connection, uint64_t size)
{
	return size <= connection->inline_size ? IBV_SEND_INLINE : 0;
}

/* Each type has a slot of its own and is in flight once at a time, so none is overwritten there. */
static int post_message(struct connection *connection, const struct message *message)
{
	uint64_t offset = (SEND_SLOT + (uint64_t)message->type) * SLOT_SIZE;
	struct ibv_sge sge = element(&connection->control, offset, MESSAGE_SIZE);
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WORK_MESSAGE, message->type),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | inline_flag(connection, MESSAGE_SIZE),
	};

	encode_message(message, connection->control.memory + offset);
	connection_trace(connection, "ibv_post_send: SEND %s", message_name(message->type));
	return post_send(connection, &request);
}

/* Tells the peer which region of ours it may write to, or read from. */
static int send_mr(struct connection *connection)
{
	const struct region *exposed = connection->protocol.operation == OPERATION_WRITE
					       ? &connection->incoming
					       : &connection->outgoing;
	struct message message = {
		.type = MSG_MR,
		.value = (uintptr_t)exposed->memory,
		.length = exposed->size,
		.rkey = exposed->mr ? exposed->mr->rkey : 0, /* none in one way of --one-way */
	};

	return post_message(connection, &message);
}

uint64_t operation_length(const struct connection *connection)
{
	return connection->operated ? connection->operated->size : 0;
}

/* Completions are asked for now and then only: each one stands for all work requests before it. */
static bool is_signaled(const struct connection *connection, uint64_t number)
{
	uint64_t interval = connection->depth < 4 ? 1 : connection->depth / 4;

	return number % interval == 0 || number == connection->requests;
}

/* What all work requests of the operation have in common: written once, it costs nothing later. */
static void prepare_requests(struct connection *connection)
{
	struct ibv_send_wr *requests = connection->batch;

	for (unsigned int i = 0; i < BATCH; i++) {
		connection->elements[i] = element(connection->operated, 0, 0);
		requests[i] = (struct ibv_send_wr){
			.next = i + 1 < BATCH ? &requests[i + 1] : NULL,
			.sg_list = &connection->elements[i],
			.num_sge = 1,
			.opcode = connection->protocol.operation == OPERATION_WRITE
					  ? IBV_WR_RDMA_WRITE
					  : IBV_WR_RDMA_READ,
			.wr.rdma.rkey = connection->peer_region.rkey,
		};
	}
}

/* Makes `request` the next one of the operation, which carries the next part of the payload. */
static void make_request(struct connection *connection, struct ibv_send_wr *request)
{
	uint64_t offset = connection->next_offset;
	uint64_t left = connection->operated->size - offset;
	uint64_t size = left < connection->part_size ? left : connection->part_size;
	uint64_t number = ++connection->requests_posted;

	connection->next_offset = size == left ? 0 : offset + size;
	request->sg_list->addr = (uintptr_t)connection->operated->memory + offset;
	request->sg_list->length = (uint32_t)size;
	request->wr_id = make_wr_id(WORK_OPERATION, number);
	request->send_flags = is_signaled(connection, number) ? IBV_SEND_SIGNALED : 0;
	if (request->opcode == IBV_WR_RDMA_WRITE)
		request->send_flags |= inline_flag(connection, size);
	request->wr.rdma.remote_addr = connection->peer_region.value + offset;
}

/* Posts `count` work requests of the operation, BATCH at most, as one list. 0 or an errno value. */
static int post_batch(struct connection *connection, unsigned int count)
{
	struct ibv_send_wr *rejected, *last = &connection->batch[count - 1], *next = last->next;
	uint64_t bytes = 0;
	int error;

	for (unsigned int i = 0; i < count; i++) {
		make_request(connection, &connection->batch[i]);
		bytes += connection->elements[i].length;
	}
	last->next = NULL;
	error = ibv_post_send(connection->id->qp, connection->batch, &rejected);
	last->next = next;
	if (error) {
		connection->requests_posted = (rejected->wr_id & WORK_MASK) - 1;
		return post_failed(connection, "ibv_post_send", error);
	}
	connection_trace(connection, "ibv_post_send: RDMA %s of %" PRIu64 " bytes in %u requests",
			 last->opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ", bytes, count);
	return 0;
}

/* How many work requests of the operation can be posted now, in one list. */
static unsigned int batch_size(const struct connection *connection)
{
	uint64_t outstanding = connection->requests_posted - connection->requests_completed;
	uint64_t room = connection->depth - outstanding;
	uint64_t left = connection->requests - connection->requests_posted;
	uint64_t size = room < left ? room : left;

	return size < BATCH ? (unsigned int)size : BATCH;
}

/*
 * Covers up to `size` bytes of the payload with its digest, if the peer wants one: as many as have
 * been posted, while the wire is busy. False if there is nothing to digest.
 */
static bool extend_digest(struct connection *connection, uint64_t size)
{
	struct payload *payload = &connection->process->payload;

	if (!connection->protocol.verifying || !connection->outgoing.mr)
		return false;
	digest_extend(&payload->digest, payload->memory,
		      size < payload->size ? size : payload->size);
	return true;
}

/* Posts MSG_DONE with the digest of what this side handed over, if it handed anything over. */
static int send_done(struct connection *connection)
{
	struct message done = { .type = MSG_DONE };

	if (extend_digest(connection, UINT64_MAX))
		done.value = digest_value(&connection->process->payload.digest);
	return post_message(connection, &done);
}

/* Posts what the send queue takes of the operation and, when that was its end, MSG_DONE if due. */
static int continue_operation(struct connection *connection)
{
	unsigned int count;
	int error;

	while ((count = batch_size(connection)) > 0) {
		error = post_batch(connection, count);
		if (error)
			return error;
		extend_digest(connection, connection->requests_posted * connection->part_size);
	}
	if (connection->requests_posted < connection->requests || !connection->done_waits)
		return 0;
	connection->done_waits = false;
	return send_done(connection);
}

/*
 * Tells a peer that waits for the end of a long operation that it moves. When all of it is posted
 * MSG_DONE may be, too, which nothing may follow but the verdict.
 */
static int send_progress(struct connection *connection, int64_t now)
{
	struct message message = { .type = MSG_PROGRESS };

	if (!connection->protocol.verifying || connection->progress_outstanding ||
	    connection->requests_posted == connection->requests ||
	    now - connection->progress_sent < PROGRESS_MILLISECONDS)
		return 0;
	message.value = connection->requests_completed;
	connection->progress_sent = now;
	connection->progress_outstanding = true;
	return post_message(connection, &message);
}

/* What is wrong with a payload that should be the pattern. Mutex held. */
static enum status check_pattern(struct connection *connection)
{
	const struct region *incoming = &connection->incoming;
	size_t offset = pattern_mismatch(incoming->memory, incoming->size);

	if (offset == incoming->size)
		return STATUS_SUCCESS;
	if (!connection->cause[0])
		snprintf(connection->cause, sizeof(connection->cause),
			 "the contents are wrong: byte %zu of %zu is not as in the pattern; do not "
			 "trust this path",
			 offset, incoming->size);
	return STATUS_CONTENTS_WRONG;
}

/* Shows what the peer handed over and compares it with the digest that came with MSG_DONE. */
static enum status check_payload(struct connection *connection)
{
	const struct region *incoming = &connection->incoming;
	enum status status = STATUS_SUCCESS;
	int64_t started = now_nanoseconds();

	if (!incoming->mr)
		return STATUS_SUCCESS;
	if (connection->protocol.verifying &&
	    digest_memory(incoming->memory, incoming->size) != connection->peer_digest)
		status = STATUS_CONTENTS_WRONG;
	if (connection->expects_pattern && check_pattern(connection) != STATUS_SUCCESS)
		status = STATUS_CONTENTS_WRONG;
	connection->figures.check_nanoseconds = now_nanoseconds() - started;
	show_payload(connection);
	return status;
}

/* ---- Connections: the session, in either thread, with the mutex held ---- */

/* Leaves actions to the main thread, which owns the connection. */
static void defer(struct connection *connection, unsigned int actions)
{
	if (!actions)
		return;
	connection->pending_actions |= actions;
	eventfd_write(connection->process->wake_descriptor, 1);
}

/* Says what happens now, and starts the clocks. */
static void begin_operation(struct connection *connection)
{
	connection_say(connection, "received MSG_MR. %s remote memory...",
		       connection->protocol.operation == OPERATION_WRITE ? "writing message to"
									 : "reading message from");
	connection->figures.started = now_nanoseconds();
	connection->figures.completed = connection->figures.started;
	connection->progress_sent = connection->figures.started / 1000000;
	prepare_requests(connection);
}

/* Posts what the state machine asks for. Mutex held. 0 or an errno value. */
static int post(struct connection *connection, unsigned int actions)
{
	struct message verdict = { .type = MSG_VERDICT, .value = connection->protocol.check };

	if (actions & ACTION_SEND_MR)
		return send_mr(connection);
	if (actions & ACTION_SEND_VERDICT)
		return post_message(connection, &verdict);
	if (actions & ACTION_POST_OPERATION)
		begin_operation(connection);
	if (actions & ACTION_SEND_DONE)
		connection->done_waits = true;
	if (actions & (ACTION_POST_OPERATION | ACTION_SEND_DONE))
		return continue_operation(connection);
	return 0;
}

uint64_t outstanding_sends(const struct connection *connection)
{
	return connection->requests_posted - connection->requests_completed +
	       connection->outstanding_messages;
}

/* Whether every work request has come back. */
static bool is_drained(const struct connection *connection)
{
	return !outstanding_sends(connection) && !connection->outstanding_receives;
}

/*
 * Does what the state machine asks for. Mutex held. True if that leads to another event at once,
 * which is then stored.
 */
static bool act(struct connection *connection, unsigned int actions, struct event *event)
{
	const struct protocol *protocol = &connection->protocol;

	defer(connection, actions & (ACTION_DISCONNECT | ACTION_FORCE_ERROR | ACTION_FINISH));
	if (post(connection, actions)) {
		*event = post_failure;
		return true;
	}
	if (actions & ACTION_CHECK) {
		event->type = EVENT_CHECKED;
		event->status = check_payload(connection);
		return true;
	}
	event->type = EVENT_DRAINED;
	return protocol->phase == PHASE_CLOSING && !protocol->drained && is_drained(connection);
}

/* How long the session may stand still from `now` on, in milliseconds. Mutex held. */
static void set_deadline(struct connection *connection, int64_t now)
{
	const struct protocol *protocol = &connection->protocol;
	int64_t timeout = (int64_t)connection->process->options->timeout_seconds * 1000;

	if (protocol->phase == PHASE_CLOSING && timeout > CLOSING_MILLISECONDS &&
	    (protocol->status != STATUS_SUCCESS || protocol->overdue || protocol->disconnected))
		timeout = CLOSING_MILLISECONDS;
	connection->deadline = now + timeout;
	connection->probe_time = now + PROBE_MILLISECONDS;
}

/* --busy-poll: from now on the completion thread looks for completions all the time. Mutex held. */
static void start_spinning(struct connection *connection)
{
	struct process *process = connection->process;

	if (!process->options->busy_poll)
		return;
	TAILQ_INSERT_TAIL(&process->spinners, connection, spinner);
	connection->spinning = true;
}

/* One event, and those that follow from it at once. Mutex held. */
static void process_event(struct connection *connection, struct event event)
{
	struct step step;

	do {
		struct protocol before = connection->protocol;

		step = protocol_step(before, event);
		connection->protocol = step.protocol;
		if (step.actions || before.phase != step.protocol.phase ||
		    before.local != step.protocol.local || before.remote != step.protocol.remote)
			connection_trace(connection, "%s: %s, %s, %s", event_name(event.type),
					 phase_name(step.protocol.phase),
					 local_progress_name(step.protocol.local),
					 remote_progress_name(step.protocol.remote));
		if (before.phase == PHASE_CONNECTING && step.protocol.phase == PHASE_EXCHANGING)
			start_spinning(connection);
		/* closing is bounded as a whole, and again when the peer has left or it is forced
		 */
		if (before.phase < PHASE_CLOSING || before.overdue != step.protocol.overdue ||
		    before.disconnected != step.protocol.disconnected)
			set_deadline(connection, now_milliseconds());
	} while (act(connection, step.actions, &event));
}

void connection_handle(struct connection *connection, struct event event)
{
	lock_sessions(connection->process);
	process_event(connection, event);
	pthread_mutex_unlock(&connection->process->mutex);
}

/* Keeps the first failure in words, and ends the session. Mutex held. */
__attribute__((format(printf, 3, 0))) static void fail_with(struct connection *connection,
							    enum status status, const char *format,
							    va_list arguments)
{
	struct event event = { .type = EVENT_FAILED, .status = status };

	if (!connection->cause[0] && is_reason(&connection->protocol, status))
		vsnprintf(connection->cause, sizeof(connection->cause), format, arguments);
	process_event(connection, event);
}

/* connection_fail() for the code that holds the mutex. */
__attribute__((format(printf, 3, 4))) static void fail_locked(struct connection *connection,
							      enum status status,
							      const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fail_with(connection, status, format, arguments);
	va_end(arguments);
}

enum status connection_fail(struct connection *connection, enum status status, const char *format,
			    ...)
{
	va_list arguments;

	va_start(arguments, format);
	lock_sessions(connection->process);
	fail_with(connection, status, format, arguments);
	pthread_mutex_unlock(&connection->process->mutex);
	va_end(arguments);
	return status;
}

/* The peer's operation moves: wait on, if it does so indeed. */
static void handle_progress(struct connection *connection, unsigned int slot, uint64_t done)
{
	const struct protocol *protocol = &connection->protocol;

	if (protocol->phase >= PHASE_CLOSING)
		return;
	if (!protocol->verifying || protocol->remote != REMOTE_MR ||
	    done <= connection->peer_progress) {
		fail_locked(connection, STATUS_CONTENTS_WRONG,
			    "the peer reports progress that cannot be: %" PRIu64 " after %" PRIu64,
			    done, connection->peer_progress);
		return;
	}
	connection->peer_progress = done;
	set_deadline(connection, now_milliseconds());
	if (post_receive(connection, slot))
		process_event(connection, post_failure);
}

/* A message has arrived in `slot`: `size` bytes. */
static void handle_message(struct connection *connection, unsigned int slot, uint32_t size)
{
	struct event event = { .status = STATUS_SUCCESS };
	struct message message;

	if (slot >= RECEIVES ||
	    !decode_message(connection->control.memory + (size_t)slot * SLOT_SIZE, size,
			    &message)) {
		fail_locked(connection, STATUS_CONTENTS_WRONG,
			    "the peer sent %" PRIu32 " bytes that are no message of this protocol",
			    size);
		return;
	}
	connection_trace(connection, "received %s", message_name(message.type));
	switch (message.type) {
	case MSG_MR:
		if (connection->protocol.operates &&
		    !region_is_usable(&message, operation_length(connection))) {
			fail_locked(connection, STATUS_CONTENTS_WRONG,
				    "the peer announced a memory region of %" PRIu64 " bytes that "
				    "cannot be used: %" PRIu64 " were agreed",
				    message.length, operation_length(connection));
			return;
		}
		if (connection->protocol.remote == REMOTE_SILENT)
			connection->peer_region = message;
		event.type = EVENT_MR_RECEIVED;
		break;
	case MSG_DONE:
		if (connection->protocol.remote == REMOTE_MR)
			connection->peer_digest = message.value;
		event.type = EVENT_DONE_RECEIVED;
		break;
	case MSG_VERDICT:
		if (message.value != STATUS_SUCCESS)
			event.status = STATUS_CONTENTS_WRONG;
		event.type = EVENT_VERDICT_RECEIVED;
		break;
	case MSG_PROGRESS:
		handle_progress(connection, slot, message.value);
		return;
	}
	process_event(connection, event);
}

/* Measures the operation: the work request of this `number` was done at `now`, in nanoseconds. */
static void measure(struct connection *connection, uint64_t number, int64_t now)
{
	struct figures *figures = &connection->figures;

	if (number % connection->parts != 0)
		return;
	if (figures->latency)
		latency_count(figures->latency, now - figures->completed);
	figures->completed = now;
}

/* Work requests of the operation are done, up to this `number`. */
static void handle_operation(struct connection *connection, uint64_t number)
{
	struct event event = { .type = EVENT_OPERATION_COMPLETED };
	int64_t now = now_nanoseconds();
	bool goes_on = number < connection->requests && connection->protocol.phase < PHASE_CLOSING;
	/* first: all the rest is done while the wire is busy */
	int error = goes_on ? continue_operation(connection) : 0;

	measure(connection, number, now);
	if (number == connection->requests) {
		connection_say(connection, "send completed successfully.");
		process_event(connection, event);
	} else if (goes_on) {
		set_deadline(connection, now / 1000000);
		if (error || send_progress(connection, now / 1000000))
			process_event(connection, post_failure);
	}
}

/* A message of ours has been sent. Verdict and progress are not narrated. */
static void handle_sent(struct connection *connection, enum message_type type)
{
	static const enum event_type events[] = {
		[MSG_MR] = EVENT_MR_SENT,
		[MSG_DONE] = EVENT_DONE_SENT,
		[MSG_VERDICT] = EVENT_VERDICT_SENT,
	};
	struct event event = { .status = STATUS_SUCCESS };

	if (type == MSG_PROGRESS) {
		connection->progress_outstanding = false;
		return;
	}
	event.type = events[type];
	if (type != MSG_VERDICT)
		connection_say(connection, "send completed successfully.");
	process_event(connection, event);
}

static const char *work_name(uint64_t wr_id, enum operation operation)
{
	switch (work_of(wr_id)) {
	case WORK_RECEIVE:
		return "receive";
	case WORK_OPERATION:
		return operation == OPERATION_WRITE ? "RDMA WRITE" : "RDMA READ";
	case WORK_PROBE:
		return "probe";
	default:
		return message_name((enum message_type)(wr_id & WORK_MASK));
	}
}

/* Whose failure a completion's status is (ibv_poll_cq(3)). */
static enum status completion_status(const struct ibv_wc *completion)
{
	switch (completion->status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return STATUS_REFUSED;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return STATUS_PEER_LOST;
	case IBV_WC_LOC_LEN_ERR:   /* a message larger than any of this protocol... */
	case IBV_WC_LOC_QP_OP_ERR: /* ...and what Soft-RoCE makes of it */
		return work_of(completion->wr_id) == WORK_RECEIVE ? STATUS_CONTENTS_WRONG
								  : STATUS_LOCAL_FAILURE;
	default:
		return STATUS_LOCAL_FAILURE;
	}
}

/* Of a failed completion only wr_id, status, qp_num and vendor_err mean anything. */
static void handle_failed_completion(struct connection *connection, const struct ibv_wc *completion)
{
	const char *name = work_name(completion->wr_id, connection->protocol.operation);
	bool receive = work_of(completion->wr_id) == WORK_RECEIVE;

	if (!receive) /* of receives there are too many */
		connection_trace(connection, "%s: %s", name, ibv_wc_status_str(completion->status));
	if (completion->status == IBV_WC_WR_FLUSH_ERR ||
	    /* the receive buffers of a program that is killed go before its queue pair */
	    completion->status == IBV_WC_REM_OP_ERR ||
	    /* how soft-iWARP says that the TCP connection has broken */
	    (connection->iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR && !receive)) {
		process_event(connection, connection_goes_down);
	} else {
		fail_locked(connection, completion_status(completion),
			    "%s failed: %s (status %d, vendor error 0x%" PRIx32 ")", name,
			    ibv_wc_status_str(completion->status), completion->status,
			    completion->vendor_err);
	}
}

/*
 * Whether a MSG_DONE that failed counts as sent. The tutorial's program leaves as soon as it has
 * it, and soft-iWARP in Linux calls what it has sent failed when the connection is closed right
 * behind it. Over iWARP a completion tells no more than that TCP has the message, anyway.
 */
static bool counts_as_sent(const struct connection *connection, const struct ibv_wc *completion)
{
	const struct protocol *protocol = &connection->protocol;

	return connection->iwarp && completion->status == IBV_WC_LOC_QP_OP_ERR &&
	       completion->wr_id == make_wr_id(WORK_MESSAGE, MSG_DONE) && !protocol->verifying &&
	       protocol->local == LOCAL_DONE_POSTED && protocol->remote == REMOTE_DONE;
}

/* One work request, or several of the operation, are back. */
static void count_completion(struct connection *connection, const struct ibv_wc *completion)
{
	switch (work_of(completion->wr_id)) {
	case WORK_RECEIVE:
		connection->outstanding_receives--;
		break;
	case WORK_OPERATION: /* in order: all before it are back as well */
		connection->requests_completed = completion->wr_id & WORK_MASK;
		break;
	default:
		connection->outstanding_messages--;
	}
}

static void handle_completion(struct connection *connection, const struct ibv_wc *completion)
{
	uint64_t detail = completion->wr_id & WORK_MASK;

	count_completion(connection, completion);
	if (completion->status != IBV_WC_SUCCESS && !counts_as_sent(connection, completion)) {
		handle_failed_completion(connection, completion);
		return;
	}
	switch (work_of(completion->wr_id)) {
	case WORK_RECEIVE:
		handle_message(connection, (unsigned int)detail, completion->byte_len);
		break;
	case WORK_MESSAGE:
		handle_sent(connection, (enum message_type)detail);
		break;
	case WORK_OPERATION:
		handle_operation(connection, detail);
		break;
	case WORK_PROBE: /* the path and the adapter work; the deadline is for the program there */
		break;
	}
}

/* Handles what is on the completion queue. Mutex held. Whether there was anything. */
static bool poll_completions(struct connection *connection)
{
	struct ibv_wc completions[POLL_SIZE];
	int count = ibv_poll_cq(connection->cq, POLL_SIZE, completions);

	for (int i = 0; i < count; i++)
		handle_completion(connection, &completions[i]);
	if (count < 0)
		fail_locked(connection, STATUS_LOCAL_FAILURE, "ibv_poll_cq failed");
	return count > 0;
}

/* Handles all that is on the completion queue, and asks to be told of more. Mutex held. */
static void handle_completions(struct connection *connection)
{
	/* before polling: what completes later makes a new event (ibv_get_cq_event(3)) */
	int error = ibv_req_notify_cq(connection->cq, 0);

	if (error)
		fail_locked(connection, STATUS_LOCAL_FAILURE, "ibv_req_notify_cq failed: %s",
			    strerror(error));
	while (poll_completions(connection))
		;
}

/* --busy-poll: looks for completions again and again; false if no session wants that. */
static bool spin(struct process *process)
{
	struct connection *connection;
	unsigned int rounds;
	bool any;

	if (!process->options->busy_poll)
		return false;
	while (atomic_load(&process->mutex_wanted))
		sched_yield();
	pthread_mutex_lock(&process->mutex);
	any = !TAILQ_EMPTY(&process->spinners);
	for (rounds = any ? SPINS : 0; rounds && !atomic_load(&process->mutex_wanted); rounds--) {
		TAILQ_FOREACH (connection, &process->spinners, spinner)
			poll_completions(connection);
	}
	pthread_mutex_unlock(&process->mutex);
	return any;
}

/* ---- Connections: what the main thread does ---- */

static const char device_removed[] = "the RDMA device was removed; look for it with 'rdma link'";

/*
 * The connection does not come to be. If it stands already, nothing has happened to it: Linux since
 * 6.0 tells a RoCE client UNREACHABLE when its host loses the peer's MAC address, be it for a
 * moment. Whether the peer can be reached is for the transport's retries and the deadline to tell.
 */
static void connecting_failed(struct connection *connection, const struct cm_event *event)
{
	lock_sessions(connection->process);
	if (connection->protocol.phase == PHASE_CONNECTING)
		fail_locked(connection,
			    event->status == -ETIMEDOUT ? STATUS_TIMED_OUT : STATUS_PEER_LOST,
			    "cannot connect: %s, status %d (%s); is the peer up, and the network "
			    "between?",
			    rdma_event_str(event->type), event->status,
			    event->status < 0 ? strerror(-event->status) : "of the transport");
	pthread_mutex_unlock(&connection->process->mutex);
}

void connection_cm_event(struct connection *connection, const struct cm_event *event)
{
	struct event disconnected = { .type = EVENT_DISCONNECTED };

	connection_trace(connection, "%s, status %d", rdma_event_str(event->type), event->status);
	switch (event->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
		connection_handle(connection, disconnected);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		connection->device_removed = true;
		connection_fail(connection, STATUS_LOCAL_FAILURE, "%s", device_removed);
		break;
	case RDMA_CM_EVENT_REJECTED: /* a server sees this when the client took its request back */
		connection_fail(connection, STATUS_PEER_LOST, "%s",
				default_cause(STATUS_PEER_LOST));
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		connecting_failed(connection, event);
		break;
	default: /* TIMEWAIT_EXIT and the like: nothing to do, and nothing waits for them */
		break;
	}
}

/* Lets every posted work request come back with a flush. */
static void force_error(struct connection *connection)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	int error;

	if (!connection->id->qp)
		return;
	error = ibv_modify_qp(connection->id->qp, &attributes, IBV_QP_STATE);
	connection_trace(connection, "ibv_modify_qp to the error state: %s", strerror(error));
}

/*
 * Ends the connection, whoever began that: after the peer has disconnected, too, some providers
 * flush the receives only when this side does so as well.
 */
static void disconnect(struct connection *connection, bool connected)
{
	if (connected && !rdma_disconnect(connection->id)) {
		connection_trace(connection, "rdma_disconnect");
		return;
	}
	force_error(connection);
}

/*
 * Whether a probe would be in the way. It is when the peer may have left: over InfiniBand and RoCE
 * that is once its last message is here; over iWARP it may leave as soon as it has ours, while TCP
 * is still sending its own again, and a probe that finds nobody there would break the connection
 * under it. And over iWARP a server is silent until its client has sent (RFC 5044, section 7.1.2):
 * if its reply to the connect request was lost and comes along with a probe, the client gives up.
 */
static bool probe_disturbs(const struct connection *connection)
{
	const struct protocol *protocol = &connection->protocol;
	bool all_sent =
		protocol->local >= (protocol->verifying ? LOCAL_VERDICT_SENT : LOCAL_DONE_SENT);
	bool too_early = connection->iwarp && protocol->role == ROLE_SERVER &&
			 protocol->remote == REMOTE_SILENT;

	return too_early || (all_sent && (connection->iwarp || protocol->remote == REMOTE_VERDICT));
}

/*
 * A WRITE of nothing, which needs no key and which the peer's program does not see. Over InfiniBand
 * and RoCE the peer's adapter answers: if the host is gone it fails, after the transport's own
 * retries, where waiting for a message would tell nothing. Over iWARP it tells less, but soft-iWARP
 * in Linux needs it: what a client sends just when its connect request is answered may be
 * overlooked there until more arrives. Mutex held.
 *
 * Not a READ of nothing: Soft-RoCE in Linux 6.1 looks for its key when it is repeated, and breaks
 * the connection, and so does soft-iWARP under load.
 */
static void probe(struct connection *connection)
{
	struct ibv_send_wr request = {
		.wr_id = make_wr_id(WORK_PROBE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	connection->probe_time = now_milliseconds() + PROBE_MILLISECONDS;
	if (outstanding_sends(connection) || probe_disturbs(connection))
		return;
	connection_trace(connection, "ibv_post_send: probe");
	if (post_send(connection, &request))
		process_event(connection, post_failure);
}

/* Keeps what was received, once the session has succeeded. */
static enum status store_output(struct connection *connection, enum status status)
{
	const char *name = connection->process->options->output;
	const struct region *incoming = &connection->incoming;

	if (status != STATUS_SUCCESS || !name || !incoming->size ||
	    !output_store(name, incoming->memory, incoming->size))
		return status;
	snprintf(connection->cause, sizeof(connection->cause),
		 "all is received and verified, but cannot be stored in '%s': %s", name,
		 strerror(errno));
	return STATUS_LOCAL_FAILURE;
}

/* A connection can be seen to go before its reason is told: the removal of the device here. */
static enum status explain_loss(struct connection *connection, enum status status)
{
	if (status != STATUS_PEER_LOST || !connection->device_removed)
		return status;
	snprintf(connection->cause, sizeof(connection->cause), "%s", device_removed);
	return STATUS_LOCAL_FAILURE;
}

bool connection_service(struct connection *connection, enum status *status)
{
	struct event overdue = { .type = EVENT_DEADLINE };
	unsigned int actions;
	bool connected, finished;

	lock_sessions(connection->process);
	if (connection->device && connection->device->broken &&
	    connection->protocol.phase < PHASE_CLOSING)
		fail_locked(connection, STATUS_LOCAL_FAILURE,
			    "the RDMA device is gone; look for it with 'rdma link'");
	if (connection->protocol.phase < PHASE_FINISHED &&
	    now_milliseconds() >= connection->deadline)
		process_event(connection, overdue);
	if (connection->protocol.phase == PHASE_EXCHANGING &&
	    now_milliseconds() >= connection->probe_time)
		probe(connection);
	if (connection->protocol.phase == PHASE_EXCHANGING)
		show_progress(connection); /* probe_time comes that often */
	actions = connection->pending_actions;
	connection->pending_actions = 0;
	connected = connection->protocol.connected;
	finished = connection->protocol.phase == PHASE_FINISHED;
	*status = connection->protocol.status;
	pthread_mutex_unlock(&connection->process->mutex);
	if (finished) {
		*status = store_output(connection, explain_loss(connection, *status));
		return true;
	}
	if (actions & ACTION_DISCONNECT)
		disconnect(connection, connected);
	if (actions & ACTION_FORCE_ERROR)
		force_error(connection);
	return false;
}

int64_t connection_deadline(struct connection *connection)
{
	int64_t deadline;

	lock_sessions(connection->process);
	deadline = connection->deadline;
	if (connection->protocol.phase == PHASE_EXCHANGING && connection->probe_time < deadline)
		deadline = connection->probe_time;
	pthread_mutex_unlock(&connection->process->mutex);
	return deadline;
}

void connection_extend_deadline(struct connection *connection)
{
	lock_sessions(connection->process);
	set_deadline(connection, now_milliseconds());
	pthread_mutex_unlock(&connection->process->mutex);
}

/*
 * The completion thread may hold an event of this completion queue, and ibv_destroy_cq(3) waits
 * until that is acknowledged. But some providers take the queue's memory away before they wait:
 * from now on it polls no more.
 */
static void retire(struct connection *connection)
{
	lock_sessions(connection->process);
	if (connection->spinning)
		TAILQ_REMOVE(&connection->process->spinners, connection, spinner);
	connection->retired = true;
	if (connection->cq)
		ibv_ack_cq_events(connection->cq, connection->events);
	connection->events = 0;
	pthread_mutex_unlock(&connection->process->mutex);
}

void connection_destroy(struct connection *connection)
{
	bool stranded; /* the completion queue lives on, and may yet name this connection */
	int error;

	if (!connection)
		return;
	retire(connection);
	if (connection->id->qp)
		rdma_destroy_qp(connection->id);
	error = connection->cq ? ibv_destroy_cq(connection->cq) : 0;
	stranded = error;
	if (error)
		warnx("cannot destroy a completion queue: %s", strerror(error));
	region_destroy(&connection->incoming);
	if (!region_destroy(&connection->outgoing))
		connection->process->payload.stays = true;
	region_destroy(&connection->control);
	error = connection->pd ? ibv_dealloc_pd(connection->pd) : 0;
	if (error)
		warnx("cannot free a protection domain: %s", strerror(error));
	if (rdma_destroy_id(connection->id))
		warn("cannot destroy a connection identifier");
	free(connection->figures.latency);
	if (!stranded)
		free(connection);
}
