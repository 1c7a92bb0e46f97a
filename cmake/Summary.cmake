# SPDX-License-Identifier: Apache-2.0
# Print what was found and what was not.

# mr_summary_line(what found yes missing no): print `yes` if found, else what is missing and the
# consequence `no`.
function(mr_summary_line what found yes missing no)
  if(found)
    message(STATUS "  ${what}: ${yes}")
  else()
    message(STATUS "  ${what}: ${missing}, ${no}")
  endif()
endfunction()

set(mr_sanitize_text "none")
if(MILLRACE_SANITIZE)
  set(mr_sanitize_text ${MILLRACE_SANITIZE})
endif()
set(mr_link_text "shared")
if(MILLRACE_STATIC_DEPS)
  set(mr_link_text "static")
endif()

message(STATUS "millrace ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} "
        "${CMAKE_C_COMPILER_VERSION}")
message(STATUS "  sanitizers: ${mr_sanitize_text}; outside libraries linked: ${mr_link_text}")
message(STATUS "  libjpeg: ${LIBJPEG_VERSION}; libpng: ${LIBPNG_VERSION}")
# The sets of loops that are compiled (transforms/simd/kernels.c). On machines other than x86-64,
# SIMDe implements the AVX2 set.
get_property(
  mr_sets
  SOURCE ${PROJECT_SOURCE_DIR}/transforms/simd/kernels.c
  DIRECTORY ${PROJECT_SOURCE_DIR}/transforms
  PROPERTY COMPILE_DEFINITIONS)
set(mr_sets_text "c")
if("MR_WITH_AVX2=1" IN_LIST mr_sets)
  if(MR_HAVE_SIMDE)
    string(APPEND mr_sets_text " simde")
  else()
    string(APPEND mr_sets_text " avx2")
  endif()
else()
  string(APPEND mr_sets_text "; no vectors for this machine (package libsimde-dev)")
endif()
if("MR_WITH_AVX512=1" IN_LIST mr_sets)
  string(APPEND mr_sets_text " avx512")
elseif(DEFINED MR_COMPILES_AVX512)
  string(APPEND mr_sets_text "; this compiler lacks AVX-512 with VBMI2 and VNNI")
endif()
message(STATUS "  sets of loops: ${mr_sets_text}")
mr_summary_line("WebP" "${WEBP_FOUND}" "libwebp ${LIBWEBP_VERSION}" "${WEBP_MISSING}"
                "such files are damaged samples (package libwebp-dev)")
set(mr_tiff_package " (package libtiff-dev)")
if(NOT MILLRACE_TIFF)
  set(mr_tiff_package "")
endif()
mr_summary_line("TIFF" "${TIFF_FOUND}" "libtiff ${LIBTIFF-4_VERSION}" "${TIFF_MISSING}"
                "such files are damaged samples${mr_tiff_package}")
mr_summary_line("fast masks" "${LIBDEFLATE_FOUND}" "libdeflate ${LIBDEFLATE_VERSION}"
                "${LIBDEFLATE_MISSING}" "libpng reads them (package libdeflate-dev)")
mr_summary_line("boxes of VOC" "${EXPAT_FOUND}" "expat ${EXPAT_VERSION}" "${EXPAT_MISSING}"
                "annotations in XML are damage (package libexpat1-dev)")
mr_summary_line("boxes of COCO" "${YAJL_FOUND}" "yajl ${YAJL_VERSION}" "${YAJL_MISSING}"
                "coco: and MDS shards are refused (package libyajl-dev)")
mr_summary_line("io_uring reader" "${LIBURING_FOUND}" "liburing ${LIBURING_VERSION}"
                "${LIBURING_MISSING}" "only the pread reader is built")
mr_summary_line("URLs" "${LIBCURL_FOUND}" "libcurl ${LIBCURL_VERSION}, opened when it is needed"
                "${LIBCURL_MISSING}" "they are refused (package libcurl4-openssl-dev)")
if(MR_CUDA)
  message(STATUS "  CUDA: ${MR_CUDA_TEXT}")
else()
  message(STATUS "  CUDA: ${MR_CUDA_MISSING}, batches stay on the host")
endif()
if(TARGET mr_gloo_module)
  message(STATUS "  gloo module: yes")
else()
  message(STATUS "  gloo module: it is left out (${MR_GLOO_MISSING})")
endif()
if(TARGET mr_nccl_module)
  message(STATUS "  nccl module: ${MR_NCCL_TEXT}")
else()
  message(STATUS "  nccl module: it is left out (${MR_NCCL_MISSING})")
endif()
if(MR_MPI_MISSING)
  message(STATUS "  mpi module: it is left out (${MR_MPI_MISSING})")
else()
  message(STATUS "  mpi module: ${MR_MPI_TEXT}")
endif()
if(TARGET millrace-worker)
  if(MILLRACE_STATIC_WORKER)
    message(STATUS "  worker helper: static")
  else()
    message(STATUS "  worker helper: linked with shared libraries")
  endif()
endif()
if(MILLRACE_BUILD_TOOLS)
  mr_summary_line("millrace preview" "${GDLIB_FOUND}" "yes" "${GDLIB_MISSING}"
                  "it is left out (package libgd-dev)")
  mr_summary_line("millrace bench --json" "${JANSSON_FOUND}" "yes" "${JANSSON_MISSING}"
                  "it is left out (package libjansson-dev)")
endif()
mr_summary_line("manual pages of functions" "${AWK}" "yes" "awk not found"
                "they are left out (package mawk)")
mr_summary_line("millrace(1), libmillrace(3)" "${SCDOC}" "scdoc" "scdoc not found"
                "they are left out (package scdoc)")
if(MILLRACE_BUILD_TESTS)
  mr_summary_line("golden tests" "${JANSSON_FOUND}" "jansson ${JANSSON_VERSION}"
                  "${JANSSON_MISSING}" "they are left out (package libjansson-dev)")
  mr_summary_line("refusal tests" "${LIBSECCOMP_FOUND}" "libseccomp ${LIBSECCOMP_VERSION}"
                  "${LIBSECCOMP_MISSING}" "they are left out (package libseccomp-dev)")
  mr_summary_line("tar tests" "${LIBARCHIVE_FOUND}" "libarchive ${LIBARCHIVE_VERSION}"
                  "${LIBARCHIVE_MISSING}"
                  "those against libarchive are left out (package libarchive-dev)")
endif()
