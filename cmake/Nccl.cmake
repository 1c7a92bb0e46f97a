# SPDX-License-Identifier: Apache-2.0
# Decide whether the nccl module is built. Sets MR_NCCL, and either MR_NCCL_TEXT (the version of
# NCCL) or MR_NCCL_MISSING (why it is not built), in the cache. The target mr_nccl_api has the
# headers of NCCL and of the CUDA runtime: the installed ones, or those of the tests' doubles.
# NCCL's header includes a header of the toolkit, so without a toolkit the double's is used even if
# nccl.h exists.

set(MILLRACE_NCCL AUTO CACHE
    STRING "nccl module: AUTO (if NCCL is found and the GPU path is built), ON or OFF")
set_property(CACHE MILLRACE_NCCL PROPERTY STRINGS AUTO ON OFF)

find_path(MR_NCCL_INCLUDE_DIR nccl.h HINTS $ENV{NCCL_HOME}/include ${CUDAToolkit_INCLUDE_DIRS})
find_library(MR_NCCL_LIBRARY nccl HINTS $ENV{NCCL_HOME}/lib ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(MR_NCCL_INCLUDE_DIR MR_NCCL_LIBRARY)

# mr_nccl_version(<out>): the version in the header, as "2.28.9".
function(mr_nccl_version out)
  set(numbers "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${MR_NCCL_INCLUDE_DIR}/nccl.h line REGEX "^#define NCCL_${part} +[0-9]+"
         LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND numbers "${number}")
  endforeach()
  list(JOIN numbers "." numbers)
  set(${out} "${numbers}" PARENT_SCOPE)
endfunction()

set(mr_nccl_missing "")
set(mr_nccl_text "")
if(NOT MILLRACE_NCCL)
  set(mr_nccl_missing "not asked for")
elseif(NOT MR_CUDA)
  set(mr_nccl_missing "CUDA: ${MR_CUDA_MISSING}")
elseif(NOT MR_NCCL_INCLUDE_DIR)
  set(mr_nccl_missing "nccl.h not found")
elseif(NOT MR_NCCL_LIBRARY)
  set(mr_nccl_missing "libnccl.so not found")
else()
  mr_nccl_version(mr_nccl_text)
  if(mr_nccl_text VERSION_LESS 2.18)
    set(mr_nccl_missing "NCCL ${mr_nccl_text} found, 2.18 is needed")
  endif()
endif()
if(mr_nccl_missing AND NOT MILLRACE_NCCL STREQUAL "AUTO" AND MILLRACE_NCCL)
  message(FATAL_ERROR "MILLRACE_NCCL is ${MILLRACE_NCCL}: ${mr_nccl_missing}")
endif()
set(MR_NCCL ON)
if(mr_nccl_missing)
  set(MR_NCCL OFF)
endif()
set(MR_NCCL ${MR_NCCL} CACHE INTERNAL "Is the nccl module built?")
set(MR_NCCL_MISSING "${mr_nccl_missing}" CACHE INTERNAL "What the nccl module lacks")
set(MR_NCCL_TEXT "NCCL ${mr_nccl_text}" CACHE INTERNAL "The NCCL of the nccl module")

add_library(mr_nccl_api INTERFACE)
target_link_libraries(mr_nccl_api INTERFACE mr_cuda_api)
if(MR_NCCL)
  target_include_directories(mr_nccl_api SYSTEM INTERFACE ${MR_NCCL_INCLUDE_DIR})
else()
  target_include_directories(mr_nccl_api SYSTEM
      INTERFACE ${PROJECT_SOURCE_DIR}/tests/double/include)
endif()
