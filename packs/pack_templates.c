/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing: a million photographs may have thousands of templates.
 *
 * Invariant: templates are compared byte for byte, so unused bytes of a template are zero.
 */
#include "packs/pack_templates.h"

#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"

enum { FIRST_SLOTS = 64 };

/* The slot of the template, or the free slot where it belongs. */
static uint32_t *find_slot(const struct mr_pack_templates *templates,
                           const struct mr_packed_template *wanted)
{
    uint32_t mask = templates->n_slots - 1, at = (uint32_t)mr_xxh3(wanted, sizeof *wanted) & mask;
    while (templates->slots[at] != 0 &&
           memcmp(&templates->items[templates->slots[at] - 1], wanted, sizeof *wanted) != 0)
        at = (at + 1) & mask;
    return &templates->slots[at];
}

bool mr_pack_templates_find(const struct mr_pack_templates *templates,
                            const struct mr_packed_template *wanted, uint32_t *number_out)
{
    uint32_t slot = templates->n_slots ? *find_slot(templates, wanted) : 0;
    if (slot != 0)
        *number_out = slot - 1;
    return slot != 0;
}

static mr_status grow_slots(struct mr_pack_templates *templates, mr_error *error)
{
    size_t n_slots = templates->n_slots ? (size_t)templates->n_slots * 2 : FIRST_SLOTS;
    size_t n_items = n_slots / 2;
    uint32_t *slots = n_slots <= UINT32_MAX ? calloc(n_slots, sizeof *slots) : NULL;
    struct mr_packed_template *items =
        slots ? realloc(templates->items, n_items * sizeof *items) : NULL;
    if (!items) {
        free(slots);
        return mr_error_memory(error, n_items * sizeof *items);
    }
    free(templates->slots);
    templates->items = items;
    templates->slots = slots;
    templates->n_slots = (uint32_t)n_slots;
    for (uint32_t i = 0; i < templates->n; i++)
        *find_slot(templates, &items[i]) = i + 1;
    return MR_OK;
}

mr_status mr_pack_templates_add(struct mr_pack_templates *templates,
                                const struct mr_packed_template *added, mr_error *error)
{
    mr_status status =
        templates->n >= templates->n_slots / 2 ? grow_slots(templates, error) : MR_OK;
    if (status < 0)
        return status;
    templates->items[templates->n++] = *added;
    *find_slot(templates, added) = templates->n;
    return MR_OK;
}

void mr_pack_templates_fini(struct mr_pack_templates *templates)
{
    free(templates->items);
    free(templates->slots);
    *templates = (struct mr_pack_templates){0};
}
