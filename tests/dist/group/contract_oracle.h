/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of the six dtypes, and what reductions of them must give. Element i of a rank depends on
 * i modulo CONTRACT_PERIOD, a prime, so that an oracle for any count is a table of that length.
 */
#ifndef TESTS_DIST_GROUP_CONTRACT_ORACLE_H
#define TESTS_DIST_GROUP_CONTRACT_ORACLE_H

#include <millrace/group.h>

#define CONTRACT_PERIOD 251u

/*
 * Element i of rank's data: small whole numbers and, for floats, every other one a fraction. It
 * fits dtype exactly.
 */
double contract_oracle_value(mr_dtype dtype, uint32_t rank, uint64_t i);

void contract_oracle_write(mr_dtype dtype, void *array, uint64_t i, double value);
double contract_oracle_read(mr_dtype dtype, const void *array, uint64_t i);

struct contract_expected {
    double value[CONTRACT_PERIOD];
    double tolerance[CONTRACT_PERIOD]; /* 0 where every order of additions gives the same */
};

void contract_oracle_reduce(mr_dtype dtype, mr_reduction op, uint32_t world_size,
                            struct contract_expected *out);

#endif
