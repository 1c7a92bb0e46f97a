/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of element types and layouts. */
#include <millrace/batch.h>

#include "base/words.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [MR_DTYPE_DEFAULT] = {"default", 0},
    [MR_U8] = {"u8", 1},
    [MR_F32] = {"f32", 4},
    [MR_F16] = {"f16", 2},
    [MR_BF16] = {"bf16", 2},
    [MR_F64] = {"f64", 8},
    [MR_I8] = {"i8", 1},
    [MR_U16] = {"u16", 2},
    [MR_I16] = {"i16", 2},
    [MR_I32] = {"i32", 4},
    [MR_I64] = {"i64", 8},
    [MR_U32] = {"u32", 4},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

size_t mr_dtype_size(mr_dtype dtype)
{
    return (unsigned)dtype < N_DTYPES ? dtypes[dtype].size : 0;
}

const char *mr_dtype_name(mr_dtype dtype)
{
    return (unsigned)dtype < N_DTYPES ? dtypes[dtype].name : "?";
}

mr_status mr_dtype_parse(const char *name, mr_dtype *dtype_out)
{
    for (unsigned i = 1; name && dtype_out && i < N_DTYPES; i++) {
        if (mr_word_is(name, dtypes[i].name)) {
            *dtype_out = (mr_dtype)i;
            return MR_OK;
        }
    }
    return MR_ERR_INVALID;
}
