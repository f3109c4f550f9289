#!/usr/bin/env python3
"""Speed of ringkeep, llama.cpp and mlx-lm side by side: rounds of all in turn, medians, ratios.

Runs in the interpreter that `bench/peers/install` makes, or in any that has llama-cpp-python, or gguf
and mlx-lm. Prefill and decode are measured after each depth; cache types are matched by bits (8:
q8_0, 4: q4_0; mlx-lm: groups of 64). What a peer cannot do is "refused", with its own words below.

    compare.py MODEL.gguf --ringkeep build/release/bin/ringkeep --codecs f16,8 -d 0,4096 -r 5
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys

PEERS = {"llama.cpp": ("llama_cpp_peer", "LlamaCpp"), "mlx-lm": ("mlx_lm_peer", "MlxLm")}


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def import_peers(names, parser):
    """{name: module} of the peers asked for, or of those that this interpreter has."""
    modules = {}
    for name in names or PEERS:
        try:
            modules[name] = importlib.import_module(PEERS[name][0])
        except ImportError as error:
            if names:
                parser.error(f"--peers: {name}: {error}; bench/peers/install installs it")
            say(f"{name} is left out: {error}")
    if not modules:
        parser.error("this interpreter has no peer: run bench/peers/install")
    return modules


def ringkeep_round(args, codecs, depths):
    """{(codec, depth): (prefill tok/s, decode tok/s)} of one run of `ringkeep bench`, medians, and
    the GB/s that its memory reads at."""
    output = subprocess.run(
        [args.ringkeep, "bench", args.model, "--json", "-p", str(args.prefill), "-n",
         str(args.decode), "-d", ",".join(map(str, depths)), "--codecs", ",".join(codecs), "-r",
         str(args.repeats), "--threads", str(args.threads)], check=True, capture_output=True).stdout
    result = json.loads(output)
    speeds = {(row["codec"], row["depth"]): (row["prefill_tok_s"], row["decode_tok_s"])
              for row in result["rows"]}
    return speeds, result["bandwidth_gb_s"]


class Prepared:
    """A peer with its states at every depth ready, so that a round measures only."""

    def __init__(self, name, engine, args, codecs, depths):
        self.name, self.args = name, args
        self.refused = {}  # codec -> the peer's words
        self.filled = {}   # (codec, depth) -> (engine, state)
        self.rounds = []
        n_ctx = max(depths) + max(args.prefill, args.decode) + 512  # a micro-batch of llama.cpp to spare
        for codec in codecs:
            say(f"{name}: filling its {codec} cache")
            try:
                peer = engine(args.model, codec, args.threads, n_ctx)
                self.filled |= {(codec, depth): (peer, peer.fill(depth)) for depth in depths}
            except (NotImplementedError, RuntimeError, ValueError) as error:
                self.refused[codec] = str(error) or type(error).__name__

    def round(self):
        self.rounds.append({key: self.median(*filled) for key, filled in self.filled.items()})

    def median(self, peer, state):
        speeds = [peer.speed(state, self.args.prefill, self.args.decode)
                  for _ in range(self.args.repeats)]
        return tuple(statistics.median(values) for values in zip(*speeds))


def number(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def print_table(ours, peers):
    """Medians over the rounds; ratios above 1 say that ringkeep is faster."""
    print(f"{'cache':<6} {'depth':>6} {'':>8} {'ringkeep':>10}"
          + "".join(f" {peer.name:>10} {'ratio':>6}" for peer in peers))
    for key in ours[0]:
        for index, what in enumerate(("prefill", "decode")):
            a = statistics.median(r[key][index] for r in ours)
            line = f"{key[0]:<6} {key[1]:>6} {what:>8} {number(a):>10}"
            for peer in peers:
                if key in peer.filled:
                    b = statistics.median(r[key][index] for r in peer.rounds)
                    line += f" {number(b):>10} {number(a / b):>6}"
                else:
                    line += f" {'refused':>10} {'':>6}"
            print(line.rstrip())
    for peer in peers:
        for codec, words in peer.refused.items():
            print(f"{peer.name} refuses {codec}: {words}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--ringkeep", default="build/release/bin/ringkeep")
    parser.add_argument("--peers", help="of llama.cpp,mlx-lm; default: those installed")
    parser.add_argument("--codecs", default="f16,8")
    parser.add_argument("-d", "--depths", default="0,4096")
    parser.add_argument("-p", "--prefill", type=int, default=512)
    parser.add_argument("-n", "--decode", type=int, default=32)
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1,
                        help="measurements in each round, of which the median counts")
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    codecs, depths = args.codecs.split(","), [int(d) for d in args.depths.split(",")]
    names = args.peers.split(",") if args.peers else []
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(f"--peers: {', '.join(unknown)}: choose from {', '.join(PEERS)}")
    modules = import_peers(names, parser)
    engines = {name: getattr(module, PEERS[name][1]) for name, module in modules.items()}
    if unknown := [c for c in codecs if not any(c in e.CODECS for e in engines.values())]:
        parser.error(f"--codecs: no counterpart of {', '.join(unknown)} in {', '.join(engines)}")
    for name, module in modules.items():
        print(f"{name}: {module.system_info()}")
    peers = [Prepared(name, engine, args, codecs, depths) for name, engine in engines.items()]
    ours, bandwidths = [], []
    for turn in range(1, args.rounds + 1):
        say(f"round {turn} of {args.rounds}: ringkeep")
        speeds, bandwidth = ringkeep_round(args, codecs, depths)
        ours.append(speeds)
        bandwidths.append(bandwidth)
        for peer in peers:
            say(f"round {turn} of {args.rounds}: {peer.name}")
            peer.round()
    print_table(ours, peers)
    print(f"memory reads at {min(bandwidths):.0f} to {max(bandwidths):.0f} GB/s over the rounds, "
          f"median {statistics.median(bandwidths):.0f}")


if __name__ == "__main__":
    main()
