/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses headers of tar files. It reads no file.
 *
 * Invariant: every byte may be hostile. Numbers must fit into 63 bits, and a text ends at the end
 * of its field.
 */
#include "dataset/tar/tar_header.h"

#include <string.h>

/* Fields of a header: offset and length. */
enum {
    NAME_AT = 0,
    NAME_LEN = 100,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    SUM_AT = 148,
    SUM_LEN = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_LEN = 155
};

bool mr_tar_header_is_end(const uint8_t block[MR_TAR_BLOCK])
{
    for (size_t i = 0; i < MR_TAR_BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

bool mr_tar_header_has_magic(const uint8_t block[MR_TAR_BLOCK])
{
    return memcmp(block + MAGIC_AT, "ustar", 5) == 0;
}

/*
 * Parse octal digits, with spaces before them and a space or NUL after them. A field of only spaces
 * or NULs is 0.
 */
static bool parse_octal(const uint8_t *field, size_t len, uint64_t *value_out)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        if (value > (uint64_t)INT64_MAX >> 3)
            return false;
        value = value << 3 | (uint64_t)(field[i] - '0');
    }
    *value_out = value;
    return i == len || field[i] == ' ' || field[i] == '\0';
}

/* GNU's base-256 numbers begin with a set bit. Negative ones have the next bit set too. */
static bool parse_number(const uint8_t *field, size_t len, uint64_t *value_out)
{
    if (field[0] < 0x80)
        return parse_octal(field, len, value_out);
    uint64_t value = field[0] & 0x7f;
    for (size_t i = 1; i < len; i++) {
        if (value > (uint64_t)INT64_MAX >> 8)
            return false;
        value = value << 8 | field[i];
    }
    *value_out = value;
    return true;
}

/*
 * The checksum is the sum of all bytes, with spaces in its own field. Some old programs added
 * signed bytes.
 */
static bool has_checksum(const uint8_t *block)
{
    uint64_t stated;
    int64_t plain = 0, with_sign = 0;
    for (size_t i = 0; i < MR_TAR_BLOCK; i++) {
        uint8_t byte = i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : block[i];
        plain += byte;
        with_sign += byte < 0x80 ? byte : (int)byte - 256;
    }
    return parse_octal(block + SUM_AT, SUM_LEN, &stated) &&
           (stated == (uint64_t)plain || (with_sign >= 0 && stated == (uint64_t)with_sign));
}

static size_t field_len(const uint8_t *field, size_t size)
{
    const uint8_t *nul = memchr(field, 0, size);
    return nul ? (size_t)(nul - field) : size;
}

/* Only POSIX headers have a prefix; GNU stores times and other data in its place. */
static void join_name(const uint8_t *block, char name_out[MR_TAR_SHORT_NAME])
{
    size_t len = 0, name_len = field_len(block + NAME_AT, NAME_LEN);
    if (memcmp(block + MAGIC_AT, "ustar", 6) == 0 && block[PREFIX_AT]) {
        len = field_len(block + PREFIX_AT, PREFIX_LEN);
        memcpy(name_out, block + PREFIX_AT, len);
        name_out[len++] = '/';
    }
    memcpy(name_out + len, block + NAME_AT, name_len);
    name_out[len + name_len] = '\0';
}

static enum mr_tar_type parse_type(uint8_t flag)
{
    switch (flag) {
    case '\0': return MR_TAR_OLD_FILE;
    case '0':
    case '7': return MR_TAR_FILE;
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6': return MR_TAR_EMPTY;
    case 'x':
    case 'X': return MR_TAR_PAX;
    case 'g': return MR_TAR_PAX_GLOBAL;
    case 'L': return MR_TAR_LONG_NAME;
    case 'K': return MR_TAR_LONG_LINK;
    case 'S': return MR_TAR_SPARSE;
    default: return MR_TAR_OTHER;
    }
}

const char *mr_tar_header_parse(const uint8_t block[MR_TAR_BLOCK], struct mr_tar_header *header_out)
{
    if (!has_checksum(block))
        return "wrong checksum";
    if (!parse_number(block + SIZE_AT, SIZE_LEN, &header_out->size))
        return "wrong size";
    join_name(block, header_out->name);
    header_out->type = parse_type(block[TYPE_AT]);
    return NULL;
}

static bool parse_decimal(const char *text, size_t len, uint64_t *value_out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || value > ((uint64_t)INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *value_out = value;
    return len > 0;
}

static bool key_is(const char *key, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(key, word, len) == 0;
}

/* Parse "key=value" of one record. */
static bool take_record(const char *text, size_t len, struct mr_tar_pax *pax)
{
    const char *equals = memchr(text, '=', len);
    if (!equals)
        return false;
    size_t key_len = (size_t)(equals - text), value_len = len - key_len - 1;
    if (key_is(text, key_len, "path")) {
        pax->path = equals + 1;
        pax->path_len = value_len;
    } else if (key_is(text, key_len, "size")) {
        pax->has_size = true;
        return parse_decimal(equals + 1, value_len, &pax->size);
    } else if (key_len >= 11 && memcmp(text, "GNU.sparse.", 11) == 0) {
        pax->is_sparse = true;
        if (key_is(text, key_len, "GNU.sparse.name")) { /* the real name; "path" has another one */
            pax->path = equals + 1;
            pax->path_len = value_len;
        }
    }
    return true;
}

bool mr_tar_header_parse_pax(const uint8_t *bytes, size_t len, struct mr_tar_pax *pax_out)
{
    const char *text = (const char *)bytes;
    *pax_out = (struct mr_tar_pax){0};
    while (len > 0 && *text) { /* zeros after the records are padding */
        const char *space = memchr(text, ' ', len < 20 ? len : 20);
        uint64_t record;
        if (!space || !parse_decimal(text, (size_t)(space - text), &record) || record > len)
            return false;
        size_t head = (size_t)(space - text) + 1;
        if (record < head + 2 || text[record - 1] != '\n' ||
            !take_record(space + 1, record - head - 1, pax_out))
            return false;
        text += record;
        len -= record;
    }
    return true;
}
