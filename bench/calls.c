/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-calls: measures the image operations alone, with the loops for each kind of CPU,
 * on photographs of 224 x 224 pixels in memory. METHOD.md defines the columns.
 */
#include "bench/arguments.h"
#include "bench/engine.h"
#include "bench/photos.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/plan_compile.h"
#include "transforms/simd/kernels.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, IMAGE_BYTES = 3 * SIDE * SIDE, MAX_IMAGES = 64, N_RUNS = 512, N_TRIES = 5 };

/* What is measured; aim: the longest acceptable time in microseconds, 0: none. */
static const struct operation {
    const char *text;
    double aim[MR_CPU_N];
} operations[] = {
    {.text = "invert(p=1)"},
    {.text = "posterize(4,p=1)"},
    {.text = "solarize(128,p=1)"},
    {.text = "autocontrast(p=1)"},
    {.text = "equalize(p=1)"},
    {.text = "color_jitter(brightness=0.9)"},
    {.text = "color_jitter(contrast=0.9)"},
    {.text = "color_jitter(saturation=0.9)"},
    {.text = "color_jitter(hue=0.5)"},
    {.text = "adjust_sharpness(1.5,p=1)"},
    {.text = "grayscale(3)"},
    {.text = "grayscale(1)"},
    {.text = "gaussian_blur(23,0.1:2)"},
    {.text = "pil_gaussian_blur(0.1:2)"},
    {.text = "color_jitter(0.8,0.8,0.8,0.2)"},
    {.text = "rotation(30)"},
    {.text = "rotation(30,interp=bilinear)"},
    {.text = "rotation(30,interp=bicubic)"},
    {.text = "affine(10,translate=0.1:0.1,scale=0.9:1.1,shear=10)"},
    {.text = "perspective(0.5,p=1)"},
    {.text = "perspective(0.5,p=1,interp=nearest)"},
    {.text = "rand_augment"},
    {.text = "auto_augment(imagenet)"},
    {.text = "trivial_augment_wide", .aim = {[MR_CPU_AVX2] = 30, [MR_CPU_AVX512] = 20}},
    {.text = "trivial_augment_wide(interp=bilinear)",
     .aim = {[MR_CPU_AVX2] = 60, [MR_CPU_AVX512] = 40}},
};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

struct bench {
    uint8_t *images; /* n of IMAGE_BYTES */
    uint64_t n;
    uint8_t *work[3]; /* an image, a second one for the calls, and plain C's result */
};

struct bench_case {
    const struct bench *bench;
    const struct mr_kernel_ops *kernels;
    const struct operation *operation;
    char name[64];
    char figure[64];
};

/* Make the images by train:224, interleaved. */
static mr_status make_images(const struct mr_photos *photos, struct bench *bench, mr_error *error)
{
    struct mr_plan plan = photos->plan;
    struct mr_plan_runner *runner;
    plan.layout = MR_NHWC;
    mr_status status = mr_plan_runner_create(&plan, &mr_photos_limits, false, &runner, error);
    if (status != MR_OK)
        return status;
    bench->n = photos->n < MAX_IMAGES ? photos->n : MAX_IMAGES;
    bench->images = malloc(bench->n * IMAGE_BYTES);
    for (int i = 0; i < 3; i++)
        bench->work[i] = malloc(IMAGE_BYTES);
    if (!bench->images || !bench->work[0] || !bench->work[1] || !bench->work[2])
        status = mr_error_memory(error, (bench->n + 3) * IMAGE_BYTES);
    for (uint64_t i = 0; i < bench->n && status == MR_OK; i++) {
        const struct mr_photo *photo = &photos->photo[i];
        struct mr_plan_runner_report report;
        struct mr_rng rng;
        mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
        status = mr_plan_runner_run(runner, photo->bytes, photo->len, true, &rng,
                                    bench->images + i * IMAGE_BYTES, &report, error);
    }
    mr_plan_runner_destroy(runner);
    return status;
}

static void free_images(struct bench *bench)
{
    free(bench->images);
    for (int i = 0; i < 3; i++)
        free(bench->work[i]);
}

/* Compile a transform that has only this operation, on pictures of 224 x 224 pixels. */
static mr_status compile_operation(const char *text, struct mr_plan *plan_out, mr_error *error)
{
    const struct mr_sample_kind kind = {.picture = 1,
                                        .dtype = MR_U8,
                                        .ndim = 3,
                                        .shape = {SIDE, SIDE, 3},
                                        .layout = MR_NHWC,
                                        .data_bytes = IMAGE_BYTES};
    mr_transform *transform;
    mr_status status = mr_transform_parse(text, &transform, error);
    if (status != MR_OK)
        return status;
    status = mr_plan_compile(transform, &kind, MR_U8, MR_NHWC, plan_out, error);
    mr_transform_destroy(transform);
    return status;
}

/* Run the calls on a copy of an image, which is then in the cache as after a resize. */
static mr_status run_calls(const struct bench *bench, const struct mr_kernel_ops *kernels,
                           const struct mr_image_calls *calls, uint64_t i,
                           struct mr_image *image_out, uint64_t *ns, mr_error *error)
{
    *image_out = (struct mr_image){.pixels = bench->work[0],
                                   .width = SIDE,
                                   .height = SIDE,
                                   .n_channels = 3,
                                   .stride = (size_t)3 * SIDE};
    memset(bench->work[1], 0, IMAGE_BYTES);
    memcpy(bench->work[0], bench->images + i % bench->n * IMAGE_BYTES, IMAGE_BYTES);
    uint64_t start = mr_clock_now_ns();
    mr_status status =
        mr_image_call_run(calls->calls, calls->n, image_out, bench->work[1], kernels, error);
    *ns += mr_clock_now_ns() - start;
    return status;
}

/* The shortest of several tries, because other programs can only make a try longer. */
static mr_status time_calls(const struct bench *bench, const struct mr_kernel_ops *kernels,
                            const struct mr_image_calls *calls, uint64_t i,
                            struct mr_image *image_out, uint64_t *ns, mr_error *error)
{
    uint64_t shortest = UINT64_MAX;
    mr_status status = MR_OK;
    for (int try = 0; try < N_TRIES && status == MR_OK; try++) {
        uint64_t one = 0;
        status = run_calls(bench, kernels, calls, i, image_out, &one, error);
        shortest = one < shortest ? one : shortest;
    }
    *ns += shortest;
    return status;
}

static bool equals_plain(const struct bench_case *c, const struct mr_image_calls *calls, uint64_t i,
                         const struct mr_image *image)
{
    struct mr_image plain;
    uint64_t ns = 0;
    size_t len = (size_t)image->width * image->height * image->n_channels;
    memcpy(c->bench->work[2], image->pixels, len);
    return run_calls(c->bench, &mr_kernels_c, calls, i, &plain, &ns, NULL) == MR_OK &&
           plain.n_channels == image->n_channels &&
           memcmp(plain.pixels, c->bench->work[2], len) == 0;
}

static mr_status run_images(const struct bench_case *c, const struct mr_plan *plan,
                            struct mr_geometry *geometry, struct mr_run *run, mr_error *error)
{
    uint64_t ns = 0;
    for (uint64_t i = 0; i < N_RUNS; i++) {
        struct mr_image image;
        struct mr_rng rng;
        mr_rng_init(&rng, 0, 0, i);
        mr_status status = mr_geometry_make(plan, SIDE, SIDE, &rng, geometry, error);
        if (status == MR_OK)
            status = time_calls(c->bench, c->kernels, &geometry->calls, i, &image, &ns, error);
        if (status != MR_OK)
            return status;
        run->n_wrong += run->check && !equals_plain(c, &geometry->calls, i, &image);
    }
    run->seconds = (double)ns / 1e9;
    run->n_items = N_RUNS;
    run->value = (double)ns / 1e3 / N_RUNS;
    return MR_OK;
}

static mr_status run_case(void *user, struct mr_run *run, mr_error *error)
{
    const struct bench_case *c = user;
    struct mr_plan *plan = malloc(sizeof *plan);
    struct mr_geometry *geometry = malloc(sizeof *geometry);
    mr_status status =
        plan && geometry ? MR_OK : mr_error_memory(error, sizeof *plan + sizeof *geometry);
    if (status == MR_OK)
        status = compile_operation(c->operation->text, plan, error);
    if (status == MR_OK)
        status = run_images(c, plan, geometry, run, error);
    free(geometry);
    free(plan);
    return status;
}

static uint32_t add_cases(struct mr_engine *engine, const struct bench *bench,
                          struct bench_case *cases)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_OPERATIONS; i++)
        for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++) {
            struct bench_case *c = &cases[n];
            *c = (struct bench_case){
                .bench = bench, .kernels = mr_kernels_find(cpu), .operation = &operations[i]};
            if (!c->kernels)
                continue;
            snprintf(c->name, sizeof c->name, "%s, %s", c->operation->text, mr_cpu_name(cpu));
            mr_engine_add(engine, c->name, run_case, c);
            n++;
        }
    return n;
}

static void bound_cases(struct mr_engine *engine, const struct bench_case *cases, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double aim = cases[i].operation->aim[cases[i].kernels->cpu];
        if (aim > 0)
            mr_engine_bound_value(engine, cases[i].name, cases[i].name, "us", MR_AIM_BELOW, aim);
    }
}

static mr_status run_bench(const struct mr_arguments *arguments, struct mr_engine *engine,
                           struct mr_photos *photos, mr_error *error)
{
    static struct bench_case cases[N_OPERATIONS * MR_CPU_N];
    struct bench bench = {0};
    mr_engine_fact(engine, "data", arguments->data);
    mr_status status = make_images(photos, &bench, error);
    mr_engine_fact_int(engine, "photographs", (int64_t)bench.n);
    if (status == MR_OK) {
        uint32_t n = add_cases(engine, &bench, cases);
        status = mr_engine_rounds(engine, arguments->n_repeats, error);
        if (status == MR_OK) {
            bound_cases(engine, cases, n);
            status = mr_engine_report(engine, arguments->json, error);
        }
    }
    free_images(&bench);
    return status;
}

int main(int argc, char **argv)
{
    struct mr_arguments arguments;
    mr_arguments_parse(argc, argv,
                       "What each image operation costs.\v"
                       "Example: millrace-bench-calls --data ~/imagenet/val --images 64",
                       &arguments);

    mr_error error;
    struct mr_photos photos = {0};
    struct mr_engine *engine = NULL;
    int code = 1;
    mr_status status = mr_photos_load(arguments.data, arguments.max_photos, &photos, &error);
    if (status == MR_OK)
        status = mr_engine_create("millrace-bench-calls", "image", &engine, &error);
    if (status == MR_OK)
        status = run_bench(&arguments, engine, &photos, &error);
    if (status == MR_OK)
        code = mr_engine_exit_code(engine, arguments.strict);
    else
        fprintf(stderr, "millrace-bench-calls: %s\n", error.text);
    mr_engine_destroy(engine);
    mr_photos_free(&photos);
    return code;
}
