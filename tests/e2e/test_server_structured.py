"""Replies that have to look like something: JSON, expressions, grammars, tool calls, reasoning."""

import json
import re

import pytest

from serving import Server

USER = {"role": "user", "content": "Say it."}
SCHEMA = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 8},
                         "size": {"type": "integer", "minimum": 0, "maximum": 99},
                         "kind": {"enum": ["ring", "full"]}},
          "required": ["name", "size", "kind"], "additionalProperties": False}
TOOL = {"type": "function",
        "function": {"name": "turn", "description": "Turns a ring.",
                     "parameters": {"type": "object",
                                    "properties": {"by": {"type": "integer", "minimum": 0, "maximum": 9}},
                                    "required": ["by"], "additionalProperties": False}}}
OTHER = {"type": "function", "function": {"name": "stop", "parameters": {
    "type": "object", "properties": {}, "additionalProperties": False}}}


def check(value):
    assert set(value) == {"name", "size", "kind"}
    assert isinstance(value["name"], str) and len(value["name"]) <= 8
    assert isinstance(value["size"], int) and 0 <= value["size"] <= 99
    assert value["kind"] in ("ring", "full")


@pytest.mark.parametrize("fields", [
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}},
    {"response_format": {"type": "json_object", "schema": SCHEMA}},
    {"json_schema": SCHEMA},
    {"guided_json": SCHEMA},
    {"guided_json": json.dumps(SCHEMA)},
    {"structured_outputs": {"json": SCHEMA}},
], ids=lambda fields: next(iter(fields)))
def test_json_schema(server, fields):
    """A random model writes JSON of the schema, whichever field says so, on both routes."""
    for seed in range(3):
        more = {**fields, "temperature": 1, "seed": seed, "max_tokens": 400}
        chat = server.chat(USER, **more)["choices"][0]
        assert chat["finish_reason"] == "stop"
        check(json.loads(chat["message"]["content"]))
        check(json.loads(server.complete("x", **more)["choices"][0]["text"]))


def test_json_object(server):
    reply = server.chat(USER, response_format={"type": "json_object"}, max_tokens=300, temperature=1,
                        seed=2, logit_bias={str(ord("}")): 20})
    assert isinstance(json.loads(reply["choices"][0]["message"]["content"]), dict)


@pytest.mark.parametrize("fields, pattern", [
    ({"guided_regex": "[a-c]{3}-\\d{2}"}, "[a-c]{3}-\\d{2}"),
    ({"structured_outputs": {"regex": "[xy]+z"}}, "[xy]+z"),
    ({"guided_choice": ["yes", "no"]}, "yes|no"),
    ({"structured_outputs": {"choice": ["left", "right"]}}, "left|right"),
    ({"grammar": 'root ::= "<" [0-9]+ ">"'}, "<[0-9]+>"),
    ({"guided_grammar": 'root ::= "a" | "b"'}, "a|b"),
    ({"structured_outputs": {"grammar": 'root ::= "q"'}}, "q"),
])
def test_rules(server, fields, pattern):
    choice = server.chat(USER, **fields, temperature=1, seed=1, max_tokens=200,
                         logit_bias={str(ord("z")): 8, str(ord(">")): 8})["choices"][0]
    assert re.fullmatch(pattern, choice["message"]["content"]), choice
    assert choice["finish_reason"] == "stop"


def test_replies_of_one_request_have_states_of_their_own(server):
    reply = server.chat(USER, n=4, guided_regex="[0-9]{8}", temperature=1, seed=5, max_tokens=20)
    texts = [choice["message"]["content"] for choice in reply["choices"]]
    assert all(re.fullmatch("[0-9]{8}", text) for text in texts) and len(set(texts)) == 4


@pytest.mark.parametrize("fields, param", [
    ({"guided_regex": "("}, "guided_regex"),
    ({"guided_regex": ""}, "guided_regex"),
    ({"guided_regex": "(?=x)"}, "guided_regex"),
    ({"grammar": "root := x"}, "grammar"),
    ({"grammar": "root ::= root"}, "grammar"),
    ({"grammar": 5}, "grammar"),
    ({"json_schema": {"type": "nothing"}}, "json_schema"),
    ({"json_schema": {"type": "object", "frobnicate": 1}}, "json_schema"),
    ({"json_schema": {"type": "object", "required": [str(i) for i in range(10_001)]}},
     "json_schema"),
    ({"guided_json": "{"}, "guided_json"),
    ({"guided_choice": []}, "guided_choice"),
    ({"structured_outputs": {"foo": 1}}, "structured_outputs.foo"),
    ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}}},
     "response_format.json_schema.schema"),
    ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern"),
])
def test_bad_rules_are_named(server, fields, param):
    server.refused("/v1/chat/completions", {"messages": [USER], **fields}, param)
    server.refused("/v1/completions", {"prompt": "x", **fields}, param)


def test_a_required_call(server):
    """Arguments of the schema, whole and streamed alike."""
    fields = {"tools": [TOOL, OTHER], "tool_choice": "required", "max_tokens": 200, "temperature": 1,
              "parallel_tool_calls": False}
    for seed in range(3):
        choice = server.chat(USER, **fields, seed=seed)["choices"][0]
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        [call] = choice["message"]["tool_calls"]
        assert call["type"] == "function" and call["id"]
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "turn":
            assert list(arguments) == ["by"] and 0 <= arguments["by"] <= 9
        else:
            assert call["function"]["name"] == "stop" and arguments == {}
        name, text = "", ""
        events = server.stream("/v1/chat/completions", {"messages": [USER], **fields, "seed": seed})
        for event in events:
            for delta in event["choices"][0]["delta"].get("tool_calls", []):
                assert delta["index"] == 0
                name += delta["function"].get("name", "")
                text += delta["function"]["arguments"]
        assert (name, json.loads(text)) == (call["function"]["name"], arguments)
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("tool_format", ["qwen3_coder", "functiongemma", "gemma4", "deepseek_v31",
                                         "harmony"])
def test_a_required_call_in_other_formats(chat_model, tool_format):
    """Also when the limit cuts it: its beginning comes back, and nothing of its marks."""
    fields = {"tools": [TOOL, OTHER], "temperature": 1, "parallel_tool_calls": False,
              "tool_choice": {"type": "function", "function": {"name": "turn"}}}
    with Server(chat_model, "--ctx", 1024, "--threads", 1, "--tool-call-parser", tool_format) as server:
        whole = server.chat(USER, **fields, max_tokens=300, seed=1)
        choice = whole["choices"][0]
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        [call] = choice["message"]["tool_calls"]
        arguments = call["function"]["arguments"]
        assert call["function"]["name"] == "turn" and list(json.loads(arguments)) == ["by"]
        assert 0 <= json.loads(arguments)["by"] <= 9
        seen = set()
        step = 3 if tool_format == "harmony" else 9  # its arguments are the end of the reply
        for limit in range(4, whole["usage"]["completion_tokens"], step):
            choice = server.chat(USER, **fields, max_tokens=limit, seed=1)["choices"][0]
            assert choice["finish_reason"] == "length" and not choice["message"]["content"], choice
            for call in choice["message"].get("tool_calls", []):
                assert call["function"]["name"] == "turn"
                assert arguments.startswith(call["function"]["arguments"])
                seen.add(call["function"]["arguments"])
            parts = server.stream("/v1/chat/completions",
                                  {"messages": [USER], **fields, "max_tokens": limit, "seed": 1})
            deltas = [event["choices"][0]["delta"] for event in parts]
            assert not any(delta.get("content") for delta in deltas), deltas
            streamed = "".join(call["function"]["arguments"] for delta in deltas
                               for call in delta.get("tool_calls", []))
            told = choice["message"].get("tool_calls", [])
            assert streamed == (told[0]["function"]["arguments"] if told else "")
        assert len(seen) > 1


def test_one_function_by_name(server):
    choice = server.chat(USER, tools=[TOOL, OTHER], max_tokens=200, temperature=1, seed=1,
                         tool_choice={"type": "function", "function": {"name": "turn"}},
                         parallel_tool_calls=False)["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["turn"]


def test_tools_are_shown_unless_none(server):
    prompt = lambda **fields: bytes(t for t in server.chat(
        USER, max_tokens=1, return_token_ids=True, tools=[TOOL], **fields)
        ["choices"][0]["prompt_token_ids"] if t < 256)
    assert b"Turns a ring" in prompt() and b"Turns a ring" in prompt(tool_choice="auto")
    assert b"Turns a ring" not in prompt(tool_choice="none")


@pytest.mark.parametrize("fields, param", [
    ({"tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice.function.name"),
    ({"tool_choice": "perhaps"}, "tool_choice"),
    ({"tool_choice": {"type": "function"}}, "tool_choice"),
    ({"tool_choice": "required", "guided_regex": "x"}, "guided_regex"),
])
def test_bad_tool_choices(server, fields, param):
    server.refused("/v1/chat/completions", {"messages": [USER], "tools": [TOOL], **fields}, param)


def test_a_model_that_knows_no_tools(demo_server):
    demo_server.refused("/v1/chat/completions", {"messages": [USER], "tools": [TOOL]}, "tools")
