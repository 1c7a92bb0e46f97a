# SPDX-License-Identifier: Apache-2.0
"""A LightningModule and a LightningDataModule, trained in one process or in the ranks of torchrun.
test_frameworks.py runs it with torch's DataLoader and, after one changed line, with millrace's.

    lightning_train.py DATA
"""
import hashlib
import json
import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder


class Photographs(lightning.LightningDataModule):
    def __init__(self, data):
        super().__init__()
        self.data = data

    def train_dataloader(self):
        crop = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
        return DataLoader(ImageFolder(os.path.join(self.data, "train"), crop),
                          batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)

    def val_dataloader(self):
        middle = transforms.Compose(
            [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()])
        return DataLoader(ImageFolder(os.path.join(self.data, "val"), middle),
                          batch_size=8, num_workers=2, persistent_workers=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3 * 32 * 32, 1000)
        self.labels, self.pixels = [], hashlib.sha256()

    def score(self, image, label):
        self.labels += label.tolist()
        return torch.nn.functional.cross_entropy(self.linear(image.flatten(1)), label)

    def training_step(self, batch, _):
        return self.score(*batch)

    def validation_step(self, batch, _):
        self.pixels.update(batch[0].numpy().tobytes())
        return self.score(*batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def main(data):
    lightning.seed_everything(1, verbose=False)
    model, n_ranks = Model(), int(os.environ.get("WORLD_SIZE", 1))
    trainer = lightning.Trainer(accelerator="cpu", devices=n_ranks, max_epochs=2, logger=False,
                                strategy="ddp" if n_ranks > 1 else "auto",
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(model, Photographs(data))
    random = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write(json.dumps([trainer.global_rank, model.labels, model.pixels.hexdigest(),
                                 random.hexdigest()]) + "\n")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
