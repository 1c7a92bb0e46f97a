# SPDX-License-Identifier: Apache-2.0
"""The examples of the package do what they say."""
import os
import subprocess
import sys
import unittest

import support

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "examples")


class ExampleTest(unittest.TestCase):
    @unittest.skipUnless(support.module("torch"), "torch is not here")
    def test_a_tiny_network_learns(self):
        program = os.path.join(EXAMPLES, "train_tiny.py")
        ended = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("epoch 5: loss", ended.stdout)
        self.assertNotIn("Warning", ended.stderr)


if __name__ == "__main__":
    support.main()
