# SPDX-License-Identifier: Apache-2.0
"""One cell of bench/peers: a fresh process, its marks, and what its process tree used.

The process prints a mark (adapter.py, ours.c), waits while the runner reads its process tree, and
continues when the runner answers. CPU time is the tree's at the end of the measured time minus that
at its beginning; the time of a process that has ended stays in the sums of the parent that waited
for it. Memory is read only before and after the measured time, because reading smaps_rollup walks
page tables and would slow down processes with large ones. Processes whose parent has died belong to
the tree too, so the runner becomes their parent.
"""

import collections
import ctypes
import json
import os
import select
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
RUNNER = os.getpid()
WEIGH_EVERY = 0.2  # seconds
WEIGH_AFTER = 1.0  # seconds after the measured time
TICK = os.sysconf("SC_CLK_TCK")


class CellError(Exception):
    """Why a cell is void."""


def inherit_orphans():
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_runner():
    """In the child: die with the runner, because a killed runner cannot end its cells."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != RUNNER:
        os._exit(1)  # it died before the call above


def read_processes(proc="/proc"):
    """pid: (parent, CPU seconds including those of children that it has waited for)."""
    found = {}
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open("%s/%s/stat" % (proc, entry), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue  # the process ended meanwhile
        fields = text[text.rindex(")") + 2:].split()
        found[int(entry)] = (int(fields[1]), sum(int(field) for field in fields[11:15]) / TICK)
    return found


def descendants(processes, root):
    """All processes below root, without root."""
    children = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found, left = [], list(children.get(root, []))
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def tree_cpu(root):
    processes = read_processes()
    return sum(processes[pid][1] for pid in descendants(processes, root))


def tree_pss(root, proc="/proc"):
    """PSS in bytes: each page is divided by the number of processes that share it."""
    total = 0
    for pid in descendants(read_processes(proc), root):
        try:
            with open("%s/%d/smaps_rollup" % (proc, pid), encoding="ascii",
                      errors="replace") as file:
                total += sum(
                    int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def end_tree(process):
    """Kill every process of the cell, and wait for them."""
    process.kill()
    process.wait()
    for _ in range(100):
        left = descendants(read_processes(), os.getpid())
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                continue  # it has ended, or its parent is still ending
        if not left:
            return
        time.sleep(0.02)


class Cell:
    """A process and the marks exchanged with it."""

    def __init__(self, command, log, limit_s, env=None):
        self.facts = {}
        self.peak = 0
        self.log = log
        self.buffer = b""
        self.phase = "start"
        self.cpu_begin = None
        with open(log, "wb") as errors:
            self.begun = time.monotonic()
            self.process = subprocess.Popen(command,
                                            stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE,
                                            stderr=errors,
                                            env=env,
                                            start_new_session=True,
                                            preexec_fn=die_with_runner)
        self.deadline = self.begun + limit_s

    def run(self):
        """The facts of the cell; raises CellError."""
        try:
            while not self.facts.get("done"):
                line = self.next_line()
                if line is None:
                    raise CellError(self.last_words())
                self.hear(line)
            self.facts["done"].pop("mark")
            return self.facts
        finally:
            end_tree(self.process)
            self.process.stdin.close()
            self.process.stdout.close()

    def next_line(self):
        while b"\n" not in self.buffer:
            pause = WEIGH_EVERY if self.phase in ("first", "end") else 1.0
            if select.select([self.process.stdout], [], [], pause)[0]:
                part = os.read(self.process.stdout.fileno(), 65536)
                if not part:
                    return None
                self.buffer += part
                continue
            if time.monotonic() > self.deadline:
                raise CellError("not done after %.0f s, in phase %s" %
                                (time.monotonic() - self.begun, self.phase))
            if self.phase in ("first", "end"):
                self.weigh()
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def hear(self, line):
        try:
            fact = json.loads(line)
            mark = fact["mark"]
        except (ValueError, KeyError, TypeError):
            raise CellError("said %r" % line[:100]) from None
        if mark == "done":
            self.facts["done"] = fact
            return
        if mark == "first":
            self.facts["first_s"] = fact["t"] - self.begun
        elif mark == "begin":
            if self.phase == "first":
                self.weigh()
            self.cpu_begin = tree_cpu(os.getpid())
        elif mark == "end":
            self.facts["cpu_s"] = tree_cpu(os.getpid()) - (self.cpu_begin or 0.0)
            self.weigh_after()
        self.phase = mark
        self.answer()

    def weigh_after(self):
        """Meanwhile the process still makes batches, except in rows that only decode."""
        if "first_s" not in self.facts:
            return
        self.answer()
        until = time.monotonic() + WEIGH_AFTER
        while time.monotonic() < until:
            time.sleep(WEIGH_EVERY)
            self.weigh()
        self.facts["pss_bytes"] = self.peak

    def weigh(self):
        self.peak = max(self.peak, tree_pss(os.getpid()))

    def answer(self):
        try:
            self.process.stdin.write(b"on\n")
            self.process.stdin.flush()
        except OSError:
            raise CellError(self.last_words()) from None

    def last_words(self):
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        with open(self.log, "rb") as file:
            lines = file.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return "ended with status %s: %s" % (self.process.returncode,
                                             lines[-1][:200] if lines else "no output")


def check_facts(facts, contract, labels):
    """Raise CellError if a cell did not do its contract's work; labels has one per image."""
    done = facts["done"]
    if done.get("failed"):
        raise CellError("%d images failed" % done["failed"])
    if not done.get("images") or not done.get("seconds", 0) > 0:
        raise CellError("no images were measured")
    if contract is None:
        return
    shapes, dtype = [[64, 3, 224, 224]], "float32"
    if contract == "A1":
        shapes, dtype = shapes + [[64, 224, 224, 3]], "uint8"
    if done["dtype"] != dtype or done["shape"] not in shapes:
        raise CellError("batches are %s %s" % (done["dtype"], done["shape"]))
    check_order(done, labels)


def check_order(done, labels):
    """Each epoch must be complete, except for drop_last, and in a different order."""
    n = len(labels) // 64 * 64
    seen = done["labels"]
    if len(seen) != n * done["warm_epochs"]:
        raise CellError("%d labels in %d epochs of %d" % (len(seen), done["warm_epochs"], n))
    epochs = [seen[i:i + n] for i in range(0, len(seen), n)]
    if len(set(labels)) > 1 and any(epoch == sorted(epoch) for epoch in epochs):
        raise CellError("an epoch is not shuffled")
    if len(set(labels)) > 1 and any(a == b for a, b in zip(epochs, epochs[1:])):
        raise CellError("two epochs have the same order")
    if not done["exact_epochs"]:
        return
    if any(collections.Counter(epoch) - collections.Counter(labels) for epoch in epochs):
        raise CellError("an epoch has an image twice")
