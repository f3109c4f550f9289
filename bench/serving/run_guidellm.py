#!/usr/bin/env python3
"""Load on `ringkeep serve` by GuideLLM, a load generator from elsewhere (PyPI: guidellm).

    python -m venv /tmp/guidellm && /tmp/guidellm/bin/pip install guidellm
    run_guidellm.py demo --guidellm /tmp/guidellm/bin/guidellm --clients 1,4 --requests 32 -- --kv-bits 8

Starts the server on a free port, gives GuideLLM a file of prompts (so that it needs no tokenizer and
no data set from a hub), and prints JSON: for each number of clients the output tokens a second, the
time to the first token and between tokens (milliseconds, median and 95 %), and how many requests
failed. What follows `--` are flags of the server. GuideLLM's own report stays where --report says.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from load import prompt_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def start(binary, model, flags):
    """(process, URL) of a server that is ready."""
    process = subprocess.Popen([binary, "serve", model, "--port", "0", "--json", *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = process.stdout.readline()
    if not line:
        sys.exit(f"the server did not start: exit {process.wait()}")
    url = json.loads(line)["url"]
    while process.poll() is None:
        try:
            if urllib.request.urlopen(url + "/health").status == 200:
                return process, url
        except urllib.error.HTTPError:  # 503 while the model is loaded
            time.sleep(0.1)
    sys.exit(f"the server ended while loading: exit {process.returncode}")


def write_prompts(path, args, clients):
    """Others for each number of clients: what the last ones left in the cache must not help."""
    rng = random.Random(f"{args.seed} {clients}")
    with open(path, "w") as file:
        for _ in range(args.requests):
            tokens = rng.choice(args.prompt_tokens)
            file.write(json.dumps({"prompt": prompt_of(tokens, rng, args.shared),
                                   "prompt_tokens_count": tokens,
                                   "output_tokens_count": args.max_tokens}) + "\n")


def measure(url, clients, args, scratch, report):
    prompts = scratch / f"prompts-{clients}.jsonl"
    write_prompts(prompts, args, clients)
    subprocess.run(
        [args.guidellm, "run", "--disable-console",
         "--backend", f"kind=openai_http,target={url},request_format=/v1/completions",
         "--profile", f"kind=concurrent,streams={clients}",
         "--constraint", f"kind=max_requests,count={args.requests}",
         "--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={report}"],
        check=True, stdout=sys.stderr, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    metrics = json.loads(report.read_text())["benchmarks"][0]["metrics"]

    def of(name, *what):
        stats = metrics[name]["successful"]
        return {key: round(stats[key] if key in stats else stats["percentiles"][key], 2)
                for key in what}

    totals = metrics["request_totals"]
    return {"clients": clients, "requests": totals["successful"],
            "failed": totals["errored"] + totals["incomplete"],
            "output_tok_s": of("output_tokens_per_second", "mean")["mean"],
            "first_token_ms": of("time_to_first_token_ms", "median", "p95"),
            "between_tokens_ms": of("inter_token_latency_ms", "median", "p95")}


def main():
    numbers = lambda text: [int(each) for each in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--guidellm", default="guidellm", help="its program")
    parser.add_argument("--ringkeep", default=str(ROOT / "build/release/bin/ringkeep"))
    parser.add_argument("--clients", type=numbers, default=[1, 4])
    parser.add_argument("--requests", type=int, default=32, help="of each run")
    parser.add_argument("--prompt-tokens", type=numbers, default=[64, 256])
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--shared", type=float, default=0.0,
                        help="part of the prompt that all begin with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=pathlib.Path, help="folder for GuideLLM's reports")
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    args = parser.parse_args(given[:end])
    args.flags = given[end + 1:]
    server, url = start(args.ringkeep, args.model, args.flags)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.report or pathlib.Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            rows = [measure(url, clients, args, pathlib.Path(scratch),
                            folder / f"guidellm-{clients}.json") for clients in args.clients]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    print(json.dumps({"model": args.model, "flags": args.flags, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
