/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers for a training loop. Each print is one write(2), because otherwise lines of several
 * ranks would mix. stdio is flushed first, so that earlier output comes first.
 */
#include <millrace/run.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/digest.h"
#include "dist/group/collectives.h"
#include "dist/group/work.h"

static void write_out(const char *text, size_t len)
{
    fflush(stdout);
    while (len > 0) {
        ssize_t n = write(fileno(stdout), text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

void mr_group_print0(const mr_group *group, const char *format, ...)
{
    char *text;
    va_list args;
    if (mr_group_rank(group) != 0)
        return;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    write_out(text, (size_t)len);
    free(text);
}

/* "[rank] " before each line of text; NULL without memory. */
static char *prefix_lines(uint32_t rank, const char *text, size_t *len_out)
{
    char *lines = NULL;
    FILE *memory = open_memstream(&lines, len_out);
    if (!memory)
        return NULL;
    while (*text) {
        int len = (int)strcspn(text, "\n");
        bool ends = text[len] == '\n';
        fprintf(memory, "[%" PRIu32 "] %.*s%s", rank, len, text, ends ? "\n" : "");
        text += len + ends;
    }
    if (fclose(memory) == 0)
        return lines;
    free(lines);
    return NULL;
}

void mr_group_print_rank(const mr_group *group, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    size_t n_bytes = 0;
    char *lines = prefix_lines(mr_group_rank(group), text, &n_bytes);
    if (lines)
        write_out(lines, n_bytes);
    free(lines);
    free(text);
}

/*
 * The section is one barrier. The ranks that go later enter it at the beginning, the rank that goes
 * first at the end.
 */
static mr_status barrier_if(mr_group *group, bool is_needed)
{
    return group && is_needed ? mr_group_barrier(group) : MR_OK;
}

mr_status mr_group_rank0_first_begin(mr_group *group)
{
    return barrier_if(group, mr_group_rank(group) != 0);
}

mr_status mr_group_rank0_first_end(mr_group *group)
{
    return barrier_if(group, mr_group_rank(group) == 0);
}

mr_status mr_group_local_rank0_first_begin(mr_group *group)
{
    return barrier_if(group, mr_group_local_rank(group) != 0);
}

mr_status mr_group_local_rank0_first_end(mr_group *group)
{
    return barrier_if(group, mr_group_local_rank(group) == 0);
}

uint64_t mr_group_seed(const mr_group *group, uint64_t seed, const char *purpose)
{
    return mr_seed_derive(seed, purpose, UINT64_C(1) + mr_group_rank(group));
}

/* Other ranks may still be in the collective when this rank ends the group. */
static mr_status compare_values(mr_group *group, const uint64_t *values, const char *what)
{
    uint32_t n = mr_group_world_size(group), n_differ = 0, first = 0;
    for (uint32_t i = n; i-- > 1;) {
        if (values[i] != values[0]) {
            first = i;
            n_differ++;
        }
    }
    if (n_differ == 0)
        return MR_OK;
    mr_error error;
    mr_error_set(&error, MR_ERR_PEER,
                 "%.400s of rank %u differs from rank 0's: %016" PRIx64 " and %016" PRIx64
                 "; %u of %u ranks differ",
                 what, first, values[first], values[0], n_differ, n);
    return mr_work_end_group(group, &error);
}

mr_status mr_group_same(mr_group *group, uint64_t fingerprint, const char *what)
{
    if (!group)
        return MR_OK;
    uint64_t *values = calloc(mr_group_world_size(group), sizeof *values);
    mr_status status;
    if (values) {
        status = mr_collectives_all_gather(group, &fingerprint, values, 1, MR_I64);
    } else {
        mr_error error;
        mr_error_memory(&error, mr_group_world_size(group) * sizeof *values);
        status = mr_work_fail_group(group, &error);
    }
    if (status == MR_OK)
        status = compare_values(group, values, what ? what : "the value");
    free(values);
    return status;
}
