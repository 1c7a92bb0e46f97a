# SPDX-License-Identifier: Apache-2.0
"""The command `millrace`: python -m millrace, and the script that pip installs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the package's program, or that of $MILLRACE_COMMAND, in place of this process."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "millrace")
    if not os.path.exists(path):
        path = os.environ.get("MILLRACE_COMMAND", "")
    if not path:
        sys.exit("millrace: this package has no program; set MILLRACE_COMMAND to the path of one, "
                 "such as build/release/tools/millrace")
    os.execv(path, ["millrace", *sys.argv[1:]])


if __name__ == "__main__":
    main()
