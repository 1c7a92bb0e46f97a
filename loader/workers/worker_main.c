/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper program: attaches the slab and the catalog that it inherited, and works. It shares
 * nothing else with the program that uses the loader.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "dataset/remote/stores/settings_cell.h"
#include "loader/workers/worker.h"
#include "loader/workers/worker_image.h"
#include "loader/workers/worker_setup.h"

static int print_error(const mr_error *error)
{
    fprintf(stderr, "millrace-worker: %s\n", error->text);
    return 1;
}

/* Find the catalog's descriptors by number; -1 for those that were not inherited. */
static void find_fds(int fds[MR_CATALOG_N_FDS])
{
    for (int i = 0; i < MR_CATALOG_N_FDS; i++) {
        int fd = MR_WORKER_FIRST_FD + MR_WORKER_FD_CATALOG + i;
        fds[i] = fcntl(fd, F_GETFD) >= 0 ? fd : -1;
    }
}

static mr_status attach_settings(mr_error *error)
{
    int fd = MR_WORKER_FIRST_FD + MR_WORKER_FD_SETTINGS;
    return fcntl(fd, F_GETFD) >= 0 ? mr_settings_cell_attach(fd, error) : MR_OK;
}

int main(int argc, char **argv)
{
    struct mr_slab slab;
    struct mr_worker_job job = {0};
    struct mr_catalog *catalog;
    mr_error error;
    int fds[MR_CATALOG_N_FDS];
    if (argc != 2) {
        fputs("millrace-worker is started by libmillrace, not by hand\n", stderr);
        return 2;
    }
    if (mr_slab_attach(MR_WORKER_FIRST_FD + MR_WORKER_FD_SLAB, &slab, &error) != MR_OK ||
        mr_control_attach(&slab, &job.shared, &error) != MR_OK)
        return print_error(&error);
    if (job.shared.control->slab_pages == MR_SLAB_PAGES_ASKED)
        mr_slab_ask(&slab);
    /*
     * The death signal was set before the exec. If the host died even earlier, the parent has
     * changed.
     */
    if (getppid() != (pid_t)job.shared.control->host_pid)
        return 1;
    job.id = (uint32_t)strtoul(argv[1], NULL, 10);
    if (job.id >= job.shared.control->n_workers)
        return 2;
    find_fds(fds);
    struct mr_worker_record *record = &job.shared.records[job.id];
    if (attach_settings(&record->error) != MR_OK ||
        mr_catalog_attach(fds, &catalog, &record->error) != MR_OK) {
        atomic_store(&record->failed, 1);
        return 1;
    }
    job.catalog = catalog;
    job.own_process = true;
    mr_worker_setup_process(&job);
    int code = mr_worker_main(&job);
    mr_catalog_detach(catalog);
    return code;
}
