#!/usr/bin/env python3
"""Logits of the tiny checkpoints by transformers on the CPU in float32, for tests/golden/models.

Needs torch and transformers. One .npz a checkpoint: logits [tokens, vocab] float32, the token ids,
the fingerprint of the weights and the versions that made them.

    make_transformers_goldens.py tests/golden/models              # all checkpoints
    make_transformers_goldens.py tests/golden/models olmo3 qwen2  # these
"""

import pathlib
import sys
import tempfile

import numpy as np

from make_tiny_model import fingerprint, make_tensors, test_tokens, write_hf
from tiny_specs import SPECS, WINDOW

TOKENS = 4 * WINDOW + 12


def main():
    import torch
    import transformers

    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    made_by = f"transformers {transformers.__version__}, torch {torch.__version__}, float32 CPU, eager"
    for spec in [SPECS[name] for name in sys.argv[2:] or SPECS]:
        tensors = make_tensors(spec)
        with tempfile.TemporaryDirectory() as folder:
            write_hf(folder, tensors, spec.config)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, attn_implementation="eager")
        tokens = test_tokens(spec, TOKENS)
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0].numpy()
        np.savez_compressed(out / f"{spec.name}.npz", logits=logits, tokens=np.int32(tokens),
                            sha256=fingerprint(tensors), made_by=made_by, seed=spec.seed)
        print(f"{spec.name}: {logits.shape}, spread {logits.std(axis=1).mean():.2f}")
    print(made_by)


if __name__ == "__main__":
    main()
