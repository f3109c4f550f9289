"""Logits by engines that nobody here wrote."""

import functools
import pathlib

import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"


@functools.cache
def mlx_logits(folder, tokens: tuple) -> np.ndarray:
    """mlx-lm's forward over all tokens at once, no cache, float32: [tokens, vocab]."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(pathlib.Path(folder))
    model.set_dtype(mx.float32)
    return np.array(model(mx.array([tokens]))[0].astype(mx.float32))


def transformers_golden(name):
    """(logits [tokens, vocab], token ids, fingerprint of the weights) as recorded by
    tools/make_transformers_goldens.py."""
    golden = np.load(GOLDEN / f"{name}.npz")
    return golden["logits"], golden["tokens"].tolist(), str(golden["sha256"])
