/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timm's policies: the same bytes for the same magnitudes, and the same frequencies of draws
 * (tests/data/make_timm.py).
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/file_plan.h"
#include "tests/transforms/kind_image.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/image_ops/image_timm.h"
#include "transforms/simd/kernels.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { MOST = 224 * 224 * 3, N_DRAWS = 50000, SIDE = 100, MAX_OUTCOMES = 1024 };

static json_t *load_file(void)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/timm.json", 0, &why);
    if (!root)
        fail_msg("%s", why.text);
    return root;
}

static double read_number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static uint32_t find_op(const char *name)
{
    uint32_t op = 0;
    while (mr_image_timm_names[op] && strcmp(mr_image_timm_names[op], name) != 0)
        op++;
    if (!mr_image_timm_names[op])
        fail_msg("there is no operation %s", name);
    return op;
}

/* Changes two buffers of MOST bytes, not the image's pixels. */
static uint32_t add_image(uint32_t crc, const struct mr_timm_choice *choice,
                          const struct mr_image *from, const struct mr_kernel_ops *kernels,
                          uint8_t *buffers)
{
    static const double mean[3] = {124, 116, 104};
    struct mr_image image = *from;
    size_t len = image.stride * image.height;
    struct mr_image_calls *calls = malloc(sizeof *calls);
    mr_error error;
    assert_non_null(calls);
    calls->n = 0;
    mr_image_timm_add(choice, image.width, image.height, mean, calls);
    assert_int_equal(calls->n, 1);
    image.pixels = buffers;
    memcpy(buffers, from->pixels, len);
    assert_ok(mr_image_call_run(calls->calls, calls->n, &image, buffers + MOST, kernels, &error),
              &error);
    free(calls);
    return (uint32_t)crc32(crc, image.pixels, (uInt)len);
}

static void operations_give_the_bytes_of_pillow(void **state)
{
    json_t *root = load_file(), *row, *kind;
    uint8_t *buffers = malloc(2 * (size_t)MOST);
    size_t i, k;
    assert_non_null(buffers);
    json_array_foreach(json_object_get(root, "kinds"), k, kind)
    {
        struct mr_image images[KIND_IMAGE_SIZES];
        for (size_t size = 0; size < KIND_IMAGE_SIZES; size++)
            images[size] = kind_image_make(json_string_value(kind), kind_image_sizes[size], 3);
        json_array_foreach(json_object_get(root, "levels"), i, row)
        {
            const char *name = json_string_value(json_object_get(row, "op"));
            const struct mr_timm_choice choice = {.op = find_op(name),
                                                  .magnitude = read_number(row, "magnitude"),
                                                  .negates =
                                                      json_is_true(json_object_get(row, "negates")),
                                                  .filter = read_number(row, "filter"),
                                                  .part = read_number(row, "part")};
            uint32_t crc = 0;
            for (size_t size = 0; size < KIND_IMAGE_SIZES; size++)
                crc = add_image(crc, &choice, &images[size], *state, buffers);
            if (crc !=
                (uint32_t)json_integer_value(json_array_get(json_object_get(row, "crc32"), k)))
                fail_msg("%s %g%s, filter %g, of the images \"%s\" differs", name, choice.magnitude,
                         choice.negates ? " negated" : "", choice.filter, json_string_value(kind));
        }
        assert_true(i > 300);
        for (size_t size = 0; size < KIND_IMAGE_SIZES; size++)
            free(images[size].pixels);
    }
    free(buffers);
    json_decref(root);
}

/*
 * The calls that a policy may draw, as text, and how often timm (wanted) and millrace (counts) drew
 * each. The last entry counts all other calls.
 */
struct outcomes {
    uint32_t n;
    const char *names[MAX_OUTCOMES];
    double wanted[MAX_OUTCOMES];
    uint32_t counts[MAX_OUTCOMES];
};

/* The place of the coefficient that is drawn in an affine map. */
static uint32_t find_coefficient(const struct mr_image_call *call)
{
    static const uint32_t places[] = {1, 2, 3, 5};
    for (uint32_t i = 0; i < 4; i++)
        if (call->args[places[i]] != 0.0)
            return places[i];
    return 0;
}

/* A call's name. Maps that share a name also get the coefficient's place. */
static void name_call(const struct mr_image_call *call, char name_out[64])
{
    const char *name = mr_image_call_ops[call->kind].name;
    if (call->kind == MR_CALL_PIL_AFFINE)
        snprintf(name_out, 64, "%s%u", name, find_coefficient(call));
    else
        snprintf(name_out, 64, "%s", name);
}

/* The width of the classes that values are counted in; 0: the call has no value. */
static double find_step(const struct mr_image_call *call)
{
    switch (call->kind) {
    case MR_CALL_AUTOCONTRAST:
    case MR_CALL_INVERT:
    case MR_CALL_EQUALIZE: return 0.0;
    case MR_CALL_ROTATE: return 5.0;
    case MR_CALL_POSTERIZE: return 1.0;
    case MR_CALL_SOLARIZE: return 32.0;
    case MR_CALL_SOLARIZE_ADD: return 16.0;
    case MR_CALL_PIL_AFFINE:
        return find_coefficient(call) % 2 && find_coefficient(call) != 5 ? 0.05 : 5.0;
    default: return 0.2;
    }
}

static void describe_first(const struct mr_image_calls *calls, char *text, size_t size)
{
    const struct mr_image_call *call = &calls->calls[0];
    bool warps = calls->n && (call->kind == MR_CALL_PIL_AFFINE || call->kind == MR_CALL_ROTATE);
    char name[64], filter[16] = "";
    if (calls->n == 0) {
        snprintf(text, size, "none");
        return;
    }
    name_call(call, name);
    double value = call->args[call->kind == MR_CALL_PIL_AFFINE ? find_coefficient(call) : 0],
           step = find_step(call);
    if (warps)
        snprintf(filter, sizeof filter, "%.0f", call->args[call->kind == MR_CALL_ROTATE ? 1 : 6]);
    snprintf(text, size, "%s:%.0f:%s", name, step > 0.0 ? floor(value / step) : 0.0, filter);
}

static void describe_all(const struct mr_image_calls *calls, char *text, size_t size)
{
    size_t used = 0;
    char name[64];
    *text = '\0';
    for (uint32_t i = 0; i < calls->n; i++) {
        name_call(&calls->calls[i], name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", name);
    }
}

static void draw_outcomes(const char *policy, const char *question, struct outcomes *outcomes)
{
    char text[120], answer[512];
    snprintf(text, sizeof text, "timm(\"%s\")", policy);
    struct mr_plan plan = file_plan(text);
    struct mr_geometry *g = malloc(sizeof *g);
    assert_non_null(g);
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        struct mr_rng rng;
        uint32_t k = 0;
        mr_rng_init(&rng, 3, 1, i);
        assert_int_equal(mr_geometry_make(&plan, SIDE, SIDE, &rng, g, NULL), MR_OK);
        (strcmp(question, "first") == 0 ? describe_first : describe_all)(&g->calls, answer,
                                                                         sizeof answer);
        while (k + 1 < outcomes->n && strcmp(outcomes->names[k], answer) != 0)
            k++;
        outcomes->counts[k]++;
    }
    free(g);
}

/* Two samples of one distribution: the 99.9th percentile of chi-square by Wilson and Hilferty. */
static void compare_outcomes(const char *policy, const char *question,
                             const struct outcomes *outcomes, double n)
{
    double square = 0.0, mine = sqrt(n / N_DRAWS), theirs = sqrt(N_DRAWS / n), degrees = -1.0;
    for (uint32_t i = 0; i < outcomes->n; i++) {
        double a = outcomes->counts[i], b = outcomes->wanted[i];
        if (a + b == 0.0)
            continue;
        square += (mine * a - theirs * b) * (mine * a - theirs * b) / (a + b);
        degrees += 1.0;
    }
    double part = 2.0 / (9.0 * degrees), most = degrees * pow(1.0 - part + 3.09 * sqrt(part), 3.0);
    print_message("%s, %s: chi-square %.1f of %.0f classes\n", policy, question, square,
                  degrees + 1.0);
    if (square > most)
        fail_msg("%s, %s: chi-square %.1f of %.0f classes is above %.1f", policy, question, square,
                 degrees + 1.0, most);
}

static void policies_draw_as_often_as_timm(void **state)
{
    (void)state;
    json_t *root = load_file(), *row, *count;
    struct outcomes *outcomes = malloc(sizeof *outcomes);
    const char *name;
    size_t i;
    assert_non_null(outcomes);
    json_array_foreach(json_object_get(root, "draws"), i, row)
    {
        const char *policy = json_string_value(json_object_get(row, "policy"));
        const char *question = json_string_value(json_object_get(row, "question"));
        double n = read_number(row, "n"), others = n;
        memset(outcomes, 0, sizeof *outcomes);
        json_object_foreach(json_object_get(row, "outcomes"), name, count)
        {
            assert_true(outcomes->n + 1 < MAX_OUTCOMES);
            outcomes->names[outcomes->n] = name;
            outcomes->wanted[outcomes->n++] = json_number_value(count);
            others -= json_number_value(count);
        }
        outcomes->wanted[outcomes->n++] = others;
        draw_outcomes(policy, question, outcomes);
        compare_outcomes(policy, question, outcomes, n);
    }
    assert_int_equal(i, 20);
    free(outcomes);
    json_decref(root);
}

static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(operations_give_the_bytes_of_pillow, (void *)(uintptr_t)kernels),
    };
    if (!kernels) {
        print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
        return 0;
    }
    return cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_draw_as_often_as_timm),
    };
    int n_failed = cmocka_run_group_tests_name("draws", tests, NULL, NULL);
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++)
        n_failed += test_set(cpu);
    return n_failed;
}
