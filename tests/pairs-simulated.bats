#!/usr/bin/env bats
# rdma-pairs with simulated hosts, which are processes of this machine (tests/simulated). These tests need no RDMA device.
# No result depends on time, as long as a host is not late by half of a round: a measurement takes no time here.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables come from and go to bats and helpers.bash
# shellcheck disable=SC2016,SC2046,SC2086 # other shells expand; a word for each host

load helpers

setup_file() { :; }

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	programs=$top/build/simulated
	export SIMULATED_STATE=$BATS_TEST_TMPDIR/state SIMULATED=''
	mkdir "$SIMULATED_STATE"
}

# pairs OPTION|HOST...: run rdma-pairs with simulated hosts, and the faults in $SIMULATED. Sets $status, $output and $stderr.
pairs() {
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --on "$programs/on" --timeout 1 "$@" </dev/null 3>&-
}

# hosts N [SUFFIX]: print the names of N hosts.
hosts() {
	seq -f "h%g${2:-}" "$1"
}

# ended: return true if no simulated server runs.
ended() {
	local file
	for file in "$SIMULATED_STATE"/server.*; do
		flock --nonblock "$file" true || return
	done
}

# found: print the lines of the result about bad hosts, rails and paths.
found() {
	grep '^bad ' <<<"$output"
}

# The pairs of the faults meet in the four rounds: their numbers, counted from 0, have the sum 0, 5, 11 or 17, or that plus 23.
@test "24 hosts: each fault is named, and no healthy host or path" {
	SIMULATED="fails:h9 hangs:h12 clock:h7 slow:h5 slow:h20 once:h3-h4 path:h14-h16 noisy:h2 dies:h18 loses:h22-h3 stuck:h1-h6 text:h10-h3"
	pairs --timeout 2 --rounds 4 $(hosts 24)
	[ "$status" -eq 1 ]
	diff <(found) - <<-'END'
		bad host h9: ssh: connect to host h9 port 22: No route to host
		bad host h12: no answer within 12 s
		bad host h18: its server has ended
		bad host h5: 4 of 4 paths as writer and 4 of 4 paths as target are slow
		bad host h20: 4 of 4 paths as writer and 4 of 4 paths as target are slow
		bad path h1 to h6, rail 1, measured twice: failed: no result arrived
		bad path h10 to h3, rail 1, measured twice: failed: rdma-client printed no result
		bad path h22 to h3, rail 1, measured twice: failed: no progress for 2 s while connecting to h3
		bad path h14 to h16, rail 1, measured twice: slow: 61.8 Gbit/s, 61 % of the median
	END
	[[ $stderr == *"rdma-pairs: the clock of h7 is "[23]?.?" s ahead of this machine's: corrected for this run"* ]]
	ended
}

@test "a rail that is slow between all hosts, and one rail of one host, are named" {
	SIMULATED="rail:3 slow:h4.1"
	pairs --duration 1 $(for host in $(hosts 6); do echo "$host=$host.1,$host.2,$host.3"; done)
	[ "$status" -eq 2 ]
	diff <(found) - <<-'END'
		bad rail 3: 30 of 30 paths are slow
		bad host h4, rail 1: 5 of 5 paths as writer and 5 of 5 paths as target are slow
	END
}

@test "a host that only writes slowly is named as a writer; the other direction is good" {
	SIMULATED="writes:h2"
	pairs --duration 1 $(hosts 3)
	[ "$status" -eq 2 ]
	diff - <(echo "$output") <<-'END'
		rail 1, Gbit/s  h1         h2     h3
		h1              -          104.5  100.0
		h2              62.7 slow  -      60.3 slow
		h3              100.0      100.5  -
		6 paths, median 100.0 Gbit/s: 4 good, 2 slow
		bad host h2: 2 of 2 paths as writer are slow
	END
	[ -z "$stderr" ]
}

@test "two hosts have nothing to compare with, except --min-rate" {
	SIMULATED="writes:h2"
	pairs --duration 1 $(hosts 2)
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 <<<"$output")" = "there is no other path to compare these paths with: --min-rate gives the rate that is good" ]
	pairs --duration 1 --min-rate 100Gbit $(hosts 2)
	[ "$status" -eq 2 ]
	[ "$(tail -n 1 <<<"$output")" = "bad path h2 to h1, rail 1, measured twice: slow: 62.7 Gbit/s, 63 % of --min-rate" ]
}

@test "no result is exit status 125: no host answers, or standard output is full" {
	SIMULATED="fails:h1 fails:h2 hangs:h3"
	pairs $(hosts 3)
	[ "$status" -eq 125 ]
	diff - <(echo "$stderr") <<-'END'
		rdma-pairs: h1 takes no part: ssh: connect to host h1 port 22: No route to host
		rdma-pairs: h2 takes no part: ssh: connect to host h2 port 22: No route to host
		rdma-pairs: h3 takes no part: no answer within 6 s
		rdma-pairs: the command for h3 did not end, and was killed: check that the host still runs
		rdma-pairs: fewer than two hosts take part: no path was measured
	END
	SIMULATED=''
	run --separate-stderr sh -c '"$@" >/dev/full' - "$top/rdma-common/pairs/rdma-pairs" --on "$programs/on" --json --duration 1 h1 h2
	[ "$status" -eq 125 ]
	[ "$stderr" = "rdma-pairs: cannot write to standard output: No space left on device" ]
	ended
}

# start_pairs OPTION|HOST...: start rdma-pairs in the background, and wait until it begins to measure. Sets $client.
start_pairs() {
	rm -f client.out
	"$top/rdma-common/pairs/rdma-pairs" --on "$programs/on" --json "$@" </dev/null >client.out 2>client.err 3>&- &
	client=$!
	await grep -q '"kind": "path"' client.out
}

@test "a signal ends the run and all servers within 5 s, even if the command for a host does not end" {
	SIMULATED="stays:h2"
	local before signal
	for signal in INT TERM HUP; do
		start_pairs --duration 60 $(hosts 3)
		before=$(milliseconds)
		kill -s "$signal" "$client"
		status=0
		wait "$client" || status=$?
		[ "$(($(milliseconds) - before))" -lt 5000 ]
		[ "$status" -eq 125 ]
		[ "$(tail -n 1 client.err)" = "rdma-pairs: a signal has ended the run: there is no result" ]
		ended
	done
}

@test "the servers of all hosts end when rdma-pairs is killed" {
	start_pairs --duration 60 $(hosts 3)
	kill -s KILL "$client"
	await ended
}

@test "the processes of a host end when its shell is killed, and the host is named" {
	start_pairs --duration 3 $(hosts 3)
	pkill -KILL -f '^sh -s h2$'
	wait_for_line client.out '"kind": "host".*"name": "h2"' "$client"
	await flock --nonblock "$SIMULATED_STATE/server.h2" true
	await_end client
	[ "$status" -eq 1 ]
	grep '^bad host h2: ' client.err
}

@test "rdma-pairs needs no writable folder, and the command for a host inherits none of its descriptors" {
	local command=$BATS_TEST_TMPDIR/lists
	printf '%s\n' '#!/bin/sh' 'ls -l /proc/self/fd >"$SIMULATED_STATE/fds.$1"' "exec $programs/on \"\$@\"" >"$command"
	chmod +x "$command"
	cd /proc
	TMPDIR=/nowhere pairs --on "$command" --duration 1 $(hosts 2)
	[ "$status" -eq 0 ]
	# A leak would give the second command the pipes of the first one.
	diff <(grep -o '^l.* -> [a-z]*' "$SIMULATED_STATE/fds.h1" | sed 's/.* -> //') \
		<(grep -o '^l.* -> [a-z]*' "$SIMULATED_STATE/fds.h2" | sed 's/.* -> //')
	run ! grep eventpoll "$SIMULATED_STATE"/fds.h*
}

@test "a host that does not read its plan does not block the others" {
	python3 -B - "$top/rdma-common/pairs" <<-'END'
		import sys, time
		sys.path.insert(0, sys.argv[1])
		from streams import Streams
		streams, got = Streams(), []
		streams.start(["sleep", "60"], ["hangs"])
		streams.start(["cat"], ["reads"])
		for number in range(1000):
		    streams.send(b"x" * 999 + b"\n")
		end = time.monotonic() + 60
		while len(got) < 1000 and time.monotonic() < end:
		    streams.receive(1, lambda stream, line: got.append(line))
		assert len(got) == 1000, len(got)
		assert ["hangs"] in [stream.names for stream in streams.end(1)]
	END
}

@test "a line that a host may not send is ignored, and an impossible result counts as a failed path" {
	python3 -B - "$top/rdma-common/pairs" <<-'END'
		import sys
		sys.path.insert(0, sys.argv[1])
		from console import Console
		from options import hosts_of, parse
		from run import Run
		from streams import Stream
		options = parse(["--rounds", "3", "h1", "h2", "h3", "h4"])
		run, stream = Run(options, hosts_of(options), Console(False)), Stream(["true"], {"h1"})
		deep = b"[" * 60000
		for line in (b"", b"\t", b"hello", b"hello h2\t{}", b"hello h1\t[]", b'hello h1\t{"port": true}', b'hello h1\t{"port": 65536}',
		             b"hello h1\t" + deep, b"late h1", b"late h1 9 5", b"late h1 0 x", b"result h1 0", b"result h1 3 1\t{}",
		             b"result h1 0 2\t{}", b"result h1 -1 1\t{}", b"result h2 0 1\t{}", b"result h1 x 1\t{}", b"result \xff 0 1\t{}"):
		    run.handle(stream, line)
		assert (run.ports, run.late, run.absent, len(run.paths)) == ({}, {}, {}, 0)
		for text in (deep, b"[]", b"{}", b'{"status": true}', b'{"status": 0, "bits_per_second": NaN}', b'{"status": 0, "bits_per_second": 1e400}',
		             b'{"status": 0, "bits_per_second": -1}', b'{"status": 5, "error": "\\ud800\\u001b[2J"}'):
		    run.seen = bytearray(len(run.seen))
		    run.handle(stream, b"result h1 0 1\t" + text)
		assert len(run.paths) == 8 and all(run.paths.error), run.paths.error
		assert all(reason.isprintable() for reason in run.paths.reasons), run.paths.reasons
		run.handle(stream, b"clock h1 " + b"9" * 400)
		assert f"{run.wrong[0] / 1000:.1f}"
	END
}

@test "the paths to two dead hosts of four make no other host bad, and a bad rail makes no host bad" {
	python3 -B - "$top/rdma-common/pairs" <<-'END'
		import sys
		sys.path.insert(0, sys.argv[1])
		from paths import Paths
		from verdict import Verdict
		def findings(rails, is_bad):
		    paths = Paths()
		    for client, server, rail in ((c, s, r + 1) for c in range(4) for s in range(4) for r in range(rails) if c != s):
		        paths.add(client, server, rail, *((0, "failed") if is_bad(client, server, rail) else (1e9, "")))
		    verdict = Verdict(paths, 4, rails, 0, {})
		    return [(found.host, found.rail) for found in verdict.findings], len(verdict.single)
		dead = findings(1, lambda client, server, rail: client > 1 or server > 1)
		assert dead == ([(2, None), (3, None), (2, None), (3, None)], 0), dead
		rail = findings(2, lambda client, server, rail: rail == 2 or client + server == 1)
		assert rail == ([(None, 2)], 2), rail
	END
}

@test "a path takes at most 100 bytes of memory" {
	python3 -B - "$top/rdma-common/pairs" <<-'END'
		import resource, sys
		sys.path.insert(0, sys.argv[1])
		from paths import Paths
		from verdict import Verdict
		def peak():
		    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
		before, paths = peak(), Paths()
		for client in range(600):
		    for server in range(600):
		        if client != server:
		            paths.add(client, server, 1, 1e11 + server, "")
		paths.merge()
		assert Verdict(paths, 600, 1, 0, {}).status() == 0
		assert 0 < (peak() - before) / len(paths) <= 100, (peak() - before) / len(paths)
	END
}

@test "the progress is one line on a terminal, and none with NO_COLOR" {
	script -qec "$top/rdma-common/pairs/rdma-pairs --on $programs/on --duration 1 h1 h2 h3" terminal </dev/null >/dev/null 3>&-
	grep -aE $'\rround 2 of 3, 0 failed, 0 slow, [0-9]+ s left\033\\[K' terminal
	grep -aq $'\r\033\\[Krail 1, Gbit/s' terminal
	NO_COLOR=1 script -qec "$top/rdma-common/pairs/rdma-pairs --on $programs/on --duration 1 h1 h2" terminal </dev/null >/dev/null 3>&-
	run ! grep -aq 'round' terminal
}

@test "--json prints records that match the schema, and --summarize prints the same result from them" {
	pairs --duration 1 --json $(hosts 5)
	[ "$status" -eq 0 ]
	echo "$output" >old
	SIMULATED="writes:h3 fails:h5 loses:h1-h2"
	pairs --duration 1 --json $(hosts 5)
	[ "$status" -eq 1 ]
	echo "$output" >new
	echo "$stderr" >result
	expect_json <old
	expect_json <new
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --summarize new
	[ "$status" -eq 1 ]
	diff result <(echo "$output")
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --summarize old new
	[ "$status" -eq 1 ]
	diff - <(sed -n '/^since/,$p' <<<"$output" | sed 's/since [-0-9TZ:.]*:/since then:/') <<-'END'
		since then: median 100.5 Gbit/s, 101.2 before
		newly bad host h5: ssh: connect to host h5 port 22: No route to host
		newly bad host h3: 3 of 3 paths as writer became slow
		newly bad path h1 to h2, rail 1, measured twice: failed: no progress for 1 s while connecting to h2
	END
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --summarize new old
	[ "$status" -eq 0 ]
	diff - <(sed -n '/^since/,$p' <<<"$output" | sed 1d) <<-'END'
		no longer bad host h5: ssh: connect to host h5 port 22: No route to host
		no longer bad host h3: 3 of 3 paths as writer were slow
		no longer bad path h1 to h2, rail 1, measured twice: failed: no progress for 1 s while connecting to h2
	END
	grep -v '"kind": "verdict"' new >"part"
	echo 'no record' >>"part"
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --summarize part
	[ "$status" -eq 1 ]
	diff result <(echo "$output")
	[ "$stderr" = "rdma-pairs: the run did not end: this is the result of the paths that it measured" ]
	run --separate-stderr "$top/rdma-common/pairs/rdma-pairs" --summarize result
	[ "$status" -eq 125 ]
	[ "$stderr" = "rdma-pairs: result has no record of kind 'pairs': give the output of rdma-pairs --json" ]
}

# refused TEXT OPTION|HOST...: check that rdma-pairs refuses the command line with TEXT.
refused() {
	pairs "${@:2}"
	[ "$status" -eq 125 ]
	[ "$stderr" = "rdma-pairs: $1"$'\n'"Try 'rdma-pairs --help'." ] || { echo "not: $1" && return 1; }
}

@test "rdma-pairs refuses wrong command lines, with the reason" {
	local value twice
	refused "give at least two hosts, and at most 65535: rdma-pairs HOST HOST..." a
	refused "option --bogus not recognized" --bogus a b
	for value in 2m 0 s 1.5 1000000; do
		refused "--duration takes whole seconds (5 or 5s) from 1 to 100000, not '$value'" --duration "$value" a b
		refused "--timeout takes whole seconds (5 or 5s) from 1 to 100000, not '$value'" -t "$value" a b
	done
	refused "--rounds takes a whole number from 1 to 999999, not '0'" --rounds 0 a b
	refused "--size takes a size such as 64K or 1MiB, not '; x'" -s '; x' a b
	refused "--min-rate takes a rate such as 800M or 10Gbit, not '10Gb'" --min-rate 10Gb a b
	refused "--picture takes the name of a file that ends in .svg or .png, not 'x'" --picture x a b
	refused "'-x' is no host: give NAME, or NAME=ADDRESS,ADDRESS..." -- -x b
	refused "'a=\$(b)' is no host: give NAME, or NAME=ADDRESS,ADDRESS..." 'a=$(b)' b
	refused "give each host the same number of addresses, one for each rail" a=192.0.2.1,192.0.2.2 b=192.0.2.3
	for twice in "a a" "a=192.0.2.1 b a=192.0.2.2"; do
		refused "'a' is given twice: give each host, and each address, once" $twice
	done
	for twice in "a=192.0.2.1 b=192.0.2.1" "a=192.0.2.1,192.0.2.1 b=192.0.2.2,192.0.2.3"; do
		refused "'192.0.2.1' is given twice: give each host, and each address, once" $twice
	done
	refused "--summarize takes one file, or an older and a newer one" --summarize
}

@test "the hosts of a file are measured, --duration takes 1s, and a missing file is reported" {
	printf '%s\n' '# the cluster' 'h1 h2=h2' '' ' h3 # spare' >file
	pairs --duration 1s --hosts file
	[ "$status" -eq 0 ]
	[[ $output == *$'\n6 paths, median '* ]]
	pairs --hosts nowhere
	[ "$status" -eq 125 ]
	[[ $stderr == "rdma-pairs: cannot read the hosts in nowhere: "*"No such file or directory"* ]]
}

# records FAULTS HOST...: print the records of a run of all rounds.
records() {
	SIMULATED=$1 pairs --duration 1 --json "${@:2}" >&2
	echo "$output"
}

# bats test_tags=slow
@test "--picture draws a heat map of all paths, and a bar for each host of a sample" {
	records "slow:h2 loses:h3-h1" $(hosts 5) >all
	run -1 "$top/rdma-common/pairs/rdma-pairs" --summarize --picture all.svg all
	grep -q "<image style='image-rendering:pixelated' " all.svg
	for text in writes 'is written to' h1 h5; do
		grep -qF ">$text<" all.svg
	done
	run -1 "$top/rdma-common/pairs/rdma-pairs" --summarize --picture all.png all
	[ "$(od -A n -c -N 4 all.png)" = " 211   P   N   G" ]
	pairs --duration 1 --rounds 2 --picture sample.svg $(hosts 6)
	[ "$status" -eq 0 ]
	grep -qF ">median of the host's paths<" sample.svg
	grep -qF ">its worst path<" sample.svg
	[ "$(grep -c '<polygon' sample.svg)" -ge 12 ]
}

@test "a picture that cannot be drawn is refused before the measurement" {
	mkdir bin
	ln -s /usr/bin/env /usr/bin/python3 bin
	PATH=$BATS_TEST_TMPDIR/bin run -125 "$top/rdma-common/pairs/rdma-pairs" --picture a.svg h1 h2
	[ "$output" = "rdma-pairs: cannot draw a.svg by gnuplot: No such file or directory: install gnuplot" ]
	ln -s /usr/bin/true bin/gnuplot
	PATH=$BATS_TEST_TMPDIR/bin run -125 "$top/rdma-common/pairs/rdma-pairs" --picture nowhere/a.svg h1 h2
	[ "$output" = "rdma-pairs: cannot draw nowhere/a.svg: the folder nowhere is missing, or this user may not write there" ]
}

# shows DOCUMENT: compare the output of a run whose rates are those of the document with its block of code. The document has
# rounded rates: 0.0001 Gbit/s more give the same median.
shows() {
	local shown
	shown=$(sed -n "/^ *\$ rdma-pairs host-a host-b host-c\$/,/^\$\|^\.Ed/s/^ *//p" "$top/$1" | grep -v -x '\.Ed\|\.\.\.')
	SIMULATED=$(awk '/^host-/ { gsub(" slow", ""); row[++n] = $1; for (i = 2; i <= NF; i++) if ($i != "-") printf "%s-%s=%s\n", $1, i, $i * 1e9 + 1e5 }' <<<"$shown" |
		sed 's/-2=/-host-a=/; s/-3=/-host-b=/; s/-4=/-host-c=/; s/^/rate:/' | paste -sd ' ')
	pairs --duration 1 host-a host-b host-c
	[ "$status" -eq 2 ]
	shown=${shown#*$'\n'}
	[[ $output == "$shown"* ]] || { diff <(echo "$shown") <(echo "$output") && return 1; }
}

@test "rdma-pairs prints the tables and lines that README and the manual page show" {
	shows README.md
	shows .man/rdma-pairs.1
}
