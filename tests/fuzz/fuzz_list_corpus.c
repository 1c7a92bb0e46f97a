/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A corpus of lines, lists and SPECs, each cut at every length and with every byte changed in a few
 * ways.
 */
#include "tests/support/corpus.h"

static const char *const corpus[] = {
    "a.jpg\t1\nb.jpg\t2\n",
    "sub/\\t\\n\\\\.jpg\t-9223372036854775808\r\n",
    "# classes:\tcat\tdo\\tg\na\t0\nb\t1\n",
    "a\t1,2 3, 4\nb\t5 6 7,8\n",
    "a\t1.5 nan -inf\nb\t1e-3,.5,+2.\n",
    "a\t9223372036854775808\n",
    "a\t1\tm\\t,.png\t\r\nb\t2\t\tx\\\\\r\n",
    "http://h/a\t1\tsize=70 etag=\"x-1\"\r\nb\t2\tsize=0\n",
    "records:a,b%2Cc?n=%37&x=1",
    "imagefolder:photos%3F/train?",
};

int main(void)
{
    static const uint8_t changes[] = {'\t', '\n', '\\', ',', ' ', '%', '?', 0, 0xff, '9'};
    mr_corpus_feed_texts(corpus, sizeof corpus / sizeof *corpus, changes, sizeof changes);
    return 0;
}
