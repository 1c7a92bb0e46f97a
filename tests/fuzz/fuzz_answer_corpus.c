/* SPDX-License-Identifier: Apache-2.0 */
/* A corpus of answers, each cut at every length and with every byte changed in a few ways. */
#include "tests/support/corpus.h"

static const char *const corpus[] = {
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-999/1000\r\nContent-Length: 900\r\n"
    "ETag: \"x-1\"\r\nLast-Modified: Sat, 28 Nov 2026 10:00:00 GMT\r\n",
    "HTTP/1.1 206\r\ncontent-range: bytes 990-999/*\r\nETag: W/\"x-1\"\r\n",
    "HTTP/1.0 200 OK\nContent-Length: 1000\nContent-Encoding: gzip\n",
    "HTTP/2 200\r\ncontent-length: 18446744073709551615\r\ncontent-encoding: identity\r\n",
    "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */1000\r\n",
    "HTTP/1.1 302 Found\r\nLocation: https://cdn.example.org/c?X=1\r\nX-Linked-ETag: \"x-2\"\r\n",
    "HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\nHTTP/1.1 403 Forbidden\r\n",
    "HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1\r\n\n"
    "<?xml version=\"1.0\"?><Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region>",
    "HTTP/1.1 400 Bad Request\r\n\n<Error><Code>ExpiredToken</Code><Message>m</Message></Error>",
    "HTTP/1.1 503 Slow Down\r\nRetry-After: 3\r\n\n<Code>SlowDown</Code>",
    "HTTP/1.1 412 Precondition Failed\r\n",
    "HTTP/1.1 404 Not Found\r\nX-Error-Code: EntryNotFound\r\n\n<Code></Code>",
};

int main(void)
{
    static const uint8_t changes[] = {'\r', '\n', ':', '"', ' ', '-', '/', '*', '<', 0, 0xff, '9'};
    mr_corpus_feed_texts(corpus, sizeof corpus / sizeof *corpus, changes, sizeof changes);
    return 0;
}
