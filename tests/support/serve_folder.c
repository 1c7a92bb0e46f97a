/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_folder FOLDER: an HTTP server that answers ranges, for tests in Python. Writes its URL in
 * a line and ends when its input ends.
 */
#include <stdio.h>

#include "tests/support/http_server.h"

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: serve_folder FOLDER\n");
        return 2;
    }
    struct mr_test_http *server = mr_test_http_start(argv[1], NULL, NULL);
    puts(mr_test_http_url(server));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    mr_test_http_stop(server);
    return 0;
}
