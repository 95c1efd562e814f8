/* SPDX-License-Identifier: MIT */
/*
 * The process: signals, and what the main thread waits for: the connection manager, devices,
 * signals, and threads that have ended.
 *
 * Unless a function says otherwise it is the main thread's.
 */
#ifndef RDMA_COMMON_PROCESS_H
#define RDMA_COMMON_PROCESS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "status.h"
#include "wire.h"

/*
 * "Ending signals" are SIGINT, SIGTERM and, unless it is ignored as nohup(1) has it, SIGHUP: they
 * end sessions in good order. While they are not blocked they end the process at once: by their
 * default action, or in process 1 of a PID namespace, which has none, with status 128 + signal.
 */

struct process {
	struct console *console;  /* for warnings */
	char failure[CAUSE_SIZE]; /* what failed outside of a session, in words; empty: nothing has
				   */
	int signal_number;        /* the first ending signal that came; 0: none */
	struct rdma_event_channel *event_channel;
	struct ibv_context **devices; /* that were there at the start, by librdmacm */
	int signal_descriptor;        /* signalfd(2) that does not block: ending signals */
	int ended[2];                 /* pipe(2): process_report_ended() */
	int main_descriptor;          /* epoll(7): what the main thread waits for, */
	bool exhausted;               /* unless that has failed: then for ends alone */
};

/* A copy of a connection manager event: rdma_ack_cm_event(3) frees the original. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status; /* 0, a negative errno, or a transport's own reason for a rejection */
	/* After a good event of the kernel librdmacm calls the kernel or the driver. If that fails,
	 * it returns an error event with status -1 and this errno; 0: it did not fail. */
	int library_error;
	struct rdma_cm_id *id;
	/* In a connect request, its acceptance and its rejection, a hello: */
	uint8_t private_data[HELLO_SIZE];
	size_t private_data_size;
	uint8_t responder_resources; /* as the peer sent them: see reads_served() */
	uint8_t initiator_depth;
};

/* A copy of a device's asynchronous event. */
struct device_event {
	const char *device; /* its name; the device's. NULL: there is no event */
	enum ibv_event_type type;
	void *context; /* of the queue pair or completion queue that failed; NULL: neither did */
};

/* Reasons for which process_wait() returns. */
enum wakeup {
	WAKEUP_CM_EVENT,     /* it is stored */
	WAKEUP_DEVICE_EVENT, /* it is stored */
	WAKEUP_SIGNAL,       /* an ending signal: process->signal_number */
	WAKEUP_ENDED,        /* a thread has: what it reported is stored */
	WAKEUP_OTHER,        /* the deadline */
	WAKEUP_EXHAUSTED,    /* no more events can be had, but for ends; a message was printed */
};

/*
 * Takes the place of standard input, output and error where they are closed: no descriptor that is
 * opened may become one of them. Reading or writing there fails with EBADF. The first thing in
 * main().
 */
void occupy_standard_descriptors(void);

/*
 * Initialises `process`, which may then be closed. From now on an ending signal ends the process at
 * once, also where SIGINT or SIGTERM were ignored. `console` must outlive it.
 */
void process_init(struct process *process, struct console *console);

/*
 * Blocks the ending signals, opens the console, the event channel and every device. On failure a
 * message has been printed and recorded.
 */
enum status process_open(struct process *process);

/*
 * Frees everything, but the descriptor that process_report_ended() writes to if a thread
 * `may_report` yet. No connection and no id may be left.
 */
void process_close(struct process *process, bool may_report);

/* Prints as warnx(3) does what failed outside of a session, and records it; returns `status`. */
enum status process_fail(struct process *process, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* pthread_create(3) of a thread with a small stack: there may be thousands. Any thread. */
int start_thread(pthread_t *thread, void *(*routine)(void *), void *argument);

/*
 * What helps if too few open files may be the reason of an error of librdmacm, which hides that;
 * NULL: they are not. Static. Any thread.
 */
const char *descriptor_advice(int error);

/* Has a descriptor never block. 0 or -1 with errno. */
int make_nonblocking(int descriptor);

/*
 * Waits for this device's events from now on, too: it may have come after the start. Until
 * librdmacm closes the context. 0 or -1 with errno.
 */
int process_watch_device(struct process *process, struct ibv_context *verbs);

/*
 * Waits until there is something to do, of which the ends of threads come first, at most until
 * `deadline` (as now_milliseconds() counts, INT64_MAX: without limit).
 */
enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *cm_event,
			 struct device_event *device_event, void **ended);

/* A thread is about to end, and tells the main thread of `what`, any pointer. Any thread. */
void process_report_ended(struct process *process, void *what);

/*
 * rdma_connect(3), for `seconds` at most: over soft-iWARP in Linux it waits for the TCP connection
 * itself, which can take two minutes, and only a signal ends that. Ending signals end it too,
 * within a second if they come just before it waits, and the first one is left pending for
 * process_wait(). 0 or an errno value: ETIMEDOUT when the time was up, EINTR after such a signal.
 * SIGALRM is its own.
 */
int connect_within(struct rdma_cm_id *id, struct rdma_conn_param *parameters, unsigned int seconds);

/*
 * SIG_UNBLOCK: lets the ending signals end the process at once, as before process_open(), while the
 * main thread waits for what else would not wake up for them; SIG_BLOCK: no longer.
 */
void change_ending_signals(int how);

/*
 * Takes an ending signal, if one has come: then true, and the main thread does not block these
 * signals any more: another one, or raise(3), ends the process at once.
 */
bool process_take_signal(struct process *process);

/*
 * Return the number of processors that this thread, and the threads that it starts, may run on:
 * fewer than the machine has under taskset(1) or in a cpuset. At least 1. Any thread.
 */
unsigned int usable_processors(void);

#endif
