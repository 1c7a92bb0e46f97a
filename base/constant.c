/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants and struct sizes of the public headers by name. A test compares the table with the
 * headers.
 */
#include <string.h>

#include <millrace/dist.h>
#include <millrace/millrace.h>

#define VALUE(constant)                                                                            \
    {                                                                                              \
        .name = #constant, .value = constant                                                       \
    }
#define SIZE(type)                                                                                 \
    {                                                                                              \
        .name = "sizeof(" #type ")", .value = sizeof(type)                                         \
    }

static const struct {
    const char *name;
    int64_t value;
} constants[] = {
    /* status.h */
    VALUE(MR_VERSION_MAJOR),
    VALUE(MR_VERSION_MINOR),
    VALUE(MR_VERSION_PATCH),
    VALUE(MR_VERSION_NUMBER),
    VALUE(MR_OK),
    VALUE(MR_END),
    VALUE(MR_PENDING),
    VALUE(MR_ERR_INVALID),
    VALUE(MR_ERR_NO_MEMORY),
    VALUE(MR_ERR_IO),
    VALUE(MR_ERR_DAMAGED),
    VALUE(MR_ERR_UNSUPPORTED),
    VALUE(MR_ERR_WORKER),
    VALUE(MR_ERR_CANCELED),
    VALUE(MR_ERR_STATE),
    VALUE(MR_ERR_NO_DEVICE),
    VALUE(MR_ERR_DEVICE),
    VALUE(MR_ERR_TIMEOUT),
    VALUE(MR_ERR_PEER),
    VALUE(MR_FOREVER),
    VALUE(MR_NO_INDEX),
    VALUE(MR_ERROR_TEXT),
    SIZE(mr_error),
    VALUE(MR_LOG_ERROR),
    VALUE(MR_LOG_WARNING),
    VALUE(MR_LOG_INFO),
    /* batch.h */
    VALUE(MR_DTYPE_DEFAULT),
    VALUE(MR_U8),
    VALUE(MR_F32),
    VALUE(MR_F16),
    VALUE(MR_BF16),
    VALUE(MR_F64),
    VALUE(MR_I8),
    VALUE(MR_U16),
    VALUE(MR_I16),
    VALUE(MR_I32),
    VALUE(MR_I64),
    VALUE(MR_U32),
    VALUE(MR_NCHW),
    VALUE(MR_NHWC),
    VALUE(MR_DEVICE_HOST),
    VALUE(MR_DEVICE_CUDA),
    SIZE(mr_device),
    VALUE(MR_MAX_NDIM),
    VALUE(MR_NO_BUFFER),
    SIZE(mr_array),
    /* dataset.h */
    SIZE(mr_dataset_options),
    VALUE(MR_MAX_COLUMNS),
    SIZE(mr_column_form),
    SIZE(mr_sample),
    SIZE(mr_callbacks),
    VALUE(MR_ANNOTATIONS_NONE),
    VALUE(MR_ANNOTATIONS_BOXES),
    VALUE(MR_ANNOTATIONS_VOC),
    VALUE(MR_ANNOTATIONS_COCO),
    VALUE(MR_ANNOTATIONS_DARKNET),
    VALUE(MR_ANNOTATIONS_MASKS),
    SIZE(mr_sample_info),
    /* store.h */
    SIZE(mr_store_report),
    /* transform.h */
    VALUE(MR_EXPLAIN_JSON),
    VALUE(MR_EXPLAIN_WORDS),
    VALUE(MR_EXPLAIN_BRIEF),
    SIZE(mr_explain_options),
    /* sampler.h */
    VALUE(MR_TAIL_PAD),
    VALUE(MR_TAIL_DROP),
    VALUE(MR_TAIL_EXACT),
    VALUE(MR_ORDER_TORCH),
    VALUE(MR_ORDER_KEYED),
    VALUE(MR_REPEAT_TORCHVISION),
    VALUE(MR_REPEAT_TIMM),
    VALUE(MR_MIX_ORDER_EVEN),
    VALUE(MR_MIX_ORDER_MEGATRON),
    VALUE(MR_MIX_STOP_NONE),
    VALUE(MR_MIX_STOP_FIRST),
    VALUE(MR_MIX_STOP_ALL),
    SIZE(mr_sampler_options),
    /* loader.h */
    VALUE(MR_NO_WORKERS),
    VALUE(MR_CACHE_WHEN_IDLE),
    VALUE(MR_MAX_WORKERS),
    VALUE(MR_ON_ERROR_FAIL),
    VALUE(MR_ON_ERROR_SKIP),
    VALUE(MR_ON_ERROR_ZERO),
    VALUE(MR_START_DEFAULT),
    VALUE(MR_START_EXEC),
    VALUE(MR_START_FORK),
    VALUE(MR_START_THREAD),
    VALUE(MR_READER_AUTO),
    VALUE(MR_READER_URING),
    VALUE(MR_READER_PREAD),
    VALUE(MR_JPEG_AUTO),
    VALUE(MR_JPEG_STOCK),
    VALUE(MR_CACHE_FORM_AUTO),
    VALUE(MR_CACHE_FORM_INDEX),
    VALUE(MR_CACHE_FORM_DCT),
    VALUE(MR_AFFINITY_NONE),
    VALUE(MR_AFFINITY_SPREAD),
    VALUE(MR_AFFINITY_LIST),
    SIZE(mr_loader_options),
    VALUE(MR_MAX_DEVICES),
    VALUE(MR_LOADER_STATE_MAX),
    SIZE(mr_loader_stats),
    /* pack.h */
    VALUE(MR_PACK_DEFAULT),
    VALUE(MR_PACK_JPEG),
    VALUE(MR_PACK_RAW),
    VALUE(MR_PACK_DCT),
    VALUE(MR_PACK_MAX_ENCODINGS),
    SIZE(mr_pack_progress),
    SIZE(mr_pack_options),
    SIZE(mr_pack_report),
    /* cache.h */
    SIZE(mr_cache_report),
    /* group.h */
    VALUE(MR_SUM),
    VALUE(MR_MEAN),
    VALUE(MR_MIN),
    VALUE(MR_MAX),
    SIZE(mr_group_options),
    VALUE(MR_NO_COLOR),
    /* launch.h */
    VALUE(MR_MAX_PROCS),
    SIZE(mr_launch_options),
    SIZE(mr_launch_result),
    /* metrics.h */
    VALUE(MR_MAX_METRICS),
    VALUE(MR_METRIC_NAME),
};

mr_status mr_constant(const char *name, int64_t *value_out)
{
    for (size_t i = 0; name && value_out && i < sizeof constants / sizeof *constants; i++) {
        if (strcmp(name, constants[i].name) == 0) {
            *value_out = constants[i].value;
            return MR_OK;
        }
    }
    return MR_ERR_INVALID;
}
