"""The HTTP side under ugly input: raw sockets, limits, keys, browsers, clients that leave."""

import base64
import contextlib
import json
import socket
import threading
import time

import pytest

from serving import Server, parse_response, read_all

KEY = "sesame-0123456789"
ASK = {"prompt": "x", "max_tokens": 1, "temperature": 0}


@pytest.fixture(scope="module")
def strict(chat_model, tmp_path_factory):
    """Small limits, two keys, one allowed origin."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys").write_text("# comment\n\nsecond-key\n")
    with Server(chat_model, "--ctx", 512, "--threads", 1, "--api-key", KEY, "--api-key-file",
                folder / "keys", "--cors-origin", "https://page.example", "--max-connections", 12,
                "--max-body-bytes", 20000, "--header-timeout", 1, "--body-timeout", 1,
                "--idle-timeout", 2, "--write-timeout", 1, key=KEY, log=folder / "log",
                ) as running:
        yield running


def get(path="/health", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def test_routes_and_methods(server):
    assert server.get("/nowhere").error["code"] == "not_found"
    reply = server.get("/v1/chat/completions")
    assert reply.status == 405 and reply.headers["Allow"] == "POST, OPTIONS"
    reply = server.post("/health", {})
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD, OPTIONS"
    head, whole = server.request("HEAD", "/health"), server.get("/health")
    assert head.status == 200 and head.body == b""
    assert head.headers["Content-Length"] == str(len(whole.body))
    assert server.get("/health?x=1").status == 200
    assert server.request("BREW", "/health").status == 405
    assert server.get("/v1/models/").status == 404
    for path, meant in (("/chat/completions", "/v1/chat/completions"), ("/v1/v1/models", "/v1/models"),
                        ("/v1/models/", "/v1/models"), ("/v1/health", "/health")):
        assert server.get(path).error["message"] == f"there is nothing at {path}, but at {meant}"
    for path, advice in (("/completion", "but at /v1/completions"), ("/props", "but at /v1/models and /kv"),
                         ("/v1/responses", "but at /v1/chat/completions"), ("/slots", "but at /kv"),
                         ("/v1/embeddings", "embeddings and ranks are not supported")):
        assert server.get(path).error["message"] == f"there is nothing at {path}, {advice}"
    for path in ("/nowhere", "/v1", "/s"):
        assert server.get(path).error["message"] == f"there is nothing at {path}"
    assert server.get("/v1/models/tiny%63hat").json["id"] == "tinychat"


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", ""])
def test_other_content_types(server, kind):
    """A page of another origin can send these without asking first."""
    more = "" if kind is None else f"Content-Type: {kind}\r\n"
    body = json.dumps(ASK)
    reply, _ = parse_response(server.raw(
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()))
    assert reply.status == 415
    assert server.post("/v1/completions", ASK,
                       headers={"Content-Type": "Application/JSON; charset=utf-8"}).status == 200
    assert server.post("/v1/completions", ASK, headers={"Content-Encoding": "gzip"}).status == 415


def test_request_ids(server):
    echo = lambda value: server.get("/health", headers={"X-Request-Id": value}).headers["X-Request-Id"]
    assert echo("abc-123") == "abc-123"
    assert echo("with space").startswith("req-") and echo("x" * 200).startswith("req-")
    assert server.get("/health").headers["X-Request-Id"] != server.get("/health").headers["X-Request-Id"]


def test_keep_alive_and_pipelining(server):
    """Three requests in one packet are answered in order on one connection."""
    ids = ["first", "second", "third"]
    data = b"".join(get("/health", f"X-Request-Id: {i}\r\n") for i in ids[:2])
    data += server.raw_post("/v1/completions", ASK, f"X-Request-Id: {ids[2]}\r\nConnection: close\r\n")
    answers = server.raw(data)
    for wanted in ids:
        reply, answers = parse_response(answers)
        assert reply.status == 200 and reply.headers["X-Request-Id"] == wanted
    assert answers == b""
    # The next request waits in the pipe while an answer is being made.
    long = server.raw_post("/v1/completions", {**ASK, "max_tokens": 60, "ignore_eos": True})
    first, rest = parse_response(server.raw(long + get("/health", "Connection: close\r\n")))
    assert first.json["usage"]["completion_tokens"] == 60
    assert parse_response(rest)[0].status == 200


def test_http_1_0(server):
    reply, _ = parse_response(server.raw(b"GET /health HTTP/1.0\r\n\r\n"))
    assert reply.status == 200 and reply.headers["Connection"] == "close"
    body = json.dumps({**ASK, "stream": True}).encode()
    data = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
    head, _, stream = data.partition(b"\r\n\r\n")
    assert b"chunked" not in head and stream.endswith(b"data: [DONE]\n\n")


def test_empty_lines_before_a_request(server):
    """RFC 9112, 2.2: old clients send one behind a body."""
    body = server.raw_post("/v1/completions", ASK) + b"\r\n"
    first, rest = parse_response(server.raw(b"\r\n" + body + get(more="Connection: close\r\n")))
    assert first.status == 200 and parse_response(rest)[0].status == 200
    assert parse_response(server.raw(b"\r\n" * 50 + get()))[0].status == 400


@pytest.mark.parametrize("data, status", [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # a TLS greeting
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET /health\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),  # no Host
    (b"GET /health HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
     b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
     b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
     b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 120 + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nExpect: cake\r\n\r\n", 417),
])
def test_bad_requests(server, data, status):
    """Each gets an error in JSON, and the server goes on."""
    reply = server.raw_reply(data)
    assert reply.status == status, reply.body
    assert reply.error["message"]
    assert server.get("/health").status == 200


def test_chunked_bodies_and_expect(server):
    body = json.dumps(ASK).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:5], body[5:])) + b"0\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    reply, _ = parse_response(server.raw(
        head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks))
    assert reply.status == 200
    with contextlib.closing(server.connect()) as connection:
        connection.sendall(head + b"Connection: close\r\nExpect: 100-continue\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(body)
        assert parse_response(read_all(connection))[0].status == 200


def test_large_bodies(strict):
    big = json.dumps({"prompt": "x" * 30000})
    auth = f"Authorization: Bearer {KEY}\r\n"
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{auth}"
    reply, _ = parse_response(strict.raw(f"{head}Content-Length: {len(big)}\r\n\r\n{big}".encode()))
    assert reply.status == 413 and reply.error["code"] == "body_too_large"
    # Refused before anything of it was sent.
    reply, _ = parse_response(strict.raw(
        f"{head}Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n".encode()))
    assert reply.status == 413
    reply, _ = parse_response(strict.raw(
        f"{head}Transfer-Encoding: chunked\r\n\r\n7530\r\n{'x' * 30000}\r\n0\r\n\r\n".encode()))
    assert reply.status == 413


def test_time_outs(strict):
    """A header or body that never ends, and a connection without a request."""
    auth = f"Authorization: Bearer {KEY}\r\n"
    for data, status in ((b"GET /health HT", 408),
                         (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{auth}Content-Type: "
                          "application/json\r\nContent-Length: 100\r\n\r\n{".encode(), 408)):
        begin = time.monotonic()
        reply, _ = parse_response(strict.raw(data, seconds=10))
        assert reply.status == status and time.monotonic() - begin < 8
    assert strict.raw(b"", seconds=10) == b""  # closed without a word
    with contextlib.closing(strict.connect()) as connection:
        connection.sendall(get())
        assert parse_response(read_all(connection))[0].status == 200  # and closed when idle


def test_connections_are_bounded(strict):
    """The one too many is told so; places are free again afterwards."""
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(contextlib.closing(strict.connect()))
        time.sleep(0.1)
        reply, _ = parse_response(strict.raw(get()))
        assert reply.status == 503 and reply.headers["Retry-After"]
    strict.wait_for(lambda: strict.get("/health").status == 200, 10)


def test_keys(strict):
    status = lambda **headers: strict.get("/v1/models", headers={"Authorization": "", **headers}).status
    assert status() == 401
    for value in ("Bearer wrong", KEY, f"Token {KEY}", f"Bearer {KEY}x", "Bearer", "Bearer ", f"Bearer{KEY}"):
        assert status(Authorization=value) == 401, value
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert status(Authorization=f"{scheme} {KEY}") == 200
    assert status(Authorization="Bearer second-key") == 200
    assert status(**{"X-Api-Key": KEY}) == 200
    basic = base64.b64encode(f"anyone:{KEY}".encode()).decode()
    assert status(Authorization=f"Basic {basic}") == 200
    assert status(Authorization="Basic ????") == 401
    without = {"Authorization": ""}
    for path in ("/metrics", "/kv", "/openapi.json", "/nowhere", "/v1/completions"):
        assert strict.get(path, headers=without).status == 401, path
    for path in ("/health", "/", "/app.js"):  # the page asks for the key itself
        assert strict.get(path, headers=without).status == 200, path
    reply = strict.post("/v1/completions", ASK, headers=without)
    assert reply.status == 401 and reply.headers["WWW-Authenticate"] == "Bearer"
    assert reply.error["code"] == "invalid_api_key"
    # A browser asks its user.
    page = strict.get("/kv", headers={**without, "Accept": "text/html,*/*"})
    assert page.status == 401 and page.headers["WWW-Authenticate"].startswith("Basic")
    log = strict.log_text()
    assert KEY not in log and "second-key" not in log and "wrong" not in log


def test_browsers(strict):
    """A preflight carries no key; refusals carry the headers that let a page read them (5.7)."""
    page = {"Origin": "https://page.example", "Authorization": ""}
    pre = strict.request("OPTIONS", "/v1/chat/completions",
                         headers={**page, "Access-Control-Request-Method": "POST",
                                  "Access-Control-Request-Headers": "authorization,content-type"})
    assert pre.status == 204
    assert pre.headers["Access-Control-Allow-Origin"] == "https://page.example"
    assert "POST" in pre.headers["Access-Control-Allow-Methods"]
    assert "authorization" in pre.headers["Access-Control-Allow-Headers"]
    assert strict.request("OPTIONS", "/v1/nothing", headers=page).status == 404
    refused = strict.post("/v1/chat/completions", {}, headers=page)
    assert refused.status == 401
    assert refused.headers["Access-Control-Allow-Origin"] == "https://page.example"
    other = strict.get("/health", headers={"Origin": "https://evil.example"})
    assert other.headers["Access-Control-Allow-Origin"] is None
    assert other.headers["Vary"] == "Origin"


def test_no_cors_unless_asked_for(server):
    for reply in (server.get("/health", headers={"Origin": "https://page.example"}),
                  server.request("OPTIONS", "/v1/models", headers={"Origin": "https://page.example"})):
        assert reply.status in (200, 204)
        assert not any(name.lower().startswith("access-control") for name in reply.headers)


def test_headers_of_the_client_stay_its_own(server):
    """Nothing that a client sends begins a header of the answer."""
    reply = server.get("/v1/models/x%0d%0aEvil:%20yes")
    assert reply.status == 404 and "Evil" not in reply.headers


LONG = {"prompt": "x" * 1500, "max_tokens": 300, "ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def slow(chat_model):
    """Every step takes a fiftieth of a second."""
    with Server(chat_model, "--ctx", 2048, "--threads", 1, "--parallel", 2, "--chunk", 64,
                "--prefix-cache-bytes", 0, "--write-timeout", 1, fault="slow:20") as running:
        yield running


@pytest.mark.parametrize("how", ["close", "reset", "half-close", "pipelined"])
@pytest.mark.parametrize("when", ["prefill", "stream", "whole"])
def test_a_client_that_leaves_frees_its_place(slow, how, when):
    """During the prompt, while streaming and while waiting for the whole: the sequence is gone, and
    so are its pages."""
    slow.wait_idle()
    body = {**LONG, "stream": when != "whole"}
    if when != "prefill":
        body["prompt"] = "x"
    connection = slow.connect()
    connection.sendall(slow.raw_post("/v1/completions", body))
    if how == "pipelined":
        connection.sendall(get())
    state = "prefilling" if when == "prefill" else "decoding"
    slow.wait_for(lambda: [s["state"] for s in slow.kv()["sequences"]] == [state], what=state)
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "half-close":
        connection.shutdown(socket.SHUT_WR)
    else:
        connection.close()
    slow.wait_idle(2)
    assert slow.kv()["totals"]["bytes_used"] == 0
    connection.close()


def test_fifty_clients_that_leave(slow):
    for i in range(50):
        connection = slow.connect()
        connection.sendall(slow.raw_post("/v1/completions", {**LONG, "stream": i % 2 == 0}))
        time.sleep(0.005)
        connection.close()
    slow.wait_idle()
    assert slow.kv()["totals"]["bytes_used"] == 0
    assert slow.complete("x", max_tokens=1)


def test_a_reader_that_stops_is_dropped(slow):
    """Its stream would fill memory: after the write time-out it loses its place."""
    slow.wait_idle()
    body = {"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "stream": True, "logprobs": 20,
            "temperature": 0, "n": 2}
    with contextlib.closing(slow.connect(receive_buffer=4096)) as connection:
        connection.sendall(slow.raw_post("/v1/completions", body))
        slow.wait_for(lambda: slow.kv()["sequences"], what="running")
        slow.wait_idle(30)
    lengths = slow.metrics()["ringkeep_replies_total{finish=\"gone\"}"]
    assert lengths >= 1


def test_sixteen_at_once_are_as_one(server):
    """Different prompts of mixed lengths at the same time: each gets its own answer (5.8)."""
    prompts = [chr(65 + i) * (5 + 37 * i % 200) for i in range(16)]
    ask = lambda prompt: server.complete(prompt, max_tokens=12, return_token_ids=True,
                                         cache_prompt=False)["choices"][0]["token_ids"]
    alone = [ask(prompt) for prompt in prompts]
    together = [None] * 16
    def work(i):
        together[i] = ask(prompts[i])
    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
