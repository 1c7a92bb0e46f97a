#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_timeline.sh DRAW_TIMELINE GPU.md: the timelines in docs/gpu.md are those that the double of
# the CUDA runtime draws now.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$1" 6 12 >"$folder/drawn"
"$1" 12 8 >>"$folder/drawn"
sed -n '/^ms  /,/^train /p' "$2" >"$folder/written"
test -s "$folder/written"
diff "$folder/drawn" "$folder/written"
