/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks, which grow when they get new components.
 *
 * Invariant: a component past the end is zero, not unknown.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

void double_clock_fini(struct double_clock *clock)
{
    free(clock->at);
    *clock = (struct double_clock){0};
}

static void grow(struct double_clock *clock, uint32_t n)
{
    if (n <= clock->n)
        return;
    uint64_t *at = double_machine_alloc(n * sizeof *at);
    if (clock->n > 0)
        memcpy(at, clock->at, clock->n * sizeof *at);
    free(clock->at);
    clock->at = at;
    clock->n = n;
}

uint64_t double_clock_get(const struct double_clock *clock, uint32_t component)
{
    return component < clock->n ? clock->at[component] : 0;
}

void double_clock_set(struct double_clock *clock, uint32_t component, uint64_t value)
{
    grow(clock, component + 1);
    clock->at[component] = value;
}

void double_clock_join(struct double_clock *into, const struct double_clock *from)
{
    grow(into, from->n);
    for (uint32_t i = 0; i < from->n; i++)
        if (into->at[i] < from->at[i])
            into->at[i] = from->at[i];
}
