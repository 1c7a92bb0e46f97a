# SPDX-License-Identifier: Apache-2.0
"""The examples of the package do what they say."""
import os
import subprocess
import sys

import pytest

from support import module

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python",
                        "examples")


@pytest.mark.skipif(not module("torch"), reason="torch is not here, or too old")
def test_a_tiny_network_learns():
    program = os.path.join(EXAMPLES, "train_tiny.py")
    ended = subprocess.run([sys.executable, "-B", program],
                           capture_output=True,
                           text=True,
                           check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "epoch 5: loss" in ended.stdout
    assert "Warning" not in ended.stderr
