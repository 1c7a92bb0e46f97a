/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of the training examples. Its gradients are compared with differences of the loss.
 * Near a kink of ReLU or of the maximum a difference would span both sides, so steps are small,
 * which needs f64.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/convnet.h"

enum { ROWS = 6, N_PIXELS = CONVNET_CHANNELS * CONVNET_SIDE * CONVNET_SIDE, N_PROBES = 25 };

static const int64_t labels[ROWS] = {3, 0, 9, 9, 5, 1};

/* Pictures of noise: n rows from row first on. */
static mr_array make_pictures(int64_t first, int64_t n)
{
    static float pixels[ROWS * N_PIXELS];
    uint32_t state = 12345;

    for (int i = 0; i < ROWS * N_PIXELS; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    }
    return (mr_array){
        .dtype = MR_F32,
        .ndim = 4,
        .shape = {n, CONVNET_CHANNELS, CONVNET_SIDE, CONVNET_SIDE},
        .strides = {N_PIXELS * sizeof(float)},
        .data = pixels + first * N_PIXELS,
    };
}

static struct convnet *make_net(mr_dtype dtype)
{
    const struct convnet_plan plan = {
        .dtype = dtype, .n_classes = 10, .max_batch = ROWS, .end = CONVNET_LAYERS, .seed = 7};
    struct convnet *net = convnet_create(&plan);

    assert_non_null(net);
    return net;
}

static struct convnet_sums score_pictures(struct convnet *net, int64_t first, int64_t n,
                                          const uint8_t *mask)
{
    mr_array images = make_pictures(first, n);

    assert_true(convnet_take(net, &images));
    convnet_forward(net);
    assert_true(
        convnet_score(net, &(struct convnet_targets){.labels = labels + first, .mask = mask}));
    return *net->sums;
}

static void run_backward(struct convnet *net)
{
    for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--)
        convnet_backward(net, layer);
}

static void gradients_are_those_of_differences(void **state)
{
    struct convnet *net = make_net(MR_F64);
    double *weights = net->weights, *gradients = net->gradients, step = 1e-6, most = 0;

    (void)state;
    score_pictures(net, 0, ROWS, NULL);
    run_backward(net);
    for (int layer = 0; layer < CONVNET_LAYERS; layer++) {
        uint64_t count;
        size_t first = (size_t)((double *)convnet_bucket(net, layer, &count) - gradients);
        count -= layer == CONVNET_LAYERS - 1;
        for (size_t i = 0; i < N_PROBES; i++) {
            /* also the last bias */
            size_t at = first + (i < N_PROBES - 1 ? i * 7919 % count : count - 1);
            double weight = weights[at];
            weights[at] = weight + step;
            double above = score_pictures(net, 0, ROWS, NULL).loss;
            weights[at] = weight - step;
            double below = score_pictures(net, 0, ROWS, NULL).loss;
            weights[at] = weight;
            double wanted = (above - below) / (2 * step);
            if (fabs(wanted - gradients[at]) > 1e-5 * (1 + fabs(wanted)))
                fail_msg("layer %d, weight %zu: %.9g, by differences %.9g", layer, at - first,
                         gradients[at], wanted);
            most = fmax(most, fabs(wanted));
        }
    }
    assert_true(most > 0.01);
    convnet_destroy(net);
}

/* Loss and derivatives of a row with two labels are the weighted sums of both labels'. */
static void mixed_rows_have_the_losses_of_both_labels(void **state)
{
    static const float lambda[ROWS] = {0.25f, 1, 0, 0.5f, 0.7f, 0.125f};
    struct convnet *net = make_net(MR_F64);
    double *scores = net->scores, d[3][ROWS * 10], losses[3];
    int64_t mixed[ROWS];

    (void)state;
    for (int row = 0; row < ROWS; row++)
        mixed[row] = (labels[row] + row) % 10; /* row 0 has the same label twice */
    const struct convnet_targets targets[3] = {{.labels = labels, .mixed = mixed, .lambda = lambda},
                                               {.labels = labels},
                                               {.labels = mixed}};
    for (int k = 0; k < 3; k++) {
        score_pictures(net, 0, ROWS, NULL);
        convnet_forward(net);
        assert_true(convnet_score(net, &targets[k]));
        losses[k] = net->sums->loss;
        memcpy(d[k], scores, sizeof d[k]);
    }
    for (int i = 0; i < ROWS * 10; i++) {
        double weight = (double)lambda[i / 10], wanted = weight * d[1][i] + (1 - weight) * d[2][i];
        if (fabs(d[0][i] - wanted) > 1e-12)
            fail_msg("row %d, class %d: %.15g, not %.15g", i / 10, i % 10, d[0][i], wanted);
    }
    assert_true(losses[0] > 1 && fabs(losses[0] - losses[1]) > 1e-3);
    convnet_destroy(net);
}

static void both_dtypes_give_the_same_loss(void **state)
{
    struct convnet *narrow = make_net(MR_F32), *wide = make_net(MR_F64);
    double a = score_pictures(narrow, 0, ROWS, NULL).loss,
           b = score_pictures(wide, 0, ROWS, NULL).loss;

    (void)state;
    assert_true(fabs(a - b) < 1e-4 && a > 1);
    assert_int_equal(narrow->n_params, 113738);
    convnet_destroy(narrow);
    convnet_destroy(wide);
}

static void a_loss_has_the_same_bits_in_any_batch(void **state)
{
    struct convnet *net = make_net(MR_F32);

    (void)state;
    for (int row = 0; row < ROWS; row++) {
        uint8_t mask[ROWS] = {0};
        mask[row] = 1;
        double together = score_pictures(net, 0, ROWS, mask).loss,
               alone = score_pictures(net, row, 1, NULL).loss;
        assert_memory_equal(&together, &alone, sizeof together);
    }
    convnet_destroy(net);
}

static void rows_without_mask_add_nothing(void **state)
{
    const uint8_t mask[ROWS] = {1, 1, 1, 1, 0, 0};
    struct convnet *masked = make_net(MR_F64), *fewer = make_net(MR_F64);
    struct convnet_sums a = score_pictures(masked, 0, ROWS, mask),
                        b = score_pictures(fewer, 0, 4, NULL);

    (void)state;
    assert_true(a.loss == b.loss && a.correct == b.correct && a.count == 4 && b.count == 4);
    run_backward(masked);
    run_backward(fewer);
    for (size_t i = 0; i <= masked->n_params; i++)
        assert_true(fabs(((double *)masked->gradients)[i] - ((double *)fewer->gradients)[i]) <
                    1e-12);
    convnet_destroy(masked);
    convnet_destroy(fewer);
}

static void an_empty_batch_adds_zeros(void **state)
{
    struct convnet *net = make_net(MR_F32);

    (void)state;
    score_pictures(net, 0, ROWS, NULL);
    run_backward(net);
    struct convnet_sums sums = score_pictures(net, 0, 0, NULL);
    run_backward(net);
    assert_true(sums.loss == 0 && sums.count == 0);
    for (size_t i = 0; i <= net->n_params; i++)
        assert_true(((float *)net->gradients)[i] == 0);
    convnet_destroy(net);
}

/* A picture with every pixel repeated 3 x 3 times is reduced to the same picture. */
static void larger_pictures_are_averaged(void **state)
{
    struct convnet *net = make_net(MR_F32);
    mr_array small = make_pictures(0, 1), large = small;
    float *pixels = malloc(9 * N_PIXELS * sizeof *pixels);
    int side = 3 * CONVNET_SIDE;

    (void)state;
    assert_non_null(pixels);
    for (int i = 0; i < 9 * N_PIXELS; i++) {
        int y = i / side / 3, x = i % side / 3; /* y continues through the channels */
        pixels[i] = ((const float *)small.data)[y * CONVNET_SIDE + x];
    }
    large.shape[2] = large.shape[3] = side;
    large.data = pixels;
    double wanted = score_pictures(net, 0, 1, NULL).loss;
    assert_true(convnet_take(net, &large));
    convnet_forward(net);
    assert_true(convnet_score(net, &(struct convnet_targets){.labels = labels, .mask = NULL}));
    assert_true(fabs(net->sums->loss - wanted) < 1e-4);
    free(pixels);
    convnet_destroy(net);
}

static void wrong_images_and_labels_are_refused(void **state)
{
    const int64_t wrong[ROWS] = {0, 1, 10, 0, 0, 0};
    struct convnet *net = make_net(MR_F32);
    mr_array images = make_pictures(0, ROWS), larger = images, bytes = images;
    struct convnet_plan plan = net->plan;

    (void)state;
    larger.shape[2] = 33;
    bytes.dtype = MR_U8;
    assert_false(convnet_take(net, &larger));
    assert_false(convnet_take(net, &bytes));
    larger.shape[2] = 32;
    larger.shape[0] = ROWS + 1;
    assert_false(convnet_take(net, &larger));
    assert_true(convnet_take(net, &images));
    assert_false(convnet_score(net, &(struct convnet_targets){.labels = wrong, .mask = NULL}));
    plan.dtype = MR_F16;
    assert_null(convnet_create(&plan));
    plan = net->plan;
    plan.n_classes = 1;
    assert_null(convnet_create(&plan));
    plan = net->plan;
    plan.first = plan.end;
    assert_null(convnet_create(&plan));
    convnet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(mixed_rows_have_the_losses_of_both_labels),
        cmocka_unit_test(both_dtypes_give_the_same_loss),
        cmocka_unit_test(a_loss_has_the_same_bits_in_any_batch),
        cmocka_unit_test(rows_without_mask_add_nothing),
        cmocka_unit_test(an_empty_batch_adds_zeros),
        cmocka_unit_test(larger_pictures_are_averaged),
        cmocka_unit_test(wrong_images_and_labels_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
