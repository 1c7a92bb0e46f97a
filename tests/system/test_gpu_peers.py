#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/gpu as it is carried to a machine, without a GPU: what it runs, when it stops, what
it leaves.

test_gpu_peers.py ROOT. The program that is carried is played by a script here, and torch is made to
be missing.
"""

import gzip
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
PEERS = os.path.join(os.path.abspath(sys.argv[1]), "bench", "peers")
sys.path.insert(0, PEERS)
import cell  # noqa: E402

# Plays the program that bench/peers/gpu carries. If FAKE_PIDS names a file, it writes pids there
# and hangs with a child.
FAKE_GPU = """#!%(python)s
import argparse, json, os, select, subprocess, sys, time
parser = argparse.ArgumentParser()
for name in ("--data", "--device", "--workers", "--step", "--seconds", "--batch"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
def say(**fields):
    print(json.dumps(fields), flush=True)
def mark(name):
    say(mark=name, t=time.monotonic())
    sys.stdin.readline()
if "FAKE_PIDS" in os.environ:
    child = subprocess.Popen(["sleep", "1000"])
    with open(os.environ["FAKE_PIDS"] + ".half", "w") as file:
        file.write("%%d %%d" %% (os.getpid(), child.pid))
    os.rename(os.environ["FAKE_PIDS"] + ".half", os.environ["FAKE_PIDS"])
    time.sleep(1000)
if arguments.workers == "3":
    sys.exit("this program is broken")
mark("first")
mark("begin")
time.sleep(0.05)
mark("end")
while not select.select([sys.stdin], [], [], 0.01)[0]:
    pass
say(mark="done", seconds=1.0, images=100 * int(arguments.workers), failed=0, busy=0.5, gaps=[0.1],
    versions={})
if "MR_TRACE" in os.environ:
    sys.stdout.flush()
    with open(os.environ["MR_TRACE"], "w") as file:
        file.write("[] of %%s workers, step %%s" %% (arguments.workers, arguments.step))
"""


def load_script(path, name):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class GpuRun(unittest.TestCase):
    """bench/peers/gpu as it is carried, on a machine without torch."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        for name in ("gpu", "cell.py", "peer_gpu.py"):
            shutil.copy(os.path.join(PEERS, name), self.folder)
        for name in ("bin", "photos", "none"):
            os.mkdir(os.path.join(self.folder, name))
        for path, text in (("bin/gpu_ours", FAKE_GPU % {"python": sys.executable}),
                           ("commit", "abc"), ("photos/0.jpg", ""),
                           ("none/torch.py", "raise ImportError('no torch here')")):
            with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(os.path.join(self.folder, "bin", "gpu_ours"), 0o755)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, *words, **environment):
        environment = dict(os.environ, PYTHONPATH=os.path.join(self.folder, "none"), **environment)
        return subprocess.Popen(
            [sys.executable, "-B",
             os.path.join(self.folder, "gpu"), "--dry-run"] + list(words),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True)

    def result(self):
        folder = os.path.join(self.folder, "results")
        names = [name for name in os.listdir(folder) if name.endswith(".json")]
        with open(os.path.join(folder, names[0]), encoding="utf-8") as file:
            return json.load(file)

    def test_rows_without_torch_keep_their_reason_and_are_no_failure(self):
        process = self.start("--workers", "2,4")
        text, errors = process.communicate(timeout=100)
        self.assertEqual((process.returncode, errors), (0, ""), text)
        cells = self.result()["cells"]
        self.assertEqual(len(cells), 12)
        self.assertEqual([cell["img_s"] for cell in cells if cell["row"] == "ours"],
                         [400, 400, 200, 200])
        self.assertTrue(
            all("no torch here" in cell["missing"] for cell in cells if cell["row"] != "ours"))
        self.assertEqual(text.count("no torch here"), 8)
        out = os.path.join(self.folder, "results")
        traces = [name for name in os.listdir(out) if "trace" in name]
        self.assertEqual([name.split("-gpu-")[1] for name in traces], ["peers-dry-trace.json.gz"])
        with gzip.open(os.path.join(out, traces[0]), "rt") as file:
            self.assertEqual(file.read(), "[] of 4 workers, step 85")
        self.assertRegex(text, r"GPU \| 4 \| 400 \| 1.00 \| 1.00 \| 50.0 %")

    def test_program_that_fails_makes_its_cells_void(self):
        process = self.start("--workers", "3")
        text, errors = process.communicate(timeout=100)
        self.assertEqual((process.returncode, errors), (1, ""), text)
        self.assertEqual(text.count("this program is broken"), 2)

    def await_pids(self, path, process):
        until = time.monotonic() + 60
        while not os.path.exists(path) and time.monotonic() < until:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        with open(path, encoding="ascii") as file:
            return [int(part) for part in file.read().split()]

    def await_end(self, pids):
        until = time.monotonic() + 10
        while any(pid in cell.read_processes() for pid in pids) and time.monotonic() < until:
            for pid in pids:
                try:
                    os.waitpid(pid, os.WNOHANG)  # orphans come to this process
                except ChildProcessError:
                    pass
            time.sleep(0.05)
        return [pid for pid in pids if pid in cell.read_processes()]

    def test_run_that_is_ended_takes_its_processes_along(self):
        path = os.path.join(self.folder, "pids")
        process = self.start(FAKE_PIDS=path)
        pids = self.await_pids(path, process)
        process.terminate()
        _, errors = process.communicate(timeout=30)
        self.assertEqual((process.returncode, errors), (130, ""))
        self.assertEqual(self.await_end(pids), [])

    def test_run_that_is_killed_takes_its_program_along(self):
        path = os.path.join(self.folder, "pids")
        process = self.start(FAKE_PIDS=path)
        program, child = self.await_pids(path, process)
        process.kill()
        process.communicate(timeout=30)
        try:
            self.assertEqual(self.await_end([program]), [])
        finally:
            os.kill(child, signal.SIGKILL)  # it is still there: the program is a script here

    def test_cells_that_say_most_come_first_and_none_begins_too_late(self):
        gpu = load_script(os.path.join(self.folder, "gpu"), "gpu")
        arguments = gpu.parse_arguments(["--workers", "4,8,12,16"])
        plan = gpu.plan_cells(arguments)
        self.assertEqual(len(set(plan)), 24)
        self.assertEqual(plan[:4], [("ours", 16, 0), ("pin", 16, 0), ("nvjpeg", 16, 0),
                                    ("ours", 16, 85)])
        self.assertEqual([row[1] for row in plan[::6]], [16, 4, 8, 12])
        result = {"missing": {}, "cells": []}
        gpu.run_cells(arguments, self.folder, result, lambda: None,
                      time.monotonic() - gpu.LIMIT_S + 15)
        self.assertTrue(all("no time left" in row["left_out"] for row in result["cells"]))
        self.assertLessEqual(gpu.LIMIT_S + 15, 9 * 60)

    def test_photographs_that_gpus_refuse_are_not_carried(self):
        gpu = load_script(os.path.join(self.folder, "gpu"), "gpu")
        path = os.path.join(self.folder, "x")
        for head, usual in ((b"\xff\xc0", True), (b"\xff\xc2", True), (b"\xff\xc4", False)):
            for components in (1, 3, 4):
                with open(path, "wb") as file:
                    file.write(b"\xff\xd8\xff\xe0\0\x04ab" + head + b"\0\x11\x08\0\x10\0\x10" +
                               bytes([components]) + bytes(20))
                self.assertEqual(gpu.is_usual(path), usual and components != 4, (head, components))
        with open(path, "wb") as file:
            file.write(b"no picture at all")
        self.assertFalse(gpu.is_usual(path))


if __name__ == "__main__":
    cell.inherit_orphans()
    unittest.main(argv=sys.argv[:1])
