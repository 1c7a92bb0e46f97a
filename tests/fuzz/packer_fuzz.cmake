# SPDX-License-Identifier: Apache-2.0
# Any bytes as a file for the packer; by hand: fuzz_packer -max_len=20000 FOLDER.
add_executable(fuzz_packer_corpus fuzz_packer.c fuzz_packer_corpus.c)
target_link_libraries(fuzz_packer_corpus PRIVATE mr_packer mr_transforms mr_base mr_test_images)
add_test(NAME fuzz_packer_corpus COMMAND fuzz_packer_corpus)
set_tests_properties(fuzz_packer_corpus PROPERTIES TIMEOUT 120)
if(MILLRACE_HAVE_LIBFUZZER)
  # What looks at the file once more, with the coverage that guides libFuzzer.
  set(packer_sources packer.c packer_jpeg.c packer_jpeg_write.c packer_tiles.c)
  list(TRANSFORM packer_sources PREPEND ${PROJECT_SOURCE_DIR}/packs/)
  add_executable(fuzz_packer fuzz_packer.c ${PROJECT_SOURCE_DIR}/transforms/jpeg_file.c ${packer_sources})
  target_compile_options(fuzz_packer PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_packer PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_packer PRIVATE mr_packer mr_transforms mr_base mr_dep_libjpeg)
  set(packer_seeds ${CMAKE_CURRENT_BINARY_DIR}/packer_seeds)
  file(MAKE_DIRECTORY ${packer_seeds})
  add_test(NAME fuzz_packer_seeds COMMAND fuzz_packer_corpus ${packer_seeds})
  set_tests_properties(fuzz_packer_seeds PROPERTIES FIXTURES_SETUP packer_seeds)
  add_test(NAME fuzz_packer COMMAND fuzz_packer -runs=5000 -seed=1 -max_len=20000 -timeout=20
                                    -seed_inputs=@${packer_seeds}/list)
  set_tests_properties(fuzz_packer PROPERTIES FIXTURES_REQUIRED packer_seeds TIMEOUT 120)
  add_test(NAME fuzz_packer_long COMMAND fuzz_packer -max_total_time=300 -max_len=20000 -timeout=20
                                         -seed_inputs=@${packer_seeds}/list)
  set_tests_properties(fuzz_packer_long PROPERTIES FIXTURES_REQUIRED packer_seeds LABELS long TIMEOUT 600)
endif()
