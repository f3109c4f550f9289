"""LoRA adapters: the logits that PEFT and mlx-lm give, whatever file the model comes from; and what is
refused. Tolerances are fractions of the logits' spread at a position."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from make_tiny_model import fingerprint, make_tensors, test_tokens as fixed_tokens, write_hf
from oracles import mlx_logits
from ringkeep_cli import fails, logits, ok, ok_json, worst_error
from test_invariance import assert_same
from test_logits_families import TOLERANCE
from tiny_adapters import ADAPTERS, AdapterSpec, make_factors, peft_config, peft_tensors, write_mlx_adapter, write_peft
from tiny_specs import SPECS, WINDOW

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "adapters"
TOKENS = 4 * WINDOW + 12


def tokens_of(base):
    return tuple(fixed_tokens(SPECS[base], TOKENS))


@pytest.fixture(scope="session")
def adapters(tmp_path_factory):
    """The folder of an adapter, written on first use."""
    folder = tmp_path_factory.mktemp("adapters")

    def get(name, mlx=False):
        path = folder / (f"{name}-mlx" if mlx else name)
        if not path.exists():
            (write_mlx_adapter if mlx else write_peft)(path, ADAPTERS[name])
        return path
    return get


def merged(name, weights=None):
    """Weights with the adapter added to them, in float64."""
    spec = ADAPTERS[name]
    tensors = dict(weights or make_tensors(SPECS[spec.base]))
    for module, (a, b) in make_factors(spec).items():
        delta = spec.scale_of(module) * b.astype(np.float64) @ a
        tensors[f"{module}.weight"] = (tensors[f"{module}.weight"] + delta).astype(np.float32)
    return tensors


@pytest.mark.parametrize("name", sorted(
    set(ADAPTERS) - {"gemma3n", "llama4", "qwen3_moe", "gemma4_moe", "gpt_oss"}))
def test_against_peft(name, tiny, adapters, tmp_path):
    """Ranks and alphas by module, rsLoRA, some layers, fused and interleaved matrices, the head."""
    golden, spec = np.load(GOLDEN / f"{name}.npz"), ADAPTERS[name]
    assert fingerprint(make_tensors(SPECS[spec.base])) == str(golden["base_sha256"])
    assert fingerprint(peft_tensors(spec)) == str(golden["sha256"])
    found = logits(tiny.hf(spec.base), golden["tokens"], tmp_path, "--exact", "--adapter", adapters(name))
    assert worst_error(found[golden["positions"]], golden["logits"]) < TOLERANCE


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_against_merged_weights(name, tiny, adapters, tmp_path):
    """Beside the weights as in them, by mlx-lm's forward pass; and far from the model alone."""
    spec = ADAPTERS[name]
    tensors, config = merged(name), SPECS[spec.base].config
    if "model.embed_tokens.weight" in tensors and config["tie_word_embeddings"]:
        assert not any("lm_head" in module for module in make_factors(spec))
    write_hf(tmp_path / "merged", tensors, config)
    tokens = tokens_of(spec.base)
    expected = mlx_logits(tmp_path / "merged", tokens)
    found = logits(tiny.hf(spec.base), tokens, tmp_path, "--exact", "--adapter", adapters(name))
    assert worst_error(found, expected) < TOLERANCE
    assert worst_error(logits(tiny.hf(spec.base), tokens, tmp_path, "--exact"), expected) > 0.3


@pytest.mark.parametrize("name", ["llama3", "llama3_b", "gemma3", "gemma4", "phi3_long", "cohere2", "olmo3"])
def test_against_mlx_adapters(name, tiny, adapters, tmp_path):
    """Adapters as mlx-lm stores them, loaded by mlx-lm itself."""
    import mlx.core as mx
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model

    spec = ADAPTERS[name]
    mx.set_default_device(mx.cpu)
    model, _ = load_model(pathlib.Path(tiny.hf(spec.base)))
    names = {key for key, _ in __import__("mlx.utils").utils.tree_flatten(model.parameters())}
    module = next(iter(make_factors(spec)))
    prefix = next(p for p in ("", "language_model.") if f"{p}{module}.weight" in names)
    folder = write_mlx_adapter(tmp_path / "adapter", spec, prefix)
    load_adapters(model, str(folder))
    model.set_dtype(mx.float32)
    model.eval()
    tokens = tokens_of(spec.base)
    expected = np.array(model(mx.array([tokens]))[0].astype(mx.float32))
    found = logits(tiny.hf(spec.base), tokens, tmp_path, "--exact", "--adapter-path", folder)
    assert worst_error(found, expected) < TOLERANCE


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name", ["llama3_b", "qwen3", "gemma3n", "gemma4", "gemma4_e"])
def test_beside_gguf(name, kind, tiny, adapters, tmp_path):
    """Factors have Hugging Face's rows, also where the file's q and k have others; weights that are
    quantized stay so."""
    spec = ADAPTERS[name]
    path, tokens = tiny.gguf(spec.base, kind), tokens_of(spec.base)
    write_hf(tmp_path / "merged", merged(name, tiny.gguf_weights[path]), SPECS[spec.base].config)
    found = logits(path, tokens, tmp_path, "--exact", "--adapter", adapters(name))
    assert worst_error(found, mlx_logits(tmp_path / "merged", tokens)) < TOLERANCE
    # Closer still without what the cache rounds: it is the same on both sides here.
    assert worst_error(found, logits(tmp_path / "merged", tokens, tmp_path, "--exact")) < TOLERANCE / 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_factors(dtype, tiny, adapters, tmp_path):
    """The same values in half the bytes give the same bits."""
    import mlx.core as mx

    spec, tokens = ADAPTERS["llama3"], tokens_of("llama3")
    shutil.copytree(adapters("llama3"), tmp_path / "half")
    mx.save_safetensors(str(tmp_path / "half/adapter_model.safetensors"), {
        name: mx.array(t).astype(getattr(mx, dtype)) for name, t in peft_tensors(spec).items()})
    run = lambda folder: logits(tiny.hf("llama3"), tokens, tmp_path, "--adapter", folder)
    assert_same(run(tmp_path / "half"), run(adapters("llama3")))


@pytest.mark.parametrize("name", ["llama3_b", "gemma3", "gemma4_e", "mistral_head"])
def test_chunks_and_threads(name, tiny, adapters, tmp_path):
    """A row's bits do not depend on how the work is cut, with an adapter either."""
    tokens = fixed_tokens(SPECS[ADAPTERS[name].base], 200)
    run = lambda chunk, threads: logits(tiny.hf(ADAPTERS[name].base), tokens, tmp_path, "--kv-bits", "4",
                                        "--adapter", adapters(name), "--chunk", chunk, "--threads", threads)
    whole = run(512, 1)
    for chunk, threads in [(512, 2), (1, 1), (7, 2), (64, 2)]:
        assert_same(run(chunk, threads), whole)


def test_scale(tiny, adapters, tmp_path):
    """PATH=SCALE: 0 is the model alone, 2 twice what it adds."""
    model, tokens, folder = tiny.hf("llama3"), tokens_of("llama3"), adapters("llama3")
    run = lambda *flags: logits(model, tokens, tmp_path, "--exact", *flags)
    assert_same(run("--adapter", f"{folder}=0"), run())
    assert_same(run("--adapter", f"a_name={folder}=1.0"), run("--adapter", folder))
    doubled = tmp_path / "doubled"
    write_peft(doubled, ADAPTERS["llama3"], {**peft_config(ADAPTERS["llama3"]), "lora_alpha": 32.0})
    assert_same(run("--adapter", f"{folder}=2"), run("--adapter", doubled))


@pytest.mark.parametrize("inner", ["model.language_model.", "language_model.model.", ""])
def test_names_of_models_within_others(inner, tiny, adapters, tmp_path):
    """A text model's adapter that was trained within an image model."""
    spec, tokens = ADAPTERS["gemma3"], tokens_of("gemma3")
    tensors = {name.replace("base_model.model.model.", f"base_model.model.{inner}"): t
               for name, t in peft_tensors(spec).items()}
    write_peft(tmp_path / "inner", spec, tensors=tensors)
    run = lambda folder: logits(tiny.hf("gemma3"), tokens, tmp_path, "--adapter", folder)
    assert_same(run(tmp_path / "inner"), run(adapters("gemma3")))


def test_run_and_saved_caches(tiny, adapters, tmp_path):
    """`run` generates through it; a saved cache is not another adapter's."""
    model, file = tiny.gguf("gemma3_pattern6", "F32"), tmp_path / "cache"
    spec = AdapterSpec("here", "gemma3_pattern6", rank=4, seed=77, gain=1.5)
    folder = write_peft(tmp_path / "adapter", spec)
    flags = ("--raw", "-p", "the window of this model", "-n", 24, "--temp", 0, "--ignore-eos")
    plain = ok_json("run", model, *flags)
    with_it = ok_json("run", model, *flags, "--adapter", folder)
    assert plain["tokens"] != with_it["tokens"]
    first = ok_json("run", model, *flags, "--adapter", folder, "--prompt-cache-file", file)
    assert first["tokens"] == with_it["tokens"]
    fields = ok_json("cache", "inspect", file)["fields"]
    assert len(fields["adapter"]) == 64
    ok("cache", "check", file, "--model", model, "--adapter", folder)
    for others in ((), ("--adapter", f"{folder}=0.5")):
        fails(3, "run", model, *flags, "--prompt-cache-file", file, *others, mentions=["adapter"])


def test_plan_counts_it(tiny, adapters, tmp_path):
    """Factors in the narrowest type that holds them, and room for their products; inspect lists them."""
    model, spec, folder = tiny.hf("llama3"), ADAPTERS["llama3"], adapters("llama3")
    plain, planned = ok_json("plan", model)["totals"], ok_json("plan", model, "--adapter", folder)["totals"]
    padded = lambda rows: (rows + 15) // 16 * 16
    expected = sum(2 * (padded(a.shape[0]) * a.shape[1] + padded(b.shape[0]) * b.shape[1])
                   for a, b in make_factors(spec).values())
    assert plain["adapter_bytes"] == 0 and planned["adapter_bytes"] == expected
    assert planned["scratch_bytes"] > plain["scratch_bytes"]
    assert planned["kv_bytes"] == plain["kv_bytes"]
    [told] = ok_json("inspect", model, "--adapter", folder)["adapters"]
    assert told["bytes"] == expected and told["format"] == "PEFT"
    assert {m["module"] for m in told["modules"]} == set(make_factors(spec))
    assert all(m["rank"] == 8 and m["scale"] == 2.0 for m in told["modules"])
    assert "rank 8, scale 2" in ok("inspect", model, "--adapter", folder).decode()


def test_several_of_one_run(tiny, adapters, tmp_path):
    both = ("--adapter", adapters("llama3"), "--adapter", adapters("llama3_b"))
    fails(2, "logits", tiny.hf("llama3"), "--tokens", "2,3", "-o", tmp_path / "x", *both, mentions=["--adapter", "one adapter"])
    fails(2, "plan", tiny.hf("llama3"), *both, mentions=["NAME=PATH"])
    named = ("--adapter", f"a={adapters('llama3')}", "--adapter", f"a={adapters('llama3_b')}")
    fails(2, "plan", tiny.hf("llama3"), *named, mentions=["named a"])
    fails(2, "plan", tiny.hf("llama3"), "--adapter", "x=", mentions=["[NAME=]PATH[=SCALE]"])
    fails(4, "plan", tiny.hf("llama3"), "--adapter", "no/such", mentions=["no/such"])


Q = "base_model.model.model.layers.0.self_attn.q_proj"
REFUSED = {  # what is done to the tensors of "llama3": what the error names
    "another shape": (lambda t: t.update({f"{Q}.lora_A.weight": t[f"{Q}.lora_A.weight"][:, :64]}),
                      [f"{Q}.lora_A.weight", "[8, 64]", "[8, 128]"]),
    "another rank": (lambda t: t.update({f"{Q}.lora_A.weight": t[f"{Q}.lora_A.weight"][:4],
                                         f"{Q}.lora_B.weight": t[f"{Q}.lora_B.weight"][:, :4]}),
                     [f"{Q}.lora_A.weight", "rank 8"]),
    "no B": (lambda t: t.pop(f"{Q}.lora_B.weight"), ["model.layers.0.self_attn.q_proj", "factor B"]),
    "DoRA": (lambda t: t.update({f"{Q}.lora_magnitude_vector": np.ones(256, np.float32)}), ["DoRA"]),
    "an embedding": (lambda t: t.update({
        "base_model.model.model.embed_tokens.lora_embedding_A": np.ones((8, 96), np.float32)}),
        ["embed_tokens", "embeddings"]),
    "a module": (lambda t: t.update({"base_model.model.lm_head.weight": np.ones((96, 128), np.float32)}),
                 ["lm_head.weight", "whole modules"]),
    "a bias": (lambda t: t.update({f"{Q}.lora_B.bias": np.ones(256, np.float32)}), ["lora_B.bias"]),
    "another prefix": (lambda t: t.update({"x.lora_A.weight": np.ones((8, 8), np.float32)}),
                       ["x.lora_A.weight", "base_model.model."]),
    "another layer": (lambda t: t.update({k.replace("layers.0", "layers.6"): v for k, v in t.items()}),
                      ["layers.6", "llama"]),
    "another model's": (lambda t: t.update({k.replace("self_attn.q_proj", "linear_attn.q"): v
                                            for k, v in t.items()}), ["linear_attn.q"]),
    "not a number": (lambda t: t[f"{Q}.lora_B.weight"].__setitem__((0, 0), np.nan),
                     [f"{Q}.lora_B.weight", "not finite"]),
    "integers": (lambda t: t.update({f"{Q}.lora_A.weight": np.ones((8, 128), np.int32)}),
                 [f"{Q}.lora_A.weight", "I32"]),
    "the same twice": (lambda t: t.update({k.replace(".model.model.", ".model.language_model.model."): v
                                           for k, v in t.items()}), ["the same matrix"]),
}


@pytest.mark.parametrize("scale", ["nan", "inf", "1000.1", "-1001"])
def test_refused_scales(scale, tiny, adapters):
    fails(2, "plan", tiny.hf("llama3"), "--adapter", f"{adapters('llama3')}={scale}",
          mentions=["--adapter", "from -1000 to 1000"])


@pytest.mark.parametrize("what", REFUSED)
def test_refused_tensors(what, tiny, tmp_path):
    spec = ADAPTERS["llama3"]
    change, mentions = REFUSED[what]
    tensors = peft_tensors(spec)
    change(tensors)
    tensors = {name: np.ascontiguousarray(t) for name, t in tensors.items()}
    folder = write_peft(tmp_path / "adapter", spec, tensors=tensors)
    fails(4, "plan", tiny.hf("llama3"), "--adapter", folder, mentions=[folder, *mentions])


@pytest.mark.parametrize("module,mentions", [
    ("model.layers.0.mlp.experts.0.gate_proj", ["experts"]), ("model.layers.0.mlp.gate", ["mlp.gate"]),
    ("model.layers.0.mlp.gate_proj", ["no such matrix"])])
def test_refused_beside_experts(module, mentions, tiny, tmp_path):
    """Only layers without experts have a feed-forward that factors can stand beside."""
    tensors = {f"base_model.model.{module}.lora_A.weight": np.ones((8, 128), np.float32),
               f"base_model.model.{module}.lora_B.weight": np.ones((192, 8), np.float32)}
    folder = write_peft(tmp_path / "adapter", ADAPTERS["llama3"], tensors=tensors)
    fails(4, "plan", tiny.hf("qwen3_moe"), "--adapter", folder, mentions=[folder, module, *mentions])


@pytest.mark.parametrize("change,mentions", [
    (lambda c, t: c.update(num_layers=2), ["model.layers.0", "num_layers"]),
    (lambda c, t: c["lora_parameters"].update(keys=["self_attn.q_proj"]), ["v_proj", "keys"]),
    (lambda c, t: c["lora_parameters"].update(rank=9), ["lora_a", "rank 9"]),
    (lambda c, t: c.update(fine_tune_type="dora"), ["fine_tune_type", "dora"]),
    (lambda c, t: t.update({"model.layers.0.self_attn.q_proj.m": np.ones(256, np.float32)}), ["DoRA"]),
    (lambda c, t: t.update({"model.layers.0.input_layernorm.weight": np.ones(128, np.float32)}),
     ["input_layernorm.weight"]),
])
def test_refused_of_mlx(change, mentions, tiny, tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = write_mlx_adapter(tmp_path / "adapter", ADAPTERS["llama3"])
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapters.safetensors")
    change(config, tensors)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapters.safetensors")
    fails(4, "plan", tiny.hf("llama3"), "--adapter", folder, mentions=[folder, *mentions])


def test_truncated_and_mutated_files(tiny, adapters, tmp_path):
    """No bytes of an adapter end the program in another way than an error."""
    from ringkeep_cli import run

    folder = tmp_path / "adapter"
    shutil.copytree(adapters("llama3"), folder)
    random = np.random.default_rng(1)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        whole = (folder / name).read_bytes()
        for i in range(20):
            data = bytearray(whole)
            if i % 2:
                data = data[:random.integers(len(data))]
            else:
                for at in random.integers(min(len(data), 2000), size=3):
                    data[at] = random.integers(256)
            (folder / name).write_bytes(data)
            assert run("plan", tiny.hf("llama3"), "--adapter", folder).returncode in (0, 4)
        (folder / name).write_bytes(whole)
    assert run("plan", tiny.hf("llama3"), "--adapter", folder).returncode == 0
