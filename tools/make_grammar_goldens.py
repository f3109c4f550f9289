"""Writes tests/golden/grammar/*.json, the oracles of the grammar tests.

    python tools/make_grammar_goldens.py       (pip install "jsonschema[format-nongpl]" hypothesis)

regex.json: which texts Python's `re` matches as a whole. schemas.json: which documents `jsonschema`
finds valid, formats checked. Documents are written as our grammars write them (declared order of
members, numbers without an exponent where there are bounds), so that each valid one must be accepted.
Left out is what `jsonschema` takes more widely than the RFCs (any text with an @ as an email, durations
that skip a unit) and what Python reads in its own way ({,n}).
"""

import copy
import json
import pathlib
import random
import re
import sys
import warnings

import hypothesis
import hypothesis.strategies as st
import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "grammar"

PATTERNS = r"""
abc
a|b|
(a|bc)*d
(?:ab)+?c{2}
[a-cx-z]{1,3}
[^a-c]{2}
[^\d\s]+
\d{3}-\d{4}
\w+@\w+\.(com|org)
\s*\S\s*
\D\W
a{0}b{2,}c{1,2}
(a{2}){2}
(a*)*b
(a|aa)+
((a|b)?c)*
^abc$
^a|b$
^(?:x|y)z$
.
.{2,3}
a.c
[.]
[\]\-\\^]
[a\-z]
[-a]
[a-]
[\x41-\x43\u0064]
\x41\u00e9\t
é+
[à-ü]{2}
[^é]
日本|中国
[一-三]{1,2}
[😀-😂]+
\.\*\+\?\(\)\[\]\{\}\|\^\$\/\\
{a}
]}
(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])
(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])
#[0-9a-fA-F]{6}|#[0-9a-fA-F]{3}
[A-Z][a-z]+( [A-Z][a-z]+)*
(a?){20}a{20}
(a|b)*a(a|b){5}
.*a.{3}
(x+x+)+y
(|a)+
()
(()|a)b
[\w.-]+
[\d\s]{2}
[\b]
a\0b
\f\v
"""


def regex_cases():
    warnings.simplefilter("ignore")
    rng = random.Random(1)
    cases = []
    for pattern in PATTERNS.strip("\n").split("\n"):
        compiled = re.compile(pattern, re.ASCII)
        texts = {"", "a", "abc", "ab", "b"}
        found = []

        @hypothesis.settings(max_examples=15, database=None, derandomize=True, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(st.from_regex(compiled, fullmatch=True))
        def collect(text):
            if len(text) <= 24:
                found.append(text)

        collect()
        texts.update(found[:10])
        letters = sorted(set("".join(found[:10]) + "ab1 -"))
        for text in sorted(found[:8]):
            mutated = list(text)
            for _ in range(rng.randrange(1, 3)):
                where = rng.randrange(len(mutated) + 1)
                if rng.randrange(2) and mutated:
                    mutated.pop(min(where, len(mutated) - 1))
                else:
                    mutated.insert(where, rng.choice(letters))
            texts.add("".join(mutated))
        # What the dialects read apart: \s beyond ASCII, and line ends with the dot.
        odd = re.compile("[\x0b\x0c\r\x1c-\x1f\x85\xa0\u2000-\u200f\u2028\u2029\u3000\ufeff\ud800-\udfff]")
        texts = sorted(text for text in texts if not odd.search(text) or pattern in ("\\f\\v", "[\\b]"))
        cases.append({"pattern": pattern,
                      "match": [t for t in texts if compiled.fullmatch(t)],
                      "no_match": [t for t in texts if not compiled.fullmatch(t)]})
    return cases


def obj(properties, required=(), **more):
    return {"type": "object", "properties": properties, "required": list(required), **more}


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}

SCHEMAS = [
    {}, True, STRING, INTEGER, NUMBER, BOOLEAN, NULL, {"type": "array"}, {"type": "object"},
    {"type": ["string", "null"]}, {"type": ["integer", "boolean", "array"]},
    {"type": "integer", "minimum": 3}, {"type": "integer", "maximum": -3},
    {"type": "integer", "minimum": -12, "maximum": 107},
    {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
    {"type": "integer", "minimum": 1.5, "maximum": 3.5}, {"type": "integer", "multipleOf": 7},
    {"type": "integer", "multipleOf": 5, "minimum": -11, "maximum": 26},
    {"type": "integer", "minimum": 99, "maximum": 1000}, {"type": "integer", "minimum": 19, "maximum": 21},
    {"type": "number", "minimum": 0}, {"type": "number", "minimum": -1.5, "maximum": 2.25},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 0.05, "maximum": 0.5}, {"type": "number", "exclusiveMaximum": -0.5},
    {"type": "number", "minimum": 9.99, "maximum": 10.01}, {"type": "number", "minimum": 2, "maximum": 2},
    {"type": "string", "minLength": 2}, {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 1, "maxLength": 2}, {"type": "string", "pattern": "^[a-c]+$"},
    {"type": "string", "pattern": "b"}, {"type": "string", "pattern": "^a|c$"},
    {"type": "string", "pattern": "^\"\\\\?\n?$"}, {"type": "string", "pattern": "^[^x]*$", "maxLength": 4},
    {"type": "string", "pattern": "^a", "minLength": 3},
    *({"type": "string", "format": f} for f in
      ("date", "time", "date-time", "uuid", "ipv4", "ipv6", "hostname", "email", "duration")),
    {"enum": ["a", "ab", 1, 2.5, None, True, {"a": [1]}, [], "\"q\"\\", "é"]}, {"const": "x"}, {"const": {"a": 1, "b": []}},
    {"type": "string", "enum": ["a", "b", 3]}, {"enum": [1, 5, 9], "minimum": 2, "maximum": 8},
    {"enum": ["a", "bb", "ccc"], "minLength": 2}, {"enum": ["a", "bb", "ccc"], "pattern": "c"},
    {"type": "array", "items": INTEGER}, {"type": "array", "items": BOOLEAN, "minItems": 1, "maxItems": 2},
    {"type": "array", "minItems": 2}, {"type": "array", "maxItems": 0}, {"items": False},
    {"type": "array", "prefixItems": [INTEGER, STRING]},
    {"type": "array", "prefixItems": [INTEGER, STRING], "items": False},
    {"type": "array", "prefixItems": [INTEGER, STRING, BOOLEAN], "items": NULL, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [INTEGER, STRING], "items": BOOLEAN, "minItems": 3},
    {"type": "array", "items": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}},
    obj({"a": INTEGER}), obj({"a": INTEGER}, ["a"]), obj({"a": INTEGER, "b": STRING, "c": BOOLEAN}, ["b"]),
    obj({"a": INTEGER, "b": STRING}, ["a", "b"], additionalProperties=False),
    obj({"a": INTEGER, "b": STRING}, additionalProperties=BOOLEAN),
    obj({"a": INTEGER, "ab": STRING, "aé": NULL}, additionalProperties=True),
    obj({"a": INTEGER}, ["a", "z"]), {"type": "object", "additionalProperties": INTEGER},
    {"type": "object", "additionalProperties": False}, {"type": "object", "required": ["x"]},
    obj({"a": obj({"b": {"type": "array", "items": obj({"c": NUMBER}, ["c"])}}, ["b"])}, ["a"]),
    obj({"a": {"type": ["integer", "null"]}, "b": {"type": "string", "default": "x", "title": "B"}}, ["a"]),
    obj({"a": INTEGER, "b": INTEGER, "c": INTEGER, "d": INTEGER}, ["c"], minProperties=1),
    {"anyOf": [STRING, INTEGER]}, {"anyOf": [obj({"a": INTEGER}, ["a"]), obj({"b": STRING}, ["b"])]},
    {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"anyOf": [{"minimum": 5}, {"maximum": 1}], "type": "integer"},
    {"anyOf": [INTEGER, STRING], "allOf": [{"minimum": 3}, {"minLength": 2}]},
    {"allOf": [obj({"a": INTEGER}, ["a"]), obj({"b": STRING}, ["b"])]},
    {"allOf": [obj({"a": INTEGER}), obj({"a": {"minimum": 3}}, ["a"])]},
    {"allOf": [{"type": ["integer", "string"]}, {"type": ["string", "null"]}]},
    {"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]},
    {"allOf": [{"pattern": "^a"}, {"pattern": "z$"}], "type": "string", "maxLength": 4},
    {"allOf": [{"prefixItems": [INTEGER]}, {"items": {"type": ["integer", "null"]}}], "type": "array"},
    {"allOf": [obj({"a": INTEGER, "b": STRING}, ["a"], additionalProperties=False), obj({"a": {"maximum": 4}})]},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer", "minimum": 4}}},
    {"$defs": {"node": obj({"a": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/node"}, NULL]}}, ["a", "next"],
                           additionalProperties=False)}, "$ref": "#/$defs/node"},
    obj({"kids": {"type": "array", "items": {"$ref": "#"}}, "name": STRING}, ["name"], additionalProperties=False),
    obj({"a": {"$ref": "#/properties/b"}, "b": {"type": "integer", "maximum": 9}}, ["a", "b"]),
    {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": BOOLEAN}},
    obj({"a": {"$ref": "#/$defs/s", "minLength": 2}}, ["a"], **{"$defs": {"s": {"type": "string", "maxLength": 3}}}),
    {"oneOf": [obj({"kind": {"const": "cat"}, "n": INTEGER}, ["kind", "n"]),
               obj({"kind": {"const": "dog"}, "s": STRING}, ["kind", "s"])]},
]

FORMATS = {
    "date": ["2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "2024-12-31", "0000-01-01", "0001-01-01", "24-01-01"],
    "time": ["12:34:56Z", "23:59:59.999+01:00", "24:00:00Z", "12:60:00Z", "12:34:56", "00:00:00-23:59", "12:34:56+24:00"],
    "date-time": ["2024-02-29T12:34:56Z", "2023-02-29T12:34:56Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00+02:00", "2024-01-01T25:00:00Z"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"],
    "ipv4": ["1.2.3.4", "255.255.255.255", "256.1.1.1", "01.2.3.4", "1.2.3"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1::2::3", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "12345::", "fe80::1:2", "1:2:3:4:5:6:7:8:9", ":::"],
    "hostname": ["example.com", "a", "-a", "a-", "a..b", "x-1.y-2.z", "", "a_b"],
    "email": ["a@b.co", "a.b@c", "ab", "a+b@x-y.org"],
    "duration": ["P1D", "PT1H30M", "P1Y2M3D", "P1W", "P", "PT", "1D", "P1M2D"],
}


def resolve(root, schema):
    while isinstance(schema, dict) and "$ref" in schema:
        out = root
        for key in schema["$ref"].replace("%25", "%").split("/")[1:]:
            out = out[key.replace("~1", "/").replace("~0", "~")]
        schema = out
    return schema


def any_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 2 else 6)
    if kind == 0:
        return None
    if kind == 1:
        return rng.choice([True, False])
    if kind == 2:
        return rng.choice([0, 1, -1, 7, 3, 12, 100, -12345, 10**15])
    if kind == 3:
        return rng.choice([0.5, -1.25, 3.75, 0.05, 2.251, -0.500001])
    if kind in (4, 5):
        return rng.choice(["", "a", "ab", "abc", "b", "é\n\"", "x\\y", "aaaa", "cat", "日本語"])
    if kind == 6:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice("abcxyz"): any_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def value_for(rng, root, schema, depth=0):
    """A value that may be valid: the verdict is jsonschema's."""
    schema = resolve(root, schema)
    if not isinstance(schema, dict) or rng.randrange(12) == 0 or depth > 5:
        return any_value(rng, depth)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema and rng.randrange(3):
            rest = {k: v for k, v in schema.items() if k != key}
            parts = schema[key] if key == "allOf" else [rng.choice(schema[key])]
            values = [value_for(rng, root, part, depth) for part in parts + ([rest] if len(rest) else [])]
            if all(isinstance(v, dict) for v in values):
                return {k: v for value in values for k, v in value.items()}
            return rng.choice(values)
    if "enum" in schema:
        return copy.deepcopy(rng.choice(schema["enum"] + ["nope"]))
    if "const" in schema:
        return copy.deepcopy(schema["const"])
    if "format" in schema:
        return rng.choice(FORMATS[schema["format"]])
    kinds = schema.get("type") or ("object" if "properties" in schema else "array" if "items" in schema
                                  else "integer" if "minimum" in schema else None)
    kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "string":
        alphabet = rng.choice(["a", "az", "abc", "abcxz", "é\"\\\n a"])
        return "".join(rng.choice(alphabet) for _ in range(rng.randrange(6)))
    if kind in ("integer", "number"):
        ends = [v for k, v in schema.items() if "imum" in k.lower()] or [0]
        base = rng.choice(ends) + rng.choice([0, 0, 1, -1, 5, -7, 90, -1000])
        if kind == "integer":
            return int(base) * (schema.get("multipleOf", 1) if rng.randrange(2) else 1)
        value = round(base + rng.choice([0, 0.01, -0.01, 0.5, -0.001, 0.0625]), 6)
        return int(value) if value == int(value) else value
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        count = rng.randrange(max(schema.get("minItems", 0), len(prefix)) + 3)
        return [value_for(rng, root, prefix[i] if i < len(prefix) else schema.get("items", True), depth + 1)
                for i in range(count)]
    if kind == "object":
        value = {}
        for name, inner in schema.get("properties", {}).items():
            if rng.randrange(8) if name in schema.get("required", []) else rng.randrange(2):
                value[name] = value_for(rng, root, inner, depth + 1)
        if "additionalProperties" in schema or not schema.get("properties") or rng.randrange(20) == 0:
            for name in schema.get("required", []) + rng.sample(["x", "y", "z"], rng.randrange(3)):
                if name not in value:
                    extra = schema.get("additionalProperties", True)
                    value[name] = value_for(rng, root, extra, depth + 1)
        return value
    return {None: any_value(rng), "null": None, "boolean": rng.choice([True, False])}[kind]


def has_undeclared(root, schema, value):
    """Members that only JSON Schema's default allows; our grammars do not write them."""
    schema = resolve(root, schema)
    if not isinstance(schema, dict):
        return False
    parts = [schema, *schema.get("allOf", []), *schema.get("anyOf", []), *schema.get("oneOf", [])]
    parts = [resolve(root, part) for part in parts]
    if isinstance(value, dict):
        names = [n for p in parts for n in (*p.get("properties", {}), *p.get("required", []))]
        named = [p["additionalProperties"] for p in parts if "additionalProperties" in p]
        if names and not named and any(key not in names for key in value):
            return True
        return any(has_undeclared(root, p["properties"][k], v) for p in parts for k, v in value.items()
                   if k in p.get("properties", {}))
    if isinstance(value, list):
        return any(has_undeclared(root, p["items"], v) for p in parts if isinstance(p.get("items"), dict) for v in value)
    return False


def dump(rng, value):
    style = rng.randrange(3)
    if style == 0:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=None if style == 1 else 2)


def schema_cases():
    rng = random.Random(2)
    cases = []
    for schema in SCHEMAS:
        checker = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        valid, invalid, seen = [], [], set()
        for _ in range(120):
            value = value_for(rng, schema, schema)
            if has_undeclared(schema, schema, value):
                continue
            key = json.dumps(value, sort_keys=True)
            if key in seen or len(key) > 200:
                continue
            seen.add(key)
            good = checker.is_valid(value)
            into = valid if good else invalid
            if len(into) < 10:
                into.append(dump(rng, value))
        cases.append({"schema": schema, "valid": valid, "invalid": invalid})
    return cases


def write(name, made_by, cases):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    text = f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n'
    (FOLDER / name).write_text(text, encoding="utf-8")
    print(name, len(cases), "cases,", len(text.encode()), "bytes")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    python = ".".join(map(str, sys.version_info[:3]))
    write("regex.json", f"re of Python {python}, texts by hypothesis {hypothesis.__version__}", regex_cases())
    version = __import__("importlib.metadata").metadata.version("jsonschema")
    write("schemas.json", f"jsonschema {version}, draft 2020-12, Python {python}", schema_cases())


if __name__ == "__main__":
    main()
