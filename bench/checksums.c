/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-checksums: what it would cost to compare a checksum for each row of MCUs that a crop reads from a
 * pack, beside the work on the crop itself. The rows' checksums are not in the format; they are made before the clock
 * starts.
 */
#include "base/cpu.h"
#include "base/xxh3.h"
#include "bench/arguments.h"
#include "bench/checksums_avx2.h"
#include "bench/engine.h"
#include "bench/photos.h"
#include "packs/packer.h"
#include "transforms/packed.h"
#include "transforms/tile_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum how { PLAIN, ROWS, WHOLE, ALONE };

typedef uint64_t (*hash_fn)(const void *bytes, size_t len);

/* A packed sample, and what would stand beside it. */
struct sample {
    struct mr_packed_image image;
    struct mr_packed_template template;
    uint32_t *rows;
    uint8_t *marks;
    uint8_t *bytes;
    uint64_t *row_sums;
    uint64_t sum;
};

/* The photographs in one form. */
struct form {
    const struct mr_photos *photos;
    struct sample *samples;
    struct mr_pixels *pixels;
    struct mr_pixels *of_file; /* for the warm-up */
    uint8_t *buffer;           /* what was read */
    uint8_t *out;
    uint8_t *expected;
};

struct bench_case {
    struct form *form;
    enum how how;
    hash_fn hash;
};

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Packing. */

static void *copy_bytes(const void *bytes, size_t len, size_t slack)
{
    uint8_t *copy = calloc(1, len + slack + 1);
    if (copy && len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

static bool keep_sample(struct sample *sample, const struct mr_packed_sample *packed)
{
    const struct mr_packed_image *image = &packed->image;
    *sample = (struct sample){.image = *image, .template = packed->template};
    sample->rows = copy_bytes(image->rows, (image->n_rows + (size_t)1) * sizeof *sample->rows, 0);
    sample->marks = copy_bytes(image->marks, image->marks_len, 0);
    sample->bytes = copy_bytes(packed->bytes, image->len, MR_TILE_SLACK);
    sample->row_sums = calloc(image->n_rows, sizeof *sample->row_sums);
    if (!sample->rows || !sample->marks || !sample->bytes || !sample->row_sums)
        return false;
    sample->image.template = &sample->template;
    sample->image.rows = sample->rows;
    sample->image.marks = image->marks ? sample->marks : NULL;
    for (uint32_t r = 0; r < image->n_rows; r++)
        sample->row_sums[r] = mr_xxh3(sample->bytes + sample->rows[r], sample->rows[r + 1] - sample->rows[r]);
    sample->sum = mr_xxh3(sample->bytes, image->len);
    return true;
}

static mr_status pack_photos(struct form *form, uint32_t encoding, mr_error *error)
{
    const struct mr_photos *photos = form->photos;
    const struct mr_packer_options options = {.encoding = encoding, .marks = true, .limits = mr_photos_limits};
    struct mr_packer *packer;
    size_t longest = 0;
    form->samples = calloc(photos->n, sizeof *form->samples);
    if (!form->samples)
        return mr_error_memory(error, photos->n * sizeof *form->samples);
    mr_status status = mr_packer_create(&options, &packer, error);
    if (status != MR_OK)
        return status;
    for (uint64_t i = 0; status == MR_OK && i < photos->n; i++) {
        struct mr_packed_sample packed;
        status = mr_packer_pack(packer, photos->photo[i].bytes, photos->photo[i].len, &packed, error);
        if (status == MR_OK && !mr_packed_image_has_rows(packed.image.encoding))
            status = mr_error_set(error, MR_ERR_UNSUPPORTED, "%s: %s", photos->photo[i].path, packed.why);
        if (status == MR_OK && !keep_sample(&form->samples[i], &packed))
            status = mr_error_memory(error, packed.image.len);
        if (status == MR_OK && packed.image.len > longest)
            longest = packed.image.len;
    }
    mr_packer_destroy(packer);
    form->buffer = malloc(longest + MR_TILE_SLACK);
    return status == MR_OK && !form->buffer ? mr_error_memory(error, longest) : status;
}

static mr_status open_form(struct form *form, const struct mr_photos *photos, uint32_t encoding, mr_error *error)
{
    form->photos = photos;
    form->out = malloc(photos->plan.out_bytes);
    form->expected = malloc(photos->plan.out_bytes);
    if (!form->out || !form->expected)
        return mr_error_memory(error, photos->plan.out_bytes);
    mr_status status = mr_pixels_create(&photos->plan, &mr_photos_limits, false, &form->pixels, error);
    if (status == MR_OK)
        status = mr_pixels_create(&photos->plan, &mr_photos_limits, false, &form->of_file, error);
    return status == MR_OK ? pack_photos(form, encoding, error) : status;
}

static void close_form(struct form *form)
{
    for (uint64_t i = 0; form->samples && i < form->photos->n; i++) {
        free(form->samples[i].rows);
        free(form->samples[i].marks);
        free(form->samples[i].bytes);
        free(form->samples[i].row_sums);
    }
    free(form->samples);
    mr_pixels_destroy(form->pixels);
    mr_pixels_destroy(form->of_file);
    free(form->buffer);
    free(form->out);
    free(form->expected);
}

/* Running. */

/* The rows that lie in [offset, offset + len), which is at bytes. */
static bool rows_are_right(const struct sample *sample, const uint8_t *bytes, uint64_t offset, uint64_t len,
                           hash_fn hash)
{
    const uint32_t *rows = sample->rows;
    uint32_t r = 0;
    bool right = true;
    while (r < sample->image.n_rows && rows[r] < offset)
        r++;
    for (; r < sample->image.n_rows && rows[r + 1] <= offset + len; r++)
        right &= hash(bytes + (rows[r] - offset), rows[r + 1] - rows[r]) == sample->row_sums[r];
    return right;
}

/* One sample as a worker has it: read (here a copy), compared, decoded to a tensor. */
static bool run_sample(const struct bench_case *c, uint64_t i)
{
    struct form *form = c->form;
    const struct sample *sample = &form->samples[i];
    struct mr_pixels_report report;
    struct mr_rng rng;
    uint64_t offset = 0, len = sample->image.len;
    mr_rng_init(&rng, 0, 0, (uint64_t)form->photos->photo[i].index);
    if (c->how != WHOLE && mr_pixels_range(form->pixels, &sample->image, &rng, &offset, &len, NULL) != MR_OK)
        return false;
    memcpy(form->buffer, sample->bytes + offset, len);
    if (c->how == ROWS && !rows_are_right(sample, form->buffer, offset, len, c->hash))
        return false;
    if (c->how == WHOLE && c->hash(form->buffer, len) != sample->sum)
        return false;
    return mr_pixels_run_packed(form->pixels, &sample->image, form->buffer, len, offset, &rng, form->out, &report,
                                NULL) == MR_OK;
}

/* The tensor is that of the file, and a flipped bit in what was read is noticed. */
static bool sample_is_right(const struct bench_case *c, uint64_t i)
{
    struct form *form = c->form;
    const struct mr_photo *photo = &form->photos->photo[i];
    struct sample *sample = &form->samples[i];
    struct mr_pixels_report report;
    struct mr_rng rng;
    mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
    if (mr_pixels_run(form->of_file, photo->bytes, photo->len, true, &rng, form->expected, &report, NULL) != MR_OK ||
        memcmp(form->out, form->expected, form->photos->plan.out_bytes) != 0)
        return false;
    if (c->how == PLAIN)
        return true;
    uint64_t offset, len;
    mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
    if (mr_pixels_range(form->pixels, &sample->image, &rng, &offset, &len, NULL) != MR_OK)
        return false;
    uint8_t *byte = &sample->bytes[offset + len / 2];
    *byte ^= 1;
    bool passes = run_sample(c, i);
    *byte ^= 1;
    return !passes;
}

static mr_status run_case(void *user, struct mr_run *run, mr_error *error)
{
    const struct bench_case *c = user;
    (void)error;
    uint64_t n = c->form->photos->n, start = cpu_ns();
    for (uint64_t i = 0; i < n; i++)
        run->n_wrong += !run_sample(c, i) || (run->check && !sample_is_right(c, i));
    run->seconds = (double)(cpu_ns() - start) / 1e9;
    run->n_items = n;
    return MR_OK;
}

/* The checksums alone, over bytes that have just been copied, as after a read; the copy is outside the clock. */
static mr_status run_sums(void *user, struct mr_run *run, mr_error *error)
{
    const struct bench_case *c = user;
    struct form *form = c->form;
    uint64_t total = 0;
    for (uint64_t i = 0; i < form->photos->n; i++) {
        const struct sample *sample = &form->samples[i];
        struct mr_rng rng;
        uint64_t offset, len;
        mr_rng_init(&rng, 0, 0, (uint64_t)form->photos->photo[i].index);
        mr_status status = mr_pixels_range(form->pixels, &sample->image, &rng, &offset, &len, error);
        if (status != MR_OK)
            return status;
        memcpy(form->buffer, sample->bytes + offset, len);
        uint64_t start = cpu_ns();
        run->n_wrong += !rows_are_right(sample, form->buffer, offset, len, c->hash);
        total += cpu_ns() - start;
    }
    run->seconds = (double)total / 1e9;
    run->n_items = form->photos->n;
    return MR_OK;
}

/* Both forms in each way. */
static const struct way {
    const char *names[2];
    enum how how;
    hash_fn hash;
} ways[] = {{{"dct", "marks"}, PLAIN, NULL},
            {{"dct, rows compared", "marks, rows compared"}, ROWS, mr_xxh3},
            {{"dct, rows compared, avx2", "marks, rows compared, avx2"}, ROWS, mr_checksums_avx2_hash},
            {{"dct, read and compared whole", "marks, read and compared whole"}, WHOLE, mr_xxh3},
            {{"dct, checksums alone", "marks, checksums alone"}, ALONE, mr_xxh3},
            {{"dct, checksums alone, avx2", "marks, checksums alone, avx2"}, ALONE, mr_checksums_avx2_hash}};

enum { N_WAYS = sizeof ways / sizeof *ways };

static void add_ratios(struct mr_engine *engine)
{
    static const char *const names[2][N_WAYS] = {
        {"", "dct: rows compared / not", "dct: rows compared, avx2 / not", "dct: whole / not",
         "dct: checksums alone / sample", "dct: checksums alone, avx2 / sample"},
        {"", "marks: rows compared / not", "marks: rows compared, avx2 / not", "marks: whole / not",
         "marks: checksums alone / sample", "marks: checksums alone, avx2 / sample"}};
    for (int f = 0; f < 2; f++) {
        for (int i = 1; i < N_WAYS; i++) {
            const struct way *way = &ways[i];
            if (way->hash == mr_checksums_avx2_hash && !mr_cpu_has(MR_CPU_AVX2))
                continue;
            double bound = way->how == ALONE ? 0.02 : 1.02;
            mr_engine_time_ratio(engine, names[f][i], way->names[f], ways[0].names[f],
                                 way->how == WHOLE ? MR_AIM_NONE : MR_AIM_BELOW, bound);
        }
    }
}

static mr_status run_forms(const struct mr_arguments *arguments, struct form forms[2], struct mr_engine *engine,
                           mr_error *error)
{
    struct bench_case cases[2][N_WAYS];
    mr_engine_fact(engine, "data", arguments->data);
    mr_engine_fact_int(engine, "photographs", (int64_t)forms[0].photos->n);
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < N_WAYS; i++) {
            cases[f][i] = (struct bench_case){&forms[f], ways[i].how, ways[i].hash};
            if (ways[i].hash != mr_checksums_avx2_hash || mr_cpu_has(MR_CPU_AVX2))
                mr_engine_add(engine, ways[i].names[f], ways[i].how == ALONE ? run_sums : run_case, &cases[f][i]);
        }
    }
    mr_status status = mr_engine_rounds(engine, arguments->n_repeats, error);
    if (status != MR_OK)
        return status;
    add_ratios(engine);
    return mr_engine_report(engine, arguments->json, error);
}

int main(int argc, char **argv)
{
    struct mr_arguments arguments;
    mr_arguments_parse(argc, argv,
                       "What checksums for the rows of a crop would cost.\v"
                       "Example: millrace-bench-checksums --data ~/imagenet/val --images 500 --repeats 15",
                       &arguments);
    mr_error error;
    struct mr_photos photos = {0};
    struct form forms[2] = {{0}};
    struct mr_engine *engine = NULL;
    int code = 1;
    mr_status status = mr_photos_load(arguments.data, arguments.max_photos, &photos, &error);
    if (status == MR_OK)
        status = open_form(&forms[0], &photos, MR_PACKED_DCT, &error);
    if (status == MR_OK)
        status = open_form(&forms[1], &photos, MR_PACKED_JPEG, &error);
    if (status == MR_OK)
        status = mr_engine_create("millrace-bench-checksums", "image", &engine, &error);
    if (status == MR_OK)
        status = run_forms(&arguments, forms, engine, &error);
    if (status == MR_OK)
        code = mr_engine_exit_code(engine, arguments.strict);
    else
        fprintf(stderr, "millrace-bench-checksums: %s\n", error.text);
    mr_engine_destroy(engine);
    close_form(&forms[0]);
    close_form(&forms[1]);
    mr_photos_free(&photos);
    return code;
}
