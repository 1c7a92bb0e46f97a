/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop over the symbols of several streams of one scan in turn, so that the lookups of one
 * stream do not wait for those of another. It is compiled once for each number of streams. What a
 * stream needs at each symbol stays in registers; for that, macros name each stream's variables by
 * a constant.
 *
 * If a symbol ends a block or is in no table, its stream continues alone to the next block; then
 * all streams refill and the round starts again.
 */
#ifndef TRANSFORMS_SIMD_SCAN_LANES_H
#define TRANSFORMS_SIMD_SCAN_LANES_H

#include "transforms/simd/scan_loops.h"

enum scan_lane_state { LANE_GOES_ON, LANE_STOPS, LANE_IS_ODD };

/*
 * Decode the DC coefficient of a lane's next block. It is not stored until the block is complete.
 */
INLINE bool begin_block(struct scan_bits *b, struct mr_scan_lane *lane,
                        const struct mr_scan_mcu *mcu)
{
    const struct mr_scan_block *kind = &mcu->blocks[lane->index];
    uint32_t difference;
    refill(b);
    if (UNLIKELY(!take_dc(b, kind->dc, &difference)))
        return false;
    uint32_t dc = (uint32_t)lane->reader->before[kind->component] + difference;
    lane->reader->before[kind->component] = (int32_t)dc;
    b->used = (b->used & 0xff) | 1 << 8;
    if (UNLIKELY((dc + 32768) >> 16))
        return false;
    lane->ac = kind->ac;
    clear_block(*lane->block);
    return true;
}

/* After the symbol of an entry that ends the simple loop. */
INLINE enum scan_lane_state leave_symbols(struct scan_bits *b, struct mr_scan_lane *lane,
                                          const struct mr_scan_mcu *mcu, uint64_t entry)
{
    if (!is_complete(b)) {
        enum scan_block_state state = leave_storing(b, lane->ac, entry, *lane->block);
        if (state != SCAN_COMPLETE)
            return state == SCAN_ODD ? LANE_IS_ODD : LANE_GOES_ON;
    }
    (*lane->block)[0] = (int16_t)lane->reader->before[mcu->blocks[lane->index].component];
    lane->block++;
    if (++lane->index == mcu->n_blocks) {
        lane->index = 0;
        lane->ac = NULL;
        if (--lane->n_mcus == 0 || b->next > lane->reader->stop)
            return LANE_STOPS;
    }
    return begin_block(b, lane, mcu) ? LANE_GOES_ON : LANE_IS_ODD;
}

#define LANES_ALL(DO) DO(0) DO(1) DO(2)

#define LANE_ENTER(i)                                                                              \
    if (n > (i)) {                                                                                 \
        const struct mr_scan_reader *reader = lanes[i]->reader;                                    \
        b[i] =                                                                                     \
            (struct scan_bits){.bits = reader->bits, .next = reader->next, .used = reader->used};  \
        if (!lanes[i]->ac && !begin_block(&b[i], lanes[i], mcu))                                   \
            return n;                                                                              \
        table[i] = lanes[i]->ac;                                                                   \
        block[i] = *lanes[i]->block;                                                               \
    }

#define LANE_REFILL(i)                                                                             \
    if (n > (i))                                                                                   \
        refill(&b[i]);

#define LANE_SYMBOLS(i)                                                                            \
    if (n > (i)) {                                                                                 \
        entry = get_entry(&b[i], table[i]);                                                        \
        if (store_symbols(&b[i], entry, block[i]))                                                 \
            goto leave_##i;                                                                        \
    }

#define LANE_LEAVE(i)                                                                              \
    leave_##i : if (n > (i))                                                                       \
    {                                                                                              \
        state = leave_symbols(&b[i], lanes[i], mcu, entry);                                        \
        table[i] = lanes[i]->ac;                                                                   \
        block[i] = *lanes[i]->block;                                                               \
        which = (i);                                                                               \
        if (state == LANE_GOES_ON)                                                                 \
            continue;                                                                              \
        break;                                                                                     \
    }

#define LANE_RETURN(i)                                                                             \
    if (n > (i)) {                                                                                 \
        lanes[i]->reader->bits = b[i].bits;                                                        \
        lanes[i]->reader->next = b[i].next;                                                        \
        lanes[i]->reader->used = b[i].used;                                                        \
    }

/* As mr_kernel_ops.scan_lanes; n is a constant. */
INLINE uint32_t run_lanes(struct mr_scan_lane *const *lanes, const uint32_t n,
                          const struct mr_scan_mcu *mcu)
{
    static_assert(MR_SCAN_LANES == 3, "LANES_ALL");
    struct scan_bits b[MR_SCAN_LANES];
    const struct mr_scan_ac *table[MR_SCAN_LANES];
    int16_t *block[MR_SCAN_LANES];
    enum scan_lane_state state;
    uint64_t entry;
    uint32_t which;
    LANES_ALL(LANE_ENTER)
    for (;;) {
        LANES_ALL(LANE_REFILL)
        LANES_ALL(LANE_SYMBOLS)
        LANES_ALL(LANE_SYMBOLS)
        LANES_ALL(LANE_SYMBOLS)
        continue;
        LANES_ALL(LANE_LEAVE)
    }
    LANES_ALL(LANE_RETURN)
    return state == LANE_STOPS ? which : n;
}

/* Separate functions: with all three loops in one function, compilers run out of registers. */
APART uint32_t run_lane(struct mr_scan_lane *const *lanes, const struct mr_scan_mcu *mcu)
{
    return run_lanes(lanes, 1, mcu);
}

APART uint32_t run_two_lanes(struct mr_scan_lane *const *lanes, const struct mr_scan_mcu *mcu)
{
    return run_lanes(lanes, 2, mcu);
}

APART uint32_t run_three_lanes(struct mr_scan_lane *const *lanes, const struct mr_scan_mcu *mcu)
{
    return run_lanes(lanes, 3, mcu);
}

INLINE uint32_t run_any_lanes(struct mr_scan_lane *const *lanes, uint32_t n,
                              const struct mr_scan_mcu *mcu)
{
    return n == 1   ? run_lane(lanes, mcu)
           : n == 2 ? run_two_lanes(lanes, mcu)
                    : run_three_lanes(lanes, mcu);
}

#endif
