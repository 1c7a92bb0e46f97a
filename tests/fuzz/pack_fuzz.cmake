# SPDX-License-Identifier: Apache-2.0
# Indexes of packs and parts of finished shards, fed with anything; as a plain test over its own corpus everywhere, and where the compiler
# has libFuzzer as long as one likes by hand: fuzz_pack -max_len=6000 FOLDER, where FOLDER holds seeds and receives what
# is new.
add_executable(fuzz_pack_corpus fuzz_pack.c fuzz_pack_corpus.c)
target_link_libraries(fuzz_pack_corpus PRIVATE mr_packs mr_dataset mr_test_invented)
add_test(NAME fuzz_pack_corpus COMMAND fuzz_pack_corpus)
set_tests_properties(fuzz_pack_corpus PROPERTIES TIMEOUT 120)
if(MILLRACE_HAVE_LIBFUZZER)
  set(reads inspect.c pack_index.c pack_open.c catalog.c catalog_pack.c catalog_region.c)
  list(TRANSFORM reads PREPEND ${PROJECT_SOURCE_DIR}/dataset/)
  set(writes pack_draft.c pack_index_save.c pack_part.c pack_resume.c pack_templates.c pack_writer.c)
  list(TRANSFORM writes PREPEND ${PROJECT_SOURCE_DIR}/packs/)
  add_executable(fuzz_pack fuzz_pack.c ${reads} ${writes})
  target_compile_options(fuzz_pack PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_pack PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_pack PRIVATE mr_test_invented mr_packs mr_dataset)
  set(pack_seeds ${CMAKE_CURRENT_BINARY_DIR}/pack_seeds)
  file(MAKE_DIRECTORY ${pack_seeds})
  add_test(NAME fuzz_pack_seeds COMMAND fuzz_pack_corpus ${pack_seeds})
  set_tests_properties(fuzz_pack_seeds PROPERTIES FIXTURES_SETUP pack_seeds)
  add_test(NAME fuzz_pack COMMAND fuzz_pack -runs=10000 -seed=1 -max_len=6000 -timeout=20
                                  -seed_inputs=@${pack_seeds}/list)
  set_tests_properties(fuzz_pack PROPERTIES FIXTURES_REQUIRED pack_seeds TIMEOUT 120)
  add_test(NAME fuzz_pack_long COMMAND fuzz_pack -max_total_time=300 -max_len=6000 -timeout=20
                                       -seed_inputs=@${pack_seeds}/list)
  set_tests_properties(fuzz_pack_long PROPERTIES FIXTURES_REQUIRED pack_seeds LABELS long TIMEOUT 600)
endif()
