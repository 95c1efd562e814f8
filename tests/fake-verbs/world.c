// SPDX-License-Identifier: MIT
/* The world around the program: the script, the clock, failing calls, and parts of libc. */
#include "fake-verbs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <locale.h>
#include <netdb.h>
#include <netlink/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <linux/capability.h>

#define VIOLATION_STATUS 99
#define ORDERS           40
#define FUNCTIONS        80
#define DESCRIPTORS      1024
#define THREADS          512
#define AWAITED          4 /* maximum number of descriptors that a thread waits for */
#define START_CLOCK      1000
#define TOLERANCE        50      /* maximum deviation from ends:N, in ms */
#define NO_ERRNO         ENOTNAM /* errno after success, which has no meaning (errno(3)) */
#define MAX_LEAD         20      /* maximum lead of a thread over the clock, in ms */
#define PAUSE            100     /* pause of a thread with that lead, in us of real time */
#define ARENA_SIZE       ((size_t)64 << 20)

/* Declared here because they are called before their definitions. */
REDIRECTED(calloc);
REDIRECTED(mmap);
REDIRECTED(syscall);
REDIRECTED(epoll_wait);
int __real_fcntl(int descriptor, int command, long argument);
int __wrap_fcntl(int descriptor, int command, long argument);
/* The makefile redirects calls of the program to these. */
__typeof__(poll) simulated_poll;
__typeof__(pthread_join) simulated_join;
int start_console_thread(pthread_t *id, void *(*routine)(void *), void *argument);
__typeof__(poll) poll_console;

struct order {
	char name[NAME_SIZE];
	char symbol;
	int count;
	char argument[NAME_SIZE];
};

struct call {
	const char *function;
	unsigned int count;
};

static struct {
	char lock;
	int64_t clock;
	struct order orders[ORDERS];
	int order_count;
	struct call calls[FUNCTIONS];
	int call_count;
	bool fault;
	struct stimulus
		*cause; /* new stimuli directly follow this one. If it is NULL, they come last. */
	TAILQ_HEAD(, stimulus) stimuli; /* including delivered stimuli, to which orders refer */
	SLIST_HEAD(, object) objects;
	bool descriptors[DESCRIPTORS]; /* may be open at the end of the program */
	int threads;
	int stuck_helpers; /* number of threads that a hung disk blocks for ever */
	int console_threads;
	struct waiting {
		const struct pollfd *descriptors; /* descriptors that a thread waits for */
		nfds_t count;                     /* 0: it waits only for its deadline */
		int64_t deadline;
		int nudge; /* a counter that wakes the thread out of go_on() */
	} waiting[THREADS];
	int waiting_count;
	LIST_HEAD(, runner) runners;
	SLIST_HEAD(, sleeper) sleepers;
	bool signalled, finished;
	int64_t alarm; /* time of SIGALRM, or 0. A signal handler may set it without the lock. */
} world = {
	.clock = START_CLOCK,
	.stimuli = TAILQ_HEAD_INITIALIZER(world.stimuli),
	.threads = 1,
};

/*
 * The state of this thread. It is in world.runners if the thread has handled an event since its
 * last wait.
 */
static _Thread_local struct runner {
	bool waits, listed;
	bool pauses;  /* it is ahead of the clock by MAX_LEAD: let other threads take the lock */
	int64_t time; /* what the clock would show if no other thread ran */
	LIST_ENTRY(runner) link;
} own;

void lock(void)
{
	while (__atomic_test_and_set(&world.lock, __ATOMIC_ACQUIRE))
		sched_yield();
}

void unlock(void)
{
	bool pauses = own.pauses;

	own.pauses = false;
	__atomic_clear(&world.lock, __ATOMIC_RELEASE);
	if (pauses)
		usleep(PAUSE);
}

void report_violation(const char *where, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "fake: violation: %s: ", where);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	_exit(VIOLATION_STATUS);
}

void *allocate(size_t size)
{
	void *memory = __real_calloc(1, size);

	forbid(!memory, "no memory for the fake itself");
	return memory;
}

/*
 * Memory of keep(). It is mapped: a leak detector would follow pointers in static memory, and miss
 * leaks. It is mapped before any thread exists: a race detector takes mmap(2) for a write.
 */
static uint8_t *arena;

__attribute__((constructor)) static void map_arena(void)
{
	arena = __real_mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void *keep(size_t size)
{
	static size_t used;
	void *memory;

	forbid(arena == MAP_FAILED || ARENA_SIZE - used < size, "no memory for the fake itself");
	memory = arena + used;
	used += (size + 15) & ~(size_t)15;
	return memory;
}

void copy_bytes(void *target, const void *source, size_t size)
{
	volatile uint8_t *to = target;
	const uint8_t *from = source;

	for (size_t i = 0; i < size; i++)
		to[i] = from[i];
}

void fill_bytes(void *target, int value, size_t size)
{
	volatile uint8_t *to = target;

	for (size_t i = 0; i < size; i++)
		to[i] = (uint8_t)value;
}

/* Use bare system calls: a race detector would regard libc's as synchronization of the program. */
int open_counter(void)
{
	int descriptor = (int)__real_syscall(SYS_eventfd2, 0, EFD_SEMAPHORE | EFD_CLOEXEC);

	forbid(descriptor < 0 || descriptor >= DESCRIPTORS, "no descriptor for the fake itself");
	world.descriptors[descriptor] = true; /* it is not the program's */
	return descriptor;
}

void close_counter(int descriptor)
{
	world.descriptors[descriptor] = false;
	close(descriptor);
}

void raise_counter(int descriptor)
{
	const uint64_t one = 1;

	forbid(__real_syscall(SYS_write, descriptor, &one, sizeof(one)) < 0,
	       "a channel was closed under the library");
}

bool lower_counter(int descriptor)
{
	struct pollfd ready = { .fd = descriptor, .events = POLLIN };
	uint64_t count;

	forbid(poll(&ready, 1, 0) == 0 && !(__real_fcntl(descriptor, F_GETFL, 0) & O_NONBLOCK),
	       "would wait for ever for an event");
	return __real_syscall(SYS_read, descriptor, &count, sizeof(count)) > 0;
}

int64_t simulated_milliseconds(void)
{
	return world.clock;
}

/* ---- The script ---- */

static void add_order(const char *word)
{
	struct order *order = &world.orders[world.order_count++];
	size_t prefix = strspn(word, "0123456789"), length;

	forbid(world.order_count > ORDERS, "script: too many words");
	order->count = 1;
	if (prefix > 0 && word[prefix] == '*') {
		order->count = atoi(word);
		word += prefix + 1;
	}
	length = strcspn(word, ">!@=+:");
	forbid(length >= NAME_SIZE || strlen(word + length) > NAME_SIZE,
	       "script: a word is too long");
	snprintf(order->name, NAME_SIZE, "%.*s", (int)length, word);
	order->symbol = word[length];
	snprintf(order->argument, NAME_SIZE, "%s", word[length] ? word + length + 1 : "");
}

/* Return the first unused order with this name and symbol, or NULL. */
static struct order *find_order(const char *name, char symbol)
{
	for (int i = 0; i < world.order_count; i++) {
		struct order *order = &world.orders[i];

		if (order->symbol == symbol && !strcmp(order->name, name) && order->count > 0)
			return order;
	}
	return NULL;
}

bool scripted(const char *word)
{
	return find_order(word, '\0');
}

const char *scripted_text(const char *word)
{
	const struct order *order = find_order(word, ':');

	return order ? order->argument : NULL;
}

unsigned int scripted_number(const char *word, unsigned int otherwise)
{
	const char *text = scripted_text(word);

	return text ? (unsigned int)atoi(text) : otherwise;
}

const char *take_order(const char *name, char symbol)
{
	struct order *order = find_order(name, symbol);

	if (!order)
		return NULL;
	order->count--;
	return order->argument;
}

/* Set open[N] to true if descriptor N is open, else to false, with one system call for all. */
static void find_open(bool open[DESCRIPTORS])
{
	struct pollfd all[DESCRIPTORS] = { 0 };

	for (int i = 0; i < DESCRIPTORS; i++)
		all[i].fd = i;
	forbid(poll(all, DESCRIPTORS, 0) < 0,
	       "cannot find the open descriptors: raise their limit to %d", DESCRIPTORS);
	for (int i = 0; i < DESCRIPTORS; i++)
		open[i] = !(all[i].revents & POLLNVAL);
}

/* After FAKE_VERBS_SECONDS, end the process by SIGKILL, because SIGALRM belongs to the program. */
static void end_after_real_time(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const char *seconds = getenv("FAKE_VERBS_SECONDS");
	const struct itimerspec time = { .it_value.tv_sec =
						 seconds ? atoi(seconds) : REAL_SECONDS };
	timer_t timer;

	forbid(timer_create(CLOCK_MONOTONIC, &event, &timer) ||
		       timer_settime(timer, 0, &time, NULL),
	       "cannot set a timer");
}

__attribute__((constructor)) static void start(void)
{
	const char *script = getenv("FAKE_VERBS");
	char *words = strdup(script ? script : ""), *rest = words, *word;

	while ((word = strsep(&rest, " \n"))) {
		if (*word)
			add_order(word);
	}
	free(words);
	end_after_real_time();
	adapter(); /* open before find_open(): the libraries keep devices open, too */
	find_open(world.descriptors);
	for (int i = 0; i <= STDERR_FILENO; i++)
		world.descriptors[i] = true; /* the program opens these if they are closed */
}

/* ---- Calls that fail ---- */

bool fault_happened(void)
{
	return world.fault;
}

/*
 * Return the number at the end of WORD:FUNCTION:N:NUMBER if the word is for call `count` of the
 * function (N+: for call N and later); else 0.
 */
static int scripted_call(const char *word, const char *function, unsigned int count)
{
	const char *text = scripted_text(word);
	char name[NAME_SIZE];
	unsigned int number;
	int end = 0;

	if (!text || sscanf(text, "%30[^:]:%u%n", name, &number, &end) != 2 ||
	    strcmp(name, function))
		return 0;
	if (number != count && (text[end] != '+' || number > count))
		return 0;
	return atoi(strrchr(text, ':') + 1);
}

/*
 * Count a call, and send the signal that the script requests for it. Return the errno value with
 * which the call must fail, or 0. The lock is held.
 */
static int count_call(const char *function)
{
	int error, number, i;

	for (i = 0; i < world.call_count && strcmp(world.calls[i].function, function); i++)
		;
	forbid(i == FUNCTIONS, "script: too many functions");
	if (i == world.call_count)
		world.calls[world.call_count++].function = function;
	world.calls[i].count++;
	number = scripted_call("signal", function, world.calls[i].count);
	if (number)
		kill(getpid(), number);
	error = scripted_call("fail", function, world.calls[i].count);
	world.fault = world.fault || error;
	return error;
}

int enter(const char *function)
{
	lock();
	return count_call(function);
}

int leave(int error)
{
	unlock();
	errno = error ? error : NO_ERRNO;
	return error ? -1 : 0;
}

int leave_with(int error)
{
	int result = leave(error);

	if (scripted("minus-one"))
		return result;
	return scripted("negative") ? -error : error;
}

static bool fails(const char *function)
{
	return leave(enter(function)) != 0;
}

bool begin(const char *function)
{
	int error = enter(function);

	return !error || leave(error) == 0;
}

/* ---- Objects ---- */

void object_add(struct object *object, const char *kind)
{
	object->kind = kind;
	SLIST_INSERT_HEAD(&world.objects, object, link);
}

int object_remove(struct object *object)
{
	if (object->users && world.fault)
		return EBUSY;
	forbid(object->users, "%s is destroyed before %u objects that need it", object->kind,
	       object->users);
	SLIST_REMOVE(&world.objects, object, object, link);
	return 0;
}

static void write_record(void)
{
	const char *path = getenv("FAKE_VERBS_RECORD");
	FILE *record = path ? fopen(path, "w") : NULL;

	if (!record)
		return;
	fprintf(record, "served %u\n", peers_served());
	for (int i = 0; i < world.call_count; i++)
		fprintf(record, "%s %u\n", world.calls[i].function, world.calls[i].count);
	fclose(record);
}

/* Check that the program ended in time, and left no object and no descriptor. Write the record. */
__attribute__((destructor)) static void finish(void)
{
	/*
	 * each thread on a hung disk keeps a descriptor, and all share the descriptor that reports
	 * their end
	 */
	int spare = world.stuck_helpers ? world.stuck_helpers + 1 : 0;
	int64_t time = world.clock - START_CLOCK, due = scripted_number("ends", 0);
	bool open[DESCRIPTORS];

	/*
	 * a thread that is stuck in write(2) keeps both ends of its pipe, and the descriptor that
	 * reports its end
	 */
	if (world.console_threads)
		spare += 3;
	if (world.finished)
		return;
	world.finished = true;
	forbid(time > scripted_number("until", UINT_MAX) || time < scripted_number("from", 0) ||
		       (due && llabs(time - due) > TOLERANCE),
	       "the program ended at %ld ms", (long)time);
	lock(); /* run_thread() may be closing the nudge of a detached thread */
	find_open(open);
	for (int i = 0; i < DESCRIPTORS; i++)
		forbid(!world.descriptors[i] && open[i] && spare-- <= 0 &&
			       !(world.fault && scripted("abandons")),
		       "descriptor %d is left open", i);
	unlock();
	forbid(!SLIST_EMPTY(&world.objects) && !world.fault && !scripted("abandons"),
	       "%s is left at the end", SLIST_FIRST(&world.objects)->kind);
	write_record();
}

/* ---- How time passes while threads run ---- */

/* Remove this thread from world.runners, because it waits or ends. The lock is held. */
static void stop_running(void)
{
	if (own.listed)
		LIST_REMOVE(&own, link);
	own.listed = false;
}

/* Return the number of threads that can run: they do not wait, or their wait is over. */
static int count_running(void)
{
	struct pollfd all[THREADS * AWAITED];
	int running = world.threads - world.waiting_count;
	nfds_t count = 0;

	for (int i = 0; i < world.waiting_count; i++) {
		for (nfds_t n = 0; n < world.waiting[i].count; n++)
			all[count++] = world.waiting[i].descriptors[n];
	}
	poll(all, count, 0);
	count = 0;
	for (int i = 0; i < world.waiting_count; i++) {
		bool can_run = world.waiting[i].deadline <= world.clock;

		for (nfds_t n = 0; n < world.waiting[i].count; n++)
			can_run |= all[count++].revents != 0;
		running += can_run;
	}
	return running;
}

/*
 * Let a millisecond pass for this thread, which has handled an event. The clock shows the earliest
 * time of all threads that can run, so no deadline passes while the machine is slow to run a
 * thread. A thread gets ahead of the clock by at most MAX_LEAD. The lock is held.
 */
static void pass_time(void)
{
	int64_t least = INT64_MAX;
	struct runner *runner;
	int idle; /* number of threads that can run and are not in the list */

	if (own.waits) { /* all threads wait: see go_on() */
		world.clock++;
		return;
	}
	if (!own.listed) {
		LIST_INSERT_HEAD(&world.runners, &own, link);
		own.listed = true;
		own.time = world.clock;
	}
	own.pauses = own.time == world.clock + MAX_LEAD;
	own.time += !own.pauses;
	idle = count_running();
	LIST_FOREACH(runner, &world.runners, link)
	{
		idle--;
		if (runner->time < least)
			least = runner->time;
	}
	if (idle <= 0 && least > world.clock)
		world.clock = least;
}

/* ---- Stimuli ---- */

struct stimulus *new_stimulus(const char *name, void (*deliver)(struct stimulus *))
{
	struct stimulus *stimulus = keep(sizeof(*stimulus));

	stimulus->name = name;
	stimulus->deliver = deliver;
	return stimulus;
}

static bool was_delivered(const char *name)
{
	const struct stimulus *stimulus;

	TAILQ_FOREACH (stimulus, &world.stimuli, link) {
		if (stimulus->delivered && !strcmp(stimulus->name, name))
			return true;
	}
	return false;
}

/*
 * Return true if another stimulus must come first: an earlier one of the same sequence, or the one
 * that the script names after '>'.
 */
static bool is_held(const struct stimulus *stimulus)
{
	const struct stimulus *earlier;

	TAILQ_FOREACH (earlier, &world.stimuli, link) {
		if (earlier == stimulus)
			break;
		if (!earlier->delivered && stimulus->sequence &&
		    earlier->sequence == stimulus->sequence)
			return true;
	}
	for (int i = 0; i < world.order_count; i++) {
		const struct order *order = &world.orders[i];

		if (order->symbol == '>' && !strcmp(order->name, stimulus->name) &&
		    !was_delivered(order->argument))
			return true;
	}
	return false;
}

static void deliver_signal(struct stimulus *stimulus)
{
	world.signalled = true;
	kill(getpid(), stimulus->code ? stimulus->code : SIGTERM);
}

/* Queue the extra stimulus `what`, which the script requests after `cause`. */
static void produce_extra(const struct stimulus *cause, const char *what)
{
	static const struct {
		const char *name;
		void (*deliver)(struct stimulus *);
		bool of_qp; /* it is delivered to the queue pair, if there is one */
	} extras[] = { { "signal", deliver_signal, false },
		       { "leave", deliver_leaving, false },
		       { "return", deliver_return, false },
		       { "spurious", deliver_spurious, true },
		       { "async", deliver_device_event, true } };
	struct fake_id *id = cause->id ? cause->id : cause->qp ? cause->qp->id : any_id();
	struct fake_qp *qp = id ? (struct fake_qp *)id->id.qp : NULL;
	size_t length = strcspn(what, ":");
	int number = what[length] ? atoi(what + length + 1) : 0;
	char name[NAME_SIZE];

	snprintf(name, NAME_SIZE, "%.*s", (int)length, what);
	for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
		if (!strcmp(name, extras[i].name)) {
			queue_stimulus(extras[i].name, extras[i].deliver,
				       extras[i].of_qp ? qp : NULL, number);
			return;
		}
	}
	if (!strcmp(name, "DISCONNECTED"))
		peer_disconnects(id);
	else
		produce_cm_event(id, name, number);
}

static void deliver(struct stimulus *stimulus)
{
	stimulus->delivered = true;
	pass_time();
	stimulus->deliver(stimulus);
	for (int i = 0; i < world.order_count; i++) {
		struct order *order = &world.orders[i];

		if (order->symbol != '+' || strcmp(order->name, stimulus->name) || !order->count)
			continue;
		order->count--;
		world.cause = stimulus;
		produce_extra(stimulus, order->argument);
		world.cause = NULL;
	}
}

void produce(struct stimulus *stimulus)
{
	const char *delay = take_order(stimulus->name, '@');

	if (stimulus->due == 0)
		stimulus->due = world.clock + (delay ? atoi(delay) : 0);
	if (world.cause)
		TAILQ_INSERT_AFTER(&world.stimuli, world.cause, stimulus, link);
	else
		TAILQ_INSERT_TAIL(&world.stimuli, stimulus, link);
	if (scripted("immediate") && stimulus->due <= world.clock && !is_held(stimulus))
		deliver(stimulus);
}

void queue_stimulus(const char *name, void (*handler)(struct stimulus *), struct fake_qp *qp,
		    int code)
{
	struct stimulus *stimulus = new_stimulus(name, handler);

	stimulus->qp = qp;
	stimulus->code = code;
	produce(stimulus);
}

void deliver_sequence(const void *sequence)
{
	struct stimulus *stimulus;

	TAILQ_FOREACH (stimulus, &world.stimuli, link) {
		if (!stimulus->delivered && stimulus->sequence == sequence)
			deliver(stimulus);
	}
}

void discard_stimuli(const struct fake_id *id, const struct fake_qp *qp)
{
	struct stimulus *stimulus;

	TAILQ_FOREACH (stimulus, &world.stimuli, link) {
		if ((id && stimulus->id == id) || (qp && stimulus->qp == qp)) {
			stimulus->delivered = true;
			stimulus->id = NULL;
			stimulus->qp = NULL;
		}
	}
}

/*
 * Return true if all threads wait and none can continue. Nudge a thread whose deadline has passed.
 */
static bool threads_wait(void)
{
	if (world.waiting_count < world.threads)
		return false;
	for (int i = 0; i < world.waiting_count; i++) {
		const struct waiting *waiting = &world.waiting[i];

		if (waiting->deadline <= world.clock) {
			raise_counter(waiting->nudge);
			return false;
		}
	}
	return count_running() == 0;
}

/* Return the earliest time of a stimulus or of a deadline of the program, or INT64_MAX. */
static int64_t next_moment(void)
{
	const struct stimulus *stimulus;
	int64_t moment = INT64_MAX;

	TAILQ_FOREACH (stimulus, &world.stimuli, link) {
		if (!stimulus->delivered && stimulus->due < moment && !is_held(stimulus))
			moment = stimulus->due;
	}
	for (int i = 0; i < world.waiting_count; i++) {
		if (world.waiting[i].deadline < moment)
			moment = world.waiting[i].deadline;
	}
	return moment;
}

static void finish(void);

/* Deliver SIGALRM. A program without a handler ends: first check what it leaves behind. */
static void deliver_alarm(void)
{
	struct sigaction action;

	world.alarm = 0;
	unlock();
	if (sigaction(SIGALRM, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
		finish();
	kill(getpid(), SIGALRM);
	lock();
}

/*
 * Deliver the next stimulus (`coalesce`: all that are due), or advance the clock if none is due.
 * Without stimuli and deadlines, let the next client connect, else advance the clock to the alarm,
 * else end the program by SIGTERM.
 */
static void advance(void)
{
	struct stimulus *stimulus;
	int64_t moment;
	bool delivered = false;

	if (world.alarm && world.alarm <= world.clock)
		deliver_alarm();
	check_notification();
	if (scripted("together") && next_client())
		return;
	TAILQ_FOREACH (stimulus, &world.stimuli, link) {
		if (stimulus->delivered || stimulus->due > world.clock || is_held(stimulus))
			continue;
		deliver(stimulus);
		delivered = true;
		if (!scripted("coalesce"))
			return;
	}
	if (delivered)
		return;
	moment = next_moment();
	if (moment < INT64_MAX) {
		world.clock = moment;
	} else if (next_client()) {
		return;
	} else if (world.alarm) {
		world.clock = world.alarm;
	} else {
		forbid(world.signalled || scripted("by-itself"), "waits for ever");
		queue_stimulus("signal", deliver_signal, NULL, SIGTERM);
	}
}

/* The counter that nudges this thread, or 0 as long as it has none. */
static _Thread_local int own_nudge;

/* Record that this thread waits for the descriptors, until the deadline. The lock is held. */
static void begin_to_wait(const struct pollfd *descriptors, nfds_t count, int64_t deadline)
{
	stop_running();
	own.waits = true;
	if (!own_nudge)
		own_nudge = open_counter();
	forbid(world.waiting_count == THREADS || count > AWAITED,
	       "too many threads wait, or one for too many descriptors");
	world.waiting[world.waiting_count++] = (struct waiting){
		.descriptors = descriptors, .count = count, .deadline = deadline, .nudge = own_nudge
	};
}

/*
 * Stop waiting. The first thread in world.waiting checks every millisecond if all threads wait: if
 * this thread was the first, wake its successor, which checks from now on.
 */
static void end_waiting(void)
{
	int place = 0;

	own.waits = false;
	while (world.waiting[place].nudge != own_nudge)
		place++;
	world.waiting[place] = world.waiting[--world.waiting_count];
	if (place == 0 && world.waiting_count > 0)
		raise_counter(world.waiting[0].nudge);
}

/*
 * Advance the simulation if all threads wait; else wait in real time for an event, a nudge or a
 * timeout.
 */
static void go_on(const struct pollfd *descriptors, nfds_t count)
{
	struct pollfd ready[1 + AWAITED] = { { .fd = own_nudge, .events = POLLIN } };
	bool is_first;

	if (threads_wait()) {
		advance();
		return;
	}
	for (nfds_t i = 0; i < count; i++)
		ready[1 + i] = descriptors[i];
	is_first = world.waiting[0].nudge == own_nudge;
	unlock();
	poll(ready, 1 + count, is_first ? 1 : 1000);
	lock();
	while (poll(ready, 1, 0) > 0)
		lower_counter(own_nudge);
}

/* Wait in simulated time as poll(2) does; without descriptors wait for the timeout. */
static int wait_simulated(struct pollfd *descriptors, nfds_t count, int timeout)
{
	int64_t deadline;
	int ready;

	lock();
	deadline = timeout < 0 ? INT64_MAX : world.clock + timeout;
	begin_to_wait(descriptors, count, deadline);
	while ((ready = poll(descriptors, count, 0)) == 0 && world.clock < deadline)
		go_on(descriptors, count);
	end_waiting();
	if (ready > 0)
		pass_time(); /* time must also pass for a thread that never blocks */
	unlock();
	for (nfds_t i = 0; i < count; i++)
		forbid(descriptors[i].revents & POLLNVAL, "poll: descriptor %d is not open",
		       descriptors[i].fd);
	return ready;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int maximum, int timeout)
{
	struct pollfd ready = { .fd = epoll, .events = POLLIN };

	if (fails("epoll_wait"))
		return -1;
	wait_simulated(&ready, 1, timeout);
	return __real_epoll_wait(epoll, events, maximum, 0);
}

/*
 * Replace poll(2) in the modules that wait for the fake, and in the lessons. A thread that spins
 * waits here for a millisecond, because nothing happens unless all threads wait.
 */
int simulated_poll(struct pollfd *descriptors, nfds_t count, int timeout)
{
	if (fails("poll"))
		return -1;
	lock();
	if (spins_on(descriptors->fd, timeout))
		timeout = 1;
	unlock();
	return wait_simulated(descriptors, count, timeout);
}

void wait_for_descriptor(int descriptor)
{
	struct pollfd ready = { .fd = descriptor, .events = POLLIN };

	wait_simulated(&ready, 1, -1);
}

REDIRECTED(clock_gettime);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	lock();
	now->tv_sec = world.clock / 1000;
	now->tv_nsec = world.clock % 1000 * 1000000;
	unlock();
	return 0;
}

/* Return at once: a sleep takes no time. */
REDIRECTED(nanosleep);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
	(void)pause;
	(void)rest;
	return 0;
}

/*
 * Set the time of SIGALRM (0: none). Return 1 if a time was set before. Async-signal-safe, like
 * alarm(2).
 */
REDIRECTED(alarm);
unsigned int __wrap_alarm(unsigned int seconds)
{
	int64_t time = seconds ? world.clock + (int64_t)seconds * 1000 : 0;

	return __atomic_exchange_n(&world.alarm, time, __ATOMIC_SEQ_CST) != 0;
}

void sleep_until_signal(int early, int late)
{
	if (early == SIGALRM)
		world.alarm = 0;
	unlock();
	if (early)
		kill(getpid(), early);
	if (!late) {
		forbid(!world.alarm, "rdma_connect: no signal ends its sleep");
		world.clock = world.alarm;
		world.alarm = 0;
		late = SIGALRM;
	}
	kill(getpid(), late);
	lock();
}

/* ---- Threads: the clock must know which of them wait ---- */

struct thread {
	void *(*routine)(void *);
	void *argument;
	int *count; /* number of threads of its kind, in `world` */
};

static void *run_thread(void *argument)
{
	struct thread thread = *(struct thread *)argument;
	void *result;

	free(argument);
	result = thread.routine(thread.argument);
	lock();
	stop_running();
	(*thread.count)--;
	if (own_nudge)
		close_counter(own_nudge);
	unlock();
	return result;
}

REDIRECTED(pthread_create);
static int create_thread(pthread_t *id, const pthread_attr_t *attributes, struct thread created)
{
	struct thread *thread;

	if (fails("pthread_create"))
		return errno;
	thread = allocate(sizeof(*thread));
	*thread = created;
	lock();
	(*thread->count)++;
	unlock();
	return __real_pthread_create(id, attributes, run_thread, thread);
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*routine)(void *),
			  void *argument)
{
	return create_thread(id, attributes, (struct thread){ routine, argument, &world.threads });
}

/* Replace pthread_join(3) in lessons: simulated time passes without the thread that waits. */
int simulated_join(pthread_t thread, void **result)
{
	int error;

	lock();
	stop_running();
	world.threads--;
	unlock();
	error = pthread_join(thread, result);
	lock();
	world.threads++;
	unlock();
	return error;
}

/* Create a thread of the console, whose waits are not simulated. */
int start_console_thread(pthread_t *id, void *(*routine)(void *), void *argument)
{
	return create_thread(id, NULL,
			     (struct thread){ routine, argument, &world.console_threads });
}

/*
 * Wait for the threads of the console in real time. While both outputs can be written, only a busy
 * machine holds a thread up: wait again.
 */
int poll_console(struct pollfd *ready, nfds_t count, int milliseconds)
{
	struct pollfd outputs[] = {
		{ .fd = STDOUT_FILENO, .events = POLLOUT },
		{ .fd = STDERR_FILENO, .events = POLLOUT },
	};
	int result;

	do
		result = poll(ready, count, milliseconds);
	while (result == 0 && milliseconds > 0 && poll(outputs, 2, 0) == 2 &&
	       outputs[0].revents == POLLOUT && outputs[1].revents == POLLOUT);
	return result;
}

/* A thread in sem_wait(3), which neither the clock nor a stimulus wakes. */
struct sleeper {
	sem_t *semaphore;
	SLIST_ENTRY(sleeper) link;
};

REDIRECTED(sem_wait);
int __wrap_sem_wait(sem_t *semaphore)
{
	struct sleeper *sleeper;

	lock();
	if (sem_trywait(semaphore) == 0)
		return leave(0);
	sleeper = allocate(sizeof(*sleeper));
	sleeper->semaphore = semaphore;
	SLIST_INSERT_HEAD(&world.sleepers, sleeper, link);
	stop_running();
	world.threads--;
	unlock();
	while (__real_sem_wait(semaphore))
		;
	free(sleeper);
	return 0;
}

/*
 * Wake a thread, if one waits. It counts as running from now on, even if the machine runs it later.
 */
REDIRECTED(sem_post);
int __wrap_sem_post(sem_t *semaphore)
{
	struct sleeper *sleeper;

	lock();
	SLIST_FOREACH (sleeper, &world.sleepers, link) {
		if (sleeper->semaphore == semaphore)
			break;
	}
	if (sleeper) {
		SLIST_REMOVE(&world.sleepers, sleeper, sleeper, link);
		world.threads++;
	}
	__real_sem_post(semaphore);
	unlock();
	return 0;
}

/* ---- Other functions of libc that can fail ---- */

/* Define the wrapper of a function that the script can make fail. */
#define WRAP(type, function, parameters, arguments, failure)                     \
	REDIRECTED(function);                                                    \
	type __wrap_##function parameters                                        \
	{                                                                        \
		return fails(#function) ? failure : __real_##function arguments; \
	}

WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, mmap,
     (void *address, size_t size, int protection, int flags, int descriptor, off_t offset),
     (address, size, protection, flags, descriptor, offset), MAP_FAILED)
WRAP(int, epoll_create1, (int flags), (flags), -1)
WRAP(int, epoll_ctl, (int epoll, int operation, int descriptor, struct epoll_event *event),
     (epoll, operation, descriptor, event), -1)
WRAP(int, eventfd, (unsigned int value, int flags), (value, flags), -1)
WRAP(int, signalfd, (int descriptor, const sigset_t *signals, int flags),
     (descriptor, signals, flags), -1)
WRAP(int, sigprocmask, (int how, const sigset_t *new, sigset_t *old), (how, new, old), -1)
WRAP(sighandler_t, signal, (int number, sighandler_t handler), (number, handler), SIG_ERR)
WRAP(int, renameat2,
     (int old_folder, const char *old, int new_folder, const char *new, unsigned int flags),
     (old_folder, old, new_folder, new, flags), -1)
WRAP(int, getnameinfo,
     (const struct sockaddr *address, socklen_t size, char *host, socklen_t host_size,
      char *service, socklen_t service_size, int flags),
     (address, size, host, host_size, service, service_size, flags), EAI_FAIL)

/*
 * If the script says trickles:N, let a pipe deliver a byte every N ms. A thread that waits for a
 * byte may be abandoned: its descriptor may stay open.
 */
REDIRECTED(read);
ssize_t __wrap_read(int descriptor, void *buffer, size_t size)
{
	unsigned int pause = scripted_number("trickles", 0);
	struct stat about;

	if (fails("read"))
		return -1;
	/* a pipe with O_NONBLOCK is the program's own, not the payload's */
	if (pause > 0 && size > 0 && !fstat(descriptor, &about) && S_ISFIFO(about.st_mode) &&
	    !(__real_fcntl(descriptor, F_GETFL, 0) & O_NONBLOCK)) {
		lock();
		world.descriptors[descriptor] = true;
		unlock();
		wait_simulated(NULL, 0, (int)pause);
		size = 1;
	}
	return __real_read(descriptor, buffer, size);
}

/*
 * If the script has FUNCTION@N, the disk takes N ms. If it has FUNCTION!, the disk hangs: block the
 * thread until the program ends. `descriptor` may then stay open.
 */
static void wait_for_disk(const char *function, int descriptor)
{
	const char *delay;
	bool answers;

	lock();
	delay = take_order(function, '@');
	answers = !take_order(function, '!');
	if (!answers) {
		if (descriptor >= 0)
			world.descriptors[descriptor] = true;
		stop_running();
		world.threads--;
		world.stuck_helpers++;
	}
	unlock();
	while (!answers)
		pause();
	if (delay)
		wait_simulated(NULL, 0, atoi(delay));
}

/*
 * Define the wrapper of a function that waits for a disk. With ENODATA from the script it returns
 * 0: the end of a file.
 */
#define WRAP_DISK(type, function, parameters, arguments)  \
	REDIRECTED(function);                             \
	type __wrap_##function parameters                 \
	{                                                 \
		wait_for_disk(#function, descriptor);     \
		if (fails(#function))                     \
			return errno == ENODATA ? 0 : -1; \
		return __real_##function arguments;       \
	}

WRAP_DISK(int, fsync, (int descriptor), (descriptor))
WRAP_DISK(int, fdatasync, (int descriptor), (descriptor))

/* With changes:N, the file has other bytes from the Nth call of pread(2) on. */
REDIRECTED(pread);
ssize_t __wrap_pread(int descriptor, void *buffer, size_t size, off_t offset)
{
	static atomic_uint calls;
	ssize_t count;

	wait_for_disk("pread", descriptor);
	if (fails("pread"))
		return errno == ENODATA ? 0 : -1;
	count = __real_pread(descriptor, buffer, size, offset);
	if (count > 0 && ++calls >= scripted_number("changes", UINT_MAX))
		*(uint8_t *)buffer ^= 1;
	return count;
}

REDIRECTED(statvfs);
int __wrap_statvfs(const char *path, struct statvfs *about)
{
	wait_for_disk("statvfs", -1);
	return __real_statvfs(path, about);
}

/* Resolve a name to the addresses of the script, if it lists any. */
REDIRECTED(getaddrinfo);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **result)
{
	const char *addresses = scripted_text("addresses");
	char *words, *rest, *word;
	int error = 0;

	if (fails("getaddrinfo"))
		return errno == EPERM ? EAI_AGAIN : EAI_SYSTEM;
	if (!node || !addresses)
		return __real_getaddrinfo(node, service, hints, result);
	words = rest = strdup(addresses);
	while (!error && (word = strsep(&rest, ","))) {
		error = __real_getaddrinfo(word, service, hints, result);
		while (!error && *result)
			result = &(*result)->ai_next;
	}
	free(words);
	return error;
}

/* List "wg0" without an address, "lo" with two (the second as "lo:1"), and "eth9" with one. */
REDIRECTED(getifaddrs);
int __wrap_getifaddrs(struct ifaddrs **result)
{
	static const char *const addresses[] = { NULL, "127.0.0.1", "192.0.2.2", "198.51.100.2" };
	static char names[][8] = { "wg0", "lo", "lo:1", "eth9" };
	struct host_ifaddrs {
		struct ifaddrs one;
		struct sockaddr_in address;
	} * all;

	if (fails("getifaddrs"))
		return -1;
	all = allocate(4 * sizeof(*all));
	for (int i = 0; i < 4; i++) {
		all[i].one.ifa_next = i < 3 ? &all[i + 1].one : NULL;
		all[i].one.ifa_name = names[i];
		if (!addresses[i])
			continue;
		all[i].address.sin_family = AF_INET;
		inet_pton(AF_INET, addresses[i], &all[i].address.sin_addr);
		all[i].one.ifa_addr = (struct sockaddr *)&all[i].address;
	}
	*result = &all->one;
	return 0;
}

REDIRECTED(freeifaddrs);
void __wrap_freeifaddrs(struct ifaddrs *all)
{
	free(all);
}

/* Report memory:N of the script, if it has one, as the limit of locked memory. */
REDIRECTED(getrlimit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	if (fails("getrlimit"))
		return -1;
	if (resource != RLIMIT_MEMLOCK || !scripted_text("memory"))
		return __real_getrlimit(resource, limit);
	limit->rlim_cur = limit->rlim_max = scripted_number("memory", 0);
	return 0;
}

/* Replace capget(2): the program has CAP_IPC_LOCK unless the script says `limited`. */
long __wrap_syscall(long number, ...)
{
	struct __user_cap_data_struct *data;
	va_list arguments;
	void *header;

	forbid(number != SYS_capget, "system call %ld", number);
	va_start(arguments, number);
	header = va_arg(arguments, void *);
	data = va_arg(arguments, struct __user_cap_data_struct *);
	va_end(arguments);
	if (__real_syscall(number, header, data))
		return -1;
	if (scripted("limited"))
		data->effective &= ~(1U << CAP_IPC_LOCK);
	else
		data->effective |= 1U << CAP_IPC_LOCK;
	return 0;
}

/* Report machine:N of the script, if it has one, as the size of the machine's memory. */
REDIRECTED(sysinfo);
int __wrap_sysinfo(struct sysinfo *about)
{
	int error = fails("sysinfo") ? -1 : __real_sysinfo(about);

	if (!error && scripted_text("machine")) {
		about->totalram = scripted_number("machine", 0);
		about->mem_unit = 1;
	}
	return error;
}

/*
 * Report processors:N of the script as usable. As in the kernel, a `set` that is too small for them
 * is an error.
 */
REDIRECTED(sched_getaffinity);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set)
{
	unsigned int processors = scripted_number("processors", 0);

	if (fails("sched_getaffinity"))
		return -1;
	if (!processors)
		return __real_sched_getaffinity(process, size, set);
	if (size * CHAR_BIT < processors) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(size, set);
	while (processors-- > 0)
		CPU_SET_S(processors, size, set);
	return 0;
}

/* Let the script make any command fail, except F_GETFD, which checks if a descriptor is open. */
int __wrap_fcntl(int descriptor, int command, long argument)
{
	if (command != F_GETFD && fails("fcntl"))
		return -1;
	return __real_fcntl(descriptor, command, argument);
}

/* The program is about to escape a text: with `scribble`, let the peer overwrite the text. */
REDIRECTED(uselocale);
locale_t __wrap_uselocale(locale_t locale)
{
	lock();
	if (scripted("scribble"))
		peer_scribbles(&any_id()->peer);
	unlock();
	return __real_uselocale(locale);
}

/* Let netlink fail. */
REDIRECTED(nl_connect);
int __wrap_nl_connect(struct nl_sock *socket UNUSED, int protocol UNUSED)
{
	return -NLE_PERM;
}

/* Replace a socket by an eventfd, so that no datagram leaves this machine. */
REDIRECTED(socket);
int __wrap_socket(int family UNUSED, int type UNUSED, int protocol UNUSED)
{
	return fails("socket") ? -1 : eventfd(0, EFD_CLOEXEC);
}

REDIRECTED(sendto);
ssize_t __wrap_sendto(int descriptor UNUSED, const void *buffer UNUSED, size_t size,
		      int flags UNUSED, __CONST_SOCKADDR_ARG address UNUSED,
		      socklen_t address_size UNUSED)
{
	return fails("sendto") ? -1 : (ssize_t)size;
}

/* Close the stream even if the call must fail. */
REDIRECTED(fclose);
int __wrap_fclose(FILE *stream)
{
	int error = fails("fclose") ? errno : 0;
	int result = __real_fclose(stream);

	if (!error)
		return result;
	errno = error;
	return EOF;
}

/*
 * Before a signal ends the program, check what the program leaves. A blocked signal, such as that
 * of connect_with_timeout(), does not end it.
 */
REDIRECTED(raise);
int __wrap_raise(int number)
{
	sigset_t blocked;

	if (!pthread_sigmask(SIG_BLOCK, NULL, &blocked) && !sigismember(&blocked, number))
		finish();
	return __real_raise(number);
}
