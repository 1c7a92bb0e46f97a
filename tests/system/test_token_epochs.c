/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of token ids in whole epochs. The oracle is arithmetic: token i of file f is known, so each
 * row follows from its dataset index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/documents.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"

enum { WINDOW = 16, N_FILES = 3, VOCAB = 60000, SPEC = 4096 };

static char *folder;

static int64_t count_tokens(int file)
{
    return 500 + 333 * file;
}

static int64_t token(int file, int64_t i)
{
    return (file * 40503 + i * 2654435761) % VOCAB;
}

static int64_t rows_of(int file, int64_t stride)
{
    return 1 + (count_tokens(file) - WINDOW - 1) / stride;
}

static void write_files(const char *ending, size_t size)
{
    for (int f = 0; f < N_FILES; f++) {
        char name[64];
        uint8_t *bytes = malloc((size_t)count_tokens(f) * size);
        for (int64_t i = 0; i < count_tokens(f); i++)
            memcpy(bytes + (size_t)i * size, &(int64_t){token(f, i)}, size);
        snprintf(name, sizeof name, "%d.%s", f, ending);
        mr_test_folder_write(folder, name, bytes, (size_t)count_tokens(f) * size);
        free(bytes);
    }
}

static void name_files(char spec[SPEC], const char *ending, const char *keys)
{
    snprintf(spec, SPEC, "tokens:%s/0.%s,%s/1.%s,%s/2.%s?window=%d&%s", folder, ending, folder,
             ending, folder, ending, WINDOW, keys);
}

static int64_t element(const mr_array *array, int64_t row, int64_t i)
{
    const void *at = (const char *)array->data + row * array->strides[0] + i * array->strides[1];
    return array->dtype == MR_I64 ? *(const int64_t *)at : *(const int32_t *)at;
}

static void check_batch(const mr_batch *batch, int64_t stride)
{
    const mr_array *tokens = mr_batch_array(batch, "tokens"),
                   *labels = mr_batch_array(batch, "labels");
    const int64_t *indices = mr_batch_data(batch, "index");
    assert_non_null(tokens);
    assert_non_null(labels);
    assert_int_equal(tokens->shape[1], WINDOW);
    assert_int_equal(labels->shape[1], WINDOW);
    for (int64_t row = 0; row < mr_batch_size(batch); row++) {
        int file = 0;
        int64_t at = indices[row];
        for (; at >= rows_of(file, stride); file++)
            at -= rows_of(file, stride);
        for (int64_t i = 0; i < WINDOW; i++) {
            assert_int_equal(element(tokens, row, i), token(file, at * stride + i));
            assert_int_equal(element(labels, row, i), token(file, at * stride + i + 1));
        }
    }
}

static void check_epoch(const char *spec, int64_t stride, uint32_t dtype, uint32_t num_workers)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 10;
    options.num_workers = num_workers;
    options.dtype = dtype;
    options.seed = 3;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    mr_batch *batch;
    int64_t n = 0;
    mr_status status;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        check_batch(batch, stride);
        n += mr_batch_size(batch);
        mr_batch_release(batch);
    }
    assert_int_equal(status, MR_END);
    assert_int_equal(n, rows_of(0, stride) + rows_of(1, stride) + rows_of(2, stride));
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    write_files("u16", 2);
    write_files("u32", 4);
    write_files("i64", 8);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

static void rows_are_those_of_the_files(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"u16", "u32", "i64"};
    static const int64_t strides[] = {WINDOW, 1, 50};
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    for (size_t d = 0; d < 3; d++)
        for (size_t k = 0; k < 3; k++) {
            char keys[64], spec[SPEC];
            snprintf(keys, sizeof keys, "dtype=%s&stride=%d&vocab=%d", dtypes[d], (int)strides[k],
                     VOCAB);
            name_files(spec, dtypes[d], keys);
            check_epoch(spec, strides[k], d == k ? MR_I32 : MR_DTYPE_DEFAULT, workers[k]);
        }
}

/* Damage ends the epoch, and says which id it was. */
static void expect_damage(const char *spec, uint32_t dtype, const char *words)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 200;
    options.num_workers = 2;
    options.no_shuffle = true;
    options.dtype = dtype;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_true(epoch.n_failures > 0);
    assert_words(epoch.first_error.text, words);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void ids_that_cannot_be_are_damage(void **state)
{
    (void)state;
    char spec[SPEC];
    int64_t ids[WINDOW + 1] = {0};
    snprintf(spec, sizeof spec, "tokens:%s/bad?dtype=i64&window=%d", folder, WINDOW);
    ids[5] = -1;
    mr_test_folder_write(folder, "bad", ids, sizeof ids);
    expect_damage(spec, MR_I32, "bad#0 (index 0): token 5 is -1, which is not an id of i32");
    expect_damage(spec, MR_I64, "token 5 is -1, which is not an id of i64");
    ids[5] = 0;
    ids[WINDOW] = INT64_C(1) << 31; /* it is a label only */
    mr_test_folder_write(folder, "bad", ids, sizeof ids);
    expect_damage(spec, MR_I32, "token 16 is 2147483648, which is not an id of i32");
    ids[WINDOW] = 100;
    mr_test_folder_write(folder, "bad", ids, sizeof ids);
    snprintf(spec, sizeof spec, "tokens:%s/bad?dtype=i64&window=%d&vocab=100", folder, WINDOW);
    expect_damage(spec, MR_I64, "token 16 is 100, but vocab is 100");
}

static void a_file_that_shrinks_is_damage(void **state)
{
    (void)state;
    char spec[SPEC], path[SPEC / 2];
    name_files(spec, "u16", "dtype=u16");
    mr_dataset *dataset = mr_test_dataset(spec);
    snprintf(path, sizeof path, "%s/1.u16", folder);
    assert_int_equal(truncate(path, 100), 0);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.num_workers = 2;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_true(epoch.n_failures > 0);
    assert_words(epoch.first_error.text, "1.u16#");
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    write_files("u16", 2);
}

/* Rows with all their tokens, and those that have been lost. */
static void check_shrunk(const mr_batch *batch, int64_t n_left, int64_t n_seen[2])
{
    const mr_array *tokens = mr_batch_array(batch, "tokens");
    const int64_t *indices = mr_batch_data(batch, "index");
    const uint8_t *mask = mr_batch_data(batch, "mask");
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        n_seen[mask[i]]++;
        for (int64_t k = 0; mask[i] && k < WINDOW; k++)
            assert_int_equal(element(tokens, i, k), token(0, indices[i] * WINDOW + k));
        if (mask[i])
            assert_true(indices[i] * WINDOW + WINDOW < n_left);
    }
}

/* Has one of two workers mapped the file? */
static bool is_mapped(const mr_loader *loader, const char *path)
{
    int64_t pids[2];
    bool found = false;
    assert_int_equal(mr_loader_worker_pids(loader, pids, 2), 2);
    for (int i = 0; i < 2; i++) {
        char name[32], line[1024];
        snprintf(name, sizeof name, "/proc/%d/maps", (int)pids[i]);
        FILE *maps = fopen(name, "r");
        assert_non_null(maps);
        while (fgets(line, sizeof line, maps))
            found |= strstr(line, path) != NULL;
        fclose(maps);
    }
    return found;
}

/* Can the system tell whether a file is in memory? */
static bool can_tell(const char *path)
{
    uint8_t byte;
    struct iovec place = {.iov_base = &byte, .iov_len = 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    bool is_known = preadv2(fd, &place, 1, 0, RWF_NOWAIT) == 1 || errno == EAGAIN;
    close(fd);
    return is_known;
}

/*
 * Workers have mapped the file when it shrinks, by pages and by a part of one. That ends no worker.
 */
static void a_mapped_file_that_shrinks_is_damage(void **state)
{
    (void)state;
    enum { TOKENS = 32000 * WINDOW, BATCH = 32, BEFORE = 500, IN_SLOTS = 16 };
    char spec[SPEC], path[SPEC / 2];
    uint16_t *bytes = malloc(TOKENS * sizeof *bytes);
    assert_non_null(bytes);
    for (int64_t i = 0; i < TOKENS; i++)
        bytes[i] = (uint16_t)token(0, i);
    snprintf(path, sizeof path, "%s/shrinks.u16", folder);
    snprintf(spec, sizeof spec, "tokens:%s?dtype=u16&window=%d", path, WINDOW);
    for (uint32_t start = MR_START_EXEC; start <= MR_START_FORK; start++) {
        int64_t n_seen[2] = {0};
        mr_batch *batch;
        mr_test_folder_write(folder, "shrinks.u16", bytes, TOKENS * sizeof *bytes);
        mr_dataset *dataset = mr_test_dataset(spec);
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.batch_size = BATCH;
        options.num_workers = 2;
        options.start = start;
        options.on_error = MR_ON_ERROR_ZERO;
        mr_loader *loader = mr_test_loader(dataset, NULL, &options);
        for (int i = 0; mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK; i++) {
            check_shrunk(batch, i < BEFORE + IN_SLOTS ? TOKENS : TOKENS / 4 + 3, n_seen);
            mr_batch_release(batch);
            if (i == BEFORE - 1) {
                assert_true(is_mapped(loader, path) || !can_tell(path));
                assert_int_equal(truncate(path, (TOKENS / 4 + 3) * sizeof *bytes), 0);
            }
        }
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        assert_int_equal(stats.n_deaths, 0);
        assert_true(n_seen[0] > TOKENS / WINDOW / 8 && n_seen[1] > BEFORE * BATCH);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    free(bytes);
}

/* A row that begins at 4 GiB of a sparse file. */
static void offsets_have_64_bits(void **state)
{
    (void)state;
    const int64_t stride = INT64_C(1) << 31, n = stride + WINDOW + 1;
    char spec[SPEC], path[SPEC / 2];
    snprintf(path, sizeof path, "%s/large", folder);
    mr_test_folder_write(folder, "large", "", 0);
    assert_int_equal(truncate(path, n * 2), 0);
    FILE *file = fopen(path, "r+");
    assert_int_equal(fseeko(file, stride * 2, SEEK_SET), 0);
    assert_int_equal(fwrite("\x39\x30", 2, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    snprintf(spec, sizeof spec, "tokens:%s?dtype=u16&window=%d&stride=%lld", path, WINDOW,
             (long long)stride);
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), 2);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 2;
    options.num_workers = MR_NO_WORKERS;
    options.no_shuffle = true;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    mr_batch *batch;
    assert_ok(mr_loader_next(loader, MR_FOREVER, &batch), mr_loader_error(loader));
    assert_int_equal(element(mr_batch_array(batch, "tokens"), 1, 0), 0x3039);
    assert_int_equal(element(mr_batch_array(batch, "tokens"), 0, 0), 0);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    unlink(path);
}

/* Documents of 1 to N_DOCUMENTS tokens; token i of the file is i. */
enum { N_DOCUMENTS = 40, N_JOINED = N_DOCUMENTS * (N_DOCUMENTS + 1) / 2 };

static void write_documents(void)
{
    int32_t lengths[N_DOCUMENTS];
    for (int i = 0; i < N_DOCUMENTS; i++)
        lengths[i] = i + 1;
    assert_int_equal(mr_test_documents_write(folder, "d", lengths, N_DOCUMENTS), N_JOINED);
}

/* Each token of an epoch is in one row, but for those after the last row. */
static void joined_documents_are_cut_once(void **state)
{
    (void)state;
    write_documents();
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    for (size_t k = 0; k < 3; k++) {
        char spec[SPEC];
        int n_met[N_JOINED] = {0}, n = 0;
        snprintf(spec, sizeof spec, "tokens:%s/d.bin?window=%d&order=megatron", folder, WINDOW);
        mr_dataset *dataset = mr_test_dataset(spec);
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.batch_size = 7;
        options.no_shuffle = true;
        options.num_workers = workers[k];
        mr_loader *loader = mr_test_loader(dataset, NULL, &options);
        mr_batch *batch;
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            const mr_array *tokens = mr_batch_array(batch, "tokens");
            for (int64_t i = 0; i < mr_batch_size(batch) * (int64_t)WINDOW; i++)
                n_met[element(tokens, i / WINDOW, i % WINDOW)]++;
            mr_batch_release(batch);
        }
        for (int i = 0; i < N_JOINED; i++) {
            assert_in_range(n_met[i], 0, 1);
            n += n_met[i];
        }
        assert_int_equal(n, (N_JOINED - 1) / WINDOW * WINDOW);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

/* A row has the tokens of its document, cut and padded. Document i begins at i * (i + 1) / 2. */
static void check_documents(const mr_batch *batch)
{
    const int64_t *indices = mr_batch_data(batch, "index");
    const int32_t *lengths = mr_batch_data(batch, "length");
    const mr_array *tokens = mr_batch_array(batch, "tokens"),
                   *labels = mr_batch_array(batch, "labels");
    int64_t longest = 0;
    for (int64_t row = 0; row < mr_batch_size(batch); row++) {
        const int64_t n = indices[row] + 1, first = indices[row] * n / 2;
        assert_int_equal(lengths[row], n < WINDOW ? n : WINDOW);
        longest = lengths[row] > longest ? lengths[row] : longest;
        for (int64_t i = 0; i < tokens->shape[1]; i++) {
            assert_int_equal(element(tokens, row, i), i < n ? first + i : 0);
            assert_int_equal(element(labels, row, i), i + 1 < n ? first + i + 1 : -100);
        }
    }
    assert_int_equal(tokens->shape[1], longest);
    assert_int_equal(labels->shape[1], longest);
}

static void documents_are_rows_of_their_length(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    write_documents();
    for (uint32_t k = 0; k < 6; k++) {
        char spec[SPEC];
        int64_t n = 0;
        snprintf(spec, sizeof spec, "tokens:%s/d.bin?window=%d&pack=none", folder, WINDOW);
        mr_dataset *dataset = mr_test_dataset(spec);
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.batch_size = 7;
        options.num_workers = workers[k % 3];
        options.dtype = k < 3 ? MR_I32 : MR_I64;
        options.seed = k;
        mr_loader *loader = mr_test_loader(dataset, NULL, &options);
        mr_batch *batch;
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            check_documents(batch);
            n += mr_batch_size(batch);
            mr_batch_release(batch);
        }
        assert_int_equal(n, N_DOCUMENTS);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_files),
        cmocka_unit_test(ids_that_cannot_be_are_damage),
        cmocka_unit_test(a_file_that_shrinks_is_damage),
        cmocka_unit_test(a_mapped_file_that_shrinks_is_damage),
        cmocka_unit_test(offsets_have_64_bits),
        cmocka_unit_test(joined_documents_are_cut_once),
        cmocka_unit_test(documents_are_rows_of_their_length),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
