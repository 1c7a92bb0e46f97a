/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets rank 0's address by the mpi module. The second symbol is looked up in the same module as the
 * engine's table: by name, the dynamic linker might find another module.
 */
#include "dist/group/mpi_bootstrap.h"

#include <dlfcn.h>

#include "base/error.h"
#include "dist/group/module.h"

static mr_status find_bootstrap(mr_mpi_bootstrap_function **bootstrap_out, mr_error *error)
{
    Dl_info info;
    const struct mr_engine_table *table;
    mr_status status = mr_module_open("mpi", &table, error);
    if (status)
        return status;
    void *module =
        dladdr(table, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
    if (module)
        *bootstrap_out = (mr_mpi_bootstrap_function *)dlsym(module, MR_MPI_BOOTSTRAP_SYMBOL);
    if (!module || !*bootstrap_out)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "the module of mpi has no symbol %s",
                            MR_MPI_BOOTSTRAP_SYMBOL);
    return MR_OK;
}

mr_status mr_mpi_bootstrap_address(void *user, const struct mr_rank_identity *who, char *address,
                                   mr_error *error)
{
    const struct mr_mpi_bootstrap *how = user;
    mr_mpi_bootstrap_function *bootstrap = NULL;
    const struct mr_engine_setup setup = {.abi = MR_ENGINE_ABI,
                                          .rank = who->rank,
                                          .world_size = who->world_size,
                                          .local_rank = who->local_rank,
                                          .deadline_ns = how->deadline_ns,
                                          .timeout_ms = how->timeout_ms,
                                          .adopt = how->adopt,
                                          .fail = mr_module_fail};
    mr_error why;
    mr_status status = find_bootstrap(&bootstrap, &why);
    if (status)
        return mr_error_set(error, status,
                            "%s; or use gloo, with MASTER_ADDR and MASTER_PORT set to rank 0's",
                            why.text);
    return (mr_status)bootstrap(&setup, how->is_all, address, MR_RENDEZVOUS_ADDRESS, error);
}
