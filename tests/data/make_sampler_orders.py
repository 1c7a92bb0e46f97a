#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sampler_orders.json: orders of torchvision's RASampler, timm's RepeatAugSampler and torch's
WeightedRandomSampler.

usage: make_sampler_orders.py RASAMPLER > sampler_orders.json
    (needs torch 2.x and timm 1.0; the tests do not)

RASAMPLER is references/classification/sampler.py of torchvision's repository, which its package
does not contain.

A case has the length of a rank's order, its first indices, and a CRC-32 over all of them and over
their occurrences: how often the order of all ranks has had the index before, counted here from the
orders of all ranks. The weights of a case are (i * 7919 % 1009 + 1) ** power, as f64, and 0 for
each `zero_each`-th sample. A drawn order is dealt out to ranks as DistributedSampler deals: rank r
of W has its positions r, r + W, ..., and a last short round begins again.
"""
import importlib.util
import json
import sys
import zlib

import torch
from timm.data.distributed_sampler import RepeatAugSampler

N_FIRST = 8


def crc(numbers):
    return "%08x" % zlib.crc32(b"".join(int(v).to_bytes(8, "little") for v in numbers))


def occurrences(order):
    seen, out = {}, []
    for index in order:
        out.append(seen.get(index, 0))
        seen[index] = out[-1] + 1
    return out


def row(case, indices, counts):
    return {
        **case, "count": len(indices), "first": indices[:N_FIRST], "crc": crc(indices),
        "occurrences": crc(counts)
    }


def repeat_case(ra_sampler, case):
    orders = []
    for rank in range(case["world_size"]):
        args = {"num_replicas": case["world_size"], "rank": rank, "shuffle": case["shuffle"]}
        if case["form"] == "timm":
            sampler = RepeatAugSampler(range(case["n"]), num_repeats=case["repeat"], **args)
        else:
            sampler = ra_sampler(range(case["n"]),
                                 seed=case["seed"],
                                 repetitions=case["repeat"],
                                 **args)
        sampler.set_epoch(case["epoch"])
        orders.append(list(sampler))
    world = [
        orders[p % case["world_size"]][p // case["world_size"]]
        for p in range(sum(map(len, orders)))
    ]
    counts = occurrences(world)[case["rank"] :: case["world_size"]]
    return row(case, orders[case["rank"]], counts)


def weights_of(case):
    return [
        0.0 if case["zero_each"] and i % case["zero_each"] == 0 else float(i * 7919 % 1009 +
                                                                           1)**case["power"]
        for i in range(case["n"])
    ]


def weights_case(case):
    generator = torch.Generator()
    generator.manual_seed(case["seed"] + case["epoch"])
    sampler = torch.utils.data.WeightedRandomSampler(
        weights_of(case), case["n_draws"], not case["no_replacement"], generator
    )
    order = list(sampler)
    counts = occurrences(order)
    world = case["world_size"]
    places = [p % len(order) for p in range(case["rank"], -(-len(order) // world) * world, world)]
    return row(case, [order[p] for p in places], [counts[p] for p in places])


def repeat_cases():
    sizes = [256, 257, 511, 512, 1000, 1281, 5000, 10007]
    for i in range(50):
        form = "timm" if i % 2 else "torchvision"
        world = [1, 2, 3, 4, 7, 8, 16][i % 7]
        n = [100, 255, 33, 9][i // 10 % 4] if i % 10 == 9 else sizes[i % 8]
        yield {
            "kind": "repeat",
            "form": form,
            "n": n,
            "repeat": [3, 1, 2, 4, 5][i // 2 % 5],
            "world_size": world,
            "rank": i * 5 % world,
            "seed": 0 if form == "timm" else i * 13,
            "epoch": i % 4,
            "shuffle": i % 6 != 5,
        }


def weights_cases():
    for i in range(50):
        n = [1, 2, 10, 100, 1000, 4096, 4097, 60000][i % 8]
        power = [1, 0, 2, -1, 5][i % 5]
        without = i % 3 == 2
        zero_each = 3 if i % 7 == 3 and n > 3 else 0
        n_good = n - (-(-n // zero_each) if zero_each else 0)
        n_draws = [n_good, max(1, n_good //
                               3), 1, n_good][i % 4] if without else [n, 2 * n, n // 2 +
                                                                      1, 5000][i % 4]
        world = [1, 1, 2, 3, 8][i // 3 % 5]
        yield {
            "kind": "weights",
            "n": n,
            "power": power,
            "zero_each": zero_each,
            "no_replacement": without,
            "n_draws": n_draws,
            "world_size": world,
            "rank": i % world,
            "seed": i * 17,
            "epoch": i % 3,
        }


def main():
    spec = importlib.util.spec_from_file_location("ra_sampler", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases = [repeat_case(module.RASampler, case) for case in repeat_cases()]
    cases += [weights_case(case) for case in weights_cases()]
    print('{"cases":[\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}")


if __name__ == "__main__":
    main()
