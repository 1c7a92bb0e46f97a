/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of pictures, packs of it, and what the calls reported. A failure in here ends the test.
 */
#ifndef TESTS_PACKS_PACK_RIG_H
#define TESTS_PACKS_PACK_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/millrace.h>

enum { PACK_RIG_PATH = 600, PACK_RIG_NOTICES = 256 };

struct pack_rig {
    char *folder; /* "photos" in it is made once, by mr_test_packs_fill() */
    char photos[PACK_RIG_PATH];
    int64_t n;
    mr_dataset *dataset;
    unsigned n_notices;
    int64_t noticed[PACK_RIG_NOTICES];
    char names[PACK_RIG_NOTICES][200];
    char texts[PACK_RIG_NOTICES][200];
    unsigned n_progress;
    mr_pack_progress last;
    bool cancel_soon; /* cancel after the next sample that has a notice */
};

/* Fixtures of the group; pack_rig_forget() is that of each test and clears what was reported. */
int pack_rig_set_up(void **state);
int pack_rig_tear_down(void **state);
int pack_rig_forget(void **state);
#define PACK_TEST(name) cmocka_unit_test_setup(name, pack_rig_forget)

/* Options with two workers, whose notices and progress are stored in the rig. */
mr_pack_options pack_rig_options(struct pack_rig *rig);
/* A path in the rig's folder; four of them are valid at once. */
const char *pack_rig_path(const struct pack_rig *rig, const char *name);
/* The path of a sample's file below the folder of photos; valid until the next call. */
const char *pack_rig_name(const struct pack_rig *rig, int64_t index);
bool pack_rig_is_jpeg(const struct pack_rig *rig, int64_t index);
bool pack_rig_was_noticed(const struct pack_rig *rig, int64_t index);

mr_pack_report pack_rig_pack(const struct pack_rig *rig, const char *name,
                             const mr_pack_options *options);
mr_dataset *pack_rig_open(const struct pack_rig *rig, const char *name);
mr_pack_report pack_rig_unpack(const struct pack_rig *rig, const char *pack, const char *name,
                               const mr_pack_options *options);

/* Ownership: the caller's, for free(). */
uint8_t *pack_rig_read(const char *path, size_t *len_out);
bool pack_rig_same_bytes(const char *a, const char *b);
/* Expect the same bytes in index, shards and marks of two packs. */
void pack_rig_assert_same(const struct pack_rig *rig, const char *a, const char *b);

#endif
