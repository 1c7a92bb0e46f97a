#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, as C17 and as C++17, without a warning. So do the initialisers
# of all structs with a struct_size, the program that README.md shows, and the loop at the top of
# millrace.h.
#
# A struct with a struct_size ends with its last field. In padding after it, a later field would
# have its place within the struct_size of today's callers, who leave padding unspecified. Where
# this fails, give the field 8 bytes or place it before a pointer.
set -eu

strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'
# shellcheck disable=SC2086 # $strict is a list
compile() {
    printf '%s\n' "$1" | "$CC" -x c -std=c17 $strict -I "$SOURCE/include" -
    if [ -n "$CXX" ] && [ -x "$CXX" ]; then
        printf '%s\n' "$1" | "$CXX" -x c++ -std=c++17 $strict -I "$SOURCE/include" -
    fi
}

count=0
strict="$strict -Wpadded" # a hole has a field, reserved
for header in "$SOURCE"/include/millrace/*.h; do
    compile "#include <millrace/$(basename "$header")>"
    count=$((count + 1))
done
strict=${strict% -Wpadded}
# "mr_loader_options soft_labels": a struct with a struct_size, and its last field.
sized=$(awk '/^typedef struct mr_[a-z_]* \{$/ { struct = $3; first = "" }
    struct && /^    [a-z].*;/ {
        sub(/;.*/, ""); sub(/\[.*/, ""); sub(/.*[ *]/, "")
        if (!first) first = $0
        last = $0
    }
    struct && /^}/ { if (first == "struct_size") print struct, last; struct = "" }
    ' "$SOURCE"/include/millrace/*.h)
checks=$(echo "$sized" | while read -r struct last; do
    echo "{ $struct s = $(echo "$struct" | tr a-z A-Z)_INIT; failed |= s.struct_size != sizeof s;"
    echo "static_assert(sizeof s == offsetof($struct, $last) + sizeof s.$last,"
    echo "              \"padding at the end of $struct\"); }"
done)
compile "#include <assert.h>
#include <millrace/millrace.h>
#include <millrace/dist.h>
int main(void) { int failed = 0; $checks return failed; }"
n_structs=$(echo "$sized" | wc -l)

# Each block of README.md that is a program becomes a file.
n_programs=0
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
awk -v folder="$programs" '
    /^```/ {
        inside = $0 == "```c"
        if (inside) { n++; text = "" }
        else if (text ~ /int main\(/) { printf "%s", text > (folder "/" n); text = "" }
        next
    }
    inside { text = text $0 "\n" }' "$SOURCE/README.md"
for program in "$programs"/*; do
    compile "$(cat "$program")"
    n_programs=$((n_programs + 1))
done
loop=$(sed -n '/^ \*   /s/^ \* *//p' "$SOURCE/include/millrace/millrace.h")
compile "#include <millrace/millrace.h>
void die(const char *text);
void train(const void *images, const void *labels, uint32_t n);
void run(void);
void run(void) { $loop }"
echo "$n_programs program of README.md and the loop of millrace.h compiled"
test "$n_programs" -eq 1
echo "$loop" | grep -q mr_loader_next

echo "$count headers compiled alone, $n_structs structs have an initialiser"
test "$count" -ge 7
test "$n_structs" -ge 15
