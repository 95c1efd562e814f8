// SPDX-License-Identifier: MIT
/*
 * A simulated host for the tests of rdma-pairs: one program with four names.
 *
 * on HOST -- COMMAND...   stands for ssh: runs COMMAND on this machine, with the other three names
 * first in PATH rdma-server             prints that it listens, and holds a lock on its host's file
 * until it ends rdma-client ... write ADDRESS PORT prints the JSON object of a session with
 * ADDRESS, which is HOST or HOST.RAIL date                    prints a time that is 30 s ahead
 *
 * The program "date" is in the folder "wrong". SIMULATED_STATE is a folder for files: "server.HOST"
 * is locked while the server runs, "host.time" has the processor time of each host. SIMULATED has
 * the faults, as words:
 *
 * fails:HOST    on reports that there is no route, and ends
 * hangs:HOST    on neither reads nor ends, and ignores SIGTERM
 * stays:HOST    on does not end with the command, and ignores SIGTERM
 * noisy:HOST    on first prints a greeting, and lines about host h1
 * clock:HOST    the host has the date above
 * dies:HOST     the server ends when the first session with it is over
 * slow:HOST     sessions from and to this host, or HOST.RAIL, have 60 % of the usual rate
 * writes:HOST   only sessions from this host do
 * rail:RAIL     sessions between addresses of this rail do
 * path:A-B      the sessions from host A to host B do
 * once:A-B      only the first of these sessions does
 * rate:A-B=RATE the sessions from host A to host B have this rate in bit/s
 * loses:A-B     the sessions from host A to host B time out
 * stuck:A-B     the client of such a session hangs
 * text:A-B      the client prints a text that is no JSON object
 */
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME_SIZE 64

/* Return true if SIMULATED has this word. */
__attribute__((format(printf, 1, 2))) static bool has_fault(const char *format, ...)
{
	const char *faults = getenv("SIMULATED"), *found;
	char word[3 * NAME_SIZE];
	size_t length;
	va_list list;

	va_start(list, format);
	vsnprintf(word, sizeof(word), format, list);
	va_end(list);
	length = strlen(word);
	for (found = faults; found && (found = strstr(found, word)); found++)
		if ((found == faults || found[-1] == ' ') &&
		    (!found[length] || found[length] == ' '))
			return true;
	return false;
}

/* Open a file in the folder of the state. */
static int open_state(const char *kind, const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.%s", getenv("SIMULATED_STATE"), kind, name);
	return open(path, flags | O_CLOEXEC, 0644);
}

/* Append the processor time of the host's programs, in microseconds, to the file "host.time". */
static void note_time(const struct rusage *usage)
{
	int file = open_state("host", "time", O_WRONLY | O_APPEND | O_CREAT);

	dprintf(file, "%ld\n",
		(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000L +
			usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
	close(file);
}

/* Run the command on the simulated host. The programs of `folder` are first in PATH. */
static void run_command(const char *host, const char *folder, char **command)
{
	char path[8192];

	snprintf(path, sizeof(path), "%s/wrong:%s:%s", folder, folder, getenv("PATH"));
	setenv("PATH", has_fault("clock:%s", host) ? path : strchr(path, ':') + 1, 1);
	setenv("SIMULATED_HOST", host, 1);
	execvp(command[0], command);
	perror(command[0]);
	_exit(127);
}

static void hang(void)
{
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

static int run_on(char **arguments)
{
	const char *host = arguments[1];
	struct rusage usage;
	int status;
	pid_t child;

	if (has_fault("fails:%s", host)) {
		fprintf(stderr, "ssh: connect to host %s port 22: No route to host\n", host);
		return 255;
	}
	if (has_fault("hangs:%s", host))
		hang();
	if (has_fault("noisy:%s", host)) {
		puts("Welcome!\nhello world\nresult h1 0 1\t{}\ngone h1\tnot so\nhello");
		fflush(stdout);
		fputs("motd: 3 updates\n", stderr);
	}
	child = fork();
	if (child == 0)
		run_command(host, dirname(arguments[0]), arguments + 3);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (wait4(child, &status, 0, &usage) != child)
		return 255;
	note_time(&usage);
	if (has_fault("stays:%s", host))
		hang();
	return WEXITSTATUS(status);
}

static int run_server(const char *host)
{
	int lock = open_state("server", host, O_RDWR | O_CREAT);
	char byte;

	if (lock < 0 || flock(lock, LOCK_EX)) {
		perror("rdma-server: cannot lock");
		return 1;
	}
	fputs("listening on port 4711.\n", stderr);
	puts("{ \"kind\": \"listening\", \"port\": 4711 }");
	fflush(stdout);
	while (!has_fault("dies:%s", host) || pread(lock, &byte, 1, 0) != 1)
		usleep(100000);
	return 1;
}

static void print_failure(const char *to, int timeout)
{
	printf("{ \"kind\": \"session\", \"status\": 5, \"bits_per_second\": null, \"error\": \"no "
	       "progress for %d s while connecting to %s\" }\n",
	       timeout, to);
}

/* Return the share of the usual rate that a session has. */
static double share_of(const char *from, const char *to, const char *rail)
{
	char path[2 * NAME_SIZE];
	int file;

	snprintf(path, sizeof(path), "%s-%s", from, to);
	if (has_fault("once:%s", path)) {
		file = open_state("once", path, O_WRONLY | O_CREAT | O_EXCL);
		if (file >= 0) {
			close(file);
			return 0.6;
		}
	}
	if (has_fault("slow:%s", from) || has_fault("slow:%s", to) ||
	    has_fault("slow:%s.%s", from, rail) || has_fault("slow:%s.%s", to, rail) ||
	    has_fault("writes:%s", from) || has_fault("path:%s", path) ||
	    has_fault("rail:%s", rail))
		return 0.6;
	return 1;
}

/* Return the rate of a session in bit/s. */
static double rate_of(const char *from, const char *to, const char *rail)
{
	const char *faults = getenv("SIMULATED"), *found;
	char word[3 * NAME_SIZE];
	int variety = from[strlen(from) - 1] + to[strlen(to) - 1];

	snprintf(word, sizeof(word), "rate:%s-%s=", from, to);
	found = faults ? strstr(faults, word) : NULL;
	if (found)
		return atof(found + strlen(word));
	return 100e9 * share_of(from, to, rail) * (1 + 0.005 * (variety % 10));
}

static void print_success(double rate)
{
	printf("{ \"kind\": \"session\", \"schema\": 1, \"version\": \"1.0.0\", \"time\": "
	       "\"2026-01-01T00:00:00.000Z\", \"host\": \"simulated\", \"role\": \"client\", "
	       "\"session\": 1, \"operation\": \"write\", \"peer\": \"192.0.2.1\", \"peer_port\": "
	       "4711, \"local_address\": \"192.0.2.2\", \"transport\": \"RoCE\", \"device\": "
	       "\"mlx5_0\", \"path_mtu\": 4096, \"tos\": 0, \"size\": 1048576, \"iters\": null, "
	       "\"duration\": 2, \"one_way\": true, \"check\": false, \"min_rate\": null, "
	       "\"timeout\": 5, \"bytes\": 25000000000, \"operations\": 23842, \"seconds\": "
	       "2.000041, \"bytes_per_second\": %.2f, \"bits_per_second\": %.2f, "
	       "\"ops_per_second\": 11920.75, \"request_bytes\": 1048576, \"depth\": 16, "
	       "\"latency_us\": null, \"received_bytes\": 0, \"verified\": false, "
	       "\"verified_bytes\": 0, \"error_counters\": {  }, \"congestion_counters\": {  }, "
	       "\"peer_error_count\": 0, \"status\": 0, \"error\": null }\n",
	       rate / 8, rate);
}

static bool is_served(const char *host)
{
	int file = open_state("server", host, O_RDWR);
	bool is_free = file < 0 || !flock(file, LOCK_SH | LOCK_NB);

	if (file >= 0)
		close(file);
	return !is_free;
}

static void end_server(const char *host)
{
	int file = open_state("server", host, O_WRONLY);

	if (file >= 0 && write(file, "x", 1) == 1)
		close(file);
}

static int run_client(int count, char **arguments, const char *from)
{
	char to[NAME_SIZE], *rail;
	int timeout = 5;

	for (int i = 1; i + 1 < count; i++)
		if (!strcmp(arguments[i], "--timeout"))
			timeout = atoi(arguments[i + 1]);
	snprintf(to, sizeof(to), "%s", arguments[count - 2]);
	rail = strchr(to, '.');
	if (rail)
		*rail++ = '\0';
	if (has_fault("stuck:%s-%s", from, to))
		pause();
	if (has_fault("text:%s-%s", from, to)) {
		puts("rdma-client: Permission denied");
		return 0;
	}
	if (has_fault("loses:%s-%s", from, to) || !is_served(to)) {
		sleep((unsigned int)timeout);
		print_failure(to, timeout);
		return 5;
	}
	print_success(rate_of(from, to, rail ? rail : "1"));
	if (has_fault("dies:%s", to))
		end_server(to);
	return 0;
}

static int print_date(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("%lld%09ld\n", (long long)now.tv_sec + 30, now.tv_nsec);
	return 0;
}

int main(int count, char **arguments)
{
	const char *name = strrchr(arguments[0], '/'), *host = getenv("SIMULATED_HOST");

	name = name ? name + 1 : arguments[0];
	if (!strcmp(name, "on"))
		return count > 3 ? run_on(arguments) : 2;
	if (!strcmp(name, "date"))
		return print_date();
	if (!host)
		return 2;
	return strcmp(name, "rdma-server") ? run_client(count, arguments, host) : run_server(host);
}
