/* SPDX-License-Identifier: Apache-2.0 */
/* A home folder, an environment, and a server that answers as AWS's sources of keys do. */
#ifndef TESTS_DATASET_KEY_RIG_H
#define TESTS_DATASET_KEY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataset/remote/stores/settings.h"
#include "tests/support/http_server.h"

enum { PATH_BYTES = 4300 };

extern struct key_rig {
    char *folder;
    struct mr_test_http *server;
    int n_sets;                  /* how many sets of keys the server has given */
    int life_s;                  /* of its keys */
    bool refuses;                /* the server gives no more keys */
    int n_busy, busy_after_role; /* so many answers of the metadata service are 503 */
    int n_slow;                  /* so many of them come too late */
    _Atomic bool hangs;          /* the server does not answer until it becomes false */
    char head[4096], body[4096]; /* of the last request for keys */
    char logged[1000];
    int n_logged;
} key_rig;

/* A time as in JSON, from now. */
void key_rig_write_time(char text[40], int from_now_s);
/* Of all tests: the folder, which is HOME, and the server. */
int key_rig_start(void **state);
int key_rig_stop(void **state);
void key_rig_set(const char *name, const char *value);
/* A path of a file in the folder, or a URL of the server, as a variable. */
void key_rig_set_below(const char *name, const char *root, const char *rest);
void key_rig_write_file(const char *name, const char *text);
/* Without any source but the files of AWS, which are empty. */
int key_rig_set_up(void **state);
/* The settings in an environment that is not the one of the last call. */
struct mr_store_s3 key_rig_find(void);
/* The same, whose keys are these. */
void key_rig_expect_keys(const char *id, const char *secret, const char *token);
/* The same without keys, and with a problem that has the words. */
void key_rig_expect_problem(const char *words);
/* An executable file. */
void key_rig_write_script(const char *name, const char *text);
/* ~/.aws/config */
void key_rig_write_config(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
