# Our programs with peers from other projects.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# ---- The tutorial's program ----

# The tutorial's program sends no hello and no digest, exchanges 1024 bytes in each direction, and sends MSG_DONE
# before its reads have ended. tests/peer imitates it.

# ours_serves MODE TEXT COMMAND...: serve two clients that send TEXT, one after the other, and check the server's output.
ours_serves() {
	local round
	start_server -t "$LIMIT" -m "ours" "$1"
	for round in 1 2; do
		on b "${@:3}" 192.0.2.1 "$port"
		expect 0
		[ "$output" = "remote buffer: ours" ]
		[ -z "$stderr" ]
		wait_for_line "$server_out" "^peer disconnected" "$server" "$round"
	done
	stop_server
	diff <(transcript server "$1" "$2" "$port"; transcript server "$1" "$2" "$port" | tail -n +2) "$server_out"
	[ ! -s "$server_err" ]
}

# ours_asks MODE TEXT COMMAND...: run our client with a server that sends TEXT, and check the output of both.
ours_asks() {
	start_command "${@:3}"
	client -t "$LIMIT" -m "ours" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	diff <(transcript client "$1" "$2") - <<<"$output"
	expect_end server 0
	diff <(printf '%s\n' "listening on port $port." "remote buffer: ours") "$server_out"
	[ ! -s "$server_err" ]
}

@test "our server serves the tutorial's client" {
	ours_serves read "message from legacy side" "$PEER" client read
	ours_serves write "message from legacy side" "$PEER" client write
}

@test "our client works with the tutorial's server" {
	ours_asks read "message from legacy side" "$PEER" server read
	ours_asks write "message from legacy side" "$PEER" server write
}

# ---- Programs of rdmacm-utils and perftest ----

# These programs speak other protocols.
# bats file_tags=slow

GONE="the peer left before the session was complete"
SILENT="no progress for"
NO_MESSAGE="not a message of this protocol"
NO_READ="the peer serves no RDMA READ"
NO_SERVER="this project's rdma-server|no reason from the server arrived"
AT_ONCE="cannot connect: Cannot allocate memory; .* early data from another program can cause this error, too"
# Seconds of our program's --timeout in tests of a silent peer. In other tests our program notices the fault at once,
# and its --timeout is $LIMIT; but our server over soft-iWARP may miss the client's only message, and its --timeout is
# twice SERVER_SILENCE.
SERVER_SILENCE=5 CLIENT_SILENCE=3

# end_foreign yes|no|any: check that the foreign program ends by itself (yes), or that it still runs (no), and kill it if
# it runs.
end_foreign() {
	if [ "$1" = yes ]; then
		timeout "$LIMIT" tail --pid="$peer" -s 0.1 -f /dev/null
	elif [ "$1" = no ]; then
		kill -0 "$peer"
	fi
	end peer
}

# says_only TEXT: check that each line of the server's standard error names a client, with the reason TEXT.
says_only() {
	! grep -Ev "^rdma-server: (\[[0-9]+\] )?192\.0\.2\.2 port [0-9]+: .*($1)" "$server_err"
}

# asks MODE SESSIONS ENDS TEXT PROGRAM ARGUMENT...: run a foreign client with our server, whose port replaces PORT in
# the arguments. The server must print TEXT, an extended regular expression, for each of SESSIONS sessions. ENDS: see
# end_foreign().
asks() {
	local mode=$1 sessions=$2 ends=$3 text=$4 patience=$LIMIT least=0 most=2 start
	shift 4
	if [ "$text" = "$SILENT" ]; then
		patience=$SERVER_SILENCE least=$patience most=$((patience + 2))
	elif [ "$LAB_TRANSPORT" = siw ]; then # soft-iWARP may overlook the client's only message
		text="$text|$SILENT" patience=$((2 * SERVER_SILENCE)) most=$((patience + 2))
	fi
	start_server -t "$patience" -m "from the server" "$mode"
	start=$(milliseconds)
	start peer b "${@/#PORT/$port}"
	wait_for_line "$server_err" "$text" "$server" "$sessions"
	status=
	within "$most" "$start" "$1, $mode" "$least"
	end_foreign "$ends"
	serves_well "$mode"
	[ "$(wc -l <"$server_err")" -eq "$sessions" ]
	says_only "$text"
}

# serves MODE STATUS ENDS TEXT PROGRAM ARGUMENT...: run our client with a foreign server on port 7471. The client must
# end with STATUS and TEXT, which are extended regular expressions. ENDS: see end_foreign().
serves() {
	local mode=$1 expected=$2 ends=$3 text=$4 patience=$LIMIT least=0 start
	shift 4
	[ "$text" != "$SILENT" ] || patience=$CLIENT_SILENCE least=$CLIENT_SILENCE
	start peer a "$@"
	await_listener a 7471
	start=$(milliseconds)
	client -t "$patience" "$mode" 192.0.2.1 7471
	within $((least + 2)) "$start" "$1, $mode" "$least"
	expect "$expected"
	[[ $stderr =~ ^rdma-client:.*($text) ]]
	end_foreign "$ends"
}

# A program that only polls its completion queue notices the end of the connection over soft-iWARP, which flushes the
# receives. Over Soft-RoCE it polls forever.
FLUSHED=no
[ "$LAB_TRANSPORT" != siw ] || FLUSHED=yes

@test "our server reports why a session with rping fails, and serves the next client" {
	asks read 1 yes "$NO_MESSAGE" rping -c -a 192.0.2.1 -C 2 -p PORT
}

@test "our server reports why a session with ib_send_lat fails, and serves the next client" {
	asks read 1 yes "$NO_READ" ib_send_lat -R -d rdma0 -n 5 -p PORT 192.0.2.1
	asks write 1 $FLUSHED "$NO_MESSAGE" ib_send_lat -R -d rdma0 -n 5 -p PORT 192.0.2.1
}

@test "our server times out if ucmatose waits for it, and serves the next client" {
	asks read 1 $FLUSHED "$SILENT" ucmatose -s 192.0.2.1 -p PORT
}

@test "our server reports why a session with rcopy fails, and serves the next client" {
	asks read 1 yes "$NO_READ" rcopy /etc/hosts 192.0.2.1:/run/copied -p PORT
	asks write 1 yes "$GONE" rcopy /etc/hosts 192.0.2.1:/run/copied -p PORT
}

# A newer cmtime first connects to the same port over TCP, and waits there for its own byte after each step. Its
# warm-up is a session, and it repeats all sessions without queue pairs, which our server's keepalives may notice. The
# newest takes its server's address from TCP.
# cmtime_has OPTION: return true if this option is in the usage that cmtime prints.
cmtime_has() {
	lab run b cmtime -\? 2>&1 | grep -q "\[-$1"
}

# Over soft-iWARP the TCP port is that of our server, which soft-iWARP closes because no MPA request arrives for ten
# seconds. Then cmtime goes on, and SIGPIPE ends it, mostly after its first session.
@test "our server reports that cmtime connects and leaves, and serves the next client" {
	local sessions=20 most=20 count result=0 text=$GONE
	! cmtime_has P || skip "this cmtime works only with another cmtime"
	start_server -t "$LIMIT" -m "from the server" write
	if cmtime_has S; then
		sessions=41 most=41 text="$GONE|keepalive failed: transport retry counter exceeded"
		if [ "$LAB_TRANSPORT" = siw ]; then
			sessions=1 result="0|141"
		else
			start mirror a /usr/bin/python3 -uc '
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("listening")
connection = listener.accept()[0]
while byte := connection.recv(1):
    connection.send(byte)' "$port"
			wait_for_line "$mirror_out" listening "$mirror"
		fi
	fi
	start peer b cmtime -s 192.0.2.1 -c 20 -p "$port"
	expect_end peer "$result"
	wait_for_line "$server_err" "$text" "$server" "$sessions"
	serves_well write
	count=$(wc -l <"$server_err")
	[ "$count" -ge "$sessions" ] && [ "$count" -le "$most" ]
	says_only "$text"
}

@test "our client fails with a clear reason if the server is rping" {
	serves write 6 yes "$GONE" rping -s -a 0.0.0.0 -C 1 -p 7471
}

# ib_write_bw accepts no READ. Over Soft-RoCE our client in mode read leaves before the connection is established, and
# ib_write_bw waits for another client.
@test "our client fails with a clear reason if the server is ib_write_bw" {
	if [ "$LAB_TRANSPORT" = siw ]; then
		serves read 7 yes "$NO_MESSAGE" ib_write_bw -R -d rdma0 -n 5 -p 7471
	else
		serves read 4 no "$NO_READ" ib_write_bw -R -d rdma0 -n 5 -p 7471
	fi
	serves write 7 yes "$NO_MESSAGE" ib_write_bw -R -d rdma0 -n 5 -p 7471
}

# ucmatose sends as soon as it has accepted. Over soft-iWARP this can break the connection, or exhaust the memory that
# the client's kernel reserves for connecting.
@test "our client fails with a clear reason if the server is ucmatose, which sends first" {
	local expected=7 ends=yes text=$NO_MESSAGE
	[ "$LAB_TRANSPORT" != siw ] || expected="1|6|7" ends=any text="$NO_MESSAGE|CONNECT_ERROR|$AT_ONCE"
	serves read "$expected" "$ends" "$text" ucmatose -b 0.0.0.0 -p 7471
}

@test "our client fails with a clear reason if the server is rcopy, which goes on listening" {
	serves read 4 no "$NO_SERVER" rcopy -p 7471
}

# cmtime accepts and waits. The adapter of soft-iWARP ends the connection when a message arrives without a posted
# receive. Over Soft-RoCE a newer cmtime permits no retry then. Over soft-iWARP it ends at once: the TCP port that it
# opens is in use by its own RDMA listener.
@test "our client fails with a clear reason if the server is cmtime, which goes on listening" {
	! cmtime_has P || skip "this cmtime works only with another cmtime"
	if [ "$LAB_TRANSPORT" = siw ]; then
		! cmtime_has S || skip "this cmtime cannot be a server over iWARP: it needs the same port for TCP"
		serves read 6 no "$GONE" cmtime -p 7471
	elif cmtime_has S; then
		serves read 6 no "MSG_MR failed: RNR retry counter exceeded" cmtime -p 7471
	else
		serves read 5 no "$SILENT" cmtime -p 7471
	fi
}
