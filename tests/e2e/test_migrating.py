"""docs/migrating.md says what the program does."""

import re

import pytest

from ringkeep_cli import ROOT, ok

TEXT = (ROOT / "docs/migrating.md").read_text()
OTHER_COMMANDS = {"--prompt-cache-file"}  # of `run`, as the text says


def tables():
    """(heads, rows) of every table."""
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield rows[0], rows[2:]


def flags_in(cell):
    return re.findall(r"(?<![\w-])--?[a-z][a-z-]*", re.sub(r"`org/name`", "", cell))


def test_flags_that_it_names_exist():
    known = set(flags_in(ok("serve", "--help").decode())) | OTHER_COMMANDS
    named = 0
    for heads, rows in tables():
        if heads[1] != "ringkeep serve":
            continue
        for theirs, ours in rows:
            flags = flags_in(ours) + (flags_in(theirs) if ours.startswith("the same") else [])
            assert set(flags) <= known, f"{theirs} -> {ours}: {set(flags) - known} are no flags of ringkeep serve"
            named += len(flags)
    assert named > 60


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_fields_that_it_calls_the_same_are_known(server, route):
    schema = server.get("/openapi.json").json["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        spec = server.get("/openapi.json").json
        for part in schema["$ref"].lstrip("#/").split("/"):
            spec = spec[part]
        schema = spec
    chat_only = {"chat_template_kwargs", "documents", "add_generation_prompt", "tools", "top_logprobs"}
    found = 0
    for heads, rows in tables():
        if not heads[0].startswith("field"):
            continue
        for theirs, ours in rows:
            if not ours.startswith("the same") or "/" in theirs:
                continue
            for field in re.findall(r"`(\w+)`", theirs):
                if field in chat_only and route == "/v1/completions":
                    continue
                assert field in schema["properties"], f"{field} is not known to {route}"
                found += 1
    assert found > 20


def test_fields_that_it_calls_refused_are(server):
    for field, value in {"role_mapping": {"user": "x"}, "adapters": "x", "draft_model": "x", "repetition_context_size": 20,
                         "prompt_logprobs": 1, "bad_words": ["x"], "repeat_last_n": 64, "mirostat": 2}.items():
        server.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], field: value}, field)
