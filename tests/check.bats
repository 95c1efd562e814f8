# 'rdma-client --check': the findings about this host and a path, and the advice.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers
shopt -s extglob

# Exit statuses if packets are lost: no progress within --timeout (5), or a failed transport (6).
LOST="5|6"

# check STATUS ARGUMENT...: run --check on host b; it must exit with STATUS, or one of several (5|6), without a
# message on standard error. It measures for $seconds, by default not at all.
check() {
	client -t "$LIMIT" --check --duration "${seconds:-0}" "${@:2}"
	expect "$1"
	[ -z "$stderr" ]
}

# says LINE: return true if a complete line of $output matches LINE, an extended regular expression.
says() {
	grep -E -x -q -e "$1" <<<"$output"
}

@test "--check reports that a healthy path is ready" {
	local name from
	for name in host-a 192.0.2.1 fd00::1; do
		check 0 "$name"
		from=fd00::2
		[ "$name" != 192.0.2.1 ] || from=192.0.2.2
		if [ "$LAB_TRANSPORT" = siw ]; then
			says "device      rdma0 port 1: iWARP, active"
			says "address     resolved: source $from, device rdma0 port 1"
			says "route       resolved"
			[[ $output != *congestion* ]]
		else
			says "device      rdma0 port 1: RoCE, active, MTU 4096 bytes \(maximum 4096\)"
			says "address     resolved: source $from, device rdma0 port 1, GID [0-9]+ \((::ffff:)?$from, RoCE v2, eth0\)"
			says "route       resolved, MTU of the path 4096 bytes"
			says "congestion  eth0: type of service 0; the driver does not report PFC or ECN"
		fi
		says "name        '$name' is [0-9a-f.:]+"
		says "memory      (may be locked without limit|[0-9]+ KiB may be locked: .*)"
		says "reach       .* answers (connect requests|TCP) .*"
		says "reach       found no RDMA program that listens on this host, [^;]+(; connect requests received: .*)?"
		[[ $output != *"  -> "* ]]
		says "  rdma-client --check $name PORT"
	done
}

with_addresses() {
	lab run b ip address replace 192.0.2.2/24 dev eth0
	lab run b ip address replace fd00::2/64 dev eth0 nodad
}

@test "--check without ADDRESS reports this host's software device; with link-local GIDs alone it exits with 8" {
	check 0
	says "adapter     rdma0: software device"
	says "link        rdma0 port 1: Ethernet, ACTIVE.*"
	says "reach       addresses with an RDMA device: 192\.0\.2\.2 \(rdma0, eth0\), fd00::2 \(rdma0, eth0\)"
	says "Ready\. Examine the path to another host next:"
	if [ "$LAB_TRANSPORT" = siw ]; then
		[[ $output != *GID* ]]
		return
	fi
	says "gid         rdma0 port 1: GID [0-9]+ is fe80::[0-9a-f:]+, RoCE v2"
	index=$(sed -n 's/^gid .* GID \([0-9]*\) is ::ffff:192\.0\.2\.2, RoCE v2$/\1/p' <<<"$output")
	says "nccl        rdma0 port 1: NCCL_IB_HCA==rdma0:1 NCCL_IB_GID_INDEX=$index"
	check 0 --json
	[ "$(json nccl.status nccl.advice)" = $'ok\nNone' ]
	repair=with_addresses
	lab run b ip address flush dev eth0 scope global
	check 8
	says "  -> give a network interface another address .*: routers do not forward packets of a link-local address"
	[[ $output != *Ready* ]]
	says "Not ready: gid: no port has a GID other than link-local ones; next: give a network interface another address .*"
	check 8 --json
	[ "$(json nccl.status)" = ok ]
	[[ $(json error) == "gid: no port has a GID other than link-local ones; "* ]]
}

without_device() {
	lab run b rdma link delete aaa0
	lab run b ip link set lo up
}

@test "--check succeeds if one of two devices is usable, and fails if the interface is in another namespace or has only link-local GIDs" {
	repair=without_device
	lab run b ip link set lo down
	lab run b rdma link add aaa0 type "$LAB_TRANSPORT" netdev lo
	check 0
	says "device      aaa0 port 1: .*, down.*"
	check 3 --json 203.0.113.9
	[[ $(json error) == "reach: there is no route to 203.0.113.9 (ENETUNREACH) (L6); "* ]]
	# the number of "lo" is the same in the new namespace, but no address there leads to a device
	lab run b ip link set lo up
	on b unshare --net "$PROGRAMS/rdma-client" --check
	expect 3
	says "reach       .* \\((L4|L5)\\)"
	[[ $output != *@(gid|nccl|MTU [0-9]+$'\n')* ]]
	check 0
	[[ $output != *"  -> "* ]]
	[ "$LAB_TRANSPORT" != siw ] || return 0
	lab run b ip address flush dev eth0 scope global
	repair="eval with_addresses && without_device"
	check 8 --json
	[[ $(json error) == "gid: no port has a GID other than link-local ones; "* ]]
}

# check_without ADDRESS FOLDER...: run --check on host b with an empty folder in place of each FOLDER; it must find no
# device.
check_without() {
	# shellcheck disable=SC2016 # expanded on the host
	on b unshare --mount sh -c 'program=$1 address=$2 && shift 2
		for folder; do mount -t tmpfs none "$folder" || exit; done
		exec "$program" --check $address' sh "$PROGRAMS/rdma-client" "$@"
	expect 3
	says "device      none"
}

@test "--check exits with 3 without a device, or without access to the connection manager" {
	check_without "" /dev/infiniband /sys/class/infiniband
	[[ $output != *$'\nadapter'* ]]
	check_without 192.0.2.1 /dev/infiniband
	says "reach       the file /dev/infiniband/uverbs0 of rdma0 is missing \(L11\)"
}

@test "--check --bind uses that source address for resolving and connecting, and rejects another address family" {
	check 3 --bind fd00::2 192.0.2.1
	says "address     not resolved: cannot connect from 'fd00::2': .*"
	repair='lab run b ip address del 192.0.2.9/24 dev eth0'
	lab run b ip address add 192.0.2.9/24 dev eth0
	start_server -J write
	check 0 --bind 192.0.2.9 192.0.2.1 "$port"
	says "address     resolved: source 192.0.2.9, device rdma0 .*"
	wait_for_line "$server_out" '"peer": "192\.0\.2\.9"' "$server"
	stop_server
	run ! grep -q refused "$server_err"
}

# transfers SIZE...: check that exactly these sizes were tried, and verified in both directions.
transfers() {
	diff <(printf 'transfer    %s: client to server verified, server to client verified\n' "$@" | sed 's/  1:/  1 byte:/; s/\([0-9][0-9]\):/\1 bytes:/') \
		<(grep '^transfer' <<<"$output")
}

@test "--check with PORT verifies each size in both directions, with a server of each mode" {
	local mode sizes=(1 1024 4095 4096 4097 65536 1048576) mtu=", GID ::ffff:192.0.2.1, MTU of its port 4096 bytes"
	[ "$LAB_TRANSPORT" != siw ] || sizes=(1 1024 4097 65536 1048576) mtu=
	folder=$(mktemp -d "$LAB/share/check.XXXXXX")
	for mode in read write ""; do
		start_server -m "its own payload" -o "$folder/stored" -n 3 $mode
		check 0 192.0.2.1 "$port"
		says "server      192.0.2.1 port $port: rdma-server, device rdma0$mtu"
		transfers "${sizes[@]}"
		says "Ready\. All sizes arrived in both directions, verified\."
		[ "$LAB_TRANSPORT" = siw ] || says "counters    .*(errors counted|counted errors).*"
		[ "$LAB_TRANSPORT" != siw ] || says "$uncounted"
		stop_server
		diff <(printf '%s bytes\n' "${sizes[@]}" | sed 's/^1 bytes/1 byte/') \
			<(sed -n 's/.*check from 192\.0\.2\.2: \(.*\), verified in both directions$/\1/p' "$server_out")
		[ "$(wc -l <"$server_out")" -eq $((${#sizes[@]} + 1)) ] # one more line: the server listens
		[ ! -e "$folder/stored" ]
	done
}

# limit_rate HOST: limit what HOST sends to 2 Mbit/s, so that the other direction is at least three times as fast even on
# a busy machine.
limit_rate() {
	lab run "$1" tc qdisc replace dev eth0 root netem rate 2mbit
}

full_rate() {
	local host
	for host in a b; do
		lab run "$host" tc qdisc del dev eth0 root 2>/dev/null || true
	done
}

# bats test_tags=slow,roce
@test "--check with PORT measures rates and latency, and names the direction that the network slows down" {
	local seconds=1 number='[0-9]+\.[0-9]+' rate='[0-9.]+ [kMG]bit/s'
	local rates="rate        client to server $rate, server to client $rate; a software device has no link rate to compare with"
	repair=full_rate
	start_server -n 2 --min-rate 1T write
	check 0 --min-rate 1K 192.0.2.1 "$port"
	says "$rates"
	says "latency     a READ of 8 bytes takes $number us \(median\), $number us \(99th percentile of [0-9]+\)"
	says "Ready\..*"
	limit_rate b
	check 8 -J --min-rate 20Mbit 192.0.2.1 "$port"
	[[ $(json error) == "slower than --min-rate from client to server: "*"bit/s instead of 20 Mbit/s; the contents are right" ]]
	[ "$(json rate.status rate.link_bits_per_second)" = $'failed\nNone' ]
	json rate.client_to_server_bits_per_second rate.server_to_client_bits_per_second |
		python3 -c 'import sys; there, back = map(float, sys.stdin); assert back > 3 * there, (there, back)'
	full_rate
	stop_server
	start_server read
	limit_rate a
	check 0 192.0.2.1 "$port"
	says "$rates"
	says "  -> server to client is $number times as slow as the other direction, measured twice: .*"
}

uncounted="counters    this host's device has no error counters, which would show lost packets"

# lose HOST...: drop 1 % of the packets that these hosts send.
lose() {
	local host
	for host; do
		lab run "$host" tc qdisc replace dev eth0 root netem loss 1%
	done
}

# With losses in both directions few packets are sent, so the counters may show one direction. TCP repairs losses, and
# soft-iWARP has no counters.
# bats test_tags=slow
@test "--check with PORT reports share and direction of RoCE packet loss, and exits with 8 above 0.1 %" {
	local seconds=1 hosts lost
	repair=full_rate
	start_server write
	if [ "$LAB_TRANSPORT" = siw ]; then
		lose a b
		check 0 192.0.2.1 "$port"
		says "$uncounted"
		says "Ready\. All sizes arrived in both directions, verified\."
		return
	fi
	while IFS=: read -r hosts lost; do
		# shellcheck disable=SC2086 # several hosts
		lose $hosts
		check 8 192.0.2.1 "$port"
		says "counters    packets are $lost, about [0-9.]+ % of them; .*"
		says "  -> one of: a rate limit or a full queue on the way .*"
		says "(Ready, but|Not ready:) packets are $lost, about [0-9.]+ % of them\."
		full_rate
	done <<-END
	b:lost from client to server
	a:lost from server to client
	a b:lost (in both directions|from .*)
	END
}

# This check takes 15 to 25 s; without limits on its sessions it took 43 to 78 s.
# bats test_tags=slow,roce
@test "--check with PORT takes less than 40 s on a slow path that loses many packets" {
	local seconds=1 start
	repair="lab disturb"
	start_server write
	lab disturb loss 5% delay 20ms
	start=$(milliseconds)
	check "5|6|8" 192.0.2.1 "$port"
	echo "$(($(milliseconds) - start)) ms"
	[ $(($(milliseconds) - start)) -lt 40000 ]
	[[ $output == *"packets are lost"* ]]
}

# let_run: end the pauses of host a.
let_run() {
	kill "$pauser" 2>/dev/null
	kill -CONT "$machine"
}

# Pause host a for longer than Soft-RoCE's timeout of retransmission, again and again, as a busy machine does. The signals
# stop QEMU itself, because "lab pause" drops the packets that QEMU has not sent yet.
# bats test_tags=slow,roce
@test "--check with PORT does not take late packets for lost ones, and exits with 0" {
	machine=$(pgrep -f "path=$LAB/a.console")
	repair=let_run
	start_server read
	while kill -STOP "$machine" && sleep 2.5 && kill -CONT "$machine"; do sleep 0.3; done &
	pauser=$!
	check 0 192.0.2.1 "$port"
	says "counters    (packets are late; )?(errors counted|neither device counted errors).*"
	says "Ready\. All sizes arrived in both directions, verified\."
	[[ $output != *"  -> "* ]]
}

# start_and_stop ARGUMENT...: start a client on host b, and stop it when its third simultaneous session begins.
# $client_out then has two lines: the client's process id there, and the source port of that session. The exit status
# and the output follow when the client ends. The shell itself stops the client: on a busy host another program would
# start too late.
start_and_stop() {
	# shellcheck disable=SC2016 # expanded on the host
	start client b sh -c '{ sh -c "echo process \$\$; exec \"\$@\" 2>&1 >/run/outcome" - "$@"; echo "status $?"; } |
		while read -r line; do
			case $line in
			"process "* | "status "*) echo "$line"; [ "$process" ] || process=${line#* } ;;
			"["*"] source port "*)
				seen=$((seen + 1))
				[ "$seen" -ne 3 ] || third=${line%%]*}] port=${line##* }
				;;
			"$third received MSG_MR") kill -STOP "$process"; echo "port $port" ;;
			esac
		done
		cat /run/outcome' - "$PROGRAMS/rdma-client" "$@"
}

# bats test_tags=slow,roce
@test "--check with --connections 8 names the source port of the session whose packets are dropped" {
	local dropped
	start_server
	start_and_stop -v --json --check --duration 3 -t 20 --connections 8 192.0.2.1 "$port"
	wait_for_line "$client_out" '^port ' "$client"
	dropped=$(sed -n 's/^port //p' "$client_out")
	repair=drop_nothing
	drop_from_port "$dropped"
	lab run b kill -CONT "$(sed -n 's/^process //p' "$client_out")"
	await_end client
	status=$(sed -n 's/^status //p' "$client_out")
	output=$(tail -n 1 "$client_out")
	expect "$LOST"
	[ "$(json status)" -eq "$status" ]
	python3 -c '
import json, sys
outcome, dropped = json.loads(sys.argv[1]), int(sys.argv[2])
failed, = [path for path in outcome["path"] if "client_to_server_bits_per_second" not in path]
assert len(outcome["path"]) == 8 and failed["source_port"] == dropped, (dropped, outcome["path"])
assert failed["text"] == f"source port {dropped}: " + outcome["error"], failed
assert "switches choose one by the source port" in failed["advice"], failed' "$output" "$dropped"
}

# set_mtu BYTES: set the MTU of host a's Ethernet, and create its RDMA device again; 1500 bytes give an RDMA MTU of
# 1024.
set_mtu() {
	lab run a rdma link del rdma0
	lab run a ip link set eth0 mtu "$1"
	lab run a rdma link add rdma0 type rxe netdev eth0
}

# bats test_tags=roce,slow
@test "--check with PORT reports a server whose MTU is smaller than the client's, with advice" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP finds its own MTU"
	repair="set_mtu 4200"
	set_mtu 1500
	start_server read
	check "$LOST" 192.0.2.1 "$port"
	says "server      192.0.2.1 .*, MTU of its port 1024 bytes"
	says "  -> the MTU is 4096 bytes on this host and 1024 on the server's: set the same MTU on both hosts .*"
	[[ $(grep '^transfer' <<<"$output" | tail -n 2) =~ ^"transfer    1024 bytes: client to server verified, server to client verified"$'\n'\
"transfer    4095 bytes: client to server "(arrived|verified)", server to client failed: " ]]
	says "transfer    4095 bytes: .*; large packets vanish from server to client: size 1024 passes, size 4095 fails repeatedly"
	says "  -> set the same MTU everywhere .*"
	says "Not ready: .*; large packets vanish from server to client: .*; next: set the same MTU everywhere .*"
}

# Host b's packets above 1500 bytes of Ethernet are lost silently, as in a switch: the queue below netem has no room
# for them. Without netem above it the queue would report the loss to Soft-RoCE, which would retry at once and keep
# its host busy.
# bats test_tags=roce,slow
@test "--check with PORT reports that the path loses packets above a size, with advice" {
	[ "$LAB_TRANSPORT" != siw ] || skip "TCP keeps to the MTU of the route"
	repair="lab run b tc qdisc del dev eth0 root"
	start_server write
	lab run b tc qdisc replace dev eth0 root handle 1: netem
	lab run b tc qdisc replace dev eth0 parent 1: bfifo limit 1514
	check "$LOST" --json 192.0.2.1 "$port"
	[ "$(json status)" = "$status" ]
	[ "$(json transfer.status transfer.bytes transfer.client_to_server)" = $'failed\n4095\nfailed' ]
	[[ $(json transfer.server_to_client) =~ arrived|"not known" ]]
	[[ $(json transfer.text) == *"; large packets vanish from client to server: size 1024 passes, "* ]]
	[[ $(json transfer.advice) == "set the same MTU everywhere "* ]]
	[[ $(json transfer.text) == *"$(json error)" ]]
}

# The locked-memory limit does not apply to root, except with siw of older kernels.
@test "--check reports how much memory may be locked, and exits with 1 if that is too little for a session" {
	local binds="8192 KiB may be locked: .*"
	case $LAB_TRANSPORT in
	siw) binds="($binds|may be locked without limit)" ;;
	*) binds="may be locked without limit" ;;
	esac
	on b prlimit --memlock=8388608 "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "memory      $binds"
	[[ $output != *$'\n'"memory "+([^$'\n'])$'\n'"  -> "* ]]
	on b prlimit --memlock=8192 setpriv --bounding-set -ipc_lock "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 1
	says "memory      cannot register the 12 KiB that a session needs: .*; 8 KiB may be locked"
}

# boot WHO HOST UNIT: start systemd on HOST in the background, as process 1 of a PID namespace, with the installed programs and
# example units; systemd starts UNIT and few other units, because starting all of Debian's takes long on an emulated host.
boot() {
	# shellcheck disable=SC2016 # expanded on the host
	start "$1" "$2" unshare --mount --pid --uts --fork --kill-child --mount-proc bash -euc '
		units=/run/units
		cp -r "$0/usr" /
		mount -t tmpfs run /run
		mount -t cgroup2 cgroup /sys/fs/cgroup
		mkdir -p $units/sysinit.target.wants "$units/rdma-check@.timer.d"
		cp /usr/local/share/doc/rdma-pair/examples/rdma-* $units
		ln -s -t $units /lib/systemd/system/{{sysinit,basic,network-online}.target,systemd-journald.{service,socket}}
		ln -s -t $units/sysinit.target.wants /lib/systemd/system/systemd-journald.service
		printf "[Timer]\nOnBootSec=0\nRandomizedDelaySec=0\n" >"$units/rdma-check@.timer.d/now.conf"
		exec env container=lab SYSTEMD_UNIT_PATH=$units /lib/systemd/systemd --unit="$1"' "$folder" "$3"
}

# under_systemd HOST COMMAND...: run COMMAND in the namespace of the host's systemd.
under_systemd() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run -w "$LIMIT" "$1" sh -c 'exec nsenter --target "$(pidof systemd)" --mount --pid "$@"' - "${@:2}"
}

# journal HOST UNIT: set $output to the JSON objects that the unit has printed. Fail if there is none.
journal() {
	output=$(under_systemd "$1" journalctl --output=cat --unit="$2" | grep '^{')
}

# bats test_tags=slow,roce
@test "systemd runs the example units as ordinary users: the server, and a check that a timer starts" {
	local unit=rdma-check@192.0.2.1
	folder=$LAB/share/installed
	make -C "$top" install "DESTDIR=$folder" PREFIX=/usr/local
	boot server a rdma-server.service
	await_listener a 47881
	# shellcheck disable=SC2016 # expanded on the host
	run -0 lab run a sh -c 'stat -c %u "/proc/$(pidof rdma-server)"'
	[ "$output" -ge 61184 ] # the lowest user id of DynamicUser=
	boot client b "$unit.timer"
	await journal b "$unit"
	[ "$(json kind status)" = $'check\n0' ]
	await under_systemd b systemctl --quiet is-active "$unit.timer"
	run -0 under_systemd b systemctl show --property=TriggeredBy,Result,ExecMainStatus,DynamicUser "$unit"
	[ "$(sort <<<"$output")" = $'DynamicUser=yes\nExecMainStatus=0\nResult=success\nTriggeredBy='"$unit.timer" ]
	journal a rdma-server
	expect_json <<<"$output"
	run ! grep -v -e '"kind": "listening"' -e '"status": 0' <<<"$output"
}
