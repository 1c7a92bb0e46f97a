/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts made of network namespaces. They have no names, because a named namespace outlives a killed
 * test, and two runs would share it. A descriptor holds each one open, and `ip` gets its path in
 * /proc.
 */
#include "tests/dist/gloo/netns_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/die.h"

/*
 * The descriptor of the switch's namespace; the hosts' descriptors follow. Fixed, because a process
 * has one set.
 */
enum { HOME_FD = 200 };

/* Run a shell command. False: it failed. */
static bool __attribute__((format(printf, 1, 2))) run_shell(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

static void enter_namespace(int fd)
{
    if (setns(fd, CLONE_NEWNET) != 0)
        mr_test_die("setns");
}

/* Hold the current namespace of this process open. */
static void hold_namespace(int fd)
{
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || dup3(own, fd, O_CLOEXEC) < 0)
        mr_test_die("/proc/self/ns/net");
    close(own);
}

static bool write_text(const char *path, const char *format, unsigned id)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bool good = fprintf(file, format, id) > 0;
    return fclose(file) == 0 && good;
}

/* Enter a new network namespace, as root or as root of a new user namespace. */
static bool enter_new_namespace(void)
{
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("skipped: no network namespaces here: %s\n", strerror(errno));
        return false;
    }
    if (write_text("/proc/self/setgroups", "deny", 0) &&
        write_text("/proc/self/uid_map", "0 %u 1", uid) &&
        write_text("/proc/self/gid_map", "0 %u 1", gid))
        return true;
    printf("skipped: no user namespaces here: %s\n", strerror(errno));
    return false;
}

static bool add_host(uint32_t host)
{
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    hold_namespace(HOME_FD + 1 + (int)host);
    enter_namespace(HOME_FD);
    if (!run_shell(
            "ip link add port%u type veth peer name eth0 netns /proc/%d/fd/%d && ip link set "
            "port%u master switch up",
            host, (int)getpid(), HOME_FD + 1 + (int)host, host))
        return false;
    enter_namespace(mr_netns_host(host));
    bool good = run_shell(
        "ip link set lo up && ip addr add 10.77.0.%u/24 dev eth0 && ip link set eth0 up", host + 1);
    enter_namespace(HOME_FD);
    return good;
}

bool mr_netns_init(void)
{
    if (!run_shell("ip -V >/dev/null 2>&1")) {
        puts("skipped: no ip command (package iproute2)");
        return false;
    }
    if (!enter_new_namespace())
        return false;
    hold_namespace(HOME_FD);
    bool good =
        run_shell("ip link set lo up && ip link add switch type bridge && ip link set switch up");
    for (uint32_t host = 0; host < NETNS_HOSTS && good; host++)
        good = add_host(host);
    if (!good)
        puts("skipped: bridge and veth links are refused here");
    return good;
}

int mr_netns_host(uint32_t host)
{
    return HOME_FD + 1 + (int)host;
}

void mr_netns_cut(uint32_t host, enum netns_cut how)
{
    if (how == NETNS_SILENT) {
        if (!run_shell("ip link set port%u nomaster", host))
            mr_test_die("ip link set nomaster");
        return;
    }
    enter_namespace(mr_netns_host(host));
    bool good = run_shell("ip link set eth0 down");
    enter_namespace(HOME_FD);
    if (!good)
        mr_test_die("ip link set down");
}

void mr_netns_mend(void)
{
    for (uint32_t host = 0; host < NETNS_HOSTS; host++) {
        enter_namespace(mr_netns_host(host));
        bool good = run_shell("ip link set eth0 up");
        enter_namespace(HOME_FD);
        if (!good || !run_shell("ip link set port%u master switch", host))
            mr_test_die("ip link set");
    }
}

int mr_netns_listen(uint32_t host, uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = INADDR_ANY};
    socklen_t len = sizeof address;
    enter_namespace(mr_netns_host(host));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enter_namespace(HOME_FD);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        mr_test_die("listen");
    *port = ntohs(address.sin_port);
    return fd;
}
