/* SPDX-License-Identifier: Apache-2.0 */
/* The distinct templates of a pack that is being written, and their numbers. */
#ifndef PACKS_PACK_TEMPLATES_H
#define PACKS_PACK_TEMPLATES_H

#include "base/error.h"
#include "base/packed_image.h"

#include <stdbool.h>

struct mr_pack_templates {
    struct mr_packed_template *items;
    uint32_t n;
    uint32_t n_slots; /* a power of two, at least twice n; 0: none yet */
    uint32_t *slots;  /* number + 1 by hash; 0: free */
};

/* Find the number of a template. False: it is not in the table. */
bool mr_pack_templates_find(const struct mr_pack_templates *templates,
                            const struct mr_packed_template *wanted, uint32_t *number_out);
/*
 * Append a template; its number is the previous n. After MR_ERR_NO_MEMORY the table is unchanged.
 */
mr_status mr_pack_templates_add(struct mr_pack_templates *templates,
                                const struct mr_packed_template *added, mr_error *error);
void mr_pack_templates_fini(struct mr_pack_templates *templates);

#endif
