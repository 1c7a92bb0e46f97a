/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotations, affine maps and perspectives: every set of loops gives the bytes of plain C and
 * touches nothing outside the images, whatever the sizes and arguments. test_image_calls.c compares
 * with Pillow.
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/guarded.h"
#include "tests/transforms/reference.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/image_ops/image_op_warp.h"
#include "transforms/interpolation.h"
#include "transforms/simd/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N_CALLS = 3000 };

static double draw_number(uint64_t *random, double lo, double hi)
{
    return lo + (hi - lo) * ((double)reference_below(random, 1 << 20) / (1 << 20));
}

static double draw_angle(uint64_t *random)
{
    double quarters = 45.0 * (double)reference_below(random, 9);
    return reference_below(random, 4) ? draw_number(random, -180, 180) : quarters;
}

static double draw_filter(uint64_t *random)
{
    static const double filters[3] = {MR_NEAREST, MR_BILINEAR, MR_BICUBIC};
    return filters[reference_below(random, 3)];
}

static void draw_fill(uint64_t *random, double *fill_out, double *center_out)
{
    bool is_middle = reference_below(random, 2);
    for (int c = 0; c < 3; c++)
        fill_out[c] = (double)reference_below(random, 256);
    for (int i = 0; i < 2 && center_out; i++)
        center_out[i] = is_middle ? NAN : draw_number(random, -20, 60);
}

static void draw_affine(uint64_t *random, double *args)
{
    bool is_shear = reference_below(random, 3) == 0, is_wild = reference_below(random, 10) == 0;
    args[0] = is_shear ? 0.0 : draw_angle(random);
    args[1] = is_shear ? 0.0 : draw_number(random, -9, 9);
    args[2] = (double)reference_below(random, 9);
    args[3] = is_shear  ? 1.0
              : is_wild ? draw_number(random, 0.001, 0.01)
                        : draw_number(random, 0.3, 3);
    args[4] = reference_below(random, 2) ? draw_number(random, -60, 60) : 0.0;
    args[5] = reference_below(random, 2) ? draw_number(random, -60, 60) : 0.0;
    args[6] = draw_filter(random);
    draw_fill(random, args + 7, args + 10);
}

static void draw_perspective(uint64_t *random, const struct mr_image *image, double *args)
{
    double corners[4][2];
    for (int i = 0; i < 4; i++) {
        double right = i == 1 || i == 2 ? image->width - 1.0 : 0.0,
               bottom = i >= 2 ? image->height - 1.0 : 0.0;
        corners[i][0] = right + (double)reference_below(random, 9) - 4;
        corners[i][1] = bottom + (double)reference_below(random, 9) - 4;
    }
    if (!mr_image_op_warp_solve(image->width, image->height, corners, args))
        for (int i = 0; i < 8; i++) /* with horizons */
            args[i] = draw_number(random, -2, 2);
    args[8] = draw_filter(random);
    draw_fill(random, args + 9, NULL);
}

/* As timm's: one coefficient is drawn; sometimes all are. */
static void draw_coefficients(uint64_t *random, double *args)
{
    bool is_any = reference_below(random, 4) == 0;
    args[0] = args[4] = 1.0;
    for (int i = 0; i < 6; i++)
        args[i] = is_any ? draw_number(random, -2, 2) : args[i];
    args[2 + 3 * reference_below(random, 2)] += draw_number(random, -30, 30);
    args[1 + 2 * reference_below(random, 2)] +=
        reference_below(random, 2) ? draw_number(random, -0.3, 0.3) : 0.0;
    args[6] = draw_filter(random);
    draw_fill(random, args + 7, NULL);
}

static struct mr_image_call draw_call(uint64_t *random, const struct mr_image *image)
{
    struct mr_image_call call = {.kind = MR_CALL_ROTATE + (uint32_t)reference_below(random, 4)};
    if (call.kind == MR_CALL_PIL_AFFINE) {
        draw_coefficients(random, call.args);
    } else if (call.kind == MR_CALL_AFFINE) {
        draw_affine(random, call.args);
    } else if (call.kind == MR_CALL_PERSPECTIVE) {
        draw_perspective(random, image, call.args);
    } else {
        call.args[0] = draw_angle(random);
        call.args[1] = draw_filter(random);
        draw_fill(random, call.args + 2, call.args + 5);
    }
    return call;
}

/* Mostly small images; some have more pixels in a row than a strip of the loops. */
static struct mr_image draw_image(uint64_t *random)
{
    struct mr_image image = {.n_channels = reference_below(random, 8) ? 3 : 1};
    uint32_t most = reference_below(random, 16) ? 40 : 600;
    image.width = 1 + (uint32_t)reference_below(random, most);
    image.height = 1 + (uint32_t)reference_below(random, 40);
    image.stride = (size_t)image.width * image.n_channels;
    return image;
}

static struct guarded run_call(const struct mr_image_call *call, struct mr_image image,
                               const struct guarded *from, bool at_end,
                               const struct mr_kernel_ops *kernels)
{
    struct guarded to = guarded_make(from->len, 1, at_end);
    mr_error error;
    image.pixels = from->at;
    assert_ok(mr_image_call_run(call, 1, &image, to.at, kernels, &error), &error);
    assert_ptr_equal(image.pixels, to.at);
    return to;
}

static void a_set_gives_the_bytes_of_plain_c(void **state)
{
    uint64_t random = reference_seed();
    for (int i = 0; i < N_CALLS; i++) {
        struct mr_image image = draw_image(&random);
        bool at_end = reference_below(&random, 4);
        struct guarded from = guarded_make(image.stride * image.height, 1, at_end);
        for (size_t k = 0; k < from.len; k++)
            from.at[k] = (uint8_t)reference_below(&random, 256);
        struct mr_image_call call = draw_call(&random, &image);
        struct guarded want = run_call(&call, image, &from, at_end, &mr_kernels_c);
        struct guarded got = run_call(&call, image, &from, at_end, *state);
        if (memcmp(want.at, got.at, want.len) != 0)
            fail_msg("%s of %u x %u x %u, %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g, differs",
                     mr_image_call_ops[call.kind].name, image.width, image.height, image.n_channels,
                     call.args[0], call.args[1], call.args[2], call.args[3], call.args[4],
                     call.args[5], call.args[6], call.args[7]);
        guarded_free(&from);
        guarded_free(&want);
        guarded_free(&got);
    }
}

int main(void)
{
    int n_failed = 0;
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_set_gives_the_bytes_of_plain_c, (void *)(uintptr_t)kernels),
        };
        if (kernels)
            n_failed += cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
        else
            print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
    }
    return n_failed;
}
