# SPDX-License-Identifier: Apache-2.0
"""Shards and packs behind a delay, with a cache and without, beside local packs.

    python3 bench/remote_cache.py BUILD IMAGES [--delay-us 2000] [--rounds 3] [--seconds 2]
                                  [--read-ahead 32]

BUILD is a build folder with tests, IMAGES a folder of class folders. The images are written as a
tar shard and as packs; nginx, or the HTTP server of the tests if there is none, serves them through
the proxy of the tests. Two workers, batches of 64. Each case runs in each round; ratios are taken
within a round and their median is printed. Server and proxy use the same CPUs as the loader.
"""

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NGINX = """daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/nginx.log;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000; sendfile on; tcp_nodelay on;
  client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0}; uwsgi_temp_path {0};
  scgi_temp_path {0};
  server {{ listen 127.0.0.1:{1}; root {2}; }} }}
"""


def write_shard(images, path):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        names = sorted(os.path.join(folder, name)
                       for folder, _, files in os.walk(images) for name in files
                       if name.lower().endswith((".jpg", ".jpeg")))
        for i, name in enumerate(names):
            shard.add(name, f"{i:06d}.jpg")
    return len(names)


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def serving(build, folder, delay_us):
    """The URL of the folder behind the proxy."""
    support = os.path.join(build, "tests", "support")
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        if nginx:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            work = stack.enter_context(tempfile.TemporaryDirectory())
            with open(f"{work}/conf", "w", encoding="utf-8") as conf:
                conf.write(NGINX.format(work, port, folder))
            stack.enter_context(running([nginx, "-c", f"{work}/conf"]))
        else:
            server = stack.enter_context(
                running([os.path.join(support, "mr_serve_folder"), folder], **pipes))
            port = server.stdout.readline().rsplit(":", 1)[1].strip()
        proxy = stack.enter_context(
            running([os.path.join(support, "mr_run_proxy"), str(port), str(delay_us)], **pipes))
        time.sleep(0.5)
        yield f"http://127.0.0.1:{proxy.stdout.readline().strip()}"


def worker_seconds():
    """CPU seconds of all workers of this process."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
            fields = rest.split()
            if name.startswith("millrace") and int(fields[1]) == os.getpid():
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Case:
    """A loader that goes on from round to round."""

    def __init__(self, spec, read_ahead, **options):
        import millrace as mr
        self.loader = mr.Loader(spec, transform="train:224", batch_size=64, num_workers=2,
                                read_ahead=read_ahead, **options)
        begin = time.monotonic()
        n = sum(len(batch.label) for batch in self.loader)
        self.first = n / (time.monotonic() - begin)

    def run(self, seconds):
        """Images a second, bytes read and CPU seconds of workers for each, over whole epochs."""
        n, before, begin = 0, self.loader.stats()["bytes_read"], time.monotonic()
        cpu = worker_seconds()
        while time.monotonic() < begin + seconds:
            n += sum(len(batch.label) for batch in self.loader)
        rate = n / (time.monotonic() - begin)
        return (rate, (self.loader.stats()["bytes_read"] - before) / n,
                (worker_seconds() - cpu) / n)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--delay-us", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--read-ahead", type=int, default=32)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    os.environ.setdefault("MILLRACE_LIBRARY", os.path.join(build, "libmillrace.so"))
    sys.path.insert(0, os.path.join(ROOT, "python"))
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["XDG_CACHE_HOME"] = work
        n = write_shard(args.images, f"{work}/t.tar")
        for encoding in ("dct", "jpeg"):
            subprocess.run([os.path.join(build, "tools", "millrace"), "pack", "--encoding",
                            encoding, f"tar:{work}/t.tar?label=none", f"{work}/{encoding}"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        url = stack.enter_context(serving(build, work, args.delay_us))
        remote = {name: f"{kind}:{url}/{path}" for name, kind, path in (
            ("tar", "tar", "t.tar?label=none"), ("dct pack", "pack", "dct"),
            ("jpeg pack", "pack", "jpeg"))}
        cases = {f"local {name} pack": Case(f"pack:{work}/{name}", 4) for name in ("dct", "jpeg")}
        cases.update({f"remote {name}": Case(spec, args.read_ahead)
                      for name, spec in remote.items()})
        for name, spec, form in (("tar", remote["tar"], "dct"), ("tar", remote["tar"], "index"),
                                 ("dct pack", remote["dct pack"], "auto")):
            cases[f"remote {name}, cache {form}"] = Case(
                spec, args.read_ahead, cache=f"{work}/cache-{name}-{form}", cache_form=form)
        rounds = [{name: case.run(args.seconds) for name, case in cases.items()}
                  for _ in range(args.rounds)]
    print(f"{n} images, {args.delay_us / 1000} ms")
    print(f"{'':26}   first images/s   KB read  CPU ms  / local dct pack  / remote tar  bytes")
    for name, case in cases.items():
        def median(of):
            return statistics.median(of(r) for r in rounds)
        print(f"{name:26} {case.first:7.0f} {median(lambda r: r[name][0]):8.0f} "
              f"{median(lambda r: r[name][1]) / 1000:9.1f} "
              f"{median(lambda r: r[name][2]) * 1000:7.2f} "
              f"{median(lambda r: r[name][0] / r['local dct pack'][0]):17.2f} "
              f"{median(lambda r: r[name][0] / r['remote tar'][0]):13.2f} "
              f"{median(lambda r: r[name][1] / r['remote tar'][1]):6.2f}")


if __name__ == "__main__":
    main()
