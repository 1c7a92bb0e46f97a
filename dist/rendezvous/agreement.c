/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 collects the facts of all ranks and sends each rank its verdict. It stops collecting
 * shortly before the deadline, so that a verdict reaches the other ranks before their own deadline.
 * Facts and verdicts from other ranks are input and are checked.
 */
#include "dist/rendezvous/agreement.h"

#include "base/clock.h"
#include "dist/rendezvous/rank_list.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
/* At most this much of the time is reserved for sending verdicts. */
#define SENDING_MS 1000u

/* A verdict as stored: one for each rank, with that rank's place only, which keeps it small. */
struct verdict {
    int32_t status;
    struct mr_agreement_place place;
    char text[752];
};
static_assert(sizeof(struct mr_agreement_fact) == 84, "the fact has no padding");
static_assert(sizeof(struct verdict) == 768, "the verdict has no padding");

void mr_agreement_boot(char boot_out[40])
{
    ssize_t n = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, boot_out, 36);
        close(fd);
    }
    memset(boot_out + (n > 0 ? n : 0), 0, (size_t)(40 - (n > 0 ? n : 0)));
}

void mr_agreement_describe(const struct mr_rank_identity *who, const char *backend,
                           struct mr_agreement_fact *fact_out)
{
    *fact_out = (struct mr_agreement_fact){.version = MR_VERSION, .world_size = who->world_size};
    snprintf(fact_out->backend, sizeof fact_out->backend, "%s", backend);
    mr_agreement_boot(fact_out->boot);
    fact_out->local_rank = who->knows_local ? who->local_rank : MR_AGREEMENT_UNKNOWN;
    fact_out->local_world_size =
        who->local_world_size ? who->local_world_size : MR_AGREEMENT_UNKNOWN;
    fact_out->node = who->knows_node ? who->node : MR_AGREEMENT_UNKNOWN;
}

static const char *describe_reason(const struct mr_agreement_fact *fact)
{
    return fact->lacks_mpi ? " (it cannot open the module of mpi)" : "";
}

mr_status mr_agreement_compare(const struct mr_agreement_fact *facts, uint32_t n, mr_error *error)
{
    for (uint32_t r = 1; r < n; r++) {
        const struct mr_agreement_fact *a = &facts[0], *b = &facts[r];
        if (strcmp(a->version, b->version) != 0)
            return mr_error_set(error, MR_ERR_PEER, "rank %u runs millrace %s, rank 0 %s", r,
                                b->version, a->version);
        if (a->world_size != b->world_size)
            return mr_error_set(error, MR_ERR_PEER, "rank %u has world size %u, rank 0 %u", r,
                                b->world_size, a->world_size);
        if (strcmp(a->backend, b->backend) != 0)
            return mr_error_set(error, MR_ERR_PEER, "rank %u wants backend %s%s, rank 0 %s%s", r,
                                b->backend, describe_reason(b), a->backend, describe_reason(a));
    }
    return MR_OK;
}

/* A machine, while its ranks are counted. */
struct machine {
    const char *boot;
    uint32_t n_ranks;
};

/*
 * The machine with this boot id; a new one is added. Searches from the last, because neighbouring
 * ranks are usually on one machine.
 */
static uint32_t find_machine(struct machine *machines, uint32_t *n_machines, const char *boot)
{
    for (uint32_t i = *n_machines; i > 0; i--)
        if (boot[0] && strcmp(machines[i - 1].boot, boot) == 0)
            return i - 1;
    machines[*n_machines] = (struct machine){boot, 0};
    return (*n_machines)++;
}

mr_status mr_agreement_place(const struct mr_agreement_fact *facts, uint32_t n,
                             struct mr_agreement_place *places_out, mr_error *error)
{
    uint32_t n_machines = 0;
    struct machine *machines = calloc(n, sizeof *machines);
    if (!machines)
        return mr_error_memory(error, n * sizeof *machines);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t m = find_machine(machines, &n_machines, facts[r].boot);
        places_out[r] = (struct mr_agreement_place){.local_rank = machines[m].n_ranks++, .node = m};
    }
    for (uint32_t r = 0; r < n; r++) {
        struct mr_agreement_place *place = &places_out[r];
        place->local_world_size = machines[place->node].n_ranks;
        if (facts[r].node != MR_AGREEMENT_UNKNOWN)
            place->node = facts[r].node;
        if (facts[r].local_world_size != MR_AGREEMENT_UNKNOWN)
            place->local_world_size = facts[r].local_world_size;
        if (facts[r].local_rank != MR_AGREEMENT_UNKNOWN)
            place->local_rank = facts[r].local_rank;
        /*
         * The launcher gave one value and the other was counted. They disagree if several machines
         * share a kernel, or hide that they do.
         */
        if (place->local_world_size <= place->local_rank)
            place->local_world_size = place->local_rank + 1;
    }
    free(machines);
    return MR_OK;
}

/* "599 s" or "1500 ms": the time that was allowed, even if less of it was used. */
static const char *format_time(const struct mr_agreement *agreement, uint64_t until_ns,
                               char text[32])
{
    uint64_t ms = (until_ns - agreement->began_ns) / NS_PER_MS;
    snprintf(text, 32, ms % 1000 ? "%" PRIu64 " ms" : "%" PRIu64 " s", ms % 1000 ? ms : ms / 1000);
    return text;
}

static void format_key(const char *kind, uint32_t rank, char key[MR_STORE_KEY])
{
    snprintf(key, MR_STORE_KEY, "join/%s/%u", kind, rank);
}

/*
 * Read and remove the facts of one rank. Another version's may be shorter or longer; its version
 * field alone is enough for the error.
 */
static mr_status read_fact(const struct mr_agreement *agreement, uint32_t rank,
                           uint64_t deadline_ns, struct mr_agreement_fact *fact_out,
                           mr_error *error)
{
    char key[MR_STORE_KEY];
    unsigned char bytes[1024];
    uint32_t len = 0;
    format_key("fact", rank, key);
    mr_status status =
        mr_store_get(agreement->client, key, bytes, sizeof bytes, &len, deadline_ns, error);
    if (status != MR_OK)
        return status;
    memset(fact_out, 0, sizeof *fact_out);
    memcpy(fact_out, bytes, len < sizeof *fact_out ? len : sizeof *fact_out);
    fact_out->version[sizeof fact_out->version - 1] = '\0';
    fact_out->backend[sizeof fact_out->backend - 1] = '\0';
    fact_out->boot[sizeof fact_out->boot - 1] = '\0';
    if (len != sizeof *fact_out && strcmp(fact_out->version, MR_VERSION) == 0)
        return mr_error_set(error, MR_ERR_PEER, "rank %u wrote %u bytes of facts, not %zu", rank,
                            len, sizeof *fact_out);
    return mr_store_remove(agreement->client, key, error);
}

/*
 * The time is up: name the ranks from 1 to n - 1 that never connected. If all have connected, name
 * first, which did not write its facts in time.
 */
static mr_status name_missing(const struct mr_agreement *agreement, uint32_t first, uint32_t n,
                              uint64_t until_ns, mr_error *error)
{
    char list[256], time[32];
    uint8_t *present = calloc(2, n / 8 + 1);
    if (!present)
        return mr_error_memory(error, 2 * (n / 8 + 1));
    uint8_t *missing = present + n / 8 + 1;
    mr_store_present(agreement->store, present);
    uint32_t n_missing = 0;
    for (uint32_t r = 1; r < n; r++)
        if (!mr_rank_list_has(present, r)) {
            mr_rank_list_add(missing, r);
            n_missing++;
        }
    if (n_missing == 0)
        mr_rank_list_add(missing, first);
    mr_rank_list_spell(missing, n, list, sizeof list);
    free(present);
    mr_error refused;
    bool has_refused = mr_store_refused(agreement->store, &refused);
    return mr_error_set(error, MR_ERR_TIMEOUT, "rank %s of %u did not join within %s at %s%s%.200s",
                        list, n, format_time(agreement, until_ns, time), agreement->address,
                        has_refused ? "; " : "", has_refused ? refused.text : "");
}

static mr_status collect_facts(const struct mr_agreement *agreement,
                               struct mr_agreement_fact *facts, uint32_t n, mr_error *error)
{
    uint64_t ms = (agreement->deadline_ns - agreement->began_ns) / NS_PER_MS;
    uint64_t until_ns =
        agreement->deadline_ns - (ms / 4 < SENDING_MS ? ms / 4 : SENDING_MS) * NS_PER_MS;
    for (uint32_t r = 1; r < n; r++) {
        mr_status status = read_fact(agreement, r, until_ns, &facts[r], error);
        if (status == MR_ERR_TIMEOUT)
            return name_missing(agreement, r, n, until_ns, error);
        if (status != MR_OK)
            return status;
    }
    return MR_OK;
}

/*
 * On failure, all ranks get the same text. Verdicts for ranks that never connected are written too;
 * they are never read.
 */
static mr_status send_verdicts(const struct mr_agreement *agreement, mr_status outcome,
                               const mr_error *why, const struct mr_agreement_place *places,
                               uint32_t n, mr_error *error)
{
    for (uint32_t r = 1; r < n; r++) {
        char key[MR_STORE_KEY];
        struct verdict verdict = {.status = outcome};
        if (outcome == MR_OK)
            verdict.place = places[r];
        else
            snprintf(verdict.text, sizeof verdict.text, "%.*s", (int)sizeof verdict.text - 1,
                     why->text);
        format_key("verdict", r, key);
        mr_status status = mr_store_set(agreement->client, key, &verdict, sizeof verdict, error);
        if (status != MR_OK)
            return status;
    }
    return MR_OK;
}

static void set_place(struct mr_rank_identity *who, const struct mr_agreement_place *place)
{
    who->local_rank = place->local_rank;
    who->local_world_size = place->local_world_size;
    who->node = place->node;
    who->knows_local = who->knows_node = true;
}

static mr_status decide_for_all(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                                const struct mr_agreement_fact *own, mr_error *error)
{
    mr_error why = {0};
    uint32_t n = who->world_size;
    struct mr_agreement_fact *facts = calloc(n, sizeof *facts);
    struct mr_agreement_place *places = calloc(n, sizeof *places);
    mr_status status =
        facts && places ? MR_OK : mr_error_memory(&why, n * (sizeof *facts + sizeof *places));
    if (status == MR_OK) {
        facts[0] = *own;
        status = collect_facts(agreement, facts, n, &why);
    }
    if (status == MR_OK)
        status = mr_agreement_compare(facts, n, &why);
    if (status == MR_OK)
        status = mr_agreement_place(facts, n, places, &why);
    mr_status sent =
        send_verdicts(agreement, status, &why, places, n, status == MR_OK ? &why : NULL);
    if (status == MR_OK)
        status = sent;
    if (status == MR_OK)
        set_place(who, &places[0]);
    else
        mr_error_copy(error, &why);
    free(facts);
    free(places);
    return status;
}

static mr_status read_verdict(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                              mr_error *error)
{
    char key[MR_STORE_KEY], time[32];
    struct verdict verdict;
    uint32_t len = 0;
    format_key("verdict", who->rank, key);
    mr_status status = mr_store_get(agreement->client, key, &verdict, sizeof verdict, &len,
                                    agreement->deadline_ns, error);
    if (status == MR_ERR_TIMEOUT)
        return mr_error_set(error, MR_ERR_TIMEOUT,
                            "rank 0 at %s did not report within %s that all %u ranks have joined",
                            agreement->address,
                            format_time(agreement, agreement->deadline_ns, time), who->world_size);
    if (status != MR_OK)
        return status;
    if (len != sizeof verdict || verdict.status > 0)
        return mr_error_set(error, MR_ERR_PEER, "rank 0 wrote a verdict of %u bytes with status %d",
                            len, verdict.status);
    verdict.text[sizeof verdict.text - 1] = '\0';
    if (verdict.status != MR_OK)
        return mr_error_set(error, (mr_status)verdict.status, "%s", verdict.text);
    set_place(who, &verdict.place);
    return mr_store_remove(agreement->client, key, error);
}

static mr_status await_verdict(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                               const struct mr_agreement_fact *own, mr_error *error)
{
    char key[MR_STORE_KEY];
    format_key("fact", who->rank, key);
    mr_status status = mr_store_set(agreement->client, key, own, sizeof *own, error);
    return status == MR_OK ? read_verdict(agreement, who, error) : status;
}

mr_status mr_agreement_reach(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                             const char *backend, mr_error *error)
{
    struct mr_agreement_fact own;
    mr_agreement_describe(who, backend, &own);
    own.lacks_mpi = agreement->lacks_mpi;
    return who->rank == 0 ? decide_for_all(agreement, who, &own, error)
                          : await_verdict(agreement, who, &own, error);
}
