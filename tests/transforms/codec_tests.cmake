# SPDX-License-Identifier: Apache-2.0
# The codecs' tests.
add_library(mr_codec_support STATIC codec_support.c)
target_link_libraries(mr_codec_support PUBLIC mr_packer mr_transforms mr_base mr_test_images
    PkgConfig::CMOCKA)
foreach(name bmp jpeg png limits damage exif)
  mr_test(test_codec_${name} SOURCES test_codec_${name}.c LIBS mr_codec_support)
endforeach()
mr_test(test_codec_formats SOURCES test_codec_formats.c
    LIBS mr_codec_support mr_format_corpus mr_dep_zlib)
if(WEBP_FOUND)
  mr_test(test_codec_webp SOURCES test_codec_webp.c LIBS mr_codec_support mr_dep_libwebp)
endif()
if(LIBDEFLATE_FOUND)
  mr_test(test_mask_inflate SOURCES test_mask_inflate.c reference.c
      LIBS mr_transforms mr_base mr_test_images mr_dep_libpng mr_dep_zlib)
endif()
mr_test(test_box_rows SOURCES test_box_rows.c LIBS mr_transforms mr_base mr_test_allocations)
if(TIFF_FOUND)
  mr_test(test_codec_tiff SOURCES test_codec_tiff.c LIBS mr_codec_support)
endif()
mr_test(test_no_copies SOURCES test_no_copies.c LIBS mr_transforms mr_base mr_test_images)
# Encoded samples, and allocations counted.
target_link_libraries(test_plan_runner PRIVATE mr_test_images mr_test_allocations)
# Samples of packs.
mr_test(test_packed SOURCES test_packed.c LIBS mr_transforms mr_base)
mr_test(test_packed_selftest SOURCES test_packed_selftest.c LIBS mr_transforms mr_base)
target_link_options(test_packed_selftest PRIVATE -Wl,--wrap=mr_kernels_best)
mr_test(test_codec_packed SOURCES test_codec_packed.c guarded.c packed_sample.c
    LIBS mr_codec_support)
mr_test(test_plan_runner_packed SOURCES test_plan_runner_packed.c guarded.c packed_sample.c
    reference.c LIBS mr_packer mr_transforms mr_base mr_test_images mr_dep_zlib)
target_link_libraries(test_plan_runner_packed PRIVATE mr_test_allocations)
foreach(set c avx2)
  add_test(NAME test_plan_runner_packed.${set} COMMAND test_plan_runner_packed)
  set_tests_properties(test_plan_runner_packed.${set} PROPERTIES TIMEOUT 120 COST 120
      SKIP_RETURN_CODE 77 ENVIRONMENT "MR_CPU=${set}")
endforeach()
# Each allocation of making one sample's pixels fails in turn.
mr_test(test_plan_runner_no_memory SOURCES test_plan_runner_no_memory.c packed_sample.c reference.c
        LIBS mr_packer mr_transforms mr_base mr_test_images mr_dep_zlib)
target_link_libraries(test_plan_runner_no_memory PRIVATE mr_test_allocations)
# Each allocation of decoding any file fails too, also in the libraries.
mr_test(test_codec_no_memory SOURCES test_codec_no_memory.c
        LIBS mr_transforms mr_base mr_test_images mr_format_corpus)
target_link_libraries(test_codec_no_memory PRIVATE mr_test_allocations)
target_link_options(test_codec_no_memory PRIVATE -Wl,--wrap=mmap)
# The parts with which the packer takes JPEGs apart.
mr_test(test_jpeg_integer SOURCES test_jpeg_integer.c jpeg_integer.c LIBS mr_packer_support)
set_source_files_properties(jpeg_integer.c PROPERTIES
    COMPILE_OPTIONS -O3) # written to be vectorised
mr_test(test_codec_marked SOURCES test_codec_marked.c marked_box.c packed_sample.c scan_pair.c
        LIBS mr_transforms mr_base mr_test_images)
mr_test(test_marks_damage SOURCES test_marks_damage.c marked_box.c packed_sample.c scan_pair.c
        LIBS mr_transforms mr_base mr_test_images)
mr_test(test_codec_scan SOURCES test_codec_scan.c scan_pair.c
    LIBS mr_transforms mr_base mr_test_images)
# Packed JPEGs have libjpeg's pixels with any of its inverse DCTs.
foreach(simd NONE SSE2)
  string(TOLOWER ${simd} name)
  add_test(NAME test_codec_packed.${name} COMMAND test_codec_packed)
  set_tests_properties(test_codec_packed.${name} PROPERTIES TIMEOUT 120 COST 120 SKIP_RETURN_CODE 77
      ENVIRONMENT "JSIMD_FORCE${simd}=1")
  add_test(NAME test_codec_scan.${name} COMMAND test_codec_scan)
  set_tests_properties(test_codec_scan.${name} PROPERTIES TIMEOUT 120 COST 120 SKIP_RETURN_CODE 77
      ENVIRONMENT "JSIMD_FORCE${simd}=1")
  add_test(NAME test_codec_marked.${name} COMMAND test_codec_marked)
  set_tests_properties(test_codec_marked.${name} PROPERTIES TIMEOUT 120 COST 120 SKIP_RETURN_CODE 77
      ENVIRONMENT "JSIMD_FORCE${simd}=1")
endforeach()
