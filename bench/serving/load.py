#!/usr/bin/env python3
"""Load on an OpenAI-compatible server: clients that each send one streamed completion after another.

    load.py http://127.0.0.1:8080 --clients 16 --requests 64 --prompt-tokens 64,512 --max-tokens 64

Prints JSON: output tokens a second over all clients, time to the first token and between tokens
(median, 90 % and 99 %), and how many requests failed. Plain sockets and no client library: on a
small machine the client must not take the server's time.
"""

import argparse
import asyncio
import json
import random
import time
import urllib.parse

WORDS = ("the cache holds every key and value of a layer that a later token may look at and a window "
         "moves over long text while rivers cross old towns where people trade wool salt and iron").split()


def prompt_of(tokens, rng, shared):
    """About `tokens` tokens of words, of which the first `shared` share are the same in every prompt."""
    common = random.Random(0)
    n = int(tokens * shared)
    return " ".join([common.choice(WORDS) for _ in range(n)] +
                    [rng.choice(WORDS) for _ in range(tokens - n)])


class Reply:
    def __init__(self):
        self.first = None   # seconds to the first token
        self.gaps = []      # seconds between tokens
        self.tokens = 0
        self.cached = 0
        self.error = None


async def complete(host, port, body, key=None):
    """One streamed completion over a connection of its own."""
    reply = Reply()
    data = json.dumps(body).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n")
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    start = last = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    try:
        writer.write(head.encode() + b"\r\n" + data)
        status = (await reader.readline()).split()[1]
        while (await reader.readline()).strip():
            pass
        if status != b"200":
            reply.error = f"status {status.decode()}: {(await reader.read(300)).decode(errors='replace')}"
            return reply
        while line := await reader.readline():
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                reply.error = str(event["error"])
                return reply
            if usage := event.get("usage"):
                reply.tokens = usage["completion_tokens"]
                reply.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            if not event.get("choices"):
                continue
            now = time.perf_counter()
            if reply.first is None:
                reply.first = now - start
            else:
                reply.gaps.append(now - last)
            last = now
    finally:
        writer.close()
    return reply


def quantiles(values, scale=1000.0):
    values = sorted(values)
    if not values:
        return None
    return {name: round(scale * values[min(len(values) - 1, int(share * len(values)))], 2)
            for name, share in (("p50", .5), ("p90", .9), ("p99", .99))}


async def run(url, clients, requests, prompt_tokens, max_tokens, shared=0.0, seed=1, key=None,
              model=None):
    """`requests` completions by `clients` clients; prompt lengths go round `prompt_tokens`."""
    parts = urllib.parse.urlsplit(url)
    rng = random.Random(seed)
    bodies = [{"prompt": prompt_of(prompt_tokens[i % len(prompt_tokens)], rng, shared),
               "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
               "stream_options": {"include_usage": True}} for i in range(requests)]
    for body in bodies:
        if model:
            body["model"] = model
    replies = []

    async def client():
        while bodies:
            body = bodies.pop(0)
            try:
                replies.append(await complete(parts.hostname, parts.port, body, key))
            except (OSError, ValueError, IndexError) as error:
                failed = Reply()
                failed.error = repr(error)
                replies.append(failed)

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - start
    good = [r for r in replies if r.error is None]
    return {
        "clients": clients,
        "requests": requests,
        "failed": len(replies) - len(good),
        "errors": sorted({r.error for r in replies if r.error})[:3],
        "seconds": round(seconds, 3),
        "output_tok_s": round(sum(r.tokens for r in good) / seconds, 2),
        "cached_tokens": sum(r.cached for r in good),
        "ttft_ms": quantiles([r.first for r in good if r.first is not None]),
        "gap_ms": quantiles([g for r in good for g in r.gaps]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt-tokens", default="64,512",
                        help="prompt lengths in words, used in turn")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--shared", type=float, default=0.0,
                        help="share of each prompt that is the same in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--api-key")
    parser.add_argument("--model")
    args = parser.parse_args()
    lengths = [int(n) for n in args.prompt_tokens.split(",")]
    print(json.dumps(asyncio.run(run(args.url, args.clients, args.requests, lengths, args.max_tokens,
                                     args.shared, args.seed, args.api_key, args.model))))


if __name__ == "__main__":
    main()
