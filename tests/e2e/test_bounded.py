"""Memory is bounded and foreseen, and a bounded cache computes what it should."""

import numpy as np
import pytest

from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf
from naive_llama import naive_logits
from oracles import transformers_golden
from ringkeep_cli import fails, logits, ok_json, worst_error
from tiny_specs import SPECS, WINDOW


def plan(model, *flags):
    return ok_json("plan", model, *flags)


def generate(model, prompt, count, *flags):
    return ok_json("run", model, "--raw", "-p", prompt, "-n", count, "--temp", 0, "--ignore-eos",
                   *flags)


def test_the_oracle_itself():
    """The naive model equals transformers with a window and without."""
    for name, window in (("mistral", WINDOW), ("llama_bias", 10**9)):
        expected, tokens, _ = transformers_golden(name)
        spec = SPECS[name]
        found = naive_logits(make_tensors(spec), spec.config, tokens, window)
        assert worst_error(found, expected) < 1e-4


@pytest.mark.parametrize("chunk", [1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 3])
def test_chunks_around_the_window(chunk, tiny, tmp_path):
    """A chunk longer than the window at an offset leaves no row without keys and shows no future."""
    expected, tokens, _ = transformers_golden("mistral")
    tokens = tokens[:3 * WINDOW + 5]
    found = logits(tiny.hf("mistral"), tokens, tmp_path, "--exact", "--chunk", chunk)
    assert np.isfinite(found).all()
    assert worst_error(found, expected[:len(tokens)]) < 2e-3


@pytest.mark.parametrize("size,keep", [(48, 0), (64, 4), (100, 40), (5, 4)])
@pytest.mark.parametrize("chunk", [7, 512])
def test_bounded_full_layers(size, keep, chunk, tiny, tmp_path):
    """--max-kv-size N --keep K: a window of N - K and K first tokens that never leave."""
    spec = SPECS["llama_bias"]
    tokens = fixed_tokens(spec, 260)
    expected = naive_logits(make_tensors(spec), spec.config, tokens, size - keep, keep)
    found = logits(tiny.hf(spec.name), tokens, tmp_path, "--exact", "--max-kv-size", size,
                   "--keep", keep, "--chunk", chunk)
    assert worst_error(found, expected) < 2e-3


@pytest.mark.parametrize("codec", ["f16", "8", "4"])
def test_bounding_a_full_model_equals_a_sliding_one(codec, tiny, tmp_path):
    """Without pinned tokens a bounded full layer is a sliding layer of the same size."""
    spec = SPECS["mistral"]
    tokens = fixed_tokens(spec, 200)
    full = tmp_path / "full"
    write_hf(full, make_tensors(spec), {**spec.config, "sliding_window": None})
    flags = ("--kv-bits", codec)
    bounded = logits(full, tokens, tmp_path, *flags, "--max-kv-size", WINDOW)
    assert (bounded == logits(tiny.hf(spec.name), tokens, tmp_path, *flags)).all()


@pytest.mark.parametrize("codec", ["f16", "4"])
def test_bounded_past_the_context(codec, tiny, tmp_path):
    """Sliding layers use min(window, N); kept tokens stay exact after many wraps: the rows do not
    depend on how often the ring turned (prefill steps of 1 and 512)."""
    tokens = fixed_tokens(SPECS["gemma3"], 600)
    flags = ("--kv-bits", codec, "--max-kv-size", 80, "--keep", 40)
    a = logits(tiny.hf("gemma3"), tokens, tmp_path, *flags, "--chunk", 1)
    assert (a == logits(tiny.hf("gemma3"), tokens, tmp_path, *flags)).all()


@pytest.mark.parametrize("size,keep", [(4, 4), (16, 40)])
def test_keep_must_be_smaller(size, keep, tiny):
    """Pinning at least as many tokens as fit is refused, and the message says both numbers."""
    for command in (["plan"], ["run", "-p", "a"]):
        fails(3, command[0], tiny.gguf("llama3", "F32"), *command[1:], "--max-kv-size", size,
              "--keep", keep, mentions=[size, keep])


@pytest.mark.parametrize("flags", [
    (), ("--kv-bits", "8"), ("--kv-bits", "4"), ("--kv-bits", "K4V3"),
    ("--kv-bits", "4", "--kv-hot", "f16"), ("--kv-bits", "K8V3", "--max-kv-size", "100"),
    ("--kv-bits", "4", "--max-kv-size", "256", "--keep", "200"),
    ("--kv-bits", "8", "--max-kv-size", "256", "--keep", "4")])
def test_a_run_holds_what_plan_says(flags, tiny):
    """A run that fills its context (or wraps its bound) holds the plan's bytes, to the byte."""
    model = tiny.gguf("gemma3_pattern6", "F32")
    context = () if "--max-kv-size" in flags else ("--ctx", "320")
    run = generate(model, "some text", 600 if not context else -1, *flags, *context)
    assert run["kv_bytes"] == plan(model, *flags, *context)["totals"]["kv_bytes"]


def test_a_quantized_start_stays_within_the_plan(tiny):
    """The peak holds f16 rows and their codes at once; the plan covers it."""
    flags = ("--kv-bits", "4", "--quantized-kv-start", "100", "--ctx", "320")
    model = tiny.gguf("gemma3_pattern6", "F32")
    run = generate(model, "some text", 200, *flags)
    assert 0 < run["kv_bytes"] <= plan(model, *flags)["totals"]["kv_bytes"]


def test_memory_is_flat_once_wrapped(tiny):
    """Six times the tokens, the same memory."""
    model = tiny.gguf("llama3", "F32")
    flags = ("--kv-bits", "4", "--max-kv-size", "256", "--keep", "4")
    short, long = (generate(model, "some text", n, *flags) for n in (400, 2400))
    assert len(long["tokens"]) == 2400
    assert long["kv_bytes"] == short["kv_bytes"]
    assert long["peak_rss_bytes"] - short["peak_rss_bytes"] < 1 << 20


def test_sliding_layers_do_not_grow_with_the_context(demo):
    """Of the demo model's 18 layers only the three full ones grow from 4,096 to 32,768 tokens."""
    small, large = (plan(demo, "--kv-bits", "8", "--ctx", n)["layers"] for n in (4096, 32768))
    grown = [b["index"] for a, b in zip(small, large) if b["max_bytes"] > a["max_bytes"]]
    assert grown == [5, 11, 17]
    assert all(a["max_tokens"] <= 512 + 2 * 64 for a in small if a["kind"] == "sliding")


def test_demo_model_bounded(demo):
    """A 600-token prompt and 560 more with --max-kv-size 1024 --keep 4 at 8 bits: every kind of
    layer wraps, and the run holds the planned bytes."""
    flags = ("--kv-bits", "8", "--max-kv-size", "1024", "--keep", "4")
    run = generate(demo, "The quick brown fox jumps over the lazy dog. " * 60, 560, *flags)
    assert run["prompt_tokens"] >= 600
    assert len(run["tokens"]) == 560
    assert run["kv_bytes"] == plan(demo, *flags)["totals"]["kv_bytes"]


@pytest.mark.parametrize("codec", ["8", "4"])
def test_a_full_context_ends_cleanly(codec, tiny):
    """Without a bound, generation stops at --ctx and says so."""
    run = generate(tiny.gguf("llama3", "F32"), "some text", 400, "--kv-bits", codec, "--ctx", 256)
    assert run["finish_reason"] == "length"
    assert run["prompt_tokens"] + len(run["tokens"]) in (256, 257)
