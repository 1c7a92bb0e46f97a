/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each byte of a region the last write and the reads since then, stored for ranges of bytes
 * that were always touched together. Accesses are judged in the order in which they were issued,
 * which every legal order of running respects: no operation is ever ordered before one that was
 * issued earlier.
 *
 * Invariant: a write replaces the reads before it only because it has just been compared with each
 * of them.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

struct double_segment {
    size_t begin;
    size_t end;
    struct double_epoch write; /* step 0: none yet */
    struct double_epoch *reads;
    uint32_t n_reads;
};

void double_shadow_init(struct double_shadow *shadow, size_t len)
{
    shadow->room = 4;
    shadow->segments = double_machine_alloc(shadow->room * sizeof *shadow->segments);
    shadow->n = 1;
    shadow->segments[0].end = len;
}

void double_shadow_fini(struct double_shadow *shadow)
{
    for (uint32_t i = 0; i < shadow->n; i++)
        free(shadow->segments[i].reads);
    free(shadow->segments);
    *shadow = (struct double_shadow){0};
}

static void make_room(struct double_shadow *shadow)
{
    if (shadow->n < shadow->room)
        return;
    struct double_segment *segments = double_machine_alloc(2u * shadow->room * sizeof *segments);
    memcpy(segments, shadow->segments, shadow->n * sizeof *segments);
    free(shadow->segments);
    shadow->segments = segments;
    shadow->room *= 2;
}

/* Index of the segment that begins at `at`; splits a segment if necessary. */
static uint32_t split(struct double_shadow *shadow, size_t at)
{
    uint32_t low = 0, high = shadow->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shadow->segments[middle].begin < at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < shadow->n && shadow->segments[low].begin == at)
        return low;
    if (low == shadow->n && shadow->segments[low - 1].end == at)
        return low;
    make_room(shadow);
    struct double_segment *left = &shadow->segments[low - 1];
    memmove(left + 2, left + 1, (shadow->n - low) * sizeof *left);
    struct double_segment *right = left + 1;
    *right = *left;
    right->begin = left->end = at;
    right->reads = NULL;
    if (left->n_reads > 0) {
        right->reads = double_machine_alloc(left->n_reads * sizeof *right->reads);
        memcpy(right->reads, left->reads, left->n_reads * sizeof *right->reads);
    }
    shadow->n++;
    return low;
}

static bool is_before(struct double_epoch earlier, const struct double_clock *clock)
{
    return earlier.step <= double_clock_get(clock, earlier.component);
}

/* True if the two accesses are ordered; otherwise reports them. */
static bool judge(const struct double_region *region, const struct double_segment *segment,
                  struct double_epoch earlier, bool wrote, bool write, struct double_epoch who,
                  const struct double_clock *clock)
{
    if (earlier.step == 0 || is_before(earlier, clock))
        return true;
    char where[32] = "page-locked host";
    if (region->device != DOUBLE_HOST)
        (void)snprintf(where, sizeof where, "device %d's", region->device);
    double_report_add(DOUBLE_UNORDERED,
                      "unordered: %s (%s, step %llu) %s bytes %zu to %zu of %zu of %s memory, %s "
                      "(%s, step %llu) %s them",
                      who.what, who.who, (unsigned long long)who.step, write ? "writes" : "reads",
                      segment->begin, segment->end, region->len, where, earlier.what, earlier.who,
                      (unsigned long long)earlier.step, wrote ? "writes" : "reads");
    return false;
}

static void note_read(struct double_segment *segment, struct double_epoch who)
{
    for (uint32_t i = 0; i < segment->n_reads; i++) {
        if (segment->reads[i].component == who.component) {
            segment->reads[i] = who;
            return;
        }
    }
    struct double_epoch *reads = double_machine_alloc((segment->n_reads + 1u) * sizeof *reads);
    if (segment->n_reads > 0)
        memcpy(reads, segment->reads, segment->n_reads * sizeof *reads);
    free(segment->reads);
    reads[segment->n_reads++] = who;
    segment->reads = reads;
}

/* Make all of [first, last) one segment with this write. */
static void note_write(struct double_shadow *shadow, uint32_t first, uint32_t last,
                       struct double_epoch who)
{
    struct double_segment *segments = shadow->segments;
    for (uint32_t i = first; i < last; i++)
        free(segments[i].reads);
    segments[first].end = segments[last - 1].end;
    segments[first].write = who;
    segments[first].reads = NULL;
    segments[first].n_reads = 0;
    memmove(&segments[first + 1], &segments[last], (shadow->n - last) * sizeof *segments);
    shadow->n -= last - first - 1;
}

void double_shadow_end(struct double_region *region, bool for_hosts, struct double_epoch who,
                       const struct double_clock *clock)
{
    bool fine = true;
    for (uint32_t i = 0; i < region->shadow.n; i++) {
        const struct double_segment *segment = &region->shadow.segments[i];
        if (for_hosts || !segment->write.of_host)
            fine = fine && judge(region, segment, segment->write, true, true, who, clock);
        for (uint32_t r = 0; fine && r < segment->n_reads; r++)
            if (for_hosts || !segment->reads[r].of_host)
                fine = judge(region, segment, segment->reads[r], false, true, who, clock);
    }
}

void double_shadow_touch(struct double_region *region, size_t begin, size_t end, bool write,
                         struct double_epoch who, const struct double_clock *clock)
{
    if (begin >= end)
        return;
    struct double_shadow *shadow = &region->shadow;
    uint32_t first = split(shadow, begin);
    uint32_t last = split(shadow, end);
    bool fine = true; /* one report per access is enough */
    for (uint32_t i = first; i < last; i++) {
        struct double_segment *segment = &shadow->segments[i];
        fine = fine && judge(region, segment, segment->write, true, write, who, clock);
        for (uint32_t r = 0; fine && write && r < segment->n_reads; r++)
            fine = judge(region, segment, segment->reads[r], false, write, who, clock);
        if (!write)
            note_read(segment, who);
    }
    if (write)
        note_write(shadow, first, last, who);
}
