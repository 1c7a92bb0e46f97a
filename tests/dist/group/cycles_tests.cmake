# SPDX-License-Identifier: Apache-2.0
# Many groups one after the other, in separate processes. With one argument, a backend, over another
# engine.
add_executable(cycles_rank cycles_rank.c)
target_link_libraries(cycles_rank PRIVATE mr_dist mr_base mr_flags
    Threads::Threads ${CMAKE_DL_LIBS} m)

mr_test(test_cycles SOURCES test_cycles.c ../../fault/rank_program.c LIBS mr_test_runs TIMEOUT 300)
target_compile_definitions(test_cycles PRIVATE MR_TEST_CYCLES_RANK="$<TARGET_FILE:cycles_rank>")
add_dependencies(test_cycles cycles_rank)
if(TARGET mr_gloo_module)
  target_compile_definitions(test_cycles PRIVATE
      MR_TEST_GLOO_FOLDER="$<TARGET_FILE_DIR:mr_gloo_module>")
  add_dependencies(test_cycles mr_gloo_module)
endif()
if(TARGET mr_mpi_module)
  find_package(MPI QUIET COMPONENTS C) # for its mpirun
  target_compile_definitions(test_cycles PRIVATE MR_TEST_MPIRUN="${MPIEXEC_EXECUTABLE}"
      MR_TEST_MPI_FOLDER="$<TARGET_FILE_DIR:mr_mpi_module>")
  add_dependencies(test_cycles mr_mpi_module)
endif()
add_test(NAME test_cycles_long COMMAND test_cycles)
set_tests_properties(test_cycles_long PROPERTIES ENVIRONMENT MR_TEST_LONG=1 LABELS long TIMEOUT 1200
                                                 SKIP_RETURN_CODE 77)
