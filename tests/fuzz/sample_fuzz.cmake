# SPDX-License-Identifier: Apache-2.0
# Anything as a sample of a pack; by hand: fuzz_sample -max_len=20000 FOLDER.
set(sample_support ${PROJECT_SOURCE_DIR}/tests/transforms/packed_sample.c)
add_executable(fuzz_sample_corpus fuzz_sample.c fuzz_sample_corpus.c ${sample_support})
target_link_libraries(fuzz_sample_corpus PRIVATE mr_packer mr_transforms mr_base mr_test_images)
add_test(NAME fuzz_sample_corpus COMMAND fuzz_sample_corpus)
set_tests_properties(fuzz_sample_corpus PROPERTIES TIMEOUT 120)
if(MILLRACE_HAVE_LIBFUZZER)
  # What reads samples once more, with the coverage that guides libFuzzer.
  set(sample_sources codec_packed.c jpeg_box.c packed.c packed_header.c tile.c)
  list(TRANSFORM sample_sources PREPEND ${PROJECT_SOURCE_DIR}/transforms/)
  add_executable(fuzz_sample fuzz_sample.c ${sample_sources})
  target_compile_options(fuzz_sample PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_sample PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_sample PRIVATE mr_packer mr_transforms mr_base mr_dep_libjpeg)
  set(sample_seeds ${CMAKE_CURRENT_BINARY_DIR}/sample_seeds)
  file(MAKE_DIRECTORY ${sample_seeds})
  add_test(NAME fuzz_sample_seeds COMMAND fuzz_sample_corpus ${sample_seeds})
  set_tests_properties(fuzz_sample_seeds PROPERTIES FIXTURES_SETUP sample_seeds)
  add_test(NAME fuzz_sample COMMAND fuzz_sample -runs=10000 -seed=1 -max_len=20000 -timeout=20
                                    -seed_inputs=@${sample_seeds}/list)
  set_tests_properties(fuzz_sample PROPERTIES FIXTURES_REQUIRED sample_seeds TIMEOUT 120)
  add_test(NAME fuzz_sample_long COMMAND fuzz_sample -max_total_time=300 -max_len=20000 -timeout=20
                                         -seed_inputs=@${sample_seeds}/list)
  set_tests_properties(fuzz_sample_long PROPERTIES FIXTURES_REQUIRED sample_seeds LABELS long TIMEOUT 600)
endif()
