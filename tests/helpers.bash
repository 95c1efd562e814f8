# What the tests that run the pair in the lab share. Loaded by every .bats file here.
# A server runs on host a in the background, clients run on host b in the foreground.
# shellcheck shell=bash disable=SC2034,SC2154 # variables go to and from bats and the tests

bats_require_minimum_version 1.5.0

top=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
PATH=$top/tests/lab:$PATH
# Where the programs under test are; the sanitizer runs say otherwise.
PROGRAMS=${PROGRAMS:-$top}

# wait_for_line FILE PATTERN PID [COUNT]: until as many lines match, one by default. Fails when the
# process that writes the file ends before that, or after a minute.
wait_for_line() {
	local count=${4:-1}
	[ "$(grep -c -m "$count" -e "$2" < <(exec timeout 60 tail --pid="$3" -s 0.1 -n +1 -f "$1"))" \
		-eq "$count" ]
}

# start_server OPTION...: on host a; sets $server (a process here) and $port.
start_server() {
	server_out=$BATS_TEST_TMPDIR/server.out server_err=$BATS_TEST_TMPDIR/server.err
	: >"$server_out"
	lab run a "$PROGRAMS/rdma-server" "$@" >"$server_out" 2>"$server_err" 3>&- &
	server=$!
	wait_for_line "$server_out" '^listening on port' "$server" || { cat "$server_err"; return 1; }
	port=$(sed -n 's/^listening on port \([0-9]*\)\.$/\1/p' "$server_out")
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

# client OPTION... ARGUMENT...: on host b; sets $status, $output and $stderr.
client() {
	run --separate-stderr lab run b "$PROGRAMS/rdma-client" "$@"
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
