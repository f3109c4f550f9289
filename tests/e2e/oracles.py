"""Logits by engines that nobody here wrote."""

import functools
import json
import pathlib

import numpy as np

import tiny_llama4
import tiny_moe
from make_tiny_model import write_hf

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"


def missing_windows(config) -> tuple:
    """Windows of the layers (None: full) of families that mlx-lm runs without them; else empty."""
    kind, n, window = config["model_type"], config.get("num_hidden_layers"), config.get("sliding_window")
    if kind in ("mistral", "phi3", "ministral3") and window:
        return (window,) * n
    if kind == "qwen2" and config["use_sliding_window"]:
        return tuple(window if i >= config["max_window_layers"] else None for i in range(n))
    if kind == "gemma2":
        return tuple(None if i % 2 else window for i in range(n))
    return ()


class _Windowed:
    """A layer that is given the mask of its own window, in the place of its last argument."""

    def __init__(self, layer, mask):
        self.layer, self.mask = layer, mask

    def __getattr__(self, name):
        return getattr(self.layer, name)

    def __call__(self, h, *arguments, cache=None):
        if self.layer.__class__.__module__.endswith(".ministral3"):
            return self.layer(h, arguments[0], self.mask, cache)
        return self.layer(h, self.mask, cache)


def _within_another(folder, config):
    """mlx-lm knows Gemma 3n as the text part of a multimodal model alone, and asks for projections that
    sharing layers do not compute."""
    import mlx.core as mx

    tensors = mx.load(str(next(pathlib.Path(folder).glob("*.safetensors"))))
    copy = pathlib.Path(folder) / "for-mlx"
    copy.mkdir(exist_ok=True)
    hidden, dim = config["hidden_size"], config["head_dim"]
    rows, layers = config["num_key_value_heads"] * dim, config["num_hidden_layers"]
    for i in range(layers - config["num_kv_shared_layers"], layers):
        unused = {"k_proj": (rows, hidden), "v_proj": (rows, hidden), "k_norm": (dim,)}
        for name, shape in unused.items():
            tensors.setdefault(f"model.layers.{i}.self_attn.{name}.weight", mx.zeros(shape))
    quantized = {key: config[key] for key in ("quantization", "quantization_config") if key in config}
    (copy / "config.json").write_text(json.dumps(
        {"model_type": "gemma3n", "text_config": config, **quantized}))
    mx.save_safetensors(str(copy / "model.safetensors"), {
        name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()},
        {"format": "mlx"})
    return copy


def _readable(folder, config):
    """mlx-lm reads GPT-OSS's experts as MXFP4 or under its own names, not Hugging Face's dense stacks,
    has no Ministral, which is a Llama with windows where layer_types says so, and knows Llama 4 with
    experts as the text part of a multimodal model alone."""
    from safetensors.numpy import load_file

    if config["model_type"] == "ministral":
        copy = pathlib.Path(folder) / "for-mlx"
        copy.mkdir(exist_ok=True)
        (copy / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
        for file in pathlib.Path(folder).glob("*.safetensors"):
            (copy / file.name).unlink(missing_ok=True)
            (copy / file.name).symlink_to(file.resolve())
        return copy
    if config["model_type"] == "gemma3n_text":
        return _within_another(folder, config)
    files = list(pathlib.Path(folder).glob("*.safetensors"))
    if config["model_type"] == "llama4_text" and len(tiny_llama4.moe_layers(config)) > 0:
        copy = pathlib.Path(folder) / "for-mlx"
        write_hf(copy, *tiny_llama4.nested(load_file(files[0]), config))
        return copy
    tensors = load_file(files[0]) if len(files) == 1 and config["model_type"] == "gpt_oss" else {}
    if not any(name.endswith("gate_up_proj") for name in tensors):
        return folder
    copy = pathlib.Path(folder) / "for-mlx"
    write_hf(copy, tiny_moe.stacked(config, tensors), config)
    return copy


@functools.cache
def mlx_logits(folder, tokens: tuple) -> np.ndarray:
    """mlx-lm's forward over all tokens at once, no cache, float32: [tokens, vocab]."""
    import mlx.core as mx
    from mlx_lm.models.base import create_causal_mask
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    model, config = load_model(pathlib.Path(_readable(folder, config)))
    model.set_dtype(mx.float32)
    for i, window in enumerate(missing_windows(config)):
        layers = model.model.layers
        layers[i] = _Windowed(layers[i], create_causal_mask(len(tokens), window_size=window))
    # Layers of Gemma 3n share caches only where there are some.
    caches = model.make_cache() if config["model_type"] == "gemma3n" else None
    return np.array(model(mx.array([tokens]), cache=caches)[0].astype(mx.float32))


def transformers_golden(name):
    """(logits [tokens, vocab], token ids, fingerprint of the weights) as recorded by
    tools/make_transformers_goldens.py."""
    golden = np.load(GOLDEN / f"{name}.npz")
    return golden["logits"], golden["tokens"].tolist(), str(golden["sha256"])
