#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_extending.sh SOURCE CC FOLDER...: a kind of dataset and a reader are each added by a patch of
# under 120 lines. Applies both to a copy of the sources and compiles only the rooms that they
# concern. FOLDER: where outside headers are.
set -eu

source=$1
cc=$2
shift 2
here=$source/tests/dataset/extending
for folder in "$@"; do includes="${includes-} -I$folder"; done
command -v patch >/dev/null || { echo "skipped: no patch"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

mkdir "$work/tree" "$work/images"
cp -R "$source/base" "$source/dataset" "$source/include" "$source/loader" "$here/extended.c" \
    "$work/tree"
cd "$work/tree"
for name in dataset_kind reader; do
    lines=$(wc -l <"$here/$name.patch")
    test "$lines" -lt 120 || fail "$name.patch has $lines lines"
    patch -p1 --no-backup-if-mismatch <"$here/$name.patch" >"$work/log" ||
        fail "$name.patch: $(cat "$work/log")"
done

# What the patched CMakeLists.txt names, with the stand-ins for outside libraries.
names=$(sed -n '/^set([a-z_]*sources/,/)/p' dataset/CMakeLists.txt | grep -o '[a-z0-9_/]*\.c')
sources="extended.c dataset/reader/reader_uring_absent.c dataset/annotations/voc_xml_absent.c"
sources="$sources dataset/annotations/coco_json_absent.c dataset/remote/absent.c"
sources="$sources dataset/remote/listing/listing_xml_absent.c dataset/tokens/mds_json_absent.c"
sources="$sources $(echo base/*.c)"
for name in $names; do sources="$sources dataset/$name"; done
case $sources in
*dataset/reader/reader_slow.c*dataset/flat.c*) ;;
*) fail "CMakeLists.txt does not name the new files" ;;
esac

# shellcheck disable=SC2086
echo $sources | tr ' ' '\n' |
    xargs -P 2 -n 12 "$cc" -std=gnu17 -D_GNU_SOURCE -O0 -I. -Iinclude ${includes-} -c ||
    fail "the patched sources do not compile"
"$cc" -std=gnu17 -D_GNU_SOURCE -fsyntax-only -I. -Iinclude loader/option_table.c ||
    fail "the patched option does not compile"
"$cc" -o extended ./*.o -lm -lpthread

printf 'first' >"$work/images/1.jpg"
printf 'the second' >"$work/images/2.JPEG"
printf 'the tenth, a little longer' >"$work/images/10.png"
printf 'no image' >"$work/images/readme.txt"
./extended "$work/images" || fail "extended ended with status $?"
