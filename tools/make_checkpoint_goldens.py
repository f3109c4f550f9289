"""Writes tests/golden/checkpoint and seeds tests/fuzz/corpus from it.

The files are made by the libraries that define the formats: gguf, safetensors, tokenizers and the
configuration classes of transformers. Run from the root of the repository:
    python tools/make_checkpoint_goldens.py
versions.txt names the versions that made what is committed.
"""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
import safetensors.numpy
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors
from transformers import (Gemma3TextConfig, LlamaConfig, MistralConfig, Qwen3Config,
                          Qwen3NextConfig)

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/golden/checkpoint"
CORPUS = ROOT / "tests/fuzz/corpus"


def write_gguf():
    """One block of every type of weight, with gguf's own quantizers where it has them."""
    writer = gguf.GGUFWriter(OUT / "tiny.gguf", "llama")
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(128)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_sliding_window(16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(["a", "\u0120", "\u0120a", "\u00c3", "\u00a9", "\u00c3\u00a9", "<|eot_id|>", "\u20ac"])
    writer.add_token_types([1, 1, 1, 1, 1, 1, 3, 1])
    writer.add_token_merges(["\u0120 a", "\u00c3 \u00a9"])
    writer.add_bos_token_id(6)
    writer.add_eos_token_id(6)
    values = np.arange(8 * 32, dtype=np.float32).reshape(8, 32) / 64
    writer.add_tensor("token_embd.weight", values)
    for kind in ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        kind = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(f"t.{kind.name}", gguf.quants.quantize(values, kind), raw_dtype=kind)
    for kind in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"):
        kind = gguf.GGMLQuantizationType[kind]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        writer.add_tensor(f"t.{kind.name}", np.zeros((2, size), dtype=np.uint8), raw_dtype=kind)
    writer.add_tensor("rope_freqs.weight", np.array([1, 2, 4, 8], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = gguf.GGUFReader(OUT / "tiny.gguf")
    lines = [
        f"{t.name} {t.tensor_type.name} {t.data_offset} {t.n_bytes} "
        + " ".join(str(n) for n in reversed(t.shape.tolist())) for t in reader.tensors
    ]
    (OUT / "tiny.gguf.txt").write_text("\n".join(lines) + "\n")


def write_safetensors():
    safetensors.numpy.save_file(
        {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
         "b.bias": np.arange(4, dtype=np.float16), "c.codes": np.arange(4, dtype=np.uint32)},
        OUT / "tiny.safetensors", metadata={"format": "pt"})


def write_tokenizers():
    byte_level = Tokenizer(models.BPE(
        vocab={"a": 0, "\u0120": 1, "\u0120a": 2, "\u00c3": 3, "\u00a9": 4, "\u00c3\u00a9": 5},
        merges=[("\u0120", "a"), ("\u00c3", "\u00a9")], ignore_merges=True))
    byte_level.normalizer = normalizers.NFC()
    byte_level.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{L}+|\s+"), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level.decoder = decoders.ByteLevel()
    byte_level.add_special_tokens([AddedToken("<|begin|>", special=True), AddedToken("<|im_end|>")])
    byte_level.add_tokens([AddedToken("\u00e9!", special=False)])
    byte_level.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 6)])])
    byte_level.save(str(OUT / "byte_level.json"))

    spm = Tokenizer(models.BPE(
        vocab={"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "\u2581": 4, "a": 5, "\u2581a": 6},
        merges=[("\u2581", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    spm.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    spm.add_special_tokens(["<unk>", "<s>", "</s>"])
    spm.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    spm.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    spm.save(str(OUT / "spm.json"))


def write_configs():
    """Configurations as transformers saves them, with the layer types that it derives."""
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
                 vocab_size=100, max_position_embeddings=1024)
    made = [
        Gemma3TextConfig(**sizes, num_hidden_layers=8, head_dim=32, sliding_window=16,
                         query_pre_attn_scalar=144,
                         rope_scaling={"rope_type": "linear", "factor": 8.0}),
        Qwen3Config(**sizes, num_hidden_layers=6, head_dim=32, use_sliding_window=True,
                    sliding_window=24, max_window_layers=4, rope_theta=1000000.0,
                    rope_scaling={"rope_type": "yarn", "factor": 4.0,
                                  "original_max_position_embeddings": 256}),
        LlamaConfig(**sizes, num_hidden_layers=3, rope_theta=500000.0,
                    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 512}),
        MistralConfig(**sizes, num_hidden_layers=3, sliding_window=20),
        Qwen3NextConfig(**sizes, num_hidden_layers=8),
    ]
    entries = []
    for config in made:
        types = getattr(config, "layer_types", None)
        if types is None:
            window = getattr(config, "sliding_window", None)
            types = ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
        entries.append({"config": config.to_dict(), "layer_types": types,
                        "tied": bool(config.tie_word_embeddings)})
    (OUT / "configs.json").write_text(json.dumps(entries, indent=1) + "\n")
    for entry in entries:
        name = entry["config"]["model_type"]
        (CORPUS / "config_json" / f"{name}.json").write_text(json.dumps(entry["config"]))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write_gguf()
    write_safetensors()
    write_tokenizers()
    write_configs()
    shutil.copy(OUT / "tiny.gguf", CORPUS / "gguf/tiny.gguf")
    shutil.copy(OUT / "tiny.safetensors", CORPUS / "safetensors/tiny.safetensors")
    for name in ("byte_level", "spm"):
        shutil.copy(OUT / f"{name}.json", CORPUS / f"tokenizer_json/{name}.json")
    names = ("gguf", "safetensors", "tokenizers", "transformers", "numpy")
    (OUT / "versions.txt").write_text("".join(f"{n} {version(n)}\n" for n in names))


if __name__ == "__main__":
    main()
