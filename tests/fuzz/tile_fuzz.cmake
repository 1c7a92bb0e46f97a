# SPDX-License-Identifier: Apache-2.0
# Any bytes as a tile, by all sets of loops; by hand: fuzz_tile -max_len=8000 FOLDER.
add_executable(fuzz_tile_corpus fuzz_tile.c fuzz_tile_corpus.c)
target_link_libraries(fuzz_tile_corpus PRIVATE mr_transforms mr_base)
add_test(NAME fuzz_tile_corpus COMMAND fuzz_tile_corpus)
set_tests_properties(fuzz_tile_corpus PROPERTIES TIMEOUT 60)
if(MILLRACE_HAVE_LIBFUZZER)
  # The plain expander once more, with the coverage that guides libFuzzer; the other sets are the library's.
  add_executable(fuzz_tile fuzz_tile.c ${PROJECT_SOURCE_DIR}/transforms/tile.c)
  target_compile_options(fuzz_tile PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_tile PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_tile PRIVATE mr_transforms mr_base)
  set(tile_seeds ${CMAKE_CURRENT_BINARY_DIR}/tile_seeds)
  file(MAKE_DIRECTORY ${tile_seeds})
  add_test(NAME fuzz_tile_seeds COMMAND fuzz_tile_corpus ${tile_seeds})
  set_tests_properties(fuzz_tile_seeds PROPERTIES FIXTURES_SETUP tile_seeds)
  add_test(NAME fuzz_tile COMMAND fuzz_tile -runs=20000 -seed=1 -max_len=8000 -timeout=20
                                  -seed_inputs=@${tile_seeds}/list)
  set_tests_properties(fuzz_tile PROPERTIES FIXTURES_REQUIRED tile_seeds TIMEOUT 60)
  add_test(NAME fuzz_tile_long COMMAND fuzz_tile -max_total_time=120 -max_len=8000 -timeout=20
                                       -seed_inputs=@${tile_seeds}/list)
  set_tests_properties(fuzz_tile_long PROPERTIES FIXTURES_REQUIRED tile_seeds LABELS long TIMEOUT 300)
endif()
