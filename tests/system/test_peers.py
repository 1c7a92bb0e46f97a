#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers, bench/compare and bench/profile without any peer: arithmetic, messages with a
process, tables.

test_peers.py ROOT [millrace-bench-ours millrace-bench-light mr_make_folder]; the programs' own
cases are skipped without them. Peers are played by small scripts here.
"""

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
ROOT = os.path.abspath(sys.argv[1])
PROGRAMS = sys.argv[2:]
PEERS = os.path.join(ROOT, "bench", "peers")
sys.path.insert(0, PEERS)
import adapter  # noqa: E402
import cell  # noqa: E402
import peer_contracts  # noqa: E402
import peer_report  # noqa: E402
import peer_stats  # noqa: E402

# A peer: 128 images of 128 classes, whose batches come at once. WAY selects what it does wrong.
FAKE = """#!%(python)s
import os, random, subprocess, sys, time
sys.path.insert(0, %(peers)r)
sys.dont_write_bytecode = True
from adapter import Adapter
WAY = %(way)r
class Images:
    dtype = "uint8"
    shape = (64, 3, 224, 224)
    def __len__(self):
        return 64
adapter = Adapter()
if adapter.arguments.contract == "A2":
    Images.dtype = "float32"
if WAY == "dtype":
    Images.dtype = "float64"
if WAY == "garbage":
    adapter.lines.write("hello\\n")
    adapter.lines.flush()
if WAY == "dies":
    raise SystemExit("this peer is broken")
if WAY == "hangs":
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(adapter.arguments.data, "w") as file:
        file.write(str(child.pid))
    time.sleep(1000)
def batches():
    order = list(range(128))
    while True:
        if WAY != "sorted":
            random.shuffle(order)
        if WAY == "twice":
            order = [0, 0] + order[2:]
        if WAY == "child":
            subprocess.run([sys.executable, "-c", "import time\\nt = time.process_time()\\n"
                            "while time.process_time() < t + 0.3: pass"], check=True)
        for i in (0, 64):
            time.sleep(0.002)
            yield Images(), order[i:i + 64]
adapter.run(128, batches, None, {"fake": "1"}, "nchw")
"""
LABELS = list(range(128))


def write_fake(folder, way="", name="fake"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(FAKE % {"python": sys.executable, "peers": PEERS, "way": way})
    os.chmod(path, 0o755)
    return path


def load_script(path, name):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Statistics(unittest.TestCase):
    def test_quantile_is_the_smallest_value_that_is_not_exceeded_by_the_share(self):
        values = list(range(1, 101))
        self.assertEqual(peer_stats.quantile(values, 0.99), 99)
        self.assertEqual(peer_stats.quantile(values, 0.5), 50)
        self.assertEqual(peer_stats.quantile([3], 0.99), 3)
        self.assertEqual(peer_stats.quantile([2, 9, 4], 0.99), 9)
        self.assertIsNone(peer_stats.quantile([], 0.5))

    def test_interval_holds_the_median_and_is_the_same_each_time(self):
        values = [1.0, 1.1, 0.9, 1.2, 1.05, 5.0]
        low, high = peer_stats.interval(values)
        self.assertEqual((low, high), peer_stats.interval(values))
        self.assertTrue(0.9 <= low <= 1.075 <= high <= 5.0, (low, high))
        self.assertEqual(peer_stats.interval([1.0, 1.0, 1.0]), (1.0, 1.0))
        self.assertEqual(peer_stats.interval([1.0]), (None, None))

    def test_ratios_are_taken_within_rounds_that_both_have(self):
        self.assertEqual(peer_stats.paired({0: 10, 1: 20, 2: 30}, {0: 5, 2: 10, 3: 1}), [2, 3])

    def test_void_cells_do_not_count(self):
        row = {"peer": "a", "contract": "A1", "workers": 1, "img_s": 5}
        cells = [
            dict(row, round=0),
            dict(row, round=1, void="broken"),
            dict(row, round=2, workers=2)
        ]
        self.assertEqual(peer_stats.by_round(cells, "a", "A1", 1, "img_s"), {0: 5})

    def test_every_round_has_all_items_and_begins_further_on(self):
        items = list("abcdef")
        orders = [peer_stats.order_of_round(items, number, 3) for number in range(3)]
        self.assertTrue(all(sorted(order) == items for order in orders))
        self.assertEqual(orders[0], items)
        self.assertEqual(orders[1], list("bafedc"))
        self.assertEqual(orders[2], list("efabcd"))


class Boxes(unittest.TestCase):
    def test_drawn_boxes_lie_inside_and_keep_their_ratio(self):
        import random
        draw = random.Random(1)
        areas = []
        for _ in range(2000):
            x, y, w, h = adapter.draw_box(500, 375, draw)
            self.assertTrue(0 <= x <= 500 - w and 0 <= y <= 375 - h, (x, y, w, h))
            self.assertTrue(0.74 < w / h < 1.35, (w, h))
            areas.append(w * h / (500 * 375))
        self.assertTrue(0.40 < sum(areas) / len(areas) < 0.46, sum(areas) / len(areas))

    def test_an_image_that_no_box_fits_is_cropped_in_its_middle(self):
        import random
        self.assertEqual(adapter.draw_box(1000, 10, random.Random(1)), (493, 0, 13, 10))


class Arguments(unittest.TestCase):
    def check(self, script, *words):
        done = subprocess.run(
            [sys.executable, "-B", os.path.join(PEERS, script)] + list(words),
            capture_output=True,
            text=True,
            check=False,
            timeout=60)
        return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]

    def test_run_refuses_what_it_does_not_know(self):
        self.assertEqual(self.check("run", "--rounds", "0")[0], 2)
        self.assertIn("torch is not one of", self.check("run", "--peers", "torch")[1])
        self.assertIn("not a list of different numbers", self.check("run", "--workers", "1,1")[1])
        self.assertIn("--seconds", self.check("run", "--seconds", "nan")[1])

    def test_run_refuses_a_folder_without_photographs(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("holds 0 images", self.check("run", "--data", folder)[1])
        self.assertIn("is no folder", self.check("run", "--data", folder)[1])

    def test_setup_refuses_what_is_no_commit(self):
        with tempfile.TemporaryDirectory() as tree:
            shutil.copytree(PEERS, os.path.join(tree, "bench", "peers"))
            setup = os.path.join(tree, "bench", "peers", "setup")
            done = subprocess.run([setup, "--before", "none"],
                                  capture_output=True,
                                  text=True,
                                  check=False,
                                  timeout=60,
                                  env=dict(os.environ,
                                           GIT_CEILING_DIRECTORIES=os.path.dirname(tree)))
            self.assertEqual(done.returncode, 1)
            self.assertIn("before: missing: none is not a commit of this repository", done.stdout)
            self.assertEqual(
                subprocess.run([setup, "--before"], capture_output=True, check=False).returncode, 2)

    def test_adapters_refuse_what_they_do_not_know(self):
        self.assertIn("--workers 0", self.check("peer_dali.py", "--data", "x", "--workers", "0")[1])
        self.assertIn("--contract",
                      self.check("peer_spdl.py", "--data", "x", "--contract", "A9")[1])
        self.assertIn("u8 only", self.check("peer_spdl.py", "--data", "x", "--contract", "A2")[1])
        self.assertIn("one fixed order",
                      self.check("peer_dali.py", "--data", "x", "--contract", "A5")[1])
        self.assertIn("f32 only", self.check("peer_turboloader.py", "--data", "x")[1])
        self.assertIn("--workers 999 is above",
                      self.check("peer_turboloader.py", "--data", "x", "--contract", "A2",
                                 "--workers", "999")[1])
        self.assertIn("usage", self.check("peer_torch.py")[1])
        self.assertIn("--workers", self.check("gpu", "--workers", "4,x")[1])
        self.assertIn("needs --photos", self.check("gpu", "--build")[1])


class StandardTables(unittest.TestCase):
    """bench/peers/standard_tables; lines of sh play djpeg and cjpeg."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.photos, self.out = os.path.join(self.folder,
                                             "photos"), os.path.join(self.folder, "out")
        for name in ("a/x.jpg", "a b/y.JPEG", "a/notes.txt"):
            place = os.path.join(self.photos, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="ascii") as file:
                file.write(name)
        for name, line in (("djpeg", 'cp "$3" "$2"'), ("cjpeg",
                                                       'echo "$1 $2 $3 $4 $(cat "$7")" >"$6"')):
            with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n%s\n" % line)
            os.chmod(os.path.join(self.folder, name), 0o755)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def encode(self, *words):
        path = "%s:%s" % (self.folder, os.environ["PATH"])
        return subprocess.run([os.path.join(PEERS, "standard_tables")] + list(words),
                              capture_output=True,
                              text=True,
                              check=False,
                              timeout=60,
                              env=dict(os.environ, PATH=path))

    def test_photographs_are_encoded_again_under_their_names(self):
        done = self.encode(self.photos, self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = {os.path.relpath(os.path.join(base, name), self.out)
                 for base, _, some in os.walk(self.out) for name in some}
        self.assertEqual(found, {"a/x.jpg", "a b/y.JPEG"})
        with open(os.path.join(self.out, "a b", "y.JPEG"), encoding="ascii") as file:
            self.assertEqual(file.read(), "-quality 90 -sample 2x2 a b/y.JPEG\n")

    def test_a_half_folder_is_never_taken_for_a_whole(self):
        with open(os.path.join(self.folder, "cjpeg"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 1\n")
        self.assertNotEqual(self.encode(self.photos, self.out).returncode, 0)
        self.assertFalse(os.path.exists(self.out))
        self.assertIn("exists", self.encode(self.photos, self.photos).stderr)
        self.assertIn("is no folder", self.encode(self.folder + "/none", self.out).stderr)
        self.assertEqual(self.encode(self.photos).returncode, 2)


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.log = os.path.join(self.folder, "log")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_fake(self, way, limit_s=60, contract="A1"):
        command = [
            write_fake(self.folder, way), "--data",
            os.path.join(self.folder, "data"), "--seconds", "0.3", "--contract", contract
        ]
        facts = cell.Cell(command, self.log, limit_s).run()
        cell.check_facts(facts, contract, LABELS)
        return facts

    def void_of(self, *arguments, **more):
        with self.assertRaises(cell.CellError) as caught:
            self.run_fake(*arguments, **more)
        return str(caught.exception)

    def test_cell_has_times_and_memory_of_its_process(self):
        facts = self.run_fake("", contract="A2")
        self.assertGreaterEqual(facts["done"]["seconds"], 0.3)
        self.assertEqual(facts["done"]["images"] % 64, 0)
        self.assertGreater(facts["first_s"], 0)
        self.assertGreater(facts["pss_bytes"], 1e6)

    def test_cpu_of_children_that_ended_counts(self):
        facts = self.run_fake("child")
        self.assertGreaterEqual(facts["cpu_s"], 0.25)

    def test_cell_is_void_with_the_last_words_of_its_process(self):
        self.assertIn("this peer is broken", self.void_of("dies"))
        self.assertIn("hello", self.void_of("garbage"))

    def test_cell_that_hangs_ends_and_leaves_no_process(self):
        self.assertIn("not done after", self.void_of("hangs", limit_s=10))
        with open(os.path.join(self.folder, "data"), encoding="ascii") as file:
            child = int(file.read())
        self.assertNotIn(child, cell.read_processes())

    def test_process_of_a_runner_that_is_killed_dies(self):
        words = (
            "import sys, time; sys.path.insert(0, %r); import cell; "
            "print(cell.Cell(['sleep', '600'], '/dev/null', 600).process.pid, flush=True); "
            "time.sleep(600)"
        )
        with subprocess.Popen([sys.executable, "-B", "-c", words % os.path.dirname(cell.__file__)],
                              stdout=subprocess.PIPE) as runner:
            child = int(runner.stdout.readline())
            runner.kill()
        until = time.monotonic() + 10
        while cell.read_processes().get(child) and time.monotonic() < until:
            try:
                os.waitpid(child,
                           os.WNOHANG)  # orphans come to this process where it has asked for them
            except ChildProcessError:
                pass
            time.sleep(0.05)
        self.assertNotIn(child, cell.read_processes())

    def test_cell_is_void_when_it_did_other_work(self):
        self.assertIn("float64", self.void_of("dtype"))
        self.assertIn("not shuffled", self.void_of("sorted"))
        self.assertIn("an image twice", self.void_of("twice"))

    def test_facts_of_less_work_are_refused(self):
        done = {
            "failed": 0, "images": 64, "seconds": 1.0, "dtype": "uint8", "shape": [64, 224, 224, 3],
            "labels": LABELS[::-1] + LABELS[64:] + LABELS[:64], "warm_epochs": 2,
            "exact_epochs": True
        }
        cell.check_facts({"done": done}, "A1", LABELS)
        for change, words in (({"failed": 1}, "1 images failed"), ({"images": 0}, "no images"),
                              ({"labels": LABELS}, "128 labels in 2 epochs"),
                              ({"labels": 2 * LABELS[::-1]}, "the same order")):
            with self.assertRaisesRegex(cell.CellError, words):
                cell.check_facts({"done": dict(done, **change)}, "A1", LABELS)
        with self.assertRaisesRegex(cell.CellError, "batches are"):
            cell.check_facts({"done": dict(done, dtype="float32")}, "A2", LABELS)


class Profile(unittest.TestCase):
    """bench/profile, on lines like those of perf script."""

    def setUp(self):
        self.profile = load_script(os.path.join(ROOT, "bench", "profile"), "profile_script")

    def test_samples_are_counted_by_process_and_function(self):
        text = "\n".join([
            "perf-exec    10  ffffffff8100 do_exec ([kernel.kallsyms])",
            "millrace bench 10  55d0 mr_loader_next (/a b/libmillrace.so)",
            "mr worker 0    11  55d1 decode_mcu (/lib/libjpeg.so.62)",
            "mr worker 0    11  55d1 decode_mcu (/lib/libjpeg.so.62)",
            "mr worker 0    11  55d2 jsimd_idct_islow_avx2.columnDCT (/lib/libjpeg.so.62)",
            "mr worker 0    11  ffffffff8200 copy_to_iter ([kernel.kallsyms])",
            "mr worker 1    12  55d3 [unknown] (/memfd:millrace-worker (deleted))", "",
            "not a sample"
        ])
        samples, host = self.profile.read_samples(text)
        self.assertEqual(host, 10)
        counts = self.profile.count(samples, host)
        self.assertEqual({name: sum(symbols.values()) for name, symbols in counts.items()},
                         {"host process": 2, "entropy decoding": 2, "IDCT": 1, "kernel": 1,
                          "the rest of the workers": 1})
        with self.assertRaisesRegex(self.profile.ProfileError, "nothing"):
            self.profile.read_samples("perf: no samples")

    def test_functions_are_in_their_groups(self):
        groups = {
            "decode_mcu_fast": "entropy decoding",
            "jsimd_ycc_rgb_convert_avx2": "colour and upsampling",
            "jsimd_h2v2_fancy_upsample_avx2": "colour and upsampling",
            "horizontal_avx512": "resampling, horizontal",
            "mr_resample_vertical_row_avx2": "resampling, vertical",
            "mr_tensor_write_planes_avx512": "storing",
            "mr_tile_expand_dct_avx2": "expanding tiles", "mr_scan_store_avx2": "entropy decoding",
            "mr_scan_skip_c": "entropy decoding", "mr_jpeg_scan_store": "entropy decoding",
            "fill_window": "entropy decoding", "mr_scan_lanes_avx2": "entropy decoding",
            "mr_jpeg_marks_parse": "entropy decoding", "continue_lane": "entropy decoding",
            "mr_scan_table_make_ac": "entropy decoding", "transform_component": "IDCT",
            "jpeg_read_header": "JPEG headers and set-up",
            "mr_axis_fill_avx512": "resampling, tables and rows", "malloc": "memory",
            "mr_worker_run": "the rest of the workers"
        }
        for symbol, group in groups.items():
            self.assertEqual(self.profile.group_of((2, symbol, False), 1), group, symbol)

    def test_a_machine_without_perf_is_told_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([
                sys.executable, "-B",
                os.path.join(ROOT, "bench", "profile"), folder, "--no-build", "--out",
                os.path.join(folder, "out")
            ],
                                  capture_output=True,
                                  text=True,
                                  check=False,
                                  env={"PATH": folder},
                                  timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("perf is not installed", done.stderr)
            self.assertEqual(os.listdir(folder), [])


def make_result():
    """Two rounds of two rows, one of them void once; a third is missing."""
    rows = []
    for number in (0, 1):
        for peer, speed in (("ours", 1000.0), ("torch_pillow", 180.0)):
            for contract in ("A1", "A2"):
                row = {"round": number, "peer": peer, "contract": contract, "workers": 2}
                if (number, peer, contract) == (1, "torch_pillow", "A1"):
                    row["void"] = "a | bar"
                else:
                    row.update(img_s=speed + number,
                               cpu_s_per_1000=1000 / speed,
                               first_s=0.1,
                               pss_mb=50.0)
                rows.append(row)
    titles = {"ours": "millrace", "torch_pillow": "PyTorch", "dali": "DALI"}
    peers = {name: {"title": title, "missing": None, "contracts": ["A1", "A2"], "reads": "photos"}
             for name, title in titles.items()}
    peers["dali"]["missing"] = "no network"
    machine = {"cpu": "c", "cpus": 2, "cores": [0, 1], "memory_mb": 1, "system": "s", "commit": "x"}
    return {
        "schema": "millrace-peers/1", "date": "2026-01-01T00:00:00", "command": "bench/peers/run",
        "machine": machine, "data": {"name": "d", "images": 128, "bytes": 1,
                                     "sum": "0"}, "peers": peers,
        "settings": {"rounds": 2, "seconds": 1, "contracts": ["A1", "A2"],
                     "workers": [2]}, "cells": rows
    }


class Reports(unittest.TestCase):
    def test_missing_peers_and_void_cells_stay_in_the_table(self):
        text = peer_report.markdown(make_result(), [])
        self.assertIn("| DALI | missing: no network |", text)
        self.assertIn("1 void: a \\| bar", text)
        self.assertIn("Not complete", text)

    def test_aims_are_met_missed_or_not_measured(self):
        found = {(row["against"], row["contract"], row["field"]): row["met"]
                 for row in peer_report.check_targets(make_result()) if row["of"] == "ours"}
        self.assertIs(found["torch_pillow", "A2", "img_s"], True)
        self.assertIs(found["fastest", "A1", "first_s"], False)
        self.assertIsNone(found["dali", "A1", "img_s"])

    def test_a_row_that_cannot_take_part_says_why(self):
        result = make_result()
        result["settings"]["contracts"] = ["A3"]
        result["peers"]["dali"].update(missing=None,
                                       contracts=["A1"],
                                       cannot={"A3": "it draws nothing"})
        text = peer_report.markdown(result, [])
        self.assertIn("| DALI | missing: it draws nothing |", text)
        self.assertNotIn("A1: u8", text)

    def test_an_aim_may_compare_two_contracts_of_one_row(self):
        result = make_result()
        result["settings"]["contracts"] = ["A2", "A3"]
        result["cells"] += [
            dict(row, contract="A3", img_s=row["img_s"] * 0.96) for row in result["cells"]
            if row["peer"] == "ours" and row["contract"] == "A2"
        ]
        found = {(row["against"], row["contract"]): row for row in peer_report.check_targets(result)
                 if row["of"] == "ours"}
        self.assertAlmostEqual(found["ours", "A3/A2"]["ratio"]["median"], 0.96)
        self.assertIs(found["ours", "A3/A2"]["met"], True)
        self.assertIsNone(found["torch_pillow", "A3"]["met"])
        self.assertNotIn(("ours", "A4/A2"), found)
        self.assertIn("| millrace | A3/A2 | img/s | 0.960", peer_report.markdown(result, []))

    def test_compare_finds_what_became_slower(self):
        compare = load_script(os.path.join(ROOT, "bench", "compare"), "compare")
        slow = make_result()
        for row in slow["cells"]:
            if row["peer"] == "ours":
                row["img_s"] /= 2
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("old", "new", "cases", "broken")]
            for path, result in zip(paths,
                                    (make_result(), slow, {"program": "p", "cases": []}, [1])):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(result, file)
            ratios = dict(compare.compare(paths[0], paths[1])[2])
            self.assertAlmostEqual(ratios["ours A1 2, img_s"], 0.5)
            self.assertAlmostEqual(ratios["torch_pillow A1 2, img_s"], 1.0)
            self.assertAlmostEqual(ratios["ours / torch_pillow A2 2"], 0.5)
            codes = [
                subprocess.run(
                    [sys.executable, os.path.join(ROOT, "bench", "compare")] + words,
                    check=False,
                    capture_output=True).returncode
                for words in ([paths[0], paths[0], "--fail-below", "0.99"],
                              [paths[0], paths[1], "--fail-below", "0.9"], [paths[0], paths[1]],
                              [paths[0], paths[2]], [paths[0], paths[3]],
                              [paths[0], folder + "/none"])
            ]
            self.assertEqual(codes, [0, 1, 0, 2, 2, 2])


class WholeRun(unittest.TestCase):
    """bench/peers/run in a separate tree with millrace only, which a script plays."""

    def setUp(self):
        self.tree = tempfile.mkdtemp()
        shutil.copytree(PEERS, os.path.join(self.tree, "bench", "peers"))
        programs = os.path.join(self.tree, "build", "peers", "millrace", "bench")
        os.makedirs(programs)
        write_fake(programs, name="millrace-bench-ours")
        self.data = os.path.join(self.tree, "data")
        for i in LABELS:
            os.makedirs(os.path.join(self.data, "%03d" % i))
            with open(os.path.join(self.data, "%03d" % i, "x.jpg"), "wb") as file:
                file.write(b"\xff\xd8")
        self.out = os.path.join(self.tree, "out")

    def tearDown(self):
        shutil.rmtree(self.tree)

    def start(self, *words):
        command = [
            sys.executable, "-B",
            os.path.join(self.tree, "bench", "peers", "run"), "--no-build", "--data", self.data
        ] + list(words)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def read(self):
        with open(self.out + ".json", encoding="utf-8") as file:
            return json.load(file)

    def await_cell(self, process):
        for _ in range(600):
            if process.poll() is not None or (os.path.exists(self.out + ".json")
                                              and self.read()["cells"]):
                return
            time.sleep(0.05)

    def test_interrupted_run_goes_on_where_it_was(self):
        process = self.start("--rounds", "2", "--seconds", "0.2", "--workers", "1", "--contracts",
                             "A1", "--peers", "ours,dali,light_roi", "--out", self.out)
        self.await_cell(process)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, errors)
        before = self.read()["cells"]
        self.assertTrue(1 <= len(before) < 2, len(before))
        process = self.start("--resume", self.out + ".json")
        text, errors = process.communicate(timeout=120)
        self.assertEqual((process.returncode, errors), (0, ""), text)
        result = self.read()
        self.assertEqual([row["round"] for row in result["cells"]], [0, 1])
        self.assertEqual(result["cells"][0], before[0])
        self.assertTrue(result["complete"])
        self.assertIn("| DALI CPU | missing: bench/peers/setup --only dali has not been run |",
                      text)
        self.assertIn("| ROI decode alone | missing:", text)

    def run_index(self, packer):
        """The rows ours_index and ours_before; a line of sh is the packer. Returns the result."""
        path = os.path.join(self.tree, "build", "peers", "millrace", "tools", "millrace")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n%s\n" % packer)
        os.chmod(path, 0o755)
        process = self.start("--rounds", "1", "--seconds", "0.2", "--workers", "1", "--contracts",
                             "A1", "--peers", "ours_index,ours_before", "--out", self.out)
        text, errors = process.communicate(timeout=120)
        self.assertEqual((process.returncode, errors), (0, ""), text)
        return text, [cell["peer"] for cell in self.read()["cells"]]

    def test_index_is_a_pack_that_has_marks(self):
        text, rows = self.run_index('mkdir "$3"; touch "$3/index"')
        self.assertIn("| millrace, index | missing: its file could not be made: index_pack |", text)
        self.assertIn(
            "| millrace before | missing: bench/peers/setup --before COMMIT has not been run |",
            text)
        self.assertEqual(rows, [])
        programs = os.path.join(self.tree, "build", "peers", "before")
        os.makedirs(os.path.join(programs, "bench"))
        write_fake(os.path.join(programs, "bench"), name="millrace-bench-ours")
        with open(programs + ".commit", "w", encoding="ascii") as file:
            file.write("abc1234\n")
        text, rows = self.run_index(
            '[ "$1 $4 $5 $6 $7" = "pack --workers 1 --encoding jpeg" ] && mkdir "$3" && '
            'touch "$3/index" "$3/marks"')
        self.assertEqual(sorted(rows), ["ours_before", "ours_index"])
        self.assertIn("before at abc1234", text)


@unittest.skipIf(len(PROGRAMS) < 3, "needs our programs")
class OurPrograms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.data = os.path.join(self.folder, "data")
        subprocess.run([PROGRAMS[2], self.data, "3", "50"], check=True, stdout=subprocess.DEVNULL)
        self.labels = []
        for label, name in enumerate(sorted(os.listdir(self.data))):
            for file in os.listdir(os.path.join(self.data, name)):
                if file.endswith(".png"):
                    os.remove(os.path.join(self.data, name, file))
                else:
                    self.labels.append(label)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_cell(self, program, contract, *words):
        log = os.path.join(self.folder, "log")
        command = [program, "--data", self.data, "--seconds", "0.3", "--workers", "1"] + list(words)
        facts = cell.Cell(command, log, 60).run()
        cell.check_facts(facts, contract, self.labels)
        return facts

    def test_our_rows_do_the_work_of_their_contracts(self):
        for contract in peer_contracts.NAMES:
            facts = self.run_cell(PROGRAMS[0], contract, "--contract", contract)
            self.assertGreater(facts["pss_bytes"], 1e6)
            self.assertEqual(len(facts["done"]["gaps"]) * 64, facts["done"]["images"])

    def test_speed_of_light_decodes_every_photograph(self):
        for words in ([], ["--full"]):
            facts = self.run_cell(PROGRAMS[1], None, *words)
            self.assertEqual(facts["done"]["images"] % len(self.labels), 0)
            self.assertNotIn("first_s", facts)

    def test_damaged_photographs_make_a_cell_void(self):
        with open(os.path.join(self.data,
                               sorted(os.listdir(self.data))[0], "broken.jpg"), "wb") as file:
            file.write(b"\xff\xd8\xff")
        for program in PROGRAMS[:2]:
            with self.assertRaisesRegex(cell.CellError, "ended with status 1"):
                self.run_cell(program, "A1")


if __name__ == "__main__":
    cell.inherit_orphans()
    unittest.main(argv=sys.argv[:1])
