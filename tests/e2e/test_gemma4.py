"""Gemma 4: caches of every width near f16, the same bits however the work is cut, and checkpoints as
they are published: towers beside the text, sharing layers with projections of their own."""

import json
import re

import numpy as np
import pytest

from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf, write_mlx
from oracles import mlx_logits
from ringkeep_cli import fails, logits, ok_json, run, worst_error
from tiny_gemma4 import first_shared, heads_of
from tiny_specs import SPECS, VOCAB, WINDOW

NAMES = ["gemma4", "gemma4_e"]
TOKENS = 4 * WINDOW + 60  # pages of 64 fill and retire, and leave the hot tier


def tokens_of(name):
    return tuple(fixed_tokens(SPECS[name], TOKENS))


@pytest.mark.parametrize("codec,tolerance", [("8", 0.1), ("4", 0.3), ("full=8+sliding=4 --kv-hot none", 0.6)])
@pytest.mark.parametrize("name", NAMES)
def test_quantized_caches(name, codec, tolerance, tiny, tmp_path):
    """Far below what unrelated logits differ by (5 spreads), and not f16 in disguise."""
    tokens = tokens_of(name)
    found = logits(tiny.hf(name), tokens, tmp_path, "--exact", "--kv-bits",
                   *codec.split())
    assert 5e-3 < worst_error(found, mlx_logits(tiny.hf(name), tokens)) < tolerance


@pytest.mark.parametrize("codec", ["f16", "8", "4"])
@pytest.mark.parametrize("name", NAMES)
def test_chunks_and_threads(name, codec, tiny, tmp_path):
    cut = lambda chunk, threads: logits(tiny.hf(name), tokens_of(name), tmp_path, "--kv-bits", codec,
                                        "--chunk", chunk, "--threads", threads)
    whole = cut(512, 1)
    for chunk, threads in [(512, 2), (1, 1), (7, 2), (64, 2)]:
        assert (cut(chunk, threads).view(np.uint32) == whole.view(np.uint32)).all(), (chunk, threads)


@pytest.mark.parametrize("name", NAMES)
def test_gguf_equals_safetensors(name, tiny, tmp_path):
    """The same weights in both formats, bit for bit: also with a cache that is balanced."""
    for codec in ("f16", "4"):
        of = lambda path: logits(path, tokens_of(name), tmp_path, "--kv-bits", codec)
        assert (of(tiny.gguf(name, "F32")) == of(tiny.hf(name))).all()


def published(name):
    """(tensors, config) as in a multimodal checkpoint: towers, and sharing layers' own K and V."""
    spec = SPECS[name]
    tensors = make_tensors(spec)
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    for i in range(first_shared(spec.config), spec.config["num_hidden_layers"]):
        dim, kv_heads = heads_of(spec.config, i)
        p = f"model.layers.{i}.self_attn."
        tensors |= {f"{p}k_proj.weight": draw(kv_heads * dim, 64), f"{p}k_norm.weight": draw(dim),
                    f"{p}v_proj.weight": draw(kv_heads * dim, 64)}
    towers = {"vision_tower.patch_embedder.input_proj.weight": draw(64, 64),
              "vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight": draw(64, 64),
              "vision_tower.encoder.layers.0.self_attn.q_proj.input_max": draw(1).reshape(()),
              "audio_tower.subsample_conv_projection.layer0.conv.weight": draw(8, 1, 3, 3),
              "embed_vision.embedding_projection.weight": draw(64, 64),
              "embed_audio.embedding_projection.weight": draw(64, 64)}
    config = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
              "vocab_size": VOCAB, "text_config": spec.config, "tie_word_embeddings": True,
              "vision_config": {"model_type": "gemma4_vision", "hidden_size": 64},
              "audio_config": {"model_type": "gemma4_audio", "hidden_size": 64}}
    return tensors, towers, config


@pytest.mark.parametrize("name", NAMES)
def test_multimodal_folders(name, tiny, tmp_path):
    """Text inside model.language_model; what belongs to the towers is left, nothing else."""
    tensors, towers, config = published(name)
    nested = {f"model.language_model.{n.removeprefix('model.')}": t for n, t in tensors.items()}
    nested |= {f"model.{n}": t for n, t in towers.items()}
    write_hf(tmp_path / "nested", nested, config)
    tokens = tokens_of(name)
    plain = logits(tiny.hf(name), tokens, tmp_path)
    assert (logits(tmp_path / "nested", tokens, tmp_path) == plain).all()
    # The names of the 12B's configuration.
    unified = json.loads(json.dumps(config).replace('"gemma4', '"gemma4_unified'))
    write_hf(tmp_path / "unified", nested, unified)
    assert (logits(tmp_path / "unified", tokens, tmp_path) == plain).all()


@pytest.mark.parametrize("name", NAMES)
def test_mlx_folders(name, tmp_path):
    """language_model.model. before the names, bits of one module apart, the towers quantized too."""
    tensors, towers, config = published(name)
    down, table = "language_model.model.layers.1.mlp.down_proj", "language_model.model.embed_tokens"
    nested = {f"language_model.{n}": t for n, t in tensors.items()}
    nested |= {n: t for n, t in towers.items() if t.ndim != 2}
    write_mlx(tmp_path / "mlx", nested, config, 4, 32, {down: (8, 64), table: (6, 64)})
    tokens = tokens_of(name)
    found = logits(tmp_path / "mlx", tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "mlx", tokens)) < 2e-3


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_as_planned(name, tiny):
    """`plan` says what loading takes: every tensor but the table of per-layer embeddings, which
    stays in its file."""
    model = tiny.gguf(name, "F32")
    planned = ok_json("plan", model)["totals"]["weights_bytes"]
    log = run("run", model, "-v", "--raw", "-p", "a", "-n", 1).stderr.decode()
    assert planned == int(re.search(r"loaded: (\d+) ", log).group(1)), log
    tensors = make_tensors(SPECS[name])
    rest = sum(t.nbytes for n, t in tensors.items() if "per_layer.weight" not in n)
    assert rest <= planned < rest * 1.02
    table = sum(t.nbytes for t in tensors.values()) - rest
    assert (table > 0.02 * rest) == (name == "gemma4_e")


def test_unknown_tensors_are_refused(tmp_path):
    spec = SPECS["gemma4"]
    write_hf(tmp_path, make_tensors(spec) | {
        "model.layers.2.self_attn.sinks": np.zeros(4, np.float32)}, spec.config)
    fails(4, "logits", tmp_path, "--tokens", "2,5", "-o", tmp_path / "x.npy",
          mentions=["model.layers.2.self_attn.sinks", "gemma4"])


@pytest.mark.parametrize("part", ["per_layer_model_projection.weight", "layers.6.mlp.up_proj.weight",
                                  "layers.4.self_attn.k_norm.weight"])
def test_missing_tensors_are_named(part, tmp_path):
    spec, name = SPECS["gemma4_e"], f"model.{part}"
    write_hf(tmp_path, {n: t for n, t in make_tensors(spec).items() if n != name}, spec.config)
    fails(4, "logits", tmp_path, "--tokens", "2,5", "-o", tmp_path / "x.npy", mentions=[name])


def test_tokenizer_of_gguf_files(tmp_path):
    """tokenizer.ggml.model "gemma4": SentencePiece's pieces merged by rank, as the tokenizers package
    does it from tokenizer.json."""
    import gguf
    from tokenizers import Tokenizer, decoders, models, normalizers

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{i:02X}>" for i in range(256))]
    pieces += [*"\n▁abcdehlorw", "▁h", "he", "el", "ll", "ello", "lo", "▁he", "\n\n", "▁▁", "or", "▁w"]
    merges = [("▁", "h"), ("l", "l"), ("l", "o"), ("h", "e"), ("▁h", "e"), ("e", "l"), ("el", "lo"),
              ("\n", "\n"), ("▁", "▁"), ("o", "r"), ("▁", "w")]
    oracle = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges,
                                  unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    oracle.normalizer = normalizers.Replace(" ", "▁")
    oracle.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                        decoders.Fuse()])
    path = tmp_path / "words.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    for add, value in ((writer.add_block_count, 1), (writer.add_embedding_length, 32),
                       (writer.add_head_count, 2), (writer.add_feed_forward_length, 32),
                       (writer.add_tokenizer_model, "gemma4"), (writer.add_token_list, pieces),
                       (writer.add_token_scores, [-1000.0] * len(pieces)),
                       (writer.add_token_types, [3, 3, 3, 2] + [6] * 256 + [1] * (len(pieces) - 260)),
                       (writer.add_token_merges, [f"{a} {b}" for a, b in merges]),
                       (writer.add_bos_token_id, 2), (writer.add_eos_token_id, 1),
                       (writer.add_unk_token_id, 3), (writer.add_pad_token_id, 0),
                       (writer.add_add_space_prefix, False)):
        add(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for text in ("hello world", " hello", "a  hell\n\nor\n", "ä hello€", "hehello  wor"):
        expected = [2, *oracle.encode(text, add_special_tokens=False).ids]
        assert ok_json("tokenize", path, "--text", text)["tokens"] == expected, text
