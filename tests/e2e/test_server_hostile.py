"""What hostile clients and careless flags tried: framing, memory, pages of other names."""

import json
import resource
import subprocess
import threading

import pytest

from ringkeep_cli import BINARY
from serving import Server, parse_response

ASK = {"prompt": "x", "max_tokens": 1, "temperature": 0}
HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def peak_mib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


@pytest.fixture
def fresh(chat_model):
    """A server whose peak memory is its own test's."""
    with Server(chat_model, "--ctx", 1024, "--threads", 1) as running:
        yield running


@pytest.mark.parametrize("coding", ["chunked, gzip", "chunked, chunked", "xchunked", "identity", ""])
def test_nothing_follows_a_body_of_unknown_length(server, coding):
    """Where the body ends is unknown, so what looks like another request must not be one."""
    data = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                      b"Content-Type: application/json\r\n"
                      b"Transfer-Encoding: " + coding.encode() + b"\r\n\r\n" + HIDDEN)
    reply, rest = parse_response(data)
    assert reply.status == 501 and reply.headers["Connection"] == "close"
    assert rest == b""


def test_one_host(server):
    two = b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n"
    assert parse_response(server.raw(two))[0].status == 400


def test_the_absolute_form_of_a_target(server):
    for target in ("http://x/health", "HTTP://x:80/health?a=http://y/z"):
        data = server.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert parse_response(data)[0].status == 200
    data = server.raw(b"GET http://x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"<html" in data
    assert server.get("/health?to=http://x/nowhere").status == 200


def test_http_1_0_is_not_told_to_continue(server):
    body = json.dumps(ASK).encode()
    data = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                      b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert data.startswith(b"HTTP/1.1 200 ")


def test_json_does_not_end_at_a_nul(server):
    for tail in (b"\0", b"\0 and more"):
        assert server.post("/v1/completions", json.dumps(ASK).encode() + tail).status == 400


def test_many_choices_take_little_memory(fresh):
    choices = [str(i) for i in range(100_000)]
    before = peak_mib(fresh)
    reply = fresh.complete("x", guided_choice=choices, max_tokens=9)
    assert reply["choices"][0]["text"] in choices
    assert peak_mib(fresh) - before < 150  # 1,400 with a grammar of its own for each
    fresh.refused("/v1/completions", {**ASK, "guided_choice": ["x" * 1000 + str(i)
                                                              for i in range(1100)]})


def optional_parts(part, count):
    return "".join(part.format(letter=chr(97 + i % 26), digit=i % 10) for i in range(count))


WIDE = {
    "words": {"guided_regex": f"({optional_parts('[a-z]*[ {letter}]?', 600)})*"},
    "pairs": {"guided_grammar": f"root ::= ({optional_parts(chr(34) + '{letter}{digit}' + chr(34) + '? ', 10_000)})*"},
    "members": {"json_schema": {"type": "array", "minItems": 30, "items": {
        "type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(4_999)}}}},
}


def test_wide_grammars_hold_up_nobody(fresh):
    """Thousands of parts that may be left out: their replies come, and others go on meanwhile."""
    others, healths, done = [], [], threading.Event()

    def other():
        while not done.is_set():
            others.append(fresh.post("/v1/completions", {**ASK, "max_tokens": 50, "stream": True,
                                                         "ignore_eos": True}))

    def health():
        while not done.wait(0.05):
            healths.append(fresh.get("/health").status)

    watchers = [threading.Thread(target=watch) for watch in (other, health)]
    for watcher in watchers:
        watcher.start()
    try:
        for name, rule in WIDE.items():
            before = len(others)
            reply = fresh.complete("x", **rule, max_tokens=30, temperature=1, seed=3)
            assert reply["choices"][0]["finish_reason"] in ("stop", "length"), name
            fresh.wait_for(lambda: len(others) > before, what="another reply")
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
    assert set(healths) == {200}
    for reply in others:
        assert reply.status == 200 and b'"error"' not in reply.body
        assert b'"finish_reason":"length"' in reply.body and reply.body.endswith(b"[DONE]\n\n")


def test_a_grammar_too_hard_fails_alone(fresh):
    """Known before it begins: 400. Later: the error of its reply."""
    point = lambda i: f"\\x{0x21 + i % 90:02x}"
    hard = "".join(f"[^{point(i // 90)}{point(i)}] [^{point(i // 7)}] hard | " for i in range(8_000))
    rules = f"hard ::= {hard} [ ]\n"
    error = fresh.refused("/v1/completions", {**ASK, "guided_grammar": f"root ::= hard\n{rules}"},
                          "guided_grammar")
    assert "work" in error["message"]
    late = {**ASK, "max_tokens": 9, "guided_grammar": f'root ::= [a] "b" hard\n{rules}'}
    error = fresh.refused("/v1/completions", late)
    assert "work" in error["message"]
    events = fresh.post("/v1/completions", {**late, "stream": True}).body.split(b"\n\n")
    [error] = [event for event in events if b'"error"' in event]
    assert b"work" in error and events.index(error) > 0
    assert fresh.get("/health").status == 200
    assert fresh.complete("x", max_tokens=3)["usage"]["completion_tokens"] > 0


def test_a_prompt_too_long_is_not_copied_for_every_reply(fresh):
    before = peak_mib(fresh)
    error = fresh.refused("/v1/completions", {**ASK, "prompt": "a" * 4_000_000, "n": 60}, "prompt")
    assert error["code"] == "context_length_exceeded"
    assert peak_mib(fresh) - before < 300  # 2,000 with the copies


def test_what_a_template_goes_through_is_bounded(server):
    message = {"role": "user", "content": "x"}
    for path in ("/v1/chat/completions", "/tokenize"):
        error = server.refused(path, {"messages": [message] * 4097}, "messages")
        assert "4096" in error["message"] and "4097" in error["message"]
    tool = {"type": "function", "function": {"name": "f"}}
    server.refused("/v1/chat/completions", {"messages": [message], "tools": [tool] * 1025}, "tools")


def test_names_are_not_told_back_by_the_megabyte(server):
    for body in ({**ASK, "x" * 3_000_000: 1}, {**ASK, "model": "x" * 3_000_000}):
        reply = server.post("/v1/completions", body)
        assert reply.status in (400, 404) and len(reply.body) < 5000


def test_keys_that_come_twice_among_many(server):
    members = "".join(f',"k{i}":1' for i in range(300_000))
    reply = server.post("/v1/completions", '{"prompt":"x","metadata":{"k7":1' + members + "}}")
    assert reply.status == 400 and 'the key "k7" comes twice' in reply.error["message"]


def test_a_request_that_memory_does_not_hold(fresh):
    """The answer is an error of the server in plain words, and the next request is served."""
    fresh.complete("x", max_tokens=2)
    with open(f"/proc/{fresh.process.pid}/statm") as sizes:
        mapped = int(sizes.read().split()[0]) * resource.getpagesize()
    big = json.dumps({**ASK, "prompt": [1] * 2_000_000})  # 16 bytes each, once read
    resource.prlimit(fresh.process.pid, resource.RLIMIT_AS, (mapped + 24_000_000, -1))
    reply = fresh.post("/v1/completions", big)
    assert reply.status == 500 and reply.error["type"] == "server_error"
    assert reply.error["message"].startswith("out of memory: ")
    assert fresh.get("/health").status == 200
    assert fresh.complete("x", max_tokens=2)["usage"]["completion_tokens"] == 2
    resource.prlimit(fresh.process.pid, resource.RLIMIT_AS, (-1, -1))
    fresh.refused("/v1/completions", big, "prompt")


@pytest.mark.parametrize("stream", [False, True])
def test_a_step_that_memory_does_not_hold(chat_model, stream):
    with Server(chat_model, "--ctx", 512, "--threads", 1, fault="memory:5") as server:
        body = {**ASK, "max_tokens": 50, "ignore_eos": True, "stream": stream}
        reply = server.post("/v1/completions", body)
        if stream:
            error = json.loads(reply.body.split(b"data: ")[-1])["error"]
            assert b"[DONE]" not in reply.body
        else:
            assert reply.status == 500
            error = reply.error
        assert error["type"] == "server_error" and error["message"].startswith("out of memory: ")
        assert server.get("/health").status == 200
        assert server.complete("x", max_tokens=9, ignore_eos=True)["usage"]["completion_tokens"] == 9
        server.wait_idle()


@pytest.mark.parametrize("host, status", [
    ("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("box", 200), ("a.localhost", 200),
    ("localhost.", 200), ("A.LOCALHOST:80", 200), ("chat.example.", 200), ("evil.example.", 403), (".localhost", 403),
    ("chat.example:8080", 200), ("CHAT.example", 200),
    ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("127.1.evil.example:80", 403),
    ("page.chat.example", 403)])
def test_pages_of_names_that_lead_here(chat_model, host, status):
    """DNS rebinding: to the browser such a page and this server are one origin."""
    with Server(chat_model, "--ctx", 512, "--threads", 1, "--cors-origin",
                "https://chat.example") as running:
        headers = {"Host": host}
        assert running.get("/kv", headers=headers).status == status
        assert running.post("/v1/completions", ASK, headers=headers).status == status
        assert running.get("/health", headers=headers).status == 200


@pytest.mark.parametrize("flags", [["--api-key", "k"], ["--allow-unauthenticated"],
                                   ["--cors-origin", "*"]])
def test_any_name_where_access_was_settled(chat_model, flags):
    with Server(chat_model, "--ctx", 512, "--threads", 1, *flags, key="k") as running:
        assert running.get("/kv", headers={"Host": "chat.example", "Authorization": "Bearer k"}
                           ).status == 200


@pytest.mark.parametrize("flags, named", [
    (["--idle-timeout", "nan"], "--idle-timeout"),
    (["--max-body-bytes", "-1"], "--max-body-bytes"),
    (["--max-send-buffer", "-1K"], "--max-send-buffer"),
    (["--served-model-name", ""], "--served-model-name"),
    (["--cors-origin", ""], "--cors-origin"),
    (["--cors-origin", "chat.example"], "--cors-origin"),
    (["--cors-origin", "https://chat.example/"], "--cors-origin")])
def test_flags_that_mean_nothing(chat_model, flags, named):
    done = subprocess.run([BINARY, "serve", str(chat_model), "--port", "0", *flags],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and named in done.stderr
