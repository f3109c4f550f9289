#!/usr/bin/env python3
"""Writes a tiny random LoRA adapter of a tiny checkpoint, as PEFT or as mlx-lm stores it.

Factors are multiples of a power of two from PCG64's raw stream, as the checkpoints' weights are:
the same bits everywhere, and exact in float32, float16 and bfloat16 alike.

    tiny_adapters.py llama3 OUT_FOLDER
    tiny_adapters.py llama3 OUT_FOLDER --mlx
"""

import argparse
import json
import math
import pathlib
import re
from dataclasses import dataclass, field

import numpy as np

from make_tiny_model import _Stream, make_tensors
from tiny_specs import SPECS

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL = (*ATTENTION, "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class AdapterSpec:
    name: str
    base: str  # of tiny_specs
    modules: tuple = ALL
    rank: int = 8
    alpha: float = 16.0
    layers: tuple | None = None  # None: all
    more: dict = field(default_factory=dict, hash=False)  # of adapter_config.json, PEFT alone
    seed: int = 1
    gain: float = 0.7  # of what the adapter adds, beside the weights

    def of_module(self, key, default, module):
        for pattern, value in self.more.get(key, {}).items():
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        return default

    def rank_of(self, module):
        return self.of_module("rank_pattern", self.rank, module)

    def scale_of(self, module):
        alpha, rank = self.of_module("alpha_pattern", self.alpha, module), self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.more.get("use_rslora") else rank)


ADAPTERS = {spec.name: spec for spec in [
    AdapterSpec("llama3", "llama3", ("q_proj", "v_proj"), seed=1),
    # Another one of the same model: other modules, another rank, a scale that is no power of two.
    AdapterSpec("llama3_b", "llama3", ALL, rank=3, alpha=5.0, seed=2),
    AdapterSpec("qwen3", "qwen3", ALL, rank=4, alpha=7.0, seed=3, more={
        "use_rslora": True, "rank_pattern": {"q_proj": 12, "layers.1.mlp.down_proj": 20},
        "alpha_pattern": {"layers.2.self_attn.v_proj": 3.0, "v_proj": 9.0}}),
    AdapterSpec("gemma3", "gemma3", ALL, rank=6, alpha=6.0, layers=(1, 2, 4), seed=4),
    AdapterSpec("gemma4", "gemma4", ALL, rank=5, seed=5),
    AdapterSpec("gemma4_e", "gemma4_e",
                (*ALL, "per_layer_input_gate", "per_layer_projection", "per_layer_model_projection"),
                rank=8, seed=6),
    AdapterSpec("gemma3n", "gemma3n",
                (*ALL, "linear_left", "linear_right", "modality_router", "per_layer_input_gate",
                 "per_layer_projection", "per_layer_model_projection"), rank=6, seed=14, gain=0.5),
    # q, k and v in one matrix, gate and up in another.
    AdapterSpec("phi3_long", "phi3_long", ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"), seed=7),
    # q and k rows in pairs (2i, 2i + 1).
    AdapterSpec("cohere2", "cohere2", ALL, seed=8),
    AdapterSpec("olmo3", "olmo3", ALL, rank=16, seed=9),
    AdapterSpec("mistral_head", "mistral", ("k_proj", "lm_head"), seed=10),
    # Attention of mixtures of experts, and the dense feed-forward beside Gemma 4's.
    AdapterSpec("qwen3_moe", "qwen3_moe", ATTENTION, rank=7, seed=11),
    AdapterSpec("gemma4_moe", "gemma4_moe", ALL, rank=5, seed=12),
    AdapterSpec("gpt_oss", "gpt_oss_truncate", ATTENTION, seed=13),
    # q and k rows in pairs, normed and not.
    AdapterSpec("llama4", "llama4", ATTENTION, rank=5, seed=15),
]}


def make_factors(spec: AdapterSpec) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{module: (A [rank, in], B [out, rank])} under the names of Hugging Face, float32."""
    base, rng = SPECS[spec.base], _Stream(1000 + spec.seed)
    config, factors = base.config, {}
    # Layers that read another one's cache have no k and v.
    owners = config["num_hidden_layers"] - config.get("num_kv_shared_layers", 0)
    for name, tensor in make_tensors(base).items():
        module = name.removesuffix(".weight")
        layer = int(module.split(".")[2]) if ".layers." in module else None
        if tensor.ndim != 2 or module.rsplit(".", 1)[-1] not in spec.modules:
            continue
        if spec.layers is not None and layer not in spec.layers:
            continue
        if layer is not None and layer >= owners and module.endswith((".k_proj", ".v_proj")):
            continue
        (out, inputs), rank = tensor.shape, spec.rank_of(module)
        a = rng.matrix(rank, inputs, 1.0 / np.sqrt(inputs))
        size = spec.gain * float(tensor.std()) * np.sqrt(inputs)  # of what the weights give
        b = rng.matrix(out, rank, size / (np.sqrt(rank) * spec.scale_of(module)))
        factors[module] = a, b
    assert factors, spec.name
    return factors


def peft_config(spec: AdapterSpec) -> dict:
    return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny",
            "inference_mode": True, "r": spec.rank, "lora_alpha": spec.alpha, "lora_dropout": 0.05,
            "target_modules": list(spec.modules), "bias": "none", "fan_in_fan_out": False,
            "modules_to_save": None, "use_dora": False, "use_rslora": False,
            "init_lora_weights": True, "layers_pattern": None, "rank_pattern": {},
            "alpha_pattern": {}, "layers_to_transform": list(spec.layers) if spec.layers else None,
            **spec.more}


def peft_tensors(spec: AdapterSpec, inner="") -> dict[str, np.ndarray]:
    """`inner`: what stands between PEFT's prefix and the name."""
    tensors = {}
    for module, (a, b) in make_factors(spec).items():
        tensors[f"base_model.model.{inner}{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{inner}{module}.lora_B.weight"] = b
    return tensors


def write_peft(folder, spec: AdapterSpec, config=None, tensors=None):
    from safetensors.numpy import save_file

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config or peft_config(spec), indent=2))
    save_file(tensors or peft_tensors(spec), folder / "adapter_model.safetensors", {"format": "pt"})
    return folder


def write_mlx_adapter(folder, spec: AdapterSpec, prefix=""):
    """As mlx_lm.lora writes it: one rank and one scale, factors the other way round. `prefix`: what
    the model's class of mlx-lm puts before the names."""
    import mlx.core as mx

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    factors, layers = make_factors(spec), SPECS[spec.base].config["num_hidden_layers"]
    keys = sorted({".".join(m.split(".")[3:]) if ".layers." in m else m for m in factors})
    first = min(spec.layers) if spec.layers else 0
    (folder / "adapter_config.json").write_text(json.dumps({
        "fine_tune_type": "lora", "num_layers": layers - first, "model": "tiny", "iters": 100,
        "lora_parameters": {"rank": spec.rank, "scale": spec.alpha / spec.rank, "dropout": 0.0,
                            "keys": keys}}, indent=2))
    tensors = {}
    for module, (a, b) in factors.items():
        tensors[f"{prefix}{module}.lora_a"] = mx.array(np.ascontiguousarray(a.T))
        tensors[f"{prefix}{module}.lora_b"] = mx.array(np.ascontiguousarray(b.T))
    mx.save_safetensors(str(folder / "adapters.safetensors"), tensors)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("spec", choices=sorted(ADAPTERS))
    parser.add_argument("folder")
    parser.add_argument("--mlx", action="store_true")
    args = parser.parse_args()
    (write_mlx_adapter if args.mlx else write_peft)(args.folder, ADAPTERS[args.spec])


if __name__ == "__main__":
    main()
