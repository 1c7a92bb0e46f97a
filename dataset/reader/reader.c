/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all readers share: creating a reader and choosing its functions, the requests, and one
 * buffer for each part of a request.
 *
 * A buffer that once held a huge file must not occupy that memory for the rest of the training. But
 * mapping a buffer again for each file is slow. So a buffer is shrunk only when the recent reads
 * would fit into a quarter of it.
 */
#include "dataset/reader/reader_impl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/clock.h"

/* Address space of a new buffer. Pages use memory only after they are written. */
#define FIRST_BYTES ((size_t)1 << 20)
/* Smaller buffers are not shrunk. */
#define SHRINK_ABOVE ((size_t)4 << 20)
#define PAGE_BYTES ((size_t)4096)
#define MAX_SAMPLE_BYTES ((uint64_t)1 << 46)

static const struct mr_reader_ops *const readers[] = {
    [MR_READER_URING] = &mr_reader_uring_ops,
    [MR_READER_PREAD] = &mr_reader_pread_ops,
};

#define PATIENCE_MS 1000
#define FIRST_DEPTH 4 /* until a delay has been measured */

void mr_reader_push_slow(struct mr_reader *reader, struct mr_reader_part *part)
{
    part->next = NULL;
    *(reader->slow.head ? &reader->slow.tail->next : &reader->slow.head) = part;
    reader->slow.tail = part;
}

struct mr_reader_part *mr_reader_pop_slow(struct mr_reader *reader)
{
    struct mr_reader_part *part = reader->slow.head;
    if (part)
        reader->slow.head = part->next;
    return part;
}

static void push_ended(struct mr_reader *reader, struct mr_reader_request *request)
{
    request->state = MR_READER_ENDED;
    request->next = NULL;
    *(reader->ended.head ? &reader->ended.tail->next : &reader->ended.head) = request;
    reader->ended.tail = request;
}

size_t mr_reader_capacity(const struct mr_reader_part *part)
{
    return part->mapped ? part->mapped - MR_READER_SLACK : 0;
}

static size_t mapping_size(size_t len)
{
    return mr_align_up(len + MR_READER_SLACK, PAGE_BYTES);
}

int mr_reader_reserve(struct mr_reader_part *part, size_t len)
{
    if (part->mapped > 0 && len <= mr_reader_capacity(part))
        return 0;
    size_t mapped = mapping_size(len > FIRST_BYTES ? len : FIRST_BYTES);
    void *bytes;
    if (part->bytes)
        bytes = mremap(part->bytes, part->mapped, mapped, MREMAP_MAYMOVE);
    else
        bytes = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return -ENOMEM;
    part->bytes = bytes;
    part->mapped = mapped;
    return 0;
}

/* Shrinking with mremap does not move the buffer. If it fails, the buffer stays as it is. */
static void shrink_buffer(struct mr_reader *reader, struct mr_reader_part *part)
{
    if (part->mapped <= SHRINK_ABOVE || reader->recent_len > part->mapped / 4)
        return;
    size_t wanted = reader->recent_len * 2;
    size_t mapped = mapping_size(wanted > FIRST_BYTES ? wanted : FIRST_BYTES);
    void *bytes = mremap(part->bytes, part->mapped, mapped, 0);
    if (bytes == MAP_FAILED)
        return;
    part->bytes = bytes;
    part->mapped = mapped;
}

bool mr_reader_fits_call(const struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    uint64_t end;
    return extent->len <= part->want->max_bytes && extent->len <= MR_READER_MAX_CALL &&
           mr_checked_add_u64(extent->offset, extent->len, &end) && end <= INT64_MAX;
}

void mr_reader_finish(struct mr_reader *reader, struct mr_reader_part *part, mr_status status,
                      size_t len)
{
    struct mr_reader_request *request = &reader->requests[part->request];
    assert(request->state == MR_READER_PENDING && request->n_left > 0);
    part->status = status;
    part->len = status == MR_OK ? len : 0;
    if (status == MR_OK) {
        assert(len <= mr_reader_capacity(part));
        memset(part->bytes + len, 0, MR_READER_SLACK);
    } else {
        part->error.index = request->index;
    }
    if (--request->n_left == 0)
        push_ended(reader, request);
}

static mr_status create_requests(struct mr_reader *reader, mr_error *error)
{
    uint32_t depth = reader->options.depth, n_parts = depth * reader->max_parts;
    reader->requests = calloc(depth, sizeof *reader->requests);
    reader->parts = calloc(n_parts, sizeof *reader->parts);
    if (!reader->requests || !reader->parts)
        return mr_error_memory(error, n_parts * sizeof *reader->parts);
    for (uint32_t i = 0; i < n_parts; i++)
        reader->parts[i].request = i / reader->max_parts;
    for (uint32_t i = 0; i < depth; i++) {
        reader->requests[i].parts = &reader->parts[i * reader->max_parts];
        if (mr_reader_reserve(reader->requests[i].parts, FIRST_BYTES) != 0)
            return mr_error_memory(error, mapping_size(FIRST_BYTES));
    }
    return MR_OK;
}

static mr_status create_cache(struct mr_reader *reader, mr_error *error)
{
    const struct mr_other_files *other = reader->options.other_files;
    uint64_t n_files = mr_catalog_n_files(reader->catalog) - reader->n_loose;
    n_files += other ? other->max_open : 0;
    uint32_t capacity = mr_file_cache_limit();
    if (reader->options.max_files > 0 && reader->options.max_files < capacity)
        capacity = reader->options.max_files;
    if (n_files < capacity)
        capacity = n_files > 0 ? (uint32_t)n_files : 1;
    if (mr_file_cache_create(reader->catalog, other, capacity, &reader->cache) != 0)
        return mr_error_memory(error, capacity);
    return MR_OK;
}

static mr_status try_ops(struct mr_reader *reader, const struct mr_reader_ops *ops, mr_error *error)
{
    reader->ops = ops;
    mr_status status = ops->create ? ops->create(reader, error) : MR_OK;
    if (status < 0) {
        if (ops->destroy)
            ops->destroy(reader);
        reader->ops = NULL;
    }
    return status;
}

static bool is_remote(const struct mr_reader *reader)
{
    return reader->options.root_url || mr_catalog_is_remote(reader->catalog);
}

/*
 * MR_READER_AUTO falls back to pread if io_uring is missing, incomplete, or cannot lock its memory.
 */
static mr_status choose_ops(struct mr_reader *reader, mr_error *error)
{
    if (is_remote(reader))
        return try_ops(reader, &mr_reader_remote_ops, error);
    if (reader->options.kind != MR_READER_AUTO)
        return try_ops(reader, readers[reader->options.kind], error);
    if (try_ops(reader, &mr_reader_uring_ops, error) == MR_OK)
        return MR_OK;
    return try_ops(reader, &mr_reader_pread_ops, error);
}

void mr_reader_average(uint64_t *mean, uint64_t value)
{
    *mean = *mean > 0 ? *mean - *mean / 8 + value / 8 : value;
}

static mr_status set_up_reader(struct mr_reader *reader, mr_error *error)
{
    mr_status status = create_requests(reader, error);
    if (status == MR_OK)
        status = create_cache(reader, error);
    if (status == MR_OK)
        status = choose_ops(reader, error);
    return status;
}

/* A limit on address space is for what the program allocates. */
static bool may_map(const struct mr_reader *reader)
{
    struct rlimit limit;
    return reader->options.maps_files && !is_remote(reader) && getrlimit(RLIMIT_AS, &limit) == 0 &&
           limit.rlim_cur == RLIM_INFINITY;
}

mr_status mr_reader_create(const struct mr_catalog *catalog,
                           const struct mr_reader_options *options, struct mr_reader **reader_out,
                           mr_error *error)
{
    *reader_out = NULL;
    if (options->depth < 1 || options->depth > MR_READER_MAX_DEPTH)
        return mr_error_set(error, MR_ERR_INVALID, "%u reads in flight are not between 1 and %u",
                            options->depth, MR_READER_MAX_DEPTH);
    struct mr_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return mr_error_memory(error, sizeof *reader);
    reader->catalog = catalog;
    reader->options = *options;
    if (reader->options.patience_ms == 0)
        reader->options.patience_ms = PATIENCE_MS;
    reader->n_loose = mr_catalog_n_loose_files(catalog);
    if (may_map(reader))
        reader->mapped.n_needed = MR_READER_PROBES;
    /* the image, its marks or the label, the members; versions */
    reader->max_parts = 2 + mr_catalog_kind(catalog)->n_extra;
    if (mr_catalog_is_remote(catalog))
        reader->max_parts += 1 + mr_catalog_kind(catalog)->n_extra;
    mr_status status = set_up_reader(reader, error);
    if (status < 0)
        mr_reader_destroy(reader);
    else
        *reader_out = reader;
    return status;
}

void mr_reader_destroy(struct mr_reader *reader)
{
    if (!reader)
        return;
    if (reader->ops && reader->ops->destroy)
        reader->ops->destroy(reader);
    mr_file_cache_destroy(reader->cache);
    for (uint32_t i = 0; reader->parts && i < reader->options.depth * reader->max_parts; i++)
        if (reader->parts[i].bytes)
            munmap(reader->parts[i].bytes, reader->parts[i].mapped);
    free(reader->parts);
    free(reader->requests);
    free(reader);
}

const char *mr_reader_name(const struct mr_reader *reader)
{
    return reader->ops->name;
}

uint32_t mr_reader_n_busy(const struct mr_reader *reader)
{
    return reader->n_busy;
}

/*
 * While a sample is made, its successors arrive: delay_ns / work_ns of them hide the delay. Twice
 * as many hide one that varies.
 */
uint32_t mr_reader_depth(const struct mr_reader *reader)
{
    uint32_t depth = reader->options.depth;
    if (!reader->options.measures_depth)
        return depth;
    uint64_t n = reader->work_ns > 0 ? 2 + 2 * reader->delay_ns / reader->work_ns : FIRST_DEPTH;
    return n < depth ? (uint32_t)n : depth;
}

uint32_t mr_reader_n_pending(const struct mr_reader *reader)
{
    return reader->n_pending;
}

/* The first free one, so that no more buffers use memory than samples have been in flight. */
static struct mr_reader_request *take_free_request(struct mr_reader *reader)
{
    assert(reader->n_busy < reader->options.depth);
    struct mr_reader_request *request = reader->requests;
    while (request->state != MR_READER_FREE)
        request++;
    return request;
}

/* Free requests are looked at in turn, because some may not be taken for long. */
static void shrink_buffers(struct mr_reader *reader)
{
    struct mr_reader_request *request = &reader->requests[reader->cursor];
    reader->cursor = (reader->cursor + 1) % reader->options.depth;
    for (uint32_t i = 0; request->state == MR_READER_FREE && i < reader->max_parts; i++)
        shrink_buffer(reader, &request->parts[i]);
}

static void begin_part(struct mr_reader *reader, struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    if (extent->len <= part->want->max_bytes && extent->len <= mr_reader_capacity(part) &&
        mr_reader_copy(reader, extent, part->bytes))
        mr_reader_finish(reader, part, MR_OK, (size_t)extent->len);
    else
        reader->ops->begin(reader, part);
}

void mr_reader_submit(struct mr_reader *reader, uint64_t tag, int64_t index,
                      const struct mr_part_list *list)
{
    struct mr_reader_request *request = take_free_request(reader);
    assert(list->n >= 1 && list->n <= reader->max_parts);
    reader->n_busy++;
    reader->n_pending++;
    request->state = MR_READER_PENDING;
    request->tag = tag;
    request->index = index;
    request->list = *list;
    request->n_left = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        struct mr_reader_part *part = &request->parts[i];
        struct mr_part *want = &request->list.part[i];
        part->want = want;
        part->version = NULL;
        if (want->max_bytes > MAX_SAMPLE_BYTES)
            want->max_bytes = MAX_SAMPLE_BYTES;
        if (want->extent.file == MR_FILE_PIECES)
            mr_reader_pread_later(reader, part);
        else if (want->extent.len > 0 && want->extent.file != MR_FILE_CATALOG)
            begin_part(reader, part);
        else if (want->extent.len == 0 && mr_reader_reserve(part, 0) == 0)
            mr_reader_finish(reader, part, MR_OK, 0);
        else
            mr_reader_push_slow(reader, part); /* it copies the bytes, or reports the error */
    }
}

/* The read of a request that has ended. */
static void describe_read(struct mr_reader *reader, struct mr_reader_request *request,
                          struct mr_read *read_out)
{
    *read_out = (struct mr_read){.tag = request->tag,
                                 .index = request->index,
                                 .list = &request->list,
                                 .status = MR_OK,
                                 .buffer = (uint32_t)(request - reader->requests)};
    for (uint32_t i = 0; i < request->list.n; i++) {
        const struct mr_reader_part *part = &request->parts[i];
        if (part->len > reader->recent_len)
            reader->recent_len = part->len;
        if (part->status == MR_OK)
            read_out->part[i] = (struct mr_read_part){part->bytes, part->len, part->version};
        if (part->status == MR_OK || read_out->status != MR_OK)
            continue;
        read_out->status = part->status;
        read_out->error = &part->error;
    }
}

bool mr_reader_reap(struct mr_reader *reader, bool wait, struct mr_read *read_out)
{
    if (reader->n_pending == 0)
        return false;
    reader->ops->advance(reader, wait);
    struct mr_reader_request *request = reader->ended.head;
    if (!request)
        return false;
    reader->ended.head = request->next;
    request->state = MR_READER_LENT;
    reader->n_pending--;
    reader->recent_len -= reader->recent_len / 64;
    describe_read(reader, request, read_out);
    if (reader->options.measures_depth)
        reader->lent_ns = mr_clock_now_ns();
    return true;
}

void mr_reader_recycle(struct mr_reader *reader, const struct mr_read *read)
{
    struct mr_reader_request *request = &reader->requests[read->buffer];
    assert(read->buffer < reader->options.depth && request->state == MR_READER_LENT);
    if (reader->options.measures_depth)
        mr_reader_average(&reader->work_ns, mr_clock_now_ns() - reader->lent_ns);
    request->state = MR_READER_FREE;
    reader->n_busy--;
    shrink_buffers(reader);
}

const struct mr_read_part *mr_read_find(const struct mr_read *read, enum mr_purpose purpose)
{
    for (uint32_t i = 0; i < read->list->n; i++)
        if (read->list->part[i].purpose == purpose)
            return &read->part[i];
    return NULL;
}

mr_status mr_read_split(const struct mr_catalog *catalog, const struct mr_read *read,
                        const uint8_t **data_out, size_t *data_len_out, void *label_out,
                        mr_error *error)
{
    const struct mr_read_part *label = mr_read_find(read, MR_FOR_LABEL);
    return mr_catalog_split(catalog, read->index, read->part[0].bytes, read->part[0].len,
                            label ? label->bytes : NULL, data_out, data_len_out, label_out, error);
}

mr_status mr_read_verify(const struct mr_catalog *catalog, const struct mr_read *read,
                         mr_error *error)
{
    const struct mr_read_part *members = mr_read_find(read, MR_FOR_MEMBER);
    mr_status status =
        mr_catalog_verify(catalog, read->index, read->part[0].bytes, read->part[0].len, error);
    for (uint32_t k = 0; status == MR_OK && k < mr_catalog_kind(catalog)->n_extra; k++)
        status = mr_catalog_verify_member(catalog, read->index, k, members[k].bytes, members[k].len,
                                          error);
    return status;
}

uint64_t mr_read_bytes(const struct mr_read *read)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < read->list->n; i++)
        sum += read->part[i].len;
    return sum;
}
