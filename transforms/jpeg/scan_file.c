/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what our decoder of scans must know of a file from libjpeg's description of it. */
#include "transforms/jpeg/scan_file.h"

#include <string.h>

/* Does the header describe a baseline file of one scan? */
static bool is_one_baseline_scan(const struct jpeg_decompress_struct *cinfo)
{
    int n = cinfo->num_components;
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->comps_in_scan != n)
        return false;
    if (cinfo->Ss != 0 || cinfo->Se != DCTSIZE2 - 1 || cinfo->Ah != 0 || cinfo->Al != 0)
        return false;
    for (int i = 0; i < n; i++)
        if (cinfo->cur_comp_info[i] != &cinfo->comp_info[i])
            return false;
    /* A lone component is decoded block by block, whatever its factors. */
    return n > 1 ||
           (cinfo->comp_info[0].h_samp_factor == 1 && cinfo->comp_info[0].v_samp_factor == 1);
}

static struct mr_scan_code copy_code(const JHUFF_TBL *table)
{
    struct mr_scan_code code;
    memcpy(code.counts, table->bits, sizeof code.counts);
    memcpy(code.symbols, table->huffval, sizeof code.symbols);
    return code;
}

/* jpeg_start_decompress() has checked that the tables exist. */
static bool set_tables(struct mr_jpeg_scan_codes *codes, const struct jpeg_decompress_struct *cinfo)
{
    mr_jpeg_scan_clear_mcu(codes);
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        uint32_t dc = (uint32_t)component->dc_tbl_no, ac = (uint32_t)component->ac_tbl_no;
        struct mr_scan_code dc_code = copy_code(cinfo->dc_huff_tbl_ptrs[dc]);
        struct mr_scan_code ac_code = copy_code(cinfo->ac_huff_tbl_ptrs[ac]);
        if (!mr_jpeg_scan_set_dc(codes, dc, &dc_code) || !mr_jpeg_scan_set_ac(codes, ac, &ac_code))
            return false;
        for (int k = 0; k < component->MCU_blocks; k++)
            mr_jpeg_scan_add_block(codes, (uint32_t)i, dc, ac);
    }
    return true;
}

bool mr_scan_file_set(struct mr_jpeg_scan_codes *codes, const struct jpeg_decompress_struct *cinfo)
{
    return is_one_baseline_scan(cinfo) && set_tables(codes, cinfo);
}

bool mr_scan_file_start(struct mr_jpeg_scan *scan, struct mr_jpeg_scan_codes *codes,
                        const struct jpeg_decompress_struct *cinfo,
                        const struct mr_kernel_ops *kernels)
{
    if (!mr_scan_file_set(codes, cinfo))
        return false;
    mr_jpeg_scan_start(scan, kernels, &codes->mcu, cinfo->src->next_input_byte,
                       cinfo->src->bytes_in_buffer, cinfo->restart_interval);
    return true;
}
