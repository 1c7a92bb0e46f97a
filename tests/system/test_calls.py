# SPDX-License-Identifier: Apache-2.0
"""test_calls.py RUN_EPOCHS MAKE_FOLDER MILLRACE: how many system calls a sample costs, as strace
counts them.

One worker runs over a folder of small images, over a pack of it, and over a pack that keeps the
files and their marks, once with some epochs and once with twice as many. The difference between the
two runs holds no start and no end, only the calls for each sample and each batch. Exits with 77
where nothing can be traced.

strace makes every call slow, so the worker is the slow side here and the host waits for each batch;
a program that finds its batches ready makes fewer calls than are counted here.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

EPOCHS = 3
CLASSES, IMAGES = 4, 80
# Calls of the worker for each sample, and of all the host's threads for each batch. io_uring
# submits the reads of several samples at once; pread opens, asks for the size, reads and closes.
# Shards of a pack stay open, so there is one read. Marks are read too, and announced before that,
# so that a disk can look for both places at once.
WORKER_MOST = {
    "folder": {"uring": 1.0, "pread": 4.5},
    "pack": {"uring": 1.0, "pread": 1.5},
    "marked": {"uring": 1.0, "pread": 3.5},
}
HOST_MOST = 8.0
# The only calls that a worker should need for each sample.
WORKER_CALLS = {
    "uring": {"io_uring_enter", "futex"},
    "pread": {"openat", "fstat", "newfstatat", "pread64", "fadvise64", "close", "futex"},
}
# The decoder of progressive images, one in eleven here, takes memory and gives it back.
MEMORY_CALLS = {"brk", "mmap", "munmap", "madvise"}
MEMORY_MOST = 0.3


def can_trace():
    try:
        probe = subprocess.run(["strace", "-f", "-o", os.devnull, "true"],
                               capture_output=True,
                               check=False)
    except FileNotFoundError:
        print("skipped: no strace here")
        return False
    if probe.returncode != 0:
        print("skipped: strace cannot trace here:", probe.stderr.decode(errors="replace").strip())
        return False
    return True


def count(command, log):
    """Runs command; returns its output and two counters of calls: the worker's and all others'."""
    run = subprocess.run(["strace", "-f", "-qq", "-o", log] + command,
                         capture_output=True,
                         text=True,
                         check=False)
    if run.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)} ended with {run.returncode}: {run.stderr}")
    calls = collections.defaultdict(collections.Counter)
    workers = set()
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = re.match(r"(\d+) +(\w+)\(",
                             line)  # the second half of a call that was interrupted does not match
            if match:
                calls[match[1]][match[2]] += 1
                if match[2] == "execveat":
                    workers.add(match[1])
    if len(workers) != 1:
        sys.exit(f"FAILED: {len(workers)} workers were seen, not one")
    worker = collections.Counter()
    host = collections.Counter()
    for pid, counter in calls.items():
        (worker if pid in workers else host).update(counter)
    return [int(n) for n in run.stdout.split()], worker, host


def per_unit(more, fewer, n):
    """Calls in more that are not in fewer, each divided by n."""
    rates = {name: (more[name] - fewer[name]) / n for name in more.keys() | fewer.keys()}
    return {
        name: rate for name, rate in sorted(rates.items(), key=lambda item: -item[1])
        if abs(rate) >= 0.005
    }


def show(what, rates):
    print(f"  {what}: {sum(rates.values()):.2f} =",
          ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items()))


def check(run_epochs, kind, spec, reader, work):
    def run(epochs):
        return count([run_epochs, spec, reader, "1", str(epochs)], os.path.join(work, "calls"))

    fewer, worker_1, host_1 = run(EPOCHS)
    more, worker_2, host_2 = run(2 * EPOCHS)
    n_samples, n_batches = more[0] - fewer[0], more[1] - fewer[1]
    worker = per_unit(worker_2, worker_1, n_samples)
    host = per_unit(host_2, host_1, n_batches)
    print(f"{kind}, {reader}: {n_samples} samples in {n_batches} batches")
    show("calls of the worker per sample", worker)
    show("calls of the host per batch", host)
    problems = []
    most = WORKER_MOST[kind][reader]
    if sum(worker.values()) > most:
        problems.append(
            f"{kind}, {reader}: the worker makes more than {most} calls for each sample")
    if sum(host.values()) > HOST_MOST:
        problems.append(
            f"{kind}, {reader}: the host makes more than {HOST_MOST} calls for each batch")
    for name, rate in worker.items():
        if name not in WORKER_CALLS[reader] and rate > (MEMORY_MOST
                                                        if name in MEMORY_CALLS else 0.02):
            problems.append(f"{kind}, {reader}: the worker has no business with {name}")
    return problems


def has_uring(run_epochs, folder):
    probe = subprocess.run([run_epochs, folder, "uring", "1", "1"],
                           capture_output=True,
                           text=True,
                           check=False)
    if probe.returncode != 0:
        print("io_uring is not available here:", probe.stderr.strip())
    return probe.returncode == 0


def main():
    run_epochs, make_folder, millrace = sys.argv[1:]
    if not can_trace():
        return 77
    work = tempfile.mkdtemp(prefix="millrace-calls-")
    try:
        folder = os.path.join(work, "images")
        subprocess.run([make_folder, folder, str(CLASSES), str(IMAGES)], check=True)
        pack = os.path.join(work, "pack")
        subprocess.run([millrace, "pack", folder, pack], check=True, capture_output=True)
        marked = os.path.join(work, "marked")
        subprocess.run([millrace, "pack", folder, marked, "--encoding", "jpeg"],
                       check=True,
                       capture_output=True)
        specs = {"folder": folder, "pack": "pack:" + pack, "marked": "pack:" + marked}
        readers = ["uring", "pread"] if has_uring(run_epochs, folder) else ["pread"]
        problems = []
        for kind, spec in specs.items():
            for reader in readers:
                problems += check(run_epochs, kind, spec, reader, work)
    finally:
        shutil.rmtree(work)
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
