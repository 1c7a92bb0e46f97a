/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the error record. It has a fixed size and no pointers, so it may be in shared memory. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os_words.h"

void mr_error_keep_one_line(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static void fill_record(mr_error *error, mr_status status, int os_error, const char *format,
                        va_list args)
{
    memset(error, 0, offsetof(mr_error, text));
    error->status = status;
    error->os_error = os_error;
    error->index = MR_NO_INDEX;
    int len = vsnprintf(error->text, sizeof error->text, format, args);
    if (len < 0)
        error->text[0] = '\0';
    mr_error_keep_one_line(error->text);
}

mr_status mr_error_set(mr_error *error, mr_status status, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill_record(error, status, 0, format, args);
        va_end(args);
    }
    return status;
}

mr_status mr_error_os(mr_error *error, mr_status status, int os_error, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill_record(error, status, os_error, format, args);
        va_end(args);
        size_t len = strlen(error->text);
        const char *words = mr_os_words_error(os_error);
        if (words)
            snprintf(error->text + len, sizeof error->text - len, ": %s", words);
        else
            snprintf(error->text + len, sizeof error->text - len, ": errno %d", os_error);
    }
    return status;
}

const mr_error *mr_error_null_handle(void)
{
    static const mr_error error = {
        .status = MR_ERR_INVALID, .index = MR_NO_INDEX, .text = "the handle is NULL"};
    return &error;
}

mr_status mr_error_memory(mr_error *error, size_t len_bytes)
{
    return mr_error_set(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", len_bytes);
}

void mr_error_copy(mr_error *dst, const mr_error *src)
{
    if (dst)
        *dst = *src;
}

const char *mr_status_name(mr_status status)
{
    switch (status) {
    case MR_OK: return "MR_OK";
    case MR_END: return "MR_END";
    case MR_PENDING: return "MR_PENDING";
    case MR_ERR_INVALID: return "MR_ERR_INVALID";
    case MR_ERR_NO_MEMORY: return "MR_ERR_NO_MEMORY";
    case MR_ERR_IO: return "MR_ERR_IO";
    case MR_ERR_DAMAGED: return "MR_ERR_DAMAGED";
    case MR_ERR_UNSUPPORTED: return "MR_ERR_UNSUPPORTED";
    case MR_ERR_WORKER: return "MR_ERR_WORKER";
    case MR_ERR_CANCELED: return "MR_ERR_CANCELED";
    case MR_ERR_STATE: return "MR_ERR_STATE";
    case MR_ERR_NO_DEVICE: return "MR_ERR_NO_DEVICE";
    case MR_ERR_DEVICE: return "MR_ERR_DEVICE";
    case MR_ERR_TIMEOUT: return "MR_ERR_TIMEOUT";
    case MR_ERR_PEER: return "MR_ERR_PEER";
    }
    return "MR_?";
}
