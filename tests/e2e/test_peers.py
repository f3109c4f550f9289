"""mlx-lm as bench/peers runs it: the same model as ringkeep reads from the file, and refusals told."""

import subprocess
import sys

import numpy as np
import pytest

from make_tiny_model import test_tokens as fixed_tokens
from ringkeep_cli import BINARY, ROOT, logits, worst_error
from tiny_specs import SPECS

PEERS = ROOT / "bench/peers"


@pytest.fixture
def mlx_lm_peer(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    import mlx_lm_peer

    return mlx_lm_peer


def compare(model, *flags):
    """The table's lines and the progress of one round on `model`."""
    result = subprocess.run(
        [sys.executable, PEERS / "compare.py", model, "--ringkeep", BINARY, "--peers", "mlx-lm", "-p", "8",
         "-n", "2", "-r", "1", *flags], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize("name", ["gemma3_pattern6", "qwen3", "qwen3_tied"])
def test_mlx_lm_runs_the_same_model(name, mlx_lm_peer, tiny, tmp_path):
    """Names, norms, windows, RoPE: float32 weights and a float32 cache leave rounding alone."""
    path, tokens = tiny.gguf(name, "F32"), fixed_tokens(SPECS[name], 80)
    found = np.concatenate([rows for _, rows in mlx_lm_peer.MlxLm(path).logits(tokens)])
    assert worst_error(found, logits(path, tokens, tmp_path, "--exact")) < 2e-3


@pytest.mark.parametrize("kind,error", [("Q8_0", 0.05), ("Q4_0", 0.35)])
def test_mlx_lm_keeps_the_bits_of_matrices(kind, error, mlx_lm_peer, tiny, tmp_path):
    """mlx's grid lies elsewhere than the file's: near, at the file's bits."""
    path, tokens = tiny.gguf("qwen3", kind), fixed_tokens(SPECS["qwen3"], 80)
    peer = mlx_lm_peer.MlxLm(path)
    assert peer.model.model.layers[0].mlp.down_proj.bits == int(kind[1])
    found = np.concatenate([rows for _, rows in peer.logits(tokens)])
    assert 1e-4 < worst_error(found, logits(path, tokens, tmp_path, "--exact")) < error


@pytest.mark.parametrize("name,codec", [("gemma3_pattern6", "f16"), ("qwen3", "f16"), ("qwen3", "8")])
def test_a_state_can_be_gone_back_to(name, codec, mlx_lm_peer, tiny):
    """What is measured after a restore never changes the state that the next round starts from, not even
    where a window writes over its oldest token."""
    peer = mlx_lm_peer.MlxLm(tiny.gguf(name, "F32"), codec)
    filled = peer.fill(40)
    after = []
    for _ in range(2):
        peer.restore(filled)
        after.append(np.array(peer.forward([7])))
        peer.step([5] * 40)
    assert filled[0].offset == 40
    assert (after[0] == after[1]).all()


def test_compare_prints_medians_and_ratios(tiny):
    lines, progress = compare(tiny.gguf("qwen3", "Q8_0"), "--codecs", "f16,8", "-d", "0,40")
    rows = [line.split() for line in lines if " prefill " in line or " decode " in line]
    assert [row[:3] for row in rows] == [
        [codec, depth, what] for depth in ("0", "40") for codec in ("f16", "8")
        for what in ("prefill", "decode")]
    for row in rows:
        ours, theirs, ratio = map(float, row[3:])
        assert ratio == pytest.approx(ours / theirs, rel=0.02)
    assert "round 1 of 1: mlx-lm" in progress


def test_compare_says_what_a_peer_refuses(tiny):
    """mlx-lm does not quantize the caches of windows: no figure, its own words instead."""
    lines, _ = compare(tiny.gguf("gemma3_pattern6", "Q8_0"), "--codecs", "f16,8", "-d", "0")
    refused = [line.split() for line in lines if line.startswith("8 ")]
    assert [row[2] for row in refused] == ["prefill", "decode"]
    assert all(row[4:] == ["refused"] for row in refused)
    assert "mlx-lm refuses 8: RotatingKVCache Quantization NYI" in lines
