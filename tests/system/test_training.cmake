# SPDX-License-Identifier: Apache-2.0
# The training examples as programs, alone and as ranks over gloo, and its network by itself.
mr_test(test_training SOURCES test_training.c LIBS mr_comm mr_test_runs TIMEOUT 300)
target_compile_definitions(test_training PRIVATE MR_TEST_GLOO=$<TARGET_EXISTS:mr_gloo_module>)
if(TARGET train_cifar10)
  target_compile_definitions(test_training PRIVATE MR_TEST_TRAIN="$<TARGET_FILE:train_cifar10>"
                                                   MR_TEST_TRAIN_FOLDER="$<TARGET_FILE:train_imagefolder>")
  add_dependencies(test_training train_cifar10 train_imagefolder)
  mr_test(test_convnet SOURCES test_convnet.c ${PROJECT_SOURCE_DIR}/examples/convnet.c LIBS mr_base PkgConfig::OPENBLAS)
endif()
