/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a corpus from frames that ranks send: each cut at every length, and with every byte changed
 * in a few ways.
 */
#include <stdio.h>
#include <string.h>

#include "dist/rendezvous/store_greeting.h"
#include "tests/dist/rendezvous/fuzz_store.h"

static size_t frames(uint8_t *bytes_out, size_t size, const struct mr_store_frame *list, size_t n)
{
    struct mr_store_bytes bytes = {0};
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        mr_store_wire_put(&bytes, &list[i]);
    if (bytes.len <= size && bytes.at)
        memcpy(bytes_out, bytes.at, len = bytes.len);
    mr_store_wire_free(&bytes);
    return len;
}

static size_t make(int which, uint8_t *bytes_out, size_t size)
{
    static const uint8_t eight[8] = {1};
    const struct mr_store_frame set = {.kind = MR_STORE_SET,
                                       .key_len = 1,
                                       .value_len = 3,
                                       .id = 1,
                                       .key = (const uint8_t *)"k",
                                       .value = eight};
    const struct mr_store_frame get = {
        .kind = MR_STORE_GET, .key_len = 1, .id = 2, .key = (const uint8_t *)"q"};
    const struct mr_store_frame add = {.kind = MR_STORE_ADD,
                                       .key_len = 1,
                                       .value_len = 8,
                                       .id = 3,
                                       .key = (const uint8_t *)"n",
                                       .value = eight};
    struct mr_store_frame remove = get;
    remove.kind = MR_STORE_REMOVE;
    const struct mr_store_frame cancel = {.kind = MR_STORE_CANCEL, .id = 2},
                                beat = {.kind = MR_STORE_BEAT}, bye = {.kind = MR_STORE_BYE};
    const struct mr_store_greeting greeting = {.version = MR_STORE_VERSION,
                                               .world_size = 2,
                                               .run = UINT64_C(0x1234abcd5678),
                                               .restart = 3};
    switch (which) {
    case 0: return frames(bytes_out, size, (const struct mr_store_frame[]){set, get, beat}, 3);
    case 1: return frames(bytes_out, size, (const struct mr_store_frame[]){add, add, remove}, 3);
    case 2: return frames(bytes_out, size, (const struct mr_store_frame[]){get, cancel, bye}, 3);
    default: break;
    }
    memset(bytes_out, 0, MR_STORE_GREETING);
    mr_store_greeting_write(&greeting, bytes_out);
    return MR_STORE_GREETING;
}

int main(void)
{
    static const uint8_t changes[] = {0, 1, 0x7f, 0x80, 0xff};
    unsigned long n = 0;
    for (int which = 0; which < 4; which++) {
        uint8_t bytes[256], before;
        size_t len = make(which, bytes, sizeof bytes);
        for (size_t cut = 0; cut <= len; cut++, n++)
            LLVMFuzzerTestOneInput(bytes, cut);
        for (size_t at = 0; at < len; at++) {
            before = bytes[at];
            for (size_t c = 0; c < sizeof changes; c++, n++) {
                bytes[at] = changes[c];
                LLVMFuzzerTestOneInput(bytes, len);
            }
            bytes[at] = before;
        }
    }
    printf("%lu inputs\n", n);
    return 0;
}
