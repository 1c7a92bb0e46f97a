#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_little_memory.sh PROGRAM: gpu_check h2d makes the brief measurement if too little memory is
# available. PROGRAM: gpu_check_double.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/^MemAvailable:.*/MemAvailable:    1500000 kB/' /proc/meminfo >"$folder/meminfo"
if ! unshare -rm mount --bind "$folder/meminfo" /proc/meminfo 2>/dev/null; then
    echo "skipped: no mounts of our own here"
    exit 77
fi
# shellcheck disable=SC2016 # the inner shell's
unshare -rm sh -c 'mount --bind "$1/meminfo" /proc/meminfo && exec "$2" h2d --workers 2' \
    sh "$folder" "$1" \
    >"$folder/out" 2>&1 || {
    cat "$folder/out"
    exit 1
}
cat "$folder/out"
grep -q '^fact | h2d is brief | .*available memory' "$folder/out"
grep -q '^pass | ' "$folder/out"
