# SPDX-License-Identifier: Apache-2.0
# JPEGs by our decoder of scans and by libjpeg; by hand: fuzz_scan -max_len=20000 FOLDER.
set(scan_pair ${PROJECT_SOURCE_DIR}/tests/transforms/scan_pair.c)
add_executable(fuzz_scan_corpus fuzz_scan.c fuzz_scan_corpus.c ${scan_pair})
target_link_libraries(fuzz_scan_corpus PRIVATE mr_transforms mr_base mr_test_images)
add_test(NAME fuzz_scan_corpus COMMAND fuzz_scan_corpus)
set_tests_properties(fuzz_scan_corpus PROPERTIES TIMEOUT 120)
if(MILLRACE_HAVE_LIBFUZZER)
  # The decoder once more, with the coverage that guides libFuzzer; loops in plain C.
  set(scan_parts codec_jpeg.c jpeg/jpeg_scan.c jpeg/scan_file.c jpeg/scan_table.c simd/scan_c.c)
  list(TRANSFORM scan_parts PREPEND ${PROJECT_SOURCE_DIR}/transforms/)
  add_executable(fuzz_scan fuzz_scan.c ${scan_pair} ${scan_parts})
  target_compile_options(fuzz_scan PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_scan PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_scan PRIVATE mr_transforms mr_base mr_dep_libjpeg)
  set(scan_seeds ${CMAKE_CURRENT_BINARY_DIR}/scan_seeds)
  file(MAKE_DIRECTORY ${scan_seeds})
  add_test(NAME fuzz_scan_seeds COMMAND fuzz_scan_corpus ${scan_seeds})
  set_tests_properties(fuzz_scan_seeds PROPERTIES FIXTURES_SETUP scan_seeds)
  add_test(NAME fuzz_scan COMMAND fuzz_scan -runs=10000 -seed=1 -max_len=20000 -timeout=20
                                  -seed_inputs=@${scan_seeds}/list)
  set_tests_properties(fuzz_scan PROPERTIES FIXTURES_REQUIRED scan_seeds TIMEOUT 120)
  add_test(NAME fuzz_scan_long COMMAND fuzz_scan -max_total_time=300 -max_len=20000 -timeout=20
                                       -seed_inputs=@${scan_seeds}/list)
  set_tests_properties(fuzz_scan_long PROPERTIES FIXTURES_REQUIRED scan_seeds LABELS long TIMEOUT 600)
endif()
