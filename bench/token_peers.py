#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/token_peers.py FOLDER [--python PYTHON] [--build DIR] [--llmc DIR] [--rounds 2] [MODE]

Compares rows of tokens from millrace with those of other loaders. FOLDER gets generated files. The
default mode measures tokens a second from the page cache, in batches of 32 rows, for T = 1024 and
4096. PYTHON has torch, and the peers that it lacks are left out:

    pip install turboloader==2.39.0 megatron-core==0.16.1

--llmc is a checkout of github.com/karpathy/llm.c at f1e2ace: its DataLoader and the one of
examples/llmc.diff are compared as C programs (needs cc). Other modes:

    --cold    shuffled rows of a file that is not in the page cache, beside fio (needs fio, fincore)
    --open    opening of 10^8 documents with order=megatron, beside Megatron-Core's own build
              (2 GB in FOLDER, 8 GB of memory)

Prints tables. bench/METHOD.md defines the columns.
"""

import argparse
import json
import logging
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(HERE, "peers")]
BATCH, VOCAB, SECONDS = 32, 50257, 3


# Files

def write_index(path, lengths):
    """An .idx of Megatron-Core, for documents of u16."""
    import numpy as np
    pointers = np.zeros(len(lengths), "<i8")
    np.cumsum(lengths[:-1], out=pointers[1:])
    pointers *= 2
    with open(path, "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        lengths.astype("<i4").tofile(file)
        pointers.tofile(file)
        np.arange(len(lengths) + 1, dtype="<i8").tofile(file)


def write_tokens(folder):
    """105 million tokens in 100,000 documents, and the same as a shard of llm.c."""
    import numpy as np
    if os.path.exists(f"{folder}/shard.bin"):
        return
    random = np.random.default_rng(0)
    lengths = random.integers(100, 2000, 100000)
    tokens = random.integers(0, VOCAB, int(lengths.sum())).astype("<u2")
    write_index(f"{folder}/x.idx", lengths)
    tokens.tofile(f"{folder}/x.bin")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    with open(f"{folder}/shard.bin", "wb") as file:
        header.tofile(file)
        tokens.tofile(file)


# Cases, in a process each: an iterator of pairs of tensors, i64 [BATCH, T]

def millrace_pairs(folder, window, workers, keys="", **options):
    import millrace
    import torch
    loader = millrace.Loader(f"tokens:{folder}/x.bin?window={window}{keys}", batch_size=BATCH,
                             num_workers=workers, seed=1, drop_last=True, **options)
    while True:
        for batch in loader:
            yield torch.from_dlpack(batch["tokens"]), torch.from_dlpack(batch["labels"])


def millrace_order_pairs(folder, window, workers):
    return millrace_pairs(folder, window, workers, "&order=megatron", no_shuffle=True)


def megatron_dataset(prefix, window, cache):
    import numpy as np
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class Tokenizer:
        vocab_size, eod, pad, unique_identifiers = VOCAB, VOCAB - 1, -1, {}
    documents = IndexedDataset(prefix)
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=window, blend=([prefix], None), split="1,0,0",
        path_to_cache=cache, tokenizer=Tokenizer(), reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
        mid_level_dataset_surplus=0.005)
    indices = np.arange(len(documents.sequence_lengths), dtype=np.int32)
    return GPTDataset(documents, prefix, indices, None, Split.train, config)


def megatron_pairs(folder, window, workers):
    import torch
    data = megatron_dataset(f"{folder}/x", window, f"{folder}/cache")
    while True:
        for batch in torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=workers,
                                                 drop_last=True):
            yield batch["tokens"], batch["labels"]


def turboloader_pairs(folder, window, _):
    import torch
    import turboloader
    loader = turboloader.TokenDataLoader(f"{folder}/x.bin", window, BATCH, shuffle=True, seed=1)
    while True:
        for tokens, labels in loader:
            yield torch.from_numpy(tokens), torch.from_numpy(labels)


def nanogpt_pairs(folder, window, _):
    """get_batch() of nanoGPT."""
    import numpy as np
    import torch
    while True:
        data = np.memmap(f"{folder}/x.bin", dtype=np.uint16, mode="r")
        at = torch.randint(len(data) - window, (BATCH,))
        yield tuple(torch.stack([torch.from_numpy(data[i + shift:i + shift + window]
                                                  .astype(np.int64)) for i in at])
                    for shift in (0, 1))


CASES = {"millrace, windows": (millrace_pairs, (0, 1, 2)),
         "TurboLoader": (turboloader_pairs, (0,)),
         "nanoGPT's get_batch": (nanogpt_pairs, (0,)),
         "millrace, order=megatron": (millrace_order_pairs, (1, 2)),
         "Megatron-Core, DataLoader": (megatron_pairs, (1, 2))}


def own_cpu_seconds():
    """Of this process and all below it, also of those that have ended."""
    import cell
    processes = cell.read_processes()
    return sum(processes[pid][1]
               for pid in (os.getpid(), *cell.descendants(processes, os.getpid())))


def run_case(name, folder, window, workers):
    """Million tokens a second, and CPU seconds per 10^9 tokens, after ten batches."""
    import torch
    torch.set_num_threads(1)
    pairs = CASES[name][0](folder, int(window), int(workers))
    for _ in range(10):
        tokens, labels = next(pairs)
    if tokens.shape != (BATCH, int(window)) or not torch.equal(tokens[:, 1:], labels[:, :-1]):
        raise SystemExit("labels are not the tokens after those of the row")
    del tokens, labels  # they hold a slot of millrace's loader
    begin, cpu, n = time.monotonic(), own_cpu_seconds(), 0
    while time.monotonic() - begin < SECONDS:
        next(pairs)
        n += BATCH * int(window)
    print(json.dumps({"rate": n / (time.monotonic() - begin) / 1e6,
                      "cpu": (own_cpu_seconds() - cpu) / n * 1e9}), flush=True)
    os._exit(0)  # to end workers in order is no part of the measurement


def run_child(python, *arguments):
    """What a mode of this script prints, or None."""
    child = subprocess.run([python, __file__, *map(str, arguments)], capture_output=True,
                           check=False, text=True, timeout=1800)
    if child.returncode:
        lines = child.stderr.strip().splitlines() or ["no message"]
        print(f"{arguments[1]}: {lines[-1][:200]}", file=sys.stderr)
        return None
    return json.loads(child.stdout)


# llm.c, in C

def compile_programs(llmc, build, folder):
    """{(name, workers): program}: bench/token_rows.c with llm.c's DataLoader and with ours."""
    header = subprocess.run(
        ["awk", "-v", "name=llmc/dataloader_millrace.h", "-f",
         f"{ROOT}/tests/system/new_file.awk", f"{ROOT}/examples/llmc.diff"],
        capture_output=True, check=True, text=True).stdout
    sources = {("llm.c's DataLoader", 0): '#include "llmc/utils.h"\n#include "llmc/dataloader.h"\n'}
    for workers in (1, 2):
        sources["that of llmc.diff", workers] = header.replace("num_workers = 1;",
                                                               f"num_workers = {workers};")
    programs = {}
    for i, (key, source) in enumerate(sources.items()):
        with open(f"{folder}/loader{i}.h", "w", encoding="utf-8") as file:
            file.write(source)
        programs[key] = f"{folder}/token_rows{i}"
        subprocess.run(["cc", "-O3", "-march=native", "-w", "-D_GNU_SOURCE",
                        f"-DLOADER=\"{folder}/loader{i}.h\"", "-I", llmc, "-I", f"{ROOT}/include",
                        f"{HERE}/token_rows.c", "-o", programs[key], "-L", build,
                        f"-Wl,-rpath,{build}", "-lmillrace", "-lm"], check=True)
    return programs


def run_program(program, folder, window, shuffle):
    steps = 10**9 // (BATCH * window)
    return json.loads(subprocess.run([program, f"{folder}/shard.bin", str(BATCH), str(window),
                                      str(shuffle), str(steps)],
                                     capture_output=True, check=True, text=True).stdout)


def print_table(title, rows, has_own=False):
    print(f"\n{title}\n\n| loader | workers | T | million tokens/s | CPU s per 10^9 tokens |"
          f"{' of the training thread |' if has_own else ''}\n|---|---|---|---|---|"
          f"{'---|' if has_own else ''}")
    for (name, workers, window), values in rows.items():
        rates = ", ".join(f"{value['rate']:.0f}" for value in values)
        print(f"| {name} | {workers} | {window} | {rates} | "
              f"{min(value['cpu'] for value in values):.2f} |"
              + (f" {min(value['own'] for value in values):.2f} |" if has_own else ""))


def compare_cached(arguments):
    write_tokens(arguments.folder)
    rows, in_c = {}, {}
    with tempfile.TemporaryDirectory() as place:
        programs = (compile_programs(arguments.llmc, arguments.build, place)
                    if arguments.llmc else {})
        for window in (1024, 4096):
            for _ in range(arguments.rounds):
                for name, (_, workers) in CASES.items():
                    for n in workers:
                        value = run_child(arguments.python, "--case", name, arguments.folder,
                                          window, n)
                        if value:
                            rows.setdefault((name, n, window), []).append(value)
                for (name, n), program in programs.items():
                    for shuffle, words in enumerate(("in order", "shuffled")):
                        value = run_program(program, arguments.folder, window, shuffle)
                        in_c.setdefault((f"{name}, {words}", n, window), []).append(value)
    print_table("i64 as torch tensors:", rows)
    if in_c:
        print_table("i32 in C, with a copy of tokens and labels:", in_c, True)


# A file that is not in the page cache

def cached_bytes(path):
    return int(subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path],
                              capture_output=True, check=True, text=True).stdout)


def evict(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached_bytes(path):
        raise SystemExit(f"{path} stays in the page cache")


def read_by_fio(path, n_rows, n_bytes, jobs, depth, direct):
    """Reads of a row's size a second; with direct, of the whole pages that it has on average."""
    evict(path)
    size = (n_bytes + 4095) // 4096 * 4096 if direct else n_bytes
    output = subprocess.run(
        ["fio", "--name=rows", f"--filename={path}", "--rw=randread", f"--bs={size}",
         f"--direct={direct}", "--ioengine=io_uring", f"--iodepth={depth}", f"--numjobs={jobs}",
         f"--io_size={n_rows * size // jobs}", "--group_reporting", "--randrepeat=0",
         "--fadvise_hint=random", "--output-format=json"],
        capture_output=True, check=True, text=True).stdout
    return json.loads(output[output.index("{"):])["jobs"][0]["read"]["iops"]


def read_by_millrace(path, window, n_rows, workers, depth):
    """Rows a second; and how much of the file is cached afterwards."""
    import millrace
    evict(path)
    loader = millrace.Loader(f"tokens:{path}?window={window}&dtype=u16", batch_size=BATCH, seed=1,
                             num_workers=workers, read_ahead=depth, dtype="i32", order="keyed")
    batches = iter(loader)
    next(batches)
    begin, n = time.monotonic(), 0
    while n < n_rows:
        next(batches)
        n += BATCH
    took = time.monotonic() - begin
    loader.close()
    return n / took, cached_bytes(path)


def compare_cold(arguments):
    """At most a tenth of the file is read, so a row's pages are seldom cached by its neighbours."""
    import numpy as np
    path = f"{arguments.folder}/cold.bin"
    if not os.path.exists(path):
        random = np.random.default_rng(0)
        with open(path, "wb") as file:
            for _ in range(64):
                random.integers(0, VOCAB, 1 << 25).astype("<u2").tofile(file)
            os.fsync(file.fileno())
    n_bytes = os.path.getsize(path)
    print(f"{n_bytes} bytes\n\n| T | workers | read_ahead | millrace, rows/s | fio, buffered | "
          "fio, direct | millrace / buffered | read, MB |\n|---|---|---|---|---|---|---|---|")
    for window, workers, depth in ((1024, 1, 4), (1024, 2, 4), (1024, 1, 16), (1024, 2, 16),
                                   (4096, 1, 4), (4096, 2, 4), (4096, 1, 16), (4096, 2, 16)):
        row = 2 * (window + 1)
        n_rows = min(n_bytes // row // 10, 8192 * workers * depth)
        ours, cached = read_by_millrace(path, window, n_rows, workers, depth)
        fio = [read_by_fio(path, n_rows, row, workers, depth, direct) for direct in (0, 1)]
        print(f"| {window} | {workers} | {depth} | {ours:.0f} | {fio[0]:.0f} | {fio[1]:.0f} | "
              f"{ours / fio[0]:.2f} | {cached / 1e6:.0f} |", flush=True)


# 10^8 documents

def open_case(name, folder):
    begin, cpu = time.monotonic(), time.process_time()
    if name == "millrace":
        import millrace
        data = millrace.Dataset(f"tokens:{folder}/many.bin?window=1024&order=megatron")
    else:
        data = megatron_dataset(f"{folder}/many", 1024, f"{folder}/many-cache")
    row = {"rows": len(data), "s": time.monotonic() - begin, "cpu_s": time.process_time() - cpu,
           "max_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
    print(json.dumps(row))


def compare_opening(arguments):
    import numpy as np
    if not os.path.exists(f"{arguments.folder}/many.idx"):
        write_index(f"{arguments.folder}/many.idx", np.full(10**8, 100))
        with open(f"{arguments.folder}/many.bin", "wb") as file:
            file.truncate(2 * 10**10)
    print("| | rows | s | CPU s | memory, GB | files, MB |\n|---|---|---|---|---|---|")
    for name in ("millrace", "Megatron-Core"):
        cache = f"{arguments.folder}/many-cache"
        shutil.rmtree(cache, ignore_errors=True)
        row = run_child(arguments.python, "--open-case", name, arguments.folder)
        if row:
            written = sum(entry.stat().st_size for entry in os.scandir(cache)
                          ) if os.path.exists(cache) else 0
            print(f"| {name} | {row['rows']} | {row['s']:.1f} | {row['cpu_s']:.1f} | "
                  f"{row['max_gb']:.1f} | {written / 1e6:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/token_peers.py")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "test"))
    parser.add_argument("--llmc", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--open", action="store_true")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    os.environ.setdefault("MILLRACE_LIBRARY", os.path.join(arguments.build, "libmillrace.so"))
    os.makedirs(arguments.folder, exist_ok=True)
    mode = (compare_cold if arguments.cold else
            compare_opening if arguments.open else compare_cached)
    mode(arguments)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    if sys.argv[1:2] == ["--case"]:
        run_case(*sys.argv[2:])
    elif sys.argv[1:2] == ["--open-case"]:
        open_case(*sys.argv[2:])
    else:
        main()
