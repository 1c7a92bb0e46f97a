/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hellos, greetings and tokens. Tokens are compared in constant time: if the comparison ended at
 * the first difference, its duration would show a stranger how much of a token was right.
 */
#include "dist/rendezvous/store_greeting.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[8] = {'M', 'R', 'S', 'T', 'O', 'R', 'E', '\n'};

void mr_store_greeting_write(const struct mr_store_greeting *greeting,
                             uint8_t bytes_out[MR_STORE_HELLO])
{
    memcpy(bytes_out, magic, sizeof magic);
    mr_store_wire_put_u32(bytes_out + 8, greeting->version);
    mr_store_wire_put_u32(bytes_out + 12, greeting->world_size);
    mr_store_wire_put_u64(bytes_out + 16, greeting->run);
    mr_store_wire_put_u32(bytes_out + 24, greeting->restart);
    mr_store_wire_put_u32(bytes_out + 28, greeting->rank);
}

bool mr_store_greeting_read(const uint8_t *bytes, size_t len,
                            struct mr_store_greeting *greeting_out)
{
    if (memcmp(bytes, magic, len < sizeof magic ? len : sizeof magic) != 0)
        return false;
    if (len < MR_STORE_HELLO)
        return true;
    *greeting_out = (struct mr_store_greeting){.version = mr_store_wire_u32(bytes + 8),
                                               .world_size = mr_store_wire_u32(bytes + 12),
                                               .run = mr_store_wire_u64(bytes + 16),
                                               .restart = mr_store_wire_u32(bytes + 24),
                                               .rank = mr_store_wire_u32(bytes + 28)};
    return true;
}

mr_status mr_store_greeting_token(const char *token, uint8_t bytes_out[MR_STORE_TOKEN],
                                  mr_error *error)
{
    size_t len = token ? strlen(token) : 0;
    if (len > MR_STORE_TOKEN)
        return mr_error_set(error, MR_ERR_INVALID, "the token has %zu bytes, the limit is %d", len,
                            MR_STORE_TOKEN);
    memset(bytes_out, 0, MR_STORE_TOKEN);
    if (len > 0)
        memcpy(bytes_out, token, len);
    return MR_OK;
}

bool mr_store_greeting_same(const uint8_t a[MR_STORE_TOKEN], const uint8_t b[MR_STORE_TOKEN])
{
    volatile uint8_t differs = 0;
    for (size_t i = 0; i < MR_STORE_TOKEN; i++)
        differs = (uint8_t)(differs | (a[i] ^ b[i]));
    return differs == 0;
}

static void describe_refusal(const struct mr_store_greeting *theirs,
                             const struct mr_store_identity *ours, uint8_t code, char *text,
                             size_t size)
{
    switch (code) {
    case MR_STORE_OTHER_VERSION:
        snprintf(text, size, "its store has version %u, not %u", theirs->version, MR_STORE_VERSION);
        break;
    case MR_STORE_OTHER_RUN:
        snprintf(text, size, "it belongs to run %llx, not %llx", (unsigned long long)theirs->run,
                 (unsigned long long)ours->run);
        break;
    case MR_STORE_OTHER_RESTART:
        snprintf(text, size, "it belongs to restart %u, not %u", theirs->restart, ours->restart);
        break;
    case MR_STORE_OTHER_TOKEN: snprintf(text, size, "its token differs"); break;
    case MR_STORE_OTHER_WORLD:
        snprintf(text, size, "its world size is %u, not %u", theirs->world_size, ours->world_size);
        break;
    case MR_STORE_NO_SUCH_RANK:
        snprintf(text, size, "the world size is %u", ours->world_size);
        break;
    case MR_STORE_RANK_BROKE: snprintf(text, size, "it had already joined and disconnected"); break;
    case MR_STORE_RANK_LEFT: snprintf(text, size, "it had already joined and left"); break;
    default:
        snprintf(text, size,
                 "it has already joined (mr_group_split() makes a second group of the same ranks)");
        break;
    }
}

void mr_store_greeting_refuse(const struct mr_store_greeting *theirs,
                              const struct mr_store_identity *ours, uint8_t code,
                              mr_error *error_out)
{
    char text[160];
    describe_refusal(theirs, ours, code, text, sizeof text);
    mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: %s", theirs->rank, text);
}

void mr_store_greeting_tell(uint32_t rank, uint8_t how, uint32_t silence_ms, mr_error *error_out)
{
    if (how == MR_STORE_SILENT)
        mr_error_set(error_out, MR_ERR_PEER,
                     "rank %u fell silent: nothing received from it for %.1f s", rank,
                     silence_ms / 1e3);
    else if (how == MR_STORE_NONSENSE)
        mr_error_set(error_out, MR_ERR_PEER,
                     "rank %u disconnected: it sent bytes that are not the store's protocol", rank);
    else if (how == MR_STORE_DEAF)
        mr_error_set(error_out, MR_ERR_PEER, "rank %u disconnected: it did not read for %.1f s",
                     rank, silence_ms / 1e3);
    else
        mr_error_set(error_out, MR_ERR_PEER, "rank %u disconnected without a goodbye", rank);
}
