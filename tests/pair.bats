#!/usr/bin/env bats
# The two programs against each other, on the two hosts of the lab.
# PROGRAMS is the folder of the build under test, SESSIONS the number of successive sessions, CLIENTS the number of
# simultaneous ones. CLIENTS is small over soft-iWARP, which gives up a connect request that is not answered within
# ten seconds.

# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # what $ means inside is for the shell there; helpers set and use variables
load helpers

SESSIONS=${SESSIONS:-12}
[ "${LAB_TRANSPORT:-}" != siw ] || CLIENTS=${CLIENTS:-8}
CLIENTS=${CLIENTS:-20}

# turn a sanitizer's report into an exit status that no test expects; print stack traces
export ASAN_OPTIONS=exitcode=99 TSAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=print_stacktrace=1

# check_transcripts MODE: run one session with default options, and compare the output of both sides line by line.
check_transcripts() {
	start_server "$1"
	server_pid=$(lab run a pidof -s rdma-server)
	client "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client "$1" "message from passive/server side with pid $server_pid") - \
		<<<"$output"
	wait_for_line "$server_out" '^peer disconnected' "$server"
	stop_server
	client_pid=$(sed -n 's/.*active.client side with pid //p' "$server_out")
	[ "$client_pid" -gt 1 ]
	diff <(transcript server "$1" "message from active/client side with pid $client_pid" "$port") \
		"$server_out"
	[ ! -s "$server_err" ]
}

@test "both modes print the documented lines on both hosts" {
	check_transcripts write
	check_transcripts read
}

# server_holds: print the number of the server's descriptors, and how many objects of each kind the device has.
server_holds() {
	lab run a sh -c 'ls "/proc/$(pidof -s rdma-server)/fd" | wc -l; rdma resource show rdma0'
}

# server_memory: print the server's resident memory in KiB, without file-backed pages.
server_memory() {
	lab run a sh -c 'sed -n "s/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$(pidof -s rdma-server)/status"'
}

# holds_only WHAT: return true if server_holds() prints WHAT; sets $held to its output.
holds_only() {
	held=$(server_holds)
	[ "$held" = "$1" ]
}

# holds_one_more_pd WHAT: return true if server_holds() prints WHAT with one more protection domain; sets $held to its
# output. librdmacm keeps a protection domain for each device that a connection has used.
holds_one_more_pd() {
	local pd=${1#*: pd }
	held=$(server_holds)
	[ "$held" = "${1%%: pd *}: pd $((${pd%% *} + 1)) ${pd#* }" ]
}

# some_sessions FIRST LAST: run the sessions with these numbers on host b, alternately in modes read and write; each
# client must receive the server's buffer.
some_sessions() {
	lab run b sh -c 'i=$1; while [ $i -le $2 ]; do
		[ $((i % 2)) -eq 0 ] && mode=read || mode=write
		"$3/rdma-client" -m "message $i" "$mode" 192.0.2.1 "$4" >/tmp/out 2>&1 &&
			grep -qx "remote buffer: from the server" /tmp/out ||
			{ echo "session $i:"; cat /tmp/out; exit 1; }
		i=$((i + 1))
	done' - "$1" "$2" "$PROGRAMS" "$port"
	wait_for_line "$server_out" 'peer disconnected' "$server" "$2"
}

@test "$SESSIONS sessions get the right buffers, and leave no descriptor, object or memory in the server" {
	local idle held before after
	start_server -m 'from the server'
	idle=$(server_holds)
	some_sessions 1 1
	await holds_one_more_pd "$idle" || { printf 'idle:\n%s\nafter one session:\n%s\n' "$idle" "$held"; return 1; }
	idle=$held
	some_sessions 2 6
	before=$(server_memory)
	some_sessions 7 "$SESSIONS"
	await holds_only "$idle" || { printf 'idle:\n%s\nafter all sessions:\n%s\n' "$idle" "$held"; return 1; }
	after=$(server_memory)
	echo "KiB before $before, after $after"
	# sanitizers delay the release of freed memory
	[ "$PROGRAMS" != "$top" ] || [ $((after - before)) -le 64 ]
	stop_server
	# if a client connects before the server sees the previous one leave, the session's lines begin with a number
	diff <(seq -f 'remote buffer: message %.0f' "$SESSIONS") \
		<(sed -nE 's/^(\[[0-9]+\] )?(remote buffer)/\2/p' "$server_out")
	[ ! -s "$server_err" ]
}

# check_sessions FILE MODE: check that each numbered session in a server's output is a complete transcript.
check_sessions() {
	local number message
	while read -r number; do
		message=$(sed -n "s/^\[$number] remote buffer: //p" "$1")
		diff <(transcript server "$2" "$message" 0 | tail -n +2) \
			<(sed -n "s/^\[$number] //p" "$1")
	done < <(sed -n 's/^\[\([0-9]*\)\] received connection request\.$/\1/p' "$1")
}

# The server may lock 8 MiB, the usual limit of an ordinary user.
@test "$CLIENTS clients at once are served, and each numbered session has a complete transcript" {
	start_command "${LIMITED[@]}" 8192 "$PROGRAMS/rdma-server" -t "$LIMIT" read
	lab run b sh -c 'mkdir /run/at-once && cd /run/at-once || exit
		for i in $(seq "$4"); do
			{ "$1/rdma-client" -t "$3" -m "client $i" read 192.0.2.1 "$2" >out.$i 2>&1; echo $? >status.$i; } &
		done; wait
		cat out.*; cat status.* | sort | uniq -c; rm -r /run/at-once' - "$PROGRAMS" "$port" "$LIMIT" \
		"$CLIENTS" >"$BATS_TEST_TMPDIR/clients.out"
	wait_for_line "$server_out" 'peer disconnected' "$server" "$CLIENTS"
	stop_server
	grep -x " *$CLIENTS 0" "$BATS_TEST_TMPDIR/clients.out" || { cat "$BATS_TEST_TMPDIR/clients.out"; return 1; }
	diff <(seq -f 'client %.0f' "$CLIENTS" | sort) \
		<(sed -n 's/^\(\[[0-9]*\] \)\{0,1\}remote buffer: //p' "$server_out" | sort)
	[ "$(grep -c 'remote buffer: message from passive/server' "$BATS_TEST_TMPDIR/clients.out")" -eq "$CLIENTS" ]
	check_sessions "$server_out" read
	[ "$(grep -c 'peer disconnected\.$' "$server_out")" -eq "$CLIENTS" ]
}

@test "sessions work over IPv6 and by a host name; a server with --bind listens on that address only" {
	local address
	start_server write
	for address in fd00::1 host-a 192.0.2.1; do
		client write "$address" "$port"
		expect 0
	done
	stop_server
	start_server -B 192.0.2.1 write
	client -t "$LIMIT" write fd00::1 "$port"
	expect 4
	client write 192.0.2.1 "$port"
	expect 0
	stop_server
}

@test "--bind sets the client's address that the server sees; an address of another host gives exit status 3" {
	repair='lab run b ip address del 192.0.2.9/24 dev eth0'
	lab run b ip address add 192.0.2.9/24 dev eth0
	start_server write
	client -t "$LIMIT" -B 192.0.2.9 write 192.0.2.1 "$port"
	expect 0
	client -t "$LIMIT" -B 192.0.2.9 read 192.0.2.1 "$port"
	expect 4
	wait_for_line "$server_err" '192\.0\.2\.9 port [0-9]+: refused' "$server"
	client -B 192.0.2.1 write 192.0.2.1 "$port"
	expect 3 "cannot resolve the address with --bind '192.0.2.1' as the source: "
	stop_server
}

# start_sniffer PORT: record the packets to or from PORT on host a, as lines "SENDER TYPE-OF-SERVICE SOURCE-PORT"
# without duplicates; lines of the connection manager's packets end with "manager". Sets $packets to the file,
# $sniffer to the process.
start_sniffer() {
	packets=$BATS_TEST_TMPDIR/packets
	: >"$packets"
	lab run -w "$LIMIT" a python3 -IS -c '
import socket, struct, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
print("listening", flush=True)
seen = set()
while True:
    frame = packets.recv(65536)
    header = 14 + frame[14] % 16 * 4
    ports = struct.unpack_from("!HH", frame, header) if frame[12:14] == b"\x08\0" else ()
    manager = frame[23] == 17 and frame[header + 13:header + 16] == b"\0\0\1"  # queue pair 1
    packet = (socket.inet_ntoa(frame[26:30]), frame[15], *ports[:1], *["manager"] * manager)
    if int(sys.argv[1]) in ports and packet not in seen:
        seen.add(packet)
        print(*packet, flush=True)' "$1" >"$packets" 3>&- &
	sniffer=$!
	await grep -q listening "$packets"
}

stop_sniffer() {
	kill "$sniffer"
	wait "$sniffer" || true
}

# bats test_tags=slow
@test "--tos of the client is in the IP headers of both directions over RoCE; soft-iWARP accepts and ignores it" {
	local command
	start_server -v --tos 72 write
	if [ "$LAB_TRANSPORT" = siw ]; then
		client -J --tos 104 write 192.0.2.1 "$port"
		expect 0
		[[ $output == *'"tos": null'* ]]
		client --tos 104 --check 192.0.2.1 "$port"
		expect 0
		[[ $output != *congestion* ]]
		stop_server
		return
	fi
	for command in "-J --tos 104 write" "-J --tos 0x68 --check"; do
		start_sniffer 4791
		# shellcheck disable=SC2086 # several words
		client $command 192.0.2.1 "$port"
		expect 0
		[[ $output == *'"tos": 104'* || $output == *'type of service 104;'* ]]
		await grep -q '^192.0.2.1 104 ' "$packets"
		await grep -q '^192.0.2.2 104 ' "$packets"
		stop_sniffer
		run ! grep -v -e ' 104 ' -e listening "$packets"
	done
	stop_server
	[ "$(grep -c 'type of service 104' "$server_err")" -ge 2 ]
}

# members KEY: print the value of KEY in each session object of $output, in order.
members() {
	python3 -c '
import json, sys
print(*(each[sys.argv[1]] for each in map(json.loads, sys.stdin) if each["kind"] == "session"), sep="\n")' "$1" <<<"$output"
}

# The offset of the 37th session's completion queue is the one that libsiw takes for an error. On a busy machine
# soft-iWARP gives up some of the requests, for another reason.
# bats test_tags=slow
@test "40 sessions at the same time, each of 2 s: no side runs out of queues" {
	start_server write
	client -t "$LIMIT" --connections 40 --duration 2 write 192.0.2.1 "$port"
	[ "$(grep -c "^\[[0-9]*\] source port .*, good$" <<<"$output")" -gt 0 ]
	run ! grep -h -E "(ibv_create_cq|rdma_create_qp) failed" "$server_err" <(echo "$stderr")
	stop_server
}

# seen_from_ports COUNT: return true if packets of the client's sessions came from at least COUNT ports.
seen_from_ports() {
	[ "$(grep -c '^192.0.2.2 [0-9]* [0-9]*$' "$packets")" -ge "$1" ]
}

@test "--connections 8 runs eight verified sessions, each from the source port that it reports" {
	start_server -m "from the server" write
	wire=$port
	[ "$LAB_TRANSPORT" = siw ] || wire=4791
	start_sniffer "$wire"
	client --json -t "$LIMIT" --connections 8 -s 64K -n 50 write 192.0.2.1 "$port"
	expect 0
	await seen_from_ports 7
	stop_sniffer
	sed -n 's/^192.0.2.2 [0-9]* \([0-9]*\)$/\1/p' "$packets" | sort -nu >"$BATS_TEST_TMPDIR/ports"
	expect_json <<<"$output"
	[ "$(members verified | sort | uniq -c | xargs)" = "8 True" ]
	diff "$BATS_TEST_TMPDIR/ports" <(members source_port | sort -nu)
	[ "$(wc -l <"$BATS_TEST_TMPDIR/ports")" -ge 7 ]
	[ "$(members queue_pair | sort -u | wc -l)" -eq 8 ]
	tail -n 1 <<<"$output" | grep '"kind": "sum".*"connections": 8, "succeeded": 8, "bytes": 26214400, .*"status": 0,'
	stop_server
	[ "$(grep -c 'remote buffer: a pattern of 65536 bytes' "$server_out")" -eq 8 ]
}

# bats test_tags=slow
@test "--connections 8: a session whose packets are dropped fails alone, named by its source port" {
	local dropped
	start_server write
	repair=drop_nothing
	lab disturb delay 50ms # packets mostly wait on the wire, so no session waits for a busy processor
	start_client -v --connections 8 -s 4K --depth 1 --one-way --duration 25 -t 10 write 192.0.2.1 "$port"
	wait_for_line "$client_err" 'received MSG_MR|MSG_MR: ' "$client" 8
	dropped=$(sed -n 's/^\[3\] source port \([0-9]*\)$/\1/p' "$client_err")
	drop_from_port "$dropped"
	expect_end client "5|6"
	grep -x "\[3\] source port $dropped, queue pair 0x.*, failed" "$client_out"
	[ "$(grep -c '^\[[124-8]\] source port .*, good$' "$client_out")" -eq 7 ]
	[ "$(grep -c ' 192.0.2.1 port ' "$client_err")" -ge 1 ]
	grep '^7 of 8 sessions succeeded: ' "$client_out"
}

# ---- Failures, and their exit statuses ----

@test "a server of the other mode refuses with the reason: exit status 4" {
	start_server write
	client read 192.0.2.1 "$port"
	refused 'the server refused: the modes differ, one side reads and the other writes'
	client write 192.0.2.1 "$port"
	expect 0
	stop_server
	grep -q '192.0.2.2 port .*: refused: the modes differ, one side reads and the other writes; start both with read, or both with write' "$server_err"
}

@test "a port without a listener is reported: exit status 4" {
	local text='connection rejected: no program listens on that port'
	[ "$LAB_TRANSPORT" != siw ] || text='cannot connect: Connection refused'
	client -t "$LIMIT" write 192.0.2.1 4799
	expect 4 "$text; check that rdma-server runs on that host and listens on that port"
}

@test "an unused address is reported after --timeout: exit status 3" {
	start=$(milliseconds)
	client -t 2 write 192.0.2.99 4799
	expect 3 'the address or route was not resolved within 2 s (--timeout): check that the host is up'
	within 3 "$start" client 2
}

@test "an address without a route, or with a route over another device, is reported: exit status 3, or 5 if it is resolved" {
	client write 203.0.113.5 4799
	expect 3 'cannot resolve the address: Network is unreachable'
	lab run b ip route add 203.0.113.0/24 dev lo
	client -t 2 write 203.0.113.5 4799
	lab run b ip route del 203.0.113.0/24
	if [[ $output == *"address resolved."* ]]; then # Soft-RoCE of newer kernels ignores that the route leads over lo
		expect 5 'no progress for 2 s (--timeout)'
	else
		expect 3 'cannot resolve the address: No such device'
	fi
}

@test "a loopback address is reported with advice, and exit status 3; the host's own address works" {
	local address text="cannot resolve the route: No such device"
	[ "$LAB_TRANSPORT" != siw ] || text="cannot resolve the address: Invalid argument"
	for address in 127.0.0.1 ::1; do
		client write "$address" 4799
		expect 3 "$text; give the address of a network interface that has an RDMA device ('rdma link', 'ip address'), not a loopback address"
	done
	start_server write
	on a "$PROGRAMS/rdma-client" write 192.0.2.1 "$port"
	expect 0
}

@test "a connect request without an answer is reported after --timeout: exit status 5" {
	local text='no progress for 3 s (--timeout)'
	[ "$LAB_TRANSPORT" != siw ] || text='no answer to the connect request'
	lab run b ip neighbour replace 192.0.2.98 lladdr 02:00:00:00:00:62 dev eth0 nud permanent
	start=$(milliseconds)
	client -t 3 write 192.0.2.98 4799
	expect 5 "$text"
	within 5 "$start" client 3
}

# set_port_range FIRST LAST: let host b's kernel choose local ports of this range.
set_port_range() {
	lab run b sysctl -q -w "net.ipv4.ip_local_port_range=$1 $2"
}

@test "--connections 8 with four local ports: four sessions succeed, the other four report that no port is free" {
	repair="set_port_range 32768 60999"
	start_server write
	set_port_range 50000 50003
	client --connections 8 write 192.0.2.1 "$port"
	expect 1
	[ "$(grep -c "cannot resolve the address: no local port is free (net.ipv4.ip_local_port_range)" <<<"$stderr")" -eq 4 ]
	[[ $output == *"4 of 8 sessions succeeded"* ]]
	stop_server
}

@test "the name of an interface or a device in place of an address is named, with the addresses of the interface" {
	local has='192\.0\.2\.[12], fd00::[12], fe80::[0-9a-f:]+%eth0$'
	client -B eth0 write 192.0.2.1 4799
	expect 3
	[[ $stderr =~ "cannot resolve --bind 'eth0': "[A-Z].*"; --bind takes an address; eth0 has "$has ]]
	on a "$PROGRAMS/rdma-server" -B rdma0
	expect 3
	[[ $stderr =~ "cannot resolve --bind 'rdma0': "[A-Z].*"; --bind takes an address; RDMA device rdma0 is on eth0, which has "$has ]]
	client --check rdma0 4799
	expect 3
	[[ $output == *"  -> rdma0 is an RDMA device of this host: give an address or the name of the server's host"* ]]
}

# link_local HOST: print the link-local address of the host.
link_local() {
	lab run "$1" ip -6 -o address show dev eth0 scope link | sed 's,.*inet6 \(.*\)/.*,\1,'
}

@test "--bind with a link-local address needs its interface: the message names it, and with it a session works" {
	local own text="Invalid argument; name the network interface of the link-local address: "
	own=$(link_local a)
	on a "$PROGRAMS/rdma-server" -B "$own" write
	expect 3 "cannot listen on $own, any port: $text$own%eth0"
	on a "$PROGRAMS/rdma-server" -B fe80::77 write
	expect 3 "Invalid argument; no network interface of this host has the address fe80::77 ('ip address')"
	start_server -B "$own%eth0" write
	own=$(link_local b)
	client -B "$own" write "$(link_local a)%eth0" "$port"
	expect 3 "cannot resolve the address with --bind '$own' as the source: $text$own%eth0"
	client --check -B "$own" "$(link_local a)%eth0" "$port"
	expect 3
	[[ $output == *"address     not resolved: Invalid argument"*"  -> ${text#*; }$own%eth0"* ]]
	client -B "$own%eth0" write "$(link_local a)%eth0" "$port"
	expect 0
	stop_server
}

@test "a server exits with 1 if its port is in use, and with 3 if --bind has an address of another host" {
	local also
	start_server write
	for also in "" "-B 192.0.2.1"; do
		# shellcheck disable=SC2086 # none, or two words
		on a "$PROGRAMS/rdma-server" -p "$port" $also write
		expect 1 "port $port: the port is in use; choose another --port"
	done
	on a "$PROGRAMS/rdma-server" -B 192.0.2.2 write
	expect 3 'give --bind an address of a network interface that has an RDMA device'
	stop_server
}
