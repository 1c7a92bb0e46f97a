#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_examples.sh EXAMPLES MAKE_FOLDER: each example does what its first comment says, on data made
# here.
set -eu

examples=$1
make_folder=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

sum() { awk "$1"' { n += $'"$2"' } END { print n + 0 }' "$3"; }

"$make_folder" "$folder/images" 2 20

"$examples/shortest" "$folder/images" >"$folder/shortest" || fail "shortest ended with status $?"
test "$(sum '' 1 "$folder/shortest")" -eq 40 ||
    fail "shortest shows another number of images than 40"

"$examples/first_batch" "$folder/images" >"$folder/first" || fail "first_batch ended with status $?"
test "$(sum '/^epoch 0,/' 5 "$folder/first")" -eq 40 ||
    fail "first_batch shows another number of images than 40"
test "$(sum '/^epoch 1,/' 5 "$folder/first")" -eq 40 ||
    fail "first_batch shows another number of images than 40"

mkdir -p "$folder/empty/class"
if "$examples/first_batch" "$folder/empty" >"$folder/out" 2>"$folder/errors"; then
    fail "first_batch accepts a folder without images"
fi
test "$(wc -l <"$folder/errors")" -eq 1 || fail "the error of first_batch is not one line"
cp -r "$folder/images" "$folder/damaged"
echo "this is text" >"$folder/damaged/class_0/0003.jpg"
if "$examples/first_batch" "$folder/damaged" >"$folder/out" 2>"$folder/errors"; then
    fail "first_batch passes over a damaged image"
fi
grep -q 'class_0/0003.jpg' "$folder/errors" ||
    fail "first_batch does not name the damaged image: $(cat "$folder/errors")"

if "$examples/shortest" "$folder/damaged" >"$folder/out" 2>"$folder/errors"; then
    fail "shortest passes over a damaged image"
fi
grep -q 'class_0/0003.jpg' "$folder/errors" ||
    fail "shortest does not name the damaged image: $(cat "$folder/errors")"

# Every one of the 1000 samples has one of four labels.
"$examples/own_samples" >"$folder/own" || fail "own_samples ended with status $?"
test "$(awk '{ print $5 + $6 + $7 + $8 }' "$folder/own")" -eq 1000 ||
    fail "own_samples: $(cat "$folder/own")"

# 10 rows and a bit: 1 + 9 x 1024 + 1024 tokens, then 100 more. All tokens are equal, so each
# target repeats its input.
head -c $(((1 + 10 * 1024 + 100) * 2)) /dev/zero >"$folder/tokens.bin"
"$examples/tokens" "tokens:$folder/tokens.bin?window=1024&dtype=u16" >"$folder/tokens" ||
    fail "tokens ended with status $?"
test "$(sum '' 3 "$folder/tokens")" -eq 10 || fail "tokens shows another number of rows than 10"
test "$(sum '' 5 "$folder/tokens")" -eq 10240 || fail "tokens counts other repeats than 10240"

"$examples/make_patches" "$folder/patches" 5 "$folder"/images/class_1/000[0-2].jpg \
    "$folder/tokens.bin" 2>/dev/null ||
    fail "make_patches ended with status $?"
test "$(find "$folder/patches" -name '*.jpg' | wc -l)" -eq 15 ||
    fail "make_patches did not cut 15 patches"
"$examples/first_batch" "$folder/patches" >"$folder/out" || fail "the patches cannot be read"
echo "ok"
