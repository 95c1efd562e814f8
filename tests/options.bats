#!/usr/bin/env bats
# The command lines. Needs no RDMA device: a command line is read before anything is opened.

bats_require_minimum_version 1.5.0
PATH=$BATS_TEST_DIRNAME/..:$PATH

# usage_error MESSAGE COMMAND...: the message, a hint, and exit status 2.
usage_error() {
	local message=$1
	shift
	run -2 --separate-stderr "$@"
	[[ $stderr == *"$message"* ]]
	[[ $stderr == *"Try '"*" --help'."* ]]
	[ -z "$output" ]
}

@test "--help goes to standard output and documents every option and exit status" {
	for program in rdma-server rdma-client; do
		run -0 --separate-stderr "$program" --help
		[ -z "$stderr" ]
		for text in --bind --tos --message --file --size --output --iters --duration --depth --min-rate --busy-poll --report --json \
			--timeout --max-size --verbose --help --version 'read|write'; do
			[[ $output == *"$text"* ]]
		done
		for status in 0 1 2 3 4 5 6 7 8; do
			grep -Eq "(^|[^ ])  +$status  [a-z]" <<<"$output"
		done
		run -0 "$program" -h
		[[ $output == "Usage: $program "* ]]
	done
	run -0 rdma-client --help
	[[ $output == *--one-way* && $output == *--check* ]]
	run -0 rdma-server --help
	for text in --port --one-off --max-sessions; do
		[[ $output == *"$text"* ]]
	done
}

@test "--help fits a screen of 80 columns and 36 lines" {
	for program in rdma-server rdma-client; do
		run -0 "$program" --help
		[ "${#lines[@]}" -le 36 ]
		[ "$(wc -L <<<"$output")" -le 80 ]
	done
}

@test "--version names the program and the version" {
	for program in rdma-server rdma-client; do
		run -0 "$program" --version
		[[ $output =~ ^"$program "[0-9]+\.[0-9]+\.[0-9]+$ ]]
	done
}

@test "a missing or superfluous argument is a usage error" {
	usage_error 'one argument is needed' rdma-server
	usage_error 'one argument is needed' rdma-server read write
	usage_error 'three arguments are needed' rdma-client read
	usage_error 'three arguments are needed' rdma-client read 192.0.2.1
	usage_error 'three arguments are needed' rdma-client read 192.0.2.1 1 2
	usage_error '--check needs ADDRESS' rdma-client --check
	usage_error '--check needs ADDRESS' rdma-client --check read 192.0.2.1 1
	usage_error "PORT is a number from 1 to 65535, not 'x'" rdma-client --check 192.0.2.1 x
}

@test "an option that means nothing to --check is a usage error" {
	local option
	for option in -mx -fx -s1 -ox -n1 --depth=16 --busy-poll --one-way --report --max-size=1G; do
		usage_error '--check goes with --bind, --json, --timeout and --verbose alone' rdma-client "$option" --check 192.0.2.1
		usage_error '--check goes with --bind, --json, --timeout and --verbose alone' rdma-client --check "$option" -v 192.0.2.1
	done
}

@test "an operation that is neither read nor write is a usage error" {
	usage_error "not 'wirte'" rdma-server wirte
	usage_error "not ''" rdma-client '' 192.0.2.1 1
}

@test "a port that is no port is a usage error" {
	for port in 0 65536 -1 ' 1' 1x x '' 99999999999999999999; do
		usage_error "not '$port'" rdma-client read -- 192.0.2.1 "$port"
	done
	for port in 65536 -1 1x ''; do
		usage_error "not '$port'" rdma-server "--port=$port" read
	done
}

@test "a timeout that is no time is a usage error" {
	for seconds in 0 -1 1.5 x ''; do
		usage_error "not '$seconds'" rdma-server "--timeout=$seconds" read
		usage_error "not '$seconds'" rdma-client "--timeout=$seconds" read 192.0.2.1 1
	done
}

@test "unknown options, and options without their argument, are usage errors" {
	usage_error 'unrecognized option' rdma-server --no-such-option read
	usage_error 'invalid option' rdma-client -X read 192.0.2.1 1
	usage_error 'requires an argument' rdma-client read 192.0.2.1 1 -m
	usage_error 'requires an argument' rdma-server read --port
	usage_error 'invalid option' rdma-client -p 1 read 192.0.2.1 1
}

@test "numbers and sizes that are none are usage errors" {
	for number in 0 -1 1.5 x '' 1000000001; do
		usage_error "--iters takes a whole number" rdma-client "--iters=$number" read 192.0.2.1 1
		usage_error "--depth takes a whole number" rdma-server "--depth=$number" read
	done
	for number in 0 -1 1.5 x '' 1000001; do
		usage_error "--max-sessions takes a whole number" rdma-server "--max-sessions=$number" read
	done
	for size in 0 -1 1.5 x '' 1T 99999999999999999999 17179869184G; do
		usage_error "--size takes bytes" rdma-client "--size=$size" read 192.0.2.1 1
		usage_error "--max-size takes bytes" rdma-server "--max-size=$size" read
	done
	usage_error "--size takes at most 9223372036854775807 bytes, not '18446744073709551615'" \
		rdma-client --size=18446744073709551615 write 192.0.2.1 1
	usage_error "--max-size takes at most 9223372036854775807 bytes" rdma-server --max-size=9223372036854775808 read
	usage_error "--size times --iters is more than 9223372036854775807 bytes" rdma-client -s 1073741824G -n 9 write 192.0.2.1 1
	for number in -1 256 1.5 0x10 x ''; do
		usage_error "--tos takes a whole number from 0 to 255" rdma-server "--tos=$number" read
	done
	for rate in 0 -1 1.5 x '' 1T 90Gbit 18446744074G; do
		usage_error "--min-rate takes bit/s" rdma-client "--min-rate=$rate" read 192.0.2.1 1
	done
}

@test "every message of the README's table is one that a test between two hosts asks for" {
	local message count=0
	cd "$BATS_TEST_DIRNAME/.." || return
	while read -r message; do
		count=$((count + 1))
		grep -q -F -e "$message" tests/{pair,data,faults,many,check}.bats tests/helpers.bash || { echo "none asks for: $message"; return 1; }
	done < <(sed -n '/^| message | likely cause/,/^$/p' README.md | cut -d '|' -f 2 | grep -o "\`[^\`]*\`" | tr -d "\`")
	[ "$count" -gt 12 ]
}

# A pipe that is copied, since a server of several clients needs it for each: it has not ended yet.
@test "standard output that is closed at the start is nobody's place, least of all a payload's" {
	local pid status=0
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	"$BATS_TEST_DIRNAME/../rdma-server" --json -f - write <"$BATS_TEST_TMPDIR/pipe" >&- 2>/dev/null 3>&- &
	pid=$!
	exec 8>"$BATS_TEST_TMPDIR/pipe"
	head -c 9000000 /dev/zero >&8
	for ((i = 0; i < 1000; i++)); do
		readlink "/proc/$pid/fd/"* | grep -q deleted && break
		sleep 0.01
	done
	readlink "/proc/$pid/fd/"* | grep -q deleted
	[ "$(readlink "/proc/$pid/fd/1")" = /dev/null ]
	kill "$pid"
	exec 8>&-
	wait "$pid" || status=$? # not by run, whose subshell is nobody's parent
	[ "$status" -eq 143 ]
}

@test "a client, too, lets nothing take the place of a standard output that is closed at the start" {
	local pid status=0
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	exec 8<>"$BATS_TEST_TMPDIR/pipe" # from which nothing comes
	"$BATS_TEST_DIRNAME/../rdma-client" --json -f - write 192.0.2.1 1 <&8 >&- 2>/dev/null 3>&- &
	pid=$!
	for ((i = 0; i < 1000; i++)); do
		[ "$(readlink "/proc/$pid/fd/1")" = /dev/null ] && break
		sleep 0.01
	done
	[ "$(readlink "/proc/$pid/fd/1")" = /dev/null ]
	kill "$pid"
	exec 8>&-
	wait "$pid" || status=$? # not by run, whose subshell is nobody's parent
	[ "$status" -eq 143 ]
}

@test "what is closed at the start cannot be named on the command line" {
	# shellcheck disable=SC2016 # expanded by that shell
	usage_error "descriptor 1 is not open for writing" sh -c 'exec "$@" >&-' - rdma-client -o - read 192.0.2.1 1
	# shellcheck disable=SC2016
	usage_error "descriptor 1 is not open for writing" sh -c 'exec "$@" >&-' - rdma-server -o /dev/stdout read
	usage_error "--output '/dev/fd/99': descriptor 99 is not open for writing" rdma-server -o /dev/fd/99 read
	usage_error "descriptor 0 is not open for writing" rdma-server -o /dev/stdin read </dev/null
	# shellcheck disable=SC2016
	run -1 --separate-stderr sh -c 'exec "$@" <&-' - rdma-client -f - read 192.0.2.1 1
	[[ $stderr == *"cannot read '-': Bad file descriptor"* ]]
}

@test "options that cannot be had together are usage errors" {
	usage_error "--message, --file and --size exclude each other" rdma-server -m x -s 1 read
	usage_error "--message, --file and --size exclude each other" rdma-client -f x -s 1 read 192.0.2.1 1
	usage_error "--iters and --duration exclude each other" rdma-server -n 1 --duration 5 read
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	usage_error "'$BATS_TEST_TMPDIR/fifo' is a pipe or a device, which can be sent once: leave --iters and --duration out" \
		rdma-client -n 2 -f "$BATS_TEST_TMPDIR/fifo" write 192.0.2.1 1
	usage_error "'-' is a pipe or a device, which can be sent once" rdma-server -1 --duration 5 -f - write < <(echo)
	usage_error "both need standard output" rdma-client -J -o - read 192.0.2.1 1
	usage_error "both need standard output" rdma-client -J -o /dev/stdout read 192.0.2.1 1
	usage_error "this side sends no payload" rdma-client --one-way -s 1 read 192.0.2.1 1
	usage_error "nothing is received" rdma-client --one-way -o x write 192.0.2.1 1
}
