// SPDX-License-Identifier: MIT
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
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
#include "netlink.h"
#include "reasons.h"

/*
 * Nanoseconds within which signals count as one: timeout(1) sends one to the process and one to its
 * group.
 */
#define SIGNAL_NANOSECONDS 100000000

/* Milliseconds before the next attempt to get an event, if memory was short. */
#define MEMORY_PAUSE 10
/* owner of the file /dev/infiniband/rdma_cm (struct closed_file) */
#define CONNECTION_MANAGER "the connection manager"

/* descriptor_advice() regards a lower limit of open files as a possible cause of any error. */
#define LOW_DESCRIPTOR_LIMIT 32

/* ---- Standard descriptors ---- */

void reserve_std_fds(void)
{
	for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
		/* open(2) takes the lowest free number. The access mode makes any use fail. */
		int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", flags) < 0)
			return;
	}
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

/* Set `handler` for `signals`. All signals are blocked while the handler runs. */
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

/* The function of process_before_end(). It is static because a signal handler uses it. */
static void (*volatile before_end)(int signal_number);

/*
 * End the process by the signal. End process 1 of a PID namespace, such as a container's, with the
 * status that a shell shows for the signal: the kernel denies the default action to process 1
 * (pid_namespaces(7)). Async-signal-safe.
 */
static void end_by_signal(int signal_number)
{
	sigset_t signals;

	if (before_end)
		before_end(signal_number);
	if (getpid() == 1)
		_exit(128 + signal_number);
	sigemptyset(&signals);
	sigaddset(&signals, signal_number);
	set_handler(&signals, SIG_DFL);
	kill(getpid(), signal_number); /* the signal ends the process when this handler returns */
}

/* Let these signals end the process at once while they are not blocked. */
static void end_at_once(const sigset_t *signals)
{
	set_handler(signals, getpid() == 1 || before_end ? end_by_signal : SIG_DFL);
}

/*
 * Block the ending signals, and let a descriptor report them. Turn a closed pipe and a file beyond
 * 'ulimit -f' into errors of write(2). Return 0, or -1 with errno.
 */
static int open_signals(struct process *process)
{
	sigset_t signals = ending_signals();

	sigaddset(&signals, SIGALRM); /* connect_with_timeout() unblocks it */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
	    sigprocmask(SIG_BLOCK, &signals, NULL))
		return -1;
	signals = ending_signals();
	process->signal_descriptor = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return process->signal_descriptor < 0 ? -1 : 0;
}

/* Raise the soft limit of open files to the hard limit: each session opens several. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit); /* on failure, fewer sessions are possible */
}

static enum status open_descriptors(struct process *process)
{
	raise_descriptor_limit();
	if (!open_signals(process))
		process->main_descriptor = epoll_create1(EPOLL_CLOEXEC);
	if (process->main_descriptor < 0 || pipe2(process->ended, O_CLOEXEC) ||
	    make_nonblocking(process->ended[0]) ||
	    epoll_add(process->main_descriptor, process->signal_descriptor,
		      &process->signal_descriptor) ||
	    epoll_add(process->main_descriptor, process->ended[0], process->ended))
		return process_fail(process, STATUS_LOCAL_FAILURE,
				    "cannot open the descriptors for signals and events: %s",
				    descriptor_error(errno).text);
	return STATUS_SUCCESS;
}

const char *descriptor_advice(int error)
{
	struct rlimit limit;
	bool few = !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < LOW_DESCRIPTOR_LIMIT;

	if (!few && error != EMFILE && error != ENFILE)
		return NULL;
	return "raise the limit of open files ('ulimit -n')";
}

struct strbuf descriptor_error(int error)
{
	const char *advice = error == EMFILE ? descriptor_advice(error) : NULL;
	struct strbuf text = { 0 };

	strbuf_addf(&text, "%s%s%s", strerror(error), advice ? "; " : "", advice ? advice : "");
	return text;
}

/* Store the result of opening /dev/infiniband/`name` in `file`. Return true if it failed. */
static bool is_closed(struct closed_file *file, const char *name, const char *owner)
{
	int descriptor;

	snprintf(file->path, sizeof(file->path), "/dev/infiniband/%s", name);
	snprintf(file->owner, sizeof(file->owner), "%s", owner);
	descriptor = open(file->path, O_RDWR | O_CLOEXEC);
	file->error = descriptor < 0 ? errno : 0;
	if (descriptor >= 0)
		close(descriptor);
	return file->error;
}

struct closed_file closed_file_find(const char *device)
{
	struct closed_file file = { .error = 0 };
	bool found = false;
	glob_t all;

	if (glob("/sys/class/infiniband_verbs/uverbs*", 0, NULL, &all))
		all.gl_pathc = 0;
	for (size_t i = 0; i < all.gl_pathc && !found; i++) {
		struct sysfs_line owner = sysfs_read_line("%s/ibdev", all.gl_pathv[i]);

		if (!device || !strcmp(owner.text, device))
			found = is_closed(&file, strrchr(all.gl_pathv[i], '/') + 1, owner.text);
	}
	if (!found && !device)
		is_closed(&file, "rdma_cm", CONNECTION_MANAGER);
	globfree(&all);
	return file;
}

struct strbuf closed_file_describe(const struct closed_file *file)
{
	struct strbuf text = { 0 };

	strbuf_addf(&text, "cannot open %s of %s: %s", file->path, file->owner,
		    strerror(file->error));
	return text;
}

/* Return what to change if librdmacm failed with `error`. `closed` is from closed_file_find(). */
static const char *device_advice(int error, const struct closed_file *closed)
{
	const char *advice = descriptor_advice(error);
	glob_t devices;
	bool present = !glob("/sys/class/infiniband/*", 0, NULL, &devices);

	globfree(&devices);
	if (advice)
		return advice;
	if (access("/dev/infiniband", X_OK))
		return "/dev/infiniband does not exist, or this user may not open its files: load "
		       "the modules ib_uverbs and rdma_ucm, and check the folder's mode; give a "
		       "container the files of that folder ('--device'); without an adapter, create "
		       "a software device ('modprobe rdma_rxe', 'rdma link add rdma0 type rxe netdev "
		       "eth0')";
	if (closed->error && !strcmp(closed->owner, CONNECTION_MANAGER))
		return "/dev/infiniband/rdma_cm does not exist, or this user may not open it: load "
		       "the module rdma_ucm, and check the file's mode";
	return missing_device_advice(present, !closed->error, netlink_rdma_is_exclusive());
}

/*
 * Report, with advice, that `attempted` failed with errno. ENODEV means that librdmacm found no
 * device.
 */
static enum status explain_missing_rdma(struct process *process, const char *attempted)
{
	int error = errno;
	bool is_local = error == ENOMEM || descriptor_advice(error);
	struct closed_file file = closed_file_find(NULL);
	struct strbuf closed = { 0 };

	if (file.error && strcmp(file.owner, CONNECTION_MANAGER) != 0)
		strbuf_addf(&closed, "%s; ", closed_file_describe(&file).text);
	return process_fail(process, is_local ? STATUS_LOCAL_FAILURE : STATUS_UNRESOLVED,
			    "%s: %s; %s%s", attempted, strerror(error), closed.text,
			    device_advice(error, &file));
}

/* Open every device, to receive its events. */
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
			status =
				process_fail(process, STATUS_LOCAL_FAILURE,
					     "cannot wait for events of RDMA device %s: %s",
					     device_name(devices[i]->device).text, strerror(errno));
	}
	return status;
}

static enum status open_console(struct process *process)
{
	int error = console_open(process->console, STDOUT_FILENO, STDERR_FILENO);

	if (!error)
		return STATUS_SUCCESS;
	return process_fail(process, STATUS_LOCAL_FAILURE,
			    "cannot create the pipes and threads that write the output: %s",
			    descriptor_error(error).text);
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
	/* a command that sh(1) starts with '&' inherits an ignored SIGINT */
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
	for (int i = 0; i < MAX_RESERVED; i++) {
		if (process->reserved[i]) /* this fails if the device was removed */
			ibv_destroy_cq(process->reserved[i]);
	}
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

/* ---- Waiting for events ---- */

/*
 * Wait a moment for memory. The event stays in the channel. Warn only at the first failure of a
 * shortage. A signal ends the wait.
 */
static void pause_for_memory(struct process *process)
{
	struct pollfd signal = { .fd = process->signal_descriptor, .events = POLLIN };

	if (!process->memory_short)
		print_warning(process->console, CHANNEL_FAILED "; trying again", strerror(ENOMEM));
	process->memory_short = true;
	poll(&signal, 1, MEMORY_PAUSE);
}

/* Handle a failure of rdma_get_cm_event(3). Unless it may pass, stop watching the channel. */
static enum wakeup get_failed(struct process *process, int error)
{
	if (error == EAGAIN || error == EINTR)
		return WAKEUP_OTHER;
	if (error == ENOMEM) {
		pause_for_memory(process);
		return WAKEUP_OTHER;
	}
	print_warning(process->console, CHANNEL_FAILED, strerror(error));
	process->channel_error = error;
	epoll_ctl(process->main_descriptor, EPOLL_CTL_DEL, process->event_channel->fd, NULL);
	return WAKEUP_EXHAUSTED;
}

/*
 * Return the errno value of a failure inside librdmacm, or 0. `error` is errno after the event.
 *
 * Most failures give status -1 and set errno, which may be the negative result of a verb. If the
 * exchange of ECE options fails, CONNECT_ERROR has the positive result of a verb as its status
 * (ucma_process_conn_resp_ece() in librdmacm's cma.c). The kernel gives CONNECT_ERROR a negative
 * status.
 */
static int library_error(const struct rdma_cm_event *event, int error)
{
	if (event->status == -1)
		return abs(error);
	return event->event == RDMA_CM_EVENT_CONNECT_ERROR && event->status > 0 ? event->status : 0;
}

static enum wakeup take_cm_event(struct process *process, struct cm_event *copy)
{
	const struct rdma_conn_param *parameters;
	struct rdma_cm_event *event;
	int error;

	errno = 0;
	if (rdma_get_cm_event(process->event_channel, &event))
		return get_failed(process, errno);
	error = errno;
	memset(copy, 0, sizeof(*copy));
	copy->library_error = library_error(event, error);
	process->memory_short = false;
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

static enum wakeup take_device_event(struct process *process, struct ibv_context *verbs,
				     struct device_event *copy)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(verbs, &event)) {
		if (errno != EAGAIN && errno != EINTR) /* the device was removed */
			epoll_ctl(process->main_descriptor, EPOLL_CTL_DEL, verbs->async_fd, NULL);
		return WAKEUP_OTHER;
	}
	copy->device = device_name(verbs->device);
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
	default:
		/*
		 * Any other event that ends a session also causes a connection manager event or a
		 * completion.
		 */
		break;
	}
	/* acknowledge at once: destroying the object waits for this (ibv_get_async_event(3)) */
	ibv_ack_async_event(&event);
	return WAKEUP_DEVICE_EVENT;
}

void process_notify_exit(struct process *process, void *what)
{
	/* writes up to PIPE_BUF are atomic (pipe(7)), and the main thread empties the pipe */
	while (write(process->ended[1], &what, sizeof(what)) < 0 && errno == EINTR)
		;
}

enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *cm_event,
			 struct device_event *device_event, void **ended)
{
	struct epoll_event ready;
	int count = epoll_wait(process->main_descriptor, &ready, 1, milliseconds_until(deadline));

	/* check for an ended thread first: its session makes room for a client */
	if (read(process->ended[0], ended, sizeof(*ended)) == sizeof(*ended))
		return WAKEUP_ENDED;
	if (count <= 0) /* a valid call fails only with EINTR (epoll_wait(2)) */
		return WAKEUP_OTHER;
	if (ready.data.ptr == process->event_channel)
		return take_cm_event(process, cm_event);
	if (ready.data.ptr == &process->signal_descriptor)
		return process_take_signal(process) ? WAKEUP_SIGNAL : WAKEUP_OTHER;
	if (ready.data.ptr == process->ended) /* read(2) failed: try again */
		return WAKEUP_OTHER;
	return take_device_event(process, ready.data.ptr, device_event);
}

/* ---- Signals ---- */

void process_before_end(void (*function)(int signal_number))
{
	const sigset_t signals = ending_signals();

	before_end = function;
	end_at_once(&signals);
}

void unblock_ending_signals(void)
{
	const sigset_t signals = ending_signals();

	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void block_ending_signals(void)
{
	const sigset_t signals = ending_signals();

	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

/*
 * The first ending signal during rdma_connect(3), or 0. It is static because a signal handler uses
 * it.
 */
static volatile sig_atomic_t interruption;

/*
 * Record the first ending signal, and let SIGALRM arrive every second until connect_with_timeout()
 * stops the alarm. One signal is not enough: it may arrive just before rdma_connect(3) sleeps.
 */
static void interrupt_connecting(int signal_number)
{
	if (signal_number != SIGALRM && !interruption)
		interruption = signal_number;
	alarm(1);
}

int connect_with_timeout(struct rdma_cm_id *id, struct rdma_conn_param *parameters,
			 unsigned int seconds)
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
	signal(SIGALRM, SIG_IGN); /* drop a pending SIGALRM: it does not belong to the next call */
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
	unblock_ending_signals();
	return true;
}

unsigned int usable_processors(void)
{
	/* room for 65,536 processors: the kernel rejects a smaller set than its own with EINVAL */
	cpu_set_t processors[64];
	int count = 0;

	if (!sched_getaffinity(0, sizeof(processors), processors))
		count = CPU_COUNT_S(sizeof(processors), processors);
	return count > 0 ? (unsigned int)count : 1;
}
