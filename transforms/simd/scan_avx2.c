/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of JPEGs: the loops over symbols, compiled for BMI2, which machines with AVX2 have. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/scan_lanes.h"

uint32_t mr_scan_store_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu,
                            uint32_t n, int16_t (*blocks)[64])
{
    return run_mcus(reader, mcu, n, true, blocks);
}

uint32_t mr_scan_skip_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n)
{
    return run_mcus(reader, mcu, n, false, NULL);
}

uint32_t mr_scan_lanes_avx2(struct mr_scan_lane *const *lanes, uint32_t n,
                            const struct mr_scan_mcu *mcu)
{
    return run_any_lanes(lanes, n, mcu);
}
