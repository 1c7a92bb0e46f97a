# SPDX-License-Identifier: Apache-2.0
# Ranks of a training run. With arguments (a program, its backend and options) on another engine.
mr_test(test_rank_kills SOURCES test_rank_kills.c rank_program.c rank_pictures.c LIBS mr_test_runs
    TIMEOUT 300)
if(TARGET train_cifar10 AND TARGET millrace AND TARGET mr_gloo_module)
  target_compile_definitions(test_rank_kills PRIVATE MR_TEST_TRAIN="$<TARGET_FILE:train_cifar10>"
                                                     MR_TEST_MILLRACE="$<TARGET_FILE:millrace>")
  add_dependencies(test_rank_kills train_cifar10 millrace mr_gloo_module)
endif()
mr_busy(test_rank_kills) # three ranks that train
# Ten times as many.
add_test(NAME test_rank_kills_long COMMAND test_rank_kills)
set_tests_properties(test_rank_kills_long PROPERTIES ENVIRONMENT MR_TEST_LONG=1 LABELS long
    TIMEOUT 1800 SKIP_RETURN_CODE 77)

# On the doubles of CUDA and NCCL.
if(TARGET double_train_cifar10 AND TARGET mr_nccl_double_module)
  add_dependencies(test_rank_kills double_train_cifar10 mr_nccl_double_module)
  set(command test_rank_kills $<TARGET_FILE:double_train_cifar10> nccl --device=cuda:local)
  set(environment MR_MODULE_PATH=$<TARGET_FILE_DIR:mr_nccl_double_module>)
  add_test(NAME test_rank_kills_nccl COMMAND ${command})
  set_tests_properties(test_rank_kills_nccl PROPERTIES ENVIRONMENT "${environment}" TIMEOUT 300
      SKIP_RETURN_CODE 77)
  mr_busy(test_rank_kills_nccl)
  add_test(NAME test_rank_kills_nccl_long COMMAND ${command})
  set_tests_properties(test_rank_kills_nccl_long PROPERTIES
      ENVIRONMENT "${environment};MR_TEST_LONG=1" LABELS long TIMEOUT 1800 SKIP_RETURN_CODE 77)
endif()
