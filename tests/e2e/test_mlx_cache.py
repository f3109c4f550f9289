"""Prompt caches of mlx-lm: ringkeep goes on from them as mlx-lm does."""

import json
import pathlib

import pytest

from make_tiny_model import test_tokens as fixed_tokens
from ringkeep_cli import fails, ok, ok_json, run
from tiny_specs import SPECS

REST = "and then"


def mlx_model(folder, dtype):
    import mlx.core as mx
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(pathlib.Path(folder))
    model.set_dtype(getattr(mx, dtype))
    return model


def mlx_prompt_cache(model, tokens, file, bits=None, steps=(64, 1)):
    """mlx-lm's cache after `tokens`, run in steps of those sizes in turn, as a file."""
    import mlx.core as mx
    from mlx_lm.models import cache as mlx_cache

    cache = mlx_cache.make_prompt_cache(model)
    done, turn = 0, 0
    while done < len(tokens):
        n = min(steps[turn % len(steps)], len(tokens) - done)
        model(mx.array([tokens[done:done + n]]), cache=cache)
        mx.eval([c.state[:2] for c in cache])
        done, turn = done + n, turn + 1
    if bits is not None:
        cache = [c.to_quantized(group_size=32, bits=bits) if type(c).__name__ == "KVCache" else c
                 for c in cache]
    mlx_cache.save_prompt_cache(str(file), cache)
    return cache


def as_old_file(cache, file):
    """The layout that mlx-lm 0.26 wrote: unused rows cut off, numbers as text in the metadata."""
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_map

    numbers = {"KVCache": lambda c: "",
               "RotatingKVCache": lambda c: (c.keep, c.max_size, 256, c.offset, c._idx),
               "QuantizedKVCache": lambda c: (256, c.offset, c.group_size, c.bits)}
    names = [type(c).__name__ for c in cache]
    info = [n if n == "" else tuple(map(str, n))
            for n in (numbers[name](c) for name, c in zip(names, cache))]
    arrays = [tree_map(lambda x: x[..., :c.offset, :], (c.keys, c.values)) for c in cache]
    mx.save_safetensors(str(file), dict(tree_flatten(arrays)),
                        dict(tree_flatten([info, {}, names])))


def mlx_greedy(model, cache, tokens, count):
    import mlx.core as mx

    generated, logits = [], model(mx.array([tokens]), cache=cache)
    while True:
        generated.append(int(mx.argmax(logits[0, -1]).item()))
        if len(generated) == count:
            return generated
        logits = model(mx.array([[generated[-1]]]), cache=cache)


@pytest.mark.parametrize("name,bits,flags,dtype", [
    ("llama3", None, (), "float32"),
    ("llama3", None, (), "bfloat16"),
    ("llama3", 8, ("--kv-bits", "affine8:32"), "float32"),
    ("llama3", 4, ("--kv-bits", "affine4:32"), "float32"),
    ("gemma3_pattern6", None, (), "float32"),
    ("gemma3_pattern6", 8, ("--kv-bits", "full=affine8:32+sliding=f16"), "float32"),
])
@pytest.mark.parametrize("steps", [(200,), (64, 1), (1,)], ids=str)
def test_goes_on_as_mlx_lm_does(name, bits, flags, dtype, steps, tiny, tmp_path):
    """Full and rotating caches, plain and quantized, filled in any way: the same greedy tokens."""
    if dtype == "bfloat16" and steps != (200,):
        pytest.skip("one way of filling is enough")
    file, gguf = tmp_path / "cache.safetensors", tiny.gguf(name, "F32")
    tokens = fixed_tokens(SPECS[name], 150)
    model = mlx_model(tiny.hf(name), dtype)
    cache = mlx_prompt_cache(model, tokens, file, bits, steps)
    rest = ok_json("tokenize", gguf, "--text", REST, "--no-special")["tokens"]
    if dtype != "float32":
        model = mlx_model(tiny.hf(name), "float32")
    expected = mlx_greedy(model, cache, rest, 20)
    result = run("run", gguf, "--raw", "-p", REST, "-n", 20, "--temp", 0, "--ignore-eos", "--exact",
                 "--prompt-cache-file", file, "--json", *flags)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["cached_tokens"] == 150
    assert found["prompt_tokens"] == 150 + len(rest)
    assert found["tokens"] == expected
    stored = "BF16" if dtype == "bfloat16" else "F32"
    assert f"stored as {stored}, rounded" in result.stderr.decode()
    inspected = ok_json("cache", "inspect", file)
    assert inspected["format"].startswith("mlx-lm")
    assert inspected["tokens"] == 150


@pytest.mark.parametrize("name,bits,flags", [
    ("llama3", 4, ("--kv-bits", "affine4:32")),
    ("gemma3_pattern6", None, ()),
])
def test_the_older_layout(name, bits, flags, tiny, tmp_path):
    """A file of an older mlx-lm gives what today's gives."""
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    gguf = tiny.gguf(name, "F32")
    model = mlx_model(tiny.hf(name), "float32")
    cache = mlx_prompt_cache(model, fixed_tokens(SPECS[name], 150), new, bits)
    as_old_file(cache, old)
    runs = [ok_json("run", gguf, "--raw", "-p", REST, "-n", 20, "--temp", 0, "--ignore-eos",
                    "--prompt-cache-file", file, *flags) for file in (new, old)]
    assert runs[0]["cached_tokens"] == runs[1]["cached_tokens"] == 150
    assert runs[0]["tokens"] == runs[1]["tokens"]


def test_what_does_not_fit_is_refused(tiny, tmp_path):
    file, gguf = tmp_path / "cache.safetensors", tiny.gguf("llama3", "F32")
    model = mlx_model(tiny.hf("llama3"), "float32")
    mlx_prompt_cache(model, fixed_tokens(SPECS["llama3"], 80), file, 8)
    before = file.read_bytes()
    arguments = ("run", gguf, "-p", REST, "--raw", "-n", 4, "--prompt-cache-file", file)
    fails(3, *arguments, mentions=["layer 0", "QuantizedKVCache", "affine8:32", "f16"])
    fails(3, *arguments, "--kv-bits", "affine8:64", mentions=["affine8:64"])
    fits = ("--kv-bits", "affine8:32")
    fails(2, *arguments, *fits, "--repetition-penalty", 1.1, mentions=["repetition_penalty"])
    fails(3, *arguments, *fits, "--ctx", 60, mentions=["--ctx"])
    fails(3, "run", tiny.gguf("qwen3", "F32"), *arguments[2:], *fits, mentions=["6 layers", "4"])
    # It is never written: what follows has no token ids.
    result = run(*arguments, *fits, "--presence-penalty", 0.5)
    assert result.returncode == 0
    assert "not written" in result.stderr.decode()
    assert file.read_bytes() == before


def test_other_classes_and_shapes(tiny, tmp_path):
    """Classes that cannot be read, and arrays that do not belong together: exit 4 with the layer."""
    import mlx.core as mx
    from mlx_lm.models import cache as mlx_cache

    gguf, file = tiny.gguf("llama3", "F32"), tmp_path / "cache.safetensors"
    model = mlx_model(tiny.hf("llama3"), "float32")
    cache = mlx_prompt_cache(model, fixed_tokens(SPECS["llama3"], 40), file)
    mlx_cache.save_prompt_cache(str(file), cache[:-1])
    fails(3, "run", gguf, "-p", REST, "--prompt-cache", file, mentions=["5 layers", "6"])
    mlx_cache.save_prompt_cache(str(file), cache[:-1] + [mlx_cache.CacheList(cache[-1])])
    fails(4, "run", gguf, "-p", REST, "--prompt-cache", file, mentions=["layer 5", "CacheList"])
    cache[2].values = cache[2].values[:, :, :30]
    mlx_cache.save_prompt_cache(str(file), cache)
    fails(4, "run", gguf, "-p", REST, "--prompt-cache", file, mentions=["layer 2"])
