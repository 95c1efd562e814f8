# Faults on the other side, on the path and on this side. Read this file as a table: each line has a fault, the modes,
# and the standard error, the exit status and the time limit of the program under test. The other side is tests/peer,
# which behaves correctly except for the named fault. This file has the faults that need a kernel or a wire; the unit
# tests and fake-*.bats have the invalid messages of a peer.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

GONE="the peer left before the session was complete"
SILENT="no progress for [0-9]+ s \\(--timeout\\): check that the peer is running"
NO_MESSAGE="that are not a message of this protocol"
STOPPED="interrupted before the session was complete"
# siw reports no access error to the side that requested the access: that side sees its connection end
ACCESS="remote access error" DENIED=4
# seconds within which an interrupted client that is connecting must end; over siw the kernel lets it exit only after
# the ten seconds of an unanswered request
CONNECTING=4
# status after a message of a wrong length; over iWARP the connection may break instead, because the faulty
# server does not let the client send first, or because the message is too long
BROKEN=7
[ "$LAB_TRANSPORT" != siw ] || { ACCESS=$GONE DENIED=6 CONNECTING=11 BROKEN="6|7"; }
# With this number of operations a session is still running when the fault happens, on any host.
ENDLESS="-n 1000000"

# ---- Helpers of the rows ----

# ends STATUS TEXT: check that the program ended with this status, or with one of several (5|6), and that its standard
# error matches TEXT (an extended regular expression). With status 0 and an empty TEXT, standard error must be empty.
ends() {
	expect "$1"
	if [ "$status" -eq 0 ] && [ -z "$2" ]; then
		[ -z "$stderr" ]
	elif ! [[ -n $stderr && $stderr =~ $2 ]]; then
		echo "standard error does not say: $2"
		return 1
	fi
}

# client_against MODES STATUS SECONDS TEXT PEER-OPTION...: run our client against a peer that is the server, in each
# mode (both: read, then write). The client must end within SECONDS as STATUS and TEXT require.
client_against() {
	local mode start
	for mode in ${1/both/read write}; do
		start_peer_server "$mode" --hello "${@:5}"
		start=$(milliseconds)
		client -t "$LIMIT" "$mode" 192.0.2.1 "$port"
		within "$3" "$start" "$mode"
		ends "$2" "$4"
		end peer
	done
}

# server_against MODES SECONDS TEXT PEER-OPTION...: run our server against a peer that is the client, in each mode.
# The server must report one line with TEXT within SECONDS, then serve another client in both directions without a
# message, and exit with 0.
server_against() {
	local mode start
	for mode in ${1/both/read write}; do
		start_server -t "$LIMIT" -m "from the server" "$mode"
		start=$(milliseconds)
		start_peer b client "$mode" --hello "${@:4}" 192.0.2.1 "$port"
		wait_for_line "$server_err" "$3" "$server"
		status=
		within "$2" "$start" "$mode"
		end peer
		serves_well "$mode"
		[ "$(wc -l <"$server_err")" -eq 1 ]
	done
}

# ---- Our client and a faulty server ----
#                                                                             modes st s  text          what the server does
@test "client: reports a server that is killed before it accepts"           { client_against both  4 2 "connection rejected" --at connect=kill; }
@test "client: reports a server that is killed after its MSG_MR"            { client_against both "4|6" 2 "$GONE|$ACCESS" --at operation=kill; }
@test "client: a server that is killed before it disconnects is no failure" { client_against read  0 2 ""            --at disconnect=kill; }
@test "client: reports a server that is killed during a long read"          { client_against read "4|6" 4 "$GONE|$ACCESS" --length 67108864 --at done=flow --at done=kill; }
@test "client: reports a message that is too short"                         { client_against read  "$BROKEN" 2 "$NO_MESSAGE|CONNECT_ERROR" --at mr=short; }
@test "client: reports a message that is too long"                          { client_against read  "$BROKEN" 2 ""    --at mr=long; }
@test "client: reports a region with a wrong address"                       { client_against both $DENIED 2 "$ACCESS" --set mr.address=+0x100000000; }
@test "client: reports a region with a wrong rkey"                          { client_against both $DENIED 2 "$ACCESS" --set mr.rkey=+0x5500; }

# ---- Our server and a faulty client ----
#                                                                        modes s  text          what the client does
@test "server: reports a client that is killed after its request"      { server_against both  4 "$GONE"       --at connect=kill; }
@test "server: reports a client that is killed after its MSG_MR"       { server_against both  2 "$GONE|$ACCESS" --at operation=kill; }
@test "server: reports a client that is killed during a long read"     { server_against read  4 "$GONE|$ACCESS" --length 67108864 --at done=flow --at done=kill; }
@test "server: reports a region with a wrong rkey"                     { server_against both  2 "$ACCESS"     --set mr.rkey=+0x5500; }

# ---- Signals, hosts and links that fail during a session ----

# when WHO MODE OPTIONS STATUS SECONDS TEXT PEER-OPTIONS COMMAND...: start our client, or our server with --one-off,
# with OPTIONS. Run COMMAND when the peer hangs, or when our operation is under way, and check how our program ends.
when() {
	local who=$1 mode=$2 start
	# shellcheck disable=SC2086 # several options
	if [ "$who" = client ]; then
		start_peer_server "$mode" --hello $7
		start_client $3 "$mode" 192.0.2.1 "$port"
	else
		start_server -1 $3 "$mode"
		start_peer b client "$mode" --hello $7 192.0.2.1 "$port"
	fi
	wait_for_line "$peer_out" "^(hanging|flowing)" "$peer"
	start=$(milliseconds)
	"${@:8}"
	await_end "$who"
	within "$5" "$start" "$mode"
	ends "$4" "$6"
}

signal() {
	kill -s "$1" "${!2}"
}

# This number of operations keeps the completion queue busy until the signal arrives.
@test "SIGTERM ends either program in the middle of many operations" {
	local mode who start
	local -A other=([client]=server [server]=client)
	for who in client server; do
		for mode in read write; do
			start_server -1 -t "$LIMIT" -s 8 -n 1000000000 --depth 1024 "$mode"
			start_client -t "$LIMIT" -s 8 -n 1000000000 --depth 1024 "$mode" 192.0.2.1 "$port"
			wait_for_line "$server_out" "remote memory" "$server"
			wait_for_line "$client_out" "remote memory" "$client"
			start=$(milliseconds)
			signal TERM "$who"
			await_end "$who"
			within 2 "$start" "$who, $mode"
			expect 143
			await_end "${other[$who]}"
			[ "$status" -ne 0 ]
		done
	done
}

# retransmits HOST COUNT: return true if the host's TCP has retransmitted at least COUNT times in a row, or has given
# up.
retransmits() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -c 'state=$(ss -Htno state established state fin-wait-1)
		[ -z "$state" ] || echo "$state" | grep -Eq "timer:\(on,[^,]*,([$1-9]|[1-9][0-9]+)\)"' - "$2"
}

# forget_neighbour HOST ADDRESS: give ADDRESS a wrong MAC address in the host's kernel, then none, so that the kernel
# resolves it again.
forget_neighbour() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -ec 'ip neighbour replace "$1" lladdr 02:00:00:00:00:99 dev eth0 nud reachable
		ip neighbour del "$1" dev eth0' - "$2"
}

# stop_host HOST: pause the host's emulator. To the other hosts it looks like a host without power; it resumes without
# a boot.
stop_host() {
	repair="lab resume $1"
	lab pause "$1"
}

# remove_link HOST: start to remove the host's RDMA device. The removal ends once no program has the device open.
remove_link() {
	repair="add_link $1"
	lab run -w "$LIMIT" "$1" rdma link del rdma0 3>&- &
	removal=$!
}

add_link() {
	[ -z "${removal:-}" ] || wait "$removal" || true
	lab run "$1" rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
}

#                                                                    who    mode  options         st    s             text                 the other side                     what happens
@test "client: SIGINT ends a client that is connecting"       { when client read  "-t $LIMIT"     130   "$CONNECTING" "$STOPPED"           "--at connect=hang"                signal INT client; }
@test "client: reports a server's host that stops"            { when client write "-t 3"          5     6             "$SILENT"            "--at mr=hang"                     stop_host a; }
@test "client: a server's host that stops ends a transfer"    { when client read  "-t 3 $ENDLESS" "5|6" 7             ""                   "--length 1048576 --at done=flow"  stop_host a; }
@test "client: a transfer survives a lost MAC address"        { when client read  "-t $LIMIT"     0     10            ""                   "--length 33554432 --at done=flow" forget_neighbour b 192.0.2.1; }
@test "client: reports a removed RDMA link of the server"     { when client read  "-t $LIMIT"     6     5             "$GONE"              "--at mr=hang"                     remove_link a; }
@test "client: reports its own removed RDMA link"             { when client write "-t $LIMIT"     1     5             "device was removed" "--at mr=hang"                     remove_link b; }
@test "one-off: reports a client's host that stops"           { when server write "-t 3"          5     6             "$SILENT"            "--at mr=hang"                     stop_host b; }
@test "one-off: reports its own removed RDMA link"            { when server read  "-t $LIMIT"     1     5             "device was removed" "--at mr=hang"                     remove_link a; }

# discarded HOST: print how many packets the host has discarded because of a checksum. Soft-RoCE does not count these:
# use its counters of sequence gaps and retransmissions, because this network loses no other packets.
discarded() {
	if [ "$LAB_TRANSPORT" = siw ]; then
		lab run "$1" nstat -asz TcpInCsumErrors | sed -n 's/^TcpInCsumErrors *\([0-9]*\).*/\1/p'
	else
		# shellcheck disable=SC2016 # expanded on the host
		lab run "$1" sh -c 'cd /sys/class/infiniband/rdma0/ports/1/hw_counters &&
			echo $(($(cat out_of_seq_request) + $(cat completer_retry_err)))'
	fi
}

# good_or_failed STATUS SENT ARRIVED: check that STATUS is 0 (success) to 7, not that of a signal, and that ARRIVED has
# the bytes of SENT; after a failure ARRIVED may be missing instead.
good_or_failed() {
	[[ $1 =~ ^[0-7]$ ]] || { echo "exit status $1"; return 1; }
	if [ "$1" -eq 0 ] || [ -e "$3" ]; then cmp "$2" "$3"; fi
}

# bats test_tags=slow
@test "a session whose packets are corrupted never stores wrong bytes" {
	local mode memory before
	folder=$(mktemp -d "$LAB/share/faults.XXXXXX")
	random_file there 524288
	random_file back 524288
	before=$(($(discarded a) + $(discarded b)))
	repair="lab disturb"
	lab disturb corrupt 1%
	while read -r mode memory; do # with little memory the ring is short, and is reused many times
		start_command "${LIMITED[@]}" "$memory" "$PROGRAMS/rdma-server" -1 -t "$LIMIT" -f "$folder/back" -o "$folder/arrived-there" "$mode"
		client -t "$LIMIT" -f "$folder/there" -o "$folder/arrived-back" "$mode" 192.0.2.1 "$port"
		good_or_failed "$status" "$folder/back" "$folder/arrived-back"
		await_end server
		good_or_failed "$status" "$folder/there" "$folder/arrived-there"
		rm -f "$folder"/arrived-*
	done <<-END
	read unlimited
	write 256
	END
	echo "discarded: $(discarded a) and $(discarded b), $before before"
	[ $(($(discarded a) + $(discarded b))) -gt "$before" ]
}

# In soft-iWARP a connect fails if more data arrives together with the server's answer, which TCP sends twice here. So
# the server must send nothing until the client's first message has arrived.
@test "a connection is established although the answer to its request is lost once" {
	start_server -1 -v -t "$LIMIT" -m "all is here" read
	lab run a pkill -STOP -x rdma-server
	start_client -t "$LIMIT" read 192.0.2.1 "$port"
	await_requests 1
	repair="lab run a tc qdisc del dev eth0 root"
	if [ "$LAB_TRANSPORT" = siw ]; then # in one command, because siw gives up a connect after ten seconds
		lab run -w "$LIMIT" a sh -c 'tc qdisc add dev eth0 root netem loss 100%
			pkill -CONT -x rdma-server
			until ss -Htno state established | grep -Eq "timer:\(on,[^,]*,[1-9]"; do
				sleep 0.05
			done
			tc qdisc del dev eth0 root'
	else
		lab run a tc qdisc add dev eth0 root netem loss 100%
		lab run a pkill -CONT -x rdma-server
		wait_for_line "$server_err" "rdma_accept" "$server"
		$repair
	fi
	repair=
	expect_end client 0
	grep "^remote buffer: all is here" "$client_out"
	expect_end server 0
}

# The client's verdict is lost. Over soft-iWARP the client exits, and TCP in its kernel retransmits twice before
# packets pass again. Over Soft-RoCE the client waits until the verdict has arrived.
@test "a client's last message arrives even if the network first loses it" {
	start_server -1 -v -t "$LIMIT" write
	start_peer b client write --hello --at verdict=stop 192.0.2.1 "$port"
	wait_for_line "$server_err" "EVENT_VERDICT_SENT" "$server"
	lab run -w "$LIMIT" b sh -c 'until ps -C peer -o stat= | grep -q T; do sleep 0.1; done'
	repair="lab run b tc qdisc del dev eth0 root"
	lab run b tc qdisc add dev eth0 root netem loss 100%
	lab run b pkill -CONT -x peer
	if [ "$LAB_TRANSPORT" = siw ]; then
		await_end peer
		await retransmits b 2
	fi
	$repair
	repair=
	[ -z "$peer" ] || expect_end peer 0
	await_end server
	stderr=$(grep "^rdma-server" "$server_err") || true
	ends 0 ""
}

# ---- Faults on this side ----

# unfound COUNT: the prefix of a command that runs a program as if librdmacm missed the device of the first COUNT
# identifiers (tests/preload/unfound.c).
unfound() {
	echo "env LD_PRELOAD=$top/build/preload/unfound.so UNFOUND=$1"
}

# check_unfound TEXT: run three clients of the running server, which must refuse two, serve one, and print one line,
# with TEXT.
check_unfound() {
	local mode
	for mode in read write; do
		client -t "$LIMIT" "$mode" 192.0.2.1 "$port"
		refused "the server refused: the server could not set up the session; see its messages"
	done
	serves_well read
	grep "rejected a connect request to 192.0.2.1: $1" "$server_err"
	[ "$(wc -l <"$server_err")" -eq 1 ]
}

@test "server: rejects requests whose device librdmacm does not find, warns once, and serves the next client" {
	# shellcheck disable=SC2046 # several words
	start_command $(unfound 2) "$PROGRAMS/rdma-server" -t "$LIMIT" -m "from the server" read
	check_unfound "librdmacm finds no RDMA device for this address"
	repair="lab run a umount /sys/class/infiniband/rdma0/node_guid"
	zero_guid a rdma0
	# shellcheck disable=SC2046 # several words
	start_command $(unfound 2) "$PROGRAMS/rdma-server" -t "$LIMIT" -m "from the server" read
	check_unfound "RDMA device rdma0 has node GUID 0"
}

@test "a device with node GUID 0 is named, and the exit status is 3" {
	local guid="RDMA device rdma0 has node GUID 0, so librdmacm cannot find it: on the host that has the physical function"
	local address options
	repair="lab run a umount /sys/class/infiniband/rdma0/node_guid"
	zero_guid a rdma0
	# shellcheck disable=SC2046,SC2086 # several words
	for address in 192.0.2.2 fd00::2 fe80::2%eth0 "-B 192.0.2.1 192.0.2.2"; do
		options=${address% *}
		[ "$options" != "$address" ] || options=
		on a $(unfound 99) "$PROGRAMS/rdma-client" $options read "${address##* }" 4711
		ends 3 "cannot resolve the address: $guid"
	done
	# shellcheck disable=SC2046 # several words
	on a $(unfound 99) "$PROGRAMS/rdma-server" -B 192.0.2.1 read
	ends 3 "cannot listen on 192.0.2.1, any port: $guid"
}

@test "without an RDMA device the exit status is 3" {
	lab run a rdma link del rdma0
	repair="add_link a"
	on a "$PROGRAMS/rdma-server" read
	ends 3 "rdma link"
	on a "$PROGRAMS/rdma-client" read 192.0.2.2 7471
	ends 3 "cannot open the RDMA connection manager: No such device; load the modules of the adapter's driver"
}
