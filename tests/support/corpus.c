/* SPDX-License-Identifier: Apache-2.0 */
/* Makes inputs from seeds, and writes the seeds to files. */
#include "tests/support/corpus.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t mr_corpus_draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

uint8_t *mr_corpus_room(size_t len)
{
    uint8_t *room = malloc(len ? len : 1);
    if (!room)
        abort();
    return room;
}

void mr_corpus_feed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = mr_corpus_room(len);
    if (len)
        memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

void mr_corpus_feed_cuts(const struct mr_test_image *seed, size_t n_cuts)
{
    for (size_t i = 0; i <= n_cuts; i++)
        mr_corpus_feed(seed->bytes, seed->len * i / n_cuts);
}

void mr_corpus_feed_mutation(const struct mr_test_image *seed, size_t from, uint32_t round,
                             uint32_t *random)
{
    uint8_t *bytes = mr_corpus_room(seed->len);
    size_t len = seed->len, at = from + mr_corpus_draw(random, len - from - 1);
    memcpy(bytes, seed->bytes, len);
    switch (round % 7) {
    case 0: bytes[at] = (uint8_t)mr_corpus_draw(random, 256); break;
    case 1:
        bytes[at] = 0xff;
        bytes[at + 1] = (uint8_t)(mr_corpus_draw(random, 3) ? 0xd0 + mr_corpus_draw(random, 10)
                                                            : mr_corpus_draw(random, 256));
        break;
    case 2:
        len -= 1 + mr_corpus_draw(random, 3);
        memmove(bytes + at, bytes + at + (seed->len - len), len > at ? len - at : 0);
        break;
    case 3: len = at; break;
    default:
        for (uint32_t k = 0; k < round % 7 - 3; k++)
            bytes[from + mr_corpus_draw(random, len - from)] ^=
                (uint8_t)(1u << mr_corpus_draw(random, 8));
    }
    mr_corpus_feed(bytes, len);
    free(bytes);
}

void mr_corpus_feed_texts(const char *const *texts, size_t n_texts, const uint8_t *changes,
                          size_t n_changes)
{
    unsigned long n = 0;
    for (size_t i = 0; i < n_texts; i++) {
        size_t len = strlen(texts[i]);
        uint8_t *bytes = mr_corpus_room(len);
        memcpy(bytes, texts[i], len);
        for (size_t cut = 0; cut <= len; cut++, n++)
            mr_corpus_feed(bytes, cut);
        for (size_t at = 0; at < len; at++) {
            for (size_t c = 0; c < n_changes; c++, n++) {
                bytes[at] = changes[c];
                mr_corpus_feed(bytes, len);
            }
            bytes[at] = (uint8_t)texts[i][at];
        }
        free(bytes);
    }
    printf("%lu inputs\n", n);
}

static void write_seeds(const struct mr_corpus *corpus, const char *folder)
{
    char path[4096];
    (void)mkdir(folder, 0777); /* it may exist */
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "we");
    require(list != NULL, path);
    for (uint32_t i = 0; i < corpus->n_seeds; i++) {
        struct mr_test_image seed = corpus->make_seed(i);
        snprintf(path, sizeof path, "%s/seed%03u", folder, i);
        remove(path);
        mr_test_image_save(&seed, path);
        mr_test_image_free(&seed);
        fprintf(list, "%s%s", i ? "," : "", path);
    }
    require(fclose(list) == 0, "the list of seeds");
}

int mr_corpus_main(const struct mr_corpus *corpus, int argc, char **argv)
{
    uint32_t random = 1;
    if (argc > 1)
        write_seeds(corpus, argv[1]);
    if (argc > 2)
        execv(argv[2], argv + 2);
    if (argc > 1)
        return argc > 2;
    for (uint32_t i = 0; i < corpus->n_seeds; i++) {
        struct mr_test_image seed = corpus->make_seed(i);
        corpus->run_seed(&seed, i, &random);
        mr_test_image_free(&seed);
    }
    return 0;
}
