/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of JPEGs: the loops over symbols, compiled for BMI2, which machines with AVX2 have. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/scan_loops.h"

uint32_t mr_scan_store_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu,
                            uint32_t n, int16_t (*blocks)[64])
{
    return run_mcus(reader, mcu, n, true, blocks);
}

uint32_t mr_scan_skip_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n)
{
    return run_mcus(reader, mcu, n, false, NULL);
}
