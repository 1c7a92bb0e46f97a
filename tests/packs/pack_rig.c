/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of a folder for tests. Progress is reported when a time has passed. To cancel at a
 * certain sample, its notice sleeps for that time; both are called in the same thread.
 */
#include "tests/packs/pack_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/pack_format.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/packs.h"
#include "tests/support/processes.h"

int pack_rig_set_up(void **state)
{
    struct pack_rig *rig = calloc(1, sizeof *rig);
    mr_error error;
    if (!rig)
        return -1;
    rig->folder = mr_test_folder_create();
    snprintf(rig->photos, sizeof rig->photos, "%s/photos", rig->folder);
    rig->n = mr_test_packs_fill(rig->photos);
    *state = rig;
    return mr_dataset_open(rig->photos, NULL, &rig->dataset, &error) == MR_OK ? 0 : -1;
}

int pack_rig_tear_down(void **state)
{
    struct pack_rig *rig = *state;
    mr_dataset_destroy(rig->dataset);
    free(rig);
    return 0;
}

int pack_rig_forget(void **state)
{
    struct pack_rig *rig = *state;
    rig->n_notices = rig->n_progress = 0;
    rig->cancel_soon = false;
    return 0;
}

static void keep_notice(void *user, int64_t index, const char *name, const char *text)
{
    struct pack_rig *rig = user;
    assert_true(rig->n_notices < PACK_RIG_NOTICES);
    rig->noticed[rig->n_notices] = index;
    snprintf(rig->names[rig->n_notices], sizeof rig->names[0], "%s", name);
    snprintf(rig->texts[rig->n_notices++], sizeof rig->texts[0], "%s", text);
    if (rig->cancel_soon)
        mr_test_sleep_ms(150); /* the next call of progress is due */
}

static bool keep_progress(void *user, const mr_pack_progress *progress)
{
    struct pack_rig *rig = user;
    assert_int_equal(progress->struct_size, sizeof *progress);
    rig->n_progress++;
    rig->last = *progress;
    return rig->cancel_soon && progress->n_done > progress->n_resumed;
}

mr_pack_options pack_rig_options(struct pack_rig *rig)
{
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    options.num_workers = 2;
    options.progress = keep_progress;
    options.notice = keep_notice;
    options.user = rig;
    return options;
}

const char *pack_rig_path(const struct pack_rig *rig, const char *name)
{
    static char paths[4][PACK_RIG_PATH];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PACK_RIG_PATH, "%s/%s", rig->folder, name);
    return path;
}

mr_pack_report pack_rig_pack(const struct pack_rig *rig, const char *name,
                             const mr_pack_options *options)
{
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    if (mr_dataset_pack(rig->dataset, pack_rig_path(rig, name), options, &report, &error) != MR_OK)
        fail_msg("%s", error.text);
    return report;
}

mr_dataset *pack_rig_open(const struct pack_rig *rig, const char *name)
{
    char spec[PACK_RIG_PATH + 8];
    snprintf(spec, sizeof spec, "pack:%s", pack_rig_path(rig, name));
    return mr_test_dataset(spec);
}

mr_pack_report pack_rig_unpack(const struct pack_rig *rig, const char *pack, const char *name,
                               const mr_pack_options *options)
{
    mr_dataset *dataset = pack_rig_open(rig, pack);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    if (mr_pack_unpack(dataset, pack_rig_path(rig, name), options, &report, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_dataset_destroy(dataset);
    return report;
}

uint8_t *pack_rig_read(const char *path, size_t *len_out)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &st) != 0)
        fail_msg("%s cannot be read", path);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)st.st_size, file), st.st_size);
    fclose(file);
    *len_out = (size_t)st.st_size;
    return bytes;
}

bool pack_rig_same_bytes(const char *a, const char *b)
{
    size_t a_len, b_len;
    uint8_t *a_bytes = pack_rig_read(a, &a_len), *b_bytes = pack_rig_read(b, &b_len);
    bool same = a_len == b_len && memcmp(a_bytes, b_bytes, a_len) == 0;
    free(a_bytes);
    free(b_bytes);
    return same;
}

void pack_rig_assert_same(const struct pack_rig *rig, const char *a, const char *b)
{
    char x[PACK_RIG_PATH], y[PACK_RIG_PATH], shard[32];
    snprintf(x, sizeof x, "%s/index", pack_rig_path(rig, a));
    snprintf(y, sizeof y, "%s/index", pack_rig_path(rig, b));
    assert_true(pack_rig_same_bytes(x, y));
    snprintf(x, sizeof x, "%s/" MR_PACK_MARKS_FILE, pack_rig_path(rig, a));
    snprintf(y, sizeof y, "%s/" MR_PACK_MARKS_FILE, pack_rig_path(rig, b));
    assert_int_equal(access(x, F_OK), access(y, F_OK));
    assert_true(access(x, F_OK) != 0 || pack_rig_same_bytes(x, y));
    for (unsigned i = 0;; i++) {
        snprintf(shard, sizeof shard, MR_PACK_SHARD, i);
        snprintf(x, sizeof x, "%s/%s", pack_rig_path(rig, a), shard);
        snprintf(y, sizeof y, "%s/%s", pack_rig_path(rig, b), shard);
        if (access(x, F_OK) != 0)
            break;
        assert_true(pack_rig_same_bytes(x, y));
    }
    assert_int_not_equal(access(y, F_OK), 0);
}

const char *pack_rig_name(const struct pack_rig *rig, int64_t index)
{
    static char name[PACK_RIG_PATH];
    assert_true(mr_dataset_name(rig->dataset, index, name, sizeof name) > 0);
    return name + strlen(rig->photos) + 1;
}

bool pack_rig_is_jpeg(const struct pack_rig *rig, int64_t index)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    assert_int_equal(mr_dataset_inspect(rig->dataset, index, &info, NULL), MR_OK);
    return strcmp(info.format, "jpeg") == 0;
}

bool pack_rig_was_noticed(const struct pack_rig *rig, int64_t index)
{
    for (unsigned i = 0; i < rig->n_notices; i++)
        if (rig->noticed[i] == index)
            return true;
    return false;
}
