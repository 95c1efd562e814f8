# Data of the user's own: standard input and output, repeated operations, output of them. Payloads of all lengths are in
# streams.bats. Files lie in $LAB/share, where hosts may write.
# shellcheck shell=bash disable=SC2030,SC2031,SC2154 # bats and helpers.bash set the variables

load helpers

: "${PROGRAMS:?}" # set by helpers.bash

setup_file() {
	prepare_hosts a b
}

setup() {
	folder=$(mktemp -d "$LAB/share/data.XXXXXX")
}

# bats test_tags=roce
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

# serves_and_ends SECONDS: the server takes another client all the same, and a signal ends it in that time.
serves_and_ends() {
	local start
	client -t "$LIMIT" --one-way read 192.0.2.1 "$port"
	expect 0 || return 1
	start=$(milliseconds)
	stop_server
	within "$1" "$start" "SIGTERM" || return 1
	[ "$status" -eq 0 ]
}

# bats test_tags=roce
@test "a reader that does not read holds up its own session, and no signal" {
	mkfifo "$folder/pipe"
	start_server -t "$LIMIT" -o "$folder/pipe" read
	start_client -t "$LIMIT" read 192.0.2.1 "$port"
	wait_for_line "$client_out" "^remote buffer" "$client"
	serves_and_ends 2
	wait_client
	[ "$status" -ne 0 ]
}

# Its helper's fsync(2) does not return.
# bats test_tags=roce
@test "a disk that does not answer holds up its own session, and no signal" {
	gcc -shared -fPIC -o "$folder/disk.so" -x c - <<<"#include <unistd.h>
		int fsync(int descriptor) { for (;;) pause(); return descriptor; }"
	start_command env LD_PRELOAD="$folder/disk.so" "$PROGRAMS/rdma-server" -t 2 -o "$folder/stored"
	client -t "$LIMIT" write 192.0.2.1 "$port"
	expect 6 "the peer went away"
	wait_for_line "$server_err" "storing it did not move" "$server"
	serves_and_ends 3
	[ ! -e "$folder/stored" ]
}

# bats test_tags=slow
@test "an operation once, twice, 1000 times (200 over soft-iWARP); one at a time, or more than the device takes" {
	local depth=128 many=1000 # the queues go round several times
	[ "$LAB_TRANSPORT" != siw ] || depth=16 many=200 # a greater depth may crash its kernel code on host a
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
# bats test_tags=slow
@test "reads in both directions, more than the adapters ask for at a time" {
	start_server -s 4K -n 1000 --depth 65536 read
	client -s 64K -n 1000 --depth 65536 -J read 192.0.2.1 "$port"
	expect 0
	[ "$(json operations verified)" = $'1000\nTrue' ]
}

# until_none_counted TEXT OPTION...: sessions, until one of them says TEXT. Of an adapter that waits for a host that stands
# still some count an error.
until_none_counted() {
	local end=$((SECONDS + LIMIT))
	while :; do
		client -t "$LIMIT" "${@:2}" -n 100 -s 64K write 192.0.2.1 "$port"
		expect 0 || return 1
		[[ ! $output =~ $1 ]] || return 0
		[ "$SECONDS" -lt "$end" ] || return 1
	done
}

# Of WRITEs that are lost on their way from host b, a alone sees that some are missing.
# bats test_tags=slow
@test "which side lost it: each side counts its port's errors, and tells the other how many" {
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab run b tc qdisc del dev eth0 root'
	start_quiet_server -J write
	lab run b tc qdisc replace dev eth0 root netem loss 3%
	client -t "$LIMIT" -J --report --one-way -n 1000 -s 1K write 192.0.2.1 "$port"
	expect 0
	wait_for_line "$server_out" '"kind": "session"' "$server"
	python3 - "$LAB_TRANSPORT" "$output" "$(grep '"kind": "session"' "$server_out")" <<-'END'
		import json, sys
		transport, client, server = sys.argv[1], *map(json.loads, sys.argv[2:])
		print(client["errors_counted"], server["errors_counted"])
		for one, other in (client, server), (server, client):
		    if transport == "siw":
		        assert one["errors_counted"] is None and one["errors_counted_by_peer"] is None
		    else:
		        assert one["errors_counted_by_peer"] == sum(other["errors_counted"].values()) > 0
		assert transport == "siw" or server["errors_counted"]["out_of_seq_request"] > 0
	END
	[ "$LAB_TRANSPORT" = siw ] || [[ $stderr =~ "errors counted: "[0-9]+" here, "[0-9]+" there" ]]
}

# bats test_tags=slow
@test "what the device counts: retransmissions where packets are lost, no errors where none are; soft-iWARP has none" {
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab disturb'
	start_server -t "$LIMIT" write
	if [ "$LAB_TRANSPORT" = siw ]; then
		client -J -n 100 -s 64K write 192.0.2.1 "$port"
		expect 0
		[ "$(json errors_counted)" = None ]
		return
	fi
	until_none_counted '"errors_counted": *\{ *\}' -J
	until_none_counted "no errors counted by rdma0, nor by the peer's device"
	lab disturb loss 2%
	client -t "$LIMIT" -J -n 500 -s 1K write 192.0.2.1 "$port"
	expect 0
	[[ $(json errors_counted) =~ (completer_retry_err|rcvd_seq_err|duplicate_request|out_of_seq_request) ]]
}

@test "--busy-poll: sessions are right, with several clients" {
	local number pid pids=
	start_server -t "$LIMIT" --busy-poll -n 50 -m "from a server that spins" read
	for number in 1 2 3 4; do
		lab run b "$PROGRAMS/rdma-client" -t "$LIMIT" --busy-poll -n 50 read 192.0.2.1 "$port" \
			>"$BATS_TEST_TMPDIR/client$number" 3>&- &
		pids="$pids $!"
	done
	for pid in $pids; do wait "$pid"; done
	[ "$(cat "$BATS_TEST_TMPDIR"/client? | grep -c "remote buffer: from a server that spins")" -eq 4 ]
	stop_server
	[ "$status" -eq 0 ]
}

# bats test_tags=slow,roce
@test "--interval: a path that carries nothing for a while shows" {
	local begun
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab disturb'
	start_server write
	start_client -t "$LIMIT" -J --interval 1 --duration 12 -s 64K --one-way write 192.0.2.1 "$port"
	wait_for_line "$client_out" '"kind": "interval"' "$client" 2
	lab disturb loss 100%
	begun=$(grep -c '"kind": "interval"' "$client_out")
	wait_for_line "$client_out" '"kind": "interval"' "$client" $((begun + 2)) # the second of these is all without the path
	lab disturb
	wait_client
	expect 0
	expect_json <"$client_out"
	python3 - "$client_out" <<-'END'
	import json, sys
	*intervals, session = map(json.loads, open(sys.argv[1]))
	amounts = [i["bytes"] for i in intervals]
	assert sum(amounts) == session["bytes"] and 5 <= len(amounts) <= 13, amounts
	assert min(amounts[2:-1]) < max(amounts) / 4, amounts
	assert all(before["end"] == after["begin"] for before, after in zip(intervals, intervals[1:])), intervals
	assert session["local_address"] == "192.0.2.2" and session["peer"] == "192.0.2.1", session
	assert session["transport"] == "RoCE" and session["path_mtu"] == 4096, session
	errors = [sum((i["errors_counted"] or {}).values()) for i in intervals]
	assert sum(errors) <= sum((session["errors_counted"] or {}).values()), errors
	if session["transport"] == "RoCE":
	    assert sum(errors[2:]) > 0, errors
	END
}
