/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dataset, transform and loader of one command. Functions that return int return an exit
 * status.
 */
#ifndef TOOLS_FEED_H
#define TOOLS_FEED_H

#include <millrace/millrace.h>

#include "tools/loader_args.h"

struct mr_feed {
    mr_dataset *dataset;
    mr_transform *transform;    /* NULL: the library's default */
    const char *transform_name; /* as given, or the name of the default */
    mr_loader *loader;          /* NULL between mr_feed_stop() and mr_feed_start() */
};

/*
 * Open dataset and transform, and begin to catch Ctrl-C. An empty dataset is a failure. On failure
 * everything is closed.
 */
int mr_feed_open(struct mr_feed *feed, const struct mr_loader_args *args);
void mr_feed_close(struct mr_feed *feed);

/* The long form of a transform. Ownership: the caller frees it. NULL: no memory. */
char *mr_feed_format_transform(const mr_transform *transform);

/* Create the loader. */
int mr_feed_start(struct mr_feed *feed, const mr_loader_options *options);
/* Destroy the loader, if there is one. */
void mr_feed_stop(struct mr_feed *feed);

/*
 * Like mr_loader_next() without a time limit, but returns MR_ERR_CANCELED soon after Ctrl-C. If
 * idle is not NULL, it is called several times a second while no batch arrives.
 */
mr_status mr_feed_next(struct mr_feed *feed, void (*idle)(void *user), void *user,
                       mr_batch **batch_out);

/*
 * Print why mr_feed_next() returned no batch: "interrupted", or the loader's error. Returns
 * MR_EXIT_FAILED.
 */
int mr_feed_say_status(const struct mr_feed *feed, mr_status status);

/*
 * Print on stderr how often damaged samples were skipped or zeroed, how many distinct ones there
 * were, and their names, as far as the library has recorded them. Prints nothing if there are none.
 */
void mr_feed_report_damage(const struct mr_feed *feed);

#endif
