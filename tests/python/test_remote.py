# SPDX-License-Identifier: Apache-2.0
"""Datasets at URLs. MR_SERVE_FOLDER serves a folder; without it, libcurl was not there at build
time.
"""
import os
import subprocess

import pytest

import millrace as mr

from support import write_tar

server = os.environ.get("MR_SERVE_FOLDER")
pytestmark = pytest.mark.skipif(not server, reason="the library is built without libcurl")


@pytest.fixture(scope="module")
def places(images, tmp_path_factory):
    """A folder with two shards and the images as files, and its URL."""
    folder, dataset = tmp_path_factory.mktemp("served"), mr.Dataset(images)
    for shard, of_it in enumerate((range(9), range(9, 21))):
        members = {}
        for i in of_it:
            path = dataset.name(i)
            with open(path, "rb") as file:
                content = file.read()
            suffix = os.path.splitext(path)[1]
            members[f"{i:05}{suffix}"] = content
            members[f"{i:05}.cls"] = b"%d" % (100 + i)
            (folder / f"{i:05}.image").write_bytes(content)
        write_tar(folder / f"{shard:03}.tar", members)
    with subprocess.Popen([server, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        yield str(folder), process.stdout.readline().strip()
        process.stdin.close()


def content(loader):
    return [(batch.index.tolist(), batch.label.tolist(), batch.image.tobytes())
            for _ in range(2) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_at_urls_have_the_bytes_of_local_ones(make_loader, places, workers):
    local, remote = (content(make_loader("train:16", f"tar:{place}/{{000..001}}.tar?index=none",
                                         num_workers=workers, seed=3)) for place in places)
    assert len(local) == 12 and remote == local


def test_lists_have_the_bytes_of_local_ones_wherever_they_and_their_files_are(make_loader, places):
    folder, url = places
    for name, prefix in ("paths", ""), ("urls", f"{url}/"):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.writelines(f"{prefix if i % 2 else ''}{i:05}.image\t{i}\n" for i in range(21))
    local, *remote = (content(make_loader("train:16", f"list:{name}"))
                      for name in (f"{folder}/paths", f"{folder}/urls", f"{url}/paths"))
    assert len(local) == 12 and remote == [local, local]


def test_a_shard_that_the_server_lacks_is_named(places):
    with pytest.raises(mr.FileError, match=f"{places[1]}/none.tar: HTTP 404 Not Found"):
        mr.Dataset(f"tar:{places[1]}/none.tar%3Fsig=secret")
