/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of one image. Each has a file, which adds its cases to the engine. */
#ifndef BENCH_STAGES_H
#define BENCH_STAGES_H

#include "bench/engine.h"
#include "bench/photos.h"

/* photos must outlive the engine's rounds. */
void mr_stage_read_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_decode_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_marks_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_resample_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_resample_ratios(struct mr_engine *engine);
void mr_stage_convert_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_whole_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_light_add(struct mr_engine *engine, struct mr_photos *photos);
void mr_stage_expand_add(struct mr_engine *engine, struct mr_photos *photos);

/*
 * Takes the rows of the box begun on a codec, one after the other, and puts them where the caller
 * wants them; NULL: nowhere.
 */
typedef void (*mr_stage_rows_fn)(void *user, const uint8_t *const *rows, uint32_t n_rows);
/* image: decode with its marks, from the bytes that the box needs. NULL: as a file. */
mr_status mr_stage_decode_box(struct mr_codec *codec, const struct mr_photo *photo,
                              const struct mr_packed_image *image, struct mr_box box,
                              mr_stage_rows_fn take, void *user, mr_error *error);
/*
 * True if the photograph decodes and, with compare, gives plain libjpeg's pixels, which are known
 * for the box of train:224.
 */
bool mr_stage_decode_right(struct mr_codec *codec, const struct mr_photo *photo,
                           const struct mr_packed_image *image, struct mr_box box, bool compare);

#endif
