/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores log lines until the program takes them. It is for programs whose log function cannot be
 * called from every thread at any time: in an interpreter with one lock it would wait for that lock
 * while a thread of the library holds another.
 */
#include <pthread.h>
#include <stdio.h>

#include <millrace/status.h>

enum { MAX_LINES = 64, MAX_LINE_BYTES = 1200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned first;
    unsigned n;
    uint64_t n_lost; /* lines dropped since the last report of dropped lines */
    struct {
        mr_log_level level;
        char text[MAX_LINE_BYTES];
    } lines[MAX_LINES];
} queue;

static void queue_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (queue.n == MAX_LINES) {
        queue.n_lost++;
    } else {
        unsigned i = (queue.first + queue.n++) % MAX_LINES;
        queue.lines[i].level = level;
        snprintf(queue.lines[i].text, MAX_LINE_BYTES, "%s", line);
    }
    pthread_mutex_unlock(&lock);
}

void mr_log_queue(void)
{
    pthread_mutex_init(&lock, NULL); /* in a forked child, another thread may have held it */
    queue.first = queue.n = 0;
    queue.n_lost = 0;
    mr_log_set(queue_line, NULL);
}

mr_status mr_log_take(mr_log_level *level_out, char *line_out, size_t size, size_t *len_out)
{
    mr_status status = MR_OK;
    int len = 0;
    if (!level_out || !line_out || size == 0)
        return MR_ERR_INVALID;
    pthread_mutex_lock(&lock);
    if (queue.n > 0) {
        *level_out = queue.lines[queue.first].level;
        len = snprintf(line_out, size, "%s", queue.lines[queue.first].text);
        queue.first = (queue.first + 1) % MAX_LINES;
        queue.n--;
    } else if (queue.n_lost > 0) {
        *level_out = MR_LOG_WARNING;
        len = snprintf(line_out, size, "%llu log lines were dropped",
                       (unsigned long long)queue.n_lost);
        queue.n_lost = 0;
    } else {
        status = MR_END;
    }
    pthread_mutex_unlock(&lock);
    if (len_out && status == MR_OK)
        *len_out = (size_t)len;
    return status;
}
