/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all readers share: creating a reader and choosing its functions, the requests, and one
 * buffer per request.
 *
 * A buffer that once held a huge file must not occupy that memory for the rest of the training. But
 * mapping a buffer again for each file is slow. So a buffer is shrunk only when the recent reads
 * would fit into a quarter of it.
 */
#include "dataset/reader_impl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/packed_image.h"

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

void mr_reader_push(struct mr_reader_queue *queue, struct mr_reader_request *request)
{
    request->next = NULL;
    if (queue->head)
        queue->tail->next = request;
    else
        queue->head = request;
    queue->tail = request;
}

struct mr_reader_request *mr_reader_pop(struct mr_reader_queue *queue)
{
    struct mr_reader_request *request = queue->head;
    if (request)
        queue->head = request->next;
    return request;
}

size_t mr_reader_capacity(const struct mr_reader_request *request)
{
    return request->mapped ? request->mapped - MR_READER_SLACK : 0;
}

static size_t mapping_size(size_t len)
{
    return mr_align_up(len + MR_READER_SLACK, PAGE_BYTES);
}

int mr_reader_reserve(struct mr_reader_request *request, size_t len)
{
    if (len <= mr_reader_capacity(request))
        return 0;
    size_t mapped = mapping_size(len > FIRST_BYTES ? len : FIRST_BYTES);
    void *bytes;
    if (request->bytes)
        bytes = mremap(request->bytes, request->mapped, mapped, MREMAP_MAYMOVE);
    else
        bytes = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return -ENOMEM;
    request->bytes = bytes;
    request->mapped = mapped;
    return 0;
}

/* Shrinking with mremap does not move the buffer. If it fails, the buffer stays as it is. */
static void shrink_buffer(struct mr_reader *reader, struct mr_reader_request *request)
{
    if (request->mapped <= SHRINK_ABOVE || reader->recent_len > request->mapped / 4)
        return;
    size_t wanted = reader->recent_len * 2;
    size_t mapped = mapping_size(wanted > FIRST_BYTES ? wanted : FIRST_BYTES);
    void *bytes = mremap(request->bytes, request->mapped, mapped, 0);
    if (bytes == MAP_FAILED)
        return;
    request->bytes = bytes;
    request->mapped = mapped;
}

uint64_t mr_reader_total(const struct mr_reader_request *request)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < request->n_extents; i++) {
        if (request->extents[i].len == MR_LEN_UNKNOWN)
            return MR_LEN_UNKNOWN;
        if (!mr_checked_add_u64(total, request->extents[i].len, &total) || total == MR_LEN_UNKNOWN)
            total = MR_LEN_UNKNOWN - 1;
    }
    return total;
}

bool mr_reader_fits_calls(const struct mr_reader_request *request)
{
    for (uint32_t i = 0; i < request->n_extents; i++) {
        uint64_t end;
        if (!mr_checked_add_u64(request->extents[i].offset, request->extents[i].len, &end) ||
            end > INT64_MAX || request->extents[i].len > MR_READER_MAX_CALL)
            return false;
    }
    return true;
}

void mr_reader_release(struct mr_reader *reader, const struct mr_reader_request *request,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        mr_file_cache_release(reader->cache, request->extents[i].file);
}

bool mr_reader_acquire(struct mr_reader *reader, const struct mr_reader_request *request,
                       int fds_out[MR_CATALOG_MAX_EXTENTS])
{
    for (uint32_t i = 0; i < request->n_extents; i++) {
        fds_out[i] = mr_file_cache_acquire(reader->cache, request->extents[i].file);
        if (fds_out[i] < 0) {
            mr_reader_release(reader, request, i);
            return false;
        }
    }
    return true;
}

uint64_t mr_reader_limit(const struct mr_reader *reader, const struct mr_reader_request *request)
{
    return reader->options.max_bytes + request->marks_len + request->extra_len;
}

void mr_reader_finish(struct mr_reader *reader, struct mr_reader_request *request, mr_status status,
                      size_t len)
{
    assert(request->state == MR_READER_PENDING);
    request->state = MR_READER_ENDED;
    request->status = status;
    request->len = status == MR_OK ? len : 0;
    if (status == MR_OK) {
        assert(len <= mr_reader_capacity(request));
        memset(request->bytes + len, 0, MR_READER_SLACK);
    } else {
        request->error.index = request->index;
    }
    mr_reader_push(&reader->ended, request);
}

static mr_status create_requests(struct mr_reader *reader, mr_error *error)
{
    uint32_t depth = reader->options.depth;
    reader->requests = calloc(depth, sizeof *reader->requests);
    if (!reader->requests)
        return mr_error_memory(error, depth * sizeof *reader->requests);
    for (uint32_t i = 0; i < depth; i++)
        if (mr_reader_reserve(&reader->requests[i], FIRST_BYTES) != 0)
            return mr_error_memory(error, mapping_size(FIRST_BYTES));
    return MR_OK;
}

static mr_status create_cache(struct mr_reader *reader, mr_error *error)
{
    uint64_t n_files = mr_catalog_n_files(reader->catalog);
    uint32_t capacity = mr_file_cache_limit();
    if (reader->options.max_files > 0 && reader->options.max_files < capacity)
        capacity = reader->options.max_files;
    if (n_files < capacity)
        capacity = n_files > 0 ? (uint32_t)n_files : 1;
    if (mr_file_cache_create(reader->catalog, capacity, &reader->cache) != 0)
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

/*
 * MR_READER_AUTO falls back to pread if io_uring is missing, incomplete, or cannot lock its memory.
 */
static mr_status choose_ops(struct mr_reader *reader, mr_error *error)
{
    if (reader->options.kind != MR_READER_AUTO)
        return try_ops(reader, readers[reader->options.kind], error);
    if (try_ops(reader, &mr_reader_uring_ops, error) == MR_OK)
        return MR_OK;
    return try_ops(reader, &mr_reader_pread_ops, error);
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
    if (reader->options.max_bytes > MAX_SAMPLE_BYTES)
        reader->options.max_bytes = MAX_SAMPLE_BYTES;
    reader->loose_files = mr_catalog_loose_files(catalog);
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
    for (uint32_t i = 0; reader->requests && i < reader->options.depth; i++)
        if (reader->requests[i].bytes)
            munmap(reader->requests[i].bytes, reader->requests[i].mapped);
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

uint32_t mr_reader_n_pending(const struct mr_reader *reader)
{
    return reader->n_pending;
}

/* Take free requests in turn, so every buffer passes through recycle and can shrink. */
static struct mr_reader_request *take_free_request(struct mr_reader *reader)
{
    assert(reader->n_busy < reader->options.depth);
    struct mr_reader_request *request;
    do {
        request = &reader->requests[reader->cursor];
        reader->cursor = (reader->cursor + 1) % reader->options.depth;
    } while (request->state != MR_READER_FREE);
    return request;
}

static struct mr_reader_request *start_request(struct mr_reader *reader, uint64_t tag,
                                               int64_t index, uint64_t offset)
{
    struct mr_reader_request *request = take_free_request(reader);
    reader->n_busy++;
    reader->n_pending++;
    request->state = MR_READER_PENDING;
    request->tag = tag;
    request->index = index;
    request->offset = offset;
    request->marks_len = 0;
    request->extra_len = 0;
    request->n_extents = 0;
    request->reading = 0;
    return request;
}

/* Submit all of a described sample except the bytes that only unpacking needs. */
static void submit_described(struct mr_reader *reader, uint64_t tag, int64_t index)
{
    struct mr_packed_image image;
    mr_error error;
    mr_status status = mr_catalog_packed(reader->catalog, index, &image, &error);
    if (status == MR_OK) {
        mr_reader_submit_range(reader, tag, index, 0, image.len);
        return;
    }
    struct mr_reader_request *request = start_request(reader, tag, index, 0);
    request->error = error;
    mr_reader_finish(reader, request, status, 0);
}

static void find_extents(const struct mr_reader *reader, struct mr_reader_request *request)
{
    uint64_t lens[MR_MAX_EXTRA];
    request->n_extents = mr_catalog_extents(reader->catalog, request->index, request->extents);
    assert(request->n_extents >= 1 && request->n_extents <= MR_CATALOG_MAX_EXTENTS);
    request->extra_len = (size_t)mr_catalog_extra_lengths(reader->catalog, request->index, lens);
}

void mr_reader_submit(struct mr_reader *reader, uint64_t tag, int64_t index)
{
    if (mr_catalog_is_described(reader->catalog)) {
        submit_described(reader, tag, index);
        return;
    }
    struct mr_reader_request *request = start_request(reader, tag, index, 0);
    find_extents(reader, request);
    reader->ops->begin(reader, request);
}

/*
 * Restrict the last extent, an image inside its file, to the requested range. An empty extent is
 * removed.
 */
static mr_status set_member_range(const struct mr_reader *reader, struct mr_reader_request *request,
                                  uint64_t len)
{
    struct mr_extent *image = &request->extents[request->n_extents - 1];
    if (request->offset > image->len || len > image->len - request->offset) {
        char name[MR_CATALOG_DESCRIPTION];
        mr_catalog_describe(reader->catalog, request->index, name);
        return mr_error_set(&request->error, MR_ERR_DAMAGED,
                            "%s: %llu bytes at %llu are outside its %llu bytes", name,
                            (unsigned long long)len, (unsigned long long)request->offset,
                            (unsigned long long)image->len);
    }
    image->offset += request->offset;
    image->len = len;
    request->n_extents -= len == 0;
    return MR_OK;
}

/*
 * Set the extents for a range. A described sample has its marks as the first extent. The length of
 * a loose file is not known here.
 */
static mr_status set_range(const struct mr_reader *reader, struct mr_reader_request *request,
                           uint64_t len)
{
    struct mr_extent *extent = request->extents;
    if (mr_catalog_is_described(reader->catalog)) {
        if (!reader->options.no_index &&
            mr_catalog_extent_marks(reader->catalog, request->index, extent))
            request->marks_len = (size_t)extent++->len;
        request->n_extents = (uint32_t)(extent - request->extents) + 1;
        return mr_catalog_extent_part(reader->catalog, request->index, request->offset, len, extent,
                                      &request->error);
    }
    find_extents(reader, request);
    if (mr_catalog_has_members(reader->catalog))
        return set_member_range(reader, request, len);
    extent->offset = request->offset;
    extent->len = len < MR_LEN_UNKNOWN ? len : MR_LEN_UNKNOWN - 1; /* no file is that long */
    return MR_OK;
}

void mr_reader_submit_range(struct mr_reader *reader, uint64_t tag, int64_t index, uint64_t offset,
                            uint64_t len)
{
    assert(mr_catalog_is_described(reader->catalog) || reader->loose_files ||
           mr_catalog_has_members(reader->catalog));
    struct mr_reader_request *request = start_request(reader, tag, index, offset);
    mr_status status = set_range(reader, request, len);
    /* nothing to read */
    if (status < 0 || (len == 0 && request->extra_len == 0)) {
        request->marks_len = request->extra_len = 0;
        mr_reader_finish(reader, request, status, 0);
    } else {
        reader->ops->begin(reader, request);
    }
}

bool mr_reader_reap(struct mr_reader *reader, bool wait, struct mr_read *read_out)
{
    if (reader->n_pending == 0)
        return false;
    reader->ops->advance(reader, wait);
    struct mr_reader_request *request = mr_reader_pop(&reader->ended);
    if (!request)
        return false;
    request->state = MR_READER_LENT;
    reader->n_pending--;
    reader->recent_len -= reader->recent_len / 64;
    if (request->len > reader->recent_len)
        reader->recent_len = request->len;
    bool good = request->status == MR_OK;
    size_t marks_len = good ? request->marks_len : 0, extra_len = good ? request->extra_len : 0;
    *read_out = (struct mr_read){.tag = request->tag,
                                 .index = request->index,
                                 .bytes = good ? request->bytes + marks_len + extra_len : NULL,
                                 .len = request->len - marks_len - extra_len,
                                 .offset = request->offset,
                                 .status = request->status,
                                 .error = good ? NULL : &request->error,
                                 .buffer = (uint32_t)(request - reader->requests),
                                 .marks = marks_len > 0 ? request->bytes : NULL,
                                 .marks_len = marks_len,
                                 .extra = extra_len > 0 ? request->bytes : NULL,
                                 .extra_len = extra_len};
    return true;
}

void mr_reader_recycle(struct mr_reader *reader, const struct mr_read *read)
{
    struct mr_reader_request *request = &reader->requests[read->buffer];
    assert(read->buffer < reader->options.depth && request->state == MR_READER_LENT);
    shrink_buffer(reader, request);
    request->state = MR_READER_FREE;
    reader->n_busy--;
}
