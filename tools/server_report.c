/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report of mr_store_check(), one line for each answer. */
#include "tools/server_report.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include <millrace/store.h>

#include "tools/say.h"

enum { LOADER_CONNECTIONS = 64 }; /* the loader's default */

static void print_line(const char *name, const char *text)
{
    printf("%-16s", name);
    mr_say_put(stdout, text);
    putchar('\n');
}

static void print_facts(const mr_store_report *report)
{
    print_line("TLS", report->tls ? "yes, and the certificate was verified" : "no");
    if (*report->credentials)
        print_line("credentials", report->credentials);
    if (*report->region)
        print_line("region", report->region);
    print_line("ranges", report->ranges ? "yes: 206 with the right bytes" : "no");
    print_line("ETag", report->strong_etag ? "strong: a replaced object is noticed"
                       : report->weak_etag ? "weak: only time and size tell versions apart"
                                           : "none: only time and size tell versions apart");
    if (!report->ranges)
        return;
    print_line("If-Match", report->if_match ? "honoured: 412 for another version"
                                            : "ignored: answers are compared instead");
    print_line("Content-Length", report->content_length ? "stated" : "not stated");
    print_line("keep-alive",
               report->keep_alive ? "yes" : "no: each request makes a connection, which is slow");
}

static uint32_t count_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static void print_speed(const mr_store_report *report)
{
    uint32_t workers = count_cpus();
    uint32_t read_ahead = (report->n_in_flight + workers - 1) / workers;
    printf("%-16s%.1f ms, the median of 9 requests\n", "delay", report->delay_ms);
    printf("%-16s%.1f MB/s over 1 connection, %.1f MB/s over %" PRIu32 ", in ranges of %" PRIu64
           " bytes\n",
           "rate", report->rate_one / 1e6, report->rate_many / 1e6, report->n_connections,
           report->request_bytes);
    printf("%-16s--workers %" PRIu32 " --read-ahead %" PRIu32, "suggestion", workers, read_ahead);
    if (report->n_in_flight > LOADER_CONNECTIONS)
        printf(" --connections %" PRIu32, report->n_in_flight);
    printf(" (%" PRIu32 " requests under way)\n", report->n_in_flight);
}

int mr_server_report_run(const char *url, uint32_t n_connections)
{
    mr_store_report report = MR_STORE_REPORT_INIT;
    mr_error error = {0};
    char text[32];

    mr_status status = mr_store_check(url, n_connections, &report, &error);
    if (status < 0)
        return mr_say_status(status, &error);
    print_line("object", report.url);
    snprintf(text, sizeof text, "%" PRIu64 " bytes", report.size);
    print_line("size", report.size == UINT64_MAX ? "not stated" : text);
    print_facts(&report);
    if (report.rate_many > 0)
        print_speed(&report);
    if (report.usable)
        printf("A loader can use this server.\n");
    else
        mr_say_error("a loader cannot use this server: %s", report.problem);
    return report.usable ? MR_EXIT_OK : MR_EXIT_FAILED;
}
