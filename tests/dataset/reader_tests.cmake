# SPDX-License-Identifier: Apache-2.0
mr_test(test_file_cache SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_file_cache.c
    LIBS mr_test_folder mr_dataset)
