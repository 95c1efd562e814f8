# Functions for the tests in this folder. In the lab a server runs on host a in the background. Clients run on host b,
# in the foreground unless start_client() starts them.
# shellcheck shell=bash disable=SC2034,SC2154 # variables go to and from bats and the tests

bats_require_minimum_version 1.5.0

top=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
# Put the system's programs first. A user's own Python may not have the packages of tests/setup, and a script that
# selects one of several versions takes longer to start than Python itself.
PATH=$top/tests/lab:/usr/bin:$PATH
# The folder of the programs under test; the sanitizer runs set another one.
PROGRAMS=${PROGRAMS:-$top}
# The other side of a faulty session: it behaves correctly except for the faults in its options.
PEER=${PEER:-$top/build/peer}
# The lessons' programs, in one folder for each lesson. They use no code of this project.
LESSONS=${LESSONS:-$top/build/lessons}

# Maximum time, in seconds, to wait for an event. An expected event takes a small part of that, or never comes. A
# program that is expected to succeed gets the same --timeout.
LIMIT=${LIMIT:-120}

# await COMMAND...: repeat the command until it succeeds, for at most LIMIT seconds.
await() {
	local end=$((SECONDS + LIMIT))
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || { echo "did not succeed within $LIMIT s: $*"; return 1; }
		sleep 0.05
	done
}

# wait_for_line FILE PATTERN PID [COUNT]: wait until COUNT lines (1) of FILE match PATTERN, an extended regular
# expression. Fail after LIMIT seconds, or if the process PID, which writes FILE, ends.
wait_for_line() {
	local count=${4:-1} found
	[ -e "$1" ] || { echo "cannot wait for a line of $1: the file does not exist yet"; return 1; }
	found=$(grep -c -m "$count" -E -e "$2" < <(exec timeout "$LIMIT" tail --pid="$3" -s 0.1 -n +1 -f "$1" 3>&-)) || true
	[ "$found" -lt "$count" ] || return 0
	printf '%s lines instead of %s match %s; the file has:\n' "$found" "$count" "$2"
	cat "$1"
	return 1
}

# await_listener HOST PORT: wait until a program that does not print its port listens; over iWARP also as a TCP socket.
await_listener() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run -w "$LIMIT" "$1" sh -c 'until rdma resource show cm_id | grep -q "state LISTEN .* 0.0.0.0:$1 " &&
			{ [ "$2" != siw ] || ss -Hltn | grep -q " 0.0.0.0:$1 "; }; do
		sleep 0.05
	done' - "$2" "$LAB_TRANSPORT"
}

# await_requests COUNT: wait until host a's kernel has at least COUNT connect requests that the program has not answered.
await_requests() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run -w "$LIMIT" a sh -c 'until [ "$(rdma resource show cm_id | grep -c "state CONNECT ")" -ge "$1" ]; do
			sleep 0.05
		done' - "$1"
}

milliseconds() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# within SECONDS START WHAT [LEAST]: fail if more than SECONDS plus half of LIMIT, or less than LEAST seconds, have
# passed since START (of milliseconds()). SECONDS is the time that an idle machine needs; emulated hosts may take
# several times that. The limit shows that a program notices an event, and does not wait for a --timeout of $LIMIT.
within() {
	local passed=$(($(milliseconds) - $2)) limit=$(($1 + LIMIT / 2)) least=${4:-0}
	echo "$3: $passed ms of at least $least s and at most $limit s, status ${status:-none}"
	[ "$passed" -le $((limit * 1000)) ] && [ "$passed" -ge $((least * 900)) ] # the hosts' clocks differ a little
}

# start WHO HOST COMMAND...: start a server, client or peer (WHO) on HOST in the background. Sets $WHO to its local
# process, $WHO_out and $WHO_err to its output files, which are created before it starts. The lab kills it after five
# minutes.
start() {
	local -n process=$1 out=$1_out err=$1_err
	out=$BATS_TEST_TMPDIR/$1.out err=$BATS_TEST_TMPDIR/$1.err
	: >"$out"
	: >"$err"
	lab run -w 300 "$2" "${@:3}" </dev/null >>"$out" 2>>"$err" 3>&- &
	process=$!
}

# await_port WHO: wait until the server or peer prints its port, on standard output or standard error; sets $port. Fails
# after LIMIT seconds, or if the program ends.
await_port() {
	port=$(sed -n 's/^listening on port \([0-9]*\)\.$/\1/p;T;q' < <(exec timeout "$LIMIT" \
		tail --pid="${!1}" -q -s 0.1 -n +1 -f "$BATS_TEST_TMPDIR/$1".{out,err} 3>&-))
	[ "$port" ] || { echo "the $1 does not listen"; return 1; }
}

# await_end WHO: wait until the program ends by itself; sets $status and $stderr.
await_end() {
	status=0
	wait "${!1}" || status=$?
	printf -v "$1" ''
	stderr=$(<"$BATS_TEST_TMPDIR/$1.err")
}

# expect_end WHO STATUS [TEXT]: wait until the program ends, and check the result with expect().
expect_end() {
	await_end "$1"
	expect "${@:2}"
}

# end WHO: kill the program and its children, if it runs.
end() {
	[ "${!1:-}" ] || return 0
	kill -s KILL "${!1}" 2>/dev/null || true
	wait "${!1}" 2>/dev/null || true
	printf -v "$1" ''
}

# start_command COMMAND...: start COMMAND as the server on host a, and wait until it listens; sets $port, too.
start_command() {
	start server a "$@"
	await_port server
}

# start_server OPTION...: start rdma-server on host a, and wait until it listens; sets $port, too.
start_server() {
	start_command "$PROGRAMS/rdma-server" "$@"
}

# stop_server: send SIGTERM to the server, and check that it exits with 0.
stop_server() {
	kill -s TERM "$server"
	expect_end server 0
}

start_peer() {
	start peer "$1" "$PEER" "${@:2}"
}

# start_peer_server MODE OPTION...: start tests/peer as the server on host a; sets $port, too.
start_peer_server() {
	start_peer a server "$@"
	await_port peer
}

# client OPTION... ARGUMENT...: run rdma-client on host b; sets $status, $output and $stderr.
client() {
	run --separate-stderr lab run b "$PROGRAMS/rdma-client" "$@" </dev/null
}

start_client() {
	start client b "$PROGRAMS/rdma-client" "$@"
}

# serves_well MODE: check that the running server, whose payload is "from the server", exchanges the right contents with
# our client in both directions, and exits with 0 on SIGTERM.
serves_well() {
	client -t "$LIMIT" -m "a good client" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	[[ $output == *"remote buffer: from the server"* ]]
	wait_for_line "$server_out" "remote buffer: a good client\$" "$server"
	stop_server
}

# drop_from_port PORT: drop the packets that host a receives from this source port, until drop_nothing(). The routing
# rule for local addresses would come first, so move it down; TCP must not use the cached route of a connection.
drop_from_port() {
	local protocol=udp
	[ "$LAB_TRANSPORT" != siw ] || protocol=tcp
	# shellcheck disable=SC2016 # expanded on the host
	lab run a sh -e -c 'ip rule add pref 100 lookup local
		ip rule del pref 0
		echo 0 >/proc/sys/net/ipv4/tcp_early_demux
		ip rule add pref 50 ipproto "$1" sport "$2" blackhole' - "$protocol" "$1"
}

# zero_guid HOST DEVICE: let sysfs of the host show node GUID 0 for the device; 'umount' of that file ends it.
zero_guid() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -ec 'echo 0000:0000:0000:0000 >/tmp/node_guid
		mount --bind /tmp/node_guid "/sys/class/infiniband/$1/node_guid"' - "$2"
}

# drop_nothing: end the effects of drop_from_port() and of 'lab disturb'.
drop_nothing() {
	lab disturb
	lab run a sh -c 'ip rule add pref 0 lookup local
		ip rule del pref 50
		ip rule del pref 100
		echo 1 >/proc/sys/net/ipv4/tcp_early_demux'
}

# on HOST COMMAND...: run COMMAND on HOST for at most 2 * LIMIT seconds; sets $status, $output and $stderr.
on() {
	run --separate-stderr lab run -w $((2 * LIMIT)) "$@" </dev/null
}

# "${LIMITED[@]}" KIB COMMAND...: run the command with at most KIB of locked memory, and without the right to exceed that.
# shellcheck disable=SC2016 # expanded on the host
LIMITED=(setpriv --bounding-set "-ipc_lock,-sys_resource" --inh-caps "-ipc_lock,-sys_resource"
	sh -c 'ulimit -l "$0" && exec "$@"')

# random_file NAME LENGTH: create a file of LENGTH random bytes in $folder.
random_file() {
	head -c "$2" /dev/urandom >"$folder/$1"
}

count() {
	find "$1" -mindepth 1 | wc -l
}

# valid_json [FILE...]: check each line of the files, or of standard input, against the JSON schema of the manual pages; print
# each line that does not match, with its file. The schema permits keys that a later version may add; here an unknown key is an
# error.
valid_json() {
	# shellcheck disable=SC2016 # $defs is part of the schema
	python3 -c '
import fileinput, json, jsonschema, sys
def forbid_unknown_keys(schema):
    if isinstance(schema, list):
        for item in schema:
            forbid_unknown_keys(item)
    elif isinstance(schema, dict):
        if "schema" in schema.get("properties", {}):
            schema["additionalProperties"] = False
        for item in [*schema.get("properties", {}).values(), schema.get("items", {})]:
            if "properties" in item or item.get("$ref") == "#/$defs/finding":
                item["unevaluatedProperties"] = False
        forbid_unknown_keys(list(schema.values()))
schema = json.load(open(sys.argv[1]))
forbid_unknown_keys(schema)
validator = jsonschema.Draft202012Validator(schema)
status = 0
for line in fileinput.input(sys.argv[2:]):
    try:
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(line)))
    except ValueError as error:
        wrong = error
    if wrong:
        print(f"{fileinput.filename()}: {str(wrong).splitlines()[0]}\n{line}")
        status = 1
sys.exit(status)' "$top/.man/rdma-pair.schema.json" "$@"
}

# expect_json: queue standard input for valid_json(), in a file with the name of the test. teardown_file() checks the lines of
# all tests at once, because starting Python with its module for schemas takes longer than many runs of a program.
expect_json() {
	cat >>"$BATS_FILE_TMPDIR/${BATS_TEST_DESCRIPTION//\//|}.json"
}

# json KEY...: print the values of these keys in the object in $output, one per line, as Python writes them; the
# object must match the schema. STEP.KEY is the value in the last finding of a step of --check.
json() {
	expect_json <<<"$output"
	python3 -c '
import json, sys
outcome = json.loads(sys.argv[1])
for key in sys.argv[2:]:
    *step, key = key.split(".")
    print((outcome[step[0]][-1] if step else outcome)[key])' "$output" "$@"
}

# transcript ROLE MODE BUFFER PORT: print the expected output of a program whose peer sends BUFFER.
transcript() {
	local verb='writing message to'
	[ "$2" = write ] || verb='reading message from'
	if [ "$1" = server ]; then
		printf 'listening on port %s.\nreceived connection request.\n' "$4"
	else
		printf 'address resolved.\nroute resolved.\n'
	fi
	cat <<-END
		send completed successfully.
		received MSG_MR. $verb remote memory...
		send completed successfully.
		send completed successfully.
		remote buffer: $3
	END
	if [ "$1" = server ]; then echo 'peer disconnected.'; else echo 'disconnected.'; fi
}

# Prepare hosts a and b before the first test of a file; files that need other hosts define their own setup_file().
# All programs on the hosts may lock all memory: large payloads and many clients lock much, and siw applies the limit
# even to root. Copy the programs into the hosts' memory, at the same paths, unless they are there: a host would read
# a program in the project's folder again at each start, which takes longer than the rest of a short session. One static
# busybox copies them all: any other program would itself have to be read first, with its libraries.
setup_file() {
	local host programs=("$PROGRAMS/rdma-server" "$PROGRAMS/rdma-client" "$PEER") version
	: "${LAB:?these tests run in the lab: tests/lab/lab up -- bats $BATS_TEST_FILENAME}"
	version=$(stat -c '%n %i %Z' "${programs[@]}" 2>&1 | cksum)
	for host in a b; do
		lab run "$host" prlimit --pid 1 --memlock=unlimited
		# shellcheck disable=SC2016 # expanded on the host
		lab run "$host" busybox sh -e -c 'kept=/run/programs/$1
			[ ! -e "$kept" ] || exit 0
			shift
			for file; do
				[ -e "$file" ] || continue # a test that needs a program which is not built fails
				while umount -l "$file" 2>/dev/null; do :; done
				copy=/run/programs$file
				mkdir -p "${copy%/*}"
				cp "$file" "$copy.new"
				mv "$copy.new" "$copy"
				mount --bind "$copy" "$file"
			done
			: >"$kept"' - "${version// /-}" "${programs[@]}"
	done
}

# Show the results of the last command, end the programs that a failed test left running, restore the hosts with the
# command in $repair, show the programs' output, and remove $folder. A test may set $repair and $folder.
teardown() {
	local who file
	[ -z "${status:-}${output:-}${stderr:-}" ] || printf '%s\n' "status ${status:-}" "${output:0:2000}" "${stderr:0:2000}"
	for who in peer client server; do
		end "$who"
	done
	[ -z "${repair:-}" ] || $repair
	for file in "$BATS_TEST_TMPDIR"/{server,peer,client}.{out,err}; do
		[ ! -s "$file" ] || head -n 50 "$file" | cut -c 1-2000 | sed "s/^/${file##*/}: /"
	done
	[ -z "${folder:-}" ] || rm -rf "$folder"
}

# Check the JSON objects of all tests of the file.
teardown_file() {
	local objects=("$BATS_FILE_TMPDIR"/*.json)
	[ ! -e "${objects[0]}" ] || valid_json "${objects[@]}"
}

# expect STATUS [TEXT]: check that the last command exited with STATUS, or one of several (5|6), and that its standard
# error contains TEXT.
expect() {
	if [[ ! $status =~ ^($1)$ ]]; then
		echo "exit status $status instead of $1"
		return 1
	fi
	if [ -n "${2:-}" ] && [[ ${stderr:-} != *"$2"* ]]; then
		echo "standard error does not say: $2"
		return 1
	fi
}

# refused TEXT: check that client() got exit status 4 and the server's reason TEXT. Over soft-iWARP the end of the
# connection may overtake the reason: "no reason from the server arrived" is accepted, too.
refused() {
	[[ $LAB_TRANSPORT = siw && $stderr = *"no reason from the server arrived"* ]] || expect 4 "$1"
	expect 4
}
