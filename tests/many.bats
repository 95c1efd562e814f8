# Many clients at the same time, and clients that flood the server with messages.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables
# bats file_tags=slow

load helpers

# soft-iWARP gives up on a connect request without an answer: the server's host after five seconds (the client gets
# CONNECT_ERROR), the client's host after ten (UNREACHABLE). A client may also get a port that an earlier connection
# still uses. All other clients must be served.
@test "a server serves 256 clients at once (at least 16 of 24 over soft-iWARP), then another one" {
	local start served given_up over count=256 least=256
	[ "$LAB_TRANSPORT" != siw ] || count=24 least=16
	start_server -t "$LIMIT" -m "from the server" read
	start=$(milliseconds)
	# shellcheck disable=SC2016 # expanded on the host
	run lab run b sh -c 'for i in $(seq 8); do
			"$1" client read --hello --connections "$3" 192.0.2.1 "$2" &
		done; wait' - "$PEER" "$port" $((count / 8))
	served=$(grep -c -x "remote buffer: from the server" <<<"$output") || true
	given_up=$(grep -c -x -e "over at connect: RDMA_CM_EVENT_CONNECT_ERROR" \
		-e "over at connect: RDMA_CM_EVENT_UNREACHABLE" \
		-e "over at ask: Cannot assign requested address" <<<"$output") || true
	over=$(grep -c "^over at" <<<"$output") || true
	output=$(sort <<<"$output" | uniq -c) # short enough to be shown
	within 200 "$start" "$count clients"
	[ "$((served + given_up))" -eq "$count" ]
	[ "$served" -ge "$least" ]
	serves_well read
	[ "$(wc -l <"$server_err")" -le "$over" ]
}

ten_sessions() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run b bash -ec 'for i in {1..10}; do "$0" -t "$2" "$3" 192.0.2.1 "$1" >/dev/null; done' \
		"$PROGRAMS/rdma-client" "$port" "$LIMIT" "$1"
}

# Each MSG_WINDOW reports progress, and the peer sends no more of them than allowed: the flood only keeps the
# session's thread busy. Over iWARP the connection ends if a message arrives without a posted receive.
# bats test_tags=roce
@test "a peer that floods a session with windows does not delay other sessions" {
	local start mode
	for mode in write read; do
		start_server -t "$LIMIT" "$mode"
		start_peer b client "$mode" --hello --length 65536 --connections 8 --rounds 1000 --at operation=flood 192.0.2.1 "$port"
		start=$(milliseconds)
		ten_sessions "$mode"
		within 10 "$start" "ten sessions beside floods"
		kill -0 "$peer" # the flood has not ended yet
		end peer
		stop_server
		[ "$(grep -c "remote buffer: message from active" "$server_out")" -eq 10 ]
	done
}
