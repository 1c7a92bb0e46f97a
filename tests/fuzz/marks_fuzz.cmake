# SPDX-License-Identifier: Apache-2.0
# JPEGs by their marks and by libjpeg, and marks that are altered; by hand: fuzz_marks -max_len=20000 FOLDER.
set(marks_support ${PROJECT_SOURCE_DIR}/tests/transforms/marked_box.c
                  ${PROJECT_SOURCE_DIR}/tests/transforms/packed_sample.c
                  ${PROJECT_SOURCE_DIR}/tests/transforms/scan_pair.c)
add_executable(fuzz_marks_corpus fuzz_marks.c fuzz_marks_corpus.c ${marks_support})
target_link_libraries(fuzz_marks_corpus PRIVATE mr_transforms mr_base mr_test_images)
add_test(NAME fuzz_marks_corpus COMMAND fuzz_marks_corpus)
set_tests_properties(fuzz_marks_corpus PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
if(MILLRACE_HAVE_LIBFUZZER)
  # The decoder once more, with the coverage that guides libFuzzer; loops in plain C.
  set(marks_parts
      codec_marked.c
      jpeg/jpeg_marks.c
      jpeg/jpeg_scan.c
      jpeg/mark_maker.c
      jpeg/marks_head.c
      jpeg/scan_file.c
      jpeg/scan_table.c
      simd/scan_c.c)
  list(TRANSFORM marks_parts PREPEND ${PROJECT_SOURCE_DIR}/transforms/)
  add_executable(fuzz_marks fuzz_marks.c ${marks_support} ${marks_parts})
  target_compile_options(fuzz_marks PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_marks PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_marks PRIVATE mr_transforms mr_base mr_test_images mr_dep_libjpeg)
  set(marks_seeds ${CMAKE_CURRENT_BINARY_DIR}/marks_seeds)
  file(MAKE_DIRECTORY ${marks_seeds})
  add_test(NAME fuzz_marks_seeds COMMAND fuzz_marks_corpus ${marks_seeds})
  set_tests_properties(fuzz_marks_seeds PROPERTIES FIXTURES_SETUP marks_seeds SKIP_RETURN_CODE 77)
  add_test(NAME fuzz_marks COMMAND fuzz_marks -runs=10000 -seed=1 -max_len=20000 -timeout=20
                                   -seed_inputs=@${marks_seeds}/list)
  set_tests_properties(fuzz_marks PROPERTIES FIXTURES_REQUIRED marks_seeds TIMEOUT 120)
  add_test(NAME fuzz_marks_long COMMAND fuzz_marks -max_total_time=300 -max_len=20000 -timeout=20
                                        -seed_inputs=@${marks_seeds}/list)
  set_tests_properties(fuzz_marks_long PROPERTIES FIXTURES_REQUIRED marks_seeds LABELS long TIMEOUT 600)
endif()
