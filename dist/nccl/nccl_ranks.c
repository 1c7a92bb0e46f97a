/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks compare before NCCL begins. Every rank puts a card into the store with its machine and
 * GPU. Rank 0 reads all cards and answers with the communicator's id, or with the reason for a
 * refusal, so that all ranks report the same.
 *
 * NCCL does not always notice two ranks on one GPU, and then hangs. Device numbers do not show it,
 * because CUDA_VISIBLE_DEVICES may differ. The machine's boot id and the GPU's UUID show it, in
 * containers too. Parts of one GPU (MIG) may have different UUIDs; NCCL itself refuses those, by
 * their bus address.
 */
#include "dist/nccl/nccl_ranks.h"

#include "base/error.h"
#include "dist/nccl/nccl_call.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MACHINE 64 /* bytes of a machine's name */
#define KEY 32
#define UUID_TEXT 48
#define REFUSAL 400 /* bytes of rank 0's message */

struct card {
    int32_t version; /* NCCL_VERSION_CODE of the library */
    int32_t is_adopted;
    int32_t device;
    char machine[MACHINE];
    unsigned char uuid[16];
};

struct answer {
    int32_t status; /* MR_OK: id is the communicator's */
    char words[REFUSAL];
    ncclUniqueId id;
};

/* The boot id, or the host name if the boot id cannot be read. */
static void name_machine(char name_out[MACHINE])
{
    memset(name_out, 0, MACHINE);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, name_out, MACHINE - 1) : 0;
    if (fd >= 0)
        close(fd);
    name_out[len > 0 ? strcspn(name_out, "\n") : 0] = '\0';
    if (!name_out[0])
        (void)gethostname(name_out, MACHINE - 1);
}

static void name_uuid(const unsigned char uuid[16], char text_out[UUID_TEXT])
{
    size_t at = (size_t)snprintf(text_out, UUID_TEXT, "GPU-");
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text_out + at, UUID_TEXT - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int32_t make_card(const struct mr_nccl_engine *engine, struct card *card_out,
                         mr_error *error)
{
    struct cudaDeviceProp properties;
    int version = 0;
    int32_t status = mr_nccl_call_cuda(engine, cudaGetDeviceProperties(&properties, engine->device),
                                       "cudaGetDeviceProperties", error);
    if (status == MR_OK)
        status = mr_nccl_call_nccl(NULL, ncclGetVersion(&version), "ncclGetVersion", error);
    if (status != MR_OK)
        return status;
    memset(card_out, 0, sizeof *card_out);
    card_out->version = version;
    card_out->is_adopted = engine->is_adopted;
    card_out->device = engine->device;
    name_machine(card_out->machine);
    memcpy(card_out->uuid, &properties.uuid, sizeof card_out->uuid);
    return MR_OK;
}

static int32_t refuse_same_gpu(const struct card *cards, uint32_t i, uint32_t j, mr_error *error)
{
    char uuid[UUID_TEXT];
    name_uuid(cards[i].uuid, uuid);
    if (cards[i].device == cards[j].device)
        return mr_error_set(error, MR_ERR_INVALID,
                            "ranks %u and %u are both on cuda:%d (%s) of one machine", i, j,
                            (int)cards[i].device, uuid);
    return mr_error_set(error, MR_ERR_INVALID,
                        "rank %u on its cuda:%d and rank %u on its cuda:%d use one GPU (%s)", i,
                        (int)cards[i].device, j, (int)cards[j].device, uuid);
}

static int32_t refuse_version(const struct card *cards, uint32_t j, mr_error *error)
{
    char theirs[MR_NCCL_VERSION_TEXT];
    char own[MR_NCCL_VERSION_TEXT];
    mr_nccl_call_version(cards[j].version, theirs);
    mr_nccl_call_version(cards[0].version, own);
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "rank %u has NCCL %s, rank 0 has %s", j, theirs,
                        own);
}

/* Compare rank j's card with those of the ranks before it, which have passed. */
static int32_t compare_card(const struct card *cards, uint32_t j, mr_error *error)
{
    if (cards[j].is_adopted != cards[0].is_adopted)
        return mr_error_set(error, MR_ERR_INVALID,
                            "rank %u gives a communicator to adopt, rank %u does not",
                            cards[j].is_adopted ? j : 0, cards[j].is_adopted ? 0 : j);
    if (cards[j].version != cards[0].version)
        return refuse_version(cards, j, error);
    for (uint32_t i = 0; i < j; i++)
        if (memcmp(cards[i].uuid, cards[j].uuid, sizeof cards[i].uuid) == 0 &&
            memcmp(cards[i].machine, cards[j].machine, MACHINE) == 0)
            return refuse_same_gpu(cards, i, j, error);
    return MR_OK;
}

static int32_t get_value(const struct mr_engine_setup *setup, const char *key, void *value_out,
                         uint32_t size, mr_error *error)
{
    uint32_t len = 0;
    int32_t status =
        setup->store.get(setup->store.user, key, value_out, size, &len, setup->deadline_ns, error);
    if (status == MR_OK && len != size)
        return mr_error_set(error, MR_ERR_PEER, "'%s' in the store has %u bytes instead of %u", key,
                            len, size);
    return status;
}

static int32_t set_value(const struct mr_engine_setup *setup, const char *key, const void *value,
                         uint32_t len, mr_error *error)
{
    return setup->store.set(setup->store.user, key, value, len, error);
}

/* Called by rank 0. */
static int32_t compare_all(const struct mr_engine_setup *setup, const struct card *own,
                           mr_error *error)
{
    struct card *cards = calloc(setup->world_size, sizeof *cards);
    if (!cards)
        return mr_error_memory(error, setup->world_size * sizeof *cards);
    cards[0] = *own;
    int32_t status = MR_OK;
    for (uint32_t i = 1; i < setup->world_size && status == MR_OK; i++) {
        char key[KEY];
        snprintf(key, sizeof key, "nccl/gpu/%u", i);
        status = get_value(setup, key, &cards[i], sizeof cards[i], error);
        if (status == MR_OK)
            status = compare_card(cards, i, error);
    }
    free(cards);
    return status;
}

/* Called by rank 0. */
static int32_t answer_all(const struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                          const struct card *own, ncclUniqueId *id_out, mr_error *error)
{
    struct answer answer;
    mr_error why = {0};
    memset(&answer, 0, sizeof answer);
    answer.status = compare_all(setup, own, &why);
    if (answer.status == MR_OK && !engine->is_adopted)
        answer.status =
            mr_nccl_call_nccl(NULL, ncclGetUniqueId(&answer.id), "ncclGetUniqueId", &why);
    if (answer.status != MR_OK)
        snprintf(answer.words, sizeof answer.words, "%.*s", REFUSAL - 1, why.text);
    int32_t status = set_value(setup, "nccl/answer", &answer, sizeof answer, error);
    *id_out = answer.id;
    if (answer.status == MR_OK)
        return status;
    mr_error_copy(error, &why);
    return answer.status;
}

static int32_t read_answer(const struct mr_engine_setup *setup, ncclUniqueId *id_out,
                           mr_error *error)
{
    struct answer answer;
    int32_t status = get_value(setup, "nccl/answer", &answer, sizeof answer, error);
    if (status != MR_OK)
        return status;
    *id_out = answer.id;
    if (answer.status == MR_OK)
        return MR_OK;
    bool is_known = answer.status < 0 && answer.status >= MR_ERR_DEVICE;
    return mr_error_set(error, is_known ? (mr_status)answer.status : MR_ERR_PEER, "%.*s",
                        REFUSAL - 1, answer.words);
}

int32_t mr_nccl_ranks_agree(const struct mr_nccl_engine *engine,
                            const struct mr_engine_setup *setup, ncclUniqueId *id_out,
                            mr_error *error)
{
    struct card card;
    char key[KEY];
    int32_t status = make_card(engine, &card, error);
    if (status != MR_OK)
        return status;
    if (engine->rank == 0)
        return answer_all(engine, setup, &card, id_out, error);
    snprintf(key, sizeof key, "nccl/gpu/%u", engine->rank);
    status = set_value(setup, key, &card, sizeof card, error);
    return status == MR_OK ? read_answer(setup, id_out, error) : status;
}
