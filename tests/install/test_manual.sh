#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_manual.sh DIR AWK: every function of cmake/*.map has a page in DIR with its name, its
# prototype and a text, which groff reads without a warning; every page that is referred to is
# there. Then headers that docs/man/pages.awk must refuse.
set -eu

pages=$1
awk=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# list_public MAP: the functions of its first node; the private ones come after it.
list_public() {
    sed -n '/^MILLRACE_PRIVATE/q; s/^ *\(mr_[a-z_0-9]*\);$/\1/p' "$1"
}

count=0
for name in $(list_public "$SOURCE/cmake/millrace.map") \
    $(list_public "$SOURCE/cmake/millrace-dist.map"); do
    page=$pages/$name.3
    test -f "$page" || fail "no page $name.3"
    target=$(sed -n 's/^\.so man3\///p' "$page")
    test -z "$target" || page=$pages/$target
    test -f "$page" || fail "$name.3 leads to $target, which is not there"
    sed -n '/^\.SH NAME/{n;p;}' "$page" | sed 's/ \\-.*//' | tr -d ' ' | tr ',' '\n' |
        grep -qx "$name" ||
        fail "NAME of $(basename "$page") lacks $name"
    sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' "$page" | grep -q "[ *]$name(" ||
        fail "SYNOPSIS lacks $name"
    sed -n '/^\.SH DESCRIPTION/{n;p;}' "$page" | grep -q '^[^.]' || fail "$name has no description"
    count=$((count + 1))
done
echo "$count functions have a page"
test "$count" -gt 100 || fail "too few functions"

grep -ho '\\fBmr_[a-z_0-9]*\\fR(3)' "$pages"/*.3 | sed 's/.fB\(.*\).fR(3)/\1/' |
    sort -u >"$folder/referred"
while read -r name; do
    test -f "$pages/$name.3" || fail "there is no $name.3"
done <"$folder/referred"
if command -v groff >/dev/null; then
    cat "$pages"/*.3 | grep -v '^\.so ' | groff -man -Tutf8 -ww -z 2>"$folder/warnings"
    test ! -s "$folder/warnings" || fail "$(cat "$folder/warnings")"
fi

# The sections of a page, from a comment with all that a comment can have.
cat >"$folder/millrace.h" <<'END'
#include <millrace/small.h>
END
small=$folder/small.h

# make_pages: pages of what standard input declares.
make_pages() {
    cat >"$small"
    "$awk" -v out="$folder" -v version=1.2.3 -f "$SOURCE/docs/man/headers.awk" \
        -f "$SOURCE/docs/man/pages.awk" "$folder/millrace.h" "$small" 2>"$folder/errors"
}

make_pages <<'END' || fail "$(cat "$folder/errors")"
/** Outcome. */
typedef enum mr_status { MR_OK = 0 } mr_status;

/** A jar. */
typedef struct mr_jar_options {
    size_t struct_size;
    /* Its size */
    int depth; /* in mm */
} mr_jar_options;
#define MR_JAR_OPTIONS_INIT MR_STRUCT_INIT(mr_jar_options)

typedef struct mr_jar mr_jar;

/**
 * Open a jar: turn its lid.
 *
 * force  in N,
 *        or in kN
 *
 * Two words more.
 * Returns MR_OK. Ownership: the caller's.
 * Threads, Blocks: as `open`.
 */
MR_API mr_status mr_jar_open(mr_jar *jar, const mr_jar_options *options, int force);
MR_API mr_status mr_jar_shut(mr_jar *jar);
END
grep -v '^\.\\"\|^\.TH' "$folder/mr_jar_open.3" >"$folder/page"
cat >"$folder/expected" <<'END'
.nh
.ad l
.SH NAME
mr_jar_open, mr_jar_shut \- open a jar
.SH SYNOPSIS
.nf
.B #include <millrace/millrace.h>
.PP
\fBmr_status mr_jar_open(mr_jar *\fIjar\fB, const mr_jar_options *\fIoptions\fB,\fR
\fB                      int \fIforce\fB);\fR

\fBmr_status mr_jar_shut(mr_jar *\fIjar\fB);\fR
.fi
.PP
Link with \fBpkg\-config \-\-libs millrace\fR.
.SH DESCRIPTION
Open a jar: turn its lid.
.TP
.I force
in N,
or in kN
.PP
Two words more.
.SH RETURN VALUE
\fBMR_OK\fR.
.SH OWNERSHIP
The caller's.
.SH THREADS
As \fBopen\fR.
.SH BLOCKS
As \fBopen\fR.
.SH SEE ALSO
\fBmr_jar_options\fR(3),
\fBmr_status\fR(3),
\fBlibmillrace\fR(3)
END
diff "$folder/expected" "$folder/page" || fail "the page of mr_jar_open is not as expected"
test "$(cat "$folder/mr_jar_shut.3")" = ".so man3/mr_jar_open.3" ||
    fail "mr_jar_shut.3 does not lead to mr_jar_open.3"
sed -n '/^\.SH SYNOPSIS/,$p' "$folder/mr_jar_options.3" >"$folder/page"
cat >"$folder/expected" <<'END'
.SH SYNOPSIS
.nf
.B #include <millrace/millrace.h>
.PP
.BI "mr_jar_options " name " = MR_JAR_OPTIONS_INIT;"
.fi
.PP
Link with \fBpkg\-config \-\-libs millrace\fR.
.SH DESCRIPTION
A jar.
.SH FIELDS
.TP
.B size_t struct_size
.SS Its size
.TP
.B int depth
in mm
.SH SEE ALSO
\fBmr_jar_open\fR(3),
\fBlibmillrace\fR(3)
END
diff "$folder/expected" "$folder/page" || fail "the page of mr_jar_options is not as expected"

# refuse WORDS: pages.awk refuses what standard input declares, with these words.
refuse() {
    if make_pages; then
        fail "pages.awk accepts what it should refuse: $1"
    fi
    grep -qF "$1" "$folder/errors" || fail "pages.awk should say '$1': $(cat "$folder/errors")"
}

refuse 'no comment: mr_jar_lid' <<'END'
MR_API void mr_jar_lid(int x);
END
refuse 'has a label inside a sentence' <<'END'
/** Lift a lid, Threads: any. */
MR_API void mr_jar_lid(int x);
END
refuse 'names mr_jar_top(), which no header declares' <<'END'
/** Lift a lid as mr_jar_top(). */
MR_API void mr_jar_lid(int x);
END
refuse 'not understood: MR_UNKNOWN(mr_jar_lid);' <<'END'
/** Lift a lid. */
MR_UNKNOWN(mr_jar_lid);
END
refuse 'no name that begins with mr_' <<'END'
/** Lift a lid. */
MR_API void jar_lid(int x);
END
refuse 'does not end' <<'END'
/** Lift a lid. */
MR_API void mr_jar_lid(int x)
END
