/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts made of network namespaces. They have no names, because named ones outlive a test that is
 * killed, and two runs would share them: a descriptor holds each, and `ip` is given its path in
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

/* the switch's namespace; hosts follow. Fixed, for there is one set of them per process. */
enum { HOME_FD = 200 };

/* A shell's command; false when it fails. */
static bool __attribute__((format(printf, 1, 2))) did(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

static void enter(int fd)
{
    if (setns(fd, CLONE_NEWNET) != 0)
        mr_test_die("setns");
}

/* Keep the namespace that this process is in. */
static void hold(int fd)
{
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || dup3(own, fd, O_CLOEXEC) < 0)
        mr_test_die("/proc/self/ns/net");
    close(own);
}

static bool wrote(const char *path, const char *format, unsigned id)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bool good = fprintf(file, format, id) > 0;
    return fclose(file) == 0 && good;
}

/* As root, or as root of a user namespace of one's own. */
static bool become_alone(void)
{
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("skipped: no network namespaces here: %s\n", strerror(errno));
        return false;
    }
    if (wrote("/proc/self/setgroups", "deny", 0) && wrote("/proc/self/uid_map", "0 %u 1", uid) &&
        wrote("/proc/self/gid_map", "0 %u 1", gid))
        return true;
    printf("skipped: no user namespaces here: %s\n", strerror(errno));
    return false;
}

static bool add_host(uint32_t host)
{
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    hold(HOME_FD + 1 + (int)host);
    enter(HOME_FD);
    if (!did("ip link add port%u type veth peer name eth0 netns /proc/%d/fd/%d && ip link set "
             "port%u master switch up",
             host, (int)getpid(), HOME_FD + 1 + (int)host, host))
        return false;
    enter(mr_netns_host(host));
    bool good = did(
        "ip link set lo up && ip addr add 10.77.0.%u/24 dev eth0 && ip link set eth0 up", host + 1);
    enter(HOME_FD);
    return good;
}

bool mr_netns_init(void)
{
    if (!did("ip -V >/dev/null 2>&1")) {
        puts("skipped: no ip command (package iproute2)");
        return false;
    }
    if (!become_alone())
        return false;
    hold(HOME_FD);
    bool good = did("ip link set lo up && ip link add switch type bridge && ip link set switch up");
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
        if (!did("ip link set port%u nomaster", host))
            mr_test_die("ip link set nomaster");
        return;
    }
    enter(mr_netns_host(host));
    bool good = did("ip link set eth0 down");
    enter(HOME_FD);
    if (!good)
        mr_test_die("ip link set down");
}

void mr_netns_mend(void)
{
    for (uint32_t host = 0; host < NETNS_HOSTS; host++) {
        enter(mr_netns_host(host));
        bool good = did("ip link set eth0 up");
        enter(HOME_FD);
        if (!good || !did("ip link set port%u master switch", host))
            mr_test_die("ip link set");
    }
}

int mr_netns_listen(uint32_t host, uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = INADDR_ANY};
    socklen_t len = sizeof address;
    enter(mr_netns_host(host));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enter(HOME_FD);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        mr_test_die("listen");
    *port = ntohs(address.sin_port);
    return fd;
}
