"""Many clients at once: every answer is the one the request gets alone, and nothing is left behind."""

import asyncio
import json
import pathlib
import random
import signal
import socket
import subprocess
import time

import pytest
from ringkeep_cli import BINARY, ok_json


class Server:
    """`ringkeep serve` on a free port."""

    def __init__(self, model, *flags, port=0):
        self.process = subprocess.Popen(
            [BINARY, "serve", str(model), "--port", str(port), "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = json.loads(self.process.stdout.readline())["port"]
        end = time.monotonic() + 300
        while self.get("/health")[0] != 200:
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}"
            assert time.monotonic() < end, "not healthy after five minutes"
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self.process.stdout.close()

    def get(self, path):
        return asyncio.run(exchange(self.port, "GET", path))

    def kv(self):
        return json.loads(self.get("/kv")[1])

    def metrics(self):
        """{name{labels}: value}"""
        lines = self.get("/metrics")[1].decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)
                if not name.startswith("#")}

    def rss(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def request_bytes(method, path, body):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


async def exchange(port, method, path, body=None, leave_after=None):
    """(status, body); with `leave_after` seconds the connection is dropped then: (None, what came)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        writer.write(request_bytes(method, path, body))
        if leave_after is not None:
            try:
                return None, await asyncio.wait_for(reader.read(), leave_after)
            except asyncio.TimeoutError:
                writer.transport.abort()
                return None, b""
        head = await reader.readuntil(b"\r\n\r\n")
        content = await reader.read()
        if b"transfer-encoding: chunked" in head.lower():
            content = unchunk(content)
        return int(head.split()[1]), content
    finally:
        writer.close()


def unchunk(content):
    out = b""
    while content:
        size, _, content = content.partition(b"\r\n")
        n = int(size, 16)
        if n == 0:
            break
        out, content = out + content[:n], content[n + 2:]
    return out


def events(content):
    return [json.loads(line[6:]) for line in content.decode().splitlines()
            if line.startswith("data: ") and line != "data: [DONE]"]


def pages(kv):
    return [(g["pages_used"], g["pages_held"]) for g in kv["groups"]]


def settled(server, seconds=10):
    """/kv once no sequence is left."""
    end = time.monotonic() + seconds
    while (kv := server.kv())["sequences"]:
        assert time.monotonic() < end, f"sequences are left: {kv['sequences']}"
        time.sleep(0.05)
    return kv


def mixed_requests(count, vocabulary, lengths, max_tokens, shared):
    """Greedy and seeded ones in turn; half of the prompts begin alike."""
    rng = random.Random(5)
    common = [rng.randrange(3, vocabulary) for _ in range(shared)]
    bodies = []
    for i in range(count):
        n = lengths[i % len(lengths)]
        prompt = [2] + (common if i % 2 else []) + [rng.randrange(3, vocabulary) for _ in range(n)]
        sampling = {"temperature": 0} if i % 4 < 2 else {"temperature": 0.9, "seed": 100 + i, "top_p": 0.95}
        bodies.append({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **sampling})
    return bodies


def text_of(answer):
    status, content = answer
    assert status == 200, content
    choice = json.loads(content)["choices"][0]
    return choice["text"], choice["finish_reason"]


async def at_once(port, bodies):
    return await asyncio.gather(*(exchange(port, "POST", "/v1/completions", b) for b in bodies))


def same_together_as_alone(model, flags, bodies, parallel, together_flags=()):
    with Server(model, *flags, "--parallel", 1, "--prefix-cache-bytes", 0, "--max-queue", 0) as alone:
        expected = [text_of(asyncio.run(exchange(alone.port, "POST", "/v1/completions", b)))
                    for b in bodies]
    with Server(model, *flags, *together_flags, "--parallel", parallel, "--max-queue", len(bodies)) as together:
        for _ in range(2):  # the second time from the prefix cache
            found = [text_of(a) for a in asyncio.run(at_once(together.port, bodies))]
            for i, (a, b) in enumerate(zip(found, expected)):
                assert a == b, f"request {i}: {bodies[i]}"
        return settled(together), together.metrics()


def test_thirty_two_clients_get_what_each_gets_alone(demo):
    bodies = mixed_requests(32, 200000, [3, 40, 150, 511, 90, 260], 16, shared=200)
    flags = ["--kv-bits", 8, "--ctx", 1024]
    kv, metrics = same_together_as_alone(demo, flags, bodies, parallel=32)
    assert metrics["ringkeep_prefix_hits_total"] >= 32 + 15  # those that begin alike, in the first
    plan = ok_json("plan", demo, *flags, "--parallel", 32)["totals"]
    bytes_of = sum(g["pages_total"] * g["bytes_per_page"] for g in kv["groups"])
    assert bytes_of >= plan["kv_bytes"] + plan["kv_prefill_bytes"]
    for used, held in pages(kv):
        assert used == held  # what is left belongs to prefixes


@pytest.mark.parametrize("bits", ["4", "full=6+sliding=3"])
def test_requests_that_are_set_back_end_the_same(tiny, bits):
    model = tiny.hf("gemma3")
    bodies = mixed_requests(24, 96, [5, 70, 33, 130], 40, shared=60)
    flags = ["--kv-bits", bits, "--ctx", 256]
    one = ok_json("plan", model, *flags)["totals"]
    room = 3 * (one["kv_bytes"] + one["kv_prefill_bytes"])  # for 8 sequences that may need it all
    _, metrics = same_together_as_alone(
        model, flags + ["--kv-memory", room, "--reserve-tokens", 1], bodies, parallel=8)
    assert metrics["ringkeep_preemptions_total"] > 0


def test_a_thousand_requests_of_all_kinds_leave_nothing_behind(tiny):
    rng = random.Random(11)
    malformed = [b"{", b'{"prompt": 5, "max_tokens": 3}', b'{"prompt": "a", "temperature": 1e400}',
                 b'{"prompt": "a", "n": -1}', b"[" * 100000, b'{"prompt": "\xff"}',
                 b'{"prompt": "a", "no_such_field": 1}']

    async def one(port, i):
        kind = i % 30
        n = rng.choice([1, 9, 40, 100])
        body = {"prompt": [2] + [rng.randrange(3, 96) for _ in range(n)], "max_tokens": rng.choice([1, 8, 30]),
                "stream": bool(i % 2), "temperature": 0.7, "seed": i, "ignore_eos": True}
        if kind < 10:  # gone while it is queued, computed or streamed
            await exchange(port, "POST", "/v1/completions", {**body, "max_tokens": 200},
                           leave_after=rng.choice([0, 0.002, 0.02, 0.1]))
            return None
        if kind < 13:
            status, content = await exchange(port, "POST", "/v1/completions", rng.choice(malformed))
            assert status == 400 and json.loads(content)["error"]["message"], (status, content)
            return status
        if kind < 15:  # longer than the context
            status, content = await exchange(port, "POST", "/v1/completions",
                                             {**body, "prompt": [5] * 300})
            assert status == 400 and "300" in json.loads(content)["error"]["message"], content
            return status
        status, content = await exchange(port, "POST", "/v1/completions", body)
        assert status in (200, 429), content
        if status == 200:
            parts = events(content) if body["stream"] else [json.loads(content)]
            reasons = [c["finish_reason"] for p in parts for c in p["choices"] if c["finish_reason"]]
            assert reasons == ["length"]
        return status

    async def watch(port, done):
        seen = 0
        while not done.is_set():
            status, content = await exchange(port, "GET", "/health")
            assert status == 200, content
            seen += 1
            await asyncio.sleep(0.05)
        return seen

    async def storm(port, first, last, clients):
        numbers = list(range(first, last))
        statuses = []

        async def client():
            while numbers:
                statuses.append(await one(port, numbers.pop()))

        done = asyncio.Event()
        watcher = asyncio.create_task(watch(port, done))
        await asyncio.gather(*(client() for _ in range(clients)))
        done.set()
        assert await watcher > 0
        return statuses

    with Server(tiny.hf("gemma3"), "--kv-bits", 8, "--ctx", 256, "--parallel", 8, "--max-queue", 16,
                "--prefix-cache-bytes", 0) as server:
        asyncio.run(storm(server.port, 0, 200, 24))  # warm
        before, memory = settled(server), server.rss()
        statuses = asyncio.run(storm(server.port, 200, 1200, 24))
        after = settled(server)
        assert pages(after) == pages(before) == [(0, 0)] * len(after["groups"])
        assert server.rss() < memory + (16 << 20)
        assert statuses.count(200) > 300
        assert server.process.poll() is None


def test_a_full_queue_says_when_to_come_again(tiny):
    with Server(tiny.hf("gemma3"), "--ctx", 256, "--parallel", 1, "--max-queue", 1) as server:
        bodies = [{"prompt": [2, 5, 6], "max_tokens": 200, "ignore_eos": True}] * 8

        async def raw(body):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_bytes("POST", "/v1/completions", body))
            answer = await reader.read()
            writer.close()
            return answer

        async def all_of_them():
            return await asyncio.gather(*(raw(b) for b in bodies))

        answers = asyncio.run(all_of_them())
        statuses = [int(a.split()[1]) for a in answers]
        assert set(statuses) == {200, 429}
        for status, answer in zip(statuses, answers):
            if status == 429:
                head, _, body = answer.partition(b"\r\n\r\n")
                wait = [line for line in head.lower().splitlines() if line.startswith(b"retry-after:")]
                assert wait and int(wait[0].split(b":")[1]) >= 1
                assert json.loads(body)["error"]["type"]


def test_sigterm_under_load_ends_every_stream_well(tiny):
    with Server(tiny.hf("gemma3"), "--ctx", 256, "--parallel", 4, "--max-queue", 16) as server:
        body = {"prompt": [2, 7, 9], "max_tokens": 150, "stream": True, "ignore_eos": True}

        async def load():
            streams = [asyncio.create_task(exchange(server.port, "POST", "/v1/completions", body))
                       for _ in range(8)]
            await asyncio.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*streams, return_exceptions=True)

        for answer in asyncio.run(load()):
            if isinstance(answer, ConnectionError):  # the listener was closed before it came
                continue
            status, content = answer
            if status == 503:
                continue
            assert status == 200
            parts = events(content)
            ended = [c["finish_reason"] for p in parts for c in p.get("choices", []) if c["finish_reason"]]
            assert ended or "error" in parts[-1], content[-300:]
        assert server.process.wait(30) == 0


def test_killed_and_started_again_it_serves_at_once(tiny):
    model = tiny.hf("gemma3")
    with Server(model, "--ctx", 256) as server:
        port = server.port
        with socket.create_connection(("127.0.0.1", port)) as stream:
            stream.sendall(request_bytes("POST", "/v1/completions",
                                         {"prompt": [2, 3], "max_tokens": 200, "stream": True}))
            stream.recv(100)
            server.process.kill()
            server.process.wait(30)
    with Server(model, "--ctx", 256, port=port) as again:
        status, content = asyncio.run(exchange(port, "POST", "/v1/completions",
                                               {"prompt": [2, 3], "max_tokens": 4}))
        assert status == 200, content
        assert again.kv()["totals"] is not None
