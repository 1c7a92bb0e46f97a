/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a benchmark as JSON: {"meta": {...}, "rows": [{...}, ...]}, and for tune also "answer":
 * {...}. A path may contain bytes that are not UTF-8, which JSON does not allow; in such a text
 * each non-ASCII byte becomes a question mark.
 */
#include "tools/measure/bench_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/say.h"

bool mr_bench_json_check(void)
{
    return true;
}

static json_t *pack_text(const char *value)
{
    json_t *string = json_string(value);

    if (string != NULL)
        return string;
    char *copy = strdup(value);
    if (copy == NULL)
        return NULL;
    for (char *c = copy; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

/* The name of an enum value, as mr_loader_options_set() accepts it. */
static json_t *pack_word(const mr_loader_options *options, const char *name)
{
    char word[32] = "";

    mr_loader_options_get(options, name, word, sizeof word, NULL, NULL);
    return json_string(word);
}

static json_t *pack_meta(const struct mr_bench_meta *meta)
{
    const mr_loader_options *options = &meta->options;

    return json_pack("{s:o, s:o, s:o, s:I, s:o, s:s, s:o, s:i, s:o, s:o, s:i, s:I, s:f, s:f, s:o, "
                     "s:i, s:s, s:s, s:s, s:s}",
                     "command", pack_text(meta->command), "data", pack_text(meta->data), "device",
                     pack_text(meta->device), "n_samples", (json_int_t)meta->n_samples, "transform",
                     pack_text(meta->transform), "dtype", mr_dtype_name(options->dtype), "layout",
                     pack_word(options, "layout"), "batch_size", (int)options->batch_size,
                     "on_error", pack_word(options, "on_error"), "start",
                     pack_word(options, "start"), "n_slots", (int)options->n_slots, "seed",
                     (json_int_t)options->seed, "seconds", meta->seconds, "step_ms", meta->step_ms,
                     "cpu_model", pack_text(meta->cpu_model), "n_cpus", (int)meta->n_cpus, "kernel",
                     meta->kernel, "date", meta->date, "version", mr_version(), "features",
                     mr_features());
}

static json_t *pack_row(const struct mr_bench_row *row)
{
    return json_pack(
        "{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:I, s:s, s:f, s:f, "
        "s:i, s:f, s:o}",
        "workers", (int)row->workers, "img_s", row->img_s, "ratio", row->ratio, "cpu_s_per_1000",
        row->cpu_s_per_1000, "host_cpu_s_per_1000", row->host_cpu_s_per_1000, "first_batch_s",
        row->first_batch_s, "p50_gap_ms", row->p50_gap_ms, "p99_gap_ms", row->p99_gap_ms,
        "peak_pss_mb", row->peak_pss_mb, "failed", (json_int_t)row->n_failed, "images",
        (json_int_t)row->n_images, "batches", (json_int_t)row->n_batches, "seconds", row->seconds,
        "deaths", (json_int_t)row->n_deaths, "reader", row->reader, "h2d_gb_s", row->h2d_gb_s,
        "ready_share", row->ready_share, "round", (int)row->round, "read_mb_s", row->read_mb_s,
        "verdict", pack_text(row->verdict));
}

static json_t *pack_count(const struct mr_tune_count *count)
{
    double n = count->n_rounds;
    const struct mr_bench_shares *shares = &count->shares;

    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:b, s:f, s:f, s:f, s:f, s:f}", "workers",
                     (int)count->workers, "rounds", (int)count->n_rounds, "of_best", count->ratio,
                     "lowest", count->lowest, "highest", count->highest, "within_noise",
                     (int)count->in_noise, "cpu_share", shares->cpu / n, "queue_share",
                     shares->queue / n, "slot_share", shares->slot / n, "read_share",
                     shares->read / n, "consumer_wait_share", shares->consumer / n);
}

/* JSON's null if there is no answer; NULL: no memory. */
static json_t *pack_answer(const struct mr_tune_answer *answer)
{
    if (answer == NULL)
        return json_null();
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < answer->n; i++)
        good = json_array_append_new(list, pack_count(&answer->counts[i])) == 0;
    const struct mr_tune_count *pick = &answer->counts[answer->pick];
    json_t *packed =
        good ? json_pack("{s:i, s:i, s:f, s:f, s:s, s:s, s:O}", "workers", (int)pick->workers,
                         "best_workers", (int)answer->counts[answer->best].workers, "img_s",
                         answer->img_s, "of_best", pick->ratio, "reason",
                         mr_tune_pick_name(answer->reason), "why", answer->why, "counts", list)
             : NULL;
    json_decref(list);
    return packed;
}

static char *format_all(const struct mr_bench_meta *meta, const struct mr_bench_row *rows, size_t n,
                        const struct mr_tune_answer *answer)
{
    json_t *list = json_array();
    json_t *packed = pack_answer(answer);
    bool good = list != NULL && packed != NULL;

    for (size_t i = 0; good && i < n; i++)
        good = json_array_append_new(list, pack_row(&rows[i])) == 0;
    json_t *all = good ? json_pack("{s:o, s:O}", "meta", pack_meta(meta), "rows", list) : NULL;
    if (all != NULL && answer != NULL && json_object_set(all, "answer", packed) != 0) {
        json_decref(all);
        all = NULL;
    }
    char *dumped = all != NULL ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    json_decref(list);
    json_decref(packed);
    return dumped;
}

bool mr_bench_json_store(struct mr_outlet *outlet, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n,
                         const struct mr_tune_answer *answer)
{
    char *dumped = format_all(meta, rows, n, answer);
    bool good = false;

    if (dumped == NULL) {
        mr_say_error("%s: the results cannot be written as JSON", outlet->path);
        return false;
    }
    size_t len = strlen(dumped);
    dumped[len] = '\n'; /* replaces the NUL */
    good = mr_outlet_store(outlet, dumped, len + 1);
    free(dumped);
    return good;
}
