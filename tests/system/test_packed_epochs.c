/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed rows in whole epochs. Token i of the corpus is i, so a row shows which pieces of documents
 * it has; all its other arrays follow from that. Which documents share a row is tested in
 * tests/sampler/test_packing.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/documents.h"
#include "tests/support/folder.h"

enum { WINDOW = 32, N_DOCUMENTS = 300, PAD = 99999, EOD = 50, SPEC = 4096, MOST_ROWS = 1000 };
enum { IGNORED = -100 };

static const char *const packs[] = {"wrapped", "wrapped&pack_window=0", "first_fit&pack_window=70",
                                    "bfd", "bfd_split&pack_window=64"};
enum { N_PACKS = sizeof packs / sizeof *packs };

static char *folder;
static int32_t begins[N_DOCUMENTS + 1];

static void write_corpus(void)
{
    static int32_t lengths[N_DOCUMENTS];
    srand(33);
    for (int i = 0; i < N_DOCUMENTS; i++) {
        lengths[i] = i % 11 == 0 ? 0 : rand() % (i % 7 == 0 ? 200 : WINDOW);
        begins[i + 1] = begins[i] + lengths[i];
    }
    mr_test_documents_write(folder, "x", lengths, N_DOCUMENTS);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    write_corpus();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

static mr_dataset *open_packed(const char *pack, const char *keys)
{
    char spec[SPEC];
    snprintf(spec, sizeof spec, "tokens:%s/x.bin?window=%d&pad=%d&pack=%s%s", folder, WINDOW, PAD,
             pack, keys);
    return mr_test_dataset(spec);
}

/* How labels are made. */
struct form {
    const char *keys;
    bool is_same, masks_first, masks_eod;
};

static const struct form forms[] = {
    {"", false, false, false},
    {"&labels=shifted&mask_first=1", false, true, false},
    {"&labels=same", true, false, false},
    {"&labels=same&mask_first=1&eod=50&eod_mask_loss=1", true, true, true},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

struct row {
    int64_t tokens[WINDOW], labels[WINDOW], positions[WINDOW];
    float loss_mask[WINDOW];
    const int64_t *documents;
    const int32_t *ends;
    int64_t n_documents, n_ends;
    int32_t max_seqlen;
};

static int64_t element(const mr_array *array, int64_t row, int64_t i)
{
    const void *at = (const char *)array->data + row * array->strides[0] + i * array->strides[1];
    return array->dtype == MR_I64 ? *(const int64_t *)at : *(const int32_t *)at;
}

static struct row take_row(const mr_batch *batch, int64_t r)
{
    struct row row;
    const int64_t *document_offsets = mr_batch_data(batch, "document.offsets"),
                  *end_offsets = mr_batch_data(batch, "cu_seqlens.offsets");
    for (int64_t i = 0; i < WINDOW; i++) {
        row.tokens[i] = element(mr_batch_array(batch, "tokens"), r, i);
        row.labels[i] = element(mr_batch_array(batch, "labels"), r, i);
        row.positions[i] = element(mr_batch_array(batch, "position_ids"), r, i);
    }
    memcpy(row.loss_mask, (const float *)mr_batch_data(batch, "loss_mask") + r * WINDOW,
           sizeof row.loss_mask);
    row.documents = (const int64_t *)mr_batch_data(batch, "document") + document_offsets[r];
    row.n_documents = document_offsets[r + 1] - document_offsets[r];
    row.ends = (const int32_t *)mr_batch_data(batch, "cu_seqlens") + end_offsets[r];
    row.n_ends = end_offsets[r + 1] - end_offsets[r];
    row.max_seqlen = ((const int32_t *)mr_batch_data(batch, "max_seqlen"))[r];
    return row;
}

/* A segment is a piece of its document, or padding; positions count in it. */
static void check_segment(const struct row *row, int64_t k)
{
    const int32_t begin = row->ends[k], end = row->ends[k + 1];
    assert_true(begin < end);
    assert_true(end - begin <= row->max_seqlen);
    for (int32_t i = begin; i < end; i++) {
        assert_int_equal(row->positions[i], i - begin);
        if (k < row->n_documents) {
            int64_t document = row->documents[k];
            assert_int_equal(row->tokens[i], row->tokens[begin] + i - begin);
            assert_in_range(row->tokens[i], begins[document], begins[document + 1] - 1);
        } else {
            assert_int_equal(row->tokens[i], PAD);
        }
    }
}

static int64_t expected_label(const struct row *row, const struct form *form, int64_t i)
{
    const int64_t from = form->is_same ? i : i + 1;
    if (from == WINDOW || from >= row->ends[row->n_documents])
        return IGNORED;
    return form->masks_first && row->positions[from] == 0 ? IGNORED : row->tokens[from];
}

static void check_row(const struct row *row, const struct form *form)
{
    int32_t longest = 0;
    assert_in_range(row->n_documents, 1, WINDOW);
    assert_int_equal(row->ends[0], 0);
    assert_int_equal(row->ends[row->n_ends - 1], WINDOW);
    assert_in_range(row->n_ends - row->n_documents, 1, 2);
    for (int64_t k = 0; k + 1 < row->n_ends; k++) {
        check_segment(row, k);
        longest =
            row->ends[k + 1] - row->ends[k] > longest ? row->ends[k + 1] - row->ends[k] : longest;
    }
    assert_int_equal(row->max_seqlen, longest);
    for (int64_t i = 0; i < WINDOW; i++) {
        int64_t label = expected_label(row, form, i);
        bool counts = label != IGNORED && !(form->masks_eod && row->tokens[i] == EOD);
        assert_int_equal(row->labels[i], label);
        assert_true(row->loss_mask[i] == (counts ? 1.0f : 0.0f));
    }
}

/* The rows of an epoch by their index: the first token of each of their pieces. */
struct rows {
    uint64_t n;
    int64_t tokens[MOST_ROWS][WINDOW];
    uint32_t n_seen[MOST_ROWS];
};

static mr_loader *make_loader(mr_dataset *dataset, uint32_t world, uint32_t rank, uint32_t batch,
                              uint32_t workers)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = batch;
    options.num_workers = workers;
    options.world_size = world;
    options.rank = rank;
    options.tail = MR_TAIL_EXACT;
    options.seed = 7;
    options.dtype = batch % 2 ? MR_I32 : MR_DTYPE_DEFAULT;
    return mr_test_loader(dataset, NULL, &options);
}

/* Take at most n_batches of an epoch; UINT64_MAX: all. */
static void take_rows(mr_loader *loader, const struct form *form, uint64_t n_batches,
                      struct rows *rows)
{
    mr_batch *batch;
    mr_status status = MR_OK;
    for (uint64_t k = 0; k < n_batches; k++) {
        status = mr_loader_next(loader, MR_FOREVER, &batch);
        if (status == MR_END && n_batches == UINT64_MAX)
            break;
        assert_ok(status, mr_loader_error(loader));
        const int64_t *indices = mr_batch_data(batch, "index");
        for (int64_t r = 0; r < mr_batch_size(batch); r++) {
            const struct row row = take_row(batch, r);
            check_row(&row, form);
            assert_in_range(indices[r], 0, MOST_ROWS - 1);
            memcpy(rows->tokens[indices[r]], row.tokens, sizeof row.tokens);
            rows->n_seen[indices[r]]++;
            rows->n++;
        }
        mr_batch_release(batch);
    }
}

static void check_same(const struct rows *rows, const struct rows *expected)
{
    assert_int_equal(rows->n, expected->n);
    for (uint64_t i = 0; i < MOST_ROWS; i++)
        assert_int_equal(rows->n_seen[i], i < rows->n ? 1 : 0);
    assert_memory_equal(rows->tokens, expected->tokens, sizeof rows->tokens);
}

static struct rows *take_epoch(mr_dataset *dataset, const struct form *form, uint64_t epoch)
{
    struct rows *rows = calloc(1, sizeof *rows);
    mr_loader *loader = make_loader(dataset, 1, 0, 1, MR_NO_WORKERS);
    assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
    take_rows(loader, form, UINT64_MAX, rows);
    assert_int_equal(rows->n, mr_loader_n_batches(loader));
    mr_loader_destroy(loader);
    return rows;
}

/* All tokens of documents that are not cut come once. */
static void check_tokens(const struct rows *rows, bool cuts)
{
    static bool seen[MOST_ROWS * WINDOW];
    memset(seen, 0, sizeof seen);
    for (uint64_t r = 0; r < rows->n; r++)
        for (int i = 0; i < WINDOW; i++)
            if (rows->tokens[r][i] != PAD) {
                assert_false(seen[rows->tokens[r][i]]);
                seen[rows->tokens[r][i]] = true;
            }
    for (int d = 0; d < N_DOCUMENTS; d++)
        for (int32_t i = begins[d]; i < begins[d + 1]; i++)
            assert_true(seen[i] == (!cuts || i - begins[d] < WINDOW));
}

static void rows_do_not_depend_on_workers_and_ranks(void **state)
{
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    (void)state;
    for (int p = 0; p < N_PACKS; p++) {
        const struct form *form = &forms[p % N_FORMS];
        mr_dataset *dataset = open_packed(packs[p], form->keys);
        struct rows *expected = take_epoch(dataset, form, 0);
        check_tokens(expected, p == 2 || p == 3);
        for (uint32_t world = 1; world <= 3; world++) {
            struct rows *rows = calloc(1, sizeof *rows);
            uint64_t n_batches = 0;
            for (uint32_t rank = 0; rank < world; rank++) {
                mr_loader *loader =
                    make_loader(dataset, world, rank, 5 + world, workers[(world + rank) % 3]);
                n_batches = rank == 0 ? mr_loader_n_batches(loader) : n_batches;
                assert_int_equal(mr_loader_n_batches(loader), n_batches);
                take_rows(loader, form, UINT64_MAX, rows);
                mr_loader_destroy(loader);
            }
            check_same(rows, expected);
            free(rows);
        }
        free(expected);
        mr_dataset_destroy(dataset);
    }
}

/* Each epoch has as many rows as its order of documents gives, also where workers run ahead. */
static void epochs_have_their_own_rows(void **state)
{
    (void)state;
    for (int p = 0; p < N_PACKS; p++) {
        uint64_t counts[4];
        bool differ = false;
        mr_dataset *dataset = open_packed(packs[p], "");
        mr_loader *loader = make_loader(dataset, 1, 0, 4, 2);
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            struct rows *rows = calloc(1, sizeof *rows),
                        *expected = take_epoch(dataset, &forms[0], epoch);
            assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
            assert_int_equal(mr_loader_n_batches(loader), (expected->n + 3) / 4);
            assert_int_equal(mr_loader_n_samples(loader), expected->n);
            take_rows(loader, &forms[0], UINT64_MAX, rows);
            check_same(rows, expected);
            counts[epoch] = rows->n;
            differ |= rows->n != counts[0];
            free(rows);
            free(expected);
        }
        assert_true(p == 1 ? !differ : differ || p == 0 || p == 3);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

static void save(mr_loader *loader, uint8_t state[MR_LOADER_STATE_MAX], size_t *len_out)
{
    assert_int_equal(mr_loader_save(loader, state, MR_LOADER_STATE_MAX, len_out), MR_OK);
}

/* Three ranks with batches of 2 stop; two with batches of 3 take the other rows. */
static void a_position_continues_on_other_ranks(void **state)
{
    (void)state;
    for (int p = 0; p < N_PACKS; p++) {
        uint8_t saved[MR_LOADER_STATE_MAX];
        size_t len = 0;
        const struct form *form = &forms[p % N_FORMS];
        mr_dataset *dataset = open_packed(packs[p], form->keys);
        struct rows *expected = take_epoch(dataset, form, 2), *rows = calloc(1, sizeof *rows);
        for (uint32_t rank = 0; rank < 3; rank++) {
            mr_loader *loader = make_loader(dataset, 3, rank, 2, rank);
            assert_int_equal(mr_loader_set_epoch(loader, 2), MR_OK);
            take_rows(loader, form, 9, rows);
            save(loader, saved, &len);
            mr_loader_destroy(loader);
        }
        assert_int_equal(rows->n, 54);
        for (uint32_t rank = 0; rank < 2; rank++) {
            mr_loader *loader = make_loader(dataset, 2, rank, 3, 1 + rank);
            assert_ok(mr_loader_restore(loader, saved, len), mr_loader_error(loader));
            assert_int_equal(mr_loader_epoch(loader), 2);
            take_rows(loader, form, UINT64_MAX, rows);
            mr_loader_destroy(loader);
        }
        check_same(rows, expected);
        free(rows);
        free(expected);
        mr_dataset_destroy(dataset);
    }
}

/* The end of an epoch is restored as its end, whatever epoch the loader is at. */
static void the_end_of_an_epoch_is_restored(void **state)
{
    uint8_t saved[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    struct rows *rows = calloc(1, sizeof *rows);
    mr_dataset *dataset = open_packed("first_fit&pack_window=70", "");
    mr_loader *loader = make_loader(dataset, 2, 0, 4, 1);
    (void)state;
    assert_int_equal(mr_loader_set_epoch(loader, 3), MR_OK);
    take_rows(loader, &forms[0], UINT64_MAX, rows);
    save(loader, saved, &len);
    mr_loader_destroy(loader);
    loader = make_loader(dataset, 3, 1, 7, 1);
    assert_ok(mr_loader_restore(loader, saved, len), mr_loader_error(loader));
    assert_int_equal(mr_loader_epoch(loader), 3);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_END);
    save(loader, saved, &len);
    assert_ok(mr_loader_restore(loader, saved, len), mr_loader_error(loader));
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_END);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    free(rows);
}

static void another_packing_does_not_continue(void **state)
{
    static const char *const others[] = {"bfd_split", "bfd&pack_window=64"};
    uint8_t saved[MR_LOADER_STATE_MAX];
    size_t len;
    mr_dataset *dataset = open_packed("bfd", "");
    mr_loader *loader = make_loader(dataset, 1, 0, 2, 1);
    (void)state;
    save(loader, saved, &len);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        dataset = open_packed(others[i], "");
        loader = make_loader(dataset, 1, 0, 2, 1);
        assert_int_equal(mr_loader_restore(loader, saved, len), MR_ERR_INVALID);
        assert_words(mr_loader_error(loader)->text, "another pack, window or pack_window");
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    char spec[SPEC];
    snprintf(spec, sizeof spec, "tokens:%s/x.bin?window=%d&pack=none", folder, WINDOW);
    dataset = mr_test_dataset(spec);
    loader = make_loader(dataset, 1, 0, 2, 1);
    assert_int_equal(mr_loader_restore(loader, saved, len), MR_ERR_INVALID);
    assert_words(mr_loader_error(loader)->text, "saved with packing, this loader is without it");
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* A row that cannot be read is a hole, and no other row takes its place. */
static void a_file_that_shrinks_is_damage(void **state)
{
    (void)state;
    char path[SPEC];
    snprintf(path, sizeof path, "%s/x.bin", folder);
    mr_dataset *dataset = open_packed("wrapped&pack_window=0", "");
    assert_int_equal(truncate(path, 4 * 10 * WINDOW + 4), 0);
    for (mr_on_error on_error = MR_ON_ERROR_FAIL; on_error <= MR_ON_ERROR_ZERO; on_error++) {
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.batch_size = 5;
        options.num_workers = 2;
        options.no_shuffle = true;
        options.on_error = on_error;
        mr_loader *loader = mr_test_loader(dataset, NULL, &options);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        if (on_error == MR_ON_ERROR_FAIL) {
            assert_words(epoch.first_error.text, "x.bin (packed, index 10): file ends at byte");
            assert_int_equal(epoch.n_samples, 10);
        } else {
            assert_int_equal(epoch.n_valid, 10);
            assert_int_equal(epoch.n_samples, (begins[N_DOCUMENTS] + WINDOW - 1) / WINDOW);
            assert_int_equal(epoch.indices[11], 11);
        }
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
    write_corpus();
}

/* The program itself looks at the lengths of documents. */
static void an_index_that_shrinks_is_damage(void **state)
{
    (void)state;
    char path[SPEC];
    snprintf(path, sizeof path, "%s/x.idx", folder);
    for (int i = 0; i < N_PACKS; i++) {
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        mr_dataset *dataset = open_packed(packs[i], "");
        mr_loader *loader, *late;
        mr_error error;
        options.num_workers = MR_NO_WORKERS;
        options.n_epochs = 1; /* no thread plans another one meanwhile */
        loader = mr_test_loader(dataset, NULL, &options);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        mr_test_epoch_free(&epoch);
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(mr_loader_set_epoch(loader, 5), MR_ERR_DAMAGED);
        assert_words(mr_loader_error(loader)->text, "the .idx of the tokens shrank");
        assert_int_equal(mr_loader_create(dataset, NULL, &options, &late, &error), MR_ERR_DAMAGED);
        assert_words(error.text, "the .idx of the tokens shrank");
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
        write_corpus();
    }
}

/* Kernels compute all of it, and no loss counts it. */
static void an_empty_row_is_padding(void **state)
{
    (void)state;
    char path[SPEC];
    mr_batch *batch;
    snprintf(path, sizeof path, "%s/x.bin", folder);
    mr_dataset *dataset = open_packed("bfd", "");
    assert_int_equal(truncate(path, 0), 0);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 3;
    options.num_workers = 1;
    options.on_error = MR_ON_ERROR_ZERO;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    assert_ok(mr_loader_next(loader, MR_FOREVER, &batch), mr_loader_error(loader));
    for (int64_t r = 0; r < 3; r++) {
        const struct row row = take_row(batch, r);
        assert_int_equal(row.n_documents, 0);
        assert_int_equal(row.n_ends, 2);
        assert_int_equal(row.ends[0], 0);
        assert_int_equal(row.ends[1], WINDOW);
        assert_int_equal(row.max_seqlen, WINDOW);
        for (int i = 0; i < WINDOW; i++)
            assert_true(row.labels[i] == IGNORED && row.loss_mask[i] == 0.0f);
    }
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    write_corpus();
}

static void what_does_not_go_with_packing_is_named(void **state)
{
    (void)state;
    mr_dataset *dataset = open_packed("bfd", "");
    mr_loader *loader;
    mr_error error;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.repeat = 3;
    assert_int_equal(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID);
    assert_words(error.text, "packed documents and repeat exclude each other");
    const double weights[N_DOCUMENTS] = {1};
    options = (mr_loader_options)MR_LOADER_OPTIONS_INIT;
    options.weight_values = weights;
    options.n_weight_values = N_DOCUMENTS;
    assert_int_equal(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID);
    assert_words(error.text, "packed documents and weights of samples exclude each other");
    options = (mr_loader_options)MR_LOADER_OPTIONS_INIT;
    options.group_by_length = 1;
    assert_int_equal(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID);
    assert_words(error.text, "group_by_length and packed documents exclude each other");
    loader = make_loader(dataset, 1, 0, 1, 1);
    assert_int_equal(mr_loader_set_epoch_order(loader, 0, (const int64_t[]){1}, 1),
                     MR_ERR_UNSUPPORTED);
    assert_words(mr_loader_error(loader)->text, "not for packed documents");
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_workers_and_ranks),
        cmocka_unit_test(epochs_have_their_own_rows),
        cmocka_unit_test(a_position_continues_on_other_ranks),
        cmocka_unit_test(the_end_of_an_epoch_is_restored),
        cmocka_unit_test(another_packing_does_not_continue),
        cmocka_unit_test(a_file_that_shrinks_is_damage),
        cmocka_unit_test(an_index_that_shrinks_is_damage),
        cmocka_unit_test(an_empty_row_is_padding),
        cmocka_unit_test(what_does_not_go_with_packing_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
