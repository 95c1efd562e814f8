# Repeated operations, a stalled reader, busy polling, error counters of a port. streams.bats has payloads of all
# lengths. The files are in $LAB/share, where hosts may write.
# shellcheck shell=bash disable=SC2030,SC2031,SC2154 # bats and helpers.bash set the variables

load helpers

setup() {
	folder=$(mktemp -d "$LAB/share/data.XXXXXX")
}

# bats test_tags=roce
@test "a stalled reader blocks only its own session, and SIGTERM still ends the server" {
	local start
	mkfifo "$folder/pipe"
	start_server -t "$LIMIT" -o "$folder/pipe" read
	start_client -t "$LIMIT" read 192.0.2.1 "$port"
	wait_for_line "$client_out" "^remote buffer" "$client"
	client -t "$LIMIT" --one-way read 192.0.2.1 "$port"
	expect 0
	start=$(milliseconds)
	stop_server
	within 2 "$start" "SIGTERM"
	await_end client
	[ "$status" -ne 0 ]
}

# If both sides post more READs than their adapters send at a time, the adapters of soft-iWARP may wait for each other
# forever.
# bats test_tags=slow
@test "READs in both directions are verified, even if both sides have more of them than the adapters serve at a time" {
	start_server -s 64K -n 1000 --depth 65536 read
	client -s 64K -n 1000 --depth 65536 -J --report read 192.0.2.1 "$port"
	expect 0
	[ "$(json operations verified)" = $'1000\nTrue' ]
	[[ $stderr =~ "the digest of the outgoing payload took 0."0*[1-9][0-9]*" s, the verification of the incoming one 0."0*[1-9] ]]
}

# If WRITEs from host b are lost, only host a sees the gap in the sequence numbers.
# bats test_tags=slow
@test "over RoCE each side counts the errors of its port, and reports them to the peer" {
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab run b tc qdisc del dev eth0 root'
	start_server -J write
	lab run b tc qdisc replace dev eth0 root netem loss 3%
	client -t "$LIMIT" -J --report --one-way --interval 1 -n 1000 -s 1K write 192.0.2.1 "$port"
	expect 0
	wait_for_line "$server_out" '"kind": "session"' "$server"
	python3 - "$LAB_TRANSPORT" "$output" "$(grep '"kind": "session"' "$server_out")" <<-'END'
		import json, sys
		transport, server = sys.argv[1], json.loads(sys.argv[3])
		*intervals, client = map(json.loads, sys.argv[2].splitlines())
		print(client["error_counters"], server["error_counters"])
		assert (client["local_address"], client["peer"]) == ("192.0.2.2", "192.0.2.1"), client
		assert transport == "siw" or (client["transport"], client["path_mtu"]) == ("RoCE", 4096), client
		for one, other in (client, server), (server, client):
		    if transport == "siw":
		        assert one["error_counters"] is None and one["peer_error_count"] is None
		    else:
		        assert one["peer_error_count"] == sum(other["error_counters"].values()) > 0
		if transport != "siw":
		    assert server["error_counters"]["out_of_seq_request"] > 0
		    parts = [sum(interval["error_counters"].values()) for interval in intervals]
		    assert 0 < sum(parts) <= sum(client["error_counters"].values()), parts
	END
	[ "$LAB_TRANSPORT" = siw ] || [[ $stderr =~ "errors counted: "[0-9]+" by this side, "[0-9]+" by the peer" ]]
}

# last_session COUNT: wait until the server with --json has reported COUNT sessions; print the device of the last one, and if its errors were counted.
last_session() {
	wait_for_line "$server_out" '"kind": "session"' "$server" "$1"
	tail -n 1 "$server_out" | python3 -c 'import json, sys
session = json.load(sys.stdin)
print(session["device"], "counted" if session["error_counters"] is not None else "not counted")'
}

@test "a server whose device gets another name reports the new name and the counters, in its next session and to --check" {
	local counted=counted
	[ "$LAB_TRANSPORT" != siw ] || counted="not counted"
	# shellcheck disable=SC2034 # teardown uses it
	repair='lab run a rdma dev set rdma7 name rdma0'
	start_server -J write
	client write 192.0.2.1 "$port"
	expect 0
	[ "$(last_session 1)" = "rdma0 $counted" ]
	lab run a rdma dev set rdma0 name rdma7
	client write 192.0.2.1 "$port"
	expect 0
	[ "$(last_session 2)" = "rdma7 $counted" ]
	client --check --duration 0 192.0.2.1 "$port"
	expect 0
	grep "^server .*, device rdma7" <<<"$output"
	[ "$LAB_TRANSPORT" = siw ] || grep -E "^counters .*(neither device counted errors|errors counted: )" <<<"$output"
	stop_server
}

@test "--busy-poll: sessions with several clients are verified" {
	start_server -t "$LIMIT" --busy-poll -n 50 -m "from a server that spins" read
	# shellcheck disable=SC2016 # expanded on the host
	on b bash -ec 'for i in {1..4}; do "$0" -t "$1" --busy-poll -n 50 read 192.0.2.1 "$2" & pids+=" $!"; done
		for pid in $pids; do wait "$pid"; done' "$PROGRAMS/rdma-client" "$LIMIT" "$port"
	expect 0
	[ "$(grep -c "remote buffer: from a server that spins" <<<"$output")" -eq 4 ]
	stop_server
}
