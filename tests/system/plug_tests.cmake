# SPDX-License-Identifier: Apache-2.0
# The trainers of docs/plug-in.md: as programs, by their functions, and as quoted in the document.
foreach(trainer darknet llmc)
  if(NOT TARGET plug_${trainer})
    add_test(NAME test_plug_${trainer} COMMAND sh -c
        "echo 'skipped: built without the examples'; exit 77")
    set_tests_properties(test_plug_${trainer} PROPERTIES SKIP_RETURN_CODE 77)
    continue()
  endif()
  mr_test(test_plug_${trainer} SOURCES test_plug_${trainer}.c LIBS mr_dist mr_test_runs TIMEOUT 300)
  target_compile_definitions(test_plug_${trainer}
      PRIVATE MR_TEST_GLOO=$<TARGET_EXISTS:mr_gloo_module>
      MR_TEST_PLUG="$<TARGET_FILE:plug_${trainer}>")
  add_dependencies(test_plug_${trainer} plug_${trainer})
endforeach()

# mr_diff_test(trainer file): the file that examples/${trainer}.diff adds to the real trainer,
# compiled and used.
function(mr_diff_test trainer file)
  set(diff ${PROJECT_SOURCE_DIR}/examples/${trainer}.diff)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/diff_${trainer}.h)
  add_custom_command(
    OUTPUT ${out}
    COMMAND awk -v name=${file} -f ${CMAKE_CURRENT_SOURCE_DIR}/new_file.awk ${diff} >${out}
    DEPENDS ${diff} ${CMAKE_CURRENT_SOURCE_DIR}/new_file.awk)
  mr_test(test_diff_${trainer} SOURCES test_diff_${trainer}.c ${out} LIBS mr_loader mr_test_runs
      TIMEOUT 300)
  target_compile_definitions(test_diff_${trainer} PRIVATE MR_TEST_DIFF_FILE="${out}")
endfunction()
mr_diff_test(darknet examples/millrace_data.h)
mr_diff_test(llmc llmc/dataloader_millrace.h)

# What replaces the loader of darknet's detector, as C and, for hank-ai's darknet, as C++.
mr_test(test_darknet_detector SOURCES test_darknet_detector.c LIBS mr_loader mr_test_runs
        TIMEOUT 300)
find_program(MR_CXX NAMES $ENV{CXX} c++ g++ clang++)
if(MR_CXX)
  add_test(NAME darknet_detector_compiles_as_cpp
           COMMAND ${MR_CXX} -std=c++17 -Wall -Wextra -Werror -Wno-unused-function
                   -Wno-missing-field-initializers -fsyntax-only -I ${PROJECT_SOURCE_DIR}/include
                   -include ${CMAKE_CURRENT_SOURCE_DIR}/darknet_double.h
                   -x c++ ${PROJECT_SOURCE_DIR}/examples/darknet_detector.h)
  # for train_gpt2.cu
  add_test(NAME llmc_diff_compiles_as_cpp
           COMMAND ${MR_CXX} -std=c++17 -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only
                   -I ${PROJECT_SOURCE_DIR}/include -x c++ ${CMAKE_CURRENT_BINARY_DIR}/diff_llmc.h)
endif()
foreach(fork hank_ai alexeyab)
  add_test(NAME darknet_${fork}_diff_is_well_formed
           COMMAND awk -f ${CMAKE_CURRENT_SOURCE_DIR}/new_file.awk
                   ${PROJECT_SOURCE_DIR}/examples/darknet_${fork}.diff)
endforeach()

# The programs of docs/detection.md.
if(TARGET detection)
  mr_test(test_detection_examples SOURCES test_detection_examples.c LIBS mr_test_runs TIMEOUT 300)
  target_compile_definitions(test_detection_examples
      PRIVATE MR_TEST_DETECTION="$<TARGET_FILE:detection>"
              MR_TEST_SEGMENTATION="$<TARGET_FILE:segmentation>"
              MR_TEST_HAS_EXPAT=$<TARGET_EXISTS:mr_dep_expat>
              MR_TEST_HAS_YAJL=$<TARGET_EXISTS:mr_dep_yajl>)
  add_dependencies(test_detection_examples detection segmentation)
endif()

if(Python3_FOUND)
  add_test(NAME code_that_documents_quote_stands_in_the_examples
      COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/test_quotes.py ${PROJECT_SOURCE_DIR}
      ${PROJECT_SOURCE_DIR}/docs/plug-in.md ${PROJECT_SOURCE_DIR}/docs/training.md
      ${PROJECT_SOURCE_DIR}/docs/detection.md)
  set_tests_properties(code_that_documents_quote_stands_in_the_examples PROPERTIES TIMEOUT 120)
endif()
