#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): what version 1 keeps: options, transcripts, keys of JSON objects and their schema.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

# kept RECORDED...: check that each file RECORDED.out has the lines that the file RECORDED has below its heading. --help
# may have more lines and longer ones. In JSON keys and list entries may be added; numbers may differ except "schema"
# and "status", texts only in "version", "time", "host", "text" and "advice".
kept() {
	python3 - "$@" <<-'END'
	import itertools, json, sys
	def kept(old, new, key=None):
	    if isinstance(old, dict):
	        return isinstance(new, dict) and all(name in new and kept(old[name], new[name], name) for name in old)
	    if isinstance(old, list):
	        return isinstance(new, list) and len(new) >= len(old) and all(map(kept, old, new))
	    if type(old) in (int, float) and key not in ("schema", "status"):
	        return type(new) in (int, float)
	    return type(old) is type(new) and (old == new or key in ("version", "time", "host", "text", "advice"))
	for name in sys.argv[1:]:
	    (heading, *recorded), printed = ([*map(str.rstrip, open(file))] for file in (name, f"{name}.out"))
	    if "--help" in heading:
	        printed = [next((line for line in printed if line.startswith(old)), "")[:len(old)] for old in recorded]
	    for old, new in itertools.zip_longest(recorded, printed, fillvalue=""):
	        if not (kept(json.loads(old), json.loads(new or "0")) if old.startswith("{") else old == new):
	            sys.exit(f"{heading}\nrecorded: {old}\nprinted:  {new}")
	END
}

@test "version 1 keeps its options, exit statuses, transcripts and the keys of its JSON objects" {
	local all recorded expected command script words
	csplit -s -z -f "$BATS_TEST_TMPDIR/recorded" <(grep -v '^#' tests/recorded) '/^== /' '{*}'
	all=("$BATS_TEST_TMPDIR"/recorded*)
	for recorded in "${all[@]}"; do
		IFS=$'\t' read -r expected command script <"$recorded"
		read -ra words <<<"$command"
		fake "${words[0]}" "$script" "${words[@]:1}"
		[ "$status" -eq "${expected#== }" ]
		mv "$BATS_TEST_TMPDIR/out" "$recorded.out"
	done
	kept "${all[@]}"
	[ "${#all[@]}" -eq "$(grep -c '^== ' tests/recorded)" ]
}

@test "the installed JSON schema permits keys that a later version adds, and the tests' schema rejects them" {
	local pattern object later='"later": 1,' new objects=() extended=()
	for pattern in '"kind": "session".*"min"' '"kind": "check".*"peer": null'; do
		object=$(grep -m 1 "$pattern" tests/recorded)
		objects+=("$object")
		for new in "${object/{/{ $later}" "${object/\"min\"/$later \"min\"}" "${object/\"text\"/$later \"text\"}"; do
			[[ $new = *"$later"* ]] || continue
			extended+=("$new")
		done
	done
	printf '%s\n' "${objects[@]}" | valid_json
	run ! valid_json < <(printf '%s\n' "${extended[@]}")
	[ "$(grep -c "^<stdin>: .*('later' was unexpected)$" <<<"$output")" -eq "${#extended[@]}" ]
	printf '%s\n' "${extended[@]}" | python3 -c 'import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
for line in sys.stdin:
    jsonschema.validate(json.loads(line), schema)' .man/rdma-pair.schema.json
}
