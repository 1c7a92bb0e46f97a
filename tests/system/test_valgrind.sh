#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_valgrind.sh RUN_EPOCHS MAKE_FOLDER: a program under valgrind can start workers, and the
# library causes no error. Sanitizers check the workers' code. valgrind checks what they cannot, the
# host with workers that are separate programs.
set -eu

run_epochs=$1
make_folder=$2
if ! command -v valgrind >/dev/null; then
    echo "valgrind is not installed"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$make_folder" "$folder/images" 2 10

for reader in uring pread; do
    if ! valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        "$run_epochs" "$folder/images" $reader 2 2 >"$folder/log" 2>&1; then
        cat "$folder/log"
        exit 1
    fi
done
