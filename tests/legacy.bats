# Our programs with a program that follows the well-known tutorial on the other side: no hello, no
# digest, 1024 bytes each way, and MSG_DONE does not wait for its reads. tests/peer plays it.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# legacy_client MODE [OPTION]...: on host b, to the server that runs; sets $status and $output.
legacy_client() {
	run --separate-stderr lab run b "$PEER" client "$@" 192.0.2.1 "$port"
}

# legacy_server MODE [OPTION]...: on host a; sets $server and $port.
legacy_server() {
	server_out=$BATS_TEST_TMPDIR/server.out server_err=$BATS_TEST_TMPDIR/server.err
	background a "$server_out" "$server_err" "$PEER" server "$@"
	server=$!
	await_port "$server_out" "$server"
}

# is TEXT LINE...: TEXT consists of these lines.
is() {
	local text=$1 lines
	shift
	printf -v lines '%s\n' "$@"
	diff -u --label expected --label found <(printf '%s' "$lines") <(printf '%s\n' "$text")
}

# ours_serves MODE VERB: three tutorial clients, one after the other, and what the server prints.
ours_serves() {
	local round
	local -a session=("received connection request." "send completed successfully."
		"received MSG_MR. $2 remote memory..." "send completed successfully."
		"send completed successfully." "remote buffer: message from legacy side"
		"peer disconnected.")
	start_server -m "ours" "$1"
	for round in 1 2 3; do
		legacy_client "$1"
		expect 0
		is "$output" "remote buffer: ours"
		wait_for_line "$server_out" "^peer disconnected" "$server" "$round"
	done
	stop_server
	[ "$status" -eq 0 ]
	is "$(cat "$server_out")" "listening on port $port." "${session[@]}" "${session[@]}" "${session[@]}"
	[ ! -s "$server_err" ]
}

# ours_asks MODE VERB: our client with a tutorial server, and what it prints.
ours_asks() {
	legacy_server "$1"
	client -m "ours" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	is "$output" "address resolved." "route resolved." "send completed successfully." \
		"received MSG_MR. $2 remote memory..." "send completed successfully." \
		"send completed successfully." "remote buffer: message from legacy side" "disconnected."
	wait_server
	[ "$status" -eq 0 ]
	is "$(cat "$server_out")" "listening on port $port." "remote buffer: ours"
}

@test "our server serves tutorial clients, read" {
	ours_serves read "reading message from"
}

@test "our server serves tutorial clients, write" {
	ours_serves write "writing message to"
}

@test "our client works with a tutorial server, read" {
	ours_asks read "reading message from"
}

@test "our client works with a tutorial server, write" {
	ours_asks write "writing message to"
}

@test "two tutorial programs work with each other, so the tests' own peer is right" {
	legacy_server write # not read: where neither waits for its own, that fails now and then
	legacy_client write
	expect 0
	is "$output" "remote buffer: message from legacy side"
	wait_server
	[ "$status" -eq 0 ]
}

@test "a message of 1023 bytes is the longest that a tutorial program gets" {
	local longest
	longest=$(printf 'x%.0s' {1..1023})
	legacy_server write
	client -m "$longest" write 192.0.2.1 "$port"
	expect 0
	wait_server
	is "$(tail -n 1 "$server_out")" "remote buffer: $longest"

	start_server -m "$longest" read
	legacy_client read
	expect 0
	is "$output" "remote buffer: $longest"
	stop_server
}

@test "our client says that its message is too long for a tutorial server" {
	local mode
	for mode in read write; do
		legacy_server "$mode"
		client -m "$(printf 'x%.0s' {1..1024})" "$mode" 192.0.2.1 "$port"
		expect 4 "exchanges 1024 bytes both ways and nothing else"
		wait_server
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
	start_server -1 -t 2 write
	start_peer b client write --at disconnect=hang 192.0.2.1 "$port"
	wait_server
	end_peer
	[ "$status" -eq 5 ]
	grep -q "^remote buffer: message from legacy side" "$server_out"
	grep -q -F "nothing was heard" "$server_err"
}

@test "a tutorial server that never disconnects is given up after --timeout" {
	legacy_server read --at disconnect=hang
	client -t 2 read 192.0.2.1 "$port"
	expect 5 "nothing was heard"
	[[ $output == *"remote buffer: message from legacy side"* ]]
	stop_server
}
