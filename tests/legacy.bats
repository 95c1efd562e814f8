# Our programs with a program that follows the well-known tutorial on the other side: no hello, no
# digest, 1024 bytes each way, and MSG_DONE does not wait for its reads. tests/peer plays it; so does
# the smallest pair, which shares no line with the programs.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# ours_serves MODE TEXT COMMAND...: two clients that send TEXT, one after the other, and what the server prints.
ours_serves() {
	local round
	start_server -t "$LIMIT" -m "ours" "$1"
	for round in 1 2; do
		on b "${@:3}" 192.0.2.1 "$port"
		expect 0
		[ "$output" = "remote buffer: ours" ]
		[ -z "$stderr" ]
		wait_for_line "$server_out" "^peer disconnected" "$server" "$round"
	done
	stop_server
	diff <(transcript server "$1" "$2" "$port"; transcript server "$1" "$2" "$port" | tail -n +2) "$server_out"
	[ ! -s "$server_err" ]
}

# ours_asks MODE TEXT COMMAND...: our client with a server that sends TEXT, and what both print.
ours_asks() {
	start_command "${@:3}"
	client -t "$LIMIT" -m "ours" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client "$1" "$2") - <<<"$output"
	expect_end server 0
	diff <(printf '%s\n' "listening on port $port." "remote buffer: ours") "$server_out"
	[ ! -s "$server_err" ]
}

@test "our server serves tutorial clients" {
	ours_serves read "message from legacy side" "$PEER" client read
	ours_serves write "message from legacy side" "$PEER" client write
}

@test "our client works with a tutorial server" {
	ours_asks read "message from legacy side" "$PEER" server read
	ours_asks write "message from legacy side" "$PEER" server write
}

@test "our server serves the smallest client" {
	ours_serves write "message from the smallest client" "$SMALLEST/client"
}

@test "our server serves the smallest client over IPv6" {
	start_server write
	on b "$SMALLEST/client" fd00::1 "$port"
	expect 0
}

@test "our client works with the smallest server" {
	ours_asks write "message from the smallest server" "$SMALLEST/server"
}

@test "the smallest client and the smallest server work with each other" {
	local address
	for address in 192.0.2.1 host-a; do # the first address of host-a is an IPv6 one
		start_command "$SMALLEST/server"
		on b "$SMALLEST/client" "$address" "$port"
		expect 0
		[ "$output" = "remote buffer: message from the smallest server" ]
		[ -z "$stderr" ]
		expect_end server 0
		[ "$(tail -n 1 "$server_out")" = "remote buffer: message from the smallest client" ]
		[ ! -s "$server_err" ]
	done
}
