/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_facts: describes the machine, one fact per line, with only the GPU's name in the line "gpu |
 * NAME". The exit status says whether this build can use a GPU; the output gives the reason if not.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The part after the colon of the first line of a file that begins with this word. */
static void tell_line(const char *fact, const char *path, const char *begin)
{
    char line[512];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, begin, strlen(begin)) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        gpu_report_fact(fact, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}

/* The first line of a file. */
static void tell_text(const char *fact, const char *path)
{
    char line[512];
    FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file))
        gpu_report_fact(fact, "%.*s", (int)strcspn(line, "\n"), line);
    if (file)
        fclose(file);
}

/*
 * Limits of this process's cgroup and of all above it: "0::/path" is version 2, "7:memory:/path"
 * version 1.
 */
static void tell_limits(char *line)
{
    bool is_2 = strncmp(line, "0::", 3) == 0;
    char *group = is_2 ? line + 3 : strstr(line, ":memory:");
    if (!group)
        return;
    group += is_2 ? 0 : strlen(":memory:");
    group[strcspn(group, "\n")] = '\0';
    for (;;) {
        char *path = gpu_setup_text("/sys/fs/cgroup%s%s/%s", is_2 ? "" : "/memory", group,
                                    is_2 ? "memory.max" : "memory.limit_in_bytes");
        char *fact = gpu_setup_text("memory limit of cgroup %s", group[0] ? group : "/");
        tell_text(fact, path);
        free(path);
        free(fact);
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
}

static void tell_memory(void)
{
    char line[4096];
    tell_line("memory", "/proc/meminfo", "MemTotal");
    tell_line("memory available", "/proc/meminfo", "MemAvailable");
    tell_line("huge pages free", "/proc/meminfo", "HugePages_Free");
    tell_text("shmem_enabled", "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file))
        tell_limits(line);
    if (file)
        fclose(file);
}

static int get_attribute(struct gpu_cuda *cuda, enum cudaDeviceAttr which)
{
    int value = 0;
    gpu_cuda_ok(cuda, cudaDeviceGetAttribute(&value, which, cuda->ordinal),
                "cudaDeviceGetAttribute");
    return value;
}

/* mr_device_count() does not start CUDA in this process, so a child of it can still use CUDA. */
static void count_apart(struct gpu_setup *setup)
{
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, NULL);
    if (n == 0 ||
        !gpu_report_begin(&setup->report, "counting GPUs leaves the process able to fork"))
        return;
    pid_t child = fork();
    if (child == 0) {
        int found = 0;
        _exit(cudaGetDeviceCount(&found) == cudaSuccess && (uint32_t)found == n ? 0 : 1);
    }
    int status = -1;
    gpu_report_expect(&setup->report,
                      child > 0 && waitpid(child, &status, 0) == child && status == 0,
                      "the child ended with %d", status);
    gpu_report_end(&setup->report);
}

int gpu_facts_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    count_apart(&setup);
    tell_line("processor", "/proc/cpuinfo", "model name");
    gpu_report_fact("usable CPUs", "%u", gpu_setup_n_cpus());
    tell_memory();
    tell_line("driver", "/proc/driver/nvidia/version", "NVRM version");
    tell_text("kernel", "/proc/sys/kernel/osrelease");
    gpu_report_fact("millrace", "%s", MR_VERSION);
    gpu_report_begin(&setup.report, "a GPU that this build can use");

    struct gpu_cuda cuda = gpu_cuda_open(&setup);
    struct cudaDeviceProp properties;
    size_t free_bytes = 0, all_bytes = 0;
    mr_error error = {0};
    int driver = 0;
    int runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    gpu_cuda_ok(&cuda, cudaGetDeviceProperties(&properties, cuda.ordinal),
                "cudaGetDeviceProperties");
    gpu_cuda_ok(&cuda, cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, &error);
    gpu_report_expect(&setup.report, n > 0, "mr_device_count: %s", error.text);
    printf("gpu | %s\n", properties.name);
    gpu_report_fact("GPU", "%s, %u SMs, %.0f GiB, compute capability %d.%d", properties.name,
                    cuda.n_sm, (double)all_bytes / (1 << 30),
                    get_attribute(&cuda, cudaDevAttrComputeCapabilityMajor),
                    get_attribute(&cuda, cudaDevAttrComputeCapabilityMinor));
    gpu_report_fact("GPU memory free", "%.1f GiB", (double)free_bytes / (1 << 30));
    gpu_report_fact("GPUs that mr_device_count finds", "%u", n);
    gpu_report_fact("copy engines", "%d", get_attribute(&cuda, cudaDevAttrAsyncEngineCount));
    gpu_report_fact("attributes 88, 99, 100",
                    "PageableMemoryAccess %d, HostRegisterSupported %d, "
                    "PageableMemoryAccessUsesHostPageTables %d",
                    get_attribute(&cuda, (enum cudaDeviceAttr)88),
                    get_attribute(&cuda, cudaDevAttrHostRegisterSupported),
                    get_attribute(&cuda, (enum cudaDeviceAttr)100));
    gpu_report_fact("CUDA of the driver, of this build", "%d.%d, %d.%d", driver / 1000,
                    driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    gpu_cuda_close(&cuda);
    gpu_report_end(&setup.report);
    return gpu_setup_end(&setup);
}
