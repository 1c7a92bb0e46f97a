#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_symbols.sh LIBMILLRACE.so LIBMILLRACE.a LIBMILLRACE-DIST.so LIBMILLRACE-DIST.a CUDA: each
# shared library exports exactly the functions that its public headers mark MR_API; libmillrace.so
# also exports what headers of base/ mark MR_BASE_EXPORT, for the other library. Every global name
# of the static libraries begins with mr_ (except those of NVTX's headers: weak, with their version
# in the name). libmillrace-dist.a has no object of libmillrace.a. Where CUDA is OFF, libmillrace.so
# cannot open a connection.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$SOURCE/include/millrace"
dist='group.h launch.h metrics.h run.h'

# list_declared HEADERS...: the functions that they mark for export. A declaration may break before
# its name: join the lines up to the semicolon, then take the name before the bracket.
list_declared() {
    cat "$@" | awk '
    /^MR_(API|BASE_EXPORT) / { text = ""; reading = 1 }
    reading { text = text " " $0 }
    reading && /;/ {
        sub(/\(.*/, "", text); sub(/.*[ *]/, "", text)
        print text
        reading = 0
    }' | sort
}

# list_exported LIB VERSION: the functions of LIB in that version node, without the node's own name.
list_exported() {
    nm -D --defined-only "$1" |
        awk -v node="@@$2" '$2 != "A" && index($3, node) { sub(/@.*/, "", $3); print $3 }' | sort
}

# compare NAME: are the functions that were declared and exported the same?
compare() {
    n_exported=$(wc -l <"$folder/exported")
    echo "$1: $(wc -l <"$folder/declared") functions declared, $n_exported exported"
    test -s "$folder/declared"
    diff "$folder/declared" "$folder/exported"
}

# shellcheck disable=SC2086 # a list
list_declared $dist >"$folder/declared"
list_exported "$3" MILLRACE_DIST_ >"$folder/exported"
compare libmillrace-dist.so
loading=''
for header in *.h; do
    case " $dist " in
    *" $header "*) ;;
    *) loading="$loading $header" ;;
    esac
done
# shellcheck disable=SC2086 # a list
list_declared $loading >"$folder/declared"
list_exported "$1" MILLRACE_0 >"$folder/exported"
compare libmillrace.so
list_declared ../../base/*.h >"$folder/declared"
list_exported "$1" MILLRACE_PRIVATE >"$folder/exported"
compare 'libmillrace.so, for libmillrace-dist'
for library in "$1" "$3"; do
    if nm -D --defined-only "$library" | awk '$2 != "A"' | grep -v '@@MILLRACE_'; then
        echo "$library exports these without a version of its map"
        exit 1
    fi
done

nm -A --defined-only --extern-only "$2" "$4" 2>/dev/null | awk '
    NF >= 3 && $NF !~ /^mr_/ &&
        !($(NF - 1) ~ /^[VW]$/ && $NF ~ /^(nvtx.*_v3|InitializeInjectionNvtx2_fnptr)$/)
' >"$folder/foreign"
if [ -s "$folder/foreign" ]; then
    echo "names of the static libraries that do not begin with mr_:"
    cat "$folder/foreign"
    exit 1
fi

ar t "$2" | sort >"$folder/objects"
ar t "$4" | sort >"$folder/objects-dist"
if comm -12 "$folder/objects" "$folder/objects-dist" | grep .; then
    echo "these objects are in both static libraries"
    exit 1
fi

if [ "$5" = OFF ]; then
    for name in socket bind listen accept accept4 connect getaddrinfo epoll_create1 dlopen; do
        if nm -D --undefined-only "$1" | grep -E " $name(@|\$)"; then
            echo "libmillrace.so calls $name()"
            exit 1
        fi
    done
    echo "libmillrace.so opens no connection and no module"
fi
