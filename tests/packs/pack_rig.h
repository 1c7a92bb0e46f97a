/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of pictures, packs of it, and what the calls have told. What fails here ends the test.
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

enum { PACKING_RIG_PATH = 600, PACKING_RIG_NOTICES = 256 };

struct packing_rig {
    char *folder; /* "photos" in it is made once, by mr_test_packs_fill() */
    char photos[PACKING_RIG_PATH];
    int64_t n;
    mr_dataset *dataset;
    unsigned n_notices;
    int64_t noticed[PACKING_RIG_NOTICES];
    char names[PACKING_RIG_NOTICES][200];
    char texts[PACKING_RIG_NOTICES][200];
    unsigned n_progress;
    mr_pack_progress last;
    bool cancel_soon; /* behind the next sample that is worth a word */
};

/* Fixtures of the group, and of each test: nothing has been told yet. */
int packing_rig_set_up(void **state);
int packing_rig_tear_down(void **state);
int packing_rig_forget(void **state);
#define PACKING_TEST(name) cmocka_unit_test_setup(name, packing_rig_forget)

/* Two workers, and all that is told goes to the rig. */
mr_pack_options packing_rig_options(struct packing_rig *rig);
/* A path in the rig's folder; four of them are valid at once. */
const char *packing_rig_path(const struct packing_rig *rig, const char *name);
/* The path of a sample's file below the folder of photos; valid until the next call. */
const char *packing_rig_name(const struct packing_rig *rig, int64_t index);
bool packing_rig_is_jpeg(const struct packing_rig *rig, int64_t index);
bool packing_rig_was_noticed(const struct packing_rig *rig, int64_t index);

mr_pack_report packing_rig_pack(const struct packing_rig *rig, const char *name, const mr_pack_options *options);
mr_dataset *packing_rig_open(const struct packing_rig *rig, const char *name);
mr_pack_report packing_rig_unpack(const struct packing_rig *rig, const char *pack, const char *name,
                                  const mr_pack_options *options);

/* To be freed. */
uint8_t *packing_rig_read(const char *path, size_t *len_out);
bool packing_rig_same_bytes(const char *a, const char *b);
/* Index and shards of two packs, byte for byte. */
void packing_rig_assert_same(const struct packing_rig *rig, const char *a, const char *b);

#endif
