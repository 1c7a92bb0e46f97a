/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of packs: unfinished ones in folder "p", the complete one beside them in folder "whole".
 */
#ifndef TESTS_PACKS_PACK_PARTS_H
#define TESTS_PACKS_PACK_PARTS_H

#include "tests/dataset/invented_pack.h"
#include "tests/dataset/tree.h"

enum { PARTS_N = 14, PARTS_SHARD = 3000 };

/* Make the tree, the whole pack, and one of which n_stop samples are there (0: none). */
void begin_tree(struct tree *tree, struct mr_pack_writer_options *options, uint64_t n_stop);
/* Go on until n_stop are there. */
void write_part(const struct tree *tree, const struct mr_pack_writer_options *options,
                uint64_t n_stop);
/* How many count when packing continues: those of finished shards. */
uint64_t n_there(const struct tree *tree, const struct mr_pack_writer_options *options);
/* Go on to the end: the same bytes as the whole one. */
void expect_goes_on(const struct tree *tree, const struct mr_pack_writer_options *options);

/* The first sample of the shard in which this sample is, of the whole pack. */
uint64_t first_in_shard(const struct tree *tree, uint64_t sample);

int n_entries(const char *path);
/* The same files with the same bytes, and nothing else. n_call is for the message. */
void expect_same(const struct tree *tree, const char *a, const char *b, unsigned n_call);
void remove_pack(const struct tree *tree, const char *name);

#endif
