# SPDX-License-Identifier: Apache-2.0
"""Separate programs: how they end, what they leave, and what a fork may do."""
import os
import signal
import subprocess
import sys
import time

import pytest

from millrace import _log

from support import run_python

PROLOGUE = """
import os, signal, sys, threading
import millrace as mr
loader = mr.Loader(sys.argv[1], "eval:20:16", batch_size=1, num_workers=2, n_slots=2)
print(*loader.worker_pids(), flush=True)
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def run_program(images):
    return lambda text: run_python(PROLOGUE + text, images)


def expect_no_workers(output):
    pids = [int(word) for word in output.splitlines()[0].split()]
    assert len(pids) == 2
    end = time.monotonic() + 30  # the kernel may take a moment
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < end, f"workers {left} are left"
        time.sleep(0.02)


@pytest.mark.parametrize("text, expected", [
    ("pass", 0),
    ("for batch in loader: pass", 0),
    ("for batch in loader: break", 0),
    ("kept = list(loader); loader = None", 0),
    ("sys.exit(3)", 3),
    ("for batch in loader: raise ValueError(batch)", 1),
    ("image = next(iter(loader)).image", 0),
    ("loader.self = loader; passes = iter(loader); next(passes)", 0),
    ("threading.Thread(target=lambda: [0 for batch in loader]).start()", 0),
    ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ("os._exit(4)", 4),
])
def test_every_end_of_a_program_ends_the_workers(run_program, text, expected):
    ended = run_program(text)
    assert ended.returncode == expected, ended.stderr
    if expected == 0:
        assert "Traceback" not in ended.stderr
    expect_no_workers(ended.stdout)


def test_a_daemon_thread_may_be_in_next_at_the_end(run_program):
    for _ in range(5):
        ended = run_program("""
def read():
    while True:
        try:
            loader.next()
        except mr.CanceledError:
            pass
        except mr.StateError:
            break
for pid in loader.worker_pids():
    os.kill(pid, signal.SIGSTOP)
threading.Thread(target=read, daemon=True).start()
threading.Event().wait(0.1)
""")
        assert (ended.returncode, ended.stderr) == (0, "")
        expect_no_workers(ended.stdout)


def test_ctrl_c_ends_a_wait_at_once(images):
    text = PROLOGUE + """
for pid in loader.worker_pids():
    os.kill(pid, signal.SIGSTOP)
try:
    while True:
        for batch in loader:
            print("batch", flush=True)
except KeyboardInterrupt:
    print("interrupted", loader.stats()["n_batches"] > 0, flush=True)
"""
    with subprocess.Popen([sys.executable, "-B", "-c", text, images],
                          stdout=subprocess.PIPE,
                          text=True) as program:
        first = program.stdout.readline()
        time.sleep(0.5)
        begin = time.monotonic()
        program.send_signal(signal.SIGINT)
        rest = program.communicate(timeout=30)[0]
        took = time.monotonic() - begin
    assert "interrupted" in rest
    assert program.returncode == 0
    assert took < 10  # slices are 50 ms; the machine may be busy
    expect_no_workers(first)


def test_a_forked_child_is_refused_with_words(run_program):
    ended = run_program("""
batch = loader.next()
before = batch.index.tolist()
held, forked = threading.Event(), threading.Event()
def hold():
    with loader._lock:
        held.set()
        forked.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()  # a lock is held at the fork
child = os.fork()
if child == 0:
    words = []
    for call in (loader.next, lambda: loader.set_epoch(1), loader.stats):
        try:
            call()
        except mr.StateError as error:
            words.append(str(error))
    assert len(words) == 3 and "forked child" in words[0], words
    assert batch.index.tolist() == before
    del batch
    loader.close()
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
forked.set()
holder.join()
assert batch.index.tolist() == before
assert loader.next() is not None
""")
    assert ended.returncode == 0, ended.stderr
    expect_no_workers(ended.stdout)


def test_a_child_makes_loaders_of_its_own(run_program):
    ended = run_program("""
child = os.fork()
if child == 0:
    own = mr.Loader(loader.dataset, "eval:20:16", batch_size=1, num_workers=1)
    assert sum(batch.size for batch in own) == 21
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")
    assert ended.returncode == 0, ended.stderr


def test_the_package_imports_little():
    ended = run_python("import millrace, sys; print(*sorted(sys.modules))")
    assert ended.returncode == 0, ended.stderr
    for name in ("numpy", "torch", "PIL", "multiprocessing"):
        assert name not in ended.stdout.split()


def test_the_command_is_the_librarys():
    command = os.environ["MR_COMMAND"]
    ended = subprocess.run([sys.executable, "-B", "-m", "millrace", "version"],
                           capture_output=True,
                           text=True,
                           check=False,
                           env={**os.environ, "MILLRACE_COMMAND": command})
    assert ended.stdout == subprocess.check_output([command, "version"], text=True), ended.stderr


def test_a_missing_library_is_named():
    ended = run_python("import millrace",
                       env={**os.environ, "MILLRACE_LIBRARY": "/nowhere/libmillrace.so"})
    assert "ImportError: millrace: /nowhere/libmillrace.so" in ended.stderr


def test_a_killed_worker_leaves_a_log_line(make_loader, caplog):
    loader = make_loader(num_workers=2)
    next(iter(loader))
    assert not caplog.records
    pid = loader.worker_pids()[0]
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while not caplog.records:
        assert time.monotonic() < end
        time.sleep(0.01)
        _log.drain()
    assert sum(len(batch) for batch in loader) == 21
    lines = [record.getMessage() for record in caplog.records if record.name == "millrace"]
    assert lines == [f"worker 0 (process {pid}) was killed by another process, or because memory "
                     "ran out"]
