"""Two replicas behind the proxy configurations of deploy/, with Debian's nginx and HAProxy."""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from ringkeep_cli import ROOT
from serving import Server

PROXIES = ["nginx", "haproxy"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(name):
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin")
    if not found:
        pytest.skip(f"{name} is not installed: run scripts/setup.sh test")
    return found


def settled(text, port, replicas):
    """The configuration with our ports in place of those it is written with."""
    for written, server in zip(("8081", "8082"), replicas):
        assert text.count(f"127.0.0.1:{written}") == 1
        text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{server.port}")
    text, count = re.subn(r"(listen |bind :)8080\b", lambda m: m[1].replace(":", "127.0.0.1:") + (
        f"127.0.0.1:{port}" if m[1].startswith("listen") else str(port)), text)
    assert count == 1
    return text


class Proxy:
    def __init__(self, name, folder, replicas):
        binary, self.port = program(name), free_port()
        if name == "nginx":
            config = settled((ROOT / "deploy/nginx/ringkeep.conf").read_text(), self.port, replicas)
            (folder / "ringkeep.conf").write_text(config)
            (folder / "nginx.conf").write_text(
                "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\n"
                "access_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path f;\n"
                "uwsgi_temp_path u;\nscgi_temp_path s;\ninclude ringkeep.conf;\n}\n")
            command = [binary, "-p", str(folder), "-c", "nginx.conf"]
        else:
            config = settled((ROOT / "deploy/haproxy/haproxy.cfg").read_text(), self.port, replicas)
            (folder / "haproxy.cfg").write_text(config)
            command = [binary, "-db", "-f", str(folder / "haproxy.cfg")]
        self.log = open(folder / "proxy.log", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.log_path = folder / "proxy.log"

    def wait(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log_path.read_text()
            with contextlib.suppress(OSError):
                if self.request("GET", "/health")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log_path.read_text()}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, method, path, body=None, **headers):
        with contextlib.closing(self.connect()) as connection:
            data = json.dumps(body).encode() if body is not None else None
            if data:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, body=data, headers={k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return response.status, response.read()

    def complete(self, conversation=None, **fields):
        headers = {"X_Conversation_Id": conversation} if conversation else {}
        status, body = self.request("POST", "/v1/completions", {"prompt": "Hello", "max_tokens": 1, **fields}, **headers)
        assert status == 200, body
        return json.loads(body)

    def __enter__(self):
        self.wait()
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()


@pytest.fixture(params=PROXIES)
def cluster(request, chat_model, tmp_path):
    """(proxy, its two replicas)."""
    program(request.param)
    # Slow steps, so that a stream lasts.
    flags = ("--ctx", 1024, "--parallel", 4, "--threads", 1)
    with Server(chat_model, *flags, fault="slow:10") as a, Server(chat_model, *flags, fault="slow:10") as b:
        with Proxy(request.param, tmp_path, [a, b]) as proxy:
            yield proxy, [a, b]


def prompts(server):
    """Prompt tokens that a replica has been given."""
    return server.kv()["totals"]["prompt_tokens"]


def served_by(replicas, work):
    """Which replica did the work, and what came of it."""
    before = [prompts(server) for server in replicas]
    result = work()
    end = time.monotonic() + 5  # /kv may be a little behind
    while not (moved := [i for i, server in enumerate(replicas) if prompts(server) > before[i]]):
        assert time.monotonic() < end, "no replica took part"
    assert len(moved) == 1, f"replicas {moved} took part"
    return moved[0], result


def test_a_conversation_stays_with_its_replica(cluster):
    proxy, replicas = cluster
    home = {}
    for i in range(16):
        name = f"conversation-{i}"
        home[name], _ = served_by(replicas, lambda: proxy.complete(name))
    assert set(home.values()) == {0, 1}  # both have work
    for name, replica in home.items():
        again, reply = served_by(replicas, lambda: proxy.complete(name, prompt="Hello, and then more"))
        assert again == replica
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    # Without a conversation it is the key that decides.
    keys = {}
    for i in range(12):
        key = f"Bearer key-{i}"
        keys[key] = {served_by(replicas, lambda: proxy.request(
            "POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 1}, Authorization=key))[0] for _ in range(2)}
    assert all(len(where) == 1 for where in keys.values()) and len(set.union(*keys.values())) == 2


def test_haproxy_reads_the_fields_of_the_api(chat_model, tmp_path):
    program("haproxy")
    flags = ("--ctx", 512, "--threads", 1)
    with Server(chat_model, *flags) as a, Server(chat_model, *flags) as b:
        with Proxy("haproxy", tmp_path, [a, b]) as proxy:
            for field in ("prompt_cache_key", "user"):
                where = {}
                for i in range(12):
                    where[i] = {served_by([a, b], lambda: proxy.complete(**{field: f"{field}-{i}"}))[0] for _ in range(2)}
                assert all(len(one) == 1 for one in where.values()) and len(set.union(*where.values())) == 2


def test_a_stream_is_not_kept_back(cluster):
    proxy, replicas = cluster
    with contextlib.closing(proxy.connect()) as connection:
        body = {"prompt": "Go on", "max_tokens": 200, "temperature": 0, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", body=json.dumps(body), headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        first = response.readline()
        assert first.startswith(b"data: ")
        # It is here while the replica is still at work: 200 slow steps take two seconds, and what /kv
        # tells is a tenth of a second old.
        end = time.monotonic() + 1.5
        while not any(server.kv()["sequences"] for server in replicas):
            assert time.monotonic() < end, "the stream came when it was over"
            time.sleep(0.02)
        text = first + response.read()
        assert text.rstrip().endswith(b"data: [DONE]") and text.count(b"data: ") > 50


def test_a_client_that_leaves_frees_its_sequence(cluster):
    proxy, replicas = cluster
    with contextlib.closing(proxy.connect()) as connection:
        body = {"prompt": "Go on", "max_tokens": 900, "temperature": 0, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", body=json.dumps(body), headers={"Content-Type": "application/json"})
        assert connection.getresponse().readline().startswith(b"data: ")
    for server in replicas:
        server.wait_idle()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_another_replica_takes_over(cluster, how):
    proxy, replicas = cluster
    names = [f"conversation-{i}" for i in range(12)]
    home = {name: served_by(replicas, lambda: proxy.complete(name))[0] for name in names}
    assert set(home.values()) == {0, 1}
    replicas[0].process.send_signal(how)
    if how == signal.SIGKILL:
        replicas[0].process.wait(10)
    before = prompts(replicas[1])
    with concurrent.futures.ThreadPoolExecutor(6) as pool:  # no request fails, at once or later
        list(pool.map(proxy.complete, names * 2))
    replicas[0].end(40)
    for name in names:
        proxy.complete(name)
    assert prompts(replicas[1]) > before


def test_what_is_a_replicas_own_stays_there(cluster):
    proxy, _ = cluster
    assert proxy.request("GET", "/kv")[0] == proxy.request("GET", "/metrics")[0] == 404
    status, page = proxy.request("GET", "/")
    assert status == 200 and b"<!doctype html>" in page
    status, body = proxy.request("POST", "/v1/completions", {"prompt": "x", "nonsense": 1})
    assert status == 400 and json.loads(body)["error"]["param"] == "nonsense"  # errors come through


def test_the_unit_is_accepted_by_systemd(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = (ROOT / "deploy/systemd/ringkeep.service").read_text().replace("/usr/local/bin/ringkeep", "/bin/true")
    (tmp_path / "ringkeep.service").write_text(unit)
    checked = subprocess.run(["systemd-analyze", "verify", str(tmp_path / "ringkeep.service")], capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stderr == "", checked.stderr


def test_the_health_check_of_the_image(chat_model):
    check = pathlib.Path(ROOT / "deploy/docker/healthcheck")
    with Server(chat_model, "--ctx", 512) as server:
        run = lambda port: subprocess.run([check], env={"RINGKEEP_PORT": str(port)}, capture_output=True).returncode
        assert run(server.port) == 0
        assert run(free_port()) == 1
