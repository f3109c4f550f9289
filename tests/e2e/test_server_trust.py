"""Health that means it, queues that end, keys that are asked for, and an orderly end."""

import contextlib
import fcntl
import http.client
import json
import os
import select
import signal
import socket
import threading
import time

import pytest

from ringkeep_cli import fails, run
from serving import Server, parse_response

LONG = {"prompt": "x", "max_tokens": 1000, "ignore_eos": True, "temperature": 0}


class Asking(threading.Thread):
    """A request on a thread of its own."""

    def __init__(self, server, body, path="/v1/completions"):
        super().__init__()
        self.server, self.body, self.path, self.reply = server, body, path, None
        self.start()

    def run(self):
        try:
            self.reply = self.server.post(self.path, self.body)
        except (OSError, http.client.HTTPException):
            self.reply = None  # the server ended without an answer


def test_health_while_loading(demo):
    """It listens before the model is there, and says so; a failed load ends the process."""
    with Server(demo, ready=False) as server:
        replies = [server.get(path) for path in ("/health", "/v1/models", "/kv")]
        replies.append(server.post("/v1/completions", {"prompt": "x"}))
        if replies[0].status == 503:  # the machine may have been quicker
            assert replies[0].json["status"] == "loading"
            assert replies[0].error["code"] == "loading"
        server.wait_ready()
        assert server.get("/health").json == {"status": "ok"}


@pytest.mark.parametrize("what, code", [("missing.gguf", 4), ("bad.gguf", 4)])
def test_a_failed_load_ends_the_process(tmp_path, what, code):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF nonsense")
    fails(code, "serve", tmp_path / what, "--port", 0, mentions=[what])


def test_refusals_before_anything_runs(chat_model, tmp_path):
    fails(3, "serve", chat_model, "--port", 0, "--max-kv-size", 64, "--keep", 64)
    fails(2, "serve", chat_model, "--port", 0, "--host", "0.0.0.0", mentions=["--api-key"])
    fails(2, "serve", chat_model, "--port", 0, "--api-key", "two words", mentions=["--api-key"])
    fails(2, "serve", chat_model, "--port", 0, "--temp", -1)
    fails(2, "serve", chat_model, "--port", 0, "--host", "no.such.host.invalid")
    (tmp_path / "empty").write_text("# nothing\n")
    fails(4, "serve", chat_model, "--port", 0, "--api-key-file", tmp_path / "empty")
    (tmp_path / "bad.jinja").write_text("{% for %}")
    stderr = fails(4, "serve", chat_model, "--port", 0, "--chat-template", tmp_path / "bad.jinja")
    assert "line 1" in stderr
    early = run("serve", chat_model, "--port", 0, "--json", "--kv-bits", "q8_0")
    assert early.returncode == 2 and early.stdout == b""  # said before anyone is told a port
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        fails(1, "serve", chat_model, "--port", port, mentions=[port])


def test_beyond_loopback_with_a_key(chat_model):
    with Server(chat_model, "--host", "0.0.0.0", env={"RINGKEEP_API_KEY": "k1"}, key="k1") as server:
        assert server.get("/v1/models").status == 200
        assert server.get("/v1/models", headers={"Authorization": "Bearer k2"}).status == 401
    with Server(chat_model, "--host", "0.0.0.0", "--allow-unauthenticated") as server:
        assert server.get("/v1/models").status == 200


def test_a_template_that_cannot_be_read(tmp_path):
    """Raw completions work, chats are refused with the place in the template (case 3.3)."""
    from chat_model import write_chat_model
    model = write_chat_model(tmp_path / "odd", template="{{ bos_token }}\n{% frobnicate %}")
    with Server(model) as server:
        assert server.complete("x", max_tokens=1)
        error = server.refused("/v1/chat/completions",
                               {"messages": [{"role": "user", "content": "x"}]}, status=400)
        assert error["param"] == "messages" and "line 2" in error["message"]


def test_no_template(plain_model):
    with Server(plain_model) as server:
        error = server.refused("/v1/chat/completions",
                               {"messages": [{"role": "user", "content": "x"}]})
        assert error["code"] == "no_chat_template" and "--chat-template" in error["message"]
    with Server(plain_model, "--chat-template", "plain", "--alias", "a", "--alias", "b") as server:
        reply = server.chat({"role": "user", "content": "hi"}, max_tokens=1, return_token_ids=True,
                            model="b")
        assert bytes(reply["choices"][0]["prompt_token_ids"][1:]) == b"User: hi\nAssistant:"
        assert [m["id"] for m in server.get("/v1/models").json["data"]] == ["a", "b"]
        error = server.refused("/v1/completions", {"model": "c", "prompt": "x"}, status=404)
        assert error["message"] == 'there is no model "c" here, but a, b'


def test_the_queue_is_bounded(chat_model):
    """One runs, two wait, the fourth is told when to come back; those that wait get their answers."""
    with Server(chat_model, "--parallel", 1, "--max-queue", 2, "--threads", 1,
                fault="slow:5") as server:
        body = {**LONG, "max_tokens": 100}
        asking = []
        for i in range(3):
            asking.append(Asking(server, body))
            server.wait_for(lambda: len(server.kv()["sequences"]) == i + 1, what=f"{i + 1} open")
        reply = server.post("/v1/completions", body)
        assert reply.status == 429 and reply.error["code"] == "queue_full"
        assert 1 <= int(reply.headers["Retry-After"]) <= 120
        # What can never fit is not worth coming back for.
        assert server.post("/v1/completions", {**body, "n": 4}).status == 400
        server.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "n": 4}, "n")
        metrics = server.metrics()
        assert metrics["ringkeep_requests_running"] == 1
        assert metrics["ringkeep_requests_waiting"] == 2
        for each in asking:
            each.join()
            assert each.reply.status == 200
        assert server.post("/v1/completions", {**body, "max_tokens": 1}).status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_dying_engine(chat_model, stream):
    """Every open request ends with an error, health says so, and the process ends with 1."""
    with Server(chat_model, "--threads", 1, fault="throw:20") as server:
        with contextlib.closing(server.connect()) as connection:
            connection.sendall(server.raw_post("/v1/completions", {**LONG, "stream": stream}))
            connection.settimeout(10)
            data = b""
            while b'"error"' not in data:
                data += connection.recv(65536)
        if stream:
            assert data.startswith(b"HTTP/1.1 200") and b"a fault that was asked for" in data
            assert b"[DONE]" not in data
        else:
            reply, _ = parse_response(data)
            assert reply.status == 503 and reply.error["code"] == "engine_dead"
        health = server.get("/health")
        assert health.status == 503 and health.json["status"] == "engine_dead"
        assert server.post("/v1/completions", LONG).status == 503
        assert server.end() == 1


def test_an_engine_that_stands_still(chat_model):
    """Open requests end with an error in time, health says so; it recovers when the engine does."""
    with Server(chat_model, "--threads", 1, "--stall-timeout", 1, fault="stall:5:4") as server:
        begin = time.monotonic()
        reply = server.post("/v1/completions", LONG)
        assert reply.status == 503 and reply.error["code"] == "engine_stalled"
        assert time.monotonic() - begin < 4
        assert server.get("/health").json["status"] == "engine_stalled"
        assert server.post("/v1/completions", LONG).status == 503
        server.wait_for(lambda: server.get("/health").status == 200, 10, "recovery")
        server.wait_idle()
        assert server.complete("x", max_tokens=1)


def test_a_stopped_process_is_not_a_dead_engine(chat_model):
    """SIGSTOP longer than the stall time-out: the request goes on afterwards."""
    with Server(chat_model, "--threads", 1, "--stall-timeout", 1, fault="slow:10") as server:
        asking = Asking(server, {**LONG, "max_tokens": 50})
        server.wait_for(lambda: server.kv()["sequences"], what="running")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        server.process.send_signal(signal.SIGCONT)
        asking.join()
        assert asking.reply.status == 200


def test_drain(chat_model, tmp_path):
    """What runs is finished, what is new is refused, health says 503, the exit code is 0."""
    with Server(chat_model, "--threads", 1, fault="slow:10", log=tmp_path / "log") as server:
        with contextlib.closing(server.connect()) as idle:
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"ok" in idle.recv(1000)
            asking = Asking(server, {**LONG, "max_tokens": 100})
            server.wait_for(lambda: server.kv()["sequences"], what="running")
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: server.get("/health").status == 503, what="draining")
            assert server.get("/health").json["status"] == "draining"
            refused = server.post("/v1/completions", LONG)
            assert refused.status == 503 and refused.error["code"] == "draining"
            assert idle.recv(10) == b""  # idle connections end
            asking.join()
            assert asking.reply.status == 200
            assert asking.reply.json["usage"]["completion_tokens"] == 100
            assert server.end() == 0
    assert "cut_short=no" in server.log_text()


def test_drain_does_not_wait_for_ever(chat_model):
    with Server(chat_model, "--threads", 1, "--drain-timeout", 0.5, fault="slow:20") as server:
        asking = Asking(server, LONG)
        server.wait_for(lambda: server.kv()["sequences"], what="running")
        assert server.stop() == 1
        asking.join()
        assert asking.reply.status == 503


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_the_second_signal_does_not_wait(chat_model, first):
    ignored = signal.signal(first, signal.SIG_DFL)  # as under nohup, where it is for the server, too
    try:
        server = Server(chat_model, "--threads", 1, fault="slow:20")
    finally:
        signal.signal(first, ignored)
    with server:
        asking = Asking(server, {**LONG, "stream": True})
        server.wait_for(lambda: server.kv()["sequences"], what="running")
        server.process.send_signal(first)
        server.wait_for(lambda: server.get("/health").status == 503, what="draining")
        server.process.send_signal(signal.SIGINT)
        assert server.end() == 130
        asking.join()


def test_logs(chat_model, tmp_path):
    """One JSON object a line, with what a request cost, and nothing of what it said."""
    with Server(chat_model, "--log-format", "json", log=tmp_path / "log") as server:
        server.post("/v1/completions", {"prompt": "a secret prompt", "max_tokens": 3,
                                        "ignore_eos": True}, headers={"X-Request-Id": "r-1"})
        server.get("/health?key=a-secret-query")
        server.stop()
    text = server.log_text()
    assert "secret" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level"} <= set(line) for line in lines)
    assert {"listening", "ready", "request", "draining", "stopped"} <= {l.get("event") for l in lines}
    request = next(line for line in lines if line.get("id") == "r-1")
    assert request["status"] == 200 and request["completion_tokens"] == "3"
    assert request["prompt_tokens"] == str(1 + len("a secret prompt"))


def test_a_log_that_nobody_reads(chat_model, tmp_path):
    """A full pipe holds nothing up; what was lost is said once there is room."""
    os.mkfifo(tmp_path / "log")
    pipe = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    with Server(chat_model, "--threads", 1, log=tmp_path / "log") as server:
        for _ in range(100):
            assert server.get("/v1/models", timeout=10).status == 200
        assert server.complete("x", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2
        kept = os.read(pipe, 1 << 16).decode()
        assert kept.count("/v1/models") < 100 and "dropped" not in kept
        server.get("/v1/models")
        assert select.select([pipe], [], [], 20)[0]  # a line follows its response
        assert "log lines were dropped" in os.read(pipe, 1 << 16).decode()
        for _ in range(100):
            server.get("/v1/models", timeout=10)
        assert server.stop() == 0
    os.close(pipe)


def test_logged_paths_are_ascii(chat_model, tmp_path):
    for flags in (("--log-format", "json"), ()):
        with Server(chat_model, "--threads", 1, *flags, log=tmp_path / "log") as server:
            with contextlib.closing(server.connect()) as connection:
                connection.sendall(b"GET /\xff\x9b31m\xc2\x9b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                while connection.recv(1000):
                    pass
            server.stop()
        assert server.log_text().isascii() and "\\ufffd\\ufffd31m" in server.log_text()


def test_a_chat_in_a_cache_without_end_ends(chat_model):
    body = {"messages": [{"role": "user", "content": "x"}], "ignore_eos": True}
    with Server(chat_model, "--threads", 1, "--max-kv-size", 128, "--keep", 4, "--ctx", 300) as server:
        reply = server.post("/v1/chat/completions", body).json
        assert reply["choices"][0]["finish_reason"] == "length" and reply["usage"]["completion_tokens"] == 300
        assert server.chat(*body["messages"], ignore_eos=True, max_tokens=400)["usage"]["completion_tokens"] == 400
    with Server(chat_model, "--threads", 1, "--max-kv-size", 128, "--ctx", 300, "--max-tokens", 20) as server:
        assert server.post("/v1/chat/completions", body).json["usage"]["completion_tokens"] == 20


def test_metrics(chat_model):
    """Counts that agree with what was asked."""
    with Server(chat_model, "--threads", 1) as server:
        for _ in range(2):
            server.complete("metrics!", max_tokens=5, ignore_eos=True)
        server.refused("/v1/completions", {"prompt": 5})
        metrics = server.metrics()
        assert metrics['ringkeep_replies_total{finish="length"}'] == 2
        assert metrics['ringkeep_tokens_total{kind="generated"}'] == 10
        assert metrics['ringkeep_tokens_total{kind="prompt"}'] == 18
        assert metrics['ringkeep_tokens_total{kind="cached"}'] == 8
        assert metrics["ringkeep_prefix_hits_total"] == 1
        assert metrics["ringkeep_time_to_first_token_seconds_count"] == 2
        assert metrics["ringkeep_inter_token_seconds_count"] == 8
        assert metrics["ringkeep_request_seconds_count"] == 2
        assert metrics["ringkeep_batch_rows_sum"] == metrics["ringkeep_batch_rows_count"] == 10
        assert metrics["ringkeep_healthy"] == 1
        path = 'method="POST",route="/v1/completions",status='
        assert metrics['ringkeep_http_requests_total{' + path + '"200"}'] == 2
        assert metrics['ringkeep_http_requests_total{' + path + '"400"}'] == 1
        pages = {name: value for name, value in metrics.items() if name.startswith("ringkeep_kv_pages")}
        assert len(pages) == 4 * len(server.kv()["groups"])


def test_the_live_cache(chat_model):
    """The page lists of what runs are those that the groups count."""
    with Server(chat_model, "--threads", 1, "--prefix-cache-bytes", 0, fault="slow:10") as server:
        asking = Asking(server, {"prompt": "x" * 200, "max_tokens": 60, "ignore_eos": True})
        server.wait_for(lambda: server.kv()["sequences"]
                        and server.kv()["sequences"][0]["state"] == "decoding", what="decoding")
        kv = server.kv()
        sequence = kv["sequences"][0]
        assert sequence["prompt_tokens"] == 201 and sequence["length"] >= 201
        assert len(sequence["pages"]) == len(kv["groups"])
        for group, pages in zip(kv["groups"], sequence["pages"]):
            assert len(set(pages)) == len(pages) == group["pages_used"]
            bound = 1 if group["window"] is None else None
            if bound:
                assert len(pages) == -(-sequence["length"] // 64)
            else:  # the window of 32 tokens, and what a step needs
                assert len(pages) <= 2
            assert group["bytes_used"] == len(pages) * group["bytes_per_page"]
        assert kv["totals"]["bytes_used"] == sum(group["bytes_used"] for group in kv["groups"])
        asking.join()
        server.wait_idle()
        assert server.kv()["totals"]["bytes_used"] == 0


def test_the_page(server):
    page = server.get("/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    again = server.get("/", headers={"If-None-Match": page.headers["ETag"]})
    assert again.status == 304 and again.body == b""
    script = server.get("/app.js")
    assert script.status == 200 and "javascript" in script.headers["Content-Type"]


def test_demo(demo_server):
    """The demo model through its named template: the same prompt twice is reused (case 2.10), and
    the reply is the same."""
    text = "The wheel turns and the ring keeps what it can hold. " * 150
    ask = lambda *more: demo_server.chat({"role": "user", "content": text}, *more, max_tokens=8)
    first, second = ask(), ask()
    assert first["usage"]["prompt_tokens"] > 1500
    cached = lambda reply: reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached(second) == second["usage"]["prompt_tokens"] - 1
    said = first["choices"][0]["message"]["content"]
    assert second["choices"][0]["message"]["content"] == said
    third = ask({"role": "assistant", "content": said}, {"role": "user", "content": "Go on."})
    assert cached(third) >= 1024
