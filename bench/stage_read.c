/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: reading whole files, several in flight, with both readers. After the warm-up the pages are
 * in the cache.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "dataset/reader/reader.h"

#include <string.h>

enum { DEPTH = 4 }; /* the loader's default */

static bool is_right(const struct mr_photos *photos, const struct mr_read *read, bool compare)
{
    const struct mr_photo *photo = &photos->photo[read->tag];
    return read->status == MR_OK && read->part[0].len == photo->len &&
           (!compare || memcmp(read->part[0].bytes, photo->bytes, photo->len) == 0);
}

static void read_all(struct mr_reader *reader, const struct mr_photos *photos, struct mr_run *run)
{
    struct mr_read read;
    uint64_t next = 0;
    while (next < photos->n || mr_reader_n_pending(reader) > 0) {
        while (next < photos->n && mr_reader_n_busy(reader) < DEPTH) {
            struct mr_part_list list;
            mr_catalog_parts(mr_dataset_catalog(photos->dataset), photos->photo[next].index,
                             UINT64_MAX, &list);
            mr_reader_submit(reader, next, photos->photo[next].index, &list);
            next++;
        }
        if (!mr_reader_reap(reader, true, &read))
            break;
        run->n_items++;
        run->n_wrong += !is_right(photos, &read, run->check);
        mr_reader_recycle(reader, &read);
    }
    run->n_wrong += photos->n - run->n_items;
    run->n_items = photos->n;
}

static mr_status run_kind(struct mr_photos *photos, mr_reader_kind kind, struct mr_run *run,
                          mr_error *error)
{
    const struct mr_reader_options options = {.kind = kind, .depth = DEPTH};
    struct mr_reader *reader;
    mr_status status =
        mr_reader_create(mr_dataset_catalog(photos->dataset), &options, &reader, error);
    if (status != MR_OK)
        return status;
    uint64_t start = mr_clock_now_ns();
    read_all(reader, photos, run);
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    mr_reader_destroy(reader);
    return MR_OK;
}

static mr_status run_pread(void *user, struct mr_run *run, mr_error *error)
{
    return run_kind(user, MR_READER_PREAD, run, error);
}

static mr_status run_uring(void *user, struct mr_run *run, mr_error *error)
{
    return run_kind(user, MR_READER_URING, run, error);
}

void mr_stage_read_add(struct mr_engine *engine, struct mr_photos *photos)
{
    const struct mr_reader_options options = {.kind = MR_READER_URING, .depth = 1};
    struct mr_reader *probe;
    mr_error why;
    mr_engine_add(engine, "read, pread", run_pread, photos);
    if (mr_reader_create(mr_dataset_catalog(photos->dataset), &options, &probe, &why) != MR_OK) {
        mr_engine_fact(engine, "io_uring", why.text);
        return;
    }
    mr_reader_destroy(probe);
    mr_engine_add(engine, "read, io_uring", run_uring, photos);
}
