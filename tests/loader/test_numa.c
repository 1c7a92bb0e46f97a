/* SPDX-License-Identifier: Apache-2.0 */
/* Placement on the NUMA nodes of an invented machine, and the warning about a narrow CPU mask. */
#include "loader/numa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/mempolicy.h>

#include "loader/workers/worker_setup.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/assert_words.h"

static cpu_set_t cpus_of(const char *text)
{
    cpu_set_t cpus;
    if (!mr_numa_parse_cpus(text, &cpus))
        fail_msg("'%s' is no list", text);
    return cpus;
}

static void lists_are_read_and_written(void **state)
{
    (void)state;
    static const char *const lists[] = {"",       "0",    "0-3,8,10-11", "5,7,9",
                                        "0-1023", "1023", "1-2,4-5"};
    cpu_set_t cpus = cpus_of("0-3,8,10-11\n");
    assert_int_equal(CPU_COUNT(&cpus), 7);
    assert_true(CPU_ISSET(3, &cpus) && CPU_ISSET(8, &cpus) && CPU_ISSET(11, &cpus) &&
                !CPU_ISSET(9, &cpus));
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[64];
        cpus = cpus_of(lists[i]);
        mr_numa_describe_cpus(&cpus, text, sizeof text);
        assert_string_equal(text, lists[i]);
    }
}

static void a_malformed_list_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"x",   "-1",   "1-",     "1,",
                                        ",1",  "3-1",  "0-1024", "1024",
                                        "1 2", "1\n2", "1--2",   "99999999999999999999",
                                        "0x3", " 1",   "+1"};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        cpu_set_t cpus;
        if (mr_numa_parse_cpus(texts[i], &cpus))
            fail_msg("'%s' was read as a list", texts[i]);
    }
}

static void a_long_list_is_cut_off(void **state)
{
    (void)state;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu += 2)
        CPU_SET(cpu, &cpus);
    for (size_t size = 8; size < 64; size++) {
        char text[65];
        memset(text, '#', sizeof text);
        mr_numa_describe_cpus(&cpus, text, size);
        size_t len = strlen(text);
        assert_true(len < size);
        assert_string_equal(text + len - 4, ",...");
        assert_int_equal(text[size], '#');
        assert_memory_equal(text, "0,2", 3);
    }
}

/* Make a machine of these nodes. Each list has a node's CPUs; NULL: the node lacks that file. */
static char *make_nodes(const char *online, const char *const *lists, unsigned n)
{
    char name[64], path[600];
    char *folder = mr_test_folder_create();
    if (online)
        mr_test_folder_write(folder, "online", online, strlen(online));
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/node%u", folder, i);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(name, sizeof name, "node%u/cpulist", i);
        if (lists[i])
            mr_test_folder_write(folder, name, lists[i], strlen(lists[i]));
    }
    return folder;
}

static void nodes_and_their_cpus_are_found(void **state)
{
    (void)state;
    static const char *const lists[] = {"0-3,8-11\n", "4-7,12-15\n", "\n", "nonsense\n", NULL};
    char *nodes = make_nodes("0-4\n", lists, 5);
    char text[64];
    cpu_set_t cpus;
    assert_int_equal(mr_numa_n_nodes(nodes), 5);
    assert_true(mr_numa_node_cpus(nodes, 1, &cpus));
    mr_numa_describe_cpus(&cpus, text, sizeof text);
    assert_string_equal(text, "4-7,12-15");
    for (int32_t node = -1; node < 7; node++) {
        bool has = node == 0 || node == 1;
        assert_int_equal(mr_numa_node_cpus(nodes, node, &cpus), has);
        assert_int_equal(CPU_COUNT(&cpus), has ? 8 : 0);
    }
}

static void without_a_list_a_machine_has_one_node(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "many\n", "0\n", NULL};
    for (unsigned i = 0; i < 5; i++) {
        char *nodes = make_nodes(texts[i], NULL, 0);
        assert_int_equal(mr_numa_n_nodes(nodes), 1);
        mr_test_folder_remove(nodes);
    }
    assert_int_equal(mr_numa_n_nodes("/nowhere/at/all"), 1);
    assert_true(mr_numa_n_nodes(NULL) >= 1);
}

/* A control block with its records, as in a slab. */
struct block {
    struct mr_slab slab;
    struct mr_shared shared;
};

static struct block make_block(uint32_t n_workers)
{
    struct block block;
    mr_error error;
    struct mr_control draft = {.n_workers = n_workers};
    uint64_t len = mr_control_lay_out(&draft, n_workers, 2);
    assert_int_equal(mr_slab_create(len, MR_SLAB_PAGES_SMALL, &block.slab, &error), MR_OK);
    memcpy(block.slab.base, &draft, sizeof draft);
    block.shared = mr_control_map(block.slab.base);
    for (uint32_t i = 0; i < n_workers; i++)
        block.shared.records[i].cpu = -1;
    return block;
}

static uint32_t count_near(const struct block *block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < block->shared.control->n_workers; i++)
        n += atomic_load(&block->shared.records[i].near);
    return n;
}

static int first_cpu(void)
{
    cpu_set_t mask;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    while (!CPU_ISSET((size_t)cpu, &mask))
        cpu++;
    return cpu;
}

static void one_worker_for_each_cpu_of_the_node_goes_there(void **state)
{
    (void)state;
    char list[32];
    const char *const lists[] = {list, "1000-1010", ""};
    /* the CPUs from 1000 on are not in the mask */
    snprintf(list, sizeof list, "%d,1000-1023\n", first_cpu());
    char *nodes = make_nodes("0-2\n", lists, 3);
    struct block block = make_block(3);
    mr_numa_place_workers(nodes, &block.shared, 1);
    mr_numa_place_workers(nodes, &block.shared, 2);
    mr_numa_place_workers(nodes, &block.shared, 3);
    mr_numa_place_workers(nodes, &block.shared, -1);
    assert_int_equal(count_near(&block), 0);
    mr_numa_place_workers(nodes, &block.shared, 0);
    assert_int_equal(count_near(&block), 1);
    assert_int_equal(atomic_load(&block.shared.records[0].near), 1);
    cpu_set_t set;
    memcpy(&set, block.shared.control->near_cpus, sizeof set);
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(CPU_ISSET((size_t)first_cpu(), &set));
    mr_slab_destroy(&block.slab);
}

static void on_one_node_no_worker_is_placed(void **state)
{
    (void)state;
    const char *const lists[] = {"0-1023"};
    char *nodes = make_nodes("0\n", lists, 1);
    struct block block = make_block(2);
    mr_numa_place_workers(nodes, &block.shared, 0);
    assert_int_equal(count_near(&block), 0);
    mr_slab_destroy(&block.slab);
}

static void a_worker_moves_unless_it_has_an_affinity(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t now;
    struct block block = make_block(2);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&now);
    CPU_SET((size_t)first_cpu(), &now);
    memcpy(block.shared.control->near_cpus, &now, sizeof now);
    atomic_store(&block.shared.records[0].near, 1);
    block.shared.records[0].cpu = first_cpu();
    struct mr_worker_job job = {.shared = block.shared, .id = 1};
    assert_false(mr_worker_setup_move_near(&job)); /* it is not among the near workers */
    job.id = 0;
    assert_true(mr_worker_setup_move_near(&job)); /* this one has its own CPU */
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &before));
    block.shared.records[0].cpu = -1;
    assert_true(mr_worker_setup_move_near(&job));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_int_equal(CPU_COUNT(&now), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    mr_slab_destroy(&block.slab);
}

static int policy_of(const void *at)
{
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0UL, at, (unsigned long)MPOL_F_ADDR) == 0 ? mode
                                                                                             : -1;
}

static void memory_prefers_its_node_if_there_are_several(void **state)
{
    (void)state;
    char *one = make_nodes("0\n", NULL, 0), *two = make_nodes("0-1\n", NULL, 0);
    struct block block = make_block(1);
    mr_numa_prefer_memory(one, &block.slab, 0);
    mr_numa_prefer_memory(two, &block.slab, -1);
    mr_numa_prefer_memory(two, &block.slab, 100000);
    int before = policy_of(block.slab.base);
    assert_true(before == MPOL_DEFAULT || before == -1);
    mr_numa_prefer_memory(two, &block.slab, 0); /* the real machine has a node 0 */
    if (before == MPOL_DEFAULT)
        assert_int_equal(policy_of(block.slab.base), MPOL_PREFERRED);
    mr_slab_destroy(&block.slab);
}

static void a_narrow_mask_is_named_with_the_remedy(void **state)
{
    (void)state;
    char text[MR_NUMA_TEXT];
    cpu_set_t mask = cpus_of("3"), online = cpus_of("0-63");
    mr_numa_describe_mask(8, &mask, &online, text);
    static const char *const words[] = {
        "8 workers share 1 usable CPU:", "CPU 3 of 0-63",   "mpirun --bind-to none",
        "srun --cpus-per-task=9",        "--cpu-bind=none", "taskset -c 0-63"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        assert_words(text, words[i]);
}

static void a_small_machine_is_not_blamed_on_a_launcher(void **state)
{
    (void)state;
    char text[MR_NUMA_TEXT];
    cpu_set_t mask = cpus_of("0-1");
    mr_numa_describe_mask(4, &mask, &mask, text);
    assert_words(text, "4 workers share 2 usable CPUs: ");
    assert_words(text, "0-1");
    assert_words(text, "num_workers 2");
    assert_null(strstr(text, "mpirun"));
}

static void the_longest_masks_fit(void **state)
{
    (void)state;
    char text[MR_NUMA_TEXT + 1];
    cpu_set_t mask;
    cpu_set_t online;
    CPU_ZERO(&mask);
    for (size_t cpu = 100; cpu < CPU_SETSIZE; cpu += 2)
        CPU_SET(cpu, &mask);
    online = mask;
    CPU_SET(0, &online);
    text[MR_NUMA_TEXT] = '#';
    mr_numa_describe_mask(UINT32_MAX - 1, &mask, &online, text);
    assert_true(strlen(text) < MR_NUMA_TEXT - 1);
    assert_words(text, "cpuset of the container");
    assert_int_equal(text[MR_NUMA_TEXT], '#');
}

static void this_process_has_a_mask(void **state)
{
    (void)state;
    cpu_set_t mask;
    cpu_set_t online;
    if (!mr_numa_get_masks(&mask, &online))
        skip();
    assert_true(CPU_COUNT(&mask) > 0);
    assert_true(CPU_COUNT(&online) > 0);
}

static void keep_line(void *user, mr_log_level level, const char *line)
{
    (void)level;
    snprintf(user, MR_NUMA_TEXT, "%s", line);
}

/* A loader's number of workers, and the warning about it. */
struct number {
    const char *name;
    uint32_t num_workers; /* 1000: one more than the machine has CPUs */
    const char *device;
    bool is_bound;     /* to one CPU */
    bool has_list;     /* of CPUs for its workers */
    const char *words; /* of the warning; NULL: none */
};

static const struct number numbers[] = {
    {"the default, unbound", 0, "host:0", false, false, NULL},
    {"the default, bound", 0, "host:0", true, false,
     "4 workers share 1 usable CPU: this process is bound to CPU "},
    {"asked for, unbound", 1000, "host", false, false, ": the machine has only CPUs "},
    {"asked for, bound", 2, "host", true, false,
     "2 workers share 1 usable CPU: this process is bound to CPU "},
    {"one for the one CPU", 1, "host", true, false, NULL},
    {"CPUs asked for", 2, "host", true, true, NULL},
    {"no workers", MR_NO_WORKERS, "host", true, false, NULL},
};

/*
 * Run in a child, because the warning comes once per process. Returns 0, or the number of the
 * failed step.
 */
static int check_number(const struct number *number, mr_dataset *dataset, uint32_t n_online)
{
    char line[MR_NUMA_TEXT] = "";
    int32_t cpu = (int32_t)first_cpu();
    cpu_set_t one;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.num_workers = number->num_workers == 1000 ? n_online + 1 : number->num_workers;
    options.device = number->device;
    options.start = MR_START_THREAD;
    if (number->has_list) {
        options.affinity = MR_AFFINITY_LIST;
        options.affinity_cpus = &cpu;
        options.n_affinity_cpus = 1;
    }
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    if (number->is_bound && sched_setaffinity(0, sizeof one, &one) != 0)
        return 1;
    mr_log_set(keep_line, line);
    mr_loader_destroy(mr_test_loader(dataset, "train:16", &options));
    if (number->words)
        return strstr(line, number->words) ? 0 : 2;
    return strstr(line, "workers share") ? 3 : 0;
}

/* Runs before a loader of this process has warned. */
static void a_number_of_workers_is_warned_about_if_it_can_be_changed(void **state)
{
    (void)state;
    char spec[600];
    cpu_set_t mask, online;
    if (!mr_numa_get_masks(&mask, &online) || CPU_COUNT(&online) < 2 || !CPU_EQUAL(&mask, &online))
        skip();
    char *folder = mr_test_folder_filled(1, 2);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(check_number(&numbers[i], dataset, (uint32_t)CPU_COUNT(&online)));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: status %d", numbers[i].name, status);
    }
    mr_dataset_destroy(dataset);
}

static void a_loader_warns_of_a_narrow_mask_once(void **state)
{
    (void)state;
    char spec[600], line[MR_NUMA_TEXT] = "";
    cpu_set_t before, online, one;
    if (!mr_numa_get_masks(&before, &online) || CPU_COUNT(&online) < 2)
        skip();
    char *folder = mr_test_folder_filled(1, 2);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.num_workers = 2;
    options.start = MR_START_THREAD;
    CPU_ZERO(&one);
    CPU_SET((size_t)first_cpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    mr_log_set(keep_line, line);
    mr_loader_destroy(mr_test_loader(dataset, "train:16", &options));
    assert_words(line, "2 workers share 1 usable CPU: this process is bound to CPU ");
    line[0] = '\0';
    mr_loader_destroy(mr_test_loader(dataset, "train:16", &options));
    assert_string_equal(line, "");
    mr_log_set(NULL, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_and_written),
        cmocka_unit_test(a_malformed_list_is_refused),
        cmocka_unit_test(a_long_list_is_cut_off),
        cmocka_unit_test(nodes_and_their_cpus_are_found),
        cmocka_unit_test(without_a_list_a_machine_has_one_node),
        cmocka_unit_test(one_worker_for_each_cpu_of_the_node_goes_there),
        cmocka_unit_test(on_one_node_no_worker_is_placed),
        cmocka_unit_test(a_worker_moves_unless_it_has_an_affinity),
        cmocka_unit_test(memory_prefers_its_node_if_there_are_several),
        cmocka_unit_test(a_narrow_mask_is_named_with_the_remedy),
        cmocka_unit_test(a_small_machine_is_not_blamed_on_a_launcher),
        cmocka_unit_test(the_longest_masks_fit),
        cmocka_unit_test(this_process_has_a_mask),
        cmocka_unit_test(a_number_of_workers_is_warned_about_if_it_can_be_changed),
        cmocka_unit_test(a_loader_warns_of_a_narrow_mask_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
