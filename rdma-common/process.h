/* SPDX-License-Identifier: MIT */
/*
 * The process: its signals, and the main thread's wait for signals, connection manager and device
 * events, and ends of threads.
 *
 * Threads: the main thread, unless a function says otherwise.
 */
#ifndef RDMA_COMMON_PROCESS_H
#define RDMA_COMMON_PROCESS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "status.h"
#include "sysfs.h"
#include "wire.h"

/*
 * "Ending signals" are SIGINT, SIGTERM and, unless it is ignored (nohup(1)), SIGHUP. While blocked,
 * they end the sessions in an orderly way. While unblocked, they end the process at once by their
 * default action, except in connect_with_timeout(). Process 1 of a PID namespace has no default
 * action, so it ends with status 128 + signal.
 */

/* Maximum number of devices for reserve_siw_offset(). */
#define MAX_RESERVED 8

struct process {
	struct console *console;  /* for warnings */
	char failure[CAUSE_SIZE]; /* reason of a failure outside of a session, or empty */
	int signal_number;        /* the first ending signal. 0 before it arrives. */
	struct rdma_event_channel *event_channel;
	/* rdma_get_cm_event(3) has failed for lack of memory since the latest event */
	bool memory_short;
	int channel_error; /* errno value of the failed event channel. 0 while it works. */
	struct ibv_context **devices; /* the devices at the start, opened by librdmacm */
	/* completion queues of reserve_siw_offset(), or NULL */
	struct ibv_cq *reserved[MAX_RESERVED];
	int signal_descriptor; /* signalfd(2) for ending signals, non-blocking */
	int ended[2];          /* pipe(2) of process_notify_exit() */
	int main_descriptor;   /* epoll(7) of the main thread */
};

/* A copy of a connection manager event: rdma_ack_cm_event(3) frees the original. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status; /* 0, a negative errno value, or a code of the transport (enum rejection) */
	/*
	 * If a call of librdmacm to the kernel or the driver fails, librdmacm returns an error
	 * event. This is the errno value of that failure. It is 0 in any other event.
	 */
	int library_error;
	struct rdma_cm_id *id;
	/* The hello, in a connect request, its acceptance or its rejection: */
	uint8_t private_data[HELLO_SIZE];
	size_t private_data_size;
	/* As the driver reports them (reads_served()): */
	uint8_t responder_resources;
	uint8_t initiator_depth;
};

/* A copy of a device's asynchronous event. */
struct device_event {
	struct device_name device; /* empty if there is no event */
	enum ibv_event_type type;
	void *context; /* context of the queue pair or completion queue that failed, or NULL */
};

/* The message if the event channel fails. Its argument is the text of strerror(3). */
#define CHANNEL_FAILED "cannot get an event of the connection manager: %s"

/* Reasons why process_wait() returns. */
enum wakeup {
	WAKEUP_CM_EVENT,     /* `cm_event` is stored */
	WAKEUP_DEVICE_EVENT, /* `device_event` is stored */
	WAKEUP_SIGNAL,       /* an ending signal: process->signal_number */
	WAKEUP_ENDED,        /* a thread is ending: its argument is stored in `ended` */
	WAKEUP_OTHER,        /* nothing to handle; the deadline may have passed */
	WAKEUP_EXHAUSTED,    /* no more connection manager events; a message was printed */
};

/*
 * Open /dev/null in place of a closed standard input, output or error, so that no descriptor opened
 * later takes its number. Reading from it or writing to it still fails with EBADF. Call this first
 * in main().
 */
void reserve_std_fds(void);

/*
 * Initialize `process`, so that process_close() may follow. From now on an ending signal ends the
 * process at once, even if SIGINT or SIGTERM were ignored. `console` must outlive `process`.
 */
void process_init(struct process *process, struct console *console);

/*
 * Block the ending signals, ignore SIGPIPE and SIGXFSZ, and raise the limit of open files. Then
 * open the console, the event channel and every device. On failure, print and record the reason.
 */
enum status process_open(struct process *process);

/*
 * Free the list of devices, and close the descriptors. No rdma_cm_id may be left. `may_report` is
 * true if a thread may still call process_notify_exit(). Its pipe then stays open for writing.
 */
void process_close(struct process *process, bool may_report);

/* Print and record a failure outside of a session. Return `status`. */
enum status process_fail(struct process *process, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Return advice if the limit of open files may have caused `error`, otherwise NULL. librdmacm hides
 * the original errno value, so a low limit may have caused any error. The string is static. Any
 * thread.
 */
const char *descriptor_advice(int error);

/* Describe `error`. For EMFILE add descriptor_advice(). Any thread. */
struct strbuf descriptor_error(int error);

/* A file that this process cannot open. */
struct closed_file {
	char path[64];
	char owner[64]; /* the RDMA device of the file, or "the connection manager" */
	int error;      /* errno value, or 0 if no such file was found */
};

/*
 * Find a file in /dev/infiniband that is missing or cannot be opened. Try the file of `device`. If
 * `device` is NULL, try the files of all devices, then that of the connection manager. libibverbs
 * or librdmacm leaves out a device whose file cannot be opened.
 */
struct closed_file closed_file_find(const char *device);

/* Describe a file that closed_file_find() has found. */
struct strbuf closed_file_describe(const struct closed_file *file);

/* Make a descriptor non-blocking. Return 0, or -1 with errno. */
int make_nonblocking(int descriptor);

/*
 * Watch the events of a device until librdmacm closes its context. The device may be watched
 * already. Return 0, or -1 with errno.
 */
int process_watch_device(struct process *process, struct ibv_context *verbs);

/*
 * Wait for an event until `deadline`, a time of now_milliseconds(). INT64_MAX means no limit. Ends
 * of threads are returned first.
 */
enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *cm_event,
			 struct device_event *device_event, void **ended);

/*
 * Report to the main thread that this thread is ending. process_wait() returns `what`, which may be
 * NULL, in `ended`. Any thread.
 */
void process_notify_exit(struct process *process, void *what);

/*
 * Call rdma_connect(3) with a limit of `seconds`, at least 1. Over soft-iWARP, Linux waits for the
 * TCP connection in that call for up to two minutes, and only a signal interrupts it: SIGALRM at
 * the limit, an ending signal at once. The first ending signal stays pending for process_wait().
 *
 * Return 0 or an errno value: ETIMEDOUT after the limit, EINTR after an ending signal.
 */
int connect_with_timeout(struct rdma_cm_id *id, struct rdma_conn_param *parameters,
			 unsigned int seconds);

/*
 * Call `function`, with the number of the signal, before an ending signal ends the process at once.
 * It must be async-signal-safe (signal-safety(7)).
 */
void process_before_end(void (*function)(int signal_number));

/* Let the ending signals end the process at once, for a call that they cannot interrupt. */
void unblock_ending_signals(void);

/* Block the ending signals again after such a call. */
void block_ending_signals(void);

/*
 * If an ending signal is pending, store it in process->signal_number, drop those of the next 0.1 s,
 * unblock the ending signals, and return true. Another ending signal, or raise(3), then ends the
 * process at once.
 */
bool process_take_signal(struct process *process);

/*
 * Return the number of processors, at least 1, on which this thread may run, as limited by
 * taskset(1) or a cpuset. Any thread.
 */
unsigned int usable_processors(void);

#endif
