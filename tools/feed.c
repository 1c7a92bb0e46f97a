/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens dataset, transform and loader for one command. mr_loader_next() continues to wait after a
 * signal, so it is called with short time limits; otherwise Ctrl-C would not be noticed.
 */
#include "tools/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/say.h"
#include "tools/shown_dataset.h"

enum { WAIT_MS = 100, MAX_NAMED = 100 };

/*
 * The text of the loader's default transform: "none" for raw samples, except those of a pack, which
 * were made from images.
 */
static const char *default_transform(mr_dataset *dataset, const char *spec)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;

    if (strncasecmp(spec, "pack:", 5) != 0 && mr_dataset_n_samples(dataset) > 0 &&
        mr_dataset_inspect(dataset, 0, &info, &error) == MR_OK && strcmp(info.format, "raw") == 0)
        return "none";
    return "train:224";
}

/* Append a normalize with the values of --mean and --std. */
static mr_status append_normalize(mr_transform *transform, const struct mr_loader_args *args,
                                  mr_error *error)
{
    char text[256];
    int n = snprintf(text, sizeof text, "normalize(mean=%.17g", args->mean[0]);

    for (unsigned c = 1; c < args->n_channels; c++)
        n += snprintf(text + n, sizeof text - (size_t)n, ":%.17g", args->mean[c]);
    for (unsigned c = 0; c < args->n_channels; c++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%.17g",
                      c > 0 ? ":" : ",std=", args->std[c]);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return mr_transform_append(transform, text, error);
}

static mr_status open_transform(struct mr_feed *feed, const struct mr_loader_args *args,
                                mr_error *error)
{
    mr_status status;

    feed->transform_name =
        args->transform != NULL ? args->transform : default_transform(feed->dataset, args->data);
    if (args->transform == NULL && args->n_channels == 0)
        return MR_OK;
    status = mr_transform_parse(feed->transform_name, &feed->transform, error);
    if (status == MR_OK && args->n_channels > 0)
        status = append_normalize(feed->transform, args, error);
    return status;
}

int mr_feed_open(struct mr_feed *feed, const struct mr_loader_args *args)
{
    struct mr_progress progress;
    mr_error error = {0};

    *feed = (struct mr_feed){0};
    mr_status status =
        mr_shown_dataset_open(&progress, args->data, &args->dataset, &feed->dataset, &error);
    if (status == MR_OK)
        status = open_transform(feed, args, &error);
    if (status == MR_OK && mr_dataset_n_samples(feed->dataset) == 0) {
        /* the library would report a wrong argument */
        mr_say_error("%s has no samples", args->data);
        mr_feed_close(feed);
        return MR_EXIT_FAILED;
    }
    if (status < 0) {
        mr_feed_close(feed);
        return mr_say_status(status, &error);
    }
    mr_interrupt_catch();
    return MR_EXIT_OK;
}

void mr_feed_close(struct mr_feed *feed)
{
    mr_feed_stop(feed);
    mr_transform_destroy(feed->transform);
    mr_dataset_destroy(feed->dataset);
    *feed = (struct mr_feed){0};
}

char *mr_feed_format_transform(const mr_transform *transform)
{
    size_t size = mr_transform_format(transform, NULL, 0) + 1;
    char *text = malloc(size);

    if (text != NULL)
        mr_transform_format(transform, text, size);
    return text;
}

int mr_feed_start(struct mr_feed *feed, const mr_loader_options *options)
{
    mr_error error = {0};
    mr_status status =
        mr_loader_create(feed->dataset, feed->transform, options, &feed->loader, &error);

    return status < 0 ? mr_say_status(status, &error) : MR_EXIT_OK;
}

void mr_feed_stop(struct mr_feed *feed)
{
    mr_loader_destroy(feed->loader);
    feed->loader = NULL;
}

mr_status mr_feed_next(struct mr_feed *feed, void (*idle)(void *user), void *user,
                       mr_batch **batch_out)
{
    mr_status status = MR_PENDING;

    *batch_out = NULL;
    while (status == MR_PENDING) {
        if (mr_interrupt_came())
            return MR_ERR_CANCELED;
        status = mr_loader_next(feed->loader, WAIT_MS, batch_out);
        if (status == MR_PENDING && idle != NULL)
            idle(user);
    }
    return status;
}

int mr_feed_say_status(const struct mr_feed *feed, mr_status status)
{
    if (status == MR_ERR_CANCELED)
        mr_say_error("interrupted");
    else
        mr_say_status(status, mr_loader_error(feed->loader));
    return MR_EXIT_FAILED;
}

void mr_feed_report_damage(const struct mr_feed *feed)
{
    mr_on_error policy = mr_loader_resolved(feed->loader)->on_error;
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    uint64_t n = 0;
    mr_error error;

    if (policy == MR_ON_ERROR_FAIL || mr_loader_get_stats(feed->loader, &stats) < 0 ||
        stats.n_damaged == 0)
        return;
    mr_say_error("damaged samples %s %" PRIu64 " %s; %" PRIu64 " distinct %s:",
                 policy == MR_ON_ERROR_SKIP ? "skipped" : "zeroed", stats.n_damaged,
                 stats.n_damaged == 1 ? "time" : "times", stats.n_damaged_distinct,
                 stats.n_damaged_distinct == 1 ? "sample" : "samples");
    for (; n < MAX_NAMED && mr_loader_damaged(feed->loader, n, &error) == MR_OK; n++)
        mr_say_sample(&error);
    if (stats.n_damaged_distinct > n)
        mr_say_error("and %" PRIu64 " more", stats.n_damaged_distinct - n);
}
