# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader in the hands of Accelerate and of Ray, and of stand-ins for their
classes.
"""
import subprocess
import sys
import types

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from torch.utils import data
from torchvision import transforms as T

from millrace.torch import DataLoader, ImageFolder, explain

pytestmark = pytest.mark.filterwarnings("error:millrace:")
KEPT = ("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
        "generator")


@pytest.fixture
def folder(images):
    """Its labels are the indices of its samples."""
    made = ImageFolder(images, T.Compose([T.RandomResizedCrop(16), T.ToTensor()]))
    made.samples = [(path, i) for i, (path, _) in enumerate(made.samples)]
    return made


class StandInAdapter:
    """What Accelerate's DataLoaderAdapter does (0.34 to 1.15)."""

    def __init__(self, dataset, use_stateful_dataloader=False, batch_sampler=None, **options):
        self.base_dataloader = data.DataLoader(dataset, batch_sampler=batch_sampler, **options)

    def __getattr__(self, name):
        if name == "base_dataloader":
            raise AttributeError
        return getattr(self.base_dataloader, name)

    def __iter__(self):
        return iter(self.base_dataloader)


class StandInSkip(data.BatchSampler):
    """Accelerate's SkipBatchSampler."""

    def __init__(self, batch_sampler, n):
        self.batch_sampler, self.n = batch_sampler, n

    def __len__(self):
        return len(self.batch_sampler) - self.n

    def __iter__(self):
        return (b for i, b in enumerate(self.batch_sampler) if i >= self.n)


@pytest.fixture
def adapter(monkeypatch):
    """The stand-in, as if the program had imported Accelerate."""
    made = type("DataLoaderAdapter", (StandInAdapter,), {"__init__": StandInAdapter.__init__})
    found = types.SimpleNamespace(DataLoaderAdapter=made)
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", found)
    return made


def prepare(adapter, loader, batches=None):
    """Accelerate's prepare(), or with batches its skip_first_batches()."""
    if batches is None and getattr(loader, "_is_accelerate_prepared", False):
        return loader
    options = {name: getattr(loader, name) for name in KEPT}
    return adapter(batch_sampler=batches if batches is not None else loader.batch_sampler,
                   **options)


def test_loaders_that_share_a_batch_sampler_are_told_apart(adapter, folder, images):
    batches = [[0, 1], [2, 3]]
    other = ImageFolder(images, folder.transform)
    other.samples = [(path, i + 100) for i, (path, _) in enumerate(other.samples)]
    loaders = [DataLoader(dataset, batch_sampler=batches, collate_fn=collate)
               for dataset in (folder, other) for collate in (data.default_collate, list)]
    assert all(getattr(loader, "_is_accelerate_prepared", True) for loader in loaders)
    for loader in loaders:
        made = prepare(adapter, loader, batches)
        assert (made.dataset, made.collate_fn) == (loader.dataset, loader.collate_fn)
        assert explain(made)["native"]
    torchs = data.DataLoader(ImageFolder(images, folder.transform), batch_sampler=batches)
    assert not explain(prepare(adapter, torchs, batches))["native"]


def test_without_an_accelerator(adapter, folder):
    """prepare_data_loader() of accelerate.data_loader, called by the program."""
    loader = DataLoader(folder, batch_size=4)
    made = adapter(batch_sampler=loader.batch_sampler,
                   **{name: getattr(loader, name) for name in KEPT})
    assert explain(made)["native"]


def test_accelerate_may_be_imported_after_a_loader_was_made(folder, request):
    loader = DataLoader(folder, batch_size=4)
    assert explain(prepare(request.getfixturevalue("adapter"), loader))["native"]


def test_an_adapter_keeps_the_loader(adapter, folder):
    loader = DataLoader(folder, batch_size=4, num_workers=1)
    other = data.DataLoader(folder, batch_size=4)
    for _ in range(2):
        prepared = prepare(adapter, loader)
        assert type(prepared.base_dataloader) is DataLoader
        assert explain(prepared)["native"]
        assert prepared.dataset is folder
        assert [y.tolist() for _, y in prepared] == [y.tolist() for _, y in loader]
    assert type(prepare(adapter, other).base_dataloader) is data.DataLoader
    rest = prepare(adapter, prepared, StandInSkip(prepared.batch_sampler, 4))
    assert [y.tolist() for _, y in rest] == [[16, 17, 18, 19], [20]]
    assert [y.tolist() for _, y in prepare(adapter, rest, StandInSkip(rest.batch_sampler, 1))
            ] == [[20]]
    assert explain(rest)["native"]


def test_what_is_skipped_changes_no_draws(adapter, folder):
    """The loader that Accelerate makes to skip batches has the draws of the first."""
    class Epochs(data.SequentialSampler):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

    loader = DataLoader(folder, batch_size=4, num_workers=1, sampler=Epochs(folder))
    prepared = prepare(adapter, loader)
    whole = [x.clone() for x, _ in prepared]
    prepared.batch_sampler.sampler.set_epoch(1)
    second = [x.clone() for x, _ in prepared]
    for epoch, expected in ((0, whole), (1, second)):
        prepared.batch_sampler.sampler.set_epoch(epoch)
        rest = prepare(adapter, prepared, StandInSkip(prepared.batch_sampler, 2))
        assert all(torch.equal(x, y) for (x, _), y in zip(rest, expected[2:]))
    assert not torch.equal(whole[0], second[0])


def test_an_older_accelerate_says_what_to_do(folder):
    """Its loader is torch's own class."""
    loader = DataLoader(folder, batch_size=4)
    sys.modules.pop("accelerate.data_loader", None)
    with pytest.warns(UserWarning, match="install Accelerate 0.34 or later") as seen:
        assert type(prepare(data.DataLoader, loader)) is data.DataLoader
    assert (len(seen), seen[0].filename) == (1, __file__)
    loader._is_accelerate_prepared = True
    assert prepare(data.DataLoader, loader) is loader
    with pytest.raises(AttributeError, match="no_such_name"):
        loader.no_such_name


def test_accelerate_may_have_what_torch_loads(folder):
    with pytest.warns(UserWarning, match="batch_size None"):
        loader = DataLoader(folder, batch_size=None)
    prepare(StandInAdapter, loader)  # pytest makes millrace's warnings errors


# Ray


def make_with_sampler(module, loader):
    """What prepare_data_loader() does in the first of two ranks."""
    def with_sampler(given):
        arguments = {name: getattr(given, name) for name in KEPT}
        arguments.update(batch_size=given.batch_size, shuffle=False, drop_last=given.drop_last,
                         sampler=data.distributed.DistributedSampler(given.dataset, 2, 0))
        return call(**arguments)

    def call(**arguments):  # another function may call it
        return module.DataLoader(**arguments)

    return with_sampler(loader)


def test_another_ray_is_reported(folder, monkeypatch):
    """One whose module has another DataLoader, by which it may make torch's."""
    monkeypatch.setitem(sys.modules, "ray.train.torch.train_loop_utils", types.SimpleNamespace())
    with pytest.warns(UserWarning, match="this Ray replaces the loader") as seen:
        DataLoader(folder, batch_size=4)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("version", ["ray.train.torch", "ray.train.v2.torch"])
def test_ray_gives_the_loader_a_sampler(folder, monkeypatch, version):
    module = types.SimpleNamespace(DataLoader=data.DataLoader)
    monkeypatch.setitem(sys.modules, version + ".train_loop_utils", module)
    ours, torchs = DataLoader(folder, batch_size=4), data.DataLoader(folder, batch_size=4)
    assert module.DataLoader is not data.DataLoader
    made, other = (make_with_sampler(module, loader) for loader in (ours, torchs))
    assert explain(made)["native"]
    assert type(other) is data.DataLoader
    assert [y.tolist() for _, y in made] == [y.tolist() for _, y in other]
    folder.transform = T.Compose([T.PILToTensor(), T.Resize((16, 16), antialias=True)])
    made = make_with_sampler(module, DataLoader(folder, batch_size=4, exact_resize=False))
    assert "exact_resize=False" in explain(made)["reason"] and explain(made)["native"]
    with pytest.warns(UserWarning, match="batch_size None"):
        left = DataLoader(folder, batch_size=None)
    assert type(make_with_sampler(module, left)) is data.DataLoader


# With Accelerate itself

def real():
    """The module accelerate.data_loader, with Accelerate's state made."""
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    accelerate.Accelerator(cpu=True)
    return accelerate.data_loader


@pytest.mark.parametrize("world, rank",
                         [(world, rank) for world in (1, 2, 3) for rank in range(world)])
@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 6, "shuffle": True}, {
    "batch_size": 6, "shuffle": True, "drop_last": True
}, {"batch_size": 30, "shuffle": True}])
@pytest.mark.parametrize("how", [{}, {"even_batches": False}, {"split_batches": True}, {
    "split_batches": True, "even_batches": False
}, {"use_seedable_sampler": True}])
def test_accelerates_shards(folder, world, rank, options, how):
    """The same batches, ends and remainders as of torch's loader, epoch by epoch."""
    accelerate, found = real(), []
    if how.get("split_batches") and options["batch_size"] % world:
        pytest.skip("Accelerate splits only batches that it can divide")
    for kind in (DataLoader, data.DataLoader):
        torch.manual_seed(3)
        loader = kind(folder, num_workers=1, **options)
        made = accelerate.prepare_data_loader(loader,
                                              torch.device("cpu"),
                                              num_processes=world,
                                              process_index=rank,
                                              put_on_device=True,
                                              rng_types=["generator"],
                                              **how)
        rest = accelerate.skip_first_batches(made, 1)
        assert explain(made)["native"] is explain(rest)["native"] is (kind is DataLoader)
        # Accelerate 1.0 fails where there is no batch.
        parts = (made, made, rest) if len(made) > 1 else (made, made) if len(made) else ()
        found.append([(y.tolist(), part.end_of_dataloader, part.remainder) for part in parts
                      for _, y in part])
        found[-1] += [len(made), made.total_batch_size, made.total_dataset_length]
    assert found[0] == found[1]


@pytest.mark.parametrize("world, rank", [(1, 0), (2, 0), (2, 1)])
def test_accelerates_stateful_loaders(folder, world, rank):
    """use_stateful_dataloader: the state that Accelerate saves continues in another program."""
    accelerate = real()

    def make(seed):
        torch.manual_seed(seed)
        loader = DataLoader(folder, batch_size=2, shuffle=True, num_workers=1)
        assert not hasattr(loader, "_is_accelerate_prepared")
        made = accelerate.prepare_data_loader(loader,
                                              torch.device("cpu"),
                                              num_processes=world,
                                              process_index=rank,
                                              rng_types=["generator"],
                                              use_stateful_dataloader=True)
        assert made.use_stateful_dataloader
        assert explain(made)["native"]
        return made

    loader = make(1)
    assert make(1).state_dict() == {}
    list(loader)
    going = iter(loader)
    for _ in range(2):
        next(going)
    state = loader.state_dict()
    rest = [(y.tolist(), x.sum().item()) for x, y in going]
    other = make(2)
    other.load_state_dict(state)
    assert [(y.tolist(), x.sum().item()) for x, y in other] == rest
    assert len(list(other)) == len(list(loader)) == len(rest) + 2


ACCELERATED = """
import sys, warnings, torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration
from torch.utils import data
from torchvision import transforms as T
from millrace.torch import DataLoader, ImageFolder, explain
warnings.filterwarnings("error", message="millrace")
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**eval(sys.argv[2])))
folder = ImageFolder(sys.argv[1], T.Compose([T.Resize((16, 16)), T.ToTensor()]))
folder.samples = [(path, i) for i, (path, _) in enumerate(folder.samples)]
found = []
for kind in (DataLoader, data.DataLoader):
    torch.manual_seed(4)
    loader = accelerator.prepare(kind(folder, batch_size=4, shuffle=True, num_workers=1))
    assert accelerator.prepare(loader) is loader
    assert explain(loader)["native"] is (kind is DataLoader)
    found.append([accelerator.gather_for_metrics(y).tolist()
                  for part in (loader, skip_first_batches(loader, 1)) for _, y in part])
    assert sorted(sum(found[-1][:len(loader)], [])) == list(range(21))
assert found[0] == found[1], found
print("equal")
if torch.distributed.is_initialized():  # or its threads may abort the process at its end
    torch.distributed.destroy_process_group()
"""


def launch(program, n_ranks, *arguments):
    """Run a program in ranks with gloo. Returns its output."""
    command = [sys.executable, "-B"]
    if n_ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n_ranks}"]
    run = subprocess.run([*command, program, *map(str, arguments)],
                         capture_output=True,
                         text=True,
                         timeout=240,
                         check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
@pytest.mark.parametrize("options",
                         [{}, {"dispatch_batches": True}, {"use_seedable_sampler": True}])
def test_accelerator_gathers_each_sample_once(images, tmp_path, n_ranks, options):
    real()
    (tmp_path / "program.py").write_text(ACCELERATED)
    assert launch(tmp_path / "program.py", n_ranks, images, options).count("equal") == n_ranks


TRAINED = """
import sys, torch
from torchvision import transforms as T
from transformers import Trainer, TrainingArguments
from millrace.torch import DataLoader, ImageFolder, explain

images, out = sys.argv[1:]
folder = ImageFolder(images, T.Compose([T.Resize((8, 8)), T.ToTensor()]))
folder.samples = [(path, i) for i, (path, _) in enumerate(folder.samples)]
seen = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(192, 21)

    def forward(self, pixels, labels):
        seen.append(labels.tolist())
        logits = self.linear(pixels.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class MillraceTrainer(Trainer):
    def get_train_dataloader(self):
        loader = self.accelerator.prepare(DataLoader(
            folder, batch_size=2, shuffle=True, num_workers=1,
            collate_fn=lambda pairs: {"pixels": torch.stack([x for x, _ in pairs]),
                                      "labels": torch.tensor([y for _, y in pairs])}))
        assert explain(loader)["native"]
        return loader


def train(checkpoint=None):
    seen.clear()
    torch.manual_seed(1)
    trainer = MillraceTrainer(Model(), TrainingArguments(
        out, num_train_epochs=2, save_steps=3, use_cpu=True, report_to=[], disable_tqdm=True,
        remove_unused_columns=False), train_dataset=folder)
    trainer.train(resume_from_checkpoint=checkpoint)
    return seen.copy()


whole = train()
n = len(whole)
for step in (3, n // 2 - n // 2 % 3, n // 2 + 3 - n // 2 % 3):
    assert train(f"{out}/checkpoint-{step}") == whole[step:]
sys.stdout.write("same\\n")
if torch.distributed.is_initialized():  # or its threads may abort the process at its end
    torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_a_trainer_resumes(images, tmp_path, n_ranks):
    """transformers' Trainer, from a checkpoint in each epoch: the batches of the run that was not
    interrupted."""
    real()
    pytest.importorskip("transformers", reason="transformers is not installed")
    (tmp_path / "program.py").write_text(TRAINED)
    assert launch(tmp_path / "program.py", n_ranks, images, tmp_path / "out").count(
        "same") == n_ranks


LIGHTNING = """
import os, sys, torch
import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from torchvision import transforms as T
from millrace.torch import DataLoader, ImageFolder, explain

images, out = sys.argv[1:]
n_ranks = int(os.environ.get("WORLD_SIZE", 1))
folder = ImageFolder(images, T.Compose([T.RandomResizedCrop(8), T.ToTensor()]))
folder.samples = [(path, i) for i, (path, _) in enumerate(folder.samples)]


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(192, 21)
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append((batch[1].tolist(), batch[0].sum().item()))
        return torch.nn.functional.cross_entropy(self.linear(batch[0].flatten(1)), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def train(seed, checkpoint=None):
    torch.manual_seed(seed)
    model, loader = Model(), DataLoader(folder, batch_size=2, shuffle=True, num_workers=1)
    saving = ModelCheckpoint(out, filename="{step}", every_n_train_steps=2, save_top_k=-1)
    trainer = lightning.Trainer(accelerator="cpu", devices=n_ranks, max_epochs=1,
                                strategy="ddp" if n_ranks > 1 else "auto", callbacks=[saving],
                                logger=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(model, loader, ckpt_path=checkpoint)
    assert explain(trainer.train_dataloader)["native"]
    return model.seen


whole = train(1)
assert len(whole) == {1: 11, 2: 6}[n_ranks]
for i in (2, 4):
    assert train(i, f"{out}/step={i}.ckpt") == whole[i:]
sys.stdout.write("same\\n")
if torch.distributed.is_initialized():  # or its threads may abort the process at its end
    torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_lightning_resumes(images, tmp_path, n_ranks):
    """From a checkpoint in mid-epoch, which has the state of rank 0's loader."""
    pytest.importorskip("lightning", reason="Lightning is not installed")
    (tmp_path / "program.py").write_text(LIGHTNING)
    assert launch(tmp_path / "program.py", n_ranks, images, tmp_path / "out").count(
        "same") == n_ranks
