#!/usr/bin/env bats
# The manual pages render, and agree with the programs on options, exit statuses, JSON keys and messages. These tests
# need no RDMA device.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
}

# section TITLE PAGE: print the lines of a section.
section() {
	sed -n "/^\.Sh $1\$/,/^\.Sh /p" ".man/$2"
}

# same WHAT ONE OTHER: check that the texts ONE, which must not be empty, and OTHER have the same lines in any order. Print
# the difference, in which WHAT names ONE.
same() {
	[ -n "$2" ]
	diff <(sort -u <<<"$2") <(sort -u <<<"$3") || { echo "$1 (<) and its manual page (>) differ"; return 1; }
}

@test "the pages render, and mandoc and man print no warning" {
	local page
	for page in .man/*.[1-9]; do
		run -0 mandoc -T lint -W warning "$page"
		[ -z "$output" ]
		run -0 --separate-stderr env LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page"
		[ -z "$stderr" ]
		[[ $output == *"NAME"*"DESCRIPTION"*"SEE ALSO"*"SECURITY CONSIDERATIONS"* ]]
	done
}

# A page has ".It Fl p , Fl -port Ar PORT" for the line "  -p, --port PORT        listen" of --help.
@test "the pages list exactly the options of --help, with their letters and arguments" {
	local program
	for program in rdma-client rdma-server rdma-common/pairs/rdma-pairs; do
		same "$program --help" \
			"$("./$program" --help | sed -En 's/^ +((-[[:alnum:]], )?--[a-z-]+( [A-Z]+)?) {2,}.*/\1/p')" \
			"$(sed -n 's/^\.It Fl/.It -/; /^\.It -/{s/^\.It - */-/; s/ , Fl /, -/; s/ Ar / /; p}' ".man/${program##*/}.1")"
	done
}

@test "the pages list exactly the exit statuses of --help" {
	local program
	for program in rdma-client rdma-server rdma-common/pairs/rdma-pairs; do
		same "$program --help" \
			"$("./$program" --help | sed -n '/^Exit status/,$p' | grep -Eo '(^|  )+[0-9]+ +[a-z]' | grep -o '[0-9]*')" \
			"$(section 'EXIT STATUS' "${program##*/}.1" | sed -n 's/^\.It \([0-9]*\)$/\1/p')"
	done
}

# keys_of PAGE: print the keys in the section JSON of a page: the items of its lists, and the names after .Va.
keys_of() {
	sed -n '/^\.Ss JSON$/,/^\.Sh /s/^\.\(It \)\?Va //p' ".man/$1" | sed 's/ [.,:]$//; s/ , /\n/g'
}

# named FILE...: print the keys that these sources add to JSON objects.
named() {
	cat "$@" | tr -d '\n\t' | grep -Eo '(json_add_text|json_object_object_add|report(_finding)?|add_(count|flag|number|known|finding))\([^;]*' |
		sed -En 's/^[a-z_]+\([^",]+, ("[a-z_0-9]+").*/\1/p' | tr -d '"'
}

@test "the pages list exactly the keys that the source gives to JSON objects" {
	local session=(rdma-common/report.c rdma-common/json.c)
	local of_many="connections|succeeded|slowest|fastest|source_port|queue_pair" # of several connections, which only a client has
	same "a session" "$(named "${session[@]}" | grep -vxE "$of_many")" "$(keys_of rdma-server.1)"
	same "a session, or --check" "$(named "${session[@]}" rdma-common/check/*.c | grep -vx port)" "$(keys_of rdma-client.1)" # only a server prints port
}

# tests/pairs-simulated.bats compares the records with the schema.
# shellcheck disable=SC2016 # $defs is part of the schema
@test "the page of rdma-pairs lists exactly the keys of its records in the schema" {
	same "the schema" "$(/usr/bin/python3 -c 'import json, sys
def keys(schema):
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for item in schema.values():
            yield from keys(item)
kinds = json.load(open(sys.argv[1]))["$defs"]
print(*{key for kind in ("pairs", "host", "path", "verdict") for key in keys(kinds[kind])}, sep="\n")' .man/rdma-pair.schema.json)" \
		"$(keys_of rdma-pairs.1)"
}

@test "rdma-client --json prints only keys that its page lists" {
	local arguments
	for arguments in "write" "--check"; do
		run -3 --separate-stderr ./rdma-client --json -t 1 $arguments 192.0.2.1 1
		/usr/bin/python3 -c 'import json, sys
print(*json.loads(sys.argv[1]), sep="\n")' "$output" >"$BATS_TEST_TMPDIR/printed"
		run -1 grep -vxFf <(keys_of rdma-client.1) "$BATS_TEST_TMPDIR/printed"
	done
}

@test "the pages of both programs say what happens to an empty payload, and to the holes of a sparse file" {
	local program text
	for program in rdma-client rdma-server; do
		text=$(section DATA "$program.1" | tr '\n' ' ')
		[[ $text == *"A payload has at least one byte, so an empty file or pipe is an error."* ]]
		[[ $text == *"The holes of a sparse file are sent as zeros, and the stored file has zeros in their place"* ]]
	done
}

@test "each message in DIAGNOSTICS is expected by a test of the programs" {
	local message count=0
	while read -r message; do
		count=$((count + 1))
		grep -q -F -e "$message" tests/*.bats tests/helpers.bash tests/unit/*.c || { echo "none asks for: $message"; return 1; }
	done < <((section DIAGNOSTICS rdma-client.1; section DIAGNOSTICS rdma-server.1) |
		sed -n 's/^\.It Qq \(the server refused: \)\?//p' | sed 's/\\&//g; s/\\-/-/g; s/\\(aq/'"'/g" | sort -u)
	[ "$count" -gt 12 ]
}

# The first command is for an alert, the second one for a metric. tests/setup installs jq only for the slow tests.
# bats test_tags=slow
@test "the first command in MONITORING fails if --check failed, the second one prints its status as a metric" {
	local commands object='{ "peer": "fd00::1", "status": 5 }'
	mapfile -t commands < <(MANWIDTH=200 man -l .man/rdma-pair.7 | col -b | sed -n '/^MONITORING/,/^EXCEPTIONS/s/^[[:blank:]]*rdma-client --check --json .* | //p')
	[ "${#commands[@]}" -eq 2 ]
	run -1 sh -c "${commands[0]}" <<<"$object"
	run -1 sh -c "${commands[0]}" </dev/null # the check did not run
	sh -c "${commands[0]}" <<<'{ "status": 0 }'
	run -0 sh -c "${commands[1]}" <<<"$object"
	[ "$output" = 'rdma_check_status{peer="fd00::1"} 5' ]
}
