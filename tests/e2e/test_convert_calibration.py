"""`convert` with a calibration: errors are weighed by the inputs, which are mlx-lm's."""

import numpy as np
import pytest

from converting import both_agree, convert
from make_tiny_model import make_tensors, test_tokens as fixed_tokens
from tiny_specs import SPECS


def mlx_inputs(folder, tokens):
    """Mean squares of the inputs of every linear of mlx-lm's model: {module: [columns]}."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    seen, names = {}, {id(m): n for n, m in model.named_modules()}
    plain = nn.Linear.__call__

    def recorded(self, x):
        seen[names[id(self)]] = (np.array(x, np.float64)**2).reshape(-1, x.shape[-1]).mean(0)
        return plain(self, x)

    nn.Linear.__call__ = recorded
    try:
        mx.eval(model(mx.array([tokens])))
    finally:
        nn.Linear.__call__ = plain
    return seen


def weighed_error(original, folder, inputs, bits, group):
    """sqrt(sum h e^2 / sum h w^2) over the modules that have inputs h, by mlx's dequantize."""
    import mlx.core as mx

    weights = mx.load(str(folder / "model.safetensors"))
    squared = total = 0.0
    for module, h in inputs.items():
        restored = np.array(mx.dequantize(
            weights[module + ".weight"], weights[module + ".scales"], weights[module + ".biases"],
            group_size=group, bits=bits).astype(mx.float32))
        w = original[module + ".weight"].astype(np.float64)
        squared += (h * (restored - w)**2).sum()
        total += (h * w**2).sum()
    return np.sqrt(squared / total)


@pytest.mark.parametrize("name", ["llama3", "gemma3", "gemma4_e", "phi3_long", "cohere2"])
def test_calibration_weighs_by_the_inputs(name, tiny, tmp_path):
    """The error that is told is that of mlx-lm's inputs, and smaller than without a calibration."""
    tokens = fixed_tokens(SPECS[name], 200)
    ids = tmp_path / "ids.txt"
    ids.write_text(",".join(map(str, tokens)))
    inputs = {module: h for module, h in mlx_inputs(tiny.hf(name), tokens).items()
              if "layers." in module}
    flags = ["--bits", 3, "--group", 32, "--override", ".=3:32"]
    report = convert(tiny.hf(name), tmp_path / "weighed", *flags, "--calibration-ids", ids,
                     "--calibration-ctx", 256)
    convert(tiny.hf(name), tmp_path / "even", *flags)
    original = make_tensors(SPECS[name])
    weighed, even = (weighed_error(original, tmp_path / folder, inputs, 3, 32)
                     for folder in ("weighed", "even"))
    assert report["total"]["output_error"] == pytest.approx(weighed, rel=5e-3)
    assert weighed < 0.997 * even, (weighed, even)
    assert "200" not in report["calibration"] and "8192 tokens" in report["calibration"]
    both_agree(tmp_path / "weighed", name, tmp_path)
