/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_proxy UPSTREAM_PORT [DELAY_US [BYTES_A_SECOND [RESET_ONE_IN]]]: the proxy of tcp_proxy.h, for
 * tests in Python and for measurements. Writes its port in a line. An input line "silence" stops
 * all bytes, any other lets them pass; it ends when its input ends, and then writes its CPU
 * seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/tcp_proxy.h"

static uint64_t number(int argc, char **argv, int i)
{
    return i < argc ? strtoull(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc < 2) {
        fprintf(stderr, "usage: run_proxy UPSTREAM_PORT [DELAY_US [RATE [RESET_ONE_IN]]]\n");
        return 2;
    }
    struct mr_test_proxy_options options = {.upstream = (uint16_t)number(argc, argv, 1),
                                            .delay_us = (uint32_t)number(argc, argv, 2),
                                            .rate = number(argc, argv, 3),
                                            .reset_one_in = (uint32_t)number(argc, argv, 4),
                                            .is_http_proxy = true};
    struct mr_test_proxy *proxy = mr_test_proxy_start(&options);
    printf("%u\n", (unsigned)mr_test_proxy_port(proxy));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        mr_test_proxy_silence(proxy, strcmp(line, "silence\n") == 0);
    printf("%ju connections, %ju bytes, %.2f s of CPU\n",
           (uintmax_t)mr_test_proxy_n_connections(proxy), (uintmax_t)mr_test_proxy_n_bytes(proxy),
           (double)clock() / CLOCKS_PER_SEC);
    mr_test_proxy_stop(proxy);
    return 0;
}
