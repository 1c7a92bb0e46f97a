# SPDX-License-Identifier: Apache-2.0
"""What docs/frameworks.md says: a program under a framework, in one process and in two ranks, sees
the same with millrace's DataLoader after one line was changed: the labels in order, the pixels of
its evaluation, and the state of torch's generator at its end.
"""
import json
import os
import re
import subprocess
import sys

import pytest

from support import module, run_python

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
# A pass of torch's own loader, which some frameworks make of another, fails.
NO_TORCH = "import torch.utils.data; torch.utils.data.DataLoader.__iter__ = None; "
CHANGES = {
    "from torch.utils.data import DataLoader\n": "from millrace.torch import DataLoader\n",
    "from timm.data import create_loader\n": "from millrace.timm import create_loader\n",
}


@pytest.fixture(scope="module")
def data(make_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frameworks")
    for part, n in (("train", 15), ("val", 9)):
        make_folder(2, n, folder / part)
    return str(folder)


def run(program, n_ranks, *arguments):
    """What each rank of a program prints as a JSON list. millrace's warnings are errors."""
    command = [sys.executable, "-B"]
    if n_ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n_ranks}"]
    done = subprocess.run([*command, program, *arguments],
                          capture_output=True,
                          text=True,
                          timeout=240,
                          check=False,
                          env={**os.environ, "PYTHONWARNINGS": "error:millrace"})
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(json.loads(line) for line in re.findall(r"^\[\d.*\]$", done.stdout, re.M))


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("name, framework", [("plain_loop", "torch"),
                                             ("accelerate_train", "accelerate"),
                                             ("lightning_train", "lightning"),
                                             ("timm_train", "timm"),
                                             ("trainer_train", "transformers")])
def test_one_line_makes_the_loaders_native(data, tmp_path, n_ranks, name, framework):
    torch = module("torch")
    if not (torch and module("torchvision")):
        pytest.skip("torch and torchvision are not both here, or too old")
    if n_ranks > 1 and torch.__version__ < "2":
        pytest.skip("torchrun of torch 1.13 does not start on Python 3.11")
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    compare(name, data, tmp_path, n_ranks)


def compare(name, data, tmp_path, n_ranks, launched=None):
    """launched: of the program's ranks, those that torchrun starts, if not all."""
    program = os.path.join(PROGRAMS, name + ".py")
    arguments = [data] + [str(tmp_path / "out")] * (name in ("trainer_train", "ray_train"))
    with open(program, encoding="utf-8") as file:
        text = file.read()
    changed = text
    for line, other in CHANGES.items():
        changed = changed.replace(line, NO_TORCH + other)
    assert changed != text
    (tmp_path / "changed.py").write_text(changed)
    expected = run(program, launched or n_ranks, *arguments)
    assert [one[0] for one in expected] == list(range(n_ranks))
    assert all(len(labels) > 18 for _, labels, _, _ in expected)
    assert run(tmp_path / "changed.py", launched or n_ranks, *arguments) == expected


def test_rays_workers_have_native_loaders(data, tmp_path):
    """Ray starts two, and gives each loader a sampler."""
    pytest.importorskip("ray", reason="Ray is not installed")
    compare("ray_train", data, tmp_path, n_ranks=2, launched=1)


def test_torchs_loader_may_have_been_changed(data):
    """By a program that follows the loaders which are made, before it imports millrace."""
    if not (module("torch") and module("torchvision")):
        pytest.skip("torch and torchvision are not both here, or too old")
    made = run_python(
        """
import inspect, sys
from torch.utils import data
init = data.DataLoader.__init__
data.DataLoader.__init__ = lambda self, *args, **kwargs: init(self, *args, **kwargs)
from torchvision.transforms import ToTensor
from millrace.torch import DataLoader, ImageFolder, explain
print(list(inspect.signature(DataLoader).parameters))
assert explain(DataLoader(ImageFolder(sys.argv[1], ToTensor()), batch_size=1))["reason"]
""", data + "/val")
    assert made.stdout == "['args', 'exact_resize', 'kwargs']\n", made.stderr
    assert "images that come out with different sizes" in made.stderr


def test_jax_learns(data):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_platforms", "cpu")
    program = {"__name__": "program"}
    with open(os.path.join(PROGRAMS, "jax_train.py"), encoding="utf-8") as file:
        exec(compile(file.read(), "jax_train.py", "exec"), program)
    losses = program["main"](data)
    assert len(losses) == 30
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
