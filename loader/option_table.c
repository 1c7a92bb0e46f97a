/* SPDX-License-Identifier: Apache-2.0 */
/* The limits and defaults of each single option. resolve.c checks options against each other. */
#include "loader/option_table.h"

#include "base/options.h"

#include <stdio.h>
#include <string.h>

#define TYPE_OF(field)                                                                             \
    _Generic(((mr_loader_options *)NULL)->field,                                                   \
        bool: MR_OPTION_BOOL,                                                                      \
        int32_t: MR_OPTION_I32,                                                                    \
        uint32_t: MR_OPTION_U32,                                                                   \
        uint64_t: MR_OPTION_U64,                                                                   \
        const char *: MR_OPTION_TEXT,                                                              \
        default: MR_OPTION_LIST)
#define PLACE(field) .name = #field, .offset = offsetof(mr_loader_options, field)
#define OPTION(field) PLACE(field), .type = TYPE_OF(field)
/* The length of the list before it. */
#define LENGTH(field) PLACE(field), .type = MR_OPTION_LIST

static const struct mr_option_word dtypes[] = {{"u8", MR_U8},     {"f32", MR_F32}, {"f16", MR_F16},
                                               {"bf16", MR_BF16}, {"f64", MR_F64}, {"i8", MR_I8},
                                               {"u16", MR_U16},   {"i16", MR_I16}, {"i32", MR_I32},
                                               {"i64", MR_I64},   {"u32", MR_U32}, {NULL, 0}};
static const struct mr_option_alias dtype_aliases[] = {
    {"float32", "f32"}, {"float", "f32"}, {"fp32", "f32"},      {"float16", "f16"}, {"half", "f16"},
    {"fp16", "f16"},    {"uint8", "u8"},  {"bfloat16", "bf16"}, {NULL, NULL}};
static const struct mr_option_word layouts[] = {{"nchw", MR_NCHW}, {"nhwc", MR_NHWC}, {NULL, 0}};
static const struct mr_option_word paddings[] = {{"0", 0}, {"4", 4}, {"8", 8}, {NULL, 0}};
static const struct mr_option_word tails[] = {
    {"pad", MR_TAIL_PAD}, {"drop", MR_TAIL_DROP}, {"exact", MR_TAIL_EXACT}, {NULL, 0}};
static const struct mr_option_word orders[] = {
    {"torch", MR_ORDER_TORCH}, {"keyed", MR_ORDER_KEYED}, {NULL, 0}};
static const struct mr_option_word repeats[] = {
    {"torchvision", MR_REPEAT_TORCHVISION}, {"timm", MR_REPEAT_TIMM}, {NULL, 0}};
static const struct mr_option_word no_workers[] = {{"none", MR_NO_WORKERS}, {NULL, 0}};
static const struct mr_option_word starts[] = {
    {"exec", MR_START_EXEC}, {"fork", MR_START_FORK}, {"thread", MR_START_THREAD}, {NULL, 0}};
static const struct mr_option_word affinities[] = {{"none", MR_AFFINITY_NONE},
                                                   {"spread", MR_AFFINITY_SPREAD},
                                                   {"list", MR_AFFINITY_LIST},
                                                   {NULL, 0}};
static const struct mr_option_word readers[] = {
    {"auto", MR_READER_AUTO}, {"uring", MR_READER_URING}, {"pread", MR_READER_PREAD}, {NULL, 0}};
static const struct mr_option_word decoders[] = {
    {"auto", MR_JPEG_AUTO}, {"stock", MR_JPEG_STOCK}, {NULL, 0}};
static const struct mr_option_word policies[] = {
    {"fail", MR_ON_ERROR_FAIL}, {"skip", MR_ON_ERROR_SKIP}, {"zero", MR_ON_ERROR_ZERO}, {NULL, 0}};
static const struct mr_option_word forms[] = {{"auto", MR_CACHE_FORM_AUTO},
                                              {"index", MR_CACHE_FORM_INDEX},
                                              {"dct", MR_CACHE_FORM_DCT},
                                              {NULL, 0}};
static const struct mr_option_word mix_orders[] = {
    {"even", MR_MIX_ORDER_EVEN}, {"megatron", MR_MIX_ORDER_MEGATRON}, {NULL, 0}};
static const struct mr_option_word mix_stops[] = {
    {"none", MR_MIX_STOP_NONE}, {"first", MR_MIX_STOP_FIRST}, {"all", MR_MIX_STOP_ALL}, {NULL, 0}};
static const struct mr_option_word idle[] = {{"idle", MR_CACHE_WHEN_IDLE}, {NULL, 0}};

const struct mr_option mr_option_table[] = {
    {OPTION(batch_size), .lo = 1, .hi = 65535, .standard = 64},
    /* Images can have the first four; the other types only raw samples of that type. */
    {OPTION(dtype), .words = dtypes, .n_named = 4, .aliases = dtype_aliases},
    {OPTION(layout), .words = layouts},
    {OPTION(pad_channels), .words = paddings},
    {OPTION(soft_labels), .lo = 1, .hi = UINT64_C(1) << 20},
    {OPTION(drop_last)},
    {OPTION(allow_empty_epoch)},
    {OPTION(ragged)},
    {OPTION(max_row_bytes), .lo = 1, .hi = UINT64_C(1) << 31, .is_bytes = true},
    {OPTION(rank), .lo = 0, .hi = UINT32_MAX},
    {OPTION(world_size), .lo = 1, .hi = UINT32_MAX, .standard = 1},
    {OPTION(tail), .words = tails},
    {OPTION(order), .words = orders},
    {OPTION(seed), .lo = 0, .hi = UINT64_MAX},
    {OPTION(epoch), .lo = 0, .hi = UINT64_MAX},
    {OPTION(n_epochs), .lo = 0, .hi = UINT64_MAX},
    {OPTION(no_shuffle)},
    {OPTION(allow_same_epoch)},
    {OPTION(no_replacement)},
    {OPTION(rank_slices)},
    {OPTION(repeat), .lo = 1, .hi = 65535},
    {OPTION(repeat_form), .words = repeats},
    {OPTION(n_draws), .lo = 1, .hi = UINT64_C(1) << 40},
    {OPTION(weights)},
    {OPTION(weight_values)},
    {LENGTH(n_weight_values)},
    {OPTION(num_workers), .lo = 1, .hi = MR_MAX_WORKERS, .words = no_workers},
    {OPTION(start), .words = starts},
    {OPTION(nice), .lo = 0, .hi = 19},
    {OPTION(affinity), .words = affinities},
    {OPTION(affinity_cpus)},
    {LENGTH(n_affinity_cpus)},
    {OPTION(reader), .words = readers},
    {OPTION(jpeg_decoder), .words = decoders},
    {OPTION(read_ahead), .lo = 1, .hi = 128},
    {OPTION(n_slots), .lo = 2, .hi = MR_OPTION_MAX_SLOTS},
    {OPTION(wait_when_lent)},
    {OPTION(no_huge_pages)},
    {OPTION(verify_packs)},
    {OPTION(on_error), .words = policies},
    {OPTION(time_limit_ms), .lo = 1, .hi = INT32_MAX, .standard = 60000},
    {OPTION(max_file_bytes), .lo = 1, .hi = UINT64_MAX, .standard = UINT64_C(1) << 30,
     .is_bytes = true},
    {OPTION(max_pixels), .lo = 1, .hi = UINT64_MAX, .standard = 178956970},
    {OPTION(device)},
    {OPTION(devices)},
    {LENGTH(n_devices)},
    {OPTION(n_buffers), .lo = 2, .hi = 64, .standard = 3},
    {OPTION(label_device)},
    {OPTION(pin_memory)},
    {OPTION(finish_on_host)},
    {OPTION(with_timing)},
    {OPTION(max_boxes), .lo = 1, .hi = 65535, .standard = 1024},
    {OPTION(trace)},
    {OPTION(cache_slowdown), .lo = 1, .hi = 100, .standard = 25, .words = idle},
    {OPTION(cache_form), .words = forms},
    {OPTION(cache)},
    {OPTION(cache_bytes), .lo = 1, .hi = UINT64_MAX, .is_bytes = true},
    {OPTION(pad_batch), .lo = 1, .hi = 65535},
    {OPTION(aspect_ratio_groups), .lo = 1, .hi = 100},
    {OPTION(retry_ms), .lo = 1, .hi = 86400000, .standard = 30000},
    {OPTION(connections), .lo = 1, .hi = 4096, .standard = 64},
    {OPTION(mix_order), .words = mix_orders},
    {OPTION(mix_stop), .words = mix_stops},
    {OPTION(mix_samples), .lo = 1, .hi = UINT64_C(1) << 40},
    {OPTION(group_by_length), .lo = 1, .hi = 65535},
    {OPTION(batch_multiple), .lo = 1, .hi = 65535, .standard = 1},
    {OPTION(max_tokens), .lo = 1, .hi = UINT64_C(1) << 40},
    {OPTION(lengths)},
};
enum { N_OPTIONS = sizeof mr_option_table / sizeof *mr_option_table };
const size_t mr_option_table_n = N_OPTIONS;

const char *mr_loader_option_name(size_t i)
{
    return i < N_OPTIONS ? mr_option_table[i].name : NULL;
}

const struct mr_option *mr_option_table_find(const char *name, mr_error *error)
{
    const char *names[N_OPTIONS];
    for (size_t i = 0; i < N_OPTIONS; i++) {
        names[i] = mr_option_table[i].name;
        if (strcmp(names[i], name) == 0)
            return &mr_option_table[i];
    }
    const char *nearest = mr_nearest_name(name, names, N_OPTIONS);
    mr_error_set(error, MR_ERR_INVALID, "'%s' is not an option of a loader%s%s%s", name,
                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return NULL;
}

static bool is_word(const struct mr_option *option, uint64_t value)
{
    for (const struct mr_option_word *w = option->words; w && w->word; w++)
        if (w->value == value)
            return true;
    return false;
}

static mr_status refuse_value(const struct mr_option *option, uint64_t value, mr_error *error)
{
    char values[128] = "0";
    if (option->hi > 0 && value > option->hi)
        return mr_error_set(error, MR_ERR_INVALID, "%s %llu is above the limit of %llu",
                            option->name, (unsigned long long)value,
                            (unsigned long long)option->hi);
    if (option->hi > 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s %llu is below %llu", option->name,
                            (unsigned long long)value, (unsigned long long)option->lo);
    for (const struct mr_option_word *w = option->words; w->word; w++) {
        size_t used = strlen(values);
        if (w->value != 0)
            snprintf(values + used, sizeof values - used, ", %u", w->value);
    }
    return mr_error_set(error, MR_ERR_INVALID, "%s %llu is none of %s", option->name,
                        (unsigned long long)value, values);
}

/* Zero is always valid: it is the default, or the first word of an enum. */
static mr_status resolve_number(const struct mr_option *option, uint64_t *value, mr_error *error)
{
    if (*value == 0)
        *value = option->standard;
    else if (!is_word(option, *value) && (*value < option->lo || *value > option->hi))
        return refuse_value(option, *value, error);
    return MR_OK;
}

static mr_status check_reserved(const mr_loader_options *o, mr_error *error)
{
    const struct {
        const uint8_t *bytes;
        size_t n;
    } fields[] = {{o->reserved_batch, sizeof o->reserved_batch},
                  {o->reserved_order, sizeof o->reserved_order},
                  {o->reserved_workers, sizeof o->reserved_workers},
                  {o->reserved_devices, sizeof o->reserved_devices}};
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof fields / sizeof *fields; i++)
        status =
            mr_options_check_reserved(fields[i].bytes, fields[i].n, "mr_loader_options", error);
    return status;
}

mr_status mr_option_table_resolve(mr_loader_options *options, mr_error *error)
{
    mr_status status = check_reserved(options, error);
    for (size_t i = 0; status == MR_OK && i < N_OPTIONS; i++) {
        const struct mr_option *option = &mr_option_table[i];
        void *field = (char *)options + option->offset;
        if (option->type == MR_OPTION_U32) {
            uint64_t value = *(uint32_t *)field;
            status = resolve_number(option, &value, error);
            *(uint32_t *)field = (uint32_t)value;
        } else if (option->type == MR_OPTION_U64) {
            status = resolve_number(option, field, error);
        } else if (option->type == MR_OPTION_I32) {
            int32_t value = *(int32_t *)field;
            if (value < (int64_t)option->lo || value > (int64_t)option->hi)
                status = mr_error_set(error, MR_ERR_INVALID, "%s %d is not from %d to %d",
                                      option->name, value, (int)option->lo, (int)option->hi);
        }
    }
    return status;
}
