#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, as C17 and as C++17, without a warning. The options' initialisers too.
set -eu

strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'
initialisers='mr_dataset_options a = MR_DATASET_OPTIONS_INIT; mr_callbacks b = MR_CALLBACKS_INIT;
    mr_sampler_options c = MR_SAMPLER_OPTIONS_INIT; mr_loader_options d = MR_LOADER_OPTIONS_INIT;
    mr_pack_options e = MR_PACK_OPTIONS_INIT;
    return a.struct_size == sizeof a && b.struct_size == sizeof b && c.struct_size == sizeof c &&
           d.struct_size == sizeof d && e.struct_size == sizeof e ? 0 : 1;'

# shellcheck disable=SC2086 # $strict is a list
compile() {
    echo "$1" | "$CC" -x c -std=c17 $strict -I "$SOURCE/include" -
    if [ -n "$CXX" ] && [ -x "$CXX" ]; then
        echo "$1" | "$CXX" -x c++ -std=c++17 $strict -I "$SOURCE/include" -
    fi
}

count=0
for header in "$SOURCE"/include/millrace/*.h; do
    compile "#include <millrace/$(basename "$header")>"
    count=$((count + 1))
done
compile "#include <millrace/dist.h>
int main(void) { mr_group_options a = MR_GROUP_OPTIONS_INIT; mr_launch_options b = MR_LAUNCH_OPTIONS_INIT;
    return a.struct_size == sizeof a && b.struct_size == sizeof b ? 0 : 1; }"
compile "#include <millrace/millrace.h>
int main(void) { $initialisers }"
echo "$count headers compiled alone"
test "$count" -ge 7
