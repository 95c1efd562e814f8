# What the programs do when something goes wrong: on the other side, in between, on this side. Read it
# as a table: a line is a fault, in which modes, what the program under test must print on standard
# error, with which status and within how many seconds it must end. The other side is tests/peer, a
# proper program of this project but for the fault that is named.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

: "${PROGRAMS:?}" "${PEER:?}" # set by helpers.bash

LAB_TRANSPORT=${LAB_TRANSPORT:-rxe}

GONE="the peer went away before the session was complete"
SILENT="nothing happened for the time of --timeout"
WRONG="the contents are wrong"
NO_MESSAGE="that are no message of this protocol"
UNUSABLE="the peer's memory region (cannot be used|is ready beyond its end)"
# siw reports to the side that requested the access only that the connection is gone
ACCESS="remote access error" DENIED=4
[ "$LAB_TRANSPORT" != siw ] || ACCESS=$GONE DENIED=6
# siw ends an unanswered request after ten seconds, and the kernel lets no program end before
CONNECTING=4
[ "$LAB_TRANSPORT" != siw ] || CONNECTING=11
WINDOW="the peer's window"
# of a window whose numbers stand still: it confirms nothing either, as it might where this side is slow and sends one
UNMOVED=(--set window.received=0)
# one less than what is right
LESS=+0xffffffffffffffff
REJECTED="connection rejected"
# over iWARP a server that sends first breaks the connection; a message that is too long does so too
EARLY=7 LONG=7
[ "$LAB_TRANSPORT" != siw ] || EARLY="6|7" LONG="6|7"
# a server on siw serves what it is asked for, whatever it states
UNREAD=4 UNREAD_TEXT="no RDMA READ"
[ "$LAB_TRANSPORT" != siw ] || UNREAD=0 UNREAD_TEXT=
NO_FIT="a hello that does not fit"
TOO_MUCH="the server sends 9223372036854775807 bytes, more than the 1073741824 that --max-size allows here"

# ---- What the rows are made of ----

# ends STATUS TEXT: the program ended with this status, or one of them (5|6), and its standard error
# fits TEXT (an extended regular expression); with status 0 and an empty TEXT it is empty.
ends() {
	if [[ ! $status =~ ^($1)$ ]]; then
		echo "exit status $status instead of $1"
		return 1
	fi
	if [ "$status" -eq 0 ] && [ -z "$2" ]; then
		[ -z "$stderr" ]
	elif ! [[ -n $stderr && $stderr =~ $2 ]]; then
		echo "standard error does not say: $2"
		return 1
	fi
}

# Some rows send large payloads.
setup_file() {
	prepare_hosts a b
}

# least TEXT SECONDS: what a row takes at least: one about silence all of its --timeout.
least() {
	[ "$1" = "$SILENT" ] && echo "$2" || echo 0
}

# modes WORD: the modes that a row stands for.
modes() {
	case $1 in
	both) echo read write ;;
	*) echo "$1" ;;
	esac
}

# Seconds of silence that a client, or a server with --one-off, of a row about silence waits for; and such a server that
# goes on to serve others, who speak every few milliseconds. All others wait for $LIMIT: whatever they notice, they notice
# it sooner.
SILENCE=3 LONG_SILENCE=5

# patience TEXT SECONDS: the --timeout of a row. A row about one that passes gives $timeout itself, or expects SILENT.
patience() {
	[ "$1" = "$SILENT" ] && echo "$2" || echo "${timeout:-$LIMIT}"
}

# client_against MODES STATUS SECONDS TEXT PEER-OPTION...: our client at such a server.
client_against() {
	local mode start seconds=$3 expected=$2 text=$4 patience
	patience=$(patience "$text" $SILENCE)
	for mode in $(modes "$1"); do
		start_peer_server "$mode" --hello "${@:5}"
		start=$(milliseconds)
		client -t "$patience" "$mode" 192.0.2.1 "$port"
		within "$seconds" "$start" "$mode" "$(least "$text" "$patience")"
		ends "$expected" "$text"
		end_peer
	done
}

# One server per mode and --timeout goes through all the rows of this file; a row that kills it starts another.
# shared_server MODE [TIMEOUT]: sets $port and $shared, its files without their endings.
shared_server() {
	shared=$BATS_FILE_TMPDIR/$1-${2:-$LIMIT}
	if [ ! -e "$shared.port" ] || [ -e "$shared.status" ]; then
		rm -f "$shared".*
		touch "$shared.out" "$shared.err" "$shared.pid"
		run_shared_server "$1" "${2:-$LIMIT}" 3>&- &
		await test -s "$shared.pid"
		await_port "$shared.out" "$(<"$shared.pid")" || { cat "$shared.err"; return 1; }
		echo "$port" >"$shared.port"
	fi
	port=$(<"$shared.port")
}

# run_shared_server MODE TIMEOUT: it outlives its test, whose shell alone can wait for it.
run_shared_server() {
	local status=0
	background a "$shared.out" "$shared.err" "$PROGRAMS/rdma-server" -t "$2" -m "from the shared server" "$1"
	echo "$!" >"$shared.pid"
	wait "$!" || status=$?
	echo "$status" >"$shared.status"
}

# end_shared_servers: all that run, with status 0.
end_shared_servers() {
	local pid status
	for pid in "$BATS_FILE_TMPDIR"/*.pid; do
		if [ ! -e "$pid" ] || [ -e "${pid%.pid}.status" ]; then continue; fi
		kill "$(<"$pid")"
		await test -s "${pid%.pid}.status"
		status=$(<"${pid%.pid}.status")
		[ "$status" -eq 0 ] || { echo "${pid##*/}: exit status $status"; return 1; }
	done
}

teardown_file() {
	local pid
	for pid in "$BATS_FILE_TMPDIR"/*.pid; do
		[ ! -e "$pid" ] || kill "$(<"$pid")" 2>/dev/null || true
	done
}

# serves_well MODE: the shared server serves a good client, with the right contents both ways.
serves_well() {
	local words="good client after $BATS_TEST_NUMBER"
	client -t "$LIMIT" -m "$words" "$1" 192.0.2.1 "$port"
	expect 0
	[[ $output == *"remote buffer: from the shared server"* ]]
	wait_for_line "$shared.out" "remote buffer: $words" "$(<"$shared.pid")"
}

# server_against MODES SECONDS TEXT PEER-OPTION...: our server and such a client. The server says TEXT
# and nothing else, and serves the next client well.
server_against() {
	local mode start first seconds=$2 text=$3 patience
	patience=$(patience "$text" $LONG_SILENCE)
	for mode in $(modes "$1"); do
		shared_server "$mode" "$patience"
		first=$(($(wc -l <"$shared.err") + 1))
		start=$(milliseconds)
		start_peer b client "$mode" --hello "${@:4}" 192.0.2.1 "$port"
		wait_for_line "$shared.err" "$text" "$(<"$shared.pid")" 1 "$first"
		status=
		within "$seconds" "$start" "$mode" "$(least "$text" "$patience")"
		end_peer
		serves_well "$mode"
		if [ "$(wc -l <"$shared.err")" -ne "$first" ]; then
			echo "more than one line:"
			tail -n +"$first" "$shared.err"
			return 1
		fi
	done
}

# one_session MODES STATUS SECONDS TEXT PEER-OPTION...: how our server ends after such a client if
# it serves one session only.
one_session() {
	local mode start seconds=$3 expected=$2 text=$4 patience
	patience=$(patience "$text" $SILENCE)
	for mode in $(modes "$1"); do
		start_server -1 -t "$patience" "$mode"
		start=$(milliseconds)
		start_peer b client "$mode" --hello "${@:5}" 192.0.2.1 "$port"
		wait_server
		within "$seconds" "$start" "$mode" "$(least "$text" "$patience")"
		stderr=$(cat "$server_err")
		ends "$expected" "$text"
		end_peer
	done
}

# ---- The other side: our client at a server that ... ----
#                                                  modes st s  text          what the server does
@test "client: is right"                         { client_against both  0 2 ""            ; }
@test "client: killed before it accepts"         { client_against both  4 2 "$REJECTED"   --at connect=kill; }
@test "client: killed before its MR"             { client_against read  6 2 "$GONE"       --at mr=kill; }
@test "client: killed after its MR"              { client_against both "4|6" 2 "$GONE|$ACCESS" --at operation=kill; }
@test "client: killed after its operation"       { client_against both "4|6" 2 "$GONE|$ACCESS" --at done=kill; }
@test "client: killed before its verdict"        { client_against read  6 2 "$GONE"       --at verdict=kill; }
@test "client: killed before the disconnection"  { client_against both  0 2 ""            --at disconnect=kill; }
@test "client: killed while much is read"        { client_against read "4|6" 4 "$GONE|$ACCESS" --length 67108864 --at done=flow --at done=kill; }
@test "client: leaves before its MR"             { client_against read  6 2 "$GONE"       --at mr=disconnect; }
@test "client: leaves after its MR"              { client_against read  6 2 "$GONE"       --at operation=disconnect; }
@test "client: leaves before its verdict"        { client_against read  6 2 "$GONE"       --at verdict=disconnect; }
@test "client: never accepts"                    { client_against read  5 "$CONNECTING" "$SILENT" --at connect=hang; }
@test "client: accepts and says nothing"         { client_against write 5 4 "$SILENT"     --at mr=hang; }
@test "client: stopped before its MR"            { client_against read  5 4 "$SILENT"     --at mr=stop; }
@test "client: never sends DONE"                 { client_against read  5 4 "$SILENT"     --at done=hang; }
@test "client: never sends its verdict"          { client_against write 5 4 "$SILENT"     --at verdict=hang; }
@test "client: never disconnects"                { timeout=5 client_against read  0 7 ""            --at disconnect=hang; }
@test "client: DONE before MR"                   { client_against read  "$EARLY" 2 ""         --at mr=done; }
@test "client: verdict before MR"                { client_against read  "$EARLY" 2 ""         --at mr=verdict; }
@test "client: verdict before DONE"              { client_against write 7 2 "$WRONG"      --at done=verdict; }
@test "client: MR twice"                         { client_against read  7 2 "$WRONG"      --at operation=mr; }
@test "client: DONE twice"                       { client_against read  7 2 "$WRONG"      --at verdict=done; }
@test "client: short message"                    { client_against read  "$EARLY" 2 "$NO_MESSAGE|CONNECT_ERROR" --at mr=short; }
@test "client: long message"                     { client_against read  "$LONG" 2 ""          --at mr=long; }
@test "client: unknown message"                  { client_against read  7 2 "$NO_MESSAGE" --at done=unknown; }
@test "client: region at null"                   { client_against read  7 2 "$UNUSABLE"   --set mr.address=0; }
@test "client: region that wraps"                { client_against read  7 2 "$UNUSABLE"   --set mr.address=0xfffffffffffffe00; }
@test "client: region too short"                 { client_against read  7 2 "$UNUSABLE"   --set mr.length=1023; }
@test "client: region of length 0"               { client_against read  7 2 "$UNUSABLE"   --set mr.length=0; }
@test "client: region at a foreign address"      { client_against both $DENIED 2 "$ACCESS"     --set mr.address=+0x100000000; }
@test "client: region longer than it is"         { client_against read  0 2 ""            --set mr.length=+1; }
@test "client: wrong rkey"                       { client_against both $DENIED 2 "$ACCESS"     --set mr.rkey=+0x5500; }
@test "client: wrong digest"                     { client_against both  7 2 "$WRONG"      --set done.digest=+1; }
@test "client: DONE without its operation"       { client_against write 7 2 "$WRONG"      --at operation=skip; }
@test "client: bad verdict"                      { client_against both  7 2 "$WRONG"      --set verdict.status=7; }
@test "client: verdict of an unknown status"     { client_against write 7 2 "$WRONG"      --set verdict.status=0xffffffffffffffff; }
@test "client: a window"                         { client_against both  0 2 ""            --at done=window; }
@test "client: a window before MR"               { client_against read  "$EARLY" 2 ""         --at mr=window; }
@test "client: a window that moves nothing"      { client_against read  7 2 "$WINDOW moves nothing" --at done=window --set window.taken=0 "${UNMOVED[@]}"; }
@test "client: the same window twice"            { client_against read  7 2 "$WINDOW moves nothing" --at done=window --at done=window --set window.taken=1 "${UNMOVED[@]}"; }
@test "client: a window after DONE, of storing"  { client_against write 0 2 ""            --at verdict=window; }
@test "client: the same twice after DONE"        { client_against write 7 2 "$WINDOW moves nothing" --at verdict=window --at verdict=window --set window.kept=1 "${UNMOVED[@]}"; }
@test "client: ready goes backwards"             { client_against read  7 2 "$WINDOW goes backwards in what is ready" --at done=window --set window.ready=$LESS; }
@test "client: ready beyond what was agreed"     { client_against write 7 2 "$WINDOW is ready beyond what was agreed" --at done=window --set window.ready=1025; }
@test "client: ready goes on after the end"      { client_against read  7 2 "$WINDOW goes on after the end" --at done=window --set window.ready=+1; }
@test "client: the end before the end"           { client_against write 7 2 "$WINDOW ends before what was agreed" --at done=window --set window.end=1; }
@test "client: the end twice"                    { client_against read  7 2 "$WINDOW ends twice" --at done=window --set window.end=1; }
@test "client: takes what is not ready"          { client_against read  7 2 "$WINDOW takes what was not ready" --at done=window --set window.taken=1025; }
@test "client: keeps what is not ready"          { client_against read  7 2 "$WINDOW keeps what was not ready" --at done=window --set window.kept=1025; }
@test "client: confirms what was not sent"       { client_against write 7 2 "$WINDOW confirms more windows than were sent" --at done=window --set window.received=99; }
@test "client: DONE with a byte too many"        { client_against both  7 2 "the peer is done with other bytes than agreed" --set done.bytes=+1; }
@test "client: more ready than the region has"   { client_against read  7 2 "the peer's memory region is ready beyond its end" --set mr.ready=+1; }
@test "client: gives up before DONE"             { client_against both  7 2 "$WRONG"      --at done=verdict --set verdict.status=7; }
@test "client: hello of another version"         { client_against read  7 2 "$NO_FIT"     --set hello.version=1; }
@test "client: hello of version 1, as it was"    { client_against write 7 2 "$NO_FIT"     --set hello.version=1 --set hello.size=24; }
@test "client: hello of the other operation"     { client_against read  7 2 "$NO_FIT"     --set hello.operation=1; }
@test "client: hello of no operation"            { client_against write 7 2 "$NO_FIT"     --set hello.operation=77; }
@test "client: hello of length 0"                { client_against read  7 2 "$NO_FIT"     --set hello.length=0; }
@test "client: hello of a huge length"           { client_against read  4 2 "$TOO_MUCH"   --set hello.length=0x7fffffffffffffff; }
@test "client: hello of an impossible length"    { client_against read  7 2 "accepted with a hello that does not fit" --set hello.length=0xffffffffffffffff; }
@test "client: hello cut off"                    { client_against read  7 2 ""            --set hello.size=6; }
@test "client: a peer that serves no read"       { client_against read  "$UNREAD" 2 "$UNREAD_TEXT" --set reads=0; }
@test "client: no hello but a verdict"           { client_against write 7 2 "$WRONG"      --set hello.magic=0; }

# ---- The other side: our server and a client that ... ----
#                                                  modes s  text          what the client does
@test "server: killed when it has asked"         { server_against both  4 "$GONE"       --at connect=kill; }
@test "server: killed before its MR"             { server_against write 2 "$GONE"       --at mr=kill; }
@test "server: killed after its MR"              { server_against both  2 "$GONE|$ACCESS" --at operation=kill; }
@test "server: killed after its operation"       { server_against both  2 "$GONE|$ACCESS" --at done=kill; }
@test "server: killed before its verdict"        { server_against write 2 "$GONE"       --at verdict=kill; }
@test "server: killed while much is read"        { server_against read 4 "$GONE|$ACCESS" --length 67108864 --at done=flow --at done=kill; }
@test "server: leaves before its MR"             { server_against write 2 "$GONE"       --at mr=disconnect; }
@test "server: leaves after its MR"              { server_against write 2 "$GONE"       --at operation=disconnect; }
@test "server: leaves before its verdict"        { server_against write 2 "$GONE"       --at verdict=disconnect; }
@test "server: connects and says nothing"        { server_against write 7 "$SILENT"     --at mr=hang; }
@test "server: stopped after its MR"             { server_against write 7 "$SILENT"     --at operation=stop; }
@test "server: never sends DONE"                 { server_against read  7 "$SILENT"     --at done=hang; }
@test "server: never sends its verdict"          { server_against write 7 "$SILENT"     --at verdict=hang; }
@test "server: DONE before MR"                   { server_against write 2 "$WRONG"      --at mr=done; }
@test "server: verdict before MR"                { server_against read  2 "$WRONG"      --at mr=verdict; }
@test "server: verdict before DONE"              { server_against write 2 "$WRONG"      --at done=verdict; }
@test "server: MR twice"                         { server_against write 2 "$WRONG"      --at operation=mr; }
@test "server: DONE twice"                       { server_against write 2 "$WRONG"      --at verdict=done; }
@test "server: short message"                    { server_against write 2 "$NO_MESSAGE" --at mr=short; }
@test "server: long message"                     { server_against write 2 ""            --at mr=long; }
@test "server: unknown message"                  { server_against write 2 "$NO_MESSAGE" --at done=unknown; }
@test "server: region at null"                   { server_against write 2 "$UNUSABLE"   --set mr.address=0; }
@test "server: region that wraps"                { server_against write 2 "$UNUSABLE"   --set mr.address=0xfffffffffffffe00; }
@test "server: region too short"                 { server_against read 2 "$UNUSABLE"   --set mr.length=1023; }
@test "server: region of length 0"               { server_against write 2 "$UNUSABLE"   --set mr.length=0; }
@test "server: region at a foreign address"      { server_against both  2 "$ACCESS"     --set mr.address=+0x100000000; }
@test "server: wrong rkey"                       { server_against both  2 "$ACCESS"     --set mr.rkey=+0x5500; }
@test "server: wrong digest"                     { server_against both  2 "$WRONG"      --set done.digest=+1; }
@test "server: DONE without its operation"       { server_against write 2 "$WRONG"      --at operation=skip; }
@test "server: bad verdict"                      { server_against both  2 "$WRONG"      --set verdict.status=7; }
@test "server: a window before MR"               { server_against read  2 "$WINDOW"     --at mr=window; }
@test "server: the same window twice"            { server_against write 2 "$WINDOW moves nothing" --at done=window --at done=window --set window.ready=1 "${UNMOVED[@]}"; }
@test "server: the same twice after DONE"        { server_against write 2 "$WINDOW moves nothing" --at verdict=window --at verdict=window --set window.kept=1 "${UNMOVED[@]}"; }
@test "server: ready goes backwards"             { server_against read  2 "$WINDOW goes backwards in what is ready" --at done=window --set window.ready=$LESS; }
@test "server: ready beyond what was agreed"     { server_against write 2 "$WINDOW is ready beyond what was agreed" --at done=window --set window.ready=1025; }
@test "server: the end twice"                    { server_against read  2 "$WINDOW ends twice" --at done=window --set window.end=1; }
@test "server: takes what is not ready"          { server_against read  2 "$WINDOW takes what was not ready" --at done=window --set window.taken=1025; }
@test "server: DONE with a byte too many"        { server_against both  2 "the peer is done with other bytes than agreed" --set done.bytes=+1; }
@test "server: gives up before DONE"             { server_against both  2 "$WRONG"      --at done=verdict --set verdict.status=7; }
@test "server: hello of another version"         { server_against write 2 "different versions of the protocol"     --set hello.version=3; }
@test "server: hello of version 1, as it was"    { server_against write 2 "different versions of the protocol"     --set hello.version=1 --set hello.size=24; }
@test "server: hello of the other operation"     { server_against read  2 "mismatched modes" --set hello.operation=1; }
@test "server: hello of no operation"            { server_against write 2 "mismatched modes" --set hello.operation=77; }
@test "server: hello of length 0"                { server_against write 2 "the client sends nothing"  --set hello.length=0; }
@test "server: hello of a huge length"           { server_against write 2 "the client sends nothing"  --set hello.length=0xffffffffffffffff; }
@test "server: a peer that serves no read"       { server_against read  2 "no RDMA READ" --set reads=0; }
@test "server: no hello but a verdict"           { server_against write 2 "$WRONG"      --set hello.magic=0; }

# ---- The same with --one-off: the exit status of our server after a client that ... ----
#                                                  modes st s  text          what the client does
@test "one-off: is right"                        { one_session both  0 2 ""            ; }
@test "one-off: sends a window"                  { one_session both  0 2 ""            --at done=window; }
@test "one-off: sends a window of storing"       { one_session write 0 2 ""            --at verdict=window; }
@test "one-off: never disconnects"               { timeout=5 one_session write 0 5 ""            --at disconnect=hang; }
@test "one-off: killed before it disconnects"    { one_session both  0 2 ""            --at disconnect=kill; }
@test "one-off: wrong rkey"                      { one_session read  $DENIED 2 "$ACCESS"     --set mr.rkey=+0x5500; }
@test "one-off: says nothing"                    { one_session read  5 4 "$SILENT"     --at mr=hang; }
@test "one-off: killed after its MR"             { one_session write "4|6" 2 "$GONE|$ACCESS" --at operation=kill; }
@test "one-off: wrong digest"                    { one_session both  7 2 "$WRONG"      --set done.digest=+1; }
@test "one-off: bad verdict"                     { one_session both  7 2 "$WRONG"      --set verdict.status=7; }

@test "the servers that went through all this end well" {
	local mode
	for mode in read write; do
		shared_server "$mode"
	done
	end_shared_servers
}

# ---- What happens while a session stands still: signals, hosts, links ----

# split_at_dashes PEER-OPTION... -- COMMAND...: sets $options and $command.
split_at_dashes() {
	options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	command=("${@:2}")
}

# client_when MODES OPTIONS STATUS SECONDS TEXT PEER-OPTION... -- COMMAND...: how our client, run with
# OPTIONS, ends if COMMAND is run when the server hangs, or when the client's operation flows.
client_when() {
	local mode start program_options=$2 expected=$3 seconds=$4 text=$5
	local -a options command
	split_at_dashes "${@:6}"
	for mode in $(modes "$1"); do
		start_peer_server "$mode" --hello "${options[@]}"
		# shellcheck disable=SC2086 # several options
		start_client $program_options "$mode" 192.0.2.1 "$port"
		wait_for_line "$peer_out" "^(hanging|flowing)" "$peer"
		start=$(milliseconds)
		"${command[@]}"
		wait_client
		within "$seconds" "$start" "$mode"
		ends "$expected" "$text"
		end_peer
	done
}

# server_when MODES OPTIONS STATUS SECONDS TEXT PEER-OPTION... -- COMMAND...: how our server, run with
# OPTIONS, ends if COMMAND is run when the client hangs, or when the server's operation flows.
server_when() {
	local mode start program_options=$2 expected=$3 seconds=$4 text=$5
	local -a options command
	split_at_dashes "${@:6}"
	for mode in $(modes "$1"); do
		# shellcheck disable=SC2086 # several options
		start_server $program_options "$mode"
		start_peer b client "$mode" --hello "${options[@]}" 192.0.2.1 "$port"
		wait_for_line "$peer_out" "^(hanging|flowing)" "$peer"
		start=$(milliseconds)
		"${command[@]}"
		wait_server
		within "$seconds" "$start" "$mode"
		stderr=$(cat "$server_err")
		ends "$expected" "$text"
		end_peer
	done
}

# signal_client SIGNAL, signal_server SIGNAL: commands for the rows.
signal_client() {
	kill -s "$1" "$client"
}

signal_server() {
	kill -s "$1" "$server"
}

STOPPED="interrupted before the session was complete"
# Nothing is noticed by a --timeout.
PATIENT="-t $LIMIT"
# An operation that is still under way when something happens to it, however fast hosts are and however busy their machine.
ENDLESS="-n 1000000"
#                                                 modes options    st s text    when                   signal
@test "client: SIGINT while connecting"         { client_when read  "$PATIENT" 130 "$CONNECTING" "$STOPPED" --at connect=hang   -- signal_client INT; }
@test "client: SIGTERM before MR"               { client_when write "$PATIENT" 143 2 "$STOPPED" --at mr=hang        -- signal_client TERM; }
@test "client: SIGINT before DONE"              { client_when read  "$PATIENT" 130 2 "$STOPPED" --at done=hang      -- signal_client INT; }
@test "client: SIGTERM while much is read"      { client_when read  "$PATIENT $ENDLESS" 143 3 "$STOPPED" --length 1048576 --at done=flow -- signal_client TERM; }
@test "client: SIGTERM before the verdict"      { client_when write "$PATIENT" 143 2 "$STOPPED" --at verdict=hang   -- signal_client TERM; }
#                                                 modes options       st s text    when                   signal
@test "server: SIGTERM before MR"               { server_when read  "$PATIENT"    0   3 "$STOPPED" --at mr=hang      -- signal_server TERM; }
@test "server: SIGINT before DONE"              { server_when write "$PATIENT"    0   3 "$STOPPED" --at done=hang    -- signal_server INT; }
@test "server: SIGTERM while much is read"      { server_when read  "$PATIENT $ENDLESS" 0 3 "$STOPPED" --length 1048576 --at done=flow -- signal_server TERM; }
@test "server: SIGTERM before the verdict"      { server_when read  "$PATIENT"    0   3 "$STOPPED" --at verdict=hang -- signal_server TERM; }
@test "one-off: SIGTERM before MR"              { server_when read  "-1 $PATIENT" 143 3 "$STOPPED" --at mr=hang      -- signal_server TERM; }
@test "one-off: SIGINT before DONE"             { server_when write "-1 $PATIENT" 130 3 "$STOPPED" --at done=hang    -- signal_server INT; }

# The session is over, so the signal changes nothing: over Soft-RoCE the client goes on to wait for the peer.
@test "client: SIGINT when all is verified" {
	local start
	start_peer_server write --hello --at disconnect=hang
	start_client -v -t 10 write 192.0.2.1 "$port"
	wait_for_line "$client_err" "^rdma_disconnect" "$client"
	start=$(milliseconds)
	signal_client INT || [ "$LAB_TRANSPORT" = siw ] # there the client does not wait for the peer, and may have ended
	wait_client
	within 10 "$start" write
	[ "$status" -eq 0 ]
}

# The completions of so many operations never cease.
@test "SIGTERM ends either program in the middle of many operations" {
	local mode who start
	for who in client server; do
		for mode in read write; do
			start_server -1 -t "$LIMIT" -s 8 -n 1000000000 --depth 1024 "$mode"
			start_client -t "$LIMIT" -s 8 -n 1000000000 --depth 1024 "$mode" 192.0.2.1 "$port"
			wait_for_line "$server_out" "remote memory" "$server"
			wait_for_line "$client_out" "remote memory" "$client"
			start=$(milliseconds)
			"signal_$who" TERM
			[ "$who" = server ] || wait_client
			[ "$who" = client ] || wait_server
			within 2 "$start" "$who, $mode"
			[ "$status" -eq 143 ]
			[ "$who" = server ] || wait_server
			[ "$who" = client ] || wait_client
			[ "$status" -ne 0 ]
		done
	done
}

@test "client: SIGINT while resolving an address that nobody has" {
	local start
	start_client -v -t "$LIMIT" read 192.0.2.77 7471
	wait_for_line "$client_err" "rdma_resolve_addr" "$client"
	start=$(milliseconds)
	signal_client INT
	wait_client
	within 2 "$start" read
	ends 130 "$STOPPED"
}

@test "server: SIGINT and SIGTERM when nobody is connected" {
	local signal
	for signal in INT TERM; do
		start_server read
		stop_server "$signal"
		[ "$status" -eq 0 ]
		[ ! -s "$server_err" ]
	done
}

# cut_network HOST: its network cable.
cut_network() {
	repair="lab link $1 up"
	lab link "$1" down
}

# cut_for_a_while HOST: until what reads there has sent again, in vain, what is lost, twice. Over soft-iWARP that is
# TCP, three times, on the host that it reads from, or on this one if the next request was lost before all was read.
cut_for_a_while() {
	local before
	cut_network "$1"
	before=$(retries "$1")
	if [ "$LAB_TRANSPORT" = siw ]; then
		await either_retransmits 3
	else
		await more_retries "$1" $((before + 2))
	fi
	lab link "$1" up
}

# retries HOST: how often an adapter of Soft-RoCE there has sent something again.
retries() {
	lab run "$1" sh -c 'cat /sys/class/infiniband/rdma0/ports/1/hw_counters/completer_retry_err 2>/dev/null || echo 0'
}

# more_retries HOST COUNT: whether it has so often.
more_retries() {
	[ "$(retries "$1")" -ge "$2" ]
}

# retransmits HOST COUNT: whether its kernel has sent so often again what TCP carries, or has given up.
retransmits() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -c 'state=$(ss -Htno state established state fin-wait-1)
		[ -z "$state" ] || echo "$state" | grep -Eq "timer:\(on,[^,]*,([$1-9]|[1-9][0-9]+)\)"' - "$2"
}

# either_retransmits COUNT: whether one of the hosts does.
either_retransmits() {
	retransmits a "$1" || retransmits b "$1"
}

# forget_neighbour HOST ADDRESS: its kernel takes ADDRESS to be at a wrong MAC address, then at none, and asks again.
forget_neighbour() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -ec 'ip neighbour replace "$1" lladdr 02:00:00:00:00:99 dev eth0 nud reachable
		ip neighbour del "$1" dev eth0' - "$2"
}

# power_off HOST
power_off() {
	end_shared_servers
	repair="power_on $1"
	lab off "$1"
}

# stop_host HOST: to everybody else that is as if it had lost power, and it need not boot.
stop_host() {
	repair="lab resume $1"
	lab pause "$1"
}

# remove_link HOST: its RDMA device. Ends when no program has the device open any more.
remove_link() {
	end_shared_servers
	repair="add_link $1"
	lab run -w "$LIMIT" "$1" rdma link del rdma0 3>&- &
	removal=$!
}

add_link() {
	[ -z "${removal:-}" ] || wait "$removal" || true
	lab run "$1" rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
}

#                                                 modes options    st s text       when                     what
@test "client: the server's host loses power"   { client_when read  "-t 5 $ENDLESS" "5|6" 9 "" --length 1048576 --at done=flow -- power_off a; }
@test "client: it stops, with nothing outstanding" { client_when write "-t 5" 5   8 "$SILENT"   --at done=hang       -- stop_host a; }
@test "client: the network is cut for good"     { client_when read  "-t 5 $ENDLESS" "5|6" 9 "" --length 1048576 --at done=flow -- cut_network b; }
@test "client: the network is cut for a while"  { client_when read  "$PATIENT" 0  15 ""        --length 50331648 --at done=flow -- cut_for_a_while b; }
@test "client: the server's MAC address is lost" { client_when read "$PATIENT" 0  10 ""        --length 33554432 --at done=flow -- forget_neighbour b 192.0.2.1; }
@test "client: the server's RDMA link goes"     { client_when read  "$PATIENT" 6  5 "$GONE"    --at mr=hang         -- remove_link a; }
@test "client: its own RDMA link goes"          { client_when write "$PATIENT" 1  5 "device was removed" --at mr=hang -- remove_link b; }
#                                                 modes options       st s text       when                     what
@test "one-off: the client's host stops"        { server_when write "-1 -t 5"     5     8 "$SILENT" --at mr=hang   -- stop_host b; }
@test "one-off: the network is cut for good"    { server_when read  "-1 -t 5 $ENDLESS" "5|6" 9 "" --length 1048576 --at done=flow -- cut_network a; }
@test "one-off: the network is cut for a while" { server_when read  "-1 $PATIENT" 0    15 ""        --length 50331648 --at done=flow -- cut_for_a_while a; }
@test "one-off: the client's RDMA link goes"    { server_when write "-1 $PATIENT" 6     5 "$GONE"   --at mr=hang   -- remove_link b; }
@test "one-off: its own RDMA link goes"         { server_when read  "-1 $PATIENT" 1     5 "device was removed" --at mr=hang -- remove_link a; }

# It says so sixteen times in the time that it is given, and takes longer than that. A server and a client of ours wait for
# such a peer at a time.
@test "a peer that is slow but moves is waited for, longer than --timeout" {
	local mode start slow_server
	for mode in read write; do
		start_peer_server "$mode" --hello --at done=slow
		slow_server=$peer
		repair="kill $slow_server"
		start=$(milliseconds)
		start_client -t 4 "$mode" 192.0.2.1 "$port"
		start_server -1 -t 4 "$mode"
		start_peer b client "$mode" --hello --at done=slow 192.0.2.1 "$port"
		wait_client
		ends 0 ""
		[ $(($(milliseconds) - start)) -gt 4000 ]
		wait_server
		[ "$status" -eq 0 ]
		[ ! -s "$server_err" ]
		end_peer
		wait "$slow_server"
		repair=
	done
}

@test "sessions are right over a network that loses and reorders packets" {
	local mode
	repair="lab disturb"
	lab disturb loss 5% delay 1ms reorder 75%
	for mode in read write; do
		start_server -t "$LIMIT" -m "all is here" "$mode"
		client -t "$LIMIT" "$mode" 192.0.2.1 "$port"
		ends 0 ""
		[[ $output == *"remote buffer: all is here"* ]]
		stop_server
		[ "$status" -eq 0 ]
	done
}

# discarded HOST: how many packets a checksum has discarded there so far. Soft-RoCE does not count those themselves, but
# that one was missing when the next came, and what was sent again; nothing else is lost here.
discarded() {
	if [ "$LAB_TRANSPORT" = siw ]; then
		lab run "$1" nstat -asz TcpInCsumErrors | sed -n 's/^TcpInCsumErrors *\([0-9]*\).*/\1/p'
	else
		# shellcheck disable=SC2016 # expanded on the host
		lab run "$1" sh -c 'cd /sys/class/infiniband/rdma0/ports/1/hw_counters &&
			echo $(($(cat out_of_seq_request) + $(cat completer_retry_err)))'
	fi
}

# good_or_failed STATUS SENT ARRIVED: a program that ended with STATUS has stored all of SENT, or says that it has not;
# and never has it stored anything else.
good_or_failed() {
	[[ $1 =~ ^[0-7]$ ]] || { echo "exit status $1"; return 1; }
	if [ "$1" -eq 0 ] || [ -e "$3" ]; then cmp "$2" "$3"; fi
}

@test "a bit that the network flips ends in no good verdict for wrong bytes" {
	local mode memory before
	folder=$(mktemp -d "$LAB/share/faults.XXXXXX")
	head -c 524288 /dev/urandom >"$folder/there"
	head -c 524288 /dev/urandom >"$folder/back"
	before=$(($(discarded a) + $(discarded b)))
	repair="lab disturb"
	lab disturb corrupt 1%
	while read -r mode memory; do # little memory: a ring that is filled over and over
		limited_server "-l $memory" -1 -t "$LIMIT" -f "$folder/back" -o "$folder/arrived-there" "$mode"
		client -t "$LIMIT" -f "$folder/there" -o "$folder/arrived-back" "$mode" 192.0.2.1 "$port"
		good_or_failed "$status" "$folder/back" "$folder/arrived-back"
		wait_server
		good_or_failed "$status" "$folder/there" "$folder/arrived-there"
		rm -f "$folder"/arrived-*
	done <<-END
	read unlimited
	read 256
	write unlimited
	write 256
	END
	echo "discarded: $(discarded a) and $(discarded b), $before before"
	[ $(($(discarded a) + $(discarded b))) -gt "$before" ]
}

# Over soft-iWARP the client's kernel fails a connect whose answer comes with more behind it, so the server, which has
# accepted, must have nothing to say until the client has spoken; TCP has sent the answer twice by then.
@test "a connect succeeds although the answer to it is lost" {
	start_server -1 -v -t "$LIMIT" -m "all is here" read
	lab run a pkill -STOP -x rdma-server
	start_client -t "$LIMIT" read 192.0.2.1 "$port"
	await_requests 1
	repair="lab run a tc qdisc del dev eth0 root"
	if [ "$LAB_TRANSPORT" = siw ]; then # at once: its kernel gives a connect up after ten seconds
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
	wait_client
	output=$(<"$client_out")
	[ "$status" -eq 0 ]
	[[ $output == *"remote buffer: all is here"* ]]
	wait_server
	[ "$status" -eq 0 ]
}

# The client's verdict is lost. Over soft-iWARP it leaves nevertheless, and TCP goes on sending for it: it has sent twice
# again, or has given up, when packets get through again. Over Soft-RoCE it does not leave before the verdict has arrived.
@test "a client's last message arrives although it is lost, and sent again when the client has left" {
	start_server -1 -v -t "$LIMIT" write
	start_peer b client write --hello --at verdict=stop 192.0.2.1 "$port"
	wait_for_line "$server_err" "EVENT_VERDICT_SENT" "$server"
	lab run -w "$LIMIT" b sh -c 'until ps -C peer -o stat= | grep -q T; do sleep 0.1; done'
	repair="lab run b tc qdisc del dev eth0 root"
	lab run b tc qdisc add dev eth0 root netem loss 100%
	lab run b pkill -CONT -x peer
	if [ "$LAB_TRANSPORT" = siw ]; then
		wait_peer
		await retransmits b 2
	fi
	$repair
	repair=
	[ -z "$peer" ] || wait_peer
	[ "$status" -eq 0 ]
	wait_server
	stderr=$(grep "^rdma-server" "$server_err") || true
	ends 0 ""
}

# ---- This side ----

@test "no RDMA device" {
	lab run a rdma link del rdma0
	repair="add_link a"
	on a "$PROGRAMS/rdma-server" read
	ends 3 "rdma link"
	on a "$PROGRAMS/rdma-client" read 192.0.2.2 7471
	ends 3 "rdma link"
}

@test "client: too little memory may be locked" {
	shared_server write
	limited_client "-l 4" write 192.0.2.1 "$port"
	ends 1 "it would exceed the locked-memory limit of 4 KiB"
	serves_well write
}

@test "server: too little memory may be locked" {
	limited_server "-l 4" -p 7471 write
	client write 192.0.2.1 7471
	refused "the server refused: the server is out of memory for another session"
	stop_server
	[ "$status" -eq 0 ]
	grep -q "locked-memory limit of 4 KiB" "$server_err"
}

@test "too few file descriptors, and each time one more" {
	local count enough=
	shared_server read
	for count in {4..24}; do
		limited_client "-n $count" -t "$LIMIT" read 192.0.2.1 "$port"
		[ "$status" -ne 0 ] || { enough=yes; break; }
		[ "$count" -lt 6 ] || ends 1 "open files" # with fewer no library can be opened
	done
	[ "$enough" ]
	serves_well read
}

@test "two servers on one port" {
	start_server read
	on a "$PROGRAMS/rdma-server" -p "$port" read
	ends 1 "another program does; choose another --port"
	on a "$PROGRAMS/rdma-server" -p "$port" -B 192.0.2.1 write
	ends 1 "another program does; choose another --port"
	client read 192.0.2.1 "$port"
	expect 0
	stop_server
}

@test "client: standard output is full, or closed" {
	local to
	shared_server write
	for to in ">/dev/full" ">&-"; do
		on b sh -c "exec \"\$@\" $to" sh "$PROGRAMS/rdma-client" write 192.0.2.1 "$port"
		ends 1 "cannot write to standard output"
	done
	serves_well write
}

@test "server: standard output is full, or closed" {
	local to
	for to in ">/dev/full" ">&-"; do
		server_out=$BATS_TEST_TMPDIR/server.out server_err=$BATS_TEST_TMPDIR/server.err
		background a "$server_out" "$server_err" sh -c "exec \"\$@\" $to" sh "$PROGRAMS/rdma-server" -1 -p 7471 write
		server=$!
		await_listener a 7471
		client -m "for nobody" write 192.0.2.1 7471
		expect 0
		wait_server
		stderr=$(cat "$server_err")
		ends 1 "cannot write to standard output"
	done
}
