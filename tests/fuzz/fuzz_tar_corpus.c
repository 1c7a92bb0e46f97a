/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small shard with every kind of header, cut at many lengths and with bytes changed in a few
 * ways.
 */
#include "tests/support/corpus.h"
#include "tests/support/shards.h"

static void build_shard(struct mr_test_shard *shard)
{
    static const char pax[] = "15 path=d/a.jpg\n16 size=00000003\n";
    mr_test_shard_add_type(shard, 'g', "global", "12 comment=x\n", 13);
    mr_test_shard_add_type(shard, 'x', "pax", pax, sizeof pax - 1);
    mr_test_shard_add_text(shard, "short", "abc");
    mr_test_shard_add_text(shard, "d/a.json", "{\"x\":[{}],\"y\":7}");
    mr_test_shard_add_type(shard, '5', "d/", NULL, 0);
    mr_test_shard_add_type(shard, 'L', "long", "e/b.png", 8);
    mr_test_shard_add_text(shard, "short", "png");
    mr_test_shard_add_text(shard, "e/b.json", "{\"y\":-1}");
    mr_test_shard_end(shard);
}

int main(void)
{
    static const uint8_t changes[] = {0, 0xff, '7', ' ', '=', 0x80};
    struct mr_test_shard shard = {0};
    unsigned long n = 0;
    build_shard(&shard);
    for (size_t cut = 0; cut <= shard.len; cut += cut % 512 < 4 || cut % 512 > 508 ? 1 : 37, n++)
        mr_corpus_feed(shard.bytes, cut);
    for (size_t at = 0; at < shard.len; at++) {
        uint8_t was = shard.bytes[at];
        if (was == 0 && at % 7 != 0) /* padding, mostly */
            continue;
        for (size_t c = 0; c < sizeof changes; c++, n++) {
            shard.bytes[at] = changes[c];
            mr_corpus_feed(shard.bytes, shard.len);
        }
        shard.bytes[at] = was;
    }
    mr_test_shard_free(&shard);
    printf("%lu inputs\n", n);
    return 0;
}
