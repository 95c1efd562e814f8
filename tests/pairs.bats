#!/usr/bin/env bats
# tests/pairs between four hosts, with ssh, GNU parallel and jq on host a; and on this machine, with a script in place
# of ssh that answers like hosts.
# shellcheck shell=bash disable=SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

# On the hosts root gets a temporary home and a shell, because the hosts see the home of this machine.
# shellcheck disable=SC2016 # expanded on the host
prepare='set -e
	cp "$1/rdma-server" "$1/rdma-client" /usr/bin
	sed -i "s|^root:.*|root:x:0:0::/run/home:/bin/sh|" /etc/passwd
	mkdir -p -m 700 /run/home/.ssh /etc/dropbear
	cp key /run/home/.ssh/id_ed25519
	cp key.pub /run/home/.ssh/authorized_keys
	printf "%s\n" "StrictHostKeyChecking accept-new" "ControlMaster auto" "ControlPath /run/home/%h" "ControlPersist yes" \
		>/run/home/.ssh/config
	chmod 600 /run/home/.ssh/*
	chown -R root:root /run/home
	dropbear -R -s'

setup_file() {
	cd "$LAB/share" || return
	ssh-keygen -q -t ed25519 -N '' -f key
	local host
	for host in $LAB_HOSTS; do
		lab run "$host" sh -c "$prepare" - "$PROGRAMS"
	done
}

# all_pairs HOST...: run tests/pairs on host a; sets $status, $output and $stderr, and shows the end of pairs.log.
all_pairs() {
	cd "$LAB/share" || return
	rm -f pairs.json
	run --separate-stderr lab run a env "LIMIT=$LIMIT" WAIT=15 DURATION=1 SIZE=64K "$top/tests/pairs" "$@"
	tail -n 40 pairs.log
}

# paths FILTER: print "client server" of each matching session in pairs.json.
paths() {
	jq -r ".sessions[] | select($1) | \"\(.client) \(.server)\"" pairs.json | sort
}

undisturbed() {
	lab run d tc qdisc del dev eth0 root
}

# The test ignores the paths between the other hosts: they differ by more than 10 %, because the hosts share processors.
@test "pairs reports a host with a rate limit, and each path from it, among four hosts" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root netem rate 2mbit limit 10000
	all_pairs host-a host-b host-c host-d
	[ "$status" -eq 2 ]
	[ "$(jq '.sessions | length' pairs.json)" -eq 12 ]
	[ -z "$(paths '.status != 0')" ]
	[ "$(paths '.client == "host-d" and .verdict == "slow" and .looks == 2')" = "$(printf 'host-d host-%s\n' a b c)" ]
	grep -x 'host-d as the one that writes: 3 of 3 paths are slow or failed' <<<"$output"
	[ "$(grep -c '^slow: host-d to host-[abc], rail 1: 0.00[0-9]* Gbit/s, [0-9]* % of the median$' <<<"$output")" -eq 3 ]
	grep -Ex 'host-d( +0.00[0-9]* slow){3} +-' <<<"$output"
}

# Host d's port has an MTU of 1500 bytes, as in a switch (check.bats): its larger packets are lost.
@test "pairs reports a host with a smaller MTU, and the failed paths from it, among three hosts" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root handle 1: netem
	lab run d tc qdisc replace dev eth0 parent 1: bfifo limit 1514
	all_pairs host-a host-b host-d
	[ "$status" -eq 1 ]
	[ "$(paths '.verdict == "failed"')" = "$(printf 'host-d host-%s\n' a b)" ]
	grep -x 'host-d as the one that writes: 2 of 2 paths are slow or failed' <<<"$output"
	[ "$(grep -c '^failed: host-d to host-[ab], rail 1: ' <<<"$output")" -eq 2 ]
}

@test "pairs reports a host that does not answer, measures the others, and leaves no server running" {
	all_pairs host-a host-b host-nowhere
	[ "$status" -eq 1 ]
	[[ $stderr == *"pairs: no server on host-nowhere: the command that starts it has ended; see pairs.log"* ]]
	[ "$(paths '.status == 0')" = "$(printf '%s\n' 'host-a host-b' 'host-b host-a')" ]
	grep -x 'failed: host-a to host-nowhere, rail 1: no answer' <<<"$output"
	for host in a b; do
		await lab run "$host" sh -c '! pgrep rdma-server'
	done
	all_pairs host-nowhere host-neither
	[ "$status" -eq 125 ] # no path was measured
}

# The script in place of ssh. The server on host "dead" ignores the end of its input, like a host without power. A
# client on host a gets a tenth of the rate while host c writes back. A file "rates" gives other rates, a line for each
# path: "CLIENT SERVER RATE". Each measurement of a path has a number ($look), by which the clients of the two directions
# find each other.
# shellcheck disable=SC2016 # expanded when the script runs
stub='#!/bin/sh
host=$1
shift 2
echo "$host $*" >>"$STUB/asked"
if [ "$1" = sh ]; then
	echo "{\"kind\": \"listening\", \"port\": 1}"
	[ "$host" = dead ] || exec cat >/dev/null
	echo $$ >"$STUB/dead"
	exec sleep 60
fi
for word; do
	peer=$port port=$word
done
look=1 tries=20 rate=1000000000
until mkdir "$STUB/$host.$peer.$look" 2>/dev/null; do
	look=$((look + 1))
done
while [ "$tries" -gt 0 ] && [ ! -e "$STUB/$peer.$host.$look" ]; do
	sleep 0.1
	tries=$((tries - 1))
done
[ "$host $peer" != "a c" ] || [ "$tries" -eq 0 ] || rate=100000000
[ ! -e "$STUB/rates" ] || rate=$(sed -n "s/^$host $peer //p" "$STUB/rates")
echo "{\"status\": 0, \"bits_per_second\": $rate}"'

# stub_pairs HOST...: run tests/pairs with that script; sets $status, $output and $stderr; the file "asked" lists the
# commands.
stub_pairs() {
	export STUB=$BATS_TEST_TMPDIR
	cd "$STUB" || return
	echo "$stub" >on
	chmod 755 on
	: >asked
	ON=$STUB/on LIMIT=3 WAIT=1 run --separate-stderr timeout -k 1 40 "$top/tests/pairs" "$@" 3>&-
}

@test "pairs repeats a measurement in both directions, and reports a path that is slow only while both are busy" {
	stub_pairs a b c
	[ "$status" -eq 2 ]
	[ "$(paths '.verdict == "slow"')" = "a c" ]
	[ "$(paths '.looks == 2')" = $'a c\nc a' ]
	grep -x 'slow: a to c, rail 1: 0.1 Gbit/s, 10 % of the median' <<<"$output"
}

@test "pairs reports a dead host, and waits at most LIMIT for its server to end" {
	# shellcheck disable=SC2016 # expanded when it is run
	repair='eval kill "$(<"$STUB/dead")" 2>/dev/null || true'
	stub_pairs a dead
	[ "$status" -eq 0 ]
	[ "$stderr" = "pairs: the server on dead did not end within 3 s: check that the host still runs" ]
	run ! kill -0 "$(<dead)"
}

@test "pairs accepts a DURATION of '2s', and refuses an invalid one, and a host or address given twice" {
	DURATION=2s stub_pairs a b
	[ "$status" -eq 0 ]
	grep -q '^a rdma-client .* --timeout 1 .* --duration 2 ' asked
	for DURATION in 2m 0 08 s 1.5; do
		DURATION=$DURATION stub_pairs a b
		[ "$status" -eq 125 ]
		[ "$stderr" = "pairs: DURATION is whole seconds (5 or 5s), at least 1, not '$DURATION'" ]
		[ ! -s asked ]
	done
	unset DURATION
	for twice in "a a" "a=192.0.2.1 b a=192.0.2.2" "a=192.0.2.1 b=192.0.2.1" "a=192.0.2.1,192.0.2.1 b=192.0.2.2,192.0.2.3"; do
		# shellcheck disable=SC2086 # words
		stub_pairs $twice
		[ "$status" -eq 125 ]
		[[ $stderr == "pairs: '"@(a|192.0.2.1)"' is given twice: give each host, and each address, once" ]]
		[ ! -s asked ]
	done
}

# The rates are those of README's run between emulated hosts.
@test "pairs prints the table, the slow paths and the host that README shows" {
	local shown
	shown=$(sed -n '/^    \$ tests\/pairs /,/^$/s/^    //p' "$top/README.md")
	printf '%s\n' "host-a host-b 67e6" "host-a host-c 58e6" "host-b host-a 78e6" "host-b host-c 10e6" "host-c host-a 2.1e6" \
		"host-c host-b 2e6" >"$BATS_TEST_TMPDIR/rates"
	# shellcheck disable=SC2046 # words
	stub_pairs $(sed -n 's/^\$ tests.pairs //p' <<<"$shown")
	[ "$status" -eq 2 ]
	shown=${shown#*$'\n'}
	[[ $output == "${shown%%…*}"*"${shown#*…}" ]] || diff <(echo "$shown") <(echo "$output")
}
