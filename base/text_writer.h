/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends to a text of the caller's, which may be too short: it is cut off then, and the length
 * that was needed is known. Numbers are written in the C locale, whatever the program's.
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
    size_t len; /* that the whole text needs, without the NUL */
    locale_t c_locale;
    locale_t before;
};

/* text_out: size bytes, or NULL. The thread has the C locale until the end. */
void mr_text_writer_begin(struct mr_text_writer *w, char *text_out, size_t size);
void mr_text_writer_end(struct mr_text_writer *w);

void mr_text_writer_put(struct mr_text_writer *w, const char *format, ...) MR_PRINTF(2, 3);
/* With as many digits as bring the same bits back. */
void mr_text_writer_put_double(struct mr_text_writer *w, double value);

/* JSON. A number has 17 digits, and a point or an exponent: a reader makes a double of it. */
void mr_text_writer_put_json_number(struct mr_text_writer *w, double value);
/*
 * A string with its quotes. Bytes that are no UTF-8 become lone surrogates, as Python's
 * surrogateescape has them.
 */
void mr_text_writer_put_json_string(struct mr_text_writer *w, const char *string);

#endif
