# SPDX-License-Identifier: Apache-2.0
"""Datasets behind nginx: ranges, TLS, limits, and a proxy. Skipped without nginx and openssl."""
import os
import shutil
import socket
import subprocess
import time

import pytest

import millrace as mr

from support import write_tar

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.skipif(not os.environ.get("MR_RUN_PROXY"),
                       reason="the library is built without libcurl"),
    pytest.mark.skipif(not NGINX, reason="nginx is not installed"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")]
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

# Access to the folder: as the user who runs the tests, which nginx asks of root alone.
CONFIGURATION = """{user}
daemon off; pid nginx.pid; error_log stderr crit; worker_processes 2;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;
  uwsgi_temp_path t; scgi_temp_path t;
  limit_req_zone $server_name zone=few:32k rate=40r/s;
  server {{
    listen 127.0.0.1:{plain}; root data;
    location /short/ {{ alias data/; keepalive_requests 2; }}
    location /limited/ {{ alias data/; limit_req zone=few burst=2 nodelay; }}
    location /slow/ {{ alias data/; limit_rate 1m; }}
  }}
  server {{
    listen 127.0.0.1:{tls} ssl; root data;
    ssl_certificate certificate.pem; ssl_certificate_key key.pem;
    location /down/ {{ return 302 http://127.0.0.1:{plain}/000.tar; }}
  }}
}}
"""


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(port, process):
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def start(folder):
    """nginx at free ports, which another program may have taken meanwhile."""
    for _ in range(5):
        plain, tls = free_ports(2)
        user = "user root root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(
            CONFIGURATION.format(user=user, plain=plain, tls=tls), encoding="ascii")
        process = subprocess.Popen([NGINX, "-p", folder, "-c", "nginx.conf"])
        if wait_for(plain, process):
            return process, plain, tls
    raise RuntimeError("nginx does not start")


@pytest.fixture(scope="module")
def nginx(images, tmp_path_factory):
    """The folder that nginx serves, and its two ports."""
    folder, dataset = tmp_path_factory.mktemp("nginx"), mr.Dataset(images)
    (folder / "data").mkdir()
    members = {}
    for i in range(len(dataset)):
        with open(dataset.name(i), "rb") as file:
            members[f"{i:05}{os.path.splitext(dataset.name(i))[1]}"] = file.read()
        members[f"{i:05}.cls"] = b"%d" % i
    write_tar(folder / "data" / "000.tar", members)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:data.invalid", "-keyout",
         folder / "key.pem", "-out", folder / "certificate.pem"], check=True, capture_output=True)
    process, plain, tls = start(folder)
    yield folder, plain, tls
    process.terminate()
    process.wait()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def content(make_loader, place, **options):
    loader = make_loader("train:16", f"tar:{place}/000.tar?index=none", seed=3, n_epochs=2,
                         **options)
    return [(batch.index.tolist(), batch.label.tolist(), batch.image.tobytes())
            for _ in range(2) for batch in loader]


@pytest.mark.parametrize("location", ["", "/short", "/slow"])
def test_ranges_have_the_bytes_of_the_file(make_loader, nginx, location):
    folder, plain, _ = nginx
    wanted = content(make_loader, f"{folder}/data")
    assert len(wanted) == 12
    assert content(make_loader, f"http://127.0.0.1:{plain}{location}") == wanted


def test_requests_that_nginx_refuses_for_a_while_are_made_again(make_loader, nginx):
    folder, plain, _ = nginx
    found = content(make_loader, f"http://127.0.0.1:{plain}/limited", read_ahead=16)
    assert found == content(make_loader, f"{folder}/data")


def test_tls_needs_the_authority_of_the_certificate(make_loader, nginx, monkeypatch):
    folder, _, tls = nginx
    with pytest.raises(mr.FileError, match="certificate"):
        content(make_loader, f"https://127.0.0.1:{tls}")
    for name in "CURL_CA_BUNDLE", "SSL_CERT_FILE":
        with monkeypatch.context() as context:
            context.setenv(name, str(folder / "certificate.pem"))
            found = content(make_loader, f"https://127.0.0.1:{tls}")
            assert found == content(make_loader, f"{folder}/data")
            with pytest.raises(mr.FileError, match="localhost"):  # the certificate's is another
                content(make_loader, f"https://localhost:{tls}")


def test_a_redirect_from_tls_to_plain_http_is_refused(make_loader, nginx, monkeypatch):
    folder, _, tls = nginx
    monkeypatch.setenv("CURL_CA_BUNDLE", str(folder / "certificate.pem"))
    begin = time.monotonic()
    with pytest.raises(mr.FileError, match="000.tar: Protocol \"http\" not supported|disabled"):
        content(make_loader, f"https://127.0.0.1:{tls}/down")
    assert time.monotonic() - begin < 9  # opening tries for 10 s what may pass


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_of_the_environment_is_used(make_loader, nginx, monkeypatch, scheme):
    folder, plain, tls = nginx
    monkeypatch.setenv("CURL_CA_BUNDLE", str(folder / "certificate.pem"))
    upstream = str(tls if scheme == "https" else plain)
    with subprocess.Popen([os.environ["MR_RUN_PROXY"], upstream], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{proxy.stdout.readline().strip()}")
        found = content(make_loader, f"{scheme}://data.invalid")  # a name that no machine has
        proxy.stdin.close()
        assert int(proxy.stdout.read().split()[0]) >= 2  # connections
    assert found == content(make_loader, f"{folder}/data")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    port = tls if scheme == "https" else plain
    assert content(make_loader, f"{scheme}://127.0.0.1:{port}") == found
