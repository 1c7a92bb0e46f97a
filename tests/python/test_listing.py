# SPDX-License-Identifier: Apache-2.0
"""Listings of a store that nobody here wrote: moto's S3 (pip install 'moto[server]' boto3)."""
import os
import pathlib
import shutil
import subprocess

import pytest

import millrace as mr

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto[server] is not installed")

N_MANY = 1234  # more than a page has
ODD_NAMES = ["1.jpg", "10.jpg", "2.jpg", "sub/x.png", "sub-a/x.JPG", "sub/a+b c.jpg", "a%2Fb.jpeg",
             "#?&<>'\".png", "tab\tline.jpg", "\u00fc.webp"]


@pytest.fixture(scope="module")
def store():
    """A client of moto's S3; the environment has the endpoint and the keys."""
    server = moto_server.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
    patch.setenv("AWS_ACCESS_KEY_ID", "PLANTEDKEY")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "plantedsecret")
    patch.setenv("AWS_REGION", "us-east-1")
    patch.setenv("no_proxy", "*")
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield client
    patch.undo()
    server.stop()


@pytest.fixture(scope="module")
def folder(images, tmp_path_factory):
    """Classes with odd names and with more keys than a page has."""
    root, dataset = tmp_path_factory.mktemp("listed"), mr.Dataset(images)
    for i, name in enumerate([*(f"b ird/{name}" for name in ODD_NAMES), "b/1.jpg", "b-x/d/e/1.jpg",
                              *(f"many/{i}.jpg" for i in range(N_MANY))]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(dataset.name(i % len(dataset)), path)
    (root / "b" / "notes.txt").write_text("no image")
    return root


@pytest.fixture(scope="module")
def listed(store, folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.upload_file(str(path), "bucket", f"photos/{path.relative_to(folder)}")
    store.put_object(Bucket="bucket", Key="photos/b/")  # as consoles make folders
    return "s3://bucket/photos/"


def run(*arguments):
    result = subprocess.run([os.environ["MR_COMMAND"], *map(str, arguments)], capture_output=True,
                            text=True, timeout=100, check=False)
    assert "plantedsecret" not in result.stdout + result.stderr
    return result


def test_a_listing_is_the_imagefolder_of_a_copy(make_loader, listed, folder, tmp_path):
    result = run("list", listed, "--save", tmp_path / "list")
    assert result.returncode == 0, result.stderr
    assert "1246 samples, 4 classes" in result.stdout
    assert "not listed: 1 .txt" in result.stderr
    local, remote = mr.Dataset(folder), mr.Dataset(f"list:{tmp_path / 'list'}")
    assert remote.classes == local.classes == ["b", "b ird", "b-x", "many"]
    for i in range(len(local)):
        name = pathlib.Path(local.name(i)).relative_to(folder)
        assert remote.name(i) == f"{listed}{name}"
    content = [[(batch.index.tolist(), batch.label.tolist(), batch.image.tobytes())
                for batch in make_loader("train:16", dataset, num_workers=2, read_ahead=16)]
               for dataset in (local, remote)]
    assert len(content[0]) > 100 and content[0] == content[1]


def test_an_object_that_was_replaced_is_named(make_loader, store, listed, folder, tmp_path):
    assert run("list", listed, "--save", tmp_path / "list").returncode == 0
    store.put_object(Bucket="bucket", Key="photos/b/1.jpg", Body=b"another")
    loader = make_loader("train:16", f"list:{tmp_path / 'list'}", no_shuffle=True, num_workers=0)
    with pytest.raises(mr.DamagedError, match=r"photos/b/1.jpg.*changed since it was listed"):
        next(iter(loader))
    store.upload_file(str(folder / "b" / "1.jpg"), "bucket", "photos/b/1.jpg")


def test_no_classes_and_what_is_missing(store, listed, tmp_path):
    result = run("list", f"{listed}many", "--no-classes", "--save", tmp_path / "list")
    assert result.returncode == 0 and f"{N_MANY} samples" in result.stdout, result.stderr
    result = run("list", f"{listed}many")
    assert result.returncode == 1 and "no image in a class folder" in result.stderr
    result = run("list", "s3://none/photos/")
    assert result.returncode == 1 and "s3://none/photos/: HTTP 404" in result.stderr


def test_check_reports_what_works(store, listed):
    for url in (listed, f"{listed}many/7.jpg"):
        result = run("check", url, "--connections", "4")
        assert result.returncode == 0, result.stderr
        assert "ranges          yes: 206 with the right bytes" in result.stdout
        assert "ETag            strong" in result.stdout
        assert "credentials     environment\nregion          us-east-1\n" in result.stdout
        assert "A loader can use this server." in result.stdout
    result = run("check", f"{listed}none.jpg")
    assert result.returncode == 1 and "HTTP 404" in result.stderr
