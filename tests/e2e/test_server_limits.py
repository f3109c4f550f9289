"""What takes long, and what takes memory: refused by its size, run beside the rest, or answered."""

import concurrent.futures
import contextlib
import http.client
import json
import resource

import pytest

from serving import Server

ASK = {"prompt": "x", "max_tokens": 1, "temperature": 0}
LONGEST = len("</tool_call>")  # bytes of a token
CTX = 2048


def test_a_text_that_cannot_fit_is_refused_by_its_size(server):
    """Without counting its tokens; the numbers are in the message."""
    for size in (CTX * LONGEST + 1, 5_000_000):
        numbers = [f"{size} bytes", f"at least {-(-size // LONGEST)} tokens",
                   f"more than {LONGEST} bytes", f"holds {CTX}"]
        for path, param, body in (
                ("/v1/completions", "prompt", {**ASK, "prompt": "a" * size}),
                ("/v1/completions", "prompt", {**ASK, "prompt": ["x", "a" * size]})):
            error = server.refused(path, body, param)
            assert error["code"] == "context_length_exceeded"
            assert all(number in error["message"] for number in numbers), error
    size = CTX * LONGEST + 1000
    reply = server.post("/v1/chat/completions",
                        {"messages": [{"role": "user", "content": "a" * size}]})
    assert reply.status == 400 and reply.error["code"] == "context_length_exceeded"
    assert reply.error["param"] == "messages" and "bytes" in reply.error["message"]


def test_a_text_that_may_fit_is_counted(server):
    """The longest token as often as the context has places but two: as few tokens as can be."""
    text = "</tool_call>" * (CTX - 2)
    assert server.complete(text, max_tokens=1)["usage"]["prompt_tokens"] == CTX - 1
    error = server.refused("/v1/completions", {**ASK, "prompt": "</tool_call>" * (CTX - 1)}, "prompt")
    assert f"{CTX} tokens" in error["message"]
    assert server.complete("a" * (CTX - 2), max_tokens=1)["usage"]["prompt_tokens"] == CTX - 1


def test_short_requests_do_not_wait_for_long_ones(server):
    """Six bodies that take long, then one that does not: it is answered before most of them."""
    long = {"content": "long text " * 300_000}
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        begun = [pool.submit(server.post, "/tokenize", long) for _ in range(6)]
        while not any(each.running() for each in begun):
            pass
        server.wait_for(lambda: server.metrics(), what="metrics")
        assert server.complete("x", max_tokens=1)["usage"]["completion_tokens"] == 1
        assert server.get("/health").status == 200
        done = sum(each.done() for each in begun)
        for each in begun:
            assert each.result().json["count"] == 3_000_001
    assert done <= 2, done


def nested(wrap, depth, leaf):
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


HOSTILE = {
    "alternatives of alternatives": {"type": "string", "allOf": [{"pattern": f"a.{{{10 + i}}}b"}
                                                              for i in range(8)]},
    "an automaton of counts": {"type": "string", "pattern": "^([a-z]+ )*x.*y.*z$", "maxLength": 3000},
    "many automata": {"type": "object", "properties": {
        f"p{i}": {"allOf": [{"pattern": f"^.*a.{{8}}b{i}$"}, {"pattern": f"^.*c.{{8}}d{i}$"}]}
        for i in range(250)}},
    "combinations": {"allOf": [{"anyOf": [{"properties": {f"k{i}{j}": {}}} for j in range(2)]}
                               for i in range(30)]},
    "references that fan out": {
        "$defs": {**{f"d{i}": {"type": "object", "properties": {
            f"a{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(20)}} for i in range(60)},
            "d60": {"type": "string"}}, "$ref": "#/$defs/d0"},
    "required": {"type": "object", "properties": {f"p{i}": {} for i in range(5000)},
                 "required": [f"p{i}" for i in range(5000)] + [f"q{i}" for i in range(4999)]},
    "many numbers": {"anyOf": [{"type": "integer", "multipleOf": 500 - i, "minimum": -10**15 + i}
                               for i in range(200)]},
    "the same again": {"allOf": [{"type": "object", "properties": {
        f"p{i}": {"type": "string"} for i in range(4000)}} for _ in range(20)]},
    "enums of enums": {"allOf": [{"enum": list(range(40_000))}, {"enum": list(range(40_000))[::-1]}]},
    "depth": nested(lambda inner: {"items": inner}, 30, {"type": "string"}),
}
EXPRESSIONS = ["(a|aa)*" * 80 + "b", "[ab]*a[ab]{20}", "(" * 190 + "a" + ")*" * 190,
               "(a{1,100000000}b){1,100000000}", "|".join(f"[{chr(256 + 3 * i)}-{chr(4096 + 7 * i)}]+"
                                                         for i in range(4000))]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas(server, name):
    """They are served or refused by the field's name; the server goes on."""
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": HOSTILE[name]}}
    reply = server.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "x"}], "response_format": format, "max_tokens": 2})
    assert reply.status in (200, 400), reply.body
    if reply.status == 400:
        assert reply.error["param"] == "response_format.json_schema.schema", reply.error
    assert server.complete("x", max_tokens=1)["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda text: text[:12])
def test_hostile_expressions(server, expression):
    reply = server.post("/v1/completions", {**ASK, "guided_regex": expression})
    assert reply.status == 200 or reply.error["param"] == "guided_regex"


# What holds much memory, or holds it in many pieces, once it is read.
LARGE = {
    "ids": {**ASK, "prompt": [1] * 1_500_000},
    "unknown": {**ASK, "metadata": [[{"a": [1, 2, [3]]}] * 3 for _ in range(60_000)]},
    "schema": {**ASK, "json_schema": {"enum": [[i, [i]] for i in range(150_000)]}},
    "messages": {"messages": [{"role": "user", "content": "x" * 900}] * 4000},
    "arguments": {"messages": [{"role": "user", "content": "x"}, {
        "role": "assistant", "tool_calls": [{"type": "function", "id": "1", "function": {
            "name": "f", "arguments": json.dumps({"a": [[i, [i]] for i in range(150_000)]})}}]}]},
    "tools": {"messages": [{"role": "user", "content": "x"}], "tools": [
        {"type": "function", "function": {"name": f"f{i}", "parameters": {
            "type": "object", "properties": {f"p{j}": {"enum": list(range(50))} for j in range(40)}}}}
        for i in range(200)], "tool_choice": "required"},
    "documents": {"messages": [{"role": "user", "content": "x"}],
                  "documents": [{"a": [[1]] * 100} for _ in range(3000)]},
    "variables": {"messages": [{"role": "user", "content": "x"}],
                  "chat_template_kwargs": {"a": [[i, [i]] for i in range(150_000)]}},
}


@pytest.mark.parametrize("name", LARGE)
def test_a_body_that_memory_does_not_hold(chat_model, name):
    """However little is left, the process lives, and says so where it can say anything."""
    path = "/v1/chat/completions" if "messages" in LARGE[name] else "/v1/completions"
    body = json.dumps({**LARGE[name], "max_tokens": 1})
    with Server(chat_model, "--ctx", 512, "--threads", 1) as server:
        server.complete("x", max_tokens=1)
        for more in [*range(1, 40, 3), 64, 96, 128]:
            with open(f"/proc/{server.process.pid}/statm") as sizes:
                mapped = int(sizes.read().split()[0]) * resource.getpagesize()
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, (mapped + more * 1_000_000, -1))
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                reply = server.post(path, body)
                assert reply.status in (200, 400, 500), (more, reply.body)
                if reply.status == 500:
                    assert reply.error["message"].startswith("out of memory: "), reply.error
            assert server.process.poll() is None, f"{more} MB more: {server.process.returncode}"
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, (-1, -1))
            server.complete("x", max_tokens=1)  # gets its reserve back
        assert server.complete("x", max_tokens=1)["usage"]["completion_tokens"] == 1
        server.wait_idle()


def test_the_context_ends(server):
    """The reply ends with it; other requests go on (case 2.3)."""
    for most in (400, -1):
        reply = server.complete("x" * 2000, max_tokens=most, ignore_eos=True)
        assert reply["choices"][0]["finish_reason"] == "length"
        assert reply["usage"]["total_tokens"] == 2048
    server.complete("alive", max_tokens=1)
