/* SPDX-License-Identifier: MIT */
/*
 * The command line: the part that both programs share.
 *
 * Threads: any thread reads; the main thread parses.
 */
#ifndef RDMA_COMMON_OPTIONS_H
#define RDMA_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The version, for example "1.0.0". A build from a git checkout adds the commit, "1.0.0+g1234567",
 * and ".dirty" if files are changed.
 */
extern const char program_version[];

#define MAX_CONNECTIONS 128

/* The one-sided operation of a session. The numbers are on the wire. */
enum operation {
	OPERATION_READ = 0,
	OPERATION_WRITE = 1,
	OPERATION_ANY = 256, /* server: each client chooses; never on the wire */
};

/* The connection manager's active side is the client, its passive side the server. */
enum role {
	ROLE_CLIENT,
	ROLE_SERVER,
};

/* Return "read" or "write", or NULL for OPERATION_ANY. The string is static. */
const char *operation_name(enum operation operation);

/* Return "client" or "server". The string is static. */
const char *role_name(enum role role);

enum role other_role(enum role role);

/*
 * Return true if this role sends a payload. Both roles do, except in a one-way session: there the
 * client sends with WRITE, the server with READ.
 */
bool sends_payload(enum role role, enum operation operation, bool one_way);

/*
 * The command line of either program. The strings belong to argv. The table in options.c depends
 * on the types of the fields (enum kind).
 */
struct options {
	enum role role;
	enum operation operation;
	/* The payload. An absent string is NULL, an absent number 0: */
	const char *message;   /* text to send */
	const char *file;      /* file to send; "-" is standard input */
	uint64_t pattern_size; /* bytes of the pattern to send */
	const char *output;    /* file for the incoming payload; "-" is standard output */
	/* The operation. A number that was not given has its default, or is 0: */
	unsigned int iterations;       /* number of times to perform the operation */
	unsigned int duration_seconds; /* time to repeat the operation, or to measure (--check) */
	unsigned int interval_seconds; /* time between two reports of the rate */
	unsigned int depth;       /* maximum number of outstanding work requests of the operation */
	uint64_t minimum_rate;    /* minimum bit/s of this side, or with --check of both sides */
	bool one_way;             /* client: the server performs no operation */
	unsigned int connections; /* client: number of sessions, all at once */
	/*
	 * client: only check this host, or the path to the address
	 * server: the session belongs to a client's --check
	 */
	bool check;
	uint32_t wanted; /* bytes of a pass of the server's pattern. 0 without --check. */
	/* client, --check: seconds of the server's operation. 0 means one pass. */
	uint32_t wanted_seconds;
	bool busy_poll; /* poll the completion queue without sleeping during a session */
	bool report;    /* print amounts, rates and latencies */
	bool json;      /* print the results as JSON objects */
	bool verbose;
	unsigned int timeout_seconds;
	uint64_t maximum_payload;      /* maximum bytes of a payload from a peer */
	bool one_off;                  /* server: exit after the first session */
	unsigned int maximum_sessions; /* server: maximum number of sessions at a time */
	const char *address;           /* client: name or address of the server, or NULL */
	const char *bind; /* local address to connect from or to listen on. NULL means any. */
	unsigned int tos; /* IPv4's TOS byte, or the traffic class of IPv6 and of a GRH */
	const char *port; /* decimal number, or NULL. A server without one takes a free port. */
	uint64_t given;   /* a bit for each option on the command line (is_given()) */
};

/* Return true if the command line has the option that sets the field at this offset. */
bool is_given(const struct options *options, size_t offset);
#define OPTION_GIVEN(options, field) is_given(options, offsetof(struct options, field))

/* Minimum size, in bytes, of a text payload, and the size of the tutorial programs' payload. */
#define DEFAULT_PAYLOAD 1024

/*
 * Maximum bytes of a payload, and of all passes of a pattern. It is the largest size of a file, and
 * below LENGTH_UNKNOWN (wire.h). The sum of two such numbers does not wrap.
 */
#define MAX_PAYLOAD ((uint64_t)INT64_MAX)

#define DEFAULT_TOS 256 /* no TOS byte: the device's configuration decides */

/* Return true if `name`, the argument of --output, means standard output. It may be NULL. */
bool is_standard_output(const char *name);

/* Return true for a server without --one-off. */
bool serves_multiple_clients(const struct options *options);

/* Return the options of this role for an empty command line. */
struct options default_options(enum role role);

int64_t timeout_milliseconds(const struct options *options);

/* Return the number of times to perform the operation. 0 means until --duration is over. */
uint64_t operation_passes(const struct options *options);

/* Return true if the session prints amounts and rates: --report, --iters above 1, or --duration. */
bool prints_figures(const struct options *options);

/* The step after parsing the command line. */
enum parsed {
	PARSED_RUN,    /* run the program */
	PARSED_EXIT,   /* --help or --version was printed: exit with status 0 */
	PARSED_FAILED, /* a message was printed: exit with STATUS_USAGE */
};

/*
 * Parse the options into `*options`, which has the defaults. `usage` is the text of --help before
 * the options. The remaining words are in argv from optind on (getopt(3)).
 */
enum parsed parse_options(struct options *options, const char *usage, int argc, char **argv);

/* Return PARSED_RUN, or PARSED_FAILED after a message if the options conflict. */
enum parsed check_options(const struct options *options);

/* Set `*operation` from `read` or `write`. Return false after a message for another word. */
bool parse_operation(const char *word, enum operation *operation);

/* Return true for digits alone, which getaddrinfo(3) takes for an IPv4 address. */
bool is_decimal(const char *text);

/* Return true if the word has a digit or a colon, as a port or an address has. */
bool looks_like_endpoint(const char *word);

/* Return true if `text` is a decimal number from `minimum` to `maximum`. Store the number. */
bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number);

/* Print a usage error, and where to find help. `format` may be NULL. Return PARSED_FAILED. */
enum parsed usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
