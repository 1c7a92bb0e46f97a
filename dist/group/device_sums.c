/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums on the device, for metrics. The engine holds them, and may be aborted at any time.
 *
 * Invariant: each call checks under the lock that the engine may still be called.
 */
#include "dist/group/device_sums.h"

#include <unistd.h>

#include "base/error.h"
#include "dist/group/collectives.h"
#include "dist/group/device_work.h"

/* On MR_OK the lock is held. */
static mr_status enter_sums(struct mr_group *group)
{
    mr_status status = mr_group_enter(group);
    if (status)
        return status;
    if (!group->device_works)
        return mr_error_set(&group->error, MR_ERR_UNSUPPORTED,
                            "the backend %s has no sums on a device", group->backend);
    pthread_mutex_lock(&group->lock);
    status = mr_device_work_enter(group);
    if (status)
        pthread_mutex_unlock(&group->lock);
    return status;
}

/* Called with the lock; releases it. */
static mr_status leave_sums(struct mr_group *group, mr_status status, const mr_error *error)
{
    if (status)
        group->error = *error;
    if (status && status != MR_ERR_INVALID && status != MR_ERR_STATE && status != MR_ERR_NO_MEMORY)
        mr_work_state_set_failed(group, error); /* the watch ends the group */
    pthread_mutex_unlock(&group->lock);
    return status;
}

mr_status mr_device_sums_create(struct mr_group *group, uint32_t n, void **sums_out)
{
    mr_error error = {0};
    *sums_out = NULL;
    mr_status status = enter_sums(group);
    if (status)
        return status;
    status =
        (mr_status)mr_device_work_engine(group)->sums_create(group->engine, n, sums_out, &error);
    return leave_sums(group, status, &error);
}

mr_status mr_device_sums_add(struct mr_group *group, void *sums, uint32_t at, const void *value,
                             mr_dtype dtype, double count, void *stream)
{
    mr_error error = {0};
    mr_status status = mr_collectives_check_memory(group, "the sum", value, &group->error);
    if (!status)
        status = enter_sums(group);
    if (status)
        return status;
    status = (mr_status)mr_device_work_engine(group)->sums_add(
        group->engine, sums, at, value, (uint32_t)dtype, count, stream, &error);
    return leave_sums(group, status, &error);
}

void mr_device_sums_destroy(struct mr_group *group, void *sums)
{
    if (!sums || group->pid != getpid())
        return;
    pthread_mutex_lock(&group->lock);
    if (!group->is_given_up && group->engine)
        mr_device_work_engine(group)->sums_destroy(group->engine, sums);
    pthread_mutex_unlock(&group->lock);
}
