#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_quotes.py ROOT DOCUMENT...: checks that code which a document quotes is in the file that it
names.

A block of code after a line <!-- FILE --> is a quotation: ROOT/FILE must contain it, apart from
indentation and line breaks; a line of three points leaves something out. A document whose marks are
misspelt would pass without a check, so each document must have at least one quotation.
"""

import re
import sys


def quotations(document):
    """(line number, file, lines) of each."""
    name, number, block = None, 0, None
    for at, line in enumerate(open(document, encoding="utf-8").read().splitlines(), 1):
        if block is not None and line.strip() == "```":
            yield number, name, block
            name, block = None, None
        elif block is not None:
            block.append(line.strip())
        elif name and line.startswith("```"):
            number, block = at, []
        else:
            match = re.fullmatch(r"<!-- (\S+) -->", line.strip())
            name = match.group(1) if match else name


def squeeze(text):
    """Without blanks and line breaks, because clang-format may break lines elsewhere."""
    return "".join(text.split())


def missing(block, code):
    """The first line of the first part of the block that the code does not contain after the
    earlier parts.
    """
    start, part = 0, []
    for line in block + ["..."]:
        if line != "...":
            part.append(line)
            continue
        text = squeeze("".join(part))
        start = code.find(text, start)
        if start < 0:
            return part[0]
        start, part = start + len(text), []
    return None


def main():
    root, findings = sys.argv[1], 0
    for document in sys.argv[2:]:
        n_quotations = 0
        for number, name, block in quotations(document):
            code = squeeze(open(f"{root}/{name}", encoding="utf-8").read())
            n_quotations += 1
            lost = missing(block, code)
            if lost is not None:
                print(f"{document}:{number}: {name} lacks quoted lines, from: {lost}")
                findings += 1
        print(f"{document}: {n_quotations} quotations")
        findings += n_quotations == 0
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
