/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes signatures. libcurl's own (CURLOPT_AWS_SIGV4) are wrong for some keys and queries in the
 * versions of Debian 12 and 13.
 */
#include "dataset/remote/stores/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataset/remote/stores/crypto_api.h"

enum { HEX = 2 * MR_SHA256_BYTES + 1, DATE_LEN = 8, NAMES = 200 };

size_t mr_sigv4_escape(const char *text, const char *also, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n < size; text++) {
        if (strchr(MR_SIGV4_UNRESERVED, *text) || strchr(also, *text))
            out[n++] = *text;
        else
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*text);
    }
    if (n >= size)
        return size;
    out[n] = '\0';
    return n;
}

void mr_sigv4_time(int64_t seconds, char time_out[MR_SIGV4_TIME])
{
    time_t time = (time_t)seconds;
    struct tm tm;
    if (!gmtime_r(&time, &tm) || strftime(time_out, MR_SIGV4_TIME, "%Y%m%dT%H%M%SZ", &tm) == 0)
        snprintf(time_out, MR_SIGV4_TIME, "19700101T000000Z");
}

static void write_hex(const uint8_t hash[MR_SHA256_BYTES], char hex_out[HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < MR_SHA256_BYTES; i++) {
        hex_out[2 * i] = digits[hash[i] >> 4];
        hex_out[2 * i + 1] = digits[hash[i] & 15];
    }
    hex_out[HEX - 1] = '\0';
}

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* Parameters are in the order of their names, those of one name in that of their values. */
static int compare_parameters(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int order = compare_texts(x, strcspn(x, "=&"), y, strcspn(y, "=&"));
    return order ? order : compare_texts(x, strcspn(x, "&"), y, strcspn(y, "&"));
}

static bool write_query(FILE *file, const char *query)
{
    const char *parameters[MR_SIGV4_PARAMETERS];
    size_t n = 0;
    for (const char *at = query; *at; at += strcspn(at, "&"), at += *at == '&') {
        if (n == MR_SIGV4_PARAMETERS)
            return false;
        parameters[n++] = at;
    }
    qsort(parameters, n, sizeof *parameters, compare_parameters);
    for (size_t i = 0; i < n; i++) {
        int len = (int)strcspn(parameters[i], "&");
        fprintf(file, "%s%.*s%s", i ? "&" : "", len, parameters[i],
                memchr(parameters[i], '=', (size_t)len) ? "" : "=");
    }
    return true;
}

/* The names of the headers that are signed: "host;x-amz-date". */
static void write_names(const struct mr_sigv4_request *request, char names_out[NAMES])
{
    size_t len = 0;
    names_out[0] = '\0';
    for (size_t i = 0; i < request->n_headers && len < NAMES; i++)
        len += (size_t)snprintf(names_out + len, NAMES - len, "%s%s", i ? ";" : "",
                                request->headers[i].name);
}

/* Hash the canonical request. */
static mr_status hash_request(const struct mr_crypto_api *crypto,
                              const struct mr_sigv4_request *request, const char *names,
                              char hex_out[HEX], mr_error *error)
{
    uint8_t hash[MR_SHA256_BYTES];
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    if (!file)
        return mr_error_memory(error, BUFSIZ);
    fprintf(file, "%s\n%s\n", request->method, request->path);
    bool fits = write_query(file, request->query);
    fputc('\n', file);
    for (size_t i = 0; i < request->n_headers; i++)
        fprintf(file, "%s:%s\n", request->headers[i].name, request->headers[i].value);
    fprintf(file, "\n%s\n%s", names, request->payload_hash);
    mr_status status = fclose(file) == 0 ? MR_OK : mr_error_memory(error, len);
    if (status == MR_OK && !fits)
        status = mr_error_set(error, MR_ERR_INVALID, "a query has more than %d parameters",
                              MR_SIGV4_PARAMETERS);
    if (status == MR_OK) {
        crypto->sha256((const uint8_t *)text, len, hash);
        write_hex(hash, hex_out);
    }
    free(text);
    return status;
}

static void hash_with(const struct mr_crypto_api *crypto, const void *key, size_t key_len,
                      const char *text, size_t len, uint8_t hash_out[MR_SHA256_BYTES])
{
    unsigned hash_len;
    crypto->hmac(crypto->evp_sha256(), key, (int)key_len, (const uint8_t *)text, len, hash_out,
                 &hash_len);
}

/* A key that is good for one day, one region and one service. */
static void derive_key(const struct mr_crypto_api *crypto, const struct mr_sigv4_key *key,
                       uint8_t out[MR_SHA256_BYTES])
{
    char first[300];
    int len = snprintf(first, sizeof first, "AWS4%s", key->secret);
    len = len < (int)sizeof first ? len : (int)sizeof first - 1;
    hash_with(crypto, first, (size_t)len, key->time, DATE_LEN, out);
    hash_with(crypto, out, MR_SHA256_BYTES, key->region, strlen(key->region), out);
    hash_with(crypto, out, MR_SHA256_BYTES, key->service, strlen(key->service), out);
    hash_with(crypto, out, MR_SHA256_BYTES, "aws4_request", 12, out);
    explicit_bzero(first, sizeof first);
}

mr_status mr_sigv4_sign(const struct mr_sigv4_request *request, const struct mr_sigv4_key *key,
                        char authorization_out[MR_SIGV4_AUTHORIZATION], mr_error *error)
{
    const struct mr_crypto_api *crypto;
    char names[NAMES], scope[200], text[400], hex[HEX];
    uint8_t derived[MR_SHA256_BYTES], signature[MR_SHA256_BYTES];
    write_names(request, names);
    mr_status status = mr_crypto_api_open(&crypto, error);
    if (status == MR_OK)
        status = hash_request(crypto, request, names, hex, error);
    if (status != MR_OK)
        return status;
    snprintf(scope, sizeof scope, "%.*s/%s/%s/aws4_request", DATE_LEN, key->time, key->region,
             key->service);
    int len = snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", key->time, scope, hex);
    derive_key(crypto, key, derived);
    hash_with(crypto, derived, sizeof derived, text, (size_t)len, signature);
    explicit_bzero(derived, sizeof derived);
    write_hex(signature, hex);
    len = snprintf(authorization_out, MR_SIGV4_AUTHORIZATION,
                   "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", key->id,
                   scope, names, hex);
    return len < MR_SIGV4_AUTHORIZATION
               ? MR_OK
               : mr_error_set(error, MR_ERR_INVALID, "the key id has more than %d bytes",
                              MR_SIGV4_AUTHORIZATION - 500);
}
