/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/remote_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/shards.h"

struct remote_rig remote_rig;

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    uint32_t i = remote_rig.n_seen;
    assert_true(i < REMOTE_MAX_SEEN);
    remote_rig.seen[i] = *request;
    snprintf(remote_rig.paths[i], sizeof *remote_rig.paths, "%s", request->path);
    remote_rig.n_seen = i + 1;
    if (remote_rig.pause_ms > 0)
        mr_test_sleep_ms(remote_rig.pause_ms);
    return remote_rig.fault;
}

static struct mr_test_image make_image(int i, uint32_t seed)
{
    if (i % 6 == 4)
        return mr_test_png(&(struct mr_test_png){
            .width = 40 + (uint32_t)i, .height = 60, .colour_type = 2, .seed = seed + (uint32_t)i});
    return mr_test_jpeg(&(struct mr_test_jpeg){.width = 60 + (uint32_t)i,
                                               .height = 200 - (uint32_t)i,
                                               .seed = seed + (uint32_t)i,
                                               .progressive = i % 6 == 5});
}

void remote_rig_write_shard(int s, uint32_t seed)
{
    struct mr_test_shard shard = {0};
    char name[64], text[64];
    for (int i = s * REMOTE_EACH; i < (s + 1) * REMOTE_EACH; i++) {
        struct mr_test_image image = make_image(i, seed);
        snprintf(name, sizeof name, "%03d.%s", i, i % 6 == 4 ? "png" : "jpg");
        mr_test_shard_add(&shard, name, image.bytes, image.len);
        mr_test_image_free(&image);
        snprintf(name, sizeof name, "%03d.cls", i);
        snprintf(text, sizeof text, "%d", i * 3);
        mr_test_shard_add_text(&shard, name, text);
        snprintf(name, sizeof name, "%03d.txt", i);
        snprintf(text, sizeof text, "caption %d of %u", i, seed);
        if (i % 5)
            mr_test_shard_add_text(&shard, name, text);
    }
    mr_test_shard_end(&shard);
    snprintf(name, sizeof name, "t-%02d.tar", s);
    mr_test_folder_write(remote_rig.folder, name, shard.bytes, shard.len);
    mr_test_shard_free(&shard);
}

void remote_rig_write_image(int i, uint32_t seed)
{
    char name[64];
    struct mr_test_image image = make_image(i, seed);
    snprintf(name, sizeof name, "i-%03d", i);
    mr_test_folder_write(remote_rig.folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

int remote_rig_set_up(void **state)
{
    (void)state;
    remote_rig.folder = mr_test_folder_create();
    setenv("XDG_CACHE_HOME", remote_rig.folder, 1);
    for (int s = 0; s < REMOTE_SHARDS; s++)
        remote_rig_write_shard(s, 0);
    for (int i = 0; i < REMOTE_N; i++)
        remote_rig_write_image(i, 50);
    remote_rig.fault = MR_TEST_HTTP_GOOD;
    remote_rig.pause_ms = 0;
    remote_rig.verifies = remote_rig.stock = false;
    remote_rig.n_seen = 0;
    remote_rig.server = mr_test_http_start(remote_rig.folder, choose, NULL);
    snprintf(remote_rig.cache, sizeof remote_rig.cache, "%s/cache", remote_rig.folder);
    return 0;
}

int remote_rig_tear_down(void **state)
{
    (void)state;
    if (remote_rig.server)
        mr_test_http_stop(remote_rig.server);
    remote_rig.server = NULL;
    mr_test_folder_remove(remote_rig.folder);
    return 0;
}

void remote_rig_empty_cache(void)
{
    static int n;
    snprintf(remote_rig.cache, sizeof remote_rig.cache, "%s/cache-%d", remote_rig.folder, n++);
}

mr_dataset *remote_rig_open(const char *kind, const char *root)
{
    char spec[4400];
    snprintf(spec, sizeof spec, kind, root);
    return mr_test_dataset(spec);
}

mr_loader_options remote_rig_options(uint32_t n_workers, mr_cache_form form)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 5;
    o.num_workers = n_workers;
    o.n_epochs = REMOTE_EPOCHS;
    o.cache = remote_rig.cache;
    o.cache_form = form;
    o.read_ahead = 8;
#ifdef MR_TEST_TSAN
    o.start = MR_START_THREAD;
#endif
    o.verify_packs = remote_rig.verifies;
    o.jpeg_decoder = remote_rig.stock ? MR_JPEG_STOCK : MR_JPEG_AUTO;
    return o;
}

void remote_rig_oracle(mr_dataset *local, uint64_t digests[REMOTE_EPOCHS])
{
    mr_loader_options o = remote_rig_options(MR_NO_WORKERS, MR_CACHE_FORM_AUTO);
    o.cache = NULL;
    mr_loader *loader = mr_test_loader(local, "train:48", &o);
    for (uint64_t e = 0; e < REMOTE_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        if (epoch.status != MR_END || epoch.n_failures > 0)
            fail_msg("%s", epoch.first_error.text);
        digests[e] = epoch.digest;
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
}

void remote_rig_expect_epoch(mr_loader *loader, uint64_t number,
                             const uint64_t digests[REMOTE_EPOCHS])
{
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, number);
    if (epoch.status != MR_END || epoch.n_failures > 0)
        fail_msg("%s", epoch.n_failures ? epoch.first_error.text : mr_loader_error(loader)->text);
    assert_int_equal(epoch.n_valid, REMOTE_N);
    assert_true(epoch.digest == digests[number]);
    mr_test_epoch_free(&epoch);
}

uint64_t remote_rig_expect_epochs(mr_dataset *remote, const mr_loader_options *o, uint64_t first,
                                  uint64_t n, const uint64_t digests[REMOTE_EPOCHS])
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_options own = *o;
    own.epoch = first;
    own.n_epochs = n;
    mr_loader *loader = mr_test_loader(remote, "train:48", &own);
    for (uint64_t e = first; e < first + n; e++)
        remote_rig_expect_epoch(loader, e, digests);
    mr_loader_get_stats(loader, &stats);
    mr_loader_destroy(loader);
    return stats.n_cached;
}

mr_cache_report remote_rig_count_torn(mr_dataset *dataset, uint64_t most_torn)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(remote_rig.cache, dataset, true, &report, &error), &error);
    assert_int_equal(report.n_damaged, 0);
    assert_in_range(report.n_torn, 0, most_torn);
    return report;
}

mr_cache_report remote_rig_count(mr_dataset *dataset)
{
    return remote_rig_count_torn(dataset, 0);
}
