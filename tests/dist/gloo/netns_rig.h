/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts: network namespaces without names, each with one interface, eth0, on a switch in this
 * program's own. They are gone with the program, however it ends. What fails here, once there are
 * hosts, ends the test program.
 */
#ifndef TESTS_DIST_GLOO_NETNS_RIG_H
#define TESTS_DIST_GLOO_NETNS_RIG_H

#include <stdbool.h>
#include <stdint.h>

enum { NETNS_HOSTS = 9 };

/*
 * For main(), before there are threads: false where the machine refuses, with the reason printed.
 */
bool mr_netns_init(void);
/* Host i has the address 10.77.0.i+1. Ownership: the namespace stays open. */
int mr_netns_host(uint32_t host);

enum netns_cut {
    NETNS_SILENT, /* the switch no longer carries anything from it or to it, without a report */
    NETNS_DOWN,   /* its own interface is down, and with it its routes */
};
void mr_netns_cut(uint32_t host, enum netns_cut how);
/* All as at first. */
void mr_netns_mend(void);

/* A socket that listens on all addresses of a host; 0: a port that the kernel gives. */
int mr_netns_listen(uint32_t host, uint16_t *port);

#endif
