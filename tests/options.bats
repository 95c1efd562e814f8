#!/usr/bin/env bats
# The command lines. These tests need no RDMA device: the programs parse the command line before they open anything.

bats_require_minimum_version 1.5.0
PATH=$BATS_TEST_DIRNAME/..:$PATH

# usage_error MESSAGE COMMAND...: check that COMMAND prints MESSAGE and the hint about --help, and exits with 2.
usage_error() {
	run -2 --separate-stderr "${@:2}"
	[[ $stderr == *"$1"* ]]
	[[ $stderr == *"Try '"*" --help'."* ]]
	[ -z "$output" ]
}

# manuals.bats compares --help with the pages.
@test "--help prints at most 39 lines of text, of 80 columns, on standard output; --version names the program and the version" {
	for program in rdma-server rdma-client; do
		run -0 --separate-stderr "$program" --help
		[[ $output == "Usage: $program [OPTION]... "*"read|write"* ]]
		[ -z "$stderr" ]
		[ "${#lines[@]}" -le 39 ]
		[ "$(wc -L <<<"$output")" -le 80 ]
		[ "$("$program" -h)" = "$output" ]
		run -0 "$program" --version
		[[ $output =~ ^"$program "[0-9]+\.[0-9]+\.[0-9]+(\+g[0-9a-f]{7,}(\.dirty)?)?$ ]]
	done
}

# One option of each kind; options-test has all numbers and sizes, and the combinations of options.
@test "wrong arguments, options and numbers are usage errors" {
	usage_error 'at most one argument is allowed' rdma-server read write
	usage_error 'three arguments are needed' rdma-client read 192.0.2.1
	usage_error 'three arguments are needed' rdma-client read 192.0.2.1 1 2
	usage_error '--check takes at most two arguments: [ADDRESS [PORT]]' rdma-client --check read 192.0.2.1 1
	usage_error '--bind and --tos apply to a path: give --check an ADDRESS' rdma-client --check --bind 192.0.2.1
	usage_error '--bind and --tos apply to a path: give --check an ADDRESS' rdma-client --check --tos 0
	for option in "--min-rate 1G" "--connections 2" "--duration 1"; do
		# shellcheck disable=SC2086 # two words
		for words in "" 192.0.2.1; do
			usage_error '--duration, --min-rate and --connections need a server: give --check ADDRESS and PORT' rdma-client --check $option $words
		done
	done
	usage_error '--min-rate needs a measured rate: omit --duration 0' rdma-client --check --min-rate 1G --duration 0 192.0.2.1 1
	usage_error 'ADDRESS is empty' rdma-client --check ''
	usage_error 'ADDRESS is empty' rdma-client read '' 1
	usage_error "PORT is a number from 1 to 65535, not 'x'" rdma-client --check 192.0.2.1 x
	usage_error "not 'wirte'" rdma-server wirte
	for port in 0 65536 1x ''; do
		usage_error "not '$port'" rdma-client read 192.0.2.1 "$port"
	done
	usage_error "not '65536'" rdma-server --port=65536 read
	usage_error "the first argument is read or write, not '192.0.2.1'; ADDRESS and PORT follow" rdma-client 192.0.2.1 4700 write
	usage_error "the operation is 'read' or 'write', not 'host'" rdma-client host 4700 write
	usage_error "ADDRESS is an address or a name, not the number '4700'; PORT is the last argument" rdma-client write 4700 192.0.2.1
	usage_error "not the number '192'" rdma-client --check 192
	usage_error "--bind takes an address or a name, not the number '4700'" rdma-client --bind 4700 write 192.0.2.1 1
	usage_error "--bind takes an address or a name, not the number '4700'" rdma-server --bind 4700
	usage_error "the argument is 'read' or 'write', not '4700'; --port takes a port, --bind an address" rdma-server 4700
	usage_error "not '192.0.2.1'; --port takes a port, --bind an address" rdma-server 192.0.2.1
	usage_error "read or write; --port takes a port, --bind an address" rdma-server write 4700
	usage_error 'invalid option' rdma-client -p 1 read 192.0.2.1 1
	usage_error 'requires an argument' rdma-client read 192.0.2.1 1 -m
	usage_error '--max-sessions takes a whole number' rdma-server --max-sessions=0 read
	usage_error "rdma-server: unrecognized option '--no-such-option'" "$BATS_TEST_DIRNAME/../rdma-server" --no-such-option read
	[[ $stderr == "rdma-server: "* ]]
}

# A server for several clients copies the pipe to a deleted file, because each client gets the payload. The test keeps
# the pipe open, so the server is still copying.
@test "if standard output is closed at the start, no other file takes its descriptor" {
	local pid status=0
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	"$BATS_TEST_DIRNAME/../rdma-server" --json -f - write <"$BATS_TEST_TMPDIR/pipe" >&- 2>/dev/null 3>&- &
	pid=$!
	exec 8>"$BATS_TEST_TMPDIR/pipe"
	head -c 9000000 /dev/zero >&8
	# shellcheck disable=SC2016 # expanded by that shell
	timeout 10 sh -c 'until readlink "/proc/$1/fd/"* | grep -q deleted; do sleep 0.01; done' - "$pid"
	[ "$(readlink "/proc/$pid/fd/1")" = /dev/null ]
	kill "$pid"
	exec 8>&-
	wait "$pid" || status=$? # without run, whose subshell cannot wait for $pid
	[ "$status" -eq 143 ]
}

# A shell without job control makes a command with '&' ignore SIGINT. The server waits in open(2) for a writer of the
# pipe.
@test "a signal ends a program that is opening its payload, even if its parent ignored that signal" {
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	# shellcheck disable=SC2016 # expanded by that shell
	run timeout 10 bash -c 'trap "" "$1"; rdma-server -f "$2" read &
		while kill -s "$1" $!; do sleep 0.05; done 2>/dev/null
		wait $!' - INT "$BATS_TEST_TMPDIR/pipe"
	[ "$status" -eq 130 ]
}

without_output() {
	"$@" >&-
}

without_input() {
	"$@" <&-
}

@test "--output and --file reject descriptors that are closed or unsuitable" {
	usage_error "descriptor 1 is not open for writing" without_output rdma-client -o - read 192.0.2.1 1
	usage_error "descriptor 1 is not open for writing" without_output rdma-server -o /dev/stdout read
	usage_error "--output '/dev/stderr' is standard error" rdma-client -o /dev/stderr read 192.0.2.1 1
	usage_error "--output '/dev/fd/99': descriptor 99 is not open for writing" rdma-server -o /dev/fd/99 read
	usage_error "descriptor 0 is not open for writing" rdma-server -o /dev/stdin read </dev/null
	run -1 --separate-stderr without_input rdma-client -f - read 192.0.2.1 1
	[[ $stderr == *"cannot read '-': Bad file descriptor"* ]]
}

@test "a pipe that would be sent twice, or options that exclude each other, are usage errors" {
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	usage_error "'$BATS_TEST_TMPDIR/fifo' is a pipe or a device, which can be sent only once: omit --iters and --duration" \
		rdma-client -n 2 -f "$BATS_TEST_TMPDIR/fifo" write 192.0.2.1 1
	usage_error "'-' is a pipe or a device, which can be sent only once" rdma-server -1 --duration 5 -f - write < <(echo)
	usage_error "'$BATS_TEST_TMPDIR/fifo' is a pipe or a device, which can be sent only once: omit --connections" \
		rdma-client --connections 2 -f "$BATS_TEST_TMPDIR/fifo" read 192.0.2.1 1
	usage_error "--connections and --output exclude each other: each session would store its payload in 'x'" \
		rdma-client --connections 2 -o x read 192.0.2.1 1
	for size in 1G 1; do # 1G is the default
		usage_error "with --one-way and write, this side receives no payload: omit --output and --max-size" \
			rdma-client --one-way --max-size "$size" write 192.0.2.1 1
	done
	usage_error "--one-off serves only one session: omit --max-sessions" rdma-server -1 --max-sessions 1024 read
	usage_error "both need standard output: give --output a file" rdma-client -J -o /dev/stdout read 192.0.2.1 1
	usage_error "--message, --file and --size exclude each other" rdma-server -m x -s 1 read
}

@test "with fewer than 32 descriptors a failure of librdmacm gives exit status 1, and advice to raise the limit" {
	run -1 bash -c 'ulimit -n 31 && exec "$@"' - "$BATS_TEST_DIRNAME/../rdma-client" -t 1 read 192.0.2.1 1
	[[ $output == *"raise the limit of open files ('ulimit -n')"* ]]
}
