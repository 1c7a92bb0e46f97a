/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one sample from bytes to its place in the slot: geometry, decoding, resampling, dtype and
 * layout, written once.
 */
#ifndef TRANSFORMS_PLAN_RUNNER_H
#define TRANSFORMS_PLAN_RUNNER_H

#include "base/box_list.h"
#include "base/packed_image.h"
#include "base/rng.h"
#include "transforms/codec.h"
#include "transforms/plan_report.h"

struct mr_plan_runner; /* a worker's codec, tables and rows; grows to the largest image */

/* plan must outlive the object; it may be in read-only shared memory. */
mr_status mr_plan_runner_create(const struct mr_plan *plan, const struct mr_codec_limits *limits,
                                bool with_timing, struct mr_plan_runner **runner_out,
                                mr_error *error);
void mr_plan_runner_destroy(struct mr_plan_runner *runner);

/*
 * Make several views of each sample: that of the plan of the creation and n further ones. All views
 * are made from one decode of what they need together, each bit for bit as if it were alone. The
 * plans agree on use_exif, and outlive the object.
 */
void mr_plan_runner_set_views(struct mr_plan_runner *runner, const struct mr_plan *plans,
                              uint32_t n);
/*
 * Where the next samples go if the plan's samples have views or crops; `out` is then not used, and
 * reports have no geometry. outs: one for each view, valid until they are set again.
 */
void mr_plan_runner_set_outs(struct mr_plan_runner *runner, const struct mr_view_out *outs);

/* Decode JPEGs with libjpeg alone (codec.h). */
void mr_plan_runner_use_stock_jpeg(struct mr_plan_runner *runner);

/*
 * bytes: an encoded image, or a raw sample of plan->kind. out: plan->out_bytes bytes, unspecified
 * on failure. MR_ERR_DAMAGED with the cause; the caller adds the file's name. MR_ERR_NO_MEMORY.
 */
mr_status mr_plan_runner_run(struct mr_plan_runner *runner, const uint8_t *bytes, size_t len,
                             bool encoded, struct mr_rng *rng, void *out,
                             struct mr_plan_runner_report *report_out, mr_error *error);

/*
 * The same for a sample of a pack, in two steps. mr_plan_runner_range() says which bytes of the
 * sample these draws need, as one range; mr_plan_runner_run_packed() makes the tensor after they
 * are read. Both take rng as it is at the start of the sample's draws, so the draws are made twice.
 * MR_ERR_DAMAGED also if the index is inconsistent.
 *
 * MR_PACKED_MARKED: the range is what a decode by marks needs. image must have its marks in the
 * second step (codec.h), but need not in the first. If marks cannot be used here, the range is the
 * whole file. If the second step returns MR_ERR_DAMAGED, the caller reads the whole file and calls
 * the second step again, without marks and with rng as it was before; that verdict counts.
 */
mr_status mr_plan_runner_range(struct mr_plan_runner *runner, const struct mr_packed_image *image,
                               const struct mr_rng *rng, uint64_t *offset_out, uint64_t *len_out,
                               mr_error *error);
/*
 * bytes: [offset, offset + len) of the sample, at least that range, followed by 64 readable bytes.
 */
mr_status mr_plan_runner_run_packed(struct mr_plan_runner *runner,
                                    const struct mr_packed_image *image, const uint8_t *bytes,
                                    size_t len, uint64_t offset, struct mr_rng *rng, void *out,
                                    struct mr_plan_runner_report *report_out, mr_error *error);

/*
 * Lend the mask of the sample that is run next, the bytes of its first further member
 * (masks/mask_run.h). The run moves it as it moves the picture. out: the elements of a mask of the
 * output's size; with views they go to their outs instead.
 */
void mr_plan_runner_set_mask(struct mr_plan_runner *runner, const uint8_t *bytes, size_t len,
                             void *out);

/*
 * Lend the boxes of the sample that is run next, as its annotation has them; only if the plan's
 * samples have boxes. The run moves them as it moves the picture (boxes/box_run.h).
 */
void mr_plan_runner_set_boxes(struct mr_plan_runner *runner, struct mr_box_list *boxes);

/* True if the error says that an image's output has another size than the first image's. */
bool mr_plan_runner_is_other_size(const mr_error *error);

#endif
