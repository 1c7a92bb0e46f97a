/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dataset, transform and loader of one run of the command. Functions that return int return an exit
 * status.
 */
#ifndef TOOLS_FEED_H
#define TOOLS_FEED_H

#include <millrace/millrace.h>

#include "tools/loader_args.h"

struct mr_feed {
    mr_dataset *dataset;
    mr_transform *transform;    /* NULL: the library's default */
    const char *transform_name; /* as given, or the default's */
    mr_loader *loader;          /* NULL between mr_feed_stop() and mr_feed_start() */
};

/*
 * Open dataset and transform; from here on Ctrl-C is a flag. On failure, also without samples,
 * everything is closed.
 */
int mr_feed_open(struct mr_feed *feed, const struct mr_loader_args *args);
void mr_feed_close(struct mr_feed *feed);

/* The long form of a transform, to be freed; NULL: no memory. */
char *mr_feed_format_transform(const mr_transform *transform);

/* Make the loader. */
int mr_feed_start(struct mr_feed *feed, const mr_loader_options *options);
/* End the workers; nothing where there is no loader. */
void mr_feed_stop(struct mr_feed *feed);

/*
 * The next batch: as mr_loader_next() without a time limit, and MR_ERR_CANCELED soon after Ctrl-C.
 * idle, unless NULL, is called several times a second while nothing comes.
 */
mr_status mr_feed_next(struct mr_feed *feed, void (*idle)(void *user), void *user,
                       mr_batch **batch_out);

/*
 * Say what mr_feed_next() returned in place of a batch: "interrupted", or the loader's error.
 * Returns MR_EXIT_FAILED. /
 */
int mr_feed_say_status(const struct mr_feed *feed, mr_status status);

/*
 * Report on stderr how often a damaged sample was skipped or zeroed, how many distinct ones there
 * were, and the names that the library kept. Prints nothing if there are none.
 */
void mr_feed_report_damage(const struct mr_feed *feed);

#endif
