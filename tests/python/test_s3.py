# SPDX-License-Identifier: Apache-2.0
"""Datasets in S3, of moto's server, which checks signatures with botocore's signer.

To run it: pip install pytest 'moto[server]' boto3.
"""
import functools
import json
import os
import subprocess
import threading
import time
import urllib.request

import pytest

import millrace as mr

from support import write_tar

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
pytestmark = pytest.mark.skipif(not os.environ.get("MR_SERVE_FOLDER"),
                                reason="the library is built without libcurl")

BUCKET, FOLDER = "train", "a b+c=%2B&ä~'(*)!/../d"
ALLOW = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
TRUST = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}]})
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def control(url, path, body):
    urllib.request.urlopen(urllib.request.Request(
        f"{url}/moto-api/{path}", body, {"Content-Type": "text/plain"})).close()


@pytest.fixture(scope="module")
def store(images, tmp_path_factory):
    """A folder with a pack, two shards and the images as files; the URL of its copy in S3; the keys
    of a user, and those of a session.
    """
    folder, dataset = tmp_path_factory.mktemp("local"), mr.Dataset(images)
    shards = [{}, {}]
    for i in range(len(dataset)):
        path = dataset.name(i)
        name = f"{i:05}{os.path.splitext(path)[1]}"
        with open(path, "rb") as file:
            shards[i // 9 > 0][name] = content = file.read()
        shards[i // 9 > 0][f"{i:05}.cls"] = b"%d" % i
        (folder / name).write_bytes(content)
    for i, members in enumerate(shards):
        write_tar(folder / f"{i:03}.tar", members)
    with open(folder / "list", "w", encoding="ascii") as file:
        file.writelines(f"{name}\t1\n" for members in shards for name in members
                        if not name.endswith(".cls"))
    subprocess.run([os.environ["MR_COMMAND"], "pack", images, folder / "pack"],
                   check=True, capture_output=True)
    server = moto_server.ThreadedMotoServer(port=0)
    server.start()
    url = "http://%s:%d" % server.get_host_and_port()
    try:
        make = functools.partial(boto3.client, endpoint_url=url, region_name="us-east-1",
                                 aws_access_key_id="x", aws_secret_access_key="x")
        make("s3").create_bucket(Bucket=BUCKET)
        for base, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(base, name)
                make("s3").upload_file(path, BUCKET, f"{FOLDER}/{os.path.relpath(path, folder)}")
        iam = make("iam")
        iam.create_user(UserName="user")
        iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=ALLOW)
        user = iam.create_access_key(UserName="user")["AccessKey"]
        role = iam.create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
        iam.put_role_policy(RoleName="role", PolicyName="all", PolicyDocument=ALLOW)
        session = make("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
        escaped = f"{BUCKET}/{FOLDER}".replace("%", "%25").replace("*", "%2A")
        control(url, "reset-auth", b"0")  # from now on, signatures and policies are checked
        yield (str(folder), f"s3://{escaped}", url,
               [user["AccessKeyId"], user["SecretAccessKey"]],
               [session[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")])
    finally:
        control(url, "reset-auth", b"inf")
        server.stop()


@pytest.fixture
def use(store, monkeypatch):
    """Sets the environment: use(key id, secret[, token])."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_NO_SIGN_REQUEST",
                 "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store[2])

    def set_keys(*values):
        for name, value in zip(NAMES, values + (None, ) * 3):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return set_keys


def content(loader):
    return [(batch.index.tolist(), batch.label.tolist(), batch.image.tobytes())
            for _ in range(2) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("spec", [
    "tar:{}/{{000..001}}.tar?index=none", "list:{}/list", "pack:{}/pack"])
def test_bytes_are_those_of_local_files(make_loader, store, use, spec, workers):
    use(*store[3])
    local, remote = (content(make_loader("train:16", spec.format(place), num_workers=workers,
                                         seed=3)) for place in store[:2])
    assert len(local) == 12 and remote == local


def test_a_session_has_a_token(make_loader, store, use):
    use(*store[4])
    assert len(content(make_loader("train:16", f"tar:{store[1]}/000.tar"))) > 0
    use(*store[4][:2])
    with pytest.raises(mr.FileError, match="HTTP 403 "):
        mr.Dataset(f"tar:{store[1]}/001.tar?index=none")


def test_sessions_that_end_in_mid_epoch_are_replaced(make_loader, store, use, monkeypatch,
                                                     tmp_path):
    """moto ends no session, so the test does, at the time that the program of the profile states:
    from then on moto refuses its keys. The answer of that program is a new session every 2 s.
    """
    life_s, sessions, stop = 10, [], threading.Event()
    sts = pytest.importorskip("moto.sts.models").sts_backends["123456789012"]["aws"]
    answer, config = tmp_path / "answer", tmp_path / "config"

    def begin_session():
        end_s = int(time.time()) + life_s
        role = sts.assume_role(region_name="us-east-1", role_session_name="short",
                               role_arn="arn:aws:iam::123456789012:role/role", policy="",
                               duration=life_s, external_id="")
        (tmp_path / "new").write_text(json.dumps({
            "Version": 1, "AccessKeyId": role.access_key_id,
            "SecretAccessKey": role.secret_access_key, "SessionToken": role.session_token,
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end_s))}))
        os.replace(tmp_path / "new", answer)
        sessions.append((end_s, role))

    def begin_and_end_sessions():
        while not stop.wait(2):
            begin_session()
            while sessions[0][0] <= time.time():
                sts.assumed_roles.remove(sessions.pop(0)[1])

    config.write_text(f"[default]\ncredential_process = cat '{answer}'\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    use()
    begin_session()
    first, thread = sessions[0][1], threading.Thread(target=begin_and_end_sessions)
    local, remote = (make_loader("train:16", f"tar:{place}/{{000..001}}.tar?index=none",
                                 num_workers=2, seed=3) for place in store[:2])
    thread.start()
    try:
        end_s = time.monotonic() + 1.5 * life_s
        while time.monotonic() < end_s:
            assert content(remote) == content(local)
    finally:
        stop.set()
        thread.join()
    assert first not in sts.assumed_roles


def test_refusals_have_the_stores_word_and_no_secret(store, use):
    (key, secret), spec = store[3], f"tar:{store[1]}/000.tar?index=none"
    use(key, "planted" + secret[7:])
    with pytest.raises(mr.FileError, match=r"HTTP 403 .*\(SignatureDoesNotMatch\)$") as raised:
        mr.Dataset(spec)
    assert "planted" not in str(raised.value) and key not in str(raised.value)
    use("AKIAUNKNOWN", secret)
    with pytest.raises(mr.FileError, match=r"HTTP 403 .*\(InvalidAccessKeyId\)$"):
        mr.Dataset(spec)
    use()
    with pytest.raises(mr.FileError, match="not signed: no AWS credentials were found"):
        mr.Dataset(spec)
    use(key, secret)
    with pytest.raises(mr.FileError, match=r"HTTP 404 .*\(NoSuchKey\)$"):
        mr.Dataset(f"tar:{store[1]}/none.tar")
    with pytest.raises(mr.FileError, match=r"HTTP 404 .*\(NoSuchBucket\)$"):
        mr.Dataset("tar:s3://no-such-bucket/000.tar")


def test_a_shard_that_is_replaced_is_named(make_loader, store, use):
    use(*store[3])
    folder, _, url, (key, secret), _ = store
    s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key,
                      aws_secret_access_key=secret)
    s3.upload_file(f"{folder}/000.tar", BUCKET, "replaced.tar")
    loader = make_loader("train:16", f"tar:s3://{BUCKET}/replaced.tar")
    s3.upload_file(f"{folder}/001.tar", BUCKET, "replaced.tar")
    with pytest.raises(mr.DamagedError, match=r"s3://train/replaced.tar/0000\d.* changed since"):
        content(loader)
