# SPDX-License-Identifier: Apache-2.0
# Texts of transforms, fed with anything; as a plain test over its own corpus everywhere.
add_executable(fuzz_transform_corpus fuzz_transform.c fuzz_transform_corpus.c)
target_link_libraries(fuzz_transform_corpus PRIVATE mr_transforms)
add_test(NAME fuzz_transform_corpus COMMAND fuzz_transform_corpus)
set_tests_properties(fuzz_transform_corpus PROPERTIES TIMEOUT 60)
if(MILLRACE_HAVE_LIBFUZZER)
  set(transform_sources
      explain.c
      geometry.c
      plan_compile.c
      transform.c
      text/image_op_text.c
      text/text_parser.c
      text/transform_format.c
      text/transform_recipe.c
      text/transform_text.c)
  list(TRANSFORM transform_sources PREPEND ${PROJECT_SOURCE_DIR}/transforms/)
  add_executable(fuzz_transform fuzz_transform.c ${transform_sources})
  target_compile_options(fuzz_transform PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_transform PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_transform PRIVATE mr_transforms)
  add_test(NAME fuzz_transform COMMAND fuzz_transform -runs=20000 -seed=1 -max_len=200)
  set_tests_properties(fuzz_transform PROPERTIES TIMEOUT 120)
  add_test(NAME fuzz_transform_long COMMAND fuzz_transform -max_total_time=120 -max_len=400)
  set_tests_properties(fuzz_transform_long PROPERTIES LABELS long TIMEOUT 300)
endif()
