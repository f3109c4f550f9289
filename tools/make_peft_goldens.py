#!/usr/bin/env python3
"""Logits of the tiny checkpoints with tiny LoRA adapters by transformers and PEFT on the CPU in
float32, for tests/golden/adapters.

Needs torch, transformers, peft and safetensors. One .npz an adapter: logits [positions, vocab]
float32, the positions, the token ids, the fingerprints of weights and factors, the versions.

    make_peft_goldens.py tests/golden/adapters              # all adapters
    make_peft_goldens.py tests/golden/adapters qwen3        # these
"""

import pathlib
import sys
import tempfile

import numpy as np

from make_tiny_model import fingerprint, make_tensors, test_tokens, write_hf
from tiny_adapters import ADAPTERS, peft_tensors, write_peft
from tiny_specs import SPECS, WINDOW

TOKENS = 4 * WINDOW + 12


def check_loaded(model, tensors):
    """Every factor is in the model as the file has it, and the model has no other that does
    anything."""
    from peft import get_peft_model_state_dict

    state = {name: value.numpy() for name, value
             in get_peft_model_state_dict(model, save_embedding_layers=False).items()}
    for name, value in tensors.items():
        assert np.array_equal(state.pop(name), value), name
    for name, value in state.items():
        assert ".lora_A." in name or not value.any(), name


def main():
    import peft
    import torch
    import transformers

    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    made_by = (f"transformers {transformers.__version__}, peft {peft.__version__}, "
               f"torch {torch.__version__}, float32 CPU, eager")
    for spec in [ADAPTERS[name] for name in sys.argv[2:] or ADAPTERS]:
        base = SPECS[spec.base]
        weights, factors = make_tensors(base), peft_tensors(spec)
        with tempfile.TemporaryDirectory() as folder:
            write_hf(f"{folder}/base", weights, base.config)
            write_peft(f"{folder}/adapter", spec)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                f"{folder}/base", dtype=torch.float32, attn_implementation="eager")
            tokens = test_tokens(base, TOKENS)
            with torch.no_grad():
                plain = model(torch.tensor([tokens])).logits[0].numpy().copy()
                model = peft.PeftModel.from_pretrained(model, f"{folder}/adapter").eval()
                check_loaded(model, factors)
                logits = model(torch.tensor([tokens])).logits[0].numpy()
        positions = np.arange(3, TOKENS, 4, dtype=np.int32)
        np.savez_compressed(out / f"{spec.name}.npz", logits=logits[positions], positions=positions,
                            tokens=np.int32(tokens), base_sha256=fingerprint(weights),
                            sha256=fingerprint(factors), made_by=made_by)
        spread = logits.std(axis=1).mean()
        print(f"{spec.name}: {logits.shape}, spread {spread:.2f}, the adapter changes "
              f"{np.abs(logits - plain).max(axis=1).mean() / spread:.2f} spreads")
    print(made_by)


if __name__ == "__main__":
    main()
