/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of JPEGs: clean bytes, and the loops over symbols for any machine. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/scan_loops.h"

#define STUFFED 0xff

size_t mr_scan_clean_c(const uint8_t **from, const uint8_t *end, uint8_t *to, size_t room)
{
    const uint8_t *at = *from;
    size_t written = 0;
    while (written < room && at < end) {
        size_t left = (size_t)(end - at), n = left < room - written ? left : room - written;
        const uint8_t *found = memchr(at, STUFFED, n);
        n = found ? (size_t)(found - at) : n;
        memcpy(to + written, at, n);
        written += n;
        at += n;
        if (!found)
            continue;
        if (end - at < 2 || at[1] != 0)
            break;
        to[written++] = STUFFED;
        at += 2;
    }
    *from = at;
    return written;
}

uint32_t mr_scan_store_c(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n,
                         int16_t (*blocks)[64])
{
    return run_mcus(reader, mcu, n, true, blocks);
}

uint32_t mr_scan_skip_c(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n)
{
    return run_mcus(reader, mcu, n, false, NULL);
}
