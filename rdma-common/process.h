/* SPDX-License-Identifier: MIT */
/*
 * The process: the clock, signals, the descriptors that its two threads wait on, and
 * the RDMA devices.
 *
 * Unless a function says otherwise it is the main thread's.
 */
#ifndef RDMA_COMMON_PROCESS_H
#define RDMA_COMMON_PROCESS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "console.h"
#include "options.h"
#include "status.h"
#include "wire.h"

/*
 * An RDMA device that connections use, and the channel that reports its completion events. One that
 * is removed and comes back is another device: librdmacm opens it anew.
 */
struct device {
	struct ibv_context *verbs; /* librdmacm's; it opens and closes devices */
	struct ibv_context *
		*lease; /* keeps librdmacm from closing it; NULL: process->devices_open does */
	struct ibv_comp_channel *completion_channel;
	unsigned int connections; /* that use it; the main thread's */
	atomic_bool broken;       /* it reports no completion event any more */
	SLIST_ENTRY(device) link;
};

/*
 * "Ending signals" are SIGINT, SIGTERM and, unless it is ignored as nohup(1) has it, SIGHUP: they
 * end sessions in good order.
 */

/* With fewer open files allowed than this, a failure to open RDMA devices is put down to it. */
#define LOW_DESCRIPTOR_LIMIT 32

struct process {
	const struct options *options;
	struct console *console; /* for warnings */
	struct failure failure;  /* what failed outside of a session; for --json */
	int signal_number;       /* the first ending signal that came; 0: none */
	struct rdma_event_channel *event_channel;
	SLIST_HEAD(device_list, device) devices;
	struct ibv_context **devices_open; /* those that were there at the start, by librdmacm */
	int signal_descriptor;             /* signalfd(2): ending signals */
	int wake_descriptor;               /* eventfd(2): the main thread has work */
	int stop_descriptor;               /* eventfd(2): the completion thread shall return */
	int main_descriptor;               /* epoll(7): what the main thread waits for */
	int completion_descriptor;         /* epoll(7): what the completion thread waits for */
	atomic_bool exhausted;             /* the completion thread cannot wait any more */
	atomic_bool device_lost; /* a device is broken, which the main thread has not seen yet */
};

/* Bytes that are kept of a connection manager event's private data: a hello. */
#define PRIVATE_DATA_KEPT HELLO_SIZE

/* A copy of a connection manager event: rdma_ack_cm_event(3) frees the original. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status; /* 0, a negative errno, or a transport's own reason for a rejection */
	struct rdma_cm_id *id;
	/* In a connect request, its acceptance and its rejection: */
	uint8_t private_data[PRIVATE_DATA_KEPT];
	size_t private_data_size;
	uint8_t responder_resources; /* as the peer sent them: see reads_served() */
	uint8_t initiator_depth;
};

/* A copy of a device's asynchronous event. */
struct device_event {
	const char *device; /* its name; the device's */
	enum ibv_event_type type;
	void *context; /* of the queue pair or completion queue that failed; NULL: neither did */
};

/* Reasons for which process_wait() returns. */
enum wakeup {
	WAKEUP_CM_EVENT,     /* it is stored */
	WAKEUP_DEVICE_EVENT, /* it is stored */
	WAKEUP_SIGNAL,       /* an ending signal: process->signal_number */
	WAKEUP_OTHER,        /* the deadline, or process_wake() */
	WAKEUP_EXHAUSTED,    /* one of the threads cannot wait any more; a message was printed */
};

/* Reasons for which process_wait_channel() returns. */
enum channel_wakeup {
	CHANNEL_READY, /* a device has a completion event */
	CHANNEL_QUIET, /* none has, for as long as was to be waited */
	CHANNEL_STOP,  /* the thread shall return; a message was printed if it has to */
};

/*
 * Takes the place of standard input, output and error where they are closed: no descriptor that is
 * opened may become one of them. Reading or writing there fails with EBADF. The first thing in
 * main().
 */
void occupy_standard_descriptors(void);

/* The monotonic clock. Any thread. */
int64_t now_nanoseconds(void);
int64_t now_milliseconds(void);

/* Initialises `process`, which may then be closed. `options` and `console` must outlive it. */
void process_init(struct process *process, const struct options *options, struct console *console);

/*
 * Blocks the ending signals, opens the console, the event channel and every device. On failure a
 * message has been printed and recorded.
 */
enum status process_open(struct process *process);

/* Frees everything. No connection, no id and no completion thread may be left. */
void process_close(struct process *process);

/* Prints as warnx(3) does what failed outside of a session, and records it; returns `status`. */
enum status process_fail(struct process *process, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The device with this context, for one connection more. NULL with errno. Once all that the
 * connection has created of the device is destroyed, but before its id is, the device is released:
 * one that is broken goes with its last connection.
 */
struct device *process_use_device(struct process *process, struct ibv_context *verbs);
void process_release_device(struct process *process, struct device *device);

/*
 * Waits until there is something to do, at most until `deadline` (as now_milliseconds() counts,
 * INT64_MAX: without limit).
 */
enum wakeup process_wait(struct process *process, int64_t deadline, struct cm_event *cm_event,
			 struct device_event *device_event);

/* Lets process_wait() return. Any thread. */
void process_wake(struct process *process);

/*
 * Waits, at most `milliseconds` (-1: without limit), until a device's completion channel has an
 * event; that device is stored. The completion thread's.
 */
enum channel_wakeup process_wait_channel(struct process *process, int milliseconds,
					 struct device **device);

/*
 * The device's channel failed: waits for it no more and wakes the main thread, which may free the
 * device then. If epoll_ctl(2) fails the channel is reported, and this is called, again. The
 * completion thread's.
 */
void process_lose_device(struct process *process, struct device *device);

/* Lets process_wait_channel() return CHANNEL_STOP. */
void process_stop_channels(struct process *process);

/*
 * rdma_connect(3), for `seconds` at most: over soft-iWARP in Linux it waits for the TCP connection
 * itself, which can take two minutes, and only a signal ends that. Ending signals end it too,
 * within a second if they come just before it waits, and the first one is left pending for
 * process_wait(). 0 or an errno value: ETIMEDOUT when the time was up, EINTR after such a signal.
 * SIGALRM is its own.
 */
int connect_within(struct rdma_cm_id *id, struct rdma_conn_param *parameters, unsigned int seconds);

/*
 * Lets the ending signals end the process at once, as before process_open(), while the main thread
 * waits for what else would not wake up for them; and what `before` says again.
 */
void signals_unblock(sigset_t *before);
void signals_restore(const sigset_t *before);

/* A signalfd(2) that does not block, for the ending signals, which are blocked; -1 with errno. */
int open_signal_descriptor(void);

/*
 * Takes a signal off such a descriptor; 0: there is none. From then on the main thread does not
 * block these signals any more: another one ends the process at once.
 */
int take_signal_number(int descriptor);

/* Ends the process as `signal_number` does when nobody handles it, so that a shell sees it. */
void end_by_signal(int signal_number);

#endif
