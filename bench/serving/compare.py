#!/usr/bin/env python3
"""ringkeep beside llama.cpp's server: throughput and time to the first token by number of clients.

    compare.py MODEL.gguf --llama-server PATH --clients 1,4,16 -r 3

Both serve 8-bit caches with as many slots as the most clients, on the same threads; each round
starts one, loads it, stops it, then the other. Medians over the rounds, and their ratios.
"""

import argparse
import asyncio
import json
import os
import pathlib
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request

import load

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_healthy(url, process, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{url} is not healthy after {seconds} s")


def measure(command, url, args, clients):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_healthy(url, process)
        asyncio.run(load.run(url, 1, 1, [32], 8))  # warm
        lengths = [int(n) for n in args.prompt_tokens.split(",")]
        return {n: asyncio.run(load.run(url, n, max(args.requests, 2 * n), lengths, args.max_tokens,
                                        seed=n)) for n in clients}
    finally:
        process.terminate()
        process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--ringkeep", default=str(ROOT / "build/release/bin/ringkeep"))
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--requests", type=int, default=8, help="at least, at each number of clients")
    parser.add_argument("--prompt-tokens", default="64,256,128,512")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--ctx", type=int, default=1024, help="of each sequence")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    args = parser.parse_args()
    clients = [int(n) for n in args.clients.split(",")]
    slots = max(clients)
    results = {"ringkeep": [], "llama.cpp": []}
    for _ in range(args.rounds):
        for name in results:
            port = free_port()
            if name == "ringkeep":
                command = [args.ringkeep, "serve", args.model, "--port", port, "--kv-bits", 8, "--ctx",
                           args.ctx, "--parallel", slots, "--threads", args.threads]
            else:
                command = [args.llama_server, "-m", args.model, "--port", port, "-ctk", "q8_0", "-ctv",
                           "q8_0", "-fa", "on", "-c", args.ctx * slots, "-np", slots, "-t",
                           args.threads, "--no-webui"]
            results[name].append(measure([str(c) for c in command], f"http://127.0.0.1:{port}", args,
                                         clients))
    rows = []
    for n in clients:
        row = {"clients": n}
        for name, rounds in results.items():
            row[name] = {
                "output_tok_s": statistics.median(r[n]["output_tok_s"] for r in rounds),
                "ttft_p50_ms": statistics.median(r[n]["ttft_ms"]["p50"] for r in rounds),
                "ttft_p90_ms": statistics.median(r[n]["ttft_ms"]["p90"] for r in rounds),
                "failed": sum(r[n]["failed"] for r in rounds),
            }
        ours, theirs = row["ringkeep"], row["llama.cpp"]
        row["throughput_ratio"] = round(ours["output_tok_s"] / theirs["output_tok_s"], 2)
        row["ttft_p50_ratio"] = round(ours["ttft_p50_ms"] / theirs["ttft_p50_ms"], 2)
        rows.append(row)
        print(f"{n:3} clients: {ours['output_tok_s']:8.1f} of {theirs['output_tok_s']:8.1f} tok/s "
              f"({row['throughput_ratio']}x), first token {ours['ttft_p50_ms']:8.1f} of "
              f"{theirs['ttft_p50_ms']:8.1f} ms ({row['ttft_p50_ratio']}x), failed "
              f"{ours['failed']} and {theirs['failed']}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
