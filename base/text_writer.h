/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends to a text in the caller's memory. If the memory is too small, the text is cut off, but
 * its full length is counted. Numbers are written in the C locale, whatever the program's locale
 * is.
 */
#ifndef BASE_TEXT_WRITER_H
#define BASE_TEXT_WRITER_H

#include <locale.h>
#include <stddef.h>
#include <stdint.h>

#include <millrace/status.h>

#include "base/error.h"

struct mr_text_writer {
    char *text;
    size_t size;
    size_t len; /* of the whole text, without the NUL */
    locale_t c_locale;
    locale_t before;
};

/* text_out has size bytes, or is NULL. The thread uses the C locale until mr_text_writer_end(). */
void mr_text_writer_begin(struct mr_text_writer *w, char *text_out, size_t size);
void mr_text_writer_end(struct mr_text_writer *w);

void mr_text_writer_put(struct mr_text_writer *w, const char *format, ...) MR_PRINTF(2, 3);
/* The fewest digits, at least 6, that read back as the same double. */
void mr_text_writer_put_double(struct mr_text_writer *w, double value);

/* A JSON number with 17 digits. It has a point or an exponent, so that readers make it a float. */
void mr_text_writer_put_json_number(struct mr_text_writer *w, double value);
/*
 * A JSON string with its quotes. Bytes that are not UTF-8 become lone surrogates, as with Python's
 * surrogateescape.
 */
void mr_text_writer_put_json_string(struct mr_text_writer *w, const char *string);

#endif
