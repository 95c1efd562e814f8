// SPDX-License-Identifier: MIT
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* Signals that come as close together are one: timeout(1) sends each to the process and its group.
 */
#define SIGNAL_NANOSECONDS 100000000

/* With fewer open files allowed, a failure to open RDMA devices is put down to that. */
#define LOW_DESCRIPTOR_LIMIT 32

/* Bytes of a thread's stack. */
#define STACK_SIZE ((size_t)256 << 10)

/* ---- Descriptors that were closed at the start ---- */

void occupy_standard_descriptors(void)
{
	for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
		/* it gets the lowest free number, and can be used for nothing */
		int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", flags) < 0)
			return;
	}
}

/* ---- Threads ---- */

int start_thread(pthread_t *thread, void *(*routine)(void *), void *argument)
{
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	pthread_attr_setstacksize(&attributes, STACK_SIZE); /* the usual size does as well */
	error = pthread_create(thread, &attributes, routine, argument);
	pthread_attr_destroy(&attributes);
	return error;
}

/* ---- Failures outside of a session ---- */

enum status process_fail(struct process *process, enum status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(process->failure, sizeof(process->failure), format, arguments);
	va_end(arguments);
	print_warning(process->console, "%s", process->failure);
	return status;
}

/* ---- Descriptors and devices ---- */

/* Lets `epoll` report that `descriptor` can be read, as `subject`; 0 or -1 with errno. */
static int epoll_add(int epoll, int descriptor, void *subject)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = subject };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

int make_nonblocking(int descriptor)
{
	int flags = fcntl(descriptor, F_GETFL);

	return flags < 0 ? -1 : fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

int process_watch_device(struct process *process, struct ibv_context *verbs)
{
	if (make_nonblocking(verbs->async_fd))
		return -1;
	return epoll_add(process->main_descriptor, verbs->async_fd, verbs) && errno != EEXIST ? -1
											      : 0;
}

/* Those that end a session in good order; nohup(1) lets SIGHUP be ignored, and so it stays. */
static sigset_t ending_signals(void)
{
	struct sigaction hangup;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	return signals;
}

/* One at a time: so one is the first. */
static void set_handler(const sigset_t *signals, void (*handler)(int))
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM };
	struct sigaction action = { .sa_handler = handler };

	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (sigismember(signals, all[i]) == 1)
			sigaction(all[i], &action, NULL);
	}
}

/*
 * End process 1 of a PID namespace, as a container has it, with the status that a shell shows for
 * the signal. This stands in for the default action, which the kernel denies to process 1
 * (pid_namespaces(7)). Async-signal-safe.
 */
static void exit_by_signal(int signal_number)
{
	_exit(128 + signal_number);
}

/* Have these signals end the process at once, where they are not blocked. */
static void end_at_once(const sigset_t *signals)
{
	set_handler(signals, getpid() == 1 ? exit_by_signal : SIG_DFL);
}

/*
 * Signals become readable on a descriptor, in all threads; a closed pipe and a file beyond the
 * limit of 'ulimit -f' become errors.
 */
static int open_signals(struct process *process)
{
	sigset_t signals = ending_signals();

	sigaddset(&signals, SIGALRM); /* connect_within() unblocks it */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
	    sigprocmask(SIG_BLOCK, &signals, NULL))
		return -1;
	signals = ending_signals();
	process->signal_descriptor = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return process->signal_descriptor < 0 ? -1 : 0;
}

/* Each session has some: as many as this process may open. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit); /* else with fewer */
}

/* Opens the descriptors that the main thread waits on. */
static enum status open_descriptors(struct process *process)
{
	raise_descriptor_limit();
	process->main_descriptor = epoll_create1(EPOLL_CLOEXEC);
	if (open_signals(process) || process->main_descriptor < 0 ||
	    pipe2(process->ended, O_CLOEXEC) || make_nonblocking(process->ended[0]) ||
	    epoll_add(process->main_descriptor, process->signal_descriptor,
		      &process->signal_descriptor) ||
	    epoll_add(process->main_descriptor, process->ended[0], process->ended))
		return process_fail(process, STATUS_LOCAL_FAILURE,
				    "cannot open the descriptors that the main thread waits on: %s "
				    "(see 'ulimit -n')",
				    strerror(errno));
	return STATUS_SUCCESS;
}

const char *descriptor_advice(int error)
{
	struct rlimit limit;
	bool few = !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < LOW_DESCRIPTOR_LIMIT;

	if (!few && error != EMFILE && error != ENFILE)
		return NULL;
	return "more open files have to be allowed: raise the limit ('ulimit -n')";
}

/* Explains what to do when librdmacm does not start. */
static enum status explain_missing_rdma(struct process *process, const char *attempted)
{
	int error = errno;
	const char *advice = descriptor_advice(error);
	bool is_local = error == ENOMEM || advice;

	if (!advice)
		advice = error == EACCES || error == EPERM
				 ? "may this user open the files in /dev/infiniband?"
				 : "is there an RDMA device ('rdma link'), and the module rdma_ucm "
				   "loaded?";
	return process_fail(process, is_local ? STATUS_LOCAL_FAILURE : STATUS_UNRESOLVED,
			    "%s: %s; %s", attempted, strerror(error), advice);
}

/* Opens every device that there is, so that its events are reported. */
static enum status open_devices(struct process *process)
{
	enum status status = STATUS_SUCCESS;
	struct ibv_context **devices;
	int count = 0;

	devices = rdma_get_devices(&count);
	process->devices = devices;
	if (!devices)
		return explain_missing_rdma(process, "cannot list the RDMA devices");
	if (count == 0) {
		errno = ENODEV;
		status = explain_missing_rdma(process, "cannot find an RDMA device");
	}
	for (int i = 0; i < count && status == STATUS_SUCCESS; i++) {
		if (process_watch_device(process, devices[i]))
			status = process_fail(
				process, STATUS_LOCAL_FAILURE, "cannot use RDMA device %s: %s",
				ibv_get_device_name(devices[i]->device), strerror(errno));
	}
	return status;
}

/* Once signals are blocked, and the standard descriptors taken. */
static enum status open_console(struct process *process)
{
	int error = console_open(process->console, STDOUT_FILENO, STDERR_FILENO);

	if (!error)
		return STATUS_SUCCESS;
	return process_fail(process, STATUS_LOCAL_FAILURE,
			    "cannot start the thread that writes the output: %s", strerror(error));
}

static enum status open_event_channel(struct process *process)
{
	process->event_channel = rdma_create_event_channel();
	if (!process->event_channel)
		return explain_missing_rdma(process, "cannot open the RDMA connection manager");
	if (make_nonblocking(process->event_channel->fd) ||
	    epoll_add(process->main_descriptor, process->event_channel->fd, process->event_channel))
		return process_fail(process, STATUS_LOCAL_FAILURE,
				    "cannot wait for connection manager events: %s",
				    strerror(errno));
	return STATUS_SUCCESS;
}

void process_init(struct process *process, struct console *console)
{
	const sigset_t signals = ending_signals();

	memset(process, 0, sizeof(*process));
	process->console = console;
	process->signal_descriptor = -1;
	process->ended[0] = -1;
	process->ended[1] = -1;
	process->main_descriptor = -1;
	/* sh(1) has what it starts by '&' ignore SIGINT; of nohup(1) see ending_signals() */
	end_at_once(&signals);
}

enum status process_open(struct process *process)
{
	enum status status;

	status = open_descriptors(process);
	if (status == STATUS_SUCCESS)
		status = open_console(process);
	if (status == STATUS_SUCCESS)
		status = open_event_channel(process);
	if (status == STATUS_SUCCESS)
		status = open_devices(process);
	return status;
}

static void close_descriptor(int descriptor)
{
	if (descriptor >= 0)
		close(descriptor);
}

void process_close(struct process *process, bool may_report)
{
	if (process->devices)
		rdma_free_devices(process->devices);
	if (process->event_channel)
		rdma_destroy_event_channel(process->event_channel);
	close_descriptor(process->signal_descriptor);
	close_descriptor(process->ended[0]);
	if (!may_report)
		close_descriptor(process->ended[1]);
	close_descriptor(process->main_descriptor);
}

/* ---- What the main thread waits for ---- */

/* Takes one event off the channel, acknowledges it and keeps what is needed of it. */
static enum wakeup take_cm_event(struct process *process, struct cm_event *copy)
{
	const struct rdma_conn_param *parameters;
	struct rdma_cm_event *event;

	errno = 0;
	if (rdma_get_cm_event(process->event_channel, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return WAKEUP_OTHER;
		print_warning(process->console, "cannot get an event of the connection manager: %s",
			      strerror(errno));
		epoll_ctl(process->main_descriptor, EPOLL_CTL_DEL, process->event_channel->fd,
			  NULL);
		return WAKEUP_EXHAUSTED;
	}
	memset(copy, 0, sizeof(*copy));
	/* which may be what a verb has returned, and so negative */
	copy->library_error = event->status == -1 ? abs(errno) : 0;
	copy->type = event->event;
	copy->status = event->status;
	copy->id = event->id;
	parameters = &event->param.conn;
	if (parameters->private_data) {
		copy->private_data_size = parameters->private_data_len < HELLO_SIZE
						  ? parameters->private_data_len
						  : HELLO_SIZE;
		memcpy(copy->private_data, parameters->private_data, copy->private_data_size);
	}
	copy->responder_resources = parameters->responder_resources;
	copy->initiator_depth = parameters->initiator_depth;
	rdma_ack_cm_event(event);
	return WAKEUP_CM_EVENT;
}

/* The same of a device's event. */
static enum wakeup take_device_event(struct process *process, struct ibv_context *verbs,
				     struct device_event *copy)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(verbs, &event)) {
		if (errno != EAGAIN && errno != EINTR) /* it was removed */
			epoll_ctl(process->main_descriptor, EPOLL_CTL_DEL, verbs->async_fd, NULL);
		return WAKEUP_OTHER;
	}
	copy->device = ibv_get_device_name(verbs->device);
	copy->type = event.event_type;
	copy->context = NULL;
	switch (event.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		copy->context = event.element.qp->qp_context;
		break;
	case IBV_EVENT_CQ_ERR:
		copy->context = event.element.cq->cq_context;
		break;
	default: /* of the rest the connection manager or a completion reports what matters */
		break;
	}
	/* first: destroying what the event is about waits for this (ibv_get_async_event(3)) */
	ibv_ack_async_event(&event);
	return WAKEUP_DEVICE_EVENT;
}

void process_report_ended(struct process *process, void *what)
{
	/* a pipe takes so few bytes as a whole (pipe(7)), and the main thread empties it */
	while (write(process->ended[1], &what, sizeof(what)) < 0 && errno == EINTR)
		;
}

enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *cm_event,
			 struct device_event *device_event, void **ended)
{
	struct pollfd ends = { .fd = process->ended[0], .events = POLLIN };
	int milliseconds = milliseconds_until(deadline);
	struct epoll_event ready;
	int count = process->exhausted
			    ? poll(&ends, 1, milliseconds)
			    : epoll_wait(process->main_descriptor, &ready, 1, milliseconds);
	int error = count < 0 ? errno : 0;

	/* first: what has ended leaves room for who comes, and is told whatever fails */
	if (read(process->ended[0], ended, sizeof(*ended)) == sizeof(*ended))
		return WAKEUP_ENDED;
	if (count == 0 || error == EINTR || process->exhausted)
		return WAKEUP_OTHER;
	if (error) {
		print_warning(process->console, "cannot wait for events: %s", strerror(error));
		process->exhausted = true;
		return WAKEUP_EXHAUSTED;
	}
	if (ready.data.ptr == process->event_channel)
		return take_cm_event(process, cm_event);
	if (ready.data.ptr == &process->signal_descriptor)
		return process_take_signal(process) ? WAKEUP_SIGNAL : WAKEUP_OTHER;
	if (ready.data.ptr == process->ended) /* by now it is there, or it was taken before */
		return WAKEUP_OTHER;
	return take_device_event(process, ready.data.ptr, device_event);
}

/* ---- Signals ---- */

void change_ending_signals(int how)
{
	const sigset_t signals = ending_signals();

	pthread_sigmask(how, &signals, NULL);
}

/*
 * The first of the ending signals that came while rdma_connect(3) might sleep; 0: none did. A
 * handler can reach nothing else.
 */
static volatile sig_atomic_t interruption;

/*
 * What comes just before rdma_connect(3) sleeps does not end its sleep. So another signal follows,
 * a second later, and another one to that, until connect_within() asks for no more.
 */
static void interrupt_connecting(int signal_number)
{
	if (signal_number != SIGALRM && !interruption)
		interruption = signal_number;
	alarm(1);
}

int connect_within(struct rdma_cm_id *id, struct rdma_conn_param *parameters, unsigned int seconds)
{
	const sigset_t ending = ending_signals();
	sigset_t signals = ending, before;
	int error;

	sigaddset(&signals, SIGALRM);
	interruption = 0;
	set_handler(&signals, interrupt_connecting);
	alarm(seconds);
	pthread_sigmask(SIG_UNBLOCK, &signals, &before);
	error = rdma_connect(id, parameters) ? errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	alarm(0);
	if (interruption)
		raise(interruption);
	end_at_once(&ending);
	signal(SIGALRM, SIG_IGN); /* one that is pending is not the next call's */
	return error == EINTR && !interruption ? ETIMEDOUT : error;
}

bool process_take_signal(struct process *process)
{
	const struct timespec pause = { .tv_nsec = SIGNAL_NANOSECONDS };
	struct signalfd_siginfo information, same;
	int descriptor = process->signal_descriptor;

	if (read(descriptor, &information, sizeof(information)) != sizeof(information))
		return false;
	nanosleep(&pause, NULL);
	while (read(descriptor, &same, sizeof(same)) == sizeof(same))
		;
	process->signal_number = (int)information.ssi_signo;
	change_ending_signals(SIG_UNBLOCK);
	return true;
}

unsigned int usable_processors(void)
{
	/* room for 65,536: the kernel rejects a set that is shorter than its own with EINVAL */
	cpu_set_t processors[64];
	int count = 0;

	if (!sched_getaffinity(0, sizeof(processors), processors))
		count = CPU_COUNT_S(sizeof(processors), processors);
	return count > 0 ? (unsigned int)count : 1;
}
