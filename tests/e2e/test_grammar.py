"""What grammars of JSON schemas write, at random, is judged by `jsonschema`, for hand-written schemas
and for random ones."""

import json
import pathlib
import random
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/grammar_walk"
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def walks(schemas, count, seed, *tool_format):
    lines = "".join(json.dumps(schema) + "\n" for schema in schemas)
    result = subprocess.run([PROGRAM, str(count), str(seed), *tool_format], input=lines.encode(), capture_output=True,
                            check=True, timeout=300)
    return [json.loads(line) for line in result.stdout.decode().strip("\n").split("\n")]


def check(schema, texts):
    validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
    for text in texts:
        error = next(validator.iter_errors(json.loads(text)), None)
        assert error is None, f"{json.dumps(schema)}\n{text}\n{error.message}"


def test_walks_conform_to_the_golden_schemas():
    cases = json.loads((ROOT / "tests/golden/grammar/schemas.json").read_text())["cases"]
    schemas = [case["schema"] for case in cases]
    ended = 0
    for schema, walk in zip(schemas, walks(schemas, 40, 1), strict=True):
        assert "error" not in walk and "stuck" not in walk, (schema, walk)
        check(schema, walk["texts"])
        ended += len(walk["texts"])
    assert ended > len(schemas) * 20


def number(rng):
    return rng.choice([0, 1, -1, 2, 7, 10, 12.5, -3.25, 0.1, 99, 1000, -250, 1e3, 0.05])


def random_schema(rng, depth=0):
    if depth > 3 or rng.randrange(12) == 0:
        return rng.choice([True, {}, {"type": "boolean"}, {"const": rng.choice([1, "x", None, [1], {"a": 2}])}])
    kind = rng.choice(["integer", "number", "string", "array", "object", "object", "enum", "anyOf", "allOf", "types"])
    inner = lambda: random_schema(rng, depth + 1)
    maybe = lambda: rng.randrange(3) == 0
    out = {}
    if kind == "enum":
        out["enum"] = rng.sample([1, 2, 10, "a", "ab", "b\"", "é", None, True, 2.5, -3], rng.randrange(1, 6))
    elif kind == "anyOf":
        out[rng.choice(["anyOf", "anyOf", "oneOf"])] = [inner() for _ in range(rng.randrange(1, 4))]
        if maybe():
            out["type"] = rng.choice(["string", "object", ["integer", "null"]])
        if "oneOf" in out:
            out["anyOf"] = out.pop("oneOf")  # oneOf is read as anyOf: documented
    elif kind == "allOf":
        out["allOf"] = [inner() for _ in range(rng.randrange(1, 4))]
    elif kind == "types":
        out["type"] = rng.sample(["string", "integer", "number", "null", "boolean", "array", "object"], rng.randrange(1, 4))
    else:
        out["type"] = kind
    if kind in ("integer", "number", "types") or maybe():
        for key in rng.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], rng.randrange(3)):
            out[key] = number(rng)
        if kind == "integer" and rng.randrange(4) == 0:
            out["multipleOf"] = rng.choice([1, 2, 3, 7, 10, 25])
    if kind in ("string", "types") or maybe():
        if maybe():
            out["minLength"] = rng.randrange(4)
        if maybe():
            out["maxLength"] = rng.randrange(2, 60)
        if kind == "string" and rng.randrange(3) == 0:
            out["pattern"] = rng.choice(["^[a-c]", "b", "x$", "^(ab|c)*$", "^\\d{2,4}$", "\\\\|\"", "^[^a]*$", "é"])
        elif kind == "string" and rng.randrange(4) == 0:
            out["format"] = rng.choice(["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "uri", "duration"])
    if kind in ("array", "types") or maybe():
        if maybe():
            out["prefixItems"] = [inner() for _ in range(rng.randrange(1, 3))]
        if maybe():
            out["items"] = rng.choice([inner(), inner(), False])
        if maybe():
            out["minItems"] = rng.randrange(3)
        if maybe():
            out["maxItems"] = rng.randrange(1, 5)
    if kind in ("object", "types") or maybe():
        names = rng.sample(["a", "b", "ab", "é\"", "kind"], rng.randrange(4))
        if names and rng.randrange(4):
            out["properties"] = {name: inner() for name in names}
        if maybe():
            out["required"] = rng.sample(["a", "b", "z"], rng.randrange(1, 3))
        if maybe():
            out["additionalProperties"] = rng.choice([True, False, inner()])
    if depth == 0 and rng.randrange(4) == 0:
        out["$defs"] = {"d": inner()}
        out = {"$defs": out.pop("$defs"), "allOf": [out, {"$ref": "#/$defs/d"}]}
    return out


def test_walks_conform_to_random_schemas():
    rng = random.Random(3)
    schemas = [random_schema(rng) for _ in range(1500)]
    ended, refused = 0, 0
    for schema, walk in zip(schemas, walks(schemas, 6, 2), strict=True):
        if "error" in walk:
            refused += 1
            # Nothing random_schema writes is outside the subset, but for what contradicts itself.
            message = walk["error"]
            assert any(reason in message for reason in ("none that ends", "beside an enum", "combinations")), (schema, message)
            continue
        assert "stuck" not in walk, (schema, walk)
        check(schema, walk["texts"])
        ended += len(walk["texts"])
    assert ended > 3000 and refused < len(schemas) // 2


def random_parameters(rng):
    names = rng.sample(["a", "b", "ab", "kind", "last_name"], rng.randrange(1, 4))
    schema = {"type": "object", "properties": {name: random_schema(rng, 1) for name in names}}
    if rng.randrange(2):
        schema["required"] = rng.sample(names, rng.randrange(1, len(names) + 1))
    if rng.randrange(3) == 0:
        schema["additionalProperties"] = rng.choice([True, False, random_schema(rng, 2)])
    if rng.randrange(4) == 0:
        name = rng.choice(names)
        schema["$defs"] = {"d": schema["properties"][name]}
        schema["properties"][name] = {"$ref": "#/$defs/d"}
    return schema


@pytest.mark.parametrize("tool_format", ["qwen3_coder", "functiongemma", "gemma4", "hermes", "deepseek_v31"])
def test_calls_are_read_back_and_conform(tool_format):
    rng = random.Random(5)
    schemas = [random_parameters(rng) for _ in range(300)]
    ended, refused = 0, 0
    for schema, walk in zip(schemas, walks(schemas, 6, 4, tool_format), strict=True):
        if "error" in walk:
            refused += 1
            message = walk["error"]
            assert any(reason in message for reason in ("none that ends", "beside an enum", "combinations")), (schema, message)
            continue
        assert "stuck" not in walk, (schema, walk)
        for call in walk["calls"]:
            assert call["arguments"] is not None, (schema, call["text"])
        check(schema, [call["arguments"] for call in walk["calls"]])
        ended += len(walk["calls"])
    assert ended > 600 and refused < len(schemas) // 2
