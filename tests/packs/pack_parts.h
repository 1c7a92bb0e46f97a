/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder with two packs of the same samples: "p" is unfinished, "whole" is complete.
 */
#ifndef TESTS_PACKS_PACK_PARTS_H
#define TESTS_PACKS_PACK_PARTS_H

#include "tests/dataset/invented_pack.h"
#include "tests/dataset/tree.h"

enum { PARTS_N = 14, PARTS_SHARD = 3000 };

/* Make the folder with "whole", and with the first n_stop samples of "p" (0: no "p"). */
void begin_tree(struct tree *tree, struct mr_pack_writer_options *options, uint64_t n_stop);
/* Continue "p" until n_stop samples are written. */
void write_part(const struct tree *tree, const struct mr_pack_writer_options *options,
                uint64_t n_stop);
/* Number of samples that are kept when packing continues: those of finished shards. */
uint64_t n_there(const struct tree *tree, const struct mr_pack_writer_options *options);
/* Continue "p" to the end, and expect the bytes of "whole". */
void expect_goes_on(const struct tree *tree, const struct mr_pack_writer_options *options);

/* The first sample of the shard of "whole" that contains this sample. */
uint64_t first_in_shard(const struct tree *tree, uint64_t sample);

int n_entries(const char *path);
/* Expect two folders with the same files and bytes. n_call is for the message. */
void expect_same(const struct tree *tree, const char *a, const char *b, unsigned n_call);
void remove_pack(const struct tree *tree, const char *name);

#endif
