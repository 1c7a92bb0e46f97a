/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes sets of ranks for messages. Adjacent ranks become a range ("0-1023"), because a list may
 * name thousands of ranks.
 */
#include "dist/rendezvous/rank_list.h"

#include <stdio.h>
#include <string.h>

void mr_rank_list_spell(const uint8_t *bits, uint32_t n, char *text_out, size_t size)
{
    size_t len = 0;
    text_out[0] = '\0';
    for (uint32_t r = 0; r < n; r++) {
        char item[32];
        uint32_t last = r;
        if (!mr_rank_list_has(bits, r))
            continue;
        while (last + 1 < n && mr_rank_list_has(bits, last + 1))
            last++;
        if (last > r)
            snprintf(item, sizeof item, "%s%u-%u", len ? ", " : "", r, last);
        else
            snprintf(item, sizeof item, "%s%u", len ? ", " : "", r);
        if (len + strlen(item) + sizeof ", ..." > size) {
            snprintf(text_out + len, size - len, ", ...");
            return;
        }
        memcpy(text_out + len, item, strlen(item) + 1);
        len += strlen(item);
        r = last;
    }
}
