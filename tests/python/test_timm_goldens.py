# SPDX-License-Identifier: Apache-2.0
"""Pixels and orders of timm, from tests/data/timm_loader.json; nothing here needs timm or torch."""
import base64
import json
import os

import pytest

import golden_cases as cases
from support import indices

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def read_json(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return json.load(file)


GOLDEN = read_json("timm_loader.json")


@pytest.fixture(scope="module")
def golden_images(tmp_path_factory):
    where = str(tmp_path_factory.mktemp("golden"))
    cases.write_images(
        {name: base64.b64decode(text) for name, text in read_json("python.json")["images"].items()},
        where)
    return where


@pytest.fixture(scope="module")
def write_records(tmp_path_factory):
    """A dataset of n records of one byte."""
    def write(n):
        path = tmp_path_factory.mktemp("records") / "bytes"
        path.write_bytes(bytes(n))
        return f"records:{path}?bytes=1"

    return write


@pytest.mark.parametrize("text", GOLDEN["pixels"])
def test_evaluations_have_timms_pixels(text, golden_images, make_loader):
    loader = make_loader(text, golden_images, dtype="u8", batch_size=1, no_shuffle=True)
    assert [cases.crc(batch.image.tobytes()) for batch in loader] == GOLDEN["pixels"][text]


@pytest.mark.parametrize("row",
                         GOLDEN["orders"],
                         ids=lambda row: f"{row['sampler']}-{row['world']}-{row['rank']}")
def test_orders_are_timms(row, write_records, make_loader):
    options = {"no_shuffle": True
               } if row["sampler"] == "ordered" else {"repeat": 3, "repeat_form": "timm"}
    loader = make_loader(None,
                         write_records(row["n"]),
                         rank=row["rank"],
                         world_size=row["world"],
                         **options)
    for epoch, order in enumerate(row["orders"]):
        loader.set_epoch(epoch)
        assert indices(loader) == order
