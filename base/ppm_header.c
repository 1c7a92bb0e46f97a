/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers and comments as Pillow does. Netpbm's library is not used: it is under the GPL. */
#include "base/ppm_header.h"

#define MAX_DIGITS 10 /* as Pillow */

static void skip_comment(const uint8_t *bytes, size_t len, size_t *at)
{
    while (*at < len && bytes[*at] != '\n' && bytes[*at] != '\r')
        ++*at;
    if (*at < len)
        ++*at;
}

const char *mr_ppm_header_number(const uint8_t *bytes, size_t len, size_t *at, uint32_t *number_out)
{
    uint64_t number = 0;
    int n_digits = 0;
    while (*at < len) {
        uint8_t byte = bytes[(*at)++];
        if (byte == '#') {
            skip_comment(bytes, len, at);
        } else if (byte >= '0' && byte <= '9') {
            if (++n_digits > MAX_DIGITS)
                return "a number has more than 10 digits";
            number = number * 10 + (byte - '0');
        } else if (byte != ' ' && (byte < '\t' || byte > '\r')) {
            return "a number is expected";
        } else if (n_digits > 0) {
            break;
        }
    }
    if (n_digits == 0)
        return "the file ends where a number is expected";
    if (number > INT32_MAX)
        return "a number is above 2147483647";
    *number_out = (uint32_t)number;
    return NULL;
}

const char *mr_ppm_header_read(const uint8_t *bytes, size_t len, struct mr_ppm_header *header_out)
{
    struct mr_ppm_header header = {.kind = (uint32_t)(bytes[1] - '0'), .maxval = 1, .data_at = 2};
    header.channels = header.kind == 3 || header.kind == 6 ? 3 : 1;
    const char *wrong = mr_ppm_header_number(bytes, len, &header.data_at, &header.width);
    if (!wrong)
        wrong = mr_ppm_header_number(bytes, len, &header.data_at, &header.height);
    if (!wrong && header.kind != 1 && header.kind != 4)
        wrong = mr_ppm_header_number(bytes, len, &header.data_at, &header.maxval);
    if (!wrong && (header.width == 0 || header.height == 0))
        wrong = "a side of 0 pixels";
    if (!wrong && (header.maxval == 0 || header.maxval > 65535))
        wrong = "the largest value is not 1 to 65535";
    if (!wrong)
        *header_out = header;
    return wrong;
}
