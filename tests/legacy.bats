# Our programs with a program that follows the well-known tutorial on the other side: no hello, no
# digest, 1024 bytes each way, and MSG_DONE does not wait for its reads. tests/peer plays it; so does
# the smallest pair, which shares no line with the programs.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# legacy_client MODE [OPTION]...: on host b, to the server that runs; sets $status and $output.
legacy_client() {
	run --separate-stderr lab run b "$PEER" client "$@" 192.0.2.1 "$port"
}

# ours_serves MODE: two tutorial clients, one after the other, and what the server prints.
ours_serves() {
	local round text="message from legacy side"
	start_server -t "$LIMIT" -m "ours" "$1"
	for round in 1 2; do
		legacy_client "$1"
		expect 0
		[ "$output" = "remote buffer: ours" ]
		wait_for_line "$server_out" "^peer disconnected" "$server" "$round"
	done
	stop_server
	diff <(transcript server "$1" "$text" "$port"; transcript server "$1" "$text" "$port" | tail -n +2) "$server_out"
	[ ! -s "$server_err" ]
}

# ours_asks MODE: our client with a tutorial server, and what it prints.
ours_asks() {
	start_peer_server "$1"
	client -t "$LIMIT" -m "ours" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client "$1" "message from legacy side") - <<<"$output"
	expect_end peer 0
	diff <(printf '%s\n' "listening on port $port." "remote buffer: ours") "$peer_out"
}

@test "our server serves tutorial clients" {
	ours_serves read
	ours_serves write
}

@test "our client works with a tutorial server" {
	ours_asks read
	ours_asks write
}

# smallest_client: on host b; sets $status, $output and $stderr.
smallest_client() {
	run --separate-stderr lab run b "$SMALLEST/client" 192.0.2.1 "$port"
}

@test "our server serves the smallest client" {
	start_server -1 -t "$LIMIT" -m "ours" write
	smallest_client
	expect 0
	[ "$output" = "remote buffer: ours" ]
	[ -z "$stderr" ]
	expect_end server 0
	diff <(transcript server write "message from the smallest client" "$port") "$server_out"
	[ ! -s "$server_err" ]
}

@test "our client works with the smallest server" {
	start_command "$SMALLEST/server"
	client -t "$LIMIT" -m "ours" write 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client write "message from the smallest server") - <<<"$output"
	expect_end server 0
	diff <(printf '%s\n' "listening on port $port." "remote buffer: ours") "$server_out"
	[ ! -s "$server_err" ]
}

@test "the smallest client and the smallest server work with each other" {
	local round
	for round in 1 2; do
		start_command "$SMALLEST/server"
		smallest_client
		expect 0
		[ "$output" = "remote buffer: message from the smallest server" ]
		[ -z "$stderr" ]
		expect_end server 0
		[ "$(tail -n 1 "$server_out")" = "remote buffer: message from the smallest client" ]
		[ ! -s "$server_err" ]
	done
}
