/* SPDX-License-Identifier: MIT */
/*
 * A fake of libibverbs and librdmacm. One process holds the program under test, an adapter,
 * and a scripted peer; nothing else is needed. It breaks off with status 99 when the program breaks
 * a rule of the real libraries.
 *
 * Time is simulated. What happens outside of the program (a completion, an event of the connection
 * manager, ...) is a "stimulus". Stimuli wait in a queue; one is delivered whenever all threads of
 * the program wait in epoll_wait(2) for something that is not there. When there is no stimulus to
 * deliver, the clock jumps to the next deadline. While threads run, each thing that one of them
 * does takes a millisecond, and the clock waits for the slowest thread. So a run is repeatable, and
 * takes no time: if the program hangs all the same, SIGKILL ends it after FAKE_VERBS_SECONDS
 * (REAL_SECONDS).
 *
 * FAKE_VERBS_DEVICE is the device's folder in sysfs, with the counters of its ports; else none.
 * The environment variable FAKE_VERBS holds blank-separated words:
 *   iwarp write               the transport; the peer's operation
 *   tutorial no-hello         the peer has no hello; the program sends none, and so gets none
 *   one-way every-pass check check-short counts unknown version:N device:NAME
 *                             what else the peer's hello says: flags, that nobody knows where its
 *                             payload ends, another version, another device than peer0
 *   hello-size:N              the first N bytes of the peer's hello arrive (48)
 *   measures back             with check or check-short: a client measures, and the server sends
 *                             for seconds:N
 *   uncounted                 the program may not say how many errors it has counted; with counts
 *                             it has to
 *   clients:N together        how many clients come to a server; all at once
 *   payload:N passes:N        bytes that the peer sends; how often it performs its operation
 *   seconds:N                 for how long, with passes:0
 *   file:NAME same            where its bytes are; the program has to send the same
 *   ring:N request:N          bytes of the peer's rings; of its work requests
 *   late-source               the peer announces its ring before there is anything in it
 *   trickles:N                a pipe that the program reads gives a byte every N milliseconds
 *   stores:N                  the peer stores no more than N bytes in a quarter of a second
 *   DONE-first                the end of what the peer sends is in MSG_DONE, in no MSG_WINDOW
 *   memory:N unbound limited  RLIMIT_MEMLOCK, which the driver applies to every process, as siw
 *                             does; unbound: the driver does not; limited: the kernel applies it
 *                             to the program, which has no CAP_IPC_LOCK
 *   machine:N                 bytes of the machine's memory, of which a quarter may be registered
 *   processors:N              how many the program may use
 *   tos:N                     the type of service that a client asks for
 *   addresses:A,B,...         what any name is resolved to
 *   reads:N asks:N            how many READs the peer serves at a time (8), and has outstanding (4)
 *   max_msg:N max_wr:N max_cqe:N max_reads:N max_own_reads:N
 *                             what the device states as max_msg_sz, max_qp_wr, max_cqe,
 *                             max_qp_rd_atom, and max_qp_init_rd_atom (else max_reads), be it
 *                             nonsense
 *   no-cq no-device           no completion queue is to be had, and no reason; there is no device
 *   blocks:N enomem           a queue pair has N of the blocks that mlx5 counts in; a larger one
 *                             fails with EINVAL, or with ENOMEM
 *   inline:N                  most bytes that a work request carries in itself (64)
 *   corrupt-in corrupt-out    one byte is damaged on its way to, or from, the program
 *   scribble                  the peer writes on while a text is escaped, if it still may
 *   repeat-DONE               the peer sends MSG_DONE twice
 *   set:FIELD=VALUE           what the peer says in this field (peer/deviation.h)
 *   lie:NAME                  the peer sends what cannot be (lies.c), and then nothing
 *   gives-up:N                so it does, at its Nth step behind its MSG_MR, a MSG_VERDICT: of
 *                             what it could not do, unless set:verdict.status says something else
 *   refuse:N                  the server refuses, with this reason; 255: without a hello
 *   N*accept=busy             it refuses the first N clients, being busy
 *   refused:N                 the program has to refuse the client with this reason
 *   connect-signal:N          this signal interrupts rdma_connect(3), as over iWARP it can
 *   connect-early:N           this one comes before that sleeps, and ends nothing: that of
 *                             connect-signal does, or of alarm(2), which is 14
 *   coalesce immediate        deliver all that is due at once; deliver what is due without waiting
 *   slow-start                the thread of a session that begins beside others dawdles
 *   slow-events               the thread that takes completion events and acknowledges them dawdles
 *   lazy-flush                disconnecting flushes nothing, only the error state does
 *   until:N from:N ends:N     when it must have ended (ms), and not before; about then
 *   abandons                  it leaves what it created to the kernel, as after a failing call
 *   by-itself                 it ends without the SIGTERM that comes when nothing else will
 *   ports:N                   ports of the device, which all look alike
 *   mtu:N down                MTU of the port and the path (5, the most: 4096 bytes); no link
 *   peer-mtu:N strict-mtu     MTU of a client's port and path; rdma_accept(3) fails with EINVAL if
 *                             that is larger than the port's, as over hns
 *   library:N                 errno with an event of status -1, a failure of librdmacm's own (22);
 *                             0: the kernel's EPERM instead
 *   withdrawn withdrawn:N     the client takes its request back before rdma_create_qp(3), or
 *                             before rdma_accept(3): that fails with EINVAL, or with N, and
 *                             rdma_reject(3) with EINVAL
 *   roce-v1 no-gids           each of the GIDs is of that type, not of RoCE v2 as well; is zero
 *   elsewhere                 the device's network interface is in another network namespace, where
 *                             it has the number that "lo" has here
 *   fail:FUNCTION:N:ERRNO     the Nth call of the function fails; N+: all later ones, too; ENODATA
 *                             of pread: the file ends there
 *   negative minus-one        verbs that return an errno value return it negated, as libcxgb4's
 *                             do; return -1 and set errno, as libsiw's do
 *   no-bad-wr:N               a post that fails leaves bad_wr alone, and the adapter has the first
 *                             N requests of the list: all of them after libsiw's doorbell failed
 *   peer-left                 a post that fails does so because the peer has just left
 *   signal:FUNCTION:N:SIGNAL  this signal comes during the Nth call of the function
 * and orders, where X and Y are names of stimuli: sent-MR, sent-DONE, sent-VERDICT, sent-WINDOW,
 * the same that are received, operation, flush, peer-operation (one of the peer's completes),
 * an event like DISCONNECTED, or one of those that are behind X+:
 *   X>Y     X waits until Y has been delivered and handled
 *   X!      the first X never comes; pread!, statvfs!, fsync! or fdatasync!: nor does that call
 *           return
 *   X@N     the first X comes N milliseconds later
 *   X=N     the first X is a completion with status N
 *   X=E:N   instead of the first X comes the event E with status N; 3*X=E:N: of the first three
 *   X+E:N   right after the first X comes the event E with status N, or "spurious", a completion
 *           event without a completion; "signal:N", or without a number SIGTERM; "async:N", a
 *           device event; "leave" or "return", of the device. 2*X+E:N: after the second X, too
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

/* What the linker redirects (--wrap) to __wrap_ for the program; the fake calls __real_. */
#define REDIRECTED(function) extern __typeof__(function) __real_##function, __wrap_##function

/* ---- What world.c offers: the script, the clock, the faults ---- */

/* One lock for everything; no mutex: a race detector must not take it for the program's. */
void lock(void);
void unlock(void);
/* Says what rule was broken, and where, and ends the process. */
#define violation(...) report_violation(__func__, __VA_ARGS__)
_Noreturn void report_violation(const char *where, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, if the condition holds. */
#define forbid(condition, ...)                  \
	do {                                    \
		if (condition)                  \
			violation(__VA_ARGS__); \
	} while (0)

/* Takes the lock and counts the call: 0, or the errno with which it is to fail. */
int enter(const char *function);
/* Releases the lock; -1 with errno, or 0 if there is no error. */
int leave(int error);
/* The same, for a function that returns the errno. */
int leave_with(int error);
/* Takes the lock and counts the call; false, with errno and without the lock, if it is to fail. */
bool begin(const char *function);
/* True if a call has been made to fail: what it left behind is then not the program's fault. */
bool fault_happened(void);

/* Zeroed memory, or the end. */
void *allocate(size_t size);
/* Zeroed memory that stays. The lock is held. A race detector does not know it. */
void *keep(size_t size);
/* memcpy(3) and memset(3) that a race detector does not see: the adapter's, not a thread's. */
void copy_bytes(void *target, const void *source, size_t size);
void fill_bytes(void *target, int value, size_t size);
/* An eventfd(2) that counts: the descriptor of a channel of either library. */
int open_counter(void);
void close_counter(int descriptor);
void raise_counter(int descriptor);
/* Takes one off; false with errno EAGAIN if there is none. Blocking for ever is a violation. */
bool lower_counter(int descriptor);

/* Looks a word up in the script, and the number behind its colon. */
bool scripted(const char *word);
unsigned int scripted_number(const char *word, unsigned int otherwise);
/* What stands behind the colon of a word, or NULL. */
const char *scripted_text(const char *word);
/* Takes the order `symbol` about `name`, once: its argument, or NULL. */
const char *take_order(const char *name, char symbol);

/* The common part of everything that a program creates. */
struct object {
	const char *kind;
	unsigned int users; /* objects that need this one */
	SLIST_ENTRY(object) link;
};

void object_add(struct object *object, const char *kind);
/* The object may go: 0, or EBUSY if an injected failure is to blame for its users. */
int object_remove(struct object *object);

/* Something that is going to happen to the program. */
struct stimulus {
	const char *name; /* static */
	int64_t due;
	void (*deliver)(struct stimulus *stimulus);
	const void *sequence; /* those of one sequence stay in order; NULL: none */
	struct fake_id *id;
	struct fake_qp *qp;
	struct work *work;
	int code;          /* a status or a type of event */
	uint64_t position; /* how many work requests the peer has posted before */
	uint64_t request;  /* the number of the peer's work request that completes */
	uint32_t size;
	uint8_t bytes[256]; /* a message, or private data */
	bool delivered;
	TAILQ_ENTRY(stimulus) link;
};

struct stimulus *new_stimulus(const char *name, void (*deliver)(struct stimulus *));
void produce(struct stimulus *stimulus);
/* Both, of one that is about a queue pair, or NULL, and a number. */
void happen(const char *name, void (*deliver)(struct stimulus *), struct fake_qp *qp, int code);
/* Delivers everything of a sequence that waits, whatever the script says of it. */
void hurry(const void *sequence);
/* Forgets what would happen to `id`, or to `qp`. */
void forget(const struct fake_id *id, const struct fake_qp *qp);
int64_t simulated_milliseconds(void);
/* Waits in simulated time until the descriptor can be read. */
void wait_for_descriptor(int descriptor);
/* Sleeps until a signal ends that: `early` (0: none) comes before, then `late` (0: alarm's). The
 * lock is held, and released meanwhile. */
void sleep_until_signal(int early, int late);

/* ---- What verbs.c offers: the adapter ---- */

struct fake_pd {
	struct ibv_pd pd;
	struct object object;
	bool session_complete; /* so each access flag must have been needed */
};

struct fake_mr {
	struct ibv_mr mr;
	struct object object;
	unsigned int access, needed;
	unsigned int posted; /* work requests that use it */
	SLIST_ENTRY(fake_mr) link;
};

/* One work request, from posting until its completion has been polled. */
struct work {
	uint64_t wr_id;
	bool receive;
	bool executed; /* or about to be: it has a stimulus of its own */
	bool stuck;    /* never comes back */
	bool complete; /* in the completion queue */
	bool landed;   /* WRITE: the peer has the bytes */
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint64_t remote_address;
	uint32_t rkey, length;
	uint8_t *buffer;    /* a probe has none */
	struct fake_mr *mr; /* where that lies */
	struct ibv_wc completion;
	struct fake_qp *qp;
	TAILQ_ENTRY(work) link;            /* of its send or receive queue */
	TAILQ_ENTRY(work) completion_link; /* of its completion queue */
	TAILQ_ENTRY(work) landing_link;    /* of the WRITEs that are on their way */
};

TAILQ_HEAD(work_queue, work);

struct fake_cq {
	struct ibv_cq cq;
	struct object object;
	struct work_queue completions;
	unsigned int posted; /* work requests whose completions have not been taken */
	bool armed, polled_since_armed, polled;
	unsigned int empty_polls; /* since its thread last called poll(2) */
	bool spun;                /* its thread spins: see spins_on() */
	unsigned int events;      /* in the channel, not taken yet */
	unsigned int taken;       /* events taken, and not acknowledged */
	bool notified;            /* an event has ever been taken */
	SLIST_ENTRY(fake_cq) link;
};

struct fake_qp {
	struct ibv_qp qp;
	struct object object;
	struct fake_id *id;
	struct ibv_qp_cap cap;
	struct work_queue sends, receives, landing;
	unsigned int send_count, receive_count;
	unsigned int read_depth; /* reads outstanding at most, as both sides have agreed */
	bool has_received;       /* a message has arrived */
	bool broken;             /* a work request failed: the rest will be flushed */
	bool deaf;               /* a receive failed: no message arrives any more */
	bool closing;            /* by the program's own will: nothing more may be posted */
	unsigned int unread;     /* device events taken and not acknowledged */
};

/* The device's context, of its last return. */
struct ibv_context *adapter(void);
bool device_is_away(void);
/* Stimuli: the device goes, comes back; a completion event without a completion; a device event. */
void deliver_leaving(struct stimulus *stimulus);
void deliver_return(struct stimulus *stimulus);
void deliver_spurious(struct stimulus *stimulus);
void deliver_device_event(struct stimulus *stimulus);
/* Somebody uses a context of the device, or no longer does; NULL: nothing happens. */
void use_context(struct ibv_context *context);
void release_context(struct ibv_context *context);
/* Does what librdmacm does when it looks for devices: closes contexts of removed ones. */
void synchronize_devices(void);
bool is_iwarp(void);
/* The GID of this host's address, 192.0.2.2. */
void local_gid(union ibv_gid *gid);
struct fake_mr *mr_of_rkey(const struct fake_qp *qp, uint32_t rkey, uint64_t address,
			   uint64_t length);
/* Every work request of the queue pair that is not executed yet comes back with a flush. */
void break_qp(struct fake_qp *qp);
/* The MTU of the port: enum ibv_mtu. */
uint32_t port_mtu(void);
/* The device states these as max_qp_rd_atom and max_qp_init_rd_atom. */
uint32_t stated_reads(void);
uint32_t stated_own_reads(void);
/* True if the device's queues hold so many work requests, as it has stated. */
bool holds_requests(const struct ibv_qp_cap *cap);
struct fake_qp *create_fake_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
void destroy_fake_qp(struct fake_qp *qp);
/* A message from the peer, into the next receive. */
void message_arrives(struct fake_qp *qp, const char *name, const uint8_t *bytes, uint32_t size);
/* Return true if the thread that calls poll(2) for this channel spins: `timeout` is 0, and the
 * thread has polled the empty completion queue many times since its last call. The lock is held. */
bool spins_on(int channel, int timeout);
/* The program waits: whatever happens now must wake it. A thread that spins looks by itself. */
void check_notification(void);

/* ---- What scripted-peer.c and lies.c offer: the program on the other side ---- */

#define PEER_DEPTH 16 /* work requests that the peer has outstanding */

/* What the program has sent, of what it has to send in this order. */
enum received {
	RECEIVED_NOTHING,
	RECEIVED_MR,
	RECEIVED_DONE,
	RECEIVED_VERDICT
};

/* When a lie is told. */
enum moment {
	MOMENT_BEFORE_MR,     /* instead of MSG_MR, and before it */
	MOMENT_REGIONS_KNOWN, /* both MSG_MRs are sent, and nothing has moved */
	MOMENT_BEFORE_DONE    /* the peer's operation is at its end */
};

/* The lock is held whenever something here is called. */
struct peer {
	struct fake_id *id;
	struct transfer transfer;
	uint8_t *outgoing; /* one pass of the payload */
	uint64_t outgoing_length;
	uint8_t *source, *sink; /* the rings */
	uint8_t *incoming;      /* what was copied out of the sink's */
	uint64_t incoming_size;
	uint64_t region_address; /* the program's */
	uint32_t region_rkey;
	struct transfer_run requests[PEER_DEPTH]; /* number n, from 0, at n modulo that */
	uint64_t posted, landed;
	uint64_t accessed;                 /* position that the program's operation has come to */
	uint64_t known_ready, known_taken; /* what was delivered to it of the peer's numbers */
	struct window told;                /* what the peer said last */
	uint64_t windows_received;         /* of the program's */
	uint64_t digest, done_bytes;       /* of the program's MSG_DONE */
	int64_t stores_at;                 /* it keeps what is copied, not before */
	int64_t clock;                     /* when it looks again by itself; 0: it does not */
	enum received received;
	bool mr_sent, done_sent, done_delivered, verdict_sent, good, may_count;
	bool verdict_delivered, program_is_content;
	bool lied;           /* what the program answers is not judged */
	unsigned int steps;  /* behind MSG_MR, at which it may give up */
	bool silent;         /* it sends nothing any more */
	bool pumping, again; /* see pump() */
};

void peer_start(struct peer *peer, struct fake_id *id);
void peer_stop(struct peer *peer);
/* The peer's hello, or its refusal; `passive`: it is the client. Returns how long it is. */
uint32_t peer_hello(const struct peer *peer, bool passive, unsigned int refusal, uint8_t *wire);
/* Decodes the program's private data, and plans the session; `passive` as above. */
void peer_reads_hello(struct peer *peer, bool passive, const uint8_t *wire, uint32_t size);
/* True if a client's hello says that it does what this peer, a server, does not. */
bool peer_does_other_operation(const uint8_t *wire);
/* The program, a server, refuses the peer: has it a reason? */
void peer_reads_rejection(const uint8_t *wire, uint32_t size);
/* The program, a server, has accepted the peer. */
void peer_established(struct peer *peer);
void peer_receives(struct peer *peer, const uint8_t *bytes, uint32_t size);
/* Writes "!!!!" over the program's region, if it still may. */
void peer_scribbles(const struct peer *peer);
/* The program's RDMA READ or WRITE sets out: may it be? */
void peer_is_asked(struct peer *peer, const struct work *work);
/* Its bytes move. */
void peer_is_accessed(const struct work *work);
/* The program gets a message, and before it what the peer wrote by its first `posted` requests. */
void peer_delivers(struct peer *peer, const uint8_t *bytes, uint64_t posted);
unsigned int peers_served(void);

void peer_sends_message(struct peer *peer, const struct message *message);
void peer_sends_window(struct peer *peer, const struct window *window);
void peer_sends_done(struct peer *peer, uint64_t bytes);
void peer_sends_verdict(struct peer *peer, uint64_t status);
/* The peer goes on at `time`, unless it does before. */
void peer_wakes_at(struct peer *peer, int64_t time);
/* Tells the lie of the script, if this is its moment. True: nothing true may follow now. */
bool peer_lies(struct peer *peer, enum moment moment);

/* ---- What cm.c offers: the connection manager ---- */

struct fake_id {
	struct rdma_cm_id id;
	struct object object;
	struct peer peer;
	bool passive, listening, family_only;
	struct ibv_sa_path_rec path; /* of a passive one the client's, whose --tos is tos:N */
	bool synchronous;            /* no channel was given: calls wait until they are done */
	bool asked;                  /* connected or accepted: there is something to disconnect */
	bool leads_nowhere;          /* to a loopback address: there is no route */
	bool half_made;              /* client: the peer has accepted, and setting up failed */
	bool peer_gone;              /* it disconnected */
	unsigned int taken;          /* events taken, and not acknowledged */
	int resolve_timeout;
	SLIST_ENTRY(fake_id) link;
};

/* Reports to the ids that are bound to this context that the device is removed. */
void remove_device_of_ids(const struct ibv_context *context);
/* The peer takes the connection down. */
void peer_disconnects(struct fake_id *id);
enum rdma_cm_event_type produce_cm_event(struct fake_id *id, const char *name, int status);
/* Lets another client come to the server; false if there is no server, or no client left. */
bool next_client(void);
struct fake_id *any_id(void);

#endif
