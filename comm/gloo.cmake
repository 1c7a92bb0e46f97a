# SPDX-License-Identifier: Apache-2.0
# The gloo module, the only C++ of the project: where gloo or a C++ compiler is missing, MR_GLOO_MISSING says which and
# the rest is built without.
#
# Easy to get wrong: the C++ compiler has to be of the C compiler's family, or the sanitizers of the module and of the
# programs that open it do not fit together.

find_path(MR_GLOO_INCLUDE_DIR gloo/allreduce.h)
find_library(MR_GLOO_LIBRARY gloo)
mark_as_advanced(MR_GLOO_INCLUDE_DIR MR_GLOO_LIBRARY)

set(MR_GLOO_MISSING "")
if(NOT MR_GLOO_INCLUDE_DIR OR NOT MR_GLOO_LIBRARY)
  set(MR_GLOO_MISSING "package libgloo-dev")
else()
  if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND CMAKE_C_COMPILER_ID MATCHES "Clang")
    get_filename_component(mr_compilers ${CMAKE_C_COMPILER} DIRECTORY)
    get_filename_component(mr_compiler ${CMAKE_C_COMPILER} NAME)
    string(REPLACE "clang" "clang++" mr_compiler ${mr_compiler})
    if(EXISTS ${mr_compilers}/${mr_compiler})
      set(CMAKE_CXX_COMPILER ${mr_compilers}/${mr_compiler})
    endif()
  endif()
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
  else()
    set(MR_GLOO_MISSING "a C++ compiler")
  endif()
endif()
set(MR_GLOO_MISSING "${MR_GLOO_MISSING}" CACHE INTERNAL "What the gloo module lacks")
if(MR_GLOO_MISSING)
  return()
endif()

set(mr_gloo_sources gloo_context.cc gloo_engine.cc gloo_exchange.cc gloo_mesh.cc gloo_reduce.cc gloo_watch.cc)
add_library(mr_gloo_module MODULE ${mr_gloo_sources})
set_target_properties(
  mr_gloo_module
  PROPERTIES OUTPUT_NAME millrace-gloo
             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} # beside libmillrace.so
             CXX_STANDARD 17
             CXX_STANDARD_REQUIRED ON
             CXX_EXTENSIONS OFF
             CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON
             LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gloo.map)
target_include_directories(mr_gloo_module SYSTEM PRIVATE ${MR_GLOO_INCLUDE_DIR})
target_compile_options(mr_gloo_module PRIVATE -Wall -Wextra -Wshadow -Wpointer-arith -Wcast-align -ffp-contract=off
                                              $<$<BOOL:${MILLRACE_WERROR}>:-Werror>)
target_link_libraries(mr_gloo_module PRIVATE mr_flags ${MR_GLOO_LIBRARY} Threads::Threads)
target_link_options(mr_gloo_module PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/gloo.map)
# Loops may be turned into vectors; clang warns where it finds no gain in that.
set_source_files_properties(gloo_reduce.cc PROPERTIES COMPILE_OPTIONS "-O3;$<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>")

if(NOT MILLRACE_SANITIZE)
  target_link_options(mr_gloo_module PRIVATE -Wl,--no-undefined)
else()
  # gloo itself is not compiled for these checks, and programs in C bring no runtime for them. A property of the sources:
  # it has to come after mr_flags.
  set_property(SOURCE ${mr_gloo_sources} APPEND
               PROPERTY COMPILE_OPTIONS -fno-sanitize=vptr$<$<CXX_COMPILER_ID:Clang>:,function>)
  if(MILLRACE_SANITIZE MATCHES "address")
    # AddressSanitizer looks for C++'s exceptions once, at the start: a module's would come too late.
    target_link_options(mr_flags INTERFACE -Wl,--push-state,--no-as-needed,-lstdc++,--pop-state)
  endif()
endif()

if(MILLRACE_INSTALL)
  install(TARGETS mr_gloo_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
