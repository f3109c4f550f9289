"""`convert` of mixtures of experts: mlx-lm reads what is made here, and here what mlx-lm makes, with
quantized routers and overrides, to the same logits and the same bytes."""


import pytest

import tiny_moe
from converting import both_agree, config_of, convert, mlx_convert, read
from make_tiny_model import make_tensors, write_hf, write_mlx
from ringkeep_cli import fails
from tiny_specs import SPECS

FAMILIES = ["qwen3_moe", "qwen2_moe", "gemma4_moe"]
ROUTERS = {"qwen3_moe": "mlp.gate", "qwen2_moe": "mlp.gate", "gemma4_moe": "router.proj"}


# Not Gemma in 8 bits and groups of 32: see test_moe.py.
@pytest.mark.parametrize("name,bits,group", [
    *[(name, bits, group) for name in FAMILIES for bits, group in [(4, 64), (4, 32), (8, 64), (8, 32)]
      if (name, bits, group) != ("gemma4_moe", 8, 32)]])
def test_both_read_what_convert_makes(name, bits, group, tiny, tmp_path):
    report = convert(tiny.hf(name), tmp_path / "out", "--bits", bits, "--group", group)
    both_agree(tmp_path / "out", name, tmp_path)
    stored = {row["kind"]: row["stored"] for row in report["kinds"]}
    assert stored["experts"] == [f"{bits}:{group}"]


@pytest.mark.parametrize("name,bits,group,dtype", [
    ("qwen3_moe", 4, 64, "bfloat16"), ("qwen3_moe", 8, 32, None), ("qwen2_moe", 6, 32, "float16"),
    ("gemma4_moe", 4, 64, None), ("gemma4_moe", 8, 64, "bfloat16")])
def test_min_max_is_what_mlx_lm_writes(name, bits, group, dtype, tiny, tmp_path):
    """Every tensor, byte for byte, the router in 8 bits as mlx-lm has it; each engine reads both."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    mlx_convert(tiny.hf(name), theirs, bits, group, dtype)
    quantization = config_of(theirs)["quantization"]
    routers = [key for key in quantization if key.endswith(ROUTERS[name])]
    flags = ["--dtype", dtype] if dtype else []
    flags += ["--override", f".*={bits}:{group}"]  # the last rule that matches decides
    for router in routers:
        how = quantization[router]
        flags += ["--override", f"{router}$={how['bits']}:{how['group_size']}"]
    convert(tiny.hf(name), ours, "--bits", bits, "--group", group, "--rounding", "min-max", *flags)
    expected, found = read(theirs), read(ours)
    assert found.keys() == expected.keys()
    for tensor in expected:
        assert found[tensor] == expected[tensor], tensor
    assert routers or name == "qwen2_moe"
    assert (both_agree(ours, name, tmp_path) == both_agree(theirs, name, tmp_path)).all()


@pytest.mark.parametrize("name", ["qwen3_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_mlx_overrides(name, tmp_path):
    """Stacks, a router and projections of other widths than the model's, and some left as they are."""
    spec = SPECS[name]
    tensors = tiny_moe.stacked(spec.config, make_tensors(spec))
    modules = [n.removesuffix(".weight") for n, t in tensors.items()
               if t.ndim in (2, 3) and n.endswith(".weight")]
    find = lambda layer, *ends: next(m for m in modules if f"layers.{layer}." in m and m.endswith(ends))
    group = 32
    overrides = {find(0, "mlp.gate", "router.proj", "mlp.router"): (8, 64),
                 find(0, "down_proj") if name != "gemma4_moe" else find(0, "switch_glu.down_proj"): (6, 32),
                 find(1, "q_proj"): (5, 64), find(2, "up_proj"): None, find(1, "k_proj"): None}
    write_mlx(tmp_path / "model", tensors, spec.config, 4, group, overrides)
    both_agree(tmp_path / "model", name, tmp_path)


def test_an_expert_that_is_missing_is_told(tmp_path):
    tensors = make_tensors(SPECS["qwen3_moe"])
    del tensors["model.layers.2.mlp.experts.7.up_proj.weight"]
    write_hf(tmp_path / "source", tensors, SPECS["qwen3_moe"].config)
    fails(4, "convert", tmp_path / "source", tmp_path / "out", mentions=["expert", "found 11"])
    assert not (tmp_path / "out").exists()
