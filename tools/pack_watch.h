/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pack, check and unpack have in common: opening the dataset, the live line, lines about
 * samples, and how a call ended.
 */
#ifndef TOOLS_PACK_WATCH_H
#define TOOLS_PACK_WATCH_H

#include <limits.h>
#include <stdio.h>

#include <millrace/pack.h>

#include "tools/arg_value.h"
#include "tools/progress.h"

/* A path, each byte escaped, after "pack:". */
enum { MR_PACK_WATCH_SPEC_BYTES = 3 * PATH_MAX + 8 };

struct mr_pack_watch {
    struct mr_progress progress;
    const char *verb;   /* "packing" */
    bool goes_on;       /* after an interruption the same command goes on */
    uint64_t max_named; /* notices that are printed; 0: all */
    uint64_t n_notices;
};

/*
 * Open a dataset of a SPEC; a folder that holds a pack, complete or not, is that pack. Returns the
 * exit status, after a message where it is not MR_EXIT_OK.
 */
int mr_pack_watch_open(struct mr_pack_watch *watch, const char *text,
                       const mr_dataset_options *options, mr_dataset **dataset_out);

/*
 * The SPEC of what the user named: the text itself, or for a folder that holds a pack "pack:" and
 * its path, escaped, in spec_out.
 */
const char *mr_pack_watch_spec(const char *text, char spec_out[MR_PACK_WATCH_SPEC_BYTES]);

/* The option --jpeg of commands that decode JPEGs: its help and its values. */
#define MR_PACK_WATCH_JPEG_HELP                                                                    \
    "How JPEGs are decoded (default auto: by millrace's own decoder where libjpeg-turbo allows "   \
    "it)"
extern const struct mr_arg_choice mr_pack_watch_decoders[];

/* Is it a directory without a pack in it? */
bool mr_pack_watch_is_folder(const char *path);

/* Catch interruptions, and set progress, notice and user of options: notices go to stderr. */
void mr_pack_watch_begin(struct mr_pack_watch *watch, mr_pack_options *options);
/* Remove the live line; print what went wrong. Returns the exit status. */
int mr_pack_watch_end(struct mr_pack_watch *watch, mr_status status, const mr_error *error);

/* "name: text" without bytes that would disturb a terminal. */
void mr_pack_watch_line(FILE *stream, const char *name, const char *text);

/* A number of bytes as "12.3 MB". */
struct mr_pack_watch_size {
    char text[32];
};
struct mr_pack_watch_size mr_pack_watch_bytes(uint64_t n_bytes);

#endif
