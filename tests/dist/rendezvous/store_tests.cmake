# SPDX-License-Identifier: Apache-2.0
# The rendezvous store, over the loopback interface.
add_library(mr_test_store STATIC store_rig.c store_rig.h)
target_link_libraries(mr_test_store PUBLIC mr_dist)
foreach(name store_address store_ends store_greeting store_hostile store_keys store_search
    store_table store_wire)
  mr_test(test_${name} SOURCES test_${name}.c LIBS mr_test_store)
  set_tests_properties(test_${name} PROPERTIES LABELS tsan)
endforeach()

# Untrusted bytes, to the parsers and to a running server; everywhere also a plain test over its
# corpus.
add_executable(fuzz_store_corpus fuzz_store.c fuzz_store.h fuzz_store_corpus.c)
target_link_libraries(fuzz_store_corpus PRIVATE mr_test_store)
add_test(NAME fuzz_store_corpus COMMAND fuzz_store_corpus)
set_tests_properties(fuzz_store_corpus PROPERTIES TIMEOUT 120)
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_c_source_compiles(
  "#include <stddef.h>
   int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n) { return b == NULL && n == 1; }"
  MILLRACE_HAVE_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(MILLRACE_HAVE_LIBFUZZER)
  set(store_sources store_server.c store_address.c store_greeting.c store_connections.c
      store_table.c store_wire.c)
  list(TRANSFORM store_sources PREPEND ${PROJECT_SOURCE_DIR}/dist/rendezvous/)
  add_executable(fuzz_store fuzz_store.c ${store_sources})
  target_compile_options(fuzz_store PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_store PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_store PRIVATE mr_test_store)
  add_test(NAME fuzz_store COMMAND fuzz_store -runs=5000 -seed=1 -max_len=300)
  set_tests_properties(fuzz_store PROPERTIES TIMEOUT 120)
  add_test(NAME fuzz_store_long COMMAND fuzz_store -max_total_time=120 -max_len=2000)
  set_tests_properties(fuzz_store_long PROPERTIES LABELS long TIMEOUT 300)
endif()
