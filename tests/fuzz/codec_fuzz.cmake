# SPDX-License-Identifier: Apache-2.0
# fuzz_codec_corpus runs everywhere; where the compiler has libFuzzer, fuzz_codec runs too, briefly here and as long as
# one likes by hand: fuzz_codec -max_len=20000 FOLDER, where FOLDER holds seeds and receives what is new.
add_executable(fuzz_codec_corpus fuzz_codec.c fuzz_codec_corpus.c)
target_link_libraries(fuzz_codec_corpus PRIVATE mr_transforms mr_base mr_test_images mr_format_corpus)
add_test(NAME fuzz_codec_corpus COMMAND fuzz_codec_corpus)
set_tests_properties(fuzz_codec_corpus PROPERTIES TIMEOUT 120)

if(NOT MILLRACE_HAVE_LIBFUZZER)
  return()
endif()

# The codecs once more, with the coverage that guides libFuzzer.
set(codecs codec.c formats/box_rows.c formats/codec_bmp.c formats/codec_ppm.c codec_jpeg.c codec_limits.c codec_packed.c codec_png.c jpeg/jpeg_feed.c jpeg/jpeg_scan.c jpeg/scan_file.c jpeg_box.c jpeg_file.c packed.c)
if(WEBP_FOUND)
  list(APPEND codecs formats/codec_webp.c)
endif()
if(TIFF_FOUND)
  list(APPEND codecs formats/codec_tiff.c formats/tiff_check.c formats/tiff_file.c)
endif()
list(TRANSFORM codecs PREPEND ${PROJECT_SOURCE_DIR}/transforms/)
add_executable(fuzz_codec fuzz_codec.c ${codecs} ${PROJECT_SOURCE_DIR}/base/exif.c ${PROJECT_SOURCE_DIR}/base/ppm_header.c)
target_compile_options(fuzz_codec PRIVATE -fsanitize=fuzzer)
target_link_options(fuzz_codec PRIVATE -fsanitize=fuzzer)
target_link_libraries(fuzz_codec PRIVATE mr_transforms mr_base mr_dep_libjpeg mr_dep_libpng mr_dep_zlib)
set(seeds ${CMAKE_CURRENT_BINARY_DIR}/seeds)
file(MAKE_DIRECTORY ${seeds})
add_test(NAME fuzz_codec_seeds COMMAND fuzz_codec_corpus ${seeds})
set_tests_properties(fuzz_codec_seeds PROPERTIES FIXTURES_SETUP codec_seeds)
# Seeds by name and no folder: libFuzzer would write what it finds there, and the next run would be another one.
add_test(NAME fuzz_codec COMMAND fuzz_codec -runs=20000 -seed=1 -max_len=20000 -timeout=20 -seed_inputs=@${seeds}/list)
set_tests_properties(fuzz_codec PROPERTIES FIXTURES_REQUIRED codec_seeds TIMEOUT 120)
add_test(NAME fuzz_codec_long COMMAND fuzz_codec -max_total_time=300 -max_len=20000 -timeout=20
                                      -seed_inputs=@${seeds}/list)
set_tests_properties(fuzz_codec_long PROPERTIES FIXTURES_REQUIRED codec_seeds LABELS long TIMEOUT 600)
