#!/usr/bin/env bats
# Run the commands of README's sessions between two hosts, and compare the output with README's, except for the
# numbers. Also run the commands that tests/README.md shows on two hosts.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # tests are subshells; variables come from and go to bats and helpers.bash

load helpers

# shellcheck disable=SC2016 # a heading
CHECK='When it fails: `--check`'

# block DOCUMENT HEADING NUMBER: print the block of code with that number below a heading; a blank line does not end a block.
block() {
	awk -v heading="$2" -v wanted="$3" '
		/^#/ { here = $0 == heading; number = 0; inside = 0 }
		here && /^    / { if (!inside) number++; inside = 1; if (number == wanted) print substr($0, 5); next }
		inside && !/^$/ { inside = 0 }' "$top/$1"
}

# filled COMMAND: print the command with the paths of the programs under test, host a's address and $port inserted.
filled() {
	local line=${1//.\/rdma-/$PROGRAMS/rdma-}
	line=${line//ADDRESS/192.0.2.1}
	echo "${line//PORT/${port:-}}"
}

# typed HOST NUMBER HEADING: print the NUMBER-th command of HOST below README's HEADING, filled().
typed() {
	filled "$(awk -v heading="## $3" '/^#/ { here = $0 == heading } here && /^    host / { print substr($0, 5) }' "$top/README.md" |
		sed -n "s/^host $1\\$ //p" | sed -n "$2p")"
}

# inline PATTERN: print the one command in README's sentences that matches PATTERN, filled().
inline() {
	filled "$(sed -n "s/.*\`\($1\)\`.*/\1/p" "$top/README.md")"
}

# serve COMMAND: start COMMAND on host a, in the share, with exec so that signals reach it; sets $server, $server_out
# and $port.
serve() {
	start_command sh -c "cd '$LAB/share' && exec $1"
}

# connect COMMAND: run COMMAND on host b, in the share; it must exit with 0. Sets $output.
connect() {
	on b sh -c "cd '$LAB/share' && $1"
	expect 0
}

# shape: print standard input without prompts, and with what differs between runs replaced (numbers, addresses) or deleted
# (counted errors, the time of digests).
shape() {
	sed -E 's/[0-9]+([.,][0-9]+)*/N/g; s/fd00::N/A/g; s/ +/ /g; s/ +$//; /^the digest of the/d; /^(neither|this host.s) device counted/d; /^counted by .* during the session:/d; /^errors counted:/d; /^host [AB]\$ /d; /^$/d
		s/^counters (packets are late|errors counted:).*/counters neither device counted errors/'
}

# shows HEADING: check that $output is the first block of code below README's HEADING. A line "..." there stands for one
# line or more.
shows() {
	local shown printed line pattern=''
	shown=$(block README.md "$1" 1 | shape)
	printed=$(shape <<<"$output")
	while read -r line; do
		[ "$line" = ... ] && pattern+='*' || pattern+=$(printf '%q' "$line")
		pattern+=$'\n'
	done <<<"$shown"
	# shellcheck disable=SC2053 # a pattern
	[[ $printed$'\n' == $pattern ]] || diff <(echo "$shown") <(echo "$printed")
}

# transcript HOST: print the output of HOST that README shows.
transcript() {
	block README.md '## The two commands' 1 | sed -n "/^host $1/,/^host [^$1]/p" | shape
}

@test "README: a session prints the transcript on both sides" {
	serve "$(typed A 1 'The two commands' | sed 's/ write/ --one-off write/')"
	connect "$(typed B 1 'The two commands')"
	await_end server
	diff <(transcript A) <(shape <"$server_out")
	diff <(transcript B) <(shape <<<"$output")
}

# bats test_tags=roce
@test "README: a file is sent, verified and stored" {
	head -c 2000000 /dev/urandom >"$LAB/share/disk.img"
	serve "$(typed A 1 'Send a file')"
	connect "$(typed B 1 'Send a file')"
	shows '## Send a file'
	cmp "$LAB/share/disk.img" "$LAB/share/received.img"
}

# bats test_tags=roce
@test "README: the files of a folder arrive through a pipe" {
	mkdir -p "$LAB/share/folder" "$LAB/share/there"
	seq 100000 >"$LAB/share/folder/numbers"
	export PATH=$PROGRAMS:$PATH
	serve "$(inline 'rdma-server .* | tar x' | sed 's/tar x/tar x -C there/')"
	connect "$(inline 'tar c .* write ADDRESS PORT')"
	expect_end server 0
	cmp "$LAB/share/folder/numbers" "$LAB/share/there/folder/numbers"
}

# bats test_tags=roce
@test "README: a latency is measured, and reported as shown" {
	serve "$(typed A 1 Measure)"
	connect "$(typed B 1 Measure)"
	shows '## Measure'
}

# bats test_tags=roce,slow
@test "README: the demonstration ends with the line as shown" {
	rm -rf "${LAB:?}/share/"* # the demonstration expects no folder there
	run "$top/tests/demo"
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = "$(inline 'demo: .*')" ]
}

# bats test_tags=roce,slow
@test "README: an operator's commands examine both hosts and the path" {
	export PATH=$PROGRAMS:$PATH
	on a sh -c "$(typed A 1 "$CHECK")"
	expect 0
	[[ $output == *$'\nReady. '* ]]
	on b sh -c "$(typed B 1 "$CHECK")"
	expect 0
	serve "$(typed A 2 "$CHECK")"
	connect "$(typed B 2 "$CHECK")"
	[[ $output == *$'\nReady. All sizes arrived in both directions, verified.' ]]
	stop_server
}

# bats test_tags=roce,slow
@test "README: the rate of both directions is measured" {
	serve "$(typed A 2 Measure | sed 's/ 10 / 1 --one-off /')"
	connect "$(typed B 2 Measure | sed 's/ 10 / 1 /')"
	grep -Eq '^wrote [0-9]+ bytes in [0-9]+ operations' <<<"$output"
	expect_end server 0
	grep -Eq '^wrote [0-9]+ bytes in [0-9]+ operations' "$server_out"
}

# bats test_tags=roce,slow
@test "README: the command with jq fails if a path has failed" {
	local alert
	serve "$PROGRAMS/rdma-server -p 47881"
	alert=$(inline 'rdma-client --check --json .* | jq -es [^`]*')
	export PATH=$PROGRAMS:$PATH
	connect "$alert"
	[ "$output" = true ]
	stop_server
	on b sh -c "$alert"
	expect 1
	[ "$output" = false ]
}

# Over iWARP --check tries other sizes than README shows.
# bats test_tags=roce
@test "README: --check prints the steps, the sizes and the end as shown" {
	serve "$PROGRAMS/rdma-server write"
	export PATH=$PROGRAMS:$PATH
	connect "$(block README.md "# rdma-server and rdma-client" 1 | sed -n "s/^host B\\$ //p" | sed "s/PORT/$port/")"
	shows '# rdma-server and rdma-client'
}

# Debian 12's kernel package takes 71 MB, Debian 13's 63 MB; for arm64 60 MB and 93 MB. README has the figures for amd64.
@test "README and the plan of the demonstration state how much of Debian's kernel is kept, within 10 MB" {
	local kept text sizes=() readme
	kept=$(du -s --apparent-size -B 1MB "$LAB_MODULES" | cut -f 1)
	[ "$(dpkg --print-architecture)" != amd64 ] || readme=$(<"$top/README.md")
	for text in ${readme+"$readme"} "$(XDG_CACHE_HOME=$BATS_TEST_TMPDIR "$top/tests/demo" --plan)"; do
		[[ $text =~ "Debian's kernel ("([0-9]+ to [0-9]+)" MB)"[^0-9]*keeps?" "([0-9]+)" MB" ]]
		sizes+=("${BASH_REMATCH[1]}, ${BASH_REMATCH[2]}")
		echo "stated: ${sizes[-1]}; kept: $kept"
		[ "${BASH_REMATCH[2]}" -ge $((kept - 10)) ]
		[ "${BASH_REMATCH[2]}" -le $((kept + 10)) ]
	done
	[ "${sizes[0]}" = "${sizes[-1]}" ]
}

# Only over Soft-RoCE: soft-iWARP may overlook a message that arrives just when the connect request is answered, until
# more data arrives (rdma-common.c, send_keepalive()). rping sends no more data, so it would wait forever.
# bats test_tags=roce
@test "tests/README.md: rping runs on the two hosts as typed there" {
	local lines=()
	mapfile -t lines < <(block tests/README.md '## Your own RDMA program on two hosts' 1 |
		sed -n 's/^\$ lab run \([ab] rping .*\)/\1/p' | sed 's/ &$//')
	[ "${#lines[@]}" -eq 2 ]
	# shellcheck disable=SC2086 # words
	start server ${lines[0]}
	lab run -w "$LIMIT" a sh -c 'until rdma resource show cm_id | grep -q "LISTEN.*192.0.2.1:7174 "; do sleep 0.05; done'
	# shellcheck disable=SC2086
	on ${lines[1]}
	[ "$status" -eq 0 ]
	[[ $output == *"ping data"* ]]
	await_end server # Debian's rping exits with the error of the disconnection
}
