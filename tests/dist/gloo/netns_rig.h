/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts: network namespaces without names. Each has one interface, eth0, which is connected to a
 * switch in this program's namespace. The kernel removes them when the program ends. After
 * mr_netns_init() a failure here ends the test program.
 */
#ifndef TESTS_DIST_GLOO_NETNS_RIG_H
#define TESTS_DIST_GLOO_NETNS_RIG_H

#include <stdbool.h>
#include <stdint.h>

enum { NETNS_HOSTS = 9 };

/*
 * Called by main(), before threads exist. False: the machine does not allow it, and the reason is
 * printed.
 */
bool mr_netns_init(void);
/*
 * The descriptor of host i's namespace; its address is 10.77.0.i+1. Ownership: the descriptor stays
 * open.
 */
int mr_netns_host(uint32_t host);

enum netns_cut {
    NETNS_SILENT, /* the switch drops all packets from and to the host; nothing reports it */
    NETNS_DOWN,   /* the host's interface is down, and so are its routes */
};
void mr_netns_cut(uint32_t host, enum netns_cut how);
/* Connect all hosts again. */
void mr_netns_mend(void);

/* A socket that listens on all addresses of a host; 0: a port that the kernel gives. */
int mr_netns_listen(uint32_t host, uint16_t *port);

#endif
