/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads .npy files, version 1.0. The header must be one that Python's literal parser accepts, as
 * NumPy writes it.
 */
#include "tests/tools/npy_file.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/run_command.h"

/* Read "(3, 224, 224)" or "(3,)", and move *at past the bracket. */
static void read_shape(struct mr_npy_file *npy, char **at)
{
    assert_int_equal(**at, '(');
    for (*at += 1; **at != ')'; npy->ndim++) {
        char *end;
        assert_true(npy->ndim < 8);
        npy->shape[npy->ndim] = strtoll(*at, &end, 10);
        assert_ptr_not_equal(end, *at);
        *at = end + strspn(end, ", ");
        assert_true(*end == ',' || (*end == ')' && npy->ndim > 0));
    }
    *at += 1;
}

void mr_npy_file_read(struct mr_npy_file *npy, const char *path)
{
    static const char middle[] = "', 'fortran_order': False, 'shape': ";
    size_t len, header;

    *npy = (struct mr_npy_file){0};
    npy->bytes = mr_run_read_file(path, &len);
    assert_true(len >= 10);
    assert_memory_equal(npy->bytes, "\x93NUMPY\x01\x00", 8);
    header = 10 + (unsigned char)npy->bytes[8] + 256 * (size_t)(unsigned char)npy->bytes[9];
    assert_int_equal(header % 64, 0);
    assert_true(len >= header);
    assert_int_equal(npy->bytes[header - 1], '\n');
    npy->bytes[header - 1] = '\0';

    char *at = npy->bytes + 10;
    assert_int_equal(sscanf(at, "{'descr': '%7[^']", npy->descr), 1);
    at += strlen("{'descr': '") + strlen(npy->descr);
    assert_int_equal(strncmp(at, middle, strlen(middle)), 0);
    at += strlen(middle);
    read_shape(npy, &at);
    assert_int_equal(strncmp(at, ", }", 3), 0);
    assert_int_equal(strspn(at + 3, " "), strlen(at + 3));

    npy->data = (unsigned char *)npy->bytes + header;
    npy->data_len = (size_t)(npy->descr[2] - '0');
    for (unsigned i = 0; i < npy->ndim; i++)
        npy->data_len *= (size_t)npy->shape[i];
    assert_int_equal(len - header, npy->data_len);
}

void mr_npy_file_free(struct mr_npy_file *npy)
{
    free(npy->bytes);
    *npy = (struct mr_npy_file){0};
}

int64_t mr_npy_file_i64(const struct mr_npy_file *npy, size_t i)
{
    int64_t value;

    assert_string_equal(npy->descr, "<i8");
    assert_true((i + 1) * sizeof value <= npy->data_len);
    memcpy(&value, npy->data + i * sizeof value, sizeof value);
    return value;
}
