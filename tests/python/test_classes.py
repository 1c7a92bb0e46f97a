# SPDX-License-Identifier: Apache-2.0
"""The table of torchvision's classes in docs/recipes.md says what the installed torchvision's
classes become."""
import pytest

from support import module

if not all(map(module, ("numpy", "torch", "torchvision"))):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

import class_table


@pytest.fixture(scope="module")
def written():
    """The cells of each row in the document, by class."""
    with open(class_table.PAGE, encoding="utf-8") as file:
        table = file.read().partition(class_table.HEAD)[2].partition("\n\n")[0]
    lines = (line[2:-2].split(" | ") for line in table.splitlines())
    return {cells[0]: cells for cells in lines}


def test_the_table_has_every_class(written):
    n = 0
    for cells in class_table.rows():
        found = written[cells[0]]
        for mine, other in zip(cells[1:3], found[1:3]):
            assert mine in (other, "–"), cells
        assert cells[3] in found[3], cells
        n += 1
    assert n >= 39
    if class_table.v2:
        assert list(written.values()) == list(class_table.rows())


def test_torch_loads_no_class_without_a_reason(written):
    for cells in written.values():
        assert cells[3] and ("torch" in cells) == ("`" not in cells[3]), cells
