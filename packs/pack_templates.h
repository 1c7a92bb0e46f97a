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

/* The number of a template that is there. */
bool mr_pack_templates_find(const struct mr_pack_templates *templates,
                            const struct mr_packed_template *wanted, uint32_t *number_out);
/* Append one; its number is the n of before. MR_ERR_NO_MEMORY leaves them as they were. */
mr_status mr_pack_templates_add(struct mr_pack_templates *templates,
                                const struct mr_packed_template *added, mr_error *error);
void mr_pack_templates_fini(struct mr_pack_templates *templates);

#endif
