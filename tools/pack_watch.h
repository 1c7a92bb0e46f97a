/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of pack, check and unpack: opens the dataset, draws the live line, prints lines
 * about samples, and reports the end of the call.
 */
#ifndef TOOLS_PACK_WATCH_H
#define TOOLS_PACK_WATCH_H

#include <limits.h>
#include <stdio.h>

#include <millrace/pack.h>

#include "tools/arg_value.h"
#include "tools/progress.h"

/* Room for "pack:" and a path with every byte escaped. */
enum { MR_PACK_WATCH_SPEC_BYTES = 3 * PATH_MAX + 8 };

struct mr_pack_watch {
    struct mr_progress progress;
    const char *verb;   /* "packing" */
    bool resumes;       /* the same command continues after an interruption */
    uint64_t max_named; /* the most notices to print; 0: all */
    uint64_t n_notices;
};

/*
 * Open the dataset of a SPEC; a folder that holds a pack, complete or not, is opened as that pack.
 * Returns the exit status; unless it is MR_EXIT_OK, a message was printed.
 */
int mr_pack_watch_open(struct mr_pack_watch *watch, const char *text,
                       const mr_dataset_options *options, mr_dataset **dataset_out);

/*
 * The SPEC for the user's argument: the text itself or, for a folder that holds a pack, "pack:" and
 * the escaped path, written to spec_out.
 */
const char *mr_pack_watch_spec(const char *text, char spec_out[MR_PACK_WATCH_SPEC_BYTES]);

/* The option --jpeg of commands that decode JPEGs: its help and its values. */
#define MR_PACK_WATCH_JPEG_HELP                                                                    \
    "JPEG decoder: millrace's own if libjpeg-turbo allows it, or libjpeg-turbo alone (default "    \
    "auto)"
extern const struct mr_arg_choice mr_pack_watch_decoders[];

/* True for a directory that does not hold a pack. */
bool mr_pack_watch_is_folder(const char *path);

/*
 * Catch interruptions, and set progress, notice and user of options. Notices are printed on stderr.
 */
void mr_pack_watch_begin(struct mr_pack_watch *watch, mr_pack_options *options);
/* Erase the live line and print the error, if any. Returns the exit status. */
int mr_pack_watch_end(struct mr_pack_watch *watch, mr_status status, const mr_error *error);

/* Print "name: text", without control characters. */
void mr_pack_watch_line(FILE *stream, const char *name, const char *text);

/* Format a number of bytes as "12.3 MB". */
struct mr_pack_watch_size {
    char text[32];
};
struct mr_pack_watch_size mr_pack_watch_bytes(uint64_t n_bytes);

#endif
