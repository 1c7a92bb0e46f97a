/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy for tests that makes a network worse: answers are delayed, have a limited rate, are reset
 * or stop. One thread moves the bytes. A failure here ends the program.
 */
#ifndef TESTS_SUPPORT_TCP_PROXY_H
#define TESTS_SUPPORT_TCP_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct mr_test_proxy_options {
    uint16_t port;         /* of 127.0.0.1; 0: a free one */
    uint16_t upstream;     /* the server's port of 127.0.0.1 */
    uint32_t delay_us;     /* from the arrival of a server's byte to its sending */
    uint64_t rate;         /* bytes a second of all answers together; 0: no limit */
    uint32_t reset_one_in; /* so many pieces of answers, of up to 64 KiB: the connection is reset in
                              place of sending the piece; 0: never */
    bool is_http_proxy; /* a first line "CONNECT ..." is answered and not passed on, so clients with
                           https_proxy reach the server too */
};

struct mr_test_proxy;

struct mr_test_proxy *mr_test_proxy_start(const struct mr_test_proxy_options *options);
/* Resets all connections. */
void mr_test_proxy_stop(struct mr_test_proxy *proxy);

uint16_t mr_test_proxy_port(const struct mr_test_proxy *proxy);
/* After this no byte passes, and no connection is made, reset or closed, until the next call. */
void mr_test_proxy_silence(struct mr_test_proxy *proxy, bool is_silent);
uint64_t mr_test_proxy_n_connections(const struct mr_test_proxy *proxy);
uint64_t mr_test_proxy_n_bytes(const struct mr_test_proxy *proxy); /* of answers, sent */

#endif
