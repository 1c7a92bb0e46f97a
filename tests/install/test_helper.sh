#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_helper.sh BUILD MAKE_FOLDER REFUSE: where no program can be started from a descriptor, the
# installed worker helper is found from where library and program lie now, in an installation that
# was moved; where there is none, the words say so.
set -eu

build=$1
make_folder=$2
refuse=$3
folder=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# check NAME COMMAND...: two workers, both of the installed program, and the pixels of the workers
# from a descriptor.
check() {
    name=$1
    shift
    status=0
    "$@" "$folder/images" >"$folder/out" 2>&1 || status=$?
    test "$status" = 77 && exit 77
    test "$status" = 0 || fail "$name ended with $status: $(cat "$folder/out")"
    test "$(grep -cxF "worker $helper" "$folder/out")" = 2 ||
        fail "$name: not two of $helper: $(cat "$folder/out")"
    test "$(grep ^digest "$folder/out")" = "$digest" ||
        fail "$name: $(grep ^digest "$folder/out") is not $digest"
    echo "ok: $name"
}

"$make_folder" "$folder/images" 2 20
cmake --install "$build" --prefix "$folder/installed" >/dev/null
mv "$folder/installed" "$folder/moved"
helper=$folder/moved/libexec/millrace/millrace-worker
test -x "$helper" || fail "the worker helper is not in libexec/millrace"
libdir=$(dirname "$(find "$folder/moved" -name libmillrace.a)")
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH

mkdir "$folder/elsewhere" "$folder/moved/lib/some-linux-gnu"
# shellcheck disable=SC2046 # lists of options
{
    "$CC" -std=c17 "$SOURCE/tests/install/name_workers.c" -o "$folder/shared" \
        $(pkg-config --cflags --libs millrace)
    "$CC" -std=c17 "$SOURCE/tests/install/name_workers.c" -o "$folder/static" \
        -static $(pkg-config --static --cflags --libs millrace-static)
}
cp "$folder/static" "$folder/moved/bin/name_workers"
cp -P "$libdir"/libmillrace.so* "$folder/moved/lib/some-linux-gnu"

"$folder/static" "$folder/images" >"$folder/out"
test "$(grep -c '^worker .*memfd' "$folder/out")" = 2 ||
    fail "the usual workers are not from a descriptor"
digest=$(grep ^digest "$folder/out")

check 'beside the shared library' env LD_LIBRARY_PATH="$libdir" "$refuse" "$folder/shared"
check 'beside the shared library, two folders up' \
    env LD_LIBRARY_PATH="$folder/moved/lib/some-linux-gnu" "$refuse" "$folder/shared"
check 'beside the static program' "$refuse" "$folder/moved/bin/name_workers"
cd "$folder/elsewhere"
check 'beside the static program, called by name' \
    env PATH="$folder/moved/bin:$PATH" "$refuse" name_workers
check 'beside the static program, called by a relative path' "$refuse" ../moved/bin/name_workers

cp "$folder/static" "$folder/elsewhere/alone"
if "$refuse" "$folder/elsewhere/alone" "$folder/images" >"$folder/out" 2>&1; then
    if grep -F "worker $folder" "$folder/out"; then
        fail "a program without a helper beside it found one"
    fi
    echo "a helper is installed on this machine: the words are not tested"
else
    for words in 'from a memfd' "from $folder/elsewhere, and /" \
        'libexec/millrace/millrace-worker'; do
        grep -qF "$words" "$folder/out" || fail "\"$(cat "$folder/out")\" lacks \"$words\""
    done
    echo "ok: $(cat "$folder/out")"
fi
