# What the tests that run the pair in the lab share. Loaded by every .bats file here.
# A server runs on host a in the background, clients run on host b in the foreground.
# shellcheck shell=bash disable=SC2034,SC2154 # variables go to and from bats and the tests

bats_require_minimum_version 1.5.0

top=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
PATH=$top/tests/lab:$PATH
# Where the programs under test are; the sanitizer runs say otherwise.
PROGRAMS=${PROGRAMS:-$top}
# A proper program of this project but for what it is told to do wrong.
PEER=${PEER:-$top/build/peer}

# wait_for_line FILE PATTERN PID [COUNT]: until as many lines match, one by default. Fails when the
# process that writes the file ends before that, or after a minute.
wait_for_line() {
	local count=${4:-1}
	[ "$(grep -c -m "$count" -e "$2" < <(exec timeout 60 tail --pid="$3" -s 0.1 -n +1 -f "$1"))" \
		-eq "$count" ]
}

# await_port FILE PID: until the program that writes the file listens; sets $port.
await_port() {
	wait_for_line "$1" '^listening on port' "$2" || return 1
	port=$(sed -n 's/^listening on port \([0-9]*\)\.$/\1/p' "$1")
}

# allow_memory HOST...: to lock all of it, for all that is started there; siw keeps to the limit even for root.
allow_memory() {
	local host
	for host in "$@"; do
		lab run "$host" prlimit --pid 1 --memlock=unlimited
	done
}

# start_server OPTION...: on host a; sets $server (a process here) and $port.
start_server() {
	server_out=$BATS_TEST_TMPDIR/server.out server_err=$BATS_TEST_TMPDIR/server.err
	: >"$server_out"
	lab run a "$PROGRAMS/rdma-server" "$@" >"$server_out" 2>"$server_err" 3>&- &
	server=$!
	await_port "$server_out" "$server" || { cat "$server_err"; return 1; }
}

# stop_server [SIGNAL]: sets $status to its exit status.
stop_server() {
	kill -s "${1:-TERM}" "$server"
	wait_server
}

# wait_server: until it ends by itself; sets $status.
wait_server() {
	status=0
	wait "$server" || status=$?
	server=
}

# start_peer HOST ARGUMENT...: in the background; sets $peer, and $peer_out with all that it prints.
start_peer() {
	peer_out=$BATS_TEST_TMPDIR/peer.out
	: >"$peer_out"
	lab run -w 120 "$1" "$PEER" "${@:2}" >"$peer_out" 2>&1 3>&- &
	peer=$!
}

# wait_peer: until it ends by itself; sets $status.
wait_peer() {
	status=0
	wait "$peer" || status=$?
	peer=
}

# start_peer_server MODE OPTION...: on host a; sets $port too.
start_peer_server() {
	start_peer a server "$@"
	await_port "$peer_out" "$peer"
}

# end_peer: it and what is left of it.
end_peer() {
	[ -n "${peer:-}" ] || return 0
	kill -s KILL "$peer" 2>/dev/null || true
	wait "$peer" 2>/dev/null || true
	peer=
}

# client OPTION... ARGUMENT...: on host b; sets $status, $output and $stderr.
client() {
	run --separate-stderr lab run b "$PROGRAMS/rdma-client" "$@"
}

# await_requests COUNT: until host a's kernel has as many connect requests that its program has not answered.
await_requests() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run -w 20 a sh -c 'until [ "$(rdma resource show cm_id | grep -c "state CONNECT ")" -eq "$1" ]; do
			sleep 0.05
		done' - "$1"
}

# Whatever a failed test left running.
teardown() {
	[ -z "${server:-}" ] || stop_server KILL || true
	[ "${status:-0}" -eq 0 ] || printf '%s\n' "${output:-}" "${stderr:-}"
	[ ! -e "${server_err:-}" ] || sed 's/^/server: /' "$server_out" "$server_err"
}

# expect STATUS [TEXT]: of the last command; TEXT stands somewhere in its standard error.
expect() {
	if [ "$status" -ne "$1" ]; then
		echo "exit status $status instead of $1"
		return 1
	fi
	if [ -n "${2:-}" ] && [[ ${stderr:-} != *"$2"* ]]; then
		echo "standard error does not say: $2"
		return 1
	fi
}
