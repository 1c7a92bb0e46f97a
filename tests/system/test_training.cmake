# SPDX-License-Identifier: Apache-2.0
# The training examples as programs, alone and as ranks over gloo, on several devices, and their
# network alone.
add_library(mr_training_rig STATIC training_rig.c)
target_link_libraries(mr_training_rig PUBLIC mr_dist mr_test_runs PkgConfig::CMOCKA)
target_compile_definitions(mr_training_rig PUBLIC MR_TEST_GLOO=$<TARGET_EXISTS:mr_gloo_module>)
mr_test(test_training SOURCES test_training.c LIBS mr_training_rig TIMEOUT 300
    TABLES mr_tables_host)
mr_test(test_training_modes SOURCES test_training_modes.c LIBS mr_training_rig TIMEOUT 300
    TABLES mr_tables_host)
mr_busy(test_training test_training_modes)
mr_test(test_checkpoint SOURCES test_checkpoint.c ${PROJECT_SOURCE_DIR}/examples/checkpoint.c
    LIBS mr_base mr_test_folder)
target_link_options(test_checkpoint PRIVATE -Wl,--wrap=fsync,--wrap=rename)
mr_test(test_train_tokens SOURCES test_train_tokens.c LIBS mr_training_rig mr_loader TIMEOUT 300)
if(TARGET train_tokens)
  target_compile_definitions(test_train_tokens
                             PRIVATE MR_TEST_TRAIN_TOKENS="$<TARGET_FILE:train_tokens>")
  add_dependencies(test_train_tokens train_tokens)
endif()
if(NOT TARGET train_cifar10)
  return()
endif()

target_compile_definitions(mr_training_rig PUBLIC MR_TEST_TRAIN="$<TARGET_FILE:train_cifar10>"
    MR_TEST_TRAIN_FOLDER="$<TARGET_FILE:train_imagefolder>")
add_dependencies(mr_training_rig train_cifar10 train_imagefolder)
add_test(NAME test_training_long COMMAND test_training)
set_tests_properties(test_training_long PROPERTIES ENVIRONMENT MR_TEST_LONG=1 LABELS long
    TIMEOUT 600 SKIP_RETURN_CODE 77)

set(mr_examples ${PROJECT_SOURCE_DIR}/examples)
mr_test(test_convnet SOURCES test_convnet.c ${mr_examples}/convnet.c ${mr_examples}/convnet_host.c
                             ${mr_examples}/convnet_no_gpu.c
        LIBS mr_devices PkgConfig::OPENBLAS)
mr_busy(test_convnet)
if(NOT TARGET mr_cuda_double)
  return()
endif()

# The GPU's arithmetic on the double: its kernels compiled as C, BLAS for cuBLAS.
set_property(SOURCE convnet_double.c PROPERTY OBJECT_DEPENDS ${mr_examples}/convnet_kernels.cu)
add_library(mr_convnet_double OBJECT convnet_double.c ${mr_examples}/convnet_cuda.c)
target_link_libraries(mr_convnet_double PUBLIC mr_cuda_double PkgConfig::OPENBLAS m)
mr_test(test_convnet_gpu SOURCES test_convnet_gpu.c ${mr_examples}/convnet.c
    ${mr_examples}/convnet_host.c LIBS mr_convnet_double mr_devices TABLES mr_tables_cuda)
mr_busy(test_convnet_gpu)
add_executable(double_train_cifar10 ${mr_examples}/train_cifar10.c)
target_link_libraries(double_train_cifar10 PRIVATE mr_trainer mr_convnet_double mr_loader mr_dist
    mr_tables_cuda)
target_compile_definitions(test_training_modes
    PRIVATE MR_TEST_DOUBLE_TRAIN="$<TARGET_FILE:double_train_cifar10>")
add_dependencies(test_training_modes double_train_cifar10)
if(TARGET mr_nccl_double_module)
  target_compile_definitions(test_training_modes
                             PRIVATE MR_TEST_NCCL_FOLDER="$<TARGET_FILE_DIR:mr_nccl_double_module>")
  add_dependencies(test_training_modes mr_nccl_double_module)
endif()
