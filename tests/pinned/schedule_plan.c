/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a schedule: devices, sizes, dtype, layout, placement, the double's policy.
 *
 * Invariant: every draw is made whatever the wish is; otherwise a wish would change the draws after
 * it.
 */
#include "tests/pinned/plain_columns.h"
#include "tests/pinned/schedule_plan.h"

#include <stdio.h>
#include <string.h>

uint64_t schedule_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t schedule_draw(struct schedule_plan *plan, uint32_t n)
{
    return (uint32_t)((schedule_random(&plan->random) >> 32) * n >> 32);
}

static void draw_devices(struct schedule_plan *plan, const struct schedule_wish *wish)
{
    int32_t order[SCHEDULE_GPUS];
    for (int32_t i = 0; i < SCHEDULE_GPUS; i++) {
        uint32_t at = schedule_draw(plan, (uint32_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    plan->n_parts = 1u << schedule_draw(plan, 3);
    plan->labels = (enum schedule_labels)schedule_draw(plan, 3);
    if (wish->n_parts != 0)
        plan->n_parts = wish->n_parts;
    if (wish->labels != 0)
        plan->labels = (enum schedule_labels)(wish->labels - 1);
    if (plan->n_parts > 1 && plan->labels == LABELS_ON_ANOTHER_GPU)
        plan->labels = LABELS_WITH_IMAGES; /* one GPU may not have the labels of several parts */
    memcpy(plan->gpus, order, sizeof plan->gpus);
    plan->label_gpu = order[SCHEDULE_MAX_PARTS];
}

static void draw_finish(struct schedule_plan *plan, const struct schedule_wish *wish)
{
    static const uint32_t channels[] = {1, 3, 4};
    static const uint32_t dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    struct mr_finish *f = &plan->oracle.finish;
    *f = (struct mr_finish){.needed = schedule_draw(plan, 4) != 0,
                            .height = 1 + schedule_draw(plan, 4),
                            .width = 1 + schedule_draw(plan, 5),
                            .channels = channels[schedule_draw(plan, 3)],
                            .layout = schedule_draw(plan, 2),
                            .dtype = dtypes[schedule_draw(plan, 4)],
                            .exact = schedule_draw(plan, 4) == 0};
    f->needed = (f->needed || wish->finished) && !wish->plain;
    f->exact = f->exact && f->dtype != MR_U8;
    uint32_t pad = schedule_draw(plan, 3) * 4;
    f->out_channels = pad > f->channels ? pad : f->channels;
    for (uint32_t c = 0; c < MR_FINISH_CHANNELS; c++) {
        f->scale[c] = (float)(1 + schedule_draw(plan, 1000)) / 30000.0f;
        f->bias[c] = ((float)schedule_draw(plan, 2000) - 1000.0f) / 300.0f;
        for (uint32_t x = 0; x < 256; x++)
            f->table[c][x] =
                f->exact ? (float)(int32_t)(schedule_random(&plan->random) >> 40) / 9973.0f - 800.0f
                         : 0;
    }
}

static void draw_layout(struct schedule_plan *plan)
{
    struct oracle *o = &plan->oracle;
    uint32_t batch_size = 1 + schedule_draw(plan, 8);
    uint64_t sample_bytes = 1 + schedule_draw(plan, 60);
    uint64_t label_bytes = schedule_draw(plan, 4) == 0 ? 1 + schedule_draw(plan, 20) : 8;
    o->row_bytes = sample_bytes;
    if (o->finish.needed) {
        uint64_t area = (uint64_t)o->finish.height * o->finish.width;
        sample_bytes = area * o->finish.channels;
        o->row_bytes = area * o->finish.out_channels * mr_dtype_size((mr_dtype)o->finish.dtype);
    }
    mr_status status = mr_slot_layout_init(
        &o->layout,
        &(struct mr_slot_shape){.n_slots = plan->n_slots,
                                .n_workers = 1,
                                .batch_size = batch_size,
                                .columns = PLAIN_COLUMNS(sample_bytes, label_bytes)},
        NULL);
    if (status != MR_OK)
        memset(&o->layout, 0, sizeof o->layout);
}

void schedule_plan_init(struct schedule_plan *plan, uint64_t seed, const struct schedule_wish *wish)
{
    static const struct schedule_wish none;
    if (wish == NULL)
        wish = &none;
    memset(plan, 0, sizeof *plan);
    plan->random = seed;
    plan->policy = schedule_draw(plan, 3);
    plan->n_slots = 2 + schedule_draw(plan, SCHEDULE_MAX_SLOTS - 1);
    plan->n_buffers = 2 + schedule_draw(plan, SCHEDULE_MAX_BUFFERS - 1);
    plan->n_batches = 4 + schedule_draw(plan, SCHEDULE_MAX_BATCHES - 3);
    draw_devices(plan, wish);
    draw_finish(plan, wish);
    draw_layout(plan);
    plan->pageable = schedule_draw(plan, 4) == 0 || wish->pageable;
    plan->overlaps = schedule_draw(plan, 2) == 0 || wish->overlaps;
}

mr_status schedule_plan_place(const struct schedule_plan *plan, const struct mr_device_ops *cuda,
                              struct mr_placement *placement_out, mr_error *error)
{
    char text[SCHEDULE_MAX_PARTS + 1][16];
    const char *devices[SCHEDULE_MAX_PARTS];
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        snprintf(text[i], sizeof text[i], "cuda:%d", plan->gpus[i]);
        devices[i] = text[i];
    }
    snprintf(text[SCHEDULE_MAX_PARTS], sizeof text[0], "cuda:%d", plan->label_gpu);
    struct mr_placement_names names = {0};
    if (plan->n_parts == 1)
        names.device = text[0];
    else
        names = (struct mr_placement_names){.devices = devices, .n_devices = plan->n_parts};
    if (plan->labels != LABELS_WITH_IMAGES)
        names.label_device = plan->labels == LABELS_ON_HOST ? "host" : text[SCHEDULE_MAX_PARTS];
    mr_status status = mr_placement_resolve(&names, placement_out, error);
    for (uint32_t i = 0; status == MR_OK && i < placement_out->n_devices; i++)
        if (placement_out->devices[i].ops->kind == MR_DEVICE_CUDA)
            placement_out->devices[i].ops = cuda;
    return status;
}

void schedule_plan_print(const struct schedule_plan *plan, char *line, size_t len)
{
    const struct oracle *o = &plan->oracle;
    char finish[64] = "no finish";
    if (o->finish.needed)
        snprintf(finish, sizeof finish, "%ux%ux%u to %s %s x%u%s", o->finish.height,
                 o->finish.width, o->finish.channels, mr_dtype_name((mr_dtype)o->finish.dtype),
                 o->finish.layout == MR_NCHW ? "nchw" : "nhwc", o->finish.out_channels,
                 o->finish.exact ? " exact" : "");
    snprintf(line, len,
             "%u parts, labels %d, %u slots, %u buffers, %u batches of %u, policy %u, %s%s%s",
             plan->n_parts, (int)plan->labels, plan->n_slots, plan->n_buffers, plan->n_batches,
             o->layout.batch_size, plan->policy, finish, plan->pageable ? ", pageable" : "",
             plan->overlaps ? ", overlapped" : "");
}
