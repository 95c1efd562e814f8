#!/usr/bin/env bats
# The lab for learners (more than two hosts, captured and disturbed packets, the reason why a host went down), and the
# benchmark. Each test boots the hosts that it needs.

bats_require_minimum_version 1.5.0

cd "$BATS_TEST_DIRNAME/.." || exit
PATH=$PWD/tests/lab:$PATH

# opcodes FILE: print the InfiniBand opcodes of the RoCE v2 packets in a capture, one per line.
opcodes() {
	/usr/bin/python3 - "$1" <<-'END'
	import struct, sys
	data = open(sys.argv[1], "rb").read()
	assert data[:4] == b"\xd4\xc3\xb2\xa1", "no capture file"
	offset = 24
	while offset < len(data):
	    length = struct.unpack_from("<I", data, offset + 8)[0]
	    packet = data[offset + 16 : offset + 16 + length]
	    offset += 16 + length
	    # RoCE v2: Ethernet, IPv4 without options, UDP port 4791
	    if packet[12:14] == b"\x08\x00" and packet[23] == 17 and packet[36:38] == b"\x12\xb7":
	        print(packet[42])
	END
}

@test "lab up --capture records the READ and WRITE packets of a session" {
	local capture=$BATS_TEST_TMPDIR/wire.pcap
	# shellcheck disable=SC2016 # expanded by that shell
	run lab up --capture "$capture" -- bash -o pipefail -c '
		for mode in read write; do
			lab run a ./rdma-server -1 -p 7471 $mode | {
				read -r line && [ "$line" = "listening on port 7471." ] &&
					lab run b ./rdma-client $mode 192.0.2.1 7471 && cat
			} || exit
		done'
	[ "$status" -eq 0 ]
	opcodes "$capture" >"$BATS_TEST_TMPDIR/opcodes"
	for opcode in 4 12 16 10; do # SEND Only, RDMA READ Request, RDMA READ Response Only, RDMA WRITE Only
		grep -qx "$opcode" "$BATS_TEST_TMPDIR/opcodes"
	done
}

@test "'lab up --hosts 3' connects all hosts, also when one is off; the capture has packets from c to b" {
	local capture=$BATS_TEST_TMPDIR/wire.pcap
	# shellcheck disable=SC2016 # expanded by that shell
	run lab up --hosts 3 --transport none --capture "$capture" -- sh -c '
		for from in $LAB_HOSTS; do
			for to in $LAB_HOSTS; do
				lab run $from busybox ping -4 -c 1 -W 120 host-$to || exit
			done
		done
		lab off a && lab run c busybox ping -c 1 -W 120 fd00::2 && lab run d true'
	echo "$output"
	[ "$status" -eq 125 ]
	[ "$(grep -c ', 1 packets received' <<<"$output")" -eq 10 ]
	[[ $output == *'no host "d": the hosts are a, b, c'* ]]
	LC_ALL=C grep -qaP '\xc0\x00\x02\x03\xc0\x00\x02\x02' "$capture" # from host c to host b
}

# hundredths COMMAND...: print the uptime of the system on which COMMAND runs, in hundredths of a second.
hundredths() {
	"$@" cat /proc/uptime | sed 's/ .*//; s/\.//'
}
export -f hundredths

# Ask each host for its time twice. The time that passes there between its answers is at least the time from the first answer
# to the second question, and at most the time from the first question to the second answer, however busy this machine is.
@test "the clock of each host is as fast as that of this machine" {
	# shellcheck disable=SC2016 # expanded by that shell
	run lab up --transport none -- bash -c '
		for host in $LAB_HOSTS; do
			times=("$(hundredths env)" "$(hundredths lab run "$host")" "$(hundredths env)")
			sleep 1
			times+=("$(hundredths env)" "$(hundredths lab run "$host")" "$(hundredths env)")
			echo "$host: ${times[*]}"
			passed=$((times[4] - times[1])) least=$((times[3] - times[2])) most=$((times[5] - times[0]))
			((passed >= least - 2 && passed <= most + 2)) || exit 1
		done'
	echo "$output"
	[ "$status" -eq 0 ]
}

# One pair of hosts serves all three parts. The first ping resolves the neighbor: while all packets are lost,
# resolving would fail and drop the waiting packet.
@test "'lab disturb' delays or drops packets; a killed 'lab run' leaves no process; a crashed host shows its console" {
	# shellcheck disable=SC2016 # expanded by that shell
	run lab up --transport none -- bash -c '
		lab disturb delay 200ms && lab run b sh -c "busybox ping -c 1 -W 120 host-a && busybox ping -c 1 -W 120 host-a" && echo over
		lab disturb loss 100% && ! lab run b busybox ping -c 1 -W 1 host-a >/dev/null || exit 1
		lab disturb && lab run b busybox ping -c 1 -W 120 host-a || exit 1

		exec {said}< <(exec lab run a sh -c "{ head -c 200M /dev/zero; echo full >&2; sleep 1000; } | tail -n 1" 2>&1)
		killed=$!
		read -r line <&"$said" && [ "$line" = full ] || exit 2
		kill -s KILL "$killed"
		wait "$killed"
		! lab run a busybox pidof tail sleep || exit 2

		lab run a sh -c "echo c >/proc/sysrq-trigger"'
	echo "$output"
	[ "$status" -eq 125 ]
	# the delay applies to both directions; a busy machine adds to it
	[ "$(sed '/^over$/,$d' <<<"$output" | grep -Ec 'time=([4-9][0-9]{2}|[0-9]{4,})\.')" -eq 2 ]
	[[ $output == *"the host went down by itself; its console ends with"*"Kernel panic"* ]]
}

@test "lab up: too little memory for the hosts is reported before they boot" {
	run lab up --transport none --memory 99999999 -- true
	[ "$status" -eq 125 ]
	[[ $output == *"2 hosts take 199999998 MiB of memory, "*" MiB are left; end other programs"* ]]
}

@test "lab up: a LAB_SUITE that is no name of a suite is reported before anything is downloaded" {
	LAB_SUITE=../trixie run lab up --transport none -- true
	[ "$status" -eq 125 ]
	[[ $output == *'LAB_SUITE is "../trixie": set it to the name of a suite, for example trixie-backports'* ]]
}

@test "'lab shells' fails without a terminal, and says that it needs one" {
	run tests/lab/lab shells </dev/null
	[ "$status" -eq 125 ]
	[ "$output" = 'lab: shells: standard input is not a terminal: start this in one; "lab run" runs commands without' ]
}

# This is the shortest part of the benchmark; the other parts take their samples in the same way.
@test "bench measures streams, and prints medians and ratios" {
	TRANSPORT=rxe PAIRS=1 FILE_MIB=1 run timeout 300 tests/bench streams
	echo "$output"
	[ "$status" -eq 0 ]
	# the medians, and their ratio with its spread
	[ "$(grep -Ec '^\|.* s \| [0-9.]+ \| [0-9.]+ \| ([0-9.]+) \| \1\.\.\1 \|  \|$' <<<"$output")" -eq 2 ]
}
