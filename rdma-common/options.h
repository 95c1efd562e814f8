/* SPDX-License-Identifier: MIT */
/*
 * The command line: what both programs have in common.
 */
#ifndef RDMA_COMMON_OPTIONS_H
#define RDMA_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRAM_VERSION "0.1.0"

/* Sessions that a client has at once at most, with --connections. */
#define MOST_CONNECTIONS 128

/* The one-sided operation that both sides perform. The numbers are on the wire. */
enum operation {
	OPERATION_READ = 0,
	OPERATION_WRITE = 1,
	OPERATION_ANY = 256, /* of a server: whichever the client's hello says; never on the wire */
};

/* The connection manager's active side is the client, its passive side the server. */
enum role {
	ROLE_CLIENT,
	ROLE_SERVER,
};

/* "read" or "write"; NULL: OPERATION_ANY. The string is static. */
const char *operation_name(enum operation operation);

/* "client" or "server". The string is static. */
const char *role_name(enum role role);

/* The role of the peer of a side with this role. */
enum role other_role(enum role role);

/* True if a side sends a payload; in a one-way session it flows in one direction only. */
bool sends_payload(enum role role, enum operation operation, bool one_way);

/*
 * The command line of either program. The strings belong to argv. The options' table in options.c
 * knows the fields: numbers are unsigned int, sizes and rates uint64_t.
 */
struct options {
	enum role role;
	enum operation operation;
	const char *message;           /* send this text; NULL: the default line of this side */
	const char *file;              /* send the bytes in this file, or on standard input: "-" */
	uint64_t pattern_size;         /* send a generated pattern of so many bytes; 0: none */
	const char *output;            /* store what is received here, or on standard output: "-" */
	unsigned int iterations;       /* how often the operation is performed; 0: not given */
	unsigned int duration_seconds; /* repeat it for so long instead; 0: not given; of --check:
					  measure for so long each; 0: not at all */
	unsigned int interval_seconds; /* report the rate so often; 0: not given */
	unsigned int depth;       /* work requests of the operation that are outstanding at most */
	bool every_pass;          /* verify each performance of the operation, not the last */
	uint64_t minimum_rate;    /* bit/s: a slower operation of this side is a failure; 0: none */
	bool one_way;             /* client: the server performs no operation */
	unsigned int connections; /* client: sessions with the server, all at once */
	bool check;               /* client: only examine the path to the address */
	bool busy_poll;           /* spin for completions as long as a session lasts */
	bool report;              /* print amounts, rates and latencies */
	bool json;                /* print them, and the outcome, as a JSON object */
	bool verbose;
	unsigned int timeout_seconds;
	uint64_t maximum_payload;      /* bytes that are accepted from a peer at most */
	bool one_off;                  /* server: exit after the first session */
	unsigned int maximum_sessions; /* server: that are open at a time */
	const char *address;           /* client: the peer */
	const char *bind; /* connect from, or listen on, this address of the host; NULL: any */
	unsigned int tos; /* the TOS byte of IPv4, or the traffic class of IPv6 and of a GRH */
	const char *port; /* decimal; server: NULL means any free port */
};

/* Smallest payload of text, and what a program that follows the tutorial exchanges, in bytes. */
#define DEFAULT_PAYLOAD 1024

/*
 * Bytes that a payload, and all passes of one that is made here, have at most: as many as the
 * longest file. Above are the number that means a length that is not known (transfer.h), and sums
 * that wrap.
 */
#define LONGEST_PAYLOAD ((uint64_t)INT64_MAX)

#define DEFAULT_TOS 256 /* no byte: none is set, the device's configuration counts */

/* True if the argument of --output means standard output. NULL: it was not given. */
bool is_standard_output(const char *name);

/* Whether a program takes more than one client: a server without --one-off. */
bool serves_many(const struct options *options);

/* The options of a program with this role when the command line says nothing. */
struct options default_options(enum role role);

int64_t timeout_milliseconds(const struct options *options);

/* How often the operation is performed; 0: until --duration is over. */
uint64_t operation_passes(const struct options *options);

/* Whether amounts and rates are printed: --report, or --iters above 1, or --duration. */
bool prints_figures(const struct options *options);

/* The next step once the command line has been parsed. */
enum parsed {
	PARSED_RUN,    /* run the program */
	PARSED_EXIT,   /* --help or --version: it has been printed, exit with success */
	PARSED_FAILED, /* a message has been printed, exit with STATUS_USAGE */
};

/*
 * Parses the options on the command line of a program with the role in `*options`, which has the
 * defaults. `usage` is what its --help says before the options. Words that are none stand in argv
 * from optind (getopt(3)) on.
 */
enum parsed parse_options(struct options *options, const char *usage, int argc, char **argv);

/* Checks that the options go together; prints a message if not. */
enum parsed check_options(const struct options *options);

/* Sets `*operation` from the word `read` or `write`; false, with a message, for any other. */
bool parse_operation(const char *word, enum operation *operation);

/* True if `text` is a decimal number from `minimum` to `maximum`, which is stored in `*number`. */
bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number);

/* Prints a usage error as printf(3) does, and where to find help; returns PARSED_FAILED. */
enum parsed usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
