"""Writes tests/golden/replies/calls.json: what mlx-lm's tool parsers read in texts of calls, the oracle
of reply_golden_test.cpp.

    python tools/make_reply_goldens.py
"""

import importlib
import json
import pathlib

import mlx_lm

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "replies" / "calls.json"
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
    "deep": {"type": "boolean"}, "where": {"type": "object"}, "tags": {"type": "array"},
    "maybe": {"type": "string"}, "untyped": {"description": "anything"}}}}}

# What a model may write between the marks of its format.
TEXTS = {
    "hermes": ("json_tools", [
        '\n{"name": "look_up", "arguments": {"text": "a \\"b\\" {c} é 🙂", "count": 3}}\n',
        '{"arguments": {"tags": [1, [2.5, null]], "where": {"x": {"y": true}}}, "name": "look_up"}',
        '{"name":"look_up","arguments":{}}',
        '{"name": "look_up", "arguments": {"text": ""}, "id": 7}',
    ]),
    "qwen3_coder": ("qwen3_coder", [
        "\n<function=look_up>\n<parameter=text>\nline one\n  line \"two\"\n</parameter>\n<parameter=count>\n-7\n"
        "</parameter>\n</function>\n",
        "<function=look_up><parameter=deep>true</parameter><parameter=ratio>0.25</parameter></function>",
        "\n<function=look_up>\n<parameter=where>\n{\"x\": [1, 2]}\n</parameter>\n<parameter=tags>\n[\"a\", {}]\n"
        "</parameter>\n<parameter=untyped>\n[1]\n</parameter>\n<parameter=unknown>\n12\n</parameter>\n</function>\n",
        "\n<function=look_up>\n</function>\n",
        "\n<function=look_up>\n<parameter=text>\n5\n</parameter>\n<parameter=deep>\nfalse\n</parameter>\n</function>\n",
    ]),
    "mistral": ("mistral", [
        ' [{"name": "look_up", "arguments": {"text": "a, [b]"}, "id": "abcdefghi"}]',
        '[{"name": "look_up", "arguments": {}}, {"name": "other", "arguments": {"count": 1e3}}]',
        '[{"name": "look_up", "arguments": "{\\"count\\": 1}"}]',
    ]),
    "mistral_args": ("mistral", [
        'look_up[ARGS]{"text": "a [ARGS] b", "tags": []}',
        'look_up [ARGS] {}',
    ]),
    "functiongemma": ("function_gemma", [
        "call:look_up{text:<escape>a, \"b\" and c<escape>,count:3}",
        "call:look_up{deep:true,ratio:0.5,maybe:null}",
        "call:look_up{text:plain words}",
        "call:look_up{}",
    ]),
    "gemma4": ("gemma4", [
        'call:look_up{text:<|"|>a, {b} "c"\n<|"|>,count:-3}',
        'call:look_up{where:{x:[1,{y:<|"|>z<|"|>}],w:null},tags:[<|"|>a<|"|>,<|"|>b<|"|>],deep:false}',
        "call:look_up{}",
    ]),
}


def main():
    cases = []
    for format_name, (module_name, texts) in TEXTS.items():
        module = importlib.import_module(f"mlx_lm.tool_parsers.{module_name}")
        for text in texts:
            calls = module.parse_tool_call(text, [TOOL])
            calls = calls if isinstance(calls, list) else [calls]
            cases.append({"format": format_name, "text": module.tool_call_start + text + module.tool_call_end,
                          "calls": [{"name": c["name"], "arguments": c["arguments"]} for c in calls]})
    FILE.parent.mkdir(parents=True, exist_ok=True)
    golden = {"made_by": f"mlx-lm {mlx_lm.__version__}", "tools": [TOOL], "cases": cases}
    FILE.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
