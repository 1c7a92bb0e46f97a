# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer, which gets its loaders by two methods, in one process or in the ranks of
torchrun. test_frameworks.py runs it with torch's DataLoader and, after one changed line, with
millrace's.

    trainer_train.py DATA OUT
"""
import hashlib
import json
import os
import sys

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import default_collate
from torchvision import transforms
from torchvision.datasets import ImageFolder
from transformers import Trainer, TrainingArguments


def collate(pairs):
    pixels, labels = default_collate(pairs)
    return {"pixels": pixels, "labels": labels}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3 * 32 * 32, 1000)
        self.seen, self.digest = [], hashlib.sha256()

    def forward(self, pixels, labels):
        self.seen += labels.tolist()
        if not self.training:
            self.digest.update(pixels.numpy().tobytes())
        logits = self.linear(pixels.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class PhotographTrainer(Trainer):
    def make_loader(self, dataset, batch_size, shuffle):
        return self.accelerator.prepare(
            DataLoader(dataset, batch_size, shuffle, num_workers=self.args.dataloader_num_workers,
                       collate_fn=collate))

    def get_train_dataloader(self):
        return self.make_loader(self.train_dataset, self._train_batch_size, True)

    def get_eval_dataloader(self, eval_dataset=None):
        return self.make_loader(eval_dataset or self.eval_dataset, self.args.eval_batch_size, False)


def main(data, out):
    torch.manual_seed(1)
    model = Model()
    trainer = PhotographTrainer(
        model,
        TrainingArguments(out, num_train_epochs=2, per_device_train_batch_size=8, use_cpu=True,
                          eval_strategy="epoch", save_strategy="no", report_to=[],
                          disable_tqdm=True, dataloader_num_workers=2),
        train_dataset=ImageFolder(
            os.path.join(data, "train"),
            transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])),
        eval_dataset=ImageFolder(
            os.path.join(data, "val"),
            transforms.Compose(
                [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()])))
    trainer.train()
    random = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write(json.dumps([trainer.args.process_index, model.seen, model.digest.hexdigest(),
                                 random.hexdigest()]) + "\n")
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
