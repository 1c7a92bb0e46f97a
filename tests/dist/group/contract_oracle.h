/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of the six dtypes, and the expected results of reductions. Element i of a rank depends
 * on i modulo CONTRACT_PERIOD, a prime, so a table of that length is an oracle for any count.
 */
#ifndef TESTS_DIST_GROUP_CONTRACT_ORACLE_H
#define TESTS_DIST_GROUP_CONTRACT_ORACLE_H

#include <millrace/group.h>

#define CONTRACT_PERIOD 251u

/*
 * Element i of a rank's data: small whole numbers; for floats, every second one is a fraction. It
 * is exact in dtype.
 */
double contract_oracle_value(mr_dtype dtype, uint32_t rank, uint64_t i);

void contract_oracle_write(mr_dtype dtype, void *array, uint64_t i, double value);
double contract_oracle_read(mr_dtype dtype, const void *array, uint64_t i);

struct contract_expected {
    double value[CONTRACT_PERIOD];
    double tolerance[CONTRACT_PERIOD]; /* 0 if every order of additions gives the same result */
};

void contract_oracle_reduce(mr_dtype dtype, mr_reduction op, uint32_t world_size,
                            struct contract_expected *out);

#endif
