"""docs/migrating.md says what the program does."""

import re

import pytest

from ringkeep_cli import ROOT, fails, ok

TEXT = (ROOT / "docs/migrating.md").read_text()
OTHER_COMMANDS = {"--prompt-cache-file", "--system", "--raw"}  # of `run`, as the text says


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
    known = set(flags_in(ok("serve", "--help").decode()))
    named = {flag for heads, rows in tables() if heads[1] == "ringkeep serve" for row in rows for flag in flags_in(row[0])}
    foreign = sorted(named - known)
    assert len(foreign) > 40
    stderr = fails(2, "serve", "demo", *(word for flag in foreign for word in (flag, "x")), mentions=["docs/migrating.md"])
    said = [line.strip().split(":")[0] for line in stderr.splitlines() if line.startswith("  -")]
    assert sorted(said) == foreign
    assert "  -ctk: --kv-key-bits 8" in fails(2, "serve", "demo", "-ctk", "q8_0")
    assert "  --dtype: leave it out" in fails(2, "run", "demo", "--dtype=bfloat16", "-p", "x")


def test_every_flag_that_is_answered_is_in_the_text():
    source = (ROOT / "apps/cli/foreign_flags.cpp").read_text()
    ours = set(flags_in(ok("serve", "--help").decode()))
    answered = set(re.findall(r'"(--?[a-z][a-z-]*)"', source)) - ours
    assert len(answered) > 200
    assert answered <= {flag for heads, rows in tables() for row in rows for flag in flags_in(row[0])}


@pytest.mark.parametrize("command, flag, answer", [
    ("serve", "-hf", "org/name:QUANT is the first argument"), ("run", "-hf", "org/name:QUANT is the first argument"),
    ("serve", "-tb", "leave it out"), ("serve", "-cb", "leave it out"), ("serve", "-to", "--write-timeout"),
    ("serve", "-ctxcp", "--prefix-cache-bytes"), ("serve", "-ncmoe", "--expert-memory"), ("serve", "-cmoe", "--expert-memory"),
    ("serve", "-nkvo", "no GPU"), ("run", "-sys", "--system"), ("run", "-cnv", "leave it out"), ("plan", "-fa", "always on"),
    ("serve", "--max_model_len", "written --max-model-len"), ("serve", "--max_num_batched_tokens", "--chunk")])
def test_one_dash_and_letters_are_one_flag(command, flag, answer):
    """Never the short flags that the letters would be, whether the model comes before or after."""
    for arguments in ([flag, "4", "demo"], ["demo", flag, "4"], ["demo", "-c", 512, flag]):
        stderr = fails(2, command, *arguments)
        line, = [line for line in stderr.splitlines() if line.startswith(f"  {flag}: ")]
        assert answer in line


def test_unknown_flags_are_named_together():
    """In their order, as they were typed, without values, whether or not others know them."""
    flags = ["--slots", "--props", "-xyz", "/x", "--no-such=3", "--revision", "main", "--metrics"]
    said = [line for line in fails(2, "serve", "demo", *flags).splitlines() if line.startswith("  -")]
    assert [line.split(":")[0].strip() for line in said] == ["--slots", "--props", "-xyz", "--no-such", "--revision", "--metrics"]
    assert said[2:4] == ["  -xyz: no such flag", "  --no-such: no such flag"]
    assert "error: no such flag -xyz\n" in fails(2, "serve", "demo", "-xyz", 2)
    assert "error: no such flags: -xyz, --abc\n" in fails(2, "run", "demo", "-xyz", 2, "--abc=5", "-xyz")
    assert "error: no such flag -nope\n" in fails(2, "-nope", "serve")


def test_what_the_library_may_take_apart(demo):
    """Numbers behind a letter, a switch that is repeated, and values that look like flags."""
    ok("plan", demo, "-vv", "-c512", "-np", 2)
    ok("run", demo, "--raw", "-p", "-hf", "-n2", "-t1", "--seed", 0)
    assert "no such flag -vq" in fails(2, "serve", demo, "-vq")


def test_one_value_at_a_time(demo):
    for arguments in ([demo, "--served-model-name", "A", "B"], ["--served-model-name", "A", "B", demo]):
        fails(2, "serve", *arguments, mentions=["--served-model-name takes one value, write it again for each"])
    assert "takes one value" not in fails(2, "serve", demo, "x", "--alias", "A")


def test_the_name_that_was_typed():
    for flag in ("--max-model-len", "-c", "--ctx-size", "--ctx"):
        assert f"error: {flag}: expected" in fails(2, "serve", "demo", flag, "8x")
    assert ok("plan", "demo", "--max-model-len", "2K") == ok("plan", "demo", "-c", 2048)
    assert "error: -np: expected" in fails(2, "serve", "demo", "-np", "x")


def test_values_of_other_programs(demo, tmp_path):
    """What stands for them here."""
    for value, ours in {"q8_0": "8", "q4_0": "4", "fp8": "8", "16": "f16", "bf16": "f16"}.items():
        for flag in ("--kv-bits", "--kv-key-bits", "--kv-value-bits"):
            fails(2, "plan", demo, flag, value, mentions=[flag, value, f"(write {ours} for it)"])
    assert "write" not in fails(2, "plan", demo, "--kv-bits", "7")
    for template in ("{{ messages }}", "{% for m in messages %}{{ m }}{% endfor %}"):
        error = fails(4, "run", demo, "-p", "x", "--chat-template", template, mentions=["a file or a name", "chatml"])
        assert template not in error
        fails(4, "serve", demo, "--port", 0, "--chat-template", template, mentions=["a file or a name"])
    (tmp_path / "model.safetensors").write_text("x")
    fails(4, "plan", tmp_path / "model.safetensors", mentions=[f"give the folder that holds it and config.json, {tmp_path}"])


def test_commands_within_commands():
    fails(2, "eval", "demo", mentions=["eval: expected eval kv or eval needle"])
    fails(2, "eval", "demo", "--text", "x", mentions=["eval: expected eval kv or eval needle"])
    fails(2, "cache", mentions=["cache make or cache inspect or cache check"])
    for command in ("eval", "eval kv", "serve", "convert"):
        assert b"Usage" in ok(*command.split(), "--help")
    assert "demo" not in ok("convert", "--help").decode()


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
