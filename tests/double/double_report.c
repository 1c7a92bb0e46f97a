/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as text. They stay after their machine is closed, until the next one is opened. */
#include "tests/double/double_machine.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_LINES = 64, MAX_LINE = 300 };

static struct {
    uint32_t found[DOUBLE_N_FINDINGS];
    uint32_t n_lines;
    size_t used;
    char text[MAX_LINES * MAX_LINE];
} report;

/* Not the machine's lock, which opens a machine if there is none. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add_line(const char *format, va_list arguments)
{
    if (report.n_lines == MAX_LINES)
        return;
    char *line = report.text + report.used;
    (void)vsnprintf(line, MAX_LINE - 1, format, arguments);
    report.used += strlen(line);
    report.text[report.used++] = '\n';
    report.text[report.used] = '\0';
    report.n_lines++;
}

void double_report_add(enum double_finding kind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    report.found[kind]++;
    add_line(format, arguments);
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

void double_report_reset(void)
{
    pthread_mutex_lock(&lock);
    memset(report.found, 0, sizeof report.found);
    report.n_lines = 0;
    report.used = 0;
    report.text[0] = '\0';
    pthread_mutex_unlock(&lock);
}

uint32_t double_report_count(void)
{
    uint32_t n = 0;
    for (int i = 0; i < DOUBLE_N_FINDINGS; i++)
        n += double_found((enum double_finding)i);
    return n;
}

uint32_t double_found(enum double_finding kind)
{
    pthread_mutex_lock(&lock);
    uint32_t found = report.found[kind];
    pthread_mutex_unlock(&lock);
    return found;
}

const char *double_report(void)
{
    return report.text;
}

void double_forget(void)
{
    double_report_reset();
}
