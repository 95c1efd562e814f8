# 'rdma-client --check ADDRESS': the path to ADDRESS, and what to change.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

: "${PROGRAMS:?}" # set by helpers.bash

# check STATUS ARGUMENT...: on host b; nothing goes to standard error.
check() {
	client -t "${timeout:-$LIMIT}" --check "${@:2}"
	expect "$1"
	[ -z "$stderr" ]
}

# says LINE: as a whole line of the output, an extended regular expression.
says() {
	grep -E -x -q -e "$1" <<<"$output"
}

@test "--check: ready" {
	local name from
	for name in host-a 192.0.2.1 fd00::1; do
		check 0 "$name"
		from=fd00::2
		[ "$name" != 192.0.2.1 ] || from=192.0.2.2
		if [ "$LAB_TRANSPORT" = siw ]; then
			says "device    rdma0 port 1: iWARP, active"
			says "address   resolved: from $from by rdma0 port 1"
			says "route     resolved"
			[[ $output != *lossless* ]]
		else
			says "device    rdma0 port 1: RoCE, active, MTU 4096 of 4096 bytes"
			says "address   resolved: from $from by rdma0 port 1, GID [0-9]+ \((::ffff:)?$from, RoCE v2, eth0\)"
			says "route     resolved, MTU of the path 4096 bytes"
			says "lossless  eth0: type of service 0; its driver tells nothing of PFC and ECN"
		fi
		says "name      '$name' is [0-9a-f.:]+"
		says "memory    (may be locked without limit|[0-9]+ KiB may be locked: .*)"
		says "  rdma-client read $name PORT"
	done
}

@test "--check: nobody has the address, no route leads there, nobody knows the name: exit status 3" {
	timeout=1 check 3 192.0.2.77
	says "address   not resolved: Connection timed out"
	says "  -> is the host up .*"
	check 3 198.51.100.1
	says "address   not resolved: Network is unreachable"
	check 3 nobody.invalid
	says "name      'nobody.invalid' not resolved: .*"
	says "  -> give an address, .*"
	check 3 127.0.0.1
	says "(address|route) +not resolved: .*"
}

link_up() {
	lab run b ip link set eth0 up
	lab run b ip address add fd00::2/64 dev eth0 nodad || true # is lost with the link
}

@test "--check: the link is down: exit status 3" {
	repair=link_up
	lab run b ip link set eth0 down
	check 3 192.0.2.1
	says "device    rdma0 port 1: .*, down.*"
	says "  -> it carries nothing; .*"
}

add_device() {
	lab run b rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
}

@test "--check: no RDMA device: exit status 3" {
	repair=add_device
	lab run b rdma link del rdma0
	check 3 192.0.2.1
	says "device    none"
	says "  -> see 'rdma link'; .*"
}

@test "--check: no access to the connection manager: exit status 3" {
	# shellcheck disable=SC2016 # expanded on the host
	on b unshare --mount sh -c 'mount -t tmpfs none /dev/infiniband && exec "$@"' sh "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 3
	says "device    none"
	says "  -> this user may not open /dev/infiniband/rdma_cm, or it is not there: .*"
}

@test "--check --bind: an address of this host, and of the other's family; the sessions come from it as well" {
	check 0 --bind fd00::2 fd00::1
	says "address   resolved: from fd00::2 by rdma0 .*"
	check 3 --bind 192.0.2.1 192.0.2.1
	says "address   not resolved: Cannot assign requested address"
	says "  -> give --bind an address of this host .*"
	check 3 --bind fd00::2 192.0.2.1
	says "address   not resolved: cannot connect from 'fd00::2': .*"
	repair='lab run b ip address del 192.0.2.9/24 dev eth0'
	lab run b ip address add 192.0.2.9/24 dev eth0
	start_server write
	check 0 --bind 192.0.2.9 192.0.2.1 "$port"
	wait_for_line "$server_err" '192\.0\.2\.9 port [0-9]+: refused' "$server"
	stop_server
	expect 0
}

restore_mtu() {
	lab run b rdma link del rdma0
	lab run b ip link set eth0 mtu 4200
	add_device
}

# bats test_tags=roce
@test "--check: a small MTU is reported, and how to raise it" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP finds its own MTU"
	repair=restore_mtu
	lab run b rdma link del rdma0
	lab run b ip link set eth0 mtu 1500
	add_device
	check 0 192.0.2.1
	says "device    rdma0 port 1: RoCE, active, MTU 1024 of 4096 bytes"
	says "  -> larger packets are faster: .*"
}

# bats test_tags=roce
@test "--check: the type of service that sessions will have is reported, and ECN where the driver has files for it" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP sends again what is lost"
	# shellcheck disable=SC2016 # expanded on the host
	on b unshare --mount sh -c 'mount -t tmpfs none /sys/class/net && cd /sys/class/net &&
		mkdir -p eth0/ecn/roce_np/enable eth0/ecn/roce_rp/enable && cd eth0/ecn &&
		for i in 0 1 2 3 4 5 6 7; do echo $((i != 5)) >roce_np/enable/$i && echo $((i > 3)) >roce_rp/enable/$i; done &&
		exec "$@"' sh "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "lossless  eth0: type of service 0; PFC not known, ECN on for priority 4 6 7"
}

# finds STEP KEY...: these of the last finding of a step, a line each.
finds() {
	python3 -c '
import json, sys
finding = json.loads(sys.argv[1])[sys.argv[2]][-1]
for key in sys.argv[3:]:
    print(finding[key])' "$output" "$@"
}

@test "--check --json: one object, with status and advice for each step" {
	check 0 --json 192.0.2.1
	[ "${#lines[@]}" -eq 1 ]
	[ "$(json status)" = 0 ]
	[ "$(finds name status text advice)" = $'ok\n\'192.0.2.1\' is 192.0.2.1\nNone' ]
	[[ $(finds device text) == "rdma0 port 1: "*", active"* ]]
	[[ $(finds address text) == "resolved: from 192.0.2.2 by rdma0 port 1"* ]]
	[[ $(finds route text) == resolved* ]]
	[[ $(finds memory text) == *"may be locked"* ]]
	check 3 --json $'a"\xff'
	[ "$(json status)" = 3 ]
	[ "$(finds name status advice)" = $'failed\ngive an address, or add the name to /etc/hosts' ]
	[[ $(finds name text) == "'a\"\\xff' not resolved: "* ]]
}

# transfers SIZE...: each was verified in both directions, and nothing else was tried.
transfers() {
	diff <(printf 'transfer  %s: client to server verified, server to client verified\n' "$@" | sed 's/  1:/  1 byte:/; s/\([0-9][0-9]\):/\1 bytes:/') \
		<(grep '^transfer' <<<"$output")
}

@test "--check with PORT: every size arrives in both directions, whatever the server's mode and payload" {
	local mode sizes=(1 1024 4095 4096 4097 65536 1048576) mtu=", GID ::ffff:192.0.2.1, MTU of its port 4096 bytes"
	[ "$LAB_TRANSPORT" != siw ] || sizes=(1 1024 4097 65536 1048576) mtu=
	folder=$(mktemp -d "$LAB/share/check.XXXXXX")
	for mode in read write; do
		start_server -m "its own payload" -o "$folder/stored" -n 3 "$mode"
		check 0 192.0.2.1 "$port"
		says "server    192.0.2.1 port $port: rdma-server $mode, device rdma0$mtu"
		transfers "${sizes[@]}"
		says "Ready. All sizes arrived in both directions, verified."
		[ "$LAB_TRANSPORT" = siw ] || says "counters  .*"
		stop_server
		expect 0
		[ "$(grep -c 'remote buffer: a pattern of' "$server_out")" -eq "${#sizes[@]}" ]
		[ ! -e "$folder/stored" ]
	done
}

@test "--check with PORT: where nobody answers at an address of the host the next one is tried; if none does, all are named" {
	local address
	for address in 192.0.2.1 fd00::1; do
		start_server --bind "$address" read
		check 0 host-a "$port"
		says "server    $address port $port: rdma-server read.*"
		says "transfer  1048576 bytes: client to server verified, server to client verified"
		stop_server
		expect 0
	done
	check 4 host-a "$port"
	[ "$(grep -c '^server ' <<<"$output")" -eq 2 ]
	for address in 192.0.2.1 fd00::1; do
		says "server    $address port $port: with 1 byte: .*is rdma-server running there.*"
	done
	check 4 --json host-a "$port"
	[ "$(finds server status)" = failed ]
	[[ $(finds server text) == *"$(json error)" ]]
}

@test "--check with PORT: a server that refuses, has ended or does not know --check is reported" {
	start_server --max-size 2K read
	check 4 192.0.2.1 "$port"
	transfers 1 1024
	says "server    192.0.2.1 port $port: with 409[57] bytes: the server refused: .*--max-size.*"
	stop_server
	start_server -1 read
	client -t "$LIMIT" --check 192.0.2.1 "$port"
	[ "$status" -eq 4 ] || expect 6 # it ends just when it is asked again
	[ -z "$stderr" ]
	transfers 1
	says "  -> the server took a session, and no other behind it: start it without --one-off"
	wait_server
	expect 0
	start_peer_server read --hello
	check 4 192.0.2.1 "$port"
	says "server    192.0.2.1 port $port: with 1 byte: the server does not know --check with PORT: .*"
	[ "$(grep -c '^transfer' <<<"$output")" -eq 0 ]
	end_peer
	start_peer_server read
	check 4 192.0.2.1 "$port"
	says "server    192.0.2.1 port $port: with 1 byte: the server does not know --check with PORT: .*"
}

@test "--check with PORT: a server that takes one session at a time is examined, once it is not busy with another client" {
	local sizes=(1 1024 4095 4096 4097 65536 1048576)
	[ "$LAB_TRANSPORT" != siw ] || sizes=(1 1024 4097 65536 1048576)
	start_server -t "$LIMIT" --max-sessions 1 write
	start_peer b client write --hello --at mr=hang 192.0.2.1 "$port"
	wait_for_line "$peer_out" '^hanging' "$peer"
	if [ "$LAB_TRANSPORT" = siw ]; then # the reason may be lost there
		end_peer
		wait_for_line "$server_err" "the peer went away" "$server"
	fi
	start_client -t "$LIMIT" --check 192.0.2.1 "$port"
	[ -z "$peer" ] || wait_for_line "$server_err" 'refused: 1 sessions are open' "$server"
	end_peer
	wait_client
	expect 0
	output=$(<"$client_out")
	transfers "${sizes[@]}"
}

# loses ARGUMENT...: --check finds that packets are lost, because the transport or the server gives up; sets what check
# does.
loses() {
	client -t "$LIMIT" --check "$@"
	[ "$status" -eq 5 ] || expect 6
	[ -z "$stderr" ]
}

# small_mtu HOST: an Ethernet of 1500 bytes, so that the RDMA MTU is 1024.
small_mtu() {
	lab run "$1" rdma link del rdma0
	lab run "$1" ip link set eth0 mtu 1500
	lab run "$1" rdma link add rdma0 type rxe netdev eth0
}

large_mtu() {
	lab run a rdma link del rdma0
	lab run a ip link set eth0 mtu 4200
	lab run a rdma link add rdma0 type rxe netdev eth0
}

# A server that writes would take longer, and its host's processor: Soft-RoCE tries again and again to send what is too
# large for its own Ethernet, and the server there has been seen to give up 20 s late.
# bats test_tags=roce
@test "--check with PORT: a server's MTU that is smaller than the client's is found" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP finds its own MTU"
	repair=large_mtu
	small_mtu a
	start_server read
	loses 192.0.2.1 "$port"
	says "server    192.0.2.1 .*, MTU of its port 1024 bytes"
	says "  -> the MTU is 4096 bytes here and 1024 there: set it the same on both hosts .*"
	transfers_up_to 1024 "arrived|verified" failed
	says "  -> packets above 1024 bytes vanish from server to client, at 4095 at the latest: .*set it the same everywhere.*"
}

# bats test_tags=roce
@test "--check with PORT: a client's MTU that is smaller than the server's is found" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP finds its own MTU"
	repair=restore_mtu
	small_mtu b
	start_server read
	check 0 192.0.2.1 "$port"
	says "  -> the MTU is 1024 bytes here and 4096 there: set it the same on both hosts .*"
	transfers 1 1023 1024 1025 65536 1048576
}

# transfers_up_to SIZE TO_SERVER TO_CLIENT: sizes up to this were verified, of the next the directions are as said, and
# that was the last.
transfers_up_to() {
	local lines
	mapfile -t lines < <(grep '^transfer' <<<"$output")
	[ "${lines[-2]}" = "transfer  $1 bytes: client to server verified, server to client verified" ]
	grep -E -x -q "transfer  4095 bytes: client to server ($2), server to client ($3): .*" <<<"${lines[-1]}"
}

# drop_large HOST: what it sends in packets above an Ethernet of 1500 bytes is lost, as in a switch: without a word. The
# queue behind netem has no room for them, of which only netem hears; alone it would tell Soft-RoCE, which then tries
# again at once, and keeps its host busy with that.
drop_large() {
	lab run "$1" tc qdisc replace dev eth0 root handle 1: netem
	lab run "$1" tc qdisc replace dev eth0 parent 1: bfifo limit 1514
}

# vanish_from HOST FROM TO OTHER: what that host sends in large packets is lost: --check names the direction, which is from
# FROM to TO, and what to change. The OTHER direction came as far as one of these words.
vanish_from() {
	repair="lab run $1 tc qdisc del dev eth0 root"
	start_server write
	drop_large "$1"
	loses --json 192.0.2.1 "$port"
	[ "$(json status)" = "$status" ]
	[ "$(finds transfer status bytes "$2_to_$3")" = $'failed\n4095\nfailed' ]
	[[ $(finds transfer "$3_to_$2") =~ $4 ]]
	[[ $(finds transfer advice) == "packets above 1024 bytes vanish from $2 to $3, "* ]]
	[[ $(finds transfer text) == *"$(json error)" ]]
	stop_server
}

# bats test_tags=roce
@test "--check with PORT: packets above a size vanish on the way to the server: that is named, and what to change" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP keeps to the MTU of the route"
	vanish_from b client server "arrived|not known"
}

# bats test_tags=roce
@test "--check with PORT: packets above a size vanish on the way to the client: that is named, and what to change" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP keeps to the MTU of the route"
	vanish_from a server client "arrived|verified|not known"
}

# bats test_tags=roce
@test "--check with PORT: a server that ends while packets are awaited is named, and no size blamed" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP keeps to the MTU of the route"
	repair="lab run a tc qdisc del dev eth0 root"
	start_server -t "$LIMIT" read
	drop_large a # so that the session of 4095 bytes, when the server has read, lasts until:
	start_client -t "$LIMIT" --check 192.0.2.1 "$port"
	wait_for_line "$server_out" 'send completed' "$server" 9
	stop_server KILL
	wait_client
	expect 6
	output=$(<"$client_out")
	transfers_up_to 1024 arrived "not known"
	says "  -> not even 1 byte passes any more \(.*is rdma-server running there.*\): the server has ended, .*"
	[[ $output != *vanish* ]]
}

# Rules are looked at in turn; that for addresses of the host itself comes first, elsewhere.
firewall() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run a sh -c 'ip rule add pref 100 lookup local && ip rule add pref 10 iif eth0 $1 blackhole && ip rule del pref 0' - "$1"
}

end_firewall() {
	lab run a sh -c 'ip rule add pref 0 lookup local && ip rule del pref 100 && ip rule del pref 10'
}

@test "--check with PORT: a firewall in front of the server is found, exit status 5" {
	local protocol="ipproto udp dport 4791" opens="open UDP port 4791 in the firewalls"
	start_server write
	[ "$LAB_TRANSPORT" != siw ] || protocol="ipproto tcp dport $port" opens="open it in the firewalls"
	repair=end_firewall
	firewall "$protocol"
	timeout=10 check 5 192.0.2.1 "$port"
	says "address   resolved: .*"
	says "server    192.0.2.1 port $port: with 1 byte: .*"
	says "  -> the host answers, but .*: $opens .*"
}

@test "--check: how much memory may be locked is reported; standard output full is a failure" {
	local binds="8192 KiB may be locked: .*"
	[ "$LAB_TRANSPORT" = siw ] || binds="may be locked without limit" # root keeps to none, but with siw
	run --separate-stderr lab run b prlimit --memlock=8388608 "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "memory    $binds"
	run --separate-stderr lab run b prlimit --memlock=8388608 \
		setpriv --bounding-set -ipc_lock "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "memory    8192 KiB may be locked: .*"
	run --separate-stderr lab run b prlimit --memlock=8192 \
		setpriv --bounding-set -ipc_lock "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 1
	says "memory    12 KiB, which a session needs, cannot be registered: .*; 8 KiB may be locked"
	run --separate-stderr lab run b prlimit --memlock=unlimited "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "memory    may be locked without limit"
	# shellcheck disable=SC2016 # expanded on the host
	run --separate-stderr lab run b sh -c '"$1" --check 192.0.2.1 >/dev/full' - "$PROGRAMS/rdma-client"
	expect 1 "cannot write to standard output"
}
