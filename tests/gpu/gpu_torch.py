#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_torch.py [--data FOLDER] [--device cuda:0] [--brief] [--only WORD]

Tests the Python package with PyTorch on a GPU.

It prints the lines of gpu_report.h. It exits with 0 if every case passed, 1 if one failed, and 77
if torch has no GPU. MILLRACE_LIBRARY names the library, PYTHONPATH the package. If MR_DOUBLE names
the double of the CUDA runtime, with which the library must be linked too, gpu_torch_double.py
replaces torch, and cases that need torch itself are skipped.

Reads are held back on their stream: if a batch's memory is used again too early, they get the bytes
of a later batch. Cases called "control" leave an order out on purpose and count the torn arrays.
They show that the other cases can fail.
"""
import argparse
import contextlib
import ctypes
import faulthandler
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HOLD_CYCLES = 8_000_000  # about 5 ms of a GPU
CASE_SECONDS = 60
N_BUFFERS = 2
OPTIONS = {"transform": "train:64", "batch_size": 16, "dtype": "f16", "num_workers": 2}


class NoGpu(Exception):
    """No case can run here."""


class Skip(Exception):
    """This case cannot run here."""


class Report:
    """The lines, and what failed."""

    def __init__(self):
        self.n_cases, self.n_failed, self.failed = 0, 0, False

    def line(self, *fields):
        print(" | ".join(str(field).replace("|", "/").replace("\n", "/") for field in fields),
              flush=True)

    def expect(self, condition, words):
        if not condition:
            self.failed = True
            self.line("note", words)

    def figure(self, name, value, aim="", met=True):
        verdict = ("met" if met else "missed") if aim else "-"
        self.line("figure", name, *[f"{value:.4g}"] * 3, aim or "-", verdict)

    def run(self, name, case):
        self.n_cases, self.failed = self.n_cases + 1, False
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)  # prints where a case hangs
        try:
            case()
        except Skip as reason:
            self.line("skip", name, reason)
            return
        except Exception as error:  # the next case may still run
            traceback.print_exc()
            self.expect(False, f"{type(error).__name__}: {error}")
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.n_failed += self.failed
        self.line("fail" if self.failed else "pass", name)


class TorchGpu:
    """PyTorch as the consumer."""

    is_double = False

    def __init__(self, device):
        try:
            import torch
        except (ImportError, OSError) as error:
            raise NoGpu(f"torch cannot be imported: {error}") from None
        if not torch.cuda.is_available():
            raise NoGpu(f"torch {torch.__version__} finds no GPU")
        self.torch, self.device = torch, torch.device(device)
        self.default = torch.cuda.default_stream(self.device)
        torch.cuda.set_device(self.device)

    def side(self):
        return self.torch.cuda.Stream(self.device)

    def tensor(self, array, stream):
        with self.torch.cuda.stream(stream):
            return self.torch.from_dlpack(array)

    def hold(self, stream):
        with self.torch.cuda.stream(stream):
            self.torch.cuda._sleep(HOLD_CYCLES)

    def read_late(self, tensor, stream):
        """A copy of the tensor, which is overwritten afterwards.

        Both happen later than the calls that follow.
        """
        self.hold(stream)
        with self.torch.cuda.stream(stream):
            copy = tensor.clone()
            tensor.zero_()
        return copy

    def upload_late(self, array, stream):
        """A copy of an array on the host, made by torch's .to(non_blocking=True)."""
        self.hold(stream)
        with self.torch.cuda.stream(stream):
            return self.torch.from_dlpack(array).to(self.device, non_blocking=True)

    def bytes(self, copies):
        self.torch.cuda.synchronize()
        made = [copy.cpu() for copy in copies]
        return [ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()) for t in made]

    def capture(self, tensor, wait):
        """A graph's copy of a tensor.

        wait() is called while the graph is captured in global mode, torch's default.
        """
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            copy = tensor.clone()
            wait()
        graph.replay()
        return self.bytes([copy])[0]

    def set_device(self, number):
        self.torch.cuda.set_device(number)

    def current_device(self):
        return self.torch.cuda.current_device()

    def n_devices(self):
        return self.torch.cuda.device_count()

    def facts(self):
        return {"torch": self.torch.__version__, "torch's CUDA": self.torch.version.cuda}

    def forget_unordered(self):
        """The number of unordered accesses; on a GPU nothing detects them."""
        return 0


def case(method):
    method.is_case = True
    return method


class Cases:
    """The cases, in the order in which they run; a case's name is its method's."""

    def __init__(self, report, gpu, data, device, brief):
        import millrace

        self.report, self.gpu, self.device, self.brief = report, gpu, device, brief
        self.loader = lambda **options: millrace.Loader(f"imagefolder:{data}", **
                                                        {**OPTIONS, **options})
        self.data = data
        self._expected = []

    def take(self, loader, n):
        """n batches, over several epochs if need be."""
        return itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), n)

    def expected(self, n):
        """Images and labels of n batches, as the host makes them."""
        if len(self._expected) < 2 * n:
            with self.loader() as loader:
                self._expected = [
                    array.tobytes() for batch in self.take(loader, n)
                    for array in (batch.image, batch.label)
                ]
        return self._expected[:2 * n]

    def count_torn(self, found, expected):
        return sum(a != b for a, b in itertools.zip_longest(found, expected))

    def read_batches(self, n, stream, told=None):
        """The number of torn arrays in n batches, and the buffers.

        told: the stream that is passed to DLPack instead of the reader's.
        """
        copies, buffers = [], []
        with self.loader(device=self.device, n_buffers=N_BUFFERS) as loader:
            for batch in self.take(loader, n):
                tensors = [
                    self.gpu.tensor(array, told or stream) for array in (batch.image, batch.label)
                ]
                buffers.append(batch.buffer)
                batch.release()
                copies += [self.gpu.read_late(tensor, stream) for tensor in tensors]
                del batch, tensors  # calls the deleters before anything is read
            found = self.gpu.bytes(copies)
        return self.count_torn(found, self.expected(n)), buffers

    def expect_whole(self, torn, n):
        self.report.expect(torn == 0,
                           f"{torn} of {2 * n} arrays were read with other bytes than the host's")

    def show_control(self, name, torn):
        found = self.gpu.forget_unordered()
        self.report.figure(name, torn, ">= 1", torn >= 1)
        self.report.expect(found or torn or not self.gpu.is_double,
                           "the order that was left out was not missed")

    @case
    def from_dlpack_on_the_default_stream(self):
        n = 8 if self.brief else 24
        self.expect_whole(self.read_batches(n, self.gpu.default)[0], n)

    @case
    def from_dlpack_on_a_side_stream(self):
        n = 8 if self.brief else 24
        self.expect_whole(self.read_batches(n, self.gpu.side())[0], n)

    @case
    def batches_that_are_read_late_in_buffers_used_again(self):
        n = 40 if self.brief else 200
        torn, buffers = self.read_batches(n, self.gpu.side())
        self.expect_whole(torn, n)
        self.report.expect(
            set(buffers) == set(range(N_BUFFERS)),
            f"{n} batches lay in the buffers {sorted(set(buffers))}")

    @case
    def control_another_stream_than_dlpack_was_told(self):
        torn, _ = self.read_batches(24, self.gpu.side(), told=self.gpu.default)
        self.show_control("arrays torn without the order of DLPack", torn)

    @case
    def a_graph_captured_while_batches_are_copied(self):
        """Meanwhile another thread takes and releases batches, so that copies are made."""
        taken, stop, failures = [0], threading.Event(), []

        def take_all(loader):
            try:
                for batch in self.take(loader, 1 << 30):
                    batch.release()
                    taken[0] += 1
                    if stop.is_set():
                        return
            except Exception as error:
                failures.append(error)

        def wait():
            enough = taken[0] + 4 * N_BUFFERS
            while taken[0] < enough and not failures:
                time.sleep(0.001)

        with self.loader(device=self.device) as kept, self.loader(device=self.device,
                                                                  n_buffers=N_BUFFERS) as other:
            batch = kept.next()
            tensor = self.gpu.tensor(batch.image, self.gpu.default)
            thread = threading.Thread(target=take_all, args=(other,))
            thread.start()
            try:
                found = self.gpu.capture(tensor, wait)
            finally:
                stop.set()
                thread.join()
            del tensor, batch
        self.report.expect(not failures, f"the other thread: {failures}")
        self.report.expect(found == self.expected(1)[0],
                           "the graph read other bytes than the host's")

    @case
    def deleters_in_other_threads(self):
        """A new thread drops a tensor's last reference.

        Some of these threads have set a device, others have not.
        """
        n, copies, stream, devices = 8 if self.brief else 24, [], self.gpu.side(), []

        def drop(held, number):
            if number is not None:
                self.gpu.set_device(number)
            before = self.gpu.current_device()
            held.clear()
            devices.append((before, self.gpu.current_device()))

        with self.loader(device=self.device, n_buffers=N_BUFFERS) as loader:
            for i, batch in enumerate(self.take(loader, n)):
                held = [self.gpu.tensor(array, stream) for array in (batch.image, batch.label)]
                batch.release()
                del batch
                copies += [self.gpu.read_late(tensor, stream) for tensor in held]
                number = [None, 0, self.gpu.n_devices() - 1][i % 3]
                thread = threading.Thread(target=drop, args=(held, number))
                thread.start()
                thread.join()
            found = self.gpu.bytes(copies)
        self.expect_whole(self.count_torn(found, self.expected(n)), n)
        self.report.expect(all(a == b for a, b in devices),
                           f"a deleter changed its thread's device: {devices}")

    def upload(self, n, tell, pin):
        """The number of torn images by .to(non_blocking=True) if the batch is released at once."""
        copies, stream = [], self.gpu.side()
        with self.loader(pin_memory=pin, n_slots=3) as loader:
            if pin and not loader.options["pin_memory"]:
                raise Skip("the slots could not be page-locked")
            for batch in self.take(loader, n):
                copies.append(self.gpu.upload_late(batch.image, stream))
                if tell:
                    batch.use(stream)
                batch.release()
                del batch
            found = self.gpu.bytes(copies)
        return self.count_torn(found, self.expected(n)[::2])

    @case
    def uploads_from_page_locked_memory_with_use(self):
        n = 16 if self.brief else 48
        torn = self.upload(n, tell=True, pin=True)
        self.report.expect(torn == 0, f"{torn} of {n} images arrived with other bytes")

    @case
    def control_uploads_from_page_locked_memory_without_use(self):
        torn = self.upload(24, tell=False, pin=True)
        self.show_control("images torn without use()", torn)

    @case
    def control_uploads_from_pageable_memory(self):
        """Shows whether CUDA takes the bytes before the call returns.

        NVIDIA does not promise that.
        """
        torn = self.upload(24, tell=False, pin=False)
        self.gpu.forget_unordered()
        self.report.figure("images torn from pageable memory", torn, "<= 0", torn == 0)

    @case
    def contexts_of_a_process(self):
        """The GPU memory of a process without torch, and what a loader adds to torch's process."""
        if self.gpu.is_double:
            raise Skip("the double's contexts take no memory")
        free = lambda: self.gpu.torch.cuda.mem_get_info(self.gpu.device)[0] / 2**20
        before = free()
        with self.loader(device=self.device) as loader:
            batch = loader.next()
            buffers = loader.options["n_buffers"] * (batch.image.nbytes +
                                                     batch.image.nbytes // 2) / 2**20
            added = before - free() - buffers
            del batch
        self.report.figure("MiB of the GPU that a loader adds beside its buffers", added, "<= 64",
                           added <= 64)
        before = free()
        child = self.child("hold", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.report.expect(child.stdout.readline() == "ready\n",
                           "a loader in a process without torch did not start")
        self.report.figure("MiB of the GPU of a process without torch", before - free())
        child.communicate()
        self.report.expect(child.returncode == 0,
                           f"the process without torch ended with {child.returncode}")

    @case
    def two_runtimes_in_one_process(self):
        """torch's libcudart beside the library's: the thread's current device must not change."""
        if not self.gpu.is_double:
            with open("/proc/self/maps") as maps:
                paths = {
                    line.split()[-1] for line in maps
                    if "libcudart" in line or "libmillrace" in line
                }
            self.report.line("fact", "runtimes", ", ".join(sorted(paths)))
        before, last = self.gpu.current_device(), self.gpu.n_devices() - 1
        self.gpu.set_device(last)
        with self.loader(device=self.device) as loader:
            with loader.next() as batch:
                tensor = self.gpu.tensor(batch.image, self.gpu.default)
                self.report.expect(self.gpu.current_device() == last,
                                   f"the current device became {self.gpu.current_device()}")
                self.gpu.set_device(before)
                found = self.gpu.bytes([self.gpu.read_late(tensor, self.gpu.default)])
                del tensor
        self.report.expect(found == self.expected(1)[:1], "other bytes than the host's")

    @case
    def exit_with_a_live_iterator(self):
        """Loader, iterator and tensors are alive when Python ends, after torch freed its cache."""
        for what in ("iterator", "tensors"):
            child = self.child(what, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            words, _ = child.communicate()
            sound = not any(word in words
                            for word in ("Traceback", "Exception", "terminate", "left over"))
            self.report.expect(child.returncode == 0 and sound,
                               f"{what}: exit status {child.returncode}: {words[-600:]}")

    def child(self, what, **pipes):
        command = [
            sys.executable, "-B",
            os.path.abspath(__file__), "--data", self.data, "--device", self.device, "--child", what
        ]
        return subprocess.Popen(command, text=True, **pipes)


def run_child(what, data, device):
    """The child process of a case."""
    import millrace

    loader = millrace.Loader(f"imagefolder:{data}", device=device, **OPTIONS)
    if what == "hold":
        batch = loader.next()
        print("ready", flush=True)
        sys.stdin.read()
        del batch
        return
    gpu = find_gpu(device)
    iterator = iter(loader)
    batch = next(iterator)
    tensor = gpu.tensor(batch.image, gpu.default)
    gpu.bytes([gpu.read_late(tensor, gpu.default)])
    if not gpu.is_double:
        gpu.torch.cuda.empty_cache()
    gpu.hold(gpu.default)  # and the stream still works
    if what == "iterator":
        del batch, tensor
    globals()["kept"] = locals()  # until the interpreter ends


def find_gpu(device):
    if "MR_DOUBLE" not in os.environ:
        return TorchGpu(device)
    from gpu_torch_double import DoubleGpu

    return DoubleGpu(device)


def make_pictures(folder):
    """Two classes of pictures, as PPM files, which need no encoder."""
    draw = random.Random(1)
    for i in range(72):
        where = os.path.join(folder, f"class{i % 2}")
        os.makedirs(where, exist_ok=True)
        width, height = draw.randrange(80, 120), draw.randrange(80, 120)
        with open(os.path.join(where, f"{i:02}.ppm"), "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (width, height) + draw.randbytes(width * height * 3))


def run_cases(report, gpu, given):
    for name, value in gpu.facts().items():
        report.line("fact", name, value)
    with tempfile.TemporaryDirectory() as folder:
        if given.data is None:
            make_pictures(folder)
        cases = Cases(report, gpu, given.data or folder, given.device, given.brief)
        for name, method in vars(Cases).items():
            words = name.replace("_", " ")
            if getattr(method, "is_case", False) and given.only in words:
                report.run(words, getattr(cases, name))
    if gpu.is_double:
        gpu.close()


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, default in (("--data", None), ("--device", "cuda:0"), ("--only", ""), ("--child",
                                                                                     None)):
        parser.add_argument(name, default=default)
    parser.add_argument("--brief", action="store_true")
    given = parser.parse_args()
    if given.child:
        run_child(given.child, given.data, given.device)
        return 0
    report = Report()
    try:
        gpu = find_gpu(given.device)
    except NoGpu as reason:
        report.line("skip", "torch", reason)
        return 77
    run_cases(report, gpu, given)
    if report.n_cases == 0:
        report.line("note", "no case ran")
    return int(report.n_cases == 0 or report.n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
