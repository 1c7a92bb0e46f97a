#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_script_test.sh SOURCE: script/test runs the tests that were asked for, and refuses what ctest
# would ignore. Its neighbours setup and build are replaced, and there are three small tests.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/script" "$folder/build/test"
cp "$1/script/test" "$folder/script/"
printf '#!/bin/sh\n' >"$folder/script/setup"
printf '#!/bin/sh\ntouch "$(dirname "$0")/built"\n' >"$folder/script/build"
chmod +x "$folder/script"/*
cat >"$folder/build/test/CTestTestfile.cmake" <<END
add_test(test_one "true")
add_test(test_two "true")
add_test(test_slow "true")
set_tests_properties(test_slow PROPERTIES LABELS long)
END

fail() {
    echo "FAILED: $*"
    exit 1
}

# runs N WORDS...: that many tests pass.
runs() {
    n=$1
    shift
    "$folder/script/test" "$@" >"$folder/out" 2>&1 || fail "script/test $*: $(cat "$folder/out")"
    grep -q "100% tests passed, 0 tests failed out of $n\$" "$folder/out" ||
        fail "$*, not $n: $(cat "$folder/out")"
    echo "ok: $n of 3: $*"
}

# refuses LINE WORDS...: exit status 2 and that line alone.
refuses() {
    line=$1
    shift
    status=0
    rm -f "$folder/script/built"
    "$folder/script/test" "$@" >"$folder/out" 2>&1 || status=$?
    test "$status" = 2 || fail "script/test $* ends with $status: $(cat "$folder/out")"
    test "$(cat "$folder/out")" = "script/test: $line" ||
        fail "script/test $*: $(cat "$folder/out")"
    echo "ok: refused: $*"
}

runs 2
runs 3 --long
runs 1 -R 'one|slow'
runs 2 --long -R 'one|slow'
runs 2 -R 'one|slow' --long
runs 1 --repeat until-fail:2 -j2 -E one --stop-on-failure
hint='see script/test --help, or run ctest in build/test'
for words in --halp --longer -r '-R one two'; do
    # shellcheck disable=SC2086 # a list of words
    refuses "'${words##* }' is not understood; $hint" $words
    test ! -e "$folder/script/built" || fail "script/test $words builds before it refuses"
done
refuses '-R needs a value' -R
refuses 'no test matches: -R nosuchname (long tests need --long)' -R nosuchname
refuses 'no test matches: -R nosuchname' --long -R nosuchname
