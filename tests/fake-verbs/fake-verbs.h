/* SPDX-License-Identifier: MIT */
/*
 * A fake of libibverbs and librdmacm. One process contains the program under test, an adapter and a
 * scripted peer. It ends with status 99 when the program breaks a rule of the real libraries.
 *
 * Time is simulated. Each event outside of the program (a completion, an event of the connection
 * manager, ...) is a "stimulus". Stimuli wait in a queue; one is delivered whenever all threads of
 * the program wait in epoll_wait(2) or poll(2) and none of them has an event to handle. If no
 * stimulus is due, the clock jumps to the next stimulus or deadline. While threads run, each event
 * that a thread handles takes a millisecond, and the clock waits for the slowest thread. So a run
 * is repeatable and takes almost no real time. If the program hangs nevertheless, SIGKILL ends it
 * after FAKE_VERBS_SECONDS of real time (default: REAL_SECONDS).
 *
 * The environment variable FAKE_VERBS holds the script: tests/README.md, "The script of the fake
 * library", lists all its words.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "../../rdma-common/transfer.h"
#include "../../rdma-common/wire.h"

#define REAL_SECONDS 120
#define NAME_SIZE    48
#define UNUSED       __attribute__((unused))

/*
 * Declare a function that the linker redirects (--wrap): the program calls __wrap_FUNCTION, and
 * the fake calls __real_FUNCTION.
 */
#define REDIRECTED(function) extern __typeof__(function) __real_##function, __wrap_##function

/* ---- world.c: the script, the clock, the faults ---- */

/*
 * Take or release the only lock of the fake. It is not a mutex, so that a race detector ignores it.
 */
void lock(void);
void unlock(void);
/* Report the violated rule and the function, and end the process. */
#define violation(...) report_violation(__func__, __VA_ARGS__)
_Noreturn void report_violation(const char *where, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define forbid(condition, ...)                  \
	do {                                    \
		if (condition)                  \
			violation(__VA_ARGS__); \
	} while (0)

/* Take the lock and count the call. Return 0, or the errno value with which the call must fail. */
int enter(const char *function);
/* Release the lock. Return 0, or -1 with errno set to `error`. */
int leave(int error);
/*
 * Release the lock. Return `error` (0: success), negated if the script says `negative`. If it says
 * `minus-one`, return as leave() does.
 */
int leave_with(int error);
/*
 * Take the lock, count the call, and return true. If the call must fail, release the lock, set
 * errno, and return false.
 */
bool begin(const char *function);
/* Return true if the script has made a call fail: the program may then leave objects behind. */
bool fault_happened(void);

/* Allocate zeroed memory, or end the process. */
void *allocate(size_t size);
/*
 * Allocate zeroed memory that is never freed and that a race detector does not watch. The lock is
 * held.
 */
void *keep(size_t size);
/* Copy or fill memory like an adapter: unnoticed by a race detector. */
void copy_bytes(void *target, const void *source, size_t size);
void fill_bytes(void *target, int value, size_t size);
/*
 * Open, close or increment a counting eventfd(2): a channel of either library, or the counter that
 * wakes a waiting thread.
 */
int open_counter(void);
void close_counter(int descriptor);
void raise_counter(int descriptor);
/*
 * Decrement the counter, and return true. If it is 0, return false with EAGAIN, or report a
 * violation if the descriptor blocks.
 */
bool lower_counter(int descriptor);

/* Return true if the script has this word, without a value. */
bool scripted(const char *word);
/* Return the number of WORD:NUMBER in the script, or `otherwise`. */
unsigned int scripted_number(const char *word, unsigned int otherwise);
/* Return the text of WORD:TEXT in the script, or NULL. */
const char *scripted_text(const char *word);
/*
 * Use the first order left with this name and, after the name, this symbol. An order N*NAME can be
 * used N times, any other once. Return the order's argument, or NULL if no order is left.
 */
const char *take_order(const char *name, char symbol);

/* The common part of each object that a program creates. */
struct object {
	const char *kind;
	unsigned int users; /* number of objects that need this one */
	SLIST_ENTRY(object) link;
};

void object_add(struct object *object, const char *kind);
/*
 * Remove the object, and return 0. If users are left, return EBUSY after an injected failure, else
 * report a violation.
 */
int object_remove(struct object *object);

/* An event that will happen to the program. */
struct stimulus {
	const char *name; /* a static string */
	int64_t due;
	void (*deliver)(struct stimulus *stimulus);
	const void *sequence; /* stimuli of one sequence stay in order. It may be NULL. */
	struct fake_id *id;
	struct fake_qp *qp;
	struct work *work;
	int code;          /* a status, an event type or a signal */
	uint64_t position; /* number of requests that the peer posted before this was queued */
	uint64_t request;  /* number of the peer's work request that completes */
	uint32_t size;
	uint8_t bytes[256]; /* a message, or private data */
	bool delivered;
	TAILQ_ENTRY(stimulus) link;
};

struct stimulus *new_stimulus(const char *name, void (*deliver)(struct stimulus *));
void produce(struct stimulus *stimulus);
/* Queue a new stimulus for a queue pair (or NULL). `code`: see struct stimulus. */
void queue_stimulus(const char *name, void (*deliver)(struct stimulus *), struct fake_qp *qp,
		    int code);
/* Deliver all waiting stimuli of a sequence now, even those that the script delays. */
void deliver_sequence(const void *sequence);
/* Discard the waiting stimuli for `id`, or for `qp`. */
void discard_stimuli(const struct fake_id *id, const struct fake_qp *qp);
int64_t simulated_milliseconds(void);
/* Wait in simulated time until the descriptor is readable. */
void wait_for_descriptor(int descriptor);
/*
 * Simulate a sleep until a signal. `early` (0: none) arrives before the sleep, `late` (0: SIGALRM)
 * ends it. The lock is held on entry and released meanwhile.
 */
void sleep_until_signal(int early, int late);

/* ---- verbs.c: the adapter ---- */

struct fake_pd {
	struct ibv_pd pd;
	struct object object;
	bool session_complete; /* a session succeeded: all access flags of its regions must have
				  been needed */
};

struct fake_mr {
	struct ibv_mr mr;
	struct object object;
	unsigned int access, needed;
	unsigned int posted; /* number of work requests that use it */
	SLIST_ENTRY(fake_mr) link;
};

/* A work request, from its posting until its completion is polled. */
struct work {
	uint64_t wr_id;
	bool receive;
	bool executed; /* it was executed, or its stimulus is queued */
	bool stuck;    /* it never completes */
	bool complete; /* it has completed, signaled or not */
	bool landed;   /* WRITE: the bytes have reached the peer */
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint64_t remote_address;
	uint32_t rkey, length;
	uint8_t *buffer;    /* NULL for a keepalive */
	struct fake_mr *mr; /* the region of the buffer */
	struct ibv_wc completion;
	struct fake_qp *qp;
	TAILQ_ENTRY(work) link;            /* in its send or receive queue */
	TAILQ_ENTRY(work) completion_link; /* in its completion queue */
	TAILQ_ENTRY(work) landing_link;    /* among the WRITEs in flight */
};

TAILQ_HEAD(work_queue, work);

struct fake_cq {
	struct ibv_cq cq;
	struct object object;
	struct work_queue completions;
	unsigned int posted; /* number of work requests whose completions were not polled */
	bool armed, polled_since_armed, polled;
	unsigned int empty_polls; /* number of empty polls since its thread last called poll(2) */
	bool spun;                /* its thread polls without sleeping: see spins_on() */
	unsigned int events;      /* events in the channel */
	unsigned int taken;       /* events fetched but not acknowledged */
	bool notified;            /* an event was fetched at least once */
	SLIST_ENTRY(fake_cq) link;
};

struct fake_qp {
	struct ibv_qp qp;
	struct object object;
	struct fake_id *id;
	struct ibv_qp_cap cap;
	struct work_queue sends, receives, landing;
	unsigned int send_count, receive_count;
	unsigned int read_depth; /* maximum number of outstanding READs, agreed by both sides */
	bool has_received;       /* a message has arrived */
	bool broken;             /* a request failed or the connection ended: the rest is flushed */
	bool deaf;               /* a receive failed: no more messages arrive */
	bool closing;            /* the program ended the connection: it may post nothing more */
	unsigned int unread;     /* device events fetched but not acknowledged */
};

/* Return the current context of the device. */
struct ibv_context *adapter(void);
bool device_is_away(void);
/*
 * Deliver a stimulus: remove the device, bring it back, cause a completion event without a
 * completion, or report a device event.
 */
void deliver_leaving(struct stimulus *stimulus);
void deliver_return(struct stimulus *stimulus);
void deliver_spurious(struct stimulus *stimulus);
void deliver_device_event(struct stimulus *stimulus);
/* Add or remove a user of a context of the device; release_context() ignores NULL. */
void use_context(struct ibv_context *context);
void release_context(struct ibv_context *context);
/* Close the unused contexts of removed devices, as librdmacm does when it looks for devices. */
void synchronize_devices(void);
bool is_iwarp(void);
/* Store the GID of this host's address, 192.0.2.2. */
void local_gid(union ibv_gid *gid);
struct fake_mr *mr_of_rkey(const struct fake_qp *qp, uint32_t rkey, uint64_t address,
			   uint64_t length);
/* Move the queue pair to the error state, and flush the requests that were not executed. */
void break_qp(struct fake_qp *qp);
/* Return the MTU of the port (enum ibv_mtu). */
uint32_t port_mtu(void);
/* Return the values that the device reports as max_qp_rd_atom and max_qp_init_rd_atom. */
uint32_t stated_reads(void);
uint32_t stated_own_reads(void);
/* Return true if the device's queues can hold both numbers of work requests in `cap`. */
bool holds_requests(const struct ibv_qp_cap *cap);
struct fake_qp *create_fake_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
void destroy_fake_qp(struct fake_qp *qp);
/* Queue a message from the peer for the next receive. */
void message_arrives(struct fake_qp *qp, const char *name, const uint8_t *bytes, uint32_t size);
/*
 * Return true if the thread that calls poll(2) for this channel spins: `timeout` is 0, and the
 * completion queue was empty in many polls since the last call. The lock is held.
 */
bool spins_on(int channel, int timeout);
/*
 * Check that a later completion will wake the waiting program. A thread that spins needs no
 * wake-up.
 */
void check_notification(void);

/* ---- scripted-peer.c and lies.c: the program on the other side ---- */

#define PEER_DEPTH 16 /* maximum number of outstanding work requests of the peer */

/*
 * The program's latest message, except MSG_WINDOW. The program must send these in this order, but a
 * bad verdict needs no MSG_DONE.
 */
enum received {
	RECEIVED_NOTHING,
	RECEIVED_MR,
	RECEIVED_DONE,
	RECEIVED_VERDICT
};

/* The moment at which the peer lies. */
enum moment {
	MOMENT_BEFORE_MR,     /* just before MSG_MR */
	MOMENT_REGIONS_KNOWN, /* both MSG_MRs are sent, and the peer has moved no payload */
	MOMENT_BEFORE_DONE    /* the peer's operation is complete */
};

/* The scripted peer. The lock is held in each call of its functions. */
struct peer {
	struct fake_id *id;
	struct transfer transfer;
	uint8_t *outgoing; /* one pass of the payload */
	uint64_t outgoing_length;
	uint32_t wanted, wanted_seconds; /* from the hello of a --check client */
	uint8_t *source, *sink;          /* the rings */
	uint8_t *incoming;               /* bytes copied out of the sink */
	uint64_t incoming_size;
	uint64_t region_address; /* address of the program's region */
	uint32_t region_rkey;
	struct transfer_run requests[PEER_DEPTH]; /* request n has index n modulo PEER_DEPTH */
	uint64_t posted, landed;
	uint64_t accessed; /* position that the program's operation has reached */
	uint64_t known_produced, known_consumed; /* the peer's positions that the program knows */
	struct window reported;                  /* the window that the peer last sent */
	uint64_t windows_received;               /* windows received from the program */
	uint64_t digest, done_bytes;             /* from the program's MSG_DONE */
	int64_t stores_at;                       /* time before which the peer stores nothing */
	int64_t clock; /* time of the peer's next step without an event, or 0 */
	enum received received;
	bool mr_sent, done_sent, done_delivered, verdict_sent, good, may_count;
	bool verdict_delivered, program_is_content;
	/* after a lie or a bad verdict, the program's windows and operation are not checked */
	bool lied;
	unsigned int steps;  /* number of steps since MSG_MR, for gives-up:N */
	bool silent;         /* the peer sends nothing more */
	bool pumping, again; /* see pump() */
};

void peer_start(struct peer *peer, struct fake_id *id);
void peer_stop(struct peer *peer);
/*
 * Encode the peer's hello or, unless `refusal` is 0, its rejection. `passive`: the program is the
 * server. Return the size, or 0 if the peer has no hello.
 */
uint32_t peer_hello(const struct peer *peer, bool passive, unsigned int refusal, uint8_t *wire);
/*
 * Decode and check the program's hello, and plan the session. `passive`: the program is the server.
 */
void peer_reads_hello(struct peer *peer, bool passive, const uint8_t *wire, uint32_t size);
/* Check the reason for which the program, a server, rejects the peer. */
void peer_reads_rejection(const uint8_t *wire, uint32_t size);
/* Start the session that the program, a server, has accepted. */
void peer_established(struct peer *peer);
void peer_receives(struct peer *peer, const uint8_t *bytes, uint32_t size);
/* Write "!!!!" to the beginning of the program's region, if the peer may still write there. */
void peer_scribbles(const struct peer *peer);
/* Check an RDMA READ or WRITE of the program when it starts. */
void peer_is_asked(struct peer *peer, const struct work *work);
/* Copy the bytes of the program's READ or WRITE. */
void peer_is_accessed(const struct work *work);
/*
 * Let the WRITEs among the peer's first `posted` requests arrive, then record that the program
 * receives a message.
 */
void peer_delivers(struct peer *peer, const uint8_t *bytes, uint64_t posted);
unsigned int peers_served(void);

void peer_sends_message(struct peer *peer, const struct message *message);
void peer_sends_window(struct peer *peer, const struct window *window);
void peer_sends_done(struct peer *peer, uint64_t bytes);
void peer_sends_verdict(struct peer *peer, uint64_t status);
/* Wake the peer at `time`, unless a wake-up at this time or earlier is pending. */
void peer_wakes_at(struct peer *peer, int64_t time);
/* If this is the moment of the script's lie, send the lie, and return true. */
bool peer_lies(struct peer *peer, enum moment moment);

/* ---- cm.c: the connection manager ---- */

struct fake_id {
	struct rdma_cm_id id;
	struct object object;
	struct peer peer;
	bool passive, listening, family_only;
	struct ibv_sa_path_rec path; /* its traffic class: --tos or, if passive, tos:N */
	bool synchronous;            /* without a channel: calls wait until they are done */
	bool asked;                  /* a connect request or an acceptance was sent */
	bool leads_nowhere;          /* the destination is a loopback address, without a route */
	bool half_made;              /* client: the peer accepted, but the setup failed */
	bool peer_gone;              /* the peer disconnected */
	unsigned int taken;          /* events fetched but not acknowledged */
	int resolve_timeout;
	SLIST_ENTRY(fake_id) link;
};

/* Report the removal of the device to the ids that use this context. */
void remove_device_of_ids(const struct ibv_context *context);
void peer_disconnects(struct fake_id *id);
enum rdma_cm_event_type produce_cm_event(struct fake_id *id, const char *name, int status);
/*
 * Let another client connect to the server. Return false if no server listens, the device is away,
 * or no client is left.
 */
bool next_client(void);
struct fake_id *any_id(void);

#endif
