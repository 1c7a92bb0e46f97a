# SPDX-License-Identifier: Apache-2.0
# The mpi module under mpirun. A program that runs as a rank is no test by itself: test_mpi starts it.
if(NOT TARGET mr_mpi_module)
  add_test(NAME test_mpi COMMAND sh -c "echo 'skipped: built without MPI: ${MR_MPI_MISSING}'; exit 77")
  set_tests_properties(test_mpi PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()

find_package(MPI QUIET COMPONENTS C) # its targets are those of the folder that asks
mr_mpi_module(mr_mpi_small_module MR_MPI_PART=97)

add_executable(mpi_rank mpi_rank.c mpi_oracle.c mpi_sums.c mpi_folder_store.c)
target_link_libraries(mpi_rank PRIVATE mr_base mr_flags MPI::MPI_C Threads::Threads ${CMAKE_DL_LIBS} m)

add_executable(mpi_group mpi_group.c mpi_folder_store.c contract_group.c contract_collectives.c contract_oracle.c)
target_link_libraries(mpi_group PRIVATE mr_dist mr_driver_double mr_base mr_flags Threads::Threads ${CMAKE_DL_LIBS} m)

# MPICH's kills all ranks when one leaves without MPI_Finalize, which is what some tests look at.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpirun_version ERROR_QUIET)
set(mpirun_option "")
if(mpirun_version MATCHES "HYDRA")
  set(mpirun_option "\"-disable-auto-cleanup\",")
endif()

mr_test(test_mpi SOURCES test_mpi.c LIBS mr_base TIMEOUT 300)
add_dependencies(test_mpi mpi_group mpi_rank mr_mpi_module mr_mpi_small_module)
target_compile_definitions(
  test_mpi
  PRIVATE MR_TEST_MPIRUN="${MPIEXEC_EXECUTABLE}" MR_TEST_MPIRUN_OPTION=${mpirun_option} MR_TEST_MPI_RANK="$<TARGET_FILE:mpi_rank>"
          MR_TEST_MPI_GROUP="$<TARGET_FILE:mpi_group>" MR_TEST_MPI_FOLDER="$<TARGET_FILE_DIR:mr_mpi_module>"
          MR_TEST_MPI_MODULE="$<TARGET_FILE:mr_mpi_module>"
          MR_TEST_MPI_SMALL_MODULE="$<TARGET_FILE:mr_mpi_small_module>")
# MPI keeps what it has allocated until the process ends, and is not compiled for sanitizers.
set_tests_properties(
  test_mpi PROPERTIES RUN_SERIAL ON
                      ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0;TSAN_OPTIONS=ignore_noninstrumented_modules=1")
