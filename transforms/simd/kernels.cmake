# SPDX-License-Identifier: Apache-2.0
# The sets of loops that this compiler and target can have; definitions name them for kernels.c.
#
# Invariant: only these files may be compiled with instructions that not every machine has.

include(CheckCSourceCompiles)
include(CheckIncludeFile)

set(mr_avx2_flags -mavx2 -mfma -mf16c -mbmi2)
set(mr_avx512_flags
    ${mr_avx2_flags}
    -mavx512f
    -mavx512bw
    -mavx512dq
    -mavx512vl
    -mavx512vbmi
    -mavx512vbmi2
    -mavx512vnni)

# mr_kernel_set(set flags...): add the files of a set, and define MR_WITH_<SET> for kernels.c.
function(mr_kernel_set set)
  set(parts axis idct image_loops image_map mix resample resample_vertical tensor_write tile warp)
  if(set STREQUAL avx2)
    list(APPEND parts scan xxh3) # the AVX-512 set uses these too
  endif()
  foreach(part IN LISTS parts)
    target_sources(mr_transforms PRIVATE simd/${part}_${set}.c)
    set_source_files_properties(simd/${part}_${set}.c PROPERTIES COMPILE_OPTIONS "-O3;${ARGN}")
  endforeach()
  string(TOUPPER ${set} word)
  set_property(SOURCE simd/kernels.c APPEND PROPERTY COMPILE_DEFINITIONS MR_WITH_${word}=1)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  list(JOIN mr_avx512_flags " " CMAKE_REQUIRED_FLAGS)
  check_c_source_compiles(
    "#include <immintrin.h>
     __m512i f(__m512i a) { return _mm512_dpbusd_epi32(a, a, _mm512_shrdv_epi32(a, a, a)); }
     int main(void) { return 0; }"
    MR_COMPILES_AVX512)
  unset(CMAKE_REQUIRED_FLAGS)
  mr_kernel_set(avx2 ${mr_avx2_flags})
  if(MR_COMPILES_AVX512)
    mr_kernel_set(avx512 ${mr_avx512_flags})
    target_sources(mr_transforms PRIVATE simd/tile_encode_avx512.c) # the other sets use tile.c's
    set_source_files_properties(simd/tile_encode_avx512.c
                                PROPERTIES COMPILE_OPTIONS "-O3;${mr_avx512_flags}")
  endif()
else()
  # SIMDe compiles the AVX2 loops to the machine's own vectors (NEON on arm64).
  check_include_file(simde/x86/f16c.h MR_HAVE_SIMDE) # the newest header that is used
  if(MR_HAVE_SIMDE)
    mr_kernel_set(avx2)
  endif()
endif()
