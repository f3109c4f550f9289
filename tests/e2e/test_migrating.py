"""docs/migrating.md says what the program does."""

import re

import pytest

from ringkeep_cli import ROOT, fails, ok

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


def test_flags_that_are_spelt_otherwise_say_so():
    """Each flag of the left columns that `serve` does not take: exit 2, and a line that begins with it."""
    known = set(flags_in(ok("serve", "--help").decode())) | {"-np"}
    named = {flag for heads, rows in tables() if heads[1] == "ringkeep serve" for row in rows for flag in flags_in(row[0])}
    foreign = sorted(named - known)
    assert len(foreign) > 40
    stderr = fails(2, "serve", "demo", *(word for flag in foreign for word in (flag, "x")), mentions=["docs/migrating.md"])
    said = [line.strip().split(":")[0] for line in stderr.splitlines() if line.startswith("  -")]
    assert sorted(said) == foreign
    assert "  -ctk: --kv-key-bits 8" in fails(2, "serve", "demo", "-ctk", "q8_0")
    assert "  --dtype: leave it out" in fails(2, "run", "demo", "--dtype=bfloat16", "-p", "x")


def test_flags_of_a_command_are_its_own():
    """--dtype and -b belong to `convert`; what is wrong there is something else."""
    fails(2, "convert", "a", "b", "--dtype", "float16", "-b", 4, "--no-such-flag", mentions=["--no-such-flag"])


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
                         "prompt_logprobs": 1, "bad_words": ["x"], "repeat_last_n": 64, "mirostat": 2, "cache_salt": "x",
                         "request_id": "x", "n_probs": 1, "reasoning_format": "none", "include_reasoning": False,
                         "kv_transfer_params": {}, "continue_final_message": True, "xtc_probability": .5}.items():
        server.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], field: value}, field)


def test_samplers_that_are_off_may_be_shaped(server):
    fields = {"xtc_probability": 0, "xtc_threshold": .1, "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2,
              "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n"], "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": .1,
              "reasoning_format": "auto", "include_reasoning": True, "max_tokens": 1}
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **fields})
    assert reply.status == 200, reply.body
