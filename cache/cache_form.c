/* SPDX-License-Identifier: Apache-2.0 */
/* What the two forms of a cache need: features of the machine, and space. */
#include "cache/cache_form.h"

#include "base/packed_image.h"
#include "cache/cache_key.h"
#include "transforms/codec.h"
#include "transforms/packed_selftest.h"

/*
 * Number of files whose sizes are read. The sizes of photographs deviate by half of their mean, so
 * the estimate of the mean is right to 5 %.
 */
enum { N_LOOKED = 128 };
/*
 * Relative to the bytes of the files: coefficients take about 132 %, their records a little more.
 */
enum { DCT_PERCENT = 140 };

mr_status mr_cache_form_check(uint32_t encoding, bool stock_jpeg, mr_error *error)
{
    static const char needs[] = "an index of JPEG files needs millrace's own decoder";
    mr_error why;
    if (encoding == MR_PACKED_JPEG)
        return MR_OK;
    if (encoding != MR_PACKED_MARKED)
        return mr_packed_selftest_check(error);
    if (stock_jpeg || mr_codec_stock_jpeg_asked())
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s, which %s turns off", needs,
                            stock_jpeg ? "jpeg_decoder stock" : "MR_JPEG=stock");
    mr_status status = mr_packed_selftest_check_marks(&why);
    if (status == MR_OK)
        return MR_OK;
    return mr_error_set(error, status, "%s: %s", needs, why.text);
}

uint64_t mr_cache_form_estimate(const struct mr_catalog *catalog)
{
    uint64_t n = (uint64_t)mr_catalog_count(catalog), n_seen = 0;
    uint64_t n_looked = n < N_LOOKED ? n : N_LOOKED;
    double bytes = 0;
    for (uint64_t i = 0; i < n_looked; i++) {
        struct mr_cache_version version;
        uint64_t index = n / n_looked * i + n % n_looked * i / n_looked;
        if (mr_cache_key_stat(catalog, (int64_t)index, &version) != 0)
            continue;
        bytes += (double)mr_cache_key_range(catalog, (int64_t)index, &version).len;
        bytes += (double)mr_cache_key_member_bytes(catalog, (int64_t)index) * 100 / DCT_PERCENT;
        n_seen++;
    }
    if (n_seen == 0)
        return 0;
    bytes = bytes / (double)n_seen * (double)n * DCT_PERCENT / 100;
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}
