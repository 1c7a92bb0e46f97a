/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The further members of each sample, as a key of a SPEC lists them: `keep` of tar shards, `extra`
 * of folders and lists. Each member becomes an array of the batch.
 */
#ifndef DATASET_EXTRA_H
#define DATASET_EXTRA_H

#include <millrace/dataset.h>

#include "base/sample_kind.h"
#include "dataset/extent.h"
#include "dataset/spec.h"

struct mr_extra_list {
    uint32_t n;
    uint32_t boxes; /* 1 + the index of the member with the sample's boxes; 0: none */
    mr_annotations annotations;
    struct mr_extra extra[MR_MAX_MEMBERS];
    /* Set if the form has SUFFIX:DIR; they point into the SPEC. */
    const char *suffixes[MR_MAX_MEMBERS];
    const char *folders[MR_MAX_MEMBERS];
};

/*
 * Parse a list such as "txt:4096,json:1024". form: what an item is, "NAME:BYTES" or
 * "NAME:BYTES:SUFFIX:DIR"; its words are used in messages. Names become lower case. Only the last
 * part of an item may contain colons. If the key is absent, the list is empty. The key `boxes`
 * names the member that has the samples' boxes. Returns MR_OK or MR_ERR_INVALID.
 */
mr_status mr_extra_parse(struct mr_spec *spec, const char *key, const char *form,
                         struct mr_extra_list *list_out, mr_error *error);

/*
 * Append a member. False: its name is empty, too long, taken or not allowed, its maximum is outside
 * the limits, or the list is full.
 */
bool mr_extra_add(struct mr_extra_list *list, const char *name, uint64_t max_bytes);

/* The samples have these members. */
void mr_extra_declare(const struct mr_extra_list *list, struct mr_sample_kind *kind);

#endif
