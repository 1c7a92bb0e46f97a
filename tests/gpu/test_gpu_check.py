#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/gpu-check on the double of CUDA: what an interrupted run leaves, and how it continues.

test_gpu_check.py ROOT TREE [--all]. TREE: a build tree with gpu_check_double. A script replaces the
program and stops in the part that a test names, so that the test can kill the run there. With --all
every part that the double can run is run; without, the long ones are simulated.
"""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT, TREE = (os.path.abspath(path) for path in sys.argv[1:3])
ALL = "--all" in sys.argv
FIRST = ["register", "start", "contract_brief", "h2d_brief", "order_brief", "torch"]
PARTS = ["facts"] + FIRST + [
    "contract", "order", "order_8", "order_1", "graph", "own_cudart", "h2d", "overlap",
    "h2d_overlap", "step", "step_default", "memcheck", "initcheck", "nccl", "train"
]
SHORT = "facts register start contract_brief h2d_brief"  # seconds together

# Replaces gpu_check, gpu_own_cudart and gpu_torch.py. The name of the log gives the part.
IN_FRONT = """#!/bin/sh
log=$(readlink /proc/$$/fd/1)
part=${log##*/running-}
part=${part%.log}
echo "$part" >>"$TEST_FOLDER/journal"
case $part in
"$TEST_STOP")
    echo "pass | a case before the end"
    echo $$ >"$TEST_FOLDER/pid.half"
    mv "$TEST_FOLDER/pid.half" "$TEST_FOLDER/pid"
    exec sleep 1000 ;;
"$TEST_FAIL")
    echo "fail | a case"
    exit 3 ;;
"$TEST_SKIP")
    echo "skip | all | nothing to run it with"
    exit 77 ;;
torch | own_cudart) ;;
*)
    case " $TEST_REAL " in
    *" $part "* | *" all "*) exec "${0%/*}/real_gpu_check" "$@" ;;
    esac ;;
esac
[ "$part" != facts ] || echo "gpu | a played GPU"
echo "pass | played"
"""
TORCH = ("import os, sys\n"
         "os.execv(os.environ['TEST_FOLDER'] + '/in_front', ['in_front'] + sys.argv[1:])\n")
SANITIZER = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift 2; done\nexec \"$@\"\n"


def write(path, text, packed=False):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with (gzip.open if packed else open)(path, "wt", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class CheckThatIsCutOff(unittest.TestCase):
    """The folder is built once; each test has its own results."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.carried = os.path.join(cls.folder, "carried")
        os.mkdir(os.path.join(cls.folder, "unpacked"))  # left by killed runs
        subprocess.run([
            os.path.join(ROOT, "script", "gpu-check"), "--build", cls.carried, "--double", "--from",
            TREE
        ],
                       check=True,
                       stdout=subprocess.DEVNULL)
        program = os.path.join(cls.carried, "bin", "gpu_check.gz")
        os.rename(program, os.path.join(cls.carried, "bin", "real_gpu_check.gz"))
        for name in ("gpu_check.gz", "gpu_own_cudart.gz"):
            write(os.path.join(cls.carried, "bin", name), IN_FRONT, packed=True)
        for name in ("libmillrace-nccl.so.gz",
                     "train_cifar10.gz"):  # a build without them: then these parts are simulated
            if not os.path.exists(os.path.join(cls.carried, "bin", name)):
                write(os.path.join(cls.carried, "bin", name), "", packed=True)
        write(os.path.join(cls.carried, "python", "gpu_torch.py"), TORCH)
        write(os.path.join(cls.folder, "in_front"), IN_FRONT)
        write(os.path.join(cls.folder, "tools", "compute-sanitizer"), SANITIZER)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.out = os.path.join(self.folder, "out")
        self.journal = os.path.join(self.folder, "journal")
        self.pid_file = os.path.join(self.folder, "pid")

    def tearDown(self):
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.rmtree(os.path.join(self.folder, "unpacked"))
        os.mkdir(os.path.join(self.folder, "unpacked"))
        for path in (self.journal, self.pid_file):
            if os.path.exists(path):
                os.remove(path)

    def start(self, *words, stop="", fail="", skip="", real=""):
        environment = dict(os.environ,
                           TEST_FOLDER=self.folder,
                           TEST_STOP=stop,
                           TEST_FAIL=fail,
                           TEST_SKIP=skip,
                           TEST_REAL=real,
                           PYTHON=sys.executable,
                           MR_CUDA_DOUBLE="devices=2",
                           TMPDIR=os.path.join(self.folder, "unpacked"),
                           PATH=os.path.join(self.folder, "tools") + ":" + os.environ["PATH"])
        return subprocess.Popen([os.path.join(self.carried, "gpu-check"), "--out", self.out] +
                                list(words),
                                text=True,
                                env=environment,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def run_to_end(self, *words, **how):
        process = self.start(*words, **how)
        text, _ = process.communicate(timeout=600)
        return process.returncode, text

    def await_stop(self, process):
        """Wait until the run is inside the part, and return the stopped program."""
        while not os.path.exists(self.pid_file):
            self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(0.02)
        with open(self.pid_file, encoding="ascii") as file:
            pid = int(file.read())
        os.remove(self.pid_file)
        return pid

    def rows(self):
        """The second field of each row of the table of parts.

        Also asserts that the report is complete, by its last section.
        """
        with open(os.path.join(self.out, "gpu-check.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| part | figure | median |", text)
        return dict(
            re.findall(r"^\| (\w+) \| (.*?) \|",
                       text.split("| part | result |")[1].split("\n\n")[0], re.M))

    def logs(self):
        with tarfile.open(os.path.join(self.out, "gpu-check-logs.tar.gz")) as archive:
            return {
                os.path.basename(item.name)[:-len(".log")]: archive.extractfile(
                    item).read().decode() for item in archive if item.name.endswith(".log")
            }

    def ran(self):
        with open(self.journal, encoding="ascii") as file:
            return file.read().split()

    def test_killed_inside_every_part_it_has_the_parts_before_and_continues(self):
        real = "all" if ALL else SHORT
        ran = []
        for i, part in enumerate(PARTS):
            process = self.start(*(["--resume"] if i else []), stop=part, real=real)
            program = self.await_stop(process)
            process.kill()
            process.communicate()
            os.kill(program, signal.SIGKILL)
            ran += ["facts"] + PARTS[max(1, i - 1):i + 1]
            self.assertEqual(self.ran(), ran)
            rows, logs = self.rows(), self.logs()
            self.assertTrue(rows[part].startswith("**running**"), (part, rows))
            self.assertEqual([rows[name] for name in PARTS[1:i]], ["passed"] * len(PARTS[1:i]),
                             part)
            self.assertEqual([name for name in PARTS[1:i] if "pass | " not in logs.get(name, "")],
                             [], part)
            with open(os.path.join(self.out, "running-%s.log" % part), encoding="ascii") as file:
                self.assertEqual(file.read(), "pass | a case before the end\n")
            self.assertLessEqual(len(os.listdir(self.out)),
                                 5)  # the last two may be incomplete
        status, text = self.run_to_end("--resume", real=real)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.rows(), dict.fromkeys(PARTS, "passed"))
        self.assertEqual(sorted(os.listdir(self.out)), ["gpu-check-logs.tar.gz", "gpu-check.md"])
        self.assertEqual(self.ran(), ran + ["facts", PARTS[-1]])

    def test_part_that_hangs_takes_its_limit_and_stops_no_other_part(self):
        parts = "start,h2d_brief,order_brief"
        status, text = self.run_to_end("--parts", parts, "--limit", "10", stop="h2d_brief")
        self.assertEqual((status, self.rows()), (1, {
            "facts": "passed", "start": "passed", "h2d_brief": "**failed**: longer than 10 s",
            "order_brief": "passed"}))
        self.assertIn("a case before the end", self.logs()["h2d_brief"])
        self.assertIn("failed: h2d_brief\n", text)
        os.remove(self.journal)
        status, text = self.run_to_end("--parts", parts, "--resume")
        self.assertEqual((status, set(self.rows().values())), (0, {"passed"}), text)
        self.assertEqual(self.ran(), ["facts", "h2d_brief"])

    @unittest.skipUnless(ALL, "waits for a deadline")
    def test_part_that_hangs_until_the_deadline_is_cut_off(self):
        status, text = self.run_to_end("--parts",
                                       "start,h2d_brief,order_brief",
                                       "--deadline",
                                       "40",
                                       stop="h2d_brief")
        rows = self.rows()
        self.assertEqual((status, rows["start"], rows["order_brief"]),
                         (1, "passed", "not run: no time was left"))
        self.assertRegex(rows["h2d_brief"], r"^\*\*cut off\*\* by the deadline, after \d+ s$")
        self.assertIn("another call with --resume: h2d_brief order_brief\n", text)

    def test_nothing_begins_after_the_deadline(self):
        status, text = self.run_to_end("--parts", "start", "--deadline", "6")
        self.assertEqual((status, set(self.rows().values())), (1, {"not run: no time was left"}),
                         text)
        self.assertFalse(os.path.exists(self.journal))

    def test_run_that_is_ended_has_the_log_of_its_part_in_its_results(self):
        process = self.start("--parts", "start,graph", stop="start")
        program = self.await_stop(process)
        process.terminate()
        text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, text)
        self.assertEqual(self.rows(), {
            "facts": "passed", "start": "**cut off**: the script was ended", "graph": "not run yet"
        })
        self.assertEqual(self.logs()["start"], "pass | a case before the end\n")
        self.assertRaises(ProcessLookupError, os.kill, program, 0)

    def test_failed_and_skipped_parts_do_not_stop_the_others(self):
        status, text = self.run_to_end("--parts", "first", fail="start", skip="torch")
        rows = self.rows()
        self.assertEqual((status, rows.pop("start"), rows.pop("torch")),
                         (1, "**failed**, exit status 3", "not run: all : nothing to run it with"),
                         text)
        self.assertEqual(set(rows.values()), {"passed"})
        self.assertNotIn("torch", text.split("failed: ")[1])

    def test_without_a_gpu_nothing_else_runs(self):
        status, text = self.run_to_end(fail="facts")
        self.assertEqual((status, self.ran()), (1, ["facts"]), text)
        self.assertIn("no GPU that this build can use", text)

    def test_run_that_begins_again_does_not_change_earlier_results(self):
        self.run_to_end("--parts", "start")
        with open(os.path.join(self.out, "gpu-check.md"), encoding="utf-8") as file:
            earlier = file.read()
        self.run_to_end("--parts", "graph")
        self.assertEqual(self.rows(), {"facts": "passed", "graph": "passed"})
        kept = [name for name in os.listdir(self.out) if name.startswith("until-")]
        self.assertEqual(sorted(name[len("until-000000-"):] for name in kept),
                         ["gpu-check-logs.tar.gz", "gpu-check.md"])
        with open(os.path.join(self.out, max(kept, key=lambda name: name.endswith("md"))),
                  encoding="utf-8") as file:
            self.assertEqual(file.read(), earlier)

    def test_device_stays_open_from_the_beginning_to_the_end(self):
        process = self.start("--parts", "start", stop="start")
        program = self.await_stop(process)
        held = [
            os.readlink("/proc/%d/fd/%s" % (process.pid, fd))
            for fd in os.listdir("/proc/%d/fd" % process.pid)
        ]
        os.kill(program, signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertIn(os.path.join(self.carried, "double"), held)

    def test_facts_name_no_folder_of_the_machine_that_built(self):
        other = os.path.join(self.folder, "other")
        subprocess.run([
            os.path.join(ROOT, "script", "gpu-check"), "--build", other, "--double", "--from", TREE,
            "--photos",
            os.path.join(self.carried, "photos")
        ],
                       check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(other, "facts"), encoding="utf-8") as file:
            self.assertIn("fact | pictures | 150, carried along\n", file)

    def test_unknown_part_is_refused_with_a_message(self):
        status, text = self.run_to_end("--parts", "first,setp")
        self.assertEqual(status, 2)
        self.assertIn("no part is called setp; first: register", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
