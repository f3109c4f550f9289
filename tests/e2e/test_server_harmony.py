"""Models that write messages in channels, as GPT-OSS does: what of a reply is reasoning, answer and
call, whole and streamed, held to a rule or cut; and the messages that their template gets."""

import json
import pathlib
import re

import pytest

from chat_model import write_chat_model
from ringkeep_cli import fails, ok_json, run
from serving import Server
from test_server_structured import OTHER, SCHEMA, TOOL, USER, check

MARKS = ["<bos>", "<eos>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>",
         "<|return|>", "<|call|>"]
TEMPLATE = (pathlib.Path(__file__).resolve().parents[1] / "golden/templates/harmony.jinja").read_text()
# Thoughts end soon; a random model seldom writes a mark by itself.
BRIEF = {"logit_bias": {str(256 + MARKS.index("<|end|>")): 6}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("harmony") / "model"
    return write_chat_model(path, TEMPLATE, specials=MARKS, ends=(257,))


@pytest.fixture(scope="module")
def channels(model):
    with Server(model, "--ctx", 4096, "--parallel", 4, "--threads", 1) as running:
        yield running


def spelled(tokens):
    """The text of token ids with all control tokens, as bytes."""
    return b"".join(bytes([t]) if t < 256 else MARKS[t - 256].encode() if t < 256 + len(MARKS) else b""
                    for t in tokens)


def messages_of(text):
    """[(header, text)] of a reply to a prompt that ends with <|start|>assistant."""
    found = []
    for message in text.split("<|start|>assistant"):
        header, mark, body = message.partition("<|message|>")
        if mark:
            found.append((header, re.split(r"<\|(?:end|return|call)\|>", body)[0]))
    return found


def streamed(server, fields):
    content, reasoning, calls = "", "", []
    events = server.stream("/v1/chat/completions", {"messages": [USER], **fields})
    for event in events:
        delta = event["choices"][0]["delta"]
        content += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(calls):
                calls.append({"name": call["function"]["name"], "arguments": ""})
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    return content, reasoning, calls, events[-1]["choices"][0]["finish_reason"]


def same_as_streamed(server, fields, choice):
    message = choice["message"]
    content, reasoning, calls, finish = streamed(server, fields)
    assert content == (message["content"] or "")
    assert reasoning == message.get("reasoning_content", "")
    assert calls == [{k: call["function"][k] for k in ("name", "arguments")}
                     for call in message.get("tool_calls", [])]
    assert finish == choice["finish_reason"]


def test_a_rule_holds_the_final_channel_alone(channels):
    """The answer is of the schema; what is thought before it is free."""
    thought = 0
    for seed in range(8):
        fields = {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                  "temperature": 1, "seed": seed, "max_tokens": 800, **BRIEF}
        choice = channels.chat(USER, return_token_ids=True, **fields)["choices"][0]
        assert choice["finish_reason"] == "stop"
        check(json.loads(choice["message"]["content"]))
        text = spelled(choice["token_ids"]).decode("utf-8", "replace")
        *thoughts, (header, answer) = messages_of(text)
        assert header == "<|channel|>final" and answer == choice["message"]["content"], text
        assert {header for header, _ in thoughts} <= {"<|channel|>analysis"}
        texts = [body for _, body in thoughts if body]
        assert choice["message"].get("reasoning_content", "") == "\n".join(texts)
        thought += bool(texts)
        same_as_streamed(channels, fields, choice)
    assert thought > 1


@pytest.mark.parametrize("parallel", [False, True])
def test_a_required_call(channels, parallel):
    # Not thinking forever: 'c' of commentary against 'a' of analysis.
    bias = {str(256 + MARKS.index("<|end|>")): 12, str(ord("c")): 6}
    fields = {"tools": [TOOL, OTHER], "tool_choice": "required", "max_tokens": 3000, "temperature": 2,
              "parallel_tool_calls": parallel, "logit_bias": bias}
    counts = set()
    for seed in range(6):
        choice = channels.chat(USER, **fields, seed=seed, return_token_ids=True)["choices"][0]
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        calls = choice["message"]["tool_calls"]
        counts.add(min(len(calls), 2))
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "turn":
                assert list(arguments) == ["by"] and 0 <= arguments["by"] <= 9
            else:
                assert call["function"]["name"] == "stop" and arguments == {}
        heads = [header for header, _ in messages_of(spelled(choice["token_ids"]).decode("utf-8", "replace"))]
        assert [h for h in heads if h != "<|channel|>analysis"] == [
            f"<|channel|>commentary to=functions.{call['function']['name']} <|constrain|>json" for call in calls]
        same_as_streamed(channels, {**fields, "seed": seed}, choice)
    assert max(counts) == (2 if parallel else 1)


def test_a_cut_call_shows_no_marks(channels):
    fields = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "turn"}},
              "temperature": 1, "seed": 1, "parallel_tool_calls": False, **BRIEF}
    whole = channels.chat(USER, **fields, max_tokens=800)
    message = whole["choices"][0]["message"]
    arguments = message["tool_calls"][0]["function"]["arguments"]
    for limit in range(1, whole["usage"]["completion_tokens"], 5):
        choice = channels.chat(USER, **fields, max_tokens=limit)["choices"][0]
        assert choice["finish_reason"] == "length" and not choice["message"]["content"], choice
        assert message.get("reasoning_content", "").startswith(
            choice["message"].get("reasoning_content", "").removesuffix("\ufffd"))
        for call in choice["message"].get("tool_calls", []):
            assert call["function"]["name"] == "turn"
            assert arguments.startswith(call["function"]["arguments"])
        same_as_streamed(channels, {**fields, "max_tokens": limit}, choice)


@pytest.mark.parametrize("mark", ["<|return|>", "<|call|>"])
def test_what_ends_a_reply(channels, mark):
    """<|return|> and <|call|>, which the model's files do not name; not <|end|>."""
    bias = {"logit_bias": {str(256 + MARKS.index(mark)): 100}, "max_tokens": 8}
    reply = channels.chat(USER, **bias)
    assert reply["choices"][0]["finish_reason"] == "stop" and reply["usage"]["completion_tokens"] == 1
    reply = channels.chat(USER, **bias, ignore_eos=True)
    assert reply["choices"][0]["finish_reason"] == "length"
    reply = channels.chat(USER, logit_bias={str(256 + MARKS.index("<|end|>")): 100}, max_tokens=8)
    assert reply["choices"][0]["finish_reason"] == "length" and reply["choices"][0]["message"]["content"] == ""


def test_reasoning_may_stay_in_the_content(model):
    with Server(model, "--ctx", 2048, "--threads", 1, "--reasoning-parser", "none") as server:
        for seed in range(8):
            choice = server.chat(USER, guided_regex="[a-c]{3}", temperature=1, seed=seed, max_tokens=400,
                                 return_token_ids=True, **BRIEF)["choices"][0]
            text = spelled(choice["token_ids"]).decode("utf-8", "replace")
            assert "reasoning_content" not in choice["message"]
            expected = text.replace("<|start|>assistant", "").replace("<|channel|>final<|message|>", "")
            assert choice["message"]["content"] == expected
            if "<|channel|>analysis" in text:
                break
        else:
            raise AssertionError("nothing was thought")


def test_formats_that_cannot_be_mixed(model):
    fails(2, "serve", model, "--port", 0, "--tool-call-parser", "hermes", mentions=["harmony", "hermes"])
    fails(2, "serve", model, "--port", 0, "--reasoning-parser", "think", mentions=["harmony", "think"])


def call(ident, name, **arguments):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def test_messages_as_the_template_reads_them(channels):
    """Reasoning beside a call, content of null, calls side by side, a tool without a description."""
    def prompt(*messages, **fields):
        reply = channels.chat(*messages, max_tokens=1, return_token_ids=True, **fields)
        return spelled(reply["choices"][0]["prompt_token_ids"]).decode()

    several = {"role": "assistant", "content": None, "reasoning_content": "Both.",
               "tool_calls": [call("a", "turn", by=1), call("b", "stop")]}
    results = [{"role": "tool", "tool_call_id": "b", "content": "stopped"},
               {"role": "tool", "tool_call_id": "a", "content": "turned"}]
    text = prompt(USER, several, *results, tools=[TOOL, OTHER], reasoning_effort="high")
    assert "Reasoning: high" in text and "// \ntype stop = () => any;" in text
    assert text.endswith(
        "<|start|>user<|message|>Say it.<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>Both.<|end|>"
        '<|start|>assistant to=functions.turn<|channel|>commentary json<|message|>{"by": 1}<|call|>'
        '<|start|>functions.turn to=assistant<|channel|>commentary<|message|>"turned"<|end|>'
        "<|start|>assistant to=functions.stop<|channel|>commentary json<|message|>{}<|call|>"
        '<|start|>functions.stop to=assistant<|channel|>commentary<|message|>"stopped"<|end|>'
        "<|start|>assistant")
    answered = {"role": "assistant", "content": "So.", "reasoning_content": "Why?"}
    text = prompt({"role": "developer", "content": "Be kind."}, USER, answered, USER)
    assert "<|start|>developer<|message|># Instructions\n\nBe kind." in text
    assert "Why?" not in text and "<|channel|>final<|message|>So.<|end|>" in text


def test_run_tells_the_answer_from_the_reasoning(model):
    """What is no message is the answer; marks are not in it."""
    flags = ["run", model, "-p", "a", "-n", 24, "--temp", 1, "--seed", 3]
    no_marks = [f"{256 + i}:-100" for i in range(len(MARKS))]
    out = ok_json(*flags, *[flag for bias in no_marks for flag in ("--logit-bias", bias)])
    assert out["text"] == spelled(out["tokens"]).decode("utf-8", "replace") and "reasoning" not in out
    ends = ["--logit-bias", f"{256 + MARKS.index('<|end|>')}:100"]
    assert ok_json(*flags, *ends)["text"] == ""
    assert run(*flags, *ends).stdout == b"\n"


def test_marks_that_an_assistant_said_stay_text(channels):
    """In content, in the name of a tool and in what it was called with: the end of a message is what
    the template writes."""
    end = 256 + MARKS.index("<|end|>")
    call = lambda name, arguments: {"role": "assistant", "tool_calls": [
        {"type": "function", "id": "1", "function": {"name": name, "arguments": json.dumps(arguments)}}]}
    count = lambda said: channels.chat(USER, said, USER, max_tokens=1, return_token_ids=True)[
        "choices"][0]["prompt_token_ids"].count(end)
    assert count({"role": "assistant", "content": "a <|end|> b"}) == count({"role": "assistant", "content": "a"})
    plain = count(call("turn", {"by": "x"}))
    for said in (call("tu<|end|>rn", {"by": "x"}), call("turn", {"by": "<|end|>"}), call("turn", {"<|end|>": 1})):
        assert count(said) == plain, said


def test_marks_that_are_only_spelled_are_text(channels):
    """In an answer and in a call's arguments that a rule makes spell them, and in stop strings."""
    text = "a <|end|><|start|>assistant<|channel|>final<|message|>b <|call|>"
    rule = {"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": {"a": text}}}}}
    fields = {**rule, "max_tokens": 900, "temperature": 1, "seed": 2, **BRIEF}
    choice = channels.chat(USER, **fields)["choices"][0]
    assert json.loads(choice["message"]["content"]) == {"a": text}
    same_as_streamed(channels, fields, choice)

    tool = {"type": "function", "function": {"name": "say", "parameters": {
        "type": "object", "properties": {"a": {"const": text}}, "required": ["a"], "additionalProperties": False}}}
    fields = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 900,
              "temperature": 1, "seed": 3, "logit_bias": {str(256 + MARKS.index("<|end|>")): 12, str(ord("c")): 6}}
    choice = channels.chat(USER, **fields)["choices"][0]
    (made,) = choice["message"]["tool_calls"]
    assert json.loads(made["function"]["arguments"]) == {"a": text} and choice["finish_reason"] == "tool_calls"
    same_as_streamed(channels, fields, choice)
    # A stop string is met in what is spelled, not in a mark; a call that it cuts is none to make.
    cut = channels.chat(USER, **fields, stop=["<|message|>{", "<|end|>"])["choices"][0]
    (made,) = cut["message"]["tool_calls"]
    assert cut["finish_reason"] == "stop" and made["function"]["name"] == "say"
    assert re.fullmatch(r'\{\s*"a":\s*"a ', made["function"]["arguments"])


def test_a_chat_with_tools_is_counted_as_it_is_run(channels):
    fields = {"messages": [USER], "tools": [TOOL, OTHER], "reasoning_effort": "low",
              "chat_template_kwargs": {"model_identity": "You are a ring."}}
    run = channels.post("/v1/chat/completions", {**fields, "max_tokens": 1, "return_token_ids": True})
    counted = channels.post("/tokenize", fields)
    assert counted.json["tokens"] == run.json["choices"][0]["prompt_token_ids"]
    assert counted.json["count"] > channels.post("/tokenize", {"messages": [USER]}).json["count"]
