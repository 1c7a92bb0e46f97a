# SPDX-License-Identifier: Apache-2.0
# The compiler options of all targets, and the functions that make rooms and tests.

include(Paths)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # GNU/Linux interfaces: memfd, pidfd, clone
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# assert() stays on in every build type, because it guards invariants of memory that processes
# share.
foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${type} "${CMAKE_C_FLAGS_${type}}")
endforeach()

add_library(mr_flags INTERFACE)
target_include_directories(mr_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(mr_flags INTERFACE _GNU_SOURCE)
target_compile_options(
  mr_flags
  INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wall
            -Wextra
            -Wshadow
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wpointer-arith
            -Wcast-align
            -Wvla
            -Wno-missing-field-initializers
            -ffp-contract=off
            # At -O3 gcc inlines parts of functions, and then does not see that a status other than
            # MR_OK was returned.
            $<$<AND:$<C_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>
            $<$<BOOL:${MILLRACE_WERROR}>:-Werror>>)
# Installed files must not contain paths of the builder's machine: not in the texts of asserts and,
# in Release, not in debug information. In other build types, debuggers use these paths to find the
# sources. If two prefixes match, gcc and clang use the last one.
foreach(folder ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_options(
      mr_flags
      INTERFACE
      $<$<COMPILE_LANGUAGE:C,CXX>:-f$<IF:$<CONFIG:Release,MinSizeRel>,file,macro>-prefix-map=${folder}/=>)
endforeach()
if(MILLRACE_SANITIZE)
  # With sanitizers, gcc does not see that a status other than MR_OK was returned.
  target_compile_options(
    mr_flags INTERFACE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
                       $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(mr_flags INTERFACE -fsanitize=${MILLRACE_SANITIZE})
endif()

# mr_room(name SOURCES a.c b.c LIBS x y): make the target mr_<name>, a static library of one room.
function(mr_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LIBS" ${ARGN})
  add_library(mr_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(mr_${name} PUBLIC mr_flags ${ROOM_LIBS})
endfunction()

# mr_tables(target [its LIBS]): link the host's object of device tables to a target. A program that
# uses the loader must link exactly one such object; it determines which devices exist.
function(mr_tables target)
  if("${ARGN}" MATCHES "mr_(loader|devices|test_rig|test_runs)")
    target_link_libraries(${target} PRIVATE mr_tables_host)
  endif()
endfunction()

# mr_only_labelled(program test): in a build for the tests of one label, build the program only if
# its test has the label or another target needs it. Labels are known only at the end of a folder's
# list, so the check is deferred.
function(mr_only_labelled program test)
  if(MILLRACE_TEST_LABEL)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL mr_build_if_labelled ${program} ${test})")
  endif()
endfunction()

function(mr_build_if_labelled program test)
  get_test_property(${test} LABELS labels)
  if(MILLRACE_TEST_LABEL IN_LIST labels)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL OFF)
  endif()
endfunction()

# mr_test(name SOURCES test_x.c LIBS mr_x [TIMEOUT s] [TABLES mr_tables_x]): make a cmocka program
# and its test; exit status 77 means "cannot run here". TABLES determines which devices exist;
# default: the host's. TIMEOUT is also the test's tier (tests/README.md) and its cost: tests that
# may take long begin first.
function(mr_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT;TABLES" "SOURCES;LIBS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  if(MILLRACE_SANITIZE) # sanitizers make some tests four times as slow
    math(EXPR TEST_TIMEOUT "3 * ${TEST_TIMEOUT}")
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} PkgConfig::CMOCKA m)
  if(TEST_TABLES)
    target_link_libraries(${name} PRIVATE ${TEST_TABLES})
  else()
    mr_tables(${name} ${TEST_LIBS})
  endif()
  target_compile_definitions(${name} PRIVATE MR_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} COST ${TEST_TIMEOUT}
                       SKIP_RETURN_CODE 77)
  mr_only_labelled(${name} ${name})
endfunction()

# mr_label(label tests...): add a label to each of these tests. "tsan": ThreadSanitizer runs it.
# "optimised": clang's Release build runs it too. "long": it takes minutes, and only script/test
# --long runs it.
function(mr_label label)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS ${label})
endfunction()

# mr_overlapped(tests...): add each test a second time, with finishing on a separate stream.
function(mr_overlapped)
  foreach(name ${ARGN})
    get_test_property(${name} TIMEOUT timeout)
    add_test(NAME ${name}.overlap COMMAND ${name})
    set_tests_properties(${name}.overlap PROPERTIES TIMEOUT ${timeout} COST ${timeout}
        ENVIRONMENT MR_FINISH_OVERLAP=1)
  endforeach()
endfunction()

# mr_busy(tests...): mark tests that keep a processor busy for seconds; most tests mostly wait. Six
# tests run at a time on two processors; a busy one counts as two.
function(mr_busy)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 2 COST 400)
endfunction()

# mr_contract(name LIBS ... DEVICES host host_split double double_split): add the same test on
# devices that have buffers. tests/support/devices.h has the options of its loaders. The double's
# devices are CUDA devices without a GPU.
function(mr_contract name)
  cmake_parse_arguments(CONTRACT "" "" "LIBS;DEVICES" ${ARGN})
  get_target_property(sources ${name} SOURCES)
  get_test_property(${name} TIMEOUT timeout)
  get_test_property(${name} LABELS labels)
  if(NOT labels)
    set(labels "")
  endif()
  set(names_host "host:0")
  set(names_host_split "host:0,host:1,host:2")
  set(names_double "cuda:0")
  set(names_double_split "cuda:0,cuda:1")
  foreach(device ${CONTRACT_DEVICES})
    set(program ${name})
    if(device MATCHES "^double")
      if(NOT TARGET mr_cuda_double)
        continue()
      endif()
      set(program ${name}_double)
      if(NOT TARGET ${program})
        add_executable(${program} ${sources})
        target_link_libraries(${program} PRIVATE ${CONTRACT_LIBS} PkgConfig::CMOCKA m mr_tables_cuda
            mr_cuda_double)
      endif()
    endif()
    add_test(NAME ${name}.${device} COMMAND ${program})
    set_tests_properties(
      ${name}.${device}
      PROPERTIES TIMEOUT ${timeout} COST ${timeout} SKIP_RETURN_CODE 77 LABELS "${labels}"
                 ENVIRONMENT
      "MR_TEST_DEVICE=${names_${device}};MR_CUDA_DOUBLE=devices=2,policy=random,seed=1")
    mr_only_labelled(${program} ${name}.${device})
  endforeach()
endfunction()
