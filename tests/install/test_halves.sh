#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_halves.sh: configures millrace where other packages are half there: a runtime without
# headers, a header without its library, a .pc file that points nowhere, an old version. If millrace
# can do without the package, it leaves the optional part out and the summary names what is missing;
# otherwise the configuration fails. Once the packages are complete, the next configuration finds
# them. They are files made here; nothing of the machine is found except for the compilers.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
place=$folder/place

fail() {
    echo "FAILED: $*"
    exit 1
}

find_tool() { command -v "$1" || { echo "skipped: no $1" >&2; exit 77; }; }
ninja=$(find_tool ninja)
objcopy=$(find_tool objcopy)
pkg_config=$(find_tool pkg-config)
find_tool "$CXX" >/dev/null
unset NCCL_HOME MPI_HOME I_MPI_ROOT CUDA_PATH CMAKE_PREFIX_PATH CUDAHOSTCXX

# make_module NAME VERSION LIBRARY HEADER: a .pc file, the library and the header that it names.
make_module() {
    cat >"$place/lib/pkgconfig/$1.pc" <<END
includedir=$place/include
Name: $1
Description: of a test
Version: $2
Libs: -L$place/lib -l$3
Cflags: -I$place/include
END
    mkdir -p "$place/include/$(dirname "$4")"
    touch "$place/include/$4" "$place/lib/lib$3.so" "$place/lib/lib$3.a"
}

# Its mpicc works as Open MPI's does: it compiles, and prints its flags if asked by -showme. FindMPI
# also looks where the compiler does, so the library has a name that no machine has.
make_mpi() {
    mkdir "$place/mpi"
    cat >"$place/mpi/mpi.h" <<END
#define MPI_VERSION 3
#define MPI_SUBVERSION 1
int MPI_Init(int *, char ***);
int MPI_Finalize(void);
END
    printf '%s\n' 'int MPI_Init(int *n, char ***v) { (void)n; (void)v; return 0; }' \
        'int MPI_Finalize(void) { return 0; }' |
        "$CC" -x c -shared -fPIC - -o "$place/lib/libtestmpi.so"
    cat >"$place/bin/mpicc" <<END
#!/bin/sh
case \$1 in
-showme:compile) echo "-I$place/mpi" ;;
-showme:link) echo "-L$place/lib -ltestmpi" ;;
-show*) exit 1 ;;
*) exec "$CC" -I"$place/mpi" "\$@" -L"$place/lib" -ltestmpi ;;
esac
END
    chmod +x "$place/bin/mpicc"
}

# Its nvcc compiles nothing.
make_cuda() {
    cuda=$place/cuda
    mkdir -p "$cuda/bin" "$cuda/lib64" "$cuda/include"
    for library in libcudart.so libcudart_static.a libcublas.so libcuda.so; do
        touch "$cuda/lib64/$library"
    done
    echo "#define CUDART_VERSION $1" >"$cuda/include/cuda_runtime_api.h"
    touch "$cuda/include/cuda_runtime.h" "$cuda/include/cublas_v2.h"
    cat >"$cuda/bin/nvcc" <<END
#!/bin/sh
case \$* in
*__cmake_determine_cuda*) echo "#\$ TOP=$cuda" >&2 ;;
*--version*) echo "release $2, V$2.0" ;;
*--list-gpu-arch*) echo compute_90 ;;
esac
END
    chmod +x "$cuda/bin/nvcc"
}

make_place() {
    rm -rf "$place"
    mkdir -p "$place/bin" "$place/lib/pkgconfig" "$place/include/gloo"
    make_module libjpeg 2.1.5 jpeg jpeglib.h
    make_module libpng 1.6.39 png16 png.h
    make_module zlib 1.2.13 z zlib.h
    make_module liburing 2.3 uring liburing.h
    make_module libwebp 1.2.4 webp webp/decode.h
    make_module libwebpdemux 1.2.4 webpdemux webp/demux.h
    make_module libtiff-4 4.5.0 tiff tiffio.h
    make_module jansson 2.14 jansson jansson.h
    make_module gdlib 2.3.3 gd gd.h
    make_module openblas 0.3.21 openblas cblas.h
    touch "$place/include/xxhash.h" "$place/include/gloo/allreduce.h" \
        "$place/lib/libgloo.so" "$place/lib/libpng.a"
    printf '#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n' \
        >"$place/include/nccl.h"
    touch "$place/lib/libnccl.so" "$place/lib/librt.so"
    make_mpi
    make_cuda 13000 13.0
}

# configure [OPTIONS]: configures in a new folder, which has only what the first configuration found
# out about the compilers. What CMake prints is in $log.
configure() {
    log=$folder/log
    rm -rf "$folder/build"
    if [ -d "$folder/compilers" ]; then
        mkdir -p "$folder/build/CMakeFiles"
        cp -r "$folder/compilers"/* "$folder/build/CMakeFiles/"
    fi
    PKG_CONFIG_LIBDIR=$place/lib/pkgconfig cmake -S "$SOURCE" -B "$folder/build" -G Ninja \
        -DMILLRACE_BUILD_TESTS=OFF -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
        -DCMAKE_MAKE_PROGRAM="$ninja" -DMR_OBJCOPY="$objcopy" \
        -DPKG_CONFIG_EXECUTABLE="$pkg_config" -DMR_COMPILES_AVX512=ON -DCMAKE_HAVE_LIBC_PTHREAD=ON \
        -DCMAKE_PREFIX_PATH="$place" -DCUDAToolkit_ROOT="$place/cuda" -DMPI_HOME="$place" \
        -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF \
        "$@" >"$log" 2>&1
}

# has WORDS: the last configuration has printed them.
has() {
    grep -qF -- " $1" "$log" || fail "$case: not printed: $1: $(cat "$log")"
}

# ends CASE WORDS [OPTIONS]: the configuration fails, because something is missing that is needed or
# was asked for by name. WORDS say what.
ends() {
    case=$1
    words=$2
    shift 2
    if configure "$@"; then fail "$case: the configuration succeeds"; fi
    tr -s ' \n' ' ' <"$log" | grep -qF "$words" || fail "$case: not printed: $words: $(cat "$log")"
    echo "ok: $case"
}

# goes_on CASE [OPTIONS]: the configuration succeeds without a warning.
goes_on() {
    case=$1
    shift
    configure "$@" || fail "$case ends the configuration: $(cat "$log")"
    if grep -q '^CMake Warning' "$log"; then fail "$case: $(cat "$log")"; fi
    echo "ok: $case"
}

# has_everything: the last configuration leaves nothing out.
has_everything() {
    has 'WebP: libwebp 1.2.4'
    has 'TIFF: libtiff 4.5.0'
    has 'io_uring reader: liburing 2.3'
    has 'CUDA: toolkit 13.0.0, sm_90 and later'
    has 'gloo module: yes'
    has 'nccl module: NCCL 2.28.9'
    has 'mpi module: MPI 3.1'
    has 'millrace preview: yes'
    has 'millrace bench --json: yes'
    if grep -e '^-- train_' -e '^-- gpu_' "$log"; then fail "$case: examples are left out"; fi
}

# mend: the packages are made whole, and the next configuration of the same folder finds them.
mend() {
    make_place
    case="$case, mended"
    PKG_CONFIG_LIBDIR=$place/lib/pkgconfig cmake "$folder/build" >"$log" 2>&1 ||
        fail "$case: $(cat "$log")"
    has_everything
    echo "ok: $case"
}

make_place
goes_on everything
has_everything
mkdir "$folder/compilers"
cp -r "$folder/build/CMakeFiles"/[0-9]* "$folder/compilers/" # named after CMake's version

make_place
(cd "$place/include" &&
    rm liburing.h webp/demux.h tiffio.h jansson.h gd.h cblas.h gloo/allreduce.h nccl.h)
rm -r "$place/mpi" "$place/cuda/include/cublas_v2.h"
goes_on 'libraries without headers'
tiff=', such files are damaged samples (package libtiff-dev)'
has 'WebP: webp/demux.h of libwebpdemux 1.2.4 not found, such files are damaged samples (package libwebp-dev)'
has "TIFF: tiffio.h of libtiff-4 4.5.0 not found$tiff"
has 'io_uring reader: liburing.h of liburing 2.3 not found, only the pread reader is built'
has 'gloo module: it is left out (gloo/allreduce.h not found, package libgloo-dev)'
has 'nccl module: it is left out (nccl.h not found)'
has "mpi module: it is left out ($place/bin/mpicc cannot build an MPI program, package libopenmpi-dev)"
has 'millrace preview: gd.h of gdlib 2.3.3 not found, it is left out (package libgd-dev)'
has 'millrace bench --json: jansson.h of jansson 2.14 not found, it is left out (package libjansson-dev)'
has 'train_cifar10, train_imagefolder: not built, cblas.h of openblas 0.3.21 not found (package libopenblas-dev)'
mend

make_place
rm "$place"/lib/lib*.a
(cd "$place/lib" &&
    rm liburing.so libwebp.so libtiff.so libjansson.so libgd.so libgloo.so libnccl.so libtestmpi.so)
rm "$place/cuda/lib64/libcublas.so"
goes_on 'headers without libraries'
has 'WebP: libwebp of libwebp 1.2.4 not found, such files are damaged samples (package libwebp-dev)'
has "TIFF: libtiff of libtiff-4 4.5.0 not found$tiff"
has 'io_uring reader: liburing of liburing 2.3 not found, only the pread reader is built'
has 'gloo module: it is left out (libgloo.so not found, package libgloo-dev)'
has 'nccl module: it is left out (libnccl.so not found)'
has "mpi module: it is left out ($place/bin/mpicc cannot build an MPI program, package libopenmpi-dev)"
has 'millrace preview: libgd of gdlib 2.3.3 not found, it is left out (package libgd-dev)'
has 'millrace bench --json: libjansson of jansson 2.14 not found, it is left out (package libjansson-dev)'
has 'train_cifar10, train_imagefolder: for CPUs only, libcublas.so not found'
mend

make_place
for module in liburing libwebp libtiff-4 jansson gdlib openblas; do
    sed -i "s|$place|/nowhere|" "$place/lib/pkgconfig/$module.pc"
done
rm "$place/bin/mpicc" "$place/cuda/include/cublas_v2.h"
goes_on '.pc files that point nowhere, mpi.h without a wrapper'
nowhere='/nowhere/include of'
has "WebP: $nowhere libwebp.pc not found, such files are damaged samples (package libwebp-dev)"
has "TIFF: $nowhere libtiff-4.pc not found$tiff"
has "io_uring reader: $nowhere liburing.pc not found, only the pread reader is built"
has "millrace preview: $nowhere gdlib.pc not found, it is left out (package libgd-dev)"
has "millrace bench --json: $nowhere jansson.pc not found, it is left out (package libjansson-dev)"
has "train_cifar10, train_imagefolder: not built, $nowhere openblas.pc not found (package libopenblas-dev)"
mend

make_place
make_module liburing 2.1 uring liburing.h
make_module libtiff-4 4.3.0 tiff tiffio.h
printf '#define NCCL_MAJOR 2\n#define NCCL_MINOR 17\n#define NCCL_PATCH 1\n' \
    >"$place/include/nccl.h"
rm "$place/cuda/include/cublas_v2.h"
goes_on 'old versions'
has "TIFF: libtiff-4 4.3.0 found, 4.5 is needed$tiff"
has 'io_uring reader: liburing 2.1 found, 2.2 is needed, only the pread reader is built'
has 'nccl module: it is left out (NCCL 2.17.1 found, 2.18 is needed)'
has 'train_cifar10, train_imagefolder: for CPUs only, cublas_v2.h not found'
mend

make_place
make_cuda 11080 11.8
goes_on 'an old CUDA'
has 'CUDA: toolkit 11.8.0 found, 12.0 is needed, batches stay on the host'
has 'nccl module: it is left out (CUDA: toolkit 11.8.0 found, 12.0 is needed)'
ends 'an old CUDA that was asked for' \
    'MILLRACE_CUDA is ON: toolkit 11.8.0 found, 12.0 is needed' -DMILLRACE_CUDA=ON

make_place
rm "$place/cuda/include/cuda_runtime.h"
goes_on 'nvcc without its headers'
has "CUDA: cuda_runtime.h or libcudart.so of $place/cuda/bin/nvcc not found, batches stay on the host"
touch "$place/cuda/include/cuda_runtime.h"
echo 'echo "fatal error: no host compiler" >&2; exit 1' >>"$place/cuda/bin/nvcc"
goes_on 'nvcc that does not work'
has 'fatal error: no host compiler, batches stay on the host'
rm "$place/cuda/lib64/libcudart_static.a"
goes_on 'CUDA without its static runtime'
has 'CUDA: libcudart_static.a not found, batches stay on the host'
rm "$place/cuda/bin/nvcc"
goes_on 'CUDA without nvcc'
has 'CUDA: nvcc not found, batches stay on the host'

make_place
echo 'Libs.private: -lLerc' >>"$place/lib/pkgconfig/libtiff-4.pc"
rm "$place/lib/liburing.a"
goes_on 'static, and archives that are missing' -DMILLRACE_STATIC_DEPS=ON
has "TIFF: libLerc.a not found$tiff"
has 'io_uring reader: liburing.a not found, only the pread reader is built'
goes_on 'static, without TIFF' -DMILLRACE_STATIC_DEPS=ON -DMILLRACE_TIFF=OFF
has 'TIFF: MILLRACE_TIFF is OFF, such files are damaged samples'

make_place
rm "$place/include/jpeglib.h"
ends 'libjpeg without its header' \
    'libjpeg-turbo is needed: apt-get install libjpeg62-turbo-dev (jpeglib.h of libjpeg 2.1.5'
