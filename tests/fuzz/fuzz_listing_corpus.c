/* SPDX-License-Identifier: Apache-2.0 */
/* A corpus of listings, each cut at every length and with every byte changed in a few ways. */
#include "tests/support/corpus.h"

#define XML "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/\">"

static const char *const corpus[] = {
    "s" XML "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>1/=+</NextContinuationToken><CommonPrefixes><Prefix>p/a+b/</Prefix>"
    "</CommonPrefixes></ListBucketResult>\1" XML
    "<Contents><Key>p/a b/1.jpg</Key><Size>12</Size><ETag>&quot;e&quot;</ETag></Contents>"
    "<Contents><Key>p/a b/c/x&#9;.png</Key><Size>0</Size></Contents></ListBucketResult>\1" XML
    "<CommonPrefixes><Prefix>p/c/</Prefix></CommonPrefixes></ListBucketResult>\1" XML
    "<Contents><Key>p/c/</Key></Contents><Contents><Key>p/c/2.JPG</Key></Contents>"
    "<Contents><Key>p/c/x.txt</Key></Contents></ListBucketResult>",
    "s<!DOCTYPE x [<!ENTITY a 'b'>]>" XML "</ListBucketResult>",
    "h<html><!-- <a href='no/'> --><a href=\"../\">..</a><a href='a%20b/'>a</a>\n"
    "<A class=x HREF = ./c/>c</A><a href='/p/d/'><a href='http://h/p/e/'></html>\1"
    "<a href='1.jpg'><a href=2&amp;3.png><a href='&#x34;.jpg'><a href='?x'><a href='#y'>\1"
    "<a href='sub/'><a href='x.webp'>\1<a href=y.txt><a href=1.ppm>\1<a href=1.tif>\1"
    "<a href=in.jpg>",
};

int main(void)
{
    static const uint8_t changes[] = {'<', '>', '/', '&', '%', '"', '\'', ' ', 0, 0xff, '.'};
    mr_corpus_feed_texts(corpus, sizeof corpus / sizeof *corpus, changes, sizeof changes);
    return 0;
}
