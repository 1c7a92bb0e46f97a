#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/remote_peers.py DIR [--python PYTHON] [--build DIR] [--copies 8] [--rounds 3] [--out NAME]

Compares millrace with other loaders of data at a server: webdataset, litdata, mosaicml-streaming
and TurboLoader. DIR is a folder of class folders of JPEG files; each format has the same files
--copies times, as they are. nginx serves them, also as the objects of an S3 bucket, through the
tests' proxy, which delays answers. One pass over all is measured, with an empty cache. PYTHON has
torch, torchvision, Pillow and

    pip install webdataset==1.0.2 litdata==0.2.76 mosaicml-streaming==0.13.0 turboloader==2.39.0

Writes NAME.md and NAME.json (bench/results/DATE-remote-peers). bench/METHOD.md defines the columns.
Needs nginx, curl, and a build folder with tests (build/test, or --build).
"""

import argparse
import contextlib
import datetime
import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(HERE, "peers")]
BATCH, WORKERS = 64, 2
BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ALLOW_HTTP": "true"}


def list_copies(images, n_copies):
    """(key, path, label) of every sample."""
    from adapter import list_images
    return [(f"{copy:02}{i:06}", path, label) for copy in range(n_copies)
            for i, (path, label) in enumerate(list_images(images))]


# In the process of a case, which runs PYTHON

def write_litdata(samples, out):
    import litdata
    litdata.optimize(read_sample, [sample[1:] for sample in samples], out, chunk_bytes="64MB",
                     num_workers=1)


def read_sample(sample):
    path, label = sample
    with open(path, "rb") as file:
        return file.read(), label


def write_streaming(samples, out):
    import streaming
    with streaming.MDSWriter(out=out, columns={"image": "bytes", "label": "int"}) as writer:
        for _, path, label in samples:
            with open(path, "rb") as file:
                writer.write({"image": file.read(), "label": label})


def make_crop():
    """What users of the peers do with the bytes of a file."""
    import PIL.Image
    from torchvision import transforms
    transform = transforms.Compose([transforms.RandomResizedCrop(224),
                                    transforms.RandomHorizontalFlip(), transforms.PILToTensor()])

    def crop(content):
        with PIL.Image.open(io.BytesIO(content)) as image:
            return transform(image.convert("RGB"))
    return crop


def millrace_case(url, shards, _):
    import millrace

    def batches():
        spec = f"tar:{url}/{BUCKET}/{shards}"
        for batch in millrace.Loader(spec, "train:224", batch_size=BATCH, num_workers=WORKERS):
            yield batch.image
    return batches


def webdataset_case(url, shards, _):
    import webdataset
    crop = make_crop()

    def batches():
        dataset = webdataset.WebDataset(f"{url}/{BUCKET}/{shards}", shardshuffle=100)
        dataset = dataset.shuffle(1000).to_tuple("jpg", "cls").map_tuple(crop, int).batched(BATCH)
        for images, _ in webdataset.WebLoader(dataset, batch_size=None, num_workers=WORKERS):
            yield images
    return batches


def litdata_case(url, _, cache):
    import litdata.streaming.downloader
    crop = make_crop()
    # Its fast reader of S3 has no option for endpoints without TLS.
    litdata.streaming.downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"

    class Crops(litdata.StreamingDataset):
        def __getitem__(self, index):
            content, label = super().__getitem__(index)
            return crop(content), label

    def batches():
        dataset = Crops(f"s3://{BUCKET}/litdata", cache_dir=cache, max_cache_size="10GB",
                        shuffle=True, storage_options={"endpoint_url": url})
        for images, _ in litdata.StreamingDataLoader(dataset, batch_size=BATCH,
                                                     num_workers=WORKERS):
            yield images
    return batches


def streaming_case(url, _, cache):
    import streaming
    import torch.utils.data
    crop = make_crop()
    os.environ["S3_ENDPOINT_URL"] = url

    class Crops(streaming.StreamingDataset):
        def __getitem__(self, at):
            sample = super().__getitem__(at)
            return crop(sample["image"]), sample["label"]

    def batches():
        streaming.base.util.clean_stale_shared_memory()
        dataset = Crops(remote=f"s3://{BUCKET}/streaming", local=cache, batch_size=BATCH,
                        shuffle=True)
        for images, _ in torch.utils.data.DataLoader(dataset, BATCH, num_workers=WORKERS):
            yield images
    return batches


def turboloader_case(url, *_):
    """It refuses its own random crop for URLs, so torchvision's crops what it decoded."""
    import PIL.Image
    import torch
    import turboloader
    from torchvision import transforms
    transform = transforms.Compose([transforms.RandomResizedCrop(224),
                                    transforms.RandomHorizontalFlip(), transforms.PILToTensor()])

    def batches():
        for samples in turboloader.DataLoader(f"{url}/{BUCKET}/all.tar", BATCH,
                                              num_workers=WORKERS, shuffle=True):
            yield torch.stack([transform(PIL.Image.fromarray(s["image"])) for s in samples])
    return batches


def resized_case(url, *_):
    """Its fast way for URLs: whole images, resized to 224 x 224; no crop, no flip."""
    import turboloader

    def batches():
        for images, _ in turboloader.DataLoader(
                f"{url}/{BUCKET}/all.tar", BATCH, num_workers=WORKERS, shuffle=True,
                transform=turboloader.ImageNetNormalize(), image_size=224,
                output_format="pytorch"):
            yield images
    return batches


# name: (case, writer of its format, least ratio of millrace's rate to its)
CASES = {"millrace": (millrace_case, None, None),
         "webdataset": (webdataset_case, None, 3),
         "litdata": (litdata_case, write_litdata, 3),
         "streaming": (streaming_case, write_streaming, 3),
         "TurboLoader": (turboloader_case, None, 2),
         "TurboLoader, resized only": (resized_case, None, 2)}


def own_cpu_seconds():
    """Of this process and all below it, also of those that have ended."""
    import cell
    processes = cell.read_processes()
    return sum(processes[pid][1]
               for pid in (os.getpid(), *cell.descendants(processes, os.getpid())))


def run_case(name, *arguments):
    batches = CASES[name][0](*arguments)
    marks, n = [(time.monotonic(), own_cpu_seconds(), 0)], 0
    for images in batches():
        if tuple(images.shape[1:]) != (3, 224, 224):
            raise SystemExit(f"a batch of the shape {tuple(images.shape)}")
        n += len(images) if hasattr(images, "__len__") else images.shape[0]
        if len(marks) == 1:
            marks.append((time.monotonic(), own_cpu_seconds(), n))
    end = time.monotonic(), own_cpu_seconds(), n
    if n == marks[-1][2]:
        raise SystemExit(f"only {n} images: no batch after the first")

    def rate(begin):
        return ((n - begin[2]) / (end[0] - begin[0]), 1000 * (end[1] - begin[1]) / (n - begin[2]))
    row = {"n": n, "first_s": marks[1][0] - marks[0][0]}
    row["img_s"], row["cpu_s_per_1000"] = rate(marks[1])
    row["all_img_s"], row["all_cpu_s_per_1000"] = rate(marks[0])
    print(json.dumps(row), flush=True)
    os._exit(0)  # to end workers in order is no part of the measurement


# In the process of the measurement

class Failure(Exception):
    """Why there is no measurement."""


def run_child(python, *arguments, **environment):
    """What a mode of this script prints, or a Failure with the end of its messages."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([python, __file__, *arguments], stdout=output, stderr=errors,
                                 env={**os.environ, **environment}, start_new_session=True)
        try:
            status = child.wait(900)
        except subprocess.TimeoutExpired:
            status = "no end after 900 s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 9)  # workers too
            child.wait()
        output.seek(0)
        errors.seek(0)
        if status:
            lines = errors.read().strip().splitlines() or ["no message"]
            raise Failure(f"{status}: {lines[-1][:300]}")
        return output.read()


def write_tar(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, image, label in samples:
            tar.add(image, f"{key}.jpg")
            info = tarfile.TarInfo(f"{key}.cls")
            content = b"%d" % label
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_data(arguments, bucket, failures):
    samples = list_copies(arguments.images, arguments.copies)
    if not samples:
        raise Failure(f"{arguments.images} has no class folders with images")
    os.makedirs(bucket)
    for copy in range(arguments.copies):
        prefix = f"{copy:02}"
        write_tar(f"{bucket}/{prefix}.tar", [s for s in samples if s[0].startswith(prefix)])
    write_tar(f"{bucket}/all.tar", samples)
    for name, (_, write, _) in CASES.items():
        if write:
            try:
                run_child(arguments.python, "--write", name, arguments.images,
                          str(arguments.copies), f"{bucket}/{name}")
            except Failure as failure:
                failures[name] = f"writing: {failure}"
    return len(samples)


def measure_round(arguments, url, folder, n_images, failures):
    row = {}
    for name in CASES:
        if name in failures:
            continue
        cache = os.path.join(folder, "cache")
        try:
            row[name] = json.loads(run_child(
                arguments.python, "--case", name, url, f"{{00..{arguments.copies - 1:02}}}.tar",
                os.path.join(cache, "peer"), XDG_CACHE_HOME=cache, AWS_ENDPOINT_URL=url, **KEYS))
            if row[name]["n"] != n_images:
                failures[name] = f"gave {row[name]['n']} of {n_images} images"
        except Failure as failure:
            failures[name] = str(failure)
        shutil.rmtree(cache, ignore_errors=True)
    return row


def write_report(path, rounds, failures, facts):
    done = [name for name in CASES if name not in failures]
    columns = ("img_s", "cpu_s_per_1000", "first_s", "all_img_s", "all_cpu_s_per_1000")
    lines = ["# Loaders of remote data", "", f"{facts['date']}, {facts['n_cpus']} CPUs, {WORKERS} "
             f"workers, {len(rounds)} rounds of {facts['n_images']} images, "
             f"{facts['delay_us'] / 1000:g} ms.", "",
             "| loader | images/s | CPU s/1000 | first batch, s | all images/s | all CPU s/1000 |",
             "|---|---|---|---|---|---|"]
    for name in done:
        values = [statistics.median(row[name][column] for row in rounds) for column in columns]
        lines.append(f"| {name} | {values[0]:.0f} | {values[1]:.2f} | {values[2]:.2f} | "
                     f"{values[3]:.0f} | {values[4]:.2f} |")
    lines += [f"| {name} | {' '.join(why.split())} | | | | |" for name, why in failures.items()]
    figures = []
    for name in done[1:] if "millrace" in done else []:
        for what, column, aim in (("rate", "img_s", CASES[name][2]),
                                  ("CPU seconds", "cpu_s_per_1000", 1 / 3)):
            value = statistics.median(row["millrace"][column] / row[name][column]
                                      for row in rounds)
            met = value >= aim if what == "rate" else value <= aim
            figures.append([f"{what}: millrace / {name}", value,
                            f"{'>=' if what == 'rate' else '<='} {aim:.3g}", met])
    lines += ["", "| figure | median | aim | met |", "|---|---|---|---|"]
    lines += [f"| {what} | {value:.3f} | {aim} | {'yes' if met else 'no'} |"
              for what, value, aim, met in figures]
    with open(f"{path}.md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    with open(f"{path}.json", "w", encoding="utf-8") as file:
        json.dump({"schema": "millrace-remote-peers/1", **facts, "rounds": rounds,
                   "failures": failures, "figures": figures}, file, indent=1)
    print("\n".join(lines))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/remote_peers.py")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "test"))
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay-us", type=int, default=2000)
    parser.add_argument("--out", help="without suffix (bench/results/DATE-remote-peers)")
    arguments = parser.parse_args()
    if not WORKERS <= arguments.copies <= 100 or arguments.rounds < 1:
        parser.error(f"--copies is not in [{WORKERS}, 100], or --rounds is below 1")
    return arguments


def main():
    from remote_cache import serving
    arguments = parse_arguments()
    build = os.path.abspath(arguments.build)
    os.environ.setdefault("MILLRACE_LIBRARY", os.path.join(build, "libmillrace.so"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends nginx too
    today, failures = datetime.date.today().isoformat(), {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = os.path.join(folder, "tmp")  # litdata empties folders there
        os.mkdir(os.environ["TMPDIR"])
        data = os.path.join(folder, "data")
        n_images = write_data(arguments, os.path.join(data, BUCKET), failures)
        with serving(build, data, arguments.delay_us) as url:
            rounds = [measure_round(arguments, url, folder, n_images, failures)
                      for _ in range(arguments.rounds)]
    write_report(arguments.out or os.path.join(ROOT, "bench", "results", f"{today}-remote-peers"),
                 rounds, failures,
                 {"date": today, "n_cpus": len(os.sched_getaffinity(0)), "n_images": n_images,
                  "delay_us": arguments.delay_us})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        run_case(*sys.argv[2:])
    elif sys.argv[1:2] == ["--write"]:
        _, _, wanted, photographs, copies, place = sys.argv
        CASES[wanted][1](list_copies(photographs, int(copies)), place)
    else:
        try:
            main()
        except (Failure, OSError) as problem:
            sys.exit(f"bench/remote_peers.py: {problem}")
