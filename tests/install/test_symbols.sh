#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_symbols.sh LIBMILLRACE.so LIBMILLRACE.a: the shared library exports exactly the functions that the public headers
# mark MR_API, and every global name of the static one begins with mr_ (but for what the headers of NVTX bring: weak, with
# their version in the name).
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A declaration may break before its name: join the lines up to the semicolon, then take the name before the bracket.
cat "$SOURCE"/include/millrace/*.h | awk '
    /^MR_API/ { text = ""; reading = 1 }
    reading { text = text " " $0 }
    reading && /;/ { sub(/\(.*/, "", text); sub(/.*[ *]/, "", text); print text; reading = 0 }' |
    sort >"$folder/declared"
nm -D --defined-only "$1" | awk '{ print $3 }' | sort >"$folder/exported"
echo "$(wc -l <"$folder/declared") functions declared, $(wc -l <"$folder/exported") exported"
test -s "$folder/declared"
diff "$folder/declared" "$folder/exported"

nm -A --defined-only --extern-only "$2" 2>/dev/null | awk '
    NF >= 3 && $NF !~ /^mr_/ && !($(NF - 1) ~ /^[VW]$/ && $NF ~ /^(nvtx.*_v3|InitializeInjectionNvtx2_fnptr)$/)
' >"$folder/foreign"
if [ -s "$folder/foreign" ]; then
    echo "names of libmillrace.a that do not begin with mr_:"
    cat "$folder/foreign"
    exit 1
fi
