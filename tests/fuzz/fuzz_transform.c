/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a transform. If it parses, it has a long form with the same meaning and an
 * explanation whose JSON has only numbers, and it makes a picture or says why not. The names come
 * from the tables, so a new operation is tried too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/fuzz/fuzz.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

enum { MAX_NAMES = 200, MAX_TEXT = 16384, MAX_SIDE = 24, MAX_PIXELS = 1 << 14 };

struct names {
    const char *names[MAX_NAMES];
    size_t n;
};

static void add_name(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->names[i], name) == 0)
            return;
    require(names->n < MAX_NAMES, "there are more names than places");
    names->names[names->n++] = name;
}

static void collect_names(struct names *names)
{
    for (uint32_t kind = MR_OP_RANDOM_RESIZED_CROP; kind <= MR_OP_CHAIN; kind++)
        add_name(names, mr_transform_op_name(&(struct mr_op){.kind = kind}));
    for (uint32_t i = 0; i < mr_image_op_count; i++) {
        const struct mr_image_param *params = mr_image_ops[i].params;
        add_name(names, mr_image_ops[i].name);
        for (uint32_t k = 0; k < MR_IMAGE_OP_MAX_PARAMS && params[k].name; k++) {
            add_name(names, params[k].name);
            for (uint32_t w = 0; params[k].words && params[k].words[w]; w++)
                add_name(names, params[k].words[w]);
        }
    }
    for (uint32_t i = 0; i < MR_N_INTERPOLATIONS; i++)
        add_name(names, mr_transform_interpolations[i]);
    for (uint32_t i = 0; i < MR_N_PADDING_MODES; i++)
        add_name(names, mr_transform_padding_modes[i]);
}

/* The text that the bytes select; it ends where a sanitizer sees it. */
static char *make_text(const uint8_t *bytes, size_t len)
{
    static struct names names;
    static char text[MAX_TEXT];
    size_t used = 0;
    if (names.n == 0)
        collect_names(&names);
    for (size_t i = 0; i < len && used + 64 < sizeof text; i++) {
        if (bytes[i] >= 128)
            used +=
                (size_t)snprintf(text + used, 64, "%s", names.names[(bytes[i] - 128u) % names.n]);
        else if (bytes[i] != 0)
            text[used++] = (char)bytes[i];
    }
    text[used] = '\0';
    char *copy = strdup(text);
    require(copy != NULL, "out of memory");
    return copy;
}

static void check_long_form(const mr_transform *transform)
{
    static char text[MAX_TEXT], again[MAX_TEXT];
    mr_transform *other;
    mr_error error;
    require(mr_transform_format(transform, text, sizeof text) < sizeof text,
            "the long form is too long");
    require(mr_transform_parse(text, &other, &error) == MR_OK, "the long form does not parse");
    mr_transform_format(other, again, sizeof again);
    require(strcmp(text, again) == 0, "the long form has another one");
    require(other->n_ops == transform->n_ops &&
                memcmp(other->ops, transform->ops, transform->n_ops * sizeof *transform->ops) == 0,
            "the long form means something else");
    mr_transform_destroy(other);
}

/* Sizes and draws of an input. */
struct sample {
    uint64_t seed;
    uint32_t width;
    uint32_t height;
    uint32_t n_channels;
};

static struct sample choose_sample(const uint8_t *bytes, size_t len)
{
    uint64_t seed = 14695981039346656037u;
    for (size_t i = 0; i < len; i++)
        seed = (seed ^ bytes[i]) * 1099511628211u;
    seed ^= seed >> 29;
    return (struct sample){.seed = seed,
                           .width = 1 + (uint32_t)(seed >> 8) % MAX_SIDE,
                           .height = 1 + (uint32_t)(seed >> 16) % MAX_SIDE,
                           .n_channels = (seed >> 24) % 4 ? 3 : 1};
}

static void explain_sample(const mr_transform *transform, const struct sample *sample)
{
    static char text[1 << 18];
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    mr_error error = {0};
    size_t len = 0;
    options.seed = sample->seed;
    options.epoch = 1;
    options.index = 2;
    options.width = sample->width;
    options.height = sample->height;
    options.raw_channels = sample->n_channels;
    mr_status status = mr_transform_explain(transform, &options, text, sizeof text, &len, &error);
    require(status == MR_OK || (error.text[0] != '\0'), "no reason against a sample");
    require(status != MR_OK || (len < sizeof text && len == strlen(text)),
            "the explanation's length is wrong");
    require(status != MR_OK || (!strstr(text, "nan") && !strstr(text, "inf")),
            "the explanation has no number");
}

static void run_plan(const struct mr_plan *plan, const struct sample *sample)
{
    const struct mr_codec_limits limits = {.max_pixels = MAX_PIXELS};
    uint8_t picture[3 * MAX_SIDE * MAX_SIDE];
    struct mr_plan_runner *runner = NULL;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    mr_error error = {0};
    for (size_t i = 0; i < sizeof picture; i++)
        picture[i] = (uint8_t)((i * i * 7919) >> (sample->seed % 8));
    uint8_t *out = malloc(plan->out_bytes);
    require(out && mr_plan_runner_create(plan, &limits, false, &runner, &error) == MR_OK,
            "out of memory");
    mr_rng_init(&rng, sample->seed, 1, 2);
    mr_status status = mr_plan_runner_run(runner, picture, plan->kind.data_bytes, false, &rng, out,
                                          &report, &error);
    require(status == MR_OK || (status == MR_ERR_DAMAGED && error.text[0] != '\0'),
            "no picture and no reason");
    mr_plan_runner_destroy(runner);
    free(out);
}

static void run_sample(const mr_transform *transform, const struct sample *sample)
{
    static struct mr_plan plan;
    struct mr_sample_kind kind = {.picture = 1,
                                  .dtype = MR_U8,
                                  .ndim = 3,
                                  .layout = MR_NHWC,
                                  .shape = {sample->height, sample->width, sample->n_channels},
                                  .data_bytes = (uint64_t)sample->width * sample->height *
                                                sample->n_channels};
    mr_error error = {0};
    mr_dtype dtype = sample->seed % 2 ? MR_U8 : MR_F32;
    mr_status status = mr_plan_compile(transform, &kind, dtype, MR_NCHW, &plan, &error);
    require(status == MR_OK || (status == MR_ERR_INVALID && error.text[0] != '\0'),
            "no plan and no reason");
    if (status == MR_OK && plan.out_bytes <= 4 * 3 * MAX_PIXELS)
        run_plan(&plan, sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    mr_transform *transform;
    mr_error error = {0};
    char *text = make_text(bytes, len);
    mr_status status = mr_transform_parse(text, &transform, &error);
    if (status == MR_OK) {
        const struct sample sample = choose_sample(bytes, len);
        check_long_form(transform);
        explain_sample(transform, &sample);
        run_sample(transform, &sample);
    } else {
        require(status == MR_ERR_INVALID && strncmp(error.text, "transform \"", 11) == 0,
                "no place is named");
    }
    mr_transform_destroy(transform);
    free(text);
    return 0;
}
