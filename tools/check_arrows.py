#!/usr/bin/env python3
"""Checks the includes of every source file against the arrows of the house (ARCHITECTURE.md).

A room may include itself and the rooms that its arrows reach, transitively; nothing else.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# room -> rooms it may include directly; arrows are transitive.
ARROWS = {
    "base": [],
    "quant": ["base"],
    "config": ["base"],
    "checkpoint": ["config", "quant"],
    "text": ["config"],
    "grammar": ["text"],
    "prompt": ["text"],
    "kernels/api": ["quant"],
    "kernels/ref": ["kernels/api"],
    "kernels/cpu": ["kernels/api"],
    "kernels/select": ["kernels/ref", "kernels/cpu"],
    "weights": ["checkpoint", "kernels/api"],
    "kv": ["config", "kernels/api"],
    "models": ["kv", "weights"],
    "engine": ["models", "prompt"],
    "convert": ["weights"],
    "eval": ["engine"],
    "server/http": ["base"],
    "server/openai": ["server/http", "engine", "grammar", "prompt"],
    "server/web": ["server/http"],
    "cli": ["eval", "convert", "server/openai", "server/web", "engine", "kernels/select"],
}
# Highway stays inside kernels/cpu, Boost and prometheus-cpp each inside one room of the server.
FENCED = {"hwy/": {"kernels/cpu"}, "boost/": {"server/http"}, "prometheus/": {"server/openai"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def reachable(room):
    seen, todo = set(), [room]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += ARROWS[current]
    return seen


def room_of(path):
    """The room that a path relative to src/ or apps/ lies in, or None."""
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in ARROWS:
            return name
    return None


def check(file, room, allowed):
    text = file.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        quote, target = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        where = f"{file.relative_to(ROOT)}:{line}"
        for prefix, rooms in FENCED.items():
            if target.startswith(prefix) and room not in rooms:
                yield f"{where}: {room} includes {target}, which belongs in {', '.join(sorted(rooms))}"
        if quote != '"' or target.startswith(tuple(FENCED)):
            continue
        to = room_of(target)
        if to is None:
            yield f'{where}: "{target}" lies in no known room'
        elif to not in allowed:
            yield f"{where}: {room} includes {target}, against the arrows (no way from {room} to {to})"


def main():
    problems = []
    for top in ("src", "apps"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".h", ".cpp"):
                continue
            room = room_of(str(file.relative_to(ROOT / top)))
            if room is None:
                problems.append(f"{file.relative_to(ROOT)}: lies in no known room")
            else:
                problems += check(file, room, reachable(room))
    for problem in problems:
        print(f"arrows: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
