"""Llama 4: its GGUF and MLX files against other engines, chunked caches of every width near f16, the
same bits however the work is cut, and checkpoints as they are published."""

import re

import numpy as np
import pytest

import tiny_llama4
from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf, write_mlx
from oracles import mlx_logits
from ringkeep_cli import fails, logits, ok, ok_json, run, worst_error
from test_serving_load import mixed_requests, same_together_as_alone
from tiny_specs import SPECS

TOLERANCE = 2e-3
TOKENS = 188  # 5 chunks of 32, 3 of 50 and 4 of 40; pages of 64 fill and retire
NAMES = ["llama4", "llama4_128", "llama4_listed"]
PUBLISHED = ["llama4", "llama4_128"]  # what GGUF's metadata and mlx-lm can tell


def tokens_of(name, count=TOKENS):
    return tuple(fixed_tokens(SPECS[name], count))


def nested_mlx(name, folder, bits, group):
    """As mlx-lm converts: stacks of experts, the text inside language_model., a fine router."""
    spec = SPECS[name]
    tensors, config = tiny_llama4.nested(tiny_llama4.stacked(make_tensors(spec)), spec.config)
    fine = {n.removesuffix(".weight"): (8, 64) for n in tensors if n.endswith("router.weight")}
    write_mlx(folder, tensors, config, bits, group, fine)
    return folder


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_gguf(name, kind, tiny, tmp_path):
    """Names and metadata of llama.cpp's converter; rows of q and k as they were trained."""
    path, tokens = tiny.gguf(name, kind), tokens_of(name)
    reference = tmp_path / "reference"
    write_hf(reference, tiny.gguf_weights[path], SPECS[name].config)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(reference, tokens)) < TOLERANCE


@pytest.mark.parametrize("name", PUBLISHED)
def test_gguf_names(name, tiny):
    """Every tensor has the name that the gguf package maps its Hugging Face name to."""
    import gguf

    spec = SPECS[name]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA4, spec.config["num_hidden_layers"])
    mapped = {names.get_name(n, try_suffixes=(".weight",)) for n in
              tiny_llama4.stacked(make_tensors(spec))}
    stored = {t.name for t in gguf.GGUFReader(tiny.gguf(name, "F32")).tensors}
    assert stored == mapped | {"rope_freqs.weight"}


@pytest.mark.parametrize("codec", ["f16", "4"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_gguf_equals_safetensors(name, codec, tiny, tmp_path):
    """The same weights in both formats, bit for bit but for the factors of RoPE, which GGUF stores as
    float32: also with a cache that is balanced."""
    of = lambda path: logits(path, tokens_of(name), tmp_path, "--kv-bits", codec)
    found, expected = of(tiny.gguf(name, "F32")), of(tiny.hf(name))
    assert worst_error(found, expected) < TOLERANCE
    assert (found == expected).all()


@pytest.mark.parametrize("bits,group", [(4, 32), (8, 32)])
@pytest.mark.parametrize("name", PUBLISHED)
def test_mlx_quantized(name, bits, group, tmp_path):
    path, tokens = nested_mlx(name, tmp_path / "mlx", bits, group), tokens_of(name)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(path, tokens)) < TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_stacks_of_mlx_equal_those_of_hugging_face(name, tiny, tmp_path):
    """Fused and transposed, or one by one and upright: the same bits."""
    write_hf(tmp_path / "stacked", tiny_llama4.stacked(make_tensors(SPECS[name])), SPECS[name].config)
    tokens = tokens_of(name)
    assert (logits(tmp_path / "stacked", tokens, tmp_path) == logits(
        tiny.hf(name), tokens, tmp_path)).all()


@pytest.mark.parametrize("name", NAMES)
def test_default_arithmetic_stays_close(name, tiny, tmp_path):
    """Only the activations' precision changes; the router's is fine for every row."""
    exact = logits(tiny.hf(name), tokens_of(name), tmp_path, "--exact")
    assert worst_error(logits(tiny.hf(name), tokens_of(name), tmp_path), exact) < 0.1


@pytest.mark.parametrize("name", NAMES + ["llama4_full"])
def test_quantized_caches_stay_near(name, tiny, tmp_path):
    """Of the rows the median: one expert is chosen, and where the router decides otherwise a row
    jumps; with 8 bits few do."""
    tokens = tokens_of(name)
    with_cache = lambda *flags: logits(tiny.hf(name), tokens, tmp_path, "--exact", "--kv-bits", *flags)
    exact = with_cache("f16")
    rows = lambda found: np.sqrt(((found - exact)**2).mean(axis=-1)) / exact.std()
    eight, four = rows(with_cache("8")), rows(with_cache("4", "--kv-hot", "none"))
    assert 0 < np.median(eight) < 0.005 and (eight > 0.05).mean() < 0.03, eight
    assert 4 * np.median(eight) < np.median(four) < 0.05, four
    assert 0 < np.median(rows(with_cache("full=8+sliding=4", "--kv-hot", "none"))) < 0.05


@pytest.mark.parametrize("codec", ["f16", "8", "4", "full=4+sliding=8"])
@pytest.mark.parametrize("name", NAMES)
def test_chunks_and_threads(name, codec, tiny, tmp_path):
    """Steps that end before, at and behind the borders of chunks (32, 50, 40) and pages."""
    cut = lambda step, threads: logits(tiny.hf(name), tokens_of(name), tmp_path, "--kv-bits", codec,
                                       "--chunk", step, "--threads", threads)
    whole = cut(512, 1)
    size = SPECS[name].config["attention_chunk_size"]
    for step, threads in [(512, 2), (1, 1), (7, 2), (size - 1, 2), (size, 1), (size + 1, 2), (64, 2)]:
        assert (cut(step, threads).view(np.uint32) == whole.view(np.uint32)).all(), (step, threads)


@pytest.mark.parametrize("codec", ["8", "4"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_requests_of_a_batch_get_what_each_gets_alone(name, codec, tiny):
    """Prefix reuse too: requests share 40 tokens, more than a chunk of 32, less than one of 50."""
    bodies = mixed_requests(8, 96, [5, 70, 33, 130], 12, shared=40)
    same_together_as_alone(tiny.gguf(name, "F16"), ["--kv-bits", codec, "--ctx", 256], bodies, parallel=8)


@pytest.mark.parametrize("flags", [(), ("--kv-bits", "8"), ("--kv-bits", "4"),
                                   ("--kv-bits", "full=8+sliding=4", "--kv-hot", "f16")])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_run_holds_what_plan_says(name, flags, tiny):
    """A run that fills its context holds the plan's bytes, to the byte; of six times the text, the
    full layer alone holds more."""
    model = tiny.gguf(name, "F16")
    def plan_and_run(context):
        plan = ok_json("plan", model, *flags, "--ctx", context)
        held = ok_json("run", model, "--raw", "-p", "some text", "-n", -1, "--temp", 0, "--ignore-eos",
                       "--ctx", context, *flags)["kv_bytes"]
        assert held == plan["totals"]["kv_bytes"]
        return held, plan["layers"]
    (short, layers), (long, longer) = plan_and_run(320), plan_and_run(1920)
    grown = [b["max_bytes"] - a["max_bytes"] for a, b in zip(layers, longer)]
    assert [i for i, more in enumerate(grown) if more] == [3]
    assert long - short == grown[3] == 1600 * layers[3]["bytes_per_token"]


def test_saved_caches_go_on(tiny, tmp_path):
    """A cache saved in the middle of a chunk, and read back."""
    model, file = tiny.gguf("llama4_128", "F16"), tmp_path / "cache.safetensors"
    text = "abcdefgh" * 15
    common = ("run", model, "--raw", "--temp", 0, "-n", 60, "--ignore-eos", "--ctx", 256,
              "--kv-bits", "8")
    alone = ok_json(*common, "-p", text + "xyz")["tokens"]
    ok_json("run", model, "--raw", "--temp", 0, "-n", 1, "--ctx", 256, "--kv-bits", "8", "-p", text,
            "--prompt-cache-file", file)
    assert ok_json(*common, "-p", text + "xyz", "--prompt-cache-file", file)["tokens"] == alone


@pytest.mark.parametrize("key,value", [
    ("llama4.attention.chunk_size", 40), ("llama4.attention.temperature_length", 48),
    ("llama4.attention.temperature_scale", 1)])
def test_saved_caches_of_another_model(key, value, tiny, tmp_path):
    """Whose tensors are the same."""
    model, file = tiny.gguf("llama4", "F32"), tmp_path / "cache"
    ok("cache", "make", model, file, "-p", "abcdefgh" * 8)
    ok("cache", "check", file, "--model", model)
    fails(3, "cache", "check", file, "--model", gguf_with(model, key, value, tmp_path), mentions=[file])


def published(name):
    """A multimodal checkpoint: the text, a tower and what joins them."""
    spec, rng = SPECS[name], np.random.default_rng(1)
    tensors, config = tiny_llama4.nested(make_tensors(spec), spec.config)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    tower = {"vision_model.class_embedding": draw(64),
             "vision_model.patch_embedding.linear.weight": draw(64, 48),
             "vision_model.model.layers.0.self_attn.q_proj.weight": draw(64, 64),
             "vision_model.model.layers.0.mlp.fc1.bias": draw(64),
             "vision_model.vision_adapter.mlp.fc1.weight": draw(64, 64),
             "multi_modal_projector.linear_1.weight": draw(128, 64)}
    return tensors, tower, {**config, "image_token_index": 90, "vision_config": {
        "model_type": "llama4_vision_model", "hidden_size": 64}}


@pytest.mark.parametrize("name", NAMES)
def test_multimodal_folders(name, tiny, tmp_path):
    """What belongs to the tower is left, and takes no memory."""
    tensors, tower, config = published(name)
    write_hf(tmp_path / "nested", tensors | tower, config)
    tokens = tokens_of(name)
    assert (logits(tmp_path / "nested", tokens, tmp_path) == logits(
        tiny.hf(name), tokens, tmp_path)).all()
    weights = lambda folder: ok_json("plan", folder)["totals"]["weights_bytes"]
    assert weights(tmp_path / "nested") == weights(tiny.hf(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_as_planned(name, tiny):
    model = tiny.gguf(name, "F32")
    planned = ok_json("plan", model)["totals"]["weights_bytes"]
    log = run("run", model, "-v", "--raw", "-p", "a", "-n", 1).stderr.decode()
    assert planned == int(re.search(r"loaded: (\d+) ", log).group(1)), log
    size = sum(t.nbytes for t in make_tensors(SPECS[name]).values())
    assert size <= planned < size * 1.02


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_decode_step_reads_the_active_experts(name, tiny):
    config, model = SPECS[name].config, tiny.gguf(name, "F32")
    layers = len(tiny_llama4.moe_layers(config))
    one = 3 * layers * config["intermediate_size"] * config["hidden_size"] * 4
    bench = ok_json("bench", model, "-p", 64, "-n", 4, "-d", 0, "--codecs", "8", "-r", 1)
    assert bench["rows"][0]["expert_bytes"] == one
    totals = ok_json("plan", model)["totals"]
    assert totals["weights_bytes"] - totals["weights_active_bytes"] == (
        config["num_local_experts"] - 1) * one


def altered(name, folder, change):
    tensors, config = make_tensors(SPECS[name]), dict(SPECS[name].config)
    change(tensors, config)
    write_hf(folder, tensors, config)
    return folder


def test_the_norm_takes_out_the_factor_of_yarn(tmp_path):
    """Yarn lengthens what it turns, and the norm that follows shortens it again."""
    model = altered("llama4", tmp_path / "yarn", lambda tensors, config: config.update(rope_scaling={
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}))
    tokens = tokens_of("llama4")
    assert worst_error(logits(model, tokens, tmp_path, "--exact"), mlx_logits(model, tokens)) < TOLERANCE


FFN = "model.layers.1.feed_forward"


@pytest.mark.parametrize("change,mentions", [
    (lambda t, c: t.pop(f"{FFN}.router.weight"), [f"{FFN}.router.weight", "missing"]),
    (lambda t, c: t.pop(f"{FFN}.experts.down_proj"), [f"{FFN}.experts", "down_proj", "missing"]),
    (lambda t, c: t.pop(f"{FFN}.shared_expert.up_proj.weight"), [
        f"{FFN}.shared_expert.up_proj.weight", "missing"]),
    (lambda t, c: t.update({f"{FFN}.router.bias": np.zeros(6, np.float32)}), [
        f"{FFN}.router.bias", "llama4"]),
    (lambda t, c: t.update({"model.layers.0.self_attn.q_norm.weight": np.ones(64, np.float32)}), [
        "self_attn.q_norm.weight", "llama4"]),
    (lambda t, c: t.update({"model.thing.weight": np.ones((4, 4), np.float32)}), [
        "model.thing.weight", "llama4"]),
    (lambda t, c: c.update(intermediate_size=64), ["experts.gate_up_proj", "[6, 128, 128]"]),
    (lambda t, c: c.update(interleave_moe_layer_step=2), [
        "model.layers.0.feed_forward.gate_proj.weight", "missing"]),
])
def test_what_does_not_fit_is_named(change, mentions, tmp_path):
    model = altered("llama4", tmp_path, change)
    fails(4, "logits", model, "--tokens", "2,5", "-o", tmp_path / "x.npy", mentions=mentions)


def gguf_with(path, key, value, tmp_path):
    """A copy with one number or flag of the metadata changed or added."""
    import gguf

    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(str(tmp_path / "changed.gguf"), "llama4")
    for name, field in reader.fields.items():
        if name not in (key, "general.architecture") and not name.startswith("GGUF."):
            writer.add_key_value(name, field.contents(), *field.types[:2])
    (writer.add_bool if isinstance(value, bool) else writer.add_uint32)(key, value)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "changed.gguf"


@pytest.mark.parametrize("key,value", [
    ("llama4.attention.sliding_window", 0), ("llama4.attention.sliding_window_pattern", 6),
    ("llama4.attention.chunk_size", 0), ("llama4.expert_count", 0),
    ("llama4.interleave_moe_layer_step", 0), ("llama4.attention.temperature_length", 0),
    ("llama4.rope.freq_base_swa", 10000), ("llama4.expert_gating_func", 1),
    ("llama4.expert_shared_count", 2), ("llama4.expert_group_count", 4),
    ("llama4.expert_weights_scale", 2), ("llama4.expert_weights_norm", True)])
def test_metadata_that_is_not_known_is_named(key, value, tiny, tmp_path):
    path = gguf_with(tiny.gguf("llama4", "F32"), key, value, tmp_path)
    fails(4, "plan", path, mentions=[key])


@pytest.mark.parametrize("key,value", [
    ("llama4.attention.sliding_window", 32), ("llama4.attention.sliding_window_pattern", 4),
    ("llama4.expert_gating_func", 2), ("llama4.expert_shared_count", 1),
    ("llama4.expert_group_count", 1), ("llama4.expert_weights_scale", 1),
    ("llama4.expert_weights_norm", False)])
def test_metadata_that_says_what_is_known(key, value, tiny, tmp_path):
    model = tiny.gguf("llama4", "F32")
    assert ok_json("plan", gguf_with(model, key, value, tmp_path)) == ok_json("plan", model)


@pytest.mark.parametrize("name", PUBLISHED)
def test_ollama_says_whether_heads_are_normed(name, tiny, tmp_path):
    other = not SPECS[name].config["use_qk_norm"]
    model = gguf_with(tiny.gguf(name, "F32"), "llama4.use_qk_norm", other, tmp_path)
    changed = altered(name, tmp_path / "hf", lambda tensors, config: config.update(use_qk_norm=other))
    of = lambda path: logits(path, tokens_of(name), tmp_path)
    assert (of(model) == of(changed)).all()
    assert worst_error(of(model), of(tiny.hf(name))) > 0.1


def test_prompt_caches_of_mlx_are_refused(tiny, tmp_path):
    """Their keys are of other pairs of channels; chunked classes cannot be read at all."""
    import mlx.core as mx
    from mlx_lm.models import cache

    file = tmp_path / "cache.safetensors"
    layers = [cache.ChunkedKVCache(32) if i % 4 != 3 else cache.KVCache() for i in range(6)]
    for layer in layers:
        layer.update_and_fetch(mx.ones((1, 2, 8, 64)), mx.ones((1, 2, 8, 64)))
    cache.save_prompt_cache(str(file), layers)
    arguments = ("run", tiny.gguf("llama4", "F32"), "-p", "a", "--raw", "--prompt-cache-file", file)
    fails(4, *arguments, mentions=["layer 0", "ChunkedKVCache"])
    plain = [cache.KVCache() for _ in range(6)]
    for layer in plain:
        layer.update_and_fetch(mx.ones((1, 2, 8, 64)), mx.ones((1, 2, 8, 64)))
    cache.save_prompt_cache(str(file), plain)
    fails(3, *arguments, mentions=["llama4", "2i and 2i + 1"])
