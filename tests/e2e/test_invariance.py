"""Results do not depend on how the work is cut: prefill chunks and threads give the same bits."""

import numpy as np
import pytest

from make_tiny_model import test_tokens as fixed_tokens
from ringkeep_cli import logits, worst_error
from tiny_specs import SPECS

CODECS = ["f16", "8", "4", "4 --kv-hot none", "4 --kv-hot f16", "K8V3", "affine4:64"]


def assert_same(a, b):
    assert np.isfinite(a).all()
    different = np.flatnonzero((a.view(np.uint32) != b.view(np.uint32)).any(axis=1))
    assert different.size == 0, f"{different.size} rows differ, the first is {different[0]}"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["gemma3", "llama3", "mistral"])
def test_chunks_and_threads(name, codec, tiny, tmp_path):
    """Every row of 300 tokens: windows wrap many times, pages of 64 fill and retire."""
    tokens = fixed_tokens(SPECS[name], 300)
    run = lambda chunk, threads: logits(tiny.hf(name), tokens, tmp_path, "--kv-bits",
                                        *codec.split(), "--chunk", chunk, "--threads", threads)
    whole = run(512, 1)
    for chunk, threads in [(512, 2), (1, 1), (7, 2), (64, 1), (64, 2)]:
        assert_same(run(chunk, threads), whole)


@pytest.mark.parametrize("name", ["llama_yarn", "qwen3_tied"])
def test_chunks_with_other_head_sizes(name, tiny, tmp_path):
    """Head sizes of 80 and 96, which are no powers of two."""
    tokens = fixed_tokens(SPECS[name], 200)
    for codec in ("8", "3.5", "3.5 --kv-hot f16"):
        run = lambda chunk: logits(tiny.hf(name), tokens, tmp_path, "--kv-bits", *codec.split(),
                                   "--chunk", chunk)
        assert_same(run(7), run(512))


def test_hot_rows_are_read(tiny, tmp_path):
    """Rows of the first two pages read nothing else, and so as an 8-bit cache; later ones do not."""
    tokens = fixed_tokens(SPECS["llama3"], 200)
    run = lambda *flags: logits(tiny.hf("llama3"), tokens, tmp_path, *flags)
    four, eight = run("--kv-bits", "4"), run("--kv-bits", "8")
    assert_same(four[:128], eight[:128])
    assert (four[128:] != eight[128:]).any(axis=1).all()
    none = run("--kv-bits", "4", "--kv-hot", "none")
    assert worst_error(none[:128], eight[:128]) > 0.01


@pytest.mark.parametrize("start", [1, 31, 32, 33, 150])
def test_chunks_with_a_quantized_start(start, tiny, tmp_path):
    """Rows before --quantized-kv-start read f16, later ones codes, wherever a chunk ends; the rows
    before it equal those of an f16 cache but for rounding (K is balanced before it is rounded)."""
    tokens = fixed_tokens(SPECS["gemma3"], 200)
    run = lambda *flags: logits(tiny.hf("gemma3"), tokens, tmp_path, *flags)
    flags = ("--kv-bits", "4", "--quantized-kv-start", start)
    whole = run(*flags)
    for chunk in (1, 7, 64):
        assert_same(run(*flags, "--chunk", chunk), whole)
    f16 = run("--kv-bits", "f16")
    assert worst_error(whole[:start], f16[:start]) < 2e-3
    assert worst_error(whole[start:], f16[start:]) > 2e-3


@pytest.mark.parametrize("codec", ["8", "4"])
def test_demo_model(codec, demo, tmp_path):
    """The real model past its window of 512 (kernels for its sizes, head size 256)."""
    tokens = [2] + [1000 + 37 * i % 50000 for i in range(559)]
    run = lambda chunk, threads: logits(demo, tokens, tmp_path, "--kv-bits", codec, "--chunk",
                                        chunk, "--threads", threads, "--positions", "540:560")
    whole = run(512, 2)
    for chunk, threads in [(512, 1), (7, 2), (64, 2)] + ([(1, 2)] if codec == "8" else []):
        assert_same(run(chunk, threads), whole)
