# SPDX-License-Identifier: Apache-2.0
"""Programs for torch's DataLoader train with millrace's after a few of their lines were changed."""
import os
import subprocess
import sys
import warnings

import support

if not (support.module("torch") and support.module("torchvision")):
    print("skipped: torch and torchvision are not both here, or too old")
    sys.exit(77)

from millrace.torch import explain

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
IMPORT = ("import torch.utils.data\n", "import torch.utils.data; from millrace.torch import DataLoader\n")
LOADERS = ("torch.utils.data.DataLoader(", "DataLoader(")


class ProgramTest(support.FolderCase):
    def setUp(self):
        for part, n in (("train", "30"), ("val", "10")):
            folder = os.path.join(self.folder, "data", part)
            if not os.path.exists(folder):
                os.makedirs(os.path.dirname(folder), exist_ok=True)
                subprocess.run([os.environ["MR_MAKE_FOLDER"], folder, "2", n], check=True)

    def run_changed(self, name, changes, most_lines):
        """The loaders of the program after these replacements, which change at most so many lines."""
        import torch
        with open(os.path.join(PROGRAMS, name), encoding="utf-8") as file:
            text = file.read()
        changed = text
        for old, new in changes:
            self.assertIn(old, changed)
            changed = changed.replace(old, new)
        lines = sum(a != b for a, b in zip(text.splitlines(), changed.splitlines()))
        self.assertEqual(len(text.splitlines()), len(changed.splitlines()))
        self.assertLessEqual(lines, most_lines)
        program = {"__name__": "program"}
        exec(compile(changed, name, "exec"), program)
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="millrace:|.*are held at once")
            return program["main"](self.path("data"), 32, 2)

    def expect_native(self, loaders, *words):
        for loader in loaders:
            found = explain(loader)
            self.assertTrue(found["native"], found["reason"])
        for word in words:
            self.assertIn(word, explain(loaders[0])["transform"])

    def test_imagenet_main(self):
        loaders = self.run_changed("imagenet_main.py", [IMPORT, LOADERS], 4)
        self.expect_native(loaders, "random_resized_crop(32", "hflip(0.5)")

    def test_classification_train(self):
        changes = [IMPORT, LOADERS, ("PresetTrain(crop_size=size)", "PresetTrain(crop_size=size).transforms"),
                   ("resize_size=size * 8 // 7)", "resize_size=size * 8 // 7).transforms")]
        loaders = self.run_changed("classification_train.py", changes, 5)
        self.expect_native(loaders, "random_resized_crop(32", "trivial_augment_wide(")


if __name__ == "__main__":
    support.main()
