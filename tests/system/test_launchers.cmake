# SPDX-License-Identifier: Apache-2.0
# The training example under launchers of all kinds.
mr_test(test_launchers SOURCES test_launchers.c ../fault/rank_program.c ../fault/rank_pictures.c
    LIBS mr_test_runs TIMEOUT 300)
if(TARGET train_cifar10 AND TARGET millrace AND TARGET mr_gloo_module)
  target_compile_definitions(test_launchers PRIVATE MR_TEST_TRAIN="$<TARGET_FILE:train_cifar10>"
                                                    MR_TEST_MILLRACE="$<TARGET_FILE:millrace>")
  add_dependencies(test_launchers train_cifar10 millrace mr_gloo_module)
  if(TARGET mr_mpi_module)
    find_package(MPI QUIET COMPONENTS C) # for its mpirun
    target_compile_definitions(test_launchers PRIVATE MR_TEST_MPIRUN="${MPIEXEC_EXECUTABLE}")
    add_dependencies(test_launchers mr_mpi_module)
  endif()
endif()
mr_busy(test_launchers)
