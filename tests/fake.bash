# Functions for fake-*.bats: run the programs on a fake of libibverbs and librdmacm (fake-verbs/fake-verbs.h), in which
# calls fail, and events come in orders that are rare on a real network. Tests that transfer payload or messages, or free
# memory in unusual orders, begin with "use address": they run with AddressSanitizer, which takes four times as long.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables go to and from bats and the tests

load helpers
load fake-verbs/faults
shopt -s extglob

# These tests need no hosts (helpers.bash).
setup_file() { :; }

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
	sanitizers=(address thread)
	[ -z "${FAKE_VERBS_PROGRAMS:-}" ] || sanitizers=(any)
	programs=''
	export ASAN_OPTIONS=exitcode=98 UBSAN_OPTIONS=exitcode=98 TSAN_OPTIONS=exitcode=98
	export FAKE_VERBS_RECORD=$BATS_TEST_TMPDIR/record
}

# use BUILD: run the programs of this build from now on: none, address or thread (fake-verbs.mk). The first test that uses
# a build makes it, and says so; if that fails, all tests that use it fail. With $FAKE_VERBS_PROGRAMS all tests run the programs there.
use() {
	local made=$BATS_FILE_TMPDIR/$1
	programs=${FAKE_VERBS_PROGRAMS:-build/fake-verbs/$1}
	[ -z "${FAKE_VERBS_PROGRAMS:-}" ] || return 0
	if [ ! -e "$made" ]; then
		: >"$made"
		make -q -f tests/fake-verbs/fake-verbs.mk "SANITIZE=$1" >/dev/null 2>&1 ||
			echo "# building the programs with the fake library first (build '$1')" >&3
		make -s -f tests/fake-verbs/fake-verbs.mk "SANITIZE=$1" && echo yes >"$made"
	fi
	[ -s "$made" ]
}

# calls FUNCTION: print how often the last run called FUNCTION; "served" is the number of clients served without an
# error.
calls() {
	local function count called=0
	while read -r function count; do
		[ "$function" != "$1" ] || called=$count
	done <"$FAKE_VERBS_RECORD"
	echo "$called"
}

# fake ROLE SCRIPT [OPTION...]: run rdma-ROLE, a one-off server, a lesson (write-client, read-server, ...), or
# rdma-client --check, whose options include ADDRESS and PORT; sets $status, $output and $stderr. A leak check takes
# three times as long as the run, so only programs in which leaks add up (a server without --one-off, --check) and
# tests that set $leaks have it. If the script sends a signal with signal:, all signals have their default action, even
# under nohup(1). The program's mode is the peer's operation, or $word if that is set (empty: no mode). A test may set
# $launcher to a command that starts the program. Without use() it runs the build "none".
fake() {
	local operation=read role=$1 script=$2 options=$ASAN_OPTIONS words command=("${launcher[@]}")
	shift 2
	[ "$programs" ] || use none
	[[ $script != *signal:* ]] || command+=(env --default-signal)
	[[ ${leaks:-} || $role = @(server|08-server) || $role = check ]] || options=$options:detect_leaks=0
	[[ $role != write-* ]] || script="write $script"
	[[ " $script " != *" write "* ]] || operation="write"
	read -ra words <<<"${word-$operation}"
	case $role in
	08-server) command+=("$programs/lessons/08-server/server") script="no-hello write $script" ;;
	write-* | read-*) command+=("$programs"/lessons/??-"${role%-*}/${role%-*}") script="no-hello $script" ;;
	one-off) command+=("$programs/rdma-server" -t 1 -1 "$@" "${words[@]}") ;;
	check) command+=("$programs/rdma-client" -t 1 --check "$@") ;;
	*) command+=("$programs/rdma-$role" -t 1 "$@" "${words[@]}") ;;
	esac
	[[ $role != *client ]] || command+=(192.0.2.1 20000)
	ASAN_OPTIONS=$options FAKE_VERBS=$script "${command[@]}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
	read_text output "$BATS_TEST_TMPDIR/out"
	read_text stderr "$BATS_TEST_TMPDIR/err"
	[[ " $* " != *" "@(-J|--json)" "* ]] || expect_json <"$BATS_TEST_TMPDIR/out"
}

# read_text VARIABLE FILE: read the file without its last newline into VARIABLE, without starting a process.
read_text() {
	IFS= read -r -d '' "$1" <"$2" || printf -v "$1" '%s' "${!1%$'\n'}"
}

# outcomes [WHO [OPTION...]]: run programs and check their results. Each line of standard input has columns separated by
# tabs: WHO and its options, unless they are arguments; the exit status; the script; then any number of expectations:
#	TEXT	standard error contains TEXT; without any TEXT it must be empty
#	2x TEXT	two lines of standard error contain TEXT
#	> PATTERN	standard output matches PATTERN
#	!> PATTERN	standard output does not match PATTERN
#	NAME=2	the function NAME was called twice; served=2: two clients were served
# WHO is a role of fake(); or "both": a client and a one-off server; or "write" or "read": both sides of that lesson;
# or "every": each operation over each transport, two of the four by a client. A script with [iwarp] runs without the
# word iwarp, then with it. A line that begins with # is a comment.
every=(client:read "client:iwarp write" one-off:write "one-off:iwarp read") # role:words of the script
outcomes() {
	local - columns who=("$@") variant failed=0 count=0
	set +T # keep bats from tracing each command of the functions called here, which takes as long as the runs
	while IFS=$'\t' read -ra columns; do
		[[ ${columns[0]} != "#"* ]] || continue
		[[ ${columns[1]:-} != *"> "* ]] || { echo "a row without a script: ${columns[*]}" && return 1; }
		[ $# -gt 0 ] || { read -ra who <<<"${columns[0]}" && columns=("${columns[@]:1}"); }
		local variants=("${who[0]}:")
		[ "${who[0]}" != both ] || variants=(client: one-off:)
		[[ ${who[0]} != @(write|read) ]] || variants=("${who[0]}-client:" "${who[0]}-server:")
		[ "${who[0]}" != every ] || variants=("${every[@]}")
		[[ ${columns[1]} != *"[iwarp]"* ]] || variants+=("${variants[@]/%/ iwarp}")
		for variant in "${variants[@]}"; do
			fake "${variant%%:*}" "${variant#*:} ${columns[1]/"[iwarp]"/}" "${who[@]:1}"
			count=$((count + 1))
			as_expected "${columns[0]}" "${columns[@]:2}" && continue
			echo "$variant ${who[*]:1} '${columns[1]}': status $status, it said: $stderr"
			failed=1
		done
	done
	echo "$count runs"
	[ "$failed" -eq 0 ]
}

# as_expected STATUS EXPECTATION...: return true if the last run met the expectations; else print those that it did
# not meet. A run that fails must not print "Ready".
as_expected() {
	local expectation speaks='' wrong=''
	[ "$status" -eq "$1" ] || wrong=$1
	for expectation in "${@:2}"; do
		case $expectation in
		"> "*) [[ $output == *${expectation#> }* ]] ;;
		"!> "*) [[ $output != *${expectation#!> }* ]] ;;
		+([a-z_])=+([0-9])) [ "$(calls "${expectation%=*}")" = "${expectation#*=}" ] ;;
		+([0-9])x\ *) speaks=yes && [ "$(grep -c -F -e "${expectation#*x }" <<<"$stderr")" -eq "${expectation%%x *}" ] ;;
		*) speaks=yes && [[ $stderr == *"$expectation"* ]] ;;
		esac || wrong+=${wrong:+, }$expectation
	done
	[ "$speaks" ] || [ -z "$stderr" ] || wrong+=${wrong:+, }silence
	[ "$status" -eq 0 ] || [[ $output != *Ready* ]] || wrong+=${wrong:+, }readiness
	[ -z "$wrong" ] || { echo "not $wrong:" && return 1; }
}

# happy_path: check the output of each side, operation and transport, with the build in $programs.
happy_path() {
	local script role
	for script in read write "iwarp read" "iwarp write"; do
		for role in client server; do
			fake "${role/server/one-off}" "$script"
			diff <(transcript "$role" "${script#iwarp }" "text of the scripted peer" 20000) <(echo "$output")
			[ "$status" -eq 0 ]
			[ -z "$stderr" ]
		done
	done
}

software="rdma link add rdma0 type rxe netdev eth0"
loopback="give the address of a network interface that has an RDMA device ('rdma link', 'ip address'), not a loopback address"
# values KEY...: print the values of these keys in the last object of $output, separated by spaces.
values() {
	output=${output##*$'\n'} json "$@" | paste -s -d ' '
}
