"""Writes tests/golden/replies: calls.json, what mlx-lm's tool parsers read in texts of calls, and
harmony.json, what openai-harmony reads in GPT-OSS's replies: the oracles of reply_golden_test.cpp.

    python tools/make_reply_goldens.py            # needs mlx-lm
    python tools/make_reply_goldens.py harmony    # needs openai-harmony, and TIKTOKEN_ENCODINGS_BASE with
                                                  # o200k_base.tiktoken where it cannot be downloaded
"""

import importlib
import importlib.metadata
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "replies"
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


# Replies to a prompt that ends with <|start|>assistant.
CALL = '{"city": "Paris", "days": 3}'
HARMONY = [
    "<|channel|>analysis<|message|>Simple.<|end|><|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>",
    "<|channel|>final<|message|> Hi \n\n é 🙂 <b> {\"a\": [1]}\n<|return|>",
    "<|channel|>final<|message|><|return|>",
    "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.\n<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Three.<|return|>",
    "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>commentary "
    f"to=functions.get_weather <|constrain|>json<|message|>{CALL}<|call|>",
    f"<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>{CALL}<|call|>",
    f"<|channel|>commentary to=functions.get_weather<|message|>{CALL}<|call|>",
    f"<|channel|>commentary to=functions.get_weather json<|message|>{CALL}<|call|>",
    f" to=functions.get_weather<|channel|>commentary json<|message|>{CALL}<|call|>",
    f" to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{CALL}<|call|>",
    f"<|channel|>analysis to=functions.get_weather code<|message|>{CALL}<|call|>",
    "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.now <|constrain|>json<|message|><|call|>",
    "<|channel|>commentary<|message|>**Plan**:\n1. Look it up.<|end|><|start|>assistant<|channel|>commentary "
    f"to=functions.get_weather <|constrain|>json<|message|>{CALL}<|call|>",
    "<|channel|>analysis<|message|>Why?<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Then.<|return|>",
    "<|channel|>final <|constrain|>json<|message|>{\"ok\": true}<|return|>",
    "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
    "<|channel|>analysis to=browser.search code<|message|>{\"query\": \"rings\"}<|call|>",
    f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{CALL}<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>",
    f"<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{CALL}<|call|>",
]


def harmony():
    import openai_harmony

    encoding = openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    cases = []
    for text in HARMONY:
        tokens = encoding.encode(text, allowed_special="all")
        role = None if text.startswith("<|start|>") else openai_harmony.Role.ASSISTANT
        messages = []
        for message in encoding.parse_messages_from_completion_tokens(tokens, role):
            fields = {"channel": message.channel, "recipient": message.recipient}
            [content] = message.content
            messages.append({name: value for name, value in fields.items() if value} | {"text": content.text})
        cases.append({"text": text, "messages": messages})
    golden = {"made_by": f"openai-harmony {importlib.metadata.version('openai-harmony')}", "cases": cases}
    write("harmony.json", golden)


def write(name, golden):
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    if sys.argv[1:] == ["harmony"]:
        return harmony()
    import mlx_lm

    cases = []
    for format_name, (module_name, texts) in TEXTS.items():
        module = importlib.import_module(f"mlx_lm.tool_parsers.{module_name}")
        for text in texts:
            calls = module.parse_tool_call(text, [TOOL])
            calls = calls if isinstance(calls, list) else [calls]
            cases.append({"format": format_name, "text": module.tool_call_start + text + module.tool_call_end,
                          "calls": [{"name": c["name"], "arguments": c["arguments"]} for c in calls]})
    write("calls.json", {"made_by": f"mlx-lm {mlx_lm.__version__}", "tools": [TOOL], "cases": cases})


if __name__ == "__main__":
    main()
