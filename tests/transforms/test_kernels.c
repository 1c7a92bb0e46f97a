/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every loop of every set that this machine has gives the bits of plain C, over random sizes,
 * scales, channels and tails, and touches nothing outside its memory. A set that this machine lacks
 * is skipped by name.
 */
#include "base/checked.h"
#include "tests/transforms/guarded.h"
#include "tests/transforms/reference.h"
#include "transforms/simd/kernels.h"
#include "transforms/tensor_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One direction of a resize. */
struct side {
    enum mr_interpolation interpolation;
    int64_t in, out, lo, n;
    bool reversed;
};

static int64_t draw_between(uint64_t *random, int64_t low, int64_t high)
{
    return low + (int64_t)reference_below(random, (uint64_t)(high - low + 1));
}

static struct side pick_side(uint64_t *random, int64_t most_in, int64_t most_out)
{
    struct side s = {.in = draw_between(random, 1, most_in),
                     .out = draw_between(random, 1, most_out)};
    if (reference_below(random, 2))
        s.interpolation = (enum mr_interpolation)reference_below(random, MR_N_FILTERS);
    switch (reference_below(random, 8)) {
    case 0: s.out = s.in < most_out ? s.in : most_out; break;
    case 1: s.in = s.out * draw_between(random, 1, 9); break; /* exact steps */
    case 2: s.out = 224; break;
    default: break;
    }
    if (!mr_axis_is_usual(s.interpolation, s.in, s.out))
        s.out = s.in;
    s.n = draw_between(random, 1, s.out);
    s.lo = draw_between(random, 0, s.out - s.n);
    if (reference_below(random, 2)) {
        s.lo = 0;
        s.n = s.out;
    }
    s.reversed = reference_below(random, 2);
    return s;
}

static struct mr_axis build_axis(const struct side *s, mr_axis_fill *fill, bool uniform)
{
    struct mr_axis axis = {0};
    assert_int_equal(mr_axis_build(&axis, s->interpolation, s->in, s->out, s->lo, s->n, s->reversed,
                                   uniform, fill, NULL),
                     MR_OK);
    return axis;
}

static void same_axis(const struct side *s, const struct mr_axis *axis, const struct mr_axis *plain)
{
    if (axis->max_taps != plain->max_taps || axis->n != plain->n ||
        axis->pitch % MR_AXIS_LANES != 0)
        fail_msg("%lld to %lld: %u taps, plain C has %u", (long long)s->in, (long long)s->out,
                 axis->max_taps, plain->max_taps);
    for (uint32_t i = 0; i < axis->pitch; i++) {
        uint32_t p = i < plain->n ? i : plain->n - 1;
        bool same = axis->start[i] == plain->start[p] && axis->count[i] == plain->count[p];
        for (uint32_t k = 0; k < ((axis->max_taps + 3) & ~3u); k++) {
            int32_t want = k < plain->count[p] ? plain->weight[(size_t)k * plain->pitch + p] : 0;
            same &= axis->weight[(size_t)k * axis->pitch + i] == want;
        }
        if (!same)
            fail_msg("%lld to %lld, outputs from %lld, reversed %d: output %u differs",
                     (long long)s->in, (long long)s->out, (long long)s->lo, s->reversed, i);
    }
}

static void axes_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 1500; i++) {
        struct side side = i % 4 ? pick_side(&random, 900, 300) : pick_side(&random, 60000, 400);
        struct mr_axis axis = build_axis(&side, kernels->fill, false),
                       plain = build_axis(&side, NULL, false);
        same_axis(&side, &axis, &plain);
        mr_axis_fini(&axis);
        mr_axis_fini(&plain);
    }
}

/* ---- Both passes ---- */

struct picture {
    const struct side *x, *y;
    uint32_t channels;
    bool at_end;          /* of the guarded memory */
    struct guarded *rows; /* of the input */
    uint32_t n_rows;
    size_t row_bytes;
};

/* The first row and column that the outputs read. */
static void make_rows(struct picture *p, uint64_t *random)
{
    int64_t left, right, top, bottom;
    mr_axis_span(p->x->interpolation, p->x->in, p->x->out, p->x->lo, p->x->n, &left, &right);
    mr_axis_span(p->y->interpolation, p->y->in, p->y->out, p->y->lo, p->y->n, &top, &bottom);
    p->row_bytes = (size_t)(right - left) * p->channels;
    p->n_rows = (uint32_t)(bottom - top);
    p->rows = calloc(p->n_rows, sizeof *p->rows);
    uint64_t kind = reference_below(random, 3);
    for (uint32_t y = 0; y < p->n_rows; y++) {
        p->rows[y] = guarded_make(p->row_bytes, 1, p->at_end);
        for (size_t i = 0; i < p->row_bytes; i++) {
            uint64_t value = reference_random(random);
            p->rows[y].at[i] = (uint8_t)(kind == 0 ? value : kind == 1 ? 255 : value & 1 ? 255 : 0);
        }
    }
}

static void free_rows(struct picture *p)
{
    for (uint32_t y = 0; y < p->n_rows; y++)
        guarded_free(&p->rows[y]);
    free(p->rows);
}

/* Turn all input rows into strips, one after the other. */
static struct guarded run_horizontal(const struct mr_kernel_ops *kernels, const struct picture *p,
                                     struct mr_resample_horizontal *horizontal)
{
    struct guarded tables =
        guarded_make(kernels->horizontal_bytes(horizontal), MR_KERNELS_ALIGN, true);
    horizontal->tables = tables.at;
    kernels->horizontal_make(horizontal);
    size_t strip_bytes = horizontal->stride * kernels->strip_bytes;
    uint32_t n_strips = (p->n_rows + MR_STRIP_ROWS - 1) / MR_STRIP_ROWS;
    struct guarded strips = guarded_make(n_strips * strip_bytes, MR_KERNELS_ALIGN, true);
    bool short_rows = horizontal->row_bytes > p->row_bytes;
    struct guarded longer[MR_STRIP_ROWS];
    for (uint32_t i = 0; short_rows && i < MR_STRIP_ROWS; i++)
        longer[i] = guarded_make(horizontal->row_bytes, 1, p->at_end);
    for (uint32_t s = 0; s < n_strips; s++) {
        const uint8_t *rows[MR_STRIP_ROWS];
        for (uint32_t i = 0; i < MR_STRIP_ROWS; i++) {
            uint32_t y = s * MR_STRIP_ROWS + i;
            rows[i] = p->rows[y < p->n_rows ? y : p->n_rows - 1].at;
            if (!short_rows)
                continue;
            memcpy(longer[i].at, rows[i], p->row_bytes);
            rows[i] = longer[i].at;
        }
        kernels->horizontal(horizontal, rows, strips.at + s * strip_bytes);
    }
    for (uint32_t i = 0; short_rows && i < MR_STRIP_ROWS; i++)
        guarded_free(&longer[i]);
    guarded_free(&tables);
    return strips;
}

static void run_vertical(const struct mr_kernel_ops *kernels, const struct picture *p,
                         const struct mr_axis *y, size_t stride, uint32_t n, const uint8_t *strips,
                         uint8_t *out)
{
    struct mr_resample_vertical vertical = {.y = y, .stride = stride};
    struct guarded tables = guarded_make(kernels->vertical_bytes(y), MR_KERNELS_ALIGN, true);
    vertical.tables = tables.at;
    kernels->vertical_make(&vertical);
    const uint8_t *near[MR_AXIS_MAX_TAPS];
    struct guarded row = guarded_make(n, 1, p->at_end);
    for (uint32_t i = 0; i < y->n; i++) {
        uint32_t first = y->start[i] / MR_STRIP_ROWS;
        uint32_t last = (y->start[i] + y->count[i] - 1) / MR_STRIP_ROWS;
        for (uint32_t s = first; s <= last; s++)
            near[s - first] = strips + s * stride * kernels->strip_bytes;
        kernels->vertical(&vertical, i, near, n, row.at);
        memcpy(out + (size_t)i * n, row.at, n);
    }
    guarded_free(&row);
    guarded_free(&tables);
}

/* Make the whole output. way_out: which loop the horizontal pass used. */
static uint8_t *run_passes(const struct mr_kernel_ops *kernels, const struct picture *p,
                           uint32_t *way_out)
{
    struct mr_axis x = build_axis(p->x, kernels->fill, true),
                   y = build_axis(p->y, kernels->fill, false);
    uint32_t n = x.n * p->channels;
    struct mr_resample_horizontal horizontal = {
        .x = &x, .channels = p->channels, .row_bytes = (uint32_t)p->row_bytes};
    horizontal.stride = mr_align_up((size_t)x.pitch * p->channels + 4, MR_KERNELS_ALIGN);
    uint8_t *out = malloc((size_t)y.n * n);
    struct guarded strips = run_horizontal(kernels, p, &horizontal);
    run_vertical(kernels, p, &y, horizontal.stride, n, strips.at, out);
    *way_out = horizontal.way;
    guarded_free(&strips);
    mr_axis_fini(&x);
    mr_axis_fini(&y);
    return out;
}

static uint32_t compare_passes(const struct mr_kernel_ops *kernels, uint64_t *random, int i)
{
    const uint32_t channels[] = {1, 3, 4};
    struct side x = i % 3 == 0 ? pick_side(random, 5000, 60) : pick_side(random, 500, 130);
    struct side y = i % 3 == 1 ? pick_side(random, 700, 8) : pick_side(random, 40, 40);
    struct picture p = {.x = &x, .y = &y, .channels = channels[reference_below(random, 3)]};
    y.reversed = false;
    y.interpolation = x.interpolation;
    if (!mr_axis_is_usual(y.interpolation, y.in, y.out))
        x.interpolation = y.interpolation = MR_NEAREST; /* nearest is always usual */
    p.at_end = reference_below(random, 2);
    make_rows(&p, random);
    uint32_t way, unused;
    uint8_t *fast = run_passes(kernels, &p, &way), *plain = run_passes(&mr_kernels_c, &p, &unused);
    size_t n = (size_t)x.n * p.channels;
    for (size_t at = 0; at < n * (size_t)y.n; at++)
        if (fast[at] != plain[at])
            fail_msg("case %d, interpolation %d, %lldx%lld to %lldx%lld (%lldx%lld from "
                     "%lld,%lld), %u channels, "
                     "reversed %d, way %u: "
                     "row %zu, value %zu is %u instead of %u",
                     i, x.interpolation, (long long)x.in, (long long)y.in, (long long)x.out,
                     (long long)y.out, (long long)x.n, (long long)y.n, (long long)x.lo,
                     (long long)y.lo, p.channels, x.reversed, way, at / n, at % n, fast[at],
                     plain[at]);
    free(fast);
    free(plain);
    free_rows(&p);
    return way;
}

static void passes_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    uint32_t n_of_way[8] = {0};
    for (int i = 0; i < 240; i++)
        n_of_way[compare_passes(kernels, &random, i)]++;
    uint32_t n_ways = 4;
    for (uint32_t way = 0; way < n_ways; way++)
        if (n_of_way[way] == 0)
            fail_msg("no case went way %u of %u", way, n_ways);
}

/* What is put into a strip comes out of it, and the vertical pass finds it at the same place. */
static void strips_hold_rows_unchanged(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 400; i++) {
        uint32_t n = (uint32_t)draw_between(&random, 1, i % 2 ? 70 : 900);
        size_t stride = mr_align_up(n, MR_KERNELS_ALIGN);
        bool at_end = reference_below(&random, 2);
        struct guarded rows[MR_STRIP_ROWS], out = guarded_make(n, 1, at_end);
        struct guarded strip = guarded_make(stride * kernels->strip_bytes, MR_KERNELS_ALIGN, true);
        for (uint32_t r = 0; r < MR_STRIP_ROWS; r++) {
            rows[r] = guarded_make(n, 1, at_end);
            for (uint32_t k = 0; k < n; k++)
                rows[r].at[k] = (uint8_t)reference_random(&random);
        }
        const uint8_t *const from[MR_STRIP_ROWS] = {rows[0].at, rows[1].at, rows[2].at, rows[3].at};
        kernels->put_rows(from, n, stride, strip.at);
        struct side side = {.in = MR_STRIP_ROWS, .out = MR_STRIP_ROWS, .n = MR_STRIP_ROWS};
        struct mr_axis y = build_axis(&side, kernels->fill, false);
        struct picture picture = {.at_end = at_end};
        uint8_t *passed = malloc(MR_STRIP_ROWS * (size_t)n);
        run_vertical(kernels, &picture, &y, stride, n, strip.at, passed);
        for (uint32_t r = 0; r < MR_STRIP_ROWS; r++) {
            kernels->take_row(strip.at, stride, r, n, out.at);
            assert_memory_equal(out.at, rows[r].at, n);
            assert_memory_equal(passed + r * (size_t)n, rows[r].at, n);
        }
        for (uint32_t r = 0; r < MR_STRIP_ROWS; r++)
            guarded_free(&rows[r]);
        guarded_free(&out);
        guarded_free(&strip);
        mr_axis_fini(&y);
        free(passed);
    }
}

/* ---- Rows to tensors ---- */

static void pick_plan(struct mr_plan *plan, struct mr_tensor_write_half *half, uint64_t *random)
{
    const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    double mean[3], deviation[3];
    for (int c = 0; c < 3; c++) {
        mean[c] = (double)reference_below(random, 1000) / 700 - 0.2;
        deviation[c] = (double)(1 + reference_below(random, 1000)) / 900;
        /* subnormal halves, infinities, and a scale that makes a NaN of 0 */
        if (reference_below(random, 10) == 0)
            deviation[c] = reference_below(random, 2)   ? 1e4
                           : reference_below(random, 2) ? 1e-7
                                                        : 1e-42;
    }
    *plan = (struct mr_plan){.channels = 3, .dtype = dtypes[reference_below(random, 4)]};
    mr_tensor_write_tables(plan, mean, deviation, 3, (enum mr_exact)reference_below(random, 3));
    mr_tensor_write_half_init(half, plan);
}

static uint64_t bits_at(const struct guarded *memory, size_t at, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, memory->at + at * size, size);
    return bits;
}

static void same_memory(struct guarded *fast, struct guarded *plain, size_t size,
                        const struct mr_tensor_writer *writer, const char *what)
{
    for (size_t i = 0; i < fast->len / size; i++)
        if (bits_at(fast, i, size) != bits_at(plain, i, size))
            fail_msg("%s, %s: element %zu of %zu is %llx instead of %llx", what,
                     mr_dtype_name(writer->dtype), i, fast->len / size,
                     (unsigned long long)bits_at(fast, i, size),
                     (unsigned long long)bits_at(plain, i, size));
    guarded_free(fast);
    guarded_free(plain);
}

/* Floats must have their alignment. */
static void compare_planes(const struct mr_kernel_ops *kernels,
                           const struct mr_tensor_writer *writer, uint32_t n, bool at_end,
                           const uint8_t *bytes)
{
    size_t size = mr_dtype_size(writer->dtype);
    struct guarded row = guarded_copy(bytes, 3 * (size_t)n, at_end), fast[3], plain[3];
    for (int c = 0; c < 3; c++) {
        fast[c] = guarded_make(n * size, size, at_end);
        plain[c] = guarded_make(n * size, size, at_end);
    }
    kernels->planes(writer, row.at, n, (void *[3]){fast[0].at, fast[1].at, fast[2].at});
    mr_kernels_c.planes(writer, row.at, n, (void *[3]){plain[0].at, plain[1].at, plain[2].at});
    for (int c = 0; c < 3; c++)
        same_memory(&fast[c], &plain[c], size, writer, "planes");
    guarded_free(&row);
}

static void compare_values(const struct mr_kernel_ops *kernels,
                           const struct mr_tensor_writer *writer, uint32_t n, bool at_end,
                           const uint8_t *bytes, uint32_t channels, uint32_t first)
{
    size_t size = mr_dtype_size(writer->dtype), len = (size_t)n * channels;
    struct guarded row = guarded_copy(bytes, len, at_end);
    struct guarded fast = guarded_make(len * size, size, at_end),
                   plain = guarded_make(len * size, size, at_end);
    kernels->values(writer, row.at, n * channels, first, channels, fast.at);
    mr_kernels_c.values(writer, row.at, n * channels, first, channels, plain.at);
    same_memory(&fast, &plain, size, writer, "values");
    guarded_free(&row);
}

static void compare_mirrors(const struct mr_kernel_ops *kernels,
                            const struct mr_tensor_writer *writer, uint32_t n, bool at_end,
                            const uint8_t *bytes, uint32_t channels)
{
    size_t len = (size_t)n * channels;
    struct guarded row = guarded_copy(bytes, len, at_end);
    struct guarded fast = guarded_make(len, 1, at_end), plain = guarded_make(len, 1, at_end);
    kernels->mirror(row.at, n, channels, fast.at);
    mr_kernels_c.mirror(row.at, n, channels, plain.at);
    assert_memory_equal(plain.at, bytes + (n - 1) * channels, channels);
    same_memory(&fast, &plain, 1, writer, "mirror");
    guarded_free(&row);
}

static void tensors_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 1500; i++) {
        struct mr_plan plan;
        struct mr_tensor_write_half half;
        pick_plan(&plan, &half, &random);
        struct mr_tensor_writer writer = {
            .kernels = kernels, .dtype = plan.dtype, .half = half.table};
        mr_tensor_write_set_rule(&writer, &plan);
        if (!writer.scale && plan.dtype != MR_U8)
            continue; /* such values are only looked up */
        uint32_t n = (uint32_t)draw_between(&random, 1, i % 3 ? 70 : 300);
        uint8_t bytes[900];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)reference_random(&random);
        bool at_end = reference_below(&random, 2);
        compare_planes(kernels, &writer, n, at_end, bytes);
        if (plan.dtype == MR_U8) {
            compare_mirrors(kernels, &writer, n, at_end, bytes, i % 4 == 0 ? 1 : 3);
            continue;
        }
        compare_values(kernels, &writer, n, at_end, bytes, 3, 0);
        compare_values(kernels, &writer, n, at_end, bytes, 1,
                       (uint32_t)reference_below(&random, 3));
    }
}

/* ---- Image operations ---- */

/* A call with both sets, on copies of the same bytes. out: where the second one writes. */
struct loop_case {
    const struct mr_image_loops *loops;
    uint32_t step, width, height;
    size_t len, stride;
    struct guarded from, to;
};

static struct loop_case make_loop_case(const struct mr_kernel_ops *kernels, const uint8_t *bytes,
                                       uint32_t step, uint32_t width, uint32_t height, bool at_end)
{
    struct loop_case c = {.loops = kernels->image, .step = step, .width = width, .height = height};
    c.len = c.stride = (size_t)step * width;
    c.from = guarded_copy(bytes, c.len * height, at_end);
    c.to = guarded_make(c.len * height, 1, at_end);
    return c;
}

struct loop_draws {
    float factor;
    uint8_t tables[3][256];
    bool in_place;
    struct mr_hue_shift hue;
    struct mr_box_blur box;
    struct mr_taps taps;
};

static void run_loop(const struct loop_case *c, int which, const struct loop_draws *draws)
{
    uint8_t *from = c->from.at, *to = c->to.at;
    uint64_t sum;
    switch (which) {
    case 0: c->loops->saturate(draws->factor, from, c->width); break;
    case 1: c->loops->shift_hue(&draws->hue, from, c->width); break;
    case 2:
        sum = c->loops->sum_gray(from, c->width);
        memcpy(to, &sum, c->len < sizeof sum ? c->len : sizeof sum);
        break;
    case 3:
        c->loops->sharpen(draws->factor, c->step, c->len, c->stride, from + c->stride,
                          to + c->stride);
        break;
    case 4: c->loops->box_row(&draws->box, c->step, c->width, from, to); break;
    case 5: c->loops->map(draws->tables, c->step, from, c->len); break;
    case 6:
        c->loops->gray(c->step, from, c->width / (4 - c->step), draws->in_place ? from : to);
        break;
    default:
        c->loops->box_columns(&draws->box, c->height, c->len, from, c->stride, to, c->stride);
        break;
    }
}

static void image_loops_are_those_of_plain_c(void **state)
{
    static const char *const names[] = {"saturate", "shift_hue", "sum_gray", "sharpen",
                                        "box_row",  "map",       "gray",     "box_columns"};
    uint64_t random = reference_seed();
    uint8_t *bytes = malloc(300 * 3 * 9);
    for (int i = 0; i < 8000; i++) {
        int which = i % 8;
        struct loop_draws draws = {.factor = (float)reference_below(&random, 3000) / 1000.0f};
        draws.in_place = reference_below(&random, 2);
        for (int k = 0; which == 5 && k < 3 * 256; k++)
            draws.tables[k / 256][k % 256] = (uint8_t)reference_random(&random);
        draws.hue.shift = (uint32_t)reference_below(&random, 256);
        for (int hue = 0; hue < 256; hue++) {
            int turn = 6 * (int)((hue + draws.hue.shift) & 255);
            int weights[3] = {510 - abs(turn - 765), abs(turn - 510) - 255, abs(turn - 1020) - 255};
            for (int c = 0; c < 3; c++)
                draws.hue.weight[hue][c] = (uint8_t)(weights[c] < 0     ? 0
                                                     : weights[c] > 255 ? 255
                                                                        : weights[c]);
        }
        draws.box.reach = (uint32_t)reference_below(&random, i % 4 ? 6 : 90);
        draws.box.whole =
            (1u << 24) / (2 * draws.box.reach + 1 + (uint32_t)reference_below(&random, 2));
        draws.box.part = ((1u << 24) - (2 * draws.box.reach + 1) * draws.box.whole) / 2;
        uint32_t step = which < 3 || reference_below(&random, 2) ? 3 : 1;
        uint32_t width = (uint32_t)draw_between(&random, which == 3 ? 3 : 1, i % 3 ? 60 : 300);
        uint32_t height = which < 3 || (which >= 4 && which <= 6) ? 1
                          : which == 3                            ? 3
                                       : (uint32_t)draw_between(&random, 1, 9);
        for (size_t k = 0; k < (size_t)step * width * height; k++)
            bytes[k] = (uint8_t)reference_random(&random);
        bool at_end = reference_below(&random, 2);
        struct loop_case mine = make_loop_case(*state, bytes, step, width, height, at_end);
        struct loop_case plain = make_loop_case(&mr_kernels_c, bytes, step, width, height, at_end);
        run_loop(&mine, which, &draws);
        run_loop(&plain, which, &draws);
        if (memcmp(mine.from.at, plain.from.at, mine.len * height) != 0 ||
            memcmp(mine.to.at, plain.to.at, mine.len * height) != 0)
            fail_msg("%s, %u x %u of %u, factor %g, shift %u, reach %u differs", names[which],
                     width, height, step, (double)draws.factor, draws.hue.shift, draws.box.reach);
        guarded_free(&mine.from);
        guarded_free(&mine.to);
        guarded_free(&plain.from);
        guarded_free(&plain.to);
    }
    free(bytes);
}

static void taps_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 500; i++) {
        struct mr_taps taps = {.reach = (uint32_t)reference_below(&random, MR_TAPS_MAX_REACH + 1)};
        uint32_t step = reference_below(&random, 2) ? 3 : 1, rest = 65536;
        taps.bias = (taps.reach + 1) / 2;
        for (uint32_t k = 1; k <= taps.reach; k++) {
            taps.weight[k] = (uint16_t)reference_below(&random, rest / 8 + 1);
            rest -= 2u * taps.weight[k];
        }
        taps.weight[0] = (uint16_t)(rest < 65535 ? rest : 65535);
        uint8_t bytes[MR_TAPS_STRIP + 2 * 3 * MR_TAPS_MAX_REACH], mine[MR_TAPS_STRIP],
            plain[MR_TAPS_STRIP];
        size_t margin = (size_t)taps.reach * step;
        uint16_t words[2][2 * MR_TAPS_MAX_REACH + 1][MR_TAPS_STRIP];
        const uint16_t *rows[2 * MR_TAPS_MAX_REACH + 1];
        for (uint32_t y = 0; y <= 2 * taps.reach; y++) {
            for (size_t k = 0; k < sizeof bytes; k++)
                bytes[k] = (uint8_t)(i % 2 ? reference_random(&random) : 255);
            struct guarded row = guarded_copy(bytes, MR_TAPS_STRIP + 2 * margin, y % 2);
            kernels->image->taps_row(&taps, step, row.at + margin, words[0][y]);
            mr_image_loops_c.taps_row(&taps, step, row.at + margin, words[1][y]);
            guarded_free(&row);
            assert_memory_equal(words[0][y], words[1][y], sizeof words[0][y]);
            rows[y] = words[0][y];
        }
        kernels->image->taps_columns(&taps, rows + taps.reach, mine);
        mr_image_loops_c.taps_columns(&taps, rows + taps.reach, plain);
        assert_memory_equal(mine, plain, sizeof mine);
    }
}

static void hashes_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    uint8_t bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)reference_random(&random);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct guarded copy = guarded_copy(bytes, len, len % 2);
        assert_true(kernels->xxh3(copy.at, len) == mr_kernels_c.xxh3(bytes, len));
        guarded_free(&copy);
    }
}

/* ---- Which set ---- */

static void the_environment_limits_the_set(void **state)
{
    (void)state;
    enum mr_cpu best = MR_CPU_N;
    while (!mr_kernels_find(--best))
        ;
    unsetenv("MR_CPU");
    assert_int_equal(mr_kernels_best()->cpu, best);
    setenv("MR_CPU", "unheard of", 1);
    assert_int_equal(mr_kernels_best()->cpu, best);
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++) {
        setenv("MR_CPU", mr_cpu_name(cpu), 1);
        assert_true(mr_kernels_best()->cpu <= cpu);
        if (mr_kernels_find(cpu))
            assert_int_equal(mr_kernels_best()->cpu, cpu);
    }
    unsetenv("MR_CPU");
}

static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    void *state = (void *)(uintptr_t)kernels;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(axes_are_those_of_plain_c, state),
        cmocka_unit_test_prestate(passes_are_those_of_plain_c, state),
        cmocka_unit_test_prestate(strips_hold_rows_unchanged, state),
        cmocka_unit_test_prestate(tensors_are_those_of_plain_c, state),
        cmocka_unit_test_prestate(image_loops_are_those_of_plain_c, state),
        cmocka_unit_test_prestate(taps_are_those_of_plain_c, state),
        cmocka_unit_test_prestate(hashes_are_those_of_plain_c, state),
    };
    if (!kernels) {
        print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
        return 0;
    }
    return cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_environment_limits_the_set)};
    int n_failed = cmocka_run_group_tests_name("choice", tests, NULL, NULL);
    for (enum mr_cpu cpu = MR_CPU_AVX2; cpu < MR_CPU_N; cpu++)
        n_failed += test_set(cpu);
    return n_failed;
}
