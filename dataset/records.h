/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-size records in files. CIFAR-10 is one case of them. */
#ifndef DATASET_RECORDS_H
#define DATASET_RECORDS_H

#include "base/sample_kind.h"
#include "dataset/catalog_format.h"
#include "dataset/kind.h"

mr_kind_open_fn mr_records_open;
mr_kind_open_fn mr_records_open_cifar10;

/* The keys of a SPEC, resolved and checked. All numbers are bytes. */
struct mr_record_layout {
    int64_t header;
    int64_t stride;
    int64_t label_off; /* from the data's start */
    int64_t label_len; /* 0: no label */
    bool widen;        /* the label is an integer that becomes an int64 */
    struct mr_sample_kind kind;
};

/* Bytes of a record, counted from the start of its data. */
int64_t mr_records_needed(const struct mr_record_layout *layout);
/* Number of records in a file of size bytes. No record extends into the next file. */
uint64_t mr_records_in(const struct mr_record_layout *layout, int64_t size);
/* The byte ranges to read for a record: one part if data and label are close together, else two. */
void mr_records_parts(const struct mr_record_layout *layout, struct mr_catalog_record *record_out);

#endif
