#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_rust.sh LIBRARY_FOLDER MAKE_FOLDER: the layouts in examples/rust/millrace.rs are those of the
# headers, and the Rust program loads batches. Skipped where rustc is missing.
set -eu

library=$1
make_folder=$2
rust=$SOURCE/examples/rust
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Each test of a layout becomes static assertions in C.
{
    echo '#include <assert.h>'
    echo '#include <millrace/millrace.h>'
    sed -n -e 's/^fn bindgen_test_layout_\(.*\)() {$/#undef S\n#define S \1/p' \
        -e 's/.*size_of::<.*>(), \([0-9]*\)usize.*/static_assert(sizeof(S) == \1, "size");/p' \
        -e 's/.*ptr)\.\(.*\)) }.*, \([0-9]*\)usize.*/static_assert(offsetof(S, \1) == \2, "");/p' \
        "$rust/millrace.rs"
} >"$folder/layout.c"
n=$(grep -c static_assert "$folder/layout.c")
test "$n" -gt 60
"$CC" -std=c17 -fsyntax-only -I "$SOURCE/include" "$folder/layout.c"
echo "$n sizes and offsets are the headers'"

if ! rustc --version; then
    echo "skipped: rustc is not installed"
    exit 77
fi
compile() { rustc --edition 2021 -D warnings -L "native=$library" "$@"; }
export LD_LIBRARY_PATH="$library"
compile --test "$rust/millrace.rs" -o "$folder/layouts"
"$folder/layouts"
compile "$rust/first_batch.rs" -o "$folder/first_batch"
"$make_folder" "$folder/images" 2 20
"$folder/first_batch" "$folder/images" | tee "$folder/out"
test "$(awk '{ n += $3 } END { print n }' "$folder/out")" -eq 40
if "$folder/first_batch" "$folder/nowhere" 2>"$folder/errors"; then
    echo "FAILED: first_batch accepts a folder that does not exist"
    exit 1
fi
grep nowhere "$folder/errors"
