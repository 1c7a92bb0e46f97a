/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a schedule, all drawn from its seed. */
#ifndef TESTS_PINNED_SCHEDULE_PLAN_H
#define TESTS_PINNED_SCHEDULE_PLAN_H

#include "tests/pinned/schedule_oracle.h"

#include "pinned/placement.h"

#define SCHEDULE_GPUS 5 /* GPUs of the double: up to 4 for images, one more for labels */
#define SCHEDULE_MAX_PARTS 4
#define SCHEDULE_MAX_BUFFERS 4
#define SCHEDULE_MAX_SLOTS 5
#define SCHEDULE_MAX_BATCHES 16

enum schedule_labels { LABELS_WITH_IMAGES, LABELS_ON_ANOTHER_GPU, LABELS_ON_HOST };

struct schedule_plan {
    uint64_t random; /* state; used through the whole run */
    uint32_t n_parts;
    int32_t gpus[SCHEDULE_MAX_PARTS];
    enum schedule_labels labels;
    int32_t label_gpu;
    uint32_t n_slots;
    uint32_t n_buffers;
    uint32_t n_batches;
    uint32_t policy; /* one of the double's: 0 to 2 */
    bool pageable;   /* the system refuses to page-lock the slots */
    bool overlaps;   /* the finish has its own stream */
    struct oracle oracle;
};

/* Fixes some draws; a field of 0 is drawn. */
struct schedule_wish {
    uint32_t n_parts;
    uint32_t labels; /* 1 + enum schedule_labels */
    bool plain;      /* no finish */
    bool finished;   /* with a finish */
    bool pageable;
    bool overlaps;
};

uint64_t schedule_random(uint64_t *state);
/* A number from 0 to n - 1. */
uint32_t schedule_draw(struct schedule_plan *plan, uint32_t n);

void schedule_plan_init(struct schedule_plan *plan, uint64_t seed,
                        const struct schedule_wish *wish);
/* Resolve the names as a program would give them; GPUs use the given table. */
mr_status schedule_plan_place(const struct schedule_plan *plan, const struct mr_device_ops *cuda,
                              struct mr_placement *placement_out, mr_error *error);
/* Describe the plan in one line, for running a seed again. */
void schedule_plan_print(const struct schedule_plan *plan, char *line, size_t len);

#endif
