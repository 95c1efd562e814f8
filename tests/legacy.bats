# Our programs with a program that follows the well-known tutorial on the other side: no hello, no
# digest, 1024 bytes each way, and MSG_DONE does not wait for its reads. tests/peer plays it; so does
# the smallest client, whose MSG_DONE waits, and which shares no line with the programs.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# legacy_client MODE [OPTION]...: on host b, to the server that runs; sets $status and $output.
legacy_client() {
	run --separate-stderr lab run b "$PEER" client "$@" 192.0.2.1 "$port"
}

# ours_serves MODE: three tutorial clients, one after the other, and what the server prints.
ours_serves() {
	local round text="message from legacy side"
	start_server -m "ours" "$1"
	for round in 1 2 3; do
		legacy_client "$1"
		expect 0
		[ "$output" = "remote buffer: ours" ]
		wait_for_line "$server_out" "^peer disconnected" "$server" "$round"
	done
	stop_server
	[ "$status" -eq 0 ]
	diff <(transcript server "$1" "$text" "$port"; for round in 2 3; do transcript server "$1" "$text" "$port" | tail -n +2; done) \
		"$server_out"
	[ ! -s "$server_err" ]
}

# ours_asks MODE: our client with a tutorial server, and what it prints.
ours_asks() {
	start_peer_server "$1"
	client -m "ours" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client "$1" "message from legacy side") - <<<"$output"
	wait_peer
	[ "$status" -eq 0 ]
	diff <(printf '%s\n' "listening on port $port." "remote buffer: ours") "$peer_out"
}

@test "our server serves tutorial clients, read" {
	ours_serves read
}

@test "our server serves tutorial clients, write" {
	ours_serves write
}

@test "our client works with a tutorial server, read" {
	ours_asks read
}

@test "our client works with a tutorial server, write" {
	ours_asks write
}

# smallest MODE: the smallest client, on host b; sets $status, $output and $stderr.
smallest() {
	run --separate-stderr lab run b "$SMALLEST" "$1" 192.0.2.1 "$port"
}

@test "our server serves the smallest client, read and write" {
	local mode text="message from the smallest client"
	for mode in read write; do
		start_server -1 -t "$LIMIT" -m "ours" "$mode"
		smallest "$mode"
		expect 0
		[ "$output" = "remote buffer: ours" ]
		[ -z "$stderr" ]
		wait_server
		[ "$status" -eq 0 ]
		diff <(transcript server "$mode" "$text" "$port") "$server_out"
		[ ! -s "$server_err" ]
	done
}

@test "the smallest client says that the server went away, is silent, or is not there" {
	local mode
	for mode in read write; do
		start_peer_server "$mode" --at done=kill
		smallest "$mode"
		expect 1 "cannot complete"
		wait_peer
		smallest "$mode"
		expect 1 "cannot connect"
	done
	start_peer_server read --at mr=hang
	smallest read
	expect 1 "cannot wait: Connection timed out"
}

@test "two tutorial programs work with each other, so the tests' own peer is right" {
	start_peer_server write # not read: where neither waits for its own, that fails now and then
	legacy_client write
	expect 0
	[ "$output" = "remote buffer: message from legacy side" ]
	wait_peer
	[ "$status" -eq 0 ]
}

@test "a message of 1023 bytes is the longest that a tutorial program gets" {
	local longest
	longest=$(printf 'x%.0s' {1..1023})
	start_peer_server write
	client -m "$longest" write 192.0.2.1 "$port"
	expect 0
	wait_peer
	[ "$(tail -n 1 "$peer_out")" = "remote buffer: $longest" ]

	start_server -m "$longest" read
	legacy_client read
	expect 0
	[ "$output" = "remote buffer: $longest" ]
	stop_server
}

@test "our client says that its message is too long for a tutorial server" {
	local mode
	for mode in read write; do
		start_peer_server "$mode"
		client -m "$(printf 'x%.0s' {1..1024})" "$mode" 192.0.2.1 "$port"
		expect 4 "exchanges 1024 bytes both ways and nothing else"
		wait_peer
	done
}

@test "our server says that its message is too long for a tutorial client, and refuses it" {
	local mode
	for mode in read write; do
		start_server -m "$(printf 'x%.0s' {1..1024})" "$mode"
		legacy_client "$mode"
		[ "$status" -eq 1 ]
		[[ $output == *rejected* ]]
		stop_server
		[ "$status" -eq 0 ]
		grep -q -F "exchanges 1024 bytes both ways and nothing else" "$server_err"
	done
}

@test "a tutorial client that never disconnects is given up after --timeout" {
	start_server -1 -t 10 write
	start_peer b client write --at disconnect=hang 192.0.2.1 "$port"
	wait_server
	end_peer
	[ "$status" -eq 5 ]
	grep -q "^remote buffer: message from legacy side" "$server_out"
	grep -q -F "nothing happened" "$server_err"
}

@test "a tutorial server that never disconnects is given up after --timeout" {
	start_peer_server read --at disconnect=hang
	client -t 10 read 192.0.2.1 "$port"
	expect 5 "nothing happened"
	[[ $output == *"remote buffer: message from legacy side"* ]]
}

@test "--output with a tutorial program on the other side is refused, and replaces nothing" {
	lab run a sh -c 'echo old >/run/kept'
	start_server -o /run/kept write
	legacy_client write
	[[ $output == *rejected* ]]
	stop_server
	[ "$status" -eq 0 ]
	grep -q -F "the peer sent no hello, so nothing that it sends can be verified" "$server_err"
	[ "$(lab run a cat /run/kept)" = old ]

	start_peer_server read
	client -o /run/kept read 192.0.2.1 "$port"
	expect 4 "the peer sent no hello, so nothing that it sends can be verified"
}
