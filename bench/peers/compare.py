#!/usr/bin/env python3
"""Speed of ringkeep and llama.cpp side by side: rounds of both in turn, medians, ratios.

Needs llama-cpp-python in this interpreter. Prefill and decode are measured after each depth; cache
types are matched by bits (8: q8_0, 4: q4_0).

    compare.py MODEL.gguf --ringkeep build/release/bin/ringkeep --codecs f16,8 -d 0,4096 -r 5
"""

import argparse
import json
import statistics
import subprocess

import llama_cpp_peer


def ringkeep_round(args, codecs, depths):
    """{(codec, depth): (prefill tok/s, decode tok/s)} of one run of `ringkeep bench`, medians."""
    output = subprocess.run(
        [args.ringkeep, "bench", args.model, "--json", "-p", str(args.prefill), "-n",
         str(args.decode), "-d", ",".join(map(str, depths)), "--codecs", ",".join(codecs), "-r",
         str(args.repeats), "--threads", str(args.threads)], check=True, capture_output=True).stdout
    return {(row["codec"], row["depth"]): (row["prefill_tok_s"], row["decode_tok_s"])
            for row in json.loads(output)["rows"]}


class Peer:
    """llama.cpp with the states at every depth ready, so that a round measures only."""

    def __init__(self, args, codecs, depths):
        self.args = args
        self.contexts = {
            codec: llama_cpp_peer.LlamaCpp(
                args.model, codec, args.threads,
                n_ctx=max(depths) + max(args.prefill, args.decode) + llama_cpp_peer.MICRO_BATCH)
            for codec in codecs}
        self.filled = {(codec, depth): self.contexts[codec].fill(depth)
                       for codec in codecs for depth in depths}

    def round(self):
        return {key: self.median(self.contexts[key[0]], filled)
                for key, filled in self.filled.items()}

    def median(self, context, filled):
        speeds = [context.speed(filled, self.args.prefill, self.args.decode)
                  for _ in range(self.args.repeats)]
        return tuple(statistics.median(values) for values in zip(*speeds))


def print_table(ours, theirs):
    """Medians over the rounds; ratios above 1 say that ringkeep is faster."""
    print(f"{'cache':<6} {'depth':>6} {'':>8} {'ringkeep':>10} {'llama.cpp':>10} {'ratio':>6}")
    for codec, depth in ours[0]:
        for index, what in enumerate(("prefill", "decode")):
            a, b = (statistics.median(r[codec, depth][index] for r in rounds)
                    for rounds in (ours, theirs))
            print(f"{codec:<6} {depth:>6} {what:>8} {a:>10.1f} {b:>10.1f} {a / b:>6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--ringkeep", default="build/release/bin/ringkeep")
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
    unknown = [c for c in codecs if c not in llama_cpp_peer.CACHE_TYPES]
    if unknown:
        parser.error(f"--codecs: llama.cpp has no counterpart of {', '.join(unknown)}")
    print(f"llama.cpp: {llama_cpp_peer.system_info()}")
    peer = Peer(args, codecs, depths)
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(ringkeep_round(args, codecs, depths))
        theirs.append(peer.round())
    print_table(ours, theirs)


if __name__ == "__main__":
    main()
