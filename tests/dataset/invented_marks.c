/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an index with marks from an index without, and writes the file of marks. */
#include "tests/dataset/invented_marks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/checked.h"
#include "dataset/pack_index.h"
#include "tests/dataset/invented_pack.h"

bool is_marked(uint64_t i)
{
    struct invented sample;
    invent(i, &sample);
    return sample.entry.image.encoding == MR_PACKED_JPEG;
}

size_t invented_marks(uint64_t i, uint8_t out[INVENTED_MAX_MARKS])
{
    size_t len = 24 + (size_t)(i * 13 % (INVENTED_MAX_MARKS - 24));
    for (size_t at = 0; at < len; at++)
        out[at] = (uint8_t)((i + 7) * 1000003u + at * 31);
    return len;
}

uint32_t invented_marked_row(uint64_t len, uint32_t r)
{
    return (uint32_t)(len * (r + 1) / (INVENTED_MARKED_ROWS + 2));
}

/* Appends a section of zeros. */
static uint8_t *add_section(uint8_t *out, size_t *at, enum mr_pack_section which, size_t len)
{
    struct mr_pack_header header;
    memcpy(&header, out, sizeof header);
    header.sections[which].off = mr_align_up(*at, 8);
    header.sections[which].len = len;
    memcpy(out, &header, sizeof header);
    *at = header.sections[which].off + len;
    return out + header.sections[which].off;
}

/*
 * Set encoding, rows and the place of the marks of each marked sample. Returns the bytes of the
 * file of marks.
 */
static uint64_t describe_marks(struct mr_pack_sample *samples, uint32_t *rows, uint64_t n_rows,
                               struct mr_pack_marks *marks, uint64_t n)
{
    uint8_t unused[INVENTED_MAX_MARKS];
    uint64_t end = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!is_marked(i))
            continue;
        marks[i].offset = mr_align_up(end, 8);
        marks[i].len = invented_marks(i, unused);
        end = marks[i].offset + marks[i].len;
        samples[i].encoding = MR_PACKED_MARKED;
        samples[i].template = 0;
        samples[i].n_rows = INVENTED_MARKED_ROWS;
        samples[i].rows = n_rows;
        for (uint32_t r = 0; r <= INVENTED_MARKED_ROWS; r++)
            rows[n_rows++] = invented_marked_row(samples[i].len, r);
    }
    return end;
}

uint8_t *mark_index(const uint8_t *bytes, size_t len, size_t *len_out)
{
    struct mr_pack_header header = {0};
    memcpy(&header, bytes, sizeof header);
    const uint64_t n = header.n_samples, old_rows = header.sections[MR_PACK_ROWS].len;
    const size_t new_rows = (size_t)n * (INVENTED_MARKED_ROWS + 1) * sizeof(uint32_t);
    uint8_t *out = calloc(1, len + new_rows + 256 + (size_t)n * sizeof(struct mr_pack_marks));
    size_t at = sizeof header;
    void *starts[MR_PACK_N_SECTIONS];
    assert_non_null(out);
    memcpy(out, &header, sizeof header);
    for (int i = 0; i < MR_PACK_N_SECTIONS; i++) {
        /* samples without rows have zeros */
        size_t extra = i == MR_PACK_ROWS    ? new_rows
                       : i == MR_PACK_MARKS ? (size_t)n * sizeof(struct mr_pack_marks)
                                            : 0;
        starts[i] = add_section(out, &at, i, (size_t)header.sections[i].len + extra);
        memcpy(starts[i], bytes + header.sections[i].off, (size_t)header.sections[i].len);
    }
    memcpy(&header, out, sizeof header);
    header.marks_bytes = describe_marks(starts[MR_PACK_SAMPLES], starts[MR_PACK_ROWS], old_rows / 4,
                                        starts[MR_PACK_MARKS], n);
    header.file_bytes = at;
    memcpy(out, &header, sizeof header);
    mend_index(out, at);
    *len_out = at;
    return out;
}

static void write_marks(const char *path, uint64_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t marks[INVENTED_MAX_MARKS];
        size_t len = is_marked(i) ? invented_marks(i, marks) : 0;
        while (len > 0 && ftell(file) % 8 != 0)
            assert_int_not_equal(fputc(0, file), EOF);
        assert_int_equal(fwrite(marks, 1, len, file), len);
    }
    assert_int_equal(fclose(file), 0);
}

void mark_pack(const char *dir)
{
    char path[4096];
    size_t len, marked_len;
    snprintf(path, sizeof path, "%s/index", dir);
    uint8_t *bytes = read_whole(path, &len), *marked = mark_index(bytes, len, &marked_len);
    struct mr_pack_header header;
    memcpy(&header, marked, sizeof header);
    write_whole(path, marked, marked_len);
    snprintf(path, sizeof path, "%s/marks", dir);
    write_marks(path, header.n_samples);
    free(marked);
    free(bytes);
}
