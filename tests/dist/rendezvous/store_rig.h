/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers and clients of the rendezvous store for its tests. A failure here ends the test program.
 */
#ifndef TESTS_DIST_RENDEZVOUS_STORE_RIG_H
#define TESTS_DIST_RENDEZVOUS_STORE_RIG_H

#include <sys/types.h>

#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"
#include "dist/rendezvous/store_greeting.h"

#define RIG_RUN UINT64_C(0x1234abcd5678)

/* The identity of restart 3 of the run RIG_RUN, without a token, with the default times. */
struct mr_store_identity rig_identity(uint32_t world_size);
struct mr_store *rig_start(const struct mr_store_identity *identity);
/* To 127.0.0.1, for at most 10 s. */
struct mr_store_connect rig_connect(uint16_t port, uint32_t rank,
                                    const struct mr_store_identity *identity);
struct mr_store_client *rig_client(uint16_t port, uint32_t rank,
                                   const struct mr_store_identity *identity);
uint64_t rig_in_ms(uint64_t ms);

/* A connection without a client. Reads time out after 5 s. */
int rig_socket(uint16_t port);
/*
 * The same from another address of 127.0.0.0/8. Each address has its own ports, which TIME_WAIT may
 * use up.
 */
int rig_socket_from(uint32_t source, uint16_t port);
/* Read all len bytes; false at the end of the connection. */
bool rig_read(int fd, void *bytes_out, size_t len);
/* Read until the end. Returns the number of bytes; -1 if the end does not come within ms. */
long rig_drain(int fd, uint64_t ms);
bool rig_write(int fd, const void *bytes, size_t len);
/* Read the hello, greet, read the verdict, as a client does. Returns the verdict's code, or -1. */
int rig_greet(int fd, uint32_t rank, const struct mr_store_identity *identity);

/*
 * A child that waits for rig_go(), connects as a rank, sets "here<rank>" and then waits until it is
 * killed. Fork it before this process starts a store, so that the child has none of the store's
 * threads and sockets.
 */
struct rig_process {
    pid_t pid;
    int go;
};
struct rig_process rig_fork(void);
void rig_go(struct rig_process *process, uint16_t port, uint32_t rank,
            const struct mr_store_identity *identity);
/* Returns once it is stopped. */
void rig_stop_process(pid_t child);
void rig_end_process(pid_t child);
uint32_t rig_n_open(const char *folder); /* entries of /proc/self/fd or /proc/self/task */

#endif
