# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the command: speed of a loop, time to the first batch, memory.

METHOD.md defines the columns.

    build/peers/torch/bin/python bench/peers/python_pairs.py [--rounds 5] [--seconds 3]
                                                             [--json FILE] SPEC...

A SPEC is a folder of class folders or a pack. What is timed runs in a separate process, where
everything is imported before the clock starts. The library is that of build/peers/millrace, with
two workers and batches of 64.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import cell  # noqa: E402
import peer_list  # noqa: E402
from peer_stats import describe, paired  # noqa: E402

COMMAND = os.path.join(peer_list.BUILD, "millrace", "tools", "millrace")
WORKERS, BATCH = 2, 64
DTYPES = ("u8", "f32")
WAYS = {"loader": "millrace in Python", "torch": "millrace.torch.DataLoader"}


# ---- in the child ----

def make_loader(way, spec, dtype):
    """A function that makes the loader; the dataset, which is not measured, is open already."""
    if way == "loader":
        import millrace as mr
        dataset = mr.Dataset(spec)
        return lambda: mr.Loader(
            dataset, "train:224", batch_size=BATCH, num_workers=WORKERS, dtype=dtype)
    from millrace.torch import DataLoader, Dataset, ImageFolder, explain
    from torchvision import transforms as T
    end = [T.PILToTensor()] if dtype == "u8" else [
        T.ToTensor(), T.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *end])
    dataset = (Dataset if ":" in spec else ImageFolder)(spec, transform)

    def make():
        loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=WORKERS)
        if not explain(loader)["native"]:
            raise SystemExit(explain(loader)["reason"])
        return loader
    return make


def batches_of(way, loader):
    """Yields pairs of tensors, epoch after epoch."""
    import torch
    while True:
        for batch in loader:
            yield (torch.from_dlpack(batch.image),
                   torch.from_dlpack(batch.label)) if way == "loader" else batch


def time_loop(way, make, seconds):
    """(seconds to the first batch, images per second).

    The first is measured from making the loader, the second from the return of the first batch to
    that of the last, as `millrace bench` does.
    """
    made = time.monotonic()
    stream = batches_of(way, make())
    n, images = 0, next(stream)
    begin = last = time.monotonic()
    while last < begin + seconds:
        images, labels = next(stream)
        n, last = n + len(labels), time.monotonic()
    del images
    return [begin - made, n / (last - begin)]


def own_pss():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def weigh(way, make):
    """MB that the process and its workers need beyond the process before the loader was made.

    This is the largest sum over about an epoch.
    """
    before, most = own_pss(), 0
    stream = batches_of(way, make())
    for _ in range(12):
        images, labels = next(stream)
        most = max(most, own_pss() + cell.tree_pss(os.getpid()))
    del images, labels
    return [(most - before) / 1e6]


def run_child(arguments):
    sys.path.insert(0, os.path.join(peer_list.ROOT, "python"))
    os.environ["MILLRACE_LIBRARY"] = peer_list.LIBRARY
    import torch
    torch.set_num_threads(1)
    way, what = arguments.child.split(",")
    make = make_loader(way, arguments.spec[0], arguments.dtype)
    values = time_loop(way, make, arguments.seconds) if what == "speed" else weigh(way, make)
    print("values", json.dumps(values), flush=True)
    os._exit(0)  # ending workers in order is not measured


# ---- in the parent ----

def values_of(way, what, spec, dtype, seconds):
    done = subprocess.run([
        sys.executable, "-B",
        os.path.abspath(__file__), "--child",
        "%s,%s" % (way, what), "--dtype", dtype, "--seconds",
        str(seconds), spec
    ],
                          capture_output=True,
                          text=True,
                          check=False)
    if done.returncode != 0:
        raise SystemExit("%s, %s, %s: %s" % (way, what, spec, done.stderr.strip()[-300:]))
    return json.loads(done.stdout.split("values")[-1])


def value_of_command(spec, dtype, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.json")
        done = subprocess.run([
            COMMAND, "bench", "--data", spec, "--workers",
            str(WORKERS), "--seconds",
            str(seconds), "--dtype", dtype, "--json", path
        ],
                              capture_output=True,
                              text=True,
                              check=False)
        if done.returncode != 0:
            raise SystemExit("millrace bench, %s: %s" % (spec, done.stderr.strip()[-300:]))
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"][0]["img_s"]


def measure(spec, dtype, rounds, seconds):
    """{name: values of the rounds}. Every second round goes backwards."""
    found = {"command": []}
    for way in WAYS:
        found.update({way + ",speed": [], way + ",first": [], way + ",memory": []})
    cells = ["command", *WAYS]
    for number in range(rounds):
        for name in cells if number % 2 == 0 else cells[::-1]:
            if name == "command":
                found[name].append(value_of_command(spec, dtype, seconds))
                continue
            first, speed = values_of(name, "speed", spec, dtype, seconds)
            found[name + ",first"].append(first)
            found[name + ",speed"].append(speed)
    for way in WAYS:
        found[way + ",memory"] += values_of(way, "memory", spec, dtype, seconds)
    return found


def show(about, digits):
    text = "%.*f" % (digits, about["median"])
    return text if about["low"] is None else text + " [%.*f, %.*f]" % (digits, about["low"], digits,
                                                                       about["high"])


def rows_of(spec, dtype, found):
    command = dict(enumerate(found["command"]))
    for way, title in WAYS.items():
        speed = dict(enumerate(found["%s,speed" % way]))
        yield [
            os.path.basename(spec.rstrip("/")), dtype, title,
            show(describe(speed.values()), 0),
            show(describe(paired(speed, command)), 3),
            show(describe(found["%s,first" % way]), 3),
            "%.0f" % found["%s,memory" % way][0]
        ]


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(prog="bench/peers/python_pairs.py")
    parser.add_argument("spec", nargs="+", metavar="SPEC")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", metavar="FILE", help="every value")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", choices=DTYPES, help="one dtype instead of both")
    return parser.parse_args(argv)


def main():
    arguments = parse_arguments()
    if arguments.child:
        run_child(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    result, rows = {}, []
    for spec in arguments.spec:
        for dtype in [arguments.dtype] if arguments.dtype else DTYPES:
            found = measure(spec, dtype, arguments.rounds, arguments.seconds)
            result["%s %s" % (spec, dtype)] = found
            rows += rows_of(spec, dtype, found)
    head = ["data", "dtype", "", "img/s", "of `millrace bench`", "first batch s", "MB more"]
    for row in [head, ["---"] * len(head)] + rows:
        print("| " + " | ".join(row) + " |")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
