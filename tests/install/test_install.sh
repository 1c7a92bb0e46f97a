#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_install.sh BUILD MAKE_FOLDER: installs, moves the installed tree, and builds
# examples/first_batch.c against it by find_package and by pkg-config, as C17 and C++17, shared and
# static. All programs print the same lines about a small folder of images, and the static one does
# so in another directory with the installed tree gone. group_alone.c does the same for the process
# group. Then find_package() with other components, make in a copy of the examples, and what needs
# no other package. No installed file names a folder of the build, and README's line removes them
# all.
set -eu

build=$1
make_folder=$2
strict='-Wall -Wextra -Wpedantic -Werror'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# run_program NAME PROGRAM: its output must be that of the first program that was run.
run_program() {
    "$2" "$folder/images" >"$folder/$1.txt" || fail "$1 ended with status $?"
    test "$(grep -c '^epoch [01], batch' "$folder/$1.txt")" -ge 2 ||
        fail "$1 printed fewer than two epochs"
    test -f "$folder/expected.txt" || cp "$folder/$1.txt" "$folder/expected.txt"
    cmp "$folder/expected.txt" "$folder/$1.txt" ||
        fail "$1 prints something else than the first program"
    echo "ok: $1"
}

# run_group NAME PROGRAM: the two libraries act as one: the log line of one goes to the function
# that the other was given.
run_group() {
    "$2" >"$folder/$1.txt" || fail "$1 ended with status $?"
    grep -q '^log: 1 .*3' "$folder/$1.txt" ||
        fail "$1: no log line of libmillrace-dist: $(cat "$folder/$1.txt")"
    grep -qx 'sum: 3' "$folder/$1.txt" || fail "$1: $(cat "$folder/$1.txt")"
    echo "ok: $1"
}

# is_static PROGRAM: it needs no shared library.
is_static() {
    if readelf -d "$1" | grep NEEDED; then
        fail "$1 is linked with -static and needs shared libraries"
    fi
}

# find_millrace ARGUMENTS...: a project that only calls find_package(millrace ARGUMENTS...); it must
# define all targets.
find_millrace() {
    rm -rf "$folder/find"
    mkdir "$folder/find"
    cat >"$folder/find/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(find LANGUAGES C)
find_package(millrace $*)
foreach(target millrace millrace_static dist dist_static)
  if(NOT TARGET millrace::\${target})
    message(FATAL_ERROR "millrace::\${target} is not defined")
  endif()
endforeach()
END
    cmake -S "$folder/find" -B "$folder/find/build" -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_PREFIX_PATH="$folder/moved" \
        >"$folder/log" 2>&1
}

# expect_words WORDS...: the last find_millrace has printed them; CMake wraps its messages.
expect_words() {
    tr -s ' \n' ' ' <"$folder/log" | grep -qF "$*" || fail "not printed: $*: $(cat "$folder/log")"
}

"$make_folder" "$folder/images" 2 24
cmake --install "$build" --prefix "$folder/installed" >/dev/null
mv "$folder/installed" "$folder/moved"

echo "installed files:"
(cd "$folder/moved" && find . -type f -o -type l | sort)
for header in "$SOURCE"/include/millrace/*.h; do
    cmp "$header" "$folder/moved/include/millrace/$(basename "$header")"
done
pc=$(find "$folder/moved" -name millrace.pc)
test -n "$pc" || fail "no millrace.pc"
test -x "$folder/moved/libexec/millrace/millrace-worker" ||
    fail "the worker helper is not in libexec/millrace"
doc=$folder/moved/share/doc/millrace
for document in README.md SECURITY.md docs/design.md docs/formats.md docs/gpu.md docs/install.md \
    docs/plug-in.md docs/recipes.md docs/training.md; do
    test -f "$doc/$document" || fail "$document is not installed"
done
(cd "$doc" && find . -name '*.md') >"$folder/documents"
n_links=0
while read -r document; do
    for link in $(grep -o '\](<*[^):#][^):]*)' "$doc/$document" | sed 's/^](//; s/[)#].*//'); do
        test -e "$(dirname "$doc/$document")/$link" ||
            fail "$document points to $link, which is not installed"
        n_links=$((n_links + 1))
    done
done <"$folder/documents"
test "$n_links" -ge 100 || fail "only $n_links links in the installed documents"
echo "ok: $n_links links of the installed documents lead somewhere"

# Debug information names the sources, except in Release; it is left out here.
mkdir "$folder/stripped"
find "$folder/moved/bin" "$folder/moved/lib"* -type f | while read -r file; do
    copy=$folder/stripped/$(basename "$file")
    objcopy --strip-debug "$file" "$copy" 2>/dev/null || cp "$file" "$copy"
done
test -f "$folder/stripped/libmillrace.a" || fail "no libmillrace.a"
if grep -alF -e "$SOURCE/" -e "$build/" "$folder"/stripped/*; then
    fail "these files name a folder of the build"
fi
echo "ok: no folder of the build is named"

if [ -f "$build/docs/man/man3.stamp" ]; then
    test -f "$folder/moved/share/man/man3/mr_loader_next.3" ||
        fail "no manual page of mr_loader_next()"
fi
command=$folder/moved/bin/millrace
if [ -x "$command" ]; then
    "$command" --version || fail "the installed command does not run"
fi

echo "== find_package"
cmake -S "$SOURCE/tests/install/consumer" -B "$folder/consumer" \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_PREFIX_PATH="$folder/moved" -DFIRST_BATCH="$SOURCE/examples/first_batch.c" \
    -DGROUP_ALONE="$SOURCE/tests/install/group_alone.c" >/dev/null
cmake --build "$folder/consumer" >"$folder/log" 2>&1 || {
    cat "$folder/log"
    fail "the consumer does not build"
}
for name in c_shared c_static c_full cxx_shared cxx_static cxx_full; do
    run_program "find_package_$name" "$folder/consumer/$name"
done
if readelf -d "$folder/consumer/c_static" "$folder/consumer/group_dist_static" |
    grep libmillrace; then
    fail "a program with the static libraries needs a shared one"
fi
if readelf -d "$folder/consumer/c_shared" | grep libmillrace-dist; then
    fail "a program that only loads data needs libmillrace-dist"
fi
run_group find_package_dist "$folder/consumer/group_dist"
run_group find_package_dist_static "$folder/consumer/group_dist_static"
run_group find_package_dist_full "$folder/consumer/group_full"
if readelf -d "$folder/consumer/c_static" | grep -e liblzma -e libLerc -e libstdc++; then
    fail "a program with the static library loads what only an archive of libtiff needs"
fi
for name in c_full cxx_full group_full; do is_static "$folder/consumer/$name"; done

echo "== components"
find_millrace REQUIRED || fail "find_package without components: $(cat "$folder/log")"
find_millrace REQUIRED COMPONENTS dist || fail "find_package with dist: $(cat "$folder/log")"
if find_millrace REQUIRED COMPONENTS engine; then
    fail "find_package accepts a component that does not exist"
fi
expect_words "there is no component 'engine', only shared, static and dist"
find_millrace REQUIRED OPTIONAL_COMPONENTS engine ||
    fail "an unknown optional component: $(cat "$folder/log")"
expect_words "there is no component 'engine', only shared, static and dist"
PKG_CONFIG_LIBDIR=$folder/nothing
export PKG_CONFIG_LIBDIR
if find_millrace REQUIRED COMPONENTS static; then
    fail "find_package finds the static library without its dependencies"
fi
expect_words "millrace::millrace_static cannot be linked, not found: lib"
find_millrace REQUIRED COMPONENTS dist ||
    fail "dist without what static needs: $(cat "$folder/log")"
unset PKG_CONFIG_LIBDIR
echo "ok: components"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(dirname "$PKG_CONFIG_PATH")
# shellcheck disable=SC2046,SC2086 # lists of options
{
    code=$SOURCE/examples/first_batch.c
    shared="$(pkg-config --cflags --libs millrace) -Wl,-rpath,$libdir"
    static="-static $(pkg-config --static --cflags --libs millrace-static)"
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_c_shared" $shared
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_c_static" $static
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_c_full" \
        -static $(pkg-config --static --cflags --libs millrace)
    "$CXX" -x c++ -std=c++17 $strict "$code" -x none -o "$folder/pc_cxx_shared" $shared
    "$CXX" -x c++ -std=c++17 $strict "$code" -x none -o "$folder/pc_cxx_static" $static
    code=$SOURCE/tests/install/group_alone.c
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_dist" \
        $(pkg-config --cflags --libs millrace-dist) -Wl,-rpath,"$libdir"
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_dist_static" \
        -static $(pkg-config --static --cflags --libs millrace-dist-static)
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_dist_full" \
        -static $(pkg-config --static --cflags --libs millrace-dist)
    # The archive of millrace, and shared libraries of others.
    "$CC" -std=c17 $strict "$code" -o "$folder/pc_dist_archive" \
        $(pkg-config --cflags --libs millrace-dist-static)
}
run_group pc_dist "$folder/pc_dist"
run_group pc_dist_static "$folder/pc_dist_static"
run_group pc_dist_full "$folder/pc_dist_full"
run_group pc_dist_archive "$folder/pc_dist_archive"
if readelf -d "$folder/pc_dist_archive" | grep libmillrace; then
    fail "millrace-dist-static links a shared library of millrace"
fi
for name in pc_c_static pc_c_full pc_cxx_static pc_dist_static pc_dist_full; do
    is_static "$folder/$name"
done
for name in pc_c_shared pc_c_static pc_c_full pc_cxx_shared pc_cxx_static; do
    run_program "$name" "$folder/$name"
done

echo "== examples, copied"
cp -r "$doc/examples" "$folder/copied"
make -C "$folder/copied" CC="$CC" CFLAGS='-O1 -Wall -Wextra -Werror' >"$folder/log" 2>&1 ||
    { cat "$folder/log"; fail "make in a copy of the examples"; }
run_program copied_first_batch "$folder/copied/first_batch"
names='own_samples tokens plug_darknet plug_llmc train_tokens'
if pkg-config --exists openblas; then names="$names train_cifar10 train_imagefolder"; fi
for name in $names; do
    test -x "$folder/copied/$name" || fail "make in a copy of the examples has not made $name"
done
"$folder/copied/own_samples" >"$folder/log" || fail "own_samples ended with status $?"
echo "ok: first_batch $names"

echo "== pkg-config on a machine that has no other package"
for module in millrace millrace-dist; do
    for options in --cflags --libs '--static --libs'; do
        # shellcheck disable=SC2086 # a list of options
        PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH pkg-config $options $module >/dev/null ||
            fail "pkg-config $options $module"
    done
done
if PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH pkg-config --libs millrace-static 2>"$folder/log"; then
    fail "millrace-static needs no libjpeg"
fi
grep -q libjpeg "$folder/log" || fail "the missing package is not named: $(cat "$folder/log")"
echo "ok: millrace and millrace-dist need no other package"

echo "== uninstalled"
cmake --install "$build" --prefix "$folder/removed" >/dev/null
# The page's line, with this build's list. Another test that installs from the same build holds the
# same lock.
line=$(sed -n 's|^sudo \(xargs .*\)<build/release/install_manifest.txt.*|\1|p' \
    "$SOURCE/docs/install.md")
test -n "$line" || fail "docs/install.md does not say how to uninstall"
sh -c "$line" <"$build/install_manifest.txt" || fail "'$line' ended with status $?"
left=$(find "$folder/removed" ! -type d)
test -z "$left" || fail "left after uninstalling: $left"
test -d "$folder/removed/lib" || fail "nothing was installed that could be removed"
echo "ok: uninstalled"

echo "== moved away"
mkdir "$folder/elsewhere"
cp "$folder/pc_c_static" "$folder/elsewhere/program"
rm -rf "$folder/moved" "$folder/consumer"
run_program static_elsewhere "$folder/elsewhere/program"
