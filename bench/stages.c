/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-stages: measures what each stage of one image costs, in one run. METHOD.md defines
 * the columns.
 */
#include "bench/stages.h"

#include "bench/arguments.h"

#include <stdio.h>

static void add_all(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_stage_read_add(engine, photos);
    mr_stage_decode_add(engine, photos);
    mr_stage_marks_add(engine, photos);
    mr_stage_resample_add(engine, photos);
    mr_stage_convert_add(engine, photos);
    mr_stage_whole_add(engine, photos);
    mr_stage_light_add(engine, photos);
    mr_stage_expand_add(engine, photos);
}

static void add_ratios(struct mr_engine *engine)
{
    mr_stage_resample_ratios(engine);
    mr_engine_time_ratio(engine, "whole sample, bicubic / bilinear", "whole sample, bicubic",
                         "whole sample", MR_AIM_BELOW, 1.06);
    mr_engine_ratio(engine, "box decode / full decode", "decode, box", "decode, full", MR_AIM_NONE,
                    0);
    mr_engine_ratio(engine, "box decode / stock", "decode, box", "decode, box, stock",
                    MR_AIM_AT_LEAST, 1.4);
    mr_engine_ratio(engine, "box decode by marks / stock", "decode, box, marks",
                    "decode, box, stock", MR_AIM_AT_LEAST, 1.9);
    mr_engine_ratio(engine, "whole sample / box decode", "whole sample", "decode, box", MR_AIM_NONE,
                    0);
    mr_engine_ratio(engine, "whole sample / speed of light, 1", "whole sample",
                    "speed of light, 1 process", MR_AIM_NONE, 0);
    mr_engine_ratio(engine, "speed of light, 2 / 1", "speed of light, 2 processes",
                    "speed of light, 1 process", MR_AIM_NONE, 0);
}

static mr_status run_stages(const struct mr_arguments *arguments, struct mr_engine *engine,
                            struct mr_photos *photos, mr_error *error)
{
    mr_engine_fact(engine, "data", arguments->data);
    mr_engine_fact_int(engine, "photographs", (int64_t)photos->n);
    mr_engine_fact_int(engine, "left out", (int64_t)photos->n_left_out);
    mr_engine_fact_int(engine, "bytes", (int64_t)photos->total_bytes);
    add_all(engine, photos);
    mr_status status = mr_engine_rounds(engine, arguments->n_repeats, error);
    if (status != MR_OK)
        return status;
    add_ratios(engine);
    return mr_engine_report(engine, arguments->json, error);
}

int main(int argc, char **argv)
{
    struct mr_arguments arguments;
    mr_arguments_parse(
        argc, argv,
        "What each stage of one image costs.\v"
        "Example: millrace-bench-stages --data ~/imagenet/val --images 500 --json stages.json",
        &arguments);

    mr_error error;
    struct mr_photos photos = {0};
    struct mr_engine *engine = NULL;
    int code = 1;
    mr_status status = mr_photos_load(arguments.data, arguments.max_photos, &photos, &error);
    if (status == MR_OK)
        status = mr_engine_create("millrace-bench-stages", "image", &engine, &error);
    if (status == MR_OK)
        status = run_stages(&arguments, engine, &photos, &error);
    if (status == MR_OK)
        code = mr_engine_exit_code(engine, arguments.strict);
    else
        fprintf(stderr, "millrace-bench-stages: %s\n", error.text);
    mr_engine_destroy(engine);
    mr_photos_free(&photos);
    return code;
}
