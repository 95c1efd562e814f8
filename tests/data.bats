# Data of the user's own: patterns, standard input and output, files that cannot be sent or stored, repeated
# operations, output of them. Payloads of all lengths are in streams.bats. Files lie in $LAB/share, where hosts may write.
# shellcheck shell=bash disable=SC2030,SC2031,SC2154 # bats and helpers.bash set the variables

load helpers

: "${PROGRAMS:?}" "${PEER:?}" # set by helpers.bash

setup_file() {
	prepare_hosts a b
}

setup() {
	folder=$(mktemp -d "$LAB/share/data.XXXXXX")
}

@test "--size: a pattern that both sides check" {
	local mode
	for mode in read write; do
		start_server -1 -s 3M "$mode"
		client -s 100 "$mode" 192.0.2.1 "$port"
		expect 0
		[[ $output == *"remote buffer: a pattern of 3145728 bytes"* ]]
		wait_server
		[ "$status" -eq 0 ]
		grep -q "remote buffer: a pattern of 100 bytes" "$server_out"
	done
}

@test "standard input is sent, standard output gets the bytes alone" {
	random_file there 300000
	random_file back 200001
	start_server -1 -f "$folder/back" -o "$folder/arrived-there" write
	# shellcheck disable=SC2016 # expanded on the host
	run --separate-stderr lab run b sh -c 'cat "$1" | "$2" -f - -o - write 192.0.2.1 "$3" >"$4"' - \
		"$folder/there" "$PROGRAMS/rdma-client" "$port" "$folder/arrived-back"
	expect 0 "remote buffer: "
	wait_server
	cmp "$folder/there" "$folder/arrived-there"
	cmp "$folder/back" "$folder/arrived-back"
}

@test "--output replaces a file, writes to a device, and keeps the old file when a session fails" {
	echo old >"$folder/kept"
	random_file back 5000
	start_server -f "$folder/back" read
	client -o "$folder/kept" read 192.0.2.1 "$port"
	expect 0
	cmp "$folder/back" "$folder/kept"
	client -o /dev/null read 192.0.2.1 "$port"
	expect 0
	lab run b test -c /dev/null
	stop_server
	start_peer_server read --hello --set done.digest=+1
	client -o "$folder/kept" read 192.0.2.1 "$port"
	expect 7
	cmp "$folder/back" "$folder/kept"
	[ "$(count "$folder")" -eq 2 ]
}

# One line for each kind of input that cannot be sent; nothing is connected before.
@test "input that is missing, a folder, or empty: exit status 1" {
	: >"$folder/empty"
	client -f "$folder/missing" read 192.0.2.1 1
	expect 1 "No such file or directory"
	client -f "$folder" read 192.0.2.1 1
	expect 1 "Is a directory"
	client -f "$folder/empty" read 192.0.2.1 1
	expect 1 "it is empty"
}

@test "a file that does not know its size is read to its end" {
	start_server -1 read
	client -f /proc/version read 192.0.2.1 "$port"
	expect 0
	wait_server
	[ "$status" -eq 0 ]
	grep -q "remote buffer: Linux version" "$server_out"
	# files there say that they have a page, and have a line
	start_server -1 -o "$folder/kept" read
	client -f /sys/kernel/notes read 192.0.2.1 "$port"
	expect 0
	wait_server
	lab run b cat /sys/kernel/notes | cmp - "$folder/kept"
	start_server -1 read
	client -f /sys/kernel/uevent_seqnum read 192.0.2.1 "$port"
	expect 0
	wait_server
	grep -q -x 'remote buffer: [0-9]*\\x0a' "$server_out"
}

@test "output that cannot be stored: exit status 1, before anything is transferred" {
	start_server -s 2M write
	client -o "$folder/missing/file" write 192.0.2.1 "$port"
	expect 1 "cannot store 2097152 bytes in"
	[[ $stderr == *"No such file or directory"* ]]
	client -o "$folder" write 192.0.2.1 "$port"
	expect 1 "Is a directory"
	lab run b mkdir -p /run/full
	lab run b mount -t tmpfs -o size=1m tmpfs /run/full
	client -o /run/full/file write 192.0.2.1 "$port"
	lab run b umount /run/full
	expect 1 "No space left on device"
	client write 192.0.2.1 "$port"
	expect 0
	stop_server
	start_server -o "$folder/missing/file" write
	client write 192.0.2.1 "$port"
	refused "the server refused: the server cannot store what it would receive"
	wait_for_line "$server_err" "cannot store 1024 bytes in '$folder/missing/file': No such file or directory" "$server"
}

@test "a payload that cannot be stored after all: the receiver ends with 1, and the sender knows" {
	start_server -1 -o /dev/full write
	client --one-way -s 100K write 192.0.2.1 "$port"
	expect 4 "the peer received the payload and could not store it"
	wait_server
	[ "$status" -eq 1 ]
	grep -q "all is received and verified, but cannot be stored in '/dev/full': No space left on device" "$server_err"
}

@test "a reader that does not read holds up its own session, and no signal" {
	mkfifo "$folder/pipe"
	start_server -t "$LIMIT" -o "$folder/pipe" read
	start_client -t "$LIMIT" read 192.0.2.1 "$port"
	wait_for_line "$client_out" "^remote buffer" "$client"
	client -t "$LIMIT" --one-way read 192.0.2.1 "$port"
	expect 0
	local start
	start=$(milliseconds)
	stop_server
	within 2 "$start" "SIGTERM"
	[ "$status" -eq 0 ]
	wait_client
	[ "$status" -ne 0 ]
}

@test "a reader that comes late gets all, and the sender waits for it" {
	mkfifo "$folder/pipe"
	random_file there 300000
	start_server -1 -t "$LIMIT" -o "$folder/pipe" write
	start_client -t "$LIMIT" --one-way -f "$folder/there" write 192.0.2.1 "$port"
	wait_for_line "$client_out" "^send completed" "$client" 3
	lab run a cat "$folder/pipe" >"$folder/arrived"
	wait_client
	[ "$status" -eq 0 ]
	wait_server
	[ "$status" -eq 0 ]
	cmp "$folder/there" "$folder/arrived"
}

@test "an operation once, twice, 10000 times (5000 over soft-iWARP); one at a time, or more than the device takes" {
	local depth=128 many=10000
	[ "$LAB_TRANSPORT" != siw ] || depth=16 many=5000 # a greater depth may crash its kernel code on host a
	start_server -s 64 read
	for options in "-n 1 --depth 1" "-n 2 --depth 65536" "-n $many --depth $depth"; do
		# shellcheck disable=SC2086 # several options
		client -t "$LIMIT" --one-way --report -J $options read 192.0.2.1 "$port"
		expect 0
		[ "$(json operations)" = "$(cut -d ' ' -f 2 <<<"$options")" ]
		[ "$(json bytes)" -eq $((64 * $(json operations))) ]
		[ "$(json received_bytes verified)" = $'64\nTrue' ]
	done
}

# Adapters of soft-iWARP wait for each other for ever, now and then, when both have more posted than they may ask for.
@test "reads in both directions, more than the adapters ask for at a time" {
	start_server -s 4K -n 1000 --depth 65536 read
	client -s 64K -n 1000 --depth 65536 -J read 192.0.2.1 "$port"
	expect 0
	[ "$(json operations verified)" = $'1000\nTrue' ]
}

@test "--depth 1 measures latencies, --report prints them" {
	start_server -s 8 read
	client --one-way -n 100 --depth 1 read 192.0.2.1 "$port"
	expect 0
	[[ $output =~ "read 800 bytes in 100 operations and "[0-9.]+" s: "[0-9.]+" MB/s ("[0-9.]+" MiB/s, "[0-9.]+" Gbit/s), "[0-9]+" operations/s" ]]
	[[ $output == *"measured with one queue pair, work requests of at most 8 bytes, and at most 1 of them outstanding"* ]]
	[[ $output =~ "latency in us: minimum "[0-9.]+", median "[0-9.]+", 99th percentile "[0-9.]+", 99.9th "[0-9.]+", maximum " ]]
	client --one-way -n 100 --depth 1 -J read 192.0.2.1 "$port"
	expect 0
	python3 -c '
import json, sys
latency = json.loads(sys.argv[1])["latency_us"]
values = [latency[key] for key in ("min", "p50", "p99", "p999", "max")]
assert 0 < values[0] and values[0] <= values[4], values
assert all(low <= high * 1.01 for low, high in zip(values, values[1:])), values' "$output"
}

# timed OPTION...: a client that operates for a second, against the server; what it received is verified. The last
# completion of a stream may come before its end does.
timed() {
	client -J --duration 1 "$@" 192.0.2.1 "$port"
	expect 0
	python3 -c '
import json, sys
outcome = json.loads(sys.argv[1])
assert outcome["seconds"] > 0.5 and outcome["operations"] >= 1 and outcome["verified"], outcome
assert outcome["bytes"] % outcome["operations"] == 0, outcome' "$output"
}

# bats test_tags=roce
@test "--duration: both sides for a time, in both modes, repeating, every pass verified, and longer than the ring" {
	local mode
	for mode in read write; do
		start_server -s 100000 --duration 1 "$mode"
		if [ "$mode" = read ]; then timed -s 64K read; else timed -s 64K --verify-all write; fi
		timed -s 10M "$mode"
		wait_for_line "$server_out" "peer disconnected" "$server" 2
		stop_server
		[ "$status" -eq 0 ]
		[ ! -s "$server_err" ]
		[ "$(grep -c -E "(read|wrote) [0-9]+ bytes in [0-9]+ operations and [0-9]" "$server_out")" -eq 2 ]
	done
	start_server -s 10M read # longer than the ring, and the time is the reader's
	timed --one-way read
	stop_server
}

# until_none_counted TEXT OPTION...: sessions, until one of them says TEXT. Of an adapter that waits for a host that stands
# still some count an error.
until_none_counted() {
	local end=$((SECONDS + LIMIT))
	while :; do
		client "${@:2}" -n 100 -s 64K write 192.0.2.1 "$port"
		expect 0 || return 1
		[[ ! $output =~ $1 ]] || return 0
		[ "$SECONDS" -lt "$end" ] || return 1
	done
}

@test "what the device counts: retransmissions where packets are lost, no errors where none are; soft-iWARP has none" {
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab disturb'
	start_server write
	if [ "$LAB_TRANSPORT" = siw ]; then
		client -J -n 100 -s 64K write 192.0.2.1 "$port"
		expect 0
		[ "$(json errors_counted)" = None ]
		return
	fi
	until_none_counted '"errors_counted": *\{ *\}' -J
	until_none_counted "no errors counted by rdma0"
	lab disturb loss 2%
	client -t "$LIMIT" -J -n 500 -s 1K write 192.0.2.1 "$port"
	expect 0
	[[ $(json errors_counted) =~ (completer_retry_err|rcvd_seq_err|duplicate_request|out_of_seq_request) ]]
}

@test "--min-rate: exit status 8 below it, and all is verified" {
	start_server --min-rate 1 -n 50 -s 4K write
	client -J --min-rate 1 -n 50 -s 4K write 192.0.2.1 "$port"
	expect 0
	client -J --min-rate 90000G -n 50 -s 4K write 192.0.2.1 "$port"
	expect 8 "slower than --min-rate: "
	[ "$(json operations received_bytes verified status)" = $'50\n4096\nTrue\n8' ]
	wait_for_line "$server_out" "peer disconnected" "$server" 2
	stop_server
	[ "$status" -eq 0 ]
	[ ! -s "$server_err" ]
}

@test "--busy-poll: sessions are right, in both modes and with several clients" {
	local mode number pid pids
	for mode in read write; do
		start_server -t "$LIMIT" --busy-poll -n 50 -m "from a server that spins" "$mode"
		pids=
		for number in 1 2 3 4; do
			lab run b "$PROGRAMS/rdma-client" -t "$LIMIT" --busy-poll -n 50 "$mode" 192.0.2.1 "$port" \
				>"$BATS_TEST_TMPDIR/client$number" 3>&- &
			pids="$pids $!"
		done
		for pid in $pids; do wait "$pid"; done
		[ "$(cat "$BATS_TEST_TMPDIR"/client? | grep -c "remote buffer: from a server that spins")" -eq 4 ]
		stop_server
		[ "$status" -eq 0 ]
	done
}

@test "--one-way: the client writes or reads, the server only serves" {
	random_file there 2000000
	start_server -1 -o "$folder/arrived" write
	client --one-way -f "$folder/there" write 192.0.2.1 "$port"
	expect 0
	[[ $output != *"remote buffer"* ]]
	wait_server
	[ "$status" -eq 0 ]
	cmp "$folder/there" "$folder/arrived"
	run ! grep -q "writing message" "$server_out"
	start_server -1 -f "$folder/there" read
	client --one-way -o "$folder/arrived-back" read 192.0.2.1 "$port"
	expect 0
	wait_server
	[ "$status" -eq 0 ]
	cmp "$folder/there" "$folder/arrived-back"
	run ! grep -q "remote buffer" "$server_out"
}

@test "a program without a hello gets text and nothing else: exit status 4" {
	for options in "-s 100" "--one-way"; do
		start_peer_server write
		# shellcheck disable=SC2086 # several options
		client $options write 192.0.2.1 "$port"
		expect 4 "the peer sent no hello"
		wait_peer # it ends when it is left
	done
}

@test "--json: one object that parses, whatever the outcome" {
	client -J read 192.0.2.1 1
	expect 4 "is rdma-server running there, on that port?"
	[ "$(json role operation status)" = $'client\nread\n4' ]
	[[ $stderr == *": $(json error)" ]]
	client -J -t 1 read 192.0.2.77 1
	expect 3
	[ "$(json status)" = 3 ]
	client -J -f "$folder/missing" read 192.0.2.1 1
	expect 1
	[ "$(json status bytes latency_us seconds)" = $'1\n0\nNone\nNone' ]
	start_peer_server read --hello --at done=hang
	client -J -t 5 read 192.0.2.1 "$port"
	expect 5
	[ "$(json status verified)" = $'5\nFalse' ]
	end_peer
	start_peer_server read --hello --at verdict=kill
	client -J read 192.0.2.1 "$port"
	expect 6
	[ "$(json status)" = 6 ]
	start_peer_server read --hello --set done.digest=+1
	client -J read 192.0.2.1 "$port"
	expect 7
	[ "$(json status verified received_bytes)" = $'7\nFalse\n1024' ]
	[ "$(json error)" != None ]
}

@test "--json of a server: a line for each session" {
	start_quiet_server -J -n 3 read
	client -m "first" read 192.0.2.1 "$port"
	expect 0
	wait_for_line "$server_out" . "$server" # it may know of the next client before it knows that this one has left
	client write 192.0.2.1 "$port"
	expect 4
	client -J -n 2 read 192.0.2.1 "$port"
	expect 0
	[ "$(json operations device status error)" = $'2\nrdma0\n0\nNone' ]
	[ "$(json transport)" = "$([ "$LAB_TRANSPORT" = siw ] && echo iWARP || echo RoCE)" ]
	stop_server
	[ "$(wc -l <"$server_out")" -eq 3 ]
	output=$(sed -n 1p "$server_out")
	[ "$(json role operations bytes received_bytes verified status)" = $'server\n3\n3072\n1024\nTrue\n0' ]
	output=$(sed -n 2p "$server_out")
	[ "$(json status error)" = $'4\nrefused: mismatched modes, one side reads and the other writes; start both with the same word' ]
}

@test "--json of a client that is interrupted: 128 and the signal's number" {
	start_peer_server read --hello --at done=hang
	start_client -v -J -t "$LIMIT" read 192.0.2.1 "$port"
	wait_for_line "$client_err" "LOCAL_DONE_SENT" "$client"
	kill -s INT "$client"
	wait_client
	[ "$status" -eq 130 ]
	output=$(<"$client_out")
	[ "$(json status error)" = $'130\ninterrupted before the session was complete' ]
}
