#!/usr/bin/env bats
# Check the documents (tests/documents), and how .ci/run and tests/run choose and count tests. No RDMA device is needed.
# shellcheck disable=SC2030,SC2031,SC2154 # bats sets $status, $output and $lines

bats_require_minimum_version 1.5.0

documents() {
	run "$BATS_TEST_DIRNAME/documents" "$@"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "links of documents and references of manual pages have a target; pictures have a source and an alternative text" {
	documents links
}

@test "the drawings match their sources" {
	documents pictures
}

@test "functions, files, options and targets in documents and manual pages exist, and make help lists all targets" {
	documents names
}

@test "the map of the tests lists every file; the list of modules has layer, thread and lines of code of each module" {
	documents maps
}

@test "tests/README.md lists exactly the fake library's script words, and shows rows that tests have" {
	documents script
}

@test "no document exceeds its limit of lines" {
	documents lengths
}

# bats test_tags=slow
@test "every lesson compiles by its own command, has the required headings and steps, and at most its limit of lines" {
	documents lessons
}

@test "the table of verbs has a lesson for each verb, and each verb of the lessons" {
	documents verbs
}

@test "each command in documents and manual pages is run by a test, accepted by the program, or listed as not run" {
	documents run_or_listed
}

@test "README names the test command in one line, with its time and what it installs" {
	# shellcheck disable=SC2016 # README's backquotes
	[ "$(grep -Ec '`make check` runs the tests in [0-9]+ minutes; .* installs [0-9]+ packages .* and a kernel' "$BATS_TEST_DIRNAME/../README.md")" -eq 1 ]
}

@test "tests/sample draws different items from the places that it names, and the same ones for a seed" {
	local folder=$BATS_TEST_TMPDIR place file line word count=0
	cd "$BATS_TEST_DIRNAME/.."
	tests/sample 7 >"$folder/sample"
	tests/sample 7 | cmp - "$folder/sample"
	! tests/sample 8 | cmp -s - "$folder/sample" || return 1
	[ "$(grep -o '^== [a-z]*' "$folder/sample" | sort | uniq -c | tr -s ' \n' ' ')" = " 100 == comment 50 == message 30 == name " ]
	while read -r _ _ _ place word _; do
		count=$((count + 1))
		file=${place%%:*} line=${place#*:}
		sed -n "${line%:}p" "$file" | grep -qF -e "$word" || { echo "not there: $place $word" && return 1; }
	done < <(grep '^== ' "$folder/sample")
	[ "$count" -eq 180 ]
	tests/sample 7 1000 400 300 | sed -n 's/^== [a-z]* [0-9]*: [^ ]* //p' | sort | uniq -d >"$folder/same"
	diff /dev/null "$folder/same"
}

# ci CODE: run .ci/run in a temporary folder, in which 'make' prints its arguments and runs the shell code CODE.
ci() {
	local folder=$BATS_TEST_TMPDIR/ci
	mkdir -p "$folder/.ci" "$folder/bin" "$folder/build/check"
	cp "$BATS_TEST_DIRNAME/../.ci/run" "$folder/.ci"
	echo "6 passed, 6 failed" >"$folder/build/check/sum" # from an earlier run
	printf '#!/bin/sh\necho make "$@"\n%s\n' "$1" >"$folder/bin/make"
	chmod +x "$folder/bin/make"
	PATH=$folder/bin:$PATH run "$folder/.ci/run"
	echo "$output"
}

@test ".ci/run runs make lint, then make check-all; its last line is the sum of the tests" {
	ci 'echo "5 passed, 0 failed"'
	[ "$status" -eq 0 ]
	[ "${lines[*]}" = "make lint check-all 5 passed, 0 failed" ]
	ci 'echo "4 passed, 1 failed" | tee build/check/sum; echo "make: *** [check-all] Error 1" >&2; exit 2'
	[ "$status" -eq 2 ]
	[ "${lines[-1]}" = "4 passed, 1 failed" ]
	ci 'echo "make: *** [lint] Error 1" >&2; exit 2'
	[ "$status" -eq 2 ]
	[ "${lines[-1]}" = "0 passed, 1 failed" ]
}

@test "tests/run prints only the sum on its last line; a skipped test is shown with its reason and not counted" {
	local results=$BATS_TEST_TMPDIR/results end
	end=$(sed -n '/^show_failures "\$results/,$p' "$BATS_TEST_DIRNAME/run")
	mkdir "$results"
	printf '%s\n' "ok 1 first" "ok 2 second # skip valgrind is not installed" >"$results/part.tap"
	run bash -c "results=$results; show_failures() { :; }; $end"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"ok 2 second # skip valgrind is not installed"* ]]
	[ "${lines[-1]}" = "1 passed, 0 failed" ]
	[ "$(cat "$results/sum")" = "1 passed, 0 failed" ]
	echo "not ok 3 third" >>"$results/part.tap"
	run bash -c "results=$results; show_failures() { :; }; $end"
	[ "$status" -eq 1 ]
	[ "${lines[-1]}" = "1 passed, 1 failed" ]
}

# parts [all]: print a line "TRANSPORT FILE TAGS" for each file that 'tests/run [all]' would run; TAGS is the filter
# for bats.
parts() {
	# shellcheck disable=SC2317 # the code of tests/run calls it
	begin() {
		local transport=- tags='' word before=''
		for word in "${@:2}"; do
			[ "$before" != --filter-tags ] || tags=$word
			case $word in
			--transport*) transport=${word#--transport } ;;
			*.bats | unit_tests) echo "$transport $word $tags" ;;
			esac
			before=$word
		done
	}
	eval "$(grep -E '^(sessions|faults)=' "$BATS_TEST_DIRNAME/run" && sed -n '/^case /,/^esac/p' "$BATS_TEST_DIRNAME/run")"
}

# is_among TRANSPORT FILE TAGS LIST: return true if a line of LIST has TRANSPORT, FILE and only tags of TAGS.
is_among() {
	local transport file tags tag
	while read -r transport file tags; do
		[ "$transport $file" = "$1 $2" ] || continue
		for tag in ${tags//,/ }; do
			[[ ,$3, == *",$tag,"* ]] || continue 2
		done
		return 0
	done <<<"$4"
	return 1
}

@test "make check-all runs all tests of make check" {
	local all transport file tags count=0
	all=$(parts all)
	while read -r transport file tags; do
		count=$((count + 1))
		is_among "$transport" "$file" "$tags" "$all" || { echo "not in make check-all: $transport $file $tags" && return 1; }
	done < <(parts)
	[ "$count" -gt 10 ]
}

# made NAME: print the builds that a row on the fake library makes, in a folder whose fake-verbs.mk only names the build.
made() {
	local folder=$BATS_TEST_TMPDIR
	mkdir -p "$folder/tests/fake-verbs"
	cp "$BATS_TEST_DIRNAME"/{helpers.bash,fake.bash,fake-*.bats} "$folder/tests"
	cp "$BATS_TEST_DIRNAME/fake-verbs/faults" "$folder/tests/fake-verbs"
	printf '%s\n' 'all:' $'\t@echo $(SANITIZE) >>made' >"$folder/tests/fake-verbs/fake-verbs.mk"
	: >"$folder/made"
	run env -u FAKE_VERBS_PROGRAMS bats -f "$1" "$folder"/tests/fake-*.bats
	[ "${lines[0]}" = 1..1 ] # one row has this name
	paste -sd ' ' "$folder/made"
}

@test "one row on the fake library makes only the builds that it runs" {
	[ "$(made '^--verbose prints verbs')" = none ]
	[ "$(made '^either program reports a damaged byte')" = address ]
	[ "$(made '^ThreadSanitizer .* with helpers')" = thread ]
}
